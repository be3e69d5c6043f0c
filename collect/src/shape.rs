//! What is the same for every record of one place in a program.

use crate::batch::{Record, SHIFT};
use crate::references::LONG_RANGE;
use bf_stack::Item;

/// The form of a record: which words it has and which accesses they stand for. Word 0 is its header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub(crate) steps: Vec<Step>,
    /// Items of the steps, two for a copy: what it loads and what it stores. Empty if they are all [`Item::NONE`].
    pub(crate) items: Vec<Item>,
    /// How many items the steps have.
    pub(crate) item_count: usize,
    /// The words that are steps' first, each once.
    pub(crate) places: Vec<u32>,
    pub(crate) words: u32,
    pub(crate) stream: bool,
    /// Its steps if it is plain, as they are read most.
    pub(crate) simple: Vec<Simple>,
    /// Number of its segment, from 1 up; 0 if segments of one form are not told apart.
    pub(crate) origin: u32,
    /// The function that it is in, in numbers of the caller from 1 up; 0: unknown, or not told apart.
    pub(crate) function: u32,
    /// What it does besides.
    pub(crate) event: Option<Event>,
}

/// What happens to memory, besides accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A block was allocated: the words are the header, its address and its length in bytes.
    Allocation {
        /// Where in the source, in numbers of the caller.
        site: u32,
    },
    /// A block is freed: the words are the header and its address.
    Release,
    /// The thread is on another call path: the words are the header and 1 + a number whose low 16 bits are the path.
    Path,
}

/// One part of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The first of its words: an address, or 0 if it did not happen. In a stream the stride follows.
    pub word: u32,
    /// Added to the address of a load or store.
    pub offset: i32,
    /// What happens there.
    pub what: What,
    /// What its references are attributed to.
    pub item: Item,
}

/// A short load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Simple {
    /// As in a step.
    pub(crate) word: u32,
    pub(crate) offset: i32,
    /// Bytes, less one.
    pub(crate) more: u32,
    pub(crate) store: bool,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Loads so many bytes.
    Load(u32),
    /// Stores so many bytes.
    Store(u32),
    /// Loads as many bytes as the second word says.
    LoadRange,
    /// Stores as many bytes as the second word says.
    StoreRange,
    /// Copies to the first word's address from the second's, as many bytes as the third says: see
    /// [`Batch::copy`](crate::Batch::copy).
    Copy,
}

impl Step {
    /// As a short load or store, if it is one.
    fn simple(&self) -> Option<Simple> {
        let (size, store) = match self.what {
            What::Load(size) => (size, false),
            What::Store(size) => (size, true),
            _ => return None,
        };
        let short = (1..=Shape::LONG).contains(&size);
        short.then(|| Simple { word: self.word, offset: self.offset, more: size - 1, store })
    }

    /// How many items it has.
    pub(crate) const fn items(&self) -> usize {
        match self.what {
            What::Copy => 2,
            _ => 1,
        }
    }

    const fn words(self, stream: bool) -> u32 {
        match self.what {
            What::Load(_) | What::Store(_) => 1 + stream as u32,
            What::LoadRange | What::StoreRange => 2,
            What::Copy => 3,
        }
    }
}

impl Shape {
    /// Word of a stream that holds its number of iterations.
    pub const COUNT: u32 = 1;
    /// Longest access of a plain shape, bytes: longer ones may walk over their lines.
    const LONG: u32 = (LONG_RANGE << SHIFT) as u32 - 1;

    /// A record of `words` words, header included, whose steps happen once. `None` if a step has words outside.
    #[must_use]
    pub fn once(words: u32, steps: Vec<Step>) -> Option<Self> {
        Self::new(words, steps, false)
    }

    /// A record of a loop: its steps happen in each iteration, at addresses that move on by their strides. `None` if a
    /// step has words outside, or is no load or store.
    #[must_use]
    pub fn stream(words: u32, steps: Vec<Step>) -> Option<Self> {
        let fits = |step: &Step| step.word > Self::COUNT && matches!(step.what, What::Load(_) | What::Store(_));
        (words > Self::COUNT && steps.iter().all(fits)).then(|| Self::new(words, steps, true)).flatten()
    }

    /// A record of `words` words that stands for nothing.
    #[must_use]
    pub const fn empty(words: u32) -> Self {
        Self {
            steps: Vec::new(),
            items: Vec::new(),
            item_count: 0,
            places: Vec::new(),
            words,
            stream: false,
            simple: Vec::new(),
            origin: 0,
            function: 0,
            event: None,
        }
    }

    /// A record of something other than accesses. `None` if that has more words.
    #[must_use]
    pub fn event(words: u32, event: Event) -> Option<Self> {
        let needed = match event {
            Event::Allocation { .. } => 3,
            Event::Release | Event::Path => 2,
        };
        (words >= needed).then(|| Self { event: Some(event), ..Self::empty(words) })
    }

    fn new(words: u32, steps: Vec<Step>, stream: bool) -> Option<Self> {
        let inside = |step: &Step| step.word > 0 && words.checked_sub(step.word) >= Some(step.words(stream));
        if words == 0 || !steps.iter().all(inside) {
            return None;
        }
        let simple = steps.iter().map(Step::simple).collect::<Option<Vec<_>>>().unwrap_or_default();
        let mut places: Vec<_> = steps.iter().map(|step| step.word).collect();
        places.sort_unstable();
        places.dedup();
        let items: Vec<_> = steps.iter().flat_map(|step| std::iter::repeat_n(step.item, step.items())).collect();
        let item_count = items.len();
        let items = if items.iter().all(|&item| item == Item::NONE) { Vec::new() } else { items };
        Some(Self { steps, items, item_count, places, words, stream, simple, origin: 0, function: 0, event: None })
    }

    /// The shape of one segment, told apart from others of the same form by its number, from 1 up.
    #[must_use]
    pub const fn of_segment(mut self, number: u32) -> Self {
        self.origin = number;
        self
    }

    /// The number of the segment that it is told apart by, from 1 up; 0 if it is not.
    #[must_use]
    pub const fn origin(&self) -> u32 {
        self.origin
    }

    /// The shape of one function, told apart from others of the same form by its number, from 1 up.
    #[must_use]
    pub const fn in_function(mut self, number: u32) -> Self {
        self.function = number;
        self
    }

    /// The shape of a stream that makes the accesses of these records again and again, and the words that its steps begin
    /// with. `None` if there is more to them.
    pub(crate) fn repeated<'a>(records: impl Iterator<Item = Record<'a>>) -> Option<(Self, Vec<u64>)> {
        let (mut steps, mut all_words) = (Vec::new(), Vec::new());
        for record in records {
            let Record::Shaped { shape, words, whole: true, .. } = record else { return None };
            if shape.stream || !shape.plain() || shape.event.is_some() {
                return None;
            }
            let word = |word: u32| 2 * (all_words.len() as u32 + word);
            steps.extend(shape.steps.iter().map(|step| Step { word: word(step.word), ..*step }));
            all_words.extend_from_slice(&words[1..]);
        }
        Some((Self::stream(2 + 2 * all_words.len() as u32, steps)?, all_words))
    }

    /// Whether it has only loads and stores, none of them long.
    #[inline]
    pub(crate) const fn plain(&self) -> bool {
        self.simple.len() == self.steps.len()
    }

    /// How often the steps of a record happen.
    pub(crate) fn iterations(&self, words: &[u64]) -> u64 {
        if self.stream { words[Self::COUNT as usize] } else { 1 }
    }

    /// Whether some step of a record did not happen.
    pub(crate) fn has_holes(&self, words: &[u64]) -> bool {
        self.places.iter().any(|&place| words[place as usize] == 0)
    }

    /// Moves the addresses of a stream on by so many iterations, those that are 0 too if it has no `holes`.
    pub(crate) fn advance(&self, words: &mut [u64], iterations: u64, holes: bool) {
        for &place in self.places.iter().filter(|_| self.stream) {
            let stride = words[place as usize + 1];
            let address = &mut words[place as usize];
            if *address != 0 || !holes {
                *address = address.wrapping_add(stride.wrapping_mul(iterations));
            }
        }
    }
}

//! Accesses in program order, as they were recorded: what happens in a loop is not written out.

use crate::courses::Course;
use crate::objects::{Objects, Replaced};
use crate::references::LONG_RANGE;
use crate::shape::{Event, Shape, What};
use crate::walks;
use bf_stack::Item;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Length of the pieces in which `memcpy` is modelled, bytes.
const PIECE: u64 = 4096;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes, more than 0, below 2^63.
    pub size: u64,
    /// Store or load.
    pub store: bool,
}

impl Access {
    /// `None` for size 0. What would lie past the end of the address space is cut off.
    pub(crate) fn new(address: u64, size: u64, store: bool) -> Option<Self> {
        let room = (u64::MAX - address).saturating_add(1);
        let size = size.min(room).min(u64::MAX >> 1);
        (size > 0).then_some(Self { address, size, store })
    }
}

/// Where recorded words come from.
pub trait Shapes {
    /// How many words the record with this header has, the header included.
    fn words(&self, header: u64) -> u32;
    /// A number that stands for the shape of a record, whose words these are. Called once for each record.
    fn number(&mut self, record: &[u64]) -> u32;
    /// The shape of that number.
    fn shape(&mut self, number: u32) -> Arc<Shape>;
}

/// Shapes for tests: number n has the header n + 1.
#[cfg(test)]
pub(crate) struct TestShapes(pub(crate) Vec<Arc<Shape>>);

#[cfg(test)]
impl Shapes for TestShapes {
    fn words(&self, header: u64) -> u32 {
        self.0[header as usize - 1].words
    }

    fn number(&mut self, record: &[u64]) -> u32 {
        record[0] as u32 - 1
    }

    fn shape(&mut self, number: u32) -> Arc<Shape> {
        Arc::clone(&self.0[number as usize])
    }
}

/// Accesses of one thread in program order. Reusable: [`Batch::clear`] keeps the memory.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Records: a [`Tag`], then what it says.
    words: Vec<u64>,
    /// By number; those that it does not know stand for nothing.
    shapes: Vec<Arc<Shape>>,
    /// Likewise.
    known: Vec<Known>,
    /// Where the tag is to which single accesses are being added.
    singles: Option<usize>,
    accesses: u64,
    /// Lines that its records load and store as ranges which may be walked over.
    range_lines: u64,
    /// Records that are events.
    events: usize,
    /// Whether some shape that it knows is attributed to something.
    attributed: bool,
    /// The items of its records one after the other, if they depend on where the accesses go.
    items: Vec<Item>,
    /// What [`Objects::changes`] said all the while they were looked up.
    objects: Option<u64>,
    /// Whether they are yet to be looked up.
    owed: bool,
    /// The blocks that what it allocates got memory of, in its order, if somebody wants to know.
    replaced: Vec<Replaced>,
    /// Of the record that [`Batch::fold`] put in the place of others.
    folded: Option<Arc<Shape>>,
}

/// What a batch knows of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// The accesses of a record of it.
    Accesses(u32),
    /// Of an iteration of it.
    Each(u32),
    /// They have to be counted.
    Varies,
}

/// Where a record begins, or the last one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) word: usize,
    /// Of the items of records, if those depend on where accesses go.
    pub(crate) item: usize,
}

impl Place {
    pub(crate) const START: Self = Self { word: 0, item: 0 };
    /// Behind what is not attributed.
    pub(crate) const NO_ITEM: usize = usize::MAX;
}

/// Of two records that are alike.
pub(crate) struct Likeness {
    /// Where the first one ends.
    pub(crate) end: Place,
    /// Whether they load and store the same lines.
    pub(crate) same_lines: bool,
}

/// Records that come again and again.
pub(crate) struct Repeats {
    /// Where.
    words: Range<usize>,
    times: u64,
    /// Of a stream that makes the accesses of all of them.
    shape: Shape,
    /// What its steps begin with.
    addresses: Vec<u64>,
}

/// First word of a record.
#[derive(Clone, Copy)]
struct Tag(u64);

impl Tag {
    /// Nothing.
    const NONE: u64 = 0;
    /// Single accesses, as many as the upper half says: each an address and `size << 1 | store`.
    const SINGLES: u64 = 1;
    /// A record of the folded shape.
    const FOLDED: u64 = 2;
    /// From here on: shapes, by number; in the upper half 1 if some step did not happen.
    const SHAPES: u64 = 3;

    #[inline]
    const fn shape(number: u32, holes: bool) -> u64 {
        (Self::SHAPES + number as u64) | (holes as u64) << 32
    }

    #[inline]
    const fn kind(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    #[inline]
    const fn upper(self) -> u64 {
        self.0 >> 32
    }
}

/// One record of a batch. Its items are one for each access, or for each step and two for a copy; none: nothing in particular.
#[derive(Clone, Copy)]
pub(crate) enum Record<'a> {
    /// Accesses: each an address and `size << 1 | store`.
    Singles { words: &'a [u64], items: &'a [Item] },
    /// `words`, the header's place included, of a shape, which has this number.
    Shaped { shape: &'a Shape, number: u64, words: &'a [u64], whole: bool, items: &'a [Item] },
}

impl Batch {
    /// Accesses after which [`Batch::append`] hands the batch on.
    pub const MOST: u64 = 1 << 16;

    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for so many words.
    pub(crate) fn with_capacity(words: usize) -> Self {
        Self { words: Vec::with_capacity(words), ..Self::default() }
    }

    /// Makes room for so many words more.
    pub(crate) fn reserve(&mut self, words: usize) {
        self.words.reserve(words);
    }

    /// One access of `size` bytes; size 0 is no access. What would lie past the end of the address space is cut off.
    #[inline]
    pub fn access(&mut self, address: u64, size: u64, store: bool) {
        let Some(access) = Access::new(address, size, store) else { return };
        let tag = *self.singles.get_or_insert_with(|| {
            self.words.push(Tag::SINGLES);
            self.words.len() - 1
        });
        self.words[tag] += 1 << 32;
        self.words.extend([access.address, access.size << 1 | u64::from(store)]);
        self.accesses += 1;
    }

    /// A `memcpy` or `memmove`: pieces of 4096 bytes from the start, each a load range then a store range.
    pub fn copy(&mut self, to: u64, from: u64, size: u64) {
        copy(to, from, size, |access| self.access(access.address, access.size, access.store));
    }

    /// Takes recorded words: records one after the other, each a header, which `shapes` knows, and the words of its shape;
    /// a zero where a header is expected is skipped. Returns how many words it took: the last record may not be all there.
    ///
    /// Whenever there would be more than [`Batch::MOST`] accesses, they go to `feed` and are forgotten here; what is left
    /// at the end stays. `feed` may take what the batch holds.
    pub fn append(
        &mut self,
        words: impl Iterator<Item = u64>,
        shapes: &mut impl Shapes,
        mut feed: impl FnMut(&mut Self),
    ) -> usize {
        self.singles = None;
        let (mut from, mut taken) = (self.words.len(), 0);
        let mut at = from;
        self.words.extend(words);
        let mut zero = self.next_zero(from);
        while let Some(&header) = self.words.get(at) {
            if header == 0 {
                at += 1;
                continue;
            }
            let next = at + shapes.words(header) as usize;
            let Some(record) = self.words.get(at..next) else { break };
            let number = shapes.number(record);
            let known = self.known(number, shapes);
            if zero < at {
                zero = self.next_zero(at);
            }
            let (holes, accesses) = match known {
                Known::Accesses(accesses) if zero >= next => (false, accesses.into()),
                Known::Each(accesses) if zero >= next => {
                    (false, self.words[at + Shape::COUNT as usize].saturating_mul(accesses.into()))
                }
                _ => self.examine(number, at..next),
            };
            self.words[at] = Tag::shape(number, holes);
            if accesses == 0 {
                self.events += usize::from(self.shapes[number as usize].event.is_some());
            }
            if self.accesses.saturating_add(accesses) > Self::MOST {
                // What comes after this record waits.
                let rest = self.words.split_off(next);
                self.in_parts(at, number, shapes, &mut feed);
                self.words = rest;
                taken += next - from;
                (from, at) = (0, 0);
                zero = self.next_zero(0);
            } else {
                self.accesses += accesses;
                at = next;
            }
        }
        self.words.truncate(at);
        taken + at - from
    }

    /// Hands on what there is and then the record at `last`, which is not counted yet, a stream in parts.
    fn in_parts(&mut self, last: usize, number: u32, shapes: &mut impl Shapes, feed: &mut impl FnMut(&mut Self)) {
        let mut record = self.words.split_off(last);
        self.hand_on(feed);
        let shape = shapes.shape(number);
        let (each, mut left) = (count(&shape, &record), shape.iterations(&record));
        let holes = shape.has_holes(&record);
        while left > 0 && each > 0 {
            let part = left.min((Self::MOST / each).max(1));
            let _ = self.known(number, shapes);
            record[0] = Tag::shape(number, holes);
            if shape.stream {
                record[Shape::COUNT as usize] = part;
            }
            self.words.extend_from_slice(&record);
            self.accesses = part * each;
            self.hand_on(feed);
            shape.advance(&mut record, part, holes);
            left -= part;
        }
    }

    fn hand_on(&mut self, feed: &mut impl FnMut(&mut Self)) {
        if !self.is_empty() {
            feed(self);
        }
        self.clear();
    }

    /// Where the first zero is from there on.
    fn next_zero(&self, from: usize) -> usize {
        const MANY: usize = 64;
        let words = &self.words[from..];
        // Without a branch for each word, so that it is done in vectors.
        let some = |words: &[u64]| words.iter().fold(false, |some, &word| some | (word == 0));
        let found = words.chunks(MANY).position(some).and_then(|chunk| {
            let begin = chunk * MANY;
            Some(begin + words[begin..].iter().position(|&word| word == 0)?)
        });
        found.map_or(usize::MAX, |position| from + position)
    }

    /// Whether some step of the record there did not happen, and how many accesses it stands for.
    fn examine(&mut self, number: u32, record: Range<usize>) -> (bool, u64) {
        let (shape, record) = (&*self.shapes[number as usize], &self.words[record]);
        let holes = shape.has_holes(record);
        let each = if shape.plain() && !holes { shape.steps.len() as u64 } else { count(shape, record) };
        self.range_lines = self.range_lines.saturating_add(range_lines(shape, record));
        (holes, shape.iterations(record).saturating_mul(each))
    }

    /// What there is to know of the shape of this number.
    #[inline]
    fn known(&mut self, number: u32, shapes: &mut impl Shapes) -> Known {
        match self.known_of(number as usize) {
            Known::Nothing => self.learn(number as usize, shapes.shape(number)),
            known => known,
        }
    }

    #[inline]
    fn known_of(&self, number: usize) -> Known {
        self.known.get(number).copied().unwrap_or(Known::Nothing)
    }

    #[cold]
    fn learn(&mut self, number: usize, shape: Arc<Shape>) -> Known {
        if self.known.len() <= number {
            let nothing = Arc::new(Shape::empty(1));
            self.shapes.resize(number + 1, nothing);
            self.known.resize(number + 1, Known::Nothing);
        }
        let steps = shape.steps.len() as u32;
        let known = match (shape.plain(), shape.stream) {
            (true, false) => Known::Accesses(steps),
            (true, true) => Known::Each(steps),
            _ => Known::Varies,
        };
        self.attributed |= !shape.items.is_empty();
        (self.shapes[number], self.known[number]) = (shape, known);
        known
    }

    /// Gives all accesses to `take`.
    pub fn for_each(&self, mut take: impl FnMut(Access)) {
        self.for_each_item(|access, _| take(access));
    }

    /// The same, with what each is attributed to.
    pub(crate) fn for_each_item(&self, mut take: impl FnMut(Access, Item)) {
        self.records().for_each(|record| record.for_each(&mut take));
    }

    /// Whether some shape that it knows is attributed to something.
    pub(crate) fn is_attributed(&self) -> bool {
        self.attributed || self.goes_by_address()
    }

    /// Whether items depend on where accesses go.
    pub(crate) fn goes_by_address(&self) -> bool {
        !self.items.is_empty()
    }

    /// Attributes its accesses, which `slot` made, to its call paths, too, and, if that `by_object` says so, to what lies
    /// there; what it allocates and frees is noted on the way.
    pub(crate) fn attribute(&mut self, slot: u32, by_object: bool, objects: &mut Objects) {
        let mut all = std::mem::take(&mut self.items);
        all.clear();
        let before = objects.changes();
        for record in self.records() {
            match record {
                Record::Shaped { shape: Shape { event: Some(event), .. }, words, .. } => {
                    objects.note(slot, *event, words);
                }
                Record::Shaped { shape, .. } if !by_object => {
                    let path = objects.path(slot);
                    match shape.items.as_slice() {
                        [] => {
                            let item = objects.item_of_path(Item::NONE, path);
                            all.extend(std::iter::repeat_n(item, shape.item_count));
                        }
                        items => all.extend(items.iter().map(|&place| objects.item_of_path(place, path))),
                    }
                }
                Record::Shaped { shape, words, .. } => {
                    let path = objects.path(slot);
                    for step in &shape.steps {
                        let mut add = |word: u32, offset: i32| {
                            let address = words[(step.word + word) as usize].wrapping_add_signed(offset.into());
                            all.push(objects.item(step.item, path, address));
                        };
                        match step.what {
                            What::Copy => [1, 0].into_iter().for_each(|word| add(word, 0)),
                            _ => add(0, step.offset),
                        }
                    }
                }
                Record::Singles { words, .. } => {
                    let path = objects.path(slot);
                    let words = words.as_chunks::<2>().0.iter();
                    all.extend(words.map(|&[address, _]| match by_object {
                        true => objects.item(Item::NONE, path, address),
                        false => objects.item_of_path(Item::NONE, path),
                    }));
                }
            }
        }
        self.items = all;
        self.objects = Some(before).filter(|&before| before == objects.changes());
        self.owed = false;
    }

    /// What [`Objects::changes`] said when it was attributed, if that was the same from its first access to the last.
    pub(crate) fn objects(&self) -> Option<u64> {
        self.objects
    }

    /// Leaves it to others to attribute it where that is not known from elsewhere.
    pub(crate) fn attribute_later(&mut self) {
        self.owed = true;
    }

    /// Whether it was left to others to attribute it.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Accesses since the last `clear`.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Whether there are no records, not even of places without accesses: wherever records are cut into batches they are the same,
    /// all together.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn has_events(&self) -> bool {
        self.events > 0
    }

    /// What it allocates got memory of these blocks.
    pub(crate) fn set_replaced(&mut self, replaced: Vec<Replaced>) {
        self.replaced = replaced;
    }

    /// What [`Batch::set_replaced`] was told.
    pub(crate) fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    /// Gives all events to `take`, with the words of their records.
    pub(crate) fn for_each_event(&self, mut take: impl FnMut(Event, &[u64])) {
        for record in self.records() {
            if let Record::Shaped { shape: Shape { event: Some(event), .. }, words, .. } = record {
                take(*event, words);
            }
        }
    }

    /// Gives the accesses between two places to `take`, as courses.
    pub(crate) fn for_each_course(&self, between: Range<Place>, mut take: impl FnMut(Course)) {
        self.records_between(between).for_each(|record| record.for_each_course(&mut take));
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The place behind so many words from a place on, or, where that is within a record, behind that.
    pub(crate) fn place_behind(&self, from: Place, words: usize) -> Place {
        self.place_while(from, words, |_| true)
    }

    /// The last place before which there are so many words at most.
    pub(crate) fn place_up_to(&self, words: usize) -> Place {
        self.place_up_to_from(Place::START, words)
    }

    /// The same, where it is known not to be before a place.
    pub(crate) fn place_up_to_from(&self, mut place: Place, words: usize) -> Place {
        let mut records = self.records_between(place..self.end());
        while records.next().is_some() && self.place_before(&records).word <= words {
            place = self.place_before(&records);
        }
        place
    }

    /// Of what comes next in two batches, if those are records of one shape and no events: where that ends, and whether they
    /// load and store the same lines of `1 << shift` bytes.
    pub(crate) fn likeness(&self, at: Place, other: &Self, there: Place, shift: u32) -> Option<Likeness> {
        /// Accesses, at most.
        const MOST: u64 = 64;
        let (end, end_there) = (self.place_behind(at, 1), other.place_behind(there, 1));
        let short = |record: &Record<'_>| record.accesses() <= MOST;
        let one = self.records_between(at..end).next().filter(short)?;
        let another = other.records_between(there..end_there).next().filter(short)?;
        let lines = |record: Record<'_>| {
            let mut lines = SmallVec::<[_; 8]>::new();
            let line = |address: u64| address >> shift;
            record.for_each(&mut |access: Access, _| {
                lines.push((line(access.address), line(access.address + (access.size - 1)), access.store));
            });
            lines
        };
        let alike = one.is_like(&another) && end.word - at.word == end_there.word - there.word;
        alike.then(|| Likeness { end, same_lines: lines(one) == lines(another) })
    }

    /// Puts other words in the place of those from a word on.
    pub(crate) fn overwrite(&mut self, word: usize, words: &[u64]) {
        self.words[word..word + words.len()].copy_from_slice(words);
    }

    /// The same as [`Self::place_behind`], or behind the record that brings so many accesses.
    pub(crate) fn place_behind_some(&self, from: Place, words: usize, mut accesses: u64) -> Place {
        self.place_while(from, words, |record| {
            accesses = accesses.saturating_sub(record.accesses());
            accesses > 0
        })
    }

    fn place_while(&self, from: Place, words: usize, mut goes_on: impl FnMut(Record<'_>) -> bool) -> Place {
        let mut records = self.records_between(from..self.end());
        while self.place_before(&records).word - from.word < words && records.next().is_some_and(&mut goes_on) {}
        self.place_before(&records)
    }

    /// Where its last records begin.
    fn place_before(&self, last: &Records<'_>) -> Place {
        Place { word: self.words.len() - last.words.len(), item: self.items.len() - last.items.len() }
    }

    /// Where the last record ends.
    pub(crate) fn end(&self) -> Place {
        Place { word: self.words.len(), item: self.items.len() }
    }

    /// Adds what another one has between two places. Accesses and events are not counted.
    pub(crate) fn add(&mut self, other: &Self, between: Range<Place>) {
        let mut learn = |number: usize| {
            if self.known_of(number) == Known::Nothing {
                self.learn(number, Arc::clone(&other.shapes[number]));
            }
        };
        // It does no harm to know more than is there.
        if other.known.len() < between.end.word - between.start.word {
            let known = |number: &usize| other.known[*number] != Known::Nothing;
            (0..other.known.len()).filter(known).for_each(&mut learn);
        } else {
            for record in other.records_between(between.clone()) {
                if let Record::Shaped { number, .. } = record {
                    learn(number as usize);
                }
            }
        }
        self.words.extend_from_slice(&other.words[between.start.word..between.end.word]);
        self.items.extend_from_slice(&other.items[between.start.item..between.end.item]);
    }

    /// Takes what another one has between two places in place of its own. Events are not counted.
    pub(crate) fn become_part(&mut self, other: &Self, between: Range<Place>) {
        self.clear();
        self.add(other, between);
        self.accesses = self.records().map(Record::accesses).sum();
    }

    /// What is before a place goes. Accesses and events are not counted.
    pub(crate) fn forget(&mut self, place: Place) {
        self.words.drain(..place.word);
        self.items.drain(..place.item);
    }

    /// What is between two places. Events are not counted.
    pub(crate) fn part(&self, between: Range<Place>) -> Self {
        let mut part = Self::new();
        part.become_part(self, between);
        part.owed = self.owed;
        part
    }

    /// If most of it is the same few records again and again.
    pub(crate) fn repeats(&self) -> Option<Repeats> {
        /// Words that are the same records, and words that are compared first.
        const PERIOD: usize = 16;
        const SAME: usize = 64;
        let middle = self.words.len() / 2;
        if middle < PERIOD + SAME || self.goes_by_address() || self.has_events() {
            return None;
        }
        let words = &self.words[..];
        let same = |period: &usize| words[middle..][..SAME] == words[middle + period..][..SAME];
        let period = (1..=PERIOD).find(same)?;
        let differs = |&at: &usize| words[at] != words[at + period];
        let begin = (0..middle).rev().find(differs).map_or(0, |at| at + 1);
        let last = words.len() - period;
        let end = (middle..last).find(differs).unwrap_or(last) + period;
        let begin = self.place_behind(Place::START, begin);
        let times = end.checked_sub(begin.word)? / period;
        let once = begin..self.place_behind(begin, period);
        if 2 * times * period <= words.len() || once.end.word != begin.word + period {
            return None;
        }
        let (shape, addresses) = Shape::repeated(self.records_between(once))?;
        Some(Repeats { words: begin.word..begin.word + period * times, times: times as u64, shape, addresses })
    }

    /// Puts one record in the place of those that are the same again and again: a thread that waits for another one looks at one
    /// word until that changes. It stands for the same accesses, but is no record of the program's.
    pub(crate) fn fold(&mut self, repeats: Repeats) {
        let Repeats { words, times, shape, addresses } = repeats;
        let folded = [Tag::FOLDED, times].into_iter().chain(addresses.into_iter().flat_map(|address| [address, 0]));
        drop(self.words.splice(words, folded));
        self.folded = Some(Arc::new(shape));
    }

    /// Forgets all accesses and events; shapes stay known.
    pub fn clear(&mut self) {
        self.words.clear();
        self.folded = None;
        self.singles = None;
        (self.accesses, self.range_lines, self.events) = (0, 0, 0);
        self.items.clear();
        (self.objects, self.owed) = (None, false);
        self.replaced.clear();
    }

    /// Whether most of its accesses are in loops that may walk over lines.
    pub(crate) fn walks(&self) -> bool {
        // A look at each record only where there are few.
        const EACH: u64 = 8;
        let long = |record: &Record<'_>| match record {
            Record::Shaped { shape, words, whole: true, .. } => shape.stream && walks::may_walk(shape, words, SHIFT),
            _ => false,
        };
        // Ranges are like loops of so many steps.
        let ranges = EACH.saturating_mul(self.range_lines);
        let all = self.accesses.saturating_add(ranges);
        let few = EACH * self.words.len() as u64 <= all;
        few && ranges.saturating_add(self.records().filter(long).map(Record::accesses).sum()) >= all / 2
    }

    pub(crate) fn records(&self) -> Records<'_> {
        self.records_between(Place::START..self.end())
    }

    #[inline]
    fn records_between(&self, between: Range<Place>) -> Records<'_> {
        let Self { words, shapes, folded, items, .. } = self;
        let words = &words[between.start.word..between.end.word];
        let items = &items[between.start.item..between.end.item];
        Records { words, shapes, folded: folded.as_deref(), items, by_address: self.goes_by_address() }
    }
}

/// The records of a batch that are left.
#[derive(Clone)]
pub(crate) struct Records<'a> {
    words: &'a [u64],
    shapes: &'a [Arc<Shape>],
    folded: Option<&'a Shape>,
    items: &'a [Item],
    by_address: bool,
}

impl<'a> Records<'a> {
    /// The items of a record that has so many.
    #[inline(always)]
    fn items(&mut self, len: usize) -> &'a [Item] {
        self.items.split_off(..len.min(self.items.len())).unwrap_or_default()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let tag = Tag(*self.words.first()?);
            match tag.kind() {
                Tag::NONE => self.words = &self.words[1..],
                Tag::SINGLES => {
                    let len = 2 * tag.upper() as usize;
                    let (words, rest) = self.words.split_at(1 + len);
                    self.words = rest;
                    return Some(Record::Singles { words: &words[1..], items: self.items(len / 2) });
                }
                kind => {
                    let number = kind.wrapping_sub(Tag::SHAPES);
                    let shape = if kind == Tag::FOLDED { self.folded? } else { &self.shapes[number as usize] };
                    let (words, rest) = self.words.split_at(shape.words as usize);
                    self.words = rest;
                    let items = if self.by_address { self.items(shape.item_count) } else { &shape.items };
                    return Some(Record::Shaped { shape, number, words, whole: tag.upper() == 0, items });
                }
            }
        }
    }
}

impl Record<'_> {
    /// How many accesses it stands for.
    fn accesses(self) -> u64 {
        match self {
            Self::Singles { words, .. } => words.len() as u64 / 2,
            Self::Shaped { shape, words, .. } => shape.iterations(words).saturating_mul(count(shape, words)),
        }
    }

    /// The address of the block that it says was allocated.
    pub(crate) fn allocated(&self) -> Option<u64> {
        match self {
            Self::Shaped { shape: Shape { event: Some(Event::Allocation { .. }), .. }, words, .. } => {
                words.get(1).copied()
            }
            _ => None,
        }
    }

    /// Whether another one is of the same shape, and no event.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Singles { words, .. }, Self::Singles { words: others, .. }) => words.len() == others.len(),
            (Self::Shaped { shape, number, whole, .. }, Self::Shaped { number: of, whole: all, .. }) => {
                shape.event.is_none() && (number, whole) == (of, all)
            }
            _ => false,
        }
    }

    /// Gives all accesses to `take`.
    pub(crate) fn for_each(self, take: &mut impl FnMut(Access, Item)) {
        match self {
            Self::Singles { words, items } => {
                let items = items.iter().copied().chain(std::iter::repeat(Item::NONE));
                for (&[address, word], item) in words.as_chunks().0.iter().zip(items) {
                    take(Access { address, size: word >> 1, store: word & 1 != 0 }, item);
                }
            }
            Self::Shaped { shape, words, items, .. } => {
                (0..shape.iterations(words)).for_each(|iteration| steps(shape, words, items, iteration, take));
            }
        }
    }
}

/// The accesses of one iteration, the only one outside of streams.
fn steps(shape: &Shape, words: &[u64], items: &[Item], iteration: u64, take: &mut impl FnMut(Access, Item)) {
    let mut items = items.iter().copied().chain(std::iter::repeat(Item::NONE));
    for step in &shape.steps {
        let of: [Item; 2] =
            std::array::from_fn(|at| if at < step.items() { items.next() } else { None }.unwrap_or_default());
        // Only copies have two, and load first.
        let mut take = |access: Access| take(access, of[usize::from(access.store && step.items() > 1)]);
        let word = |index: u32| words[(step.word + index) as usize];
        if word(0) == 0 {
            continue;
        }
        let moved = if shape.stream { word(1).wrapping_mul(iteration) } else { 0 };
        let address = word(0).wrapping_add_signed(step.offset.into()).wrapping_add(moved);
        let access = match step.what {
            What::Load(size) => Access::new(address, size.into(), false),
            What::Store(size) => Access::new(address, size.into(), true),
            What::LoadRange => Access::new(address, word(1), false),
            What::StoreRange => Access::new(address, word(1), true),
            What::Copy if word(1) == 0 => None,
            What::Copy => {
                copy(word(0), word(1), word(2), &mut take);
                None
            }
        };
        access.into_iter().for_each(&mut take);
    }
}

/// How many accesses a record stands for, in each iteration.
fn count(shape: &Shape, words: &[u64]) -> u64 {
    let of = |step: &crate::Step| {
        let word = |index: u32| words[(step.word + index) as usize];
        match step.what {
            _ if word(0) == 0 => 0,
            What::Load(size) | What::Store(size) => u64::from(size > 0),
            What::LoadRange | What::StoreRange => u64::from(word(1) > 0),
            What::Copy if word(1) == 0 => 0,
            What::Copy => 2 * word(2).div_ceil(PIECE),
        }
    };
    shape.steps.iter().map(of).sum()
}

/// Lines are so long where it is not yet known how long: `1 << SHIFT` bytes.
pub(crate) const SHIFT: u32 = 6;

/// Lines that a record loads and stores as ranges of so many that they may be walked over.
fn range_lines(shape: &Shape, words: &[u64]) -> u64 {
    let of = |step: &crate::Step| {
        let lines = |index: u32| words[(step.word + index) as usize] >> SHIFT;
        let (lines, ranges) = match step.what {
            What::LoadRange | What::StoreRange => (lines(1), 1),
            What::Copy => (lines(2), 2),
            What::Load(size) | What::Store(size) => (u64::from(size) >> SHIFT, 1),
        };
        (lines >= LONG_RANGE).then_some(ranges * lines)
    };
    shape.steps.iter().filter_map(of).fold(0, u64::saturating_add)
}

fn copy(to: u64, from: u64, size: u64, mut take: impl FnMut(Access)) {
    let mut done = 0;
    while done < size {
        let piece = PIECE.min(size - done);
        let load = Access::new(from.wrapping_add(done), piece, false);
        let store = Access::new(to.wrapping_add(done), piece, true);
        load.into_iter().chain(store).for_each(&mut take);
        done += piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Comings, Directory};
    use crate::references::Scratch;
    use crate::shape::Step;
    use crate::tracker::Tracker;
    use proptest::prelude::*;

    fn lines(batch: &Batch, shift: u32) -> Vec<(u64, bool)> {
        let mut lines = Vec::new();
        batch.references(shift, true, &mut Scratch::default(), |chunk| {
            lines.extend(chunk.references.iter().map(|r| (r.line(), r.is_store())));
        });
        lines
    }

    #[test]
    fn an_access_references_every_line_it_overlaps() {
        let mut batch = Batch::new();
        batch.access(60, 8, false);
        batch.access(128, 64, true);
        batch.access(5, 0, true);
        assert_eq!(lines(&batch, 6), [(0, false), (1, false), (2, true)]);
        assert_eq!(lines(&batch, 5), [(1, false), (2, false), (4, true), (5, true)]);
    }

    #[test]
    fn a_copy_is_cut_into_pieces_from_its_start() {
        let mut batch = Batch::new();
        batch.copy(0x20000, 0x10020, 5000);
        let mut cut = Vec::new();
        batch.for_each(|a| cut.push((a.address, a.size, a.store)));
        let want = [(0x10020, 4096, false), (0x20000, 4096, true), (0x11020, 904, false), (0x21000, 904, true)];
        assert_eq!(cut, want);
        assert_eq!(batch.accesses(), 4);
    }

    #[test]
    fn the_end_of_the_address_space_is_the_end() {
        let mut batch = Batch::new();
        batch.access(u64::MAX, 100, false);
        batch.access(u64::MAX - 63, 64, true);
        assert_eq!(lines(&batch, 6), [(u64::MAX >> 6, false), (u64::MAX >> 6, true)]);
    }

    #[test]
    fn long_ranges_come_in_chunks() {
        let mut batch = Batch::new();
        batch.access(0, 64 * 10_000, false);
        assert_eq!(lines(&batch, 6).len(), 10_000);
    }

    /// Records of two words, of three with two steps each, of a stream, and of none.
    fn shapes() -> TestShapes {
        let step = |word, offset, what| Step { word, offset, what, item: Item::NONE };
        TestShapes(
            [
                Shape::once(2, vec![step(1, 0, What::Load(8))]),
                Shape::once(3, vec![step(1, 4, What::Load(4)), step(2, 0, What::Store(8)), step(1, 60, What::Load(8))]),
                Shape::stream(4, vec![step(2, 0, What::Store(8))]),
                Some(Shape::empty(1)),
            ]
            .map(|shape| Arc::new(shape.unwrap()))
            .into(),
        )
    }

    /// The words of records, each a shape and an address.
    fn recorded(records: &[(u64, u64)]) -> Vec<u64> {
        let words = |&(shape, address): &(u64, u64)| match shape {
            0 => vec![1, address],
            1 => vec![2, address, 1000],
            2 => vec![3, 3, address, 8],
            _ => vec![4],
        };
        records.iter().flat_map(words).collect()
    }

    fn batch(records: &[(u64, u64)]) -> Batch {
        let mut batch = Batch::new();
        let words = recorded(records);
        assert_eq!(batch.append(words.iter().copied(), &mut shapes(), |_| panic!("few accesses")), words.len());
        batch
    }

    proptest! {
        /// What is folded stands for the same accesses in the same order, and counts alike.
        #[test]
        fn folding_shows_nowhere(
            before in prop::collection::vec((0_u64..4, 8_u64..200), 0..30),
            period in prop::collection::vec((0_u64..4, 8_u64..200), 1..4),
            times in 0_usize..200,
            cut in 0_usize..4,
            after in prop::collection::vec((0_u64..4, 8_u64..200), 0..30),
        ) {
            let all = period.iter().cycle().take((times * period.len()).saturating_sub(cut));
            let records: Vec<_> = before.iter().chain(all).chain(&after).copied().collect();
            let plain = batch(&records);
            let mut folded = plain.clone();
            folded.repeats().into_iter().for_each(|repeats| folded.fold(repeats));
            prop_assert_eq!(folded.accesses(), plain.accesses());
            let accesses = |batch: &Batch| {
                let mut all = Vec::new();
                batch.for_each(|access| all.push(access));
                all
            };
            prop_assert_eq!(accesses(&folded), accesses(&plain));
            let shared = |batch: &Batch| {
                let mut tracker = Tracker::new(6, 8);
                tracker.begin(0, Some(0), None);
                tracker.begin(1, Some(0), None);
                let other = self::batch(&[(2, 60), (0, 70)]);
                let mut directory = Directory::new();
                let mut comings = Comings::default();
                for (slot, batch) in [(1, &other), (0, batch), (1, &other)] {
                    comings.begin(batch, 6);
                    directory.enter_batch((batch, &comings), slot, &mut tracker, true);
                }
                (tracker.misses(), tracker.lines())
            };
            prop_assert_eq!(shared(&folded), shared(&plain));
        }
    }

    #[test]
    fn a_wait_is_folded_and_other_things_are_not() {
        let waits: Vec<_> = (0..1000).map(|_| (0, 64)).collect();
        let yields: Vec<_> = (0..1000).flat_map(|_| [(0, 64), (3, 0), (1, 80)]).collect();
        let others: Vec<_> = (0..1000).map(|at| (0, 64 + at)).collect();
        for (records, words) in [(&waits, 2 + 2), (&yields, 2 + 2 * 3), (&others, 2000)] {
            let mut batch = batch(&[&[(1, 8)], records.as_slice(), &[(2, 16)]].concat());
            let repeats = batch.repeats();
            assert_eq!(repeats.is_some(), words < 2000);
            repeats.into_iter().for_each(|repeats| batch.fold(repeats));
            assert_eq!(batch.words().len(), 3 + words + 4);
            assert!(batch.repeats().is_none());
            let accesses = batch.accesses();
            batch.clear();
            assert!(accesses >= 1000 && batch.records().next().is_none());
        }
    }

    /// Wherever a stream of records is cut into batches, together they have the same words.
    #[test]
    fn a_record_without_accesses_is_something() {
        let mut alone = batch(&[(3, 0)]);
        assert_eq!((alone.accesses(), alone.words().len(), alone.is_empty()), (0, 1, false));
        alone.clear();
        assert!(alone.is_empty());
    }
}

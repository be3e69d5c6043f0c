//! Which bytes were touched, and how often: under each tag, by each function.

use crate::batch::Record;
use crate::{Batch, Bucket, sample};
use bf_profile::{Touched, TouchedBy};
use std::collections::{BTreeMap, HashMap};

/// Bytes of a page: what memory is taken for at a time. None has to do with those of the machine.
const PAGE: u64 = 1 << SHIFT;
const SHIFT: u32 = 12;

/// Pages that are found without a search, at most: a power of two.
const RECENT: usize = 256;

/// The bytes that a process touched. They are kept by part, and what several parts touched is put together at the end.
#[derive(Debug)]
pub(crate) struct Touches {
    bytes: Bytes,
    parts: Vec<Part>,
    /// By bucket and function: 1 + the number of the part; 0: there is none.
    numbers: Vec<Vec<u32>>,
}

/// What one function touched under one tag.
#[derive(Clone, Copy, Debug)]
struct Part {
    bucket: u8,
    /// As shapes have it: 0 is unknown, or that functions are not told apart.
    function: u32,
    /// Accesses for which there was no memory.
    missing: u64,
}

/// What is kept of each byte.
#[derive(Debug)]
enum Bytes {
    /// Whether it was touched: a bit.
    Seen(Pages<u64>),
    /// How often, modulo 2^32; and how often that went round, by part and address.
    Counted(Pages<u32>, HashMap<(u32, u64), u64>),
}

/// A part and the number of a page.
type Key = (u32, u64);

/// Pages of parts, each of `T`s that are all zero at first.
#[derive(Debug)]
struct Pages<T> {
    places: HashMap<Key, u32>,
    /// The last ones asked for, and where they are.
    recent: Box<[(Key, u32)]>,
    pages: Vec<Box<[T]>>,
    /// `T`s of a page.
    len: usize,
}

impl<T: Copy + Default> Pages<T> {
    fn new(len: usize) -> Self {
        let recent = vec![((u32::MAX, u64::MAX), 0); RECENT].into_boxed_slice();
        Self { places: HashMap::new(), recent, pages: Vec::new(), len }
    }

    /// A page; `None` if it is not there and memory is `full`.
    #[inline]
    fn page(&mut self, key: Key, full: fn() -> bool) -> Option<&mut [T]> {
        // Pages of one part that follow each other do not get in each other's way, nor do parts on one page.
        let at = (key.1 as usize).wrapping_add(61 * key.0 as usize) % RECENT;
        let recent = self.recent[at];
        let place = if recent.0 == key { recent.1 } else { self.find(key, at, full)? };
        Some(&mut self.pages[place as usize])
    }

    #[cold]
    fn find(&mut self, key: Key, at: usize, full: fn() -> bool) -> Option<u32> {
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None if full() => return None,
            None => {
                let place = self.pages.len() as u32;
                self.pages.push(vec![T::default(); self.len].into_boxed_slice());
                self.places.insert(key, place);
                place
            }
        };
        self.recent[at] = (key, place);
        Some(place)
    }
}

impl Touches {
    /// Nothing touched yet. `counts`: keeps how often, which takes 4 bytes for each byte, in place of a bit.
    pub(crate) fn new(counts: bool) -> Self {
        let bytes = if counts {
            Bytes::Counted(Pages::new(PAGE as usize), HashMap::new())
        } else {
            Bytes::Seen(Pages::new(PAGE as usize / 64))
        };
        Self { bytes, parts: Vec::new(), numbers: Vec::new() }
    }

    /// Takes a batch.
    pub(crate) fn feed(&mut self, batch: &Batch, bucket: Bucket, full: fn() -> bool) {
        for record in batch.records() {
            let function = match record {
                Record::Shaped { shape, .. } => shape.function,
                Record::Singles { .. } => 0,
            };
            let part = self.part(bucket.0, function);
            record.for_each(&mut |access, _| {
                if self.bytes.touch(part, access.address, access.address + (access.size - 1), full).is_none() {
                    self.parts[part as usize].missing += 1;
                }
            });
        }
    }

    /// The number of a part.
    #[inline]
    fn part(&mut self, bucket: u8, function: u32) -> u32 {
        let known = self.numbers.get(usize::from(bucket)).and_then(|numbers| numbers.get(function as usize));
        match known {
            Some(&number @ 1..) => number - 1,
            _ => self.add_part(bucket, function),
        }
    }

    #[cold]
    fn add_part(&mut self, bucket: u8, function: u32) -> u32 {
        let (index, at) = (usize::from(bucket), function as usize);
        self.numbers.resize(self.numbers.len().max(index + 1), Vec::new());
        let numbers = &mut self.numbers[index];
        numbers.resize(numbers.len().max(at + 1), 0);
        self.parts.push(Part { bucket, function, missing: 0 });
        numbers[at] = self.parts.len() as u32;
        numbers[at] - 1
    }

    /// What was touched in the whole run and under each tag.
    pub(crate) fn found(&self) -> Vec<Touched> {
        let whole = self.by(|_| ()).into_values().next().unwrap_or_default();
        let tagged = self.by(|part| part.bucket);
        let tagged = tagged.into_iter().map(|(bucket, touched)| Touched { tag: Some(tag(bucket)), ..touched });
        [whole].into_iter().chain(tagged).collect()
    }

    /// The same of each function that touched anything.
    pub(crate) fn found_by_function(&self) -> Vec<TouchedBy> {
        let mut all = self.by(|part| (part.function, None));
        all.extend(self.by(|part| (part.function, Some(tag(part.bucket)))));
        let by = |((function, tag), touched): ((u32, _), _)| TouchedBy {
            function: function.checked_sub(1),
            touched: Touched { tag, ..touched },
        };
        // Records may have no accesses.
        all.retain(|_, touched| touched.bytes > 0 || touched.missing > 0);
        all.into_iter().map(by).collect()
    }

    /// What was touched in any of the parts that have the same key, by key.
    fn by<K: Ord>(&self, key: impl Fn(&Part) -> K) -> BTreeMap<K, Touched> {
        let key = |part: u32| key(&self.parts[part as usize]);
        let mut all: BTreeMap<K, Touched> = BTreeMap::new();
        for (part, &Part { missing, .. }) in (0..).zip(&self.parts) {
            all.entry(key(part)).or_default().missing += missing;
        }
        let mut pages = self.bytes.pages();
        pages.sort_unstable_by_key(|page| (key(page.part), page.number));
        for pages in pages.chunk_by(|a, b| key(a.part) == key(b.part)) {
            let touched = all.entry(key(pages[0].part)).or_default();
            (touched.bytes, touched.touches) = self.bytes.sum(pages);
        }
        all
    }
}

fn tag(bucket: u8) -> u32 {
    sample::tag(Bucket(bucket))
}

/// Where a page of a part is.
#[derive(Clone, Copy)]
struct Page {
    number: u64,
    part: u32,
    place: u32,
}

impl Bytes {
    /// Touches bytes `first ..= last` of a part; `None` if there was no memory for some of them.
    #[inline]
    fn touch(&mut self, part: u32, first: u64, last: u64, full: fn() -> bool) -> Option<()> {
        for number in first >> SHIFT..=last >> SHIFT {
            let begin = number << SHIFT;
            let (from, to) = ((first.max(begin) - begin) as usize, (last - begin).min(PAGE - 1) as usize);
            match self {
                Self::Seen(pages) => {
                    let page = pages.page((part, number), full)?;
                    for (word, bits) in page[from / 64..=to / 64].iter_mut().zip((from / 64 * 64..).step_by(64)) {
                        let (low, high) = (from.max(bits) - bits, to.min(bits + 63) - bits);
                        *word |= u64::MAX >> (63 - (high - low)) << low;
                    }
                }
                Self::Counted(pages, rounds) => {
                    let page = pages.page((part, number), full)?;
                    for (at, count) in page[from..=to].iter_mut().enumerate() {
                        *count = count.wrapping_add(1);
                        if *count == 0 {
                            *rounds.entry((part, begin + (from + at) as u64)).or_default() += 1;
                        }
                    }
                }
            }
        }
        Some(())
    }

    fn pages(&self) -> Vec<Page> {
        let places = match self {
            Self::Seen(pages) => &pages.places,
            Self::Counted(pages, _) => &pages.places,
        };
        places.iter().map(|(&(part, number), &place)| Page { number, part, place }).collect()
    }

    /// How many bytes were touched on pages that are sorted by number, and how many of them so many times.
    fn sum(&self, pages: &[Page]) -> (u64, Vec<(u64, u64)>) {
        let (mut bytes, mut touches) = (0, Tally::default());
        for pages in pages.chunk_by(|a, b| a.number == b.number) {
            match self {
                Self::Seen(all) => {
                    let mut seen = [0_u64; PAGE as usize / 64];
                    for page in pages {
                        seen.iter_mut().zip(&all.pages[page.place as usize]).for_each(|(all, part)| *all |= part);
                    }
                    bytes += seen.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                }
                Self::Counted(all, rounds) => {
                    let mut counts = [0_u64; PAGE as usize];
                    for page in pages {
                        let part = all.pages[page.place as usize].iter();
                        counts.iter_mut().zip(part).for_each(|(all, &part)| *all += u64::from(part));
                        // Rarely any.
                        let here = |&(part, address): &Key| (part, address >> SHIFT) == (page.part, page.number);
                        for ((_, address), rounds) in rounds.iter().filter(|(key, _)| here(key)) {
                            counts[(address % PAGE) as usize] += rounds << 32;
                        }
                    }
                    for count in counts.into_iter().filter(|&count| count > 0) {
                        bytes += 1;
                        touches.add(count);
                    }
                }
            }
        }
        (bytes, touches.pairs())
    }
}

/// How many bytes were touched so many times.
#[derive(Default)]
struct Tally {
    /// By times, where they are few.
    few: Vec<u64>,
    many: BTreeMap<u64, u64>,
}

impl Tally {
    const FEW: usize = 1 << 16;

    fn add(&mut self, times: u64) {
        match usize::try_from(times) {
            Ok(times) if times < Self::FEW => {
                if self.few.len() <= times {
                    self.few.resize(times + 1, 0);
                }
                self.few[times] += 1;
            }
            _ => *self.many.entry(times).or_default() += 1,
        }
    }

    fn pairs(self) -> Vec<(u64, u64)> {
        (0..).zip(self.few).filter(|&(_, bytes)| bytes > 0).chain(self.many).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TestShapes;
    use crate::{Item, Shape, Step, What};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn never() -> bool {
        false
    }

    /// Ranges of bytes that are stored, each by a function under a tag.
    type Stores = Vec<(u32, u8, u64, u64)>;

    /// A record of one store of any length, of each of the functions 0 to 4.
    fn shapes() -> TestShapes {
        let step = Step { word: 1, offset: 0, what: What::StoreRange, item: Item::NONE };
        let shape = |function| Arc::new(Shape::once(3, vec![step]).unwrap().in_function(function));
        TestShapes((0..5).map(shape).collect())
    }

    fn feed(touches: &mut Touches, stores: &[(u32, u8, u64, u64)], full: fn() -> bool) {
        for &(function, bucket, address, size) in stores {
            let mut batch = Batch::new();
            let words = [u64::from(function) + 1, address, size];
            batch.append(words.into_iter(), &mut shapes(), |_| panic!("more than a batch holds"));
            touches.feed(&batch, Bucket(bucket), full);
        }
    }

    fn fed(counts: bool, stores: &[(u32, u8, u64, u64)]) -> Touches {
        let mut touches = Touches::new(counts);
        feed(&mut touches, stores, never);
        touches
    }

    /// The definition: a count for each byte.
    fn expected<'a>(stores: impl Iterator<Item = &'a (u32, u8, u64, u64)>, counts: bool) -> Touched {
        let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for &(_, _, address, size) in stores {
            (address..address + size).for_each(|byte| *bytes.entry(byte).or_default() += 1);
        }
        let mut touches: BTreeMap<u64, u64> = BTreeMap::new();
        bytes.values().for_each(|&times| *touches.entry(times).or_default() += 1);
        let touches = if counts { touches.into_iter().collect() } else { Vec::new() };
        Touched { tag: None, bytes: bytes.len() as u64, touches, missing: 0 }
    }

    fn stores() -> impl Strategy<Value = Stores> {
        let wide = (0..5_u32, 1..4_u8, 1..13_000_u64, 1..9000_u64);
        let narrow = (0..5_u32, 1..4_u8, 4000..4200_u64, 1..9_u64);
        (proptest::collection::vec(wide, 0..6), proptest::collection::vec(narrow, 0..60))
            .prop_map(|(wide, narrow)| [wide, narrow].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bytes_are_counted_by_the_definition(stores in stores(), counts: bool) {
            let touches = fed(counts, &stores);
            let mut tags: Vec<_> = stores.iter().map(|store| store.1).collect();
            tags.sort_unstable();
            tags.dedup();
            let mut whole = vec![expected(stores.iter(), counts)];
            for tag in tags {
                let found = expected(stores.iter().filter(|store| store.1 == tag), counts);
                whole.push(Touched { tag: Some(u32::from(tag) - 1), ..found });
            }
            prop_assert_eq!(touches.found(), whole);
            let mut keys: Vec<_> =
                stores.iter().flat_map(|store| [(store.0, None), (store.0, Some(store.1))]).collect();
            keys.sort_unstable();
            keys.dedup();
            let by_function: Vec<_> = keys.into_iter().map(|(function, tag)| {
                let of = |store: &&(u32, u8, u64, u64)| store.0 == function && tag.is_none_or(|tag| store.1 == tag);
                let touched = expected(stores.iter().filter(of), counts);
                let tag = tag.map(|tag| u32::from(tag) - 1);
                TouchedBy { function: function.checked_sub(1), touched: Touched { tag, ..touched } }
            }).collect();
            prop_assert_eq!(touches.found_by_function(), by_function);
        }
    }

    #[test]
    fn counts_beyond_32_bits() {
        let mut touches = fed(true, &[(0, 1, 5000, 2), (1, 1, 5000, 1)]);
        let Bytes::Counted(pages, _) = &mut touches.bytes else { panic!("no counts") };
        pages.page((0, 1), never).unwrap()[5000 - 4096] = u32::MAX;
        feed(&mut touches, &[(0, 1, 5000, 1), (0, 1, 5000, 1)], never);
        assert_eq!(touches.found()[0].touches, [(1, 1), (2 + (1 << 32), 1)]);
        let by_function: Vec<_> = touches.found_by_function().into_iter().map(|by| by.touched.touches).collect();
        assert_eq!(by_function[0], [(1, 1), (1 + (1 << 32), 1)]);
        assert_eq!(by_function[2], [(1, 1)]);
    }

    #[test]
    fn the_last_byte_there_is_and_none() {
        // A store of no bytes is none.
        let touches =
            fed(false, &[(1, 4, 9, 0), (0, 4, u64::MAX, 1), (0, 4, u64::MAX - 7, 8), (0, 4, u64::MAX - 3, 8)]);
        let all = Touched { tag: Some(3), bytes: 8, ..Touched::default() };
        assert_eq!(touches.found()[1], all);
        assert_eq!(touches.found_by_function()[1..], [TouchedBy { function: None, touched: all }]);
    }

    #[test]
    fn what_there_is_no_memory_for_is_missing() {
        let mut touches = fed(true, &[(1, 1, 4096, 1)]);
        // Function 2 finds no page of its own, also where there is one of another.
        feed(&mut touches, &[(1, 1, 4096, 8), (1, 1, 8186, 10), (1, 1, 13_000, 1), (2, 1, 4096, 8)], || true);
        let found = |touched: &Touched| (touched.bytes, touched.missing);
        assert_eq!(found(&touches.found()[0]), (14, 3));
        let by_function: Vec<_> = touches.found_by_function().iter().map(|by| found(&by.touched)).collect();
        assert_eq!(by_function, [(14, 2), (14, 2), (0, 1), (0, 1)]);
    }
}

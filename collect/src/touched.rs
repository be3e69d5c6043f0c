//! Which bytes were touched, and how often.

use crate::Batch;
use bf_profile::Touched;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a page: what memory is taken for at a time. None has to do with those of the machine.
const PAGE: u64 = 1 << SHIFT;
const SHIFT: u32 = 12;

/// What is kept of each byte.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Whether it was touched: a bit.
    Seen(Pages<u64>),
    /// How often, modulo 2^32; and how often that went round, by address.
    Counted(Pages<u32>, HashMap<u64, u64>),
}

/// The bytes of one tag.
#[derive(Debug)]
pub(crate) struct Part {
    bytes: Bytes,
    missing: u64,
}

/// Pages by number, each of `T`s that are all zero at first.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    places: HashMap<u64, u32>,
    /// By the lowest bits of a page's number: the last such page asked for, and where it is.
    recent: [(u64, u32); 64],
    pages: Vec<Box<[T]>>,
    /// `T`s of a page.
    len: usize,
}

impl<T: Copy + Default> Pages<T> {
    fn new(len: usize) -> Self {
        Self { places: HashMap::new(), recent: [(u64::MAX, 0); 64], pages: Vec::new(), len }
    }

    /// A page; `None` if it is not there and memory is `full`.
    #[inline]
    fn page(&mut self, number: u64, full: fn() -> bool) -> Option<&mut [T]> {
        let recent = self.recent[number as usize % 64];
        let place = if recent.0 == number { recent.1 } else { self.find(number, full)? };
        Some(&mut self.pages[place as usize])
    }

    #[cold]
    fn find(&mut self, number: u64, full: fn() -> bool) -> Option<u32> {
        let place = match self.places.get(&number) {
            Some(&place) => place,
            None if full() => return None,
            None => {
                let place = self.pages.len() as u32;
                self.pages.push(vec![T::default(); self.len].into_boxed_slice());
                self.places.insert(number, place);
                place
            }
        };
        self.recent[number as usize % 64] = (number, place);
        Some(place)
    }

    fn get(&self, number: u64) -> &[T] {
        self.places.get(&number).map_or(&[], |&place| &self.pages[place as usize])
    }
}

impl Part {
    /// Nothing touched yet. `counts`: keeps how often, which takes 4 bytes for each byte, in place of a bit.
    pub(crate) fn new(counts: bool) -> Self {
        let bytes = if counts {
            Bytes::Counted(Pages::new(PAGE as usize), HashMap::new())
        } else {
            Bytes::Seen(Pages::new(PAGE as usize / 64))
        };
        Self { bytes, missing: 0 }
    }

    /// Takes a batch.
    pub(crate) fn feed(&mut self, batch: &Batch, full: fn() -> bool) {
        batch.for_each(|access| {
            if self.touch(access.address, access.address + (access.size - 1), full).is_none() {
                self.missing += 1;
            }
        });
    }

    /// Touches bytes `first ..= last`; `None` if there was no memory for some of them.
    #[inline]
    fn touch(&mut self, first: u64, last: u64, full: fn() -> bool) -> Option<()> {
        for number in first >> SHIFT..=last >> SHIFT {
            let begin = number << SHIFT;
            let (from, to) = ((first.max(begin) - begin) as usize, (last - begin).min(PAGE - 1) as usize);
            match &mut self.bytes {
                Bytes::Seen(pages) => {
                    let page = pages.page(number, full)?;
                    for (word, bits) in page[from / 64..=to / 64].iter_mut().zip((from / 64 * 64..).step_by(64)) {
                        let (low, high) = (from.max(bits) - bits, to.min(bits + 63) - bits);
                        *word |= u64::MAX >> (63 - (high - low)) << low;
                    }
                }
                Bytes::Counted(pages, rounds) => {
                    let page = pages.page(number, full)?;
                    for (at, count) in page[from..=to].iter_mut().enumerate() {
                        *count = count.wrapping_add(1);
                        if *count == 0 {
                            *rounds.entry(begin + (from + at) as u64).or_default() += 1;
                        }
                    }
                }
            }
        }
        Some(())
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        match &self.bytes {
            Bytes::Seen(pages) => pages.places.keys(),
            Bytes::Counted(pages, _) => pages.places.keys(),
        }
        .copied()
    }
}

/// What was touched in any of several parts, all of one kind.
pub(crate) fn summary(tag: Option<u32>, parts: &[&Part]) -> Touched {
    let numbers: BTreeSet<u64> = parts.iter().flat_map(|part| part.numbers()).collect();
    let (mut bytes, mut touches) = (0, Tally::default());
    for number in numbers {
        let mut seen = [0_u64; PAGE as usize / 64];
        let mut counts: Vec<u64> = Vec::new();
        for part in parts {
            match &part.bytes {
                Bytes::Seen(pages) => seen.iter_mut().zip(pages.get(number)).for_each(|(all, part)| *all |= part),
                Bytes::Counted(pages, rounds) => {
                    counts.resize(PAGE as usize, 0);
                    counts.iter_mut().zip(pages.get(number)).for_each(|(all, &part)| *all += u64::from(part));
                    // Rarely any.
                    for (address, rounds) in rounds.iter().filter(|(address, _)| *address >> SHIFT == number) {
                        counts[(address % PAGE) as usize] += rounds << 32;
                    }
                }
            }
        }
        bytes += seen.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        for count in counts.into_iter().filter(|&count| count > 0) {
            bytes += 1;
            touches.add(count);
        }
    }
    Touched { tag, bytes, touches: touches.pairs(), missing: parts.iter().map(|part| part.missing).sum() }
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
    use proptest::prelude::*;

    fn never() -> bool {
        false
    }

    fn fed(counts: bool, accesses: &[(u64, u64)]) -> Part {
        let mut batch = Batch::new();
        accesses.iter().for_each(|&(address, size)| batch.access(address, size, false));
        let mut part = Part::new(counts);
        part.feed(&batch, never);
        part
    }

    /// The definition: a count for each byte.
    fn expected(accesses: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for &(address, size) in accesses {
            (address..address + size).for_each(|byte| *counts.entry(byte).or_default() += 1);
        }
        let mut touches: BTreeMap<u64, u64> = BTreeMap::new();
        counts.into_values().for_each(|times| *touches.entry(times).or_default() += 1);
        touches.into_iter().collect()
    }

    proptest! {
        #[test]
        fn bytes_are_counted_by_the_definition(
            a in proptest::collection::vec((0..20_000_u64, 1..9000_u64), 0..20),
            b in proptest::collection::vec((4000..4200_u64, 1..9_u64), 0..60),
        ) {
            let both = [a.clone(), b.clone()].concat();
            let touches = expected(&both);
            let bytes = touches.iter().map(|pair| pair.1).sum::<u64>();
            let summary = |counts| summary(None, &[&fed(counts, &a), &fed(counts, &b)]);
            prop_assert_eq!(summary(true), Touched { bytes, touches, ..Touched::default() });
            prop_assert_eq!(summary(false), Touched { bytes, ..Touched::default() });
        }
    }

    #[test]
    fn counts_beyond_32_bits() {
        let mut part = fed(true, &[(5000, 2)]);
        let Bytes::Counted(pages, _) = &mut part.bytes else { panic!("no counts") };
        pages.page(1, never).unwrap()[5000 - 4096] = u32::MAX;
        part.touch(5000, 5000, never).unwrap();
        part.touch(5000, 5000, never).unwrap();
        assert_eq!(summary(None, &[&part]).touches, [(1, 1), (1 << 32 | 1, 1)]);
    }

    #[test]
    fn the_last_byte_there_is() {
        let part = fed(false, &[(u64::MAX, 1), (u64::MAX - 7, 8), (u64::MAX - 3, 8)]);
        assert_eq!(summary(Some(3), &[&part]), Touched { tag: Some(3), bytes: 8, ..Touched::default() });
    }

    #[test]
    fn what_there_is_no_memory_for_is_missing() {
        let mut part = fed(true, &[(0, 1)]);
        let mut batch = Batch::new();
        [(0, 8), (4090, 10), (9000, 1)].into_iter().for_each(|(address, size)| batch.access(address, size, true));
        part.feed(&batch, || true);
        let found = summary(None, &[&part]);
        assert_eq!((found.bytes, found.missing), (14, 2));
    }
}

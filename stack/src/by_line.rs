//! Something of each line, kept for regions of 1024 neighbouring lines. A region where few lines have it has a bit for each line
//! and a list, in the order of lines, so that what lies between lines takes next to nothing; where very few do they stand by
//! themselves.

use crate::boxed;
use crate::lone::Lone;
use crate::simd;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Lines of a region, as bits.
pub(crate) const REGION_BITS: u32 = 10;
const REGION: usize = 1 << REGION_BITS;
const WORDS: usize = REGION / 64;
/// So many regions are found at once: those of a gibibyte in lines of 64 bytes.
const KNOWN: usize = 1 << 14;

/// What is kept of lines, by line number. The default stands for nothing.
#[derive(Clone, Debug)]
pub struct ByLine<T> {
    /// Direct-mapped cache of region lookups: region + 1 and its index.
    known: Box<[(u64, u32); KNOWN]>,
    indices: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// By index: the region's number, and what it has.
    regions: Vec<(u64, Region<T>)>,
    /// Lines of other regions.
    lone: Lone<T>,
}

#[derive(Clone, Debug)]
enum Region<T> {
    /// Of at most a quarter of the lines: it would take long to put more in order.
    Few(Box<Few<T>>),
    Many(Box<[T; REGION]>),
}

#[derive(Clone, Debug, Default)]
struct Few<T> {
    /// A bit for each line.
    there: [u64; WORDS],
    /// How many are there before those of each word.
    before: [u16; WORDS],
    /// In the order of lines.
    all: Vec<T>,
}

impl<T: Copy + Default + PartialEq> ByLine<T> {
    /// Nothing of any line.
    #[must_use]
    pub fn new() -> Self {
        Self { known: boxed::array((0, 0)), indices: HashMap::default(), regions: Vec::new(), lone: Lone::new() }
    }

    /// What is kept of a line (below 2^63), to be changed.
    #[inline(always)]
    pub fn of(&mut self, line: u64) -> &mut T {
        match self.remembered(line >> REGION_BITS) {
            Some(index) => self.regions[index as usize].1.of(line),
            None => self.elsewhere(line),
        }
    }

    /// What is kept of a line.
    #[inline]
    #[must_use]
    pub fn get(&self, line: u64) -> T {
        self.slice(line..line + 1).first().copied().unwrap_or_default()
    }

    /// Fetches what is kept of a line, or what tells where that is, which it says, if its region is found at once.
    #[inline(always)]
    pub fn prefetch(&self, line: u64) -> bool {
        let Some(index) = self.remembered(line >> REGION_BITS) else { return false };
        match &self.regions[index as usize].1 {
            Region::Few(few) => {
                simd::prefetch(&few.there[line as usize / 64 % WORDS]);
                simd::prefetch(&few.all);
                true
            }
            Region::Many(all) => {
                simd::prefetch(&all[line as usize % REGION]);
                false
            }
        }
    }

    /// Fetches what is kept of a line where [`ByLine::prefetch`] fetched what tells where that is.
    #[inline(always)]
    pub fn prefetch_listed(&self, line: u64) {
        if let Some(index) = self.remembered(line >> REGION_BITS)
            && let Region::Few(few) = &self.regions[index as usize].1
        {
            few.all.get(few.place(line).0).into_iter().for_each(simd::prefetch);
        }
    }

    /// What is kept of lines that follow each other, up to the end of a region; nothing unless it is kept of all of them. Of lines
    /// that stand by themselves what is kept of the first.
    #[inline]
    #[must_use]
    pub fn slice(&self, lines: Range<u64>) -> &[T] {
        if let Some(region) = self.region_of(lines.start) {
            return region.places(lines).and_then(|places| region.all().get(places)).unwrap_or_default();
        }
        let may_be = !self.lone.is_empty() && !lines.is_empty();
        let place = may_be.then(|| self.lone.find(lines.start)).flatten();
        place.map_or(&[], |place| std::slice::from_ref(self.lone.get(place)))
    }

    /// The region of a line, if something is kept of one of its lines.
    #[inline(always)]
    fn region_of(&self, line: u64) -> Option<&Region<T>> {
        let region = line >> REGION_BITS;
        let index = self.remembered(region).or_else(|| self.indices.get(&region).copied());
        index.map(|index| &self.regions[index as usize].1)
    }

    /// The index of a region, if it was found before and none instead of it since.
    #[inline(always)]
    fn remembered(&self, region: u64) -> Option<u32> {
        let (of, index) = self.known[known(region)];
        (of == region + 1).then_some(index)
    }

    /// All lines of which something is kept.
    pub fn iter(&self) -> impl Iterator<Item = (u64, T)> + '_ {
        let lines = self.regions.iter().flat_map(|(region, of)| of.lines(region << REGION_BITS));
        lines.chain(self.lone.iter()).filter(|&(_, kept)| kept != T::default())
    }

    /// As [`ByLine::of`], of a line whose region is not remembered.
    #[inline(never)]
    fn elsewhere(&mut self, line: u64) -> &mut T {
        if !self.lone.is_empty()
            && let Some(place) = self.lone.find(line)
        {
            return self.lone.get_mut(place);
        }
        let region = line >> REGION_BITS;
        let index = match self.indices.get(&region) {
            Some(&index) => index,
            None => match self.lone.add(line) {
                Some(place) => return self.lone.get_mut(place),
                None => self.add_region(region),
            },
        };
        self.known[known(region)] = (region + 1, index);
        self.regions[index as usize].1.of(line)
    }

    /// Lines of a region that stood by themselves do no longer.
    fn add_region(&mut self, region: u64) -> u32 {
        let (index, mut of) = (self.regions.len() as u32, Region::Few(Box::default()));
        self.lone.take(region).into_iter().for_each(|(line, kept)| *of.of(line) = kept);
        self.regions.push((region, of));
        self.indices.insert(region, index);
        index
    }
}

impl<T: Copy + Default + PartialEq> Default for ByLine<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a region would be in the cache.
#[inline(always)]
fn known(region: u64) -> usize {
    (region ^ (region / KNOWN as u64)) as usize % KNOWN
}

impl<T: Copy + Default> Region<T> {
    /// Where in `all` a line is.
    #[inline(always)]
    fn place(&self, line: u64) -> Option<usize> {
        match self {
            Self::Few(few) => {
                let (place, is_there) = few.place(line);
                is_there.then_some(place)
            }
            Self::Many(_) => Some(line as usize % REGION),
        }
    }

    /// Where lines are, up to the end of the region, if all of them are here.
    fn places(&self, lines: Range<u64>) -> Option<Range<usize>> {
        let len = (lines.end - lines.start).min(REGION as u64 - lines.start % REGION as u64);
        let (first, last) = (self.place(lines.start)?, self.place(lines.start + len.checked_sub(1)?)?);
        (last - first == len as usize - 1).then_some(first..last + 1)
    }

    #[inline(always)]
    fn all(&self) -> &[T] {
        match self {
            Self::Few(few) => &few.all,
            Self::Many(all) => &all[..],
        }
    }

    #[inline(always)]
    fn of(&mut self, line: u64) -> &mut T {
        let place = match self.place(line) {
            Some(place) => place,
            None => self.add(line),
        };
        match self {
            Self::Few(few) => &mut few.all[place],
            Self::Many(all) => &mut all[place],
        }
    }

    /// A line is there that was not; its place.
    #[cold]
    fn add(&mut self, line: u64) -> usize {
        match self {
            Self::Few(few) if few.all.len() < REGION / 4 => few.add(line),
            _ => {
                let mut all = boxed::array(T::default());
                self.lines(0).for_each(|(at, kept)| all[at as usize] = kept);
                *self = Self::Many(all);
                line as usize % REGION
            }
        }
    }

    /// The lines that are there, with numbers from `first` on.
    fn lines(&self, first: u64) -> impl Iterator<Item = (u64, T)> + '_ {
        let there = match self {
            Self::Few(few) => &few.there,
            Self::Many(_) => &[u64::MAX; WORDS],
        };
        let lines = (first..).step_by(64).zip(there).flat_map(|(first, &word)| bits(word).map(move |bit| first + bit));
        lines.zip(self.all().iter().copied())
    }
}

/// Numbers of bits that are set, ascending.
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(bit)
    })
}

impl<T: Copy + Default> Few<T> {
    /// Where among those that are there a line is, or would be; and whether it is.
    #[inline(always)]
    fn place(&self, line: u64) -> (usize, bool) {
        let at = line as usize / 64 % WORDS;
        let (word, bit) = (self.there[at], 1 << (line % 64));
        (usize::from(self.before[at]) + (word & (bit - 1)).count_ones() as usize, word & bit != 0)
    }

    /// A line is there that was not; its place.
    fn add(&mut self, line: u64) -> usize {
        let ((place, _), at, len) = (self.place(line), line as usize / 64 % WORDS, self.all.len());
        self.there[at] |= 1 << (line % 64);
        self.before[at + 1..].iter_mut().for_each(|before| *before += 1);
        if len == self.all.capacity() {
            // Not twice as many: there may be very many regions.
            self.all.reserve_exact((len / 2).max(2));
        }
        self.all.insert(place, T::default());
        place
    }
}

/// Regions and sites have numbers that are few and near each other: one multiplication spreads them well enough.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

#[inline(always)]
pub(crate) fn mix(value: u64) -> u64 {
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_what_it_was_told_of_each_line(
            told in prop::collection::vec(
                (
                    prop_oneof![
                        0..3 * REGION as u64,
                        // Few of each region, or many.
                        5 * REGION as u64..150 * REGION as u64,
                        any::<u64>().prop_map(|line| line >> 1),
                    ],
                    any::<u16>(),
                ),
                0..4000,
            ),
        ) {
            let (mut all, mut plain) = (ByLine::<u16>::new(), HashMap::new());
            for (line, kept) in told {
                let before = plain.insert(line, kept).unwrap_or_default();
                prop_assert_eq!(all.get(line), before);
                prop_assert!(all.slice(line..line + 1).iter().all(|&kept| kept == before));
                prop_assert_eq!(std::mem::replace(all.of(line), kept), before);
            }
            plain.retain(|_, kept| *kept != 0);
            let kept: Vec<_> = all.iter().collect();
            prop_assert_eq!(kept.len(), plain.len());
            prop_assert!(kept.into_iter().all(|(line, kept)| plain.get(&line) == Some(&kept)));
        }
    }
}

//! Numbers of lines: one becomes a dense id once, everything else is indexing, here and in `behind`.
//!
//! A line gets the next free id when it is first seen, so the ids of lines that are first walked over are neighbours too, and
//! their state is walked with them. Ids are kept for regions of 1024 lines. One of which few lines were seen has a bit for each
//! line and the ids of those that were, in the order of lines, so what lies between lines takes next to nothing.

use crate::boxed;
use crate::older::Time;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Lines of a region, as bits; as many ids are kept together.
pub(crate) const REGION_BITS: u32 = 10;
pub(crate) const REGION: usize = 1 << REGION_BITS;
const WORDS: usize = REGION / 64;
const KNOWN_REGIONS: usize = 4096;

/// A line's number among all lines seen.
pub(crate) type Id = u32;

/// Where a line is in the older tier. All zero: never there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// When it last entered it; 0: never.
    pub(crate) last: Time,
    /// Place in its timeline; 0: not there.
    pub(crate) place: u32,
}

/// The lines of a region that were seen.
#[derive(Clone, Debug)]
enum Region {
    /// At most half of them.
    Few(Box<Few>),
    /// By line: 1 + its id; 0 if it has none.
    Many(Box<[Id; REGION]>),
}

#[derive(Clone, Debug, Default)]
struct Few {
    /// A bit for each line.
    seen: [u64; WORDS],
    /// How many were seen before those of each word.
    before: [u16; WORDS],
    /// Ids of those that were seen, in the order of lines.
    ids: Vec<Id>,
}

impl Few {
    /// Where among those that were seen a line is, or would be; and whether it is.
    #[inline(always)]
    fn place(&self, line: u64) -> (usize, bool) {
        let at = line as usize % REGION;
        let (word, bit) = (self.seen[at / 64], 1 << (at % 64));
        (usize::from(self.before[at / 64]) + (word & (bit - 1)).count_ones() as usize, word & bit != 0)
    }

    /// A line is seen that was not.
    fn add(&mut self, line: u64, id: Id) {
        let (place, _) = self.place(line);
        let (at, len) = (line as usize % REGION, self.ids.len());
        self.seen[at / 64] |= 1 << (at % 64);
        self.before[at / 64 + 1..].iter_mut().for_each(|before| *before += 1);
        if len == self.ids.capacity() {
            // Not twice as many: there may be very many regions.
            self.ids.reserve_exact((len / 2).max(2));
        }
        self.ids.insert(place, id);
    }

    /// The lines that were seen, as numbers within the region, with their ids.
    fn all(&self) -> impl Iterator<Item = (usize, Id)> + '_ {
        let seen = (0..REGION).filter(|at| self.seen[at / 64] >> (at % 64) & 1 != 0);
        seen.zip(self.ids.iter().copied())
    }
}

impl Region {
    /// The id of a line.
    #[inline(always)]
    fn id(&self, line: u64) -> Option<Id> {
        match self {
            Self::Few(few) => {
                let (place, seen) = few.place(line);
                if seen { few.ids.get(place).copied() } else { None }
            }
            Self::Many(ids) => ids[line as usize % REGION].checked_sub(1),
        }
    }

    /// A line is seen that was not.
    fn add(&mut self, line: u64, id: Id) {
        match self {
            Self::Few(few) if few.ids.len() < REGION / 2 => few.add(line, id),
            Self::Few(few) => {
                let mut ids = boxed::array(0);
                few.all().chain([(line as usize % REGION, id)]).for_each(|(at, id)| ids[at] = id + 1);
                *self = Self::Many(ids);
            }
            Self::Many(ids) => ids[line as usize % REGION] = id + 1,
        }
    }

    /// The lines that were seen, as numbers within the region, with their ids.
    fn all(&self) -> impl Iterator<Item = (usize, Id)> + '_ {
        let (few, many) = match self {
            Self::Few(few) => (Some(few.all()), None),
            Self::Many(ids) => {
                (None, Some(ids.iter().enumerate().filter_map(|(at, id)| Some((at, id.checked_sub(1)?)))))
            }
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }
}

/// All lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// Direct-mapped cache of region lookups: region + 1 and its index.
    known: Box<[(u64, u32); KNOWN_REGIONS]>,
    indices: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// Region number of each index.
    regions: Vec<u64>,
    /// The same regions.
    seen: Vec<Region>,
    /// Lines with an id.
    len: u32,
    /// By id.
    state: Vec<Box<[Line; REGION]>>,
    /// Lines there may be.
    most: u32,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            known: boxed::array((0, 0)),
            indices: HashMap::default(),
            regions: Vec::new(),
            seen: Vec::new(),
            len: 0,
            state: Vec::new(),
            most: Id::MAX,
        }
    }

    /// Allows so many more lines at most.
    pub(crate) fn leave(&mut self, left: u32) {
        self.most = self.most.min(self.len + left);
    }

    /// How many have ids.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether this many more lines might not all get an id.
    #[inline(always)]
    pub(crate) fn may_run_out(&self, lines: usize) -> bool {
        ((self.most - self.len) as usize) < lines
    }

    /// The id of a line, given to it now if it has none. `None`: none is left.
    #[inline(always)]
    pub(crate) fn id(&mut self, line: u64) -> Option<Id> {
        let region = line >> REGION_BITS;
        let known = self.known[(region ^ region >> 12) as usize % KNOWN_REGIONS];
        let index = if known.0 == region + 1 { known.1 } else { self.region(region)? };
        self.seen[index as usize].id(line).or_else(|| self.add(line, index))
    }

    /// The id of a line if it has one; a line that was referenced has.
    pub(crate) fn find(&self, line: u64) -> Option<Id> {
        let index = self.indices.get(&(line >> REGION_BITS))?;
        self.seen[*index as usize].id(line)
    }

    /// The regions of lines that have ids.
    pub(crate) fn regions(&self) -> &[u64] {
        &self.regions
    }

    /// All lines that have ids, with these.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Id)> + '_ {
        let regions = self.regions.iter().zip(&self.seen);
        regions.flat_map(|(region, seen)| seen.all().map(move |(at, id)| (region << REGION_BITS | at as u64, id)))
    }

    #[inline(never)]
    fn region(&mut self, region: u64) -> Option<u32> {
        let index = match self.indices.get(&region) {
            Some(&index) => index,
            None => self.add_region(region)?,
        };
        self.known[(region ^ region >> 12) as usize % KNOWN_REGIONS] = (region + 1, index);
        Some(index)
    }

    #[cold]
    fn add_region(&mut self, region: u64) -> Option<u32> {
        if self.len >= self.most {
            return None;
        }
        let index = self.regions.len() as u32;
        self.indices.insert(region, index);
        self.regions.push(region);
        self.seen.push(Region::Few(Box::default()));
        Some(index)
    }

    #[cold]
    fn add(&mut self, line: u64, index: u32) -> Option<Id> {
        if self.len >= self.most {
            return None;
        }
        let id = self.len;
        self.len += 1;
        self.seen[index as usize].add(line, id);
        if (id as usize).is_multiple_of(REGION) {
            self.state.push(boxed::array(Line::default()));
        }
        Some(id)
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: Id) -> &Line {
        &self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: Id) -> &mut Line {
        &mut self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
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
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_each_line_one_id(
            lines in prop::collection::vec(prop_oneof![0..3 * REGION as u64, any::<u64>().prop_map(|line| line >> 1)], 0..4000),
        ) {
            let (mut all, mut ids) = (Lines::new(), HashMap::new());
            for line in lines {
                prop_assert_eq!(all.find(line), ids.get(&line).copied());
                let next = ids.len() as Id;
                prop_assert_eq!(all.id(line), Some(*ids.entry(line).or_insert(next)));
            }
            prop_assert_eq!(all.len(), ids.len());
            let kept: Vec<_> = all.all().collect();
            prop_assert_eq!(kept.len(), ids.len());
            prop_assert!(kept.into_iter().all(|(line, id)| ids.get(&line) == Some(&id)));
        }
    }
}

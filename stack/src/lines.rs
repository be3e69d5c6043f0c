//! Numbers of lines: one becomes a dense id once, everything else is indexing, here and in `behind`.
//!
//! A line gets the next free id when it is first seen, so the ids of lines that are first walked over are neighbours too, and
//! their state is walked with them. Ids are kept for parts of 16 neighbours, and those for regions of 1024 lines, so what lies
//! between lines takes next to nothing.

use crate::boxed;
use crate::older::Time;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Lines of a region, as bits; as many ids are kept together.
pub(crate) const REGION_BITS: u32 = 10;
pub(crate) const REGION: usize = 1 << REGION_BITS;
/// Lines of a part, as bits.
const PART_BITS: u32 = 4;
const PART: usize = 1 << PART_BITS;
/// Parts of a region; as many are kept together.
const PARTS: usize = REGION / PART;
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

/// All lines.
#[derive(Clone, Debug)]
#[expect(clippy::vec_box, reason = "so that nothing is copied when there are more")]
pub(crate) struct Lines {
    /// Direct-mapped cache of region lookups: region + 1 and its index.
    known: Box<[(u64, u32); KNOWN_REGIONS]>,
    indices: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// Region number of each index.
    regions: Vec<u64>,
    /// Of each region, by part: 1 + its number; 0 if it has none.
    numbers: Vec<Box<[u32; PARTS]>>,
    /// By number of a part, by line: 1 + its id; 0 if it has none.
    parts: Vec<Box<[[Id; PART]; PARTS]>>,
    /// Parts with a number.
    used: u32,
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
            numbers: Vec::new(),
            parts: Vec::new(),
            used: 0,
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
        let number = self.numbers[index as usize][part_of(line)].wrapping_sub(1);
        match self.parts.get(number as usize / PARTS) {
            Some(parts) if parts[number as usize % PARTS][line as usize % PART] != 0 => {
                Some(parts[number as usize % PARTS][line as usize % PART] - 1)
            }
            _ => self.add(line, index),
        }
    }

    /// The id of a line if it has one; a line that was referenced has.
    pub(crate) fn find(&self, line: u64) -> Option<Id> {
        let index = self.indices.get(&(line >> REGION_BITS))?;
        let number = self.numbers[*index as usize][part_of(line)].checked_sub(1)? as usize;
        self.parts[number / PARTS][number % PARTS][line as usize % PART].checked_sub(1)
    }

    /// The regions of lines that have ids.
    pub(crate) fn regions(&self) -> &[u64] {
        &self.regions
    }

    /// All lines that have ids, with these.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Id)> + '_ {
        let parts = self.regions.iter().zip(&self.numbers).flat_map(|(region, numbers)| {
            let first = (region << REGION_BITS..).step_by(PART);
            first.zip(numbers.iter()).filter_map(|(first, number)| Some((first, number.checked_sub(1)? as usize)))
        });
        parts.flat_map(|(first, number)| {
            let ids = &self.parts[number / PARTS][number % PARTS];
            (first..).zip(ids).filter_map(|(line, id)| Some((line, id.checked_sub(1)?)))
        })
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
        self.numbers.push(boxed::array(0));
        Some(index)
    }

    #[cold]
    fn add(&mut self, line: u64, index: u32) -> Option<Id> {
        if self.len >= self.most {
            return None;
        }
        let id = self.len;
        self.len += 1;
        let number = &mut self.numbers[index as usize][part_of(line)];
        if *number == 0 {
            if (self.used as usize).is_multiple_of(PARTS) {
                self.parts.push(boxed::array([0; PART]));
            }
            self.used += 1;
            *number = self.used;
        }
        let number = *number as usize - 1;
        self.parts[number / PARTS][number % PARTS][line as usize % PART] = self.len;
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

/// Which part of its region a line is in.
#[inline(always)]
fn part_of(line: u64) -> usize {
    (line >> PART_BITS) as usize % PARTS
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

//! Numbers of lines: one becomes a dense id once, everything else is indexing, here and in `behind`.
//!
//! Lines come in regions of 1024 neighbours. A region gets the next free index when one of its lines is first seen, so
//! the ids of neighbouring lines are neighbours too and the state of a walked array is walked with it.

use crate::boxed;
use crate::older::Time;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Lines of a region, as bits.
pub(crate) const REGION_BITS: u32 = 10;
pub(crate) const REGION: usize = 1 << REGION_BITS;
const KNOWN_REGIONS: usize = 4096;

/// A line's number among all lines seen, dense within regions.
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
pub(crate) struct Lines {
    /// Direct-mapped cache of region lookups: region + 1 and its index.
    known: Box<[(u64, u32); KNOWN_REGIONS]>,
    indices: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// Region number of each index.
    regions: Vec<u64>,
    state: Vec<Box<[Line]>>,
    /// Regions there may be.
    most: usize,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            known: boxed::array((0, 0)),
            indices: HashMap::default(),
            regions: Vec::new(),
            state: Vec::new(),
            most: 1 << (32 - REGION_BITS),
        }
    }

    /// Allows so many more regions of lines at most.
    pub(crate) fn leave_regions(&mut self, left: usize) {
        self.most = self.most.min(self.regions.len() + left);
    }

    /// Whether this many more lines might not all get an id.
    #[inline(always)]
    pub(crate) fn may_run_out(&self, lines: usize) -> bool {
        self.most - self.regions.len() < lines
    }

    /// The id of a line, given to it now if it has none. `None`: none is left.
    #[inline(always)]
    pub(crate) fn id(&mut self, line: u64) -> Option<Id> {
        let region = line >> REGION_BITS;
        let known = self.known[(region ^ region >> 12) as usize % KNOWN_REGIONS];
        let index = if known.0 == region + 1 { known.1 } else { self.region(region)? };
        Some(index << REGION_BITS | (line as u32 & (REGION as u32 - 1)))
    }

    /// The id of a line if it has one; a line that was referenced has.
    pub(crate) fn find(&self, line: u64) -> Option<Id> {
        let index = self.indices.get(&(line >> REGION_BITS))?;
        Some(index << REGION_BITS | (line as u32 & (REGION as u32 - 1)))
    }

    /// The regions of lines that have ids.
    pub(crate) fn regions(&self) -> &[u64] {
        &self.regions
    }

    #[inline(never)]
    fn region(&mut self, region: u64) -> Option<u32> {
        let index = match self.indices.get(&region) {
            Some(&index) => index,
            None => self.add(region)?,
        };
        self.known[(region ^ region >> 12) as usize % KNOWN_REGIONS] = (region + 1, index);
        Some(index)
    }

    #[cold]
    fn add(&mut self, region: u64) -> Option<u32> {
        if self.regions.len() >= self.most {
            return None;
        }
        let index = self.regions.len() as u32;
        self.indices.insert(region, index);
        self.regions.push(region);
        self.state.push(vec![Line::default(); REGION].into_boxed_slice());
        Some(index)
    }

    /// The line number of an id.
    #[inline(always)]
    pub(crate) fn number(&self, id: Id) -> u64 {
        self.regions[(id >> REGION_BITS) as usize] << REGION_BITS | u64::from(id) & (REGION as u64 - 1)
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

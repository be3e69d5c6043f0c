//! What is known of each line, in flat arrays: a line number becomes a dense id once, everything else is indexing.
//!
//! Lines come in regions of 1024 neighbours. A region gets the next free index when one of its lines is first seen, so
//! the ids of neighbouring lines are neighbours too and the state of a walked array is walked with it.

use crate::boxed;
use crate::item::Charge;
use crate::older::Time;
use crate::simd::Vector;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Lines of a region, as bits.
pub(crate) const REGION_BITS: u32 = 10;
pub(crate) const REGION: usize = 1 << REGION_BITS;
const KNOWN_REGIONS: usize = 4096;

/// A line's number among all lines seen, dense within regions.
pub(crate) type Id = u32;

/// Per-line state: 32 bytes for up to 16 set bits. All zero: never seen.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Line<const W: usize> {
    /// `m_a` for a = 1 ..= W: the greatest d_a since the last store, cut off as the distances are.
    pub(crate) greatest: [u8; W],
    /// `m_0`, the greatest d_0 since the last store.
    pub(crate) greatest_full: u32,
    /// When it last entered the older tier; 0: never.
    pub(crate) last: Time,
    /// Place in the timeline of the older tier; 0: not there.
    pub(crate) place: u32,
    /// Where its last store was counted.
    pub(crate) dirty: Charge,
}

impl<const W: usize> Default for Line<W> {
    fn default() -> Self {
        Self { greatest: [0; W], greatest_full: 0, last: 0, place: 0, dirty: Charge::NONE }
    }
}

impl<const W: usize> Line<W> {
    /// It was referenced at these distances.
    #[inline(always)]
    pub(crate) fn raise<V: Vector>(&mut self, full: u32, by_set: &[u8; W]) {
        self.greatest_full = self.greatest_full.max(full);
        V::raise(&mut self.greatest, by_set);
    }
}

/// State of all lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines<const W: usize> {
    /// Direct-mapped cache of region lookups: region + 1 and its index.
    known: Box<[(u64, u32); KNOWN_REGIONS]>,
    indices: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// Region number of each index.
    regions: Vec<u64>,
    state: Vec<Box<[Line<W>]>>,
    /// Regions there may be.
    most: usize,
}

impl<const W: usize> Lines<W> {
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
    pub(crate) fn get(&self, id: Id) -> &Line<W> {
        &self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: Id) -> &mut Line<W> {
        &mut self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }

    /// Ids of all lines ever stored, in no particular order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Id> + '_ {
        self.state.iter().enumerate().flat_map(|(region, lines)| {
            let dirty = lines.iter().enumerate().filter(|(_, line)| line.dirty != Charge::NONE);
            dirty.map(move |(line, _)| (region << REGION_BITS | line) as Id)
        })
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

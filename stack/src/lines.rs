//! What is known of each line, in flat arrays: a line number becomes a dense id once, everything else is indexing.
//!
//! Lines come in regions of 4096 neighbours. A region gets the next free index when one of its lines is first seen, so
//! the ids of neighbouring lines are neighbours too and the state of a walked array is walked with it.

use crate::sets::Time;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const REGION_BITS: u32 = 12;
const REGION: usize = 1 << REGION_BITS;
const RECENT_REGIONS: usize = 256;

/// A line's number among all lines seen, dense within regions.
pub(crate) type Id = u32;

/// Per-line state. All zero: never seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// When it last left the recent tier; 0: never.
    pub(crate) last: Time,
    /// Place in the timeline; 0: not there.
    pub(crate) place: u32,
    /// `m_0`, the greatest d_0 since the last store.
    pub(crate) greatest: u32,
    /// 0: never stored; else 1 + the bucket of the last store.
    pub(crate) dirty: u8,
    /// How many leading entries of the line's row of m_a, a >= 1, may be other than 0 (m_a never grows with a).
    pub(crate) levels: u8,
    /// 1 + its slot in the recent tier; 0: not there.
    pub(crate) slot: u8,
}

/// State of all lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// Direct-mapped cache of region lookups: region + 1 and its index.
    recent: Box<[(u64, u32); RECENT_REGIONS]>,
    indices: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// Region number of each index.
    regions: Vec<u64>,
    state: Vec<Box<[Line]>>,
    /// m_a for a = 1 ..= K, cut off as the distances are, `K` bytes a line.
    greatest: Vec<Box<[u8]>>,
    set_bits: usize,
}

impl Lines {
    pub(crate) fn new(set_bits: u32) -> Self {
        Self {
            recent: Box::new([(0, 0); RECENT_REGIONS]),
            indices: HashMap::default(),
            regions: Vec::new(),
            state: Vec::new(),
            greatest: Vec::new(),
            set_bits: set_bits as usize,
        }
    }

    /// The id of a line, given to it now if it has none. `None`: all 2^32 ids are taken.
    pub(crate) fn id(&mut self, line: u64) -> Option<Id> {
        let region = line >> REGION_BITS;
        let slot = (region ^ region >> 8) as usize % RECENT_REGIONS;
        let index = if self.recent[slot].0 == region + 1 {
            self.recent[slot].1
        } else {
            let index = self.region(region)?;
            self.recent[slot] = (region + 1, index);
            index
        };
        Some(index << REGION_BITS | (line as u32 & (REGION as u32 - 1)))
    }

    fn region(&mut self, region: u64) -> Option<u32> {
        if let Some(&index) = self.indices.get(&region) {
            return Some(index);
        }
        if self.regions.len() >= 1 << (32 - REGION_BITS) {
            return None;
        }
        let index = self.regions.len() as u32;
        self.indices.insert(region, index);
        self.regions.push(region);
        self.state.push(vec![Line::default(); REGION].into_boxed_slice());
        self.greatest.push(vec![0; REGION * self.set_bits].into_boxed_slice());
        Some(index)
    }

    /// The line number of an id.
    pub(crate) fn number(&self, id: Id) -> u64 {
        self.regions[(id >> REGION_BITS) as usize] << REGION_BITS | u64::from(id) & (REGION as u64 - 1)
    }

    pub(crate) fn get(&self, id: Id) -> &Line {
        &self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> &mut Line {
        &mut self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }

    /// m_a for a >= 1 of a line.
    pub(crate) fn greatest(&self, id: Id) -> &[u8] {
        let at = (id as usize % REGION) * self.set_bits;
        &self.greatest[(id >> REGION_BITS) as usize][at..at + self.set_bits]
    }

    /// State and m_a of a line.
    pub(crate) fn both_mut(&mut self, id: Id) -> (&mut Line, &mut [u8]) {
        let (region, line) = ((id >> REGION_BITS) as usize, id as usize % REGION);
        let at = line * self.set_bits;
        (&mut self.state[region][line], &mut self.greatest[region][at..at + self.set_bits])
    }

    /// Ids of all lines ever stored, in no particular order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Id> + '_ {
        self.state.iter().enumerate().flat_map(|(region, lines)| {
            let dirty = lines.iter().enumerate().filter(|(_, line)| line.dirty != 0);
            dirty.map(move |(line, _)| (region << REGION_BITS | line) as Id)
        })
    }
}

/// Region numbers are few and near each other: one multiplication spreads them well enough.
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
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

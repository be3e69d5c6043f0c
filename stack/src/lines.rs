//! Numbers of lines: one becomes a dense id once, everything else is indexing, here and in `behind`.
//!
//! Lines come in blocks of four neighbours. A block gets the next free number when one of its lines is first seen, so the ids of
//! lines that are first walked over are neighbours too, and their state is walked with them; what lies alone takes no more than
//! the state of a block. Blocks are found by tables of regions of 1024 lines.

use crate::boxed;
use crate::older::Time;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Lines of a region, as bits; as many ids are kept together.
pub(crate) const REGION_BITS: u32 = 10;
pub(crate) const REGION: usize = 1 << REGION_BITS;
/// Lines of a block, as bits.
pub(crate) const BLOCK_BITS: u32 = 2;
/// Blocks of a region.
const BLOCKS: usize = REGION >> BLOCK_BITS;
const KNOWN_REGIONS: usize = 4096;

/// A line's number among all lines of all blocks seen.
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
    /// Of each region, by block: 1 + its number; 0 if it has none.
    tables: Vec<Box<[u32; BLOCKS]>>,
    /// Blocks with a number.
    len: u32,
    /// By the number of a block: where it is.
    places: Vec<Box<[u64; BLOCKS]>>,
    /// By id.
    state: Vec<Box<[Line; REGION]>>,
    /// Blocks there may be.
    most: u32,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            known: boxed::array((0, 0)),
            indices: HashMap::default(),
            regions: Vec::new(),
            tables: Vec::new(),
            len: 0,
            places: Vec::new(),
            state: Vec::new(),
            most: 1 << (32 - BLOCK_BITS),
        }
    }

    /// Allows so many more blocks of lines at most.
    pub(crate) fn leave_blocks(&mut self, left: u32) {
        self.most = self.most.min(self.len + left);
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
        let block = match self.tables[index as usize][(line >> BLOCK_BITS) as usize % BLOCKS] {
            0 => self.add_block(line, index)?,
            block => block - 1,
        };
        Some(id(block, line))
    }

    /// The id of a line if it has one; a line that was referenced has.
    pub(crate) fn find(&self, line: u64) -> Option<Id> {
        let index = self.indices.get(&(line >> REGION_BITS))?;
        let block = self.tables[*index as usize][(line >> BLOCK_BITS) as usize % BLOCKS];
        Some(id(block.checked_sub(1)?, line))
    }

    /// The regions of lines that have ids.
    pub(crate) fn regions(&self) -> &[u64] {
        &self.regions
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
        self.tables.push(boxed::array(0));
        Some(index)
    }

    #[cold]
    fn add_block(&mut self, line: u64, index: u32) -> Option<u32> {
        if self.len >= self.most {
            return None;
        }
        let (block, place) = (self.len, line >> BLOCK_BITS);
        self.len += 1;
        self.tables[index as usize][place as usize % BLOCKS] = self.len;
        if (block as usize).is_multiple_of(BLOCKS) {
            self.places.push(boxed::array(0));
            self.state.push(boxed::array(Line::default()));
        }
        self.places[block as usize / BLOCKS][block as usize % BLOCKS] = place;
        Some(block)
    }

    /// The line number of an id.
    #[inline(always)]
    pub(crate) fn number(&self, id: Id) -> u64 {
        let block = (id >> BLOCK_BITS) as usize;
        self.places[block / BLOCKS][block % BLOCKS] << BLOCK_BITS | u64::from(id) & ((1 << BLOCK_BITS) - 1)
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

/// Of a line in a block.
#[inline(always)]
fn id(block: u32, line: u64) -> Id {
    block << BLOCK_BITS | line as u32 & ((1 << BLOCK_BITS) - 1)
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

//! The peer of the engine: a simulator of one three-level write-back hierarchy, written to be fast.
//!
//! Tags of a set stand in recency order, so that the most recent way, which most references hit, is looked at first
//! and a hit there moves nothing. A dirty line that a level evicts is written to the next level.

use bf_stack::Reference;

/// One level: `sets` a power of two.
#[derive(Clone, Debug)]
struct Level {
    /// Line number << 1 | dirty, most recent first in each set; `u64::MAX` is an empty way.
    tags: Vec<u64>,
    ways: usize,
    mask: u64,
    misses: u64,
    writebacks: u64,
}

/// L1 32 KiB 8 ways, L2 1 MiB 16 ways, L3 32 MiB 16 ways, 64-byte lines.
#[derive(Clone, Debug)]
pub struct Hierarchy([Level; 3]);

impl Level {
    fn new(size: usize, ways: usize) -> Self {
        let sets = size / 64 / ways;
        Self { tags: vec![u64::MAX; sets * ways], ways, mask: sets as u64 - 1, misses: 0, writebacks: 0 }
    }

    /// Looks a line up and puts it on top. Returns whether it hit and the dirty line that had to go.
    #[inline]
    fn access(&mut self, line: u64, dirty: bool) -> (bool, Option<u64>) {
        let first = (line & self.mask) as usize * self.ways;
        let set = &mut self.tags[first..first + self.ways];
        if set[0] >> 1 == line {
            set[0] |= u64::from(dirty);
            return (true, None);
        }
        if let Some(way) = set[1..].iter().position(|&tag| tag >> 1 == line) {
            let tag = set[way + 1] | u64::from(dirty);
            set.copy_within(..=way, 1);
            set[0] = tag;
            return (true, None);
        }
        self.misses += 1;
        let last = set[set.len() - 1];
        set.copy_within(..set.len() - 1, 1);
        set[0] = line << 1 | u64::from(dirty);
        if last & 1 != 0 && last != u64::MAX {
            self.writebacks += 1;
            return (false, Some(last >> 1));
        }
        (false, None)
    }
}

impl Hierarchy {
    /// Empty caches.
    #[must_use]
    pub fn new() -> Self {
        Self([Level::new(32 << 10, 8), Level::new(1 << 20, 16), Level::new(32 << 20, 16)])
    }

    /// Takes references in order.
    pub fn feed(&mut self, references: &[Reference]) {
        for reference in references {
            self.access(0, reference.line(), reference.is_store());
        }
    }

    fn access(&mut self, level: usize, line: u64, dirty: bool) {
        let (hit, evicted) = self.0[level].access(line, dirty);
        if level + 1 == self.0.len() {
            return;
        }
        if !hit {
            self.access(level + 1, line, false);
        }
        if let Some(evicted) = evicted {
            self.access(level + 1, evicted, true);
        }
    }

    /// Misses of each level, write-backs' lookups included.
    #[must_use]
    pub fn misses(&self) -> [u64; 3] {
        [0, 1, 2].map(|level| self.0[level].misses)
    }
}

impl Default for Hierarchy {
    fn default() -> Self {
        Self::new()
    }
}

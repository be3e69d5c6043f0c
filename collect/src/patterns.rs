//! What is kept of accesses besides stacks, if asked for: which bytes they touch, and in which steps they go.
//!
//! Invariant: what one thread did comes in order; threads may come in any.

use crate::strides::Strides;
use crate::touched::Touches;
use crate::{Batch, Bucket};
use bf_profile::Patterns as Found;

/// What to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Which bytes are touched: a bit for each.
    pub bytes: bool,
    /// How often, too: 4 bytes for each.
    pub touches: bool,
    /// Strides of instructions.
    pub strides: bool,
    /// Bytes and touches by function, too: shapes tell of which they are.
    pub functions: bool,
}

impl Wanted {
    /// Either's.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            bytes: self.bytes || other.bytes,
            touches: self.touches || other.touches,
            strides: self.strides || other.strides,
            functions: self.functions || other.functions,
        }
    }

    /// Whether there is anything.
    #[must_use]
    pub const fn any(self) -> bool {
        self.touched() || self.strides
    }

    /// Whether bytes are kept, or how often they are touched.
    #[must_use]
    pub const fn touched(self) -> bool {
        self.bytes || self.touches
    }
}

/// What is kept of a process.
#[derive(Debug)]
pub struct Patterns {
    wanted: Wanted,
    touches: Touches,
    strides: Strides,
    /// Whether no more memory may be taken.
    full: fn() -> bool,
}

impl Patterns {
    /// Nothing yet.
    #[must_use]
    pub fn new(wanted: Wanted, full: fn() -> bool) -> Self {
        Self { wanted, touches: Touches::new(wanted.touches), strides: Strides::default(), full }
    }

    /// What it keeps.
    #[must_use]
    pub const fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Takes a batch of the thread on `slot`.
    pub fn feed(&mut self, slot: u32, batch: &Batch, bucket: Bucket) {
        if self.wanted.strides {
            self.strides.feed(slot, batch, bucket);
        }
        if self.wanted.touched() && bucket != Bucket::UNCOUNTED {
            self.touches.feed(batch, bucket, self.full);
        }
    }

    /// The thread on this slot ended.
    pub fn end(&mut self, slot: u32) {
        self.strides.end(slot);
    }

    /// What was kept so far. `site` says where a step of a segment comes from: see [`Shape::of_segment`](crate::Shape::of_segment).
    pub fn found(&self, site: impl FnMut(u32, usize) -> Option<u32>) -> Found {
        let Wanted { functions, .. } = self.wanted;
        let touched = if self.wanted.touched() { self.touches.found() } else { Vec::new() };
        let by_function = if functions { self.touches.found_by_function() } else { Vec::new() };
        Found { touched, strides: self.strides.found(site), by_function }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::Touched;

    #[test]
    fn tags_are_parts_of_the_whole() {
        let wanted = Wanted { touches: true, ..Wanted::default() };
        let mut patterns = Patterns::new(wanted, || false);
        for (bucket, address) in [(Bucket::FIRST, 0), (Bucket(3), 4), (Bucket(3), 4), (Bucket::UNCOUNTED, 100)] {
            let mut batch = Batch::new();
            batch.access(address, 8, false);
            patterns.feed(0, &batch, bucket);
        }
        let part = |tag, bytes, touches: &[(u64, u64)]| Touched { tag, bytes, touches: touches.to_vec(), missing: 0 };
        let expected =
            [part(None, 12, &[(1, 4), (2, 4), (3, 4)]), part(Some(0), 8, &[(1, 8)]), part(Some(2), 8, &[(2, 8)])];
        assert_eq!(patterns.found(|_, _| None), Found { touched: expected.to_vec(), ..Found::default() });
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wanted() {
        assert_eq!(Patterns::new(Wanted::default(), || false).found(|_, _| None), Found::default());
    }
}

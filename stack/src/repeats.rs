//! Counts that are alike, held back to be counted at once.
//!
//! A loop makes the same few combinations of distances again and again, and counting one means adding to a cell for every
//! set count. Here a combination waits in a table until another needs its place.

use crate::Item;
use crate::boxed;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The distance of a load.
    Load,
    /// The distance of a store.
    Store,
    /// The greatest distances of a dirty interval that a store closed.
    Writeback,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Load, Self::Store, Self::Writeback];
}

/// Distances, or greatest distances, and how often they occurred.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination<const W: usize> {
    /// For a = 1 ..= W.
    pub(crate) by_set: [u8; W],
    /// For one set.
    pub(crate) full: u32,
    pub(crate) kind: Kind,
    pub(crate) item: Item,
    /// 0: this stands for nothing.
    pub(crate) weight: u64,
}

/// A table of so many entries.
#[derive(Clone, Debug)]
pub(crate) struct Repeats<const W: usize, const ENTRIES: usize>(Box<[Combination<W>; ENTRIES]>);

impl<const W: usize, const ENTRIES: usize> Repeats<W, ENTRIES> {
    pub(crate) fn new() -> Self {
        Self(boxed::array(Combination::NONE))
    }

    /// Adds a combination; returns another that had to make room for it.
    #[inline(always)]
    pub(crate) fn add(&mut self, new: Combination<W>) -> Option<Combination<W>> {
        let entry = &mut self.0[new.hash() >> (64 - ENTRIES.ilog2())];
        if entry.is_like(&new) {
            entry.weight += new.weight;
            return None;
        }
        Some(std::mem::replace(entry, new))
    }

    /// What is in the table.
    pub(crate) fn all(&self) -> impl Iterator<Item = Combination<W>> {
        self.0.iter().copied().filter(|entry| entry.weight != 0)
    }
}

impl<const W: usize> Combination<W> {
    pub(crate) const NONE: Self = Self { by_set: [0; W], full: 0, kind: Kind::Load, item: Item::NONE, weight: 0 };

    /// Whether it counts in the same places.
    #[inline(always)]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let same = (self.full, self.kind, self.item) == (other.full, other.kind, other.item);
        same && self.by_set == other.by_set
    }

    /// Well mixed in its high bits.
    #[inline(always)]
    fn hash(&self) -> usize {
        let mut mixed = u64::from(self.full) << 2 | self.kind as u64 | u64::from(self.item.0) << 40;
        for word in self.by_set.as_chunks::<8>().0 {
            mixed = mixed.rotate_left(25) ^ u64::from_le_bytes(*word);
        }
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize
    }
}

//! The second tier: the 64 lines that follow the top ones, in slots without order.
//!
//! Invariant: every line here is older than the top tier and more recent than all others. A line that goes up leaves its
//! slot to the one that comes down for it. Distances come from bit masks with one bit a slot: the slots referenced since,
//! by their stamps, and the slots whose line agrees with the one referenced in its lowest bits.

use crate::held::Entry;
use crate::simd::{Index, Task, Vector};

/// How many lines the tier holds.
pub(crate) const NEWEST: usize = 64;

/// One byte for each slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Stamps(pub(crate) [u8; NEWEST]);

/// The slots.
#[derive(Clone, Debug)]
pub(crate) struct Newest<const W: usize> {
    /// Greater is more recent; all different. Slots that are not in use have the least.
    stamps: Stamps,
    index: [Index<W>; 1],
    entries: [Entry; NEWEST],
    /// Slots in use.
    used: u64,
    /// The next stamp.
    tick: u8,
    /// Slots, oldest first, as the stamps were last renumbered; those before `oldest` were referenced since.
    by_age: [u8; NEWEST],
    oldest: usize,
}

impl<const W: usize> Newest<W> {
    pub(crate) fn new() -> Self {
        Self {
            stamps: Stamps(std::array::from_fn(|slot| slot as u8)),
            index: [Index::EMPTY],
            entries: [0; NEWEST],
            used: 0,
            tick: NEWEST as u8,
            by_age: std::array::from_fn(|slot| slot as u8),
            oldest: 0,
        }
    }

    /// The stamps, for those that keep them up to date.
    #[inline(always)]
    pub(crate) fn stamps<V: Vector>(&self) -> V::Stamps {
        V::load(&self.stamps)
    }

    /// The slots used more recently than this one.
    #[inline(always)]
    pub(crate) fn newer<V: Vector>(&self, stamps: V::Stamps, slot: usize) -> u64 {
        V::later(stamps, self.stamps.0[slot % NEWEST])
    }

    #[inline(always)]
    fn stamp<V: Vector>(&mut self, stamps: &mut V::Stamps, slot: usize) {
        if self.tick == u8::MAX {
            *stamps = self.renumber::<V>();
        }
        self.stamps.0[slot % NEWEST] = self.tick;
        *stamps = V::with(*stamps, slot, self.tick);
        self.tick += 1;
    }

    /// How many slots of `mask` are in the line's set, for a = 1, 2, …
    #[inline(always)]
    pub(crate) fn tally<V: Vector>(&self, mask: u64, line: u64) -> [u8; W] {
        V::tally(&self.index, &[mask], line)
    }

    /// All slots in use.
    #[inline(always)]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Puts a line into a slot and makes it the most recent.
    #[inline(always)]
    pub(crate) fn put<V: Vector>(&mut self, stamps: &mut V::Stamps, slot: usize, line: u64, entry: Entry) {
        let slot = slot % NEWEST;
        self.entries[slot] = entry;
        V::enter(&mut self.index[0], slot, line);
        self.stamp::<V>(stamps, slot);
    }

    /// A slot for one more line, and the line that has to leave it.
    #[inline(always)]
    pub(crate) fn slot_for_new<V: Vector>(&mut self, stamps: &mut V::Stamps) -> (usize, Option<Entry>) {
        if self.used != u64::MAX {
            let slot = self.used.trailing_ones() as usize;
            self.used |= 1 << slot;
            return (slot, None);
        }
        loop {
            if self.oldest == NEWEST {
                *stamps = self.renumber::<V>();
            }
            let slot = usize::from(self.by_age[self.oldest % NEWEST]) % NEWEST;
            self.oldest += 1;
            if usize::from(self.stamps.0[slot]) < NEWEST {
                return (slot, Some(self.entries[slot]));
            }
        }
    }

    /// The line in a slot goes.
    #[inline(always)]
    pub(crate) fn remove<V: Vector>(&mut self, stamps: &mut V::Stamps, slot: usize) {
        self.used &= !(1 << slot);
        V::run(Renumber(self));
        let rank = self.stamps.0[slot];
        self.stamps.0.iter_mut().filter(|stamp| **stamp < rank).for_each(|stamp| *stamp += 1);
        self.stamps.0[slot] = 0;
        self.by_age[..=usize::from(rank)].rotate_right(1);
        *stamps = V::load(&self.stamps);
    }

    /// Entries, oldest first.
    pub(crate) fn oldest_first(&self) -> Vec<Entry> {
        oldest_first(|slot| self.stamps.0[slot], &self.entries, &[self.used])
    }

    /// Numbers the stamps 0 ..= 63 in the same order; returns them.
    #[inline(always)]
    fn renumber<V: Vector>(&mut self) -> V::Stamps {
        let before = V::load(&self.stamps);
        let stamps = self.stamps.0;
        for (slot, &stamp) in (0..).zip(&stamps) {
            let rank = NEWEST - 1 - V::later(before, stamp).count_ones() as usize;
            self.stamps.0[usize::from(slot)] = rank as u8;
            self.by_age[rank % NEWEST] = slot;
        }
        self.tick = NEWEST as u8;
        self.oldest = 0;
        V::load(&self.stamps)
    }
}

/// Numbers the stamps of the newest tier.
struct Renumber<'a, const W: usize>(&'a mut Newest<W>);

impl<const W: usize> Task for Renumber<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.0.renumber::<V>();
    }
}

/// The entries of the slots that are `used`, oldest first.
pub(crate) fn oldest_first<N: Ord>(stamp: impl Fn(usize) -> N, entries: &[Entry], used: &[u64]) -> Vec<Entry> {
    let mut slots: Vec<_> = (0..entries.len()).filter(|slot| used[slot / 64] >> (slot % 64) & 1 != 0).collect();
    slots.sort_unstable_by_key(|&slot| stamp(slot));
    slots.into_iter().map(|slot| entries[slot]).collect()
}

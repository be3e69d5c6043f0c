//! The third tier: the 256 lines that follow the newest, in slots without order.
//!
//! Invariant: every line here is older than the newest tier and more recent than the older one. A line that goes up
//! leaves its slot to the one that comes down for it. Otherwise it is as the newest tier, with wider masks and stamps.

use crate::held::Entry;
use crate::newest::{make_oldest, oldest_first};
use crate::simd::{Index, Vector};

/// How many lines the tier holds, in words of 64.
pub(crate) const WORDS: usize = 4;
pub(crate) const RECENT: usize = 64 * WORDS;
/// Lines that come here before the stamps are numbered again.
const NEW: usize = 1024;

/// One number for each slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Stamps(pub(crate) [u16; RECENT]);

/// The slots.
#[derive(Clone, Debug)]
pub(crate) struct Recent<const W: usize> {
    /// Greater is more recent; all different.
    stamps: Stamps,
    index: [Index<W>; WORDS],
    entries: [Entry; RECENT],
    /// Slots in use.
    used: [u64; WORDS],
    /// The next stamp.
    tick: u16,
    /// Slots, oldest first, as the stamps were last renumbered; those before `oldest` were referenced since.
    by_age: [u16; RECENT],
    oldest: usize,
    /// Slots that got a stamp since, in this order.
    new: [u16; NEW],
}

impl<const W: usize> Recent<W> {
    pub(crate) fn new() -> Self {
        Self {
            stamps: Stamps(std::array::from_fn(|slot| slot as u16)),
            index: [const { Index::EMPTY }; WORDS],
            entries: [0; RECENT],
            used: [0; WORDS],
            tick: RECENT as u16,
            by_age: std::array::from_fn(|slot| slot as u16),
            oldest: 0,
            new: [0; NEW],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.used.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Distances within this tier of the line in a slot: with one set and with 2^1, 2^2, …, at most 255 each.
    #[inline(always)]
    pub(crate) fn distances<V: Vector>(&self, slot: usize, line: u64) -> (usize, [u8; W]) {
        let mut masks = V::later_wide(&self.stamps, self.stamps.0[slot % RECENT]);
        let mut full = 0;
        for (mask, used) in masks.iter_mut().zip(self.used) {
            *mask &= used;
            full += mask.count_ones() as usize;
        }
        (full, V::tally(&self.index, &masks, line))
    }

    /// How many lines here are in the line's set, at most 255, for a = 1, 2, …
    #[inline(always)]
    pub(crate) fn tally<V: Vector>(&self, line: u64) -> [u8; W] {
        V::tally(&self.index, &self.used, line)
    }

    /// Puts a line that comes down into a slot and makes it the most recent.
    #[inline(always)]
    pub(crate) fn put<V: Vector>(&mut self, slot: usize, line: u64, entry: Entry) {
        if usize::from(self.tick) == RECENT + NEW {
            self.renumber();
        }
        let slot = slot % RECENT;
        self.entries[slot] = entry;
        self.new[usize::from(self.tick) - RECENT] = slot as u16;
        V::enter(&mut self.index[slot / 64], slot % 64, line);
        V::stamp(&mut self.stamps, slot, self.tick);
        self.tick += 1;
    }

    /// A slot for one more line, and the line that has to leave it.
    #[inline(always)]
    pub(crate) fn slot_for_new(&mut self) -> (usize, Option<Entry>) {
        if let Some(word) = self.used.iter().position(|&word| word != u64::MAX) {
            let slot = self.used[word].trailing_ones() as usize;
            self.used[word] |= 1 << slot;
            return (64 * word + slot, None);
        }
        loop {
            if self.oldest == RECENT {
                self.renumber();
            }
            let slot = usize::from(self.by_age[self.oldest % RECENT]) % RECENT;
            if usize::from(self.stamps.0[slot]) < RECENT {
                return (slot, Some(self.entries[slot]));
            }
            self.oldest += 1;
        }
    }

    /// The line in a slot goes.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.used[slot / 64] &= !(1 << (slot % 64));
        self.renumber();
        make_oldest(&mut self.stamps.0, &mut self.by_age, slot);
    }

    /// Entries, oldest first.
    pub(crate) fn oldest_first(&self) -> Vec<Entry> {
        oldest_first(&self.stamps.0, &self.entries, &self.used)
    }

    /// Numbers the stamps 0 ..= 255 in the same order.
    #[inline(never)]
    fn renumber(&mut self) {
        let stamps = &mut self.stamps.0;
        // One more, for what turns out to have got another stamp later.
        let (mut by_age, mut rank) = ([0; RECENT + 1], 0);
        let mut next = |slot: u16, is_last: bool| {
            by_age[rank] = slot;
            rank += usize::from(is_last);
        };
        for &slot in &self.by_age[self.oldest..] {
            next(slot, usize::from(stamps[usize::from(slot) % RECENT]) < RECENT);
        }
        for (stamp, &slot) in (RECENT as u16..self.tick).zip(&self.new) {
            next(slot, stamps[usize::from(slot) % RECENT] == stamp);
        }
        self.by_age.copy_from_slice(&by_age[..RECENT]);
        for (rank, &slot) in (0..).zip(&self.by_age) {
            stamps[usize::from(slot) % RECENT] = rank;
        }
        self.tick = RECENT as u16;
        self.oldest = 0;
    }
}

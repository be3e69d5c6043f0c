//! The recent tier: the 64 most recently referenced lines, in slots without order.
//!
//! Invariant: every line here is more recent than every other, and none is in the timeline as well. Most references hit
//! here and touch nothing else. Their distances come from bit operations on masks with one bit a slot: the slots
//! referenced since (by their stamps), and, for each bit of the line number, the slots whose line has it.

use crate::Limits;
use crate::lines::Id;
use crate::sets::Time;
use crate::simd::Vector;

/// How many lines the tier holds.
pub(crate) const RECENT: usize = 64;
const HINTS: usize = 256;

/// One byte for each slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Stamps(pub(crate) [u8; RECENT]);

/// One time for each slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Times(pub(crate) [Time; RECENT]);

/// The slots.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    /// Greater is more recent; all different.
    stamps: Stamps,
    lines: [u64; RECENT],
    ids: [Id; RECENT],
    /// For the sets, which still hold these lines at the time they last left this tier; 0: never.
    left: Times,
    /// For each low bit of line numbers, the slots whose line has it set.
    bits: [u64; Limits::MOST_SET_BITS as usize],
    len: usize,
    /// The next stamp.
    tick: u8,
    /// Slots, oldest first, as the stamps were last renumbered; those before `oldest` were referenced since.
    by_age: [u8; RECENT],
    oldest: usize,
    /// The slot in which a line with this hash was last seen.
    hints: [u8; HINTS],
}

impl Recent {
    pub(crate) fn new() -> Self {
        Self {
            stamps: Stamps(std::array::from_fn(|slot| slot as u8)),
            lines: [0; RECENT],
            ids: [0; RECENT],
            left: Times([0; RECENT]),
            bits: [0; Limits::MOST_SET_BITS as usize],
            len: 0,
            tick: RECENT as u8,
            by_age: std::array::from_fn(|slot| slot as u8),
            oldest: 0,
            hints: [0; HINTS],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot of a line, if it is remembered; not finding it says nothing.
    #[inline(always)]
    pub(crate) fn find(&self, line: u64) -> Option<usize> {
        let slot = usize::from(self.hints[hash(line)]);
        (slot < self.len && self.lines[slot] == line).then_some(slot)
    }

    /// The id of the line in a slot.
    #[inline(always)]
    pub(crate) fn id(&self, slot: usize) -> Id {
        self.ids[slot]
    }

    /// The slots used more recently than this one.
    pub(crate) fn newer<V: Vector>(&self, slot: usize) -> u64 {
        V::later(&self.stamps, self.stamps.0[slot]) & self.used()
    }

    /// As [`Recent::newer`], then makes the slot the most recent.
    #[inline(always)]
    pub(crate) fn touch<V: Vector>(&mut self, slot: usize) -> u64 {
        if self.tick == u8::MAX {
            self.renumber::<V>();
        }
        let newer = V::touch(&mut self.stamps, slot, self.tick) & self.used();
        self.tick += 1;
        self.hints[hash(self.lines[slot])] = slot as u8;
        newer
    }

    /// How many slots of `mask` are in the line's set, for a = 1, 2, … as far as there are any. Returns how far.
    #[inline(always)]
    pub(crate) fn tally(&self, mut mask: u64, line: u64, distances: &mut [u8]) -> usize {
        for (index, distance) in distances.iter_mut().enumerate() {
            mask = self.matching(mask, line, index);
            if mask == 0 {
                return index;
            }
            *distance = mask.count_ones() as u8;
        }
        distances.len()
    }

    /// The slots of `mask` whose line has the same bit `index` as this one.
    #[inline(always)]
    pub(crate) fn matching(&self, mask: u64, line: u64, index: usize) -> u64 {
        mask & !(self.bits[index] ^ (line >> index & 1).wrapping_neg())
    }

    /// The slots whose line last left this tier at `time` or before: those that are newer than a line that left at
    /// `time`, and that the sets do not know to be.
    #[inline(always)]
    pub(crate) fn unknown_to_sets<V: Vector>(&self, time: Time) -> u64 {
        !V::later_times(&self.left, time) & self.used()
    }

    /// The slot that a new line should have, and the line that is there: the oldest if all slots are used.
    #[inline(always)]
    pub(crate) fn slot_for_new<V: Vector>(&mut self) -> (usize, Option<(u64, Id)>) {
        if self.len < RECENT {
            self.len += 1;
            return (self.len - 1, None);
        }
        loop {
            if self.oldest == RECENT {
                self.renumber::<V>();
            }
            let slot = usize::from(self.by_age[self.oldest]);
            self.oldest += 1;
            if usize::from(self.stamps.0[slot]) < RECENT {
                return (slot, Some((self.lines[slot], self.ids[slot])));
            }
        }
    }

    /// Puts a line into a slot and makes it the most recent.
    #[inline(always)]
    pub(crate) fn put<V: Vector>(&mut self, slot: usize, line: u64, id: Id, left: Time) {
        self.lines[slot] = line;
        self.ids[slot] = id;
        self.left.0[slot] = left;
        for (index, bits) in self.bits.iter_mut().enumerate() {
            *bits = *bits & !(1 << slot) | (line >> index & 1) << slot;
        }
        self.touch::<V>(slot);
    }

    /// Lets the sets know nothing of these lines any more.
    pub(crate) fn forget_times(&mut self) {
        self.left = Times([0; RECENT]);
    }

    fn used(&self) -> u64 {
        u64::MAX.checked_shr((RECENT - self.len) as u32).unwrap_or(0)
    }

    /// Numbers the stamps 0 ..= 63 in the same order.
    #[cold]
    fn renumber<V: Vector>(&mut self) {
        let old = self.stamps;
        for slot in 0..RECENT {
            let rank = RECENT - 1 - V::later(&old, old.0[slot]).count_ones() as usize;
            self.stamps.0[slot] = rank as u8;
            self.by_age[rank] = slot as u8;
        }
        self.tick = RECENT as u8;
        self.oldest = 0;
    }
}

fn hash(line: u64) -> usize {
    (line ^ line >> 8 ^ line >> 20) as usize % HINTS
}

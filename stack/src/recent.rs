//! The third tier: the 256 lines that follow the newest, in slots without order; or, where that pays, 1024 lines.
//!
//! Invariant: every line here is older than the newest tier and more recent than the older one. A line that goes up
//! leaves its slot to the one that comes down for it. Otherwise it is as the newest tier, with wider masks and stamps.
//!
//! A line among the next thousand takes longer in the older tier than it would here, but all lines of a wide tier
//! have to be looked at for those that are deeper, and for those that are near. So it is wide as long as it pays (`Reach`).

use crate::boxed;
use crate::held::{Entry, HELD};
use crate::newest::oldest_first;
use crate::simd::{Index, Vector};

/// How many lines the tier holds, in words of 64, and how many if it is wide.
const WORDS: usize = 4;
const MOST_WORDS: usize = 16;
pub(crate) const RECENT: usize = 64 * WORDS;
pub(crate) const MOST_RECENT: usize = 64 * MOST_WORDS;
/// Lines that come here before the stamps are numbered again.
const NEW: usize = 1024;

/// Whether the tier is to be wide, by how far down lines were found of late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// In the tier as it is at least; where only a wide one has them; and further down.
    near: u32,
    mid: u32,
    far: u32,
    blocks: u32,
    flips: bool,
}

impl Reach {
    /// A decision is made for so many lines.
    const WINDOW: u32 = 1 << 14;
    /// A wide tier gains so many times more for a line that only it has than it costs for a near one, and it costs so many times
    /// more for one further down. What is gained is to be half as much again as what it costs to change that.
    const GAIN: u32 = 4;
    const COST: u32 = 2;

    /// Of lines that are held only those of one block in so many are counted.
    const EVERY: u32 = 8;

    /// Whether those of the next block are.
    #[inline(always)]
    pub(crate) fn is_sample(&mut self) -> bool {
        self.blocks = self.blocks.wrapping_add(1);
        self.blocks.is_multiple_of(Self::EVERY)
    }

    /// A line was held, so far down.
    #[inline(always)]
    pub(crate) fn found(&mut self, full: u32) {
        if Self::is_mid(full) {
            self.mid += Self::EVERY;
        } else {
            self.near += if full as usize >= HELD - RECENT { Self::EVERY } else { 0 };
        }
    }

    /// A line came in from the older tier, from so far down, if it was there.
    #[inline(always)]
    pub(crate) fn fetched(&mut self, full: Option<u32>) {
        let is_mid = full.is_some_and(Self::is_mid);
        self.mid += u32::from(is_mid);
        self.far += u32::from(!is_mid);
    }

    /// Lines so far down are in a wide tier only.
    #[inline(always)]
    fn is_mid(full: u32) -> bool {
        (HELD as u32..(HELD + MOST_RECENT - RECENT) as u32).contains(&full)
    }

    /// It is to be otherwise.
    pub(crate) fn flip(&mut self) {
        self.flips = true;
    }

    /// Whether it should be otherwise than it is.
    pub(crate) fn changes(&mut self, is_wide: bool) -> bool {
        if std::mem::take(&mut self.flips) {
            return true;
        }
        if self.near + self.mid + self.far < Self::WINDOW {
            return false;
        }
        let Self { near, mid, far, .. } = std::mem::take(self);
        let (gain, cost) = (Self::GAIN * mid, near + Self::COST * far);
        if is_wide { 3 * gain < 2 * cost } else { 2 * gain > 3 * cost }
    }
}

/// One number for each of 64 slots.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Stamps(pub(crate) [u16; 64]);

/// The slots.
#[derive(Clone, Debug)]
pub(crate) struct Recent<const W: usize> {
    /// Greater is more recent; all different.
    stamps: Box<[Stamps; MOST_WORDS]>,
    index: Box<[Index<W>; MOST_WORDS]>,
    entries: Box<[Entry; MOST_RECENT]>,
    /// Slots in use, and how many they are.
    used: [u64; MOST_WORDS],
    len: usize,
    wide: bool,
    /// The next stamp.
    tick: u16,
    /// Slots, oldest first, as the stamps were last renumbered; those before `oldest` were referenced since.
    by_age: Box<[u16; MOST_RECENT]>,
    oldest: usize,
    /// Slots that got a stamp since, in this order.
    new: Box<[u16; NEW]>,
}

impl<const W: usize> Recent<W> {
    pub(crate) fn new() -> Self {
        let mut new = Self {
            stamps: boxed::array(Stamps([0; 64])),
            index: boxed::array(Index::EMPTY),
            entries: boxed::array(0),
            used: [0; MOST_WORDS],
            len: 0,
            wide: false,
            tick: 0,
            by_age: boxed::array(0),
            oldest: 0,
            new: boxed::array(0),
        };
        new.clear();
        new
    }

    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        (self.used, self.len) = ([0; MOST_WORDS], 0);
        let slots = self.slots();
        self.number(0..slots as u16);
    }

    /// So many lines there is room for.
    fn slots(&self) -> usize {
        if self.wide { MOST_RECENT } else { RECENT }
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.wide
    }

    /// There is room for more lines.
    pub(crate) fn widen(&mut self) {
        self.renumber();
        self.wide = true;
        let by_age = *self.by_age;
        // What was never used is oldest.
        self.number((RECENT as u16..MOST_RECENT as u16).chain(by_age[..RECENT].iter().copied()));
    }

    /// There is not any more; nothing is here.
    pub(crate) fn narrow(&mut self) {
        self.wide = false;
        self.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn stamp_of(&mut self, slot: u16) -> &mut u16 {
        &mut self.stamps[usize::from(slot) / 64 % MOST_WORDS].0[usize::from(slot) % 64]
    }

    /// Stamps from 0 on for all slots, oldest first.
    fn number(&mut self, slots: impl Iterator<Item = u16>) {
        for (rank, slot) in (0..).zip(slots) {
            self.by_age[usize::from(rank) % MOST_RECENT] = slot;
            *self.stamp_of(slot) = rank;
        }
        (self.tick, self.oldest) = (self.slots() as u16, 0);
    }

    /// Distances within this tier of the line in a slot: with one set and with 2^1, 2^2, …, at most 255 each.
    #[inline(always)]
    pub(crate) fn distances<V: Vector>(&self, slot: usize, line: u64) -> (usize, [u8; W]) {
        if self.wide {
            self.distances_in::<V, MOST_WORDS>(slot, line)
        } else {
            self.distances_in::<V, WORDS>(slot, line)
        }
    }

    #[inline(always)]
    fn distances_in<V: Vector, const N: usize>(&self, slot: usize, line: u64) -> (usize, [u8; W]) {
        let stamp = self.stamps[slot / 64 % MOST_WORDS].0[slot % 64];
        let (mut masks, mut full) = (V::later_wide::<N>(first(&self.stamps), stamp), 0);
        for (mask, used) in masks.iter_mut().zip(self.used) {
            *mask &= used;
            full += mask.count_ones() as usize;
        }
        (full, V::tally(first::<_, N, MOST_WORDS>(&self.index), &masks, line))
    }

    /// How many lines here are in the line's set, at most 255, for a = 1, 2, …
    #[inline(always)]
    pub(crate) fn tally<V: Vector>(&self, line: u64) -> [u8; W] {
        if self.wide {
            V::tally(&self.index, &self.used, line)
        } else {
            V::tally::<W, WORDS>(first(&self.index), first(&self.used), line)
        }
    }

    /// Puts a line that comes down into a slot and makes it the most recent.
    #[inline(always)]
    pub(crate) fn put<V: Vector>(&mut self, slot: usize, line: u64, entry: Entry) {
        if usize::from(self.tick) == self.slots() + NEW {
            self.renumber();
        }
        let slot = slot % MOST_RECENT;
        self.entries[slot] = entry;
        self.new[(usize::from(self.tick) - self.slots()) % NEW] = slot as u16;
        V::enter(&mut self.index[slot / 64], slot % 64, line);
        V::stamp(&mut self.stamps[slot / 64], slot % 64, self.tick);
        self.tick += 1;
    }

    /// A slot for one more line, and the line that has to leave it.
    #[inline(always)]
    pub(crate) fn slot_for_new(&mut self) -> (usize, Option<Entry>) {
        let slots = self.slots();
        if self.len < slots
            && let Some(word) = self.used.iter().position(|&word| word != u64::MAX)
        {
            let slot = self.used[word].trailing_ones() as usize;
            self.used[word] |= 1 << slot;
            self.len += 1;
            return (64 * word + slot, None);
        }
        loop {
            if self.oldest == slots {
                self.renumber();
            }
            let slot = self.by_age[self.oldest % MOST_RECENT];
            if usize::from(*self.stamp_of(slot)) < slots {
                let slot = usize::from(slot) % MOST_RECENT;
                return (slot, Some(self.entries[slot]));
            }
            self.oldest += 1;
        }
    }

    /// The line in a slot goes.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.used[slot / 64] &= !(1 << (slot % 64));
        self.len -= 1;
        self.renumber();
        let (mut by_age, slots) = (*self.by_age, self.slots());
        if let Some(rank) = by_age[..slots].iter().position(|&other| usize::from(other) == slot) {
            by_age[..=rank].rotate_right(1);
        }
        self.number(by_age[..slots].iter().copied());
    }

    /// Entries, oldest first.
    pub(crate) fn oldest_first(&self) -> Vec<Entry> {
        let stamp = |slot: usize| self.stamps[slot / 64].0[slot % 64];
        oldest_first(stamp, &self.entries[..self.slots()], &self.used)
    }

    /// Numbers the stamps from 0 on in the same order.
    #[inline(never)]
    fn renumber(&mut self) {
        let slots = self.slots();
        // One more, for what turns out to have got another stamp later.
        let (mut by_age, mut rank) = ([0; MOST_RECENT + 1], 0);
        let mut next = |slot: u16, is_last: bool| {
            by_age[rank] = slot;
            rank += usize::from(is_last);
        };
        for at in self.oldest..slots {
            let slot = self.by_age[at];
            next(slot, usize::from(*self.stamp_of(slot)) < slots);
        }
        for stamp in slots as u16..self.tick {
            let slot = self.new[usize::from(stamp) - slots];
            next(slot, *self.stamp_of(slot) == stamp);
        }
        self.number(by_age[..slots].iter().copied());
    }
}

/// The first ones.
#[inline(always)]
fn first<T, const N: usize, const OF: usize>(all: &[T; OF]) -> &[T; N] {
    &all.as_chunks().0[0]
}

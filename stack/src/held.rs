//! The lines of the three upper tiers, found by their numbers.
//!
//! Invariant: a line is here from when it comes into the top tier until it leaves the recent one, in the same entry,
//! wherever it moves between them. Whatever hits in these tiers is done with here and touches no other state of the
//! line; what happened to it is handed over when it leaves.

use crate::boxed;
use crate::item::Charge;
use crate::newest::NEWEST;
use crate::recent::{MOST_RECENT, RECENT};
use crate::simd::Vector;
use crate::top::TOP;

/// How many lines there is always room for.
pub(crate) const HELD: usize = TOP + NEWEST + RECENT;
/// Room for those of a wide recent tier, too: a power of two, so that it takes next to nothing to see that an entry is within.
pub(crate) const ENTRIES: usize = (TOP + NEWEST + MOST_RECENT).next_power_of_two();
/// Instead of a slot: in the top tier, whose lines move.
pub(crate) const ON_TOP: usize = NEWEST + MOST_RECENT;
const HEADS: usize = 2048;
const NONE: u16 = u16::MAX;

/// Which line: its entry.
pub(crate) type Entry = u16;

/// What happened to a line while it was here: for its next write-back.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Since<const W: usize> {
    /// Greatest `d_a` for a = 1 ..= W since its last store, or since it came.
    pub(crate) greatest: [u8; W],
    /// Greatest `d_0`.
    pub(crate) full: u32,
    /// Where its last store was counted; none: it was not stored since it came, so that more is to be known elsewhere.
    pub(crate) stored: Charge,
}

impl<const W: usize> Since<W> {
    /// Just now it was stored, or it came.
    pub(crate) const fn now(stored: Charge) -> Self {
        Self { greatest: [0; W], full: 0, stored }
    }

    /// It was referenced at these distances.
    #[inline(always)]
    pub(crate) fn raise<V: Vector>(&mut self, full: u32, by_set: &[u8; W]) {
        self.full = self.full.max(full);
        V::raise(&mut self.greatest, by_set);
    }
}

/// The entries.
#[derive(Clone, Debug)]
pub(crate) struct Held<const W: usize> {
    lines: Box<[u64; ENTRIES]>,
    since: Box<[Since<W>; ENTRIES]>,
    /// Slot of the newest tier, or of the recent one behind those, or [`ON_TOP`].
    slots: Box<[u16; ENTRIES]>,
    /// The next entry with the same hash.
    next: Box<[Entry; ENTRIES]>,
    /// The first with each hash.
    heads: Box<[Entry; HEADS]>,
    /// Entries from here on were never used.
    len: usize,
    /// Entries whose line was removed.
    free: Vec<Entry>,
}

impl<const W: usize> Held<W> {
    pub(crate) fn new() -> Self {
        Self {
            lines: boxed::array(0),
            since: boxed::array(Since::now(Charge::NONE)),
            slots: boxed::array(0),
            next: boxed::array(NONE),
            heads: boxed::array(NONE),
            len: 0,
            free: Vec::new(),
        }
    }

    /// Forgets all lines; the next ones have the entries 0, 1, ….
    pub(crate) fn clear(&mut self) {
        if self.len < HEADS / 64 {
            (0..self.len).for_each(|entry| self.heads[hash(self.lines[entry])] = NONE);
        } else {
            self.heads.fill(NONE);
        }
        self.len = 0;
        self.free.clear();
    }

    /// How many lines are here.
    pub(crate) fn count(&self) -> usize {
        self.len - self.free.len()
    }

    /// The entry of a line.
    #[inline(always)]
    pub(crate) fn find(&self, line: u64) -> Option<Entry> {
        let mut entry = self.heads[hash(line)];
        while let Some(&other) = self.lines.get(usize::from(entry)) {
            if other == line {
                return Some(entry);
            }
            entry = self.next[usize::from(entry)];
        }
        None
    }

    #[inline(always)]
    pub(crate) fn line(&self, entry: Entry) -> u64 {
        self.lines[usize::from(entry) % ENTRIES]
    }

    #[inline(always)]
    pub(crate) fn since(&mut self, entry: Entry) -> &mut Since<W> {
        &mut self.since[usize::from(entry) % ENTRIES]
    }

    /// What happened to a line that is here.
    pub(crate) fn since_of(&self, entry: Entry) -> &Since<W> {
        &self.since[usize::from(entry)]
    }

    /// The slot, counted through both tiers.
    #[inline(always)]
    pub(crate) fn slot(&self, entry: Entry) -> usize {
        usize::from(self.slots[usize::from(entry) % ENTRIES])
    }

    #[inline(always)]
    pub(crate) fn set_slot(&mut self, entry: Entry, slot: usize) {
        self.slots[usize::from(entry) % ENTRIES] = slot as u16;
    }

    /// A line comes in, where none has to go; the caller sets what happened to it.
    #[inline(always)]
    pub(crate) fn add(&mut self, line: u64) -> Entry {
        let entry = self.free.pop().unwrap_or(self.len as Entry);
        self.len += usize::from(usize::from(entry) == self.len);
        self.link(entry, line);
        entry
    }

    /// A line comes in and has the entry of another, which goes; returns that one. What happened to that is there until the
    /// caller sets what happened to the new one.
    #[inline(always)]
    pub(crate) fn replace(&mut self, entry: Entry, line: u64) -> u64 {
        let gone = self.unlink(entry);
        self.link(entry, line);
        gone
    }

    /// A line goes, and none has its entry.
    pub(crate) fn remove(&mut self, entry: Entry) {
        self.unlink(entry);
        self.free.push(entry);
    }

    #[inline(always)]
    fn unlink(&mut self, entry: Entry) -> u64 {
        let gone = self.line(entry);
        let after = self.next[usize::from(entry) % ENTRIES];
        let mut link = &mut self.heads[hash(gone)];
        while *link != entry {
            link = &mut self.next[usize::from(*link) % ENTRIES];
        }
        *link = after;
        gone
    }

    #[inline(always)]
    fn link(&mut self, entry: Entry, line: u64) {
        let at = usize::from(entry) % ENTRIES;
        self.lines[at] = line;
        self.next[at] = std::mem::replace(&mut self.heads[hash(line)], entry);
    }
}

#[inline(always)]
fn hash(line: u64) -> usize {
    (line ^ line >> 11) as usize % HEADS
}

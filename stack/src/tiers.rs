//! The three upper tiers together: the most recent lines of a stack, and how a line moves through them.

use crate::held::{Entry, Held, ON_TOP};
use crate::newest::{NEWEST, Newest};
use crate::recent::Recent;
use crate::simd::Vector;
use crate::top::{NONE, Order, TOP, Top};

/// See the module's page. While a batch goes through them, the order of the top tier and the stamps of the newest are in
/// registers: what is here of them is brought up to date at its end.
#[derive(Clone, Debug)]
pub(crate) struct Tiers<const W: usize> {
    pub(crate) held: Held<W>,
    pub(crate) top: Top,
    pub(crate) newest: Newest<W>,
    pub(crate) recent: Recent<W>,
}

impl<const W: usize> Tiers<W> {
    pub(crate) fn new() -> Self {
        Self { held: Held::new(), top: Top::new(), newest: Newest::new(), recent: Recent::new() }
    }

    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.top = Top::new();
        // What has nothing is as it was.
        if self.newest.used() != 0 {
            self.newest = Newest::new();
        }
        if self.recent.len() > 0 {
            self.recent.clear();
        }
    }

    /// Lines, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Entry> + '_ {
        let recent = if self.recent.len() > 0 { self.recent.oldest_first() } else { Vec::new() };
        let newest = if self.newest.used() != 0 { self.newest.oldest_first() } else { Vec::new() };
        recent.into_iter().chain(newest).chain(self.top.oldest_first())
    }

    /// A line is referenced: if it is here it comes to the top. Its entry, and its distances until then.
    #[inline(always)]
    pub(crate) fn reference<V: Vector>(
        &mut self,
        stamps: &mut V::Stamps,
        top: &mut V::Top,
        line: u64,
    ) -> Option<(Entry, u32, [u8; W])> {
        let place = top.place(line);
        if place < TOP {
            let by_set = top.tally::<W>(place, line);
            let (lifted, entry) = top.lift(place, line);
            *top = lifted;
            return Some((entry, place as u32, by_set));
        }
        let entry = self.held.find(line)?;
        let slot = self.held.slot(entry);
        let (full, by_set) = self.distances::<V>(*stamps, *top, slot, line);
        self.move_up::<V>(stamps, *top, entry, slot);
        *top = top.push(line, entry);
        Some((entry, full, by_set))
    }

    /// A line that is here comes to the top.
    #[inline(always)]
    pub(crate) fn lift<V: Vector>(&mut self, stamps: &mut V::Stamps, top: &mut V::Top, line: u64) {
        let place = top.place(line);
        if place < TOP {
            (*top, _) = top.lift(place, line);
        } else if let Some(entry) = self.held.find(line) {
            let slot = self.held.slot(entry);
            self.move_up::<V>(stamps, *top, entry, slot);
            *top = top.push(line, entry);
        }
    }

    /// Distances of a line in a slot of the newest or the recent tier.
    #[inline(always)]
    pub(crate) fn distances<V: Vector>(
        &self,
        stamps: V::Stamps,
        top: V::Top,
        slot: usize,
        line: u64,
    ) -> (u32, [u8; W]) {
        let (mut full, mut by_set) = (top.len() as u32, top.tally::<W>(top.len(), line));
        let mut newer = self.newest.used();
        if slot < NEWEST {
            newer = self.newest.newer::<V>(stamps, slot);
        } else {
            let (deeper, deeper_by_set) = self.recent.distances::<V>(slot - NEWEST, line);
            full += deeper as u32;
            V::add(&mut by_set, &deeper_by_set);
        }
        V::add(&mut by_set, &self.newest.tally::<V>(newer, line));
        (full + newer.count_ones(), by_set)
    }

    /// A line leaves its slot of the newest or the recent tier, to be put on top. The last one there comes down for it.
    #[inline(always)]
    pub(crate) fn move_up<V: Vector>(&mut self, stamps: &mut V::Stamps, top: V::Top, entry: Entry, slot: usize) {
        let (held, newest, recent) = (&mut self.held, &mut self.newest, &mut self.recent);
        held.set_slot(entry, ON_TOP);
        match top.last() {
            _ if slot >= NEWEST => match come_down::<V, W>(held, newest, stamps, top.last()) {
                Some(down) => {
                    recent.put::<V>(slot - NEWEST, held.line(down), down);
                    held.set_slot(down, slot);
                }
                None => recent.remove(slot - NEWEST),
            },
            Some((line, entry)) => {
                newest.put::<V>(stamps, slot, line, entry);
                held.set_slot(entry, slot);
            }
            None => newest.remove::<V>(stamps, slot),
        }
    }

    /// All of them: what is above a line that is not here.
    #[inline(always)]
    pub(crate) fn whole<V: Vector>(&self, top: V::Top, line: u64) -> (u32, [u8; W]) {
        let (newest, recent) = (&self.newest, &self.recent);
        let mut by_set = top.tally::<W>(top.len(), line);
        V::add(&mut by_set, &newest.tally::<V>(newest.used(), line));
        V::add(&mut by_set, &recent.tally::<V>(line));
        (top.len() as u32 + newest.used().count_ones() + recent.len() as u32, by_set)
    }

    /// A line that is not here comes in, to be put on top; its entry, where what happened to the line that had to go still
    /// is, and that line or [`NONE`].
    #[inline(always)]
    pub(crate) fn enter<V: Vector>(&mut self, stamps: &mut V::Stamps, top: V::Top, line: u64) -> (Entry, u64) {
        let (held, newest, recent) = (&mut self.held, &mut self.newest, &mut self.recent);
        let (mut gone, mut entry) = (NONE, None);
        if let Some(down) = come_down::<V, W>(held, newest, stamps, top.last()) {
            let (slot, out) = recent.slot_for_new();
            recent.put::<V>(slot, held.line(down), down);
            held.set_slot(down, NEWEST + slot);
            if let Some(out) = out {
                gone = held.replace(out, line);
                entry = Some(out);
            }
        }
        let entry = entry.unwrap_or_else(|| held.add(line));
        held.set_slot(entry, ON_TOP);
        (entry, gone)
    }
}

/// The last line of the top tier comes down into the newest; the entry of one that has to leave that.
#[inline(always)]
fn come_down<V: Vector, const W: usize>(
    held: &mut Held<W>,
    newest: &mut Newest<W>,
    stamps: &mut V::Stamps,
    last: Option<(u64, Entry)>,
) -> Option<Entry> {
    let (line, entry) = last?;
    let (slot, down) = newest.slot_for_new::<V>(stamps);
    newest.put::<V>(stamps, slot, line, entry);
    held.set_slot(entry, slot);
    down
}

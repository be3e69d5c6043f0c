//! The fast engine: the recent list and the older tier joined, and the counting of what they say.

use crate::counts::{Buckets, Resident};
use crate::lines::{Id, Lines};
use crate::recent::{Recent, Tally};
use crate::rings::Rings;
use crate::timeline::Timeline;
use crate::{Bucket, Engine, Histograms, Limits, Reference};

/// `d_a` for a = 1, 2, … as far as it is not 0, capped at `max_ways`.
#[derive(Clone, Copy)]
struct BySet {
    values: [u8; Limits::MOST_SET_BITS as usize],
    len: usize,
}

/// The fast engine; see the crate's page.
#[derive(Clone, Debug)]
pub struct Tiers {
    limits: Limits,
    lines: Lines,
    recent: Recent,
    timeline: Timeline,
    rings: Rings,
    next_stamp: u32,
    /// The top line was stored since it got there, so another store of it closes an interval of length 0.
    top_stored: Option<Bucket>,
    buckets: Buckets,
    dropped: u64,
}

impl Tiers {
    /// An empty stack.
    ///
    /// # Panics
    /// If the limits are out of their range.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        assert!(limits.max_set_bits <= Limits::MOST_SET_BITS, "too many set bits");
        assert!((1..=Limits::MOST_WAYS).contains(&limits.max_ways), "ways out of range");
        Self {
            limits,
            lines: Lines::new(limits.max_set_bits),
            recent: Recent::new(limits.max_set_bits),
            timeline: Timeline::new(),
            rings: Rings::new(limits.max_set_bits, limits.max_ways),
            next_stamp: 1,
            top_stored: None,
            buckets: Buckets::new(limits),
            dropped: 0,
        }
    }

    /// The same with the stamp counter this far on, for tests of what happens when it runs out.
    #[doc(hidden)]
    #[must_use]
    pub fn with_next_stamp(self, next_stamp: u32) -> Self {
        Self { next_stamp, ..self }
    }

    /// References that could not be taken because 2^32 line ids were in use. They are in no histogram.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Stacks with these contents and no counts.
    #[must_use]
    pub fn without_counts(&self) -> Self {
        Self { buckets: Buckets::new(self.limits), dropped: 0, ..self.clone() }
    }

    fn reference(&mut self, reference: Reference, bucket: Bucket) {
        let (line, store) = (reference.line(), reference.is_store());
        if self.recent.top() == Some(line) && (!store || self.top_stored == Some(bucket)) {
            return self.count_reference(store, bucket);
        }
        let (found, tally, most) = self.recent.walk(line);
        let id = match found {
            Some((position, id)) => {
                self.recent.touch(position);
                self.count_reference(store, bucket);
                if position > 0 {
                    let by_set = self.sum(&tally, most);
                    self.count_distance(id, store, bucket, position as u64, &by_set);
                }
                id
            }
            None => {
                let Some(id) = self.lines.id(line) else {
                    self.dropped += 1;
                    return;
                };
                self.count_reference(store, bucket);
                self.fetch(line, id, store, bucket, &tally);
                self.push(line, id);
                id
            }
        };
        if store {
            self.store(id, bucket);
        }
        self.top_stored = store.then_some(bucket);
    }

    fn count_reference(&mut self, store: bool, bucket: Bucket) {
        if let Some(counts) = self.buckets.of(bucket) {
            counts.references[usize::from(store)] += 1;
        }
    }

    /// Suffix sums of a tally over the recent list, for a line that stands in it.
    fn sum(&self, tally: &Tally, most: u32) -> BySet {
        let mut by_set = BySet { values: [0; Limits::MOST_SET_BITS as usize], len: most as usize };
        let mut sum = 0u8;
        for a in (1..=most as usize).rev() {
            sum += tally[a];
            by_set.values[a - 1] = sum.min(self.limits.max_ways as u8);
        }
        by_set
    }

    /// A line that is not in the recent list: takes it out of the older tier, or notes that it is cold.
    fn fetch(&mut self, line: u64, id: Id, store: bool, bucket: Bucket, tally: &Tally) {
        let state = *self.lines.get(id);
        if state.place == 0 {
            if let Some(counts) = self.buckets.of(bucket) {
                counts.cold[usize::from(store)] += 1;
            }
            return;
        }
        let full = self.recent.len() + self.timeline.newer(state.place);
        let by_set = self.older(line, state.stamp, tally, |rings, index, newer| rings.remove(index, line, newer));
        self.timeline.leave(state.place);
        let state = self.lines.get_mut(id);
        (state.place, state.stamp) = (0, 0);
        self.count_distance(id, store, bucket, full as u64, &by_set);
    }

    /// `d_a` of a line of the older tier; `found` is told of each ring that has it.
    fn older(
        &mut self,
        line: u64,
        stamp: u32,
        tally: &Tally,
        mut found: impl FnMut(&mut Rings, usize, usize),
    ) -> BySet {
        let ways = self.limits.max_ways as usize;
        let mut by_set = BySet { values: [ways as u8; Limits::MOST_SET_BITS as usize], len: self.rings.len() };
        let mut above = 0;
        for index in (0..self.rings.len()).rev() {
            above += usize::from(tally[index + 1]);
            let Some(newer) = self.rings.newer(index, line, stamp) else { break };
            found(&mut self.rings, index, newer);
            by_set.values[index] = (above + newer).min(ways) as u8;
        }
        while by_set.len > 0 && by_set.values[by_set.len - 1] == 0 {
            by_set.len -= 1;
        }
        by_set
    }

    /// Counts a distance that is not 0 and keeps it for the line's next write-back.
    fn count_distance(&mut self, id: Id, store: bool, bucket: Bucket, full: u64, by_set: &BySet) {
        if let Some(counts) = self.buckets.of(bucket) {
            counts.distance(store, full, &by_set.values[..by_set.len]);
        }
        let (state, greatest) = self.lines.both_mut(id);
        if state.dirty != 0 {
            state.greatest = state.greatest.max(full as u32);
            state.levels = state.levels.max(by_set.len as u8);
            for (m, &d) in greatest.iter_mut().zip(&by_set.values[..by_set.len]) {
                *m = d.max(*m);
            }
        }
    }

    /// Closes the line's dirty interval and opens the next.
    fn store(&mut self, id: Id, bucket: Bucket) {
        let (state, greatest) = self.lines.both_mut(id);
        if state.dirty != 0 && state.greatest > 0 {
            let greatest = &mut greatest[..usize::from(state.levels)];
            if let Some(counts) = self.buckets.of(Bucket(state.dirty - 1)) {
                counts.writeback(u64::from(state.greatest), greatest);
            }
            greatest.fill(0);
            (state.greatest, state.levels) = (0, 0);
        }
        state.dirty = bucket.0 + 1;
    }

    /// Puts a line on top of the recent list; the one that falls out enters the older tier.
    fn push(&mut self, line: u64, id: Id) {
        let Some((old, old_id)) = self.recent.push(line, id) else { return };
        if self.timeline.is_full() {
            let lines = &mut self.lines;
            self.timeline.make_room(|id, place| lines.get_mut(id).place = place);
        }
        if self.next_stamp == u32::MAX {
            self.renew_stamps();
        }
        let state = self.lines.get_mut(old_id);
        state.stamp = self.next_stamp;
        state.place = self.timeline.enter(old_id);
        self.rings.insert(old, self.next_stamp);
        self.next_stamp += 1;
    }

    /// Numbers the older tier anew from 1 when the stamps run out: once in 2^32 lines that entered it.
    fn renew_stamps(&mut self) {
        self.rings.clear();
        self.next_stamp = 1;
        for id in self.timeline.oldest_first() {
            self.lines.get_mut(id).stamp = self.next_stamp;
            self.rings.insert(self.lines.number(id), self.next_stamp);
            self.next_stamp += 1;
        }
    }

    /// `max(m, depth now)` of a line, as if it were referenced.
    fn greatest_now(&mut self, id: Id) -> (u64, BySet) {
        let line = self.lines.number(id);
        let (found, tally, most) = self.recent.walk(line);
        let state = *self.lines.get(id);
        let (full, mut by_set) = match found {
            Some((position, _)) => (position, self.sum(&tally, most)),
            None => (
                self.recent.len() + self.timeline.newer(state.place),
                self.older(line, state.stamp, &tally, |_, _, _| {}),
            ),
        };
        by_set.len = by_set.len.max(usize::from(state.levels));
        for (d, &m) in by_set.values.iter_mut().zip(&self.lines.greatest(id)[..usize::from(state.levels)]) {
            *d = m.max(*d);
        }
        (u64::from(state.greatest).max(full as u64), by_set)
    }
}

impl Engine for Tiers {
    fn feed(&mut self, references: &[Reference], bucket: Bucket) {
        debug_assert!(bucket <= Bucket::LAST, "no such bucket");
        for &reference in references {
            self.reference(reference, bucket);
        }
    }

    fn histograms(&mut self) -> Vec<(Bucket, Histograms)> {
        let mut resident = vec![None; 256];
        for id in self.lines.stored().collect::<Vec<_>>() {
            let (full, by_set) = self.greatest_now(id);
            let bucket = usize::from(self.lines.get(id).dirty) - 1;
            let part = resident[bucket].get_or_insert_with(|| Resident::new(self.limits));
            part.line(full, &by_set.values[..by_set.len]);
        }
        self.buckets.histograms(&resident)
    }
}

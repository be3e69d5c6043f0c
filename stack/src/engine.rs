//! The fast engine: lines, timeline and sets joined, and the counting of what they say.

use crate::counts::{Buckets, Resident};
use crate::lines::{Id, Lines};
use crate::sets::{Sets, Time};
use crate::timeline::Timeline;
use crate::{Bucket, Engine, Histograms, Limits, Reference};

/// `d_a` for a = 1 ..= K.
type BySet = [u8; Limits::MOST_SET_BITS as usize];

/// The fast engine; see the crate's page.
#[derive(Clone, Debug)]
pub struct Stack {
    limits: Limits,
    lines: Lines,
    timeline: Timeline,
    sets: Sets,
    now: Time,
    /// The line on top, and the bucket of its store if it was stored since it got there: another store there closes
    /// an interval of length 0.
    top: Option<(u64, Option<Bucket>)>,
    buckets: Buckets,
    dropped: u64,
}

impl Stack {
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
            timeline: Timeline::new(),
            sets: Sets::new(limits.max_set_bits, limits.max_ways),
            now: 0,
            top: None,
            buckets: Buckets::new(limits),
            dropped: 0,
        }
    }

    /// An empty stack whose clock runs out after `left` references that change the order, for tests of what happens
    /// then.
    #[doc(hidden)]
    #[must_use]
    pub fn with_time_left(limits: Limits, left: Time) -> Self {
        Self { now: Time::MAX - left, ..Self::new(limits) }
    }

    /// References that could not be taken because 2^32 line ids were in use. They are in no histogram.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    #[inline(always)]
    fn reference(&mut self, reference: Reference, bucket: Bucket) {
        let (line, store) = (reference.line(), reference.is_store());
        match self.top {
            Some((top, stored)) if top == line && (!store || stored == Some(bucket)) => {}
            _ => {
                let Some(id) = self.lines.id(line) else {
                    self.dropped += 1;
                    return;
                };
                if self.top.is_none_or(|(top, _)| top != line) {
                    self.move_to_top(line, id, store, bucket);
                }
                if store {
                    self.store(id, bucket);
                }
                self.top = Some((line, store.then_some(bucket)));
            }
        }
        if let Some(counts) = self.buckets.of(bucket) {
            counts.references[usize::from(store)] += 1;
        }
    }

    /// A reference to a line that is not on top.
    #[inline(always)]
    fn move_to_top(&mut self, line: u64, id: Id, store: bool, bucket: Bucket) {
        if self.now == Time::MAX {
            self.restart_clock();
        }
        if self.timeline.is_full() {
            let lines = &mut self.lines;
            self.timeline.make_room(|id, place| lines.get_mut(id).place = place);
        }
        self.now += 1;
        let (state, greatest) = self.lines.both_mut(id);
        let mut by_set = BySet::default();
        let len = self.sets.reference(line, state.last, self.now, &mut by_set);
        state.last = self.now;
        if state.place == 0 {
            if let Some(counts) = self.buckets.of(bucket) {
                counts.cold[usize::from(store)] += 1;
            }
        } else {
            let full = self.timeline.newer(state.place);
            self.timeline.leave(state.place);
            let by_set = &by_set[..len];
            if let Some(counts) = self.buckets.of(bucket) {
                counts.distance(store, full as u64, by_set);
            }
            if state.dirty != 0 {
                state.greatest = state.greatest.max(full as u32);
                state.levels = state.levels.max(len as u8);
                for (m, &d) in greatest.iter_mut().zip(by_set) {
                    *m = d.max(*m);
                }
            }
        }
        state.place = self.timeline.enter(id);
    }

    /// Closes the line's dirty interval and opens the next.
    #[inline(always)]
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

    /// Gives every line a new time, 1 for the oldest: once in 2^31 references.
    #[cold]
    fn restart_clock(&mut self) {
        self.sets.clear();
        self.now = 0;
        for id in self.timeline.oldest_first() {
            self.now += 1;
            self.lines.get_mut(id).last = self.now;
            self.sets.reference(self.lines.number(id), 0, self.now, &mut BySet::default());
        }
    }

    /// Adds `max(m, depth now)` of a line that was stored.
    fn add_resident(&self, id: Id, part: &mut Resident) {
        let state = self.lines.get(id);
        let mut by_set = BySet::default();
        let len = self.sets.distances(self.lines.number(id), state.last, &mut by_set).max(usize::from(state.levels));
        for (d, &m) in by_set[..len].iter_mut().zip(self.lines.greatest(id)) {
            *d = m.max(*d);
        }
        part.line(u64::from(state.greatest).max(self.timeline.newer(state.place) as u64), &by_set[..len]);
    }
}

impl Engine for Stack {
    fn feed(&mut self, references: &[Reference], bucket: Bucket) {
        debug_assert!(bucket <= Bucket::LAST, "no such bucket");
        for &reference in references {
            self.reference(reference, bucket);
        }
    }

    fn histograms(&self) -> Vec<(Bucket, Histograms)> {
        let mut resident = vec![None; 256];
        for id in self.lines.stored() {
            let bucket = usize::from(self.lines.get(id).dirty) - 1;
            self.add_resident(id, resident[bucket].get_or_insert_with(|| Resident::new(self.limits)));
        }
        self.buckets.histograms(&resident)
    }
}

//! The fast engine: the recent tier and the older one joined, and the counting of what they say.

use crate::counts::{Buckets, Counts, Resident};
use crate::lines::{Id, Lines};
use crate::recent::Recent;
use crate::sets::{Sets, Time};
use crate::simd::{self, Instructions, Portable, Vector};
use crate::timeline::Timeline;
use crate::{Bucket, Engine, Histograms, Limits, Reference};

/// `d_a` for a = 1 ..= K.
type BySet = [u8; Limits::MOST_SET_BITS as usize];

/// The fast engine; see the crate's page.
#[derive(Clone, Debug)]
pub struct Stack {
    limits: Limits,
    lines: Lines,
    recent: Recent,
    timeline: Timeline,
    sets: Sets,
    now: Time,
    /// The line on top, and the bucket of its store if it was stored since it got there: another store there closes
    /// an interval of length 0.
    top: Option<(u64, Option<Bucket>)>,
    buckets: Buckets,
    dropped: u64,
    instructions: Instructions,
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
            recent: Recent::new(),
            timeline: Timeline::new(),
            sets: Sets::new(limits.max_set_bits, limits.max_ways),
            now: 0,
            top: None,
            buckets: Buckets::new(limits),
            dropped: 0,
            instructions: Instructions::best(),
        }
    }

    /// The same with these instructions, for tests and benches.
    ///
    /// # Panics
    /// If this processor does not have them.
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Self {
        assert!(instructions.available(), "no such instructions here");
        Self { instructions, ..self }
    }

    /// An empty stack whose clock runs out after `left` lines have left the recent tier, for tests of what happens
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
    pub(crate) fn feed_with<V: Vector>(&mut self, references: &[Reference], bucket: Bucket) {
        let mut counts = self.buckets.take(bucket);
        for &reference in references {
            self.reference::<V>(reference, bucket, counts.as_deref_mut());
        }
        self.buckets.put(bucket, counts);
    }

    #[inline(always)]
    fn reference<V: Vector>(&mut self, reference: Reference, bucket: Bucket, mut counts: Option<&mut Counts>) {
        let (line, store) = (reference.line(), reference.is_store());
        match self.top {
            Some((top, stored)) if top == line && (!store || stored == Some(bucket)) => {}
            _ => {
                let Some(id) = self.move_to_top::<V>(line, store, counts.as_deref_mut()) else {
                    self.dropped += 1;
                    return;
                };
                if store {
                    self.store(id, bucket, counts.as_deref_mut());
                }
                self.top = Some((line, store.then_some(bucket)));
            }
        }
        if let Some(counts) = counts {
            counts.references[usize::from(store)] += 1;
        }
    }

    /// Moves a line to the top and counts its distance if that is not 0. `None`: it can have no id.
    #[inline(always)]
    fn move_to_top<V: Vector>(&mut self, line: u64, store: bool, counts: Option<&mut Counts>) -> Option<Id> {
        if let Some(slot) = self.recent.find(line) {
            return Some(self.touch::<V>(slot, line, store, counts));
        }
        let id = self.lines.id(line)?;
        let state = self.lines.get_mut(id);
        match state.slot {
            0 => self.fetch::<V>(line, id, store, counts),
            slot => drop(self.touch::<V>(usize::from(slot) - 1, line, store, counts)),
        }
        Some(id)
    }

    /// A line of the recent tier.
    #[inline(always)]
    fn touch<V: Vector>(&mut self, slot: usize, line: u64, store: bool, counts: Option<&mut Counts>) -> Id {
        let id = self.recent.id(slot);
        let newer = self.recent.touch::<V>(slot);
        if newer != 0 {
            let mut by_set = BySet::default();
            let len = self.recent.tally(newer, line, &mut by_set[..self.sets.len()]);
            self.distance(id, store, newer.count_ones() as usize, &by_set[..len], counts);
        }
        id
    }

    /// A line that is not in the recent tier, where another makes room for it.
    #[inline(always)]
    fn fetch<V: Vector>(&mut self, line: u64, id: Id, store: bool, counts: Option<&mut Counts>) {
        if self.now == Time::MAX {
            self.restart_clock();
        }
        let state = *self.lines.get(id);
        if state.place == 0 {
            if let Some(counts) = counts {
                counts.cold[usize::from(store)] += 1;
            }
        } else {
            let mut by_set = BySet::default();
            let len = self.older::<V>(line, state.last, &mut by_set);
            let full = self.recent.len() + self.timeline.newer(state.place);
            self.timeline.leave(state.place);
            self.distance(id, store, full, &by_set[..len], counts);
        }
        let (slot, old) = self.recent.slot_for_new::<V>();
        if let Some((old, old_id)) = old {
            self.retire::<V>(old, old_id);
        }
        self.recent.put::<V>(slot, line, id, self.lines.get(id).last);
        let state = self.lines.get_mut(id);
        (state.slot, state.place) = (slot as u8 + 1, 0);
    }

    /// `d_a` for a = 1, 2, … of a line of the older tier that left the recent one at `last`. Returns how many there are
    /// before they are all 0.
    #[inline(always)]
    fn older<V: Vector>(&self, line: u64, last: Time, by_set: &mut BySet) -> usize {
        let mut mask = self.recent.unknown_to_sets::<V>(last);
        let mut in_sets = true;
        for (index, distance) in by_set[..self.sets.len()].iter_mut().enumerate() {
            mask = self.recent.matching(mask, line, index);
            let newer = if in_sets { self.sets.newer::<V>(index, line, last) } else { 0 };
            in_sets = newer > 0;
            let sum = newer + mask.count_ones() as usize;
            if sum == 0 {
                return index;
            }
            *distance = sum.min(usize::from(u8::MAX)) as u8;
        }
        self.sets.len()
    }

    /// A line leaves the recent tier.
    #[inline(always)]
    fn retire<V: Vector>(&mut self, line: u64, id: Id) {
        if self.timeline.is_full() {
            self.make_room();
        }
        self.now += 1;
        let state = self.lines.get_mut(id);
        self.sets.reference::<V>(line, state.last, self.now);
        (state.last, state.slot) = (self.now, 0);
        state.place = self.timeline.enter(id);
    }

    /// Counts a distance that is not 0 and keeps it for the line's next write-back.
    #[inline(always)]
    fn distance(&mut self, id: Id, store: bool, full: usize, by_set: &[u8], counts: Option<&mut Counts>) {
        if let Some(counts) = counts {
            counts.distance(store, full as u64, by_set);
        }
        let (state, greatest) = self.lines.both_mut(id);
        if state.dirty != 0 {
            state.greatest = state.greatest.max(full as u32);
            state.levels = state.levels.max(by_set.len() as u8);
            for (m, &d) in greatest.iter_mut().zip(by_set) {
                *m = d.max(*m);
            }
        }
    }

    #[cold]
    fn make_room(&mut self) {
        let lines = &mut self.lines;
        self.timeline.make_room(|id, place| lines.get_mut(id).place = place);
    }

    /// Closes the line's dirty interval and opens the next. `counts` are those of `bucket`, taken out.
    #[inline(always)]
    fn store(&mut self, id: Id, bucket: Bucket, counts: Option<&mut Counts>) {
        let (state, greatest) = self.lines.both_mut(id);
        if state.dirty != 0 && state.greatest > 0 {
            let greatest = &mut greatest[..usize::from(state.levels)];
            let charged = Bucket(state.dirty - 1);
            let counts = if charged == bucket { counts } else { self.buckets.of(charged) };
            if let Some(counts) = counts {
                counts.writeback(u64::from(state.greatest), greatest);
            }
            greatest.fill(0);
            (state.greatest, state.levels) = (0, 0);
        }
        state.dirty = bucket.0 + 1;
    }

    /// Gives every line of the older tier a new time, 1 for the oldest: once in 2^31 lines that entered it.
    #[cold]
    fn restart_clock(&mut self) {
        self.sets.clear();
        self.now = 0;
        for id in self.timeline.oldest_first() {
            self.now += 1;
            self.lines.get_mut(id).last = self.now;
            self.sets.reference::<Portable>(self.lines.number(id), 0, self.now);
        }
        for slot in 0..self.recent.len() {
            self.lines.get_mut(self.recent.id(slot)).last = 0;
        }
        self.recent.forget_times();
    }

    /// Adds `max(m, depth now)` of a line that was stored.
    fn add_resident(&self, id: Id, part: &mut Resident) {
        let (state, line) = (self.lines.get(id), self.lines.number(id));
        let mut by_set = BySet::default();
        let (full, len) = match state.slot {
            0 => {
                let len = self.older::<Portable>(line, state.last, &mut by_set);
                (self.recent.len() + self.timeline.newer(state.place), len)
            }
            slot => {
                let newer = self.recent.newer::<Portable>(usize::from(slot) - 1);
                let len = self.recent.tally(newer, line, &mut by_set[..self.sets.len()]);
                (newer.count_ones() as usize, len)
            }
        };
        let len = len.max(usize::from(state.levels));
        for (d, &m) in by_set[..len].iter_mut().zip(self.lines.greatest(id)) {
            *d = m.max(*d);
        }
        part.line(u64::from(state.greatest).max(full as u64), &by_set[..len]);
    }
}

impl Engine for Stack {
    fn feed(&mut self, references: &[Reference], bucket: Bucket) {
        debug_assert!(bucket <= Bucket::LAST, "no such bucket");
        if !references.is_empty() {
            simd::feed(self, references, bucket, self.instructions);
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

//! The fourth tier: all lines older than the recent ones, unbounded.
//!
//! Invariant: every line here is older than the other tiers. A line leaves when it is referenced; another comes in,
//! on top, when the recent tier needs its slot. Both together are a [`Move`]. Moves are collected for a batch of references
//! and then carried out, first in the `timeline`, which tells the distance with one set, then one set count after the
//! other in `sets`, which is faster than one move after the other: each set count's loop is short and has no surprises.

use crate::Limits;
use crate::lines::{Id, Lines};
use crate::sets::Sets;
use crate::simd::Vector;
use crate::timeline::Timeline;

/// When a line entered this tier; 0 is before all of them.
pub(crate) type Time = i32;

/// What one reference does here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<const W: usize> {
    /// Distances of the line that goes up: lines of this tier above it, for 2^1, 2^2, … sets, cut off at 255.
    pub(crate) newer: [u8; W],
    /// Low bits of the line that goes up.
    pub(crate) up: u32,
    /// When it came; 0: no line goes up.
    pub(crate) last: Time,
    /// Low bits of the line that comes down.
    pub(crate) down: u32,
    /// The time now; 0: no line comes down.
    pub(crate) now: Time,
    /// Number of the fetch that this is.
    pub(crate) fetch: u32,
}

/// The tier.
#[derive(Clone, Debug)]
pub(crate) struct Older<const W: usize> {
    timeline: Timeline,
    sets: Sets,
    now: Time,
    moves: Vec<Move<W>>,
}

impl<const W: usize> Older<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        let sets = Sets::new(limits.max_set_bits, limits.max_ways);
        Self { timeline: Timeline::new(), sets, now: 0, moves: Vec::new() }
    }

    /// As if the clock had so many more ticks to go.
    pub(crate) fn leave_time(&mut self, left: Time) {
        self.now = Time::MAX - left;
    }

    /// Fetches what [`Older::step`] will need of a line.
    #[inline(always)]
    pub(crate) fn prefetch<V: Vector>(&self, lines: &Lines<W>, id: Id) {
        V::prefetch(self.timeline.block(lines.get(id).place));
    }

    /// Notes a move for [`Older::apply`], and does what can be done at once. `up` is referenced; if it is here it leaves
    /// and the number of lines above it with one set is returned. `down` comes in.
    #[inline(always)]
    pub(crate) fn step(&mut self, lines: &mut Lines<W>, up: (u64, Id), down: Option<Id>, fetch: u32) -> Option<usize> {
        let line = lines.get_mut(up.1);
        let mut step = Move { newer: [0; W], up: up.0 as u32, last: 0, down: 0, now: 0, fetch };
        let place = std::mem::take(&mut line.place);
        let mut full = None;
        if place != 0 {
            step.last = line.last;
            full = Some(self.timeline.newer(place));
            self.timeline.leave(place);
        }
        if let Some(id) = down {
            if self.timeline.is_full() {
                self.make_room(lines);
            }
            self.now += 1;
            (step.down, step.now) = (lines.number(id) as u32, self.now);
            let line = lines.get_mut(id);
            line.last = self.now;
            line.place = self.timeline.enter(id);
        }
        self.moves.push(step);
        full
    }

    /// Carries out the moves; hands out the distances and forgets the moves.
    #[inline(always)]
    pub(crate) fn apply<V: Vector>(&mut self, mut each: impl FnMut(&Move<W>)) {
        self.sets.apply::<V, W>(&mut self.moves);
        for step in &self.moves {
            each(step);
        }
        self.moves.clear();
    }

    /// Where a line that is here stands: lines above it, with one set and with 2^1, 2^2, …
    #[inline(always)]
    pub(crate) fn depth<V: Vector>(&self, lines: &Lines<W>, id: Id) -> (usize, [u8; W]) {
        let line = lines.get(id);
        (self.timeline.newer(line.place), self.sets.depth::<V, W>(lines.number(id), line.last))
    }

    /// A line that is here goes.
    #[inline(always)]
    pub(crate) fn remove<V: Vector>(&mut self, lines: &mut Lines<W>, line: u64, id: Id) {
        self.step(lines, (line, id), None, 0);
        self.apply::<V>(|_| {});
    }

    /// Lines from the oldest to the newest.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Id> + '_ {
        self.timeline.oldest_first()
    }

    /// Whether `more` moves could run out of time.
    #[inline(always)]
    pub(crate) fn late(&self, more: usize) -> bool {
        (Time::MAX - self.now) as usize <= more
    }

    /// Gives every line a new time, 1 for the oldest: once in 2^31 moves.
    #[cold]
    pub(crate) fn restart_clock<V: Vector>(&mut self, lines: &mut Lines<W>) {
        self.sets.clear();
        self.now = 0;
        for id in self.timeline.oldest_first() {
            self.now += 1;
            lines.get_mut(id).last = self.now;
            let down = lines.number(id) as u32;
            self.moves.push(Move { newer: [0; W], up: 0, last: 0, down, now: self.now, fetch: 0 });
        }
        self.apply::<V>(|_| {});
    }

    #[cold]
    fn make_room(&mut self, lines: &mut Lines<W>) {
        self.timeline.make_room(|id, place| lines.get_mut(id).place = place);
    }
}

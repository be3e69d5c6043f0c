//! The fourth tier: all lines older than the recent ones, unbounded.
//!
//! Invariant: every line here is older than the other tiers. A line leaves when it is referenced; another comes in,
//! on top, when the recent tier needs its slot. Both together are a [`Move`]. Moves are collected for a batch of references:
//! they are carried out at once in the `timeline`, which tells the distance with one set, and later (`behind`), one set count
//! after the other, in `sets`, which is faster than one move after the other: each set count's loop is short and has no
//! surprises.

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
pub(crate) struct Older {
    timeline: Timeline,
    now: Time,
}

impl Older {
    pub(crate) fn new() -> Self {
        Self { timeline: Timeline::new(), now: 0 }
    }

    /// As if the clock had so many more ticks to go.
    pub(crate) fn leave_time(&mut self, left: Time) {
        self.now = Time::MAX - left;
    }

    /// Fetches what [`Older::step`] will need of a line.
    #[inline(always)]
    pub(crate) fn prefetch<V: Vector>(&self, lines: &Lines, id: Id) {
        V::prefetch(self.timeline.block(lines.get(id).place));
    }

    /// What can be done at once of a move; the rest is noted. `up` is referenced; if it is here it leaves and the number of lines
    /// above it with one set is returned. `down` comes in.
    #[inline(always)]
    pub(crate) fn step<const W: usize>(
        &mut self,
        lines: &mut Lines,
        moves: &mut Vec<Move<W>>,
        up: (u64, Id),
        down: Option<(u64, Id)>,
        fetch: u32,
    ) -> Option<usize> {
        let mut step = Move { newer: [0; W], up: up.0 as u32, last: 0, down: 0, now: 0, fetch };
        let line = lines.get_mut(up.1);
        let place = std::mem::take(&mut line.place);
        let mut full = None;
        if place != 0 {
            step.last = line.last;
            full = Some(self.timeline.newer(place));
            self.timeline.leave(place);
        }
        if let Some((down, id)) = down {
            if self.timeline.is_full() {
                self.make_room(lines);
            }
            self.now += 1;
            (step.down, step.now) = (down as u32, self.now);
            let line = lines.get_mut(id);
            line.last = self.now;
            line.place = self.timeline.enter(id);
        }
        moves.push(step);
        full
    }

    /// How many lines are above one that is here.
    #[inline(always)]
    pub(crate) fn depth(&self, lines: &Lines, id: Id) -> usize {
        self.timeline.newer(lines.get(id).place)
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
    pub(crate) fn restart_clock<V: Vector, const W: usize>(&mut self, lines: &mut Lines, sets: &mut Sets) {
        sets.clear();
        self.now = 0;
        let (mut moves, mut numbers) = (Vec::new(), vec![0; lines.len()]);
        lines.all().for_each(|(line, id)| numbers[id as usize] = line as u32);
        for id in self.timeline.oldest_first() {
            self.now += 1;
            lines.get_mut(id).last = self.now;
            let down = numbers[id as usize];
            moves.push(Move { newer: [0; W], up: 0, last: 0, down, now: self.now, fetch: 0 });
        }
        sets.apply::<V, W>(&mut moves);
    }

    #[cold]
    fn make_room(&mut self, lines: &mut Lines) {
        self.timeline.make_room(|id, place| lines.get_mut(id).place = place);
    }
}

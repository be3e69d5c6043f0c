//! A loop walks over its lines: what its first references find, and where its lines are afterwards.

use crate::Bucket;
use crate::counts::Counts;
use crate::engine::{BATCH, Core};
use crate::even::EVEN;
use crate::older::{Hint, Time};
use crate::sheets::{self, add_congruent, cut_off};
use crate::simd::{self, Instructions, Task, Vector};
use crate::walk::{First, Moves, Periodic, Spot, Walk, Walked};
use std::ops::Range;
use std::sync::Arc;

/// Walks need so many times more lines, those that were not taken for that reason included, than the upper tiers hold, which
/// they empty.
const MORE: u64 = 4;
/// Lines of a walk, at most: not more than there have to be ids for, where loops walk.
const LONGEST: u64 = 1 << 17;
/// Where the upper tiers hold at most so many lines each may become a sheet.
const FEW: usize = 48;
/// Where not all goes evenly, it is tried again after so many periods.
const UNEVEN: u32 = 2;
/// Sheets were worth while if loops walked over so many times more lines than were to be put elsewhere in the end. Else loops
/// do not walk while so many times more come, twice as many the next time, but not more often than that.
const PAYS: u64 = 4;
const PAUSE: u64 = 8;
const MOST_PAUSES: u32 = 8;

/// Whether loops walk, which depends on what sheets gained so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worth {
    /// Lines of loops that were not taken since one was.
    lines: u64,
    /// Lines that loops walked over since the sheets were given up the last time.
    walked: u64,
    /// So many other lines are to come into the upper tiers before loops walk again, and how often in a row that was so.
    pause: u64,
    pauses: u32,
}

impl Worth {
    /// Whether loops may walk now.
    #[inline]
    pub(crate) fn walks(&self) -> bool {
        self.pause == 0
    }

    /// So many other lines came into the upper tiers.
    #[inline(always)]
    pub(crate) fn others(&mut self, lines: usize) {
        self.pause = self.pause.saturating_sub(lines as u64);
    }

    /// All sheets were given up, which took a step for each of so many lines. That should not happen often.
    pub(crate) fn gave_up(&mut self, lines: u64) {
        if self.walked >= PAYS * lines {
            self.pauses = 0;
        } else {
            self.pause = (PAUSE * lines) << self.pauses;
            self.pauses = (self.pauses + 1).min(MOST_PAUSES);
        }
        self.walked = 0;
    }
}

/// A line of a walk, as the next one of its strand will find things.
#[derive(Clone, Default)]
pub(crate) struct Follow {
    pub(crate) hint: Hint,
    /// By sheet.
    pub(crate) cuts: Vec<u32>,
    /// Which of the ranges that were walked over it is in.
    pub(crate) range: usize,
}

/// A loop walks over its lines.
pub(crate) struct Walking<'a, const W: usize> {
    pub(crate) core: &'a mut Core<W>,
    walk: &'a Arc<Walk<W>>,
    strands: &'a [Range<u64>],
    /// Periods beyond the fewest.
    more: u64,
    bucket: Bucket,
    /// Lines that it came to so far.
    pub(crate) ranges: Vec<Range<u64>>,
}

impl<const W: usize> Task for Walking<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let mut counts = self.core.buckets.take(self.bucket);
        self.core.lower();
        let Periodic { before, cycle, times, after } = &self.walk.firsts;
        for &first in before {
            self.reference::<V>(first, &mut Follow::default(), counts.as_deref_mut());
        }
        let cuts = vec![0; self.core.older.sheets.len()];
        let mut follows = vec![Follow { cuts, ..Follow::default() }; cycle.len()];
        let (mut period, mut tries) = (0, 0);
        while period < times + self.more {
            let left = times + self.more - period;
            if tries == 0 && left >= EVEN {
                let evenly = self.evenly::<V>(cycle, (period, left), &mut follows, counts.as_deref_mut());
                period += evenly;
                tries = if evenly == 0 { UNEVEN } else { 0 };
                if evenly > 0 {
                    continue;
                }
            }
            for (first, follow) in cycle.iter().zip(&mut follows) {
                self.reference::<V>(first.later(period), follow, counts.as_deref_mut());
            }
            period += 1;
            tries = tries.saturating_sub(1);
        }
        for first in after {
            self.reference::<V>(first.later(self.more), &mut Follow::default(), counts.as_deref_mut());
        }
        self.leave::<V>(counts.as_deref_mut());
        self.core.buckets.put(self.bucket, counts);
        self.leave_sheets();
    }
}

impl<const W: usize> Walking<'_, W> {
    pub(crate) fn line(&self, spot: Spot) -> u64 {
        self.strands[spot.strand as usize].start + spot.offset
    }

    /// The first reference to a line.
    #[inline(always)]
    fn reference<V: Vector>(&mut self, first: First, follow: &mut Follow, counts: Option<&mut Counts<W>>) {
        let line = self.line(first.spot);
        let core = &mut *self.core;
        let known = core.lines.len();
        let id = core.lines.id(line).unwrap_or_default();
        let (mut full, mut sums) = (0, [0; W]);
        let is_new = core.lines.len() > known;
        let taken = if is_new { None } else { core.older.take(&mut core.lines, (line, id), &mut follow.hint) };
        if let Some(taken) = taken {
            full = taken.singles + core.older.sheets.newer(line, taken.last, &mut sums, &mut follow.cuts);
            for range in &self.ranges {
                full += (range.end - range.start) as u32;
                add_congruent(&mut sums, range, line);
            }
        }
        let needs_sets = taken.is_some_and(|taken| taken.is_single || taken.singles > 0);
        core.work.walked.push(Walked {
            by_set: cut_off(&sums),
            full,
            id,
            line: line as u32,
            last: taken.filter(|_| needs_sets).map_or(0, |taken| taken.last),
            what: first.what,
            is_single: taken.is_some_and(|taken| taken.is_single),
            is_cold: taken.is_none(),
        });
        match self.ranges.get_mut(follow.range).filter(|range| range.end == line) {
            Some(range) => range.end += 1,
            None => {
                let known = self.ranges.iter().position(|range| range.end == line);
                follow.range = known.unwrap_or(self.ranges.len());
                match known {
                    Some(range) => self.ranges[range].end += 1,
                    None => self.ranges.push(line..line + 1),
                }
            }
        }
        if self.core.work.walked.len() == BATCH {
            self.leave::<V>(counts);
        }
    }

    /// What is to be done behind.
    #[inline(always)]
    pub(crate) fn leave<V: Vector>(&mut self, mut counts: Option<&mut Counts<W>>) {
        self.core.work.walk = Some(Arc::clone(self.walk));
        self.core.leave::<V>(self.bucket, counts.as_deref_mut());
        if let Some(counts) = counts {
            counts.spread();
        }
    }

    /// All lines stand in their order.
    fn leave_sheets(&mut self) {
        let Self { core, walk, strands, more, .. } = self;
        let line = |spot: Spot| strands[spot.strand as usize].start + spot.offset;
        let (first, place) = core.older.next();
        let Periodic { before, cycle, times, after } = &walk.order;
        let (len, periods, mut time) = (cycle.len(), times + *more, first);
        let sheets = &mut core.older.sheets;
        for line in before.iter().map(|&spot| line(spot)) {
            sheets.add(line..line + 1, time, 1, place);
            time += 1;
        }
        for (line, at) in cycle.iter().map(|&spot| line(spot)).zip(0..) {
            sheets.add(line..line + periods, time + at, len as Time, place);
        }
        time += (periods * len as u64) as Time;
        for line in after.iter().map(|spot| line(spot.later(*more))) {
            sheets.add(line..line + 1, time, 1, place);
            time += 1;
        }
        core.older.pass((time - first) as usize);
    }
}

impl<const W: usize> Core<W> {
    /// As [`crate::Learns::walk`].
    pub(crate) fn walk(
        &mut self,
        number: u32,
        strands: &[Range<u64>],
        periods: u64,
        bucket: Bucket,
        instructions: Instructions,
    ) -> bool {
        let Some(walk) = self.templates.walks.get(number) else { return false };
        let Some(more) = periods.checked_sub(walk.periods) else { return false };
        let lines = walk.lines(periods);
        self.worth.lines += lines;
        if self.worth.lines < MORE * self.tiers.held.count() as u64 || lines > LONGEST {
            return false;
        }
        self.worth.lines = 0;
        self.older.crowded |= self.older.sheets.len() + walk.order.cycle.len() > sheets::MOST;
        if self.older.late(lines as usize + 2 * BATCH) {
            self.restart(instructions);
            if self.older.late(lines as usize + 2 * BATCH) || !self.worth.walks() {
                return false;
            }
        }
        self.worth.walked += lines;
        self.templates.walks.used(number, more);
        simd::run(Walking { core: self, walk: &walk, strands, more, bucket, ranges: Vec::new() }, instructions);
        true
    }

    /// All lines of the upper tiers go to the older one, in their order.
    fn lower(&mut self) {
        let entries: Vec<_> = self.tiers.oldest_first().collect();
        for &entry in &entries {
            let (line, id) = (self.tiers.held.line(entry), self.ids[usize::from(entry)]);
            self.work.lowered.push((id, (*self.tiers.held.since_of(entry)).into()));
            let few = entries.len() <= FEW && self.older.sheets.len() < sheets::MOST / 2;
            if few || self.older.sheets.has_end(line) {
                let (time, place) = self.older.next();
                self.older.sheets.add(line..line + 1, time, 1, place);
                self.older.pass(1);
            } else {
                self.older.lower(&mut self.lines, &mut self.work.lower, (line, id));
            }
        }
        self.tiers.clear();
    }
}

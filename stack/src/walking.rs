//! A loop walks over its lines: what its first references find, and where its lines are afterwards.

use crate::counts::Counts;
use crate::digest::{Again, Passage, Segment};
use crate::engine::{BATCH, Core};
use crate::even::EVEN;
use crate::held::{Entry, HELD};
use crate::holes::Instant;
use crate::older::{Hint, Time};
use crate::runs::Run;
use crate::sharing::Sharing;
use crate::sheets::{self, Pace, add_congruent, cut_off};
use crate::simd::{self, Instructions, Task, Vector};
use crate::top::Order as _;
use crate::visit::Visit;
use crate::walk::{First, Moves, Periodic, Spot, Walk, Walked};
use crate::{Bucket, Went};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Walks need so many times fewer lines, those that were not taken for that reason included, than the upper tiers hold, which
/// they empty.
const MORE: u64 = 2;
/// Lines of a walk, at most: not more than there have to be ids for, where loops walk.
const LONGEST: u64 = 1 << 17;
/// Where the upper tiers hold at most so many lines each may become a sheet, or where so many have no neighbours there.
const FEW: usize = 48;
const ALONE: usize = 8;
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

/// Lines that come one by one where they were walked over elsewhere: so many at a time; and how far from there they may be in
/// their order at the end, at most, so that the upper tiers still hold them.
const PIECE: usize = 64;
const REACH: usize = 100;
/// No line of a strand comes so many lines earlier than its place there, and those of a period: an access is two lines and a
/// period from where its strand begins, at most, and may be on two lines.
const NEAR: u64 = 4;

/// A line of a walk, as the next one of its strand will find things.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follow {
    pub(crate) hint: Hint,
    /// By sheet.
    pub(crate) cuts: Vec<u32>,
    /// Which of the ranges that were walked over it is in.
    pub(crate) range: usize,
}

impl Follow {
    /// Something may be known from elsewhere; there are so many sheets.
    pub(crate) fn begin(&mut self, sheets: usize) {
        self.hint.forget_singles();
        self.range = 0;
        self.cuts.resize(sheets, 0);
    }
}

/// A loop walks over its lines.
pub(crate) struct Walking<'a, const W: usize> {
    pub(crate) core: &'a mut Core<W>,
    pub(crate) walk: &'a Arc<Walk<W>>,
    strands: &'a [Range<u64>],
    /// Periods beyond the fewest.
    more: u64,
    bucket: Bucket,
    /// Who asks for lines that others may hold.
    pub(crate) visit: Option<&'a mut Visit>,
    /// Lines that it came to so far.
    pub(crate) ranges: Vec<Range<u64>>,
}

impl<const W: usize> Task for Walking<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(mut self) {
        self.core.lower(true);
        let mut counts = self.core.buckets.take(self.bucket);
        counts.iter_mut().for_each(|counts| self.walk.count_firsts(self.more, counts));
        let Periodic { before, cycle, times, after, by } = &self.walk.firsts;
        let (mut kept, sheets) = (std::mem::take(&mut self.core.follows), self.core.older.sheets.len());
        kept.resize_with(kept.len().max(cycle.len()), Follow::default);
        let follows = &mut kept[..cycle.len()];
        follows.iter_mut().for_each(|follow| follow.begin(sheets));
        // Of the same strand.
        let number = |first: First| cycle.iter().position(|other| other.spot.strand == first.spot.strand).unwrap_or(0);
        for &first in before {
            self.reference::<V>(first, &mut follows[number(first)], counts.as_deref_mut());
        }
        let (mut period, mut tries) = (0, 0);
        while period < times + self.more {
            let left = times + self.more - period;
            if tries == 0 && left >= EVEN {
                let evenly = self.evenly::<V>(cycle, (period, left), follows, counts.as_deref_mut());
                period += evenly;
                tries = if evenly == 0 { UNEVEN } else { 0 };
                if evenly > 0 {
                    continue;
                }
            }
            for (first, follow) in cycle.iter().zip(&mut *follows) {
                self.reference::<V>(first.moved(by * period), follow, counts.as_deref_mut());
            }
            period += 1;
            tries = tries.saturating_sub(1);
        }
        for &first in after {
            self.reference::<V>(first.moved(by * self.more), &mut follows[number(first)], counts.as_deref_mut());
        }
        self.core.follows = kept;
        self.core.ranges = std::mem::take(&mut self.ranges);
        self.leave::<V>(counts.as_deref_mut());
        self.core.buckets.put(self.bucket, counts);
        self.leave_sheets();
    }
}

/// Lines of the upper tiers come to the top, one after the other.
struct Lift<'a, const W: usize> {
    core: &'a mut Core<W>,
    lines: &'a mut dyn Iterator<Item = u64>,
}

impl<const W: usize> Task for Lift<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let tiers = &mut self.core.tiers;
        let (mut stamps, mut top) = (tiers.newest.stamps::<V>(), V::Top::load(&tiers.top));
        // No closure: that would be a function without these instructions.
        for line in self.lines {
            tiers.lift::<V>(&mut stamps, &mut top, line);
        }
        top.store(&mut tiers.top);
    }
}

impl<const W: usize> Walking<'_, W> {
    pub(crate) fn line(&self, spot: Spot) -> u64 {
        spot.line(self.strands)
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
        let taken = if is_new { None } else { core.older.take::<V>(&mut core.lines, (line, id), &mut follow.hint) };
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
            what: self.walk.what(first, line),
            lines: 1,
            apart: 1,
            id_step: 0,
            is_single: taken.is_some_and(|taken| taken.is_single),
            is_cold: taken.is_none(),
        });
        self.find_range(line, follow);
        let end = line + 1;
        self.ranges[follow.range].end = end;
        // Where lines of a period do not come in their order some came before.
        if self.walk.firsts.by > 1
            && let Some(next) = self.ranges.iter().position(|range| range.start == end)
        {
            self.ranges[follow.range].end = self.ranges[next].end;
            self.ranges.swap_remove(next);
        }
        if self.core.work.walked.len() == BATCH {
            self.leave::<V>(counts);
        }
    }

    /// The range that a line is the next of, which may be a new one.
    #[inline(always)]
    pub(crate) fn find_range(&mut self, line: u64, follow: &mut Follow) {
        let is_next = |range: &Range<u64>| range.end == line;
        if !self.ranges.get(follow.range).is_some_and(is_next) {
            let known = self.ranges.iter().position(is_next);
            follow.range = known.unwrap_or(self.ranges.len());
            if known.is_none() {
                self.ranges.push(line..line);
            }
        }
    }

    /// What is to be done behind.
    #[inline(always)]
    pub(crate) fn leave<V: Vector>(&mut self, mut counts: Option<&mut Counts<W>>) {
        self.core.work.walk = Some(Arc::clone(self.walk));
        let asks = self.visit.as_deref_mut().map(|visit| (visit, self.strands));
        self.core.leave::<V>(self.bucket, counts.as_deref_mut(), asks);
        if let Some(counts) = counts {
            counts.spread::<V>();
        }
    }

    /// All lines stand in their order. Where they can be taken away, it is noted when they were referenced, and the stack of all
    /// threads is told.
    fn leave_sheets(&mut self) {
        let Self { core, walk, strands, more, bucket, .. } = self;
        let Periodic { before, cycle, times, after, by } = &walk.order;
        let (lines, periods) = (walk.lines(walk.periods + *more), times + *more);
        let (first, place) = core.older.next();
        let Core { older, sharing, lines: known, .. } = &mut **core;
        let begin = sharing.as_mut().map(|sharing| sharing.pass(lines));
        // Neighbours: how many, when the first one comes, and when the others do.
        let mut leave = |spot: Spot, len: u64, number: u64, pace: Pace| {
            let line = spot.line(strands);
            older.sheets.add(line..line + len, first + number as Time, pace, place);
            let (Some(sharing), Some(begin)) = (&mut *sharing, begin) else { return };
            let mut done = 0;
            while done < len {
                let ids = known.ids(line + done..line + len);
                sharing.note_all(ids, |line| begin + number + pace.time(done as u32 + line) as Instant);
                done += ids.len().max(1) as u64;
            }
        };
        let (ends, each) = (before.len() as u64, cycle.len() as u64);
        (0..).zip(before).for_each(|(number, &spot)| leave(spot, 1, number, Pace::even(1)));
        for strand in 0..strands.len() as u32 {
            let Some((begin, spot)) = walk.order.strand(strand).next() else { continue };
            let mut later = [0; sheets::MOST_LINES];
            let lines = later.iter_mut().zip(walk.order.strand(strand));
            lines.for_each(|(later, (number, _))| *later = (number - begin) as Time);
            let pace = Pace::new(each as Time, &later[..*by as usize]);
            leave(spot, by * periods, ends + begin as u64, pace);
        }
        (ends + periods * each..)
            .zip(after)
            .for_each(|(number, spot)| leave(spot.moved(by * *more), 1, number, Pace::even(1)));
        older.pass(lines as usize);
        if let Some(sharing) = sharing {
            sharing.cut();
            let (strands, more) = ((*strands).into(), *more);
            sharing.digesting.walk(Passage { walk: Arc::<Walk<W>>::clone(walk), strands, more, lines });
            walk.count_within(more, *bucket, &mut sharing.within);
        }
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
        visit: Option<&mut Visit>,
        instructions: Instructions,
    ) -> Went {
        let Some(walk) = self.templates.walks.get(number) else { return Went::Not };
        let Some(more) = periods.checked_sub(walk.periods) else { return Went::Not };
        if self.sharing.is_some() && walk.reach > REACH {
            return Went::Not;
        }
        if let Some(lines) = self.disturbed(strands) {
            let by = walk.firsts.by;
            return Went::Until(lines.saturating_sub(NEAR + by) / by);
        }
        if !self.begin_walk(&walk, more, instructions) {
            return Went::Not;
        }
        let placed = self.templates.walks.placed(number, strands, more);
        if self.sharing.is_none() {
            match &placed {
                Some(walk) => walk.count_within(more, bucket, &mut self.buckets),
                None => self.templates.walks.used(number, more),
            }
        }
        let walk = placed.unwrap_or(walk);
        self.go(&walk, strands, more, bucket, visit, instructions);
        Went::All
    }

    fn go(
        &mut self,
        walk: &Arc<Walk<W>>,
        strands: &[Range<u64>],
        more: u64,
        bucket: Bucket,
        visit: Option<&mut Visit>,
        instructions: Instructions,
    ) {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.clear();
        simd::run(Walking { core: self, walk, strands, more, bucket, visit, ranges }, instructions);
    }

    /// If some lines of strands were taken away, or holes are above them, how many come before, along any of the strands.
    fn disturbed(&mut self, strands: &[Range<u64>]) -> Option<u64> {
        let sharing = self.sharing.as_ref().filter(|sharing| !sharing.is_whole())?;
        let present: SmallVec<[_; 4]> = strands.iter().map(|strand| self.present(sharing, strand)).collect();
        let oldest = present.iter().map(|(_, oldest)| *oldest).min()?;
        let sharing = self.sharing.as_mut()?;
        if sharing.holes.may_be_above(oldest) {
            sharing.holes.look(oldest);
        }
        let core = &*self;
        let sharing = core.sharing.as_ref()?;
        let is_disturbed =
            |&line: &u64| core.last(sharing, line).is_none_or(|last| sharing.holes.are_above(line, last));
        let first = |(strand, (end, oldest)): (&Range<u64>, (u64, Instant))| {
            let mut here = strand.start..end;
            let found = match sharing.holes.few() {
                _ if !sharing.holes.may_be_above(oldest) => None,
                Some(few) => few.iter().filter_map(|few| few.lines(&here, oldest).find(is_disturbed)).min(),
                None => here.find(is_disturbed),
            };
            Some(found.or(Some(end).filter(|&end| end < strand.end))? - strand.start)
        };
        strands.iter().zip(present).filter_map(first).min()
    }

    /// When a line was last referenced; 0 if it was not, `None` if it was taken away.
    fn last(&self, sharing: &Sharing<W>, line: u64) -> Option<Instant> {
        // What is known elsewhere of a line that is held is of before.
        self.held(sharing, line).or_else(|| sharing.last(self.lines.find(line)))
    }

    /// When one was that is in the upper tiers.
    fn held(&self, sharing: &Sharing<W>, line: u64) -> Option<Instant> {
        self.tiers.held.find(line).map(|entry| sharing.held(entry))
    }

    /// Where the first of some lines is that was taken away, or their end, and when the first one before that was last referenced, or
    /// earlier.
    fn present(&self, sharing: &Sharing<W>, lines: &Range<u64>) -> (u64, Instant) {
        let sheets = &self.older.sheets;
        let (mut line, mut oldest, mut near) = (lines.start, Instant::MAX, 0);
        while line < lines.end {
            if let Some(sheet) = sheets.find_near(line, &mut near) {
                // Each line of a sheet is more recent than the one before it.
                oldest = oldest.min(sharing.last(self.lines.find(line)).unwrap_or(0));
                line = sheets.extents()[sheet].end;
                continue;
            }
            let next = sheets.extents().iter().map(|extent| extent.first).filter(|&first| first > line).min();
            let others = line..next.unwrap_or(lines.end).min(lines.end);
            for mut ids in self.lines.all_ids(others) {
                loop {
                    let (count, of_these) = sharing.oldest(ids);
                    (line, oldest) = (line + count as u64, oldest.min(of_these));
                    let Some(behind) = ids.get(count + 1..) else { break };
                    // It was taken away, and may be back.
                    let Some(held) = self.held(sharing, line) else { return (line, oldest) };
                    (ids, line, oldest) = (behind, line + 1, oldest.min(held));
                }
            }
        }
        (lines.end, oldest)
    }

    /// Whether a loop may walk now.
    fn begin_walk(&mut self, walk: &Walk<W>, more: u64, instructions: Instructions) -> bool {
        let (lines, strands) = (walk.lines(walk.periods + more), walk.order.cycle.len() / walk.order.by as usize);
        self.worth.lines += lines;
        if MORE * self.worth.lines < self.tiers.held.count().min(HELD) as u64 || lines > LONGEST {
            return false;
        }
        self.worth.lines = 0;
        self.older.crowded |= self.older.sheets.len() + strands > self.older.most;
        let moves = lines as usize + 2 * BATCH;
        self.be_in_time(moves, instructions);
        // If the sheets were given up for that, perhaps not.
        if self.older.late(moves) || !self.worth.walks() {
            return false;
        }
        self.worth.walked += lines;
        self.older.gain(lines as usize);
        true
    }

    /// A loop of another stack walks here, too, or its lines come one by one.
    pub(crate) fn pass_over(&mut self, passage: &Passage, bucket: Bucket, instructions: Instructions) {
        let Passage { walk, strands, more, .. } = passage;
        let Ok(walk) = Arc::clone(walk).downcast::<Walk<W>>() else { return debug_assert!(false, "of the same width") };
        let walks = !self.lines.may_run_out(passage.lines as usize) && self.worth.walks();
        if walks && self.begin_walk(&walk, *more, instructions) {
            return self.go(&walk, strands, *more, bucket, None, instructions);
        }
        let line = |spot: Spot| spot.line(strands);
        let pins = walk.classes.as_ref().map_or(&[][..], |classes| classes.pins());
        let (mut firsts, mut order) = (walk.firsts.all(*more).peekable(), walk.order.all(*more).map(line));
        let (mut lines, mut again, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let (mut fed, mut lifted) = (0, 0);
        while firsts.peek().is_some() {
            for (first, index) in firsts.by_ref().take(PIECE).zip(0..) {
                let line = line(first.spot);
                let what = &walk.whats()[walk.what(first, line) as usize];
                lines.push(Run { line, weight: 1, flags: what.flags });
                again.extend(what.again.map(|again| Again { index, ..again }));
                before.extend(what.before);
            }
            fed += lines.len();
            let segment = Segment { lines: &lines, again: &again, before: &before, ..Segment::default() };
            self.feed_segments(&mut [segment].into_iter(), bucket, instructions);
            // Those whose place in the order can be known.
            let ready = if firsts.peek().is_some() { fed.saturating_sub(walk.reach + pins.len()) } else { fed };
            if walk.reach + pins.len() > 0 {
                // Pins must not sink too far until they come to their place at the end.
                let lines = &mut pins.iter().copied().chain(order.by_ref().take(ready - lifted));
                simd::run(Lift { core: self, lines }, instructions);
                lifted = ready;
            }
            lines.clear();
            again.clear();
            before.clear();
        }
    }

    /// All lines of the upper tiers go to the older one, in their order, to sheets if they may.
    pub(crate) fn lower(&mut self, to_sheets: bool) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.extend(self.tiers.oldest_first());
        if let Some(sharing) = &mut self.sharing {
            sharing.cut();
            entries.iter().for_each(|&entry| sharing.note(self.ids[usize::from(entry)], sharing.held(entry)));
        }
        let held = &self.tiers.held;
        let alone = |&&entry: &&Entry| {
            let line = held.line(entry);
            [line.wrapping_sub(1), line + 1].iter().all(|&other| held.find(other).is_none())
        };
        let few = entries.len() <= FEW || entries.iter().filter(alone).count() <= ALONE;
        if to_sheets {
            self.older.gather(&mut self.lines, &mut self.work.lower, |line| held.find(line).is_some());
        }
        for &entry in &entries {
            let (line, id) = (self.tiers.held.line(entry), self.ids[usize::from(entry)]);
            self.work.lowered.push((id, (*self.tiers.held.since_of(entry)).into()));
            let begins = few || self.tiers.held.find(line + 1).is_some();
            let begins = begins && self.older.sheets.len() < self.older.most / 2;
            if to_sheets && (begins || self.older.sheets.has_end(line)) {
                let (time, place) = self.older.next();
                self.older.sheets.add(line..line + 1, time, Pace::even(1), place);
                self.older.pass(1);
            } else {
                self.older.lower(&mut self.lines, &mut self.work.lower, (line, id));
            }
        }
        self.older.forget_fresh(&self.lines);
        self.tiers.clear();
        entries.clear();
        self.entries = entries;
    }
}

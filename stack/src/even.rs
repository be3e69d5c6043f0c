//! Periods of a walk in which everything goes evenly.
//!
//! As long as each strand takes the lines of one sheet that came at even intervals, what is above its lines is a few ranges
//! of lines, whose ends stay where they are or move on by one line in each period. So distances by set need few steps each:
//! whatever does not move against the line is the same all the time.

use crate::counts::Counts;
use crate::engine::BATCH;
use crate::older::Time;
use crate::simd::Vector;
use crate::walk::{First, Walked};
use crate::walking::{Follow, Walking};
use std::ops::Range;

/// So many periods at least.
pub(crate) const EVEN: u64 = 8;
/// Line numbers are alike modulo this.
const TURN: u32 = 1 << 24;

/// Where the lines of a strand come from, and what is above them.
#[derive(Clone, Debug)]
struct Course<const W: usize> {
    /// The first line and when it came, and the time to the next.
    line: u64,
    last: Time,
    step: Time,
    /// Their sheet, and the lines in none that are above all of them.
    sheet: usize,
    singles: u32,
    /// Lines above the first one, and how many more are above the next.
    full: u32,
    more: u32,
    /// By set: what is always the same; and what is to be added or taken away as [`Vector::halve`] does, which is the sums of
    /// [`crate::sheets::add_congruent`].
    always: [u32; W],
    adds: Vec<u32>,
    takes: Vec<u32>,
}

impl<const W: usize> Course<W> {
    /// A range of lines is above the first one; whether it starts one line later for each one that follows, and ends so.
    fn add(&mut self, lines: Range<u64>, starts_later: bool, ends_later: bool) {
        let before = lines.start.wrapping_sub(self.line + 1) as u32 % TURN + TURN;
        let len = (lines.end - lines.start) as u32;
        self.full += len;
        self.more = self.more.wrapping_add(u32::from(ends_later)).wrapping_sub(u32::from(starts_later));
        for (whole, stays, varies, sign) in
            [(before + len, ends_later, &mut self.adds, 1), (before, starts_later, &mut self.takes, u32::MAX)]
        {
            if !stays {
                varies.push(whole);
                continue;
            }
            for (bits, always) in (1..).zip(&mut self.always) {
                *always = always.wrapping_add((whole >> bits).wrapping_mul(sign));
            }
        }
    }
}

impl<const W: usize> Walking<'_, W> {
    /// Works off periods from this one on, at most `left`, if all goes evenly in some; how many.
    #[inline(always)]
    pub(crate) fn evenly<V: Vector>(
        &mut self,
        cycle: &[First],
        (period, left): (u64, u64),
        follows: &mut [Follow],
        counts: Option<&mut Counts<W>>,
    ) -> u64 {
        let Some((mut courses, mut periods)) = self.courses(cycle, period, left, follows) else { return 0 };
        while periods >= EVEN && self.look(&mut courses, periods, follows).is_none() {
            periods /= 2;
        }
        if periods < EVEN {
            return 0;
        }
        if self.core.work.walked.len() + periods as usize * cycle.len() > BATCH {
            self.leave::<V>(counts);
        }
        let walked = &mut self.core.work.walked;
        for number in 0..periods as u32 {
            for (course, first) in courses.iter().zip(cycle) {
                walked.push(Walked {
                    by_set: V::halve(&course.always, &course.adds, &course.takes, number),
                    full: course.full.wrapping_add(number.wrapping_mul(course.more)),
                    id: 0,
                    line: (course.line as u32).wrapping_add(number),
                    last: if course.singles > 0 { course.last + number as Time * course.step } else { 0 },
                    what: first.what,
                    is_single: false,
                    is_cold: false,
                });
            }
        }
        let begin = walked.len() - periods as usize * cycle.len();
        for (at, course) in courses.iter().enumerate() {
            let ids = self.core.lines.following(course.line);
            for (walked, &id) in walked[begin + at..].iter_mut().step_by(cycle.len()).zip(ids) {
                walked.id = id - 1;
            }
        }
        for (course, follow) in courses.iter().zip(follows) {
            self.core.older.sheets.remove_first(course.sheet, periods);
            self.ranges[follow.range].end += periods;
        }
        periods
    }

    /// Where the lines of each strand come from, and for how many periods at most: `None` if not from the fronts of sheets.
    fn courses(
        &self,
        cycle: &[First],
        period: u64,
        left: u64,
        follows: &mut [Follow],
    ) -> Option<(Vec<Course<W>>, u64)> {
        let (older, mut periods) = (&self.core.older, left.min((BATCH / cycle.len()) as u64));
        let mut courses: Vec<Course<W>> = Vec::with_capacity(cycle.len());
        for (first, follow) in cycle.iter().zip(follows) {
            let line = self.line(first.spot) + period;
            if !older.sheets.is_in(line, follow.hint.sheet) {
                follow.hint.sheet = older.sheets.find(line)?;
            }
            let sheet = follow.hint.sheet;
            let extent = older.sheets.extents()[sheet];
            let known = self.ranges.get(follow.range).is_some_and(|range| range.end == line);
            if extent.first != line || !known || courses.iter().any(|other| other.sheet == sheet) {
                return None;
            }
            let (step, lines) = older.sheets.even(sheet);
            periods = periods.min(lines - 1).min(self.core.lines.following(line).len() as u64);
            if periods < EVEN {
                return None;
            }
            let (singles, always) = (older.singles(sheet), [0; W]);
            let (adds, takes) = (Vec::new(), Vec::new());
            let last = extent.oldest;
            courses.push(Course { line, last, step, sheet, singles, full: 0, more: 0, always, adds, takes });
        }
        Some((courses, periods))
    }

    /// Looks for what is above the lines of each course; `None` if that does not go evenly for so many periods.
    fn look(&self, courses: &mut [Course<W>], periods: u64, follows: &mut [Follow]) -> Option<()> {
        let sheets = &self.core.older.sheets;
        for number in 0..courses.len() {
            let Course { line, last, step, sheet: own, singles, .. } = courses[number];
            let mut above = Course { full: singles, more: 0, always: [0; W], ..courses[number].clone() };
            above.adds.clear();
            above.takes.clear();
            let until = last + (periods - 1) as Time * step;
            for (sheet, extent) in sheets.extents().iter().enumerate() {
                if sheet == own {
                    above.add(line + 1..extent.end, true, false);
                    continue;
                }
                if extent.newest <= last {
                    continue;
                }
                if extent.newest <= until {
                    return None;
                }
                // Another strand may be taking lines from it.
                let taker = courses.iter().position(|other| other.sheet == sheet);
                let hint = &mut follows[number].cuts;
                let mut start = |period: u64| {
                    let taken = taker.map_or(0, |taker| period + u64::from(taker < number));
                    let oldest = extent.oldest + taken as Time * taker.map_or(0, |taker| courses[taker].step);
                    let last = last + period as Time * step;
                    if oldest > last {
                        return (extent.first + taken, None);
                    }
                    let (line, piece, step) = match hint.get_mut(sheet) {
                        Some(hint) => sheets.cut(sheet, last, hint),
                        None => sheets.cut(sheet, last, &mut 0),
                    };
                    (line, Some((piece, step)))
                };
                let ((first, how), (later, how_later)) = (start(0), start(periods - 1));
                let moves = later - first == periods - 1 && how == how_later && how.is_none_or(|(_, at)| at == step);
                if first != later && !moves {
                    return None;
                }
                above.add(first..extent.end, moves, false);
            }
            for (range, lines) in self.ranges.iter().enumerate() {
                let grows = follows.iter().position(|other| other.range == range);
                let first = grows.is_some_and(|other| other < number);
                above.add(lines.start..lines.end + u64::from(first), false, grows.is_some());
            }
            courses[number] = above;
        }
        Some(())
    }
}

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

/// The lines of a strand.
#[derive(Clone, Debug)]
pub(crate) struct Course<const W: usize> {
    from: Front,
    above: Above<W>,
}

/// Where they come from: the first line and when it came, the time to the next, and their sheet; and the lines in none that are
/// above all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    line: u64,
    last: Time,
    step: Time,
    sheet: usize,
    singles: u32,
}

/// What is above them.
#[derive(Clone, Debug)]
struct Above<const W: usize> {
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
    fn new() -> Self {
        let above = Above { full: 0, more: 0, always: [0; W], adds: Vec::new(), takes: Vec::new() };
        Self { from: Front::default(), above }
    }
}

impl<const W: usize> Above<W> {
    /// A range of lines is above the first one, `line`; whether it starts one line later for each one that follows, and ends so.
    fn add(&mut self, line: u64, lines: Range<u64>, starts_later: bool, ends_later: bool) {
        let before = lines.start.wrapping_sub(line + 1) as u32 % TURN + TURN;
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
        let mut kept = std::mem::take(&mut self.core.courses);
        kept.resize_with(kept.len().max(cycle.len()), Course::new);
        let courses = &mut kept[..cycle.len()];
        let mut periods = self.courses(courses, cycle, period, left, follows);
        while periods >= EVEN && self.look(courses, periods, follows).is_none() {
            periods /= 2;
        }
        if periods >= EVEN {
            self.go_evenly::<V>(courses, cycle, periods, follows, counts);
        }
        self.core.courses = kept;
        if periods >= EVEN { periods } else { 0 }
    }

    /// Works off so many periods.
    #[inline(always)]
    fn go_evenly<V: Vector>(
        &mut self,
        courses: &[Course<W>],
        cycle: &[First],
        periods: u64,
        follows: &[Follow],
        counts: Option<&mut Counts<W>>,
    ) {
        if self.core.work.walked.len() + periods as usize * cycle.len() > BATCH {
            self.leave::<V>(counts);
        }
        let walked = &mut self.core.work.walked;
        for number in 0..periods as u32 {
            for (Course { from, above }, first) in courses.iter().zip(cycle) {
                walked.push(Walked {
                    by_set: V::halve(&above.always, &above.adds, &above.takes, number),
                    full: above.full.wrapping_add(number.wrapping_mul(above.more)),
                    id: 0,
                    line: (from.line as u32).wrapping_add(number),
                    last: if from.singles > 0 { from.last + number as Time * from.step } else { 0 },
                    what: first.what,
                    is_single: false,
                    is_cold: false,
                });
            }
        }
        let begin = walked.len() - periods as usize * cycle.len();
        for (at, course) in courses.iter().enumerate() {
            let ids = self.core.lines.ids(course.from.line..course.from.line + periods);
            for (walked, &id) in walked[begin + at..].iter_mut().step_by(cycle.len()).zip(ids) {
                walked.id = id - 1;
            }
        }
        for (course, follow) in courses.iter().zip(follows) {
            self.core.older.sheets.remove_first(course.from.sheet, periods);
            self.ranges[follow.range].end += periods;
        }
    }

    /// Where the lines of each strand come from; for how many periods at most: 0 if not from the fronts of sheets.
    fn courses(
        &mut self,
        courses: &mut [Course<W>],
        cycle: &[First],
        period: u64,
        left: u64,
        follows: &mut [Follow],
    ) -> u64 {
        let mut periods = left.min((BATCH / cycle.len()) as u64);
        for (number, (first, follow)) in cycle.iter().zip(follows).enumerate() {
            let line = self.line(first.spot) + period;
            self.find_range(line, follow);
            let older = &self.core.older;
            let Some(sheet) = older.sheets.find_near(line, &mut follow.hint.sheet) else { return 0 };
            let extent = older.sheets.extents()[sheet];
            if extent.first != line || courses[..number].iter().any(|other| other.from.sheet == sheet) {
                return 0;
            }
            let (step, lines) = older.sheets.even(sheet);
            periods = periods.min(lines - 1);
            periods = periods.min(self.core.lines.ids(line..line + periods).len() as u64);
            if periods < EVEN {
                return 0;
            }
            let (last, singles) = (extent.oldest, older.singles(sheet));
            courses[number].from = Front { line, last, step, sheet, singles };
        }
        periods
    }

    /// Looks for what is above the lines of each course; `None` if that does not go evenly for so many periods.
    fn look(&self, courses: &mut [Course<W>], periods: u64, follows: &mut [Follow]) -> Option<()> {
        for number in 0..courses.len() {
            let mut above = std::mem::replace(&mut courses[number].above, Course::new().above);
            let evenly = self.look_above(number, &mut above, courses, periods, follows);
            courses[number].above = above;
            evenly?;
        }
        Some(())
    }

    /// The same for one of them.
    fn look_above(
        &self,
        number: usize,
        above: &mut Above<W>,
        courses: &[Course<W>],
        periods: u64,
        follows: &mut [Follow],
    ) -> Option<()> {
        let sheets = &self.core.older.sheets;
        let Front { line: own_line, last, step, sheet: own, singles } = courses[number].from;
        (above.full, above.more, above.always) = (singles, 0, [0; W]);
        above.adds.clear();
        above.takes.clear();
        let until = last + (periods - 1) as Time * step;
        for (sheet, extent) in sheets.extents().iter().enumerate() {
            if sheet == own {
                above.add(own_line, own_line + 1..extent.end, true, false);
                continue;
            }
            if extent.newest <= last {
                continue;
            }
            if extent.newest <= until {
                return None;
            }
            // Another strand may be taking lines from it.
            let taker = courses.iter().position(|other| other.from.sheet == sheet);
            let hint = &mut follows[number].cuts;
            let mut start = |period: u64| {
                let taken = taker.map_or(0, |taker| period + u64::from(taker < number));
                let oldest = extent.oldest + taken as Time * taker.map_or(0, |taker| courses[taker].from.step);
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
            above.add(own_line, first..extent.end, moves, false);
        }
        for (range, lines) in self.ranges.iter().enumerate() {
            let grows = follows.iter().position(|other| other.range == range);
            let first = grows.is_some_and(|other| other < number);
            above.add(own_line, lines.start..lines.end + u64::from(first), false, grows.is_some());
        }
        Some(())
    }
}

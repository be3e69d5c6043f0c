//! Periods of a walk in which everything goes evenly.
//!
//! As long as each strand takes the lines of one sheet that came at an even pace, what is above its lines is a few ranges of
//! lines, whose ends stay where they are or move on with the line in each period. So distances by set need few steps each:
//! whatever does not move against the line is the same all the time. What does move changes them seldom, but for few sets: lines
//! that follow each other are often alike, as far as is counted, or those of every eighth period are.

use crate::counts::Counts;
use crate::engine::{BATCH, Core};
use crate::lines::{Ids, Lines};
use crate::older::{Older, Singles, Time};
use crate::sheets::Sheets;
use crate::simd::Vector;
use crate::walk::{First, Walked};
use crate::walking::{Follow, Walking};
use smallvec::SmallVec;
use std::ops::Range;

/// So many periods at least.
pub(crate) const EVEN: u64 = 8;
/// Where neighbours may differ at fewer set bits than this, lines are looked at together that agree in so many: they differ less.
const CLASS_BITS: u32 = 3;
/// Line numbers are alike modulo this.
const TURN: u32 = 1 << 24;

/// The lines of a strand, or where it comes to several in a period one of each.
#[derive(Clone, Debug)]
pub(crate) struct Course<const W: usize> {
    from: Front,
    above: Above<W>,
}

/// Where they come from: the first line and when it came, the time to the one of the next period, and their sheet; and the lines in
/// none, which are above all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Front {
    pub(crate) line: u64,
    pub(crate) last: Time,
    pub(crate) step: Time,
    pub(crate) sheet: usize,
    pub(crate) singles: Singles,
}

/// What is above them.
#[derive(Clone, Debug)]
pub(crate) struct Above<const W: usize> {
    /// Lines above the first one, and how many more are above the next, times the lines of a period.
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
        Self { from: Front::default(), above: Above::new() }
    }
}

impl<const W: usize> Above<W> {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self { full: 0, more: 0, always: [0; W], adds: Vec::new(), takes: Vec::new() }
    }

    /// So many more with one set, above all of them.
    pub(crate) fn raise(&mut self, more: u32) {
        self.full += more;
    }

    /// With one set and by set, what is above a line so many behind the first one; and how many more with one set are above the next.
    #[inline(always)]
    pub(crate) fn of<V: Vector>(&self, number: u32) -> (u32, [u8; W], u32) {
        let by_set = V::halve(&self.always, &self.adds, &self.takes, number);
        (self.full.wrapping_add(number.wrapping_mul(self.more)), by_set, self.more)
    }

    /// A range of lines is above the first one, `line`; whether it starts as much later for each one that follows, and ends so.
    pub(crate) fn add(&mut self, line: u64, lines: Range<u64>, starts_later: bool, ends_later: bool) {
        let before = lines.start.wrapping_sub(line + 1) as u32 % TURN + TURN;
        let len = (lines.end - lines.start) as u32;
        self.full += len;
        self.more = self.more.wrapping_add(u32::from(ends_later)).wrapping_sub(u32::from(starts_later));
        let always = &mut self.always;
        let mut end = |whole: u32, stays: bool, varies: &mut Vec<u32>, others: &mut Vec<u32>, sign: u32| {
            if stays {
                for (bits, always) in (1..).zip(&mut *always) {
                    *always = always.wrapping_add((whole >> bits).wrapping_mul(sign));
                }
            } else if let Some(other) = others.iter().position(|&other| other == whole) {
                // One range begins where another one ends.
                others.swap_remove(other);
            } else {
                varies.push(whole);
            }
        };
        end(before + len, ends_later, &mut self.adds, &mut self.takes, 1);
        end(before, starts_later, &mut self.takes, &mut self.adds, u32::MAX);
    }
}

impl<const W: usize> Above<W> {
    /// What is above the lines of a front, `by` of them in each of so many periods, but by set what is in no sheet where that is
    /// much; `None` if that does not go evenly. Lines of a sheet may be taken: how many before, and how many in each period.
    pub(crate) fn begin(
        &mut self,
        (older, lines): (&Older, &Lines),
        Front { line: own_line, last, step, sheet: own, singles }: Front,
        (periods, by): (u64, u64),
        taken: impl Fn(usize) -> (u64, u64),
        cuts: &mut [u32],
    ) -> Option<()> {
        let many = if let Singles::Many(many) = singles { many } else { 0 };
        (self.full, self.more, self.always) = (many, 0, [0; W]);
        self.adds.clear();
        self.takes.clear();
        older.each(lines, singles).for_each(|line| self.add(own_line, line..line + 1, false, false));
        let sheets = &older.sheets;
        let until = last + (periods - 1) as Time * step;
        for (sheet, extent) in sheets.extents().iter().enumerate() {
            if sheet == own {
                self.add(own_line, own_line + 1..extent.end, true, false);
                continue;
            }
            if extent.newest <= last {
                continue;
            }
            if extent.newest <= until {
                return None;
            }
            let (before, taken) = taken(sheet);
            let mut start = |period: u64| {
                let first = extent.first + period * taken + before;
                let last = last + period as Time * step;
                let oldest = if taken > 0 { sheets.time_in_front(sheet, first) } else { extent.oldest };
                if oldest > last {
                    return (first, None);
                }
                let (line, piece, step) = match cuts.get_mut(sheet) {
                    Some(hint) => sheets.cut(sheet, last, by, hint),
                    None => sheets.cut(sheet, last, by, &mut 0),
                };
                (line, Some((piece, step)))
            };
            let ((first, how), (later, how_later)) = (start(0), start(periods - 1));
            let evenly = how == how_later && how.is_none_or(|(_, at)| at == Some(step));
            let moves = later - first == (periods - 1) * by && evenly;
            if first != later && !moves {
                return None;
            }
            self.add(own_line, first..extent.end, moves, false);
        }
        Some(())
    }

    /// The low bits of line numbers that sets have in common where, in so many periods, there may be fewer than `ways` lines of a set
    /// above: fewest of them.
    #[inline(always)]
    pub(crate) fn uncertain<V: Vector>(&self, periods: u64, by: u64, ways: u32) -> u32 {
        // Each part goes evenly but for less than one line.
        let most = 2 * (self.adds.len() + self.takes.len()) as u32;
        // One after the other: what a closure does gets none of the instructions.
        let first = V::halve(&self.always, &self.adds, &self.takes, 0);
        let last = V::halve(&self.always, &self.adds, &self.takes, ((periods - 1) * by) as u32);
        let may_be = |(one, other): (&u8, &u8)| u32::from(*one.min(other)) < ways + most;
        1 + first.iter().zip(&last).position(may_be).unwrap_or(W) as u32
    }

    /// In how many periods, that of a line included which is so many behind the first one, nothing changes where it may matter.
    #[inline(always)]
    pub(crate) fn alike(&self, number: u32, by: u32, uncertain: u32) -> u64 {
        if uncertain < 2 {
            return 1;
        }
        let within = (1 << uncertain) - 1;
        let left = |&one: &u32| (one - number) & within;
        let left = self.adds.iter().chain(&self.takes).map(left).min().unwrap_or(within);
        u64::from(left / by) + 1
    }

    /// From the line of a period, `at`, to the next one, `apart` periods or a multiple behind it, that has something else above it by
    /// set, or is not before `end`. `sums` are those of the first one, and become those of the other.
    #[inline(always)]
    fn go_on<V: Vector>(
        &self,
        (mut at, end, apart): (u64, u64, u64),
        by: u64,
        uncertain: u32,
        sums: &mut (u32, [u8; W], u32),
    ) -> u64 {
        let by_set = sums.1;
        loop {
            at = if apart > 1 { at + apart } else { end.min(at + self.alike((at * by) as u32, by as u32, uncertain)) };
            if at >= end {
                return at;
            }
            *sums = self.of::<V>((at * by) as u32);
            // Where something changes the sums may be the same.
            if uncertain == 0 || sums.1 != by_set {
                return at;
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
        mut counts: Option<&mut Counts<W>>,
    ) {
        let (by, ways) = (self.by(), self.core.limits.max_ways);
        let (classes, asks) = (self.walk.classes.as_ref(), self.visit.is_some());
        for (Course { from, above }, does) in courses.iter().zip(cycle) {
            if self.core.work.walked.len() + periods as usize > BATCH {
                self.leave::<V>(counts.as_deref_mut());
            }
            let Core { lines: known, work, .. } = &mut *self.core;
            let ids = known.ids(from.line..from.line + periods * by);
            let is_known = matches!(from.singles, Singles::From(_));
            let is_alike = is_known && above.more == 0;
            let uncertain = if is_alike { above.uncertain::<V>(periods, by, ways) } else { 0 };
            let apart = if (1..CLASS_BITS).contains(&uncertain) { 1 << CLASS_BITS } else { 1 };
            let mut period = 0;
            while period < periods {
                let ids = Ids::even(&ids[(period * by) as usize..], by as usize);
                let end = period + u64::from(ids.count);
                for class in period..end.min(period + apart) {
                    let (mut at, mut next) = (class, above.of::<V>((class * by) as u32));
                    while at < end {
                        let ((full, by_set, _), first) = (next, at);
                        at = above.go_on::<V>((at, end, apart), by, uncertain, &mut next);
                        let (id, line) = (ids.number((first - period) as u32), from.line + first * by);
                        let (id_step, lines) = (ids.step.wrapping_mul(apart as u32), ((at - first) / apart) as u32);
                        let walked = Walked {
                            by_set,
                            full,
                            id,
                            line: line as u32,
                            last: if !is_known { from.last + first as Time * from.step } else { 0 },
                            what: does.what,
                            lines,
                            apart: apart as u32,
                            id_step,
                            is_single: false,
                            is_cold: false,
                        };
                        let Some(classes) = classes else {
                            work.walked.push(walked);
                            continue;
                        };
                        classes.for_each_what((*does, line), (by * apart, lines), asks, |some, what| {
                            work.walked.push(Walked {
                                id: id.wrapping_add(id_step.wrapping_mul(some.first)),
                                line: walked.line.wrapping_add(some.first * (by * apart) as u32),
                                what,
                                lines: some.count,
                                apart: walked.apart * some.apart,
                                id_step: id_step.wrapping_mul(some.apart),
                                ..walked
                            });
                        });
                    }
                }
                period = end;
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
        let (mut periods, by) = (left.min(BATCH as u64), self.by());
        let mut in_order = true;
        for (number, (first, follow)) in cycle.iter().zip(follows).enumerate() {
            let line = self.line(first.spot) + by * period;
            let older = &self.core.older;
            let Some(sheet) = older.sheets.find_near(line, &mut follow.hint.sheet) else { return 0 };
            let extent = older.sheets.extents()[sheet];
            let place = line - extent.first;
            if place >= by {
                return 0;
            }
            // Its lines are taken by those before it, too.
            in_order &= place == taken(&courses[..number], sheet);
            if !in_order && !are_first(&courses[..number], &older.sheets, Some((sheet, place))) {
                return 0;
            }
            let (step, lines) = older.sheets.even(sheet, by);
            periods = periods.min(lines.saturating_sub(1) / by);
            periods = periods.min((self.core.lines.ids(line..line + periods * by).len() as u64).div_ceil(by));
            if periods < EVEN {
                return 0;
            }
            let (last, singles) = (older.sheets.time_in_front(sheet, line), older.singles(sheet));
            courses[number].from = Front { line, last, step, sheet, singles };
            self.find_range(extent.first, follow);
        }
        if in_order || are_first(courses, &self.core.older.sheets, None) { periods } else { 0 }
    }

    /// By how many lines each strand moves on in a period.
    fn by(&self) -> u64 {
        self.walk.firsts.by
    }

    /// Looks for what is above the lines of each course; `None` if that does not go evenly for so many periods.
    fn look(&self, courses: &mut [Course<W>], periods: u64, follows: &mut [Follow]) -> Option<()> {
        for number in 0..courses.len() {
            let mut above = std::mem::replace(&mut courses[number].above, Above::new());
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
        let (from, by) = (courses[number].from, self.by());
        // Another strand may be taking lines from a sheet.
        let taken = |sheet| (taken(&courses[..number], sheet), if taken(courses, sheet) > 0 { by } else { 0 });
        above.begin((&self.core.older, &self.core.lines), from, (periods, by), taken, &mut follows[number].cuts)?;
        for (range, lines) in self.ranges.iter().enumerate() {
            let grown = |follows: &[Follow]| follows.iter().filter(|other| other.range == range).count() as u64;
            // Of its own strand those behind it are counted with the sheet, wherever they are by now.
            let is_below = |course: &&Course<W>| course.from.sheet == from.sheet && course.from.line < from.line;
            let before = match follows[number].range == range {
                true => courses[..number].iter().filter(is_below).count() as u64,
                false => grown(&follows[..number]),
            };
            above.add(from.line, lines.start..lines.end + before, false, grown(follows) > 0);
        }
        Some(())
    }
}

/// How many lines of a sheet these take in each period.
fn taken<const W: usize>(courses: &[Course<W>], sheet: usize) -> u64 {
    courses.iter().filter(|course| course.from.sheet == sheet).count() as u64
}

/// Whether the lines of a period that these take are the first ones of their sheets; of one of them only those before the line that comes
/// next, which is so many behind its first.
fn are_first<const W: usize>(courses: &[Course<W>], sheets: &Sheets, next: Option<(usize, u64)>) -> bool {
    // By sheet, a bit for each line.
    let mut taken = SmallVec::<[(usize, u32); 4]>::new();
    for &Course { from, .. } in courses {
        let bit = 1 << (from.line - sheets.extents()[from.sheet].first);
        match taken.iter_mut().find(|(of, _)| *of == from.sheet) {
            Some((_, bits)) => *bits |= bit,
            None => taken.push((from.sheet, bit)),
        }
    }
    taken.into_iter().all(|(of, mut bits)| {
        if let Some((_, place)) = next.filter(|next| next.0 == of) {
            if bits >> place & 1 != 0 {
                return false;
            }
            bits &= (1 << place) - 1;
        }
        bits & (bits + 1) == 0
    })
}

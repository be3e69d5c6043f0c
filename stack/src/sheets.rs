//! Neighbouring lines of the older tier that came there one after the other, by the whole.
//!
//! A loop that walks over arrays leaves *sheets* behind: lines without a gap, of which each is more recent than the one before
//! it. How many lines of a sheet share a line's set follows from where the sheet begins and ends, so nothing is kept of single
//! lines, and a sheet that takes part in a distance takes a few additions for all set counts together.
//!
//! Invariant: a line of the older tier is in one sheet or in the timeline and `sets`, not in both. Times are of one clock, so
//! sheets and other lines have one order.

use crate::older::Time;
use std::ops::Range;

/// Sheets of one thread, at most: each takes part in every distance.
pub(crate) const MOST: usize = 64;

/// Lines that each strand of a loop moves on by in a period, at most, where the loop is to be walked over.
pub const MOST_LINES: usize = 16;

/// When neighbours come: so many in each period, always at the same times of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Time from one period to the next, and 2^62 by that, rounded up.
    step: Time,
    reciprocal: u64,
    /// Lines of a period, and how long after the first one each of them comes.
    lines: u32,
    later: [u8; MOST_LINES],
}

impl Pace {
    /// Within a step lines come so long after the first of them, which comes at once.
    pub(crate) fn new(step: Time, later: &[Time]) -> Self {
        debug_assert!(later.iter().all(|&later| (0..256).contains(&later)), "few strands");
        let mut all = [0; MOST_LINES];
        all.iter_mut().zip(later).for_each(|(all, &later)| *all = later as u8);
        Self { step, reciprocal: (1_u64 << 62).div_ceil(step as u64), lines: later.len() as u32, later: all }
    }

    /// One line in each step.
    pub(crate) fn even(step: Time) -> Self {
        Self::new(step, &[0])
    }

    /// When a line comes, after the first.
    #[inline(always)]
    pub(crate) fn time(&self, number: u32) -> Time {
        if self.lines == 1 {
            return number as Time * self.step;
        }
        (number / self.lines) as Time * self.step + Time::from(self.later[(number % self.lines) as usize])
    }

    /// How many lines come by then, the first included.
    #[inline(always)]
    fn until(&self, time: Time) -> u64 {
        // Exact: both are below 2^31.
        let steps = ((u128::from(time as u32) * u128::from(self.reciprocal)) >> 62) as u64;
        if self.lines == 1 {
            return steps + 1;
        }
        let left = time - steps as Time * self.step;
        let later = &self.later[..self.lines as usize];
        steps * u64::from(self.lines) + later.iter().filter(|&&later| Time::from(later) <= left).count() as u64
    }

    /// In which time so many lines come, if that is always the same.
    fn step_of(&self, lines: u64) -> Option<Time> {
        let own = u64::from(self.lines);
        lines.is_multiple_of(own).then(|| (lines / own) as Time * self.step)
    }
}

/// Lines of a sheet that came at one pace.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The first of them, and when it came.
    from: u64,
    time: Time,
    /// Lines of the timeline from this place on came later.
    place: u32,
    pace: Pace,
}

impl Piece {
    /// Both as one, if the next one, up to `end`, goes on at the same pace.
    fn go_on(&self, next: &Self, end: u64) -> Option<Self> {
        let mut both = *self;
        // Where one line makes a piece any step will do.
        if next.from == self.from + 1 && next.pace.lines == 1 {
            both.pace = Pace::even(next.time - self.time);
        }
        let is_one = end == next.from + 1;
        let begin = &next.pace.later[..if is_one { 1 } else { next.pace.lines as usize }];
        let goes_on =
            (next.from..).zip(begin).all(|(line, &later)| both.time_of(line) == next.time + Time::from(later));
        let same = is_one || (next.pace.step, next.pace.lines) == (both.pace.step, both.pace.lines);
        (goes_on && same && self.place == next.place).then_some(both)
    }

    #[inline(always)]
    fn time_of(&self, line: u64) -> Time {
        self.time + self.pace.time((line - self.from) as u32)
    }

    /// The first line that came later, were there no end; the first one came by then.
    #[inline(always)]
    fn after(&self, last: Time) -> u64 {
        self.from + self.pace.until(last - self.time)
    }
}

/// What most questions are answered from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    /// Behind the last.
    pub(crate) end: u64,
    pub(crate) oldest: Time,
    pub(crate) newest: Time,
}

/// See the module's page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheets {
    extents: Vec<Extent>,
    pieces: Vec<Pieces>,
    /// Memory of sheets that are gone.
    spare: Vec<Vec<Piece>>,
}

/// The pieces of a sheet, in order. The first may begin before it.
#[derive(Clone, Debug)]
struct Pieces {
    /// Those before `first` are gone.
    all: Vec<Piece>,
    first: usize,
}

impl Pieces {
    #[inline(always)]
    fn get(&self) -> &[Piece] {
        &self.all[self.first..]
    }

    /// The last one for which that holds, or the first; `hint` may say where about, and does afterwards.
    #[inline(always)]
    fn last(&self, hint: &mut u32, holds: impl Fn(&Piece) -> bool) -> usize {
        let at = (*hint as usize).clamp(self.first, self.all.len() - 1);
        // The first for which it does not hold is in there: mostly it is the next one, or near.
        let (mut from, mut end, mut step) = (at, at, 1);
        if holds(&self.all[at]) {
            loop {
                end = from + step;
                match self.all.get(end) {
                    Some(piece) if holds(piece) => (from, step) = (end, 2 * step),
                    other => break end = other.map_or(self.all.len(), |_| end),
                }
            }
        } else {
            while from > self.first && !holds(&self.all[from]) {
                (end, from, step) = (from, from.saturating_sub(step).max(self.first), 2 * step);
            }
        }
        let at = from + self.all[from..end].partition_point(holds).max(1) - 1;
        *hint = at as u32;
        at
    }

    /// The first one goes.
    #[inline(always)]
    fn pop(&mut self) {
        self.first += 1;
        if self.first == self.all.len().next_power_of_two() / 2 {
            self.all.drain(..std::mem::take(&mut self.first));
        }
    }
}

/// How many lines of a range share a line's set, for 2^1, 2^2, … sets, added to sums.
#[inline(always)]
pub(crate) fn add_congruent<const W: usize>(sums: &mut [u32; W], lines: &Range<u64>, line: u64) {
    // Of the numbers up to n those that are x modulo 2^a are floor((n - x) / 2^a) and a constant, and n - x may be taken
    // modulo any greater power of two.
    let before = lines.start.wrapping_sub(line + 1) as u32 & 0xff_ffff;
    let whole = before + (lines.end - lines.start) as u32;
    for (index, sum) in sums.iter_mut().enumerate() {
        *sum += (whole >> (index + 1)) - (before >> (index + 1));
    }
}

/// Distances by set, cut off at 255.
#[inline(always)]
pub(crate) fn cut_off<const W: usize>(sums: &[u32; W]) -> [u8; W] {
    std::array::from_fn(|index| sums[index].min(255) as u8)
}

impl Sheets {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.extents.len()
    }

    /// The sheet that a line is in.
    #[inline(always)]
    pub(crate) fn find(&self, line: u64) -> Option<usize> {
        self.extents.iter().position(|extent| (extent.first..extent.end).contains(&line))
    }

    /// The same, which is often the one that the line before was in: `near`, which it is from now on.
    #[inline(always)]
    pub(crate) fn find_near(&self, line: u64, near: &mut usize) -> Option<usize> {
        if !self.is_in(line, *near) {
            *near = self.find(line)?;
        }
        Some(*near)
    }

    /// Whether a sheet ends where a line begins.
    pub(crate) fn has_end(&self, line: u64) -> bool {
        self.extents.iter().any(|extent| extent.end == line)
    }

    /// Whether a line is in that sheet.
    #[inline(always)]
    fn is_in(&self, line: u64, sheet: usize) -> bool {
        self.extents.get(sheet).is_some_and(|extent| (extent.first..extent.end).contains(&line))
    }

    /// When a line came, and the place in the timeline from which on lines came later. `hint`: see [`Sheets::newer`].
    #[inline(always)]
    pub(crate) fn time(&self, sheet: usize, line: u64, hint: &mut u32) -> (Time, u32) {
        let pieces = &self.pieces[sheet];
        let piece = &pieces.all[pieces.last(hint, |piece| piece.from <= line)];
        (piece.time_of(line), piece.place)
    }

    /// How many lines came after `last`; those that share the line's set, for 2^1, 2^2, … sets, are added to sums. Who asks
    /// for one line after the other has hints, by sheet, of their own, 0 at first, or anything.
    #[inline(always)]
    pub(crate) fn newer<const W: usize>(&self, line: u64, last: Time, sums: &mut [u32; W], hints: &mut [u32]) -> u32 {
        let mut full = 0;
        for (sheet, extent) in self.extents.iter().enumerate() {
            if extent.newest <= last {
                continue;
            }
            let first = match hints.get_mut(sheet) {
                _ if extent.oldest > last => extent.first,
                Some(hint) => self.after(sheet, last, hint),
                None => self.after(sheet, last, &mut 0),
            };
            full += (extent.end - first) as u32;
            add_congruent(sums, &(first..extent.end), line);
        }
        full
    }

    /// The first line that came after `last`; there are some, and not all did.
    #[inline(always)]
    fn after(&self, sheet: usize, last: Time, hint: &mut u32) -> u64 {
        let pieces = &self.pieces[sheet];
        let at = pieces.last(hint, |piece| piece.time <= last);
        let end = pieces.all.get(at + 1).map_or(self.extents[sheet].end, |next| next.from);
        pieces.all[at].after(last).min(end)
    }

    /// All sheets.
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// From the first line of a sheet on: the time in which `by` come, and how many do at that; 0 if they do not evenly.
    pub(crate) fn even(&self, sheet: usize, by: u64) -> (Time, u64) {
        let (_, lines) = self.pace(sheet, self.extents[sheet].first, self.pieces[sheet].first);
        self.pieces[sheet].get()[0].pace.step_of(by).map_or((0, 0), |step| (step, lines))
    }

    /// How many lines come at a time in a piece, and how many there are from one of its lines on.
    pub(crate) fn pace(&self, sheet: usize, line: u64, piece: usize) -> (u64, u64) {
        let pieces = &self.pieces[sheet].all;
        let end = pieces.get(piece + 1).map_or(self.extents[sheet].end, |next| next.from);
        (pieces[piece].pace.lines.into(), end - line)
    }

    /// The time in which `by` lines of a piece come; 0 if that is not always the same.
    pub(crate) fn step(&self, sheet: usize, by: u64, piece: usize) -> Time {
        self.pieces[sheet].all[piece].pace.step_of(by).unwrap_or(0)
    }

    /// When a line near the front of a sheet came, one of those of which [`Sheets::even`] says how many there are.
    pub(crate) fn time_in_front(&self, sheet: usize, line: u64) -> Time {
        self.pieces[sheet].get()[0].time_of(line)
    }

    /// The first line that came after `last`, and which piece tells that, where `by` lines come in which time; there are some, and not
    /// all did.
    pub(crate) fn cut(&self, sheet: usize, last: Time, by: u64, hint: &mut u32) -> (u64, u32, Option<Time>) {
        let line = self.after(sheet, last, hint);
        (line, *hint, self.pieces[sheet].all[*hint as usize].pace.step_of(by))
    }

    /// The first lines of a sheet leave it, fewer than come evenly.
    pub(crate) fn remove_first(&mut self, sheet: usize, lines: u64) {
        let first = self.extents[sheet].first + lines;
        let oldest = self.time_in_front(sheet, first);
        let extent = &mut self.extents[sheet];
        (extent.first, extent.oldest) = (first, oldest);
    }

    /// A line leaves its sheet.
    #[inline(always)]
    pub(crate) fn remove(&mut self, sheet: usize, line: u64) {
        let extent = &mut self.extents[sheet];
        if line == extent.first && line + 1 < extent.end {
            let pieces = &mut self.pieces[sheet];
            extent.first += 1;
            if pieces.get().get(1).is_some_and(|second| second.from <= line + 1) {
                pieces.pop();
            }
            extent.oldest = pieces.all[pieces.first].time_of(line + 1);
        } else {
            self.remove_within(sheet, line);
        }
    }

    /// The same where it is not the first, or the only one.
    #[inline(never)]
    fn remove_within(&mut self, sheet: usize, line: u64) {
        let Extent { first, end, oldest, newest } = self.extents[sheet];
        if first + 1 == end {
            self.extents.swap_remove(sheet);
            let Pieces { mut all, .. } = self.pieces.swap_remove(sheet);
            all.clear();
            if self.spare.len() < MOST {
                self.spare.push(all);
            }
            return;
        }
        let left = self.time(sheet, line - 1, &mut 0).0;
        self.extents[sheet] = Extent { first, end: line, oldest, newest: left };
        let pieces = &mut self.pieces[sheet];
        if line + 1 < end {
            let mut all = self.spare.pop().unwrap_or_default();
            all.extend_from_slice(&pieces.all[pieces.last(&mut 0, |piece| piece.from <= line + 1)..]);
            self.extents.push(Extent { first: line + 1, end, oldest: all[0].time_of(line + 1), newest });
            self.pieces.push(Pieces { all, first: 0 });
        }
        let pieces = &mut self.pieces[sheet];
        pieces.all.truncate(pieces.last(&mut 0, |piece| piece.from < line) + 1);
    }

    /// Lines came one after the other, the first one at `time`: later than all others. They go on with a sheet that ends where they
    /// begin, or are one.
    pub(crate) fn add(&mut self, lines: Range<u64>, time: Time, pace: Pace, place: u32) {
        if lines.is_empty() {
            return;
        }
        let piece = Piece { from: lines.start, time, place, pace };
        let newest = piece.time_of(lines.end - 1);
        match self.extents.iter().position(|extent| extent.end == lines.start && extent.newest < time) {
            Some(sheet) => {
                let (extent, pieces) = (&mut self.extents[sheet], &mut self.pieces[sheet].all);
                (extent.end, extent.newest) = (lines.end, newest);
                match pieces.last_mut().map(|last| (last.go_on(&piece, lines.end), last)) {
                    Some((Some(both), last)) => *last = both,
                    _ => pieces.push(piece),
                }
            }
            None => {
                self.extents.push(Extent { first: lines.start, end: lines.end, oldest: time, newest });
                let mut all = self.spare.pop().unwrap_or_default();
                all.push(piece);
                self.pieces.push(Pieces { all, first: 0 });
            }
        }
    }

    /// The places of the timeline have changed.
    pub(crate) fn replace(&mut self, new: impl Fn(u32) -> u32) {
        let pieces = self.pieces.iter_mut().flat_map(|pieces| &mut pieces.all[pieces.first..]);
        pieces.for_each(|piece| piece.place = new(piece.place));
    }

    /// All lines, oldest first, with their times.
    pub(crate) fn oldest_first(&self) -> Vec<(Time, u64)> {
        let mut all = Vec::new();
        for (sheet, extent) in self.extents.iter().enumerate() {
            let mut hint = 0;
            all.extend((extent.first..extent.end).map(|line| (self.time(sheet, line, &mut hint).0, line)));
        }
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a sheet's lines are, one by one.
    fn brute(lines: &[(u64, Time)], line: u64, last: Time, bits: u32) -> u32 {
        let shares = |&&(other, time): &&(u64, Time)| time > last && (other ^ line).trailing_zeros() >= bits;
        lines.iter().filter(shares).count() as u32
    }

    /// When the lines of a period come, and the next one does.
    fn pace() -> impl Strategy<Value = Vec<Time>> {
        let apart =
            prop_oneof![3 => prop::collection::vec(1..4_i32, 1), 1 => prop::collection::vec(1..4_i32, 1..=MOST_LINES)];
        apart.prop_map(|apart| (0..=apart.len()).map(|lines| apart[..lines].iter().sum()).collect())
    }

    proptest! {
        #[test]
        fn sheets_are_their_lines(
            steps in prop::collection::vec((0_u64..400, 1_u64..60, pace(), 0..5_i32, 0_u8..4), 1..40),
            line in 0_u64..500,
        ) {
            let (mut sheets, mut plain, mut now) = (Sheets::new(), Vec::<(u64, Time)>::new(), 0);
            for (first, count, later, pause, what) in steps {
                let (&step, later) = later.split_last().unwrap();
                if what > 0 {
                    // Neighbours of what is there, in half of the cases.
                    let first = if what == 1 { first } else { plain.last().map_or(first, |&(line, _)| line + 1) };
                    for line in first..first + count {
                        if let Some(sheet) = sheets.find(line) {
                            sheets.remove(sheet, line);
                            plain.retain(|&(other, _)| other != line);
                        }
                    }
                    now += 1 + pause;
                    sheets.add(first..first + count, now, Pace::new(step, later), now as u32);
                    let times = (0..).flat_map(|period| later.iter().map(move |later| now + period * step + later));
                    plain.extend((first..first + count).zip(times));
                    now += step * count as Time;
                } else {
                    for line in (first..first + count).step_by(3) {
                        prop_assert_eq!(sheets.find(line).is_some(), plain.iter().any(|&(other, _)| other == line));
                        if let Some(sheet) = sheets.find(line) {
                            sheets.remove(sheet, line);
                            plain.retain(|&(other, _)| other != line);
                        }
                    }
                }
            }
            let mut sorted: Vec<_> = plain.iter().map(|&(line, time)| (time, line)).collect();
            sorted.sort_unstable();
            prop_assert_eq!(sheets.oldest_first(), sorted);
            let mut hints = vec![0; sheets.len()];
            for last in 0..now {
                let mut sums = [0; 16];
                prop_assert_eq!(sheets.newer(line, last, &mut sums, &mut hints), brute(&plain, line, last, 0));
                for (sum, bits) in sums.into_iter().zip(1..) {
                    prop_assert_eq!(sum, brute(&plain, line, last, bits));
                }
            }
        }
    }
}

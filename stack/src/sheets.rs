//! Neighbouring lines of the older tier that came there one after the other, by the whole.
//!
//! A loop that walks over arrays leaves *sheets* behind: lines without a gap, of which each is more recent than the one before
//! it. How many lines of a sheet share a line's set follows from where the sheet begins and ends, so nothing is kept of single
//! lines, and a sheet that takes part in a distance takes a few additions for all set counts together.
//!
//! Invariant: a line of the older tier is in one sheet or in the timeline and `sets`, not in both. Times are of one clock, so
//! sheets and other lines have one order.

use crate::boxed;
use crate::older::Time;
use std::ops::Range;

/// Sheets, at most.
pub(crate) const MOST: usize = 400;
/// For up to 2^16 sets lines are counted by set.
const COUNTED: usize = 16;
/// To look these up takes as long as to look at so many sheets.
const ALL: usize = 4;

/// Lines of a sheet that came at even intervals.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The first of them, and when it came.
    from: u64,
    time: Time,
    /// Time between one and the next, and 2^62 by that, rounded up.
    step: Time,
    reciprocal: u64,
    /// Lines of the timeline from this place on came later.
    place: u32,
}

impl Piece {
    fn new(from: u64, time: Time, step: Time, place: u32) -> Self {
        Self { from, time, step, reciprocal: (1_u64 << 62).div_ceil(step as u64), place }
    }

    /// Both as one, if the next one, up to `end`, goes on at the same intervals.
    fn go_on(&self, next: &Self, end: u64) -> Option<Self> {
        let lines = next.from - self.from;
        // Where one line makes a piece any step will do.
        let step = if lines == 1 { next.time - self.time } else { self.step };
        let even = i64::from(self.time) + lines as i64 * i64::from(step) == i64::from(next.time);
        let same = self.place == next.place && (end == next.from + 1 || next.step == step);
        (even && same).then(|| Self::new(self.from, self.time, step, self.place))
    }

    #[inline(always)]
    fn time_of(&self, line: u64) -> Time {
        self.time + (line - self.from) as Time * self.step
    }

    /// The first line that came later, were there no end; the first one came by then.
    #[inline(always)]
    fn after(&self, last: Time) -> u64 {
        // Exact: both are below 2^31.
        let steps = u128::from((last - self.time) as u32) * u128::from(self.reciprocal) >> 62;
        self.from + steps as u64 + 1
    }
}

/// Where a sheet begins and ends.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) lines: Range<u64>,
    pub(crate) oldest: Time,
    pub(crate) newest: Time,
}

/// See the module's page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheets {
    /// Of each sheet its first line, the one behind its last, and when they came.
    firsts: Vec<u64>,
    ends: Vec<u64>,
    oldest: Vec<Time>,
    newest: Vec<Time>,
    pieces: Vec<Pieces>,
    /// How many lines have been counted; and by set, all of a set count behind those of the next smaller one, from 2^1 on.
    counted: u32,
    by_set: Option<Box<[u32; 2 << COUNTED]>>,
}

/// From where to where something is asked about a line.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) line: u64,
    /// When it came.
    pub(crate) last: Time,
    /// Whether it is itself counted, and in no sheet now.
    pub(crate) is_counted: bool,
    /// Lines that are counted, and in no sheet now: all of them are above it.
    pub(crate) above: &'a [Range<u64>],
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

    /// The last one for which that holds, or the first; `hint` may say where, and does afterwards.
    #[inline(always)]
    fn last(&self, hint: &mut u32, holds: impl Fn(&Piece) -> bool) -> usize {
        let at = *hint as usize;
        let found = at >= self.first && self.all.get(at).is_some_and(&holds);
        if found && self.all.get(at + 1).is_none_or(|next| !holds(next)) {
            return at;
        }
        let at = self.first + self.get().partition_point(holds).saturating_sub(1);
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
        self.firsts.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// One of the sheets.
    #[inline(always)]
    pub(crate) fn get(&self, sheet: usize) -> Extent {
        let (oldest, newest) = (self.oldest[sheet], self.newest[sheet]);
        Extent { lines: self.firsts[sheet]..self.ends[sheet], oldest, newest }
    }

    /// The sheet that a line is in.
    #[inline(always)]
    pub(crate) fn find(&self, line: u64) -> Option<usize> {
        let all = self.firsts.iter().zip(&self.ends);
        all.enumerate().find(|&(_, (&first, &end))| first <= line && line < end).map(|(sheet, _)| sheet)
    }

    /// Whether a sheet ends where a line begins.
    pub(crate) fn has_end(&self, line: u64) -> bool {
        self.ends.contains(&line)
    }

    /// Whether a line is in that sheet.
    #[inline(always)]
    pub(crate) fn is_in(&self, line: u64, sheet: usize) -> bool {
        sheet < self.len() && (self.firsts[sheet]..self.ends[sheet]).contains(&line)
    }

    /// When a line came, and the place in the timeline from which on lines came later. `hint`: see [`Sheets::newer`].
    #[inline(always)]
    pub(crate) fn time(&self, sheet: usize, line: u64, hint: &mut u32) -> (Time, u32) {
        let pieces = &self.pieces[sheet];
        let piece = &pieces.all[pieces.last(hint, |piece| piece.from <= line)];
        (piece.time_of(line), piece.place)
    }

    /// A line is counted, which is done before it comes into a sheet.
    #[inline(always)]
    pub(crate) fn count(&mut self, line: u64) {
        self.counted += 1;
        let by_set = self.by_set.get_or_insert_with(|| boxed::array(0));
        places::<COUNTED>(line).into_iter().for_each(|place| by_set[place % (2 << COUNTED)] += 1);
    }

    /// It is not counted any more.
    #[inline(always)]
    pub(crate) fn discount(&mut self, line: u64) {
        self.counted -= 1;
        if let Some(by_set) = &mut self.by_set {
            places::<COUNTED>(line).into_iter().for_each(|place| by_set[place % (2 << COUNTED)] -= 1);
        }
    }

    /// How many lines are counted, and how many of them share the line's set, for 2^1, 2^2, … sets.
    #[inline(always)]
    pub(crate) fn all<const W: usize>(&self, line: u64) -> (u32, [u32; W]) {
        let by_set = self.by_set.as_deref();
        let at = |place: usize| by_set.map_or(0, |by_set| by_set[place % (2 << COUNTED)]);
        (self.counted, places::<W>(line).map(at))
    }

    /// Whether it takes fewer steps to look for what came by then than for what came later; and how many sheets that are.
    #[inline(always)]
    pub(crate) fn few<const W: usize>(&self, last: Time, above: usize) -> (bool, usize) {
        let newer: usize = self.newest.iter().map(|&newest| usize::from(newest > last)).sum::<usize>() + above;
        let older = self.oldest.iter().map(|&oldest| usize::from(oldest <= last)).sum::<usize>();
        (W <= COUNTED && older + ALL < newer, older.min(newer))
    }

    /// How many lines came after a line did, of all that are in sheets or above them; those that share its set, for 2^1, 2^2, …
    /// sets, are added to sums. Also how many sheets were looked at. Who asks for one line after the other has hints, by sheet,
    /// of their own, 0 at first, or anything.
    #[inline(always)]
    pub(crate) fn newer<const W: usize>(
        &self,
        asked: Asked<'_>,
        sums: &mut [u32; W],
        hints: &mut [u32],
    ) -> (u32, usize) {
        const FEW: usize = 16;
        let Asked { line, last, is_counted, above } = asked;
        let (from_all, steps) = self.few::<W>(last, above.len());
        let mut after = |sheet: usize| match hints.get_mut(sheet) {
            Some(hint) => self.after(sheet, last, hint),
            None => self.after(sheet, last, &mut 0),
        };
        if !from_all {
            let mut full = 0;
            for (begin, newest) in (0..).step_by(FEW).zip(self.newest.chunks(FEW)) {
                if newest.iter().fold(true, |none, &newest| none & (newest <= last)) {
                    continue;
                }
                for (sheet, _) in (begin..).zip(newest).filter(|&(_, &newest)| newest > last) {
                    let first = if self.oldest[sheet] > last { self.firsts[sheet] } else { after(sheet) };
                    full += (self.ends[sheet] - first) as u32;
                    add_congruent(sums, &(first..self.ends[sheet]), line);
                }
            }
            for range in above {
                full += (range.end - range.start) as u32;
                add_congruent(sums, range, line);
            }
            return (full, steps);
        }
        let (mut full, all) = self.all::<W>(line);
        let mut older = [u32::from(is_counted); W];
        full -= u32::from(is_counted);
        for (begin, oldest) in (0..).step_by(FEW).zip(self.oldest.chunks(FEW)) {
            if oldest.iter().fold(true, |none, &oldest| none & (oldest > last)) {
                continue;
            }
            for (sheet, _) in (begin..).zip(oldest).filter(|&(_, &oldest)| oldest <= last) {
                let end = if self.newest[sheet] <= last { self.ends[sheet] } else { after(sheet) };
                full -= (end - self.firsts[sheet]) as u32;
                add_congruent(&mut older, &(self.firsts[sheet]..end), line);
            }
        }
        for ((sum, all), older) in sums.iter_mut().zip(all).zip(older) {
            *sum += all - older;
        }
        (full, steps)
    }

    /// The first line that came after `last`; there are some, and not all did.
    #[inline(always)]
    fn after(&self, sheet: usize, last: Time, hint: &mut u32) -> u64 {
        let pieces = &self.pieces[sheet];
        let at = pieces.last(hint, |piece| piece.time <= last);
        let end = pieces.all.get(at + 1).map_or(self.ends[sheet], |next| next.from);
        pieces.all[at].after(last).min(end)
    }

    /// From the first line of a sheet on: time between one and the next, and how many come at that.
    pub(crate) fn even(&self, sheet: usize) -> (Time, u64) {
        let pieces = self.pieces[sheet].get();
        (pieces[0].step, pieces.get(1).map_or(self.ends[sheet], |next| next.from) - self.firsts[sheet])
    }

    /// The first line that came after `last`, and which piece tells that, at which step; there are some, and not all did.
    pub(crate) fn cut(&self, sheet: usize, last: Time, hint: &mut u32) -> (u64, u32, Time) {
        let line = self.after(sheet, last, hint);
        (line, *hint, self.pieces[sheet].all[*hint as usize].step)
    }

    /// The first lines of a sheet leave it, fewer than come evenly.
    pub(crate) fn remove_first(&mut self, sheet: usize, lines: u64) {
        let (step, _) = self.even(sheet);
        self.firsts[sheet] += lines;
        self.oldest[sheet] += lines as Time * step;
    }

    /// A line leaves its sheet.
    #[inline(always)]
    pub(crate) fn remove(&mut self, sheet: usize, line: u64) {
        if line == self.firsts[sheet] && line + 1 < self.ends[sheet] {
            let pieces = &mut self.pieces[sheet];
            self.firsts[sheet] += 1;
            if pieces.get().get(1).is_some_and(|second| second.from <= line + 1) {
                pieces.pop();
            }
            self.oldest[sheet] = pieces.all[pieces.first].time_of(line + 1);
        } else {
            self.remove_within(sheet, line);
        }
    }

    /// The same where it is not the first, or the only one.
    #[inline(never)]
    fn remove_within(&mut self, sheet: usize, line: u64) {
        let Extent { lines, newest, .. } = self.get(sheet);
        if lines.start + 1 == lines.end {
            self.firsts.swap_remove(sheet);
            self.ends.swap_remove(sheet);
            self.oldest.swap_remove(sheet);
            self.newest.swap_remove(sheet);
            self.pieces.swap_remove(sheet);
            return;
        }
        (self.ends[sheet], self.newest[sheet]) = (line, self.time(sheet, line - 1, &mut 0).0);
        let pieces = &mut self.pieces[sheet];
        if line + 1 < lines.end {
            let all = pieces.all[pieces.last(&mut 0, |piece| piece.from <= line + 1)..].to_vec();
            let oldest = all[0].time_of(line + 1);
            self.push(Extent { lines: line + 1..lines.end, oldest, newest }, all);
        }
        let pieces = &mut self.pieces[sheet];
        pieces.all.truncate(pieces.last(&mut 0, |piece| piece.from < line) + 1);
    }

    fn push(&mut self, Extent { lines, oldest, newest }: Extent, all: Vec<Piece>) {
        self.firsts.push(lines.start);
        self.ends.push(lines.end);
        self.oldest.push(oldest);
        self.newest.push(newest);
        self.pieces.push(Pieces { all, first: 0 });
    }

    /// Lines came one after the other, `step` apart, the first one at `time`: later than all others. They go on with a sheet
    /// that ends where they begin, or are one. They are counted.
    pub(crate) fn add(&mut self, lines: Range<u64>, time: Time, step: Time, place: u32) {
        if lines.is_empty() {
            return;
        }
        let piece = Piece::new(lines.start, time, step, place);
        let newest = piece.time_of(lines.end - 1);
        let goes_on = |&sheet: &usize| self.ends[sheet] == lines.start && self.newest[sheet] < time;
        match (0..self.len()).find(goes_on) {
            Some(sheet) => {
                (self.ends[sheet], self.newest[sheet]) = (lines.end, newest);
                let pieces = &mut self.pieces[sheet].all;
                match pieces.last_mut().map(|last| (last.go_on(&piece, lines.end), last)) {
                    Some((Some(both), last)) => *last = both,
                    _ => pieces.push(piece),
                }
            }
            None => self.push(Extent { lines, oldest: time, newest }, vec![piece]),
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
        for sheet in 0..self.len() {
            let mut hint = 0;
            all.extend(self.get(sheet).lines.map(|line| (self.time(sheet, line, &mut hint).0, line)));
        }
        all.sort_unstable();
        all
    }
}

/// Where a line's set is among all set counts from 2^1 on.
#[inline(always)]
fn places<const W: usize>(line: u64) -> [usize; W] {
    std::array::from_fn(|index| {
        let sets = 2 << index;
        sets | (line as usize & (sets - 1))
    })
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

    proptest! {
        #[test]
        fn sheets_are_their_lines(
            steps in prop::collection::vec((0_u64..400, 1_u64..60, 1..4_i32, 0..5_i32, 0_u8..4), 1..40),
            line in 0_u64..500,
        ) {
            let (mut sheets, mut plain, mut now) = (Sheets::new(), Vec::<(u64, Time)>::new(), 0);
            for (first, count, step, pause, what) in steps {
                if what > 0 {
                    // Neighbours of what is there, in half of the cases.
                    let first = if what == 1 { first } else { plain.last().map_or(first, |&(line, _)| line + 1) };
                    for line in first..first + count {
                        if let Some(sheet) = sheets.find(line) {
                            sheets.remove(sheet, line);
                            sheets.discount(line);
                            plain.retain(|&(other, _)| other != line);
                        }
                    }
                    now += 1 + pause;
                    (first..first + count).for_each(|line| sheets.count(line));
                    sheets.add(first..first + count, now, step, now as u32);
                    plain.extend((first..first + count).zip(0..).map(|(line, at)| (line, now + at * step)));
                    now += step * count as Time;
                } else {
                    for line in (first..first + count).step_by(3) {
                        prop_assert_eq!(sheets.find(line).is_some(), plain.iter().any(|&(other, _)| other == line));
                        if let Some(sheet) = sheets.find(line) {
                            sheets.remove(sheet, line);
                            sheets.discount(line);
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
                let asked = Asked { line, last, is_counted: false, above: &[] };
                let (mut sums, mut wide) = ([0; 16], [0; 24]);
                prop_assert_eq!(sheets.newer(asked, &mut sums, &mut hints).0, brute(&plain, line, last, 0));
                prop_assert_eq!(sheets.newer(asked, &mut wide, &mut []).0, brute(&plain, line, last, 0));
                for (bits, wide) in (1..).zip(wide) {
                    prop_assert_eq!(wide, brute(&plain, line, last, bits));
                    prop_assert_eq!(sums.get(bits as usize - 1).copied().unwrap_or(wide), wide);
                }
            }
        }
    }
}

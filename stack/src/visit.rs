//! What a batch asks the stacks of other threads, and what it is told.
//!
//! Lines that follow each other are asked for together, and told together as far as the same is true of them. Each line that is
//! asked for has a number, in order.

use crate::Bucket;
use crate::sharing::{Position, Sharing};
use crate::sink::Outcome;
use crate::walk::What;
use std::ops::Range;

/// Lines of a batch that other stacks may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Their numbers; none is empty.
    pub lines: Range<u64>,
    /// Whether the batch stores them.
    pub stored: bool,
}

impl Common {
    /// How many lines these are.
    pub(crate) fn count(all: &[Self]) -> u64 {
        all.iter().map(|common| common.lines.end - common.lines.start).sum()
    }
}

/// So many numbers are found by one place.
const EACH: usize = 8;

/// What a batch finds in the stacks of others.
#[derive(Clone, Debug)]
pub struct There {
    /// Of all numbers, in order.
    least: Vec<Stand>,
    /// Positions of lines that were taken away.
    pub(crate) taken: Vec<Position>,
}

/// Where lines are that follow each other.
#[derive(Clone, Debug)]
struct Stand {
    numbers: Range<u32>,
    /// The least position of the first, in no stack: `None`; each that follows is so much deeper with one set, modulo 2^32.
    position: Option<Position>,
    deeper: u32,
}

impl Stand {
    /// With one set, where the line of a number is, if the first one is at `position`.
    fn full(&self, position: &Position, number: u32) -> u32 {
        position.full.wrapping_add((number - self.numbers.start).wrapping_mul(self.deeper))
    }

    /// The same of some of its lines.
    fn part(&self, numbers: Range<u32>) -> Self {
        let position = self.position.map(|position| Position { full: self.full(&position, numbers.start), ..position });
        Self { numbers, position, deeper: self.deeper }
    }

    /// The lesser of both, which are of the same numbers; `None`: not the same one everywhere.
    fn min(&self, other: &Self) -> Option<Self> {
        let (Some(mine), Some(others)) = (&self.position, &other.position) else {
            return Some(if self.position.is_some() { self } else { other }.clone());
        };
        let last = self.numbers.end - 1;
        let [first, last] = [self.numbers.start, last].map(|at| self.full(mine, at) <= other.full(others, at));
        let least = if first { self } else { other };
        let position = Some(mine.min(others));
        (first == last).then(|| Self { position, ..least.clone() })
    }
}

impl There {
    /// Of such lines, in no stack.
    #[must_use]
    pub fn none(lines: &[Common]) -> Self {
        let mut none = Self { least: Vec::new(), taken: Vec::new() };
        none.push(Common::count(lines) as u32, None, 0);
        none
    }

    pub(crate) const fn new() -> Self {
        Self { least: Vec::new(), taken: Vec::new() }
    }

    /// So many lines more: see [`Stand`].
    pub(crate) fn push(&mut self, lines: u32, position: Option<Position>, deeper: u32) {
        let from = self.least.last().map_or(0, |last| last.numbers.end);
        match self.least.last_mut() {
            _ if lines == 0 => {}
            Some(last) if last.position.is_none() && position.is_none() => last.numbers.end += lines,
            _ => self.least.push(Stand { numbers: from..from + lines, position, deeper }),
        }
    }

    /// In this stack, too.
    pub fn add(&mut self, more: Self) {
        self.taken.extend(more.taken);
        let (mine, others) = (std::mem::take(&mut self.least), more.least);
        let (mut mine, mut others) = (mine.iter().peekable(), others.iter().peekable());
        while let (Some(one), Some(other)) = (mine.peek(), others.peek()) {
            let from = self.least.last().map_or(0, |last| last.numbers.end);
            let end = one.numbers.end.min(other.numbers.end);
            let mut put = |numbers: Range<u32>| {
                let least = one.part(numbers.clone()).min(&other.part(numbers));
                least.map(|Stand { numbers, position, deeper }| self.push(numbers.len() as u32, position, deeper))
            };
            if put(from..end).is_none() {
                (from..end).for_each(|number| put(number..number + 1).unwrap_or_default());
            }
            mine.next_if(|one| one.numbers.end == end);
            others.next_if(|other| other.numbers.end == end);
        }
    }

    /// Of each [`EACH`]th number, where in `least` it is.
    fn places(&self) -> Vec<u32> {
        let mut places = Vec::new();
        for (stand, at) in self.least.iter().zip(0..) {
            places.resize((stand.numbers.end as usize).div_ceil(EACH), at);
        }
        places
    }

    /// Where the line of a number is, and others behind it.
    fn stand(&self, number: u32, places: &[u32]) -> Option<&Stand> {
        let from = *places.get(number as usize / EACH)? as usize;
        self.least[from..].iter().find(|stand| number < stand.numbers.end)
    }

    /// By line, in order: the least position. For tests.
    #[doc(hidden)]
    pub fn positions(&self) -> impl Iterator<Item = Option<Position>> + '_ {
        self.least.iter().flat_map(|stand| stand.numbers.clone().map(|at| stand.part(at..at + 1).position))
    }
}

/// What becomes of a batch in its own stack, as far as that matters for what it finds in others.
#[derive(Clone, Debug, Default)]
pub struct Visit {
    /// Lines in order, and the number of the first.
    lines: Vec<(Range<u64>, u32)>,
    /// By number: whether others may still hold it.
    held: Vec<bool>,
    own: Vec<Own>,
    /// Which of those may come again next; and where others may be, by [`Own::place`].
    next: usize,
    places: Vec<u32>,
}

/// So many places.
const PLACES: usize = 256;

/// What became of references to lines that others may hold, each so many lines behind the one before.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// The number of the first.
    first: u32,
    step: u32,
    lines: u32,
    /// Of each.
    times: u64,
    /// Where it was; `None`: it was not here.
    distance: Option<Position>,
}

impl Own {
    /// Whether it is the same but for how often.
    fn is_same(&self, other: &Self) -> bool {
        (self.first, self.step, self.lines) == (other.first, other.step, other.lines) && self.distance == other.distance
    }

    fn place(&self) -> usize {
        let full = self.distance.map_or(0, |distance| distance.full);
        (self.first ^ full.wrapping_mul(0x9e37_79b1) >> 16) as usize % PLACES
    }
}

impl Visit {
    /// The same memory, for a batch that references these lines.
    pub(crate) fn begun(mut self, lines: &[Common]) -> Self {
        debug_assert!(lines.is_sorted_by_key(|common| common.lines.start), "in order");
        self.lines.clear();
        let mut count = 0;
        for Common { lines, .. } in lines {
            let more = (lines.end - lines.start) as u32;
            match self.lines.last_mut() {
                Some((last, _)) if last.end == lines.start => last.end = lines.end,
                _ => self.lines.push((lines.clone(), count)),
            }
            count += more;
        }
        self.held.clear();
        self.held.resize(count as usize, true);
        self.own.clear();
        self.next = 0;
        self.places.resize(PLACES, 0);
        self
    }

    /// The number of a line that others may hold, and do no more if it is `stored`.
    pub(crate) fn common(&mut self, line: u64, stored: bool) -> Option<u32> {
        let (lines, first) = self.lines.get(self.place(line))?;
        let number = first + line.checked_sub(lines.start)? as u32;
        let held = &mut self.held[number as usize];
        let asked = *held;
        *held &= !stored;
        asked.then_some(number)
    }

    /// Whether others may hold some of these lines.
    pub(crate) fn is_asked(&self, strands: &[Range<u64>]) -> bool {
        let is_in = |strand: &Range<u64>| {
            self.lines.get(self.place(strand.start)).is_some_and(|(lines, _)| lines.start < strand.end)
        };
        strands.iter().any(is_in)
    }

    /// The first of its ranges that ends behind a line.
    fn place(&self, line: u64) -> usize {
        self.lines.partition_point(|(lines, _)| lines.end <= line)
    }

    /// A loop walked over so many lines, each `by` lines behind the one before: their first references found them so far down, if
    /// they were here, and what follows is the same for all. `near` is where the last ones were found.
    #[inline(always)]
    pub(crate) fn walked(
        &mut self,
        (line, lines, by): (u64, u32, u64),
        what: &What,
        here: Option<Position>,
        near: &mut usize,
    ) {
        let (mut line, end, stored) = (line, line + u64::from(lines) * by, what.stores());
        while line < end {
            let ends_behind = |at: usize| self.lines.get(at).is_none_or(|(lines, _)| lines.end > line);
            if !ends_behind(*near) || *near > 0 && ends_behind(*near - 1) {
                *near = self.place(line);
            }
            let Some((lines, first)) = self.lines.get(*near) else { return };
            if lines.start > line {
                line += (lines.start - line).next_multiple_of(by);
                continue;
            }
            let numbers = first + (line - lines.start) as u32..first + (lines.end.min(end) - lines.start) as u32;
            line += u64::from(numbers.end - numbers.start).next_multiple_of(by);
            let mut numbers = numbers.step_by(by as usize).peekable();
            while let Some(first) = numbers.next() {
                let asked = self.held[first as usize];
                self.held[first as usize] &= !stored;
                let mut lines = 1;
                while let Some(number) = numbers.next_if(|&number| self.held[number as usize] == asked) {
                    self.held[number as usize] &= !stored;
                    lines += 1;
                }
                if asked {
                    let own = Own { first, step: by as u32, lines, times: 1, distance: here };
                    self.add(own);
                    what.runs.iter().for_each(|&(times, distance)| {
                        self.add(Own { times: times.into(), distance: Some(distance), ..own })
                    });
                }
            }
        }
    }

    fn add(&mut self, own: Own) {
        // Nothing is above what is on top.
        if own.distance.is_some_and(|distance| distance.full == 0) {
            return;
        }
        // Loops that come again find the same.
        let is_same = |at: usize| self.own.get(at).is_some_and(|known| known.is_same(&own));
        let place = own.place();
        if !is_same(self.next) {
            self.next = self.places[place] as usize;
            if !is_same(self.next) {
                self.next = self.own.len();
                self.own.push(Own { times: 0, ..own });
            }
        }
        self.places[place] = self.next as u32;
        self.own[self.next].times += own.times;
        self.next += 1;
    }

    /// What became of references to the line of that number.
    pub(crate) fn became(&mut self, outcome: &Outcome) {
        let own = !outcome.cold && !outcome.lost;
        let distance = own.then_some(Position { full: outcome.full, by_set: outcome.by_set });
        self.add(Own { first: outcome.site, step: 1, lines: 1, times: outcome.times.into(), distance });
    }

    /// Counts what others could have served.
    pub(crate) fn count<const W: usize>(&self, there: &There, bucket: Bucket, sharing: &mut Sharing<W>) {
        let places = there.places();
        for own in &self.own {
            let mut done = 0;
            while done < own.lines {
                let number = own.first + done * own.step;
                let Some(stand) = there.stand(number, &places) else { break };
                let lines = (stand.numbers.end - number).div_ceil(own.step).min(own.lines - done);
                done += lines;
                let Some(position) = &stand.position else { continue };
                let at = Position { full: stand.full(position, number), ..*position };
                let deeper = stand.deeper.wrapping_mul(own.step);
                sharing.count_remote(bucket, (&at, deeper, lines), own.distance.as_ref(), own.times);
            }
        }
    }
}

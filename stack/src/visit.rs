//! What a batch asks the stacks of other threads, and what it is told.
//!
//! Lines that follow each other are asked for together, and told together as far as the same is true of them. Each line that is
//! asked for has a number, in order.

use crate::Bucket;
use crate::sharing::{Position, Sharing};
use crate::sheets::MOST_LINES;
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
    /// Who may hold them.
    pub holders: Holders,
}

/// Slots that may hold lines, by the lowest bits of their numbers: these, and perhaps others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders(u64);

impl Holders {
    /// Any slot.
    pub const ALL: Self = Self(u64::MAX);

    /// One slot.
    #[must_use]
    pub fn only(slot: u32) -> Self {
        Self(1 << (slot % u64::BITS))
    }

    /// And one more.
    #[must_use]
    pub fn and(self, slot: u32) -> Self {
        Self(self.0 | Self::only(slot).0)
    }

    /// These, too.
    pub fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn has(self, slot: u32) -> bool {
        self.0 & Self::only(slot).0 != 0
    }
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
#[derive(Clone, Debug, Default)]
pub struct There {
    /// Of all numbers, in order.
    stands: Vec<Stand>,
    places: Vec<Option<Place>>,
    /// Positions of lines that were taken away.
    pub(crate) taken: Vec<Position>,
}

/// Lines that follow each other and whose positions go evenly: `by` of them, and the next ones as those.
#[derive(Clone, Debug)]
struct Stand {
    numbers: Range<u32>,
    by: u32,
    /// Where the places of the first ones begin.
    first: usize,
}

/// The least position of a line. The one that comes `by` lines later has the same but for one set, where it is so much deeper, modulo
/// 2^32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: Position,
    pub(crate) deeper: u32,
}

impl Place {
    /// So many times `by` lines later.
    pub(crate) fn later(self, times: u32) -> Self {
        let full = self.position.full.wrapping_add(times.wrapping_mul(self.deeper));
        Self { position: Position { full, ..self.position }, ..self }
    }

    /// The lesser of both, which go on so many times; `None`: not the same one everywhere.
    fn min(self, other: Self, times: u32) -> Option<Self> {
        let [first, last] = [0, times].map(|times| self.later(times).position.full <= other.later(times).position.full);
        let deeper = if first { self.deeper } else { other.deeper };
        (first == last).then(|| Self { position: self.position.min(&other.position), deeper })
    }
}

impl Stand {
    /// Whether the place of each line is given.
    fn is_each(&self) -> bool {
        self.numbers.len() == self.by as usize
    }
}

impl There {
    /// Of such lines, in no stack.
    #[must_use]
    pub fn none(lines: &[Common]) -> Self {
        let mut none = Self::default();
        none.push(Common::count(lines) as u32, &[None]);
        none
    }

    /// So many lines more; places of the first ones, and those that follow go on like that.
    pub(crate) fn push(&mut self, lines: u32, places: &[Option<Place>]) {
        let from = self.stands.last().map_or(0, |last| last.numbers.end);
        let by = places.len() as u32;
        match (&self.places[..], places, self.stands.last_mut()) {
            _ if lines == 0 => {}
            ([.., None], [None], Some(last @ Stand { by: 1, .. })) => last.numbers.end += lines,
            (.., Some(last)) if lines == by && last.is_each() => {
                self.places.extend(places);
                last.numbers.end += lines;
                last.by += lines;
            }
            _ => {
                let first = self.places.len();
                self.places.extend(places);
                self.stands.push(Stand { numbers: from..from + lines, by, first });
            }
        }
    }

    /// The place of the line of a number.
    fn place(&self, stand: &Stand, number: u32) -> Option<Place> {
        let behind = number - stand.numbers.start;
        let place = self.places[stand.first + (behind % stand.by) as usize]?;
        Some(if behind < stand.by { place } else { place.later(behind / stand.by) })
    }

    /// In this stack, too. `spare` has memory to work in.
    pub fn add(&mut self, more: &mut Self, spare: &mut Self) {
        self.taken.append(&mut more.taken);
        if more.places.iter().all(Option::is_none) {
            return;
        } else if matches!(self.places[..], [None]) {
            self.stands.clone_from(&more.stands);
            self.places.clone_from(&more.places);
            return;
        }
        let least = spare;
        least.clear();
        let (mut mine, mut others) = (self.stands.iter().peekable(), more.stands.iter().peekable());
        while let (Some(one), Some(other)) = (mine.peek(), others.peek()) {
            let from = least.stands.last().map_or(0, |last| last.numbers.end);
            let (end, by) = (one.numbers.end.min(other.numbers.end), one.by.max(other.by));
            let place = |there: &Self, stand: &Stand, number| {
                let place = there.place(stand, number)?;
                Some(Place { deeper: place.deeper.wrapping_mul(by / stand.by), ..place })
            };
            let of = |number, times| match (place(self, one, number), place(more, other, number)) {
                (Some(mine), Some(others)) => mine.min(others, times).map(Some),
                (mine, others) => Some(mine.or(others)),
            };
            let mut firsts = [None; MOST_LINES];
            let mut begin = firsts.iter_mut().zip(from..end.min(from + by));
            let even = !one.is_each() && !other.is_each() && by.is_multiple_of(one.by) && by.is_multiple_of(other.by);
            let is_told = |(place, number): (&mut Option<Place>, u32)| {
                *place = of(number, (end - 1 - number) / by)?;
                Some(())
            };
            if even && begin.try_for_each(is_told).is_some() {
                least.push(end - from, &firsts[..by.min(end - from) as usize]);
            } else {
                (from..end).for_each(|number| least.push(1, &[of(number, 0).flatten()]));
            }
            mine.next_if(|one| one.numbers.end == end);
            others.next_if(|other| other.numbers.end == end);
        }
        std::mem::swap(&mut self.stands, &mut least.stands);
        std::mem::swap(&mut self.places, &mut least.places);
    }

    /// Of nothing, with the same memory.
    pub(crate) fn clear(&mut self) {
        self.stands.clear();
        self.places.clear();
        self.taken.clear();
    }

    /// Of each [`EACH`]th number, which stand it is in.
    fn index(&self) -> Vec<u32> {
        let mut index =
            Vec::with_capacity(self.stands.last().map_or(0, |last| (last.numbers.end as usize).div_ceil(EACH)));
        for (stand, at) in self.stands.iter().zip(0..) {
            index.resize((stand.numbers.end as usize).div_ceil(EACH), at);
        }
        index
    }

    /// The stand that a number is in.
    fn stand(&self, number: u32, index: &[u32]) -> Option<&Stand> {
        let from = *index.get(number as usize / EACH)? as usize;
        self.stands[from..].iter().find(|stand| number < stand.numbers.end)
    }

    /// By line, in order: the least position. For tests.
    #[doc(hidden)]
    pub fn positions(&self) -> impl Iterator<Item = Option<Position>> + '_ {
        let of = |stand: &Stand, number| self.place(stand, number).map(|place| place.position);
        self.stands.iter().flat_map(move |stand| stand.numbers.clone().map(move |number| of(stand, number)))
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

    /// Nothing is above what is on top.
    fn is_on_top(&self) -> bool {
        self.distance.is_some_and(|distance| distance.full == 0)
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

    /// Loops that come again find the same.
    fn add(&mut self, own: Own) {
        if own.is_on_top() {
            return;
        }
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
        let is_here = !outcome.cold && !outcome.lost;
        let distance = is_here.then_some(Position { full: outcome.full, by_set: outcome.by_set });
        let own = Own { first: outcome.site, step: 1, lines: 1, times: outcome.times.into(), distance };
        if !own.is_on_top() {
            self.own.push(own);
        }
    }

    /// Counts what others could have served.
    pub(crate) fn count<const W: usize>(&self, there: &There, bucket: Bucket, sharing: &mut Sharing<W>) {
        let index = there.index();
        for own in &self.own {
            let mut done = 0;
            while done < own.lines {
                let number = own.first + done * own.step;
                let Some(stand) = there.stand(number, &index) else { break };
                let lines = (stand.numbers.end - number).div_ceil(own.step).min(own.lines - done);
                done += lines;
                // Every so many of them go on from each other.
                let every = if lines == 1 { 1 } else { stand.by / gcd(stand.by, own.step) };
                for at in 0..every.min(lines) {
                    if let Some(Place { position, deeper }) = there.place(stand, number + at * own.step) {
                        let (lines, deeper) = match (lines - at).div_ceil(every) {
                            1 => (1, 0),
                            lines => (lines, deeper.wrapping_mul(every * own.step / stand.by)),
                        };
                        sharing.count_remote(bucket, (&position, deeper, lines), own.distance.as_ref(), own.times);
                    }
                }
            }
        }
    }
}

/// The greatest common divisor.
fn gcd(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use proptest::prelude::*;

    /// Places of so many lines, `by` of which are given.
    fn there(lines: u32) -> impl Strategy<Value = There> {
        let place = (1000..1100_u32, -9..9_i32, prop::collection::vec(0..9_u8, 3)).prop_map(|(full, deeper, some)| {
            let mut by_set = [0; Limits::MOST_SET_BITS as usize];
            by_set[..3].copy_from_slice(&some);
            Place { position: Position { full, by_set }, deeper: deeper as u32 }
        });
        let stand = (1..30_u32, prop::collection::vec(prop::option::weighted(0.9, place), 1..=4));
        prop::collection::vec(stand, 1..12).prop_map(move |stands| {
            let (mut there, mut left) = (There::default(), lines);
            for (len, places) in stands {
                let len = len.min(left);
                left -= len;
                there.push(len, &places);
            }
            there.push(left, &[None]);
            there
        })
    }

    proptest! {
        /// The least position of each line is that of its least ones.
        #[test]
        fn places_together_are_those_of_each_line(stacks in prop::collection::vec(there(80), 1..4)) {
            let mut all = There::none(&[Common { lines: 0..80, stored: false, holders: Holders::ALL }]);
            stacks.iter().for_each(|there| all.add(&mut there.clone(), &mut There::default()));
            let stacks: Vec<Vec<_>> = stacks.iter().map(|there| there.positions().collect()).collect();
            let least = |line: usize| stacks.iter().filter_map(|there| there[line]).reduce(|least, other| least.min(&other));
            prop_assert_eq!(all.positions().collect::<Vec<_>>(), (0..80).map(least).collect::<Vec<_>>());
        }

        /// Lines that are counted together count as each by itself.
        #[test]
        fn lines_together_count_as_each(
            there in there(80),
            own in prop::collection::vec((0..80_u32, 1..=4_u32, 1..40_u32, 1..9_u64, prop::option::of((950..1150_u32, 0..9_u8))), 1..9),
        ) {
            let mut sharing: [Sharing<16>; 2] = std::array::from_fn(|_| Sharing::new(0, Limits { max_set_bits: 3, max_ways: 6 }));
            let positions: Vec<_> = there.positions().collect();
            let mut visit = Visit::default().begun(&[Common { lines: 0..80, stored: false, holders: Holders::ALL }]);
            for (first, step, lines, times, distance) in own {
                let lines = lines.min((80 - first).div_ceil(step));
                let distance = distance.map(|(full, depth)| Position { full, by_set: [depth; Limits::MOST_SET_BITS as usize] });
                visit.add(Own { first, step, lines, times, distance });
                for position in (0..lines).filter_map(|line| positions[(first + line * step) as usize].as_ref()) {
                    sharing[1].count_remote(Bucket::FIRST, (position, 0, 1), distance.as_ref(), times);
                }
            }
            visit.count(&there, Bucket::FIRST, &mut sharing[0]);
            prop_assert_eq!(sharing[0].counts(), sharing[1].counts());
        }
    }
}

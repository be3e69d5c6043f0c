//! Lines that a loop comes back to in each iteration while its strands move on: its *pins*, such as the one of a sum that is kept
//! in memory.
//!
//! The lines of a strand move on against a pin, so which of them share a set with it differs from line to line: half of them do
//! where there are two sets, a quarter where there are four. So what happens to a line besides is found out once, and what pins
//! add to it when it is known where they are: for all lines together that agree with a pin in as many bits.
//!
//! Invariant: between two runs of a line of a strand all pins come, or none, at whatever period; and each pin is above all lines that
//! come after its own first reference, because it comes in each iteration.

use crate::by_line::Mix;
use crate::digest::{Again, Greatest, Segment};
use crate::digester::{Read, Segments};
use crate::item::Charge;
use crate::repeats::{Combination, Kind};
use crate::runs::{DIRTY, Run, STORE, charge, first, kind};
use crate::sharing::Position;
use crate::simd::Vector;
use crate::template::{Count, Within};
use crate::walk::{First, Loop, Moves, Periodic, Spot, Walk, What, ordered};
use crate::{Bucket, Chunk, Item, Limits, Reference};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

/// Lines of strands between two references to a pin, at most.
const BETWEEN: usize = 8;
/// Lines are learned with one bit more, by which pins share no set with lines of strands.
const WIDE: usize = Limits::MOST_SET_BITS as usize;

/// What follows the first reference to a line of a strand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Life<const W: usize> {
    flags: u32,
    runs: Vec<Next<W>>,
}

/// One more run: its distances, by set without the pins, and whether those are between.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Next<const W: usize> {
    weight: u32,
    flags: u32,
    full: u32,
    by_set: [u8; W],
    behind_pins: bool,
}

/// One more run of a pin: its distances, by set without the lines of strands that are between, and those.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn<const W: usize> {
    pin: usize,
    run: Next<W>,
    between: [Spot; BETWEEN],
    count: usize,
}

impl<const W: usize> Moves for Turn<W> {
    fn moved(mut self, lines: u64) -> Self {
        self.between[..self.count].iter_mut().for_each(|spot| *spot = spot.moved(lines));
        self
    }
}

/// What there is to know of a loop with pins.
#[derive(Clone, Debug)]
pub(crate) struct Pins<const W: usize> {
    /// By number of a first reference, unless it is one of a pin.
    lives: Vec<Life<W>>,
    turns: Periodic<Turn<W>>,
    pins: usize,
}

/// How many lines share a set with one, by set: a byte for each of 2^1, 2^2, … sets.
type Shared = u128;
const BITS: u32 = size_of::<Shared>() as u32;

/// What there is to know where its pins are.
#[derive(Clone, Debug)]
pub(crate) struct Classes<const W: usize> {
    pins: Vec<u64>,
    /// By life, and how many pins share a set with the line, in two halves.
    whats: HashMap<(u32, [u64; 2]), u32, BuildHasherDefault<Mix>>,
    /// By life: whether the first references to lines say as much of them as all others.
    alike: Vec<bool>,
    /// What is counted within the loop, references left out.
    pub(crate) within: Within<W>,
}

/// Takes note of all runs of a loop.
struct Watching<'a, const W: usize> {
    strands: &'a [Range<u64>],
    pins: &'a [Range<u64>],
    within: Within<W>,
    firsts: Vec<Run>,
    /// Of lines of strands, by place.
    runs: Vec<Vec<Next<W>>>,
    turns: Vec<Turn<W>>,
    /// By pin: lines of strands since it was referenced last.
    since: Vec<Vec<usize>>,
    /// All is as it has to be.
    fits: bool,
}

impl<const W: usize> Watching<'_, W> {
    /// The line that stands for another one to learn from; the last bit tells pins from others.
    fn learned(&self, line: u64) -> u64 {
        2 * line + u64::from(self.pins.iter().any(|pin| pin.start == line))
    }

    fn pin(&self, line: u64) -> Option<usize> {
        (line % 2 == 1).then(|| self.pins.iter().position(|pin| pin.start == line / 2))?
    }

    fn spot(&self, line: u64) -> Option<Spot> {
        let strand = self.strands.iter().position(|strand| strand.contains(&(line / 2)))?;
        let is_pin = line % 2 == 1;
        Some(Spot { strand: strand as u32, offset: line / 2 - self.strands[strand].start, is_pin })
    }

    fn note(&mut self, place: usize, line: u64) {
        match self.pin(line) {
            Some(pin) => self.since[pin].clear(),
            None => self.since.iter_mut().filter(|since| !since.contains(&place)).for_each(|since| since.push(place)),
        }
    }
}

impl<const W: usize> Count<WIDE> for Watching<'_, W> {
    fn references(&mut self, item: Item, store: bool, weight: u64) {
        self.within.references(item, store, weight);
    }

    fn first(&mut self, run: Run) {
        self.within.leave_out(first(run.flags), run.flags & STORE != 0);
        self.note(self.firsts.len(), run.line);
        self.firsts.push(run);
        self.runs.push(Vec::new());
    }

    fn distances(&mut self, _what: (Kind, Item), _full: u32, _by_set: &[u8; WIDE], _weight: u64) {}

    fn again(&mut self, place: usize, run: Run, full: u32, by_set: &[u8; WIDE]) {
        // With two sets, pins are in the one and all others in the other.
        let others = full - u32::from(by_set[0]);
        let Run { weight, flags, .. } = run;
        let next =
            Next { weight, flags, full, by_set: by_set[1..=W].try_into().unwrap_or([0; W]), behind_pins: others > 0 };
        self.fits &= full < u8::MAX.into();
        match self.pin(run.line) {
            Some(pin) => {
                let mut turn = Turn { pin, run: next, between: Default::default(), count: self.since[pin].len() };
                self.fits &= turn.count <= BETWEEN && turn.count == others as usize;
                for (to, &place) in turn.between.iter_mut().zip(&self.since[pin]) {
                    let spot = self.spot(self.firsts[place].line);
                    self.fits &= spot.is_some();
                    *to = spot.unwrap_or_default();
                }
                self.turns.push(turn);
            }
            None => {
                self.fits &= others == 0 || others as usize == self.pins.len();
                self.runs[place].push(next);
            }
        }
        self.note(place, run.line);
    }

    fn spread<V: Vector>(&mut self) {}
}

/// What a loop of few periods tells whose last strands, so many, are pins.
fn read<V: Vector, const W: usize>(
    strands: &[Range<u64>],
    pins: usize,
    chunk: Chunk<'_>,
    bucket: Bucket,
    lives: &mut Vec<Life<W>>,
) -> Option<(Loop<W>, Vec<Turn<W>>)> {
    let mut watching = Watching {
        strands,
        pins: &strands[strands.len() - pins..],
        within: Within::default(),
        firsts: Vec::new(),
        runs: Vec::new(),
        turns: Vec::new(),
        since: vec![Vec::new(); pins],
        fits: true,
    };
    let learned = |of: &Reference| Reference::new(watching.learned(of.line()), of.is_store());
    let references: Vec<_> = chunk.references.iter().map(learned).collect();
    let (mut segments, chunk) = (Segments::new(), Chunk { references: &references, ..chunk });
    let digest = V::run(Read { segments: &mut segments, chunk, bucket, counts: &mut watching });
    let mut all = digest.segments();
    let (Some(segment), None, true) = (all.next(), all.next(), watching.fits) else { return None };
    let Segment { lines, order, .. } = segment;
    let (mut firsts, mut spots) = (Vec::new(), Vec::new());
    for (run, runs) in lines.iter().zip(std::mem::take(&mut watching.runs)) {
        let spot = watching.spot(run.line)?;
        let life = Life { flags: run.flags, runs };
        let number = lives.iter().position(|other| *other == life).unwrap_or(lives.len());
        if number == lives.len() {
            lives.push(life);
        }
        firsts.push(First { spot, what: number as u32 });
        spots.push(spot);
    }
    Some((Loop { firsts, order: ordered(&spots, order), within: watching.within }, watching.turns))
}

impl<const W: usize> Pins<W> {
    /// Of two loops, of which the second one has one period more, and those loops.
    pub(crate) fn new<V: Vector>(
        strands: &[Range<u64>],
        pins: usize,
        loops: [Chunk<'_>; 2],
        bucket: Bucket,
    ) -> Option<(Self, [Loop<W>; 2])> {
        if W > BITS as usize {
            return None;
        }
        let mut lives = Vec::new();
        let [shorter, longer] = loops.map(|chunk| read::<V, W>(strands, pins, chunk, bucket, &mut lives));
        let ((shorter, turns), (longer, more_turns)) = (shorter?, longer?);
        let by = Loop::by([&shorter, &longer], strands.len() - pins)?;
        let turns = Periodic::of(&turns, &more_turns, by, |_| true)?;
        Some((Self { lives, turns, pins }, [shorter, longer]))
    }
}

/// What happens to a line after its first reference, and what is counted of it.
struct Following<const W: usize> {
    bucket: Bucket,
    flags: u32,
    again: bool,
    stored: Charge,
    greatest: Position,
    closes: u32,
    before: Option<Greatest>,
    runs: Vec<(u32, Position)>,
    counted: Vec<Combination<W>>,
}

impl<const W: usize> Following<W> {
    fn new(flags: u32, bucket: Bucket) -> Self {
        let (closes, before, again, stored) = (0, None, false, charge(flags, bucket));
        let (greatest, runs, counted) = (Position::new(0, &[0; W]), Vec::new(), Vec::new());
        Self { bucket, flags, again, stored, greatest, closes, before, runs, counted }
    }

    /// A run, so often, at whose set counts so many more lines are between.
    fn run(&mut self, run: &Next<W>, more: Shared, times: u32) {
        let mut by_set = run.by_set;
        by_set
            .iter_mut()
            .zip(more.to_le_bytes())
            .for_each(|(distance, more)| *distance = distance.saturating_add(more));
        let position = Position::new(run.full, &by_set);
        let weight = u64::from(run.weight) * u64::from(times);
        let mut count = |(kind, item), position: &Position| {
            let by_set = *position.by_set.first_chunk().unwrap_or(&[0; W]);
            self.counted.push(Combination { by_set, full: position.full, kind, item, weight });
        };
        count(kind(run.flags), &position);
        self.greatest = self.greatest.max(&position);
        if self.stored == Charge::NONE {
            self.runs.push((weight.try_into().unwrap_or(u32::MAX), position));
        }
        let stored = charge(run.flags, self.bucket);
        if stored != Charge::NONE {
            match self.stored.get() {
                None => {
                    let Position { full, by_set } = self.greatest;
                    (self.closes, self.before) = (run.weight, Some(Greatest { by_set, full }));
                }
                Some((_, item)) if self.greatest.full > 0 => count((Kind::Writeback, item), &self.greatest),
                Some(_) => {}
            }
            (self.stored, self.greatest) = (stored, Position::new(0, &[0; W]));
        }
        self.again = true;
    }

    fn what(self) -> (What, Vec<Combination<W>>) {
        let Self { flags, again, stored, greatest: Position { full, by_set }, closes, before, runs, counted, .. } =
            self;
        let after = Greatest { by_set, full };
        let again = again.then_some(Again { index: 0, closes, stored, after });
        (What { flags, again, before, runs }, counted)
    }
}

fn halves(shared: Shared) -> [u64; 2] {
    [shared as u64, (shared >> 64) as u64]
}

/// Of some lines.
fn shared(lines: impl IntoIterator<Item = u64>, line: u64) -> Shared {
    let each = |other: u64| match (line ^ other).trailing_zeros() {
        bits @ 0..BITS => (Shared::MAX / 0xff) & ((1 << (8 * bits)) - 1),
        _ => Shared::MAX / 0xff,
    };
    lines.into_iter().map(each).sum()
}

/// Lines of a strand, each of another period: the first period, how many periods it is to the next, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spaced {
    pub(crate) first: u32,
    pub(crate) apart: u32,
    pub(crate) count: u32,
}

/// Gives periods to `take` in which as many of some lines share a set with others, by set, and how many: each line, so far from the
/// other one in the first of all periods, moves on against it by so many lines in a period.
fn for_each_class(apart: &[u64], by: u64, count: u32, take: &mut impl FnMut(Spaced, Shared)) {
    let all = apart.iter().map(|&apart| apart as u32).collect();
    split(all, by as u32, Spaced { first: 0, apart: 1, count }, (0, 0), take);
}

/// The same for some of them, in which these share sets of a number of so many bits.
fn split(
    mut apart: SmallVec<[u32; BETWEEN]>,
    by: u32,
    some: Spaced,
    (mut bits, mut shared): (u32, Shared),
    take: &mut impl FnMut(Spaced, Shared),
) {
    let step = if some.count > 1 { by.wrapping_mul(some.apart) } else { 0 };
    while !apart.is_empty() && bits < BITS {
        if step >> bits & 1 != 0 {
            let half = some.count / 2;
            for (first, count) in [(some.first, some.count - half), (some.first + some.apart, half)] {
                let some = Spaced { first, apart: 2 * some.apart, count };
                split(apart.clone(), by, some, (bits, shared), take);
            }
            return;
        }
        apart.retain(|apart| apart.wrapping_add(by.wrapping_mul(some.first)) >> bits & 1 == 0);
        shared |= (apart.len() as Shared) << (8 * bits);
        bits += 1;
    }
    take(some, shared);
}

impl<const W: usize> Classes<W> {
    pub(crate) fn pins(&self) -> &[u64] {
        &self.pins
    }

    /// Which of the walk's [`What`] tells what happens to a line.
    #[inline(never)]
    pub(crate) fn what(&self, first: First, line: u64) -> u32 {
        let shared = shared(self.pins.iter().copied(), line);
        if first.spot.is_pin {
            first.what
        } else {
            self.whats.get(&(first.what, halves(shared))).copied().unwrap_or(first.what)
        }
    }

    /// Gives so many lines of a strand to `take`, the first one and each `by` lines behind the one before, by what happens to them.
    /// Where nobody `asks` for them those to which the same happens as far as it matters may come together.
    #[inline(always)]
    pub(crate) fn for_each_what(
        &self,
        (first, line): (First, u64),
        (by, count): (u64, u32),
        asks: bool,
        mut take: impl FnMut(Spaced, u32),
    ) {
        if !asks && self.alike[first.what as usize] {
            return take(Spaced { first: 0, apart: 1, count }, first.what);
        }
        let apart: SmallVec<[u64; 4]> = self.pins.iter().map(|pin| line.wrapping_sub(*pin)).collect();
        for_each_class(&apart, by, count, &mut |some, shared| {
            take(some, self.whats.get(&(first.what, halves(shared))).copied().unwrap_or(first.what));
        });
    }
}

/// What is being made of a loop.
struct Making<'a, const W: usize> {
    pins: &'a Pins<W>,
    bucket: Bucket,
    whats: Vec<What>,
    classes: Classes<W>,
    /// By [`What`]: what is counted of a line.
    counted: Vec<Vec<Combination<W>>>,
}

impl<const W: usize> Making<'_, W> {
    fn follow(&mut self, life: u32, shared: Shared) -> u32 {
        let Life { flags, runs } = &self.pins.lives[life as usize];
        let mut following = Following::new(*flags, self.bucket);
        runs.iter().for_each(|run| following.run(run, if run.behind_pins { shared } else { 0 }, 1));
        self.add(following)
    }

    fn add(&mut self, following: Following<W>) -> u32 {
        let (what, counted) = following.what();
        self.whats.push(what);
        self.counted.push(counted);
        (self.whats.len() - 1) as u32
    }

    /// So many lines of that life that share sets with so many pins, by set.
    fn lines(&mut self, life: u32, shared: Shared, times: u32) {
        let what = match self.classes.whats.get(&(life, halves(shared))) {
            Some(&what) => what,
            None => {
                let what = self.follow(life, shared);
                self.classes.whats.insert((life, halves(shared)), what);
                what
            }
        };
        self.classes.within.add(&self.counted[what as usize], times.into());
    }

    /// What happens to a pin in a loop of so many periods more than fewest.
    fn pin(&mut self, pin: usize, flags: u32, strands: &[Range<u64>], more: u64) {
        let (line, bucket) = (self.classes.pins[pin], self.bucket);
        let Periodic { before, cycle, times, after, by } = &self.pins.turns;
        let spots = |turn: Turn<W>| turn.between.into_iter().take(turn.count);
        let at = |spot: Spot| spot.line(strands);
        let mut following = Following::new(flags, bucket);
        let once = |following: &mut Following<W>, turn: Turn<W>| {
            following.run(&turn.run, shared(spots(turn).map(at), line), 1);
        };
        let of = |turn: &Turn<W>| turn.pin == pin;
        let own: Vec<_> = cycle.iter().copied().filter(of).collect();
        before.iter().copied().filter(of).for_each(|turn| once(&mut following, turn));
        let stores = own.iter().filter(|turn| turn.run.flags & DIRTY != 0).count();
        let periods = times + more;
        // Where only some of them store what is greatest since the last one depends on several.
        let one_by_one = if stores == 0 || stores == own.len() { 1.min(periods) } else { periods };
        for period in 0..one_by_one {
            own.iter().for_each(|turn| once(&mut following, turn.moved(by * period)));
        }
        for &turn in own.iter().filter(|_| one_by_one < periods) {
            let apart: SmallVec<[u64; BETWEEN]> =
                spots(turn.moved(by * one_by_one)).map(|spot| at(spot).wrapping_sub(line)).collect();
            let stored = following.stored;
            for_each_class(&apart, *by, (periods - one_by_one) as u32, &mut |some, shared| {
                following.stored = stored;
                following.run(&turn.run, shared, some.count);
            });
        }
        let rest = after.iter().copied().filter(of);
        rest.for_each(|turn| once(&mut following, turn.moved(by * more)));
        let what = self.add(following);
        self.classes.within.add(&self.counted[what as usize], 1);
    }
}

impl<const W: usize> Walk<W> {
    /// The same with its pins where they are, for a loop of so many periods more than fewest.
    pub(crate) fn placed(&self, strands: &[Range<u64>], more: u64, bucket: Bucket) -> Option<Self> {
        let pins = self.pins.as_ref()?;
        let lines: Vec<_> = strands[strands.len() - pins.pins..].iter().map(|pin| pin.start).collect();
        // What the first references tell of a line: that is deeper wherever a pin is between.
        let is_alike = |life: &Life<W>| {
            let is_clean = |flags: u32| flags & DIRTY == 0;
            is_clean(life.flags) && life.runs.iter().all(|run| is_clean(run.flags) && run.by_set == [0; W])
        };
        let classes = Classes {
            pins: lines.clone(),
            whats: HashMap::default(),
            alike: pins.lives.iter().map(is_alike).collect(),
            within: Within::default(),
        };
        let mut making = Making { pins, bucket, whats: Vec::new(), classes, counted: Vec::new() };
        for life in 0..pins.lives.len() as u32 {
            let what = making.follow(life, 0);
            making.classes.whats.insert((life, halves(0)), what);
        }
        let mut firsts = self.firsts.clone();
        let Periodic { before, cycle, times, after, by } = &mut firsts;
        let at = |first: First| first.spot.line(strands);
        for first in before.iter_mut().chain(after.iter_mut()).filter(|first| first.spot.is_pin) {
            let pin = first.spot.strand as usize + pins.pins - strands.len();
            let flags = pins.lives[first.what as usize].flags;
            first.what = making.whats.len() as u32;
            making.pin(pin, flags, strands, more);
        }
        let ends = before.iter().copied().chain(after.iter().map(|first| first.moved(*by * more)));
        for first in ends.filter(|first| !first.spot.is_pin) {
            making.lines(first.what, shared(lines.iter().copied(), at(first)), 1);
        }
        for &first in &*cycle {
            let apart: SmallVec<[u64; 4]> = lines.iter().map(|pin| at(first).wrapping_sub(*pin)).collect();
            for_each_class(&apart, *by, (*times + more) as u32, &mut |some, shared| {
                making.lines(first.what, shared, some.count);
            });
        }
        let Making { whats, mut classes, .. } = making;
        classes.within.merge();
        Some(self.with_classes(firsts, whats, classes))
    }
}

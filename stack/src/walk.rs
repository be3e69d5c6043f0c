//! Loops that walk over lines, as a whole.
//!
//! A loop over arrays comes to the next lines of each of its *strands* again and again, to as many of each, and between that makes
//! the same references in each *period*. So what happens among its own references is found out once, from a loop of few periods and
//! one that has one more: where the longer one differs by a period put in between, all longer ones do. That is a *walk*. What
//! is left when such a loop comes is the first reference to each line. Nothing else is referenced meanwhile, so these lines go
//! by the upper tiers: those are emptied before, and the lines end in `sheets`.
//!
//! Invariant: what a walk says of its lines depends on their distances from each other only, and, across strands, on which of
//! them share sets. Keys stand for that, as those of templates do.

use crate::by_line::Mix;
use crate::counts::{Buckets, Counts};
use crate::digest::{Again, Greatest, Segment};
use crate::digester::{Read, Segments};
use crate::item::Charge;
use crate::lines::Id;
use crate::older::Time;
use crate::pins::{Classes, Pins};
use crate::repeats::Kind;
use crate::runs::{self, DIRTY, Run, STORE};
use crate::sharing::Position;
use crate::sheets::MOST_LINES;
use crate::simd::{Task, Vector};
use crate::template::{Count, Within, hash};
use crate::{Bucket, Chunk, Found, Item};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

/// Walks, with keys for which there is none, at most; and keys remembered that were asked for once.
const KNOWN: usize = 1 << 10;
const ASKED: usize = 1 << 12;

/// Where a line of a loop is: so many lines behind the first of a strand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spot {
    pub(crate) strand: u32,
    pub(crate) offset: u64,
    /// Whether it is a pin: the only line of its strand, which is where it is in each period.
    pub(crate) is_pin: bool,
}

/// The first reference to a line: where, and which [`What`] tells the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct First {
    pub(crate) spot: Spot,
    pub(crate) what: u32,
}

/// What moves on with the periods of a loop.
pub(crate) trait Moves: Copy + PartialEq {
    /// So many lines further on.
    fn moved(self, lines: u64) -> Self;
}

/// What is at one place.
pub(crate) trait Placed: Moves {
    fn spot(self) -> Spot;
}

impl Moves for Spot {
    fn moved(self, lines: u64) -> Self {
        Self { offset: self.offset + if self.is_pin { 0 } else { lines }, ..self }
    }
}

impl Spot {
    /// The line there.
    pub(crate) fn line(self, strands: &[Range<u64>]) -> u64 {
        strands[self.strand as usize].start + self.offset
    }
}

impl Placed for Spot {
    fn spot(self) -> Self {
        self
    }
}

impl Moves for First {
    fn moved(self, lines: u64) -> Self {
        Self { spot: self.spot.moved(lines), ..self }
    }
}

impl Placed for First {
    fn spot(self) -> Spot {
        self.spot
    }
}

/// A sequence that repeats itself in the middle.
#[derive(Clone, Debug)]
pub(crate) struct Periodic<T> {
    pub(crate) before: Vec<T>,
    pub(crate) cycle: Vec<T>,
    /// How often that comes in a loop of fewest periods.
    pub(crate) times: u64,
    pub(crate) after: Vec<T>,
    /// By how many lines each strand moves on in a period.
    pub(crate) by: u64,
}

impl<T: Moves> Periodic<T> {
    /// Of two loops, of which `longer` has one period more, in which each strand moves on by so many lines. Where the period that
    /// comes again begins it is to be one that `fits`.
    pub(crate) fn of(shorter: &[T], longer: &[T], by: u64, fits: impl Fn(&Self) -> bool) -> Option<Self> {
        let len = longer.len().checked_sub(shorter.len()).filter(|&len| len > 0)?;
        let same = shorter.iter().zip(longer).take_while(|(one, other)| one == other).count();
        let moved = shorter.iter().rev().zip(longer.iter().rev());
        let moved = moved.take_while(|(one, other)| one.moved(by) == **other).count();
        if same + moved < shorter.len() {
            return None;
        }
        // One period is there; how far do others reach?
        let (mut begin, mut end) = (same, same + len);
        while begin > 0 && longer[begin - 1].moved(by) == longer[begin - 1 + len] {
            begin -= 1;
        }
        while end < longer.len() && longer[end - len].moved(by) == longer[end] {
            end += 1;
        }
        // Where a period begins decides which lines it has.
        (begin..begin + len).find_map(|begin| {
            // Once only it could be anything.
            let times = Some((end - begin) / len).filter(|&times| times > 1)?;
            let (before, rest) = longer.split_at(begin);
            let (cycle, after) = (&rest[..len], &rest[times * len..]);
            let all = Self { before: before.into(), cycle: cycle.into(), times: times as u64, after: after.into(), by };
            Some(all).filter(&fits)
        })
    }

    /// All of it, of a loop of so many more periods.
    pub(crate) fn all(&self, more: u64) -> impl Iterator<Item = T> + '_ {
        let Self { before, cycle, times, after, by } = self;
        let cycles = (0..times + more).flat_map(move |period| cycle.iter().map(move |of| of.moved(by * period)));
        before.iter().copied().chain(cycles).chain(after.iter().map(move |of| of.moved(by * more)))
    }
}

impl<T: Placed> Periodic<T> {
    /// Whether each strand comes to all lines of a period, one after the other or not so.
    pub(crate) fn walks(&self, in_order: bool) -> bool {
        self.cycle.iter().all(|of| self.goes_up(of.spot().strand, in_order))
    }

    /// Whether a strand's lines are neighbours, and come one after the other if they have to.
    fn goes_up(&self, strand: u32, in_order: bool) -> bool {
        let mut spots: SmallVec<[_; MOST_LINES]> = self.strand(strand).map(|(_, spot)| spot.offset).collect();
        if !in_order {
            spots.sort_unstable();
        }
        spots.len() as u64 == self.by && (spots[0]..).zip(&spots).all(|(next, &spot)| next == spot)
    }

    /// Where a strand's lines are in a period, and when they come.
    pub(crate) fn strand(&self, strand: u32) -> impl Iterator<Item = (usize, Spot)> + Clone {
        self.cycle.iter().map(|of| of.spot()).enumerate().filter(move |(_, spot)| spot.strand == strand)
    }
}

/// What happens to a line from its first reference on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct What {
    /// As in a run.
    pub(crate) flags: u32,
    pub(crate) again: Option<Again>,
    /// If that closes a dirty interval.
    pub(crate) before: Option<Greatest>,
    /// Runs that follow, up to the first that stores it: how often they count, and their distances.
    pub(crate) runs: Vec<(u32, Position)>,
}

impl What {
    /// Whether it is stored.
    pub(crate) fn stores(&self) -> bool {
        self.flags & DIRTY != 0 || self.again.is_some_and(|again| again.stored != Charge::NONE)
    }
}

/// What is counted within a loop, and which runs follow the first references to its lines.
#[derive(Default)]
struct Learning<const W: usize> {
    within: Within<W>,
    /// Of which line, in the order in which they came.
    runs: Vec<(usize, Run, Position)>,
}

impl<const W: usize> Learning<W> {
    /// Those of a line, up to the first that stores it.
    fn runs_of(&self, place: usize, first: Run) -> Vec<(u32, Position)> {
        let runs: Vec<_> = self.runs.iter().filter(|(of, ..)| *of == place).collect();
        let stores = |run: &Run| run.flags & DIRTY != 0;
        let until = runs.iter().position(|(_, run, _)| stores(run)).map_or(runs.len(), |last| last + 1);
        let until = &runs[..if stores(&first) { 0 } else { until }];
        until.iter().map(|(_, run, distances)| (run.weight, *distances)).collect()
    }
}

impl<const W: usize> Count<W> for Learning<W> {
    fn references(&mut self, item: Item, store: bool, weight: u64) {
        self.within.references(item, store, weight);
    }

    fn first(&mut self, run: Run) {
        self.within.leave_out(runs::first(run.flags), run.flags & STORE != 0);
    }

    fn distances(&mut self, what: (Kind, Item), full: u32, by_set: &[u8; W], weight: u64) {
        self.within.distances(what, full, by_set, weight);
    }

    fn again(&mut self, place: usize, run: Run, full: u32, by_set: &[u8; W]) {
        self.runs.push((place, run, Position::new(full, by_set)));
    }

    fn spread<V: Vector>(&mut self) {}
}

/// See the module's page.
#[derive(Clone, Debug)]
pub(crate) struct Walk<const W: usize> {
    /// Fewest periods.
    pub(crate) periods: u64,
    /// First references.
    pub(crate) firsts: Periodic<First>,
    /// In the order in which they stand at the end, the most recent last.
    pub(crate) order: Periodic<Spot>,
    whats: Vec<What>,
    /// How far lines are from where they came first in their order at the end, at most; 0: nowhere.
    pub(crate) reach: usize,
    /// What is counted in a loop of fewest periods, first references left out, and for each more.
    within: Within<W>,
    each: Within<W>,
    /// What it has besides, if there are pins: before it is known where they are, and then.
    pub(crate) pins: Option<Pins<W>>,
    pub(crate) classes: Option<Classes<W>>,
}

/// A loop of few periods: its first references, the order of its lines, and what else is counted.
pub(crate) struct Loop<const W: usize> {
    pub(crate) firsts: Vec<First>,
    pub(crate) order: Vec<Spot>,
    pub(crate) within: Within<W>,
}

impl<const W: usize> Loop<W> {
    /// By how many lines each of so many strands moves on in the period that the second of two loops has more.
    pub(crate) fn by([shorter, longer]: [&Self; 2], strands: usize) -> Option<u64> {
        let more = longer.firsts.len().checked_sub(shorter.firsts.len())?;
        Some((more / strands) as u64).filter(|&by| by <= MOST_LINES as u64)
    }
}

/// A line that a loop walked over, or several of a strand, to which the same happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked<const W: usize> {
    /// Distances, as far as they are known.
    pub(crate) by_set: [u8; W],
    pub(crate) full: u32,
    pub(crate) id: Id,
    /// Low bits of its number.
    pub(crate) line: u32,
    /// When it came to the older tier; 0: nothing more is to be known.
    pub(crate) last: Time,
    pub(crate) what: u32,
    /// How many; one that is to be looked for is alone.
    pub(crate) lines: u32,
    /// How many periods each is behind the one before, and how far their ids are from each other.
    pub(crate) apart: u32,
    pub(crate) id_step: Id,
    /// Whether it was in no sheet there.
    pub(crate) is_single: bool,
    /// There was no reference before.
    pub(crate) is_cold: bool,
}

impl<const W: usize> Walked<W> {
    /// Which of these strands the line is in, and its number.
    pub(crate) fn place(&self, strands: &[Range<u64>]) -> Option<(usize, u64)> {
        let from = |strand: &Range<u64>| u64::from(self.line.wrapping_sub(strand.start as u32));
        let strand = strands.iter().position(|strand| from(strand) < strand.end - strand.start)?;
        Some((strand, strands[strand].start + from(&strands[strand])))
    }
}

impl<const W: usize> Walk<W> {
    pub(crate) fn whats(&self) -> &[What] {
        &self.whats
    }

    /// Of two loops, where the last strands, so many, are pins.
    fn new<V: Vector>(
        (strands, pins): (&[Range<u64>], usize),
        periods: u64,
        loops: [Chunk<'_>; 2],
        bucket: Bucket,
    ) -> Option<Self> {
        let mut whats = Vec::new();
        let (pins_of, [shorter, longer]) = if pins > 0 {
            let (pins, loops) = Pins::new::<V>(strands, pins, loops, bucket)?;
            (Some(pins), loops)
        } else {
            let [shorter, longer] = loops.map(|chunk| read::<V, W>(strands, chunk, bucket, &mut whats));
            (None, [shorter?, longer?])
        };
        let each = longer.within.beyond(&shorter.within)?;
        let moving: Vec<_> = longer.firsts.iter().map(|first| first.spot).filter(|spot| !spot.is_pin).collect();
        let place = |spot: &Spot| moving.iter().position(|first| first == spot);
        let order = longer.order.iter().filter(|spot| !spot.is_pin);
        let reach = order.enumerate().map(|(at, spot)| Some(place(spot)?.abs_diff(at)));
        let reach = reach.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        let by = Loop::by([&shorter, &longer], strands.len() - pins)?;
        let firsts = Periodic::of(&shorter.firsts, &longer.firsts, by, |firsts| firsts.walks(false))?;
        let order = Periodic::of(&shorter.order, &longer.order, by, |order| order.walks(true))?;
        Some(Self { periods, firsts, order, whats, reach, within: longer.within, each, pins: pins_of, classes: None })
    }

    /// The same, now that it is known where its pins are.
    pub(crate) fn with_classes(&self, firsts: Periodic<First>, whats: Vec<What>, classes: Classes<W>) -> Self {
        Self { firsts, whats, classes: Some(classes), pins: None, ..self.clone() }
    }

    /// Which of its [`What`] tells what happens to a line.
    #[inline(always)]
    pub(crate) fn what(&self, first: First, line: u64) -> u32 {
        self.classes.as_ref().map_or(first.what, |classes| classes.what(first, line))
    }

    /// Counts what happens within a loop of so many more periods, first references left out.
    pub(crate) fn count_within(&self, more: u64, bucket: Bucket, buckets: &mut Buckets<W>) {
        self.within.count(1, bucket, buckets);
        self.each.count(more, bucket, buckets);
        self.classes.iter().for_each(|classes| classes.within.count(1, bucket, buckets));
    }

    /// Counts the first references of a loop of so many more periods, but not what they find.
    pub(crate) fn count_firsts(&self, more: u64, counts: &mut Counts<W>) {
        let Periodic { before, cycle, times, after, .. } = &self.firsts;
        let ends = before.iter().chain(after).map(|first| (first, 1));
        for (first, often) in ends.chain(cycle.iter().map(|first| (first, times + more))) {
            let flags = self.whats[first.what as usize].flags;
            counts.add_references(runs::first(flags), flags & STORE != 0, often);
        }
    }

    /// Lines of a loop of so many periods.
    pub(crate) fn lines(&self, periods: u64) -> u64 {
        let Periodic { before, cycle, times, after, .. } = &self.firsts;
        (before.len() + after.len()) as u64 + (times + periods - self.periods) * cycle.len() as u64
    }
}

/// What there is to know of a loop of few periods.
fn read<V: Vector, const W: usize>(
    strands: &[Range<u64>],
    chunk: Chunk<'_>,
    bucket: Bucket,
    whats: &mut Vec<What>,
) -> Option<Loop<W>> {
    let (mut segments, mut learning) = (Segments::new(), Learning::default());
    let digest = V::run(Read { segments: &mut segments, chunk, bucket, counts: &mut learning });
    let mut all = digest.segments();
    let (Some(Segment { lines, again, before, order, .. }), None) = (all.next(), all.next()) else { return None };
    let (mut again, mut before) = (again.iter().peekable(), before.iter());
    let (mut firsts, mut spots) = (Vec::new(), Vec::new());
    for (index, run) in lines.iter().enumerate() {
        let strand = strands.iter().position(|strand| strand.contains(&run.line))?;
        let spot = Spot { strand: strand as u32, offset: run.line - strands[strand].start, is_pin: false };
        let again = again.next_if(|again| usize::from(again.index) == index).map(|again| Again { index: 0, ..*again });
        let before = again.filter(|again| again.closes > 0).and_then(|_| before.next().copied());
        let what = What { flags: run.flags, again, before, runs: learning.runs_of(index, *run) };
        let number = whats.iter().position(|other| *other == what).unwrap_or(whats.len());
        if number == whats.len() {
            whats.push(what);
        }
        firsts.push(First { spot, what: number as u32 });
        spots.push(spot);
    }
    learning.within.merge();
    Some(Loop { firsts, order: ordered(&spots, order), within: learning.within })
}

/// In which order lines stand at the end that came in this one, and of which some moved to the top.
pub(crate) fn ordered(spots: &[Spot], order: &[u16]) -> Vec<Spot> {
    let mut to_the_top = vec![false; spots.len()];
    order.iter().for_each(|&index| to_the_top[usize::from(index)] = true);
    let stay = spots.iter().zip(&to_the_top).filter(|&(_, &moves)| !moves).map(|(&spot, _)| spot);
    stay.chain(order.iter().map(|&index| spots[usize::from(index)])).collect()
}

/// A key, and what is known of it.
#[derive(Clone, Debug)]
struct Entry<const W: usize> {
    key: Box<[u64]>,
    bucket: Bucket,
    /// `None`: there is none.
    walk: Option<Arc<Walk<W>>>,
    /// Not counted yet: how often it came, and with how many periods more than fewest, all together.
    uses: u64,
    more: u64,
    placed: Option<Placement<W>>,
}

/// Where a loop's strands and pins were the last time, of how many periods more it was, and its walk there.
#[derive(Clone, Debug)]
struct Placement<const W: usize> {
    strands: Box<[Range<u64>]>,
    more: u64,
    walk: Arc<Walk<W>>,
}

/// All of one stack.
#[derive(Clone, Debug)]
pub(crate) struct Walks<const W: usize> {
    /// By hash of the key.
    numbers: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    entries: Vec<Entry<W>>,
    /// Hashes of keys that were asked for.
    asked: HashSet<u64, BuildHasherDefault<Mix>>,
}

impl<const W: usize> Walks<W> {
    pub(crate) const fn new() -> Self {
        let numbers = HashMap::with_hasher(BuildHasherDefault::new());
        Self { numbers, entries: Vec::new(), asked: HashSet::with_hasher(BuildHasherDefault::new()) }
    }

    /// Looks a key up.
    pub(crate) fn find(&mut self, key: &[u64], bucket: Bucket) -> Found {
        let hash = hash(key, bucket);
        if let Some(&number) = self.numbers.get(&hash) {
            let entry = &self.entries[number as usize];
            let here = *entry.key == *key && entry.bucket == bucket && entry.walk.is_some();
            return if here { Found::Template(number) } else { Found::Never };
        }
        if self.asked.len() == ASKED {
            self.asked.clear();
        }
        if self.asked.insert(hash) { Found::New } else { Found::Again }
    }

    /// Remembers a walk, or that there is none.
    fn add(&mut self, key: &[u64], bucket: Bucket, walk: Option<Walk<W>>, buckets: &mut Buckets<W>) {
        if self.entries.len() == KNOWN {
            self.count_into(buckets);
            self.entries.clear();
            self.numbers.clear();
        }
        self.numbers.insert(hash(key, bucket), self.entries.len() as u32);
        self.entries.push(Entry { key: key.into(), bucket, walk: walk.map(Arc::new), uses: 0, more: 0, placed: None });
    }

    /// The walk of that number.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Walk<W>>> {
        self.entries.get(number as usize)?.walk.clone()
    }

    /// The same where strands begin there, with so many periods more than fewest, if it has pins.
    pub(crate) fn placed(&mut self, number: u32, strands: &[Range<u64>], more: u64) -> Option<Arc<Walk<W>>> {
        let entry = &mut self.entries[number as usize];
        let same = |placed: &&Placement<W>| *placed.strands == *strands && placed.more == more;
        if let Some(placed) = entry.placed.as_ref().filter(same) {
            return Some(Arc::clone(&placed.walk));
        }
        let walk = Arc::new(entry.walk.as_ref()?.placed(strands, more, entry.bucket)?);
        entry.placed = Some(Placement { strands: strands.into(), more, walk: Arc::clone(&walk) });
        Some(walk)
    }

    /// It came once more, with so many periods more than fewest.
    pub(crate) fn used(&mut self, number: u32, more: u64) {
        let entry = &mut self.entries[number as usize];
        entry.uses += 1;
        entry.more += more;
    }

    /// Counts all that is not counted yet, which it stays.
    pub(crate) fn count_into(&self, buckets: &mut Buckets<W>) {
        for entry in &self.entries {
            if let Some(walk) = &entry.walk {
                walk.within.count(entry.uses, entry.bucket, buckets);
                walk.each.count(entry.more, entry.bucket, buckets);
            }
        }
    }

    /// All of it is counted.
    pub(crate) fn forget(&mut self) {
        self.entries.iter_mut().for_each(|entry| (entry.uses, entry.more) = (0, 0));
    }

    /// Whether something is not counted yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.entries.iter().any(|entry| entry.uses > 0)
    }
}

/// Makes a walk of two loops, of which the second one has one period more.
pub(crate) struct LearnWalk<'a, const W: usize> {
    pub(crate) walks: &'a mut Walks<W>,
    pub(crate) key: (&'a [u64], Bucket),
    /// The last of them, so many, are pins.
    pub(crate) strands: (&'a [Range<u64>], usize),
    pub(crate) periods: u64,
    pub(crate) loops: [Chunk<'a>; 2],
    pub(crate) buckets: &'a mut Buckets<W>,
}

impl<const W: usize> Task for LearnWalk<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { walks, key: (key, bucket), strands, periods, loops, buckets } = self;
        let walk = Walk::new::<V>(strands, periods, loops, bucket);
        walks.add(key, bucket, walk, buckets);
    }
}

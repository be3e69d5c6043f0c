//! Loops that walk over lines, as a whole.
//!
//! A loop over arrays comes to the next line of each of its *strands* again and again, and between that makes the same
//! references in each *period*. So what happens among its own references is found out once, from a loop of few periods and
//! one that has one more: where the longer one differs by a period put in between, all longer ones do. That is a *walk*. What
//! is left when such a loop comes is the first reference to each line. Nothing else is referenced meanwhile, so these lines go
//! by the upper tiers: those are emptied before, and the lines end in `sheets`.
//!
//! Invariant: what a walk says of its lines depends on their distances from each other only, and, across strands, on which of
//! them share sets. Keys stand for that, as those of templates do.

use crate::by_line::Mix;
use crate::counts::{Buckets, Counts};
use crate::digest::{Again, Digest, Greatest, Segment};
use crate::digester::Segments;
use crate::engine::{BATCH, Core};
use crate::lines::Id;
use crate::older::{Hint, Time};
use crate::sheets::{self, add_congruent, cut_off};
use crate::simd::{self, Instructions, Task, Vector};
use crate::template::{Within, hash};
use crate::{Bucket, Chunk, Found, Piece};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

/// Walks and keys without one, at most.
const KNOWN: usize = 1 << 12;
/// Walks need so many times more lines, those that were not taken for that reason included, than the upper tiers hold, which
/// they empty.
const MORE: u64 = 2;
/// Lines of a walk, at most.
const LONGEST: u64 = 1 << 20;
/// Where the upper tiers hold at most so many lines each may become a sheet.
const FEW: usize = 12;

/// Where a line of a loop is: so many lines behind the first of a strand.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    strand: u32,
    offset: u64,
}

/// The first reference to a line: where, and which [`What`] tells the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct First {
    spot: Spot,
    what: u32,
}

/// What moves on with the periods of a loop.
trait Moves: Copy + PartialEq {
    /// So many periods later.
    fn later(self, periods: u64) -> Self;
}

impl Moves for Spot {
    fn later(self, periods: u64) -> Self {
        Self { offset: self.offset + periods, ..self }
    }
}

impl Moves for First {
    fn later(self, periods: u64) -> Self {
        Self { spot: self.spot.later(periods), ..self }
    }
}

/// A sequence that repeats itself in the middle.
#[derive(Clone, Debug)]
struct Periodic<T> {
    before: Vec<T>,
    cycle: Vec<T>,
    /// How often that comes in a loop of fewest periods.
    times: u64,
    after: Vec<T>,
}

impl<T: Moves> Periodic<T> {
    /// Of two loops, of which `longer` has one period more.
    fn of(shorter: &[T], longer: &[T]) -> Option<Self> {
        let len = longer.len().checked_sub(shorter.len()).filter(|&len| len > 0)?;
        let same = shorter.iter().zip(longer).take_while(|(one, other)| one == other).count();
        let moved = shorter.iter().rev().zip(longer.iter().rev());
        let moved = moved.take_while(|(one, other)| one.later(1) == **other).count();
        if same + moved < shorter.len() {
            return None;
        }
        // One period is there; how far do others reach?
        let (mut begin, mut end) = (same, same + len);
        while begin > 0 && longer[begin - 1].later(1) == longer[begin - 1 + len] {
            begin -= 1;
        }
        while end < longer.len() && longer[end - len].later(1) == longer[end] {
            end += 1;
        }
        let times = (end - begin) / len;
        let (before, rest) = longer.split_at(begin);
        let (cycle, after) = (&rest[..len], &rest[times * len..]);
        Some(Self { before: before.into(), cycle: cycle.into(), times: times as u64, after: after.into() })
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
}

/// See the module's page.
#[derive(Clone, Debug)]
pub(crate) struct Walk<const W: usize> {
    /// Fewest periods.
    periods: u64,
    /// First references.
    firsts: Periodic<First>,
    /// In the order in which they stand at the end, the most recent last.
    order: Periodic<Spot>,
    whats: Vec<What>,
    /// What is counted in a loop of fewest periods, first references left out, and for each more.
    within: Within<W>,
    each: Within<W>,
}

/// A line that a loop walked over.
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
    /// Whether it was in no sheet there.
    pub(crate) is_single: bool,
    /// There was no reference before.
    pub(crate) is_cold: bool,
}

impl<const W: usize> Walk<W> {
    pub(crate) fn what(&self, number: u32) -> &What {
        &self.whats[number as usize]
    }

    /// Of two loops.
    fn new<V: Vector>(
        strands: &[Range<u64>],
        periods: u64,
        [shorter, longer]: [Chunk<'_>; 2],
        bucket: Bucket,
    ) -> Option<Self> {
        let mut whats = Vec::new();
        let (firsts, order, less) = read::<V, W>(strands, shorter, bucket, &mut whats)?;
        let (more_firsts, more_order, within) = read::<V, W>(strands, longer, bucket, &mut whats)?;
        let each = within.beyond(&less)?;
        let (firsts, order) = (Periodic::of(&firsts, &more_firsts)?, Periodic::of(&order, &more_order)?);
        Some(Self { periods, firsts, order, whats, within, each })
    }

    /// Lines of a loop of so many periods.
    fn lines(&self, periods: u64) -> u64 {
        let Periodic { before, cycle, times, after } = &self.firsts;
        (before.len() + after.len()) as u64 + (times + periods - self.periods) * cycle.len() as u64
    }
}

/// What there is to know of a loop of few periods: its first references, the order of its lines, and what else is counted.
fn read<V: Vector, const W: usize>(
    strands: &[Range<u64>],
    chunk: Chunk<'_>,
    bucket: Bucket,
    whats: &mut Vec<What>,
) -> Option<(Vec<First>, Vec<Spot>, Within<W>)> {
    let (mut segments, mut within) = (Segments::new(), Within::default());
    for piece in chunk.pieces() {
        if let Piece::References(piece, weight) = piece {
            segments.feed_piece::<V, _>(piece, weight, bucket, Some(&mut within));
        }
    }
    within.merge();
    let digest = segments.take(Digest::default());
    let mut all = digest.segments();
    let (Some(Segment { lines, again, before, order, .. }), None) = (all.next(), all.next()) else { return None };
    let (mut again, mut before) = (again.iter().peekable(), before.iter());
    let (mut firsts, mut spots) = (Vec::new(), Vec::new());
    for (index, run) in lines.iter().enumerate() {
        let strand = strands.iter().position(|strand| strand.contains(&run.line))?;
        let spot = Spot { strand: strand as u32, offset: run.line - strands[strand].start };
        let again = again.next_if(|again| usize::from(again.index) == index).map(|again| Again { index: 0, ..*again });
        let before = again.filter(|again| again.closes > 0).and_then(|_| before.next().copied());
        let what = What { flags: run.flags, again, before };
        let number = whats.iter().position(|other| *other == what).unwrap_or(whats.len());
        if number == whats.len() {
            whats.push(what);
        }
        firsts.push(First { spot, what: number as u32 });
        spots.push(spot);
    }
    let mut to_the_top = vec![false; spots.len()];
    order.iter().for_each(|&index| to_the_top[usize::from(index)] = true);
    let stay = spots.iter().zip(&to_the_top).filter(|&(_, &moves)| !moves).map(|(&spot, _)| spot);
    let ordered = stay.chain(order.iter().map(|&index| spots[usize::from(index)])).collect();
    Some((firsts, ordered, within))
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
}

/// All of one stack.
#[derive(Clone, Debug)]
pub(crate) struct Walks<const W: usize> {
    /// By hash of the key.
    numbers: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    entries: Vec<Entry<W>>,
    /// Hashes of keys that were asked for.
    asked: HashSet<u64, BuildHasherDefault<Mix>>,
    /// Lines of loops that were not taken since one was.
    lines: u64,
}

impl<const W: usize> Walks<W> {
    pub(crate) const fn new() -> Self {
        let numbers = HashMap::with_hasher(BuildHasherDefault::new());
        Self { numbers, entries: Vec::new(), asked: HashSet::with_hasher(BuildHasherDefault::new()), lines: 0 }
    }

    /// Looks a key up.
    pub(crate) fn find(&mut self, key: &[u64], bucket: Bucket) -> Found {
        let hash = hash(key, bucket);
        if let Some(&number) = self.numbers.get(&hash) {
            let entry = &self.entries[number as usize];
            let here = *entry.key == *key && entry.bucket == bucket && entry.walk.is_some();
            return if here { Found::Template(number) } else { Found::Never };
        }
        if self.asked.len() == KNOWN {
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
        self.entries.push(Entry { key: key.into(), bucket, walk: walk.map(Arc::new), uses: 0, more: 0 });
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
    pub(crate) strands: &'a [Range<u64>],
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

/// A line of a walk, as the next one of its strand will find things.
#[derive(Clone, Copy, Default)]
struct Follow {
    hint: Hint,
    /// Which of the ranges that were walked over it is in.
    range: usize,
}

/// A loop walks over its lines.
struct Walking<'a, const W: usize> {
    core: &'a mut Core<W>,
    walk: &'a Arc<Walk<W>>,
    strands: &'a [Range<u64>],
    /// Periods beyond the fewest.
    more: u64,
    bucket: Bucket,
    /// Lines that it came to so far.
    ranges: Vec<Range<u64>>,
}

impl<const W: usize> Task for Walking<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let mut counts = self.core.buckets.take(self.bucket);
        self.core.lower();
        let Periodic { before, cycle, times, after } = &self.walk.firsts;
        for &first in before {
            self.reference::<V>(first, &mut Follow::default(), counts.as_deref_mut());
        }
        let mut follow = vec![Follow::default(); cycle.len()];
        for period in 0..times + self.more {
            for (first, follow) in cycle.iter().zip(&mut follow) {
                self.reference::<V>(first.later(period), follow, counts.as_deref_mut());
            }
        }
        for first in after {
            self.reference::<V>(first.later(self.more), &mut Follow::default(), counts.as_deref_mut());
        }
        self.leave::<V>(counts.as_deref_mut());
        self.core.buckets.put(self.bucket, counts);
        self.leave_sheets();
    }
}

impl<const W: usize> Walking<'_, W> {
    /// The first reference to a line.
    #[inline(always)]
    fn reference<V: Vector>(&mut self, first: First, follow: &mut Follow, counts: Option<&mut Counts<W>>) {
        let (core, line) = (&mut *self.core, self.strands[first.spot.strand as usize].start + first.spot.offset);
        let id = core.lines.id(line).unwrap_or_default();
        let (mut full, mut sums) = (0, [0; W]);
        let taken = core.older.take(&mut core.lines, (line, id), &mut follow.hint);
        if let Some(taken) = taken {
            full = taken.singles + core.older.sheets.newer(line, taken.last, &mut sums);
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
            what: first.what,
            is_single: taken.is_some_and(|taken| taken.is_single),
            is_cold: taken.is_none(),
        });
        match self.ranges.get_mut(follow.range).filter(|range| range.end == line) {
            Some(range) => range.end += 1,
            None => {
                let known = self.ranges.iter().position(|range| range.end == line);
                follow.range = known.unwrap_or(self.ranges.len());
                match known {
                    Some(range) => self.ranges[range].end += 1,
                    None => self.ranges.push(line..line + 1),
                }
            }
        }
        if self.core.work.walked.len() == BATCH {
            self.leave::<V>(counts);
        }
    }

    /// What is to be done behind.
    #[inline(always)]
    fn leave<V: Vector>(&mut self, mut counts: Option<&mut Counts<W>>) {
        self.core.work.walk = Some(Arc::clone(self.walk));
        self.core.leave::<V>(self.bucket, counts.as_deref_mut());
        if let Some(counts) = counts {
            counts.spread();
        }
    }

    /// All lines stand in their order.
    fn leave_sheets(&mut self) {
        let Self { core, walk, strands, more, .. } = self;
        let line = |spot: Spot| strands[spot.strand as usize].start + spot.offset;
        let (first, place) = core.older.next();
        let Periodic { before, cycle, times, after } = &walk.order;
        let (len, periods, mut time) = (cycle.len(), times + *more, first);
        let sheets = &mut core.older.sheets;
        for line in before.iter().map(|&spot| line(spot)) {
            sheets.add(line..line + 1, time, 1, place);
            time += 1;
        }
        for (line, at) in cycle.iter().map(|&spot| line(spot)).zip(0..) {
            sheets.add(line..line + periods, time + at, len as Time, place);
        }
        time += (periods * len as u64) as Time;
        for line in after.iter().map(|spot| line(spot.later(*more))) {
            sheets.add(line..line + 1, time, 1, place);
            time += 1;
        }
        core.older.pass((time - first) as usize);
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
        instructions: Instructions,
    ) -> bool {
        let Some(walk) = self.templates.walks.entries.get(number as usize).and_then(|entry| entry.walk.clone()) else {
            return false;
        };
        let Some(more) = periods.checked_sub(walk.periods) else { return false };
        let lines = walk.lines(periods);
        let walks = &mut self.templates.walks;
        walks.lines += lines;
        if walks.lines < MORE * self.tiers.held.count() as u64 || lines > LONGEST {
            return false;
        }
        walks.lines = 0;
        let crowded = self.older.sheets.len() + walk.order.cycle.len() > sheets::MOST;
        if crowded || self.older.late(lines as usize + 2 * BATCH) {
            self.restart(instructions);
            if !self.older.sheets.is_empty() || self.older.late(lines as usize + 2 * BATCH) {
                return false;
            }
        }
        let entry = &mut self.templates.walks.entries[number as usize];
        entry.uses += 1;
        entry.more += more;
        simd::run(Walking { core: self, walk: &walk, strands, more, bucket, ranges: Vec::new() }, instructions);
        true
    }

    /// All lines of the upper tiers go to the older one, in their order.
    fn lower(&mut self) {
        let entries: Vec<_> = self.tiers.oldest_first().collect();
        for &entry in &entries {
            let (line, id) = (self.tiers.held.line(entry), self.ids[usize::from(entry)]);
            self.work.lowered.push((id, (*self.tiers.held.since_of(entry)).into()));
            let few = entries.len() <= FEW && self.older.sheets.len() < sheets::MOST / 2;
            if few || self.older.sheets.has_end(line) {
                let (time, place) = self.older.next();
                self.older.sheets.add(line..line + 1, time, 1, place);
                self.older.pass(1);
            } else {
                self.older.lower(&mut self.lines, &mut self.work.lower, (line, id));
            }
        }
        self.tiers.clear();
    }
}

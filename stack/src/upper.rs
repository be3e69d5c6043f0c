//! The upper tiers, where most references end: in two short loops.
//!
//! Where lines are and what their distances are depends on the order of lines only. What is counted, and what happened to each
//! line since its last store, depends on the distances, and where others may hold lines, on when that was. So a block of runs goes
//! through the tiers first, and then what came of them is counted, in the same order.

use crate::Bucket;
use crate::behind::State;
use crate::counts::Counts;
use crate::digest::{Again, Greatest, Segment};
use crate::engine::Core;
use crate::held::{Entry, Since};
use crate::item::Charge;
use crate::lines::Lines;
use crate::repeats::Kind;
use crate::runs::{Close, Fetch, LOST, Run, STORE, charge, first, kind};
use crate::sharing::{Known, Sharing};
use crate::simd::{Task, Vector};
use crate::top::{NONE, Order};

/// Runs of a block.
const BLOCK: usize = 256;
/// Instead of a distance: the line was not held.
const FETCHED: u32 = u32::MAX;

/// Where a run found its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<const W: usize> {
    by_set: [u8; W],
    full: u32,
    entry: Entry,
}

/// The lines of a segment, or runs that are none, through the upper tiers. What hits there is done with here; what comes
/// in is left to the older tier. What is within a segment of this thread is counted in the second counters. `ASKED`: somebody asks
/// what becomes of references, or others may hold lines, too.
pub(crate) struct Upper<'a, 'b, const W: usize, const ASKED: bool> {
    pub(crate) core: &'a mut Core<W>,
    pub(crate) bucket: Bucket,
    pub(crate) counts: (Option<&'a mut Counts<W>>, Option<&'a mut Counts<W>>),
    pub(crate) segment: Segment<'b>,
}

impl<const W: usize, const ASKED: bool> Task for Upper<'_, '_, W, ASKED> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { core, bucket, counts: (mut counts, mut within), mut segment } = self;
        let mut places = std::mem::take(&mut core.places);
        places.resize(BLOCK, Place { by_set: [0; W], full: 0, entry: 0 });
        for (number, block) in segment.lines.chunks(BLOCK).enumerate() {
            let (first, fetched, base) = (number * BLOCK, core.work.fetches.len(), segment.base);
            V::run(Pass { core, block, base, first, places: &mut places });
            if core.reach.is_sample() {
                let held = places.iter().take(block.len()).map(|place| place.full).filter(|&full| full != FETCHED);
                held.for_each(|full| core.reach.found(full));
            }
            let counts = (counts.as_deref_mut(), within.as_deref_mut());
            let (segment, places) = (&mut segment, &places);
            if segment.again.is_empty() {
                V::run(Count::<W, ASKED, false> { core, block, places, bucket, counts, segment, first, fetched });
            } else {
                V::run(Count::<W, ASKED, true> { core, block, places, bucket, counts, segment, first, fetched });
            }
        }
        core.places = places;
        core.lift::<V>(segment);
    }
}

/// A block goes through the tiers.
struct Pass<'a, 'b, const W: usize> {
    core: &'a mut Core<W>,
    block: &'b [Run],
    /// Added to the numbers of lines.
    base: u64,
    /// Number of its first run.
    first: usize,
    places: &'a mut [Place<W>],
}

impl<const W: usize> Task for Pass<'_, '_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Core { tiers, work, .. } = self.core;
        let (mut stamps, mut top) = (tiers.newest.stamps::<V>(), V::Top::load(&tiers.top));
        for ((index, run), place) in (self.first..).zip(self.block).zip(self.places) {
            let (line, weight, flags) = (run.line.wrapping_add(self.base), run.weight, run.flags & 0xffff);
            if let Some((entry, full, by_set)) = tiers.reference::<V>(&mut stamps, &mut top, line) {
                *place = Place { by_set, full, entry };
                continue;
            }
            let (full, by_set) = tiers.whole::<V>(top, line);
            let (entry, gone) = tiers.enter::<V>(&mut stamps, top, line);
            top = top.push(line, entry);
            let (run, since) = (index as u32, State::NEW);
            work.fetches.push(Fetch { line, by_set, full, weight, flags, run, entry, gone, since, last: 0 });
            *place = Place { by_set, full: FETCHED, entry };
        }
        top.store(&mut tiers.top);
    }
}

/// What came of a block is counted; whether lines of the segment were referenced again.
struct Count<'a, 'b, 'c, const W: usize, const ASKED: bool, const AGAIN: bool> {
    core: &'a mut Core<W>,
    block: &'b [Run],
    places: &'b [Place<W>],
    bucket: Bucket,
    counts: (Option<&'a mut Counts<W>>, Option<&'a mut Counts<W>>),
    /// What followed the first references to these lines and those that come later.
    segment: &'a mut Segment<'c>,
    /// Number of the first run.
    first: usize,
    /// Fetches that came before.
    fetched: usize,
}

impl<const W: usize, const ASKED: bool, const AGAIN: bool> Task for Count<'_, '_, '_, W, ASKED, AGAIN> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { core, block, places, bucket, counts: (mut counts, mut within), segment, first, mut fetched } = self;
        let (base, mut followed) = (segment.base, segment.next(first));
        for ((at, run), &place) in block.iter().enumerate().zip(places) {
            let Place { mut by_set, mut full, entry } = place;
            let (run, stored) = (Run { line: run.line.wrapping_add(base), ..*run }, charge(run.flags, bucket));
            if full == FETCHED {
                let gone = std::mem::replace(core.tiers.held.since(entry), Since::now(stored)).into();
                if let Some(fetch) = core.work.fetches.get_mut(fetched) {
                    fetch.since = gone;
                    if ASKED && let Some(sharing) = &mut core.sharing {
                        fetch.last = sharing.touch(entry);
                        if !sharing.is_whole() {
                            fetch_shared(sharing, &mut core.lines, fetch);
                        }
                        first_of_segment(sharing, entry, run, stored, (counts.as_deref_mut(), within.as_deref_mut()));
                    }
                }
                fetched += 1;
                if stored != Charge::NONE {
                    let (after, since) = (fetched, State::NEW);
                    core.work.closes.push(Close { after, line: run.line, id: 0, weight: run.weight, stored, since });
                }
            } else {
                let (mut again, mut stored_within) = (false, false);
                if ASKED && let Some(sharing) = &mut core.sharing {
                    again = add_holes::<V, W>(sharing, entry, run.line, &mut full, &mut by_set);
                    if again {
                        stored_within = sharing.digesting.stored(entry);
                        sharing.digesting.again::<V>(entry, run.weight, full, &by_set, stored);
                    } else {
                        first_of_segment(sharing, entry, run, stored, (counts.as_deref_mut(), within.as_deref_mut()));
                    }
                }
                if let Some(counts) = if again { within.as_deref_mut() } else { counts.as_deref_mut() } {
                    counts.add_near(kind(run.flags), full, &by_set, run.weight.into());
                }
                if ASKED
                    && let Some(&of) = core.outcome_of.get(first + at)
                    && let Some(outcome) = core.outcomes.get_mut(of as usize)
                {
                    outcome.complete(full, &by_set);
                }
                core.tiers.held.since(entry).raise::<V>(full, &by_set);
                if stored != Charge::NONE {
                    let counts = if stored_within { within.as_deref_mut() } else { counts.as_deref_mut() };
                    core.store((entry, run.line), run.weight, stored, fetched, bucket, counts);
                }
            }
            if AGAIN
                && at == followed
                && let Some(again) = segment.again.split_off_first()
            {
                let counts = counts.as_deref_mut();
                core.go_on::<V>((entry, run.line), again, &mut segment.before, fetched, bucket, counts);
                followed = segment.next(first);
            }
        }
    }
}

impl<const W: usize> Core<W> {
    /// Lines of a segment come to the top, so that all stand in the order of their last reference.
    #[inline(always)]
    pub(crate) fn lift<V: Vector>(&mut self, segment: Segment<'_>) {
        if segment.order.is_empty() {
            return;
        }
        let (mut stamps, mut top) = (self.tiers.newest.stamps::<V>(), V::Top::load(&self.tiers.top));
        for &index in segment.order {
            let line = segment.lines[usize::from(index)].line.wrapping_add(segment.base);
            self.tiers.lift::<V>(&mut stamps, &mut top, line);
        }
        top.store(&mut self.tiers.top);
    }

    /// A line that is held is stored, `after` so many fetches: closes the dirty interval that goes on, if there is one, in `bucket`,
    /// whose counts are taken out.
    #[inline(always)]
    pub(crate) fn store(
        &mut self,
        (entry, line): (Entry, u64),
        weight: u32,
        stored: Charge,
        after: usize,
        bucket: Bucket,
        counts: Option<&mut Counts<W>>,
    ) {
        let since = self.tiers.held.since(entry);
        match since.stored.get() {
            None => {
                self.work.closes.push(Close { after, line, id: 0, weight, stored, since: (*since).into() });
            }
            Some(_) if since.full == 0 => {}
            Some((charged, item)) => {
                let counts = if charged == bucket { counts } else { self.buckets.of(charged) };
                if let Some(counts) = counts {
                    counts.add_near((Kind::Writeback, item), since.full, &since.greatest, weight.into());
                }
            }
        }
        *since = Since::now(stored);
    }

    /// What followed the first reference to a line in a segment.
    #[inline(always)]
    pub(crate) fn go_on<V: Vector>(
        &mut self,
        (entry, line): (Entry, u64),
        again: &Again,
        before: &mut &[Greatest],
        after: usize,
        bucket: Bucket,
        counts: Option<&mut Counts<W>>,
    ) {
        if again.closes > 0
            && let Some(before) = before.split_off_first()
        {
            self.tiers.held.since(entry).raise::<V>(before.full, before.by_set());
            self.store((entry, line), again.closes, again.stored, after, bucket, counts);
        }
        again.go_on::<V, W>(self.tiers.held.since(entry));
    }
}

/// A line comes into the segment that a digest is made of: what was taken for a reference within it is the first one.
#[inline(always)]
fn first_of_segment<const W: usize>(
    sharing: &mut Sharing<W>,
    entry: Entry,
    run: Run,
    stored: Charge,
    (counts, within): (Option<&mut Counts<W>>, Option<&mut Counts<W>>),
) {
    let (item, store, weight) = (first(run.flags), run.flags & STORE != 0, u64::from(run.weight));
    counts.into_iter().for_each(|counts| counts.add_references(item, store, weight));
    within.into_iter().for_each(|within| within.take_references(item, store, weight));
    if sharing.digesting.is_full() {
        sharing.cut_before_last();
    }
    sharing.digesting.first(entry, run, stored);
}

/// A line in the upper tiers is referenced: the holes above it count too. Whether it is in the segment of a digest.
#[inline(always)]
fn add_holes<V: Vector, const W: usize>(
    sharing: &mut Sharing<W>,
    entry: Entry,
    line: u64,
    full: &mut u32,
    by_set: &mut [u8; W],
) -> bool {
    let last = sharing.touch(entry);
    if sharing.holes.may_be_above(last) {
        let above = sharing.holes.reference(line, Some(last));
        *full += above.0;
        V::add(by_set, &above.1);
    }
    sharing.digesting.has(last)
}

/// A line came into the upper tiers: the holes above it count too, and it may have been taken away.
#[inline(never)]
fn fetch_shared<const W: usize>(sharing: &mut Sharing<W>, lines: &mut Lines, fetch: &mut Fetch<W>) {
    if fetch.gone != NONE {
        sharing.note(lines.id(fetch.gone).unwrap_or_default(), fetch.last);
    }
    let known = sharing.known(lines.id(fetch.line).unwrap_or_default());
    let found = if let Known::At(last) = known { Some(last) } else { None };
    if known == Known::Lost {
        fetch.flags |= LOST;
    }
    if sharing.holes.may_be_above(found.unwrap_or(0)) {
        let above = sharing.holes.reference(fetch.line, found);
        fetch.full += above.0;
        fetch.by_set.iter_mut().zip(above.1).for_each(|(d, holes)| *d = d.saturating_add(holes));
    }
}

//! The upper tiers, as in `upper`, of a stack whose lines nobody takes away and nobody asks for: in two short loops.
//!
//! Where lines are and what their distances are depends on the order of lines only. What is counted, and what happened to each
//! line since its last store, depends on the distances. So a block of runs goes through the tiers first, and then what came of
//! them is counted, in the same order.

use crate::Bucket;
use crate::behind::State;
use crate::counts::Counts;
use crate::digest::Segment;
use crate::engine::Core;
use crate::held::{Entry, Since};
use crate::item::Charge;
use crate::runs::{Close, Fetch, Run, charge, kind};
use crate::simd::{Task, Vector};
use crate::top::Order;

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

/// The lines of a segment, or runs that are none, go through the tiers and are counted.
pub(crate) struct Alone<'a, 'b, const W: usize> {
    pub(crate) core: &'a mut Core<W>,
    pub(crate) bucket: Bucket,
    pub(crate) counts: Option<&'a mut Counts<W>>,
    pub(crate) segment: Segment<'b>,
}

impl<const W: usize> Task for Alone<'_, '_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { core, bucket, mut counts, mut segment } = self;
        let mut places = std::mem::take(&mut core.places);
        places.resize(BLOCK, Place { by_set: [0; W], full: 0, entry: 0 });
        for (number, block) in segment.lines.chunks(BLOCK).enumerate() {
            let (first, fetched, base) = (number * BLOCK, core.work.fetches.len(), segment.base);
            V::run(Pass { core, block, base, first, places: &mut places });
            let (counts, segment, places) = (counts.as_deref_mut(), &mut segment, &places);
            if segment.again.is_empty() {
                V::run(Count::<W, false> { core, block, places, bucket, counts, segment, first, fetched });
            } else {
                V::run(Count::<W, true> { core, block, places, bucket, counts, segment, first, fetched });
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
struct Count<'a, 'b, 'c, const W: usize, const AGAIN: bool> {
    core: &'a mut Core<W>,
    block: &'b [Run],
    places: &'b [Place<W>],
    bucket: Bucket,
    counts: Option<&'a mut Counts<W>>,
    /// What followed the first references to these lines and those that come later.
    segment: &'a mut Segment<'c>,
    /// Number of the first run.
    first: usize,
    /// Fetches that came before.
    fetched: usize,
}

impl<const W: usize, const AGAIN: bool> Task for Count<'_, '_, '_, W, AGAIN> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { core, block, places, bucket, mut counts, segment, first, mut fetched } = self;
        let (base, mut followed) = (segment.base, segment.next(first));
        for ((at, run), &Place { entry, full, ref by_set }) in block.iter().enumerate().zip(places) {
            let (line, stored) = (run.line.wrapping_add(base), charge(run.flags, bucket));
            let since = core.tiers.held.since(entry);
            if full == FETCHED {
                let gone = std::mem::replace(since, Since::now(stored)).into();
                if let Some(fetch) = core.work.fetches.get_mut(fetched) {
                    fetch.since = gone;
                }
                fetched += 1;
                if stored != Charge::NONE {
                    let (after, since) = (fetched, State::NEW);
                    core.work.closes.push(Close { after, line, id: 0, weight: run.weight, stored, since });
                }
            } else {
                if let Some(counts) = counts.as_deref_mut() {
                    counts.add_near(kind(run.flags), full, by_set, run.weight.into());
                }
                since.raise::<V>(full, by_set);
                if stored != Charge::NONE {
                    core.store((entry, line), run.weight, stored, fetched, bucket, counts.as_deref_mut());
                }
            }
            if AGAIN
                && at == followed
                && let Some(again) = segment.again.split_off_first()
            {
                core.go_on::<V>((entry, line), again, &mut segment.before, fetched, bucket, counts.as_deref_mut());
                followed = segment.next(first);
            }
        }
    }
}

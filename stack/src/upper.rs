//! A batch of runs through the upper tiers, where most of them end.

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

/// As [`Core::reference_held`].
pub(crate) struct Upper<'a, 'b, const W: usize> {
    pub(crate) core: &'a mut Core<W>,
    pub(crate) bucket: Bucket,
    pub(crate) counts: (Option<&'a mut Counts<W>>, Option<&'a mut Counts<W>>),
    pub(crate) segment: Segment<'b>,
}

impl<const W: usize> Task for Upper<'_, '_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.core.reference_held::<V>(self.bucket, self.counts, self.segment);
    }
}

impl<const W: usize> Core<W> {
    /// The lines of a segment, or runs that are none, through the upper tiers. What hits there is done with here; what comes
    /// in is left to the older tier. What is within a segment of this thread is counted in the second counters.
    #[inline(always)]
    pub(crate) fn reference_held<V: Vector>(
        &mut self,
        bucket: Bucket,
        (mut counts, mut within): (Option<&mut Counts<W>>, Option<&mut Counts<W>>),
        segment: Segment<'_>,
    ) {
        let (mut stamps, mut top) = (self.tiers.newest.stamps::<V>(), V::Top::load(&self.tiers.top));
        let (mut followed, mut before) = (segment.again.iter(), segment.before);
        let mut next = followed.next();
        for (index, &run) in segment.lines.iter().enumerate() {
            let run = Run { line: run.line.wrapping_add(segment.base), ..run };
            let (kind, weight, stored) = (kind(run.flags), u64::from(run.weight), charge(run.flags, bucket));
            let here = self.tiers.reference::<V>(&mut stamps, &mut top, run.line);
            let Some((entry, mut full, mut by_set)) = here else {
                let Run { line, weight, flags } = run;
                let (full, by_set) = self.tiers.whole::<V>(top, line);
                let (entry, gone) = self.tiers.enter::<V>(&mut stamps, top, line);
                top = top.push(line, entry);
                let (flags, run_number) = (flags & 0xffff, index as u32);
                let since = std::mem::replace(self.tiers.held.since(entry), Since::now(stored)).into();
                self.work.fetches.push(Fetch {
                    line,
                    by_set,
                    full,
                    weight,
                    flags,
                    run: run_number,
                    entry,
                    gone,
                    since,
                    last: 0,
                });
                if let (Some(sharing), Some(fetch)) = (&mut self.sharing, self.work.fetches.last_mut()) {
                    fetch.last = sharing.touch(entry);
                    if !sharing.is_whole() {
                        fetch_shared(sharing, &mut self.lines, fetch);
                    }
                    first_of_segment(sharing, entry, run, stored, (counts.as_deref_mut(), within.as_deref_mut()));
                }
                if stored != Charge::NONE {
                    let (after, since) = (self.work.fetches.len(), State::NEW);
                    self.work.closes.push(Close { after, line: run.line, id: 0, weight: run.weight, stored, since });
                }
                if let Some(again) = next.filter(|again| usize::from(again.index) == index) {
                    let after = self.work.fetches.len();
                    self.go_on::<V>((entry, line), again, &mut before, after, bucket, counts.as_deref_mut());
                    next = followed.next();
                }
                continue;
            };
            let (mut again, mut stored_within) = (false, false);
            if let Some(sharing) = &mut self.sharing {
                again = add_holes::<V, W>(sharing, entry, run.line, &mut full, &mut by_set);
                if again {
                    stored_within = sharing.digesting.stored(entry);
                    sharing.digesting.again::<V>(entry, run.weight, full, &by_set, stored);
                } else {
                    first_of_segment(sharing, entry, run, stored, (counts.as_deref_mut(), within.as_deref_mut()));
                }
            }
            if let Some(counts) = if again { within.as_deref_mut() } else { counts.as_deref_mut() } {
                counts.add_near(kind, full, &by_set, weight);
            }
            if let Some(outcome) = self.outcome_of.get(index).and_then(|&of| self.outcomes.get_mut(of as usize)) {
                outcome.complete(full, &by_set);
            }
            let since = self.tiers.held.since(entry);
            since.raise::<V>(full, &by_set);
            if stored != Charge::NONE {
                let counts = if stored_within { within.as_deref_mut() } else { counts.as_deref_mut() };
                let after = self.work.fetches.len();
                self.store((entry, run.line), run.weight, stored, after, bucket, counts);
            }
            if let Some(again) = next.filter(|again| usize::from(again.index) == index) {
                let after = self.work.fetches.len();
                self.go_on::<V>((entry, run.line), again, &mut before, after, bucket, counts.as_deref_mut());
                next = followed.next();
            }
        }
        top.store(&mut self.tiers.top);
        self.lift::<V>(segment);
    }

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

//! What can be worked off behind: how far down a line stood by set, and what that means for its next write-back.
//!
//! What happens in the upper tiers and in the order of all lines depends on what came just before, and nothing of it on
//! what is here. So a batch leaves *work* behind, in order: which lines left the older tier and which came in, what is
//! known of each of them, and which dirty intervals end. It is worked off at once, or by another thread while the next
//! batches go through the tiers.
//!
//! Invariant: works are worked off in order, and all of them before anybody looks at the states of lines, at their
//! distances by set, or at the counts.

use crate::boxed;
use crate::counts::{Buckets, Counts};
use crate::engine::{Core, Stack, Width, of_width};
use crate::held::Since;
use crate::item::Charge;
use crate::lines::{Id, Ids, Part, REGION, REGION_BITS};
use crate::older::Move;
use crate::repeats::{Combination, Kind};
use crate::runs::{COLD, Close, Fetch, LOST, STORE, charge, first, kind};
use crate::sets::Sets;
use crate::sharing::{Position, Sharing};
use crate::simd::{self, Instructions, Task, Vector};
use crate::sink::Outcome;
use crate::top::NONE;
use crate::visit::Visit;
use crate::walk::{Walk, Walked};
use crate::{Bucket, Limits};
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Emptied works that are kept.
const SPARE: usize = 16;
/// Moves that are left for what is fed at a time, and more, when it gets late.
const SLACK: usize = 1 << 19;
/// States that are fetched ahead.
const AHEAD: usize = 8;
/// So few are looked at and set one by one.
const FEW: u32 = 16;

/// What a batch leaves.
#[derive(Clone, Debug)]
pub(crate) struct Work<const W: usize> {
    pub(crate) bucket: Bucket,
    pub(crate) moves: Vec<Move<W>>,
    pub(crate) fetches: Vec<Fetch<W>>,
    pub(crate) closes: Vec<Close<W>>,
    /// Of the line of each fetch, and of the one that had to go.
    pub(crate) ids: Vec<(Id, Id)>,
    /// After all of that: lines of the upper tiers that went to the older one, with what happened to them.
    pub(crate) lowered: Vec<(Id, State<W>)>,
    /// Those of them that are in no sheet.
    pub(crate) lower: Vec<Move<W>>,
    /// After that: lines that a loop walked over, and the loop.
    pub(crate) walked: Vec<Walked<W>>,
    pub(crate) walk: Option<Arc<Walk<W>>>,
}

impl<const W: usize> Work<W> {
    pub(crate) const fn new() -> Self {
        Self {
            bucket: Bucket::UNCOUNTED,
            moves: Vec::new(),
            fetches: Vec::new(),
            closes: Vec::new(),
            ids: Vec::new(),
            lowered: Vec::new(),
            lower: Vec::new(),
            walked: Vec::new(),
            walk: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fetches.is_empty() && self.closes.is_empty() && self.lowered.is_empty() && self.walked.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.moves.clear();
        self.fetches.clear();
        self.closes.clear();
        self.ids.clear();
        self.lowered.clear();
        self.lower.clear();
        self.walked.clear();
        self.walk = None;
    }
}

/// Of each line what its next write-back depends on. All zero: never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct State<const W: usize> {
    /// `m_a` for a = 1 ..= W: the greatest d_a since the last store, cut off as the distances are.
    pub(crate) greatest: [u8; W],
    /// `m_0`, the greatest d_0 since the last store.
    pub(crate) greatest_full: u32,
    /// Where its last store was counted.
    pub(crate) dirty: Charge,
}

impl<const W: usize> From<Since<W>> for State<W> {
    #[inline(always)]
    fn from(since: Since<W>) -> Self {
        Self { greatest: since.greatest, greatest_full: since.full, dirty: since.stored }
    }
}

impl<const W: usize> State<W> {
    pub(crate) const NEW: Self = Self { greatest: [0; W], greatest_full: 0, dirty: Charge::NONE };

    /// It was referenced at these distances.
    #[inline(always)]
    pub(crate) fn raise<V: Vector>(&mut self, full: u32, by_set: &[u8; W]) {
        self.greatest_full = self.greatest_full.max(full);
        V::raise(&mut self.greatest, by_set);
    }

    /// What a store that counts so often has counted, and where: nothing if the line was not dirty, or is where it was then.
    #[inline(always)]
    fn interval(&self, weight: u32) -> Option<(Bucket, Combination<W>)> {
        let (charged, item) = self.dirty.get().filter(|_| self.greatest_full > 0)?;
        let &Self { greatest: by_set, greatest_full: full, .. } = self;
        Some((charged, Combination { by_set, full, kind: Kind::Writeback, item, weight: weight.into() }))
    }

    /// What happened to it since.
    #[inline(always)]
    pub(crate) fn go_on<V: Vector>(&mut self, since: &Self) {
        if since.dirty == Charge::NONE {
            self.raise::<V>(since.greatest_full, &since.greatest);
        } else {
            *self = *since;
        }
    }

    /// It was stored, or cleaned.
    #[inline(always)]
    pub(crate) fn begin(&mut self, dirty: Charge) {
        *self = Self { dirty, ..Self::NEW };
    }
}

/// By id, regions as those of lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct States<const W: usize>(Vec<Box<[State<W>]>>);

impl<const W: usize> States<W> {
    /// Of a line; nothing is known of one that never came here.
    #[inline(always)]
    pub(crate) fn get(&self, id: Id) -> State<W> {
        self.0.get((id >> REGION_BITS) as usize).map_or(State::NEW, |region| region[id as usize % REGION])
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: Id) -> &mut State<W> {
        let region = (id >> REGION_BITS) as usize;
        if region >= self.0.len() {
            self.grow(region);
        }
        &mut self.0[region][id as usize % REGION]
    }

    #[cold]
    fn grow(&mut self, last: usize) {
        self.0.resize_with(last + 1, || boxed::begun(State::NEW, REGION));
    }

    /// How many of these lines, from the first one on, are in a state for which that holds.
    #[inline(always)]
    fn count(&self, mut ids: Ids, holds: impl Fn(&State<W>) -> bool) -> u32 {
        let mut count = 0;
        while let Some(Part { region, places, step, lines }) = ids.next_part() {
            let found = match self.0.get(region).map(|region| &region[places]) {
                Some(states) if step == 1 => states.iter().take_while(|state| holds(state)).count(),
                Some(states) => states.iter().step_by(step).take_while(|state| holds(state)).count(),
                None => lines as usize * usize::from(holds(&State::NEW)),
            };
            count += found as u32;
            if found < lines as usize {
                break;
            }
        }
        count
    }

    #[inline(never)]
    fn count_clean(&self, ids: Ids) -> u32 {
        self.count(ids, |state| state.dirty == Charge::NONE)
    }

    #[inline(never)]
    fn count_same(&self, ids: Ids, as_that: &State<W>) -> u32 {
        self.count(ids, |state| state == as_that)
    }

    /// That is the state of these lines from now on.
    #[inline(never)]
    fn fill(&mut self, mut ids: Ids, state: &State<W>) {
        while let Some(Part { region, places, step, .. }) = ids.next_part() {
            if region >= self.0.len() {
                self.grow(region);
            }
            let states = &mut self.0[region][places];
            if step == 1 {
                states.fill(*state);
            } else {
                states.iter_mut().step_by(step).for_each(|one| *one = *state);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, id: Id) {
        if let Some(region) = self.0.get((id >> REGION_BITS) as usize) {
            let state = &region[id as usize % REGION];
            // It may lie on two cache lines.
            simd::prefetch(state);
            simd::prefetch(&state.dirty);
        }
    }
}

/// All that is behind.
#[derive(Clone, Debug)]
pub(crate) struct Behind<const W: usize> {
    pub(crate) sets: Sets,
    pub(crate) states: States<W>,
    /// Of lines that a loop walks over, by what happens to them: distances and dirty intervals that end, of the last ones.
    alike: Vec<[Combination<W>; 2]>,
}

/// What a sink and other stacks want to know of a batch. Nobody does of one that is worked off later.
#[derive(Default)]
pub(crate) struct Told<'a, const W: usize> {
    pub(crate) sharing: Option<&'a mut Sharing<W>>,
    pub(crate) outcomes: &'a mut [Outcome],
    pub(crate) outcome_of: &'a [u32],
    /// What a loop that walks over lines asks, and along which strands it does.
    pub(crate) visit: Option<(&'a mut Visit, &'a [Range<u64>])>,
}

impl<const W: usize> Behind<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { sets: Sets::new(limits.max_set_bits, limits.max_ways), states: States::default(), alike: Vec::new() }
    }

    /// Works off what a batch left, and counts it.
    #[inline(always)]
    pub(crate) fn work_off<V: Vector>(
        &mut self,
        work: &mut Work<W>,
        buckets: &mut Buckets<W>,
        mut counts: Option<&mut Counts<W>>,
        mut told: Told<'_, W>,
    ) {
        let Work { moves, fetches, .. } = work;
        let visit = told.visit.take();
        self.sets.apply::<V, W>(moves);
        moves.iter().for_each(|step| V::add(&mut fetches[step.fetch as usize].by_set, &step.newer));
        self.settle::<V>(work, buckets, counts.as_deref_mut(), told);
        self.sets.apply::<V, W>(&mut work.lower);
        work.lowered.iter().for_each(|(id, since)| self.states.get_mut(*id).go_on::<V>(since));
        if let Some(walk) = work.walk.take() {
            self.walked::<V>(&walk, work, buckets, counts, visit);
        }
    }

    /// Counts the fetches, whose distances are now known, and brings the state of their lines and of those that had to go
    /// up to date.
    #[inline(always)]
    fn settle<V: Vector>(
        &mut self,
        work: &Work<W>,
        buckets: &mut Buckets<W>,
        mut counts: Option<&mut Counts<W>>,
        told: Told<'_, W>,
    ) {
        let Told { mut sharing, outcomes, outcome_of, .. } = told;
        let Work { bucket, fetches, closes, ids, .. } = work;
        let mut closed = 0;
        for (at, (fetch, &(id, gone))) in fetches.iter().zip(ids).enumerate() {
            if let Some(&(id, gone)) = ids.get(at + AHEAD) {
                self.states.prefetch(id);
                self.states.prefetch(gone);
            }
            while let Some(close) = closes.get(closed).filter(|close| close.after <= at) {
                self.close::<V>(close, *bucket, buckets, counts.as_deref_mut());
                closed += 1;
            }
            if fetch.gone != NONE {
                self.states.get_mut(gone).go_on::<V>(&fetch.since);
            }
            let (weight, store) = (u64::from(fetch.weight), fetch.flags & STORE != 0);
            if let Some(outcome) = outcome_of.get(fetch.run as usize).and_then(|&of| outcomes.get_mut(of as usize)) {
                (outcome.lost, outcome.cold) = (fetch.flags & LOST != 0, fetch.flags & (COLD | LOST) == COLD);
                outcome.complete(fetch.full, &fetch.by_set);
            }
            if fetch.flags & COLD != 0 {
                if let Some(counts) = counts.as_deref_mut() {
                    let of = first(fetch.flags);
                    counts.add_without_distance(of, fetch.flags & LOST != 0, store, weight);
                }
                if fetch.flags & LOST != 0
                    && let Some(sharing) = &mut sharing
                {
                    sharing.come_back(id, *bucket, weight);
                }
                continue;
            }
            if let Some(counts) = counts.as_deref_mut() {
                let ((kind, item), &Fetch { by_set, full, .. }) = (kind(fetch.flags), fetch);
                counts.add_far(Combination { by_set, full, kind, item, weight });
            }
            self.states.get_mut(id).raise::<V>(fetch.full, &fetch.by_set);
        }
        for close in &closes[closed..] {
            self.close::<V>(close, *bucket, buckets, counts.as_deref_mut());
        }
    }

    /// The first store since a line came into the upper tiers, in `bucket`, whose counts are taken out.
    #[inline(always)]
    fn close<V: Vector>(
        &mut self,
        close: &Close<W>,
        bucket: Bucket,
        buckets: &mut Buckets<W>,
        counts: Option<&mut Counts<W>>,
    ) {
        let state = self.states.get_mut(close.id);
        state.raise::<V>(close.since.greatest_full, &close.since.greatest);
        if let Some((charged, combination)) = state.interval(close.weight) {
            let counts = if charged == bucket { counts } else { buckets.of(charged) };
            counts.into_iter().for_each(|counts| counts.add_far(combination));
        }
        state.begin(close.stored);
    }

    /// Counts the lines that a loop walked over, and brings their state up to date.
    #[inline(always)]
    fn walked<V: Vector>(
        &mut self,
        walk: &Walk<W>,
        work: &Work<W>,
        buckets: &mut Buckets<W>,
        mut counts: Option<&mut Counts<W>>,
        mut visit: Option<(&mut Visit, &[Range<u64>])>,
    ) {
        let (bucket, walked, by) = (work.bucket, &work.walked, walk.firsts.by);
        let mut near: SmallVec<[_; 6]> = smallvec![0; visit.as_ref().map_or(0, |(_, strands)| strands.len())];
        // Lines to which the same happens are often alike.
        let mut alike = std::mem::take(&mut self.alike);
        alike.resize(walk.whats().len(), [Combination::NONE; 2]);
        for (at, line) in walked.iter().enumerate() {
            if let Some(next) = walked.get(at + AHEAD) {
                self.states.prefetch(next.id);
            }
            let what = &walk.whats()[line.what as usize];
            let [distances, intervals] = &mut alike[line.what as usize];
            let mut by_set = line.by_set;
            if line.last != 0 {
                V::add(&mut by_set, &self.above::<V>(line));
            }
            if let Some((visit, strands)) = &mut visit
                && let Some((strand, number)) = line.place(strands)
            {
                let here = (!line.is_cold).then(|| Position::new(line.full, &by_set));
                visit.walked((number, line.lines, by * u64::from(line.apart)), what, here, &mut near[strand]);
            }
            if let Some(counts) = counts.as_deref_mut() {
                let weight = line.lines.into();
                if line.is_cold {
                    counts.add_without_distance(first(what.flags), false, what.flags & STORE != 0, weight);
                } else {
                    let (kind, item) = kind(what.flags);
                    counts.add_alike(distances, Combination { by_set, full: line.full, kind, item, weight });
                }
            }
            let (mut done, stores) = (0, what.stores());
            let ids = Ids { first: line.id, step: line.id_step, count: line.lines };
            while done < line.lines {
                let before = self.states.get(ids.number(done));
                let (first, many) = (done, line.lines - done > FEW);
                done += 1;
                // Nothing of a clean line matters until it is stored.
                if before.dirty == Charge::NONE && !stores {
                    done += if many { self.states.count_clean(ids.beyond(done)) } else { 0 };
                    continue;
                }
                if many {
                    done += self.states.count_same(ids.beyond(done), &before);
                } else {
                    while done < line.lines && self.states.get(ids.number(done)) == before {
                        done += 1;
                    }
                }
                let mut state = before;
                if !line.is_cold {
                    state.raise::<V>(line.full, &by_set);
                }
                let mut store = |state: &mut State<W>, weight: u32, stored: Charge| {
                    if let Some((charged, mut combination)) = state.interval(weight) {
                        combination.weight *= u64::from(done - first);
                        match (charged == bucket, counts.as_deref_mut()) {
                            (true, Some(counts)) => counts.add_alike(intervals, combination),
                            (true, None) => {}
                            (false, _) => {
                                buckets.of(charged).into_iter().for_each(|counts| counts.add_far(combination))
                            }
                        }
                    }
                    state.begin(stored);
                };
                let stored = charge(what.flags, bucket);
                if stored != Charge::NONE {
                    store(&mut state, 1, stored);
                }
                if let Some(again) = &what.again {
                    if let Some(before) = &what.before {
                        state.raise::<V>(before.full, before.by_set());
                        store(&mut state, again.closes, again.stored);
                    }
                    if again.stored != Charge::NONE {
                        state.begin(again.stored);
                    }
                    state.raise::<V>(again.after.full, again.after.by_set());
                }
                if state == before {
                    continue;
                }
                if many {
                    self.states.fill(Ids { count: done, ..ids }.beyond(first), &state);
                } else {
                    (first..done).for_each(|number| *self.states.get_mut(ids.number(number)) = state);
                }
            }
        }
        if let Some(counts) = counts {
            alike.as_flattened().iter().filter(|found| found.weight > 0).for_each(|&found| counts.add_far(found));
        }
        alike.clear();
        self.alike = alike;
    }

    /// How many lines that are in no sheet are above one that a loop walked over, which was one of them or not.
    #[inline(never)]
    fn above<V: Vector>(&mut self, line: &Walked<W>) -> [u8; W] {
        let mut moves = [Move::up(line.line, line.last, line.is_single)];
        self.sets.apply::<V, W>(&mut moves);
        moves[0].newer
    }
}

/// What works change, and what they count where that is not counted with the rest of the stack.
#[derive(Clone, Debug)]
pub(crate) struct Load<const W: usize> {
    pub(crate) behind: Box<Behind<W>>,
    pub(crate) buckets: Buckets<W>,
}

impl<const W: usize> Load<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { behind: Box::new(Behind::new(limits)), buckets: Buckets::new(limits) }
    }

    #[inline(always)]
    fn work_off<V: Vector>(&mut self, work: &mut Work<W>) {
        let mut counts = self.buckets.take(work.bucket);
        self.behind.work_off::<V>(work, &mut self.buckets, counts.as_deref_mut(), Told::default());
        if let Some(counts) = counts.as_deref_mut() {
            counts.spread::<V>();
        }
        self.buckets.put(work.bucket, counts);
        work.clear();
    }
}

/// What a stack leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct Left<const W: usize> {
    /// `None`: it is elsewhere.
    pub(crate) load: Option<Load<W>>,
    /// What waits, in order.
    pub(crate) works: VecDeque<Work<W>>,
    /// Works with nothing but their memory.
    pub(crate) spare: Vec<Work<W>>,
}

impl<const W: usize> Left<W> {
    pub(crate) fn new(load: Option<Load<W>>) -> Self {
        Self { load, works: VecDeque::new(), spare: Vec::new() }
    }

    /// What comes after it.
    fn add(&mut self, mut later: Self) {
        self.load = self.load.take().or(later.load);
        self.works.append(&mut later.works);
        self.spare.append(&mut later.spare);
        self.spare.truncate(SPARE);
    }

    /// Works off what waits, unless the load is elsewhere.
    #[inline(always)]
    pub(crate) fn work_off<V: Vector>(&mut self) {
        let Some(load) = &mut self.load else { return };
        for mut work in self.works.drain(..) {
            load.work_off::<V>(&mut work);
            self.spare.push(work);
        }
        self.spare.truncate(SPARE);
    }
}

/// What a [`Stack`] left behind, for another thread to work off.
#[derive(Debug)]
pub struct Deferred {
    left: Lefts,
    instructions: Instructions,
}

/// By the width of the stack.
#[derive(Debug)]
enum Lefts {
    Usual(Left<16>),
    Wide(Left<24>),
}

impl Deferred {
    /// Batches of references that wait.
    #[must_use]
    pub fn works(&self) -> usize {
        match &self.left {
            Lefts::Usual(left) => left.works.len(),
            Lefts::Wide(left) => left.works.len(),
        }
    }

    /// Takes up what the same stack left later.
    pub fn add(&mut self, later: Self) {
        match (&mut self.left, later.left) {
            (Lefts::Usual(left), Lefts::Usual(later)) => left.add(later),
            (Lefts::Wide(left), Lefts::Wide(later)) => left.add(later),
            _ => debug_assert!(false, "of the same stack"),
        }
    }

    /// Works off what waits, unless what that needs is in what was taken before. That has to come first.
    pub fn work_off(&mut self) {
        match &mut self.left {
            Lefts::Usual(left) => simd::run(Settle { left }, self.instructions),
            Lefts::Wide(left) => simd::run(Settle { left }, self.instructions),
        }
    }
}

impl<const W: usize> Core<W> {
    fn take_left(&mut self) -> Left<W> {
        let Left { load, works, .. } = &mut self.left;
        Left { load: load.take(), works: std::mem::take(works), spare: Vec::new() }
    }

    fn put_back(&mut self, mut left: Left<W>) {
        left.add(std::mem::replace(&mut self.left, Left::new(None)));
        self.left = left;
    }

    fn is_settled(&mut self) -> bool {
        // The clock restarts where nothing waits.
        self.deferred &= !self.older.late(SLACK);
        self.left.works.is_empty() && self.left.load.is_some()
    }
}

impl Stack {
    /// From now on half of the work is left behind, until it is worked off elsewhere ([`Stack::take_deferred`]) or here
    /// ([`Stack::settle`]). Not where lines can be taken away.
    pub fn defer(&mut self) {
        of_width!(&mut self.core, core => core.deferred = core.sharing.is_none() && !core.older.late(SLACK));
    }

    /// From now on nothing is. When all of it is worked off.
    pub fn defer_no_more(&mut self) {
        of_width!(&mut self.core, core => {
            debug_assert!(core.left.works.is_empty() && core.left.load.is_some(), "works that wait");
            core.deferred = false;
        });
    }

    /// Whether it leaves anything behind: where it does not, or not any more, all that was taken has to come back.
    #[must_use]
    pub fn defers(&self) -> bool {
        of_width!(&self.core, core => core.deferred && !core.older.late(SLACK))
    }

    /// Lines in what it left behind since the last time.
    #[must_use]
    pub fn left(&self) -> usize {
        of_width!(&self.core, core => {
            core.left.works.iter().map(|work| work.fetches.len() + work.walked.len()).sum()
        })
    }

    /// What it left behind since the last time.
    pub fn take_deferred(&mut self) -> Deferred {
        let left = match &mut self.core {
            Width::Usual(core) => Lefts::Usual(core.take_left()),
            Width::Wide(core) => Lefts::Wide(core.take_left()),
        };
        Deferred { left, instructions: self.instructions }
    }

    /// Memory of what is worked off, for what will be left.
    pub fn take_spare(&mut self, deferred: &mut Deferred) {
        match (&mut self.core, &mut deferred.left) {
            (Width::Usual(core), Lefts::Usual(left)) => core.left.spare.append(&mut left.spare),
            (Width::Wide(core), Lefts::Wide(left)) => core.left.spare.append(&mut left.spare),
            _ => debug_assert!(false, "of the same stack"),
        }
    }

    /// All that was taken and not given back before comes back.
    pub fn put_back(&mut self, deferred: Deferred) {
        match (&mut self.core, deferred.left) {
            (Width::Usual(core), Lefts::Usual(left)) => core.put_back(left),
            (Width::Wide(core), Lefts::Wide(left)) => core.put_back(left),
            _ => debug_assert!(false, "it was taken from this stack"),
        }
    }

    /// Works off what waits; whether all of it is, which must be before anything is asked: not if some is elsewhere.
    pub fn settle(&mut self) -> bool {
        let instructions = self.instructions;
        match &mut self.core {
            Width::Usual(core) => simd::run(Settle { left: &mut core.left }, instructions),
            Width::Wide(core) => simd::run(Settle { left: &mut core.left }, instructions),
        }
        of_width!(&mut self.core, core => {
            if core.older.late(SLACK) {
                core.restart(instructions);
            }
            core.is_settled()
        })
    }
}

/// Works off what waits.
pub(crate) struct Settle<'a, const W: usize> {
    pub(crate) left: &'a mut Left<W>,
}

impl<const W: usize> Task for Settle<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.left.work_off::<V>();
    }
}

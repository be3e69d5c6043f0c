//! What can be worked off behind: how far down a line stood by set, and what that means for its next write-back.
//!
//! What happens in the upper tiers and in the order of all lines depends on what came just before, and nothing of it on
//! what is here. So a batch leaves *work* behind, in order: which lines left the older tier and which came in, what is
//! known of each of them, and which dirty intervals end. It is worked off at once, or by another thread while the next
//! batches go through the tiers.
//!
//! Invariant: works are worked off in order, and all of them before anybody looks at the states of lines, at their
//! distances by set, or at the counts.

use crate::counts::{Buckets, Counts};
use crate::engine::{Core, Stack, Width, of_width};
use crate::item::Charge;
use crate::lines::{Id, REGION, REGION_BITS};
use crate::older::Move;
use crate::repeats::Kind;
use crate::runs::{COLD, Close, Fetch, LOST, STORE, first, kind};
use crate::sets::Sets;
use crate::sharing::Sharing;
use crate::simd::{self, Instructions, Task, Vector};
use crate::sink::Outcome;
use crate::{Bucket, Limits};
use std::collections::VecDeque;

/// Emptied works that are kept.
const SPARE: usize = 16;
/// Moves that are left for what is fed at a time, and more, when it gets late.
const SLACK: usize = 1 << 19;
/// States that are fetched ahead.
const AHEAD: usize = 8;

/// What a batch leaves.
#[derive(Clone, Debug)]
pub(crate) struct Work<const W: usize> {
    pub(crate) bucket: Bucket,
    pub(crate) moves: Vec<Move<W>>,
    pub(crate) fetches: Vec<Fetch<W>>,
    pub(crate) closes: Vec<Close<W>>,
    /// Of the line of each fetch, and of the one that had to go.
    pub(crate) ids: Vec<(Id, Id)>,
}

impl<const W: usize> Work<W> {
    pub(crate) const fn new() -> Self {
        Self { bucket: Bucket::UNCOUNTED, moves: Vec::new(), fetches: Vec::new(), closes: Vec::new(), ids: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.moves.clear();
        self.fetches.clear();
        self.closes.clear();
        self.ids.clear();
    }
}

/// Of each line what its next write-back depends on. All zero: never stored.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct State<const W: usize> {
    /// `m_a` for a = 1 ..= W: the greatest d_a since the last store, cut off as the distances are.
    pub(crate) greatest: [u8; W],
    /// `m_0`, the greatest d_0 since the last store.
    pub(crate) greatest_full: u32,
    /// Where its last store was counted.
    pub(crate) dirty: Charge,
}

impl<const W: usize> State<W> {
    pub(crate) const NEW: Self = Self { greatest: [0; W], greatest_full: 0, dirty: Charge::NONE };

    /// It was referenced at these distances.
    #[inline(always)]
    pub(crate) fn raise<V: Vector>(&mut self, full: u32, by_set: &[u8; W]) {
        self.greatest_full = self.greatest_full.max(full);
        V::raise(&mut self.greatest, by_set);
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
        self.0.resize_with(last + 1, || vec![State::NEW; REGION].into_boxed_slice());
    }

    #[inline(always)]
    fn prefetch<V: Vector>(&self, id: Id) {
        if let Some(region) = self.0.get((id >> REGION_BITS) as usize) {
            V::prefetch(&region[id as usize % REGION]);
        }
    }

    /// Ids of all lines that were stored when they last left the upper tiers, in no particular order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Id> + '_ {
        self.0.iter().enumerate().flat_map(|(region, lines)| {
            let dirty = lines.iter().enumerate().filter(|(_, line)| line.dirty != Charge::NONE);
            dirty.map(move |(line, _)| (region << REGION_BITS | line) as Id)
        })
    }
}

/// All that is behind.
#[derive(Clone, Debug)]
pub(crate) struct Behind<const W: usize> {
    pub(crate) sets: Sets,
    pub(crate) states: States<W>,
}

/// What a sink and other stacks want to know of a batch. Nobody does of one that is worked off later.
#[derive(Default)]
pub(crate) struct Told<'a, const W: usize> {
    pub(crate) sharing: Option<&'a mut Sharing<W>>,
    pub(crate) outcomes: &'a mut [Outcome],
    pub(crate) outcome_of: &'a [u32],
}

impl<const W: usize> Behind<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { sets: Sets::new(limits.max_set_bits, limits.max_ways), states: States::default() }
    }

    /// Works off what a batch left, and counts it.
    #[inline(always)]
    pub(crate) fn work_off<V: Vector>(
        &mut self,
        work: &mut Work<W>,
        buckets: &mut Buckets<W>,
        counts: Option<&mut Counts<W>>,
        told: Told<'_, W>,
    ) {
        let Work { moves, fetches, .. } = work;
        self.sets.apply::<V, W>(moves);
        moves.iter().for_each(|step| V::add(&mut fetches[step.fetch as usize].by_set, &step.newer));
        self.settle::<V>(work, buckets, counts, told);
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
        let Told { mut sharing, outcomes, outcome_of } = told;
        let Work { bucket, fetches, closes, ids, .. } = work;
        let mut closed = 0;
        for (at, (fetch, &(id, gone))) in fetches.iter().zip(ids).enumerate() {
            if let Some(&(id, gone)) = ids.get(at + AHEAD) {
                self.states.prefetch::<V>(id);
                self.states.prefetch::<V>(gone);
            }
            while let Some(close) = closes.get(closed).filter(|close| close.after <= at) {
                self.close::<V>(close, *bucket, buckets, counts.as_deref_mut());
                closed += 1;
            }
            if let Some((_, since)) = &fetch.gone {
                let state = self.states.get_mut(gone);
                if since.stored == Charge::NONE {
                    state.raise::<V>(since.full, &since.greatest);
                } else {
                    *state = State { greatest: since.greatest, greatest_full: since.full, dirty: since.stored };
                }
            }
            let (weight, store) = (u64::from(fetch.weight), fetch.flags & STORE != 0);
            if let Some(&outcome) = outcome_of.get(fetch.run as usize) {
                let outcome = &mut outcomes[outcome as usize];
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
                counts.add_far(kind(fetch.flags), fetch.full, &fetch.by_set, weight);
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
        state.raise::<V>(close.since.full, &close.since.greatest);
        if let Some((charged, item)) = state.dirty.get().filter(|_| state.greatest_full > 0) {
            let counts = if charged == bucket { counts } else { buckets.of(charged) };
            if let Some(counts) = counts {
                let weight = u64::from(close.weight);
                counts.add_far((Kind::Writeback, item), state.greatest_full, &state.greatest, weight);
            }
        }
        state.begin(close.stored);
    }
}

/// Works of a stack that are worked off by another thread, and what that needs. Nothing else has it meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Load<const W: usize> {
    pub(crate) behind: Box<Behind<W>>,
    pub(crate) buckets: Buckets<W>,
    pub(crate) works: VecDeque<Work<W>>,
}

impl<const W: usize> Load<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        let behind = Box::new(Behind::new(limits));
        Self { behind, buckets: Buckets::new(limits), works: VecDeque::new() }
    }

    #[inline(always)]
    pub(crate) fn work_off<V: Vector>(&mut self) {
        for work in &mut self.works {
            let mut counts = self.buckets.take(work.bucket);
            self.behind.work_off::<V>(work, &mut self.buckets, counts.as_deref_mut(), Told::default());
            if let Some(counts) = counts.as_deref_mut() {
                counts.spread();
            }
            self.buckets.put(work.bucket, counts);
            work.clear();
        }
    }
}

impl<const W: usize> Core<W> {
    fn take_load(&mut self) -> Option<Load<W>> {
        if self.waiting.is_empty() {
            return None;
        }
        let mut load = self.load.take()?;
        std::mem::swap(&mut load.works, &mut self.waiting);
        Some(load)
    }

    fn put_load_back(&mut self, mut load: Load<W>) {
        self.spare.extend(load.works.drain(..));
        self.spare.truncate(SPARE);
        self.load = Some(load);
    }

    fn is_behind(&self, most: usize) -> bool {
        self.deferred && (self.waiting.len() > most || self.older.late(SLACK))
    }

    fn is_settled(&mut self) -> bool {
        // The clock restarts where nothing waits.
        self.deferred &= !self.older.late(SLACK);
        self.waiting.is_empty() && self.load.is_some()
    }
}

/// Works of a [`Stack`] on their way to another thread and back.
#[derive(Debug)]
pub struct Deferred {
    load: Loads,
    instructions: Instructions,
}

/// By the width of the stack.
#[derive(Debug)]
enum Loads {
    Usual(Load<16>),
    Wide(Load<24>),
}

impl Deferred {
    /// Works them off.
    pub fn work_off(&mut self) {
        match &mut self.load {
            Loads::Usual(load) => simd::run(WorkOff { load }, self.instructions),
            Loads::Wide(load) => simd::run(WorkOff { load }, self.instructions),
        }
    }
}

/// Works all off.
struct WorkOff<'a, const W: usize> {
    load: &'a mut Load<W>,
}

impl<const W: usize> Task for WorkOff<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.load.work_off::<V>();
    }
}

impl Stack {
    /// From now on half of the work waits for [`Stack::take_deferred`] or [`Stack::settle`], which must come before anything is
    /// asked. Not where lines can be taken away.
    pub fn defer(&mut self) {
        of_width!(&mut self.core, core => core.deferred = core.sharing.is_none());
    }

    /// What waits, for another thread to work off and then [`Stack::put_back`]; `None` if nothing does or some of it is on its
    /// way.
    pub fn take_deferred(&mut self) -> Option<Deferred> {
        let load = match &mut self.core {
            Width::Usual(core) => Loads::Usual(core.take_load()?),
            Width::Wide(core) => Loads::Wide(core.take_load()?),
        };
        Some(Deferred { load, instructions: self.instructions })
    }

    /// What was taken comes back, worked off.
    pub fn put_back(&mut self, deferred: Deferred) {
        match (&mut self.core, deferred.load) {
            (Width::Usual(core), Loads::Usual(load)) => core.put_load_back(load),
            (Width::Wide(core), Loads::Wide(load)) => core.put_load_back(load),
            _ => debug_assert!(false, "it was taken from this stack"),
        }
    }

    /// Whether more than so many batches of references wait, or it has to settle for other reasons before it is fed again.
    #[must_use]
    pub fn is_behind(&self, most: usize) -> bool {
        of_width!(&self.core, core => core.is_behind(most))
    }

    /// Works off what waits; whether all of it is: not if some is on its way.
    pub fn settle(&mut self) -> bool {
        if let Some(mut deferred) = self.take_deferred() {
            deferred.work_off();
            self.put_back(deferred);
        }
        of_width!(&mut self.core, core => core.is_settled())
    }
}

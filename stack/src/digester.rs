//! Digests of references whose stack is busy with those before them.
//!
//! What a segment hands on depends on nothing that came before it, so segments can be worked off in any order, by several
//! threads at a time, each with a [`Digester`] of its own. Only the [`crate::Stack`] that takes the digests needs them in
//! order.
//!
//! Invariant: the tiers hold the lines of the segment and no others, none leaves them, and a line's entry is its place in
//! the segment. So a line that is found was referenced in the segment before, and its distances are right.

use crate::counts::{Buckets, Counts};
use crate::digest::{Digest, Draft, LINES, Of, Within};
use crate::engine::{BATCH, Stack, Width};
use crate::held::Since;
use crate::item::Charge;
use crate::repeats::Kind;
use crate::runs::{Run, STORE, charge, first, kind, strip};
use crate::simd::{self, Instructions, Task, Vector};
use crate::tiers::Tiers;
use crate::top::Order;
use crate::{Bucket, Chunk, Item, Limits};

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Digester {
    core: Core,
    instructions: Instructions,
}

#[derive(Clone, Debug)]
enum Core {
    Usual(Box<Segments<16>>),
    Wide(Box<Segments<24>>),
}

/// The segment that goes on, those before it, and what is counted.
#[derive(Clone, Debug)]
struct Segments<const W: usize> {
    tiers: Tiers<W>,
    draft: Draft,
    /// Whether a line was referenced again when others had come.
    again: bool,
    /// What is counted within them.
    within: Buckets<W>,
    limits: Limits,
    runs: Vec<Run>,
}

impl Digester {
    /// For stacks of these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let core = match limits.max_set_bits {
            0..=16 => Core::Usual(Box::new(Segments::new(limits))),
            _ => Core::Wide(Box::new(Segments::new(limits))),
        };
        Self { core, instructions: Instructions::best() }
    }

    /// The same with these instructions.
    ///
    /// # Panics
    /// If this processor does not have them.
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Self {
        assert!(instructions.available(), "no such instructions here");
        Self { instructions, ..self }
    }

    /// Takes a chunk.
    pub fn feed_chunk(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        match &mut self.core {
            _ if chunk.references.is_empty() => {}
            Core::Usual(segments) => simd::run(Feed { segments, chunk, bucket }, self.instructions),
            Core::Wide(segments) => simd::run(Feed { segments, chunk, bucket }, self.instructions),
        }
    }

    /// What a stack needs of what was fed since the last time, all of it in one bucket, for [`Stack::feed_digest`].
    /// In exchange for an empty one.
    pub fn take_digest(&mut self, empty: Digest) -> Digest {
        match &mut self.core {
            Core::Usual(segments) => segments.take(empty),
            Core::Wide(segments) => segments.take(empty),
        }
    }

    /// What was counted within segments since the last time, for [`Stack::absorb`].
    pub fn take_within(&mut self) -> Within {
        Within(match &mut self.core {
            Core::Usual(segments) => Of::Usual(segments.take_within()),
            Core::Wide(segments) => Of::Wide(segments.take_within()),
        })
    }
}

impl Stack {
    /// Counts what was counted within the segments of digests.
    pub fn absorb(&mut self, within: &Within) {
        match (&mut self.core, &within.0) {
            (Width::Usual(core), Of::Usual(within)) => core.buckets.absorb(within),
            (Width::Wide(core), Of::Wide(within)) => core.buckets.absorb(within),
            _ => debug_assert!(false, "a stack of the same limits"),
        }
    }
}

/// Takes a chunk.
struct Feed<'a, 'b, const W: usize> {
    segments: &'a mut Segments<W>,
    chunk: Chunk<'b>,
    bucket: Bucket,
}

impl<const W: usize> Task for Feed<'_, '_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.segments.feed::<V>(self.chunk, self.bucket);
    }
}

impl<const W: usize> Segments<W> {
    fn new(limits: Limits) -> Self {
        let (tiers, within) = (Tiers::new(), Buckets::new(limits));
        Self { tiers, draft: Draft::new(), again: false, within, limits, runs: Vec::new() }
    }

    fn take(&mut self, empty: Digest) -> Digest {
        self.cut();
        self.draft.take(empty)
    }

    fn take_within(&mut self) -> Buckets<W> {
        std::mem::replace(&mut self.within, Buckets::new(self.limits))
    }

    #[inline(always)]
    fn feed<V: Vector>(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        let mut counts = self.within.take(bucket);
        for (piece, weight) in chunk.pieces() {
            self.feed_piece::<V>(piece, weight, bucket, counts.as_deref_mut());
        }
        self.within.put(bucket, counts);
    }

    #[inline(always)]
    fn feed_piece<V: Vector>(
        &mut self,
        mut piece: Chunk<'_>,
        weight: u32,
        bucket: Bucket,
        mut counts: Option<&mut Counts<W>>,
    ) {
        while !piece.references.is_empty() {
            let (mut runs, mut references) = (std::mem::take(&mut self.runs), [0; 2]);
            strip(&mut runs, piece.take(BATCH), weight, &mut references, |item, store| {
                counts.iter_mut().for_each(|counts| counts.add_references(item, store, weight.into()));
            });
            if let Some(counts) = counts.as_deref_mut() {
                counts.add_references(Item::NONE, false, references[0]);
                counts.add_references(Item::NONE, true, references[1]);
            }
            self.reference::<V>(&runs, bucket, counts.as_deref_mut());
            runs.clear();
            self.runs = runs;
            if let Some(counts) = counts.as_deref_mut() {
                counts.spread();
            }
        }
    }

    /// Runs through the tiers.
    #[inline(always)]
    fn reference<V: Vector>(&mut self, runs: &[Run], bucket: Bucket, mut counts: Option<&mut Counts<W>>) {
        let (mut stamps, mut top) = (self.tiers.newest.stamps::<V>(), V::Top::load(&self.tiers.top));
        for &run in runs {
            let Run { line, weight, flags } = run;
            let stored = charge(flags, bucket);
            let Some((entry, full, by_set)) = self.tiers.reference::<V>(&mut stamps, &mut top, line) else {
                if self.draft.len() == LINES {
                    top.store(&mut self.tiers.top);
                    self.cut();
                    (stamps, top) = (self.tiers.newest.stamps::<V>(), V::Top::load(&self.tiers.top));
                }
                let (entry, _) = self.tiers.enter::<V>(&mut stamps, top, line, Since::now(stored));
                top = top.push(line, entry);
                debug_assert_eq!(usize::from(entry), self.draft.len(), "entries are places");
                self.draft.first(run);
                if let Some(counts) = counts.as_deref_mut() {
                    counts.take_references(first(flags), flags & STORE != 0, weight.into());
                }
                continue;
            };
            let place = usize::from(entry);
            self.again |= place + 1 < self.draft.len();
            self.draft.again(place);
            let since = self.tiers.held.since(entry);
            since.raise::<V>(full, &by_set);
            if let Some(counts) = counts.as_deref_mut() {
                counts.add_near(kind(flags), full, &by_set, weight.into());
                if let Some((_, item)) = since.stored.get().filter(|_| stored != Charge::NONE && since.full > 0) {
                    counts.add_near((Kind::Writeback, item), since.full, &since.greatest, weight.into());
                }
            }
            if stored != Charge::NONE {
                if since.stored == Charge::NONE {
                    self.draft.close(place, weight, since);
                }
                *since = Since::now(stored);
            }
        }
        top.store(&mut self.tiers.top);
    }

    /// The segment ends.
    fn cut(&mut self) {
        if self.draft.len() == 0 {
            return;
        }
        let tiers = &self.tiers;
        let order = std::mem::take(&mut self.again).then(|| tiers.oldest_first().zip(0..));
        let order = order.into_iter().flatten().skip_while(|(entry, place)| entry == place).map(|(entry, _)| entry);
        self.draft.cut(|index| tiers.held.since_of(index as u16), order);
        self.tiers.clear();
    }
}

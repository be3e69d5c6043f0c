//! Digests of references whose stack is busy with those before them.
//!
//! What a segment hands on depends on nothing that came before it, so segments can be worked off in any order, by several
//! threads at a time, each with a [`Digester`] of its own. Only the [`crate::Stack`] that takes the digests needs them in
//! order.
//!
//! Invariant: the tiers hold the lines of the segment and no others, none leaves them, and a line's entry is its place in
//! the segment. So a line that is found was referenced in the segment before, and its distances are right.

use crate::counts::Buckets;
use crate::digest::{Digest, Draft, LINES, Of, Segment, Within};
use crate::engine::{BATCH, Stack, Width};
use crate::held::{Entry, Since};
use crate::item::Charge;
use crate::repeats::Kind;
use crate::runs::{Run, charge, kind, strip};
use crate::simd::{self, Instructions, Task, Vector};
use crate::template::{Count, Learn, Templates};
use crate::tiers::Tiers;
use crate::top::Order;
use crate::{Bucket, Chunk, Found, Item, Learns, Limits, Piece};

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Digester {
    core: Core,
    instructions: Instructions,
}

#[derive(Clone, Debug)]
enum Core {
    Usual(Box<Making<16>>),
    Wide(Box<Making<24>>),
}

/// Does the same with the core, whatever its width.
macro_rules! of_width {
    ($width:expr, $core:ident => $work:expr) => {
        match $width {
            Core::Usual($core) => $work,
            Core::Wide($core) => $work,
        }
    };
}

/// Segments and what is counted within them.
#[derive(Clone, Debug)]
struct Making<const W: usize> {
    segments: Segments<W>,
    templates: Templates<W>,
    within: Buckets<W>,
    limits: Limits,
}

/// The segment that goes on, and those before it.
#[derive(Clone, Debug)]
pub(crate) struct Segments<const W: usize> {
    tiers: Tiers<W>,
    draft: Draft,
    /// Whether a line was referenced again when others had come.
    again: bool,
    runs: Vec<Run>,
}

impl Digester {
    /// For stacks of these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let core = match limits.max_set_bits {
            0..=16 => Core::Usual(Box::new(Making::new(limits))),
            _ => Core::Wide(Box::new(Making::new(limits))),
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
        if !chunk.is_empty() {
            of_width!(&mut self.core, making => simd::run(Feed { making, chunk, bucket }, self.instructions));
        }
    }

    /// What a stack needs of what was fed since the last time, all of it in one bucket, for [`Stack::feed_digest`].
    /// In exchange for an empty one.
    pub fn take_digest(&mut self, empty: Digest) -> Digest {
        of_width!(&mut self.core, making => making.segments.take(empty))
    }

    /// What was counted within segments since the last time, for [`Stack::absorb`].
    pub fn take_within(&mut self) -> Within {
        Within(match &mut self.core {
            Core::Usual(making) => Of::Usual(making.take_within()),
            Core::Wide(making) => Of::Wide(making.take_within()),
        })
    }
}

impl Learns for Digester {
    fn seeks(&mut self) -> bool {
        of_width!(&mut self.core, making => making.templates.wanted())
    }

    fn find(&mut self, key: &[u64], bucket: Bucket) -> Found {
        of_width!(&mut self.core, making => making.templates.find(key, bucket))
    }

    fn learn(&mut self, key: &[u64], base: u64, chunk: Chunk<'_>, bucket: Bucket) {
        of_width!(&mut self.core, making => {
            let Making { templates, within, .. } = &mut **making;
            simd::run(Learn { templates, key: (key, bucket), base, chunk, buckets: within }, self.instructions);
        });
    }

    fn take(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        self.feed_chunk(chunk, bucket);
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

/// Takes the references of a chunk to learn from.
pub(crate) struct Read<'a, 'b, C, const W: usize> {
    pub(crate) segments: &'a mut Segments<W>,
    pub(crate) chunk: Chunk<'b>,
    pub(crate) bucket: Bucket,
    pub(crate) counts: &'a mut C,
}

impl<C: Count<W>, const W: usize> Task for Read<'_, '_, C, W> {
    type Answer = Digest;

    #[inline(always)]
    fn run<V: Vector>(self) -> Digest {
        for piece in self.chunk.pieces() {
            if let Piece::References(piece, weight) = piece {
                self.segments.feed_piece::<V, C>(piece, weight, self.bucket, Some(self.counts));
            }
        }
        self.segments.take(Digest::default())
    }
}

/// Takes a chunk.
struct Feed<'a, 'b, const W: usize> {
    making: &'a mut Making<W>,
    chunk: Chunk<'b>,
    bucket: Bucket,
}

impl<const W: usize> Task for Feed<'_, '_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Making { segments, templates, within, .. } = self.making;
        let mut counts = within.take(self.bucket);
        for piece in self.chunk.pieces() {
            match piece {
                Piece::References(piece, weight) => {
                    segments.feed_piece::<V, _>(piece, weight, self.bucket, counts.as_deref_mut());
                }
                Piece::Use(mut found) => {
                    templates.used(found.template, found.times);
                    while let Some(base) = found.next() {
                        let segment = templates.segment(found.template, base);
                        segments.feed_segment::<V, _>(segment, self.bucket, counts.as_deref_mut());
                    }
                }
            }
        }
        within.put(self.bucket, counts);
    }
}

impl<const W: usize> Making<W> {
    fn new(limits: Limits) -> Self {
        Self { segments: Segments::new(), templates: Templates::new(), within: Buckets::new(limits), limits }
    }

    fn take_within(&mut self) -> Buckets<W> {
        self.templates.count(&mut self.within);
        std::mem::replace(&mut self.within, Buckets::new(self.limits))
    }
}

impl<const W: usize> Segments<W> {
    pub(crate) fn new() -> Self {
        Self { tiers: Tiers::new(), draft: Draft::new(), again: false, runs: Vec::new() }
    }

    pub(crate) fn take(&mut self, empty: Digest) -> Digest {
        self.cut();
        self.draft.take(empty)
    }

    /// References, counted.
    #[inline(always)]
    pub(crate) fn feed_piece<V: Vector, C: Count<W>>(
        &mut self,
        mut piece: Chunk<'_>,
        weight: u32,
        bucket: Bucket,
        mut counts: Option<&mut C>,
    ) {
        while !piece.references.is_empty() {
            let (mut runs, mut references) = (std::mem::take(&mut self.runs), [0; 2]);
            strip(&mut runs, 0, piece.take(BATCH), weight, &mut references, |item, store| {
                counts.iter_mut().for_each(|counts| counts.references(item, store, weight.into()));
            });
            if let Some(counts) = counts.as_deref_mut() {
                counts.references(Item::NONE, false, references[0]);
                counts.references(Item::NONE, true, references[1]);
            }
            let segment = Segment { lines: &runs, ..Segment::default() };
            self.reference::<V, C>(segment, bucket, counts.as_deref_mut());
            runs.clear();
            self.runs = runs;
            if let Some(counts) = counts.as_deref_mut() {
                counts.spread::<V>();
            }
        }
    }

    /// A segment, of which all that is not the first reference to a line is counted.
    #[inline(always)]
    fn feed_segment<V: Vector, C: Count<W>>(&mut self, segment: Segment<'_>, bucket: Bucket, counts: Option<&mut C>) {
        // All of its lines have to be there at its end.
        if self.draft.len() + segment.lines.len() > LINES {
            self.cut();
        }
        self.reference::<V, C>(segment, bucket, counts);
    }

    /// Through the tiers.
    #[inline(always)]
    fn reference<V: Vector, C: Count<W>>(&mut self, segment: Segment<'_>, bucket: Bucket, mut counts: Option<&mut C>) {
        let (mut stamps, mut top) = (self.tiers.newest.stamps::<V>(), V::Top::load(&self.tiers.top));
        let (mut followed, mut before) = (segment.again.iter(), segment.before.iter());
        let mut next = followed.next();
        for (index, &run) in segment.lines.iter().enumerate() {
            let run = Run { line: run.line.wrapping_add(segment.base), ..run };
            let (stored, weight) = (charge(run.flags, bucket), u64::from(run.weight));
            let here = self.tiers.reference::<V>(&mut stamps, &mut top, run.line);
            let place = if let Some((entry, full, by_set)) = here {
                let place = usize::from(entry);
                self.again |= place + 1 < self.draft.len();
                self.draft.again(place);
                self.tiers.held.since(entry).raise::<V>(full, &by_set);
                if let Some(counts) = counts.as_deref_mut() {
                    counts.distances(kind(run.flags), full, &by_set, weight);
                    counts.again(place, run, full, &by_set);
                }
                if stored != Charge::NONE {
                    self.store(place, run.weight, stored, counts.as_deref_mut());
                }
                place
            } else {
                if self.draft.len() == LINES {
                    top.store(&mut self.tiers.top);
                    self.cut();
                    (stamps, top) = (self.tiers.newest.stamps::<V>(), V::Top::load(&self.tiers.top));
                }
                let (entry, _) = self.tiers.enter::<V>(&mut stamps, top, run.line);
                top = top.push(run.line, entry);
                *self.tiers.held.since(entry) = Since::now(stored);
                debug_assert_eq!(usize::from(entry), self.draft.len(), "entries are places");
                self.draft.first(run);
                if let Some(counts) = counts.as_deref_mut() {
                    counts.first(run);
                }
                usize::from(entry)
            };
            if let Some(again) = next.filter(|again| usize::from(again.index) == index) {
                next = followed.next();
                self.draft.again(place);
                if again.closes > 0
                    && let Some(before) = before.next()
                {
                    self.tiers.held.since(place as Entry).raise::<V>(before.full, before.by_set());
                    self.store(place, again.closes, again.stored, counts.as_deref_mut());
                }
                again.go_on::<V, W>(self.tiers.held.since(place as Entry));
            }
        }
        self.again |= !segment.order.is_empty();
        for &index in segment.order {
            let line = segment.lines[usize::from(index)].line.wrapping_add(segment.base);
            self.tiers.lift::<V>(&mut stamps, &mut top, line);
        }
        top.store(&mut self.tiers.top);
    }

    /// The line at a place is stored: closes the dirty interval that goes on, which is counted if it began in the segment.
    #[inline(always)]
    fn store<C: Count<W>>(&mut self, place: usize, weight: u32, stored: Charge, counts: Option<&mut C>) {
        let since = self.tiers.held.since(place as Entry);
        match (since.stored.get(), counts) {
            (None, _) => self.draft.close(place, weight, since),
            (Some((_, item)), Some(counts)) if since.full > 0 => {
                counts.distances((Kind::Writeback, item), since.full, &since.greatest, weight.into());
            }
            _ => {}
        }
        *since = Since::now(stored);
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

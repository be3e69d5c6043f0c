//! The fast engine: batches of references through the four tiers, then into the histograms.

use crate::behind::{Left, Load, Settle, State, Told, Work};
use crate::boxed;
use crate::counts::{Buckets, Counts};
use crate::digest::{Digest, LINES, Of, Segment, Stretch, Within};
use crate::even::Course;
use crate::held::{ENTRIES, Entry, ON_TOP};
use crate::item::Charge;
use crate::lines::{Id, Lines};
use crate::older::{Older, Time};
use crate::recent::Reach;
use crate::runs::{COLD, DIRTY, Run, STORE, begun, first, strip};
use crate::sharing::{Sharing, Since};
use crate::sheets::cut_off;
use crate::simd::{self, Instructions, Task, Vector};
use crate::sink::{Outcome, Sink};
use crate::template::{Learn, Templates};
use crate::tiers::Tiers;
use crate::top::{NONE, Order};
use crate::upper::{Place, Upper};
use crate::visit::Visit;
use crate::walk::LearnWalk;
use crate::walking::{Follow, Worth};
use crate::{Bucket, Chunk, Counted, Engine, Found, Item, Learns, Limits, Part, Piece, Reference, Went};
use smallvec::SmallVec;
use std::ops::Range;

/// References of one batch, at most.
pub(crate) const BATCH: usize = 2048;
/// Lines that have to be left for templates: more than a chunk can need.
const SCARCE: usize = 1 << 18;
/// Lines whose ids are fetched ahead, and lines whose state is.
const IDS_AHEAD: usize = 32;
const AHEAD: usize = 8;

/// The fast engine; see the crate's page.
#[derive(Clone, Debug)]
pub struct Stack {
    pub(crate) core: Width,
    pub(crate) instructions: Instructions,
}

/// Distances for so many set counts are kept as one vector.
#[derive(Clone, Debug)]
pub(crate) enum Width {
    /// Up to 2^16 sets.
    Usual(Box<Core<16>>),
    /// Up to 2^24 sets.
    Wide(Box<Core<24>>),
}

/// What a stack counted from one moment to another.
#[derive(Clone, Debug)]
pub struct Tally(TallyOf);

#[derive(Clone, Debug)]
enum TallyOf {
    Usual(Tallied<16>),
    Wide(Tallied<24>),
}

/// What was counted, and of a stack whose lines can be taken away the rest of it.
type Tallied<const W: usize> = (Buckets<W>, Option<Since<W>>);

/// Does the same with the core, whatever its width.
macro_rules! of_width {
    ($width:expr, $core:ident => $work:expr) => {
        match $width {
            $crate::engine::Width::Usual($core) => $work,
            $crate::engine::Width::Wide($core) => $work,
        }
    };
}
pub(crate) use of_width;

/// The engine for up to W set bits.
#[derive(Clone, Debug)]
pub(crate) struct Core<const W: usize> {
    pub(crate) limits: Limits,
    pub(crate) lines: Lines,
    pub(crate) tiers: Tiers<W>,
    pub(crate) reach: Reach,
    /// By entry: the line's id.
    pub(crate) ids: Box<[Id; ENTRIES]>,
    pub(crate) older: Older,
    pub(crate) buckets: Buckets<W>,
    /// What was counted before the last mark.
    before: Buckets<W>,
    /// What this batch leaves.
    pub(crate) work: Work<W>,
    /// What those before it left, and what that changes.
    pub(crate) left: Left<W>,
    /// Whether it waits for others to work it off.
    pub(crate) deferred: bool,
    pub(crate) dropped: u64,
    /// Loads and stores in `runs`.
    pub(crate) references: [u64; 2],
    pub(crate) runs: Vec<Run>,
    /// Templates used between them: after so many, which, and where.
    uses: Vec<(usize, u32, u64)>,
    /// Where runs begin that are not between the same uses.
    divided: usize,
    /// Lines of `uses`.
    used: usize,
    pub(crate) templates: Templates<W>,
    pub(crate) worth: Worth,
    /// Memory of walks.
    pub(crate) follows: Vec<Follow>,
    pub(crate) courses: Vec<Course<W>>,
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) entries: Vec<Entry>,
    /// Memory of a block.
    pub(crate) places: Vec<Place<W>>,
    /// Only if lines can be taken away.
    pub(crate) sharing: Option<Box<Sharing<W>>>,
    /// Who asks for them: outcomes of the references in `runs`, and of each run which is that of the first; none: [`u32::MAX`].
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) outcome_of: Vec<u32>,
}

impl Stack {
    /// An empty stack.
    ///
    /// # Panics
    /// If the limits are out of their range.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        assert!(limits.max_set_bits <= Limits::MOST_SET_BITS, "too many set bits");
        assert!((1..=Limits::MOST_WAYS).contains(&limits.max_ways), "ways out of range");
        let core = match limits.max_set_bits {
            0..=16 => Width::Usual(Box::new(Core::new(limits))),
            _ => Width::Wide(Box::new(Core::new(limits))),
        };
        Self { core, instructions: Instructions::best() }
    }

    /// The same with these instructions, for tests and benches.
    ///
    /// # Panics
    /// If this processor does not have them.
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Self {
        assert!(instructions.available(), "no such instructions here");
        Self { instructions, ..self }
    }

    /// An empty stack whose clock runs out after `left` lines have entered the oldest tier, for tests of what happens
    /// then.
    #[doc(hidden)]
    #[must_use]
    pub fn with_time_left(limits: Limits, left: Time) -> Self {
        let mut stack = Self::new(limits);
        of_width!(&mut stack.core, core => core.older.leave_time(left));
        stack
    }

    /// Before the next references the recent tier becomes wide, or is not any more, whatever pays: for tests.
    #[doc(hidden)]
    pub fn change_width(&mut self) {
        of_width!(&mut self.core, core => core.reach.flip());
    }

    /// As [`Engine::feed_chunk`]; tells the sink what became of each reference.
    ///
    /// # Panics
    /// If the chunk has no sites.
    pub fn feed_to(&mut self, chunk: Chunk<'_>, bucket: Bucket, sink: &mut dyn Sink) {
        assert_eq!(chunk.sites.len(), chunk.references.len(), "a site for each reference");
        self.feed_any(chunk, bucket, Asks::Sink(sink));
    }

    pub(crate) fn feed_any(&mut self, chunk: Chunk<'_>, bucket: Bucket, asks: Asks<'_>) {
        debug_assert!(bucket <= Bucket::LAST, "no such bucket");
        match &mut self.core {
            _ if chunk.is_empty() => {}
            Width::Usual(core) => core.feed(chunk, bucket, asks, self.instructions),
            Width::Wide(core) => core.feed(chunk, bucket, asks, self.instructions),
        }
    }

    /// An empty stack that has room for so many lines only, for tests of what happens then.
    #[doc(hidden)]
    #[must_use]
    pub fn with_lines_left(limits: Limits, left: u32) -> Self {
        let mut stack = Self::new(limits);
        of_width!(&mut stack.core, core => core.lines.leave(left));
        stack
    }

    /// As the references that another stack, of the same limits, made this digest of. What that one counts in
    /// [`Stack::within`] is not counted here.
    pub fn feed_digest(&mut self, digest: &Digest, bucket: Bucket) {
        of_width!(&mut self.core, core => core.feed_digest(digest, bucket, self.instructions));
    }

    /// What was fed since the last time, all of it in one bucket, for [`Stack::feed_digest`] of the stack of all threads. To
    /// be asked for before others' stores take lines away. In exchange for an empty one, and nothing but after [`Stack::share`].
    pub fn take_digest(&mut self, empty: Digest) -> Digest {
        of_width!(&mut self.core, core => match &mut core.sharing {
            Some(sharing) => {
                sharing.cut();
                sharing.digesting.take(empty)
            }
            None => empty,
        })
    }

    /// What was counted within the segments of all digests. It is in [`Engine::counted`] of this stack.
    #[must_use]
    pub fn within(&self) -> Option<Within> {
        Some(Within(match &self.core {
            Width::Usual(core) => Of::Usual(core.sharing.as_ref()?.all_within()),
            Width::Wide(core) => Of::Wide(core.sharing.as_ref()?.all_within()),
        }))
    }

    /// As [`Engine::counted`], of a stack that was fed digests: with what the others counted within them.
    #[must_use]
    pub fn counted_with(&self, within: &Within) -> Vec<Counted> {
        match (&self.core, &within.0) {
            (Width::Usual(core), Of::Usual(within)) => {
                simd::run(Count { core, elsewhere: Some(within) }, self.instructions)
            }
            (Width::Wide(core), Of::Wide(within)) => {
                simd::run(Count { core, elsewhere: Some(within) }, self.instructions)
            }
            _ => self.counted(),
        }
    }

    /// Whether [`Stack::tally`] is all there is to tell. Not where there were no ids left, or where something is left behind.
    #[must_use]
    pub fn is_told(&self) -> bool {
        of_width!(&self.core, core => core.is_told())
    }

    /// Where the next [`Stack::tally`] begins.
    pub fn mark(&mut self) {
        of_width!(&mut self.core, core => core.mark());
    }

    /// What it counted since the last [`Stack::mark`], without the end-of-run parts.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally(match &self.core {
            Width::Usual(core) => TallyOf::Usual(core.tally()),
            Width::Wide(core) => TallyOf::Wide(core.tally()),
        })
    }

    /// Counts once more, so often, what it counted then. As if the same references came again: to be called where they would
    /// find every line where they left it and leave it there.
    pub fn count_again(&mut self, tally: &Tally, times: u64) {
        match (&mut self.core, &tally.0) {
            (Width::Usual(core), TallyOf::Usual(tally)) => core.count_again(tally, times),
            (Width::Wide(core), TallyOf::Wide(tally)) => core.count_again(tally, times),
            _ => debug_assert!(false, "a tally of this stack"),
        }
    }

    /// Lines that were ever referenced.
    #[must_use]
    pub fn lines(&self) -> usize {
        of_width!(&self.core, core => core.lines.len())
    }

    /// The same lines where they are now, and nothing counted. Not where lines can be taken away, or something is left behind.
    #[must_use]
    pub fn without_counts(&mut self) -> Self {
        let core = match &mut self.core {
            Width::Usual(core) => Width::Usual(Core::without_counts(core)),
            Width::Wide(core) => Width::Wide(Core::without_counts(core)),
        };
        Self { core, instructions: self.instructions }
    }

    /// What it counted is as if another one of the same limits, which counted nothing, had counted it, which it becomes.
    pub fn replace_by(&mut self, other: Self) {
        match (&mut self.core, other.core) {
            (Width::Usual(core), Width::Usual(other)) => Core::replace_by(core, other),
            (Width::Wide(core), Width::Wide(other)) => Core::replace_by(core, other),
            _ => debug_assert!(false, "a stack of the same limits"),
        }
    }

    /// References that could not be taken because there were no line ids left. They are in no histogram.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        of_width!(&self.core, core => core.dropped)
    }
}

impl Learns for Stack {
    /// Not where lines can be taken away, or where ids of lines may run out.
    fn seeks(&mut self) -> bool {
        of_width!(&mut self.core, core => {
            core.sharing.is_none() && !core.lines.may_run_out(SCARCE) && core.templates.wanted()
        })
    }

    fn find(&mut self, key: &[u64], bucket: Bucket) -> Found {
        of_width!(&mut self.core, core => core.templates.find(key, bucket))
    }

    fn learn(&mut self, key: &[u64], base: u64, chunk: Chunk<'_>, bucket: Bucket) {
        of_width!(&mut self.core, core => {
            let Core { templates, buckets, .. } = &mut **core;
            simd::run(Learn { templates, key: (key, bucket), base, chunk, buckets }, self.instructions);
        });
    }

    /// Not where ids of lines may run out.
    fn walks(&mut self) -> bool {
        of_width!(&mut self.core, core => {
            !core.lines.may_run_out(SCARCE) && core.worth.walks()
        })
    }

    fn find_walk(&mut self, key: &[u64], bucket: Bucket) -> Found {
        of_width!(&mut self.core, core => core.templates.walks.find(key, bucket))
    }

    fn learn_walk(
        &mut self,
        key: &[u64],
        strands: &[Range<u64>],
        pins: usize,
        periods: u64,
        loops: [Chunk<'_>; 2],
        bucket: Bucket,
    ) {
        of_width!(&mut self.core, core => {
            let Core { templates, buckets, .. } = &mut **core;
            let walks = &mut templates.walks;
            let strands = (strands, pins);
            simd::run(LearnWalk { walks, key: (key, bucket), strands, periods, loops, buckets }, self.instructions);
        });
    }

    fn walk(&mut self, template: u32, strands: &[Range<u64>], periods: u64, bucket: Bucket) -> Went {
        of_width!(&mut self.core, core => core.walk(template, strands, periods, bucket, None, self.instructions))
    }

    fn take(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        self.feed_any(chunk, bucket, Asks::Nobody);
    }
}

impl Engine for Stack {
    fn feed_chunk(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        self.feed_any(chunk, bucket, Asks::Nobody);
    }

    fn counted(&self) -> Vec<Counted> {
        of_width!(&self.core, core => simd::run(Count { core, elsewhere: None }, self.instructions))
    }
}

/// Works off segments, of less than two batches together.
struct Segments<'a, 'b, const W: usize> {
    core: &'a mut Core<W>,
    segments: &'a mut dyn Iterator<Item = Segment<'b>>,
    bucket: Bucket,
}

impl<const W: usize> Task for Segments<'_, '_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.core.segments::<V>(self.segments, self.bucket);
    }
}

/// As [`Core::reference_older`].
struct OlderTier<'a, const W: usize>(&'a mut Core<W>);

impl<const W: usize> Task for OlderTier<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.0.reference_older::<V>();
    }
}

/// Lets the clock of the older tier begin again.
struct RestartClock<'a, const W: usize>(&'a mut Core<W>);

impl<const W: usize> Task for RestartClock<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        if let Some(load) = &mut self.0.left.load {
            self.0.older.restart_clock::<V, W>(&mut self.0.lines, &mut load.behind.sets);
        }
    }
}

/// Makes the histograms.
struct Count<'a, const W: usize> {
    core: &'a Core<W>,
    /// What is counted elsewhere.
    elsewhere: Option<&'a Buckets<W>>,
}

impl<const W: usize> Task for Count<'_, W> {
    type Answer = Vec<Counted>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Answer {
        self.core.counted_with::<V>(self.elsewhere)
    }
}

/// Who wants to know what became of references.
pub(crate) enum Asks<'a> {
    Nobody,
    /// Of each.
    Sink(&'a mut dyn Sink),
    /// Of the first of each run of a line that others may hold.
    Visit(&'a mut Visit),
}

/// What of a chunk is of lines for which there is an id.
#[derive(Default)]
struct WithIds {
    references: Vec<Reference>,
    sites: Vec<u32>,
    items: Vec<Item>,
    parts: Vec<Part>,
}

impl WithIds {
    /// As the chunk that they are of.
    fn chunk<'a>(&'a self, of: Chunk<'a>) -> Chunk<'a> {
        let Self { references, sites, items, parts } = self;
        Chunk { references, sites, items, parts, ..of }
    }
}

impl<const W: usize> Core<W> {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            lines: Lines::new(),
            tiers: Tiers::new(),
            reach: Reach::default(),
            ids: boxed::array(0),
            older: Older::new(),
            buckets: Buckets::new(limits),
            before: Buckets::new(limits),
            work: Work::new(),
            left: Left::new(Some(Load::new(limits))),
            deferred: false,
            dropped: 0,
            references: [0; 2],
            runs: Vec::new(),
            uses: Vec::new(),
            divided: 0,
            used: 0,
            templates: Templates::new(),
            worth: Worth::default(),
            follows: Vec::new(),
            courses: Vec::new(),
            ranges: Vec::new(),
            entries: Vec::new(),
            places: Vec::new(),
            sharing: None,
            outcomes: Vec::new(),
            outcome_of: Vec::new(),
        }
    }

    fn feed(&mut self, chunk: Chunk<'_>, bucket: Bucket, mut asks: Asks<'_>, instructions: Instructions) {
        let scarce = self.lines.may_run_out(chunk.references.len());
        let kept = scarce.then(|| self.with_ids(chunk));
        let mut pieces = kept.as_ref().map_or(chunk, |kept| kept.chunk(chunk)).pieces();
        let mut rest = None;
        loop {
            let more = self.fill(&mut pieces, &mut rest, bucket, matches!(asks, Asks::Sink(_)));
            self.batch(bucket, &mut asks, instructions);
            if !more {
                break;
            }
        }
    }

    /// What of a chunk is of lines for which there is an id.
    #[cold]
    fn with_ids(&mut self, chunk: Chunk<'_>) -> WithIds {
        let mut with_ids = WithIds::default();
        let whole = [Part { len: chunk.references.len() as u32, times: 1 }];
        let mut at = 0;
        for (number, part) in (0..).zip(if chunk.parts.is_empty() { &whole } else { chunk.parts }) {
            let within =
                chunk.repeats.iter().find(|within| (within.part..within.part + within.parts).contains(&number));
            let times = u64::from(part.times) * within.map_or(1, |within| within.times.into());
            let before = with_ids.references.len();
            for index in at..at + part.len as usize {
                if self.lines.id(chunk.references[index].line()).is_some() {
                    with_ids.references.push(chunk.references[index]);
                    with_ids.sites.extend(chunk.sites.get(index));
                    with_ids.items.extend(chunk.items.get(index));
                } else {
                    self.dropped += times;
                }
            }
            at += part.len as usize;
            with_ids.parts.push(Part { len: (with_ids.references.len() - before) as u32, times: part.times });
        }
        with_ids
    }

    /// Takes pieces, `rest` first, until there are enough for a batch; whether there may be more. What is left of a piece is the
    /// rest.
    fn fill<'a>(
        &mut self,
        pieces: &mut impl Iterator<Item = Piece<'a>>,
        rest: &mut Option<Piece<'a>>,
        bucket: Bucket,
        for_sink: bool,
    ) -> bool {
        while let Some(piece) = rest.take().or_else(|| pieces.next()) {
            match piece {
                Piece::References(mut piece, weight) => {
                    let part = piece.take(BATCH);
                    if for_sink {
                        self.strip_for_sink(part, weight, bucket);
                    } else {
                        self.strip(part, weight, bucket);
                    }
                    *rest = (!piece.references.is_empty()).then_some(Piece::References(piece, weight));
                }
                Piece::Use(mut found) => {
                    let lines = self.templates.lines(found.template);
                    let before = self.uses.len();
                    while self.runs.len() + self.used == 0 || self.runs.len() + self.used + lines <= BATCH {
                        let Some(base) = found.next() else { break };
                        self.uses.push((self.runs.len(), found.template, base));
                        self.used += lines;
                    }
                    self.templates.used(found.template, (self.uses.len() - before) as u32);
                    self.divided = self.runs.len();
                    if found.times > 0 {
                        *rest = Some(Piece::Use(found));
                        return true;
                    }
                }
            }
            if self.runs.len() + self.used >= BATCH {
                return true;
            }
        }
        false
    }

    /// Cuts references into runs.
    #[inline(always)]
    fn strip(&mut self, part: Chunk<'_>, weight: u32, bucket: Bucket) {
        // What comes first in a segment is found out later.
        let within = self.sharing.as_mut().map(|sharing| &mut sharing.within);
        let mut counts = within.unwrap_or(&mut self.buckets).of(bucket);
        strip(&mut self.runs, self.divided, part, weight, &mut self.references, |item, store| {
            if let Some(counts) = &mut counts {
                counts.add_references(item, store, weight.into());
            }
        });
    }

    /// The same, with an outcome for each reference, which is complete for those that are on top.
    fn strip_for_sink(&mut self, part: Chunk<'_>, weight: u32, bucket: Bucket) {
        let mut last = begun(&self.runs, self.divided, weight).map(|run| run.line);
        self.strip(part, weight, bucket);
        self.outcomes.reserve(part.references.len());
        for (reference, &site) in part.references.iter().zip(part.sites) {
            let (line, store) = (Some(reference.line()), reference.is_store());
            if std::mem::replace(&mut last, line) != line {
                self.outcome_of.push(self.outcomes.len() as u32);
            }
            self.outcomes.push(Outcome::of(site, weight, store));
        }
    }

    /// Works off `runs`.
    fn batch(&mut self, bucket: Bucket, asks: &mut Asks<'_>, instructions: Instructions) {
        if self.runs.is_empty() && self.uses.is_empty() {
            return;
        }
        let (mut runs, mut uses) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.uses));
        if let Asks::Visit(visit) = asks {
            runs.iter().for_each(|run| self.ask(run, visit));
        }
        let templates = std::mem::replace(&mut self.templates, Templates::new());
        let (mut begin, mut rest) = (0, uses.iter());
        let mut next = rest.next();
        let mut segments = std::iter::from_fn(|| {
            let lines = |end| Segment { lines: &runs[begin..end], ..Segment::default() };
            match next {
                Some(&(end, ..)) if begin < end => {
                    let segment = lines(end);
                    begin = end;
                    Some(segment)
                }
                Some(&(_, template, base)) => {
                    next = rest.next();
                    Some(templates.segment(template, base))
                }
                None if begin < runs.len() => {
                    let segment = lines(runs.len());
                    begin = runs.len();
                    Some(segment)
                }
                None => None,
            }
        });
        self.work_off(&mut segments, bucket, instructions);
        runs.clear();
        uses.clear();
        (self.runs, self.uses, self.templates) = (runs, uses, templates);
        (self.divided, self.used) = (0, 0);
        match asks {
            Asks::Nobody => return,
            Asks::Sink(sink) => sink.take(&self.outcomes),
            Asks::Visit(visit) => self.outcomes.iter().for_each(|outcome| visit.became(outcome)),
        }
        self.outcomes.clear();
        self.outcome_of.clear();
    }

    /// Asks for the outcome of a run, if others may hold its line.
    fn ask(&mut self, run: &Run, visit: &mut Visit) {
        let common = visit.common(run.line, run.flags & DIRTY != 0);
        self.outcome_of.push(common.map_or(u32::MAX, |_| self.outcomes.len() as u32));
        self.outcomes.extend(common.map(|number| Outcome::of(number, run.weight, run.flags & STORE != 0)));
    }

    /// Works off segments, of less than two batches together.
    fn work_off(
        &mut self,
        segments: &mut dyn Iterator<Item = Segment<'_>>,
        bucket: Bucket,
        instructions: Instructions,
    ) {
        self.be_in_time(2 * BATCH + ENTRIES, instructions);
        simd::run(Segments { core: self, segments, bucket }, instructions);
    }

    /// There is time for so many more moves in the older tier, and there are not too many sheets; if that can be.
    #[inline(always)]
    pub(crate) fn be_in_time(&mut self, moves: usize, instructions: Instructions) {
        if self.older.late(moves) {
            self.restart(instructions);
        }
    }

    /// Lets the clock begin again, and gives up all sheets; not if what that needs is elsewhere.
    #[cold]
    pub(crate) fn restart(&mut self, instructions: Instructions) {
        simd::run(Settle { left: &mut self.left }, instructions);
        if self.left.load.is_some() {
            if !self.older.sheets.is_empty() {
                self.worth.gave_up(self.lines.len() as u64);
            }
            simd::run(RestartClock(self), instructions);
        }
    }

    #[inline(always)]
    fn segments<V: Vector>(&mut self, segments: &mut dyn Iterator<Item = Segment<'_>>, bucket: Bucket) {
        let mut counts = self.buckets.take(bucket);
        let mut within = self.sharing.as_mut().and_then(|sharing| sharing.within.take(bucket));
        if self.reach.changes(self.tiers.recent.is_wide()) {
            if self.tiers.recent.is_wide() {
                self.lower(false);
                self.leave::<V>(bucket, counts.as_deref_mut(), None);
                self.tiers.recent.narrow();
            } else {
                self.tiers.recent.widen();
            }
        }
        for segment in segments {
            let is_alone = self.sharing.is_none() && self.outcomes.is_empty();
            let counts = (counts.as_deref_mut(), within.as_deref_mut());
            if is_alone {
                V::run(Upper::<W, false> { core: self, bucket, counts, segment });
            } else {
                V::run(Upper::<W, true> { core: self, bucket, counts, segment });
            }
        }
        V::run(OlderTier(self));
        self.worth.others(self.work.fetches.len());
        self.leave::<V>(bucket, counts.as_deref_mut(), None);
        let [loads, stores] = std::mem::take(&mut self.references);
        if let Some(counts) = within.as_deref_mut().or(counts.as_deref_mut()) {
            counts.add_references(Item::NONE, false, loads);
            counts.add_references(Item::NONE, true, stores);
        }
        if let Some(counts) = counts.as_deref_mut() {
            counts.spread::<V>();
        }
        if let Some(within) = within.as_deref_mut() {
            within.spread::<V>();
        }
        self.buckets.put(bucket, counts);
        if let Some(sharing) = &mut self.sharing {
            sharing.within.put(bucket, within);
        }
    }

    /// Works off what is to be done behind, or leaves it there.
    #[inline(always)]
    pub(crate) fn leave<V: Vector>(
        &mut self,
        bucket: Bucket,
        counts: Option<&mut Counts<W>>,
        visit: Option<(&mut Visit, &[Range<u64>])>,
    ) {
        self.work.bucket = bucket;
        match &mut self.left.load {
            _ if self.work.is_empty() => {}
            Some(load) if !self.deferred => {
                let (sharing, outcomes) = (self.sharing.as_deref_mut(), &mut self.outcomes[..]);
                let told = Told { sharing, outcomes, outcome_of: &self.outcome_of, visit };
                load.behind.work_off::<V>(&mut self.work, &mut self.buckets, counts, told);
                self.work.clear();
            }
            _ => {
                let next = self.left.spare.pop().unwrap_or_else(Work::new);
                self.left.works.push_back(std::mem::replace(&mut self.work, next));
            }
        }
    }

    /// Takes what the stack of one thread made of its references.
    fn feed_digest(&mut self, digest: &Digest, bucket: Bucket, instructions: Instructions) {
        let (mut batch, mut len) = (Vec::new(), 0);
        for stretch in digest.stretches().map(Some).chain([None]) {
            if let Some(Stretch::Segment(segment)) = stretch {
                len += segment.lines.len();
                batch.push(segment);
                if len + LINES <= BATCH {
                    continue;
                }
            }
            if len > 0 {
                self.feed_segments(&mut batch.drain(..), bucket, instructions);
                len = 0;
            }
            if let Some(Stretch::Passage(passage)) = stretch {
                self.pass_over(passage, bucket, instructions);
            }
        }
    }

    /// Works off segments of digests, of less than two batches together, and counts their first references; not those that there
    /// are no ids for.
    pub(crate) fn feed_segments(
        &mut self,
        segments: &mut dyn Iterator<Item = Segment<'_>>,
        bucket: Bucket,
        instructions: Instructions,
    ) {
        let mut all: SmallVec<[_; 4]> = segments.collect();
        let scarce = self.lines.may_run_out(all.iter().map(|segment| segment.lines.len()).sum());
        all.retain(|segment| {
            if scarce && !segment.lines.iter().all(|run| self.lines.id(run.line).is_some()) {
                self.dropped += segment.lines.iter().map(|run| u64::from(run.weight)).sum::<u64>();
                return false;
            }
            if let Some(counts) = self.buckets.of(bucket) {
                for &Run { flags, weight, .. } in segment.lines {
                    counts.add_references(first(flags), flags & STORE != 0, weight.into());
                }
            }
            true
        });
        self.work_off(&mut all.into_iter(), bucket, instructions);
    }

    /// The lines that came into the upper tiers, and those that had to go, through the older one.
    #[inline(always)]
    fn reference_older<V: Vector>(&mut self) {
        let Work { moves, fetches, closes, ids, .. } = &mut self.work;
        // A bit for each of the next lines, the highest for the nearest: whether only what tells where its id is was fetched.
        let mut listed = 0_u32;
        for (at, fetch) in fetches.iter().enumerate() {
            if let Some(next) = fetches.get(at + IDS_AHEAD)
                && self.lines.prefetch(next.line)
            {
                listed |= 1;
            }
            if listed >> (IDS_AHEAD / 2) & 1 != 0 {
                self.lines.prefetch_listed(fetches[at + IDS_AHEAD / 2].line);
            }
            listed <<= 1;
            let id = self.lines.id(fetch.line).unwrap_or_default();
            let before = std::mem::replace(&mut self.ids[usize::from(fetch.entry) % ENTRIES], id);
            let gone = if fetch.gone == NONE { id } else { before };
            simd::prefetch(self.lines.get(id));
            simd::prefetch(self.lines.get(gone));
            ids.push((id, gone));
        }
        for close in closes {
            close.id = self.lines.id(close.line).unwrap_or_default();
        }
        for (at, (fetch, &(id, gone))) in fetches.iter_mut().zip(&*ids).enumerate() {
            if let Some(&(next, _)) = ids.get(at + AHEAD) {
                self.older.prefetch(&self.lines, next);
            }
            let down = (fetch.gone != NONE).then_some((fetch.gone, gone));
            // Where lines were taken away they were noted before, too, for references of the same batch that ask.
            if let (Some(sharing), Some((_, gone))) = (&mut self.sharing, down) {
                sharing.note(gone, fetch.last);
            }
            let (up, by_set) = ((fetch.line, id), &mut fetch.by_set);
            let above = |sums: [u32; W]| V::add(by_set, &cut_off(&sums));
            match self.older.step::<V, W>(&mut self.lines, moves, up, down, at as u32, above) {
                Some(full) => fetch.full += full as u32,
                None => fetch.flags |= COLD,
            }
            self.reach.fetched((fetch.flags & COLD == 0).then_some(fetch.full));
        }
    }

    /// Lines above one that is here, in `held` or in the older tier: with one set and with 2^1, 2^2, … `follow` goes from line to
    /// line, begun for the sheets that there are.
    #[inline(always)]
    pub(crate) fn depth<V: Vector>(
        &self,
        line: u64,
        held: Option<Entry>,
        id: Id,
        follow: &mut Follow,
    ) -> (u32, [u8; W]) {
        let top = V::Top::load(&self.tiers.top);
        match held.map(|entry| self.tiers.held.slot(entry)) {
            Some(ON_TOP) => {
                let place = top.place(line);
                (place as u32, top.tally::<W>(place, line))
            }
            Some(slot) => self.tiers.distances::<V>(self.tiers.newest.stamps::<V>(), top, slot, line),
            None => {
                let mut sums = [0; W];
                let (last, singles, walked) = self.older.depth::<V, W>(&self.lines, (line, id), &mut sums, follow);
                let (mut full, mut by_set) = (singles + walked, cut_off(&sums));
                if self.tiers.held.count() > 0 {
                    let whole = self.tiers.whole::<V>(top, line);
                    full += whole.0;
                    V::add(&mut by_set, &whole.1);
                }
                if let Some(load) = self.left.load.as_ref().filter(|_| singles > 0) {
                    V::add(&mut by_set, &load.behind.sets.depth::<V, W>(line, last));
                }
                (full, by_set)
            }
        }
    }

    /// For lines that are looked at one after the other.
    pub(crate) fn follow(&self) -> Follow {
        let mut follow = Follow::default();
        follow.begin(self.older.sheets.len());
        follow
    }

    /// A line of the older tier goes.
    #[inline(always)]
    pub(crate) fn leave_older<V: Vector>(&mut self, line: u64, id: Id) {
        let moves = &mut self.work.moves;
        self.older.step::<V, W>(&mut self.lines, moves, (line, id), None, 0, |_| {});
        if let Some(load) = &mut self.left.load {
            load.behind.sets.apply::<V, W>(moves);
        }
        moves.clear();
    }

    /// The state of a line when it last left the upper tiers.
    #[inline(always)]
    pub(crate) fn state_behind(&self, id: Id) -> State<W> {
        self.left.load.as_ref().map_or(State::NEW, |load| load.behind.states.get(id))
    }

    /// The state of a line, with what happened to it in the upper tiers.
    #[inline(always)]
    pub(crate) fn state<V: Vector>(&self, held: Option<Entry>, id: Id) -> State<W> {
        let mut state = self.state_behind(id);
        if let Some(entry) = held {
            let since = self.tiers.held.since_of(entry);
            if since.stored != Charge::NONE {
                state.begin(since.stored);
            }
            state.raise::<V>(since.full, &since.greatest);
        }
        state
    }

    /// The histograms as if the run ended now, with what is counted elsewhere.
    #[inline(always)]
    pub(crate) fn counted_with<V: Vector>(&self, elsewhere: Option<&Buckets<W>>) -> Vec<Counted> {
        let residents = self.residents::<V>();
        let within = self.sharing.as_ref().map(|sharing| sharing.all_within());
        let later = self.left.load.as_ref().map(|load| &load.buckets).filter(|later| !later.is_empty());
        let alone = elsewhere.is_none() && within.is_none() && later.is_none() && self.before.is_empty();
        if alone && !self.templates.is_waiting() {
            return self.buckets.counted(&residents);
        }
        let mut all = self.since_mark();
        elsewhere.into_iter().chain(&within).chain([&self.before]).for_each(|more| all.absorb(more));
        all.counted(&residents)
    }

    /// What it counted since the last mark, wherever that is, but for what others counted for it.
    fn since_mark(&self) -> Buckets<W> {
        let (mut all, mut of_templates) = (Buckets::new(self.limits), Buckets::new(self.limits));
        self.templates.count_into(&mut of_templates);
        let later = self.left.load.as_ref().map(|load| &load.buckets);
        [&self.buckets, &of_templates].into_iter().chain(later).for_each(|more| all.absorb(more));
        all
    }

    /// As [`Stack::is_told`].
    fn is_told(&self) -> bool {
        self.dropped == 0 && self.left.works.is_empty() && self.left.load.is_some()
    }

    /// As [`Stack::mark`].
    fn mark(&mut self) {
        self.templates.count(&mut self.buckets);
        let later = self.left.load.as_mut().map(|load| &mut load.buckets);
        for counted in [&mut self.buckets].into_iter().chain(later) {
            let counted = std::mem::replace(counted, Buckets::new(self.limits));
            if self.before.is_empty() { self.before = counted } else { self.before.absorb(&counted) }
        }
        self.sharing.iter_mut().for_each(|sharing| sharing.mark());
    }

    /// As [`Stack::without_counts`]. A box that is copied needs no room on the program's stack.
    fn without_counts(core: &mut Box<Self>) -> Box<Self> {
        debug_assert!(core.is_told() && core.sharing.is_none(), "a stack that has all it needs, and alone");
        let limits = core.limits;
        let nothing = || Buckets::new(limits);
        // What is known of loops is kept once.
        let templates = std::mem::replace(&mut core.templates, Templates::new());
        let counted = std::mem::replace(&mut core.buckets, nothing());
        let before = std::mem::replace(&mut core.before, nothing());
        let later = core.left.load.as_mut().map(|load| std::mem::replace(&mut load.buckets, nothing()));
        let bare = core.clone();
        (core.templates, core.buckets, core.before) = (templates, counted, before);
        if let (Some(load), Some(later)) = (&mut core.left.load, later) {
            load.buckets = later;
        }
        bare
    }

    /// As [`Stack::replace_by`].
    fn replace_by(core: &mut Box<Self>, mut other: Box<Self>) {
        core.mark();
        other.before = std::mem::replace(&mut core.before, Buckets::new(core.limits));
        other.templates = std::mem::replace(&mut core.templates, Templates::new());
        *core = other;
    }

    /// As [`Stack::tally`].
    fn tally(&self) -> Tallied<W> {
        (self.since_mark(), self.sharing.as_ref().map(|sharing| sharing.since_mark()))
    }

    /// As [`Stack::count_again`].
    fn count_again(&mut self, (counted, shared): &Tallied<W>, times: u64) {
        self.buckets.absorb_times(counted, times);
        if let (Some(sharing), Some(shared)) = (&mut self.sharing, shared) {
            sharing.count_again(shared, times);
        }
    }
}

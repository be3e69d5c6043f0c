//! What a stack hands on to one of all threads, so that this need not do everything again.
//!
//! The references of a chunk follow each other in the stack of all threads too. A line that is referenced again in the same
//! chunk has the same lines above it in both: its distances are those that the thread's own stack found, and are counted
//! once, `within`, for both. What is left for the stack of all threads is the first reference to each line, and in which
//! order the lines stand at the end.
//!
//! A chunk is cut into *segments* of so few lines that all of them are in the upper tiers of both stacks when it ends.
//! Nothing of a segment is lost: a dirty interval that it does not begin or does not end is handed on by what it adds. Between
//! segments there may be loops that walked over lines, which the other stack walks over again.

use crate::counts::Buckets;
use crate::held::{ENTRIES, Entry, HELD, Since};
use crate::holes::Instant;
use crate::item::Charge;
use crate::runs::Run;
use crate::simd::Vector;
use crate::{Limits, boxed};
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Lines of a segment, at most: fewer than the upper tiers hold.
pub(crate) const LINES: usize = HELD - 8;

/// What the stack of one thread made of some references, for [`crate::Stack::feed_digest`]: segments that follow each other.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// Of each segment the first references to its lines, in order.
    lines: Vec<Run>,
    /// Of each segment those lines that were referenced again, in the order of `lines`.
    again: Vec<Again>,
    /// Of each that [`Again::closes`] a dirty interval, in the same order, the greatest distances until then, that of its first
    /// store included.
    before: Vec<Greatest>,
    /// Of each segment which lines have to come to the top afterwards, one after the other, so that all stand in the order of
    /// their last reference.
    order: Vec<u16>,
    /// Where segments end in these.
    ends: Vec<Ends>,
    /// Loops that walked over lines, each after so many segments.
    passages: Vec<(usize, Passage)>,
}

/// A loop of a thread walked over lines: a [`Walk`](crate::walk::Walk), along which strands, and how many periods more than
/// fewest it had.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) walk: Arc<dyn Any + Send + Sync>,
    pub(crate) strands: SmallVec<[Range<u64>; 6]>,
    pub(crate) more: u64,
    pub(crate) lines: u64,
}

/// What follows one another in a digest.
pub(crate) enum Stretch<'a> {
    Segment(Segment<'a>),
    Passage(&'a Passage),
}

/// Lengths up to the end of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    lines: usize,
    again: usize,
    before: usize,
    order: usize,
}

/// A part of a digest; nothing but lines if they come from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment<'a> {
    /// Added to the numbers of lines.
    pub(crate) base: u64,
    pub(crate) lines: &'a [Run],
    pub(crate) again: &'a [Again],
    pub(crate) before: &'a [Greatest],
    pub(crate) order: &'a [u16],
}

impl Segment<'_> {
    /// Where, from a line on, the next one is that was referenced again.
    pub(crate) fn next(&self, from: usize) -> usize {
        self.again.first().map_or(usize::MAX, |again| usize::from(again.index) - from)
    }
}

/// What followed the first reference to a line in a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Again {
    /// The line's place in the segment.
    pub(crate) index: u16,
    /// If the first store came later than the first reference: its weight; else 0.
    pub(crate) closes: u32,
    /// Where the last store is counted; none: there was none.
    pub(crate) stored: Charge,
    /// Greatest distances since the last store, or else since the first reference.
    pub(crate) after: Greatest,
}

impl Again {
    /// What it says of its line once the interval that went on is closed.
    #[inline(always)]
    pub(crate) fn go_on<V: Vector, const W: usize>(&self, since: &mut Since<W>) {
        if self.stored != Charge::NONE {
            since.stored = self.stored;
        }
        since.raise::<V>(self.after.full, self.after.by_set());
    }
}

/// Greatest distances: with one set, and with 2^1, 2^2, … sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Greatest {
    pub(crate) by_set: [u8; Limits::MOST_SET_BITS as usize],
    pub(crate) full: u32,
}

impl Greatest {
    fn of<const W: usize>(since: &Since<W>) -> Self {
        let mut greatest = Self { full: since.full, by_set: [0; _] };
        greatest.by_set[..W].copy_from_slice(&since.greatest);
        greatest
    }

    /// Of a stack of that width.
    #[inline(always)]
    pub(crate) fn by_set<const W: usize>(&self) -> &[u8; W] {
        self.by_set.first_chunk().unwrap_or(&[0; W])
    }
}

/// A digest that is being made.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    digest: Digest,
    /// Where the segment that goes on begins.
    begin: Ends,
    /// One bit for each of its lines: whether it was referenced again.
    again: [u64; ENTRIES / 64],
    /// Weight of the first store, and the greatest distances until then, of lines that were loaded first.
    closed: Vec<(u32, Greatest)>,
    /// By place in the segment: 1 + the line's place there; 0 if it has none.
    closed_at: Box<[u16; ENTRIES]>,
}

impl Draft {
    pub(crate) fn new() -> Self {
        let (digest, begin) = (Digest::default(), Ends::default());
        Self { digest, begin, again: [0; _], closed: Vec::new(), closed_at: boxed::array(0) }
    }

    /// Lines of the segment that goes on.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.digest.lines.len() - self.begin.lines
    }

    /// A line comes into the segment.
    #[inline(always)]
    pub(crate) fn first(&mut self, run: Run) {
        self.closed_at[self.len() % ENTRIES] = 0;
        self.digest.lines.push(run);
    }

    /// The line at a place in the segment is referenced again.
    #[inline(always)]
    pub(crate) fn again(&mut self, place: usize) {
        self.again[place / 64 % (ENTRIES / 64)] |= 1 << (place % 64);
    }

    /// Its first store closes the dirty interval that went on.
    #[inline(always)]
    pub(crate) fn close<const W: usize>(&mut self, place: usize, weight: u32, since: &Since<W>) {
        self.closed.push((weight, Greatest::of(since)));
        self.closed_at[place % ENTRIES] = self.closed.len() as u16;
    }

    /// The segment ends; `since` tells what happened to the line at a place since its first reference or last store there.
    pub(crate) fn cut<'a, const W: usize>(
        &mut self,
        since: impl Fn(usize) -> &'a Since<W>,
        order: impl IntoIterator<Item = u16>,
    ) {
        let Digest { lines, again, before, order: orders, ends, .. } = &mut self.digest;
        for (word, mut bits) in std::mem::take(&mut self.again).into_iter().enumerate() {
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let mut closes = 0;
                if let Some(at) = usize::from(self.closed_at[place]).checked_sub(1) {
                    closes = self.closed[at].0;
                    before.push(self.closed[at].1);
                }
                let (stored, after) = (since(place).stored, Greatest::of(since(place)));
                again.push(Again { index: place as u16, closes, stored, after });
            }
        }
        self.closed.clear();
        orders.extend(order);
        self.begin = Ends { lines: lines.len(), again: again.len(), before: before.len(), order: orders.len() };
        ends.push(self.begin);
    }

    /// A loop walks over lines. The segment that goes on must have no lines.
    fn walk(&mut self, passage: Passage) {
        self.digest.passages.push((self.digest.ends.len(), passage));
    }

    /// What is done, in exchange for an empty one. The segment that goes on must have no lines.
    pub(crate) fn take(&mut self, empty: Digest) -> Digest {
        self.begin = Ends::default();
        std::mem::replace(&mut self.digest, empty)
    }
}

/// A line of the segment.
#[derive(Clone, Copy, Debug)]
struct Member<const W: usize> {
    /// What happened to it since its first reference in the segment, or since its last store there.
    since: Since<W>,
    /// Its place in the segment.
    index: u16,
}

/// The digest that the stack of a thread makes beside its other work.
#[derive(Clone, Debug)]
pub(crate) struct Digesting<const W: usize> {
    draft: Draft,
    /// Where the lines of the segment are held.
    entries: Vec<Entry>,
    /// When it began.
    begin: Instant,
    /// The first of its lines that was referenced again when others had come.
    again: usize,
    /// By entry.
    members: Box<[Member<W>; ENTRIES]>,
}

impl<const W: usize> Digesting<W> {
    pub(crate) fn new() -> Self {
        let members = boxed::array(Member { since: Since::now(Charge::NONE), index: 0 });
        Self { draft: Draft::new(), entries: Vec::new(), begin: 0, again: usize::MAX, members }
    }

    /// Whether a line that was last referenced then is in the segment.
    #[inline(always)]
    pub(crate) fn has(&self, last: Instant) -> bool {
        last >= self.begin
    }

    /// Whether a line that is in the segment was stored there.
    #[inline(always)]
    pub(crate) fn stored(&self, entry: Entry) -> bool {
        self.members[usize::from(entry) % ENTRIES].since.stored != Charge::NONE
    }

    /// A line comes into the segment. Not if it is full.
    #[inline(always)]
    pub(crate) fn first(&mut self, entry: Entry, run: Run, stored: Charge) {
        let index = self.entries.len() as u16;
        self.members[usize::from(entry) % ENTRIES] = Member { since: Since::now(stored), index };
        self.entries.push(entry);
        self.draft.first(run);
    }

    /// A line of the segment is referenced again, and stored if there is a charge.
    #[inline(always)]
    pub(crate) fn again<V: Vector>(&mut self, entry: Entry, weight: u32, full: u32, by_set: &[u8; W], stored: Charge) {
        let &mut Member { ref mut since, index } = &mut self.members[usize::from(entry) % ENTRIES];
        since.raise::<V>(full, by_set);
        let place = usize::from(index);
        self.draft.again(place);
        if place + 1 < self.entries.len() {
            self.again = self.again.min(place);
        }
        if stored != Charge::NONE {
            if since.stored == Charge::NONE {
                self.draft.close(place, weight, since);
            }
            *since = Since::now(stored);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == LINES
    }

    /// The segment ends now; `last` tells when the line of an entry was last referenced.
    pub(crate) fn cut(&mut self, now: Instant, last: impl Fn(Entry) -> Instant) {
        self.begin = now;
        let again = std::mem::replace(&mut self.again, usize::MAX);
        if self.entries.is_empty() {
            return;
        }
        let (entries, members) = (&self.entries, &self.members);
        let mut order: Vec<_> = (again.min(entries.len()) as u16..entries.len() as u16).collect();
        order.sort_unstable_by_key(|&index| last(entries[usize::from(index)]));
        let stay = order.iter().zip(again..).take_while(|&(&index, place)| usize::from(index) == place).count();
        self.draft.cut(|index| &members[usize::from(entries[index])].since, order.split_off(stay));
        self.entries.clear();
    }

    /// A loop walks over lines, behind the end of a segment.
    pub(crate) fn walk(&mut self, passage: Passage) {
        self.draft.walk(passage);
    }

    pub(crate) fn take(&mut self, empty: Digest) -> Digest {
        self.draft.take(empty)
    }
}

/// What threads counted within segments: it belongs to their own stacks and to the one of all.
#[derive(Clone, Debug)]
pub struct Within(pub(crate) Of);

/// By the width of the stacks.
#[derive(Clone, Debug)]
pub(crate) enum Of {
    Usual(Buckets<16>),
    Wide(Buckets<24>),
}

impl Digest {
    /// Empty, with the memory it has.
    #[must_use]
    pub fn emptied(mut self) -> Self {
        self.lines.clear();
        self.again.clear();
        self.before.clear();
        self.order.clear();
        self.ends.clear();
        self.passages.clear();
        self
    }

    /// First references to lines of a segment, or of a loop: what is left to be worked off.
    #[must_use]
    pub fn firsts(&self) -> usize {
        self.lines.len() + self.passages.iter().map(|(_, passage)| passage.lines as usize).sum::<usize>()
    }

    /// Whether loops walked over lines.
    #[must_use]
    pub fn walks(&self) -> bool {
        !self.passages.is_empty()
    }

    /// References that are counted by who takes the digest, not within it.
    #[must_use]
    pub fn references(&self) -> u64 {
        let walked: u64 = self.passages.iter().map(|(_, passage)| passage.lines).sum();
        walked + self.lines.iter().map(|first| u64::from(first.weight)).sum::<u64>()
    }

    /// From now on lines are counted from `base`.
    pub(crate) fn count_from(&mut self, base: u64) {
        self.lines.iter_mut().for_each(|run| run.line = run.line.wrapping_sub(base));
    }

    /// All of it, in order.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let (mut segments, mut passages) = (self.segments().enumerate().peekable(), self.passages.iter().peekable());
        std::iter::from_fn(move || {
            let here = segments.peek().map_or(usize::MAX, |&(number, _)| number);
            match passages.next_if(|&&(after, _)| after <= here) {
                Some((_, passage)) => Some(Stretch::Passage(passage)),
                None => segments.next().map(|(_, segment)| Stretch::Segment(segment)),
            }
        })
    }

    /// Its segments, in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let begins = [Ends::default()].into_iter().chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| Segment {
            base: 0,
            lines: &self.lines[begin.lines..end.lines],
            again: &self.again[begin.again..end.again],
            before: &self.before[begin.before..end.before],
            order: &self.order[begin.order..end.order],
        })
    }
}

impl Within {
    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Of::Usual(sum), Of::Usual(other)) => sum.absorb(other),
            (Of::Wide(sum), Of::Wide(other)) => sum.absorb(other),
            _ => debug_assert!(false, "stacks of the same limits"),
        }
    }
}

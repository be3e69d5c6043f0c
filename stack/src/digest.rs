//! What a stack hands on to one of all threads, so that this need not do everything again.
//!
//! The references of a chunk follow each other in the stack of all threads too. A line that is referenced again in the same
//! chunk has the same lines above it in both: its distances are those that the thread's own stack found, and are counted
//! once, `within`, for both. What is left for the stack of all threads is the first reference to each line, and in which
//! order the lines stand at the end.
//!
//! A chunk is cut into *segments* of so few lines that all of them are in the upper tiers of both stacks when it ends.
//! Nothing of a segment is lost: a dirty interval that it does not begin or does not end is handed on by what it adds.

use crate::counts::Buckets;
use crate::held::{Entry, HELD, Since};
use crate::holes::Instant;
use crate::item::Charge;
use crate::runs::Run;
use crate::simd::Vector;
use crate::{Limits, boxed};

/// Lines of a segment, at most: fewer than the upper tiers hold.
pub(crate) const LINES: usize = HELD - 8;

/// What the stack of one thread made of some references, for [`crate::Stack::feed_digest`]: segments that follow each other.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// Of each segment the first references to its lines, in order.
    lines: Vec<Run>,
    /// Of each segment those lines that were referenced again, in the order of `lines`.
    again: Vec<Again>,
    /// Of each segment which lines have to come to the top afterwards, one after the other, so that all stand in the order of
    /// their last reference.
    order: Vec<u16>,
    /// Where segments end in these.
    ends: Vec<Ends>,
}

/// Lengths up to the end of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    lines: usize,
    again: usize,
    order: usize,
}

/// A part of a digest; nothing but lines if they come from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment<'a> {
    pub(crate) lines: &'a [Run],
    pub(crate) again: &'a [Again],
    pub(crate) order: &'a [u16],
}

/// What followed the first reference to a line in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// The line's place in the segment.
    pub(crate) index: u16,
    /// If the first store came later than the first reference: its weight; else 0.
    pub(crate) closes: u32,
    /// In that case the greatest distances in between, that of the first store included.
    pub(crate) before: Greatest,
    /// Where the last store is counted; none: there was none.
    pub(crate) stored: Charge,
    /// Greatest distances since the last store, or else since the first reference.
    pub(crate) after: Greatest,
}

/// Greatest distances: with one set, and with 2^1, 2^2, … sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greatest {
    pub(crate) by_set: [u8; Limits::MOST_SET_BITS as usize],
    pub(crate) full: u32,
}

impl Greatest {
    const NONE: Self = Self { by_set: [0; Limits::MOST_SET_BITS as usize], full: 0 };

    fn of<const W: usize>(since: &Since<W>) -> Self {
        let mut greatest = Self { full: since.full, ..Self::NONE };
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    digest: Digest,
    /// Where the segment that goes on begins.
    begin: Ends,
    /// One bit for each of its lines: whether it was referenced again.
    again: [u64; HELD.div_ceil(64)],
}

impl Draft {
    /// Lines of the segment that goes on.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.digest.lines.len() - self.begin.lines
    }

    /// A line comes into the segment.
    #[inline(always)]
    pub(crate) fn first(&mut self, run: Run) {
        self.digest.lines.push(run);
    }

    /// The line at a place in the segment is referenced again.
    #[inline(always)]
    pub(crate) fn again(&mut self, index: usize) {
        self.again[index / 64 % HELD.div_ceil(64)] |= 1 << (index % 64);
    }

    /// Its first store closes the dirty interval that went on.
    #[inline(always)]
    pub(crate) fn close<const W: usize>(&mut self, index: u16, weight: u32, since: &Since<W>) {
        let (before, after) = (Greatest::of(since), Greatest::NONE);
        self.digest.again.push(Again { index, closes: weight, before, stored: Charge::NONE, after });
    }

    /// The segment ends; `since` tells what happened to the line at a place since its first reference or last store there.
    pub(crate) fn cut<'a, const W: usize>(
        &mut self,
        since: impl Fn(usize) -> &'a Since<W>,
        order: impl IntoIterator<Item = u16>,
    ) {
        let Digest { lines, again, order: orders, ends } = &mut self.digest;
        let mut left = std::mem::take(&mut self.again);
        for closed in &mut again[self.begin.again..] {
            let index = usize::from(closed.index);
            left[index / 64] &= !(1 << (index % 64));
            (closed.stored, closed.after) = (since(index).stored, Greatest::of(since(index)));
        }
        for (word, mut bits) in left.into_iter().enumerate() {
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (stored, after) = (since(index).stored, Greatest::of(since(index)));
                again.push(Again { index: index as u16, closes: 0, before: Greatest::NONE, stored, after });
            }
        }
        again[self.begin.again..].sort_unstable_by_key(|again| again.index);
        orders.extend(order);
        self.begin = Ends { lines: lines.len(), again: again.len(), order: orders.len() };
        ends.push(self.begin);
    }

    /// What is done. The segment that goes on must have no lines.
    pub(crate) fn take(&mut self) -> Digest {
        self.begin = Ends::default();
        std::mem::take(&mut self.digest)
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
    members: Box<[Member<W>; HELD]>,
}

impl<const W: usize> Digesting<W> {
    pub(crate) fn new() -> Self {
        let members = boxed::array(Member { since: Since::now(Charge::NONE), index: 0 });
        Self { draft: Draft::default(), entries: Vec::new(), begin: 0, again: usize::MAX, members }
    }

    /// Whether a line that was last referenced then is in the segment.
    #[inline(always)]
    pub(crate) fn has(&self, last: Instant) -> bool {
        last >= self.begin
    }

    /// Whether a line that is in the segment was stored there.
    #[inline(always)]
    pub(crate) fn stored(&self, entry: Entry) -> bool {
        self.members[usize::from(entry) % HELD].since.stored != Charge::NONE
    }

    /// A line comes into the segment. Not if it is full.
    #[inline(always)]
    pub(crate) fn first(&mut self, entry: Entry, run: Run, stored: Charge) {
        let index = self.entries.len() as u16;
        self.members[usize::from(entry) % HELD] = Member { since: Since::now(stored), index };
        self.entries.push(entry);
        self.draft.first(run);
    }

    /// A line of the segment is referenced again, and stored if there is a charge.
    #[inline(always)]
    pub(crate) fn again<V: Vector>(&mut self, entry: Entry, weight: u32, full: u32, by_set: &[u8; W], stored: Charge) {
        let &mut Member { ref mut since, index } = &mut self.members[usize::from(entry) % HELD];
        since.raise::<V>(full, by_set);
        let place = usize::from(index);
        self.draft.again(place);
        if place + 1 < self.entries.len() {
            self.again = self.again.min(place);
        }
        if stored != Charge::NONE {
            if since.stored == Charge::NONE {
                self.draft.close(index, weight, since);
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

    pub(crate) fn take(&mut self) -> Digest {
        self.draft.take()
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
    /// First references to lines of a segment: what is left to be worked off.
    #[must_use]
    pub fn firsts(&self) -> usize {
        self.lines.len()
    }

    /// References that are counted by who takes the digest, not within it.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.lines.iter().map(|first| u64::from(first.weight)).sum()
    }

    /// In order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let begins = [Ends::default()].into_iter().chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| Segment {
            lines: &self.lines[begin.lines..end.lines],
            again: &self.again[begin.again..end.again],
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

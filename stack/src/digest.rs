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
use crate::simd::Vector;
use crate::{Limits, boxed};

/// Lines of a segment, at most: fewer than the upper tiers hold.
pub(crate) const LINES: usize = HELD - 8;

/// What the stack of one thread made of some references, for [`crate::Stack::feed_digest`].
#[derive(Clone, Debug, Default)]
pub struct Digest(pub(crate) Vec<Segment>);

/// Some references that follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    /// Lines in the order of their first reference.
    pub(crate) lines: Vec<First>,
    /// Which of them have to come to the top afterwards, one after the other, so that all stand in the order of their last
    /// reference.
    pub(crate) order: Vec<u16>,
}

/// The first reference to a line in a segment, and what followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) line: u64,
    /// As in a run.
    pub(crate) weight: u32,
    /// As in a run.
    pub(crate) flags: u32,
    /// Where the thread's own stack holds it.
    entry: Entry,
    /// If the first store came later than the first reference: its weight; else 0.
    pub(crate) closes: u32,
    /// In that case the greatest distances in between, that of the first store included.
    pub(crate) before: Greatest,
    /// Where the last store is counted; none: there was none.
    pub(crate) stored: Charge,
    /// Greatest distances since the last store, or else since the first reference.
    pub(crate) after: Greatest,
}

impl First {
    #[inline(always)]
    pub(crate) fn new(entry: Entry, line: u64, weight: u32, flags: u32, stored: Charge) -> Self {
        let (before, after) = (Greatest::NONE, Greatest::NONE);
        Self { line, weight, flags, entry, closes: 0, before, stored, after }
    }
}

/// Greatest distances: with one set, and with 2^1, 2^2, … sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greatest {
    pub(crate) by_set: [u8; Limits::MOST_SET_BITS as usize],
    pub(crate) full: u32,
}

impl Greatest {
    const NONE: Self = Self { by_set: [0; Limits::MOST_SET_BITS as usize], full: 0 };

    pub(crate) fn of<const W: usize>(since: &Since<W>) -> Self {
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

/// A line of the segment.
#[derive(Clone, Copy, Debug)]
struct Member<const W: usize> {
    /// What happened to it since its first reference in the segment, or since its last store there.
    since: Since<W>,
    /// Its place in the segment.
    index: u16,
}

/// The segment that goes on, and those before it.
#[derive(Clone, Debug)]
pub(crate) struct Digesting<const W: usize> {
    done: Vec<Segment>,
    now: Segment,
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
        Self { done: Vec::new(), now: Segment::default(), begin: 0, again: usize::MAX, members }
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
    pub(crate) fn first(&mut self, entry: Entry, line: u64, weight: u32, flags: u32, stored: Charge) {
        let index = self.now.lines.len() as u16;
        self.members[usize::from(entry) % HELD] = Member { since: Since::now(stored), index };
        self.now.lines.push(First::new(entry, line, weight, flags, stored));
    }

    /// A line of the segment is referenced again, and stored if there is a charge.
    #[inline(always)]
    pub(crate) fn again<V: Vector>(&mut self, entry: Entry, weight: u32, full: u32, by_set: &[u8; W], stored: Charge) {
        let Member { since, index } = &mut self.members[usize::from(entry) % HELD];
        since.raise::<V>(full, by_set);
        let index = usize::from(*index);
        if index + 1 < self.now.lines.len() {
            self.again = self.again.min(index);
        }
        if stored != Charge::NONE {
            if since.stored == Charge::NONE {
                let first = &mut self.now.lines[index];
                (first.before, first.closes) = (Greatest::of(since), weight);
            }
            *since = Since::now(stored);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.now.lines.len() == LINES
    }

    /// The segment ends now; `last` tells when the line of an entry was last referenced.
    pub(crate) fn cut(&mut self, now: Instant, last: impl Fn(Entry) -> Instant) {
        self.begin = now;
        let again = std::mem::replace(&mut self.again, usize::MAX);
        if self.now.lines.is_empty() {
            return;
        }
        let mut segment = std::mem::take(&mut self.now);
        for first in &mut segment.lines {
            let since = &self.members[usize::from(first.entry)].since;
            (first.stored, first.after) = (since.stored, Greatest::of(since));
        }
        if again < segment.lines.len() {
            let mut order: Vec<_> = (again as u16..segment.lines.len() as u16).collect();
            order.sort_unstable_by_key(|&index| last(segment.lines[usize::from(index)].entry));
            let stay = order.iter().zip(again..).take_while(|&(&index, place)| usize::from(index) == place).count();
            segment.order = order.split_off(stay);
        }
        self.done.push(segment);
    }

    pub(crate) fn take(&mut self) -> Digest {
        Digest(std::mem::take(&mut self.done))
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
        self.0.iter().map(|segment| segment.lines.len()).sum()
    }

    /// References that are counted by who takes the digest, not within it.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.0.iter().flat_map(|segment| &segment.lines).map(|first| u64::from(first.weight)).sum()
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

//! The model's engine: references to lines in, reuse-distance histograms out, for every set count at once.
//!
//! No I/O, no threads, no globals: one engine holds one LRU stack of one line size and whoever owns it feeds it. The
//! meaning of every number is sections 1 to 4 of the model (`docs/model.md`). [`Engine`] is the narrow trait;
//! [`Stack`] implements it for use, [`Plain`] implements it as the model words it, for tests and benches to compare
//! with.
//!
//! # How `Stack` works
//!
//! A reference to the line on top changes nothing: it is counted at once, and what is left are *runs* (`engine`). The LRU
//! stack is kept in four tiers, which one after the other are the stack:
//!
//! 1. the 8 lines on `top`, in order, in a register: more than half of the runs end there;
//! 2. the 64 `newest` ones behind them, where bit masks give the distances of a line at all set counts together;
//! 3. the 256 `recent` ones behind those, the same with wider masks, or 1024 as long as that pays;
//! 4. all `older` ones: a `timeline` tells how many are newer than a given one, and `sets` tell the same by set. Only
//!    every third set count is kept; the others are sums over it.
//!
//! The lines of the first three are `held`: found by number, with what happened to them since they came. Most references end
//! there: a block of runs goes through the three and is counted then (`upper`). Only a line that comes in from the older
//! tier, or leaves for it, needs its own state, which is found by a dense id (`lines`, `by_line`, `lone`). Those are
//! collected for a batch of references and worked off stage by stage, so that each stage is a short loop that knows what it
//! will need and can fetch it ahead. The last stages, by set and what follows from that, lie `behind` the others: they can be
//! done by another thread while the next batches go through the tiers.
//!
//! Stacks of several threads (`threads`, `sharing`, `holes`) hand a `digest` of what they are fed on to the stack of all:
//! within a chunk both find the same distances. A `digester` makes such digests without a stack, so that several threads can
//! work for the stack of one.
//!
//! A loop that was seen before, at other addresses, is worked off as a digest that is kept as a `template`.
//!
//! A long loop over arrays, whose lines are told by where its strands begin and how far they go, is a *walk* (`walk`): what
//! happens among its own references is known from a loop like it, what its first references find is worked out from ranges of
//! lines (`walking`, `even`), and its lines end in *sheets* (`sheets`), which are part of the older tier. Where lines can be
//! taken away it goes as far as none was, and the digest tells the stack of all threads to walk there, too.
//!
//! Small distances share cells (`near`), or, of items, wait until many of an item can be counted together (`by_item`);
//! combinations of others that occur again and again wait in a table (`repeats`) before they are counted at each set count
//! (`dense` if they are of no item, else `counts`). A piece of references that a [`Chunk`] repeats is worked off twice, the second
//! time with the weight of all times that follow: from then on each is like the one before. How deep dirty lines are at the `end`
//! of a run is counted once for all of them.
#![deny(unsafe_code)]

mod behind;
mod boxed;
mod by_item;
mod by_line;
mod counts;
mod dense;
mod digest;
mod digester;
mod end;
mod engine;
mod even;
mod held;
mod holes;
mod item;
mod lines;
mod lone;
mod near;
mod newest;
mod older;
mod pins;
mod plain;
mod recent;
mod repeats;
mod runs;
mod sets;
mod sharing;
mod sheets;
mod simd;
mod sink;
mod still;
mod template;
mod threads;
mod tiers;
mod timeline;
mod top;
mod upper;
mod visit;
mod walk;
mod walking;

pub use behind::Deferred;
pub use by_line::ByLine;
pub use counts::{Binned, Counted, FullCounts, Histograms, SetCounts};
pub use digest::{Digest, Within};
pub use digester::Digester;
pub use engine::{Stack, Tally};
pub use item::Item;
pub use plain::Plain;
pub use sharing::{ByPosition, Position, Shared};
pub use sheets::MOST_LINES;
pub use simd::Instructions;
pub use sink::{MissesBySite, Outcome, Sink, SiteMisses};
pub use template::{Found, Learns, Use, Went};
pub use visit::{Common, Holders, There, Visit};

use std::ops::Range;

/// One reference: a line number and whether it is a store. Line numbers are addresses divided by the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference(u64);

impl Reference {
    /// A reference to `line` (below 2^63).
    #[must_use]
    #[inline]
    pub const fn new(line: u64, store: bool) -> Self {
        Self(line << 1 | store as u64)
    }
    /// The line number.
    #[must_use]
    #[inline]
    pub const fn line(self) -> u64 {
        self.0 >> 1
    }
    /// Whether it is a store.
    #[must_use]
    #[inline]
    pub const fn is_store(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Which histograms a batch of references counts into. References of [`Bucket::UNCOUNTED`] move the stack and are not
/// counted; a write-back counts in the bucket of the store that made the line dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub u8);

impl Bucket {
    /// Counted nowhere.
    pub const UNCOUNTED: Self = Self(0);
    /// The first counted bucket.
    pub const FIRST: Self = Self(1);
    /// The last one there can be.
    pub const LAST: Self = Self(254);
}

/// What an engine keeps exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Set counts 2^0 ..= 2^max_set_bits; at most [`Limits::MOST_SET_BITS`].
    pub max_set_bits: u32,
    /// Distances below this are exact with more than one set; 1 ..= [`Limits::MOST_WAYS`].
    pub max_ways: u32,
}

impl Limits {
    /// Greatest `max_set_bits`.
    pub const MOST_SET_BITS: u32 = 24;
    /// Greatest `max_ways`.
    pub const MOST_WAYS: u32 = 255;
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_set_bits: 16, max_ways: 64 }
    }
}

/// A piece of a [`Chunk`] that occurs several times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many references it has.
    pub len: u32,
    /// How often it occurs, one time after the other; at least 1.
    pub times: u32,
}

/// Some of the parts of a [`Chunk`], which occur several times in a row, all of them each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The number of the first of them.
    pub part: u32,
    /// How many they are; at least 1.
    pub parts: u32,
    /// How often they occur; at least 1.
    pub times: u32,
}

/// References in program order, the repeated ones written once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk<'a> {
    /// The references.
    pub references: &'a [Reference],
    /// For each reference the number of the place in the program that made it, for a [`Sink`]; or empty.
    pub sites: &'a [u32],
    /// For each reference what its counts are attributed to; or empty: [`Item::NONE`].
    pub items: &'a [Item],
    /// How `references` divides into repeated pieces, in order, all of it; or empty: each reference occurs once.
    pub parts: &'a [Part],
    /// Which parts repeat together, in order, none within another and no use between the parts of one.
    pub repeats: &'a [Repeat],
    /// What comes between the parts, in order: of templates that the stack found ([`Learns::find`]). Others take none.
    pub uses: &'a [Use],
}

/// Of a chunk.
enum Piece<'a> {
    /// References, and how often they count.
    References(Chunk<'a>, u32),
    /// What a template stands for.
    Use(Use),
}

impl<'a> Chunk<'a> {
    /// Its pieces in order, each with how often it counts. A repeated one comes a second time, for all times that follow the
    /// first: from then on every time is the same. The lines that were referenced in between are those of the piece, and a
    /// dirty line's greatest distance is one that the piece itself makes. The same is true of parts that repeat together.
    #[inline(always)]
    fn pieces(mut self) -> impl Iterator<Item = Piece<'a>> {
        let (mut uses, mut repeats, mut number) = (self.uses.iter(), self.repeats.iter(), 0);
        let (mut next, mut next_repeat) = (uses.next(), repeats.next());
        // Of those that the next part is in: where they begin, how often they come after this, and how often this counts.
        let (mut within, mut begin, mut more, mut weight) = (None::<&Repeat>, self, 0, 1);
        let pieces = std::iter::from_fn(move || {
            if let Some(&Repeat { part, .. }) = within.filter(|within| number == within.part + within.parts) {
                if more > 0 {
                    (self, number, weight, more) = (begin, part, more, 0);
                } else {
                    (within, weight) = (None, 1);
                }
            }
            if let Some(&found) = next.filter(|found| found.part == number) {
                next = uses.next();
                return Some([Some(Piece::Use(found)), None]);
            }
            if within.is_none()
                && let Some(found) = next_repeat.filter(|found| found.part == number)
            {
                (within, begin, more, next_repeat) = (Some(found), self, found.times - 1, repeats.next());
            }
            let part = match self.parts.get(number as usize) {
                Some(part) => *part,
                None if self.references.is_empty() => return None,
                None => Part { len: self.references.len() as u32, times: 1 },
            };
            number += 1;
            let piece = self.take(part.len as usize);
            let of = |times: u32| {
                (times > 0 && !piece.references.is_empty()).then_some(Piece::References(piece, times * weight))
            };
            Some([of(part.times.min(1)), of(part.times.saturating_sub(1))])
        });
        pieces.flatten().flatten()
    }

    /// Gives `take` where the references of each part are, in program order, as often as they occur.
    pub fn for_each_occurrence(&self, mut take: impl FnMut(Range<usize>)) {
        let whole = [Part { len: self.references.len() as u32, times: 1 }];
        let parts = if self.parts.is_empty() { &whole } else { self.parts };
        let (mut number, mut at) = (0, 0);
        while number < parts.len() {
            let found = self.repeats.iter().find(|found| found.part as usize == number);
            let (count, times) = found.map_or((1, 1), |found| (found.parts as usize, found.times));
            let (begin, together) = (at, &parts[number..number + count]);
            for _ in 0..times {
                at = begin;
                for part in together {
                    let piece = at..at + part.len as usize;
                    at = piece.end;
                    (0..part.times).for_each(|_| take(piece.clone()));
                }
            }
            number += count;
        }
    }

    /// Whether nothing is here.
    fn is_empty(&self) -> bool {
        self.references.is_empty() && self.uses.is_empty()
    }

    /// Takes so many references, at most, off the front. The parts stay behind.
    fn take(&mut self, len: usize) -> Self {
        let (references, after) = self.references.split_at(len.min(self.references.len()));
        let (sites, sites_after) = self.sites.split_at(len.min(self.sites.len()));
        let (items, items_after) = self.items.split_at(len.min(self.items.len()));
        (self.references, self.sites, self.items) = (after, sites_after, items_after);
        Self { references, sites, items, ..Self::default() }
    }
}

/// One LRU stack that counts.
pub trait Engine {
    /// Takes references in program order and counts them in `bucket`.
    fn feed(&mut self, references: &[Reference], bucket: Bucket) {
        self.feed_chunk(Chunk { references, ..Chunk::default() }, bucket);
    }

    /// Takes a chunk in program order and counts it in `bucket`.
    fn feed_chunk(&mut self, chunk: Chunk<'_>, bucket: Bucket);

    /// The counts of every counted bucket that was fed or charged with a write-back, ascending; the end-of-run parts
    /// are computed as if the run ended now, and feeding may go on.
    fn counted(&self) -> Vec<Counted>;

    /// The same, without the items.
    fn histograms(&self) -> Vec<(Bucket, Histograms)> {
        self.counted().into_iter().map(|counted| (counted.bucket, counted.all)).collect()
    }
}

//! The model's engine: references to lines in, reuse-distance histograms out, for every set count at once.
//!
//! No I/O, no threads, no globals: one engine holds one LRU stack of one line size and whoever owns it feeds it. The
//! meaning of every number is sections 1 to 4 of the model (`docs/model.md`). [`Engine`] is the narrow trait;
//! [`Stack`] implements it for use, [`Plain`] implements it as the model words it, for tests and benches to compare
//! with.
//!
//! # How `Stack` works
//!
//! A reference to the line on top changes nothing and is counted at once. The LRU stack below it is kept in two tiers,
//! which one after the other are the stack. The 64 most recent lines stand in slots (`recent`), where bit masks give all
//! distances of a line; most references end there. All other lines are older. They stand in one `timeline`, which tells
//! how many of them are newer than a given one, the distance with one set, and, by set, in `sets`, which tell the same
//! for each greater set count. What is known of each line (`lines`) is found by a dense id. A line that comes from the
//! older tier pays for two walks over set counts, its own and that of the line it displaces; each ends where the line is
//! on top of its set, because it is then on top of every smaller set too.
#![deny(unsafe_code)]

mod counts;
mod engine;
mod lines;
mod plain;
mod recent;
mod sets;
mod simd;
mod timeline;

pub use counts::{Binned, FullCounts, Histograms, SetCounts};
pub use engine::Stack;
pub use plain::Plain;
pub use simd::Instructions;

/// One reference: a line number and whether it is a store. Line numbers are addresses divided by the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference(u64);

impl Reference {
    /// A reference to `line` (below 2^63).
    #[must_use]
    pub const fn new(line: u64, store: bool) -> Self {
        Self(line << 1 | store as u64)
    }
    /// The line number.
    #[must_use]
    pub const fn line(self) -> u64 {
        self.0 >> 1
    }
    /// Whether it is a store.
    #[must_use]
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

/// One LRU stack that counts.
pub trait Engine {
    /// Takes references in program order and counts them in `bucket`.
    fn feed(&mut self, references: &[Reference], bucket: Bucket);

    /// The counts of every counted bucket that was fed or charged with a write-back, ascending; the end-of-run parts
    /// are computed as if the run ended now, and feeding may go on.
    fn histograms(&self) -> Vec<(Bucket, Histograms)>;
}

//! The model's engine: references to lines in, reuse-distance histograms out, for every set count at once.
//!
//! No I/O, no threads, no globals: one engine holds one LRU stack of one line size and whoever owns it feeds it. The
//! meaning of every number is sections 1 to 4 of the model (`docs/model.md`); [`Reference`] is the smallest thing it
//! takes, [`Engine`] the narrow trait that the fast engine and the plain reference of the tests both implement.
#![forbid(unsafe_code)]

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
}

/// What an engine keeps exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Set counts 2^0 ..= 2^max_set_bits; at most 24.
    pub max_set_bits: u32,
    /// Distances below this are exact with more than one set; 1 ..= 255.
    pub max_ways: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_set_bits: 16, max_ways: 64 }
    }
}

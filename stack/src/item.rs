//! What a reference is attributed to, besides its bucket.

use crate::Bucket;

/// A place in the program, an object, or whatever else its owner numbers: counts are kept for each by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item(pub u16);

impl Item {
    /// Nothing in particular.
    pub const NONE: Self = Self(0);
    /// The last one there can be.
    pub const LAST: Self = Self(0x7fff);
}

/// Where the next write-back of a line is counted: bucket and item of its last store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge(u32);

impl Charge {
    /// The line was not stored.
    pub(crate) const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) const fn new(bucket: Bucket, item: Item) -> Self {
        Self((bucket.0 as u32 + 1) | (item.0 as u32) << 16)
    }

    /// Bucket and item, if the line was stored.
    #[inline(always)]
    pub(crate) const fn get(self) -> Option<(Bucket, Item)> {
        match self.0 {
            0 => None,
            charge => Some((Bucket((charge & 0xffff) as u8 - 1), Item((charge >> 16) as u16))),
        }
    }
}

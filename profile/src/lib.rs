//! The profile: what one run leaves behind, and the only thing the runtime and the post-processor share.
//!
//! Comes in: the [`model`] types, filled by `collect`. Goes out: the same types, read back from a versioned, checksummed
//! container, or a trace of accesses from a trace file. It must never compute an answer (that is `postproc`) and depends
//! on no other crate of this workspace.
#![forbid(unsafe_code)]

pub mod bins;
mod coherence;
pub mod container;
mod counters;
mod counts;
#[cfg(test)]
mod documentation;
mod error;
#[cfg(test)]
mod golden;
mod merge;
pub mod model;
pub mod objects;
mod packing;
mod paths;
mod patterns;
pub mod places;
#[cfg(test)]
mod samples;
mod section;
mod sharing;
pub mod trace;
mod validate;
mod varint;
mod wire;

pub use coherence::{ByPosition, Coherence, LineCoherence};
pub use container::{Replacement, Union, read, read_file, replace, salvage_file, write, write_file};
pub use counters::{BlockItem, CountItem, CountedFunction, Counters, PlaceItem};
pub use error::{Damage, Error, Place};
pub use merge::{check_mergeable, merge};
pub use model::{
    Bin, CacheKind, CacheLevel, Callee, EndReason, FullHistograms, Histograms, ItemLines, ItemStack, LineData, Machine,
    Meta, Owner, Process, Profile, References, SampledLines, Sampling, SetHistograms, StackData,
};
pub use objects::Objects;
pub use paths::{PathCounts, PathNode, Paths};
pub use patterns::{Patterns, Strides, Touched, TouchedBy};
pub use places::Places;
pub use section::MAGIC;
pub use sharing::{LinePlace, LineUser, ObjectKind, SharedLine, SharedLines, SharedObject};
pub use validate::Invalid;

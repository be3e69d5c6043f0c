//! Questions to profiles.
//!
//! Comes in: a [`bf_profile::Profile`], or a trace to make one from, and the shape of a cache. Goes out: what that cache
//! would have done, as the formulas of `docs/model.md` give it, with what is known about the answer's exactness. It must
//! never look at the computer it runs on: a machine is described by the profile, by a preset or by a file.
#![forbid(unsafe_code)]

pub mod answer;
pub mod attribution;
pub mod compare;
pub mod compose;
pub mod counters;
pub mod curve;

pub mod error;
pub mod explore;
pub mod hashed;
pub mod machine;
pub mod names;
pub mod paths;
pub mod patterns;
pub mod phases;
pub mod query;
#[cfg(not(target_family = "wasm"))]
pub mod replay;
pub mod reuse;
pub mod sampled;
pub mod share;
pub mod sharing;

pub mod shared_lines;
pub mod size;
pub mod source;
pub mod spec;
pub mod stack;
pub mod sweep;
pub mod table;
mod units;

pub use answer::{Answer, LevelAnswer, Spread};
pub use error::{MachineError, QueryError, SpecError};
pub use query::{Query, query};
pub use share::{Share, ShareError};
pub use spec::{Cache, Scope, Shape, Ways};

//! What this computer's memory really does: its caches and cores, how long loads take, how much moves in a second, and
//! which of its performance counters may be believed.
//!
//! Comes in: the machine itself, by files of Linux, instructions and system calls, or what was recorded on another one.
//! Goes out: figures with their quality. It never reads a profile, never needs root for what does not truly need it, and
//! never says a figure that it did not measure.
#![deny(unsafe_code)]

pub mod bandwidth;
pub mod c2c;
pub mod coherence;
pub mod counters;
pub mod doctor;
pub mod document;
mod error;
pub mod hwloc;
pub mod latency;
pub mod loaded;
pub mod memory;
pub mod numa;
mod partner;
pub mod placement;
pub mod progress;
pub mod session;
pub mod stat;
pub mod steps;
pub mod sys;
pub mod throughput;
pub mod tlb;
pub mod topology;
pub mod witness;

pub use error::Error;
pub use session::Session;
pub use topology::Topology;

//! Traces: the accesses of a run in the order in which its engines took them, so that a replay counts exactly what the
//! run counted.
//!
//! A trace is a file of checked, compressed sections like a profile: a [`Header`], then frames of some 1 MiB of records
//! each, then an end mark. Every frame is decoded without those before it, so a killed program leaves a trace that is
//! good up to its last frame. Writer and reader hold one frame at a time.

mod reader;
mod record;
#[cfg(test)]
mod tests;
mod writer;

use bincode::{Decode, Encode};

pub use reader::Reader;
pub use record::{Access, Event, Record};
pub use writer::Writer;

use crate::error::Damage;
use crate::model::{Machine, Meta};
use crate::wire::{Part, decode};

/// What stands at the beginning of a trace: enough for a replay to leave the profile that the run left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// Who ran, and where; what is known only at the end (duration, counts, end) is zero or a default.
    pub meta: Meta,
    /// The machine it ran on.
    pub machine: Machine,
    /// Line sizes of the session, bytes, ascending.
    pub line_sizes: Vec<u32>,
    /// Histograms were kept for 2^0 ..= 2^max_set_bits sets.
    pub max_set_bits: u32,
    /// With more than one set, distances below this were kept exactly.
    pub max_ways: u32,
}

impl Part for Header {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        decode(bytes)
    }
}

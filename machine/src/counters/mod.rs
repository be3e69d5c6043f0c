//! Hardware performance counters: which there are, how to read them, and which to believe.

pub mod probe;

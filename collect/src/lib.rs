//! Accesses of threads in, the line data of a profile out: what the runtime and `replay` share.
//!
//! It cuts accesses into references per line size, feeds every slot's private engines and the global ones, and turns
//! their histograms into profile types. It must never touch a file, the environment or another thread's buffer.
#![forbid(unsafe_code)]

use bf_profile::{LineData, Owner};
pub use bf_stack::{Bucket, Limits};

/// What a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Line sizes, bytes, powers of two in 8 ..= 2^30, ascending, none twice.
    pub line_sizes: Vec<u32>,
    /// Bounds of the exact part.
    pub limits: Limits,
}

/// A batch of accesses in program order, cut into references for every line size of a [`Config`]. Reusable: `clear`
/// keeps the memory.
#[derive(Clone, Debug)]
pub struct Batch {}

impl Batch {
    /// An empty batch for a session of this configuration.
    #[must_use]
    pub fn new(_config: &Config) -> Self {
        todo!()
    }
    /// One access of `size` bytes; size 0 is no access. An access that would wrap around the address space is cut there.
    pub fn access(&mut self, _address: u64, _size: u64, _store: bool) {
        todo!()
    }
    /// A `memcpy` or `memmove`: pieces of 4096 bytes from the start, each a load range then a store range.
    pub fn copy(&mut self, _to: u64, _from: u64, _size: u64) {
        todo!()
    }
    /// Accesses since the last `clear`.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        todo!()
    }
    /// Forgets everything.
    pub fn clear(&mut self) {
        todo!()
    }
}

/// All stacks of one process. Shared by its threads; each slot must be fed by one thread at a time.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// No slots yet.
    #[must_use]
    pub fn new(_config: Config) -> Self {
        todo!()
    }
    /// A place for a new thread: that of a thread that ended if there is one, with its contents, else a new one.
    /// Slot 0 is the first. Once there are two the global stack exists, starting from slot 0's contents.
    pub fn take_slot(&self) -> u32 {
        todo!()
    }
    /// The thread on this slot ended.
    pub fn release_slot(&self, _slot: u32) {
        todo!()
    }
    /// Makes sure that slots 0 ..= slot exist, for traces that number their threads.
    pub fn ensure_slot(&self, _slot: u32) {
        todo!()
    }
    /// Feeds one batch. Batches of several threads enter the global stack in the order of the calls.
    pub fn feed(&self, _slot: u32, _batch: &Batch, _bucket: Bucket) {
        todo!()
    }
    /// The histograms so far, with the end-of-run parts computed as if the run ended now; feeding may go on.
    /// Bucket b becomes tag b - 1.
    #[must_use]
    pub fn snapshot(&self) -> Vec<LineData> {
        let _ = Owner::Global;
        todo!()
    }
}

//! What becomes of decoded accesses: a batch for the session, and calls by callee.

use crate::decode::Sink;
use crate::modules;
use crate::process::Recorder;
use bf_abi::Segment;
use bf_collect::{Batch, Bucket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Copies are fed in parts of this many bytes (a multiple of the model's 4096), so that a batch stays small.
const COPY_PART: u64 = 256 << 10;

/// What becomes of the accesses made from a certain moment on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They count in this bucket.
    Feed(Bucket),
    /// They are none (`BF_STOP=ignore`).
    Ignore,
}

/// Takes the accesses of one thread.
#[derive(Default)]
pub struct Accumulator {
    batch: Batch,
    calls: Vec<u64>,
    used: bool,
}

impl Accumulator {
    /// Calls by callee number so far.
    pub fn calls(&self) -> &[u64] {
        &self.calls
    }

    /// Whether there was an access at all.
    pub fn used(&self) -> bool {
        self.used
    }

    /// Forgets what it counted.
    pub fn reset(&mut self) {
        self.calls.clear();
        self.used = false;
    }

    /// A sink whose accesses go to `slot` under `mode` when it is dropped.
    pub fn open<'a>(&'a mut self, recorder: &'a Recorder, slot: u32, mode: Mode) -> Open<'a> {
        Open { to: self, recorder, slot, mode }
    }
}

/// An [`Accumulator`] at work under one mode.
pub struct Open<'a> {
    to: &'a mut Accumulator,
    recorder: &'a Recorder,
    slot: u32,
    mode: Mode,
}

impl Open<'_> {
    fn feed(&mut self) {
        if let Mode::Feed(bucket) = self.mode
            && self.to.batch.accesses() > 0
        {
            self.to.used = true;
            self.recorder.feed(self.slot, &self.to.batch, bucket);
        }
        self.to.batch.clear();
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.feed();
    }
}

impl Sink for Open<'_> {
    #[inline(always)]
    fn access(&mut self, address: u64, size: u64, store: bool) {
        self.to.batch.access(address, size, store);
    }

    fn copy(&mut self, to: u64, from: u64, size: u64) {
        let mut done = 0;
        while done < size {
            let part = (size - done).min(COPY_PART);
            self.to.batch.copy(to.wrapping_add(done), from.wrapping_add(done), part);
            done += part;
            if done < size {
                self.feed();
            }
        }
    }

    #[inline]
    fn call(&mut self, segment: &Segment) {
        if self.mode == Mode::Ignore || self.mode == Mode::Feed(Bucket::UNCOUNTED) {
            return;
        }
        // SAFETY:
        // - `id` is an aligned u32 that everyone reaches through atomics
        let id = unsafe { AtomicU32::from_ptr((&raw const segment.id).cast_mut()) };
        let number = match id.load(Ordering::Relaxed) {
            0 => modules::number(segment, id),
            number => number,
        } as usize;
        if number >= self.to.calls.len() {
            self.to.calls.resize(number + 1, 0);
        }
        self.to.calls[number] += 1;
    }
}

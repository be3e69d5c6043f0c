//! What becomes of what a thread recorded: a batch for the session, and calls by callee.

use crate::decode::{self, Memory, Reader};
use bf_abi::Segment;
use bf_collect::{Batch, Bucket};

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
    memory: Memory,
    used: bool,
    /// Words read, and the accesses they stood for, since this was last asked.
    read: (usize, u64),
}

impl Accumulator {
    /// Calls by callee number so far.
    pub fn calls(&self) -> &[u64] {
        &self.memory.calls
    }

    /// Whether there was an access at all.
    pub fn used(&self) -> bool {
        self.used
    }

    /// Words read since the last call, and the accesses they stood for.
    pub fn take_read(&mut self) -> (usize, u64) {
        std::mem::take(&mut self.read)
    }

    /// Forgets what it counted.
    pub fn reset(&mut self) {
        self.memory.calls.clear();
        self.used = false;
    }

    /// Reads segments from `from` up to `to`; `feed` takes what they hold. Returns where it stopped: `to`, unless the last
    /// segment reaches beyond it.
    ///
    /// # Safety
    ///
    /// `from..to` lies within one buffer that instrumented code filled, and `locate` gives the place of every segment that
    /// is named there, mapped. The thread that fills it may be running.
    pub unsafe fn read(
        &mut self,
        from: *const u64,
        to: *const u64,
        locate: impl Fn(u64) -> *const Segment,
        mode: Mode,
        feed: impl Fn(&mut Batch),
    ) -> *const u64 {
        let counts = matches!(mode, Mode::Feed(bucket) if bucket != Bucket::UNCOUNTED);
        let Self { batch, memory, used, read } = self;
        // SAFETY:
        // - both lie within one buffer
        let len = unsafe { to.offset_from(from) }.max(0) as usize;
        // SAFETY:
        // - below `to`, so within the buffer
        let words = (0..len).map(move |i| unsafe { decode::word(from.add(i)) });
        // SAFETY:
        // - the caller's obligation
        let mut reader = unsafe { Reader::new(locate, memory, counts) };
        let mut feed = |batch: &mut Batch| {
            if mode != Mode::Ignore {
                *used |= batch.accesses() > 0;
                read.1 = read.1.saturating_add(batch.accesses());
            }
            feed(batch);
        };
        let taken = batch.append(words, &mut reader, &mut feed);
        if !batch.is_empty() {
            feed(batch);
        }
        batch.clear();
        read.0 += taken;
        from.wrapping_add(taken)
    }
}

//! Buffers: zeroed words that a thread fills.

use crate::memory;
use crate::system;
use bf_abi::MAX_SEGMENT_WORDS;
use std::ptr;
use std::sync::atomic::AtomicU64;

/// Words of a buffer: 64 KiB, which the caches hold beside the program's own data.
pub const WORDS: usize = 8192;

/// A buffer that nobody reads, for when nothing is recorded, and its limit. All threads write to the same. It needs no
/// memory that might not be there.
pub fn scratch() -> (*mut u64, *mut u64) {
    static WHERE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
    let start = WHERE.as_ptr().cast_mut().cast::<u64>();
    (start, start.wrapping_add(WORDS))
}

/// Whether a position is one there.
pub fn is_scratch(position: *mut u64) -> bool {
    let (start, limit) = scratch();
    (start..=limit).contains(&position)
}

/// One mapped buffer.
pub struct Buffer {
    pub start: *mut u64,
    /// Words that may be other than zero.
    dirty: usize,
}

impl Buffer {
    pub fn new() -> Self {
        // Kept for good.
        let start = system::map(WORDS * 8, 0);
        if start.is_null() {
            memory::exhausted();
            // Only where no entry of the runtime stands around this.
            return Self { start: scratch().0, dirty: 0 };
        }
        Self { start: start.cast(), dirty: 0 }
    }

    /// One past the last word.
    pub fn limit(&self) -> *mut u64 {
        self.start.wrapping_add(WORDS)
    }

    /// Zeroes what may have been written. Done when the buffer is handed out, not when it was read, because a segment
    /// may still have been owed some stores then.
    pub fn clean(&mut self) {
        // SAFETY:
        // - `dirty` never exceeds WORDS, and the buffer is in nobody's hands
        unsafe { ptr::write_bytes(self.start, 0, self.dirty) };
        self.dirty = 0;
    }

    /// Everything below `position` may be other than zero, and so may a segment reserved there.
    pub fn written(&mut self, position: *mut u64) {
        let words = (position as usize).saturating_sub(self.start as usize) / 8;
        self.dirty = self.dirty.max((words + MAX_SEGMENT_WORDS as usize).min(WORDS));
    }
}

// SAFETY:
// - mapped for good; whoever writes is told so by a thread's level, or nobody reads
unsafe impl Send for Buffer {}
// SAFETY:
// - as above
unsafe impl Sync for Buffer {}

//! Places where a thread records.
//!
//! A thread records at one *level* at a time. When a handler of the program interrupts it, its level is suspended with
//! the cursor it had, and the handler records at a level of its own; when the handler returns, the suspended level goes
//! on as if nothing had happened, so the few instructions that reserve a segment need not be atomic. What was recorded
//! is read in the order in which it happened: suspended levels first, outermost first, each up to the segment that was
//! being filled when it was interrupted; that segment is read later, when it is complete.
//!
//! A handler may also leave by `siglongjmp`. Its frame is then above the stack pointer when this thread next comes
//! here, the levels it suspended are done for, and are read to their end.

use crate::buffer::Buffer;
use crate::sink::Mode;
use crate::tls::Cursor;
use std::collections::VecDeque;

/// Where the mode changed within a buffer.
pub struct Boundary {
    pub at: *mut u64,
    pub mode: Mode,
}

/// A place to record: see the module's page.
pub struct Level {
    /// The one in use, then the one that was.
    pub buffers: [Buffer; 2],
    /// Read up to here.
    pub read: *const u64,
    pub boundaries: VecDeque<Boundary>,
    pub suspended: Option<Suspended>,
}

/// Of a level that a handler interrupted.
pub struct Suspended {
    /// Cursor and limit the thread had.
    pub position: *mut u64,
    pub limit: *mut u64,
    pub frame: Frame,
}

/// A running handler: its stack pointer, and whether that is on the alternate signal stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// An address within its stack frame.
    pub at: usize,
    /// Whether it runs on the alternate signal stack.
    pub alternate: bool,
}

impl Frame {
    /// As one number other than 0: stacks are in the lower half of the addresses.
    pub fn packed(self) -> usize {
        self.at << 1 | usize::from(self.alternate)
    }

    /// The one of that number.
    pub fn unpacked(packed: usize) -> Self {
        Self { at: packed >> 1, alternate: packed & 1 != 0 }
    }

    /// Whether the handler of this frame was left without returning, seen from `now`, deeper or elsewhere.
    pub fn left(self, now: Self) -> bool {
        match (self.alternate, now.alternate) {
            (true, false) => true,
            (false, true) => false,
            // A handler within that handler would be deeper.
            _ => now.at >= self.at,
        }
    }
}

impl Level {
    pub fn new() -> Self {
        let buffers = [Buffer::new(), Buffer::new()];
        Self { read: buffers[0].start, buffers, boundaries: VecDeque::new(), suspended: None }
    }

    /// Hands the first `words` words of the other buffer out; the thread is the calling one.
    pub fn turn(&mut self, cursor: Cursor, words: usize) -> *mut u64 {
        self.buffers.swap(0, 1);
        let [now, before] = &mut self.buffers;
        before.written(cursor.position().min(before.limit()).max(before.start));
        now.clean();
        self.read = now.start;
        cursor.set(now.start, now.start.wrapping_add(words));
        now.start
    }
}

//! This thread's recording state, as instrumented code sees it.

use crate::thread;
use bf_abi::Tls;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    safe fn bf_rt_tls() -> NonNull<Tls>;
}

/// Words of `Tls::reserved` and what they hold.
mod word {
    /// Address of the thread's [`crate::thread::Thread`], 0 before the first flush.
    pub const THREAD: usize = 0;
    /// How many times the thread's destructor ran.
    pub const ENDS: usize = 1;
    /// Where the runtime is left when memory runs out, 0 outside of it.
    pub const FRAME: usize = 2;
    /// 1 on a helper thread.
    pub const HELPER: usize = 3;
    /// Handlers of the program that run.
    pub const HANDLERS: usize = 4;
}

/// A thread's `bf_tls`. The thread writes cursor and limit at any time, others only read the cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cursor(NonNull<Tls>);

// SAFETY:
// - every field is reached through atomics
// - a `Cursor` is kept only while its thread is registered, and a thread takes itself off before its thread-locals end
unsafe impl Send for Cursor {}

impl Cursor {
    /// That of the calling thread.
    pub fn mine() -> Self {
        Self(bf_rt_tls())
    }

    /// Where it is.
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn field(&self, index: usize) -> &AtomicU64 {
        // SAFETY:
        // - `Tls` is twelve consecutive u64, and `index` is below 12 in every use below
        // - valid for as long as the thread is registered, see `Send` above
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().cast::<u64>().add(index)) }
    }

    /// Where the thread's next segment goes.
    pub fn position(&self) -> *mut u64 {
        thread::kept(*self).map_or_else(|| self.next(), |[position, _]| position)
    }

    /// The same, or where one goes that the runtime itself caused.
    pub fn next(&self) -> *mut u64 {
        self.field(0).load(Ordering::Acquire) as *mut u64
    }

    /// One past the buffer.
    pub fn limit(&self) -> *mut u64 {
        thread::kept(*self).map_or_else(|| self.field(1).load(Ordering::Relaxed) as *mut u64, |[_, limit]| limit)
    }

    /// Gives the thread, which must be the calling one, another place to record.
    pub fn set(&self, position: *mut u64, limit: *mut u64) {
        self.divert(position, limit);
        thread::forget_kept(*self);
    }

    /// The same, and what is kept of where it records stays.
    pub fn divert(&self, position: *mut u64, limit: *mut u64) {
        self.field(1).store(limit as u64, Ordering::Relaxed);
        self.field(0).store(position as u64, Ordering::Release);
    }

    /// Address of the thread's slots, or 0.
    pub fn slots(&self) -> &AtomicU64 {
        self.field(7)
    }

    /// The call path that the thread is on.
    pub fn path(&self) -> &AtomicU64 {
        self.field(8)
    }

    /// The path and the callee of its last tail call.
    pub fn tail(&self) -> [&AtomicU64; 2] {
        [self.field(9), self.field(10)]
    }

    fn reserved(&self, index: usize) -> &AtomicU64 {
        self.field(2 + index)
    }

    /// Address of the thread's record, or 0.
    pub fn thread(&self) -> &AtomicU64 {
        self.reserved(word::THREAD)
    }

    /// Of [`crate::memory::run`]; 0 while the thread is not in the runtime.
    pub fn frame(&self) -> &AtomicU64 {
        self.reserved(word::FRAME)
    }

    /// Marks the thread as a helper.
    pub fn set_helper(&self) {
        self.reserved(word::HELPER).store(1, Ordering::Relaxed);
    }

    /// Whether it is one.
    pub fn is_helper(&self) -> bool {
        self.reserved(word::HELPER).load(Ordering::Relaxed) != 0
    }

    /// How many handlers of the program run on the thread; more if some were left by a jump.
    pub fn handlers(&self) -> &AtomicU64 {
        self.reserved(word::HANDLERS)
    }

    /// How many times the thread's destructor ran.
    pub fn ends(&self) -> &AtomicU64 {
        self.reserved(word::ENDS)
    }
}

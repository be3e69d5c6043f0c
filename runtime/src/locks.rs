//! Who held each lock last, so that what a thread did under a lock is read when another one holds it, and not each time the
//! lock is let go: most are taken again by the thread that had them.
//!
//! A row stands for the locks whose addresses fall on it. Its thread is the last one that held any of them; what all others
//! did until they let go of theirs is read. So who finds another thread there enters itself and reads what that one recorded,
//! while whoever comes meanwhile waits.

use crate::memory;
use crate::thread::Thread;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const ROW_BITS: u32 = 12;

/// Addresses of threads; with [`READS`] that one still reads what the one before it did.
static LAST: [AtomicUsize; 1 << ROW_BITS] = [const { AtomicUsize::new(0) }; 1 << ROW_BITS];
const READS: usize = 1;

/// Fibonacci hashing.
fn row(lock: usize) -> &'static AtomicUsize {
    &LAST[(lock as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (u64::BITS - ROW_BITS)]
}

/// Whether this thread, the calling one, was the last one that held this lock.
pub fn is_mine(lock: usize, mine: &'static Thread) -> bool {
    row(lock).load(Relaxed) == ptr::from_ref(mine) as usize
}

/// The calling thread, which is this one, holds this lock: what the last one did comes before what it does from now on.
pub fn take(lock: usize, mine: &'static Thread) {
    let (row, address) = (row(lock), ptr::from_ref(mine) as usize);
    let enter = |last: usize| (last & READS == 0).then_some(address | READS);
    let last = loop {
        match row.fetch_update(AcqRel, Acquire, enter) {
            Ok(last) => break last,
            Err(_) if memory::lost() => return,
            Err(_) => std::thread::yield_now(),
        }
    };
    // SAFETY:
    // - 0, or the address of a thread, and those are kept for good
    if let Some(last) = unsafe { (last as *const Thread).as_ref() } {
        last.read_by(mine);
    }
    row.store(address, Release);
}

/// In a fresh child process: nobody reads.
pub fn forget() {
    LAST.iter().for_each(|row| row.store(0, Relaxed));
}

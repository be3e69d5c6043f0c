//! Who held each lock last, so that what a thread did under a lock is read when another one holds it, and not each time the
//! lock is let go: most are taken again by the thread that had them.
//!
//! A row stands for the locks whose addresses fall on it. Its thread is the last one that held any of them alone, unless somebody
//! has read what it did; what all others did until they let go of theirs is read. So who finds another thread there enters itself and
//! reads what that one recorded, while whoever comes meanwhile waits. Who shares a lock need not know what others did that share
//! it: such a thread leaves a mark, and is read by the next one that holds the lock alone.

use crate::memory;
use crate::thread::{self, Thread};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

const ROW_BITS: u32 = 12;

/// See the module's page.
struct Row {
    /// The address of a thread, or 0; with [`READS`] that one still reads what the one before it did.
    last: AtomicUsize,
    /// Marks of threads that shared one of the locks since somebody held it alone.
    shared: AtomicU64,
    /// Marks of threads that held one alone, and did not enter themselves.
    alone: AtomicU64,
}

impl Row {
    const fn new() -> Self {
        Self { last: AtomicUsize::new(0), shared: AtomicU64::new(0), alone: AtomicU64::new(0) }
    }
}

static ROWS: [Row; 1 << ROW_BITS] = [const { Row::new() }; 1 << ROW_BITS];
const READS: usize = 1;

/// How a thread holds a lock, or held it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Alone,
    /// Perhaps with others.
    Shared,
    /// Until now, one way or the other.
    Either,
}

/// Fibonacci hashing.
fn row(lock: usize) -> &'static Row {
    &ROWS[(lock as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (u64::BITS - ROW_BITS)]
}

/// Whether there is nothing to read for this thread, the calling one, that holds this lock, and others will know that it did.
pub fn is_known(lock: usize, hold: Hold, mine: &'static Thread) -> bool {
    let row = row(lock);
    let (last, shared) = (row.last.load(Relaxed), row.shared.load(Relaxed));
    let (is_mine, is_marked) = (last == ptr::from_ref(mine) as usize, shared & mine.mark != 0);
    match hold {
        Hold::Alone => is_mine && shared == 0,
        Hold::Shared => {
            if !is_mine && !is_marked {
                row.shared.fetch_or(mine.mark, AcqRel);
            }
            (is_mine || last == 0) && row.alone.load(Relaxed) == 0
        }
        // Where neither is so another one wanted it meanwhile, or holds another lock of this row.
        Hold::Either => is_mine || is_marked,
    }
}

/// It holds this lock, or held it, and does not take it as others would: until it lets go of it, it is not one of those that share it.
pub fn leave(lock: usize, hold: Hold, mine: &'static Thread) {
    match hold {
        Hold::Alone => drop(row(lock).shared.fetch_and(!mine.mark, AcqRel)),
        Hold::Shared => {}
        Hold::Either => drop(row(lock).alone.fetch_or(mine.mark, AcqRel)),
    }
}

/// The calling thread, which is this one, holds this lock: what those before it did comes before what it does from now on.
pub fn take(lock: usize, hold: Hold, mine: &'static Thread) {
    let (row, address) = (row(lock), ptr::from_ref(mine) as usize);
    let next = if hold == Hold::Shared { 0 } else { address };
    let enter = |last: usize| (last & READS == 0).then_some(next | READS);
    let last = loop {
        match row.last.fetch_update(AcqRel, Acquire, enter) {
            Ok(last) => break last,
            Err(_) if memory::lost() => return,
            Err(_) => std::thread::yield_now(),
        }
    };
    // SAFETY:
    // - 0, or the address of a thread, and those are kept for good
    if let Some(last) = unsafe { (last as *const Thread).as_ref() }
        && !ptr::eq(last, mine)
    {
        last.read_by(mine);
    }
    let shared = if hold == Hold::Shared { 0 } else { row.shared.swap(0, AcqRel) };
    let marks = shared | row.alone.swap(0, AcqRel);
    if marks != 0 {
        let others = thread::marked(marks).into_iter().filter(|&other| !ptr::eq(other, mine));
        others.for_each(|other| other.read_by(mine));
    }
    row.last.store(next, Release);
}

/// In a fresh child process: nobody reads.
pub fn forget() {
    for row in &ROWS {
        row.last.store(0, Relaxed);
        row.shared.store(0, Relaxed);
        row.alone.store(0, Relaxed);
    }
}

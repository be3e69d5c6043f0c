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
}

static ROWS: [Row; 1 << ROW_BITS] =
    [const { Row { last: AtomicUsize::new(0), shared: AtomicU64::new(0) } }; 1 << ROW_BITS];
const READS: usize = 1;

/// How a thread holds a lock, or held it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Alone,
    /// Perhaps with others.
    Shared,
}

/// Fibonacci hashing.
fn row(lock: usize) -> &'static Row {
    &ROWS[(lock as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (u64::BITS - ROW_BITS)]
}

/// Whether there is nothing to read for this thread, the calling one, that holds this lock, and others will know that it did.
pub fn is_known(lock: usize, hold: Hold, mine: &'static Thread) -> bool {
    let row = row(lock);
    let last = row.last.load(Relaxed);
    let is_mine = last == ptr::from_ref(mine) as usize;
    match hold {
        Hold::Alone => is_mine && row.shared.load(Relaxed) == 0,
        Hold::Shared if is_mine => true,
        Hold::Shared => {
            if row.shared.load(Relaxed) & mine.mark == 0 {
                row.shared.fetch_or(mine.mark, AcqRel);
            }
            last == 0
        }
    }
}

/// The calling thread, which is this one, holds this lock: what those before it did comes before what it does from now on.
pub fn take(lock: usize, hold: Hold, mine: &'static Thread) {
    let (row, address) = (row(lock), ptr::from_ref(mine) as usize);
    let next = if hold == Hold::Alone { address } else { 0 };
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
    if hold == Hold::Alone {
        let shared = row.shared.swap(0, AcqRel);
        let others = || thread::registry_for_a_while().map(|registry| registry.live.clone());
        for other in if shared == 0 { None } else { others() }.unwrap_or_default() {
            if other.mark & shared != 0 && !ptr::eq(other, mine) {
                other.read_by(mine);
            }
        }
    }
    row.last.store(next, Release);
}

/// In a fresh child process: nobody reads.
pub fn forget() {
    for row in &ROWS {
        row.last.store(0, Relaxed);
        row.shared.store(0, Relaxed);
    }
}

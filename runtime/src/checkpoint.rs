//! Profiles of a process that still runs, every so many seconds (`BF_CHECKPOINT`).

use crate::clock::now;
use crate::process;
use bf_profile::EndReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// When the next is due, by [`now`]; `u64::MAX`: never.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Sets the first one.
pub fn begin() {
    if let Some(every) = process::options().checkpoint {
        NEXT.store(now().saturating_add(every.as_nanos() as u64), Ordering::Relaxed);
    }
}

/// Writes a checkpoint if its time has come. No lock of the runtime may be held.
pub fn write_if_due() {
    let next = NEXT.load(Ordering::Relaxed);
    if next == u64::MAX || now() < next {
        return;
    }
    // One thread writes, the others go on.
    if NEXT.compare_exchange(next, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        process::end(&EndReason::Checkpoint);
        begin();
    }
}

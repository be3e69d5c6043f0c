//! What threads wait for each other with: the standard library's, or, with the feature `shuttle`, what `tests/handover.rs`
//! tries out in many orders.

#[cfg(not(feature = "shuttle"))]
mod chosen {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
    pub(crate) use std::thread::sleep;
}

#[cfg(feature = "shuttle")]
mod chosen {
    pub(crate) use shuttle::hint::spin_loop;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
    pub(crate) use shuttle::thread::sleep;
}

pub(crate) use chosen::*;

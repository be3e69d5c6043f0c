//! A mutex that a thread which takes it again and again cannot keep from others.
//!
//! A thread holds its own record while it feeds a batch, and nearly always feeds one. Whoever waits for the record stands
//! in the turnstile, so the thread comes after it.

use crate::process::{lock, lock_for, lock_while};
use std::sync::{Mutex, MutexGuard};

/// See the module's page.
pub struct Fair<T> {
    turnstile: Mutex<()>,
    value: Mutex<T>,
}

impl<T> Fair<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Self { turnstile: Mutex::new(()), value: Mutex::new(value) }
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let _turn = lock(&self.turnstile);
        lock(&self.value)
    }

    /// Locks it and keeps others from queueing: for `fork`, whose child must find the turnstile free too.
    pub fn hold(&self) -> (MutexGuard<'_, ()>, MutexGuard<'_, T>) {
        let turn = lock(&self.turnstile);
        (turn, lock(&self.value))
    }

    /// Locks it, unless that is not to be waited for any more.
    pub fn lock_while(&self, waits: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
        let _turn = lock_while(&self.turnstile, &waits)?;
        lock_while(&self.value, waits)
    }

    /// Locks it, unless that takes too long.
    pub fn lock_for(&self) -> Option<MutexGuard<'_, T>> {
        let _turn = lock_for(&self.turnstile)?;
        lock_for(&self.value)
    }
}

//! A queue of threads that come one after the other, however many they are: each sleeps until it is called.

use crate::memory;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::time::Duration;

/// Words to sleep at: who sleeps at the same one as others is woken when one of them is called.
const WORDS: usize = 1 << 10;
/// How long one sleeps at most: perhaps nobody calls any more.
static LONGEST: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };
/// How long the first one sleeps while others are to go first.
const PAUSE: Duration = Duration::from_micros(20);

/// See the module's page.
pub struct Queue {
    /// Threads that have come, and threads that have left.
    come: AtomicUsize,
    left: AtomicUsize,
    /// How often somebody was called, by number.
    calls: [AtomicU32; WORDS],
}

/// Whose turn it is, until it is dropped.
pub struct Turn<'a>(&'a Queue);

impl Queue {
    /// Of nobody.
    pub const fn new() -> Self {
        let calls = [const { AtomicU32::new(0) }; WORDS];
        Self { come: AtomicUsize::new(0), left: AtomicUsize::new(0), calls }
    }

    /// Waits for all that came before, and then for as long as somebody else is to go first.
    pub fn enter(&self, yields: impl Fn() -> bool) -> Turn<'_> {
        let number = self.come.fetch_add(1, SeqCst);
        let word = &self.calls[number % WORDS];
        while !memory::lost() {
            let calls = word.load(Acquire);
            if self.left.load(SeqCst) != number {
                sleep_at(word, calls);
            } else if yields() {
                std::thread::sleep(PAUSE);
            } else {
                break;
            }
        }
        Turn(self)
    }

    /// Whether all that came have left.
    pub fn is_empty(&self) -> bool {
        self.come.load(SeqCst) == self.left.load(SeqCst)
    }

    /// In a fresh child process: nobody waits.
    pub fn forget(&self) {
        self.come.store(0, Relaxed);
        self.left.store(0, Relaxed);
    }
}

/// Sleeps until this word is called, unless that has been done since it was so.
fn sleep_at(word: &AtomicU32, seen: u32) {
    // SAFETY:
    // - the word and the time are valid for the call
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            &raw const LONGEST,
        )
    };
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let next = self.0.left.fetch_add(1, SeqCst) + 1;
        let word = &self.0.calls[next % WORDS];
        word.fetch_add(1, Release);
        if self.0.come.load(SeqCst) != next {
            // SAFETY:
            // - the word is valid for the call
            unsafe {
                libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn one_is_in_at_a_time_and_who_goes_first_does() {
        let (queue, first) = (Queue::new(), AtomicUsize::new(1));
        let (inside, seen) = (Mutex::new(()), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let _turn = queue.enter(|| first.load(Acquire) > 0);
                    let _alone = inside.try_lock().unwrap();
                    assert_eq!(first.load(Acquire), 0);
                    seen.fetch_add(1, Relaxed);
                });
            }
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(seen.load(Relaxed), 0);
            assert!(!queue.is_empty());
            first.store(0, Release);
        });
        assert_eq!(seen.load(Relaxed), 20);
        assert!(queue.is_empty());
    }
}

//! Threads on other CPUs that do small jobs at once when asked, and stay awake in between so that their caches keep what
//! the last job left there.

use crate::{
    error::Error,
    session::{pin, switches},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering},
    },
    thread,
};

type Job<'job> = Box<dyn FnOnce() + Send + 'job>;

const IDLE: u8 = 0;
const ASKED: u8 = 1;
const STOP: u8 = 2;

/// A thread on another CPU.
pub(crate) struct Partner<'job> {
    /// Where it is.
    pub cpu: u32,
    state: AtomicU8,
    job: Mutex<Option<Job<'job>>>,
    failed: AtomicBool,
    /// How often it was made to wait for others, as it last looked.
    switches: AtomicI64,
}

/// Looks before a waiting thread lets others run: about as long as a sample.
const LOOKS: u32 = 20_000;

/// Waits for `over`, and lets others run now and then.
pub(crate) fn wait(over: impl Fn() -> bool) {
    let mut looks = 0u32;
    while !over() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

impl<'job> Partner<'job> {
    /// Lets it begin with `job`.
    pub fn begin(&self, job: impl FnOnce() + Send + 'job) {
        self.finish();
        *self.job.lock().expect("jobs do not panic") = Some(Box::new(job));
        self.state.store(ASKED, Ordering::Release);
    }

    /// Waits until it has done what it was asked.
    pub fn finish(&self) {
        wait(|| self.state.load(Ordering::Acquire) != ASKED);
    }

    /// Lets it do `job`, and waits for that.
    pub fn run(&self, job: impl FnOnce() + Send + 'job) {
        self.begin(job);
        self.finish();
    }

    /// How often it was made to wait for others.
    pub fn switches(&self) -> i64 {
        self.run(|| {});
        self.switches.load(Ordering::Acquire)
    }

    fn work(&self) {
        loop {
            wait(|| self.state.load(Ordering::Acquire) != IDLE);
            if self.state.load(Ordering::Acquire) == STOP {
                return;
            }
            if let Some(job) = self.job.lock().expect("jobs do not panic").take() {
                job();
            }
            self.switches.store(switches(), Ordering::Release);
            self.state.store(IDLE, Ordering::Release);
        }
    }
}

/// Runs `work` with a partner on each of `cpus`; jobs may borrow what outlives the call.
///
/// # Errors
/// A CPU cannot be used, or no thread be made.
pub(crate) fn with<'job, R>(cpus: &[u32], work: impl FnOnce(&[Partner<'job>]) -> R) -> Result<R, Error> {
    let partner = |cpu: &u32| Partner {
        cpu: *cpu,
        state: AtomicU8::new(ASKED),
        job: Mutex::new(None),
        failed: AtomicBool::new(false),
        switches: AtomicI64::new(0),
    };
    let partners: Vec<Partner<'job>> = cpus.iter().map(partner).collect();
    let done = thread::scope(|scope| {
        let begun = partners.iter().take_while(|partner| {
            let partner = *partner;
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                partner.failed.store(pin(partner.cpu).is_err(), Ordering::Release);
                partner.work();
            });
            thread.is_ok()
        });
        let begun = &partners[..begun.count()];
        let done = catch_unwind(AssertUnwindSafe(|| {
            begun.iter().for_each(Partner::finish);
            let failed = begun.iter().find(|partner| partner.failed.load(Ordering::Acquire));
            match failed {
                Some(partner) => Err(Error::Pin { cpu: partner.cpu, errno: nix::errno::Errno::EINVAL }),
                None if begun.len() < partners.len() => Err(Error::Threads),
                None => Ok(work(&partners)),
            }
        }));
        for partner in begun {
            partner.finish();
            partner.state.store(STOP, Ordering::Release);
        }
        done
    });
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::allowed_cpus;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn jobs_are_done_in_order_and_borrow() {
        let sum = AtomicUsize::new(0);
        let cpu = allowed_cpus()[0];
        let seen = with(&[cpu, cpu], |partners| {
            for turn in 0..100 {
                partners[turn % 2].run(|| _ = sum.fetch_add(1, Ordering::Relaxed));
                assert_eq!(sum.load(Ordering::Relaxed), turn + 1);
            }
            partners[0].begin(|| _ = sum.fetch_add(1, Ordering::Relaxed));
            partners[0].finish();
            sum.load(Ordering::Relaxed)
        });
        assert_eq!(seen, Ok(101));
        assert!(matches!(with(&[100_000], |_| ()), Err(Error::Pin { cpu: 100_000, .. })));
    }
}

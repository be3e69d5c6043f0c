//! How often a thread releases atomic numbers, or takes locks that others had, and so whether what was recorded can be read each time.
//!
//! To read a few accesses takes some microseconds, whatever they are. A thread that releases something every few
//! instructions, a count of references for instance, would do nothing else. So one that does so hands over from time to time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Of one thread; only it writes. All times are nanoseconds.
pub struct Pace {
    /// When it last released something, or was back from handing over.
    last: AtomicU64,
    /// When it was last back from that.
    handed_over: AtomicU64,
    /// Mean time from one release to the next, without what handing over takes; the last ones count most.
    mean: AtomicU64,
}

impl Pace {
    /// A mean time below which not every release counts.
    const OFTEN: u64 = 500;
    /// How long what was recorded then stays where it is.
    const MOST: u64 = 10_000;
    /// A longer time is one that the thread waited.
    const LONG: u64 = 8_000;
    /// One time counts so much less than the mean before it.
    const SLOW: u64 = 16;

    /// Of a thread that has released nothing yet.
    pub const fn new() -> Self {
        Self { last: AtomicU64::new(0), handed_over: AtomicU64::new(0), mean: AtomicU64::new(Self::LONG) }
    }

    /// Something is released now; whether it is to be handed over what was recorded so far.
    pub fn counts(&self, now: u64) -> bool {
        let since = now.saturating_sub(self.last.load(Relaxed)).min(Self::LONG);
        let mean = (self.mean.load(Relaxed) * (Self::SLOW - 1) + since) / Self::SLOW;
        self.last.store(now, Relaxed);
        self.mean.store(mean, Relaxed);
        mean >= Self::OFTEN || now.saturating_sub(self.handed_over.load(Relaxed)) >= Self::MOST
    }

    /// The thread stood still for so long, because what it recorded had to be read.
    pub fn stood(&self, time: u64) {
        for moment in [&self.last, &self.handed_over] {
            moment.store(moment.load(Relaxed) + time, Relaxed);
        }
    }

    /// The thread handed over, and goes on now.
    pub fn goes_on(&self, now: u64) {
        self.last.store(now, Relaxed);
        self.handed_over.store(now, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 1000 releases count, where these times pass by turns from one to the next, and handing over takes 5 us.
    fn counted(times: &[u64]) -> usize {
        let (pace, mut now) = (Pace::new(), 1_000_000);
        let releases = times.iter().cycle().take(1000).filter(|&&time| {
            now += time;
            let counts = pace.counts(now);
            if counts {
                now += 5_000;
                pace.goes_on(now);
            }
            counts
        });
        releases.count()
    }

    #[test]
    fn who_waits_in_between_hands_over_each_time() {
        for times in [&[600][..], &[2_000], &[50, 50, 6_000], &[30, 1_000_000], &[10, 10, 10, 10, 10, 8_000]] {
            assert_eq!(counted(times), 1000, "{times:?}");
        }
    }

    #[test]
    fn what_reading_takes_is_not_between_releases() {
        let (pace, mut now) = (Pace::new(), 1_000_000);
        let counts = (0..1000).filter(|_| {
            pace.stood(20_000);
            now += 20_000 + 100;
            let counts = pace.counts(now);
            if counts {
                pace.goes_on(now);
            }
            counts
        });
        let counts = counts.count();
        assert!((10..=60).contains(&counts), "{counts}");
    }

    #[test]
    fn who_never_waits_does_so_from_time_to_time() {
        // As many as there are in ten microseconds, but for the first ones.
        for (time, counts) in [(100, 10..=60), (10, 1..=50)] {
            assert!(counts.contains(&counted(&[time])), "{time} {}", counted(&[time]));
        }
    }
}

//! What all measurements need: threads that stay where they are put, the clock's rate, and an eye on disturbance.

use crate::{
    error::Error,
    memory,
    progress::Progress,
    stat::{self, Effort, Figure, Take},
    sys::{
        clock::{spin_cycles, ticks},
        pages::{Buffer, Pages},
    },
    topology::Topology,
};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::resource::{UsageWho, getrusage},
    unistd::Pid,
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How the clock and the core run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Clock {
    /// Ticks of the processor's constant-rate counter in a nanosecond.
    pub ticks_per_ns: f64,
    /// Ticks between two readings with nothing between them.
    pub overhead_ticks: f64,
    /// Cycles of the core in a nanosecond (GHz), by a chain of additions: the fastest seen.
    pub core_ghz: f64,
}

/// What part of a measurement a survey before it is, for who waits.
pub const SURVEY: f64 = 0.1;

/// How long the clock is compared with the system's.
const CALIBRATION: Duration = Duration::from_millis(20);

impl Clock {
    /// Compares the counter with the system's clock and with the core's own pace, in some 30 ms.
    #[must_use]
    pub fn calibrate() -> Self {
        let (start, first) = (Instant::now(), ticks());
        while start.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (elapsed, last) = (start.elapsed(), ticks());
        let ticks_per_ns = (last - first) as f64 / elapsed.as_nanos() as f64;
        let overhead = (0..1000).map(|_| {
            let begin = ticks();
            ticks().saturating_sub(begin)
        });
        let overhead_ticks = overhead.min().unwrap_or(0) as f64;
        Self { ticks_per_ns, overhead_ticks, core_ghz: core_ghz(ticks_per_ns) }
    }

    /// Nanoseconds of a span that was measured with two readings.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> f64 {
        (ticks as f64 - self.overhead_ticks).max(0.0) / self.ticks_per_ns
    }
}

/// The core's pace now, by the fastest of some short chains of additions.
fn core_ghz(ticks_per_ns: f64) -> f64 {
    let paces = (0..64).map(|_| {
        let begin = ticks();
        let cycles = spin_cycles(100_000);
        cycles as f64 / (ticks().saturating_sub(begin).max(1) as f64 / ticks_per_ns)
    });
    paces.fold(0.0, f64::max)
}

/// A machine to measure, and how.
#[derive(Debug)]
pub struct Session {
    /// What it is.
    pub topology: Topology,
    /// CPUs that may be used, those to be used first in front.
    pub cpus: Vec<u32>,
    /// Its clock.
    pub clock: Clock,
    /// Pages to measure on.
    pub pages: Pages,
    /// How long to go on.
    pub effort: Effort,
    /// Most bytes that a measurement may take.
    pub memory: usize,
    /// Name and bytes of each data cache, nearest first: by the topology, or less where [`Session::survey`] found less.
    pub reach: Vec<(String, usize)>,
    /// Who hears how far a measurement is.
    pub progress: Progress,
}

impl Session {
    /// Looks the machine over, and pins the calling thread to the first of `cpus`; without any to the first that it may
    /// use.
    ///
    /// # Errors
    /// One of `cpus` cannot be used.
    pub fn begin(cpus: &[u32]) -> Result<Self, Error> {
        let allowed = allowed_cpus();
        let cpus = if cpus.is_empty() { by_core(&Topology::here(), &allowed) } else { cpus.to_vec() };
        for cpu in cpus.iter().rev() {
            pin(*cpu)?;
        }
        let memory = memory::available().map_or(1 << 30, |memory| memory.bytes / 4);
        let topology = Topology::here();
        let reach = topology.data_caches().map(|cache| (cache.name.clone(), cache.size_bytes as usize)).collect();
        Ok(Self {
            topology,
            reach,
            cpus,
            clock: Clock::calibrate(),
            pages: Pages::default(),
            effort: Effort::default(),
            memory,
            progress: Progress::default(),
        })
    }

    /// Settles figures round by round, as [`stat::settle_all`] does.
    ///
    /// # Errors
    /// Those of `round`.
    pub fn settle_all<P, E>(
        &self,
        take: Take,
        points: &[P],
        round: impl FnMut(&P) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<Option<Figure>>, E> {
        stat::settle_all(self.effort, take, points, round, |part| self.progress.advanced(part))
    }

    /// A buffer, on the node of the calling thread.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        self.buffer_on(bytes, self.pages)
    }

    /// A buffer on pages of a certain size.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn buffer_on(&self, bytes: usize, pages: Pages) -> Result<Buffer, Error> {
        Buffer::new(bytes, pages).map_err(|errno| Error::Memory { bytes, errno })
    }

    /// The CPU that measurements with one thread run on.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.cpus.first().copied().unwrap_or(0)
    }

    /// Two CPUs, on different cores if there are any.
    ///
    /// # Errors
    /// There is only one.
    pub fn two(&self, what: &'static str) -> Result<(u32, u32), Error> {
        match self.cpus[..] {
            [first, second, ..] => Ok((first, second)),
            _ => Err(Error::Cpus { what, needed: 2, available: self.cpus.len() }),
        }
    }

    /// Looks at the latency curve for how far each cache really reaches, in a second or two: a virtual machine may own
    /// only part of what its topology shows. With `most` only so far as tells which [`places`](Self::places) take no more bytes.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn survey(&mut self, most: Option<usize>) -> Result<(), Error> {
        // A cache reaches four times as far as its place at most, and where it ends is seen at twice that.
        let end = most.map_or(usize::MAX, |most| most.saturating_mul(8));
        let powers = self.sizes(Some((self.topology.last_size() as usize * 2).min(end)));
        let effort = std::mem::replace(&mut self.effort, Effort { rounds: 3, tolerance: 0.1 });
        let points = self.progress.within(0.0..SURVEY, || crate::latency::curve(self, &powers, self.pages));
        self.effort = effort;
        self.learn(&crate::steps::steps(&self.topology, &points?));
        Ok(())
    }

    /// Takes over what a curve's steps say about caches that reach less far than their size.
    pub fn learn(&mut self, steps: &[crate::steps::Step]) {
        for (name, bytes) in &mut self.reach {
            let step = steps.iter().find(|step| step.cache.as_ref() == Some(name) && !step.agrees);
            if let Some(step) = step {
                *bytes = step.from_bytes.min(*bytes);
            }
        }
    }

    /// Bytes that lie well within each data cache and well outside those above it, with the cache's name, and at the end
    /// bytes that lie in memory.
    #[must_use]
    pub fn places(&self) -> Vec<(String, usize)> {
        let mut places = Vec::new();
        let mut above = 0;
        for (name, reach) in &self.reach {
            let bytes = match above {
                0 => reach / 2,
                _ if reach / 4 >= above * 4 => reach / 4,
                _ if reach / 2 >= above * 2 => reach / 2,
                // A level hardly larger than the one above it, or of which little is left.
                _ => (above + reach) / 2,
            };
            if bytes > above + above / 4 {
                places.push((name.clone(), (bytes / 4096).max(1) * 4096));
            }
            above = above.max(*reach);
        }
        let size = self.topology.last_size() as usize;
        // Where all CPUs go there at once each has one of its own.
        let most = self.memory * 2 / self.cpus.len().max(2);
        let far = (size * 4).max(64 << 20).min(most / 4096 * 4096);
        places.push(("memory".to_owned(), far));
        places
    }

    /// The name of the nearest data cache that `bytes` fit in by the topology, or `memory`; nothing where no cache is known.
    #[must_use]
    pub fn level_of(&self, bytes: usize) -> &str {
        let cache = self.topology.data_caches().find(|cache| bytes as u64 <= cache.size_bytes);
        let beyond = if self.topology.last_size() == 0 { "" } else { "memory" };
        cache.map_or(beyond, |cache| cache.name.as_str())
    }

    /// Sizes for a curve: two for each doubling, from a quarter of the nearest cache to past the farthest.
    #[must_use]
    pub fn sizes(&self, most: Option<usize>) -> Vec<usize> {
        let last = self.topology.last_size() as usize;
        let most = most.unwrap_or((last * 8).clamp(64 << 20, 1 << 30)).min(self.memory);
        let powers = (12..usize::BITS).map(|bits| 1usize << bits);
        powers.flat_map(|size| [size, size / 2 * 3]).take_while(|size| *size <= most).collect()
    }
}

/// One CPU of each core first, then the other hardware threads.
fn by_core(topology: &Topology, allowed: &[u32]) -> Vec<u32> {
    let rank = |cpu: &u32| {
        let threads = topology.cpus.iter().find(|known| known.cpu == *cpu).map_or(&[][..], |known| &known.threads);
        (threads.iter().filter(|other| allowed.contains(other)).position(|other| other == cpu).unwrap_or(0), *cpu)
    };
    let mut cpus = allowed.to_vec();
    cpus.sort_by_key(rank);
    cpus
}

/// CPUs that this thread may run on; the kernel's numbers.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return vec![0] };
    (0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// It may not run there.
pub fn pin(cpu: u32) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|errno| Error::Pin { cpu, errno })
}

/// How often this thread was made to wait for another so far.
#[must_use]
pub fn switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// What `work` returned, unless another thread had the CPU in between.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = switches();
    let done = work();
    (switches() == before).then_some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cpu;

    #[test]
    fn cores_come_before_hardware_threads() {
        let mut topology = Topology::below(std::path::Path::new("/nowhere"));
        let cpu = |cpu, threads: &[u32]| Cpu { cpu, core: 0, package: 0, node: 0, threads: threads.to_vec() };
        topology.cpus = vec![cpu(0, &[0, 1]), cpu(1, &[0, 1]), cpu(2, &[2, 3]), cpu(3, &[2, 3])];
        assert_eq!(by_core(&topology, &[0, 1, 2, 3]), [0, 2, 1, 3]);
        assert_eq!(by_core(&topology, &[1, 2]), [1, 2]);
    }

    #[test]
    fn places_lie_within_what_is_left_of_a_cache() {
        let mut session = Session::begin(&[]).unwrap();
        let mut places = |reach: [usize; 3]| {
            session.reach = (1..).zip(reach).map(|(level, kib)| (format!("L{level}"), kib << 10)).collect();
            let places = session.places();
            places[..places.len() - 1].iter().map(|(name, bytes)| (name.clone(), bytes >> 10)).collect::<Vec<_>>()
        };
        let named =
            |sizes: &[(&str, usize)]| sizes.iter().map(|(name, kib)| ((*name).to_owned(), *kib)).collect::<Vec<_>>();
        assert_eq!(places([32, 1024, 32 << 10]), named(&[("L1", 16), ("L2", 256), ("L3", 8 << 10)]));
        assert_eq!(places([48, 512, 2048]), named(&[("L1", 24), ("L2", 256), ("L3", 1024)]));
        assert_eq!(places([32, 1024, 2048]), named(&[("L1", 16), ("L2", 256), ("L3", 1536)]));
        assert_eq!(places([32, 1024, 1100]), named(&[("L1", 16), ("L2", 256)]));
    }

    #[test]
    fn a_session_begins_where_it_may() {
        let allowed = allowed_cpus();
        let session = Session::begin(&[]).unwrap();
        assert!(allowed.contains(&session.first()));
        assert!(session.clock.ticks_per_ns > 0.0 && session.clock.core_ghz > 0.0);
        let places = session.places();
        assert!(places.windows(2).all(|pair| pair[0].1 < pair[1].1), "{places:?}");
        assert!(matches!(Session::begin(&[100_000]), Err(Error::Pin { cpu: 100_000, .. })));
    }
}

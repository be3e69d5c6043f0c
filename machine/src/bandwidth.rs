//! Bandwidth of going through memory in order, by operation, width of instructions, size and number of threads.

use crate::{
    error::Error,
    partner::wait,
    session::{Session, pin},
    stat::{Cluster, Figure, Take, settle},
    sys::{
        chain::flush,
        clock::ticks,
        pages::Buffer,
        stream::{Kernel, Operation, Range, STEP},
    },
};
use serde::Serialize;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// A measured bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What is done to each byte.
    pub operation: Operation,
    /// Bits of an instruction's operand.
    pub width_bits: u32,
    /// Bytes that each thread goes through; copies have half of them on either side.
    pub size_bytes: usize,
    /// The nearest cache they fit in by the topology, or `memory`.
    pub level: String,
    /// CPUs at work, one thread on each, each with its own bytes.
    pub cpus: Vec<u32>,
    /// Bytes named by loads and stores, in billions a second; what caches move beyond that, such as the lines that
    /// ordinary stores read first, is not counted. A copy counts both sides.
    pub gb_per_s: f64,
    /// Distance between the three rounds that agree best.
    pub spread_gb_per_s: f64,
    /// By the median of all samples.
    pub median_gb_per_s: f64,
    /// Bytes a core moves in one of its cycles.
    pub bytes_per_cycle: f64,
    /// Rounds made.
    pub rounds: usize,
    /// Whether three rounds agreed.
    pub stable: bool,
    /// GB/s that rounds kept coming back to, if more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Cluster>,
    /// Bytes of the pages.
    pub page_bytes: usize,
}

/// Nanoseconds that a sample lasts at least: long beside the clock, short beside the time others leave a core alone.
const SAMPLE_NS: f64 = 60e3;
/// Samples of a round, at most, and nanoseconds of a round.
const SAMPLES: f64 = 60.0;
const ROUND_NS: f64 = 3e6;

/// A kernel and the memory it works on.
#[derive(Debug)]
pub(crate) struct Work {
    kernel: Kernel,
    buffer: Buffer,
    /// Bytes of one side.
    side: usize,
}

impl Work {
    pub(crate) fn new(session: &Session, kernel: Kernel, bytes: usize) -> Result<Self, Error> {
        let sides = if kernel.operation.copies() { 2 } else { 1 };
        let side = (bytes / sides / STEP).max(1) * STEP;
        let work = Self::filled(kernel, session.buffer(side * sides)?, side, sides);
        // Some processors make stores past the caches in the nearest one, where that has the line modified.
        if matches!(kernel.operation, Operation::WriteNt | Operation::CopyNt) {
            flush(&work.buffer, side * sides, session.topology.line());
        }
        Ok(work)
    }

    /// Of a kernel with one side, on the first `bytes` of this buffer.
    pub(crate) fn on(kernel: Kernel, buffer: Buffer, bytes: usize) -> Self {
        Self::filled(kernel, buffer, (bytes / STEP).max(1) * STEP, 1)
    }

    fn filled(kernel: Kernel, buffer: Buffer, side: usize, sides: usize) -> Self {
        // Processors treat zeroes as a case of its own, also when they are copied.
        Kernel { operation: Operation::Write, width: 64 }.run(Range::new(&buffer, 0, side * sides), None, 1);
        Self { kernel, buffer, side }
    }

    pub(crate) fn run(&self, passes: u64) {
        let to = self.kernel.operation.copies().then(|| Range::new(&self.buffer, self.side, self.side));
        self.kernel.run(Range::new(&self.buffer, 0, self.side), to, passes);
    }

    /// Bytes named by the loads and stores of one pass.
    pub(crate) fn bytes(&self) -> f64 {
        let (loads, stores) = self.kernel.accesses(self.side, 1);
        (loads + stores) as f64 * f64::from(self.kernel.width / 8)
    }

    /// Passes that last about `ns`, at least one.
    pub(crate) fn passes(&self, session: &Session, ns: f64) -> u64 {
        self.run(2);
        let once = (0..3).map(|_| {
            let begin = ticks();
            self.run(1);
            session.clock.ns(ticks().saturating_sub(begin))
        });
        (ns / once.fold(f64::INFINITY, f64::min).max(1.0)).ceil().max(1.0) as u64
    }
}

/// Measures kernels in each level that takes so many bytes at `most`, without it in all: all on one core, the widest of each
/// operation on all cores at once as well.
///
/// # Errors
/// There is not enough memory, or a CPU cannot be used.
pub fn all(session: &Session, kernels: &[Kernel], most: Option<usize>) -> Result<Vec<Point>, Error> {
    let mut places = session.places();
    places.retain(|&(_, bytes)| most.is_none_or(|most| bytes <= most));
    let each = |kernel: &Kernel| places.iter().map(|(_, bytes)| (*kernel, *bytes)).collect::<Vec<_>>();
    let cases = kernels.iter().flat_map(each).collect::<Vec<_>>();
    if session.cpus.len() < 2 {
        return alone(session, &cases);
    }
    let mut points = session.progress.within(0.0..0.6, || alone(session, &cases))?;
    let widest = kernels.iter().map(|kernel| kernel.width).max().unwrap_or(64);
    let shared: Vec<_> = cases.iter().filter(|(kernel, _)| kernel.width == widest).collect();
    for (index, (kernel, bytes)) in shared.iter().enumerate() {
        points.push(together(session, *kernel, *bytes, &session.cpus)?);
        session.progress.advanced(0.6 + 0.4 * (index + 1) as f64 / shared.len() as f64);
    }
    Ok(points)
}

/// Measures one thread with each of these kernels and sizes, round by round.
///
/// # Errors
/// There is not enough memory.
pub fn alone(session: &Session, cases: &[(Kernel, usize)]) -> Result<Vec<Point>, Error> {
    let times = session.settle_all(Take::Least, cases, |(kernel, bytes)| {
        let work = Work::new(session, *kernel, *bytes)?;
        let passes = work.passes(session, SAMPLE_NS);
        let sample = || {
            let begin = ticks();
            work.run(passes);
            session.clock.ns(ticks().saturating_sub(begin)) / passes as f64
        };
        let samples = (ROUND_NS / (sample() * passes as f64).max(1.0)).clamp(3.0, SAMPLES) as usize;
        Ok((0..samples).map(|_| sample()).collect())
    })?;
    let point = |((kernel, bytes), time): (&(Kernel, usize), Option<Figure>)| {
        let work = Work::new(session, *kernel, *bytes)?;
        let rate = time.expect("rounds have samples").rate(work.bytes());
        Ok(finish(session, &work, vec![session.first()], *bytes, rate))
    };
    cases.iter().zip(times).map(point).collect()
}

fn finish(session: &Session, work: &Work, cpus: Vec<u32>, bytes: usize, rate: Figure) -> Point {
    Point {
        operation: work.kernel.operation,
        width_bits: work.kernel.width,
        size_bytes: bytes,
        level: session.level_of(bytes).to_owned(),
        gb_per_s: rate.value,
        spread_gb_per_s: rate.spread,
        median_gb_per_s: rate.median,
        bytes_per_cycle: rate.value / session.clock.core_ghz / cpus.len() as f64,
        rounds: rate.rounds,
        stable: rate.stable,
        clusters: rate.clusters,
        page_bytes: work.buffer.got().page_bytes,
        cpus,
    }
}

/// Samples of a round of several threads.
const SHARED_SAMPLES: usize = 20;

/// Measures one thread on each of `cpus` at once, each with memory of its own that it touched first. A sample lasts from
/// the first thread's beginning to the last one's end.
///
/// # Errors
/// There is not enough memory, or a CPU cannot be used, or no thread be made.
pub fn together(session: &Session, kernel: Kernel, bytes: usize, cpus: &[u32]) -> Result<Point, Error> {
    let rounds = session.effort.rounds.max(3);
    let turns = rounds * SHARED_SAMPLES;
    let gate = Gate::new(cpus.len());
    let spans: Vec<Mutex<Vec<(u64, u64)>>> = cpus.iter().map(|_| Mutex::new(Vec::new())).collect();
    let passes = {
        let alone = Work::new(session, kernel, bytes)?;
        alone.passes(session, SAMPLE_NS * 4.0)
    };
    let mut works = Vec::new();
    let run = |index: usize| -> Result<Work, Error> {
        let prepared = pin(cpus[index]).and_then(|()| Work::new(session, kernel, bytes));
        // All pass the gate, also after a failure, or the others would wait for ever.
        if let Ok(work) = &prepared {
            work.run(2);
        }
        for _ in 0..turns {
            gate.pass();
            if let Ok(work) = &prepared {
                let begin = ticks();
                work.run(passes);
                let end = ticks();
                spans[index].lock().expect("no thread panics").push((begin, end));
            }
        }
        prepared
    };
    thread::scope(|scope| {
        let begin = |index| thread::Builder::new().spawn_scoped(scope, move || run(index));
        let threads: Vec<_> = (0..cpus.len()).map(begin).collect();
        if threads.iter().any(Result::is_err) {
            gate.open();
        }
        works.extend(threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().expect("no thread panics"),
            Err(_) => Err(Error::Threads),
        }));
    });
    let works = works.into_iter().collect::<Result<Vec<_>, _>>()?;
    let spans: Vec<Vec<(u64, u64)>> =
        spans.into_iter().map(|spans| spans.into_inner().expect("no thread panics")).collect();
    let length = |turn: usize| {
        let begin = spans.iter().map(|spans| spans[turn].0).min().unwrap_or(0);
        let end = spans.iter().map(|spans| spans[turn].1).max().unwrap_or(0);
        session.clock.ns(end.saturating_sub(begin))
    };
    let mut turn = 0;
    let time = settle(session.effort, Take::Least, || {
        turn += SHARED_SAMPLES;
        (turn - SHARED_SAMPLES..turn).map(length).collect()
    });
    let amount: f64 = works.iter().map(Work::bytes).sum::<f64>() * passes as f64;
    let rate = time.expect("rounds have samples").rate(amount);
    Ok(finish(session, &works[0], cpus.to_vec(), bytes, rate))
}

/// A meeting point that threads leave within nanoseconds of each other if all of them have a CPU, and that does not
/// starve the others if not.
#[derive(Debug)]
pub(crate) struct Gate {
    threads: usize,
    arrived: AtomicUsize,
    open: AtomicBool,
}

impl Gate {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), open: AtomicBool::new(false) }
    }

    pub(crate) fn pass(&self) {
        let arrived = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        let all = arrived.div_ceil(self.threads) * self.threads;
        wait(|| self.arrived.load(Ordering::Acquire) >= all || self.open.load(Ordering::Acquire));
    }

    /// Lets everybody pass from now on, since some will never come.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_the_gate_before_all_have_come() {
        let gate = Gate::new(3);
        let turns = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for turn in 0..50 {
                        turns.fetch_add(1, Ordering::SeqCst);
                        gate.pass();
                        assert!(turns.load(Ordering::SeqCst) >= (turn + 1) * 3);
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 150);
    }

    #[test]
    fn an_open_gate_holds_nobody() {
        let gate = Gate::new(2);
        gate.open();
        gate.pass();
    }

    #[test]
    fn bytes_are_those_of_the_instructions() {
        let session = Session::begin(&[]).unwrap();
        let read = Work::new(&session, Kernel { operation: Operation::Read, width: 64 }, 4096).unwrap();
        let copy = Work::new(&session, Kernel { operation: Operation::Copy, width: 128 }, 4096).unwrap();
        assert_eq!((read.bytes(), copy.bytes()), (4096.0, 4096.0));
    }
}

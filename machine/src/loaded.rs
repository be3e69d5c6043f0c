//! Latency of memory while other cores move data: one core follows a chain, the others read at a pace that is raised step
//! by step.

use crate::{
    error::Error,
    partner,
    session::{Session, undisturbed},
    stat::{median, quantile},
    sys::{
        chain::Chain,
        clock::{spin_cycles, ticks},
        stream::{Kernel, Operation, Range, widest},
    },
};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One pace of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Cycles that each reading core rests after each piece of 8 KiB; `None`: it does not read at all.
    pub rest_cycles: Option<u64>,
    /// Billions of bytes a second that the reading cores read.
    pub gb_per_s: f64,
    /// Nanoseconds of a dependent load at that time: the median.
    pub ns: f64,
    /// Distance between the quartiles.
    pub spread_ns: f64,
    /// Samples in which the readers kept their pace and nobody was interrupted.
    pub samples: usize,
    /// Whether there were enough of them.
    pub stable: bool,
}

/// Bytes read at a time.
const PIECE: usize = 8 << 10;
/// Loads of a sample.
const LOADS: u64 = 512;
/// Samples of a pace in which the others read, and how many samples to wait for those.
const SAMPLES: usize = 100;
const MOST_SAMPLES: usize = 6000;
/// How many must be good.
const ENOUGH: usize = 30;
/// Part of the usual pace below which a reader was interrupted: pieces are few at a slow pace.
const KEPT: f64 = 0.6;
/// Rests in cycles, longest first.
const RESTS: [u64; 12] = [64_000, 32_000, 16_000, 8_000, 4_000, 2_000, 1_500, 1_000, 700, 400, 200, 0];

/// Measures all paces.
///
/// # Errors
/// There is only one CPU, or one cannot be used, or there is not enough memory.
pub fn curve(session: &Session) -> Result<Vec<Point>, Error> {
    session.two("loaded latency")?;
    let bytes = session.places().last().map_or(64 << 20, |(_, bytes)| *bytes);
    let mut chain = Chain::lines(session.buffer(bytes)?, bytes, session.topology.line(), 1);
    chain.walk(chain.count() as u64);
    let mut points = Vec::from([measure(session, &mut chain, None, &[])]);
    let readers = &session.cpus[1..];
    let stop = AtomicBool::new(false);
    let rest = AtomicU64::new(0);
    let progress: Vec<AtomicU64> = readers.iter().map(|_| AtomicU64::new(0)).collect();
    let buffers = readers.iter().map(|_| session.buffer(bytes)).collect::<Result<Vec<_>, _>>()?;
    let kernel = Kernel { operation: Operation::Read, width: widest() };
    partner::with(readers, |partners| {
        for ((partner, progress), buffer) in partners.iter().zip(&progress).zip(&buffers) {
            partner.begin(|| {
                let mut at = 0;
                while !stop.load(Ordering::Relaxed) {
                    kernel.run(Range::new(buffer, at, PIECE), None, 1);
                    progress.fetch_add(PIECE as u64, Ordering::Relaxed);
                    at = (at + PIECE) % (buffer.bytes() / PIECE * PIECE);
                    match rest.load(Ordering::Relaxed) {
                        0 => {}
                        cycles => _ = spin_cycles(cycles),
                    }
                }
            });
        }
        for (index, cycles) in RESTS.into_iter().enumerate() {
            rest.store(cycles, Ordering::Relaxed);
            points.push(measure(session, &mut chain, Some(cycles), &progress));
            session.progress.advanced((index + 1) as f64 / RESTS.len() as f64);
        }
        stop.store(true, Ordering::Relaxed);
    })?;
    Ok(points)
}

/// Samples at one pace. Readers that lost their CPU during a sample read less: such samples are left out.
fn measure(session: &Session, chain: &mut Chain, rest_cycles: Option<u64>, progress: &[AtomicU64]) -> Point {
    let read = || progress.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum::<u64>();
    let mut sample = || {
        undisturbed(|| {
            let (before, begin) = (read(), ticks());
            let (ticks_of_walk, loads) = chain.walk(LOADS);
            let (after, end) = (read(), ticks());
            let ns = session.clock.ns(end.saturating_sub(begin)).max(1.0);
            ((after - before) as f64 / ns, session.clock.ns(ticks_of_walk) / loads as f64)
        })
    };
    let awake = |sample: &(f64, f64)| sample.0 > 0.0 || rest_cycles.is_none();
    let samples: Vec<_> = (0..MOST_SAMPLES).filter_map(|_| sample()).filter(awake).take(SAMPLES).collect();
    let rates: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
    let pace = quantile(&rates, 0.75).unwrap_or(0.0);
    let kept: Vec<&(f64, f64)> = samples.iter().filter(|sample| sample.0 >= pace * KEPT).collect();
    let times: Vec<f64> = kept.iter().map(|sample| sample.1).collect();
    let rates: Vec<f64> = kept.iter().map(|sample| sample.0).collect();
    let quartile = |part| quantile(&times, part).unwrap_or(0.0);
    Point {
        rest_cycles,
        gb_per_s: median(&rates).unwrap_or(0.0),
        ns: quartile(0.5),
        spread_ns: quartile(0.75) - quartile(0.25),
        samples: times.len(),
        stable: times.len() >= ENOUGH && quartile(0.75) - quartile(0.25) <= 0.25 * quartile(0.5),
    }
}

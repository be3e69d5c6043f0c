//! Latency of a load that the next one waits for, against the size of what is gone through.

use crate::{
    error::Error,
    session::Session,
    stat::{Cluster, Figure, Take},
    sys::{chain::Chain, pages::Pages},
};
use serde::Serialize;

/// A point of the staircase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Bytes gone through, each line once before any again.
    pub size_bytes: usize,
    /// The nearest cache they fit in by the topology, or `memory`.
    pub level: String,
    /// Nanoseconds of a load.
    pub ns: f64,
    /// Distance between the three rounds that agree best.
    pub spread_ns: f64,
    /// Least of all samples.
    pub min_ns: f64,
    /// Median of all samples.
    pub median_ns: f64,
    /// Cycles of the core, at its pace when the session began.
    pub cycles: f64,
    /// Rounds made.
    pub rounds: usize,
    /// Whether three rounds agreed.
    pub stable: bool,
    /// Nanoseconds that rounds kept coming back to, if more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Cluster>,
    /// Bytes of the pages.
    pub page_bytes: usize,
    /// How it was measured.
    pub source: &'static str,
}

/// Loads of a sample: the paper's 24 at least, and enough that a sample's share of hits in a cache too small for all
/// varies by less than two in a hundred.
const LEAST_LOADS: u64 = 4096;
/// More would make samples longer than the time others leave a core alone.
const MOST_LOADS: u64 = 8192;
/// Nanoseconds of a round.
const ROUND_NS: f64 = 3e6;

/// Measures all sizes, round by round.
///
/// # Errors
/// There is not enough memory.
pub fn curve(session: &Session, sizes: &[usize], pages: Pages) -> Result<Vec<Point>, Error> {
    let mut page_bytes = 0;
    let figures = session.settle_all(Take::Least, sizes, |&bytes| {
        let buffer = session.buffer_on(bytes, pages)?;
        page_bytes = buffer.got().page_bytes;
        Ok(round(session, &mut Chain::lines(buffer, bytes, session.topology.line(), bytes as u64)))
    })?;
    let point = |(bytes, figure): (&usize, Option<Figure>)| {
        let figure = figure.expect("rounds have samples");
        Point {
            size_bytes: *bytes,
            level: session.level_of(*bytes).to_owned(),
            ns: figure.value,
            spread_ns: figure.spread,
            min_ns: figure.least,
            median_ns: figure.median,
            cycles: figure.value * session.clock.core_ghz,
            rounds: figure.rounds,
            stable: figure.stable,
            clusters: figure.clusters,
            page_bytes,
            source: "pointer chase",
        }
    };
    Ok(sizes.iter().zip(figures).map(point).collect())
}

/// Nanoseconds of a load of this chain, sample by sample, after walking it once to place its lines, or as far as pushes all
/// others out of the caches.
pub(crate) fn round(session: &Session, chain: &mut Chain) -> Vec<f64> {
    let count = chain.count() as u64;
    let enough = session.topology.last_size() * 4 / session.topology.line() as u64;
    chain.walk(if enough > 0 { count.min(enough) } else { count });
    let loads = count.clamp(LEAST_LOADS, MOST_LOADS);
    let mut sample = || {
        let (ticks, made) = chain.walk(loads);
        session.clock.ns(ticks) / made as f64
    };
    let samples = (ROUND_NS / (sample().max(0.1) * loads as f64)).clamp(4.0, 200.0) as usize;
    (0..samples).map(|_| sample()).collect()
}

//! How long a line takes from one core to another and back: two threads that answer each other through one word.

use crate::{
    error::Error,
    partner,
    session::{Session, pin},
    stat::{Cluster, Figure, Take},
    sys::clock::ticks,
};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pair of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The CPU that asks.
    pub from: u32,
    /// The CPU that answers.
    pub to: u32,
    /// Nanoseconds of one way: half of a round trip.
    pub ns: f64,
    /// Distance between the three rounds that agree best.
    pub spread_ns: f64,
    /// Whether three rounds agreed, and no others agreed on something else.
    pub stable: bool,
    /// Nanoseconds that rounds kept coming back to, if more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Cluster>,
}

/// Round trips of a sample, and samples of a round.
const TRIPS: u64 = 200;
const SAMPLES: usize = 10;

/// A word with two lines to itself: prefetchers fetch in pairs.
#[repr(align(128))]
struct Alone(AtomicU64);

/// Measures every pair of the session's CPUs, both ways.
///
/// # Errors
/// There is only one CPU, or one cannot be used.
pub fn matrix(session: &Session) -> Result<Vec<Point>, Error> {
    session.two("the core-to-core matrix")?;
    let to = |from: u32| session.cpus.iter().filter(move |to| **to != from).map(move |to| (from, *to));
    let pairs: Vec<(u32, u32)> = session.cpus.iter().flat_map(|from| to(*from)).collect();
    let figures = session.settle_all(Take::Least, &pairs, |(from, to)| {
        pin(*from)?;
        round(session, *to)
    })?;
    pin(session.first())?;
    let point = |(&(from, to), figure): (&(u32, u32), Option<Figure>)| {
        let figure = figure.expect("rounds have samples");
        Point {
            from,
            to,
            ns: figure.value,
            spread_ns: figure.spread,
            stable: figure.stable && figure.clusters.is_empty(),
            clusters: figure.clusters,
        }
    };
    Ok(pairs.iter().zip(figures).map(point).collect())
}

/// Nanoseconds of one way between the calling thread and `to`, sample by sample.
pub(crate) fn round(session: &Session, to: u32) -> Result<Vec<f64>, Error> {
    let word = Alone(AtomicU64::new(0));
    partner::with(&[to], |partners| {
        let sample = || {
            word.0.store(0, Ordering::Release);
            partners[0].begin(|| {
                for trip in 0..TRIPS {
                    partner::wait(|| word.0.load(Ordering::Acquire) == trip * 2 + 1);
                    word.0.store(trip * 2 + 2, Ordering::Release);
                }
            });
            // The first trip waits for the partner to begin.
            let trip = |trip: u64| {
                word.0.store(trip * 2 + 1, Ordering::Release);
                partner::wait(|| word.0.load(Ordering::Acquire) == trip * 2 + 2);
            };
            trip(0);
            let begin = ticks();
            (1..TRIPS).for_each(trip);
            let time = session.clock.ns(ticks().saturating_sub(begin));
            partners[0].finish();
            time / (TRIPS - 1) as f64 / 2.0
        };
        (0..SAMPLES).map(|_| sample()).collect()
    })
}

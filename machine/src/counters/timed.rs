//! Timed loads in the place of counters: what served a load shows in how long it took.
//!
//! The machine calibrates itself: loads of lines placed in each level are timed one by one, and between the levels stand
//! the limits that tell most of them apart rightly. How many that is, is the confidence; levels that cannot be told apart
//! are not pretended to be.

use super::{
    Backend, Reading,
    event::{Code, Event, Quantity},
    exercise::{Exercise, Way},
};
use crate::error::Error;
use serde::Serialize;

/// A level among timed loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// The level's name.
    pub level: String,
    /// Number of the level, memory being 0.
    #[serde(skip)]
    number: u32,
    /// Median of ticks, the clock's own included.
    pub median_ticks: u64,
    /// Greatest number of ticks that still means this level.
    pub limit_ticks: u64,
    /// Part of this level's loads that are taken for its own.
    pub confidence: f64,
}

/// Part of the loads of a level that must be told apart rightly.
const ENOUGH: f64 = 0.9;

/// Counts loads by what served them.
#[derive(Clone, Debug)]
pub struct TimedLoads {
    clusters: Vec<Cluster>,
}

impl TimedLoads {
    /// Calibrates with the exercises that load one line after the other, nearest level first.
    pub fn calibrate(exercises: &mut [Box<dyn Exercise>]) -> Self {
        let mut samples: Vec<(u32, String, Vec<u64>)> = Vec::new();
        for exercise in exercises {
            let facts = exercise.facts();
            let number = if facts.level > facts.caches { 0 } else { facts.level };
            if facts.way != Way::Load || samples.iter().any(|(known, ..)| *known == number) {
                continue;
            }
            let mut times = Vec::new();
            exercise.prepare();
            exercise.go_timed(&mut |ticks| times.push(ticks));
            samples.push((number, facts.place(), times));
        }
        Self::from_samples(samples)
    }

    /// From ticks of loads of each level, nearest first: its number, its name and the ticks.
    fn from_samples(samples: Vec<(u32, String, Vec<u64>)>) -> Self {
        let mut limits: Vec<u64> = samples.windows(2).map(|pair| limit(&pair[0].2, &pair[1].2)).collect();
        limits.push(u64::MAX);
        let mut from = 0;
        let mut clusters = Vec::new();
        for ((number, level, mut times), limit_ticks) in samples.into_iter().zip(limits) {
            let own = times.iter().filter(|ticks| (from..=limit_ticks).contains(*ticks)).count();
            let confidence = own as f64 / times.len().max(1) as f64;
            times.sort_unstable();
            let median_ticks = times.get(times.len() / 2).copied().unwrap_or(0);
            clusters.push(Cluster { level, number, median_ticks, limit_ticks, confidence });
            from = limit_ticks.saturating_add(1);
        }
        Self { clusters }
    }

    /// Levels as they were found.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The level that served a load of this many ticks: an index into [`TimedLoads::clusters`].
    #[must_use]
    pub fn classify(&self, ticks: u64) -> usize {
        self.clusters
            .iter()
            .position(|cluster| ticks <= cluster.limit_ticks)
            .unwrap_or(self.clusters.len().saturating_sub(1))
    }
}

/// The number of ticks up to which a load is better taken for one of `near`: of all numbers that occur, the one with the
/// least sum of both levels' parts taken wrongly.
fn limit(near: &[u64], far: &[u64]) -> u64 {
    let mut candidates: Vec<u64> = near.iter().chain(far).copied().collect();
    candidates.sort_unstable();
    candidates.dedup();
    let part = |times: &[u64], wrong: &dyn Fn(u64) -> bool| {
        times.iter().filter(|ticks| wrong(**ticks)).count() as f64 / times.len().max(1) as f64
    };
    let wrong = |limit: u64| part(near, &|ticks| ticks > limit) + part(far, &|ticks| ticks <= limit);
    candidates.into_iter().min_by(|a, b| wrong(*a).total_cmp(&wrong(*b))).unwrap_or(0)
}

impl Backend for TimedLoads {
    fn describe(&self) -> String {
        "timed loads".to_owned()
    }

    fn events(&self) -> Vec<Event> {
        let told_apart = |cluster: &&Cluster| cluster.confidence >= ENOUGH;
        let event = |cluster: &Cluster| Event {
            name: format!("timed.{}", cluster.level),
            code: Code::Own,
            claims: Quantity::From(cluster.number),
        };
        self.clusters.iter().filter(told_apart).map(event).collect()
    }

    fn count(&mut self, exercise: &mut dyn Exercise) -> Result<Vec<Option<Reading>>, Error> {
        let mut counts = vec![0; self.clusters.len()];
        exercise.prepare();
        let timed = exercise.go_timed(&mut |ticks| counts[self.classify(ticks)] += 1);
        let told_apart = self.clusters.iter().zip(counts).filter(|(cluster, _)| cluster.confidence >= ENOUGH);
        let reading = |count| timed.then_some(Reading { count, enabled_ns: 0, running_ns: 0 });
        Ok(told_apart.map(|(_, count)| reading(count)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(middle: u64, stray: u64) -> Vec<u64> {
        (0..1000).map(|index| if index % 100 == 0 { stray } else { middle + index % 5 }).collect()
    }

    #[test]
    fn levels_far_apart_are_told_apart_and_strays_cost_confidence() {
        let samples = vec![
            (1, "L1".to_owned(), around(60, 900)),
            (2, "L2".to_owned(), around(70, 400)),
            (0, "memory".to_owned(), around(350, 64)),
        ];
        let timed = TimedLoads::from_samples(samples);
        let medians: Vec<_> = timed.clusters().iter().map(|cluster| cluster.median_ticks).collect();
        assert_eq!(medians, [62, 72, 352]);
        assert_eq!([50, 64, 70, 74, 300, 5000].map(|ticks| timed.classify(ticks)), [0, 0, 1, 1, 2, 2]);
        assert!(timed.clusters().iter().all(|cluster| (cluster.confidence - 0.99).abs() < 1e-9), "{timed:?}");
        assert_eq!(timed.events().len(), 3);
    }

    #[test]
    fn levels_that_look_the_same_are_not_counted() {
        let samples = vec![
            (1, "L1".to_owned(), around(60, 60)),
            (2, "L2".to_owned(), around(60, 60)),
            (0, "memory".to_owned(), around(350, 350)),
        ];
        let names: Vec<_> = TimedLoads::from_samples(samples).events().into_iter().map(|event| event.name).collect();
        assert!(names.len() < 3 && names.contains(&"timed.memory".to_owned()), "{names:?}");
        assert!(TimedLoads::from_samples(Vec::new()).events().is_empty());
    }
}

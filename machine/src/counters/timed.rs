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

/// Levels that timed loads tell from the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// Names of the levels: several where the clock is too coarse to tell them apart.
    pub levels: Vec<String>,
    /// The level's number, memory being 0; `None` for several.
    #[serde(skip)]
    number: Option<u32>,
    /// Median of ticks, the clock's own included.
    pub median_ticks: u64,
    /// Greatest number of ticks that still means these levels; `None` for the farthest.
    pub limit_ticks: Option<u64>,
    /// Part of these levels' loads that are taken for their own.
    pub confidence: f64,
}

/// Part of the loads of a level that must be told apart rightly, or it is not told apart.
const ENOUGH: f64 = 0.9;

/// Ticks of loads of one level or several.
#[derive(Clone, Debug)]
struct Samples {
    numbers: Vec<u32>,
    levels: Vec<String>,
    times: Vec<u64>,
}

/// Counts loads by what served them.
#[derive(Clone, Debug)]
pub struct TimedLoads {
    clusters: Vec<Cluster>,
}

impl TimedLoads {
    /// Calibrates with the exercises that load one line after the other, nearest level first.
    pub fn calibrate(exercises: &mut [Box<dyn Exercise>]) -> Self {
        let mut samples: Vec<Samples> = Vec::new();
        for exercise in exercises {
            let facts = exercise.facts();
            let number = if facts.level > facts.caches { 0 } else { facts.level };
            if facts.way != Way::Load || samples.iter().any(|known| known.numbers.contains(&number)) {
                continue;
            }
            let mut times = Vec::new();
            exercise.prepare();
            exercise.go_timed(&mut |ticks| times.push(ticks));
            samples.push(Samples { numbers: vec![number], levels: vec![facts.place()], times });
        }
        Self::from_samples(samples)
    }

    /// From ticks of loads of each level, nearest first. While a level's loads are too often taken for others', it becomes
    /// one with the neighbour that it is the most like.
    fn from_samples(mut samples: Vec<Samples>) -> Self {
        loop {
            let clusters = clusters(&samples);
            let worst = clusters.iter().enumerate().min_by(|a, b| a.1.confidence.total_cmp(&b.1.confidence));
            match worst {
                Some((index, cluster)) if cluster.confidence < ENOUGH && samples.len() > 1 => {
                    let alike = |at: usize| mistaken(&samples[at].times, &samples[at + 1].times).1;
                    let below = index > 0 && (index + 1 == samples.len() || alike(index - 1) >= alike(index));
                    let at = if below { index - 1 } else { index };
                    let next = samples.remove(at + 1);
                    samples[at].numbers.extend(next.numbers);
                    samples[at].levels.extend(next.levels);
                    samples[at].times.extend(next.times);
                }
                _ => return Self { clusters },
            }
        }
    }

    /// Levels as they were found.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The levels that served a load of this many ticks: an index into [`TimedLoads::clusters`].
    #[must_use]
    pub fn classify(&self, ticks: u64) -> usize {
        let within = |cluster: &Cluster| cluster.limit_ticks.is_none_or(|limit| ticks <= limit);
        self.clusters.iter().position(within).unwrap_or(0)
    }

    /// Clusters of one level, by index.
    fn told_apart(&self) -> impl Iterator<Item = (usize, &Cluster, u32)> {
        self.clusters.iter().enumerate().filter_map(|(index, cluster)| Some((index, cluster, cluster.number?)))
    }
}

/// Limits between neighbours, and what they make of each one's own loads.
fn clusters(samples: &[Samples]) -> Vec<Cluster> {
    let limits = samples.windows(2).map(|pair| Some(mistaken(&pair[0].times, &pair[1].times).0));
    let limits: Vec<Option<u64>> = limits.chain([None]).collect();
    let mut from = 0;
    let mut clusters = Vec::new();
    for (samples, limit_ticks) in samples.iter().zip(limits) {
        let mut times = samples.times.clone();
        let own = times.iter().filter(|ticks| (from..=limit_ticks.unwrap_or(u64::MAX)).contains(*ticks)).count();
        let confidence = own as f64 / times.len().max(1) as f64;
        times.sort_unstable();
        let number = match samples.numbers[..] {
            [only] => Some(only),
            _ => None,
        };
        let median_ticks = times.get(times.len() / 2).copied().unwrap_or(0);
        clusters.push(Cluster { levels: samples.levels.clone(), number, median_ticks, limit_ticks, confidence });
        from = limit_ticks.map_or(u64::MAX, |limit| limit.saturating_add(1));
    }
    clusters
}

/// The number of ticks up to which a load is better taken for one of `near`, of all numbers that occur the one with the
/// least sum of both levels' parts taken wrongly; and that sum.
fn mistaken(near: &[u64], far: &[u64]) -> (u64, f64) {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let (near, far) = (sorted(near), sorted(far));
    let up_to =
        |times: &[u64], limit: u64| times.partition_point(|ticks| *ticks <= limit) as f64 / times.len().max(1) as f64;
    let wrong = |limit: u64| 1.0 - up_to(&near, limit) + up_to(&far, limit);
    let mut candidates = [&near[..], &far[..]].concat();
    candidates.sort_unstable();
    candidates.dedup();
    let best = candidates.into_iter().map(|limit| (limit, wrong(limit))).min_by(|a, b| a.1.total_cmp(&b.1));
    best.unwrap_or((0, 0.0))
}

impl Backend for TimedLoads {
    fn describe(&self) -> String {
        "timed loads".to_owned()
    }

    fn events(&self) -> Vec<Event> {
        let event = |(_, cluster, number): (usize, &Cluster, u32)| Event {
            name: format!("timed.{}", cluster.levels.join("")),
            code: Code::Own,
            claims: Quantity::From(number),
        };
        self.told_apart().map(event).collect()
    }

    fn count(&mut self, exercise: &mut dyn Exercise) -> Result<Vec<Option<Reading>>, Error> {
        let mut counts = vec![0; self.clusters.len()];
        exercise.prepare();
        let timed = exercise.go_timed(&mut |ticks| counts[self.classify(ticks)] += 1);
        let reading = |count| timed.then_some(Reading { count, enabled_ns: 0, running_ns: 0 });
        Ok(self.told_apart().map(|(index, ..)| reading(counts[index])).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(middle: u64, stray: u64) -> Vec<u64> {
        (0..1000).map(|index| if index % 100 == 0 { stray } else { middle + index % 5 }).collect()
    }

    fn samples(levels: &[(u32, &str, Vec<u64>)]) -> Vec<Samples> {
        let sample = |(number, level, times): &(u32, &str, Vec<u64>)| Samples {
            numbers: vec![*number],
            levels: vec![(*level).to_owned()],
            times: times.clone(),
        };
        levels.iter().map(sample).collect()
    }

    #[test]
    fn levels_far_apart_are_told_apart_and_strays_cost_confidence() {
        let levels = [(1, "L1", around(60, 900)), (2, "L2", around(70, 400)), (0, "memory", around(350, 64))];
        let timed = TimedLoads::from_samples(samples(&levels));
        let medians: Vec<_> = timed.clusters().iter().map(|cluster| cluster.median_ticks).collect();
        assert_eq!(medians, [62, 72, 352]);
        assert_eq!([50, 64, 70, 74, 350, 5000].map(|ticks| timed.classify(ticks)), [0, 0, 1, 1, 2, 2]);
        assert!(timed.clusters().iter().all(|cluster| (cluster.confidence - 0.99).abs() < 1e-9), "{timed:?}");
        assert_eq!(timed.events().len(), 3);
    }

    /// As on a machine whose clock moves by 26 ticks at a time.
    #[test]
    fn levels_that_look_the_same_become_one_and_are_not_counted() {
        let coarse = |of: &[u64]| (0..1000).map(|index| of[index % of.len()]).collect::<Vec<_>>();
        let levels = [
            (1, "L1", coarse(&[52, 52, 78])),
            (2, "L2", coarse(&[52, 78, 78])),
            (3, "L3", coarse(&[104])),
            (0, "memory", coarse(&[364, 390])),
        ];
        let timed = TimedLoads::from_samples(samples(&levels));
        let names: Vec<_> = timed.clusters().iter().map(|cluster| cluster.levels.join(" ")).collect();
        assert_eq!(names, ["L1 L2", "L3", "memory"]);
        let events: Vec<_> = timed.events().into_iter().map(|event| event.name).collect();
        assert_eq!(events, ["timed.L3", "timed.memory"]);
        assert!(TimedLoads::from_samples(Vec::new()).events().is_empty());
    }
}

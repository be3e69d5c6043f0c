//! From repeated measurements to one figure: rounds until three of them agree, or until it is said that they do not.

use serde::Serialize;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds after which a figure that has not settled is called unstable; at least 3.
    pub rounds: usize,
    /// Greatest distance between three rounds that agree, as a part of their figure.
    pub tolerance: f64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { rounds: 12, tolerance: 0.04 }
    }
}

/// Neighbouring estimates that differ by this factor are of two states: noise fills gaps.
const GAP: f64 = 1.15;

/// What stands for the samples of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The least: for work that others can only make slower.
    Least,
    /// The median: for work that chance can make faster as well.
    Median,
}

/// Rounds that agree with each other and not with the others: the machine was in another state, such as a CPU of a virtual
/// machine that its hypervisor moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// The middle one, in the figure's unit.
    pub value: f64,
    /// How many.
    pub rounds: usize,
}

/// A figure with what is known of its quality, all in one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The middle one of the three rounds that agree best.
    pub value: f64,
    /// Distance between the outer two of them.
    pub spread: f64,
    /// Least of all samples.
    pub least: f64,
    /// Median of all samples.
    pub median: f64,
    /// Rounds made.
    pub rounds: usize,
    /// Whether three rounds agreed.
    pub stable: bool,
    /// Values that rounds kept coming back to, ascending in time, where that is more than one; else none.
    pub clusters: Vec<Cluster>,
}

impl Figure {
    /// The figure in another unit: every value times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            spread: self.spread * factor,
            least: self.least * factor,
            median: self.median * factor,
            clusters: in_unit(&self.clusters, |value| value * factor),
            ..self
        }
    }

    /// `amount` by this figure, such as bytes by time: the greatest comes from the least.
    #[must_use]
    pub fn rate(self, amount: f64) -> Self {
        let value = amount / self.value;
        Self {
            value,
            spread: value * self.spread / self.value,
            least: amount / self.median,
            median: amount / self.median,
            clusters: in_unit(&self.clusters, |value| amount / value),
            ..self
        }
    }
}

fn in_unit(clusters: &[Cluster], unit: impl Fn(f64) -> f64) -> Vec<Cluster> {
    clusters.iter().map(|cluster| Cluster { value: unit(cluster.value), ..*cluster }).collect()
}

/// The median; `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value that a part of all others lies below.
#[must_use]
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * part).round() as usize).copied()
}

/// Rounds of one figure so far.
#[derive(Clone, Debug, Default)]
struct Rounds {
    made: usize,
    estimates: Vec<f64>,
    samples: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, take: Take, samples: Vec<f64>) {
        self.made += 1;
        self.estimates.extend(match take {
            Take::Least => quantile(&samples, 0.0),
            Take::Median => median(&samples),
        });
        self.samples.extend(samples);
    }

    fn figure(&self, effort: Effort, take: Take) -> Option<Figure> {
        let mut sorted = self.estimates.clone();
        sorted.sort_by(f64::total_cmp);
        let clusters = clusters(&sorted);
        // The least of two states is what is asked for, but no median of them is.
        let one_state = take == Take::Least || clusters.is_empty();
        agreeing(&sorted, take).map(|(value, spread)| Figure {
            value,
            spread,
            least: quantile(&self.samples, 0.0).unwrap_or(value),
            median: median(&self.samples).unwrap_or(value),
            rounds: self.made,
            stable: sorted.len() >= 3 && spread <= effort.tolerance * value && one_state,
            clusters,
        })
    }
}

/// Calls `round` for samples until the figure settles. A round without samples (all were disturbed) counts as a round.
/// `None` if no round had any.
pub fn settle(effort: Effort, take: Take, mut round: impl FnMut() -> Vec<f64>) -> Option<Figure> {
    let mut rounds = Rounds::default();
    loop {
        rounds.add(take, round());
        let figure = rounds.figure(effort, take);
        if rounds.made >= effort.rounds.max(3) || figure.as_ref().is_some_and(|figure| figure.stable) {
            return figure;
        }
    }
}

/// Settles many figures at once: a round of each that has not settled, then the next of each. What disturbs the machine for
/// some seconds then spoils one round of many figures, not all rounds of a few. `advanced` hears which part of the work is
/// done, at worst.
///
/// # Errors
/// Those of `round`.
pub fn settle_all<P, E>(
    effort: Effort,
    take: Take,
    points: &[P],
    mut round: impl FnMut(&P) -> Result<Vec<f64>, E>,
    advanced: impl Fn(f64),
) -> Result<Vec<Option<Figure>>, E> {
    let mut all = vec![Rounds::default(); points.len()];
    let most = effort.rounds.max(3);
    let mut left = points.len() * most;
    let settled = |rounds: &Rounds| rounds.figure(effort, take).is_some_and(|figure| figure.stable);
    for _ in 0..most {
        for (point, rounds) in points.iter().zip(&mut all) {
            if !settled(rounds) {
                rounds.add(take, round(point)?);
                left -= if settled(rounds) { most - rounds.made + 1 } else { 1 };
                advanced(1.0 - left as f64 / (points.len() * most) as f64);
            }
        }
    }
    Ok(all.iter().map(|rounds| rounds.figure(effort, take)).collect())
}

/// States of the machine that sorted estimates of rounds show: at least two rounds each, and a gap between them.
fn clusters(sorted: &[f64]) -> Vec<Cluster> {
    let groups = sorted.chunk_by(|a, b| *b <= a * GAP).filter(|group| group.len() >= 2);
    let clusters: Vec<_> = groups.map(|group| Cluster { value: group[group.len() / 2], rounds: group.len() }).collect();
    if clusters.len() < 2 { Vec::new() } else { clusters }
}

/// The three of sorted estimates that agree best, or the least three: their middle and their extent.
fn agreeing(sorted: &[f64], take: Take) -> Option<(f64, f64)> {
    let [first, .., last] = sorted else { return sorted.first().map(|only| (*only, 0.0)) };
    let three = match take {
        Take::Least => sorted.windows(3).next(),
        Take::Median => sorted.windows(3).min_by(|a, b| (a[2] - a[0]).total_cmp(&(b[2] - b[0]))),
    };
    Some(three.map_or((*first, last - first), |three| (three[1], three[2] - three[0])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn three_rounds_that_agree_end_it() {
        let rounds = [vec![9.0, 5.0], vec![5.1, 7.0], vec![40.0], vec![5.05, 80.0], vec![1.0]];
        let mut next = rounds.iter().cloned();
        let figure = settle(Effort { rounds: 9, tolerance: 0.04 }, Take::Least, || next.next().unwrap()).unwrap();
        assert_eq!((figure.value, figure.rounds, figure.stable, figure.least), (5.05, 4, true, 5.0));
        assert!((figure.spread - 0.1).abs() < 1e-9);
    }

    #[test]
    fn rounds_that_never_agree_are_called_unstable() {
        let mut value = 1.0;
        let doubling = || {
            value *= 2.0;
            vec![value]
        };
        let figure = settle(Effort { rounds: 5, tolerance: 0.04 }, Take::Median, doubling).unwrap();
        assert_eq!((figure.rounds, figure.stable, figure.value, figure.spread), (5, false, 4.0, 6.0));
        assert_eq!(settle(Effort::default(), Take::Least, Vec::new), None);
    }

    #[test]
    fn the_median_of_rounds_may_lie_above_a_stray_fast_one() {
        let mut rounds = [vec![1.0], vec![10.0], vec![10.1], vec![10.2]].into_iter();
        let figure = settle(Effort::default(), Take::Median, || rounds.next().unwrap()).unwrap();
        assert_eq!((figure.value, figure.rounds), (10.1, 4));
    }

    /// The first three rounds of everything are disturbed; only what has settled is left alone.
    #[test]
    fn many_figures_settle_beside_each_other() {
        let mut calls = [0; 3];
        let round = |point: &usize| {
            calls[*point] += 1;
            let noise = if calls[*point] <= 3 { f64::from(calls[*point]) } else { 0.0 };
            match point {
                0 => Ok(vec![10.0]),
                1 => Ok(vec![10.0 + noise]),
                _ => Err("never asked"),
            }
        };
        let heard = RefCell::new(Vec::new());
        let advanced = |part: f64| heard.borrow_mut().push((part * 24.0).round() as u32);
        let figures = settle_all(Effort::default(), Take::Least, &[0, 1], round, advanced).unwrap();
        let seen: Vec<_> =
            figures.into_iter().flatten().map(|figure| (figure.value, figure.rounds, figure.stable)).collect();
        assert_eq!(seen, [(10.0, 3, true), (10.0, 6, true)]);
        // Twelve rounds each at worst: the first saves nine of them, the second six.
        assert_eq!(heard.into_inner(), [1, 2, 3, 4, 14, 15, 16, 17, 24]);
        let failed =
            settle_all(Effort::default(), Take::Least, &[2], |_: &i32| Err::<Vec<f64>, _>("no memory"), |_| {});
        assert_eq!(failed, Err("no memory"));
    }

    /// As on a virtual machine whose CPUs were two threads of one core, then two cores, then threads again.
    #[test]
    fn rounds_of_two_states_are_told_apart() {
        let settle = |take, rounds: &[f64]| {
            let mut rounds = rounds.iter();
            settle(Effort { rounds: rounds.len(), tolerance: 0.04 }, take, || vec![*rounds.next().unwrap()]).unwrap()
        };
        let states = |figure: &Figure| figure.clusters.iter().map(|it| (it.value, it.rounds)).collect::<Vec<_>>();
        let moved = settle(Take::Median, &[16.0, 66.0, 66.2, 16.1, 16.2, 66.1]);
        assert_eq!((moved.stable, states(&moved)), (false, vec![(16.1, 3), (66.1, 3)]));
        assert_eq!(states(&moved.rate(661.0))[1], (10.0, 3));
        let least = settle(Take::Least, &[16.0, 66.0, 66.2, 16.1, 16.2]);
        assert_eq!((least.stable, least.value, least.clusters.len()), (true, 16.1, 2));
        let noise = settle(Take::Median, &[16.0, 20.0, 24.0, 16.1, 16.2]);
        assert_eq!((noise.stable, noise.clusters.len()), (true, 0));
    }

    #[test]
    fn rates() {
        let time =
            Figure { value: 2.0, spread: 0.1, least: 1.9, median: 4.0, rounds: 3, stable: true, clusters: Vec::new() };
        let rate = time.rate(100.0);
        assert!(
            (rate.value - 50.0).abs() < 1e-9 && (rate.spread - 2.5).abs() < 1e-9 && (rate.median - 25.0).abs() < 1e-9
        );
    }
}

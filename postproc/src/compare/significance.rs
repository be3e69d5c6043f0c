//! Whether two samples of a figure differ by more than chance.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Chances of less than this are called significant, among all figures that were tested.
pub const LEVEL: f64 = 0.05;
/// With at most so many ways to divide the runs every one is looked at.
const MOST_DIVISIONS: u64 = 200_000;

/// The chance that runs divided at random have means at least as far apart as these, two-sided; `None` if there is no run
/// on a side. Every division is looked at (Fisher and Pitman's exact permutation test) or, of many runs, Welch's t-test is
/// taken, which needs no more than roughly normal means.
#[must_use]
pub fn chance(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    if divisions(a.len(), b.len()) <= MOST_DIVISIONS { Some(permutation(a, b)) } else { welch(a, b) }
}

/// The least chance that [`chance`] can find with so many runs.
#[must_use]
pub fn least_chance(a: usize, b: usize) -> f64 {
    // With as many on both sides, the division the other way round is as far apart.
    (if a == b { 2.0 } else { 1.0 }) / divisions(a, b) as f64
}

/// Ways to divide runs into sides of these sizes; `u64::MAX` for very many.
fn divisions(a: usize, b: usize) -> u64 {
    let (all, few) = ((a + b) as u64, a.min(b) as u64);
    let product = (1..=few).try_fold(1_u64, |ways, at| Some(ways.checked_mul(all - few + at)? / at));
    product.unwrap_or(u64::MAX)
}

fn permutation(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (sum, of_a) = (all.iter().sum::<f64>(), a.iter().sum::<f64>());
    let apart = |of_a: f64| (of_a / a.len() as f64 - (sum - of_a) / b.len() as f64).abs();
    // Sums of the same numbers in another order are the same.
    let least = apart(of_a) * (1.0 - 1e-9) - 1e-12 * sum.abs();
    let (mut as_far, mut ways) = (0_u64, 0_u64);
    choose(&all, a.len(), 0.0, &mut |of_a| {
        ways += 1;
        as_far += u64::from(apart(of_a) >= least);
    });
    as_far as f64 / ways as f64
}

/// Hands on the sum of every choice of so many values.
fn choose(values: &[f64], count: usize, sum: f64, each: &mut impl FnMut(f64)) {
    match values.split_first() {
        _ if count == 0 => each(sum),
        Some((first, rest)) if values.len() >= count => {
            choose(rest, count - 1, sum + first, each);
            choose(rest, count, sum, each);
        }
        _ => {}
    }
}

/// Welch's t-test, two-sided.
fn welch(a: &[f64], b: &[f64]) -> Option<f64> {
    let error = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
            / (values.len() as f64 - 1.0)
            / values.len() as f64
    };
    let (of_a, of_b) = (error(a), error(b));
    let freedom =
        (of_a + of_b).powi(2) / (of_a.powi(2) / (a.len() as f64 - 1.0) + of_b.powi(2) / (b.len() as f64 - 1.0));
    let t = (mean(a) - mean(b)) / (of_a + of_b).sqrt();
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(2.0 * distribution.cdf(-t.abs()))
}

/// The mean; NaN of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Chances of several figures made larger, so that of those that are called significant no more than [`LEVEL`] are so by
/// chance (Benjamini and Hochberg).
#[must_use]
pub fn adjusted(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[other].total_cmp(&chances[one]));
    let (mut adjusted, mut least) = (vec![1.0; chances.len()], 1.0_f64);
    for (before, &at) in order.iter().enumerate() {
        let rank = chances.len() - before;
        least = least.min(chances[at] * chances.len() as f64 / rank as f64);
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn by_hand() {
        // Of the 20 ways to take three of these, two are as far apart.
        assert!(close(chance(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap(), 0.1));
        assert!(close(chance(&[1.0, 2.0, 3.0, 4.0], &[9.0, 8.0, 7.0, 6.0]).unwrap(), 2.0 / 70.0));
        assert!(close(chance(&[1.0, 2.0], &[1.0, 2.0]).unwrap(), 1.0));
        assert_eq!(chance(&[], &[1.0]), None);
        assert!(
            close(least_chance(3, 3), 0.1) && close(least_chance(4, 4), 2.0 / 70.0) && close(least_chance(2, 3), 0.1)
        );
        assert_eq!((divisions(10, 10), divisions(40, 40)), (184_756, u64::MAX));
    }

    #[test]
    fn welch_as_integrated_by_hand() {
        // Means 20.820 and 23.564, t = -2.7207, 26.999 degrees of freedom; the tails by Simpson's rule.
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.0];
        assert!((welch(&a, &b).unwrap() - 0.011_258_553).abs() < 1e-8);
    }

    #[test]
    fn several_figures_need_more() {
        let adjusted = adjusted(&[0.01, 0.04, 0.03, 0.5]);
        let wanted = [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5];
        assert!(adjusted.iter().zip(wanted).all(|(a, b)| close(*a, b)), "{adjusted:?}");
        assert!(self::adjusted(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn order_of_sides_and_runs_means_nothing(
            a in prop::collection::vec(0_u8..20, 1..6), b in prop::collection::vec(0_u8..20, 1..6)
        ) {
            let numbers = |values: &[u8]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let (a, b) = (numbers(&a), numbers(&b));
            let found = chance(&a, &b).unwrap();
            prop_assert!(close(found, chance(&b, &a).unwrap()));
            let back: Vec<f64> = a.iter().rev().copied().collect();
            prop_assert!(close(found, chance(&back, &b).unwrap()));
            prop_assert!(found >= least_chance(a.len(), b.len()) - 1e-9 && found <= 1.0);
        }
    }
}

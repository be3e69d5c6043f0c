//! How far two distributions are from each other. A distribution is a list of masses that add up to 1, in cells that lie
//! side by side, the same ones for both; cells beyond the end of a list are empty.

/// The masses of both, cell by cell.
fn cells<'a>(a: &'a [f64], b: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let at = |masses: &[f64], cell: usize| masses.get(cell).copied().unwrap_or(0.0);
    (0..a.len().max(b.len())).map(move |cell| (at(a, cell), at(b, cell)))
}

/// How much more of `a` than of `b` lies in each cell or one before it.
fn leads<'a>(a: &'a [f64], b: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    cells(a, b).scan(0.0, |lead, (a, b)| {
        *lead += a - b;
        Some(*lead)
    })
}

/// Kolmogorov and Smirnov's distance, 0 to 1: at no edge between cells does the part of `a` below it differ from that of
/// `b` by more.
#[must_use]
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> f64 {
    leads(a, b).fold(0.0, |most, lead| lead.abs().max(most))
}

/// The earth mover's distance: the least work that makes `a` into `b`, where moving all mass by 1 is work 1. `width` is
/// how far a cell is from the next.
#[must_use]
pub fn earth_mover(a: &[f64], b: &[f64], width: impl Fn(usize) -> f64) -> f64 {
    leads(a, b).enumerate().map(|(cell, lead)| lead.abs() * width(cell)).sum()
}

/// The mass that both have in the same cells, 0 to 1: 1 less the total variation distance.
#[must_use]
pub fn overlap(a: &[f64], b: &[f64]) -> f64 {
    cells(a, b).map(|(a, b)| a.min(b)).sum::<f64>().min(1.0)
}

/// Cosine of the angle between two lists of counts or masses, none negative: 1 for the same proportions, 0 where nothing is
/// in the same cells.
#[must_use]
pub fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let (dot, one, other) =
        cells(a, b).fold((0.0, 0.0, 0.0), |(dot, one, other), (a, b)| (dot + a * b, one + a * a, other + b * b));
    if one * other > 0.0 { (dot / (f64::sqrt(one) * f64::sqrt(other))).min(1.0) } else { 0.0 }
}

/// Counts as parts of their sum; empty if that is 0.
#[must_use]
pub fn normalised(counts: &[f64]) -> Vec<f64> {
    let sum: f64 = counts.iter().sum();
    if sum > 0.0 { counts.iter().map(|count| count / sum).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Points as a distribution over ten cells.
    fn masses(points: &[usize]) -> Vec<f64> {
        let mut masses = vec![0.0; 10];
        points.iter().for_each(|&point| masses[point] += 1.0 / points.len() as f64);
        masses
    }

    /// The least mean way that points go to others, over every assignment.
    fn least_work(from: &[usize], to: &[usize]) -> f64 {
        fn least(from: &[usize], to: &mut Vec<usize>) -> usize {
            let Some((&first, rest)) = from.split_first() else { return 0 };
            let each = (0..to.len()).map(|at| {
                let taken = to.swap_remove(at);
                let work = first.abs_diff(taken) + least(rest, to);
                to.push(taken);
                let last = to.len() - 1;
                to.swap(at, last);
                work
            });
            each.min().unwrap_or(0)
        }
        least(from, &mut to.to_vec()) as f64 / from.len() as f64
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    fn unit(_: usize) -> f64 {
        1.0
    }

    fn five() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(0_usize..10, 5)
    }

    proptest! {
        #[test]
        fn the_work_is_the_least_of_every_assignment(a in five(), b in five()) {
            prop_assert!(close(earth_mover(&masses(&a), &masses(&b), unit), least_work(&a, &b)));
        }

        #[test]
        fn the_greatest_lead_is_that_of_every_threshold(a in five(), b in five()) {
            let below = |points: &[usize], edge| points.iter().filter(|&&point| point < edge).count() as f64 / 5.0;
            let most = (0..=10).map(|edge| (below(&a, edge) - below(&b, edge)).abs()).fold(0.0, f64::max);
            prop_assert!(close(kolmogorov_smirnov(&masses(&a), &masses(&b)), most));
        }

        #[test]
        fn they_are_metrics(a in five(), b in five(), c in five()) {
            let [a, b, c] = [a, b, c].map(|points| masses(&points));
            let moved = |a: &[f64], b: &[f64]| earth_mover(a, b, |cell| 1.0 + cell as f64);
            let apart = |a: &[f64], b: &[f64]| 1.0 - overlap(a, b);
            for distance in [&moved as &dyn Fn(&[f64], &[f64]) -> f64, &kolmogorov_smirnov, &apart] {
                prop_assert!(close(distance(&a, &a), 0.0));
                prop_assert!(close(distance(&a, &b), distance(&b, &a)));
                prop_assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c) + 1e-9);
            }
            prop_assert!(close(cosine(&a, &b), cosine(&b, &a)));
            prop_assert!(close(cosine(&a, &a), 1.0));
        }
    }

    #[test]
    fn by_hand() {
        let (a, b) = ([0.5, 0.5], [0.0, 0.5, 0.5]);
        assert!(close(kolmogorov_smirnov(&a, &b), 0.5));
        assert!(close(earth_mover(&a, &b, unit), 1.0));
        assert!(close(earth_mover(&a, &b, |cell| [3.0, 5.0, 0.0][cell]), 4.0));
        assert!(close(overlap(&a, &b), 0.5));
        assert!(close(cosine(&a, &b), 0.5));
        assert_eq!(cosine(&[], &b), 0.0);
        assert_eq!((normalised(&[1.0, 3.0]), normalised(&[0.0])), (vec![0.25, 0.75], vec![]));
    }
}

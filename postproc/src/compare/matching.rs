//! Which capacity of one side stands for which of the other.
//!
//! Programs with data of different size are alike if the same happens to them in caches that are to one what they are to
//! the other. What a program uses again and again is of two kinds, and everything between: a few lines or a block, as large
//! for small data as for large, or a row, a plane, all of it. So a capacity of the side with the smaller working set stands
//! for one of the other that is at least as large and at most larger by the ratio of the working sets, and the larger the
//! capacity the larger the factor. Of all ways to pair capacities under these rules the one is taken in which the sides are
//! most alike; it begins with the least capacities and ends with the working sets. With equal working sets every capacity
//! stands for itself.

use super::locality::{Locality, alike};

/// A capacity of one side that stands for one of the other; both as sizes of [`super::locality::lines`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    /// Of the first side.
    pub a: usize,
    /// Of the second.
    pub b: usize,
    /// How alike the miss ratios are, 0 to 1.
    pub alike: f64,
    /// How far they are apart, 0 to 1.
    pub gap: f64,
    /// Its weight in the mean: how many of the two capacities are new to the pairs.
    pub weight: f64,
}

/// The capacities of both sides in pairs, ascending.
pub(crate) fn matching(a: &Locality, b: &Locality) -> Vec<Pair> {
    if a.working_set > b.working_set {
        let swapped = |pair: Pair| Pair { a: pair.b, b: pair.a, ..pair };
        return matching(b, a).into_iter().map(swapped).collect();
    }
    // Steps: both one size up, or only the larger side, which makes the factor larger. Each capacity of each side counts
    // once (Sakoe and Chiba's symmetric weights): lingering at one that is alike wins nothing for those that are not.
    let least = a.least.max(b.least);
    let (rows, columns) = (a.working_set.max(least) - least + 1, b.working_set.max(least) - least + 1);
    let at = |row: usize, column: usize, weight| Pair { weight, ..pair(a, b, least + row, least + column) };
    let mut best = vec![vec![f64::NEG_INFINITY; columns]; rows];
    // Whether only the larger side takes the last step.
    let mut alone = vec![vec![false; columns]; rows];
    for column in 0..columns {
        for row in 0..rows.min(column + 1) {
            let alike = at(row, column, 1.0).alike;
            let together = match (row, column) {
                (0, 0) => 0.0,
                (0, _) => f64::NEG_INFINITY,
                _ => best[row - 1][column - 1],
            };
            let lone = if column > 0 { best[row][column - 1] } else { f64::NEG_INFINITY };
            alone[row][column] = lone > together + alike;
            best[row][column] = alike + lone.max(together + alike);
        }
    }
    let mut pairs = Vec::with_capacity(columns);
    let mut row = rows - 1;
    for column in (0..columns).rev() {
        let lone = alone[row][column];
        pairs.push(at(row, column, if lone { 1.0 } else { 2.0 }));
        row -= usize::from(!lone && row > 0);
    }
    pairs.reverse();
    pairs
}

/// Two capacities next to each other. Neighbouring sizes count as the same, so that a fall of the miss ratio that lies a
/// little off is no difference.
pub(crate) fn pair(a: &Locality, b: &Locality, at_a: usize, at_b: usize) -> Pair {
    let (of_a, of_b) = (a.ratio(at_a), b.ratio(at_b));
    let (near_a, near_b) = (a.near(at_a), b.near(at_b));
    let nearest = |ratio: f64, (low, high): (f64, f64)| ratio.clamp(low, high.max(low));
    let (a_in_b, b_in_a) = (nearest(of_a, near_b), nearest(of_b, near_a));
    Pair {
        a: at_a,
        b: at_b,
        alike: alike(of_a, a_in_b).min(alike(of_b, b_in_a)),
        gap: (of_a - a_in_b).abs().max((of_b - b_in_a).abs()),
        weight: 1.0,
    }
}

/// The mean likeness of pairs.
pub(crate) fn mean(pairs: &[Pair]) -> f64 {
    let weights: f64 = pairs.iter().map(|pair| pair.weight).sum();
    pairs.iter().map(|pair| pair.weight * pair.alike).sum::<f64>() / weights
}

/// Every capacity with itself, up to the larger working set.
pub(crate) fn unscaled(a: &Locality, b: &Locality) -> Vec<Pair> {
    let sizes = a.least.max(b.least)..=a.working_set.max(b.working_set);
    sizes.map(|size| pair(a, b, size, size)).collect()
}

/// Every capacity with that which is as large a part of the other side's working set.
pub(crate) fn scaled(a: &Locality, b: &Locality) -> Vec<Pair> {
    let least = a.least.max(b.least);
    let below = a.working_set.min(b.working_set).saturating_sub(least);
    (0..=below).rev().map(|below| pair(a, b, a.working_set - below, b.working_set - below)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Falls from 1 to each ratio at each size.
    fn curve(falls: &[(usize, f64)]) -> Locality {
        let ratio = |size: usize| falls.iter().rfind(|fall| fall.0 <= size).map_or(1.0, |fall| fall.1);
        let misses: Vec<_> = (0..30).map(|size| Some((ratio(size) * 1e6) as u64)).collect();
        Locality::new(1_000_000, &misses, 0)
    }

    /// The most likeness of every path to a pair, tried one by one.
    fn best(a: &Locality, b: &Locality, (row, column): (usize, usize)) -> f64 {
        let alike = pair(a, b, row, column).alike;
        match (row, column) {
            (row, column) if row > column => f64::NEG_INFINITY,
            (0, 0) => 2.0 * alike,
            (0, _) => alike + best(a, b, (0, column - 1)),
            _ => (alike + best(a, b, (row, column - 1))).max(2.0 * alike + best(a, b, (row - 1, column - 1))),
        }
    }

    fn any() -> impl Strategy<Value = Locality> {
        prop::collection::vec((1_usize..4, 0.0..0.7), 1..5).prop_map(|falls| {
            let (mut at, mut ratio) = (0, 1.0);
            let mut sum: Vec<_> = falls
                .into_iter()
                .map(|(far, part)| {
                    at += far;
                    ratio *= part;
                    (at, ratio)
                })
                .collect();
            sum.push((at + 1, 0.0));
            curve(&sum)
        })
    }

    proptest! {
        #[test]
        fn no_other_way_is_better(a in any(), b in any()) {
            let pairs = matching(&a, &b);
            let (small, large) = if a.working_set > b.working_set { (&b, &a) } else { (&a, &b) };
            let sizes = (small.working_set + large.working_set + 2) as f64;
            let most = best(small, large, (small.working_set, large.working_set)) / sizes;
            prop_assert!((mean(&pairs) - most).abs() < 1e-9, "{} {most}", mean(&pairs));
        }

        #[test]
        fn order_and_identity(a in any(), b in any()) {
            prop_assert!((mean(&matching(&a, &b)) - mean(&matching(&b, &a))).abs() < 1e-9);
            prop_assert!(mean(&matching(&a, &a)) == 1.0);
            let pairs = matching(&a, &b);
            prop_assert!(pairs.windows(2).all(|two| two[0].a <= two[1].a && two[0].b <= two[1].b));
            prop_assert_eq!((pairs[0].a, pairs[0].b), (0, 0));
            let last = pairs.last().unwrap();
            prop_assert_eq!((last.a, last.b), (a.working_set, b.working_set));
        }
    }

    #[test]
    fn what_is_as_large_for_small_data_stays_and_the_rest_grows() {
        // A block of size 3, a row of size 8 and all data at 14; four times the rows, 16 times the data.
        let small = curve(&[(3, 0.4), (8, 0.1), (14, 0.0)]);
        let large = curve(&[(3, 0.4), (12, 0.1), (22, 0.0)]);
        assert_eq!(mean(&matching(&small, &large)), 1.0);
        assert!(mean(&unscaled(&small, &large)) < 0.6);
        assert!(mean(&scaled(&small, &large)) < 0.8);
    }

    #[test]
    fn other_plateaus_cannot_be_paired_away() {
        let small = curve(&[(3, 0.4), (8, 0.1), (14, 0.0)]);
        let other = curve(&[(3, 0.4), (12, 0.35), (22, 0.0)]);
        assert!(mean(&matching(&small, &other)) < 0.8);
        // As large, but reached later: nothing may be moved.
        let late = curve(&[(3, 0.4), (12, 0.1), (14, 0.0)]);
        assert!(mean(&matching(&small, &late)) < 0.9);
        assert!(matching(&small, &late).iter().all(|pair| pair.a == pair.b));
    }
}

//! Caches whose index is no plain bit field: a line lands in any of S sets as if at random (section 4 of the model).
//!
//! `P(miss | d_0, S, w) = P(Binomial(d_0, 1/S) >= w)`, summed over `F_0`. The binomial tail is summed term by term from
//! its largest term, whose logarithm comes from a running product: differences of log-gamma values, as general
//! libraries take them, lose seven digits at distances of 10^9. A bin of many distances is summed in closed form, under
//! the assumption that its distances are equally frequent, so the arithmetic adds less than 10^-9 to a probability; what
//! remains is that assumption, over a bin never wider than 1/256 of its distance.

use bf_profile::Bin;
use std::collections::HashMap;

/// Tails below exp(-45) are 0, and tails that far from 1 are 1: 3e-20 is beyond the precision of the sum.
const NEGLIGIBLE: f64 = 45.0;

/// Miss probabilities of one cache, remembered: the bins of loads, stores and write-backs share their edges.
#[derive(Debug)]
pub struct Hashed {
    whole: Binomial,
    /// Sets that hold one line more, as a fraction, for capacities that are no whole number of ways.
    extra: Option<(f64, Binomial)>,
}

impl Hashed {
    /// A cache of `sets` sets, of which all hold `ways` lines and the fraction `extra` (0 up to 1) holds one more.
    #[must_use]
    pub fn new(sets: u64, ways: u64, extra: f64) -> Self {
        let extra = (extra > 0.0).then(|| (extra, Binomial::new(sets, ways + 1)));
        Self { whole: Binomial::new(sets, ways), extra }
    }

    /// Mean probability that a reference of a distance in `bin` misses.
    pub fn miss(&mut self, bin: &Bin) -> f64 {
        let miss = self.whole.mean(bin.lo, bin.hi);
        match &mut self.extra {
            None => miss,
            Some((fraction, more)) => miss + *fraction * (more.mean(bin.lo, bin.hi) - miss),
        }
    }
}

/// `P(Binomial(n, 1/sets) >= ways)` as a function of n.
#[derive(Debug)]
struct Binomial {
    sets: u64,
    ways: u64,
    sums: HashMap<u64, f64>,
}

impl Binomial {
    fn new(sets: u64, ways: u64) -> Self {
        Self { sets, ways, sums: HashMap::new() }
    }

    /// Mean tail over `lo <= n < hi`.
    fn mean(&mut self, lo: u64, hi: u64) -> f64 {
        if hi == lo + 1 {
            return self.tail(lo);
        }
        let sum = self.sum_below(hi) - self.sum_below(lo);
        (sum / (hi - lo) as f64).clamp(0.0, 1.0)
    }

    /// Sum of the tail over `n < end`: with N the trial of the w-th success it is `E[max(end - N, 0)]`, which is
    /// `(end - w S) P(Binomial(end) >= w) + w (S - 1) P(Binomial(end) = w)`.
    fn sum_below(&mut self, end: u64) -> f64 {
        if let Some(&sum) = self.sums.get(&end) {
            return sum;
        }
        let (sets, ways) = (self.sets as f64, self.ways as f64);
        let sum = if self.sets == 1 {
            end.saturating_sub(self.ways) as f64
        } else {
            (end as f64 - ways * sets) * self.tail(end) + ways * (sets - 1.0) * self.ln_pmf(end, self.ways).exp()
        };
        self.sums.insert(end, sum);
        sum
    }

    /// `P(Binomial(n, 1/sets) >= ways)`.
    fn tail(&self, n: u64) -> f64 {
        if n < self.ways || self.sets == 1 {
            return if n >= self.ways { 1.0 } else { 0.0 };
        }
        let mean = n as f64 / self.sets as f64;
        // Sum the tail that is the smaller one, away from the mean.
        if self.ways as f64 > mean {
            if self.chernoff(n, self.ways) > NEGLIGIBLE {
                return 0.0;
            }
            self.sum_up(n)
        } else {
            let last = self.ways - 1;
            if self.chernoff(n, last) > NEGLIGIBLE {
                return 1.0;
            }
            1.0 - self.sum_down(n, last)
        }
    }

    /// Negative logarithm of Chernoff's bound on the tail from k away from the mean.
    fn chernoff(&self, n: u64, k: u64) -> f64 {
        let (trials, k, sets) = (n as f64, k as f64, self.sets as f64);
        let (hits, others) = (trials / sets, trials * (1.0 - 1.0 / sets));
        let part = |x: f64, mean: f64| if x > 0.0 { x * (x / mean).ln() } else { 0.0 };
        part(k, hits) + part(trials - k, others)
    }

    /// Sum of the probabilities of `ways ..= n`; `ways` is above the mean.
    fn sum_up(&self, n: u64) -> f64 {
        let odds = 1.0 / (self.sets - 1) as f64;
        let mut term = self.ln_pmf(n, self.ways).exp();
        let (mut sum, mut k) = (0.0, self.ways);
        while term > sum * f64::EPSILON * 0.1 {
            sum += term;
            term *= (n - k) as f64 / (k + 1) as f64 * odds;
            k += 1;
        }
        sum
    }

    /// Sum of the probabilities of `0 ..= last`; `last` is below the mean.
    fn sum_down(&self, n: u64, last: u64) -> f64 {
        let odds = (self.sets - 1) as f64;
        let mut term = self.ln_pmf(n, last).exp();
        let (mut sum, mut k) = (0.0, last);
        while term > sum * f64::EPSILON * 0.1 {
            sum += term;
            if k == 0 {
                break;
            }
            term *= k as f64 / (n - k + 1) as f64 * odds;
            k -= 1;
        }
        sum
    }

    /// Logarithm of `P(Binomial(n, 1/sets) = k)`, for two sets and more.
    fn ln_pmf(&self, n: u64, k: u64) -> f64 {
        if k > n {
            return f64::NEG_INFINITY;
        }
        let odds = 1.0 / (self.sets - 1) as f64;
        let (mut logarithm, mut product) = (n as f64 * (-1.0 / self.sets as f64).ln_1p(), 1.0_f64);
        for i in 0..k {
            product *= (n - i) as f64 / (i + 1) as f64 * odds;
            if !(1e-200..1e200).contains(&product) {
                logarithm += product.ln();
                product = 1.0;
            }
        }
        logarithm + product.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tail by the recurrence over trials, which never leaves the interval [0, 1]: slow, plain, and accurate.
    fn by_recurrence(sets: u64, ways: u64, last: usize) -> Vec<f64> {
        let p = 1.0 / sets as f64;
        let mut exactly = vec![0.0; usize::try_from(ways).unwrap()];
        exactly[0] = 1.0;
        let (mut tail, mut tails) = (0.0, Vec::new());
        for _ in 0..=last {
            tails.push(tail);
            tail += exactly[exactly.len() - 1] * p;
            for k in (0..exactly.len()).rev() {
                exactly[k] = exactly[k] * (1.0 - p) + if k > 0 { exactly[k - 1] * p } else { 0.0 };
            }
        }
        tails
    }

    #[test]
    fn tails_agree_with_the_recurrence() {
        for (sets, ways) in [(2, 1), (2, 8), (3, 5), (7, 2), (60, 8), (1000, 3), (11, 200)] {
            let binomial = Binomial::new(sets, ways);
            for (n, &expected) in by_recurrence(sets, ways, 9000).iter().enumerate() {
                let got = binomial.tail(n as u64);
                assert!((got - expected).abs() < 1e-11, "S={sets} w={ways} n={n}: {got} {expected}");
            }
        }
    }

    #[test]
    fn bins_are_the_mean_of_their_distances() {
        for (sets, ways) in [(1, 700), (2, 300), (37, 16), (1000, 3)] {
            let mut hashed = Hashed::new(sets, ways, 0.0);
            let tails = by_recurrence(sets, ways, 9000);
            for (lo, hi) in [(512, 514), (513, 514), (600, 602), (1024, 1028), (4096, 4112), (8000, 8032)] {
                let slice = &tails[usize::try_from(lo).unwrap()..usize::try_from(hi).unwrap()];
                let expected = slice.iter().sum::<f64>() / slice.len() as f64;
                let got = hashed.miss(&Bin { lo, hi, count: 1 });
                assert!((got - expected).abs() < 1e-9, "S={sets} w={ways} {lo}..{hi}: {got} {expected}");
            }
        }
    }

    #[test]
    fn large_caches_stay_precise() {
        // Distance 10^9 of 5e7 sets of 20 ways: the binomial is Poisson(20) to 1e-7, whose tail from 20 is 0.529743.
        let mut hashed = Hashed::new(50_000_000, 20, 0.0);
        let single = hashed.miss(&Bin { lo: 1_000_000_000, hi: 1_000_000_001, count: 1 });
        assert!((single - 0.529_742_7).abs() < 1e-6, "{single}");
        let bin = hashed.miss(&Bin { lo: 999_000_000, hi: 1_001_000_000, count: 1 });
        assert!((bin - single).abs() < 1e-4, "{bin}");
    }

    #[test]
    fn half_a_way_is_half_of_the_sets() {
        let bin = Bin { lo: 300, hi: 301, count: 1 };
        let (eight, nine) = (Hashed::new(40, 8, 0.0).miss(&bin), Hashed::new(40, 9, 0.0).miss(&bin));
        assert!((Hashed::new(40, 8, 0.5).miss(&bin) - (eight + nine) / 2.0).abs() < 1e-12);
        assert!(nine < eight);
    }
}

//! Answers from sampled profiles: what the followed lines say about all, and how sure that is.
//!
//! Every group of the sample (`bf_profile::SampledLines`) is asked by the same rules as a profile of everything. A count
//! of the whole is estimated as the mean of what each group by itself says, its own count times the inverse of the part
//! of the lines it has; the spread between the groups gives the interval (`docs/sampling.md`).

use crate::{
    error::{QueryError, Unsampled},
    spec::Shape,
    stack::{Counts, Figure, Level, Rule},
};
use bf_profile::{Bin, FullHistograms, Histograms, LineData, Owner, SampledLines, Sampling};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Of the lines that a cache of one set holds, or one whose index is hashed, at least this many must be in each group:
/// a distance in a group is known to the square root of it.
const LEAST_LINES: u64 = 32;
/// Part of the intervals that hold the figure they are about.
const CONFIDENCE: f64 = 0.95;
/// That part of a normal distribution is within so many standard deviations of its middle.
const QUANTILE: f64 = 1.959_964;
/// With 95 % confidence no more than this many events went unseen by chance where none was seen.
const UNSEEN: u64 = 3;

/// What the groups of a sample counted, of one cache or the sum of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// One line in `2^rate_bits` was followed.
    pub rate_bits: u32,
    /// One line in `2^scale_bits` is in each group.
    pub scale_bits: u32,
    /// Whether sets were followed, and not lines by themselves.
    pub of_sets: bool,
    /// Counts of each group, of what it followed; two or more.
    pub groups: Vec<Counts>,
    /// The same with every distance shorter, and longer, by as much as it may be wrong (see [`Doubt`]). Equal to `groups` where
    /// sets were followed.
    pub ends: [Vec<Counts>; 2],
}

impl Sample {
    /// Adds the counts of another cache, group by group: the groups are the same lines.
    pub(crate) fn add(&mut self, other: &Self) {
        let add = |sums: &mut Vec<Counts>, all: &[Counts]| {
            sums.truncate(all.len());
            sums.iter_mut().zip(all).for_each(|(sum, counts)| *sum += counts);
        };
        add(&mut self.groups, &other.groups);
        self.ends.iter_mut().zip(&other.ends).for_each(|(sums, all)| add(sums, all));
    }

    /// What the groups say about the whole.
    fn estimate(&self, figure: impl Fn(&Counts) -> u64) -> u64 {
        let sum: u128 = self.groups.iter().map(|counts| u128::from(figure(counts))).sum();
        u64::try_from((sum << self.scale_bits) / self.groups.len() as u128).unwrap_or(u64::MAX)
    }

    /// Where a figure lies; it is known to be at most `most`.
    fn interval(&self, most: u64, figure: impl Fn(&Counts) -> u64) -> Interval {
        let (count, scale) = (self.groups.len() as f64, (1_u64 << self.scale_bits) as f64);
        let says = |groups: &[Counts]| groups.iter().map(|counts| figure(counts) as f64 * scale).collect::<Vec<_>>();
        let mean = |groups: &[Counts]| says(groups).iter().sum::<f64>() / count;
        let middle = mean(&self.groups);
        let variance = says(&self.groups).iter().map(|says| (says - middle).powi(2)).sum::<f64>() / (count - 1.0);
        // What was followed is no longer uncertain; of distances between random lines everything is.
        let unseen = if self.of_sets { 1.0 - 0.5_f64.powi(self.rate_bits as i32) } else { 1.0 };
        // Groups that agree agree to whole counts only.
        let resolution = if unseen > 0.0 { scale / 2.0 } else { 0.0 };
        let half = student(count - 1.0) * (variance / count * unseen).sqrt() + resolution;
        let seen: u64 = self.groups.iter().map(&figure).sum();
        let least = if self.of_sets { seen } else { 0 };
        let none = if seen == 0 && unseen > 0.0 { UNSEEN << self.rate_bits } else { 0 };
        // Longer distances make more misses and fewer lines that stay.
        let [one, other] = self.ends.each_ref().map(|groups| mean(groups));
        Interval {
            low: ((middle.min(one).min(other) - half).max(0.0).round() as u64).max(least).min(most),
            high: ((middle.max(one).max(other) + half).round() as u64).max(none).min(most),
        }
    }
}

/// The quantile of Student's t that bounds the middle [`CONFIDENCE`] of it.
fn student(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)))
}

/// Ends of a confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: u64,
    /// Upper end.
    pub high: u64,
}

/// The same of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How sure the figures of a level are that come from a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// Part of the lines that were followed.
    pub rate: f64,
    /// Groups they were divided into.
    pub groups: usize,
    /// Part of such intervals that hold the true figure.
    pub confidence: f64,
    /// Of `misses`.
    pub misses: Interval,
    /// Of `load_misses`.
    pub load_misses: Interval,
    /// Of `store_misses`.
    pub store_misses: Interval,
    /// Of `cold`.
    pub cold: Interval,
    /// Of `writebacks`.
    pub writebacks: Interval,
    /// Of `resident_dirty`.
    pub resident_dirty: Interval,
    /// Of `global_miss_ratio`.
    pub global_miss_ratio: Option<Ratios>,
}

impl Sampled {
    /// Of the counts of a level, if they are of a sample; `all` references reach the first one. How many reach this one is itself
    /// uncertain, and bounds no interval. Each holds the figure that is said.
    #[must_use]
    pub fn new(counts: &Counts, all: u64) -> Option<Self> {
        let sample = counts.sample.as_ref()?;
        let [loads, stores] = counts.references.map(|count| count.min(all));
        let of = |most: u64, figure: fn(&Counts) -> u64| {
            let (Interval { low, high }, said) = (sample.interval(most, figure), figure(counts));
            Interval { low: low.min(said), high: high.max(said) }
        };
        let misses = of(all, |counts| counts.total().value);
        let ratio = |count: u64| count as f64 / all as f64;
        Some(Self {
            rate: 0.5_f64.powi(sample.rate_bits as i32),
            groups: sample.groups.len(),
            confidence: CONFIDENCE,
            misses,
            load_misses: of(loads, |counts| counts.misses[0].value),
            store_misses: of(stores, |counts| counts.misses[1].value),
            cold: of(all, |counts| counts.cold),
            writebacks: of(stores, |counts| counts.writebacks.value),
            resident_dirty: of(stores, |counts| counts.resident_dirty),
            global_miss_ratio: (all > 0).then(|| Ratios { low: ratio(misses.low), high: ratio(misses.high) }),
        })
    }
}

/// One cache, made ready to be asked about the groups of a sample.
#[derive(Debug)]
pub(crate) struct SampledLevel<'a> {
    data: &'a SampledLines,
    groups: &'a [LineData],
    of_sets: bool,
    level: Level,
}

impl<'a> SampledLevel<'a> {
    /// As [`Level::new`].
    ///
    /// # Errors
    /// The same, or the sample does not tell enough about this shape.
    pub(crate) fn new(shape: &Shape, capacity_lines: u64, data: &'a SampledLines) -> Result<Self, QueryError> {
        let &SampledLines { line_bytes, max_set_bits, max_ways, sampling, .. } = data;
        let whole = LineData { line_bytes, max_set_bits, max_ways, stacks: Vec::new() };
        let rule = Level::new(shape, capacity_lines, &whole)?.rule;
        let refused = |why| QueryError::Sampled { name: shape.name.clone(), rate_bits: sampling.rate_bits, why };
        let rule = match rule {
            Rule::Bounded { .. } => return Err(refused(Unsampled::ManySets { sets: shape.sets, most: max_set_bits })),
            Rule::Sets { bits, ways } if bits >= sampling.set_bits => {
                Rule::Sets { bits: bits - sampling.scale_bits(), ways }
            }
            Rule::Sets { .. } => {
                return Err(refused(Unsampled::FewSets { sets: shape.sets, least: sampling.set_bits }));
            }
            rule @ (Rule::Full(_) | Rule::Hashed(_)) => {
                let lines = capacity_lines >> sampling.scale_bits();
                if lines < LEAST_LINES {
                    return Err(refused(Unsampled::FewLines { all: capacity_lines, lines, least: LEAST_LINES }));
                }
                rule
            }
        };
        let of_sets = matches!(rule, Rule::Sets { .. });
        let groups = if of_sets { &data.sets } else { &data.full };
        if groups.len() < 2 {
            return Err(refused(Unsampled::Lost));
        }
        Ok(Self { data, groups, of_sets, level: Level { rule } })
    }

    /// What the cache does with the references of `owner` under the tags that `wanted` says.
    pub(crate) fn count(&mut self, owner: Owner, wanted: impl Fn(u32) -> bool) -> Counts {
        let Sampling { rate_bits, .. } = self.data.sampling;
        let scale_bits = self.data.sampling.scale_bits();
        let groups = self.groups(Doubt::None, owner, &wanted);
        let ends = match self.of_sets {
            true => [groups.clone(), groups.clone()],
            false => [Doubt::Shorter, Doubt::Longer].map(|doubt| self.groups(doubt, owner, &wanted)),
        };
        let mut references = [0; 2];
        for own in self.data.references.iter().filter(|own| own.owner == owner && wanted(own.tag)) {
            references.iter_mut().zip(own.count).for_each(|(sum, count)| *sum += count);
        }
        estimate(references, Sample { rate_bits, scale_bits, of_sets: self.of_sets, groups, ends })
    }

    /// What each group counted; distances between lines at random are what they are in doubt.
    fn groups(&mut self, doubt: Doubt, owner: Owner, wanted: impl Fn(u32) -> bool) -> Vec<Counts> {
        let scale_bits = self.data.sampling.scale_bits();
        let hashed = matches!(self.level.rule, Rule::Hashed(_));
        let mut groups = Vec::new();
        for group in self.groups {
            let mut sum = Counts::none();
            for stack in group.stacks.iter().filter(|stack| stack.owner == owner && wanted(stack.tag)) {
                sum += &match self.of_sets {
                    true => self.level.count(&stack.histograms),
                    false => self.level.count(&stretched(&stack.histograms, scale_bits, doubt, hashed)),
                };
            }
            groups.push(sum);
        }
        groups
    }
}

/// The counts of the whole. Nothing is said to miss more often than it was referenced. All misses are one figure, which lies in
/// its interval: what that leaves of the loads is the stores'.
fn estimate(references: [u64; 2], sample: Sample) -> Counts {
    let [loads, stores] = references;
    let of_kind = |kind: usize| sample.estimate(|counts| counts.misses[kind].value);
    let within = sample.interval(loads + stores, |counts| counts.total().value);
    let all = (of_kind(0).min(loads) + of_kind(1).min(stores)).max(within.low).min(within.high);
    let of_loads = of_kind(0);
    let of_loads = of_loads.clamp(all.saturating_sub(stores), loads.min(all));
    let misses = [of_loads, all - of_loads];
    let cold = sample.estimate(|counts| counts.cold).min(all);
    let split = |figure: fn(&Counts) -> Option<u64>| {
        let known = sample.groups.iter().all(|counts| figure(counts).is_some());
        known.then(|| sample.estimate(|counts| figure(counts).unwrap_or(0)))
    };
    // Each line that is or was dirty took a store.
    let writebacks = sample.estimate(|counts| counts.writebacks.value).min(stores);
    // Where a stretched distance lies within its own width is no more uncertain than the distance itself.
    let hashed = sample.groups.iter().map(|counts| counts.model).max();
    Counts {
        model: hashed.filter(|&model| model == crate::stack::Model::Hashed).unwrap_or_default(),
        references,
        misses: misses.map(Figure::exactly),
        cold,
        capacity: split(|counts| counts.capacity).map(|capacity| capacity.min(all - cold)),
        hits_beyond_full: split(|counts| counts.hits_beyond_full),
        writebacks: Figure::exactly(writebacks),
        resident_dirty: sample.estimate(|counts| counts.resident_dirty).min(stores - writebacks),
        lost: 0,
        sharing: None,
        sample: Some(sample),
    }
}

/// How a distance between followed lines is taken.
#[derive(Clone, Copy)]
enum Doubt {
    /// As it is.
    None,
    /// As short as it may be.
    Shorter,
    /// As long as it may be.
    Longer,
}

impl Doubt {
    /// Between two lines that are followed nothing is known. Besides, where lines come at random, how many of those that were met
    /// are followed is Poisson distributed: all groups have that doubt alike, so their spread does not show it. Where sets are
    /// hashed, what they hold varies more than that.
    fn lines(self, distance: u64, hashed: bool) -> f64 {
        let lines = 0.5 + if hashed { 0.0 } else { QUANTILE * (distance as f64).sqrt() };
        match self {
            Self::None => 0.0,
            Self::Shorter => -lines,
            Self::Longer => lines,
        }
    }
}

/// The histograms of one set with every distance `2^bits` times as long: a cache of w lines holds w / `2^bits` of those that were
/// followed. A distance d becomes all those from there up to that of d + 1, equally frequent.
fn stretched(histograms: &Histograms, bits: u32, doubt: Doubt, hashed: bool) -> Histograms {
    let stretch = |bins: &[Bin]| {
        let scale = (1_u64 << bits) as f64;
        let more = |edge: u64| (doubt.lines(edge, hashed) * scale) as i64;
        let times = |edge: u64| edge.saturating_mul(1 << bits).saturating_add_signed(more(edge));
        bins.iter().map(|bin| Bin { lo: times(bin.lo), hi: times(bin.hi), count: bin.count }).collect()
    };
    let FullHistograms { loads, stores, writebacks, resident } = &histograms.full;
    let full = FullHistograms {
        loads: stretch(loads),
        stores: stretch(stores),
        writebacks: stretch(writebacks),
        resident: stretch(resident),
    };
    Histograms { references: histograms.references, cold: histograms.cold, full, sets: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups that saw 10 and 14 misses, each of one line in 32.
    fn sample(of_sets: bool) -> Sample {
        let saw = |misses| Counts { misses: [Figure::exactly(misses), Figure::default()], ..Counts::none() };
        let groups = vec![saw(10), saw(14)];
        Sample { rate_bits: 4, scale_bits: 5, of_sets, ends: [groups.clone(), groups.clone()], groups }
    }

    fn misses(counts: &Counts) -> u64 {
        counts.total().value
    }

    #[test]
    fn intervals_by_hand() {
        // They say 320 and 448: mean 384, deviation 64 sqrt(2), error of the mean 64. Student's t of one degree of
        // freedom is 12.7062, and half a count of each group is 16.
        assert_eq!(sample(false).estimate(misses), 384);
        assert_eq!(sample(false).interval(9999, misses), Interval { low: 0, high: 384 + 813 + 16 });
        // One set in 16 was followed, and had these 24 misses.
        let high = 384.0 + 12.7062 * 64.0 * (15.0_f64 / 16.0).sqrt() + 16.0;
        assert_eq!(sample(true).interval(9999, misses), Interval { low: 24, high: high.round() as u64 });
        assert_eq!(sample(true).interval(1000, misses).high, 1000);
        assert_eq!(sample(true).interval(9999, |_| 0), Interval { low: 0, high: 48 });
    }

    #[test]
    fn doubt_about_distances_widens() {
        let mut doubtful = sample(false);
        doubtful.ends[1][0].misses[0] = Figure::exactly(20);
        assert_eq!(doubtful.interval(9999, misses).high, 384 + 813 + 16 + 160);
    }

    #[test]
    fn students_t() {
        assert!((student(7.0) - 2.364_624).abs() < 1e-5);
        assert!((student(1.0) - 12.706_205).abs() < 1e-5);
        let normal = statrs::distribution::Normal::standard();
        assert!((normal.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)) - QUANTILE).abs() < 1e-6);
    }

    #[test]
    fn distances_are_stretched_to_bins_that_meet() {
        let loads = vec![Bin { lo: 0, hi: 1, count: 3 }, Bin { lo: 400, hi: 441, count: 5 }];
        let full = FullHistograms { loads, ..FullHistograms::default() };
        let histograms = Histograms { full, ..Histograms::default() };
        let ends = |doubt, hashed| {
            let bins = stretched(&histograms, 4, doubt, hashed).full.loads;
            bins.iter().map(|bin| (bin.lo, bin.hi)).collect::<Vec<_>>()
        };
        assert_eq!(ends(Doubt::None, false), [(0, 16), (6400, 7056)]);
        // Half a line, and 1.96 times the square roots of 1, 400 and 441.
        assert_eq!(ends(Doubt::Longer, true), [(8, 16 + 8), (6400 + 8, 7056 + 8)]);
        assert_eq!(ends(Doubt::Longer, false), [(8, 16 + 39), (6400 + 635, 7056 + 666)]);
        assert_eq!(ends(Doubt::Shorter, false), [(0, 0), (6400 - 635, 7056 - 666)]);
    }
}

//! What one cache does with the references of one stack: sections 2 to 4 of the model, from histograms to counts.

use crate::{error::QueryError, hashed::Hashed, sampled::Sample, sharing::Sharing, spec::Shape};
use bf_profile::{Bin, Histograms, LineData, SetHistograms};
use std::ops::{Add, AddAssign};

/// By which rule an answer was found. Later variants know less; a sum takes the later one of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Exact sum over a histogram of LRU distances.
    #[default]
    Lru,
    /// Fully associative, at a size inside a bin of the histogram.
    Interpolated,
    /// More sets than the profile holds histograms for.
    Bounded,
    /// Lines land in sets as if at random.
    Hashed,
    /// One cache of several threads, composed of what each does by itself.
    Composed,
}

impl Model {
    /// The word in the answer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Interpolated => "interpolated",
            Self::Bounded => "bounded",
            Self::Hashed => "hashed",
            Self::Composed => "composed",
        }
    }
}

/// A count with the interval it is known to lie in. `lo == hi` unless the model is interpolated or bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// Best answer.
    pub value: u64,
    /// It is at least this.
    pub lo: u64,
    /// It is at most this.
    pub hi: u64,
}

impl Figure {
    /// A count without doubt, or one whose doubt has no bounds.
    #[must_use]
    pub const fn exactly(value: u64) -> Self {
        Self { value, lo: value, hi: value }
    }

    /// Cut down.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        Self { value: self.value.min(most), lo: self.lo.min(most), hi: self.hi.min(most) }
    }
}

impl Add for Figure {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, lo: self.lo + other.lo, hi: self.hi + other.hi }
    }
}

impl AddAssign for Figure {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What one cache did with one stream of references, or the sum of several such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By which rule.
    pub model: Model,
    /// All references of the stream, by loads and by stores.
    pub references: [u64; 2],
    /// Misses, by loads and by stores.
    pub misses: [Figure; 2],
    /// Misses of lines never referenced before.
    pub cold: u64,
    /// Misses that a fully associative cache of the same size would have too; `None` where the model has no such split.
    pub capacity: Option<u64>,
    /// Hits that a fully associative cache of the same size would not have; `None` where the model has no such split.
    pub hits_beyond_full: Option<u64>,
    /// Dirty lines written back before the end.
    pub writebacks: Figure,
    /// Dirty lines still resident at the end.
    pub resident_dirty: u64,
    /// References that found their line invalidated; all of them are misses.
    pub lost: u64,
    /// What other private caches had to do with it; `None` where the profile does not tell.
    pub sharing: Option<Sharing>,
    /// What these counts were estimated from; `None`: nothing was estimated.
    pub sample: Option<Sample>,
}

impl Counts {
    /// The counts of a stream without references: the neutral element of the sum.
    #[must_use]
    pub fn none() -> Self {
        Self { capacity: Some(0), hits_beyond_full: Some(0), sharing: Some(Sharing::default()), ..Self::default() }
    }

    /// Misses by loads and stores together.
    #[must_use]
    pub fn total(&self) -> Figure {
        self.misses[0] + self.misses[1]
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.model = self.model.max(other.model);
        for kind in 0..2 {
            self.references[kind] += other.references[kind];
            self.misses[kind] += other.misses[kind];
        }
        self.cold += other.cold;
        self.capacity = self.capacity.zip(other.capacity).map(|(a, b)| a + b);
        self.hits_beyond_full = self.hits_beyond_full.zip(other.hits_beyond_full).map(|(a, b)| a + b);
        self.lost += other.lost;
        self.sharing = self.sharing.zip(other.sharing).map(|(mut sum, sharing)| {
            sum += &sharing;
            sum
        });
        self.writebacks += other.writebacks;
        self.resident_dirty += other.resident_dirty;
        match (&mut self.sample, &other.sample) {
            (Some(sum), Some(sample)) => sum.add(sample),
            (none, sample) => none.clone_from(sample),
        }
    }
}

/// One cache, made ready to be asked about many stacks of one line size.
#[derive(Debug)]
pub struct Level {
    pub(crate) rule: Rule,
}

#[derive(Debug)]
pub(crate) enum Rule {
    /// One set of so many lines.
    Full(u64),
    /// `2^bits` sets.
    Sets { bits: u32, ways: u64 },
    /// More sets than there are histograms for; the greatest set count there is, and the formula.
    Bounded { bits: u32, ways: u64, lines: u64, formula: Hashed },
    /// Sets as if at random.
    Hashed(Hashed),
}

impl Level {
    /// The rule for a cache of `shape` in profiles kept as `data` is. `capacity_lines` is what an exclusive level and
    /// those above it hold together; for every other level the shape's own lines.
    ///
    /// # Errors
    /// More ways than the profile keeps distances for.
    pub fn new(shape: &Shape, capacity_lines: u64, data: &LineData) -> Result<Self, QueryError> {
        let (ways, rest) = (capacity_lines / shape.sets, capacity_lines % shape.sets);
        let hashed = || Hashed::new(shape.sets, ways, rest as f64 / shape.sets as f64);
        let rule = if shape.hashed || rest > 0 || !shape.sets.is_power_of_two() {
            Rule::Hashed(hashed())
        } else if shape.sets == 1 {
            Rule::Full(ways)
        } else if ways > u64::from(data.max_ways) {
            return Err(QueryError::MaxWays { name: shape.name.clone(), ways, max: data.max_ways });
        } else if shape.sets.ilog2() > data.max_set_bits {
            Rule::Bounded { bits: data.max_set_bits, ways, lines: capacity_lines, formula: hashed() }
        } else {
            Rule::Sets { bits: shape.sets.ilog2(), ways }
        };
        Ok(Self { rule })
    }

    /// What the cache does with the references in `histograms`; what other caches have to do with it is added by
    /// [`Level::share`].
    pub fn count(&mut self, histograms: &Histograms) -> Counts {
        match &mut self.rule {
            Rule::Full(ways) => full(histograms, *ways),
            Rule::Sets { bits, ways } => sets(histograms, *bits, *ways),
            Rule::Bounded { bits, ways, lines, formula } => bounded(histograms, (*bits, *ways), *lines, formula),
            Rule::Hashed(formula) => hashed(histograms, formula),
        }
    }
}

/// One set: the unbounded histograms.
fn full(histograms: &Histograms, ways: u64) -> Counts {
    let bins = &histograms.full;
    let reused = [from(&bins.loads, ways), from(&bins.stores, ways)];
    let ends = from(&bins.resident, ways);
    let writebacks = from(&bins.writebacks, ways) + ends;
    let doubt = [reused[0], reused[1], writebacks].iter().any(|figure| figure.lo != figure.hi);
    Counts {
        model: if doubt { Model::Interpolated } else { Model::Lru },
        references: histograms.references,
        misses: misses(histograms, reused),
        cold: cold(histograms),
        capacity: Some((reused[0] + reused[1]).value),
        hits_beyond_full: Some(0),
        writebacks,
        resident_dirty: count(&bins.resident) - ends.value,
        lost: lost(histograms),
        sharing: Some(Sharing::default()),
        sample: None,
    }
}

/// `2^bits` sets, `bits >= 1`, with at most `max_ways` ways.
fn sets(histograms: &Histograms, bits: u32, ways: u64) -> Counts {
    let empty = SetHistograms::default();
    let at = histograms.sets.get(bits as usize - 1).unwrap_or(&empty);
    let reused = [tail(&at.loads, ways), tail(&at.stores, ways)];
    let capacity = tail(&at.capacity, ways);
    let ends = tail(&at.resident, ways);
    // Of the references that miss in the fully associative cache of the same size, `capacity` miss here too.
    let full = known_misses_of_one_set(histograms, ways << bits);
    Counts {
        model: Model::Lru,
        references: histograms.references,
        misses: misses(histograms, reused.map(Figure::exactly)),
        cold: cold(histograms),
        capacity: Some(capacity),
        hits_beyond_full: Some(full.saturating_sub(capacity)),
        writebacks: Figure::exactly(tail(&at.writebacks, ways) + ends),
        resident_dirty: at.resident.iter().sum::<u64>() - ends,
        lost: lost(histograms),
        sharing: Some(Sharing::default()),
        sample: None,
    }
}

/// More sets than histograms: distances never grow with the set count, so the misses of a cache of `lines` lie between
/// the cold ones and those of the `greatest` set count (bits, ways) there is, and likewise the write-backs.
fn bounded(histograms: &Histograms, greatest: (u32, u64), lines: u64, formula: &mut Hashed) -> Counts {
    let (bits, ways) = greatest;
    let most = if bits == 0 { full(histograms, ways) } else { sets(histograms, bits, ways) };
    let mut counts = hashed(histograms, formula);
    for kind in 0..2 {
        let (lo, hi) = (histograms.cold[kind] + histograms.lost()[kind], most.misses[kind].hi);
        counts.misses[kind] = Figure { value: counts.misses[kind].value.clamp(lo, hi), lo, hi };
    }
    let dirty = counts.writebacks.value + counts.resident_dirty;
    let hi = most.writebacks.hi;
    counts.writebacks = Figure { value: counts.writebacks.value.min(hi), lo: 0, hi };
    counts.resident_dirty = (dirty - counts.writebacks.value).min(count(&histograms.full.resident));
    counts.model = Model::Bounded;
    if counts.total().lo == counts.total().hi {
        // Every reference to a known line hits: no misses are left to split, and each hit that is none of the fully
        // associative cache is one beyond it.
        counts.model = Model::Lru;
        counts.capacity = Some(0);
        counts.hits_beyond_full = Some(known_misses_of_one_set(histograms, lines));
    }
    counts
}

/// As if at random, from the distances of one set.
fn hashed(histograms: &Histograms, formula: &mut Hashed) -> Counts {
    let bins = &histograms.full;
    let mut sum =
        |bins: &[Bin]| bins.iter().map(|bin| bin.count as f64 * formula.miss(bin)).sum::<f64>().round() as u64;
    let reused = [sum(&bins.loads), sum(&bins.stores)];
    let ends = sum(&bins.resident);
    Counts {
        model: Model::Hashed,
        references: histograms.references,
        misses: misses(histograms, reused.map(Figure::exactly)),
        cold: cold(histograms),
        capacity: None,
        hits_beyond_full: None,
        writebacks: Figure::exactly(sum(&bins.writebacks) + ends),
        resident_dirty: count(&bins.resident) - ends,
        lost: lost(histograms),
        sharing: Some(Sharing::default()),
        sample: None,
    }
}

/// Misses, without the cold ones, of a fully associative cache of so many lines.
fn known_misses_of_one_set(histograms: &Histograms, lines: u64) -> u64 {
    from(&histograms.full.loads, lines).value + from(&histograms.full.stores, lines).value
}

fn lost(histograms: &Histograms) -> u64 {
    histograms.lost().iter().sum()
}

fn cold(histograms: &Histograms) -> u64 {
    histograms.cold[0] + histograms.cold[1]
}

/// Cold misses, those of lines that were invalidated, and those of others referenced before.
fn misses(histograms: &Histograms, reused: [Figure; 2]) -> [Figure; 2] {
    let lost = histograms.lost();
    [0, 1].map(|kind| Figure::exactly(histograms.cold[kind] + lost[kind]) + reused[kind])
}

fn count(bins: &[Bin]) -> u64 {
    bins.iter().map(|bin| bin.count).sum()
}

/// Values from `least` on; those of a bin that holds values on both sides are shared out evenly.
pub(crate) fn from(bins: &[Bin], least: u64) -> Figure {
    let mut figure = Figure::default();
    for bin in bins.iter().rev().take_while(|bin| bin.hi > least) {
        figure += if bin.lo >= least {
            Figure::exactly(bin.count)
        } else {
            let share = u128::from(bin.count) * u128::from(bin.hi - least) / u128::from(bin.hi - bin.lo);
            Figure { value: u64::try_from(share).unwrap_or(bin.count), lo: 0, hi: bin.count }
        };
    }
    figure
}

/// Sum of the counts from index `least` on.
pub(crate) fn tail(counts: &[u64], least: u64) -> u64 {
    counts.iter().skip(usize::try_from(least).unwrap_or(usize::MAX)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Cache;
    use bf_profile::FullHistograms;

    fn bins(values: &[(u64, u64, u64)]) -> Vec<Bin> {
        values.iter().map(|&(lo, hi, count)| Bin { lo, hi, count }).collect()
    }

    /// 100 loads and 40 stores, on up to four sets of up to four ways.
    fn example() -> (Histograms, LineData) {
        let full = FullHistograms {
            loads: bins(&[(0, 1, 50), (6, 7, 20), (1024, 1028, 10)]),
            stores: bins(&[(2, 3, 30)]),
            writebacks: bins(&[(3, 4, 5), (9, 10, 7)]),
            resident: bins(&[(0, 1, 4), (20, 21, 6)]),
        };
        let two = SetHistograms {
            loads: vec![50, 0, 5, 15, 10],
            stores: vec![0, 30],
            capacity: vec![50, 30, 5, 15, 10],
            writebacks: vec![0, 5, 7],
            resident: vec![4, 0, 6],
        };
        let four = SetHistograms {
            loads: vec![60, 10, 0, 0, 10],
            stores: vec![30],
            capacity: vec![90, 10, 0, 0, 10],
            writebacks: vec![0, 12],
            resident: vec![4, 6],
        };
        let histograms = Histograms { references: [100, 40], cold: [20, 10], full, sets: vec![two, four] };
        (histograms, LineData { line_bytes: 64, max_set_bits: 2, max_ways: 4, stacks: vec![] })
    }

    fn ask(spec: &str) -> Counts {
        let (histograms, data) = example();
        let shape = spec.parse::<Cache>().unwrap().shape(&[64]).unwrap();
        Level::new(&shape, shape.size / 64, &data).unwrap().count(&histograms)
    }

    #[test]
    fn two_sets_are_suffix_sums() {
        let counts = ask("A=256:2");
        assert_eq!(counts.misses.map(|figure| figure.value), [20 + 30, 10]);
        assert_eq!((counts.cold, counts.capacity), (30, Some(30)));
        // Fully associative, 4 lines: 20 + 10 misses of known lines, all of them misses here too.
        assert_eq!(counts.hits_beyond_full, Some(0));
        assert_eq!((counts.writebacks.value, counts.resident_dirty), (7 + 6, 4));
        assert_eq!(counts.model, Model::Lru);
    }

    #[test]
    fn hits_beyond_the_fully_associative_cache_are_apart() {
        // Of the 30 loads that 4 lines of one set would miss, ten hit in four sets of one line.
        let counts = ask("A=256:1");
        assert_eq!(counts.misses.map(|figure| figure.value), [20 + 20, 10]);
        assert_eq!((counts.capacity, counts.hits_beyond_full), (Some(20), Some(10)));
        let counts = ask("A=512:2");
        assert_eq!(counts.misses.map(|figure| figure.value), [20 + 10, 10]);
        assert_eq!((counts.capacity, counts.hits_beyond_full), (Some(10), Some(0)));
    }

    #[test]
    fn inside_a_bin_the_answer_has_bounds() {
        let counts = ask("A=65792:full");
        assert_eq!(counts.references, [100, 40]);
        let load = |lines: u64| ask(&format!("A={}:full", lines * 64)).misses[0];
        assert_eq!(load(1024), Figure::exactly(30));
        assert_eq!(load(1028), Figure::exactly(20));
        assert_eq!(load(1025), Figure { value: 27, lo: 20, hi: 30 });
        assert_eq!(ask("A=65600:full").model, Model::Interpolated);
        assert_eq!(ask("A=65536:full").model, Model::Lru);
    }

    #[test]
    fn more_sets_than_kept_are_bounded_and_exact_where_the_bounds_agree() {
        let counts = ask("A=2K:4");
        assert_eq!((counts.model, counts.misses[0].lo, counts.misses[0].hi), (Model::Bounded, 20, 30));
        assert!(counts.misses[0].value >= 20 && counts.misses[0].value <= 30);
        assert_eq!(counts.misses[1], Figure::exactly(10));
        let (mut histograms, data) = example();
        histograms.sets[1].loads = vec![80];
        let shape = "A=2K:4".parse::<Cache>().unwrap().shape(&[64]).unwrap();
        let counts = Level::new(&shape, 32, &data).unwrap().count(&histograms);
        assert_eq!((counts.model, counts.total()), (Model::Lru, Figure::exactly(30)));
    }

    #[test]
    fn too_many_ways_name_the_option() {
        let shape = "A=1K:8".parse::<Cache>().unwrap().shape(&[64]).unwrap();
        let error = Level::new(&shape, 16, &example().1).unwrap_err().to_string();
        assert!(error.contains("BF_MAX_WAYS=8") && error.contains("-bf-max-ways"), "{error}");
        // With one set, or a hashed index, no such bound applies.
        assert_eq!(ask("A=512:8").misses[0].value, 20 + 10);
        assert_eq!(ask("A=1K:8:hashed").model, Model::Hashed);
    }

    #[test]
    fn one_hashed_set_is_fully_associative() {
        let (plain, hashed) = (ask("A=512:full"), ask("A=512:full:hashed"));
        assert_eq!(hashed.misses, plain.misses);
        assert_eq!(hashed.writebacks, plain.writebacks);
        assert_eq!(hashed.capacity, None);
    }

    #[test]
    fn three_sets_follow_the_binomial() {
        // Distances 0, 6 and 1024.. in 3 sets of 2: P(Bin(6, 1/3) >= 2) = 1 - 64/729 - 6 * 32/729.
        let counts = ask("A=384:2");
        let six = 1.0 - 64.0 / 729.0 - 192.0 / 729.0;
        let two = 1.0 / 9.0;
        assert_eq!(counts.misses[0].value, 20 + (20.0 * six + 10.0_f64).round() as u64);
        assert_eq!(counts.misses[1].value, 10 + (30.0_f64 * two).round() as u64);
    }
}

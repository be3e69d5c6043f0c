//! Sampling: which lines a sampled run follows, and the stacks that follow them. `docs/sampling.md` has the statistics.
//!
//! Two samples are taken side by side. Of the residues of line numbers modulo `2^set_bits` some are followed, so that of
//! every cache with at least that many sets some sets are seen whole, and what happens in those is exact. And of all
//! lines some are followed, chosen by a hash of the line, which gives the distances with one set (SHARDS: Waldspurger
//! et al., FAST '15). Each sample is divided into groups with an engine of their own, which never share a line.

use crate::convert;
use bf_profile::{LineData, Owner, References, SampledLines, Sampling, StackData};
use bf_stack::{Bucket, Chunk, Counted, Engine, Limits, Part, Reference, Stack};

/// Eight groups: enough for a standard error, and few enough that each has lines to speak of.
const GROUP_BITS: u32 = 3;
/// At least 64 sets are followed of every cache that can be asked about.
const LEAST_SETS_BITS: u32 = 6;

/// Follow one line in so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    rate_bits: u32,
}

impl Sample {
    /// The least rate is 1 / 2^20.
    const MOST_RATE_BITS: u32 = 20;

    /// One line in `2^rate_bits`; `None` beyond 2^20.
    #[must_use]
    pub const fn one_in(rate_bits: u32) -> Option<Self> {
        if rate_bits <= Self::MOST_RATE_BITS { Some(Self { rate_bits }) } else { None }
    }

    /// The rate that a user writes: a number above 0 and up to 1, or `1/N`. It becomes the next power of two that is no
    /// smaller. `None` is rate 1, with which nothing needs to be estimated.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence without an end.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        let rate: Option<f64> = match text.split_once('/') {
            Some((one, parts)) if one.trim() == "1" => parts.trim().parse().ok().map(|parts: f64| 1.0 / parts),
            Some(_) => None,
            None => text.parse().ok(),
        };
        let rate = rate.ok_or_else(|| format!("{text:?} is no sampling rate; write 0.01 or 1/64, or 1 for all"))?;
        let least = 0.5_f64.powi(Self::MOST_RATE_BITS as i32);
        if !(least..=1.0).contains(&rate) {
            return Err(format!("a sampling rate of {text} is not in 1/{}..=1", 1 << Self::MOST_RATE_BITS));
        }
        let rate_bits = (1.0 / rate) as u32;
        let rate_bits = rate_bits.ilog2();
        Ok((rate_bits > 0).then_some(Self { rate_bits }))
    }

    /// As the profile says it.
    #[must_use]
    pub const fn sampling(self) -> Sampling {
        Sampling { rate_bits: self.rate_bits, set_bits: self.rate_bits + LEAST_SETS_BITS, group_bits: GROUP_BITS }
    }

    /// Line data without counts.
    pub(crate) fn empty(self, line_bytes: u32, limits: Limits) -> SampledLines {
        let Limits { max_set_bits, max_ways } = limits;
        let (sampling, groups) = (self.sampling(), 1 << GROUP_BITS);
        let group = |limits: Limits| {
            let Limits { max_set_bits, max_ways } = limits;
            vec![LineData { line_bytes, max_set_bits, max_ways, stacks: Vec::new() }; groups]
        };
        let sets = group_limits(sampling, limits).map_or_else(Vec::new, group);
        SampledLines { line_bytes, max_set_bits, max_ways, sampling, references: Vec::new(), sets, full: group(FULL) }
    }
}

/// What the engines of lines at random keep: one set.
const FULL: Limits = Limits { max_set_bits: 0, max_ways: 1 };

/// What the engines of whole sets keep; `None` if the limits are too low for any.
fn group_limits(sampling: Sampling, limits: Limits) -> Option<Limits> {
    sampling.group_set_bits(limits.max_set_bits).map(|max_set_bits| Limits { max_set_bits, ..limits })
}

/// Which lines are followed.
#[derive(Clone, Copy, Debug)]
struct Choice(Sampling);

impl Choice {
    /// The group of a line whose sets are followed, and the line's number there: that of its residue, below it what is
    /// left of the line's. So the lines of one set of the program are those of one set of the group.
    #[inline(always)]
    fn by_set(self, line: u64) -> Option<(usize, u64)> {
        let Sampling { rate_bits, set_bits, group_bits } = self.0;
        let place = shuffle(line & ((1 << set_bits) - 1), set_bits);
        if place >> (set_bits - rate_bits) != 0 {
            return None;
        }
        let (group, residue) = (place & ((1 << group_bits) - 1), place >> group_bits);
        Some((group as usize, (line >> set_bits) << (set_bits - rate_bits - group_bits) | residue))
    }

    /// The group of a line that is followed by itself, and the line's number there. Of each block of 2^scale_bits lines
    /// every group has one, which one a hash of the block decides; so lines that lie together have numbers that do.
    #[inline(always)]
    fn by_line(self, line: u64) -> Option<(usize, u64)> {
        let bits = self.0.scale_bits();
        let (block, mask) = (line >> bits, (1 << bits) - 1);
        let hash = mix(block);
        // For each hash another one-to-one map.
        let place = (line ^ hash).wrapping_mul(hash >> 32 | 1) & mask;
        let place = place ^ place >> bits.div_ceil(2);
        (place >> self.0.group_bits == 0).then_some((place as usize, block))
    }
}

/// A number below `2^bits` for another, each for exactly one: as many residues are followed as the rate says, and as
/// many in each group.
#[inline(always)]
fn shuffle(number: u64, bits: u32) -> u64 {
    let (mask, half) = ((1 << bits) - 1, bits.div_ceil(2));
    let mut x = number;
    for factor in [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        x = x.wrapping_mul(factor) & mask;
        x ^= x >> half;
    }
    x
}

/// The finaliser of `SplitMix64`, in which every bit of the number decides about every bit of the hash.
#[inline(always)]
pub(crate) fn mix(number: u64) -> u64 {
    let x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// An engine and what it is about to be fed.
#[derive(Clone, Debug)]
struct Group {
    engine: Stack,
    references: Vec<Reference>,
    parts: Vec<Part>,
    /// Number of the part that the last reference came from.
    part: usize,
}

impl Group {
    fn new(limits: Limits) -> Self {
        Self { engine: Stack::new(limits), references: Vec::new(), parts: Vec::new(), part: usize::MAX }
    }

    /// A reference of the `part`-th piece of a chunk, which occurs `times` times.
    #[inline]
    fn push(&mut self, line: u64, store: bool, part: usize, times: u32) {
        self.references.push(Reference::new(line, store));
        match self.parts.last_mut() {
            Some(last) if self.part == part => last.len += 1,
            _ => self.parts.push(Part { len: 1, times }),
        }
        self.part = part;
    }

    fn flush(&mut self, bucket: Bucket) {
        if !self.references.is_empty() {
            let Self { engine, references, parts, .. } = self;
            // Pieces that occur once each are what a chunk without pieces is.
            let parts = if parts.iter().all(|part| part.times == 1) { &[][..] } else { parts };
            engine.feed_chunk(Chunk { references, parts, ..Chunk::default() }, bucket);
            self.references.clear();
            self.parts.clear();
            self.part = usize::MAX;
        }
    }
}

/// What is kept in place of one engine where lines are sampled.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    choice: Choice,
    sets: Vec<Group>,
    full: Vec<Group>,
    /// All references, by bucket.
    references: Vec<[u64; 2]>,
}

impl Sampled {
    pub(crate) fn new(sample: Sample, limits: Limits) -> Self {
        let sampling = sample.sampling();
        let groups = |limits| vec![Group::new(limits); 1 << GROUP_BITS];
        Self {
            choice: Choice(sampling),
            sets: group_limits(sampling, limits).map_or_else(Vec::new, groups),
            full: groups(FULL),
            references: vec![[0; 2]; usize::from(Bucket::LAST.0) + 1],
        }
    }

    pub(crate) fn feed(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        let mut all = [0; 2];
        if chunk.parts.is_empty() {
            all = self.choose(chunk.references, 0, 1);
        } else {
            let mut rest = chunk.references;
            for (number, part) in chunk.parts.iter().enumerate() {
                let (piece, after) = rest.split_at(part.len as usize);
                let once = self.choose(piece, number, part.times);
                all.iter_mut().zip(once).for_each(|(all, once)| *all += once * u64::from(part.times));
                rest = after;
            }
        }
        self.sets.iter_mut().chain(&mut self.full).for_each(|group| group.flush(bucket));
        if bucket != Bucket::UNCOUNTED {
            self.references[usize::from(bucket.0)].iter_mut().zip(all).for_each(|(sum, all)| *sum += all);
        }
    }

    /// Hands the references of a piece that are followed to their groups. Returns how many loads and stores it has.
    #[inline]
    fn choose(&mut self, references: &[Reference], part: usize, times: u32) -> [u64; 2] {
        let (choice, by_sets) = (self.choice, !self.sets.is_empty());
        let mut stores = 0;
        for reference in references {
            let (line, store) = (reference.line(), reference.is_store());
            stores += u64::from(store);
            if by_sets && let Some((group, line)) = choice.by_set(line) {
                self.sets[group].push(line, store, part, times);
            }
            if let Some((group, line)) = choice.by_line(line) {
                self.full[group].push(line, store, part, times);
            }
        }
        [references.len() as u64 - stores, stores]
    }

    /// References that no engine could take.
    pub(crate) fn dropped(&self) -> u64 {
        self.sets.iter().chain(&self.full).map(|group| group.engine.dropped()).sum()
    }

    /// Adds its counts to those of the other owners.
    pub(crate) fn add_to(&self, owner: Owner, data: &mut SampledLines) {
        let counted =
            (0..=Bucket::LAST.0).zip(&self.references).filter(|(_, count)| count.iter().any(|&count| count > 0));
        data.references.extend(counted.map(|(bucket, &count)| References { owner, tag: tag(Bucket(bucket)), count }));
        for (groups, all) in [(&self.sets, &mut data.sets), (&self.full, &mut data.full)] {
            for (group, data) in groups.iter().zip(all) {
                data.stacks.extend(stacks(owner, group.engine.counted()));
            }
        }
    }
}

/// The tag that a counted bucket stands for.
pub(crate) fn tag(bucket: Bucket) -> u32 {
    u32::from(bucket.0) - 1
}

/// What an engine counted, as the profile has it.
pub(crate) fn stacks(owner: Owner, counted: Vec<Counted>) -> impl Iterator<Item = StackData> {
    counted.into_iter().map(move |counted| StackData {
        owner,
        tag: tag(counted.bucket),
        histograms: convert::histograms(counted.all),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::SetHistograms;
    use bf_stack::Plain;
    use proptest::prelude::*;

    /// Set counts up to 2^9, exact up to 6 ways.
    const LIMITS: Limits = Limits { max_set_bits: 9, max_ways: 6 };

    /// Line number and whether it is a store: clusters of lines, so that sets fill up.
    fn traces() -> impl Strategy<Value = Vec<Reference>> {
        let line = prop_oneof![0_u64..700, (0_u64..12, 0_u64..60).prop_map(|(page, line)| page << 12 | line)];
        prop::collection::vec((line, any::<bool>()), 0..3000)
            .prop_map(|all| all.into_iter().map(|(line, store)| Reference::new(line, store)).collect())
    }

    fn sampled(sample: Sample, chunk: Chunk<'_>) -> SampledLines {
        let mut stacks = Sampled::new(sample, LIMITS);
        stacks.feed(chunk, Bucket::FIRST);
        let mut data = sample.empty(64, LIMITS);
        stacks.add_to(Owner::Slot(0), &mut data);
        data.validate().unwrap();
        data
    }

    /// What the engine that is written as the model words it says of all references, of which only those that `choice`
    /// takes are counted.
    fn plain(references: &[Reference], limits: Limits, choice: impl Fn(u64) -> bool) -> bf_profile::Histograms {
        let mut plain = Plain::new(limits);
        for reference in references {
            let bucket = if choice(reference.line()) { Bucket::FIRST } else { Bucket::UNCOUNTED };
            plain.feed(&[*reference], bucket);
        }
        plain.histograms().pop().map_or_else(Default::default, |(_, histograms)| convert::histograms(histograms))
    }

    fn add(sum: &mut Vec<u64>, counts: &[u64]) {
        sum.resize(sum.len().max(counts.len()), 0);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    /// The counts of all groups, without those by `min(d_a, d_0 >> a)`: a group has another d_0.
    fn sum(groups: &[LineData], bits: u32) -> SetHistograms {
        let mut sum = SetHistograms::default();
        for stack in groups.iter().flat_map(|group| &group.stacks) {
            let sets = &stack.histograms.sets[bits as usize - 1];
            add(&mut sum.loads, &sets.loads);
            add(&mut sum.stores, &sets.stores);
            add(&mut sum.writebacks, &sets.writebacks);
            add(&mut sum.resident, &sets.resident);
        }
        sum
    }

    /// Without zeros at the end, which may be there or not.
    fn trimmed(sets: &SetHistograms) -> [Vec<u64>; 4] {
        [&sets.loads, &sets.stores, &sets.writebacks, &sets.resident].map(|counts| {
            let len = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
            counts[..len].to_vec()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The distances in the sets that are followed are those that the references have among all, for every set count
        /// that can be asked about. With rate 1 that is every reference.
        #[test]
        fn followed_sets_are_exact(references in traces(), rate_bits in 0_u32..4) {
            let sample = Sample::one_in(rate_bits).unwrap();
            let (sampling, choice) = (sample.sampling(), Choice(sample.sampling()));
            let data = sampled(sample, Chunk { references: &references, ..Chunk::default() });
            let plain = plain(&references, LIMITS, |line| choice.by_set(line).is_some());
            for bits in sampling.set_bits..=LIMITS.max_set_bits {
                let want = plain.sets.get(bits as usize - 1).cloned().unwrap_or_default();
                prop_assert_eq!(trimmed(&sum(&data.sets, bits - sampling.scale_bits())), trimmed(&want), "2^{} sets", bits);
            }
            let all: u64 = data.references.iter().flat_map(|own| own.count).sum();
            prop_assert_eq!(all, references.len() as u64);
            if rate_bits == 0 {
                prop_assert_eq!(plain.references.iter().sum::<u64>(), all);
            }
        }

        /// The distances among the lines of a group are those of a trace that has no others.
        #[test]
        fn lines_at_random_are_a_trace_of_their_own(references in traces(), rate_bits in 0_u32..3) {
            let sample = Sample::one_in(rate_bits).unwrap();
            let choice = Choice(sample.sampling());
            let data = sampled(sample, Chunk { references: &references, ..Chunk::default() });
            for (number, group) in data.full.iter().enumerate() {
                let in_group = |one: &Reference| choice.by_line(one.line()).is_some_and(|(group, _)| group == number);
                let own: Vec<_> = references.iter().copied().filter(in_group).collect();
                let want = plain(&own, FULL, |_| true);
                let found = group.stacks.first().map(|stack| stack.histograms.clone()).unwrap_or_default();
                prop_assert_eq!(found, want, "group {}", number);
            }
        }

        /// Pieces of a chunk that occur several times count as often.
        #[test]
        fn repeated_pieces_are_repeated(
            pieces in prop::collection::vec((traces().prop_map(|t| t[..t.len().min(200)].to_vec()), 1_u32..4), 0..6),
        ) {
            let (mut references, mut parts, mut whole) = (Vec::new(), Vec::new(), Vec::new());
            for (piece, times) in &pieces {
                references.extend_from_slice(piece);
                parts.push(Part { len: piece.len() as u32, times: *times });
                (0..*times).for_each(|_| whole.extend_from_slice(piece));
            }
            let sample = Sample::one_in(1).unwrap();
            let found = sampled(sample, Chunk { references: &references, parts: &parts, ..Chunk::default() });
            prop_assert_eq!(found, sampled(sample, Chunk { references: &whole, ..Chunk::default() }));
        }
    }

    #[test]
    fn as_many_residues_as_the_rate_says_and_as_many_in_each_group() {
        for rate_bits in 0..=10 {
            let sampling = Sample::one_in(rate_bits).unwrap().sampling();
            let mut seen = std::collections::HashSet::new();
            let mut groups = [0; 1 << GROUP_BITS];
            for residue in 0..1 << sampling.set_bits {
                if let Some((group, number)) = Choice(sampling).by_set(residue) {
                    assert!(seen.insert((group, number)));
                    groups[group] += 1;
                }
            }
            assert_eq!(groups, [8; 8]);
        }
    }

    #[test]
    fn of_every_block_each_group_has_one_line() {
        for rate_bits in [0, 1, 6, 7, 20] {
            let sampling = Sample::one_in(rate_bits).unwrap().sampling();
            let bits = sampling.scale_bits();
            for block in [0, 1, 1 << 30] {
                let lines = (0..1_u64 << bits).filter_map(|offset| Choice(sampling).by_line(block << bits | offset));
                let mut groups: Vec<_> = lines.collect();
                groups.sort_unstable();
                assert_eq!(groups, (0..8).map(|group| (group, block)).collect::<Vec<_>>());
            }
        }
    }

    /// Lines that lie a power of two apart, one a block or fewer, are chosen like any others.
    #[test]
    fn about_as_many_distant_lines_as_the_rate_says() {
        let choice = Choice(Sample::one_in(6).unwrap().sampling());
        for stride in [64, 512, 1 << 12, 1 << 20] {
            let mut groups = [0_i32; 8];
            (0..512 * 1000).filter_map(|i| choice.by_line(i * stride)).for_each(|(group, _)| groups[group] += 1);
            assert!(groups.iter().all(|count| (count - 1000).abs() < 150), "{stride}: {groups:?}");
        }
    }

    #[test]
    fn rates() {
        for (text, rate_bits) in [("0.01", 6), ("1/64", 6), (" 1 / 100 ", 6), ("0.5", 1), ("0.9", 0), ("1e-6", 19)] {
            assert_eq!(Sample::parse(text), Ok(Sample::one_in(rate_bits).filter(|_| rate_bits > 0)), "{text}");
        }
        assert_eq!(Sample::parse("1"), Ok(None));
        for (text, word) in [
            ("0", "is not in 1/1048576..=1"),
            ("2", "a sampling rate of 2"),
            ("-0.1", "is not in"),
            ("1/0", "is not in"),
            ("NaN", "is not in"),
            ("1e-9", "is not in"),
            ("abc", "\"abc\" is no sampling rate"),
            ("", "is no sampling rate"),
            ("2/3", "is no sampling rate"),
        ] {
            let error = Sample::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

//! The locality of one side as a curve: which part of its references misses in fully associative caches of growing size.
//!
//! What every cache misses is left out: first references, and those to lines that other threads took away. A short run of
//! a program has more first references than a long one without being another program. What is left is the distribution of
//! reuse distances: the ratio at a size is the part of the re-references that lie as far apart or further.

use crate::{
    attribution::Figures,
    error::QueryError,
    query::{Query, answerable, query},
    spec::{Cache, Scope, Ways},
};
use bf_profile::Profile;

/// Misses fewer than this part of the references count as none, and ratios are told apart to this.
pub(crate) const NEGLIGIBLE: f64 = 0.001;
/// Sizes that are asked about, two for each power of two.
const SIZES: usize = 60;

/// Lines of a cache of that size: 4, 6, 8, 12, 16, ... Histograms have an edge at each.
pub(crate) const fn lines(size: usize) -> u64 {
    (4 + 2 * (size as u64 % 2)) << (size / 2)
}

/// How many doublings a size is from the next.
pub(crate) fn doublings(size: usize) -> f64 {
    (lines(size + 1) as f64 / lines(size) as f64).log2()
}

/// The greatest size of no more than so many lines; the least of all if there is none.
pub(crate) fn size_of(count: u64) -> usize {
    (0..SIZES).rfind(|&size| lines(size) <= count).unwrap_or(0)
}

/// How alike two ratios are: the smaller by the larger, where less than [`NEGLIGIBLE`] makes no difference.
pub(crate) fn alike(a: f64, b: f64) -> f64 {
    (a.min(b) + NEGLIGIBLE) / (a.max(b) + NEGLIGIBLE)
}

/// The caches that a curve is made of, by size, and one without bounds at the end.
pub(crate) fn caches(line: u32) -> Vec<Cache> {
    // With the longest lines that there are all sizes together still have fewer than 2^64 bytes.
    let boundless = (1 << 50).min((1 << 62) / u64::from(line));
    let sizes = (0..SIZES).map(lines).chain([boundless]);
    let cache = |lines: u64| Cache {
        name: lines.to_string(),
        size: lines * u64::from(line),
        ways: Ways::Full,
        line: Some(line),
        scope: Scope::Private,
        hashed: false,
        exclusive: false,
    };
    sizes.map(cache).collect()
}

/// The curve of one side, or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Locality {
    /// All references.
    pub references: u64,
    /// Misses that a cache without bounds has.
    pub unavoidable: u64,
    /// The least size that the profile tells about: 0 unless it is a sample.
    pub least: usize,
    /// By size, and never growing with it: other misses by other references.
    pub ratios: Vec<f64>,
    /// The least size from [`Locality::least`] on with a negligible ratio.
    pub working_set: usize,
    /// By size, which part of the lines brought in is written back; `None` where it is unknown, or nothing but what every
    /// cache misses is brought in.
    pub written_back: Vec<Option<f64>>,
    /// Lines referenced: mean of all private caches.
    pub footprint: u64,
}

impl Locality {
    /// From the misses by size, `None` where the profile does not tell.
    pub fn new(references: u64, misses: &[Option<u64>], unavoidable: u64) -> Self {
        let least = misses.iter().position(Option::is_some).unwrap_or(0);
        let again = references.saturating_sub(unavoidable);
        let mut ratios: Vec<f64> = Vec::with_capacity(misses.len());
        for misses in misses {
            let before = ratios.last().copied().unwrap_or(1.0);
            let ratio = misses.map(|misses| misses.saturating_sub(unavoidable) as f64 / again.max(1) as f64);
            // Estimates from a sample may waver.
            ratios.push(ratio.unwrap_or(before).min(before));
        }
        let negligible = |size: &usize| ratios[*size] <= NEGLIGIBLE;
        let working_set = (least..ratios.len()).find(negligible).unwrap_or(ratios.len().saturating_sub(1));
        Self { references, unavoidable, least, ratios, working_set, written_back: Vec::new(), footprint: 0 }
    }

    /// Of the references of a profile under some tags; none: of all.
    ///
    /// # Errors
    /// The profile lacks the line size, or a tag.
    pub fn of(profile: &Profile, line: u32, tags: &[String]) -> Result<Self, QueryError> {
        let mut asked = caches(line);
        if profile.processes.iter().any(|process| !process.sampled.is_empty()) {
            asked = answerable(profile, &asked).0;
        }
        let question = Query { levels: asked, tags: tags.to_vec(), ..Query::default() };
        let answer = query(profile, &question)?;
        let Some((boundless, levels)) = answer.levels.split_last() else { return Err(QueryError::NoLevels) };
        let (mut misses, mut writebacks) = (vec![None; SIZES], vec![None; SIZES]);
        for level in levels {
            let size = size_of(level.size_bytes / u64::from(line));
            (misses[size], writebacks[size]) = (Some(level.misses), level.writebacks);
        }
        let mut curve = Self::new(answer.references, &misses, boundless.misses);
        curve.footprint = boundless.cold / (boundless.caches as u64).max(1);
        let part = |size: usize| {
            let brought = misses[size].filter(|_| curve.ratios[size] > NEGLIGIBLE)?;
            Some((writebacks[size]? as f64 / brought as f64).min(1.0))
        };
        curve.written_back = (0..SIZES).map(part).collect();
        Ok(curve)
    }

    /// Of what an attribution to [`caches`] gave to some places.
    pub fn of_part(figures: &Figures) -> Self {
        let misses: Vec<_> = figures.levels.iter().map(|level| level.misses[0] + level.misses[1]).collect();
        let (boundless, bounded) = misses.split_last().map_or((0, &[][..]), |(last, rest)| (*last, rest));
        let bounded: Vec<_> = bounded.iter().copied().map(Some).collect();
        Self::new(figures.references[0] + figures.references[1], &bounded, boundless)
    }

    /// The ratio at a size; 0 beyond the largest.
    pub fn ratio(&self, size: usize) -> f64 {
        self.ratios.get(size).copied().unwrap_or(0.0)
    }

    /// Which part of the re-references has a distance between each size from `least` on and the one before; the first has
    /// all that are shorter.
    pub fn distances(&self, least: usize) -> Vec<f64> {
        let after = self.ratios.get(least..).unwrap_or(&[]);
        let before = [1.0].into_iter().chain(after.iter().copied());
        before.zip(after).map(|(before, after)| before - after).collect()
    }

    /// The ratios at neighbouring sizes: the least and the greatest that lie no more than one size away.
    pub fn near(&self, size: usize) -> (f64, f64) {
        (self.ratio(size + 1), self.ratio(size.saturating_sub(1).max(self.least.min(size))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Options, replay};

    #[test]
    fn sizes_are_four_and_six_times_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4].map(lines), [4, 6, 8, 12, 16]);
        assert_eq!([1, 4, 5, 6, 11, 16].map(size_of), [0, 0, 0, 1, 2, 4]);
        assert!((doublings(0) + doublings(1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn alike_is_a_quotient_that_nothing_spoils() {
        assert!((alike(0.02, 0.04) - 21.0 / 41.0).abs() < 1e-12);
        assert_eq!(alike(0.0, 0.0), 1.0);
        assert!(alike(0.0, 1e-6) > 0.99);
    }

    #[test]
    fn first_references_are_left_out() {
        // Ten passes over 16 lines: 144 re-references, all at distance 15.
        let text: String = (0..160).map(|i| format!("r {:x} 8\n", i % 16 * 64)).collect();
        let profile = replay(text.as_bytes(), "t", 0, &Options::default()).unwrap().profile;
        let curve = Locality::of(&profile, 64, &[]).unwrap();
        assert_eq!((curve.references, curve.unavoidable, curve.working_set), (160, 16, 4));
        assert_eq!(curve.ratios[..5], [1.0, 1.0, 1.0, 1.0, 0.0]);
        assert_eq!(curve.distances(0)[..6], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(curve.distances(3)[..2], [0.0, 1.0]);
        assert_eq!((curve.near(4), curve.near(0)), ((0.0, 1.0), (1.0, 1.0)));
    }

    #[test]
    fn wavering_estimates_fall_all_the_same() {
        let curve = Locality::new(110, &[None, None, Some(60), Some(61), Some(10)], 10);
        assert_eq!(curve.ratios, [1.0, 1.0, 0.5, 0.5, 0.0]);
        assert_eq!((curve.least, curve.working_set), (2, 4));
    }
}

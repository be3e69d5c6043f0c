//! Many caches, one at a time: every size with every associativity.

use crate::{
    error::{QueryError, SpecError},
    query::{Query, query},
    sampled::Sampled,
    size,
    spec::{Cache, Scope, Ways},
    stack::Model,
};
use bf_profile::Profile;
use serde::Serialize;

/// Schema of a sweep's answer.
pub const SCHEMA: &str = "bf.sweep/1";

/// Most sizes in one sweep: a slip such as `64..1G+1` should not run for hours.
const MAX_SIZES: usize = 100_000;

/// What to sweep over. Every list has at least one entry.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Bytes.
    pub sizes: Vec<u64>,
    /// Associativities.
    pub ways: Vec<Ways>,
    /// Line sizes; `None`: 64, or the profile's only one.
    pub lines: Vec<Option<u32>>,
    /// Who uses the caches.
    pub scope: Scope,
    /// Whether lines land in sets as if at random.
    pub hashed: bool,
    /// Count only references under these tags; empty: all.
    pub tags: Vec<String>,
}

/// Answers of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepAnswer {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Files asked, in the order given.
    pub profiles: Vec<String>,
    /// Tags asked for; empty: all references.
    pub tags: Vec<String>,
    /// Combinations that no cache can have, or that the profile was not recorded for.
    pub skipped: usize,
    /// Why the first of them was skipped.
    pub skipped_because: Option<String>,
    /// By line size, then associativity, then size, each in the order given.
    pub points: Vec<Point>,
}

/// One cache's answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Bytes.
    pub size_bytes: u64,
    /// Line size, bytes.
    pub line_bytes: u32,
    /// Sets.
    pub sets: u64,
    /// Lines per set.
    pub ways: u64,
    /// Whether it was asked for as fully associative.
    pub full: bool,
    /// Rule of the answer.
    pub model: Model,
    /// Whether `misses` is an exact sum.
    pub exact: bool,
    /// References.
    pub references: u64,
    /// Misses.
    pub misses: u64,
    /// Misses of loads.
    pub load_misses: u64,
    /// Misses of stores.
    pub store_misses: u64,
    /// `misses / references`; null without references.
    pub miss_ratio: Option<f64>,
    /// Misses of lines never referenced before.
    pub cold: u64,
    /// Misses that a fully associative cache would have too; null where the rule has no such split.
    pub capacity: Option<u64>,
    /// The remaining misses; null where the rule has no such split.
    pub conflict: Option<u64>,
    /// Misses of lines that a store of another thread took out of the cache; null unless there are several private ones.
    pub coherence: Option<u64>,
    /// Dirty lines written back during the run; null where private caches pass them on to each other.
    pub writebacks: Option<u64>,
    /// (misses + write-backs) times line size; null where write-backs are.
    pub traffic_bytes: Option<u64>,
    /// Interval of `misses` where the rule is interpolated or bounded.
    pub bounds: Option<[u64; 2]>,
    /// How sure the figures are that were estimated from a sample; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

/// Sizes of a list such as `4K..256M`, `4K..64K+4K` or `32K,48K,1M..4M`.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn sizes(text: &str) -> Result<Vec<u64>, String> {
    let size = |text: &str| size::parse(text).ok_or_else(|| SpecError::Size(text.to_owned()).to_string());
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let Some((first, rest)) = part.split_once("..") else {
            sizes.push(size(part)?);
            continue;
        };
        let (last, step) = match rest.split_once('+') {
            Some((last, step)) => (last, Some(size(step)?)),
            None => (rest, None),
        };
        let (mut at, last) = (size(first)?, size(last)?);
        if at > last {
            return Err(format!("`{part}` runs backwards"));
        }
        while at <= last {
            if sizes.len() == MAX_SIZES {
                return Err(format!("`{part}` has more than {MAX_SIZES} sizes"));
            }
            sizes.push(at);
            at += step.unwrap_or(at);
        }
    }
    Ok(sizes)
}

/// Asks about every combination.
///
/// # Errors
/// The profile cannot answer any question of this kind, or lacks a line size or tag asked for.
pub fn sweep(profile: &Profile, sweep: &Sweep) -> Result<SweepAnswer, QueryError> {
    let mut answer = SweepAnswer {
        schema: SCHEMA,
        profiles: Vec::new(),
        tags: sweep.tags.clone(),
        skipped: 0,
        skipped_because: None,
        points: Vec::new(),
    };
    for &line in &sweep.lines {
        for &ways in &sweep.ways {
            for &size in &sweep.sizes {
                let cache = Cache {
                    name: format!("{}:{ways}", size::format(size)),
                    size,
                    ways,
                    line,
                    scope: sweep.scope,
                    hashed: sweep.hashed,
                    exclusive: false,
                };
                let question = Query { levels: vec![cache], tags: sweep.tags.clone(), ..Query::default() };
                match query(profile, &question) {
                    Ok(found) => answer.points.extend(found.levels.into_iter().map(|level| Point {
                        size_bytes: level.size_bytes,
                        line_bytes: level.line_bytes,
                        sets: level.sets,
                        ways: level.ways,
                        full: ways == Ways::Full,
                        model: level.model,
                        exact: level.exact,
                        references: level.references,
                        misses: level.misses,
                        load_misses: level.load_misses,
                        store_misses: level.store_misses,
                        miss_ratio: level.local_miss_ratio,
                        cold: level.cold,
                        capacity: level.capacity,
                        conflict: level.conflict,
                        coherence: level.coherence,
                        writebacks: level.writebacks,
                        traffic_bytes: level.traffic_bytes,
                        bounds: level.bounds,
                        sampled: level.sampled,
                    })),
                    Err(
                        error @ (QueryError::MaxWays { .. }
                        | QueryError::Sampled { .. }
                        | QueryError::Spec(SpecError::Impossible { .. })),
                    ) => {
                        answer.skipped += 1;
                        answer.skipped_because.get_or_insert_with(|| error.to_string());
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Options, replay};

    #[test]
    fn size_lists() {
        assert_eq!(sizes("4K..32K").unwrap(), [4096, 8192, 16384, 32768]);
        assert_eq!(sizes("4K..20K").unwrap(), [4096, 8192, 16384]);
        assert_eq!(sizes("4K..16K+4K").unwrap(), [4096, 8192, 12288, 16384]);
        assert_eq!(sizes("100,1K..2K").unwrap(), [100, 1024, 2048]);
        assert_eq!(sizes("512T..1024T").unwrap().len(), 2);
        for (text, word) in [("8K..4K", "backwards"), ("4K..x", "`x`"), ("64..1G+1", "100000"), ("", "``")] {
            let error = sizes(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn combinations_that_cannot_be_are_counted() {
        let profile = replay(&b"r 0 8\nr 40 8\nr 0 8\n"[..], "t", 0, &Options::default()).unwrap().profile;
        let question = Sweep {
            sizes: vec![64, 128, 192],
            ways: vec![Ways::Number(2), Ways::Full],
            lines: vec![None],
            scope: Scope::Private,
            hashed: false,
            tags: vec![],
        };
        let answer = sweep(&profile, &question).unwrap();
        let points: Vec<_> = answer.points.iter().map(|point| (point.size_bytes, point.full, point.misses)).collect();
        assert_eq!(points, [(128, false, 2), (64, true, 3), (128, true, 2), (192, true, 2)]);
        assert_eq!(answer.skipped, 2);
        assert!(answer.skipped_because.unwrap().contains("64"));
        let wrong = Sweep { lines: vec![Some(128)], ..question };
        assert!(sweep(&profile, &wrong).is_err());
    }
}

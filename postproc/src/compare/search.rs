//! The caches with which two programs are least alike.

use super::{
    Context, MatchedPoint,
    aspects::least_alike,
    locality::{alike, lines},
    matched,
};
use crate::{
    machine::{PRESETS, presets},
    query::{Query, answerable, query},
    spec::{Cache, Scope, Ways},
};
use serde::Serialize;

/// Numbers of ways that are tried; 0: fully associative.
const WAYS: [u64; 6] = [1, 2, 4, 8, 16, 0];
/// No cache of a real machine is smaller, bytes.
const LEAST_BYTES: u64 = 4096;

/// Where two programs are least alike.
#[derive(Clone, Debug, Serialize)]
pub struct DifferMost {
    /// In caches that stand for each other.
    pub matched: Option<MatchedPoint>,
    /// In the same cache, of those from 4 KiB up to the larger working set with 1, 2, 4, 8 or 16 ways or fully associative,
    /// and those of all machines that bf knows by name; null if the profiles tell about none of them.
    pub same_cache: Option<SameCache>,
}

/// One cache for both, and what `bf query` says about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SameCache {
    /// Machine that has it; null if it was only tried.
    pub machine: Option<String>,
    /// Name of the level in that machine.
    pub level: Option<String>,
    /// Bytes.
    pub size_bytes: u64,
    /// Lines per set.
    pub ways: u64,
    /// Whether it is fully associative.
    pub full: bool,
    /// Misses by all references, first ones included.
    pub a_miss_ratio: f64,
    /// The same of the second side.
    pub b_miss_ratio: f64,
    /// How alike these are, 0 to 1.
    pub alike: f64,
}

/// Tries them all.
pub(super) fn differ_most(context: &Context<'_>) -> DifferMost {
    let mut found: Vec<SameCache> = Vec::new();
    for cache in single(context) {
        found.extend(ask(context, None, std::slice::from_ref(&cache)));
    }
    for (name, preset) in presets(PRESETS, "presets.toml").unwrap_or_default() {
        found.extend(ask(context, Some(&name), &preset.caches().unwrap_or_default()));
    }
    DifferMost {
        matched: least_alike(&context.pairs).map(|pair| matched(context, pair)),
        same_cache: found.into_iter().min_by(|a, b| a.alike.total_cmp(&b.alike)),
    }
}

/// Every size that is a power of two, with every number of ways.
fn single(context: &Context<'_>) -> Vec<Cache> {
    let largest = context.curves.iter().map(|curve| curve.working_set).max().unwrap_or(0);
    let sizes = (0..=largest).filter(|&size| size % 2 == 0 && context.bytes(size) >= LEAST_BYTES);
    let cache = |size: usize, ways: u64| Cache {
        name: "cache".to_owned(),
        size: context.bytes(size),
        ways: if ways == 0 { Ways::Full } else { Ways::Number(ways) },
        line: Some(context.line),
        scope: Scope::Private,
        hashed: false,
        exclusive: false,
    };
    sizes
        .flat_map(|size| WAYS.into_iter().filter(move |&ways| ways <= lines(size)).map(move |ways| cache(size, ways)))
        .collect()
}

/// What both do with the levels of a hierarchy; nothing where one of them cannot tell.
fn ask(context: &Context<'_>, machine: Option<&str>, levels: &[Cache]) -> Vec<SameCache> {
    let answers: Vec<_> = context
        .profiles
        .iter()
        .filter_map(|profile| {
            let (levels, refused) = answerable(profile, levels);
            let question = Query { levels, tags: context.tags.to_vec(), ..Query::default() };
            if refused.is_empty() { query(profile, &question).ok() } else { None }
        })
        .collect();
    let [a, b] = answers.as_slice() else { return Vec::new() };
    let same = |(level, (a, b)): (&Cache, (&crate::LevelAnswer, &crate::LevelAnswer))| {
        let (a_miss_ratio, b_miss_ratio) = (a.global_miss_ratio?, b.global_miss_ratio?);
        Some(SameCache {
            machine: machine.map(str::to_owned),
            level: machine.map(|_| level.name.clone()),
            size_bytes: a.size_bytes,
            ways: a.ways,
            full: level.ways == Ways::Full,
            a_miss_ratio,
            b_miss_ratio,
            alike: alike(a_miss_ratio, b_miss_ratio),
        })
    };
    levels.iter().zip(a.levels.iter().zip(&b.levels)).filter_map(same).collect()
}

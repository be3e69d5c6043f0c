//! One property of a hierarchy at a time: what a doubled level would bring, which line size suits, what associativity costs.

use super::{
    objective::{Figures, Goal, Objective, Prices},
    range::LevelRange,
};
use crate::{
    Answer, LevelAnswer, Query,
    error::{QueryError, SpecError},
    query::query,
    sampled::Sampled,
    spec::{Cache, Ways},
    stack::Model,
};
use bf_profile::Profile;
use serde::Serialize;

/// What a hierarchy would be like with one property of a level doubled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doubled {
    /// The level.
    pub level: String,
    /// `"size"` (twice the sets) or `"ways"` (twice the ways, as many sets).
    pub property: &'static str,
    /// Bytes of the level then.
    pub size_bytes: u64,
    /// Its ways then.
    pub ways: u64,
    /// The objective then; `None` if it cannot be told.
    pub objective: Option<f64>,
    /// By how much it changes, as a part of what it is now: -0.25 is a quarter less.
    pub change: Option<f64>,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Which level, doubled, helps most: each level with twice the sets, and with twice the ways, the greatest help first.
///
/// # Errors
/// The hierarchy itself cannot be asked about.
pub fn sensitivity(
    profile: &Profile,
    caches: &[Cache],
    tags: &[String],
    goal: &Goal,
    objective: &Objective,
) -> Result<Vec<Doubled>, QueryError> {
    let ask = |levels: Vec<Cache>| query(profile, &Query { levels, tags: tags.to_vec(), ..Query::default() });
    let base = ask(caches.to_vec())?;
    let before = value(&base, caches, goal, objective).ok().flatten();
    let mut all = Vec::new();
    for (at, level) in base.levels.iter().enumerate() {
        for (property, factor) in [("size", 1), ("ways", 2)] {
            let full = caches[at].ways == Ways::Full;
            if full && property == "ways" {
                continue;
            }
            let size = level.size_bytes * 2;
            let ways = if full { level.ways * 2 } else { level.ways * factor };
            let mut other = caches.to_vec();
            other[at] = Cache { size, ways: if full { Ways::Full } else { Ways::Number(ways) }, ..caches[at].clone() };
            let found = ask(other.clone()).map_err(|error| error.to_string());
            let found = found.and_then(|answer| value(&answer, &other, goal, objective));
            let (after, why) = match found {
                Ok(after) => (after, None),
                Err(why) => (None, Some(why)),
            };
            let change = before.zip(after).filter(|(before, _)| *before > 0.0);
            all.push(Doubled {
                level: level.name.clone(),
                property,
                size_bytes: size,
                ways,
                objective: after,
                change: change.map(|(before, after)| after / before - 1.0),
                why,
            });
        }
    }
    all.sort_by(|a, b| a.change.unwrap_or(f64::MAX).total_cmp(&b.change.unwrap_or(f64::MAX)));
    Ok(all)
}

/// The objective of an answered hierarchy; `None`: not known.
///
/// # Errors
/// A table says nothing of one of the caches.
pub fn value(answer: &Answer, caches: &[Cache], goal: &Goal, objective: &Objective) -> Result<Option<f64>, String> {
    let figures: Vec<Figures> = answer.levels.iter().map(Figures::from).collect();
    let names: Vec<String> = answer.levels.iter().map(|level| level.name.clone()).collect();
    let lines: Vec<u32> = answer.levels.iter().map(|level| level.line_bytes).collect();
    let price = |(cache, line): (&Cache, &u32)| {
        let shape = cache.shape(&[*line]).map_err(|error| error.to_string())?;
        goal.price(&shape).map(|price| vec![price]).map_err(|error| error.to_string())
    };
    let all = caches.iter().zip(&lines).map(price).collect::<Result<Vec<_>, _>>()?;
    Ok(goal.value(objective, &names, &figures, Prices { all: &all, picks: &vec![0; all.len()] }))
}

/// A hierarchy with one line size in all levels.
#[derive(Clone, Debug, Serialize)]
pub struct LinePoint {
    /// Bytes.
    pub line_bytes: u32,
    /// The answer, nearest level first.
    pub levels: Vec<LevelAnswer>,
}

/// The same sizes and associativities with each of these line sizes; those that a level cannot have are left out, with
/// the reason.
///
/// # Errors
/// The profile holds no counts.
pub fn line_sizes(
    profile: &Profile,
    caches: &[Cache],
    lines: &[u32],
    tags: &[String],
) -> Result<(Vec<LinePoint>, Vec<String>), QueryError> {
    let (mut points, mut refused) = (Vec::new(), Vec::new());
    for &line_bytes in lines {
        let levels = caches.iter().map(|cache| Cache { line: Some(line_bytes), ..cache.clone() }).collect();
        match query(profile, &Query { levels, tags: tags.to_vec(), ..Query::default() }) {
            Ok(answer) => points.push(LinePoint { line_bytes, levels: answer.levels }),
            Err(error) if is_about_one(&error) => refused.push(format!("line size {line_bytes}: {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok((points, refused))
}

/// A level of its own with some associativity, beside the fully associative cache of its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WaysPoint {
    /// The level.
    pub level: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Lines per set.
    pub ways: u64,
    /// Whether it was asked for as fully associative.
    pub full: bool,
    /// By which rule.
    pub model: Model,
    /// Misses.
    pub misses: u64,
    /// Misses of the fully associative cache.
    pub full_misses: u64,
    /// By how much it misses more: 0.25 is a quarter more; `None` if that one has no misses. Negative where it misses less.
    pub penalty: Option<f64>,
    /// How sure `misses` are; none if they come from no sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

/// What associativity costs: each level by itself, fed with all references, with each of these numbers of ways.
///
/// # Errors
/// The profile cannot tell about the fully associative cache.
pub fn associativities(
    profile: &Profile,
    caches: &[Cache],
    ways: &[Ways],
    tags: &[String],
) -> Result<(Vec<WaysPoint>, Vec<String>), QueryError> {
    let ask = |cache: Cache| {
        let question = Query { levels: vec![cache], tags: tags.to_vec(), ..Query::default() };
        query(profile, &question).map(|answer| answer.levels.into_iter().next())
    };
    let (mut points, mut refused) = (Vec::new(), Vec::new());
    for cache in caches {
        let alone = Cache { exclusive: false, ..cache.clone() };
        let Some(full) = ask(Cache { ways: Ways::Full, hashed: false, ..alone.clone() })? else { continue };
        for &ways in ways {
            match ask(Cache { ways, ..alone.clone() }) {
                Ok(found) => points.extend(found.map(|level| WaysPoint {
                    level: level.name,
                    size_bytes: level.size_bytes,
                    ways: level.ways,
                    full: ways == Ways::Full,
                    model: level.model,
                    misses: level.misses,
                    full_misses: full.misses,
                    penalty: (full.misses > 0).then(|| level.misses as f64 / full.misses as f64 - 1.0),
                    sampled: level.sampled,
                })),
                Err(error) if is_about_one(&error) => refused.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    Ok((points, refused))
}

/// Whether it is this one cache that cannot be asked about.
fn is_about_one(error: &QueryError) -> bool {
    matches!(
        error,
        QueryError::MaxWays { .. }
            | QueryError::Sampled { .. }
            | QueryError::Spec(SpecError::Impossible { .. } | SpecError::LineMissing { .. })
    )
}

/// The only cache of each range.
///
/// # Errors
/// A range with several, in words.
pub fn single(ranges: &[LevelRange]) -> Result<Vec<Cache>, String> {
    let only = |range: &LevelRange| match <[Cache; 1]>::try_from(range.caches()) {
        Ok([cache]) => Ok(cache),
        Err(all) => Err(format!(
            "{} is {} caches; a study takes one hierarchy: one size and one associativity",
            range.name,
            all.len()
        )),
    };
    ranges.iter().map(only).collect()
}

//! The working sets of a run with the places in the source that make them.

use crate::{
    attribution::{By, Key, attribute},
    curve::{Knee, curve, knees},
    error::QueryError,
    paths::Tree,
    query::Query,
    spec::{Cache, Scope, Ways},
};
use bf_profile::Profile;
use serde::Serialize;
use std::collections::BTreeMap;

/// A fall of the miss-ratio curve, and whose misses went away.
#[derive(Clone, Debug, Serialize)]
pub struct WorkingSet {
    /// Where it lies on the curve.
    #[serde(flatten)]
    pub knee: Knee,
    /// Line size of the curve, bytes.
    pub line_bytes: u32,
    /// Misses that a cache of `from_bytes` has and one of `size_bytes` has not.
    pub misses: u64,
    /// Places by their part of these, most first; empty if the profile is not broken down by place.
    pub causes: Vec<Cause>,
}

/// A place's part of a working set.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// The function, line or loop.
    #[serde(flatten)]
    pub key: Key,
    /// Its part of the misses that go away.
    pub misses: u64,
    /// The same by all of them.
    pub share: f64,
}

/// The working sets, smallest first, and why they have no causes, if they have none. With tags only of references under these.
///
/// # Errors
/// The profile holds no counts, or no such tag.
pub fn working_sets(
    profile: &Profile,
    by: By,
    tags: &[String],
) -> Result<(Vec<WorkingSet>, Option<String>), QueryError> {
    let (line_bytes, points) = curve(profile, tags)?;
    let (mut sets, mut missing) = (Vec::new(), None);
    for knee in knees(&points) {
        let [before, after] =
            [knee.from_bytes, knee.size_bytes].map(|size| misses(profile, by, tags, size, line_bytes));
        let ((before, at), (after, still)) = (before?, after?);
        let misses = before.saturating_sub(after);
        let mut causes = Vec::new();
        match (at, still) {
            (Ok(at), Ok(still)) => {
                let gone = at.into_iter().map(|(key, had)| {
                    let misses = had.saturating_sub(still.get(&key).copied().unwrap_or(0));
                    Cause { key, misses, share: misses as f64 / misses_or_one(before, after) }
                });
                causes.extend(gone.filter(|cause| cause.misses > 0));
                causes.sort_by(|a, b| b.misses.cmp(&a.misses).then_with(|| a.key.cmp(&b.key)));
            }
            (Err(why), _) | (_, Err(why)) => missing = Some(why),
        }
        sets.push(WorkingSet { knee, line_bytes, misses, causes });
    }
    Ok((sets, missing))
}

fn misses_or_one(before: u64, after: u64) -> f64 {
    before.saturating_sub(after).max(1) as f64
}

/// Misses of a place.
type ByPlace = BTreeMap<Key, u64>;

/// Misses of a fully associative cache, and those of each place or why they are not known.
fn misses(
    profile: &Profile,
    by: By,
    tags: &[String],
    size: u64,
    line: u32,
) -> Result<(u64, Result<ByPlace, String>), QueryError> {
    let cache = Cache {
        name: "L1".to_owned(),
        size,
        ways: Ways::Full,
        line: Some(line),
        scope: Scope::Private,
        hashed: false,
        exclusive: false,
    };
    let question = Query { levels: vec![cache], tags: tags.to_vec(), ..Query::default() };
    match attribute(profile, &question) {
        Ok(found) => {
            let misses = found.answer.levels[0].misses;
            if let Some(process) = found.without_objects().filter(|_| by == By::Object) {
                let name = &process.meta.executable;
                let why = format!("the profile of {name} was recorded without objects; compile with -bf-data-structs");
                return Ok((misses, Err(why)));
            }
            if let Some(process) = Tree::without(profile).filter(|_| by == By::Callpath) {
                let name = &process.meta.executable;
                let why = format!("the profile of {name} was recorded without call paths; compile with -bf-call-stack");
                return Ok((misses, Err(why)));
            }
            let rows = found.by(by).into_iter();
            let rows = rows.map(|(key, figures)| (key, figures.levels.iter().flat_map(|level| level.misses).sum()));
            Ok((misses, Ok(rows.collect())))
        }
        Err(error @ QueryError::NotByPlace { .. }) => {
            Ok((crate::query(profile, &question)?.levels[0].misses, Err(error.to_string())))
        }
        Err(error) => Err(error),
    }
}

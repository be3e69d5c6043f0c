//! Names of tags, and what they say of time: a run may be cut into slices, whose number then ends the name of every tag
//! but those of slice 0. `solve/smooth@3` is what ran under `smooth` within `solve` in slice 3.

use crate::{
    Answer, Query, QueryError,
    attribution::{Figures, apportion_to, totals},
    query::{check_tags, is_wanted, query},
    sampled::Sampled,
};
use bf_profile::{Process, Profile};
use std::collections::{BTreeMap, BTreeSet};

/// What tags count as that came when there were as many as a process tells apart, whichever slice it was (`docs/runtime.md`).
pub const MORE_TAGS: &str = "(more tags)";

/// One slice of time.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its number, from 0; `None`: what counts as [`MORE_TAGS`], of all slices.
    pub number: Option<u32>,
    /// What is asked for to have it alone.
    pub tags: Vec<String>,
    /// Its part of the answer.
    pub figures: Figures,
    /// How sure that is, by level; empty if it comes from no sample.
    pub sampled: BTreeMap<String, Sampled>,
}

/// A tag's name without the slice, and the number of that; `None` where the name has none, which a tag of slice 0 has not.
#[must_use]
pub fn split(name: &str) -> (&str, Option<u32>) {
    let slice = name.rsplit_once('@').and_then(|(path, slice)| Some((path, slice.parse().ok()?)));
    slice.map_or((name, None), |(path, slice)| (path, Some(slice)))
}

/// Whether a tag is meant by what was asked for: its own name or one around it, in any slice or in the one that is named.
#[must_use]
pub fn is_meant(tag: &str, asked: &str) -> bool {
    let ((path, slice), (asked_path, asked_slice)) = (split(tag), split(asked));
    let within = || path.strip_prefix(asked_path).is_some_and(|rest| rest.starts_with('/')) && !asked_path.is_empty();
    tag == asked
        || (path == asked_path || within()) && asked_slice.is_none_or(|asked| slice.unwrap_or_default() == asked)
}

/// What there is to ask for by tag, in the order of tags and time: every tag, and if the run was cut into slices, each of these.
#[must_use]
pub fn names(profile: &Profile) -> Vec<String> {
    let all = profile.processes.iter().flat_map(|process| &process.tags).map(|tag| split(tag));
    let mut all: BTreeSet<_> = all.collect();
    if all.iter().any(|(_, slice)| slice.is_some()) {
        // A name without a slice means all of them.
        let whole: BTreeSet<_> = all.iter().map(|&(path, _)| (path, None)).collect();
        let mut cut = BTreeSet::new();
        for &(path, slice) in all.iter().filter(|(path, _)| *path != MORE_TAGS) {
            // A slice of a tag is also one of those around it.
            let around = path.match_indices('/').map(|(at, _)| &path[..at]);
            let around = around.filter(|around| !around.is_empty() && whole.contains(&(around, None)));
            cut.extend(around.chain([path]).map(|path| (path, slice.or(Some(0)))));
        }
        all.extend(whole.into_iter().chain(cut));
    }
    let name = |(path, slice): (&str, Option<u32>)| match slice {
        Some(slice) => format!("{path}@{slice}"),
        None => path.to_owned(),
    };
    all.into_iter().filter(|&known| known != ("", None)).map(name).collect()
}

/// The answer to a question by slices of time, in their order, and at the end what is in none. They add up to it, figure by figure.
///
/// # Errors
/// Those of [`query`], and a run that was not cut into slices.
pub fn by_phase(profile: &Profile, asked: &Query) -> Result<(Answer, Vec<Phase>), QueryError> {
    let parts = parts(profile, &asked.tags)?;
    let answer = query(profile, asked)?;
    let mut phases = Vec::new();
    for (number, tags) in parts {
        let part = query(profile, &Query { tags: tags.clone(), ..asked.clone() })?;
        let figures = totals(&part);
        let sampled = part.levels.into_iter().filter_map(|level| Some((level.name, level.sampled?)));
        phases.push(Phase { number, tags, figures, sampled: sampled.collect() });
    }
    apportion_to(phases.iter_mut().map(|phase| &mut phase.figures), &totals(&answer));
    Ok((answer, phases))
}

/// The number of a slice and the tags that make it up.
pub type Part = (Option<u32>, Vec<String>);

/// The [`slices`] of a run, and at the end, without a number, what is in none.
///
/// # Errors
/// Those of [`slices`].
pub fn parts(profile: &Profile, tags: &[String]) -> Result<Vec<Part>, QueryError> {
    let mut parts: Vec<_> = slices(profile, tags)?.into_iter().map(|(number, tags)| (Some(number), tags)).collect();
    let is_rest = |process: &Process, (tag, name): (u32, &String)| name == MORE_TAGS && is_wanted(process, tags, tag);
    let has_rest = |process: &Process| (0..).zip(&process.tags).any(|tag| is_rest(process, tag));
    if profile.processes.iter().any(has_rest) {
        parts.push((None, vec![MORE_TAGS.to_owned()]));
    }
    Ok(parts)
}

/// The slices of a run by number, each with the tags that make it up; those without a reference asked for are left out.
///
/// # Errors
/// It was not cut into slices, or has no such tag.
pub fn slices(profile: &Profile, tags: &[String]) -> Result<BTreeMap<u32, Vec<String>>, QueryError> {
    check_tags(profile, tags)?;
    if profile.processes.iter().flat_map(|process| &process.tags).all(|tag| split(tag).1.is_none()) {
        return Err(QueryError::NoPhases);
    }
    let mut found: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for process in &profile.processes {
        let wanted = (0..).zip(&process.tags).filter(|&(tag, _)| is_wanted(process, tags, tag));
        for (path, slice) in wanted.map(|(_, name)| split(name)).filter(|(path, _)| *path != MORE_TAGS) {
            found.entry(slice.unwrap_or_default()).or_default().insert(path);
        }
    }
    let named = |(slice, paths): (u32, BTreeSet<&str>)| {
        (slice, paths.into_iter().map(|path| format!("{path}@{slice}")).collect())
    };
    Ok(found.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_ask_for_is_every_tag_and_every_slice_in_their_order() {
        let of = |tags: &[&str]| {
            let process = Process { tags: tags.iter().map(|&tag| tag.to_owned()).collect(), ..Process::default() };
            names(&Profile { processes: vec![process.clone(), process] })
        };
        assert_eq!(of(&["", "rows", "a"]), ["a", "rows"]);
        assert_eq!(of(&["", "@2", "@10"]), ["@0", "@2", "@10"]);
        assert_eq!(of(&["", "a", "@1", "a@1"]), ["@0", "@1", "a", "a@0", "a@1"]);
        assert_eq!(of(&["", "a", "a/b/c@2"]), ["@0", "a", "a@0", "a@2", "a/b/c", "a/b/c@2"]);
        assert_eq!(of(&["", "@1", MORE_TAGS]), ["@0", "@1", MORE_TAGS]);
        assert!(of(&[""]).is_empty());
    }

    #[test]
    fn slices_are_those_in_which_what_is_asked_for_ran() {
        let of = |tags: &[&str], asked: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let process = Process { tags: owned(tags), ..Process::default() };
            slices(&Profile { processes: vec![process] }, &owned(asked))
                .map(|slices| slices.into_iter().map(|(number, tags)| (number, tags.join(" "))).collect::<Vec<_>>())
        };
        let cut = ["", "init", "solve", "solve@2"];
        assert_eq!(of(&cut, &[]).unwrap(), [(0, "@0 init@0 solve@0".to_owned()), (2, "solve@2".to_owned())]);
        assert_eq!(of(&cut, &["init"]).unwrap(), [(0, "init@0".to_owned())]);
        let full = ["", "init@2", MORE_TAGS];
        assert_eq!(of(&full, &[]).unwrap(), [(0, "@0".to_owned()), (2, "init@2".to_owned())]);
        assert_eq!(of(&full, &[MORE_TAGS]).unwrap(), []);
        assert!(matches!(of(&cut, &["tea"]), Err(QueryError::Tag { .. })));
        assert!(matches!(of(&["", "init"], &["init"]), Err(QueryError::NoPhases)));
    }

    #[test]
    fn a_tag_is_meant_by_the_names_around_it_and_by_its_slice() {
        assert_eq!((split("solve/a@12"), split("a@b"), split("")), (("solve/a", Some(12)), ("a@b", None), ("", None)));
        for (tag, asked) in [
            ("solve", "solve"),
            ("solve@3", "solve"),
            ("solve/smooth", "solve"),
            ("solve/smooth@3", "solve@3"),
            ("solve", "solve@0"),
            ("@2", ""),
            ("", "@0"),
            ("a@b", "a@b"),
        ] {
            assert!(is_meant(tag, asked), "{tag} by {asked}");
        }
        for (tag, asked) in [
            ("solver", "solve"),
            ("solve", "solve/smooth"),
            ("solve@3", "solve@2"),
            ("solve", "solve@1"),
            ("a", ""),
            ("a@1", "@1"),
        ] {
            assert!(!is_meant(tag, asked), "{tag} by {asked}");
        }
    }
}

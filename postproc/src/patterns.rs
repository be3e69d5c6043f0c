//! Which bytes a run touched and how often, and in which steps its instructions went through memory.

use std::collections::BTreeMap;

use crate::{
    attribution::{Key, UNKNOWN},
    query::is_wanted,
};
use bf_profile::{Places, Process, Profile, Strides, Touched, TouchedBy};
use serde::Serialize;

/// The different bytes that were touched, those of several processes added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Under this tag only; `None`: in the whole run.
    pub tag: Option<String>,
    /// How many.
    pub bytes: u64,
    /// How often they were touched, each access touching each of its bytes once. `None` if that was not recorded.
    pub touches: Option<u64>,
    /// How few of them have most of the touches; empty if that was not recorded.
    pub covering: Vec<Cover>,
    /// Accesses that are missing for want of memory: the figures are too low.
    pub missing: u64,
}

/// The fewest bytes that together have so many of all touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cover {
    /// Percent of all touches.
    pub percent: u32,
    /// Bytes.
    pub bytes: u64,
}

/// Percentages of touches that are answered.
pub const PERCENT: [u32; 6] = [50, 75, 90, 95, 99, 100];

/// Figures of several processes, added up.
#[derive(Default)]
struct Sum {
    bytes: u64,
    missing: u64,
    /// Bytes by how often they were touched.
    counts: BTreeMap<u64, u64>,
}

impl Sum {
    fn add(&mut self, Touched { tag: _, bytes, touches, missing }: &Touched) {
        self.bytes += bytes;
        self.missing += missing;
        touches.iter().for_each(|&(times, bytes)| *self.counts.entry(times).or_default() += bytes);
    }

    fn footprint(self, tag: Option<&str>) -> Footprint {
        let Self { bytes, missing, counts } = self;
        let touches = counts.iter().map(|(times, bytes)| times * bytes).sum();
        let known = !counts.is_empty();
        Footprint {
            tag: tag.map(str::to_owned),
            bytes,
            touches: known.then_some(touches),
            covering: if known { covering(&counts, touches) } else { Vec::new() },
            missing,
        }
    }
}

/// The whole run, then each tag by name; with `tags` only those. Empty if nothing was recorded.
#[must_use]
pub fn footprints(profile: &Profile, tags: &[String]) -> Vec<Footprint> {
    let mut all: BTreeMap<Option<&str>, Sum> = BTreeMap::new();
    for process in &profile.processes {
        for touched in &process.patterns.touched {
            if touched.tag.map_or(!tags.is_empty(), |tag| !is_wanted(process, tags, tag)) {
                continue;
            }
            let name = touched.tag.map(|tag| process.tags.get(tag as usize).map_or("", String::as_str));
            all.entry(name).or_default().add(touched);
        }
    }
    // One tag that nobody set is the whole.
    let only = all.len() == 2 && all.contains_key(&Some(""));
    let shown = all.into_iter().filter(|(name, _)| !(only && name.is_some()));
    shown.map(|(name, sum)| sum.footprint(name)).collect()
}

/// What each function touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByFunction {
    /// All of it: less than the sum, as far as functions touched the same bytes.
    pub whole: Footprint,
    /// By function, as [`crate::attribution::By::Function`] has them.
    pub functions: BTreeMap<Key, Footprint>,
}

/// Why there is no answer to the bytes of functions: bytes are kept by tag, and those of several tags may be the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes that functions touched under several tags together are not known; ask for one of {}", .0.join(", "))]
pub struct SeveralTags(pub Vec<String>);

/// What each function touched in the whole run, or under the one tag that is asked for; `None` if that was not recorded.
///
/// # Errors
/// A process that touched bytes under several of the tags.
pub fn by_function(processes: &[Process], tags: &[String]) -> Result<Option<ByFunction>, SeveralTags> {
    let (mut whole, mut functions): (Sum, BTreeMap<Key, Sum>) = Default::default();
    let recorded = || processes.iter().filter(|process| !process.patterns.by_function.is_empty());
    for process in recorded() {
        let all = &process.patterns.touched;
        let wanted: Vec<_> = if tags.is_empty() {
            vec![None]
        } else {
            all.iter()
                .map(|touched| touched.tag)
                .filter(|tag| tag.is_some_and(|tag| is_wanted(process, tags, tag)))
                .collect()
        };
        if wanted.len() > 1 {
            let name = |tag: u32| format!("`{}`", process.tags.get(tag as usize).map_or("", String::as_str));
            return Err(SeveralTags(wanted.into_iter().flatten().map(name).collect()));
        }
        all.iter().filter(|touched| wanted.contains(&touched.tag)).for_each(|touched| whole.add(touched));
        let by_function = &process.patterns.by_function;
        for TouchedBy { function, touched } in by_function.iter().filter(|by| wanted.contains(&by.touched.tag)) {
            let unknown = || Key { name: UNKNOWN.to_owned(), ..Key::default() };
            let key = function.map_or_else(unknown, |function| Key::of_function(&process.places, function));
            functions.entry(key).or_default().add(touched);
        }
    }
    let functions = functions.into_iter().map(|(key, sum)| (key, sum.footprint(None))).collect();
    Ok(recorded().next().map(|_| ByFunction { whole: whole.footprint(None), functions }))
}

/// `counts`: bytes by how often they were touched, `all` times in all.
fn covering(counts: &BTreeMap<u64, u64>, all: u64) -> Vec<Cover> {
    let cover = |percent: u32| {
        let wanted = (u128::from(all) * u128::from(percent)).div_ceil(100) as u64;
        let (mut bytes, mut have) = (0, 0);
        for (&times, &there) in counts.iter().rev() {
            let more = (wanted - have).div_ceil(times).min(there);
            bytes += more;
            have = wanted.min(have + more * times);
        }
        Cover { percent, bytes }
    };
    PERCENT.map(cover).to_vec()
}

/// How far accesses are from the one before of the same instruction and thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StrideCounts {
    /// All of them; the sum of the others.
    pub accesses: u64,
    /// At the same address.
    pub zero: u64,
    /// So many words forward, a word being as long as the access: 1 to 64, by number, none that did not occur.
    pub forward: BTreeMap<u8, u64>,
    /// Forward by anything else.
    pub other: u64,
    /// Backward.
    pub backward: u64,
    /// The first of their instruction in a thread.
    pub first: u64,
}

impl StrideCounts {
    fn add(&mut self, counts: &[(u8, u64)]) {
        for &(stride, count) in counts {
            self.accesses += count;
            match stride {
                0 => self.zero += count,
                Strides::OTHER => self.other += count,
                Strides::BACKWARD => self.backward += count,
                Strides::FIRST => self.first += count,
                words => *self.forward.entry(words).or_default() += count,
            }
        }
    }
}

/// The loads or stores of one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StrideSite {
    /// Name of the function that it was compiled into; "(unknown)" if nothing is known.
    pub function: String,
    /// Path of the source file; "" if unknown.
    pub file: String,
    /// 0 if unknown.
    pub line: u32,
    /// 0 if unknown.
    pub column: u32,
    /// `load` or `store`.
    pub kind: &'static str,
    /// Of each access: the word that strides are counted in.
    pub bytes: u32,
}

impl StrideSite {
    fn new(places: &Places, strides: &Strides) -> Self {
        let kind = if strides.store { "store" } else { "load" };
        let unknown =
            Self { function: UNKNOWN.to_owned(), file: String::new(), line: 0, column: 0, kind, bytes: strides.bytes };
        let found = strides.site.and_then(|index| Some((index, places.sites.get(index as usize)?)));
        let Some((index, site)) = found else { return unknown };
        let function = places.functions.get(places.compiled_into(index) as usize);
        let function = function.map_or(unknown.function, |function| places.string(function.display).to_owned());
        Self { function, file: places.string(site.file).to_owned(), line: site.line, column: site.column, ..unknown }
    }
}

/// The strides of the loads and stores of each place under any of `tags`, or under all if there are none; empty if they were not
/// recorded.
#[must_use]
pub fn strides(profile: &Profile, tags: &[String]) -> BTreeMap<StrideSite, StrideCounts> {
    let mut all: BTreeMap<_, StrideCounts> = BTreeMap::new();
    let of = |process: &Process, strides: &Strides| is_wanted(process, tags, strides.tag);
    for process in &profile.processes {
        for strides in process.patterns.strides.iter().filter(|strides| of(process, strides)) {
            all.entry(StrideSite::new(&process.places, strides)).or_default().add(&strides.counts);
        }
    }
    all
}

/// The sum of several.
#[must_use]
pub fn total<'a>(all: impl IntoIterator<Item = &'a StrideCounts>) -> StrideCounts {
    let mut sum = StrideCounts::default();
    for StrideCounts { accesses, zero, forward, other, backward, first } in all {
        sum.accesses += accesses;
        sum.zero += zero;
        sum.other += other;
        sum.backward += backward;
        sum.first += first;
        forward.iter().for_each(|(&words, &count)| *sum.forward.entry(words).or_default() += count);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::{Patterns, places::Function};
    use proptest::prelude::*;

    /// A tag, and pairs of touches and bytes.
    type Part<'a> = (Option<u32>, &'a [(u64, u64)]);

    fn process(tags: &[&str], touched: &[Part<'_>]) -> Process {
        let touched = touched.iter().map(|&(tag, touches)| {
            let bytes = touches.iter().map(|pair| pair.1).sum();
            Touched { tag, bytes, touches: touches.to_vec(), missing: 0 }
        });
        Process {
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            patterns: Patterns { touched: touched.collect(), ..Patterns::default() },
            ..Process::default()
        }
    }

    proptest! {
        #[test]
        fn the_fewest_bytes_that_have_so_many_touches(mut touches in proptest::collection::vec(1..40_u64, 1..60)) {
            let mut counts = BTreeMap::new();
            touches.iter().for_each(|&times| *counts.entry(times).or_default() += 1);
            let all: u64 = touches.iter().sum();
            touches.sort_unstable_by_key(|&times| std::cmp::Reverse(times));
            for Cover { percent, bytes } in covering(&counts, all) {
                let has = |bytes: u64| touches[..bytes as usize].iter().sum::<u64>() * 100 >= all * u64::from(percent);
                prop_assert!(has(bytes) && !has(bytes - 1), "{percent} % in {bytes} bytes of {touches:?}");
            }
        }
    }

    #[test]
    fn processes_are_added_up_by_the_names_of_tags() {
        let profile = Profile {
            processes: vec![
                process(&["", "a"], &[(None, &[(1, 4), (5, 1)]), (Some(0), &[(1, 3)]), (Some(1), &[(1, 1), (5, 1)])]),
                process(&["", "b", "a"], &[(None, &[(1, 4)]), (Some(2), &[(1, 4)])]),
            ],
        };
        let bytes = |tags: &[&str]| -> Vec<_> {
            let tags: Vec<_> = tags.iter().map(|&tag| tag.to_owned()).collect();
            footprints(&profile, &tags).into_iter().map(|one| (one.tag, one.bytes, one.touches)).collect()
        };
        let tag = |name: &str| Some(name.to_owned());
        assert_eq!(bytes(&[]), [(None, 9, Some(13)), (tag(""), 3, Some(3)), (tag("a"), 6, Some(10))]);
        assert_eq!(bytes(&["a"]), [(tag("a"), 6, Some(10))]);
        assert_eq!(footprints(&Profile::default(), &[]), []);
    }

    #[test]
    fn without_tags_there_is_the_whole_only() {
        let profile = Profile { processes: vec![process(&[""], &[(None, &[(2, 2)]), (Some(0), &[(2, 2)])])] };
        let [only] = footprints(&profile, &[]).try_into().unwrap();
        assert_eq!((only.tag, only.bytes, only.touches), (None, 2, Some(4)));
    }

    #[test]
    fn functions_of_all_processes_are_added_up_by_name() {
        let strings = ["", "f", "g"].map(str::to_owned).to_vec();
        let function = |name| Function { name, display: name, file: 0, line: 3 };
        let by = |function, tag, bytes| TouchedBy {
            function,
            touched: Touched { tag, bytes, missing: bytes, ..Touched::default() },
        };
        let with = |process: Process, functions: Vec<Function>, by_function: Vec<TouchedBy>| Process {
            places: Places { strings: strings.clone(), functions, ..Places::default() },
            patterns: Patterns { by_function, ..process.patterns },
            ..process
        };
        let all = [(None, &[(1, 8)][..]), (Some(0), &[(1, 8)]), (Some(1), &[(1, 5)])];
        let by_tag = vec![by(None, None, 2), by(Some(0), None, 8), by(Some(0), Some(0), 8), by(Some(0), Some(1), 5)];
        let profile = Profile {
            processes: vec![
                with(process(&["", "a"], &all), vec![function(1)], by_tag),
                with(process(&[""], &all[..2]), vec![function(2), function(1)], vec![by(Some(1), None, 3)]),
                // One that did not tell functions apart.
                process(&[""], &all[..2]),
            ],
        };
        let bytes = |tags: &[&str]| {
            let tags: Vec<_> = tags.iter().map(|&tag| tag.to_owned()).collect();
            let found = by_function(&profile.processes, &tags)?.unwrap();
            let functions = found.functions.into_iter().map(|(key, found)| (key.name, found.bytes, found.missing));
            Ok((found.whole.bytes, functions.collect::<Vec<_>>()))
        };
        let f = |bytes| ("f".to_owned(), bytes, bytes);
        assert_eq!(bytes(&[]), Ok((16, vec![(UNKNOWN.to_owned(), 2, 2), f(11)])));
        assert_eq!(bytes(&["a"]), Ok((5, vec![f(5)])));
        assert_eq!(bytes(&["", "a"]), Err(SeveralTags(vec!["``".to_owned(), "`a`".to_owned()])));
        assert_eq!(by_function(&profile.processes[2..], &[]), Ok(None));
    }

    #[test]
    fn every_access_has_one_stride() {
        let mut counts = StrideCounts::default();
        counts.add(&[(0, 1), (1, 2), (64, 4), (Strides::OTHER, 8), (Strides::BACKWARD, 16), (Strides::FIRST, 32)]);
        assert_eq!(counts.accesses, 63);
        assert_eq!((counts.zero, counts.other, counts.backward, counts.first), (1, 8, 16, 32));
        assert_eq!(counts.forward, BTreeMap::from([(1, 2), (64, 4)]));
        let twice = total([&counts, &counts]);
        assert_eq!((twice.accesses, twice.forward[&64]), (126, 8));
    }
}

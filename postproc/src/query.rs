//! A hierarchy of caches against a profile: section 4 of the model, over threads and processes.

use crate::{
    answer::{self, Answer, Context, LevelAnswer, LevelCounts, UnitCounts},
    counters,
    error::{QueryError, SpecError},
    phases::is_meant,
    share::{self, Share, ShareError},
    spec::{Cache, Scope, Shape},
    stack::{Counts, Figure},
    units::{self, Unit, UnitOf},
};
use bf_profile::{Process, Profile};

/// What is asked of a profile.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The hierarchy, nearest level first.
    pub levels: Vec<Cache>,
    /// Count only references under these tags; empty: all.
    pub tags: Vec<String>,
    /// Tell the threads of private levels apart.
    pub by_thread: bool,
    /// Threads of shared levels divided into groups; a level without has one cache for all.
    pub shares: Vec<Share>,
}

/// What the hierarchy does with the references of the profile. Every process is taken alone, with a hierarchy of its
/// own, and the answers are added up.
///
/// # Errors
/// A cache that cannot be, or a question that the profile was not recorded for.
pub fn query(profile: &Profile, query: &Query) -> Result<Answer, QueryError> {
    let shapes = shapes(profile, &query.levels)?;
    check(profile, query)?;
    let capacities = capacities(&shapes);
    let mut processes = Vec::new();
    for process in &profile.processes {
        let mut levels = Vec::new();
        for (shape, &capacity) in shapes.iter().zip(&capacities) {
            let share = query.shares.iter().find(|share| share.level == shape.name);
            levels.push(units::count(process, shape, capacity, share, &query.tags)?);
        }
        let levels: Vec<_> = levels.iter().map(Option::as_deref).collect();
        processes.push(chain(process, &shapes, &levels)?);
    }
    Ok(answer(profile, &shapes, query, &processes))
}

/// The answer, from what each process has of it.
pub(crate) fn answer(profile: &Profile, shapes: &[Shape], query: &Query, processes: &[ProcessCounts]) -> Answer {
    let references = [0, 1].map(|kind| processes.iter().map(|process| process.references[kind]).sum::<u64>());
    let last = shapes.len() - 1;
    let levels = shapes.iter().enumerate().map(|(index, shape)| {
        let each: Vec<&LevelCounts> = processes.iter().map(|process| &process.levels[index]).collect();
        let mut sum = LevelCounts::none();
        each.iter().for_each(|level| sum.add(level));
        let context = Context {
            all: references[0] + references[1],
            first: index == 0,
            last: index == last,
            by_thread: query.by_thread,
            max_set_bits: max_set_bits(profile, shape.line),
            spread: answer::spread(shape.line, &each),
        };
        LevelAnswer::new(shape, &sum, context)
    });
    Answer {
        schema: answer::SCHEMA,
        profiles: Vec::new(),
        machine: None,
        tags: query.tags.clone(),
        processes: processes.len(),
        accesses: profile.processes.iter().map(|process| process.meta.accesses).sum(),
        references: references[0] + references[1],
        load_references: references[0],
        store_references: references[1],
        levels: levels.collect(),
    }
}

/// Line sizes that the profile holds, ascending.
#[must_use]
pub fn line_sizes(profile: &Profile) -> Vec<u32> {
    let mut sizes: Vec<u32> = profile.processes.iter().flat_map(Process::line_sizes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The most that every process with lines of this size keeps.
fn max_set_bits(profile: &Profile, line: u32) -> u32 {
    let lines = profile.processes.iter().flat_map(|process| &process.lines);
    lines.filter(|data| data.line_bytes == line).map(|data| data.max_set_bits).min().unwrap_or(0)
}

/// The caches that the profile can tell about, and why it cannot about the others.
#[must_use]
pub fn answerable(profile: &Profile, caches: &[Cache]) -> (Vec<Cache>, Vec<QueryError>) {
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for cache in caches {
        match query(profile, &Query { levels: vec![cache.clone()], ..Query::default() }) {
            Err(error @ QueryError::Sampled { .. }) => refused.push(error),
            _ => kept.push(cache.clone()),
        }
    }
    (kept, refused)
}

/// The caches with everything settled, or what is wrong with the hierarchy.
pub(crate) fn shapes(profile: &Profile, caches: &[Cache]) -> Result<Vec<Shape>, QueryError> {
    let available = line_sizes(profile);
    if caches.is_empty() {
        return Err(QueryError::NoLevels);
    }
    if available.is_empty() {
        if counters::any(profile) {
            return Err(QueryError::CountersOnly);
        }
        let log = profile.processes.iter().flat_map(|process| &process.log).next();
        return Err(QueryError::Empty(log.map_or_else(String::new, |line| format!(": {line}"))));
    }
    check_order(caches)?;
    Ok(caches.iter().map(|cache| cache.shape(&available)).collect::<Result<_, _>>()?)
}

/// Names differ and levels go from private to shared.
///
/// # Errors
/// The first level that breaks the rule.
pub fn check_order(caches: &[Cache]) -> Result<(), SpecError> {
    for (index, cache) in caches.iter().enumerate() {
        if caches[..index].iter().any(|other| other.name == cache.name) {
            return Err(SpecError::Name(cache.name.clone()));
        }
        if index > 0 && cache.scope == Scope::Private && caches[index - 1].scope == Scope::Shared {
            return Err(SpecError::PrivateBelowShared(cache.name.clone()));
        }
    }
    Ok(())
}

/// A process's part of the answer.
pub(crate) struct ProcessCounts {
    references: [u64; 2],
    pub(crate) levels: Vec<LevelCounts>,
}

/// Lines that each level is taken to hold: its own, or with those above it if it is exclusive.
pub(crate) fn capacities(shapes: &[Shape]) -> Vec<u64> {
    let mut above = 0;
    let capacities = shapes.iter().map(|shape| {
        above += shape.size;
        (if shape.exclusive { above } else { shape.size }) / u64::from(shape.line)
    });
    capacities.collect()
}

/// Whether references under this tag are asked about.
pub(crate) fn is_wanted(process: &Process, tags: &[String], tag: u32) -> bool {
    tags.is_empty() || process.tags.get(tag as usize).is_some_and(|name| tags.iter().any(|asked| is_meant(name, asked)))
}

/// Whether the divisions fit the hierarchy and the tags are in the profile.
fn check(profile: &Profile, query: &Query) -> Result<(), QueryError> {
    let Query { tags, shares, levels, .. } = query;
    share::check(shares, levels)?;
    if let (Some(share), false) = (shares.first(), tags.is_empty()) {
        return Err(ShareError::Tagged(share.level.clone()).into());
    }
    check_tags(profile, tags)
}

/// Whether the tags are in the profile.
///
/// # Errors
/// The first that is not.
pub fn check_tags(profile: &Profile, tags: &[String]) -> Result<(), QueryError> {
    let there = profile.processes.iter().flat_map(|process| &process.tags);
    match tags.iter().find(|asked| !there.clone().any(|tag| is_meant(tag, asked))) {
        Some(tag) => Err(QueryError::Tag { tag: tag.clone(), available: tag_names(profile) }),
        None => Ok(()),
    }
}

/// What the levels do one below the other, from what each does with all references.
pub(crate) fn chain(
    process: &Process,
    shapes: &[Shape],
    levels: &[Option<&[UnitOf]>],
) -> Result<ProcessCounts, QueryError> {
    let mut above: Vec<UnitOf> = Vec::new();
    let mut answer = ProcessCounts { references: [0, 0], levels: Vec::new() };
    for (index, (shape, caches)) in shapes.iter().zip(levels).enumerate() {
        let Some(caches) = caches else {
            answer.levels.push(LevelCounts::none());
            continue;
        };
        let (mut level, mut below) = (LevelCounts::none(), Vec::new());
        let several = shape.scope == Scope::Private && caches.iter().any(|(unit, _)| unit.several);
        for (unit, counts) in *caches {
            let mut counts = counts.clone();
            let (accesses, clamped) = match misses_above(&above, unit, shape)? {
                None => (counts.references, false),
                Some(accesses) => (accesses, clamp(&mut counts, accesses)),
            };
            if index == 0 {
                add(&mut answer.references, counts.references);
            }
            let accesses = accesses.iter().sum();
            let one = UnitCounts { pid: process.meta.pid, slots: unit.slots.clone(), accesses, counts };
            below.push((unit.clone(), one.counts.clone()));
            level.add(&LevelCounts::of(one, clamped, several));
        }
        answer.levels.push(level);
        above = below;
    }
    Ok(answer)
}

/// Names of all tags, for an error message.
fn tag_names(profile: &Profile) -> String {
    let mut names: Vec<&str> = profile
        .processes
        .iter()
        .flat_map(|process| &process.tags)
        .map(String::as_str)
        .filter(|n| !n.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Misses, by loads and stores, that reach a level's cache from the level above; `None` at the first level.
fn misses_above(above: &[UnitOf], unit: &Unit, shape: &Shape) -> Result<Option<[u64; 2]>, ShareError> {
    if above.is_empty() {
        return Ok(None);
    }
    let mut sum = [0, 0];
    for (other, counts) in above {
        let here = other.slots.iter().filter(|slot| unit.slots.contains(slot)).count();
        if here == other.slots.len() {
            add(&mut sum, counts.misses.map(|figure| figure.value));
        } else if here > 0 {
            return Err(ShareError::Torn { level: shape.name.clone() });
        }
    }
    Ok(Some(sum))
}

fn add(sum: &mut [u64; 2], other: [u64; 2]) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

/// Cuts misses down to the accesses that reach the level, and says whether there was something to cut.
fn clamp(counts: &mut Counts, accesses: [u64; 2]) -> bool {
    let all = accesses[0] + accesses[1];
    let clamped = counts.total().value > all;
    if clamped {
        for (misses, most) in counts.misses.iter_mut().zip(accesses) {
            *misses = Figure { value: most, ..misses.at_most(most) };
        }
        counts.cold = counts.cold.min(all);
        let mut warm = all - counts.cold;
        if let Some(sharing) = &mut counts.sharing {
            sharing.remote = sharing.remote.at_most(all);
            sharing.coherence = sharing.coherence.at_most(warm);
            warm -= sharing.coherence.value;
        }
        counts.capacity = counts.capacity.map(|capacity| capacity.min(warm));
    }
    clamped
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::{Bin, FullHistograms, Histograms, LineData, Meta, Owner, StackData};

    fn loads(distances: &[(u64, u64)], cold: u64) -> Histograms {
        let loads: Vec<Bin> = distances.iter().map(|&(lo, count)| Bin { lo, hi: lo + 1, count }).collect();
        let references = loads.iter().map(|bin| bin.count).sum::<u64>() + cold;
        let full = FullHistograms { loads, ..FullHistograms::default() };
        Histograms { references: [references, 0], cold: [cold, 0], full, sets: vec![] }
    }

    fn process(pid: u32, stacks: Vec<(Owner, u32, Histograms)>) -> Process {
        let stacks = stacks.into_iter().map(|(owner, tag, histograms)| StackData { owner, tag, histograms }).collect();
        Process {
            meta: Meta { pid, ..Meta::default() },
            tags: vec![String::new(), "solve".into()],
            lines: vec![LineData { line_bytes: 64, max_set_bits: 0, max_ways: 64, stacks }],
            ..Process::default()
        }
    }

    fn profile(processes: Vec<Process>) -> Profile {
        Profile { processes }
    }

    fn ask(profile: &Profile, caches: &[&str], tags: &[&str]) -> Result<Answer, QueryError> {
        let levels = caches.iter().map(|cache| cache.parse().unwrap()).collect();
        query(profile, &Query { levels, tags: tags.iter().map(|&tag| tag.to_owned()).collect(), ..Query::default() })
    }

    #[test]
    fn the_golden_example_of_three_levels() {
        // A A B A C B A: distances inf, 0, inf, 1, inf, 2, 2. Capacities 1, 2 and 4 lines.
        let profile = profile(vec![process(1, vec![(Owner::Slot(0), 0, loads(&[(0, 1), (1, 1), (2, 2)], 3))])]);
        let answer = ask(&profile, &["L1=64:full", "L2=128:full", "L3=256:full"], &[]).unwrap();
        let figures: Vec<_> =
            answer.levels.iter().map(|level| (level.references, level.hits, level.misses, level.cold)).collect();
        assert_eq!(figures, [(7, 1, 6, 3), (6, 1, 5, 3), (5, 2, 3, 3)]);
        assert_eq!(answer.levels[2].capacity, Some(0));
        assert!(answer.levels[0].exact && !answer.levels[1].exact);
        assert_eq!(answer.levels[1].approximation, Some("unfiltered"));
        assert_eq!(answer.levels[2].global_miss_ratio, Some(3.0 / 7.0));
    }

    #[test]
    fn a_level_that_misses_more_than_reaches_it_is_clamped() {
        let profile = profile(vec![process(1, vec![(Owner::Slot(0), 0, loads(&[(3, 5)], 2))])]);
        let answer = ask(&profile, &["L1=256:full", "L2=128:full"], &[]).unwrap();
        let level = &answer.levels[1];
        assert_eq!((level.references, level.misses, level.hits, level.clamped), (2, 2, 0, true));
        assert_eq!((level.cold, level.capacity, level.conflict), (2, Some(0), Some(0)));
        assert!(level.note.as_ref().unwrap().contains("clamped"));
    }

    #[test]
    fn private_levels_add_up_threads_and_a_shared_one_takes_the_global_stack() {
        let threads = |tag| {
            vec![
                (Owner::Slot(0), tag, loads(&[(0, 10)], 1)),
                (Owner::Slot(1), tag, loads(&[(5, 10)], 1)),
                (Owner::Global, tag, loads(&[(9, 20)], 2)),
            ]
        };
        let one = profile(vec![process(1, threads(0))]);
        let answer = ask(&one, &["L1=64:full", "L2=320:full:shared"], &[]).unwrap();
        assert_eq!((answer.references, answer.levels[0].misses, answer.levels[0].caches), (22, 1 + 11, 2));
        assert!(answer.levels[0].note.as_ref().unwrap().contains("invalidations"));
        // The shared level alone would miss 22 times, of which only 12 reach it.
        assert_eq!((answer.levels[1].references, answer.levels[1].misses, answer.levels[1].clamped), (12, 12, true));

        let two = profile(vec![process(1, threads(0)), process(2, vec![(Owner::Slot(0), 1, loads(&[(0, 4)], 1))])]);
        let answer = ask(&two, &["L1=64:full"], &[]).unwrap();
        assert_eq!((answer.processes, answer.references, answer.levels[0].misses), (2, 27, 13));
        let spread = answer.levels[0].spread.as_ref().unwrap();
        assert_eq!((spread.misses.min, spread.misses.median, spread.misses.max), (1, 6, 12));

        let answer = ask(&two, &["L1=64:full"], &["solve"]).unwrap();
        assert_eq!((answer.references, answer.levels[0].misses), (5, 1));
        let error = ask(&two, &["L1=64:full"], &["solv"]).unwrap_err().to_string();
        assert!(error.contains("`solv`") && error.contains("solve"), "{error}");
    }

    #[test]
    fn exclusive_levels_hold_what_stands_above_them_too() {
        let profile = profile(vec![process(1, vec![(Owner::Slot(0), 0, loads(&[(2, 5), (3, 1)], 0))])]);
        let answer = ask(&profile, &["L1=64:full", "L2=128:full:exclusive"], &[]).unwrap();
        let level = &answer.levels[1];
        assert_eq!((level.misses, level.approximation, level.exact), (1, Some("approximate"), false));
    }

    #[test]
    fn hierarchies_that_cannot_be_are_refused() {
        let profile = profile(vec![process(1, vec![(Owner::Slot(0), 0, loads(&[(2, 5)], 0))])]);
        for (caches, word) in [
            (&["L1=64:full", "L1=128:full"][..], "`L1`"),
            (&["L1=64:full:shared", "L2=128:full"], "L2 is private"),
            (&["L1=128:full:128"], "which holds 64"),
            (&[], "no cache"),
        ] {
            let error = ask(&profile, caches, &[]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

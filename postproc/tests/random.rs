//! Random traces against a plain simulation of each cache.

use bf_postproc::{LevelAnswer, Query, query, replay, stack::Model};
use bf_profile::Profile;
use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};
use std::fmt::Write;

/// Line number and whether it is a store.
type Trace = Vec<(u64, bool)>;

/// What a simulated cache counts.
#[derive(Debug, Default, PartialEq)]
struct Simulated {
    misses: [u64; 2],
    writebacks: u64,
    resident_dirty: u64,
    hits: Vec<bool>,
}

/// A write-back, write-allocate LRU cache.
fn simulate(trace: &Trace, sets: u64, ways: usize) -> Simulated {
    let mut cache: Vec<Vec<(u64, bool)>> = vec![Vec::new(); usize::try_from(sets).unwrap()];
    let mut counts = Simulated::default();
    for &(line, store) in trace {
        let set = &mut cache[usize::try_from(line % sets).unwrap()];
        let found = set.iter().position(|&(other, _)| other == line);
        let dirty = found.is_some_and(|at| set.remove(at).1);
        counts.hits.push(found.is_some());
        counts.misses[usize::from(store)] += u64::from(found.is_none());
        set.insert(0, (line, dirty || store));
        if set.len() > ways {
            counts.writebacks += u64::from(set.pop().is_some_and(|(_, dirty)| dirty));
        }
    }
    counts.resident_dirty = cache.iter().flatten().filter(|(_, dirty)| *dirty).count() as u64;
    counts
}

fn profile(trace: &Trace, max_set_bits: u32) -> Profile {
    let mut text = String::new();
    for (line, store) in trace {
        writeln!(text, "{} {:x} 1", if *store { 'w' } else { 'r' }, line * 64).unwrap();
    }
    let options = replay::Options { max_set_bits: Some(max_set_bits), max_ways: Some(8), ..replay::Options::default() };
    replay::replay(text.as_bytes(), "random", 0, &options).unwrap().profile
}

fn ask(profile: &Profile, sets: u64, ways: usize) -> LevelAnswer {
    let cache = format!("L={}:{ways}", sets * ways as u64 * 64);
    query(profile, &Query { levels: vec![cache.parse().unwrap()], ..Query::default() }).unwrap().levels.remove(0)
}

/// Mostly few lines that come again, in strides that make sets collide.
fn traces() -> impl Strategy<Value = Trace> {
    let line = (0u64..40, prop::sample::select(vec![1u64, 4, 16])).prop_map(|(line, stride)| line * stride);
    prop::collection::vec((line, prop::bool::weighted(0.3)), 1..400)
}

proptest! {
    #[test]
    fn every_figure_is_the_simulation_s(trace in traces(), bits in 0u32..=6, ways in 1usize..=8) {
        let sets = 1 << bits;
        let expected = simulate(&trace, sets, ways);
        let level = ask(&profile(&trace, 6), sets, ways);
        prop_assert_eq!([level.load_misses, level.store_misses], expected.misses);
        prop_assert_eq!(level.writebacks.zip(level.resident_dirty), Some((expected.writebacks, expected.resident_dirty)));
        prop_assert!(level.exact && level.model == Model::Lru);
        // Hits that the fully associative cache of the same size would not have, counted reference by reference.
        let full = simulate(&trace, 1, ways << bits);
        let beyond = expected.hits.iter().zip(&full.hits).filter(|(here, there)| **here && !**there).count() as u64;
        prop_assert_eq!(level.hits_beyond_full, Some(beyond));
        let both = expected.hits.iter().zip(&full.hits).filter(|(here, there)| !**here && !**there).count() as u64;
        prop_assert_eq!(level.capacity, Some(both - level.cold));
        prop_assert_eq!(level.conflict, Some(level.misses - both));
    }

    #[test]
    fn bounds_hold_where_the_profile_has_too_few_sets(trace in traces(), kept in 0u32..=4, more in 1u32..=3, ways in 1usize..=8) {
        let sets = 1 << (kept + more);
        let expected = simulate(&trace, sets, ways);
        let level = ask(&profile(&trace, kept), sets, ways);
        let misses: u64 = expected.misses.iter().sum();
        match level.bounds {
            Some([lo, hi]) => {
                prop_assert!(level.model == Model::Bounded && !level.exact);
                prop_assert!((lo..=hi).contains(&misses) && (lo..=hi).contains(&level.misses));
            }
            None => {
                prop_assert!(level.exact);
                prop_assert_eq!([level.load_misses, level.store_misses], expected.misses);
                prop_assert_eq!((level.capacity, level.conflict), (Some(0), Some(0)));
            }
        }
        match level.writeback_bounds {
            Some([lo, hi]) => prop_assert!((lo..=hi).contains(&expected.writebacks)),
            None => prop_assert_eq!(level.writebacks, Some(expected.writebacks)),
        }
    }
}

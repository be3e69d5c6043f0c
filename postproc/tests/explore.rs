//! Design spaces against one query a hierarchy.

use bf_postproc::{
    Cache, Query,
    explore::{Budget, Goal, LevelRange, Objective, Space, Table, Wanted, objective::Figures, search::Search, study},
    query, replay,
};
use bf_profile::{Profile, merge};
use proptest::prelude::{ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, proptest};
use std::convert::Infallible;

/// Number, candidates, figures and objective of a hierarchy.
type Seen = (u64, Vec<usize>, Vec<Figures>, Option<f64>);

/// Thread, line number and whether it is a store.
type Trace = Vec<(u32, u64, bool)>;

fn profile(trace: &Trace, pid: u32) -> Profile {
    let accesses = trace
        .iter()
        .map(|(thread, line, store)| format!("[{thread},{},4,\"{}\"]", line * 64, if *store { 'w' } else { 'r' }));
    let text = format!("{{\"threads\":3,\"trace\":[{}]}}", accesses.collect::<Vec<_>>().join(","));
    let options = replay::Options {
        line_sizes: Some(vec![64, 128]),
        max_set_bits: Some(4),
        max_ways: Some(8),
        ..replay::Options::default()
    };
    let mut profile = replay::replay(text.as_bytes(), "random", 0, &options).unwrap().profile;
    profile.processes[0].meta.pid = pid;
    profile
}

/// Mostly few lines that come again, in strides that make sets collide, by up to three threads.
fn traces(threads: u32) -> impl Strategy<Value = Trace> {
    let line = (0u64..40, prop::sample::select(vec![1u64, 4, 16])).prop_map(|(line, stride)| line * stride);
    prop::collection::vec((0..threads, line, prop::bool::weighted(0.3)), 1..150)
}

fn ranges(texts: &[&str]) -> Vec<LevelRange> {
    texts.iter().enumerate().map(|(at, text)| LevelRange::parse(at + 1, text).unwrap()).collect()
}

/// Spaces that meet every rule: clamped levels, hashed and bounded set counts, both line sizes, both scopes, exclusive levels.
const SPACES: [&[&str]; 4] = [
    &["256..1K:1,2,full:64", "512..2K:2,4:64:private,shared", "1K..8K:4:64,128:shared"],
    &["256..512:2:64,128", "1K..4K+512:2,3,8:64:shared:hashed"],
    &["128..1K:1..4:64", "512..1K:2,8:64:exclusive", "2K..8K:8,64:64:shared:exclusive"],
    &["64..4K:1,2,4,full:128"],
];

fn goal() -> Goal {
    let costs = "[level.L1]\nconstant=1\nper_way=0.1\n[level.L2]\nper_kib=2\n[level.L3]\nconstant=3\nper_kib=0.5";
    Goal {
        latency: Some(Table::accesses(&format!("memory=100\n{costs}"), "latency").unwrap()),
        energy: Some(Table::accesses(&format!("memory=50\n{costs}"), "energy").unwrap()),
        budgets: vec![Budget::parse(&format!("limit=9\n{costs}"), "area", "area").unwrap()],
        limits: vec![],
    }
}

/// Number and answer of every hierarchy that the budget allows, by plain queries in the order of the space.
fn brute(profile: &Profile, space: &Space<'_>, goal: &Goal) -> Vec<(u64, Vec<Cache>, bf_postproc::Answer)> {
    let mut all = Vec::new();
    for index in 0..space.len().unwrap() {
        let caches = space.caches(&space.picks(index));
        if caches.windows(2).any(|pair| pair[1].size < pair[0].size) {
            continue;
        }
        let Ok(answer) = query(profile, &Query { levels: caches.clone(), ..Query::default() }) else { continue };
        let area = study::value(&answer, &caches, goal, &"area".parse().unwrap()).unwrap().unwrap();
        if area <= 9.0 {
            all.push((index, caches, answer));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_hierarchy_is_answered_as_a_query_is(
        one in traces(1), several in traces(3), other in traces(2), which in 0usize..3, space in 0usize..4,
    ) {
        let profile = match which {
            0 => profile(&one, 1),
            1 => profile(&several, 1),
            _ => merge([profile(&several, 1), profile(&one, 2), profile(&other, 3)]),
        };
        let goal = goal();
        let space = Space::new(&profile, &ranges(SPACES[space]), &[]).unwrap();
        let search = Search::new(&space, &goal).unwrap();
        let expected = brute(&profile, &space, &goal);
        let mut at = 0;
        for objective in ["misses", "amat", "energy", "traffic", "misses:L1"] {
            let objective: Objective = objective.parse().unwrap();
            let mut found: Vec<Seen> = Vec::new();
            let counts = search.all(&objective, &|_| {}, |all: &mut Vec<_>, one, hierarchy| {
                all.push((one.index, hierarchy.picks.to_vec(), hierarchy.figures.to_vec(), one.objective));
            }, |all| { found.extend(all); Ok::<_, Infallible>(()) }).unwrap();
            prop_assert_eq!(counts.allowed, found.len() as u64);
            let all = counts.allowed + counts.over + counts.unknown + counts.impossible;
            prop_assert_eq!(all, space.len().unwrap());
            prop_assert_eq!(counts.allowed + counts.unknown, expected.len() as u64);
            let mut values: Vec<f64> = Vec::new();
            let known = expected.iter().filter_map(|(index, caches, answer)| {
                let value = study::value(answer, caches, &goal, &objective).unwrap()?;
                Some((index, answer, value))
            });
            for ((index, answer, value), one) in known.zip(&found) {
                prop_assert_eq!((*index, Some(value)), (one.0, one.3));
                let figures: Vec<Figures> = answer.levels.iter().map(Figures::from).collect();
                prop_assert_eq!(&figures, &one.2);
                // The answer that is printed, every figure of it; not for each hierarchy, which would take long.
                at += 1;
                if at % 7 == 0 {
                    let here = serde_json::to_value(space.answer(&one.1).unwrap()).unwrap();
                    prop_assert_eq!(here, serde_json::to_value(answer).unwrap());
                }
                values.push(value);
            }
            // The best ones and the front.
            let wanted = Wanted { objective: objective.clone(), top: 5, front: vec![objective, "size".parse().unwrap()] };
            let outcome = search.best(&wanted, &|_| {});
            prop_assert_eq!(outcome.counts, counts);
            values.sort_by(f64::total_cmp);
            let best: Vec<f64> = outcome.best.iter().filter_map(|one| one.objective).collect();
            prop_assert_eq!(&best, &values[..values.len().min(5)]);
            let points: Vec<[f64; 2]> = found.iter().map(|one| {
                [one.3.unwrap(), one.2.iter().map(|level| level.size).sum::<u64>() as f64]
            }).collect();
            let bettered = |point: &[f64; 2]| points.iter().any(|other| other != point && other[0] <= point[0] && other[1] <= point[1]);
            let mut front: Vec<[f64; 2]> = points.iter().copied().filter(|point| !bettered(point)).collect();
            front.sort_by(|a, b| a[0].total_cmp(&b[0]));
            front.dedup();
            let seen: Vec<[f64; 2]> = outcome.front.iter().map(|one| [one.front[0], one.front[1]]).collect();
            prop_assert_eq!(seen, front);
        }
        prop_assert!(at > 0 || expected.is_empty());
    }
}

#[test]
fn a_tag_counts_only_its_references_and_an_unknown_one_is_refused() {
    let profile = profile(&vec![(0, 1, false), (0, 2, true)], 1);
    let error = Space::new(&profile, &ranges(&["256:2:64"]), &["solve".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("`solve`"), "{error}");
}

#[test]
fn caches_that_cannot_be_are_skipped_and_say_why() {
    let profile = profile(&vec![(0, 1, false), (0, 2, true)], 1);
    let space = Space::new(&profile, &ranges(&["64..1K:2,16:64"]), &[]).unwrap();
    // Two ways need 128 bytes; 16 ways need 1K, which is one set.
    assert_eq!((space.len(), space.skipped), (Some(4 + 1), 5));
    assert!(space.skipped_because.as_ref().unwrap().contains("64 cannot be cut"));
    let error = Space::new(&profile, &ranges(&["4K:16:64"]), &[]).unwrap_err().to_string();
    assert!(error.contains("BF_MAX_WAYS=16"), "{error}");
    let error = Space::new(&profile, &ranges(&["4K:8:256"]), &[]).unwrap_err().to_string();
    assert!(error.contains("256") && error.contains("64, 128"), "{error}");
}

#[test]
fn what_doubles_best_comes_first() {
    // Ten passes over 16 lines: L1 has 8 of them, L2 has 8 too. Twice the L2 holds everything.
    let trace: Trace = (0..160).map(|at| (0, at % 16, false)).collect();
    let profile = profile(&trace, 1);
    let caches: Vec<Cache> = ["L1=256:full:64", "L2=512:full:64"].iter().map(|cache| cache.parse().unwrap()).collect();
    let doubled = study::sensitivity(&profile, &caches, &[], &Goal::default(), &Objective::Misses(None)).unwrap();
    let seen: Vec<_> = doubled.iter().map(|one| (one.level.as_str(), one.property, one.objective)).collect();
    assert_eq!(seen, [("L2", "size", Some(16.0)), ("L1", "size", Some(160.0))]);
    assert_eq!(doubled[0].change, Some(16.0 / 160.0 - 1.0));
}

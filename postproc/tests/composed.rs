//! Groups of threads under several shared caches: composed from the whole run, against a replay of each group alone.

use bf_postproc::{Answer, Query, query, replay};
use bf_profile::Profile;
use std::fmt::Write;

/// Thread, line, store.
type Trace = Vec<(u32, u64, bool)>;

fn profile(trace: &Trace, threads: &[u32]) -> Profile {
    let mut text = String::new();
    let own = trace.iter().filter(|(thread, ..)| threads.contains(thread));
    let rows = own
        .map(|&(thread, line, store)| format!("[{thread}, {}, 8, \"{}\"]", line * 64, if store { 'w' } else { 'r' }));
    write!(text, "{{\"threads\": 64, \"trace\": [{}]}}", rows.collect::<Vec<_>>().join(",")).unwrap();
    replay::replay(text.as_bytes(), "trace", 0, &replay::Options::default()).unwrap().profile
}

fn ask(profile: &Profile, cache: &str, share: Option<&str>) -> Answer {
    let shares = share.map(|share| share.parse().unwrap()).into_iter().collect();
    query(profile, &Query { levels: vec![format!("L3={cache}").parse().unwrap()], shares, ..Query::default() }).unwrap()
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Eight threads at an even pace; `line` says where a thread goes at a step, and whether it stores.
fn threads(steps: u64, line: impl Fn(u32, u64, u64) -> (u64, bool)) -> Trace {
    let mut state = 1;
    let each = (0..steps * 8).map(|i| {
        let thread = (i % 8) as u32;
        let (line, store) = line(thread, i / 8, random(&mut state));
        (thread, line, store)
    });
    each.collect()
}

/// Fully associative caches, and others, whose lines do not fall into sets at random.
const CACHES: [[&str; 3]; 2] =
    [["8K:full:shared", "32K:full:shared", "128K:full:shared"], ["32K:8:shared", "128K:16:shared", "512K:16:shared"]];

/// The greatest differences of a miss ratio from the one of the group alone, over [`CACHES`].
fn errors(name: &str, trace: &Trace) -> [f64; 2] {
    let whole = profile(trace, &(0..8).collect::<Vec<_>>());
    let groups: [&[u32]; 2] = [&[0, 1, 2, 3], &[4, 5, 6, 7]];
    let alone = groups.map(|threads| profile(trace, threads));
    CACHES.map(|caches| {
        let mut worst = 0.0;
        for cache in caches {
            let level = ask(&whole, cache, Some("L3=0-3,4-7")).levels.remove(0);
            assert_eq!((level.model.name(), level.exact, level.writebacks), ("composed", false, None));
            assert_eq!(level.misses, level.load_misses + level.store_misses);
            for (group, alone) in level.groups.unwrap().iter().zip(&alone) {
                let exact = &ask(alone, cache, None).levels[0];
                assert_eq!(group.references, exact.references);
                let ratio = |misses: u64| misses as f64 / exact.references as f64 * 100.0;
                let (exact, composed) = (ratio(exact.misses), ratio(group.misses));
                println!("{name:8} {cache:17} exact {exact:6.2} % composed {composed:6.2} %");
                worst = f64::max(worst, (exact - composed).abs());
            }
        }
        worst
    })
}

/// Differences in points of a percentage. `docs/threads.md` shows what this test prints.
#[test]
fn groups_come_near_the_stack_of_the_group() {
    let private = |thread: u32| (u64::from(thread) + 1) << 20;
    // Each thread all over its own 64 KiB, of which a part is in use more often.
    let apart = threads(12_000, |thread, _, r| {
        (private(thread) + (if r % 4 == 0 { (r >> 8) % 1024 } else { (r >> 8) % 128 }), r % 5 == 0)
    });
    // Of different sizes.
    let uneven = threads(12_000, |thread, _, r| (private(thread) + (r >> 8) % (64 << thread), false));
    // A table that all read, and own lines.
    let table =
        threads(
            12_000,
            |thread, _, r| if r % 2 == 0 { ((r >> 8) % 2048, false) } else { (private(thread) + (r >> 8) % 256, true) },
        );
    // Loops over own arrays.
    let loops = threads(12_000, |thread, step, _| (private(thread) + step % (100 * u64::from(thread + 1)), false));
    // Lines that all write.
    let written =
        threads(
            12_000,
            |thread, _, r| if r % 8 == 0 { ((r >> 8) % 64, true) } else { (private(thread) + (r >> 8) % 512, false) },
        );
    let traces = [("apart", apart), ("uneven", uneven), ("table", table), ("loops", loops), ("written", written)];
    for (name, trace) in traces {
        let [full, sets] = errors(name, &trace);
        println!("{name:8} at most {full:.2} and {sets:.2}");
        assert!(full <= 1.5 && sets <= 10.0, "{name}: {full} and {sets}");
    }
}

#[test]
fn a_group_of_all_is_the_global_stack_and_groups_nest() {
    let trace = threads(500, |thread, step, _| (u64::from(thread) * 50 + step % 90, step % 7 == 0));
    let whole = profile(&trace, &(0..8).collect::<Vec<_>>());
    let (all, shared) = (ask(&whole, "8K:4:shared", Some("L3=0-7")), ask(&whole, "8K:4:shared", None));
    assert_eq!((all.levels[0].misses, all.levels[0].exact), (shared.levels[0].misses, true));
    let levels = |shares: &[&str]| {
        let levels =
            ["L1=2K:full", "L2=4K:full:shared", "L3=16K:full:shared"].map(|cache| cache.parse().unwrap()).to_vec();
        let shares = shares.iter().map(|share| share.parse().unwrap()).collect();
        query(&whole, &Query { levels, shares, ..Query::default() })
    };
    let answer = levels(&["L2=0-1,2-3,4-5,6-7", "L3=0-3,4-7"]).unwrap();
    let accesses = |level: usize| answer.levels[level].groups.as_ref().unwrap().iter().map(|group| group.references);
    assert_eq!(accesses(1).sum::<u64>(), answer.levels[0].misses);
    assert_eq!(accesses(2).sum::<u64>(), answer.levels[1].misses);
    for (shares, word) in [
        (&["L2=0-1,2-3,4-5,6-7", "L3=0-2,3-7"][..], "whole"),
        (&["L1=0-7"], "L1 is private"),
        (&["L4=0-7"], "`L4`"),
        (&["L2=0-6"], "thread 7 is in no group"),
        (&["L2=0-8"], "there is no thread 8"),
    ] {
        let error = levels(shares).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

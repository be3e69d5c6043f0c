//! Answers from samples: exact where everything is followed, honest where not, refused where they would be guesses.

use bf_collect::{Batch, Bucket, Config, Limits, Sample, Session};
use bf_postproc::{Answer, LevelAnswer, Query, QueryError, query, sampled::Interval};
use bf_profile::{Process, Profile};
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_assert_eq, proptest};
use std::time::Duration;

/// Slot, line number, store.
type Trace = Vec<(u32, u64, bool)>;

fn profile(trace: &Trace, sample: Option<Sample>) -> Profile {
    let limits = Limits { max_set_bits: 12, max_ways: 16 };
    let session = Session::new(Config { limits, sample, ..Config::default() });
    let mut batch = Batch::new();
    for &(slot, line, store) in trace {
        session.ensure_slot(slot);
        batch.clear();
        batch.access(line * 64, 8, store);
        // Every third line goes under another tag.
        session.feed(slot, &batch, Bucket(1 + u8::from(line % 3 == 0)));
    }
    let snapshot = session.snapshot(Duration::from_secs(10));
    let (lines, sampled, tags) = (snapshot.lines, snapshot.sampled, vec![String::new(), "third".into()]);
    let profile = Profile { processes: vec![Process { lines, sampled, tags, ..Process::default() }] };
    profile.validate().unwrap();
    profile
}

fn ask(profile: &Profile, caches: &[&str], tags: &[&str]) -> Result<Answer, QueryError> {
    let levels = caches.iter().zip(1..).map(|(cache, level)| format!("L{level}={cache}").parse().unwrap()).collect();
    query(profile, &Query { levels, tags: tags.iter().map(|&tag| tag.to_owned()).collect(), ..Query::default() })
}

/// What must be the same.
fn figures(level: &LevelAnswer) -> [u64; 9] {
    let LevelAnswer { references, hits, misses, load_misses, store_misses, cold, .. } = *level;
    [
        references,
        hits,
        misses,
        load_misses,
        store_misses,
        cold,
        level.writebacks.unwrap(),
        level.resident_dirty.unwrap(),
        level.traffic_bytes.unwrap(),
    ]
}

fn traces() -> impl Strategy<Value = Trace> {
    prop::collection::vec((0_u32..3, 0_u64..6000, any::<bool>()), 1..1500)
        .prop_map(|all| all.into_iter().map(|(slot, line, store)| (slot, line * line % 8192, store)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With rate 1 all sets are followed: every figure is the exact one, without an interval, for private and shared
    /// caches, for all references and those of a tag.
    #[test]
    fn at_rate_one_the_answer_is_the_exact_one(trace in traces(), tagged: bool) {
        let tags: &[&str] = if tagged && trace.iter().any(|(_, line, _)| line % 3 == 0) { &["third"] } else { &[] };
        // A sample does not tell what private caches of several threads do to each other.
        let alone = trace.iter().map(|&(_, line, store)| (0, line, store)).collect();
        for (trace, caches) in [(&alone, ["16K:4", "32K:2"]), (&trace, ["256K:1:shared", "512K:16:shared"])] {
            let (whole, sampled) = (profile(trace, None), profile(trace, Sample::one_in(0)));
            let (exact, estimate) = (ask(&whole, &caches, tags).unwrap(), ask(&sampled, &caches, tags).unwrap());
            prop_assert_eq!(exact.references, estimate.references);
            for (exact, estimate) in exact.levels.iter().zip(&estimate.levels) {
                prop_assert_eq!(figures(exact), figures(estimate));
                let intervals = estimate.sampled.as_ref().unwrap();
                if !exact.clamped {
                    prop_assert_eq!(intervals.misses, Interval { low: exact.misses, high: exact.misses });
                }
                let writebacks = exact.writebacks.unwrap();
                prop_assert_eq!(intervals.writebacks, Interval { low: writebacks, high: writebacks });
            }
        }
    }
}

/// Loads all over 4 MB with every fifth a store, and a loop over a few lines between.
fn mixed(accesses: u64) -> Trace {
    let mut random = 7_u64;
    let mut trace = Trace::new();
    for i in 0..accesses {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        trace.push(if i % 2 == 0 { (0, (random >> 33) % 65_536, i % 10 == 0) } else { (0, i % 64, false) });
    }
    trace
}

#[test]
fn intervals_hold_the_exact_figures() {
    let trace = mixed(300_000);
    let (whole, sampled) = (profile(&trace, None), profile(&trace, Sample::one_in(4)));
    for cache in ["1M:16", "1M:4", "2M:8", "512K:full", "2M:full", "1.5M:12:hashed", "3.5M:7:hashed"] {
        let (exact, estimate) = (ask(&whole, &[cache], &[]).unwrap(), ask(&sampled, &[cache], &[]).unwrap());
        let (exact, estimate) = (&exact.levels[0], &estimate.levels[0]);
        let intervals = estimate.sampled.as_ref().unwrap();
        let holds = |interval: Interval, count| interval.low <= count && count <= interval.high;
        assert!(holds(intervals.misses, exact.misses), "{cache}: {} not in {:?}", exact.misses, intervals.misses);
        assert!(holds(intervals.cold, exact.cold), "{cache}: {} not in {:?}", exact.cold, intervals.cold);
        let writebacks = (intervals.writebacks, exact.writebacks.unwrap());
        assert!(holds(writebacks.0, writebacks.1), "{cache}: {writebacks:?}");
        // They say something, too.
        assert!(intervals.misses.high - intervals.misses.low < exact.references / 10, "{cache}: {intervals:?}");
        assert_eq!((estimate.references, estimate.exact, intervals.rate), (300_000, false, 1.0 / 16.0));
        assert_eq!(estimate.hits + estimate.misses, estimate.references);
    }
}

#[test]
fn all_misses_and_their_interval_are_one_estimate() {
    // Every line once, a third of them stored at random: of loads and of stores one is estimated to be more than there are.
    let mut trace = mixed(200_000);
    (0..).zip(&mut trace).for_each(|(at, access)| *access = (0, at, access.1 % 3 == 0));
    let sampled = profile(&trace, Sample::one_in(5));
    for cache in ["512K:full", "2M:16"] {
        let level = &ask(&sampled, &[cache], &[]).unwrap().levels[0];
        let holds = |interval: Interval, count| interval.low <= count && count <= interval.high;
        let intervals = level.sampled.as_ref().unwrap();
        assert!(holds(intervals.misses, level.misses), "{cache}: {} {:?}", level.misses, intervals.misses);
        assert!(holds(intervals.cold, level.cold), "{cache}: {} {:?}", level.cold, intervals.cold);
        assert_eq!(level.misses, level.load_misses + level.store_misses);
        let loads = trace.iter().filter(|(_, _, store)| !store).count() as u64;
        assert!(level.load_misses <= loads && level.store_misses <= 200_000 - loads, "{level:?}");
    }
}

/// Each line is new, so all miss: the sample says how many are loads and stores, and that is known.
#[test]
fn intervals_hold_the_estimates_and_end_where_references_do() {
    for seed in 0..8 {
        let is_store = |line: u64| (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed << 40) >> 32 & 3 == 0;
        let trace: Trace = (0..20_000).map(|line| (0, line, is_store(line))).collect();
        let stores = trace.iter().filter(|access| access.2).count() as u64;
        let level = ask(&profile(&trace, Sample::one_in(5)), &["2M:16"], &[]).unwrap().levels.remove(0);
        let sampled = level.sampled.unwrap();
        for (estimate, Interval { low, high }, most) in [
            (level.load_misses, sampled.load_misses, 20_000 - stores),
            (level.store_misses, sampled.store_misses, stores),
            (level.writebacks.unwrap(), sampled.writebacks, stores),
            (level.resident_dirty.unwrap(), sampled.resident_dirty, stores),
        ] {
            assert!(low <= estimate && estimate <= high && high <= most, "{low} {estimate} {high} {most}");
        }
        assert!(level.writebacks.unwrap() + level.resident_dirty.unwrap() <= stores);
    }
}

#[test]
fn what_a_sample_does_not_tell_is_refused_with_the_mend() {
    let sampled = profile(&mixed(1000), Sample::one_in(4));
    let message = |cache| ask(&sampled, &[cache], &[]).unwrap_err().to_string();
    let few = "L1: the profile is a sample of 1 line in 16: ";
    assert_eq!(
        message("32K:8"),
        format!("{few}sets are followed whole from 2^10 sets on, and it has 64; record without BF_SAMPLE")
    );
    assert!(message("256K:8").ends_with("it has 512; record with BF_SAMPLE=1/8"));
    assert_eq!(
        message("64K:full"),
        format!("{few}of its 1024 lines each group of the sample has 8 and needs 32; record with BF_SAMPLE=1/4")
    );
    assert!(message("48K:12:hashed").contains("of its 768 lines"));
    assert!(message("1M:1").ends_with("it has 16384 sets, and up to 2^12 are kept; record with BF_MAX_SET_BITS=14"));
    assert!(message("4M:32").contains("BF_MAX_WAYS=32"));
    // What the message says helps.
    let more = profile(&mixed(1000), Sample::parse("1/8").unwrap());
    assert!(ask(&more, &["256K:8"], &[]).is_ok());
    let more = profile(&mixed(1000), Sample::parse("1/4").unwrap());
    assert!(ask(&more, &["64K:full"], &[]).is_ok());
}

#[test]
fn a_sample_without_groups_is_refused() {
    let mut salvaged = profile(&mixed(1000), Sample::one_in(4));
    salvaged.processes[0].sampled[0].sets.truncate(1);
    let message = ask(&salvaged, &["1M:16"], &[]).unwrap_err().to_string();
    assert!(message.ends_with("too few groups of the sample are left of a damaged profile"), "{message}");
    // Of the other ones half a sample is left, whose groups stand for as much each.
    let whole = ask(&salvaged, &["1M:full"], &[]).unwrap().levels[0].misses;
    salvaged.processes[0].sampled[0].full.truncate(4);
    let half = ask(&salvaged, &["1M:full"], &[]).unwrap().levels[0].misses;
    assert!(half.abs_diff(whole) < whole / 2, "{half} {whole}");
}

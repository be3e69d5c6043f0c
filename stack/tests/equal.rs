//! The fast engine against the plain list walk, on traces that reach every path of it.

use bf_stack::{Bucket, Engine, Instructions, Limits, Plain, Reference, Stack};
use proptest::prelude::*;

/// Batches of references, each with its bucket.
type Trace = Vec<(u8, Vec<(u64, bool)>)>;

/// Every kind of instructions this processor has must count the same.
fn check(trace: &Trace, limits: Limits, fast: Stack) {
    for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
        check_one(trace, limits, fast.clone().with_instructions(instructions));
    }
}

fn check_one(trace: &Trace, limits: Limits, mut fast: Stack) {
    let mut plain = Plain::new(limits);
    for (bucket, references) in trace {
        let references: Vec<_> = references.iter().map(|&(line, store)| Reference::new(line, store)).collect();
        fast.feed(&references, Bucket(*bucket));
        plain.feed(&references, Bucket(*bucket));
    }
    let (got, want) = (fast.histograms(), plain.histograms());
    assert_eq!(got.len(), want.len());
    for ((bucket, got), (other, want)) in got.into_iter().zip(want) {
        assert_eq!(bucket, other);
        assert_eq!((got.references, got.cold), (want.references, want.cold));
        assert_eq!(got.full, want.full, "one set, {limits:?}");
        for (index, (got, want)) in got.sets.iter().zip(&want.sets).enumerate() {
            assert_eq!(got, want, "2^{} sets, {limits:?}", index + 1);
        }
    }
}

fn line() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..24,
        4 => 0u64..400,
        2 => (0u64..200).prop_map(|i| i << 6),
        1 => (0u64..200).prop_map(|i| i << 20 | 5),
        1 => (0u64..100).prop_map(|i| (1 << 57) + i * 4096),
    ]
}

fn walk() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let scattered = prop::collection::vec((line(), prop::bool::weighted(0.3)), 0..300);
    let strided = (line(), 1u64..200, 1u64..130, prop::bool::ANY)
        .prop_map(|(base, stride, count, store)| (0..count).map(|i| (base + i * stride, store)).collect());
    prop_oneof![scattered, strided]
}

fn trace() -> impl Strategy<Value = Trace> {
    prop::collection::vec((prop_oneof![3 => Just(1u8), 1 => 0u8..4], walk()), 1..12)
}

fn limits() -> impl Strategy<Value = Limits> {
    (prop_oneof![4 => 0u32..=9, 1 => 10u32..=18], prop_oneof![Just(1u32), Just(2), Just(64), Just(255), 1u32..100])
        .prop_map(|(max_set_bits, max_ways)| Limits { max_set_bits, max_ways })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn equals_the_plain_walk(trace in trace(), limits in limits()) {
        check(&trace, limits, Stack::new(limits));
    }

    #[test]
    fn a_clock_that_runs_out_changes_nothing(trace in trace(), left in 0i32..200) {
        let limits = Limits { max_set_bits: 7, max_ways: 8 };
        check(&trace, limits, Stack::with_time_left(limits, left));
    }
}

/// A footprint of thousands of lines: the timeline grows and is compacted many times, sets overflow.
#[test]
fn equals_the_plain_walk_on_deep_traces() {
    let limits = Limits { max_set_bits: 10, max_ways: 16 };
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let references = (0..40_000).map(|_| (random(3000), random(4) == 0)).collect();
    let sweep = (0..8000).map(|i| ((i * 7) % 6000, i % 5 == 0)).collect();
    check(&vec![(1, references), (1, sweep)], limits, Stack::new(limits));
}

/// Histograms may be asked for while feeding goes on, and asking changes nothing.
#[test]
fn asking_changes_nothing() {
    let limits = Limits { max_set_bits: 4, max_ways: 4 };
    let references: Vec<_> = (0..1000).map(|i| Reference::new(i * i % 211, i % 3 == 0)).collect();
    let (mut asked, mut quiet) = (Stack::new(limits), Stack::new(limits));
    for part in references.chunks(100) {
        asked.feed(part, Bucket::FIRST);
        quiet.feed(part, Bucket::FIRST);
        assert_eq!(asked.histograms(), asked.histograms());
    }
    assert_eq!(asked.histograms(), quiet.histograms());
}

/// Section 8 of the model: A A B A C B A hits 1, 1, 2 at capacities 1, 2, 4.
#[test]
fn golden_example_of_the_model() {
    let mut fast = Stack::new(Limits { max_set_bits: 0, max_ways: 1 });
    fast.feed(&[0, 0, 1, 0, 2, 1, 0].map(|line| Reference::new(line, false)), Bucket::FIRST);
    let (_, histograms) = fast.histograms().remove(0);
    let counts: Vec<_> = histograms.full.distances[0].iter().map(|bin| (bin.lo, bin.count)).collect();
    assert_eq!((counts, histograms.cold), (vec![(0, 1), (1, 1), (2, 2)], [3, 0]));
}

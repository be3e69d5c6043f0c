//! The engine against caches simulated one at a time: no difference at all.

use std::time::Duration;

use bf_collect::{Access, Batch, Bucket, Config, Limits, Session};
use bf_profile::{Histograms, LineData};
use bf_tests::cases::Case;
use bf_tests::histograms;
use bf_tests::oracle::{Counts, Shape, simulate};
use proptest::prelude::*;

const LINES: [u32; 3] = [32, 64, 128];

/// The line data of a trace for [`LINES`].
fn lines(trace: impl Iterator<Item = (u32, Access)>, limits: Limits) -> Vec<LineData> {
    let session = Session::new(Config { line_sizes: LINES.into(), limits, ..Config::default() });
    let mut batch = Batch::new();
    for (thread, access) in trace {
        batch.clear();
        batch.access(access.address, access.size, access.store);
        session.ensure_slot(thread);
        session.feed(thread, &batch, Bucket::FIRST);
    }
    session.snapshot(Duration::from_secs(10)).lines
}

fn of(lines: &[LineData], line: u64) -> &Histograms {
    let line = lines.iter().find(|data| u64::from(data.line_bytes) == line).expect("a line size of LINES");
    histograms::all_of(line)
}

#[test]
fn every_known_answer() {
    for case in Case::all().unwrap() {
        let lines = lines(case.accesses(), Limits::default());
        for (shape, answer) in case.answers() {
            let simulated = simulate(shape, case.accesses().map(|(_, access)| access));
            let counts = histograms::counts(of(&lines, shape.line), shape.sets.ilog2(), shape.ways);
            assert_eq!(counts, simulated, "{} {shape:?}", case.name);
            assert_eq!(Counts { resident_dirty: 0, ..counts }, answer, "{} {shape:?}", case.name);
        }
    }
}

/// Accesses that meet often, in a few neighbourhoods: small ones everywhere, and now and then a long range.
fn access() -> impl Strategy<Value = (u32, Access)> {
    let size = prop_oneof![8 => prop::sample::select(vec![1_u64, 2, 4, 8, 16]), 1 => 17..2000_u64];
    let place = prop_oneof![0..2048_u64, 0x10_0000..0x10_2000_u64, Just(0x7fff_ffff_f000), 0..0x4_0000_u64];
    (0..3_u32, place, size, any::<bool>())
        .prop_map(|(thread, address, size, store)| (thread, Access { address, size, store }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_traces(trace in prop::collection::vec(access(), 1..1500), max_set_bits in 1..8_u32, max_ways in 1..20_u32) {
        let lines = lines(trace.iter().copied(), Limits { max_set_bits, max_ways });
        for line in LINES.map(u64::from) {
            for set_bits in 0..=max_set_bits {
                for ways in [1, 2, 3, 5, 8, 13, 19].into_iter().filter(|&ways| ways <= max_ways as usize) {
                    let shape = Shape { line, sets: 1 << set_bits, ways };
                    let simulated = simulate(shape, trace.iter().map(|&(_, access)| access));
                    prop_assert_eq!(histograms::counts(of(&lines, line), set_bits, ways), simulated, "{:?}", shape);
                }
            }
        }
    }

    #[test]
    fn random_traces_fully_associative(trace in prop::collection::vec(access(), 1..4000), ways in 1..700_usize) {
        // Above 512 a bin holds two values; an even number of ways is an edge up to 1024.
        let ways = if ways > 512 { ways & !1 } else { ways };
        let lines = lines(trace.iter().copied(), Limits { max_set_bits: 1, max_ways: 1 });
        for line in LINES.map(u64::from) {
            let shape = Shape { line, sets: 1, ways };
            let simulated = simulate(shape, trace.iter().map(|&(_, access)| access));
            prop_assert_eq!(histograms::counts(of(&lines, line), 0, ways), simulated, "{:?}", shape);
        }
    }
}

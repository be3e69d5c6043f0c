//! The trust report on recordings, and on made-up events of which everything is known.

use super::*;
use crate::counters::{
    Reading,
    exercise::{Facts, Way},
    recording::Recorded,
};
use proptest::prelude::*;

const INTEL: &str = include_str!("../../fixtures/counters-sandy-bridge.txt");
const AMD: &str = include_str!("../../fixtures/counters-zen4.txt");

fn judged(text: &str) -> Vec<Report> {
    let recording = Recording::parse(text).unwrap();
    let mut recorded = Recorded(recording.clone());
    let mut exercises = recorded.exercises();
    judge(&super::super::recording::record(&recording.machine, &mut recorded, &mut exercises).unwrap())
}

fn verdict(reports: &[Report], event: &str) -> (Verdict, Option<String>) {
    let report = reports.iter().find(|report| report.event == event).unwrap();
    (report.verdict, report.measures.clone())
}

#[test]
fn an_intel_machine() {
    let reports = judged(INTEL);
    let of = |event| verdict(&reports, event);
    assert_eq!(of("mem_uops_retired.all_loads"), (Verdict::Trust, Some("loads".to_owned())));
    assert_eq!(of("mem_uops_retired.all_stores").0, Verdict::Trust);
    assert_eq!(of("mem_load_uops_retired.l2_hit").0, Verdict::Trust);
    assert_eq!(of("l1d.replacement"), (Verdict::Trust, Some("lines into L1".to_owned())));
    assert_eq!(of("l2_lines_in.all").0, Verdict::Trust);
    assert_eq!(of("l2_trans.l2_wb").0, Verdict::Trust);
    // Misses of the last cache count as hits in it, too: the paper's figure 7.
    assert_eq!(of("mem_load_uops_retired.llc_hit"), (Verdict::DoNotUse, None));
    // What is written is counted twice.
    assert_eq!(of("l2_trans.all_requests"), (Verdict::DoNotUse, None));
    // It leaves out what prefetchers brought, and so counts loads rather than lines.
    assert_eq!(of("longest_lat_cache.miss").0, Verdict::DoNotUse);
    assert_eq!(of("unc_m_cas_count.rd").0, Verdict::DoNotUse);
    assert_eq!(of("LLC-load-misses").0, Verdict::Trust);
    let shared = reports.iter().find(|report| report.event == "LLC-load-misses").unwrap();
    assert!((shared.share - 0.5).abs() < 0.01 && reports[0].share == 1.0);
}

#[test]
fn an_amd_machine() {
    let reports = judged(AMD);
    let of = |event| verdict(&reports, event);
    for event in ["ls_dispatch.ld_dispatch", "ls_dispatch.store_dispatch", "ls_any_fills_from_sys.all"] {
        assert_eq!(of(event).0, Verdict::Trust, "{event}");
    }
    for level in ["local_l2", "local_ccx", "dram_io_near"] {
        let event = format!("ls_dmnd_fills_from_sys.{level}");
        assert_eq!(verdict(&reports, &event).0, Verdict::Trust, "{level}");
    }
    // Two beats of 32 bytes to a line.
    assert_eq!(of("dram_read_beats"), (Verdict::Corrected, Some("2.01 x lines into L3".to_owned())));
    assert_eq!(of("l2_cache_req_stat.ls_rd_blk_c").0, Verdict::DoNotUse);
    assert_eq!(of("l3_lookup_state.l3_miss"), (Verdict::Untested, None));
    // It claims memory and counts loads that the third level served as well.
    assert_eq!(of("cache-misses").0, Verdict::DoNotUse);
}

/// The exercises of a machine with three caches.
fn exercises() -> Vec<Facts> {
    let mut all = Vec::new();
    for (level, lines) in [(1, 256), (2, 4096), (3, 32768), (4, 8192)] {
        for way in Way::ALL {
            for amount in [1, 2, 4] {
                let passes = 8192u64.div_ceil(lines) * amount;
                let lines = lines * passes;
                let (loads, stores) = match way {
                    Way::Load => (lines, 0),
                    Way::Read => (lines * 8, 0),
                    Way::Write => (0, lines * 8),
                };
                all.push(Facts { way, level, caches: 3, passes, loads, stores, lines });
            }
        }
    }
    all
}

/// An event that counts `factor` times `real`, and `extra` for every line, under the claim of `claims`.
fn counting(real: Quantity, claims: Quantity, factor: f64, extra: f64) -> Recording {
    let run = |facts: Facts| {
        let truth = facts.truth(real).map(|truth| (truth as f64 * factor + facts.lines as f64 * extra).round());
        let reading = truth.map(|count| Reading { count: count as u64, enabled_ns: 0, running_ns: 0 });
        Run { facts, readings: vec![reading] }
    };
    Recording {
        machine: String::new(),
        backend: String::new(),
        notes: Vec::new(),
        events: vec![("event".to_owned(), claims)],
        runs: exercises().into_iter().map(run).collect(),
    }
}

fn quantities() -> Vec<Quantity> {
    let mut all = vec![Quantity::Loads, Quantity::Stores, Quantity::Accesses, Quantity::From(0)];
    all.extend((1..=3).flat_map(|level| [Quantity::Into(level), Quantity::From(level)]));
    // Nothing is known to leave the last cache: what is written to memory stays in it for a while.
    all.extend([Quantity::OutOf(1), Quantity::OutOf(2)]);
    all
}

fn quantity() -> impl Strategy<Value = Quantity> {
    proptest::sample::select(quantities())
}

proptest! {
    /// An honest event is trusted, one that counts in other units corrected, one that leaks is not used.
    #[test]
    fn verdicts_follow_from_what_is_counted(real in quantity(), factor in 0.97f64..1.03, unit in 1.5f64..8.0, leak in 0.2f64..2.0) {
        prop_assert_eq!(judge(&counting(real, real, factor, 0.0))[0].verdict, Verdict::Trust);
        let corrected = &judge(&counting(real, real, unit, 0.0))[0];
        prop_assert_eq!(corrected.verdict, Verdict::Corrected);
        prop_assert!((corrected.ratio.unwrap() - unit).abs() < 0.05);
        prop_assert_eq!(judge(&counting(real, real, 1.0, leak))[0].verdict, Verdict::DoNotUse);
    }

    /// An event that counts something else is found out, and what it counts is named.
    #[test]
    fn false_claims_are_found_out(real in quantity(), claims in quantity()) {
        prop_assume!(real != claims);
        let report = &judge(&counting(real, claims, 1.0, 0.0))[0];
        let same = exercises().iter().all(|facts| match (facts.truth(real), facts.truth(claims)) {
            (Some(real), Some(claimed)) => real == claimed,
            _ => true,
        });
        prop_assert_eq!(report.verdict == Verdict::Trust, same, "{:?}", report);
        if !same {
            // Or something that no exercise in which it was counted tells from it.
            let alike = |other: &Quantity| {
                exercises().iter().all(|facts| facts.truth(real).is_none() || facts.truth(real) == facts.truth(*other))
            };
            let names: Vec<String> = quantities().into_iter().filter(alike).map(|other| other.to_string()).collect();
            prop_assert!(report.measures.as_ref().is_some_and(|name| names.contains(name)), "{:?} {:?}", report, names);
        }
    }
}

/// Counts that stop growing are no counts, whatever their ratio at first.
#[test]
fn an_event_that_saturates_is_not_used() {
    let mut recording = counting(Quantity::Into(1), Quantity::Into(1), 1.0, 0.0);
    for run in &mut recording.runs {
        if let Some(reading) = &mut run.readings[0] {
            reading.count = reading.count.min(5000);
        }
    }
    let report = &judge(&recording)[0];
    assert_eq!((report.verdict, report.linear), (Verdict::DoNotUse, Some(false)));
}

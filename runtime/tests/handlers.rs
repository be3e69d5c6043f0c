//! Handlers of the program see what they would see without us, and nothing recorded is lost or out of order.

mod common;

use bf_profile::EndReason;
use common::{loads_and_end, references, run};

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn dispositions_look_as_the_program_set_them() {
    let run = run(&["dispositions"], &[]);
    assert_eq!((run.stderr.as_str(), run.code()), ("", -libc::SIGUSR1));
    assert_eq!(loads_and_end(&run.only()), (4, EndReason::Signal(libc::SIGUSR1)));
}

#[test]
fn a_raised_handler_runs_in_program_order() {
    // store x, [load y, store y], store x: the second store to x has distance 1.
    let process = run(&["raise"], &[]).only();
    let histograms = &process.lines[0].stacks[0].histograms;
    assert_eq!((histograms.references, histograms.cold), ([1, 3], [1, 1]));
    let stores: Vec<_> = histograms.full.stores.iter().map(|bin| (bin.lo, bin.count)).collect();
    assert_eq!(stores, [(0, 1), (1, 1)]);
}

#[test]
fn a_storm_of_handlers_loses_nothing() {
    for mode in ["storm", "sigaltstack-storm"] {
        let run = run(&[mode, "20000"], &[]);
        let [rounds, handled] = numbers(&run.stdout)[..] else { panic!("{}", run.stdout) };
        assert_eq!(references(&run.only()), [64 * rounds + handled, handled], "{mode}");
    }
}

#[test]
fn handlers_that_jump_out() {
    let run = run(&["jump-storm", "5000"], &[]);
    let [rounds, handled] = numbers(&run.stdout)[..] else { panic!("{}", run.stdout) };
    let [loads, stores] = references(&run.only());
    // A round that was left may have made any of its loads.
    assert_eq!(stores, handled);
    assert!((64 * rounds + handled..=64 * (rounds + handled) + handled).contains(&loads));
}

#[test]
fn handlers_that_jump_off_the_alternate_stack() {
    let process = run(&["sigaltstack-jumps", "1000"], &[]).only();
    assert_eq!(references(&process), [11_000, 1000]);
}

#[test]
fn accesses_that_faulted_did_not_happen() {
    let process = run(&["fault-jump"], &[]).only();
    assert_eq!(references(&process), [2000, 1000]);
}

#[test]
fn errno_and_the_floating_point_state_stay() {
    let run = run(&["state"], &[]);
    assert_eq!((run.stderr.as_str(), run.code()), ("", 0));
    assert_eq!(references(&run.only()), [200_000, 0]);
}

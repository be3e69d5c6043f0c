//! Threads, however many, however they end.

mod common;

use common::{by_slot, references, run};

#[test]
fn joined_threads_have_slots_of_their_own() {
    let process = run(&["threads"], &[]).only();
    assert_eq!(references(&process), [160_000, 0]);
    assert_eq!(process.meta.threads, 8);
    assert_eq!(process.meta.accesses, 160_000);
}

#[test]
fn a_short_thread_takes_over_the_slot_of_the_last() {
    let process = run(&["short-threads", "3000"], &[]).only();
    assert_eq!(by_slot(&process), [[9000, 0]]);
    assert_eq!(process.meta.threads, 3000);
}

#[test]
fn threads_alive_at_the_end() {
    let process = run(&["alive"], &[]).only();
    assert_eq!(by_slot(&process), [[1000, 0]; 3]);
}

#[test]
fn a_stack_of_16_kib_is_enough() {
    assert_eq!(references(&run(&["small-stack"], &[]).only()), [100_000, 0]);
}

#[test]
fn destructors_of_keys_are_recorded() {
    // The second thread's destructor runs four times, as often as the C library grants, the last time after ours.
    let process = run(&["keys"], &[]).only();
    assert_eq!(references(&process), [1 + 2 * 10 + 1 + 3 * 10, 0]);
    assert_eq!(process.meta.threads, 2);
    assert_eq!(process.log, ["a thread ran on after its last destructor: that is not recorded"]);
}

#[test]
fn a_handler_may_run_after_the_last_destructor() {
    // The memory of the thread, its thread-local data in it, is gone when the process ends.
    let process = run(&["late-handler"], &[]).only();
    assert_eq!(references(&process), [1 + 1 + 20, 1]);
    assert_eq!(process.log, [""; 0]);
}

#[test]
fn a_library_is_unloaded_and_loaded_again() {
    let library = common::programs().join("library.so");
    let process = run(&["dlopen", library.to_str().unwrap()], &[]).only();
    // 100 in work, 10 in main, 100 in the library's destructor; three times.
    assert_eq!(references(&process), [630, 0]);
    let calls: Vec<_> = process.uninstrumented.iter().map(|callee| (callee.name.as_str(), callee.calls)).collect();
    assert_eq!(calls, [("outside", 6)]);
    assert_eq!(process.meta.modules.len(), 2);
}

//! Threads that record, helpers that analyse, and who looks at it all meanwhile, under ThreadSanitizer: `cargo xtask tsan`.
#![cfg(feature = "tsan")]

use bf_collect::{Batch, Bucket, Config, Limits, Session};
use std::{cell::UnsafeCell, env, process::Command, sync::Barrier, thread, time::Duration};

const PATIENCE: Duration = Duration::from_secs(600);
const BATCHES: u64 = 200;

/// What ThreadSanitizer ends a process with that had a race.
const RACY: i32 = 66;

/// Threads that use lines of their own, lines that others read and lines that others write.
fn record(session: &Session, slot: u32) {
    for batch in 0..BATCHES {
        let mut recorded = Batch::new();
        for access in 0..40 {
            recorded.access(u64::from(slot + 1) << 20 | (batch * access % 97) << 6, 8, access % 2 == 0);
            recorded.access(access << 6, 8, false);
            recorded.access(1 << 16 | (access % 4) << 6, 8, access % 8 == 0);
        }
        session.hand_over(slot, &mut recorded, Bucket::FIRST);
    }
}

/// `threads` that record one after the other and beside each other, `helpers`, and somebody who takes snapshots of it.
fn run(threads: u64, helpers: usize, apart: bool) {
    let limits = Limits { max_set_bits: 4, max_ways: 4 };
    let session = Session::new(Config { line_sizes: vec![64, 128], limits, ..Config::default() });
    let session = if apart { session.apart() } else { session };
    let first = session.take_slot();
    if helpers > 0 {
        session.pipelined();
    }
    thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| session.help(Duration::from_millis(1), || true));
        }
        thread::scope(|scope| {
            scope.spawn(|| record(&session, first));
            for _ in 1..threads {
                scope.spawn(|| record(&session, session.take_slot()));
            }
            scope.spawn(|| (0..5).for_each(|_| drop(session.snapshot(PATIENCE))));
        });
        assert!(session.settle(PATIENCE));
        session.close();
    });
    let snapshot = session.snapshot(PATIENCE);
    assert_eq!((snapshot.accesses, snapshot.missing, snapshot.skipped), (threads * BATCHES * 120, 0, 0));
}

#[test]
fn threads_that_analyse_what_they_record() {
    run(3, 0, false);
}

#[test]
fn threads_and_one_helper() {
    run(3, 1, false);
}

#[test]
fn threads_and_helpers_with_line_sizes_apart() {
    run(3, 3, true);
}

/// A word that two threads write.
struct Word(UnsafeCell<u64>);

#[expect(unsafe_code, reason = "the race that must be caught")]
// SAFETY:
// - none: two threads write the word at once. The process that does so exists to be ended for it.
unsafe impl Sync for Word {}

#[test]
#[ignore = "what `a_race_is_caught` runs"]
fn race() {
    let (word, barrier) = (Word(UnsafeCell::new(0)), Barrier::new(2));
    let write = || {
        let word = &word;
        for value in 0..100 {
            // Both are here before either writes.
            barrier.wait();
            #[expect(unsafe_code, reason = "the race that must be caught")]
            // SAFETY:
            // - none, as above.
            unsafe {
                word.0.get().write_volatile(value);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(write);
        scope.spawn(write);
    });
}

/// Else silence of the other tests would say nothing.
#[test]
fn a_race_is_caught() {
    let this = env::current_exe().unwrap();
    let output = Command::new(this).args(["--exact", "race", "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("WARNING: ThreadSanitizer: data race"), "{said}");
    assert_eq!(output.status.code(), Some(RACY));
}

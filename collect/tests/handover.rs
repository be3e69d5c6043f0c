//! Batches on their way to helper threads, in many orders of what threads do: `cargo test -p bf-collect --features shuttle
//! --test handover`. Whoever waits here is woken or the test ends in a deadlock: times do not pass.
#![cfg(feature = "shuttle")]

use bf_collect::{Batch, Bucket, Config, Limits, Session, Snapshot};
use shuttle::sync::Arc;
use shuttle::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(600);
const ORDERS: usize = 1000;

/// `threads` threads hand `batches` batches each over to `helpers` helpers; all of them use line 0, each one of its own.
fn run(threads: u32, batches: u64, helpers: usize, apart: bool) -> Snapshot {
    let limits = Limits { max_set_bits: 1, max_ways: 2 };
    let session = Session::new(Config { line_sizes: vec![64, 128], limits, ..Config::default() });
    let session = Arc::new(if apart { session.apart() } else { session });
    let first = session.take_slot();
    if helpers > 0 {
        session.pipelined();
    }
    let start = |work: Box<dyn FnOnce(&Session) + Send>| {
        let session = Arc::clone(&session);
        thread::spawn(move || work(&session))
    };
    let helpers: Vec<_> =
        (0..helpers).map(|_| start(Box::new(|session| session.help(Duration::from_millis(1), || true)))).collect();
    let feed = move |session: &Session, thread| {
        let slot = if thread == 0 { first } else { session.take_slot() };
        for _ in 0..batches {
            let mut batch = Batch::new();
            batch.access(0, 8, thread == 0);
            batch.access(u64::from(slot + 1) * 1024, 8, true);
            session.hand_over(slot, &mut batch, Bucket::FIRST);
        }
    };
    let feeders: Vec<_> = (0..threads).map(|thread| start(Box::new(move |session| feed(session, thread)))).collect();
    feeders.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(session.settle(PATIENCE));
    session.close();
    helpers.into_iter().for_each(|thread| thread.join().unwrap());
    session.snapshot(PATIENCE)
}

fn check(threads: u32, batches: u64, helpers: usize, apart: bool) {
    let snapshot = run(threads, batches, helpers, apart);
    let accesses = 2 * u64::from(threads) * batches;
    assert_eq!((snapshot.accesses, snapshot.missing, snapshot.skipped), (accesses, 0, 0));
    for (line, coherence) in snapshot.lines.iter().zip(&snapshot.coherence) {
        let of = |global: bool| {
            let stacks = line.stacks.iter().filter(|stack| (stack.owner == bf_profile::Owner::Global) == global);
            stacks.map(|stack| stack.histograms.references.iter().sum::<u64>()).sum::<u64>()
        };
        assert_eq!((of(false), of(true)), (accesses, accesses));
        // What one loses by another's store, that one took.
        let sum = |counts: fn(&bf_profile::Coherence) -> &bf_profile::ByPosition| {
            let bins = coherence.slots.iter().flat_map(|slot| &counts(slot).full);
            bins.map(|bin| bin.count).sum::<u64>()
        };
        assert_eq!(sum(|slot| &slot.sent), sum(|slot| &slot.received));
    }
}

#[test]
fn two_threads_and_one_helper() {
    shuttle::check_random(|| check(2, 3, 1, false), ORDERS);
}

#[test]
fn two_threads_and_two_helpers_with_line_sizes_apart() {
    shuttle::check_random(|| check(2, 3, 2, true), ORDERS);
}

#[test]
fn more_batches_than_there_is_room_for() {
    shuttle::check_random(|| check(2, 30, 1, false), ORDERS / 20);
}

#[test]
fn threads_without_helpers_leave_the_global_stacks_to_each_other() {
    shuttle::check_random(|| check(3, 6, 0, false), ORDERS / 2);
}

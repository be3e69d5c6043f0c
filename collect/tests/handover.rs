//! Batches on their way to helper threads, in many orders of what threads do: `cargo test -p bf-collect --features shuttle
//! --test handover`. Whoever waits here is woken or the test ends in a deadlock: times do not pass.
#![cfg(feature = "shuttle")]

use bf_collect::{Batch, Bucket, Config, Limits, Seek, Session, Snapshot};
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

/// Two threads do the same again and again; helpers and a third thread come some time.
fn run_rounds(rounds: u64) -> Snapshot {
    let limits = Limits { max_set_bits: 1, max_ways: 2 };
    let seek = Seek { one_in: 4, anchors: 3, long: 40, longest: 4000, dense: 0, steady: 0, kept_lines: 1 << 21 };
    let config = Config { limits, rounds: Some(seek), rounds_of_several: true, ..Config::default() };
    let session = Arc::new(Session::new(config));
    let slots = [session.take_slot(), session.take_slot()];
    let feed = |session: &Session, slot: u32, round: u64| {
        for part in 0..3 {
            let mut batch = Batch::new();
            for access in 0..20 {
                batch.access((part * 2000 + access * 64 + u64::from(slot) * 640) * round, 8, access % 2 == 0);
            }
            session.hand_over(slot, &mut batch, Bucket::FIRST);
        }
    };
    let start = |work: Box<dyn FnOnce(&Session) + Send>| {
        let session = Arc::clone(&session);
        thread::spawn(move || work(&session))
    };
    let mut all =
        Vec::from(slots.map(|slot| start(Box::new(move |session| (0..rounds).for_each(|_| feed(session, slot, 1))))));
    all.push(start(Box::new(move |session| (2..5).for_each(|round| feed(session, session.take_slot(), round)))));
    let helper = start(Box::new(|session| {
        session.pipelined();
        session.help(Duration::from_millis(1), || true);
    }));
    all.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(session.settle(PATIENCE));
    session.close();
    helper.join().unwrap();
    session.snapshot(PATIENCE)
}

fn check(threads: u32, batches: u64, helpers: usize, apart: bool) {
    check_sums(&run(threads, batches, helpers, apart), 2 * u64::from(threads) * batches);
}

fn check_sums(snapshot: &Snapshot, accesses: u64) {
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

/// Threads have as much room as those of the program have for the runtime.
fn in_many_orders(run: impl Fn() + Send + Sync + 'static, orders: usize) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(orders), config).run(run);
}

#[test]
fn rounds_while_helpers_and_threads_come() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static AGAIN: AtomicU64 = AtomicU64::new(0);
    in_many_orders(
        || {
            let snapshot = run_rounds(60);
            check_sums(&snapshot, 2 * 60 * 60 + 3 * 60);
            AGAIN.fetch_add(snapshot.again, Ordering::Relaxed);
        },
        ORDERS / 10,
    );
    assert!(AGAIN.load(Ordering::Relaxed) > 0, "rounds were found");
}

#[test]
fn two_threads_and_one_helper() {
    in_many_orders(|| check(2, 3, 1, false), ORDERS);
}

#[test]
fn two_threads_and_two_helpers_with_line_sizes_apart() {
    in_many_orders(|| check(2, 3, 2, true), ORDERS);
}

#[test]
fn more_batches_than_there_is_room_for() {
    in_many_orders(|| check(2, 30, 1, false), ORDERS / 20);
}

#[test]
fn threads_without_helpers_leave_the_global_stacks_to_each_other() {
    in_many_orders(|| check(3, 6, 0, false), ORDERS / 2);
}

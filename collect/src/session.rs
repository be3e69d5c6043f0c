//! Slots and their stacks.
//!
//! Concurrency: a slot's stacks stand behind a mutex that its thread takes once per batch and others only for a
//! snapshot. The global stacks stand behind another, always taken after a slot's, so the two cannot deadlock, and the
//! order in which batches take it is the order of the global stack.

use crate::{Batch, convert};
use bf_profile::{LineData, Owner, StackData};
use bf_stack::{Bucket, Engine, Limits, Reference, Stack};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Line sizes, bytes: powers of two in 8 ..= 2^30, ascending, none twice.
    pub line_sizes: Vec<u32>,
    /// Bounds of the exact part.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self { line_sizes: vec![64], limits: Limits::default() }
    }
}

impl Config {
    /// Whether bf can keep stacks of lines of this many bytes.
    #[must_use]
    pub fn is_line_size(bytes: u32) -> bool {
        bytes.is_power_of_two() && (8..=1 << 30).contains(&bytes)
    }
}

/// What a session knows at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The profile's line data; bucket b is tag b - 1.
    pub lines: Vec<LineData>,
    /// Slots that made at least one access, counted or not.
    pub threads: u32,
    /// Counted accesses.
    pub accesses: u64,
    /// References no stack could take.
    pub dropped: u64,
    /// Stacks left out because their owner did not let go of them in time.
    pub missing: u32,
}

/// The stacks of one slot, or the global ones: one engine per line size.
#[derive(Clone, Debug)]
struct Stacks {
    engines: Vec<Stack>,
    scratch: Vec<Reference>,
    used: bool,
}

/// All stacks of one process. Shared by its threads; each slot must be fed by one thread at a time.
#[derive(Debug)]
pub struct Session {
    config: Config,
    slots: RwLock<Vec<Arc<Mutex<Stacks>>>>,
    /// Slots whose thread ended.
    free: Mutex<Vec<u32>>,
    /// Absent while there is only one slot, which is then the same.
    global: Mutex<Option<Stacks>>,
    accesses: AtomicU64,
    closed: AtomicBool,
}

impl Session {
    /// No slots yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            slots: RwLock::default(),
            free: Mutex::default(),
            global: Mutex::new(None),
            accesses: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// For when a thread will never let go of what it holds: whoever waits gives up, and feeding and slots do nothing.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Takes a lock, unless the session was closed.
    fn wait<G>(&self, take: impl Fn(Duration) -> Option<G>) -> Option<G> {
        const LOOK: Duration = Duration::from_millis(100);
        while !self.closed.load(Ordering::Acquire) {
            if let Some(guard) = take(LOOK) {
                return Some(guard);
            }
        }
        None
    }

    /// What it keeps.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A place for a new thread: that of a thread that ended if there is one, with its contents, else a new one.
    /// Slot 0 is the first. Once there are two the global stacks exist and have slot 0's contents and counts.
    pub fn take_slot(&self) -> u32 {
        if let Some(slot) = self.wait(|time| self.free.try_lock_for(time)).and_then(|mut free| free.pop()) {
            return slot;
        }
        self.wait(|time| self.slots.try_write_for(time)).map_or(0, |mut slots| self.add_slot(&mut slots))
    }

    /// The thread on this slot ended.
    pub fn release_slot(&self, slot: u32) {
        if let Some(mut free) = self.wait(|time| self.free.try_lock_for(time)) {
            free.push(slot);
        }
    }

    /// Makes sure that slots 0 ..= slot exist, for traces that number their threads.
    pub fn ensure_slot(&self, slot: u32) {
        let mut slots = self.slots.write();
        while slots.len() <= slot as usize {
            self.add_slot(&mut slots);
        }
    }

    fn add_slot(&self, slots: &mut Vec<Arc<Mutex<Stacks>>>) -> u32 {
        if let [only] = slots.as_slice()
            && let Some(only) = self.wait(|time| only.try_lock_for(time))
            && let Some(mut global) = self.wait(|time| self.global.try_lock_for(time))
        {
            *global = Some(only.clone());
        }
        slots.push(Arc::new(Mutex::new(Stacks::new(&self.config))));
        slots.len() as u32 - 1
    }

    /// Feeds one batch of the thread on `slot`. Batches enter the global stacks in the order of the calls.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn feed(&self, slot: u32, batch: &Batch, bucket: Bucket) {
        let Some(slots) = self.wait(|time| self.slots.try_read_for(time)) else { return };
        let stacks = Arc::clone(&slots[slot as usize]);
        drop(slots);
        let Some(mut stacks) = self.wait(|time| stacks.try_lock_for(time)) else { return };
        stacks.feed(batch, bucket, &self.config);
        let Some(mut global) = self.wait(|time| self.global.try_lock_for(time)) else { return };
        if let Some(global) = global.as_mut() {
            global.feed(batch, bucket, &self.config);
        }
        if bucket != Bucket::UNCOUNTED {
            self.accesses.fetch_add(batch.accesses(), Ordering::Relaxed);
        }
    }

    /// The histograms so far, with the end-of-run parts computed as if the run ended now; feeding may go on. Waits for
    /// each lock at most `patience`, for callers that may have interrupted its holder.
    #[must_use]
    pub fn snapshot(&self, patience: Duration) -> Snapshot {
        let mut snapshot = Snapshot { accesses: self.accesses.load(Ordering::Relaxed), ..Snapshot::default() };
        snapshot.lines = self.config.line_sizes.iter().map(|&line_bytes| self.line_data(line_bytes)).collect();
        let Some(slots) = self.slots.try_read_for(patience) else {
            snapshot.missing += 1;
            return snapshot;
        };
        for (slot, stacks) in (0..).zip(slots.iter()) {
            match stacks.try_lock_for(patience) {
                Some(stacks) => {
                    snapshot.threads += u32::from(stacks.used);
                    snapshot.add(Owner::Slot(slot), &stacks);
                }
                None => snapshot.missing += 1,
            }
        }
        match self.global.try_lock_for(patience) {
            Some(global) => global.iter().for_each(|global| snapshot.add(Owner::Global, global)),
            None => snapshot.missing += 1,
        }
        snapshot
    }

    fn line_data(&self, line_bytes: u32) -> LineData {
        let Limits { max_set_bits, max_ways } = self.config.limits;
        LineData { line_bytes, max_set_bits, max_ways, stacks: Vec::new() }
    }
}

impl Snapshot {
    fn add(&mut self, owner: Owner, stacks: &Stacks) {
        for (line, engine) in self.lines.iter_mut().zip(&stacks.engines) {
            self.dropped += engine.dropped();
            line.stacks.extend(engine.histograms().into_iter().map(|(bucket, histograms)| StackData {
                owner,
                tag: u32::from(bucket.0) - 1,
                histograms: convert::histograms(histograms),
            }));
        }
    }
}

impl Stacks {
    fn new(config: &Config) -> Self {
        let engines = config.line_sizes.iter().map(|_| Stack::new(config.limits)).collect();
        Self { engines, scratch: Vec::new(), used: false }
    }

    fn feed(&mut self, batch: &Batch, bucket: Bucket, config: &Config) {
        self.used |= batch.accesses() > 0;
        for (engine, line_bytes) in self.engines.iter_mut().zip(&config.line_sizes) {
            batch.references(line_bytes.ilog2(), &mut self.scratch, |part| engine.feed(part, bucket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn batch(lines: &[u64]) -> Batch {
        let mut batch = Batch::new();
        lines.iter().for_each(|line| batch.access(line * 64, 8, false));
        batch
    }

    fn cold(snapshot: &Snapshot) -> Vec<(Owner, u64)> {
        snapshot.lines[0].stacks.iter().map(|stack| (stack.owner, stack.histograms.cold[0])).collect()
    }

    #[test]
    fn one_thread_needs_no_global_stack() {
        let session = Session::new(Config::default());
        let slot = session.take_slot();
        session.feed(slot, &batch(&[1, 2, 1]), Bucket::FIRST);
        let snapshot = session.snapshot(PATIENCE);
        assert_eq!(cold(&snapshot), [(Owner::Slot(0), 2)]);
        assert_eq!((snapshot.threads, snapshot.accesses), (1, 3));
    }

    #[test]
    fn the_global_stack_knows_what_the_first_thread_did_alone() {
        let session = Session::new(Config::default());
        let first = session.take_slot();
        session.feed(first, &batch(&[1, 2]), Bucket::FIRST);
        let second = session.take_slot();
        session.feed(second, &batch(&[2, 3]), Bucket::FIRST);
        session.feed(first, &batch(&[3]), Bucket::FIRST);
        let want = [(Owner::Slot(0), 3), (Owner::Slot(1), 2), (Owner::Global, 3)];
        assert_eq!(cold(&session.snapshot(PATIENCE)), want);
    }

    #[test]
    fn a_new_thread_takes_over_the_slot_of_one_that_ended() {
        let session = Session::new(Config::default());
        let first = session.take_slot();
        let second = session.take_slot();
        session.feed(second, &batch(&[7]), Bucket::FIRST);
        session.release_slot(second);
        let third = session.take_slot();
        assert_eq!(third, second);
        session.feed(third, &batch(&[7]), Bucket::FIRST);
        session.feed(first, &batch(&[7]), Bucket::FIRST);
        assert_eq!(cold(&session.snapshot(PATIENCE)), [(Owner::Slot(0), 1), (Owner::Slot(1), 1), (Owner::Global, 1)]);
    }

    #[test]
    fn a_held_stack_is_left_out_and_said() {
        let session = Session::new(Config::default());
        let slot = session.take_slot();
        session.feed(slot, &batch(&[1]), Bucket::FIRST);
        let held = Arc::clone(&session.slots.read()[0]);
        let _held = held.lock();
        let snapshot = session.snapshot(Duration::from_millis(1));
        assert_eq!((snapshot.missing, snapshot.lines[0].stacks.len()), (1, 0));
    }

    #[test]
    fn uncounted_references_move_the_stacks_only() {
        let session = Session::new(Config::default());
        let slot = session.take_slot();
        session.feed(slot, &batch(&[1]), Bucket::UNCOUNTED);
        session.feed(slot, &batch(&[1]), Bucket(3));
        let snapshot = session.snapshot(PATIENCE);
        let [stack] = snapshot.lines[0].stacks.as_slice() else { panic!("one stack") };
        assert_eq!((stack.tag, stack.histograms.cold, stack.histograms.references), (2, [0, 0], [1, 0]));
        assert_eq!(snapshot.accesses, 1);
    }
}

//! Analysis on other threads than those that record.
//!
//! Batches go into one bounded lock-free queue, the *intake*; its order is the order of the global stacks. From there
//! they are dealt out to *lanes*: a lane is what must be analysed one after the other, the stacks of one slot (or the
//! global ones), whole or for one line size. Whoever has time takes a batch off a lane that nobody works on: helper
//! threads all the time, threads of the program when the intake is full, instead of waiting.
//!
//! Concurrency: only [`Schedule`]'s lock orders anything; it is held for a few instructions at a time, and nothing is
//! allocated under it, so a thread that runs out of memory never leaves it locked. A lane is worked on by whoever set
//! its `busy`, so a lane's batches are analysed in the order of the intake, by one thread at a time.

use crate::batch::Batch;
use crate::session::Owner;
use bf_stack::Bucket;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Batches in the intake. A batch is what a recording buffer of 64 KiB holds: more of them would only leave the caches.
const INTAKE: usize = 16;
/// Batches dealt out and not finished.
const BACKLOG: usize = 32;
/// Longest sleep without a look around; wake-ups do not depend on it.
const LOOK: Duration = Duration::from_millis(100);

/// A batch on its way.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) slot: u32,
    pub(crate) batch: Batch,
    pub(crate) bucket: Bucket,
}

/// A batch taken off a lane, to be analysed.
#[derive(Debug)]
pub(crate) struct Job {
    lane: usize,
    pub(crate) owner: Arc<Owner>,
    /// Which part of the owner's stacks.
    pub(crate) part: usize,
    pub(crate) item: Arc<Item>,
    first: bool,
}

impl Job {
    /// Whether this is the one of the item's jobs that stands for it: that of its slot, first part.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }
}

#[derive(Debug)]
struct Lane {
    /// `None`: the global stacks, which take every slot's batches.
    slot: Option<u32>,
    owner: Arc<Owner>,
    part: usize,
    /// Waiting batches with their numbers; has room for the whole backlog.
    queue: VecDeque<(u64, Arc<Item>)>,
    busy: bool,
}

impl Lane {
    fn runnable(&self) -> Option<u64> {
        if self.busy { None } else { self.queue.front().map(|&(number, _)| number) }
    }
}

#[derive(Debug, Default)]
struct Schedule {
    lanes: Vec<Lane>,
    /// Batches dealt out so far.
    dealt: u64,
    /// Batches dealt out and not finished.
    backlog: usize,
    /// Nothing is dealt out while somebody waits for the lanes to be at rest.
    held: bool,
    /// Steps done: tells whoever waits whether anything goes on.
    steps: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Pipeline {
    intake: ArrayQueue<Arc<Item>>,
    /// Emptied batches, with their memory.
    spare: ArrayQueue<Batch>,
    schedule: Mutex<Schedule>,
    /// For helpers: there is something to do.
    work: Condvar,
    idle: AtomicUsize,
    /// For all others: something was done.
    progress: Condvar,
    waiting: AtomicUsize,
    closed: AtomicBool,
}

impl Pipeline {
    pub(crate) fn new() -> Self {
        Self {
            intake: ArrayQueue::new(INTAKE),
            spare: ArrayQueue::new(INTAKE + BACKLOG),
            schedule: Mutex::default(),
            work: Condvar::new(),
            idle: AtomicUsize::new(0),
            progress: Condvar::new(),
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits need not wait any more; helpers end.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.work.notify_all();
        self.progress.notify_all();
    }

    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes up the stacks of a new slot (or, `None`, the global ones, where lanes are at rest).
    pub(crate) fn add(&self, slot: Option<u32>, owner: &Arc<Owner>) {
        let lane = |part| Lane {
            slot,
            owner: Arc::clone(owner),
            part,
            queue: VecDeque::with_capacity(BACKLOG + 1),
            busy: false,
        };
        let mut more: Vec<_> = (0..owner.parts()).map(lane).collect();
        loop {
            let needed = self.schedule().lanes.len() + more.len();
            let mut room = Vec::with_capacity(needed.next_power_of_two());
            let mut schedule = self.schedule();
            if room.capacity() >= schedule.lanes.len() + more.len() {
                room.append(&mut schedule.lanes);
                room.append(&mut more);
                std::mem::swap(&mut room, &mut schedule.lanes);
                drop(schedule);
                return;
            }
        }
    }

    /// Hands a batch over, in exchange for an empty one. Where there is no room, helps until there is.
    pub(crate) fn submit(&self, slot: u32, batch: &mut Batch, bucket: Bucket, analyse: impl Fn(&Job)) {
        let empty = self.spare.pop().unwrap_or_default();
        let mut item = Arc::new(Item { slot, batch: std::mem::replace(batch, empty), bucket });
        while let Err(back) = self.intake.push(item) {
            if self.closed() {
                return;
            }
            item = back;
            if !self.step(Some(slot), &analyse) {
                self.wait_for_room();
            }
        }
        // Either this sees that a helper is about to sleep, or that helper sees the batch.
        fence(Ordering::SeqCst);
        if self.idle.load(Ordering::Relaxed) > 0 {
            drop(self.schedule());
            self.work.notify_one();
        }
    }

    fn wait_for_room(&self) {
        let schedule = self.schedule();
        // Room is only made under this lock.
        if self.intake.is_full() {
            self.wait_for_progress(schedule, LOOK);
        }
    }

    fn wait_for_progress(&self, schedule: MutexGuard<'_, Schedule>, time: Duration) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(self.progress.wait_timeout(schedule, time).unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// What a helper does until the pipeline is closed. `rested` is called when there was nothing to do for `time`; it says
    /// whether to go on.
    pub(crate) fn help(&self, time: Duration, analyse: impl Fn(&Job), rested: impl Fn() -> bool) {
        let mut finished = None;
        while !self.closed() {
            if let Some(job) = self.next(finished.take(), None) {
                analyse(&job);
                finished = Some(job);
                continue;
            }
            let schedule = self.schedule();
            self.idle.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let mut timed_out = false;
            if !schedule.runnable() && (self.intake.is_empty() || !schedule.deals()) {
                let (guard, result) = self.work.wait_timeout(schedule, time).unwrap_or_else(PoisonError::into_inner);
                timed_out = result.timed_out();
                drop(guard);
            }
            self.idle.fetch_sub(1, Ordering::Relaxed);
            if timed_out && !rested() {
                return;
            }
        }
    }

    /// Analyses one batch, of this slot if there is one; whether there was any.
    pub(crate) fn step(&self, preferred: Option<u32>, analyse: impl Fn(&Job)) -> bool {
        let job = self.next(None, preferred);
        let done = job.is_some();
        if let Some(job) = job {
            analyse(&job);
            self.finish(job);
        }
        done
    }

    /// Gives a job back and takes the next, of this slot if there is one, else the one handed over first.
    fn next(&self, finished: Option<Job>, preferred: Option<u32>) -> Option<Job> {
        let (lane, item) = finished.map(|job| (job.lane, Arc::into_inner(job.item))).unzip();
        let mut schedule = self.schedule();
        if let Some(lane) = lane {
            schedule.put_back(lane, item.as_ref().is_some_and(Option::is_some));
        }
        self.deal(&mut schedule);
        let lanes = schedule.lanes.iter_mut().enumerate();
        let runnable = lanes.filter_map(|(index, lane)| {
            let foreign = preferred.is_some() && lane.slot != preferred;
            lane.runnable().map(|number| (foreign, number, index))
        });
        let job = runnable.min().and_then(|(_, _, index)| {
            let lane = &mut schedule.lanes[index];
            let (_, item) = lane.queue.pop_front()?;
            lane.busy = true;
            Some(Job {
                lane: index,
                owner: Arc::clone(&lane.owner),
                part: lane.part,
                item,
                first: lane.slot.is_some() && lane.part == 0,
            })
        });
        self.tell(&schedule);
        drop(schedule);
        self.recycle(item.flatten());
        job
    }

    fn finish(&self, job: Job) {
        let lane = job.lane;
        let item = Arc::into_inner(job.item);
        let mut schedule = self.schedule();
        schedule.put_back(lane, item.is_some());
        self.deal(&mut schedule);
        self.tell(&schedule);
        drop(schedule);
        self.recycle(item);
    }

    fn recycle(&self, item: Option<Item>) {
        if let Some(Item { mut batch, .. }) = item {
            batch.clear();
            // There are never more than there is room for, but for those that threads hold.
            let _ = self.spare.push(batch);
        }
    }

    /// Deals out what the intake holds.
    fn deal(&self, schedule: &mut Schedule) {
        while schedule.deals()
            && let Some(item) = self.intake.pop()
        {
            schedule.dealt += 1;
            schedule.backlog += 1;
            let number = schedule.dealt;
            for lane in &mut schedule.lanes {
                if lane.slot.is_none_or(|slot| slot == item.slot) {
                    lane.queue.push_back((number, Arc::clone(&item)));
                }
            }
            debug_assert!(Arc::strong_count(&item) > 1, "slot {} was never added", item.slot);
        }
    }

    /// Wakes those for whom there is something now.
    fn tell(&self, schedule: &Schedule) {
        if self.waiting.load(Ordering::Relaxed) > 0 && (self.intake.len() <= INTAKE / 2 || schedule.backlog == 0) {
            self.progress.notify_all();
        }
        if self.idle.load(Ordering::Relaxed) > 0 && schedule.runnable() {
            self.work.notify_one();
        }
    }

    /// Helps until everything that was handed over is analysed. Gives up, and says so, when nothing went on for `patience`
    /// or the pipeline was closed.
    pub(crate) fn settle(&self, patience: Duration, analyse: impl Fn(&Job)) -> bool {
        let (mut steps, mut since) = (0, Instant::now());
        while !self.closed() {
            if self.step(None, &analyse) {
                continue;
            }
            let schedule = self.schedule();
            if self.intake.is_empty() && schedule.backlog == 0 {
                return true;
            }
            if schedule.steps != steps {
                (steps, since) = (schedule.steps, Instant::now());
            } else if since.elapsed() > patience {
                return false;
            }
            self.wait_for_progress(schedule, Duration::from_millis(1));
        }
        false
    }

    /// Has `work` done while every lane is at rest, at one moment between two batches of the intake.
    pub(crate) fn at_rest(&self, analyse: impl Fn(&Job), work: impl FnOnce()) {
        self.schedule().held = true;
        while !self.closed() {
            if self.step(None, &analyse) {
                continue;
            }
            let schedule = self.schedule();
            if schedule.backlog == 0 {
                drop(schedule);
                work();
                break;
            }
            self.wait_for_progress(schedule, Duration::from_millis(1));
        }
        self.schedule().held = false;
        self.work.notify_all();
    }
}

impl Schedule {
    /// Whether some lane has a batch that nobody works on.
    fn runnable(&self) -> bool {
        self.lanes.iter().any(|lane| lane.runnable().is_some())
    }

    /// Whether batches may be dealt out.
    fn deals(&self) -> bool {
        !self.held && self.backlog < BACKLOG
    }

    /// A lane's batch was analysed; `last`: by all lanes that take it.
    fn put_back(&mut self, lane: usize, last: bool) {
        self.lanes[lane].busy = false;
        self.backlog -= usize::from(last);
        self.steps += 1;
    }
}

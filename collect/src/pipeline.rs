//! Analysis on other threads than those that record.
//!
//! Batches go into one bounded lock-free queue, the *intake*; its order is the order of the global stacks, and the order in
//! which slots take lines from each other. From there, once there is more than one slot, they are *sorted*, one after the
//! other: which lines do other slots use too? Then they are dealt out to *lanes*: a lane is what must be analysed one
//! after the other, the stacks of one slot (or the global ones), whole or for one line size. The global ones take of a
//! batch what the slot's own made of it (its digests), so they come after those. A batch with lines that others use is dealt to
//! their lanes, too: in its turn they answer what it asks (`visits`). Whoever has time takes a batch off a lane that
//! nobody works on: helper threads all the time, threads of the program when the intake is full, instead of waiting.
//!
//! While there is only one slot there is little that can be done at the same time: then whoever has time makes digests of
//! batches *ahead* of the lane, in any order, and the lane takes those. Where lines are seldom used twice within a batch
//! that saves nothing, and the lane takes the batches themselves; one in [`PROBE`] tells when that changes. And what the only
//! slot's stacks, or the global ones, leave *behind* is worked off, in order, by whoever has nothing else to do.
//!
//! Rounds of several threads that are analysed after all go through one, too, where there are no helpers: threads that wait for that
//! work for it.
//!
//! Concurrency: only [`Schedule`]'s lock orders anything; it is held for a few instructions at a time, and nothing is
//! allocated under it, so a thread that runs out of memory never leaves it locked. A lane is worked on by whoever set
//! its `busy`, so a lane's batches are analysed in the order of the intake, by one thread at a time.

use crate::batch::Batch;
use crate::session::{Owner, try_until};
use crate::stacks::Spare;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};
use crate::visits::Sorted;
use bf_stack::{Bucket, Digest};
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::sync::{OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Batches in the intake. A batch is what a recording buffer of 64 KiB holds: more of them would only leave the caches.
const INTAKE: usize = 16;
/// Batches dealt out and not finished.
const BACKLOG: usize = 32;
/// How often a lock is tried for that may never be let go.
const TRIES: u32 = 1000;
/// Longest sleep without a look around; wake-ups do not depend on it.
const LOOK: Duration = Duration::from_millis(100);
/// One batch in so many is worked off ahead whether or not that is known to pay.
const PROBE: u64 = 16;
/// It pays if a batch has so many accesses for each line that its digest leaves to the lane.
const PAYS: u64 = 6;

/// A batch on its way.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) slot: u32,
    pub(crate) batch: Batch,
    pub(crate) bucket: Bucket,
    /// Once it was sorted, which it is not before there is a second slot.
    pub(crate) sorted: OnceLock<Sorted>,
    /// By part what its slot's stacks made of it, once they have: the global ones take it from there. Or what somebody made
    /// of it ahead of its slot's stacks.
    pub(crate) digests: Vec<OnceLock<Vec<Digest>>>,
    /// Whether its slot's stacks wait for that.
    ahead: AtomicBool,
    /// Whether most of it is loops that stacks take as a whole, which digests are not made of.
    walks: bool,
}

impl Item {
    /// Whether its slot's stacks take what somebody made of it ahead of them.
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Whether it asks another slot's stacks of a part something.
    fn asks(&self, slot: u32, part: usize) -> bool {
        self.sorted.get().and_then(|sorted| sorted.visit(part)).is_some_and(|visit| visit.asked.has(slot))
    }
}

/// A batch taken off a lane.
#[derive(Debug)]
pub(crate) struct Job {
    /// Of the batch, in the order of the intake.
    number: u64,
    pub(crate) work: Work,
    pub(crate) item: Arc<Item>,
}

/// What is to be done with it.
#[derive(Debug)]
pub(crate) enum Work {
    /// Finding out which of its lines other slots use.
    Sort,
    /// Making digests of it for one part of its slot's stacks.
    Digest { part: usize },
    /// Feeding it to stacks.
    Analyse {
        lane: usize,
        owner: Arc<Owner>,
        /// Which part of the owner's stacks.
        part: usize,
        /// Whether these are the stacks of the item's slot, not the global ones.
        private: bool,
    },
    /// Answering what it asks other stacks.
    Answer { lane: usize, owner: Arc<Owner>, part: usize },
}

#[derive(Debug)]
struct Lane {
    /// `None`: the global stacks, which take every slot's batches.
    slot: Option<u32>,
    owner: Arc<Owner>,
    part: usize,
    /// Waiting batches with their numbers; has room for the whole backlog.
    queue: VecDeque<(u64, Arc<Item>)>,
    /// Whether a batch of it is worked on.
    busy: bool,
}

impl Lane {
    fn runnable(&self) -> Option<u64> {
        if self.busy { None } else { self.queue.front().map(|&(number, _)| number) }
    }
}

#[derive(Debug)]
struct Schedule {
    lanes: Vec<Lane>,
    /// Waiting to be sorted, once there is more than one slot.
    sorting: VecDeque<(u64, Arc<Item>)>,
    sorts: bool,
    sorter_busy: bool,
    /// Parts of batches that nobody makes digests of yet.
    ahead: VecDeque<(u64, usize, Arc<Item>)>,
    /// Whether that paid the last time.
    pays: bool,
    /// Batches dealt out so far.
    dealt: u64,
    /// Batches dealt out and not finished.
    backlog: usize,
    /// How many want the lanes to be at rest: nothing is dealt out meanwhile.
    held: usize,
    /// Steps done: tells whoever waits whether anything goes on.
    steps: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Of the stacks of a slot.
    parts: usize,
    /// Whether stacks take digests.
    digests: bool,
    intake: ArrayQueue<Arc<Item>>,
    /// Emptied batches, with their memory.
    spare: ArrayQueue<Batch>,
    spare_digests: Arc<Spare>,
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
    /// For stacks of so many parts; whether they take digests, and where those go afterwards.
    pub(crate) fn new(parts: usize, digests: bool, spare_digests: Arc<Spare>) -> Self {
        let schedule = Schedule {
            lanes: Vec::new(),
            sorting: VecDeque::with_capacity(BACKLOG),
            sorts: false,
            sorter_busy: false,
            ahead: VecDeque::with_capacity(BACKLOG * parts),
            pays: true,
            dealt: 0,
            backlog: 0,
            held: 0,
            steps: 0,
        };
        Self {
            parts,
            digests,
            intake: ArrayQueue::new(INTAKE),
            spare: ArrayQueue::new(INTAKE + BACKLOG),
            spare_digests,
            schedule: Mutex::new(schedule),
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
        // Under the lock nobody is just about to wait; but it may never be let go again, and then they wait in vain, which
        // ends by itself.
        let schedule = try_until(&self.schedule, |tries| tries > TRIES);
        self.closed.store(true, Ordering::Release);
        drop(schedule);
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
                schedule.sorts |= slot.is_none();
                drop(schedule);
                return;
            }
        }
    }

    /// Hands a batch over, in exchange for an empty one. Where there is no room, helps until there is, and, where there is nothing
    /// to analyse, has what others left `behind` worked off; that says whether there was any.
    pub(crate) fn submit(
        &self,
        slot: u32,
        batch: &mut Batch,
        bucket: Bucket,
        analyse: impl Fn(&Job),
        behind: impl Fn() -> bool,
    ) {
        let empty = self.spare.pop().unwrap_or_default();
        let batch = std::mem::replace(batch, empty);
        let digests = (0..self.parts).map(|_| OnceLock::new()).collect();
        let (sorted, ahead, walks) = (OnceLock::new(), AtomicBool::new(false), batch.walks());
        let mut item = Arc::new(Item { slot, batch, bucket, sorted, digests, ahead, walks });
        while let Err(back) = self.intake.push(item) {
            if self.closed() {
                return;
            }
            item = back;
            if !self.step(Some(slot), &analyse) && !behind() {
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

    /// Something was left behind: there is work for one more.
    pub(crate) fn left(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            drop(self.schedule());
            self.progress.notify_one();
        } else if self.idle.load(Ordering::Relaxed) > 0 {
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
    pub(crate) fn help(
        &self,
        time: Duration,
        analyse: impl Fn(&Job),
        behind: impl Fn() -> bool,
        rested: impl Fn() -> bool,
    ) {
        let mut finished = None;
        while !self.closed() {
            if let Some(job) = self.next(finished.take(), None) {
                analyse(&job);
                finished = Some(job);
                continue;
            }
            if behind() {
                continue;
            }
            let schedule = self.schedule();
            self.idle.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let mut timed_out = false;
            let work = schedule.runnable() || schedule.deals() && !self.intake.is_empty();
            if !work && !self.closed() {
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
        let mut schedule = self.schedule();
        let item = finished.and_then(|job| schedule.put_back(job));
        self.deal(&mut schedule);
        let job = schedule.take(preferred);
        self.tell(&schedule);
        drop(schedule);
        self.recycle(item);
        job
    }

    fn finish(&self, job: Job) {
        let mut schedule = self.schedule();
        let item = schedule.put_back(job);
        self.deal(&mut schedule);
        self.tell(&schedule);
        drop(schedule);
        self.recycle(item);
    }

    fn recycle(&self, item: Option<Item>) {
        if let Some(Item { mut batch, digests, .. }) = item {
            let digests = digests.into_iter().filter_map(OnceLock::into_inner).flatten();
            digests.for_each(|digest| self.spare_digests.put(digest));
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
            if schedule.sorts {
                schedule.sorting.push_back((number, item));
            } else {
                if self.digests && !item.walks && (schedule.pays || number.is_multiple_of(PROBE)) {
                    item.ahead.store(true, Ordering::Relaxed);
                    (0..self.parts).for_each(|part| schedule.ahead.push_back((number, part, Arc::clone(&item))));
                }
                schedule.deal(number, &item);
            }
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
    pub(crate) fn settle(&self, patience: Duration, analyse: impl Fn(&Job), behind: impl Fn() -> bool) -> bool {
        let (mut steps, mut since) = (0, Instant::now());
        while !self.closed() {
            if self.step(None, &analyse) || behind() {
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
        self.schedule().held += 1;
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
        self.go_on();
    }

    /// The same if every lane is at rest now.
    pub(crate) fn if_at_rest<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let mut schedule = self.schedule();
        if schedule.backlog > 0 {
            return None;
        }
        schedule.held += 1;
        drop(schedule);
        let result = work();
        self.go_on();
        Some(result)
    }

    fn go_on(&self) {
        self.schedule().held -= 1;
        self.work.notify_all();
    }
}

impl Schedule {
    /// Whether there is something that nobody works on.
    fn runnable(&self) -> bool {
        self.can_sort() || !self.ahead.is_empty() || self.lanes.iter().any(|lane| Self::next_of(lane).is_some())
    }

    fn can_sort(&self) -> bool {
        !self.sorter_busy && !self.sorting.is_empty()
    }

    /// The number of a lane's next batch, if it may be taken now. The global stacks need what the slot's own made of it.
    fn next_of(lane: &Lane) -> Option<u64> {
        let number = lane.runnable()?;
        let (_, item) = lane.queue.front()?;
        if lane.slot.is_none() || item.is_ahead() {
            return item.digests[lane.part].get().map(|_| number);
        }
        Some(number)
    }

    /// Deals a batch out to its lanes, and to those it asks.
    fn deal(&mut self, number: u64, item: &Arc<Item>) {
        let takes = |lane: &Lane| lane.slot.is_none_or(|slot| slot == item.slot || item.asks(slot, lane.part));
        for lane in self.lanes.iter_mut().filter(|lane| takes(lane)) {
            lane.queue.push_back((number, Arc::clone(item)));
        }
        debug_assert!(Arc::strong_count(item) > 1, "slot {} was never added", item.slot);
    }

    /// The next job, of this slot if there is one.
    fn take(&mut self, preferred: Option<u32>) -> Option<Job> {
        if self.can_sort() {
            let (number, item) = self.sorting.pop_front()?;
            self.sorter_busy = true;
            return Some(Job { number, work: Work::Sort, item });
        }
        let runnable = self.lanes.iter().enumerate().filter_map(|(index, lane)| {
            let foreign = preferred.is_some() && lane.slot != preferred;
            Self::next_of(lane).map(|number| (foreign, number, index))
        });
        let Some((_, _, index)) = runnable.min() else {
            let (number, part, item) = self.ahead.pop_front()?;
            return Some(Job { number, work: Work::Digest { part }, item });
        };
        let lane = &mut self.lanes[index];
        let (number, item) = lane.queue.pop_front()?;
        lane.busy = true;
        let (owner, part, private) = (Arc::clone(&lane.owner), lane.part, lane.slot.is_some());
        let work = match lane.slot {
            Some(slot) if slot != item.slot => Work::Answer { lane: index, owner, part },
            _ => Work::Analyse { lane: index, owner, part, private },
        };
        Some(Job { number, work, item })
    }

    /// Whether batches may be dealt out.
    fn deals(&self) -> bool {
        self.held == 0 && self.backlog < BACKLOG
    }

    /// A job was done; returns the batch if that was the last one.
    fn put_back(&mut self, Job { number, work, item }: Job) -> Option<Item> {
        self.steps += 1;
        match work {
            Work::Sort => {
                self.sorter_busy = false;
                self.deal(number, &item);
            }
            Work::Digest { part } => {
                let left = item.digests[part].get().and_then(|digests| digests.iter().map(Digest::firsts).max());
                self.pays = left.is_some_and(|left| PAYS * left as u64 <= item.batch.accesses());
            }
            Work::Analyse { lane, .. } | Work::Answer { lane, .. } => self.lanes[lane].busy = false,
        }
        let item = Arc::into_inner(item);
        self.backlog -= usize::from(item.is_some());
        item
    }
}

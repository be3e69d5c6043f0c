//! Slots and their stacks.
//!
//! Two ways lead to them. [`Session::feed`] analyses a batch at once, on the calling thread. [`Session::hand_over`] leaves
//! it to helper threads ([`crate::pipeline`]), once [`Session::pipelined`] was called. Both keep the order of the batches
//! of a slot, and the order in which batches came, or had their turn to be sorted, is the order of the global stacks and that in
//! which slots take lines from each other. What one slot does to the others' stacks waits for whoever has those next
//! ([`crate::visits`]), so that batches of different slots are analysed side by side, whatever lines they use. Threads that wait for
//! the global stacks, and helpers with nothing else to do, work off what those leave behind.
//!
//! Concurrency: stacks stand behind one mutex a part, taken for one batch at a time. Who feeds holds the slot's `turn` too,
//! so that the stacks of a slot can be copied between two of its batches. Locks are taken by trying again and again: in
//! a process that runs out of memory one may stay locked for good, and then the session is closed and nobody waits.
//! `parking_lot` is no choice: a thread that waits there gets thread-local data with a destructor, which the C library
//! registers on the program's heap, and helper threads have no C library at all.

use crate::anchors::Seek;
use crate::batch::{Place, Repeats};
use crate::directory::{Comings, Directory};
use crate::objects::{Block, Objects};
use crate::pipeline::{Job, Pipeline, Work};
use crate::rounds::{Counted, Left, Next, Rounds};
use crate::stacks::{AtSeam, Behind, Digesters, Spare, Stacks};
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, sleep, spin_loop};
use crate::team::{self, Team};
use crate::tracker::{self, Tracker};
use crate::visits::{Inbox, Sorted, Visit};
use crate::{Batch, Sample};
use bf_profile::{ItemLines, LineCoherence, LineData, SampledLines, SharedLines};
use bf_stack::{Bucket, Common, Deferred, Digest, Holders, Instructions, Limits, Stack, Tally, Within};
use crossbeam_queue::ArrayQueue;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// What a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Line sizes, bytes: powers of two in 8 ..= 2^30, ascending, none twice.
    pub line_sizes: Vec<u32>,
    /// Bounds of the exact part.
    pub limits: Limits,
    /// Which lines are followed; `None`: all.
    pub sample: Option<Sample>,
    /// The instructions engines use; `None`: the best there are.
    pub instructions: Option<Instructions>,
    /// In which order the batches of several slots are put.
    pub order: Order,
    /// Whether histograms are kept by item too. Not if lines are sampled.
    pub by_item: bool,
    /// Whether an item stands for an object too: see [`Session::note`]. Not if lines are sampled.
    pub by_object: bool,
    /// Whether an item stands for a call path too, likewise.
    pub by_path: bool,
    /// How many lines that several slots use are told apart, of each line size.
    pub tracked: usize,
    /// How rounds are sought, which need not be analysed each by itself; `None`: not at all. They are where lines are not
    /// sampled, in the order of time.
    pub rounds: Option<Seek>,
    /// Whether they are where there are several slots, too. What comes in them is put in the order of one of them, whatever the
    /// order in which it came.
    pub rounds_of_several: bool,
}

/// How batches of several slots are put in one order, for the global stacks and for what slots do to each other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they come.
    #[default]
    Time,
    /// All of slot 0, then all of slot 1, …, each time the session settles: batches are kept until then. What slots do then
    /// does not depend on their timing.
    Slots,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            line_sizes: vec![64],
            limits: Limits::default(),
            sample: None,
            instructions: None,
            order: Order::Time,
            by_item: false,
            by_object: false,
            by_path: false,
            tracked: Self::TRACKED,
            rounds: Some(Seek::default()),
            rounds_of_several: false,
        }
    }
}

impl Config {
    /// Lines tracked unless something else is asked for.
    pub const TRACKED: usize = 4096;

    /// Whether bf can keep stacks of lines of this many bytes.
    #[must_use]
    pub fn is_line_size(bytes: u32) -> bool {
        bytes.is_power_of_two() && (8..=1 << 30).contains(&bytes)
    }
}

/// What a session knows at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The profile's line data; bucket b is tag b - 1. Empty if lines are sampled.
    pub lines: Vec<LineData>,
    /// The same if lines are sampled.
    pub sampled: Vec<SampledLines>,
    /// What slots did to each other, if there are several and lines are not sampled.
    pub coherence: Vec<LineCoherence>,
    /// The line data broken down by item; empty if that was not asked for.
    pub items: Vec<ItemLines>,
    /// Lines that several slots used, one by one, in the same cases. What lies there is left open.
    pub sharing: Vec<SharedLines>,
    /// By line size and line of those the blocks that are known to have lain there then, where others do now.
    pub replaced: Vec<Vec<Vec<Block>>>,
    /// Slots that made at least one access, counted or not.
    pub threads: u32,
    /// Counted accesses.
    pub accesses: u64,
    /// Counted accesses that came when no more memory could be taken: no stack has them.
    pub skipped: u64,
    /// Counted accesses that were not analysed one by one, because they belong to rounds that are all the same.
    pub again: u64,
    /// References no stack could take.
    pub dropped: u64,
    /// Stacks left out because their owner did not let go of them in time.
    pub missing: u32,
}

/// The stacks of one slot, or the global ones.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Held by who feeds all parts.
    turn: Mutex<()>,
    /// All line sizes together, or one part for each.
    parts: Vec<Mutex<Stacks>>,
    /// What each left behind; locked after it.
    behind: Vec<Mutex<Behind>>,
    /// What each is to do for batches that ask other slots' stacks; locked after it.
    inboxes: Vec<Mutex<Inbox>>,
    /// How much of that all of them are asked.
    asked: AtomicUsize,
}

impl Owner {
    fn new(parts: Vec<Mutex<Stacks>>) -> Arc<Self> {
        let behind = parts.iter().map(|_| Mutex::default()).collect();
        let inboxes = parts.iter().map(|_| Mutex::default()).collect();
        Arc::new(Self { turn: Mutex::new(()), parts, behind, inboxes, asked: AtomicUsize::new(0) })
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Has nothing left behind of a part, whose stacks are locked; whether that was so before it was `given_up`.
    fn settle(&self, part: usize, stacks: &mut Stacks, given_up: impl Fn() -> bool) -> bool {
        while let Some(mut behind) = try_until(&self.behind[part], |_| given_up()) {
            if let Some(taken) = behind.take_all() {
                return stacks.settle(taken);
            }
            drop(behind);
            if given_up() {
                break;
            }
            sleep(NAP);
        }
        false
    }
}

/// Slots and who has them.
#[derive(Debug, Default)]
struct Slots {
    owners: Vec<Arc<Owner>>,
    /// When the first thread of each was made, if that is known: later ones have greater numbers.
    made: Vec<Option<u64>>,
    /// Those whose thread ended.
    free: Vec<u32>,
}

impl Slots {
    /// By slot, its place in the order in which their first threads were made.
    fn numbers(&self) -> Vec<u32> {
        let (mut order, mut numbers): (Vec<_>, _) = ((0..self.made.len()).collect(), vec![0; self.made.len()]);
        order.sort_by_key(|&slot| self.made[slot]);
        (0..).zip(order).for_each(|(number, slot)| numbers[slot] = number);
        numbers
    }
}

/// All stacks of one process. Shared by its threads; each slot must be fed by one thread at a time.
#[derive(Debug)]
pub struct Session {
    config: Config,
    /// What each part of an owner keeps.
    parts: Vec<Config>,
    slots: Mutex<Slots>,
    /// Absent while there is only one slot, which is then the same.
    global: OnceLock<Arc<Owner>>,
    /// Held by who has its turn to sort a batch.
    sorter: Mutex<Sorter>,
    /// For each line size; locked after the sorter.
    trackers: Mutex<Vec<Tracker>>,
    objects: Mutex<Objects>,
    /// While it is not 0, slots take lines from each other.
    contention: AtomicU32,
    /// Batches that wait for those of lesser slots ([`Order::Slots`]).
    kept: Mutex<Vec<(u32, Batch, Bucket)>>,
    pipeline: OnceLock<Pipeline>,
    /// Held while it is decided what is to be done with a batch; before all other locks.
    repeating: Mutex<Repeating>,
    /// Where there are no helpers: takes rounds that are analysed after all, for whoever waits for that to help.
    replay: Mutex<Option<Arc<Pipeline>>>,
    /// Batches on their way from there to stacks or helpers, of several slots.
    on_their_way: AtomicU32,
    /// Threads that wait for others and do meanwhile what the global stacks leave behind.
    waiting: AtomicU32,
    /// Whether the latter may have left something since one of them looked.
    offered: AtomicBool,
    /// Batches that their own threads feed, and whether there should be none.
    fed: AtomicU32,
    starting: AtomicBool,
    /// Where there are no helpers: what slots made of batches for the global stacks. Who finds these busy leaves it to whoever
    /// has their turn next.
    made: Mutex<AllMade>,
    spare: Arc<Spare>,
    /// Memory for the lines of batches.
    spare_comings: ArrayQueue<Vec<Comings>>,
    /// By part, those that nobody uses. What they counted is slot 0's.
    digesters: Mutex<Vec<(usize, Digesters)>>,
    accesses: AtomicU64,
    skipped: AtomicU64,
    again: AtomicU64,
    /// Batches of rounds that were analysed after they had been compared.
    steps: AtomicU64,
    /// Whether no more memory may be taken.
    full: fn() -> bool,
    closed: AtomicBool,
}

impl Session {
    /// No slots yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let parts = vec![config.clone()];
        let sought = config.order == Order::Time && config.sample.is_none();
        let rounds = config
            .rounds
            .filter(|_| sought && !config.line_sizes.is_empty())
            .map(|seek| Rounds::new(seek, config.line_sizes.iter().map(|size| size.ilog2()).collect()));
        Self {
            config,
            parts,
            slots: Mutex::default(),
            global: OnceLock::new(),
            sorter: Mutex::default(),
            trackers: Mutex::default(),
            objects: Mutex::default(),
            contention: AtomicU32::new(0),
            kept: Mutex::default(),
            pipeline: OnceLock::new(),
            repeating: Mutex::new(Repeating { rounds, ..Repeating::default() }),
            replay: Mutex::default(),
            on_their_way: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            offered: AtomicBool::new(false),
            fed: AtomicU32::new(0),
            starting: AtomicBool::new(false),
            made: Mutex::default(),
            spare: Arc::new(Spare::new(2 * MADE)),
            spare_comings: ArrayQueue::new(SPARE_COMINGS),
            digesters: Mutex::default(),
            accesses: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            again: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            full: || false,
            closed: AtomicBool::new(false),
        }
    }

    /// Keeps the line sizes apart, so that several threads can work on the stacks of one slot. Before the first slot.
    #[must_use]
    pub fn apart(mut self) -> Self {
        let of = |&line_bytes: &u32| Config { line_sizes: vec![line_bytes], ..self.config.clone() };
        if !self.config.line_sizes.is_empty() {
            self.parts = self.config.line_sizes.iter().map(of).collect();
        }
        self
    }

    /// Stops the stacks where `full` says so; from then on accesses are counted and nothing more. Asked often.
    #[must_use]
    pub fn limited_by(mut self, full: fn() -> bool) -> Self {
        self.full = full;
        self
    }

    /// For when a thread will never let go of what it holds: whoever waits gives up, and feeding and slots do nothing.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(pipeline) = self.pipeline.get() {
            pipeline.close();
        }
        if let Some(replay) = try_until(&self.replay, |_| true) {
            replay.iter().for_each(|pipeline| pipeline.close());
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes a lock, unless the session was closed.
    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        try_until(mutex, |_| self.is_closed())
    }

    /// What it keeps.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether there ever were two threads at a time: then the order of batches means something.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.global.get().is_some()
    }

    /// So many batches after the last in which a slot missed a line that another had taken, they are not short any more.
    const CONTENDED: u32 = 64;

    /// Whether slots took lines from each other of late: then their order should be known in small steps.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.contention.load(Ordering::Relaxed) > 0
    }

    /// A place for a new thread: that of a thread that ended if there is one, with its contents, else a new one.
    /// Slot 0 is the first. Once there are two the global stacks exist and have slot 0's contents and counts.
    pub fn take_slot(&self) -> u32 {
        let Some(mut repeating) = self.lock(&self.repeating) else { return 0 };
        let free = self.lock(&self.slots).and_then(|mut slots| slots.free.pop());
        free.unwrap_or_else(|| self.add_slot(&mut repeating))
    }

    /// When the thread that took this slot was made: those that were made later have greater numbers.
    pub fn made(&self, slot: u32, thread: u64) {
        if let Some(mut slots) = self.lock(&self.slots)
            && let Some(made) = slots.made.get_mut(slot as usize)
        {
            made.get_or_insert(thread);
        }
    }

    /// By slot, the number that it has in a snapshot.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.lock(&self.slots).map_or_else(Vec::new, |slots| slots.numbers())
    }

    /// The thread on this slot ended.
    pub fn release_slot(&self, slot: u32) {
        if let Some(mut slots) = self.lock(&self.slots) {
            slots.free.push(slot);
        }
    }

    /// Makes sure that slots 0 ..= slot exist, for traces that number their threads.
    pub fn ensure_slot(&self, slot: u32) {
        let lacks = || self.lock(&self.slots).is_some_and(|slots| slots.owners.len() <= slot as usize);
        if lacks() {
            let Some(mut repeating) = self.lock(&self.repeating) else { return };
            while lacks() {
                self.add_slot(&mut repeating);
            }
        }
    }

    /// One more, for which rounds are sought anew: there are none of so many slots yet.
    fn add_slot(&self, repeating: &mut Repeating) -> u32 {
        if self.lock(&self.slots).is_some_and(|slots| !slots.owners.is_empty()) {
            self.seek_anew(repeating);
        }
        let Some(mut slots) = self.lock(&self.slots) else { return 0 };
        if let [only] = slots.owners.as_slice() {
            match self.pipeline.get() {
                Some(pipeline) => pipeline.at_rest(|job| self.work_on(job), || self.begin_global(only)),
                None => self.begin_global(only),
            }
        }
        let slot = slots.owners.len() as u32;
        let mut parts: Vec<_> = self.parts.iter().map(Stacks::new).collect();
        if slot > 0 {
            parts.iter_mut().for_each(|stacks| stacks.share(slot));
        } else if self.pipeline.get().is_some() {
            parts.iter_mut().for_each(Stacks::defer);
        }
        let owner = Owner::new(parts.into_iter().map(Mutex::new).collect());
        if let Some(pipeline) = self.pipeline.get() {
            pipeline.add(Some(slot), &owner);
        }
        slots.owners.push(owner);
        slots.made.push(None);
        for stacks in self.global.get().into_iter().flat_map(|global| &global.parts) {
            self.lock(stacks).into_iter().for_each(|mut stacks| stacks.be_of(slots.owners.len()));
        }
        slot
    }

    fn begin_global(&self, only: &Owner) {
        let Some(_turn) = self.lock(&only.turn) else { return };
        self.absorb(only, || self.is_closed());
        let copy = |part: usize| {
            let mut stacks = self.lock(&only.parts[part])?;
            let settled = only.settle(part, &mut stacks, || self.is_closed());
            settled.then(|| {
                let mut global = stacks.clone();
                if self.pipeline.get().is_some() {
                    global.defer();
                }
                Mutex::new(global)
            })
        };
        let Some(parts) = (0..only.parts.len()).map(copy).collect() else { return };
        if self.config.sample.is_none() {
            self.begin_sharing(only);
        }
        let global = Owner::new(parts);
        if let Some(pipeline) = self.pipeline.get() {
            pipeline.add(None, &global);
        }
        // There was none: slots are added one at a time.
        let _ = self.global.set(global);
    }

    /// There will be a second slot.
    fn begin_sharing(&self, only: &Owner) {
        let Some(mut sorter) = self.lock(&self.sorter) else { return };
        sorter.directories = self.config.line_sizes.iter().map(|_| Directory::new()).collect();
        if let Some(mut trackers) = self.lock(&self.trackers) {
            let tracker = |size: &u32| Tracker::new(size.ilog2(), self.config.tracked);
            *trackers = self.config.line_sizes.iter().map(tracker).collect();
        }
        if self.config.tracked > 0
            && let Some(mut objects) = self.lock(&self.objects)
        {
            objects.watch_replaced();
        }
        for (part, stacks) in only.parts.iter().enumerate() {
            let Some(mut stacks) = self.lock(stacks) else { return };
            stacks.share(0);
            stacks.enter_into(0, &mut sorter.directories[part..]);
        }
    }

    /// From now on batches may be handed over; helper threads call [`Session::help`]. Waits for batches that are fed, unless a
    /// thread never ends that: whether it came to be.
    pub fn pipelined(&self) -> bool {
        let _starting = Starting::begin(&self.starting);
        let is_closed = || self.is_closed();
        let mut naps = 0;
        while self.fed.load(Ordering::SeqCst) > 0 {
            if is_closed() || naps == MOST_NAPS {
                return false;
            }
            naps += 1;
            sleep(NAP);
        }
        // Nor are rounds analysed that were compared.
        let Some(_repeating) = self.lock(&self.repeating) else { return false };
        self.pass_all_on(is_closed);
        let answered = self.answer_all(is_closed);
        let Some(slots) = answered.and_then(|()| self.lock(&self.slots)) else { return false };
        for stacks in slots.owners.iter().chain(self.global.get()).flat_map(|owner| &owner.parts) {
            self.lock(stacks).into_iter().for_each(|mut stacks| stacks.defer());
        }
        // If there is one, it stays.
        let _ = self.pipeline.set(self.lanes(&slots.owners));
        true
    }

    /// A pipeline for the stacks of all slots and the global ones.
    fn lanes(&self, owners: &[Arc<Owner>]) -> Pipeline {
        let pipeline = Pipeline::new(self.parts.len(), self.config.sample.is_none(), Arc::clone(&self.spare));
        (0..).zip(owners).for_each(|(slot, owner)| pipeline.add(Some(slot), owner));
        self.global.get().into_iter().for_each(|global| pipeline.add(None, global));
        pipeline
    }

    /// Before a thread feeds a batch, which it does not while helpers are to come; `None` if the session was closed.
    fn begin_to_feed(&self) -> Option<OnItsWay<'_>> {
        loop {
            self.fed.fetch_add(1, Ordering::SeqCst);
            let feeds = OnItsWay(Some(&self.fed));
            if !self.starting.load(Ordering::SeqCst) {
                return Some(feeds);
            }
            drop(feeds);
            if self.is_closed() {
                return None;
            }
            sleep(NAP);
        }
    }

    /// Takes note of what a batch of the thread on `slot` allocates and frees, and whom it calls. If histograms are kept by
    /// object or call path, its accesses are attributed to those. To be called before it is fed.
    pub fn note(&self, slot: u32, batch: &mut Batch) {
        let Config { by_object, by_path, .. } = self.config;
        if !by_object && !by_path && !batch.has_events() {
            return;
        }
        let compared = || self.lock(&self.repeating)?.rounds.as_ref()?.compared();
        let compared = if batch.has_events() { None } else { compared() };
        let Some(mut objects) = self.lock(&self.objects) else { return };
        let objects = &mut *objects;
        if compared.is_some_and(|compared| compared == objects.changes()) {
            batch.attribute_later();
        } else if by_object || by_path {
            batch.attribute(slot, by_object, objects);
        } else {
            batch.for_each_event(|event, words| objects.note(slot, event, words));
        }
        batch.set_replaced(objects.take_replaced());
    }

    /// Attributes a batch of the thread on `slot` that was to be attributed later.
    fn attribute(&self, slot: u32, batch: &mut Batch) {
        if batch.is_owed()
            && let Some(mut objects) = self.lock(&self.objects)
        {
            batch.attribute(slot, self.config.by_object, &mut objects);
        }
    }

    /// What is the same again and again while threads wait for each other.
    fn repeats(&self, batch: &Batch) -> Option<Repeats> {
        self.is_shared().then(|| batch.repeats()).flatten()
    }

    /// Gives `look` what is known of objects in memory; `None` if that takes longer than `patience`.
    pub fn objects<R>(&self, patience: Duration, look: impl FnOnce(&mut Objects) -> R) -> Option<R> {
        lock_for(&self.objects, patience).map(|mut objects| look(&mut objects))
    }

    /// Feeds one batch of the thread on `slot`. Batches enter the global stacks in the order of the calls.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn feed(&self, slot: u32, batch: &Batch, bucket: Bucket) {
        let Some(feeds) = self.begin_to_feed() else { return };
        match self.config.order {
            // What was handed over by others may be behind it in the order, and before it on its way.
            Order::Time if self.pipeline.get().is_some() => {
                drop(feeds);
                self.hand_over(slot, &mut batch.clone(), bucket);
            }
            Order::Time => {
                let Some(_on_its_way) = self.to_analyse(slot, batch, bucket) else { return };
                let mut batch = Cow::Borrowed(batch);
                if batch.is_owed() {
                    self.attribute(slot, batch.to_mut());
                }
                if let Some(repeats) = self.repeats(&batch) {
                    batch.to_mut().fold(repeats);
                }
                self.feed_now(slot, &batch, bucket);
            }
            Order::Slots => {
                self.lock(&self.kept).into_iter().for_each(|mut kept| kept.push((slot, batch.clone(), bucket)))
            }
        }
    }

    fn feed_now(&self, slot: u32, batch: &Batch, bucket: Bucket) {
        if let Some(all) = self.feed_all(slot, batch, bucket) {
            self.count(batch, bucket, if all { 0 } else { batch.accesses() });
        }
    }

    /// Feeds a batch to all stacks; whether they took it, `None` if the session was closed.
    fn feed_all(&self, slot: u32, batch: &Batch, bucket: Bucket) -> Option<bool> {
        let owner = Arc::clone(&self.lock(&self.slots)?.owners[slot as usize]);
        let turn = self.lock(&owner.turn)?;
        // Others need not wait for that; the second slot may come meanwhile.
        let sorts = self.is_shared() && self.config.sample.is_none() && !(self.full)();
        let comings = sorts.then(|| self.comings(batch));
        let mut sorter = self.lock_and_help(&self.sorter)?;
        let sorted = self.sort(&mut sorter, slot, (batch, comings), bucket);
        let global = self.global.get();
        // What is made of batches goes to the global stacks in the same order.
        let place = match global {
            Some(_) if self.config.sample.is_none() => Some(self.lock(&self.made)?.reserve()),
            _ => None,
        };
        drop(sorter);
        let feed = |part| self.feed_private(&owner, part, &sorted, batch, bucket).unwrap_or_default();
        let taken: Vec<_> = (0..self.parts.len()).map(feed).collect();
        let all = taken.iter().all(|taken| taken.all);
        match (global, place) {
            (Some(global), Some(place)) => {
                let digests = taken.into_iter().map(|taken| taken.digests).collect();
                self.pass_on(global, slot, place, Made { digests, bucket });
            }
            (Some(global), None) => {
                let _turn = self.lock(&global.turn)?;
                (0..self.parts.len()).for_each(|part| self.feed_sampled(global, part, batch, bucket));
            }
            _ => {}
        }
        drop(turn);
        if sorted.is_visit() {
            self.help_asked(&owner);
        }
        Some(all)
    }

    /// `None`: a batch belongs to a round like one before, so that there is nothing more to do with it now.
    fn to_analyse(&self, slot: u32, batch: &Batch, bucket: Bucket) -> Option<OnItsWay<'_>> {
        if self.config.rounds.is_none() {
            return Some(OnItsWay(None));
        }
        let mut repeating = self.lock_repeating(slot)?;
        if self.global.get().is_none() {
            if self.is_round(&mut repeating, slot, batch, bucket) {
                return None;
            }
        } else if let Some(team) = &mut repeating.team {
            match team.next(slot, batch, bucket, (self.full)()) {
                team::Next::Analyse => {}
                team::Next::Break => self.end_team(&mut repeating, DRAINED),
                team::Next::Keep => {
                    self.count_again(batch, bucket);
                    self.feed_team(&mut repeating);
                    return None;
                }
            }
        }
        self.on_their_way.fetch_add(1, Ordering::Relaxed);
        Some(OnItsWay(Some(&self.on_their_way)))
    }

    /// Waits until all batches that were to be analysed are, while no more can come; whether they are before nothing goes on for
    /// `patience`.
    fn is_quiet(&self, patience: Duration) -> bool {
        let late = past(patience);
        while self.on_their_way.load(Ordering::Acquire) > 0 {
            if self.is_closed() || late() {
                return false;
            }
            sleep(NAP);
        }
        self.drain(patience)
    }

    /// Analyses rounds that all slots have done, as far as they need be.
    fn feed_team(&self, repeating: &mut Repeating) {
        let Repeating { team: Some(team), told, .. } = repeating else { return };
        while let Some(last) = team.is_due() {
            let ready = self.is_quiet(DRAINED) && (!last || self.begin_told(told));
            let mut whole = ready;
            if ready {
                whole = self.feed_after_all(|feed| team.for_each_batch(feed)) && (!last || self.end_told(told));
                team.analysed(last && whole);
            }
            if !whole {
                return self.end_team(repeating, DRAINED);
            }
        }
    }

    /// What is counted from now on counts again; whether it can.
    fn begin_told(&self, told: &mut Told) -> bool {
        let Some(mut trackers) = self.lock(&self.trackers) else { return false };
        told.shared = trackers.iter_mut().map(Tracker::counted).collect();
        drop(trackers);
        self.of_all(Stacks::mark).is_some_and(|answers| !answers.contains(&false))
    }

    /// What was counted since then counts again, for each round that is like this one; whether that is all there is.
    fn end_told(&self, told: &mut Told) -> bool {
        let Some(tallies) = self.of_all(Stacks::tally).and_then(|tallies| tallies.into_iter().collect()) else {
            return false;
        };
        let Some(mut trackers) = self.lock(&self.trackers) else { return false };
        let shared = trackers.iter_mut().zip(&told.shared).map(|(tracker, before)| tracker.since(before)).collect();
        let Some(shared) = shared else { return false };
        (told.shared, told.stacks) = (shared, tallies);
        true
    }

    /// The private stacks by slot and part, then the global ones.
    fn all_owners(&self) -> Option<Vec<Arc<Owner>>> {
        let owners = self.lock(&self.slots)?.owners.clone();
        Some(owners.into_iter().chain(self.global.get().cloned()).collect())
    }

    /// Something of the stacks of all owners, by part, while nothing is fed; `None` if it cannot be had.
    fn of_all<T>(&self, ask: impl Fn(&mut Stacks) -> T) -> Option<Vec<T>> {
        let closed = || self.is_closed();
        self.pass_all_on(closed);
        self.answer_all(closed)?;
        let mut all = Vec::new();
        for owner in self.all_owners()? {
            let _turn = self.lock(&owner.turn)?;
            for part in 0..owner.parts() {
                let mut stacks = self.lock(&owner.parts[part])?;
                all.push(owner.settle(part, &mut stacks, closed).then(|| ask(&mut stacks))?);
            }
        }
        Some(all)
    }

    /// Takes the lock that comes first, for a thread on `slot`, which meanwhile helps whoever has it to analyse rounds after all.
    fn lock_repeating(&self, slot: u32) -> Option<MutexGuard<'_, Repeating>> {
        loop {
            if let Some(repeating) = try_until(&self.repeating, |_| true) {
                return Some(repeating);
            }
            let replay = self.lock(&self.replay).filter(|_| !self.is_closed())?.clone();
            let pipeline = self.pipeline.get().or(replay.as_deref());
            if !pipeline.is_some_and(|pipeline| pipeline.step(Some(slot), |job| self.work_on(job))) {
                sleep(NAP);
            }
        }
    }

    /// Analyses what was counted as if it had been, in the order in which `each` gives it, nothing else being on its way; whether
    /// the stacks took it.
    fn feed_after_all(&self, each: impl FnOnce(&mut dyn FnMut(u32, &Batch, Bucket))) -> bool {
        self.pass_all_on(|| self.is_closed());
        let replay = if self.pipeline.get().is_some() { None } else { self.begin_replay() };
        let Some(pipeline) = self.pipeline.get().or(replay.as_deref()) else { return false };
        let skipped = self.skipped.load(Ordering::Relaxed);
        each(&mut |slot, batch, bucket| {
            self.take_back(batch, bucket, true);
            if bucket != Bucket::UNCOUNTED {
                // Whoever analyses it counts it.
                self.accesses.fetch_sub(batch.accesses(), Ordering::Relaxed);
            }
            pipeline.submit(slot, &mut batch.clone(), bucket, |job| self.work_on(job), || self.work_behind());
        });
        let settled = pipeline.settle(DRAINED, |job| self.work_on(job), || self.work_behind());
        self.lock(&self.replay).into_iter().for_each(|mut replay| *replay = None);
        settled && self.skipped.load(Ordering::Relaxed) == skipped
    }

    /// Whoever waits for the lock that comes first finds a pipeline from now on.
    fn begin_replay(&self) -> Option<Arc<Pipeline>> {
        let owners = self.lock(&self.slots)?.owners.clone();
        let pipeline = Arc::new(self.lanes(&owners));
        *self.lock(&self.replay)? = Some(Arc::clone(&pipeline));
        Some(pipeline)
    }

    /// A batch was not counted again after all: the stacks took all of it, or not.
    fn take_back(&self, batch: &Batch, bucket: Bucket, all: bool) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        if bucket != Bucket::UNCOUNTED {
            self.again.fetch_sub(batch.accesses(), Ordering::Relaxed);
            self.skipped.fetch_add(if all { 0 } else { batch.accesses() }, Ordering::Relaxed);
        }
    }

    /// What waits for the global stacks goes there before what follows; `false` if it is given up to wait for their turn.
    fn pass_all_on(&self, given_up: impl Fn() -> bool) -> bool {
        self.global.get().is_none_or(|global| {
            let turn = try_until(&global.turn, |_| given_up());
            turn.map(|_turn| self.feed_made(global, usize::MAX)).is_some()
        })
    }

    /// Counts the rounds of all slots that were only compared, and analyses what came after them.
    fn end_team(&self, repeating: &mut Repeating, patience: Duration) {
        let Repeating { team: Some(team), told, .. } = repeating else { return };
        let left = team.end();
        if left.is_empty() {
            return;
        }
        let is_quiet = self.is_quiet(patience);
        if left.times > 0
            && let (Some(owners), Some(mut trackers)) = (self.all_owners(), self.lock(&self.trackers))
        {
            let parts = owners.iter().flat_map(|owner| &owner.parts);
            for (part, tallies) in parts.zip(&told.stacks) {
                self.lock(part).into_iter().for_each(|mut stacks| stacks.count_again(tallies, left.times));
            }
            let shared = trackers.iter_mut().zip(&told.shared);
            shared.for_each(|(tracker, tally)| tracker.count_again(tally, left.times));
        }
        if is_quiet {
            let _ = self.feed_after_all(|feed| left.for_each_batch(feed));
        } else {
            left.for_each_batch(|_, batch, bucket| self.take_back(batch, bucket, false));
        }
    }

    /// Whether a batch of the only slot belongs to a round like one before, so that there is nothing more to do with it.
    fn is_round(&self, repeating: &mut Repeating, slot: u32, batch: &Batch, bucket: Bucket) -> bool {
        let Some(rounds) = &mut repeating.rounds else { return false };
        match rounds.next(batch, bucket, (self.full)()) {
            Next::Analyse => return false,
            Next::Count(part) => return self.count_round(repeating, batch, bucket, &part),
            Next::Break(to) => {
                self.count_again(&batch.part(Place::START..to), bucket);
                let left = self.end_rounds(repeating, DRAINED);
                let mut rest = batch.part(to..batch.end());
                self.attribute(slot, &mut rest);
                if let Some(rounds) = repeating.rounds.as_mut().filter(|_| !batch.has_events()) {
                    rounds.expect(left, &rest, bucket);
                }
                self.analyse_only(&rest, bucket);
            }
            Next::Resume(to) => {
                let (known, again) = (batch.part(Place::START..to), batch.part(to..batch.end()));
                if self.analyse_only(&known, bucket) && self.is_true(|stacks| stacks.is_told()) {
                    self.count_again(&again, bucket);
                } else {
                    rounds.give_up();
                    self.analyse_only(&again, bucket);
                }
            }
            Next::Skip => self.count_again(batch, bucket),
        }
        true
    }

    /// Analyses a part of the round that is to be counted, where that is more than to analyse it; whether it was.
    fn count_round(&self, repeating: &mut Repeating, batch: &Batch, bucket: Bucket, part: &Counted) -> bool {
        let Repeating { rounds: Some(rounds), tally, at_seam, .. } = repeating else { return false };
        if part.begins {
            *at_seam = None;
            if !self.is_true(Stacks::mark) {
                rounds.give_up();
                return false;
            }
        }
        let mut from = Place::START;
        let mut take = |to: Place| {
            let part = batch.part(std::mem::replace(&mut from, to)..to);
            self.analyse_only(&part, bucket)
        };
        if let Some(seam) = part.seam
            && take(seam)
        {
            let most = rounds.most_kept();
            *at_seam = self.of_only(|stacks| stacks.keep(most)).and_then(|kept| kept.into_iter().collect());
        }
        let Some(end) = part.end else {
            return part.seam.is_some_and(|_| {
                take(batch.end());
                true
            });
        };
        let all = take(end);
        match self.of_only(Stacks::tally).and_then(|tally| tally.into_iter().collect()).filter(|_| all) {
            Some(counted) => {
                *tally = counted;
                self.count_again(&batch.part(end..batch.end()), bucket);
            }
            None => {
                rounds.give_up();
                take(batch.end());
            }
        }
        true
    }

    fn count_again(&self, batch: &Batch, bucket: Bucket) {
        self.count(batch, bucket, 0);
        if bucket != Bucket::UNCOUNTED {
            self.again.fetch_add(batch.accesses(), Ordering::Relaxed);
        }
    }

    /// Counts the rounds that were only compared, and analyses what came after them. What there was.
    fn end_rounds(&self, repeating: &mut Repeating, patience: Duration) -> Left {
        let Repeating { rounds, tally, at_seam, .. } = repeating;
        let left = rounds.as_mut().map(|rounds| rounds.end(at_seam.is_some())).unwrap_or_default();
        let mut at_seam = at_seam.take().filter(|_| left.from_seam).into_iter().flatten();
        if (left.times > 0 || left.from_seam)
            && let Some(owner) = self.only()
        {
            for (part, tally) in owner.parts.iter().zip(&*tally) {
                let (stacks, kept) = (self.lock(part), at_seam.next());
                if let Some(mut stacks) = stacks {
                    stacks.count_again(tally, left.times);
                    kept.into_iter().for_each(|kept| stacks.go_on_from(kept));
                }
            }
        }
        left.for_each_batch(|batch, bucket| {
            let all = self.feed_only(batch, bucket, patience);
            self.take_back(batch, bucket, all);
        });
        left
    }

    /// There will be one more slot besides others.
    fn seek_anew(&self, repeating: &mut Repeating) {
        self.end_repeating(repeating, DRAINED);
        let sought = self.config.rounds.filter(|_| self.config.rounds_of_several && repeating.rounds.is_some());
        let team = repeating.team.take().or_else(|| sought.map(Team::new));
        *repeating = Repeating { team, ..Repeating::default() };
    }

    /// The same, unless somebody else is at it and nothing goes on for `patience`.
    fn end_repeating_for(&self, patience: Duration) -> Option<()> {
        loop {
            let before = self.steps.load(Ordering::Relaxed);
            let repeating = lock_for(&self.repeating, patience);
            if repeating.is_some() || self.steps.load(Ordering::Relaxed) == before {
                return repeating.map(|mut repeating| self.end_repeating(&mut repeating, patience));
            }
        }
    }

    fn end_repeating(&self, repeating: &mut Repeating, patience: Duration) {
        self.end_rounds(repeating, patience);
        self.end_team(repeating, patience);
    }

    fn only(&self) -> Option<Arc<Owner>> {
        self.lock(&self.slots)?.owners.first().cloned()
    }

    /// The same as [`Self::feed_only`], of a batch that is not counted yet.
    fn analyse_only(&self, batch: &Batch, bucket: Bucket) -> bool {
        let all = self.feed_only(batch, bucket, DRAINED);
        self.count(batch, bucket, if all { 0 } else { batch.accesses() });
        all
    }

    /// Analyses a batch of the only slot, behind all that was handed over; whether all of it was taken.
    fn feed_only(&self, batch: &Batch, bucket: Bucket, patience: Duration) -> bool {
        let fed = || {
            let owner = self.only().filter(|_| self.drain(patience))?;
            let _turn = self.lock(&owner.turn)?;
            let alone = Sorted::default();
            let feed = |part| self.feed_private(&owner, part, &alone, batch, bucket).is_some_and(|taken| taken.all);
            Some((0..self.parts.len()).filter(|&part| !feed(part)).count() == 0)
        };
        batch.words().is_empty() || fed().unwrap_or_default()
    }

    /// Whether something is true of all stacks of the only slot.
    fn is_true(&self, ask: impl Fn(&mut Stacks) -> bool) -> bool {
        self.of_only(ask).is_some_and(|answers| !answers.contains(&false))
    }

    /// Something of the stacks of the only slot, by part, when all is analysed that was handed over; `None` if it cannot be.
    fn of_only<T>(&self, ask: impl Fn(&mut Stacks) -> T) -> Option<Vec<T>> {
        let closed = || self.is_closed();
        let owner = self.only().filter(|_| self.drain(DRAINED))?;
        let _turn = self.lock(&owner.turn)?;
        let absorbed = self.absorb(&owner, closed);
        let of = |part: usize| {
            let mut stacks = self.lock(&owner.parts[part])?;
            owner.settle(part, &mut stacks, closed).then(|| ask(&mut stacks))
        };
        (0..owner.parts()).map(of).collect::<Option<_>>().filter(|_| absorbed)
    }

    /// Feeds a batch to the global stacks where lines are sampled.
    fn feed_sampled(&self, global: &Owner, part: usize, batch: &Batch, bucket: Bucket) {
        if let Some(mut stacks) = self.lock(&global.parts[part]) {
            stacks.feed(batch, bucket, &self.parts[part], self.full, |_, _| {});
        }
    }

    /// Leaves a batch to the global stacks at its place, and feeds what waits for them unless somebody does so now.
    fn pass_on(&self, global: &Owner, slot: u32, place: u64, made: Made) {
        let Some(mut all) = self.lock(&self.made) else { return };
        let walks = made.digests.iter().flatten().any(Digest::walks);
        all.put(place, made);
        // By turns, so that no thread falls behind the others.
        let is_due = all.is_due(if all.fed_by == slot { 2 } else { 1 });
        drop(all);
        if (is_due || walks)
            && let Some(_turn) = try_until(&global.turn, |_| true)
        {
            self.lock(&self.made).into_iter().for_each(|mut all| all.fed_by = slot);
            // Where loops walk over lines little is looked up, and threads wait for each other.
            self.feed_made(global, if walks { 2 } else { MADE });
        }
        while let Some((true, waiting)) = self.lock(&self.made).map(|all| (all.is_due(2), all.each.len()))
            && !self.is_closed()
        {
            // One that is not there yet may take long.
            let next = self.lock_and_help(&global.turn).is_some_and(|_turn| self.feed_made(global, 1));
            if !next && waiting <= MOST_MADE {
                break;
            } else if !next {
                self.work_or_nap();
            }
        }
    }

    /// Takes a lock, and does meanwhile what the global stacks leave behind.
    fn lock_and_help<'a, T>(&self, mutex: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        let mut waits = None;
        loop {
            let locked = try_until(mutex, |_| true);
            if locked.is_some() || self.is_closed() {
                return locked;
            }
            waits.get_or_insert_with(|| {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                OnItsWay(Some(&self.waiting))
            });
            self.work_or_nap();
        }
    }

    /// Does what the global stacks left behind since somebody looked, or sleeps.
    fn work_or_nap(&self) {
        if !self.offered.swap(false, Ordering::Relaxed) || !self.work_behind() {
            sleep(NAP);
        }
    }

    /// Feeds so much of what waits for the global stacks, at most, by whoever has their turn; whether there was any.
    fn feed_made(&self, global: &Owner, most: usize) -> bool {
        let mut any = false;
        for made in (0..most).map_while(|_| self.lock(&self.made)?.next()) {
            any = true;
            for (part, digests) in made.digests.into_iter().enumerate() {
                self.feed_digests(global, part, &digests, made.bucket);
                digests.into_iter().for_each(|digest| self.spare.put(digest));
            }
        }
        any
    }

    /// Feeds digests of a batch; whether all of it was taken.
    fn feed_digests(&self, owner: &Owner, part: usize, digests: &[Digest], bucket: Bucket) -> bool {
        self.lock(&owner.parts[part]).is_some_and(|mut stacks| {
            if self.pipeline.get().is_none() {
                self.divide(owner, part, &mut stacks, digests);
            }
            let all = stacks.feed_digests(digests, bucket, self.full, self.leave(owner, part));
            self.settle_late(owner, part, &mut stacks);
            all
        })
    }

    /// Half of the work on a part's stacks is for those who wait, if there are any and it pays.
    fn divide(&self, owner: &Owner, part: usize, stacks: &mut Stacks, digests: &[Digest]) {
        if stacks.divides(digests) && self.waiting.load(Ordering::Relaxed) > 0 {
            stacks.defer();
        } else if stacks.defers() && owner.settle(part, stacks, || self.is_closed()) {
            stacks.defer_no_more();
        }
    }

    /// What is to be done with what the stacks of a part left behind, for [`Stacks::feed`]: it is for whoever has time, and if it
    /// is too much, for the caller.
    fn leave<'a>(&'a self, owner: &'a Owner, part: usize) -> impl Fn(usize, &mut Stack) + 'a {
        move |index, stack| {
            // Loops that walk over lines leave little each.
            if !stack.defers() || stack.left() < WORTH {
                return;
            }
            let Some(mut behind) = self.lock(&owner.behind[part]) else { return };
            behind.add(index, stack.take_deferred());
            behind.return_spare(index, stack);
            self.offered.store(true, Ordering::Relaxed);
            let mut many = behind.works() > WAITING;
            drop(behind);
            self.pipeline.get().into_iter().for_each(Pipeline::left);
            while many && !self.is_closed() {
                if !self.work_off(owner, part) {
                    sleep(NAP);
                }
                many = self.lock(&owner.behind[part]).is_some_and(|behind| behind.works() > WAITING);
            }
        }
    }

    /// Stacks were fed that do not leave anything behind, or will not any more.
    fn settle_late(&self, owner: &Owner, part: usize, stacks: &mut Stacks) {
        if !stacks.defers() {
            owner.settle(part, stacks, || self.is_closed());
        }
    }

    /// Works off what the stacks of a part left behind; whether there was any that nobody works off.
    fn work_off(&self, owner: &Owner, part: usize) -> bool {
        let taken = self.lock(&owner.behind[part]).and_then(|mut behind| behind.take());
        let Some(mut taken) = taken else { return false };
        taken.iter_mut().flatten().for_each(Deferred::work_off);
        // Whoever closes the session may want it still.
        let given_up = |tries| tries > PATIENCE && self.is_closed();
        try_until(&owner.behind[part], given_up).is_some_and(|mut behind| {
            behind.give_back(taken);
            true
        })
    }

    /// Does so for those stacks that may have left something behind; whether any did.
    fn work_behind(&self) -> bool {
        let first = || self.lock(&self.slots)?.owners.first().cloned();
        let owner = self.global.get().cloned().or_else(first);
        owner.is_some_and(|owner| (0..self.parts.len()).any(|part| self.work_off(&owner, part)))
    }

    fn count(&self, batch: &Batch, bucket: Bucket, skipped: u64) {
        if bucket != Bucket::UNCOUNTED {
            self.accesses.fetch_add(batch.accesses(), Ordering::Relaxed);
            self.skipped.fetch_add(skipped, Ordering::Relaxed);
        }
    }

    /// By line size what the stacks of a part need of a batch; nothing if they will take nothing more.
    fn digest(&self, part: usize, batch: &Batch, bucket: Bucket) -> Option<Vec<Digest>> {
        if (self.full)() {
            return Some(Vec::new());
        }
        let mut idle = self.lock(&self.digesters)?;
        let found = idle.iter().position(|&(of, _)| of == part).map(|at| idle.swap_remove(at).1);
        drop(idle);
        let mut digesters = found.unwrap_or_else(|| Digesters::new(&self.parts[part]));
        let digests = digesters.digest(batch, bucket, &self.parts[part], &self.spare);
        self.lock(&self.digesters)?.push((part, digesters));
        Some(digests)
    }

    /// What was counted within digests becomes slot 0's; whether all of it could be had.
    fn absorb(&self, only: &Owner, given_up: impl Fn() -> bool) -> bool {
        let Some(mut idle) = try_until(&self.digesters, |_| given_up()) else { return false };
        idle.iter_mut().all(|(part, digesters)| {
            let stacks = try_until(&only.parts[*part], |_| given_up());
            stacks.map(|mut stacks| stacks.absorb(digesters)).is_some()
        })
    }

    /// By line size the lines that a batch comes to, for when it has its turn.
    fn comings(&self, batch: &Batch) -> Vec<Comings> {
        let mut all = self.spare_comings.pop().unwrap_or_default();
        all.resize_with(self.config.line_sizes.len(), Comings::default);
        let sizes = all.iter_mut().zip(&self.config.line_sizes);
        sizes.for_each(|(comings, line_bytes)| comings.begin(batch, line_bytes.ilog2()));
        all
    }

    /// A batch of `slot` has its turn: finds out which of its lines others used before it, and asks for them.
    fn sort(
        &self,
        sorter: &mut Sorter,
        slot: u32,
        (batch, comings): (&Batch, Option<Vec<Comings>>),
        bucket: Bucket,
    ) -> Sorted {
        let Sorter { directories, number } = sorter;
        if directories.is_empty() {
            return Sorted::default();
        }
        let Some(mut trackers) = self.lock(&self.trackers) else { return Sorted::default() };
        *number += 1;
        if (self.full)() {
            return Sorted::new(*number, Vec::new());
        }
        let comings = comings.unwrap_or_else(|| self.comings(batch));
        let (mut lost, mut holders) = (0, Holders::default());
        let sizes = directories.iter_mut().zip(&mut *trackers).zip(&comings);
        let common = sizes.map(|((directory, tracker), comings)| {
            let (before, counted) = (tracker.misses(), bucket != Bucket::UNCOUNTED);
            let (common, of_size) = directory.enter_batch((batch, comings), slot, tracker, counted);
            lost += tracker.misses() - before;
            holders.add(of_size);
            common
        });
        let common: Vec<_> = common.collect();
        // If there is no room it is given up.
        let _ = self.spare_comings.push(comings);
        let left = self.contention.load(Ordering::Relaxed).saturating_sub(1);
        self.contention.store(if lost > 0 { Self::CONTENDED } else { left }, Ordering::Relaxed);
        Sorted::new(*number, self.ask(*number, slot, (common, holders), bucket).unwrap_or_default())
    }

    /// Asks the stacks of other slots that may hold them for these lines, by line size; what is asked, by part.
    fn ask(
        &self,
        number: u64,
        slot: u32,
        (common, holders): (Vec<Vec<Common>>, Holders),
        bucket: Bucket,
    ) -> Option<Vec<Option<Arc<Visit>>>> {
        let by_part =
            if self.parts.len() > 1 { common.into_iter().map(|lines| vec![lines]).collect() } else { vec![common] };
        let is_visit = |sizes: &Vec<Vec<Common>>| sizes.iter().any(|lines| !lines.is_empty());
        if !by_part.iter().any(is_visit) {
            return None;
        }
        let slots = self.lock(&self.slots)?;
        let asker = &slots.owners[slot as usize];
        let asked = |&(other, _): &(u32, &Arc<Owner>)| other != slot && holders.has(other);
        let others = || (0..).zip(&slots.owners).filter(asked).map(|(_, owner)| owner);
        let visit = |(part, lines): (usize, Vec<Vec<Common>>)| {
            if !is_visit(&lines) {
                return Some(None);
            }
            let visit = Visit::new((number, Arc::downgrade(asker)), bucket, lines, (holders, others().count()));
            others().try_for_each(|other| {
                other.asked.fetch_add(1, Ordering::Relaxed);
                self.lock(&other.inboxes[part]).map(|mut inbox| inbox.ask(&visit))
            })?;
            Some(Some(visit))
        };
        by_part.into_iter().enumerate().map(visit).collect()
    }

    /// Does what waits for a part, whose stacks are locked: answers what was asked before batch `number`, and counts what batches
    /// of its own were told.
    fn answer(&self, owner: &Owner, part: usize, stacks: &mut Stacks, number: u64) -> Option<()> {
        let next = || self.lock(&owner.inboxes[part])?.next(number);
        while let Some(visit) = next() {
            owner.asked.fetch_sub(1, Ordering::Relaxed);
            if !(self.full)() {
                stacks.visited(&visit.lines, visit.bucket);
                stacks.tell(&mut self.lock(&visit.there)?);
            }
            self.told(part, &visit)?;
        }
        let told = self.lock(&owner.inboxes[part])?.take_told();
        for visit in told {
            let there = self.lock(&visit.there)?;
            let own = self.lock(&visit.own)?.take();
            own.into_iter().for_each(|own| stacks.end_visit(own, &there, visit.bucket));
        }
        Some(())
    }

    /// One more owner told a batch what it asked; the last one leaves it to its own stacks.
    fn told(&self, part: usize, visit: &Arc<Visit>) -> Option<()> {
        if visit.is_told() {
            self.lock(&visit.asker.upgrade()?.inboxes[part])?.tell(visit);
        }
        Some(())
    }

    /// What waits for a slot to be answered.
    #[cfg(test)]
    pub(crate) fn asked(&self, slot: usize) -> usize {
        self.slots.lock().unwrap().owners[slot].asked.load(Ordering::Relaxed)
    }

    /// Answers for slots that have had no batch for long what those of `mine` asked.
    fn help_asked(&self, mine: &Arc<Owner>) -> Option<()> {
        let owners = self.lock(&self.slots)?.owners.clone();
        let askers = owners.len() - 1;
        for owner in owners.iter().filter(|owner| !Arc::ptr_eq(owner, mine)) {
            loop {
                let asked = owner.asked.load(Ordering::Relaxed);
                if asked <= ASKED * askers {
                    break;
                } else if let Some(_turn) = try_until(&owner.turn, |_| true) {
                    self.answer_for(owner, || self.is_closed())?;
                } else if asked <= MOST_ASKED * askers || self.is_closed() {
                    break;
                } else {
                    sleep(NAP);
                }
            }
        }
        Some(())
    }

    /// Does all that waits for an owner that is not fed meanwhile.
    fn answer_for(&self, owner: &Owner, given_up: impl Fn() -> bool) -> Option<()> {
        (0..owner.parts()).try_for_each(|part| {
            let mut stacks = try_until(&owner.parts[part], |_| given_up())?;
            self.answer(owner, part, &mut stacks, u64::MAX)
        })
    }

    /// Does all that waits for slots, while nothing is on its way to them.
    fn answer_all(&self, given_up: impl Fn() -> bool) -> Option<()> {
        let owners = try_until(&self.slots, |_| given_up())?.owners.clone();
        // First they answer, then they are told what others did.
        owners.iter().chain(&owners).try_for_each(|owner| {
            let _turn = try_until(&owner.turn, |_| given_up())?;
            self.answer_for(owner, &given_up)
        })
    }

    /// Feeds a batch to the stacks of its own slot.
    fn feed_private(
        &self,
        owner: &Owner,
        part: usize,
        sorted: &Sorted,
        batch: &Batch,
        bucket: Bucket,
    ) -> Option<Taken> {
        let mut stacks = self.lock(&owner.parts[part])?;
        self.answer(owner, part, &mut stacks, sorted.number)?;
        let Some(visit) = sorted.visit(part) else {
            let all = stacks.feed(batch, bucket, &self.parts[part], self.full, self.leave(owner, part));
            self.settle_late(owner, part, &mut stacks);
            return Some(Taken { all, digests: stacks.take_digests(&self.spare) });
        };
        let (all, own) = stacks.feed_beside(&visit.lines, (batch, bucket), &self.parts[part], self.full);
        let digests = stacks.take_digests(&self.spare);
        drop(stacks);
        *self.lock(&visit.own)? = Some(own);
        self.told(part, visit)?;
        Some(Taken { all, digests })
    }

    fn work_on(&self, job: &Job) {
        let (batch, bucket) = (&job.item.batch, job.item.bucket);
        match &job.work {
            Work::Sort => {
                let Some(mut sorter) = self.lock(&self.sorter) else { return };
                // Nobody else sorts this batch.
                let _ = job.item.sorted.set(self.sort(&mut sorter, job.item.slot, (batch, None), bucket));
            }
            Work::Digest { part } => {
                // Nobody else makes them.
                self.digest(*part, batch, bucket).into_iter().for_each(|made| drop(job.item.digests[*part].set(made)));
            }
            Work::Answer { owner, part, .. } => {
                let Some(sorted) = job.item.sorted.get() else { return };
                // A batch that was fed without helpers may be on its way to them.
                let Some(_turn) = self.lock(&owner.turn) else { return };
                if let Some(mut stacks) = self.lock(&owner.parts[*part]) {
                    let _ = self.answer(owner, *part, &mut stacks, sorted.number + 1);
                }
            }
            Work::Analyse { owner, part, private, .. } => {
                let digests = job.item.digests[*part].get().map_or(&[][..], Vec::as_slice);
                if !private {
                    match self.config.sample {
                        Some(_) => self.feed_sampled(owner, *part, batch, bucket),
                        None => drop(self.feed_digests(owner, *part, digests, bucket)),
                    }
                    return;
                }
                let all = if digests.is_empty() {
                    let sorted = job.item.sorted.get_or_init(Sorted::default);
                    let taken = self.feed_private(owner, *part, sorted, batch, bucket).unwrap_or_default();
                    // Nobody else analyses this batch for them.
                    let _ = job.item.digests[*part].set(taken.digests);
                    taken.all
                } else {
                    self.feed_digests(owner, *part, digests, bucket)
                };
                if *part == 0 {
                    // What came within digests is counted.
                    let of_digests = digests.first().map_or(batch.accesses(), Digest::references);
                    self.count(batch, bucket, if all { 0 } else { of_digests });
                }
            }
        }
    }

    /// Leaves a batch of the thread on `slot` to the helpers and empties it. Batches enter the global stacks in the order of
    /// the calls. Where helpers fall behind, this thread works too.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn hand_over(&self, slot: u32, batch: &mut Batch, bucket: Bucket) {
        match self.pipeline.get() {
            Some(pipeline) if self.config.order == Order::Time => {
                if let Some(_on_its_way) = self.to_analyse(slot, batch, bucket) {
                    self.attribute(slot, batch);
                    if let Some(repeats) = self.repeats(batch) {
                        batch.fold(repeats);
                    }
                    pipeline.submit(slot, batch, bucket, |job| self.work_on(job), || self.work_behind());
                }
            }
            _ => self.feed(slot, batch, bucket),
        }
        batch.clear();
    }

    /// Does a helper's work until the session is closed, or until `rested`, which is called whenever there was nothing to do
    /// for `time`, says that it should end.
    pub fn help(&self, time: Duration, rested: impl Fn() -> bool) {
        if let Some(pipeline) = self.pipeline.get() {
            pipeline.help(time, |job| self.work_on(job), || self.work_behind(), rested);
        }
    }

    /// Waits, and helps, until all that was handed over is analysed; `false` if nothing went on for `patience`.
    pub fn settle(&self, patience: Duration) -> bool {
        let ended = self.end_repeating_for(patience);
        let mut kept = self.lock(&self.kept).map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
        let numbers = self.numbers();
        kept.sort_by_key(|&(slot, ..)| numbers.get(slot as usize).copied());
        kept.iter().for_each(|(slot, batch, bucket)| self.feed_now(*slot, batch, *bucket));
        let settled = ended.is_some() && self.drain(patience);
        // What is left here after all a snapshot says.
        let _ = settled && self.pass_all_on(past(patience));
        settled
    }

    fn drain(&self, patience: Duration) -> bool {
        self.pipeline
            .get()
            .is_none_or(|pipeline| pipeline.settle(patience, |job| self.work_on(job), || self.work_behind()))
    }

    /// The histograms so far, with the end-of-run parts computed as if the run ended now; feeding may go on. What was handed
    /// over and is not analysed yet is not in it: see [`Session::settle`]. Waits for each lock at most `patience`, for
    /// callers that may have interrupted its holder.
    #[must_use]
    pub fn snapshot(&self, patience: Duration) -> Snapshot {
        let ended = self.end_repeating_for(patience);
        let mut snapshot = Snapshot {
            accesses: self.accesses.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            again: self.again.load(Ordering::Relaxed),
            missing: u32::from(ended.is_none()),
            ..Snapshot::empty(&self.config)
        };
        let late = past(patience);
        let answer_all = || self.answer_all(&late);
        // What is not done here stacks will do that are fed on.
        let _ = self.pipeline.get().map_or_else(answer_all, |pipeline| pipeline.if_at_rest(answer_all)?);
        let Some((owners, numbers)) =
            lock_for(&self.slots, patience).map(|slots| (slots.owners.clone(), slots.numbers()))
        else {
            snapshot.missing += 1;
            return snapshot;
        };
        if owners.len() > 1 && self.config.sample.is_none() {
            let Limits { max_set_bits, max_ways } = self.config.limits;
            let sizes = self.config.line_sizes.iter();
            let none = |&line_bytes| LineCoherence { line_bytes, max_set_bits, max_ways, slots: Vec::new() };
            snapshot.coherence = sizes.map(none).collect();
            if let Some(mut trackers) = lock_for(&self.trackers, patience) {
                (snapshot.sharing, snapshot.replaced) = trackers.iter_mut().map(Tracker::lines).unzip();
            }
            for line in snapshot.sharing.iter_mut().flat_map(|lines| &mut lines.lines) {
                let number = |slot: u32| numbers.get(slot as usize).copied().unwrap_or(slot);
                line.users.iter_mut().for_each(|user| user.slot = number(user.slot));
                line.users.sort_by_key(|user| user.slot);
            }
        }
        if let [only] = owners.as_slice() {
            snapshot.missing += u32::from(!self.absorb(only, past(patience)));
        }
        let at_hand = self.pass_all_on(past(patience));
        let mut within: Vec<_> = self.config.line_sizes.iter().map(|_| None).collect();
        let mut in_order: Vec<_> = numbers.into_iter().zip(&owners).collect();
        in_order.sort_unstable_by_key(|&(number, _)| number);
        for (number, owner) in in_order {
            let used = snapshot.add_owner(bf_profile::Owner::Slot(number), owner, &mut within, patience);
            snapshot.threads += u32::from(used);
        }
        match self.global.get() {
            // What a slot counted for them is missing too.
            Some(_) if snapshot.missing > 0 || !at_hand => snapshot.missing += 1,
            Some(global) => {
                snapshot.add_owner(bf_profile::Owner::Global, global, &mut within, patience);
            }
            None => {}
        }
        snapshot
    }
}

impl Snapshot {
    /// What a session of this configuration knows before anything happened.
    #[must_use]
    pub fn empty(config: &Config) -> Self {
        let Limits { max_set_bits, max_ways } = config.limits;
        let whole = |&line_bytes: &u32| LineData { line_bytes, max_set_bits, max_ways, stacks: Vec::new() };
        let sizes = config.line_sizes.iter();
        match config.sample {
            None => {
                let items = sizes.clone().filter(|_| config.by_item).map(|&line_bytes| ItemLines {
                    line_bytes,
                    max_set_bits,
                    max_ways,
                    stacks: Vec::new(),
                });
                Self { items: items.collect(), lines: sizes.map(whole).collect(), ..Self::default() }
            }
            Some(sample) => {
                let sampled = sizes.map(|&line_bytes| sample.empty(line_bytes, config.limits)).collect();
                Self { sampled, ..Self::default() }
            }
        }
    }

    /// Adds the stacks of an owner; whether they were ever fed.
    fn add_owner(
        &mut self,
        name: bf_profile::Owner,
        owner: &Owner,
        within: &mut [Option<Within>],
        patience: Duration,
    ) -> bool {
        let (mut used, late) = (false, past(patience));
        for (part, stacks) in owner.parts.iter().enumerate() {
            let settled = |stacks: &mut MutexGuard<'_, Stacks>| owner.settle(part, stacks, &late);
            let Some(stacks) = lock_for(stacks, patience).and_then(|mut stacks| settled(&mut stacks).then_some(stacks))
            else {
                self.missing += 1;
                continue;
            };
            used |= stacks.used;
            // A part is one line size, or there is one part.
            stacks.add_to(name, part, self, within);
        }
        used
    }
}

/// How often whoever waits looks before it sleeps, and for how long then.
const SPINS: u32 = 6;
const NAP: Duration = Duration::from_micros(20);

/// So often a lock is tried that should be free soon.
const PATIENCE: u32 = 1000;

/// Lines that a stack left behind before others take them.
const WORTH: usize = if cfg!(test) { 64 } else { 1024 };
/// Batches of references that stacks may leave behind before they are fed again.
const WAITING: usize = 8;

/// For those that are on their way: minutes, if nothing stops the process meanwhile.
const MOST_NAPS: u32 = 1 << 21;
/// For what was handed over to be analysed, while the program goes on: a job may take long.
const DRAINED: Duration = Duration::from_mins(10);

/// What is known of rounds.
#[derive(Debug, Default)]
struct Repeating {
    /// `None`: they are not sought.
    rounds: Option<Rounds>,
    /// What was counted in the one that counts again, by part and line size.
    tally: Vec<Vec<Tally>>,
    /// Stacks, by part, as they were at the seam of that one.
    at_seam: Option<Vec<AtSeam>>,
    /// Of several slots; `None`: there is one, or they are not sought.
    team: Option<Team>,
    told: Told,
}

/// What all stacks counted in the round of several slots that counts again.
#[derive(Debug, Default)]
struct Told {
    /// By owner and part, by line size.
    stacks: Vec<Vec<Tally>>,
    /// By line size; meanwhile what there was before.
    shared: Vec<tracker::Tally>,
}

/// While it lives, a batch is not analysed yet that will be.
struct OnItsWay<'a>(Option<&'a AtomicU32>);

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if let Some(all) = self.0 {
            all.fetch_sub(1, Ordering::Release);
        }
    }
}

/// While it lives, no thread begins to feed a batch.
struct Starting<'a>(&'a AtomicBool);

impl<'a> Starting<'a> {
    fn begin(starting: &'a AtomicBool) -> Self {
        starting.store(true, Ordering::SeqCst);
        Self(starting)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What came of feeding a batch to the stacks of its slot.
#[derive(Debug, Default)]
struct Taken {
    /// Whether all of it was taken.
    all: bool,
    /// By line size.
    digests: Vec<Digest>,
}

/// The same on its way to the global stacks.
#[derive(Debug)]
struct Made {
    /// By part, by line size.
    digests: Vec<Vec<Digest>>,
    bucket: Bucket,
}

/// All of that, in the order in which the batches had their turn.
#[derive(Debug, Default)]
struct AllMade {
    /// The place of the first.
    first: u64,
    /// `None`: the batch is not analysed yet.
    each: VecDeque<Option<Made>>,
    /// Whose thread fed some last.
    fed_by: u32,
}

impl AllMade {
    /// A place for one more.
    fn reserve(&mut self) -> u64 {
        self.each.push_back(None);
        self.first + self.each.len() as u64 - 1
    }

    fn put(&mut self, place: u64, made: Made) {
        self.each[(place - self.first) as usize] = Some(made);
    }

    /// The next one, if it is there.
    fn next(&mut self) -> Option<Made> {
        let made = self.each.front_mut()?.take()?;
        self.each.pop_front();
        self.first += 1;
        Some(made)
    }

    /// Whether it is so many times as much as is worth a turn.
    fn is_due(&self, times: usize) -> bool {
        self.each.len() >= times * MADE
    }
}

/// Who sorts batches.
#[derive(Debug, Default)]
struct Sorter {
    /// For each line size; none while there is only one slot, or where lines are sampled.
    directories: Vec<Directory>,
    /// Of the last batch.
    number: u64,
}

/// So many of those are worth a turn at the global stacks: whoever takes it finds little of them in its processor's caches, and
/// little of its own stacks afterwards.
const MADE: usize = 8;
/// So many threads find memory for the lines of their batches.
const SPARE_COMINGS: usize = 64;
/// How many may wait if the next one is not there yet.
const MOST_MADE: usize = 64;

/// How many batches of each other slot may wait for a slot to tell them what they asked before others help, and before others wait.
const ASKED: usize = 4;
const MOST_ASKED: usize = 32;

/// Takes a lock, unless `given_up` after so many tries.
pub(crate) fn try_until<T>(mutex: &Mutex<T>, given_up: impl Fn(u32) -> bool) -> Option<MutexGuard<'_, T>> {
    let mut tries = 0;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(PoisonError::into_inner(guard)),
            Err(TryLockError::WouldBlock) => tries += 1,
        }
        if tries <= SPINS {
            // Longer each time: to look takes the lock's cache line from whoever has it.
            (0..1_u32 << tries).for_each(|_| spin_loop());
        } else if given_up(tries) {
            return None;
        } else {
            sleep(NAP);
        }
    }
}

/// Takes a lock, unless that takes longer than `patience`.
fn lock_for<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let late = past(patience);
    try_until(mutex, |_| late())
}

/// Whether so much time went by since.
fn past(patience: Duration) -> impl Fn() -> bool {
    let begin = Instant::now();
    move || begin.elapsed() > patience
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TestShapes;
    use crate::convert;
    use crate::objects::Object;
    use crate::shape::{Event, Shape, Step, What};
    use bf_profile::{Coherence, Owner};
    use bf_stack::{Chunk, Item, Reference, There};
    use std::collections::BTreeMap;

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
    fn a_block_in_the_place_of_another_has_what_was_done_to_it() {
        let access = |word, what| Step { word, offset: 0, what, item: Item::NONE };
        let mut shapes = TestShapes(vec![
            Arc::new(Shape::event(3, Event::Allocation { site: 1 }).unwrap()),
            Arc::new(Shape::event(3, Event::Allocation { site: 2 }).unwrap()),
            Arc::new(Shape::once(2, vec![access(1, What::Load(8)), access(1, What::Store(8))]).unwrap()),
        ]);
        let session = Session::new(Config::default());
        let slots = [session.take_slot(), session.take_slot()];
        let (first, second) = (vec![1, 0x1000, 64], vec![2, 0x1000, 64]);
        // The second block comes to its place between two uses of one batch.
        let all = [
            (0, [first, vec![3, 0x1000]].concat()),
            (1, vec![3, 0x1008]),
            (0, [&[3, 0x1000], &second[..], &[3, 0x1010]].concat()),
        ];
        for (slot, words) in all {
            let mut batch = Batch::new();
            batch.append(words.into_iter(), &mut shapes, |_| panic!("it is one batch"));
            session.note(slots[slot], &mut batch);
            session.feed(slots[slot], &batch, Bucket::FIRST);
        }
        let snapshot = session.snapshot(PATIENCE);
        let used =
            |line: &bf_profile::SharedLine| line.users.iter().map(|user| (user.slot, user.stored)).collect::<Vec<_>>();
        let lines: Vec<_> = snapshot.sharing[0].lines.iter().map(used).collect();
        assert_eq!(lines, [vec![(0, 0xff), (1, 0xff00)], vec![(0, 0xff_0000)]]);
        let [before, now] = snapshot.replaced[0].as_slice() else { panic!("{snapshot:?}") };
        assert_eq!((before[0].object, before.len(), now.len()), (Object::Heap(1), 1, 0));
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
    fn who_waits_may_do_half_of_the_work_on_the_global_stacks() {
        let feed = |waits: bool| {
            let session = Session::new(Config { rounds: None, ..Config::default() });
            let slots = [session.take_slot(), session.take_slot()];
            let (fed, mut random) = (AtomicBool::new(false), 1_u64);
            std::thread::scope(|scope| {
                if waits {
                    session.waiting.store(1, Ordering::Relaxed);
                    scope.spawn(|| {
                        while !fed.load(Ordering::Relaxed) {
                            session.work_behind();
                        }
                    });
                }
                for number in 0..300 {
                    let lines = std::iter::repeat_with(|| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (random >> 40) % 5000 * if number % 7 == 0 { 2 } else { 1 }
                    });
                    let lines: Vec<_> = lines.take(700).collect();
                    session.feed(slots[number % 2], &batch(&lines), Bucket::FIRST);
                }
                fed.store(true, Ordering::Relaxed);
            });
            let mut global = session.global.get().unwrap().parts[0].lock().unwrap();
            assert_eq!(global.defers(), waits);
            drop(global);
            assert!(session.settle(PATIENCE));
            session.snapshot(PATIENCE)
        };
        assert_eq!(feed(true), feed(false));
    }

    #[test]
    fn a_held_stack_is_left_out_and_said() {
        let session = Session::new(Config::default());
        let slot = session.take_slot();
        session.feed(slot, &batch(&[1]), Bucket::FIRST);
        let held = Arc::clone(&session.slots.lock().unwrap().owners[0]);
        let _held = held.parts[0].lock();
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

    /// What threads do: batches of lines, all under one bucket.
    type Work = Vec<Vec<u64>>;

    /// Each thread's work on its own slot, with so many helpers; without any, as the calls come.
    fn analysed(threads: &[Work], helpers: usize, line_sizes: &[u32]) -> Snapshot {
        let limits = Limits { max_set_bits: 4, max_ways: 4 };
        let config = Config { line_sizes: line_sizes.to_vec(), limits, ..Config::default() };
        let session = Session::new(config);
        let session = if helpers > 1 { session.apart() } else { session };
        let first = session.take_slot();
        if helpers > 0 {
            session.pipelined();
        }
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|| session.help(Duration::from_millis(1), || true));
            }
            let slots: Vec<_> =
                std::iter::once(first).chain(threads[1..].iter().map(|_| session.take_slot())).collect();
            std::thread::scope(|scope| {
                for (slot, work) in slots.into_iter().zip(threads) {
                    let session = &session;
                    scope.spawn(move || {
                        for lines in work {
                            session.hand_over(slot, &mut batch(lines), Bucket::FIRST);
                        }
                    });
                }
            });
            assert!(session.settle(PATIENCE));
            session.close();
        });
        session.snapshot(PATIENCE)
    }

    fn private(snapshot: &Snapshot) -> Vec<LineData> {
        let mut lines = snapshot.lines.clone();
        lines.iter_mut().for_each(|line| line.stacks.retain(|stack| stack.owner != Owner::Global));
        lines
    }

    fn work() -> impl proptest::strategy::Strategy<Value = Work> {
        use proptest::collection::vec;
        vec(vec(0_u64..200, 0..40), 0..80)
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]

        #[test]
        fn helpers_change_nothing_for_one_thread(work in work()) {
            let work = [work];
            let alone = analysed(&work, 0, &[64, 128]);
            for helpers in [1, 2, 3] {
                proptest::prop_assert_eq!(&analysed(&work, helpers, &[64, 128]), &alone);
            }
        }

        #[test]
        fn helpers_change_no_private_stack(a in work(), b in work(), c in work()) {
            let work = [a, b, c];
            let alone = analysed(&work, 0, &[64, 128]);
            let references = |snapshot: &Snapshot| -> Vec<_> {
                let stacks = snapshot.lines.iter().flat_map(|line| &line.stacks);
                stacks.map(|stack| (stack.owner, stack.histograms.references, stack.histograms.cold)).collect()
            };
            for helpers in [1, 2, 3] {
                let helped = analysed(&work, helpers, &[64, 128]);
                proptest::prop_assert_eq!(private(&helped), private(&alone));
                proptest::prop_assert_eq!(references(&helped), references(&alone));
                proptest::prop_assert_eq!((helped.accesses, helped.missing), (alone.accesses, 0));
            }
        }
    }

    /// Slots' batches in one order, with lines of 64 bytes: whose, then lines and whether they are stored.
    type Turns = Vec<(u32, Vec<(u64, bool)>)>;

    /// By the definition: all stacks are looked into for every line.
    fn coherence(turns: &Turns, limits: Limits, line_bytes: u32) -> Vec<Coherence> {
        let mut stacks = vec![Stack::new(limits); 4];
        stacks.iter_mut().for_each(|stack| stack.share(0));
        for (slot, accesses) in turns {
            let line = |&(line, store): &(u64, bool)| Reference::new(line * 64 / u64::from(line_bytes), store);
            let references: Vec<_> = accesses.iter().map(line).collect();
            let (before, rest) = stacks.split_at_mut(*slot as usize);
            let (mine, after) = rest.split_first_mut().unwrap();
            let chunk = Chunk { references: &references, ..Chunk::default() };
            let mut lines = BTreeMap::new();
            references.iter().for_each(|one| *lines.entry(one.line()).or_default() |= one.is_store());
            let lines: Vec<_> = lines
                .into_iter()
                .map(|(line, stored)| Common { lines: line..line + 1, stored, holders: Holders::ALL })
                .collect();
            let (mut visit, mut there) = (mine.begin_visit(&lines), There::none(&lines));
            before.iter_mut().chain(after).for_each(|other| {
                let mut here = There::default();
                other.visited(&lines, Bucket::FIRST, &mut here);
                there.add(&mut here, &mut There::default());
            });
            mine.feed_beside(chunk, Bucket::FIRST, &mut visit);
            mine.end_visit(visit, &there, Bucket::FIRST);
        }
        let of = |(slot, stack)| convert::coherence(slot, stack, limits.max_set_bits).collect::<Vec<_>>();
        (0..).zip(&stacks).flat_map(of).collect()
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]

        #[test]
        fn slots_take_lines_from_each_other_in_the_order_of_the_calls(
            turns in proptest::collection::vec(
                (0..4_u32, proptest::collection::vec((0..60_u64, proptest::bool::weighted(0.2)), 0..30)), 0..60),
            alone in 0..20_usize,
        ) {
            let mut turns = turns;
            // The first slot begins alone.
            turns.iter_mut().take(alone).for_each(|(slot, _)| *slot = 0);
            let limits = Limits { max_set_bits: 4, max_ways: 4 };
            let mut unhelped = None;
            for helpers in [0, 1, 2, 3] {
                let config = Config { line_sizes: vec![64, 256], limits, ..Config::default() };
                let session = Session::new(config);
                let session = if helpers > 1 { session.apart() } else { session };
                session.ensure_slot(0);
                if helpers > 0 {
                    session.pipelined();
                }
                std::thread::scope(|scope| {
                    for _ in 0..helpers {
                        scope.spawn(|| session.help(Duration::from_millis(1), || true));
                    }
                    for (at, (slot, accesses)) in turns.iter().enumerate() {
                        if at == alone {
                            session.ensure_slot(3);
                        }
                        let mut batch = Batch::new();
                        accesses.iter().for_each(|&(line, store)| batch.access(line * 64, 8, store));
                        session.hand_over(*slot, &mut batch, Bucket::FIRST);
                    }
                    assert!(session.settle(PATIENCE));
                    session.close();
                });
                let snapshot = session.snapshot(PATIENCE);
                for line in &snapshot.coherence {
                    proptest::prop_assert_eq!(&line.slots, &coherence(&turns, limits, line.line_bytes));
                }
                proptest::prop_assert_eq!(snapshot.coherence.len(), if turns.len() > alone { 2 } else { 0 });
                proptest::prop_assert_eq!(unhelped.get_or_insert(snapshot.lines.clone()), &snapshot.lines);
            }
        }
    }

    #[test]
    fn a_slot_that_has_no_batches_is_answered_for() {
        let session = Session::new(Config::default());
        session.ensure_slot(1);
        session.feed(1, &batch(&[0, 1, 2, 3, 4]), Bucket::FIRST);
        for line in (0..5).cycle().take(100) {
            let mut batch = Batch::new();
            batch.access(line * 64, 8, true);
            session.feed(0, &batch, Bucket::FIRST);
        }
        let asked = session.asked(1);
        assert!(asked <= ASKED, "{asked}");
        let sum = |bins: &[bf_profile::Bin]| bins.iter().map(|bin| bin.count).sum::<u64>();
        let slots = &session.snapshot(PATIENCE).coherence[0].slots;
        let counts: Vec<_> =
            slots.iter().map(|slot| (slot.slot, sum(&slot.received.full), sum(&slot.sent.full))).collect();
        assert_eq!(counts, [(0, 0, 5), (1, 5, 0)]);
    }

    #[test]
    fn what_is_made_first_waits_for_its_place() {
        let (mut all, made) = (AllMade::default(), |bucket| Made { digests: Vec::new(), bucket: Bucket(bucket) });
        let places = [all.reserve(), all.reserve(), all.reserve()];
        all.put(places[1], made(2));
        assert!(all.next().is_none());
        all.put(places[0], made(1));
        let next: Vec<_> = std::iter::from_fn(|| all.next()).map(|made| made.bucket).collect();
        assert_eq!((next, all.each.len()), (vec![Bucket(1), Bucket(2)], 1));
    }

    #[test]
    fn slots_one_after_the_other() {
        let snapshot = |turns: &[(u32, u64)]| {
            let session = Session::new(Config { order: Order::Slots, ..Config::default() });
            session.ensure_slot(2);
            for &(slot, line) in turns {
                let mut batch = Batch::new();
                batch.access(line * 64, 8, line % 2 == 0);
                session.hand_over(slot, &mut batch, Bucket::FIRST);
            }
            assert!(session.settle(PATIENCE));
            session.snapshot(PATIENCE)
        };
        let one = snapshot(&[(0, 1), (0, 2), (1, 2), (1, 1), (2, 2)]);
        assert_eq!(snapshot(&[(1, 2), (2, 2), (0, 1), (1, 1), (0, 2)]), one);
        assert_ne!(snapshot(&[(0, 2), (0, 1), (1, 1), (1, 2), (2, 2)]), one);
        assert_eq!(one.accesses, 5);
    }

    #[test]
    fn slots_have_numbers_in_the_order_in_which_their_threads_were_made() {
        let snapshot = |made: [u64; 3]| {
            let session = Session::new(Config { order: Order::Slots, ..Config::default() });
            let slots = made.map(|thread| (thread, session.take_slot()));
            for (thread, slot) in slots {
                session.made(slot, thread);
                let lines = (0..=thread).chain([0]);
                let mut batch = Batch::new();
                lines.for_each(|line| batch.access(line * 64, 8, line == thread));
                session.hand_over(slot, &mut batch, Bucket::FIRST);
            }
            assert!(session.settle(PATIENCE));
            session.snapshot(PATIENCE)
        };
        let in_order = snapshot([5, 7, 9]);
        assert_eq!(cold(&in_order).into_iter().map(|(_, cold)| cold).collect::<Vec<_>>(), [5, 7, 9, 7]);
        assert!(in_order.sharing[0].lines.iter().any(|line| line.users.len() == 3));
        for other in [[9, 5, 7], [7, 9, 5], [9, 7, 5]] {
            assert_eq!(snapshot(other), in_order);
        }
    }

    #[test]
    fn every_line_size_sees_the_global_stack_in_one_order() {
        // With lines of 64 and of 128 bytes that are the same lines, but for their names, so are the histograms.
        let even = |seed: u64| (0..60).map(|i| (0..30).map(|j| (seed + i * j * j) % 97 * 2).collect()).collect();
        let snapshot = analysed(&[even(1), even(2), even(3)], 3, &[64, 128]);
        let full = |line: usize| {
            let stacks = &snapshot.lines[line].stacks;
            &stacks.iter().find(|stack| stack.owner == Owner::Global).unwrap().histograms.full
        };
        assert_eq!(full(0), full(1));
    }

    /// Threads that store to lines of their own in each phase, which others had before, and look at a table. By slot cold
    /// references, references to lines that were taken, lines taken from it and by it, and lines that were passed on; and what
    /// all threads found cold. Helpers come after so many phases; `None`: threads take their turns.
    fn exchanged(threads: u32, phases: u32, helped: Option<u32>) -> Vec<[u64; 5]> {
        let session = Session::new(Config { limits: Limits { max_set_bits: 3, max_ways: 4 }, ..Config::default() });
        let slots: Vec<_> = (0..threads).map(|_| session.take_slot()).collect();
        let of = |slot: u32, phase: u32, part: u64| {
            let mut batch = Batch::new();
            let block = u64::from((slot + phase * phase) % threads) * 4096;
            (0..20 * (part + 1)).for_each(|line| batch.access(block + (line * 7 + part) % 64 * 64, 8, line % 3 > 0));
            (0..9).for_each(|line| batch.access(1 << 20 | line << 6, 8, false));
            batch
        };
        let together = std::sync::Barrier::new(threads as usize);
        let work = |slot: u32, phase: u32| {
            (0..3).for_each(|part| session.feed(slot, &of(slot, phase, part), Bucket::FIRST));
        };
        match helped {
            None => (0..phases).for_each(|phase| slots.iter().for_each(|&slot| work(slot, phase))),
            Some(after) => std::thread::scope(|scope| {
                let all: Vec<_> = slots
                    .iter()
                    .map(|&slot| {
                        let (session, together, work) = (&session, &together, &work);
                        scope.spawn(move || {
                            for phase in 0..phases {
                                together.wait();
                                if (phase, slot) == (after, 0) {
                                    assert!(session.pipelined());
                                    scope.spawn(|| session.help(Duration::from_millis(1), || true));
                                }
                                work(slot, phase);
                            }
                        })
                    })
                    .collect();
                all.into_iter().for_each(|thread| thread.join().unwrap());
                assert!(session.settle(PATIENCE));
                session.close();
            }),
        }
        let snapshot = session.snapshot(PATIENCE);
        assert_eq!(snapshot.missing, 0);
        let sum = |counts: &bf_profile::ByPosition| counts.full.iter().map(|bin| bin.count).sum::<u64>();
        let cold = snapshot.lines[0].stacks.iter().map(|stack| (stack.owner, stack.histograms.cold.iter().sum()));
        let cold: Vec<(Owner, u64)> = cold.collect();
        let coherence = &snapshot.coherence[0].slots;
        let of = |slot: u32| {
            let cold = cold.iter().find(|(owner, _)| *owner == Owner::Slot(slot)).map_or(0, |&(_, cold)| cold);
            let mut all = [cold, 0, 0, 0, 0];
            for counts in coherence.iter().filter(|counts| counts.slot == slot) {
                all[1..].copy_from_slice(&[&counts.lost, &counts.received, &counts.sent, &counts.dirty].map(sum));
            }
            all
        };
        slots.into_iter().map(of).chain([[cold.last().unwrap().1; 5]]).collect()
    }

    #[test]
    fn helpers_that_come_while_threads_feed_change_no_figure() {
        for (threads, phases) in [(2, 6), (3, 12), (4, 9)] {
            let expected = exchanged(threads, phases, None);
            assert!(expected[0].iter().all(|&count| count > 0), "{expected:?}");
            for round in 0..60 {
                // Or never.
                let after = round % (phases + 1);
                assert_eq!(exchanged(threads, phases, Some(after)), expected, "{threads} threads, after {after}");
            }
        }
    }

    #[test]
    fn the_global_stack_begins_between_two_batches() {
        // Far more than the queue holds is on its way when the second slot is taken.
        let session = Session::new(Config { limits: Limits { max_set_bits: 0, max_ways: 1 }, ..Config::default() });
        let first = session.take_slot();
        session.pipelined();
        std::thread::scope(|scope| {
            scope.spawn(|| session.help(Duration::from_millis(1), || true));
            let feeder = scope.spawn(|| {
                (0..500).for_each(|i| session.hand_over(first, &mut batch(&[i, i, i + 1]), Bucket::FIRST));
            });
            let second = session.take_slot();
            session.hand_over(second, &mut batch(&[1000]), Bucket::FIRST);
            feeder.join().unwrap();
            assert!(session.settle(PATIENCE));
            session.close();
        });
        let snapshot = session.snapshot(PATIENCE);
        assert_eq!(cold(&snapshot), [(Owner::Slot(0), 501), (Owner::Slot(1), 1), (Owner::Global, 502)]);
        assert_eq!(snapshot.accesses, 1501);
    }

    #[test]
    fn full_memory_stops_stacks_and_not_counting() {
        static FULL: AtomicBool = AtomicBool::new(false);
        let session = Session::new(Config::default()).limited_by(|| FULL.load(Ordering::Relaxed));
        let slot = session.take_slot();
        session.feed(slot, &batch(&[1, 2]), Bucket::FIRST);
        FULL.store(true, Ordering::Relaxed);
        session.feed(slot, &batch(&[3, 4, 5]), Bucket::FIRST);
        let snapshot = session.snapshot(PATIENCE);
        assert_eq!((snapshot.accesses, snapshot.skipped), (5, 3));
        assert_eq!(cold(&snapshot), [(Owner::Slot(0), 2)]);
    }

    #[test]
    fn full_memory_asks_nobody() {
        static FULL: AtomicBool = AtomicBool::new(false);
        let session = Session::new(Config::default()).limited_by(|| FULL.load(Ordering::Relaxed));
        session.ensure_slot(3);
        session.feed(2, &batch(&[1]), Bucket::FIRST);
        for full in [false, true] {
            FULL.store(full, Ordering::Relaxed);
            let before = session.asked(2);
            (0..3).for_each(|turn| session.feed(turn % 2, &batch(&[1]), Bucket::FIRST));
            assert_eq!(session.asked(2) > before, !full);
        }
        assert_eq!(session.asked(3), 0, "which never had the line, nor one near it");
        let entered = |sorter: &Sorter| sorter.directories[0].lines();
        let before = entered(&session.sorter.lock().unwrap());
        session.feed(0, &batch(&[1 << 20]), Bucket::FIRST);
        assert_eq!((entered(&session.sorter.lock().unwrap()), before), (1, 1));
    }

    #[test]
    fn a_closed_session_lets_everybody_go() {
        let session = Session::new(Config::default());
        let slot = session.take_slot();
        session.pipelined();
        session.close();
        // More than the queue holds, and nobody works.
        (0..100).for_each(|i| session.hand_over(slot, &mut batch(&[i]), Bucket::FIRST));
        assert!(!session.settle(PATIENCE));
        session.help(PATIENCE, || true);
    }
}

//! The stacks of one slot, or the global ones.

use crate::directory::Directory;
use crate::references::{Scratch, Take};
use crate::sample::{self, Sampled};
use crate::session::{Config, Snapshot};
use crate::walks::Plan;
use crate::{Batch, Bucket, convert};
use bf_profile::{ItemStack, Owner};
use bf_stack::{
    Chunk, Common, Counted, Deferred, Digest, Digester, Engine, Found, Learns as _, Stack, Tally, There, Visit, Went,
    Within,
};
use crossbeam_queue::ArrayQueue;
use std::ops::Range;

/// What is kept of one line size.
#[derive(Clone, Debug)]
enum Kept {
    /// Every reference.
    Whole(Box<Stack>),
    /// Some of them.
    Sampled(Box<Sampled>),
}

/// Takes what comes until memory is `full`.
struct Limited<'a, T> {
    take: T,
    full: fn() -> bool,
    /// Whether all of it was taken.
    all: &'a mut bool,
    /// Called after each chunk.
    after: &'a dyn Fn(&mut T),
}

impl<T: Take> Take for Limited<'_, T> {
    fn feed(&mut self, chunk: Chunk<'_>) {
        if (self.full)() {
            *self.all = false;
        } else {
            self.take.feed(chunk);
            (self.after)(&mut self.take);
        }
    }

    fn repeats(&self) -> bool {
        self.take.repeats()
    }

    fn seeks(&mut self) -> bool {
        self.take.seeks()
    }

    fn find(&mut self, key: &[u64]) -> Found {
        self.take.find(key)
    }

    fn learn(&mut self, key: &[u64], base: u64, chunk: Chunk<'_>) {
        self.take.learn(key, base, chunk);
    }

    fn walks(&mut self) -> bool {
        self.take.walks()
    }

    fn find_walk(&mut self, key: &[u64]) -> Found {
        self.take.find_walk(key)
    }

    fn learn_walk(&mut self, plan: &Plan, loops: [Chunk<'_>; 2]) {
        self.take.learn_walk(plan, loops);
    }

    fn walk(&mut self, template: u32, strands: &[Range<u64>], periods: u64) -> Went {
        if (self.full)() {
            *self.all = false;
            return Went::All;
        }
        let walked = self.take.walk(template, strands, periods);
        (self.after)(&mut self.take);
        walked
    }
}

/// Takes a batch that asks other stacks for lines.
struct Beside<'a> {
    stack: &'a mut Stack,
    bucket: Bucket,
    visit: Visit,
}

impl Take for &mut Beside<'_> {
    fn feed(&mut self, chunk: Chunk<'_>) {
        self.stack.feed_beside(chunk, self.bucket, &mut self.visit);
    }

    fn repeats(&self) -> bool {
        true
    }

    fn walks(&mut self) -> bool {
        self.stack.walks()
    }

    fn find_walk(&mut self, key: &[u64]) -> Found {
        self.stack.find_walk(key, self.bucket)
    }

    fn learn_walk(&mut self, plan: &Plan, loops: [Chunk<'_>; 2]) {
        let fewest = plan.period.fewest();
        self.stack.learn_walk(&plan.key, &plan.strands, plan.pins, fewest, loops, self.bucket);
    }

    fn walk(&mut self, template: u32, strands: &[Range<u64>], periods: u64) -> Went {
        self.stack.walk_beside(template, strands, periods, self.bucket, &mut self.visit)
    }
}

/// One entry per line size.
#[derive(Clone, Debug)]
pub(crate) struct Stacks {
    kept: Vec<Kept>,
    scratch: Scratch,
    /// By line size: where the lines are that a batch of another slot asked for last; and memory to work in.
    here: Vec<There>,
    spare: There,
    /// Digests that were fed since one in which a loop walks over lines.
    since_walk: u32,
    pub(crate) used: bool,
}

/// So many digests in which no loop walks over lines, and the next ones are expected to be like them.
const CALM: u32 = 16;

impl Stacks {
    pub(crate) fn new(config: &Config) -> Self {
        let kept = config.line_sizes.iter().map(|_| match config.sample {
            None => {
                let stack = Stack::new(config.limits);
                Kept::Whole(Box::new(match config.instructions {
                    Some(instructions) => stack.with_instructions(instructions),
                    None => stack,
                }))
            }
            Some(sample) => Kept::Sampled(Box::new(Sampled::new(sample, config.limits))),
        });
        let (kept, scratch) = (kept.collect(), Scratch::default());
        Self { kept, scratch, here: Vec::new(), spare: There::default(), since_walk: 0, used: false }
    }

    /// Takes a batch; what comes when memory is `full` is left out. Whether all of it was taken. `leave`, with the number of the
    /// line size, may take what stacks left behind.
    pub(crate) fn feed(
        &mut self,
        batch: &Batch,
        bucket: Bucket,
        config: &Config,
        full: fn() -> bool,
        leave: impl Fn(usize, &mut Stack),
    ) -> bool {
        self.used |= batch.accesses() > 0;
        let mut all = true;
        for (index, (kept, line_bytes)) in self.kept.iter_mut().zip(&config.line_sizes).enumerate() {
            let (shift, scratch, all) = (line_bytes.ilog2(), &mut self.scratch, &mut all);
            match kept {
                Kept::Whole(stack) => {
                    let after = &|take: &mut (&mut Stack, Bucket)| leave(index, take.0);
                    let take = Limited { take: (&mut **stack, bucket), full, all, after };
                    batch.references_to(shift, config.by_item, scratch, take);
                }
                Kept::Sampled(sampled) => {
                    let feed = |chunk: Chunk<'_>| sampled.feed(chunk, bucket);
                    let take = Limited { take: feed, full, all, after: &|_| {} };
                    batch.references_to(shift, config.by_item, scratch, take);
                }
            }
        }
        all
    }

    /// What was fed since the last time, for [`Stacks::feed_digests`] of the global stacks: by line size.
    pub(crate) fn take_digests(&mut self, spare: &Spare) -> Vec<Digest> {
        let of = |kept: &mut Kept| match kept {
            Kept::Whole(stack) => stack.take_digest(spare.take()),
            Kept::Sampled(_) => Digest::default(),
        };
        self.kept.iter_mut().map(of).collect()
    }

    /// Counts what others counted within digests, by line size.
    pub(crate) fn absorb(&mut self, digesters: &mut Digesters) {
        for (kept, digester) in self.kept.iter_mut().zip(&mut digesters.each) {
            if let Kept::Whole(stack) = kept {
                stack.absorb(&digester.take_within());
            }
        }
    }

    /// As [`Stacks::feed`], of a batch that its slot, or somebody for it, has analysed; not where lines are sampled. Whether it
    /// was taken.
    pub(crate) fn feed_digests(
        &mut self,
        digests: &[Digest],
        bucket: Bucket,
        full: fn() -> bool,
        leave: impl Fn(usize, &mut Stack),
    ) -> bool {
        self.used |= digests.iter().any(|digest| digest.firsts() > 0);
        let mut all = true;
        for (index, (kept, digest)) in self.kept.iter_mut().zip(digests).enumerate() {
            match kept {
                Kept::Whole(_) if full() => all = false,
                Kept::Whole(stack) => {
                    stack.feed_digest(digest, bucket);
                    leave(index, stack);
                }
                Kept::Sampled(_) => {}
            }
        }
        all
    }

    /// From now on they are those of so many slots.
    pub(crate) fn be_of(&mut self, slots: usize) {
        self.whole().for_each(|stack| stack.be_of(slots));
    }

    /// From now on it leaves half of the work behind, where other slots' stores take no lines away.
    pub(crate) fn defer(&mut self) {
        self.whole().for_each(Stack::defer);
    }

    /// Whether it pays that others do half of the work, before these digests are fed: not where loops walk over lines, which leave
    /// little each.
    pub(crate) fn divides(&mut self, digests: &[Digest]) -> bool {
        self.since_walk = if digests.iter().any(Digest::walks) { 0 } else { self.since_walk.saturating_add(1) };
        self.since_walk > CALM
    }

    /// From now on it does not.
    pub(crate) fn defer_no_more(&mut self) {
        self.whole().for_each(Stack::defer_no_more);
    }

    /// Whether all of them leave something behind.
    pub(crate) fn defers(&mut self) -> bool {
        self.whole().all(|stack| stack.defers())
    }

    /// Takes back all that was taken, by line size, and does what is left to do; whether that is all there is.
    pub(crate) fn settle(&mut self, taken: Vec<Option<Deferred>>) -> bool {
        let mut taken = taken.into_iter();
        let mut all = true;
        for stack in self.whole() {
            taken.next().flatten().into_iter().for_each(|deferred| stack.put_back(deferred));
            all &= stack.settle();
        }
        all
    }

    fn whole(&mut self) -> impl Iterator<Item = &mut Stack> {
        self.kept.iter_mut().filter_map(|kept| match kept {
            Kept::Whole(stack) => Some(&mut **stack),
            Kept::Sampled(_) => None,
        })
    }

    /// Whether what the stacks of all line sizes tell is all: see [`Stack::is_told`].
    pub(crate) fn is_told(&self) -> bool {
        self.kept.iter().all(|kept| matches!(kept, Kept::Whole(stack) if stack.is_told()))
    }

    /// As [`Stack::mark`]; what [`Stacks::is_told`] says.
    pub(crate) fn mark(&mut self) -> bool {
        self.whole().for_each(Stack::mark);
        self.is_told()
    }

    /// What they counted since the last mark, by line size; `None` if that is not all there is to tell.
    pub(crate) fn tally(&mut self) -> Option<Vec<Tally>> {
        self.is_told().then(|| self.whole().map(|stack| stack.tally()).collect())
    }

    /// As [`Stack::count_again`].
    pub(crate) fn count_again(&mut self, tallies: &[Tally], times: u64) {
        self.whole().zip(tallies).for_each(|(stack, tally)| stack.count_again(tally, times));
    }

    /// What they are now and counted since the last mark, if they have so many lines at most.
    pub(crate) fn keep(&mut self, most: usize) -> Option<AtSeam> {
        let tally = self.tally().filter(|_| self.whole().map(|stack| stack.lines()).sum::<usize>() <= most)?;
        Some(AtSeam { stacks: self.whole().map(Stack::without_counts).collect(), tally })
    }

    /// As if what was counted up to there was referenced once more: they are what they were then.
    pub(crate) fn go_on_from(&mut self, AtSeam { stacks, tally }: AtSeam) {
        self.count_again(&tally, 1);
        self.whole().zip(stacks).for_each(|(stack, kept)| stack.replace_by(kept));
    }

    /// From now on they are those of this slot, and other slots' stores take lines away.
    pub(crate) fn share(&mut self, slot: u32) {
        self.whole().for_each(|stack| stack.share(slot));
    }

    /// Enters all lines that were ever referenced, by the line sizes from the first of `directories` on.
    pub(crate) fn enter_into(&self, slot: u32, directories: &mut [Directory]) {
        for (kept, directory) in self.kept.iter().zip(directories) {
            if let Kept::Whole(stack) = kept {
                stack.each_line(|line, stored| directory.begin(line, slot, stored));
            }
        }
    }

    /// The same as [`Stacks::feed`] for a batch that asks the stacks of other slots; also what became of it, by line size.
    pub(crate) fn feed_beside(
        &mut self,
        asked: &[Vec<Common>],
        (batch, bucket): (&Batch, Bucket),
        config: &Config,
        full: fn() -> bool,
    ) -> (bool, Vec<Visit>) {
        self.used |= batch.accesses() > 0;
        let mut visits = Vec::with_capacity(asked.len());
        let mut all = true;
        for ((kept, line_bytes), asked) in self.kept.iter_mut().zip(&config.line_sizes).zip(asked) {
            let Kept::Whole(stack) = kept else { continue };
            let visit = stack.begin_visit(asked);
            let mut beside = Beside { stack, bucket, visit };
            let take = Limited { take: &mut beside, full, all: &mut all, after: &|_| {} };
            batch.references_to(line_bytes.ilog2(), config.by_item, &mut self.scratch, take);
            visits.push(beside.visit);
        }
        (all, visits)
    }

    /// What a batch of another slot asks, by line size; [`Stacks::tell`] says what that is.
    pub(crate) fn visited(&mut self, asked: &[Vec<Common>], bucket: Bucket) {
        let mut here = std::mem::take(&mut self.here);
        here.resize_with(asked.len(), There::default);
        let all = self.whole().zip(asked).zip(&mut here);
        all.for_each(|((stack, lines), here)| stack.visited(lines, bucket, here));
        self.here = here;
    }

    /// Adds what it asked last.
    pub(crate) fn tell(&mut self, there: &mut [There]) {
        let Self { here, spare, .. } = self;
        there.iter_mut().zip(here).for_each(|(there, here)| there.add(here, spare));
    }

    /// What a batch that was fed was told, by line size.
    pub(crate) fn end_visit(&mut self, visits: Vec<Visit>, there: &[There], bucket: Bucket) {
        for ((stack, visit), there) in self.whole().zip(visits).zip(there) {
            stack.end_visit(visit, there, bucket);
        }
    }

    /// Adds what they counted to a snapshot; theirs are the line sizes from the `first` of it on. `within` has, by line size,
    /// what slots counted for the global stacks too.
    pub(crate) fn add_to(&self, owner: Owner, first: usize, snapshot: &mut Snapshot, within: &mut [Option<Within>]) {
        let mut within = within.iter_mut().skip(first);
        let mut coherence = snapshot.coherence.iter_mut().skip(first);
        let (mut whole, mut parts) = (snapshot.lines.iter_mut().skip(first), snapshot.sampled.iter_mut().skip(first));
        let mut items = snapshot.items.iter_mut().skip(first);
        for kept in &self.kept {
            match kept {
                Kept::Whole(engine) => {
                    snapshot.dropped += engine.dropped();
                    if let Owner::Slot(slot) = owner
                        && let Some(coherence) = coherence.next()
                    {
                        coherence.slots.extend(convert::coherence(slot, engine, coherence.max_set_bits));
                    }
                    let mut counted = match (owner, within.next()) {
                        (Owner::Global, Some(Some(within))) => engine.counted_with(within),
                        (Owner::Slot(_), Some(sum)) => {
                            match (sum, engine.within()) {
                                (Some(sum), Some(more)) => sum.add(&more),
                                (sum, more) => *sum = sum.take().or(more),
                            }
                            engine.counted()
                        }
                        _ => engine.counted(),
                    };
                    if let Some(data) = items.next() {
                        data.stacks.extend(by_item(owner, &mut counted));
                    }
                    if let Some(data) = whole.next() {
                        data.stacks.extend(sample::stacks(owner, counted));
                    }
                }
                Kept::Sampled(sampled) => {
                    snapshot.dropped += sampled.dropped();
                    parts.next().into_iter().for_each(|data| sampled.add_to(owner, data));
                }
            }
        }
    }
}

/// Stacks at the seam of a round, by line size, and what they counted from where it began to be counted up to there.
#[derive(Debug)]
pub(crate) struct AtSeam {
    stacks: Vec<Stack>,
    tally: Vec<Tally>,
}

/// What the stacks of one part left behind, by line size, worked off by whoever has time.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    each: Vec<Option<Deferred>>,
    /// Whether somebody works it off.
    away: bool,
}

impl Behind {
    /// Batches of references that wait.
    pub(crate) fn works(&self) -> usize {
        self.each.iter().flatten().map(Deferred::works).sum()
    }

    /// What came after it.
    pub(crate) fn add(&mut self, index: usize, later: Deferred) {
        if self.each.len() <= index {
            self.each.resize_with(index + 1, || None);
        }
        match &mut self.each[index] {
            Some(deferred) => deferred.add(later),
            none => *none = Some(later),
        }
    }

    /// Memory of works that are done.
    pub(crate) fn return_spare(&mut self, index: usize, stack: &mut Stack) {
        self.each.get_mut(index).into_iter().flatten().for_each(|deferred| stack.take_spare(deferred));
    }

    /// What is to be done, to be given back; `None` if nothing is, or somebody does it.
    pub(crate) fn take(&mut self) -> Option<Vec<Option<Deferred>>> {
        if self.away || self.works() == 0 {
            return None;
        }
        self.away = true;
        Some(std::mem::take(&mut self.each))
    }

    pub(crate) fn give_back(&mut self, done: Vec<Option<Deferred>>) {
        let later = std::mem::replace(&mut self.each, done);
        for (index, later) in later.into_iter().enumerate() {
            later.into_iter().for_each(|later| self.add(index, later));
        }
        self.away = false;
    }

    /// All of it, for the stacks; `None` if somebody works some of it off.
    pub(crate) fn take_all(&mut self) -> Option<Vec<Option<Deferred>>> {
        (!self.away).then(|| std::mem::take(&mut self.each))
    }
}

/// Digests whose memory can be used again.
#[derive(Debug)]
pub(crate) struct Spare(ArrayQueue<Digest>);

impl Spare {
    /// Room for so many.
    pub(crate) fn new(most: usize) -> Self {
        Self(ArrayQueue::new(most))
    }

    /// An empty digest.
    fn take(&self) -> Digest {
        self.0.pop().unwrap_or_default()
    }

    /// Done with a digest; if there is no room it is given up.
    pub(crate) fn put(&self, digest: Digest) {
        let _ = self.0.push(digest.emptied());
    }
}

/// Make digests for the stacks of one part, one for each line size.
#[derive(Debug)]
pub(crate) struct Digesters {
    each: Vec<Digester>,
    scratch: Scratch,
}

impl Digesters {
    pub(crate) fn new(config: &Config) -> Self {
        let digester = |_: &u32| match config.instructions {
            Some(instructions) => Digester::new(config.limits).with_instructions(instructions),
            None => Digester::new(config.limits),
        };
        Self { each: config.line_sizes.iter().map(digester).collect(), scratch: Scratch::default() }
    }

    /// By line size what stacks need of a batch.
    pub(crate) fn digest(&mut self, batch: &Batch, bucket: Bucket, config: &Config, spare: &Spare) -> Vec<Digest> {
        let sizes = self.each.iter_mut().zip(&config.line_sizes);
        let digests = sizes.map(|(digester, line_bytes)| {
            batch.references_to(line_bytes.ilog2(), config.by_item, &mut self.scratch, (&mut *digester, bucket));
            digester.take_digest(spare.take())
        });
        digests.collect()
    }
}

/// What each item has of what was counted, taken out of it.
fn by_item(owner: Owner, counted: &mut [Counted]) -> Vec<ItemStack> {
    let mut stacks = Vec::new();
    for Counted { bucket, items, .. } in counted {
        for (item, histograms) in std::mem::take(items) {
            let (tag, histograms) = (sample::tag(*bucket), convert::histograms(histograms));
            stacks.push(ItemStack { owner, tag, item: item.0.into(), histograms });
        }
    }
    stacks
}

//! Stacks of several threads: what the references of one do to the stacks of the others.
//!
//! References come in batches of chunks of one thread, and the order of the batches is the order of events. A batch has no effect
//! on another stack but this: lines are clean there from then on, and those that it stores are taken away. To take a line away
//! moves no other line, so where a batch finds its lines is known before it is fed: each other stack is visited once, between
//! what it is fed before and after. What the batch finds in its own stack and in the others is put together when both is known,
//! so that the stacks need not wait for each other.

use crate::by_line::Mix;
use crate::engine::{Asks, Core, Stack, of_width};
use crate::held::ON_TOP;
use crate::item::Charge;
use crate::lines::Id;
use crate::newest::NEWEST;
use crate::sharing::{Event, Known, Position, Shared, Sharing};
use crate::simd::{self, Task, Vector};
use crate::sink::Outcome;
use crate::template::Templates;
use crate::top::Order as _;
use crate::walk::What;
use crate::walking::Follow;
use crate::{Bucket, Chunk, Went};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

impl Stack {
    /// From now on lines can be taken away by other stacks' stores. What was referenced before stands as it did.
    pub fn share(&mut self) {
        self.settle();
        of_width!(&mut self.core, core => core.share())
    }

    /// All lines that were ever referenced, and whether they were ever stored.
    pub fn each_line(&self, each: impl FnMut(u64, bool)) {
        of_width!(&self.core, core => core.each_line(each));
    }

    /// Where a line stands; `None`: it is not here.
    #[must_use]
    pub fn position(&self, line: u64) -> Option<Position> {
        of_width!(&self.core, core => simd::run(Find { core, line }, self.instructions))
    }

    /// What sharing did, by bucket.
    #[must_use]
    pub fn shared(&self) -> Vec<(Bucket, Shared)> {
        of_width!(&self.core, core => core.sharing.as_ref().map_or_else(Vec::new, |sharing| sharing.counts()))
    }

    /// For a batch that references these lines, each given once, in order. Others hold no other line of its.
    #[must_use]
    pub fn begin_visit(&mut self, lines: &[Common]) -> Visit {
        let spare = of_width!(&mut self.core, core => core.sharing.as_mut().and_then(|sharing| sharing.visits.pop()));
        spare.unwrap_or_default().begun(lines)
    }

    /// Takes a chunk, as [`crate::Engine::feed_chunk`], of a batch that visits other stacks; all must be shared ones.
    pub fn feed_beside(&mut self, chunk: Chunk<'_>, bucket: Bucket, visit: &mut Visit) {
        self.feed_any(chunk, bucket, Asks::Visit(visit));
    }

    /// As [`Learns::walk`](crate::Learns::walk), of a batch that visits other stacks.
    pub fn walk_beside(
        &mut self,
        template: u32,
        strands: &[Range<u64>],
        periods: u64,
        bucket: Bucket,
        visit: &mut Visit,
    ) -> Went {
        let asks = visit.is_asked(strands).then_some(visit);
        of_width!(&mut self.core, core => core.walk(template, strands, periods, bucket, asks, self.instructions))
    }

    /// A batch of another thread references these lines, under this bucket: they are clean here from now on, and those that
    /// are stored are gone. Where they are here.
    pub fn visited(&mut self, lines: &[Common], bucket: Bucket) -> There {
        of_width!(&mut self.core, core => {
            core.older.look(lines.len());
            core.be_in_time(1, self.instructions);
        });
        let here = of_width!(&mut self.core, core => simd::run(PassOn { core, lines }, self.instructions));
        let mut found = There { least: Vec::with_capacity(lines.len()), taken: Vec::new() };
        for (common, here) in lines.iter().zip(here) {
            found.least.push(here.as_ref().map(|here| here.position));
            if let Some(here) = here.filter(|_| common.stored) {
                let line = common.line;
                of_width!(&mut self.core, core => core.be_in_time(1, self.instructions));
                of_width!(&mut self.core, core => simd::run(TakeAway { core, line, here: &here, bucket }, self.instructions));
                found.taken.push(here.position);
            }
        }
        found
    }

    /// Counts what became of a batch that was fed and that visited all other stacks.
    pub fn end_visit(&mut self, visit: Visit, found: &There, bucket: Bucket) {
        of_width!(&mut self.core, core => if let Some(sharing) = &mut core.sharing {
            for own in &visit.own {
                if let Some(there) = &found.least[own.common as usize] {
                    sharing.count_remote(bucket, there, own.distance.as_ref(), own.times.into());
                }
            }
            found.taken.iter().for_each(|position| sharing.count(Event::Sent, bucket, position, 1));
            if sharing.visits.len() < SPARE {
                sharing.visits.push(visit);
            }
        });
    }
}

/// Lines that are fetched ahead.
const AHEAD: usize = 6;
/// Visits whose memory is kept for others.
const SPARE: usize = 2;

/// A line of a batch that other stacks may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Its number.
    pub line: u64,
    /// Whether the batch stores it.
    pub stored: bool,
}

/// What a batch finds in the stacks of others.
#[derive(Clone, Debug)]
pub struct There {
    /// By line, in the order in which they were given: the least position.
    least: Vec<Option<Position>>,
    /// Positions of those that were taken away.
    taken: Vec<Position>,
}

impl There {
    /// Of so many lines, in no stack.
    #[must_use]
    pub fn none(lines: usize) -> Self {
        Self { least: vec![None; lines], taken: Vec::new() }
    }

    /// In this stack, too.
    pub fn add(&mut self, more: Self) {
        for (there, more) in self.least.iter_mut().zip(more.least) {
            *there = there.map_or(more, |there| Some(more.map_or(there, |more| there.min(&more))));
        }
        self.taken.extend(more.taken);
    }
}

/// What becomes of a batch in its own stack, as far as that matters for what it finds in others.
#[derive(Clone, Debug, Default)]
pub struct Visit {
    /// Lines in order, and whether others may still hold each.
    lines: Vec<(u64, bool)>,
    /// Their numbers there, once they are asked for one by one.
    known: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    own: Vec<Own>,
}

/// What became of references to a line that others may hold.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// Which of the lines.
    common: u32,
    times: u32,
    /// Where it was; `None`: it was not here.
    distance: Option<Position>,
}

impl Visit {
    /// The same memory, for a batch that references these lines.
    fn begun(mut self, lines: &[Common]) -> Self {
        debug_assert!(lines.is_sorted_by_key(|common| common.line), "in order");
        self.lines.clear();
        self.lines.extend(lines.iter().map(|common| (common.line, true)));
        self.known.clear();
        self.own.clear();
        self
    }

    /// The number of a line that others may hold, and do no more if it is `stored`.
    pub(crate) fn common(&mut self, line: u64, stored: bool) -> Option<u32> {
        if self.known.is_empty() {
            self.known.extend(self.lines.iter().zip(0..).map(|(&(line, _), number)| (line, number)));
        }
        let number = *self.known.get(&line)?;
        self.ask(number, stored)
    }

    /// The same by its number.
    fn ask(&mut self, number: u32, stored: bool) -> Option<u32> {
        let held = &mut self.lines[number as usize].1;
        let asked = *held;
        *held &= !stored;
        asked.then_some(number)
    }

    /// Whether others may hold some of these lines.
    fn is_asked(&self, strands: &[Range<u64>]) -> bool {
        strands.iter().any(|strand| self.place(strand.start) != self.place(strand.end))
    }

    /// How many of its lines come before one.
    fn place(&self, line: u64) -> usize {
        self.lines.partition_point(|&(other, _)| other < line)
    }

    /// A loop walked over a line: its first reference found it so far down, if it was here, and what follows is the same for
    /// all such lines. `near` is where the last one was found.
    #[inline(always)]
    pub(crate) fn walked(&mut self, line: u64, what: &What, here: Option<Position>, near: &mut usize) {
        let is_here = |at: usize| self.lines.get(at).is_some_and(|&(other, _)| other == line);
        *near = if is_here(*near + 1) { *near + 1 } else { self.place(line) };
        let Some(common) = is_here(*near).then(|| self.ask(*near as u32, what.stores())).flatten() else { return };
        self.add(common, 1, here);
        what.runs.iter().for_each(|&(times, distance)| self.add(common, times, Some(distance)));
    }

    /// So many references to a line found it there, or nowhere.
    fn add(&mut self, common: u32, times: u32, distance: Option<Position>) {
        // Nothing is above what is on top.
        if distance.is_none_or(|distance| distance.full > 0) {
            self.own.push(Own { common, times, distance });
        }
    }

    /// What became of references to the line of that number.
    pub(crate) fn became(&mut self, outcome: &Outcome) {
        let own = !outcome.cold && !outcome.lost;
        let distance = own.then_some(Position { full: outcome.full, by_set: outcome.by_set });
        self.add(outcome.site, outcome.times, distance);
    }
}

struct Find<'a, const W: usize> {
    core: &'a Core<W>,
    line: u64,
}

impl<const W: usize> Task for Find<'_, W> {
    type Answer = Option<Position>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Answer {
        self.core
            .find::<V>(self.line, self.core.lines.find(self.line)?, &mut self.core.follow())
            .map(|here| here.position)
    }
}

struct TakeAway<'a, const W: usize> {
    core: &'a mut Core<W>,
    line: u64,
    here: &'a Here,
    bucket: Bucket,
}

impl<const W: usize> Task for TakeAway<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.core.take_away::<V>(self.line, self.here, self.bucket);
    }
}

struct PassOn<'a, const W: usize> {
    core: &'a mut Core<W>,
    lines: &'a [Common],
}

impl<const W: usize> Task for PassOn<'_, W> {
    type Answer = Vec<Option<Here>>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Answer {
        self.core.pass_on::<V>(self.lines)
    }
}

/// A line that is here. That stays right while the stack stands still, and when it loses other lines: each leaves a hole.
#[derive(Debug)]
struct Here {
    held: Option<u16>,
    id: u32,
    position: Position,
    last: u64,
}

impl<const W: usize> Core<W> {
    fn share(&mut self) {
        if self.sharing.is_some() {
            return;
        }
        self.deferred = false;
        std::mem::replace(&mut self.templates, Templates::new()).count(&mut self.buckets);
        let mut sharing = Box::new(Sharing::new(self.limits));
        self.older.oldest_first(&self.lines).into_iter().for_each(|id| sharing.begin_older(id));
        for entry in self.tiers.oldest_first() {
            sharing.touch(entry);
        }
        sharing.cut();
        self.sharing = Some(sharing);
    }

    fn each_line(&self, mut each: impl FnMut(u64, bool)) {
        for (line, id) in self.lines.all() {
            let held = self.tiers.held.find(line);
            // It enters the older tier when it leaves the others.
            if held.is_some() || self.lines.get(id).last != 0 || self.older.sheets.find(line).is_some() {
                let stored = held.is_some_and(|entry| self.tiers.held.since_of(entry).stored != Charge::NONE);
                each(line, stored || self.state_behind(id).dirty != Charge::NONE);
            }
        }
    }

    #[inline(always)]
    fn pass_on<V: Vector>(&mut self, lines: &[Common]) -> Vec<Option<Here>> {
        let mut ids = Vec::with_capacity(lines.len());
        for &Common { line, .. } in lines {
            let id = self.lines.find(line);
            id.into_iter().for_each(|id| self.prefetch::<V>(id));
            ids.push(id);
        }
        let (mut found, mut follow) = (Vec::with_capacity(lines.len()), self.follow());
        for (at, (common, &id)) in lines.iter().zip(&ids).enumerate() {
            if let (Some(next), Some(&Some(id))) = (lines.get(at + AHEAD), ids.get(at + AHEAD)) {
                self.prefetch_depth::<V>(next.line, id);
            }
            let here = id.and_then(|id| self.find::<V>(common.line, id, &mut follow));
            if let Some(here) = &here {
                self.clean::<V>(here);
            }
            found.push(here);
        }
        found
    }

    #[inline(always)]
    fn prefetch<V: Vector>(&self, id: Id) {
        V::prefetch(self.lines.get(id));
        self.sharing.iter().for_each(|sharing| sharing.prefetch::<V>(id));
        self.left.load.iter().for_each(|load| load.behind.states.prefetch::<V>(id));
    }

    #[inline(always)]
    fn prefetch_depth<V: Vector>(&self, line: u64, id: Id) {
        self.older.prefetch::<V>(&self.lines, id);
        self.left.load.iter().for_each(|load| load.behind.sets.prefetch::<V>(line));
    }

    #[inline(always)]
    fn find<V: Vector>(&self, line: u64, id: Id, follow: &mut Follow) -> Option<Here> {
        let sharing = self.sharing.as_ref()?;
        let held = self.tiers.held.find(line);
        let last = match (held, sharing.known(id)) {
            (Some(entry), _) => sharing.held(entry),
            (None, Known::At(last)) => last,
            _ => return None,
        };
        let (mut full, mut by_set) = self.depth::<V>(line, held, id, follow);
        if sharing.holes.may_be_above(last) {
            let above = sharing.holes.above(line, last);
            full += above.0;
            V::add(&mut by_set, &above.1);
        }
        Some(Here { held, id, position: Position::new(full, &by_set), last })
    }

    #[inline(always)]
    fn take_away<V: Vector>(&mut self, line: u64, here: &Here, bucket: Bucket) {
        match here.held {
            Some(entry) => {
                match self.tiers.held.slot(entry) {
                    ON_TOP => self.tiers.top.remove(self.tiers.top.place(line)),
                    slot @ ..NEWEST => self.tiers.newest.remove::<V>(&mut self.tiers.newest.stamps::<V>(), slot),
                    slot => self.tiers.recent.remove(slot - NEWEST),
                }
                self.tiers.held.remove(entry);
            }
            None => self.leave_older::<V>(line, here.id),
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.lose(here.id, here.position);
            sharing.holes.insert(line, here.last);
            sharing.count(Event::Received, bucket, &here.position, 1);
        }
    }

    /// A line passes its dirt on.
    #[inline(always)]
    fn clean<V: Vector>(&mut self, here: &Here) {
        let state = self.state::<V>(here.held, here.id);
        let Some((charged, _)) = state.dirty.get() else { return };
        if let Some(entry) = here.held {
            *self.tiers.held.since(entry) = crate::held::Since::now(Charge::NONE);
        }
        if let Some(load) = &mut self.left.load {
            load.behind.states.get_mut(here.id).begin(Charge::NONE);
        }
        let at = Position::new(state.greatest_full, &state.greatest).max(&here.position);
        if let Some(sharing) = &mut self.sharing {
            sharing.count(Event::Dirty, charged, &at, 1);
        }
    }
}

//! Stacks of several threads: what the references of one do to the stacks of the others.
//!
//! References come in batches of chunks of one thread, and the order of the batches is the order of events. A batch has no effect
//! on another stack but this: lines are clean there from then on, and those that it stores are taken away. To take a line away
//! moves no other line, so where a batch finds its lines is known before it is fed: each other stack is visited once, between
//! what it is fed before and after. What the batch finds in its own stack and in the others is put together when both is known,
//! so that the stacks need not wait for each other.

use crate::engine::{Asks, Core, Stack, of_width};
use crate::even::EVEN;
use crate::held::{Entry, ON_TOP};
use crate::holes::Instant;
use crate::item::Charge;
use crate::lines::Id;
use crate::newest::NEWEST;
use crate::sharing::{Event, Known, Position, Shared, Sharing};
use crate::sheets::MOST;
use crate::simd::{self, Task, Vector};
use crate::still::Still;
use crate::template::Templates;
use crate::top::Order as _;
use crate::visit::{Common, Place, There, Visit};
use crate::walking::Follow;
use crate::{Bucket, Chunk, Went};
use std::ops::Range;

impl Stack {
    /// From now on it is the stack of this slot, and lines can be taken away by other slots' stores. What was referenced before stands
    /// as it did.
    pub fn share(&mut self, slot: u32) {
        self.settle();
        of_width!(&mut self.core, core => core.share(slot))
    }

    /// From now on it is the stack of so many threads.
    pub fn be_of(&mut self, threads: usize) {
        of_width!(&mut self.core, core => core.older.most = MOST * threads.min(WALKERS))
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
    /// are stored are gone. `there` becomes where they are here.
    pub fn visited(&mut self, lines: &[Common], bucket: Bucket, there: &mut There) {
        there.clear();
        of_width!(&mut self.core, core => {
            core.be_in_time(1, self.instructions);
            let stored = simd::run(PassOn { core, lines, there }, self.instructions);
            for (line, here) in stored {
                core.be_in_time(1, self.instructions);
                simd::run(TakeAway { core, line, here: &here, bucket }, self.instructions);
                there.taken.push(here.position);
            }
        });
    }

    /// Counts what became of a batch that was fed and that visited all other stacks.
    pub fn end_visit(&mut self, visit: Visit, found: &There, bucket: Bucket) {
        of_width!(&mut self.core, core => if let Some(sharing) = &mut core.sharing {
            visit.count(found, bucket, sharing);
            found.taken.iter().for_each(|position| sharing.count(Event::Sent, bucket, position, 1));
            if sharing.visits.len() < SPARE {
                sharing.visits.push(visit);
            }
        });
    }
}

/// Lines that are fetched ahead.
const AHEAD: usize = 6;
/// There is room for sheets of so many threads, at most.
const WALKERS: usize = 8;
/// Visits whose memory is kept for others.
const SPARE: usize = 2;

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
    there: &'a mut There,
}

impl<const W: usize> Task for PassOn<'_, W> {
    type Answer = Vec<(u64, Here)>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Answer {
        self.core.pass_on::<V>(self.lines, self.there)
    }
}

/// A line that is here. That stays right while the stack stands still, and when it loses other lines: each leaves a hole.
#[derive(Debug)]
pub(crate) struct Here {
    held: Option<Entry>,
    id: Id,
    position: Position,
    last: Instant,
}

/// A line that is asked for by itself.
struct Single {
    line: u64,
    id: Option<Id>,
    stored: bool,
}

impl<const W: usize> Core<W> {
    fn share(&mut self, slot: u32) {
        if self.sharing.is_some() {
            return;
        }
        self.deferred = false;
        std::mem::replace(&mut self.templates, Templates::new()).count(&mut self.buckets);
        let mut sharing = Box::new(Sharing::new(slot, self.limits));
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

    /// Tells `there` where lines are, which are clean from now on. Those of them that are here and are to be taken away.
    #[inline(always)]
    fn pass_on<V: Vector>(&mut self, lines: &[Common], there: &mut There) -> Vec<(u64, Here)> {
        let mut stored_here = Vec::new();
        let (mut singles, mut still) = (Vec::new(), Still::new(self.follow()));
        let slot = self.sharing.as_ref().map_or(0, |sharing| sharing.slot);
        for Common { lines, stored, holders } in lines {
            let (mut lines, stored) = (lines.clone(), *stored);
            let (mut look, mut pause) = (lines.start, EVEN);
            let may_hold = holders.has(slot);
            while !lines.is_empty() {
                let line = lines.start;
                if line >= look && lines.end - line >= EVEN {
                    let absent = if may_hold { self.absent(&lines) } else { lines.end - line };
                    let even = if absent >= EVEN || stored { 0 } else { self.stand::<V>(&lines, &mut still) };
                    if absent >= EVEN || even > 0 {
                        self.pass_on_singles::<V>(&mut singles, there, &mut stored_here, &mut still.follow);
                        if even > 0 {
                            self.pass_on_evenly::<V>(line..line + even, there, &mut still);
                        } else {
                            there.push(absent as u32, &[None]);
                        }
                        lines.start += even.max(absent);
                        (look, pause) = (lines.start, EVEN);
                        continue;
                    }
                    (look, pause) = (line + pause, 2 * pause);
                }
                let id = if may_hold { self.lines.find(line) } else { None };
                id.into_iter().for_each(|id| self.prefetch(id));
                singles.push(Single { line, id, stored });
                lines.start += 1;
            }
        }
        self.pass_on_singles::<V>(&mut singles, there, &mut stored_here, &mut still.follow);
        stored_here
    }

    /// How many of these lines, from the first one on, are not here.
    fn absent(&self, lines: &Range<u64>) -> u64 {
        let ids = self.lines.all_ids(lines.clone()).flatten();
        let is_here = |(line, &id): (u64, &Id)| {
            let known = id.checked_sub(1).zip(self.sharing.as_ref()).map(|(id, sharing)| sharing.known(id));
            matches!(known, Some(Known::At(_))) || self.tiers.held.find(line).is_some()
        };
        let all = lines.clone().zip(ids);
        all.take_while(|&one| !is_here(one)).count() as u64
    }

    /// The same of lines each by itself.
    #[inline(always)]
    fn pass_on_singles<V: Vector>(
        &mut self,
        singles: &mut Vec<Single>,
        there: &mut There,
        stored: &mut Vec<(u64, Here)>,
        follow: &mut Follow,
    ) {
        self.older.look(singles.len());
        for (at, single) in singles.iter().enumerate() {
            if let Some(&Single { line, id: Some(id), .. }) = singles.get(at + AHEAD) {
                self.prefetch_depth(line, id);
            }
            let here = self.pass_on_single::<V>(single.line, single.id, there, follow);
            stored.extend(here.filter(|_| single.stored).map(|here| (single.line, here)));
        }
        singles.clear();
    }

    /// The same of one line.
    #[inline(always)]
    pub(crate) fn pass_on_single<V: Vector>(
        &mut self,
        line: u64,
        id: Option<Id>,
        there: &mut There,
        follow: &mut Follow,
    ) -> Option<Here> {
        // No closure: it might become a function, where vector operations are functions too.
        let here = match id {
            Some(id) => self.find::<V>(line, id, follow),
            None => None,
        };
        there.push(1, &[here.as_ref().map(|here| Place { position: here.position, deeper: 0 })]);
        if let Some(here) = &here {
            self.clean::<V>(here.held, here.id, &here.position);
        }
        here
    }

    #[inline(always)]
    fn prefetch(&self, id: Id) {
        simd::prefetch(self.lines.get(id));
        self.sharing.iter().for_each(|sharing| sharing.prefetch(id));
        self.left.load.iter().for_each(|load| load.behind.states.prefetch(id));
    }

    /// Fetches what [`Core::depth`] will look at.
    #[inline(always)]
    pub(crate) fn prefetch_depth(&self, line: u64, id: Id) {
        self.older.prefetch(&self.lines, id);
        self.left.load.iter().for_each(|load| load.behind.sets.prefetch(line));
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
    pub(crate) fn clean<V: Vector>(&mut self, held: Option<Entry>, id: Id, position: &Position) {
        let state = self.state::<V>(held, id);
        let Some((charged, _)) = state.dirty.get() else { return };
        if let Some(entry) = held {
            *self.tiers.held.since(entry) = crate::held::Since::now(Charge::NONE);
        }
        if let Some(load) = &mut self.left.load {
            load.behind.states.get_mut(id).begin(Charge::NONE);
        }
        let at = Position::new(state.greatest_full, &state.greatest).max(position);
        if let Some(sharing) = &mut self.sharing {
            sharing.count(Event::Dirty, charged, &at, 1);
        }
    }
}

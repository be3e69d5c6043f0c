//! Stacks of several threads: what the references of one do to the stacks of the others.
//!
//! References come in chunks of one thread, and the order of the chunks is the order of events. While chunks of one thread are
//! taken, the other stacks stand still but for what these do to them, and to take a line away moves no other line. So each
//! line is looked up in the other stacks once, and taken away at the end.

use crate::engine::{Asks, Core, Stack, Visited, of_width};
use crate::held::ON_TOP;
use crate::item::Charge;
use crate::lines::{Id, Mix, REGION_BITS};
use crate::newest::NEWEST;
use crate::sharing::{Event, Known, Position, Shared, Sharing};
use crate::simd::{self, Task, Vector};
use crate::template::Templates;
use crate::top::Order as _;
use crate::{Bucket, Chunk};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

impl Stack {
    /// Lines a region has; see [`Stack::regions`].
    pub const REGION: u64 = 1 << REGION_BITS;

    /// From now on lines can be taken away by other stacks' stores. What was referenced before stands as it did.
    pub fn share(&mut self) {
        self.settle();
        of_width!(&mut self.core, core => core.share())
    }

    /// All lines that were ever referenced lie in these regions: numbers of lines divided by [`Stack::REGION`].
    #[must_use]
    pub fn regions(&self) -> &[u64] {
        of_width!(&self.core, core => core.lines.regions())
    }

    /// Whether a line was ever referenced.
    #[must_use]
    pub fn saw(&self, line: u64) -> bool {
        of_width!(&self.core, core => core.saw(line))
    }

    /// Whether a line was ever stored.
    #[must_use]
    pub fn stored(&self, line: u64) -> bool {
        of_width!(&self.core, core => core.stored(line))
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

    /// Takes a chunk, as [`crate::Engine::feed_chunk`], beside the stacks of other threads, which are visited; all stacks must
    /// be shared ones.
    pub fn feed_beside(&mut self, chunk: Chunk<'_>, bucket: Bucket, visit: &mut Visit) {
        self.feed_any(chunk, bucket, Asks::Visit(visit));
    }

    /// The others lose the lines that were stored in chunks of this bucket. To be called before anything else happens to them.
    pub fn end_visit(&mut self, others: &mut [&mut Self], bucket: Bucket, visit: Visit) {
        for &Common { line, at, .. } in visit.common.iter().filter(|common| common.stored) {
            for (other, found) in others.iter_mut().zip(&visit.found) {
                if let Some(found) = &found[at] {
                    other.take_away(line, found, bucket);
                    of_width!(&mut self.core, core => if let Some(sharing) = &mut core.sharing {
                        sharing.count(Event::Sent, bucket, &found.position, 1);
                    });
                }
            }
        }
    }

    /// A store elsewhere takes away a line that was found.
    fn take_away(&mut self, line: u64, found: &Found, bucket: Bucket) {
        of_width!(&mut self.core, core => simd::run(TakeAway { core, line, found, bucket }, self.instructions));
    }

    /// Another stack references these lines: those that are dirty here are so no more.
    fn pass_on(&mut self, lines: &[u64]) -> Vec<Option<Found>> {
        of_width!(&mut self.core, core => simd::run(PassOn { core, lines }, self.instructions))
    }
}

/// Lines that are fetched ahead.
const AHEAD: usize = 6;

/// A line that others hold.
#[derive(Debug)]
struct Common {
    line: u64,
    /// Which of those that were asked for.
    at: usize,
    /// The least position in the others.
    there: Position,
    /// Whether it was stored, so that the others hold it no more.
    stored: bool,
}

/// What chunks of one thread find in the stacks of the others, which stand still meanwhile.
#[derive(Debug)]
pub struct Visit {
    /// The number of a line in `common`, as long as others hold it.
    known: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    common: Vec<Common>,
    /// Of each other stack, for each line that was asked for, where it is.
    found: Vec<Vec<Option<Found>>>,
}

impl Visit {
    /// Finds these lines, all of which the chunks will reference; others hold no other line of theirs. Those that are dirty
    /// there are passed on, whether they are loaded or stored.
    pub fn new(lines: &[u64], others: &mut [&mut Stack]) -> Self {
        let found: Vec<_> = others.iter_mut().map(|other| other.pass_on(lines)).collect();
        let mut visit = Self { known: HashMap::default(), common: Vec::new(), found };
        visit.known.reserve(lines.len());
        for (at, &line) in lines.iter().enumerate() {
            let positions = visit.found.iter().filter_map(|found| Some(found[at].as_ref()?.position));
            if let Some(there) = positions.reduce(|a, b| a.min(&b)) {
                visit.known.insert(line, visit.common.len() as u32);
                visit.common.push(Common { line, at, there, stored: false });
            }
        }
        visit
    }
}

impl Visited for Visit {
    fn common(&mut self, line: u64, stored: bool) -> Option<u32> {
        let number = *self.known.get(&line)?;
        if stored {
            self.common[number as usize].stored = true;
            self.known.remove(&line);
        }
        Some(number)
    }

    fn there(&self, common: u32) -> &Position {
        &self.common[common as usize].there
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
        self.core.find::<V>(self.line, self.core.lines.find(self.line)?).map(|found| found.position)
    }
}

struct TakeAway<'a, const W: usize> {
    core: &'a mut Core<W>,
    line: u64,
    found: &'a Found,
    bucket: Bucket,
}

impl<const W: usize> Task for TakeAway<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.core.take_away::<V>(self.line, self.found, self.bucket);
    }
}

struct PassOn<'a, const W: usize> {
    core: &'a mut Core<W>,
    lines: &'a [u64],
}

impl<const W: usize> Task for PassOn<'_, W> {
    type Answer = Vec<Option<Found>>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Answer {
        self.core.pass_on::<V>(self.lines)
    }
}

/// A line that is here. That stays right while the stack stands still, and when it loses other lines: each leaves a hole.
#[derive(Debug)]
struct Found {
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
        self.older.oldest_first().for_each(|id| sharing.begin_older(id));
        for entry in self.tiers.oldest_first() {
            sharing.touch(entry);
        }
        sharing.cut();
        self.sharing = Some(sharing);
    }

    fn saw(&self, line: u64) -> bool {
        // It enters the older tier when it leaves the others.
        self.tiers.held.find(line).is_some() || self.lines.find(line).is_some_and(|id| self.lines.get(id).last != 0)
    }

    fn stored(&self, line: u64) -> bool {
        let held =
            self.tiers.held.find(line).is_some_and(|entry| self.tiers.held.since_of(entry).stored != Charge::NONE);
        held || self.lines.find(line).is_some_and(|id| self.state_behind(id).dirty != Charge::NONE)
    }

    #[inline(always)]
    fn pass_on<V: Vector>(&mut self, lines: &[u64]) -> Vec<Option<Found>> {
        let mut ids = Vec::with_capacity(lines.len());
        for &line in lines {
            let id = self.lines.find(line);
            id.into_iter().for_each(|id| self.prefetch::<V>(id));
            ids.push(id);
        }
        let mut found = Vec::with_capacity(lines.len());
        for (at, (&line, &id)) in lines.iter().zip(&ids).enumerate() {
            if let (Some(&line), Some(&Some(id))) = (lines.get(at + AHEAD), ids.get(at + AHEAD)) {
                self.prefetch_depth::<V>(line, id);
            }
            let here = id.and_then(|id| self.find::<V>(line, id));
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
    fn find<V: Vector>(&self, line: u64, id: Id) -> Option<Found> {
        let sharing = self.sharing.as_ref()?;
        let held = self.tiers.held.find(line);
        let last = match (held, sharing.known(id)) {
            (Some(entry), _) => sharing.held(entry),
            (None, Known::At(last)) => last,
            _ => return None,
        };
        let (mut full, mut by_set) = self.depth::<V>(line, held, id);
        if sharing.holes.may_be_above(last) {
            let above = sharing.holes.above(line, last);
            full += above.0;
            V::add(&mut by_set, &above.1);
        }
        Some(Found { held, id, position: Position::new(full, &by_set), last })
    }

    #[inline(always)]
    fn take_away<V: Vector>(&mut self, line: u64, found: &Found, bucket: Bucket) {
        match found.held {
            Some(entry) => {
                match self.tiers.held.slot(entry) {
                    ON_TOP => self.tiers.top.remove(self.tiers.top.place(line)),
                    slot @ ..NEWEST => self.tiers.newest.remove::<V>(&mut self.tiers.newest.stamps::<V>(), slot),
                    slot => self.tiers.recent.remove(slot - NEWEST),
                }
                self.tiers.held.remove(entry);
            }
            None => self.leave_older::<V>(line, found.id),
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.lose(found.id, found.position);
            sharing.holes.insert(line, found.last);
            sharing.count(Event::Received, bucket, &found.position, 1);
        }
    }

    /// A line passes its dirt on.
    #[inline(always)]
    fn clean<V: Vector>(&mut self, found: &Found) {
        let state = self.state::<V>(found.held, found.id);
        let Some((charged, _)) = state.dirty.get() else { return };
        if let Some(entry) = found.held {
            *self.tiers.held.since(entry) = crate::held::Since::now(Charge::NONE);
        }
        if let Some(load) = &mut self.left.load {
            load.behind.states.get_mut(found.id).begin(Charge::NONE);
        }
        let at = Position::new(state.greatest_full, &state.greatest).max(&found.position);
        if let Some(sharing) = &mut self.sharing {
            sharing.count(Event::Dirty, charged, &at, 1);
        }
    }
}

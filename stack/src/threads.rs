//! Stacks of several threads: what the references of one do to the stacks of the others.
//!
//! References come in chunks of one thread, and the order of the chunks is the order of events. While a chunk is taken,
//! the other stacks stand still but for what it does to them, and to take a line away moves no other line. So each
//! line of the chunk is looked up in the other stacks once.

use crate::engine::{Core, Stack, of_width};
use crate::held::ON_TOP;
use crate::item::Charge;
use crate::lines::{Mix, REGION_BITS};
use crate::newest::NEWEST;
use crate::sharing::{Event, Known, Position, Shared, Sharing};
use crate::simd::{self, Task, Vector};
use crate::sink::{Outcome, Sink};
use crate::template::Templates;
use crate::top::Order as _;
use crate::{Bucket, Chunk, Engine as _, Reference};
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
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

    /// Takes a chunk, as [`crate::Engine::feed_chunk`], beside the stacks of other threads. Those lines that others may hold
    /// are the ones for which `elsewhere` says so; all stacks must be shared ones.
    pub fn feed_beside(
        &mut self,
        others: &mut [&mut Self],
        chunk: Chunk<'_>,
        bucket: Bucket,
        elsewhere: impl Fn(u64) -> bool,
    ) {
        let mut beside = Beside::default();
        beside.look(chunk.references, others, elsewhere);
        if beside.common.is_empty() {
            return self.feed_chunk(chunk, bucket);
        }
        let numbers: Vec<u32> = (0..chunk.references.len() as u32).collect();
        self.feed_to(Chunk { sites: &numbers, ..chunk }, bucket, &mut beside);
        let Beside { common, served, found, .. } = beside;
        for Served { common: index, own, times } in served {
            self.count(|counts| counts.remote(bucket, &common[index as usize].there, own.as_ref(), times.into()));
        }
        for (line, found) in common.iter().zip(found.chunks(others.len())).filter(|(line, _)| line.stored) {
            for (other, found) in others.iter_mut().zip(found) {
                if let Some(found) = found {
                    other.take_away(line.line, found, bucket);
                    self.count(|counts| counts.event(Event::Sent, bucket, &found.position));
                }
            }
        }
    }

    fn count(&mut self, count: impl FnMut(&mut dyn Counting)) {
        let sharing: Option<&mut dyn Counting> =
            of_width!(&mut self.core, core => core.sharing.as_deref_mut().map(|sharing| sharing as _));
        sharing.into_iter().for_each(count);
    }

    /// A store elsewhere takes away a line that was found.
    fn take_away(&mut self, line: u64, found: &Found, bucket: Bucket) {
        of_width!(&mut self.core, core => simd::run(TakeAway { core, line, found, bucket }, self.instructions));
    }

    /// Another stack references a line: if it is dirty here, it is so no more.
    fn pass_on(&mut self, line: u64) -> Option<Found> {
        of_width!(&mut self.core, core => simd::run(PassOn { core, line }, self.instructions))
    }
}

/// What a stack counts, whatever its width.
trait Counting {
    fn event(&mut self, event: Event, bucket: Bucket, at: &Position);
    fn remote(&mut self, bucket: Bucket, there: &Position, own: Option<&Position>, weight: u64);
}

impl<const W: usize> Counting for Sharing<W> {
    fn event(&mut self, event: Event, bucket: Bucket, at: &Position) {
        self.count(event, bucket, at, 1);
    }

    fn remote(&mut self, bucket: Bucket, there: &Position, own: Option<&Position>, weight: u64) {
        self.count_remote(bucket, there, own, weight);
    }
}

/// A line of a chunk that others hold.
struct Common {
    line: u64,
    /// The least position in the others.
    there: Position,
    /// Whether the chunk stored it, so that the others hold it no more.
    stored: bool,
}

/// A reference, or several alike, while the others held the line.
struct Served {
    common: u32,
    own: Option<Position>,
    times: u32,
}

/// A chunk on its way.
#[derive(Default)]
struct Beside {
    common: Vec<Common>,
    /// For each of them where it is in each other stack.
    found: Vec<Option<Found>>,
    /// For each reference the number of its line in `common`.
    of: Vec<u32>,
    served: Vec<Served>,
}

/// No number.
const NONE: u32 = u32::MAX;

impl Beside {
    /// Finds the lines that others hold. Those that are dirty there are passed on, whether the chunk loads or stores them.
    fn look(&mut self, references: &[Reference], others: &mut [&mut Stack], elsewhere: impl Fn(u64) -> bool) {
        let mut known = HashMap::<_, _, BuildHasherDefault<Mix>>::default();
        for (index, line) in references.iter().map(|reference| reference.line()).enumerate() {
            if !elsewhere(line) {
                continue;
            }
            let number = match known.entry(line) {
                Slot::Occupied(entry) => *entry.get(),
                Slot::Vacant(entry) => {
                    let before = self.found.len();
                    self.found.extend(others.iter_mut().map(|other| other.pass_on(line)));
                    let positions = self.found[before..].iter().flatten().map(|found| found.position);
                    let number = match positions.reduce(|a, b| a.min(&b)) {
                        Some(there) => {
                            self.common.push(Common { line, there, stored: false });
                            self.common.len() as u32 - 1
                        }
                        None => {
                            self.found.truncate(before);
                            NONE
                        }
                    };
                    *entry.insert(number)
                }
            };
            if number != NONE {
                self.of.resize(references.len(), NONE);
                self.of[index] = number;
            }
        }
    }
}

impl Sink for Beside {
    fn take(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let number = self.of[outcome.site as usize];
            let Some(common) = self.common.get_mut(number as usize).filter(|common| !common.stored) else { continue };
            common.stored = outcome.store;
            let own =
                (!outcome.cold && !outcome.lost).then_some(Position { full: outcome.full, by_set: outcome.by_set });
            self.served.push(Served { common: number, own, times: outcome.times });
        }
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
        self.core.find::<V>(self.line).map(|found| found.position)
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
    line: u64,
}

impl<const W: usize> Task for PassOn<'_, W> {
    type Answer = Option<Found>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Answer {
        let found = self.core.find::<V>(self.line)?;
        self.core.clean::<V>(&found);
        Some(found)
    }
}

/// A line that is here. That stays right while the stack stands still, and when it loses other lines: each leaves a hole.
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
    fn find<V: Vector>(&self, line: u64) -> Option<Found> {
        let sharing = self.sharing.as_ref()?;
        let (id, held) = (self.lines.find(line)?, self.tiers.held.find(line));
        let last = match (held, sharing.known(id)) {
            (Some(entry), _) => sharing.held(entry),
            (None, Known::At(last)) => last,
            _ => return None,
        };
        let (full, mut by_set) = self.depth::<V>(line, held, id);
        let above = sharing.holes.above(line, last);
        V::add(&mut by_set, &above.1);
        Some(Found { held, id, position: Position::new(full + above.0, &by_set), last })
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

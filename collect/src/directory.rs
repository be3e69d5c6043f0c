//! Which lines more than one thread may hold: only these need a look into the stacks of others.
//!
//! Batches are entered one after the other. What can be found out of one by itself is found out before ([`Comings`]), and only a batch
//! with lines that are tracked is looked through once more.

use crate::Batch;
use crate::courses::Course;
use crate::tracker::{Place, Tracker};
use bf_stack::{ByLine, Common, Holders};
use std::ops::Range;

/// Lines that are known to have come before.
const ENTERED: usize = 512;
/// So many lines that follow each other are looked at together.
const MANY: u64 = 8;
/// So often such lines are known to have been loaded before.
const LOADED: usize = 4;
/// What comes so much later is fetched.
const AHEAD: usize = 32;

/// Who may hold a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Users {
    /// Nobody (0), one slot (its number + 1), or several ([`SEVERAL`]).
    slots: u16,
    /// From where it was last stored while it had one user: the place + 1; 0: it was not. [`TRACKED`]: it had more.
    stored: Place,
}

const SEVERAL: u16 = u16::MAX;
const TRACKED: Place = Place::MAX;

impl Users {
    /// Whether one slot is the only user.
    #[inline]
    fn are_only(self, user: u16) -> bool {
        self.slots == user && user != SEVERAL
    }
}

/// Lines that are added, some of them several times, and who may hold them.
#[derive(Debug, Default)]
struct Ranges(Vec<(Range<u64>, Holders)>);

impl Ranges {
    #[inline]
    fn add(&mut self, lines: Range<u64>, holders: Holders) {
        match self.0.last_mut() {
            _ if lines.is_empty() => {}
            Some((last, of)) if *of == holders && last.start <= lines.start && lines.start <= last.end => {
                last.end = last.end.max(lines.end);
            }
            _ => self.0.push((lines, holders)),
        }
    }

    /// Each line once, ascending.
    fn in_order(mut self) -> Vec<(Range<u64>, Holders)> {
        self.0.sort_unstable_by_key(|(range, _)| range.start);
        self.0.dedup_by(|(next, more), (last, of)| {
            let meets = next.start < last.end || next.start == last.end && more == of;
            if meets {
                last.end = last.end.max(next.end);
                of.add(*more);
            }
            meets
        });
        self.0
    }

    /// In order, those of them that are stored told apart.
    fn common(self, stored: Self) -> Vec<Common> {
        let (mut common, mut stored) = (Vec::new(), stored.in_order().into_iter().peekable());
        for (Range { mut start, end }, holders) in self.in_order() {
            let mut put = |lines: Range<u64>, stored: bool| {
                if !lines.is_empty() {
                    common.push(Common { lines, stored, holders });
                }
            };
            while let Some((lines, _)) = stored.peek_mut().filter(|(lines, _)| lines.start < end) {
                put(start..lines.start, false);
                start = lines.end.min(end);
                put(lines.start..start, true);
                lines.start = start;
                if !lines.is_empty() {
                    break;
                }
                stored.next();
            }
            put(start..end, false);
        }
        common
    }
}

/// The lines of a batch that others may hold, and those of them that are stored.
#[derive(Debug, Default)]
struct Lists {
    all: Ranges,
    stored: Ranges,
}

/// Lines of one line size that a batch comes to, in its order, without most of what would change nothing: what can be found out of
/// it before it has its turn.
#[derive(Debug)]
pub(crate) struct Comings {
    all: Vec<Coming>,
    /// By the lowest bits of lines: the last one there, as its number + 1, and the place + 1 of its last store; 0: there was none.
    entered: Box<[(u64, Place)]>,
    /// Many lines at a time that were loaded last.
    loaded: [Range<u64>; LOADED],
}

/// Accesses to lines that follow each other.
#[derive(Clone, Debug)]
struct Coming {
    lines: Range<u64>,
    /// From where they are stored, if they are.
    store: Option<Place>,
}

impl Default for Comings {
    fn default() -> Self {
        Self { all: Vec::new(), entered: vec![(0, 0); ENTERED].into(), loaded: Default::default() }
    }
}

impl Comings {
    /// Those of this batch, with lines of `1 << shift` bytes.
    pub(crate) fn begin(&mut self, batch: &Batch, shift: u32) {
        self.all.clear();
        self.entered.fill((0, 0));
        self.loaded = Default::default();
        for record in batch.records() {
            record.for_each_course(&mut |course: Course| course.for_each_range(shift, |lines| self.add(course, lines)));
        }
    }

    #[inline(always)]
    fn add(&mut self, course: Course, lines: Range<u64>) {
        let store = course.first.store.then_some(course.item.0);
        let (place, mut is_new) = (place(store), lines.end - lines.start >= MANY);
        if !is_new {
            for line in lines.clone() {
                let entered = &mut self.entered[line as usize % ENTERED];
                // To enter it once more would change nothing.
                if entered.0 != line + 1 || place != 0 && entered.1 != place {
                    *entered = (line + 1, place);
                    is_new = true;
                }
            }
        } else if place != 0 {
            // They are not stored last any more from where that is known of.
            let known = lines.clone().take(ENTERED);
            known.for_each(|line| self.entered[line as usize % ENTERED] = (0, 0));
        } else if self.loaded.iter().any(|known| known.start <= lines.start && lines.end <= known.end) {
            // To enter them once more would change nothing.
            is_new = false;
        } else {
            self.loaded.rotate_right(1);
            self.loaded[0] = lines.clone();
        }
        if is_new {
            self.all.push(Coming { lines, store });
        }
    }
}

/// All lines of one line size. Lines are entered in the order in which batches are analysed, as far as that matters.
#[derive(Debug)]
pub(crate) struct Directory {
    users: ByLine<Users>,
    /// Of lines with several users who these are.
    holders: ByLine<Holders>,
}

impl Directory {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        Self { users: ByLine::new(), holders: ByLine::new() }
    }

    /// Lines of which something is known.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> usize {
        self.users.iter().count()
    }

    /// `slot` references a line, from a place if it stores; who may hold it, if others may. Whoever used it alone until now begins to
    /// be tracked, the first time. Who stores it holds it alone.
    #[inline]
    fn enter(&mut self, line: u64, slot: u32, stored: Option<Place>, tracker: &mut Tracker) -> Option<Holders> {
        let mine = user(slot);
        let users = self.users.of(line);
        let before = match users.slots {
            0 => None,
            SEVERAL => Some(*self.holders.of(line)),
            only if only == mine => None,
            only => Some(Holders::only(u32::from(only) - 1)),
        };
        if before.is_some() && (users.stored != TRACKED || stored.is_some()) {
            // A line that was given up is followed again once it is stored.
            let only = (users.slots != SEVERAL).then(|| u32::from(users.slots) - 1);
            let place = if users.stored == TRACKED { 0 } else { users.stored };
            tracker.begin(line, only, place.checked_sub(1));
            users.stored = TRACKED;
        }
        if users.stored != TRACKED {
            users.stored = stored.map_or(users.stored, |place| place.saturating_add(1));
        }
        let others = before.filter(|_| stored.is_none());
        users.slots = if others.is_some() { SEVERAL } else { mine };
        if users.slots == SEVERAL {
            *self.holders.of(line) = others.unwrap_or_default().and(slot);
        }
        before
    }

    /// `slot` makes the accesses of a batch, which comes to these lines, and the tracker is told of them if they are `counted`. The lines
    /// that others may hold, in their order, and who those may be.
    pub(crate) fn enter_batch(
        &mut self,
        (batch, comings): (&Batch, &Comings),
        slot: u32,
        tracker: &mut Tracker,
        counted: bool,
    ) -> (Vec<Common>, Holders) {
        let (mut lists, mut tracked) = (Lists::default(), false);
        for (at, coming) in comings.all.iter().enumerate() {
            if let Some(next) = comings.all.get(at + AHEAD) {
                self.users.prefetch(next.lines.start);
            }
            tracked |= self.come(coming.clone(), slot, tracker, counted, &mut lists);
        }
        let mut replaced = batch.replaced().iter().peekable();
        if tracked || replaced.peek().is_some() {
            for record in batch.records() {
                let allocated = record.allocated();
                while let Some(next) = replaced.next_if(|replaced| Some(replaced.new.address) == allocated) {
                    tracker.replace(next);
                }
                if !tracked {
                    continue;
                }
                record.for_each_course(&mut |course: Course| tracker.access(slot, course));
            }
        }
        let Lists { all, stored } = lists;
        let (common, mut holders) = (all.common(stored), Holders::default());
        common.iter().for_each(|common| holders.add(common.holders));
        (common, holders)
    }

    /// Lines in their order; whether one of them is tracked and accesses to it are `counted`.
    #[inline(always)]
    fn come(
        &mut self,
        Coming { mut lines, store }: Coming,
        slot: u32,
        tracker: &mut Tracker,
        counted: bool,
        Lists { all, stored }: &mut Lists,
    ) -> bool {
        let (mut look, mut tracked) = (lines.start, false);
        loop {
            if lines.start >= look && lines.end - lines.start >= MANY {
                let own = self.own(lines.clone(), slot, place(store));
                let others = lines.start + own..lines.end;
                let shared = |lines| self.shared(lines, slot);
                let (shared, holders) = store.map_or_else(|| shared(others.clone()), |_| (0, Holders::default()));
                all.add(others.start..others.start + shared, holders);
                tracked |= counted && tracker.may_track_some(others.start..others.start + shared);
                lines.start = others.start + shared;
                look = lines.start + if own + shared < MANY { MANY } else { 0 };
            }
            let Some(line) = lines.next() else { return tracked };
            if let Some(holders) = self.enter(line, slot, store, tracker) {
                all.add(line..line + 1, holders);
                store.into_iter().for_each(|_| stored.add(line..line + 1, Holders::default()));
            }
            tracked |= counted && tracker.may_track(line);
        }
    }

    /// How many of these lines, from the first on, `slot` alone ever used and last stored from that place + 1, if it is not 0: to
    /// enter them would change nothing.
    #[inline]
    fn own(&self, lines: Range<u64>, slot: u32, place: Place) -> u64 {
        let mine = user(slot);
        let last = |users: &Users| users.stored != TRACKED && (place == 0 || users.stored == place);
        let own = |users: &&Users| users.are_only(mine) && last(users);
        self.users.slice(lines).iter().take_while(own).count() as u64
    }

    /// How many of these lines, from the first on, several slots used, `slot` among them, that stored none since: to enter them would
    /// change nothing. And who these are.
    #[inline]
    fn shared(&self, lines: Range<u64>, slot: u32) -> (u64, Holders) {
        let (users, holders) = (self.users.slice(lines.clone()), self.holders.slice(lines));
        let first = holders.first().copied().unwrap_or_default();
        let shared = |&(users, holders): &(&Users, &Holders)| {
            (users.slots, users.stored) == (SEVERAL, TRACKED) && *holders == first && first.has(slot)
        };
        (users.iter().zip(holders).take_while(shared).count() as u64, first)
    }

    /// `slot`, the only one there is, referenced a line.
    pub(crate) fn begin(&mut self, line: u64, slot: u32, stored: bool) {
        *self.users.of(line) = Users { slots: user(slot), stored: stored.into() };
    }
}

/// The place + 1 of accesses that store; 0: they do not.
#[inline]
fn place(store: Option<Place>) -> Place {
    store.map_or(0, |place| place.saturating_add(1))
}

/// A slot as the only user.
fn user(slot: u32) -> u16 {
    u16::try_from(slot + 1).unwrap_or(SEVERAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use bf_stack::Item;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn the_last_place_that_stored_a_line_is_known() {
        let (mut directory, mut tracker, mut comings) = (Directory::new(), Tracker::new(6, 0), Comings::default());
        for (place, lines) in [(3, 5..6), (4, 0..32), (3, 5..6), (3, 7..8), (9, 7..9), (3, 7..8)] {
            let access = Access { address: lines.start * 64, size: (lines.end - lines.start) * 64, store: true };
            comings.add(Course::once(access, Item(place)), lines);
        }
        comings.add(Course::once(Access { address: 320, size: 8, store: false }, Item(8)), 5..6);
        directory.enter_batch((&Batch::new(), &comings), 0, &mut tracker, true);
        let places = [4, 5, 6, 7, 8].map(|line| directory.users.get(line).stored - 1);
        assert_eq!(places, [4, 3, 4, 3, 9]);
    }

    #[test]
    fn slots_64_apart_are_not_told_from_each_other() {
        let (mut directory, mut tracker) = (Directory::new(), Tracker::new(6, 0));
        let mut enter = |slot, store| directory.enter(7, slot, store, &mut tracker);
        assert_eq!(enter(0, None), None);
        assert_eq!(enter(64, None), Some(Holders::only(0)));
        assert_eq!(enter(1, None), Some(Holders::only(64)));
        assert_eq!(enter(1, Some(3)), Some(Holders::only(0).and(1)));
        assert_eq!(enter(1, None), None);
    }

    #[test]
    fn a_line_that_was_given_up_is_followed_again_once_it_is_taken() {
        let (mut directory, mut tracker) = (Directory::new(), Tracker::new(6, 8));
        let mut access = |line: u64, slot, store: bool| {
            directory.enter(line, slot, store.then_some(1), &mut tracker);
            tracker.access(slot, Course::once(Access { address: line * 64, size: 8, store }, Item(1)));
        };
        // Both look at all lines, and then store the first of them by turns.
        (0..40).for_each(|line| (0..2).for_each(|slot| access(line, slot, false)));
        (0..20).for_each(|turn| access(0, turn % 2, true));
        let lines = tracker.lines().0.lines;
        let users = lines[0].users.iter().map(|user| [user.loads, user.stores, user.true_misses, user.false_misses]);
        assert_eq!((lines[0].address, users.collect::<Vec<_>>()), (0, vec![[0, 10, 9, 0]; 2]));
    }

    /// Accesses of a batch: lines, and from where they are stored.
    fn accesses() -> impl Strategy<Value = Vec<(Range<u64>, Option<Place>)>> {
        let lines = (0..40_u64, prop_oneof![3 => 1..3_u64, 1 => 8..30_u64]).prop_map(|(first, len)| first..first + len);
        prop::collection::vec((lines, prop::option::weighted(0.2, 1..4_u16)), 1..8)
    }

    proptest! {
        /// The lines of a batch that others hold are those that they referenced since somebody stored them, and who holds them is known.
        #[test]
        fn others_hold_what_they_referenced_since_it_was_stored(
            batches in prop::collection::vec((0..5_u32, accesses()), 1..40), counted: bool,
        ) {
            let (mut directory, mut tracker, mut held) = (Directory::new(), Tracker::new(6, 100), vec![BTreeSet::new(); 80]);
            for (slot, accesses) in batches {
                let (mut comings, mut want) = (Comings::default(), BTreeMap::new());
                for (lines, store) in accesses {
                    let access = Access { address: lines.start * 64, size: (lines.end - lines.start) * 64, store: store.is_some() };
                    comings.add(Course::once(access, Item(store.unwrap_or(0))), lines.clone());
                    for line in lines {
                        let held: &mut BTreeSet<u32> = &mut held[line as usize];
                        let others: Vec<_> = held.iter().copied().filter(|&other| other != slot).collect();
                        if !others.is_empty() {
                            let (_, stored) = want.entry(line).or_insert((others, false));
                            *stored |= store.is_some();
                        }
                        if store.is_some() {
                            held.clear();
                        }
                        held.insert(slot);
                    }
                }
                let (common, all) = directory.enter_batch((&Batch::new(), &comings), slot, &mut tracker, counted);
                let others = |common: &Common| (0..5).filter(|&other| other != slot && common.holders.has(other)).collect();
                let found = common.iter().flat_map(|common| common.lines.clone().map(move |line| (line, (others(common), common.stored))));
                prop_assert_eq!(found.collect::<Vec<(u64, (Vec<u32>, bool))>>(), want.clone().into_iter().collect::<Vec<_>>());
                prop_assert!(want.values().flat_map(|(others, _)| others).all(|&other| all.has(other)));
            }
        }
    }
}

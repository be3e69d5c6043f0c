//! Which lines more than one thread may hold: only these need a look into the stacks of others.
//!
//! Batches are entered one after the other. What can be found out of one by itself is found out before ([`Comings`]), and only a batch
//! with lines that are tracked is looked through once more.

use crate::Batch;
use crate::courses::Course;
use crate::tracker::{Place, Tracker};
use bf_stack::{ByLine, Common};
use std::ops::Range;

/// Lines that are known to have come before.
const ENTERED: usize = 512;
/// Lines of a page, as bits.
const PAGE_BITS: u32 = 6;
/// So many lines that follow each other are looked at together.
const MANY: u64 = 8;
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

/// Slots that may hold lines, by the lowest bits of their numbers: these, and perhaps others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Holders(u64);

impl Holders {
    fn only(slot: u32) -> Self {
        Self(1 << (slot % u64::BITS))
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether it is one of them.
    pub(crate) fn has(self, slot: u32) -> bool {
        self.0 & Self::only(slot).0 != 0
    }
}

/// Lines that are added, some of them several times.
#[derive(Debug, Default)]
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    #[inline]
    fn add(&mut self, lines: Range<u64>) {
        match self.0.last_mut() {
            _ if lines.is_empty() => {}
            Some(last) if last.start <= lines.start && lines.start <= last.end => last.end = last.end.max(lines.end),
            _ => self.0.push(lines),
        }
    }

    /// Each line once, ascending.
    fn in_order(mut self) -> Vec<Range<u64>> {
        self.0.sort_unstable_by_key(|range| range.start);
        self.0.dedup_by(|next, last| {
            let meets = next.start <= last.end;
            last.end = if meets { last.end.max(next.end) } else { last.end };
            meets
        });
        self.0
    }

    /// In order, those of them that are stored told apart.
    fn common(self, stored: Self) -> Vec<Common> {
        let (mut common, mut stored) = (Vec::new(), stored.in_order().into_iter().peekable());
        let mut put = |lines: Range<u64>, stored: bool| {
            if !lines.is_empty() {
                common.push(Common { lines, stored });
            }
        };
        for Range { mut start, end } in self.in_order() {
            while let Some(lines) = stored.next_if(|lines| lines.start < end) {
                put(start..lines.start, false);
                start = lines.end;
                put(lines, true);
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
        Self { all: Vec::new(), entered: vec![(0, 0); ENTERED].into() }
    }
}

impl Comings {
    /// Those of this batch, with lines of `1 << shift` bytes.
    pub(crate) fn begin(&mut self, batch: &Batch, shift: u32) {
        self.all.clear();
        self.entered.fill((0, 0));
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
    /// By page of lines: which slots ever used one of its lines.
    pages: ByLine<Holders>,
}

impl Directory {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        Self { users: ByLine::new(), pages: ByLine::new() }
    }

    /// Lines of which something is known.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> usize {
        self.users.iter().count()
    }

    /// `slot` references a line, from a place if it stores; whether others may hold it. Whoever used it alone until now begins to
    /// be tracked, the first time. Who stores it holds it alone.
    #[inline]
    fn enter(&mut self, line: u64, slot: u32, stored: Option<Place>, tracker: &mut Tracker) -> bool {
        let mine = user(slot);
        let users = self.users.of(line);
        if users.slots == 0 {
            self.pages.of(line >> PAGE_BITS).add(Holders::only(slot));
        }
        let alone = users.slots == 0 || users.are_only(mine);
        if !alone && users.slots != SEVERAL && users.stored != TRACKED {
            tracker.begin(line, u32::from(users.slots) - 1, users.stored.checked_sub(1));
            users.stored = TRACKED;
        }
        if users.stored != TRACKED {
            users.stored = stored.map_or(users.stored, |place| place.saturating_add(1));
        }
        users.slots = if alone || stored.is_some() { mine } else { SEVERAL };
        !alone
    }

    /// `slot` makes the accesses of a batch, which comes to these lines of `1 << shift` bytes, and the tracker is told of them if they
    /// are `counted`. The lines that others may hold, in their order, and who those may be.
    pub(crate) fn enter_batch(
        &mut self,
        (batch, comings): (&Batch, &Comings),
        shift: u32,
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
        if tracked {
            for record in batch.records() {
                record.for_each_course(&mut |course: Course| {
                    course.for_each_range(shift, |lines| {
                        for line in lines {
                            if tracker.may_track(line) {
                                tracker.access_line(line, slot, course);
                            }
                        }
                    });
                });
            }
        }
        let Lists { all, stored } = lists;
        let (common, mut holders) = (all.common(stored), Holders::default());
        for Common { lines, .. } in &common {
            for page in lines.start >> PAGE_BITS..lines.end.div_ceil(1 << PAGE_BITS) {
                let of_page = self.pages.of(page);
                of_page.add(Holders::only(slot));
                holders.add(*of_page);
            }
        }
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
                let shared = if store.is_none() { self.shared(others.clone(), tracker, counted) } else { 0 };
                all.add(others.start..others.start + shared);
                lines.start = others.start + shared;
                look = lines.start + if own + shared < MANY { MANY } else { 0 };
            }
            let Some(line) = lines.next() else { return tracked };
            if self.enter(line, slot, store, tracker) {
                all.add(line..line + 1);
                store.into_iter().for_each(|_| stored.add(line..line + 1));
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

    /// How many of these lines, from the first on, several slots used that stored none since, and nobody counts what they do: to enter
    /// them would change nothing.
    #[inline]
    fn shared(&self, lines: Range<u64>, tracker: &Tracker, counted: bool) -> u64 {
        let all = lines.clone().zip(self.users.slice(lines));
        let shared = |(line, users): &(u64, &Users)| {
            (users.slots, users.stored) == (SEVERAL, TRACKED) && !(counted && tracker.may_track(*line))
        };
        all.take_while(shared).count() as u64
    }

    /// `slot`, the only one there is, referenced a line.
    pub(crate) fn begin(&mut self, line: u64, slot: u32, stored: bool) {
        self.pages.of(line >> PAGE_BITS).add(Holders::only(slot));
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

    #[test]
    fn the_last_place_that_stored_a_line_is_known() {
        let (mut directory, mut tracker, mut comings) = (Directory::new(), Tracker::new(6, 0), Comings::default());
        for (place, lines) in [(3, 5..6), (4, 0..32), (3, 5..6), (3, 7..8), (9, 7..9), (3, 7..8)] {
            let access = Access { address: lines.start * 64, size: (lines.end - lines.start) * 64, store: true };
            comings.add(Course::once(access, Item(place)), lines);
        }
        comings.add(Course::once(Access { address: 320, size: 8, store: false }, Item(8)), 5..6);
        directory.enter_batch((&Batch::new(), &comings), 6, 0, &mut tracker, true);
        let places = [4, 5, 6, 7, 8].map(|line| directory.users.get(line).stored - 1);
        assert_eq!(places, [4, 3, 4, 3, 9]);
    }

    #[test]
    fn who_loads_lines_that_several_hold_may_hold_them_too() {
        let (mut directory, mut tracker) = (Directory::new(), Tracker::new(6, 0));
        let mut enter = |slot, lines: Range<u64>, store| {
            let mut batch = Batch::new();
            batch.access(lines.start * 64, (lines.end - lines.start) * 64, store);
            let mut comings = Comings::default();
            comings.begin(&batch, 6);
            let (common, holders) = directory.enter_batch((&batch, &comings), 6, slot, &mut tracker, true);
            (common.len(), [0, 1, 2, 3, 64].map(|slot| holders.has(slot)))
        };
        assert_eq!(enter(0, 0..32, false), (0, [false; 5]));
        // Slots 64 apart are not told from each other.
        assert_eq!(enter(1, 0..32, false), (1, [true, true, false, false, true]));
        assert_eq!(enter(2, 0..32, false), (1, [true, true, true, false, true]));
        assert_eq!(enter(3, 16..32, true), (1, [true, true, true, true, true]));
        assert_eq!(enter(3, 1000..1032, true), (0, [false; 5]));
    }
}

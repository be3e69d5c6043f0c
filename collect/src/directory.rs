//! Which lines more than one thread may hold: only these need a look into the stacks of others.

use crate::Batch;
use crate::courses::Course;
use crate::tracker::{Place, Tracker};
use bf_stack::{ByLine, Common};
use std::ops::Range;

const ENTERED: usize = 512;
/// Lines of a page, as bits.
const PAGE_BITS: u32 = 6;
/// So many lines that follow each other are looked at together.
const MANY: u64 = 8;
/// Ranges of lines that are fetched before the first of them is entered.
const TOGETHER: usize = 32;

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

/// All lines of one line size. Lines are entered in the order in which batches are analysed, as far as that matters.
#[derive(Debug)]
pub(crate) struct Directory {
    users: ByLine<Users>,
    /// By page of lines: which slots ever used one of its lines.
    pages: ByLine<Holders>,
    /// Of the batch that is being entered, by the lowest bits of lines.
    entered: Box<[Entered]>,
}

/// A line that a batch came to.
#[derive(Clone, Copy, Debug, Default)]
struct Entered {
    /// Its number + 1.
    line: u64,
    /// The place + 1 of the last store there; 0: there was none.
    place: Place,
    tracked: bool,
}

impl Directory {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        Self { users: ByLine::new(), pages: ByLine::new(), entered: vec![Entered::default(); ENTERED].into() }
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

    /// `slot` makes the accesses of a batch to lines of `1 << shift` bytes, which the tracker is told if they are `counted`. The
    /// lines that others may hold, in their order, and who those may be.
    pub(crate) fn enter_batch(
        &mut self,
        batch: &Batch,
        shift: u32,
        slot: u32,
        tracker: &mut Tracker,
        counted: bool,
    ) -> (Vec<Common>, Holders) {
        self.entered.fill(Entered::default());
        let (mut lists, mut waiting) = (Lists::default(), Vec::with_capacity(TOGETHER));
        for record in batch.records() {
            record.for_each_course(&mut |course: Course| {
                course.for_each_range(shift, |lines| {
                    // Looked up ahead, so that nobody waits for one after the other.
                    if self.entered[lines.start as usize % ENTERED].line != lines.start + 1 {
                        self.users.prefetch(lines.start);
                    }
                    waiting.push((course, lines));
                    if waiting.len() == TOGETHER {
                        self.enter_all(&mut waiting, slot, tracker, counted, &mut lists);
                    }
                });
            });
        }
        self.enter_all(&mut waiting, slot, tracker, counted, &mut lists);
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

    /// The lines of courses in their order.
    fn enter_all(
        &mut self,
        waiting: &mut Vec<(Course, Range<u64>)>,
        slot: u32,
        tracker: &mut Tracker,
        counted: bool,
        Lists { all, stored }: &mut Lists,
    ) {
        for (course, mut lines) in waiting.drain(..) {
            let store = course.first.store.then_some(course.item.0);
            let place = store.map_or(0, |place| place.saturating_add(1));
            let mut look = lines.start;
            loop {
                if lines.start >= look && lines.end - lines.start >= MANY {
                    let own = self.own(lines.clone(), slot, place);
                    let others = lines.start + own..lines.end;
                    let shared = if store.is_none() { self.shared(others.clone(), tracker, counted) } else { 0 };
                    all.add(others.start..others.start + shared);
                    lines.start = others.start + shared;
                    look = lines.start + if own + shared < MANY { MANY } else { 0 };
                }
                let Some(line) = lines.next() else { break };
                let at = line as usize % ENTERED;
                let mut entered = self.entered[at];
                // To enter it once more would change nothing.
                if entered.line != line + 1 || place != 0 && entered.place != place {
                    if self.enter(line, slot, store, tracker) {
                        all.add(line..line + 1);
                        store.into_iter().for_each(|_| stored.add(line..line + 1));
                    }
                    entered = Entered { line: line + 1, place, tracked: counted && tracker.may_track(line) };
                    self.entered[at] = entered;
                }
                if entered.tracked {
                    tracker.access_line(line, slot, course);
                }
            }
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

/// A slot as the only user.
fn user(slot: u32) -> u16 {
    u16::try_from(slot + 1).unwrap_or(SEVERAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loads_lines_that_several_hold_may_hold_them_too() {
        let (mut directory, mut tracker) = (Directory::new(), Tracker::new(6, 0));
        let mut enter = |slot, lines: Range<u64>, store| {
            let mut batch = Batch::new();
            batch.access(lines.start * 64, (lines.end - lines.start) * 64, store);
            let (common, holders) = directory.enter_batch(&batch, 6, slot, &mut tracker, true);
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

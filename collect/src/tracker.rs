//! Lines that several threads use, one by one: who uses which bytes of them, and what that costs.
//!
//! A line is followed from the batch on in which a second slot uses it. A cache without bounds is followed for each slot: it
//! loses a line when another slot stores there. A reference that finds its line lost is a miss of true sharing if the
//! slot then uses bytes that others have stored since, before it loses the line again; else of false sharing (Dubois et al.,
//! "The detection and elimination of useless misses in multiprocessors", 1993).
//!
//! Invariant: of each line followed, every access since then is counted. Where there are more lines than may be followed, those
//! with the fewest misses are given up, with what was counted of them.

use crate::courses::Course;
use bf_profile::{LinePlace, LineUser, SharedLine, SharedLines};
use bf_stack::ByLine;
use foldhash::fast::FixedState;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// Where in the program an access comes from: an item; 0: unknown.
pub(crate) type Place = u16;

/// Places that are told apart for each user of a line.
const PLACES: usize = 16;

/// Bits for lines that may be followed.
const MAY_BE: usize = 1 << 16;

/// Lines of one size.
#[derive(Debug)]
pub(crate) struct Tracker {
    shift: u32,
    most: usize,
    lines: Vec<Line>,
    /// By number of a line: 1 + which of them it is; 0: none.
    places: ByLine<u32>,
    /// By the lowest bits of their numbers: others than these are not followed.
    may_be: Box<[u64]>,
    /// Of the last accesses that came to a whole line: which bytes of each such line, and how many do.
    inner: Option<(Course, (u64, u64))>,
    misses: u64,
    dropped_lines: u64,
    dropped_accesses: u64,
}

#[derive(Debug, Default)]
struct Line {
    number: u64,
    users: SmallVec<[User; 2]>,
}

#[derive(Debug, Default)]
struct User {
    slot: u32,
    /// Whether its cache has the line, and whether it ever had.
    holds: bool,
    held: bool,
    stored_before: bool,
    loads: u64,
    stores: u64,
    loaded: u64,
    stored: u64,
    /// Bytes that others stored since it last had the line, or last missed it.
    foreign: u64,
    /// Bytes that others had stored at its last miss, while it has used none of them.
    useless: u64,
    true_misses: u64,
    false_misses: u64,
    /// Loads and stores by place.
    places: SmallVec<[(Place, [u64; 2]); 3]>,
}

/// What a tracker counts of a user of a line: loads, stores, misses of true and of false sharing, and loads and stores by place.
#[derive(Debug, Default)]
struct Counts([u64; 4], Vec<[u64; 2]>);

/// What a tracker counted until some moment, or from one to another: by line and user, in its order.
#[derive(Debug, Default)]
pub(crate) struct Tally(HashMap<u64, Vec<Counts>, FixedState>);

impl Tracker {
    /// What it counted so far.
    pub(crate) fn counted(&self) -> Tally {
        let of = |line: &Line| line.users.iter().map(User::counts).collect();
        Tally(self.lines.iter().map(|line| (line.number, of(line))).collect())
    }

    /// What it counted since it had counted that. Whoever used a line since, wherever in the program, had done so before.
    pub(crate) fn since(&self, before: &Tally) -> Tally {
        let mut all = self.counted();
        for (number, users) in &mut all.0 {
            let users_before = before.0.get(number).into_iter().flatten();
            for (user, before) in users.iter_mut().zip(users_before) {
                user.add(before, 0_u64.wrapping_sub(1));
            }
        }
        all
    }

    /// Counts that once more, so often: as if the same accesses came again that found and left each line as then.
    pub(crate) fn count_again(&mut self, tally: &Tally, times: u64) {
        for (&number, again) in &tally.0 {
            let users = self.line(number).into_iter().flat_map(|line| &mut line.users);
            for (user, again) in users.zip(again) {
                let mut counts = user.counts();
                counts.add(again, times);
                [user.loads, user.stores, user.true_misses, user.false_misses] = counts.0;
                user.places.iter_mut().zip(counts.1).for_each(|(place, counts)| place.1 = counts);
            }
        }
    }

    /// For lines of `1 << shift` bytes, so many at most.
    pub(crate) fn new(shift: u32, most: usize) -> Self {
        let may_be = vec![0; MAY_BE / 64].into_boxed_slice();
        let (lines, places, inner) = (Vec::new(), ByLine::new(), None);
        Self { shift, most, lines, places, may_be, inner, misses: 0, dropped_lines: 0, dropped_accesses: 0 }
    }

    /// A line that is followed.
    fn line(&mut self, number: u64) -> Option<&mut Line> {
        let place = self.places.get(number).checked_sub(1)?;
        self.lines.get_mut(place as usize)
    }

    /// A slot used a line before others did, and perhaps stored it, at a place.
    pub(crate) fn begin(&mut self, line: u64, slot: u32, stored_at: Option<Place>) {
        if self.most == 0 || self.places.get(line) != 0 {
            return;
        }
        if self.lines.len() >= self.most {
            self.make_room();
        }
        let places = stored_at.into_iter().map(|place| (place, [0, 0])).collect();
        let user =
            User { slot, holds: true, held: true, stored_before: stored_at.is_some(), places, ..User::default() };
        self.may_be[line as usize % MAY_BE / 64] |= 1 << (line % 64);
        self.lines.push(Line { number: line, users: smallvec![user] });
        *self.places.of(line) = self.lines.len() as u32;
    }

    /// Gives the lines with the fewest misses up, a quarter of them.
    fn make_room(&mut self) {
        let misses = |line: &Line| line.users.iter().map(|user| user.true_misses + user.false_misses).sum::<u64>();
        let mut all: Vec<_> = self.lines.iter().map(|line| (misses(line), line.number)).collect();
        all.sort_unstable();
        for (_, number) in all.into_iter().take((self.most / 4).max(1)) {
            *self.places.of(number) = 0;
        }
        for line in self.lines.extract_if(.., |line| self.places.get(line.number) == 0) {
            self.dropped_lines += 1;
            self.dropped_accesses += line.users.iter().map(|user| user.loads + user.stores).sum::<u64>();
        }
        self.may_be.fill(0);
        for (place, Line { number, .. }) in (1..).zip(&self.lines) {
            *self.places.of(*number) = place;
            self.may_be[*number as usize % MAY_BE / 64] |= 1 << (number % 64);
        }
    }

    /// References that found a line lost.
    pub(crate) fn misses(&self) -> u64 {
        self.misses
    }

    /// Whether a line may be followed; there are a few more of which that is said.
    #[inline(always)]
    pub(crate) fn may_track(&self, line: u64) -> bool {
        self.may_be[line as usize % MAY_BE / 64] >> (line % 64) & 1 != 0
    }

    /// Accesses of `slot` that come to a line, which counts if it is followed.
    #[inline(never)]
    pub(crate) fn access_line(&mut self, number: u64, slot: u32, course: Course) {
        let Some(place) = self.places.get(number).checked_sub(1) else { return };
        let (bytes, unit) = (number << self.shift..(number + 1) << self.shift, self.shift.saturating_sub(6));
        let (bytes, times) = match self.inner.filter(|(known, _)| *known == course && course.is_beyond(&bytes)) {
            Some((_, on)) => on,
            None => {
                let on = course.on(bytes.clone(), unit);
                self.inner = (course.is_alike(1 << self.shift) && course.is_beyond(&bytes)).then_some((course, on));
                on
            }
        };
        let line = &mut self.lines[place as usize];
        self.misses += u64::from(line.access(slot, course.first.store, bytes, course.item.0, times));
    }

    /// What is known now.
    pub(crate) fn lines(&self) -> SharedLines {
        let mut lines: Vec<_> = self.lines.iter().map(|line| line.profile(line.number << self.shift)).collect();
        lines.sort_unstable_by_key(|line| line.address);
        let &Self { shift, most, dropped_lines, dropped_accesses, .. } = self;
        SharedLines { line_bytes: 1 << shift, most: most as u64, dropped_lines, dropped_accesses, lines }
    }
}

impl Line {
    /// Whether it was lost.
    fn access(&mut self, slot: u32, store: bool, bytes: u64, place: Place, times: u64) -> bool {
        let at = self.users.iter().position(|user| user.slot == slot).unwrap_or_else(|| {
            self.users.push(User { slot, ..User::default() });
            self.users.len() - 1
        });
        let lost = self.users[at].access(store, bytes, place, times);
        if store {
            for other in self.users.iter_mut().filter(|other| other.slot != slot) {
                other.holds = false;
                other.foreign |= bytes;
            }
        }
        lost
    }

    fn profile(&self, address: u64) -> SharedLine {
        let mut users: Vec<_> = self.users.iter().map(User::profile).collect();
        users.sort_unstable_by_key(|user| user.slot);
        SharedLine { address, object: None, users }
    }
}

impl Counts {
    /// A miss may turn out to be one of true sharing later: counts may also become less.
    fn add(&mut self, other: &Self, times: u64) {
        let add = |sum: &mut [u64], other: &[u64]| {
            sum.iter_mut().zip(other).for_each(|(sum, more)| *sum = sum.wrapping_add(more.wrapping_mul(times)));
        };
        add(&mut self.0, &other.0);
        self.1.iter_mut().zip(&other.1).for_each(|(sum, other)| add(sum, other));
    }
}

impl User {
    fn counts(&self) -> Counts {
        let places = self.places.iter().map(|&(_, counts)| counts).collect();
        Counts([self.loads, self.stores, self.true_misses, self.false_misses], places)
    }

    /// Whether it was lost.
    fn access(&mut self, store: bool, bytes: u64, place: Place, times: u64) -> bool {
        let lost = self.held && !self.holds;
        if !self.holds {
            if self.held {
                self.false_misses += 1;
                self.useless = self.foreign;
            }
            (self.holds, self.held, self.foreign) = (true, true, 0);
        }
        if self.useless & bytes != 0 {
            self.useless = 0;
            self.false_misses -= 1;
            self.true_misses += 1;
        }
        let (count, used) =
            if store { (&mut self.stores, &mut self.stored) } else { (&mut self.loads, &mut self.loaded) };
        *count += times;
        *used |= bytes;
        let known = self.places.iter().position(|&(known, _)| known == place);
        let at = known.unwrap_or_else(|| {
            // The last one takes all others.
            if self.places.len() < PLACES {
                self.places.push((if self.places.len() + 1 < PLACES { place } else { 0 }, [0; 2]));
            }
            self.places.len() - 1
        });
        self.places[at].1[usize::from(store)] += times;
        lost
    }

    fn profile(&self) -> LineUser {
        let mut places: Vec<_> = self
            .places
            .iter()
            .map(|&(place, [loads, stores])| LinePlace { item: place.into(), loads, stores })
            .collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.loads + place.stores));
        let &Self { slot, loads, stores, loaded, stored, stored_before, true_misses, false_misses, .. } = self;
        LineUser { slot, loads, stores, loaded, stored, stored_before, true_misses, false_misses, places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use bf_stack::Item;

    fn access(tracker: &mut Tracker, slot: u32, access: Access, place: Place) {
        let course = Course::once(access, Item(place));
        course.for_each_range(tracker.shift, |lines| lines.for_each(|line| tracker.access_line(line, slot, course)));
    }

    fn used(accesses: &[(u32, u64, bool)]) -> SharedLines {
        let mut tracker = Tracker::new(6, 8);
        tracker.begin(1, 0, None);
        for &(slot, address, store) in accesses {
            access(&mut tracker, slot, Access { address: 64 + address, size: 4, store }, (slot + 1) as u16);
        }
        tracker.lines()
    }

    /// Of each user: loads, stores, misses of true and of false sharing.
    fn counts(lines: &SharedLines) -> Vec<[u64; 4]> {
        lines.lines[0].users.iter().map(|u| [u.loads, u.stores, u.true_misses, u.false_misses]).collect()
    }

    #[test]
    fn threads_that_store_side_by_side() {
        let turns: Vec<_> = (0..10).map(|at| (at % 2, 8 * u64::from(at % 2), true)).collect();
        let lines = used(&turns);
        assert_eq!(counts(&lines), [[0, 5, 0, 4], [0, 5, 0, 4]]);
        let [a, b] = lines.lines[0].users.as_slice() else { panic!("two users") };
        assert_eq!((a.stored, b.stored, a.loaded), (0xf, 0xf00, 0));
        assert_eq!(b.places, [LinePlace { item: 2, loads: 0, stores: 5 }]);
    }

    #[test]
    fn a_value_that_is_passed_on() {
        assert_eq!(
            counts(&used(&[(0, 0, true), (1, 0, false), (0, 0, true), (1, 0, false)])),
            [[0, 2, 0, 0], [2, 0, 1, 0]]
        );
    }

    #[test]
    fn bytes_that_matter_only_later() {
        // Slot 1 misses for its own bytes, and then uses the others' after all; the next time it does not.
        let turns = [(1, 8, false), (0, 0, true), (1, 8, false), (1, 0, false), (0, 0, true), (1, 8, false)];
        assert_eq!(counts(&used(&turns))[1], [4, 0, 1, 1]);
    }

    #[test]
    fn what_nobody_stores_is_never_lost() {
        assert_eq!(
            counts(&used(&[(0, 0, false), (1, 0, false), (2, 0, false), (0, 0, false)])),
            [[2, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
        );
    }

    #[test]
    fn an_access_is_cut_to_its_lines() {
        let mut tracker = Tracker::new(8, 8);
        tracker.begin(1, 0, Some(3));
        access(&mut tracker, 0, Access { address: 250, size: 10, store: false }, 1);
        let lines = tracker.lines();
        let [user] = lines.lines[0].users.as_slice() else { panic!("one user") };
        // Four bytes of the line, which has a bit for four bytes.
        assert_eq!((user.loaded, user.stored_before, user.loads), (1, true, 1));
        assert_eq!(user.places.len(), 2);
    }

    #[test]
    fn lines_with_few_misses_make_room() {
        let mut tracker = Tracker::new(6, 4);
        for line in 0..6 {
            tracker.begin(line, 0, None);
            for turn in 0..2 * line {
                access(&mut tracker, (turn % 2) as u32, Access { address: line * 64, size: 8, store: true }, 0);
            }
        }
        let lines = tracker.lines();
        assert_eq!(lines.lines.iter().map(|line| line.address / 64).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!((lines.most, lines.dropped_lines, lines.dropped_accesses), (4, 2, 2));
    }

    #[test]
    fn many_places_are_told_apart_up_to_a_point() {
        let mut tracker = Tracker::new(6, 4);
        tracker.begin(0, 0, None);
        for item in 1..100 {
            access(&mut tracker, 1, Access { address: 0, size: 1, store: false }, item);
        }
        let places = &tracker.lines().lines[0].users[1].places;
        assert_eq!((places.len(), places[0]), (PLACES, LinePlace { item: 0, loads: 84, stores: 0 }));
    }
}

//! Lines that several threads use, one by one: who uses which bytes of them, and what that costs.
//!
//! A line is followed from the batch on in which a second slot uses it. A cache without bounds is followed for each slot: it
//! loses a line when another slot stores there. A reference that finds its line lost is a miss of true sharing if the
//! slot then uses bytes that others have stored since its last miss of true sharing, before it loses the line again; else of false
//! sharing (Dubois et al., "The detection and elimination of useless misses in multiprocessors", 1993).
//!
//! Invariant: of each line followed, every access since then is counted, with the object that lay there then: where a block gets
//! bytes of a line that were used as another one's, counting begins anew. Where there are more lines than may be followed, those with
//! the fewest misses are given up, with what was counted of them. A line that was given up is followed again from when it is stored while
//! others hold it.

use crate::again::{Again, Loads};
use crate::courses::Course;
use crate::objects::{Block, Object, Replaced};
use bf_profile::{LinePlace, LineUser, SharedLine, SharedLines};
use bf_stack::ByLine;
use foldhash::fast::FixedState;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::ops::Range;

/// Where in the program an access comes from: an item; 0: unknown.
pub(crate) type Place = u16;

/// Places that are told apart for each user of a line.
const PLACES: usize = 16;

/// Objects that lay on a line one after the other and are told apart.
const LIVES: usize = 4;
/// Blocks of each of which is known where they were.
const BLOCKS: usize = 8;

/// Lines that follow each other and are many.
const MANY: u64 = 8;

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
    again: Again,
    misses: u64,
    /// Lives of lines, but for the first of each.
    past: usize,
    dropped_lines: u64,
    dropped_accesses: u64,
}

#[derive(Debug, Default)]
struct Line {
    number: u64,
    lives: SmallVec<[Life; 1]>,
    /// The one that it is in.
    now: usize,
}

/// What was counted while an object lay on a line.
#[derive(Debug, Default)]
struct Life {
    users: SmallVec<[User; 2]>,
    /// What was allocated there last; `None`: nothing that took the place of something else.
    object: Option<Object>,
    /// What lay there until it ended.
    blocks: Vec<Block>,
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
    /// Bytes that others had stored by its last miss, since the last miss of true sharing: it has used none of them.
    useless: u64,
    true_misses: u64,
    false_misses: u64,
    /// Loads and stores by place.
    places: SmallVec<[(Place, [u64; 2]); 3]>,
}

/// What a tracker counts of a user of a line: loads, stores, misses of true and of false sharing, and loads and stores by place.
#[derive(Debug, Default)]
struct Counts([u64; 4], Vec<[u64; 2]>);

/// What a tracker knows of a line but for counts: how many lives it had, in which it is, and of each user whether its cache has it, and
/// bytes that others stored.
type State = ([usize; 2], SmallVec<[(bool, [u64; 2]); 2]>);

/// What a tracker counted until some moment, or from one to another: by line, as it was at the end, and user, in its order.
#[derive(Debug, Default)]
pub(crate) struct Tally(HashMap<u64, (State, Vec<Counts>), FixedState>);

impl Tracker {
    /// What it counted so far.
    pub(crate) fn counted(&mut self) -> Tally {
        self.count_waiting(None);
        let of = |line: &Line| (line.state(), line.users().map(User::counts).collect());
        Tally(self.lines.iter().map(|line| (line.number, of(line))).collect())
    }

    /// What it counted since it had counted that, if it left the lines as it found them: then the same accesses count the same
    /// again. Whoever used a line since, wherever in the program, had done so before.
    pub(crate) fn since(&mut self, before: &Tally) -> Option<Tally> {
        let mut all = self.counted();
        for (number, (state, users)) in &mut all.0 {
            let Some((state_before, users_before)) = before.0.get(number) else { continue };
            if state != state_before {
                return None;
            }
            for (user, before) in users.iter_mut().zip(users_before) {
                user.add(before, 0_u64.wrapping_sub(1));
            }
        }
        Some(all)
    }

    /// Counts that once more, so often: as if the same accesses came again that found and left each line as then.
    pub(crate) fn count_again(&mut self, tally: &Tally, times: u64) {
        for (&number, ((lives, _), again)) in &tally.0 {
            let line = self.line(number).filter(|line| line.state().0 == *lives);
            let users = line.into_iter().flat_map(|line| &mut line.lives).flat_map(|life| &mut life.users);
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
        let (lines, places, inner, again) = (Vec::new(), ByLine::new(), None, Again::new());
        let (dropped_lines, dropped_accesses) = (0, 0);
        Self { shift, most, lines, places, may_be, inner, again, misses: 0, past: 0, dropped_lines, dropped_accesses }
    }

    /// A line that is followed.
    fn line(&mut self, number: u64) -> Option<&mut Line> {
        let place = self.places.get(number).checked_sub(1)?;
        self.lines.get_mut(place as usize)
    }

    /// A line is followed from now on, if it is not yet. Before others did only this slot used it, and perhaps stored it, at a place;
    /// `None`: it is not known who did.
    pub(crate) fn begin(&mut self, line: u64, only: Option<u32>, stored_at: Option<Place>) {
        if self.most == 0 || self.places.get(line) != 0 {
            return;
        }
        self.count_waiting(Some(line));
        self.again.change(line);
        if self.lines.len() + self.past >= self.most {
            self.make_room();
        }
        let user = |slot| {
            let places = stored_at.into_iter().map(|place| (place, [0, 0])).collect();
            User { slot, holds: true, held: true, stored_before: stored_at.is_some(), places, ..User::default() }
        };
        self.may_be[line as usize % MAY_BE / 64] |= 1 << (line % 64);
        let life = Life { users: only.into_iter().map(user).collect(), ..Life::default() };
        self.lines.push(Line { number: line, lives: smallvec![life], now: 0 });
        *self.places.of(line) = self.lines.len() as u32;
    }

    /// Gives the lines with the fewest misses up, a quarter of them.
    fn make_room(&mut self) {
        self.count_waiting(None);
        let misses = |line: &Line| line.users().map(User::misses).sum::<u64>();
        let mut all: Vec<_> = self.lines.iter().map(|line| (misses(line), line.number)).collect();
        all.sort_unstable();
        for (_, number) in all.into_iter().take((self.most / 4).max(1)) {
            *self.places.of(number) = 0;
        }
        for line in self.lines.extract_if(.., |line| self.places.get(line.number) == 0) {
            self.dropped_lines += 1;
            self.dropped_accesses += line.users().map(|user| user.loads + user.stores).sum::<u64>();
            self.past -= line.lives.len() - 1;
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

    /// Whether one of these lines may be followed.
    pub(crate) fn may_track_some(&self, lines: Range<u64>) -> bool {
        let mut words = (lines.start / 64..lines.end.div_ceil(64)).take(MAY_BE / 64);
        !lines.is_empty()
            && words.any(|word| {
                let first = lines.start.max(word * 64);
                let len = lines.end.min(word * 64 + 64) - first;
                self.may_be[word as usize % (MAY_BE / 64)] >> (first % 64) & u64::MAX >> (64 - len) != 0
            })
    }

    /// Accesses of `slot`, which count where they come to a line that is followed.
    #[inline]
    pub(crate) fn access(&mut self, slot: u32, course: Course) {
        course.for_each_range(self.shift, |lines| {
            let are_known = !course.first.store && lines.end - lines.start >= MANY;
            if are_known && self.again.come(slot, &course, &lines) {
                return;
            }
            for line in lines.clone() {
                if self.may_track(line) {
                    self.access_line(line, slot, course);
                }
            }
            if are_known && let Some(before) = self.again.know(slot, course, lines) {
                self.count(before);
            }
        });
    }

    /// Those that come to a line.
    #[inline(never)]
    fn access_line(&mut self, number: u64, slot: u32, course: Course) {
        let Some((place, (bytes, times))) = self.on(number, course) else { return };
        let (lost, taken) = self.lines[place].access(slot, course.first.store, bytes, course.item.0, times);
        self.misses += u64::from(lost);
        if taken {
            self.again.change(number);
        }
    }

    /// Where a line is, if it is followed, which bytes of it accesses touch, and how many of them do.
    #[inline(always)]
    fn on(&mut self, number: u64, mut course: Course) -> Option<(usize, (u64, u64))> {
        let place = self.places.get(number).checked_sub(1)?;
        // No number says where the last line of all ends: what is on it is seen one line lower.
        let down = u64::from(number == u64::MAX >> self.shift);
        course.first.address = course.first.address.wrapping_sub(down << self.shift);
        let bytes = (number - down) << self.shift..(number - down + 1) << self.shift;
        let unit = self.shift.saturating_sub(6);
        let on = match self.inner.filter(|(known, _)| *known == course && course.is_beyond(&bytes)) {
            Some((_, on)) => on,
            None => {
                let on = course.on(bytes.clone(), unit);
                self.inner = (course.is_alike(1 << self.shift) && course.is_beyond(&bytes)).then_some((course, on));
                on
            }
        };
        Some((place as usize, on))
    }

    /// Counts loads that came again, all of them or those that came to this line.
    fn count_waiting(&mut self, line: Option<u64>) {
        self.again.take(line).into_iter().for_each(|loads| self.count(loads));
    }

    fn count(&mut self, Loads { slot, course, lines, times: again, .. }: Loads) {
        for number in lines {
            if self.may_track(number)
                && let Some((place, (_, times))) = self.on(number, course)
            {
                let line = &mut self.lines[place];
                line.lives[line.now].user(slot).count(false, course.item.0, times * again);
            }
        }
    }

    /// A block got memory of another one.
    pub(crate) fn replace(&mut self, replaced: &Replaced) {
        let (range, last) = (replaced.range(), (1 << self.shift) - 1);
        let numbers = range.start >> self.shift..=(range.end - 1) >> self.shift;
        let there: Vec<_> = if numbers.end() - numbers.start() < self.lines.len() as u64 {
            let place = |number| self.places.get(number).checked_sub(1);
            numbers.filter_map(place).map(|place| place as usize).collect()
        } else {
            (0..self.lines.len()).filter(|&at| numbers.contains(&self.lines[at].number)).collect()
        };
        if !there.is_empty() {
            self.count_waiting(None);
        }
        for at in there {
            self.again.change(self.lines[at].number);
            let room = self.lines.len() + self.past < self.most;
            let line = &mut self.lines[at];
            let begin = line.number << self.shift;
            let [first, last] = [range.start.max(begin), (range.end - 1).min(begin + last)]
                .map(|at| (at - begin) >> self.shift.saturating_sub(6));
            let bytes = u64::MAX >> (63 - (last - first)) << first;
            let before = line.lives.len();
            line.replace(replaced, bytes, room);
            self.past += line.lives.len() - before;
        }
    }

    /// What is known now, and of each line which blocks lay there, if others have their place since.
    pub(crate) fn lines(&mut self) -> (SharedLines, Vec<Vec<Block>>) {
        self.count_waiting(None);
        let lives = self.lines.iter().flat_map(|line| {
            let used = line.lives.iter().enumerate().filter(|(_, life)| line.lives.len() == 1 || life.is_used());
            used.map(|(at, life)| {
                let blocks = if at == line.now { Vec::new() } else { life.blocks.clone() };
                (life.profile(line.number << self.shift), blocks)
            })
        });
        let mut lives: Vec<_> = lives.collect();
        lives.sort_by_key(|(line, _)| line.address);
        let (lines, blocks) = lives.into_iter().unzip();
        let Self { shift, most, dropped_lines, dropped_accesses, .. } = *self;
        (SharedLines { line_bytes: 1 << shift, most: most as u64, dropped_lines, dropped_accesses, lines }, blocks)
    }
}

impl Line {
    /// Whether it was lost, and whether others lose it now.
    fn access(&mut self, slot: u32, store: bool, bytes: u64, place: Place, times: u64) -> (bool, bool) {
        let life = &mut self.lives[self.now];
        let lost = life.user(slot).access(store, bytes, place, times);
        let mut taken = false;
        if store {
            for other in life.users.iter_mut().filter(|other| other.slot != slot) {
                taken |= std::mem::take(&mut other.holds);
                other.foreign |= bytes;
            }
        }
        (lost, taken)
    }

    fn state(&self) -> State {
        let of = |user: &User| (user.holds, [user.foreign, user.useless]);
        ([self.lives.len(), self.now], self.lives[self.now].users.iter().map(of).collect())
    }

    /// In all its lives.
    fn users(&self) -> impl Iterator<Item = &User> {
        self.lives.iter().flat_map(|life| &life.users)
    }

    /// A block got these bytes of it, of another one. If they were used, another life begins, or one before goes on where there
    /// was the same; a new one if there is `room`.
    fn replace(&mut self, &Replaced { old, new }: &Replaced, bytes: u64, room: bool) {
        let now = &mut self.lives[self.now];
        if now.object == Some(new.object) || now.users.iter().all(|user| (user.loaded | user.stored) & bytes == 0) {
            return;
        }
        now.object.get_or_insert(old.object);
        if now.blocks.len() < BLOCKS && now.blocks.iter().all(|block| block.object != old.object) {
            now.blocks.push(old);
        }
        let next = match self.lives.iter().position(|life| life.object == Some(new.object)) {
            Some(at) => at,
            None if room && self.lives.len() < LIVES => {
                self.lives.push(Life { object: Some(new.object), ..Life::default() });
                self.lives.len() - 1
            }
            None => return,
        };
        for at in 0..self.lives[self.now].users.len() {
            let user = &self.lives[self.now].users[at];
            let (slot, holds, held, foreign) = (user.slot, user.holds, user.held, user.foreign & !bytes);
            let user = self.lives[next].user(slot);
            (user.holds, user.held, user.foreign, user.useless) = (holds, held, foreign, 0);
        }
        self.now = next;
    }
}

impl Life {
    /// The one on a slot.
    fn user(&mut self, slot: u32) -> &mut User {
        let known = self.users.iter().position(|user| user.slot == slot);
        let at = known.unwrap_or_else(|| {
            self.users.push(User { slot, ..User::default() });
            self.users.len() - 1
        });
        &mut self.users[at]
    }

    fn is_used(&self) -> bool {
        self.users.iter().any(User::is_user)
    }

    fn profile(&self, address: u64) -> SharedLine {
        let mut users: Vec<_> = self.users.iter().filter(|user| user.is_user()).map(User::profile).collect();
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
    /// So far, and the one to come where it lost the line.
    fn misses(&self) -> u64 {
        self.true_misses + self.false_misses + u64::from(self.held && !self.holds)
    }

    /// Whether it used the line, or did before it was followed.
    fn is_user(&self) -> bool {
        self.loads + self.stores > 0 || self.stored_before
    }

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
                self.useless |= self.foreign;
            }
            (self.holds, self.held, self.foreign) = (true, true, 0);
        }
        if self.useless & bytes != 0 {
            self.useless = 0;
            self.false_misses -= 1;
            self.true_misses += 1;
        }
        *(if store { &mut self.stored } else { &mut self.loaded }) |= bytes;
        self.count(store, place, times);
        lost
    }

    fn count(&mut self, store: bool, place: Place, times: u64) {
        *(if store { &mut self.stores } else { &mut self.loads }) += times;
        let known = self.places.iter().position(|&(known, _)| known == place);
        let at = known.unwrap_or_else(|| {
            // The last one takes all others.
            if self.places.len() < PLACES {
                self.places.push((if self.places.len() + 1 < PLACES { place } else { 0 }, [0; 2]));
            }
            self.places.len() - 1
        });
        self.places[at].1[usize::from(store)] += times;
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
    use proptest::prelude::*;

    fn access(tracker: &mut Tracker, slot: u32, access: Access, place: Place) {
        tracker.access(slot, Course::once(access, Item(place)));
    }

    fn used(accesses: &[(u32, u64, bool)]) -> SharedLines {
        let mut tracker = Tracker::new(6, 8);
        tracker.begin(1, Some(0), None);
        for &(slot, address, store) in accesses {
            access(&mut tracker, slot, Access { address: 64 + address, size: 4, store }, (slot + 1) as u16);
        }
        tracker.lines().0
    }

    /// Of each user: loads, stores, misses of true and of false sharing.
    fn counts(lines: &SharedLines) -> Vec<[u64; 4]> {
        counts_of(&lines.lines[0])
    }

    fn counts_of(line: &SharedLine) -> Vec<[u64; 4]> {
        line.users.iter().map(|u| [u.loads, u.stores, u.true_misses, u.false_misses]).collect()
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
    fn what_came_with_a_useless_miss_is_not_forgotten_with_the_line() {
        let round = [(0, 0, true), (1, 8, false), (0, 16, true), (1, 0, false)];
        // The first bytes come to slot 1 with every other of its misses, and it uses them after the next; at first it has all.
        assert_eq!(counts(&used(&[round; 10].concat())), [[0, 20, 0, 0], [20, 0, 9, 10]]);
    }

    const OLD: Block = Block { address: 64, bytes: 32, object: Object::Heap(1), live: true, slot: 0, gone: false };
    const NEW: Block = Block { address: 72, bytes: 100, object: Object::Heap(2), ..OLD };

    #[test]
    fn what_lies_on_a_line_one_after_the_other_is_counted_apart() {
        let mut tracker = Tracker::new(6, 8);
        tracker.begin(1, Some(0), Some(3));
        tracker.begin(2, Some(0), None);
        let use_all = |tracker: &mut Tracker, slots: &[u32], store| {
            slots.iter().for_each(|&slot| access(tracker, slot, Access { address: 76, size: 4, store }, 1));
        };
        use_all(&mut tracker, &[1, 0, 1, 0], true);
        tracker.replace(&Replaced { old: OLD, new: NEW });
        use_all(&mut tracker, &[1], true);
        // The same blocks again, and one whose bytes nobody used.
        tracker.replace(&Replaced { old: NEW, new: OLD });
        use_all(&mut tracker, &[0], false);
        tracker.replace(&Replaced { old: OLD, new: Block { address: 80, bytes: 8, ..NEW } });
        let (lines, blocks) = tracker.lines();
        let counted = lines.lines.iter().map(|line| (line.address, counts_of(line))).collect::<Vec<_>>();
        // The miss that a new block begins with brings nothing that was stored in it.
        let (first, second) = (vec![[1, 2, 2, 1], [0, 2, 1, 0]], vec![[0, 1, 0, 1]]);
        assert_eq!(counted, [(64, first), (64, second), (128, vec![])]);
        assert_eq!(blocks, [vec![], vec![NEW], vec![]]);
    }

    #[test]
    fn a_line_has_no_end_of_lives() {
        let mut tracker = Tracker::new(6, 8);
        tracker.begin(1, Some(0), None);
        let block = |site| Block { object: Object::Heap(site), ..OLD };
        for site in 0..20 {
            access(&mut tracker, site % 2, Access { address: 64, size: 8, store: true }, 1);
            tracker.replace(&Replaced { old: block(site), new: block(site + 1) });
        }
        let (lines, blocks) = tracker.lines();
        let stores = |line: &SharedLine| line.users.iter().map(|user| user.stores).sum::<u64>();
        assert_eq!(lines.lines.iter().map(stores).sum::<u64>(), 20);
        assert_eq!((lines.lines.len(), blocks[0].as_slice()), (LIVES, &[block(0)][..]));
        lines.validate().unwrap();
    }

    #[test]
    fn what_counts_again_is_of_the_same_object() {
        let mut tracker = Tracker::new(6, 8);
        tracker.begin(1, Some(0), None);
        let round = |tracker: &mut Tracker| {
            (0..2).for_each(|slot| access(tracker, slot, Access { address: 64, size: 8, store: true }, 1));
        };
        round(&mut tracker);
        let before = tracker.counted();
        round(&mut tracker);
        let once = tracker.since(&before).unwrap();
        tracker.count_again(&once, 3);
        assert_eq!(counts(&tracker.lines().0), [[0, 5, 4, 0], [0, 5, 4, 0]]);
        tracker.replace(&Replaced { old: OLD, new: Block { object: Object::Heap(2), ..OLD } });
        round(&mut tracker);
        tracker.count_again(&once, 3);
        assert!(tracker.since(&before).is_none());
        assert_eq!(tracker.lines().0.lines.iter().map(counts_of).next_back().unwrap(), [[0, 1, 0, 1], [0, 1, 1, 0]]);
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
        tracker.begin(1, Some(0), Some(3));
        access(&mut tracker, 0, Access { address: 250, size: 10, store: false }, 1);
        let lines = tracker.lines().0;
        let [user] = lines.lines[0].users.as_slice() else { panic!("one user") };
        // Four bytes of the line, which has a bit for four bytes.
        assert_eq!((user.loaded, user.stored_before, user.loads), (1, true, 1));
        assert_eq!(user.places.len(), 2);
    }

    #[test]
    fn the_last_line_of_all_is_like_any_other() {
        for size in [1, 4] {
            let line = u64::MAX >> 6;
            let mut tracker = Tracker::new(6, 8);
            tracker.begin(line, Some(0), None);
            for (slot, store) in [(0, true), (1, false), (0, true), (1, false)] {
                access(&mut tracker, slot, Access { address: u64::MAX - size + 1, size, store }, 1);
            }
            let lines = tracker.lines().0;
            assert_eq!(counts(&lines), [[0, 2, 0, 0], [2, 0, 1, 0]]);
            assert_eq!(lines.lines[0].users[0].stored, u64::MAX << (64 - size));
        }
    }

    #[test]
    fn lines_with_few_misses_make_room() {
        let mut tracker = Tracker::new(6, 4);
        for line in 0..6 {
            tracker.begin(line, Some(0), None);
            for turn in 0..2 * line {
                access(&mut tracker, (turn % 2) as u32, Access { address: line * 64, size: 8, store: true }, 0);
            }
        }
        let lines = tracker.lines().0;
        assert_eq!(lines.lines.iter().map(|line| line.address / 64).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!((lines.most, lines.dropped_lines, lines.dropped_accesses), (4, 2, 2));
    }

    #[test]
    fn many_places_are_told_apart_up_to_a_point() {
        let mut tracker = Tracker::new(6, 4);
        tracker.begin(0, Some(0), None);
        for item in 1..100 {
            access(&mut tracker, 1, Access { address: 0, size: 1, store: false }, item);
        }
        let places = &tracker.lines().0.lines[0].users[0].places;
        assert_eq!((places.len(), places[0]), (PLACES, LinePlace { item: 0, loads: 84, stores: 0 }));
    }

    /// What happens to lines: who accesses some, or which get another block.
    #[derive(Clone, Debug)]
    enum Step {
        Access { slot: u32, access: Access, place: Place, often: usize },
        Begin { line: u64, slot: u32 },
        Replace { line: u64, site: u32 },
        Look,
    }

    fn step() -> impl Strategy<Value = Step> {
        let many = prop_oneof![3 => Just((0, 2048)), 1 => (0..32_u64, 1..1024_u64).prop_map(|(line, size)| (line * 64 + 8, size))];
        prop_oneof![
            6 => (0..3_u32, many, 1..3_u16, 1..4_usize).prop_map(|(slot, (address, size), place, often)| {
                Step::Access { slot, access: Access { address, size, store: false }, place, often }
            }),
            2 => (0..3_u32, 0..2040_u64).prop_map(|(slot, address)| {
                Step::Access { slot, access: Access { address, size: 8, store: true }, place: 3, often: 1 }
            }),
            2 => (0..40_u64, 0..3_u32).prop_map(|(line, slot)| Step::Begin { line, slot }),
            1 => (0..32_u64, 0..3_u32).prop_map(|(line, site)| Step::Replace { line, site }),
            1 => Just(Step::Look),
        ]
    }

    proptest! {
        /// Accesses to many lines count as one to each line by itself.
        #[test]
        fn loads_that_come_again_are_all_counted(steps in prop::collection::vec(step(), 1..60), most in 10..60_usize) {
            let mut trackers = [Tracker::new(6, most), Tracker::new(6, most)];
            for step in steps {
                match step {
                    Step::Access { slot, access: all, place, often } => {
                        for _ in 0..often {
                            access(&mut trackers[0], slot, all, place);
                            let (mut from, end) = (all.address, all.address + all.size);
                            while from < end {
                                let size = (from / 64 * 64 + 64).min(end) - from;
                                access(&mut trackers[1], slot, Access { address: from, size, ..all }, place);
                                from += size;
                            }
                        }
                    }
                    Step::Begin { line, slot } => trackers.iter_mut().for_each(|tracker| tracker.begin(line, Some(slot), None)),
                    Step::Replace { line, site } => {
                        let [old, new] = [site, site + 1].map(Object::Heap).map(|object| {
                            Block { address: line * 64, bytes: 100, object, ..OLD }
                        });
                        trackers.iter_mut().for_each(|tracker| tracker.replace(&Replaced { old, new }));
                    }
                    Step::Look => prop_assert_eq!(trackers[0].lines(), trackers[1].lines()),
                }
                prop_assert_eq!(trackers[0].misses(), trackers[1].misses());
            }
            prop_assert_eq!(trackers[0].lines(), trackers[1].lines());
        }
    }
}

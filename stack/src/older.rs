//! The fourth tier: all lines older than the recent ones, unbounded.
//!
//! Invariant: every line here is older than the other tiers. A line leaves when it is referenced; another comes in,
//! on top, when the recent tier needs its slot. Both together are a [`Move`]. Moves are collected for a batch of references:
//! they are carried out at once in the `timeline`, which tells the distance with one set, and later (`behind`), one set count
//! after the other, in `sets`, which is faster than one move after the other: each set count's loop is short and has no
//! surprises.
//!
//! Lines that a loop walked over are in `sheets` instead, which belong to this tier too.

use crate::even::Front;
use crate::lines::{Id, Lines};
use crate::sets::Sets;
use crate::sheets::{self, Pace, Sheets};
use crate::simd::{self, Portable, Vector};
use crate::timeline::Timeline;
use crate::walking::Follow;
use std::ops::Range;

/// When a line entered this tier; 0 is before all of them.
pub(crate) type Time = i32;

/// What one reference does here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<const W: usize> {
    /// Distances of the line that goes up: lines of this tier above it, for 2^1, 2^2, … sets, cut off at 255.
    pub(crate) newer: [u8; W],
    /// Low bits of the line that goes up.
    pub(crate) up: u32,
    /// When it came; 0: no line goes up.
    pub(crate) last: Time,
    /// Whether it is in `sets`.
    pub(crate) is_single: bool,
    /// Low bits of the line that comes down.
    pub(crate) down: u32,
    /// The time now; 0: no line comes down.
    pub(crate) now: Time,
    /// Number of the fetch that this is.
    pub(crate) fetch: u32,
}

impl<const W: usize> Move<W> {
    /// A line goes up that came at `last`, to be asked how many of those that are in `sets` are above it.
    pub(crate) const fn up(line: u32, last: Time, is_single: bool) -> Self {
        Self { newer: [0; W], up: line, last, is_single, down: 0, now: 0, fetch: 0 }
    }

    /// A line comes down.
    const fn down(line: u64, now: Time) -> Self {
        Self { newer: [0; W], up: 0, last: 0, is_single: false, down: line as u32, now, fetch: 0 }
    }
}

/// The tier.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    timeline: Timeline,
    pub(crate) sheets: Sheets,
    now: Time,
    /// So many sheets, at most, and whether they are to be given up.
    pub(crate) most: usize,
    pub(crate) crowded: bool,
    /// How many more of them may be looked at for single lines until they are.
    patience: usize,
    late: Late,
}

/// The lines that came in last, in no sheet.
#[derive(Clone, Debug, Default)]
struct Late {
    /// With their places in the timeline; some may have left since.
    lines: Vec<(u64, Id, u32)>,
    /// All that came in from this place on are there; those from this one on may yet go to sheets.
    since: u32,
    fresh: u32,
}

/// Whether such a line is still at its place.
fn is_here(lines: &Lines, &(_, id, place): &(u64, Id, u32)) -> bool {
    lines.get(id).place == place
}

impl Late {
    #[inline(always)]
    fn push(&mut self, line: u64, id: Id, place: u32) {
        if self.lines.len() == 2 * FRESH {
            self.keep(FRESH);
        }
        self.lines.push((line, id, place));
    }

    /// The last ones only.
    fn keep(&mut self, most: usize) {
        if let Some(gone) = self.lines.len().checked_sub(most + 1) {
            self.since = self.lines[gone].2 + 1;
            self.lines.drain(..=gone);
        }
    }

    /// Those from a place on, unless some are not known.
    fn from(&self, place: u32) -> Option<&[(u64, Id, u32)]> {
        (place >= self.since).then(|| &self.lines[self.lines.partition_point(|line| line.2 < place)..])
    }
}

/// So many for each line, and so many beyond.
const EACH: usize = 16;
const PATIENCE: usize = 1 << 18;

/// So many places of the timeline are looked at together, at least, and in so many parts, as a rule.
const SOME: u32 = 1 << 16;
const PARTS: u32 = 16;

/// So many of those that came in last are known, at least.
const FRESH: usize = 256;
/// So many lines in no sheet are looked at one by one.
const FEW: usize = 32;

/// A line that was taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// When it came.
    pub(crate) last: Time,
    /// Lines above it that are in no sheet.
    pub(crate) singles: u32,
    /// Whether it was in none.
    pub(crate) is_single: bool,
}

/// Lines in no sheet that are above some line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Singles {
    /// So few, of the timeline from this place on, that they are known one by one.
    From(u32),
    /// So many.
    Many(u32),
}

impl Default for Singles {
    fn default() -> Self {
        Self::From(u32::MAX)
    }
}

/// What was found out about a line, which the next one may share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    pub(crate) sheet: usize,
    piece: u32,
    /// Of the timeline, its lines then, and how many came later.
    place: u32,
    len: usize,
    singles: u32,
}

impl Hint {
    /// Lines of the timeline may have changed otherwise than by going.
    pub(crate) fn forget_singles(&mut self) {
        self.len = usize::MAX;
    }
}

impl Older {
    pub(crate) fn new() -> Self {
        let (timeline, sheets, late) = (Timeline::new(), Sheets::new(), Late::default());
        Self { timeline, sheets, now: 0, most: sheets::MOST, crowded: false, patience: PATIENCE, late }
    }

    /// As if the clock had so many more ticks to go.
    pub(crate) fn leave_time(&mut self, left: Time) {
        self.now = Time::MAX - left;
    }

    /// Fetches what [`Older::step`] will need of a line.
    #[inline(always)]
    pub(crate) fn prefetch(&self, lines: &Lines, id: Id) {
        simd::prefetch(self.timeline.block(lines.get(id).place));
    }

    /// What can be done at once of a move; the rest is noted. `up` is referenced; if it is here it leaves and the number of lines
    /// above it with one set is returned; `above` is told how many are in sheets, with 2^1, 2^2, … sets. `down` comes in.
    #[inline(always)]
    pub(crate) fn step<V: Vector, const W: usize>(
        &mut self,
        lines: &mut Lines,
        moves: &mut Vec<Move<W>>,
        up: (u64, Id),
        down: Option<(u64, Id)>,
        fetch: u32,
        above: impl FnOnce([u32; W]),
    ) -> Option<usize> {
        let mut step = Move { newer: [0; W], up: up.0 as u32, last: 0, is_single: false, down: 0, now: 0, fetch };
        let mut full = None;
        if let Some(taken) = self.take::<V>(lines, up, &mut Hint::default()) {
            let mut sum = taken.singles;
            if !self.sheets.is_empty() {
                let mut by_set = [0; W];
                sum += self.sheets.newer(up.0, taken.last, &mut by_set, &mut []);
                above(by_set);
                self.look(1);
            }
            full = Some(sum as usize);
            step.is_single = taken.is_single;
            step.last = if taken.is_single || taken.singles > 0 { taken.last } else { 0 };
        }
        if let Some((down, id)) = down {
            (step.down, step.now) = (down as u32, self.enter(lines, (down, id)));
        }
        moves.push(step);
        full
    }

    /// Sheets are looked at for single lines, of which so many come. If there are many each time, and loops walk over few, they do
    /// not pay.
    #[inline(always)]
    pub(crate) fn look(&mut self, lines: usize) {
        self.gain(lines);
        self.patience = self.patience.saturating_sub(self.sheets.len() * lines);
        self.crowded |= self.patience == 0 && !self.sheets.is_empty();
    }

    /// So many lines come, or a loop walks over them.
    #[inline(always)]
    pub(crate) fn gain(&mut self, lines: usize) {
        self.patience = self.patience.saturating_add(EACH.saturating_mul(lines)).min(PATIENCE);
    }

    /// A line leaves, if it is here.
    #[inline(always)]
    pub(crate) fn take<V: Vector>(
        &mut self,
        lines: &mut Lines,
        (line, id): (u64, Id),
        hint: &mut Hint,
    ) -> Option<Taken> {
        let state = lines.get_mut(id);
        let place = std::mem::take(&mut state.place);
        if place != 0 {
            let singles = self.timeline.newer::<V>(place) as u32;
            self.timeline.leave(place);
            return Some(Taken { last: state.last, singles, is_single: true });
        }
        if self.sheets.is_empty() {
            return None;
        }
        let sheet = self.sheets.find_near(line, &mut hint.sheet)?;
        let (last, place) = self.sheets.time(sheet, line, &mut hint.piece);
        self.count_singles::<V>(place, hint);
        self.sheets.remove(sheet, line);
        Some(Taken { last, singles: hint.singles, is_single: false })
    }

    /// Lines of the timeline that came after the first line of a sheet.
    pub(crate) fn singles(&self, sheet: usize) -> Singles {
        let (_, place) = self.sheets.time(sheet, self.sheets.extents()[sheet].first, &mut 0);
        self.singles_from(place, self.timeline.from::<Portable>(place) as u32)
    }

    /// So many lines of the timeline, from a place on.
    fn singles_from(&self, place: u32, count: u32) -> Singles {
        match count as usize {
            0 => Singles::default(),
            ..=FEW if place >= self.late.since => Singles::From(place),
            _ => Singles::Many(count),
        }
    }

    /// Those of them that are known one by one.
    pub(crate) fn each(&self, lines: &Lines, singles: Singles) -> impl Iterator<Item = u64> {
        let late = match singles {
            Singles::From(place) => self.late.from(place),
            Singles::Many(_) => None,
        };
        late.unwrap_or_default().iter().filter(|line| is_here(lines, line)).map(|&(line, ..)| line)
    }

    /// A line comes in, in no sheet; when.
    #[inline(always)]
    fn enter(&mut self, lines: &mut Lines, (number, id): (u64, Id)) -> Time {
        if self.timeline.is_full() {
            self.make_room(lines);
        }
        self.now += 1;
        let line = lines.get_mut(id);
        line.last = self.now;
        line.place = self.timeline.enter();
        self.late.push(number, id, line.place);
        self.now
    }

    /// Lines that came in since the last time, in no sheet, go to sheets if all of them are neighbours of others, of those that
    /// are `held` or of the ends of sheets. The rest is noted.
    pub(crate) fn gather<const W: usize>(
        &mut self,
        lines: &mut Lines,
        moves: &mut Vec<Move<W>>,
        held: impl Fn(u64) -> bool,
    ) {
        let Some(mut fresh) = self.late.from(self.late.fresh).map(<[_]>::to_vec) else { return };
        fresh.retain(|line| is_here(lines, line));
        let mut order: Vec<_> = fresh.iter().map(|&(line, ..)| line).zip(0..).collect();
        order.sort_unstable();
        let when = |line: u64| {
            let at = order.partition_point(|&(other, _)| other < line);
            order.get(at).filter(|(other, _)| *other == line).map(|&(_, when)| when)
        };
        let follows = |&(line, now): &(u64, u32)| {
            when(line.wrapping_sub(1)).is_some_and(|before| before < now) || self.sheets.has_end(line)
        };
        let goes_on = |&(line, now): &(u64, u32)| when(line + 1).map_or_else(|| held(line + 1), |next| next > now);
        let begins = order.iter().filter(|&line| !follows(line)).count();
        let neighbours = order.iter().all(|line| follows(line) || goes_on(line));
        if neighbours && self.sheets.len() + begins <= self.most / 2 {
            for &(line, id, place) in &fresh {
                let state = lines.get_mut(id);
                state.place = 0;
                self.timeline.leave(place);
                moves.push(Move::up(line as u32, state.last, true));
                self.sheets.add(line..line + 1, state.last, Pace::even(1), self.timeline.next());
            }
        }
    }

    /// Lines that came in until now, in no sheet, stay there.
    pub(crate) fn forget_fresh(&mut self, lines: &Lines) {
        let Self { late, timeline, .. } = self;
        if late.fresh < timeline.next() {
            late.fresh = timeline.next();
            late.keep(FRESH);
            late.lines.retain(|line| is_here(lines, line));
            late.keep(FEW);
        }
    }

    /// The same; the rest is noted.
    pub(crate) fn lower<const W: usize>(&mut self, lines: &mut Lines, moves: &mut Vec<Move<W>>, (line, id): (u64, Id)) {
        moves.push(Move::down(line, self.enter(lines, (line, id))));
    }

    /// The time at which lines come next, and the place that those in sheets note.
    pub(crate) fn next(&self) -> (Time, u32) {
        (self.now + 1, self.timeline.next())
    }

    /// So much time went by.
    pub(crate) fn pass(&mut self, ticks: usize) {
        self.now += ticks as Time;
    }

    /// When a line that is here came, and how many lines are above it, those that are in no sheet and those that are; the latter are
    /// added by set.
    #[inline(always)]
    pub(crate) fn depth<V: Vector, const W: usize>(
        &self,
        lines: &Lines,
        (line, id): (u64, Id),
        sums: &mut [u32; W],
        follow: &mut Follow,
    ) -> (Time, u32, u32) {
        let (state, hint) = (lines.get(id), &mut follow.hint);
        let (last, singles) = match self.sheets.find_near(line, &mut hint.sheet).filter(|_| state.place == 0) {
            Some(sheet) => {
                let (last, place) = self.sheets.time(sheet, line, &mut hint.piece);
                self.count_singles::<V>(place, hint);
                (last, hint.singles)
            }
            None => (state.last, self.timeline.newer::<V>(state.place) as u32),
        };
        (last, singles, self.sheets.newer(line, last, sums, &mut follow.cuts))
    }

    /// How many lines of a sheet came at a time where that one did, and for how many lines it goes on like that.
    pub(crate) fn pace(&self, sheet: usize, line: u64, hint: &mut Hint) -> (u64, u64) {
        self.sheets.time(sheet, line, &mut hint.piece);
        self.sheets.pace(sheet, line, hint.piece as usize)
    }

    /// The front that begins with a line of a sheet, where so many lines come at a time.
    pub(crate) fn front(&self, sheet: usize, line: u64, by: u64, hint: &mut Hint) -> Front {
        let (last, place) = self.sheets.time(sheet, line, &mut hint.piece);
        self.count_singles::<Portable>(place, hint);
        let step = self.sheets.step(sheet, by, hint.piece as usize);
        Front { line, last, step, sheet, singles: self.singles_from(place, hint.singles) }
    }

    /// How many lines of the timeline came later than those of a place there.
    #[inline(always)]
    fn count_singles<V: Vector>(&self, place: u32, hint: &mut Hint) {
        if (hint.place, hint.len) != (place, self.timeline.len()) {
            *hint = Hint { place, len: self.timeline.len(), singles: self.timeline.from::<V>(place) as u32, ..*hint };
        }
    }

    /// Lines from the oldest to the newest.
    pub(crate) fn oldest_first(&self, lines: &Lines) -> Vec<Id> {
        let mut walked = self.sheets.oldest_first().into_iter().peekable();
        let (ranks, mut singles, mut all) = (self.timeline.ranks(), vec![0; self.timeline.len()], Vec::new());
        for (id, line) in (0..).zip(lines.states()).filter(|(_, line)| line.place != 0) {
            singles[ranks.of(line.place) as usize] = id;
        }
        for id in singles {
            let last = lines.get(id).last;
            while let Some((_, line)) = walked.next_if(|&(time, _)| time < last) {
                all.extend(lines.find(line));
            }
            all.push(id);
        }
        all.extend(walked.filter_map(|(_, line)| lines.find(line)));
        all
    }

    /// Places of the timeline, some at a time, the newest ones first.
    pub(crate) fn newest_places(&self) -> impl Iterator<Item = Range<u32>> {
        let end = self.timeline.next();
        let some = SOME.max(end / PARTS);
        (0..end / some + 1).rev().map(move |number| 1 + number * some..end.min(1 + (number + 1) * some))
    }

    /// By such a place, 1 + the id of the line that is there.
    pub(crate) fn ids_of(&self, lines: &Lines, places: Range<u32>, all: &mut Vec<Id>) {
        all.clear();
        // Without a branch: lines of other places go behind the last one.
        let last = places.len();
        all.resize(last + 1, 0);
        for (number, line) in (1..).zip(lines.states()) {
            all[last.min(line.place.wrapping_sub(places.start) as usize)] = number;
        }
        all.truncate(last);
    }

    /// Whether `more` moves could run out of time, or there are too many sheets: the clock has to begin again.
    #[inline(always)]
    pub(crate) fn late(&self, more: usize) -> bool {
        (Time::MAX - self.now) as usize <= more || self.crowded || self.sheets.len() > 2 * self.most
    }

    /// Gives every line a new time, 1 for the oldest: once in 2^31 moves, or where there are to be no sheets any more.
    #[cold]
    pub(crate) fn restart_clock<V: Vector, const W: usize>(&mut self, lines: &mut Lines, sets: &mut Sets) {
        const FEW: usize = 4096;
        sets.clear();
        let mut numbers = vec![0; lines.len()];
        lines.all().for_each(|(line, id)| numbers[id as usize] = line);
        let all = self.oldest_first(lines);
        *self = Self { most: self.most, ..Self::new() };
        let mut moves = Vec::new();
        for some in all.chunks(FEW) {
            let enter = |&id: &Id| {
                let line = numbers[id as usize];
                Move::<W>::down(line, self.enter(lines, (line, id)))
            };
            moves.extend(some.iter().map(enter));
            sets.apply::<V, W>(&mut moves);
            moves.clear();
        }
    }

    #[cold]
    fn make_room(&mut self, lines: &mut Lines) {
        self.late.lines.retain(|line| is_here(lines, line));
        let ranks = self.timeline.ranks();
        let moved = |place: u32| 1 + ranks.of(place);
        self.sheets.replace(moved);
        lines.states_mut().filter(|line| line.place != 0).for_each(|line| line.place = moved(line.place));
        let Late { lines: late, since, fresh } = &mut self.late;
        late.iter_mut().map(|(.., place)| place).chain([since, fresh]).for_each(|place| *place = moved(*place));
        self.timeline.make_room(lines.len());
    }
}

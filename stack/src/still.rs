//! Lines that another thread asks for, many at a time.
//!
//! Nothing of a stack moves while it is asked. So what is above lines of a sheet that follow each other is, as where a loop walks
//! over them, a few ranges of lines, whose ends stay where they are or move on with the line; and, of the upper tiers and of what
//! was taken away, lines by themselves.

use crate::engine::Core;
use crate::even::{Above, EVEN};
use crate::item::Charge;
use crate::older::Singles;
use crate::sharing::{Known, Position};
use crate::sheets::MOST_LINES;
use crate::simd::Vector;
use crate::visit::{Place, There};
use crate::walking::Follow;
use std::ops::Range;

/// Lines that come at a time, at most.
const MANY: u64 = MOST_LINES as u64;

/// What is known of lines that are looked at one after the other.
pub(crate) struct Still<const W: usize> {
    pub(crate) follow: Follow,
    /// Of lines that are to be told together: what is above the first of them, each of which the line goes on from that comes so many
    /// later; the low bits of line numbers that sets have in common where there may be fewer of them than are counted; and lines
    /// that may have holes above them where that matters.
    above: Vec<Above<W>>,
    uncertain: u32,
    alone: Vec<u64>,
}

impl<const W: usize> Still<W> {
    pub(crate) fn new(follow: Follow) -> Self {
        Self { follow, above: Vec::new(), uncertain: 0, alone: Vec::new() }
    }
}

impl<const W: usize> Core<W> {
    /// Looks for what is above the first of these lines, and above how many of those that follow it goes evenly; 0 if not of so many
    /// that it pays.
    #[inline(always)]
    pub(crate) fn stand<V: Vector>(&mut self, lines: &Range<u64>, still: &mut Still<W>) -> u64 {
        let Self { older, tiers, sharing: Some(sharing), lines: known, limits, .. } = self else { return 0 };
        let Still { follow, above, uncertain, alone } = still;
        let line = lines.start;
        let Some(sheet) = older.sheets.find_near(line, &mut follow.hint.sheet) else { return 0 };
        let (by, len) = older.pace(sheet, line, &mut follow.hint);
        let ids = known.ids(line..lines.end.min(line + len));
        // Where other lines come more at a time it goes evenly from one of those times to the next.
        let steps = [Some(by), (by < MANY && MANY.is_multiple_of(by)).then_some(MANY)];
        let len = steps.into_iter().flatten().find_map(|by| {
            let mut periods = ids.len() as u64 / by;
            above.resize_with(by as usize, Above::new);
            while periods >= EVEN {
                let is_even = |(number, above): (u64, &mut Above<W>)| {
                    let from = older.front(sheet, line + number, by, &mut follow.hint);
                    matches!(from.singles, Singles::From(_))
                        && above.begin((older, known), from, (periods, by), |_| (0, 0), &mut follow.cuts).is_some()
                };
                if (0..).zip(&mut *above).all(is_even) {
                    return Some(periods * by);
                }
                periods /= 2;
            }
            None
        });
        let Some(len) = len else { return 0 };
        *uncertain = u32::MAX;
        for (above, line) in above.iter_mut().zip(line..) {
            for entry in tiers.oldest_first() {
                let held = tiers.held.line(entry);
                above.add(line, held..held + 1, false, false);
            }
            *uncertain = above.uncertain::<V>(len / by, by, limits.max_ways).min(*uncertain);
        }
        alone.clear();
        let last = |number: u64| sharing.known(ids[number as usize] - 1);
        let (Known::At(oldest), Known::At(newest)) = (last(0), last(len - 1)) else { return 0 };
        if sharing.holes.may_be_above(oldest) {
            let all = sharing.holes.above_all(oldest);
            if all != sharing.holes.above_all(newest) {
                return 0;
            }
            above.iter_mut().for_each(|above| above.raise(all));
            sharing.holes.look(oldest);
            let (Some(few), lines) = (sharing.holes.few(), line..line + len) else { return 0 };
            let sets = few.iter().filter(|few| few.bits >= *uncertain);
            alone.extend(sets.flat_map(|few| few.lines(&lines, oldest)));
            alone.sort_unstable();
            alone.dedup();
        }
        len
    }

    /// Tells where lines are of which [`Core::stand`] said that it goes evenly; they are clean from now on.
    #[inline(always)]
    pub(crate) fn pass_on_evenly<V: Vector>(&mut self, lines: Range<u64>, there: &mut There, still: &mut Still<W>) {
        let Still { follow, above, uncertain, alone } = still;
        let by = above.len() as u64;
        let mut alone = alone.iter().copied().peekable();
        let mut line = lines.start;
        while line < lines.end {
            if alone.next_if_eq(&line).is_some() {
                self.pass_on_single::<V>(line, self.lines.find(line), there, follow);
                line += 1;
                continue;
            }
            let mut end = alone.peek().copied().unwrap_or(lines.end);
            let mut places = [None; MANY as usize];
            let firsts = line..end.min(line + by);
            for (place, line) in places.iter_mut().zip(firsts.clone()) {
                let behind = line - lines.start;
                let (above, number) = (&above[(behind % by) as usize], (behind / by * by) as u32);
                end = end.min(line + by * above.alike(number, by as u32, *uncertain));
                let (full, by_set, more) = above.of::<V>(number);
                let deeper = more.wrapping_mul(by as u32);
                *place = Some(Place { position: Position::new(full, &by_set), deeper });
            }
            let places = &places[..(firsts.end - line) as usize];
            there.push((end - line) as u32, places);
            self.clean_all::<V>(line..end, places);
            line = end;
        }
    }

    /// Lines of sheets at such places pass their dirt on.
    #[inline(always)]
    fn clean_all<V: Vector>(&mut self, lines: Range<u64>, places: &[Option<Place>]) {
        let Some(load) = &self.left.load else { return };
        let ids = self.lines.ids(lines);
        let is_dirty = |&(_, id): &(usize, u32)| load.behind.states.get(id).dirty != Charge::NONE;
        let dirty: Vec<_> = ids.iter().map(|id| id - 1).enumerate().filter(is_dirty).collect();
        for (number, id) in dirty {
            if let Some(place) = places[number % places.len()] {
                let position = place.later((number / places.len()) as u32).position;
                self.clean::<V>(None, id, &position);
            }
        }
    }
}

//! Lines that another thread asks for, many at a time.
//!
//! Nothing of a stack moves while it is asked. So what is above lines of a sheet that follow each other is, as where a loop walks
//! over them, a few ranges of lines, whose ends stay where they are or move on with the line; and, of the upper tiers and of what
//! was taken away, a few lines by themselves.

use crate::engine::Core;
use crate::even::{Above, EVEN};
use crate::item::Charge;
use crate::sharing::{Known, Position};
use crate::simd::Vector;
use crate::threads::Here;
use crate::visit::There;
use crate::walking::Follow;
use std::ops::Range;

/// Lines of the upper tiers, at most: each is a range.
const FEW: usize = 16;

/// What is known of lines that are looked at one after the other.
pub(crate) struct Still<const W: usize> {
    pub(crate) follow: Follow,
    /// Of lines that are to be told together: what is above them, the low bits of line numbers that sets have in common where
    /// there may be fewer of them than are counted, and those that may have holes above them where that matters.
    above: Above<W>,
    uncertain: u32,
    alone: Vec<u64>,
}

impl<const W: usize> Still<W> {
    pub(crate) fn new(follow: Follow) -> Self {
        Self { follow, above: Above::new(), uncertain: 0, alone: Vec::new() }
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
        let (from, even) = older.front(sheet, line, &mut follow.hint);
        let ids = known.ids(line..lines.end.min(line + even));
        if from.singles > 0 || tiers.held.count() > FEW {
            return 0;
        }
        let mut len = ids.len() as u64;
        while len >= EVEN && above.begin(&older.sheets, from, (len, 1), |_| (0, 0), &mut follow.cuts).is_none() {
            len /= 2;
        }
        if len < EVEN {
            return 0;
        }
        for entry in tiers.oldest_first() {
            let held = tiers.held.line(entry);
            above.add(line, held..held + 1, false, false);
        }
        *uncertain = above.uncertain::<V>(len, 1, limits.max_ways);
        alone.clear();
        let last = |number: u64| sharing.known(ids[number as usize] - 1);
        let (Known::At(oldest), Known::At(newest)) = (last(0), last(len - 1)) else { return 0 };
        if sharing.holes.may_be_above(oldest) {
            let all = sharing.holes.above_all(oldest);
            if all != sharing.holes.above_all(newest) {
                return 0;
            }
            above.raise(all);
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
        let mut alone = alone.iter().copied().peekable();
        let mut line = lines.start;
        while line < lines.end {
            let number = (line - lines.start) as u32;
            if alone.next_if_eq(&line).is_some() {
                let here = self.lines.find(line).and_then(|id| self.find::<V>(line, id, follow));
                there.push(1, here.as_ref().map(|here| here.position), 0);
                here.iter().for_each(|here| self.clean::<V>(here));
                line += 1;
                continue;
            }
            let end = alone.peek().copied().unwrap_or(lines.end).min(line + above.alike(number, 1, *uncertain));
            let (full, by_set, deeper) = above.of::<V>(number);
            let position = Position::new(full, &by_set);
            there.push((end - line) as u32, Some(position), deeper);
            self.clean_all::<V>(line..end, position, deeper);
            line = end;
        }
    }

    /// Lines of sheets at such positions pass their dirt on.
    #[inline(always)]
    fn clean_all<V: Vector>(&mut self, lines: Range<u64>, position: Position, deeper: u32) {
        let Some(load) = &self.left.load else { return };
        let ids = self.lines.ids(lines);
        let is_dirty = |&(_, id): &(u32, u32)| load.behind.states.get(id).dirty != Charge::NONE;
        let dirty: Vec<_> = (0..).zip(ids.iter().map(|id| id - 1)).filter(is_dirty).collect();
        for (number, id) in dirty {
            let full = position.full.wrapping_add(number.wrapping_mul(deeper));
            self.clean::<V>(&Here { held: None, id, position: Position { full, ..position }, last: 0 });
        }
    }
}

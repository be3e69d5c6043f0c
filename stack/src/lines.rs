//! Numbers of lines: one becomes a dense id once, everything else is indexing, here and in `behind`.
//!
//! A line gets the next free id when it is first seen, so the ids of lines that are first walked over are neighbours too, and
//! their state is walked with them.

use crate::ByLine;
use crate::boxed;
use crate::older::Time;
use std::ops::Range;

/// Lines of neighbouring ids whose state is kept together, as bits.
pub(crate) const REGION_BITS: u32 = 10;
pub(crate) const REGION: usize = 1 << REGION_BITS;

/// A line's number among all lines seen.
pub(crate) type Id = u32;

/// Ids that are as far from each other, modulo 2^32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) first: Id,
    pub(crate) step: Id,
    pub(crate) count: u32,
}

/// So many of them, in a region: where, each `step` behind the one before.
pub(crate) struct Part {
    pub(crate) region: usize,
    pub(crate) places: Range<usize>,
    pub(crate) step: usize,
    pub(crate) lines: u32,
}

impl Ids {
    /// Of lines that have these, each `by` of them 1 + an id: the first one and those that go on like the next one.
    #[inline(always)]
    pub(crate) fn even(ids: &[Id], by: usize) -> Self {
        /// So many are looked at together.
        const SOME: usize = 16;
        let first = ids[0];
        let step = ids.get(by).map_or(0, |next| next.wrapping_sub(first));
        let is_next = |(&id, number): (&Id, u32)| id == first.wrapping_add(step.wrapping_mul(number));
        let mut count = 0;
        if by == 1 && ids.len() >= 2 * SOME {
            for some in ids.as_chunks::<SOME>().0 {
                if !some.iter().zip(count..).fold(true, |all, next| all & is_next(next)) {
                    break;
                }
                count += SOME as u32;
            }
        }
        let rest = ids[count as usize * by..].iter().step_by(by);
        count += rest.zip(count..).take_while(|&next| is_next(next)).count() as u32;
        Self { first: first - 1, step, count }
    }

    /// The one of that number.
    #[inline(always)]
    pub(crate) fn number(self, number: u32) -> Id {
        self.first.wrapping_add(self.step.wrapping_mul(number))
    }

    /// Without the first ones.
    #[inline(always)]
    pub(crate) fn beyond(self, count: u32) -> Self {
        Self { first: self.number(count), count: self.count - count, ..self }
    }

    /// Takes the first ones, as far as they are in one region and go up.
    #[inline(always)]
    pub(crate) fn next_part(&mut self) -> Option<Part> {
        let (region, from) = ((self.first >> REGION_BITS) as usize, self.first % REGION as Id);
        let left = REGION as Id - from;
        let lines = match self.step {
            1 => left,
            step if (2..REGION as Id).contains(&step) => left.div_ceil(step),
            _ => 1,
        };
        let lines = lines.min(self.count);
        let last = from + self.step.wrapping_mul(lines.checked_sub(1)?);
        *self = self.beyond(lines);
        Some(Part { region, places: from as usize..last as usize + 1, step: (self.step as usize).max(1), lines })
    }
}

/// Where a line is in the older tier. All zero: never there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// When it last entered it; 0: never.
    pub(crate) last: Time,
    /// Place in its timeline; 0: not there.
    pub(crate) place: u32,
}

/// All lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// 1 + the id; 0: none.
    ids: ByLine<Id>,
    /// Lines with an id.
    len: u32,
    /// By id.
    state: Vec<Box<[Line; REGION]>>,
    /// Lines there may be.
    most: u32,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self { ids: ByLine::new(), len: 0, state: Vec::new(), most: Id::MAX }
    }

    /// Allows so many more lines at most.
    pub(crate) fn leave(&mut self, left: u32) {
        self.most = self.most.min(self.len + left);
    }

    /// How many have ids.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether this many more lines might not all get an id.
    #[inline(always)]
    pub(crate) fn may_run_out(&self, lines: usize) -> bool {
        ((self.most - self.len) as usize) < lines
    }

    /// The id of a line, given to it now if it has none. `None`: none is left.
    #[inline(always)]
    pub(crate) fn id(&mut self, line: u64) -> Option<Id> {
        self.ids.of(line).checked_sub(1).or_else(|| self.add(line))
    }

    /// Fetches what [`Lines::id`] will look at, or what tells where that is, which it says.
    #[inline(always)]
    pub(crate) fn prefetch(&self, line: u64) -> bool {
        self.ids.prefetch(line)
    }

    /// The same where it told.
    #[inline(always)]
    pub(crate) fn prefetch_listed(&self, line: u64) {
        self.ids.prefetch_listed(line);
    }

    /// The id of a line if it has one; a line that was referenced has.
    pub(crate) fn find(&self, line: u64) -> Option<Id> {
        self.ids.get(line).checked_sub(1)
    }

    /// Of the first lines of these, if all of those have ids, 1 + that.
    pub(crate) fn ids(&self, lines: Range<u64>) -> &[Id] {
        self.ids.slice(lines)
    }

    /// Of all lines 1 + the id, 0 if they have none, some at a time.
    pub(crate) fn all_ids(&self, lines: Range<u64>) -> impl Iterator<Item = &[Id]> {
        let mut line = lines.start;
        std::iter::from_fn(move || {
            let ids = (line < lines.end).then(|| self.ids(line..lines.end))?;
            let ids = if ids.is_empty() { self.ids(line..line + 1) } else { ids };
            line += ids.len().max(1) as u64;
            Some(if ids.is_empty() { &[0] } else { ids })
        })
    }

    /// All lines that have ids, with these.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Id)> + '_ {
        self.ids.iter().map(|(line, number)| (line, number - 1))
    }

    /// By id.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Line> {
        self.state.iter().flat_map(|region| region.iter())
    }

    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.state.iter_mut().flat_map(|region| region.iter_mut())
    }

    #[cold]
    fn add(&mut self, line: u64) -> Option<Id> {
        if self.len >= self.most {
            return None;
        }
        let id = self.len;
        self.len += 1;
        *self.ids.of(line) = self.len;
        if (id as usize).is_multiple_of(REGION) {
            self.state.push(boxed::array(Line::default()));
        }
        Some(id)
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: Id) -> &Line {
        &self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: Id) -> &mut Line {
        &mut self.state[(id >> REGION_BITS) as usize][id as usize % REGION]
    }
}

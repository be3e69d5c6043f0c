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

//! The first tier: the 8 most recently referenced lines, in order.
//!
//! Invariant: every line here is more recent than every line that is not, and stands behind those more recent than
//! itself. More than half of all references that change anything hit here: their place is their distance, and the few
//! lines before it give it by set without a look at anything else.

use crate::held::Entry;

/// How many lines the tier holds.
pub(crate) const TOP: usize = 8;
/// No line: there are not so many.
pub(crate) const NONE: u64 = u64::MAX;

/// The lines, most recent first, and their entries.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Top {
    pub(crate) lines: [u64; TOP],
    pub(crate) entries: [Entry; TOP],
}

/// The tier where it is fastest to use: in registers.
pub(crate) trait Order: Copy {
    /// Into the registers.
    fn load(top: &Top) -> Self;

    /// Back.
    fn store(self, top: &mut Top);

    /// The place of a line; [`TOP`] if it is not here.
    fn place(self, line: u64) -> usize;

    /// How many lines are here.
    #[inline(always)]
    fn len(self) -> usize {
        self.place(NONE)
    }

    /// How many of the `first` lines agree with this one in their lowest a bits, a = 1 ..= W.
    fn tally<const W: usize>(self, first: usize, line: u64) -> [u8; W];

    /// Makes a line, which is at that place, the most recent; its entry.
    fn lift(self, place: usize, line: u64) -> (Self, Entry);

    /// Puts a line on top; the last of eight goes.
    fn push(self, line: u64, entry: Entry) -> Self;

    /// The last of eight, if there are so many.
    fn last(self) -> Option<(u64, Entry)>;
}

impl Top {
    pub(crate) fn new() -> Self {
        Self { lines: [NONE; TOP], entries: [0; TOP] }
    }

    /// The line at a place goes.
    pub(crate) fn remove(&mut self, place: usize) {
        self.lines.copy_within(place + 1.., place);
        self.entries.copy_within(place + 1.., place);
        self.lines[TOP - 1] = NONE;
    }

    /// Entries, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries[..self.len()].iter().rev().copied()
    }
}

impl Order for Top {
    #[inline(always)]
    fn load(top: &Top) -> Self {
        *top
    }

    #[inline(always)]
    fn store(self, top: &mut Top) {
        *top = self;
    }

    #[inline(always)]
    fn place(self, line: u64) -> usize {
        let here = self.lines.iter().enumerate().map(|(place, &other)| u32::from(other == line) << place);
        (here.sum::<u32>() | 1 << TOP).trailing_zeros() as usize
    }

    #[inline(always)]
    fn tally<const W: usize>(self, first: usize, line: u64) -> [u8; W] {
        let mut tally = [0; W];
        for other in &self.lines[..first] {
            let agree = (line ^ other).trailing_zeros() as u8;
            (0..).zip(&mut tally).for_each(|(a, sum)| *sum += u8::from(agree > a));
        }
        tally
    }

    // Whole arrays, without a branch on the place: rotating a part of one takes several times as long.
    #[inline(always)]
    fn lift(self, place: usize, line: u64) -> (Self, Entry) {
        let entry = self.entries[place];
        let pushed = self.push(line, entry);
        let lines = std::array::from_fn(|at| if at <= place { pushed.lines[at] } else { self.lines[at] });
        let entries = std::array::from_fn(|at| if at <= place { pushed.entries[at] } else { self.entries[at] });
        (Self { lines, entries }, entry)
    }

    #[inline(always)]
    fn push(self, line: u64, entry: Entry) -> Self {
        let lines = std::array::from_fn(|at| if at == 0 { line } else { self.lines[at - 1] });
        let entries = std::array::from_fn(|at| if at == 0 { entry } else { self.entries[at - 1] });
        Self { lines, entries }
    }

    #[inline(always)]
    fn last(self) -> Option<(u64, Entry)> {
        let line = self.lines[TOP - 1];
        (line != NONE).then_some((line, self.entries[TOP - 1]))
    }
}

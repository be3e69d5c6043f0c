//! The recent tier: the 64 most recently referenced lines, most recent first.
//!
//! Invariant: every line here is more recent than every line of the older tier, and none is in both.

use crate::lines::Id;

/// How many lines the tier holds.
pub(crate) const RECENT: usize = 64;

/// Tallies of lines by right match, capped at the greatest set-count exponent; suffix sums of it are the distances.
pub(crate) type Tally = [u8; 32];

/// The list itself.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    lines: [u64; RECENT],
    ids: [Id; RECENT],
    len: usize,
    set_bits: u32,
}

impl Recent {
    pub(crate) fn new(set_bits: u32) -> Self {
        Self { lines: [0; RECENT], ids: [0; RECENT], len: 0, set_bits }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The top of the stack.
    pub(crate) fn top(&self) -> Option<u64> {
        (self.len > 0).then(|| self.lines[0])
    }

    /// Walks from the top to `line`: its position and id if it is here, the tallies of what was met before it, and the
    /// greatest right match met.
    pub(crate) fn walk(&self, line: u64) -> (Option<(usize, Id)>, Tally, u32) {
        let (mut tally, mut most) = ([0; 32], 0);
        for (position, &other) in self.lines[..self.len].iter().enumerate() {
            if other == line {
                return (Some((position, self.ids[position])), tally, most);
            }
            let right = (other ^ line).trailing_zeros().min(self.set_bits);
            most = most.max(right);
            tally[right as usize] += 1;
        }
        (None, tally, most)
    }

    /// Moves the line at `position` to the top.
    pub(crate) fn touch(&mut self, position: usize) {
        self.lines[..=position].rotate_right(1);
        self.ids[..=position].rotate_right(1);
    }

    /// Puts a new line on top; returns the line that falls out at the bottom.
    pub(crate) fn push(&mut self, line: u64, id: Id) -> Option<(u64, Id)> {
        let out = if self.len == RECENT {
            Some((self.lines[RECENT - 1], self.ids[RECENT - 1]))
        } else {
            self.len += 1;
            None
        };
        self.lines[..self.len].rotate_right(1);
        self.ids[..self.len].rotate_right(1);
        (self.lines[0], self.ids[0]) = (line, id);
        out
    }
}

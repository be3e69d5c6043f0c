//! The older tier by set: for every set count 2^1 ..= 2^K and every set, when its newest lines left the recent tier.
//!
//! A stamp is the time at which a line moved to the top of its set. No identities are kept, because none are needed: let
//! t be the time at which x last left the recent tier. A line above x in its set moved to the top after t, a line below
//! it before or at the moment x did. So the number of lines above x is the number of stamps greater than t, and x's own
//! stamp is the next one. Where there are none x is on top already, at that set count and, sets being nested, at every
//! greater one: nothing there has to be touched, and the walk over set counts ends.
//!
//! A line that comes back into the recent tier leaves its stamp here until it moves to the top again. The recent tier
//! knows the times, so that nothing is counted twice.
//!
//! A set remembers its newest `max_ways` lines, rounded up to whole cache lines of stamps. A line that falls off the end
//! stays behind so many newer ones until it comes back, so it need not be remembered: its distance is "max_ways or more".

use crate::simd::Vector;

/// Stamps in a cache line.
pub(crate) const PART: usize = 16;

/// Some stamps of a set, newest first; unused ones are 0.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Part(pub(crate) [Time; PART]);

/// When a line left the recent tier; 0 is before all of them.
pub(crate) type Time = i32;

/// All sets of all set counts.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Index 0 is two sets; each set has `parts` neighbouring parts, the newest stamps first.
    levels: Vec<Vec<Part>>,
    parts: usize,
}

impl Sets {
    pub(crate) fn new(set_bits: u32, ways: u32) -> Self {
        let parts = (ways as usize).div_ceil(PART);
        Self { levels: (1..=set_bits).map(|a| vec![Part([0; PART]); parts << a]).collect(), parts }
    }

    /// The line, last here at `last` (0: never), is here again at `now`: moves it to the top of its sets.
    #[inline(always)]
    pub(crate) fn reference<V: Vector>(&mut self, line: u64, last: Time, now: Time) {
        for (index, level) in self.levels.iter_mut().enumerate() {
            let first = set(index, line) * self.parts;
            let set = &mut level[first..first + self.parts];
            // On top already; a new line never is, not even of an empty set.
            if set[0].0[0] <= last && last != 0 {
                return;
            }
            let mut top = now;
            for part in set {
                let overflow = part.0[PART - 1];
                if V::push(part, last, top) < PART {
                    break;
                }
                top = overflow;
            }
        }
    }

    /// How many stamps are later than `last` in the line's set with 2^(index + 1) sets; as far as is remembered.
    #[inline(always)]
    pub(crate) fn newer<V: Vector>(&self, index: usize, line: u64, last: Time) -> usize {
        let first = set(index, line) * self.parts;
        let mut sum = 0;
        for part in &self.levels[index][first..first + self.parts] {
            let newer = V::newer(part, last);
            sum += newer;
            if newer < PART {
                break;
            }
        }
        sum
    }

    /// Number of set counts.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(Part([0; PART])));
    }
}

#[inline(always)]
fn set(index: usize, line: u64) -> usize {
    line as usize & ((2 << index) - 1)
}

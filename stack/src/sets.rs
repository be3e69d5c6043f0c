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
pub(crate) type Part = [Time; PART];

/// When a line left the recent tier; 0 is before all of them.
pub(crate) type Time = i32;

/// All sets of all set counts.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Index 0 is two sets.
    levels: Vec<Level>,
}

/// The sets of one set count: `parts` neighbouring parts each, the newest stamps first.
#[derive(Debug)]
struct Level {
    /// Zero pages of the system until they are used: most set counts have far more sets than a program touches.
    stamps: Vec<Time>,
    /// Where in `stamps` the first cache line begins.
    first: usize,
    parts: usize,
}

impl Level {
    fn new(sets: usize, parts: usize) -> Self {
        let stamps = vec![0; (sets * parts + 1) * PART];
        let line = size_of::<Part>();
        let first = (line - stamps.as_ptr().addr() % line) % line / size_of::<Time>();
        Self { stamps, first, parts }
    }

    #[inline(always)]
    fn at(&self, set: usize) -> std::ops::Range<usize> {
        let first = self.first + set * self.parts * PART;
        first..first + self.parts * PART
    }

    #[inline(always)]
    fn set(&self, set: usize) -> &[Part] {
        self.stamps[self.at(set)].as_chunks().0
    }

    #[inline(always)]
    fn set_mut(&mut self, set: usize) -> &mut [Part] {
        let at = self.at(set);
        self.stamps[at].as_chunks_mut().0
    }
}

impl Clone for Level {
    /// The copy lies elsewhere, so its cache lines may begin elsewhere.
    fn clone(&self) -> Self {
        let sets = (self.stamps.len() / PART - 1) / self.parts;
        let mut copy = Self::new(sets, self.parts);
        let end = sets * self.parts * PART;
        copy.stamps[copy.first..][..end].copy_from_slice(&self.stamps[self.first..][..end]);
        copy
    }
}

impl Sets {
    pub(crate) fn new(set_bits: u32, ways: u32) -> Self {
        let parts = (ways as usize).div_ceil(PART);
        Self { levels: (1..=set_bits).map(|a| Level::new(1 << a, parts)).collect() }
    }

    /// The line, last here at `last` (0: never), is here again at `now`: moves it to the top of its sets.
    #[inline(always)]
    pub(crate) fn reference<V: Vector>(&mut self, line: u64, last: Time, now: Time) {
        for (index, level) in self.levels.iter_mut().enumerate() {
            let set = level.set_mut(set(index, line));
            // On top already; a new line never is, not even of an empty set.
            if set[0][0] <= last && last != 0 {
                return;
            }
            let mut top = now;
            for part in set {
                let overflow = part[PART - 1];
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
        let mut sum = 0;
        for part in self.levels[index].set(set(index, line)) {
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
        self.levels.iter_mut().for_each(|level| level.stamps.fill(0));
    }
}

#[inline(always)]
fn set(index: usize, line: u64) -> usize {
    line as usize & ((2 << index) - 1)
}

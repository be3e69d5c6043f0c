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
//! A set remembers its newest `FRONT + back` lines. A line that falls off the end stays behind so many newer ones until
//! it comes back, so it need not be remembered: its distance is "max_ways or more".
//!
//! The newest 16 stamps stand in order in one cache line, where most hits end; older ones stand in a ring, so that a
//! line from far away pushes all others down without moving them.

use crate::simd::Vector;

/// Stamps kept in order at the front of each set: one cache line.
pub(crate) const FRONT: usize = 16;

/// The newest stamps of a set, newest first; unused ones are 0.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Front(pub(crate) [Time; FRONT]);

/// When a line left the recent tier; 0 is before all of them.
pub(crate) type Time = i32;

#[derive(Clone, Debug)]
struct Level {
    fronts: Vec<Front>,
    /// `back` places a set; unused ones are 0.
    backs: Vec<Time>,
    rings: Vec<Ring>,
}

/// Where in its `back` places a set's ring begins, and how many are used.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    head: u8,
    len: u8,
}

/// All sets of all set counts.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Index 0 is two sets.
    levels: Vec<Level>,
    back: usize,
}

impl Sets {
    pub(crate) fn new(set_bits: u32, ways: u32) -> Self {
        let back = (ways as usize).saturating_sub(FRONT);
        let level = |a| Level {
            fronts: vec![Front([0; FRONT]); 1usize << a],
            backs: vec![0; back << a],
            rings: vec![Ring::default(); 1usize << a],
        };
        Self { levels: (1..=set_bits).map(level).collect(), back }
    }

    /// The line, last here at `last` (0: never), is here again at `now`: moves it to the top of its sets.
    #[inline(always)]
    pub(crate) fn reference<V: Vector>(&mut self, line: u64, last: Time, now: Time) {
        for (index, level) in self.levels.iter_mut().enumerate() {
            let set = line as usize & ((2 << index) - 1);
            let front = &mut level.fronts[set];
            // On top already; a new line never is, not even of an empty set.
            if front.0[0] <= last && last != 0 {
                return;
            }
            let overflow = front.0[FRONT - 1];
            if V::push(front, last, now) == FRONT && self.back > 0 {
                let places = &mut level.backs[set * self.back..(set + 1) * self.back];
                level.rings[set].reference(places, last, overflow);
            }
        }
    }

    /// How many stamps are later than `last` in the line's set with 2^(index + 1) sets; as far as is remembered.
    #[inline(always)]
    pub(crate) fn newer<V: Vector>(&self, index: usize, line: u64, last: Time) -> usize {
        let level = &self.levels[index];
        let set = line as usize & ((2 << index) - 1);
        match V::newer(&level.fronts[set], last) {
            FRONT if self.back > 0 => {
                FRONT + level.rings[set].newer(&level.backs[set * self.back..(set + 1) * self.back], last)
            }
            newer => newer,
        }
    }

    /// Number of set counts.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        for level in &mut self.levels {
            level.fronts.fill(Front([0; FRONT]));
            level.backs.fill(0);
            level.rings.fill(Ring::default());
        }
    }
}

impl Ring {
    /// How many stamps are later than `last`.
    #[inline(always)]
    fn newer(self, places: &[Time], last: Time) -> usize {
        // In a full ring the oldest stands just before the newest.
        if usize::from(self.len) == places.len() && places[self.before(places.len())] > last {
            return places.len();
        }
        places.iter().map(|&stamp| i32::from(stamp > last)).sum::<i32>() as usize
    }

    /// The place before the head.
    #[inline(always)]
    fn before(self, places: usize) -> usize {
        if self.head == 0 { places - 1 } else { usize::from(self.head) - 1 }
    }

    /// Takes the stamp that fell off the front, in place of the line that was here at `last`, else in place of the
    /// oldest.
    #[inline(always)]
    fn reference(&mut self, places: &mut [Time], last: Time, overflow: Time) {
        let (head, len, newer) = (usize::from(self.head), usize::from(self.len), self.newer(places, last));
        if newer < len {
            let mut carried = overflow;
            let wrapped = (head + newer + 1).saturating_sub(places.len());
            let end = head + newer + 1 - wrapped;
            for place in &mut places[head..end] {
                std::mem::swap(place, &mut carried);
            }
            for place in &mut places[..wrapped] {
                std::mem::swap(place, &mut carried);
            }
        } else {
            let before = self.before(places.len());
            places[before] = overflow;
            self.head = before as u8;
            self.len = (len + 1).min(places.len()) as u8;
        }
    }
}

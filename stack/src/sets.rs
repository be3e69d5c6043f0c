//! The stack by set: for every set count 2^1 ..= 2^K and every set, the stamps of its newest lines.
//!
//! A stamp is the time at which a line moved to the top of its set. No identities are kept, because none are needed: let
//! t be the time of the last reference to x. A line above x in its set moved to the top after t, a line below it before
//! or at the moment x did. So `d_a` is the number of stamps greater than t, and x's own stamp is the next one. Where
//! `d_a` is 0 the line is on top already, at that set count and, sets being nested, at every greater one: nothing there
//! has to be touched, and the walk over set counts ends.
//!
//! A set remembers its newest `FRONT + back` lines. A line that falls off the end stays behind so many newer ones until
//! it is referenced again, so it need not be remembered: its distance is "max_ways or more".
//!
//! The newest 16 stamps stand in order in one cache line, where most hits end; older ones stand in a ring, so that a
//! line from far away pushes all others down without moving them.

use crate::simd::{Portable, Vector};

/// Stamps kept in order at the front of each set: one cache line.
pub(crate) const FRONT: usize = 16;

/// The newest stamps of a set, newest first; unused ones are 0.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Front(pub(crate) [Time; FRONT]);

/// Time of a reference; 0 is before all of them.
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

    /// The line, last referenced at `last`, is referenced at `now`: moves it to the top everywhere and writes its
    /// distances, cut off at `FRONT + back`, for a = 1, 2, … Returns how many there are before they are all 0.
    /// A `last` of 0 is a cold line.
    #[inline(always)]
    pub(crate) fn reference<V: Vector>(&mut self, line: u64, last: Time, now: Time, distances: &mut [u8]) -> usize {
        for (index, (level, distance)) in self.levels.iter_mut().zip(distances.iter_mut()).enumerate() {
            let set = line as usize & ((2 << index) - 1);
            let front = &mut level.fronts[set];
            let overflow = front.0[FRONT - 1];
            // On top already; a cold line never is, not even of an empty set.
            if front.0[0] <= last && last != 0 {
                return index;
            }
            let newer = V::push(front, last, now);
            *distance = newer as u8;
            if newer < FRONT {
                continue;
            }
            if self.back > 0 {
                let places = &mut level.backs[set * self.back..(set + 1) * self.back];
                *distance += level.rings[set].reference(places, last, overflow);
            }
        }
        self.levels.len().min(distances.len())
    }

    /// The distances that [`Sets::reference`] would write, moving nothing.
    pub(crate) fn distances(&self, line: u64, last: Time, distances: &mut [u8]) -> usize {
        for (index, (level, distance)) in self.levels.iter().zip(distances.iter_mut()).enumerate() {
            let set = line as usize & ((2 << index) - 1);
            *distance = Portable::newer(&level.fronts[set], last) as u8;
            if *distance == 0 {
                return index;
            }
            if usize::from(*distance) == FRONT {
                *distance += newer_in_ring(&level.backs[set * self.back..(set + 1) * self.back], last);
            }
        }
        self.levels.len().min(distances.len())
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

#[inline(always)]
fn newer_in_ring(places: &[Time], last: Time) -> u8 {
    places.iter().map(|&stamp| i32::from(stamp > last)).sum::<i32>() as u8
}

impl Ring {
    /// Takes the stamp that fell off the front, in place of the line last referenced at `last` if that is here, else
    /// in place of the oldest. Returns how many newer stamps are here.
    #[inline(always)]
    fn reference(&mut self, places: &mut [Time], last: Time, overflow: Time) -> u8 {
        let (head, len) = (usize::from(self.head), usize::from(self.len));
        let before = if head == 0 { places.len() - 1 } else { head - 1 };
        // In a full ring the oldest stands just before the newest.
        let newer = if len == places.len() && places[before] > last { len } else { newer_in_ring(places, last).into() };
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
            places[before] = overflow;
            self.head = before as u8;
            self.len = (len + 1).min(places.len()) as u8;
        }
        newer as u8
    }
}

//! What private caches of several threads do to each other: section 5 of the model, from positions to counts.

use crate::{
    hashed::Hashed,
    stack::{Counts, Figure, Level, Model, Rule, from, tail},
};
use bf_profile::{Bin, ByPosition, Coherence};
use std::ops::AddAssign;

/// What the other private caches did to one cache and it to them, or the sum of several such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// References that found their line invalidated that would otherwise have been there: coherence misses.
    pub coherence: Figure,
    /// Lines that stores of other threads took out of the cache.
    pub received: Figure,
    /// Lines that stores of its own thread took out of other caches.
    pub sent: Figure,
    /// Misses that another cache of this shape could have served.
    pub remote: Figure,
    /// Dirty lines that another thread read or wrote, and that were passed on to it.
    pub dirty: Figure,
}

impl Sharing {
    /// The figures, to be summed or looked at all together.
    fn figures(&self) -> [Figure; 5] {
        let Self { coherence, received, sent, remote, dirty } = *self;
        [coherence, received, sent, remote, dirty]
    }

    /// Whether some figure is only known within bounds.
    fn open(&self) -> bool {
        self.figures().iter().any(|figure| figure.lo != figure.hi)
    }
}

impl AddAssign<&Sharing> for Sharing {
    fn add_assign(&mut self, other: &Self) {
        let sums = [&mut self.coherence, &mut self.received, &mut self.sent, &mut self.remote, &mut self.dirty];
        sums.into_iter().zip(other.figures()).for_each(|(sum, figure)| *sum += figure);
    }
}

impl Level {
    /// Adds to `counts` of this cache what others had to do with it: of the references that found their line invalidated,
    /// those whose line would have been there are coherence misses and the others capacity misses. `None`: not known.
    pub fn share(&self, counts: &mut Counts, sharing: Option<Sharing>) {
        counts.sharing = sharing;
        let full = matches!(self.rule, Rule::Full(_));
        let split = sharing.filter(|sharing| full || sharing.coherence.lo == sharing.coherence.hi);
        counts.capacity = match split {
            Some(sharing) => counts.capacity.map(|capacity| capacity + counts.lost - sharing.coherence.value),
            None => counts.capacity.filter(|_| counts.lost == 0),
        };
        if full && sharing.is_some_and(|sharing| sharing.open()) {
            counts.model = Model::Interpolated;
        }
    }

    /// What happened to the cache of this slot.
    pub fn sharing(&mut self, of: &Coherence) -> Sharing {
        let mut within = |counts| self.within(counts);
        let (remote, own) = (within(&of.remote), within(&of.own));
        Sharing {
            coherence: within(&of.lost),
            received: within(&of.received),
            sent: within(&of.sent),
            remote: Figure {
                value: remote.value.saturating_sub(own.value),
                lo: remote.lo.saturating_sub(own.hi),
                hi: remote.hi.saturating_sub(own.lo),
            },
            dirty: within(&of.dirty),
        }
    }

    /// How many of these positions lie within the cache.
    fn within(&mut self, counts: &ByPosition) -> Figure {
        match &mut self.rule {
            Rule::Full(ways) => within_full(counts, *ways),
            Rule::Sets { bits, ways } => within_sets(counts, *bits, *ways),
            Rule::Hashed(formula) => Figure::exactly(within_hashed(&counts.full, formula)),
            Rule::Bounded { bits, ways, formula, .. } => {
                // A position never grows with the set count.
                let least = if *bits == 0 { within_full(counts, *ways) } else { within_sets(counts, *bits, *ways) };
                let (lo, hi) = (least.lo, total(&counts.full).max(least.hi));
                Figure { value: within_hashed(&counts.full, formula).clamp(lo, hi), lo, hi }
            }
        }
    }
}

fn total(bins: &[Bin]) -> u64 {
    bins.iter().map(|bin| bin.count).sum()
}

fn within_full(counts: &ByPosition, ways: u64) -> Figure {
    let (all, beyond) = (total(&counts.full), from(&counts.full, ways));
    Figure { value: all - beyond.value, lo: all - beyond.hi, hi: all - beyond.lo }
}

/// With `2^bits` sets, `bits >= 1`.
fn within_sets(counts: &ByPosition, bits: u32, ways: u64) -> Figure {
    let at = counts.sets.get(bits as usize - 1).map_or(&[][..], Vec::as_slice);
    Figure::exactly(tail(at, 0) - tail(at, ways))
}

fn within_hashed(bins: &[Bin], formula: &mut Hashed) -> u64 {
    bins.iter().map(|bin| bin.count as f64 * (1.0 - formula.miss(bin))).sum::<f64>().round() as u64
}

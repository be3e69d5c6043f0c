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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Query, query, spec::Cache};
    use bf_profile::{
        FullHistograms, Histograms, LineCoherence, LineData, Meta, Owner, Process, Profile, SetHistograms, StackData,
    };

    /// Four references at one set, with two sets one position nearer each.
    fn at(positions: &[u64]) -> ByPosition {
        let full = positions.iter().map(|&lo| Bin { lo, hi: lo + 1, count: 1 }).collect();
        let mut two = vec![0; 5];
        positions.iter().for_each(|&position| two[position.saturating_sub(1).min(4) as usize] += 1);
        ByPosition { full, sets: vec![two] }
    }

    fn coherence(slot: u32) -> Coherence {
        let (lost, received, sent) = (at(&[0, 2, 9]), at(&[0, 2, 3, 9]), at(&[1]));
        Coherence { slot, tag: 0, lost, received, sent, remote: at(&[0, 1, 4]), own: at(&[5]), dirty: at(&[3]) }
    }

    /// Two threads, each with 10 references: 2 cold, 3 lost, 4 at distance 1 and one at 6.
    fn profile(coherent: bool) -> Profile {
        let bin = |lo, count| Bin { lo, hi: lo + 1, count };
        let full = FullHistograms { loads: vec![bin(1, 4), bin(6, 1)], ..FullHistograms::default() };
        let sets =
            vec![SetHistograms { loads: vec![4, 0, 0, 0, 1], capacity: vec![4, 0, 1], ..SetHistograms::default() }];
        let histograms = Histograms { references: [10, 0], cold: [2, 0], full, sets };
        let stack = |slot| StackData { owner: Owner::Slot(slot), tag: 0, histograms: histograms.clone() };
        let (line_bytes, max_set_bits, max_ways) = (64, 1, 4);
        let slots = vec![coherence(0), coherence(1)];
        let process = Process {
            meta: Meta { pid: 7, ..Meta::default() },
            tags: vec![String::new()],
            lines: vec![LineData { line_bytes, max_set_bits, max_ways, stacks: vec![stack(0), stack(1)] }],
            coherence: coherent
                .then_some(LineCoherence { line_bytes, max_set_bits, max_ways, slots })
                .into_iter()
                .collect(),
            ..Process::default()
        };
        let profile = Profile { processes: vec![process] };
        profile.validate().unwrap();
        profile
    }

    fn ask(profile: &Profile, cache: &str) -> crate::LevelAnswer {
        let levels = vec![format!("L={cache}").parse().unwrap()];
        query(profile, &Query { levels, by_thread: true, ..Query::default() }).unwrap().levels.remove(0)
    }

    #[test]
    fn positions_within_the_cache_count() {
        // Two lines in one set: of each thread's three lost references one had its line at a position below 2.
        let level = ask(&profile(true), "128:full");
        assert_eq!((level.misses, level.cold, level.coherence), (2 * (2 + 3 + 1), 4, Some(2)));
        assert_eq!((level.capacity, level.conflict), (Some(2 * (1 + 2)), Some(0)));
        assert_eq!((level.invalidations_received, level.invalidations_sent), (Some(2), Some(2)));
        assert_eq!((level.remote, level.dirty_transfers), (Some(4), Some(0)));
        assert_eq!((level.memory_accesses, level.writebacks, level.traffic_bytes), (Some(8), None, None));
        // Six lines: of the remote references the own cache has one itself.
        let level = ask(&profile(true), "384:full");
        assert_eq!((level.coherence, level.remote, level.dirty_transfers), (Some(4), Some(4), Some(2)));
        // Two sets of three ways.
        let level = ask(&profile(true), "384:3");
        assert_eq!((level.coherence, level.invalidations_received, level.remote), (Some(4), Some(6), Some(4)));
        assert_eq!((level.capacity, level.conflict, level.exact), (Some(2), Some(2), true));
        let threads: Vec<_> =
            level.threads.unwrap().iter().map(|one| (one.thread, one.invalidations, one.remote)).collect();
        assert_eq!(threads, [(0, Some(3), Some(2)), (1, Some(3), Some(2))]);
    }

    #[test]
    fn more_sets_than_kept_and_sets_at_random() {
        let shape = "A=512:2".parse::<Cache>().unwrap().shape(&[64]).unwrap();
        let profile = profile(true);
        let mut level = Level::new(&shape, 8, &profile.processes[0].lines[0]).unwrap();
        let Sharing { coherence, received, .. } = level.sharing(&coherence(0));
        assert_eq!(([coherence.lo, coherence.hi], [received.lo, received.hi]), ([2, 3], [2, 4]));
        let answer = ask(&profile, "512:2");
        assert_eq!((answer.model, answer.capacity, answer.bounds), (Model::Bounded, None, Some([10, 12])));
        // One set as if at random is one set.
        let (random, plain) = (ask(&profile, "384:full:hashed"), ask(&profile, "384:full"));
        assert_eq!((random.coherence, random.remote), (plain.coherence, plain.remote));
    }

    #[test]
    fn profiles_that_do_not_tell_say_so() {
        let level = ask(&profile(false), "128:full");
        assert_eq!((level.misses, level.coherence, level.capacity, level.writebacks), (12, None, None, None));
        assert!(level.note.unwrap().contains("lost its coherence"));
        let mut older = profile(false);
        for stack in &mut older.processes[0].lines[0].stacks {
            stack.histograms.references = [7, 0];
        }
        let level = ask(&older, "128:full");
        assert_eq!((level.misses, level.coherence, level.writebacks), (6, None, Some(0)));
        assert!(level.note.unwrap().contains("does not tell of invalidations"));
        let mut alone = older;
        alone.processes[0].lines[0].stacks.truncate(1);
        let level = ask(&alone, "128:full");
        assert_eq!((level.note, level.coherence, level.threads.unwrap().len()), (None, None, 1));
    }
}

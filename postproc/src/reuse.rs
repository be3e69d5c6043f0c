//! Reuse distances of a run in two numbers: median, and median of the distances from it.

use crate::query::is_wanted;
use bf_profile::{Bin, LineData, Owner, Process, Profile};
use serde::Serialize;

/// Middle and spread of the distances of some references, in lines; both `None` where it is infinite: where half of the
/// references or more are the first to their line, or lost it to another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Middle {
    /// References.
    pub references: u64,
    /// The least distance that at least half of the references do not exceed. Distances from 512 up are known to within
    /// 1/256; this is the lower end.
    pub median: Option<u64>,
    /// Median absolute deviation: the median of how far the distances are from the median.
    pub mad: Option<u64>,
}

/// The reuse distances of one line size, threads by themselves and added up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReuseDistance {
    /// Bytes.
    pub line_bytes: u32,
    /// Of loads.
    pub loads: Middle,
    /// Of stores.
    pub stores: Middle,
    /// Of both.
    pub all: Middle,
}

/// For each line size; none for a sampled profile. With tags only of references under these.
#[must_use]
pub fn distances(profile: &Profile, tags: &[String]) -> Vec<ReuseDistance> {
    let lines = || profile.processes.iter().flat_map(|process| process.lines.iter().map(move |data| (process, data)));
    let mut sizes: Vec<_> = lines().map(|(_, data)| data.line_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |line_bytes| {
        let data: Vec<_> = lines().filter(|(_, data)| data.line_bytes == line_bytes).collect();
        let middle = |loads, stores| middle(&data, tags, loads, stores);
        ReuseDistance { line_bytes, loads: middle(true, false), stores: middle(false, true), all: middle(true, true) }
    };
    sizes.into_iter().map(of).collect()
}

fn middle(data: &[(&Process, &LineData)], tags: &[String], loads: bool, stores: bool) -> Middle {
    let (mut references, mut distances) = (0, Vec::new());
    let stacks = data.iter().flat_map(|&(process, data)| data.stacks.iter().map(move |stack| (process, stack)));
    let wanted = stacks.filter(|(process, stack)| stack.owner != Owner::Global && is_wanted(process, tags, stack.tag));
    for histograms in wanted.map(|(_, stack)| &stack.histograms) {
        let mut take = |index: usize, bins: &[Bin]| {
            references += histograms.references[index];
            distances.extend(bins.iter().map(|bin| (bin.lo, bin.count)));
        };
        if loads {
            take(0, &histograms.full.loads);
        }
        if stores {
            take(1, &histograms.full.stores);
        }
    }
    let median = median(&mut distances, references);
    let mad = median.and_then(|median| {
        distances.iter_mut().for_each(|(distance, _)| *distance = distance.abs_diff(median));
        self::median(&mut distances, references)
    });
    Middle { references, median, mad }
}

/// The least value that at least half of `all` do not exceed; what is not among the values is infinite.
fn median(values: &mut [(u64, u64)], all: u64) -> Option<u64> {
    values.sort_unstable();
    let mut below = 0;
    let found = values.iter().find(|(_, count)| {
        below += count;
        below > 0 && below >= all.div_ceil(2)
    });
    found.map(|&(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::{FullHistograms, Histograms, Process, StackData};

    /// One thread with these distances of loads and stores, and `cold` loads.
    fn profile(loads: &[u64], stores: &[u64], cold: u64) -> Profile {
        let bins = |values: &[u64]| values.iter().map(|&lo| Bin { lo, hi: lo + 1, count: 1 }).collect();
        let histograms = Histograms {
            references: [loads.len() as u64 + cold, stores.len() as u64],
            cold: [cold, 0],
            full: FullHistograms { loads: bins(loads), stores: bins(stores), ..FullHistograms::default() },
            sets: Vec::new(),
        };
        let stacks = vec![StackData { owner: Owner::Slot(0), tag: 0, histograms }];
        let lines = vec![LineData { line_bytes: 64, stacks, ..LineData::default() }];
        Profile { processes: vec![Process { lines, ..Process::default() }] }
    }

    #[test]
    fn middle_and_spread_of_a_few() {
        let found = distances(&profile(&[1, 2, 9], &[4, 100], 0), &[]).remove(0);
        assert_eq!(found.loads, Middle { references: 3, median: Some(2), mad: Some(1) });
        assert_eq!(found.stores, Middle { references: 2, median: Some(4), mad: Some(0) });
        // 1 2 4 9 100: 4, and 0 2 3 5 96 away from it.
        assert_eq!(found.all, Middle { references: 5, median: Some(4), mad: Some(3) });
    }

    #[test]
    fn first_references_are_infinitely_far() {
        let found = distances(&profile(&[1, 2], &[], 1), &[]).remove(0);
        assert_eq!(found.loads, Middle { references: 3, median: Some(2), mad: Some(1) });
        let found = distances(&profile(&[1, 2], &[], 3), &[]).remove(0);
        assert_eq!(found.loads, Middle { references: 5, median: None, mad: None });
        assert_eq!(found.stores, Middle::default());
    }

    #[test]
    fn a_tag_has_the_distances_of_its_own_references() {
        let mut all = profile(&[1, 2, 9], &[], 0);
        let other = profile(&[100], &[], 0).processes.remove(0).lines.remove(0).stacks.remove(0);
        let process = &mut all.processes[0];
        process.tags = ["", "solve"].map(str::to_owned).to_vec();
        process.lines[0].stacks.push(StackData { tag: 1, ..other });
        let found = distances(&all, &["solve".to_owned()]).remove(0);
        assert_eq!(found.loads, Middle { references: 1, median: Some(100), mad: Some(0) });
        assert_eq!(distances(&all, &[]).remove(0).loads.references, 4);
    }
}

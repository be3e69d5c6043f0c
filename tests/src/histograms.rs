//! What the histograms of a profile say about one cache: sections 2 and 3 of the model, word for word.

use bf_profile::{Bin, Histograms, LineData, Owner, Profile};

use crate::oracle::Counts;

/// The counts of an LRU cache with `2^set_bits` sets and `ways` ways.
///
/// # Panics
/// The histograms do not hold the exact answer.
#[must_use]
pub fn counts(histograms: &Histograms, set_bits: u32, ways: usize) -> Counts {
    let Histograms { references, cold, full, sets } = histograms;
    let hits_and_dirty = match set_bits.checked_sub(1) {
        None => [below(&full.loads, ways), below(&full.stores, ways), below(&full.resident, ways)],
        Some(row) => {
            let row = &sets[row as usize];
            [&row.loads, &row.stores, &row.resident].map(|all| all.iter().take(ways).sum())
        }
    };
    let [load_hits, store_hits, resident_dirty] = hits_and_dirty;
    let writebacks = match set_bits.checked_sub(1) {
        None => {
            let total = |bins: &[Bin]| bins.iter().map(|bin| bin.count).sum::<u64>();
            total(&full.writebacks) - below(&full.writebacks, ways) + total(&full.resident) - resident_dirty
        }
        Some(row) => {
            let row = &sets[row as usize];
            row.writebacks.iter().skip(ways).chain(row.resident.iter().skip(ways)).sum()
        }
    };
    Counts {
        references: *references,
        misses: [references[0] - load_hits, references[1] - store_hits],
        cold: cold[0] + cold[1],
        writebacks,
        resident_dirty,
    }
}

fn below(bins: &[Bin], value: usize) -> u64 {
    let value = value as u64;
    assert!(bins.iter().all(|bin| bin.hi <= value || bin.lo >= value), "{value} lies within a bin");
    bins.iter().filter(|bin| bin.hi <= value).map(|bin| bin.count).sum()
}

/// The histograms of all references of a profile of one process and one tag: the global stack, or the only slot's.
///
/// # Panics
/// There is no such stack, or there are several.
#[must_use]
pub fn all(profile: &Profile, line_bytes: u32) -> &Histograms {
    let [process] = profile.processes.as_slice() else { panic!("{} processes", profile.processes.len()) };
    let line = process.lines.iter().find(|line| line.line_bytes == line_bytes).expect("the line size was recorded");
    all_of(line)
}

/// As [`all`], of one line size.
///
/// # Panics
/// As [`all`].
#[must_use]
pub fn all_of(line: &LineData) -> &Histograms {
    let owner = line.stacks.iter().map(|stack| stack.owner).max().expect("there are references");
    assert!(owner == Owner::Global || owner == Owner::Slot(0), "several slots need a global stack");
    let mut of_owner = line.stacks.iter().filter(|stack| stack.owner == owner);
    let only = of_owner.next().expect("found above");
    assert!(of_owner.next().is_none(), "several tags");
    &only.histograms
}

//! The engine's histograms as profile types. The two are kept apart so that the engine can change without the file.

use bf_profile::{Bin, FullHistograms, Histograms, SetHistograms};
use bf_stack::Binned;

pub(crate) fn histograms(from: bf_stack::Histograms) -> Histograms {
    let [loads, stores] = from.full.distances.map(bins);
    let full =
        FullHistograms { loads, stores, writebacks: bins(from.full.writebacks), resident: bins(from.full.resident) };
    let sets = from.sets.into_iter().map(|set| {
        let [loads, stores] = set.distances;
        SetHistograms { loads, stores, capacity: set.capacity, writebacks: set.writebacks, resident: set.resident }
    });
    Histograms { references: from.references, cold: from.cold, full, sets: sets.collect() }
}

fn bins(from: Vec<Binned>) -> Vec<Bin> {
    from.into_iter().map(|bin| Bin { lo: bin.lo, hi: bin.hi, count: bin.count }).collect()
}

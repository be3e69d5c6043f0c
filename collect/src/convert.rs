//! The engine's histograms as profile types. The two are kept apart so that the engine can change without the file.

use bf_profile::{Bin, ByPosition, Coherence, FullHistograms, Histograms, SetHistograms};
use bf_stack::{Binned, Stack};

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

/// What sharing did to the stack of `slot`, one entry a tag.
pub(crate) fn coherence(slot: u32, stack: &Stack, max_set_bits: u32) -> impl Iterator<Item = Coherence> {
    let positions = move |from: bf_stack::ByPosition| {
        let mut sets = from.sets;
        sets.resize(max_set_bits as usize, Vec::new());
        ByPosition { full: bins(from.full), sets }
    };
    stack.shared().into_iter().map(move |(bucket, shared)| Coherence {
        slot,
        tag: u32::from(bucket.0) - 1,
        lost: positions(shared.lost),
        received: positions(shared.received),
        sent: positions(shared.sent),
        remote: positions(shared.remote),
        own: positions(shared.own),
        dirty: positions(shared.dirty),
    })
}

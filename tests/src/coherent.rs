//! Private caches of several threads simulated one configuration at a time: write-back, write-allocate, write-invalidate,
//! LRU. Real caches with ways that can be empty; no stack in it.

use std::collections::{BTreeMap, HashMap};

use bf_collect::Access;

use crate::oracle::{Shape, lines};

/// What the cache of one thread counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References.
    pub references: u64,
    /// Those that missed.
    pub misses: u64,
    /// Misses of lines that this thread never referenced before.
    pub cold: u64,
    /// Misses of lines that left this cache last by an invalidation.
    pub coherence: u64,
    /// Lines it held that another thread's store removed.
    pub invalidations: u64,
    /// Lines of other caches that this thread's stores removed.
    pub sent: u64,
    /// Misses of lines that some other cache held at that moment.
    pub remote: u64,
    /// References of other threads to lines that were dirty here at that moment; they are clean here afterwards.
    pub dirty_transfers: u64,
}

/// A line in a way.
#[derive(Clone, Copy, Debug)]
struct Held {
    line: u64,
    dirty: bool,
    /// When it was referenced last.
    used: u64,
}

/// The cache of one thread.
#[derive(Debug)]
struct Cache {
    shape: Shape,
    /// Ways of the sets that were ever touched.
    sets: HashMap<u64, Vec<Option<Held>>>,
    /// Lines ever referenced, and whether the last that happened to them here was an invalidation.
    known: HashMap<u64, bool>,
    counts: Counts,
}

impl Cache {
    fn new(shape: Shape) -> Self {
        Self { shape, sets: HashMap::new(), known: HashMap::new(), counts: Counts::default() }
    }

    fn set(&mut self, line: u64) -> &mut Vec<Option<Held>> {
        let Shape { sets, ways, .. } = self.shape;
        self.sets.entry(line % sets).or_insert_with(|| vec![None; ways])
    }

    /// The way that holds the line.
    fn find(&mut self, line: u64) -> Option<&mut Option<Held>> {
        self.set(line).iter_mut().find(|way| way.is_some_and(|held| held.line == line))
    }

    /// Another thread references the line; returns whether it was here.
    fn snoop(&mut self, line: u64, store: bool) -> bool {
        let Some(way) = self.find(line) else { return false };
        let dirty = way.is_some_and(|held| held.dirty);
        *way = if store { None } else { way.map(|held| Held { dirty: false, ..held }) };
        self.counts.dirty_transfers += u64::from(dirty);
        if store {
            self.counts.invalidations += 1;
            self.known.insert(line, true);
        }
        true
    }

    /// The own thread references the line, which `elsewhere` other caches held.
    fn reference(&mut self, line: u64, store: bool, elsewhere: u64, now: u64) {
        self.counts.references += 1;
        self.counts.sent += if store { elsewhere } else { 0 };
        let known = self.known.insert(line, false);
        if let Some(Some(held)) = self.find(line) {
            (held.used, held.dirty) = (now, held.dirty || store);
            return;
        }
        self.counts.misses += 1;
        self.counts.remote += u64::from(elsewhere > 0);
        self.counts.cold += u64::from(known.is_none());
        self.counts.coherence += u64::from(known == Some(true));
        let set = self.set(line);
        // An empty way has no last use, and comes first.
        let way = set.iter_mut().min_by_key(|way| way.map(|held| held.used)).expect("there are ways");
        *way = Some(Held { line, dirty: store, used: now });
    }
}

/// A private cache of this shape for each thread, fed with all `accesses` in order.
#[must_use]
pub fn simulate(shape: Shape, accesses: impl IntoIterator<Item = (u32, Access)>) -> BTreeMap<u32, Counts> {
    let mut caches: BTreeMap<u32, Cache> = BTreeMap::new();
    let mut now = 0;
    for (thread, access) in accesses {
        caches.entry(thread).or_insert_with(|| Cache::new(shape));
        for line in lines(access, shape.line) {
            now += 1;
            let mut elsewhere = 0;
            for (_, other) in caches.iter_mut().filter(|(other, _)| **other != thread) {
                elsewhere += u64::from(other.snoop(line, access.store));
            }
            if let Some(own) = caches.get_mut(&thread) {
                own.reference(line, access.store, elsewhere, now);
            }
        }
    }
    caches.into_iter().map(|(thread, cache)| (thread, cache.counts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ways: usize, trace: &[(u32, u64, bool)]) -> Vec<Counts> {
        let accesses = trace.iter().map(|&(t, line, store)| (t, Access { address: line * 64, size: 8, store }));
        simulate(Shape { line: 64, sets: 1, ways }, accesses).into_values().collect()
    }

    #[test]
    fn a_line_that_is_stored_by_turns() {
        let [zero, one] = run(1, &[(0, 5, true), (1, 5, true), (0, 5, false), (0, 5, false)])[..] else { panic!() };
        let want = Counts { references: 3, misses: 2, cold: 1, coherence: 1, remote: 1, ..Counts::default() };
        assert_eq!(zero, Counts { invalidations: 1, dirty_transfers: 1, ..want });
        assert_eq!(
            one,
            Counts { references: 1, misses: 1, cold: 1, sent: 1, remote: 1, dirty_transfers: 1, ..Counts::default() }
        );
    }

    #[test]
    fn a_table_that_nobody_writes() {
        for counts in run(2, &[(0, 1, false), (1, 1, false), (1, 2, false), (0, 1, false)]) {
            assert_eq!((counts.invalidations, counts.sent, counts.coherence, counts.dirty_transfers), (0, 0, 0, 0));
        }
    }

    #[test]
    fn an_emptied_way_is_filled_before_anything_is_evicted() {
        // Of lines 1 and 2 the second is taken away; then 3 comes, and 1 must still be there.
        let counts = run(2, &[(0, 1, false), (0, 2, false), (1, 2, true), (0, 3, false), (0, 1, false), (0, 2, false)]);
        assert_eq!((counts[0].misses, counts[0].coherence, counts[0].remote), (4, 1, 1));
    }
}

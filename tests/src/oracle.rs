//! Caches simulated one at a time, as a textbook draws them: what every number of the model is compared with.

use std::collections::HashSet;

use bf_collect::Access;

/// A write-back, write-allocate LRU cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Line size, bytes.
    pub line: u64,
    /// Sets, any number above 0; a line lies in set `line % sets`.
    pub sets: u64,
    /// Ways.
    pub ways: usize,
}

/// What a cache counted. Pairs are loads, then stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References.
    pub references: [u64; 2],
    /// Those that missed.
    pub misses: [u64; 2],
    /// Misses of lines never referenced before.
    pub cold: u64,
    /// Dirty lines evicted.
    pub writebacks: u64,
    /// Dirty lines still there.
    pub resident_dirty: u64,
}

impl Counts {
    /// Load and store misses together.
    #[must_use]
    pub const fn all_misses(&self) -> u64 {
        self.misses[0] + self.misses[1]
    }
}

/// What became of one reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The line was there.
    pub hit: bool,
    /// The dirty line that had to leave for it.
    pub written_back: Option<u64>,
}

/// The state of one cache.
#[derive(Clone, Debug)]
pub struct Cache {
    shape: Shape,
    /// Lines of each set with their dirty bit, most recent first.
    sets: Vec<Vec<(u64, bool)>>,
    seen: HashSet<u64>,
    counts: Counts,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let sets = vec![Vec::with_capacity(shape.ways.min(64)); shape.sets as usize];
        Self { shape, sets, seen: HashSet::new(), counts: Counts::default() }
    }

    /// Its counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let resident_dirty = self.sets.iter().flatten().filter(|(_, dirty)| *dirty).count() as u64;
        Counts { resident_dirty, ..self.counts }
    }

    /// One reference to a line by its number.
    pub fn reference(&mut self, line: u64, store: bool) -> Outcome {
        self.request(line, store, store)
    }

    /// A reference that leaves the line dirty or not, whatever its kind.
    fn request(&mut self, line: u64, store: bool, dirty: bool) -> Outcome {
        self.counts.references[usize::from(store)] += 1;
        let outcome = self.touch(line, dirty);
        if !outcome.hit {
            self.counts.misses[usize::from(store)] += 1;
            self.counts.cold += u64::from(self.seen.insert(line));
        }
        outcome
    }

    /// Moves the line to the top of its set, makes room for it if it was not there, and counts only what that evicts.
    fn touch(&mut self, line: u64, mut dirty: bool) -> Outcome {
        let set = &mut self.sets[(line % self.shape.sets) as usize];
        let found = set.iter().position(|&(other, _)| other == line);
        let mut victim = None;
        match found {
            Some(position) => dirty |= set.remove(position).1,
            None if set.len() == self.shape.ways => victim = set.pop(),
            None => {}
        }
        set.insert(0, (line, dirty));
        let written_back = victim.filter(|(_, dirty)| *dirty).map(|(line, _)| line);
        self.counts.writebacks += u64::from(written_back.is_some());
        Outcome { hit: found.is_some(), written_back }
    }
}

/// One cache fed with all `accesses` in order.
#[must_use]
pub fn simulate(shape: Shape, accesses: impl IntoIterator<Item = Access>) -> Counts {
    let mut cache = Cache::new(shape);
    for access in accesses {
        for line in lines(access, shape.line) {
            cache.reference(line, access.store);
        }
    }
    cache.counts()
}

/// The lines of `size` bytes that an access overlaps.
pub fn lines(access: Access, size: u64) -> impl Iterator<Item = u64> {
    access.address / size..=(access.address + access.size - 1) / size
}

/// What a level of a [`Hierarchy`] hears of the level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Its misses, each a reference of the same kind.
    Misses,
    /// Its misses, which leave the line clean, and after each miss the write-back that it caused: that one moves its
    /// line to the top of the set and makes it dirty, allocates it where it is missing, and is no reference.
    MissesAndWritebacks,
}

/// Caches of one line size in a row, each of which sees only what the level above did not have: what a real machine
/// does and the model approximates. Neither inclusive nor exclusive.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    line: u64,
    feed: Feed,
    levels: Vec<Cache>,
}

impl Hierarchy {
    /// Empty caches of these shapes, nearest first.
    ///
    /// # Panics
    /// They are of several line sizes, or there are none.
    #[must_use]
    pub fn new(shapes: &[Shape], feed: Feed) -> Self {
        let line = shapes[0].line;
        assert!(shapes.iter().all(|shape| shape.line == line), "one line size");
        Self { line, feed, levels: shapes.iter().map(|&shape| Cache::new(shape)).collect() }
    }

    /// One access.
    pub fn access(&mut self, access: Access) {
        for line in lines(access, self.line) {
            self.reference(0, line, access.store);
        }
    }

    fn reference(&mut self, level: usize, line: u64, store: bool) {
        let dirty = store && (level == 0 || self.feed == Feed::Misses);
        let Outcome { hit, written_back } = self.levels[level].request(line, store, dirty);
        if !hit && level + 1 < self.levels.len() {
            self.reference(level + 1, line, store);
        }
        if let Some(victim) = written_back.filter(|_| self.feed == Feed::MissesAndWritebacks) {
            self.write_back(level + 1, victim);
        }
    }

    fn write_back(&mut self, from: usize, mut line: u64) {
        for level in &mut self.levels[from..] {
            match level.touch(line, true).written_back {
                Some(next) => line = next,
                None => return,
            }
        }
    }

    /// The counts of each level, nearest first.
    #[must_use]
    pub fn counts(&self) -> Vec<Counts> {
        self.levels.iter().map(Cache::counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(lines: &[(u64, bool)]) -> impl Iterator<Item = Access> {
        lines.iter().map(|&(line, store)| Access { address: line * 64, size: 8, store })
    }

    #[test]
    fn the_example_of_the_model() {
        let (a, b, c) = ((0, false), (1, false), (2, false));
        let hits = [1, 2, 4].map(|ways| {
            let counts = simulate(Shape { line: 64, sets: 1, ways }, trace(&[a, a, b, a, c, b, a]));
            7 - counts.all_misses()
        });
        assert_eq!(hits, [1, 2, 4]);
    }

    #[test]
    fn a_dirty_line_is_written_back_once() {
        let counts =
            simulate(Shape { line: 64, sets: 1, ways: 1 }, trace(&[(0, true), (1, false), (0, false), (1, true)]));
        let want = Counts { references: [2, 2], misses: [2, 2], cold: 2, writebacks: 1, resident_dirty: 1 };
        assert_eq!(counts, want);
    }

    #[test]
    fn a_lower_level_sees_only_misses() {
        let shapes = [1, 2].map(|ways| Shape { line: 64, sets: 1, ways });
        let run = |feed| {
            let mut hierarchy = Hierarchy::new(&shapes, feed);
            trace(&[(0, true), (0, false), (1, false), (2, false), (0, false)]).for_each(|a| hierarchy.access(a));
            hierarchy.counts()
        };
        let below = run(Feed::Misses)[1];
        assert_eq!((below.references, below.misses, below.writebacks), ([3, 1], [3, 1], 1));
        // The write-back of line 0 comes after the miss of line 1 that caused it, so line 1 is the one to leave.
        let below = run(Feed::MissesAndWritebacks)[1];
        assert_eq!((below.references, below.misses, below.writebacks), ([3, 1], [2, 1], 0));
    }
}

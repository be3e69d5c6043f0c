//! Brute force: the LRU caches that the engine answers for, simulated one by one, and no more knowledge than that.
//!
//! For 2^1 .. 2^16 sets each set is an array of its [`WAYS`] most recent lines in order of recency. Where a line stands is
//! its distance; a line that is not there, though seen before, is at least [`WAYS`] deep. For one set the distance is the
//! number of marks after the line's last reference on a time axis that marks the last reference of every line.

use bf_stack::{Histograms, Reference, SetCounts};
use std::collections::HashMap;

/// Distances below this are told apart.
pub const WAYS: usize = 64;
/// Set counts 2^1 ..= 2^this.
const SET_BITS: usize = 16;
const EMPTY: u64 = u64::MAX;

/// All the caches.
pub struct Brute {
    caches: Vec<Cache>,
    counts: Counts,
    lines: HashMap<u64, Line>,
    axis: Axis,
}

/// All caches of one set count.
struct Cache {
    mask: u64,
    /// [`WAYS`] lines for each set, most recent first.
    lines: Vec<u64>,
    /// For each the greatest distance since its last store.
    greatest: Vec<u8>,
    distances: [[u64; WAYS + 1]; 2],
    capacity: [u64; WAYS + 1],
    writebacks: [u64; WAYS + 1],
}

#[derive(Default)]
struct Counts {
    references: [u64; 2],
    cold: [u64; 2],
    /// By exact distance.
    full: [Vec<u64>; 2],
    writebacks: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Line {
    last: usize,
    greatest: u64,
    stored: bool,
}

/// Marks on a time axis, and how many there are up to some time: a Fenwick tree.
struct Axis {
    sums: Vec<u32>,
    marks: u64,
    now: usize,
}

impl Axis {
    fn new(times: usize) -> Self {
        Self { sums: vec![0; times + 1], marks: 0, now: 0 }
    }

    fn full(&self) -> bool {
        self.now + 1 == self.sums.len()
    }

    fn add(&mut self, time: usize, one: u32) {
        let mut at = time;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(one);
            at += at & at.wrapping_neg();
        }
    }

    /// Marks a new time and returns it.
    fn mark(&mut self) -> usize {
        self.now += 1;
        self.marks += 1;
        self.add(self.now, 1);
        self.now
    }

    fn unmark(&mut self, time: usize) {
        self.marks -= 1;
        self.add(time, u32::MAX);
    }

    /// Marks later than a time.
    fn after(&self, time: usize) -> u64 {
        let (mut at, mut up_to) = (time, 0);
        while at > 0 {
            up_to += u64::from(self.sums[at]);
            at &= at - 1;
        }
        self.marks - up_to
    }
}

impl Cache {
    fn new(set_bits: usize) -> Self {
        let places = WAYS << set_bits;
        Self {
            mask: (1 << set_bits) - 1,
            lines: vec![EMPTY; places],
            greatest: vec![0; places],
            distances: [[0; WAYS + 1]; 2],
            capacity: [0; WAYS + 1],
            writebacks: [0; WAYS + 1],
        }
    }

    /// `full >> a` is the share of a set in d_0; `seen` and `stored` tell of the line what was before.
    fn reference(&mut self, line: u64, store: bool, share: u64, seen: bool, stored: bool) {
        let first = (line & self.mask) as usize * WAYS;
        let lines = &mut self.lines[first..first + WAYS];
        let greatest = &mut self.greatest[first..first + WAYS];
        let found = lines.iter().position(|&other| other == line);
        let distance = found.unwrap_or(WAYS);
        if seen {
            self.distances[usize::from(store)][distance] += 1;
            self.capacity[distance.min(share.min(WAYS as u64) as usize)] += 1;
        }
        // A line that fell out of the array was deeper than all of it since its last store.
        let mut depth = found.map_or(WAYS, |way| distance.max(usize::from(greatest[way])));
        if store {
            if stored {
                self.writebacks[depth] += 1;
            }
            depth = 0;
        }
        let way = found.unwrap_or(WAYS - 1);
        lines.copy_within(..way, 1);
        greatest.copy_within(..way, 1);
        lines[0] = line;
        greatest[0] = if seen { depth as u8 } else { 0 };
    }

    /// The counts of the model; `dirty` are all lines ever stored.
    fn counts<'a>(&self, dirty: impl Iterator<Item = &'a u64>) -> SetCounts {
        let mut resident = [0; WAYS + 1];
        for &line in dirty {
            let first = (line & self.mask) as usize * WAYS;
            let found = self.lines[first..first + WAYS].iter().position(|&other| other == line);
            resident[found.map_or(WAYS, |way| way.max(usize::from(self.greatest[first + way])))] += 1;
        }
        let mut writebacks = self.writebacks;
        writebacks[0] = 0;
        SetCounts {
            distances: self.distances.map(|counts| counts.to_vec()),
            capacity: self.capacity.to_vec(),
            writebacks: writebacks.to_vec(),
            resident: resident.to_vec(),
        }
    }
}

impl Brute {
    /// Empty caches.
    pub fn new() -> Self {
        let caches = (1..=SET_BITS).map(Cache::new).collect();
        Self { caches, counts: Counts::default(), lines: HashMap::new(), axis: Axis::new(1 << 20) }
    }

    /// Takes references in order.
    pub fn feed(&mut self, references: &[Reference]) {
        references.iter().for_each(|one| self.reference(one.line(), one.is_store()));
    }

    fn reference(&mut self, line: u64, store: bool) {
        if self.axis.full() {
            self.renumber();
        }
        self.counts.references[usize::from(store)] += 1;
        let before = self.lines.get(&line).copied();
        let full = before.map_or(0, |known| self.axis.after(known.last));
        let (seen, stored) = (before.is_some(), before.is_some_and(|known| known.stored));
        for (index, cache) in self.caches.iter_mut().enumerate() {
            cache.reference(line, store, full >> (index + 1), seen, stored);
        }
        let mut greatest = 0;
        match before {
            None => self.counts.cold[usize::from(store)] += 1,
            Some(known) => {
                count(&mut self.counts.full[usize::from(store)], full);
                self.axis.unmark(known.last);
                greatest = full.max(known.greatest);
                if store && stored {
                    count(&mut self.counts.writebacks, greatest);
                }
            }
        }
        let greatest = if store { 0 } else { greatest };
        self.lines.insert(line, Line { last: self.axis.mark(), greatest, stored: stored || store });
    }

    /// Moves all marks together and leaves as much room after them.
    fn renumber(&mut self) {
        let mut lines: Vec<_> = self.lines.values_mut().collect();
        lines.sort_unstable_by_key(|line| line.last);
        self.axis = Axis::new((4 * lines.len()).max(1 << 20));
        for line in lines {
            line.last = self.axis.mark();
        }
    }

    /// What differs in the histograms of an engine, in words, the first ones.
    pub fn differences(&self, other: &Histograms) -> Vec<String> {
        let mut found = Vec::new();
        let mut same = |what: String, here: u64, there: u64| {
            if here != there {
                found.push(format!("{what}: brute force {here}, engine {there}"));
            }
        };
        for (kind, name) in ["loads", "stores"].into_iter().enumerate() {
            same(name.to_owned(), self.counts.references[kind], other.references[kind]);
            same(format!("cold {name}"), self.counts.cold[kind], other.cold[kind]);
        }
        let mut resident = Vec::new();
        let dirty: Vec<u64> = self.lines.iter().filter(|(_, known)| known.stored).map(|(&line, _)| line).collect();
        for known in self.lines.values().filter(|known| known.stored) {
            count(&mut resident, known.greatest.max(self.axis.after(known.last)));
        }
        let mut writebacks = self.counts.writebacks.clone();
        writebacks.iter_mut().take(1).for_each(|count| *count = 0);
        let [loads, stores] = &self.counts.full;
        let [other_loads, other_stores] = &other.full.distances;
        for (name, here, there) in [
            ("F loads", loads, other_loads),
            ("F stores", stores, other_stores),
            ("B", &writebacks, &other.full.writebacks),
            ("resident", &resident, &other.full.resident),
        ] {
            same(format!("{name}, one set, all"), here.iter().sum(), there.iter().map(|bin| bin.count).sum());
            for bin in there {
                let values = here.iter().take(bin.hi as usize).skip(bin.lo as usize);
                same(format!("{name}, one set, {} to {}", bin.lo, bin.hi - 1), values.sum(), bin.count);
            }
        }
        same("set counts".to_owned(), self.caches.len() as u64, other.sets.len() as u64);
        for (index, (cache, there)) in self.caches.iter().zip(&other.sets).enumerate() {
            let here = cache.counts(dirty.iter());
            for (name, here, there) in [
                ("F loads", &here.distances[0], &there.distances[0]),
                ("F stores", &here.distances[1], &there.distances[1]),
                ("min(d_a, d_0 >> a)", &here.capacity, &there.capacity),
                ("B", &here.writebacks, &there.writebacks),
                ("resident", &here.resident, &there.resident),
            ] {
                for (value, &here) in here.iter().enumerate() {
                    let there = there.get(value).copied().unwrap_or(0);
                    same(format!("{name}, 2^{} sets, {value}", index + 1), here, there);
                }
            }
        }
        found
    }
}

fn count(counts: &mut Vec<u64>, value: u64) {
    let index = value as usize;
    if index >= counts.len() {
        counts.resize((index + 1).next_power_of_two(), 0);
    }
    counts[index] += 1;
}

//! Counters of one bucket, and the histograms they become.

use crate::repeats::{Combination, Kind, Repeats};
use crate::{Bucket, Limits, boxed};

/// The counts of one stack under one bucket, as sections 2 to 4 of the model define them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// References by loads and by stores.
    pub references: [u64; 2],
    /// Those to lines never referenced before, by loads and by stores.
    pub cold: [u64; 2],
    /// One set, unbounded.
    pub full: FullCounts,
    /// 2^1 ..= 2^max_set_bits sets; index 0 is two sets.
    pub sets: Vec<SetCounts>,
}

/// Values `lo <= v < hi` and their count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binned {
    /// Least value.
    pub lo: u64,
    /// One past the greatest.
    pub hi: u64,
    /// How many.
    pub count: u64,
}

/// Histograms for one set: bins ascending, no empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullCounts {
    /// `F_0` by loads and by stores.
    pub distances: [Vec<Binned>; 2],
    /// `B_0` counted at stores; value 0 left out.
    pub writebacks: Vec<Binned>,
    /// `max(m, depth now)` of every line ever stored, value 0 included.
    pub resident: Vec<Binned>,
}

/// Histograms for 2^a sets, a >= 1: index d below `max_ways` is the distance, index `max_ways` all from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// `F_a` by loads and by stores.
    pub distances: [Vec<u64>; 2],
    /// Count by `min(d_a, d_0 >> a)`.
    pub capacity: Vec<u64>,
    /// `B_a` counted at stores; index 0 left out.
    pub writebacks: Vec<u64>,
    /// `max(m, depth now)` of every line ever stored, index 0 included.
    pub resident: Vec<u64>,
}

/// An unbounded histogram: exact below 512, above with an edge at every multiple of 2^(k-8) in [2^k, 2^(k+1)).
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins(Vec<u64>);

impl Bins {
    const EXACT: u64 = 512;

    fn index(value: u64) -> usize {
        if value < Self::EXACT {
            return value as usize;
        }
        let k = value.ilog2();
        (Self::EXACT + u64::from(k - 9) * 256 + ((value >> (k - 8)) - 256)) as usize
    }

    fn edges(index: usize) -> (u64, u64) {
        let index = index as u64;
        if index < Self::EXACT {
            return (index, index + 1);
        }
        let k = 9 + (index - Self::EXACT) / 256;
        let step = 1 << (k - 8);
        let lo = (256 + (index - Self::EXACT) % 256) * step;
        (lo, lo + step)
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        let index = Self::index(value);
        if index >= self.0.len() {
            self.0.resize((index + 1).next_power_of_two(), 0);
        }
        self.0[index] += weight;
    }

    /// Sets the count of value 0 so that all counts sum to `total`.
    fn complete(&mut self, total: u64) {
        let zeros = total - self.0.iter().skip(1).sum::<u64>();
        if zeros > 0 {
            self.add(0, 0);
            self.0[0] = zeros;
        }
    }

    pub(crate) fn binned(&self) -> Vec<Binned> {
        let filled = self.0.iter().enumerate().filter(|&(_, &count)| count > 0);
        filled
            .map(|(index, &count)| {
                let (lo, hi) = Self::edges(index);
                Binned { lo, hi, count }
            })
            .collect()
    }
}

/// So many more misses than hits, and a table is left alone for the rest of a batch.
const PATIENCE: u32 = 64;

/// Counts by a value up to 255. Not 256 of them: rows a power of two apart would share few places in the cache.
type Row = [u64; ROW];
const ROW: usize = 256 + 8;

/// A row for each set count but one set.
type Cells<const W: usize> = Box<[Row; W]>;

fn cells<const W: usize>() -> Cells<W> {
    boxed::array([0; ROW])
}

/// The running counters of one bucket. Value 0 of a distance means nothing while running: most references have it at
/// most set counts, and it follows from the totals.
#[derive(Clone, Debug)]
pub(crate) struct Counts<const W: usize> {
    limits: Limits,
    pub(crate) references: [u64; 2],
    pub(crate) cold: [u64; 2],
    /// References that found their line taken away by another thread's store: no distance either.
    pub(crate) lost: [u64; 2],
    /// Loads, stores and write-backs, as the next.
    full: [Bins; Kind::ALL.len()],
    by_set: [Cells<W>; Kind::ALL.len()],
    /// Loads and stores by `min(d_a, d_0 >> a)`.
    capacity: Cells<W>,
    /// What is still to be counted.
    near: Repeats<W, 4096>,
    far: Repeats<W, 1024>,
    waiting: Vec<Combination<W>>,
    patience: u32,
}

impl<const W: usize> Counts<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            references: [0; 2],
            cold: [0; 2],
            lost: [0; 2],
            full: Default::default(),
            by_set: Kind::ALL.map(|_| cells()),
            capacity: cells(),
            near: Repeats::new(),
            far: Repeats::new(),
            waiting: Vec::new(),
            patience: PATIENCE,
        }
    }

    /// Counts `weight` times: for loads and stores that are not cold, `full` is d_0 and `by_set[a - 1]` is d_a; for
    /// write-backs they are the greatest since the last store. Those by set are cut off at `max_ways` or beyond, and set
    /// counts that are not kept may follow. For values of `full` up to some hundreds, which are alike in most programs.
    #[inline(always)]
    pub(crate) fn add_near(&mut self, kind: Kind, full: u32, by_set: &[u8; W], weight: u64) {
        if let Some(other) = self.near.add(Combination { by_set: *by_set, full, kind, weight }) {
            self.waiting.push(other);
        }
    }

    /// The same for other values, which are alike in some programs only: where they are not this gives up until
    /// [`Counts::spread`].
    #[inline(always)]
    pub(crate) fn add_far(&mut self, kind: Kind, full: u32, by_set: &[u8; W], weight: u64) {
        let combination = Combination { by_set: *by_set, full, kind, weight };
        if self.patience == 0 {
            return self.waiting.push(combination);
        }
        match self.far.add(combination) {
            None => self.patience = (self.patience + 1).min(PATIENCE),
            Some(other) => {
                self.patience -= 1;
                self.waiting.push(other);
            }
        }
    }

    /// Counts what waits for it: to be called after each batch.
    #[inline(always)]
    pub(crate) fn spread(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for combination in &waiting {
            self.spread_one(combination);
        }
        self.waiting = waiting;
        self.waiting.clear();
        self.patience = PATIENCE;
    }

    /// Counts at each set count.
    #[inline(always)]
    fn spread_one(&mut self, &Combination { by_set, full, kind, weight }: &Combination<W>) {
        self.full[kind as usize].add(u64::from(full), weight);
        for (cells, d) in self.by_set[kind as usize].iter_mut().zip(by_set) {
            cells[usize::from(d)] += weight;
        }
        if kind != Kind::Writeback {
            let even: [u8; W] = std::array::from_fn(|index| (full >> (index + 1)).min(255) as u8);
            for ((cells, even), d) in self.capacity.iter_mut().zip(even).zip(by_set) {
                cells[usize::from(even.min(d))] += weight;
            }
        }
    }

    /// The histograms, given the end-of-run part.
    fn histograms(mut self, resident: Option<&Resident>) -> Histograms {
        let held = self.near.all().chain(self.far.all());
        self.waiting.extend(held);
        self.spread();
        let warm = [0, 1].map(|kind| self.references[kind] - self.cold[kind] - self.lost[kind]);
        let [loads, stores, writebacks] = &mut self.full;
        loads.complete(warm[0]);
        stores.complete(warm[1]);
        let full = FullCounts {
            distances: [loads.binned(), stores.binned()],
            writebacks: writebacks.binned(),
            resident: resident.map_or_else(Vec::new, |r| r.full.binned()),
        };
        let [loads, stores, writebacks] = &self.by_set;
        let ways = self.limits.max_ways as usize;
        let sets = (0..self.limits.max_set_bits as usize).map(|index| SetCounts {
            distances: [row(&loads[index], ways, Some(warm[0])), row(&stores[index], ways, Some(warm[1]))],
            capacity: row(&self.capacity[index], ways, Some(warm[0] + warm[1])),
            writebacks: row(&writebacks[index], ways, None),
            resident: resident.map_or_else(Vec::new, |r| row(&r.sets[index], ways, Some(r.lines))),
        });
        Histograms { references: self.references, cold: self.cold, full, sets: sets.collect() }
    }
}

/// The cells of one set count: 1 .. ways as they are, all from there on together, and 0 such that the sum is `total`.
fn row(cells: &Row, ways: usize, total: Option<u64>) -> Vec<u64> {
    let mut row = cells[..=ways].to_vec();
    row[ways] = cells[ways..].iter().sum();
    row[0] = 0;
    row[0] = total.map_or(0, |total| total - row.iter().sum::<u64>());
    row.truncate(row.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
    row
}

/// The end-of-run part of one bucket: lines whose last store was counted in it, by `max(m, depth now)`.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    lines: u64,
    full: Bins,
    sets: Vec<Row>,
}

impl Resident {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { lines: 0, full: Bins::default(), sets: vec![[0; ROW]; limits.max_set_bits as usize] }
    }

    pub(crate) fn line(&mut self, full: u64, by_set: &[u8]) {
        self.lines += 1;
        self.full.add(full, 1);
        for (cells, &v) in self.sets.iter_mut().zip(by_set) {
            cells[usize::from(v)] += 1;
        }
    }
}

/// Counters of all buckets, made when first used.
#[derive(Clone, Debug)]
pub(crate) struct Buckets<const W: usize> {
    limits: Limits,
    counts: Vec<Option<Box<Counts<W>>>>,
}

impl<const W: usize> Buckets<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, counts: Vec::new() }
    }

    /// The counters of a counted bucket; `None` for [`Bucket::UNCOUNTED`].
    pub(crate) fn of(&mut self, bucket: Bucket) -> Option<&mut Counts<W>> {
        if bucket == Bucket::UNCOUNTED {
            return None;
        }
        let index = usize::from(bucket.0) - 1;
        if index >= self.counts.len() {
            self.counts.resize_with(index + 1, || None);
        }
        let limits = self.limits;
        Some(self.counts[index].get_or_insert_with(|| Box::new(Counts::new(limits))))
    }

    /// The counters of a counted bucket, for a batch to count in; to be [`Buckets::put`] back.
    pub(crate) fn take(&mut self, bucket: Bucket) -> Option<Box<Counts<W>>> {
        self.of(bucket)?;
        self.counts[usize::from(bucket.0) - 1].take()
    }

    pub(crate) fn put(&mut self, bucket: Bucket, counts: Option<Box<Counts<W>>>) {
        if counts.is_some() {
            self.counts[usize::from(bucket.0) - 1] = counts;
        }
    }

    /// All histograms; `resident[b]` is the end-of-run part of bucket b, `Bucket::UNCOUNTED` included.
    pub(crate) fn histograms(&self, resident: &[Option<Resident>]) -> Vec<(Bucket, Histograms)> {
        let used = self.counts.iter().enumerate().filter_map(|(i, counts)| Some((i + 1, counts.as_ref()?)));
        used.map(|(b, counts)| (Bucket(b as u8), counts.clone().histograms(resident.get(b).and_then(Option::as_ref))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bin_holds_its_values_and_has_the_edges_of_the_model(value in 0u64..1 << 60) {
            let (lo, hi) = Bins::edges(Bins::index(value));
            prop_assert!(lo <= value && value < hi);
            if value < 512 {
                prop_assert_eq!((lo, hi), (value, value + 1));
            } else {
                let step = 1 << (value.ilog2() - 8);
                prop_assert_eq!(lo, value / step * step);
                prop_assert_eq!(hi - lo, step);
            }
        }
    }

    #[test]
    fn bins_lie_side_by_side() {
        for index in 0..8000 {
            assert_eq!(Bins::edges(index).1, Bins::edges(index + 1).0);
        }
    }
}

//! Counters of one bucket, and the histograms they become.

use crate::{Bucket, Limits};

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

    pub(crate) fn add(&mut self, value: u64) {
        let index = Self::index(value);
        if index >= self.0.len() {
            self.0.resize((index + 1).next_power_of_two(), 0);
        }
        self.0[index] += 1;
    }

    /// Sets the count of value 0 so that all counts sum to `total`.
    fn complete(&mut self, total: u64) {
        let zeros = total - self.0.iter().skip(1).sum::<u64>();
        if zeros > 0 {
            self.add(0);
            self.0[0] = zeros;
        }
    }

    fn binned(&self) -> Vec<Binned> {
        let filled = self.0.iter().enumerate().filter(|&(_, &count)| count > 0);
        filled
            .map(|(index, &count)| {
                let (lo, hi) = Self::edges(index);
                Binned { lo, hi, count }
            })
            .collect()
    }
}

/// The running counters of one bucket. Value 0 of a distance is never counted while running: most references have it
/// at most set counts, and it follows from the totals.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    limits: Limits,
    pub(crate) references: [u64; 2],
    pub(crate) cold: [u64; 2],
    full: [Bins; 2],
    full_writebacks: Bins,
    distances: [Vec<u64>; 2],
    /// What to add, modulo 2^64, to `distances` of both kinds to get the count by `min(d_a, d_0 >> a)`: most references
    /// have `d_a <= d_0 >> a`, so that nothing is to be added.
    capacity: Vec<u64>,
    writebacks: Vec<u64>,
}

impl Counts {
    pub(crate) fn new(limits: Limits) -> Self {
        let cells = vec![0; limits.max_set_bits as usize * (limits.max_ways as usize + 1)];
        Self {
            limits,
            references: [0; 2],
            cold: [0; 2],
            full: [Bins::default(), Bins::default()],
            full_writebacks: Bins::default(),
            distances: [cells.clone(), cells.clone()],
            capacity: cells.clone(),
            writebacks: cells,
        }
    }

    fn row(&self) -> usize {
        self.limits.max_ways as usize + 1
    }

    /// Counts a reference that is not cold and not on top: `full` is d_0, `by_set[a - 1]` is d_a for as many a as are
    /// not 0, cut off at `max_ways` or beyond.
    #[inline(always)]
    pub(crate) fn distance(&mut self, store: bool, full: u64, by_set: &[u8]) {
        self.full[usize::from(store)].add(full);
        let row = self.row();
        let rows = self.distances[usize::from(store)].chunks_exact_mut(row).zip(self.capacity.chunks_exact_mut(row));
        for ((cells, capacity), (index, &d)) in rows.zip(by_set.iter().enumerate()) {
            let d = usize::from(d).min(row - 1);
            cells[d] += 1;
            let even = full >> (index + 1);
            if even < d as u64 {
                capacity[d] = capacity[d].wrapping_sub(1);
                capacity[even as usize] = capacity[even as usize].wrapping_add(1);
            }
        }
    }

    /// Counts a dirty interval closed by a store: its greatest distances, as for [`Counts::distance`].
    #[inline(always)]
    pub(crate) fn writeback(&mut self, full: u64, by_set: &[u8]) {
        self.full_writebacks.add(full);
        let row = self.row();
        for (cells, &v) in self.writebacks.chunks_exact_mut(row).zip(by_set) {
            cells[usize::from(v).min(row - 1)] += 1;
        }
    }

    /// The histograms, given the end-of-run part.
    pub(crate) fn histograms(&self, resident: Option<&Resident>) -> Histograms {
        let warm = [0, 1].map(|kind| self.references[kind] - self.cold[kind]);
        let full = [0, 1].map(|kind| {
            let mut bins = self.full[kind].clone();
            bins.complete(warm[kind]);
            bins.binned()
        });
        let [loads, stores] = &self.distances;
        let distances = loads.iter().zip(stores).map(|(loads, stores)| loads + stores);
        let capacity: Vec<_> = distances.zip(&self.capacity).map(|(all, &add)| all.wrapping_add(add)).collect();
        let row = self.row();
        let cells = |all: &[u64], a: usize, total: Option<u64>| {
            let mut cells = all[(a - 1) * row..a * row].to_vec();
            cells[0] = total.map_or(0, |total| total - cells[1..].iter().sum::<u64>());
            cells.truncate(cells.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
            cells
        };
        let sets = (1..=self.limits.max_set_bits as usize).map(|a| SetCounts {
            distances: [0, 1].map(|kind| cells(&self.distances[kind], a, Some(warm[kind]))),
            capacity: cells(&capacity, a, Some(warm[0] + warm[1])),
            writebacks: cells(&self.writebacks, a, None),
            resident: resident.map_or_else(Vec::new, |r| cells(&r.sets, a, Some(r.lines))),
        });
        Histograms {
            references: self.references,
            cold: self.cold,
            full: FullCounts {
                distances: full,
                writebacks: self.full_writebacks.binned(),
                resident: resident.map_or_else(Vec::new, |r| r.full.binned()),
            },
            sets: sets.collect(),
        }
    }
}

/// The end-of-run part of one bucket: lines whose last store was counted in it, by `max(m, depth now)`.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    lines: u64,
    full: Bins,
    sets: Vec<u64>,
    row: usize,
}

impl Resident {
    pub(crate) fn new(limits: Limits) -> Self {
        let row = limits.max_ways as usize + 1;
        Self { lines: 0, full: Bins::default(), sets: vec![0; limits.max_set_bits as usize * row], row }
    }

    pub(crate) fn line(&mut self, full: u64, by_set: &[u8]) {
        self.lines += 1;
        self.full.add(full);
        for (cells, &v) in self.sets.chunks_exact_mut(self.row).zip(by_set) {
            cells[usize::from(v).min(self.row - 1)] += 1;
        }
    }
}

/// Counters of all buckets, made when first used.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    limits: Limits,
    counts: Vec<Option<Box<Counts>>>,
}

impl Buckets {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, counts: Vec::new() }
    }

    /// The counters of a counted bucket; `None` for [`Bucket::UNCOUNTED`].
    pub(crate) fn of(&mut self, bucket: Bucket) -> Option<&mut Counts> {
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
    pub(crate) fn take(&mut self, bucket: Bucket) -> Option<Box<Counts>> {
        self.of(bucket)?;
        self.counts[usize::from(bucket.0) - 1].take()
    }

    pub(crate) fn put(&mut self, bucket: Bucket, counts: Option<Box<Counts>>) {
        if counts.is_some() {
            self.counts[usize::from(bucket.0) - 1] = counts;
        }
    }

    /// All histograms; `resident[b]` is the end-of-run part of bucket b, `Bucket::UNCOUNTED` included.
    pub(crate) fn histograms(&self, resident: &[Option<Resident>]) -> Vec<(Bucket, Histograms)> {
        let used = self.counts.iter().enumerate().filter_map(|(i, counts)| Some((i + 1, counts.as_ref()?)));
        used.map(|(b, counts)| (Bucket(b as u8), counts.histograms(resident.get(b).and_then(Option::as_ref)))).collect()
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

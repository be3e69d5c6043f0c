//! Counters of one bucket, and the histograms they become.

use crate::by_item::ByItem;
use crate::by_line::Mix;
use crate::dense::Dense;
use crate::near::Near;
use crate::repeats::{Combination, Kind, Repeats};
use crate::simd::{Portable, Vector};
use crate::{Bucket, Item, Limits};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

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

/// The counts of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which.
    pub bucket: Bucket,
    /// All of it.
    pub all: Histograms,
    /// What is attributed to each item, ascending; together that is all of it, without [`SetCounts::capacity`]. Empty if
    /// nothing was attributed.
    pub items: Vec<(Item, Histograms)>,
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
    /// Count by `min(d_a, d_0 >> a)`; empty for items.
    pub capacity: Vec<u64>,
    /// `B_a` counted at stores; index 0 left out.
    pub writebacks: Vec<u64>,
    /// `max(m, depth now)` of every line ever stored, index 0 included.
    pub resident: Vec<u64>,
}

/// An unbounded histogram: exact below 512, above with an edge at every multiple of 2^(k-8) in [2^k, 2^(k+1)). In pages,
/// because most items need few of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins(Vec<Option<Box<[u64; PAGE]>>>);

/// Bins of a page.
const PAGE: usize = 64;

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
        match self.0.get_mut(index / PAGE) {
            Some(Some(page)) => page[index % PAGE] += weight,
            _ => self.add_page(index / PAGE)[index % PAGE] += weight,
        }
    }

    #[cold]
    fn add_page(&mut self, page: usize) -> &mut [u64; PAGE] {
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        self.0[page].get_or_insert_with(|| Box::new([0; PAGE]))
    }

    pub(crate) fn merge(&mut self, other: &Self, times: u64) {
        for (number, page) in other.0.iter().enumerate() {
            let Some(page) = page else { continue };
            add(self.add_page(number), &**page, times);
        }
    }

    /// Counts that are not 0, by index.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let pages = self.0.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_deref()?)));
        let counts = pages.flat_map(|(number, page)| (number * PAGE..).zip(page.iter().copied()));
        counts.filter(|&(_, count)| count > 0)
    }

    /// With the count of value 0 such that all counts sum to `total`, if there is one.
    pub(crate) fn binned(&self, total: Option<u64>) -> Vec<Binned> {
        let others: u64 = self.filled().filter(|&(index, _)| index > 0).map(|(_, count)| count).sum();
        let zero = total.map(|total| (0, total - others)).filter(|&(_, count)| count > 0);
        let kept = self.filled().filter(|&(index, _)| index > 0 || total.is_none());
        let bin = |(index, count)| {
            let (lo, hi) = Self::edges(index);
            Binned { lo, hi, count }
        };
        zero.into_iter().chain(kept).map(bin).collect()
    }
}

/// Adds counts so often.
fn add(sums: &mut [u64], counts: &[u64], times: u64) {
    for (sum, &count) in sums.iter_mut().zip(counts) {
        *sum += count * times;
    }
}

/// So many more misses than hits, and a table is left alone for the rest of a batch.
const PATIENCE: u32 = 64;

/// Counts by a value up to `ways`, all from there on together, for each set count but one set. No memory for set counts
/// behind the last one that was counted for.
#[derive(Clone, Debug, Default)]
struct Rows(Vec<u64>);

impl Rows {
    #[inline(always)]
    fn add<const W: usize>(&mut self, by_set: &[u8; W], ways: u8, weight: u64) {
        let (ways, len) = (usize::from(ways), usize::from(ways) + 1);
        for (index, &d) in by_set.iter().enumerate() {
            // Distances do not grow with the number of sets, holes counted or not.
            if d == 0 {
                break;
            }
            match self.0.get_mut(index * len + usize::from(d).min(ways)) {
                Some(count) => *count += weight,
                None => {
                    self.grow(by_set.iter().take_while(|&&d| d > 0).count() * len);
                    self.0[index * len + usize::from(d).min(ways)] += weight;
                }
            }
        }
    }

    /// The same where there are rows for so many set counts, and no distances for more.
    #[inline(always)]
    fn add_all(&mut self, levels: usize, by_set: &[u8; 8], ways: u8, weight: u64) {
        let len = usize::from(ways) + 1;
        // Without a branch where distances end: what is added to value 0 means nothing.
        for (row, &d) in self.0.chunks_exact_mut(len).zip(by_set).take(levels) {
            row[usize::from(d.min(ways))] += weight;
        }
    }

    /// Makes rows for so many set counts.
    fn grow_to(&mut self, levels: usize, ways: u8) {
        let len = levels * (usize::from(ways) + 1);
        if self.0.len() < len {
            self.grow(len);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.0.resize(len.max(self.0.len()), 0);
    }

    /// The same for one set count, by its index.
    fn add_one(&mut self, index: usize, value: usize, ways: u8, weight: u64) {
        let len = usize::from(ways) + 1;
        self.grow_to(index + 1, ways);
        self.0[index * len + value.min(len - 1)] += weight;
    }

    fn merge(&mut self, other: &Self, times: u64) {
        self.grow(other.0.len());
        add(&mut self.0, &other.0, times);
    }

    /// The row of one set count, value 0 such that the sum is `total`; none: it counts for nothing.
    fn row(&self, index: usize, ways: u8, total: Option<u64>) -> Vec<u64> {
        let len = usize::from(ways) + 1;
        let mut row = self.0.get(index * len..(index + 1) * len).map_or_else(|| vec![0], <[u64]>::to_vec);
        row[0] = 0;
        row[0] = total.map_or(0, |total| total - row.iter().sum::<u64>());
        row.truncate(row.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
        row
    }
}

/// The running counters of one item. Value 0 of a distance means nothing while running: most references have it at most
/// set counts, and it follows from the totals.
#[derive(Clone, Debug, Default)]
struct Cells {
    cold: [u64; 2],
    /// References that found their line taken away by another thread's store: no distance either.
    lost: [u64; 2],
    /// Loads, stores and write-backs, as the next.
    full: [Bins; Kind::ALL.len()],
    by_set: [Rows; Kind::ALL.len()],
}

impl Cells {
    #[inline(always)]
    fn add<const W: usize>(&mut self, &Combination { by_set, full, kind, weight, .. }: &Combination<W>, ways: u8) {
        self.full[kind as usize].add(u64::from(full), weight);
        self.by_set[kind as usize].add(&by_set, ways, weight);
    }

    fn merge(&mut self, other: &Self, times: u64) {
        add(&mut self.cold, &other.cold, times);
        add(&mut self.lost, &other.lost, times);
        self.full.iter_mut().zip(&other.full).for_each(|(sum, other)| sum.merge(other, times));
        self.by_set.iter_mut().zip(&other.by_set).for_each(|(sum, other)| sum.merge(other, times));
    }

    fn histograms(
        &self,
        references: [u64; 2],
        resident: Option<&Resident>,
        capacity: Option<&Rows>,
        limits: Limits,
    ) -> Histograms {
        let warm = [0, 1].map(|kind| references[kind] - self.cold[kind] - self.lost[kind]);
        let [loads, stores, writebacks] = &self.full;
        let full = FullCounts {
            distances: [loads.binned(Some(warm[0])), stores.binned(Some(warm[1]))],
            writebacks: writebacks.binned(None),
            resident: resident.map_or_else(Vec::new, |resident| resident.full.binned(None)),
        };
        let [loads, stores, writebacks] = &self.by_set;
        let ways = limits.max_ways as u8;
        let sets = (0..limits.max_set_bits as usize).map(|index| SetCounts {
            distances: [loads.row(index, ways, Some(warm[0])), stores.row(index, ways, Some(warm[1]))],
            capacity: capacity.map_or_else(Vec::new, |rows| rows.row(index, ways, Some(warm[0] + warm[1]))),
            writebacks: writebacks.row(index, ways, None),
            resident: resident.map_or_else(Vec::new, |resident| resident.sets.row(index, ways, Some(resident.lines))),
        });
        Histograms { references, cold: self.cold, full, sets: sets.collect() }
    }
}

/// The running counters of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Counts<const W: usize> {
    limits: Limits,
    /// By item: references by loads and by stores.
    references: Vec<[u64; 2]>,
    /// By item.
    cells: Vec<Option<Box<Cells>>>,
    /// Loads and stores by `min(d_a, d_0 >> a)`.
    capacity: Rows,
    /// What is still to be counted.
    near: Near,
    dense: Dense<W>,
    by_item: ByItem,
    alike: Repeats<W, 4096>,
    far: Repeats<W, 1024>,
    waiting: Vec<Combination<W>>,
    /// What is left of it for either table.
    patience: [u32; 2],
}

impl<const W: usize> Counts<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            references: vec![[0; 2]],
            cells: Vec::new(),
            capacity: Rows::default(),
            near: Near::new(),
            dense: Dense::new(),
            by_item: ByItem::new(),
            alike: Repeats::new(),
            far: Repeats::new(),
            waiting: Vec::new(),
            patience: [PATIENCE; _],
        }
    }

    /// Counts so many references of an item.
    #[inline(always)]
    pub(crate) fn add_references(&mut self, item: Item, store: bool, weight: u64) {
        let item = usize::from(item.0);
        if item >= self.references.len() {
            self.add_items(item);
        }
        let count = &mut self.references[item][usize::from(store)];
        *count = count.wrapping_add(weight);
    }

    #[cold]
    fn add_items(&mut self, last: usize) {
        self.references.resize(last + 1, [0; 2]);
    }

    /// Takes so many references back.
    #[inline(always)]
    pub(crate) fn take_references(&mut self, item: Item, store: bool, weight: u64) {
        self.add_references(item, store, weight.wrapping_neg());
    }

    /// Counts references to a line that was never referenced before, or that was `lost` since.
    #[inline(always)]
    pub(crate) fn add_without_distance(&mut self, item: Item, lost: bool, store: bool, weight: u64) {
        let cells = self.cells(item);
        let which = if lost { &mut cells.lost } else { &mut cells.cold };
        which[usize::from(store)] += weight;
    }

    #[inline(always)]
    fn cells(&mut self, item: Item) -> &mut Cells {
        cells_of(&mut self.cells, item)
    }

    /// Counts `weight` times: for loads and stores that are not cold, `full` is d_0 and `by_set[a - 1]` is d_a; for
    /// write-backs they are the greatest since the last store. Those by set are cut off at `max_ways` or beyond, and set
    /// counts that are not kept may follow. For values of `full` up to some hundreds, which are alike in most programs.
    #[inline(always)]
    pub(crate) fn add_near(&mut self, (kind, item): (Kind, Item), full: u32, by_set: &[u8; W], weight: u64) {
        let near = if item == Item::NONE {
            self.near.add(kind, full, by_set, weight)
        } else {
            self.by_item.add((kind, item), full, by_set, weight)
        };
        if near {
            return;
        }
        let combination = Combination { by_set: *by_set, full, kind, item, weight };
        let waiting = try_table(&mut self.alike, &mut self.patience[0], combination);
        self.waiting.extend(waiting);
    }

    /// The same for other values, which are alike in some programs only.
    #[inline(always)]
    pub(crate) fn add_far(&mut self, combination: Combination<W>) {
        let waiting = try_table(&mut self.far, &mut self.patience[1], combination);
        self.waiting.extend(waiting);
    }

    /// The same where the one before, which is still to be counted, is likely to be alike.
    #[inline(always)]
    pub(crate) fn add_alike(&mut self, before: &mut Combination<W>, combination: Combination<W>) {
        if before.is_like(&combination) {
            before.weight += combination.weight;
            return;
        }
        let before = std::mem::replace(before, combination);
        if before.weight > 0 {
            self.add_far(before);
        }
    }

    /// Counts what waits for it: to be called after each batch.
    #[inline(always)]
    pub(crate) fn spread<V: Vector>(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let ways = self.limits.max_ways as u8;
        for combination in waiting.iter().filter(|combination| combination.weight > 0) {
            let &Combination { full, kind, item, weight, .. } = combination;
            let cells = cells_of(&mut self.cells, item);
            if item == Item::NONE && self.dense.add::<V>(combination) {
                cells.full[kind as usize].add(full.into(), weight);
            } else {
                cells.add(combination, ways);
                add_capacity(&mut self.capacity, combination, ways);
            }
        }
        self.waiting = waiting;
        self.waiting.clear();
        self.patience = [PATIENCE; _];
        if self.by_item.is_full() {
            self.count_items();
        }
        if self.near.is_full() {
            let near = std::mem::replace(&mut self.near, Near::new());
            self.take_near(&near);
        }
        if self.dense.is_full() {
            let dense = std::mem::replace(&mut self.dense, Dense::new());
            self.take_dense(&dense);
        }
    }

    /// Counts what waits for it, item by item.
    #[inline(always)]
    fn count_items(&mut self) {
        let Self { limits, cells, capacity, by_item, .. } = self;
        let ways = limits.max_ways as u8;
        by_item.empty_heap(|alike| {
            let kind = alike.kind as usize;
            let Cells { full: of_full, by_set, .. } = cells_of(cells, alike.item);
            let levels = alike.levels();
            by_set[kind].grow_to(levels, ways);
            if alike.kind != Kind::Writeback {
                capacity.grow_to(levels, ways);
            }
            for (full, near, weight) in alike.all() {
                of_full[kind].add(u64::from(full), weight);
                by_set[kind].add_all(levels, &near, ways, weight);
                if alike.kind != Kind::Writeback {
                    capacity.add_all(levels, &Portable::least(full, &near), ways, weight);
                }
            }
        });
    }

    /// Adds what is in the cells of another one, so often; what waits there is left out.
    fn absorb_cells(&mut self, other: &Self, times: u64) {
        for (item, references) in (0..).map(Item).zip(&other.references) {
            self.add_references(item, false, references[0] * times);
            self.add_references(item, true, references[1] * times);
        }
        for (item, cells) in (0..).map(Item).zip(&other.cells) {
            if let Some(cells) = cells {
                self.cells(item).merge(cells, times);
            }
        }
        self.capacity.merge(&other.capacity, times);
    }

    /// Adds what another one counted.
    fn absorb(&mut self, other: &Self) {
        let ways = self.limits.max_ways as u8;
        self.absorb_cells(other, 1);
        for combination in other.pending() {
            self.cells(combination.item).add(&combination, ways);
            add_capacity(&mut self.capacity, &combination, ways);
        }
        if !other.near.is_empty() {
            self.take_near(&other.near);
        }
        if !other.dense.is_empty() {
            self.take_dense(&other.dense);
        }
    }

    fn take_near(&mut self, near: &Near) {
        add_near(near, cells_of(&mut self.cells, Item::NONE), &mut self.capacity, self.limits.max_ways as u8);
    }

    fn take_dense(&mut self, dense: &Dense<W>) {
        add_dense(dense, cells_of(&mut self.cells, Item::NONE), &mut self.capacity, self.limits.max_ways as u8);
    }

    /// What waits in the tables and behind them.
    fn pending(&self) -> impl Iterator<Item = Combination<W>> + '_ {
        let waiting = self.waiting.iter().copied().filter(|combination| combination.weight > 0);
        self.by_item.all().chain(self.alike.all()).chain(self.far.all()).chain(waiting)
    }

    /// The histograms; `resident` gives the end-of-run part of an item.
    fn counted<'a>(&self, bucket: Bucket, resident: impl Fn(Item) -> Option<&'a Resident>) -> Counted {
        let (limits, ways) = (self.limits, self.limits.max_ways as u8);
        let mut pending: Vec<_> = self.pending().collect();
        pending.sort_unstable_by_key(|combination| combination.item);
        let (mut all, mut capacity, mut resident_of_all) = (Cells::default(), self.capacity.clone(), None);
        let mut references = [0; 2];
        let mut items = Vec::new();
        let last = self.references.len().max(self.cells.len()).max(usize::from(Item::LAST.0) + 1);
        let mut rest = pending.as_slice();
        for item in (0..last as u16).map(Item) {
            let (now, after) = rest.split_at(rest.partition_point(|combination| combination.item <= item));
            rest = after;
            let (cells, count) = (self.cells.get(usize::from(item.0)), self.references.get(usize::from(item.0)));
            let (cells, count) = (cells.and_then(Option::as_deref), count.copied().unwrap_or_default());
            let resident = resident(item);
            let none = item == Item::NONE && !(self.near.is_empty() && self.dense.is_empty());
            if cells.is_none() && !none && now.is_empty() && count == [0; 2] && resident.is_none() {
                continue;
            }
            let mut cells = cells.cloned().unwrap_or_default();
            for combination in now {
                cells.add(combination, ways);
                add_capacity(&mut capacity, combination, ways);
            }
            if item == Item::NONE {
                add_near(&self.near, &mut cells, &mut capacity, ways);
                add_dense(&self.dense, &mut cells, &mut capacity, ways);
            }
            items.push((item, cells.histograms(count, resident, None, limits)));
            references.iter_mut().zip(count).for_each(|(sum, count)| *sum += count);
            all.merge(&cells, 1);
            if let Some(resident) = resident {
                resident_of_all.get_or_insert_with(Resident::default).merge(resident);
            }
        }
        if items.iter().all(|(item, _)| *item == Item::NONE) {
            items.clear();
        }
        Counted { bucket, all: all.histograms(references, resident_of_all.as_ref(), Some(&capacity), limits), items }
    }
}

#[inline(always)]
fn cells_of(cells: &mut Vec<Option<Box<Cells>>>, item: Item) -> &mut Cells {
    let item = usize::from(item.0);
    if cells.len() <= item {
        cells.resize_with(item + 1, || None);
    }
    cells[item].get_or_insert_with(Box::default)
}

/// Puts a combination into a table, unless they have not been alike since [`Counts::spread`]; returns what is to be counted by
/// itself.
#[inline(always)]
fn try_table<const W: usize, const ENTRIES: usize>(
    table: &mut Repeats<W, ENTRIES>,
    patience: &mut u32,
    combination: Combination<W>,
) -> Option<Combination<W>> {
    if *patience == 0 {
        return Some(combination);
    }
    let other = table.add(combination);
    *patience = if other.is_none() { (*patience + 1).min(PATIENCE) } else { *patience - 1 };
    other
}

/// Counts what was counted in bits.
fn add_near(near: &Near, cells: &mut Cells, capacity: &mut Rows, ways: u8) {
    near.by_full().for_each(|(kind, value, count)| cells.full[kind as usize].add(value as u64, count));
    add_by_set(near.by_set(), near.by_capacity(), cells, capacity, ways);
}

/// Counts what was counted for each value; by d_0 it was already.
fn add_dense<const W: usize>(dense: &Dense<W>, cells: &mut Cells, capacity: &mut Rows, ways: u8) {
    add_by_set(dense.by_set(), dense.by_capacity(), cells, capacity, ways);
}

fn add_by_set(
    by_set: impl Iterator<Item = (Kind, usize, usize, u64)>,
    by_capacity: impl Iterator<Item = (usize, usize, u64)>,
    cells: &mut Cells,
    capacity: &mut Rows,
    ways: u8,
) {
    by_set.for_each(|(kind, index, value, count)| cells.by_set[kind as usize].add_one(index, value, ways, count));
    by_capacity.for_each(|(index, value, count)| capacity.add_one(index, value, ways, count));
}

/// Counts a load or store by `min(d_a, d_0 >> a)`.
#[inline(always)]
fn add_capacity<const W: usize>(capacity: &mut Rows, combination: &Combination<W>, ways: u8) {
    let &Combination { by_set, full, kind, weight, .. } = combination;
    if kind != Kind::Writeback {
        capacity.add::<W>(&Portable::least(full, &by_set), ways, weight);
    }
}

/// The end-of-run part of one item of a bucket: lines whose last store was counted there, by `max(m, depth now)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resident {
    lines: u64,
    full: Bins,
    sets: Rows,
}

impl Resident {
    fn merge(&mut self, other: &Self) {
        self.lines += other.lines;
        self.full.merge(&other.full, 1);
        self.sets.merge(&other.sets, 1);
    }
}

/// The end-of-run parts of all items of all buckets.
#[derive(Debug, Default)]
pub(crate) struct Residents(HashMap<(u8, u16), Resident, BuildHasherDefault<Mix>>);

impl Residents {
    pub(crate) fn line<const W: usize>(
        &mut self,
        (bucket, item): (Bucket, Item),
        full: u64,
        by_set: &[u8; W],
        limits: Limits,
    ) {
        let part = self.0.entry((bucket.0, item.0)).or_default();
        part.lines += 1;
        part.full.add(full, 1);
        part.sets.add(by_set, limits.max_ways as u8, 1);
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

    /// Whether nothing was ever counted here.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
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

    /// Adds what others counted.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.add_each(other, Counts::absorb);
    }

    /// The same, so often; they have to be [`Buckets::settled`].
    pub(crate) fn absorb_times(&mut self, other: &Self, times: u64) {
        self.add_each(other, |sum, counts| sum.absorb_cells(counts, times));
    }

    fn add_each(&mut self, other: &Self, add: impl Fn(&mut Counts<W>, &Counts<W>)) {
        for (counts, bucket) in other.counts.iter().zip(1..) {
            if let Some(counts) = counts
                && let Some(sum) = self.of(Bucket(bucket))
            {
                add(sum, counts);
            }
        }
    }

    /// The same with nothing that waits.
    pub(crate) fn settled(&self) -> Self {
        let mut settled = Self::new(self.limits);
        settled.absorb(self);
        settled
    }

    /// All histograms.
    pub(crate) fn counted(&self, residents: &Residents) -> Vec<Counted> {
        let used = self.counts.iter().enumerate().filter_map(|(i, counts)| Some((i as u8 + 1, counts.as_ref()?)));
        used.map(|(bucket, counts)| counts.counted(Bucket(bucket), |item| residents.0.get(&(bucket, item.0)))).collect()
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

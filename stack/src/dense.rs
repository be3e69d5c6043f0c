//! Counts of what has no item, whatever the distances: a cell for each set count and each value.
//!
//! A row has a cell for every value of a byte, so nothing is cut off, looked up or left out while counting: that costs less than
//! to find out where distances end.

use crate::Limits;
use crate::boxed;
use crate::near::{FULL, HEAVY};
use crate::repeats::{Combination, Kind};
use crate::simd::Vector;

/// Cells of a row, one for each byte. Those of a value must not lie at the same place of all pages.
const CELLS: usize = 256 + 16;
/// Of these, behind those of the kinds.
const CAPACITY: usize = Kind::ALL.len();

/// The counters.
#[derive(Clone, Debug)]
pub(crate) struct Dense<const W: usize> {
    /// By kind, and by `min(d_a, d_0 >> a)` of loads and stores: a row for each of a = 1 ..= W.
    rows: Box<[[[u32; CELLS]; W]; CAPACITY + 1]>,
    /// The same of set counts that are counted together where all of them have the greatest value.
    greatest: [[u32; MOST]; CAPACITY + 1],
    /// Sum of all weights.
    counted: u64,
}

/// Set counts that are counted together.
const TOGETHER: usize = 8;
/// So many times that, at most.
const MOST: usize = Limits::MOST_SET_BITS as usize / TOGETHER;

impl<const W: usize> Dense<W> {
    pub(crate) fn new() -> Self {
        Self { rows: boxed::array([[0; CELLS]; W]), greatest: [[0; MOST]; CAPACITY + 1], counted: 0 }
    }

    /// Counts distances by set, or greatest ones; returns whether it could.
    #[inline(always)]
    pub(crate) fn add<V: Vector>(&mut self, combination: &Combination<W>) -> bool {
        let &Combination { by_set, full, kind, weight, .. } = combination;
        if weight >= HEAVY || self.is_full() {
            return false;
        }
        self.counted += weight;
        let mut count = |row: usize, values: &[u8; W]| {
            count(&mut self.rows[row], &mut self.greatest[row], values, weight as u32);
        };
        count(kind as usize, &by_set);
        if kind != Kind::Writeback {
            count(CAPACITY, &V::least(full, &by_set));
        }
        true
    }

    /// Whether the cells have to be emptied before another batch.
    pub(crate) fn is_full(&self) -> bool {
        self.counted >= FULL
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counted == 0
    }

    /// All counts by set: kind, index of the set count (0 is two sets), value, count. Without those of value 0.
    pub(crate) fn by_set(&self) -> impl Iterator<Item = (Kind, usize, usize, u64)> + '_ {
        Kind::ALL
            .into_iter()
            .flat_map(|kind| self.filled(kind as usize).map(move |(index, value, count)| (kind, index, value, count)))
    }

    /// All loads and stores by `min(d_a, d_0 >> a)`: index of the set count, value, count. Without those of value 0.
    pub(crate) fn by_capacity(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        self.filled(CAPACITY)
    }

    /// Of a kind, or [`CAPACITY`]: index of the set count, value, count. Without those of value 0.
    fn filled(&self, kind: usize) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        self.rows[kind].iter().enumerate().flat_map(move |(index, row)| {
            let values = row.iter().zip(0..).map(move |(&count, value)| match value {
                255 => (index, value, u64::from(count) + u64::from(self.greatest[kind][index / TOGETHER])),
                _ => (index, value, u64::from(count)),
            });
            values.filter(|&(_, value, count)| value > 0 && count > 0)
        })
    }
}

#[inline(always)]
fn count<const W: usize>(rows: &mut [[u32; CELLS]; W], greatest: &mut [u32; MOST], values: &[u8; W], count: u32) {
    let together = rows.chunks_exact_mut(TOGETHER).zip(greatest);
    for ((rows, greatest), values) in together.zip(values.as_chunks::<TOGETHER>().0) {
        match u64::from_le_bytes(*values) {
            // Distances do not grow with the number of sets.
            0 => break,
            u64::MAX => {
                *greatest += count;
                continue;
            }
            _ => {}
        }
        for (row, &value) in rows.iter_mut().zip(values) {
            row[usize::from(value)] += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Item;
    use crate::simd::{self, Instructions, Task};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct CountAll<'a, const W: usize>(&'a [Combination<W>]);

    impl<const W: usize> Task for CountAll<'_, W> {
        type Answer = Dense<W>;

        fn run<V: Vector>(self) -> Dense<W> {
            let mut dense = Dense::new();
            self.0.iter().for_each(|combination| assert!(dense.add::<V>(combination)));
            dense
        }
    }

    fn combination<const W: usize>() -> impl Strategy<Value = Combination<W>> {
        let full = (any::<u32>(), 0..32_u32).prop_map(|(full, bits)| full >> bits);
        let kind = (0..3_usize).prop_map(|kind| Kind::ALL[kind]);
        // Distances do not grow with the number of sets.
        let value = prop_oneof![1 => Just(u8::MAX), 2 => any::<u8>()];
        let by_set = (prop::array::uniform4(value), 0..=W).prop_map(|(mut values, len)| {
            values.sort_unstable_by(|a, b| b.cmp(a));
            std::array::from_fn(|index| if index < len { values[index * 4 / W] } else { 0 })
        });
        (by_set, full, kind, 1..HEAVY).prop_map(|(by_set, full, kind, weight)| {
            let item = Item::NONE;
            Combination { by_set, full, kind, item, weight }
        })
    }

    fn check<const W: usize>(all: &[Combination<W>]) {
        let (mut by_set, mut by_capacity) = (BTreeMap::new(), BTreeMap::new());
        for one in all {
            for (index, &value) in one.by_set.iter().enumerate() {
                *by_set.entry((one.kind as usize, index, usize::from(value))).or_default() += one.weight;
                if one.kind != Kind::Writeback {
                    let least = u32::from(value).min(one.full >> (index + 1));
                    *by_capacity.entry((index, least as usize)).or_default() += one.weight;
                }
            }
        }
        by_set.retain(|&(_, _, value), _: &mut u64| value > 0);
        by_capacity.retain(|&(_, value), _: &mut u64| value > 0);
        for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
            let dense = simd::run(CountAll(all), instructions);
            let counted = dense.by_set().map(|(kind, index, value, count)| ((kind as usize, index, value), count));
            assert_eq!(counted.collect::<BTreeMap<_, _>>(), by_set);
            let counted = dense.by_capacity().map(|(index, value, count)| ((index, value), count));
            assert_eq!(counted.collect::<BTreeMap<_, _>>(), by_capacity);
        }
    }

    proptest! {
        #[test]
        fn counts_what_it_is_told(
            usual in prop::collection::vec(combination::<16>(), 0..40),
            wide in prop::collection::vec(combination::<24>(), 0..40),
        ) {
            check(&usual);
            check(&wide);
        }
    }

    #[test]
    fn takes_nothing_that_would_not_fit() {
        let one = Combination::<16> { full: 9, by_set: [1; 16], weight: HEAVY - 1, ..Combination::NONE };
        let mut dense = Dense::new();
        assert!(!dense.add::<simd::Portable>(&Combination { weight: HEAVY, ..one }));
        let mut counted = 0;
        while dense.add::<simd::Portable>(&one) {
            counted += one.weight;
        }
        assert!(dense.is_full());
        assert!(dense.by_set().all(|(kind, _, value, count)| (kind, value, count) == (Kind::Load, 1, counted)));
    }
}

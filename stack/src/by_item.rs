//! Counts of near distances of items, held back until there are enough of them to count item by item.
//!
//! The counters of one item fill a cache of their own, and programs have thousands of items: to count one here and one there
//! is to wait for memory. So a combination waits in a table, as two words, until another needs its place, and then in a heap;
//! a full heap is sorted by item and kind, and what is alike counted in one go.

use crate::Item;
use crate::boxed;
use crate::near::{HEAVY, is_far};
use crate::repeats::{Combination, Kind};

/// Entries of the table, a power of two, and of the heap before it is emptied.
const ENTRIES: usize = if cfg!(test) { 4 } else { 1 << 14 };
const HEAP: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// Distances by set, 2^1 ..= 2^8, a byte each, and everything else: the distance at one set, kind, item and weight, from the
/// lowest bits on. Weight 0: nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    by_set: u64,
    rest: u64,
}

const FULL_BITS: u32 = 9;
const KIND_BITS: u32 = 2;
const ITEM_BITS: u32 = 15;
const KEY_BITS: u32 = FULL_BITS + KIND_BITS + ITEM_BITS;
/// What has to be the same: the key, and no weight so great that another one does not fit.
const SAME: u64 = ((1 << KEY_BITS) - 1) | (1 << 63);

impl Entry {
    #[inline(always)]
    fn weight(self) -> u64 {
        self.rest >> KEY_BITS
    }

    #[inline(always)]
    fn full(self) -> u32 {
        (self.rest % (1 << FULL_BITS)) as u32
    }

    /// Item and kind.
    #[inline(always)]
    fn class(self) -> usize {
        (self.rest >> FULL_BITS) as usize % (1 << (KIND_BITS + ITEM_BITS))
    }

    fn combination<const W: usize>(self) -> Combination<W> {
        let mut by_set = [0; W];
        by_set.as_chunks_mut().0[0] = self.by_set.to_le_bytes();
        let (kind, item) = kind_and_item(self.class());
        Combination { by_set, full: self.full(), kind, item, weight: self.weight() }
    }

    /// Well mixed in its high bits.
    #[inline(always)]
    fn hash(self) -> usize {
        let mixed = (self.by_set ^ (self.rest % (1 << KEY_BITS)).rotate_left(39)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed as usize
    }
}

#[inline(always)]
fn kind_and_item(class: usize) -> (Kind, Item) {
    (Kind::ALL[class % (1 << KIND_BITS) % Kind::ALL.len()], Item((class >> KIND_BITS) as u16))
}

/// What was counted of one item and kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike<'a> {
    pub(crate) kind: Kind,
    pub(crate) item: Item,
    heap: &'a [Entry],
    order: &'a [u32],
}

impl<'a> Alike<'a> {
    /// For how many set counts from 2^1 on there is a distance other than 0.
    #[inline(always)]
    pub(crate) fn levels(self) -> usize {
        let mut all = 0;
        for &at in self.order {
            all |= self.heap[at as usize].by_set;
        }
        (u64::BITS - all.leading_zeros()).div_ceil(u8::BITS) as usize
    }

    /// Distances at one set and by set, and how often they occurred.
    #[inline(always)]
    pub(crate) fn all(self) -> impl Iterator<Item = (u32, [u8; 8], u64)> + 'a {
        let entries = self.order.iter().map(move |&at| self.heap[at as usize]);
        entries.map(|entry| (entry.full(), entry.by_set.to_le_bytes(), entry.weight()))
    }
}

/// See the module's page.
#[derive(Clone, Debug)]
pub(crate) struct ByItem {
    table: Box<[Entry; ENTRIES]>,
    heap: Vec<Entry>,
    /// Where what is in the heap comes by item and kind, and by item and kind where the next one goes.
    order: Vec<u32>,
    next: Vec<u32>,
}

impl ByItem {
    pub(crate) fn new() -> Self {
        Self { table: boxed::array(Entry::default()), heap: Vec::new(), order: Vec::new(), next: Vec::new() }
    }

    /// Counts distances of an item, or greatest ones, so often; returns whether it could.
    #[inline(always)]
    pub(crate) fn add<const W: usize>(
        &mut self,
        (kind, item): (Kind, Item),
        full: u32,
        by_set: &[u8; W],
        weight: u64,
    ) -> bool {
        if full >= 1 << FULL_BITS || is_far(by_set) || weight >= HEAVY {
            return false;
        }
        let key = u64::from(full) | (kind as u64) << FULL_BITS | u64::from(item.0) << (FULL_BITS + KIND_BITS);
        let new = Entry { by_set: u64::from_le_bytes(by_set.as_chunks().0[0]), rest: key | weight << KEY_BITS };
        let entry = &mut self.table[new.hash() >> (64 - ENTRIES.ilog2())];
        if entry.by_set == new.by_set && (entry.rest ^ key) & SAME == 0 {
            entry.rest += weight << KEY_BITS;
        } else {
            self.heap.push(std::mem::replace(entry, new));
        }
        true
    }

    /// Whether the heap is to be sorted.
    pub(crate) fn is_full(&self) -> bool {
        self.heap.len() >= HEAP
    }

    /// Gives all of the heap to `take`, item by item.
    #[inline(always)]
    pub(crate) fn empty_heap(&mut self, mut take: impl FnMut(Alike<'_>)) {
        let Self { heap, order, next, .. } = self;
        next.clear();
        for entry in &*heap {
            let class = entry.class();
            if class >= next.len() {
                next.resize(class + 1, 0);
            }
            next[class] += 1;
        }
        let mut sum = 0;
        for next in &mut *next {
            sum += std::mem::replace(next, sum);
        }
        order.resize(heap.len(), 0);
        for (at, entry) in (0..).zip(&*heap) {
            let next = &mut next[entry.class()];
            order[*next as usize] = at;
            *next += 1;
        }
        let mut begin = 0;
        for (class, &end) in next.iter().enumerate() {
            let (kind, item) = kind_and_item(class);
            let order = &order[begin..end as usize];
            // What an empty place of the table gave is of none.
            if !order.is_empty() && item != Item::NONE {
                take(Alike { kind, item, heap, order });
            }
            begin = end as usize;
        }
        heap.clear();
    }

    /// What waits.
    pub(crate) fn all<const W: usize>(&self) -> impl Iterator<Item = Combination<W>> {
        let all = self.table.iter().chain(&self.heap);
        all.filter(|entry| entry.weight() > 0).map(|entry| entry.combination())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Sums = BTreeMap<(u16, usize, u32, [u8; 16]), u64>;

    proptest! {
        #[test]
        fn nothing_is_lost_and_items_come_together(
            all in proptest::collection::vec((0..3_usize, 1..6_u16, 0..600_u32, 0..3_u8, 0..12_usize, 1..1_u64 << 17), 0..400),
        ) {
            let (mut by_item, mut expected, mut counted) = (ByItem::new(), Sums::new(), Sums::new());
            let key = |c: &Combination<16>| (c.item.0, c.kind as usize, c.full, c.by_set);
            for (kind, item, full, value, sets, weight) in all {
                let mut by_set = [0; 16];
                by_set[..sets].fill(value);
                let far = value > 0 && sets > 8;
                let could = by_item.add((Kind::ALL[kind], Item(item)), full, &by_set, weight);
                prop_assert_eq!(could, !far && full < 512 && weight < HEAVY);
                if could {
                    *expected.entry((item, kind, full, by_set)).or_default() += weight;
                }
                if by_item.is_full() {
                    let mut last = 0;
                    by_item.empty_heap(|alike| {
                        assert!(std::mem::replace(&mut last, alike.item.0) <= alike.item.0);
                        for (full, near, weight) in alike.all() {
                            assert!(near[alike.levels()..] == [0; 8][alike.levels()..]);
                            let mut by_set = [0; 16];
                            by_set[..8].copy_from_slice(&near);
                            *counted.entry((alike.item.0, alike.kind as usize, full, by_set)).or_default() += weight;
                        }
                    });
                }
            }
            by_item.all().for_each(|c| *counted.entry(key(&c)).or_default() += c.weight);
            prop_assert_eq!(counted, expected);
        }

        #[test]
        fn a_weight_that_is_too_great_for_another_makes_room(before in (1_u64 << 37) - 3..1 << 37) {
            let mut by_item = ByItem::new();
            prop_assert!(by_item.add((Kind::Store, Item::LAST), 7, &[1; 8], 1));
            let entry = by_item.table.iter_mut().find(|entry| entry.weight() > 0).unwrap();
            entry.rest = (entry.rest % (1 << KEY_BITS)) | (before << KEY_BITS);
            (0..5).for_each(|_| assert!(by_item.add((Kind::Store, Item::LAST), 7, &[1; 8], 1)));
            let all: Vec<Combination<8>> = by_item.all().collect();
            prop_assert_eq!(all.iter().map(|c| c.weight).sum::<u64>(), before + 5);
            prop_assert!(all.iter().all(|c| (c.full, c.kind, c.item, c.by_set) == (7, Kind::Store, Item::LAST, [1; 8])));
        }
    }
}

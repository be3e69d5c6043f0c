//! How far apart consecutive accesses of each instruction are, in each thread by itself.

use crate::batch::Record;
use crate::shape::{Shape, Step, What};
use crate::{Batch, Bucket};
use bf_profile::Strides as Found;
use std::collections::BTreeMap;

/// Numbers of strides: see [`Found::counts`].
const NUMBERS: usize = Found::FIRST as usize + 1;

/// What is kept of each step of each segment.
type Steps<T> = Vec<Box<[T]>>;

/// The strides of a process.
#[derive(Debug, Default)]
pub(crate) struct Strides {
    /// By slot: where each step was last.
    last: Vec<Steps<Option<u64>>>,
    /// By bucket.
    counts: Vec<Steps<[u64; NUMBERS]>>,
    /// Of each step: bytes, and whether it stores; 0 bytes if it was never met.
    kinds: Steps<(u32, bool)>,
}

/// A step of which there are strides: bytes of an access, and whether it stores.
fn kind(step: &Step) -> Option<(u32, bool)> {
    match step.what {
        What::Load(bytes @ 1..) => Some((bytes, false)),
        What::Store(bytes @ 1..) => Some((bytes, true)),
        _ => None,
    }
}

/// What there is of a shape's steps.
fn of<'a, T: Clone>(steps: &'a mut Steps<T>, shape: &Shape, empty: &T) -> &'a mut [T] {
    let origin = shape.origin as usize;
    if steps.len() <= origin {
        steps.resize(origin + 1, Box::default());
    }
    if steps[origin].len() < shape.steps.len() {
        steps[origin] = vec![empty.clone(); shape.steps.len()].into();
    }
    &mut steps[origin]
}

/// The number of a stride.
fn number(from: u64, to: u64, bytes: u32) -> usize {
    let (way, bytes) = (to.wrapping_sub(from).cast_signed(), i64::from(bytes));
    let number = match way {
        ..0 => Found::BACKWARD,
        _ if way % bytes != 0 || way / bytes > Found::MOST.into() => Found::OTHER,
        _ => (way / bytes) as u8,
    };
    number.into()
}

impl Strides {
    /// Takes a batch of the thread on `slot`: of segments that have an origin.
    pub(crate) fn feed(&mut self, slot: u32, batch: &Batch, bucket: Bucket) {
        for (shape, words) in batch.records().filter_map(originated) {
            let times = shape.iterations(words);
            if times == 0 {
                continue;
            }
            let last = of(at(&mut self.last, slot as usize), shape, &None);
            let counts = of(at(&mut self.counts, bucket.0.into()), shape, &[0; NUMBERS]);
            let kinds = of(&mut self.kinds, shape, &(0, false));
            for (((step, last), counts), known) in shape.steps.iter().zip(last).zip(counts).zip(kinds) {
                let Some((bytes, store)) = kind(step) else { continue };
                let word = |index: u32| words[(step.word + index) as usize];
                if word(0) == 0 {
                    continue;
                }
                *known = (bytes, store);
                let address = word(0).wrapping_add_signed(step.offset.into());
                let first = last.map_or(Found::FIRST.into(), |last| number(last, address, bytes));
                counts[first] += 1;
                let stride = if shape.stream { word(1) } else { 0 };
                counts[number(0, stride, bytes)] += times - 1;
                *last = Some(address.wrapping_add(stride.wrapping_mul(times - 1)));
            }
        }
    }

    /// The thread on a slot ended: the next one there begins anew.
    pub(crate) fn end(&mut self, slot: u32) {
        if let Some(last) = self.last.get_mut(slot as usize) {
            last.clear();
        }
    }

    /// What was counted, by what `site` says of the number of a segment and a step.
    pub(crate) fn found(&self, mut site: impl FnMut(u32, usize) -> Option<u32>) -> Vec<Found> {
        let mut sums: BTreeMap<(Option<u32>, u32, bool, u32), [u64; NUMBERS]> = BTreeMap::new();
        let first = usize::from(Bucket::FIRST.0);
        for (tag, steps) in (0..).zip(self.counts.iter().skip(first)) {
            for (origin, steps) in (0..).zip(steps) {
                for (step, counts) in steps.iter().enumerate().filter(|(_, counts)| counts.iter().any(|&n| n > 0)) {
                    let (bytes, store) = self.kinds[origin as usize][step];
                    let sum = sums.entry((site(origin, step), tag, store, bytes)).or_insert([0; NUMBERS]);
                    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
            }
        }
        let pairs = |counts: [u64; NUMBERS]| (0..).zip(counts).filter(|pair| pair.1 > 0).collect();
        sums.into_iter()
            .map(|((site, tag, store, bytes), counts)| Found { site, tag, store, bytes, counts: pairs(counts) })
            .collect()
    }
}

/// A record of a segment that is told apart.
fn originated(record: Record<'_>) -> Option<(&Shape, &[u64])> {
    match record {
        Record::Shaped { shape, words, .. } if shape.origin != 0 => Some((shape, words)),
        _ => None,
    }
}

fn at<T: Default>(all: &mut Vec<T>, index: usize) -> &mut T {
    if all.len() <= index {
        all.resize_with(index + 1, T::default);
    }
    &mut all[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TestShapes;
    use bf_stack::Item;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A load of 8 bytes once and in a stream, and a store of 4 and a range; each has 3 words.
    fn known() -> TestShapes {
        let step = |word, offset, what| Step { word, offset, what, item: Item::NONE };
        let shapes = [
            Shape::once(2, vec![step(1, 8, What::Load(8))]),
            Shape::stream(4, vec![step(2, 0, What::Load(8))]),
            Shape::once(4, vec![step(1, 0, What::Store(4)), step(2, 0, What::LoadRange)]),
        ];
        TestShapes((1..).zip(shapes).map(|(origin, shape)| Arc::new(shape.unwrap().of_segment(origin))).collect())
    }

    fn feed(strides: &mut Strides, slot: u32, words: &[u64], bucket: Bucket) {
        let mut batch = Batch::new();
        batch.append(words.iter().copied(), &mut known(), |_| panic!("more than a batch holds"));
        strides.feed(slot, &batch, bucket);
    }

    /// Counts of tag 0, of the first step of a segment.
    fn counts(strides: &Strides, origin: u32) -> Vec<(u8, u64)> {
        let found = strides.found(|origin, step| Some(10 * origin + step as u32));
        found.into_iter().find(|one| one.site == Some(10 * origin) && one.tag == 0).map_or(Vec::new(), |one| one.counts)
    }

    #[test]
    fn every_kind_of_stride() {
        let mut strides = Strides::default();
        let words: Vec<_> = [64, 64, 72, 72 + 512, 584 + 520, 1104 + 4, 1100, 1108].map(|to| [1, to]).concat();
        feed(&mut strides, 0, &words, Bucket::FIRST);
        let expected = [(0, 1), (1, 2), (64, 1), (Found::OTHER, 2), (Found::BACKWARD, 1), (Found::FIRST, 1)];
        assert_eq!(counts(&strides, 1), expected);
        assert_eq!(strides.found(|_, _| None).len(), 1);
    }

    #[test]
    fn threads_and_those_after_them_are_told_apart() {
        let mut strides = Strides::default();
        feed(&mut strides, 0, &[1, 64], Bucket::FIRST);
        feed(&mut strides, 1, &[1, 72], Bucket::FIRST);
        feed(&mut strides, 0, &[1, 72], Bucket::FIRST);
        strides.end(0);
        feed(&mut strides, 0, &[1, 80], Bucket::FIRST);
        assert_eq!(counts(&strides, 1), [(1, 1), (Found::FIRST, 3)]);
    }

    #[test]
    fn what_is_not_counted_moves_on() {
        let mut strides = Strides::default();
        feed(&mut strides, 0, &[1, 64], Bucket::FIRST);
        feed(&mut strides, 0, &[1, 640], Bucket::UNCOUNTED);
        feed(&mut strides, 0, &[1, 648], Bucket::FIRST);
        assert_eq!(counts(&strides, 1), [(1, 1), (Found::FIRST, 1)]);
    }

    #[test]
    fn ranges_have_none_and_holes_are_no_accesses() {
        let mut strides = Strides::default();
        feed(&mut strides, 0, &[3, 64, 4096, 100, 3, 0, 4096, 100, 3, 68, 0, 0], Bucket::FIRST);
        assert_eq!(counts(&strides, 3), [(1, 1), (Found::FIRST, 1)]);
        let [only] = strides.found(|_, _| None).try_into().unwrap();
        assert_eq!((only.store, only.bytes), (true, 4));
    }

    proptest! {
        /// A loop that is recorded at once is the same as one that is recorded access by access.
        #[test]
        fn streams_are_multiplied(runs in proptest::collection::vec((0..50_u64, 1..3000_u64, -600..600_i64), 0..20)) {
            let (mut whole, mut single) = (Strides::default(), Strides::default());
            for (times, from, stride) in runs {
                let from = 0x10_0000 + from;
                feed(&mut whole, 0, &[2, times, from, stride.cast_unsigned()], Bucket::FIRST);
                let each = |i: u64| [1, from.wrapping_add(i.wrapping_mul(stride.cast_unsigned()))];
                feed(&mut single, 0, &(0..times).flat_map(each).collect::<Vec<_>>(), Bucket::FIRST);
            }
            prop_assert_eq!(counts(&whole, 2), counts(&single, 1));
        }
    }
}

//! Streams that walk over lines as a whole: along which strands, and what stands for such a stream. Steps that stay where they are,
//! as where a sum is kept in memory, are its pins.

use crate::references::at;
use crate::shape::{Shape, Simple};
use bf_stack::{Item, MOST_LINES};
use std::ops::Range;

/// Steps, at most, and strands, and lines that it comes back to in each iteration.
const STEPS: usize = 64;
const STRANDS: usize = 16;
const PINS: usize = 4;
/// Steps are of one strand if their lines are so near to each other, and those of a period.
const NEAR: u64 = 1;
/// Lines of a strand that its steps are apart, at most, and those of a period.
const SPREAD: u64 = 2;
/// Strands whose lines are so near each other, but for a multiple of [`turn`], may meet in a set within a few periods.
const REACH: i64 = 12;
const REACH_EACH: i64 = 4;
/// Line numbers that agree in so many bits share a set, whatever their number.
const SET_BITS: u32 = 24;
/// Addresses are from the first to the second of these.
const LEAST: u64 = 1 << 16;
const FAR: u64 = 1 << 62;

/// The first iterations of a stream, as a walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// How many.
    pub(crate) iterations: u64,
    /// The lines of each strand, and then the pins, so many, each as one of its own.
    pub(crate) strands: Vec<Range<u64>>,
    pub(crate) pins: usize,
    pub(crate) periods: u64,
    pub(crate) period: Period,
    /// Iterations that are left.
    pub(crate) rest: u64,
    /// All that decides what happens among its references, but for the number of periods.
    pub(crate) key: Vec<u64>,
    /// By step.
    strand_of: Vec<usize>,
}

/// After how many iterations all steps of a stream have moved on by whole lines, and by how many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Period {
    pub(crate) iterations: u64,
    pub(crate) lines: u64,
}

impl Period {
    /// Of steps that are so long; if it is short enough.
    fn of(stride: u64, shift: u32) -> Option<Self> {
        let common = stride.trailing_zeros().min(shift);
        let period = Self { iterations: 1 << (shift - common), lines: stride >> common };
        (1..=MOST_LINES as u64).contains(&period.lines).then_some(period)
    }

    /// Shorter loops are no walks, and templates are made of such: no strand is out of step with the others after half of it.
    pub(crate) const fn fewest(self) -> u64 {
        if self.lines == 1 { 12 } else { 8 }
    }

    /// Whether so many iterations may be a walk.
    const fn walks(self, iterations: u64) -> bool {
        iterations >= self.fewest() * self.iterations
    }
}

/// Whether a stream may be a walk.
pub(crate) fn may_walk(shape: &Shape, words: &[u64], shift: u32) -> bool {
    let Some(stride) = stride(shape, words).filter(|_| shape.plain()) else { return false };
    let walks = Period::of(stride, shift).is_some_and(|period| period.walks(shape.iterations(words)));
    walks && strides(shape, words).all(|other| other == stride || other == 0)
}

fn strides(shape: &Shape, words: &[u64]) -> impl Iterator<Item = u64> {
    shape.simple.iter().map(|step| words[step.word as usize + 1])
}

/// That of the first step that does not stay where it is.
fn stride(shape: &Shape, words: &[u64]) -> Option<u64> {
    strides(shape, words).find(|&stride| stride != 0)
}

impl Plan {
    /// The next `left` iterations of a stream, or some of them; whether they are a walk.
    pub(crate) fn make(&mut self, shape: &Shape, items: &[Item], words: &[u64], left: u64, shift: u32) -> bool {
        let Some(stride) = stride(shape, words).filter(|_| shape.simple.len() <= STEPS) else { return false };
        let Some(period) = Period::of(stride, shift).filter(|period| period.walks(left)) else { return false };
        self.period = period;
        if left >= FAR / stride || !self.find_strands(shape, words, stride, shift) {
            return false;
        }
        self.iterations = self.apart(shape, words, left, shift);
        (self.periods, self.rest) = (self.iterations / period.iterations, self.iterations % period.iterations);
        if self.periods < period.fewest() {
            return false;
        }
        let moving = self.moving();
        for (step, &number) in shape.simple.iter().zip(&self.strand_of).filter(|(_, number)| **number < moving) {
            let last = at(step, words).1 + stride * (self.iterations - 1);
            let end = &mut self.strands[number].end;
            *end = (*end).max((last >> shift) + 1);
        }
        let (moving, pins) = self.strands.split_at(moving);
        let near =
            |pin: &Range<u64>, strand: &Range<u64>| pin.start + NEAR >= strand.start && pin.start <= strand.end + NEAR;
        if pins.iter().any(|pin| moving.iter().any(|strand| near(pin, strand))) {
            return false;
        }
        self.make_key(shape, items, (words, stride), shift);
        true
    }

    /// Strands that are no pins.
    fn moving(&self) -> usize {
        self.strands.len() - self.pins
    }

    /// Which steps are of one strand, and where it begins.
    fn find_strands(&mut self, shape: &Shape, words: &[u64], stride: u64, shift: u32) -> bool {
        self.strands.clear();
        self.strand_of.clear();
        self.pins = 0;
        for step in &shape.simple {
            let (first, last) = at(step, words);
            let far = !(LEAST..FAR).contains(&first) || (last - first) >> shift != 0;
            let (own, line) = (words[step.word as usize + 1], first >> shift);
            if far || own != stride && (own != 0 || last >> shift != line) {
                return false;
            }
            let near = |strand: &Range<u64>| strand.start.abs_diff(line) <= NEAR + self.period.lines;
            let known = self.strands.iter().position(near).filter(|_| own != 0);
            if let Some(number) = known {
                let strand = &mut self.strands[number];
                strand.start = strand.start.min(line);
            } else if own != 0 {
                if self.strands.len() == STRANDS {
                    return false;
                }
                self.strands.push(line..line);
            }
            self.strand_of.push(known.unwrap_or(self.strands.len().saturating_sub(1)));
        }
        // What a strand begins with may have moved since a step was found to be of it.
        let is_pin = |step: &Simple| words[step.word as usize + 1] == 0;
        let moving = shape.simple.iter().zip(&self.strand_of).filter(|(step, _)| !is_pin(step));
        let spread = |(step, &number): (_, &usize)| (at(step, words).0 >> shift) - self.strands[number].start;
        if !moving.map(spread).all(|spread| spread <= SPREAD + self.period.lines) {
            return false;
        }
        let first = self.strands.len();
        for (step, number) in shape.simple.iter().zip(&mut self.strand_of).filter(|(step, _)| is_pin(step)) {
            let line = at(step, words).0 >> shift;
            let pin = self.strands[first..].iter().position(|pin| pin.start == line).unwrap_or(self.pins);
            if pin == self.pins {
                self.strands.push(line..line + 1);
                self.pins += 1;
            }
            *number = first + pin;
        }
        self.pins <= PINS
    }

    /// How many of the iterations it takes at most until a strand comes to where another began.
    fn apart(&self, shape: &Shape, words: &[u64], left: u64, shift: u32) -> u64 {
        let (mut iterations, moving) = (left, &self.strands[..self.moving()]);
        for (step, &number) in shape.simple.iter().zip(&self.strand_of).filter(|(_, number)| **number < moving.len()) {
            let (last, stride) = (at(step, words).1, words[step.word as usize + 1]);
            for other in moving.iter().filter(|other| other.start > self.strands[number].start) {
                iterations = iterations.min(((other.start << shift).saturating_sub(last + 1) / stride) + 1);
            }
        }
        iterations
    }

    fn make_key(&mut self, shape: &Shape, items: &[Item], (words, stride): (&[u64], u64), shift: u32) {
        let moving = self.moving();
        let Self { strands, pins, period, rest, key, strand_of, .. } = self;
        key.clear();
        key.extend([*rest, stride, *pins as u64]);
        for (number, (step, &strand)) in shape.simple.iter().zip(&*strand_of).enumerate() {
            let item = items.get(number).copied().unwrap_or_default();
            let what = u64::from(step.more) << 1 | u64::from(step.store) | u64::from(item.0) << 48;
            // Where on its line a pin is does not matter.
            let from = if strand < moving { at(step, words).0 - (strands[strand].start << shift) } else { 0 };
            key.extend([from | (strand as u64) << 32, what]);
        }
        let (moving, pins) = strands.split_at(moving);
        for (number, one) in moving.iter().enumerate() {
            let others = moving[..number].iter();
            key.extend(others.map(|other| relation(one.start.wrapping_sub(other.start), period.lines)));
        }
        for (number, one) in pins.iter().enumerate() {
            let others = pins[..number].iter();
            key.extend(others.map(|other| u64::from((one.start ^ other.start).trailing_zeros().min(SET_BITS))));
        }
    }
}

/// How lines that are about so far apart share sets: the same for all distances for which all within [`reach`] do so alike.
fn relation(apart: u64, lines: u64) -> u64 {
    let turn = turn(lines);
    let near = (apart as i64 + turn / 2).rem_euclid(turn) - turn / 2;
    let far = apart.wrapping_sub(near as u64);
    let shares = if near.abs() <= reach(lines) { far.trailing_zeros().min(SET_BITS) } else { 0 };
    (near + turn) as u64 | u64::from(shares) << 32
}

/// A power of two that is more than twice as much as [`reach`].
const fn turn(lines: u64) -> i64 {
    if lines <= 4 { 64 } else { 256 }
}

/// How near lines are that may meet in a set where strands move on by so many lines in a period.
const fn reach(lines: u64) -> i64 {
    REACH + REACH_EACH * lines as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, TestShapes};
    use crate::references::{Scratch, Take};
    use crate::shape::{Step, What};
    use crate::{Config, Session};
    use bf_stack::{
        Bucket, Chunk, Common, Deferred, Engine as _, Found, Holders, Instructions, Learns as _, Limits, Plain,
        Position, Reference, Stack, There, Went,
    };
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    /// Counts the loops that a stack takes as walks.
    struct Counting<'a>(&'a mut Stack, &'a mut usize);

    impl Take for Counting<'_> {
        fn feed(&mut self, chunk: Chunk<'_>) {
            self.0.take(chunk, Bucket::FIRST);
        }

        fn walks(&mut self) -> bool {
            self.0.walks()
        }

        fn find_walk(&mut self, key: &[u64]) -> Found {
            self.0.find_walk(key, Bucket::FIRST)
        }

        fn learn_walk(&mut self, plan: &Plan, loops: [Chunk<'_>; 2]) {
            let fewest = plan.period.fewest();
            self.0.learn_walk(&plan.key, &plan.strands, plan.pins, fewest, loops, Bucket::FIRST);
        }

        fn walk(&mut self, template: u32, strands: &[Range<u64>], periods: u64) -> Went {
            let walked = self.0.walk(template, strands, periods, Bucket::FIRST);
            *self.1 += usize::from(walked == Went::All);
            walked
        }
    }

    /// Steps of a stream: which of three addresses, how far from it, how long, and whether it is stored to; in some streams each is
    /// there several times, as where a loop was unrolled.
    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let offset = prop_oneof![3 => Just(0), 2 => -8..24_i32, 1 => -100..100_i32];
        let size = prop_oneof![4 => Just(8_u32), 2 => 1..17_u32, 1 => Just(64)];
        let step = (0..3_u32, offset, size, prop::bool::weighted(0.3)).prop_map(|(of, offset, size, is_store)| Step {
            word: 2 + 2 * of,
            offset,
            what: if is_store { What::Store(size) } else { What::Load(size) },
            item: Item((of * 2) as u16 + u16::from(is_store)),
        });
        let unrolled = prop_oneof![2 => Just((1, 0)), 2 => Just((4, 32)), 1 => Just((2, 64)), 1 => Just((4, 64)), 1 => Just((3, 16))];
        (prop::collection::vec(step, 1..7), unrolled).prop_map(|(steps, (times, apart))| {
            let often = |step: Step| (0..times).map(move |time| Step { offset: step.offset + time * apart, ..step });
            steps.into_iter().flat_map(often).collect()
        })
    }

    /// Loops that are entered several times: iterations, stride, three addresses, by how much each of them moves on, how
    /// often; and a few lines that are used in between.
    fn entered() -> impl Strategy<Value = Vec<u64>> {
        // Lines of the same region, or each of its own.
        let line = prop_oneof![1 => 0..40_u64, 1 => 0..700_u64, 1 => (0..9_u64).prop_map(|i| 1024 * i)];
        let far = prop_oneof![4 => (0..4_u64).prop_map(|i| i << 14), 1 => Just(0)];
        let byte = prop_oneof![Just(0), 0..64_u64];
        let address = (line, far, byte).prop_map(|(line, far, byte)| 0x10_0000 + 64 * (line + far) + byte / 8 * 8);
        let moves = prop_oneof![
            3 => Just(0_i64),
            1 => (0..90_i64).prop_map(|lines| 64 * lines),
            2 => (0..9_i64).prop_map(|lines| 64 * 64 * lines),
            1 => -400..400_i64
        ];
        let strand = (address.clone(), moves, prop::bool::weighted(0.2));
        let stride = prop_oneof![
            4 => Just(8_u64),
            2 => Just(16),
            4 => Just(128),
            2 => Just(24),
            2 => prop_oneof![Just(40), Just(72), Just(80), Just(104), Just(56)],
            1 => prop_oneof![Just(4), Just(48), Just(64), Just(192), Just(256)],
        ];
        let lines = prop_oneof![4 => 12..70_u64, 1 => 0..400_u64];
        let single = (address, prop::bool::ANY);
        (
            lines,
            0..8_u64,
            stride,
            [strand.clone(), strand.clone(), strand],
            1..8_i64,
            prop::collection::vec(single, 0..6),
            0..3_u64,
        )
            .prop_map(|(lines, more, stride, strands, times, singles, which)| {
                let count = (lines * 64 / stride + more).min(9000);
                let mut words = Vec::new();
                for time in 0..times {
                    words.extend([1 + which, count]);
                    for (address, moves, stays) in strands {
                        words.extend([address.wrapping_add_signed(time * moves), if stays { 0 } else { stride }]);
                    }
                    for &(address, moves) in &singles {
                        words.extend([4, address + if moves { 64 * time as u64 } else { 0 }]);
                    }
                }
                words
            })
    }

    /// Those of streams, and of a store.
    fn shapes(streams: [Vec<Step>; 3], item: Item) -> TestShapes {
        let store = Shape::once(2, vec![Step { word: 1, offset: 0, what: What::Store(8), item }]);
        let all = streams.into_iter().map(|steps| Shape::stream(8, steps)).chain([store]);
        TestShapes(all.map(|shape| Arc::new(shape.unwrap())).collect())
    }

    fn limits() -> impl Strategy<Value = Limits> {
        (prop_oneof![3 => 0_u32..=12, 1 => 13_u32..=19], prop_oneof![Just(1_u32), Just(2), Just(64), 1_u32..40])
            .prop_map(|(max_set_bits, max_ways)| Limits { max_set_bits, max_ways })
    }

    /// What is exact of a position.
    fn cut(position: Option<Position>, Limits { max_set_bits, max_ways }: Limits) -> Option<Position> {
        let mut position = position?;
        position.by_set.iter_mut().for_each(|depth| *depth = (*depth).min(max_ways as u8));
        position.by_set[max_set_bits as usize..].fill(0);
        Some(position)
    }

    /// Where all lines stand where others can take them away from now on.
    fn positions(stack: &mut Stack, limits: Limits) -> BTreeMap<u64, Option<Position>> {
        stack.share(0);
        let mut all = BTreeMap::new();
        stack.each_line(|line, _| {
            all.insert(line, cut(stack.position(line), limits));
        });
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Whatever comes between, loops that are taken as a whole count as their references one by one.
        #[test]
        fn walks_change_no_figure(
            streams in [steps(), steps(), steps()],
            records in prop::collection::vec(entered(), 1..6),
            limits in limits(),
            attributed in prop::bool::ANY,
            asks in prop::bool::ANY,
            time_left in prop_oneof![2 => Just(i32::MAX), 1 => 0..9000],
        ) {
            let mut shapes = shapes(streams, Item(7));
            let mut plain = Plain::new(limits);
            let all = || Instructions::ALL.into_iter().filter(|instructions| instructions.available());
            let stack = || Stack::with_time_left(limits, time_left);
            let mut fast: Vec<_> = all().map(|which| stack().with_instructions(which)).collect();
            let (mut scratch, mut written) = (Scratch::default(), Stack::new(limits));
            // One leaves half of the work behind, which is taken and comes back.
            let (mut later, mut taken) = (Stack::new(limits), None::<Deferred>);
            later.defer();
            for (words, step) in records.iter().chain(&records).zip(0..) {
                let mut feed = |batch: &mut Batch| {
                    batch.references(6, attributed, &mut scratch, |chunk| {
                        plain.feed_chunk(chunk, Bucket::FIRST);
                        written.feed_chunk(chunk, Bucket::FIRST);
                    });
                    for stack in fast.iter_mut().chain([&mut later]) {
                        batch.references_to(6, attributed, &mut scratch, Counting(stack, &mut 0));
                    }
                };
                let mut batch = Batch::new();
                batch.append(words.iter().copied(), &mut shapes, |part| feed(part));
                feed(&mut batch);
                fast.iter_mut().filter(|_| step % 4 > 1).for_each(Stack::change_width);
                match (step % 3, &mut taken) {
                    (0, Some(taken)) => taken.add(later.take_deferred()),
                    (0, none) => *none = Some(later.take_deferred()),
                    (1, taken) => taken.iter_mut().for_each(Deferred::work_off),
                    (_, taken) => {
                        taken.take().into_iter().for_each(|taken| later.put_back(taken));
                        prop_assert!(later.settle());
                        prop_assert_eq!(later.counted(), plain.counted());
                    }
                }
                if asks {
                    prop_assert_eq!(fast[0].counted(), plain.counted());
                }
            }
            taken.into_iter().for_each(|taken| later.put_back(taken));
            prop_assert!(later.settle());
            let stand = positions(&mut written, limits);
            prop_assert_eq!(stand.len(), plain.counted().iter().map(|counted| counted.all.cold.iter().sum::<u64>()).sum::<u64>() as usize);
            for stack in fast.iter_mut().chain([&mut later]) {
                prop_assert_eq!(stack.counted(), plain.counted());
                // Where there is a second thread all lines stand where they did.
                prop_assert_eq!(&positions(stack, limits), &stand);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// The same where several threads take lines from each other.
        #[test]
        fn walks_of_several_threads_change_no_figure(
            streams in [steps(), steps(), steps()],
            records in prop::collection::vec((entered(), 0..3_u32, prop::bool::weighted(0.7)), 1..9),
            limits in limits(),
        ) {
            let plain = |steps: Vec<Step>| steps.into_iter().map(|step| Step { item: Item::NONE, ..step }).collect();
            let mut shapes = shapes(streams.map(plain), Item::NONE);
            let sessions: [_; 2] = std::array::from_fn(|_| Session::new(Config { limits, rounds: None, ..Config::default() }));
            let slots = |slot| sessions.iter().for_each(|session| session.ensure_slot(slot));
            slots(0);
            for (words, slot, alone) in records.iter().chain(&records) {
                slots(*slot);
                let feed = |batch: &mut Batch| {
                    let mut single = Batch::new();
                    batch.for_each(|access| single.access(access.address, access.size, access.store));
                    sessions[0].feed(*slot, batch, Bucket::FIRST);
                    sessions[1].feed(*slot, &single, Bucket::FIRST);
                };
                let (mut words, mut at) = (words.clone(), 0);
                while *alone && at < words.len() {
                    let (addresses, len): (&[usize], _) = if words[at] == 4 { (&[1], 2) } else { (&[2, 4, 6], 8) };
                    addresses.iter().for_each(|word| words[at + word] += u64::from(*slot) << 32);
                    at += len;
                }
                let mut batch = Batch::new();
                batch.append(words.into_iter(), &mut shapes, feed);
                feed(&mut batch);
            }
            let [walked, single] = sessions.map(|session| session.snapshot(Duration::from_mins(1)));
            prop_assert_eq!(walked, single);
        }
    }

    /// Ranges of lines where those of [`entered`] are, in order and apart, and whether each is stored.
    fn asked() -> impl Strategy<Value = Vec<Common>> {
        let line = prop_oneof![2 => 0..700_u64, 1 => (0..9_u64).prop_map(|i| 1024 * i)];
        let len = prop_oneof![2 => 1..9_u64, 2 => 9..500_u64];
        let range = (line, (0..4_u64).prop_map(|i| i << 14), len, prop::bool::weighted(0.15));
        prop::collection::vec(range, 0..7).prop_map(|ranges| {
            let mut next = 0;
            let all = ranges.into_iter().map(|(line, far, len, stored)| ((0x10_0000 >> 6) + line + far, len, stored));
            let mut all: Vec<_> = all.collect();
            all.sort_unstable();
            let all = all.into_iter().map(|(line, len, stored)| {
                let lines = line.max(next)..(line + len).max(next);
                next = lines.end;
                Common { lines, stored, holders: Holders::ALL }
            });
            all.filter(|common| !common.lines.is_empty()).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Where another thread finds lines does not depend on whether loops walked over them.
        #[test]
        fn walked_lines_are_found_where_they_are(
            streams in [steps(), steps(), steps()],
            records in prop::collection::vec((entered(), [asked(), asked()]), 1..6),
            limits in limits(),
        ) {
            let mut shapes = shapes(streams, Item::NONE);
            let all = || Instructions::ALL.into_iter().filter(|instructions| instructions.available());
            let mut walking: Vec<_> = all().map(|which| Stack::new(limits).with_instructions(which)).collect();
            let (mut written, mut scratch, mut there) = (Stack::new(limits), Scratch::default(), There::default());
            walking.iter_mut().chain([&mut written]).for_each(|stack| stack.share(0));
            let cut = |position| cut(position, limits);
            for (words, asked) in records.iter().chain(&records) {
                let mut feed = |batch: &mut Batch| {
                    batch.references(6, false, &mut scratch, |chunk| written.feed_chunk(chunk, Bucket::FIRST));
                    for stack in &mut walking {
                        batch.references_to(6, false, &mut scratch, Counting(stack, &mut 0));
                    }
                };
                let mut batch = Batch::new();
                batch.append(words.iter().copied(), &mut shapes, |part| feed(part));
                feed(&mut batch);
                for asked in asked {
                    let mut ask = |stack: &mut Stack| {
                        stack.visited(asked, Bucket::FIRST, &mut there);
                        there.positions().map(cut).collect::<Vec<_>>()
                    };
                    let found = ask(&mut written);
                    for stack in &mut walking {
                        prop_assert_eq!(&found, &ask(stack));
                    }
                }
            }
            for stack in &walking {
                prop_assert_eq!(stack.counted(), written.counted());
                prop_assert_eq!(stack.shared(), written.shared());
            }
        }
    }

    /// The product of two matrices, row by row: once the first rows are known, each is taken as a whole.
    #[test]
    fn rows_of_a_matrix_are_walked_over() {
        let step = |word, what| Step { word, offset: 0, what, item: Item::NONE };
        let steps = vec![step(2, What::Load(16)), step(4, What::Load(16)), step(4, What::Store(16))];
        let once = Shape::once(2, vec![step(1, What::Load(8))]);
        let mut shapes = TestShapes([Shape::stream(6, steps), once].map(|shape| Arc::new(shape.unwrap())).into());
        let (mut stack, mut plain) = (Stack::new(Limits::default()), Plain::new(Limits::default()));
        let (mut scratch, mut walked, rows) = (Scratch::default(), 0, 24_u64);
        for (i, k) in (0..rows).flat_map(|i| (0..rows).map(move |k| (i, k))) {
            let [a, b, c] = [0x10_0000, 0x20_0010, 0x40_0008].map(|first: u64| move |row: u64| first + 4096 * row);
            let mut batch = Batch::new();
            let words = [2, a(i) + 8 * k, 1, 256, b(k), 16, c(i), 16];
            batch.append(words.into_iter(), &mut shapes, |_| panic!("few accesses"));
            batch.references(6, false, &mut scratch, |chunk| plain.feed_chunk(chunk, Bucket::FIRST));
            batch.references_to(6, false, &mut scratch, Counting(&mut stack, &mut walked));
        }
        assert!(walked as u64 > rows * (rows - 3), "{walked}");
        assert_eq!(stack.counted(), plain.counted());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Whatever is copied and filled, and read in between.
        #[test]
        fn ranges_are_their_lines(
            ranges in prop::collection::vec((0..4_u64, 0..4_u64, 0..3000_u64, 1..20_000_u64, 0..4_u8), 1..40), limits in limits(),
        ) {
            let all = || Instructions::ALL.into_iter().filter(|instructions| instructions.available());
            let mut walking: Vec<_> = all().map(|which| Stack::new(limits).with_instructions(which)).collect();
            let (mut plain, mut scratch) = (Plain::new(limits), Scratch::default());
            for (to, from, offset, size, kind) in ranges.iter().chain(&ranges).copied() {
                let [to, from] = [to, from].map(|block| 0x10_0000 + (block << 14) + offset);
                let mut batch = Batch::new();
                match kind {
                    0 => (from..from + size).step_by(200).for_each(|at| batch.access(at, 8, at % 3 == 0)),
                    1 => batch.copy(to, from, size),
                    _ => batch.access(to, size, kind == 2),
                }
                batch.references(6, false, &mut scratch, |chunk| plain.feed_chunk(chunk, Bucket::FIRST));
                for stack in &mut walking {
                    batch.references_to(6, false, &mut scratch, Counting(stack, &mut 0));
                }
            }
            for stack in &walking {
                prop_assert_eq!(stack.counted(), plain.counted());
            }
        }
    }

    /// What is copied or filled at once is walked over, however it was recorded.
    #[test]
    fn long_ranges_are_walked_over() {
        let long = |what, item| Step { word: 1, offset: 0, what, item: Item(item) };
        let shapes = [Shape::once(4, vec![long(What::Copy, 1)]), Shape::once(3, vec![long(What::Store(3200), 2)])];
        let mut shapes = TestShapes(shapes.map(|shape| Arc::new(shape.unwrap())).into());
        let mut walks = |words: [u64; 4]| {
            let (mut stack, mut plain) = (Stack::new(Limits::default()), Plain::new(Limits::default()));
            let (mut scratch, mut walked, mut long) = (Scratch::default(), 0, false);
            for _ in 0..6 {
                let mut batch = Batch::new();
                batch.append(words.into_iter(), &mut shapes, |_| panic!("few accesses"));
                batch.references(6, true, &mut scratch, |chunk| plain.feed_chunk(chunk, Bucket::FIRST));
                batch.references_to(6, true, &mut scratch, Counting(&mut stack, &mut walked));
                long = batch.walks();
            }
            assert_eq!(stack.counted(), plain.counted());
            assert_eq!(long, walked > 0);
            assert!(stack.counted().iter().any(|counted| !counted.items.is_empty()));
            walked
        };
        // Loads and stores; the first two find out what such a loop is.
        assert_eq!(walks([1, 0x10_0000, 0x80_0010, 4096]), 10);
        assert_eq!(walks([1, 0x10_0000, 0x80_0010, 1024]), 0);
        assert_eq!(walks([2, 0x10_0000, 0x80_0010, 0]), 5);
    }

    /// Loops that go on by several lines in each period are walked over if they leave none out.
    #[test]
    fn unrolled_loops_are_walked_over() {
        let walks = |stride: u64, offsets: &[i32]| {
            let of = |word: u32, what: fn(u32) -> What| {
                offsets.iter().map(move |&offset| Step { word, offset, what: what(8), item: Item::NONE })
            };
            let steps = of(2, What::Load).chain(of(4, What::Store)).collect();
            let mut shapes = TestShapes(vec![Arc::new(Shape::stream(6, steps).unwrap())]);
            let (mut stack, mut plain) = (Stack::new(Limits::default()), Plain::new(Limits::default()));
            let (mut scratch, mut walked) = (Scratch::default(), 0);
            for _ in 0..6 {
                let mut batch = Batch::new();
                let words = [1, 200, 0x10_0010, stride, 0x80_0000, stride];
                batch.append(words.into_iter(), &mut shapes, |_| panic!("few accesses"));
                batch.references(6, false, &mut scratch, |chunk| plain.feed_chunk(chunk, Bucket::FIRST));
                batch.references_to(6, false, &mut scratch, Counting(&mut stack, &mut walked));
            }
            assert_eq!(stack.counted(), plain.counted());
            walked
        };
        // The first two find out what such a loop is.
        assert_eq!(walks(8, &[0]), 5);
        assert_eq!(walks(128, &[0, 32, 64, 96]), 5);
        assert_eq!(walks(256, &[0, 64, 128, 192]), 5);
        assert_eq!(walks(24, &[0, 8, 16]), 5);
        // One line of two, and an order that no sheet has.
        assert_eq!(walks(128, &[0]), 0);
        assert_eq!(walks(128, &[64, 0]), 0);
        // Records of several fields.
        assert_eq!(walks(40, &[0]), 5);
        assert_eq!(walks(56, &[0, 8, 16]), 5);
        assert_eq!(walks(72, &[0, 16]), 5);
        // A line comes before the one in front of it.
        assert_eq!(walks(72, &[16, 0, 8]), 5);
        assert_eq!(walks(104, &[0, 40, 64, 96]), 5);
        assert_eq!(walks(320, &[0, 64, 128, 192, 256]), 5);
        // More lines than a period may have.
        assert_eq!(walks(136, &[0, 64, 128]), 0);
    }

    /// What a loop comes back to in each iteration, a sum in memory, does not keep it from walking.
    #[test]
    fn loops_walk_beside_lines_that_they_come_back_to() {
        let step = |word, offset, what| Step { word, offset, what, item: Item::NONE };
        let walks = |steps: &[Step], pins: [u64; 2], threads: bool| {
            let mut shapes = TestShapes(vec![Arc::new(Shape::stream(10, steps.to_vec()).unwrap())]);
            let (mut stack, mut plain) = (Stack::new(Limits::default()), Plain::new(Limits::default()));
            let (mut scratch, mut walked) = (Scratch::default(), 0);
            if threads {
                stack.share(0);
            }
            for count in [2000, 2000, 2000, 1200, 2000] {
                let mut batch = Batch::new();
                let words = [1, count, 0x10_0008, 8, 0x80_0000, 8, pins[0], 0, pins[1], 0];
                batch.append(words.into_iter(), &mut shapes, |_| panic!("few accesses"));
                batch.references(6, false, &mut scratch, |chunk| plain.feed_chunk(chunk, Bucket::FIRST));
                batch.references_to(6, false, &mut scratch, Counting(&mut stack, &mut walked));
            }
            if !threads {
                assert_eq!(stack.counted(), plain.counted());
            }
            walked
        };
        let (load, store) = (What::Load(8), What::Store(8));
        let sum = [step(2, 0, load), step(4, 0, load), step(6, 0, store)];
        let sums = [step(6, 0, load), step(2, 0, load), step(4, 0, store), step(8, 0, load), step(6, 8, store)];
        for threads in [false, true] {
            assert_eq!(walks(&sum, [0xf0_0000, 0], threads), 4);
            assert_eq!(walks(&sums, [0xf0_0000, 0xf0_0040], threads), 4);
            assert_eq!(walks(&sums, [0xf0_0000, 0xf4_0000], threads), 4);
        }
        // It is one of those that the loop walks over.
        assert_eq!(walks(&sum, [0x10_0800, 0], false), 0);
        // A sum that is on two lines.
        assert_eq!(walks(&sum, [0xf0_003c, 0], false), 0);
    }

    /// A loop that loads along one array and stores along another.
    fn copying() -> TestShapes {
        let step = |word, what| Step { word, offset: 0, what, item: Item::NONE };
        let steps = vec![step(2, What::Load(8)), step(4, What::Store(8))];
        TestShapes(vec![Arc::new(Shape::stream(6, steps).unwrap())])
    }

    fn looped(shapes: &mut TestShapes, lines: u64, from: u64, to: u64) -> Batch {
        let mut batch = Batch::new();
        batch.append([1, 8 * lines, from, 8, to, 8].into_iter(), shapes, |_| panic!("few accesses"));
        batch
    }

    /// A line that another thread took away is looked at by itself; what comes before it and after it is walked over.
    #[test]
    fn threads_walk_up_to_a_line_that_was_taken_away_and_on() {
        let (mut shapes, mut scratch, limits) = (copying(), Scratch::default(), Limits::default());
        let [mut walking, mut written, mut of_walking, mut of_written] = std::array::from_fn(|_| Stack::new(limits));
        walking.share(0);
        written.share(0);
        let mut walks = Vec::new();
        for round in 0..9 {
            let mut walked = 0;
            let batch = looped(&mut shapes, 400, 0x10_0000, 0x80_0000);
            batch.references(6, false, &mut scratch, |chunk| written.feed_chunk(chunk, Bucket::FIRST));
            batch.references_to(6, false, &mut scratch, Counting(&mut walking, &mut walked));
            for (own, all) in [(&mut walking, &mut of_walking), (&mut written, &mut of_written)] {
                all.feed_digest(&own.take_digest(bf_stack::Digest::default()), Bucket::FIRST);
                if round == 5 {
                    let line = (0x80_0000 >> 6) + 200;
                    own.visited(
                        &[Common { lines: line..line + 1, stored: true, holders: Holders::ALL }],
                        Bucket::FIRST,
                        &mut There::default(),
                    );
                }
            }
            assert_eq!(walking.counted(), written.counted());
            assert_eq!(walking.shared(), written.shared());
            let all = [(&walking, &of_walking), (&written, &of_written)];
            let [one, other] = all.map(|(own, all)| all.counted_with(&own.within().unwrap()));
            assert_eq!(one, other);
            walks.push(walked);
        }
        // Asked for, known, and then before that line and behind it: the first for the third kind of loop, which ends there.
        assert_eq!(walks[..6], [0, 1, 1, 1, 1, 1]);
        assert!(walks[6..].iter().all(|&walked| walked > 0), "{walks:?}");
    }

    /// The same where an access is as far from the first line of its strand as can be, and on two lines: wherever that line is.
    #[test]
    fn threads_walk_up_to_a_line_that_was_taken_away_however_long_the_loop() {
        let step = |offset, what| Step { word: 2, offset, what, item: Item::NONE };
        let steps = vec![step(3 * 64 + 60, What::Load(16)), step(64, What::Load(8)), step(0, What::Store(8))];
        let mut shapes = TestShapes(vec![Arc::new(Shape::stream(4, steps).unwrap())]);
        for taken in 60..70 {
            let (mut scratch, limits) = (Scratch::default(), Limits { max_set_bits: 0, max_ways: 64 });
            let mut stacks: [_; 2] = std::array::from_fn(|_| Stack::new(limits));
            stacks.iter_mut().for_each(|stack| stack.share(0));
            for round in 0..5 {
                let mut batch = Batch::new();
                batch.append([1, 800, 0x10_0000, 8].into_iter(), &mut shapes, |_| panic!("few accesses"));
                let [walking, written] = &mut stacks;
                let mut walked = 0;
                batch.references_to(6, false, &mut scratch, Counting(walking, &mut walked));
                batch.references(6, false, &mut scratch, |chunk| written.feed_chunk(chunk, Bucket::FIRST));
                assert!(round < 2 || walked > 0, "{round} {taken}");
                let line = (0x10_0000 >> 6) + taken;
                stacks.iter_mut().filter(|_| round == 3).for_each(|stack| {
                    stack.visited(
                        &[Common { lines: line..line + 1, stored: true, holders: Holders::ALL }],
                        Bucket::FIRST,
                        &mut There::default(),
                    );
                });
            }
            let [walking, written] = &stacks;
            assert_eq!(walking.counted(), written.counted());
            assert_eq!(walking.shared(), written.shared());
        }
    }

    /// Rows that are sheets each are written out in the end, and walked over again when enough other lines have come.
    #[test]
    fn loops_walk_again_after_a_pause() {
        let (mut shapes, mut scratch) = (copying(), Scratch::default());
        let mut stack = Stack::new(Limits::default());
        let mut rows = |stack: &mut Stack, from: u64| {
            let mut walked = 0;
            for row in from..from + 50 {
                let batch = looped(&mut shapes, 48, 0x10_0000 + (row << 12), 0x80_0000 + (row << 12));
                batch.references_to(6, false, &mut scratch, Counting(stack, &mut walked));
            }
            walked
        };
        let before = [0, 50, 100].map(|from| rows(&mut stack, from));
        assert!(before[0] > 20 && before[2] == 0, "{before:?}");
        let others: Vec<_> = (0..400).cycle().take(200_000).map(|line| Reference::new(line, false)).collect();
        stack.feed(&others, Bucket::FIRST);
        let after = rows(&mut stack, 150);
        assert!(after > 20, "{after}");
    }

    proptest! {
        /// Distances of one relation share sets in the same ways, nearby ones included.
        #[test]
        fn a_relation_is_all_that_sets_depend_on(
            one in prop_oneof![any::<u64>(), 0..20_000_u64],
            other in prop_oneof![any::<u64>(), 0..20_000_u64],
            low in prop_oneof![Just(0_u64), 0..64_u64],
            lines in 1..=MOST_LINES as u64,
        ) {
            let [one, other] = [one, other].map(|apart| if low == 0 { apart } else { apart << 6 | low });
            let bits = |apart: u64, more: i64| apart.wrapping_add_signed(more).trailing_zeros().min(SET_BITS);
            if relation(one, lines) == relation(other, lines) {
                for more in -reach(lines)..=reach(lines) {
                    prop_assert_eq!(bits(one, more), bits(other, more));
                }
            }
        }
    }
}

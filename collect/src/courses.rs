//! What each step of a record does by itself, all iterations of a loop together: enough where the order of a thread's own accesses
//! does not matter.

use crate::batch::{Access, Record};
use crate::references::at;
use crate::shape::Simple;
use bf_stack::Item;
use smallvec::SmallVec;
use std::ops::Range;

/// Accesses of one step, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Course {
    pub(crate) first: Access,
    /// From each access to the next, bytes.
    stride: i64,
    /// How many there are, at least 1.
    times: u64,
    pub(crate) item: Item,
}

impl Record<'_> {
    /// Gives all accesses to `take`, as courses. Stores to the same bytes are in order.
    #[inline(always)]
    pub(crate) fn for_each_course(self, take: &mut impl FnMut(Course)) {
        if let Self::Shaped { shape, words, whole: true, items, .. } = self
            && shape.plain()
        {
            let item = |number: usize| items.get(number).copied().unwrap_or_default();
            let steps = || (0..).zip(&shape.simple).map(|(number, step)| (step, at(step, words).0, item(number)));
            if !shape.stream {
                for (step, first, item) in steps() {
                    let access = Access::new(first, u64::from(step.more) + 1, step.store);
                    access.into_iter().for_each(|access| take(Course::once(access, item)));
                }
                return;
            }
            let times = shape.iterations(words);
            let mut stores = steps().filter(|(step, ..)| step.store).map(|(.., item)| item);
            let alike = stores.next().is_none_or(|first| stores.all(|other| other == first));
            let course = |(step, first, item): (&Simple, u64, Item)| {
                let first = Access { address: first, size: u64::from(step.more) + 1, store: step.store };
                Course { first, stride: words[step.word as usize + 1] as i64, times, item }
            };
            if alike && times > 0 && steps().map(course).all(|course| course.is_inside()) {
                let mut gathered = Gathered::default();
                steps().map(course).for_each(|course| gathered.add(course, take));
                return gathered.give(take);
            }
        }
        self.for_each(&mut |access, item| take(Course::once(access, item)));
    }
}

/// Courses that are looked at together, at most.
const TOGETHER: usize = 32;
/// Courses as one that fill each other's gaps, as where a loop was unrolled: each the first one, how far the next one is from it,
/// and how many there are so far.
#[derive(Default)]
struct Gathered(SmallVec<[(Course, u64, u64); 4]>);

impl Gathered {
    /// Takes one more, or gives it on.
    #[inline(always)]
    fn add(&mut self, course: Course, take: &mut impl FnMut(Course)) {
        if course.stride <= course.first.size as i64 {
            return take(course);
        }
        let (stride, address) = (course.stride as u64, course.first.address);
        for (first, gap, times) in &mut self.0 {
            let at = Access { address: first.first.address, ..course.first };
            let is_alike = Course { first: at, ..course } == *first;
            let apart = address.wrapping_sub(first.first.address);
            let begins = *times == 1 && apart > 0 && apart < stride && stride.is_multiple_of(apart);
            if is_alike && (begins || *times > 1 && apart == *gap * *times && apart < stride) {
                *gap = if begins { apart } else { *gap };
                *times += 1;
                return;
            }
        }
        if self.0.len() == TOGETHER {
            std::mem::take(self).give(take);
        }
        self.0.push((course, 0, 1));
    }

    /// Gives all of them on.
    #[inline(always)]
    fn give(self, take: &mut impl FnMut(Course)) {
        for (course, gap, times) in self.0 {
            if gap * times == course.stride as u64 {
                take(Course { stride: gap as i64, times: course.times * times, ..course });
                continue;
            }
            for number in 0..times {
                let address = course.first.address + number * gap;
                take(Course { first: Access { address, ..course.first }, ..course });
            }
        }
    }
}

impl Course {
    /// A single access.
    pub(crate) const fn once(first: Access, item: Item) -> Self {
        Self { first, stride: 0, times: 1, item }
    }

    /// Whether it does not come to an end of the address space.
    fn is_inside(&self) -> bool {
        let Access { address, size, .. } = self.first;
        let moved = self.stride.checked_mul(i64::try_from(self.times - 1).unwrap_or(i64::MAX));
        let last = moved.and_then(|moved| address.checked_add_signed(moved));
        address.checked_add(size).and(last).is_some_and(|last| last.checked_add(size).is_some())
    }

    /// Gives the lines of `1 << shift` bytes that it touches, those that follow each other together.
    #[inline(always)]
    pub(crate) fn for_each_range(self, shift: u32, mut take: impl FnMut(Range<u64>)) {
        let Access { address, size, .. } = self.first;
        // All that lies between one access and the next is touched, or they are looked at one by one.
        let dense = self.stride.unsigned_abs() <= 1 << shift;
        let (each, moved) = if dense { (1, self.stride * (self.times - 1) as i64) } else { (self.times, 0) };
        // Two accesses may share a line.
        let (mut least, mut end) = (0, u64::MAX);
        for number in 0..each {
            let from = address.wrapping_add_signed(self.stride.wrapping_mul(number as i64));
            let (low, high) = (from.wrapping_add_signed(moved.min(0)), from.wrapping_add_signed(moved.max(0)));
            // Line numbers have room to spare.
            let lines = (low >> shift).max(least)..end.min(1 + ((high + (size - 1)) >> shift));
            if self.stride > 0 {
                least = lines.end
            } else {
                end = lines.start
            }
            if !lines.is_empty() {
                take(lines);
            }
        }
    }

    /// Which of these bytes it touches, a bit for each `1 << unit` of them, up to 64; and how many accesses do.
    pub(crate) fn on(self, bytes: Range<u64>, unit: u32) -> (u64, u64) {
        let numbers = self.numbers(&bytes);
        let times = if self.stride == 0 { numbers.end * self.times } else { numbers.end.saturating_sub(numbers.start) };
        let from = |number: u64| self.first.address.wrapping_add_signed(self.stride * number as i64);
        let bits = |from: u64, end: u64| {
            let (from, last) = (from.max(bytes.start) - bytes.start, end.min(bytes.end) - 1 - bytes.start);
            u64::MAX >> (63 - ((last >> unit) - (from >> unit))) << (from >> unit)
        };
        let size = self.first.size;
        if self.stride.unsigned_abs() > size {
            return (numbers.fold(0, |mask, number| mask | bits(from(number), from(number) + size)), times);
        }
        // Without gaps.
        let ends = (!numbers.is_empty()).then(|| [from(numbers.start), from(numbers.end - 1)]);
        (ends.map_or(0, |[one, other]| bits(one.min(other), one.max(other) + size)), times)
    }

    /// Whether it goes on as before some of these bytes, and behind them.
    #[inline]
    pub(crate) fn is_beyond(&self, bytes: &Range<u64>) -> bool {
        let Access { address, size, .. } = self.first;
        let last = address.wrapping_add_signed(self.stride.wrapping_mul((self.times - 1) as i64));
        address.min(last) + size <= bytes.start && address.max(last) >= bytes.end
    }

    /// Whether it touches all lines of that length alike, but for those at its ends.
    pub(crate) fn is_alike(&self, line_bytes: u64) -> bool {
        self.stride != 0 && line_bytes.is_multiple_of(self.stride.unsigned_abs())
    }

    /// Which accesses touch some of these bytes, the first one for all that do not move on.
    fn numbers(&self, bytes: &Range<u64>) -> Range<u64> {
        let Access { address, size, .. } = self.first;
        let step = self.stride.unsigned_abs();
        if step == 0 {
            return 0..u64::from(address < bytes.end && address + size > bytes.start);
        }
        // How far it has to go until it comes there, and until it has left.
        let (comes, leaves) = if self.stride > 0 {
            (bytes.start.saturating_sub(address + (size - 1)), bytes.end.saturating_sub(address))
        } else {
            ((address + 1).saturating_sub(bytes.end), (address + size).saturating_sub(bytes.start))
        };
        comes.div_ceil(step)..leaves.div_ceil(step).min(self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whichever courses become one, the accesses stay the same.
        #[test]
        fn gathered_courses_are_the_same_accesses(
            steps in prop::collection::vec((0..12_u64, 1..4_u64, 0..3_u16, 1..5_u64), 1..12), stride in 8..40_i64, times in 1..9_u64,
        ) {
            let mut gathered = Gathered::default();
            let (mut given, mut expected) = (Vec::new(), Vec::new());
            let accesses = |course: Course| {
                (0..course.times).map(move |number| {
                    let address = course.first.address.wrapping_add_signed(course.stride * number as i64);
                    (address, course.first.size, course.item.0)
                })
            };
            let mut take = |course: Course| given.extend(accesses(course));
            for (at, apart, item, often) in steps {
                for number in 0..often {
                    let first = Access { address: (1 << 20) + 8 * (at + apart * number), size: 8, store: false };
                    let course = Course { first, stride: 8 * stride, times, item: Item(item) };
                    expected.extend(accesses(course));
                    gathered.add(course, &mut take);
                }
            }
            gathered.give(&mut take);
            given.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(given, expected);
        }

        #[test]
        fn a_course_is_its_accesses(
            address in 1000..2000_u64, size in 1..200_u64, stride in -300..300_i64, times in 1..40_u64, shift in 3..8_u32,
        ) {
            let first = Access { address: address + (1 << 20), size, store: false };
            let course = Course { first, stride, times, item: Item::NONE };
            let accesses = || (0..times).map(|number| first.address.wrapping_add_signed(stride * number as i64));
            let mut expected: Vec<_> = accesses().flat_map(|from| from >> shift..=(from + size - 1) >> shift).collect();
            expected.sort_unstable();
            expected.dedup();
            let mut lines = Vec::new();
            course.for_each_range(shift, |range| lines.extend(range));
            // Each once.
            lines.sort_unstable();
            prop_assert_eq!(&lines, &expected);
            let unit = shift.saturating_sub(6);
            for line in lines {
                let (begin, end) = (line << shift, (line + 1) << shift);
                let there = accesses().filter(|from| *from < end && from + size > begin);
                let bytes = there.clone().flat_map(|from| from.max(begin)..(from + size).min(end));
                let mask = bytes.fold(0, |mask, byte| mask | 1_u64 << ((byte - begin) >> unit));
                prop_assert_eq!(course.on(begin..end, unit), (mask, there.count() as u64));
            }
        }
    }

    /// Four vectors of a loop that goes on by two lines are one course that leaves none out.
    #[test]
    fn an_unrolled_loop_leaves_no_line_out() {
        let (mut gathered, mut given) = (Gathered::default(), Vec::new());
        let mut take = |course: Course| given.push(course);
        for number in 0..4 {
            let first = Access { address: 0x1_0000 + 32 * number, size: 32, store: true };
            gathered.add(Course { first, stride: 128, times: 10, item: Item(1) }, &mut take);
        }
        gathered.give(&mut take);
        let first = Access { address: 0x1_0000, size: 32, store: true };
        assert_eq!(given, [Course { first, stride: 32, times: 40, item: Item(1) }]);
        let mut ranges = Vec::new();
        given[0].for_each_range(6, |range| ranges.push(range));
        assert!(ranges.len() == 1 && ranges[0] == (0x400..0x400 + 20), "{ranges:?}");
    }
}

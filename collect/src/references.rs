//! Accesses into references to lines: what repeats is found here, once per line size.
//!
//! Invariant: the chunks, their repeated pieces written out, are the references of the accesses one by one, in order.

use crate::batch::{Access, Batch, Record, Records};
use crate::shape::{Shape, Simple, Step, What};
use crate::walks::{self, Plan};
use bf_stack::{Bucket, Chunk, Found, Item, Learns, Part, Reference, Repeat, Use, Went};
use std::ops::Range;

/// References handed to an engine at a time, or a few more: bounds the scratch space whatever the length of a range.
const CHUNK: usize = 4096;

/// A piece that repeats becomes a part by itself once its repetitions would have this many references; an engine takes
/// fewer of them sooner than a part.
const FEW: usize = 8;

/// A template stands for a stretch of a stream in which each step comes to so many lines.
const LINES: u64 = 16;
/// Streams of at most twice as many have one for the whole; and where many steps have lines of their own, stretches are
/// shorter: a template is to have fewer lines than this.
const ALL_LINES: u64 = 256;
/// Shorter streams have none.
const SHORT: u64 = 4;
/// Addresses of streams that have one are from the first to the second of these, for as long as they go on.
const LEAST: u64 = 1 << 16;
const FAR: u64 = 1 << 62;
/// Where a loop walks but for some lines, so many periods are written out around each, and twice as many each time where more
/// than so many follow each other too closely.
const APART: u64 = 8;
const OFTEN: u32 = 8;
/// Loops that do not walk repeat together with so many records behind them, at most, if they have so many accesses.
const TOGETHER: usize = 8;
const LONG: u64 = 64;
/// Two times are worked off, so there have to be more.
const OFTEN_ENOUGH: usize = 3;
/// Uses of templates in a chunk.
const USES: usize = 64;
/// Lines of a range that walks, at least: the upper tiers take shorter ones sooner.
pub(crate) const LONG_RANGE: u64 = 32;

/// Streams over the lines of a range, one in each iteration: one that loads and one that stores.
#[derive(Clone, Debug)]
struct Ranges([Shape; 2]);

impl Default for Ranges {
    fn default() -> Self {
        Self([What::Load(1), What::Store(1)].map(|what| {
            let step = Step { word: 2, offset: 0, what, item: Item::NONE };
            Shape::stream(4, vec![step]).unwrap_or_else(|| Shape::empty(4))
        }))
    }
}

/// Memory to work in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    references: Vec<Reference>,
    items: Vec<Item>,
    parts: Vec<Part>,
    repeats: Vec<Repeat>,
    uses: Vec<Use>,
    stream: Vec<u64>,
    key: Vec<u64>,
    plan: Plan,
    ranges: Ranges,
}

/// Who takes the references.
pub(crate) trait Take {
    /// Takes a chunk.
    fn feed(&mut self, chunk: Chunk<'_>);

    /// Whether it takes parts that repeat together.
    fn repeats(&self) -> bool {
        false
    }

    /// As [`Learns::seeks`].
    fn seeks(&mut self) -> bool {
        false
    }

    /// As [`Learns::find`].
    fn find(&mut self, _key: &[u64]) -> Found {
        Found::Never
    }

    /// As [`Learns::learn`].
    fn learn(&mut self, _key: &[u64], _base: u64, _chunk: Chunk<'_>) {}

    /// As [`Learns::walks`].
    fn walks(&mut self) -> bool {
        false
    }

    /// As [`Learns::find_walk`].
    fn find_walk(&mut self, _key: &[u64]) -> Found {
        Found::Never
    }

    /// As [`Learns::learn_walk`].
    fn learn_walk(&mut self, _plan: &Plan, _loops: [Chunk<'_>; 2]) {}

    /// As [`Learns::walk`].
    fn walk(&mut self, _template: u32, _strands: &[Range<u64>], _periods: u64) -> Went {
        Went::Not
    }
}

impl<F: FnMut(Chunk<'_>)> Take for F {
    fn feed(&mut self, chunk: Chunk<'_>) {
        self(chunk);
    }
}

impl<L: Learns> Take for (&mut L, Bucket) {
    fn feed(&mut self, chunk: Chunk<'_>) {
        self.0.take(chunk, self.1);
    }

    fn repeats(&self) -> bool {
        true
    }

    fn seeks(&mut self) -> bool {
        self.0.seeks()
    }

    fn find(&mut self, key: &[u64]) -> Found {
        self.0.find(key, self.1)
    }

    fn learn(&mut self, key: &[u64], base: u64, chunk: Chunk<'_>) {
        self.0.learn(key, base, chunk, self.1);
    }

    fn walks(&mut self) -> bool {
        self.0.walks()
    }

    fn find_walk(&mut self, key: &[u64]) -> Found {
        self.0.find_walk(key, self.1)
    }

    fn learn_walk(&mut self, plan: &Plan, loops: [Chunk<'_>; 2]) {
        self.0.learn_walk(&plan.key, &plan.strands, plan.pins, plan.period.fewest(), loops, self.1);
    }

    fn walk(&mut self, template: u32, strands: &[Range<u64>], periods: u64) -> Went {
        self.0.walk(template, strands, periods, self.1)
    }
}

impl Batch {
    /// The references to lines of `1 << shift` bytes, in order, in chunks; with items if there are any and they are wanted.
    #[cfg(test)]
    pub(crate) fn references(&self, shift: u32, with_items: bool, scratch: &mut Scratch, feed: impl FnMut(Chunk<'_>)) {
        self.references_to(shift, with_items, scratch, feed);
    }

    /// The same, for one who may know templates.
    pub(crate) fn references_to(&self, shift: u32, with_items: bool, scratch: &mut Scratch, take: impl Take) {
        let Scratch { references, items, parts, repeats, uses, stream, key, plan, ranges } = scratch;
        references.clear();
        items.clear();
        parts.clear();
        repeats.clear();
        uses.clear();
        let attributed = with_items && self.is_attributed();
        let mut writer = Writer {
            shift,
            attributed,
            by_address: attributed && self.goes_by_address(),
            references,
            items,
            parts,
            repeats,
            uses,
            key,
            plan,
            divided: 0,
            piece: 0,
            times: 0,
            written: 0,
            of: None,
            room: CHUNK,
            take,
        };
        let mut records = self.records();
        while let Some(record) = records.next() {
            match record {
                Record::Shaped { shape, words, whole: true, items, .. } if shape.plain() && shape.stream => {
                    // Of a copy, so that what is left stays in registers.
                    if let Some(left) = writer.repeat(record, records.clone(), stream) {
                        records = left;
                        continue;
                    }
                    stream.clear();
                    stream.extend(words);
                    writer.stream(shape, items, stream);
                }
                Record::Shaped { shape, number, words, whole: true, items } if shape.plain() => {
                    writer.once(shape, items, number, words);
                }
                _ => {
                    writer.end_piece();
                    record.for_each(&mut |access, item| writer.range(ranges, access, item));
                }
            }
        }
        writer.hand_on();
    }
}

/// What became of the next iterations of a stream that walks over lines.
enum Walked {
    /// So many were taken.
    Some(u64),
    /// None: after so many periods a line has to be looked at by itself.
    Until(u64),
}

/// Writes references, the last ones a piece that may repeat.
struct Writer<'a, T> {
    shift: u32,
    /// Whether items are written too.
    attributed: bool,
    /// Whether records of one shape may have other items.
    by_address: bool,
    references: &'a mut Vec<Reference>,
    /// One for each reference, or none.
    items: &'a mut Vec<Item>,
    parts: &'a mut Vec<Part>,
    repeats: &'a mut Vec<Repeat>,
    uses: &'a mut Vec<Use>,
    key: &'a mut Vec<u64>,
    plan: &'a mut Plan,
    /// How many of the references are in `parts`.
    divided: usize,
    /// Where the last piece begins, how often it occurs, and the shape it is of, none if it cannot grow.
    piece: usize,
    times: u32,
    /// References of its repetitions that were written out.
    written: usize,
    of: Option<u64>,
    /// References that are handed on at a time.
    room: usize,
    take: T,
}

impl<T: Take> Writer<'_, T> {
    /// One access that is not part of a piece. If it is long, it may walk over its lines as a loop does.
    fn range(&mut self, ranges: &Ranges, access: Access, item: Item) {
        let first = access.address >> self.shift;
        let end = ((access.address + (access.size - 1)) >> self.shift) + 1;
        let mut left = end - first;
        if left >= LONG_RANGE {
            let shape = &ranges.0[usize::from(access.store)];
            left = self.walk_on(shape, &[item], &mut [0, left, first << self.shift, 1 << self.shift], left);
        }
        for line in end - left..end {
            if self.references.len() >= self.room {
                self.hand_on();
            }
            self.references.push(Reference::new(line, access.store));
            if self.attributed {
                self.items.push(item);
            }
        }
        self.piece = self.references.len();
    }

    /// The steps of a plain record that happen once.
    #[inline(always)]
    fn once(&mut self, shape: &Shape, items: &[Item], number: u64, words: &[u64]) {
        if shape.simple.is_empty() {
            return;
        }
        let begin = self.references.len();
        self.lines(shape, items, words);
        let same_lines = self.of == Some(number) && self.references[self.piece..begin] == self.references[begin..];
        if same_lines && (!self.by_address || self.items[self.piece..begin] == self.items[begin..]) {
            if self.written < FEW {
                self.written += self.references.len() - begin;
                self.piece = begin;
                return;
            }
            self.truncate(begin);
            self.times += 1;
            if self.times == u32::MAX {
                self.end_piece();
            }
            return;
        }
        self.begin_piece(begin);
        (self.of, self.times, self.written) = (Some(number), 1, 0);
    }

    /// The iterations of a plain record that is a stream.
    fn stream(&mut self, shape: &Shape, items: &[Item], words: &mut [u64]) {
        if shape.simple.is_empty() {
            return;
        }
        let mut left = self.walk_on(shape, items, words, shape.iterations(words));
        while let Some(stretch) = self.take.seeks().then(|| self.stretch(shape, words, left)).flatten() {
            let base = at(&shape.simple[0], words).0 >> self.shift;
            self.make_key(shape, items, words, stretch.iterations, base);
            let mut times = 1;
            match self.take.find(self.key) {
                Found::Never => break,
                Found::New => self.iterations(shape, items, words, stretch.iterations),
                Found::Again => {
                    self.hand_on();
                    self.room = usize::MAX;
                    self.iterations(shape, items, &mut words.to_vec(), stretch.iterations);
                    self.room = CHUNK;
                    let chunk =
                        Chunk { references: self.references, items: self.items, parts: self.parts, ..Chunk::default() };
                    self.take.learn(self.key, base, chunk);
                    self.forget(self.references.len());
                    continue;
                }
                Found::Template(template) => {
                    times = left / stretch.iterations;
                    self.template(Use { part: 0, template, base, times: times as u32, step: stretch.lines });
                    shape.advance(words, times * stretch.iterations, false);
                }
            }
            left -= times * stretch.iterations;
        }
        self.iterations(shape, items, words, left);
    }

    /// Walks over the lines of so many iterations of a stream as far as that goes, but for single lines; how many are left.
    fn walk_on(&mut self, shape: &Shape, items: &[Item], words: &mut [u64], mut left: u64) -> u64 {
        let mut close = 0_u32;
        while let Some(walked) = self.walk(shape, items, words, left) {
            match walked {
                Walked::Some(iterations) => {
                    shape.advance(words, iterations, false);
                    (left, close) = (left - iterations, 0);
                }
                Walked::Until(periods) => {
                    let some = periods.saturating_add(APART << close.saturating_sub(OFTEN));
                    let some = left.min(some.saturating_mul(self.plan.period.iterations));
                    self.iterations(shape, items, words, some);
                    (left, close) = (left - some, close + 1);
                }
            }
        }
        left
    }

    /// Takes the next iterations of a stream as one that walks over lines, if it is one.
    fn walk(&mut self, shape: &Shape, items: &[Item], words: &[u64], left: u64) -> Option<Walked> {
        let items = if self.attributed { items } else { &[] };
        if !self.take.walks() || !self.plan.make(shape, items, words, left, self.shift) {
            return None;
        }
        let fewest = self.plan.period.fewest();
        let mut found = self.take.find_walk(&self.plan.key);
        if found == Found::Again {
            self.hand_on();
            self.room = usize::MAX;
            let iterations = [1, 0].map(|fewer| (fewest - fewer) * self.plan.period.iterations + self.plan.rest);
            let loops = iterations.map(|iterations| {
                self.iterations(shape, items, &mut words.to_vec(), iterations);
                let written = (self.references.clone(), self.items.clone(), self.parts.clone());
                self.forget(self.references.len());
                written
            });
            self.room = CHUNK;
            let loops = [&loops[0], &loops[1]].map(|(references, items, parts)| Chunk {
                references,
                items,
                parts,
                ..Chunk::default()
            });
            self.take.learn_walk(self.plan, loops);
            found = self.take.find_walk(&self.plan.key);
        }
        let Found::Template(template) = found else { return None };
        self.hand_on();
        match self.take.walk(template, &self.plan.strands, self.plan.periods) {
            Went::All => Some(Walked::Some(self.plan.iterations)),
            // A shorter one each time, so that this ends; what is behind may walk where that is too short.
            Went::Until(periods) if periods >= self.plan.periods => Some(Walked::Until(0)),
            Went::Until(periods) if periods < fewest => Some(Walked::Until(periods)),
            Went::Until(periods) => {
                let walked = self.walk(shape, items, words, periods * self.plan.period.iterations);
                Some(walked.unwrap_or(Walked::Until(0)))
            }
            Went::Not => None,
        }
    }

    /// So many iterations of a stream, written out; its words go on behind them.
    fn iterations(&mut self, shape: &Shape, items: &[Item], words: &mut [u64], mut left: u64) {
        while left > 0 {
            let begin = self.references.len();
            self.lines(shape, items, words);
            self.begin_piece(begin);
            let times = self.same_lines(shape, words, left.min(u32::MAX.into()));
            let len = self.references.len() - self.piece;
            if (times as usize - 1).saturating_mul(len) < FEW {
                for _ in 1..times {
                    self.references.extend_from_within(self.piece..self.piece + len);
                    if self.attributed {
                        self.items.extend_from_within(self.piece..self.piece + len);
                    }
                }
            } else {
                self.times = times as u32;
            }
            shape.advance(words, times, false);
            left -= times;
        }
        self.end_piece();
    }

    /// What of a stream is one template, if that may be worth while.
    #[inline]
    fn stretch(&self, shape: &Shape, words: &[u64], left: u64) -> Option<Stretch> {
        if left < SHORT {
            return None;
        }
        let line = 1 << self.shift;
        let most = line * (ALL_LINES / shape.simple.len() as u64).clamp(1, LINES);
        let strides = || shape.simple.iter().map(|step| words[step.word as usize + 1] as i64);
        let first = words[shape.simple[0].word as usize + 1] as i64;
        let longest = strides().map(i64::unsigned_abs).max().filter(|&longest| longest > 0)?;
        // Far from both ends of the address space.
        let bytes = longest.checked_mul(left).filter(|&bytes| bytes < FAR)?;
        if !shape.simple.iter().all(|step| (bytes + LEAST..FAR).contains(&at(step, words).0)) {
            return None;
        }
        if bytes <= 2 * most {
            return Some(Stretch { iterations: left, lines: 0 });
        }
        // After so many all steps moved on by whole lines.
        let fewest = line >> longest.trailing_zeros().min(self.shift);
        let iterations = fewest * (most / (fewest * longest)).max(1);
        let lines = iterations as i64 * first / line as i64;
        let alike = iterations >= SHORT && iterations * longest <= 2 * most && strides().all(|stride| stride == first);
        alike.then_some(Stretch { iterations, lines })
    }

    /// Stands for the next iterations of a stream: all that their references depend on but the line they begin on.
    #[inline]
    fn make_key(&mut self, shape: &Shape, items: &[Item], words: &[u64], iterations: u64, base: u64) {
        self.key.clear();
        self.key.push(iterations);
        for (number, step) in shape.simple.iter().enumerate() {
            let item = if self.attributed { items.get(number).copied().unwrap_or_default() } else { Item::NONE };
            let what = u64::from(step.more) << 1 | u64::from(step.store) | u64::from(item.0) << 48;
            self.key.extend([at(step, words).0.wrapping_sub(base << self.shift), words[step.word as usize + 1], what]);
        }
    }

    /// Takes a loop and records that come next if they come again on the same lines often enough; what is left then.
    #[inline(never)]
    fn repeat<'a>(&mut self, first: Record<'a>, mut next: Records<'a>, stream: &mut Vec<u64>) -> Option<Records<'a>> {
        let Record::Shaped { shape, words, .. } = first else { return None };
        let long = shape.iterations(words) * shape.simple.len() as u64 >= LONG;
        if !long || !self.take.repeats() || walks::may_walk(shape, words, self.shift) {
            return None;
        }
        let count = 1 + next.clone().take(TOGETHER).position(|record| self.is_alike(first, record))?;
        let all = std::iter::once(first).chain(next.clone());
        let pairs = all.clone().zip(next.clone().skip(count - 1));
        let times = 1 + pairs.take_while(|&(one, other)| self.is_alike(one, other)).count() / count;
        if times < OFTEN_ENOUGH {
            return None;
        }
        self.together(all.take(count), times as u32, stream);
        let _ = next.nth(count * times - 2);
        Some(next)
    }

    /// Whether two records have the same references.
    fn is_alike(&self, one: Record<'_>, other: Record<'_>) -> bool {
        let (
            Record::Shaped { shape, number, words, whole: true, items },
            Record::Shaped { number: other_number, words: other_words, whole: true, items: other_items, .. },
        ) = (one, other)
        else {
            return false;
        };
        let stride = |step: &Simple, words: &[u64]| if shape.stream { words[step.word as usize + 1] } else { 0 };
        // Wherever a stride leads to from an address, it leads to the same line from others that differ in these bits only.
        let same_lines = |step: &Simple| {
            let low = stride(step, words).trailing_zeros().min(self.shift);
            let [of, of_other] = [words, other_words].map(|words| at(step, words));
            stride(step, words) == stride(step, other_words)
                && of.0 >> low == of_other.0 >> low
                && of.1 >> low == of_other.1 >> low
        };
        number == other_number
            && shape.plain()
            && shape.iterations(words) == shape.iterations(other_words)
            && shape.simple.iter().all(same_lines)
            && (!self.by_address || items == other_items)
    }

    /// Records, all of them plain, that come so many times in a row.
    fn together<'a>(&mut self, records: impl Iterator<Item = Record<'a>>, times: u32, stream: &mut Vec<u64>) {
        self.end_part();
        let part = self.parts.len();
        self.room = usize::MAX;
        for record in records {
            let Record::Shaped { shape, number, words, items, .. } = record else { continue };
            if shape.stream {
                stream.clear();
                stream.extend(words);
                self.iterations(shape, items, stream, shape.iterations(words));
            } else {
                self.once(shape, items, number, words);
            }
        }
        self.end_part();
        self.repeats.push(Repeat { part: part as u32, parts: (self.parts.len() - part) as u32, times });
        self.room = CHUNK;
        if self.references.len() >= CHUNK {
            self.hand_on();
        }
    }

    /// A template instead of references.
    fn template(&mut self, found: Use) {
        self.end_part();
        self.uses.push(Use { part: self.parts.len() as u32, ..found });
        if self.uses.len() == USES {
            self.hand_on();
        }
    }

    /// The last references are a new piece, from `begin` on.
    #[inline]
    fn begin_piece(&mut self, begin: usize) {
        if self.times > 1 {
            self.divide(begin);
        }
        self.piece = begin;
        if begin >= self.room {
            self.hand_on_up_to(begin);
        }
    }

    /// Closes the last piece, which ends where nothing was written yet.
    fn end_piece(&mut self) {
        if self.times > 1 {
            self.divide(self.references.len());
        }
        (self.piece, self.times, self.of) = (self.references.len(), 0, None);
    }

    /// The last piece ends at `end`.
    fn divide(&mut self, end: usize) {
        self.part_up_to(self.piece);
        self.parts.push(Part { len: (end - self.piece) as u32, times: self.times });
        (self.divided, self.times) = (end, 1);
    }

    /// The same, and what comes next is another part.
    fn end_part(&mut self) {
        self.end_piece();
        self.part_up_to(self.references.len());
    }

    /// What is in no part yet, before `end`, is one.
    fn part_up_to(&mut self, end: usize) {
        if end > self.divided {
            self.parts.push(Part { len: (end - self.divided) as u32, times: 1 });
            self.divided = end;
        }
    }

    /// Gives everything to the engine.
    fn hand_on(&mut self) {
        self.end_piece();
        self.hand_on_up_to(self.references.len());
    }

    /// Gives what lies before `end`, closed, to the engine.
    #[cold]
    fn hand_on_up_to(&mut self, end: usize) {
        if !self.parts.is_empty() {
            self.part_up_to(end);
        }
        if end > 0 || !self.uses.is_empty() {
            let (references, items) = (&self.references[..end], self.items.get(..end).unwrap_or_default());
            let Self { parts, repeats, uses, .. } = self;
            self.take.feed(Chunk { references, sites: &[], items, parts, repeats, uses });
        }
        self.forget(end);
    }

    /// Forgets what lies before `end`, which is dealt with.
    fn forget(&mut self, end: usize) {
        self.references.drain(..end);
        if self.attributed {
            self.items.drain(..end);
        }
        self.parts.clear();
        self.repeats.clear();
        self.uses.clear();
        (self.divided, self.piece) = (0, 0);
    }

    /// References of every step at its present address.
    #[inline]
    fn lines(&mut self, shape: &Shape, items: &[Item], words: &[u64]) {
        let begin = self.references.len();
        let mut crosses = 0;
        self.references.extend(shape.simple.iter().map(|step| {
            let (first, last) = at(step, words);
            let line = first >> self.shift;
            crosses |= line ^ (last >> self.shift);
            Reference::new(line, step.store)
        }));
        if crosses != 0 {
            self.references.truncate(begin);
            self.crossing(shape, items, words);
        } else if self.attributed {
            match items {
                [] => self.items.resize(self.references.len(), Item::NONE),
                items => self.items.extend_from_slice(items),
            }
        }
    }

    fn truncate(&mut self, len: usize) {
        self.references.truncate(len);
        self.items.truncate(len);
    }

    /// The same for steps of which some cross lines.
    fn crossing(&mut self, shape: &Shape, items: &[Item], words: &[u64]) {
        for (number, step) in shape.simple.iter().enumerate() {
            let (first, _) = at(step, words);
            let last = first.saturating_add(step.more.into()) >> self.shift;
            self.references.extend((first >> self.shift..=last).map(|line| Reference::new(line, step.store)));
            if self.attributed {
                self.items.resize(self.references.len(), items.get(number).copied().unwrap_or_default());
            }
        }
    }

    /// For how many iterations of a stream, this one included, all steps stay on their lines; at most `most`.
    #[inline]
    fn same_lines(&self, shape: &Shape, words: &[u64], most: u64) -> u64 {
        let within = (1 << self.shift) - 1;
        let mut times = most;
        for step in &shape.simple {
            let stride = words[step.word as usize + 1] as i64;
            let distance = stride.unsigned_abs();
            if distance == 0 {
                continue;
            }
            if distance > within {
                return 1;
            }
            let (first, last) = at(step, words);
            let (first, last) = (first & within, last & within);
            let room = if stride > 0 { within - first.max(last) } else { first.min(last) };
            // Both are below 2^30: lines are no longer.
            times = times.min(1 + u64::from(room as u32 / distance as u32));
        }
        times
    }
}

/// Iterations of a stream, and by how many lines they move on.
#[derive(Clone, Copy)]
struct Stretch {
    iterations: u64,
    lines: i64,
}

/// The first byte of a step, and the last.
#[inline(always)]
pub(crate) fn at(step: &Simple, words: &[u64]) -> (u64, u64) {
    let address = words[step.word as usize].wrapping_add_signed(step.offset.into());
    (address, address.wrapping_add(step.more.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TestShapes;
    use crate::shape::{Step, What};
    use bf_stack::{Digester, Engine as _, Stack};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn known(shapes: Vec<Option<Shape>>) -> TestShapes {
        TestShapes(shapes.into_iter().map(|shape| Arc::new(shape.unwrap())).collect())
    }

    /// Lines, whether they are stored to, and items.
    type Written = Vec<(u64, bool, u16)>;

    /// Takes parts that repeat together.
    struct Repeating<F>(F);

    impl<F: FnMut(Chunk<'_>)> Take for Repeating<F> {
        fn feed(&mut self, chunk: Chunk<'_>) {
            (self.0)(chunk);
        }

        fn repeats(&self) -> bool {
            true
        }
    }

    /// The references as they are handed on, and how many of them were written.
    fn chunked(batch: &Batch, shift: u32) -> (Written, usize) {
        let (mut all, mut written) = (Vec::new(), 0);
        let take = |chunk: Chunk<'_>| {
            written += chunk.references.len();
            let items = chunk.items.iter().map(|item| item.0).chain(std::iter::repeat(0));
            let written: Vec<_> =
                chunk.references.iter().zip(items).map(|(r, item)| (r.line(), r.is_store(), item)).collect();
            let parts: usize = chunk.parts.iter().map(|part| part.len as usize).sum();
            assert!(chunk.parts.is_empty() || parts == written.len(), "parts that leave some out");
            let end = chunk.repeats.iter().fold(0, |end, repeat| {
                assert!(repeat.part >= end && repeat.parts > 0, "parts that repeat with some and with others");
                repeat.part + repeat.parts
            });
            assert!(end as usize <= chunk.parts.len(), "parts that are not there repeat");
            chunk.for_each_occurrence(|piece| all.extend_from_slice(&written[piece]));
        };
        batch.references_to(shift, true, &mut Scratch::default(), Repeating(take));
        (all, written)
    }

    /// The references by the definition, access by access.
    fn flat(batch: &Batch, shift: u32) -> Written {
        let mut all = Vec::new();
        batch.for_each_item(|a, item| {
            let last = (a.address + (a.size - 1)) >> shift;
            all.extend((a.address >> shift..=last).map(|line| (line, a.store, item.0)));
        });
        all
    }

    fn recorded(shapes: &mut TestShapes, words: &[u64]) -> Batch {
        let mut batch = Batch::new();
        assert_eq!(batch.append(words.iter().copied(), shapes, |_| panic!("more than a batch holds")), words.len());
        batch
    }

    const fn load(word: u32, offset: i32, size: u32) -> Step {
        Step { word, offset, what: What::Load(size), item: Item((word % 3) as u16) }
    }

    const fn store(word: u32, offset: i32, size: u32) -> Step {
        Step { word, offset, what: What::Store(size), item: Item((word % 3) as u16) }
    }

    #[test]
    fn a_record_on_the_lines_of_the_one_before_is_written_once() {
        let mut known = known(vec![Shape::once(3, vec![load(1, 0, 8), store(2, 0, 8)])]);
        let words: Vec<_> =
            (0..101).flat_map(|i| [1, 0x1000 + i % 50, if i < 100 { 0x2000 } else { 0x2040 }]).collect();
        let (all, written) = chunked(&recorded(&mut known, &words), 6);
        let (a, b) = ((0x40, false, 1), (0x80, true, 2));
        assert_eq!(all, [[a, b].repeat(100), vec![a, (0x81, true, 2)]].concat());
        // A few of them were written out before it was worth while.
        assert_eq!(written, 2 + FEW + 2);
    }

    #[test]
    fn offsets_are_looked_at_when_lines_are_compared() {
        let mut known = known(vec![Shape::once(2, vec![load(1, 0, 8), load(1, 56, 8)])]);
        let (all, written) = chunked(&recorded(&mut known, &[1, 0x1000, 1, 0x1001, 1, 0x1008]), 6);
        assert_eq!(all.iter().map(|r| r.0).collect::<Vec<_>>(), [64, 64, 64, 64, 65, 64, 65]);
        assert_eq!(written, 7);
    }

    #[test]
    fn a_stream_is_written_once_a_line() {
        let mut known = known(vec![Shape::stream(6, vec![load(2, 0, 8), store(4, 0, 8)])]);
        let batch = recorded(&mut known, &[1, 1000, 0x10000, 8, 0x2_0ff8, -8_i64 as u64]);
        assert_eq!(batch.accesses(), 2000);
        let (all, written) = chunked(&batch, 6);
        assert_eq!(all, flat(&batch, 6));
        assert_eq!(written, 250);
    }

    #[test]
    fn a_loop_that_was_seen_before_is_a_template() {
        struct Uses(Stack, usize, usize);
        impl Take for &mut Uses {
            fn feed(&mut self, chunk: Chunk<'_>) {
                self.1 += chunk.references.len();
                self.2 += chunk.uses.iter().map(|found| found.times as usize).sum::<usize>();
                self.0.feed_chunk(chunk, Bucket::FIRST);
            }
            fn seeks(&mut self) -> bool {
                true
            }
            fn find(&mut self, key: &[u64]) -> Found {
                self.0.find(key, Bucket::FIRST)
            }
            fn learn(&mut self, key: &[u64], base: u64, chunk: Chunk<'_>) {
                self.0.learn(key, base, chunk, Bucket::FIRST);
            }
        }
        let mut known = known(vec![Shape::stream(6, vec![load(2, -8, 8), load(2, 8, 8), store(4, 0, 8)])]);
        let row = |i: u64, count| [1, count, 0x10_0000 + i * 4096, 8, 0x80_0000 + i * 4096, 8];
        let mut to = Uses(Stack::new(bf_stack::Limits::default()), 0, 0);
        // The first row is written out, and what follows it of the second kind.
        let rows: Vec<_> = (0..10).flat_map(|i| row(i, 200)).chain((0..10).flat_map(|i| row(i, 1000))).collect();
        recorded(&mut known, &rows).references_to(6, false, &mut Scratch::default(), &mut to);
        // Stretches of 128 iterations, 7 of each row, and the rest of it; the first of each kind is written out.
        assert_eq!(to.2, 9 + (10 * 7 - 1) + (10 - 1));
        let written = to.1;
        recorded(&mut known, &rows).references_to(6, false, &mut Scratch::default(), &mut to);
        assert_eq!((to.1, to.2), (written, 87 + 10 + 10 * 8));
    }

    #[test]
    fn a_column_that_comes_again_on_the_same_lines_is_written_once() {
        let column = Shape::stream(6, vec![load(2, 0, 8), load(4, 0, 8)]);
        let mut known = known(vec![column, Shape::once(2, vec![store(1, 0, 8)])]);
        // A row times a column of doubles each, whose rows are so many bytes long: as in the product of two matrices.
        let columns = |bytes: u64| -> Vec<_> {
            let column = |j: u64| [1, 50, 0x10_0000, 8, 0x20_0000 + 8 * j, bytes, 2, 0x80_0000 + 8 * j];
            (0..20).flat_map(column).collect()
        };
        // With half a line more in a row every other element comes to the next line after four columns.
        for (bytes, groups) in [(6400, 3), (6432, 5), (6408, 20)] {
            let batch = recorded(&mut known, &columns(bytes));
            let (all, written) = chunked(&batch, 6);
            assert_eq!(all, flat(&batch, 6));
            assert_eq!(written, groups * 101);
        }
    }

    #[test]
    fn streams_that_do_not_move_or_never_happen() {
        let mut known = known(vec![Shape::stream(4, vec![load(2, 0, 8)])]);
        let batch = recorded(&mut known, &[1, 60_000, 0x1000, 0, 1, 0, 0x1000, 8, 1, 5, 0, 8]);
        assert_eq!(batch.accesses(), 60_000);
        assert_eq!(chunked(&batch, 6), (vec![(64, false, 2); 60_000], 1));
    }

    #[test]
    fn a_stream_goes_on_at_the_beginning_of_the_address_space() {
        let mut known = known(vec![Shape::stream(4, vec![load(2, 0, 1)])]);
        let batch = recorded(&mut known, &[1, 40, u64::MAX - 15, 1]);
        assert_eq!(chunked(&batch, 3).0, flat(&batch, 3));
    }

    #[test]
    fn a_huge_stream_comes_in_parts() {
        let mut known =
            known(vec![Shape::stream(4, vec![load(2, 0, 8), load(2, 8, 8)]), Shape::once(2, vec![store(1, 0, 8)])]);
        let words = [2, 64, 1, 1 << 20, 0x1_0000, 16, 2, 128, 1, 3, 0];
        let (mut batch, mut lines, mut accesses) = (Batch::new(), Vec::new(), 0);
        let mut take = |part: &mut Batch| {
            assert!(part.accesses() <= Batch::MOST);
            accesses += part.accesses();
            lines.extend(chunked(part, 6).0);
            *part = Batch::new();
        };
        // The last record lacks a word.
        assert_eq!(batch.append(words.into_iter(), &mut known, &mut take), 8);
        take(&mut batch);
        assert_eq!(accesses, 2 + (2 << 20));
        let expected = (0..2 << 20).map(|i| ((0x1_0000 + 8 * i) >> 6, false, 2));
        assert!(lines.iter().copied().eq([(1, true, 1)].into_iter().chain(expected).chain([(2, true, 1)])));
    }

    #[test]
    fn accesses_of_a_stream_are_multiplied_not_walked() {
        let mut known = known(vec![Shape::stream(4, vec![load(2, 0, 8)])]);
        let (mut batch, mut accesses) = (Batch::new(), 0);
        batch.append([1, 1 << 36, 64, 8].into_iter(), &mut known, |part| accesses += part.accesses());
        assert_eq!(accesses + batch.accesses(), 1 << 36);
    }

    fn steps(first: u32, words: u32, apart: u32) -> impl Strategy<Value = Vec<Step>> {
        let size = prop_oneof![1_u32..100, Just(8), Just(64), Just(5000)];
        let step = (0..words, prop_oneof![Just(0), -80..80_i32], size, any::<bool>());
        let make = move |(word, offset, size, is_store)| {
            let step = if is_store { store } else { load };
            step(first + word * apart, offset, size)
        };
        proptest::collection::vec(step.prop_map(make), 0..5)
    }

    /// Addresses that often share lines, and rarely are none or the last there are.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![8 => 0x1_0000..0x1_0100_u64, 2 => 0x1_0000..0x2_0000_u64, 1 => Just(0), 1 => Just(u64::MAX - 70)]
    }

    fn stride() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(8),
            Just(-8_i64 as u64),
            Just(0),
            Just(32),
            Just(64),
            Just(1 << 62),
            (-300..300_i64).prop_map(|s| s as u64)
        ]
    }

    /// A record's header and words.
    fn record(stream: bool) -> BoxedStrategy<Vec<u64>> {
        if stream {
            (0..200_u64, address(), stride(), address(), stride())
                .prop_map(|(count, a, s, b, t)| vec![2, count, a, s, b, t])
                .boxed()
        } else {
            (address(), address()).prop_map(|(a, b)| vec![1, a, b]).boxed()
        }
    }

    /// A loop that is entered several times: two addresses and strides, and by how much both addresses move on.
    fn entered() -> impl Strategy<Value = Vec<u64>> {
        let address =
            prop_oneof![4 => 0x20_0000..0x20_0400_u64, 2 => 0x20_0000..0x22_0000_u64, 1 => 0xff00..0x1_0100_u64];
        let stride = prop_oneof![
            6 => Just(8),
            2 => Just(16),
            1 => prop_oneof![Just(-8_i64 as u64), Just(24), Just(0), Just(64), Just(1), Just(200)],
        ];
        let apart = prop_oneof![3 => (0..40_u64).prop_map(|lines| lines << 6), 1 => 0..3000_u64];
        let counts = prop_oneof![3 => 4..60_u64, 1 => 60..400_u64];
        (counts, address.clone(), stride.clone(), address, stride, any::<bool>(), apart, 1..6_u64).prop_map(
            |(count, a, s, b, other, alike, apart, times)| {
                let t = if alike { s } else { other };
                (0..times).flat_map(|i| [2, count, a + i * apart, s, b + i * apart, t]).collect()
            },
        )
    }

    /// A loop and what comes behind it, several times, of which some addresses move on.
    fn again() -> impl Strategy<Value = Vec<u64>> {
        let address = || prop_oneof![4 => 0x20_0000..0x20_0400_u64, 1 => 0x20_0000..0x22_0000_u64];
        let long =
            prop_oneof![Just(8), Just(24), Just(512), Just(640), (0..2000_i64).prop_map(|s| (8 * s - 8000) as u64)];
        let moves = || prop_oneof![2 => Just(0_u64), 2 => Just(8), 1 => 0..40_u64];
        let behind = proptest::collection::vec((address(), address(), moves()), 0..3);
        let of = (20..80_u64, address(), stride(), moves(), address(), long, moves());
        (of, behind, 1..14_u64).prop_map(|((count, a, s, move_a, b, t, move_b), behind, times)| {
            let one = |i: u64| {
                let behind = behind.iter().flat_map(move |&(a, b, moves)| [1, a + i * moves, b]);
                [2, count, a + i * move_a, s, b + i * move_b, t].into_iter().chain(behind)
            };
            (0..times).flat_map(one).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn templates_change_no_figure(
            once in steps(1, 2, 1),
            stream in steps(2, 2, 2),
            records in proptest::collection::vec(prop_oneof![3 => entered().boxed(), 2 => again().boxed(), 1 => record(false)], 0..7),
            shift in 5..8_u32,
        ) {
            let mut known = known(vec![Shape::once(3, once), Shape::stream(6, stream)]);
            let limits = bf_stack::Limits { max_set_bits: 9, max_ways: 20 };
            let (mut stack, mut without) = (Stack::new(limits), Stack::new(limits));
            let mut digester = Digester::new(limits);
            let mut digested = Stack::new(limits);
            let mut scratch = Scratch::default();
            let bucket = Bucket::FIRST;
            // The same batches come several times.
            for part in [&records[..], &records[..records.len() / 2], &records[..]] {
                let batch = recorded(&mut known, &part.concat());
                batch.references(shift, true, &mut scratch, |chunk| without.feed_chunk(chunk, bucket));
                batch.references_to(shift, true, &mut scratch, (&mut stack, bucket));
                batch.references_to(shift, true, &mut scratch, (&mut digester, bucket));
                digested.feed_digest(&digester.take_digest(bf_stack::Digest::default()), bucket);
            }
            digested.absorb(&digester.take_within());
            prop_assert_eq!(stack.counted(), without.counted());
            prop_assert_eq!(digested.counted(), without.counted());
        }
    }

    proptest! {
        #[test]
        fn chunks_say_what_the_accesses_say(
            once in steps(1, 2, 1),
            stream in steps(2, 2, 2),
            records in proptest::collection::vec(
                prop_oneof![4 => any::<bool>().prop_flat_map(record).boxed(), 1 => again().boxed()],
                0..40,
            ),
            shift in 3..10_u32,
        ) {
            let mut known = known(vec![Shape::once(3, once), Shape::stream(6, stream)]);
            let batch = recorded(&mut known, &records.concat());
            prop_assert_eq!(chunked(&batch, shift).0, flat(&batch, shift));
            let mut accesses = 0;
            batch.for_each(|_| accesses += 1);
            prop_assert_eq!(batch.accesses(), accesses);
        }
    }
}

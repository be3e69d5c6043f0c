//! The buffer's words: see `bf-abi` for the layout.

use crate::modules::{self, SHARING};
use bf_abi::{Entry, MAX_SEGMENT_WORDS, Op, Segment};
use bf_collect::{Event, Item, Shape, Shapes, Step, What};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A segment is where its header says.
pub fn there(address: u64) -> *const Segment {
    address as *const Segment
}

/// How many words a record has.
///
/// # Safety
///
/// `locate` gives the place of the header's segment, mapped.
#[inline(always)]
unsafe fn words(header: u64, locate: impl Fn(u64) -> *const Segment) -> u32 {
    match Segment::of_header(header) {
        (_, Some(words)) => words,
        // SAFETY:
        // - the caller's obligation
        (address, None) => unsafe { (*locate(address)).words.clamp(1, MAX_SEGMENT_WORDS) },
    }
}

/// What one thread remembers of segments, so that it need not ask, and what it counted.
#[derive(Default)]
pub struct Memory {
    /// By number of a segment: its callee, 0 if that is not remembered.
    callees: Vec<u32>,
    /// By number of a callee.
    pub calls: Vec<u64>,
    /// By number of a segment whose places share items: the accesses that it stood for.
    accesses: Vec<u64>,
}

impl Memory {
    #[inline]
    fn count_call(&mut self, number: u32) {
        let callee = match self.callees.get(number as usize) {
            Some(&callee @ 1..) => callee,
            _ => self.ask(number),
        };
        match self.calls.get_mut(callee as usize) {
            Some(calls) => *calls += 1,
            None => {
                self.calls.resize(callee as usize + 1, 0);
                self.calls[callee as usize] = 1;
            }
        }
    }

    #[cold]
    fn ask(&mut self, number: u32) -> u32 {
        let callee = modules::callee(number);
        if self.callees.len() <= number as usize {
            self.callees.resize(number as usize + 1, 0);
        }
        self.callees[number as usize] = callee;
        callee
    }

    /// Adds to the accesses of the segment of that number. Returns how many there are.
    fn count_accesses(&mut self, number: u32, more: u64) -> u64 {
        let number = number as usize;
        if self.accesses.len() <= number {
            self.accesses.resize(number + 1, 0);
        }
        self.accesses[number] = self.accesses[number].saturating_add(more);
        self.accesses[number]
    }
}

/// Reads headers.
pub struct Reader<'a, L> {
    locate: L,
    memory: &'a mut Memory,
    counts_calls: bool,
}

impl<'a, L: Fn(u64) -> *const Segment> Reader<'a, L> {
    /// # Safety
    ///
    /// The reader is given headers only that instrumented code stored, and `locate` gives the place of each one's
    /// segment, mapped.
    pub unsafe fn new(locate: L, memory: &'a mut Memory, counts_calls: bool) -> Self {
        Self { locate, memory, counts_calls }
    }
}

impl<L: Fn(u64) -> *const Segment> Shapes for Reader<'_, L> {
    #[inline(always)]
    fn words(&self, header: u64) -> u32 {
        // SAFETY:
        // - a word where a segment begins is zero or a header: nothing else is ever stored there
        unsafe { words(header, &self.locate) }
    }

    #[inline(always)]
    fn number(&mut self, record: &[u64]) -> u32 {
        // SAFETY:
        // - as above; mapped, as `new` was promised; only its `id` ever changes, and that through an atomic
        let segment = unsafe { &*(self.locate)(Segment::of_header(record[0]).0) };
        let number = match id_of(segment).load(Ordering::Relaxed) {
            number @ 1..SHARING => number,
            number => self.find(segment, number, record),
        };
        if segment.callee != 0 && self.counts_calls {
            self.memory.count_call(number);
        }
        number
    }

    fn shape(&mut self, number: u32) -> Arc<Shape> {
        modules::shape(number)
    }
}

impl<L> Reader<'_, L> {
    /// The number of a record's segment, whose `id` is that: 0, or that of one whose places share items, and may be hot by now.
    #[cold]
    fn find(&mut self, segment: &Segment, id: u32, record: &[u64]) -> u32 {
        // SAFETY:
        // - `n_entries` entries follow the struct
        let entries = unsafe { entries(segment) };
        let number = id & !SHARING;
        let mut before = 0;
        if number != 0 {
            before = self.memory.count_accesses(number, accesses(segment, entries, record));
            if before < modules::heat() {
                return number;
            }
        }
        modules::number(segment, entries, before)
    }
}

/// How many accesses a record stands for, of a range one for each line of 64 bytes or so.
fn accesses(segment: &Segment, entries: &[Entry], record: &[u64]) -> u64 {
    let word = |at: u32| record.get(at as usize).copied().unwrap_or(0);
    if segment.kind == Segment::STREAM {
        return word(Shape::COUNT).saturating_mul(entries.len() as u64);
    }
    let lines = entries.iter().map(|entry| match Op::of(entry.what).map_or(1, Op::words) {
        1 => 1,
        words => 1 + word(entry.word + words - 1) / 64,
    });
    lines.fold(0, u64::saturating_add)
}

/// The `id` of a segment.
pub fn id_of(segment: &Segment) -> &AtomicU32 {
    // SAFETY:
    // - `id` is an aligned u32 that everyone reaches through atomics
    unsafe { AtomicU32::from_ptr((&raw const segment.id).cast_mut()) }
}

/// # Safety
///
/// As many entries as it says follow the segment.
unsafe fn entries(segment: &Segment) -> &[Entry] {
    // SAFETY:
    // - the caller's obligation; the struct's size is a multiple of an entry's alignment
    unsafe {
        let first = (&raw const *segment).add(1).cast::<Entry>();
        std::slice::from_raw_parts(first, segment.n_entries as usize)
    }
}

/// The form of a segment's records, with what its entries' sites are attributed to. `site`: the segment's own.
pub fn shape(segment: &Segment, entries: &[Entry], site: u32, mut item: impl FnMut(u32) -> Item) -> Shape {
    let words = segment.words.clamp(1, MAX_SEGMENT_WORDS);
    let steps = entries.iter().map_while(|entry| step(entry, &mut item)).collect();
    let shape = match segment.kind {
        Segment::STREAM => Shape::stream(words, steps),
        Segment::ALLOCATION => Shape::event(words, Event::Allocation { site }),
        Segment::RELEASE => Shape::event(words, Event::Release),
        Segment::PATH => Shape::event(words, Event::Path),
        _ => Shape::once(words, steps),
    };
    // No pass writes a segment with entries outside of its words.
    shape.unwrap_or_else(|| Shape::empty(words))
}

fn step(entry: &Entry, item: impl FnOnce(u32) -> Item) -> Option<Step> {
    let size = entry.what & Op::MAX_SIZE;
    let what = match Op::of(entry.what)? {
        Op::Load => What::Load(size),
        Op::Store => What::Store(size),
        Op::LoadRange => What::LoadRange,
        Op::StoreRange => What::StoreRange,
        Op::Copy => What::Copy,
    };
    Some(Step { word: entry.word, offset: entry.offset, what, item: item(entry.site) })
}

/// A word of a buffer that its thread may be writing.
///
/// # Safety
///
/// `at` is within a buffer.
#[inline(always)]
pub unsafe fn word(at: *const u64) -> u64 {
    // SAFETY:
    // - buffers are mapped for good, aligned, and shared with nothing but atomics and the generated stores
    unsafe { AtomicU64::from_ptr(at.cast_mut()) }.load(Ordering::Relaxed)
}

/// How far `from..to`, which a handler interrupted, can be read now: up to a segment that lacks its header or one of its
/// words. What is missing may never come (an inactive lane); then it is read later all the same.
///
/// # Safety
///
/// `from..to` lies within one buffer that instrumented code filled, and `locate` gives the place of every segment that is
/// named there, mapped. The thread that fills it may be running.
pub unsafe fn complete(from: *const u64, to: *const u64, locate: impl Fn(u64) -> *const Segment) -> *const u64 {
    let mut at = from;
    while at < to {
        // SAFETY:
        // - `at < to`, so within the buffer
        let header = unsafe { word(at) };
        if header == 0 {
            break;
        }
        // SAFETY:
        // - as in `Reader::words`
        let words = unsafe { words(header, &locate) } as usize;
        let next = at.wrapping_add(words);
        // Only the last segment can be in the making.
        // SAFETY:
        // - the words of a segment lie within its buffer
        if next >= to && (1..words).any(|i| unsafe { word(at.add(i)) } == 0) {
            break;
        }
        at = next;
    }
    at.min(to)
}

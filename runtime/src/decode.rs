//! The buffer's words back into accesses: see `bf-abi` for the layout.

use bf_abi::{MAX_SEGMENT_WORDS, Op, Segment};
use std::sync::atomic::{AtomicU64, Ordering};

/// What takes the accesses of a buffer.
pub trait Sink {
    /// One access; never of address 0, possibly of size 0.
    fn access(&mut self, address: u64, size: u64, store: bool);
    /// A `memcpy` or `memmove`.
    fn copy(&mut self, to: u64, from: u64, size: u64);
    /// A segment that ends in a call of a function its module only declares.
    fn call(&mut self, segment: &Segment);
}

/// A segment is where its header says.
pub fn there(header: u64) -> *const Segment {
    header as *const Segment
}

/// Reads segments from `from` up to `to` and returns where it stopped: `to`, unless the last segment reaches beyond it.
///
/// # Safety
///
/// `from..to` lies within one buffer that instrumented code filled, and `locate` gives the place of every segment that is
/// named there, mapped. The thread that fills it may be running.
#[inline]
pub unsafe fn decode(
    from: *const u64,
    to: *const u64,
    locate: impl Fn(u64) -> *const Segment,
    sink: &mut impl Sink,
) -> *const u64 {
    let mut at = from;
    while at < to {
        // SAFETY:
        // - `at < to`, so within the buffer
        let header = unsafe { word(at) };
        if header == 0 {
            // SAFETY:
            // - as above: at most `to`
            at = unsafe { at.add(1) };
            continue;
        }
        // SAFETY:
        // - a word where a segment begins is zero or the address of a segment: nothing else is ever stored there
        // - the caller says that it is mapped; only its `id` ever changes, and that through an atomic
        let segment = unsafe { &*locate(header) };
        // SAFETY:
        // - a segment's words lie within its buffer
        let next = unsafe { at.add(segment.words.clamp(1, MAX_SEGMENT_WORDS) as usize) };
        if next > to {
            break;
        }
        // SAFETY:
        // - `at .. next` holds the words that the segment's entries say
        unsafe { entries(segment, at.wrapping_add(1), sink) };
        if segment.callee != 0 {
            sink.call(segment);
        }
        at = next;
    }
    at
}

/// A word of a buffer that its thread may be writing.
///
/// # Safety
///
/// `at` is within a buffer.
#[inline(always)]
unsafe fn word(at: *const u64) -> u64 {
    // SAFETY:
    // - buffers are mapped for good, aligned, and shared with nothing but atomics and the generated stores
    unsafe { AtomicU64::from_ptr(at.cast_mut()) }.load(Ordering::Relaxed)
}

/// Gives the accesses of one segment, whose first entry's words begin at `at`, to `sink`.
///
/// # Safety
///
/// As many words follow `at` as the segment's entries say.
#[inline(always)]
unsafe fn entries(segment: &Segment, mut at: *const u64, sink: &mut impl Sink) {
    // SAFETY:
    // - `n_entries` words of type u32 follow the struct
    let entries = unsafe {
        let first = (&raw const *segment).add(1).cast::<u32>();
        std::slice::from_raw_parts(first, segment.n_entries as usize)
    };
    for &entry in entries {
        // SAFETY:
        // - `at` moves on by what the entry says, and the caller says that this is there
        unsafe {
            let address = word(at);
            // Scalars are nearly everything: one test for both of them.
            if entry < Op::LoadRange.entry(0) {
                at = at.add(1);
                if address != 0 {
                    sink.access(address, u64::from(entry & Op::MAX_SIZE), entry >= Op::Store.entry(0));
                }
                continue;
            }
            let Some(op) = Op::of(entry) else { return };
            match op {
                Op::Copy => {
                    let (from, size) = (word(at.add(1)), word(at.add(2)));
                    if address != 0 && from != 0 {
                        sink.copy(address, from, size);
                    }
                }
                _ if address != 0 => sink.access(address, word(at.add(1)), op == Op::StoreRange),
                _ => {}
            }
            at = at.add(op.words() as usize);
        }
    }
}

/// How far `from..to`, which a handler interrupted, can be read now: up to a segment that lacks its header or one of its
/// words. What is missing may never come (an inactive lane); then it is read later all the same.
///
/// # Safety
///
/// As for [`decode`].
pub unsafe fn complete(from: *const u64, to: *const u64, locate: impl Fn(u64) -> *const Segment) -> *const u64 {
    let mut at = from;
    while at < to {
        // SAFETY:
        // - as in `decode`
        let header = unsafe { word(at) };
        if header == 0 {
            break;
        }
        // SAFETY:
        // - as in `decode`
        let words = unsafe { (*locate(header)).words.clamp(1, MAX_SEGMENT_WORDS) } as usize;
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

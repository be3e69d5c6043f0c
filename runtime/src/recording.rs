//! What one thread has recorded, and the way from there into the session.

use crate::buffer::WORDS;
use crate::decode::{complete, there};
use crate::level::{Boundary, Frame, Level, Suspended};
use crate::process::{self, Recorder};
use crate::sink::{Accumulator, Mode};
use crate::slots;
use crate::tls::Cursor;
use crate::{memory, signals, unload};
use bf_abi::MAX_SEGMENT_WORDS;
use bf_collect::Batch;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

/// Least words of a buffer to use. A segment finds room behind them if it has more.
const LEAST: usize = 64;

/// How much of a buffer to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it: what is missing will not come any more.
    Everything,
    /// All that the running level holds, for the thread itself between two segments; of others what is complete.
    Mine,
    /// What is complete: the thread may be filling a segment.
    Complete,
}

/// What a thread's flush and everyone who wants to read its buffer share.
pub struct Recording {
    pub cursor: Option<Cursor>,
    pub slot: u32,
    /// Suspended ones, outermost first, then the one that records.
    pub levels: Vec<Level>,
    pub spare: Vec<Level>,
    pub mode: Mode,
    pub accumulator: Accumulator,
    pub ours_alternate: bool,
    pub counts: slots::Own,
    /// Words of the next buffer to use.
    quantum: usize,
}

// SAFETY:
// - the pointers are into buffers that are never unmapped
unsafe impl Send for Recording {}

impl Recording {
    /// Of no thread.
    pub fn new() -> Self {
        Self {
            cursor: None,
            slot: 0,
            levels: Vec::new(),
            spare: Vec::new(),
            mode: Mode::Ignore,
            accumulator: Accumulator::default(),
            ours_alternate: false,
            counts: slots::Own::new(),
            quantum: MAX_SEGMENT_WORDS as usize,
        }
    }

    /// Chooses how much of the next buffer to use, so that it does not stand for many more accesses than a batch, or, where
    /// what several threads do is put in order buffer by buffer, than it has words, whatever loops it was filled with.
    pub fn choose_quantum(&mut self, recorder: &Recorder) {
        let (words, accesses) = self.accumulator.take_read();
        let most = if recorder.session().is_shared() { WORDS as u64 } else { Batch::MOST };
        let wanted = most.saturating_mul(words as u64).checked_div(accesses).unwrap_or(WORDS as u64);
        self.quantum = (wanted as usize).clamp(LEAST, WORDS);
        if recorder.session().is_contended() {
            self.quantum = self.quantum.min(MAX_SEGMENT_WORDS as usize);
        }
    }

    /// Reads what this thread recorded so far.
    pub fn drain(&mut self, recorder: &'static Recorder, extent: Extent) {
        let Some(cursor) = self.cursor.filter(|_| memory::stopped().is_none()) else { return };
        for index in 0..self.levels.len() {
            let level = &self.levels[index];
            let (position, running) = match &level.suspended {
                None => (cursor.position(), true),
                Some(suspended) => (suspended.position, false),
            };
            let all = match extent {
                Extent::Everything => true,
                Extent::Mine => running,
                Extent::Complete => false,
            };
            if !(level.buffers[0].start..=level.buffers[0].limit()).contains(&position) {
                // It recorded nothing yet, or recording has just stopped.
                continue;
            }
            // SAFETY:
            // - a level's `read` and position lie in one of its buffers, in this order
            let to = if all { position } else { unsafe { completed(level.read, position) } };
            self.drain_level(index, to, recorder);
        }
    }

    fn drain_level(&mut self, index: usize, to: *mut u64, recorder: &'static Recorder) {
        let level = &mut self.levels[index];
        while let Some(boundary) = level.boundaries.front()
            && boundary.at <= to
        {
            let (at, mode) = (boundary.at, boundary.mode);
            level.boundaries.pop_front();
            level.read = feed(level.read, at, &mut self.accumulator, recorder, self.slot, self.mode);
            self.mode = mode;
        }
        level.read = feed(level.read, to, &mut self.accumulator, recorder, self.slot, self.mode);
    }

    /// Gives up the levels of handlers that were left by a jump.
    pub fn forget_left(&mut self, now: Frame, recorder: &'static Recorder) {
        while let Some(index) = self.levels.len().checked_sub(2)
            && let Some(suspended) = &self.levels[index].suspended
            && suspended.frame.left(now)
        {
            self.give_up(index, recorder);
        }
    }

    /// Reads all of a suspended level, and takes it away.
    fn give_up(&mut self, index: usize, recorder: &'static Recorder) {
        if let Some(position) = self.levels[index].suspended.as_ref().map(|suspended| suspended.position) {
            self.drain_level(index, position, recorder);
            self.retire(index, position);
        }
    }

    fn retire(&mut self, index: usize, position: *mut u64) {
        let mut level = self.levels.remove(index);
        // What was not reached keeps its effect.
        while let Some(boundary) = level.boundaries.pop_front() {
            self.mode = boundary.mode;
        }
        level.buffers[0].written(position);
        level.suspended = None;
        self.spare.push(level);
    }

    pub fn next_level(&mut self) -> Level {
        let mut level = self.spare.pop().unwrap_or_else(Level::new);
        level.buffers[0].clean();
        level.read = level.buffers[0].start;
        level
    }

    /// The mode changes now, for what the thread records from here on.
    pub fn change(&mut self, mode: Mode) {
        self.counts.settle(mode);
        let (Some(cursor), Some(level)) = (self.cursor, self.levels.last_mut()) else { return };
        let at = cursor.position();
        if at.is_null() {
            // A handler that recorded nothing yet: its level begins with the change.
            level.boundaries.push_back(Boundary { at: level.buffers[0].start, mode });
        } else {
            level.boundaries.push_back(Boundary { at, mode });
        }
    }

    /// Whether the calling thread is the one.
    pub fn is_mine(&self) -> bool {
        self.cursor == Some(Cursor::mine())
    }

    /// What the thread counted.
    pub fn accumulator(&self) -> &Accumulator {
        &self.accumulator
    }

    /// Brings the totals up to date; whether the thread did anything.
    pub fn settle(&mut self) -> bool {
        self.counts.settle(self.counts.mode);
        self.accumulator.used() || self.counts.used
    }

    /// Makes the record fit for another thread.
    pub fn rest(&mut self, cursor: Option<Cursor>) {
        self.cursor = None;
        self.accumulator.reset();
        self.counts.rest();
        for level in &mut self.levels {
            let limit = level.buffers[0].limit();
            let position = cursor.as_ref().map_or(limit, Cursor::position);
            let position = level.suspended.take().map_or(position, |suspended| suspended.position);
            level.buffers[0].written(position.min(limit));
            level.boundaries.clear();
        }
        self.spare.append(&mut self.levels);
        if let Some(cursor) = cursor {
            cursor.set(ptr::null_mut(), ptr::null_mut());
            cursor.thread().store(0, Relaxed);
            cursor.slots().store(0, Relaxed);
            if self.ours_alternate {
                signals::drop_alternate_stack();
            }
        }
        self.ours_alternate = false;
    }

    /// Gives the calling thread an empty buffer.
    pub fn hand_out(&mut self, cursor: Cursor) -> *mut u64 {
        let Some(level) = self.levels.last_mut() else { return ptr::null_mut() };
        if !cursor.position().is_null() {
            return level.turn(cursor, self.quantum);
        }
        level.buffers[0].clean();
        level.read = level.buffers[0].start;
        let start = level.buffers[0].start;
        cursor.set(start, start.wrapping_add(self.quantum));
        start
    }

    pub fn enter(&mut self, frame: Frame, cursor: Cursor, recorder: &'static Recorder) {
        self.forget_left(frame, recorder);
        let suspended = Suspended { position: cursor.position(), limit: cursor.limit(), frame };
        if let Some(level) = self.levels.last_mut() {
            level.suspended = Some(suspended);
        }
        let level = self.next_level();
        self.levels.push(level);
        cursor.set(ptr::null_mut(), ptr::null_mut());
    }

    pub fn leave(&mut self, frame: Frame, cursor: Cursor, recorder: &'static Recorder) {
        let of_frame = |level: &Level| level.suspended.as_ref().is_some_and(|suspended| suspended.frame == frame);
        let index = self.levels.iter().position(of_frame);
        // Levels that handlers within this one suspended, and that they left by a jump.
        let deepest = index.map_or(self.levels.len() - 1, |index| index + 1);
        while self.levels.len() - 1 > deepest {
            self.give_up(self.levels.len() - 2, recorder);
        }
        let position = cursor.position();
        if !position.is_null() && !process::finished() {
            self.drain(recorder, Extent::Mine);
        }
        let Some(suspended) = index.and_then(|index| self.levels[index].suspended.take()) else {
            // The thread's first segment ran in this handler: what it interrupted had no buffer yet.
            self.hand_out(cursor);
            cursor.set(ptr::null_mut(), ptr::null_mut());
            return;
        };
        self.retire(self.levels.len() - 1, position);
        cursor.set(suspended.position, suspended.limit);
    }
}

/// See [`complete`].
///
/// # Safety
///
/// As for [`complete`].
unsafe fn completed(from: *const u64, to: *const u64) -> *mut u64 {
    // SAFETY:
    // - the caller's obligation; segments are mapped, or `unload` has a copy
    let end = unsafe {
        match unload::ghosts() {
            None => complete(from, to, there),
            Some(locate) => complete(from, to, locate),
        }
    };
    end.cast_mut()
}

fn feed(
    from: *const u64,
    to: *const u64,
    accumulator: &mut Accumulator,
    recorder: &'static Recorder,
    slot: u32,
    mode: Mode,
) -> *const u64 {
    if from >= to {
        return from;
    }
    let feed = |batch: &mut Batch| match mode {
        Mode::Feed(bucket) => recorder.feed(slot, batch, bucket),
        // Memory is allocated and freed all the same.
        Mode::Ignore => recorder.session().note(slot, batch),
    };
    // SAFETY:
    // - `from..to` is what the thread recorded in one of its buffers
    // - segments are mapped, or `unload` has a copy
    unsafe {
        match unload::ghosts() {
            None => accumulator.read(from, to, there, mode, feed),
            Some(locate) => accumulator.read(from, to, locate, mode, feed),
        }
    }
}

//! Threads of the program: their buffers, and the way from there into the session.
//!
//! # Levels
//!
//! A thread records at one *level* at a time. When a handler of the program interrupts it, its level is suspended with
//! the cursor it had, and the handler records at a level of its own; when the handler returns, the suspended level goes
//! on as if nothing had happened, so the few instructions that reserve a segment need not be atomic. What was recorded
//! is read in the order in which it happened: suspended levels first, outermost first, each up to the segment that was
//! being filled when it was interrupted; that segment is read later, when it is complete.
//!
//! A handler may also leave by `siglongjmp`. Its frame is then above the stack pointer when this thread next comes
//! here, the levels it suspended are done for, and are read to their end.

use crate::decode::{complete, decode, there};
use crate::process::{self, Recorder, lock};
use crate::quiet::Quiet;
use crate::sink::{Accumulator, Mode};
use crate::stack::{self, Stack};
use crate::tls::Cursor;
use crate::{calipers, checkpoint, log, signals, unload};
use bf_abi::MAX_SEGMENT_WORDS;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Words of a buffer: 64 KiB, which the caches hold beside the program's own data.
const WORDS: usize = 8192;

/// One mapped buffer.
struct Buffer {
    start: *mut u64,
    /// Words that may be other than zero.
    dirty: usize,
}

impl Buffer {
    fn new() -> Self {
        // SAFETY:
        // - a fresh anonymous mapping, kept for good
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), WORDS * 8, protection, flags, -1, 0)
        };
        assert!(start != libc::MAP_FAILED, "no memory for a recording buffer");
        Self { start: start.cast(), dirty: 0 }
    }

    /// One past the last word.
    fn limit(&self) -> *mut u64 {
        self.start.wrapping_add(WORDS)
    }

    /// Zeroes what may have been written. Done when the buffer is handed out, not when it was read, because a segment
    /// may still have been owed some stores then.
    fn clean(&mut self) {
        // SAFETY:
        // - `dirty` never exceeds WORDS, and the buffer is in nobody's hands
        unsafe { ptr::write_bytes(self.start, 0, self.dirty) };
        self.dirty = 0;
    }

    /// Everything below `position` may be other than zero, and so may a segment reserved there.
    fn written(&mut self, position: *mut u64) {
        let words = (position as usize).saturating_sub(self.start as usize) / 8;
        self.dirty = self.dirty.max((words + MAX_SEGMENT_WORDS as usize).min(WORDS));
    }
}

/// Where the mode changed within a buffer.
struct Boundary {
    at: *mut u64,
    mode: Mode,
}

/// A place to record: see the module's page.
struct Level {
    /// The one in use, then the one that was.
    buffers: [Buffer; 2],
    /// Read up to here.
    read: *const u64,
    boundaries: VecDeque<Boundary>,
    suspended: Option<Suspended>,
}

/// Of a level that a handler interrupted.
struct Suspended {
    /// Cursor and limit the thread had.
    position: *mut u64,
    limit: *mut u64,
    frame: Frame,
}

/// A running handler: its stack pointer, and whether that is on the alternate signal stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// An address within its stack frame.
    pub at: usize,
    /// Whether it runs on the alternate signal stack.
    pub alternate: bool,
}

impl Frame {
    /// Whether the handler of this frame was left without returning, seen from `now`, deeper or elsewhere.
    fn left(self, now: Self) -> bool {
        match (self.alternate, now.alternate) {
            (true, false) => true,
            (false, true) => false,
            _ => now.at > self.at,
        }
    }
}

impl Level {
    fn new() -> Self {
        let buffers = [Buffer::new(), Buffer::new()];
        Self { read: buffers[0].start, buffers, boundaries: VecDeque::new(), suspended: None }
    }

    /// Hands the other buffer out; the thread is the calling one.
    fn turn(&mut self, cursor: Cursor) -> *mut u64 {
        self.buffers.swap(0, 1);
        let [now, before] = &mut self.buffers;
        before.written(cursor.position().min(before.limit()).max(before.start));
        now.clean();
        self.read = now.start;
        cursor.set(now.start, now.limit());
        now.start
    }
}

// SAFETY:
// - mapped for good; whoever writes is told so by a thread's level, or nobody reads
unsafe impl Send for Buffer {}
// SAFETY:
// - as above
unsafe impl Sync for Buffer {}

/// One thread of the program; kept for another when it ended.
pub struct Thread {
    inner: Mutex<Inner>,
    /// Where its flushes run.
    stack: Stack,
    /// The alternate signal stack it has from us if it brought none.
    signal_stack: Stack,
}

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
pub struct Inner {
    cursor: Option<Cursor>,
    slot: u32,
    /// Suspended ones, outermost first, then the one that records.
    levels: Vec<Level>,
    spare: Vec<Level>,
    mode: Mode,
    accumulator: Accumulator,
    ours_alternate: bool,
}

// SAFETY:
// - the pointers are into buffers that are never unmapped
unsafe impl Send for Inner {}

impl Inner {
    /// Reads what this thread recorded so far.
    pub fn drain(&mut self, recorder: &Recorder, extent: Extent) {
        let Some(cursor) = self.cursor else { return };
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
            // SAFETY:
            // - a level's `read` and position lie in one of its buffers, in this order
            let to = if all { position } else { unsafe { completed(level.read, position) } };
            self.drain_level(index, to, recorder);
        }
    }

    fn drain_level(&mut self, index: usize, to: *mut u64, recorder: &Recorder) {
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
    fn forget_left(&mut self, now: Frame, recorder: &Recorder) {
        while let Some(index) = self.levels.len().checked_sub(2)
            && let Some(suspended) = &self.levels[index].suspended
            && suspended.frame.left(now)
        {
            self.give_up(index, recorder);
        }
    }

    /// Reads all of a suspended level, and takes it away.
    fn give_up(&mut self, index: usize, recorder: &Recorder) {
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

    fn next_level(&mut self) -> Level {
        let mut level = self.spare.pop().unwrap_or_else(Level::new);
        level.buffers[0].clean();
        level.read = level.buffers[0].start;
        level
    }

    /// The mode changes now, for what the thread records from here on.
    pub fn change(&mut self, mode: Mode) {
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
    recorder: &Recorder,
    slot: u32,
    mode: Mode,
) -> *const u64 {
    if from >= to {
        return from;
    }
    match mode {
        Mode::Ignore => to,
        // SAFETY:
        // - `from..to` is what the thread recorded in one of its buffers
        // - segments are mapped, or `unload` has a copy
        Mode::Feed(_) => unsafe {
            let mut sink = accumulator.open(recorder, slot, mode);
            match unload::ghosts() {
                None => decode(from, to, there, &mut sink),
                Some(locate) => decode(from, to, locate, &mut sink),
            }
        },
    }
}

impl Thread {
    fn new() -> &'static Self {
        let inner = Inner {
            cursor: None,
            slot: 0,
            levels: Vec::new(),
            spare: Vec::new(),
            mode: Mode::Ignore,
            accumulator: Accumulator::default(),
            ours_alternate: false,
        };
        Box::leak(Box::new(Self { inner: Mutex::new(inner), stack: Stack::new(), signal_stack: Stack::new() }))
    }

    /// The record of the calling thread, if it has one.
    fn of(cursor: Cursor) -> Option<&'static Self> {
        // SAFETY:
        // - the word is 0 or what `register` stored: the address of a record that is kept for good
        unsafe { (cursor.thread().load(Relaxed) as *const Self).as_ref() }
    }

    /// What others may look at while the thread does not flush.
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Every thread of the process that has recorded, and what is left of those that ended.
pub struct Registry {
    /// Those that have not ended.
    pub live: Vec<&'static Thread>,
    idle: Vec<&'static Thread>,
    /// Calls by callee number, from threads that ended.
    pub calls: Vec<u64>,
    /// Threads that ended after at least one access.
    pub used: u32,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { live: Vec::new(), idle: Vec::new(), calls: Vec::new(), used: 0 });

/// The threads.
pub fn registry() -> MutexGuard<'static, Registry> {
    lock(&REGISTRY)
}

impl Registry {
    /// In a fresh child process: only the calling thread is left, and nothing was counted yet.
    pub fn begin_again(&mut self, recorder: &Recorder) {
        self.calls.clear();
        self.used = 0;
        let mine = Thread::of(Cursor::mine());
        for thread in std::mem::take(&mut self.live) {
            let mut inner = thread.inner();
            if mine.is_some_and(|mine| ptr::eq(mine, thread)) {
                inner.slot = recorder.take_slot();
                inner.accumulator.reset();
                drop(inner);
                self.live.push(thread);
            } else {
                inner.rest(None);
                drop(inner);
                self.idle.push(thread);
            }
        }
    }

    /// Takes a thread off that ended.
    fn end(&mut self, thread: &'static Thread, cursor: Cursor) {
        self.live.retain(|&other| !ptr::eq(other, thread));
        let mut inner = thread.inner();
        if let Some(recorder) = process::recorder() {
            if !process::finished() {
                inner.drain(recorder, Extent::Everything);
            }
            recorder.release_slot(inner.slot);
        }
        add_calls(&mut self.calls, inner.accumulator.calls());
        self.used += u32::from(inner.accumulator.used());
        inner.rest(Some(cursor));
        drop(inner);
        self.idle.push(thread);
    }
}

/// Adds up calls by callee number.
pub fn add_calls(sum: &mut Vec<u64>, calls: &[u64]) {
    sum.resize(sum.len().max(calls.len()), 0);
    for (sum, calls) in sum.iter_mut().zip(calls) {
        *sum += calls;
    }
}

impl Inner {
    /// Makes the record fit for another thread.
    fn rest(&mut self, cursor: Option<Cursor>) {
        self.cursor = None;
        self.accumulator.reset();
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
            if self.ours_alternate {
                signals::drop_alternate_stack();
            }
        }
        self.ours_alternate = false;
    }

    /// Gives the calling thread an empty buffer.
    fn hand_out(&mut self, cursor: Cursor) -> *mut u64 {
        let Some(level) = self.levels.last_mut() else { return ptr::null_mut() };
        if !cursor.position().is_null() {
            return level.turn(cursor);
        }
        level.buffers[0].clean();
        level.read = level.buffers[0].start;
        cursor.set(level.buffers[0].start, level.buffers[0].limit());
        level.buffers[0].start
    }
}

fn register(cursor: Cursor) -> &'static Thread {
    let mut registry = registry();
    let recorder = process::begin();
    let thread = registry.idle.pop().unwrap_or_else(Thread::new);
    let mut inner = thread.inner();
    inner.cursor = Some(cursor);
    inner.slot = recorder.take_slot();
    inner.mode = calipers::mode();
    let level = inner.next_level();
    inner.levels.push(level);
    inner.ours_alternate = signals::offer_alternate_stack(&thread.signal_stack);
    drop(inner);
    cursor.thread().store(ptr::from_ref(thread) as u64, Relaxed);
    expect_end();
    registry.live.push(thread);
    thread
}

/// Empties the calling thread's buffer; room for the next segment.
pub fn flush(words: u64) -> *mut u64 {
    debug_assert!(words <= u64::from(MAX_SEGMENT_WORDS));
    let quiet = Quiet::enter();
    process::init();
    let cursor = Cursor::mine();
    if process::off() {
        return discard(cursor);
    }
    if cursor.ends().load(Relaxed) >= MOST_ENDS {
        log::remark("a thread ran on after its last destructor: that is not recorded".to_owned());
        return discard(cursor);
    }
    let thread = Thread::of(cursor).unwrap_or_else(|| register(cursor));
    let now = &raw const quiet as usize;
    // SAFETY:
    // - only this thread works on its stack, and signals are blocked, so not twice
    let start = unsafe {
        stack::call(thread.stack.top(), || {
            let mut inner = thread.inner();
            match process::recorder() {
                Some(recorder) if !process::finished() => {
                    if inner.levels.len() > 1 {
                        inner.forget_left(signals::frame(now), recorder);
                    }
                    inner.drain(recorder, Extent::Mine);
                }
                _ => {}
            }
            let start = inner.hand_out(cursor);
            drop(inner);
            checkpoint::write_if_due();
            start
        })
    };
    drop(quiet);
    start
}

/// A buffer nobody reads, for when nothing is recorded. All threads write to the same.
fn discard(cursor: Cursor) -> *mut u64 {
    static BUFFER: OnceLock<Buffer> = OnceLock::new();
    let buffer = BUFFER.get_or_init(Buffer::new);
    cursor.set(buffer.start, buffer.limit());
    buffer.start
}

/// A handler begins on the calling thread: it records at a level of its own.
pub fn enter_handler(frame: Frame) {
    let cursor = Cursor::mine();
    if let (Some(thread), Some(recorder)) = (Thread::of(cursor), process::recorder()) {
        let mut inner = thread.inner();
        inner.forget_left(frame, recorder);
        let suspended = Suspended { position: cursor.position(), limit: cursor.limit(), frame };
        if let Some(level) = inner.levels.last_mut() {
            level.suspended = Some(suspended);
        }
        let level = inner.next_level();
        inner.levels.push(level);
        cursor.set(ptr::null_mut(), ptr::null_mut());
    }
}

/// The handler of `frame` returns: the level it suspended goes on.
pub fn leave_handler(frame: Frame) {
    let cursor = Cursor::mine();
    let (Some(thread), Some(recorder)) = (Thread::of(cursor), process::recorder()) else {
        // Nothing is recorded: the cursor is that of the discarded buffer, wherever it was set.
        return;
    };
    // SAFETY:
    // - as in `flush`
    unsafe {
        stack::call(thread.stack.top(), || thread.inner().leave(frame, cursor, recorder));
    }
}

impl Inner {
    fn leave(&mut self, frame: Frame, cursor: Cursor, recorder: &Recorder) {
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

/// How often a thread's end is believed: glibc calls destructors four times over, then frees the thread's memory.
const MOST_ENDS: u64 = 4;

/// The key whose destructor says that a thread ends; `u32::MAX` before `install`.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Before the program makes keys of its own: the first 32 of a process need no memory from its heap.
pub fn install() {
    let mut key = 0;
    // SAFETY:
    // - the destructor is a function of this library, which is never unloaded
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key, Relaxed);
    }
}

/// Has [`end`] called when the calling thread ends.
fn expect_end() {
    // SAFETY:
    // - the key exists, or glibc refuses it; the value only has to be other than null
    unsafe { libc::pthread_setspecific(KEY.load(Relaxed), ptr::dangling()) };
}

/// The calling thread ends. Destructors of others may still run instrumented code; then it registers again.
unsafe extern "C" fn end(_value: *mut c_void) {
    let _quiet = Quiet::enter();
    let cursor = Cursor::mine();
    if let Some(thread) = Thread::of(cursor) {
        // Held until we are back: after that another thread may run on this stack.
        let mut registry = registry();
        // SAFETY:
        // - as in `flush`
        unsafe {
            stack::call(thread.stack.top(), || registry.end(thread, cursor));
        }
    }
    cursor.ends().fetch_add(1, Relaxed);
}

/// Reads what the calling thread recorded so far.
pub fn drain_mine() {
    if let (Some(thread), Some(recorder)) = (Thread::of(Cursor::mine()), process::recorder()) {
        // SAFETY:
        // - as in `flush`
        unsafe {
            stack::call(thread.stack.top(), || thread.inner().drain(recorder, Extent::Mine));
        }
    }
}

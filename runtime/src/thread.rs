//! Threads of the program: how they come, flush, and end.

use crate::buffer;
use crate::fair::Fair;
use crate::level::Frame;
use crate::locks::{self, Hold};
use crate::pace::Pace;
use crate::process::{self, PATIENCE, Recorder};
use crate::queue::Queue;
use crate::quiet::Quiet;
use crate::recording::{Extent, Recording};
use crate::stack::{self, Stack};
use crate::tls::Cursor;
use crate::{calipers, checkpoint, clock, fork, log, memory, modules, objects, signals, slots};
use bf_abi::MAX_SEGMENT_WORDS;
use bf_abi::paths::Path;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};
use std::time::Duration;

/// One thread of the program; kept for another when it ended.
pub struct Thread {
    inner: Fair<Recording>,
    /// Of its volatile stores and what else it releases, which may be for nobody, and of locks that others had.
    stored: Pace,
    released: Pace,
    taken: Pace,
    /// Whether one of them is asked: the clock may be the program's own, and release something, too.
    paced: AtomicBool,
    /// Where its flushes run.
    stack: Stack,
    /// The alternate signal stack it has from us if it brought none.
    signal_stack: Stack,
    /// Where it records, and up to where, while it is in the runtime and code of the program runs there: what that does is for nobody.
    kept: [AtomicUsize; 2],
    /// The outermost of its handlers that are not recorded, see [`Frame::packed`]; 0 if there is none.
    aside: AtomicUsize,
    /// The bit that stands for it, and for others, where locks are shared.
    pub mark: u64,
}

impl Thread {
    /// The one of this number.
    fn new(number: usize) -> &'static Self {
        let stack = Stack::new();
        if stack.top().is_null() {
            memory::exhausted();
        }
        let inner = Fair::new(Recording::new());
        let [stored, released, taken] = [Pace::new(), Pace::new(), Pace::new()];
        let (signal_stack, aside, mark) = (Stack::new(), AtomicUsize::new(0), 1 << (number % u64::BITS as usize));
        let (paced, kept) = Default::default();
        Box::leak(Box::new(Self { inner, stored, released, taken, paced, stack, signal_stack, kept, aside, mark }))
    }

    fn paces(&self) -> [&Pace; 3] {
        [&self.stored, &self.released, &self.taken]
    }

    /// The record of the calling thread, if it has one.
    fn of(cursor: Cursor) -> Option<&'static Self> {
        // SAFETY:
        // - the word is 0 or what `register` stored: the address of a record that is kept for good
        unsafe { (cursor.thread().load(Relaxed) as *const Self).as_ref() }
    }

    /// That of the calling thread, unless it is in a handler that is not recorded.
    fn recording(cursor: Cursor) -> Option<&'static Self> {
        Self::of(cursor).filter(|thread| thread.aside.load(Relaxed) == 0)
    }

    /// Whether this thread, the calling one, which is at `now`, is in a handler that is not recorded.
    fn is_aside(&self, now: usize) -> bool {
        let aside = self.aside.load(Relaxed);
        if aside != 0 && Frame::unpacked(aside).left(signals::frame(now)) {
            self.aside.store(0, Relaxed);
        }
        self.aside.load(Relaxed) != 0
    }

    /// What others may look at while the thread does not flush.
    pub fn inner(&self) -> MutexGuard<'_, Recording> {
        self.inner.lock()
    }

    /// The same for `fork`.
    pub fn hold(&self) -> (MutexGuard<'_, ()>, MutexGuard<'_, Recording>) {
        self.inner.hold()
    }

    /// The same, unless that takes too long.
    pub fn inner_for_a_while(&self) -> Option<MutexGuard<'_, Recording>> {
        self.inner.lock_for()
    }

    /// Reads what this thread, which may run on, recorded so far. Runs on the stack of the calling one.
    pub fn read_by(&self, reader: &Self) {
        let Some(recorder) = process::recorder() else { return };
        // SAFETY:
        // - as in `flush`
        unsafe {
            stack::call(reader.stack.top(), || {
                if let Some(mut inner) = self.inner_for_a_while()
                    && !process::finished()
                {
                    inner.drain(recorder, Extent::Complete);
                }
            });
        }
    }
}

/// Every thread of the process that has recorded, and what is left of those that ended.
pub struct Registry {
    /// Those that have not ended.
    pub live: Vec<&'static Thread>,
    idle: Vec<&'static Thread>,
    /// Calls by callee number, from threads that ended.
    pub calls: Vec<u64>,
    /// Threads that ended after they recorded or counted anything.
    pub used: u32,
}

static REGISTRY: Fair<Registry> =
    Fair::new(Registry { live: Vec::new(), idle: Vec::new(), calls: Vec::new(), used: 0 });

/// How many threads record, those included that begin, and those that end and whose last accesses are not read yet.
static RECORDING: AtomicUsize = AtomicUsize::new(0);

/// Threads that begin, but for those that do so in a handler. They let those that end go first, which leave their places to them: so a
/// program that makes very many short ones has few at a time, as it does without us.
static BEGINNING: Queue = Queue::new();
/// Those that end.
static ENDING: Queue = Queue::new();

/// The threads, unless that takes too long.
pub fn registry_for_a_while() -> Option<MutexGuard<'static, Registry>> {
    REGISTRY.lock_for()
}

/// Those that have not ended and have one of these marks, unless that takes too long.
pub fn marked(marks: u64) -> Vec<&'static Thread> {
    let has = |thread: &&Thread| thread.mark & marks != 0;
    registry_for_a_while().map_or_else(Vec::new, |registry| registry.live.iter().copied().filter(has).collect())
}

/// The threads, for `fork`: the guard of what queues for them, and their own.
pub fn hold_registry() -> (MutexGuard<'static, ()>, MutexGuard<'static, Registry>) {
    REGISTRY.hold()
}

/// The threads.
pub fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock()
}

impl Registry {
    /// In a fresh child process: only the calling thread is left, and nothing was counted yet.
    pub fn begin_again(&mut self, recorder: &'static Recorder) {
        self.calls.clear();
        self.used = 0;
        Cursor::mine().ends().fetch_and(!COUNTED, Relaxed);
        let mine = Thread::of(Cursor::mine());
        for thread in std::mem::take(&mut self.live) {
            let mut inner = thread.inner();
            if mine.is_some_and(|mine| ptr::eq(mine, thread)) {
                inner.slot = recorder.take_slot();
                let own = objects::stack_around(&raw const inner as usize);
                let path = Path(Cursor::mine().path().load(Relaxed)).number();
                recorder.session().objects(PATIENCE, |objects| {
                    objects.add_stack(inner.slot, own.start, own.end);
                    objects.set_path(inner.slot, path);
                });
                inner.accumulator.reset();
                inner.counts.forget();
                drop(inner);
                self.live.push(thread);
            } else {
                inner.rest(None);
                drop(inner);
                self.idle.push(thread);
            }
        }
        RECORDING.store(self.live.len(), Release);
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
        if inner.settle() {
            self.used += 1;
            cursor.ends().fetch_or(COUNTED, Relaxed);
        }
        inner.rest(Some(cursor));
        drop(inner);
        self.idle.push(thread);
        RECORDING.store(self.live.len(), Release);
    }
}

/// In a fresh child process: nobody begins, ends, or waits for a lock.
pub fn forget_others() {
    locks::forget();
    ENTERING.store(0, SeqCst);
    [&BEGINNING, &ENDING].into_iter().for_each(Queue::forget);
}

/// Adds up calls by callee number.
pub fn add_calls(sum: &mut Vec<u64>, calls: &[u64]) {
    sum.resize(sum.len().max(calls.len()), 0);
    for (sum, calls) in sum.iter_mut().zip(calls) {
        *sum += calls;
    }
}

/// The first module is known: what the calling thread recorded so far was for nobody.
pub fn record_from_here() {
    let cursor = Cursor::mine();
    if Thread::of(cursor).is_none() {
        cursor.set(ptr::null_mut(), ptr::null_mut());
    }
}

/// `None` before any module has said what is to be recorded, if there is no room for another thread, or if it is in a handler and the
/// process forks for too long.
fn register(cursor: Cursor) -> Option<&'static Thread> {
    if !modules::found() {
        return None;
    }
    let handles = cursor.handlers().load(Relaxed) > 0;
    let _turn = (!handles).then(|| BEGINNING.enter(|| !ENDING.is_empty()));
    let mut registry = match handles {
        true => REGISTRY.lock_while(fork::patience())?,
        false => registry(),
    };
    if registry.idle.is_empty() && !registry.live.is_empty() && !memory::has_room_for_a_thread() {
        return None;
    }
    let thread = registry.idle.pop().unwrap_or_else(|| Thread::new(registry.live.len()));
    let own = objects::stack_around(&raw const registry as usize);
    // SAFETY:
    // - only this thread works on its stack from here on, and signals are blocked, so not twice
    unsafe { stack::call(thread.stack.top(), || register_here(&mut registry, thread, cursor, own)) };
    Some(thread)
}

/// `own`: the program's stack of this thread.
fn register_here(registry: &mut Registry, thread: &'static Thread, cursor: Cursor, own: Range<u64>) {
    let recorder = process::begin();
    // From here on they hand over themselves.
    RECORDING.store(registry.live.len() + 1, SeqCst);
    // What others did until now comes before what this thread does: one of them made it.
    if !process::finished() {
        for other in &registry.live {
            if let Some(mut other) = other.inner_for_a_while() {
                other.drain(recorder, Extent::Complete);
            }
        }
    }
    thread.aside.store(0, Relaxed);
    let mut inner = thread.inner();
    inner.cursor = Some(cursor);
    inner.slot = recorder.take_slot();
    recorder.session().objects(PATIENCE, |objects| objects.add_stack(inner.slot, own.start, own.end));
    inner.mode = calipers::mode();
    inner.counts.mode = inner.mode;
    if cursor.ends().fetch_and(!COUNTED, Relaxed) & COUNTED != 0 {
        // Its end was not the last.
        registry.used -= 1;
        inner.counts.used = true;
    }
    let level = inner.next_level();
    inner.levels.push(level);
    inner.ours_alternate = signals::offer_alternate_stack(&thread.signal_stack);
    drop(inner);
    cursor.thread().store(ptr::from_ref(thread) as u64, Relaxed);
    expect_end();
    registry.live.push(thread);
}

/// Empties the calling thread's buffer; room for the next segment.
pub fn flush(words: u64) -> *mut u64 {
    debug_assert!(words <= u64::from(MAX_SEGMENT_WORDS));
    let quiet = Quiet::enter();
    let now = &raw const quiet as usize;
    let cursor = Cursor::mine();
    let start = memory::run(|| record(cursor, now)).flatten();
    start.unwrap_or_else(|| discard(cursor))
}

/// Reads the calling thread's buffer and gives the next one; `None` if nothing is to be recorded.
fn record(cursor: Cursor, now: usize) -> Option<*mut u64> {
    process::init();
    if process::off() {
        return None;
    }
    if has_ended(cursor) && cursor.handlers().load(Relaxed) == 0 {
        log::remark("a thread ran on after its last destructor: that is not recorded".to_owned());
        return None;
    }
    let known = Thread::of(cursor);
    if known.is_some_and(|thread| thread.is_aside(now)) {
        return None;
    }
    let thread = known.or_else(|| register(cursor))?;
    let begin = clock::now();
    // Asked for on the program's stack: that is what the answer is of.
    let frame = (cursor.handlers().load(Relaxed) > 0).then(|| signals::frame(now));
    // SAFETY:
    // - only this thread works on its stack, and signals are blocked, so not twice
    let start = unsafe {
        stack::call(thread.stack.top(), || {
            let mut inner = thread.inner();
            match process::recorder() {
                Some(recorder) if !process::finished() => {
                    frame.into_iter().for_each(|frame| inner.forget_left(frame, recorder));
                    inner.drain(recorder, Extent::Mine);
                    if let Some(every) = process::options().phases
                        && calipers::is_due()
                    {
                        drop(inner);
                        calipers::next_slice(every);
                        inner = thread.inner();
                        // The change stands where the buffer ends.
                        inner.drain(recorder, Extent::Mine);
                    }
                    inner.choose_quantum(recorder);
                }
                _ => {}
            }
            let start = inner.hand_out(cursor);
            drop(inner);
            checkpoint::write_if_due();
            start
        })
    };
    let stood = clock::now() - begin;
    thread.paces().into_iter().for_each(|pace| pace.stood(stood));
    Some(start)
}

/// The calling thread's slots, for the first time.
pub fn slots() -> *mut u64 {
    let _quiet = Quiet::enter();
    let cursor = Cursor::mine();
    memory::run(|| counted(cursor)).flatten().unwrap_or_else(slots::scratch)
}

/// Gives the calling thread slots; `None` if nothing is to be counted.
fn counted(cursor: Cursor) -> Option<*mut u64> {
    process::init();
    if process::off() || has_ended(cursor) {
        if !process::elsewhere() {
            cursor.slots().store(slots::scratch() as u64, Relaxed);
        }
        return None;
    }
    let known = Thread::of(cursor);
    if known.is_some_and(|thread| thread.aside.load(Relaxed) != 0) {
        return None;
    }
    let thread = known.or_else(|| register(cursor))?;
    let start = thread.inner().counts.start();
    cursor.slots().store(start as u64, Relaxed);
    Some(start)
}

/// The buffer that nobody reads.
fn discard(cursor: Cursor) -> *mut u64 {
    if memory::inside()
        && let Some(thread) = Thread::of(cursor)
        && !buffer::is_scratch(cursor.next())
    {
        let [position, limit] = &thread.kept;
        limit.store(cursor.limit() as usize, Relaxed);
        position.store(cursor.position() as usize, Release);
    }
    let (start, limit) = buffer::scratch();
    cursor.divert(start, limit);
    start
}

/// Where a thread records, and up to where, if it is in the runtime and code of the program ran there.
pub fn kept(cursor: Cursor) -> Option<[*mut u64; 2]> {
    let kept = Thread::of(cursor)?.kept.each_ref().map(|kept| kept.load(Acquire) as *mut u64);
    (!kept[0].is_null()).then_some(kept)
}

/// It records elsewhere.
pub fn forget_kept(cursor: Cursor) {
    Thread::of(cursor).into_iter().for_each(|thread| thread.kept[0].store(0, Release));
}

/// It leaves the runtime: what comes now is not what code of the program did there. Nothing is kept where it records elsewhere.
pub fn come_back(cursor: Cursor) {
    if buffer::is_scratch(cursor.next()) {
        let [position, limit] = kept(cursor).unwrap_or([ptr::null_mut(); 2]);
        cursor.set(position, limit);
    }
}

/// Handlers that begin and may want a lock.
static ENTERING: AtomicUsize = AtomicUsize::new(0);

/// Whether there are any.
pub fn is_entering() -> bool {
    ENTERING.load(SeqCst) > 0
}

/// Counts a handler among them as soon as the process does not fork; whether that was soon.
fn may_enter() -> bool {
    let waits = fork::patience();
    loop {
        ENTERING.fetch_add(1, SeqCst);
        if !fork::is_on() {
            return true;
        }
        ENTERING.fetch_sub(1, SeqCst);
        if !waits() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A handler begins on the calling thread: it records at a level of its own, or not at all if the process forks for too long.
pub fn enter_handler(frame: Frame) -> Interrupted {
    let cursor = Cursor::mine();
    let registered = cursor.thread().load(Relaxed) != 0;
    let interrupted = Interrupted { position: cursor.position(), limit: cursor.limit(), registered, aside: false };
    cursor.handlers().fetch_add(1, Relaxed);
    let aside = Thread::of(cursor).is_some_and(|thread| thread.is_aside(frame.at)) || !may_enter();
    if !aside {
        memory::run(|| enter_recorded(frame, cursor));
        ENTERING.fetch_sub(1, SeqCst);
    } else if !process::off() {
        if let Some(thread) = Thread::recording(cursor) {
            thread.aside.store(frame.packed(), Relaxed);
        }
        discard(cursor);
    }
    Interrupted { aside, ..interrupted }
}

/// Where the code that a handler interrupts was recording. It may just have read one of the two.
#[derive(Clone, Copy)]
pub struct Interrupted {
    position: *mut u64,
    limit: *mut u64,
    /// Whether the thread had a record.
    registered: bool,
    /// Whether the handler is not recorded.
    aside: bool,
}

fn enter_recorded(frame: Frame, cursor: Cursor) {
    if process::off() {
        return;
    }
    if let (Some(thread), Some(recorder)) = (Thread::of(cursor), process::recorder()) {
        // SAFETY:
        // - as in `flush`
        unsafe { stack::call(thread.stack.top(), || thread.inner().enter(frame, cursor, recorder)) };
    }
}

/// The handler of `frame` returns: the level it suspended goes on.
pub fn leave_handler(frame: Frame, interrupted: Interrupted) {
    let cursor = Cursor::mine();
    if interrupted.aside {
        if let Some(thread) = Thread::of(cursor) {
            let _ = thread.aside.compare_exchange(frame.packed(), 0, Relaxed, Relaxed);
        }
        cursor.set(interrupted.position, interrupted.limit);
    } else {
        memory::run(|| leave_recorded(frame, cursor, interrupted));
    }
    let handlers = cursor.handlers();
    handlers.store(handlers.load(Relaxed).saturating_sub(1), Relaxed);
    if process::off() {
        cursor.set(interrupted.position, interrupted.limit);
    }
}

fn leave_recorded(frame: Frame, cursor: Cursor, interrupted: Interrupted) {
    if process::off() {
        return;
    }
    let (Some(thread), Some(recorder)) = (Thread::of(cursor), process::recorder()) else {
        return;
    };
    if !interrupted.registered && cursor.ends().load(Relaxed) > 0 {
        // The thread ended, and the handler had it register again: it may have come after the last destructor.
        end_recorded(cursor);
        return;
    }
    // SAFETY:
    // - as in `flush`
    unsafe {
        stack::call(thread.stack.top(), || thread.inner().leave(frame, cursor, recorder));
    }
}

/// How often a thread's end is believed: glibc calls destructors four times over, then frees the thread's memory.
const MOST_ENDS: u64 = 4;
/// Beside the number of its ends: it was counted among the threads that ended.
const COUNTED: u64 = 1 << 32;

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

/// The calling thread ends. Destructors of others may still run instrumented code; then it registers again. Called in every
/// round of destructors, so that the last one is known.
unsafe extern "C" fn end(_value: *mut c_void) {
    let _quiet = Quiet::enter();
    let cursor = Cursor::mine();
    memory::run(|| end_recorded(cursor));
    // Those that jumped out of theirs will not come back.
    cursor.handlers().store(0, Relaxed);
    cursor.ends().fetch_add(1, Relaxed);
    if !has_ended(cursor) {
        expect_end();
    }
}

/// Whether the calling thread will not end once more.
fn has_ended(cursor: Cursor) -> bool {
    cursor.ends().load(Relaxed) & !COUNTED >= MOST_ENDS
}

fn end_recorded(cursor: Cursor) {
    if memory::lost() {
        return;
    }
    if let Some(thread) = Thread::of(cursor) {
        let _turn = ENDING.enter(|| false);
        // Held until we are back: after that another thread may run on this stack.
        let mut registry = registry();
        // SAFETY:
        // - as in `flush`
        unsafe {
            stack::call(thread.stack.top(), || registry.end(thread, cursor));
        }
    }
}

/// What others do from now on comes behind what the calling thread recorded so far.
pub fn sync() {
    if is_to_sync() {
        quietly(drain_mine);
    }
}

/// The same, unless it does so every other moment.
pub fn release() {
    if let Some(thread) = Thread::recording(Cursor::mine()) {
        let _ = at_pace(thread, &thread.released, drain_mine);
    }
}

/// The same, of volatile stores, by themselves.
pub fn store() {
    if let Some(thread) = Thread::recording(Cursor::mine()) {
        let _ = at_pace(thread, &thread.stored, drain_mine);
    }
}

/// The calling thread holds this lock: what the last one that did so recorded comes before what it does from now on, unless it takes
/// locks of others every other moment.
pub fn lock(lock: usize, hold: Hold) {
    if let Some(thread) = Thread::recording(Cursor::mine())
        && !locks::is_known(lock, hold, thread)
        && !at_pace(thread, &thread.taken, || locks::take(lock, hold, thread))
    {
        locks::leave(lock, hold, thread);
    }
}

/// Whether that was done. The thread stands still meanwhile, as far as its other paces are concerned.
fn at_pace(thread: &Thread, pace: &Pace, work: impl FnOnce()) -> bool {
    if !is_to_sync() || thread.paced.swap(true, Relaxed) {
        return false;
    }
    let begin = clock::now();
    let counts = pace.counts(begin);
    if counts {
        quietly(work);
        let end = clock::now();
        thread.paces().into_iter().for_each(|each| each.stood(end - begin));
        pace.goes_on(end);
    }
    thread.paced.store(false, Relaxed);
    counts
}

fn quietly(work: impl FnOnce()) {
    let _quiet = Quiet::enter();
    memory::run(work);
}

/// Whether some other thread could see what this one does.
fn is_to_sync() -> bool {
    // Either a thread that begins finds here what this one did, or this one finds that it begins.
    fence(SeqCst);
    RECORDING.load(Relaxed) > 1
        && !process::off()
        && !process::finished()
        && process::recorder().is_some_and(Recorder::syncs)
}

/// Reads what the calling thread recorded so far.
pub fn drain_mine() {
    if let (Some(thread), Some(recorder)) = (Thread::recording(Cursor::mine()), process::recorder()) {
        // SAFETY:
        // - as in `flush`
        unsafe {
            stack::call(thread.stack.top(), || thread.inner().drain(recorder, Extent::Mine));
        }
    }
}

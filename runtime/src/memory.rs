//! The runtime's heap, and what happens when the system has no more memory for it.
//!
//! The program must neither end nor wait because of that. Two steps:
//!
//! 1. **A reserve** of address space is mapped at the beginning. The first allocation that fails gives it back, tries
//!    again, and stops recording: what was collected stays whole, no lock is left held, and the profile is written at
//!    the end, with a remark.
//! 2. **An allocation that fails even so leaves the runtime**: [`run`] stands at every entry, and the stack pointer goes
//!    back there, past everything in between. Nothing is unwound (an allocator must not unwind, and Rust has no other
//!    way on but to abort), so the locks that the thread held stay locked and what they guard may be half-changed. So
//!    from then on the runtime is *lost*: entries return at once, no profile is written, and whoever waits for a lock
//!    leaves the runtime too ([`crate::process::lock`], `Session::close`).
//!
//! A limit (`BF_MAX_MEMORY`) comes before both: [`full`] says when it is reached, and then the stacks take nothing more,
//! while accesses go on being counted.
//!
//! One step would do only if a reserve could be large enough: a single access to a range of a gigabyte makes the stacks
//! grow by as much, in the middle of a batch.

use crate::heap::{self, Heap};
use crate::system::{self, PAGE};
use crate::tls::Cursor;
use crate::{log, process, thread};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

unsafe extern "C" {
    /// Calls `f(argument)`, its frame's address in `*frame`; 0. If it is left by `bf_rt_escape`, 1 (shim.c).
    fn bf_rt_guarded(f: unsafe extern "C" fn(*mut c_void), argument: *mut c_void, frame: *mut u64) -> c_int;
    /// Leaves the `bf_rt_guarded` of this frame.
    fn bf_rt_escape(frame: u64) -> !;
}

/// What feeding the rest of a batch and writing a profile usually need.
const RESERVE: usize = 4 << 20;
/// Where address space is limited, such a part of it is put aside: what the runtime took, the program does not have for
/// its next threads.
const PART: usize = 16;

static RESERVED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static RESERVED_BYTES: AtomicUsize = AtomicUsize::new(0);
static STOPPED: OnceLock<Instant> = OnceLock::new();
static LOST: AtomicBool = AtomicBool::new(false);

/// Puts the reserve aside, if it can be had.
pub fn reserve() {
    let bytes = system::address_space().map_or(RESERVE, |limit| (limit / PART / PAGE * PAGE).max(RESERVE));
    RESERVED_BYTES.store(bytes, Ordering::Relaxed);
    RESERVED.store(system::map(bytes, libc::MAP_NORESERVE), Ordering::Relaxed);
}

/// Gives the reserve back and stops recording; `false` if there is none.
pub fn give_back() -> bool {
    let reserve = RESERVED.swap(ptr::null_mut(), Ordering::Relaxed);
    STOPPED.get_or_init(Instant::now);
    // SAFETY:
    // - mapped by `reserve`, and taken by this thread alone
    !reserve.is_null() && unsafe { system::unmap(reserve, RESERVED_BYTES.load(Ordering::Relaxed)) }
}

/// What one more thread of the program usually makes the runtime map.
const THREAD: usize = 48 << 20;

/// Whether there is room for one more thread of the program and for what it may map itself. If there is not, recording
/// stops.
pub fn has_room_for_a_thread() -> bool {
    if system::address_space().is_none() {
        return true;
    }
    let place = system::map(THREAD, libc::MAP_NORESERVE);
    // SAFETY:
    // - mapped above, and nobody else knows it
    let has_room = !place.is_null() && unsafe { system::unmap(place, THREAD) };
    if !has_room {
        give_back();
    }
    has_room
}

/// When recording stopped for want of memory, if it did.
pub fn stopped() -> Option<Instant> {
    STOPPED.get().copied()
}

/// Bytes of the heap that may be in memory before the stacks stop.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static FULL: AtomicBool = AtomicBool::new(false);
/// What times of looks are counted from: there with the limit, so that no thread makes it while another forks.
static FIRST_LOOK: OnceLock<Instant> = OnceLock::new();
/// When to look next, nanoseconds since then.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds between two looks: at least so many, and so many for each MiB of address space, fifty times what a look
/// takes. Not by the clock: who looks may have to wait for a processor meanwhile, and would not look again for long.
const BETWEEN: (u64, u64) = (2_000_000, 50_000);

/// Sets the limit. A part of it is left for finishing what was begun and for writing the profile.
pub fn limit(bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    LIMIT.store(bytes - (bytes / 8).min(RESERVE), Ordering::Relaxed);
    FIRST_LOOK.get_or_init(Instant::now);
}

/// Whether the limit was reached, or there is no more memory at all: then stacks must not grow. Meant to be asked often.
pub fn full() -> bool {
    // Most of what the stacks map stays untouched for long: only what is in memory counts, but that takes time to find.
    FULL.load(Ordering::Relaxed)
        || stopped().is_some()
        || heap::held() > LIMIT.load(Ordering::Relaxed) && look_whether_full()
}

fn look_whether_full() -> bool {
    let first = FIRST_LOOK.get_or_init(Instant::now);
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let (now, next) = (first.elapsed(), NEXT_LOOK.load(Ordering::Relaxed));
    if nanoseconds(now) < next
        || NEXT_LOOK.compare_exchange(next, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return false;
    }
    let full = heap::resident() > LIMIT.load(Ordering::Relaxed);
    if full {
        FULL.store(true, Ordering::Relaxed);
    }
    let pause = BETWEEN.0.max((heap::held() >> 20) as u64 * BETWEEN.1);
    NEXT_LOOK.store(nanoseconds(first.elapsed()) + pause, Ordering::Relaxed);
    full
}

/// Whether the limit was reached.
pub fn limit_reached() -> bool {
    FULL.load(Ordering::Relaxed)
}

/// In a child process: what its parent's stacks take is not its own, though it is in its memory.
pub fn begin_child(limit: Option<u64>) {
    FULL.store(false, Ordering::Relaxed);
    NEXT_LOOK.store(0, Ordering::Relaxed);
    limit.into_iter().for_each(|bytes| self::limit(bytes.saturating_add(heap::resident() as u64)));
}

/// Whether locks may be held for good, so that none may be waited for.
pub fn lost() -> bool {
    LOST.load(Ordering::Acquire)
}

/// Whether the calling thread is within [`run`].
pub fn inside() -> bool {
    Cursor::mine().frame().load(Ordering::Relaxed) != 0
}

/// No memory: the runtime is lost, and left. Comes back only where no [`run`] stands.
pub fn exhausted() {
    STOPPED.get_or_init(Instant::now);
    LOST.store(true, Ordering::Release);
    process::close();
    if !Cursor::mine().is_helper() {
        say_if_lost();
    }
    leave();
}

/// Says, once and if remarks are asked for, that the runtime is lost. A helper has nowhere to say it: it
/// leaves that to a thread of the program.
pub fn say_if_lost() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if lost() && !SAID.swap(true, Ordering::Relaxed) {
        log::say_plain("bf: no memory: recording ends and no profile is written\n");
    }
}

/// Leaves the innermost [`run`] of this thread, if there is one.
pub fn leave() {
    let frame = Cursor::mine().frame().load(Ordering::Relaxed);
    if frame != 0 {
        // SAFETY:
        // - `run` stored it, and has not returned: it would have put back what was there before
        // - what is skipped is code of this library and of the C library in calls that it made, none of which holds a
        //   lock that anything but this library waits for: the allocator's is free when it fails
        unsafe { bf_rt_escape(frame) };
    }
}

/// Does what an entry of the runtime does; `None` if there was not the memory for it, if this is a process that does not
/// record ([`process::elsewhere`]), or if the thread is in the runtime already: it called a function that the program has of its own in
/// the place of the C library's. Nothing that has to be undone may be handed to `work`.
pub fn run<R>(work: impl FnOnce() -> R) -> Option<R> {
    struct Job<F, R> {
        work: MaybeUninit<F>,
        result: MaybeUninit<R>,
    }
    unsafe extern "C" fn call<F: FnOnce() -> R, R>(job: *mut c_void) {
        // SAFETY:
        // - `job` is the `Job` below, alive until `bf_rt_guarded` returns; `work` is moved out once
        unsafe {
            let job = &mut *job.cast::<Job<F, R>>();
            job.result.write(job.work.assume_init_read()());
        }
    }
    fn caller<F: FnOnce() -> R, R>(_: &F) -> unsafe extern "C" fn(*mut c_void) {
        call::<F, R>
    }
    if inside() || process::elsewhere() {
        return None;
    }
    let call = caller(&work);
    let mut job = Job { work: MaybeUninit::new(work), result: MaybeUninit::<R>::uninit() };
    let cursor = Cursor::mine();
    let frame = cursor.frame();
    // SAFETY:
    // - `call` takes what `job` is; the frame's word is this thread's own
    let left = unsafe { bf_rt_guarded(call, (&raw mut job).cast(), frame.as_ptr()) };
    frame.store(0, Ordering::Relaxed);
    thread::come_back(cursor);
    // SAFETY:
    // - `call` returned, so it wrote the result
    (left == 0).then(|| unsafe { job.result.assume_init() })
}

/// Never gives null within [`run`].
pub struct Allocator;

impl Allocator {
    fn insist(attempt: impl Fn() -> *mut u8) -> *mut u8 {
        let mut block = attempt();
        if block.is_null() && give_back() {
            block = attempt();
        }
        if block.is_null() {
            exhausted();
        }
        block
    }
}

// SAFETY:
// - all of it is the heap's, except that what fails may not return
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY:
        // - the caller's obligation
        Self::insist(|| unsafe { Heap.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY:
        // - the caller's obligation
        unsafe { Heap.dealloc(block, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY:
        // - the caller's obligation
        Self::insist(|| unsafe { Heap.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY:
        // - the caller's obligation; a block stays as it is when this fails
        Self::insist(|| unsafe { Heap.realloc(block, layout, size) })
    }
}

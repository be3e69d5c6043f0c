//! Lives in the user's process: accesses in, a profile file out.
//!
//! Comes in: words that instrumented code writes into a buffer of its own thread, described by the static tables of
//! `bf-abi`. Goes out: a profile (and a trace, when asked for), written when the process ends, whatever way it ends. It
//! must never print to the program's standard output, change its exit code, allocate from its heap, or let it see a
//! changed `errno`, signal mask or signal disposition.
//!
//! # What can interrupt what
//!
//! - **Everything the runtime does runs with all signals blocked** ([`quiet::Quiet`]). So no handler of the program ever
//!   sees the runtime half-way, a thread that runs program code never holds a lock of the runtime, and the handler of a
//!   fatal signal can take every lock: its holders are other threads, and they go on running.
//! - **Everything that goes deep runs on a stack of the runtime** ([`stack`]), because the program's may be a small
//!   thread stack, a coroutine or an alternate signal stack, or may be what has just overflowed.
//! - Instrumented code itself can be interrupted anywhere, also between reading the cursor and storing the new one. A
//!   handler that recorded into the same buffer would then be overwritten. So a handler of the program is entered
//!   through [`signals`], which gives it a buffer of its own ([`level`] has the order in which they are read).
//! - Two buffers alternate per thread: stores that a segment still owes, should a handler installed behind our back
//!   have emptied the buffer meanwhile, land in the buffer that is not in use, which is zeroed before it is used again.
//! - **Helper threads** ([`helpers`]) analyse batches behind the program's back, and do nothing else; the C library does not
//!   know of them ([`bare`]).
//! - **Where memory cannot be had, the runtime is left** at its entry ([`memory`]), and the program goes on unrecorded.
//!
//! # Locks
//!
//! Taken in this order: output, calipers, registry, one or all threads, then the leaves (modules, variables, counts, mode, tags,
//! log, trace). `fork` takes all of them but the trace's, which nobody holds without a thread's, so the child finds them free,
//! and then the heap's, which is taken for a moment under any of them. The session's locks are taken under any of them too
//! and are the only ones that helpers take; a child has another session. That of the access patterns comes after the trace's and
//! before the modules'; a child has others, too. So does that of the call paths, which a child keeps.
//! Threads that begin, and threads that end, queue for the registry ([`queue`]), and hold nothing then.
#![cfg_attr(test, expect(dead_code, reason = "what C calls has no caller in unit tests"))]

mod alloc;
mod bare;
mod buffer;
mod calipers;
mod called;
mod checkpoint;
mod clock;
mod counters;
mod decode;
mod env;
mod exec;
mod fair;
mod fork;
mod fortran;
mod heap;
mod helpers;
mod host;
mod level;
mod locks;
mod log;
mod memory;
mod modules;
mod names;
mod objects;
mod openmp;
mod output;
mod pace;
mod paths;
mod places;
mod process;
mod queue;
mod quiet;
mod recording;
mod shelves;
mod signals;
mod sink;
mod slots;
mod stack;
mod symbols;
mod system;
mod thread;
mod tls;
mod topology;
mod unload;

use crate::locks::Hold;
use bf_abi::Module;
use bf_abi::counting::Counting;
use bf_abi::paths::Function;
use std::ffi::c_void;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// Called by instrumented code when its segment of `words` words does not fit: see `bf-abi`.
///
/// # Safety
///
/// Only for code that keeps to the recording protocol of `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bf_flush(words: u64) -> *mut u64 {
    thread::flush(words)
}

/// Called by instrumented code where others may go on with what its thread did: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_sync() {
    thread::sync();
}

/// The same at atomic operations: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_release() {
    thread::release();
}

/// The same at volatile stores: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_volatile() {
    thread::store();
}

/// Called by the holder of a lock: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_lock(lock: *const c_void) {
    thread::lock(lock as usize, Hold::Alone);
}

/// Called by a holder of a lock that several may hold: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_share(lock: *const c_void) {
    thread::lock(lock as usize, Hold::Shared);
}

/// Called by who lets such a lock go: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_unshare(lock: *const c_void) {
    thread::lock(lock as usize, Hold::Either);
}

/// Called where Fortran's library allocated the object of a descriptor: see `bf-abi`.
///
/// # Safety
///
/// `descriptor` is one of Fortran's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bf_fortran_bytes(descriptor: *const fortran::Descriptor) -> u64 {
    // SAFETY:
    // - the caller's obligation
    unsafe { fortran::bytes(descriptor) }
}

/// Called once per instrumented module by its constructor.
///
/// # Safety
///
/// `module` and everything it points to follow the layout of `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bf_register_module(module: *const Module) {
    let _quiet = quiet::Quiet::enter();
    // SAFETY:
    // - the caller vouches for the layout of `module`
    if memory::run(|| unsafe { modules::register(module) }) == Some(true) {
        thread::record_from_here();
    }
}

/// Called by instrumented code on a thread that has no slots yet: see `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn bf_slots() -> *mut u64 {
    thread::slots()
}

/// Called by instrumented code before it calls what lies at `target`: see `bf-abi`.
///
/// # Safety
///
/// `counting` follows the layout of `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bf_called(counting: *const Counting, function: u32, target: *const c_void) {
    called::count(called::Call { counting: counting as u64, function: function.into(), target: target as u64 });
}

/// Called by instrumented code that tells its call paths when a function is entered: see `bf-abi`.
///
/// # Safety
///
/// `function` follows the layout of `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bf_enter(function: *mut Function) -> u64 {
    // SAFETY:
    // - the caller vouches for the layout
    unsafe { paths::enter(function) }.0
}

/// Called once per counted module by its constructor.
///
/// # Safety
///
/// `counting` and everything it points to follow the layout of `bf-abi`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bf_register_counting(counting: *mut Counting) {
    let _quiet = quiet::Quiet::enter();
    // SAFETY:
    // - the caller vouches for the layout; constructors run one at a time
    memory::run(|| unsafe { slots::register(counting) });
}

/// The library's constructor.
extern "C" fn constructor() {
    let _quiet = quiet::Quiet::enter();
    memory::run(process::init);
}

/// The library's destructor: after the program's `atexit` handlers and static destructors.
extern "C" fn destructor() {
    let _quiet = quiet::Quiet::enter();
    memory::run(|| process::end(&bf_profile::EndReason::Exit));
}

// The numbers order the two in a statically linked program: first constructor, last destructor.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array.00099")]
static CONSTRUCTOR: extern "C" fn() = constructor;
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array.00099")]
static DESTRUCTOR: extern "C" fn() = destructor;

//! The call paths that the threads of an OpenMP region begin on: where the thread was that came to the region, so that what a
//! team does is below who asked for it, whoever does it.
//!
//! LLVM's OpenMP library tells through the tools interface of the standard (OpenMP 5.2, chapter 19), which it offers whoever
//! defines `ompt_start_tool`. Only programs that tell their call paths take the offer. A tool of the program's own that is
//! found first has it instead; then, as with other OpenMP libraries, a thread begins with the function of the region.

use crate::modules;
use crate::quiet::Quiet;
use crate::tls::Cursor;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

/// Set in the word of a region, which is 0 at first, beside the path that it began on.
const KNOWN: u64 = 1 << 63;

/// `ompt_scope_begin`.
const BEGIN: c_int = 1;

/// `ompt_callback_parallel_begin` and `ompt_callback_implicit_task`.
const PARALLEL_BEGIN: c_int = 3;
const IMPLICIT_TASK: c_int = 7;

/// `ompt_function_lookup_t`.
type Lookup = unsafe extern "C" fn(name: *const c_char) -> *const c_void;
/// `ompt_set_callback_t`.
type SetCallback = unsafe extern "C" fn(event: c_int, callback: *const c_void) -> c_int;

/// `ompt_start_tool_result_t`; the library writes to nothing but `data`.
#[repr(C)]
pub struct Tool {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut u64) -> c_int,
    finalize: extern "C" fn(*mut u64),
    data: u64,
}

static mut TOOL: Tool = Tool { initialize, finalize, data: 0 };

/// Called by the OpenMP library before the first region: null if nothing is to be told.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ompt_start_tool(_version: c_uint, _library: *const c_char) -> *mut Tool {
    let _quiet = Quiet::enter();
    if modules::with(|known| known.by_path) { &raw mut TOOL } else { ptr::null_mut() }
}

/// # Safety
///
/// Only for the OpenMP library.
unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut u64) -> c_int {
    const SET_CALLBACK: &CStr = c"ompt_set_callback";
    // SAFETY:
    // - the caller's function, and a NUL-terminated name
    let set = unsafe { lookup(SET_CALLBACK.as_ptr()) };
    if set.is_null() {
        return 0;
    }
    // SAFETY:
    // - the library's function of this name and type, and functions of the types of these events
    unsafe {
        let set = std::mem::transmute::<*const c_void, SetCallback>(set);
        set(PARALLEL_BEGIN, parallel_begin as *const c_void);
        set(IMPLICIT_TASK, implicit_task as *const c_void);
    }
    1
}

extern "C" fn finalize(_data: *mut u64) {}

/// The calling thread comes to a region.
///
/// # Safety
///
/// Only for the OpenMP library: `region` is the region's word, which no other thread reads before this returns.
unsafe extern "C" fn parallel_begin(
    _task: *mut u64,
    _frame: *const c_void,
    region: *mut u64,
    _threads: c_uint,
    _flags: c_int,
    _code: *const c_void,
) {
    // SAFETY:
    // - the caller's obligation
    unsafe { *region = KNOWN | Cursor::mine().path().load(Relaxed) };
}

/// The calling thread begins or ends its part in a region.
///
/// # Safety
///
/// Only for the OpenMP library: at the beginning `region` is the region's word, which nobody writes to any more, or null.
unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    region: *const u64,
    _task: *mut u64,
    _threads: c_uint,
    _index: c_uint,
    _flags: c_int,
) {
    if endpoint != BEGIN || region.is_null() {
        return;
    }
    // SAFETY:
    // - the caller's obligation
    let began = unsafe { *region };
    // That of the program itself began nowhere.
    if began & KNOWN != 0 {
        Cursor::mine().path().store(began & !KNOWN, Relaxed);
    }
}

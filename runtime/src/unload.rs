//! `dlclose`: the tables of an unloaded library are kept until everything that refers to them was read.
//!
//! Just before, all buffers are read. What is recorded from then on until the library is gone (by its destructors) may
//! name segments that will not be there any more, so they are read from a copy of the library's data.

use crate::process::{self, lock};
use crate::quiet::Quiet;
use crate::recording::Extent;
use crate::thread;
use crate::{called, memory, modules, slots, stack};
use bf_abi::Segment;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A copy of some memory that may be unmapped soon.
struct Ghost {
    range: Range<usize>,
    /// Words, for the alignment that a segment needs.
    copy: Vec<u64>,
}

static GHOSTS: Mutex<Vec<Ghost>> = Mutex::new(Vec::new());
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Where segments are to be read while a library is being unloaded; `None` at all other times: where they are.
pub fn ghosts() -> Option<impl Fn(u64) -> *const Segment> {
    (RUNNING.load(Ordering::Acquire) > 0).then(|| {
        let ghosts = lock(&GHOSTS);
        move |header: u64| {
            let at = header as usize;
            let ghost = ghosts.iter().find(|ghost| ghost.range.contains(&at));
            ghost.map_or(at as *const Segment, |ghost| {
                ghost.copy.as_ptr().wrapping_byte_add(at - ghost.range.start).cast::<Segment>()
            })
        }
    })
}

/// # Safety
///
/// As for the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    let next = {
        let _quiet = Quiet::enter();
        memory::run(before);
        // SAFETY:
        // - a NUL-terminated name
        unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlclose".as_ptr()) }
    };
    // SAFETY:
    // - the C library's function of this name and type
    let result = unsafe {
        let next = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(next);
        next(library)
    };
    let _quiet = Quiet::enter();
    memory::run(after);
    result
}

fn before() {
    process::init();
    drain();
    on_a_stack(called::name);
    let copies = copies();
    lock(&GHOSTS).extend(copies);
    RUNNING.fetch_add(1, Ordering::Release);
}

fn after() {
    drain();
    // The loader's lock comes before ours: constructors run under it, and they may be instrumented.
    let mapped = data();
    let mut ghosts = lock(&GHOSTS);
    if RUNNING.fetch_sub(1, Ordering::Release) == 1 {
        ghosts.clear();
        let gone = |table: usize| !mapped.iter().any(|range| range.contains(&table));
        called::forget();
        slots::forget(gone);
        modules::forget(gone);
    }
}

/// Reads all buffers.
fn drain() {
    let Some(recorder) = process::recorder().filter(|_| !memory::lost()) else { return };
    on_a_stack(|| {
        let registry = thread::registry();
        for thread in &registry.live {
            let mut inner = thread.inner();
            let extent = if inner.is_mine() { Extent::Mine } else { Extent::Complete };
            inner.drain(recorder, extent);
        }
    });
}

fn on_a_stack(work: impl FnOnce()) {
    let stack = stack::Stack::new();
    // SAFETY:
    // - the stack was made for this
    unsafe { stack::call(stack.top(), work) };
}

/// Copies of the data of all libraries that hold instrumented modules.
fn copies() -> Vec<Ghost> {
    let modules = modules::addresses();
    let mut ranges = data();
    ranges.retain(|range| modules.iter().any(|module| range.contains(module)));
    let copy = |range: Range<usize>| {
        // Word by word, and not by `memcpy`: AddressSanitizer has its own, which finds its red zones in there.
        // SAFETY:
        // - a loaded library's data, mapped and readable; other threads may write to what is not a table, and nothing
        //   else of the copy is looked at
        let word = |at: usize| unsafe { (at as *const u64).read_volatile() };
        let copy = range.clone().step_by(8).map(word).collect();
        Ghost { range, copy }
    };
    ranges.into_iter().map(copy).collect()
}

/// Where the writable data of the program and its libraries lies, in whole words.
fn data() -> Vec<Range<usize>> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, ranges: *mut c_void) -> c_int {
        // SAFETY:
        // - the loader gives a valid description, and the vector that is passed below
        unsafe {
            let ranges = &mut *ranges.cast::<Vec<Range<usize>>>();
            let headers = std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            for header in headers {
                if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0 {
                    let start = ((*info).dlpi_addr + header.p_vaddr) as usize;
                    if ranges.len() == ranges.capacity() {
                        // More than there were a moment ago. The loader's lock is held: nothing may be allocated.
                        return 1;
                    }
                    ranges.push(start.next_multiple_of(8)..(start + header.p_memsz as usize) & !7);
                }
            }
        }
        0
    }
    unsafe extern "C" fn count(info: *mut libc::dl_phdr_info, _size: usize, sum: *mut c_void) -> c_int {
        // SAFETY:
        // - the loader gives a valid description, and the sum that is passed below
        unsafe { *sum.cast::<usize>() += usize::from((*info).dlpi_phnum) };
        0
    }
    loop {
        let mut most = 0_usize;
        // SAFETY:
        // - the callback takes what is passed
        unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut most).cast()) };
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(most);
        // SAFETY:
        // - as above
        if unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut ranges).cast()) } == 0 {
            return ranges;
        }
    }
}

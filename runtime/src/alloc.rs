//! The C allocator's names for the C code inside the runtime (zstd), on the runtime's own allocator.
//!
//! The linker sends that code's calls here (`--wrap`, see `build.rs`). Each block is preceded by its size.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ffi::c_void;
use std::ptr;

/// Room for the size, and what keeps the block aligned as C asks.
const HEAD: usize = 16;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEAD)?, HEAD).ok()
}

/// Writes the size in front of a fresh block, null stays null.
fn finish(block: *mut u8, size: usize) -> *mut c_void {
    if block.is_null() {
        return ptr::null_mut();
    }
    // SAFETY:
    // - the block has HEAD bytes more than `size` and is aligned to HEAD
    unsafe {
        block.cast::<usize>().write(size);
        block.add(HEAD).cast()
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __wrap_malloc(size: usize) -> *mut c_void {
    let Some(layout) = layout(size) else { return ptr::null_mut() };
    // SAFETY:
    // - the layout's size is at least HEAD
    finish(unsafe { alloc(layout) }, size)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __wrap_calloc(n: usize, each: usize) -> *mut c_void {
    let Some((size, layout)) = n.checked_mul(each).and_then(|size| Some((size, layout(size)?))) else {
        return ptr::null_mut();
    };
    // SAFETY:
    // - the layout's size is at least HEAD
    finish(unsafe { alloc_zeroed(layout) }, size)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __wrap_realloc(old: *mut c_void, size: usize) -> *mut c_void {
    if old.is_null() {
        return __wrap_malloc(size);
    }
    // SAFETY:
    // - C callers pass what the functions of this module gave them, so HEAD bytes before it lies the size
    unsafe {
        let block = old.cast::<u8>().sub(HEAD);
        let (Some(before), Some(after)) = (layout(block.cast::<usize>().read()), layout(size)) else {
            return ptr::null_mut();
        };
        finish(realloc(block, before, after.size()), size)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __wrap_free(old: *mut c_void) {
    if old.is_null() {
        return;
    }
    // SAFETY:
    // - as in `__wrap_realloc`
    unsafe {
        let block = old.cast::<u8>().sub(HEAD);
        if let Some(layout) = layout(block.cast::<usize>().read()) {
            dealloc(block, layout);
        }
    }
}

//! Memory from the system, by the number of the call: in a program there may be another function in the place of the C library's,
//! such as that of a communication library that wants to know of each mapping. It does not know of helper threads, nor of when it
//! may be called.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Zero pages of the process's own, at that place if it is free, or not null, and anywhere else; null if there are none.
pub fn map(place: *mut c_void, size: usize, flags: c_int) -> *mut c_void {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags);
    // SAFETY:
    // - a fresh anonymous mapping; no flag of ours has it take the place of another one
    let start = unsafe { libc::syscall(libc::SYS_mmap, place, size, protection, flags, -1, 0) };
    if start == -1 { ptr::null_mut() } else { start as *mut c_void }
}

/// Gives pages back; whether that could be done.
///
/// # Safety
/// Nobody uses them any more.
pub unsafe fn unmap(start: *mut c_void, size: usize) -> bool {
    // SAFETY:
    // - the caller's obligation
    unsafe { libc::syscall(libc::SYS_munmap, start, size) == 0 }
}

/// As `mremap`; null if that could not be done.
///
/// # Safety
/// The caller's mapping, and, with `MREMAP_FIXED`, place.
pub unsafe fn remap(start: *mut c_void, old: usize, new: usize, flags: c_int, place: *mut c_void) -> *mut c_void {
    // SAFETY:
    // - the caller's obligation
    let moved = unsafe { libc::syscall(libc::SYS_mremap, start, old, new, flags, place) };
    if moved == -1 { ptr::null_mut() } else { moved as *mut c_void }
}

/// As `madvise`; whether that could be done.
///
/// # Safety
/// As for `madvise`.
pub unsafe fn advise(start: *mut c_void, size: usize, advice: c_int) -> bool {
    // SAFETY:
    // - the caller's obligation
    unsafe { libc::syscall(libc::SYS_madvise, start, size, advice) == 0 }
}

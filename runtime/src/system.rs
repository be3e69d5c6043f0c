//! What is asked of the system itself, by the number of the call: in a program there may be another function in the place of the C
//! library's, such as that of a communication library that wants to know of each mapping, or of a sanitizer that is not ready yet. It
//! does not know of helper threads, nor of when it may be called.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const PAGE: usize = 4096;

/// Where the next mapping is asked for: far from where programs have theirs. When the runtime or one of its helpers needs memory is a
/// matter of chance, and where the program's own next mapping lies, and so in which sets its lines are, must not depend on it.
static APART: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);

/// Zero pages of the runtime's own; null if there are none.
pub fn map(size: usize, flags: c_int) -> *mut c_void {
    let place = APART.fetch_add(size.next_multiple_of(PAGE), Ordering::Relaxed);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags);
    // SAFETY:
    // - a fresh anonymous mapping; no flag of ours has it take the place of another one
    let start = unsafe { libc::syscall(libc::SYS_mmap, place, size, protection, flags, -1_i64, 0_i64) };
    if start == -1 { ptr::null_mut() } else { start as *mut c_void }
}

/// Bytes that this process may map (`ulimit -v`), if there is a limit.
pub fn address_space() -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY:
    // - room for what is written
    unsafe { libc::syscall(libc::SYS_getrlimit, libc::RLIMIT_AS, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// A mapping has grown to `end`: the next one is not asked for before.
pub fn map_behind(end: usize) {
    APART.fetch_max(end, Ordering::Relaxed);
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

/// Whether an address is one of the program itself, which is never unloaded.
pub fn is_of_program(address: usize) -> bool {
    static WHERE: OnceLock<Range<usize>> = OnceLock::new();
    /// The first object is the program.
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, extent: *mut c_void) -> c_int {
        // SAFETY:
        // - the loader gives a valid description, and the range that is passed below
        let (info, extent) = unsafe { (&*info, &mut *extent.cast::<Range<usize>>()) };
        // SAFETY:
        // - the loader's, as many as it says
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let begins = loaded.clone().map(|header| info.dlpi_addr.wrapping_add(header.p_vaddr));
        let ends = loaded.map(|header| info.dlpi_addr.wrapping_add(header.p_vaddr).wrapping_add(header.p_memsz));
        *extent = begins.min().unwrap_or(0) as usize..ends.max().unwrap_or(0) as usize;
        1
    }
    let extent = WHERE.get_or_init(|| {
        let mut extent = 0..0;
        // SAFETY:
        // - the callback takes what is passed
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut extent).cast()) };
        extent
    });
    extent.contains(&address)
}

/// What is in a file, as far as it can be read.
pub fn read(path: &CStr) -> Vec<u8> {
    let mut all = Vec::new();
    // SAFETY:
    // - a string that ends with NUL
    let file =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return all;
    }
    let mut part = [0_u8; 4096];
    loop {
        // SAFETY:
        // - room for as many bytes
        let read = unsafe { libc::syscall(libc::SYS_read, file, part.as_mut_ptr(), part.len()) };
        match usize::try_from(read) {
            Ok(read @ 1..) => all.extend_from_slice(&part[..read]),
            _ => break,
        }
    }
    // SAFETY:
    // - opened above, and nobody else knows it
    unsafe { libc::syscall(libc::SYS_close, file) };
    all
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

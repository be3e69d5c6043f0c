//! Threads that the C library does not know of.
//!
//! A helper made by `pthread_create` would show: the C library allocates for it from the program's heap, counts it (a
//! program whose last thread calls `pthread_exit` would not end), sends it signals of its own and waits for it (`setuid`
//! would hang, because helpers block all signals), and takes the slower way in much that it does once there are two
//! threads. So they are made by `clone`, with thread-local storage of their own: for the modules that a helper runs in,
//! this library and the C library. What they do there needs no more: memory and string functions, and system calls.
//! What in the C library takes a lock or allocates must not be called.
//!
//! They block all signals, and have a working directory and a table of open files of their own, so that neither holds
//! anything of the program's. `exit`, `exec` and fatal signals end them as they end every thread.

use crate::stack::Stack;
use crate::system;
use crate::tls::Cursor;
use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::ptr;
use std::sync::OnceLock;

unsafe extern "C" {
    /// `clone` with these flags; calls `f(argument)` on the new thread's stack, which ends with that status
    /// (shim.c).
    fn bf_rt_clone(
        flags: c_ulong,
        stack: *mut c_void,
        thread_pointer: *mut c_void,
        f: unsafe extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_long;
}

/// Thread-local variables of one module.
#[derive(Clone, Copy)]
struct Module {
    number: usize,
    /// Where they are, seen from the thread pointer.
    offset: isize,
    size: usize,
    /// What they begin with; the rest is zero.
    image: usize,
    filled: usize,
}

/// This library, and the C library; the same if the program is linked statically.
static MODULES: OnceLock<[Option<Module>; 2]> = OnceLock::new();

/// Looks at the calling thread's variables. Early: later the loader's lock may be held by a thread that waits for us.
pub fn install() {
    MODULES.get_or_init(|| {
        // SAFETY:
        // - this thread's errno
        let errno = unsafe { libc::__errno_location() } as usize;
        let mut search = Search { wanted: [Cursor::mine().address(), errno], found: [None; 2] };
        // SAFETY:
        // - the callback takes what is passed
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        search.found
    });
}

struct Search {
    /// An address in each of the modules.
    wanted: [usize; 2],
    found: [Option<Module>; 2],
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY:
    // - the loader gives a valid description, and the search that is passed above
    let (info, search, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, &mut *search.cast::<Search>(), headers)
    };
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_TLS) else { return 0 };
    let (start, size) = (info.dlpi_tls_data as usize, header.p_memsz as usize);
    for (wanted, found) in search.wanted.iter().zip(&mut search.found) {
        if (start..start + size).contains(wanted) {
            *found = Some(Module {
                number: info.dlpi_tls_modid,
                offset: start.wrapping_sub(thread_pointer()) as isize,
                size,
                image: (info.dlpi_addr + header.p_vaddr) as usize,
                filled: header.p_filesz as usize,
            });
        }
    }
    0
}

/// Around the thread pointer, for what the C library keeps there of a thread: far more than it needs.
const DESCRIPTOR: usize = 16 << 10;
/// Modules there are vector entries for; each is two words.
const VECTOR: usize = 512;
/// An entry whose module's variables were not asked for yet.
const UNALLOCATED: usize = usize::MAX;

/// A mapping with the thread-local variables of a new thread; its thread pointer.
fn storage() -> Option<usize> {
    let [ours, libc] = *MODULES.get()?;
    let modules = [ours?, libc?];
    let below = modules.iter().map(|module| module.offset.min(0).unsigned_abs()).max()?.max(DESCRIPTOR);
    let above = modules.iter().map(|module| module.offset.max(0).unsigned_abs() + module.size).max()?.max(DESCRIPTOR);
    let (below, vector) = (below.next_multiple_of(DESCRIPTOR), (VECTOR + 1) * 2 * size_of::<usize>());
    let size = below + above.next_multiple_of(DESCRIPTOR) + vector;
    let start = system::map(size, libc::MAP_NORESERVE);
    if start.is_null() {
        return None;
    }
    let pointer = start as usize + below;
    let vector = pointer + above.next_multiple_of(DESCRIPTOR) + 2 * size_of::<usize>();
    let variables = |module: Module| pointer.wrapping_add_signed(module.offset);
    for module in modules {
        // SAFETY:
        // - the image is the module's, mapped for good; the place for it is within the mapping, by its size
        unsafe {
            ptr::copy_nonoverlapping(module.image as *const u8, variables(module) as *mut u8, module.filled);
        }
    }
    // SAFETY:
    // - within the mapping
    unsafe {
        let entry = |index: isize| (vector as *mut [usize; 2]).offset(index);
        for index in 1..VECTOR as isize {
            *entry(index) = [UNALLOCATED, 0];
        }
        for module in modules.iter().filter(|module| module.number < VECTOR) {
            *entry(module.number as isize) = [variables(*module), 0];
        }
        // Its length, and which changes of the loaded modules it knows of.
        *entry(-1) = [VECTOR - 1, 0];
        *entry(0) = [*(*control_block().add(VECTOR_WORD) as *const usize), 0];
        fill_control_block(pointer, vector);
    }
    Some(pointer)
}

/// The calling thread's.
fn control_block() -> *const usize {
    thread_pointer() as *const usize
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::asm;

    pub const VECTOR_WORD: usize = 1;

    pub fn thread_pointer() -> usize {
        let pointer;
        // SAFETY:
        // - the first word of a thread's control block is its own address
        unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
        pointer
    }

    /// `tcbhead_t`: own address, vector, own address; and the secrets of the process, stack guard and pointer guard.
    ///
    /// # Safety
    ///
    /// `pointer` is the thread pointer of a mapping that nobody uses yet.
    pub unsafe fn fill_control_block(pointer: usize, vector: usize) {
        const SECRETS: [usize; 2] = [5, 6];
        let block = pointer as *mut usize;
        // SAFETY:
        // - the caller's mapping; the calling thread's own block
        unsafe {
            block.write(pointer);
            block.add(VECTOR_WORD).write(vector);
            block.add(2).write(pointer);
            for word in SECRETS {
                block.add(word).write(*super::control_block().add(word));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use std::arch::asm;

    pub const VECTOR_WORD: usize = 0;

    pub fn thread_pointer() -> usize {
        let pointer;
        // SAFETY:
        // - reads a register
        unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
        pointer
    }

    /// `tcbhead_t`: the vector.
    ///
    /// # Safety
    ///
    /// `pointer` is the thread pointer of a mapping that nobody uses yet.
    pub unsafe fn fill_control_block(pointer: usize, vector: usize) {
        // SAFETY:
        // - the caller's mapping
        unsafe { (pointer as *mut usize).write(vector) };
    }
}

use machine::{VECTOR_WORD, fill_control_block, thread_pointer};

/// Has `work(argument)` run on a thread of its own, which blocks the signals that the calling thread blocks. What it returns
/// is the thread's exit status.
///
/// # Errors
/// What the system says, as an error number.
///
/// # Safety
///
/// `argument` is what `work` takes, for as long as it runs. `work` keeps to what the module's page says.
pub unsafe fn spawn(work: unsafe extern "C" fn(*mut c_void) -> c_int, argument: *mut c_void) -> Result<(), c_int> {
    let stack = std::mem::ManuallyDrop::new(Stack::new());
    let pointer = storage().filter(|_| !stack.top().is_null()).ok_or(libc::ENOMEM)?;
    let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
    let flags = flags | libc::CLONE_FILES | libc::CLONE_SETTLS;
    // SAFETY:
    // - stack and thread-local storage are the thread's alone and are never unmapped
    // - the rest is the caller's obligation
    let number = unsafe { bf_rt_clone(flags as c_ulong, stack.top(), pointer as *mut c_void, work, argument) };
    if number < 0 { Err(-number as c_int) } else { Ok(()) }
}

/// Runs `work` with open files of its own, one fewer than the process has: for where that may open no more. In a child that shares the
/// memory, while the calling thread waits. Not where there can be none.
pub fn with_a_file_fewer<F: FnMut()>(mut work: F) {
    unsafe extern "C" fn run<F: FnMut()>(work: *mut c_void) -> c_int {
        // SAFETY:
        // - the table of files is the child's alone
        // - what is passed below, whose owner waits
        unsafe {
            libc::syscall(libc::SYS_close, 0);
            (*work.cast::<F>())();
        }
        0
    }
    let (stack, flags) = (Stack::new(), libc::CLONE_VM | libc::CLONE_VFORK);
    if stack.top().is_null() {
        return;
    }
    let work = (&raw mut work).cast();
    // SAFETY:
    // - the stack is the child's alone, and the thread-local variables are until it ends, since this thread waits
    let child = unsafe { bf_rt_clone(flags as c_ulong, stack.top(), ptr::null_mut(), run::<F>, work) };
    let wait = || {
        let (status, usage) = (ptr::null_mut::<c_int>(), ptr::null_mut::<libc::rusage>());
        // SAFETY:
        // - nothing is asked for but that it ended
        unsafe { libc::syscall(libc::SYS_wait4, child, status, libc::__WCLONE, usage) }
    };
    while child > 0 && wait() == -1 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {}
}

/// What a new thread does first: leaves the program's open files and working directory alone, and runs where the process
/// was first allowed to run, whatever the thread that made it was bound to. Whether it has open files of its own: Linux
/// before 5.9 leaves it the program's.
pub fn settle_in(name: &std::ffi::CStr, cpus: Option<&libc::cpu_set_t>) -> bool {
    // SAFETY:
    // - system calls with valid arguments; where one fails nothing is lost
    unsafe {
        let apart = libc::syscall(libc::SYS_close_range, 0, u32::MAX, libc::CLOSE_RANGE_UNSHARE) == 0;
        libc::syscall(libc::SYS_chdir, c"/".as_ptr());
        libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0);
        if let Some(cpus) = cpus {
            libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(cpus), ptr::from_ref(cpus));
        }
        apart
    }
}

/// Whether the process consists of its main thread, which ended, and of no more than `helpers` others: then with what
/// status it ended. Only for threads with open files of their own: it opens one.
pub fn left_alone(helpers: usize) -> Option<c_int> {
    let mut text = [0_u8; 1024];
    // SAFETY:
    // - a NUL-terminated name; a buffer and its length
    let size = unsafe {
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/proc/self/stat".as_ptr(), libc::O_RDONLY);
        let size = libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_close, file);
        size
    };
    let text = text.get(..usize::try_from(size).ok()?)?;
    let number = |index| std::str::from_utf8(field(text, index)?).ok()?.trim().parse::<c_int>().ok();
    let alone = field(text, 0)? == b"Z" && number(17)? <= helpers as c_int + 1;
    alone.then(|| number(49).map_or(0, |status| libc::WEXITSTATUS(status)))
}

/// A field of `/proc/PID/stat`, counted from that after the name, which is in parentheses.
fn field(text: &[u8], index: usize) -> Option<&[u8]> {
    let name = text.iter().rposition(|&byte| byte == b')')?;
    text.get(name + 2..)?.split(|&byte| byte == b' ').nth(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_thread_has_variables_of_its_own_and_the_same_heap() {
        static SEEN: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
        unsafe extern "C" fn work(argument: *mut c_void) -> c_int {
            let boxed = Box::new(argument as u64);
            SEEN[0].store(Cursor::mine().address() as u64, Ordering::Relaxed);
            SEEN[1].store(Cursor::mine().position() as u64 + 1, Ordering::Relaxed);
            SEEN[2].store(*boxed, Ordering::Release);
            0
        }
        install();
        Cursor::mine().set(ptr::dangling_mut(), ptr::dangling_mut());
        let quiet = crate::quiet::Quiet::enter();
        // SAFETY:
        // - `work` allocates from our heap, and does nothing else
        unsafe { spawn(work, 7 as *mut c_void) }.unwrap();
        drop(quiet);
        while SEEN[2].load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let seen = SEEN.each_ref().map(|seen| seen.load(Ordering::Relaxed));
        Cursor::mine().set(ptr::null_mut(), ptr::null_mut());
        assert_ne!(seen[0], Cursor::mine().address() as u64);
        assert_eq!(seen[1..], [1, 7]);
    }

    #[test]
    fn the_name_of_a_program_may_hold_anything() {
        let text = b"12 (a) Z 7 (b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 9 18 0";
        assert_eq!((field(text, 0), field(text, 17)), (Some(&b"R"[..]), Some(&b"9"[..])));
    }
}

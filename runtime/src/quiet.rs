//! All signals blocked, the thread not to be cancelled, `errno` and the floating-point state kept, for as long as the runtime works.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// The kernel's signal set: one bit per signal, signal 1 first. glibc's own `sigset_t` is larger, and its functions
/// leave two signals out that must not come in between either (thread cancellation and `setuid`).
pub type KernelSet = u64;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Not at all; and not at any moment, but where it calls certain functions.
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;

/// While it lives, no signal is delivered to this thread, and no function that it calls is where it is cancelled; then mask, `errno`,
/// rounding mode and floating-point flags are what they were.
pub struct Quiet {
    mask: KernelSet,
    /// Whether it may be cancelled, and how.
    cancel: [c_int; 2],
    errno: i32,
    float: float::State,
}

impl Quiet {
    /// Blocks every signal.
    pub fn enter() -> Self {
        // SAFETY:
        // - `__errno_location` gives this thread's errno, always valid
        let errno = unsafe { *libc::__errno_location() };
        let (mask, mut cancel) = (set_mask(!0), [0; 2]);
        // SAFETY:
        // - room for what there was
        unsafe {
            pthread_setcancelstate(DISABLE, &raw mut cancel[0]);
            pthread_setcanceltype(DEFERRED, &raw mut cancel[1]);
        }
        Self { mask, cancel, errno, float: float::take() }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        float::put(self.float);
        let [state, kind] = self.cancel;
        // SAFETY:
        // - what the thread had; until the call below it is not cancelled at any moment
        unsafe { pthread_setcancelstate(state, ptr::null_mut()) };
        // From here on a handler may jump elsewhere.
        set_mask(self.mask);
        // SAFETY:
        // - as in `enter`
        unsafe { *libc::__errno_location() = self.errno };
        if kind != DEFERRED {
            // SAFETY:
            // - what the thread had; if it was cancelled meanwhile, that happens here
            unsafe { pthread_setcanceltype(kind, ptr::null_mut()) };
        }
    }
}

/// Writes files. A signal that the writing raised (nobody reads the pipe, the file may not grow) is taken off again, unless
/// one of its kind was there before. All signals are blocked.
pub fn writing<R>(write: impl FnOnce() -> R) -> R {
    const RAISED: KernelSet = 1 << (libc::SIGXFSZ - 1) | 1 << (libc::SIGPIPE - 1);
    let before = pending();
    let result = write();
    let mut ours = RAISED & pending() & !before;
    while ours != 0 {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY:
        // - 8 bytes of set, the size the kernel is told; a valid time; what signal it was is not asked for
        let taken = unsafe {
            let size = size_of::<KernelSet>();
            libc::syscall(libc::SYS_rt_sigtimedwait, &raw const ours, ptr::null_mut::<u8>(), &raw const now, size)
        };
        match taken {
            1..=64 => ours &= !(1 << (taken - 1)),
            _ => return result,
        }
    }
    result
}

/// Signals that wait for this thread.
fn pending() -> KernelSet {
    let mut set: KernelSet = 0;
    // SAFETY:
    // - room for 8 bytes, the size the kernel is told
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, size_of_val(&set)) };
    set
}

/// Sets the thread's mask; the old one.
pub fn set_mask(new: KernelSet) -> KernelSet {
    let mut old = MaybeUninit::<KernelSet>::zeroed();
    // SAFETY:
    // - both pointers are to 8 bytes, the size the kernel is told
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const new, old.as_mut_ptr(), size_of_val(&new));
        old.assume_init()
    }
}

/// Rounding mode, exception mask and exception flags.
#[cfg(target_arch = "x86_64")]
mod float {
    use std::arch::asm;

    pub type State = u32;

    /// What a process starts with: to nearest, no traps.
    const USUAL: State = 0x1f80;

    pub fn take() -> State {
        let mut state: State = 0;
        // SAFETY:
        // - stores 4 bytes
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
        put(USUAL);
        state
    }

    pub fn put(state: State) {
        // SAFETY:
        // - loads 4 bytes; the state is one the processor had, or the one a process starts with
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, preserves_flags)) };
    }
}

/// Rounding mode, exception mask and exception flags.
#[cfg(target_arch = "aarch64")]
mod float {
    use std::arch::asm;

    pub type State = (u64, u64);

    pub fn take() -> State {
        let (control, status);
        // SAFETY:
        // - reads two registers
        unsafe { asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, nomem)) };
        put((0, 0));
        (control, status)
    }

    pub fn put((control, status): State) {
        // SAFETY:
        // - the state is one the processor had, or the one a process starts with
        unsafe { asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status, options(nostack, nomem)) };
    }
}

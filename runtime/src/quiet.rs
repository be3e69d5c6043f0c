//! All signals blocked, `errno` and the floating-point state kept, for as long as the runtime works.

use std::mem::MaybeUninit;

/// The kernel's signal set: one bit per signal, signal 1 first. glibc's own `sigset_t` is larger, and its functions
/// leave two signals out that must not come in between either (thread cancellation and `setuid`).
pub type KernelSet = u64;

/// While it lives, no signal is delivered to this thread; then mask, `errno`, rounding mode and floating-point
/// flags are what they were.
pub struct Quiet {
    mask: KernelSet,
    errno: i32,
    float: float::State,
}

impl Quiet {
    /// Blocks every signal.
    pub fn enter() -> Self {
        // SAFETY:
        // - `__errno_location` gives this thread's errno, always valid
        let errno = unsafe { *libc::__errno_location() };
        Self { mask: set_mask(!0), errno, float: float::take() }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        float::put(self.float);
        set_mask(self.mask);
        // SAFETY:
        // - as in `enter`
        unsafe { *libc::__errno_location() = self.errno };
    }
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

//! Stacks of our own, for work on a thread whose stack may be small, foreign or full.

use crate::system;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

unsafe extern "C" {
    /// Calls `f(argument)` on the stack that ends at `top` (shim.c).
    fn bf_rt_on_stack(f: unsafe extern "C" fn(*mut c_void), argument: *mut c_void, top: *mut c_void);
}

/// What feeding a batch or writing a profile may need, with room to spare; pages that are never reached cost nothing.
const SIZE: usize = 512 << 10;
/// Unmapped below, so that running over it ends in a fault and not in someone's data.
const GUARD: usize = 4096;

/// A mapped stack. Empty if the system had no memory: then work stays on the stack it is on.
pub struct Stack {
    bottom: *mut c_void,
}

// SAFETY:
// - plain memory, owned
unsafe impl Send for Stack {}
// SAFETY:
// - as above; who may run on it is `call`'s obligation
unsafe impl Sync for Stack {}

impl Stack {
    /// Maps one.
    pub fn new() -> Self {
        let bottom = system::map(SIZE, libc::MAP_NORESERVE | libc::MAP_STACK);
        if !bottom.is_null() {
            // SAFETY:
            // - the lowest page of a mapping that nobody else knows
            unsafe { libc::mprotect(bottom, GUARD, libc::PROT_NONE) };
        }
        Self { bottom }
    }

    /// One past the highest byte; null if there is no stack.
    pub fn top(&self) -> *mut c_void {
        if self.bottom.is_null() { ptr::null_mut() } else { self.bottom.wrapping_byte_add(SIZE) }
    }

    /// The same as the kernel takes it.
    pub fn as_alternate(&self) -> Option<libc::stack_t> {
        let bottom = self.bottom.wrapping_byte_add(GUARD);
        (!self.bottom.is_null()).then_some(libc::stack_t { ss_sp: bottom, ss_flags: 0, ss_size: SIZE - GUARD })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if !self.bottom.is_null() {
            // SAFETY:
            // - mapped by `new` with this size, and nobody runs on it: `call` borrows the top of a living stack
            unsafe { system::unmap(self.bottom, SIZE) };
        }
    }
}

/// Runs `work` on the stack that ends at `top` and comes back; on this stack if `top` is null.
///
/// # Safety
///
/// `top` is null or the top of a [`Stack`] that outlives the call and on which nothing else runs.
pub unsafe fn call<F: FnOnce() -> R, R>(top: *mut c_void, work: F) -> R {
    struct Job<F, R> {
        work: MaybeUninit<F>,
        result: MaybeUninit<R>,
    }
    unsafe extern "C" fn run<F: FnOnce() -> R, R>(job: *mut c_void) {
        // SAFETY:
        // - `job` is the `Job` below, alive until `bf_rt_on_stack` returns; `work` is moved out once
        unsafe {
            let job = &mut *job.cast::<Job<F, R>>();
            job.result.write(job.work.assume_init_read()());
        }
    }
    if top.is_null() {
        return work();
    }
    let mut job = Job { work: MaybeUninit::new(work), result: MaybeUninit::<R>::uninit() };
    // SAFETY:
    // - the caller vouches for the stack; `run` takes what `job` is, and has written the result when it returns
    // - a panic does not cross: `run` is extern "C", which ends the process instead
    unsafe {
        bf_rt_on_stack(run::<F, R>, (&raw mut job).cast(), top);
        job.result.assume_init()
    }
}

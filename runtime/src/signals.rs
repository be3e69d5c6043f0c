//! Signals: those that would end the process write the profile first, and handlers of the program run in between two
//! steps of ours (see [`crate::level`]).
//!
//! The program must not notice. Where it left a fatal signal at its default, our handler stands, and `sigaction` says
//! "default"; where it sets a handler, [`enter`] stands in its place, and `sigaction` says what the program set. Our
//! handler writes, restores the default and sends the signal again, so the process ends as it would have.

use crate::level::Frame;
use crate::quiet::Quiet;
use crate::stack::Stack;
use crate::thread;
use crate::{memory, process};
use bf_profile::EndReason;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    /// The C library's own `sigaction`, under its second name.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

const SIGNALS: usize = 65;

/// The program's handlers by signal; 0 where it has none.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Changes to dispositions come one at a time.
static CHANGES: Mutex<()> = Mutex::new(());

/// Whether the default for this signal ends the process, and it can be caught.
fn is_fatal(signal: c_int) -> bool {
    match signal {
        libc::SIGKILL | libc::SIGSTOP | libc::SIGCHLD | libc::SIGCONT | libc::SIGURG | libc::SIGWINCH => false,
        libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => false,
        // 32 and 33 are the C library's.
        1..=31 | 34..=64 => true,
        _ => false,
    }
}

fn default_action() -> libc::sigaction {
    // SAFETY:
    // - plain data; all zero is SIG_DFL, no flags, an empty mask
    unsafe { std::mem::zeroed() }
}

/// What stands where the program left a fatal signal at its default.
fn fatal_action() -> libc::sigaction {
    let mut action = default_action();
    action.sa_sigaction = fatal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY:
    // - a valid set
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    action
}

fn get(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY:
    // - room for the answer, which is there if the call succeeds
    unsafe { (__sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init()) }
}

fn set(signal: c_int, action: &libc::sigaction) -> c_int {
    // SAFETY:
    // - a valid action: ours, or one the program gave
    unsafe { __sigaction(signal, action, ptr::null_mut()) }
}

/// Catches every fatal signal that is at its default.
pub fn install() {
    for signal in (1..SIGNALS as c_int).filter(|&signal| is_fatal(signal)) {
        if get(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_DFL) {
            set(signal, &fatal_action());
        }
    }
}

/// As the program sees it.
fn seen(signal: c_int, mut action: libc::sigaction) -> libc::sigaction {
    if action.sa_sigaction == fatal as *const () as usize {
        return default_action();
    }
    if action.sa_sigaction == enter as *const () as usize {
        let entry = HANDLERS[signal as usize].load(Ordering::Relaxed);
        action.sa_sigaction = entry & !TAKES_ONE;
        if entry & TAKES_ONE != 0 {
            action.sa_flags &= !libc::SA_SIGINFO;
        }
    }
    action
}

/// Set in an entry of [`HANDLERS`] whose handler was given without `SA_SIGINFO`. No function stands so high.
const TAKES_ONE: usize = 1 << (usize::BITS - 1);

/// What stands for an action of the program.
fn ours(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut ours = *action;
    match action.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL if is_fatal(signal) => ours = fatal_action(),
        libc::SIG_DFL => {}
        handler => {
            let one = if action.sa_flags & libc::SA_SIGINFO == 0 { TAKES_ONE } else { 0 };
            HANDLERS[signal as usize].store(handler | one, Ordering::Relaxed);
            ours.sa_sigaction = enter as *const () as usize;
            ours.sa_flags |= libc::SA_SIGINFO;
        }
    }
    ours
}

/// # Safety
///
/// As for the C function.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY:
    // - null, or the caller's action
    let new = unsafe { new.as_ref() }.copied();
    let before = {
        let _quiet = Quiet::enter();
        memory::run(process::init);
        if process::disabled() || !(1..SIGNALS as c_int).contains(&signal) {
            None
        } else {
            // A `vfork` child has its own dispositions but our memory: it must not wait for a thread of its parent.
            let _one = process::is_mine().then(|| process::lock(&CHANGES));
            let before = get(signal).map(|action| seen(signal, action));
            let done = new.as_ref().is_none_or(|new| set(signal, &ours(signal, new)) == 0);
            before.filter(|_| done)
        }
    };
    match before {
        Some(before) => {
            if !old.is_null() {
                // SAFETY:
                // - the caller's room
                unsafe { old.write(before) };
            }
            0
        }
        // No such signal, one that cannot be caught, or nothing is recorded: as if we were not there.
        // SAFETY:
        // - the caller's obligation
        None => unsafe { __sigaction(signal, new.as_ref().map_or(ptr::null(), ptr::from_ref), old) },
    }
}

/// `signal` and its relatives: a handler and flags.
fn simple(signal: c_int, handler: usize, flags: c_int, mask_itself: bool) -> usize {
    let (mut new, mut old) = (default_action(), default_action());
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    // SAFETY:
    // - valid actions
    let result = unsafe {
        if mask_itself {
            libc::sigaddset(&raw mut new.sa_mask, signal);
        }
        sigaction(signal, &raw const new, &raw mut old)
    };
    if result == 0 { old.sa_sigaction } else { libc::SIG_ERR }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    simple(signal, handler, libc::SA_RESTART, true)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn bsd_signal(signal: c_int, handler: usize) -> usize {
    simple(signal, handler, libc::SA_RESTART, true)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn ssignal(signal: c_int, handler: usize) -> usize {
    simple(signal, handler, libc::SA_RESTART, true)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn sysv_signal(signal: c_int, handler: usize) -> usize {
    simple(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, false)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __sysv_signal(signal: c_int, handler: usize) -> usize {
    simple(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, false)
}

/// Where the calling function's stack is, for telling which handlers still run.
pub fn frame(at: usize) -> Frame {
    Frame { at, alternate: alternate().is_some_and(|stack| stack.ss_flags & libc::SS_ONSTACK != 0) }
}

fn alternate() -> Option<libc::stack_t> {
    let mut stack = MaybeUninit::uninit();
    // SAFETY:
    // - room for the answer, which is there if the call succeeds
    unsafe { (libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) == 0).then(|| stack.assume_init()) }
}

/// The program's handler, with our steps before and after.
unsafe extern "C" fn enter(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let entry = HANDLERS[signal as usize].load(Ordering::Relaxed);
    let marker = 0_u8;
    let quiet = Quiet::enter();
    let frame = frame(&raw const marker as usize);
    rearm_if_reset(signal);
    let interrupted = thread::enter_handler(frame);
    drop(quiet);
    let handler = (entry & !TAKES_ONE) as *const ();
    // SAFETY:
    // - what the program gave as the handler of this signal, called with what the kernel gives; one that takes only
    //   the number does not look at the rest
    unsafe {
        let handler =
            std::mem::transmute::<*const (), extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)>(handler);
        handler(signal, info, context);
    }
    let _quiet = Quiet::enter();
    thread::leave_handler(frame, interrupted);
    if signal == libc::SIGABRT && process::is_mine() {
        // `abort` goes on to end the process in a way that cannot be caught.
        memory::run(|| process::write_without_end(&EndReason::Signal(signal)));
    }
}

/// `SA_RESETHAND`: the kernel has just put the default back. Ours belongs there.
fn rearm_if_reset(signal: c_int) {
    if is_fatal(signal) && get(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_DFL) {
        set(signal, &fatal_action());
    }
}

/// A fatal signal that the program left at its default. All signals are blocked here.
unsafe extern "C" fn fatal(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    {
        let _quiet = Quiet::enter();
        // What goes wrong in the runtime itself does so with its locks held: there is no profile to be had.
        if !memory::inside() {
            memory::run(|| process::end(&EndReason::Signal(signal)));
        }
        set(signal, &default_action());
    }
    // SAFETY:
    // - the kernel gives a valid siginfo; the other takes no pointers
    unsafe {
        let of_instruction = matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL);
        // That of the kernel may be because a handler has no room on its stack.
        if of_instruction && (*info).si_code > 0 && (*info).si_code != libc::SI_KERNEL {
            // The instruction runs again when we return, and faults for good, with its own address in the core.
            return;
        }
        // Blocked until we return.
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
    }
}

/// Gives the calling thread an alternate signal stack if it has none, so that a stack overflow leaves a profile.
pub fn offer_alternate_stack(stack: &Stack) -> bool {
    let has_one = alternate().is_some_and(|stack| stack.ss_flags & libc::SS_DISABLE == 0);
    !has_one && stack.as_alternate().is_some_and(|new| set_alternate(&new))
}

/// Takes it away again: the thread ends.
pub fn drop_alternate_stack() {
    set_alternate(&libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 });
}

fn set_alternate(stack: &libc::stack_t) -> bool {
    // SAFETY:
    // - a mapped stack that is kept for good, or none
    unsafe { libc::sigaltstack(stack, ptr::null_mut()) == 0 }
}

//! Helper threads: they analyse what the program's threads record (`BF_THREADS`).
//!
//! They come late: a process that records little never has one, nor has a child of `fork` before it has recorded as much
//! itself. Where none can be made, the program's threads analyse what they record, as without helpers.
//!
//! A helper only works on batches ([`bf_collect::Session::help`]): it never takes a lock of the runtime but the heap's,
//! reads no buffer, writes no file. So whoever waits for the analysis may hold any lock.

use crate::process::{self, Recorder};
use crate::tls::Cursor;
use crate::{bare, log, memory};
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Batches that the program's threads analyse before helpers come.
const FIRST_BATCHES: u32 = 4;
/// How often a helper without work looks whether it was left alone.
const LOOK: Duration = Duration::from_secs(1);
const NAME: &CStr = c"bf-helper";

/// The processors that the process may use when it begins.
static CPUS: OnceLock<Option<libc::cpu_set_t>> = OnceLock::new();

/// Looks at the processors, and gets ready to make threads.
pub fn install() {
    CPUS.get_or_init(|| {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY:
        // - room for a set, all zero is one; filled if the call succeeds
        unsafe {
            let done = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) == 0;
            done.then(|| set.assume_init())
        }
    });
    bare::install();
}

/// How many the process is to have: what was asked for, else one if there is a processor for it; none where valgrind runs it, which
/// ends processes that make threads without the C library.
pub fn wanted() -> usize {
    if process::options().valgrind {
        return 0;
    }
    let several = || {
        // SAFETY:
        // - a valid set
        let cpus = |set: &libc::cpu_set_t| unsafe { libc::CPU_COUNT(set) };
        usize::from(CPUS.get().and_then(Option::as_ref).is_some_and(|set| cpus(set) > 1))
    };
    process::options().threads.map_or_else(several, |threads| threads as usize)
}

/// The helpers of one recorder.
pub struct Helpers {
    wanted: usize,
    state: AtomicU8,
    batches: AtomicU32,
    /// Those that were made and have not ended.
    made: AtomicUsize,
}

/// There may be some later.
const NOT_YET: u8 = 0;
/// They are being made.
const STARTING: u8 = 1;
/// They work.
const WORKING: u8 = 2;
/// There will be none.
const NONE: u8 = 3;

impl Helpers {
    /// None yet.
    pub fn new(wanted: usize) -> Self {
        let state = AtomicU8::new(if wanted == 0 { NONE } else { NOT_YET });
        Self { wanted, state, batches: AtomicU32::new(0), made: AtomicUsize::new(0) }
    }

    /// Whether a batch is theirs to analyse. Makes them if it is time.
    pub fn take(&self, recorder: &'static Recorder) -> bool {
        match self.state.load(Ordering::Acquire) {
            WORKING => true,
            NOT_YET if self.batches.fetch_add(1, Ordering::Relaxed) >= FIRST_BATCHES => self.start(recorder),
            _ => false,
        }
    }

    fn start(&self, recorder: &'static Recorder) -> bool {
        // The child of a `vfork` would make them its own.
        if !process::is_mine()
            || self.state.compare_exchange(NOT_YET, STARTING, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return false;
        }
        if !recorder.session().pipelined() {
            self.state.store(NONE, Ordering::Release);
            return false;
        }
        let mut failure = None;
        for _ in 0..self.wanted {
            // SAFETY:
            // - a recorder lives for good; `work` is what takes one
            match unsafe { bare::spawn(work, std::ptr::from_ref(recorder).cast_mut().cast()) } {
                Ok(()) => drop(self.made.fetch_add(1, Ordering::Relaxed)),
                Err(error) => failure = Some(error),
            }
        }
        let made = self.made.load(Ordering::Relaxed);
        if let Some(error) = failure {
            remark(made, self.wanted, error);
        }
        self.state.store(if made > 0 { WORKING } else { NONE }, Ordering::Release);
        made > 0
    }
}

fn remark(made: usize, wanted: usize, error: c_int) {
    let error = std::io::Error::from_raw_os_error(error);
    let instead = if made == 0 { "the program's threads analyse what they record" } else { "the others do the work" };
    log::remark(format!("{} of {wanted} helper threads could not be made ({error}): {instead}", wanted - made));
}

/// What a helper does. All signals are blocked: they were when it was made. Its exit status matters only where it is the
/// last thread of the process: then it is the main thread's.
unsafe extern "C" fn work(recorder: *mut c_void) -> c_int {
    // SAFETY:
    // - what `start` passes
    let recorder = unsafe { &*recorder.cast::<Recorder>() };
    Cursor::mine().set_helper();
    let by_itself = bare::settle_in(NAME, CPUS.get().and_then(Option::as_ref));
    let made = &recorder.helpers().made;
    let status = Cell::new(None);
    memory::run(|| {
        recorder.session().help(LOOK, || {
            let left = if by_itself { bare::left_alone(made.load(Ordering::Relaxed)) } else { None };
            status.set(left);
            left.is_none()
        });
    });
    made.fetch_sub(1, Ordering::Relaxed);
    status.get().unwrap_or(0)
}

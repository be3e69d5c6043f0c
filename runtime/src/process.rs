//! The process: its beginning, its session, its children, its end.

use crate::env::Options;
use crate::helpers::{self, Helpers};
use crate::names::{self, Facts};
use crate::{
    calipers, checkpoint, env, fork, heap, host, log, memory, modules, objects, output, quiet::Quiet, signals, slots,
    system, thread,
};
use bf_abi::Module;
use bf_collect::{Batch, Bucket, Config, Order, Patterns, Seek, Session, Wanted};
use bf_profile::EndReason;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

/// The process that `init` or the last `fork` recorded. Another pid means: not ours to write for (`vfork`, raw `clone`).
static PID: AtomicU32 = AtomicU32::new(0);
static OFF: AtomicBool = AtomicBool::new(false);
static FINISHED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);
static OPTIONS: OnceLock<Options> = OnceLock::new();
static IDENTITY: Mutex<Option<Identity>> = Mutex::new(None);
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());

/// How long the end of a process waits for locks that other threads hold: they may be feeding a very long range.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Who this process is; another for each fork.
#[derive(Clone)]
pub struct Identity {
    /// What names are made of.
    pub facts: Facts,
    /// Nanoseconds since the epoch.
    pub start_ns: u64,
    /// The same moment.
    pub start: Instant,
    /// Where the profile goes.
    pub profile: PathBuf,
    /// Where the trace goes, if one is asked for.
    pub trace: Option<PathBuf>,
}

/// Where the accesses of this process go.
pub struct Recorder {
    session: Session,
    trace: Option<Mutex<output::Trace>>,
    /// If any are asked for.
    patterns: Option<Mutex<Patterns>>,
    wanted: Wanted,
    helpers: Helpers,
}

impl Recorder {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// A place for the calling thread. Those that were made later have greater numbers of the system.
    pub fn take_slot(&self) -> u32 {
        // SAFETY:
        // - no preconditions
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
        let take = || {
            let slot = self.session.take_slot();
            self.session.made(slot, thread);
            slot
        };
        self.traced(take, |trace, &slot| trace.taken(slot, thread))
    }

    /// The thread on this slot ended.
    pub fn release_slot(&self, slot: u32) {
        if let Some(patterns) = &self.patterns {
            lock(patterns).end(slot);
        }
        self.traced(|| self.session.release_slot(slot), |trace, ()| trace.released(slot));
    }

    /// Takes a batch: analyses it, or leaves it to the helpers and gives an empty one for it.
    pub fn feed(&'static self, slot: u32, batch: &mut Batch, bucket: Bucket) {
        let mut trace = self.trace.as_ref().map(lock);
        if let Some(trace) = &mut trace {
            trace.batch(slot, batch, bucket);
        }
        if let Some(patterns) = &self.patterns {
            lock(patterns).feed(slot, batch, bucket);
        }
        if bucket != Bucket::UNCOUNTED {
            calipers::counted(batch.accesses());
        }
        objects::add_globals(&self.session);
        self.session.note(slot, batch);
        if self.helpers.take(self) {
            self.session.hand_over(slot, batch, bucket);
        } else {
            self.session.feed(slot, batch, bucket);
        }
    }

    /// Whether threads hand over what they recorded wherever they let others go on, or only where their buffers are full.
    pub fn syncs(&self) -> bool {
        self.session.config().order == Order::Time && !options().order_of_buffers
    }

    /// The access patterns that are kept.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// The access patterns, if any are kept.
    pub fn patterns(&self) -> Option<MutexGuard<'_, Patterns>> {
        self.patterns.as_ref().and_then(lock_for)
    }

    /// Waits until everything that was fed is analysed, unless nothing goes on for too long.
    pub fn settle(&self) {
        if !self.session.settle(PATIENCE) && !memory::lost() {
            log::remark("helper threads were busy for too long: what they had not analysed is left out".to_owned());
        }
    }

    /// The helpers.
    pub fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// The trace, if there is one.
    pub fn trace(&self) -> Option<MutexGuard<'_, output::Trace>> {
        self.trace.as_ref().and_then(lock_for)
    }

    /// In a child process: the trace is the parent's.
    fn abandon_trace(&self) {
        if let Some(trace) = &self.trace {
            // Its threads are at rest, so nobody of this process holds it.
            lock(trace).abandon();
        }
    }

    /// Does one thing to session and trace, the trace's lock held over both: so they see the same order.
    fn traced<R>(&self, work: impl FnOnce() -> R, write: impl FnOnce(&mut output::Trace, &R)) -> R {
        let trace = self.trace.as_ref().map(lock);
        let result = work();
        if let Some(mut trace) = trace {
            write(&mut trace, &result);
        }
        result
    }
}

/// Locks a mutex of the runtime. None is ever poisoned: a panic ends the process. If its holder may have left it locked
/// for want of memory, the caller leaves the runtime too.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    const SPINS: u32 = 100;
    /// Microseconds: many who wait must not take the processor from whoever works.
    const LONGEST: u64 = 1280;
    let (mut tries, mut pause) = (0, 20);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) if memory::lost() => {
                memory::leave();
                return mutex.lock().unwrap_or_else(PoisonError::into_inner);
            }
            Err(TryLockError::WouldBlock) if tries < SPINS => {
                tries += 1;
                std::hint::spin_loop();
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_micros(pause));
                pause = LONGEST.min(2 * pause);
            }
        }
    }
}

/// Locks a mutex, unless that takes longer than [`PATIENCE`].
pub fn lock_for<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let begin = Instant::now();
    lock_while(mutex, || begin.elapsed() <= PATIENCE)
}

/// Locks a mutex, unless that is not to be waited for any more.
pub fn lock_while<T: ?Sized>(mutex: &Mutex<T>, waits: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if memory::lost() || !waits() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Whether nothing is recorded.
pub fn off() -> bool {
    disabled() || memory::stopped().is_some() || modules::foreign() || elsewhere()
}

/// One page, holding 1, that children made behind the C library's back (by a raw `fork` or `clone`) find zeroed, while
/// those that share the memory (`vfork`) do not. Null: the system cannot do that.
static HERE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this is a child process that was made behind the C library's back. It has no helper threads, any lock may be
/// held for good by a thread that it has not got, and no profile of its own: it must not touch the runtime.
pub fn elsewhere() -> bool {
    // SAFETY:
    // - null, or a page that is mapped for good
    unsafe { HERE.load(Ordering::Relaxed).as_ref() }.is_some_and(|here| here.load(Ordering::Relaxed) == 0)
}

fn mark_here() {
    let page = system::map(system::PAGE, 0);
    // SAFETY:
    // - a page that nobody else knows
    if page.is_null() || unsafe { !system::advise(page, system::PAGE, libc::MADV_WIPEONFORK) } {
        return;
    }
    HERE.store(page.cast(), Ordering::Relaxed);
    say_here();
}

/// In a child process that was made by the C library's `fork`.
pub fn say_here() {
    // SAFETY:
    // - as in `elsewhere`
    if let Some(here) = unsafe { HERE.load(Ordering::Relaxed).as_ref() } {
        here.store(1, Ordering::Relaxed);
    }
}

/// Whether it was asked for that nothing be recorded, so that nothing was installed either.
pub fn disabled() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// Whether there is a profile to write, now or later.
fn has_profile() -> bool {
    !disabled() && !memory::lost() && !modules::foreign() && is_mine() && !finished()
}

/// Threads that wait within the session need not wait longer: a lock may be held for good.
pub fn close() {
    READY.store(true, Ordering::Release);
    if let Some(recorder) = recorder() {
        recorder.session.close();
    }
}

/// Whether the last profile was written.
pub fn finished() -> bool {
    FINISHED.load(Ordering::Relaxed)
}

/// What the environment asks for.
pub fn options() -> &'static Options {
    OPTIONS.get_or_init(|| Options::read(env::variables().into_iter()))
}

/// Whether this is the process that was recorded, not a `vfork` child in its memory.
pub fn is_mine() -> bool {
    std::process::id() == PID.load(Ordering::Relaxed)
}

/// Who this process is.
pub fn identity() -> Option<Identity> {
    lock(&IDENTITY).clone()
}

/// The session's owner, once recording has begun.
pub fn recorder() -> Option<&'static Recorder> {
    // SAFETY:
    // - null, or a box that was leaked
    unsafe { RECORDER.load(Ordering::Acquire).as_ref() }
}

/// The beginning: once, in the library's constructor or before, if code of others runs earlier.
pub fn init() {
    static BEGUN: Mutex<bool> = Mutex::new(false);
    if READY.load(Ordering::Acquire) {
        return;
    }
    let mut begun = lock(&BEGUN);
    if !std::mem::replace(&mut *begun, true) {
        heap::install();
        // While there is the address space for it: instrumented code cannot go on without.
        slots::scratch();
        memory::reserve();
        let options = options();
        log::set_verbose(options.verbose);
        if options.disable {
            OFF.store(true, Ordering::Relaxed);
        } else {
            start(options);
        }
        READY.store(true, Ordering::Release);
    }
}

fn start(options: &Options) {
    options.remarks.iter().cloned().for_each(log::remark);
    if options.stop_ignores {
        calipers::ignore_stopped();
    }
    options.phases.into_iter().for_each(calipers::slice_every);
    PID.store(std::process::id(), Ordering::Relaxed);
    *lock(&IDENTITY) = Some(identify(lineage::is_descendant()));
    lineage::mark();
    checkpoint::begin();
    options.max_memory.into_iter().for_each(memory::limit);
    mark_here();
    helpers::install();
    signals::install();
    fork::install();
    host::install();
    thread::install();
    // SAFETY:
    // - the handler is a function of this library, which is never unloaded
    unsafe { at_quick_exit(at_quick_exit_handler) };
}

unsafe extern "C" {
    fn at_quick_exit(handler: extern "C" fn()) -> i32;
}

/// The first one registered, so the last one called.
extern "C" fn at_quick_exit_handler() {
    let _quiet = Quiet::enter();
    memory::run(|| end(&EndReason::QuickExit));
}

fn identify(descendant: bool) -> Identity {
    let start_ns = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let facts = Facts {
        executable: output::executable(),
        pid: std::process::id(),
        host: output::host(),
        rank: output::rank(),
        start: start_ns / 1_000_000_000,
        directory: std::env::current_dir().unwrap_or_default(),
        descendant,
    };
    let taken = |path: &Path| path.symlink_metadata().is_ok();
    let path = |pattern: &[u8], ending| {
        let path = names::path(pattern, &facts, taken);
        // A slip: the program itself would be lost.
        if is_program(&path) { path.with_added_extension(ending) } else { path }
    };
    let options = options();
    Identity {
        profile: path(options.profile.as_deref().unwrap_or(names::DEFAULT), "bfp"),
        trace: options.trace.as_deref().map(|pattern| path(pattern, "bft")),
        facts,
        start_ns,
        start: Instant::now(),
    }
}

/// Whether a file is the program that runs.
fn is_program(path: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    let found = identity(path);
    found.is_some() && found == identity(Path::new("/proc/self/exe"))
}

/// How a program knows that it descends from one that wrote a profile, also across `exec`, and also where programs
/// that were not instrumented (a shell) stand in between. The environment would show in the output of programs that
/// print it. The kernel hands a thread's timer slack on to its children and keeps it across `exec`; nobody looks at
/// it, and 0.7 us more on top of the usual 50 us make no difference to timers.
mod lineage {
    use crate::log;

    const USUAL: i32 = 50_000;
    const MARK: i32 = 50_733;

    fn slack() -> i32 {
        // SAFETY:
        // - takes no pointers
        unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }
    }

    pub fn is_descendant() -> bool {
        slack() == MARK
    }

    pub fn mark() {
        match slack() {
            MARK => {}
            // SAFETY:
            // - takes no pointers
            USUAL => drop(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, MARK as libc::c_ulong, 0, 0, 0) }),
            other => log::say(&format!("timer slack is {other} ns: programs started from here count as first ones")),
        }
    }
}

/// In a fresh child process: it is somebody else, and what its parent recorded is not its own. The caller has every lock.
pub fn begin_child(registry: &mut thread::Registry) {
    PID.store(std::process::id(), Ordering::Relaxed);
    FINISHED.store(false, Ordering::Relaxed);
    memory::begin_child(options().max_memory);
    *lock(&IDENTITY) = Some(identify(true));
    checkpoint::begin();
    slots::begin_child();
    thread::forget_others();
    if let Some(old) = recorder() {
        old.abandon_trace();
        registry.begin_again(begin_recorder());
    }
}

/// What the session keeps, from the environment and the modules so far.
pub fn config() -> Config {
    let (options, default) = (options(), Config::default());
    modules::with(|known| {
        let asked = || known.line_sizes.iter().copied().filter(|&size| Config::is_line_size(size)).collect();
        let asked = || Some(asked()).filter(|sizes: &Vec<u32>| !sizes.is_empty());
        let usual = || if slots::only() { Vec::new() } else { default.line_sizes };
        let line_sizes = options.line_sizes.clone().or_else(asked).unwrap_or_else(usual);
        let mut limits = default.limits;
        if known.max_set_bits > 0 {
            limits.max_set_bits = known.max_set_bits.min(24);
        }
        if known.max_ways > 0 {
            limits.max_ways = known.max_ways.min(255);
        }
        limits.max_set_bits = options.max_set_bits.map_or(limits.max_set_bits, |bits| bits.max(known.max_set_bits));
        limits.max_ways = options.max_ways.map_or(limits.max_ways, |ways| ways.max(known.max_ways));
        let by_object = options.by_object.unwrap_or(known.by_object) && options.sample.is_none();
        let by_path = known.by_path && options.sample.is_none();
        let by_place = options.by_place.unwrap_or(known.by_function) && options.sample.is_none();
        // Whatever the lines are, stacks take so much, about.
        let sets = (32 << 20) * line_sizes.len() as u64;
        Config {
            line_sizes,
            limits,
            sample: options.sample,
            instructions: options.instructions,
            order: options.order,
            by_item: by_place || by_object || by_path,
            by_object,
            by_path,
            tracked: options.sharing.map_or(Config::TRACKED, |lines| lines as usize),
            rounds: default.rounds.filter(|_| options.rounds != Some(false)).map(|seek| match options.max_memory {
                // An eighth of it is enough for what may not be of use.
                Some(bytes) => {
                    let kept_lines = ((bytes / 8).saturating_sub(sets) / 64) as usize;
                    let (longest, kept_lines) = ((bytes / 64) as usize, seek.kept_lines.min(kept_lines));
                    Seek { longest: seek.longest.min(longest), kept_lines, ..seek }
                }
                None => seek,
            }),
            rounds_of_several: true,
        }
    })
}

/// The access patterns to keep, likewise.
fn wanted() -> Wanted {
    let options = options();
    let (patterns, by_function) = modules::with(|known| (known.patterns, known.by_function));
    let wanted = options.patterns.unwrap_or(patterns);
    Wanted { functions: wanted.touched() && options.by_place.unwrap_or(by_function), ..wanted }
}

/// What a module asks for that the running session does not keep, in words; `None` if there is nothing.
pub fn missing(line_sizes: &[u32], max_set_bits: u32, max_ways: u32, patterns: Wanted, flags: u32) -> Option<String> {
    let recorder = recorder()?;
    let config = recorder.session.config();
    let options = options();
    let late = |size: &&u32| options.line_sizes.is_none() && !config.line_sizes.contains(size);
    let mut wishes: Vec<_> = line_sizes.iter().filter(late).map(|size| format!("-bf-line-size={size}")).collect();
    if max_set_bits > config.limits.max_set_bits {
        wishes.push(format!("-bf-max-set-bits={max_set_bits}"));
    }
    if max_ways > config.limits.max_ways {
        wishes.push(format!("-bf-max-ways={max_ways}"));
    }
    for (flag, kept, asked, name) in [
        (Module::BY_FUNCTION, config.by_item, options.by_place, "by-func"),
        (Module::BY_OBJECT, config.by_object, options.by_object, "data-structs"),
        (Module::CALL_PATHS, config.by_path, None, "call-stack"),
    ] {
        if flags & flag != 0 && !kept && asked.is_none() && config.sample.is_none() {
            wishes.push(format!("-bf-{name}"));
        }
    }
    let kept = recorder.wanted;
    for (asked, kept, name) in [
        (patterns.bytes, kept.bytes, "unique-bytes"),
        (patterns.touches, kept.touches, "mem-footprint"),
        (patterns.strides, kept.strides, "strides"),
    ] {
        if asked && !kept && options.patterns.is_none() {
            wishes.push(format!("-bf-{name}"));
        }
    }
    if wishes.is_empty() { None } else { Some(wishes.join(" ")) }
}

/// The recorder, begun if need be. Under the registry's lock.
pub fn begin() -> &'static Recorder {
    recorder().unwrap_or_else(begin_recorder)
}

fn begin_recorder() -> &'static Recorder {
    let config = config();
    let trace = identity().and_then(|identity| output::Trace::create(&identity, &config)).map(Mutex::new);
    // Without stacks there is nothing to help with, nor where all is put off.
    let helps = !config.line_sizes.is_empty() && config.order == Order::Time;
    let helpers = if helps { helpers::wanted() } else { 0 };
    let session = Session::new(config).limited_by(memory::full);
    let session = if helpers > 1 { session.apart() } else { session };
    let wanted = wanted();
    let patterns = wanted.any().then(|| Mutex::new(Patterns::new(wanted, memory::full)));
    let fresh = Box::leak(Box::new(Recorder { session, trace, patterns, wanted, helpers: Helpers::new(helpers) }));
    objects::begin(fresh, recorder());
    RECORDER.store(fresh, Ordering::Release);
    fresh
}

/// A profile in case the process ends now; the last one is still to come if it does not.
pub fn write_without_end(reason: &EndReason) {
    if has_profile() {
        output::write(reason);
    }
}

/// The profile, for good or for now. Does nothing in a process that is not ours, or that has written its last one.
pub fn end(reason: &EndReason) {
    memory::say_if_lost();
    if !has_profile() {
        return;
    }
    output::write(reason);
    if !matches!(reason, EndReason::Exec | EndReason::Checkpoint) {
        FINISHED.store(true, Ordering::Relaxed);
    }
}

//! `fork`: the child finds everything at rest, and begins with empty stacks, zero counts and a file of its own.

use crate::quiet::Quiet;
use crate::{calipers, log, memory, modules, objects, output, paths, process, slots, thread};
use std::cell::{Cell, UnsafeCell};
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Locks that are only held, whatever they guard.
trait Hold {}
impl<T> Hold for T {}

/// While the process forks.
struct AtRest {
    held: Held,
    _quiet: Quiet,
}

/// Every lock; dropped in the order of the fields.
struct Held {
    _inner: [Box<dyn Hold>; 6],
    _threads: Vec<Box<dyn Hold>>,
    _queue: MutexGuard<'static, ()>,
    registry: MutexGuard<'static, thread::Registry>,
    _outer: [Box<dyn Hold>; 2],
}

struct Slot(UnsafeCell<Option<AtRest>>);

// SAFETY:
// - touched only by the thread that forks, while it holds every lock
unsafe impl Sync for Slot {}

static AT_REST: Slot = Slot(UnsafeCell::new(None));

/// Whether a thread holds all locks for that.
static FORKING: AtomicBool = AtomicBool::new(false);

/// How long handlers that are recorded may go on; those that others left by a jump are not told from them.
const LONGEST: Duration = Duration::from_millis(500);

/// How long a handler that begins waits.
const PATIENCE: Duration = Duration::from_millis(50);

/// Whether the process forks, and locks are held for that.
pub fn is_on() -> bool {
    FORKING.load(SeqCst)
}

/// Says, each time it is asked, whether a handler may wait for the locks: not for very long while the process forks. The C library waits
/// for its own locks then, and the handler may have interrupted who holds one of those.
pub fn patience() -> impl Fn() -> bool {
    let begin = Cell::new(None);
    move || {
        if !is_on() {
            begin.set(None);
            return true;
        }
        let since = begin.get().unwrap_or_else(Instant::now);
        begin.set(Some(since));
        since.elapsed() <= PATIENCE
    }
}

/// Has the functions below called around each `fork`.
pub fn install() {
    // SAFETY:
    // - the handlers are functions of this library, which is never unloaded
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Takes the locks, in the order of `lib.rs`.
unsafe extern "C" fn prepare() {
    let quiet = Quiet::enter();
    let held = memory::run(|| if memory::lost() { None } else { Some(rest()) }).flatten();
    if let Some(held) = held {
        // SAFETY:
        // - see `Slot`
        unsafe { *AT_REST.0.get() = Some(AtRest { held, _quiet: quiet }) };
    }
}

fn rest() -> Held {
    // What was recorded so far is the parent's alone.
    thread::drain_mine();
    let begin = Instant::now();
    loop {
        let (held, is_alone) = hold();
        if is_alone || begin.elapsed() > LONGEST {
            return held;
        }
        FORKING.store(false, SeqCst);
        drop(held);
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Every lock, and whether no other thread is in a handler that may want one.
fn hold() -> (Held, bool) {
    let outer: [Box<dyn Hold>; 2] = [Box::new(output::hold()), Box::new(calipers::hold())];
    let (queue, registry) = thread::hold_registry();
    let threads: Vec<_> = registry.live.iter().map(|thread| thread.hold()).collect();
    FORKING.store(true, SeqCst);
    let is_alone =
        !thread::is_entering() && threads.iter().all(|(_, inner)| inner.is_mine() || inner.levels.len() <= 1);
    let threads = threads.into_iter().map(|held| Box::new(held) as Box<dyn Hold>).collect();
    let inner: [Box<dyn Hold>; 6] = [
        Box::new(paths::hold()),
        Box::new(modules::hold()),
        Box::new(objects::hold()),
        Box::new(slots::counts()),
        Box::new(calipers::hold_leaves()),
        Box::new(log::hold()),
    ];
    (Held { _inner: inner, _threads: threads, _queue: queue, registry, _outer: outer }, is_alone)
}

unsafe extern "C" fn parent() {
    // SAFETY:
    // - see `Slot`
    let Some(at_rest) = (unsafe { (*AT_REST.0.get()).take() }) else { return };
    FORKING.store(false, SeqCst);
    drop(at_rest);
}

unsafe extern "C" fn child() {
    FORKING.store(false, SeqCst);
    // SAFETY:
    // - see `Slot`
    let Some(at_rest) = (unsafe { (*AT_REST.0.get()).take() }) else { return };
    process::say_here();
    let AtRest { held: Held { _inner, _threads, _queue, mut registry, _outer }, _quiet } = at_rest;
    drop((_inner, _threads, _queue, _outer));
    memory::run(|| process::begin_child(&mut registry));
}

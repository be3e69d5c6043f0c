//! What counts, and under which tag: process-wide, changed by the program through `bf.h`.

use crate::process::lock;
use crate::quiet::Quiet;
use crate::sink::Mode;
use crate::{log, memory, process, thread};
use bf_collect::Bucket;
use std::ffi::{CStr, c_char};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names that a program can give; with "" and the name for all further ones they fill the buckets.
const MOST_TAGS: usize = Bucket::LAST.0 as usize - 2;
/// Stands for all tags beyond the limit.
const MORE_TAGS: &str = "(more tags)";

/// Slices of [`crate::env::Options::phases`]; the last one has the rest.
const MOST_SLICES: u32 = 240;
/// After so many of them they are twice as long.
const EQUAL_SLICES: u32 = 60;

struct Calipers {
    /// `bf_start` calls minus `bf_stop` calls; counting is on from 0 up.
    depth: i64,
    /// The name that holds.
    name: String,
    /// Those that open `bf_push` calls bring back, outermost first.
    outer: Vec<String>,
    /// Number of the slice of time.
    slice: u32,
    /// Index into [`TAGS`].
    tag: u8,
    /// What becomes of accesses while counting is off.
    off: Mode,
}

static CALIPERS: Mutex<Calipers> = Mutex::new(Calipers {
    depth: 0,
    name: String::new(),
    outer: Vec::new(),
    slice: 0,
    tag: 0,
    off: Mode::Feed(Bucket::UNCOUNTED),
});

impl Calipers {
    fn mode(&self) -> Mode {
        if self.depth < 0 { self.off } else { Mode::Feed(Bucket(self.tag + 1)) }
    }

    /// What counts from here on has the name within those around it.
    fn enter(&mut self, name: &str) {
        let around = self.outer.last().map_or("", String::as_str);
        self.name = match (around, name) {
            ("", name) => name.to_owned(),
            (around, "") => around.to_owned(),
            (around, name) => format!("{around}/{name}"),
        };
        self.tag();
    }

    /// The tag becomes that of name and slice.
    fn tag(&mut self) {
        let name = match self.slice {
            0 => self.name.clone(),
            slice => format!("{}@{slice}", self.name),
        };
        let name = name.as_str();
        let mut tags = lock(&TAGS);
        if tags.is_empty() {
            tags.push(String::new());
        }
        let known = |tags: &[String], name| tags.iter().position(|tag| tag == name);
        let add = |tags: &mut Vec<String>, name: &str| {
            tags.push(name.to_owned());
            tags.len() - 1
        };
        let index = known(&tags, name).or_else(|| known(&tags, MORE_TAGS).filter(|_| tags.len() > MOST_TAGS));
        let index = index.unwrap_or_else(|| {
            if tags.len() <= MOST_TAGS {
                return add(&mut tags, name);
            }
            log::remark(format!("more than {MOST_TAGS} tags: the others count as {MORE_TAGS:?}"));
            add(&mut tags, MORE_TAGS)
        });
        self.tag = index as u8;
    }
}

/// Counted accesses so far, if slices are asked for.
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// Of these, how many end the slice at hand.
static DUE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Each slice has so many accesses, or a little more.
pub fn slice_every(accesses: u64) {
    DUE.store(accesses, Relaxed);
}

/// Takes note of accesses that were counted.
pub fn counted(accesses: u64) {
    if DUE.load(Relaxed) < u64::MAX {
        COUNTED.fetch_add(accesses, Relaxed);
    }
}

/// Whether a slice of time should end.
pub fn is_due() -> bool {
    COUNTED.load(Relaxed) >= DUE.load(Relaxed)
}

/// Begins the next slice. The calling thread's recording must not be locked.
pub fn next_slice(every: u64) {
    change_here(|calipers| {
        if !is_due() {
            return;
        }
        calipers.slice += 1;
        let length = every.saturating_mul(1 << (calipers.slice / EQUAL_SLICES));
        let last = calipers.slice + 1 >= MOST_SLICES;
        DUE.store(if last { u64::MAX } else { COUNTED.load(Relaxed).saturating_add(length) }, Relaxed);
        calipers.tag();
    });
}

/// The names given so far, "" first; empty before the first. A leaf of the lock order.
static TAGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// References made while counting is off are none, instead of moving the stacks uncounted.
pub fn ignore_stopped() {
    lock(&CALIPERS).off = Mode::Ignore;
}

/// What becomes of an access made now. For a new thread, under the registry's lock: then no change can be missed.
pub fn mode() -> Mode {
    *lock(&MODE)
}

/// The names given so far; index 0 is "".
pub fn tags() -> Vec<String> {
    let mut tags = lock(&TAGS).clone();
    if tags.is_empty() {
        tags.push(String::new());
    }
    tags
}

/// The tag that a bucket stands for.
pub fn tag_name(bucket: Bucket) -> String {
    let index = usize::from(bucket.0) - 1;
    lock(&TAGS).get(index).cloned().unwrap_or_default()
}

/// What [`mode`] gives: apart from [`CALIPERS`], which is locked before the registry.
static MODE: Mutex<Mode> = Mutex::new(Mode::Feed(Bucket::FIRST));

fn change(with: impl FnOnce(&mut Calipers)) {
    let _quiet = Quiet::enter();
    memory::run(|| change_here(with));
}

fn change_here(with: impl FnOnce(&mut Calipers)) {
    process::init();
    if process::off() {
        return;
    }
    let mut calipers = lock(&CALIPERS);
    with(&mut calipers);
    let mode = calipers.mode();
    let registry = thread::registry();
    if std::mem::replace(&mut *lock(&MODE), mode) == mode {
        return;
    }
    for thread in &registry.live {
        thread.inner().change(mode);
    }
}

/// Keeps the program from changing its settings until it is dropped: for `fork`.
pub fn hold() -> impl Sized {
    lock(&CALIPERS)
}

/// Keeps the settings, which are leaves of the lock order, until it is dropped: for `fork`.
pub fn hold_leaves() -> impl Sized {
    (lock(&MODE), lock(&TAGS))
}

/// Counting is on while `bf_start` was called at least as often as `bf_stop`.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn bf_start() {
    change(|calipers| calipers.depth += 1);
}

/// See [`bf_start`].
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn bf_stop() {
    change(|calipers| calipers.depth -= 1);
}

/// From now on accesses count under `name`; null and "" are no tag.
///
/// # Safety
///
/// `name` is null or NUL-terminated.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn bf_tag(name: *const c_char) {
    let name = match name.is_null() {
        true => c"",
        // SAFETY:
        // - the caller's obligation
        false => unsafe { CStr::from_ptr(name) },
    };
    change(|calipers| calipers.enter(&name.to_string_lossy()));
}

/// Up to the `bf_pop` that belongs to it accesses count under `name` within the one that holds now.
///
/// # Safety
///
/// `name` is null or NUL-terminated.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn bf_push(name: *const c_char) {
    let name = match name.is_null() {
        true => c"",
        // SAFETY:
        // - the caller's obligation
        false => unsafe { CStr::from_ptr(name) },
    };
    change(|calipers| {
        calipers.outer.push(calipers.name.clone());
        calipers.enter(&name.to_string_lossy());
    });
}

/// The name holds again that held at the `bf_push` before.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn bf_pop() {
    change(|calipers| match calipers.outer.pop() {
        Some(name) => {
            calipers.name = name;
            calipers.tag();
        }
        None => log::remark("bf_pop was called more often than bf_push: without effect".to_owned()),
    });
}

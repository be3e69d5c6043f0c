//! The instrumented modules of the process: their names, their wishes, the callees they do not define, and their segments.

use crate::decode::{self, id_of};
use crate::places::{Interned, Kept};
use crate::process::{Recorder, lock};
use crate::{log, objects, process};
use bf_abi::{ABI_VERSION, Entry, Module, Segment};
use bf_collect::{Item, Shape, Wanted};
use bf_profile::Places;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

static KNOWN: Mutex<Known> = Mutex::new(Known::new());
/// Whether a module of another layout was met: then nothing can be read any more.
static FOREIGN: AtomicBool = AtomicBool::new(false);
/// Whether there has been any.
static FOUND: AtomicBool = AtomicBool::new(false);
/// See [`heat`].
static HEAT: AtomicU64 = AtomicU64::new(0);
/// In the `id` of a segment: some of its places share an item with others.
pub const SHARING: u32 = 1 << 31;

/// Everything registered so far. Names are copied: a module may be unloaded.
pub struct Known {
    /// Source file names.
    pub names: BTreeSet<String>,
    /// Functions defined in instrumented code.
    pub functions: BTreeSet<String>,
    /// Line sizes asked for.
    pub line_sizes: BTreeSet<u32>,
    /// The largest `-bf-max-set-bits`; 0 if none.
    pub max_set_bits: u32,
    /// The largest `-bf-max-ways`; 0 if none.
    pub max_ways: u32,
    /// Callee names by number; number 0 is no callee.
    pub callees: Vec<String>,
    numbers: BTreeMap<String, u32>,
    /// Whether a module asked for histograms by place in the source.
    pub by_function: bool,
    /// The access patterns that modules asked for.
    pub patterns: Wanted,
    /// Whether one asked for histograms by object in memory.
    pub by_object: bool,
    /// Whether one asked for histograms by call path.
    pub by_path: bool,
    /// By address of the module.
    modules: BTreeMap<usize, Tables>,
    places: Interned,
    /// By number of a segment, from 1 up: the form of its records, and its callee.
    segments: Vec<(Arc<Shape>, u32)>,
    segment_numbers: BTreeMap<(Arc<Shape>, u32), u32>,
    /// By number of a segment: the sites of its steps. Only where segments are told apart.
    sites: BTreeMap<u32, Vec<u32>>,
}

/// What a module's segments refer to.
struct Tables {
    /// The numbers of its callees.
    callees: Vec<u32>,
    places: Kept,
}

impl Known {
    const fn new() -> Self {
        Self {
            names: BTreeSet::new(),
            functions: BTreeSet::new(),
            line_sizes: BTreeSet::new(),
            max_set_bits: 0,
            max_ways: 0,
            callees: Vec::new(),
            numbers: BTreeMap::new(),
            by_function: false,
            patterns: Wanted { bytes: false, touches: false, strides: false, functions: false },
            by_object: false,
            by_path: false,
            modules: BTreeMap::new(),
            places: Interned::new(),
            segments: Vec::new(),
            segment_numbers: BTreeMap::new(),
            sites: BTreeMap::new(),
        }
    }

    fn intern(&mut self, name: String) -> u32 {
        if self.callees.is_empty() {
            self.callees.push(String::new());
        }
        let next = self.callees.len() as u32;
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.callees.push(name);
        }
        number
    }
}

/// Gives `read` what is registered.
pub fn with<R>(read: impl FnOnce(&Known) -> R) -> R {
    read(&lock(&KNOWN))
}

/// Keeps the modules as they are until it is dropped: for `fork`.
pub fn hold() -> impl Sized {
    lock(&KNOWN)
}

/// Whether buffers cannot be read because a module of another layout takes part.
pub fn foreign() -> bool {
    FOREIGN.load(Ordering::Relaxed)
}

/// Whether any module was known yet. Code may run before that: an allocator of the program's, which libraries call as they begin.
pub fn found() -> bool {
    FOUND.load(Ordering::Relaxed)
}

/// Takes note of a module; whether it is the first.
///
/// # Safety
///
/// `module` follows the layout of `bf-abi`, as far as its `type_size` says.
pub unsafe fn register(module: *const Module) -> bool {
    // SAFETY:
    // - the first two fields have the same place in every version
    let (size, version, name) = unsafe { ((*module).type_size, (*module).abi_version, (*module).name) };
    if version != ABI_VERSION || (size as usize) < size_of::<Module>() {
        FOREIGN.store(true, Ordering::Relaxed);
        log::remark(format!(
            "a module was compiled for layout {version} of the recording, this runtime reads {ABI_VERSION}: nothing is recorded"
        ));
        return false;
    }
    // SAFETY:
    // - this version's layout, all of it present
    let fields = unsafe { &*module };
    // SAFETY:
    // - the names are NUL-terminated, as many as the counts say; line sizes likewise
    let (name, functions, callees, line_sizes) = unsafe {
        (
            strings(name, 1).pop().unwrap_or_default(),
            strings(fields.functions, fields.n_functions),
            strings(fields.callees, fields.n_callees),
            match fields.line_sizes.is_null() {
                true => &[][..],
                false => std::slice::from_raw_parts(fields.line_sizes, fields.n_line_sizes as usize),
            },
        )
    };
    let patterns = Wanted {
        bytes: fields.flags & Module::UNIQUE_BYTES != 0,
        touches: fields.flags & Module::FOOTPRINT != 0,
        strides: fields.flags & Module::STRIDES != 0,
        // As `by_function` has it.
        functions: false,
    };
    let late = process::missing(line_sizes, fields.max_set_bits, fields.max_ways, patterns, fields.flags);
    if let Some(late) = late {
        log::remark(format!("{name} was loaded after recording began, too late for its {late}"));
    }
    // SAFETY:
    // - null or this version's layout
    let places = unsafe { Kept::new(fields.places) };
    let mut known = lock(&KNOWN);
    let callees = callees.into_iter().map(|callee| known.intern(callee)).collect();
    known.modules.insert(module as usize, Tables { callees, places });
    known.by_function |= fields.flags & Module::BY_FUNCTION != 0;
    known.patterns = known.patterns.or(patterns);
    known.by_object |= fields.flags & Module::BY_OBJECT != 0;
    known.by_path |= fields.flags & Module::CALL_PATHS != 0;
    known.names.insert(name);
    known.functions.extend(functions);
    known.line_sizes.extend(line_sizes);
    known.max_set_bits = known.max_set_bits.max(fields.max_set_bits);
    known.max_ways = known.max_ways.max(fields.max_ways);
    objects::expect_globals();
    !FOUND.swap(true, Ordering::Relaxed)
}

/// Where the modules' tables are.
pub fn addresses() -> Vec<usize> {
    lock(&KNOWN).modules.keys().copied().collect()
}

/// Forgets the addresses of modules that are `gone`; their names stay.
pub fn forget(gone: impl Fn(usize) -> bool) {
    lock(&KNOWN).modules.retain(|&module, _| !gone(module));
}

/// After how many accesses a segment whose places share items is numbered again, because they may get their own.
pub fn heat() -> u64 {
    HEAT.load(Ordering::Relaxed)
}

/// Numbers a segment, from 1 up, which made so many accesses before: one seen for the first time, or whose places share items.
/// That is its `id` from now on, and [`SHARING`] if they may get their own yet.
pub fn number(segment: &Segment, entries: &[Entry], accesses: u64) -> u32 {
    let recorder = process::recorder();
    let wanted = recorder.map(Recorder::wanted).unwrap_or_default();
    let config = recorder.map(|recorder| recorder.session().config());
    let by_block = config.is_some_and(|config| config.by_item);
    let by_item = by_block || config.is_some_and(|config| config.tracked > 0);
    let known = &mut *lock(&KNOWN);
    let mut tables = known.modules.get_mut(&(segment.module as usize));
    let callee = (segment.callee as usize)
        .checked_sub(1)
        .map_or(0, |index| tables.as_ref().and_then(|tables| tables.callees.get(index)).copied().unwrap_or(0));
    let allocates = segment.kind == Segment::ALLOCATION;
    let site = match &mut tables {
        Some(tables) if allocates => known.places.allocation(&mut tables.places, segment.site),
        _ => 0,
    };
    let mut sharing = false;
    let item = |number| match &mut tables {
        Some(tables) if by_item => {
            let (item, shared) = known.places.item(&mut tables.places, number, by_block, accesses);
            sharing |= shared;
            item
        }
        _ => Item::NONE,
    };
    // By content: a library that is loaded over and over adds nothing.
    let next = known.segments.len() as u32 + 1;
    let mut shape = decode::shape(segment, entries, site, item);
    if wanted.functions
        && let (Some(tables), Some(entry)) = (&mut tables, entries.first())
        && let Some(function) = known.places.compiled_into(&mut tables.places, entry.site)
    {
        // A segment lies within one function.
        shape = shape.in_function(function + 1);
    }
    if wanted.strides {
        // Strides are those of one instruction, so each segment has a number of its own, the first that it got.
        let before = id_of(segment).load(Ordering::Relaxed) & !SHARING;
        let before = (before as usize).checked_sub(1).and_then(|index| known.segments.get(index));
        let origin = before.map_or(next, |(shape, _)| shape.origin());
        shape = shape.of_segment(origin);
        let sites = entries.iter().map(|entry| match &mut tables {
            Some(tables) => known.places.site(&mut tables.places, entry.site),
            None => 0,
        });
        known.sites.insert(origin, sites.collect());
    }
    let shape = Arc::new(shape);
    let number = *known.segment_numbers.entry((Arc::clone(&shape), callee)).or_insert(next);
    if number == next {
        known.segments.push((shape, callee));
    }
    let heat = known.places.heat();
    HEAT.store(heat.unwrap_or(0), Ordering::Relaxed);
    let mark = if sharing && heat.is_some() { SHARING } else { 0 };
    id_of(segment).store(number | mark, Ordering::Relaxed);
    number
}

/// Gives `name` the table of places to add to.
pub fn naming<R>(name: impl FnOnce(&mut Interned) -> R) -> R {
    name(&mut lock(&KNOWN).places)
}

/// The index that a function of a module's tables has among those of [`places`]; `None` if the module did not register.
pub fn function(module: usize, index: u32) -> Option<u32> {
    let known = &mut *lock(&KNOWN);
    let tables = known.modules.get_mut(&module)?;
    Some(known.places.function(&mut tables.places, index))
}

/// Where in the source what was recorded so far comes from; empty if nobody asked for that.
pub fn places() -> Places {
    lock(&KNOWN).places.places().clone()
}

/// The form of the records of the segments of that number.
pub fn shape(number: u32) -> Arc<Shape> {
    Arc::clone(&lock(&KNOWN).segments[number as usize - 1].0)
}

/// The site that a step of the segment of that number comes from, an index into the places.
pub fn site(number: u32, step: usize) -> Option<u32> {
    lock(&KNOWN).sites.get(&number)?.get(step)?.checked_sub(1)
}

/// The callee of the segments of that number; 0 if they have none, or their module never registered.
pub fn callee(number: u32) -> u32 {
    lock(&KNOWN).segments[number as usize - 1].1
}

/// # Safety
///
/// `n` NUL-terminated strings lie at `at`, one after the other; or `at` is null.
unsafe fn strings(mut at: *const c_char, n: u32) -> Vec<String> {
    if at.is_null() {
        return Vec::new();
    }
    let mut strings = Vec::with_capacity(n as usize);
    for _ in 0..n {
        // SAFETY:
        // - the caller's strings; `at` moves from each to the one behind its NUL
        let string = unsafe { CStr::from_ptr(at) };
        at = at.wrapping_add(string.count_bytes() + 1);
        strings.push(string.to_string_lossy().into_owned());
    }
    strings
}

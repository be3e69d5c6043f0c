//! What lies at an address: variables, blocks that instrumented code allocated, and the stacks of threads.

use crate::paths::{self, Found};
use crate::process::{PATIENCE, Recorder, lock};
use crate::{modules, symbols};
use bf_collect::{Allocations, Attributed, Block, Item as Number, Object as Kind, Objects, Session};
use bf_profile::objects::Object;
use bf_profile::places::{Item, Site};
use bf_profile::{ObjectKind, Places, SharedLine, SharedLines, SharedObject};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How far below where a thread is its stack may reach, if nothing else is known there.
const BELOW: usize = 8 << 20;
/// How far above it may begin.
const ABOVE: usize = 64 << 20;
/// What lies above for sure.
const LEAST: usize = 1 << 12;

/// Variables that the session knows, by number.
struct Globals {
    variables: Vec<SharedObject>,
    /// The files that they are from, and where those are mapped.
    files: BTreeSet<(u64, PathBuf)>,
}

/// Keeps them as they are until it is dropped: for `fork`.
pub fn hold() -> impl Sized {
    lock(&GLOBALS)
}

/// Whether files were mapped that nobody looked at.
static EXPECTED: AtomicBool = AtomicBool::new(true);

static GLOBALS: Mutex<Globals> = Mutex::new(Globals { variables: Vec::new(), files: BTreeSet::new() });

/// A session begins; the process's first, or in the child of a process that had one before. The child has all of its parent's
/// memory.
pub fn begin(recorder: &Recorder, parent: Option<&Recorder>) {
    let session = recorder.session();
    if let Some(all) = parent.and_then(|parent| parent.session().objects(PATIENCE, |objects| objects.inherited())) {
        session.objects(PATIENCE, |objects| *objects = all);
    }
    if !recorder.syncs() {
        session.objects(PATIENCE, |objects| objects.keep_freed());
    }
    add_globals(session);
}

/// Another file was mapped: its variables are to be looked at before something more is fed.
pub fn expect_globals() {
    EXPECTED.store(true, Relaxed);
}

/// Tells a session that keeps histograms by object of the variables that it does not know of yet, if there may be any. Goes
/// deep.
pub fn add_globals(session: &Session) {
    if !session.config().by_object || !EXPECTED.swap(false, Relaxed) {
        return;
    }
    let globals = &mut *lock(&GLOBALS);
    for mapped in symbols::mapped() {
        if !globals.files.insert((mapped.base, mapped.path.clone())) {
            continue;
        }
        let variables = symbols::variables(&mapped);
        session.objects(PATIENCE, |objects| {
            for (number, variable) in (globals.variables.len() as u32..).zip(variables.values()) {
                objects.add_global(variable.address, variable.bytes, number);
            }
        });
        globals.variables.extend(variables.into_values());
    }
}

/// Where the stack of the calling thread may lie, which is at `here` now.
pub fn stack_around(here: usize) -> Range<u64> {
    // The C libraries put a thread's own data at the end of its stack. The first thread's ends with the environment, of which they
    // may not know yet, and the program's name behind that.
    // SAFETY:
    // - no preconditions; addresses are read, not what is there
    let ends = unsafe { [libc::pthread_self() as usize, environ as usize, libc::getauxval(libc::AT_EXECFN) as usize] };
    let end = ends.into_iter().filter(|&end| end > here && end - here < ABOVE).min();
    here.saturating_sub(BELOW) as u64..end.unwrap_or(here).max(here + LEAST) as u64
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// Names what lies at the lines, as far as that is known. `replaced`: of each the blocks that lay there, where others do now.
pub fn name(sharing: &mut [SharedLines], replaced: &[Vec<Vec<Block>>], session: &Session) {
    symbols::name(sharing);
    let (places, numbers) = (modules::places(), session.numbers());
    for (lines, replaced) in sharing.iter_mut().zip(replaced) {
        let line_bytes = u64::from(lines.line_bytes);
        for (line, replaced) in lines.lines.iter_mut().zip(replaced).filter(|(line, _)| line.object.is_none()) {
            let found = session.objects(PATIENCE, |objects| at(line, line_bytes, replaced, objects));
            line.object = symbols::together(found.into_iter().flatten().filter_map(|(object, address, bytes)| {
                let (kind, name) = described(object, &places, &numbers)?;
                Some(SharedObject { kind, name, address, bytes })
            }));
        }
    }
}

/// What lies where the line was used: objects, their addresses and their lengths in bytes.
fn at(line: &SharedLine, line_bytes: u64, replaced: &[Block], objects: &Objects) -> Vec<(Kind, u64, u64)> {
    let before = replaced.iter().filter(|block| symbols::is_used(line, line_bytes, block.address, block.bytes));
    let mut all: Vec<_> = before.map(|block| (block.object, block.address, block.bytes)).collect();
    let mut from = line.address;
    while let Some(block) = objects.within(from, line.address + line_bytes) {
        let overlaps = |before: &Block| before.address < block.end() && block.address < before.end();
        if symbols::is_used(line, line_bytes, block.address, block.bytes) && !replaced.iter().any(overlaps) {
            all.push((block.object, block.address, block.bytes));
        }
        from = block.address.saturating_add(block.bytes);
        if from >= line.address + line_bytes {
            break;
        }
    }
    if all.is_empty() {
        let first = symbols::used(line, line_bytes).next().map_or(line.address, |part| part.start);
        all.extend(objects.stack_at(first).map(|slot| (Kind::Stack(slot), line.address, line_bytes)));
    }
    all
}

/// Kind and name of an object; `None`: unknown. `numbers`: of threads, by slot.
fn described(object: Kind, places: &Places, numbers: &[u32]) -> Option<(ObjectKind, String)> {
    Some(match object {
        Kind::Unknown => return None,
        Kind::Heap(site) => (ObjectKind::Heap, allocated_at(site, places)),
        Kind::Global(number) => {
            let name = lock(&GLOBALS).variables.get(number as usize).map(|variable| variable.name.clone());
            (ObjectKind::Global, name.unwrap_or_default())
        }
        Kind::Stack(slot) => (ObjectKind::Stack, format!("stack of thread {}", numbers.get(slot as usize)?)),
    })
}

/// An allocation site for people; `number` is 1 + its index.
fn allocated_at(number: u32, places: &Places) -> String {
    let index = number.checked_sub(1);
    let Some(site) = index.and_then(|index| places.sites.get(index as usize)) else { return String::new() };
    let function = places.functions.get(site.function as usize).map_or("", |found| places.string(found.display));
    let file = places.string(site.file).rsplit('/').next().unwrap_or_default();
    match (site.line, file) {
        (0, _) | (_, "") => function.to_owned(),
        (line, file) => format!("{function} ({file}:{line})"),
    }
}

/// The items of a session that keeps histograms by object or call path too: the places that they are of, in place of the
/// ones that `places` has; the objects, if they are kept, and by item the number of its path among those that were `found`.
pub fn tables(recorder: &Recorder, places: &mut Places, found: &[Found]) -> (bf_profile::Objects, Vec<u16>) {
    let session = recorder.session();
    let known = session.objects(PATIENCE, |objects| {
        let allocations: BTreeMap<u32, _> = objects.allocations().collect();
        (objects.items().to_vec(), allocations, objects.is_crowded())
    });
    let Some((attributed, allocations, crowded)) = known else { return Default::default() };
    let mut tables = bf_profile::Objects { crowded, ..bf_profile::Objects::default() };
    let (mut numbers, mut paths) = (BTreeMap::new(), Vec::new());
    let thread_numbers = session.numbers();
    let items = std::mem::take(&mut places.items);
    for Attributed { place, object, path } in attributed {
        let item = items.get(usize::from(place.0)).copied().unwrap_or_default();
        let compiled = item.site.map(|site| places.compiled_into(site));
        let path = compiled.map_or(path, |function| paths::of_function(found, path, function));
        let item = if place == Number::NONE { somewhere(path, places, found) } else { item };
        places.items.push(item);
        paths.push(path);
        let number = described(object, places, &thread_numbers).map(|(kind, name)| {
            *numbers.entry(object).or_insert_with(|| {
                tables.objects.push(named(object, kind, name, &allocations));
                tables.objects.len() as u32 - 1
            })
        });
        tables.items.push(number);
    }
    let config = session.config();
    if !config.by_object {
        tables = bf_profile::Objects::default();
    }
    if !config.by_path {
        paths.clear();
    }
    (tables, paths)
}

/// The item of a path whose places are not told apart.
fn somewhere(path: u16, places: &mut Places, found: &[Found]) -> Item {
    let path = usize::from(path).checked_sub(1).and_then(|index| found.get(index));
    let Some(function) = path.and_then(|path| path.function) else { return Item::default() };
    let file = places.functions.get(function as usize).map_or(0, |function| function.file);
    places.sites.push(Site { function, file, ..Site::default() });
    Item { site: Some(places.sites.len() as u32 - 1), merged: true }
}

fn named(object: Kind, kind: ObjectKind, name: String, allocations: &BTreeMap<u32, Allocations>) -> Object {
    match object {
        Kind::Heap(site) => {
            let found = allocations.get(&site).copied().unwrap_or_default();
            let (count, bytes, peak) = (found.count, found.bytes, found.peak);
            Object { kind, name, site: site.checked_sub(1), count, bytes, peak }
        }
        Kind::Global(number) => {
            let bytes = lock(&GLOBALS).variables.get(number as usize).map_or(0, |variable| variable.bytes);
            Object { kind, name, site: None, count: 1, bytes, peak: bytes }
        }
        _ => Object { kind, name, count: 1, ..Object::default() },
    }
}

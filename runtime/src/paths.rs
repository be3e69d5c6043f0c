//! Call paths: the tree of functions that called each other. All threads share it; a node is one path, with slots of its own
//! for the counts of its function, and a number that the recording names it by.
//!
//! A function that is on the path already goes on there: what a recursion does is one node, so every function stands on a
//! path at most once. There are [`MOST`] nodes; a call that would need one more goes on to a node of its function below
//! [`OTHERS`], and so do the calls from there.
//!
//! Concurrency: rows are read without a lock. They are written under that of the tree, their key last, and never change.

use crate::process::lock;
use crate::quiet::Quiet;
use crate::slots::{self, Run};
use crate::tls::Cursor;
use crate::{memory, modules, process};
use bf_abi::paths::{Function, Path};
use bf_profile::{PathCounts, PathNode, Paths};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Nodes, but for those below [`OTHERS`].
const MOST: usize = 4096;
/// The last of them are for paths of few functions, so that what a program does later is told apart as well.
const MOST_DEEP: usize = 3072;
/// Functions of a path that is not deep.
const FEW: usize = 5;
/// Nodes below [`OTHERS`].
const MOST_OTHERS: usize = 2048;
/// The node below which calls go on for which there is no room.
const OTHERS: u16 = 1;

/// Where a function goes on to that is called on a path.
struct Row {
    /// The number of the path, and in the low half that of the function, from 1 up; 0: the row is empty.
    key: AtomicU64,
    path: AtomicU64,
}

/// A power of two.
const ROWS: usize = 1 << 17;
/// Rows that are looked at from the one on that a key belongs to.
const NEAR: usize = 32;

static TABLE: [Row; ROWS] = [const { Row { key: AtomicU64::new(0), path: AtomicU64::new(0) } }; ROWS];

/// A function that was entered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    /// Index into the functions of the places.
    function: u32,
    /// Its slots, if it is counted.
    run: Option<Run>,
}

/// A path.
#[derive(Clone, Copy)]
struct Node {
    /// The one that it goes on from.
    parent: u16,
    /// Of its function; 0: of none.
    number: u32,
    /// The first of its own slots, or `None` where it has those of its function, and whose they are.
    counts: Option<(Option<usize>, Run)>,
    /// As instrumented code has it.
    path: Path,
}

/// What there is to tell of a path.
pub struct Found {
    /// The number of the one that it goes on from; 0: none.
    pub parent: u16,
    /// Index into the functions of the places; `None`: those of which there were too many.
    pub function: Option<u32>,
    /// The first of its own slots, or `None` where it has those of its function, and whose they are.
    pub counts: Option<(Option<usize>, Run)>,
}

/// The tree.
pub struct Tree {
    /// The first is that of no function.
    nodes: Vec<Node>,
    /// By number, from 1 up.
    functions: Vec<Known>,
    numbers: BTreeMap<Known, u32>,
    children: BTreeMap<(u16, u32), Path>,
    /// Nodes below [`OTHERS`].
    others: usize,
}

static TREE: Mutex<Tree> = Mutex::new(Tree {
    nodes: Vec::new(),
    functions: Vec::new(),
    numbers: BTreeMap::new(),
    children: BTreeMap::new(),
    others: 0,
});

/// Keeps the tree as it is until it is dropped: for `fork`.
pub fn hold() -> impl Sized {
    lock(&TREE)
}

/// Every path, from number 1 up, each after the one that it goes on from.
pub fn found() -> Vec<Found> {
    let tree = lock(&TREE);
    let of = |node: &Node| {
        let function = (node.number as usize).checked_sub(1).map(|index| tree.functions[index].function);
        Found { parent: node.parent, function, counts: node.counts }
    };
    tree.nodes.iter().skip(1).map(of).collect()
}

/// The calling thread enters a function.
///
/// # Safety
///
/// `function` follows the layout of `bf-abi`.
#[inline]
pub unsafe fn enter(function: *mut Function) -> Path {
    let cursor = Cursor::mine();
    let [tail_path, tail_callee] = cursor.tail();
    // SAFETY:
    // - the caller's obligation; only `id` ever changes, and that through an atomic
    let (id, address) = unsafe { (AtomicU32::from_ptr(&raw mut (*function).id), (*function).address) };
    let mut from = Path(cursor.path().load(Relaxed));
    if tail_callee.load(Relaxed) != 0 {
        if tail_callee.load(Relaxed) == address as u64 {
            from = Path(tail_path.load(Relaxed));
        }
        tail_callee.store(0, Relaxed);
    }
    let key = key(from.number(), id.load(Acquire));
    // SAFETY:
    // - the caller's obligation
    let path = find(key).unwrap_or_else(|| unsafe { learn(from, function, id) });
    cursor.path().store(path.0, Relaxed);
    path
}

const fn key(from: u16, number: u32) -> u64 {
    (from as u64) << 32 | number as u64
}

fn rows(key: u64) -> impl Iterator<Item = &'static Row> {
    let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (first..first + NEAR).map(|at| &TABLE[at % ROWS])
}

#[inline]
fn find(key: u64) -> Option<Path> {
    for row in rows(key) {
        match row.key.load(Acquire) {
            // No function has the number 0, which one has that was never met.
            0 => return None,
            found if found == key => return Some(Path(row.path.load(Relaxed))),
            _ => {}
        }
    }
    None
}

/// # Safety
///
/// `function` follows the layout of `bf-abi`.
#[cold]
unsafe fn learn(from: Path, function: *mut Function, id: &AtomicU32) -> Path {
    // SAFETY:
    // - the caller's obligation; null or a module's counters, of which `base` changes before this can run
    let (function, base) =
        unsafe { (&*function, (*function).counting.as_ref().map_or(0, |counting| counting.base / 8)) };
    let unknown = Path::new(0, base);
    if process::off() {
        return unknown;
    }
    let _quiet = Quiet::enter();
    let learnt = memory::run(|| {
        let tree = &mut *lock(&TREE);
        let number = match id.load(Relaxed) {
            0 => tree.number(function)?,
            number => number,
        };
        let path = tree.path(from.number(), number, base);
        let key = key(from.number(), number);
        // Without a row it is looked for in the tree each time.
        if find(key).is_none()
            && let Some(row) = rows(key).find(|row| row.key.load(Relaxed) == 0)
        {
            row.path.store(path.0, Relaxed);
            row.key.store(key, Release);
        }
        id.store(number, Release);
        Some(path)
    });
    learnt.flatten().unwrap_or(unknown)
}

impl Tree {
    /// The number of a function; `None` if its module did not register yet.
    fn number(&mut self, function: &Function) -> Option<u32> {
        let run = slots::run(function.counting, function.first as usize, function.n_slots as usize);
        let known = Known { function: modules::function(function.module as usize, function.function)?, run };
        let next = self.functions.len() as u32 + 1;
        let number = *self.numbers.entry(known).or_insert(next);
        if number == next {
            self.functions.push(known);
        }
        Some(number)
    }

    /// Where a function of that number goes on to that is called on a path. `base`: where its module's slots are.
    fn path(&mut self, from: u16, number: u32, base: u64) -> Path {
        if self.nodes.is_empty() {
            let none = Node { parent: 0, number: 0, counts: None, path: Path(0) };
            self.nodes.extend([none, Node { path: Path::new(OTHERS, 0), ..none }]);
        }
        if let Some(&known) = self.children.get(&(from, number)) {
            return known;
        }
        let (mut at, mut functions) = (from, 1);
        let path = loop {
            let node = self.nodes[usize::from(at)];
            if node.number == number {
                break node.path;
            }
            if at == 0 || at == OTHERS {
                let most = if functions > FEW { MOST_DEEP } else { MOST };
                let is_room = at != OTHERS && self.nodes.len() - self.others < most;
                break self.add(from, is_room, number, base);
            }
            (at, functions) = (node.parent, functions + 1);
        };
        self.children.insert((from, number), path);
        path
    }

    /// A new node for a function that is called on the path `from`, below [`OTHERS`] if there `is_room` for no other.
    fn add(&mut self, from: u16, is_room: bool, number: u32, base: u64) -> Path {
        let run = self.functions[number as usize - 1].run;
        let next = self.nodes.len() as u16;
        if is_room {
            let slots = run.map(|run| slots::allot(run.len));
            if slots != Some(None) {
                let slots = slots.flatten();
                let place = slots.zip(run).map_or(base, |(slot, run)| (slot - run.first) as u64);
                let counts = run.map(|run| (slots, run));
                let path = Path::new(next, place);
                self.nodes.push(Node { parent: from, number, counts, path });
                return path;
            }
        }
        // One node for each function, whoever calls it, which counts where the function does when it is on no path.
        if let Some(&known) = self.children.get(&(OTHERS, number)) {
            return known;
        }
        if self.others == MOST_OTHERS {
            return Path::new(OTHERS, base);
        }
        self.others += 1;
        let path = Path::new(next, base);
        self.nodes.push(Node { parent: OTHERS, number, counts: run.map(|run| (None, run)), path });
        self.children.insert((OTHERS, number), path);
        path
    }
}

/// The paths of a profile. `items`: by item, the number of its path; 0: none. An item may be newer than the paths, of a thread that runs
/// on, and then has nothing in the profile.
pub fn table(found: &[Found], items: Vec<u16>, counts: Vec<PathCounts>) -> Paths {
    let index = |number: u16| u32::from(number).checked_sub(1).filter(|&index| (index as usize) < found.len());
    let node = |path: &Found| PathNode { parent: index(path.parent), function: path.function };
    Paths { nodes: found.iter().map(node).collect(), items: items.into_iter().map(index).collect(), counts }
}

/// The number of the path on which a function runs for sure, where the recording has it on the path `number`: one that was
/// left without a word, by an exception or a tail call that somebody who was not instrumented took, goes on from there.
pub fn of_function(found: &[Found], number: u16, function: u32) -> u16 {
    let mut at = number;
    while let Some(path) = usize::from(at).checked_sub(1).and_then(|index| found.get(index)) {
        if path.function == Some(function) {
            return at;
        }
        at = path.parent;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_newer_than_the_paths_are_on_none() {
        let found = [Found { parent: 0, function: None, counts: None }];
        assert_eq!(table(&found, vec![0, 1, 2], Vec::new()).items, [None, Some(0), None]);
    }
}

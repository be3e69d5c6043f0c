//! Indirect calls: whom they reach. Each function has a slot for each function that it calls through a pointer, given when
//! that first happens; names are found out later.
//!
//! Concurrency: rows are read without a lock. They are written under that of the counts, their slot last, and emptied slot
//! first; no slot is ever given to another row. So who finds the same slot before and after it read a row read all of it.

use crate::quiet::Quiet;
use crate::slots::{Target, counts};
use crate::tls::Cursor;
use crate::{log, memory, process, symbols};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Who calls whom.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Address of the calling module's [`bf_abi::counting::Counting`].
    pub counting: u64,
    /// Index of the calling function there.
    pub function: u64,
    /// Address of the called one.
    pub target: u64,
}

struct Row {
    /// 1 + the number of the slot; 0: the row is empty.
    slot: AtomicU64,
    call: [AtomicU64; 3],
}

/// A power of two.
const ROWS: usize = 1 << 15;
/// Rows that are looked at from the one on that a call belongs to.
const NEAR: usize = 32;

static TABLE: [Row; ROWS] = [const { Row { slot: AtomicU64::new(0), call: [const { AtomicU64::new(0) }; 3] } }; ROWS];

/// Whether a call found no row: all further ones that are not known count nowhere.
static FULL: AtomicBool = AtomicBool::new(false);

impl Call {
    fn rows(&self) -> impl Iterator<Item = &'static Row> {
        let mixed = (self.target ^ self.counting.rotate_left(20) ^ self.function.rotate_left(40))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (mixed >> 40) as usize;
        (first..first + NEAR).map(|at| &TABLE[at % ROWS])
    }

    /// Its slot, if it has one.
    #[inline]
    fn find(&self) -> Option<usize> {
        for row in self.rows() {
            let slot = row.slot.load(Acquire);
            if slot == 0 {
                return None;
            }
            if row.call() == *self && row.slot.load(Acquire) == slot {
                return Some(slot as usize - 1);
            }
        }
        None
    }
}

impl Row {
    fn call(&self) -> Call {
        let [counting, function, target] = self.call.each_ref().map(|word| word.load(Acquire));
        Call { counting, function, target }
    }
}

/// Counts a call on the calling thread.
#[inline]
pub fn count(call: Call) {
    let slots = Cursor::mine().slots().load(Relaxed) as *mut u64;
    if slots.is_null() {
        return;
    }
    let Some(slot) = call.find().or_else(|| learn(call)) else { return };
    // SAFETY:
    // - the thread's slots are kept for good, and there are more than slots are given
    // - only this thread writes to them
    unsafe {
        let slot = slots.add(slot);
        slot.write_volatile(slot.read_volatile().wrapping_add(1));
    }
}

/// Gives a call a slot.
#[cold]
fn learn(call: Call) -> Option<usize> {
    if FULL.load(Relaxed) || process::off() {
        return None;
    }
    let _quiet = Quiet::enter();
    memory::run(|| {
        let mut counts = counts();
        if let Some(slot) = call.find() {
            return Some(slot);
        }
        let row = call.rows().find(|row| row.slot.load(Relaxed) == 0);
        let slot = row.and_then(|_| counts.target(call));
        let (Some(row), Some(slot)) = (row, slot) else {
            drop(counts);
            if !FULL.swap(true, Relaxed) {
                log::remark(
                    "more different indirect calls than there is room for: the last ones have no name".to_owned(),
                );
            }
            return None;
        };
        let words = [call.counting, call.function, call.target];
        row.call.iter().zip(words).for_each(|(row, word)| row.store(word, Release));
        row.slot.store(slot as u64 + 1, Release);
        Some(slot)
    })
    .flatten()
}

/// Finds out the names of the functions that were called so far. Reads files.
pub fn name() {
    let open: Vec<u64> =
        counts().targets.iter().filter(|target| target.name.is_none()).map(|target| target.address).collect();
    if open.is_empty() {
        return;
    }
    let names = symbols::functions(&open);
    let named = |target: &mut Target| target.name = names.get(&target.address).cloned();
    counts().targets.iter_mut().filter(|target| target.name.is_none()).for_each(named);
}

/// A library was unloaded: another may come to lie where it was.
pub fn forget() {
    let _counts = counts();
    TABLE.iter().for_each(|row| row.slot.store(0, Release));
    FULL.store(false, Relaxed);
}

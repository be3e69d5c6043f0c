//! How instrumented code counts.
//!
//! Each thread owns an array of 8-byte counts, *slots*, at [`crate::Tls::slots`]. Every counted module has a run of
//! them at the same place in every thread's array: [`Counting::base`] bytes from its start. A function finds its module's
//! run once, when it is entered, and adds to its slots as it goes:
//!
//! ```text
//! p = tls.slots; if p == null { p = bf_slots() }      // cold
//! slots = p + counting.base;
//! ... at the start of each stretch of instructions: slots[i] += 1
//! ```
//!
//! Before a call through a pointer it tells the runtime the target, which has further slots for them.
//!
//! What a slot's count stands for is said by its terms: it contributes `amount` times the count to the counter of that
//! name, at the place in the source that the term's part has. All figures of a program are such sums.

use core::ffi::c_char;

use crate::Places;

/// `extern "C" fn() -> *mut u64`: the calling thread's slots, for a thread that has none yet.
pub const SLOTS_SYMBOL: &str = "bf_slots";
/// `extern "C" fn(*const Counting, function: u32, target: *const c_void)`: the function of that index among
/// [`Counting::functions`], which has slots, is about to call what lies at `target`.
pub const CALLED_SYMBOL: &str = "bf_called";
/// `extern "C" fn(*mut Counting)`: called once per module by a constructor.
pub const REGISTER_COUNTING_SYMBOL: &str = "bf_register_counting";

/// Slots of a thread that are read. As many again lie behind them, for modules that are not registered (yet): nobody
/// reads those.
pub const MAX_SLOTS: u64 = 1 << 20;

/// The counters of one translation unit; writable data in the object file.
#[repr(C)]
#[derive(Debug)]
pub struct Counting {
    /// `size_of::<Counting>()` as the writer knew it.
    pub type_size: u32,
    /// [`crate::ABI_VERSION`].
    pub abi_version: u32,
    /// Bytes from the start of a thread's slots to those of this module. Written by the runtime; in the object file
    /// `8 * MAX_SLOTS`.
    pub base: u64,
    /// What each slot stands for.
    pub slots: *const Slot,
    /// The parts of the first slot, then those of the second, and so on.
    pub parts: *const Part,
    /// What parts stand for. Those that stand for the same share their terms.
    pub terms: *const Term,
    /// The functions that slots name by index.
    pub functions: *const Function,
    /// NUL-terminated strings, one after the other; the tables name each by the offset of its first byte.
    pub strings: *const c_char,
    /// What parts name sites of.
    pub places: *const Places,
    /// Number of `slots`, at most [`MAX_SLOTS`].
    pub n_slots: u32,
    /// Number of `parts`.
    pub n_parts: u32,
    /// Number of `terms`.
    pub n_terms: u32,
    /// Number of `functions`.
    pub n_functions: u32,
    /// Bytes of `strings`.
    pub n_strings: u32,
    /// [`Counting::ONLY`] and [`Counting::EVERY_BLOCK`], or 0.
    pub flags: u32,
}

impl Counting {
    /// Flag: the module records no accesses.
    pub const ONLY: u32 = 1;
    /// Flag: what each block did is wanted.
    pub const EVERY_BLOCK: u32 = 2;
}

/// One slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Index into the functions.
    pub function: u32,
    /// Number of the basic block in its function, from 0, as the optimiser left it; of several that are merged the same.
    pub block: u32,
    /// Line of the function that the block begins on, of the call where something was inlined; 0 if unknown.
    pub line: u32,
    /// Number of its parts.
    pub n_parts: u32,
}

/// What of a slot is at one place in the source.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// 1-based index into the sites of [`Counting::places`], which have no columns here.
    pub site: u32,
    /// Index of the first of its terms.
    pub first_term: u32,
    /// Number of its terms.
    pub n_terms: u32,
}

/// What a slot's count contributes to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// String: name of the counter.
    pub counter: u32,
    /// How much each count adds to it.
    pub amount: i32,
}

/// A function of the compiled code.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// String: linkage name.
    pub name: u32,
    /// String: path of the source file; "" if unknown.
    pub file: u32,
    /// Line that it begins on; 0 if unknown.
    pub line: u32,
}

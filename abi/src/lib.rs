//! The contract between instrumented code and the runtime.
//!
//! Comes in: nothing. Goes out: the layout of the static tables that the pass writes into an object file and that the
//! runtime reads, and the names of the symbols both sides use. It must never hold code that runs: the pass emits these
//! layouts as LLVM constants, the runtime maps them as `repr(C)`, and this crate is the one place where they are said.
//!
//! # The recording
//!
//! Each thread owns a buffer of 8-byte words and a cursor into it, both reached through the initial-exec thread-local
//! [`Tls`] named [`TLS_SYMBOL`]. A basic block is cut into *segments* at every call that could run instrumented code.
//! At its start a segment reserves `Segment::words` words and advances the cursor:
//!
//! ```text
//! c = tls.cursor; n = c + 8 * words;
//! if n > tls.limit { c = bf_flush(words); n = c + 8 * words }      // cold
//! tls.cursor = n;
//! c[0] = header;
//! ... before each access: c[entry.word] = address - entry.offset (and length, for the entries that carry one)
//! ```
//!
//! The header is the address of the segment's description plus `words`, or plus 0 if that is not below [`SEGMENT_ALIGN`]:
//! a reader finds the next header without a look at the description.
//!
//! Accesses whose addresses differ by a constant share a word, which is stored before the first of them.
//!
//! A loop without branches, whose number of iterations is known before it starts and whose accesses all move by the same
//! number of bytes from one iteration to the next, is recorded once, before it starts, by a segment of kind
//! [`Segment::STREAM`]; and if it is left in its middle, by one more for what its last iteration does until then:
//!
//! ```text
//! c[0] = header; c[1] = number of iterations;
//! ... for each entry: c[entry.word] = address in the first iteration - entry.offset; c[entry.word + 1] = stride, bytes
//! ```
//!
//! Its accesses are: all entries in order with the addresses of the first iteration, all entries with those of the
//! second, and so on. Address arithmetic wraps around at 2^64.
//!
//! A call that allocates memory is followed by a segment of kind [`Segment::ALLOCATION`], one that frees some is preceded by
//! one of kind [`Segment::RELEASE`]. What a function allocates for its caller is recorded with a segment of the caller's, whose header
//! [`Tls::allocation`] has meanwhile. One of kind [`Segment::PATH`] says who the callers are (see [`paths`]).
//!
//! The runtime hands out zeroed buffers, so an address word that is still zero when the buffer is read stands for
//! accesses that did not happen: a fault, a `longjmp` out of a signal handler, or an inactive lane of a masked operation.
//! A zero where a header is expected is skipped.
#![forbid(unsafe_code)]

pub mod counting;
pub mod fortran;
pub mod paths;

use core::ffi::c_char;

/// Version of every layout on this page; the runtime refuses (ignores, with a line in the log) modules of another one.
pub const ABI_VERSION: u32 = 9;

/// Most words, header included, that one segment may reserve; the pass splits longer segments.
pub const MAX_SEGMENT_WORDS: u32 = 1024;

/// Alignment of every [`Segment`], bytes: a header's bits below it are not part of the address.
pub const SEGMENT_ALIGN: u64 = 32;

/// Thread-local [`Tls`], initial-exec.
pub const TLS_SYMBOL: &str = "bf_tls";
/// `extern "C" fn(words: u64) -> *mut u64`: empties the thread's buffer; returns room for at least `words` zeroed words
/// and leaves `Tls::limit` valid for it. The caller stores the new cursor.
pub const FLUSH_SYMBOL: &str = "bf_flush";
/// `extern "C" fn()`: called where what the thread did becomes visible to others, before they can know. It may empty the
/// thread's buffer, but does not move the cursor.
pub const SYNC_SYMBOL: &str = "bf_sync";
/// The same where it waits for nobody, and may do so often: at atomic operations.
pub const RELEASE_SYMBOL: &str = "bf_release";
/// The same where it may be for nobody: at volatile stores.
pub const VOLATILE_SYMBOL: &str = "bf_volatile";
/// `extern "C" fn(*const c_void)`: called by the thread that holds the lock at this address, when it has just taken it and
/// before it lets it go.
pub const LOCK_SYMBOL: &str = "bf_lock";
/// The same for a lock that several threads may hold at a time: called by a thread that has just taken it so.
pub const SHARE_SYMBOL: &str = "bf_share";
/// The same: called by a thread before it lets such a lock go, however it held it.
pub const UNSHARE_SYMBOL: &str = "bf_unshare";
/// `extern "C" fn(*const c_void) -> u64`: how many bytes the object has that a Fortran descriptor describes, as the compiler's
/// `ISO_Fortran_binding.h` has it.
pub const FORTRAN_BYTES_SYMBOL: &str = "bf_fortran_bytes";
/// `extern "C" fn(*const Module)`: called once per module by a constructor.
pub const REGISTER_SYMBOL: &str = "bf_register_module";
/// Module flag that marks an instrumented module, so that nothing is instrumented twice.
pub const MODULE_FLAG: &str = "bf.instrumented";

/// Per-thread recording state. Cursor and limit are byte addresses; both zero before the thread's first flush.
#[repr(C)]
#[derive(Debug)]
pub struct Tls {
    /// Where the next segment goes.
    pub cursor: u64,
    /// One past the last byte of the buffer.
    pub limit: u64,
    /// For the runtime's own use; zero at thread start.
    pub reserved: [u64; 5],
    /// Address of the thread's slots (see [`counting`]); zero before it has any.
    pub slots: u64,
    /// The call path that the thread is on (see [`paths`]).
    pub path: u64,
    /// That of the function which made the last call that may have become a jump.
    pub tail_path: u64,
    /// Whom it called.
    pub tail_callee: u64,
    /// Header of the segment that functions which allocate for their callers record that with; zero: their own.
    pub allocation: u64,
}

/// Static description of one segment, writable data in the object file; `n_entries` of type [`Entry`] follow it.
#[repr(C)]
#[derive(Debug)]
pub struct Segment {
    /// Written by the runtime at first sight; zero in the object file.
    pub id: u32,
    /// Number of entries that follow the struct.
    pub n_entries: u32,
    /// Words the segment reserves, header included. At most [`MAX_SEGMENT_WORDS`].
    pub words: u32,
    /// 1-based index into the module's callee names: the segment ends in a direct call of that function, which this
    /// module only declares. 0: it does not.
    pub callee: u32,
    /// The module it belongs to.
    pub module: *const Module,
    /// [`Segment::ONCE`], [`Segment::STREAM`], [`Segment::ALLOCATION`], [`Segment::RELEASE`] or [`Segment::PATH`].
    pub kind: u32,
    /// 1-based index into the sites of the module's [`Places`], of the instruction that the segment begins with. 0: unknown.
    pub site: u32,
}

impl Segment {
    /// What to add to its address for a header.
    #[must_use]
    pub const fn mark(words: u32) -> u64 {
        if (words as u64) < SEGMENT_ALIGN { words as u64 } else { 0 }
    }

    /// The address that a header holds, and the words if it tells them.
    #[must_use]
    #[inline]
    pub const fn of_header(header: u64) -> (u64, Option<u32>) {
        let words = header % SEGMENT_ALIGN;
        (header - words, if words == 0 { None } else { Some(words as u32) })
    }

    /// Its entries happen once.
    pub const ONCE: u32 = 0;
    /// Its entries happen once in each iteration of a loop; they are [`Op::Load`] and [`Op::Store`] only.
    pub const STREAM: u32 = 1;
    /// No entries. Word 1 is the address of memory that was just allocated, word 2 its length in bytes.
    pub const ALLOCATION: u32 = 2;
    /// No entries. Word 1 is the address of memory that is about to be freed.
    pub const RELEASE: u32 = 3;
    /// No entries. Word 1 is 1 + the [`paths::Path`] that the thread is on from here.
    pub const PATH: u32 = 4;
    /// Words of an allocation.
    pub const ALLOCATION_WORDS: u32 = 3;
    /// Where a stream's number of iterations stands.
    pub const COUNT_WORD: u32 = 1;
}

/// One access of a segment, or one that makes several.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is: see [`Op`].
    pub what: u32,
    /// The first of its words; the header is word 0.
    pub word: u32,
    /// Added to the address word. Zero for all but [`Op::Load`] and [`Op::Store`].
    pub offset: i32,
    /// 1-based index into the sites of the module's [`Places`]. 0: unknown.
    pub site: u32,
}

/// Static description of one translation unit.
#[repr(C)]
#[derive(Debug)]
pub struct Module {
    /// `size_of::<Module>()` as the writer knew it; a reader must not look past it.
    pub type_size: u32,
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// Source file name as the compiler was given it, NUL-terminated.
    pub name: *const c_char,
    /// NUL-terminated linkage names of the functions instrumented in this module, one after the other.
    pub functions: *const c_char,
    /// NUL-terminated linkage names of the functions it calls directly but only declares, one after the other.
    pub callees: *const c_char,
    /// Number of names in `functions`.
    pub n_functions: u32,
    /// Number of names in `callees`.
    pub n_callees: u32,
    /// Line sizes asked for by `-bf-line-size`, bytes; null if none was given.
    pub line_sizes: *const u32,
    /// Number of `line_sizes`.
    pub n_line_sizes: u32,
    /// `-bf-max-set-bits`, or 0 if not given.
    pub max_set_bits: u32,
    /// `-bf-max-ways`, or 0 if not given.
    pub max_ways: u32,
    /// What the compiler was asked to have the runtime do: [`Module::BY_FUNCTION`] and the other flags.
    pub flags: u32,
    /// Where in the source its segments come from.
    pub places: *const Places,
    /// Zero.
    pub reserved: [u32; 4],
}

impl Module {
    /// Flag: `-bf-by-func`, histograms by place in the source.
    pub const BY_FUNCTION: u32 = 1;
    /// Flag: `-bf-data-structs`, histograms by object in memory too.
    pub const BY_OBJECT: u32 = 2;
    /// Flag: `-bf-unique-bytes`.
    pub const UNIQUE_BYTES: u32 = 1 << 4;
    /// Flag: `-bf-mem-footprint`.
    pub const FOOTPRINT: u32 = 1 << 5;
    /// Flag: `-bf-strides`.
    pub const STRIDES: u32 = 1 << 6;
    /// Flag: `-bf-call-stack`.
    pub const CALL_PATHS: u32 = 1 << 8;
}

/// Where in the source the segments of a module come from: constant tables that name each other by index.
#[repr(C)]
#[derive(Debug)]
pub struct Places {
    /// NUL-terminated strings, one after the other; the tables name each by the offset of its first byte. The first is "".
    pub strings: *const c_char,
    /// See [`Function`].
    pub functions: *const Function,
    /// See [`Site`].
    pub sites: *const Site,
    /// See [`Loop`].
    pub loops: *const Loop,
    /// Bytes of `strings`.
    pub n_strings: u32,
    /// Number of `functions`.
    pub n_functions: u32,
    /// Number of `sites`.
    pub n_sites: u32,
    /// Number of `loops`.
    pub n_loops: u32,
}

/// A function of the source, instrumented or inlined into one that is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// String: linkage name.
    pub name: u32,
    /// String: the name as people write it.
    pub display: u32,
    /// String: path of the source file; "" if unknown.
    pub file: u32,
    /// Line that it begins on; 0 if unknown.
    pub line: u32,
}

/// A place in the source that accesses come from.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Index into the functions: the one that the place is written in.
    pub function: u32,
    /// String: path of the source file; "" if unknown.
    pub file: u32,
    /// 0 if unknown.
    pub line: u32,
    /// 0 if unknown.
    pub column: u32,
    /// 1-based index into the sites: the call that was replaced by the function's body. 0: the function was not inlined.
    pub inlined_at: u32,
    /// 1-based index into the loops: the innermost one around the instruction. 0: it is in none.
    pub innermost: u32,
    /// 1 + the number of the basic block that the instruction is in (see [`counting::Slot::block`]). 0: not told, as without
    /// `-bf-every-bb` and for calls that something was inlined at.
    pub block: u32,
}

/// A loop of the compiled code.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// Index into the functions: the one that the loop is written in.
    pub function: u32,
    /// String: path of the source file; "" if unknown.
    pub file: u32,
    /// Line that it begins on; 0 if unknown.
    pub line: u32,
    /// 1 for an outermost one.
    pub depth: u32,
    /// 1-based index into the loops: the one around it. 0: none.
    pub parent: u32,
}

/// What one entry of a segment stands for: bits 31..28 of [`Entry::what`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// One word, the address; size in the low bits.
    Load = 0,
    /// One word, the address; size in the low bits. Atomic read-modify-writes too.
    Store = 1,
    /// Two words: address, length in bytes. Low bits zero.
    LoadRange = 2,
    /// Two words: address, length in bytes (memset). Low bits zero.
    StoreRange = 3,
    /// Three words: destination, source, length in bytes (memcpy, memmove): cut into pieces of 4096 bytes from the
    /// start, each a load range then a store range. Low bits zero.
    Copy = 4,
}

impl Op {
    /// Shift of the operation within an entry.
    pub const SHIFT: u32 = 28;
    /// Largest size, in bytes, that fits in [`Entry::what`].
    pub const MAX_SIZE: u32 = (1 << Self::SHIFT) - 1;

    /// [`Entry::what`] for this operation on `size` bytes.
    #[must_use]
    pub const fn what(self, size: u32) -> u32 {
        ((self as u32) << Self::SHIFT) | size
    }

    /// Words that an entry of this operation has in the buffer, outside of streams.
    #[must_use]
    pub const fn words(self) -> u32 {
        match self {
            Self::Load | Self::Store => 1,
            Self::LoadRange | Self::StoreRange => 2,
            Self::Copy => 3,
        }
    }

    /// The operation that [`Entry::what`] names; `None` for a value no version of this crate wrote.
    #[must_use]
    pub const fn of(what: u32) -> Option<Self> {
        Some(match what >> Self::SHIFT {
            0 => Self::Load,
            1 => Self::Store,
            2 => Self::LoadRange,
            3 => Self::StoreRange,
            4 => Self::Copy,
            _ => return None,
        })
    }
}

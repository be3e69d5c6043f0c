//! How instrumented code tells on which call path it is: only if that was asked for.
//!
//! A *path* is a number for a chain of functions that called each other, and where its counts are: see [`Path`]. The thread
//! is on the one in [`crate::Tls::path`]. A function goes on to its own when it is entered, and back when it returns:
//!
//! ```text
//! caller = tls.path; own = bf_enter(&function)           // stores it in tls.path
//! ... a segment of kind Segment::PATH with own + 1
//! ... before each call that may run instrumented code: tls.path = own
//! ... before a return: tls.path = caller; a segment of kind Segment::PATH with caller + 1
//! ```
//!
//! So whoever calls says on which path it is, whatever way the last call came back. Where control comes back other than by
//! a return (a landing pad, `setjmp`) there is another segment with `own + 1`.
//!
//! A call that may become a jump (a tail call) comes after all of its function. If it reaches instrumented code, the function
//! is on the path all the same; if not, it is as if it had returned:
//!
//! ```text
//! tls.path = caller; tls.tail_path = own; tls.tail_callee = address of the callee
//! ```

use crate::Module;
use crate::counting::Counting;
use core::ffi::c_void;

/// `extern "C" fn(*mut Function) -> u64`: the calling thread enters this function; the [`Path`] it is on then.
pub const ENTER_SYMBOL: &str = "bf_enter";

/// A function that tells that it is entered; writable data in the object file.
#[repr(C)]
#[derive(Debug)]
pub struct Function {
    /// Written by the runtime at first sight; zero in the object file.
    pub id: u32,
    /// Index into the functions of the module's [`crate::Places`].
    pub function: u32,
    /// Index of its first slot among [`Counting::slots`].
    pub first: u32,
    /// Number of its slots.
    pub n_slots: u32,
    /// The module it belongs to.
    pub module: *const Module,
    /// Its module's counters; null if it is not counted.
    pub counting: *const Counting,
    /// Where its code begins.
    pub address: *const c_void,
}

/// A path as a word: a number in the low bits, 0 if there is none, and above it an index into the thread's slots that, the
/// first slot of the running function in its module added to it, is where that one lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path(pub u64);

impl Path {
    /// Bits of the number.
    pub const BITS: u32 = 16;

    /// Of a number and an index of slots.
    #[must_use]
    pub const fn new(number: u16, slots: u64) -> Self {
        Self(slots << Self::BITS | number as u64)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0 as u16
    }

    /// The index of slots.
    #[must_use]
    pub const fn slots(self) -> u64 {
        self.0 >> Self::BITS
    }
}

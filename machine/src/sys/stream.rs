//! Kernels that go through memory in order: each reads, writes or copies every byte of a range a known number of times
//! with instructions of one width.

use super::pages::Buffer;
use serde::Serialize;

/// Bytes that one turn of a kernel's loop covers; ranges are multiples of it.
pub const STEP: usize = 512;

/// What is done to each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// One load.
    Read,
    /// One store, of the range's own address.
    Write,
    /// One load, and one store to another range.
    Copy,
    /// One store past the caches.
    WriteNt,
    /// One load, and one store to another range past the caches.
    CopyNt,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Copy, Self::WriteNt, Self::CopyNt];

    /// As commands and files name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::WriteNt => "write-nt",
            Self::CopyNt => "copy-nt",
        }
    }

    /// Whether it goes from one range to another.
    #[must_use]
    pub fn copies(self) -> bool {
        matches!(self, Self::Copy | Self::CopyNt)
    }

    /// Loads for each part of the range.
    #[must_use]
    pub fn loads(self) -> u64 {
        u64::from(matches!(self, Self::Read | Self::Copy | Self::CopyNt))
    }

    /// Stores for each part of the range.
    #[must_use]
    pub fn stores(self) -> u64 {
        u64::from(self != Self::Read)
    }
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it does.
    pub operation: Operation,
    /// Bits of an instruction's operand: 64, 128, 256 or 512.
    pub width: u32,
}

/// Part of a buffer that a kernel goes through.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    buffer: &'a Buffer,
    from: usize,
    bytes: usize,
}

impl<'a> Range<'a> {
    /// `bytes` bytes of `buffer` from `from` on.
    ///
    /// # Panics
    /// They are not all in it, or not a positive multiple of [`STEP`], or not aligned to it.
    #[must_use]
    pub fn new(buffer: &'a Buffer, from: usize, bytes: usize) -> Self {
        assert!(bytes > 0 && bytes.is_multiple_of(STEP) && from.is_multiple_of(STEP), "range of {bytes} from {from}");
        assert!(from.checked_add(bytes).is_some_and(|end| end <= buffer.bytes()), "range past the end of the buffer");
        Self { buffer, from, bytes }
    }

    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn address(&self) -> usize {
        self.buffer.address() + self.from
    }
}

impl Kernel {
    /// Every kernel that this processor can run.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |operation| WIDTHS.into_iter().map(move |width| Self { operation, width });
        Operation::ALL.into_iter().flat_map(of).filter(Kernel::runs_here).collect()
    }

    /// Loads and stores that [`Kernel::run`] makes for these arguments, by construction.
    #[must_use]
    pub fn accesses(&self, bytes: usize, passes: u64) -> (u64, u64) {
        let parts = bytes as u64 * 8 / u64::from(self.width) * passes;
        (parts * self.operation.loads(), parts * self.operation.stores())
    }

    /// Goes through `from` (or from it to `to`, if it copies) `passes` times. Nothing but the loads and stores of
    /// [`Kernel::accesses`] touches memory between the first and the last of them.
    ///
    /// # Panics
    /// The processor has no such instructions, or `to` is of another size, or missing, or there without need.
    pub fn run(&self, from: Range<'_>, to: Option<Range<'_>>, passes: u64) {
        assert!(self.runs_here(), "no {} bit kernels here", self.width);
        assert_eq!(to.is_some(), self.operation.copies(), "a second range is for copies");
        let target = to.unwrap_or(from);
        assert_eq!(from.bytes, target.bytes, "ranges of one size");
        // SAFETY:
        // - both ranges lie within buffers that the borrows keep alive, readable and writable;
        // - they are aligned to more than any operand, and multiples of what a turn covers;
        // - nothing in Rust refers to the contents of buffers;
        // - the instructions exist here, checked above.
        unsafe { kernels::run(*self, from.address(), target.address(), from.bytes, passes.max(1)) }
    }

    fn runs_here(&self) -> bool {
        kernels::supported(self.width)
    }
}

/// Widths in bits, narrowest first.
pub const WIDTHS: [u32; 4] = [64, 128, 256, 512];

/// Whether this processor has instructions of this many bits.
#[must_use]
pub fn supported(width: u32) -> bool {
    kernels::supported(width)
}

/// The widest of [`WIDTHS`] here.
#[must_use]
pub fn widest() -> u32 {
    WIDTHS.into_iter().rev().find(|width| kernels::supported(*width)).unwrap_or(64)
}

#[cfg(target_arch = "x86_64")]
#[path = "stream_x86_64.rs"]
mod kernels;

#[cfg(target_arch = "aarch64")]
#[path = "stream_aarch64.rs"]
mod kernels;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pages::Pages;

    #[test]
    fn copies_arrive_whole_and_nothing_else_changes() {
        let buffer = Buffer::new(3 * 4096, Pages::Base).unwrap();
        for kernel in Kernel::all().into_iter().filter(|kernel| kernel.operation.copies()) {
            for at in (0..buffer.bytes()).step_by(8) {
                buffer.put(at, if at < 4096 { at as u64 + 1 } else { 0 });
            }
            kernel.run(Range::new(&buffer, 0, 4096), Some(Range::new(&buffer, 4096, 4096)), 2);
            for at in (0..buffer.bytes()).step_by(8) {
                let want = if at < 8192 { at as u64 % 4096 + 1 } else { 0 };
                assert_eq!(buffer.get(at), want, "{kernel:?} at {at}");
            }
        }
    }

    #[test]
    fn writes_reach_every_word_of_the_range_and_no_other() {
        let buffer = Buffer::new(3 * 4096, Pages::Base).unwrap();
        for kernel in Kernel::all().into_iter().filter(|kernel| kernel.operation.stores() > 0) {
            if kernel.operation.copies() {
                continue;
            }
            for at in (0..buffer.bytes()).step_by(8) {
                buffer.put(at, 7);
            }
            kernel.run(Range::new(&buffer, 4096, 1024), None, 1);
            for at in (0..buffer.bytes()).step_by(8) {
                let inside = (4096..4096 + 1024).contains(&at);
                let written = (buffer.address() + 4096) as u64;
                assert_eq!(buffer.get(at), if inside { written } else { 7 }, "{kernel:?} at {at}");
            }
        }
    }

    #[test]
    fn counts() {
        let kernel = |operation, width| Kernel { operation, width };
        assert_eq!(kernel(Operation::Read, 512).accesses(4096, 3), (192, 0));
        assert_eq!(kernel(Operation::Copy, 64).accesses(512, 1), (64, 64));
        assert_eq!(kernel(Operation::WriteNt, 128).accesses(512, 2), (0, 64));
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn ranges_stay_inside() {
        let buffer = Buffer::new(4096, Pages::Base).unwrap();
        let _ = Range::new(&buffer, 4096, 512);
    }
}

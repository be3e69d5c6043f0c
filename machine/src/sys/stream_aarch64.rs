//! The loops of [`super::Kernel`] for aarch64: x0 goes from x1 to x2, x3 is the same place in the second range.

use super::{Kernel, Operation};
use std::arch::asm;

pub fn supported(width: u32) -> bool {
    matches!(width, 64 | 128)
}

/// What a loop works on.
struct Span {
    from: usize,
    to: usize,
    end: usize,
    passes: u64,
}

/// A loop whose body is repeated until it has covered 512 bytes, moving the pointers itself.
macro_rules! body {
    ($span:ident, $times:literal, $($line:literal)*) => {
        asm!(
            "dup v0.2d, x1", "mov x5, x1",
            "3:", "mov x0, x1", "mov x3, x6",
            "2:",
            concat!(".rept ", $times), $($line,)* ".endr",
            "cmp x0, x2", "b.lo 2b",
            "subs x4, x4, #1", "b.ne 3b",
            "dsb ishst",
            in("x1") $span.from, in("x6") $span.to, in("x2") $span.end, inout("x4") $span.passes => _,
            out("x0") _, out("x3") _, out("x5") _, out("x7") _, out("v0") _, out("v1") _, options(nostack)
        )
    };
}

/// # Safety
/// As for the kernels of other architectures: both ranges are memory that Rust does not refer to, readable, writable and
/// aligned, `bytes` is a positive multiple of [`super::STEP`], and `passes` is not 0.
pub unsafe fn run(kernel: Kernel, from: usize, to: usize, bytes: usize, passes: u64) {
    use Operation::{Copy, CopyNt, Read, Write, WriteNt};
    let span = Span { from, to, end: from + bytes, passes };
    // SAFETY:
    // - the loops read and write only the two ranges, by the caller's promise;
    // - every register that changes is an operand.
    unsafe {
        match (kernel.operation, kernel.width) {
            (Read, 64) => body!(span, "64", "ldr x5, [x0], #8"),
            (Read, _) => body!(span, "32", "ldr q0, [x0], #16"),
            (Write, 64) => body!(span, "64", "str x5, [x0], #8"),
            (Write, _) => body!(span, "32", "str q0, [x0], #16"),
            (Copy, 64) => body!(span, "64", "ldr x5, [x0], #8" "str x5, [x3], #8"),
            (Copy, _) => body!(span, "32", "ldr q0, [x0], #16" "str q0, [x3], #16"),
            // Non-temporal stores exist in pairs only; a pair is counted as the two stores it is.
            (WriteNt, 64) => body!(span, "32", "stnp x5, x5, [x0]" "add x0, x0, #16"),
            (WriteNt, _) => body!(span, "16", "stnp q0, q0, [x0]" "add x0, x0, #32"),
            (CopyNt, 64) => {
                body!(span, "32", "ldr x5, [x0]" "ldr x7, [x0, #8]" "stnp x5, x7, [x3]" "add x0, x0, #16" "add x3, x3, #16")
            }
            (CopyNt, _) => {
                body!(span, "16", "ldr q0, [x0]" "ldr q1, [x0, #16]" "stnp q0, q1, [x3]" "add x0, x0, #32" "add x3, x3, #32")
            }
        }
    }
}

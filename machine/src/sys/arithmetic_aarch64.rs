//! The loops of [`super::Kernel`] for aarch64, where arithmetic has no operands in memory.

use super::{Instruction, Kernel};
use std::arch::asm;

/// Whether there is such a kernel.
pub fn supported(kernel: Kernel) -> bool {
    !kernel.memory && (kernel.width == 128 || kernel.instruction == Instruction::AddInteger)
}

/// A loop of twelve instructions on registers 0 to 11, `\\i` in the line; register 12 holds zero.
macro_rules! vector {
    ($turns:ident, $line:literal) => {
        asm!(
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12", "movi v\\i\\().2d, #0", ".endr",
            "2:",
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11", $line, ".endr",
            "subs {turns}, {turns}, #1", "b.ne 2b",
            turns = inout(reg) $turns => _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, options(nostack, nomem)
        )
    };
}

/// # Safety
/// The kernel is [`supported`], and `turns` is not 0.
pub unsafe fn run(kernel: Kernel, _: usize, turns: u64) {
    // SAFETY: the loops change only registers named as operands.
    unsafe {
        match (kernel.instruction, kernel.width) {
            (Instruction::AddInteger, 64) => asm!(
                "2:",
                ".irp r,x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11", "add \\r, \\r, xzr", ".endr",
                "subs {turns}, {turns}, #1", "b.ne 2b",
                turns = inout(reg) turns => _, out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _,
                out("x5") _, out("x6") _, out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _,
                options(nostack, nomem)
            ),
            (Instruction::AddInteger, _) => vector!(turns, "add v\\i\\().2d, v\\i\\().2d, v12.2d"),
            (Instruction::Add, _) => vector!(turns, "fadd v\\i\\().2d, v\\i\\().2d, v12.2d"),
            (Instruction::Multiply, _) => vector!(turns, "fmul v\\i\\().2d, v\\i\\().2d, v12.2d"),
            (Instruction::MultiplyAdd, _) => vector!(turns, "fmla v\\i\\().2d, v12.2d, v12.2d"),
        }
    }
}

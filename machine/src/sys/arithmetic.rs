//! Kernels of independent arithmetic instructions with operands in registers or in the nearest cache.

use super::{
    pages::Buffer,
    stream::{WIDTHS, supported},
};
use serde::Serialize;
use std::arch::{asm, is_x86_feature_detected};

/// An instruction of two operands and a result, on 64 bit elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instruction {
    /// Integer addition.
    AddInteger,
    /// Floating-point addition.
    Add,
    /// Floating-point multiplication.
    Multiply,
    /// Fused multiplication and addition.
    MultiplyAdd,
}

impl Instruction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::AddInteger, Self::Add, Self::Multiply, Self::MultiplyAdd];

    /// As commands and files name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AddInteger => "add-integer",
            Self::Add => "add",
            Self::Multiply => "multiply",
            Self::MultiplyAdd => "multiply-add",
        }
    }

    /// Floating-point operations on an element.
    #[must_use]
    pub fn operations(self) -> u64 {
        match self {
            Self::AddInteger => 0,
            Self::Add | Self::Multiply => 1,
            Self::MultiplyAdd => 2,
        }
    }
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it does.
    pub instruction: Instruction,
    /// Bits of an operand.
    pub width: u32,
    /// Whether one operand is loaded from memory.
    pub memory: bool,
}

/// Instructions in a turn of the loop, no two of which depend on each other.
pub const UNROLLED: u64 = 12;
/// Bytes that kernels with an operand in memory load from.
pub const OPERANDS: usize = UNROLLED as usize * 64;

impl Kernel {
    /// Every kernel that this processor can run.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut kernels = Vec::new();
        for instruction in Instruction::ALL {
            for width in WIDTHS {
                kernels.extend([false, true].map(|memory| Self { instruction, width, memory }));
            }
        }
        kernels.retain(Self::runs_here);
        kernels
    }

    fn runs_here(&self) -> bool {
        let scalar = self.width == 64;
        match self.instruction {
            Instruction::AddInteger => supported(self.width),
            Instruction::Add | Instruction::Multiply => !scalar && supported(self.width),
            Instruction::MultiplyAdd => !scalar && supported(self.width) && is_x86_feature_detected!("fma"),
        }
    }

    /// Runs it `turns` times [`UNROLLED`] instructions, with zeroes as operands.
    ///
    /// # Panics
    /// The processor has no such instruction, or `operands` is shorter than [`OPERANDS`].
    pub fn run(&self, operands: &Buffer, turns: u64) {
        assert!(self.runs_here(), "no {self:?} here");
        assert!(operands.bytes() >= OPERANDS, "operands");
        // SAFETY:
        // - the instruction exists here, checked above;
        // - loads are within `operands`, which is aligned to a page.
        unsafe { run(*self, operands.address(), turns.max(1)) }
    }
}

/// A loop of twelve instructions on registers 0 to 11, `\i` in the line; register 12 holds zero.
macro_rules! vector {
    ($at:ident, $turns:ident, $clear:literal, $line:literal, $finish:literal) => {
        asm!(
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12", $clear, ".endr",
            "2:",
            ".irp i,0,1,2,3,4,5,6,7,8,9,10,11", $line, ".endr",
            "dec rcx", "jnz 2b",
            $finish,
            in("rsi") $at, inout("rcx") $turns => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, options(nostack)
        )
    };
}

/// A loop of twelve instructions on six general registers, `\i` in the line; each is used twice, which is often enough apart.
macro_rules! scalar {
    ($at:ident, $turns:ident, $line:literal) => {
        asm!(
            "xor edi, edi",
            "2:",
            ".irp i,rax,rdx,r8,r9,r10,r11,rax,rdx,r8,r9,r10,r11", $line, ".endr",
            "dec rcx", "jnz 2b",
            in("rsi") $at, inout("rcx") $turns => _, out("rdi") _, out("rax") _, out("rdx") _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _, options(nostack)
        )
    };
}

/// # Safety
/// The processor has the instruction, [`OPERANDS`] bytes from `at` are readable and aligned to 64, and `turns` is not 0.
unsafe fn run(kernel: Kernel, at: usize, turns: u64) {
    use Instruction::{Add, AddInteger, Multiply, MultiplyAdd};
    macro_rules! sse {
        ($line:literal) => {
            vector!(at, turns, "pxor xmm\\i, xmm\\i", $line, "")
        };
    }
    macro_rules! avx {
        ($line:literal) => {
            vector!(at, turns, "vpxor xmm\\i, xmm\\i, xmm\\i", $line, "vzeroupper")
        };
    }
    // SAFETY: the loops change only registers named as operands, and load only from `at` on, by the caller's promise.
    unsafe {
        match (kernel.instruction, kernel.width, kernel.memory) {
            (AddInteger, 64, false) => scalar!(at, turns, "add \\i, rdi"),
            (AddInteger, 64, true) => scalar!(at, turns, "add \\i, [rsi]"),
            (AddInteger, 128, false) => sse!("paddq xmm\\i, xmm12"),
            (AddInteger, 128, true) => sse!("paddq xmm\\i, [rsi+64*\\i]"),
            (AddInteger, 256, false) => avx!("vpaddq ymm\\i, ymm\\i, ymm12"),
            (AddInteger, 256, true) => avx!("vpaddq ymm\\i, ymm\\i, ymmword ptr [rsi+64*\\i]"),
            (AddInteger, 512, false) => avx!("vpaddq zmm\\i, zmm\\i, zmm12"),
            (AddInteger, 512, true) => avx!("vpaddq zmm\\i, zmm\\i, zmmword ptr [rsi+64*\\i]"),
            (Add, 128, false) => sse!("addpd xmm\\i, xmm12"),
            (Add, 128, true) => sse!("addpd xmm\\i, [rsi+64*\\i]"),
            (Add, 256, false) => avx!("vaddpd ymm\\i, ymm\\i, ymm12"),
            (Add, 256, true) => avx!("vaddpd ymm\\i, ymm\\i, ymmword ptr [rsi+64*\\i]"),
            (Add, 512, false) => avx!("vaddpd zmm\\i, zmm\\i, zmm12"),
            (Add, 512, true) => avx!("vaddpd zmm\\i, zmm\\i, zmmword ptr [rsi+64*\\i]"),
            (Multiply, 128, false) => sse!("mulpd xmm\\i, xmm12"),
            (Multiply, 128, true) => sse!("mulpd xmm\\i, [rsi+64*\\i]"),
            (Multiply, 256, false) => avx!("vmulpd ymm\\i, ymm\\i, ymm12"),
            (Multiply, 256, true) => avx!("vmulpd ymm\\i, ymm\\i, ymmword ptr [rsi+64*\\i]"),
            (Multiply, 512, false) => avx!("vmulpd zmm\\i, zmm\\i, zmm12"),
            (Multiply, 512, true) => avx!("vmulpd zmm\\i, zmm\\i, zmmword ptr [rsi+64*\\i]"),
            (MultiplyAdd, 128, false) => avx!("vfmadd231pd xmm\\i, xmm\\i, xmm12"),
            (MultiplyAdd, 128, true) => avx!("vfmadd231pd xmm\\i, xmm\\i, xmmword ptr [rsi+64*\\i]"),
            (MultiplyAdd, 256, false) => avx!("vfmadd231pd ymm\\i, ymm\\i, ymm12"),
            (MultiplyAdd, 256, true) => avx!("vfmadd231pd ymm\\i, ymm\\i, ymmword ptr [rsi+64*\\i]"),
            (MultiplyAdd, 512, false) => avx!("vfmadd231pd zmm\\i, zmm\\i, zmm12"),
            (MultiplyAdd, 512, true) => avx!("vfmadd231pd zmm\\i, zmm\\i, zmmword ptr [rsi+64*\\i]"),
            _ => unreachable!("no such kernel: {kernel:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pages::Pages;

    #[test]
    fn every_kernel_runs() {
        let operands = Buffer::new(OPERANDS, Pages::Base).unwrap();
        let kernels = Kernel::all();
        assert!(kernels.len() >= 8);
        for kernel in kernels {
            kernel.run(&operands, 3);
        }
    }
}

//! The loops of [`super::Kernel`] for x86-64.

use super::{Instruction, Kernel};
use std::arch::{asm, is_x86_feature_detected};

/// Whether there is such a kernel, and the processor has more than the width of its instruction.
pub fn supported(kernel: Kernel) -> bool {
    match kernel.instruction {
        Instruction::AddInteger => true,
        Instruction::Add | Instruction::Multiply => kernel.width > 64,
        Instruction::MultiplyAdd => kernel.width > 64 && is_x86_feature_detected!("fma"),
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
/// The processor has the instruction, [`super::OPERANDS`] bytes from `at` are readable and aligned to 64, and `turns` is not 0.
pub unsafe fn run(kernel: Kernel, at: usize, turns: u64) {
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

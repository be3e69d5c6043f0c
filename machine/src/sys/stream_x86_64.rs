//! The loops of [`super::Kernel`] for x86-64. In all of them rsi goes from rdi to r8, rsi + rdx is the same place in the
//! second range, rcx counts passes, and rax or the first vector register carries the data.

use super::{Kernel, Operation};
use std::arch::{asm, is_x86_feature_detected};

pub fn supported(width: u32) -> bool {
    match width {
        64 | 128 => true,
        256 => is_x86_feature_detected!("avx"),
        512 => is_x86_feature_detected!("avx512f"),
        _ => false,
    }
}

/// What a loop works on.
struct Span {
    from: usize,
    shift: usize,
    end: usize,
    passes: u64,
}

/// The instructions for one offset.
macro_rules! line {
    ([load $load:literal $register:literal] $at:literal) => {
        concat!($load, " ", $register, ", [rsi+", $at, "]")
    };
    ([store $store:literal $register:literal] $at:literal) => {
        concat!($store, " [rsi+", $at, "], ", $register)
    };
    ([copy $load:literal $store:literal $register:literal] $at:literal) => {
        concat!($load, " ", $register, ", [rsi+", $at, "]\n", $store, " [rsi+rdx+", $at, "], ", $register)
    };
}

/// A loop: what fills the data register with the range's address (processors treat stores of zeroes as a case of its own), the instructions of each offset, and what ends it.
macro_rules! body {
    ($span:ident, $fill:literal, $line:tt, $finish:literal, [$($at:literal)*]) => {
        asm!(
            $fill,
            "3:", "mov rsi, rdi",
            "2:",
            $(line!($line $at),)*
            "add rsi, 512", "cmp rsi, r8", "jb 2b",
            "dec rcx", "jnz 3b",
            $finish,
            in("rdi") $span.from, in("rdx") $span.shift, in("r8") $span.end, inout("rcx") $span.passes => _,
            out("rsi") _, out("rax") _, out("xmm0") _, options(nostack)
        )
    };
}

/// A loop over operands of one width.
macro_rules! unrolled {
    (64, $span:ident, $line:tt, $finish:literal) => {
        body!($span, "mov rax, rdi", $line, $finish, [
            0 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208
            216 224 232 240 248 256 264 272 280 288 296 304 312 320 328 336 344 352 360 368 376 384 392 400
            408 416 424 432 440 448 456 464 472 480 488 496 504
        ])
    };
    (128, $span:ident, $line:tt, $finish:literal) => {
        body!($span, "movq xmm0, rdi\npunpcklqdq xmm0, xmm0", $line, $finish, [
            0 16 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256 272 288 304 320 336 352 368 384 400
            416 432 448 464 480 496
        ])
    };
    (256, $span:ident, $line:tt, $finish:literal) => {
        body!($span, "vmovq xmm0, rdi\nvpunpcklqdq xmm0, xmm0, xmm0\nvinsertf128 ymm0, ymm0, xmm0, 1", $line, $finish, [0 32 64 96 128 160 192 224 256 288 320 352 384 416 448 480])
    };
    (512, $span:ident, $line:tt, $finish:literal) => {
        body!($span, "vmovq xmm0, rdi\nvpbroadcastq zmm0, xmm0", $line, $finish, [0 64 128 192 256 320 384 448])
    };
}

/// # Safety
/// `bytes` bytes from `from` and from `to` are readable and writable memory that Rust does not refer to, aligned to 64,
/// `bytes` is a positive multiple of [`super::STEP`], `passes` is not 0, and `kernel.width` is [`supported`].
pub unsafe fn run(kernel: Kernel, from: usize, to: usize, bytes: usize, passes: u64) {
    use Operation::{Copy, CopyNt, Read, Write, WriteNt};
    let span = Span { from, shift: to.wrapping_sub(from), end: from + bytes, passes };
    // SAFETY:
    // - the loops read and write only the two ranges, by the caller's promise;
    // - every register that changes is an operand; naming the lower part of a vector register claims all of it, and
    //   VZEROUPPER clears only what is claimed or free to clear by the calling convention.
    unsafe {
        match (kernel.operation, kernel.width) {
            (Read, 64) => unrolled!(64, span, [load "mov" "rax"], ""),
            (Read, 128) => unrolled!(128, span, [load "movdqa" "xmm0"], ""),
            (Read, 256) => unrolled!(256, span, [load "vmovdqa" "ymm0"], "vzeroupper"),
            (Read, 512) => unrolled!(512, span, [load "vmovdqa64" "zmm0"], "vzeroupper"),
            (Write, 64) => unrolled!(64, span, [store "mov" "rax"], ""),
            (Write, 128) => unrolled!(128, span, [store "movdqa" "xmm0"], ""),
            (Write, 256) => unrolled!(256, span, [store "vmovdqa" "ymm0"], "vzeroupper"),
            (Write, 512) => unrolled!(512, span, [store "vmovdqa64" "zmm0"], "vzeroupper"),
            (Copy, 64) => unrolled!(64, span, [copy "mov" "mov" "rax"], ""),
            (Copy, 128) => unrolled!(128, span, [copy "movdqa" "movdqa" "xmm0"], ""),
            (Copy, 256) => unrolled!(256, span, [copy "vmovdqa" "vmovdqa" "ymm0"], "vzeroupper"),
            (Copy, 512) => unrolled!(512, span, [copy "vmovdqa64" "vmovdqa64" "zmm0"], "vzeroupper"),
            (WriteNt, 64) => unrolled!(64, span, [store "movnti" "rax"], "sfence"),
            (WriteNt, 128) => unrolled!(128, span, [store "movntdq" "xmm0"], "sfence"),
            (WriteNt, 256) => unrolled!(256, span, [store "vmovntdq" "ymm0"], "sfence\nvzeroupper"),
            (WriteNt, 512) => unrolled!(512, span, [store "vmovntdq" "zmm0"], "sfence\nvzeroupper"),
            (CopyNt, 64) => unrolled!(64, span, [copy "mov" "movnti" "rax"], "sfence"),
            (CopyNt, 128) => unrolled!(128, span, [copy "movdqa" "movntdq" "xmm0"], "sfence"),
            (CopyNt, 256) => unrolled!(256, span, [copy "vmovdqa" "vmovntdq" "ymm0"], "sfence\nvzeroupper"),
            (CopyNt, 512) => unrolled!(512, span, [copy "vmovdqa64" "vmovntdq" "zmm0"], "sfence\nvzeroupper"),
            (_, width) => unreachable!("no kernels of {width} bits"),
        }
    }
}

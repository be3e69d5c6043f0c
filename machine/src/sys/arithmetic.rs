//! Kernels of independent arithmetic instructions with operands in registers or in the nearest cache.

use super::{
    pages::Buffer,
    stream::{WIDTHS, supported},
};
use serde::Serialize;

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
        supported(self.width) && kernels::supported(*self)
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
        unsafe { kernels::run(*self, operands.address(), turns.max(1)) }
    }
}

#[cfg(target_arch = "x86_64")]
#[path = "arithmetic_x86_64.rs"]
mod kernels;

#[cfg(target_arch = "aarch64")]
#[path = "arithmetic_aarch64.rs"]
mod kernels;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pages::Pages;

    #[test]
    fn every_kernel_runs() {
        let operands = Buffer::new(OPERANDS, Pages::Base).unwrap();
        let kernels = Kernel::all();
        assert!(kernels.len() >= 5);
        for kernel in kernels {
            kernel.run(&operands, 3);
        }
    }
}

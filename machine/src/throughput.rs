//! Throughput of arithmetic instructions with operands in registers and in the nearest cache.

use crate::{
    error::Error,
    session::Session,
    stat::{Figure, Take},
    sys::{
        arithmetic::{Instruction, Kernel, OPERANDS, UNROLLED},
        clock::ticks,
    },
};
use serde::Serialize;

/// A kernel's throughput on one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What it does, on elements of 64 bits.
    pub instruction: Instruction,
    /// Bits of an operand.
    pub width_bits: u32,
    /// `register`, or `memory` where one operand is loaded from the nearest cache.
    pub operand: &'static str,
    /// Billions of instructions a second.
    pub giga_per_s: f64,
    /// Distance between the three rounds that agree best.
    pub spread_giga_per_s: f64,
    /// Instructions in a cycle of the core.
    pub per_cycle: f64,
    /// Billions of floating-point operations a second.
    pub gflop_per_s: f64,
    /// Whether three rounds agreed.
    pub stable: bool,
}

/// Turns of a sample: some 20 microseconds.
const TURNS: u64 = 10_000;
/// Samples of a round.
const SAMPLES: usize = 40;

/// Measures every kernel that the processor has.
///
/// # Errors
/// There is not enough memory.
pub fn all(session: &Session) -> Result<Vec<Point>, Error> {
    let operands = session.buffer(OPERANDS)?;
    let kernels = Kernel::all();
    let rates = session.settle_all(Take::Least, &kernels, |kernel| {
        kernel.run(&operands, TURNS);
        let sample = || {
            let begin = ticks();
            kernel.run(&operands, TURNS);
            session.clock.ns(ticks().saturating_sub(begin))
        };
        Ok((0..SAMPLES).map(|_| sample()).collect())
    })?;
    let point = |(kernel, time): (&Kernel, Option<Figure>)| {
        let rate = time.expect("rounds have samples").rate((TURNS * UNROLLED) as f64);
        let elements = u64::from(kernel.width / 64);
        Point {
            instruction: kernel.instruction,
            width_bits: kernel.width,
            operand: if kernel.memory { "memory" } else { "register" },
            giga_per_s: rate.value,
            spread_giga_per_s: rate.spread,
            per_cycle: rate.value / session.clock.core_ghz,
            gflop_per_s: rate.value * (elements * kernel.instruction.operations()) as f64,
            stable: rate.stable,
        }
    };
    Ok(kernels.iter().zip(rates).map(point).collect())
}

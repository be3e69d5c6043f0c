//! All `unsafe` code: pages, the clock, and the kernels in assembly, each behind functions that any code may call.
#![expect(unsafe_code, reason = "inline assembly and raw memory")]

pub mod arithmetic;
pub mod chain;
pub mod clock;
mod node;
pub mod pages;
pub mod stream;

//! What the report page computes with: `postproc`, compiled to WebAssembly.
//!
//! Comes in: profiles as they are in files, and questions in JSON. Goes out: answers in JSON, those of hierarchies with
//! the keys that `bf query --format json` prints. It must never compute a figure itself, draw anything, or ask for
//! anything from outside: the module imports nothing.
#![deny(unsafe_code)]

mod ask;
#[cfg(target_family = "wasm")]
mod exports;

pub use ask::{Page, Question};

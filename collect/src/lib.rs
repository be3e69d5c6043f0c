//! Accesses of threads in, the line data of a profile out: what the runtime and `replay` share.
//!
//! It cuts accesses into references per line size, feeds every slot's private stacks and the global ones, and turns
//! their histograms into profile types. It must never touch a file, the environment or another thread's buffer.
#![forbid(unsafe_code)]

mod batch;
mod convert;
mod session;

pub use batch::{Access, Batch};
pub use bf_stack::{Bucket, Limits};
pub use session::{Config, Session, Snapshot};

//! Accesses of threads in, the line data of a profile out: what the runtime and `replay` share.
//!
//! It cuts accesses into references per line size, feeds every slot's private stacks and the global ones, and turns
//! their histograms into profile types. It must never touch a file, the environment or another thread's buffer.
#![forbid(unsafe_code)]

mod again;
mod anchors;
mod batch;
mod convert;
mod courses;
mod directory;
mod items;
mod objects;
mod patterns;
mod pipeline;
mod references;
mod rounds;
mod sample;
mod session;
mod shadow;
mod shape;
mod stacks;
mod strides;
mod sync;
mod team;
mod touched;
mod tracker;
mod visits;
mod walks;

pub use anchors::Seek;
pub use batch::{Access, Batch, Shapes};
pub use bf_stack::{Bucket, Instructions, Item, Limits};
pub use items::Attributed;
pub use objects::{Allocations, Block, Object, Objects};
pub use patterns::{Patterns, Wanted};
pub use sample::Sample;
pub use session::{Config, Order, Session, Snapshot};
pub use shape::{Event, Shape, Step, What};

//! `bf sweep --l1 … --l2 …`: design spaces, studies of one property, working sets.

pub mod args;
mod lines;
mod search;
mod sets;
mod study;
mod text;

pub use search::command;
pub use sets::command as working_sets;
pub use study::command as study;

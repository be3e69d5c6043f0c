//! `bf doctor` and `bf machine`: what this computer's memory really does.

mod all;
pub mod args;
mod compare;
mod counters;
mod doctor;
mod figures;
mod plot;
pub mod progress;
mod tables;

pub use doctor::command as doctor;
pub use figures::command as machine;

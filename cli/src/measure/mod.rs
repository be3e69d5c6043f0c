//! `bf doctor` and `bf machine`: what this computer's memory really does.

pub mod args;
mod counters;
mod doctor;
mod figures;
mod plot;
mod tables;

pub use doctor::command as doctor;
pub use figures::command as machine;

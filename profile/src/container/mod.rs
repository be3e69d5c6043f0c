//! Profiles as files: a sectioned container, one section for what is known of each process and one or more for each of
//! its line sizes. Every section is compressed and checked by itself, so that the loss of one leaves the others.
//! `docs/profile-format.md` gives the bytes and the rules by which the format grows.

mod assemble;
#[cfg(test)]
mod compatibility;
mod file;
#[cfg(test)]
mod hostile;
mod read;
mod salvage;
#[cfg(test)]
pub(crate) mod tests;
mod union;
mod write;

pub use file::{Replacement, read_file, replace, write_file};
pub use read::read;
pub use salvage::salvage_file;
pub use union::Union;
pub use write::write;

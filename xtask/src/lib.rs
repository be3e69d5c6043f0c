//! What the tests need of the build system: the checkout, cargo, sources that come through cargo, and Python packages.
#![forbid(unsafe_code)]

pub mod python;
pub mod workspace;

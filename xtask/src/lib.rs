//! What the tests need of the build system: the checkout, cargo, and sources that come through cargo.
#![forbid(unsafe_code)]

pub mod workspace;

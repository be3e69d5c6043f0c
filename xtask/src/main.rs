//! Build system.
fn main() {}

//! `bf-flang`: `flang` with everything an instrumented build needs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    bf_wrappers::main(bf_wrappers::Tool::Flang)
}

//! The vector instructions of the engine in the runtime as it is installed.

use bf_tests::sandbox::{command, succeed, text};

/// An operation that became a function was used where its instructions are not enabled: it takes ten times as long there, and
/// nothing else would tell.
#[test]
#[cfg(target_arch = "x86_64")]
fn vector_operations_are_no_functions() {
    let runtime = bf_tests::program("../lib/bf/libbf_rt.so");
    let symbols = text(&succeed(command("nm").args(["--demangle", "--defined-only"]).arg(runtime)).stdout);
    assert!(symbols.contains("bf_stack::simd::run_avx512"), "it has its symbols");
    let functions: Vec<_> =
        symbols.lines().filter(|line| line.contains("::core_arch::") && line.contains("_mm")).collect();
    assert!(functions.is_empty(), "{functions:#?}");
}

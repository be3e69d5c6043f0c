//! Finds LLVM, compiles the C++ shim against its headers and links the plugin to its shared library.
//!
//! The compiler that loads the plugin has that library loaded already; a second, static copy of LLVM in one process
//! would corrupt it, so there is no static option.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/shim.cpp");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BF_LLVM_CONFIG");
    let Some(version) = selected_version() else {
        panic!("bf-pass needs one of the features `llvm22` (default) and `llvm19`");
    };
    let tool = env::var("BF_LLVM_CONFIG").unwrap_or_else(|_| format!("llvm-config-{version}"));
    let found = config(&tool, "--version");
    assert!(
        found.split('.').next() == Some(version),
        "`{tool}` is LLVM {found}, but the feature `llvm{version}` of bf-pass was asked for"
    );
    let mut shim = cc::Build::new();
    shim.cpp(true)
        .file("src/shim.cpp")
        .std("c++17")
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fvisibility=hidden")
        .flag("-isystem")
        .flag(config(&tool, "--includedir"))
        .warnings(true)
        .extra_warnings(false);
    shim.compile("bf_shim");
    println!("cargo::rustc-link-search=native={}", config(&tool, "--libdir"));
    println!("cargo::rustc-link-lib=dylib=LLVM-{version}");
}

/// The newer of the LLVM versions that the features name: features add up, a plugin has one version.
fn selected_version() -> Option<&'static str> {
    ["22", "19"].into_iter().find(|version| env::var_os(format!("CARGO_FEATURE_LLVM{version}")).is_some())
}

/// One answer of `llvm-config`, or an error that says what to install.
fn config(tool: &str, question: &str) -> String {
    let version = selected_version().unwrap_or_default();
    match Command::new(tool).arg(question).output() {
        Ok(answer) if answer.status.success() => String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
        Ok(answer) => panic!("`{tool} {question}` failed: {}", String::from_utf8_lossy(&answer.stderr).trim()),
        Err(error) => panic!(
            "cannot run `{tool}`: {error}; install the package `llvm-{version}-dev` (apt-get install \
             llvm-{version}-dev clang-{version}) or set BF_LLVM_CONFIG to an llvm-config of LLVM {version}"
        ),
    }
}

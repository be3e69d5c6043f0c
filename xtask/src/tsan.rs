//! `tsan`: what threads of the runtime do to each other, under ThreadSanitizer, the standard library with it.
//!
//! Not part of `test`: compiling the standard library again takes some minutes. What it calls of the compiler is not stable,
//! so the flags are those of this checkout's toolchain.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::deps::{self, Need};
use xtask::workspace::{self, Workspace};

/// Cases of a property: all is some ten times slower.
const CASES: &str = "8";

/// Runs the command. The tests fail if there is a race, and also if one that is there on purpose is not caught.
pub fn run(workspace: &Workspace) -> Result<()> {
    deps::ensure(Need::Build)?;
    if !sysroot(workspace)?.join("lib/rustlib/src/rust/library/std").exists() {
        workspace::run(Command::new("rustup").args(["component", "add", "rust-src"]).current_dir(&workspace.root))?;
    }
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    for tests in [&["--test", "races"][..], &["--lib", "--", "session", "by_whoever_waits"]] {
        let mut cargo = workspace.cargo();
        cargo.args(["test", "-Zbuild-std", "--target", &target, "--target-dir"]).arg(workspace.target.join("tsan"));
        cargo.args(["-p", "bf-collect", "--features", "tsan"]).args(tests);
        cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=thread").env("PROPTEST_CASES", CASES);
        workspace::run(&mut cargo)?;
    }
    Ok(())
}

/// Where the toolchain is that cargo uses here.
fn sysroot(workspace: &Workspace) -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).current_dir(&workspace.root).output();
    let output = output.context("failed to run rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

//! `test`: formatting, lints, licences, every test.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::deps::{self, Need};
use crate::install;
use xtask::python;
use xtask::workspace::{self, Workspace};

/// Arguments of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments for the test runner, for instance a filter.
    #[arg(last = true)]
    runner: Vec<String>,
}

/// Runs the command. The runner's own summary is the last thing printed.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    deps::ensure(Need::Test)?;
    deps::ensure_rust(workspace, &[("fmt", "rustfmt"), ("clippy", "clippy")])?;
    step("formatting", workspace.cargo().args(["fmt", "--all", "--check"]))?;
    // The lints build into the tests' own profile and directory, so that little is compiled twice.
    step(
        "lints",
        workspace.cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    licences(workspace)?;

    let prefix = workspace.target.join("stage");
    eprintln!("== building tests, and staging an install tree");
    install::for_tests(workspace, &prefix)?;

    eprintln!("== Python packages to compare with");
    python::interpreter(workspace)?;

    let llvm_19 = workspace.target.join("llvm19");
    let mut pass_19 = runner(workspace, &prefix);
    pass_19.args(["-p", "bf-pass", "--no-default-features", "--features", "llvm19", "--target-dir"]).arg(llvm_19);
    step("tests of the pass for LLVM 19", &mut pass_19)?;
    let mut orders = runner(workspace, &prefix);
    orders.args(["-p", "bf-collect", "--features", "shuttle", "--test", "handover"]);
    step("threads in many orders", &mut orders)?;
    step("all tests", runner(workspace, &prefix).arg("--workspace").args(&args.runner))
}

/// `cargo nextest run` where it is installed, else `cargo test`.
fn runner(workspace: &Workspace, prefix: &Path) -> Command {
    let mut cargo = workspace.cargo();
    if workspace::works(workspace.cargo().args(["nextest", "--version"])) {
        cargo.args(["nextest", "run", "--no-fail-fast"]);
    } else {
        cargo.args(["test", "--no-fail-fast"]);
    }
    cargo.env(workspace::PREFIX, prefix);
    cargo
}

/// `cargo deny check` on everything that needs no advisory database. A machine without it gets it, quickly built.
fn licences(workspace: &Workspace) -> Result<()> {
    let there = || workspace::works(workspace.cargo().args(["deny", "--version"]));
    if !there() {
        let mut install = workspace.cargo();
        // Without a network the rest can still be tested.
        let _ = step("cargo-deny", install.args(["install", "--quiet", "--locked", "--debug", "cargo-deny"]));
    }
    if there() {
        return step("licences", workspace.cargo().args(["deny", "check", "bans", "licenses", "sources"]));
    }
    eprintln!("== licences: not checked, cargo-deny could not be installed");
    Ok(())
}

fn step(what: &str, command: &mut Command) -> Result<()> {
    eprintln!("== {what}: {}", workspace::show(command));
    workspace::run(command)
}

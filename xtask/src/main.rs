//! The build system: `cargo xtask COMMAND`, one file a command.
//!
//! Comes in: the checkout. Goes out: an install tree, test results. It must never need anything installed beforehand
//! but cargo itself: every command begins with [`deps::ensure`].
#![forbid(unsafe_code)]

mod bench;
mod demo;
mod deps;
mod dist;
mod install;
mod page;
mod runtime_object;
mod test;
mod tsan;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use xtask::workspace::Workspace;

/// Builds, installs, tests and shows bf.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// Compile a real program with bf-clang, run it and print the report.
    Demo(demo::Args),
    /// Run all tests.
    Test(test::Args),
    /// Run what threads do to each other under ThreadSanitizer.
    Tsan,
    /// Measure the engine and whole programs.
    Bench(bench::Args),
    /// Build everything and lay out an install tree.
    Install(install::Args),
    /// Pack an install tree into an archive.
    Dist(dist::Args),
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let workspace = Workspace::load()?;
    match command {
        Command::Demo(args) => demo::run(&workspace, &args),
        Command::Test(args) => test::run(&workspace, &args),
        Command::Tsan => tsan::run(&workspace),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::Install(args) => {
            install::run(&workspace, &args)?;
            println!("installed; to use it: export PATH={}/bin:$PATH", std::path::absolute(&args.prefix)?.display());
            Ok(())
        }
        Command::Dist(args) => dist::run(&workspace, &args),
    }
}

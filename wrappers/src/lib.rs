//! `bf-clang` and friends: a compiler's command line in, the same command line with the pass and the runtime put into
//! it out, and the compiler run in this process's place.
//!
//! Whoever calls a wrapper must not be able to tell it from the compiler except by what is compiled: nothing on stdout
//! or stderr of its own, no warning the compiler alone would not give, the compiler's exit code and signals. It must
//! never start a process of its own, write a file or look into a source file.
//!
//! `bf-rustc` and `bf-cargo` are simpler: [`rust`].
//!
//! The way of a command line: [`response`] expands `@file`s, [`options`] takes out what is ours, [`scan`] finds out
//! what the compiler will do, [`toolchain`] finds the compiler and our files, [`plan`] puts the command together.
#![forbid(unsafe_code)]

pub mod options;
pub mod plan;
pub mod response;
pub mod rust;
pub mod scan;
pub mod toolchain;

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use plan::Plan;
use toolchain::Tree;

/// The program a wrapper stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `clang`
    Clang,
    /// `clang++`
    ClangXx,
    /// `flang`
    Flang,
    /// `llvm-ar`
    Ar,
    /// `llvm-ranlib`
    Ranlib,
    /// `rustc`
    Rustc,
    /// `cargo`
    Cargo,
}

impl Tool {
    /// Name of the wrapper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clang => "bf-clang",
            Self::ClangXx => "bf-clang++",
            Self::Flang => "bf-flang",
            Self::Ar => "bf-ar",
            Self::Ranlib => "bf-ranlib",
            Self::Rustc => "bf-rustc",
            Self::Cargo => "bf-cargo",
        }
    }
}

/// Why a wrapper gave up before it ran anything.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A `-bf-…` option that does not exist, or lacks its value.
    #[error("{0}; see {1} --bf-help")]
    Option(options::BadOption, &'static str),
    /// Compiler or install tree incomplete.
    #[error(transparent)]
    Toolchain(#[from] toolchain::Error),
    /// The compiler could not be executed.
    #[error("failed to run {program}: {source}")]
    Exec {
        /// What was to be run.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// Exit code: 2 for a wrong use of our options, 1 (as clang) for the rest.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Option(..) => 2,
            Self::Toolchain(_) | Self::Exec { .. } => 1,
        }
    }
}

/// Runs `tool` on this process's own arguments; returns only if that was not possible or nothing was to be run.
#[must_use]
pub fn main(tool: Tool) -> ExitCode {
    match run(tool, env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr must not turn into a panic.
            let _ = writeln!(std::io::stderr(), "{}: error: {error}", tool.name());
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(tool: Tool, mut args: Vec<OsString>) -> Result<(), Error> {
    // What comes after it is the program's that Cargo runs, or files.
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    if args[..end].iter().any(|arg| arg == "--bf-help") {
        print(&options::help(tool));
        return Ok(());
    }
    let show = args.extract_if(..end, |arg| arg == "--bf-show").count() > 0;

    let tree = Tree::of_this_program()?;
    let plan = match tool {
        Tool::Clang | Tool::ClangXx | Tool::Flang => plan::compiler(tool, args, &tree)?,
        Tool::Rustc | Tool::Cargo => rust::plan(tool, args, &tree)?,
        Tool::Ar | Tool::Ranlib => Plan::plain(toolchain::archiver(tool, &tree)?, args),
    };
    if show {
        print(&plan.shell());
        return Ok(());
    }
    let mut command = Command::new(&plan.program);
    command.args(&plan.args).envs(plan.env.iter().map(|(name, value)| (name, value)));
    match &plan.pass_options {
        Some(value) => command.env(plan::PASS_OPTIONS, value),
        // What an enclosing bf-clang asked for is not for this compiler.
        None => command.env_remove(plan::PASS_OPTIONS),
    };
    let source = command.exec();
    Err(Error::Exec { program: plan.program.display().to_string(), source })
}

/// To stdout; a reader that has gone away is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

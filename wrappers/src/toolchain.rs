//! Finds what a command needs: our own install tree, the compiler, and the pass built for that compiler's LLVM.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Tool;

/// Names the clang to use in place of the one we would choose.
pub const BF_CLANG: &str = "BF_CLANG";

/// The same for flang.
pub const BF_FLANG: &str = "BF_FLANG";

/// Versions of LLVM tried, the preferred one first.
const VERSIONS: [u32; 2] = [22, 19];

/// Compiler caches and distributors that stand in for a compiler in `PATH`. They do not see the options that travel to
/// the pass by environment, so they may only run in front of `bf-clang`, never behind it.
const LAUNCHERS: [&str; 5] = ["ccache", "sccache", "distcc", "icecc", "buildcache"];

/// Why there is no toolchain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Where is this program?
    #[error("failed to find the directory this program is in: {0}")]
    Unlocated(#[source] io::Error),
    /// No compiler.
    #[error("no compiler: install it (apt-get install {package}) or name one in {variable}")]
    NoCompiler {
        /// What names one.
        variable: &'static str,
        /// Debian's name for it.
        package: String,
    },
    /// `BF_CLANG` or `BF_FLANG` names nothing that can be run.
    #[error("{0}={1}: no such program")]
    NamedCompiler(&'static str, String),
    /// One of them names something else.
    #[error("{0}={1}: not a clang or flang: it does not answer -dumpversion with a version")]
    UnknownVersion(&'static str, String),
    /// No pass for that compiler.
    #[error("no pass for clang {major}: {path} is missing; use one of: {have}")]
    NoPass {
        /// The compiler's major version.
        major: u32,
        /// Where the pass would be.
        path: String,
        /// Compilers there is a pass for.
        have: String,
    },
    /// No Rust.
    #[error("no {0}: install a Rust toolchain (https://rustup.rs) and have it in PATH")]
    NoRust(&'static str),
    /// The compiler does not run, as where the toolchain is not installed.
    #[error("{0} -vV failed: {1}")]
    FailedRust(String, String),
    /// The compiler says nothing of its LLVM.
    #[error("{0} -vV names no version of LLVM: bf works with compilers that are built on LLVM")]
    UnknownRust(String),
    /// No pass for its LLVM.
    #[error(
        "no pass for Rust on LLVM {major}: {path} is missing; choose a toolchain on LLVM 22 or 19 (rustc -vV says which)"
    )]
    NoPassForRust {
        /// The major version of the compiler's LLVM.
        major: u32,
        /// Where the pass would be.
        path: String,
    },
    /// The runtime is of this machine.
    #[error("no runtime for target {0}: bf instruments programs of this machine")]
    ForeignTarget(String),
    /// No archiver.
    #[error("no {name}: install it (apt-get install {package})")]
    NoArchiver {
        /// The program.
        name: String,
        /// Debian's name for the package it is in.
        package: String,
    },
}

/// The install tree this program is part of.
#[derive(Clone, Debug)]
pub struct Tree {
    prefix: PathBuf,
}

impl Tree {
    /// The tree whose `bin` holds this program, symbolic links resolved.
    ///
    /// # Errors
    ///
    /// The system does not say where the program is.
    pub fn of_this_program() -> Result<Self, Error> {
        let program = env::current_exe().and_then(|path| path.canonicalize()).map_err(Error::Unlocated)?;
        Ok(Self::at(program.parent().and_then(Path::parent).unwrap_or(Path::new("/"))))
    }

    /// The tree at `prefix`.
    #[must_use]
    pub fn at(prefix: &Path) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Where the pass and the runtime are.
    #[must_use]
    pub fn lib(&self) -> PathBuf {
        self.prefix.join("lib/bf")
    }

    /// Where `bf.h` is.
    #[must_use]
    pub fn include(&self) -> PathBuf {
        self.prefix.join("include")
    }

    /// The pass for this version of LLVM.
    #[must_use]
    pub fn pass(&self, major: u32) -> PathBuf {
        self.lib().join(format!("libbf_pass-{major}.so"))
    }
}

/// A compiler to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub program: PathBuf,
    /// Arguments that make it the driver asked for.
    pub first_args: Vec<OsString>,
    /// Version of its LLVM.
    pub major: u32,
}

/// The compiler for `tool`: the one `BF_CLANG` names, else the preferred version that is installed and has a pass.
///
/// # Errors
///
/// None is installed, or the one named is none.
pub fn compiler(tool: Tool, tree: &Tree) -> Result<Compiler, Error> {
    let (variable, name) = match tool {
        Tool::Flang => (BF_FLANG, "flang"),
        Tool::ClangXx => (BF_CLANG, "clang++"),
        _ => (BF_CLANG, "clang"),
    };
    if let Some(name) = env::var_os(variable).filter(|name| !name.is_empty()) {
        return named(tool, variable, &name);
    }
    let installed = |major: &u32| {
        let program = find(&format!("{name}-{major}")).or_else(|| beside_llvm(*major, name))?;
        Some(Compiler { program, first_args: Vec::new(), major: *major })
    };
    let mut found = VERSIONS.iter().filter_map(installed).peekable();
    // Without any pass, take the preferred compiler: a complaint about its pass says what is wrong.
    let first = found.peek().cloned();
    found.find(|compiler| tree.pass(compiler.major).exists()).or(first).ok_or_else(|| Error::NoCompiler {
        variable,
        package: format!("{}-{}", name.trim_end_matches('+'), VERSIONS[0]),
    })
}

/// The pass for `compiler`.
///
/// # Errors
///
/// There is none for its version.
pub fn pass(compiler: &Compiler, tree: &Tree) -> Result<PathBuf, Error> {
    let path = tree.pass(compiler.major);
    if path.exists() {
        return Ok(path);
    }
    let have = VERSIONS.iter().filter(|major| tree.pass(**major).exists()).map(|major| format!("clang-{major}"));
    let have = have.collect::<Vec<_>>().join(", ");
    let have = if have.is_empty() { "none".to_owned() } else { have };
    Err(Error::NoPass { major: compiler.major, path: path.display().to_string(), have })
}

/// The archiver that reads the bitcode `compiler` writes.
///
/// # Errors
///
/// It is not installed.
pub fn archiver(tool: Tool, tree: &Tree) -> Result<PathBuf, Error> {
    let Compiler { program, major, .. } = compiler(Tool::Clang, tree)?;
    let name = if tool == Tool::Ranlib { "llvm-ranlib" } else { "llvm-ar" };
    let beside = program.canonicalize().ok().and_then(|program| Some(program.parent()?.join(name)));
    beside
        .filter(|path| path.exists())
        .or_else(|| find(&format!("{name}-{major}")))
        .or_else(|| beside_llvm(major, name))
        .ok_or_else(|| Error::NoArchiver { name: format!("{name}-{major}"), package: format!("llvm-{major}") })
}

fn named(tool: Tool, variable: &'static str, name: &OsStr) -> Result<Compiler, Error> {
    let shown = || name.to_string_lossy().into_owned();
    let program = which::which(name).map_err(|_| Error::NamedCompiler(variable, shown()))?;
    let major = version_in_path(&program)
        .or_else(|| ask_version(&program))
        .ok_or_else(|| Error::UnknownVersion(variable, shown()))?;
    let first_args = if tool == Tool::ClangXx { vec!["--driver-mode=g++".into()] } else { Vec::new() };
    Ok(Compiler { program, first_args, major })
}

/// Version from the places distributions install to, without running anything: `…/llvm-22/bin/clang`, `…/clang-22`.
fn version_in_path(program: &Path) -> Option<u32> {
    let real = program.canonicalize().ok()?;
    let number = |name: &str, prefix: &str| name.strip_prefix(prefix)?.parse().ok();
    let file = real.file_name()?.to_str()?;
    number(file, "clang-")
        .or_else(|| number(file, "flang-"))
        .or_else(|| number(real.parent()?.parent()?.file_name()?.to_str()?, "llvm-"))
}

fn ask_version(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').next()?.trim().parse().ok()
}

/// The first `name` in `PATH` that is the program itself and not a launcher under its name.
fn find(name: &str) -> Option<PathBuf> {
    which::which_all(name).ok()?.find(|path| {
        let real = path.canonicalize().unwrap_or_default();
        !real.file_name().is_some_and(|name| LAUNCHERS.iter().any(|launcher| name == *launcher))
    })
}

fn beside_llvm(major: u32, name: &str) -> Option<PathBuf> {
    Some(PathBuf::from(format!("/usr/lib/llvm-{major}/bin/{name}"))).filter(|path| path.exists())
}

//! Ground that end-to-end tests stand on: a staged install tree, real programs, and caches simulated one at a time.
//!
//! Comes in: the environment of a test run. Goes out: programs that are built, runs of them, and numbers to compare with.
//! It must never leave anything outside the target directory and the system's folder for temporary files.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod browser;
pub mod cached;
pub mod cases;
pub mod coherent;
pub mod debian;
pub mod histograms;
pub mod oracle;
pub mod project;
pub mod sandbox;
pub mod synthetic;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use xtask::workspace::{PREFIX, Workspace};

/// The install tree under test: [`PREFIX`] if set, else one staged in the target directory, brought up to date once per
/// test run.
///
/// # Panics
///
/// It cannot be built: no end-to-end test means anything then.
#[must_use]
pub fn prefix() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| match env::var_os(PREFIX) {
        Some(given) => PathBuf::from(given),
        None => stage().expect("failed to stage an install tree"),
    })
}

/// A program of the tree under test.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    prefix().join("bin").join(name)
}

/// The unpacked sources of `package`, one of the crates under this crate's feature `sources`.
///
/// # Errors
///
/// Cargo does not know the package, or cannot fetch it.
pub fn source(package: &str) -> Result<PathBuf> {
    Workspace::load()?.source(package)
}

fn stage() -> Result<PathBuf> {
    let workspace = Workspace::load()?;
    let target = &workspace.target;
    fs::create_dir_all(target)?;
    let prefix = target.join("stage");
    // Test processes run side by side; the first one of a nextest run brings the tree up to date for all of them.
    let lock = File::create(target.join("stage.lock"))?;
    lock.lock()?;
    let stamp = target.join("stage.run");
    let run = env::var("NEXTEST_RUN_ID").ok();
    if run.is_some() && run == fs::read_to_string(&stamp).ok() {
        return Ok(prefix);
    }
    let mut install = workspace.cargo();
    install.args(["run", "--quiet", "--package", "xtask", "--", "install", "--debug", "--prefix"]).arg(&prefix);
    ensure!(install.status()?.success(), "cargo xtask install failed");
    if let Some(run) = run {
        fs::write(stamp, run)?;
    }
    Ok(prefix)
}

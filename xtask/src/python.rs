//! Python packages that tests compare with, in an environment of their own in the target directory.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::workspace::{Workspace, run};

/// The packages, each with its version.
const REQUIREMENTS: &str = include_str!("../python.txt");

/// The interpreter of an environment with the packages of `xtask/python.txt`, which is made if it is not there. Two that ask
/// at once wait for each other.
///
/// # Errors
///
/// There is no `python3` with `venv` (Debian: `python3-venv`), or the packages cannot be fetched.
pub fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    REQUIREMENTS.hash(&mut hasher);
    let name = format!("python-{:016x}", hasher.finish());
    fs::create_dir_all(&workspace.target)?;
    let folder = workspace.target.join(&name);
    let lock = File::create(workspace.target.join(format!("{name}.lock")))?;
    lock.lock()?;
    let (python, done) = (folder.join("bin/python"), folder.join("done"));
    if !done.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let list = folder.join("requirements.txt");
        fs::write(&list, REQUIREMENTS)?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
        // Most of it is never imported: half of the time would go into compiling it.
        pip.args(["--no-compile", "-r"]);
        run(pip.arg(&list).stdout(Stdio::null()))
            .context("failed to fetch the Python packages that tests compare with")?;
        File::create(done)?;
    }
    Ok(python)
}

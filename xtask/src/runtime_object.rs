//! The runtime as one relocatable object, for static linking.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use fs_err as fs;

use xtask::workspace;

/// Links the members of `archive` that the symbols named in `exports` need into `object`, and hides every other symbol:
/// a user's program may be Rust itself, or bring the same C library wrappers.
pub fn link(archive: &Path, exports: &Path, object: &Path) -> Result<()> {
    let text = fs::read_to_string(exports)?;
    let names: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    ensure!(!names.is_empty(), "{} names no symbol", exports.display());
    let mut ld = Command::new("ld");
    ld.args(["-r", "--gc-sections", "-o"]).arg(object);
    ld.args(names.iter().flat_map(|name| ["-u", name])).arg(archive);
    workspace::run(&mut ld)?;
    let mut objcopy = Command::new("objcopy");
    objcopy.args(names.iter().map(|name| format!("--keep-global-symbol={name}"))).arg(object);
    workspace::run(&mut objcopy)
}

//! The runtime as one relocatable object, for static linking.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use fs_err as fs;

use xtask::workspace;

/// The allocator calls of C code inside the runtime, sent to the runtime's own allocator as in `runtime/build.rs`.
const WRAPPED: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

/// The same function by another name, which only a member of the C library defines that a program's own would be beside.
const SAME: &str = "bcmp=memcmp";

/// Bitcode that the standard library's objects carry; ten times the size of the rest.
const BITCODE: [&str; 2] = [".llvmbc", ".llvmcmd"];

/// Links the members of `archive` that the symbols named in `exports` need into `object`, and hides every other symbol:
/// a user's program may be Rust itself, or carry the same C code. It may have functions of its own in the place of the C library's, too.
pub fn link(archive: &Path, exports: &Path, object: &Path) -> Result<()> {
    let text = fs::read_to_string(exports)?;
    let names: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    ensure!(!names.is_empty(), "{} names no symbol", exports.display());
    let mut ld = Command::new("ld");
    ld.args(["-r", "--gc-sections", "-o"]).arg(object);
    ld.args(WRAPPED.iter().map(|name| format!("--wrap={name}")));
    ld.args(names.iter().flat_map(|name| ["-u", name])).arg(archive);
    workspace::run(&mut ld)?;
    let mut hide = Command::new("objcopy");
    hide.args(names.iter().map(|name| format!("--keep-global-symbol={name}")));
    let of_library = names.iter().filter(|name| !name.starts_with("bf_"));
    hide.args(of_library.map(|name| format!("--weaken-symbol={name}")))
        .arg(format!("--redefine-sym={SAME}"))
        .arg(object);
    workspace::run(&mut hide)?;
    // What was left out leaves the names it called behind. A static link would find them in the C library.
    let mut strip = Command::new("objcopy");
    strip.args(["--strip-debug", "--strip-unneeded"]);
    strip.args(names.iter().map(|name| format!("--keep-symbol={name}")));
    strip.args(BITCODE.map(|section| format!("--remove-section={section}"))).arg(object);
    workspace::run(&mut strip)
}

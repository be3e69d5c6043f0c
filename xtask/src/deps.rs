//! Installs what is missing, without asking.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use xtask::workspace::{self, Workspace};

/// A Debian package and a file that is there once it is installed.
type Package = (&'static str, &'static str);

/// To build, and to run the demonstration.
const BUILD: &[Package] = &[
    ("binutils", "/usr/bin/objcopy"),
    ("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
    ("clang-22", "/usr/bin/clang-22"),
    ("curl", "/usr/bin/curl"),
    ("g++", "/usr/bin/g++"),
    ("libc6-dev", "/usr/include/stdio.h"),
    ("libomp-22-dev", "/usr/lib/llvm-22/lib/libomp.so"),
    ("llvm-22", "/usr/bin/llvm-ar-22"),
    ("llvm-22-dev", "/usr/bin/llvm-config-22"),
    ("llvm-22-dev", "/usr/lib/llvm-22/include/llvm/IR/PassManager.h"),
];

/// The second LLVM the pass is built and tested with.
const LLVM_19: &[Package] = &[
    ("clang-19", "/usr/bin/clang-19"),
    ("libclang-rt-19-dev", "/usr/lib/llvm-19/lib/clang/19/lib/linux"),
    ("llvm-19", "/usr/bin/llvm-ar-19"),
    ("llvm-19-dev", "/usr/lib/llvm-19/include/llvm/IR/PassManager.h"),
];

/// What the end-to-end tests and the benchmarks drive.
const TEST: &[Package] = &[
    ("autoconf", "/usr/bin/autoconf"),
    ("automake", "/usr/bin/automake"),
    ("ccache", "/usr/bin/ccache"),
    ("chromium", "/usr/bin/chromium"),
    ("cmake", "/usr/bin/cmake"),
    ("dpkg-dev", "/usr/bin/dpkg-source"),
    ("flang-22", "/usr/bin/flang-22"),
    ("libclang-rt-22-dev", "/usr/lib/llvm-22/lib/clang/22/lib/linux"),
    ("libtool", "/usr/bin/libtoolize"),
    ("lld-22", "/usr/bin/ld.lld-22"),
    ("llvm-22-tools", "/usr/bin/FileCheck-22"),
    ("likwid", "/usr/bin/likwid-bench"),
    ("make", "/usr/bin/make"),
    ("mbw", "/usr/bin/mbw"),
    ("ninja-build", "/usr/bin/ninja"),
    ("python3", "/usr/bin/python3"),
    ("python3-venv", "/usr/share/python-wheels"),
    ("sqlite3", "/usr/bin/sqlite3"),
    ("valgrind", "/usr/bin/valgrind"),
];

/// To pack an archive.
const DIST: &[Package] = &[("tar", "/bin/tar"), ("zstd", "/usr/bin/zstd")];

/// How much of it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Enough to build and install.
    Build,
    /// That and what packs an archive.
    Dist,
    /// That and all that tests use.
    Test,
}

/// Installs the missing packages: as root by itself, else with `sudo` if that asks nothing.
///
/// # Errors
///
/// Something required is missing and could not be installed; the message has the command that does it.
pub fn ensure(need: Need) -> Result<()> {
    let required: Vec<Package> = match need {
        Need::Build => BUILD.to_vec(),
        Need::Dist => [BUILD, DIST].concat(),
        Need::Test => [BUILD, LLVM_19, TEST].concat(),
    };
    let missing = missing(&required);
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    let Some(mut root) = as_root() else {
        bail!("these packages are missing and only root can install them:\n    sudo {by_hand}");
    };
    eprintln!("installing {}", missing.join(" "));
    let mut update = root.apt_get();
    // A source that cannot be reached must not keep the others from being used; the install says what is missing.
    let _ = update.args(["update", "-qq"]).status();
    let mut install = root.apt_get();
    install.args(["install", "-qq", "--yes", "--no-install-recommends"]).args(&missing).stdout(Stdio::null());
    workspace::run(&mut install).with_context(|| {
        format!("failed to install the packages needed; by hand:\n    {by_hand}\nLLVM packages are also at https://apt.llvm.org")
    })
}

/// Adds parts of the Rust toolchain that a minimal installation lacks.
///
/// # Errors
///
/// They are missing and there is no `rustup`, or it fails.
pub fn ensure_rust(workspace: &Workspace, components: &[(&str, &str)]) -> Result<()> {
    for (command, component) in components {
        if !workspace::works(workspace.cargo().args([command, "--version"])) {
            let mut rustup = Command::new("rustup");
            rustup.args(["component", "add", component]).current_dir(&workspace.root);
            workspace::run(&mut rustup)?;
        }
    }
    Ok(())
}

/// Adds the Rust library for `target` where it is missing.
///
/// # Errors
///
/// It is missing and there is no `rustup`, or it fails.
pub fn ensure_rust_target(workspace: &Workspace, target: &str) -> Result<()> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let found = rustc.args(["--print", "target-libdir", "--target", target]).current_dir(&workspace.root).output()?;
    if Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]).current_dir(&workspace.root);
    workspace::run(&mut rustup).with_context(|| format!("the Rust library for {target} is missing and cannot be added"))
}

/// Whether the second LLVM is there to build a pass for.
pub fn has_llvm_19() -> bool {
    missing(LLVM_19).is_empty()
}

fn missing(packages: &[Package]) -> Vec<&'static str> {
    let mut names: Vec<_> =
        packages.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect();
    names.dedup();
    names
}

/// How to become root.
struct Root {
    sudo: bool,
}

impl Root {
    fn apt_get(&mut self) -> Command {
        let mut command = if self.sudo { Command::new("sudo") } else { Command::new("env") };
        if self.sudo {
            command.arg("--non-interactive").arg("env");
        }
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=600"]);
        command.stdin(Stdio::null());
        command
    }
}

fn as_root() -> Option<Root> {
    let quiet = |program: &str, args: &[&str]| {
        Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()
    };
    if quiet("id", &["-u"])?.stdout.trim_ascii() == b"0" {
        return Some(Root { sudo: false });
    }
    quiet("sudo", &["--non-interactive", "true"])?.status.success().then_some(Root { sudo: true })
}

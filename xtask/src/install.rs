//! `install`: builds everything and lays out an install tree.

use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use fs_err as fs;

use crate::deps::{self, Need};
use crate::{page, runtime_object};
use xtask::workspace::{self, Workspace};

/// Arguments of `install`.
#[derive(clap::Args)]
pub struct Args {
    /// Where the tree goes: PREFIX/bin, PREFIX/lib/bf, …; it may be moved later as a whole.
    #[arg(long)]
    pub prefix: PathBuf,
    /// Build quickly, for tests, instead of building for speed.
    #[arg(long)]
    pub debug: bool,
}

/// Runs the command.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let profile = if args.debug { "stage" } else { "release" };
    let packages = ["-p", "bf-cli", "-p", "bf-wrappers", "-p", "bf-runtime"];
    lay_out(workspace, &args.prefix, profile, &[&[&["--profile", profile], &packages[..]].concat()])
}

/// The same for the tests: they bring the programs with them, and only the runtime is built for speed.
pub fn for_tests(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let programs = ["--profile", "test", "--workspace", "--tests"];
    lay_out(workspace, prefix, "stage", &[&programs, &["--profile", "stage", "-p", "bf-runtime"]])
}

/// Builds and lays out a tree. Of what several builds make the last one counts, which is that of the runtime, by `profile`.
fn lay_out(workspace: &Workspace, prefix: &Path, profile: &str, builds: &[&[&str]]) -> Result<()> {
    deps::ensure(Need::Build)?;
    let mut files = Files(HashMap::new());
    for args in builds {
        files.0.extend(workspace.build(args, &workspace.target)?);
    }

    let tree = Tree { prefix: std::path::absolute(prefix)? };
    for program in ["bf", "bf-clang", "bf-ar", "bf-ranlib", "bf-flang", "bf-rustc", "bf-cargo"] {
        tree.put_stripped(files.get(program)?, &format!("bin/{program}"))?;
    }
    tree.put_stripped(files.get("bf-clangxx")?, "bin/bf-clang++")?;
    let pass = Files(workspace.build(&["--profile", "plugin", "-p", "bf-pass"], &workspace.target)?);
    tree.put_stripped(pass.get("libbf_pass.so")?, "lib/bf/libbf_pass-22.so")?;
    if deps::has_llvm_19() {
        let args = ["--profile", "plugin", "-p", "bf-pass", "--no-default-features", "--features", "llvm19"];
        let pass = Files(workspace.build(&args, &workspace.target.join("llvm19"))?);
        tree.put_stripped(pass.get("libbf_pass.so")?, "lib/bf/libbf_pass-19.so")?;
    }
    tree.put_stripped(files.get("libbf_rt.so")?, "lib/bf/libbf_rt.so")?;
    let exports = workspace.root.join("runtime/exports.txt");
    let object = workspace.target.join(profile).join("bf_rt.o");
    runtime_object::link(files.get("libbf_rt.a")?, &exports, &object)?;
    tree.put(&object, "lib/bf/bf_rt.o")?;
    tree.put(&workspace.root.join("runtime/include/bf.h"), "include/bf.h")?;
    tree.put(&workspace.root.join("wrappers/cmake/bf-toolchain.cmake"), "share/cmake/bf-toolchain.cmake")?;
    match page::files(workspace) {
        Ok(files) => {
            files.iter().try_for_each(|(name, data)| tree.write(&format!("share/bf/page/{name}"), data, 0o644))?
        }
        // All else works without it, and `bf report --html` says what is missing.
        Err(error) => eprintln!("xtask: the report page is left out: {error:#}"),
    }
    documentation(workspace, &tree)
}

/// Files cargo built, by name.
struct Files(HashMap<String, PathBuf>);

impl Files {
    fn get(&self, name: &str) -> Result<&Path> {
        Ok(self.0.get(name).with_context(|| format!("cargo built no {name}"))?)
    }
}

struct Tree {
    prefix: PathBuf,
}

impl Tree {
    /// Copies a file to its place. It appears whole and as a new file: programs that have the old one mapped keep it,
    /// and a compiler cache that looks at times sees the change.
    fn put(&self, from: &Path, to: &str) -> Result<()> {
        let data = fs::read(from)?;
        let mode = fs::metadata(from)?.permissions().mode();
        self.write(to, &data, if mode & 0o111 == 0 { 0o644 } else { 0o755 })
    }

    /// The same for a program or library, without what only a debugger of bf itself would read.
    fn put_stripped(&self, from: &Path, to: &str) -> Result<()> {
        let stripped = from.with_extension("stripped");
        workspace::run(Command::new("objcopy").arg("--strip-debug").args([from, &stripped]))?;
        self.put(&stripped, to)
    }

    fn write(&self, to: &str, data: &[u8], mode: u32) -> Result<()> {
        let to = self.prefix.join(to);
        fs::create_dir_all(to.parent().context("no parent")?)?;
        let mut new = to.clone().into_os_string();
        new.push(".new");
        fs::write(&new, data)?;
        fs::set_permissions(&new, Permissions::from_mode(mode))?;
        fs::rename(new, to)?;
        Ok(())
    }
}

/// Manual pages and shell completions.
fn documentation(workspace: &Workspace, tree: &Tree) -> Result<()> {
    let bf = tree.prefix.join("bin/bf");
    let man = tree.prefix.join("share/man/man1");
    fs::create_dir_all(&man)?;
    workspace::run(Command::new(&bf).args(["man", "--out"]).arg(&man))?;
    tree.put(&workspace.root.join("wrappers/man/bf-clang.1"), "share/man/man1/bf-clang.1")?;
    tree.put(&workspace.root.join("wrappers/man/bf-ar.1"), "share/man/man1/bf-ar.1")?;
    tree.put(&workspace.root.join("wrappers/man/bf-cargo.1"), "share/man/man1/bf-cargo.1")?;
    tree.write("share/man/man1/bf-rustc.1", b".so man1/bf-cargo.1\n", 0o644)?;
    tree.write("share/man/man1/bf-flang.1", b".so man1/bf-clang.1\n", 0o644)?;
    tree.write("share/man/man1/bf-clang++.1", b".so man1/bf-clang.1\n", 0o644)?;
    tree.write("share/man/man1/bf-ranlib.1", b".so man1/bf-ar.1\n", 0o644)?;
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/bf"),
        ("zsh", "share/zsh/site-functions/_bf"),
        ("fish", "share/fish/vendor_completions.d/bf.fish"),
    ] {
        let output = Command::new(&bf).args(["completions", shell]).output()?;
        anyhow::ensure!(output.status.success(), "bf completions {shell} failed");
        tree.write(file, &output.stdout, 0o644)?;
    }
    Ok(())
}

//! `dist`: an install tree in an archive.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::deps::{self, Need};
use crate::install;
use xtask::workspace::{self, Workspace};

/// Arguments of `dist`.
#[derive(clap::Args)]
pub struct Args {
    /// The archive to write [default: bf-VERSION-ARCH.tar.zst in the target directory].
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    deps::ensure(Need::Dist)?;
    let name = format!("bf-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let prefix = workspace.target.join("dist").join(&name);
    if prefix.exists() {
        fs_err::remove_dir_all(&prefix)?;
    }
    install::run(workspace, &install::Args { prefix: prefix.clone(), debug: false })?;
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join(format!("{name}.tar.zst")));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--zstd", "--owner=0", "--group=0", "--sort=name", "--file"]).arg(&out);
    tar.arg("--directory").arg(workspace.target.join("dist")).arg(&name);
    workspace::run(&mut tar)?;
    println!("{}", out.display());
    Ok(())
}

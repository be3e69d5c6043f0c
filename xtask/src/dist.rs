//! `dist`: an install tree in an archive.

use std::path::PathBuf;

use anyhow::Result;
use fs_err::File;

use crate::install;
use xtask::workspace::Workspace;

/// Compression level: small, at some seconds.
const LEVEL: i32 = 19;

/// Arguments of `dist`.
#[derive(clap::Args)]
pub struct Args {
    /// The archive to write [default: bf-VERSION-ARCH.tar.zst in the target directory].
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let name = format!("bf-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let prefix = workspace.target.join("dist").join(&name);
    if prefix.exists() {
        fs_err::remove_dir_all(&prefix)?;
    }
    install::run(workspace, &install::Args { prefix: prefix.clone(), debug: false })?;
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join(format!("{name}.tar.zst")));
    let mut archive = tar::Builder::new(zstd::Encoder::new(File::create(&out)?, LEVEL)?.auto_finish());
    archive.append_dir_all(&name, &prefix)?;
    archive.finish()?;
    println!("{}", out.display());
    Ok(())
}

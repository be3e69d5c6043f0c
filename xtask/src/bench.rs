//! `bench`: builds for speed, then lets the `bench` crate measure.

use anyhow::Result;

use crate::deps::{self, Need};
use crate::install;
use xtask::workspace::{self, Workspace};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments for the measuring program; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    deps::ensure(Need::Test)?;
    let prefix = workspace.target.join("stage-release");
    install::run(workspace, &install::Args { prefix: prefix.clone(), debug: false })?;
    let mut bench = workspace.cargo();
    bench.args(["run", "--quiet", "--release", "-p", "bf-bench", "--"]).args(&args.arguments);
    workspace::run(bench.env(workspace::PREFIX, prefix))
}

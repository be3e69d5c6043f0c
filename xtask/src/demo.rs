//! `demo`: a real program, from source to report.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use fs_err as fs;

use crate::deps::{self, Need};
use crate::install;
use xtask::workspace::{self, Workspace};

/// Arguments of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Keep an install tree that is there already, whatever it was built from.
    #[arg(long)]
    no_build: bool,
}

/// Runs the command.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    deps::ensure(Need::Build)?;
    let prefix = workspace.target.join("stage");
    if !(args.no_build && prefix.join("bin/bf").exists()) {
        say("Building bf (some minutes the first time)");
        install::run(workspace, &install::Args { prefix: prefix.clone(), debug: true })?;
    }

    let dir = workspace.target.join("demo");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let sqlite = workspace.source("libsqlite3-sys")?.join("sqlite3");
    for (from, to) in [
        (sqlite.join("sqlite3.c"), "sqlite3.c"),
        (sqlite.join("sqlite3.h"), "sqlite3.h"),
        (workspace.root.join("xtask/demo/orders.c"), "orders.c"),
    ] {
        fs::copy(from, dir.join(to))?;
    }
    say(&format!("The program: SQLite and orders.c, which fills, joins and indexes two tables, in {}", dir.display()));
    step(
        &prefix,
        &dir,
        "bf-clang -O2 -g -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION sqlite3.c orders.c -o orders",
    )?;
    step(&prefix, &dir, "bf run --no-aslr -- ./orders 20000")?;
    step(&prefix, &dir, "bf report")?;

    let bin = prefix.join("bin");
    let profile = newest_profile(&dir)?;
    say("What to type next");
    println!("    export PATH={}:$PATH; cd {}", bin.display(), dir.display());
    println!("    bf query {profile} --machine skylake-sp            # the same run on another machine");
    println!("    bf query {profile} --cache L1=48K:12 --cache L2=2M:16");
    println!("    bf sweep {profile} --size 4K..256M --ways 8,16,full --plot mrc.svg");
    println!("    bf-clang -O2 -g yours.c -o yours && ./yours && bf report");
    Ok(())
}

/// Shows a command line and runs it in `dir` as its user would.
fn step(prefix: &Path, dir: &Path, line: &str) -> Result<()> {
    println!("\n$ {line}");
    let mut words = line.split_whitespace();
    let mut command = Command::new(prefix.join("bin").join(words.next().unwrap_or_default()));
    command.args(words).current_dir(dir);
    for variable in ["BF_OPTS", "BF_PROFILE", "BF_TRACE", "LD_LIBRARY_PATH"] {
        command.env_remove(variable);
    }
    workspace::run(&mut command)
}

fn newest_profile(dir: &Path) -> Result<String> {
    let mut profiles = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".bfp") {
            profiles.push(name);
        }
    }
    profiles.pop().ok_or_else(|| anyhow::anyhow!("the program left no profile in {}", dir.display()))
}

fn say(text: &str) {
    println!("\n== {text}");
}

//! Completion scripts and manual pages, from the command line's own description.

use crate::{args::Arguments, failure::Failure};
use clap::CommandFactory;
use clap_complete::Shell;
use std::{fs, io::Write, path::Path};

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "bf", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Writes `bf.1` and a page for every command.
pub fn man(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::file("write manual pages to", folder, error);
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(failed)
}

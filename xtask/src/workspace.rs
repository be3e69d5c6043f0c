//! Where things are, and how cargo is called.

use std::collections::HashMap;
use std::env;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{CargoOpt, Message, MetadataCommand};

/// Environment variable that names the install tree under test; `cargo xtask test` sets it.
pub const PREFIX: &str = "BF_PREFIX";

/// The checkout and its target directory.
#[derive(Debug)]
pub struct Workspace {
    /// Top of the checkout.
    pub root: PathBuf,
    /// Cargo's target directory, `CARGO_TARGET_DIR` honoured.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    ///
    /// Cargo fails.
    pub fn load() -> Result<Self> {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let metadata = metadata_of(&top).no_deps().exec()?;
        Ok(Self { root: metadata.workspace_root.into(), target: metadata.target_directory.into() })
    }

    /// The unpacked sources of `package`: one of the crates that come with C or C++ programs, pinned by the feature
    /// `sources` of `bf-tests`.
    ///
    /// # Errors
    ///
    /// Cargo does not know the package, or cannot fetch it.
    pub fn source(&self, package: &str) -> Result<PathBuf> {
        let metadata =
            metadata_of(&self.root).features(CargoOpt::SomeFeatures(vec!["bf-tests/sources".into()])).exec()?;
        let found = metadata.packages.iter().find(|candidate| candidate.name.as_str() == package);
        let found = found.with_context(|| format!("no package {package} among the test sources"))?;
        Ok(found.manifest_path.parent().context("manifest without a directory")?.into())
    }

    /// A cargo command in the checkout.
    #[must_use]
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo
    }

    /// Runs `cargo build` with these arguments and returns the files it made, by file name.
    ///
    /// # Errors
    ///
    /// It does not build.
    pub fn build(&self, args: &[&str], target: &Path) -> Result<HashMap<String, PathBuf>> {
        let mut cargo = self.cargo();
        cargo.args(["build", "--message-format=json-render-diagnostics", "--target-dir"]).arg(target);
        cargo.args(args).stdout(Stdio::piped());
        let mut child = cargo.spawn().context("failed to run cargo")?;
        let mut files = HashMap::new();
        for message in Message::parse_stream(BufReader::new(child.stdout.take().context("no stdout")?)) {
            if let Message::CompilerArtifact(artifact) = message? {
                let made = artifact.filenames.into_iter().chain(artifact.executable);
                files.extend(made.filter_map(|file| Some((file.file_name()?.to_owned(), file.into()))));
            }
        }
        ensure!(child.wait()?.success(), "cargo build {} failed", args.join(" "));
        Ok(files)
    }
}

fn metadata_of(root: &Path) -> MetadataCommand {
    let mut command = MetadataCommand::new();
    command.manifest_path(root.join("Cargo.toml"));
    command
}

/// Runs a command whose output is for the user.
///
/// # Errors
///
/// It cannot be run, or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("failed to run {}", show(command)))?;
    ensure!(status.success(), "{} failed: {status}", show(command));
    Ok(())
}

/// Whether a command can be run and succeeds, whatever it prints.
#[must_use]
pub fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command as its user would type it.
#[must_use]
pub fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

//! The report page's files: the engine as WebAssembly, the script in one piece, and the libraries that draw, from the npm
//! registry.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use fs_err as fs;

use crate::deps;
use xtask::workspace::{self, Workspace};

/// Where nothing but WebAssembly runs.
const WASM: &str = "wasm32-unknown-unknown";

/// The parts of the script, each after those it needs.
const SCRIPTS: [&str; 8] = ["core", "plots", "state", "whatif", "curves", "places", "compare", "main"];

/// A package of the registry.
struct Library {
    /// What it is called in its licence.
    name: &'static str,
    address: &'static str,
    /// SHA-256 of the archive.
    sha256: &'static str,
    /// The script in it.
    script: &'static str,
}

/// The libraries, each after those it needs.
const LIBRARIES: [Library; 2] = [
    Library {
        name: "D3 7.9.2",
        address: "https://registry.npmjs.org/d3/-/d3-7.9.2.tgz",
        sha256: "f0c1d2c2479907a6e3265370d0fd715f7aef0f561cdd2b415df385ba7df9d1aa",
        script: "package/dist/d3.min.js",
    },
    Library {
        name: "Observable Plot 0.6.17",
        address: "https://registry.npmjs.org/@observablehq/plot/-/plot-0.6.17.tgz",
        sha256: "4dcc9f7afd10caee8b2283c0075a5765610cfbbf6d7d93cdb153b3b5d3501afc",
        script: "package/dist/plot.umd.min.js",
    },
];

/// The files of `share/bf/page`, by name.
///
/// # Errors
///
/// The Rust library for WebAssembly cannot be added, the engine does not build, or the registry cannot be reached.
pub fn files(workspace: &Workspace) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let assets = workspace.root.join("page/assets");
    let mut script = String::new();
    for part in SCRIPTS {
        script += &fs::read_to_string(assets.join(part).with_extension("js"))?;
    }
    let (mut libraries, mut licences) = (String::new(), String::new());
    for library in &LIBRARIES {
        let folder = library.fetch(&workspace.target.join("page"))?;
        libraries += &fs::read_to_string(folder.join(library.script))?;
        libraries += "\n";
        let licence = fs::read_to_string(folder.join("package/LICENSE"))?;
        licences += &format!("{}\n\n{}\n\n", library.name, licence.trim());
    }
    Ok(vec![
        ("engine.wasm", engine(workspace)?),
        ("page.html", fs::read(assets.join("page.html"))?),
        ("page.css", fs::read(assets.join("page.css"))?),
        ("page.js", script.into_bytes()),
        ("libraries.js", libraries.into_bytes()),
        ("licences.txt", licences.into_bytes()),
    ])
}

/// Builds the engine.
fn engine(workspace: &Workspace) -> Result<Vec<u8>> {
    deps::ensure_rust_target(workspace, WASM)?;
    let files =
        workspace.build(&["--profile", "page", "--target", WASM, "-p", "bf-page", "--lib"], &workspace.target)?;
    Ok(fs::read(files.get("bf_page.wasm").context("cargo built no bf_page.wasm")?)?)
}

impl Library {
    /// The unpacked archive: as fetched before, or fetched now and checked.
    fn fetch(&self, cache: &Path) -> Result<PathBuf> {
        let folder = cache.join(self.sha256);
        if folder.exists() {
            return Ok(folder);
        }
        fs::create_dir_all(cache)?;
        // Whoever runs beside this one makes a folder of its own; the last to finish gives it the name.
        let new = tempfile::tempdir_in(cache)?;
        let archive = new.path().join("archive.tgz");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--location", "--retry", "4", "--output"]).arg(&archive);
        workspace::run(curl.arg(self.address)).with_context(|| format!("failed to fetch {}", self.name))?;
        let sum = Command::new("sha256sum").arg(&archive).output()?;
        let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
        let found = sum.split(' ').next().unwrap_or_default();
        ensure!(
            found == self.sha256,
            "{} is not what it was: its SHA-256 is {found}, not {}",
            self.address,
            self.sha256
        );
        workspace::run(
            Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(new.path()),
        )?;
        let new = new.keep();
        if let Err(error) = fs::rename(&new, &folder) {
            let _ = fs::remove_dir_all(&new);
            ensure!(folder.exists(), error);
        }
        Ok(folder)
    }
}

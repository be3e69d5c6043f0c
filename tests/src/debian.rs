//! Upstream sources of Debian packages, fetched with lists and caches of their own: the system's stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cached;

/// Where the packages come from.
const SOURCE: &str = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                      http://deb.debian.org/debian bookworm main\n";

/// The sources of a package as its authors published them, without Debian's patches. Shared: copy before building.
///
/// # Errors
/// It cannot be fetched, or its signature is wrong.
pub fn source(package: &str) -> Result<PathBuf> {
    let lists = cached::folder("debian", |folder| {
        fs::write(folder.join("sources.list"), SOURCE)?;
        fs::create_dir_all(folder.join("lists/partial"))?;
        fs::create_dir_all(folder.join("cache/archives/partial"))?;
        run(apt_get(folder).args(["update", "-qq"]))
    })?;
    let folder = cached::folder(&format!("debian-{package}"), |folder| {
        run(apt_get(&lists).args(["source", "-qq", "--download-only", package]).current_dir(folder))?;
        let description = find(folder, |name| name.ends_with(".dsc"))?;
        let mut unpack = Command::new("dpkg-source");
        // apt-get has checked the signature.
        run(unpack.args(["--no-check", "--skip-patches", "-x"]).arg(description).arg("source").current_dir(folder))
    })?;
    Ok(folder.join("source"))
}

fn apt_get(folder: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    let set = |option: &str, value: &Path| format!("{option}={}", value.display());
    for option in [
        set("Dir::Etc::sourcelist", &folder.join("sources.list")),
        set("Dir::Etc::sourceparts", Path::new("/dev/null")),
        set("Dir::State::lists", &folder.join("lists")),
        set("Dir::Cache", &folder.join("cache")),
        // The folder may be the user's own, closed to apt's.
        "APT::Sandbox::User=root".into(),
    ] {
        apt.arg("-o").arg(option);
    }
    apt
}

fn find(folder: &Path, matches: impl Fn(&str) -> bool) -> Result<PathBuf> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(&matches) {
            return Ok(path);
        }
    }
    anyhow::bail!("apt-get source left no description in {}", folder.display())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(())
}

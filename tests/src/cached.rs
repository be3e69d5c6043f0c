//! Builds that several test processes share and later runs find again, in the target directory.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use xtask::workspace::Workspace;

use crate::sandbox::Build;

/// The folder `name`, filled by `fill` unless it was before. Two that ask at once wait for each other; one that failed
/// is filled anew next time.
///
/// # Errors
/// Those of `fill`, and of the file system.
pub fn folder(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cache = cache()?;
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock()?;
    let (folder, done) = (cache.join(name), cache.join(format!("{name}.done")));
    if !done.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        fill(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
        File::create(done)?;
    }
    Ok(folder)
}

/// As [`folder`], for what a compiler makes: anew when the compiler or the `recipe` changed.
///
/// # Errors
/// As [`folder`].
pub fn built(name: &str, build: Build, recipe: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    recipe.hash(&mut hasher);
    if build == Build::Bf {
        hasher.write_u64(tree()?);
    }
    folder(&format!("{name}-{}-{:016x}", build.name(), hasher.finish()), fill)
}

fn cache() -> Result<PathBuf> {
    let cache = Workspace::load()?.target.join("tmp/bf-e2e");
    fs::create_dir_all(&cache)?;
    Ok(cache)
}

/// A number that stands for everything in the install tree that has a say in what is compiled. The runtime, a shared
/// library, has none.
fn tree() -> Result<u64> {
    static TREE: OnceLock<u64> = OnceLock::new();
    if let Some(&known) = TREE.get() {
        return Ok(known);
    }
    let mut hasher = DefaultHasher::new();
    for file in ["bin/bf-clang", "bin/bf-clang++", "bin/bf-ar", "lib/bf/libbf_pass-22.so", "include/bf.h"] {
        let file = crate::prefix().join(file);
        // The path is in every program's run path.
        file.hash(&mut hasher);
        fs::read(&file).with_context(|| file.display().to_string())?.hash(&mut hasher);
    }
    Ok(*TREE.get_or_init(|| hasher.finish()))
}

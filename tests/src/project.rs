//! Real programs, each built the way its authors say.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::sandbox::{Build, command};
use crate::{cached, debian};

/// Options of every compiler here.
const FLAGS: &str = "-O2 -g";

/// SQLite's amalgamation and `programs/sqlite_driver.c`; the program.
///
/// # Errors
/// It does not build.
pub fn sqlite(build: Build) -> Result<PathBuf> {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/sqlite_driver.c");
    let recipe = std::fs::read_to_string(driver)?;
    let sources = crate::source("libsqlite3-sys")?.join("sqlite3");
    let folder = cached::built("sqlite", build, &recipe, |folder| {
        let mut cc = command(build.cc());
        cc.args(FLAGS.split(' ')).args(["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I"]).arg(&sources);
        run(cc.arg(driver).arg(sources.join("sqlite3.c")).args(["-lm", "-o"]).arg(folder.join("shop")))
    })?;
    Ok(folder.join("shop"))
}

/// zlib by its own configure and make; the folder with `minigzip` and its other programs.
///
/// # Errors
/// It does not build.
pub fn zlib(build: Build) -> Result<PathBuf> {
    let sources = debian::source("zlib")?;
    cached::built("zlib", build, FLAGS, |folder| {
        copy(&sources, folder)?;
        run(command("./configure").env("CC", build.cc()).env("CFLAGS", FLAGS).current_dir(folder))?;
        make(folder, &[])
    })
}

/// Lua by its Makefile, with a fixed seed for its hashes, which is else taken from the clock; the folder with `lua`.
///
/// # Errors
/// It does not build.
pub fn lua(build: Build) -> Result<PathBuf> {
    let sources = debian::source("lua5.4")?;
    let flags = format!("MYCFLAGS={FLAGS} -D'luai_makeseed(L)=1u'");
    let folder = cached::built("lua", build, &flags, |folder| {
        copy(&sources, folder)?;
        make(folder, &["linux", &format!("CC={}", build.cc().display()), &flags])
    })?;
    Ok(folder.join("src"))
}

/// GNU gzip by its configure and make; the folder with `gzip`.
///
/// # Errors
/// It does not build.
pub fn gzip(build: Build) -> Result<PathBuf> {
    let sources = debian::source("gzip")?;
    cached::built("gzip", build, FLAGS, |folder| {
        copy(&sources, folder)?;
        let mut configure = command("./configure");
        run(configure.arg("-q").env("CC", build.cc()).env("CFLAGS", FLAGS).current_dir(folder))?;
        // No manual: its tools may be missing.
        make(folder, &["MAKEINFO=true"])
    })
}

/// Clipper2, a C++ library with a CMake build, and `programs/polygons`, by CMake and Ninja; the program. Warnings are
/// errors there.
///
/// # Errors
/// It does not build.
pub fn clipper(build: Build) -> Result<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/polygons");
    let recipe = std::fs::read_to_string(project.join("polygons.cpp"))?;
    let sources = crate::source("clipper2-sys")?.join("Clipper2/CPP");
    let folder = cached::built("clipper", build, &recipe, |folder| {
        // Its CMakeLists.txt writes into the source folder.
        let copied = folder.join("source");
        std::fs::create_dir(&copied)?;
        copy(&sources, &copied)?;
        let mut cmake = command("cmake");
        cmake.args(["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-S"]).arg(&project).arg("-B").arg(folder);
        cmake.arg(format!("-DCLIPPER2={}", copied.display()));
        // The compiler's own opinion of the C++ library's headers.
        cmake.arg("-DCMAKE_CXX_FLAGS=-Wno-deprecated-declarations");
        match build {
            Build::Native => cmake
                .arg(format!("-DCMAKE_C_COMPILER={}", build.cc().display()))
                .arg(format!("-DCMAKE_CXX_COMPILER={}", build.cxx().display())),
            Build::Bf => {
                let toolchain = crate::prefix().join("share/cmake/bf-toolchain.cmake");
                cmake.arg(format!("-DCMAKE_TOOLCHAIN_FILE={}", toolchain.display()))
            }
        };
        run(&mut cmake)?;
        run(command("ninja").arg("-C").arg(folder))
    })?;
    Ok(folder.join("polygons"))
}

fn make(folder: &Path, args: &[&str]) -> Result<()> {
    run(command("make").arg("-j2").args(args).current_dir(folder).env_remove("MAKEFLAGS"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-a").arg(from.join(".")).arg(to))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(())
}

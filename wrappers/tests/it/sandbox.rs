//! A directory to compile in, and what every test asks of a command.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A program that prints 42 and touches memory.
pub const HELLO: &str = r#"#include <stdio.h>
int cells[64];
int main(void) {
    for (int i = 0; i < 64; i++) cells[i] = i;
    printf("%d\n", cells[42]);
    return 0;
}
"#;

/// A temporary directory with sources.
pub struct Sandbox {
    dir: TempDir,
}

impl Sandbox {
    /// One with these files in it.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let sandbox = Self { dir: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            sandbox.write(name, text);
        }
        sandbox
    }

    /// Path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, with the directories above it.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A command that runs here, without the caller's `BF_*` variables and with English messages.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = bf_tests::sandbox::command(program);
        command.current_dir(self.dir.path()).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// `bf-clang` with the words of `line`.
    pub fn bf_clang(&self, line: &str) -> Output {
        self.tool("bf-clang", line)
    }

    /// A wrapper with the words of `line`.
    pub fn tool(&self, name: &str, line: &str) -> Output {
        self.command(bf_tests::program(name)).args(line.split_whitespace()).output().unwrap()
    }

    /// Runs a line in the shell with the wrappers first in `PATH`; it must succeed.
    pub fn shell(&self, line: &str) -> Output {
        let path = format!("{}:{}", bf_tests::prefix().join("bin").display(), std::env::var("PATH").unwrap());
        let output = self.command("sh").args(["-ec", line]).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", text(&output));
        output
    }

    /// Runs a program built here: it must print 42, nothing on stderr, and end well.
    pub fn runs(&self, name: &str) {
        let output = self.command(self.path(name)).output().unwrap();
        let got = (output.status.code(), &*output.stdout, &*output.stderr);
        assert_eq!(got, (Some(0), &b"42\n"[..], &b""[..]), "{name}: {}", text(&output));
    }

    /// Names of the profiles left here.
    pub fn profiles(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.ends_with(".bfp")).collect()
    }

    /// Whether an object file, library or program calls the runtime.
    pub fn is_instrumented(&self, name: &str) -> bool {
        mentions(&self.path(name), "bf_register_module")
    }
}

/// Whether `symbol` is in the symbol table of a file.
pub fn mentions(file: &Path, symbol: &str) -> bool {
    let output = Command::new("llvm-nm-22").arg(file).stderr(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == symbol)
}

/// It succeeded and said nothing at all.
#[track_caller]
pub fn silent(output: &Output) {
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(output));
}

/// Everything about an output, for a message.
pub fn text(output: &Output) -> String {
    let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n--- stdout\n{}\n--- stderr\n{}", output.status, part(&output.stdout), part(&output.stderr))
}

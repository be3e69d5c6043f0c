//! The compilers of the LLVM that the plugin was built for, and the recorder that programs are linked with.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use tempfile::TempDir;

/// The LLVM version that the plugin was built for.
pub(crate) const VERSION: &str = if cfg!(feature = "llvm22") { "22" } else { "19" };

/// The plugin. Cargo builds it together with this test and puts it beside it.
pub(crate) fn plugin() -> PathBuf {
    let plugin = env::current_exe().unwrap().with_file_name("libbf_pass.so");
    assert!(plugin.exists(), "{} was not built", plugin.display());
    plugin
}

/// The folder of the programs.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A folder for the outputs of one test.
pub(crate) struct Workshop {
    folder: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a source file.
    pub(crate) fn source(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A compiler with the plugin and with LLVM's verifier, which released compilers leave out otherwise; the verifier
    /// aborts the compiler if the plugin broke the module.
    pub(crate) fn clang(&self, source: &Path) -> Command {
        let cpp = source.extension() == Some(OsStr::new("cpp"));
        let mut command = self.tool(if cpp { "clang++" } else { "clang" });
        command.arg(format!("-fpass-plugin={}", plugin().display()));
        command.args(["-fverify-intermediate-code", "-Wno-override-module", "-I"]).arg(fixtures()).arg(source);
        command
    }

    /// A tool of the LLVM version, run in this folder without options from outside.
    pub(crate) fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(format!("{name}-{VERSION}"));
        command.current_dir(self.folder.path()).env_remove("BF_OPTS").env_remove("BF_PASS_OPTS");
        command
    }

    /// Compiles the recorder, without the plugin.
    pub(crate) fn recorder(&self) -> PathBuf {
        let object = self.path("recorder.o");
        let source = fixtures().join("recorder.c");
        succeed(self.tool("clang").args(["-O2", "-fPIC", "-c"]).arg(source).arg("-o").arg(&object));
        object
    }

    /// Compiles and links a program, runs it, and returns what the recorder wrote. Flags that begin with `-bf-` are the
    /// plugin's.
    pub(crate) fn record(&self, source: &Path, flags: &[&str]) -> String {
        let (program, record) = (self.path("program"), self.path("record"));
        let (options, flags): (Vec<&str>, Vec<&str>) = flags.iter().partition(|flag| flag.starts_with("-bf-"));
        let mut clang = self.clang(source);
        clang.args(flags).args(["-x", "none"]).arg(self.recorder()).arg("-o").arg(&program);
        succeed(clang.env("BF_PASS_OPTS", options.join("\n")));
        succeed(Command::new(program).current_dir(self.folder.path()).env("RECORD", &record));
        fs::read_to_string(record).unwrap()
    }

    /// The same, each access with where it comes from.
    pub(crate) fn record_origins(&self, source: &Path, flags: &[&str]) -> String {
        self.record(source, flags);
        let record = self.path("origins");
        let mut run = Command::new(self.path("program"));
        succeed(run.current_dir(self.folder.path()).env("RECORD", &record).env("RECORD_ORIGINS", "1"));
        fs::read_to_string(record).unwrap()
    }

    /// The module that compiling a source gives, as text.
    pub(crate) fn module(&self, source: &Path, flags: &[&str]) -> String {
        let module = self.path("module.ll");
        succeed(self.clang(source).args(flags).args(["-S", "-emit-llvm", "-o"]).arg(&module));
        fs::read_to_string(module).unwrap()
    }
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

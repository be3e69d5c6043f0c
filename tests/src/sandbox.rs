//! A folder of its own for a test, and the programs that are compiled and run there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bf_profile::Profile;
use tempfile::TempDir;

/// With or without bf. The native compiler is the one that the wrappers call: LLVM 22's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Build {
    /// The compiler itself.
    Native,
    /// Through the wrapper.
    Bf,
}

impl Build {
    /// The C compiler.
    #[must_use]
    pub fn cc(self) -> PathBuf {
        match self {
            Self::Native => "clang-22".into(),
            Self::Bf => crate::program("bf-clang"),
        }
    }

    /// The C++ compiler.
    #[must_use]
    pub fn cxx(self) -> PathBuf {
        match self {
            Self::Native => "clang++-22".into(),
            Self::Bf => crate::program("bf-clang++"),
        }
    }

    /// Short name, for folders.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bf => "bf",
        }
    }
}

/// A command without any `BF_*` variable of the caller's, and without the library path that cargo sets: it leads to
/// another build of the runtime.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH");
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("BF_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Runs a command to its successful end.
///
/// # Panics
/// It cannot be run, or fails.
#[must_use]
pub fn succeed(command: &mut Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output.stderr));
    output
}

/// Runs a command to its end.
///
/// # Panics
/// It cannot be run.
#[must_use]
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a program printed.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The folder. It goes when dropped.
#[derive(Debug)]
pub struct Sandbox {
    dir: TempDir,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// An empty folder.
    ///
    /// # Panics
    /// There can be none.
    #[must_use]
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.file(name), text).expect("the folder can be written");
    }

    /// A command that runs here, without any `BF_*` variable.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = command(program);
        command.current_dir(self.path());
        command
    }

    /// A command that runs a program of this folder, with nothing of the caller's environment, so that two runs start
    /// with the same stack.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.file(name));
        command.current_dir(self.path()).env_clear();
        command
    }

    /// Compiles with `bf-clang`; the arguments name sources and output.
    ///
    /// # Panics
    /// It does not compile, or says anything.
    pub fn bf_clang<'a>(&self, args: impl IntoIterator<Item = &'a str>) {
        self.compile(&mut self.command(Build::Bf.cc()), args);
    }

    /// Runs a compiler that must succeed in silence.
    ///
    /// # Panics
    /// It does not compile, or says anything.
    pub fn compile<'a>(&self, compiler: &mut Command, args: impl IntoIterator<Item = &'a str>) {
        let output = succeed(compiler.args(args));
        assert_eq!(text(&output.stdout) + &text(&output.stderr), "", "{compiler:?} is silent");
    }

    /// Compiles a C program from its text, to `a.out`.
    ///
    /// # Panics
    /// As [`Sandbox::bf_clang`].
    pub fn c(&self, source: &str, args: &[&str]) {
        self.write("a.c", source);
        self.bf_clang(["a.c", "-o", "a.out"].iter().chain(args).copied());
    }

    /// Runs `bf`, which must succeed, and gives what it prints as JSON.
    ///
    /// # Panics
    /// It fails, or prints something else.
    #[must_use]
    pub fn bf(&self, args: &[&str]) -> serde_json::Value {
        let output = succeed(self.command(crate::program("bf")).args(args).args(["--format", "json"]));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
    }

    /// Profiles here, by name.
    ///
    /// # Panics
    /// The folder cannot be read.
    #[must_use]
    pub fn profile_files(&self) -> Vec<PathBuf> {
        let entries = self.path().read_dir().expect("the folder can be read");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "bfp"));
        files.sort();
        files
    }

    /// Takes the profiles out of the folder.
    ///
    /// # Panics
    /// One of them is no sound profile.
    #[must_use]
    pub fn take_profiles(&self) -> Vec<Profile> {
        let files = self.profile_files();
        let profiles = files.iter().map(|file| {
            let profile = read(file);
            std::fs::remove_file(file).expect("the folder can be written");
            profile
        });
        profiles.collect()
    }

    /// Takes the one profile out of the folder.
    ///
    /// # Panics
    /// There is none, there are several, or it is no sound profile.
    #[must_use]
    pub fn take_profile(&self) -> Profile {
        let files = self.profile_files();
        let [_] = files.as_slice() else { panic!("one profile is expected, not {files:?}") };
        self.take_profiles().remove(0)
    }
}

/// Reads a profile, with all checks.
///
/// # Panics
/// It is no sound profile.
#[must_use]
pub fn read(file: &Path) -> Profile {
    bf_profile::read_file(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A profile without what differs between any two runs: times and process ids.
#[must_use]
pub fn timeless(mut profile: Profile) -> Profile {
    for process in &mut profile.processes {
        let meta = &mut process.meta;
        (meta.pid, meta.parent, meta.start_ns, meta.elapsed_ns) = (0, 0, 0, 0);
    }
    profile
}

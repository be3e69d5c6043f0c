//! Real programs, built by their own build systems with the wrappers: nobody who runs them can tell, and each leaves a
//! profile, twice the same where addresses are not random.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::Result;
use bf_tests::project::{clipper, gzip, lua, sqlite, zlib};
use bf_tests::sandbox::{Build, Sandbox, command, output, text, timeless};

/// A program and how it is run.
struct Program<'a> {
    native: PathBuf,
    bf: PathBuf,
    args: &'a [&'a str],
    /// What it finds in its folder.
    files: &'a [(&'a str, &'a [u8])],
    /// The file it leaves there, if any.
    leaves: Option<&'a str>,
    /// Fewer accesses would mean that something was not instrumented.
    at_least: u64,
    /// A source file of it.
    module: &'a str,
}

impl Program<'_> {
    fn check(&self) {
        let sandbox = Sandbox::new();
        let run = |executable: &Path| {
            // A program may have eaten its input.
            self.files.iter().for_each(|(name, bytes)| sandbox.write(name, bytes));
            let mut command = Command::new("setarch");
            command.arg("-R").arg(executable).args(self.args).current_dir(sandbox.path()).env_clear();
            // A program that is run in its build folder finds its libraries there.
            command.env("LD_LIBRARY_PATH", executable.parent().expect("an absolute path"));
            let output = output(&mut command);
            let left = self.leaves.map(|name| {
                let left = fs::read(sandbox.file(name)).expect("the program leaves a file");
                fs::remove_file(sandbox.file(name)).expect("the folder can be written");
                left
            });
            (output, left)
        };
        let native = run(&self.native);
        let profiles = [(); 2].map(|()| {
            same(&native, &run(&self.bf));
            sandbox.take_profile()
        });

        let process = &profiles[0].processes[0];
        assert!(process.meta.accesses >= self.at_least, "{} accesses", process.meta.accesses);
        assert_eq!((process.meta.aslr, process.meta.dropped), (Some(false), 0));
        assert!(process.meta.modules.iter().any(|name| name.ends_with(self.module)), "{:?}", process.meta.modules);
        assert_eq!(process.log, Vec::<String>::new());
        let [first, second] = profiles.map(timeless);
        assert_eq!(first, second, "two runs leave the same profile");
    }
}

fn same(native: &(Output, Option<Vec<u8>>), bf: &(Output, Option<Vec<u8>>)) {
    assert_eq!(text(&bf.0.stdout), text(&native.0.stdout));
    assert_eq!(text(&bf.0.stderr), text(&native.0.stderr));
    assert_eq!(bf.0.status, native.0.status);
    assert!(bf.1 == native.1, "the file it leaves is the same");
}

/// Builds both versions side by side.
fn both(build: impl Fn(Build) -> Result<PathBuf> + Sync) -> [PathBuf; 2] {
    std::thread::scope(|scope| {
        [Build::Native, Build::Bf]
            .map(|which| {
                scope.spawn({
                    let build = &build;
                    move || build(which)
                })
            })
            .map(|thread| thread.join().expect("no panic").unwrap_or_else(|error| panic!("{error:?}")))
    })
}

/// Text that compresses, but not at once.
fn text_to_compress() -> Vec<u8> {
    let mut state = 1_u32;
    let words = ["cache", "line", "set", "way", "miss", "write-back", "reuse", "distance"];
    (0..20_000)
        .flat_map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("{} {}{}", words[(state >> 29) as usize], state >> 22, if i % 9 == 0 { '\n' } else { ' ' })
                .into_bytes()
        })
        .collect()
}

#[test]
fn sqlite_compiled_by_hand() {
    let [native, bf] = both(sqlite);
    let program =
        Program { native, bf, args: &["30000"], files: &[], leaves: None, at_least: 100_000_000, module: "sqlite3.c" };
    program.check();
}

#[test]
fn zlib_with_its_own_configure() {
    let [native, bf] = both(zlib);
    let data = text_to_compress();
    // One with the static library, one with the shared library, each instrumented.
    for program in ["minigzip", "minigzipsh"] {
        let program = Program {
            native: native.join(program),
            bf: bf.join(program),
            args: &["-9", "data"],
            files: &[("data", &data)],
            leaves: Some("data.gz"),
            at_least: 2_000_000,
            module: "deflate.c",
        };
        program.check();
    }
}

#[test]
fn lua_with_its_makefile() {
    let [native, bf] = both(lua);
    let script = include_bytes!("../programs/bodies.lua");
    let program = Program {
        native: native.join("lua"),
        bf: bf.join("lua"),
        args: &["script.lua"],
        files: &[("script.lua", script)],
        leaves: None,
        at_least: 10_000_000,
        module: "lvm.c",
    };
    program.check();
}

#[test]
fn clipper_with_cmake_and_ninja() {
    let [native, bf] = both(clipper);
    let program =
        Program { native, bf, args: &[], files: &[], leaves: None, at_least: 1_000_000, module: "clipper.engine.cpp" };
    program.check();
}

#[test]
fn gzip_with_autotools() {
    let [native, bf] = both(gzip);
    let data = text_to_compress();
    let program = Program {
        native: native.join("gzip"),
        bf: bf.join("gzip"),
        args: &["--best", "--keep", "--no-name", "data"],
        files: &[("data", &data)],
        leaves: Some("data.gz"),
        at_least: 2_000_000,
        module: "deflate.c",
    };
    program.check();
    // What configure found out does not depend on the compiler.
    let found =
        [&native, &bf].map(|folder| fs::read_to_string(folder.join("lib/config.h")).expect("configure writes it"));
    assert_eq!(found[0], found[1]);
    // And a program with nothing to do says the same.
    let [native, bf] =
        [native, bf].map(|folder| output(command(folder.join("gzip")).arg("no-such-file").current_dir(&folder)));
    assert_eq!(text(&bf.stderr).replace("-bf-", ""), text(&native.stderr).replace("-native-", ""));
    assert_eq!(bf.status, native.status);
}

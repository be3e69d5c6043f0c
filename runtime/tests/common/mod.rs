//! Programs that record by hand (`tests/programs`), compiled once, run in a directory of their own.
#![expect(dead_code, reason = "every test file uses some of it")]

use bf_profile::{EndReason, Histograms, Owner, Process, read_file};
use bf_tests::cached::built;
use bf_tests::sandbox::Build;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Where cargo puts what it builds for this test, the shared runtime among it.
pub fn libraries() -> PathBuf {
    let mut directory = std::env::current_exe().unwrap();
    directory.pop();
    if directory.join("libbf_rt.so").exists() { directory } else { directory.join("..") }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn compile(name: &str, to: &Path, options: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-D__BF__", "-O2", "-g", "-Wall", "-Werror", "-Wno-infinite-recursion", "-pthread"]);
    cc.arg(source(name)).args(options).arg("-o").arg(to);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The compiled programs: `lives`, `chaos`, `busy`, `library.so`, and `host`, in two ways, which all tests share and later runs find
/// again.
pub fn programs() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let from = libraries();
        let (search, runpath) = (format!("-L{}", from.display()), format!("-Wl,-rpath,{}", from.display()));
        let library = [search.as_str(), runpath.as_str(), "-lbf_rt", "-lm"];
        let with = |options: &[&'static str]| [&["-Wl,--no-as-needed"], options, &library].concat();
        let programs = [
            ("lives.c", "lives", with(&[])),
            ("chaos.c", "chaos", with(&[])),
            ("busy.c", "busy", with(&["-no-pie", "-rdynamic"])),
            ("library.c", "library.so", with(&["-shared", "-fPIC"])),
            ("host.c", "host", vec!["-Wl,-z,lazy,-z,norelro"]),
            ("host.c", "host-now", vec!["-fpie", "-pie", "-Wl,-z,now,-z,relro"]),
        ];
        let sources = ["lives.c", "chaos.c", "busy.c", "library.c", "host.c", "bf_by_hand.h"].map(source);
        let sources = sources.map(|source| fs::read_to_string(source).unwrap());
        let fill = |directory: &Path| {
            programs.iter().for_each(|(from, to, options)| compile(from, &directory.join(to), options));
            Ok(())
        };
        built("runtime", Build::Native, &format!("{programs:?} {sources:?}"), fill).unwrap()
    })
}

/// `lives` linked with the runtime as one object, in every way there is, into a directory.
pub fn static_programs(directory: &Path) -> Vec<PathBuf> {
    let object = directory.join("bf_rt.o");
    let exports = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("exports.txt")).unwrap();
    let exports: Vec<_> = exports.lines().filter(|line| !line.starts_with('#')).collect();
    let mut ld = Command::new("ld");
    ld.args(["-r", "--gc-sections", "-o"]).arg(&object).args(exports.iter().flat_map(|name| ["-u", name]));
    ld.args(["malloc", "calloc", "realloc", "free"].map(|name| format!("--wrap={name}")));
    assert!(ld.arg(libraries().join("libbf_rt.a")).status().unwrap().success());
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--strip-debug", "--strip-unneeded"]);
    objcopy.args(exports.iter().map(|name| format!("--keep-global-symbol={name}")));
    assert!(objcopy.arg(&object).status().unwrap().success());
    let object = object.to_str().unwrap();
    let ways: [(&str, &[&str]); 4] =
        [("static", &["-static"]), ("static-pie", &["-static-pie"]), ("pie", &["-pie"]), ("no-pie", &["-no-pie"])];
    let link = |(name, options): (&str, &[&str])| {
        let program = directory.join(name);
        compile("lives.c", &program, &[&["-DNO_DLOPEN"], options, &[object, "-lm"]].concat());
        program
    };
    ways.map(link).to_vec()
}

/// A finished run.
pub struct Run {
    /// Where it ran and left its files.
    pub directory: TempDir,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its process number.
    pub pid: u32,
}

/// Runs `lives` with these arguments and variables.
pub fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    run_in(TempDir::new().unwrap(), arguments, variables)
}

/// The same in a given directory.
pub fn run_in(directory: TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    start(&programs().join("lives"), directory, arguments, variables)
}

/// Runs `busy` with these arguments and variables.
pub fn run_busy(arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    start(&programs().join("busy"), TempDir::new().unwrap(), arguments, variables)
}

/// Runs another program than `lives`.
pub fn run_program(program: &Path, arguments: &[&str]) -> Run {
    start(program, TempDir::new().unwrap(), arguments, &[])
}

fn start(program: &Path, directory: TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BF_")) {
        command.env_remove(name);
    }
    // Cargo names the folder of an older build before the one that the run path names.
    command.env_remove("LD_LIBRARY_PATH");
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
    command.args(arguments).envs(variables.iter().copied()).env("PATH", path).current_dir(directory.path());
    let child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { directory, status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr), pid }
}

impl Run {
    /// Names of the files it left, sorted, with its own process number written `PID`.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(|entry| name(entry).replace(&self.pid.to_string(), "PID")).collect();
        names.sort();
        names
    }

    /// The profile under this name (`PID` stands for the process number).
    pub fn profile(&self, name: &str) -> Process {
        let path = self.directory.path().join(name.replace("PID", &self.pid.to_string()));
        let mut profile = read_file(path).unwrap();
        assert_eq!(profile.processes.len(), 1);
        profile.processes.pop().unwrap()
    }

    /// The only profile, of the process itself.
    pub fn only(&self) -> Process {
        assert_eq!(self.stderr, "");
        assert_eq!(self.files(), ["lives.PID.bfp"]);
        self.profile("lives.PID.bfp")
    }

    /// All profiles but the process's own.
    pub fn others(&self) -> Vec<Process> {
        let names = self.files();
        let others = names.iter().filter(|name| *name != "lives.PID.bfp");
        others.map(|name| self.profile(name)).collect()
    }

    /// Exit code, or minus the signal.
    pub fn code(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|signal| -signal)).unwrap()
    }
}

/// Counted references by slot: loads and stores of all tags.
pub fn by_slot(process: &Process) -> Vec<[u64; 2]> {
    let mut sums: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for stack in &process.lines[0].stacks {
        if let Owner::Slot(slot) = stack.owner {
            let sum = sums.entry(slot).or_default();
            let [loads, stores] = stack.histograms.references;
            *sum = [sum[0] + loads, sum[1] + stores];
        }
    }
    sums.into_values().collect()
}

/// Counted references of all threads: loads, stores.
pub fn references(process: &Process) -> [u64; 2] {
    by_slot(process).iter().fold([0, 0], |sum, slot| [sum[0] + slot[0], sum[1] + slot[1]])
}

/// The histograms of slot 0 under this tag.
pub fn tagged<'a>(process: &'a Process, tag: &str) -> &'a Histograms {
    let index = process.tags.iter().position(|name| name == tag).unwrap() as u32;
    let stacks = &process.lines[0].stacks;
    &stacks.iter().find(|stack| stack.owner == Owner::Slot(0) && stack.tag == index).unwrap().histograms
}

/// Loads, and why the profile was written.
pub fn loads_and_end(process: &Process) -> (u64, EndReason) {
    (references(process)[0], process.meta.end.clone())
}

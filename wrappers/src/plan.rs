//! The command that is run in the wrapper's place.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::options::{self, Ours};
use crate::response::{self, Word};
use crate::scan::{Scan, scan};
use crate::toolchain::{self, Compiler, Tree};
use crate::{Error, Tool};

/// Environment variable that carries our options to the pass, one a line.
pub const PASS_OPTIONS: &str = "BF_PASS_OPTS";

/// Between these two no option of ours is reported as unused, whatever the command turns out to do.
const QUIET: [&str; 2] = ["--start-no-unused-arguments", "--end-no-unused-arguments"];

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The program to run.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Value of [`PASS_OPTIONS`]; `None`: not set.
    pub pass_options: Option<OsString>,
    /// Other variables.
    pub env: Vec<(&'static str, OsString)>,
}

impl Plan {
    /// `program` with the user's arguments and nothing else.
    #[must_use]
    pub fn plain(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { program, args, pass_options: None, env: Vec::new() }
    }

    /// As a line a shell would run.
    #[must_use]
    pub fn shell(&self) -> String {
        let mut words = Vec::new();
        if let Some(value) = &self.pass_options {
            words.push(format!("{PASS_OPTIONS}={}", quote(value)));
        }
        words.extend(self.env.iter().map(|(name, value)| format!("{name}={}", quote(value))));
        words.push(quote(self.program.as_os_str()));
        words.extend(self.args.iter().map(|arg| quote(arg)));
        words.join(" ") + "\n"
    }
}

fn quote(word: &OsStr) -> String {
    // A word cannot hold NUL, the one thing the crate refuses.
    let bytes = shlex::bytes::try_quote(word.as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The compiler's command for these arguments of ours.
///
/// # Errors
///
/// An option of ours is wrong, or there is no compiler or no pass for it.
pub fn compiler(tool: Tool, args: Vec<OsString>, tree: &Tree) -> Result<Plan, Error> {
    let mut words = response::expand(args);
    let ours = options::take(&mut words).map_err(|error| Error::Option(error, tool.name()))?;
    let scan = scan(&words);
    let compiler = toolchain::compiler(tool, tree)?;
    if ours.disable || options::disabled_by_environment() || scan.not_gcc_like || scan.foreign_target {
        let Compiler { program, mut first_args, .. } = compiler;
        if tool != Tool::Flang && !scan.not_gcc_like {
            // Without `__BF__` what it declares does nothing.
            first_args.push(QUIET[0].into());
            first_args.extend(header(tree));
            first_args.push(QUIET[1].into());
        }
        first_args.extend(words.into_iter().map(|word| word.given));
        return Ok(Plan::plain(program, first_args));
    }
    let mut plan = assemble(tool, compiler, &words, &ours, &scan, tree)?;
    if tool == Tool::Flang {
        // It knows no such options, and does not warn of others.
        plan.args.retain(|arg| !QUIET.iter().any(|quiet| arg == quiet));
    }
    Ok(plan)
}

fn assemble(
    tool: Tool,
    compiler: Compiler,
    words: &[Word],
    ours: &Ours,
    scan: &Scan,
    tree: &Tree,
) -> Result<Plan, Error> {
    let mut args = compiler.first_args.clone();
    args.push(QUIET[0].into());
    if !scan.freestanding {
        if !scan.has_pass {
            args.push(joined("-fpass-plugin=", toolchain::pass(&compiler, tree)?.as_os_str()));
        }
        if tool != Tool::Flang {
            args.push("-D__BF__=1".into());
        }
    }
    if tool != Tool::Flang {
        args.extend(header(tree));
    }
    args.push(QUIET[1].into());
    let runtime_at = scan.runtime_before.unwrap_or(words.len());
    args.extend(words[..runtime_at].iter().map(|word| word.given.clone()));
    args.extend(runtime(scan, tree));
    args.extend(words[runtime_at..].iter().map(|word| word.given.clone()));
    let pass_options = (!ours.options.is_empty()).then(|| ours.options.join(OsStr::new("\n")));
    Ok(Plan { program: compiler.program, args, pass_options, env: Vec::new() })
}

/// Where `bf.h` is found, after all other headers.
fn header(tree: &Tree) -> [OsString; 2] {
    ["-idirafter".into(), tree.include().into_os_string()]
}

/// What links the runtime; empty if nothing is to be linked.
fn runtime(scan: &Scan, tree: &Tree) -> Vec<OsString> {
    // A static program without a C library is none that the runtime could live in.
    if !scan.links || scan.relocatable || (scan.static_ && scan.no_libc) {
        return Vec::new();
    }
    let lib = tree.lib();
    let mut args: Vec<OsString> = vec![QUIET[0].into()];
    if scan.language.is_some() {
        args.extend(["-x".into(), "none".into()]);
    }
    if scan.static_ {
        args.push(lib.join("bf_rt.o").into_os_string());
    } else {
        if scan.shared {
            // Threads and exit handlers may still run instrumented code when the library is unloaded.
            args.push("-Wl,-z,nodelete".into());
        }
        args.push("-Wl,--push-state,-Bdynamic,--no-as-needed".into());
        args.push(lib.join("libbf_rt.so").into_os_string());
        args.extend(["-Wl,--pop-state".into(), "-Xlinker".into(), "-rpath".into()]);
        args.extend(["-Xlinker".into(), run_path(scan, lib)]);
    }
    if let (Some(language), true) = (&scan.language, scan.runtime_before.is_some()) {
        args.extend(["-x".into(), language.into()]);
    }
    args.push(QUIET[1].into());
    args
}

/// GNU ld takes `LD_RUN_PATH` only while no run path is given: with ours given, it must go in front of it.
///
/// The path ends in a slash because the linker lets the name of a symbol share the end of any longer string: a function
/// `f` would lie in `…/lib/bf`, and CMake, which edits run paths when it installs, would take its name away.
fn run_path(scan: &Scan, lib: PathBuf) -> OsString {
    let lib = lib.join("").into_os_string();
    match env::var_os("LD_RUN_PATH") {
        Some(users) if !scan.has_rpath && !users.is_empty() => joined_with(users, b":", &lib),
        _ => lib,
    }
}

pub(crate) fn joined(prefix: &str, value: &OsStr) -> OsString {
    joined_with(prefix.into(), b"", value)
}

fn joined_with(first: OsString, between: &[u8], last: &OsStr) -> OsString {
    let mut bytes = first.into_vec();
    bytes.extend_from_slice(between);
    bytes.extend_from_slice(last.as_bytes());
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plan(line: &str) -> Plan {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib/bf");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join("libbf_pass-22.so"), "").unwrap();
        let compiler = Compiler { program: "/usr/bin/clang-22".into(), first_args: Vec::new(), major: 22 };
        let mut words = response::expand(response::split(line.as_bytes()));
        let ours = options::take(&mut words).unwrap();
        let mut plan = assemble(Tool::Clang, compiler, &words, &ours, &scan(&words), &Tree::at(dir.path())).unwrap();
        // Paths in the tree are the same for every test.
        for arg in &mut plan.args {
            *arg = arg.to_string_lossy().replace(&*dir.path().to_string_lossy(), "/p").into();
        }
        plan
    }

    const COMPILE: &str = "--start-no-unused-arguments -fpass-plugin=/p/lib/bf/libbf_pass-22.so -D__BF__=1 \
                           -idirafter /p/include --end-no-unused-arguments";
    const SHARED: &str = "-Wl,--push-state,-Bdynamic,--no-as-needed /p/lib/bf/libbf_rt.so -Wl,--pop-state \
                          -Xlinker -rpath -Xlinker /p/lib/bf/";
    const START: &str = "--start-no-unused-arguments";
    const END: &str = "--end-no-unused-arguments";

    #[test]
    fn commands_are_put_together() {
        for (line, expected) in [
            ("-c a.c", format!("{COMPILE} -c a.c")),
            ("a.c", format!("{COMPILE} a.c {START} {SHARED} {END}")),
            ("-x c - -o a", format!("{COMPILE} -x c - -o a {START} -x none {SHARED} {END}")),
            ("-x c -- a", format!("{COMPILE} -x c {START} -x none {SHARED} -x c {END} -- a")),
            ("a.o -lc", format!("{COMPILE} a.o {START} {SHARED} {END} -lc")),
            ("-static a.o", format!("{COMPILE} -static a.o {START} /p/lib/bf/bf_rt.o {END}")),
            ("-shared a.o", format!("{COMPILE} -shared a.o {START} -Wl,-z,nodelete {SHARED} {END}")),
            ("-nostdlib a.o -lgcc", format!("{COMPILE} -nostdlib a.o -lgcc {START} {SHARED} {END}")),
            ("-static -nostdlib a.o", format!("{COMPILE} -static -nostdlib a.o")),
            ("-r a.o", format!("{COMPILE} -r a.o")),
            ("-ffreestanding -c a.c", format!("{START} -idirafter /p/include {END} -ffreestanding -c a.c")),
        ] {
            let args: Vec<_> = plan(line).args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
            assert_eq!(args.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn options_travel_one_a_line() {
        let plan = plan("-bf-line-size=64,128 -c a.c -bf-exclude=f,g");
        assert_eq!(plan.pass_options.as_deref(), Some(OsStr::new("-bf-line-size=64,128\n-bf-exclude=f,g")));
        assert!(!plan.args.iter().any(|arg| arg.to_string_lossy().contains("-bf-")));
    }

    #[test]
    fn a_pass_given_by_the_user_is_not_given_again() {
        let plan = plan("-fpass-plugin=/q/libbf_pass-22.so -c a.c");
        assert_eq!(plan.args.iter().filter(|arg| arg.to_string_lossy().starts_with("-fpass-plugin")).count(), 1);
    }

    #[test]
    fn a_missing_pass_is_named() {
        let compiler = Compiler { program: "/usr/bin/clang-21".into(), first_args: Vec::new(), major: 21 };
        let error = toolchain::pass(&compiler, &Tree::at(Path::new("/nowhere"))).unwrap_err();
        let expected = "no pass for clang 21: /nowhere/lib/bf/libbf_pass-21.so is missing; use one of: none";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn the_shown_command_is_one_a_shell_reads_back() {
        let mut plan = Plan::plain("/usr/bin/clang".into(), vec!["-DX=\"a b\"".into(), "it's.c".into()]);
        plan.pass_options = Some("-bf-verbose\n-bf-max-ways=8".into());
        let words = shlex::split(plan.shell().trim_end()).unwrap();
        assert_eq!(words, ["BF_PASS_OPTS=-bf-verbose\n-bf-max-ways=8", "/usr/bin/clang", "-DX=\"a b\"", "it's.c"]);
    }
}

//! `bf-rustc` and `bf-cargo`: Rust's compiler with the pass, and Cargo with that compiler.
//!
//! `rustc` loads a pass by an unstable option, so it runs with `RUSTC_BOOTSTRAP=1`. Cargo is told by the environment, and builds
//! for a target that it is told: so build scripts and procedural macros, which run in the compiler, are left alone. Options for
//! compilers in the environment are in the place of those that are configured, so it is told those as well.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use cargo_platform::{Cfg, Platform};
use serde_json::Value;

use crate::options::{self, Ours};
use crate::plan::{Plan, joined};
use crate::response::Word;
use crate::toolchain::{self, Tree};
use crate::{Error, Tool};

/// Options that Cargo passes on to the compiler, and to who compiles and links what is written in comments: the variable that has one
/// after the other, the one that has blanks in between, and what they are called in the configuration.
const FLAGS: [[&str; 3]; 2] = [
    ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "rustflags"],
    ["CARGO_ENCODED_RUSTDOCFLAGS", "RUSTDOCFLAGS", "rustdocflags"],
];
const SEPARATOR: &[u8] = b"\x1f";

/// What is asked of a Rust toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toolchain {
    /// The target that it builds for unless told otherwise.
    host: String,
    /// Version of its LLVM.
    major: u32,
}

/// The command for these arguments: `+TOOLCHAIN` first, then options of ours and of the tool, up to `--` in any order.
///
/// # Errors
///
/// An option of ours is wrong, there is no Rust toolchain or no pass for its LLVM, or it is to build for another target.
pub fn plan(tool: Tool, mut args: Vec<OsString>, tree: &Tree) -> Result<Plan, Error> {
    let chosen: Vec<_> = args.extract_if(..args.len().min(1), |arg| arg.as_bytes().starts_with(b"+")).collect();
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let ours = args.extract_if(..end, |arg| options::is_ours(arg));
    let mut words = ours.map(|given| Word { given, expansion: None }).collect();
    let ours = options::take(&mut words).map_err(|error| Error::Option(error, tool.name()))?;
    let name = if tool == Tool::Cargo { "cargo" } else { "rustc" };
    let program = which::which(name).map_err(|_| toolchain::Error::NoRust(name))?;
    if ours.disable || options::disabled_by_environment() {
        return Ok(Plan::plain(program, chosen.into_iter().chain(args).collect()));
    }
    let toolchain = ask(&chosen)?;
    let pass = tree.pass(toolchain.major);
    if !pass.exists() {
        let path = pass.display().to_string();
        return Err(toolchain::Error::NoPassForRust { major: toolchain.major, path }.into());
    }
    let config = if tool == Tool::Cargo { configuration(program.as_os_str(), &chosen, &args) } else { Value::Null };
    let target = target(&args).or_else(|| target_of(&config));
    if let Some(other) = target.as_ref().filter(|target| **target != *toolchain.host) {
        return Err(toolchain::Error::ForeignTarget(other.to_string_lossy().into_owned()).into());
    }
    let mut flags: Vec<OsString> = vec![
        joined("-Zllvm-plugins=", pass.as_os_str()),
        // In front of the C library, whose place it takes in part, and of all that needs it.
        "-Zpre-link-arg=-Wl,--push-state,--no-as-needed".into(),
        joined("-Zpre-link-arg=", tree.lib().join("libbf_rt.so").as_os_str()),
        "-Zpre-link-arg=-Wl,--pop-state".into(),
        joined("-Clink-arg=-Wl,-z,nodelete,-rpath,", tree.lib().join("").as_os_str()),
    ];
    let mut env = vec![("RUSTC_BOOTSTRAP", OsString::from("1"))];
    let mut all = chosen;
    if tool == Tool::Cargo {
        if let Some(options) = joined_options(&ours, " ") {
            // Cargo does not see what only the pass is told, and would not compile again.
            flags.push(format!("--cfg=bf={:?}", options.to_string_lossy()).into());
        }
        for [encoded, plain, key] in FLAGS {
            let configured = || configured(key, &config, &all, &toolchain.host).unwrap_or_default();
            env.push((encoded, with_users(encoded, plain, configured, &flags)));
        }
        if target.is_none() {
            env.push(("CARGO_BUILD_TARGET", toolchain.host.into()));
        }
    } else {
        all.append(&mut flags);
    }
    all.append(&mut args);
    Ok(Plan { program, args: all, pass_options: joined_options(&ours, "\n"), env })
}

fn joined_options(ours: &Ours, between: &str) -> Option<OsString> {
    (!ours.options.is_empty()).then(|| ours.options.join(OsStr::new(between)))
}

/// Those of the user, as Cargo would find them in the environment or, if there are none, those that are configured; then `flags`.
fn with_users(encoded: &str, plain: &str, configured: impl FnOnce() -> Vec<Vec<u8>>, flags: &[OsString]) -> OsString {
    let users = match (env::var_os(encoded), env::var_os(plain)) {
        (Some(encoded), _) => encoded.as_bytes().split(|&byte| byte == SEPARATOR[0]).map(<[u8]>::to_vec).collect(),
        (None, Some(plain)) => plain.as_bytes().split(u8::is_ascii_whitespace).map(<[u8]>::to_vec).collect(),
        (None, None) => configured(),
    };
    let all: Vec<_> = users.into_iter().filter(|flag| !flag.is_empty()).chain(flags.iter().map(bytes)).collect();
    OsStr::from_bytes(&all.join(SEPARATOR)).to_owned()
}

fn bytes(text: &OsString) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// The target that is asked for, if one is.
fn target(args: &[OsString]) -> Option<OsString> {
    let mut args = args.iter().take_while(|arg| *arg != "--");
    while let Some(arg) = args.next() {
        if arg == "--target" {
            return args.next().cloned();
        }
        if let Some(target) = arg.as_bytes().strip_prefix(b"--target=") {
            return Some(OsStr::from_bytes(target).to_owned());
        }
    }
    None
}

/// The one that Cargo is configured for.
fn target_of(config: &Value) -> Option<OsString> {
    let configured = || config["build"]["target"].as_str().map(OsString::from);
    env::var_os("CARGO_BUILD_TARGET").filter(|target| !target.is_empty()).or_else(configured)
}

/// Cargo's configuration; null if it does not say.
fn configuration(cargo: &OsStr, chosen: &[OsString], args: &[OsString]) -> Value {
    let words = ["-Zunstable-options", "config", "get", "--format=json"].map(OsString::from);
    let said = said(cargo, &[chosen, &words, &given(args)].concat());
    said.and_then(|config| serde_json::from_slice(&config).ok()).unwrap_or_default()
}

fn said(program: &OsStr, args: &[OsString]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    let output = command.args(args).env("RUSTC_BOOTSTRAP", "1").stderr(Stdio::null()).output();
    output.ok().map(|output| output.stdout)
}

/// The options of this name in Cargo's configuration, as Cargo chooses them: those of the target, or else those of all. `None` if the
/// compiler does not say what the target is like.
fn configured(key: &str, config: &Value, chosen: &[OsString], host: &str) -> Option<Vec<Vec<u8>>> {
    let compiler = said(&rustc(), &[chosen, &["--print=cfg".into()]].concat())?;
    let cfgs: Vec<Cfg> = String::from_utf8(compiler).ok()?.lines().filter_map(|line| line.parse().ok()).collect();
    let is_here = |name: &str| name.parse().is_ok_and(|platform: Platform| platform.matches(host, &cfgs));
    let targets = config["target"].as_object().into_iter().flatten();
    let mut here: Vec<_> = targets.filter(|(name, _)| is_here(name)).collect();
    here.sort_by_key(|(name, _)| *name != host);
    let mut flags: Vec<_> = here.into_iter().flat_map(|(_, target)| words_of(&target[key])).collect();
    if flags.is_empty() {
        flags = words_of(&config["build"][key]);
    }
    Some(flags)
}

/// What the command line adds to the configuration.
fn given(args: &[OsString]) -> Vec<OsString> {
    let mut args = args.iter().take_while(|arg| *arg != "--");
    let mut found = Vec::new();
    while let Some(arg) = args.next() {
        if arg == "--config" {
            found.push(arg.clone());
            found.extend(args.next().cloned());
        } else if arg.as_bytes().starts_with(b"--config=") {
            found.push(arg.clone());
        }
    }
    found
}

/// A list, or one text with blanks in between.
fn words_of(value: &Value) -> Vec<Vec<u8>> {
    let listed = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    let split = value.as_str().into_iter().flat_map(str::split_whitespace);
    listed.chain(split).map(|word| word.as_bytes().to_vec()).collect()
}

fn rustc() -> OsString {
    env::var_os("RUSTC").filter(|name| !name.is_empty()).unwrap_or_else(|| "rustc".into())
}

fn ask(chosen: &[OsString]) -> Result<Toolchain, toolchain::Error> {
    let rustc = rustc();
    let answer = Command::new(&rustc).args(chosen).arg("-vV").output();
    let answer = answer.map_err(|_| toolchain::Error::NoRust("rustc"))?;
    let name = rustc.to_string_lossy().into_owned();
    if !answer.status.success() {
        let why = String::from_utf8_lossy(&answer.stderr);
        // A trace of the stack may follow.
        let why = why.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        return Err(toolchain::Error::FailedRust(name, why));
    }
    let said = String::from_utf8_lossy(&answer.stdout);
    read(&said).ok_or(toolchain::Error::UnknownRust(name))
}

/// What `rustc -vV` says.
fn read(said: &str) -> Option<Toolchain> {
    let value = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let major = value("LLVM version:")?.split('.').next()?.parse().ok()?;
    Some(Toolchain { host: value("host:")?.to_owned(), major })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_the_compiler_does_not_run_is_said() {
        let error = ask(&["--nonsense".into()]).unwrap_err().to_string();
        assert!(error.contains(" -vV failed: ") && error.contains("'nonsense'") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn what_the_compiler_says_is_read() {
        let said = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n\
                    LLVM version: 22.1.2\n";
        assert_eq!(read(said), Some(Toolchain { host: "x86_64-unknown-linux-gnu".into(), major: 22 }));
        assert_eq!(read("rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\n"), None);
    }

    #[test]
    fn the_target_is_an_option_of_the_tool_not_of_the_program() {
        let of = |line: &str| target(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("build --target a --release"), Some("a".into()));
        assert_eq!(of("build --target=b"), Some("b".into()));
        assert_eq!(of("run -- --target c"), None);
    }
}

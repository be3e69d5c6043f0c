//! The options of ours: taken off the compiler's command line and handed to the pass.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use crate::Tool;
use crate::response::{self, Word};

/// Environment variable the pass reads when compiling; here only `-bf-disable` in it matters.
pub const BF_OPTS: &str = "BF_OPTS";

/// One option: its name, what its value is called (empty: it takes none), what it does.
#[derive(Clone, Copy, Debug)]
pub struct Help {
    /// With its leading dash, without `=`.
    pub name: &'static str,
    /// Placeholder of the value, or empty; in brackets with its `=` if the option may stand without one.
    pub value: &'static str,
    /// One sentence.
    pub text: &'static str,
}

impl Help {
    /// As manuals write it.
    fn shown(&self) -> String {
        let Self { name, value, .. } = self;
        let equals = if value.is_empty() || value.starts_with('[') { "" } else { "=" };
        format!("{name}{equals}{value}")
    }
}

/// Every option of ours.
pub const OPTIONS: [Help; 23] = [
    Help { name: "-bf-include", value: "LIST", text: "Instrument only these functions: names by comma, or @FILE." },
    Help { name: "-bf-exclude", value: "LIST", text: "Do not instrument these functions: names by comma, or @FILE." },
    Help { name: "-bf-line-size", value: "LIST", text: "Cache line sizes to record, bytes by comma (default 64)." },
    Help { name: "-bf-max-set-bits", value: "N", text: "Exact for every power of two up to 2^N sets (default 16)." },
    Help { name: "-bf-max-ways", value: "N", text: "Exact for every associativity up to N ways (default 64)." },
    Help { name: "-bf-by-func", value: "", text: "Keep figures by function, loop and line (bf report --by)." },
    Help { name: "-bf-unique-bytes", value: "", text: "Count the different bytes that are touched." },
    Help { name: "-bf-mem-footprint", value: "", text: "Count how often each byte is touched, too." },
    Help { name: "-bf-strides", value: "", text: "Count the strides of each load and store." },
    Help { name: "-bf-reuse-dist", value: "[=KIND]", text: "Keep reuse distances in words of 8 bytes, too." },
    Help { name: "-bf-data-structs", value: "", text: "Keep them by object in memory, too (bf report --by object)." },
    Help { name: "-bf-call-stack", value: "", text: "Keep all figures by call path (bf report --by callpath)." },
    Help {
        name: "-bf-no-streams",
        value: "",
        text: "Record each iteration of every loop by itself: slower, same profile.",
    },
    Help { name: "-bf-counters-only", value: "", text: "Count instructions, and record nothing of memory." },
    Help { name: "-bf-no-counters", value: "", text: "Record memory only, and count no instructions." },
    Help {
        name: "-bf-every-bb",
        value: "",
        text: "Count by basic block, with -bf-by-func misses too (bf report --by block).",
    },
    Help { name: "-bf-merge-bb", value: "N", text: "With -bf-every-bb: N blocks of a function count as one." },
    Help { name: "-bf-types", value: "", text: "Count loads and stores by type." },
    Help { name: "-bf-inst-mix", value: "", text: "Count instructions by operation and type." },
    Help { name: "-bf-inst-deps", value: "", text: "Count which operations use the results of which." },
    Help { name: "-bf-vectors", value: "", text: "Count vector operations by elements and their type." },
    Help { name: "-bf-verbose", value: "", text: "Say on stderr what was instrumented." },
    Help {
        name: "-bf-disable",
        value: "",
        text: "Run the compiler alone: no pass, no runtime, no __BF__; <bf.h> does nothing.",
    },
];

/// An option that starts with `-bf-` and is not one of ours, or is used in a wrong way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// No such option.
    #[error("unknown option '{0}'")]
    Unknown(String),
    /// It needs `=VALUE`.
    #[error("option '{0}' needs a value, as in '{0}={1}'")]
    NoValue(String, &'static str),
    /// It takes no value.
    #[error("option '{0}' takes no value")]
    Value(String),
}

/// Options of ours found on a command line, in order, and whether they turn us off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// As given.
    pub options: Vec<OsString>,
    /// `-bf-disable` was among them.
    pub disable: bool,
}

/// Takes our options out of `words`. A response file that holds one is replaced by its other words, since the compiler
/// must not see it; every other word stays as it was given.
///
/// # Errors
///
/// The first option that is not well formed.
pub fn take(words: &mut Vec<Word>) -> Result<Ours, BadOption> {
    let mut ours = Ours::default();
    let mut rest = Vec::with_capacity(words.len());
    for word in words.drain(..) {
        if !word.words().iter().any(|word| is_ours(word)) {
            rest.push(word);
            continue;
        }
        for word in word.expansion.unwrap_or_else(|| vec![word.given]) {
            if is_ours(&word) {
                check(&word)?;
                ours.disable |= is_disable(&word);
                ours.options.push(word);
            } else {
                rest.push(Word { given: word, expansion: None });
            }
        }
    }
    *words = rest;
    Ok(ours)
}

/// Whether the environment variable `BF_OPTS` turns us off.
#[must_use]
pub fn disabled_by_environment() -> bool {
    let Some(value) = env::var_os(BF_OPTS) else { return false };
    let words = response::expand(response::split(value.as_bytes()));
    words.iter().flat_map(Word::words).any(|word| is_disable(word))
}

/// Two dashes are as good as one.
pub(crate) fn is_ours(word: &OsStr) -> bool {
    let word = word.as_bytes();
    word.starts_with(b"-bf-") || word.starts_with(b"--bf-")
}

fn is_disable(word: &OsStr) -> bool {
    word == "-bf-disable" || word == "--bf-disable"
}

fn check(word: &OsStr) -> Result<(), BadOption> {
    let word = word.to_string_lossy();
    let single = word.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(&word);
    let (name, value) = single.split_once('=').map_or((single, None), |(name, value)| (name, Some(value)));
    let name_owned = || name.to_owned();
    let help =
        OPTIONS.iter().find(|option| option.name == name).ok_or_else(|| BadOption::Unknown(word.clone().into()))?;
    match (help.value.is_empty(), value) {
        (false, None) if help.value.starts_with('[') => Ok(()),
        (false, None | Some("")) => Err(BadOption::NoValue(name_owned(), help.value)),
        (true, Some(_)) => Err(BadOption::Value(name_owned())),
        _ => Ok(()),
    }
}

/// Text of `--bf-help`.
#[must_use]
pub fn help(tool: Tool) -> String {
    let name = tool.name();
    let mut text = format!("Usage: {name} [OPTIONS OF THE TOOL] [-bf-OPTION]...\n\n");
    match tool {
        Tool::Ar | Tool::Ranlib => {
            text += "Runs the LLVM archiver that belongs to bf-clang's compiler, for archives of LTO objects.\n";
            text += "All arguments are passed on.\n";
        }
        Tool::Rustc | Tool::Cargo => {
            text = format!("Usage: {name} [+TOOLCHAIN] [-bf-OPTION]... [ARGUMENTS OF THE TOOL]...\n\n");
            text +=
                "Builds Rust with every memory access instrumented, and links the runtime. The options of bf-clang\n";
            text += "(bf-clang --bf-help) come first, or stand in BF_OPTS; all other arguments are passed on.\n";
            text += "bf-cargo builds for a named target, so what is built lies in target/TARGET/.\n";
        }
        Tool::Clang | Tool::ClangXx | Tool::Flang => {
            text += "Compiles as the compiler does, with every memory access instrumented; links the runtime.\n";
            text += "All arguments but these are passed on:\n\n";
            for help in OPTIONS {
                let option = help.shown();
                let _ = writeln!(text, "  {option:<24} {}", help.text);
            }
            text += "\nThey may also stand in a response file (@FILE) or in BF_OPTS.\n";
            let (variable, compiler) = if tool == Tool::Flang { ("BF_FLANG", "flang") } else { ("BF_CLANG", "clang") };
            let _ = writeln!(text, "{variable} names another {compiler}; its version must have a pass in lib/bf.");
        }
    }
    text += "\n  --bf-show                Print the command that would run, and run nothing.\n";
    text += "  --bf-help                Print this.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&str]) -> Vec<Word> {
        args.iter().map(|arg| Word { given: arg.into(), expansion: None }).collect()
    }

    #[test]
    fn ours_are_taken_and_the_rest_stays() {
        let mut list = words(&["-O2", "-bf-line-size=64,128", "a.c", "--bf-verbose", "-bf-reuse-dist", "-bogus"]);
        let ours = take(&mut list).unwrap();
        assert_eq!(ours.options, ["-bf-line-size=64,128", "--bf-verbose", "-bf-reuse-dist"]);
        assert!(!ours.disable);
        assert_eq!(list, words(&["-O2", "a.c", "-bogus"]));
    }

    #[test]
    fn a_response_file_is_opened_only_for_an_option_of_ours() {
        let kept = Word { given: "@kept".into(), expansion: Some(vec!["-c".into()]) };
        let opened = Word { given: "@opened".into(), expansion: Some(vec!["-bf-disable".into(), "a b.c".into()]) };
        let mut list = vec![kept.clone(), opened];
        assert!(take(&mut list).unwrap().disable);
        assert_eq!(list, [kept, Word { given: "a b.c".into(), expansion: None }]);
    }

    #[test]
    fn every_option_is_in_the_manual_and_in_the_documentation() {
        let manual = include_str!("../man/bf-clang.1").replace('\\', "");
        let page = include_str!("../../docs/building.md");
        for help in OPTIONS {
            assert!(manual.contains(help.name), "{}", help.name);
            let shown = format!("| `{}` |", help.shown());
            assert!(page.contains(&shown), "{shown}");
        }
    }

    #[test]
    fn wrong_options_are_refused_by_name() {
        for (option, message) in [
            ("-bf-xyz", "unknown option '-bf-xyz'"),
            ("-bf-linesize=64", "unknown option '-bf-linesize=64'"),
            ("-bf-line-size", "option '-bf-line-size' needs a value, as in '-bf-line-size=LIST'"),
            ("-bf-max-ways=", "option '-bf-max-ways' needs a value, as in '-bf-max-ways=N'"),
            ("-bf-strides=1", "option '-bf-strides' takes no value"),
            ("-bf-disable=1", "option '-bf-disable' takes no value"),
        ] {
            assert_eq!(take(&mut words(&[option])).unwrap_err().to_string(), message);
        }
    }
}

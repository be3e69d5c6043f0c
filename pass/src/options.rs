//! The pass's options: `-bf-include=`, `-bf-exclude=`, `-bf-line-size=`, `-bf-max-set-bits=`, `-bf-max-ways=`,
//! `-bf-by-func`, `-bf-data-structs`, `-bf-call-stack`, `-bf-unique-bytes`, `-bf-mem-footprint`, `-bf-strides`, `-bf-reuse-dist`,
//! `-bf-counters-only`, `-bf-no-counters`, `-bf-types`, `-bf-inst-mix`, `-bf-inst-deps`, `-bf-vectors`, `-bf-every-bb`,
//! `-bf-merge-bb=`, `-bf-verbose`, `-bf-disable`, and `@file` for a file that holds more of them.
//!
//! A plugin sees no command line, so they come by two environment variables: `BF_OPTS`, the user's own, with the words
//! and quotes of a shell, as in an `@file`, and `BF_PASS_OPTS`, which the wrapper fills from its command line, one option
//! a line.

use std::{env, fs};

use bf_abi::Module;

use crate::count::Extra;
use crate::names::Patterns;

/// Set by the wrapper for the compiler it runs; options separated by newlines.
const WRAPPER_VARIABLE: &str = "BF_PASS_OPTS";
/// Set by the user; options as words of a shell.
const USER_VARIABLE: &str = "BF_OPTS";
/// Bytes of what reuse distances are in besides lines.
const WORD: u32 = 8;
/// Line size to keep beside words where none is asked for, bytes.
const USUAL_LINE: u32 = 64;
/// How deep `@file` may lead into further files.
const MAX_DEPTH: u32 = 8;

/// What the options ask for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Only functions that match; empty: all.
    pub(crate) include: Patterns,
    /// Not the functions that match, even if they are included.
    pub(crate) exclude: Patterns,
    /// Line sizes, bytes, ascending, none twice; empty: the runtime's default.
    pub(crate) line_sizes: Vec<u32>,
    /// 0: the runtime's default.
    pub(crate) max_set_bits: u32,
    /// 0: the runtime's default.
    pub(crate) max_ways: u32,
    /// Keep histograms by place in the source.
    pub(crate) by_function: bool,
    /// Keep which bytes are touched.
    pub(crate) unique_bytes: bool,
    /// Keep how often each byte is touched.
    pub(crate) footprint: bool,
    /// Keep the strides of each instruction.
    pub(crate) strides: bool,
    /// Keep reuse distances in words, too.
    pub(crate) reuse_distance: bool,
    /// Keep histograms by object in memory too.
    pub(crate) by_object: bool,
    /// Keep counts and histograms by call path.
    pub(crate) call_paths: bool,
    /// Record every iteration of every loop by itself.
    pub(crate) no_streams: bool,
    /// Count instructions, and record no accesses.
    pub(crate) counters_only: bool,
    /// Count no instructions.
    pub(crate) no_counters: bool,
    /// Count by basic block, too.
    pub(crate) every_block: bool,
    /// How many blocks of a function count as one; 0: each by itself.
    pub(crate) merged_blocks: u32,
    /// Counters on request.
    pub(crate) extra: Extra,
    /// One line per module on stderr.
    pub(crate) verbose: bool,
    /// Leave modules as they are.
    pub(crate) disable: bool,
}

impl Options {
    /// What the environment asks for: the user's options, then the wrapper's. The last of two settings holds; patterns
    /// and line sizes add up.
    pub(crate) fn from_environment() -> Result<Self, String> {
        let mut options = Self::default();
        let variable = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        for option in words(USER_VARIABLE, &variable(USER_VARIABLE))? {
            options.take(&option, 0)?;
        }
        for option in variable(WRAPPER_VARIABLE).lines().filter(|line| !line.trim().is_empty()) {
            options.take(option.trim(), 0)?;
        }
        if options.reuse_distance {
            if options.line_sizes.is_empty() {
                options.line_sizes.push(USUAL_LINE);
            }
            options.line_sizes.push(WORD);
        }
        options.line_sizes.sort_unstable();
        options.line_sizes.dedup();
        if options.counters_only && options.no_counters {
            return Err("`-bf-counters-only` and `-bf-no-counters` together leave nothing to do".to_owned());
        }
        if options.merged_blocks > 0 && !options.every_block {
            return Err("`-bf-merge-bb` merges what `-bf-every-bb` counts, which is not there".to_owned());
        }
        if options.every_block && options.no_counters {
            return Err("`-bf-every-bb` counts, which `-bf-no-counters` forbids".to_owned());
        }
        let Self { counters_only, unique_bytes, footprint, strides, reuse_distance, .. } = options;
        let needy = [
            (unique_bytes, "unique-bytes"),
            (footprint, "mem-footprint"),
            (strides, "strides"),
            (reuse_distance, "reuse-dist"),
        ];
        if let Some((_, name)) = needy.into_iter().find(|(asked, _)| *asked && counters_only) {
            return Err(format!("`-bf-{name}` needs the accesses, which `-bf-counters-only` leaves out"));
        }
        Ok(options)
    }

    /// What the runtime is to do, as [`bf_abi::Module::flags`].
    pub(crate) fn flags(&self) -> u32 {
        let flags = [
            (self.by_function, Module::BY_FUNCTION),
            (self.by_object, Module::BY_OBJECT),
            (self.unique_bytes, Module::UNIQUE_BYTES),
            (self.footprint, Module::FOOTPRINT),
            (self.strides, Module::STRIDES),
            (self.call_paths, Module::CALL_PATHS),
        ];
        flags.into_iter().filter(|(asked, _)| *asked).fold(0, |all, (_, flag)| all | flag)
    }

    fn take(&mut self, option: &str, depth: u32) -> Result<(), String> {
        if let Some(path) = option.strip_prefix('@') {
            let options = words(path, &read(path, depth)?)?;
            return options.iter().try_for_each(|option| self.take(option, depth + 1));
        }
        let stripped = option.strip_prefix("--").or_else(|| option.strip_prefix('-')).unwrap_or_default();
        let (name, value) = stripped.split_once('=').map_or((stripped, None), |(name, value)| (name, Some(value)));
        let wanted = || value.filter(|value| !value.is_empty()).ok_or_else(|| format!("`{option}` needs a value"));
        let alone = || match value {
            None => Ok(true),
            Some(_) => Err(format!("`-{name}` takes no value")),
        };
        match name {
            "bf-include" => self.include.add(&list(wanted()?, depth)?)?,
            "bf-exclude" => self.exclude.add(&list(wanted()?, depth)?)?,
            "bf-line-size" => {
                for size in wanted()?.split(',') {
                    self.line_sizes.push(line_size(size)?);
                }
            }
            "bf-max-set-bits" => self.max_set_bits = number(name, wanted()?, 24)?,
            "bf-max-ways" => self.max_ways = number(name, wanted()?, 255)?,
            "bf-by-func" => self.by_function = alone()?,
            "bf-unique-bytes" => self.unique_bytes = alone()?,
            "bf-mem-footprint" => self.footprint = alone()?,
            "bf-strides" => self.strides = alone()?,
            "bf-reuse-dist" => match value {
                None | Some("loads" | "stores") => self.reuse_distance = true,
                Some(kind) => return Err(format!("`-{name}`: `{kind}` is neither loads nor stores")),
            },
            "bf-data-structs" => self.by_object = alone()?,
            "bf-call-stack" => self.call_paths = alone()?,
            "bf-no-streams" => self.no_streams = alone()?,
            "bf-counters-only" => self.counters_only = alone()?,
            "bf-no-counters" => self.no_counters = alone()?,
            "bf-every-bb" => self.every_block = alone()?,
            "bf-merge-bb" => self.merged_blocks = number(name, wanted()?, 1 << 20)?,
            "bf-types" => self.extra.types = alone()?,
            "bf-inst-mix" => self.extra.mix = alone()?,
            "bf-inst-deps" => self.extra.deps = alone()?,
            "bf-vectors" => self.extra.vectors = alone()?,
            "bf-verbose" => self.verbose = alone()?,
            "bf-disable" => self.disable = alone()?,
            _ => return Err(format!("unknown option `{option}`")),
        }
        Ok(())
    }
}

/// The words of a text, as a shell splits them.
fn words(origin: &str, text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| format!("`{origin}`: a quote is not closed"))
}

fn read(path: &str, depth: u32) -> Result<String, String> {
    if depth >= MAX_DEPTH {
        return Err(format!("`@{path}`: files nest deeper than {MAX_DEPTH}"));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot read `{path}`: {error}"))
}

/// A list of patterns, or the lines of `@file`.
fn list(value: &str, depth: u32) -> Result<String, String> {
    match value.strip_prefix('@') {
        Some(path) => {
            let content = read(path, depth)?;
            Ok(content.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(","))
        }
        None => Ok(value.to_owned()),
    }
}

fn line_size(text: &str) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|size| size.is_power_of_two() && (8..=1 << 30).contains(size))
        .ok_or_else(|| format!("`-bf-line-size`: `{text}` is no power of two from 8 to 2^30"))
}

fn number(name: &str, text: &str, most: u32) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("`-{name}`: `{text}` is no whole number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Result<Options, String> {
        let mut parsed = Options::default();
        options.iter().try_for_each(|option| parsed.take(option, 0))?;
        Ok(parsed)
    }

    #[test]
    fn reads_every_option() {
        let options = parse(&[
            "-bf-line-size=64,128",
            "--bf-line-size=32",
            "-bf-max-set-bits=20",
            "-bf-max-ways=128",
            "-bf-verbose",
            "-bf-no-streams",
            "-bf-counters-only",
            "-bf-no-counters",
            "-bf-every-bb",
            "-bf-merge-bb=4",
            "-bf-types",
            "-bf-inst-mix",
            "-bf-inst-deps",
            "-bf-vectors",
            "-bf-by-func",
            "-bf-unique-bytes",
            "-bf-mem-footprint",
            "-bf-strides",
            "-bf-call-stack",
            "-bf-reuse-dist=loads",
            "-bf-disable",
            "-bf-include=main,f*",
            "-bf-exclude=free",
        ])
        .unwrap();
        assert_eq!(options.line_sizes, [64, 128, 32]);
        assert_eq!((options.max_set_bits, options.max_ways), (20, 128));
        assert!(options.verbose && options.disable && options.no_streams);
        assert!(options.counters_only && options.no_counters && options.every_block);
        assert_eq!(options.merged_blocks, 4);
        assert_eq!(options.extra, Extra { types: true, mix: true, deps: true, vectors: true });
        assert_eq!(options.flags(), 0x171);
        assert!(options.reuse_distance);
        assert!(options.include.matches("foo") && !options.include.matches("go"));
        assert!(options.exclude.matches("free"));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for (option, complaint) in [
            ("-bf-lines=64", "unknown option `-bf-lines=64`"),
            ("bf-verbose", "unknown option `bf-verbose`"),
            ("-bf-line-size=48", "`-bf-line-size`: `48` is no power of two from 8 to 2^30"),
            ("-bf-line-size=", "`-bf-line-size=` needs a value"),
            ("-bf-max-ways=256", "`-bf-max-ways`: `256` is no whole number from 1 to 255"),
            ("-bf-max-set-bits=0", "`-bf-max-set-bits`: `0` is no whole number from 1 to 24"),
            ("-bf-reuse-dist=all", "`-bf-reuse-dist`: `all` is neither loads nor stores"),
            ("-bf-disable=no", "`-bf-disable` takes no value"),
            ("-bf-include", "`-bf-include` needs a value"),
        ] {
            assert_eq!(parse(&[option]).unwrap_err(), complaint);
        }
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("x", "-a '-b=f(int, int)'  -c").unwrap(), ["-a", "-b=f(int, int)", "-c"]);
        assert_eq!(words("x", "'").unwrap_err(), "`x`: a quote is not closed");
    }

    #[test]
    fn files_hold_options_and_lists() {
        let folder = tempfile::tempdir().unwrap();
        let (options, list) = (folder.path().join("options"), folder.path().join("list"));
        fs::write(&list, "main\n\nstd::vector<int, std::allocator<int>>::*\n").unwrap();
        fs::write(&options, format!("-bf-max-ways=8\n-bf-include=@{}\n", list.display())).unwrap();
        let parsed = parse(&[&format!("@{}", options.display())]).unwrap();
        assert_eq!(parsed.max_ways, 8);
        assert!(parsed.include.matches("main"));
        assert!(parsed.include.matches("_ZNSt6vectorIiSaIiEE9push_backERKi"));
    }

    #[test]
    fn a_file_that_names_itself_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options");
        fs::write(&file, format!("@{}", file.display())).unwrap();
        assert!(parse(&[&format!("@{}", file.display())]).unwrap_err().ends_with("files nest deeper than 8"));
    }
}

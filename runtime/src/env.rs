//! The `BF_*` variables, read once. A bad one is remarked on and otherwise as if it were not there.

use crate::system;
use bf_collect::{Config, Instructions, Order, Sample, Wanted};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

/// What the environment asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `BF_PROFILE`: pattern of the profile's name.
    pub profile: Option<Vec<u8>>,
    /// `BF_TRACE`: pattern of the trace's name.
    pub trace: Option<Vec<u8>>,
    /// `BF_LINE_SIZE`: in place of what the modules ask for. Ascending, none twice; empty for `none`, with which
    /// accesses and calls are counted and no stacks kept.
    pub line_sizes: Option<Vec<u32>>,
    /// `BF_MAX_SET_BITS`.
    pub max_set_bits: Option<u32>,
    /// `BF_MAX_WAYS`.
    pub max_ways: Option<u32>,
    /// `BF_SAMPLE`: follow some lines only.
    pub sample: Option<Sample>,
    /// `BF_INSTRUCTIONS`: the engine's.
    pub instructions: Option<Instructions>,
    /// `BF_ORDER`: how the threads' accesses are put in one order.
    pub order: Order,
    /// `BF_ORDER=buffers`: only as they fill, not wherever a thread lets others go on.
    pub order_of_buffers: bool,
    /// `BF_BY_PLACE`: whether to keep histograms by place in the source, whatever the modules ask for.
    pub by_place: Option<bool>,
    /// `BF_PATTERNS`: which access patterns to keep, whatever the modules ask for.
    pub patterns: Option<Wanted>,
    /// `BF_BY_OBJECT`: whether to keep them by object in memory, too.
    pub by_object: Option<bool>,
    /// `BF_SHARING`: how many lines that threads share are told apart.
    pub sharing: Option<u32>,
    /// Whether valgrind runs the process, which preloads something of its own.
    pub valgrind: bool,
    /// `BF_THREADS`: helper threads.
    pub threads: Option<u32>,
    /// `BF_ROUNDS`: whether rounds that are all the same are analysed once.
    pub rounds: Option<bool>,
    /// `BF_MAX_MEMORY`: bytes.
    pub max_memory: Option<u64>,
    /// `BF_CHECKPOINT`: time between checkpoints.
    pub checkpoint: Option<Duration>,
    /// `BF_PHASES`: accesses of a slice of time.
    pub phases: Option<u64>,
    /// `BF_STOP=ignore`.
    pub stop_ignores: bool,
    /// `BF_VERBOSE=1`.
    pub verbose: bool,
    /// `BF_DISABLE=1`.
    pub disable: bool,
    /// One line for every variable that is unknown or bad.
    pub remarks: Vec<String>,
}

/// All variables. The C library does not know of them yet where functions are called before it is ready, as those of sanitizers.
pub fn variables() -> Vec<(OsString, OsString)> {
    let known: Vec<_> = std::env::vars_os().collect();
    if !known.is_empty() {
        return known;
    }
    let all = system::read(c"/proc/self/environ");
    let split = |one: &[u8]| {
        let end = one.iter().position(|&byte| byte == b'=')?;
        Some((OsString::from_vec(one[..end].to_vec()), OsString::from_vec(one[end + 1..].to_vec())))
    };
    all.split(|&byte| byte == 0).filter_map(split).collect()
}

/// Used when compiling only; no business of ours.
const COMPILE_TIME: &[&str] = &["BF_OPTS"];

impl Options {
    /// Picks the `BF_*` ones out of all variables.
    pub fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut options = Self::default();
        for (name, value) in variables {
            if !name.as_bytes().starts_with(b"BF_") {
                options.valgrind |= name == "LD_PRELOAD" && value.to_string_lossy().contains("/vgpreload_");
                continue;
            }
            let name = name.to_string_lossy();
            if let Err(problem) = options.set(&name, value) {
                options.remarks.push(format!("{name}: {problem}, ignored"));
            }
        }
        options.remarks.sort();
        options
    }

    fn set(&mut self, name: &str, value: OsString) -> Result<(), String> {
        let text = value.to_string_lossy().trim().to_owned();
        match name {
            "BF_PROFILE" => self.profile = Some(value.into_vec()).filter(|pattern| !pattern.is_empty()),
            "BF_TRACE" => self.trace = Some(value.into_vec()).filter(|pattern| !pattern.is_empty()),
            "BF_LINE_SIZE" => self.line_sizes = Some(line_sizes(&text)?),
            "BF_MAX_SET_BITS" => self.max_set_bits = Some(number(&text, 0, 24)?),
            "BF_MAX_WAYS" => self.max_ways = Some(number(&text, 1, 255)?),
            "BF_SAMPLE" => self.sample = Sample::parse(&text)?,
            "BF_INSTRUCTIONS" => self.instructions = Some(instructions(&text)?),
            "BF_ORDER" => (self.order, self.order_of_buffers) = (order(&text)?, text == "buffers"),
            "BF_BY_PLACE" => self.by_place = Some(flag(&text)?),
            "BF_PATTERNS" => self.patterns = Some(patterns(&text)?),
            "BF_BY_OBJECT" => self.by_object = Some(flag(&text)?),
            "BF_SHARING" => self.sharing = Some(number(&text, 0, 1 << 20)?),
            "BF_THREADS" => self.threads = Some(number(&text, 0, 64)?),
            "BF_ROUNDS" => self.rounds = Some(flag(&text)?),
            "BF_MAX_MEMORY" => self.max_memory = Some(bytes(&text)?),
            "BF_CHECKPOINT" => self.checkpoint = seconds(&text)?,
            "BF_PHASES" => self.phases = Some(accesses(&text)?),
            "BF_STOP" if text == "ignore" => self.stop_ignores = true,
            "BF_STOP" => return Err(format!("{text:?} is not \"ignore\"")),
            "BF_VERBOSE" => self.verbose = flag(&text)?,
            "BF_DISABLE" => self.disable = flag(&text)?,
            _ if COMPILE_TIME.contains(&name) => {}
            _ => return Err("no variable of bf".to_owned()),
        }
        Ok(())
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{text:?} is neither 0 nor 1")),
    }
}

fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is not in {least}..={most}")) }
}

fn patterns(text: &str) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    for part in text.split(',').map(str::trim).filter(|part| !matches!(*part, "" | "none")) {
        match part {
            "unique-bytes" => wanted.bytes = true,
            "mem-footprint" => wanted.touches = true,
            "strides" => wanted.strides = true,
            _ => return Err(format!("{part:?} is none of unique-bytes, mem-footprint, strides, none")),
        }
    }
    Ok(wanted)
}

fn instructions(text: &str) -> Result<Instructions, String> {
    let known = Instructions::ALL.into_iter().find(|kind| kind.name() == text);
    let known =
        known.ok_or_else(|| format!("{text:?} is none of {}", Instructions::ALL.map(Instructions::name).join(", ")))?;
    if known.available() { Ok(known) } else { Err(format!("this processor has no {text}")) }
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "time" | "buffers" => Ok(Order::Time),
        "slots" => Ok(Order::Slots),
        _ => Err(format!("{text:?} is none of time, buffers, slots")),
    }
}

/// A number of bytes, or of K, M or G of them.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => Some(0),
        "K" | "k" => Some(10),
        "M" | "m" => Some(20),
        "G" | "g" => Some(30),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(1 << unit));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| format!("{text:?} is no size; write 512M or 2G"))
}

/// A number of accesses; here K is a thousand.
fn accesses(text: &str) -> Result<u64, String> {
    let thousands = |text: &str, unit, factor: u64| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(factor);
    let units = [("K", 1000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let number =
        units.into_iter().find_map(|(unit, factor)| thousands(text, unit, factor)).or_else(|| text.parse().ok());
    number.filter(|&number| number > 0).ok_or_else(|| format!("{text:?} is no number of accesses; write 500K or 2M"))
}

fn seconds(text: &str) -> Result<Option<Duration>, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text:?} is no time"))?;
    Ok(Some(time).filter(|time| !time.is_zero()))
}

fn line_sizes(text: &str) -> Result<Vec<u32>, String> {
    let mut sizes = Vec::new();
    if text == "none" {
        return Ok(sizes);
    }
    for part in text.split(',') {
        let size = part.trim().parse().map_err(|_| format!("{part:?} is no line size"))?;
        if !Config::is_line_size(size) {
            return Err(format!("a line of {size} bytes is no power of two in 8..=1073741824"));
        }
        sizes.push(size);
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Options {
        Options::read(variables.iter().map(|&(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn good_values_are_taken() {
        let options = read(&[
            ("BF_LINE_SIZE", "128, 64,64"),
            ("BF_MAX_SET_BITS", "0"),
            ("BF_MAX_WAYS", "255"),
            ("BF_SAMPLE", "1/64"),
            ("BF_INSTRUCTIONS", "portable"),
            ("BF_ORDER", "slots"),
            ("BF_BY_PLACE", "1"),
            ("BF_PATTERNS", "strides, mem-footprint"),
            ("BF_SHARING", "100"),
            ("BF_PHASES", "3M"),
            ("BF_THREADS", "2"),
            ("BF_ROUNDS", "0"),
            ("BF_MAX_MEMORY", "3G"),
            ("BF_CHECKPOINT", "0.5"),
            ("BF_STOP", "ignore"),
            ("BF_VERBOSE", "1"),
            ("BF_OPTS", "-bf-verbose"),
            ("HOME", "/"),
        ]);
        let want = Options {
            line_sizes: Some(vec![64, 128]),
            max_set_bits: Some(0),
            max_ways: Some(255),
            sample: Sample::one_in(6),
            instructions: Some(Instructions::Portable),
            order: Order::Slots,
            by_place: Some(true),
            patterns: Some(Wanted { bytes: false, touches: true, strides: true, functions: false }),
            sharing: Some(100),
            phases: Some(3_000_000),
            threads: Some(2),
            rounds: Some(false),
            max_memory: Some(3 << 30),
            checkpoint: Some(Duration::from_millis(500)),
            stop_ignores: true,
            verbose: true,
            ..Options::default()
        };
        assert_eq!(options, want);
    }

    #[test]
    fn stacks_can_be_left_out() {
        assert_eq!(read(&[("BF_LINE_SIZE", "none")]).line_sizes, Some(Vec::new()));
    }

    #[test]
    fn bad_and_unknown_ones_are_remarked_on() {
        let options = read(&[
            ("BF_LINE_SIZE", "48"),
            ("BF_MAX_SET_BITS", "25"),
            ("BF_MAX_WAYS", "many"),
            ("BF_INSTRUCTIONS", "sse"),
            ("BF_ORDER", "random"),
            ("BF_THREADS", "65"),
            ("BF_MAX_MEMORY", "1 GB"),
            ("BF_CHECKPOINT", "-1"),
            ("BF_SAMPLE", "2"),
            ("BF_PATTERNS", "strides,bytes"),
            ("BF_ROUNDS", "some"),
            ("BF_SHARING", "-1"),
            ("BF_STOP", "yes"),
            ("BF_PROFIEL", "x"),
        ]);
        let remarks = [
            "BF_CHECKPOINT: \"-1\" is no time, ignored",
            "BF_INSTRUCTIONS: \"sse\" is none of avx512, avx2, portable, ignored",
            "BF_LINE_SIZE: a line of 48 bytes is no power of two in 8..=1073741824, ignored",
            "BF_MAX_MEMORY: \"1 GB\" is no size; write 512M or 2G, ignored",
            "BF_MAX_SET_BITS: 25 is not in 0..=24, ignored",
            "BF_MAX_WAYS: \"many\" is no number, ignored",
            "BF_ORDER: \"random\" is none of time, buffers, slots, ignored",
            "BF_PATTERNS: \"bytes\" is none of unique-bytes, mem-footprint, strides, none, ignored",
            "BF_PROFIEL: no variable of bf, ignored",
            "BF_ROUNDS: \"some\" is neither 0 nor 1, ignored",
            "BF_SAMPLE: a sampling rate of 2 is not in 1/1048576..=1, ignored",
            "BF_SHARING: \"-1\" is no number, ignored",
            "BF_STOP: \"yes\" is not \"ignore\", ignored",
            "BF_THREADS: 65 is not in 0..=64, ignored",
        ];
        assert_eq!(options, Options { remarks: remarks.map(str::to_owned).to_vec(), ..Options::default() });
    }
}

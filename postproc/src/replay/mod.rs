//! Traces in, profiles out: the engine over accesses that some other tool, or bf itself, wrote down.
//!
//! A thread number of a trace is a slot of its own. Accesses enter the stack of all threads in the order of the trace.

mod cases;
mod din;
mod lackey;
mod own;
mod print;

pub use print::{Printed, print};

pub use bf_collect::Sample;
use bf_collect::{Batch, Bucket, Config, Limits, Session, Snapshot};
use bf_profile::{EndReason, Machine, Meta, Process, Profile};
use std::{
    fmt,
    io::{self, BufRead},
    str::FromStr,
    time::Duration,
};

/// Accesses fed at a time.
const BATCH: u64 = 1 << 14;
/// Nobody else holds a replay's locks.
const PATIENCE: Duration = Duration::from_secs(60);
/// Greatest thread number a trace may hold: each has stacks of its own.
const MAX_THREAD: u32 = 4095;

/// Longest access of a trace by another tool, bytes: a garbled size should not run for hours.
const MAX_SIZE: u64 = u32::MAX as u64;

/// Trace formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// DineroIV's: extended (`r|w ADDRESS SIZE`) or traditional (`0|1|2 ADDRESS`), line by line.
    Din,
    /// What `valgrind --tool=lackey --trace-mem=yes` prints.
    Lackey,
    /// `{"threads":T,"trace":[[thread,address,size,"r"|"w"],…]}`.
    Json,
    /// What `BF_TRACE` makes an instrumented program write.
    Bf,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "din" => Self::Din,
            "lackey" => Self::Lackey,
            "json" => Self::Json,
            "bf" => Self::Bf,
            _ => return Err(format!("`{text}` is no trace format; there are din, lackey, json and bf")),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Din => "din",
            Self::Lackey => "lackey",
            Self::Json => "json",
            Self::Bf => "bf",
        })
    }
}

impl Format {
    /// The format of a trace that begins with `head`; `None` if it looks like none of them.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"BFTRACE") {
            return Some(Self::Bf);
        }
        let text = String::from_utf8_lossy(head);
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        if line.trim_start().starts_with('{') {
            return Some(Self::Json);
        }
        let mut words = line.split_whitespace();
        let (first, second) = (words.next()?, words.next());
        if lackey::is_remark(line) || matches!(first, "I" | "L" | "S" | "M") && second?.contains(',') {
            return Some(Self::Lackey);
        }
        (first.len() == 1 && second.is_some() && din::is_label(first)).then_some(Self::Din)
    }
}

/// How sizes stand in extended din traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DinSize {
    /// As decimal numbers.
    #[default]
    Decimal,
    /// As DineroIV itself reads them.
    Hexadecimal,
}

/// What to do with a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Line sizes, bytes; `None`: those of the trace if it says, else 64.
    pub line_sizes: Option<Vec<u32>>,
    /// `None`: that of the trace if it says, else the default.
    pub max_set_bits: Option<u32>,
    /// `None`: that of the trace if it says, else the default.
    pub max_ways: Option<u32>,
    /// Follow some lines only.
    pub sample: Option<Sample>,
    /// `None`: found out.
    pub format: Option<Format>,
    /// Sizes in extended din.
    pub din_size: DinSize,
}

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It looks like no format.
    #[error("not a trace of a known format; say which with --from din, lackey, json or bf")]
    Unknown,
    /// Nothing in it.
    #[error("the trace is empty")]
    Empty,
    /// A line that does not belong there.
    #[error("line {line}: {message}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// JSON that is not the trace it should be.
    #[error("no trace in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A thread number that cannot be.
    #[error("thread {thread} is beyond the {threads} threads that the trace names or bf tells apart")]
    Thread {
        /// The number.
        thread: u32,
        /// What the trace says there are, or the most there may be.
        threads: u32,
    },
    /// bf's own trace is damaged.
    #[error(transparent)]
    Trace(#[from] bf_profile::Error),
    /// A line size that cannot be.
    #[error("line size {0} is no power of two from 8 to 2^30")]
    LineSize(u32),
    /// A bound that cannot be.
    #[error("{0}")]
    Limit(&'static str),
    /// The operating system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A replayed trace.
#[derive(Debug)]
pub struct Replayed {
    /// One process.
    pub profile: Profile,
    /// The trace's format.
    pub format: Format,
    /// What was left out or cut short, one sentence each.
    pub remarks: Vec<String>,
}

/// Replays a trace. `name` and `start_ns` (nanoseconds since the epoch) stand in the profile for the executable's name
/// and start where the trace does not know them.
///
/// # Errors
/// The trace is not of its format, or the options ask for what cannot be.
pub fn replay(mut input: impl BufRead, name: &str, start_ns: u64, options: &Options) -> Result<Replayed, ReplayError> {
    let format = match options.format {
        Some(format) => format,
        None => match input.fill_buf()? {
            [] => return Err(ReplayError::Empty),
            head => Format::detect(head).ok_or(ReplayError::Unknown)?,
        },
    };
    if format == Format::Bf {
        return own::replay(input, options);
    }
    let mut feeder = Feeder::new(options.config(&[64], Limits::default())?);
    match format {
        Format::Din => din::read(input, options.din_size, &mut feeder)?,
        Format::Lackey => lackey::read(input, &mut feeder)?,
        Format::Json | Format::Bf => cases::read(input, &mut feeder)?,
    }
    let meta = Meta {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        executable: name.to_owned(),
        command: vec![name.to_owned()],
        start_ns,
        ..Meta::default()
    };
    let profile = feeder.finish(meta, Machine::default(), vec![String::new()]);
    Ok(Replayed { profile, format, remarks: Vec::new() })
}

impl Options {
    /// The session for these options over what the trace says itself.
    fn config(&self, line_sizes: &[u32], limits: Limits) -> Result<Config, ReplayError> {
        let mut line_sizes = self.line_sizes.clone().unwrap_or_else(|| line_sizes.to_vec());
        line_sizes.sort_unstable();
        line_sizes.dedup();
        if let Some(&wrong) = line_sizes.iter().find(|&&bytes| !Config::is_line_size(bytes)) {
            return Err(ReplayError::LineSize(wrong));
        }
        let limits = Limits {
            max_set_bits: self.max_set_bits.unwrap_or(limits.max_set_bits),
            max_ways: self.max_ways.unwrap_or(limits.max_ways),
        };
        if limits.max_set_bits > 24 {
            return Err(ReplayError::Limit("at most 24 set bits (2^24 sets) can be kept"));
        }
        if !(1..=255).contains(&limits.max_ways) {
            return Err(ReplayError::Limit("1 to 255 ways can be kept"));
        }
        Ok(Config { line_sizes, limits, sample: self.sample, ..Config::default() })
    }
}

/// Takes accesses in trace order and feeds them in batches of one thread each.
struct Feeder {
    session: Session,
    batch: Batch,
    thread: u32,
    slots: u32,
}

impl Feeder {
    fn new(config: Config) -> Self {
        Self { session: Session::new(config), batch: Batch::new(), thread: 0, slots: 0 }
    }

    fn access(&mut self, thread: u32, address: u64, size: u64, store: bool) -> Result<(), ReplayError> {
        if thread != self.thread || self.batch.accesses() >= BATCH {
            self.flush(Bucket::FIRST);
            self.thread = thread;
        }
        self.slot(thread)?;
        self.batch.access(address, size, store);
        Ok(())
    }

    /// Makes sure that the slot exists.
    fn slot(&mut self, slot: u32) -> Result<(), ReplayError> {
        if slot >= self.slots {
            if slot > MAX_THREAD {
                return Err(ReplayError::Thread { thread: slot, threads: MAX_THREAD + 1 });
            }
            self.session.ensure_slot(slot);
            self.slots = slot + 1;
        }
        Ok(())
    }

    fn flush(&mut self, bucket: Bucket) {
        if self.batch.accesses() > 0 {
            self.session.feed(self.thread, &self.batch, bucket);
            self.batch.clear();
        }
    }

    fn finish(mut self, mut meta: Meta, machine: Machine, tags: Vec<String>) -> Profile {
        self.flush(Bucket::FIRST);
        let snapshot = self.session.snapshot(PATIENCE);
        meta.end = EndReason::Replay;
        meta.threads = snapshot.threads;
        meta.accesses = snapshot.accesses;
        meta.dropped = snapshot.dropped;
        let Snapshot { lines, sampled, coherence, sharing, .. } = snapshot;
        let process = Process { meta, machine, tags, lines, sampled, coherence, sharing, ..Process::default() };
        Profile { processes: vec![process] }
    }
}

/// Calls `each` with the number and text of every line. A line that is no UTF-8 is an error like any other bad line.
fn lines(
    mut input: impl BufRead,
    mut each: impl FnMut(&str) -> Result<Result<(), ReplayError>, String>,
) -> Result<(), ReplayError> {
    let (mut buffer, mut number) = (Vec::new(), 0);
    loop {
        buffer.clear();
        if input.read_until(b'\n', &mut buffer)? == 0 {
            return Ok(());
        }
        number += 1;
        let wrong = |message| ReplayError::Line { line: number, message };
        let line = std::str::from_utf8(&buffer).map_err(|_| wrong("not text".to_owned()))?;
        each(line.trim_end()).map_err(wrong)??;
    }
}

/// A hexadecimal number, with or without `0x`.
fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let digits = Some(digits).filter(|digits| !digits.starts_with(['+', '-']));
    digits
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("`{text}` is no hexadecimal address"))
}

#[cfg(test)]
mod tests;

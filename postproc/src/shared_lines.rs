//! Who shares what: the lines that threads of a program took from each other, put together to findings a reader can act on.
//!
//! A finding is what one object and one place in the source have in common: an array of counters over many lines is one, and
//! so are the blocks of one allocation site.

mod finding;

use crate::{QueryError, counters};
use bf_profile::{EndReason, Owner, Process, Profile, SharedLine, SharedLines};
use finding::{finding, identity, is_shared, storing_code};
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap, fmt};

/// Schema of the answer, which `docs/json.md` describes.
pub const SCHEMA: &str = "bf.sharing/1";

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Line size; `None`: 64 bytes, or the least there is.
    pub line_bytes: Option<u32>,
    /// Only findings of this kind, and those of both.
    pub kind: Option<Kind>,
    /// So many findings at most.
    pub top: Option<usize>,
}

/// Whether threads use each other's data or only share lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// They use what others stored.
    True,
    /// They use other bytes of the same lines.
    False,
    /// Some of either.
    Both,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "true sharing",
            Self::False => "false sharing",
            Self::Both => "true and false sharing",
        })
    }
}

impl Kind {
    /// Of misses nine in ten decide. Without any, whether bytes that one thread stored were used by another.
    fn of(true_misses: u64, false_misses: u64, overlap: bool) -> Self {
        let mostly = |most: u64, rest: u64| rest <= most / 9 && most > 0;
        match (true_misses, false_misses) {
            (0, 0) if overlap => Self::True,
            (0, 0) => Self::False,
            (passed, useless) if mostly(passed, useless) => Self::True,
            (passed, useless) if mostly(useless, passed) => Self::False,
            _ => Self::Both,
        }
    }
}

/// What is said about the lines of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Files asked, in the order given.
    pub profiles: Vec<String>,
    /// Line size, bytes.
    pub line_bytes: u32,
    /// Lines that several threads used and of which is known who did.
    pub lines_tracked: u64,
    /// How many could have been tracked; the least of several processes.
    pub lines_at_most: u64,
    /// Lines beyond those.
    pub dropped_lines: u64,
    /// Accesses to them.
    pub dropped_accesses: u64,
    /// Lines that one thread stored while another used them.
    pub lines_shared: u64,
    /// Findings of the kind asked for; there may be fewer below.
    pub findings_total: u64,
    /// What a reader should know, one sentence each.
    pub notes: Vec<String>,
    /// Most misses first, then most stores.
    pub findings: Vec<Finding>,
}

/// Lines of one object, stored by one place in the source.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The process.
    pub pid: u32,
    /// What lies in the lines; null: unknown.
    pub object: Option<Object>,
    /// From the beginning of the object to the least byte that a thread used, bytes; null without a single object.
    pub offset: Option<i64>,
    /// Address of the first line.
    pub address: u64,
    /// Address of the last one; there may be other lines between them.
    pub last: u64,
    /// How many lines.
    pub lines: u64,
    /// The code that stores them most; null: unknown.
    pub stored_by: Option<Place>,
    /// What kind of sharing.
    pub kind: Kind,
    /// Estimated coherence misses.
    pub misses: u64,
    /// Those that brought bytes that others had stored.
    pub true_misses: u64,
    /// Those that did not.
    pub false_misses: u64,
    /// Loads of all threads.
    pub loads: u64,
    /// Stores of all threads.
    pub stores: u64,
    /// What the ranges of bytes below count from.
    pub ranges_in: Base,
    /// By number.
    pub threads: Vec<Thread>,
    /// What to do about it; null where threads mostly use each other's data.
    pub advice: Option<String>,
}

/// What lies in the lines of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// `"global"`, `"heap"` or `"stack"`.
    pub kind: &'static str,
    /// Symbol, or allocation site.
    pub name: String,
    /// Of the first one.
    pub address: u64,
    /// Length of the first one; null where several lie on one line, of which `name` has all.
    pub bytes: Option<u64>,
    /// How many: blocks of one allocation site count together; null likewise.
    pub count: Option<u64>,
}

/// What ranges of bytes count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// The beginning of the object.
    Object,
    /// The beginning of each line.
    Line,
}

/// What one thread did to the lines of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// The slot it took.
    pub thread: u32,
    /// Loads since a second thread used a line.
    pub loads: u64,
    /// Stores since then.
    pub stores: u64,
    /// As in [`Finding`].
    pub true_misses: u64,
    /// As in [`Finding`].
    pub false_misses: u64,
    /// Whether it stored some before a second thread used them, too; that is not counted.
    pub stored_before: bool,
    /// First and last byte of each range that it loaded, ascending.
    pub loaded: Vec<[i64; 2]>,
    /// The same of what it stored.
    pub stored: Vec<[i64; 2]>,
    /// Where from, most accesses first; at the end one without a name, which stands for all that are not told apart.
    pub places: Vec<Place>,
}

/// Accesses from a place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The function; null: unknown.
    pub function: Option<String>,
    /// Path of the source file; null: unknown.
    pub file: Option<String>,
    /// The line; null: unknown.
    pub line: Option<u32>,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

/// Lines of which nobody knows what lies there, and which are further apart, bytes, are findings of their own.
const APART: u64 = 4096;

/// Why a profile does not say who shares lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Only some lines were followed.
    #[error("the profile is a sample of 1 line in {}, which does not tell who shares lines; record without BF_SAMPLE", 1_u64 << .0)]
    Sampled(u32),
    /// No lines at all.
    #[error("the profile was recorded without lines (BF_LINE_SIZE=none); record with BF_LINE_SIZE=64")]
    NoLines,
    /// Only counters.
    #[error("{}", QueryError::CountersOnly)]
    CountersOnly,
    /// Other line sizes.
    #[error(
        "line size {asked} is not in the profile, which holds {there}; record with BF_LINE_SIZE={asked} to have it"
    )]
    LineSize {
        /// The one asked for.
        asked: u32,
        /// Those there are.
        there: String,
    },
    /// No lines were tracked.
    #[error("the profile was recorded with BF_SHARING=0; record without it")]
    Off,
    /// Several threads but nothing about the lines they share.
    #[error(
        "the profile does not tell who shares lines: an older bf wrote it, or it was salvaged without them; \
         run the program again"
    )]
    Missing,
}

/// Answers for all processes of a profile.
///
/// # Errors
/// None of its processes tells; the reason of the first.
pub fn shared_lines(profile: &Profile, question: &Question) -> Result<Answer, Unknown> {
    let size = line_size(profile, question)?;
    let mut answer = Answer {
        schema: SCHEMA,
        profiles: Vec::new(),
        line_bytes: size,
        lines_tracked: 0,
        lines_at_most: u64::MAX,
        dropped_lines: 0,
        dropped_accesses: 0,
        lines_shared: 0,
        findings_total: 0,
        notes: Vec::new(),
        findings: Vec::new(),
    };
    let mut first_reason = None;
    let mut told = false;
    for process in &profile.processes {
        match lines_of(process, size) {
            Ok(Some(lines)) => {
                told = true;
                answer.add(process, lines);
            }
            Ok(None) => {
                told = true;
                let name = format!("{} ({})", process.meta.executable, process.meta.pid);
                answer.notes.push(format!("{name}: no two threads ran at the same time, so none shares a line"));
            }
            Err(reason) => {
                answer.notes.push(format!("{} ({}): {reason}", process.meta.executable, process.meta.pid));
                first_reason.get_or_insert(reason);
            }
        }
    }
    if let Some(reason) = first_reason.filter(|_| !told) {
        return Err(reason);
    }
    let replayed = profile.processes.iter().all(|process| process.meta.end == EndReason::Replay);
    answer.finish(question, replayed);
    Ok(answer)
}

/// The line size to answer for.
fn line_size(profile: &Profile, question: &Question) -> Result<u32, Unknown> {
    let mut sizes: Vec<u32> = profile.processes.iter().flat_map(Process::line_sizes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let none = || if counters::any(profile) { Unknown::CountersOnly } else { Unknown::NoLines };
    let least = *sizes.first().ok_or_else(none)?;
    let usual = if sizes.contains(&64) { 64 } else { least };
    let asked = question.line_bytes.unwrap_or(usual);
    let there = || sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    if sizes.contains(&asked) { Ok(asked) } else { Err(Unknown::LineSize { asked, there: there() }) }
}

/// The shared lines of a process; `None` if there was nobody to share with.
fn lines_of(process: &Process, size: u32) -> Result<Option<&SharedLines>, Unknown> {
    if let Some(lines) = process.sharing.iter().find(|lines| lines.line_bytes == size) {
        return if lines.most > 0 { Ok(Some(lines)) } else { Err(Unknown::Off) };
    }
    if let Some(data) = process.sampled.first() {
        return Err(Unknown::Sampled(data.sampling.rate_bits));
    }
    let mut stacks = process.lines.iter().flat_map(|data| &data.stacks);
    match stacks.any(|stack| matches!(stack.owner, Owner::Slot(1..))) {
        true => Err(Unknown::Missing),
        false if process.lines.is_empty() => Err(Unknown::NoLines),
        false => Ok(None),
    }
}

/// What a thread is in figures of a process with more threads than slots.
#[must_use]
pub fn took_turns(process: &Process) -> Option<String> {
    let owners = process.lines.iter().flat_map(|data| &data.stacks).map(|stack| stack.owner);
    let slots = owners.filter_map(|owner| if let Owner::Slot(slot) = owner { Some(slot + 1) } else { None }).max()?;
    let threads = process.meta.threads;
    (slots < threads).then(|| {
        format!(
            "{threads} threads ran, at most {slots} at the same time: \"thread\" is one of {slots} places here, which those that came \
             and went had one after the other"
        )
    })
}

/// How many lines: one may be there for several objects that lay on it.
fn distinct<'a>(lines: impl IntoIterator<Item = &'a SharedLine>) -> u64 {
    let mut addresses: Vec<_> = lines.into_iter().map(|line| line.address).collect();
    addresses.dedup();
    addresses.len() as u64
}

impl Answer {
    fn add(&mut self, process: &Process, all: &SharedLines) {
        self.lines_tracked += distinct(&all.lines);
        self.lines_at_most = self.lines_at_most.min(all.most);
        self.dropped_lines += all.dropped_lines;
        self.dropped_accesses += all.dropped_accesses;
        let shared: Vec<_> = all.lines.iter().filter(|line| is_shared(line)).collect();
        self.lines_shared += distinct(shared.iter().copied());
        let mut groups: BTreeMap<_, Vec<&SharedLine>> = BTreeMap::new();
        let (mut unnamed, mut before) = (0, 0);
        for line in shared {
            let identity = identity(line.object.as_ref());
            if identity.is_none() {
                unnamed += u64::from(line.address - before > APART);
                before = line.address;
            }
            let apart = if identity.is_none() { unnamed } else { 0 };
            let code = storing_code(line, &process.places);
            groups.entry((identity, apart, code)).or_default().push(line);
        }
        let findings = groups.iter().map(|((.., code), lines)| finding(process, lines, *code, all.line_bytes));
        self.findings.extend(findings);
        if !groups.is_empty() {
            self.notes.extend(took_turns(process));
        }
    }

    fn finish(&mut self, question: &Question, replayed: bool) {
        if self.lines_at_most == u64::MAX {
            self.lines_at_most = 0;
        }
        let wanted = |kind: Kind| question.kind.is_none_or(|wanted| kind == wanted || kind == Kind::Both);
        self.findings.retain(|finding| wanted(finding.kind));
        self.findings_total = self.findings.len() as u64;
        self.findings.sort_by_key(|finding| (Reverse(finding.misses), Reverse(finding.stores), finding.address));
        self.findings.truncate(question.top.unwrap_or(usize::MAX));
        if self.findings.is_empty() || replayed {
            return;
        }
        let mut places = self.findings.iter().flat_map(|finding| &finding.threads).flat_map(|thread| &thread.places);
        if places.all(|place| place.function.is_none()) {
            self.notes.push("no function or line is known; bf-clang -g names them".into());
        }
        self.notes.push(
            "misses are estimates: in which order threads used a line is known from buffer to buffer, not from access to \
             access; threads that run side by side can have more, up to one for each load and store"
                .into(),
        );
    }
}

//! `bf report`: the first page about a run.

use crate::{
    args::{Format, ReportArguments, ReportBy},
    by, counters,
    failure::Failure,
    input::{self, Loaded, STOPPED},
    names::short,
    output::{counted, files, number, only_tagged, percent, plural, print, printable, remark, row, word},
    page, patterns, phases, query,
};
use bf_postproc::{
    Answer, Cache, Query,
    curve::{self, CurvePoint, Knee},
    query::{answerable, check_tags},
    reuse::{self, ReuseDistance},
    size,
};
use bf_profile::{EndReason, Machine, Meta, Process};
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Functions named in the text; the JSON names them all.
const MOST_CALLEES: usize = 8;
/// Processes and log lines shown in the text, likewise.
const MOST_LINES: usize = 12;

/// Everything a report says.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    profiles: Vec<String>,
    processes: Vec<ProcessReport>,
    /// Answer of the hierarchy; null if there is none, with the reason below.
    query: Option<Answer>,
    query_error: Option<String>,
    /// Why caches of the hierarchy are left out of the answer, which a sampled profile does not tell; absent if none is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
    curve_line_bytes: u32,
    curve: Vec<CurvePoint>,
    knees: Vec<Knee>,
    /// What was executed.
    #[serde(flatten)]
    executed: counters::Executed,
    /// What was touched, and in which steps.
    #[serde(flatten)]
    patterns: patterns::Patterns,
    /// For each line size; empty for a sampled profile.
    reuse_distance: Vec<ReuseDistance>,
}

/// What is known of one process.
#[derive(Debug, Serialize)]
struct ProcessReport {
    executable: String,
    command: Vec<String>,
    pid: u32,
    parent: u32,
    host: String,
    rank: Option<u32>,
    version: String,
    start_ns: u64,
    elapsed_ns: u64,
    aslr: Option<bool>,
    end: &'static str,
    signal: Option<i32>,
    threads: u32,
    accesses: u64,
    dropped: u64,
    modules: Vec<String>,
    cpu: String,
    uninstrumented: Vec<CalleeReport>,
    uninstrumented_calls: u64,
    log: Vec<String>,
    tags: Vec<String>,
    line_sizes: Vec<u32>,
    /// Part of the lines that were followed; absent if all.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<f64>,
}

/// A function that was called but not seen.
#[derive(Debug, Serialize)]
struct CalleeReport {
    name: String,
    function: String,
    calls: u64,
}

impl Report {
    /// Whether caches can be asked about.
    fn has_lines(&self) -> bool {
        self.processes.iter().any(|process| !process.line_sizes.is_empty())
    }
}

/// Reports on every profile.
pub fn command(arguments: &ReportArguments) -> Result<(), Failure> {
    if let Some(html) = &arguments.html {
        return page::write(arguments, html);
    }
    if arguments.plot.is_some() && !matches!(arguments.by, Some(ReportBy::Phase)) {
        return Err(Failure::Usage("--plot draws what --by phase tells".to_owned()));
    }
    if let Some(by) = arguments.by {
        return match by.attributed() {
            Some(by) => by::command(arguments, by),
            None => phases::command(arguments),
        };
    }
    let mut reports = Vec::new();
    for loaded in input::load(&arguments.input)? {
        let hierarchy = query::hierarchy(&arguments.hierarchy, &loaded)?;
        loaded.answer(check_tags(&loaded.profile, &arguments.hierarchy.tags))?;
        let report = report(&loaded, hierarchy, &arguments.hierarchy.tags);
        if arguments.output.format == Format::Csv {
            // It has nothing but the answer.
            if let Some(error) = &report.query_error {
                let why = report.refused.first().map(|why| loaded.failed(why));
                return Err(why.unwrap_or_else(|| Failure::Failed(error.clone())));
            }
            report.refused.iter().for_each(|why| remark(&format!("left out: {why}")));
        }
        reports.push(report);
    }
    let rows = |report: &Report| {
        let front = [("profiles", Value::from(report.profiles.join(" ")))];
        report.query.iter().flat_map(|answer| &answer.levels).filter_map(|level| row(&front, level).ok()).collect()
    };
    print(
        arguments.output.format,
        &reports,
        arguments.input.each,
        |report| text(report, &arguments.hierarchy.tags),
        rows,
    )
}

/// What is known of profiles, against caches, which may be called something, by references with these tags, or all.
pub fn report(loaded: &Loaded, (caches, label): (Vec<Cache>, Option<String>), tags: &[String]) -> Report {
    // A hierarchy that the profile was not recorded for is no reason to keep the rest back.
    let (kept, refused) = answerable(&loaded.profile, &caches);
    let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let question = Query { levels: kept, tags: tags.to_vec(), ..Query::default() };
    let (query, query_error) = match query::answer(loaded, &question, label) {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let between = if query.is_none() && refused.is_empty() { &[][..] } else { &caches };
    let (curve_line_bytes, curve) = curve::curve(&loaded.profile, tags).unwrap_or_default();
    Report {
        schema: "bf.report/1",
        profiles: loaded.names(),
        processes: loaded.profile.processes.iter().map(process).collect(),
        executed: counters::Executed::new(&loaded.profile, tags, between, query.as_ref()),
        patterns: patterns::Patterns::new(&loaded.profile, tags),
        reuse_distance: reuse::distances(&loaded.profile, tags),
        query,
        query_error,
        refused,
        curve_line_bytes,
        knees: curve::knees(&curve),
        curve,
    }
}

fn process(process: &Process) -> ProcessReport {
    let Process { meta, machine: Machine { cpu, .. }, uninstrumented, log, tags, .. } = process;
    let Meta { executable, command, pid, parent, host, rank, version, start_ns, .. } = meta.clone();
    let Meta { elapsed_ns, aslr, threads, accesses, dropped, modules, .. } = meta.clone();
    let (end, signal) = match meta.end {
        EndReason::Exit => ("exit", None),
        EndReason::QuickExit => ("quick_exit", None),
        EndReason::Signal(number) => ("signal", Some(number)),
        EndReason::Exec => ("exec", None),
        EndReason::Checkpoint => ("checkpoint", None),
        EndReason::Replay => ("replay", None),
    };
    ProcessReport {
        executable,
        command,
        pid,
        parent,
        host,
        rank,
        version,
        start_ns,
        elapsed_ns,
        aslr,
        end,
        signal,
        threads,
        accesses,
        dropped,
        modules,
        cpu: cpu.clone(),
        uninstrumented: uninstrumented
            .iter()
            .map(|callee| CalleeReport {
                name: callee.name.clone(),
                function: short(&callee.name).into_owned(),
                calls: callee.calls,
            })
            .collect(),
        uninstrumented_calls: uninstrumented.iter().map(|callee| callee.calls).sum(),
        log: log.clone(),
        tags: tags.iter().filter(|tag| !tag.is_empty()).cloned().collect(),
        line_sizes: process.line_sizes().collect(),
        sampled: process.sampled.first().map(|data| 0.5_f64.powi(data.sampling.rate_bits as i32)),
    }
}

fn text(report: &Report, tags: &[String]) -> String {
    let mut text = String::new();
    match report.processes.as_slice() {
        [only] => {
            text += &format!("{}\n", files(&report.profiles));
            text += &one(only);
        }
        several => text += &many(report, several),
    }
    text.push('\n');
    text += &only_tagged(tags);
    match (&report.query, &report.query_error) {
        (Some(answer), _) => {
            text += &format!("Caches of {}\n", answer.machine.as_deref().unwrap_or("the hierarchy asked for"));
            text += &query::levels(answer);
        }
        (None, Some(_)) if !report.has_lines() => {
            text += "Caches: no answer, this run kept no reuse distances (-bf-counters-only or BF_LINE_SIZE=none)\n";
        }
        (None, Some(error)) => text += &format!("No answer for the hierarchy: {error}\n"),
        (None, None) => {}
    }
    if !report.refused.is_empty() {
        text += "Left out; the levels below are answered as if they were the nearest:\n";
        report.refused.iter().for_each(|why| text += &format!("  {why}\n"));
    }
    text + &report.executed.text()
        + &working_sets(report)
        + &distances(report)
        + &report.patterns.text()
        + &log(&report.processes)
        + &next(report)
}

/// How a process ended, in words.
fn ending(process: &ProcessReport) -> String {
    let seconds = process.elapsed_ns as f64 / 1e9;
    match (process.end, process.signal) {
        ("replay", _) => "replayed from a trace".to_owned(),
        ("signal", Some(number)) => format!("killed by signal {number} after {seconds:.2} s"),
        ("quick_exit", _) => format!("_exit or quick_exit after {seconds:.2} s"),
        ("exec", _) => format!("replaced by another program after {seconds:.2} s"),
        ("checkpoint", _) => format!("unknown: this is a checkpoint, written after {seconds:.2} s"),
        _ => format!("exit after {seconds:.2} s"),
    }
}

/// The facts about a single process.
fn one(process: &ProcessReport) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<12}{}", printable(&value));
    };
    fact("command", process.command.join(" "));
    if process.end != "replay" {
        let rank = process.rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
        fact("process", format!("{} on {}{rank}", process.pid, process.host));
    }
    fact("ended", ending(process));
    fact(
        "recorded",
        format!(
            "{} by {}, {}{}",
            plural(process.accesses, "access", "accesses"),
            counted(process.threads.into(), "thread"),
            match process.line_sizes.as_slice() {
                [] => "without reuse distances".to_owned(),
                sizes => {
                    format!("in lines of {} bytes", sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
                }
            },
            process.sampled.map_or_else(String::new, |rate| format!(", of which 1 in {} followed", 1.0 / rate))
        ),
    );
    let none = process.accesses == 0 && process.dropped == 0;
    if none && !process.line_sizes.is_empty() && process.end != "replay" {
        let left_out = "-bf-include and -bf-exclude go by functions as they are after inlining";
        let off = "counting was off while it made accesses";
        let any = || format!("what ran made none, {off}, or no function that ran was instrumented: {left_out}");
        let stopped = process.log.iter().find(|line| line.starts_with(STOPPED)).cloned();
        fact("why none", stopped.unwrap_or_else(any));
    }
    if process.dropped > 0 {
        fact("dropped", format!("{}: the figures are too low", plural(process.dropped, "access", "accesses")));
    }
    let (tags, slices): (BTreeSet<_>, Vec<_>) = process.tags.iter().map(|tag| bf_postproc::phases::split(tag)).unzip();
    let tags: Vec<_> = tags.into_iter().filter(|tag| !tag.is_empty()).collect();
    if !tags.is_empty() {
        fact("tags", tags.join(", "));
    }
    if let Some(last) = slices.into_iter().flatten().max() {
        fact("phases", format!("{}: `bf report --by phase` shows them", last + 1));
    }
    if process.end != "replay" {
        fact("not seen", not_seen(process));
    }
    if process.aslr == Some(true) {
        fact(
            "addresses",
            "randomised: set-associative figures differ a little from run to run; `bf run --no-aslr` does not".into(),
        );
    }
    text
}

/// What the program called that was not compiled with bf.
fn not_seen(process: &ProcessReport) -> String {
    if process.uninstrumented.is_empty() {
        return "no calls into code that was not compiled with bf-clang".to_owned();
    }
    // Functions of several argument types are one here.
    let mut calls: Vec<(&str, u64)> = Vec::new();
    for CalleeReport { function, calls: more, .. } in &process.uninstrumented {
        match calls.iter_mut().find(|(known, _)| known == function) {
            Some((_, calls)) => *calls += more,
            None => calls.push((function, *more)),
        }
    }
    calls.sort_by_key(|&(_, calls)| Reverse(calls));
    let names: Vec<String> =
        calls.iter().take(MOST_CALLEES).map(|(name, calls)| format!("{name} {}", number(*calls))).collect();
    let more = calls.len().saturating_sub(MOST_CALLEES);
    let rest = if more > 0 { format!(", {}", counted(more as u64, "more function")) } else { String::new() };
    format!(
        "{} into code not compiled with bf-clang: {}{rest}",
        counted(process.uninstrumented_calls, "call"),
        names.join(", ")
    )
}

/// A line for each of several processes.
fn many(report: &Report, processes: &[ProcessReport]) -> String {
    let accesses = processes.iter().map(|process| process.accesses).sum();
    let mut text = format!(
        "{}: {}, {}\n",
        files(&report.profiles),
        plural(processes.len() as u64, "process", "processes"),
        plural(accesses, "access", "accesses")
    );
    for process in processes.iter().take(MOST_LINES) {
        let rank = process.rank.map_or_else(String::new, |rank| format!(" rank {rank}"));
        // A trace of another tool does not say which process it is of.
        let which = match process.pid {
            0 => String::new(),
            pid => format!(" {pid} on {}{rank}", process.host),
        };
        let _ = writeln!(
            text,
            "  {}{which}: {}, {}",
            printable(&process.executable),
            plural(process.accesses, "access", "accesses"),
            ending(process)
        );
    }
    if processes.len() > MOST_LINES {
        let _ = writeln!(text, "  and {} more", processes.len() - MOST_LINES);
    }
    text
}

/// Where the miss ratio of a fully associative cache falls.
fn working_sets(report: &Report) -> String {
    if report.knees.is_empty() {
        return String::new();
    }
    let mut text = "\nWorking sets (miss ratio of a fully associative cache)\n".to_owned();
    for knee in &report.knees {
        let _ = writeln!(
            text,
            "  {:>8}  {:>9} -> {}",
            size::format(knee.size_bytes),
            percent(Some(knee.above)),
            percent(Some(knee.below))
        );
    }
    text
}

/// How far back the last reference to a line lies.
fn distances(report: &Report) -> String {
    let mut text = String::new();
    for ReuseDistance { line_bytes, loads, stores, all } in &report.reuse_distance {
        if all.references == 0 {
            continue;
        }
        if text.is_empty() {
            text += "\nReuse distance, other lines in between: median, and median deviation from it\n";
        }
        let both = |middle: &reuse::Middle| match (middle.references, middle.median, middle.mad) {
            (0, ..) => "none".to_owned(),
            (_, Some(median), Some(mad)) => format!("{}, {}", number(median), number(mad)),
            (_, Some(median), None) => format!("{}, infinite", number(median)),
            _ => "infinite".to_owned(),
        };
        let (loads, stores, all) = (both(loads), both(stores), both(all));
        let _ = writeln!(text, "  {line_bytes}-byte lines: loads {loads}; stores {stores}; all {all}");
    }
    text
}

/// What the runtime remarked.
fn log(processes: &[ProcessReport]) -> String {
    let lines: Vec<&String> = processes.iter().flat_map(|process| &process.log).collect();
    if lines.is_empty() {
        return String::new();
    }
    let mut text = "\nRemarks of the runtime\n".to_owned();
    for line in lines.iter().take(MOST_LINES) {
        let _ = writeln!(text, "  {}", printable(line));
    }
    if lines.len() > MOST_LINES {
        let _ = writeln!(text, "  and {} more", lines.len() - MOST_LINES);
    }
    text
}

/// What to type next.
fn next(report: &Report) -> String {
    if !report.has_lines() {
        return String::new();
    }
    let profile = report.profiles.first().map_or_else(|| "PROFILE".to_owned(), |profile| word(profile));
    let more = if report.profiles.len() > 1 { " ..." } else { "" };
    let line = report.processes.first().and_then(|process| process.line_sizes.first()).copied().unwrap_or(64);
    let usual = report
        .processes
        .first()
        .is_none_or(|process| process.line_sizes.contains(&64) || process.line_sizes.len() == 1);
    let line = if usual { String::new() } else { format!(":{line}") };
    let query = if report.processes.iter().any(|process| process.sampled.is_some()) {
        format!("  bf query {profile}{more} --cache L3=32M:16{line}\n")
    } else {
        format!(
            "  bf query {profile}{more} --cache L1=32K:8{line} --cache L2=1M:16{line}\n  \
             bf query {profile}{more} --machine zen3-milan       (bf machines lists them)\n"
        )
    };
    format!("\nNext\n{query}  bf sweep {profile}{more} --size 4K..256M --ways 1,8,full --plot mrc.svg\n")
}

//! Sampling: how far the estimates are off, how often their intervals hold the exact figure, and what it costs.

use crate::{median, table, traces};
use anyhow::{Context as _, Result, ensure};
use bf_collect::{Batch, Bucket, Config, Sample, Session};
use bf_postproc::{LevelAnswer, Query, query, sampled::Interval};
use bf_profile::trace::{Reader, Record};
use bf_profile::{Process, Profile};
use bf_tests::project;
use bf_tests::sandbox::{self, Build};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Accesses per trace.
    #[arg(long, default_value_t = ACCESSES)]
    accesses: usize,
    /// Print a row for every figure too.
    #[arg(long)]
    each: bool,
    /// Traces and programs to run; all if none is named.
    names: Vec<String>,
}

const ACCESSES: usize = 10_000_000;

impl Default for Args {
    fn default() -> Self {
        Self { accesses: ACCESSES, each: false, names: Vec::new() }
    }
}

/// Rates 1 / 2^this.
const RATES: [u32; 3] = [4, 6, 8];

/// Programs that are compiled with bf-clang and traced.
const PROGRAMS: [&str; 4] = ["sqlite", "lua", "minigzip", "clipper"];

/// Caches, some of which are too small for a low rate.
const CACHES: [&str; 14] = [
    "256K:4",
    "1M:16",
    "2M:16",
    "2M:8",
    "4M:16",
    "8M:16",
    "16M:16",
    "32M:16",
    "1M:full",
    "4M:full",
    "16M:full",
    "1.25M:20:hashed",
    "12M:12:hashed",
    "38.5M:11:hashed",
];

const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the tables.
///
/// # Errors
/// A program does not build or fails, or there is nothing of a given name.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let known = || traces::NAMES.into_iter().chain(PROGRAMS);
    let names: Vec<&str> = match args.names.is_empty() {
        true => known().collect(),
        false => args.names.iter().map(String::as_str).collect(),
    };
    let header = ["whole ns", "1/16 ns", "1/64 ns", "1/256 ns"];
    let mut costs = table(&[&["trace"], &header[..]].concat());
    let mut rows = Vec::new();
    for name in names {
        eprintln!("measuring {name}");
        let batches = batches(name, args.accesses)
            .with_context(|| format!("no {name}; there are {}", known().collect::<Vec<_>>().join(", ")))?;
        let (cost, profiles) = sessions(&batches, rounds);
        costs.add_row([name.to_owned()].into_iter().chain(cost.iter().map(|ns| format!("{ns:.1}"))));
        let [whole, sampled @ ..] = profiles.as_slice() else { unreachable!("one session more than rates") };
        for (profile, rate_bits) in sampled.iter().zip(RATES) {
            for cache in CACHES {
                rows.extend(compare(name, cache, rate_bits, whole, profile)?);
            }
        }
    }
    println!("{costs}\n{}", summary(&rows));
    if args.each {
        println!("\n{}", each(&rows));
    }
    Ok(())
}

/// Nanoseconds an access and the profile, of everything and at each rate.
fn sessions(batches: &[Batch], rounds: usize) -> (Vec<f64>, Vec<Profile>) {
    let samples: Vec<_> = [None].into_iter().chain(RATES.map(Sample::one_in)).collect();
    let accesses: u64 = batches.iter().map(Batch::accesses).sum();
    let mut times = vec![Vec::new(); samples.len()];
    let mut profiles = vec![Profile::default(); samples.len()];
    for _ in 0..rounds {
        for (index, &sample) in samples.iter().enumerate() {
            let session = Session::new(Config { sample, ..Config::default() });
            let slot = session.take_slot();
            let start = Instant::now();
            batches.iter().for_each(|batch| session.feed(slot, batch, Bucket::FIRST));
            times[index].push(start.elapsed().as_nanos() as f64 / accesses as f64);
            let snapshot = session.snapshot(PATIENCE);
            let (lines, sampled, tags) = (snapshot.lines, snapshot.sampled, vec![String::new()]);
            profiles[index] = Profile { processes: vec![Process { lines, sampled, tags, ..Process::default() }] };
        }
    }
    (times.into_iter().map(median).collect(), profiles)
}

/// An estimate beside the exact figure.
struct Row {
    name: String,
    cache: &'static str,
    rate_bits: u32,
    figure: &'static str,
    references: u64,
    exact: u64,
    estimate: u64,
    interval: Interval,
}

impl Row {
    fn covered(&self) -> bool {
        (self.interval.low..=self.interval.high).contains(&self.exact)
    }

    /// Difference by all references.
    fn error(&self) -> f64 {
        self.estimate.abs_diff(self.exact) as f64 / self.references as f64
    }

    /// Half of the interval by all references.
    fn half(&self) -> f64 {
        (self.interval.high - self.interval.low) as f64 / 2.0 / self.references as f64
    }
}

/// Misses and write-backs of a cache; nothing where the sample does not tell.
fn compare(name: &str, cache: &'static str, rate_bits: u32, whole: &Profile, sampled: &Profile) -> Result<Vec<Row>> {
    let question = Query { levels: vec![format!("C={cache}").parse()?], ..Query::default() };
    let Ok(estimate) = query(sampled, &question) else { return Ok(Vec::new()) };
    let exact = query(whole, &question)?;
    let (references, exact, estimate) = (exact.references, &exact.levels[0], &estimate.levels[0]);
    let intervals = estimate.sampled.as_ref().context("not estimated")?;
    let writebacks = |level: &LevelAnswer| level.writebacks.context("several threads");
    let row = |figure, exact, estimate, interval| Row {
        name: name.to_owned(),
        cache,
        rate_bits,
        figure,
        references,
        exact,
        estimate,
        interval,
    };
    Ok(vec![
        row("misses", exact.misses, estimate.misses, intervals.misses),
        row("write-backs", writebacks(exact)?, writebacks(estimate)?, intervals.writebacks),
    ])
}

/// Whether a cache is answered from whole sets, in words.
fn kind(cache: &str) -> &'static str {
    match cache.rsplit(':').next() {
        Some("full") => "full",
        Some("hashed") => "hashed",
        _ => "sets",
    }
}

/// A row for each rate and kind of cache, over all traces.
fn summary(rows: &[Row]) -> String {
    let mut table = table(&[
        "rate",
        "caches",
        "figure",
        "figures",
        "held by their interval",
        "mean error",
        "greatest error",
        "mean half interval",
    ]);
    for rate_bits in RATES {
        for caches in ["sets", "full", "hashed"] {
            for figure in ["misses", "write-backs"] {
                let of = |row: &&Row| (row.rate_bits, kind(row.cache), row.figure) == (rate_bits, caches, figure);
                let some: Vec<_> = rows.iter().filter(of).collect();
                if some.is_empty() {
                    continue;
                }
                let count = some.len() as f64;
                let held = some.iter().filter(|row| row.covered()).count();
                table.add_row([
                    format!("1/{}", 1 << rate_bits),
                    caches.to_owned(),
                    figure.to_owned(),
                    some.len().to_string(),
                    format!("{held} ({:.0} %)", 100.0 * held as f64 / count),
                    format!("{:.5}", some.iter().map(|row| row.error()).sum::<f64>() / count),
                    format!("{:.5}", some.iter().map(|row| row.error()).fold(0.0, f64::max)),
                    format!("{:.5}", some.iter().map(|row| row.half()).sum::<f64>() / count),
                ]);
            }
        }
    }
    let held = rows.iter().filter(|row| row.covered()).count();
    format!("{table}\n{held} of {} intervals hold the exact figure", rows.len())
}

fn each(rows: &[Row]) -> String {
    let mut table = table(&["trace", "cache", "rate", "figure", "exact", "estimate", "interval", "held"]);
    for row in rows {
        table.add_row([
            row.name.clone(),
            row.cache.to_owned(),
            format!("1/{}", 1 << row.rate_bits),
            row.figure.to_owned(),
            row.exact.to_string(),
            row.estimate.to_string(),
            format!("{} - {}", row.interval.low, row.interval.high),
            if row.covered() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.to_string()
}

/// The accesses of a trace or program, at most `limit`.
pub fn batches(name: &str, limit: usize) -> Result<Vec<Batch>> {
    let mut batches = vec![Batch::new()];
    let mut add = |address, size, store| {
        if batches[batches.len() - 1].accesses() == Batch::MOST {
            batches.push(Batch::new());
        }
        if let Some(last) = batches.last_mut() {
            last.access(address, size, store);
        }
    };
    if let Some(references) = traces::make(name, limit) {
        references.iter().for_each(|one| add(one.line() << 6, 8, one.is_store()));
        return Ok(batches);
    }
    let folder = tempfile::tempdir()?;
    let path = trace(name, folder.path())?;
    let mut left = limit;
    for record in Reader::new(BufReader::new(File::open(path)?))? {
        if left == 0 {
            break;
        }
        if let Record::Chunk { accesses, .. } = record? {
            let taken = accesses.len().min(left);
            accesses[..taken].iter().for_each(|access| add(access.address, access.size, access.store));
            left -= taken;
        }
    }
    Ok(batches)
}

/// Runs a program and leaves its trace.
fn trace(name: &str, folder: &Path) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/tables.lua");
    let (program, args, input) = match name {
        "sqlite" => (project::sqlite(Build::Bf)?, vec!["20000".into()], None),
        "lua" => (project::lua(Build::Bf)?.join("lua"), vec![script.into_os_string(), "4".into()], None),
        "minigzip" => {
            let input = bf_tests::source("libsqlite3-sys")?.join("sqlite3/sqlite3.c");
            (project::zlib(Build::Bf)?.join("minigzip"), Vec::new(), Some(input))
        }
        "clipper" => (project::clipper(Build::Bf)?, Vec::new(), None),
        _ => anyhow::bail!("no such program"),
    };
    let path = folder.join("trace");
    let mut command = sandbox::command("setarch");
    command.arg("-R").arg(program).args(args).current_dir(folder);
    // The runtime keeps no stacks here: the trace is all that is wanted.
    command.env("BF_TRACE", &path).env("BF_LINE_SIZE", "none").env("BF_PROFILE", folder.join("profile"));
    command.stdin(input.map_or_else(|| Ok(Stdio::null()), |input| File::open(input).map(Stdio::from))?);
    // Clipper2's driver ends with a code of its own.
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.code().is_some() && path.exists(), "{name} left no trace");
    Ok(path)
}

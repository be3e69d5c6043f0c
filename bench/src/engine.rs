//! The engine alone, on traces in memory.

use crate::clock::nanoseconds;
use crate::simulator::Hierarchy;
use crate::{median, recorded, table, traces};
use anyhow::{Context as _, Result};
use bf_stack::{Binned, Bucket, Engine, Histograms, Limits, Plain, Reference, Stack};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// References per trace.
    #[arg(long, default_value_t = REFERENCES)]
    pub(crate) references: usize,
    /// Traces to run; all if none is named.
    pub(crate) traces: Vec<String>,
}

const REFERENCES: usize = 10_000_000;
/// The plain walk is given this many references at most: it takes microseconds for each.
const PLAIN: usize = 20_000;
/// References handed over at a time.
pub(crate) const CHUNK: usize = 8192;

impl Default for Args {
    fn default() -> Self {
        Self { references: REFERENCES, traces: Vec::new() }
    }
}

/// Prints the tables.
///
/// # Errors
/// There is no trace of a given name, or a program cannot be recorded.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let mut costs = table(&["trace", "engine ns", "one hierarchy ns", "ratio", "plain walk ns", "L1/L2/L3 miss %"]);
    let mut depths = table(&["trace", "on top %", "1 to 63 %", "64 to 319 %", "deeper %", "cold %"]);
    for name in &names(&args.traces) {
        let trace = trace(name, args.references)?;
        eprintln!("measuring {name}");
        let (cost, histograms) = row(&trace, rounds);
        costs.add_row([name.clone()].into_iter().chain(cost));
        depths.add_row([name.clone()].into_iter().chain(shares(&histograms)));
    }
    println!("{costs}\n\nDistances d_0:\n\n{depths}");
    Ok(())
}

/// The traces asked for: all if none is, but for recorded ones where that is not possible.
pub(crate) fn names(asked: &[String]) -> Vec<String> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let recorded = if recorded::possible() { &recorded::NAMES[..] } else { &[] };
    if recorded.is_empty() {
        eprintln!("no valgrind: leaving out {}", recorded::NAMES.join(", "));
    }
    recorded.iter().chain(&traces::NAMES).map(|&name| name.to_owned()).collect()
}

/// A trace of any kind.
pub(crate) fn trace(name: &str, references: usize) -> Result<Vec<Reference>> {
    if recorded::NAMES.contains(&name) {
        return recorded::make(name, references).with_context(|| format!("failed to record {name}"));
    }
    let known = || recorded::NAMES.into_iter().chain(traces::NAMES).collect::<Vec<_>>().join(", ");
    traces::make(name, references).with_context(|| format!("no trace {name}; there are {}", known()))
}

fn row(references: &[Reference], rounds: usize) -> ([String; 5], Histograms) {
    let (mut engine_ns, mut simulator_ns) = (Vec::new(), Vec::new());
    let (mut misses, mut histograms) = ([0; 3], Histograms::default());
    for _ in 0..rounds {
        let mut engine = Stack::new(Limits::default());
        engine_ns.push(each(references, |part| engine.feed(part, Bucket::FIRST)));
        histograms = engine.histograms().remove(0).1;
        drop(engine);
        let mut hierarchy = Hierarchy::new();
        simulator_ns.push(each(references, |part| hierarchy.feed(part)));
        misses = hierarchy.misses();
    }
    let mut plain = Plain::new(Limits::default());
    let plain_ns = each(&references[..PLAIN.min(references.len())], |part| plain.feed(part, Bucket::FIRST));
    let (engine, simulator) = (median(engine_ns), median(simulator_ns));
    let percent = misses.map(|count| format!("{:.1}", 100.0 * count as f64 / references.len() as f64));
    let cells = [
        format!("{engine:.1}"),
        format!("{simulator:.1}"),
        format!("{:.2}", engine / simulator),
        format!("{plain_ns:.0}"),
        percent.join(" / "),
    ];
    (cells, histograms)
}

/// CPU time of one reference.
pub(crate) fn each(references: &[Reference], mut feed: impl FnMut(&[Reference])) -> f64 {
    nanoseconds(|| references.chunks(CHUNK).for_each(&mut feed)) / references.len() as f64
}

/// What a trace is: how deep its references go.
fn shares(histograms: &Histograms) -> [String; 5] {
    let within = |from: u64, to: u64| {
        let bins = histograms.full.distances.iter().flatten();
        bins.filter(|bin: &&Binned| (from..to).contains(&bin.lo)).map(|bin| bin.count).sum::<u64>()
    };
    let all: u64 = histograms.references.iter().sum();
    let cold = histograms.cold.iter().sum();
    [within(0, 1), within(1, 64), within(64, 320), within(320, u64::MAX), cold]
        .map(|count| format!("{:.1}", 100.0 * count as f64 / all as f64))
}

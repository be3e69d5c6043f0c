//! The engine alone, on traces in memory.

use crate::simulator::Hierarchy;
use crate::{median, table, traces};
use anyhow::{Context as _, Result};
use bf_stack::{Bucket, Engine, Limits, Plain, Reference, Stack};
use std::time::Instant;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// References per trace.
    #[arg(long, default_value_t = REFERENCES)]
    references: usize,
    /// Traces to run; all if none is named.
    traces: Vec<String>,
}

const REFERENCES: usize = 10_000_000;
/// The plain walk is given this many references at most: it takes microseconds for each.
const PLAIN: usize = 20_000;

impl Default for Args {
    fn default() -> Self {
        Self { references: REFERENCES, traces: Vec::new() }
    }
}

/// Prints the table.
///
/// # Errors
/// There is no trace of a given name.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let names: Vec<_> = match args.traces.is_empty() {
        true => traces::NAMES.to_vec(),
        false => args.traces.iter().map(String::as_str).collect(),
    };
    let mut table = table(&["trace", "engine ns", "one hierarchy ns", "ratio", "plain walk ns", "L1/L2/L3 miss %"]);
    for name in names {
        let trace = traces::make(name, args.references)
            .with_context(|| format!("no trace {name}; there are {}", traces::NAMES.join(", ")))?;
        table.add_row(row(name, &trace, rounds));
    }
    println!("{table}");
    Ok(())
}

fn row(name: &str, references: &[Reference], rounds: usize) -> [String; 6] {
    let (mut engine_ns, mut simulator_ns) = (Vec::new(), Vec::new());
    let mut misses = [0; 3];
    for _ in 0..rounds {
        let mut engine = Stack::new(Limits::default());
        engine_ns.push(nanoseconds(references, |part| engine.feed(part, Bucket::FIRST)));
        let mut hierarchy = Hierarchy::new();
        simulator_ns.push(nanoseconds(references, |part| hierarchy.feed(part)));
        misses = hierarchy.misses();
    }
    let mut plain = Plain::new(Limits::default());
    let plain_ns = nanoseconds(&references[..PLAIN.min(references.len())], |part| plain.feed(part, Bucket::FIRST));
    let (engine, simulator) = (median(engine_ns), median(simulator_ns));
    let percent = misses.map(|count| format!("{:.1}", 100.0 * count as f64 / references.len() as f64));
    [
        name.to_owned(),
        format!("{engine:.1}"),
        format!("{simulator:.1}"),
        format!("{:.2}", engine / simulator),
        format!("{plain_ns:.0}"),
        percent.join(" / "),
    ]
}

fn nanoseconds(references: &[Reference], mut feed: impl FnMut(&[Reference])) -> f64 {
    let start = Instant::now();
    references.chunks(8192).for_each(&mut feed);
    start.elapsed().as_nanos() as f64 / references.len() as f64
}

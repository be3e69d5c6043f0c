//! Measures, never asserts: speed as ratios within one run, alternating what is compared, medians of the rounds.
#![forbid(unsafe_code)]

mod simulator;
mod traces;

use bf_stack::{Bucket, Engine, Limits, Plain, Reference, Stack};
use clap::Parser;
use comfy_table::Table;
use simulator::Hierarchy;
use std::time::Instant;

/// Nanoseconds per reference of the engine, beside a simulator of one hierarchy and the plain list walk.
#[derive(Debug, Parser)]
struct Args {
    /// References per trace.
    #[arg(long, default_value_t = 20_000_000)]
    references: usize,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Traces to run; all if none is named.
    traces: Vec<String>,
}

/// The plain walk is given this many references at most: it takes microseconds for each.
const PLAIN: usize = 20_000;

fn main() {
    let args = Args::parse();
    let names: Vec<_> = match args.traces.is_empty() {
        true => traces::NAMES.map(str::to_owned).to_vec(),
        false => args.traces.clone(),
    };
    let mut table = Table::new();
    table.set_header(["trace", "engine ns", "simulator ns", "ratio", "plain ns", "L1/L2/L3 miss %"]);
    for name in names {
        let Some(trace) = traces::make(&name, args.references) else {
            eprintln!("no trace {name}; there are {}", traces::NAMES.join(", "));
            std::process::exit(2);
        };
        table.add_row(row(&trace, args.rounds));
    }
    println!("{table}");
}

fn row(trace: &traces::Trace, rounds: usize) -> [String; 6] {
    let references = &trace.references;
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
        trace.name.clone(),
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

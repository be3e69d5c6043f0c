//! Measures, never asserts: speed as ratios within one run, alternating what is compared, medians of the rounds.
#![forbid(unsafe_code)]

mod engine;
mod programs;
mod simulator;
mod traces;

use clap::Parser;
use comfy_table::{Table, presets};

/// Measures bf on this machine.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench")]
struct Args {
    /// What to measure; everything if nothing is named.
    #[command(subcommand)]
    what: Option<What>,
    /// Rounds of everything; medians are shown.
    #[arg(long, global = true, default_value_t = 3)]
    rounds: usize,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Nanoseconds per reference of the engine, beside a simulator of one hierarchy and the plain list walk.
    Engine(engine::Args),
    /// CPU time and memory of whole programs as ratios to native, beside Cachegrind.
    Programs(programs::Args),
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.what {
        Some(What::Engine(engine)) => engine::run(&engine, args.rounds),
        Some(What::Programs(programs)) => programs::run(&programs, args.rounds),
        None => {
            engine::run(&engine::Args::default(), args.rounds)?;
            programs::run(&programs::Args::default(), args.rounds)
        }
    }
}

/// A table that can be pasted into a page of the documentation.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    table
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

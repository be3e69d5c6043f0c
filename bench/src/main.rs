//! Measures, never asserts: speed as ratios within one run, alternating what is compared, medians of the rounds.
#![forbid(unsafe_code)]

mod brute;
mod clock;
mod cost;
mod engine;
mod exact;
mod helpers;
mod machine;
mod memory;
mod overhead;
mod plots;
mod programs;
mod recorded;
mod sampling;
mod simulator;
mod sink;
mod sweep;
mod threads;
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
    /// The engine compared with brute force on 100 million references, once.
    Exact(exact::Args),
    /// The engine's cost against footprint, set counts, ways, line sizes and threads; its memory for each line.
    Cost(cost::Args),
    /// What it adds to the engine's cost to break misses down by the place in the program.
    Sink(engine::Args),
    /// One measurement of `cost memory`.
    #[command(hide = true)]
    Touch(memory::Args),
    /// CPU time and memory of whole programs as ratios to native, beside Cachegrind.
    Programs(programs::Args),
    /// Wall and CPU time of an access with 1, 2, 4, … threads, on data of their own and in common.
    Threads(threads::Args),
    /// Wall and CPU time of an access of a program of one thread with 0, 1, 2, 4, … helpers.
    Helpers(helpers::Args),
    /// What each option of the compiler costs by itself.
    Overhead(overhead::Args),
    /// Errors, intervals and cost of sampling, beside the exact run.
    Sampling(sampling::Args),
    /// A million hierarchies of three levels against one profile, beside as many questions one by one.
    Sweep(sweep::Args),
    /// Bandwidths of `bf machine`, beside likwid-bench, mbw and STREAM.
    Machine(machine::Args),
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.what {
        Some(What::Engine(engine)) => engine::run(&engine, args.rounds),
        Some(What::Exact(exact)) => exact::run(&exact),
        Some(What::Cost(cost)) => cost::run(&cost, args.rounds),
        Some(What::Sink(sink)) => sink::run(&sink, args.rounds),
        Some(What::Touch(touch)) => memory::touch(&touch),
        Some(What::Programs(programs)) => programs::run(&programs, args.rounds),
        Some(What::Threads(threads)) => threads::run(&threads, args.rounds),
        Some(What::Helpers(helpers)) => helpers::run(&helpers, args.rounds),
        Some(What::Overhead(overhead)) => overhead::run(&overhead, args.rounds),
        Some(What::Sampling(sampling)) => sampling::run(&sampling, args.rounds),
        Some(What::Sweep(sweep)) => sweep::run(&sweep, args.rounds),
        Some(What::Machine(machine)) => machine::run(&machine, args.rounds),
        None => {
            engine::run(&engine::Args::default(), args.rounds)?;
            sink::run(&engine::Args::default(), args.rounds)?;
            cost::run(&cost::Args::default(), args.rounds)?;
            exact::run(&exact::Args::default())?;
            threads::run(&threads::Args::default(), args.rounds)?;
            helpers::run(&helpers::Args::default(), args.rounds)?;
            programs::run(&programs::Args::default(), args.rounds)?;
            overhead::run(&overhead::Args::default(), args.rounds)?;
            sampling::run(&sampling::Args::default(), args.rounds)?;
            sweep::run(&sweep::Args::default(), args.rounds)?;
            machine::run(&machine::Args { runs: machine::RUNS }, args.rounds)
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

/// Wall and CPU time of an access, ns.
type Times = (f64, f64);

/// Medians: wall time, and as a ratio to another, CPU time likewise.
fn beside(times: &[Times], others: &[Times]) -> [String; 4] {
    let middle = |of: fn(&Times) -> f64| (median(times.iter().map(of)), median(others.iter().map(of)));
    let ((wall, other_wall), (cpu, other_cpu)) = (middle(|times| times.0), middle(|times| times.1));
    [wall, wall / other_wall, cpu, cpu / other_cpu].map(|figure| format!("{figure:.2}"))
}

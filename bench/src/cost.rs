//! What the engine's cost depends on: footprint, set counts, ways, line sizes, threads; and its memory.

use crate::clock::nanoseconds;
use crate::engine::{CHUNK, each, trace};
use crate::plots::{Curve, Plot};
use crate::simulator::Hierarchy;
use crate::traces::Random;
use crate::{median, memory, table};
use anyhow::Result;
use bf_collect::{Batch, Config, Session};
use bf_stack::{Bucket, Engine as _, Limits, Reference, Stack};
use std::path::PathBuf;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// References measured for each point.
    #[arg(long, default_value_t = REFERENCES)]
    references: usize,
    /// Greatest footprint, MiB.
    #[arg(long, default_value_t = FOOTPRINT_MIB)]
    footprint: u64,
    /// Folder to write a plot of each axis to.
    #[arg(long)]
    plots: Option<PathBuf>,
    /// What to vary; all if none is named.
    axes: Vec<Axis>,
}

const REFERENCES: usize = 4_000_000;
const FOOTPRINT_MIB: u64 = 1024;

impl Default for Args {
    fn default() -> Self {
        Self { references: REFERENCES, footprint: FOOTPRINT_MIB, plots: None, axes: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Axis {
    /// Bytes the program touches.
    Footprint,
    /// K, the greatest set count's exponent.
    Sets,
    /// `max_ways`.
    Ways,
    /// How many line sizes are followed.
    Lines,
    /// How many threads make the references.
    Threads,
    /// Bytes the engine needs for a line.
    Memory,
}

/// Traces on which limits, line sizes and threads are varied: one of each kind.
const TRACES: [&str; 4] = ["molecular", "hash-btree", "column-walk", "random-64M"];

/// Prints the tables and writes the plots.
///
/// # Errors
/// A plot cannot be written, or the system does not tell how much memory there is in use.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let asked = |axis| args.axes.is_empty() || args.axes.contains(&axis);
    if asked(Axis::Footprint) {
        show(args, "footprint", &footprint(args, rounds), &FOOTPRINT)?;
    }
    let limits = Limits::default();
    if asked(Axis::Sets) {
        let engine = |max_set_bits| move || Stack::new(Limits { max_set_bits, ..limits });
        show(args, "K", &engines(args, rounds, [0, 2, 4, 6, 8, 10, 12, 14, 16, 17, 20, 24], engine)?, &SETS)?;
    }
    if asked(Axis::Ways) {
        let engine = |max_ways| move || Stack::new(Limits { max_ways, ..limits });
        show(args, "max_ways", &engines(args, rounds, [4, 8, 16, 32, 64, 128, 255], engine)?, &WAYS)?;
    }
    if asked(Axis::Lines) {
        show(args, "line sizes", &sessions(args, rounds, 1..=LINE_SIZES.len(), |sizes| (sizes, 1))?, &LINES)?;
    }
    if asked(Axis::Threads) {
        show(args, "threads", &sessions(args, rounds, [1, 2, 4, 8], |threads| (1, threads))?, &THREADS)?;
    }
    if asked(Axis::Memory) {
        memory::run(args.footprint)?;
    }
    Ok(())
}

const Y: &str = "CPU time of a reference, ns";
const FOOTPRINT: Plot<'_> = Plot {
    file: "engine-footprint",
    title: "Cost against footprint (K = 16, 64 ways, loads and stores)",
    x: "footprint, MiB",
    y: Y,
    log: true,
    label: |x| format!("{x:.0}"),
};
const SETS: Plot<'_> = Plot {
    file: "engine-sets",
    title: "Cost against K: set counts 1, 2, 4, … 2^K are followed",
    x: "K",
    y: Y,
    log: false,
    label: |x| format!("{x:.0}"),
};
const WAYS: Plot<'_> = Plot {
    file: "engine-ways",
    title: "Cost against the ways that are exact (K = 16)",
    x: "max_ways",
    y: Y,
    log: true,
    label: |x| format!("{x:.0}"),
};
const LINES: Plot<'_> = Plot {
    file: "engine-lines",
    title: "Cost against the number of line sizes (64, 32, 128, 256 bytes)",
    x: "line sizes followed at once",
    y: "CPU time of an access, ns",
    log: false,
    label: whole,
};
const THREADS: Plot<'_> = Plot {
    file: "engine-threads",
    title: "Cost against the number of threads, private and global stacks",
    x: "threads that make the accesses",
    y: "CPU time of an access, ns",
    log: true,
    label: |x| format!("{x:.0}"),
};

/// Between whole numbers there is nothing.
fn whole(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() }
}

/// Prints the table of some curves over the same values of x, and writes their plot.
fn show(args: &Args, x: &str, curves: &[Curve], plot: &Plot<'_>) -> Result<()> {
    let header: Vec<_> = [x].into_iter().chain(curves.iter().map(|(name, _)| name.as_str())).collect();
    let mut table = table(&header);
    for index in 0..curves[0].1.len() {
        let row = curves.iter().map(|(_, curve)| format!("{:.1}", curve[index].1));
        table.add_row([format!("{:.0}", curves[0].1[index].0)].into_iter().chain(row));
    }
    println!("{}, {}:\n\n{table}\n", plot.title, plot.y);
    args.plots.as_deref().map_or(Ok(()), |folder| plot.write(folder, curves))
}

/// The next line, from how many there were and a random number.
type Pattern = fn(u64, u64) -> u64;

/// Every line of the footprint is referenced once before the clock starts.
fn footprint(args: &Args, rounds: usize) -> Vec<Curve> {
    let patterns: [(&str, Pattern); 2] = [("random", |_, random| random), ("one line after the other", |at, _| at)];
    let mut curves = Vec::new();
    for (name, pattern) in patterns {
        let (mut engine, mut simulator) = (Vec::new(), Vec::new());
        for mib in (0..).map(|power| 1 << power).take_while(|&mib| mib <= args.footprint) {
            eprintln!("measuring {name}, {mib} MiB");
            let lines = mib << 14;
            let mut random = Random(3);
            let line = |at: usize| Reference::new(pattern(at as u64, random.next()) % lines, at.is_multiple_of(4));
            let measured: Vec<_> = (0..args.references).map(line).collect();
            let (mut engine_ns, mut simulator_ns) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let mut stack = Stack::new(Limits::default());
                walk(lines, |part| stack.feed(part, Bucket::FIRST));
                engine_ns.push(each(&measured, |part| stack.feed(part, Bucket::FIRST)));
                drop(stack);
                let mut hierarchy = Hierarchy::new();
                walk(lines, |part| hierarchy.feed(part));
                simulator_ns.push(each(&measured, |part| hierarchy.feed(part)));
            }
            engine.push((mib as f64, median(engine_ns)));
            simulator.push((mib as f64, median(simulator_ns)));
        }
        curves.push((format!("engine, {name}"), engine));
        curves.push((format!("one hierarchy, {name}"), simulator));
    }
    curves
}

/// Every line once.
pub(crate) fn walk(lines: u64, mut feed: impl FnMut(&[Reference])) {
    let mut part = Vec::with_capacity(CHUNK);
    for first in (0..lines).step_by(CHUNK) {
        part.clear();
        part.extend((first..lines.min(first + CHUNK as u64)).map(|line| Reference::new(line, line % 4 == 0)));
        feed(&part);
    }
}

/// A curve for each trace over engines that differ; values of x take turns.
fn engines<E: Fn() -> Stack>(
    args: &Args,
    rounds: usize,
    xs: impl IntoIterator<Item = u32> + Clone,
    engine: impl Fn(u32) -> E,
) -> Result<Vec<Curve>> {
    curves(args, rounds, xs.into_iter().map(|x| (f64::from(x), engine(x))), |make, references| {
        let mut stack = make();
        each(references, |part| stack.feed(part, Bucket::FIRST))
    })
}

/// Line sizes in the order in which they are added.
const LINE_SIZES: [u32; 4] = [64, 32, 128, 256];

/// The same over sessions, which are given accesses of eight bytes, one batch from each thread in turn; the threads have
/// the data in common. `shape` is how many line sizes and threads there are.
fn sessions(
    args: &Args,
    rounds: usize,
    xs: impl IntoIterator<Item = usize>,
    shape: impl Fn(usize) -> (usize, usize),
) -> Result<Vec<Curve>> {
    curves(args, rounds, xs.into_iter().map(|x| (x as f64, shape(x))), |&(sizes, threads), references| {
        let mut line_sizes = LINE_SIZES[..sizes].to_vec();
        line_sizes.sort_unstable();
        let batches: Vec<_> = references.chunks(CHUNK).map(|part| batch(part, 0)).collect();
        let session = Session::new(Config { line_sizes, ..Config::default() });
        let slots: Vec<_> = (0..threads).map(|_| session.take_slot()).collect();
        let all = || {
            for (batch, &slot) in batches.iter().zip(slots.iter().cycle()) {
                session.feed(slot, batch, Bucket::FIRST);
            }
        };
        nanoseconds(all) / references.len() as f64
    })
}

/// Accesses of eight bytes, moved by so many bytes.
pub(crate) fn batch(references: &[Reference], by: u64) -> Batch {
    let mut batch = Batch::new();
    references.iter().for_each(|one| batch.access((one.line() << 6) + by, 8, one.is_store()));
    batch
}

/// A curve for each trace over subjects that take turns, `rounds` times.
fn curves<S>(
    args: &Args,
    rounds: usize,
    subjects: impl Iterator<Item = (f64, S)>,
    measure: impl Fn(&S, &[Reference]) -> f64,
) -> Result<Vec<Curve>> {
    let subjects: Vec<_> = subjects.collect();
    let mut curves = Vec::new();
    for name in TRACES {
        eprintln!("measuring {name}");
        let references = trace(name, args.references)?;
        let mut times = vec![Vec::new(); subjects.len()];
        for _ in 0..rounds {
            for (times, (_, subject)) in times.iter_mut().zip(&subjects) {
                times.push(measure(subject, &references));
            }
        }
        let points = subjects.iter().zip(times).map(|((x, _), times)| (*x, median(times)));
        curves.push((name.to_owned(), points.collect()));
    }
    Ok(curves)
}

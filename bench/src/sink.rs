//! What it costs to break misses down by the place in the program.

use crate::clock::nanoseconds;
use crate::engine::Args;
use crate::engine::{CHUNK, each, names, trace};
use crate::{median, table};
use anyhow::Result;
use bf_stack::{Bucket, Chunk, Engine as _, Limits, MissesBySite, Outcome, Reference, Sink, Stack};
use std::hint::black_box;

/// Places in the program, which take turns.
const SITES: usize = 1000;
/// Set bits and ways: 32 KiB 8 ways, 1 MiB 16 ways, 32 MiB 16 ways.
const SHAPES: [(u32, u32); 3] = [(6, 8), (10, 16), (15, 16)];

/// Prints the table.
///
/// # Errors
/// There is no trace of a given name, or a program cannot be recorded.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let mut table = table(&["trace", "engine ns", "empty sink ns", "misses by site ns", "ratio"]);
    for name in names(&args.traces) {
        let references = trace(&name, args.references)?;
        eprintln!("measuring {name}");
        let sites: Vec<_> = (0..references.len()).map(|at| (at % SITES) as u32).collect();
        let (mut plain, mut empty, mut with) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mut stack = Stack::new(Limits::default());
            plain.push(each(&references, |part| stack.feed(part, Bucket::FIRST)));
            drop(stack);
            empty.push(with_sink(&references, &sites, &mut Empty));
            with.push(with_sink(&references, &sites, &mut MissesBySite::new(SHAPES.to_vec())));
        }
        let [plain, empty, with] = [plain, empty, with].map(median);
        let ns = [plain, empty, with].map(|ns| format!("{ns:.1}"));
        table.add_row([name].into_iter().chain(ns).chain([format!("{:.2}", with / plain)]));
    }
    println!("{table}");
    Ok(())
}

/// Looks at nothing, so that what remains is the engine's part.
struct Empty;

impl Sink for Empty {
    fn take(&mut self, outcomes: &[Outcome]) {
        black_box(outcomes);
    }
}

fn with_sink(references: &[Reference], sites: &[u32], sink: &mut dyn Sink) -> f64 {
    let mut stack = Stack::new(Limits::default());
    let all = || {
        for (references, sites) in references.chunks(CHUNK).zip(sites.chunks(CHUNK)) {
            stack.feed_to(Chunk { references, sites, ..Chunk::default() }, Bucket::FIRST, sink);
        }
    };
    nanoseconds(all) / references.len() as f64
}

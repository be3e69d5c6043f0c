//! What helper threads gain for a program of one thread: wall and CPU time of an access with none, one, two, four, ….

use crate::clock::now;
use crate::cost::batch;
use crate::engine::{names, trace};
use crate::{Times, beside, table};
use anyhow::Result;
use bf_collect::{Bucket, Config, Session};
use bf_stack::Reference;
use rustix::time::ClockId;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// References per trace.
    #[arg(long, default_value_t = REFERENCES)]
    references: usize,
    /// Most helpers; one for each processor but one if not given, at least 1.
    #[arg(long)]
    helpers: Option<usize>,
    /// Traces to run; all if none is named.
    traces: Vec<String>,
}

const REFERENCES: usize = 4_000_000;
/// References of a batch: what a recording buffer holds.
const BATCH: usize = 4096;

impl Default for Args {
    fn default() -> Self {
        Self { references: REFERENCES, helpers: None, traces: Vec::new() }
    }
}

/// Prints the table.
///
/// # Errors
/// There is no trace of a given name, or a program cannot be recorded.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let most = args.helpers.unwrap_or(processors - 1).max(1);
    let counts: Vec<_> = [0].into_iter().chain((0..).map(|power| 1 << power).take_while(|&n| n <= most)).collect();
    let mut table = table(&["trace", "helpers", "wall ns", "to none", "CPU ns", "to none"]);
    for name in &names(&args.traces) {
        eprintln!("measuring {name}");
        let references = trace(name, args.references)?;
        let mut times = vec![Vec::new(); counts.len()];
        for _ in 0..rounds {
            for (times, &helpers) in times.iter_mut().zip(&counts) {
                times.push(measure(&references, helpers));
            }
        }
        for (helpers, now) in counts.iter().zip(&times) {
            table.add_row([name.clone(), helpers.to_string()].into_iter().chain(beside(now, &times[0])));
        }
    }
    println!("{processors} processors; the thread that records works too when helpers fall behind:\n\n{table}");
    Ok(())
}

fn measure(references: &[Reference], helpers: usize) -> Times {
    let work: Vec<_> = references.chunks(BATCH).map(|part| batch(part, 0)).collect();
    let session = Session::new(Config::default());
    let slot = session.take_slot();
    if helpers > 0 {
        session.pipelined();
    }
    let before = now(ClockId::ProcessCPUTime);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| session.help(Duration::from_secs(1), || true));
        }
        for mut batch in work {
            session.hand_over(slot, &mut batch, Bucket::FIRST);
        }
        session.settle(Duration::from_secs(60));
        session.close();
    });
    let (wall, cpu) = (begin.elapsed().as_nanos() as f64, now(ClockId::ProcessCPUTime) - before);
    (wall / references.len() as f64, cpu / references.len() as f64)
}

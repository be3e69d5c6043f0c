//! What threads cost: wall and CPU time of an access when 1, 2, 4, … threads analyse what they do at the same time, on data of
//! their own and on data in common.

use crate::clock::now;
use crate::cost::batch;
use crate::engine::{CHUNK, trace};
use crate::{Times, beside, table};
use anyhow::Result;
use bf_collect::{Bucket, Config, Session};
use bf_stack::Reference;
use rustix::time::ClockId;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// References of each thread.
    #[arg(long, default_value_t = REFERENCES)]
    references: usize,
    /// Most threads; the processors there are if not given, at least 2.
    #[arg(long)]
    threads: Option<usize>,
    /// Traces to run; all if none is named.
    traces: Vec<String>,
}

const REFERENCES: usize = 2_000_000;
const TRACES: [&str; 4] = ["matmul-blocked", "molecular", "column-walk", "random-64M"];

impl Default for Args {
    fn default() -> Self {
        Self { references: REFERENCES, threads: None, traces: Vec::new() }
    }
}

/// Prints the table.
///
/// # Errors
/// There is no trace of a given name.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let most = args.threads.unwrap_or(processors).max(2);
    let counts: Vec<_> = (0..).map(|power| 1 << power).take_while(|&threads| threads <= most).collect();
    let mut table = table(&["trace", "threads", "data", "wall ns", "to one thread", "CPU ns", "to one thread"]);
    let names = if args.traces.is_empty() { TRACES.map(str::to_owned).to_vec() } else { args.traces.clone() };
    for name in &names {
        eprintln!("measuring {name}");
        let references = trace(name, args.references)?;
        let subjects: Vec<_> = [(1, OWN)]
            .into_iter()
            .chain(counts[1..].iter().flat_map(|&threads| [APART, OWN, COMMON].map(|data| (threads, data))))
            .collect();
        let mut times = vec![Vec::new(); subjects.len()];
        for _ in 0..rounds {
            for (times, &(threads, data)) in times.iter_mut().zip(&subjects) {
                times.push(measure(&references, threads, data));
            }
        }
        for (&(threads, data), now) in subjects.iter().zip(&times) {
            let row = [name.clone(), threads.to_string(), data.to_owned()];
            table.add_row(row.into_iter().chain(beside(now, &times[0])));
        }
    }
    println!(
        "{processors} processors; private stacks of each thread, and from two threads on the stack of all, but for \"{APART}\": \
         threads that have nothing to do with each other:\n\n{table}"
    );
    Ok(())
}

/// What the threads work on, and whether there is a stack of all.
const OWN: &str = "their own";
const COMMON: &str = "common";
const APART: &str = "apart";

fn measure(references: &[Reference], threads: usize, data: &str) -> Times {
    let batches = |thread: u64| -> Vec<_> {
        let apart = if data == COMMON { 0 } else { thread << 40 };
        references.chunks(CHUNK).map(|part| batch(part, apart)).collect()
    };
    let work: Vec<_> = (0..threads as u64).map(batches).collect();
    let sessions: Vec<_> =
        (0..if data == APART { threads } else { 1 }).map(|_| Session::new(Config::default())).collect();
    let slots: Vec<_> = sessions.iter().cycle().take(threads).map(|session| (session, session.take_slot())).collect();
    let start = Barrier::new(threads + 1);
    let (mut wall, mut cpu) = (0.0, 0.0);
    std::thread::scope(|scope| {
        let running: Vec<_> = work
            .iter()
            .zip(slots)
            .map(|(batches, (session, slot))| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    batches.iter().for_each(|batch| session.feed(slot, batch, Bucket::FIRST));
                })
            })
            .collect();
        let before = now(ClockId::ProcessCPUTime);
        let begin = Instant::now();
        start.wait();
        running.into_iter().for_each(|thread| thread.join().unwrap_or_default());
        sessions.iter().for_each(|session| assert!(session.settle(Duration::MAX), "not all of it was taken"));
        (wall, cpu) = (begin.elapsed().as_nanos() as f64, now(ClockId::ProcessCPUTime) - before);
    });
    let accesses = (threads * references.len()) as f64;
    (wall / accesses, cpu / accesses)
}

//! `bf machine bandwidth` beside its peers from Debian: likwid-bench's kernels, mbw, and the STREAM in numactl's sources.
//! The best of some short runs on either side: others on the machine can only make them slower.

use crate::{median, table};
use anyhow::{Context as _, Result, anyhow};
use bf_machine::{
    Session, bandwidth,
    sys::{
        pages::Pages,
        stream::{Kernel, Operation, widest},
    },
};
use bf_tests::{cached, debian, sandbox};
use std::path::PathBuf;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs of a peer in a round, of which the best counts.
    #[arg(long, default_value_t = RUNS)]
    pub runs: usize,
}

/// Runs of a peer, unless another number is asked for.
pub const RUNS: usize = 5;
/// Bytes that the peers without levels go through.
const FAR: usize = 128 << 20;

/// A comparison.
struct Row {
    what: String,
    kernel: Kernel,
    bytes: usize,
    pages: Pages,
    peer: Peer,
}

enum Peer {
    /// A kernel of likwid-bench.
    Likwid(&'static str),
    /// A test of mbw.
    Mbw(&'static str),
    /// STREAM's copy.
    Stream(PathBuf),
}

/// Prints the table.
///
/// # Errors
/// A peer is not there, or does not say what it measured.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let mut session = Session::begin(&[]).map_err(|error| anyhow!("{error}"))?;
    session.survey(None).map_err(|error| anyhow!("{error}"))?;
    println!("{}, core at {:.2} GHz\n", session.topology.cpu, session.clock.core_ghz);
    let mut table = table(&["what", "place", "peer", "ours GB/s", "peer GB/s", "ours/peer"]);
    for row in rows(&session)? {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            session.pages = row.pages;
            let points = bandwidth::alone(&session, &[(row.kernel, row.bytes)]).map_err(|error| anyhow!("{error}"))?;
            let own = points[0].gb_per_s;
            ours.push(own);
            let runs = (0..args.runs).map(|_| row.peer.measure(&session, row.bytes, own));
            theirs.push(runs.collect::<Result<Vec<_>>>()?.into_iter().fold(0.0, f64::max));
        }
        let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs));
        let place = if row.bytes >= FAR { "memory" } else { session.level_of(row.bytes) };
        table.add_row([
            row.what.clone(),
            place.to_owned(),
            row.peer.name(),
            format!("{:.1}", median(ours)),
            format!("{:.1}", median(theirs)),
            format!("{ratio:.2}"),
        ]);
    }
    println!("{table}");
    Ok(())
}

fn rows(session: &Session) -> Result<Vec<Row>> {
    let kernels = |width| match width {
        512 => ["load_avx512", "store_avx512", "copy_avx512", "store_mem_avx512", "copy_mem_avx512"],
        256 => ["load_avx", "store_avx", "copy_avx", "store_mem_avx", "copy_mem_avx"],
        _ => ["load_sse", "store_sse", "copy_sse", "store_mem_sse", "copy_mem_sse"],
    };
    let operations = [Operation::Read, Operation::Write, Operation::Copy, Operation::WriteNt, Operation::CopyNt];
    let mut rows = Vec::new();
    for width in [256, 512].into_iter().filter(|width| *width <= widest()) {
        for (operation, peer) in operations.into_iter().zip(kernels(width)) {
            for (place, bytes) in session.places() {
                // Stores past the caches go to memory wherever the data is.
                let past = matches!(operation, Operation::WriteNt | Operation::CopyNt);
                if past && place != "memory" {
                    continue;
                }
                let kernel = Kernel { operation, width };
                let what = format!("{} {width}", operation.name());
                rows.push(Row { what, kernel, bytes, pages: Pages::Large, peer: Peer::Likwid(peer) });
            }
        }
    }
    let base = |operation: Operation, width, peer| Row {
        what: format!("{} {width}, small pages", operation.name()),
        kernel: Kernel { operation, width },
        bytes: FAR,
        pages: Pages::Base,
        peer,
    };
    rows.push(base(Operation::Copy, 64, Peer::Mbw("-t1")));
    rows.push(base(Operation::CopyNt, 256.min(widest()), Peer::Mbw("-t0")));
    rows.push(base(Operation::Copy, 256.min(widest()), Peer::Stream(stream()?)));
    Ok(rows)
}

/// STREAM, compiled for this machine, with loops that stay loops.
fn stream() -> Result<PathBuf> {
    let source = debian::source("numactl")?;
    let main = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/stream_main.c");
    let folder = cached::folder("stream", |folder| {
        let mut cc = sandbox::command("clang-22");
        cc.args(["-O3", "-march=native", "-fno-builtin", "-w", "-I"]).arg(&source).arg(source.join("stream_lib.c"));
        let _ = sandbox::succeed(cc.arg(main).arg("-o").arg(folder.join("stream")).arg("-lm"));
        Ok(())
    })?;
    Ok(folder.join("stream"))
}

impl Peer {
    fn name(&self) -> String {
        match self {
            Self::Likwid(kernel) => format!("likwid-bench {kernel}"),
            Self::Mbw(test) => format!("mbw {test}"),
            Self::Stream(_) => "STREAM copy".to_owned(),
        }
    }

    /// Billions of bytes a second, both sides of copies counted. `expected` decides how often a short run goes through its
    /// data.
    fn measure(&self, session: &Session, bytes: usize, expected: f64) -> Result<f64> {
        match self {
            Self::Likwid(kernel) => {
                let passes = (2e6 * expected / bytes as f64).ceil().max(2.0);
                let mut likwid = sandbox::command("likwid-bench");
                let work = format!("N:{}B:1", bytes);
                likwid.args(["-t", kernel, "-w", &work, "-i", &format!("{passes:.0}")]);
                let said = sandbox::text(&sandbox::succeed(&mut likwid).stdout);
                Ok(number_after(&said, "MByte/s:")? / 1e3)
            }
            Self::Mbw(test) => {
                let mut mbw = sandbox::command("taskset");
                mbw.args(["-c", &session.first().to_string(), "mbw", "-q", "-n", "3", test]);
                let said = sandbox::text(&sandbox::succeed(mbw.arg((bytes >> 21).to_string())).stdout);
                let runs: Vec<f64> = said.lines().filter_map(|line| number_after(line, "Copy:").ok()).collect();
                Ok(runs.into_iter().fold(0.0, f64::max) * 2.0 * f64::from(1 << 20) / 1e9)
            }
            Self::Stream(program) => {
                let mut stream = sandbox::command("taskset");
                let stream = stream.args(["-c", &session.first().to_string()]).arg(program);
                Ok(number_after(&sandbox::text(&sandbox::succeed(stream).stdout), "Copy")? / 1e3)
            }
        }
    }
}

fn number_after(text: &str, label: &str) -> Result<f64> {
    let rest = text.split_once(label).with_context(|| format!("no `{label}` in: {text}"))?.1;
    let word = rest.trim_start_matches([':', ' ', '\t']).split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("no number after `{label}` in: {text}"))
}

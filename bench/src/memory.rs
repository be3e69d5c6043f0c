//! Memory of the engine for each distinct line: by how much a process grows that does nothing else.

use crate::cost::walk;
use crate::engine::CHUNK;
use crate::table;
use crate::traces::Random;
use anyhow::{Context as _, Result, ensure};
use bf_stack::{Bucket, Engine as _, Limits, Reference, Stack};
use std::fs;
use std::process::Command;

/// One measurement, in a process of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Distinct lines.
    lines: u64,
    /// How many line numbers each one is apart from the next.
    apart: u64,
}

/// Line numbers from one line to the next.
const APART: [u64; 8] = [1, 2, 4, 16, 64, 128, 256, 1024];

/// Prints the table: 1, 4 and 16 million lines, as far as `footprint_mib` goes.
///
/// # Errors
/// The system does not tell how much memory is in use.
pub fn run(footprint_mib: u64) -> Result<()> {
    let mut table = table(&["distinct lines", "one line in", "bytes a line", "while growing", "all, MiB"]);
    for apart in APART {
        let fits = |lines: &u64| lines >> 14 <= footprint_mib;
        for lines in [1 << 20, 1 << 22, 1 << 24].into_iter().filter(fits) {
            eprintln!("measuring memory of {lines} lines, one in {apart}");
            let mut child = Command::new(std::env::current_exe()?);
            let output = child.args(["touch", &lines.to_string(), &apart.to_string()]).output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout)?;
            let (now, peak) = text.trim().split_once(' ').context("two numbers expected")?;
            let (now, peak) = (now.parse::<f64>()?, peak.parse::<f64>()?);
            let of = |bytes: f64| format!("{:.1}", bytes / lines as f64);
            let all = format!("{:.0}", now / f64::from(1 << 20));
            table.add_row([lines.to_string(), apart.to_string(), of(now), of(peak), all]);
        }
    }
    println!("Memory (K = 16, 64 ways, loads and stores, write-backs):\n\n{table}\n");
    Ok(())
}

/// References all lines in order, then as many at random, and prints by how many bytes the process has grown and had grown
/// at most.
///
/// # Errors
/// The system does not tell how much memory is in use.
pub fn touch(args: &Args) -> Result<()> {
    let before = status("VmRSS:")?;
    let mut stack = Stack::new(Limits::default());
    let mut random = Random(5);
    let mut spread = Vec::with_capacity(CHUNK);
    let mut feed = |part: &[Reference]| {
        spread.clear();
        spread.extend(part.iter().map(|one| Reference::new(one.line() * args.apart, one.is_store())));
        stack.feed(&spread, Bucket::FIRST);
    };
    walk(args.lines, &mut feed);
    walk(args.lines, |part| {
        let any = part.iter().map(|one| Reference::new(random.next() % args.lines, one.is_store()));
        feed(&any.collect::<Vec<_>>());
    });
    println!("{} {}", status("VmRSS:")? - before, status("VmHWM:")? - before);
    Ok(())
}

/// A size that `/proc/self/status` tells, bytes.
fn status(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("there is no {name}"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

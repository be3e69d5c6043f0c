//! Whole programs: what recording costs, step by step, beside Cachegrind on the same program.

use crate::{median, table};
use anyhow::{Context as _, Result, ensure};
use bf_tests::project;
use bf_tests::sandbox::{self, Build};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use wait4::Wait4 as _;

/// What to run.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Programs to run, `kernels` for all of `programs/kernels.c`, each of which is named with its repetitions, as in
    /// `gemm:10`, `teams` for all of `programs/teams.c`, as in `team-gemm:40`, by two threads; if none is named all but these.
    programs: Vec<String>,
}

/// A program, its arguments, what its standard input reads, and the exit code it has when all is well.
pub(crate) struct Run {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) input: Option<PathBuf>,
    code: i32,
}

const NAMES: [&str; 8] = ["sqlite", "lua", "zlib", "clipper", "stencil", "matmul", "molecular", "lookup"];

/// Loops that nothing was tuned with, and how often they are repeated.
const KERNELS: [&str; 17] = [
    "gemm:1",
    "gemm:10",
    "lu:4",
    "lu:10",
    "jacobi:2000",
    "seidel:500",
    "gradients:1000",
    "fft:500",
    "heat:3000",
    "bodies:40",
    "convolution:1000",
    "triad:5000",
    "transpose:800",
    "product:1",
    "records:1000",
    "copies:300",
    "history:100",
];

/// The same of two threads.
const TEAMS: [&str; 9] = [
    "team-jacobi:2000",
    "team-gradients:200",
    "team-gemm:40",
    "team-bodies:100",
    "team-triad:1000",
    "team-own:1000",
    "team-cycles:100",
    "team-histogram:500",
    "team-search:10",
];

/// How a program is run.
const VARIANTS: [&str; 9] =
    ["native", "plugin", "counting", "full", "each round", "place", "object", "helper", "cachegrind"];

#[derive(Clone, Copy, Default)]
struct Cost {
    cpu_s: f64,
    wall_s: f64,
    memory_mib: f64,
}

/// Prints the table.
///
/// # Errors
/// A program does not build or fails, or there is none of a given name.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let named = |name| match name {
        "kernels" => KERNELS.to_vec(),
        "teams" => TEAMS.to_vec(),
        _ => vec![name],
    };
    let mut names: Vec<_> = args.programs.iter().flat_map(|name| named(name.as_str())).collect();
    if names.is_empty() {
        names = NAMES.to_vec();
    }
    let mut table = table(&[
        "program",
        "native s",
        "accesses/s",
        "plugin x",
        "counting x",
        "full x",
        "full wall x",
        "each round x",
        "by place/full",
        "by object/full",
        "helper x",
        "helper wall x",
        "cachegrind x",
        "full/cachegrind",
        "native MiB",
        "full MiB",
    ]);
    for name in names {
        eprintln!("measuring {name}");
        table.add_row(row(name, rounds).with_context(|| format!("failed to measure {name}"))?);
    }
    println!("{table}");
    Ok(())
}

fn row(name: &str, rounds: usize) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let (native, bf) = (program(name, Build::Native)?, program(name, Build::Bf)?);
    let profile = folder.path().join("bench.bfp");
    let mut costs = vec![Vec::new(); VARIANTS.len()];
    for _ in 0..rounds {
        for (costs, variant) in costs.iter_mut().zip(VARIANTS) {
            costs.push(measure(variant, &native, &bf, folder.path(), &profile)?);
        }
    }
    let accesses = bf_profile::read_file(&profile)?.processes.iter().map(|p| p.meta.accesses).sum::<u64>() as f64;
    let of = |variant: &str, figure: fn(&Cost) -> f64| {
        let costs = VARIANTS.iter().zip(&costs).filter(|&(&other, _)| other == variant);
        median(costs.flat_map(|(_, costs)| costs.iter().map(figure)))
    };
    let cpu = |variant| of(variant, |cost| cost.cpu_s);
    let (native, full) = (cpu("native"), cpu("full"));
    let ratio = |variant| format!("{:.1}", cpu(variant) / native);
    let wall_s = |variant| of(variant, |cost| cost.wall_s);
    let wall = |variant| format!("{:.1}", wall_s(variant) / wall_s("native"));
    let memory = |variant| format!("{:.0}", of(variant, |cost| cost.memory_mib));
    Ok(vec![
        name.to_owned(),
        format!("{native:.2}"),
        format!("{:.2} G", accesses / native / 1e9),
        ratio("plugin"),
        ratio("counting"),
        ratio("full"),
        wall("full"),
        ratio("each round"),
        format!("{:.2}", cpu("place") / full),
        format!("{:.2}", cpu("object") / full),
        ratio("helper"),
        wall("helper"),
        ratio("cachegrind"),
        format!("{:.2}", full / cpu("cachegrind")),
        memory("native"),
        memory("full"),
    ])
}

fn measure(variant: &str, native: &Run, bf: &Run, folder: &Path, profile: &Path) -> Result<Cost> {
    let mut command = match variant {
        "cachegrind" => {
            // Without its debug information, which this valgrind may be too old to read.
            let stripped = folder.join("stripped");
            let mut strip = Command::new("strip");
            let _ = sandbox::succeed(strip.arg("-o").arg(&stripped).arg(&native.program));
            let mut valgrind = sandbox::command("valgrind");
            valgrind.args(["-q", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
            valgrind.arg(stripped).args(&native.args);
            valgrind
        }
        "native" => sandbox::command(&native.program),
        _ => sandbox::command(&bf.program),
    };
    if variant != "cachegrind" {
        command.args(&native.args);
    }
    // Of those that have several.
    command.env("OMP_NUM_THREADS", "2").env("OMP_WAIT_POLICY", "passive");
    match variant {
        "plugin" => command.env("BF_DISABLE", "1"),
        "counting" => command.env("BF_LINE_SIZE", "none"),
        "helper" => command.env("BF_PROFILE", profile).env("BF_THREADS", "1"),
        "each round" => command.env("BF_PROFILE", profile).env("BF_THREADS", "0").env("BF_ROUNDS", "0"),
        "place" => command.env("BF_PROFILE", profile).env("BF_THREADS", "0").env("BF_BY_PLACE", "1"),
        "object" => command.env("BF_PROFILE", profile).env("BF_THREADS", "0").env("BF_BY_OBJECT", "1"),
        _ => command.env("BF_PROFILE", profile).env("BF_THREADS", "0"),
    };
    if let Some(input) = &native.input {
        command.stdin(File::open(input)?);
    }
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    let child = command.spawn().with_context(|| format!("failed to run {command:?}"))?;
    let end = child.wait4()?;
    let wall_s = begin.elapsed().as_secs_f64();
    ensure!(end.status.code() == Some(native.code), "{command:?} ended with {}", end.status);
    Ok(Cost {
        wall_s,
        cpu_s: (end.rusage.utime + end.rusage.stime).as_secs_f64(),
        memory_mib: end.rusage.maxrss as f64 / (1 << 20) as f64,
    })
}

/// How to run a program, built.
pub(crate) fn program(name: &str, build: Build) -> Result<Run> {
    let run = |program: PathBuf, args: &[&str]| Run {
        program,
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        input: None,
        code: 0,
    };
    if let Some((kernel, repeats)) = name.split_once(':') {
        return Ok(match kernel.strip_prefix("team-") {
            Some(team) => run(loops("teams", build)?, &[team, repeats]),
            None => run(loops("kernels", build)?, &[kernel, repeats]),
        });
    }
    Ok(match name {
        "sqlite" => run(project::sqlite(build)?, &["40000"]),
        "lua" => {
            run(project::lua(build)?.join("lua"), &[concat!(env!("CARGO_MANIFEST_DIR"), "/programs/tables.lua"), "20"])
        }
        "zlib" => {
            let input = bf_tests::source("libsqlite3-sys")?.join("sqlite3/sqlite3.c");
            Run { input: Some(input), ..run(project::zlib(build)?.join("minigzip"), &[]) }
        }
        "clipper" => Run { code: 3, ..run(project::clipper(build)?, &[]) },
        "stencil" => run(loops("dense", build)?, &[name, "60"]),
        "matmul" => run(loops("dense", build)?, &[name, "20"]),
        "molecular" => run(loops("dense", build)?, &[name, "20"]),
        "lookup" => run(loops("dense", build)?, &[name, "5"]),
        _ => anyhow::bail!("no program {name}; there are {}", [&NAMES[..], &KERNELS, &TEAMS].concat().join(", ")),
    })
}

/// One of `programs/*.c`; vectors of 32 bytes, which valgrind knows.
fn loops(name: &str, build: Build) -> Result<PathBuf> {
    let source = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/{}.c"), name);
    let recipe = std::fs::read_to_string(&source)?;
    let folder = bf_tests::cached::built(name, build, &recipe, |folder| {
        let mut cc = sandbox::command(build.cc());
        let program = folder.join(name);
        cc.args((name == "teams").then_some("-fopenmp"));
        let _ = sandbox::succeed(cc.args(["-O3", "-march=haswell", "-g", &source, "-o"]).arg(program).arg("-lm"));
        Ok(())
    })?;
    Ok(folder.join(name))
}

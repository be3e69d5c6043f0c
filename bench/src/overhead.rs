//! What each option of the compiler costs by itself.

use crate::{median, table};
use anyhow::{Context as _, Result, ensure};
use bf_tests::sandbox::{self, Build};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use wait4::Wait4 as _;

/// What to run.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Programs to run; all if none is named.
    programs: Vec<String>,
}

/// Programs, each with its argument.
const PROGRAMS: [(&str, &str); 5] =
    [("sqlite", "400000"), ("stencil", "600"), ("matmul", "200"), ("molecular", "40"), ("lookup", "50")];

/// Options that count without recording.
const COUNTING: [&[&str]; 7] = [
    &[],
    &["-bf-every-bb"],
    &["-bf-types"],
    &["-bf-inst-mix"],
    &["-bf-inst-deps"],
    &["-bf-vectors"],
    &["-bf-types", "-bf-inst-mix", "-bf-inst-deps", "-bf-vectors"],
];

/// Programs that record, each with its argument: less of the same, because recording takes longer.
const RECORDED: [(&str, &str); 3] = [("stencil", "4"), ("matmul", "1"), ("lookup", "1")];

/// Options that keep more than reuse distances of lines.
const RECORDING: [&str; 6] =
    ["-bf-by-func", "-bf-data-structs", "-bf-unique-bytes", "-bf-mem-footprint", "-bf-strides", "-bf-reuse-dist"];

/// Prints two tables of ratios to the native program, of counting and of recording, and one of what is recorded besides reuse
/// distances as a ratio to recording those.
///
/// # Errors
/// A program does not build or fails, or there is none of a given name.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let chosen = |name: &str| args.programs.is_empty() || args.programs.iter().any(|program| program == name);
    let known = PROGRAMS.iter().any(|(name, _)| chosen(name));
    ensure!(known, "no such program; there are {}", PROGRAMS.map(|(name, _)| name).join(", "));
    let counting: Vec<_> = COUNTING.iter().map(|options| [&["-bf-counters-only"], *options].concat()).collect();
    let recording: Vec<_> = RECORDING.iter().map(|option| vec![*option]).collect();
    let recording = [vec![]].into_iter().chain(recording).collect();
    for (programs, options, bases) in [(&PROGRAMS[..], counting, &[0][..]), (&RECORDED[..], recording, &[0, 1])] {
        let programs: Vec<_> = programs.iter().filter(|(name, _)| chosen(name)).copied().collect();
        let native = [(Build::Native, Vec::new())].into_iter();
        let builds: Vec<_> = native.chain(options.into_iter().map(|options| (Build::Bf, options))).collect();
        let seconds = programs.iter().map(|program| medians(*program, &builds, rounds, folder.path()));
        let seconds = seconds.collect::<Result<Vec<_>>>()?;
        for &base in bases {
            println!("{}", ratios(&programs, &builds, &seconds, base));
        }
    }
    Ok(())
}

/// CPU time of a program built in several ways, which take turns.
fn medians(
    (name, argument): (&str, &str),
    builds: &[(Build, Vec<&str>)],
    rounds: usize,
    folder: &Path,
) -> Result<Vec<f64>> {
    eprintln!("measuring {name}");
    let all = builds.iter().map(|(build, options)| self::build(name, *build, options, folder));
    let all: Vec<_> = all.collect::<Result<_>>()?;
    let mut seconds = vec![Vec::new(); all.len()];
    for _ in 0..rounds {
        for (seconds, program) in seconds.iter_mut().zip(&all) {
            seconds.push(measure(program, argument, folder)?);
        }
    }
    Ok(seconds.into_iter().map(median).collect())
}

/// The medians of programs as ratios to those of build number `base`; what comes before that is left out.
fn ratios(
    programs: &[(&str, &str)],
    builds: &[(Build, Vec<&str>)],
    seconds: &[Vec<f64>],
    base: usize,
) -> comfy_table::Table {
    let names: Vec<_> = builds[base..].iter().map(|(build, options)| name(*build, options)).collect();
    let first = format!("{} s", names[0]);
    let header: Vec<_> = ["program", &first].into_iter().chain(names[1..].iter().map(String::as_str)).collect();
    let mut table = table(&header);
    for ((name, _), seconds) in programs.iter().zip(seconds) {
        let ratios = seconds[base + 1..].iter().map(|each| format!("{:.2}", each / seconds[base]));
        table.add_row([(*name).to_owned(), format!("{:.2}", seconds[base])].into_iter().chain(ratios));
    }
    table
}

fn name(build: Build, options: &[&str]) -> String {
    match options {
        [] => build.name().to_owned(),
        ["-bf-counters-only", option] => format!("+ {option}"),
        [option] => (*option).to_owned(),
        _ => "+ all four".to_owned(),
    }
}

fn build(name: &str, build: Build, options: &[&str], folder: &Path) -> Result<PathBuf> {
    let program = folder.join(format!("{name}{}{}", build.name(), options.concat()));
    let mut cc = sandbox::command(build.cc());
    match name {
        "sqlite" => {
            let sources = bf_tests::source("libsqlite3-sys")?.join("sqlite3");
            let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/programs/sqlite_driver.c");
            cc.args(["-O2", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-lm", "-I"]).arg(&sources);
            cc.arg(driver).arg(sources.join("sqlite3.c"));
        }
        _ => drop(cc.args(["-O3", "-march=haswell", concat!(env!("CARGO_MANIFEST_DIR"), "/programs/dense.c")])),
    }
    if build == Build::Bf {
        cc.args(options);
    }
    let output = cc.arg("-o").arg(&program).output()?;
    ensure!(output.status.success(), "{cc:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}

/// Seconds of CPU time.
fn measure(program: &Path, argument: &str, folder: &Path) -> Result<f64> {
    let mut command = sandbox::command(program);
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if let Some((kernel, _)) = PROGRAMS[1..].iter().find(|(kernel, _)| name.starts_with(kernel)) {
        command.arg(kernel);
    }
    command.arg(argument).env("BF_PROFILE", folder.join("bench.bfp"));
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    let end = command.spawn().with_context(|| format!("failed to run {command:?}"))?.wait4()?;
    ensure!(end.status.success(), "{command:?} ended with {}", end.status);
    Ok((end.rusage.utime + end.rusage.stime).as_secs_f64())
}

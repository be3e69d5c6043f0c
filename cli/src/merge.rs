//! `bf merge`

use crate::{
    args::MergeArguments,
    failure::Failure,
    input,
    output::{counted, number, print, table},
};
use bf_postproc::{answer::Range, size};
use bf_profile::{Process, Profile};
use serde::Serialize;
use std::{fs, path::Path};

/// What was merged.
#[derive(Debug, Serialize)]
struct Merged {
    schema: &'static str,
    output: String,
    inputs: Vec<String>,
    profile_bytes: u64,
    processes: usize,
    figures: Vec<Figure>,
}

/// A figure over the processes.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    sum: u64,
    #[serde(flatten)]
    range: Range,
}

/// Writes one profile that holds the processes of all.
pub fn command(arguments: &MergeArguments) -> Result<(), Failure> {
    let profile = input::merged(&arguments.profiles, arguments.salvage)?;
    let answer = Merged {
        schema: "bf.merge/1",
        output: arguments.output.display().to_string(),
        inputs: arguments.profiles.iter().map(|path| path.display().to_string()).collect(),
        profile_bytes: write(&arguments.output, &profile)?,
        processes: profile.processes.len(),
        figures: figures(&profile),
    };
    let text = |merged: &Merged| {
        let header = ["", "sum", "least", "median", "greatest"].map(str::to_owned);
        let rows = merged.figures.iter().map(|figure| {
            let Range { min, median, max } = figure.range;
            [figure.name.to_owned()].into_iter().chain([figure.sum, min, median, max].map(number)).collect()
        });
        format!(
            "{}: {}, {}\n\n{}",
            merged.output,
            counted(merged.processes as u64, "process").replace("processs", "processes"),
            size::human(merged.profile_bytes),
            table(header.to_vec(), rows.collect())
        )
    };
    let rows = |merged: &Merged| merged.figures.iter().filter_map(|figure| serde_json::to_value(figure).ok()).collect();
    print(arguments.format.format, &[answer], false, text, rows)
}

/// Writes a profile and says how large it became.
pub fn write(path: &Path, profile: &Profile) -> Result<u64, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::file("write", path, error);
    bf_profile::write_file(path, profile).map_err(|error| failed(&error))?;
    fs::metadata(path).map(|data| data.len()).map_err(|error| failed(&error))
}

fn figures(profile: &Profile) -> Vec<Figure> {
    let figure = |name, of: fn(&Process) -> u64| {
        let values: Vec<u64> = profile.processes.iter().map(of).collect();
        Figure { name, sum: values.iter().sum(), range: Range::of(values) }
    };
    vec![
        figure("accesses", |process| process.meta.accesses),
        figure("dropped", |process| process.meta.dropped),
        figure("threads", |process| process.meta.threads.into()),
        figure("elapsed_ns", |process| process.meta.elapsed_ns),
        figure("calls_not_seen", |process| process.uninstrumented.iter().map(|callee| callee.calls).sum()),
    ]
}

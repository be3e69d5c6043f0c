//! `bf merge`

use crate::{
    args::MergeArguments,
    failure::Failure,
    input,
    output::{number, plural, print, remark, table},
};
use bf_postproc::{answer::Range, size};
use bf_profile::{Error, Process, Profile, Union};
use serde::Serialize;
use std::{fs, path::Path};

/// What was merged.
#[derive(Debug, Serialize)]
struct Merged {
    schema: &'static str,
    output: String,
    inputs: Vec<String>,
    /// Inputs that could not be read; absent if all could.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
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

/// Writes one profile that holds the processes of all, of which one at a time is in memory.
pub fn command(arguments: &MergeArguments) -> Result<(), Failure> {
    let paths = input::expand(&arguments.profiles)?;
    let (mut union, mut left_out) = (Union::new(arguments.salvage), Vec::new());
    for path in &paths {
        match union.add(path) {
            Ok(lost) => lost.iter().for_each(|line| remark(&format!("{}: {line}", path.display()))),
            Err(error) => {
                let failure = input::failed_to_read(path, error, arguments.salvage);
                if !arguments.keep_going {
                    return Err(failure);
                }
                remark(&format!("left out: {failure}"));
                left_out.push(path.display().to_string());
            }
        }
    }
    if union.is_empty() && !left_out.is_empty() {
        return Err(Failure::Failed("none of the profiles could be read".to_owned()));
    }
    if union.duplicates() > 0 {
        input::remark_on_duplicates(union.duplicates() as u64);
    }
    let mut counts: [Vec<u64>; FIGURES.len()] = Default::default();
    let output = &arguments.output;
    spare_others(&mut union, output)?;
    let written = union.write(output, |process| {
        input::remark_on_end(process);
        counts.iter_mut().zip(FIGURES).for_each(|(values, (_, of))| values.push(of(process)));
    });
    written.map_err(|(path, error)| match path == *output {
        true => Failure::file("write", output, error),
        false => input::failed_to_read(&path, error, arguments.salvage),
    })?;
    let figures = FIGURES.iter().zip(counts).map(|(&(name, _), values)| Figure {
        name,
        sum: values.iter().sum(),
        range: Range::of(values),
    });
    let answer = Merged {
        schema: "bf.merge/1",
        output: output.display().to_string(),
        inputs: paths.iter().map(|path| path.display().to_string()).collect(),
        left_out,
        profile_bytes: bytes(output)?,
        processes: union.len(),
        figures: figures.collect(),
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
            plural(merged.processes as u64, "process", "processes"),
            size::human(merged.profile_bytes),
            table(header.to_vec(), rows.collect())
        )
    };
    let rows = |merged: &Merged| merged.figures.iter().filter_map(|figure| serde_json::to_value(figure).ok()).collect();
    print(arguments.format.format, &[answer], false, text, rows)
}

/// Refuses a file that holds processes which are not among those merged.
fn spare_others(union: &mut Union, output: &Path) -> Result<(), Failure> {
    let merged = union.len();
    match output.is_file().then(|| union.add(output)) {
        None | Some(Err(Error::Foreign { .. } | Error::Io(_))) => Ok(()),
        Some(Ok(_)) if union.len() == merged => Ok(()),
        Some(_) => Err(Failure::Usage(format!(
            "{} is a profile of more than is merged, which would be lost; name another file",
            output.display()
        ))),
    }
}

/// Writes a profile and says how large it became.
pub fn write(path: &Path, profile: &Profile) -> Result<u64, Failure> {
    bf_profile::write_file(path, profile).map_err(|error| Failure::file("write", path, error))?;
    bytes(path)
}

fn bytes(path: &Path) -> Result<u64, Failure> {
    fs::metadata(path).map(|data| data.len()).map_err(|error| Failure::file("write", path, error))
}

/// A figure's name, and where a process has it.
type Named = (&'static str, fn(&Process) -> u64);

/// What is told of the processes.
const FIGURES: [Named; 5] = [
    ("accesses", |process| process.meta.accesses),
    ("dropped", |process| process.meta.dropped),
    ("threads", |process| process.meta.threads as u64),
    ("elapsed_ns", |process| process.meta.elapsed_ns),
    ("calls_not_seen", |process| process.uninstrumented.iter().map(|callee| callee.calls).sum()),
];

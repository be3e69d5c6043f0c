//! `bf compare --before … --after …`

use crate::{
    args::CompareArguments,
    failure::Failure,
    input::{self, Loaded},
    output::{number, only_tagged, percent, print, row, table},
    query,
};
use bf_postproc::{
    Query,
    compare::change::{Change, Changes, Finding, SCHEMA, Spread, change},
};
use serde_json::Value;
use std::path::PathBuf;

/// Sets runs before a change against runs after it.
pub fn command(arguments: &CompareArguments) -> Result<(), Failure> {
    let CompareArguments { hierarchy, .. } = arguments;
    let (before, after) = (input::expand(&arguments.before)?, input::expand(&arguments.after)?);
    let load = |paths: &[PathBuf]| {
        let one = |path: &PathBuf| {
            let paths = vec![path.clone()];
            Ok(Loaded { profile: input::merged(&paths, arguments.salvage)?, paths })
        };
        paths.iter().map(one).collect::<Result<Vec<_>, Failure>>()
    };
    let (of_before, of_after) = (load(&before)?, load(&after)?);
    let (levels, machine) = query::hierarchy(hierarchy, &of_before[0])?;
    let question = Query { levels, tags: hierarchy.tags.clone(), ..Query::default() };
    let [first, second] = [&of_before, &of_after].map(|side| side.iter().map(|run| &run.profile).collect::<Vec<_>>());
    let figures = change(&first, &second, &question);
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    let figures = figures.map_err(|(side, at, error)| {
        let path = if side == "before" { &before[at] } else { &after[at] };
        Failure::Failed(format!("{}: {error}", path.display()))
    })?;
    let (before, after) = (names(&before), names(&after));
    let answer = Changes { schema: SCHEMA, before, after, machine, tags: hierarchy.tags.clone(), figures };
    let rows = |answer: &Changes| {
        let front = [("before", answer.before.join(" ")), ("after", answer.after.join(" "))];
        let front = front.map(|(name, files)| (name, Value::from(files)));
        answer.figures.iter().filter_map(|change| row(&front, change).ok()).collect()
    };
    print(arguments.output.format, &[answer], false, text, rows)
}

fn text(answer: &Changes) -> String {
    let runs = |files: &[String]| match files {
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => String::new(),
    };
    let mut text = format!("before  {}\nafter   {}\n", runs(&answer.before), runs(&answer.after));
    text += &only_tagged(&answer.tags);
    text += &format!("caches of {}\n\n", answer.machine.as_deref().unwrap_or("the hierarchy asked for"));
    let (same, differ): (Vec<&Change>, Vec<&Change>) =
        answer.figures.iter().partition(|change| change.finding == Finding::Same);
    let line = |change: &&Change| {
        let moved = change.change.map_or_else(|| "-".to_owned(), |change| format!("{:+.2} %", change * 100.0));
        let finding = finding(change);
        vec![spoken(&change.name), spread(change.before), spread(change.after), moved, finding]
    };
    if differ.is_empty() {
        text += "no figure differs\n";
    } else {
        let header = ["", "before", "after", "change", "more than chance?"].map(str::to_owned).to_vec();
        text += &table(header, differ.iter().map(line).collect());
    }
    if !same.is_empty() && !differ.is_empty() {
        let names: Vec<String> = same.iter().map(|change| spoken(&change.name)).collect();
        text += &format!("the same in every run: {}\n", names.join(", "));
    }
    if differ.iter().any(|change| change.finding == Finding::TooFewRuns) {
        text +=
            "? too few runs to tell it from chance among so many figures: 6 of each side are enough, or 2 that agree\n";
    }
    if differ.iter().any(|change| change.chance.is_some()) {
        text += "p is the chance of runs as far apart if the change did nothing, for all figures tested together;\n  yes: \
                 below 0.05; ± is half of the range\n";
    }
    if differ.iter().any(|change| change.name == "seconds") {
        text += "seconds are those of the instrumented run, not of the program\n";
    }
    text
}

fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

fn spread(spread: Option<Spread>) -> String {
    let Some(Spread { mean, min, max, .. }) = spread else { return "-".to_owned() };
    let shown = |value: f64| {
        if value < 1000.0 && value.fract() != 0.0 { format!("{value:.3}") } else { number(value.round() as u64) }
    };
    if min == max { shown(mean) } else { format!("{} ±{}", shown(mean), percent(Some((max - min) / 2.0 / mean))) }
}

fn finding(change: &Change) -> String {
    let p = change.chance_adjusted.unwrap_or(1.0);
    match change.finding {
        Finding::Same => "same".to_owned(),
        Finding::Exact => "yes: runs agree exactly".to_owned(),
        Finding::Significant => format!("yes, p = {p:.3}"),
        Finding::NotSignificant => format!("no, p = {p:.2}"),
        Finding::TooFewRuns => "?".to_owned(),
        Finding::OneSide => "only one side has it".to_owned(),
    }
}

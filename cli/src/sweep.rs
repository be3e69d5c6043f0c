//! `bf sweep`

use crate::{
    args::{Format, SweepArguments},
    explore,
    failure::Failure,
    input,
    output::{counted, files, number, only_tagged, percent, print_any, remark, row, table},
    plot,
};
use bf_postproc::{
    Ways, size,
    sweep::{Point, Sweep, SweepAnswer, sweep},
};
use rayon::ThreadPoolBuilder;
use serde_json::Value;

/// Associativities if the user names none.
const WAYS: [Ways; 6] =
    [Ways::Number(1), Ways::Number(2), Ways::Number(4), Ways::Number(8), Ways::Number(16), Ways::Full];

/// What the command line asks for: single caches, hierarchies, a study or working sets.
pub fn command(arguments: &SweepArguments) -> Result<(), Failure> {
    let asked = &arguments.space;
    alone_without_threads();
    match asked.study {
        Some(study) => explore::study(arguments, study),
        None if asked.knees => explore::working_sets(arguments),
        None if !asked.levels().is_empty() => explore::command(arguments),
        None => single_caches(arguments),
    }
}

/// Where no more threads can be made, the calling one does the work of all.
fn alone_without_threads() {
    if ThreadPoolBuilder::new().build().is_err() {
        // It fails where threads are there already.
        let _ = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
    }
}

/// Answers every combination for every profile.
fn single_caches(arguments: &SweepArguments) -> Result<(), Failure> {
    let format = arguments.space.format.plain("a sweep of single caches")?;
    if arguments.space.output.is_some() {
        return Err(Failure::Usage("--output is for hierarchies; single caches go to stdout".to_owned()));
    }
    arguments.plot.iter().try_for_each(|path| plot::check(path))?;
    let question = Sweep {
        sizes: arguments.size.0.clone(),
        ways: if arguments.ways.is_empty() { WAYS.to_vec() } else { arguments.ways.clone() },
        lines: if arguments.line.is_empty() { vec![None] } else { arguments.line.iter().copied().map(Some).collect() },
        scope: arguments.scope.into(),
        hashed: arguments.hashed,
        tags: arguments.tags.clone(),
    };
    let all = input::load(&arguments.input)?;
    if arguments.plot.is_some() {
        plot::check_single(&all)?;
    }
    let mut answers = Vec::new();
    for loaded in all {
        let mut answer = loaded.answer(sweep(&loaded.profile, &question))?;
        answer.profiles = loaded.names();
        if let (true, Some(because)) = (format != Format::Text, &answer.skipped_because) {
            remark(&format!("{} skipped; the first: {because}", counted(answer.skipped as u64, "combination")));
        }
        if let Some(path) = &arguments.plot {
            let title = [loaded.title(), only_tagged(&arguments.tags)].join(", ");
            plot::curves(path, title.trim_end_matches([',', ' ', '\n']), &answer.points)?;
        }
        answers.push(answer);
    }
    let none = row(&[("profiles", Value::Null)], &Point::default())?;
    print_any(format, &answers, arguments.input.each, text, rows, none)
}

fn rows(answer: &SweepAnswer) -> Vec<Value> {
    let front = [("profiles", Value::from(answer.profiles.join(" ")))];
    answer.points.iter().filter_map(|point| row(&front, point).ok()).collect()
}

/// What tells one column of the table, or one curve of the plot, from another.
pub fn series(point: &Point) -> String {
    if point.full { "full".to_owned() } else { counted_ways(point.ways) }
}

fn counted_ways(ways: u64) -> String {
    format!("{ways} way{}", if ways == 1 { "" } else { "s" })
}

/// A miss ratio, and how sure it is if it is no exact count.
fn ratio(point: &Point) -> String {
    let ratio = percent(point.miss_ratio);
    match point.sampled.as_ref().and_then(|sampled| sampled.global_miss_ratio) {
        Some(ends) => {
            let half = percent(Some((ends.high - ends.low) / 2.0));
            format!("{} ±{half}", ratio.trim_end_matches(" %"))
        }
        None if point.exact => ratio,
        None => ratio + "~",
    }
}

/// Miss ratios: a table for each line size, sizes down and associativities across.
fn text(answer: &SweepAnswer) -> String {
    let mut text = format!("{}\n{}", files(&answer.profiles), only_tagged(&answer.tags));
    if let Some(first) = answer.points.first() {
        text += &format!("{} references; miss ratios:\n", number(first.references));
    }
    let mut lines: Vec<u32> = answer.points.iter().map(|point| point.line_bytes).collect();
    lines.dedup();
    for line in lines {
        let points: Vec<&Point> = answer.points.iter().filter(|point| point.line_bytes == line).collect();
        let (mut sizes, mut columns) = (Vec::new(), Vec::new());
        for point in &points {
            if !sizes.contains(&point.size_bytes) {
                sizes.push(point.size_bytes);
            }
            if !columns.contains(&series(point)) {
                columns.push(series(point));
            }
        }
        sizes.sort_unstable();
        let cell = |size: u64, column: &String| {
            let point = points.iter().find(|point| point.size_bytes == size && series(point) == *column);
            point.map_or_else(String::new, |point| ratio(point))
        };
        let rows = sizes.iter().map(|&size| {
            [size::format(size)].into_iter().chain(columns.iter().map(|column| cell(size, column))).collect()
        });
        let header = [format!("line {line}")].into_iter().chain(columns.iter().cloned()).collect();
        text += &format!("\n{}", table(header, rows.collect()));
    }
    if answer.points.iter().any(|point| point.sampled.is_some()) {
        text += "± is half of the interval that holds the true ratio with 95 % confidence\n";
    }
    if answer.points.iter().any(|point| !point.exact && point.sampled.is_none()) {
        text += "~ is no exact count: hashed, bounded or interpolated (--format json says which, with bounds)\n";
    }
    if let Some(because) = &answer.skipped_because {
        text += &format!("{} skipped; the first: {because}\n", counted(answer.skipped as u64, "combination"));
    }
    text
}

//! `bf sweep --study`: one property of a hierarchy at a time.

use super::args::{Study, SweepFormat};
use crate::{
    args::SweepArguments,
    failure::Failure,
    input::{self, Loaded},
    machine,
    output::{ESTIMATES, files, number, only_tagged, percent, print_any, remark, row, table},
};
use bf_postproc::{
    Cache, LevelAnswer, Ways,
    explore::study::{LinePoint, WaysPoint, associativities, line_sizes, single},
    query, size,
};
use serde::Serialize;
use serde_json::Value;

/// Associativities of a study if the user names none.
const WAYS: [Ways; 7] = [
    Ways::Number(1),
    Ways::Number(2),
    Ways::Number(4),
    Ways::Number(8),
    Ways::Number(16),
    Ways::Number(32),
    Ways::Full,
];

/// A study, schema `bf.study/1`.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    profiles: Vec<String>,
    machine: Option<String>,
    tags: Vec<String>,
    /// `"line"` or `"ways"`.
    study: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<LinePoint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ways: Option<Vec<WaysPoint>>,
    /// What could not be asked about, one sentence each.
    refused: Vec<String>,
}

/// Answers a study for every profile.
pub fn command(arguments: &SweepArguments, study: Study) -> Result<(), Failure> {
    let asked = &arguments.space;
    let format = asked.format.plain("a study")?;
    if asked.output.is_some() {
        return Err(Failure::Usage("--output is for hierarchies; a study goes to stdout".to_owned()));
    }
    let mut answers = Vec::new();
    for loaded in input::load(&arguments.input)? {
        let (caches, machine) = hierarchy(arguments, &loaded)?;
        let mut answer = Answer {
            schema: "bf.study/1",
            profiles: loaded.names(),
            machine,
            tags: arguments.tags.clone(),
            study: if study == Study::Line { "line" } else { "ways" },
            lines: None,
            ways: None,
            refused: Vec::new(),
        };
        match study {
            Study::Line => {
                let all = query::line_sizes(&loaded.profile);
                let lines = if arguments.line.is_empty() { &all } else { &arguments.line };
                let (points, refused) = loaded.answer(line_sizes(&loaded.profile, &caches, lines, &arguments.tags))?;
                (answer.lines, answer.refused) = (Some(points), refused);
                if lines.len() == 1 {
                    remark(
                        "the profile holds one line size; record with BF_LINE_SIZE=32,64,128,256 to compare several",
                    );
                }
            }
            Study::Ways => {
                let ways = if arguments.ways.is_empty() { &WAYS[..] } else { &arguments.ways };
                let (points, refused) =
                    loaded.answer(associativities(&loaded.profile, &caches, ways, &arguments.tags))?;
                (answer.ways, answer.refused) = (Some(points), refused);
            }
        }
        answers.push(answer);
    }
    let front = [("profiles", Value::Null)];
    let none = match study {
        Study::Line => row(&front, &LevelAnswer::default())?,
        Study::Ways => row(&front, &WaysPoint::default())?,
    };
    print_any(format, &answers, arguments.input.each, text, rows, none)
}

/// The hierarchy that is varied, and what it is called.
fn hierarchy(arguments: &SweepArguments, loaded: &Loaded) -> Result<(Vec<Cache>, Option<String>), Failure> {
    let levels = arguments.space.levels();
    if !levels.is_empty() {
        return Ok((single(&levels).map_err(Failure::Usage)?, None));
    }
    let found = machine::resolve(arguments.space.machine.as_deref().unwrap_or("run"), &loaded.profile)?;
    Ok((found.caches, Some(found.label)))
}

fn rows(answer: &Answer) -> Vec<Value> {
    let front = [("profiles", Value::from(answer.profiles.join(" ")))];
    let lines = answer.lines.iter().flatten().flat_map(|point| &point.levels);
    let lines = lines.filter_map(|level| row(&front, level).ok());
    lines.chain(answer.ways.iter().flatten().filter_map(|point| row(&front, point).ok())).collect()
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}\n", files(&answer.profiles));
    if let Some(machine) = &answer.machine {
        text += &format!("{machine}\n");
    }
    text += &only_tagged(&answer.tags);
    if let Some(points) = &answer.lines {
        text += &by_line(points);
    }
    if let Some(points) = &answer.ways {
        text += &by_ways(points);
    }
    let by_line = answer.lines.iter().flatten().flat_map(|point| &point.levels).any(|level| level.sampled.is_some());
    if by_line || answer.ways.iter().flatten().any(|point| point.sampled.is_some()) {
        text += ESTIMATES;
    }
    answer.refused.iter().for_each(|why| text += &format!("- {why}\n"));
    text
}

/// Line sizes down, levels across.
fn by_line(points: &[LinePoint]) -> String {
    let mut header = vec!["line size".to_owned()];
    for level in points.first().iter().flat_map(|point| &point.levels) {
        header.extend([format!("{} misses", level.name), "of all".to_owned(), "traffic below".to_owned()]);
    }
    let rows = points.iter().map(|point| {
        let mut row = vec![point.line_bytes.to_string()];
        for level in &point.levels {
            let traffic = level.traffic_bytes.map_or_else(|| "-".to_owned(), size::human);
            row.extend([number(level.misses), percent(level.global_miss_ratio), traffic]);
        }
        row
    });
    format!("Sizes and associativities kept, line size varied\n{}", table(header, rows.collect()))
}

/// Associativities down, levels across: how much more each misses than the fully associative cache of its size.
fn by_ways(points: &[WaysPoint]) -> String {
    let mut levels: Vec<(&str, u64, u64)> = Vec::new();
    for point in points {
        let level = (point.level.as_str(), point.size_bytes, point.full_misses);
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    let label = |point: &WaysPoint| if point.full { "full".to_owned() } else { point.ways.to_string() };
    let mut labels: Vec<String> = Vec::new();
    for point in points {
        if !labels.contains(&label(point)) {
            labels.push(label(point));
        }
    }
    let mut header = vec!["ways".to_owned()];
    header.extend(levels.iter().map(|(name, size, _)| format!("{name}, {}", size::format(*size))));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for ways in &labels {
        let cell = |(name, ..): &(&str, u64, u64)| {
            let point = points.iter().find(|point| point.level == *name && label(point) == *ways);
            point.map_or_else(
                || "-".to_owned(),
                |point| match point.penalty {
                    Some(penalty) if penalty < 0.0 => format!("-{}", percent(Some(-penalty))),
                    penalty => percent(penalty),
                },
            )
        };
        rows.push([ways.clone()].into_iter().chain(levels.iter().map(cell)).collect());
    }
    let full = levels.iter().map(|(.., misses)| number(*misses));
    rows.push(["misses, full".to_owned()].into_iter().chain(full).collect());
    let title = "Misses beyond those of the fully associative cache of the same size; each level by itself";
    format!("{title}\n{}", table(header, rows))
}

impl SweepFormat {
    /// The format of an answer that is one document.
    pub fn plain(self, what: &str) -> Result<crate::args::Format, Failure> {
        Ok(match self {
            Self::Text => crate::args::Format::Text,
            Self::Json => crate::args::Format::Json,
            Self::Csv => crate::args::Format::Csv,
            Self::Parquet => {
                return Err(Failure::Usage(format!("{what} does not go out as Parquet; take text, json or csv")));
            }
        })
    }
}

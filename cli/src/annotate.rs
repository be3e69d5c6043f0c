//! `bf annotate`: source with figures beside its lines.

use crate::{
    args::{AnnotateArguments, Format, Input},
    by::{self, Named, place},
    failure::Failure,
    input,
    output::{number, print, remark, row},
};
use bf_postproc::{
    Answer,
    attribution::{Attribution, Figures},
    source::{self, Frame},
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// Lines that are shown around one with figures.
const CONTEXT: u32 = 3;
/// Objects that are named for a line.
const MOST_OBJECTS: usize = 4;

/// An annotated file.
#[derive(Debug, Serialize)]
struct Annotated {
    schema: &'static str,
    profiles: Vec<String>,
    machine: Option<String>,
    file: String,
    /// Figures of the whole program.
    totals: Named,
    /// Those of this file.
    in_file: Named,
    lines: Vec<Line>,
    /// The file's text; none if it cannot be read.
    #[serde(skip)]
    source: Option<Vec<String>>,
    #[serde(skip)]
    levels: Vec<String>,
}

/// A line with figures.
#[derive(Debug, Serialize)]
struct Line {
    line: u32,
    source: Option<String>,
    #[serde(flatten)]
    figures: Named,
    /// Where the line stands in the compiled code.
    ways: Vec<Way>,
    /// What it accessed, most misses of the last level first; none if that was not recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objects: Vec<Accessed>,
}

/// An object that a line accessed.
#[derive(Debug, Serialize)]
struct Accessed {
    object: String,
    #[serde(flatten)]
    figures: Named,
}

/// One of the places.
#[derive(Debug, Serialize)]
struct Way {
    /// The function that the line is written in, then the calls that it was inlined at.
    frames: Vec<Frame>,
    #[serde(flatten)]
    figures: Named,
}

/// Annotates what the command line names.
pub fn command(arguments: &AnnotateArguments) -> Result<(), Failure> {
    let (profiles, sources): (Vec<_>, Vec<_>) =
        arguments.files.iter().cloned().partition(|path| input::is_profile_name(path));
    let input = Input { profiles, each: false, salvage: arguments.salvage };
    let mut all = Vec::new();
    for loaded in input::load(&input)? {
        let (attribution, machine) = by::attribution(&loaded, &arguments.hierarchy)?;
        let files = attribution.files();
        let mut names = Vec::new();
        for path in &sources {
            names.push(meant(&files.keys().map(String::as_str).collect::<Vec<_>>(), path)?);
        }
        if names.is_empty() {
            // The file with most to show.
            let rank = |name: &&String| {
                let levels = &files[*name].levels;
                levels.last().map_or(0, |level| level.misses[0] + level.misses[1])
            };
            let worst = files.keys().max_by_key(rank);
            let none = "nothing is attributed to a source file; compile with -g".to_owned();
            names.push(worst.ok_or(Failure::Failed(none))?);
        }
        for name in names {
            let given = sources.iter().find(|path| name.ends_with(&*path.to_string_lossy()));
            let mut annotated = annotate(&attribution, name, given.map_or(Path::new(name), |path| path));
            (annotated.profiles, annotated.machine) = (loaded.names(), machine.clone());
            all.push(annotated);
        }
    }
    let rows = |annotated: &Annotated| {
        let front = [("file", Value::from(annotated.file.clone()))];
        let plain = annotated.lines.iter().filter_map(|line| row(&front, line).ok());
        plain
            .map(|mut row| {
                if let Some(row) = row.as_object_mut() {
                    ["ways", "objects"].into_iter().for_each(|list| drop(row.remove(list)));
                }
                row
            })
            .collect()
    };
    let whole = arguments.whole || arguments.output.format != Format::Text;
    print(arguments.output.format, &all, false, |annotated| text(annotated, whole), rows)
}

/// The file of the profile that a path of the user's stands for.
fn meant<'a>(files: &[&'a str], path: &Path) -> Result<&'a str, Failure> {
    let name = path.to_string_lossy();
    let absolute = fs::canonicalize(path).ok();
    let exact = absolute.and_then(|path| files.iter().copied().find(|file| Path::new(file) == path));
    exact.map_or_else(|| source::find(files.iter().copied(), &name), Ok).map_err(|several| {
        Failure::Failed(if several.is_empty() {
            let known: Vec<_> = files.iter().map(|file| place(file, 0)).collect();
            let known = if known.is_empty() { "no file: compile with -g".to_owned() } else { known.join(", ") };
            format!("nothing is attributed to {name}; there is {known}")
        } else {
            format!("{name} may be {}: give more of the path", several.join(" or "))
        })
    })
}

fn annotate(attribution: &Attribution<'_>, file: &str, path: &Path) -> Annotated {
    let answer = &attribution.answer;
    let read = fs::read(path).or_else(|_| fs::read(file));
    if let Err(error) = &read {
        remark(&format!("failed to read {}: {error}; lines are shown by number", path.display()));
    }
    let source: Option<Vec<String>> =
        read.ok().map(|text| String::from_utf8_lossy(&text).lines().map(str::to_owned).collect());
    let lines = attribution.lines(file);
    let mut in_file = Figures::none(answer.levels.len());
    lines.values().for_each(|line| in_file.add(&line.figures));
    let text = |line: u32| source.as_ref()?.get((line as usize).checked_sub(1)?).cloned();
    let line = |(line, found): (u32, source::Line)| Line {
        line,
        source: text(line),
        figures: Named::new(&found.figures, answer),
        ways: found
            .ways
            .into_iter()
            .map(|(frames, figures)| Way { frames, figures: Named::new(&figures, answer) })
            .collect(),
        objects: accessed(found.objects, answer),
    };
    Annotated {
        schema: "bf.annotate/1",
        profiles: Vec::new(),
        machine: None,
        file: file.to_owned(),
        totals: Named::new(&bf_postproc::attribution::totals(answer), answer),
        in_file: Named::new(&in_file, answer),
        lines: lines.into_iter().map(line).collect(),
        levels: answer.levels.iter().map(|level| level.name.clone()).collect(),
        source,
    }
}

fn accessed(objects: BTreeMap<String, Figures>, answer: &Answer) -> Vec<Accessed> {
    let misses = |figures: &Figures| figures.levels.last().map_or(0, |level| level.misses.iter().sum::<u64>());
    let mut objects: Vec<_> = objects.into_iter().collect();
    objects.sort_by_key(|(_, figures)| std::cmp::Reverse((misses(figures), figures.references)));
    objects.into_iter().map(|(object, figures)| Accessed { object, figures: Named::new(&figures, answer) }).collect()
}

/// Columns of figures: references, then misses of each level.
fn columns(annotated: &Annotated, figures: &Named) -> Vec<String> {
    let references = figures.get("load_references") + figures.get("store_references");
    let misses = annotated.levels.iter().map(|level| figures.get(&format!("{level}.misses")));
    [references].into_iter().chain(misses).map(number).collect()
}

fn text(annotated: &Annotated, whole: bool) -> String {
    let mut heads = vec!["references".to_owned()];
    heads.extend(annotated.levels.iter().map(|level| format!("{level} misses")));
    let totals = columns(annotated, &annotated.totals);
    let widths: Vec<_> = heads.iter().zip(&totals).map(|(head, total)| head.len().max(total.len())).collect();
    let figures = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    let blank = figures(&vec![String::new(); widths.len()]);
    let line =
        |front: &str, middle: &str, text: &str| format!("{front} {middle:>6}  {text}").trim_end().to_owned() + "\n";
    let mut text = format!("{}\n", annotated.profiles.join(" "));
    text += &annotated.machine.as_ref().map_or_else(String::new, |machine| format!("{machine}\n"));
    text += "\n";
    text += &line(&figures(&heads), "line", &annotated.file);
    text += &line(&figures(&totals), "", "the whole program");
    text += &line(&figures(&columns(annotated, &annotated.in_file)), "", "this file");
    let last = annotated.source.as_ref().map_or(0, |source| source.len() as u32);
    let last = annotated.lines.last().map_or(last, |line| last.max(line.line));
    let mut before = 0;
    for number in 0..=last {
        let found = annotated.lines.binary_search_by_key(&number, |line| line.line).ok().map(|at| &annotated.lines[at]);
        let near = |line: &&Line| line.line.abs_diff(number) <= CONTEXT && line.line > 0;
        let shown = found.is_some()
            || number > 0 && annotated.source.is_some() && (whole || annotated.lines.iter().any(|line| near(&line)));
        if !shown {
            continue;
        }
        if number > before + 1 {
            text += &line(&blank, "...", "");
        }
        before = number;
        let source = annotated.source.as_ref().and_then(|source| source.get((number as usize).checked_sub(1)?));
        let source = source.map_or(if number == 0 { "(line unknown)" } else { "" }, String::as_str);
        let Some(found) = found else {
            text += &line(&blank, &number.to_string(), source);
            continue;
        };
        text += &line(&figures(&columns(annotated, &found.figures)), &number.to_string(), source);
        for way in found.ways.iter().filter(|way| found.ways.len() > 1 || way.frames.len() > 1) {
            let calls: Vec<_> = way.frames[1..]
                .iter()
                .map(|frame| format!("inlined at {} in {}", place(&frame.file, frame.line), frame.function))
                .collect();
            let function = way.frames.first().map_or("", |frame| frame.function.as_str());
            let way_text =
                if calls.is_empty() { format!("| {function}") } else { format!("| {function}, {}", calls.join(", ")) };
            text += &line(&figures(&columns(annotated, &way.figures)), "", &way_text);
        }
        for accessed in found.objects.iter().take(MOST_OBJECTS) {
            text += &line(&figures(&columns(annotated, &accessed.figures)), "", &format!("| in {}", accessed.object));
        }
    }
    text
}

//! `bf annotate`: source with figures beside its lines.

use crate::{
    args::{AnnotateArguments, Format, Input},
    by::{self, Named, place},
    failure::Failure,
    input,
    output::{files, number, only_tagged, print, printable, remark, row, shortened},
};
use bf_postproc::{
    attribution::{Attribution, Figures, Key},
    source::{self, Frame},
};
use bf_profile::Profile;
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
    tags: Vec<String>,
    file: String,
    /// Figures of the whole program.
    totals: Named,
    /// Those of this file.
    in_file: Named,
    lines: Vec<Line>,
    /// The file's text; none if it cannot be read.
    #[serde(skip)]
    source: Option<Vec<String>>,
    /// Figures that the text has as columns.
    #[serde(skip)]
    columns: Vec<String>,
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
    /// `"global"`, `"heap"` or `"stack"`.
    kind: Option<&'static str>,
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
        arguments.files.iter().cloned().partition(|path| input::is_profile(path));
    let input = Input { profiles, each: false, salvage: arguments.salvage };
    let mut all = Vec::new();
    for loaded in input::load(&input)? {
        let (attribution, machine) = by::counted(&loaded, &arguments.hierarchy)?;
        let attribution = attribution.with_counters(&loaded.profile, &arguments.hierarchy.tags);
        let files = attribution.files();
        let mut names = Vec::new();
        for path in &sources {
            names.push((meant(&files.keys().map(String::as_str).collect::<Vec<_>>(), path)?, path.as_path()));
        }
        if names.is_empty() {
            // The file with most to show.
            let rank = |name: &&String| {
                let Figures { levels, counters, .. } = &files[*name];
                let misses = levels.last().map(|level| level.misses[0] + level.misses[1]);
                misses.unwrap_or_else(|| counters.iter().sum())
            };
            let worst = files.keys().max_by_key(rank);
            let none = "nothing is attributed to a source file; compile with -g".to_owned();
            let worst = worst.ok_or(Failure::Failed(none))?;
            names.push((worst, Path::new(worst)));
        }
        for (name, path) in names {
            let source = source(&loaded.profile, name, path);
            let mut annotated = annotate(&attribution, name, source);
            (annotated.profiles, annotated.machine) = (loaded.names(), machine.clone());
            annotated.tags.clone_from(&arguments.hierarchy.tags);
            arguments.show.iter().try_for_each(|figure| by::known(figure, &annotated.totals))?;
            annotated.columns.extend(arguments.show.iter().cloned());
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
    let is_it = |file: &&str, path: &Path| fs::canonicalize(file).map_or(Path::new(file) == path, |file| file == path);
    let exact = absolute.and_then(|path| files.iter().copied().find(|file| is_it(file, &path)));
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

/// The lines of a file, found where the user or the profile says.
fn source(profile: &Profile, file: &str, path: &Path) -> Option<Vec<String>> {
    let path = if path.is_file() { path } else { Path::new(file) };
    let name = path.display();
    match fs::read(path) {
        Ok(text) => {
            if input::written_since(profile, path) {
                remark(&format!("{name} was changed after the run began: figures may stand beside the wrong lines"));
            }
            Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
        }
        Err(error) => {
            remark(&format!("failed to read {name}: {error}; lines are shown by number"));
            None
        }
    }
}

fn annotate(attribution: &Attribution<'_>, file: &str, source: Option<Vec<String>>) -> Annotated {
    let answer = &attribution.answer;
    let lines = attribution.lines(file);
    let mut in_file = Figures::none(answer.levels.len());
    lines.values().for_each(|line| in_file.add(&line.figures));
    let named = |figures: &Figures| Named::new(figures, attribution);
    let misses = answer.levels.iter().map(|level| format!("{}.misses", level.name));
    let columns =
        [REFERENCES.to_owned()].into_iter().chain(misses).filter(|_| !answer.levels.is_empty()).collect::<Vec<_>>();
    let usual = || by::USUAL.iter().map(|name| (*name).to_owned()).collect();
    let columns = if columns.is_empty() { usual() } else { columns };
    let text = |line: u32| source.as_ref()?.get((line as usize).checked_sub(1)?).cloned();
    let line = |(line, found): (u32, source::Line)| Line {
        line,
        source: text(line),
        figures: named(&found.figures),
        ways: found.ways.into_iter().map(|(frames, figures)| Way { frames, figures: named(&figures) }).collect(),
        objects: accessed(found.objects, attribution),
    };
    Annotated {
        schema: "bf.annotate/1",
        profiles: Vec::new(),
        machine: None,
        tags: Vec::new(),
        file: file.to_owned(),
        totals: named(&attribution.totals()),
        in_file: named(&in_file),
        lines: lines.into_iter().map(line).collect(),
        columns,
        source,
    }
}

fn accessed(objects: BTreeMap<Key, Figures>, attribution: &Attribution<'_>) -> Vec<Accessed> {
    let misses = |figures: &Figures| figures.levels.last().map_or(0, |level| level.misses.iter().sum::<u64>());
    let mut objects: Vec<_> = objects.into_iter().collect();
    objects.sort_by_key(|(_, figures)| std::cmp::Reverse((misses(figures), figures.references)));
    objects
        .into_iter()
        .map(|(Key { name: object, kind, .. }, figures)| Accessed {
            object,
            kind,
            // What was executed is not known by object.
            figures: Named(figures.named(&attribution.answer).collect()),
        })
        .collect()
}

/// The column of loads and stores together, which JSON has apart.
const REFERENCES: &str = "references";

/// The figures of the columns; `None` if all of them are 0 or not known.
fn columns(annotated: &Annotated, figures: &Named) -> Option<Vec<String>> {
    let count = |name: &String| match name.as_str() {
        REFERENCES => Some(figures.get("load_references") + figures.get("store_references")),
        name => figures.find(name),
    };
    let counts: Vec<_> = annotated.columns.iter().map(count).collect();
    let cell = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), number);
    counts.iter().flatten().any(|&count| count > 0).then(|| counts.into_iter().map(cell).collect())
}

fn text(annotated: &Annotated, whole: bool) -> String {
    let heads: Vec<_> = annotated.columns.iter().map(|name| name.replace(['.', '_'], " ")).collect();
    let none = || vec!["0".to_owned(); heads.len()];
    let columns = |figures| columns(annotated, figures);
    let totals = columns(&annotated.totals).unwrap_or_else(none);
    let widths: Vec<_> = heads.iter().zip(&totals).map(|(head, total)| head.len().max(total.len())).collect();
    let figures = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    let blank = figures(&vec![String::new(); widths.len()]);
    let line =
        |front: &str, middle: &str, text: &str| format!("{front} {middle:>6}  {text}").trim_end().to_owned() + "\n";
    let mut text = format!("{}\n", files(&annotated.profiles));
    text += &annotated.machine.as_ref().map_or_else(String::new, |machine| format!("{machine}\n"));
    text += &only_tagged(&annotated.tags);
    text += "\n";
    text += &line(&figures(&heads), "line", &printable(&annotated.file));
    text += &line(&figures(&totals), "", "the whole program");
    text += &line(&figures(&columns(&annotated.in_file).unwrap_or_else(none)), "", "this file");
    let shown: BTreeMap<u32, (&Line, Vec<String>)> =
        annotated.lines.iter().filter_map(|found| Some((found.line, (found, columns(&found.figures)?)))).collect();
    let last = annotated.source.as_ref().map_or(0, |source| source.len() as u32);
    let last = shown.keys().last().map_or(last, |&line| last.max(line));
    let mut before = 0;
    for number in 0..=last {
        let near = || shown.range(number.saturating_sub(CONTEXT).max(1)..=number + CONTEXT).next().is_some();
        let is_shown = shown.contains_key(&number) || number > 0 && annotated.source.is_some() && (whole || near());
        if !is_shown {
            continue;
        }
        if number > before + 1 {
            text += &line(&blank, "...", "");
        }
        before = number;
        let source = annotated.source.as_ref().and_then(|source| source.get((number as usize).checked_sub(1)?));
        let source = source.map_or(
            if number == 0 { "(line unknown, or one of several that are not told apart)" } else { "" },
            String::as_str,
        );
        let Some((found, cells)) = shown.get(&number) else {
            text += &line(&blank, &number.to_string(), source);
            continue;
        };
        text += &line(&figures(cells), &number.to_string(), source);
        for way in found.ways.iter().filter(|way| found.ways.len() > 1 || way.frames.len() > 1) {
            let Some(cells) = columns(&way.figures) else { continue };
            let calls: Vec<_> = way.frames[1..]
                .iter()
                .map(|frame| format!("inlined at {} in {}", place(&frame.file, frame.line), shortened(&frame.function)))
                .collect();
            let function = way.frames.first().map_or_else(String::new, |frame| shortened(&frame.function));
            let way_text =
                if calls.is_empty() { format!("| {function}") } else { format!("| {function}, {}", calls.join(", ")) };
            text += &line(&figures(&cells), "", &way_text);
        }
        for accessed in found.objects.iter().take(MOST_OBJECTS) {
            let Some(cells) = columns(&accessed.figures) else { continue };
            let blocks = if accessed.kind == Some("heap") { "blocks from " } else { "" };
            text += &line(&figures(&cells), "", &format!("| memory: {blocks}{}", shortened(&accessed.object)));
        }
    }
    text
}

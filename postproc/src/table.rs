//! All of an attribution as one flat table, for other programs: a row for each place, a column for each figure.

use crate::{
    attribution::{Attribution, Figures},
    source::frames,
};
use serde::Serialize;
use std::collections::HashMap;

/// One place of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Row {
    /// Base name of the executable.
    pub process: String,
    /// Its process id.
    pub pid: u32,
    /// The function that was compiled, as people write it.
    pub function: String,
    /// Its linkage name.
    pub linkage_name: String,
    /// Path of the source file that it begins in; "" if unknown.
    pub function_file: String,
    /// Line that it begins on; 0 if unknown.
    pub function_line: u32,
    /// Path of the source file of the place; "" if unknown.
    pub file: String,
    /// Line of the place; 0 if unknown.
    pub line: u32,
    /// The function that the place is written in, then the calls that it was inlined at, innermost first:
    /// `FUNCTION at FILE:LINE < FUNCTION at FILE:LINE`. "" if nothing was inlined.
    pub inlined: String,
    /// Path of the source file of the innermost loop; "" if there is none.
    pub loop_file: String,
    /// Line that it begins on; 0 if unknown or none.
    pub loop_line: u32,
    /// Loops around the place.
    pub loop_depth: u32,
    /// Whether it stands for places of the function that could not be told apart.
    pub merged: bool,
    /// The object in memory that was accessed; "" if unknown, or not recorded.
    pub object: String,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Names of the figures.
    pub figures: Vec<String>,
    /// Rows, each with its figures.
    pub rows: Vec<(Row, Vec<u64>)>,
    /// What the rows add up to.
    pub totals: Vec<u64>,
}

impl Table {
    /// The table of an attribution, in the order of its parts. Parts that only a column tells apart are one row.
    #[must_use]
    pub fn new(attribution: &Attribution<'_>) -> Self {
        let totals = attribution.totals();
        let counts = |figures: &Figures| attribution.named(figures).map(|(_, count)| count).collect();
        let mut rows: Vec<(Row, Vec<u64>)> = Vec::new();
        let mut known: HashMap<Row, usize> = HashMap::new();
        for part in &attribution.parts {
            let row = row(part);
            let more: Vec<u64> = counts(&part.figures);
            match known.get(&row) {
                Some(&at) => rows[at].1.iter_mut().zip(more).for_each(|(sum, more)| *sum += more),
                None => {
                    known.insert(row.clone(), rows.len());
                    rows.push((row, more));
                }
            }
        }
        Self { figures: attribution.named(&totals).map(|(name, _)| name).collect(), rows, totals: counts(&totals) }
    }
}

fn row(part: &crate::attribution::Part<'_>) -> Row {
    let (process, places) = (part.process, &part.process.places);
    let object = part.object.map_or_else(String::new, |object| object.name.clone());
    let pid = process.meta.pid;
    let mut row = Row { process: process.meta.executable.clone(), pid, merged: part.merged, object, ..Row::default() };
    let Some((index, site)) = part.site.and_then(|index| Some((index, places.sites.get(index as usize)?))) else {
        return Row { function: crate::attribution::UNKNOWN.to_owned(), ..row };
    };
    let text = |index: u32| places.string(index).to_owned();
    if let Some(function) = places.functions.get(places.compiled_into(index) as usize) {
        (row.function, row.linkage_name) = (text(function.display), text(function.name));
        (row.function_file, row.function_line) = (text(function.file), function.line);
    }
    (row.file, row.line) = (text(site.file), site.line);
    let frames = frames(part);
    if frames.len() > 1 {
        let frame = |frame: &crate::source::Frame| format!("{} at {}:{}", frame.function, frame.file, frame.line);
        row.inlined = frames.iter().map(frame).collect::<Vec<_>>().join(" < ");
    }
    if let Some(found) = site.innermost.and_then(|found| places.loops.get(found as usize)) {
        (row.loop_file, row.loop_line, row.loop_depth) = (text(found.file), found.line, found.depth);
    }
    row
}

//! `bf sweep --knees`: working sets and the code that makes them.

use crate::{
    args::SweepArguments,
    by::{name, place, title},
    failure::Failure,
    input,
    output::{files, number, only_tagged, percent, print_any, row, table},
};
use bf_postproc::{
    attribution::By,
    explore::knees::{Cause, WorkingSet, working_sets},
    size,
};
use serde::Serialize;
use serde_json::Value;

/// Causes of a working set in the text; the other formats have them all.
const TOP: usize = 5;

/// Working sets, schema `bf.knees/1`.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    profiles: Vec<String>,
    tags: Vec<String>,
    by: By,
    working_sets: Vec<WorkingSet>,
    /// Why they have no causes, or null.
    without_causes: Option<String>,
    #[serde(skip)]
    top: usize,
}

/// The working sets of every profile.
pub fn command(arguments: &SweepArguments) -> Result<(), Failure> {
    let asked = &arguments.space;
    let format = asked.format.plain("a list of working sets")?;
    let by = asked.by.into();
    let mut answers = Vec::new();
    for loaded in input::load(&arguments.input)? {
        let (working_sets, without_causes) = loaded.answer(working_sets(&loaded.profile, by, &arguments.tags))?;
        let top = asked.top.unwrap_or(TOP);
        let (profiles, tags) = (loaded.names(), arguments.tags.clone());
        answers.push(Answer { schema: "bf.knees/1", profiles, tags, by, working_sets, without_causes, top });
    }
    let none = FRONT.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    print_any(format, &answers, arguments.input.each, text, rows, none)
}

/// What a row has in front of the cause.
const FRONT: [&str; 5] = ["profiles", "from_bytes", "size_bytes", "above", "below"];

fn rows(answer: &Answer) -> Vec<Value> {
    let mut rows = Vec::new();
    for set in &answer.working_sets {
        let front = [
            Value::from(answer.profiles.join(" ")),
            set.knee.from_bytes.into(),
            set.knee.size_bytes.into(),
            set.knee.above.into(),
            set.knee.below.into(),
        ];
        let front: Vec<_> = FRONT.into_iter().zip(front).collect();
        rows.extend(set.causes.iter().filter_map(|cause| row(&front, cause).ok()));
        if set.causes.is_empty() {
            rows.push(front.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        }
    }
    rows
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}\n{}", files(&answer.profiles), only_tagged(&answer.tags));
    if answer.working_sets.is_empty() {
        text += "No working sets: the miss ratio of a fully associative cache falls nowhere steeply.\n";
    }
    for set in &answer.working_sets {
        let knee = &set.knee;
        text += &format!(
            "\nWorking set of {}: a fully associative cache of {} misses {} of the references, one of {} {}\n",
            size::format(knee.size_bytes),
            size::format(knee.from_bytes),
            percent(Some(knee.above)),
            size::format(knee.size_bytes),
            percent(Some(knee.below))
        );
        if set.causes.is_empty() {
            continue;
        }
        let shown = set.causes.iter().take(answer.top);
        let rows = shown.map(|Cause { key, misses, share }| {
            vec![name(key, None, answer.by), place(&key.file, key.line), number(*misses), percent(Some(*share))]
        });
        let header = [title(answer.by), "where", "misses that go away", "of them"].map(str::to_owned);
        text += &table(header.to_vec(), rows.collect());
    }
    if let Some(why) = &answer.without_causes {
        text += &format!("\nWhose they are is not known: {why}.\n");
    }
    text
}

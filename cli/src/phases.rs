//! `bf report --by phase`: how figures change in the course of a run.

use crate::{
    args::ReportArguments,
    by::{self, Named},
    failure::Failure,
    input::{self, Loaded},
    output::{ESTIMATES, files, number, only_tagged, percent, print, row, table},
    plot, query,
};
use bf_postproc::{
    Query,
    counters::{self, family},
    phases::{self, by_phase},
    sampled::Sampled,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Figures of slices of time as they are printed.
#[derive(Debug, Serialize)]
struct Course {
    schema: &'static str,
    profiles: Vec<String>,
    machine: Option<String>,
    tags: Vec<String>,
    by: &'static str,
    totals: Named,
    items: Vec<Item>,
    #[serde(skip)]
    levels: Vec<String>,
}

/// A slice.
#[derive(Debug, Serialize)]
struct Item {
    /// Its number, from 0; `None`: of what is in none, for want of names.
    phase: Option<u32>,
    /// References, or without caches instructions, before it.
    first: Option<u64>,
    #[serde(flatten)]
    figures: Named,
    /// How sure they are, by level; absent if they come from no sample.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sampled: BTreeMap<String, Sampled>,
}

impl Item {
    /// What its length is measured by.
    fn length(figures: &Named) -> u64 {
        match figures.get("load_references") + figures.get("store_references") {
            0 => figures.get("instructions"),
            references => references,
        }
    }
}

/// The slices of every profile.
pub fn command(arguments: &ReportArguments) -> Result<(), Failure> {
    arguments.plot.iter().try_for_each(|path| plot::check(path))?;
    let all = input::load(&arguments.input)?;
    if arguments.plot.is_some() {
        plot::check_single(&all)?;
    }
    let all = all.iter().map(|loaded| course(loaded, arguments)).collect::<Result<Vec<_>, _>>()?;
    if let (Some(path), Some(course)) = (&arguments.plot, all.first()) {
        let curves = course.levels.iter().map(|level| (level.clone(), ratios(course, level))).collect();
        let title = format!("Miss ratio over time, {}", course.profiles.join(" "));
        plot::over_time(path, &title, curves)?;
    }
    let rows = |course: &Course| {
        let front = [("profiles", Value::from(course.profiles.join(" ")))];
        course.items.iter().filter_map(|item| row(&front, item).ok()).collect()
    };
    print(arguments.output.format, &all, arguments.input.each, text, rows)
}

fn course(loaded: &Loaded, arguments: &ReportArguments) -> Result<Course, Failure> {
    let (profile, tags) = (&loaded.profile, &arguments.hierarchy.tags);
    let mut parts = Vec::new();
    let (mut totals, mut machine, mut levels) = (Named::default(), None, Vec::new());
    if profile.processes.iter().any(|process| process.line_sizes().next().is_some()) {
        let (caches, label) = query::hierarchy(&arguments.hierarchy, loaded)?;
        let question = Query { levels: caches, tags: tags.clone(), ..Query::default() };
        let (answer, phases) = loaded.answer(by_phase(profile, &question))?;
        let named = |figures: &bf_postproc::attribution::Figures| Named(figures.named(&answer).collect());
        totals = named(&bf_postproc::attribution::totals(&answer));
        parts.extend(phases.into_iter().map(|phase| (phase.number, phase.tags, named(&phase.figures), phase.sampled)));
        (machine, levels) = (label, answer.levels.iter().map(|level| level.name.clone()).collect());
    } else {
        parts.extend(
            loaded
                .answer(phases::parts(profile, tags))?
                .into_iter()
                .map(|(number, tags)| (number, tags, Named::default(), BTreeMap::new())),
        );
    }
    let alone =
        |tags: &[String]| counters::totals(profile, tags).into_iter().filter(|(name, _)| family(name).is_none());
    let sums: Vec<_> = alone(tags).collect();
    let (mut items, mut first) = (Vec::new(), 0);
    for (phase, tags, mut figures, sampled) in parts {
        let found = Named(alone(&tags).map(|(name, value)| (name.to_owned(), value)).collect());
        figures.0.extend(sums.iter().map(|&(name, _)| (name.to_owned(), found.get(name))));
        let length = Item::length(&figures);
        items.push(Item { phase, first: phase.map(|_| first), figures, sampled });
        first += length;
    }
    totals.0.extend(sums.into_iter().map(|(name, value)| (name.to_owned(), value)));
    arguments.sort.iter().try_for_each(|figure| by::known(figure, &totals))?;
    let (schema, profiles, tags) = ("bf.report/1", loaded.names(), tags.clone());
    Ok(Course { schema, profiles, machine, tags, by: "phase", totals, items, levels })
}

/// A level's misses by the references of the program, at the end of each slice.
fn ratios(course: &Course, level: &str) -> Vec<(f64, f64)> {
    let misses = format!("{level}.misses");
    let point = |item: &Item| {
        let length = Item::length(&item.figures);
        let first = item.first.filter(|_| length > 0)?;
        Some(((first + length) as f64, item.figures.get(&misses) as f64 / length as f64))
    };
    course.items.iter().filter_map(point).collect()
}

fn text(course: &Course) -> String {
    let cached = !course.levels.is_empty();
    let mut header = vec!["phase".to_owned(), if cached { "first reference" } else { "first instruction" }.to_owned()];
    let figure = |name: &str| vec![name.to_owned()];
    let mut shown: Vec<Vec<String>> = Vec::new();
    if cached {
        header.push("references".to_owned());
        shown.push(vec!["load_references".to_owned(), "store_references".to_owned()]);
    }
    shown.extend(course.levels.iter().map(|level| figure(&format!("{level}.misses"))));
    header.extend(course.levels.iter().flat_map(|level| [format!("{level} misses"), "of references".to_owned()]));
    let there = |name: &&str| course.totals.0.iter().any(|(other, _)| other == name);
    for name in ["instructions", "flops"].iter().filter(|name| there(name)) {
        header.push((*name).to_owned());
        shown.push(figure(name));
    }
    let cells = |figures: &Named| -> Vec<String> {
        let references = Item::length(figures);
        let each = shown.iter().flat_map(|names| {
            let count = names.iter().map(|name| figures.get(name)).sum();
            let ratio = (references > 0).then(|| count as f64 / references as f64);
            let ratio = names[0].ends_with(".misses").then(|| percent(ratio));
            [Some(number(count)), ratio].into_iter().flatten()
        });
        each.collect()
    };
    let row = |item: &Item| {
        let phase = item.phase.map_or_else(|| "not told apart".to_owned(), |phase| phase.to_string());
        [phase, item.first.map_or_else(String::new, number)].into_iter().chain(cells(&item.figures)).collect()
    };
    let mut rows: Vec<Vec<String>> = course.items.iter().map(row).collect();
    rows.push(["all".to_owned(), String::new()].into_iter().chain(cells(&course.totals)).collect());
    let machine = course.machine.as_ref().map_or_else(String::new, |machine| format!("{machine}\n"));
    let estimates = if course.items.iter().any(|item| !item.sampled.is_empty()) { ESTIMATES } else { "" };
    let tagged = only_tagged(&course.tags);
    format!("{}\n{machine}{tagged}\n{}{estimates}", files(&course.profiles), table(header, rows))
}

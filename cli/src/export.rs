//! `bf export`: figures by place for other programs.

mod callgrind;
mod forest;
mod hatchet;
mod hpctoolkit;
mod parquet;
mod rows;
mod sql;

use crate::{
    args::{ExportArguments, ExportFormat},
    by,
    failure::Failure,
    input::{self, Loaded},
    output::{row, write_to},
    patterns,
};
use bf_postproc::{paths::Tree, table::Table};
use forest::Forest;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Write;

/// Writes what the command line asks for.
pub fn command(arguments: &ExportArguments) -> Result<(), Failure> {
    if arguments.to == ExportFormat::Parquet {
        return parquet::command(arguments);
    }
    if arguments.part.is_some() || arguments.keep_going {
        return Err(Failure::Usage("--part and --keep-going are for --to parquet".to_owned()));
    }
    let mut all = input::load(&arguments.input)?;
    if all.len() > 1 {
        return Err(Failure::Usage("--each would write several exports into one file: export one by one".to_owned()));
    }
    let Some(loaded) = all.pop() else { return Ok(()) };
    let (attribution, machine) = by::counted(&loaded, &arguments.hierarchy)?;
    let attribution = attribution.with_counters(&loaded.profile, &arguments.hierarchy.tags);
    let facts = Facts {
        schema: "bf.export/1",
        profiles: loaded.names(),
        machine,
        tags: arguments.hierarchy.tags.clone(),
        command: loaded.profile.processes.first().map_or_else(String::new, |process| process.meta.command.join(" ")),
    };
    let table = Table::new(&attribution);
    let tags = &arguments.hierarchy.tags;
    let tree = Tree::without(&loaded.profile).is_none().then(|| Tree::new(&loaded.profile, tags, &attribution));
    match arguments.to {
        ExportFormat::Callgrind => write_to(&arguments.output, |to| match &tree {
            Some(tree) => Ok(callgrind::write_tree(&facts, tree, to)?),
            None => Ok(callgrind::write(&facts, &table, to)?),
        }),
        ExportFormat::Hatchet => {
            let forest = tree.as_ref().map_or_else(|| Forest::of_places(&attribution), Forest::of_paths);
            write_to(&arguments.output, |to| hatchet::write(&forest, to))
        }
        ExportFormat::Hpctoolkit => {
            let forest = tree.as_ref().map_or_else(|| Forest::of_places(&attribution), Forest::of_paths);
            hpctoolkit::write(&facts, &forest, &arguments.output)
        }
        ExportFormat::Json => write_to(&arguments.output, |to| json(&facts, &table, functions(&loaded, tags), to)),
        ExportFormat::Csv => write_to(&arguments.output, |to| csv(&table, to)),
        // Written above, profile by profile.
        ExportFormat::Parquet => Ok(()),
        ExportFormat::Sql => {
            write_to(&arguments.output, |to| Ok(sql::write(&facts, &table, functions(&loaded, tags), to)?))
        }
    }
}

/// Where the figures came from.
#[derive(Debug, Serialize)]
pub struct Facts {
    schema: &'static str,
    profiles: Vec<String>,
    machine: Option<String>,
    /// Tags that the figures are of; none: of all references.
    tags: Vec<String>,
    command: String,
}

/// The rows as JSON objects, figures beside the rest.
fn objects(table: &Table) -> impl Iterator<Item = Value> {
    table.rows.iter().filter_map(|(place, counts)| {
        let mut object = row(&[], place).ok()?;
        let figures = table.figures.iter().cloned().zip(counts.iter().copied().map(Value::from));
        object.as_object_mut()?.extend(figures);
        Some(object)
    })
}

/// What the functions of each process touched, as JSON objects; none if that was not recorded.
fn functions(loaded: &Loaded, tags: &[String]) -> Vec<Value> {
    let all = patterns::by_function(&loaded.profile, tags);
    let counts = all.is_some_and(|all| all.whole.touches.is_some());
    let mut rows = Vec::new();
    for process in &loaded.profile.processes {
        let found = bf_postproc::patterns::by_function(std::slice::from_ref(process), tags);
        for (key, footprint) in found.unwrap_or_default().unwrap_or_default().functions {
            let row: Map<String, Value> = [
                ("process", Value::from(process.meta.executable.as_str())),
                ("pid", process.meta.pid.into()),
                ("function", key.name.into()),
                ("linkage_name", key.linkage_name.into()),
                ("function_file", key.file.into()),
                ("function_line", key.line.into()),
            ]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(patterns::figures(&footprint, counts).into_iter().map(|(name, count)| (name, count.into())))
            .collect();
            rows.push(row.into());
        }
    }
    rows
}

fn json(facts: &Facts, table: &Table, functions: Vec<Value>, to: &mut dyn Write) -> Result<(), Failure> {
    let totals: Map<String, Value> =
        table.figures.iter().cloned().zip(table.totals.iter().copied().map(Value::from)).collect();
    let mut document = serde_json::to_value(facts)?;
    if let Some(document) = document.as_object_mut() {
        document.insert("totals".to_owned(), totals.into());
        document.insert("items".to_owned(), objects(table).collect());
        if !functions.is_empty() {
            document.insert("functions".to_owned(), functions.into());
        }
    }
    serde_json::to_writer_pretty(&mut *to, &document)?;
    Ok(writeln!(to)?)
}

fn csv(table: &Table, to: &mut dyn Write) -> Result<(), Failure> {
    let mut writer = csv::Writer::from_writer(to);
    let mut header = None;
    for object in objects(table) {
        let Value::Object(object) = object else { continue };
        if header.is_none() {
            writer.write_record(object.keys())?;
            header = Some(());
        }
        let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        writer.write_record(object.values().map(cell))?;
    }
    Ok(writer.flush()?)
}

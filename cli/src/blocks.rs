//! `bf report --by block`: what basic blocks executed.

use crate::{
    args::{Format, ReportArguments},
    by::{self, Named},
    failure::Failure,
    input::{self, Loaded},
    output::{number, print, row, table},
};
use bf_postproc::counters::{self, Values};
use serde::Serialize;
use serde_json::Value;

/// Rows that are printed if the user does not say how many.
const TOP: usize = 30;

/// Counters of blocks as they are printed.
#[derive(Debug, Serialize)]
struct Breakdown {
    schema: &'static str,
    profiles: Vec<String>,
    tags: Vec<String>,
    by: &'static str,
    /// The counter that rows are sorted by.
    sort: String,
    /// Of all functions.
    totals: Named,
    items: Vec<Item>,
}

/// A row.
#[derive(Debug, Serialize)]
struct Item {
    /// Linkage name of the function.
    name: String,
    file: String,
    /// Of the block's first instruction; 0 if unknown.
    line: u32,
    /// Number of the block in its function.
    block: u32,
    #[serde(flatten)]
    counters: Named,
}

/// The blocks of every profile.
pub fn command(arguments: &ReportArguments) -> Result<(), Failure> {
    let mut all = Vec::new();
    for loaded in input::load(&arguments.input)? {
        all.push(breakdown(&loaded, arguments)?);
    }
    let text_only = arguments.output.format == Format::Text;
    let top = arguments.top.unwrap_or(if text_only { TOP } else { usize::MAX });
    for breakdown in all.iter_mut().filter(|_| !text_only) {
        breakdown.items.truncate(top);
    }
    let rows = |breakdown: &Breakdown| {
        let front = [("profiles", Value::from(breakdown.profiles.join(" ")))];
        breakdown.items.iter().filter_map(|item| row(&front, item).ok()).collect()
    };
    print(arguments.output.format, &all, arguments.input.each, |breakdown| text(breakdown, top), rows)
}

fn breakdown(loaded: &Loaded, arguments: &ReportArguments) -> Result<Breakdown, Failure> {
    let tags = &arguments.hierarchy.tags;
    let blocks = counters::by_block(&loaded.profile, tags);
    if blocks.is_empty() {
        let why = "blocks were not counted in this run; compile with -bf-every-bb";
        return Err(Failure::Failed(why.to_owned()));
    }
    let plain = |values: &Values<'_>| -> Vec<(String, u64)> {
        let alone = values.iter().filter(|(name, _)| counters::family(name).is_none());
        alone.map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let totals = Named(plain(&counters::totals(&loaded.profile, tags)));
    let sort = by::figure(arguments, "instructions".to_owned(), &totals)?;
    let item = |((function, block), (line, values)): ((&bf_profile::CountedFunction, u32), (u32, Values<'_>))| {
        let found = Named(plain(&values));
        let counters = Named(totals.0.iter().map(|(name, _)| (name.clone(), found.get(name))).collect());
        Item { name: function.name.clone(), file: function.file.clone(), line, block, counters }
    };
    let mut items: Vec<_> = blocks.into_iter().map(item).collect();
    items.sort_by_cached_key(|item| std::cmp::Reverse(item.counters.get(&sort)));
    let (schema, profiles, tags) = ("bf.report/1", loaded.names(), tags.clone());
    Ok(Breakdown { schema, profiles, tags, by: "block", sort, totals, items })
}

fn text(breakdown: &Breakdown, top: usize) -> String {
    const USUAL: [&str; 7] = ["blocks", "instructions", "loads", "stores", "flops", "int_ops", "calls"];
    let mut shown = USUAL.to_vec();
    if !shown.contains(&breakdown.sort.as_str()) {
        shown.push(&breakdown.sort);
    }
    let title = |name: &&str| if *name == "blocks" { "times".to_owned() } else { name.replace('_', " ") };
    let header = ["block of function", "where"].map(str::to_owned).into_iter().chain(shown.iter().map(title)).collect();
    let line = |name: String, place: String, counters: &Named| {
        [name, place].into_iter().chain(shown.iter().map(|name| number(counters.get(name)))).collect::<Vec<_>>()
    };
    let row =
        |item: &Item| line(format!("{} {}", item.name, item.block), by::place(&item.file, item.line), &item.counters);
    let mut rows: Vec<_> = breakdown.items.iter().take(top).map(row).collect();
    rows.push(line("all functions".to_owned(), String::new(), &breakdown.totals));
    let more = breakdown.items.len().saturating_sub(top);
    let rest = if more > 0 { format!("and {more} more blocks\n") } else { String::new() };
    let tags = if breakdown.tags.is_empty() {
        String::new()
    } else {
        format!("only what is tagged {}\n", breakdown.tags.join(", "))
    };
    format!("{}\n{tags}\n{}{rest}", breakdown.profiles.join(" "), table(header, rows))
}

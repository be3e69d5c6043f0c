//! `bf report --by`: what functions, lines, loops and other parts have of an answer.

mod executed;

use crate::{
    args::{Format, ReportArguments},
    failure::Failure,
    input::{self, Loaded},
    output::{files, number, only_tagged, percent, print_any, remark, row, shortened, table},
    patterns, query,
};
use bf_postproc::{
    Answer, Query,
    attribution::{Attribution, By, Figures, Key, Memory, UNKNOWN, attribute, mend_by_place, not_by_place},
    counters,
    paths::Tree,
    patterns::ByFunction,
};
use bf_profile::{Profile, places::is_of_the_system};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::Value;
use std::{cmp::Reverse, collections::BTreeMap};

/// Rows that are printed if the user does not say how many.
const TOP: usize = 30;

/// A breakdown as it is printed.
#[derive(Debug, Serialize)]
struct Breakdown {
    schema: &'static str,
    profiles: Vec<String>,
    machine: Option<String>,
    tags: Vec<String>,
    by: By,
    /// The figure that rows are sorted by.
    sort: String,
    totals: Named,
    items: Vec<Item>,
    #[serde(skip)]
    levels: Vec<String>,
}

/// A row.
#[derive(Debug, Serialize)]
struct Item {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    memory: Option<Memory>,
    #[serde(flatten)]
    figures: Named,
    /// Of a call path: the figures with those of everything that was called from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    inclusive: Option<Named>,
}

/// Figures with their names, in order.
#[derive(Clone, Debug, Default)]
pub struct Named(pub Vec<(String, u64)>);

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, count)| map.serialize_entry(name, count))?;
        map.end()
    }
}

impl Named {
    /// The figures of one row.
    pub fn new(figures: &Figures, attribution: &Attribution<'_>) -> Self {
        Self(attribution.named(figures).collect())
    }

    /// A figure; 0 for one that is not there.
    pub fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or(0)
    }

    /// Whether anything was counted.
    fn any(&self) -> bool {
        self.0.iter().any(|&(_, count)| count > 0)
    }

    /// A figure, if it is there.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(other, _)| other == name).map(|&(_, count)| count)
    }
}

/// The breakdown of every profile.
pub fn command(arguments: &ReportArguments, by: By) -> Result<(), Failure> {
    let mut all = Vec::new();
    for loaded in input::load(&arguments.input)? {
        all.push(breakdown(&loaded, arguments, by)?);
    }
    let rows = |breakdown: &Breakdown| {
        let front = [("profiles", Value::from(breakdown.profiles.join(" ")))];
        breakdown.items.iter().filter_map(|item| row(&front, item).ok()).collect()
    };
    let top = arguments.top.unwrap_or(if arguments.output.format == Format::Text { TOP } else { usize::MAX });
    for breakdown in &mut all {
        if arguments.output.format != Format::Text {
            breakdown.items.truncate(top);
        }
    }
    let figures = all.first().map_or_else(Named::default, |breakdown| breakdown.totals.clone());
    let none = Item { key: Key::default(), memory: None, figures, inclusive: None };
    let none = row(&[("profiles", Value::Null)], &none)?;
    print_any(arguments.output.format, &all, arguments.input.each, |breakdown| text(breakdown, top), rows, none)
}

/// An answer with its parts, for what the command line asks for.
pub fn attribution<'a>(
    loaded: &'a Loaded,
    hierarchy: &crate::args::Hierarchy,
) -> Result<(Attribution<'a>, Option<String>), Failure> {
    let (levels, label) = query::hierarchy(hierarchy, loaded)?;
    let question = Query { levels, tags: hierarchy.tags.clone(), ..Query::default() };
    Ok((loaded.answer(attribute(&loaded.profile, &question))?, label))
}

/// The same where the caches' part may be missing, as long as something was counted.
pub fn counted<'a>(
    loaded: &'a Loaded,
    hierarchy: &crate::args::Hierarchy,
) -> Result<(Attribution<'a>, Option<String>), Failure> {
    let processes = &loaded.profile.processes;
    let nothing_recorded = processes.iter().all(|process| process.line_sizes().next().is_none());
    let counted = processes.iter().any(|process| !process.counters.items.is_empty());
    match not_by_place(&loaded.profile) {
        Some(process) if counted => {
            remark(&format!(
                "{} recorded no references by place, so there are only counters; {}",
                process.meta.executable,
                mend_by_place(process)
            ));
            Ok((Attribution::default(), None))
        }
        None if counted && nothing_recorded => Ok((Attribution::default(), None)),
        None if nothing_recorded => Err(Failure::Failed("nothing was recorded or counted in this run".to_owned())),
        _ => attribution(loaded, hierarchy),
    }
}

fn breakdown(loaded: &Loaded, arguments: &ReportArguments, by: By) -> Result<Breakdown, Failure> {
    let (profile, tags) = (&loaded.profile, &arguments.hierarchy.tags);
    let (attribution, machine) = match by {
        By::Callpath => return paths(loaded, arguments),
        By::Object => attribution(loaded, &arguments.hierarchy)?,
        By::Block if counters::by_block(profile, &[]).is_empty() => {
            let why = "blocks were not counted in this run; compile with -bf-every-bb";
            return Err(Failure::Failed(why.to_owned()));
        }
        By::Function | By::Block => counted(loaded, &arguments.hierarchy)?,
        By::Line | By::OwnLine | By::Loop => {
            let (attribution, machine) = counted(loaded, &arguments.hierarchy)?;
            (attribution.with_counters(profile, tags), machine)
        }
    };
    let answer = &attribution.answer;
    if let Some(process) = attribution.without_objects().filter(|_| by == By::Object) {
        return Err(Failure::Failed(format!(
            "{} was recorded without objects; compile with -bf-data-structs, or set BF_BY_OBJECT=1 when it runs",
            process.meta.executable
        )));
    }
    let memory = if by == By::Object { attribution.memory() } else { BTreeMap::new() };
    let mut totals = Named::new(&attribution.totals(), &attribution);
    let rows = attribution.by(by).into_iter();
    let item = |(key, figures)| {
        let memory = memory.get(&key).copied();
        Item { key, memory, figures: Named::new(&figures, &attribution), inclusive: None }
    };
    let mut items: Vec<_> = rows.map(item).collect();
    match by {
        By::Function => {
            executed::add_by_function(profile, tags, &mut totals, &mut items);
            add_bytes(profile, tags, &mut totals, &mut items);
        }
        By::Block => executed::add_by_block(profile, tags, &mut totals, &mut items),
        _ => {}
    }
    items.retain(|item| item.figures.any() || item.memory.is_some());
    let sort = asked_or_usual(arguments, answer);
    known(&sort, &totals)?;
    let rank = |item: &Item| {
        let count = |name| std::cmp::Reverse(item.figures.get(name));
        (count(&sort), count("load_references"), count("store_references"))
    };
    items.sort_by_cached_key(rank);
    if by == By::Line && items.first().is_some_and(|item| is_of_the_system(&item.key.file)) {
        remark(
            "the first line is in the standard library; --by own-line counts what that does where the program called it",
        );
    }
    if by == By::Object && loaded.profile.processes.iter().any(|process| process.objects.crowded) {
        remark("there were more blocks than are told apart: some are (unknown), and peaks may be too high");
    }
    Ok(Breakdown {
        schema: "bf.report/1",
        profiles: loaded.names(),
        machine,
        tags: tags.clone(),
        by,
        sort,
        totals,
        items,
        levels: answer.levels.iter().map(|level| level.name.clone()).collect(),
    })
}

/// The breakdown by call path.
fn paths(loaded: &Loaded, arguments: &ReportArguments) -> Result<Breakdown, Failure> {
    let (profile, tags) = (&loaded.profile, &arguments.hierarchy.tags);
    if let Some(process) = Tree::without(profile) {
        return Err(Failure::Failed(format!(
            "{} was recorded without call paths; compile with -bf-call-stack",
            process.meta.executable
        )));
    }
    let (attribution, machine) = counted(loaded, &arguments.hierarchy)?;
    let tree = Tree::new(profile, tags, &attribution);
    let named = |values: &[u64]| Named(tree.figures.iter().cloned().zip(values.iter().copied()).collect());
    let totals = named(&tree.totals);
    let levels: Vec<_> = attribution.answer.levels.iter().map(|level| level.name.clone()).collect();
    let sort = asked_or_usual(arguments, &attribution.answer);
    let (name, inclusive) = sort.strip_suffix(INCLUSIVE).map_or((sort.as_str(), false), |name| (name, true));
    known(name, &totals)?;
    let shown = tree.paths.iter().enumerate().filter(|(_, path)| path.all.iter().any(|&count| count > 0));
    let mut items: Vec<_> = shown
        .map(|(index, path)| {
            let key = Key::of_chain(&tree.chain(index));
            Item { key, memory: None, figures: named(&path.own), inclusive: Some(named(&path.all)) }
        })
        .collect();
    items.sort_by_cached_key(|item| {
        let all = item.inclusive.as_ref().map_or(0, |all| all.get(name));
        let own = item.figures.get(name);
        Reverse(if inclusive { (all, own) } else { (own, all) })
    });
    Ok(Breakdown {
        schema: "bf.report/1",
        profiles: loaded.names(),
        machine,
        tags: tags.clone(),
        by: By::Callpath,
        sort,
        totals,
        items,
        levels,
    })
}

/// What the name of a figure ends in that is meant with everything called.
const INCLUSIVE: &str = ".inclusive";

/// The figure to sort by: the one asked for, or the misses of the last level, without caches the instructions.
fn asked_or_usual(arguments: &ReportArguments, answer: &Answer) -> String {
    let usual =
        answer.levels.last().map_or_else(|| "instructions".to_owned(), |level| format!("{}.misses", level.name));
    arguments.sort.clone().unwrap_or(usual)
}

/// Refuses a figure that is not there, if any is: a tag may have counted nothing.
pub fn known(figure: &str, totals: &Named) -> Result<(), Failure> {
    if totals.0.is_empty() || totals.0.iter().any(|(name, _)| *name == figure) {
        return Ok(());
    }
    let names: Vec<_> = totals.0.iter().map(|(name, _)| name.as_str()).collect();
    Err(Failure::Usage(format!("there is no figure `{figure}`; there are {}", names.join(", "))))
}

/// Adds what functions touched to their rows, if that was recorded, and a row for each function that has none.
fn add_bytes(profile: &Profile, tags: &[String], totals: &mut Named, items: &mut Vec<Item>) {
    let Some(ByFunction { whole, functions }) = patterns::by_function(profile, tags) else { return };
    let counts = whole.touches.is_some();
    let same = |key: &Key| (key.linkage_name.clone(), key.file.clone(), key.line);
    let found = |(key, footprint)| (same(&key), (key, patterns::figures(&footprint, counts)));
    join(functions.into_iter().map(found).collect(), same, patterns::figures(&whole, counts), totals, items);
}

/// Adds figures to the rows that have the same key, as `same` makes one, and a row for each that there is none of. `sums`: the
/// same figures of all; rows that have none of them get zeros.
fn join<K: Ord>(
    mut found: BTreeMap<K, (Key, Vec<(String, u64)>)>,
    same: impl Fn(&Key) -> K,
    sums: Vec<(String, u64)>,
    totals: &mut Named,
    items: &mut Vec<Item>,
) {
    let zeros = |of: &[(String, u64)]| -> Vec<_> { of.iter().map(|(name, _)| (name.clone(), 0)).collect() };
    for Item { key, figures, .. } in items.iter_mut() {
        let (known, more) = found.remove(&same(key)).unwrap_or_else(|| {
            let unknown = Key { name: key.name.clone(), ..Key::default() };
            (unknown, zeros(&sums))
        });
        key.name = known.name;
        // Of blocks only counters know the line.
        if key.block.is_some() {
            key.line = known.line;
        }
        figures.0.extend(more);
    }
    for (key, more) in found.into_values() {
        let figures = Named([zeros(&totals.0), more].concat());
        items.push(Item { key, memory: None, figures, inclusive: None });
    }
    totals.0.extend(sums);
}

/// Where a row is, for people: the last parts of its path.
pub fn place(file: &str, line: u32) -> String {
    let from = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    match (file, line) {
        ("", _) => String::new(),
        (_, 0) => file[from..].to_owned(),
        _ => format!("{}:{line}", &file[from..]),
    }
}

/// Where a row is, or how much of it there is.
fn whereabouts(item: &Item) -> String {
    match item.memory {
        Some(Memory { blocks: 2.., peak_bytes, .. }) => number(peak_bytes),
        Some(Memory { bytes, .. }) => {
            if bytes > 0 {
                number(bytes)
            } else {
                String::new()
            }
        }
        None => place(&item.key.file, item.key.line),
    }
}

/// What rows are called in a table.
pub const fn title(by: By) -> &'static str {
    match by {
        By::Function => "function",
        By::Line | By::OwnLine => "line of function",
        By::Loop => "loop of function",
        By::Object => "object",
        By::Callpath => "call path",
        By::Block => "block of function",
    }
}

/// What a row is called.
pub fn name(key: &Key, memory: Option<Memory>, by: By) -> String {
    let shown = shortened(&key.name);
    if let (Some("heap"), Some(memory)) = (key.kind, memory) {
        return match memory.blocks {
            0 | 1 => format!("block from {shown}"),
            blocks => format!("{} blocks from {shown}", number(blocks)),
        };
    }
    if by == By::Block && key.name != UNKNOWN {
        let rest = if key.merged { "(several blocks)" } else { "(block unknown)" };
        return key.block.map_or_else(|| format!("{shown} {rest}"), |block| format!("{shown} {block}"));
    }
    let rest = if key.merged { " (several lines)" } else { "" };
    match (by, key.depth) {
        (By::Loop, Some(0)) if !key.merged => format!("{shown} (in no loop)"),
        (By::Loop, Some(depth)) => format!("{shown} (loop, depth {depth})"),
        (By::Line | By::OwnLine, _) if key.line == 0 && !key.merged && !key.name.starts_with('(') => {
            format!("{shown} (line unknown)")
        }
        _ => shown + rest,
    }
}

/// The counters that tables have where there is nothing else.
pub const USUAL: [&str; 7] = ["entries", "instructions", "loads", "stores", "flops", "int_ops", "calls"];

/// The counters that stand in the table: the one that it is sorted by, how often a block ran, and the usual ones where there
/// is nothing else.
fn shown_counters(breakdown: &Breakdown) -> Vec<&str> {
    let sort = breakdown.sort.as_str();
    let shown_anyway = sort.ends_with("_references") || BYTES.iter().any(|(name, _)| *name == sort);
    let is_counter = !sort.trim_end_matches(INCLUSIVE).contains('.') && !shown_anyway;
    let mut shown = if breakdown.levels.is_empty() { USUAL.to_vec() } else { Vec::new() };
    if breakdown.by == By::Block {
        shown.retain(|name| *name != "entries");
        shown.insert(0, "blocks");
    }
    if is_counter && !shown.contains(&sort) {
        shown.push(sort);
    }
    shown
}

fn text(breakdown: &Breakdown, top: usize) -> String {
    let mut text = format!("{}\n", files(&breakdown.profiles));
    text += &breakdown.machine.as_ref().map_or_else(String::new, |machine| format!("{machine}\n"));
    text += &only_tagged(&breakdown.tags);
    let mut header =
        vec![title(breakdown.by).to_owned(), if breakdown.by == By::Object { "bytes" } else { "where" }.to_owned()];
    if !breakdown.levels.is_empty() {
        header.push("references".to_owned());
    }
    let has_writebacks = |level: &String| breakdown.totals.find(&format!("{level}.writebacks")).is_some();
    for level in &breakdown.levels {
        header.extend([format!("{level} misses"), "of all".to_owned()]);
        header.extend((breakdown.by == By::Callpath).then(|| "with callees".to_owned()));
        header.extend(has_writebacks(level).then(|| format!("{level} write-backs")));
    }
    let bytes: Vec<_> = BYTES.iter().filter(|(name, _)| breakdown.totals.find(name).is_some()).collect();
    header.extend(bytes.iter().map(|(_, title)| (*title).to_owned()));
    let counters = shown_counters(breakdown);
    header.extend(
        counters.iter().map(|name| if *name == "blocks" { "times".to_owned() } else { name.replace('_', " ") }),
    );
    let cells = |figures: &Named, inclusive: Option<&Named>| {
        let with_callees = |name: &str| inclusive.map_or_else(String::new, |all| number(all.get(name)));
        let mut cells = Vec::new();
        if !breakdown.levels.is_empty() {
            cells.push(number(figures.get("load_references") + figures.get("store_references")));
        }
        for level in &breakdown.levels {
            let (misses, name) = (figures.get(&format!("{level}.misses")), format!("{level}.misses"));
            let all = breakdown.totals.get(&name);
            cells.push(number(misses));
            cells.push(percent((all > 0).then(|| misses as f64 / all as f64)));
            if breakdown.by == By::Callpath {
                cells.push(with_callees(&name));
            }
            let writebacks = figures.find(&format!("{level}.writebacks"));
            cells.extend(has_writebacks(level).then(|| writebacks.map_or_else(|| "-".to_owned(), number)));
        }
        cells.extend(bytes.iter().map(|(name, _)| figures.find(name).map_or_else(|| "-".to_owned(), number)));
        let counts = counters.iter().map(|name| match name.strip_suffix(INCLUSIVE) {
            Some(name) => with_callees(name),
            None => number(figures.get(name)),
        });
        cells.extend(counts);
        cells
    };
    let line = |name: String, place: String, figures: &Named, inclusive: Option<&Named>| {
        [vec![name, place], cells(figures, inclusive)].concat()
    };
    let (shown, others) = breakdown.items.split_at(top.min(breakdown.items.len()));
    let mut rows: Vec<_> = shown
        .iter()
        .map(|item| {
            let shown = name(&item.key, item.memory, breakdown.by);
            line(shown, whereabouts(item), &item.figures, item.inclusive.as_ref())
        })
        .collect();
    if !others.is_empty() {
        let mut sum = others[0].figures.clone();
        for other in &others[1..] {
            sum.0.iter_mut().zip(&other.figures.0).for_each(|((_, sum), (_, count))| *sum += count);
        }
        sum.0.retain(|(name, _)| patterns::adds_up(name));
        rows.push(line(format!("({} more)", number(others.len() as u64)), String::new(), &sum, None));
    }
    rows.push(line("all".to_owned(), String::new(), &breakdown.totals, Some(&breakdown.totals)));
    text += &format!("\n{}{}", table(header, rows), bytes_note(&breakdown.totals));
    if !breakdown.levels.iter().all(has_writebacks) {
        text += "Write-backs of private caches of several threads are not known by place.\n";
    }
    if shown.iter().any(|item| item.key.merged) {
        let what = if breakdown.by == By::Block { "blocks" } else { "lines" };
        text += &format!(
            "(several {what}): only so many are told apart, those that ran first or often; the others are one row for each function.\n"
        );
    }
    text
}

/// The figures of bytes that have columns, where they are known, and what those are called.
const BYTES: [(&str, &str); 2] = [(patterns::UNIQUE, "unique bytes"), (patterns::COVERING, "90 % of touches in")];

/// What a reader of the columns of bytes should know.
fn bytes_note(totals: &Named) -> String {
    let Some(_) = totals.find(patterns::UNIQUE) else { return String::new() };
    let missing = match totals.get(patterns::MISSING) {
        0 => String::new(),
        missing => format!("; they are too low: {} accesses are missing for want of memory", number(missing)),
    };
    format!("Bytes do not add up: one that several functions touched is counted for each of them{missing}.\n")
}

//! `bf query`

use crate::{
    args::QueryArguments,
    failure::Failure,
    input::{self, Loaded},
    machine,
    output::{number, percent, print, row, table},
};
use bf_postproc::{Answer, Cache, LevelAnswer, Query, sampled::Interval, size};
use serde_json::Value;

/// Answers a hierarchy for every profile.
pub fn command(arguments: &QueryArguments) -> Result<(), Failure> {
    // A wrong hierarchy is refused before a large profile is read.
    bf_postproc::query::check_order(&arguments.caches).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut answers = Vec::new();
    for loaded in input::load(&arguments.input)? {
        let (levels, label) = if arguments.caches.is_empty() {
            let selector = arguments.machine.as_deref().unwrap_or("run");
            let hierarchy = machine::resolve(selector, &loaded.profile)?;
            (hierarchy.caches, Some(hierarchy.label))
        } else {
            (arguments.caches.clone(), None)
        };
        answers.push(answer(&loaded, levels, label, &arguments.tags)?);
    }
    print(arguments.output.format, &answers, arguments.input.each, text, rows)
}

/// The answer of a hierarchy, with where everything came from.
pub fn answer(loaded: &Loaded, levels: Vec<Cache>, label: Option<String>, tags: &[String]) -> Result<Answer, Failure> {
    let mut answer = bf_postproc::query(&loaded.profile, &Query { levels, tags: tags.to_vec() })?;
    answer.profiles = loaded.names();
    answer.machine = label;
    Ok(answer)
}

fn rows(answer: &Answer) -> Vec<Value> {
    let front = [("profiles", Value::from(answer.profiles.join(" ")))];
    answer.levels.iter().filter_map(|level| row(&front, level).ok()).collect()
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}\n", answer.profiles.join(" "));
    if let Some(machine) = &answer.machine {
        text += &format!("{machine}\n");
    }
    if !answer.tags.is_empty() {
        text += &format!("only references tagged {}\n", answer.tags.join(", "));
    }
    text += &format!(
        "{} references: {} by loads, {} by stores\n\n",
        number(answer.references),
        number(answer.load_references),
        number(answer.store_references)
    );
    text + &levels(answer)
}

/// A figure of a level, in words.
type Figure = fn(&LevelAnswer) -> String;

/// The table of a hierarchy, levels side by side, and the notes to it.
pub fn levels(answer: &Answer) -> String {
    let optional = |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), number);
    let figures: [(&str, Figure); 9] = [
        ("size", |level| size::format(level.size_bytes)),
        ("ways x sets, line", |level| format!("{} x {}, {}", level.ways, level.sets, level.line_bytes)),
        ("scope", |level| level.scope.to_string()),
        ("model", model),
        ("accesses", |level| number(level.references)),
        ("hits", |level| number(level.hits)),
        ("misses", |level| number(level.misses)),
        ("  of its accesses", |level| percent(level.local_miss_ratio)),
        ("  of all references", |level| percent(level.global_miss_ratio)),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, figure) in figures {
        rows.push([name.to_owned()].into_iter().chain(answer.levels.iter().map(figure)).collect());
    }
    let mut add = |name: &str, figure: &dyn Fn(&LevelAnswer) -> String| {
        rows.push([name.to_owned()].into_iter().chain(answer.levels.iter().map(figure)).collect());
    };
    let sampled = answer.levels.iter().any(|level| level.sampled.is_some());
    if sampled {
        add("  95 % interval of it", &|level| ratios(level));
        add("misses, 95 % interval", &|level| interval(level.sampled.as_ref().map(|sampled| sampled.misses)));
    }
    add("  loads", &|level| number(level.load_misses));
    add("  stores", &|level| number(level.store_misses));
    add("  cold", &|level| number(level.cold));
    add("  capacity", &|level| optional(level.capacity));
    add("  conflict", &|level| optional(level.conflict));
    if answer.levels.iter().any(|level| level.hits_beyond_full.is_some_and(|hits| hits > 0)) {
        add("hits beyond full", &|level| optional(level.hits_beyond_full));
    }
    add("write-backs", &|level| number(level.writebacks));
    if sampled {
        add("  95 % interval", &|level| interval(level.sampled.as_ref().map(|sampled| sampled.writebacks)));
    }
    add("dirty at the end", &|level| number(level.resident_dirty));
    add("traffic below", &|level| size::human(level.traffic_bytes));
    let header = ["".to_owned()].into_iter().chain(answer.levels.iter().map(|level| level.name.clone())).collect();
    let mut text = table(header, rows);
    if answer.levels.len() > 1 {
        text += "Levels below the first are fed with all references, not only with the misses above them.\n";
    }
    for level in &answer.levels {
        if let Some(note) = &level.note {
            text += &format!("{}: {note}.\n", level.name);
        }
    }
    text + &spread(answer)
}

/// By which rule, and whether that leaves no doubt.
fn model(level: &LevelAnswer) -> String {
    let name = level.model.name();
    match (&level.sampled, level.exact) {
        (Some(_), _) => format!("{name}, sampled"),
        (None, true) => format!("{name}, exact"),
        (None, false) => name.to_owned(),
    }
}

fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(|| "-".to_owned(), |Interval { low, high }| format!("{} - {}", number(low), number(high)))
}

fn ratios(level: &LevelAnswer) -> String {
    let ratios = level.sampled.as_ref().and_then(|sampled| sampled.global_miss_ratio);
    ratios.map_or_else(
        || "-".to_owned(),
        |ratios| format!("{} - {}", percent(Some(ratios.low)).trim_end_matches(" %"), percent(Some(ratios.high))),
    )
}

/// Least, median and greatest over the processes; nothing for a single one.
fn spread(answer: &Answer) -> String {
    let mut rows = Vec::new();
    for level in &answer.levels {
        let Some(spread) = &level.spread else { continue };
        for (name, range) in [
            ("accesses", spread.references),
            ("misses", spread.misses),
            ("write-backs", spread.writebacks),
            ("traffic below, bytes", spread.traffic_bytes),
        ] {
            let figures = [range.min, range.median, range.max].map(number);
            rows.push([format!("{} {name}", level.name)].into_iter().chain(figures).collect());
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        format!("over {} processes", number(answer.processes as u64)),
        "least".into(),
        "median".into(),
        "greatest".into(),
    ];
    "\n".to_owned() + &table(header.to_vec(), rows)
}

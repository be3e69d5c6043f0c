//! `bf query`

use crate::{
    args::{Hierarchy, QueryArguments, QueryItem},
    failure::Failure,
    input::{self, Loaded},
    machine,
    output::{files, number, only_tagged, percent, print, remark, row, table},
};
use bf_postproc::{
    Answer, Cache, LevelAnswer, Query,
    sampled::Interval,
    share::{self, Threads},
    shared_lines::took_turns,
    size,
};
use serde_json::Value;

/// Answers a hierarchy for every profile.
pub fn command(arguments: &QueryArguments) -> Result<(), Failure> {
    // A wrong hierarchy is refused before a large profile is read.
    let caches = &arguments.hierarchy.caches;
    bf_postproc::query::check_order(caches).map_err(|error| Failure::Usage(error.to_string()))?;
    if !caches.is_empty() {
        let divided = share::check(&arguments.shares, caches);
        divided.map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let mut answers = Vec::new();
    for loaded in input::load(&arguments.input)? {
        let (levels, label) = hierarchy(&arguments.hierarchy, &loaded)?;
        let question = Query {
            levels,
            tags: arguments.hierarchy.tags.clone(),
            by_thread: arguments.by == Some(QueryItem::Thread),
            shares: arguments.shares.clone(),
        };
        let answer = answer(&loaded, &question, label)?;
        if question.by_thread && answer.levels.iter().all(|level| level.threads.is_none()) {
            remark("--by thread tells private caches apart, and there is none");
        }
        if question.by_thread {
            loaded.profile.processes.iter().filter_map(took_turns).for_each(|note| remark(&note));
        }
        answers.push(answer);
    }
    print(arguments.output.format, &answers, arguments.input.each, text, rows)
}

/// The caches that the command line asks about, and what they are called together.
pub fn hierarchy(asked: &Hierarchy, loaded: &Loaded) -> Result<(Vec<Cache>, Option<String>), Failure> {
    if !asked.caches.is_empty() {
        return Ok((asked.caches.clone(), None));
    }
    let hierarchy = machine::resolve(asked.machine.as_deref().unwrap_or("run"), &loaded.profile)?;
    Ok((hierarchy.caches, Some(hierarchy.label)))
}

/// The answer of a hierarchy, with where everything came from.
pub fn answer(loaded: &Loaded, question: &Query, label: Option<String>) -> Result<Answer, Failure> {
    let mut answer = loaded.answer(bf_postproc::query(&loaded.profile, question))?;
    answer.profiles = loaded.names();
    answer.machine = label;
    Ok(answer)
}

fn rows(answer: &Answer) -> Vec<Value> {
    let front = [("profiles", Value::from(answer.profiles.join(" ")))];
    if answer.levels.iter().all(|level| level.threads.is_none()) {
        return answer.levels.iter().filter_map(|level| row(&front, level).ok()).collect();
    }
    let mut rows = Vec::new();
    for level in &answer.levels {
        let [name] = front.clone();
        let front = [name, ("level", Value::from(level.name.clone()))];
        rows.extend(level.threads.iter().flatten().filter_map(|thread| row(&front, thread).ok()));
    }
    rows
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}\n", files(&answer.profiles));
    if let Some(machine) = &answer.machine {
        text += &format!("{machine}\n");
    }
    text += &only_tagged(&answer.tags);
    text += &format!(
        "{} references: {} by loads, {} by stores\n\n",
        number(answer.references),
        number(answer.load_references),
        number(answer.store_references)
    );
    text + &levels(answer) + &groups(answer) + &threads(answer)
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
    let shared = answer.levels.iter().any(|level| level.coherence.is_some());
    if shared {
        add("  coherence", &|level| optional(level.coherence));
    }
    add("  capacity", &|level| optional(level.capacity));
    add("  conflict", &|level| optional(level.conflict));
    if answer.levels.iter().any(|level| level.hits_beyond_full.is_some_and(|hits| hits > 0)) {
        add("hits beyond full", &|level| optional(level.hits_beyond_full));
    }
    if shared {
        add("misses another cache held", &|level| optional(level.remote));
        add("invalidations received", &|level| optional(level.invalidations_received));
        add("dirty lines passed on", &|level| optional(level.dirty_transfers));
        add("accesses to memory", &|level| optional(level.memory_accesses));
    }
    add("write-backs", &|level| optional(level.writebacks));
    if sampled {
        add("  95 % interval", &|level| interval(level.sampled.as_ref().map(|sampled| sampled.writebacks)));
    }
    add("dirty at the end", &|level| optional(level.resident_dirty));
    add("traffic below", &|level| level.traffic_bytes.map_or_else(|| "-".to_owned(), size::human));
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

/// A table for each level whose threads were divided into groups.
fn groups(answer: &Answer) -> String {
    let mut text = String::new();
    for level in &answer.levels {
        let Some(groups) = &level.groups else { continue };
        let mut rows = Vec::new();
        for group in groups {
            let of = group.pid.map_or_else(String::new, |pid| format!(" of {pid}"));
            rows.push(vec![
                format!("{}{of}", Threads(&group.threads)),
                number(group.references),
                number(group.misses),
                percent((group.references > 0).then(|| group.misses as f64 / group.references as f64)),
            ]);
        }
        let header = [level.name.as_str(), "accesses", "misses", "of them"].map(str::to_owned);
        text += &format!("\n{}", table(header.to_vec(), rows));
    }
    text
}

/// A table for each level whose threads are told apart.
fn threads(answer: &Answer) -> String {
    let optional = |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), number);
    let mut text = String::new();
    for level in &answer.levels {
        let Some(threads) = &level.threads else { continue };
        let mut rows = Vec::new();
        for thread in threads {
            let ratio = (thread.references > 0).then(|| thread.misses as f64 / thread.references as f64);
            rows.push(vec![
                match thread.pid {
                    Some(pid) => format!("thread {} of {pid}", thread.thread),
                    None => format!("thread {}", thread.thread),
                },
                number(thread.references),
                number(thread.misses),
                percent(ratio),
                optional(thread.invalidations),
                optional(thread.remote),
            ]);
        }
        let columns = ["accesses", "misses", "of them", "invalidations", "another cache held"];
        let header = [level.name.as_str()].into_iter().chain(columns).map(str::to_owned).collect();
        text += &format!("\n{}", table(header, rows));
    }
    text
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
            ("accesses", Some(spread.references)),
            ("misses", Some(spread.misses)),
            ("write-backs", spread.writebacks),
            ("traffic below, bytes", spread.traffic_bytes),
        ] {
            let Some(range) = range else { continue };
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

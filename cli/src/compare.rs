//! `bf compare`

use crate::{
    args::CompareArguments,
    change,
    failure::Failure,
    input::{self, Loaded},
    names::whole,
    output::{counted, number, only_tagged, percent, plural, print, printable, row, shortened, table},
    query,
};
use bf_postproc::{
    compare::{Comparison, DifferMost, FAITHFUL, LevelPair, PARTLY, Part, Parts, Question, Side, Subject, compare},
    size,
};
use serde_json::Value;
use std::path::PathBuf;

/// Where text is broken.
const COLUMNS: usize = 100;
/// Functions and tags shown in the text; the JSON names them all.
const MOST_PARTS: usize = 10;

/// Compares two sides, or runs before and after a change.
pub fn command(arguments: &CompareArguments) -> Result<(), Failure> {
    if !arguments.before.is_empty() {
        return change::command(arguments);
    }
    let (a, b) = sides(arguments)?;
    let load = |paths: &[PathBuf]| {
        let paths = input::expand(paths)?;
        Ok::<_, Failure>(Loaded { profile: input::merged(&paths, arguments.salvage)?, paths })
    };
    let (a, b) = (load(a)?, load(b)?);
    // The machine of the second side, the parent, is the one of interest.
    let (levels, machine) = query::hierarchy(&arguments.hierarchy, &b)?;
    let question = Question { tags: arguments.hierarchy.tags.clone(), line_bytes: arguments.line, levels, machine };
    let answer = compare(
        &Side { profiles: a.names(), profile: &a.profile },
        &Side { profiles: b.names(), profile: &b.profile },
        &question,
    )?;
    let score = answer.score;
    print(arguments.output.format, &[answer], false, text, rows)?;
    match arguments.fail_under {
        Some(least) if score < least => {
            Err(Failure::Below(format!("score {score:.3} is below {least}, as --fail-under asks")))
        }
        _ => Ok(()),
    }
}

/// The files of each side.
fn sides(arguments: &CompareArguments) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    let CompareArguments { profiles, with, .. } = arguments;
    match (profiles.as_slice(), with.as_slice()) {
        ([a, b], []) => Ok((std::slice::from_ref(a), std::slice::from_ref(b))),
        ([_, ..], [_, ..]) => Ok((profiles, with)),
        (given, _) => Err(Failure::Usage(format!(
            "compares two profiles, not {}; several of each side as in A1 A2 --with B1 B2, repeated runs as in --before A1 A2 \
             --after B1 B2",
            given.len()
        ))),
    }
}

fn rows(answer: &Comparison) -> Vec<Value> {
    let files = |subject: &Subject| Value::from(subject.profiles.join(" "));
    let front = [("a", files(&answer.a)), ("b", files(&answer.b))];
    answer.aspects.iter().filter_map(|aspect| row(&front, aspect).ok()).collect()
}

fn text(answer: &Comparison) -> String {
    let mut text = subjects(answer);
    text += &only_tagged(&answer.tags);
    text += &format!(
        "\n{}: score {:.2}  (1 is no difference; {FAITHFUL} and more is faithful, under {PARTLY} unfaithful)\n\n",
        answer.verdict, answer.score
    );
    for aspect in &answer.aspects {
        let mark = if aspect.essential { "*" } else { " " };
        text += &hanging(&format!("  {:.2} {mark} {:<16}", aspect.score, spoken(aspect.name)), &printable(&aspect.why));
    }
    text += "  * essential: the score is the least of these, or the mean of all if that is less\n\nNot compared\n";
    text + &not_compared(answer)
        + &differ_most(answer)
        + &levels(answer)
        + &answer.functions.as_ref().map_or_else(String::new, |parts| self::parts("function", parts))
        + &answer.by_tag.as_ref().map_or_else(String::new, |parts| self::parts("tag", parts))
}

/// What was not compared, by reason.
fn not_compared(answer: &Comparison) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for aspect in &answer.not_compared {
        let name = spoken(aspect.name);
        match reasons.iter_mut().find(|(why, _)| *why == aspect.why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((&aspect.why, vec![name])),
        }
    }
    reasons.iter().map(|(why, names)| hanging("  ", &format!("{}: {why}", names.join(", ")))).collect()
}

/// The name of an aspect, as people write it.
fn spoken(name: &str) -> String {
    name.replace('_', if name == "write_backs" { "-" } else { " " })
}

/// Text behind a title, its further lines below its first.
fn hanging(title: &str, text: &str) -> String {
    let indent = title.chars().count();
    let mut lines = vec![title.to_owned()];
    let mut begun = false;
    // A number stays with its unit.
    for word in text.replace(" %", "\u{a0}%").split(' ') {
        let word = word.replace('\u{a0}', " ");
        let last = lines.last_mut().expect("there is one");
        if begun && last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(" ".repeat(indent) + &word);
        } else {
            last.push_str(if begun { " " } else { "" });
            last.push_str(&word);
        }
        begun = true;
    }
    lines.join("\n") + "\n"
}

/// The two, side by side.
fn subjects(answer: &Comparison) -> String {
    let subjects = [("A", &answer.a), ("B", &answer.b)];
    let mut text = String::new();
    for (name, subject) in subjects {
        let more = match subject.profiles.as_slice() {
            [first, second, rest @ ..] => format!("{first} {second}{}", if rest.is_empty() { "" } else { " ..." }),
            files => files.join(" "),
        };
        let processes = plural(subject.processes as u64, "process", "processes");
        let threads = counted(subject.threads, "thread");
        let sampled = if subject.sampled { ", estimated from a sample" } else { "" };
        text += &format!(
            "{name}  {}: {}, {processes}, {threads}{sampled}\n",
            printable(&more),
            printable(&subject.executables.join(", "))
        );
    }
    let line = |name: &str, of: &dyn Fn(&Subject) -> String| vec![name.to_owned(), of(&answer.a), of(&answer.b)];
    let rows = vec![
        line("references", &|subject| number(subject.references)),
        line("  first to their line, or lost", &|subject| percent(Some(subject.first_references))),
        line("footprint, mean of the caches", &|subject| size::human(subject.footprint_bytes)),
        line("working set, at most", &|subject| size::human(subject.working_set_bytes)),
    ];
    text + &table(["", "A", "B"].map(str::to_owned).to_vec(), rows)
}

fn differ_most(answer: &Comparison) -> String {
    let mut text = String::new();
    let DifferMost { matched, same_cache } = &answer.differ_most;
    let differ = |alike: f64| alike < 0.9995;
    if let Some(point) = matched.as_ref().filter(|point| differ(point.alike)) {
        let says = format!(
            "{} for A and {} for B: {} of the re-references miss in A, {} in B",
            size::human(point.a_bytes),
            size::human(point.b_bytes),
            percent(Some(point.a_miss_ratio)),
            percent(Some(point.b_miss_ratio))
        );
        text += &hanging("  matched caches  ", &says);
    }
    if let Some(cache) = same_cache.as_ref().filter(|cache| differ(cache.alike)) {
        let ways = if cache.full { "full".to_owned() } else { cache.ways.to_string() };
        let whose = match (&cache.machine, &cache.level) {
            (Some(machine), Some(level)) => format!(", {level} of {machine}"),
            _ => String::new(),
        };
        let says = format!(
            "{}:{ways}{whose}: {} of all references miss in A, {} in B",
            size::format(cache.size_bytes),
            percent(Some(cache.a_miss_ratio)),
            percent(Some(cache.b_miss_ratio))
        );
        text += &hanging("  the same cache  ", &says);
    }
    if text.is_empty() {
        "\nThey differ with no cache\n".to_owned()
    } else {
        format!("\nThey differ most with\n{text}")
    }
}

fn levels(answer: &Comparison) -> String {
    if let Some(error) = &answer.levels_error {
        return format!("\nNo figures of a hierarchy: {error}\n");
    }
    if answer.levels.is_empty() {
        return String::new();
    }
    let per_flop = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.3}"));
    let line = |level: &LevelPair| {
        let stands = level.a_matched_bytes.map_or_else(|| "-".to_owned(), size::format);
        vec![
            level.name.clone(),
            size::format(level.size_bytes),
            percent(level.a.miss_ratio),
            percent(level.b.miss_ratio),
            per_flop(level.a.bytes_per_flop),
            per_flop(level.b.bytes_per_flop),
            stands,
        ]
    };
    let header = ["", "size", "A misses", "B misses", "A bytes/flop", "B bytes/flop", "match in A"];
    let title = answer.machine.as_deref().unwrap_or("the hierarchy asked for");
    let rows = answer.levels.iter().map(line).collect();
    format!("\nThe same caches for both: {title}\n{}", table(header.map(str::to_owned).to_vec(), rows))
}

fn parts(what: &str, parts: &Parts) -> String {
    let line = |part: &Part| {
        let name = if part.name.is_empty() { "(none)" } else { &part.name };
        let alike = part.alike.map_or_else(|| "-".to_owned(), |alike| format!("{alike:.2}"));
        vec![shortened(&whole(name)), percent(part.a_share), percent(part.b_share), alike]
    };
    let header = [what, "of A", "of B", "miss ratios alike"].map(str::to_owned).to_vec();
    let rows = parts.parts.iter().take(MOST_PARTS).map(line).collect();
    let more = parts.parts.len().saturating_sub(MOST_PARTS);
    let rest = if more > 0 { format!("and {more} more\n") } else { String::new() };
    format!(
        "\nBy {what}, {}: {} of A and {} of B have a counterpart\n{}{rest}",
        parts.of,
        percent(Some(parts.a_matched)),
        percent(Some(parts.b_matched)),
        table(header, rows)
    )
}

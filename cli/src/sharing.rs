//! `bf sharing`: which lines threads take from each other, whose they are and which code does it.

use crate::{
    args::{Format, SharingArguments},
    failure::Failure,
    input,
    output::{counted, files, number, print_any, row, shortened, table},
};
use bf_postproc::shared_lines::{Answer, Base, Finding, Object, Place, Question, Thread, shared_lines};
use serde_json::Value;
use std::collections::BTreeMap;

/// Findings that are printed if the user does not say how many.
const TOP: usize = 10;
/// Threads, ranges of bytes and places of each that the text shows; the JSON has them all.
const MOST_THREADS: usize = 16;
const MOST_RANGES: usize = 3;
const MOST_PLACES: usize = 3;

/// Says who shares what in every profile.
pub fn command(arguments: &SharingArguments) -> Result<(), Failure> {
    let text_top = (arguments.output.format == Format::Text).then_some(TOP);
    let question =
        Question { line_bytes: arguments.line, kind: arguments.kind.map(Into::into), top: arguments.top.or(text_top) };
    let mut answers = Vec::new();
    for loaded in input::load(&arguments.input)? {
        let answer = shared_lines(&loaded.profile, &question);
        let mut answer = answer.map_err(|reason| Failure::Failed(format!("{}: {reason}", loaded.title())))?;
        answer.profiles = loaded.names();
        answers.push(answer);
    }
    let none = thread_row(&FRONT.map(|name| (name, Value::Null)), &Thread::default()).unwrap_or_default();
    print_any(arguments.output.format, &answers, arguments.input.each, text, rows, none)
}

/// What a row has in front of what its thread did.
const FRONT: [&str; 8] = ["profiles", "finding", "pid", "kind", "object", "offset", "address", "lines"];

/// A row for each thread of a finding.
fn rows(answer: &Answer) -> Vec<Value> {
    let mut rows = Vec::new();
    for (number, finding) in answer.findings.iter().enumerate() {
        let object = finding.object.as_ref();
        let front = [
            Value::from(answer.profiles.join(" ")),
            Value::from(number + 1),
            Value::from(finding.pid),
            serde_json::to_value(finding.kind).unwrap_or_default(),
            object.map_or(Value::Null, |object| object.name.clone().into()),
            finding.offset.into(),
            finding.address.into(),
            finding.lines.into(),
        ];
        let front: Vec<_> = FRONT.into_iter().zip(front).collect();
        rows.extend(finding.threads.iter().filter_map(|thread| thread_row(&front, thread)));
    }
    rows
}

fn thread_row(front: &[(&str, Value)], thread: &Thread) -> Option<Value> {
    let mut row = row(front, thread).ok()?;
    let fields = row.as_object_mut()?;
    fields.insert("loaded".into(), ranges(&thread.loaded, usize::MAX).into());
    fields.insert("stored".into(), ranges(&thread.stored, usize::MAX).into());
    fields.insert("places".into(), places(thread, usize::MAX).join(", ").into());
    Some(row)
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}\n{}\n", files(&answer.profiles), summary(answer));
    let several = answer.findings.iter().any(|finding| finding.pid != answer.findings[0].pid);
    let mut subjects: BTreeMap<String, u32> = BTreeMap::new();
    answer.findings.iter().for_each(|finding| *subjects.entry(subject(finding)).or_default() += 1);
    for (number, finding) in (1..).zip(&answer.findings) {
        let with_code = subjects[&subject(finding)] > 1;
        text += &format!("\n{number}. {}", self::finding(finding, answer.line_bytes, several, with_code));
    }
    let more = answer.findings_total - answer.findings.len() as u64;
    if more > 0 {
        text += &format!("\n{} with fewer misses: --top {}\n", counted(more, "finding"), answer.findings_total);
    }
    for (at, note) in answer.notes.iter().enumerate() {
        text += if at == 0 { "\n" } else { "" };
        text += &format!("Note: {note}.\n");
    }
    text
}

/// How many lines, and what was left out.
fn summary(answer: &Answer) -> String {
    let lines = |count| format!("{} of {} bytes", counted(count, "line"), answer.line_bytes);
    let mut text = match (answer.lines_shared, answer.lines_tracked) {
        (_, 0) => "No line was used by two threads.".to_owned(),
        (0, tracked) => {
            format!("{} used by several threads, none stored by one while another used it.", lines(tracked))
        }
        (shared, tracked) => format!(
            "{} used by several threads, {} of them stored by one while another used them.",
            lines(tracked),
            number(shared)
        ),
    };
    if answer.dropped_lines > 0 {
        text += &format!(
            "\nNo more than {} were followed; {} with {} were given up.",
            counted(answer.lines_at_most, "line"),
            number(answer.dropped_lines),
            accesses(answer.dropped_accesses)
        );
    }
    text
}

/// One finding: what, how bad, who, and the mend.
fn finding(finding: &Finding, line_bytes: u32, with_pid: bool, with_code: bool) -> String {
    let mut text = subject(finding);
    if with_code {
        let code = finding.stored_by.iter().flat_map(|place| place_names([place].into_iter()));
        text += &code.map(|code| format!(", stored by {code}")).collect::<String>();
    }
    text += &format!(": {}", finding.kind);
    if with_pid {
        text += &format!(", process {}", finding.pid);
    }
    let Finding { lines, address, last, .. } = *finding;
    let adjacent = last - address == (lines - 1) * u64::from(line_bytes);
    text += &format!(
        "\n   {} of {line_bytes} bytes {}; {}: {} by true, {} by false sharing\n",
        counted(lines, "line"),
        match (lines, adjacent) {
            (1, _) => format!("at {address:#x}"),
            (_, true) => format!("from {address:#x} on"),
            _ => format!("between {address:#x} and {last:#x}"),
        },
        misses(finding.misses),
        number(finding.true_misses),
        number(finding.false_misses)
    );
    let mut worst: Vec<&Thread> = finding.threads.iter().collect();
    let rank = |thread: &&Thread| {
        let misses = thread.true_misses + thread.false_misses;
        std::cmp::Reverse((misses, thread.stores, thread.loads))
    };
    worst.sort_by_key(rank);
    worst.truncate(MOST_THREADS);
    worst.sort_by_key(|thread| thread.thread);
    let bytes = match finding.ranges_in {
        Base::Object => "bytes of it",
        Base::Line => "bytes of the line",
    };
    let header = ["", "loads", "stores", "misses", bytes, "code"].map(str::to_owned);
    let mut rows: Vec<[String; 6]> = [header].into_iter().chain(worst.iter().map(|thread| cells(thread))).collect();
    // Words stand left in columns that the table would put right.
    for column in 4..6 {
        let lines = rows.iter().flat_map(|row| row[column].lines());
        let width = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        let left = |cell: &str| cell.lines().map(|line| format!("{line:<width$}")).collect::<Vec<_>>().join("\n");
        rows.iter_mut().for_each(|row| row[column] = left(&row[column]));
    }
    let mut rows = rows.into_iter().map(|row| row.to_vec());
    let header = rows.next().unwrap_or_default();
    text += &indented(&table(header, rows.collect()));
    if finding.threads.len() > worst.len() {
        let more = (finding.threads.len() - worst.len()) as u64;
        text += &format!("   and {}\n", counted(more, "more thread"));
    }
    if let Some(advice) = &finding.advice {
        text += &format!("   Mend: {advice}.\n");
    }
    text
}

fn accesses(count: u64) -> String {
    format!("{} {}", number(count), if count == 1 { "access" } else { "accesses" })
}

fn misses(count: u64) -> String {
    format!("{} coherence {}", number(count), if count == 1 { "miss" } else { "misses" })
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   {line}\n")).collect()
}

/// What lies in the lines, for people.
fn subject(finding: &Finding) -> String {
    let Some(object) = &finding.object else { return format!("unnamed memory at {:#x}", finding.address) };
    let Object { count, bytes, .. } = *object;
    let name = shortened(&object.name);
    let from = match finding.offset {
        Some(offset) if offset != 0 => format!("{offset:+}"),
        _ => String::new(),
    };
    match (object.kind, count.zip(bytes), name.as_str()) {
        ("heap", None, name) => format!("heap blocks from {name}"),
        ("heap", Some((count @ 2.., _)), name) => format!("{} heap blocks from {name}", number(count)),
        ("heap", Some((_, bytes)), "") => format!("heap block{from} of {bytes} bytes"),
        ("heap", Some((_, bytes)), name) => format!("heap block{from} of {bytes} bytes from {name}"),
        (_, _, name) => format!("{name}{from}"),
    }
}

/// The row of a thread.
fn cells(thread: &Thread) -> [String; 6] {
    let bytes = if thread.loads + thread.stores == 0 {
        "stored before others used it".to_owned()
    } else if thread.stored == thread.loaded || thread.loaded.is_empty() {
        ranges(&thread.stored, MOST_RANGES)
    } else if thread.stored.is_empty() {
        format!("loads {}", ranges(&thread.loaded, MOST_RANGES))
    } else {
        format!("stores {}, loads {}", ranges(&thread.stored, MOST_RANGES), ranges(&thread.loaded, MOST_RANGES))
    };
    [
        format!("thread {}", thread.thread),
        number(thread.loads),
        number(thread.stores),
        number(thread.true_misses + thread.false_misses),
        bytes,
        places(thread, MOST_PLACES).join("\n"),
    ]
}

/// Ranges of bytes, so many of them.
fn ranges(all: &[[i64; 2]], most: usize) -> String {
    let range = |&[first, last]: &[i64; 2]| if first == last { format!("{first}") } else { format!("{first}..{last}") };
    let mut words: Vec<String> = all.iter().take(most).map(range).collect();
    if all.len() > most {
        words.push(format!("… {}", all[all.len() - 1][1]));
    }
    words.join(" ")
}

/// The first places of a thread.
fn places(thread: &Thread, most: usize) -> Vec<String> {
    let mut words = place_names(thread.places.iter().take(most));
    let more = thread.places.len().saturating_sub(most);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words
}

/// Places for people; those of one function share its name. What has none beside others that have one is the rest.
fn place_names<'a>(places: impl Iterator<Item = &'a Place>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<&Place> = None;
    for place in places {
        let same = before.is_some_and(|before| before.function == place.function && before.file == place.file);
        let unnamed = if words.is_empty() { "unknown" } else { "other code" };
        let function = shortened(place.function.as_deref().unwrap_or(unnamed));
        match (&place.file, place.line, words.last_mut()) {
            (Some(_), Some(line), Some(last)) if same && last.ends_with(')') => {
                last.insert_str(last.len() - 1, &format!(" {line}"));
            }
            (Some(file), Some(line), _) => {
                words.push(format!("{function} ({}:{line})", file.rsplit('/').next().unwrap_or(file)));
            }
            _ => words.push(function),
        }
        before = Some(place);
    }
    words
}

//! The callgrind format, version 1, as Valgrind's manual gives it ("Callgrind Format Specification"): for
//! `callgrind_annotate` and KCachegrind.

use super::{Facts, forest::counted};
use bf_postproc::{
    attribution::Key,
    paths::Tree,
    table::{Row, Table},
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Source file and name of a function.
type Name<'a> = (&'a str, &'a str);

/// What a function costs.
#[derive(Debug, Default)]
struct Function<'a> {
    /// Its own costs by file and line.
    lines: BTreeMap<(&'a str, u32), Vec<u64>>,
    /// Line that it begins on.
    line: u32,
    /// By function that it calls, with the line that one begins on: how often, and what that costs with all it calls.
    calls: BTreeMap<(Name<'a>, u32), (u64, Vec<u64>)>,
}

impl<'a> Function<'a> {
    fn add(&mut self, file: &'a str, line: u32, counts: &[u64]) {
        add(self.lines.entry((file, line)).or_default(), counts);
    }
}

fn add(sum: &mut Vec<u64>, counts: &[u64]) {
    sum.resize(sum.len().max(counts.len()), 0);
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// Writes a table. It knows no calls, so costs are those of functions themselves.
pub fn write(facts: &Facts, table: &Table, to: &mut dyn Write) -> io::Result<()> {
    let mut functions: BTreeMap<Name<'_>, Function<'_>> = BTreeMap::new();
    for (row, counts) in &table.rows {
        let Row { function, function_file, file, line, .. } = row;
        let of = functions.entry((function_file, function)).or_default();
        of.add(if file.is_empty() { function_file } else { file }, *line, counts);
    }
    write_all(facts, (&table.figures, &table.totals), &functions, to)
}

/// Writes call paths: functions, and who calls whom. A function is on a path at most once, so that the costs of its own
/// and of its calls are, path by path, those of the function with all it calls.
pub fn write_tree(facts: &Facts, tree: &Tree, to: &mut dyn Write) -> io::Result<()> {
    let mut functions: BTreeMap<Name<'_>, Function<'_>> = BTreeMap::new();
    for path in &tree.paths {
        let Key { name, file, line, .. } = &path.function;
        let of = functions.entry((file, name)).or_default();
        of.line = *line;
        of.add(file, *line, &counted(tree, path));
        for (frames, counts) in &path.places {
            match frames.first() {
                Some(place) if !place.file.is_empty() => of.add(&place.file, place.line, counts),
                place => of.add(file, place.map_or(0, |place| place.line), counts),
            }
        }
        if let Some(parent) = path.parent {
            let Key { name: caller, file: its_file, .. } = &tree.paths[parent].function;
            let calls = &mut functions.entry((its_file, caller)).or_default().calls;
            let (calls, costs) = calls.entry(((file, name), *line)).or_default();
            *calls += tree.figure(&path.own, "entries");
            add(costs, &path.all);
        }
    }
    write_all(facts, (&tree.figures, &tree.totals), &functions, to)
}

fn write_all(
    facts: &Facts,
    (figures, totals): (&[String], &[u64]),
    functions: &BTreeMap<Name<'_>, Function<'_>>,
    to: &mut dyn Write,
) -> io::Result<()> {
    writeln!(to, "# callgrind format\nversion: 1\ncreator: bf {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(to, "cmd: {}", one_line(&facts.command))?;
    if let Some(machine) = &facts.machine {
        writeln!(to, "desc: Caches: {}", one_line(machine))?;
    }
    if !facts.tags.is_empty() {
        writeln!(to, "desc: Tags: {}", one_line(&facts.tags.join(", ")))?;
    }
    // Names of events hold letters and digits, and for some readers nothing else but underscores.
    let event = |name: &String| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let events: Vec<_> = figures.iter().map(event).collect();
    writeln!(to, "positions: line\nevents: {}\nsummary: {}", events.join(" "), costs(totals))?;
    for ((file, name), function) in functions {
        writeln!(to, "\nfl={}\nfn={}", named(file), named(name))?;
        let mut current = *file;
        for ((of, line), counts) in &function.lines {
            if of != &current {
                writeln!(to, "{}={}", if of == file { "fe" } else { "fi" }, named(of))?;
                current = of;
            }
            writeln!(to, "{line} {}", costs(counts))?;
        }
        if current != *file && !function.calls.is_empty() {
            writeln!(to, "fe={}", named(file))?;
        }
        for (((callee_file, callee), callee_line), (calls, counts)) in &function.calls {
            if callee_file != file {
                writeln!(to, "cfi={}", named(callee_file))?;
            }
            writeln!(to, "cfn={}", named(callee))?;
            // Where the call stands is not known.
            writeln!(to, "calls={calls} {callee_line}\n{} {}", function.line, costs(counts))?;
        }
    }
    writeln!(to, "\ntotals: {}", costs(totals))
}

fn costs(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A name; the format's own for one that is not known.
fn named(name: &str) -> String {
    if name.is_empty() { "???".to_owned() } else { one_line(name) }
}

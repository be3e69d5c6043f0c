//! The callgrind format, version 1, as Valgrind's manual gives it ("Callgrind Format Specification"): for
//! `callgrind_annotate` and KCachegrind. Costs are those of functions themselves: profiles know no calls.

use super::Facts;
use bf_postproc::table::{Row, Table};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Costs of a function by file and line.
type Lines<'a> = BTreeMap<(&'a str, u32), Vec<u64>>;

/// Writes the table.
pub fn write(facts: &Facts, table: &Table, to: &mut dyn Write) -> io::Result<()> {
    let mut functions: BTreeMap<(&str, &str), Lines<'_>> = BTreeMap::new();
    for (row, counts) in &table.rows {
        let Row { function, function_file, file, line, .. } = row;
        let lines = functions.entry((function_file, function)).or_default();
        let file = if file.is_empty() { function_file } else { file };
        let sum = lines.entry((file, *line)).or_insert_with(|| vec![0; counts.len()]);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    writeln!(to, "# callgrind format\nversion: 1\ncreator: bf {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(to, "cmd: {}", one_line(&facts.command))?;
    if let Some(machine) = &facts.machine {
        writeln!(to, "desc: Caches: {}", one_line(machine))?;
    }
    // Names of events hold letters and digits, and for some readers nothing else but underscores.
    let event = |name: &String| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let events: Vec<_> = table.figures.iter().map(event).collect();
    writeln!(to, "positions: line\nevents: {}\nsummary: {}", events.join(" "), costs(&table.totals))?;
    for ((file, name), lines) in &functions {
        writeln!(to, "\nfl={}\nfn={}", named(file), named(name))?;
        let mut current = *file;
        for ((of, line), counts) in lines {
            if of != &current {
                writeln!(to, "{}={}", if of == file { "fe" } else { "fi" }, named(of))?;
                current = of;
            }
            writeln!(to, "{line} {}", costs(counts))?;
        }
    }
    writeln!(to, "\ntotals: {}", costs(&table.totals))
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

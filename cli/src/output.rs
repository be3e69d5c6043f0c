//! Numbers, tables, JSON and CSV on their way to stdout.

use crate::{args::Format, failure::Failure, input::is_profile};
use bf_postproc::names;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    fs,
    io::{self, BufWriter, Write},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// Says something on stderr that is no failure.
pub fn remark(text: &str) {
    // stderr may be closed; then nobody wants to know.
    let _ = writeln!(io::stderr(), "bf: {}", printable(text));
}

/// Writes a file: all of it, or what was there stays.
pub fn write_file(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    replace(path, |file| Ok(file.write_all(contents.as_ref())?))
}

/// The same piece by piece, or to stdout if the file is called `-`.
pub fn write_to(path: &Path, work: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    if path != Path::new("-") {
        return replace(path, work);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    work(&mut out)?;
    Ok(out.flush()?)
}

fn replace(path: &Path, work: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    spare_profile(path)?;
    bf_profile::replace(path, |file| work(file)).map_err(|failure| match failure {
        Failure::Write(error) => Failure::file("write", path, error),
        other => other,
    })
}

/// Refuses a file that is a profile.
pub fn spare_profile(path: &Path) -> Result<(), Failure> {
    if path.is_file() && is_profile(path) {
        return Err(Failure::Usage(format!("{} is a profile, which would be lost; name another file", path.display())));
    }
    Ok(())
}

/// Refuses a file that is another one, by whatever name; `what` says what that is.
pub fn spare(path: &Path, other: &Path, what: &str) -> Result<(), Failure> {
    let identity = |path: &Path| fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    if path.is_file() && identity(path) == identity(other) {
        return Err(Failure::Usage(format!("{} is {what}, which would be lost; name another file", path.display())));
    }
    Ok(())
}

/// Fails where a file could not be written, before the work whose outcome it is to hold.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    // A pipe that is opened to no end has ended for its reader.
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(());
    }
    spare_profile(path)?;
    match bf_profile::replace(path, |_| Err(None::<io::Error>)) {
        Err(Some(error)) => Err(Failure::file("write", path, error)),
        Ok(()) | Err(None) => Ok(()),
    }
}

/// Prints an answer in the format asked for: `text` writes the tables, `rows` gives the CSV rows as JSON objects.
pub fn print<A: Serialize>(
    format: Format,
    answers: &[A],
    each: bool,
    text: impl Fn(&A) -> String,
    rows: impl Fn(&A) -> Vec<Value>,
) -> Result<(), Failure> {
    print_any(format, answers, each, text, rows, Value::Null)
}

/// The same of answers that may have no rows; `none` is a row without figures, for the header.
pub fn print_any<A: Serialize>(
    format: Format,
    answers: &[A],
    each: bool,
    text: impl Fn(&A) -> String,
    rows: impl Fn(&A) -> Vec<Value>,
    none: Value,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match format {
        Format::Text => {
            for (index, answer) in answers.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                for line in text(answer).lines() {
                    writeln!(out, "{}", printable(line))?;
                }
            }
        }
        Format::Json => {
            match answers {
                [only] if !each => serde_json::to_writer_pretty(&mut out, only)?,
                all => serde_json::to_writer_pretty(&mut out, all)?,
            }
            writeln!(out)?;
        }
        Format::Csv => csv(&mut out, answers.iter().flat_map(rows).collect(), &none)?,
    }
    Ok(out.flush()?)
}

/// Rows below a header of all that they have, or of what `none` has if there is no row.
fn csv(out: impl Write, mut rows: Vec<Value>, none: &Value) -> Result<(), Failure> {
    let mut all = Value::Null;
    rows.iter().for_each(|row| widen(&mut all, row));
    rows.iter_mut().for_each(|row| widen(row, &all));
    let rows: Vec<Vec<(String, String)>> = rows.iter().map(|row| flatten(row.as_object())).collect();
    let none = if rows.is_empty() { flatten(none.as_object()) } else { Vec::new() };
    let mut header: Vec<&String> = Vec::new();
    for name in rows.iter().flatten().chain(&none).map(|(name, _)| name) {
        if !header.contains(&name) {
            header.push(name);
        }
    }
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(&header)?;
    for row in &rows {
        let cell =
            |name: &&String| row.iter().find(|(other, _)| other == *name).map_or("", |(_, value)| value.as_str());
        writer.write_record(header.iter().map(cell))?;
    }
    Ok(writer.flush()?)
}

/// Gives what is null the keys that it has in another row.
fn widen(value: &mut Value, other: &Value) {
    let Value::Object(other) = other else { return };
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(value) = value else { return };
    for (name, inner) in other {
        widen(value.entry(name.as_str()).or_insert(Value::Null), inner);
    }
}

/// Columns of a row. Intervals become two columns, nested figures one each, lists are joined.
fn flatten(row: Option<&Map<String, Value>>) -> Vec<(String, String)> {
    let mut columns = Vec::new();
    for (name, value) in row.into_iter().flatten() {
        match value {
            Value::Array(both) if name.ends_with("bounds") => {
                for (end, value) in ["lo", "hi"].iter().zip(both) {
                    columns.push((format!("{name}_{end}"), plain(value)));
                }
            }
            Value::Null if name.ends_with("bounds") => {
                columns.extend(["lo", "hi"].map(|end| (format!("{name}_{end}"), String::new())));
            }
            Value::Object(inner) => {
                let inner = flatten(Some(inner)).into_iter();
                columns.extend(inner.map(|(key, value)| (format!("{name}_{key}"), value)));
            }
            _ => columns.push((name.clone(), plain(value))),
        }
    }
    columns
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// A JSON object for [`print`]'s rows, with more columns in front.
pub fn row(front: &[(&str, Value)], rest: &impl Serialize) -> Result<Value, serde_json::Error> {
    let mut object: Map<String, Value> =
        front.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    if let Value::Object(rest) = serde_json::to_value(rest)? {
        object.extend(rest);
    }
    Ok(Value::Object(object))
}

/// Lines above, below the header and at the end; none between rows, so that a hierarchy fits a screen.
const RULES: TableStyle = {
    let line = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(line).header_separator(line).bottom_border(line)
};

/// A table whose first column holds names and whose others hold numbers.
pub fn table(header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(RULES).set_header(header).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { CellAlignment::Right });
    }
    let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// `1234567` as `1,234,567`.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of things, in words: `1 thread`, `4 threads`.
pub fn counted(count: u64, thing: &str) -> String {
    plural(count, thing, &format!("{thing}s"))
}

/// The same of a thing that has more than an `s` when it is many.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A ratio as a percentage with three significant digits; `-` for none.
pub fn percent(ratio: Option<f64>) -> String {
    let Some(percent) = ratio.map(|ratio| ratio * 100.0) else { return "-".to_owned() };
    let decimals = match percent {
        p if p >= 99.95 || p == 0.0 => 0,
        p if p >= 10.0 => 1,
        p if p >= 1.0 => 2,
        p if p >= 0.1 => 3,
        _ => 4,
    };
    format!("{percent:.decimals$} %")
}

/// Text that stays on its line and tells a terminal nothing: control characters as source code has them, but for tabs.
pub fn printable(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, each| {
        match each {
            '\t' => shown.push(each),
            '\n' | '\r' => shown.extend(each.escape_default()),
            each if each.is_control() => shown += &format!("\\x{:02x}", u32::from(each)),
            each => shown.push(each),
        }
        shown
    })
}

/// Names of files, at most, that a heading has.
const FILES: usize = 8;

/// Files in a heading: all of them, or the first and the last of many.
pub fn files(names: &[String]) -> String {
    printable(&match names {
        [first, .., last] if names.len() > FILES => format!("{first} … {last} ({} profiles)", names.len()),
        _ => names.join(" "),
    })
}

/// A file as a word of a command line to type: quoted where a shell would take it apart, and no option.
pub fn word(name: &str) -> String {
    let name = if name.starts_with('-') { format!("./{name}") } else { name.to_owned() };
    // A name of a file cannot hold NUL, the one thing the crate refuses.
    shlex::try_quote(&name).map(Cow::into_owned).unwrap_or_default()
}

/// What a table without intervals says of figures that come from a sample.
pub const ESTIMATES: &str = "Estimates from a sample of the lines: --format json has the intervals.\n";

/// A line that says which references an answer is about, unless it is about all.
pub fn only_tagged(tags: &[String]) -> String {
    match tags {
        [] => String::new(),
        tags => format!("only references tagged {}\n", printable(&tags.join(", "))),
    }
}

/// A name for a table, as [`names::shortened`] has it.
pub fn shortened(name: &str) -> String {
    names::shortened(&printable(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_percentages() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(percent(Some(0.12345)), "12.3 %");
        assert_eq!(percent(Some(1.0)), "100 %");
        assert_eq!(percent(Some(0.0)), "0 %");
        assert_eq!(percent(Some(0.000_012)), "0.0012 %");
        assert_eq!(percent(None), "-");
        assert_eq!(counted(1, "thread") + &counted(2000, "thread"), "1 thread2,000 threads");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("é a\tb\n\r\x1b[31m\u{9b}"), "é a\tb\\n\\r\\x1b[31m\\x9b");
        assert_eq!(shortened("f\n(int)"), "f\\n(int)");
        assert_eq!(only_tagged(&["a\nb", "c"].map(str::to_owned)), "only references tagged a\\nb, c\n");
    }

    #[test]
    fn files_are_words_for_a_shell() {
        for (name, expected) in [("a.7.bfp", "a.7.bfp"), ("my prog.bfp", "'my prog.bfp'"), ("-a.bfp", "./-a.bfp")] {
            assert_eq!(word(name), expected);
        }
        assert_eq!(shlex::split(&word("it's $HOME")).unwrap(), ["it's $HOME"]);
    }

    #[test]
    fn many_files_are_not_all_named() {
        let names: Vec<_> = (0..9).map(|rank| format!("app.{rank}.bfp")).collect();
        assert_eq!(files(&names[..2]), "app.0.bfp app.1.bfp");
        assert_eq!(files(&names), "app.0.bfp … app.8.bfp (9 profiles)");
    }

    #[test]
    fn rows_are_flat() {
        let mut out = Vec::new();
        let rows = vec![
            json!({"name": "L1, near", "bounds": null, "spread": {"misses": null}}),
            json!({"name": "L2", "bounds": [3, 4], "spread": {"misses": {"min": 1}}, "more": true}),
            json!({"name": "L3", "bounds": null, "spread": null}),
        ];
        csv(&mut out, rows, &Value::Null).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "name,bounds_lo,bounds_hi,spread_misses_min,more\n\"L1, near\",,,,\nL2,3,4,1,true\nL3,,,,\n");
    }
}

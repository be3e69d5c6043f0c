//! SQL statements that make a database, as `sqlite3 FILE.db < EXPORT` takes them: `facts` (name, value), `parts` with a row
//! for each place and a column for each figure, and, if that was recorded, `functions` with the bytes that each touched.

use super::{Facts, objects};
use bf_postproc::table::Table;
use serde_json::Value;
use std::io::{self, Write};

/// Writes the statements.
pub fn write(facts: &Facts, table: &Table, functions: Vec<Value>, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "BEGIN;\nCREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);")?;
    let profiles = facts.profiles.join(" ");
    let machine = facts.machine.as_deref().unwrap_or_default();
    let tags = facts.tags.join(", ");
    let all = [("schema", facts.schema), ("profiles", &profiles), ("machine", machine), ("tags", &tags)];
    for (name, value) in all.into_iter().chain([("command", facts.command.as_str())]) {
        writeln!(to, "INSERT INTO facts VALUES ({}, {});", literal(name), literal(value))?;
    }
    rows("parts", objects(table), to)?;
    rows("functions", functions.into_iter(), to)?;
    writeln!(to, "COMMIT;")
}

/// A table with a row for each object, all of which have the keys of the first; none if there is no object.
fn rows(table: &str, objects: impl Iterator<Item = Value>, to: &mut dyn Write) -> io::Result<()> {
    for (at, object) in objects.enumerate() {
        let Value::Object(object) = object else { continue };
        if at == 0 {
            let column = |(name, value): (&String, &Value)| {
                let kind = if value.is_string() { "TEXT" } else { "INTEGER" };
                format!("\"{}\" {kind} NOT NULL", name.replace('"', "\"\""))
            };
            writeln!(to, "CREATE TABLE {table} ({});", object.iter().map(column).collect::<Vec<_>>().join(", "))?;
        }
        let cells: Vec<_> = object.values().map(cell).collect();
        writeln!(to, "INSERT INTO {table} VALUES ({});", cells.join(", "))?;
    }
    Ok(())
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => literal(text),
        Value::Bool(yes) => u8::from(*yes).to_string(),
        other => other.to_string(),
    }
}

fn literal(text: &str) -> String {
    // A NUL would end the statement.
    format!("'{}'", text.replace('\'', "''").replace('\0', ""))
}

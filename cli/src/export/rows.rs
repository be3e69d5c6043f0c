//! Rows and columns of the tables for scale-out. Names that SQL reserves (`references`, `end`) are not used.

use crate::{
    columns::{
        Cell, Column,
        Kind::{self, Integer, Text, Truth},
    },
    failure::Failure,
};
use bf_postproc::{
    LevelAnswer,
    attribution::{Attribution, By},
    patterns::ByFunction,
};
use bf_profile::{EndReason, Owner, Process, StackData};

/// Which process a row is about: what the tables are joined by.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    /// The file.
    pub profile: &'a str,
    /// Number within the file.
    pub process: u64,
}

fn columns(rest: &[(&str, Kind)]) -> Vec<Column> {
    let key = [("profile", Text), ("process", Integer)];
    key.iter().chain(rest).map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
}

/// Of `processes`.
pub fn process_columns() -> Vec<Column> {
    columns(&[
        ("rank", Integer),
        ("host", Text),
        ("pid", Integer),
        ("parent", Integer),
        ("executable", Text),
        ("command", Text),
        ("version", Text),
        ("cpu", Text),
        ("start_ns", Integer),
        ("elapsed_ns", Integer),
        ("ended", Text),
        ("signal", Integer),
        ("threads", Integer),
        ("accesses", Integer),
        ("dropped", Integer),
        ("calls_not_seen", Integer),
    ])
}

/// Of `levels`.
pub fn level_columns() -> Vec<Column> {
    columns(&[
        ("level", Text),
        ("position", Integer),
        ("size_bytes", Integer),
        ("line_bytes", Integer),
        ("sets", Integer),
        ("ways", Integer),
        ("scope", Text),
        ("model", Text),
        ("exact", Truth),
        ("clamped", Truth),
        ("accesses", Integer),
        ("hits", Integer),
        ("misses", Integer),
        ("load_misses", Integer),
        ("store_misses", Integer),
        ("cold", Integer),
        ("capacity", Integer),
        ("conflict", Integer),
        ("coherence", Integer),
        ("invalidations", Integer),
        ("remote", Integer),
        ("dirty_transfers", Integer),
        ("memory_accesses", Integer),
        ("writebacks", Integer),
        ("resident_dirty", Integer),
        ("traffic_bytes", Integer),
    ])
}

/// Of `histograms`.
pub fn histogram_columns() -> Vec<Column> {
    columns(&[
        ("line_bytes", Integer),
        ("slot", Integer),
        ("tag", Text),
        ("sets", Integer),
        ("figure", Text),
        ("distance", Integer),
        ("distance_below", Integer),
        ("counted", Integer),
        ("cause", Text),
    ])
}

/// Of `functions`.
pub fn function_columns() -> Vec<Column> {
    columns(&[
        ("function_name", Text),
        ("linkage_name", Text),
        ("file", Text),
        ("line", Integer),
        ("level", Text),
        ("load_references", Integer),
        ("store_references", Integer),
        ("load_misses", Integer),
        ("store_misses", Integer),
        ("writebacks", Integer),
        ("unique_bytes", Integer),
    ])
}

impl Key<'_> {
    fn row(&self, rest: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
        [self.profile.into(), self.process.into()].into_iter().chain(rest).collect()
    }

    /// The row of a process.
    pub fn process_row(&self, process: &Process) -> Vec<Cell> {
        let meta = &process.meta;
        let (ended, signal) = match meta.end {
            EndReason::Exit => ("exit", None),
            EndReason::QuickExit => ("quick_exit", None),
            EndReason::Signal(signal) => ("signal", Some(signal)),
            EndReason::Exec => ("exec", None),
            EndReason::Checkpoint => ("checkpoint", None),
            EndReason::Replay => ("replay", None),
        };
        self.row([
            meta.rank.into(),
            meta.host.as_str().into(),
            meta.pid.into(),
            meta.parent.into(),
            meta.executable.as_str().into(),
            meta.command.join(" ").as_str().into(),
            meta.version.as_str().into(),
            process.machine.cpu.as_str().into(),
            meta.start_ns.into(),
            meta.elapsed_ns.into(),
            ended.into(),
            signal.map_or(Cell::Null, |signal| Cell::Integer(signal.into())),
            meta.threads.into(),
            meta.accesses.into(),
            meta.dropped.into(),
            process.uninstrumented.iter().map(|callee| callee.calls).sum::<u64>().into(),
        ])
    }

    /// The row of a level, `position` 0 for the nearest.
    pub fn level_row(&self, position: usize, level: &LevelAnswer) -> Vec<Cell> {
        self.row([
            level.name.as_str().into(),
            (position as u64 + 1).into(),
            level.size_bytes.into(),
            level.line_bytes.into(),
            level.sets.into(),
            level.ways.into(),
            level.scope.to_string().as_str().into(),
            level.model.name().into(),
            Cell::Truth(level.exact),
            Cell::Truth(level.clamped),
            level.references.into(),
            level.hits.into(),
            level.misses.into(),
            level.load_misses.into(),
            level.store_misses.into(),
            level.cold.into(),
            level.capacity.into(),
            level.conflict.into(),
            level.coherence.into(),
            level.invalidations_received.into(),
            level.remote.into(),
            level.dirty_transfers.into(),
            level.memory_accesses.into(),
            level.writebacks.into(),
            level.resident_dirty.into(),
            level.traffic_bytes.into(),
        ])
    }

    /// The rows of all histograms of a process that was recorded whole. References that miss in every cache have a cause
    /// instead of a distance, and those from the greatest distance on that is kept have no upper end.
    pub fn histogram_rows(
        &self,
        process: &Process,
        mut take: impl FnMut(Vec<Cell>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for data in &process.lines {
            for StackData { owner, tag, histograms } in &data.stacks {
                let slot = match owner {
                    Owner::Slot(slot) => Some(*slot),
                    Owner::Global => None,
                };
                let tag = process.tags.get(*tag as usize).map_or("", String::as_str);
                let mut put = |sets: u64, figure: &str, at: At, count: u64| {
                    if count == 0 {
                        return Ok(());
                    }
                    let (from, to, cause) = match at {
                        At::Distance(from, to) => (Some(from), to, None),
                        At::Everywhere(cause) => (None, None, Some(cause)),
                    };
                    let front = [data.line_bytes.into(), slot.into(), tag.into(), sets.into(), figure.into()];
                    take(self.row(front.into_iter().chain([from.into(), to.into(), count.into(), cause.into()])))
                };
                let everywhere = [("cold", histograms.cold), ("invalidated", histograms.lost())];
                for bits in 0..=histograms.sets.len() {
                    for (cause, counts) in everywhere {
                        for (figure, count) in FIGURES.iter().zip(counts) {
                            put(1 << bits, figure, At::Everywhere(cause), count)?;
                        }
                    }
                }
                let full = &histograms.full;
                let all = [&full.loads, &full.stores, &full.writebacks, &full.resident];
                for (figure, bins) in FIGURES.iter().zip(all) {
                    bins.iter().try_for_each(|bin| put(1, figure, At::Distance(bin.lo, Some(bin.hi)), bin.count))?;
                }
                for (bits, sets) in (1_u32..).zip(&histograms.sets) {
                    let all = [&sets.loads, &sets.stores, &sets.writebacks, &sets.resident];
                    for (figure, counts) in FIGURES.iter().zip(all) {
                        for (distance, &count) in (0_u64..).zip(counts) {
                            let below = (distance < u64::from(data.max_ways)).then_some(distance + 1);
                            put(1 << bits, figure, At::Distance(distance, below), count)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of all functions, one for each level; `bytes` is what they touched, if that is known.
    pub fn function_rows(
        &self,
        parts: &Attribution<'_>,
        bytes: Option<&ByFunction>,
        mut take: impl FnMut(Vec<Cell>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (key, figures) in parts.by(By::Function) {
            let unique = bytes.map(|bytes| bytes.functions.get(&key).map_or(0, |footprint| footprint.bytes));
            for (level, counts) in parts.answer.levels.iter().zip(&figures.levels) {
                take(self.row([
                    key.name.as_str().into(),
                    key.linkage_name.as_str().into(),
                    key.file.as_str().into(),
                    key.line.into(),
                    level.name.as_str().into(),
                    figures.references[0].into(),
                    figures.references[1].into(),
                    counts.misses[0].into(),
                    counts.misses[1].into(),
                    level.writebacks.map(|_| counts.writebacks).into(),
                    unique.into(),
                ]))?;
            }
        }
        Ok(())
    }
}

/// Histograms by name, in the order of their fields.
const FIGURES: [&str; 4] = ["loads", "stores", "writebacks", "resident"];

/// Where in a histogram a count stands.
enum At {
    /// From a distance on, and below another unless all longer ones are with it.
    Distance(u64, Option<u64>),
    /// A miss in every cache, for this cause.
    Everywhere(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_postproc::{
        Query, query,
        replay::{Options, replay},
    };

    #[test]
    fn rows_have_all_references_to_any_number_of_sets() {
        let access =
            |i: u64| format!("[{},{},8,\"{}\"]", i % 2, i * i % 31 * 64, if i.is_multiple_of(5) { "w" } else { "r" });
        let trace = (0..999).map(access).collect::<Vec<_>>().join(",");
        let trace = format!("{{\"threads\":2,\"trace\":[{trace}]}}");
        let profile = replay(trace.as_bytes(), "t", 0, &Options::default()).unwrap().profile;
        let mut rows = Vec::new();
        let key = Key { profile: "t.bfp", process: 0 };
        let take = |row| {
            rows.push(row);
            Ok(())
        };
        key.histogram_rows(&profile.processes[0], take).unwrap();
        let names: Vec<String> = histogram_columns().into_iter().map(|(name, _)| name).collect();
        let cell = |row: &[Cell], name| row[names.iter().position(|other| other == name).unwrap()].clone();
        for (sets, ways, cache) in [(1_u32, 16, "A=1K:full"), (4, 2, "A=512:2"), (8, 3, "A=1536:3")] {
            let asked = Query { levels: vec![cache.parse().unwrap()], ..Query::default() };
            let level = query(&profile, &asked).unwrap().levels.remove(0);
            let sum = |wanted: &dyn Fn(&[Cell]) -> bool| -> u64 {
                let here = rows.iter().filter(|row| {
                    let figure = cell(row, "figure");
                    cell(row, "sets") == sets.into()
                        && cell(row, "slot") != Cell::Null
                        && ["loads", "stores"].iter().any(|&name| figure == name.into())
                });
                let counted = here.filter(|row| wanted(row)).map(|row| cell(row, "counted").to_string());
                counted.map(|count| count.parse::<u64>().unwrap()).sum()
            };
            let misses = |row: &[Cell]| match cell(row, "distance") {
                Cell::Integer(distance) => distance >= ways,
                _ => true,
            };
            assert_eq!((sum(&|_| true), sum(&misses)), (level.references, level.misses), "{cache}");
            assert_eq!(sum(&|row| cell(row, "cause") == "cold".into()), level.cold);
            assert!(sum(&|row| cell(row, "cause") == "invalidated".into()) > 0);
        }
    }
}

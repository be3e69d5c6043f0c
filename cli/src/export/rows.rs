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

    /// The rows of all histograms of a process that was recorded whole. Cold references have no distance, and those from
    /// the greatest distance on that is kept have no upper end.
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
                let mut put = |sets: u64, figure: &str, from: Option<u64>, to: Option<u64>, count: u64| {
                    if count == 0 {
                        return Ok(());
                    }
                    let front = [data.line_bytes.into(), slot.into(), tag.into(), sets.into(), figure.into()];
                    take(self.row(front.into_iter().chain([from.into(), to.into(), count.into()])))
                };
                put(1, "loads", None, None, histograms.cold[0])?;
                put(1, "stores", None, None, histograms.cold[1])?;
                let full = &histograms.full;
                let all = [&full.loads, &full.stores, &full.writebacks, &full.resident];
                for (figure, bins) in FIGURES.iter().zip(all) {
                    bins.iter().try_for_each(|bin| put(1, figure, Some(bin.lo), Some(bin.hi), bin.count))?;
                }
                for (bits, sets) in (1_u32..).zip(&histograms.sets) {
                    let all = [&sets.loads, &sets.stores, &sets.writebacks, &sets.resident];
                    for (figure, counts) in FIGURES.iter().zip(all) {
                        for (distance, &count) in (0_u64..).zip(counts) {
                            let below = (distance < u64::from(data.max_ways)).then_some(distance + 1);
                            put(1 << bits, figure, Some(distance), below, count)?;
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

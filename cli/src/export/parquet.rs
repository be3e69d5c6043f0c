//! Profiles of many processes as Parquet tables, for engines that ask thousands of ranks at once. `docs/scale-out.md` has
//! the columns. One profile is in memory at a time.

use super::rows;
use crate::{
    args::ExportArguments,
    columns::Table,
    failure::Failure,
    input::{self, Loaded},
    output::{counted, remark},
    query,
};
use bf_postproc::{Cache, Query, QueryError, patterns};
use bf_profile::Profile;
use std::{fs, path::Path};

/// Schema of all tables.
const SCHEMA: &str = "bf.tables/1";

/// Writes the tables of all profiles: one file each, `OUTPUT/TABLE/PART.parquet`.
pub fn command(arguments: &ExportArguments) -> Result<(), Failure> {
    let part = arguments.part.as_deref().unwrap_or("part");
    if part.is_empty() || part.contains('/') {
        return Err(Failure::Usage(format!("`{part}` is no name for a part; it becomes the file's name")));
    }
    let paths = input::expand(&arguments.input.profiles)?;
    let paths = if paths.is_empty() { vec![input::newest()?] } else { paths };
    let mut tables = Tables::new(&arguments.output, part)?;
    let mut levels: Option<Vec<Cache>> = None;
    let mut left_out = 0;
    for path in &paths {
        let profile = match input::read(path, arguments.input.salvage) {
            Ok(profile) => profile,
            Err(failure) if arguments.keep_going => {
                remark(&format!("left out: {failure}"));
                left_out += 1;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let loaded = Loaded { paths: vec![path.clone()], profile };
        // All are asked about one hierarchy, so that they can be compared: that of the first, if none is given.
        let levels = match &levels {
            Some(levels) => levels,
            None => levels.insert(query::hierarchy(&arguments.hierarchy, &loaded)?.0),
        };
        tables.profile(&loaded, levels, &arguments.hierarchy.tags)?;
    }
    let Tables { processes, levels, histograms, functions, written } = tables;
    [processes, levels, histograms, functions].into_iter().try_for_each(Table::finish)?;
    if left_out > 0 {
        remark(&format!("{} left out, {written} exported", counted(left_out, "file")));
    }
    Ok(())
}

struct Tables {
    processes: Table,
    levels: Table,
    histograms: Table,
    functions: Table,
    /// Processes so far.
    written: u64,
}

impl Tables {
    fn new(folder: &Path, part: &str) -> Result<Self, Failure> {
        let table = |name: &str, columns| {
            let folder = folder.join(name);
            fs::create_dir_all(&folder).map_err(|error| Failure::file("make", &folder, error))?;
            Table::new(&folder.join(format!("{part}.parquet")), SCHEMA, columns)
        };
        Ok(Self {
            processes: table("processes", rows::process_columns())?,
            levels: table("levels", rows::level_columns())?,
            histograms: table("histograms", rows::histogram_columns())?,
            functions: table("functions", rows::function_columns())?,
            written: 0,
        })
    }

    /// Every process of a profile, each by itself.
    fn profile(&mut self, loaded: &Loaded, levels: &[Cache], tags: &[String]) -> Result<(), Failure> {
        let file = loaded.title();
        for (number, process) in (0_u64..).zip(&loaded.profile.processes) {
            let key = rows::Key { profile: &file, process: number };
            self.processes.row(key.process_row(process))?;
            self.written += 1;
            key.histogram_rows(process, |row| self.histograms.row(row))?;
            let alone = Profile { processes: vec![process.clone()] };
            let question = Query { levels: levels.to_vec(), tags: tags.to_vec(), ..Query::default() };
            if process.line_sizes().next().is_none() {
                // It recorded nothing, and has no caches to ask about.
                continue;
            }
            let answer = match bf_postproc::query(&alone, &question) {
                // A tag that only other ranks used.
                Err(QueryError::Tag { .. }) => continue,
                answer => answer.map_err(|error| Failure::Failed(format!("{file}: {error}")))?,
            };
            answer.levels.iter().enumerate().try_for_each(|(at, level)| self.levels.row(key.level_row(at, level)))?;
            if !process.items.is_empty() {
                let parts = bf_postproc::attribution::attribute(&alone, &question)?;
                let bytes = patterns::by_function(&alone.processes, tags).unwrap_or_default();
                key.function_rows(&parts, bytes.as_ref(), |row| self.functions.row(row))?;
            }
        }
        Ok(())
    }
}

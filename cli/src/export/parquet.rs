//! Profiles of many processes as Parquet tables, for engines that ask thousands of ranks at once. `docs/scale-out.md` has
//! the columns. One profile is in memory at a time.

use super::rows;
use crate::{
    args::ExportArguments,
    columns::{Complete, Table},
    failure::Failure,
    input::{self, Loaded},
    output::{counted, remark},
    query,
};
use bf_postproc::{Cache, Query, QueryError, patterns};
use bf_profile::Profile;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Schema of all tables.
const SCHEMA: &str = "bf.tables/1";
/// The tables, by the folders that they are in.
const TABLES: [&str; 4] = ["processes", "levels", "histograms", "functions"];

/// Writes the tables of all profiles: one file each, `OUTPUT/TABLE/PART.parquet`.
pub fn command(arguments: &ExportArguments) -> Result<(), Failure> {
    let part = arguments.part.as_deref().unwrap_or("part");
    if part.is_empty() || part.contains('/') {
        return Err(Failure::Usage(format!("`{part}` is no name for a part; it becomes the file's name")));
    }
    let paths = input::expand(&arguments.input.profiles)?;
    let paths = if paths.is_empty() { vec![input::newest()?] } else { paths };
    let folders = [arguments.output.clone()].into_iter().chain(TABLES.map(|name| arguments.output.join(name)));
    let made: Vec<_> = folders.filter(|folder| !folder.exists()).collect();
    let done = export(arguments, &paths, part);
    if done.is_err() {
        // Those that hold something stay.
        made.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }
    done
}

fn export(arguments: &ExportArguments, paths: &[PathBuf], part: &str) -> Result<(), Failure> {
    let tags = &arguments.hierarchy.tags;
    let mut tables = Tables::new(&arguments.output, part, tags)?;
    let mut levels: Option<Vec<Cache>> = None;
    let mut left_out = 0;
    for path in paths {
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
        tables.profile(&loaded, levels, tags)?;
    }
    let Tables { processes, levels, histograms, functions, written, answered, untagged } = tables;
    match untagged {
        Some(why) if !answered => return Err(Failure::Failed(why)),
        _ if written == 0 && left_out > 0 => {
            return Err(Failure::Failed("none of the profiles could be read".to_owned()));
        }
        _ => {}
    }
    let complete = [processes, levels, histograms, functions].into_iter().map(Table::complete);
    complete.collect::<Result<Vec<_>, _>>()?.into_iter().try_for_each(Complete::finish)?;
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
    /// Whether one was asked about the hierarchy.
    answered: bool,
    /// Why the first was not that lacks a tag.
    untagged: Option<String>,
}

impl Tables {
    fn new(folder: &Path, part: &str, tags: &[String]) -> Result<Self, Failure> {
        let table = |name: &str, columns| {
            let folder = folder.join(name);
            fs::create_dir_all(&folder).map_err(|error| Failure::file("make", &folder, error))?;
            Table::new(&folder.join(format!("{part}.parquet")), SCHEMA, tags, columns)
        };
        Ok(Self {
            processes: table(TABLES[0], rows::process_columns())?,
            levels: table(TABLES[1], rows::level_columns())?,
            histograms: table(TABLES[2], rows::histogram_columns())?,
            functions: table(TABLES[3], rows::function_columns())?,
            written: 0,
            answered: false,
            untagged: None,
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
                Err(error @ QueryError::Tag { .. }) => {
                    self.untagged.get_or_insert(format!("{file}: {error}"));
                    continue;
                }
                answer => answer.map_err(|error| Failure::Failed(format!("{file}: {error}")))?,
            };
            self.answered = true;
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

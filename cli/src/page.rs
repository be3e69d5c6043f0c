//! The report as a page: one file with the profiles, the engine that answers in the browser, and all that draws.

mod assets;
mod excerpts;

pub use assets::{Assets, escape};

use crate::{
    args::{Hierarchy, ReportArguments},
    failure::Failure,
    input::{self, Loaded},
    machine,
    output::{check_writable, counted, remark, write_file},
    query,
    report::{self, Report},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bf_postproc::{
    Cache, Scope,
    compare::{self, Comparison, Side},
    query::{answerable, check_tags},
    size,
};
use bf_profile::{Counters, Paths, Patterns, Places, Profile};
use excerpts::Source;
use serde::Serialize;
use std::{
    io::{self, Write as _},
    path::Path,
};

/// Figures by place beyond this many bytes, as they are in a file, are left out of the page.
const MOST_BY_PLACE: usize = 8 << 20;

/// What the page's script reads.
#[derive(Debug, Serialize)]
struct Data<'a> {
    schema: &'static str,
    version: &'static str,
    licences: &'a str,
    profiles: Vec<PageProfile>,
    /// Tags whose references the page begins with; none: all references.
    tags: &'a [String],
    presets: Vec<Machine>,
    /// How alike two profiles are; none for any other number.
    comparison: Option<Comparison>,
    /// Where to ask whether the profiles have changed, and what is answered as long as they have not.
    watch: Option<&'a Watch>,
}

/// Where a served page asks whether it is still true.
#[derive(Clone, Debug, Serialize)]
pub struct Watch {
    /// Address, relative to the page.
    pub address: String,
    /// What it answers now.
    pub stamp: String,
}

/// A profile in the page.
#[derive(Debug, Serialize)]
struct PageProfile {
    paths: Vec<String>,
    /// The file, in base64, without what the page never asks.
    bytes: String,
    report: Report,
    /// The hierarchy that the page begins with, and that of the machine that the program ran on if it is another.
    hierarchies: Vec<Machine>,
    remarks: Vec<String>,
    sources: Vec<Source>,
}

/// A hierarchy.
#[derive(Debug, Serialize)]
struct Machine {
    label: String,
    levels: Vec<Level>,
}

/// One of its levels.
#[derive(Debug, Serialize)]
struct Level {
    name: String,
    size_bytes: u64,
    /// A number or `full`.
    ways: String,
    line_bytes: Option<u32>,
    scope: Scope,
    hashed: bool,
    exclusive: bool,
}

impl Machine {
    fn new(label: String, caches: &[Cache]) -> Self {
        let level = |cache: &Cache| Level {
            name: cache.name.clone(),
            size_bytes: cache.size,
            ways: cache.ways.to_string(),
            line_bytes: cache.line,
            scope: cache.scope,
            hashed: cache.hashed,
            exclusive: cache.exclusive,
        };
        Self { label, levels: caches.iter().map(level).collect() }
    }
}

/// `bf report --html`
pub fn write(arguments: &ReportArguments, path: &Path) -> Result<(), Failure> {
    check_writable(path)?;
    let assets = Assets::find()?;
    let loaded = input::load(&arguments.input)?;
    let html = page(&assets, &loaded, &arguments.hierarchy, None)?;
    write_file(path, &html)?;
    writeln!(
        io::stdout(),
        "{}: {}, {}; it opens in any browser, offline",
        path.display(),
        counted(loaded.len() as u64, "profile"),
        size::human(html.len() as u64)
    )?;
    Ok(())
}

/// Caches that a profile is asked about, and what they are called together.
type Asked = (Vec<Cache>, Option<String>);

/// The page about these profiles, side by side if they are several.
pub fn page(assets: &Assets, loaded: &[Loaded], asked: &Hierarchy, watch: Option<&Watch>) -> Result<String, Failure> {
    let caches = loaded.iter().map(|loaded| query::hierarchy(asked, loaded)).collect::<Result<Vec<_>, _>>()?;
    let profiles = loaded.iter().zip(&caches).map(|(loaded, caches)| profile(loaded, caches, &asked.tags));
    let profiles = profiles.collect::<Result<_, _>>()?;
    let presets = machine::all()?.into_iter().map(|preset| Machine::new(preset.label, &preset.caches)).collect();
    let data = Data {
        schema: "bf.page/1",
        version: env!("CARGO_PKG_VERSION"),
        licences: &assets.licences,
        profiles,
        tags: &asked.tags,
        presets,
        comparison: comparison(loaded, &caches, &asked.tags),
        watch,
    };
    let titles: Vec<_> = loaded.iter().map(Loaded::title).collect();
    assets.render(&titles.join(", "), &serde_json::to_string(&data)?)
}

/// What `bf compare` says to two profiles. What cannot be compared can still be shown side by side.
fn comparison(loaded: &[Loaded], caches: &[Asked], tags: &[String]) -> Option<Comparison> {
    let ([a, b], [_, (levels, machine)]) = (loaded, caches) else { return None };
    let (levels, machine) = (levels.clone(), machine.clone());
    let question = compare::Question { tags: tags.to_vec(), line_bytes: None, levels, machine };
    let [first, second] = [a, b].map(|side| Side { profiles: side.names(), profile: &side.profile });
    let found = compare::compare(&first, &second, &question);
    found.inspect_err(|error| remark(&format!("the page holds no comparison: {error}"))).ok()
}

fn profile(loaded: &Loaded, asked: &Asked, tags: &[String]) -> Result<PageProfile, Failure> {
    loaded.answer(check_tags(&loaded.profile, tags))?;
    let (all, label) = asked;
    let (caches, _) = answerable(&loaded.profile, all);
    let mut remarks = Vec::new();
    let sources = excerpts::sources(&loaded.profile, &caches, &mut remarks);
    let bytes = encoded(&loaded.profile, &mut remarks)
        .map_err(|error| Failure::Failed(format!("failed to put {} into a page: {error}", loaded.title())))?;
    remarks.iter().for_each(|line| remark(&format!("{}: {line}", loaded.title())));
    let first = Machine::new(label.clone().unwrap_or_else(|| "the caches asked for".to_owned()), &caches);
    let ran_on = machine::recorded(&loaded.profile).filter(|found| Some(&found.label) != label.as_ref());
    let ran_on = ran_on.map(|found| Machine::new(found.label, &answerable(&loaded.profile, &found.caches).0));
    let hierarchies = [Some(first), ran_on].into_iter().flatten();
    Ok(PageProfile {
        paths: loaded.names(),
        bytes: BASE64.encode(bytes),
        report: report::report(loaded, asked.clone(), tags),
        hierarchies: hierarchies.collect(),
        remarks,
        sources,
    })
}

/// The profile as a file, without what the page never asks, or would be too large with.
fn encoded(profile: &Profile, remarks: &mut Vec<String>) -> Result<Vec<u8>, bf_profile::Error> {
    let mut kept = profile.clone();
    for process in &mut kept.processes {
        process.sharing.clear();
        process.counters = Counters::default();
        process.paths = Paths::default();
        process.patterns = Patterns::default();
    }
    let write = |profile: &Profile| {
        let mut bytes = Vec::new();
        bf_profile::write(profile, &mut bytes).map(|()| bytes)
    };
    let all = write(&kept)?;
    if kept.processes.iter().all(|process| process.items.is_empty()) {
        return Ok(all);
    }
    for process in &mut kept.processes {
        process.items.clear();
        process.places = Places::default();
    }
    let without = write(&kept)?;
    let by_place = all.len() - without.len();
    if by_place <= MOST_BY_PLACE {
        return Ok(all);
    }
    remarks.push(format!(
        "figures by place are left out of the page: they take {}, and the bound is {}; bf report --by has them",
        size::human(by_place as u64),
        size::human(MOST_BY_PLACE as u64)
    ));
    Ok(without)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::{PathCounts, PathNode, Process};

    #[test]
    fn what_is_put_into_a_page_can_be_read() {
        let counters = Counters { names: vec!["loads".to_owned()], ..Counters::default() };
        let counts = vec![PathCounts { values: vec![(0, 7)], ..PathCounts::default() }];
        let paths = Paths { nodes: vec![PathNode::default()], counts, ..Paths::default() };
        let process = Process { tags: vec![String::new()], counters, paths, ..Process::default() };
        let profile = Profile { processes: vec![process] };
        profile.validate().unwrap();
        bf_profile::read(&*encoded(&profile, &mut Vec::new()).unwrap()).unwrap();
    }
}

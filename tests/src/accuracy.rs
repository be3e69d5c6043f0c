//! The model's one approximation for LRU hierarchies, measured: each level's misses and write-backs as the histograms
//! of all references give them, beside a simulation in which each level sees only what the one above did not have.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bf_collect::{Access, Batch, Bucket, Config, Session};
use bf_profile::trace::{self, Reader, Record};

use crate::oracle::{Counts, Feed, Hierarchy, Shape};
use crate::sandbox::{Build, Sandbox};
use crate::{histograms, project};

/// Line size of every hierarchy here, bytes.
const LINE: u64 = 64;

/// A hierarchy and its name: sizes in bytes and ways, nearest level first.
pub type NamedHierarchy = (&'static str, &'static [(u64, usize)]);

/// For traces of some hundred thousand accesses.
pub const SMALL: &[NamedHierarchy] = &[
    ("4K:2 64K:8", &[(4 << 10, 2), (64 << 10, 8)]),
    ("16K:4 128K:8 1M:16", &[(16 << 10, 4), (128 << 10, 8), (1 << 20, 16)]),
];

/// For those of real programs.
pub const LARGE: &[NamedHierarchy] = &[
    ("32K:8 256K:8 8M:16", &[(32 << 10, 8), (256 << 10, 8), (8 << 20, 16)]),
    ("48K:12 2M:16", &[(48 << 10, 12), (2 << 20, 16)]),
];

/// One thread's accesses, taken by everything that is compared.
#[derive(Debug)]
pub struct Comparison {
    hierarchies: &'static [NamedHierarchy],
    session: Session,
    batch: Batch,
    /// For each hierarchy, the simulation of misses alone, and that of misses and write-backs.
    simulations: Vec<[Hierarchy; 2]>,
}

impl Comparison {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(hierarchies: &'static [NamedHierarchy]) -> Self {
        let session = Session::new(Config { line_sizes: vec![LINE as u32], ..Config::default() });
        session.ensure_slot(0);
        let simulations = hierarchies.iter().map(|(_, levels)| {
            let shapes: Vec<_> = levels.iter().map(|&level| shape(level)).collect();
            [Feed::Misses, Feed::MissesAndWritebacks].map(|feed| Hierarchy::new(&shapes, feed))
        });
        Self { hierarchies, session, batch: Batch::new(), simulations: simulations.collect() }
    }

    /// More accesses.
    pub fn feed(&mut self, accesses: &[Access]) {
        self.batch.clear();
        for &access in accesses {
            self.batch.access(access.address, access.size, access.store);
            self.simulations.iter_mut().flatten().for_each(|simulation| simulation.access(access));
        }
        self.session.feed(0, &self.batch, Bucket::FIRST);
    }

    /// The rows of a table, one a level.
    #[must_use]
    pub fn rows(&self, name: &str) -> String {
        let snapshot = self.session.snapshot(Duration::from_secs(10));
        let all = histograms::all_of(&snapshot.lines[0]);
        let mut rows = String::new();
        for ((hierarchy, levels), simulations) in self.hierarchies.iter().zip(&self.simulations) {
            let [filtered, with_writebacks] = simulations.each_ref().map(Hierarchy::counts);
            let mut above = all.references.iter().sum();
            for (i, &level) in levels.iter().enumerate() {
                let shape = shape(level);
                let model = histograms::counts(all, shape.sets.ilog2(), shape.ways);
                above = model.all_misses().min(above);
                let cells = cells(above, &model, &filtered[i], &with_writebacks[i]);
                writeln!(rows, "| {name} | {hierarchy} | L{} | {cells} |", i + 1).expect("a string takes everything");
            }
        }
        rows
    }
}

/// The heading of a table of [`Comparison::rows`].
pub const HEADING: &str = "\
| trace | hierarchy | level | misses: model | filtered | difference | filtered, write-backs too | difference | write-backs: model | filtered | difference |
|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
";

fn cells(misses: u64, model: &Counts, filtered: &Counts, with_writebacks: &Counts) -> String {
    let misses = (misses, filtered.all_misses(), with_writebacks.all_misses());
    let writebacks = (model.writebacks, with_writebacks.writebacks);
    format!(
        "{} | {} | {} | {} | {} | {} | {} | {}",
        misses.0,
        misses.1,
        difference(misses.0, misses.1),
        misses.2,
        difference(misses.0, misses.2),
        writebacks.0,
        writebacks.1,
        difference(writebacks.0, writebacks.1)
    )
}

/// The model's excess over a simulation, in percent of the simulation.
fn difference(model: u64, simulated: u64) -> String {
    match (model, simulated) {
        _ if model == simulated => "0".into(),
        (_, 0) => "-".into(),
        _ => format!("{:+.2} %", 100.0 * (model as f64 - simulated as f64) / simulated as f64),
    }
}

fn shape((size, ways): (u64, usize)) -> Shape {
    Shape { line: LINE, sets: size / LINE / ways as u64, ways }
}

/// The table of [`crate::synthetic`].
#[must_use]
pub fn synthetic() -> String {
    let rows = crate::synthetic::all().into_iter().map(|(name, trace)| {
        let mut comparison = Comparison::new(SMALL);
        comparison.feed(&trace);
        comparison.rows(name)
    });
    HEADING.to_owned() + &rows.collect::<String>()
}

/// The table of real programs, compiled with the wrappers of the install tree and traced.
///
/// # Errors
/// One of them does not build, run, or leave a sound trace.
pub fn programs() -> Result<String> {
    let sqlite = project::sqlite(Build::Bf)?;
    let lua = project::lua(Build::Bf)?.join("lua");
    let minigzip = project::zlib(Build::Bf)?.join("minigzip");
    let clipper = project::clipper(Build::Bf)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/bodies.lua");
    let amalgamation = crate::source("libsqlite3-sys")?.join("sqlite3/sqlite3.c");
    let text = fs::read(amalgamation)?;
    let input = &text[..text.len().min(2 << 20)];
    let mut table = HEADING.to_owned();
    for (name, program, args, input) in [
        ("SQLite", sqlite, vec!["20000".into()], &[][..]),
        ("Lua", lua, vec![script.into_os_string()], &[]),
        ("minigzip", minigzip, vec![], input),
        ("Clipper2", clipper, vec![], &[]),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("input", input);
        let mut command = Command::new("setarch");
        command.arg("-R").arg(program).args(args).current_dir(sandbox.path()).env_clear();
        command.envs([("BF_TRACE", "trace"), ("BF_PROFILE", "profile")]);
        // Lua's script and Clipper2's driver end with codes of their own.
        let _ =
            command.stdin(File::open(sandbox.file("input"))?).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        table += &traced(name, &sandbox.file("trace"))?;
    }
    Ok(table)
}

fn traced(name: &str, trace: &Path) -> Result<String> {
    let mut comparison = Comparison::new(LARGE);
    for record in Reader::new(BufReader::new(File::open(trace)?))? {
        if let Record::Chunk { slot, accesses, .. } = record? {
            ensure!(slot == 0, "{name} has threads");
            let access = |a: &trace::Access| Access { address: a.address, size: a.size, store: a.store };
            comparison.feed(&accesses.iter().map(access).collect::<Vec<_>>());
        }
    }
    Ok(comparison.rows(name))
}

/// Name of the table of synthetic traces in `docs/accuracy.md`.
pub const SYNTHETIC: &str = "synthetic";
/// Name of the table of real programs.
pub const PROGRAMS: &str = "programs";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/accuracy.md");

/// The text of `docs/accuracy.md`.
///
/// # Errors
/// It cannot be read.
pub fn page() -> Result<String> {
    fs::read_to_string(PAGE).context(PAGE)
}

/// Replaces `docs/accuracy.md`.
///
/// # Errors
/// It cannot be written.
pub fn write_page(page: &str) -> Result<()> {
    fs::write(PAGE, page).context(PAGE)
}

/// A table of the page: what stands between its marks.
///
/// # Errors
/// It has no such table.
pub fn table<'a>(page: &'a str, name: &str) -> Result<&'a str> {
    Ok(&page[place(page, name)?])
}

/// The page with a table replaced.
///
/// # Errors
/// It has no such table.
pub fn replace(page: &str, name: &str, table: &str) -> Result<String> {
    let mut page = page.to_owned();
    let place = place(&page, name)?;
    page.replace_range(place, table);
    Ok(page)
}

fn place(page: &str, name: &str) -> Result<Range<usize>> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let from = page.find(&begin).with_context(|| format!("no {begin:?}"))? + begin.len();
    let to = page.find(&end).with_context(|| format!("no {end:?}"))?;
    Ok(from..to)
}

//! What `bf sweep` takes for whole hierarchies.

use crate::args::ByArgument;
use bf_postproc::explore::{LevelRange, Objective};
use clap::{ArgGroup, Args, ValueEnum};
use std::path::PathBuf;

/// How the answer goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SweepFormat {
    /// Tables for people
    #[default]
    Text,
    /// JSON, its schema in docs/json.md; of hierarchies one object a line, as they are found
    #[value(alias = "jsonl")]
    Json,
    /// One row a cache or hierarchy, with a header
    Csv,
    /// The same as a Parquet file; of hierarchies only, with --output
    Parquet,
}

/// What to vary by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Study {
    /// The line size of all levels
    Line,
    /// The associativity of each level
    Ways,
}

/// `bf sweep` of hierarchies
#[derive(Debug, Args)]
#[command(next_help_heading = "Hierarchies", group = ArgGroup::new("levels").args(["l1", "l2", "l3", "l4"]).multiple(true))]
#[command(group = ArgGroup::new("several").args(["l1", "l2", "l3", "l4", "knees"]).multiple(true))]
pub struct SpaceArguments {
    /// First level: SIZES[:WAYS[:LINES]][:private|shared][:hashed][:exclusive], lists as in --size, such as 16K..128K:4..16
    #[arg(long, value_name = "RANGE", value_parser = level::<1>, conflicts_with_all = ["size", "plot", "scope", "hashed"])]
    pub l1: Option<LevelRange>,
    /// Second level, likewise
    #[arg(long, value_name = "RANGE", value_parser = level::<2>, conflicts_with_all = ["size", "plot", "scope", "hashed"])]
    pub l2: Option<LevelRange>,
    /// Third level, likewise; shared by all threads unless it says private
    #[arg(long, value_name = "RANGE", value_parser = level::<3>, conflicts_with_all = ["size", "plot", "scope", "hashed"])]
    pub l3: Option<LevelRange>,
    /// Fourth level, as the third
    #[arg(long, value_name = "RANGE", value_parser = level::<4>, conflicts_with_all = ["size", "plot", "scope", "hashed"])]
    pub l4: Option<LevelRange>,
    /// To be as small as possible: misses[:LEVEL], traffic[:LEVEL] (bytes; without LEVEL those of the last), amat, energy, size, or a budget's name
    #[arg(long, value_name = "OBJECTIVE", requires = "levels", default_value = "misses")]
    pub objective: Objective,
    /// Latency of each level and of memory, for amat: FILE.toml (docs/sweep.md), or FILE.json of `bf machine latency`
    #[arg(long, value_name = "FILE", requires = "levels")]
    pub latency: Option<PathBuf>,
    /// Energy of an access to each level and to memory, for energy
    #[arg(long, value_name = "FILE.toml", requires = "levels")]
    pub energy: Option<PathBuf>,
    /// What caches cost and how much all levels may; may be given several times
    #[arg(long, value_name = "FILE.toml", requires = "levels")]
    pub budget: Vec<PathBuf>,
    /// The most that an objective may be, such as amat=3.5 or traffic=2G; may be given several times
    #[arg(long, value_name = "OBJECTIVE=MOST", requires = "levels", value_parser = limit)]
    pub limit: Vec<(Objective, f64)>,
    /// How many of the best; without: 10 in text, and all, in order, in the other formats
    #[arg(long, value_name = "N", requires = "several")]
    pub top: Option<usize>,
    /// Those that nothing betters in all of these objectives, by comma
    #[arg(long, value_name = "OBJECTIVES", requires = "levels", value_delimiter = ',')]
    pub pareto: Vec<Objective>,
    /// Say what each level doubled would bring, for JSON too; text says it of the best
    #[arg(long, requires = "levels")]
    pub sensitivity: bool,
    /// Vary the line size, or the associativity, of --machine's levels or of --l1 and so on
    #[arg(long, value_enum, value_name = "PROPERTY")]
    pub study: Option<Study>,
    /// With --study: the hierarchy, as in `bf query`
    #[arg(long, requires = "study", conflicts_with = "l1")]
    pub machine: Option<String>,
    /// Show the working sets and the code that makes them
    #[arg(long, conflicts_with_all = ["l1", "study"])]
    pub knees: bool,
    /// With --knees: what to name as the cause of each
    #[arg(long, value_enum, requires = "knees", default_value = "function")]
    pub by: ByArgument,
    /// File to write in place of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    pub format: SweepFormat,
}

impl SpaceArguments {
    /// The levels that ranges are given for, nearest first.
    pub fn levels(&self) -> Vec<LevelRange> {
        [&self.l1, &self.l2, &self.l3, &self.l4].into_iter().flatten().cloned().collect()
    }
}

fn level<const NUMBER: usize>(text: &str) -> Result<LevelRange, String> {
    LevelRange::parse(NUMBER, text)
}

fn limit(text: &str) -> Result<(Objective, f64), String> {
    let (objective, most) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is no limit; write OBJECTIVE=MOST, such as traffic=2G"))?;
    let number = most.parse::<f64>().ok().filter(|most| most.is_finite());
    let most = number.or_else(|| bf_postproc::size::parse(most).map(|bytes| bytes as f64));
    Ok((objective.parse()?, most.ok_or_else(|| format!("`{text}`: no number after `=`"))?))
}

//! The command line.

use crate::explore::args::SpaceArguments;
use bf_collect::Config;
use bf_postproc::{
    Cache, Scope, Share, SpecError, Ways,
    attribution::By,
    replay::{DinSize, Format as TraceFormat, ReplayError, Sample},
    shared_lines::Kind,
};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
use std::{ffi::OsString, path::PathBuf};

/// Compile any program with bf-clang, run it once, know its misses and write-backs in every cache hierarchy
#[derive(Debug, Parser)]
#[command(
    name = "bf",
    version,
    after_help = "Exit codes: 0 done, 1 a file or the system is at fault, 2 the command line is, 3 this computer lacks what it takes, 4 a comparison is below --fail-under."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what a run did, against the caches of the machine it ran on
    Report(ReportArguments),
    /// Show source with its misses
    Annotate(AnnotateArguments),
    /// Write figures by place for other programs
    Export(ExportArguments),
    /// Ask what a hierarchy of caches would have done
    Query(QueryArguments),
    /// Say which lines threads take from each other: whose they are, which code does it, true or false sharing
    Sharing(SharingArguments),
    /// Ask about many caches, or about every hierarchy that ranges of levels allow
    Sweep(Box<SweepArguments>),
    /// Say how alike two programs are, or what a change did
    Compare(CompareArguments),
    /// Show profiles as pages in the browser, on this computer
    Serve(crate::serve::ServeArguments),
    /// Put the profiles of several processes into one
    Merge(MergeArguments),
    /// Make a profile from a trace of accesses
    Replay(ReplayArguments),
    /// Print a trace that BF_TRACE wrote, for other simulators
    Trace(TraceArguments),
    /// Run an instrumented program; its exit code and signals pass through
    Run(RunArguments),
    /// List the machines that --machine knows by name
    Machines(MachinesArguments),
    /// Say what can be measured on this computer, and for what cannot, why and the mend
    Doctor(crate::measure::args::DoctorArguments),
    /// Measure what this computer's memory really does
    Machine(crate::measure::args::MachineArguments),
    /// Print a completion script
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Write the manual pages
    #[command(hide = true)]
    Man {
        /// Folder to write them to
        #[arg(long)]
        out: PathBuf,
    },
}

/// How to print an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people
    #[default]
    Text,
    /// One document, its schema in docs/json.md
    Json,
    /// One row per figure's owner, with a header
    Csv,
}

/// Which profiles to ask.
#[derive(Debug, Args)]
pub struct Input {
    /// Profiles; several are taken as one, as `bf merge` would; a folder stands for all in it. Without any: the newest *.bfp here
    pub profiles: Vec<PathBuf>,
    /// Answer each profile by itself
    #[arg(long)]
    pub each: bool,
    /// Use the intact parts of damaged profiles
    #[arg(long)]
    pub salvage: bool,
}

/// How the answer goes out.
#[derive(Debug, Args)]
pub struct Output {
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `bf report`
#[derive(Debug, Args)]
pub struct ReportArguments {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub hierarchy: Hierarchy,
    /// Break the figures down; for programs compiled with -bf-by-func (with -bf-counters-only: functions) or run with BF_BY_PLACE=1
    #[arg(long, value_enum)]
    pub by: Option<ReportBy>,
    /// With --by: the figure that rows are sorted by, as JSON names them, for call paths also NAME.inclusive; without: misses of the last level
    #[arg(long, value_name = "FIGURE", requires = "by")]
    pub sort: Option<String>,
    /// With --by: how many rows; without: 30 in text, all in JSON and CSV
    #[arg(long, value_name = "N", requires = "by")]
    pub top: Option<usize>,
    /// With --by phase: draw miss ratios over time here
    #[arg(long, value_name = "FILE.svg", requires = "by")]
    pub plot: Option<PathBuf>,
    /// Write the report as a page that opens in any browser, offline; with --each, profiles side by side
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["by", "sort", "top", "plot", "format"])]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
}

/// `bf annotate`
#[derive(Debug, Args)]
pub struct AnnotateArguments {
    /// Profiles (*.bfp, or by how they begin; several are taken as one; without any: the newest here) and source files (without any: the one with most misses)
    #[arg(value_name = "PROFILE|SOURCE")]
    pub files: Vec<PathBuf>,
    /// Show whole files, not only what is near lines with figures
    #[arg(long)]
    pub whole: bool,
    /// Further columns of the text: counters or other figures, as JSON names them
    #[arg(long, value_delimiter = ',', value_name = "FIGURE,...")]
    pub show: Vec<String>,
    /// Use the intact parts of damaged profiles
    #[arg(long)]
    pub salvage: bool,
    #[command(flatten)]
    pub hierarchy: Hierarchy,
    #[command(flatten)]
    pub output: Output,
}

/// `bf export`
#[derive(Debug, Args)]
// What it writes is one export, or of parquet always each by itself.
#[command(mut_arg("each", |each| each.hide(true)))]
pub struct ExportArguments {
    #[command(flatten)]
    pub input: Input,
    /// For which program
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// File to write; - for stdout. Of parquet and hpctoolkit the folder
    #[arg(short, long)]
    pub output: PathBuf,
    /// Of parquet: name of the files in each table's folder, so that several exports can share it; without: part
    #[arg(long, value_name = "NAME")]
    pub part: Option<String>,
    /// Of parquet: leave profiles out that cannot be read, and say which
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub hierarchy: Hierarchy,
}

/// What an export can be read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// callgrind_annotate and KCachegrind
    Callgrind,
    /// Hatchet's GraphFrame.from_literal
    Hatchet,
    /// Hatchet's GraphFrame.from_hpctoolkit, as a folder; for -bf-call-stack
    Hpctoolkit,
    /// sqlite3, as SQL statements
    #[value(alias = "sqlite")]
    Sql,
    /// One JSON document
    Json,
    /// A table
    Csv,
    /// DuckDB, DataFusion and others, as a folder of tables with a row for each process, level, histogram bin and function
    Parquet,
}

/// What to break figures down by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ByArgument {
    /// Functions, with what was inlined into them
    Function,
    /// Lines of source
    Line,
    /// Lines of the program's own source: what the standard library does counts where it was inlined
    OwnLine,
    /// Innermost loops
    Loop,
    /// Variables, blocks by where they were allocated, stacks; for -bf-data-structs or BF_BY_OBJECT=1
    Object,
    /// Functions with their callers; for -bf-call-stack
    Callpath,
}

impl From<ByArgument> for By {
    fn from(by: ByArgument) -> Self {
        match by {
            ByArgument::Function => Self::Function,
            ByArgument::Line => Self::Line,
            ByArgument::OwnLine => Self::OwnLine,
            ByArgument::Loop => Self::Loop,
            ByArgument::Object => Self::Object,
            ByArgument::Callpath => Self::Callpath,
        }
    }
}

/// What rows of a report stand for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ReportBy {
    /// Functions, with what was inlined into them
    Function,
    /// Lines of source
    Line,
    /// Lines of the program's own source: what the standard library does counts where it was inlined
    OwnLine,
    /// Innermost loops
    Loop,
    /// Variables, blocks by where they were allocated, stacks; for -bf-data-structs or BF_BY_OBJECT=1
    Object,
    /// Functions with their callers; for programs compiled with -bf-call-stack
    Callpath,
    /// Basic blocks; for programs compiled with -bf-every-bb
    Block,
    /// Slices of time; for runs with BF_PHASES=N
    Phase,
}

impl ReportBy {
    /// What figures are broken down by; `None` for slices of time.
    pub const fn attributed(self) -> Option<By> {
        match self {
            Self::Function => Some(By::Function),
            Self::Line => Some(By::Line),
            Self::OwnLine => Some(By::OwnLine),
            Self::Loop => Some(By::Loop),
            Self::Object => Some(By::Object),
            Self::Callpath => Some(By::Callpath),
            Self::Block => Some(By::Block),
            Self::Phase => None,
        }
    }
}

/// Which caches are asked about, and which references.
#[derive(Clone, Debug, Args)]
pub struct Hierarchy {
    /// A level, nearest first: NAME=SIZE:WAYS[:LINE][:private|shared][:hashed][:exclusive], such as L1=32K:8
    #[arg(long = "cache", value_name = "CACHE", conflicts_with = "machine")]
    pub caches: Vec<Cache>,
    /// Hierarchy: run (that of the machine it ran on, the default), this (of this computer), a name from `bf machines`, or FILE.json or FILE.toml
    #[arg(long)]
    pub machine: Option<String>,
    /// Count only references made under this tag of bf_tag; may be given several times
    #[arg(long = "tag", value_name = "NAME")]
    pub tags: Vec<String>,
}

/// `bf query`
#[derive(Debug, Args)]
pub struct QueryArguments {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub hierarchy: Hierarchy,
    /// Divide the threads of a shared level into groups with a cache each: LEVEL=0-3,4-7, or L2=0+2,1+3 (an estimate)
    #[arg(long = "share", value_name = "LEVEL=GROUPS")]
    pub shares: Vec<Share>,
    /// Tell the threads of private levels apart
    #[arg(long, value_enum, value_name = "ITEM")]
    pub by: Option<QueryItem>,
    #[command(flatten)]
    pub output: Output,
}

/// What an answer is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueryItem {
    /// Threads: their numbers in a trace, the slots they took in a run
    Thread,
}

/// Kinds of sharing to show.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum KindArgument {
    /// Threads use what others stored
    True,
    /// Threads only use the same lines
    False,
}

impl From<KindArgument> for Kind {
    fn from(kind: KindArgument) -> Self {
        match kind {
            KindArgument::True => Self::True,
            KindArgument::False => Self::False,
        }
    }
}

/// `bf sharing`
#[derive(Debug, Args)]
pub struct SharingArguments {
    #[command(flatten)]
    pub input: Input,
    /// How many findings; without: 10 in text, all in JSON and CSV
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Only true or only false sharing, and what is both
    #[arg(long, value_enum)]
    pub kind: Option<KindArgument>,
    /// Line size in bytes; without: 64, or the least there is
    #[arg(long, value_parser = bytes)]
    pub line: Option<u32>,
    #[command(flatten)]
    pub output: Output,
}

/// Who uses a cache.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ScopeArgument {
    /// Each thread has its own
    #[default]
    Private,
    /// One for all threads
    Shared,
}

impl From<ScopeArgument> for Scope {
    fn from(scope: ScopeArgument) -> Self {
        match scope {
            ScopeArgument::Private => Self::Private,
            ScopeArgument::Shared => Self::Shared,
        }
    }
}

/// Sizes of a list, wrapped so that clap takes a list as one value.
#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<u64>);

fn sizes(text: &str) -> Result<Sizes, String> {
    bf_postproc::sweep::sizes(text).map(Sizes)
}

fn bytes(text: &str) -> Result<u32, String> {
    let bytes = bf_postproc::size::parse(text).and_then(|bytes| u32::try_from(bytes).ok());
    match bytes.ok_or_else(|| format!("`{text}` is no line size"))? {
        line if line.is_power_of_two() && line >= 8 => Ok(line),
        line => Err(SpecError::LineShape(line).to_string()),
    }
}

/// A line size that a profile can have.
fn recorded_bytes(text: &str) -> Result<u32, String> {
    let line = bytes(text)?;
    if Config::is_line_size(line) { Ok(line) } else { Err(ReplayError::LineSize(line).to_string()) }
}

/// A sampling rate, as given and as it is taken.
#[derive(Clone, Debug)]
pub struct Rate {
    /// What the user wrote.
    pub text: String,
    /// `None` for all.
    pub sample: Option<Sample>,
}

fn rate(text: &str) -> Result<Rate, String> {
    Ok(Rate { sample: Sample::parse(text)?, text: text.to_owned() })
}

/// `bf sweep`
#[derive(Debug, Args)]
pub struct SweepArguments {
    #[command(flatten)]
    pub input: Input,
    /// Sizes: A..B doubles, A..B+STEP is linear, lists by comma
    #[arg(long, value_parser = sizes, default_value = "4K..256M")]
    pub size: Sizes,
    /// Associativities, by comma: numbers, or full; without: 1,2,4,8,16,full
    #[arg(long, value_delimiter = ',')]
    pub ways: Vec<Ways>,
    /// Line sizes, by comma; without: 64, or the profile's only one
    #[arg(long, value_delimiter = ',', value_parser = bytes)]
    pub line: Vec<u32>,
    /// Who uses the caches
    #[arg(long, value_enum, default_value_t)]
    pub scope: ScopeArgument,
    /// Lines land in sets as if at random
    #[arg(long)]
    pub hashed: bool,
    /// Count only references made under this tag of bf_tag; may be given several times
    #[arg(long = "tag", value_name = "NAME")]
    pub tags: Vec<String>,
    /// Draw the miss ratios as curves over size, into a file that ends in .svg
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub space: SpaceArguments,
}

/// `bf compare`
#[derive(Debug, Args)]
#[command(
    after_help = "docs/compare.md has the method. Several profiles of a side (ranks) are taken as one, as `bf merge` would."
)]
pub struct CompareArguments {
    /// Two profiles, such as those of a mini-app and of its parent; with --with those of the first side
    #[arg(value_name = "PROFILE")]
    pub profiles: Vec<PathBuf>,
    /// Profiles of the second side
    #[arg(long, num_args = 1.., value_name = "PROFILE")]
    pub with: Vec<PathBuf>,
    /// Repeated runs before a change, a profile each
    #[arg(long, num_args = 1.., value_name = "PROFILE", requires = "after", conflicts_with_all = ["profiles", "with", "fail_under", "line"])]
    pub before: Vec<PathBuf>,
    /// Repeated runs after it
    #[arg(long, num_args = 1.., value_name = "PROFILE", requires = "before")]
    pub after: Vec<PathBuf>,
    /// End with exit code 4 if the score is below this, from 0 to 1
    #[arg(long, value_name = "SCORE", value_parser = score)]
    pub fail_under: Option<f64>,
    /// Line size in bytes; without: 64, or the least that both have
    #[arg(long, value_parser = bytes)]
    pub line: Option<u32>,
    /// Use the intact parts of damaged profiles
    #[arg(long)]
    pub salvage: bool,
    #[command(flatten)]
    pub hierarchy: Hierarchy,
    #[command(flatten)]
    pub output: Output,
}

fn score(text: &str) -> Result<f64, String> {
    let score = text.parse().ok().filter(|score| (0.0..=1.0).contains(score));
    score.ok_or_else(|| format!("`{text}` is no score from 0 to 1"))
}

/// `bf merge`
#[derive(Debug, Args)]
pub struct MergeArguments {
    /// Profiles; a folder stands for all profiles in it
    #[arg(required = true)]
    pub profiles: Vec<PathBuf>,
    /// File to write
    #[arg(short, long, value_name = "FILE.bfp")]
    pub output: PathBuf,
    /// Use the intact parts of damaged profiles
    #[arg(long)]
    pub salvage: bool,
    /// Leave profiles out that cannot be read, and say which
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub format: Output,
}

/// Sizes in extended din.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum DinSizeArgument {
    /// Decimal numbers
    #[default]
    Decimal,
    /// Hexadecimal numbers, as DineroIV itself reads them
    Hex,
}

impl From<DinSizeArgument> for DinSize {
    fn from(size: DinSizeArgument) -> Self {
        match size {
            DinSizeArgument::Decimal => Self::Decimal,
            DinSizeArgument::Hex => Self::Hexadecimal,
        }
    }
}

/// `bf replay`
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// Trace, plain or compressed by gzip or zstd; - for stdin
    pub trace: PathBuf,
    /// Profile to write
    #[arg(short, long, value_name = "FILE.bfp")]
    pub output: PathBuf,
    /// Line sizes in bytes, by comma; without: those of a bf trace, else 64
    #[arg(long, value_delimiter = ',', value_parser = recorded_bytes)]
    pub line_size: Vec<u32>,
    /// Keep histograms for up to 2^N sets; without: that of a bf trace, else 16
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(..=24))]
    pub max_set_bits: Option<u32>,
    /// Keep distances below N with more than one set; without: that of a bf trace, else 64
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=255))]
    pub max_ways: Option<u32>,
    /// Follow only this part of all lines (0.01, 1/64) and estimate from them; without: all
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub sample: Option<Rate>,
    /// Format: din, lackey, json or bf; without: found out
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<TraceFormat>,
    /// How sizes stand in extended din
    #[arg(long, value_enum, default_value_t)]
    pub din_size: DinSizeArgument,
    #[command(flatten)]
    pub format: Output,
}

/// `bf trace`
#[derive(Debug, Args)]
pub struct TraceArguments {
    /// Trace that BF_TRACE wrote; - for stdin
    pub trace: PathBuf,
    /// Format: din, lackey or json
    #[arg(long, value_name = "FORMAT")]
    pub to: TraceFormat,
    /// File to write; without: stdout
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// How to write sizes in din
    #[arg(long, value_enum, default_value_t)]
    pub din_size: DinSizeArgument,
}

/// `bf run`
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Switch address randomisation off, so that two runs make the same profile
    #[arg(long)]
    pub no_aslr: bool,
    /// Name of the profile: sets BF_PROFILE (%e executable, %p pid, %h host, %r rank, %t start time)
    #[arg(short, long, value_name = "PATTERN")]
    pub output: Option<PathBuf>,
    /// Let the program write its accesses too: sets BF_TRACE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Follow only this part of all lines (0.01, 1/64): sets BF_SAMPLE
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub sample: Option<Rate>,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// `bf machines`
#[derive(Debug, Args)]
pub struct MachinesArguments {
    #[command(flatten)]
    pub output: Output,
}

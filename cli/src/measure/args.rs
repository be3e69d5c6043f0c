//! The command lines of `bf doctor` and `bf machine`.

use crate::args::Output;
use bf_machine::sys::{
    pages::Pages,
    stream::{Operation, WIDTHS},
};
use bf_postproc::size;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `bf doctor`
#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub output: Output,
}

/// `bf machine`
#[derive(Debug, Args)]
pub struct MachineArguments {
    /// What to find out.
    #[command(subcommand)]
    pub what: What,
}

/// What to find out.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Caches, cores, memory nodes and page sizes; as JSON a hierarchy that `--machine` takes
    Topology(TopologyArguments),
    /// Latency of dependent loads against size
    Latency(LatencyArguments),
    /// Bandwidth by operation, width of instructions, size and number of threads
    Bandwidth(BandwidthArguments),
    /// Latency of lines by coherence state and by who holds them
    Coherence(PlainArguments),
    /// Latency from each core to each other
    C2c(PlainArguments),
    /// Latency and bandwidth of each memory node from the cores of each other
    Numa(PlainArguments),
    /// Latency of memory while other cores read, at a rising pace
    LoadedLatency(PlottedArguments),
    /// Latency against the number of pages: the reach of the translation buffers
    Tlb(PlottedArguments),
    /// Throughput of arithmetic instructions, operands in registers and in the nearest cache
    Throughput(PlainArguments),
    /// Which performance counters may be believed: each event beside kernels whose true count is known
    Counters(CountersArguments),
    /// Everything, into one file that `--machine` takes
    All(AllArguments),
    /// Say which figures of several runs agree within their spread, and why others do not
    Compare(CompareArguments),
}

/// How to measure, and how to say it.
#[derive(Debug, Args)]
pub struct Measuring {
    /// CPUs to use, in this order, such as 0,2 or 0-3; without: those the process may use, one of each core first
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Pages to measure on; what was got is part of the answer
    #[arg(long, value_enum, default_value_t)]
    pub pages: PagesArgument,
    /// Rounds after which a figure that has not settled is called unstable
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(3..=1000))]
    pub rounds: u16,
    #[command(flatten)]
    pub output: Output,
}

/// CPUs of a list, wrapped so that clap takes a list as one value.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<u32>);

fn cpus(text: &str) -> Result<Cpus, String> {
    match bf_machine::topology::list(text) {
        Some(cpus) if cpus.iter().enumerate().any(|(index, cpu)| cpus[..index].contains(cpu)) => {
            Err(format!("`{text}` names a CPU twice"))
        }
        Some(cpus) if !cpus.is_empty() => Ok(Cpus(cpus)),
        _ => Err(format!("`{text}` is no list of CPUs such as 0,2 or 0-3")),
    }
}

/// Which pages to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PagesArgument {
    /// The system's small ones
    Base,
    /// 2 MiB: reserved ones, else transparent ones, else small ones
    #[default]
    Large,
    /// 1 GiB: reserved ones, else as large
    Giant,
}

impl From<PagesArgument> for Pages {
    fn from(pages: PagesArgument) -> Self {
        match pages {
            PagesArgument::Base => Self::Base,
            PagesArgument::Large => Self::Large,
            PagesArgument::Giant => Self::Giant,
        }
    }
}

/// `bf machine topology`
#[derive(Debug, Args)]
pub struct TopologyArguments {
    /// Hold it against what `lstopo --of xml FILE` of hwloc wrote
    #[arg(long, value_name = "FILE.xml")]
    pub hwloc: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
}

/// Which sizes to go through.
#[derive(Debug, Args)]
pub struct Span {
    /// Greatest size; without, a curve ends at eight times the last cache, at least 64M and at most 1G
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_size: Option<usize>,
    /// Draw the figures against size, into a file that ends in .svg
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

fn bytes(text: &str) -> Result<usize, String> {
    let bytes = size::parse(text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes >= 4096).ok_or_else(|| format!("`{text}` is no size of at least 4K"))
}

/// `bf machine latency`
#[derive(Debug, Args)]
pub struct LatencyArguments {
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub span: Span,
}

/// `bf machine bandwidth`
#[derive(Debug, Args)]
pub struct BandwidthArguments {
    #[command(flatten)]
    pub measuring: Measuring,
    #[command(flatten)]
    pub span: Span,
    /// Operations, by comma; without: all
    #[arg(long, value_delimiter = ',', value_parser = operation)]
    pub operation: Vec<Operation>,
    /// Bits of an instruction's operand, by comma: 64, 128, 256, 512; without: all this processor has
    #[arg(long, value_delimiter = ',', value_parser = width)]
    pub width: Vec<u32>,
}

fn operation(text: &str) -> Result<Operation, String> {
    Operation::ALL
        .into_iter()
        .find(|operation| operation.name() == text)
        .ok_or_else(|| format!("`{text}` is none of {}", Operation::ALL.map(Operation::name).join(", ")))
}

fn width(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|width| WIDTHS.contains(width))
        .ok_or_else(|| format!("`{text}` is none of 64, 128, 256, 512"))
}

/// A measurement without options of its own.
#[derive(Debug, Args)]
pub struct PlainArguments {
    #[command(flatten)]
    pub measuring: Measuring,
}

/// A measurement that can be drawn.
#[derive(Debug, Args)]
pub struct PlottedArguments {
    #[command(flatten)]
    pub measuring: Measuring,
    /// Draw the figures, into a file that ends in .svg
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// `bf machine all`
#[derive(Debug, Args)]
pub struct AllArguments {
    #[command(flatten)]
    pub measuring: Measuring,
    /// File to write the document to; without: no file
    #[arg(short, long, value_name = "FILE.json")]
    pub output: Option<PathBuf>,
    /// Greatest size whose latency is measured; without: eight times the last cache, at least 64M and at most 1G
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_size: Option<usize>,
}

/// `bf machine compare`
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// What `bf machine all -o` wrote, of two runs or more
    #[arg(value_name = "FILE.json", required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub output: Output,
}

/// What counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BackendArgument {
    /// Performance counters, or timed loads with exit code 3 where there are none
    #[default]
    Auto,
    /// Performance counters
    Perf,
    /// Timed loads: what served a load, by how long it took
    Timed,
}

/// `bf machine counters`
#[derive(Debug, Args)]
pub struct CountersArguments {
    #[command(flatten)]
    pub measuring: Measuring,
    /// What counts
    #[arg(long, value_enum, default_value_t)]
    pub backend: BackendArgument,
    /// Keep what was counted in a text file, for --replay here or elsewhere
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Judge what --record kept on another machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backend", "cpus", "record"])]
    pub replay: Option<PathBuf>,
}

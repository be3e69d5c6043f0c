//! Everything that can be wrong with a question. Each message names the thing and, where there is one, the mend.

use crate::{share::ShareError, size};

/// A cache specification that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The overall form is wrong.
    #[error("`{0}` is no cache; write NAME=SIZE:WAYS[:LINE][:private|shared][:hashed][:exclusive], such as L1=32K:8")]
    Syntax(String),
    /// Not a size.
    #[error("`{0}` is no size; write bytes or a number with K, M, G or T, such as 32K, up to 1024T")]
    Size(String),
    /// Not an associativity.
    #[error("`{0}` is no number of ways; write a whole number above 0, or `full`")]
    Ways(String),
    /// A part that means nothing.
    #[error("`{0}` is neither a line size nor private, shared, hashed or exclusive")]
    Part(String),
    /// A part given twice.
    #[error("`{part}` in `{spec}` says again what another part said")]
    Twice {
        /// The second one.
        part: String,
        /// The whole specification.
        spec: String,
    },
    /// A line size that no cache has.
    #[error("line size {0} is no power of two from 8 up")]
    LineShape(u32),
    /// A line size that the profile does not hold.
    #[error(
        "{name}: line size {line} is not in the profile, which holds {}; record with BF_LINE_SIZE={line} to have it",
        list(available)
    )]
    LineMissing {
        /// The cache's name.
        name: String,
        /// The line size asked for.
        line: u32,
        /// Those there are.
        available: Vec<u32>,
    },
    /// The size is no multiple of ways times line.
    #[error(
        "{name}: {} cannot be cut into sets of {ways} lines of {line} bytes; the nearest possible size is {}",
        size::format(*size),
        nearest(*below, *above)
    )]
    Impossible {
        /// The cache's name.
        name: String,
        /// Bytes asked for.
        size: u64,
        /// Lines per set.
        ways: u64,
        /// Line size, bytes.
        line: u32,
        /// The next possible size below, if there is one.
        below: Option<u64>,
        /// The next possible size above, if there is one.
        above: Option<u64>,
    },
    /// Two levels of one name.
    #[error("two caches are called `{0}`; give each its own name")]
    Name(String),
    /// A private level that gets its references from a shared one.
    #[error("{0} is private but stands below a shared level; levels go from private to shared")]
    PrivateBelowShared(String),
}

/// Numbers separated by commas.
fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The possible sizes around an impossible one.
fn nearest(below: Option<u64>, above: Option<u64>) -> String {
    [below, above].into_iter().flatten().map(size::format).collect::<Vec<_>>().join(" or ")
}

/// A question that a profile cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The cache itself is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The threads cannot be divided like that.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// No levels were given.
    #[error("no cache was asked about")]
    NoLevels,
    /// More ways than the profile holds distances for.
    #[error(
        "{name}: {ways} ways, but the profile keeps distances up to {max} with more than one set; \
         record with BF_MAX_WAYS={ways} or compile with -bf-max-ways={ways}"
    )]
    MaxWays {
        /// The cache's name.
        name: String,
        /// Ways asked for.
        ways: u64,
        /// Ways kept.
        max: u32,
    },
    /// A shape that a sampled profile says nothing about.
    #[error("{name}: the profile is a sample of 1 line in {}: {why}", 1_u64 << rate_bits)]
    Sampled {
        /// The cache's name.
        name: String,
        /// One line in `2^rate_bits` was followed.
        rate_bits: u32,
        /// Why not.
        why: Unsampled,
    },
    /// A tag no process used.
    #[error("no tag `{tag}` in the profile; it has {available}")]
    Tag {
        /// The one asked for.
        tag: String,
        /// Those there are.
        available: String,
    },
    /// The profile holds no stack at all.
    #[error("the profile holds no counts{0}")]
    Empty(String),
    /// Only counters.
    #[error(
        "the profile has counters but no references; compile without -bf-counters-only, and run without BF_LINE_SIZE=none"
    )]
    CountersOnly,
    /// The processes of a merged profile were recorded with different line sizes.
    #[error("process {0} of the profile lacks line size {1}, which others have")]
    Uneven(String, u32),
    /// A breakdown of a process that was not recorded for one.
    #[error("the profile of {executable} is not broken down by place; {mend}")]
    NotByPlace {
        /// The program.
        executable: String,
        /// What to do about it.
        mend: &'static str,
    },
    /// A run that was not cut into slices of time.
    #[error("the run was not cut into phases; set BF_PHASES=N when it runs, N less than the accesses it makes")]
    NoPhases,
    /// A shared level of several threads without the stack it needs.
    #[error("the profile has several threads but no stack of all of them; it is damaged, or was salvaged without it")]
    NoGlobal,
}

/// Why a sampled profile says nothing about a cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsampled {
    /// Too few sets for some of them to be followed whole.
    #[error("sets are followed whole from 2^{least} sets on, and it has {sets}; record {}", with_sets(*sets))]
    FewSets {
        /// Sets of the cache.
        sets: u64,
        /// Bits of the least set count that can be answered.
        least: u32,
    },
    /// More sets than are kept.
    #[error("it has {sets} sets, and up to 2^{most} are kept; record with BF_MAX_SET_BITS={}", sets.ilog2())]
    ManySets {
        /// Sets of the cache.
        sets: u64,
        /// Bits of the greatest set count that is kept.
        most: u32,
    },
    /// Too small a cache for distances between few lines.
    #[error(
        "of its {all} lines each group of the sample has {lines} and needs {least}; record {}",
        with_lines(*all, *least)
    )]
    FewLines {
        /// Lines of the cache.
        all: u64,
        /// Those in each group.
        lines: u64,
        /// How many there must be.
        least: u64,
    },
    /// Salvaged without what is needed.
    #[error("too few groups of the sample are left of a damaged profile")]
    Lost,
}

/// How to record for a cache of so many sets: 64 of them are followed, of fewer all.
fn with_sets(sets: u64) -> String {
    with_rate(sets / 64)
}

/// How to record for a cache of so many lines, of which `least` are to be in each of eight groups.
fn with_lines(lines: u64, least: u64) -> String {
    with_rate(lines / (8 * least))
}

fn with_rate(one_in: u64) -> String {
    match one_in.checked_ilog2() {
        None | Some(0) => "without BF_SAMPLE".to_owned(),
        Some(bits) => format!("with BF_SAMPLE=1/{}", 1_u64 << bits),
    }
}

/// A machine that cannot be used as a hierarchy.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No preset has that name.
    #[error("no machine is called `{name}`; there are run, this, {available}, or give a .json or .toml file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Names of the presets.
        available: String,
    },
    /// A presets file that is not what it should be.
    #[error("{origin} is no presets file: {message}")]
    Presets {
        /// Where it came from.
        origin: String,
        /// What the reader says.
        message: String,
    },
    /// A machine file that is not what it should be.
    #[error("{origin} is no machine description: {message}")]
    File {
        /// Where it came from.
        origin: String,
        /// What is wrong with it.
        message: String,
    },
    /// A description without data caches.
    #[error("{0} names no data cache")]
    NoCaches(String),
}

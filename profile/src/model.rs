//! The data model of a profile. Everything is plain data; the container adds versions and checksums.

use bincode::{Decode, Encode};

use crate::coherence::LineCoherence;
use crate::counters::Counters;
use crate::objects::Objects;
use crate::paths::Paths;
use crate::patterns::Patterns;
use crate::places::Places;
use crate::sharing::SharedLines;

/// One or more processes; several after `bf merge`. Kept sorted by [`Process::key`], without duplicates, so that merging
/// is a union of sets: associative and commutative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Profile {
    /// The processes, sorted.
    pub processes: Vec<Process>,
}

/// Everything one process left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Process {
    /// Who ran, where, how it ended.
    pub meta: Meta,
    /// The machine it ran on.
    pub machine: Machine,
    /// Calls into functions that no instrumented module of the process defines, most calls first.
    pub uninstrumented: Vec<Callee>,
    /// Remarks of the runtime, one line each (unknown `BF_*` variables, dropped data, refused modules).
    pub log: Vec<String>,
    /// Names given to `bf_tag`; index 0 is "" (before any tag).
    pub tags: Vec<String>,
    /// One entry per line size, ascending; empty if the run was sampled.
    pub lines: Vec<LineData>,
    /// The same of a sampled run; empty if all references were followed.
    pub sampled: Vec<SampledLines>,
    /// What the private caches of its threads did to each other: one entry per line size, ascending. Empty if there was
    /// one slot only, if the run was sampled, and in a profile of a format before 1.2, whose distances are those of each
    /// thread alone.
    pub coherence: Vec<LineCoherence>,
    /// Lines that one of its threads wrote and another used: at most one entry per line size, ascending. Empty if there was
    /// one slot only, if the run was sampled, and in a profile of a format before 1.2.
    pub sharing: Vec<SharedLines>,
    /// What it executed.
    pub counters: Counters,
    /// Where in the source things happened.
    pub places: Places,
    /// What accesses went to.
    pub objects: Objects,
    /// Who called whom.
    pub paths: Paths,
    /// The stacks broken down by place, one entry per line size, ascending; empty if that was not asked for.
    pub items: Vec<ItemLines>,
    /// Which bytes it touched, and in which steps; empty if that was not asked for.
    pub patterns: Patterns,
}

/// Who ran, where, how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Meta {
    /// Version of bf that wrote it.
    pub version: String,
    /// Base name of the executable.
    pub executable: String,
    /// Command line, argument by argument (lossy UTF-8).
    pub command: Vec<String>,
    /// Process id.
    pub pid: u32,
    /// Parent process id.
    pub parent: u32,
    /// Host name.
    pub host: String,
    /// Rank from the launcher's environment (`PMIX_RANK`, `OMPI_COMM_WORLD_RANK`, `PMI_RANK`, `SLURM_PROCID`).
    pub rank: Option<u32>,
    /// Start of the process, nanoseconds since the Unix epoch; tells two processes with one pid apart.
    pub start_ns: u64,
    /// Wall time from start to the moment the profile was written, nanoseconds.
    pub elapsed_ns: u64,
    /// Whether address-space randomisation was on; `None` if unknown (a replayed trace).
    pub aslr: Option<bool>,
    /// Why the profile was written.
    pub end: EndReason,
    /// Threads that made at least one access, or counted anything.
    pub threads: u32,
    /// Accesses recorded (section 1 of the model), counted ones only.
    pub accesses: u64,
    /// Accesses that could not be recorded, with the reason in the log.
    pub dropped: u64,
    /// Source files of the instrumented modules, sorted.
    pub modules: Vec<String>,
}

/// Why a profile was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum EndReason {
    /// `exit`, or return from `main`.
    #[default]
    Exit,
    /// `_exit`, `_Exit` or `quick_exit`.
    QuickExit,
    /// A fatal signal, with its number; `abort` is signal 6.
    Signal(i32),
    /// Replaced by another program.
    Exec,
    /// A checkpoint: the process was still running, or was killed later.
    Checkpoint,
    /// Not a run: a trace was replayed.
    Replay,
}

/// A call target outside the instrumented code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Callee {
    /// Linkage name.
    pub name: String,
    /// Calls from instrumented code.
    pub calls: u64,
}

/// The machine a profile was recorded on, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Machine {
    /// CPU model name, empty if unknown.
    pub cpu: String,
    /// Logical CPUs online.
    pub cpus: u32,
    /// Caches as the first CPU sees them, nearest first; empty if unknown.
    pub caches: Vec<CacheLevel>,
}

/// One cache of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct CacheLevel {
    /// 1 for L1.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Bytes.
    pub size: u64,
    /// Associativity; 0 if the system does not say.
    pub ways: u32,
    /// Bytes.
    pub line: u32,
    /// Sets; 0 if the system does not say.
    pub sets: u32,
    /// Logical CPUs that share it.
    pub shared_by: u32,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    #[default]
    Unified,
}

/// The stacks of one line size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LineData {
    /// Line size, bytes, a power of two.
    pub line_bytes: u32,
    /// Histograms are kept for 2^0 ..= 2^max_set_bits sets.
    pub max_set_bits: u32,
    /// With more than one set, distances below this are kept exactly.
    pub max_ways: u32,
    /// Sorted by owner, then tag. Tags that an owner never used have no entry.
    pub stacks: Vec<StackData>,
}

/// The stacks of one line size where only some lines were followed (`docs/sampling.md`). They are divided into groups
/// that have no line in common, so that the differences between groups tell how far the whole can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SampledLines {
    /// Line size, bytes, a power of two.
    pub line_bytes: u32,
    /// Of the program, not of a group: caches of up to 2^max_set_bits sets can be asked about.
    pub max_set_bits: u32,
    /// With more than one set, distances below this are kept.
    pub max_ways: u32,
    /// Which lines were followed.
    pub sampling: Sampling,
    /// All references, of followed lines or not. Sorted by owner, then tag.
    pub references: Vec<References>,
    /// Set sampling: for each group the lines of some residues modulo 2^set_bits, with every set that they fall into
    /// whole. 2^a sets of a group are its part of 2^(a + scale_bits) sets of the program. Empty if max_set_bits is below
    /// set_bits; fewer than there are groups in a salvaged profile.
    pub sets: Vec<LineData>,
    /// Spatially hashed sampling: for each group lines at random, in one set. A distance in a group stands for one
    /// 2^scale_bits times as long.
    pub full: Vec<LineData>,
}

/// Which lines a sampled run followed, the same ones in every process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Sampling {
    /// One line in 2^rate_bits, by both ways of sampling.
    pub rate_bits: u32,
    /// Caches of 2^set_bits sets or more have their sampled sets whole.
    pub set_bits: u32,
    /// 2^group_bits groups, each with one line in 2^(rate_bits + group_bits).
    pub group_bits: u32,
}

/// References of one owner under one tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct References {
    /// Whose.
    pub owner: Owner,
    /// Index into [`Process::tags`].
    pub tag: u32,
    /// By loads and by stores.
    pub count: [u64; 2],
}

/// Whose references a stack took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Owner {
    /// Those of one slot: a thread and those that took over its place after it ended.
    Slot(u32),
    /// Those of all threads, in issue order. Absent when there is only slot 0, whose stack it would repeat.
    #[default]
    Global,
}

/// Histograms of one stack under one tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct StackData {
    /// Whose references.
    pub owner: Owner,
    /// Index into [`Process::tags`].
    pub tag: u32,
    /// The counts.
    pub histograms: Histograms,
}

/// The stacks of one line size broken down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ItemLines {
    /// As in [`LineData`].
    pub line_bytes: u32,
    /// As in [`LineData`].
    pub max_set_bits: u32,
    /// As in [`LineData`].
    pub max_ways: u32,
    /// Sorted by owner, then tag, then item. The items of one owner and tag add up to its [`StackData`].
    pub stacks: Vec<ItemStack>,
}

/// What of one stack under one tag is attributed to one item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ItemStack {
    /// Whose references.
    pub owner: Owner,
    /// Index into [`Process::tags`].
    pub tag: u32,
    /// Index into [`Places::items`].
    pub item: u32,
    /// The counts, without [`SetHistograms::capacity`]. A write-back belongs to the store that made the line dirty.
    pub histograms: Histograms,
}

/// The counts of one stack, as sections 2 to 4 of the model define them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Histograms {
    /// References by loads and by stores.
    pub references: [u64; 2],
    /// Those to lines never referenced before, by loads and by stores.
    pub cold: [u64; 2],
    /// One set (fully associative), unbounded.
    pub full: FullHistograms,
    /// 2^1 ..= 2^max_set_bits sets: index 0 is two sets.
    pub sets: Vec<SetHistograms>,
}

/// Histograms for one set: bins, ascending, without empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct FullHistograms {
    /// `F_0` of loads.
    pub loads: Vec<Bin>,
    /// `F_0` of stores.
    pub stores: Vec<Bin>,
    /// `B_0`, stores part: dirty intervals closed by the next store. Value 0 is never counted.
    pub writebacks: Vec<Bin>,
    /// `B_0`, end part: `max(m, depth now)` of every line ever stored, value 0 included. A line with value v is still
    /// resident and dirty in a cache of w > v ways, and was written back by one of w <= v.
    pub resident: Vec<Bin>,
}

/// `count` values v with `lo <= v < hi`. Below 512 `hi == lo + 1`; above, edges lie at every multiple of 2^(k-8) in
/// [2^k, 2^(k+1)), so a bin never holds more than 2^(k-8) different values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Bin {
    /// Least value.
    pub lo: u64,
    /// One past the greatest value.
    pub hi: u64,
    /// How many.
    pub count: u64,
}

/// Histograms for 2^a sets, a >= 1. Index d < max_ways is the distance; index max_ways takes everything from there on
/// (cold references excluded). A vector may be shorter: what is missing is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SetHistograms {
    /// `F_a` of loads.
    pub loads: Vec<u64>,
    /// `F_a` of stores.
    pub stores: Vec<u64>,
    /// Count by `min(d_a, d_0 >> a)`, loads and stores together: the misses that remain when fully associative. Empty for
    /// items.
    pub capacity: Vec<u64>,
    /// `B_a`, stores part; index 0 is never counted.
    pub writebacks: Vec<u64>,
    /// `B_a`, end part, index 0 included; see [`FullHistograms::resident`].
    pub resident: Vec<u64>,
}

impl Histograms {
    /// References that found their line invalidated, by loads and by stores: neither cold nor at any distance. They miss
    /// in every cache.
    #[must_use]
    pub fn lost(&self) -> [u64; 2] {
        let at_a_distance = |bins: &[Bin]| bins.iter().map(|bin| bin.count).sum::<u64>();
        let [loads, stores] = [&self.full.loads, &self.full.stores].map(|bins| at_a_distance(bins));
        let lost = |kind: usize, near: u64| self.references[kind].saturating_sub(self.cold[kind]).saturating_sub(near);
        [lost(0, loads), lost(1, stores)]
    }
}

impl Sampling {
    /// Bits of the factor between a group and the program.
    #[must_use]
    pub const fn scale_bits(&self) -> u32 {
        self.rate_bits + self.group_bits
    }

    /// Set bits that a group's part of caches of up to 2^`max_set_bits` sets has; `None` if sets are not kept whole.
    #[must_use]
    pub const fn group_set_bits(&self, max_set_bits: u32) -> Option<u32> {
        if max_set_bits < self.set_bits { None } else { max_set_bits.checked_sub(self.scale_bits()) }
    }
}

impl Process {
    /// Line sizes, ascending, exact or sampled.
    pub fn line_sizes(&self) -> impl Iterator<Item = u32> + '_ {
        let exact = self.lines.iter().map(|data| data.line_bytes);
        exact.chain(self.sampled.iter().map(|data| data.line_bytes))
    }

    /// What a profile is sorted and made unique by: start time, host, pid, executable.
    #[must_use]
    pub fn key(&self) -> (u64, &str, u32, &str) {
        (self.meta.start_ns, &self.meta.host, self.meta.pid, &self.meta.executable)
    }
}

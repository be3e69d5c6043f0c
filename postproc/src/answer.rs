//! Answers as they are printed: every key of the schema `bf.query/1`, which `docs/json.md` describes.

use crate::{
    sampled::Sampled,
    sharing::Sharing,
    spec::{Scope, Shape},
    stack::{Counts, Figure, Model},
};
use serde::Serialize;

/// Schema of a query's answer.
pub const SCHEMA: &str = "bf.query/1";

/// What a hierarchy did with the references of a profile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Answer {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Files asked, in the order given.
    pub profiles: Vec<String>,
    /// Where the hierarchy came from; null if the caches were given one by one.
    pub machine: Option<String>,
    /// Tags asked for; empty for all references.
    pub tags: Vec<String>,
    /// Processes in the profile.
    pub processes: usize,
    /// Accesses recorded, of all tags.
    pub accesses: u64,
    /// References to the first level, `M_0`.
    pub references: u64,
    /// Those by loads.
    pub load_references: u64,
    /// Those by stores.
    pub store_references: u64,
    /// Nearest level first.
    pub levels: Vec<LevelAnswer>,
}

/// What one level did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LevelAnswer {
    /// The name given to it.
    pub name: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Line size, bytes.
    pub line_bytes: u32,
    /// Sets.
    pub sets: u64,
    /// Lines per set.
    pub ways: u64,
    /// Who uses it.
    pub scope: Scope,
    /// Whether a hashed index was asked for.
    pub hashed: bool,
    /// Whether it holds no line that a level above holds.
    pub exclusive: bool,
    /// Rule of the answer.
    pub model: Model,
    /// Accesses to this level: misses of the level above.
    pub references: u64,
    /// Those that hit.
    pub hits: u64,
    /// Those that miss.
    pub misses: u64,
    /// Misses of loads.
    pub load_misses: u64,
    /// Misses of stores.
    pub store_misses: u64,
    /// Misses of lines never referenced before.
    pub cold: u64,
    /// Misses that a fully associative cache of this size would have too; null where the rule has no such split.
    pub capacity: Option<u64>,
    /// The remaining misses; null where the rule has no such split.
    pub conflict: Option<u64>,
    /// Misses of lines that a store of another thread took out of the cache; null unless threads have several.
    pub coherence: Option<u64>,
    /// Lines that stores of other threads took out of caches of this level; null as above.
    pub invalidations_received: Option<u64>,
    /// The same by the thread that stored: the sums over all threads agree; null as above.
    pub invalidations_sent: Option<u64>,
    /// Misses that another cache of this level could have served; null as above.
    pub remote: Option<u64>,
    /// Dirty lines that another thread read or wrote, and that were passed on to its cache; null as above.
    pub dirty_transfers: Option<u64>,
    /// Accesses that go on to memory: the misses of the last level, without `remote`; null for the other levels.
    pub memory_accesses: Option<u64>,
    /// Dirty lines written back during the run; null where caches pass them on to each other.
    pub writebacks: Option<u64>,
    /// Dirty lines still resident at its end; null as above.
    pub resident_dirty: Option<u64>,
    /// Whether the misses had to be cut down to those of the level above.
    pub clamped: bool,
    /// Whether `misses` is an unclamped exact sum, and the level the first.
    pub exact: bool,
    /// Interval of `misses` where the rule is interpolated or bounded.
    pub bounds: Option<[u64; 2]>,
    /// Interval of `writebacks`, likewise.
    pub writeback_bounds: Option<[u64; 2]>,
    /// `unfiltered` below the first level: it is fed with all references, not with the misses above it;
    /// `approximate` for an exclusive level.
    pub approximation: Option<&'static str>,
    /// Hits that a fully associative cache of this size would not have; null where the rule has no such split.
    pub hits_beyond_full: Option<u64>,
    /// Bytes exchanged with the level below: (misses + write-backs) times line size; null where write-backs are.
    pub traffic_bytes: Option<u64>,
    /// `misses / references`; null without references.
    pub local_miss_ratio: Option<f64>,
    /// `misses` by the references to the first level; null without any.
    pub global_miss_ratio: Option<f64>,
    /// Caches of this level over all processes: one a thread if private, one a process if shared.
    pub caches: usize,
    /// What a reader should know about the figures; null if nothing.
    pub note: Option<String>,
    /// How sure the figures are that were estimated from a sample; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Per figure: least, median and greatest over the processes; null for one process.
    pub spread: Option<Spread>,
    /// The threads of a private level, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadAnswer>>,
    /// The caches of a level whose threads were divided into groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupAnswer>>,
}

/// What the cache of one group of threads did.
#[derive(Clone, Debug, Serialize)]
pub struct GroupAnswer {
    /// Process id; absent in a profile of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Whose references reach it, as [`ThreadAnswer::thread`].
    pub threads: Vec<u32>,
    /// Accesses to it.
    pub references: u64,
    /// Those that miss.
    pub misses: u64,
}

/// What one thread's cache of a private level did.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadAnswer {
    /// Process id; absent in a profile of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Number of the thread in the trace, or of the slot in a run: threads that took over the place of one that had ended
    /// count as one with it.
    pub thread: u32,
    /// Accesses to this level.
    pub references: u64,
    /// Those that miss.
    pub misses: u64,
    /// Lines that stores of other threads took out of this cache; null if the profile does not tell.
    pub invalidations: Option<u64>,
    /// Misses that another thread's cache of this level could have served; null as above.
    pub remote: Option<u64>,
}

/// Least, median and greatest of one figure over the processes of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Least.
    pub min: u64,
    /// The middle one; of an even number the mean of the middle two, rounded down.
    pub median: u64,
    /// Greatest.
    pub max: u64,
}

impl Range {
    /// Over these values; all zero if there are none.
    #[must_use]
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let Some((&min, &max)) = values.first().zip(values.last()) else { return Self::default() };
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Self { min, median: low.midpoint(high), max }
    }
}

/// [`Range`] of each figure of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Of `references`.
    pub references: Range,
    /// Of `hits`.
    pub hits: Range,
    /// Of `misses`.
    pub misses: Range,
    /// Of `load_misses`.
    pub load_misses: Range,
    /// Of `store_misses`.
    pub store_misses: Range,
    /// Of `cold`.
    pub cold: Range,
    /// Of `capacity`.
    pub capacity: Option<Range>,
    /// Of `conflict`.
    pub conflict: Option<Range>,
    /// Of `coherence`.
    pub coherence: Option<Range>,
    /// Of `writebacks`.
    pub writebacks: Option<Range>,
    /// Of `resident_dirty`.
    pub resident_dirty: Option<Range>,
    /// Of `traffic_bytes`.
    pub traffic_bytes: Option<Range>,
}

/// What one level did with the references of one thread, one process, or several: clamped, and added up.
#[derive(Clone, Debug)]
pub struct LevelCounts {
    /// Accesses that reach the level.
    pub accesses: u64,
    /// What the level did with them.
    pub counts: Counts,
    /// Whether misses were cut down to `accesses`.
    pub clamped: bool,
    /// Caches added up.
    pub caches: usize,
    /// Whether they are several private ones of one process.
    pub several: bool,
    /// Each cache's.
    pub units: Vec<UnitCounts>,
}

/// What one cache did.
#[derive(Clone, Debug)]
pub struct UnitCounts {
    /// Process.
    pub pid: u32,
    /// Whose references it got, ascending.
    pub slots: Vec<u32>,
    /// Accesses that reach the level.
    pub accesses: u64,
    /// What the cache did with them, clamped.
    pub counts: Counts,
}

impl LevelCounts {
    /// Nothing yet.
    #[must_use]
    pub fn none() -> Self {
        let (counts, units) = (Counts::none(), Vec::new());
        Self { accesses: 0, counts, clamped: false, caches: 0, several: false, units }
    }

    /// Of a single cache, one of several private ones perhaps.
    #[must_use]
    pub fn of(unit: UnitCounts, clamped: bool, several: bool) -> Self {
        let (accesses, counts) = (unit.accesses, unit.counts.clone());
        Self { accesses, counts, clamped, caches: 1, several, units: vec![unit] }
    }

    /// Adds those of another cache.
    pub fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.counts += &other.counts;
        self.clamped |= other.clamped;
        self.caches += other.caches;
        self.several |= other.several;
        self.units.extend_from_slice(&other.units);
    }

    fn misses(&self) -> u64 {
        self.counts.total().value
    }

    fn hits(&self) -> u64 {
        self.accesses - self.misses()
    }

    fn conflict(&self) -> Option<u64> {
        let coherence = self.counts.sharing.map_or(0, |sharing| sharing.coherence.value);
        self.counts.capacity.map(|capacity| self.misses() - self.counts.cold - coherence - capacity)
    }

    /// What private caches did to each other; `None` where there are not several of them, or the profile does not tell.
    fn sharing(&self) -> Option<Sharing> {
        self.counts.sharing.filter(|_| self.several)
    }

    /// Write-backs and the dirty lines left, where no cache takes a dirty line from another.
    pub(crate) fn dirty(&self) -> Option<(Figure, u64)> {
        let own = self.sharing().is_none() && self.counts.lost == 0 && self.counts.model != Model::Composed;
        own.then_some((self.counts.writebacks, self.counts.resident_dirty))
    }

    fn traffic(&self, line: u32) -> Option<u64> {
        self.dirty().map(|(writebacks, _)| (self.misses() + writebacks.value) * u64::from(line))
    }
}

/// Spread of a level over its processes; `None` for a single one.
#[must_use]
pub fn spread(line: u32, processes: &[&LevelCounts]) -> Option<Spread> {
    if processes.len() < 2 {
        return None;
    }
    let range = |figure: &dyn Fn(&LevelCounts) -> u64| Range::of(processes.iter().map(|level| figure(level)).collect());
    let some = |figure: &dyn Fn(&LevelCounts) -> Option<u64>| {
        processes.iter().map(|level| figure(level)).collect::<Option<Vec<_>>>().map(Range::of)
    };
    Some(Spread {
        references: range(&|level| level.accesses),
        hits: range(&LevelCounts::hits),
        misses: range(&LevelCounts::misses),
        load_misses: range(&|level| level.counts.misses[0].value),
        store_misses: range(&|level| level.counts.misses[1].value),
        cold: range(&|level| level.counts.cold),
        capacity: some(&|level| level.counts.capacity),
        conflict: some(&LevelCounts::conflict),
        coherence: some(&|level| level.sharing().map(|sharing| sharing.coherence.value)),
        writebacks: some(&|level| level.dirty().map(|(writebacks, _)| writebacks.value)),
        resident_dirty: some(&|level| level.dirty().map(|(_, resident)| resident)),
        traffic_bytes: some(&|level| level.traffic(line)),
    })
}

/// What the answer for a level depends on besides its counts.
#[derive(Debug)]
pub struct Context {
    /// `M_0`.
    pub all: u64,
    /// Whether it is the first level.
    pub first: bool,
    /// Whether it is the last one.
    pub last: bool,
    /// Whether threads are told apart.
    pub by_thread: bool,
    /// The most histograms there are, as bits of the set count.
    pub max_set_bits: u32,
    /// Spread over the processes.
    pub spread: Option<Spread>,
}

impl LevelAnswer {
    /// The answer for a level of `shape`.
    #[must_use]
    pub fn new(shape: &Shape, level: &LevelCounts, context: Context) -> Self {
        let counts = &level.counts;
        let misses = counts.total();
        let doubtful = matches!(counts.model, Model::Bounded | Model::Interpolated);
        // A sum of exact misses can still hold write-backs that are only known within bounds.
        let (dirty, sharing) = (level.dirty(), level.sharing());
        let several = context.spread.is_some();
        let open = dirty.map(|(writebacks, _)| writebacks).filter(|writebacks| writebacks.lo != writebacks.hi);
        let figure = |of: fn(&Sharing) -> Figure| sharing.as_ref().map(|sharing| of(sharing).value);
        let ratio = |of: u64| (of > 0).then(|| misses.value as f64 / of as f64);
        Self {
            name: shape.name.clone(),
            size_bytes: shape.size,
            line_bytes: shape.line,
            sets: shape.sets,
            ways: shape.ways,
            scope: shape.scope,
            hashed: shape.hashed,
            exclusive: shape.exclusive,
            model: counts.model,
            references: level.accesses,
            hits: level.hits(),
            misses: misses.value,
            load_misses: counts.misses[0].value,
            store_misses: counts.misses[1].value,
            cold: counts.cold,
            capacity: counts.capacity,
            conflict: level.conflict(),
            coherence: figure(|sharing| sharing.coherence),
            invalidations_received: figure(|sharing| sharing.received),
            invalidations_sent: figure(|sharing| sharing.sent),
            remote: figure(|sharing| sharing.remote),
            dirty_transfers: figure(|sharing| sharing.dirty),
            memory_accesses: context.last.then(|| misses.value - figure(|sharing| sharing.remote).unwrap_or(0)),
            writebacks: dirty.map(|(writebacks, _)| writebacks.value),
            resident_dirty: dirty.map(|(_, resident)| resident),
            clamped: level.clamped,
            exact: context.first && counts.model == Model::Lru && !level.clamped && counts.sample.is_none(),
            bounds: doubtful.then_some([misses.lo, misses.hi]),
            writeback_bounds: open.map(|writebacks| [writebacks.lo, writebacks.hi]),
            approximation: match (context.first, shape.exclusive) {
                (true, _) => None,
                (false, true) => Some("approximate"),
                (false, false) => Some("unfiltered"),
            },
            hits_beyond_full: counts.hits_beyond_full,
            traffic_bytes: level.traffic(shape.line),
            local_miss_ratio: ratio(level.accesses),
            global_miss_ratio: ratio(context.all),
            caches: level.caches,
            note: note(shape, level, &context),
            sampled: Sampled::new(counts, context.all),
            spread: context.spread,
            threads: (context.by_thread && shape.scope == Scope::Private).then(|| threads(&level.units, several)),
            groups: (counts.model == Model::Composed).then(|| groups(&level.units, several)),
        }
    }
}

/// The caches that groups of threads share, as an answer shows them; of `several` processes with their ids.
fn groups(units: &[UnitCounts], several: bool) -> Vec<GroupAnswer> {
    let answer = |unit: &UnitCounts| GroupAnswer {
        pid: several.then_some(unit.pid),
        threads: unit.slots.clone(),
        references: unit.accesses,
        misses: unit.counts.total().value,
    };
    units.iter().map(answer).collect()
}

/// The threads of a level, likewise.
fn threads(units: &[UnitCounts], several: bool) -> Vec<ThreadAnswer> {
    let answer = |thread: &UnitCounts| ThreadAnswer {
        pid: several.then_some(thread.pid),
        thread: thread.slots[0],
        references: thread.accesses,
        misses: thread.counts.total().value,
        invalidations: thread.counts.sharing.map(|sharing| sharing.received.value),
        remote: thread.counts.sharing.map(|sharing| sharing.remote.value),
    };
    units.iter().map(answer).collect()
}

/// What a reader should know about a level's figures.
fn note(shape: &Shape, level: &LevelCounts, context: &Context) -> Option<String> {
    let (counts, mut notes) = (&level.counts, Vec::new());
    match counts.model {
        Model::Bounded => notes.push(format!(
            "{} sets, but the profile holds histograms up to {}: between {} and {} misses; record with \
             BF_MAX_SET_BITS={bits} or compile with -bf-max-set-bits={bits} for the exact number",
            shape.sets,
            1u64 << context.max_set_bits,
            counts.total().lo,
            counts.total().hi,
            bits = shape.sets.ilog2(),
        )),
        Model::Interpolated => notes.push(format!(
            "the size lies between two edges of the histogram: between {} and {} misses",
            counts.total().lo,
            counts.total().hi
        )),
        Model::Hashed => notes.push("hashed index: expected value for lines that land in sets at random".to_owned()),
        Model::Composed => notes.push(
            "composed of the footprints of each cache's threads: an estimate, without invalidations between the groups"
                .to_owned(),
        ),
        Model::Lru => {}
    }
    if let Some(sample) = &counts.sample {
        let what = if sample.of_sets { "set" } else { "line at random" };
        notes.push(format!("estimated from 1 {what} in {}", 1_u64 << sample.rate_bits));
    }
    if shape.exclusive && !context.first {
        notes.push("exclusive: taken as one cache together with the levels above".to_owned());
    }
    if level.clamped {
        let why = if counts.sample.is_some() { "by the estimates" } else { "for want of sets or ways" };
        notes.push(format!("more misses than accesses reach it, {why}: clamped"));
    }
    if level.several && counts.sharing.is_none() {
        notes.push(match (counts.lost, &counts.sample) {
            (0, Some(_)) => {
                "each thread's cache alone: a sample does not tell of invalidations between them".to_owned()
            }
            (0, None) => {
                "each thread's cache alone: the profile does not tell of invalidations between them; record it \
                          with this version of bf"
                    .to_owned()
            }
            (_, _) => "the profile has lost its coherence counts: misses hold, their kinds are unknown".to_owned(),
        });
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(Range::of(vec![5, 1, 9]), Range { min: 1, median: 5, max: 9 });
        assert_eq!(Range::of(vec![5, 2, 9, 1]), Range { min: 1, median: 3, max: 9 });
        assert_eq!(Range::of(vec![]), Range::default());
    }
}

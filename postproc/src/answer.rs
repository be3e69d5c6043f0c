//! Answers as they are printed: every key of the schema `bf.query/1`, which `docs/json.md` describes.

use crate::{
    sampled::Sampled,
    spec::{Scope, Shape},
    stack::{Counts, Model},
};
use serde::Serialize;

/// Schema of a query's answer.
pub const SCHEMA: &str = "bf.query/1";

/// What a hierarchy did with the references of a profile.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
    /// Dirty lines written back during the run.
    pub writebacks: u64,
    /// Dirty lines still resident at its end.
    pub resident_dirty: u64,
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
    /// Bytes exchanged with the level below: (misses + write-backs) times line size.
    pub traffic_bytes: u64,
    /// `misses / references`; null without references.
    pub local_miss_ratio: Option<f64>,
    /// `misses` by the references to the first level; null without any.
    pub global_miss_ratio: Option<f64>,
    /// Caches of this level over all processes: one a thread if private, one a process if shared.
    pub caches: usize,
    /// Invalidations between private caches: not modelled yet, always null.
    pub coherence: Option<()>,
    /// What a reader should know about the figures; null if nothing.
    pub note: Option<String>,
    /// How sure the figures are that were estimated from a sample; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Per figure: least, median and greatest over the processes; null for one process.
    pub spread: Option<Spread>,
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
    /// Of `writebacks`.
    pub writebacks: Range,
    /// Of `resident_dirty`.
    pub resident_dirty: Range,
    /// Of `traffic_bytes`.
    pub traffic_bytes: Range,
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
}

impl LevelCounts {
    /// Nothing yet.
    #[must_use]
    pub fn none() -> Self {
        Self { accesses: 0, counts: Counts::none(), clamped: false, caches: 0 }
    }

    /// Adds those of another cache.
    pub fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.counts += &other.counts;
        self.clamped |= other.clamped;
        self.caches += other.caches;
    }

    fn misses(&self) -> u64 {
        self.counts.total().value
    }

    fn hits(&self) -> u64 {
        self.accesses - self.misses()
    }

    fn conflict(&self) -> Option<u64> {
        self.counts.capacity.map(|capacity| self.misses() - self.counts.cold - capacity)
    }

    fn traffic(&self, line: u32) -> u64 {
        (self.misses() + self.counts.writebacks.value) * u64::from(line)
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
        writebacks: range(&|level| level.counts.writebacks.value),
        resident_dirty: range(&|level| level.counts.resident_dirty),
        traffic_bytes: range(&|level| level.traffic(line)),
    })
}

/// What the answer for a level depends on besides its counts.
#[derive(Debug)]
pub struct Context {
    /// `M_0`.
    pub all: u64,
    /// Whether it is the first level.
    pub first: bool,
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
        let open = counts.writebacks.lo != counts.writebacks.hi;
        let ratio = |of: u64| (of > 0).then(|| misses.value as f64 / of as f64);
        Self {
            name: shape.name.clone(),
            size_bytes: shape.size,
            line_bytes: shape.line,
            sets: shape.sets,
            ways: shape.ways,
            scope: shape.scope,
            model: counts.model,
            references: level.accesses,
            hits: level.hits(),
            misses: misses.value,
            load_misses: counts.misses[0].value,
            store_misses: counts.misses[1].value,
            cold: counts.cold,
            capacity: counts.capacity,
            conflict: level.conflict(),
            writebacks: counts.writebacks.value,
            resident_dirty: counts.resident_dirty,
            clamped: level.clamped,
            exact: context.first && counts.model == Model::Lru && !level.clamped && counts.sample.is_none(),
            bounds: doubtful.then_some([misses.lo, misses.hi]),
            writeback_bounds: open.then_some([counts.writebacks.lo, counts.writebacks.hi]),
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
            coherence: None,
            note: note(shape, level, &context),
            sampled: counts.sample.as_ref().map(|sample| Sampled::new(sample, context.all)),
            spread: context.spread,
        }
    }
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
    if shape.scope == Scope::Private && level.caches > 1 {
        notes.push("each thread's cache alone: invalidations between them are not modelled".to_owned());
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

//! How alike two programs are: whether a mini-app stands in for its parent.
//!
//! Comes in: two profiles, each perhaps of many processes. Goes out: a score for each aspect that both tell about, with the
//! reason in words, and a verdict. `docs/compare.md` has the method, its weights and what they were calibrated on. Amounts
//! are never compared, only proportions: a mini-app has less data and runs for a shorter time.

mod aspects;
pub mod change;
pub mod distance;
mod locality;
mod matching;
mod parts;
mod search;
pub mod significance;
mod words;
mod work;

use crate::{
    counters,
    error::QueryError,
    query::{Query, line_sizes, query},
    spec::{Cache, DEFAULT_LINE},
};
use bf_profile::Profile;
use locality::{Locality, lines, size_of};
use matching::Pair;
pub use parts::{Part, Parts};
pub use search::{DifferMost, SameCache};
use serde::Serialize;
use std::{collections::BTreeSet, fmt};

/// Schema of the answer, which `docs/json.md` describes.
pub const SCHEMA: &str = "bf.compare/1";

/// A score from here on is called faithful: what matters differs by a factor of 1.25 at most ...
pub const FAITHFUL: f64 = 0.8;
/// ... from here on partly so, by 1.5 at most; and below unfaithful.
pub const PARTLY: f64 = 0.67;

/// One of the two that are compared.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// Files it was read from.
    pub profiles: Vec<String>,
    /// What they hold, taken as one.
    pub profile: &'a Profile,
}

/// How to compare.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Only what ran under these tags; empty: all.
    pub tags: Vec<String>,
    /// Line size; `None`: 64 bytes, or the least that both have.
    pub line_bytes: Option<u32>,
    /// A hierarchy to show figures of, nearest level first; empty: none.
    pub levels: Vec<Cache>,
    /// Where it came from.
    pub machine: Option<String>,
}

/// Two profiles that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// No line size that both have.
    #[error("A holds line sizes {a}, B holds {b}: record one with BF_LINE_SIZE as the other was")]
    Line {
        /// Those of the first.
        a: String,
        /// Those of the second.
        b: String,
    },
    /// A side without references.
    #[error("{0} holds no references{1}")]
    Nothing(&'static str, &'static str),
    /// A side that does not answer.
    #[error("{0}: {1}")]
    Query(&'static str, QueryError),
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What the score amounts to.
    pub verdict: Verdict,
    /// 0 to 1: the least essential aspect, or the weighted mean of all if that is less.
    pub score: f64,
    /// The first side.
    pub a: Subject,
    /// The second side.
    pub b: Subject,
    /// Tags asked for; empty for all references.
    pub tags: Vec<String>,
    /// Line size of every figure about caches, bytes.
    pub line_bytes: u32,
    /// What was compared, most weight first.
    pub aspects: Vec<Aspect>,
    /// What was not, and why.
    pub not_compared: Vec<NotCompared>,
    /// Where they are least alike.
    pub differ_most: DifferMost,
    /// Miss ratios at equal capacities, from 4 lines to the larger working set.
    pub curves: Vec<CurvePoint>,
    /// Miss ratios at matched capacities.
    pub matched: Vec<MatchedPoint>,
    /// Where the hierarchy that was asked about came from; null if none was, or its caches were given one by one.
    pub machine: Option<String>,
    /// The hierarchy that was asked about.
    pub levels: Vec<LevelPair>,
    /// Why there are no levels; null if there are, or none was asked about.
    pub levels_error: Option<String>,
    /// By function; null where nothing can be told apart.
    pub functions: Option<Parts>,
    /// By tag; null without tags.
    pub by_tag: Option<Parts>,
}

/// What a score amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// At least [`FAITHFUL`].
    Faithful,
    /// At least [`PARTLY`].
    Partly,
    /// Less.
    Unfaithful,
}

impl Verdict {
    /// Of a score.
    #[must_use]
    pub fn of(score: f64) -> Self {
        match score {
            score if score >= FAITHFUL => Self::Faithful,
            score if score >= PARTLY => Self::Partly,
            _ => Self::Unfaithful,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faithful => "faithful",
            Self::Partly => "partly faithful",
            Self::Unfaithful => "unfaithful",
        })
    }
}

/// The size of one side, which is not compared.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    /// Files asked, in the order given.
    pub profiles: Vec<String>,
    /// Names of the executables, none twice.
    pub executables: Vec<String>,
    /// Processes.
    pub processes: usize,
    /// Threads of all of them.
    pub threads: u64,
    /// References.
    pub references: u64,
    /// Part of the references that every cache misses: the first to a line, or after another thread took it.
    pub first_references: f64,
    /// Bytes referenced, mean of all private caches.
    pub footprint_bytes: u64,
    /// The least cache that misses no more than 1 in 1000 of all other references.
    pub working_set_bytes: u64,
    /// Whether the figures are estimates from a sample.
    pub sampled: bool,
}

/// One aspect that was compared.
#[derive(Clone, Debug, Serialize)]
pub struct Aspect {
    /// Which.
    pub name: &'static str,
    /// 0 to 1, 1 for no difference.
    pub score: f64,
    /// Reason in words, with the figures.
    pub why: String,
    /// Its part in the mean.
    pub weight: f64,
    /// Whether the verdict can be no better than it allows.
    pub essential: bool,
}

/// One that was not.
#[derive(Clone, Debug, Serialize)]
pub struct NotCompared {
    /// Which.
    pub name: &'static str,
    /// Reason in words, and the mend where there is one.
    pub why: String,
}

/// Miss ratios of both in the same fully associative cache, without what every cache misses.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    /// Its size.
    pub size_bytes: u64,
    /// Other misses by other references; null where a sample does not tell.
    pub a_miss_ratio: Option<f64>,
    /// The same of the second side.
    pub b_miss_ratio: Option<f64>,
}

/// The same in fully associative caches that stand for each other.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MatchedPoint {
    /// Size of the first side's cache.
    pub a_bytes: u64,
    /// Size of the second side's.
    pub b_bytes: u64,
    /// As in [`CurvePoint`].
    pub a_miss_ratio: f64,
    /// As in [`CurvePoint`].
    pub b_miss_ratio: f64,
    /// How alike these are, 0 to 1.
    pub alike: f64,
}

/// One level of a hierarchy, for both.
#[derive(Clone, Debug, Serialize)]
pub struct LevelPair {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Size of the cache of A that stands for it, by the matching; null if it is larger than both working sets.
    pub a_matched_bytes: Option<u64>,
    /// Of the first side.
    pub a: LevelFigures,
    /// Of the second.
    pub b: LevelFigures,
}

/// What a level did, as `bf query` has it.
#[derive(Clone, Debug, Serialize)]
pub struct LevelFigures {
    /// Misses by all references; null without any.
    pub miss_ratio: Option<f64>,
    /// Bytes exchanged with the level below for each floating-point operation; null if one of them is unknown.
    pub bytes_per_flop: Option<f64>,
}

/// What the aspects are made from.
struct Context<'a> {
    profiles: [&'a Profile; 2],
    tags: &'a [String],
    line: u32,
    curves: [Locality; 2],
    pairs: Vec<Pair>,
    counters: [counters::Values<'a>; 2],
}

impl Context<'_> {
    fn bytes(&self, size: usize) -> u64 {
        lines(size) * u64::from(self.line)
    }
}

/// A score and its reason, or why there is none.
type Outcome = Result<(f64, String), String>;

const SIDES: [&str; 2] = ["A", "B"];

/// Compares two sides.
///
/// # Errors
/// They have nothing that can be compared, or a tag that was asked for is missing.
pub fn compare(a: &Side<'_>, b: &Side<'_>, question: &Question) -> Result<Comparison, CompareError> {
    let profiles = [a.profile, b.profile];
    let line = common_line(profiles, question.line_bytes)?;
    let curve = |side: usize| {
        let found = Locality::of(profiles[side], line, &question.tags);
        let found = found.map_err(|error| CompareError::Query(SIDES[side], error))?;
        let under = if question.tags.is_empty() { "" } else { " under the tags asked for" };
        if found.references > 0 { Ok(found) } else { Err(CompareError::Nothing(SIDES[side], under)) }
    };
    let curves = [curve(0)?, curve(1)?];
    let pairs = matching::matching(&curves[0], &curves[1]);
    let counters = profiles.map(|profile| counters::totals(profile, &question.tags));
    let context = Context { profiles, tags: &question.tags, line, curves, pairs, counters };
    let (functions, by_function) = parts::functions(&context);
    let (by_tag, under_tags) = parts::tags(&context);
    let outcomes = [
        ("miss_ratio", 3.0, true, aspects::miss_ratio(&context)),
        ("instruction_mix", 2.0, true, work::instruction_mix(&context)),
        ("reuse_distance", 1.0, true, aspects::reuse_distance(&context)),
        ("bytes_per_flop", 1.0, true, work::bytes_per_flop(&context)),
        ("associativity", 1.0, false, aspects::associativity(&context)),
        ("write_backs", 1.0, false, aspects::write_backs(&context)),
        ("branches", 1.0, false, work::branches(&context)),
        ("vectorisation", 1.0, false, work::vectorisation(&context)),
        ("strides", 1.0, false, work::strides(&context)),
        ("sharing", 1.0, false, aspects::sharing(&context)),
        ("functions", 1.0, false, by_function),
        ("tags", 1.0, false, under_tags),
        ("reuse_time", 0.0, false, aspects::reuse_time()),
    ];
    let (mut aspects, mut not_compared) = (Vec::new(), Vec::new());
    for (name, weight, essential, outcome) in outcomes {
        match outcome {
            Ok((score, why)) => aspects.push(Aspect { name, score: score.clamp(0.0, 1.0), why, weight, essential }),
            Err(why) => not_compared.push(NotCompared { name, why }),
        }
    }
    let score = overall(&aspects);
    let (levels, levels_error) = levels(&context, &question.levels);
    Ok(Comparison {
        schema: SCHEMA,
        verdict: Verdict::of(score),
        score,
        a: subject(a, &context, 0),
        b: subject(b, &context, 1),
        tags: question.tags.clone(),
        line_bytes: line,
        aspects,
        not_compared,
        differ_most: search::differ_most(&context),
        curves: curve_points(&context),
        matched: context.pairs.iter().map(|pair| matched(&context, pair)).collect(),
        machine: question.machine.clone().filter(|_| !levels.is_empty()),
        levels,
        levels_error,
        functions,
        by_tag,
    })
}

/// The line size that both are asked about.
fn common_line(profiles: [&Profile; 2], asked: Option<u32>) -> Result<u32, CompareError> {
    let [a, b] = profiles.map(line_sizes);
    let both: Vec<u32> = a.iter().copied().filter(|line| b.contains(line)).collect();
    let found = match asked {
        Some(line) => both.contains(&line).then_some(line),
        None => both.iter().copied().find(|&line| line == DEFAULT_LINE).or_else(|| both.first().copied()),
    };
    let named = SIDES.into_iter().zip([&a, &b]);
    if let Some((name, _)) = named.into_iter().find(|(_, sizes)| sizes.is_empty()) {
        return Err(CompareError::Nothing(name, ": nothing of its memory was recorded, as with -bf-counters-only"));
    }
    let list = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| CompareError::Line { a: list(&a), b: list(&b) })
}

/// The score of all aspects: a proxy is as good as its weakest part that matters, and no better than on the whole.
fn overall(aspects: &[Aspect]) -> f64 {
    let weights: f64 = aspects.iter().map(|aspect| aspect.weight).sum();
    let mean = aspects.iter().map(|aspect| aspect.weight * aspect.score).sum::<f64>() / weights;
    let essential = aspects.iter().filter(|aspect| aspect.essential);
    let least = essential.map(|aspect| aspect.score).fold(1.0, f64::min);
    mean.min(least)
}

fn subject(side: &Side<'_>, context: &Context<'_>, index: usize) -> Subject {
    let curve = &context.curves[index];
    let processes = &side.profile.processes;
    let executables: BTreeSet<&str> = processes.iter().map(|process| process.meta.executable.as_str()).collect();
    Subject {
        profiles: side.profiles.clone(),
        executables: executables.into_iter().map(str::to_owned).collect(),
        processes: processes.len(),
        threads: processes.iter().map(|process| u64::from(process.meta.threads)).sum(),
        references: curve.references,
        first_references: curve.unavoidable as f64 / curve.references as f64,
        footprint_bytes: curve.footprint * u64::from(context.line),
        working_set_bytes: context.bytes(curve.working_set),
        sampled: processes.iter().any(|process| !process.sampled.is_empty()),
    }
}

fn curve_points(context: &Context<'_>) -> Vec<CurvePoint> {
    let [a, b] = &context.curves;
    let ratio = |curve: &Locality, size| (size >= curve.least).then(|| curve.ratio(size));
    let point = |size| CurvePoint {
        size_bytes: context.bytes(size),
        a_miss_ratio: ratio(a, size),
        b_miss_ratio: ratio(b, size),
    };
    (0..=a.working_set.max(b.working_set)).map(point).collect()
}

fn matched(context: &Context<'_>, pair: &Pair) -> MatchedPoint {
    let [a, b] = &context.curves;
    MatchedPoint {
        a_bytes: context.bytes(pair.a),
        b_bytes: context.bytes(pair.b),
        a_miss_ratio: a.ratio(pair.a),
        b_miss_ratio: b.ratio(pair.b),
        alike: pair.alike,
    }
}

/// What a hierarchy does with both, level by level.
fn levels(context: &Context<'_>, caches: &[Cache]) -> (Vec<LevelPair>, Option<String>) {
    if caches.is_empty() {
        return (Vec::new(), None);
    }
    let question = Query { levels: caches.to_vec(), tags: context.tags.to_vec(), ..Query::default() };
    let mut answers = Vec::new();
    for (name, profile) in SIDES.into_iter().zip(context.profiles) {
        match query(profile, &question) {
            Ok(answer) => answers.push(answer),
            Err(error) => return (Vec::new(), Some(format!("{name}: {error}"))),
        }
    }
    let figures = |side: usize, level: usize| {
        let level = &answers[side].levels[level];
        let flops = context.counters[side].get("flops").copied().filter(|&flops| flops > 0);
        let per_flop = |bytes| flops.map(|flops| bytes as f64 / flops as f64);
        LevelFigures { miss_ratio: level.global_miss_ratio, bytes_per_flop: level.traffic_bytes.and_then(per_flop) }
    };
    let level = |(index, cache): (usize, &Cache)| {
        let size = size_of(cache.size / u64::from(context.line));
        let pair = context.pairs.iter().rev().find(|pair| pair.b == size);
        LevelPair {
            name: cache.name.clone(),
            size_bytes: cache.size,
            a_matched_bytes: pair.map(|pair| context.bytes(pair.a)),
            a: figures(0, index),
            b: figures(1, index),
        }
    };
    (caches.iter().enumerate().map(level).collect(), None)
}

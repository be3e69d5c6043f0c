//! Questions in JSON, answers in JSON.

use bf_postproc::{
    Cache, Query, QueryError, SpecError, Ways,
    attribution::{self, Attribution, By, Figures, attribute},
    curve::{self, CurvePoint, Knee},
    names::shortened,
    phases,
    spec::Scope,
    sweep::{Sweep, sweep},
};
use bf_profile::Profile;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The profiles of a page.
#[derive(Debug, Default)]
pub struct Page {
    profiles: Vec<Profile>,
}

/// What can be asked of a profile of the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
pub enum Question {
    /// What a hierarchy does: the answer of `bf query`.
    Query {
        /// Number of the profile, from 0, in the order of loading.
        profile: usize,
        /// As `--cache` takes them.
        caches: Vec<String>,
        /// As `--tag`.
        #[serde(default)]
        tags: Vec<String>,
    },
    /// What many caches do, one at a time: the answer of `bf sweep`.
    Sweep {
        /// As above.
        profile: usize,
        /// Bytes.
        sizes: Vec<u64>,
        /// Numbers, or `full`.
        ways: Vec<String>,
        /// Line size, bytes; null: 64, or the profile's only one.
        line: Option<u32>,
        /// Who uses the caches.
        scope: Scope,
        /// Whether lines land in sets as if at random.
        hashed: bool,
        /// As above.
        #[serde(default)]
        tags: Vec<String>,
    },
    /// The miss ratios of fully associative caches and where they fall: the curve and knees of `bf report`.
    Curve {
        /// As above.
        profile: usize,
        /// As above.
        #[serde(default)]
        tags: Vec<String>,
    },
    /// A hierarchy by place: the rows of `bf report --by`, the most of `sort` first.
    By {
        /// As above.
        profile: usize,
        /// As above.
        caches: Vec<String>,
        /// As above.
        #[serde(default)]
        tags: Vec<String>,
        /// What rows stand for.
        by: By,
        /// The figure that rows are sorted by.
        sort: String,
        /// How many rows.
        top: usize,
    },
    /// A hierarchy by line of a source file: the figures of `bf annotate`.
    Lines {
        /// As above.
        profile: usize,
        /// As above.
        caches: Vec<String>,
        /// As above.
        #[serde(default)]
        tags: Vec<String>,
        /// Path of the file, as the answer to [`Question::By`] has it.
        file: String,
    },
}

/// What is wrong with a question.
#[derive(Debug, Serialize)]
struct Refusal {
    error: String,
}

/// A profile that was taken in.
#[derive(Debug, Serialize)]
struct Loaded {
    profile: usize,
    /// Line sizes that it holds, ascending, bytes.
    line_sizes: Vec<u32>,
    /// Distances below this are kept for more than one set; the least over all line sizes.
    max_ways: u32,
    /// Slices of time by number, each with the tags that make it up; none if the run was not cut.
    phases: BTreeMap<u32, Vec<String>>,
    /// Tags, whole and in each slice; without what a phase is by itself.
    tags: Vec<String>,
    /// Whether it can be asked by place.
    by_place: bool,
}

/// The answer to [`Question::Curve`].
#[derive(Debug, Serialize)]
struct Curve {
    line_bytes: u32,
    curve: Vec<CurvePoint>,
    knees: Vec<Knee>,
}

/// The answer to [`Question::By`].
#[derive(Debug, Serialize)]
struct Breakdown {
    /// Rows there are.
    all: usize,
    totals: Map<String, Value>,
    /// What a row is, its name as tables have it (`short`), and its figures, side by side.
    items: Vec<Map<String, Value>>,
}

/// The answer to [`Question::Lines`].
#[derive(Debug, Serialize)]
struct Lines {
    totals: Map<String, Value>,
    lines: BTreeMap<u32, Map<String, Value>>,
}

impl Page {
    /// A page without profiles.
    #[must_use]
    pub const fn new() -> Self {
        Self { profiles: Vec::new() }
    }

    /// Takes in the bytes of a profile; what is known of it, or `{"error": …}`, as JSON.
    pub fn load(&mut self, bytes: &[u8]) -> String {
        json(&bf_profile::read(bytes).map_err(|error| error.to_string()).map(|profile| {
            let limits = profile.processes.iter().flat_map(|process| &process.lines).map(|data| data.max_ways);
            let sampled = profile.processes.iter().flat_map(|process| &process.sampled).map(|data| data.max_ways);
            let phases = phases::slices(&profile, &[]).unwrap_or_default();
            let mut tags = phases::names(&profile);
            let is_phase = |tag: &String| phases.values().any(|of| matches!(&of[..], [only] if only == tag));
            tags.retain(|tag| !tag.starts_with('@') || !is_phase(tag));
            let loaded = Loaded {
                profile: self.profiles.len(),
                line_sizes: bf_postproc::query::line_sizes(&profile),
                max_ways: limits.chain(sampled).min().unwrap_or(0),
                phases,
                tags,
                by_place: profile.processes.iter().any(|process| !process.items.is_empty()),
            };
            self.profiles.push(profile);
            loaded
        }))
    }

    /// Answers a [`Question`]; the answer, or `{"error": …}`, as JSON.
    #[must_use]
    pub fn ask(&self, question: &[u8]) -> String {
        match serde_json::from_slice(question) {
            Ok(question) => self.answer(question).unwrap_or_else(|error| json::<()>(&Err(error))),
            Err(error) => json::<()>(&Err(format!("not a question: {error}"))),
        }
    }

    fn answer(&self, question: Question) -> Result<String, String> {
        let query_error = |error: QueryError| error.to_string();
        match question {
            Question::Query { profile, caches, tags } => {
                let asked = query(&caches, tags)?;
                Ok(json(&bf_postproc::query(self.profile(profile)?, &asked).map_err(query_error)))
            }
            Question::Sweep { profile, sizes, ways, line, scope, hashed, tags } => {
                let ways = ways.iter().map(|ways| ways.parse()).collect::<Result<Vec<Ways>, _>>();
                let ways = ways.map_err(|error: SpecError| error.to_string())?;
                let asked = Sweep { sizes, ways, lines: vec![line], scope, hashed, tags };
                Ok(json(&sweep(self.profile(profile)?, &asked).map_err(query_error)))
            }
            Question::Curve { profile, tags } => {
                let found = curve::curve(self.profile(profile)?, &tags);
                Ok(json(&found.map_err(query_error).map(|(line_bytes, curve)| Curve {
                    line_bytes,
                    knees: curve::knees(&curve),
                    curve,
                })))
            }
            Question::By { profile, caches, tags, by, sort, top } => {
                let asked = query(&caches, tags)?;
                let attribution = attribute(self.profile(profile)?, &asked).map_err(query_error)?;
                Ok(json(&breakdown(&attribution, by, &sort, top)))
            }
            Question::Lines { profile, caches, tags, file } => {
                let asked = query(&caches, tags)?;
                let attribution = attribute(self.profile(profile)?, &asked).map_err(query_error)?;
                let lines = attribution.lines(&file).into_iter();
                let lines = lines.map(|(number, line)| (number, named(&line.figures, &attribution))).collect();
                Ok(json(&Ok(Lines { totals: totals(&attribution), lines })))
            }
        }
    }

    fn profile(&self, number: usize) -> Result<&Profile, String> {
        self.profiles.get(number).ok_or_else(|| format!("there is no profile {number}"))
    }
}

fn json<T: Serialize>(answer: &Result<T, String>) -> String {
    let text = match answer {
        Ok(answer) => serde_json::to_string(answer),
        Err(error) => serde_json::to_string(&Refusal { error: error.clone() }),
    };
    text.unwrap_or_else(|error| format!(r#"{{"error":"the answer is no JSON: {error}"}}"#))
}

fn query(caches: &[String], tags: Vec<String>) -> Result<Query, String> {
    let levels = caches.iter().map(|cache| cache.parse()).collect::<Result<Vec<Cache>, _>>();
    Ok(Query { levels: levels.map_err(|error| error.to_string())?, tags, ..Query::default() })
}

/// Figures by name.
fn named(figures: &Figures, attribution: &Attribution<'_>) -> Map<String, Value> {
    figures.named(&attribution.answer).map(|(name, count)| (name, count.into())).collect()
}

fn totals(attribution: &Attribution<'_>) -> Map<String, Value> {
    named(&attribution::totals(&attribution.answer), attribution)
}

fn breakdown(attribution: &Attribution<'_>, by: By, sort: &str, top: usize) -> Result<Breakdown, String> {
    let totals = totals(attribution);
    if !totals.contains_key(sort) {
        return Err(format!("there is no figure `{sort}`"));
    }
    let rows = attribution.by(by).into_iter().map(|(key, figures)| {
        let short = shortened(&key.name);
        let mut row = match serde_json::to_value(&key) {
            Ok(Value::Object(row)) => row,
            _ => Map::new(),
        };
        row.insert("short".to_owned(), short.into());
        row.extend(named(&figures, attribution));
        row
    });
    let mut items: Vec<_> = rows.collect();
    let count = |row: &Map<String, Value>, name| std::cmp::Reverse(row.get(name).and_then(Value::as_u64));
    items.sort_by_cached_key(|row| (count(row, sort), count(row, "load_references"), count(row, "store_references")));
    let all = items.len();
    items.truncate(top);
    Ok(Breakdown { all, totals, items })
}

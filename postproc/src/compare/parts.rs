//! The same comparison by function and by tag: parts of equal name are set against each other.

use super::{
    Context, Outcome, SIDES,
    locality::{Locality, caches},
    matching,
    words::percent,
};
use crate::{
    attribution::{By, Key, attribute},
    counters,
    names::shortened,
    phases::split,
    query::Query,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of equal name must make up this much of both sides, or names say nothing.
const ENOUGH: f64 = 0.5;

/// Two programs by part.
#[derive(Clone, Debug, Serialize)]
pub struct Parts {
    /// What the shares are shares of: `references`, or `instructions` where a profile is not broken down by place.
    pub of: &'static str,
    /// Part of A in parts that B has too.
    pub a_matched: f64,
    /// Part of B in parts that A has too.
    pub b_matched: f64,
    /// Those that either has, by the larger of the two shares, largest first.
    pub parts: Vec<Part>,
}

/// A function, or what ran under a tag.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Linkage name, or the tag; "" for what ran under none.
    pub name: String,
    /// Share of A; null if it has no such part.
    pub a_share: Option<f64>,
    /// Share of B.
    pub b_share: Option<f64>,
    /// How alike their miss ratios are at matched capacities, 0 to 1; null unless both are known.
    pub alike: Option<f64>,
}

/// What is known of a part of one side: how much it did, and perhaps its curve.
type Known = BTreeMap<String, (f64, Option<Locality>)>;

impl Parts {
    /// `None` if a side has no parts.
    fn new(of: &'static str, sides: &[Known; 2]) -> Option<Self> {
        let sums = [0, 1].map(|side| sides[side].values().map(|(much, _)| much).sum::<f64>());
        if sums.contains(&0.0) {
            return None;
        }
        let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
        let part = |name: &String| {
            let [a, b] = [0, 1].map(|side| sides[side].get(name));
            let share = |side: usize, known: Option<&(f64, _)>| known.map(|(much, _)| much / sums[side]);
            let curves = a.and_then(|a| a.1.as_ref()).zip(b.and_then(|b| b.1.as_ref()));
            Part {
                name: name.clone(),
                a_share: share(0, a),
                b_share: share(1, b),
                alike: curves.map(|(a, b)| matching::mean(&matching::matching(a, b))),
            }
        };
        let mut parts: Vec<Part> = names.into_iter().map(part).collect();
        let share = |part: &Part| part.a_share.unwrap_or(0.0).max(part.b_share.unwrap_or(0.0));
        parts.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let matched = |own: fn(&Part) -> Option<f64>, other: fn(&Part) -> Option<f64>| {
            // The sum of nothing would be -0.
            parts.iter().filter(|part| other(part).is_some()).filter_map(own).fold(0.0, |sum, share| sum + share)
        };
        let [a_matched, b_matched] =
            [matched(|part| part.a_share, |part| part.b_share), matched(|part| part.b_share, |part| part.a_share)];
        Some(Self { of, a_matched, b_matched, parts })
    }

    /// How alike they are: what both do in the same parts, and how alike these are. `spoken`: a part's name for people.
    fn outcome(&self, things: &str, spoken: impl Fn(&str) -> String) -> Outcome {
        let Self { of, a_matched, b_matched, parts } = self;
        let matched = format!(
            "{things} of equal name have {} of the {of} of A and {} of those of B",
            percent(*a_matched),
            percent(*b_matched)
        );
        if *a_matched < ENOUGH || *b_matched < ENOUGH {
            return Err(matched + ": too few to compare by name");
        }
        let common = |part: &Part| Some((part.a_share?.min(part.b_share?), part.alike));
        let both: Vec<_> = parts.iter().filter_map(common).collect();
        let overlap: f64 = both.iter().map(|(share, _)| share).sum();
        let (shares, alike) = both.iter().fold((0.0, 0.0), |sums, (share, alike)| match alike {
            Some(alike) => (sums.0 + share, sums.1 + share * alike),
            None => sums,
        });
        let mut why = format!("{matched}; they have the same part in both for {}", percent(overlap));
        let mut score = overlap;
        if shares > 0.0 {
            score *= alike / shares;
            why += &format!(", and their miss ratios are alike by {}", percent(alike / shares));
            let much = |part: &&Part| part.a_share.zip(part.b_share).is_some_and(|(a, b)| a.min(b) >= 0.01);
            let worst = parts.iter().filter(much).filter_map(|part| Some((part.alike?, &part.name)));
            let worst = worst.min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((alike, name)) = worst.filter(|(alike, _)| *alike < 0.995) {
                why += &format!(", least in {} ({})", spoken(name), percent(alike));
            }
        }
        Ok((score, why))
    }
}

/// By function of the compiled code, with what was inlined into it.
pub(super) fn functions(context: &Context<'_>) -> (Option<Parts>, Outcome) {
    let by_place = [0, 1].map(|side| by_place(context, side));
    let parts = match by_place {
        [Some(a), Some(b)] => Parts::new("references", &[a, b]),
        _ => Parts::new("instructions", &[0, 1].map(|side| executed(context, side))),
    };
    let outcome = match &parts {
        Some(parts) => parts.outcome("functions", |name| shortened(display(context, name))),
        None => Err("neither places nor counters are in both profiles: compile with -bf-by-func, or without \
                     -bf-no-counters"
            .to_owned()),
    };
    (parts, outcome)
}

/// The name that the source has for a function, where a profile knows it.
fn display<'a>(context: &Context<'a>, name: &'a str) -> &'a str {
    let places = context.profiles.iter().flat_map(|profile| &profile.processes).map(|process| &process.places);
    let mut functions = places.flat_map(|places| places.functions.iter().map(move |function| (places, function)));
    let found = functions.find(|(places, function)| places.string(function.name) == name);
    found.map_or(name, |(places, function)| places.string(function.display))
}

/// References of each function and their locality; `None` for a profile that is not broken down.
fn by_place(context: &Context<'_>, side: usize) -> Option<Known> {
    let levels = caches(context.line);
    let question = Query { levels, tags: context.tags.to_vec(), ..Query::default() };
    let attribution = attribute(context.profiles[side], &question).ok()?;
    let known = |(key, figures): (Key, _)| {
        let curve = Locality::of_part(&figures);
        let name = if key.linkage_name.is_empty() { key.name } else { key.linkage_name };
        (name, (curve.references as f64, Some(curve)))
    };
    let known: Known = attribution.by(By::Function).into_iter().map(known).collect();
    Some(known)
}

/// Instructions of each function.
fn executed(context: &Context<'_>, side: usize) -> Known {
    let mut known = Known::new();
    for (function, values) in counters::by_function(context.profiles[side], context.tags) {
        let instructions = values.get("instructions").copied().unwrap_or_default();
        known.entry(function.name.clone()).or_default().0 += instructions as f64;
    }
    known
}

/// By tag of `bf_tag`.
pub(super) fn tags(context: &Context<'_>) -> (Option<Parts>, Outcome) {
    if !context.tags.is_empty() {
        return (None, Err("only references under given tags are compared".to_owned()));
    }
    let sides = [0, 1].map(|side| by_tag(context, side));
    let untagged: Vec<_> =
        (0..2).filter(|&side| sides[side].keys().all(String::is_empty)).map(|side| SIDES[side]).collect();
    if !untagged.is_empty() {
        return (None, Err(format!("no tags in {}: mark phases with bf_tag", untagged.join(" and "))));
    }
    let parts = Parts::new("references", &sides);
    let spoken = |name: &str| if name.is_empty() { "no tag".to_owned() } else { name.to_owned() };
    let outcome = parts
        .as_ref()
        .map_or_else(|| Err("no references under tags".to_owned()), |parts| parts.outcome("tags", spoken));
    (parts, outcome)
}

fn by_tag(context: &Context<'_>, side: usize) -> Known {
    let profile = context.profiles[side];
    // Slices of time are none: one is not what has its number in another run.
    let tags = profile.processes.iter().flat_map(|process| &process.tags);
    let names: BTreeSet<String> = tags.map(|tag| split(tag).0.to_owned()).collect();
    let known = |name: String| {
        let curve = Locality::of(profile, context.line, std::slice::from_ref(&name)).ok()?;
        (curve.references > 0).then_some((name, (curve.references as f64, Some(curve))))
    };
    names.into_iter().filter_map(known).collect()
}

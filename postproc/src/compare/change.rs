//! What a change did to a program: every figure before and after it, and over repeated runs whether it is more than chance.

use super::significance::{LEVEL, adjusted, chance, least_chance, mean};
use crate::{
    counters,
    error::QueryError,
    query::{Query, query},
};
use bf_profile::Profile;
use serde::Serialize;
use std::collections::BTreeMap;

/// Schema of the answer, which `docs/json.md` describes.
pub const SCHEMA: &str = "bf.change/1";

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Changes {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Runs before, a file each.
    pub before: Vec<String>,
    /// Runs after.
    pub after: Vec<String>,
    /// Where the hierarchy came from; null if its caches were given one by one.
    pub machine: Option<String>,
    /// Tags asked for; empty for all references.
    pub tags: Vec<String>,
    /// Figures by name, those of the run first, then levels, then counters.
    pub figures: Vec<Change>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// `seconds` and `references`; `LEVEL.misses`, `LEVEL.writebacks`, `LEVEL.traffic_bytes`; or a counter.
    pub name: String,
    /// Over the runs before; null if none has it.
    pub before: Option<Spread>,
    /// Over the runs after.
    pub after: Option<Spread>,
    /// Change of the mean by the mean before; null where that is 0 or a side has none.
    pub change: Option<f64>,
    /// What is to be thought of it.
    pub finding: Finding,
    /// The chance of runs as far apart if the change did nothing; null unless it was tested.
    pub chance: Option<f64>,
    /// The same, for so many figures tested at once.
    pub chance_adjusted: Option<f64>,
}

/// A figure over repeated runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Runs that have it.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

/// What is to be thought of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Every run has the same value.
    Same,
    /// Two runs or more of each side agree among each other, and differ from the other side.
    Exact,
    /// More than chance, among all figures tested.
    Significant,
    /// Perhaps chance.
    NotSignificant,
    /// With so few runs no difference could be told from chance, or none among so many figures.
    TooFewRuns,
    /// Only one side has the figure.
    OneSide,
}

/// Sets the runs of both sides against each other.
///
/// # Errors
/// A run that does not answer the hierarchy; its place in the list of its side, from 0, and which side.
pub fn change(
    before: &[&Profile],
    after: &[&Profile],
    question: &Query,
) -> Result<Vec<Change>, (&'static str, usize, QueryError)> {
    let runs = |side: &'static str, profiles: &[&Profile]| {
        let each = profiles.iter().enumerate();
        each.map(|(at, profile)| figures(profile, question).map_err(|error| (side, at, error)))
            .collect::<Result<Vec<_>, _>>()
    };
    let (before, after) = (runs("before", before)?, runs("after", after)?);
    let mut names: Vec<&(u8, String)> = before.iter().chain(&after).flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    let values = |runs: &[Figures], name| runs.iter().filter_map(|run| run.get(name).copied()).collect::<Vec<f64>>();
    let mut changes: Vec<Change> =
        names.into_iter().map(|name| one(&name.1, &values(&before, name), &values(&after, name))).collect();
    let tested: Vec<f64> = changes.iter().filter_map(|change| change.chance).collect();
    let open = changes.iter_mut().filter(|change| change.chance.is_some());
    for (change, adjusted) in open.zip(adjusted(&tested)) {
        change.chance_adjusted = Some(adjusted);
        change.finding = match adjusted < LEVEL {
            true => Finding::Significant,
            // Runs that are all apart could not have said more.
            false if change.is_apart() => Finding::TooFewRuns,
            false => Finding::NotSignificant,
        };
    }
    Ok(changes)
}

/// Figures of a run by kind and name; the kind orders them.
type Figures = BTreeMap<(u8, String), f64>;

fn figures(profile: &Profile, question: &Query) -> Result<Figures, QueryError> {
    let answer = query(profile, question)?;
    let nanoseconds: u64 = profile.processes.iter().map(|process| process.meta.elapsed_ns).sum();
    let mut figures = Figures::from([((0, "references".to_owned()), answer.references as f64)]);
    if nanoseconds > 0 {
        figures.insert((0, "seconds".to_owned()), nanoseconds as f64 / 1e9);
    }
    for (at, level) in (1..).zip(&answer.levels) {
        let some =
            [("misses", Some(level.misses)), ("writebacks", level.writebacks), ("traffic_bytes", level.traffic_bytes)];
        for (name, value) in some {
            figures.extend(value.map(|value| ((at, format!("{}.{name}", level.name)), value as f64)));
        }
    }
    let plain =
        counters::totals(profile, &question.tags).into_iter().filter(|(name, _)| counters::family(name).is_none());
    figures.extend(plain.map(|(name, value)| ((u8::MAX, name.to_owned()), value as f64)));
    Ok(figures)
}

/// A figure without regard to others that are tested with it.
fn one(name: &str, before: &[f64], after: &[f64]) -> Change {
    let (of_before, of_after) = (Spread::of(before), Spread::of(after));
    let (finding, chance) = match (of_before, of_after) {
        (Some(a), Some(b)) if a.min == a.max && b.min == b.max && a.min == b.min => (Finding::Same, None),
        (Some(a), Some(b)) if a.min == a.max && b.min == b.max && a.runs > 1 && b.runs > 1 => (Finding::Exact, None),
        (Some(a), Some(b)) if least_chance(a.runs, b.runs) >= LEVEL => (Finding::TooFewRuns, None),
        (Some(_), Some(_)) => (Finding::NotSignificant, chance(before, after)),
        _ => (Finding::OneSide, None),
    };
    let change = of_before.zip(of_after).filter(|(a, _)| a.mean != 0.0).map(|(a, b)| b.mean / a.mean - 1.0);
    let name = name.to_owned();
    Change { name, before: of_before, after: of_after, change, finding, chance, chance_adjusted: None }
}

impl Change {
    /// Whether no run of one side lies between those of the other.
    fn is_apart(&self) -> bool {
        self.before.zip(self.after).is_some_and(|(a, b)| a.max < b.min || b.max < a.min)
    }
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let least = |one: f64, other: &f64| one.min(*other);
        let most = |one: f64, other: &f64| one.max(*other);
        (!values.is_empty()).then(|| Self {
            runs: values.len(),
            mean: mean(values),
            min: values.iter().fold(f64::INFINITY, least),
            max: values.iter().fold(f64::NEG_INFINITY, most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::{CountItem, CountedFunction, Counters, Meta, Process};

    /// A run of one reference that took so long and counted so much.
    fn run(nanoseconds: u64, flops: u64) -> Profile {
        let trace = b"r 0 8\n";
        let mut profile =
            crate::replay::replay(&trace[..], "t", 0, &crate::replay::Options::default()).unwrap().profile;
        let Process { meta: Meta { elapsed_ns, .. }, counters, .. } = &mut profile.processes[0];
        *elapsed_ns = nanoseconds;
        *counters = Counters {
            names: vec!["flops".to_owned()],
            functions: vec![CountedFunction::default()],
            items: vec![CountItem { tag: 0, function: 0, values: vec![(0, flops)] }],
            blocks: Vec::new(),
            places: Vec::new(),
        };
        profile
    }

    fn found(before: &[(u64, u64)], after: &[(u64, u64)]) -> Vec<(String, Finding)> {
        let runs = |runs: &[(u64, u64)]| runs.iter().map(|&(time, flops)| run(time, flops)).collect::<Vec<_>>();
        let (before, after) = (runs(before), runs(after));
        let levels = vec!["L1=4K:4".parse().unwrap()];
        let question = Query { levels, ..Query::default() };
        let changes = change(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>(), &question).unwrap();
        changes.into_iter().map(|change| (change.name, change.finding)).collect()
    }

    #[test]
    fn findings() {
        let before = [(100, 7), (101, 7), (102, 7), (103, 7)];
        let after = [(90, 6), (91, 6), (92, 6), (93, 6)];
        let figures = found(&before, &after);
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["references", "seconds", "L1.misses", "L1.traffic_bytes", "L1.writebacks", "flops"]);
        let of = |figures: &[(String, Finding)], name: &str| figures.iter().find(|figure| figure.0 == name).unwrap().1;
        assert_eq!(of(&figures, "references"), Finding::Same);
        assert_eq!(of(&figures, "flops"), Finding::Exact);
        assert_eq!(of(&figures, "seconds"), Finding::Significant);
        assert_eq!(of(&found(&before, &[(90, 6), (110, 6), (100, 6), (103, 6)]), "seconds"), Finding::NotSignificant);
        let few = found(&before[..2], &after[..2]);
        assert_eq!((of(&few, "seconds"), of(&few, "flops")), (Finding::TooFewRuns, Finding::Exact));
        assert_eq!(of(&found(&before[..1], &after[..1]), "flops"), Finding::TooFewRuns);
        // Two figures are tested, and four runs of each side reach 2/70 at best: enough if both are apart, not for one.
        let wavering = [(100, 6), (101, 7), (102, 6), (103, 7)];
        let two = found(&wavering, &[(90, 5), (91, 4), (92, 5), (93, 4)]);
        assert_eq!((of(&two, "seconds"), of(&two, "flops")), (Finding::Significant, Finding::Significant));
        let one = found(&wavering, &[(90, 6), (91, 7), (92, 7), (93, 6)]);
        assert_eq!((of(&one, "seconds"), of(&one, "flops")), (Finding::TooFewRuns, Finding::NotSignificant));
    }

    #[test]
    fn a_figure_that_one_side_lacks() {
        let change = one("flops", &[], &[1.0]);
        assert_eq!((change.finding, change.change, change.before), (Finding::OneSide, None, None));
        assert_eq!(one("flops", &[2.0], &[3.0]).change, Some(0.5));
    }
}

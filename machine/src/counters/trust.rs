//! Which events may be believed: their counts beside the known truth (after Molka, section 5).

use super::{
    event::Quantity,
    recording::{Recording, Run},
    timed::Cluster,
};
use crate::stat::median;
use serde::Serialize;

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It counts what it claims.
    Trust,
    /// It counts what it claims times a constant: divide by that.
    Corrected,
    /// It does not.
    DoNotUse,
    /// No exercise shows whether it does.
    Untested,
}

/// How an event did in one exercise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// How the data was gone through.
    pub way: &'static str,
    /// Where it was.
    pub place: String,
    /// How often.
    pub passes: u64,
    /// What must have been counted.
    pub truth: u64,
    /// What was, scaled to the whole time.
    pub counted: f64,
}

/// An event's report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Its name.
    pub event: String,
    /// What it claims to count.
    pub claims: String,
    /// What to do with it.
    pub verdict: Verdict,
    /// Counted by true: the median of the exercises in which something was to be counted.
    pub ratio: Option<f64>,
    /// The least and the greatest such ratio.
    pub ratio_bounds: Option<(f64, f64)>,
    /// The most that was counted where nothing was to be, by the lines gone through.
    pub leak: Option<f64>,
    /// Whether counts grow with the work.
    pub linear: Option<bool>,
    /// What it really counts, if anything fits: with the factor where that is not 1.
    pub measures: Option<String>,
    /// The least part of the time that it counted.
    pub share: f64,
    /// Exercise by exercise.
    pub trials: Vec<Trial>,
}

/// The schema's name and version.
pub const SCHEMA: &str = "bf.counters/1";

/// What became of all events of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct TrustReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The processor's name.
    pub machine: String,
    /// What counted, in words.
    pub backend: String,
    /// Tables that events came from.
    pub tables: Vec<String>,
    /// Remarks.
    pub notes: Vec<String>,
    /// What timed loads tell apart; none with other backends.
    pub levels: Vec<Cluster>,
    /// Event by event.
    pub events: Vec<Report>,
}

impl TrustReport {
    /// Judges a recording.
    #[must_use]
    pub fn of(recording: &Recording, tables: Vec<String>, levels: Vec<Cluster>) -> Self {
        Self {
            schema: SCHEMA,
            machine: recording.machine.clone(),
            backend: recording.backend.clone(),
            tables,
            notes: recording.notes.clone(),
            levels,
            events: judge(recording),
        }
    }
}

/// Greatest distance from the truth, and greatest leak.
const TOLERANCE: f64 = 0.05;

/// Judges every event of a recording.
#[must_use]
pub fn judge(recording: &Recording) -> Vec<Report> {
    let events = recording.events.iter().enumerate();
    events.map(|(index, (name, claims))| report(recording, index, name, *claims)).collect()
}

fn report(recording: &Recording, index: usize, name: &str, claims: Quantity) -> Report {
    let fit = Fit::of(&recording.runs, index, claims);
    let share = recording.runs.iter().filter_map(|run| run.readings.get(index).copied().flatten());
    let verdict = match () {
        () if fit.ratio.is_none() => Verdict::Untested,
        () if fit.good() && fit.ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= TOLERANCE) => Verdict::Trust,
        () if fit.good() => Verdict::Corrected,
        () => Verdict::DoNotUse,
    };
    Report {
        event: name.to_owned(),
        claims: claims.to_string(),
        verdict,
        ratio: fit.ratio,
        ratio_bounds: fit.bounds,
        leak: fit.leak,
        linear: fit.linear,
        measures: measures(&recording.runs, index),
        share: share.map(|reading| reading.share()).fold(1.0, f64::min),
        trials: fit.trials,
    }
}

/// How well an event's counts fit a quantity.
#[derive(Debug, Default)]
struct Fit {
    ratio: Option<f64>,
    bounds: Option<(f64, f64)>,
    leak: Option<f64>,
    linear: Option<bool>,
    trials: Vec<Trial>,
}

impl Fit {
    fn of(runs: &[Run], index: usize, quantity: Quantity) -> Self {
        let mut ratios = Vec::new();
        let mut fit = Self::default();
        for run in runs {
            let counted = run.readings.get(index).copied().flatten().and_then(|reading| reading.scaled());
            let (Some(counted), Some(truth)) = (counted, run.facts.truth(quantity)) else { continue };
            if truth > 0 {
                ratios.push(counted / truth as f64);
            } else {
                let leak = counted / run.facts.lines.max(1) as f64;
                fit.leak = Some(fit.leak.map_or(leak, |most: f64| most.max(leak)));
            }
            let (way, place, passes) = (run.facts.way.name(), run.facts.place(), run.facts.passes);
            fit.trials.push(Trial { way, place, passes, truth, counted });
        }
        fit.ratio = median(&ratios);
        fit.bounds = fit.ratio.map(|_| {
            (ratios.iter().copied().fold(f64::INFINITY, f64::min), ratios.iter().copied().fold(0.0, f64::max))
        });
        fit.linear = linear(&fit.trials);
        fit
    }

    /// Whether all exercises give one ratio, nothing leaks, and counts grow with the work.
    fn good(&self) -> bool {
        let (Some(ratio), Some((least, greatest))) = (self.ratio, self.bounds) else { return false };
        let near = |other: f64| (other - ratio).abs() <= TOLERANCE * ratio;
        let leak = self.leak.is_none_or(|leak| leak <= TOLERANCE);
        ratio > TOLERANCE && near(least) && near(greatest) && leak && self.linear != Some(false)
    }
}

/// Whether twice the work gives twice the count, in each exercise with something to count; `None` without such a pair.
fn linear(trials: &[Trial]) -> Option<bool> {
    let mut seen = None;
    for small in trials.iter().filter(|trial| trial.truth > 0) {
        let twice =
            |large: &&Trial| (large.way, &large.place) == (small.way, &small.place) && large.passes == small.passes * 2;
        if let Some(large) = trials.iter().find(twice) {
            let expected = small.counted * large.truth as f64 / small.truth as f64;
            let good = (large.counted - expected).abs() <= TOLERANCE * 2.0 * expected;
            seen = Some(seen.unwrap_or(true) && good);
        }
    }
    seen
}

/// The quantity that an event's counts fit best, in words.
fn measures(runs: &[Run], index: usize) -> Option<String> {
    let caches = runs.first()?.facts.caches;
    let levels = 1..=caches;
    let mut quantities = vec![Quantity::Loads, Quantity::Stores, Quantity::Accesses, Quantity::From(0)];
    for level in levels {
        quantities.extend([Quantity::Into(level), Quantity::OutOf(level), Quantity::From(level)]);
    }
    let fits = quantities.into_iter().filter_map(|quantity| {
        let fit = Fit::of(runs, index, quantity);
        let ratio = fit.ratio.filter(|_| fit.good())?;
        // Of several that fit, the one that more exercises speak for, then the one with the ratio nearest to 1.
        Some((quantity, ratio, fit.trials.len()))
    });
    let (quantity, ratio, _) =
        fits.max_by(|a, b| a.2.cmp(&b.2).then((b.1 - 1.0).abs().total_cmp(&(a.1 - 1.0).abs())))?;
    Some(if (ratio - 1.0).abs() <= TOLERANCE { quantity.to_string() } else { format!("{ratio:.2} x {quantity}") })
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;

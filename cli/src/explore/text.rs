//! A search in tables.

use super::search::Question;
use crate::{
    machine::specification,
    output::{ESTIMATES, number, only_tagged, percent, plural, printable, table, word},
};
use bf_postproc::{
    explore::{
        Objective, Outcome,
        search::{Counts, Found},
        study::Doubled,
    },
    size,
};

/// Rows of a front; the other formats have them all.
const MOST_OF_FRONT: usize = 40;

/// What was asked, the best, the front, and what doubling would bring.
pub fn tables(question: &Question<'_>, outcome: &Outcome, doubled: &[Doubled]) -> String {
    let asked = question.asked;
    let mut text = format!(
        "{}\n{}{}\n",
        printable(&question.loaded.title()),
        only_tagged(question.tags),
        counts(question.hierarchies, &outcome.counts)
    );
    if outcome.counts.allowed == 0 {
        return text + "None is left: widen the ranges, or raise a limit.\n";
    }
    if !outcome.best.is_empty() {
        text += &format!("\nLeast {} first\n{}", asked.objective, ranked(question, &outcome.best, &[]));
    }
    if !outcome.front.is_empty() {
        let names: Vec<String> = asked.pareto.iter().map(ToString::to_string).collect();
        text += &format!(
            "\nNothing betters these in {}: {}\n{}",
            names.join(" and "),
            number(outcome.front.len() as u64),
            ranked(question, &outcome.front[..outcome.front.len().min(MOST_OF_FRONT)], &asked.pareto)
        );
        if outcome.front.len() > MOST_OF_FRONT {
            text += &format!("{} more with --format json, csv or parquet\n", outcome.front.len() - MOST_OF_FRONT);
        }
    }
    text += &doublings(question, doubled);
    if question.loaded.profile.processes.iter().any(|process| !process.sampled.is_empty()) {
        text += ESTIMATES;
    }
    if let Some(best) = outcome.best.first() {
        let caches = question.space.caches(&question.space.picks(best.index));
        let options: Vec<String> = caches.iter().map(|cache| format!("--cache {}", specification(cache))).collect();
        let tags = question.tags.iter().flat_map(|tag| ["--tag".to_owned(), word(tag)]);
        let words: Vec<_> = question.loaded.names().iter().map(|name| word(name)).chain(tags).chain(options).collect();
        text += &format!("\nEvery figure of the first: bf query {}\n", words.join(" "));
    }
    text
}

/// What became of all hierarchies, in a sentence.
pub fn counts(hierarchies: u64, counts: &Counts) -> String {
    let Counts { allowed, over, unknown, impossible } = *counts;
    let parts = [
        (over, "over a budget or limit"),
        (
            unknown,
            "for want of write-backs, which private caches of several threads pass on (ask for a shared last level, or for misses)",
        ),
        (impossible, "with a level smaller than the one above, or private below a shared one"),
    ];
    let left: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} left out {what}", number(*count)))
        .collect();
    let left = if left.is_empty() { String::new() } else { format!("; {}", left.join(", ")) };
    format!("{}, {} allowed{left}", plural(hierarchies, "hierarchy", "hierarchies"), number(allowed))
}

fn ranked(question: &Question<'_>, found: &[Found], front: &[Objective]) -> String {
    let (asked, space) = (question.asked, question.space);
    let mut header = vec![String::new()];
    header.extend(space.names().iter().cloned());
    let others: Vec<(usize, &Objective)> =
        front.iter().enumerate().filter(|(_, objective)| **objective != asked.objective).collect();
    header.push(heading(question, &asked.objective));
    header.extend(others.iter().map(|(_, objective)| heading(question, objective)));
    let budgets: Vec<usize> = (0..question.goal.budgets.len())
        .filter(|&at| {
            let cost = Objective::Cost(question.goal.budgets[at].name.clone());
            cost != asked.objective && !front.contains(&cost)
        })
        .collect();
    header
        .extend(budgets.iter().map(|&at| heading(question, &Objective::Cost(question.goal.budgets[at].name.clone()))));
    let rows = found.iter().enumerate().map(|(at, found)| {
        let mut row = vec![number(at as u64 + 1)];
        let caches = space.caches(&space.picks(found.index));
        row.extend(caches.iter().map(|cache| {
            let text = specification(cache);
            let text = text.split_once('=').map_or("", |(_, shape)| shape);
            text.strip_suffix(":private").unwrap_or(text).to_owned()
        }));
        row.push(found.objective.map_or_else(|| "-".to_owned(), |value| figure(&asked.objective, value)));
        row.extend(others.iter().map(|&(at, objective)| figure(objective, found.front[at])));
        row.extend(budgets.iter().map(|&at| figure(&Objective::Amat, found.costs[at])));
        row
    });
    table(header, rows.collect())
}

/// An objective with its unit.
fn heading(question: &Question<'_>, objective: &Objective) -> String {
    let goal = question.goal;
    let table = match objective {
        Objective::Amat => goal.latency.as_ref(),
        Objective::Energy => goal.energy.as_ref(),
        Objective::Cost(name) => goal.budgets.iter().find(|budget| budget.name == *name).map(|budget| &budget.table),
        _ => None,
    };
    match table.map(|table| table.unit.as_str()).filter(|unit| !unit.is_empty()) {
        Some(unit) => format!("{objective}, {unit}"),
        None => objective.to_string(),
    }
}

fn figure(objective: &Objective, value: f64) -> String {
    match objective {
        Objective::Misses(_) => number(value as u64),
        Objective::Traffic(_) => size::human(value as u64),
        Objective::Size => size::format(value as u64),
        _ if value != 0.0 && !(1e-3..1e7).contains(&value) => format!("{value:.4e}"),
        _ => format!("{value:.4}"),
    }
}

fn doublings(question: &Question<'_>, doubled: &[Doubled]) -> String {
    if doubled.is_empty() {
        return String::new();
    }
    let objective = &question.asked.objective;
    let header = ["of the first", "would be", "", "change"].map(str::to_owned);
    let mut header = header.to_vec();
    header[2] = heading(question, objective);
    let rows = doubled.iter().map(|one| {
        let change = match one.change {
            Some(change) if change < 0.0 => format!("-{}", percent(Some(-change))),
            Some(change) if change > 0.0 => format!("+{}", percent(Some(change))),
            change => percent(change),
        };
        vec![
            format!("{}, {} doubled", one.level, one.property),
            format!("{}:{}", size::format(one.size_bytes), one.ways),
            one.objective.map_or_else(|| "-".to_owned(), |value| figure(objective, value)),
            change,
        ]
    });
    let mut text = format!("\nWhich level, doubled, helps most\n{}", table(header, rows.collect()));
    let mut reasons: Vec<&String> = doubled.iter().filter_map(|one| one.why.as_ref()).collect();
    reasons.dedup();
    reasons.iter().for_each(|why| text += &format!("- {why}\n"));
    text
}

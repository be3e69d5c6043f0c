//! Through a whole space in parallel: its best hierarchies, its Pareto front, or all of them in order.

use super::{
    cost::CostError,
    objective::{Goal, Objective, Price, Prices},
    space::{Hierarchy, Space},
};
use rayon::prelude::*;
use std::{
    cmp::Ordering,
    collections::BinaryHeap,
    sync::atomic::{self, AtomicU64},
};

/// Hierarchies that one job of [`all`] makes at least, and jobs at a time: what is held in memory.
const JOB: u64 = 256;
const JOBS: u64 = 32;

/// What is asked of a space.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// To be as small as possible.
    pub objective: Objective,
    /// How many of the best.
    pub top: usize,
    /// Objectives of a Pareto front; empty: none is asked for.
    pub front: Vec<Objective>,
}

/// A hierarchy that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its number in the space.
    pub index: u64,
    /// The objective; `None`: not known.
    pub objective: Option<f64>,
    /// By budget.
    pub costs: Vec<f64>,
    /// The front's objectives; empty if none was asked for.
    pub front: Vec<f64>,
    /// Bytes of all levels together.
    size: u64,
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Better ones first: by objective, then the smaller, then in order.
impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        let value = |found: &Self| found.objective.unwrap_or(f64::INFINITY);
        let values = value(self).total_cmp(&value(other));
        values.then_with(|| (self.size, self.index).cmp(&(other.size, other.index)))
    }
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The best ones, best first.
    pub best: Vec<Found>,
    /// Those that no other betters in one objective of the front without being worse in another; by the first one.
    pub front: Vec<Found>,
    /// What became of all hierarchies.
    pub counts: Counts,
}

/// What became of the hierarchies of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered, and allowed.
    pub allowed: u64,
    /// Over a budget or limit.
    pub over: u64,
    /// The objective is not known, because write-backs are not.
    pub unknown: u64,
    /// A level would be smaller than the one above it, or private below a shared one.
    pub impossible: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.over += other.over;
        self.unknown += other.unknown;
        self.impossible += other.impossible;
    }
}

/// A space with the price of every candidate.
#[derive(Debug)]
pub struct Search<'a> {
    space: &'a Space<'a>,
    goal: &'a Goal,
    prices: Vec<Vec<Price>>,
}

impl<'a> Search<'a> {
    /// Looks every candidate up in the tables.
    ///
    /// # Errors
    /// A table says nothing of a candidate.
    pub fn new(space: &'a Space<'a>, goal: &'a Goal) -> Result<Self, CostError> {
        let prices = space.shapes().map(|level| level.into_iter().map(|shape| goal.price(shape)).collect());
        Ok(Self { space, goal, prices: prices.collect::<Result<_, _>>()? })
    }

    /// The best hierarchies and the front; `progress` is told how many hierarchies are done.
    pub fn best(&self, wanted: &Wanted, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let done = AtomicU64::new(0);
        let step = self.space.last();
        let fold = |mut part: Partial, prefix| {
            let impossible = self.space.visit(prefix, |hierarchy| part.take(self, wanted, hierarchy));
            part.counts.impossible += impossible;
            progress(done.fetch_add(step, atomic::Ordering::Relaxed) + step);
            part
        };
        let parts = (0..self.prefixes()).into_par_iter().fold(Partial::default, fold);
        let Partial { best, mut front, counts } = parts.reduce(Partial::default, |mut a, b| {
            a.counts.add(&b.counts);
            b.best.into_iter().for_each(|found| a.keep(found, wanted.top));
            b.front.into_iter().for_each(|found| a.keep_in_front(found));
            a
        });
        front.sort_by(|a, b| by_values(&a.front, &b.front).then_with(|| a.cmp(b)));
        Outcome { best: best.into_sorted_vec(), front, counts }
    }

    /// Every allowed hierarchy in order: `make` adds one to what a job collects, `take` gets what the jobs collected.
    ///
    /// # Errors
    /// What `take` fails with.
    pub fn all<B: Default + Send, E>(
        &self,
        objective: &Objective,
        progress: &dyn Fn(u64),
        make: impl Fn(&mut B, &Found, Hierarchy<'_>) + Sync,
        mut take: impl FnMut(B) -> Result<(), E>,
    ) -> Result<Counts, E> {
        let wanted = Wanted { objective: objective.clone(), top: 0, front: Vec::new() };
        let mut counts = Counts::default();
        let prefixes = self.prefixes();
        let each = JOB.div_ceil(self.space.last().max(1));
        for begin in (0..prefixes).step_by((each * JOBS) as usize) {
            let jobs: Vec<u64> = (begin..prefixes.min(begin + each * JOBS)).step_by(each as usize).collect();
            let made: Vec<(B, Counts)> = jobs
                .into_par_iter()
                .map(|first| {
                    let (mut collected, mut counts) = (B::default(), Counts::default());
                    for prefix in first..prefixes.min(first + each) {
                        let impossible = self.space.visit(prefix, |hierarchy| {
                            if let Some(found) = self.judge(&wanted, hierarchy, &mut counts) {
                                make(&mut collected, &found, hierarchy);
                            }
                        });
                        counts.impossible += impossible;
                    }
                    (collected, counts)
                })
                .collect();
            for (collected, part) in made {
                counts.add(&part);
                take(collected)?;
            }
            progress(prefixes.min(begin + each * JOBS) * self.space.last());
        }
        Ok(counts)
    }

    /// Hierarchies that differ in more than the last level.
    fn prefixes(&self) -> u64 {
        let last = self.space.last();
        self.space.len().unwrap_or(0).checked_div(last).unwrap_or(0)
    }

    /// A hierarchy with its objective, if it is allowed and the objective is known.
    fn judge(&self, wanted: &Wanted, hierarchy: Hierarchy<'_>, counts: &mut Counts) -> Option<Found> {
        let Hierarchy { index, picks, figures } = hierarchy;
        let (names, prices) = (self.space.names(), Prices { all: &self.prices, picks });
        if !self.goal.allows(names, figures, prices) {
            counts.over += 1;
            return None;
        }
        let value = |objective| self.goal.value(objective, names, figures, prices);
        let objective = value(&wanted.objective);
        let front: Option<Vec<f64>> = wanted.front.iter().map(value).collect();
        let (Some(_), Some(front)) = (objective, front) else {
            counts.unknown += 1;
            return None;
        };
        counts.allowed += 1;
        let costs = (0..self.goal.budgets.len()).map(|budget| self.goal.cost(budget, prices)).collect();
        Some(Found { index, objective, costs, front, size: figures.iter().map(|level| level.size).sum() })
    }
}

/// What one part of a search found.
#[derive(Debug, Default)]
struct Partial {
    /// The best, the worst of them on top.
    best: BinaryHeap<Found>,
    front: Vec<Found>,
    counts: Counts,
}

impl Partial {
    fn take(&mut self, search: &Search<'_>, wanted: &Wanted, hierarchy: Hierarchy<'_>) {
        let Some(found) = search.judge(wanted, hierarchy, &mut self.counts) else { return };
        if !wanted.front.is_empty() && !self.is_bettered(&found) {
            self.keep_in_front(found.clone());
        }
        self.keep(found, wanted.top);
    }

    fn keep(&mut self, found: Found, top: usize) {
        if self.best.len() < top {
            self.best.push(found);
        } else if let Some(mut worst) = self.best.peek_mut()
            && found < *worst
        {
            *worst = found;
        }
    }

    fn is_bettered(&self, found: &Found) -> bool {
        self.front.iter().any(|other| betters(other, found))
    }

    fn keep_in_front(&mut self, found: Found) {
        if !self.is_bettered(&found) {
            self.front.retain(|other| !betters(&found, other));
            self.front.push(found);
        }
    }
}

/// Whether one is nowhere worse than the other in the objectives of the front, and comes first where they are equal.
fn betters(a: &Found, b: &Found) -> bool {
    let nowhere_worse = a.front.iter().zip(&b.front).all(|(a, b)| a <= b);
    nowhere_worse && (a.front != b.front || (a.size, a.index) <= (b.size, b.index))
}

fn by_values(a: &[f64], b: &[f64]) -> Ordering {
    let pairs = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    pairs.fold(Ordering::Equal, Ordering::then)
}

//! A cache that some of the threads share, composed of what each of them does by itself.
//!
//! The footprint of a thread, `fp(x)`, is the mean number of different lines in a window of x of its references. By Xiang,
//! Ding, Luo and Bao, "HOTL: a higher order theory of locality" (ASPLOS 2013), it follows from the miss ratios `mr(c)` of
//! fully associative caches of c lines: a cache fills from c to c + 1 lines in `1 / mr(c)` references, and the other way
//! round `mr(fp(x))` is the slope of `fp` at x. Threads that run side by side have windows in the ratio of their references,
//! and the footprint of a group is the sum of theirs, less the lines that they have in common.
//!
//! How many lines all threads have in common is known, because the global stack has a footprint too. They are taken for a
//! pool that every thread uses at random, each as much as the others: then it follows how many of them some of the threads
//! have in common. That, the even pace of the threads, windows of average length and sets that lines fall into at random are
//! what makes the answer an estimate; `docs/threads.md` measures it.

use crate::{
    hashed::Hashed,
    spec::Shape,
    stack::{Level, Rule},
};
use bf_profile::{Bin, FullHistograms, Histograms, LineCoherence, LineData, Owner};

/// Bins per power of two of a composed histogram, and below twice that one for each distance.
const BINS: u64 = 64;
/// Window lengths per power of two, and below [`FIRST_WINDOWS`] one for each length.
const WINDOWS: f64 = 32.0;
const FIRST_WINDOWS: u32 = 256;

/// One stack: how its footprint grows, and what it misses.
#[derive(Debug)]
struct Footprint {
    references: [u64; 2],
    cold: [u64; 2],
    /// (lines, references it takes to touch so many, misses of loads and of stores in a cache of so many), ascending.
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    lines: f64,
    window: f64,
    misses: [f64; 2],
}

impl Footprint {
    /// Of the stack of `owner`.
    fn new(data: &LineData, coherence: Option<&LineCoherence>, owner: Owner) -> Self {
        let (mut references, mut cold, mut lost) = ([0; 2], [0; 2], [0; 2]);
        let mut bins: Vec<(u64, u64, [f64; 2])> = Vec::new();
        for stack in data.stacks.iter().filter(|stack| stack.owner == owner) {
            let histograms = &stack.histograms;
            for (kind, all) in [&histograms.full.loads, &histograms.full.stores].into_iter().enumerate() {
                references[kind] += histograms.references[kind];
                cold[kind] += histograms.cold[kind];
                lost[kind] += histograms.lost()[kind];
                bins.extend(all.iter().map(|bin| (bin.lo, bin.hi, of_kind(kind, bin.count as f64))));
            }
        }
        bins.sort_unstable_by_key(|&(lo, ..)| lo);
        let slots = coherence.into_iter().flat_map(|data| &data.slots).filter(|slot| Owner::Slot(slot.slot) == owner);
        let mut positions: Vec<Bin> = slots.flat_map(|slot| slot.lost.full.iter().copied()).collect();
        positions.sort_unstable_by_key(|bin| bin.lo);
        place(&mut bins, &positions, lost);
        let mut footprint = Self { references, cold, steps: Vec::new() };
        footprint.walk(&bins);
        footprint
    }

    /// Fills `steps` from distances, ascending, several of them in one bin perhaps.
    fn walk(&mut self, bins: &[(u64, u64, [f64; 2])]) {
        let all = self.all();
        let mut at = Step { lines: 0.0, window: 0.0, misses: self.references.map(|count| count as f64) };
        self.steps.push(at);
        for same in bins.chunk_by(|a, b| a.0 == b.0) {
            let (lo, hi) = (same[0].0 as f64, same[0].1 as f64);
            let before = at.misses[0] + at.misses[1];
            at.window += (lo - at.lines) * all / before;
            at.lines = lo;
            self.steps.push(at);
            let hits = same.iter().fold([0.0; 2], |sum, bin| [sum[0] + bin.2[0], sum[1] + bin.2[1]]);
            at.misses = [0, 1].map(|kind| (at.misses[kind] - hits[kind]).max(0.0));
            let after = (at.misses[0] + at.misses[1]).max(f64::MIN_POSITIVE);
            // In a bin of several distances the misses fall evenly; of a single one all at its end.
            let mean = if hi - lo > 1.0 && before > after { (before - after) / (before / after).ln() } else { before };
            at.window += (hi - lo) * all / mean.max(f64::MIN_POSITIVE);
            at.lines = hi;
            self.steps.push(at);
            if at.misses[0] + at.misses[1] <= 0.0 || at.window > all {
                break;
            }
        }
        let lines = self.distinct();
        let misses = at.misses[0] + at.misses[1];
        if lines > at.lines && misses > 0.0 {
            self.steps.push(Step { lines, window: at.window + (lines - at.lines) * all / misses, ..at });
        }
    }

    fn all(&self) -> f64 {
        (self.references[0] + self.references[1]) as f64
    }

    /// Lines ever referenced.
    fn distinct(&self) -> f64 {
        (self.cold[0] + self.cold[1]) as f64
    }

    /// Mean number of lines in windows of so many references.
    fn lines(&self, window: f64) -> f64 {
        let after = self.steps.partition_point(|step| step.window <= window);
        let lines = match (self.steps.get(after.wrapping_sub(1)), self.steps.get(after)) {
            (Some(a), Some(b)) => a.lines + (window - a.window) / (b.window - a.window) * (b.lines - a.lines),
            (Some(last), None) => last.lines,
            (None, _) => 0.0,
        };
        lines.min(self.distinct())
    }

    /// Misses of loads and of stores in a cache of so many lines.
    fn misses(&self, lines: f64) -> [f64; 2] {
        let after = self.steps.partition_point(|step| step.lines <= lines);
        match (self.steps.get(after.wrapping_sub(1)), self.steps.get(after)) {
            (Some(a), Some(b)) => {
                let part = (lines - a.lines) / (b.lines - a.lines);
                [0, 1].map(|kind| a.misses[kind] + part * (b.misses[kind] - a.misses[kind]))
            }
            (Some(last), None) => last.misses,
            (None, _) => self.references.map(|count| count as f64),
        }
    }
}

/// Adds to the distances of a stack those that references lost to invalidations would have had: in a cache that threads share
/// they would have found their lines. Nothing is known but that they are not below the position the line had; so each is
/// divided among the distances from there on as the references there are. (This is how Kaplan and Meier's estimate treats
/// observations that were cut short; Efron, "The two sample problem with censored data", 1967.)
fn place(bins: &mut Vec<(u64, u64, [f64; 2])>, positions: &[Bin], lost: [u64; 2]) {
    let all = (lost[0] + lost[1]) as f64;
    let kinds = lost.map(|kind| kind as f64 / all.max(1.0));
    let mut left: f64 = bins.iter().map(|bin| bin.2[0] + bin.2[1]).sum();
    let (mut positions, mut carried) = (positions.iter().peekable(), 0.0);
    for (lo, _, counts) in bins.iter_mut() {
        while let Some(bin) = positions.next_if(|bin| bin.lo <= *lo) {
            carried += bin.count as f64;
        }
        let here = counts[0] + counts[1];
        let placed = carried * (here / left).min(1.0);
        (carried, left) = (carried - placed, left - here);
        *counts = [0, 1].map(|kind| counts[kind] + placed * kinds[kind]);
    }
    bins.extend(positions.map(|bin| (bin.lo, bin.hi, kinds.map(|kind| bin.count as f64 * kind))));
}

fn of_kind(kind: usize, count: f64) -> [f64; 2] {
    let mut both = [0.0; 2];
    both[kind] = count;
    both
}

/// The rule for composed histograms, which know one set only: with several, lines fall into them as if at random.
#[must_use]
pub(crate) fn level(shape: &Shape, capacity_lines: u64) -> Level {
    let (ways, rest) = (capacity_lines / shape.sets, capacity_lines % shape.sets);
    let full = shape.sets == 1 && !shape.hashed;
    let hashed = || Hashed::new(shape.sets, ways, rest as f64 / shape.sets as f64);
    Level { rule: if full { Rule::Full(ways) } else { Rule::Hashed(hashed()) } }
}

/// All threads of a process and the stack of all of them, ready to be grouped.
#[derive(Debug)]
pub struct Composer {
    threads: Vec<(u32, Footprint)>,
    global: Footprint,
}

/// One window length: what a group and each of its threads touch in it.
struct Window {
    references: f64,
    lines: f64,
}

impl Composer {
    /// Of all stacks of a line size.
    #[must_use]
    pub fn new(data: &LineData, coherence: Option<&LineCoherence>) -> Self {
        let of = |owner| Footprint::new(data, coherence, owner);
        let mut slots: Vec<u32> = Vec::new();
        for stack in &data.stacks {
            match stack.owner {
                Owner::Slot(slot) if slots.last() != Some(&slot) => slots.push(slot),
                _ => {}
            }
        }
        Self {
            threads: slots.into_iter().map(|slot| (slot, of(Owner::Slot(slot)))).collect(),
            global: of(Owner::Global),
        }
    }

    /// Histograms of one set, as the references of these threads would leave them in a stack of their own. There are no
    /// write-backs in it.
    #[must_use]
    pub fn compose(&self, group: &[u32]) -> Histograms {
        let members: Vec<&Footprint> = self
            .threads
            .iter()
            .filter(|(thread, one)| group.contains(thread) && one.all() > 0.0)
            .map(|(_, one)| one)
            .collect();
        let sum = |of: fn(&Footprint) -> [u64; 2]| {
            members.iter().fold([0; 2], |sum: [u64; 2], one| [sum[0] + of(one)[0], sum[1] + of(one)[1]])
        };
        let (references, all_cold) = (sum(|one| one.references), sum(|one| one.cold));
        let cold = self.cold(&members, all_cold);
        let windows = self.windows(&members);
        let full = self.histograms(&members, &windows, references, cold);
        Histograms { references, cold, full, sets: Vec::new() }
    }

    /// Threads with references.
    fn active(&self) -> impl Iterator<Item = &Footprint> {
        self.threads.iter().map(|(_, thread)| thread).filter(|thread| thread.all() > 0.0)
    }

    /// Lines that all threads use: each was counted once too often for all but one of them.
    fn pool(&self) -> f64 {
        let threads = self.active().count() as f64;
        let surplus = self.active().map(Footprint::distinct).sum::<f64>() - self.global.distinct();
        if threads < 2.0 { 0.0 } else { (surplus / (threads - 1.0)).max(0.0) }
    }

    /// How often `members` threads count lines of a pool too often where all threads do it `surplus` times: if each touches
    /// the same part of the pool, at random, n threads count `n part - (1 - (1 - part)^n)` of it too often.
    fn surplus(&self, members: usize, surplus: f64, pool: f64) -> f64 {
        let threads = self.active().count() as f64;
        if surplus <= 0.0 || pool < 1.0 || threads < 2.0 {
            return 0.0;
        }
        let of = |threads: f64, part: f64| pool * (threads * part - 1.0 + (1.0 - part).powf(threads));
        let (mut least, mut most) = (0.0, 1.0);
        for _ in 0..40 {
            let part = f64::midpoint(least, most);
            if of(threads, part) < surplus { least = part } else { most = part }
        }
        of(members as f64, most)
    }

    /// Lines of the group by the kind of reference that came first.
    fn cold(&self, members: &[&Footprint], all: [u64; 2]) -> [u64; 2] {
        let most = (all[0] + all[1]) as f64;
        let least = members.iter().map(|one| one.distinct()).fold(0.0, f64::max);
        let lines = (most - self.pool() * (members.len() as f64 - 1.0)).clamp(least, most.max(least));
        let loads = (lines * all[0] as f64 / most.max(1.0)).round();
        [loads as u64, (lines - loads).round() as u64]
    }

    /// The group's footprint at windows of growing length, in references of all threads together.
    fn windows(&self, members: &[&Footprint]) -> Vec<Window> {
        let all = self.global.all();
        let own = |thread: &Footprint, window: f64| thread.lines(window * thread.all() / all);
        let pool = self.pool();
        let mut windows: Vec<Window> = Vec::new();
        let mut references = 0.0;
        loop {
            let each = |threads: &mut dyn Iterator<Item = &Footprint>| {
                threads
                    .map(|thread| own(thread, references))
                    .fold((0.0, 0.0_f64), |(sum, most), lines| (sum + lines, most.max(lines)))
            };
            let (sum, most) = each(&mut members.iter().copied());
            let common = each(&mut self.threads.iter().map(|(_, thread)| thread)).0 - self.global.lines(references);
            let before = windows.last().map_or(0.0, |window| window.lines);
            let lines = (sum - self.surplus(members.len(), common, pool)).max(most).max(before);
            windows.push(Window { references, lines });
            if references >= all {
                return windows;
            }
            let next = if references < f64::from(FIRST_WINDOWS) {
                references + 1.0
            } else {
                references * 2_f64.powf(1.0 / WINDOWS)
            };
            references = next.min(all);
        }
    }

    /// Distances from the slope of the footprint, divided among loads and stores as the threads' own misses are.
    fn histograms(
        &self,
        members: &[&Footprint],
        windows: &[Window],
        references: [u64; 2],
        cold: [u64; 2],
    ) -> FullHistograms {
        let all = self.global.all();
        let least = (cold[0] + cold[1]) as f64;
        let mut above = (references[0] + references[1]) as f64;
        let mut kinds_above = references.map(|count| count as f64);
        let (mut bins, mut loads) = (Vec::new(), Vec::new());
        for (lo, hi) in edges(cold[0] + cold[1]) {
            let (misses, window) = misses(windows, hi as f64, all);
            let misses = misses.min(above).max(least);
            let each = members.iter().map(|one| one.misses(one.lines(window * one.all() / all)));
            let kinds = each.fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
            let fallen = [0, 1].map(|kind| (kinds_above[kind] - kinds[kind]).max(0.0));
            let both = fallen[0] + fallen[1];
            bins.push((lo, hi, (above - misses).max(0.0)));
            loads.push(if both > 0.0 { fallen[0] / both } else { 0.5 });
            (above, kinds_above) = (misses, kinds);
        }
        let warm = [0, 1].map(|kind| references[kind] - cold[kind].min(references[kind]));
        let bins = whole(&bins, warm[0] + warm[1]);
        divided(&bins, &loads, warm[0])
    }
}

/// Misses of the group, whose pace is that of the windows, in a cache of so many lines; and how long it takes to fill.
fn misses(windows: &[Window], lines: f64, all: f64) -> (f64, f64) {
    let after = windows.partition_point(|window| window.lines <= lines);
    let (Some(a), Some(b)) = (windows.get(after.wrapping_sub(1)), windows.get(after)) else { return (0.0, all) };
    let slope = (b.lines - a.lines) / (b.references - a.references);
    (slope * all, a.references + (lines - a.lines) / slope)
}

/// Bins up to and including the last distance that a stack of so many lines can have.
fn edges(lines: u64) -> Vec<(u64, u64)> {
    let mut edges = Vec::new();
    let mut lo = 0;
    while lo < lines.max(1) {
        let step = if lo < 2 * BINS { 1 } else { 1 << (lo.ilog2() - BINS.ilog2()) };
        edges.push((lo, lo + step));
        lo += step;
    }
    edges
}

/// Whole counts in the ratio of those given, `total` in all.
fn whole(bins: &[(u64, u64, f64)], total: u64) -> Vec<Bin> {
    let all: f64 = bins.iter().map(|bin| bin.2).sum();
    let (mut sum, mut given) = (0.0, 0);
    let each = bins.iter().enumerate().map(|(index, &(lo, hi, count))| {
        sum += count;
        let last = index + 1 == bins.len();
        let upto = (sum / all.max(f64::MIN_POSITIVE) * total as f64).round() as u64;
        let upto = if last { total } else { upto.clamp(given, total) };
        let count = upto - given;
        given = upto;
        Bin { lo, hi, count }
    });
    each.collect()
}

/// Each bin divided among loads and stores in about the ratio given, so that there are `total` loads.
fn divided(bins: &[Bin], loads: &[f64], total: u64) -> FullHistograms {
    // The odds of a load are those given times one factor for all bins, found by halving.
    let part = |part: f64, factor: f64| {
        let part = part.clamp(1e-6, 1.0 - 1e-6);
        part * factor / (part * factor + 1.0 - part)
    };
    let sum = |factor| bins.iter().zip(loads).map(|(bin, &load)| bin.count as f64 * part(load, factor)).sum::<f64>();
    let (mut least, mut most) = (-60.0, 60.0);
    for _ in 0..60 {
        let middle = f64::midpoint(least, most);
        if sum(middle.exp()) < total as f64 { least = middle } else { most = middle }
    }
    let mut full = FullHistograms::default();
    let (mut wanted, mut given, mut all) = (0.0, 0, 0);
    let last: u64 = bins.iter().map(|bin| bin.count).sum();
    for (&Bin { lo, hi, count }, &load) in bins.iter().zip(loads) {
        wanted += count as f64 * part(load, most.exp());
        all += count;
        // What is still to come must be able to make up the total.
        let upto =
            (wanted.round() as u64).max((total + all).saturating_sub(last)).min(total).clamp(given, given + count);
        let both = [upto - given, count - (upto - given)];
        given = upto;
        for (to, count) in [&mut full.loads, &mut full.stores].into_iter().zip(both) {
            if count > 0 {
                to.push(Bin { lo, hi, count });
            }
        }
    }
    full
}

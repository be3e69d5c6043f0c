//! The candidates of every level with what each does with all references, and the walk down a hierarchy of them.
//!
//! Invariant: the figures of a hierarchy are those of [`crate::query()`], clamping included, which is decided cache by cache.

use super::{objective::Figures, range::LevelRange};
use crate::{
    Answer, Query,
    error::{QueryError, SpecError},
    query::{self, chain},
    spec::{Cache, Scope, Shape},
    units::{self, UnitOf},
};
use bf_profile::Profile;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Most hierarchies of one space: a day's work.
const MAX_HIERARCHIES: u64 = 1 << 40;

/// All hierarchies that some ranges allow, against one profile.
#[derive(Debug)]
pub struct Space<'a> {
    profile: &'a Profile,
    tags: Vec<String>,
    levels: Vec<Vec<Candidate>>,
    names: Vec<String>,
    /// Caches that cannot be, or that the profile was not recorded for.
    pub skipped: usize,
    /// Why the first of them was skipped.
    pub skipped_because: Option<String>,
    layouts: Layouts,
}

/// A cache that a level may be.
#[derive(Debug)]
struct Candidate {
    cache: Cache,
    shape: Shape,
    /// By the bytes of all levels above, which an exclusive level holds too; for others one entry, for 0.
    counted: BTreeMap<u64, Counted>,
}

/// What a cache does with all references.
#[derive(Debug)]
struct Counted {
    /// Of each process of the profile.
    processes: Vec<Option<Vec<UnitOf>>>,
    /// Which caches they are, as an index into [`Layouts::all`].
    layout: usize,
    /// References and misses of each cache, by loads and stores.
    units: Vec<[[u64; 2]; 2]>,
    writebacks: Option<u64>,
}

/// The caches of a level over all processes: process and threads of each.
type Layout = Vec<(usize, Vec<u32>)>;

/// Which caches of one level get the misses of which caches of another.
#[derive(Debug, Default)]
struct Layouts {
    all: Vec<Layout>,
    /// `[above][here]`: for each cache here those above; `None`: nothing is above.
    feeds: Vec<Vec<Vec<Option<Vec<usize>>>>>,
}

/// One hierarchy of a space.
#[derive(Clone, Copy, Debug)]
pub struct Hierarchy<'a> {
    /// Its number: the candidates' numbers as digits, first level first.
    pub index: u64,
    /// Numbers of the candidates, nearest level first.
    pub picks: &'a [usize],
    /// What its levels do.
    pub figures: &'a [Figures],
}

impl<'a> Space<'a> {
    /// Counts what every candidate does. Levels are nearest first.
    ///
    /// # Errors
    /// No candidate of some level can be asked about, the profile lacks a line size or tag, or there are too many.
    pub fn new(profile: &'a Profile, ranges: &[LevelRange], tags: &[String]) -> Result<Self, QueryError> {
        if ranges.is_empty() {
            return Err(QueryError::NoLevels);
        }
        query::check_tags(profile, tags)?;
        let mut space = Self {
            profile,
            tags: tags.to_vec(),
            levels: Vec::new(),
            names: ranges.iter().map(|range| range.name.clone()).collect(),
            skipped: 0,
            skipped_because: None,
            layouts: Layouts::default(),
        };
        // Bytes that the levels above an exclusive one can have together.
        let mut above = BTreeSet::from([0]);
        for (at, range) in ranges.iter().enumerate() {
            let mut wanted = Vec::new();
            for cache in range.caches() {
                match query::shapes(profile, std::slice::from_ref(&cache)) {
                    Ok(shapes) => wanted.extend(shapes.into_iter().map(|shape| (cache.clone(), shape))),
                    Err(QueryError::Spec(error @ SpecError::Impossible { .. })) => space.skip(&error),
                    Err(error) => return Err(error),
                }
            }
            let counted: Vec<_> = wanted.into_par_iter().map(|one| count(profile, tags, one, &above)).collect();
            let mut level = Vec::new();
            let mut refused = None;
            for candidate in counted {
                match candidate {
                    Ok(candidate) => level.push(candidate),
                    Err(error @ (QueryError::MaxWays { .. } | QueryError::Sampled { .. })) => {
                        space.skip(&error);
                        refused.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            if let (true, Some(error)) = (level.is_empty(), refused) {
                return Err(error);
            }
            // Else there may be very many of them, for nothing.
            if ranges[at + 1..].iter().any(|below| below.exclusive) {
                above = above.iter().flat_map(|sum| level.iter().map(move |one| sum + one.shape.size)).collect();
            }
            space.levels.push(level);
        }
        space.layouts.settle(&mut space.levels);
        Ok(space)
    }

    fn skip(&mut self, error: &impl ToString) {
        self.skipped += 1;
        self.skipped_because.get_or_insert_with(|| error.to_string());
    }

    /// Names of the levels, nearest first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Shapes of the candidates, level by level.
    pub fn shapes(&self) -> impl Iterator<Item = Vec<&Shape>> {
        self.levels.iter().map(|level| level.iter().map(|candidate| &candidate.shape).collect())
    }

    /// The shape of a candidate.
    #[must_use]
    pub fn shape(&self, level: usize, pick: usize) -> &Shape {
        &self.levels[level][pick].shape
    }

    /// The caches of a hierarchy, as [`Query::levels`] takes them.
    #[must_use]
    pub fn caches(&self, picks: &[usize]) -> Vec<Cache> {
        self.levels.iter().zip(picks).map(|(level, &pick)| level[pick].cache.clone()).collect()
    }

    /// Hierarchies, those that cannot be included; `None`: too many.
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        let product = self.levels.iter().try_fold(1_u64, |product, level| product.checked_mul(level.len() as u64));
        product.filter(|product| *product <= MAX_HIERARCHIES)
    }

    /// Whether some level has no candidate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.iter().any(Vec::is_empty)
    }

    /// Candidates of the last level.
    pub(super) fn last(&self) -> u64 {
        self.levels.last().map_or(0, Vec::len) as u64
    }

    /// Everything a hierarchy does, as [`crate::query()`] answers it.
    ///
    /// # Errors
    /// Those of [`crate::query()`].
    pub fn answer(&self, picks: &[usize]) -> Result<Answer, QueryError> {
        let mut above = 0;
        let mut counted = Vec::new();
        for (level, &pick) in self.levels.iter().zip(picks) {
            counted.push(level[pick].counted(above));
            above += level[pick].shape.size;
        }
        // A level that cannot be counted below these is refused by the query itself.
        let Some(counted) = counted.into_iter().collect::<Option<Vec<_>>>() else {
            return query::query(self.profile, &self.question(picks));
        };
        let shapes: Vec<Shape> = picks.iter().enumerate().map(|(at, &pick)| self.shape(at, pick).clone()).collect();
        let mut processes = Vec::new();
        for (index, process) in self.profile.processes.iter().enumerate() {
            let levels: Vec<_> = counted.iter().map(|level| level.processes[index].as_deref()).collect();
            processes.push(chain(process, &shapes, &levels)?);
        }
        Ok(query::answer(self.profile, &shapes, &self.question(picks), &processes))
    }

    fn question(&self, picks: &[usize]) -> Query {
        Query { levels: self.caches(picks), tags: self.tags.clone(), ..Query::default() }
    }

    /// Visits the hierarchies whose levels but the last one are those of number `prefix`; returns how many of them cannot
    /// be: a level is smaller than the one above, or private below a shared one.
    pub(super) fn visit(&self, prefix: u64, mut take: impl FnMut(Hierarchy<'_>)) -> u64 {
        let Some((last, front)) = self.levels.split_last() else { return 0 };
        let mut picks = vec![0; self.levels.len()];
        let mut rest = prefix;
        for (level, pick) in front.iter().zip(&mut picks).rev() {
            *pick = (rest % level.len() as u64) as usize;
            rest /= level.len() as u64;
        }
        let mut walk = Walk { space: self, figures: Vec::new(), misses: Vec::new(), above: Vec::new(), bytes: 0 };
        for (level, &pick) in front.iter().zip(&picks) {
            if !walk.down(&level[pick]) {
                return last.len() as u64;
            }
        }
        let mut impossible = 0;
        for (pick, candidate) in last.iter().enumerate() {
            let bytes = walk.bytes;
            if !walk.down(candidate) {
                impossible += 1;
                continue;
            }
            picks[front.len()] = pick;
            let index = prefix * last.len() as u64 + pick as u64;
            take(Hierarchy { index, picks: &picks, figures: &walk.figures });
            walk.up(bytes);
        }
        impossible
    }

    /// Candidates of a hierarchy by its number.
    #[must_use]
    pub fn picks(&self, index: u64) -> Vec<usize> {
        let mut rest = index;
        let mut picks: Vec<usize> = Vec::new();
        for level in self.levels.iter().rev() {
            picks.push((rest % level.len() as u64) as usize);
            rest /= level.len() as u64;
        }
        picks.reverse();
        picks
    }
}

fn count(
    profile: &Profile,
    tags: &[String],
    (cache, shape): (Cache, Shape),
    above: &BTreeSet<u64>,
) -> Result<Candidate, QueryError> {
    let sums: Vec<u64> = if shape.exclusive { above.iter().copied().collect() } else { vec![0] };
    let mut counted = BTreeMap::new();
    let mut refused = None;
    for sum in sums {
        let capacity = (sum + shape.size) / u64::from(shape.line);
        let processes = profile.processes.iter().map(|process| units::count(process, &shape, capacity, None, tags));
        match processes.collect::<Result<Vec<_>, _>>() {
            Ok(processes) => {
                counted.insert(sum, Counted::new(profile, &shape, processes)?);
            }
            Err(error @ QueryError::MaxWays { .. }) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    match refused {
        Some(error) if counted.is_empty() => Err(error),
        _ => Ok(Candidate { cache, shape, counted }),
    }
}

impl Candidate {
    /// What it does below levels of so many bytes.
    fn counted(&self, above: u64) -> Option<&Counted> {
        self.counted.get(if self.shape.exclusive { &above } else { &0 })
    }
}

impl Counted {
    fn new(profile: &Profile, shape: &Shape, processes: Vec<Option<Vec<UnitOf>>>) -> Result<Self, QueryError> {
        let mut sum = crate::answer::LevelCounts::none();
        for (process, units) in profile.processes.iter().zip(&processes) {
            let alone = chain(process, std::slice::from_ref(shape), &[units.as_deref()])?;
            alone.levels.iter().for_each(|level| sum.add(level));
        }
        let counts = processes.iter().flatten().flatten().map(|(_, counts)| counts);
        let units = counts.map(|counts| [counts.references, counts.misses.map(|figure| figure.value)]);
        let (units, writebacks) = (units.collect(), sum.dirty().map(|(writebacks, _)| writebacks.value));
        Ok(Self { processes, layout: 0, units, writebacks })
    }

    fn layout(&self) -> Layout {
        let units = self.processes.iter().enumerate();
        let units = units.flat_map(|(process, units)| units.iter().flatten().map(move |(unit, _)| (process, unit)));
        units.map(|(process, unit)| (process, unit.slots.clone())).collect()
    }
}

impl Layouts {
    /// Finds the different layouts of all candidates, and what feeds what.
    fn settle(&mut self, levels: &mut [Vec<Candidate>]) {
        for counted in levels.iter_mut().flatten().flat_map(|candidate| candidate.counted.values_mut()) {
            let layout = counted.layout();
            counted.layout = self.all.iter().position(|other| *other == layout).unwrap_or_else(|| {
                self.all.push(layout);
                self.all.len() - 1
            });
        }
        let feeds = |above: &Layout, (process, slots): &(usize, Vec<u32>)| {
            let mut there = above.iter().enumerate().filter(|(_, (other, _))| other == process).peekable();
            there.peek()?;
            let within = |slot: &u32| slots.contains(slot);
            Some(there.filter(|(_, (_, other))| other.iter().all(within)).map(|(at, _)| at).collect())
        };
        let row = |above| self.all.iter().map(|here| here.iter().map(|unit| feeds(above, unit)).collect()).collect();
        self.feeds = self.all.iter().map(row).collect();
    }
}

/// The way down one hierarchy.
struct Walk<'a> {
    space: &'a Space<'a>,
    figures: Vec<Figures>,
    /// Misses of every cache of every level so far, clamped.
    misses: Vec<[u64; 2]>,
    /// Layout and scope of the levels so far, and where their misses begin.
    above: Vec<(usize, Scope, usize)>,
    /// Bytes of the levels so far.
    bytes: u64,
}

impl Walk<'_> {
    /// One level further; nothing if the candidate cannot stand there.
    fn down(&mut self, candidate: &Candidate) -> bool {
        let Candidate { shape, .. } = candidate;
        let smaller = self.figures.last().is_some_and(|above| shape.size < above.size);
        let shared = self.above.last().is_some_and(|(_, scope, _)| *scope == Scope::Shared);
        let Some(counted) = candidate.counted(self.bytes) else { return false };
        if smaller || shared && shape.scope == Scope::Private {
            return false;
        }
        let from = self.misses.len();
        let (mut accesses, mut misses) = (0, 0);
        let feeds = self.above.last().map(|&(above, _, from)| (&self.space.layouts.feeds[above][counted.layout], from));
        for (at, &[references, alone]) in counted.units.iter().enumerate() {
            let reached = feeds.and_then(|(feeds, from)| {
                let above = feeds[at].as_ref()?.iter().map(|unit| self.misses[from + unit]);
                Some(above.fold([0, 0], |sum: [u64; 2], more| [sum[0] + more[0], sum[1] + more[1]]))
            });
            let (all, missed) = match reached {
                None => (references, alone),
                Some(all) if alone[0] + alone[1] > all[0] + all[1] => (all, all),
                Some(all) => (all, alone),
            };
            accesses += all[0] + all[1];
            misses += missed[0] + missed[1];
            self.misses.push(missed);
        }
        let &Shape { line, size, scope, .. } = shape;
        self.figures.push(Figures { accesses, misses, writebacks: counted.writebacks, line, size });
        self.above.push((counted.layout, scope, from));
        self.bytes += size;
        true
    }

    /// Back to the level above, whose levels have so many bytes.
    fn up(&mut self, bytes: u64) {
        if let Some((_, _, from)) = self.above.pop() {
            self.misses.truncate(from);
        }
        self.figures.pop();
        self.bytes = bytes;
    }
}

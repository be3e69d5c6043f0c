//! A hierarchy of caches, broken down by where in the source references came from.
//!
//! Invariant: what is attributed adds up to the answer of [`crate::query`] for the same question, figure by figure. Where
//! the answer is an exact sum so are its parts. Where it is rounded, clamped or interpolated it is divided in proportion.

use crate::{
    answer::Answer,
    error::QueryError,
    paths,
    query::{self, Query, query},
    spec::{Scope, Shape},
    stack::Level,
};
use bf_profile::{Counters, ItemLines, LineData, ObjectKind, Owner, Places, Process, Profile, objects::Object};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is attributed to one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// References by loads and by stores.
    pub references: [u64; 2],
    /// For each level of the hierarchy.
    pub levels: Vec<LevelFigures>,
    /// What was executed there, in the order of [`Attribution::counters`]; what is missing is zero.
    pub counters: Vec<u64>,
}

/// The part of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelFigures {
    /// Misses by loads and by stores.
    pub misses: [u64; 2],
    /// Write-backs of lines that stores here made dirty.
    pub writebacks: u64,
}

impl Figures {
    /// Nothing, of so many levels.
    #[must_use]
    pub fn none(levels: usize) -> Self {
        Self { references: [0; 2], levels: vec![LevelFigures::default(); levels], counters: Vec::new() }
    }

    /// Adds those of another place.
    pub fn add(&mut self, other: &Self) {
        let more = other.columns();
        self.columns_mut().into_iter().zip(more).for_each(|(sum, more)| *sum += more);
        self.counters.resize(self.counters.len().max(other.counters.len()), 0);
        self.counters.iter_mut().zip(&other.counters).for_each(|(sum, more)| *sum += more);
    }

    /// Every count of references and caches, in a fixed order.
    fn columns(&self) -> Vec<u64> {
        let levels = self.levels.iter().flat_map(|level| [level.misses[0], level.misses[1], level.writebacks]);
        self.references.into_iter().chain(levels).collect()
    }

    fn columns_mut(&mut self) -> Vec<&mut u64> {
        let levels = self.levels.iter_mut().flat_map(|level| {
            let [loads, stores] = &mut level.misses;
            [loads, stores, &mut level.writebacks]
        });
        self.references.iter_mut().chain(levels).collect()
    }

    /// Every figure with its name: `load_references`, `store_references`, and for each of the levels `NAME.misses`,
    /// `NAME.load_misses`, `NAME.store_misses` and, where the answer has them, `NAME.writebacks`.
    pub fn named<'a>(&'a self, answer: &'a Answer) -> impl Iterator<Item = (String, u64)> + 'a {
        let references = [("load_references", self.references[0]), ("store_references", self.references[1])];
        let levels = answer.levels.iter().zip(&self.levels).flat_map(|(answer, level)| {
            let [loads, stores] = level.misses;
            let all = [("misses", loads + stores), ("load_misses", loads), ("store_misses", stores)];
            let all = all.into_iter().chain(answer.writebacks.map(|_| ("writebacks", level.writebacks)));
            all.map(|(name, count)| (format!("{}.{name}", answer.name), count))
        });
        references.map(|(name, count)| (name.to_owned(), count)).into_iter().chain(levels)
    }
}

/// One item of one process.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Whose it is.
    pub process: &'a Process,
    /// What the item's site is an index into.
    pub places: &'a Places,
    /// `None`: unknown.
    pub site: Option<u32>,
    /// Whether it stands for what is left of the site's function.
    pub merged: bool,
    /// What the references went to; `None`: unknown, or not recorded.
    pub object: Option<&'a Object>,
    /// Index of the call path in [`bf_profile::Paths::nodes`]; `None`: unknown, or not recorded.
    pub path: Option<u32>,
    /// What is attributed to it.
    pub figures: Figures,
}

/// An answer with its parts.
#[derive(Clone, Debug, Default)]
pub struct Attribution<'a> {
    /// The whole; without levels: nothing was asked but what was executed.
    pub answer: Answer,
    /// What it consists of.
    pub parts: Vec<Part<'a>>,
    /// Names of the counters that the parts have beside the answer's figures: see [`Attribution::with_counters`].
    pub counters: Vec<&'a str>,
}

/// The answer to a query and what of it is attributed to each item.
///
/// # Errors
/// Those of [`query`], and a process that was not recorded by place.
pub fn attribute<'a>(profile: &'a Profile, asked: &Query) -> Result<Attribution<'a>, QueryError> {
    let answer = query(profile, asked)?;
    if let Some(process) = not_by_place(profile) {
        return Err(QueryError::NotByPlace {
            executable: process.meta.executable.clone(),
            mend: mend_by_place(process),
        });
    }
    let shapes = query::shapes(profile, &asked.levels)?;
    let capacities = query::capacities(&shapes);
    let mut parts = Vec::new();
    for process in profile.processes.iter().filter(|process| process.line_sizes().next().is_some()) {
        let mut items: BTreeMap<u32, Figures> = BTreeMap::new();
        for (index, (shape, &capacity)) in shapes.iter().zip(&capacities).enumerate() {
            count(process, (index, shapes.len()), shape, capacity, &asked.tags, &mut items)?;
        }
        parts.extend(items.into_iter().map(|(item, figures)| {
            let object = process.objects.items.get(item as usize).copied().flatten();
            let object = object.and_then(|object| process.objects.objects.get(object as usize));
            let path = process.paths.items.get(item as usize).copied().flatten();
            let item = process.places.items.get(item as usize).copied().unwrap_or_default();
            Part { process, places: &process.places, site: item.site, merged: item.merged, object, path, figures }
        }));
    }
    apportion_to(parts.iter_mut().map(|part| &mut part.figures), &totals(&answer));
    Ok(Attribution { answer, parts, counters: Vec::new() })
}

/// A process whose references were recorded, but not by place.
#[must_use]
pub fn not_by_place(profile: &Profile) -> Option<&Process> {
    let recorded = |process: &&Process| process.line_sizes().next().is_some() && process.meta.accesses > 0;
    profile.processes.iter().filter(recorded).find(|process| process.items.is_empty())
}

/// What [`not_by_place`] needs to be otherwise.
#[must_use]
pub const fn mend_by_place(process: &Process) -> &'static str {
    match process.sampled.is_empty() {
        true => "compile with -bf-by-func, or set BF_BY_PLACE=1 when it runs",
        false => "samples are not, so run it without BF_SAMPLE",
    }
}

/// The figures of the whole.
#[must_use]
pub fn totals(answer: &Answer) -> Figures {
    let level = |level: &crate::LevelAnswer| LevelFigures {
        misses: [level.load_misses, level.store_misses],
        writebacks: level.writebacks.unwrap_or(0),
    };
    Figures {
        references: [answer.load_references, answer.store_references],
        levels: answer.levels.iter().map(level).collect(),
        counters: Vec::new(),
    }
}

/// Adds what one level does with the items of a process.
fn count(
    process: &Process,
    (index, levels): (usize, usize),
    shape: &Shape,
    capacity: u64,
    tags: &[String],
    to: &mut BTreeMap<u32, Figures>,
) -> Result<(), QueryError> {
    let Some(lines) = process.items.iter().find(|lines| lines.line_bytes == shape.line) else { return Ok(()) };
    let &ItemLines { line_bytes, max_set_bits, max_ways, .. } = lines;
    let limits = LineData { line_bytes, max_set_bits, max_ways, stacks: Vec::new() };
    let mut level = Level::new(shape, capacity, &limits)?;
    let mut owners: Vec<_> = lines.stacks.iter().map(|stack| stack.owner).collect();
    owners.dedup();
    let owners = of_scope(owners, shape.scope)?;
    let wanted = |tag: u32| query::is_wanted(process, tags, tag);
    for stack in lines.stacks.iter().filter(|stack| owners.contains(&stack.owner) && wanted(stack.tag)) {
        let counts = level.count(&stack.histograms);
        let figures = to.entry(stack.item).or_insert_with(|| Figures::none(levels));
        if index == 0 {
            figures.references.iter_mut().zip(counts.references).for_each(|(sum, count)| *sum += count);
        }
        let part = &mut figures.levels[index];
        part.misses.iter_mut().zip(counts.misses).for_each(|(sum, count)| *sum += count.value);
        part.writebacks += counts.writebacks.value;
    }
    Ok(())
}

/// Those of `owners` whose stacks make up a level: all slots, or the one of all threads.
fn of_scope(mut owners: Vec<Owner>, scope: Scope) -> Result<Vec<Owner>, QueryError> {
    let global = owners.contains(&Owner::Global);
    owners.retain(|&owner| owner != Owner::Global);
    match scope {
        Scope::Private => Ok(owners),
        Scope::Shared if global => Ok(vec![Owner::Global]),
        Scope::Shared if owners.len() <= 1 => Ok(owners),
        Scope::Shared => Err(QueryError::NoGlobal),
    }
}

/// Makes parts add up to the whole, figure by figure.
pub(crate) fn apportion_to<'a>(parts: impl Iterator<Item = &'a mut Figures>, whole: &Figures) {
    let mut columns: Vec<_> = whole.columns().iter().map(|_| Vec::new()).collect();
    for part in parts {
        columns.iter_mut().zip(part.columns_mut()).for_each(|(column, value)| column.push(value));
    }
    columns.iter_mut().zip(whole.columns()).for_each(|(column, total)| apportion(column, total));
}

/// Makes values add up to `total`, each as near to its share as whole numbers allow.
fn apportion(values: &mut [&mut u64], total: u64) {
    let sum: u64 = values.iter().map(|value| **value).sum();
    if sum == total {
        return;
    }
    if sum == 0 {
        // Nothing has a share: the first takes it all.
        values.iter_mut().take(1).for_each(|value| **value = total);
        return;
    }
    let (sum, all) = (u128::from(sum), u128::from(total));
    // What each is cut by, the greatest first.
    let mut cut: Vec<(u128, usize)> = Vec::with_capacity(values.len());
    let mut left = total;
    for (at, value) in values.iter_mut().enumerate() {
        let share = u128::from(**value) * all;
        **value = (share / sum) as u64;
        left -= **value;
        cut.push((share % sum, at));
    }
    cut.sort_unstable_by_key(|&(cut, at)| (std::cmp::Reverse(cut), at));
    for &(_, at) in cut.iter().take(left as usize) {
        *values[at] += 1;
    }
}

/// What rows stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Functions as they were compiled: what was inlined into one is part of it.
    Function,
    /// Lines of source, wherever they were inlined.
    Line,
    /// Lines of the program's own source: what is written in the source of the system, as the standard library is, counts where it
    /// was inlined.
    #[serde(rename = "own-line")]
    OwnLine,
    /// Innermost loops, by the line they begin on.
    Loop,
    /// Objects in memory: variables, blocks by where they were allocated, stacks.
    Object,
    /// Functions as they were compiled, with their callers: see [`crate::paths`].
    Callpath,
    /// Basic blocks of functions as they were compiled, where the compiler was asked to tell them.
    Block,
}

/// One row of a breakdown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// The name of the function that was compiled (for functions), or in which the line or loop is written, or of the object.
    pub name: String,
    /// Linkage name of that function.
    pub linkage_name: String,
    /// Path of the source file; "" if unknown.
    pub file: String,
    /// Line that the function (of a basic block, too) or loop begins on, or the line itself, or that on which memory was
    /// allocated; 0 if unknown.
    pub line: u32,
    /// How many loops are around it, itself included; 0 if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Number of the basic block in that function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// What kind of object it is: `"global"`, `"heap"` or `"stack"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Whether it stands for places of the function that could not be told apart for want of items.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
    /// Of a call path: its functions, the first caller first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

/// What a function, line or loop is called that nothing is known of.
pub const UNKNOWN: &str = "(unknown)";

impl Key {
    /// The row that an item belongs to.
    fn of(part: &Part<'_>, by: By) -> Self {
        let places = part.places;
        if by == By::Object {
            let unknown = || Self { name: UNKNOWN.to_owned(), ..Self::default() };
            return part.object.map_or_else(unknown, |object| Self::of_object(object, places));
        }
        if by == By::Callpath {
            let chain = part.path.map_or_else(Vec::new, |node| paths::chain(part.process, node));
            return Self::of_chain(&chain.iter().collect::<Vec<_>>());
        }
        let index = part.site.and_then(|index| if by == By::OwnLine { places.in_program(index) } else { Some(index) });
        let Some((index, site)) = index.and_then(|index| Some((index, places.sites.get(index as usize)?))) else {
            return Self { name: UNKNOWN.to_owned(), ..Self::default() };
        };
        let function = |index: u32| Self::of_function(places, index);
        let file = |file: u32| places.string(file).to_owned();
        match by {
            By::Function => function(places.compiled_into(index)),
            By::Block => {
                let block = places.block(index);
                let merged = part.merged && block.is_none();
                Self { block, merged, ..function(places.compiled_into(index)) }
            }
            By::Line | By::OwnLine => {
                Self { file: file(site.file), line: site.line, merged: part.merged, ..function(site.function) }
            }
            By::Loop => match site.innermost.and_then(|found| places.loops.get(found as usize)) {
                Some(found) => {
                    let depth = Some(found.depth);
                    Self { file: file(found.file), line: found.line, depth, ..function(found.function) }
                }
                None => Self { depth: Some(0), merged: part.merged, ..function(places.compiled_into(index)) },
            },
            By::Object | By::Callpath => Self::default(),
        }
    }

    /// A function.
    pub(crate) fn of_function(places: &Places, index: u32) -> Self {
        let function = places.functions.get(index as usize).copied().unwrap_or_default();
        let [name, linkage_name, file] =
            [function.display, function.name, function.file].map(|text| places.string(text).to_owned());
        Self { name, linkage_name, file, line: function.line, ..Self::default() }
    }

    /// A call path: its functions, the first caller first.
    #[must_use]
    pub fn of_chain(chain: &[&Self]) -> Self {
        let path: Vec<_> = chain.iter().map(|key| key.name.clone()).collect();
        let Some(&last) = chain.last() else { return Self { name: UNKNOWN.to_owned(), ..Self::default() } };
        Self { name: path.join(" > "), path, ..last.clone() }
    }

    /// A variable, the blocks of a place, or a stack.
    pub(crate) fn of_object(object: &Object, places: &Places) -> Self {
        let site = object.site.and_then(|site| places.sites.get(site as usize));
        Self {
            name: object.name.clone(),
            file: site.map_or_else(String::new, |site| places.string(site.file).to_owned()),
            line: site.map_or(0, |site| site.line),
            kind: Some(match object.kind {
                ObjectKind::Global => "global",
                ObjectKind::Heap => "heap",
                ObjectKind::Stack => "stack",
            }),
            ..Self::default()
        }
    }
}

/// How much memory an object took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// How many blocks were allocated.
    pub blocks: u64,
    /// Bytes of all of them; 0: unknown.
    pub bytes: u64,
    /// The most bytes of them that were in use at a time, of several processes the sum; 0: unknown.
    pub peak_bytes: u64,
}

impl<'a> Attribution<'a> {
    /// Adds what was executed at each place, of what has one of these tags or of all if there are none: parts without
    /// references. All counters that stand by themselves are there, and add up to [`crate::counters::totals`].
    #[must_use]
    pub fn with_counters(mut self, profile: &'a Profile, tags: &[String]) -> Self {
        let totals = crate::counters::totals(profile, tags);
        self.counters = totals.into_keys().filter(|name| crate::counters::family(name).is_none()).collect();
        for process in &profile.processes {
            let Counters { names, items, places, .. } = &process.counters;
            // What a process has no places of is there as a whole.
            let whole = items.iter().filter(|_| places.is_empty()).map(|item| (item.tag, None, &item.values));
            let placed = places.iter().map(|place| (place.tag, place.site, &place.values));
            let mut sites: BTreeMap<Option<u32>, Vec<u64>> = BTreeMap::new();
            for (_, site, values) in placed.chain(whole).filter(|&(tag, ..)| query::is_wanted(process, tags, tag)) {
                let sums = sites.entry(site).or_insert_with(|| vec![0; self.counters.len()]);
                for &(name, value) in values {
                    let name = names.get(name as usize).map(String::as_str);
                    if let Some(at) = name.and_then(|name| self.counters.binary_search(&name).ok()) {
                        sums[at] += value;
                    }
                }
            }
            self.parts.extend(sites.into_iter().map(|(site, counters)| Part {
                process,
                places: &process.places,
                site,
                merged: false,
                object: None,
                path: None,
                figures: Figures { counters, ..Figures::none(self.answer.levels.len()) },
            }));
        }
        self
    }

    /// The figures of the whole, counters too.
    #[must_use]
    pub fn totals(&self) -> Figures {
        let mut all = totals(&self.answer);
        let counters = self
            .parts
            .iter()
            .map(|part| Figures { counters: part.figures.counters.clone(), ..Figures::none(self.answer.levels.len()) });
        counters.for_each(|part| all.add(&part));
        all
    }

    /// Figures by name: those of [`Figures::named`] if caches were asked about, and every counter.
    pub fn named<'b>(&'b self, figures: &'b Figures) -> impl Iterator<Item = (String, u64)> + 'b {
        let caches = figures.named(&self.answer).filter(|_| !self.answer.levels.is_empty());
        let values = figures.counters.iter().copied().chain(std::iter::repeat(0));
        caches.chain(self.counters.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value)))
    }

    /// How much memory the objects took, by row.
    #[must_use]
    pub fn memory(&self) -> BTreeMap<Key, Memory> {
        let mut rows: BTreeMap<Key, Memory> = BTreeMap::new();
        let mut processes: Vec<&Process> = self.parts.iter().map(|part| part.process).collect();
        processes.dedup_by(|a, b| std::ptr::eq(*a, *b));
        for process in processes {
            for object in &process.objects.objects {
                let row = rows.entry(Key::of_object(object, &process.places)).or_default();
                row.blocks += object.count;
                row.bytes += object.bytes;
                row.peak_bytes += object.peak;
            }
        }
        rows
    }

    /// A process that was recorded by place and not by object.
    #[must_use]
    pub fn without_objects(&self) -> Option<&Process> {
        self.parts.iter().map(|part| part.process).find(|process| process.objects.items.is_empty())
    }

    /// What is attributed to each function, line, loop, object or call path.
    #[must_use]
    pub fn by(&self, by: By) -> Vec<(Key, Figures)> {
        let mut rows: BTreeMap<Key, Figures> = BTreeMap::new();
        for part in &self.parts {
            let row = rows.entry(Key::of(part, by)).or_insert_with(|| Figures::none(self.answer.levels.len()));
            row.add(&part.figures);
        }
        rows.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apportioned(mut values: Vec<u64>, total: u64) -> Vec<u64> {
        apportion(&mut values.iter_mut().collect::<Vec<_>>(), total);
        values
    }

    #[test]
    fn shares_add_up_and_exact_ones_stay() {
        assert_eq!(apportioned(vec![3, 0, 4], 7), [3, 0, 4]);
        assert_eq!(apportioned(vec![1, 1, 1], 4), [2, 1, 1]);
        assert_eq!(apportioned(vec![10, 20, 70], 10), [1, 2, 7]);
        assert_eq!(apportioned(vec![5, 5], 3), [2, 1]);
        assert_eq!(apportioned(vec![0, 0], 3), [3, 0]);
        assert!(apportioned(Vec::new(), 3).is_empty());
        assert_eq!(apportioned(vec![u64::MAX / 4, u64::MAX / 4], u64::MAX / 2), [u64::MAX / 4 + 1, u64::MAX / 4]);
    }
}

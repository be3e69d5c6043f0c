//! From counts of slots to the counters of a profile.

use crate::paths::Found;
use crate::places::Interned;
use crate::slots::{self, Counted, Counts, Run};
use crate::{called, modules};
use bf_abi::counting::{Function, Part, Slot, Term};
use bf_collect::Bucket;
use bf_profile::{BlockItem, CountItem, CountedFunction, Counters, PathCounts, PlaceItem};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Prefix of the counters of calls into functions that the calling module does not define.
const CALLS_TO: &str = "calls_to/";

/// The same of calls through pointers.
const CALLS_INDIRECT_TO: &str = "calls_indirect_to/";

/// A function that no symbol names.
const UNKNOWN: &str = "(unknown)";

/// A function: name, file and line, as [`CountedFunction`] has them.
type Name<'a> = (&'a str, &'a str, u32);

/// Amounts by name of the counter.
type Amounts<'a> = BTreeMap<&'a str, i64>;

/// What was counted so far, by tag and function, and then by site, or block with its line.
#[derive(Default)]
struct Sums<'a> {
    /// 1 + the number of a site; 0: unknown.
    places: BTreeMap<(u32, Name<'a>, u32), Amounts<'a>>,
    blocks: BTreeMap<(u32, Name<'a>, u32), (u32, Amounts<'a>)>,
}

/// Everything counted so far, on these paths and on none. Amounts below zero, which only a reading in the middle of a branch
/// can make, are zero.
pub fn collect(paths: &[Found]) -> Counters {
    called::name();
    modules::naming(|places| collected(&mut slots::counts(), paths, places))
}

fn collected(counts: &mut Counts, paths: &[Found], table: &mut Interned) -> Counters {
    let Counts { modules, targets, totals, .. } = counts;
    let totals: Vec<_> = totals.iter().map(|totals| whole(modules, totals, paths)).collect();
    let callee = |name: Option<&str>| format!("{CALLS_INDIRECT_TO}{}", name.unwrap_or(UNKNOWN));
    let callees: Vec<_> = targets.iter().map(|target| callee(target.name.as_deref())).collect();
    let mut sites = Vec::new();
    for module in &mut *modules {
        let used = (module.first..module.first + module.slots.len())
            .map(|slot| totals.iter().any(|totals| totals.get(slot).is_some_and(|&count| count > 0)));
        sites.push(module.sites(used, table));
    }
    let mut sums = Sums::default();
    let tagged = totals.iter().enumerate().skip(usize::from(Bucket::FIRST.0));
    for (bucket, totals) in tagged {
        let tag = (bucket - usize::from(Bucket::FIRST.0)) as u32;
        modules.iter().zip(&sites).for_each(|(module, sites)| sums.add(module, sites, tag, totals));
        for (target, callee) in targets.iter().zip(&callees) {
            let calls = totals.get(target.slot).copied().unwrap_or_default();
            let module = &modules[target.module];
            let Some(function) = module.functions.get(target.function as usize).filter(|_| calls > 0) else { continue };
            let sums = sums.places.entry((tag, counted(module, function), 0)).or_default();
            *sums.entry(callee).or_default() += calls.cast_signed();
        }
    }
    sums.counters()
}

impl Counted {
    /// By index of a part: 1 + the number of its site, 0 for parts of slots that were not `used`.
    fn sites(&mut self, used: impl Iterator<Item = bool>, table: &mut Interned) -> Vec<u32> {
        let mut sites = Vec::with_capacity(self.parts.len());
        for (slot, used) in self.slots.iter().zip(used) {
            let parts = self.parts.iter().skip(sites.len()).take(slot.n_parts as usize);
            let site = |part: &Part| if used { table.line(&mut self.places, part.site) } else { 0 };
            sites.extend(parts.map(site));
        }
        sites
    }
}

impl<'a> Sums<'a> {
    fn add(&mut self, module: &'a Counted, sites: &[u32], tag: u32, totals: &[u64]) {
        let mut parts = module.parts.iter().zip(sites);
        for (slot, number) in module.slots.iter().zip(module.first..) {
            let count = totals.get(number).copied().unwrap_or_default();
            let function = module.functions.get(slot.function as usize).filter(|_| count > 0);
            let function = function.map(|function| counted(module, function));
            for (part, &site) in parts.by_ref().take(slot.n_parts as usize) {
                let Some(function) = function else { continue };
                add(self.places.entry((tag, function, site)).or_default(), module, part, count);
                if module.every_block {
                    let block = self.blocks.entry((tag, function, slot.block));
                    add(&mut block.or_insert_with(|| (slot.line, Amounts::new())).1, module, part, count);
                }
            }
        }
    }

    fn counters(mut self) -> Counters {
        let blocks = self.blocks.values_mut().map(|(_, amounts)| amounts);
        let amounts = self.places.values_mut().chain(blocks).flat_map(BTreeMap::values_mut);
        amounts.for_each(|amount| *amount = (*amount).max(0));
        let mut names: Vec<&str> = self.places.values().flat_map(BTreeMap::keys).copied().collect();
        names.sort_unstable();
        names.dedup();
        let mut functions: Vec<_> = self.places.keys().map(|&(_, function, _)| function).collect();
        functions.sort_unstable();
        functions.dedup();
        let place = |name: &str| names.binary_search(&name).unwrap_or_default() as u32;
        let number = |function: &Name<'_>| functions.binary_search(function).unwrap_or_default() as u32;
        let values = |amounts: &Amounts<'_>| -> Vec<(u32, u64)> {
            amounts.iter().map(|(name, value)| (place(name), value.cast_unsigned())).collect()
        };
        let (mut items, mut places) =
            (BTreeMap::<_, BTreeMap<u32, u64>>::new(), BTreeMap::<_, BTreeMap<u32, u64>>::new());
        for ((tag, function, site), amounts) in &self.places {
            let item = items.entry((*tag, number(function))).or_default();
            let sums = places.entry((*tag, *site)).or_default();
            for (name, value) in values(amounts) {
                *item.entry(name).or_default() += value;
                // What a program makes the names of would be too much.
                if !names[name as usize].contains('/') {
                    *sums.entry(name).or_default() += value;
                }
            }
        }
        let blocks = self.blocks.iter().map(|((tag, function, block), (line, amounts))| {
            let (tag, function, block, line) = (*tag, number(function), *block, *line);
            BlockItem { tag, function, block, line, values: values(amounts) }
        });
        let blocks = blocks.collect();
        let items = items.into_iter().map(|((tag, function), values)| CountItem {
            tag,
            function,
            values: values.into_iter().collect(),
        });
        let places = places.into_iter().filter(|(_, values)| !values.is_empty()).map(|((tag, site), values)| {
            PlaceItem { tag, site: site.checked_sub(1), values: values.into_iter().collect() }
        });
        let (items, places) = (items.collect(), places.collect());
        let functions = functions
            .iter()
            .map(|&(name, file, line)| CountedFunction { name: name.to_owned(), file: file.to_owned(), line })
            .collect();
        Counters { names: names.into_iter().map(str::to_owned).collect(), functions, items, blocks, places }
    }
}

/// Calls by callee that the calling module does not define.
pub fn calls(counters: &Counters) -> impl Iterator<Item = (&str, u64)> {
    counters.totals().filter_map(|(name, calls)| Some((name.strip_prefix(CALLS_TO)?, calls)))
}

/// Calls through pointers of functions that are not counted, by name.
pub fn indirect(counters: &Counters) -> impl Iterator<Item = (&str, u64)> {
    let is_counted = |name: &str| counters.functions.iter().any(|function| function.name == name);
    let calls = counters.totals().filter_map(|(name, calls)| Some((name.strip_prefix(CALLS_INDIRECT_TO)?, calls)));
    calls.filter(move |(name, _)| *name != UNKNOWN && !is_counted(name))
}

/// The totals as if no function had slots of its own for each path.
fn whole<'a>(modules: &[Counted], totals: &'a [u64], paths: &[Found]) -> Cow<'a, [u64]> {
    let mut whole = Cow::Borrowed(totals);
    for (slot, run) in paths.iter().filter_map(|path| path.counts).filter_map(|(slot, run)| Some((slot?, run))) {
        let first = modules[run.module].first + run.first;
        for index in 0..run.len {
            let count = totals.get(slot + index).copied().unwrap_or_default();
            if count > 0
                && let Some(sum) = whole.to_mut().get_mut(first + index)
            {
                *sum += count;
            }
        }
    }
    whole
}

/// What was executed on each path, in the names of all counters.
pub fn by_path(counters: &Counters, paths: &[Found]) -> Vec<PathCounts> {
    let counts = slots::counts();
    let first_parts: Vec<_> = counts.modules.iter().map(first_parts).collect();
    let mut all = Vec::new();
    for (tag, totals) in (0..).zip(counts.totals.iter().skip(usize::from(Bucket::FIRST.0))) {
        for (node, path) in (0..).zip(paths) {
            let Some((slot, run)) = path.counts else { continue };
            let values = on_path(&counts.modules[run.module], &first_parts[run.module], (slot, run), totals);
            let named = |(name, value): (&str, i64)| {
                let name = counters.names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
                Some((name as u32, value.max(0).cast_unsigned()))
            };
            let values: Vec<_> = values.into_iter().filter(|&(_, value)| value != 0).filter_map(named).collect();
            if !values.is_empty() {
                all.push(PathCounts { tag, node, values });
            }
        }
    }
    all
}

/// By slot of a module: the index of its first part.
fn first_parts(module: &Counted) -> Vec<usize> {
    let mut next = 0;
    let first = |slot: &Slot| {
        let first = next;
        next += slot.n_parts as usize;
        first
    };
    module.slots.iter().map(first).collect()
}

/// What the slots of a path come to, or those of its function if it has none.
fn on_path<'a>(
    module: &'a Counted,
    first_parts: &[usize],
    (slot, run): (Option<usize>, Run),
    totals: &[u64],
) -> Amounts<'a> {
    let mut amounts = Amounts::new();
    let slots = module.slots.iter().zip(first_parts).skip(run.first).take(run.len);
    for ((slot, &first), number) in slots.zip(slot.unwrap_or(module.first + run.first)..) {
        let count = totals.get(number).copied().unwrap_or_default();
        let parts = module.parts.iter().skip(first).take(slot.n_parts as usize);
        parts.for_each(|part| add(&mut amounts, module, part, count));
    }
    amounts
}

/// Adds what a part comes to that was executed so often.
fn add<'a>(amounts: &mut Amounts<'a>, module: &'a Counted, part: &Part, count: u64) {
    for term in terms(module, part) {
        let amount = i64::from(term.amount).wrapping_mul(count.cast_signed());
        let sum = amounts.entry(string(module, term.counter)).or_default();
        *sum = sum.wrapping_add(amount);
    }
}

fn terms<'a>(module: &'a Counted, part: &Part) -> &'a [Term] {
    module
        .terms
        .get(part.first_term as usize..)
        .and_then(|terms| terms.get(..part.n_terms as usize))
        .unwrap_or_default()
}

fn counted<'a>(module: &'a Counted, function: &Function) -> Name<'a> {
    (string(module, function.name), string(module, function.file), function.line)
}

/// The string at an offset.
fn string(module: &Counted, offset: u32) -> &str {
    let bytes = module.strings.get(offset as usize..).unwrap_or_default();
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    str::from_utf8(bytes).unwrap_or("?")
}

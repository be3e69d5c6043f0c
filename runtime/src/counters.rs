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

/// Where something was counted: the function; 1 + the number of the site, 0 if unknown; the block, where that is wanted.
type Place<'a> = (Name<'a>, u32, Option<u32>);

/// What was counted so far.
#[derive(Default)]
struct Sums<'a> {
    /// By tag and place.
    places: BTreeMap<(u32, Place<'a>), Amounts<'a>>,
    /// Lines of blocks.
    lines: BTreeMap<(Name<'a>, u32), u32>,
}

/// Everything counted so far, on these paths and on none.
pub fn collect(paths: &[Found]) -> Counters {
    called::name();
    modules::naming(|places| collected(&mut slots::counts(), paths, places))
}

fn collected(counts: &mut Counts, paths: &[Found], table: &mut Interned) -> Counters {
    let Counts { modules, targets, totals, .. } = counts;
    let totals: Vec<_> = totals.iter().map(|totals| whole(modules, totals, paths)).collect();
    let callee = |name: Option<&str>| format!("{CALLS_INDIRECT_TO}{}", name.unwrap_or(UNKNOWN));
    let callees: Vec<_> = targets.iter().map(|target| callee(target.name.as_deref())).collect();
    let mut used = Vec::new();
    for module in &mut *modules {
        used.push(
            module.used(|slot| totals.iter().any(|totals| totals.get(slot).is_some_and(|&count| count > 0)), table),
        );
    }
    let mut sums = Sums::default();
    let tagged = totals.iter().enumerate().skip(usize::from(Bucket::FIRST.0));
    for (bucket, totals) in tagged {
        let tag = (bucket - usize::from(Bucket::FIRST.0)) as u32;
        modules.iter().zip(&used).for_each(|(module, used)| sums.add(module, used, tag, totals));
        for (target, callee) in targets.iter().zip(&callees) {
            let calls = totals.get(target.slot).copied().unwrap_or_default();
            let module = &modules[target.module];
            let Some(function) = module.functions.get(target.function as usize).filter(|_| calls > 0) else { continue };
            let sums = sums.places.entry((tag, (counted(module, function), 0, None))).or_default();
            *sums.entry(callee).or_default() += calls.cast_signed();
        }
    }
    sums.counters()
}

/// Slots that counted something, in a module: the index of each there, and its parts with 1 + the number of the site of each, or 0.
type Used = Vec<(usize, Vec<(Part, u32)>)>;

impl Counted {
    fn used(&mut self, used: impl Fn(usize) -> bool, table: &mut Interned) -> Used {
        let mut next = 0;
        let mut all = Used::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let first = next;
            next += slot.n_parts as usize;
            if used(self.first + index) {
                let parts = self.parts.get(first..next).unwrap_or_default().iter();
                all.push((index, parts.map(|&part| (part, table.line(&mut self.places, part.site))).collect()));
            }
        }
        all
    }
}

impl<'a> Sums<'a> {
    fn add(&mut self, module: &'a Counted, used: &Used, tag: u32, totals: &[u64]) {
        for (index, parts) in used {
            let count = totals.get(module.first + index).copied().unwrap_or_default();
            let slot = &module.slots[*index];
            let Some(function) = module.functions.get(slot.function as usize).filter(|_| count > 0) else { continue };
            let function = counted(module, function);
            for (part, site) in parts {
                let block = module.every_block.then_some(slot.block);
                add(self.places.entry((tag, (function, *site, block))).or_default(), module, part, count);
                if module.every_block {
                    self.lines.entry((function, slot.block)).or_insert(slot.line);
                }
            }
        }
    }

    fn counters(mut self) -> Counters {
        fill_up(&mut self.places);
        let mut names: Vec<&str> = self.places.values().flat_map(BTreeMap::keys).copied().collect();
        names.sort_unstable();
        names.dedup();
        let mut functions: Vec<_> = self.places.keys().map(|&(_, (function, ..))| function).collect();
        functions.sort_unstable();
        functions.dedup();
        let place = |name: &str| names.binary_search(&name).unwrap_or_default() as u32;
        let number = |function: &Name<'_>| functions.binary_search(function).unwrap_or_default() as u32;
        let values = |amounts: &Amounts<'_>| -> Vec<(u32, u64)> {
            amounts.iter().map(|(name, value)| (place(name), value.cast_unsigned())).collect()
        };
        let mut items = BTreeMap::<_, BTreeMap<u32, u64>>::new();
        let mut places = BTreeMap::<_, BTreeMap<u32, u64>>::new();
        let mut blocks = BTreeMap::<_, BTreeMap<u32, u64>>::new();
        for ((tag, (function, site, block)), amounts) in &self.places {
            let item = items.entry((*tag, number(function))).or_default();
            let sums = places.entry((*tag, *site)).or_default();
            let mut block = block.map(|block| blocks.entry((*tag, *function, block)).or_default());
            for (name, value) in values(amounts) {
                *item.entry(name).or_default() += value;
                if let Some(block) = &mut block {
                    *block.entry(name).or_default() += value;
                }
                // What a program makes the names of would be too much.
                if !names[name as usize].contains('/') {
                    *sums.entry(name).or_default() += value;
                }
            }
        }
        let blocks = blocks.into_iter().map(|((tag, function, block), values)| {
            let line = self.lines.get(&(function, block)).copied().unwrap_or_default();
            BlockItem { tag, function: number(&function), block, line, values: values.into_iter().collect() }
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
    let mut all = BTreeMap::new();
    for (tag, totals) in (0..).zip(counts.totals.iter().skip(usize::from(Bucket::FIRST.0))) {
        for (node, path) in (0..).zip(paths) {
            let Some((slot, run)) = path.counts else { continue };
            let amounts = on_path(&counts.modules[run.module], &first_parts[run.module], (slot, run), totals);
            all.insert((tag, node), amounts);
        }
    }
    fill_up(&mut all);
    let named = |(name, value): (&str, i64)| {
        let name = counters.names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        Some((name as u32, value.cast_unsigned()))
    };
    let all = all.into_iter().map(|((tag, node), amounts)| PathCounts {
        tag,
        node,
        values: amounts.into_iter().filter(|&(_, value)| value != 0).filter_map(named).collect(),
    });
    all.filter(|counts| !counts.values.is_empty()).collect()
}

/// When another thread sets a tag in the middle of a branch, one tag gets more of it than there was and another less than
/// nothing. That one takes what it lacks from the others.
fn fill_up<'a, K: Copy + Ord>(by_tag: &mut BTreeMap<(u32, K), Amounts<'a>>) {
    let mut lacking = Vec::new();
    for (&key, amounts) in &mut *by_tag {
        let negative = amounts.iter_mut().filter(|(_, amount)| **amount < 0);
        lacking.extend(negative.map(|(&name, amount)| (key, name, -std::mem::take(amount))));
    }
    let tags = 0..by_tag.last_key_value().map_or(0, |((last, _), _)| last + 1);
    for ((_, key), name, mut lacking) in lacking {
        for tag in tags.clone() {
            if let Some(amount) = by_tag.get_mut(&(tag, key)).and_then(|amounts| amounts.get_mut(name)) {
                let more = lacking.min(*amount);
                *amount -= more;
                lacking -= more;
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_take_what_they_lack_from_others() {
        let mut by_tag: BTreeMap<_, _> = [
            ((0, 'a'), Amounts::from([("taken", 3), ("not taken", 7)])),
            ((0, 'b'), Amounts::from([("taken", 1)])),
            ((1, 'a'), Amounts::from([("taken", 2), ("not taken", -2)])),
            ((2, 'a'), Amounts::from([("not taken", 4)])),
            ((2, 'b'), Amounts::from([("taken", -2)])),
        ]
        .into();
        fill_up(&mut by_tag);
        let amounts: Vec<_> = by_tag.values().flat_map(|amounts| amounts.values().copied()).collect();
        assert_eq!(amounts, [5, 3, 0, 0, 2, 4, 0]);
    }
}

//! From counts of slots to the counters of a profile.

use crate::called;
use crate::slots::{self, Counted};
use bf_abi::counting::Function;
use bf_collect::Bucket;
use bf_profile::{BlockItem, CountItem, CountedFunction, Counters};
use std::collections::BTreeMap;

/// Prefix of the counters of calls into functions that the calling module does not define.
const CALLS_TO: &str = "calls_to/";

/// The same of calls through pointers.
const CALLS_INDIRECT_TO: &str = "calls_indirect_to/";

/// A function that no symbol names.
const UNKNOWN: &str = "(unknown)";

/// By tag and function: amounts by name of the counter.
type Sums<'a> = BTreeMap<(u32, CountedFunction), BTreeMap<&'a str, i64>>;

/// By tag, function and block: a line, and amounts.
type Blocks<'a> = BTreeMap<(u32, CountedFunction, u32), (u32, BTreeMap<&'a str, i64>)>;

/// Everything counted so far. Sums below zero, which only a reading in the middle of a branch can make, are zero.
pub fn collect() -> Counters {
    called::name();
    let counts = slots::counts();
    let callees: Vec<_> = counts
        .targets
        .iter()
        .map(|target| format!("{CALLS_INDIRECT_TO}{}", target.name.as_deref().unwrap_or(UNKNOWN)))
        .collect();
    let (mut sums, mut blocks) = (Sums::new(), Blocks::new());
    let tagged = counts.totals.iter().enumerate().skip(usize::from(Bucket::FIRST.0));
    for (bucket, totals) in tagged {
        let tag = (bucket - usize::from(Bucket::FIRST.0)) as u32;
        counts.modules.iter().for_each(|module| add(&mut sums, &mut blocks, module, tag, totals));
        for (target, callee) in counts.targets.iter().zip(&callees) {
            let calls = totals.get(target.slot).copied().unwrap_or_default();
            let module = &counts.modules[target.module];
            let Some(function) = module.functions.get(target.function as usize).filter(|_| calls > 0) else { continue };
            let sums = sums.entry((tag, counted(module, function))).or_default();
            *sums.entry(callee).or_default() += calls.cast_signed();
        }
    }
    let mut names: Vec<&str> = sums.values().flat_map(BTreeMap::keys).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut functions: Vec<_> = sums.keys().map(|(_, function)| function.clone()).collect();
    functions.sort();
    functions.dedup();
    let place = |name: &str| names.binary_search(&name).unwrap_or_default() as u32;
    let number = |function: &CountedFunction| functions.binary_search(function).unwrap_or_default() as u32;
    let amounts = |values: &BTreeMap<&str, i64>| {
        values.iter().map(|(name, value)| (place(name), (*value).max(0).cast_unsigned())).collect()
    };
    let items = sums
        .iter()
        .map(|((tag, function), values)| CountItem { tag: *tag, function: number(function), values: amounts(values) })
        .collect();
    let blocks = blocks
        .iter()
        .map(|((tag, function, block), (line, values))| {
            let (tag, function, block, line) = (*tag, number(function), *block, *line);
            BlockItem { tag, function, block, line, values: amounts(values) }
        })
        .collect();
    Counters { names: names.into_iter().map(str::to_owned).collect(), functions, items, blocks }
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

fn add<'a>(sums: &mut Sums<'a>, blocks: &mut Blocks<'a>, module: &'a Counted, tag: u32, totals: &[u64]) {
    let mut terms = module.terms.as_slice();
    for (slot, number) in module.slots.iter().zip(module.first..) {
        let (mine, rest) = terms.split_at(terms.len().min(slot.n_terms as usize));
        terms = rest;
        let count = totals.get(number).copied().unwrap_or_default();
        let Some(function) = module.functions.get(slot.function as usize).filter(|_| count > 0) else { continue };
        let function = counted(module, function);
        let block = (tag, function.clone(), slot.block);
        let block = module.every_block.then(|| blocks.entry(block).or_insert_with(|| (slot.line, BTreeMap::new())));
        let mut all: Vec<_> =
            [sums.entry((tag, function)).or_default()].into_iter().chain(block.map(|(_, sums)| sums)).collect();
        for term in mine {
            let amount = i64::from(term.amount).wrapping_mul(count.cast_signed());
            for sums in &mut all {
                let sum = sums.entry(string(module, term.counter)).or_default();
                *sum = sum.wrapping_add(amount);
            }
        }
    }
}

fn counted(module: &Counted, function: &Function) -> CountedFunction {
    CountedFunction {
        name: string(module, function.name).to_owned(),
        file: string(module, function.file).to_owned(),
        line: function.line,
    }
}

/// The string at an offset.
fn string(module: &Counted, offset: u32) -> &str {
    let bytes = module.strings.get(offset as usize..).unwrap_or_default();
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    str::from_utf8(bytes).unwrap_or("?")
}

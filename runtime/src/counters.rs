//! From counts of slots to the counters of a profile.

use crate::slots::{self, Counted};
use bf_collect::Bucket;
use bf_profile::{CountItem, CountedFunction, Counters};
use std::collections::BTreeMap;

/// Prefix of the counters of calls into functions that the calling module does not define.
const CALLS_TO: &str = "calls_to/";

/// By tag and function: amounts by name of the counter.
type Sums<'a> = BTreeMap<(u32, CountedFunction), BTreeMap<&'a str, i64>>;

/// Everything counted so far. Sums below zero, which only a reading in the middle of a branch can make, are zero.
pub fn collect() -> Counters {
    let counts = slots::counts();
    let mut sums = Sums::new();
    let tagged = counts.totals.iter().enumerate().skip(usize::from(Bucket::FIRST.0));
    for (bucket, totals) in tagged {
        let tag = (bucket - usize::from(Bucket::FIRST.0)) as u32;
        counts.modules.iter().for_each(|module| add(&mut sums, module, tag, totals));
    }
    let mut names: Vec<&str> = sums.values().flat_map(BTreeMap::keys).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut functions: Vec<_> = sums.keys().map(|(_, function)| function.clone()).collect();
    functions.sort();
    functions.dedup();
    let place = |name: &str| names.binary_search(&name).unwrap_or_default() as u32;
    let items = sums.iter().map(|((tag, function), values)| CountItem {
        tag: *tag,
        function: functions.binary_search(function).unwrap_or_default() as u32,
        values: values.iter().map(|(name, value)| (place(name), (*value).max(0).cast_unsigned())).collect(),
    });
    let items = items.collect();
    Counters { names: names.into_iter().map(str::to_owned).collect(), functions, items }
}

/// Calls by callee that the calling module does not define.
pub fn calls(counters: &Counters) -> impl Iterator<Item = (&str, u64)> {
    counters.totals().filter_map(|(name, calls)| Some((name.strip_prefix(CALLS_TO)?, calls)))
}

fn add<'a>(sums: &mut Sums<'a>, module: &'a Counted, tag: u32, totals: &[u64]) {
    let mut terms = module.terms.as_slice();
    for (slot, number) in module.slots.iter().zip(module.first..) {
        let (mine, rest) = terms.split_at(terms.len().min(slot.n_terms as usize));
        terms = rest;
        let count = totals.get(number).copied().unwrap_or_default();
        let Some(function) = module.functions.get(slot.function as usize).filter(|_| count > 0) else { continue };
        let key = CountedFunction {
            name: string(module, function.name).to_owned(),
            file: string(module, function.file).to_owned(),
            line: function.line,
        };
        let sums = sums.entry((tag, key)).or_default();
        for term in mine {
            let amount = i64::from(term.amount).wrapping_mul(count.cast_signed());
            let sum = sums.entry(string(module, term.counter)).or_default();
            *sum = sum.wrapping_add(amount);
        }
    }
}

/// The string at an offset.
fn string(module: &Counted, offset: u32) -> &str {
    let bytes = module.strings.get(offset as usize..).unwrap_or_default();
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    str::from_utf8(bytes).unwrap_or("?")
}

//! Sums of counters over processes, functions and tags.

use std::collections::BTreeMap;

use crate::query::is_wanted;
use bf_profile::{CountItem, CountedFunction, Profile};

/// Values by name of the counter.
pub type Values<'a> = BTreeMap<&'a str, u64>;

/// What a name of a family begins with, and the member behind it: `calls_to` and `printf` of `calls_to/printf`. `None`
/// for a counter that stands by itself.
#[must_use]
pub fn family(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// Whether anything was counted besides references.
pub(crate) fn any(profile: &Profile) -> bool {
    profile.processes.iter().any(|process| !process.counters.items.is_empty())
}

/// Every counter, over all processes, of what has one of these tags, or of all if there are none; empty if nothing was counted.
#[must_use]
pub fn totals<'a>(profile: &'a Profile, tags: &[String]) -> Values<'a> {
    let mut sums = Values::new();
    for (name, value) in by_function(profile, tags).into_values().flatten() {
        *sums.entry(name).or_default() += value;
    }
    sums
}

/// The same by function.
#[must_use]
pub fn by_function<'a>(profile: &'a Profile, tags: &[String]) -> BTreeMap<&'a CountedFunction, Values<'a>> {
    let mut sums: BTreeMap<_, Values<'_>> = BTreeMap::new();
    for process in &profile.processes {
        let counters = &process.counters;
        let wanted = |item: &&CountItem| is_wanted(process, tags, item.tag);
        for item in counters.items.iter().filter(wanted) {
            let Some(function) = counters.functions.get(item.function as usize) else { continue };
            let sums = sums.entry(function).or_default();
            for (name, value) in counters.values(item) {
                *sums.entry(name).or_default() += value;
            }
        }
    }
    sums
}

/// The same by basic block, where that was counted: the function and the block's number there, with its line, 0 if unknown.
#[must_use]
pub fn by_block<'a>(profile: &'a Profile, tags: &[String]) -> BTreeMap<(&'a CountedFunction, u32), (u32, Values<'a>)> {
    let mut sums: BTreeMap<_, (u32, Values<'_>)> = BTreeMap::new();
    for process in &profile.processes {
        let counters = &process.counters;
        for block in counters.blocks.iter().filter(|block| is_wanted(process, tags, block.tag)) {
            let Some(function) = counters.functions.get(block.function as usize) else { continue };
            let (_, sums) = sums.entry((function, block.block)).or_insert_with(|| (block.line, Values::new()));
            for &(name, value) in &block.values {
                if let Some(name) = counters.names.get(name as usize) {
                    *sums.entry(name.as_str()).or_default() += value;
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::{CountItem, Counters, Process};

    /// Two processes that count under two tags.
    fn profile() -> Profile {
        let function = |name: &str| CountedFunction { name: name.to_owned(), ..CountedFunction::default() };
        let process = |name: &str, functions: &[&str], items: &[(u32, u32, u64)]| Process {
            counters: Counters {
                names: vec![name.to_owned(), "stores".to_owned()],
                functions: functions.iter().map(|name| function(name)).collect(),
                items: items
                    .iter()
                    .map(|&(tag, function, n)| CountItem { tag, function, values: vec![(0, n)] })
                    .collect(),
                blocks: Vec::new(),
                places: Vec::new(),
            },
            tags: vec![String::new(), "x".to_owned()],
            ..Process::default()
        };
        let processes = vec![
            process("loads", &["f", "g"], &[(0, 0, 1), (0, 1, 2), (1, 0, 4)]),
            process("loads", &["g"], &[(0, 0, 8)]),
        ];
        Profile { processes }
    }

    #[test]
    fn functions_add_up_to_the_total() {
        let profile = profile();
        assert_eq!(totals(&profile, &[]), Values::from([("loads", 15)]));
        assert_eq!(totals(&profile, &["x".to_owned()]), Values::from([("loads", 4)]));
        let functions: Vec<_> =
            by_function(&profile, &[]).into_iter().map(|(f, sums)| (f.name.as_str(), sums)).collect();
        assert_eq!(functions, [("f", Values::from([("loads", 5)])), ("g", Values::from([("loads", 10)]))]);
    }

    #[test]
    fn a_name_may_be_of_a_family() {
        assert_eq!(family("calls_to/a/b"), Some(("calls_to", "a/b")));
        assert_eq!(family("calls"), None);
    }
}

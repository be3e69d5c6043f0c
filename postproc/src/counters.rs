//! Sums of counters over processes, functions and tags.

use std::collections::BTreeMap;

use bf_profile::{CountedFunction, Profile};

/// Values by name of the counter.
pub type Values<'a> = BTreeMap<&'a str, u64>;

/// What a name of a family begins with, and the member behind it: `calls_to` and `printf` of `calls_to/printf`. `None`
/// for a counter that stands by itself.
#[must_use]
pub fn family(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// Every counter, over all processes and tags; empty if nothing was counted.
#[must_use]
pub fn totals(profile: &Profile) -> Values<'_> {
    let mut sums = Values::new();
    for (name, value) in profile.processes.iter().flat_map(|process| process.counters.totals()) {
        *sums.entry(name).or_default() += value;
    }
    sums
}

/// The same by function.
#[must_use]
pub fn by_function(profile: &Profile) -> BTreeMap<&CountedFunction, Values<'_>> {
    let mut sums: BTreeMap<_, Values<'_>> = BTreeMap::new();
    for counters in profile.processes.iter().map(|process| &process.counters) {
        for item in &counters.items {
            let Some(function) = counters.functions.get(item.function as usize) else { continue };
            let sums = sums.entry(function).or_default();
            for (name, value) in counters.values(item) {
                *sums.entry(name).or_default() += value;
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
            },
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
        assert_eq!(totals(&profile), Values::from([("loads", 15)]));
        let functions: Vec<_> = by_function(&profile).into_iter().map(|(f, sums)| (f.name.as_str(), sums)).collect();
        assert_eq!(functions, [("f", Values::from([("loads", 5)])), ("g", Values::from([("loads", 10)]))]);
    }

    #[test]
    fn a_name_may_be_of_a_family() {
        assert_eq!(family("calls_to/a/b"), Some(("calls_to", "a/b")));
        assert_eq!(family("calls"), None);
    }
}

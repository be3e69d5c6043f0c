//! What functions and blocks executed, added to the rows of their references.

use super::{Item, Named, join};
use bf_postproc::{
    attribution::Key,
    counters::{self, Values},
};
use bf_profile::{CountedFunction, Profile};
use std::collections::{BTreeMap, HashMap};

/// What rows have: a function with perhaps a block of it, and the line that the row is on.
type Executed<'a> = BTreeMap<(CountedFunction, Option<u32>), (u32, Values<'a>)>;

/// Adds counters to the rows of functions, and a row for each function that has none.
pub fn add_by_function(profile: &Profile, tags: &[String], totals: &mut Named, items: &mut Vec<Item>) {
    let functions = counters::by_function(profile, tags).into_iter();
    let rows = functions.map(|(function, values)| ((function.clone(), None), (function.line, values)));
    add(profile, tags, rows.collect(), totals, items);
}

/// Adds counters to the rows of blocks, and a row for each block that has none. What a function executed in no block that
/// is told apart is in the row of the function.
pub fn add_by_block(profile: &Profile, tags: &[String], totals: &mut Named, items: &mut Vec<Item>) {
    let mut rest = counters::by_function(profile, tags);
    let mut rows = Executed::new();
    for ((function, block), (line, values)) in counters::by_block(profile, tags) {
        for (name, left) in rest.get_mut(function).into_iter().flatten() {
            *left = left.saturating_sub(values.get(name).copied().unwrap_or(0));
        }
        rows.insert((function.clone(), Some(block)), (line, values));
    }
    for (function, values) in rest.into_iter().filter(|(_, values)| plain(values).any(|(_, value)| value > 0)) {
        rows.insert((function.clone(), None), (function.line, values));
    }
    add(profile, tags, rows, totals, items);
}

fn add(profile: &Profile, tags: &[String], rows: Executed<'_>, totals: &mut Named, items: &mut Vec<Item>) {
    let sums: Vec<_> = plain(&counters::totals(profile, tags)).collect();
    let names = names(profile);
    let found = |(at, (line, values)): ((CountedFunction, Option<u32>), (u32, Values<'_>))| {
        let (CountedFunction { name: linkage_name, file, .. }, block) = at.clone();
        let name = names.get(linkage_name.as_str()).map_or_else(|| linkage_name.clone(), |name| (*name).to_owned());
        let key = Key { name, linkage_name, file, line, block, ..Key::default() };
        let figures = sums.iter().map(|(name, _)| (name.clone(), values.get(name.as_str()).copied().unwrap_or(0)));
        (at, (key, figures.collect()))
    };
    let found = rows.into_iter().map(found).collect();
    let same = |key: &Key| {
        let (name, file) = (key.linkage_name.clone(), key.file.clone());
        (CountedFunction { name, file, line: key.line }, key.block)
    };
    join(found, same, sums, totals, items);
}

/// Counters that stand by themselves.
fn plain<'a>(values: &'a Values<'_>) -> impl Iterator<Item = (String, u64)> + 'a {
    let alone = values.iter().filter(|(name, _)| counters::family(name).is_none());
    alone.map(|(name, value)| ((*name).to_owned(), *value))
}

/// Names of functions as people write them, by linkage name.
fn names(profile: &Profile) -> HashMap<&str, &str> {
    let all = profile.processes.iter().map(|process| &process.places);
    all.flat_map(|places| places.functions.iter().map(|f| (places.string(f.name), places.string(f.display)))).collect()
}

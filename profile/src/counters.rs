//! What a process executed: sums by counter, function and tag. `docs/counters.md` defines every counter.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use crate::validate::Invalid;

/// Every counter of a process; empty if it was compiled without counters.
///
/// The name of a counter is a word, or, for counters that there are as many of as the program makes, a family and a
/// member: `calls_to/printf`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Counters {
    /// Names of counters, sorted, none twice.
    pub names: Vec<String>,
    /// Functions that executed anything, sorted, none twice.
    pub functions: Vec<CountedFunction>,
    /// Sorted by tag, then function, none twice.
    pub items: Vec<CountItem>,
    /// What blocks have of that, sorted by tag, function and block, none twice; none of functions that this was not asked for.
    pub blocks: Vec<BlockItem>,
    /// What places in the source have of `items`, sorted by tag and site, none twice: for each tag and counter without a
    /// family they add up to the same. Empty in a profile of a bf that did not count by place.
    pub places: Vec<PlaceItem>,
}

/// A function of the compiled code, with what was inlined into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct CountedFunction {
    /// Linkage name.
    pub name: String,
    /// Path of the source file; "" if unknown.
    pub file: String,
    /// Line that it begins on; 0 if unknown.
    pub line: u32,
}

/// What one function executed under one tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct CountItem {
    /// Index into [`crate::Process::tags`].
    pub tag: u32,
    /// Index into [`Counters::functions`].
    pub function: u32,
    /// Index into [`Counters::names`], ascending, and the sum.
    pub values: Vec<(u32, u64)>,
}

/// What one basic block of a function executed under one tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct BlockItem {
    /// Index into [`crate::Process::tags`].
    pub tag: u32,
    /// Index into [`Counters::functions`].
    pub function: u32,
    /// Its number in the function, from 0, in the order of the compiled code.
    pub block: u32,
    /// Source line of its first instruction that is counted; 0 if unknown.
    pub line: u32,
    /// As in [`CountItem::values`], without calls through pointers by name.
    pub values: Vec<(u32, u64)>,
}

/// What one place in the source executed under one tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct PlaceItem {
    /// Index into [`crate::Process::tags`].
    pub tag: u32,
    /// Index into [`crate::Places::sites`]; `None`: unknown.
    pub site: Option<u32>,
    /// As in [`CountItem::values`], without counters of a family.
    pub values: Vec<(u32, u64)>,
}

impl Counters {
    /// The tag of every item, block and place.
    pub(crate) fn tags(&self) -> impl Iterator<Item = u32> + '_ {
        let items = self.items.iter().map(|item| item.tag);
        items.chain(self.blocks.iter().map(|block| block.tag)).chain(self.places.iter().map(|place| place.tag))
    }

    /// Checks that everything is sorted, and that every index names something.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let ensure = |holds: bool, text: &str| if holds { Ok(()) } else { Err(Invalid::new(text.to_owned())) };
        let Self { names, functions, items, blocks, places } = self;
        ensure(names.is_sorted_by(|a, b| a < b), "names of counters are not sorted, or one is there twice")?;
        ensure(functions.is_sorted_by(|a, b| a < b), "counted functions are not sorted, or one is there twice")?;
        let key = |item: &CountItem| (item.tag, item.function);
        ensure(items.is_sorted_by(|a, b| key(a) < key(b)), "counters are not sorted by tag and function")?;
        let key = |block: &BlockItem| (block.tag, block.function, block.block);
        let sorted = blocks.is_sorted_by(|a, b| key(a) < key(b));
        ensure(sorted, "counters of blocks are not sorted by tag, function and block")?;
        let key = |place: &PlaceItem| (place.tag, place.site);
        let sorted = places.is_sorted_by(|a, b| key(a) < key(b));
        ensure(sorted, "counters of places are not sorted by tag and site")?;
        let mut counted = items.iter().map(|item| item.function).chain(blocks.iter().map(|block| block.function));
        ensure(counted.all(|function| (function as usize) < functions.len()), "a counted function has no name")?;
        let of_items = items.iter().map(|item| &item.values).chain(blocks.iter().map(|block| &block.values));
        for values in of_items.chain(places.iter().map(|place| &place.values)) {
            ensure(values.is_sorted_by(|a, b| a.0 < b.0), "values of counters are not sorted by counter")?;
            let named = values.last().is_none_or(|&(name, _)| (name as usize) < names.len());
            ensure(named, "a counter has no name")?;
        }
        let counted = items.iter().map(|item| (item.tag, &item.values));
        let placed = places.iter().map(|place| (place.tag, &place.values));
        let sums_agree = places.is_empty() || self.alone(counted) == self.alone(placed);
        ensure(sums_agree, "counters of places do not add up to those of functions")
    }

    /// Sums by tag and counter of what has no family; none that is 0.
    fn alone<'a>(&self, items: impl Iterator<Item = (u32, &'a Vec<(u32, u64)>)>) -> BTreeMap<(u32, u32), u128> {
        let mut sums = BTreeMap::new();
        for (tag, values) in items {
            for &(name, value) in values.iter().filter(|&&(name, value)| value > 0 && !self.is_of_family(name)) {
                *sums.entry((tag, name)).or_default() += u128::from(value);
            }
        }
        sums
    }

    fn is_of_family(&self, name: u32) -> bool {
        self.names.get(name as usize).is_some_and(|name| name.contains('/'))
    }

    /// Names and sums over all items, sorted by name.
    pub fn totals(&self) -> impl Iterator<Item = (&str, u64)> {
        let mut totals = BTreeMap::new();
        for (name, value) in self.items.iter().flat_map(|item| self.values(item)) {
            *totals.entry(name).or_default() += value;
        }
        totals.into_iter()
    }

    /// Names and sums of one item, sorted by name.
    pub fn values<'a>(&'a self, item: &'a CountItem) -> impl Iterator<Item = (&'a str, u64)> {
        item.values.iter().filter_map(|&(name, value)| Some((self.names.get(name as usize)?.as_str(), value)))
    }
}

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

impl Counters {
    /// Checks that everything is sorted, and that every index names something.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let ensure = |holds: bool, text: &str| if holds { Ok(()) } else { Err(Invalid::new(text.to_owned())) };
        let Self { names, functions, items, blocks } = self;
        ensure(names.is_sorted_by(|a, b| a < b), "names of counters are not sorted, or one is there twice")?;
        ensure(functions.is_sorted_by(|a, b| a < b), "counted functions are not sorted, or one is there twice")?;
        let key = |item: &CountItem| (item.tag, item.function);
        ensure(items.is_sorted_by(|a, b| key(a) < key(b)), "counters are not sorted by tag and function")?;
        let key = |block: &BlockItem| (block.tag, block.function, block.block);
        let sorted = blocks.is_sorted_by(|a, b| key(a) < key(b));
        ensure(sorted, "counters of blocks are not sorted by tag, function and block")?;
        let of_items = items.iter().map(|item| (item.function, &item.values));
        let of_blocks = blocks.iter().map(|block| (block.function, &block.values));
        for (function, values) in of_items.chain(of_blocks) {
            ensure((function as usize) < functions.len(), "a counted function has no name")?;
            ensure(values.is_sorted_by(|a, b| a.0 < b.0), "values of counters are not sorted by counter")?;
            let named = values.last().is_none_or(|&(name, _)| (name as usize) < names.len());
            ensure(named, "a counter has no name")?;
        }
        Ok(())
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

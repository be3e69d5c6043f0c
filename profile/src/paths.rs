//! Call paths: chains of functions that called each other, and what was executed on each.

use bincode::{Decode, Encode};

use crate::counters::Counters;
use crate::places::Places;
use crate::validate::{Invalid, ensure};

/// The call paths of a process. Empty if they were not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Paths {
    /// Each after the one that it goes on from.
    pub nodes: Vec<PathNode>,
    /// By item of the places: the path that its references were made on. `None`: unknown.
    pub items: Vec<Option<u32>>,
    /// What was executed on each, callees left out. Sorted by tag, then path, none twice.
    pub counts: Vec<PathCounts>,
}

/// A call path: another one, and a function that was called there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct PathNode {
    /// The path that it goes on from; `None`: it begins with its function.
    pub parent: Option<u32>,
    /// Index into [`Places::functions`]. `None`: it stands for all callers of the functions that go on from it, for want of
    /// room.
    pub function: Option<u32>,
}

/// What was executed on one path under one tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct PathCounts {
    /// Index into [`crate::Process::tags`].
    pub tag: u32,
    /// Index into [`Paths::nodes`].
    pub node: u32,
    /// Index into [`Counters::names`], ascending, and the sum.
    pub values: Vec<(u32, u64)>,
}

impl Paths {
    /// A path, the one that it goes on from, and so on up to its beginning.
    pub fn upwards(&self, node: u32) -> impl Iterator<Item = (u32, PathNode)> {
        let at = |index: u32| Some((index, *self.nodes.get(index as usize)?));
        std::iter::successors(at(node), move |(_, node)| node.parent.and_then(at))
    }

    /// The tag of everything counted.
    pub(crate) fn tags(&self) -> impl Iterator<Item = u32> + '_ {
        self.counts.iter().map(|counts| counts.tag)
    }

    /// Checks that every index names something, and that paths begin somewhere.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self, places: &Places, counters: &Counters) -> Result<(), Invalid> {
        let named = |at: Option<u32>, of: usize| at.is_none_or(|at| (at as usize) < of);
        for (at, node) in self.nodes.iter().enumerate() {
            ensure(named(node.parent, at), || format!("path {at} goes on from none before it"))?;
            ensure(named(node.function, places.functions.len()), || format!("path {at} names no function"))?;
        }
        let known = self.nodes.len();
        ensure(self.items.iter().all(|&node| named(node, known)), || "an item names no path".into())?;
        ensure(self.items.len() <= places.items.len(), || "paths of items that are not there".into())?;
        let key = |counts: &PathCounts| (counts.tag, counts.node);
        let sorted = self.counts.is_sorted_by(|a, b| key(a) < key(b));
        ensure(sorted, || "counters are not sorted by tag and path".into())?;
        for PathCounts { node, values, .. } in &self.counts {
            ensure(named(Some(*node), known), || "counters of a path that is not there".into())?;
            let sorted = values.is_sorted_by(|a, b| a.0 < b.0);
            ensure(sorted, || "values of a path are not sorted by counter".into())?;
            let counted = values.last().map(|&(name, _)| name);
            ensure(named(counted, counters.names.len()), || "a counter of a path has no name".into())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{counters, paths, places};

    #[test]
    fn paths_lead_up_to_where_they_begin() {
        assert_eq!(paths().upwards(2).map(|(index, _)| index).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(paths().upwards(9).count(), 0);
    }

    #[test]
    fn indices_that_name_nothing_are_refused() {
        let after = |change: fn(&mut Paths)| {
            let mut data = paths();
            change(&mut data);
            data.validate(&places(), &counters()).unwrap_err().to_string()
        };
        assert_eq!(paths().validate(&places(), &counters()), Ok(()));
        assert_eq!(after(|data| data.nodes[1].parent = Some(1)), "path 1 goes on from none before it");
        assert_eq!(after(|data| data.nodes[1].function = Some(2)), "path 1 names no function");
        assert_eq!(after(|data| data.items[1] = Some(3)), "an item names no path");
        assert_eq!(after(|data| data.items.resize(4, None)), "paths of items that are not there");
        assert_eq!(after(|data| data.counts.swap(0, 1)), "counters are not sorted by tag and path");
        assert_eq!(after(|data| data.counts[1].node = 3), "counters of a path that is not there");
        assert_eq!(after(|data| data.counts[0].values.reverse()), "values of a path are not sorted by counter");
        assert_eq!(after(|data| data.counts[0].values[1].0 = 99), "a counter of a path has no name");
    }
}

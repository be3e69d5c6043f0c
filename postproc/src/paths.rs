//! Who called whom: the tree of call paths, with what each path has of an answer and of the counters, by itself and with
//! everything that was called from there.
//!
//! Invariant: what paths have by themselves adds up to the answer and to the counters of the whole, figure by figure.

use crate::{
    attribution::{Attribution, Figures, Key, Part, UNKNOWN, totals},
    counters,
    query::is_wanted,
    source::{Frame, frames},
};
use bf_profile::{Process, Profile};
use std::collections::BTreeMap;

/// What functions are below whose callers were too many to be told apart.
pub const OTHERS: &str = "(other call paths)";

/// A call path.
#[derive(Clone, Debug)]
pub struct Path {
    /// The function that was called last.
    pub function: Key,
    /// Index of the path that it goes on from, which stands before it; `None`: it begins with its function.
    pub parent: Option<usize>,
    /// Figures of the function on this path.
    pub own: Vec<u64>,
    /// Those and all of the paths that go on from it.
    pub all: Vec<u64>,
    /// Where in the function the figures of the answer are: by the place and the calls that it was inlined at, innermost
    /// first; empty where that is not known. Counters are not broken down.
    pub places: BTreeMap<Vec<Frame>, Vec<u64>>,
}

/// Call paths of all processes together.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Names of the figures: those of the answer, then the counters that stand by themselves.
    pub figures: Vec<String>,
    /// How many of them are the answer's.
    pub answered: usize,
    /// What all paths add up to.
    pub totals: Vec<u64>,
    /// The paths, each after the one that it goes on from.
    pub paths: Vec<Path>,
    known: BTreeMap<(Option<usize>, Key), usize>,
}

impl Tree {
    /// The paths of a profile, with what an answer to it attributes to them, if that has levels. Only what has one of these
    /// tags counts, or everything if there are none.
    #[must_use]
    pub fn new(profile: &Profile, tags: &[String], attribution: &Attribution<'_>) -> Self {
        let answer = &attribution.answer;
        let named = |figures: &Figures| -> Vec<_> {
            let levels = !answer.levels.is_empty();
            figures.named(answer).filter(|_| levels).collect()
        };
        let whole = named(&totals(answer));
        let answered = whole.len();
        let counted = counters::totals(profile, tags).into_iter();
        let counted = counted.filter(|(name, _)| counters::family(name).is_none());
        let (figures, totals) = whole.into_iter().chain(counted.map(|(name, sum)| (name.to_owned(), sum))).unzip();
        let mut tree = Self { figures, answered, totals, ..Self::default() };
        for process in &profile.processes {
            tree.add_counters(process, tags);
        }
        tree.add_the_rest();
        for part in &attribution.parts {
            let counts: Vec<_> = named(&part.figures).into_iter().map(|(_, count)| count).collect();
            if counts.iter().any(|&count| count > 0) {
                tree.add_part(part, &counts);
            }
        }
        for path in &mut tree.paths {
            path.all.clone_from(&path.own);
        }
        for index in (0..tree.paths.len()).rev() {
            if let Some(parent) = tree.paths[index].parent {
                let all = tree.paths[index].all.clone();
                add(&mut tree.paths[parent].all, &all);
            }
        }
        tree
    }

    /// A process that did something and was not compiled to tell its call paths.
    #[must_use]
    pub fn without(profile: &Profile) -> Option<&Process> {
        let did = |process: &&Process| process.meta.accesses > 0 || !process.counters.items.is_empty();
        profile.processes.iter().filter(did).find(|process| process.paths.nodes.is_empty())
    }

    /// The functions of a path, the first caller first.
    #[must_use]
    pub fn chain(&self, index: usize) -> Vec<&Key> {
        let mut chain: Vec<_> = std::iter::successors(Some(index), |&index| self.paths[index].parent)
            .map(|index| &self.paths[index].function)
            .collect();
        chain.reverse();
        chain
    }

    /// The value of a figure; 0 for one that is not there.
    #[must_use]
    pub fn figure(&self, values: &[u64], name: &str) -> u64 {
        let at = self.figures.iter().position(|known| known == name);
        at.and_then(|at| values.get(at)).copied().unwrap_or_default()
    }

    fn add_counters(&mut self, process: &Process, tags: &[String]) {
        let mut found: BTreeMap<u32, usize> = BTreeMap::new();
        for counts in process.paths.counts.iter().filter(|counts| is_wanted(process, tags, counts.tag)) {
            let at = *found.entry(counts.node).or_insert_with(|| self.path(process, Some(counts.node)));
            for &(name, value) in &counts.values {
                let name = process.counters.names.get(name as usize);
                if let Some(figure) = name.and_then(|name| self.figures.iter().rposition(|known| known == name)) {
                    self.paths[at].own[figure] += value;
                }
            }
        }
    }

    /// Counters that no path has: of functions that were compiled without telling their paths.
    fn add_the_rest(&mut self) {
        let mut rest = self.totals.clone();
        rest[..self.answered].fill(0);
        for path in &self.paths {
            rest.iter_mut().zip(&path.own).for_each(|(rest, own)| *rest = rest.saturating_sub(*own));
        }
        if rest.iter().any(|&count| count > 0) {
            let at = self.unknown();
            add(&mut self.paths[at].own, &rest);
        }
    }

    fn add_part(&mut self, part: &Part<'_>, counts: &[u64]) {
        let at = self.path(part.process, part.path);
        add(&mut self.paths[at].own, counts);
        let places = self.paths[at].places.entry(frames(part)).or_insert_with(|| vec![0; counts.len()]);
        add(places, counts);
    }

    /// The index of a path of a process.
    fn path(&mut self, process: &Process, node: Option<u32>) -> usize {
        let chain = node.map_or_else(Vec::new, |node| chain(process, node));
        let mut at = None;
        for key in chain {
            at = Some(self.child(at, key));
        }
        at.unwrap_or_else(|| self.unknown())
    }

    fn unknown(&mut self) -> usize {
        self.child(None, Key { name: UNKNOWN.to_owned(), ..Key::default() })
    }

    fn child(&mut self, parent: Option<usize>, function: Key) -> usize {
        let key = (parent, function);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let none = vec![0; self.figures.len()];
        let function = key.1.clone();
        self.paths.push(Path { function, parent, own: none, all: Vec::new(), places: BTreeMap::new() });
        self.known.insert(key, self.paths.len() - 1);
        self.paths.len() - 1
    }
}

/// The functions of a path of a process, the first caller first.
pub(crate) fn chain(process: &Process, node: u32) -> Vec<Key> {
    let others = || Key { name: OTHERS.to_owned(), ..Key::default() };
    let key = |function| Key::of_function(&process.places, function);
    let mut chain: Vec<_> =
        process.paths.upwards(node).map(|(_, node)| node.function.map_or_else(others, key)).collect();
    chain.reverse();
    chain
}

fn add(sum: &mut [u64], more: &[u64]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_profile::places::Function;
    use bf_profile::{CountItem, CountedFunction, Counters, PathCounts, PathNode, Paths, Places};

    /// `main` calls `f`, which calls `g`, as `main` does; a function `h` is on no path.
    fn process() -> Process {
        let node = |parent, function| PathNode { parent, function: Some(function) };
        let function = |name| Function { name, display: name, ..Function::default() };
        let counted = |name: &str| CountedFunction { name: name.to_owned(), ..CountedFunction::default() };
        let item = |function, n| CountItem { tag: 0, function, values: vec![(0, n)] };
        let counts = |node, n| PathCounts { tag: 0, node, values: vec![(0, n)] };
        Process {
            tags: vec![String::new()],
            places: Places {
                strings: ["", "main", "f", "g"].map(str::to_owned).to_vec(),
                functions: vec![function(1), function(2), function(3)],
                ..Places::default()
            },
            counters: Counters {
                names: vec!["flops".to_owned()],
                functions: ["f", "g", "h", "main"].map(counted).to_vec(),
                items: vec![item(0, 2), item(1, 12), item(2, 32), item(3, 1)],
                ..Counters::default()
            },
            paths: Paths {
                nodes: vec![node(None, 0), node(Some(0), 1), node(Some(1), 2), node(Some(0), 2)],
                counts: vec![counts(0, 1), counts(1, 2), counts(2, 4), counts(3, 8)],
                ..Paths::default()
            },
            ..Process::default()
        }
    }

    #[test]
    fn paths_have_what_was_called_from_them_and_add_up() {
        let profile = Profile { processes: vec![process(), process()] };
        let tree = Tree::new(&profile, &[], &Attribution::default());
        let row = |index: usize| {
            let names: Vec<_> = tree.chain(index).iter().map(|key| key.name.as_str()).collect();
            (names.join(" > "), tree.paths[index].own[0], tree.paths[index].all[0])
        };
        let rows: Vec<_> = (0..tree.paths.len()).map(row).collect();
        let expected =
            [("main", 2, 30), ("main > f", 4, 12), ("main > f > g", 8, 8), ("main > g", 16, 16), ("(unknown)", 64, 64)];
        assert_eq!(rows, expected.map(|(name, own, all)| (name.to_owned(), own, all)));
        assert_eq!(tree.totals, [94]);
        assert_eq!(tree.figure(&tree.paths[0].all, "flops"), 30);
        assert!(Tree::new(&profile, &["other".to_owned()], &Attribution::default()).paths.is_empty());
    }
}

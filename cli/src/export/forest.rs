//! What exports with a tree have in common: functions below their callers if call paths are known, below each what was inlined
//! into it, below that the lines.

use bf_postproc::{
    attribution::{Attribution, UNKNOWN},
    paths::{Path, Tree},
    source::{Frame, frames},
};
use std::collections::BTreeMap;

/// What a node stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A function that was called.
    Function {
        /// Its name.
        name: String,
        /// Path of the source file; "" if unknown.
        file: String,
        /// Line that it begins on; 0 if unknown.
        line: u32,
    },
    /// A function that was inlined there, by its name.
    Inlined(String),
    /// A line of the function above it.
    Line(Frame),
}

/// A function, or a line of one.
#[derive(Debug)]
pub struct Node {
    /// Figures of it, and of nothing below it.
    pub own: Vec<u64>,
    /// Those, and of everything below it.
    pub all: Vec<u64>,
    /// What is below.
    pub below: BTreeMap<Kind, Self>,
}

impl Node {
    fn none(figures: usize) -> Self {
        Self { own: vec![0; figures], all: Vec::new(), below: BTreeMap::new() }
    }

    fn add(&mut self, counts: &[u64]) {
        self.own.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    fn child(&mut self, kind: Kind) -> &mut Self {
        let figures = self.own.len();
        self.below.entry(kind).or_insert_with(|| Self::none(figures))
    }

    /// The node of a place in the function that this is one of.
    fn place(&mut self, frames: &[Frame]) -> &mut Self {
        let mut at = self;
        for (depth, frame) in frames.iter().rev().enumerate() {
            if depth > 0 {
                at = at.child(Kind::Inlined(frame.function.clone()));
            }
            at = at.child(Kind::Line(frame.clone()));
        }
        at
    }

    /// Completes it and everything below, once all is counted.
    fn sum(&mut self) {
        self.all.clone_from(&self.own);
        for below in self.below.values_mut() {
            below.sum();
            self.all.iter_mut().zip(&below.all).for_each(|(sum, count)| *sum += count);
        }
    }
}

/// What the function at the end of a path has beside the figures of its places: counters.
pub fn counted(tree: &Tree, path: &Path) -> Vec<u64> {
    let mut counted = path.own.clone();
    counted[..tree.answered].fill(0);
    counted
}

/// Trees, and the names of the figures of their nodes.
#[derive(Debug)]
pub struct Forest {
    /// Names, in the order of the counts.
    pub figures: Vec<String>,
    /// A node above all trees, with nothing of its own.
    pub root: Node,
}

impl Forest {
    /// Functions and what was inlined into them: their callers are not known.
    pub fn of_places(attribution: &Attribution<'_>) -> Self {
        let totals = attribution.totals();
        let figures: Vec<_> = attribution.named(&totals).map(|(name, _)| name).collect();
        let mut root = Node::none(figures.len());
        for part in &attribution.parts {
            let counts: Vec<_> = attribution.named(&part.figures).map(|(_, count)| count).collect();
            let frames = frames(part);
            let name = frames.last().map_or(UNKNOWN, |frame| &frame.function).to_owned();
            let function = root.child(Kind::Function { name, file: String::new(), line: 0 });
            function.place(&frames).add(&counts);
        }
        root.sum();
        Self { figures, root }
    }

    /// Functions below their callers.
    pub fn of_paths(tree: &Tree) -> Self {
        let mut root = Node::none(tree.figures.len());
        for (index, path) in tree.paths.iter().enumerate() {
            let function = tree.chain(index).into_iter().fold(&mut root, |at, key| {
                at.child(Kind::Function { name: key.name.clone(), file: key.file.clone(), line: key.line })
            });
            function.add(&counted(tree, path));
            path.places.iter().for_each(|(frames, counts)| function.place(frames).add(counts));
        }
        root.sum();
        Self { figures: tree.figures.clone(), root }
    }
}

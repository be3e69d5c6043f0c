//! Who caused it: outcomes of single references, with the place in the program each came from, handed on in batches.

use crate::Limits;
use crate::by_line::Mix;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// What became of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The place in the program, as the chunk said.
    pub site: u32,
    /// So many references in a row, one each time a repeated piece occurred, became the same.
    pub times: u32,
    /// Whether it was a store.
    pub store: bool,
    /// Whether the line was never referenced before; then there are no distances.
    pub cold: bool,
    /// Whether another thread's store had taken it away; then there are none either.
    pub lost: bool,
    /// `d_0`.
    pub full: u32,
    /// `d_a` for a = 1, 2, … at index a - 1, cut off at `max_ways` or beyond; 0 beyond `max_set_bits`.
    pub by_set: [u8; Limits::MOST_SET_BITS as usize],
}

impl Outcome {
    /// Of a reference that is on top, or of which more is to be found out.
    pub(crate) fn of(site: u32, times: u32, store: bool) -> Self {
        Self { site, times, store, cold: false, lost: false, full: 0, by_set: [0; _] }
    }

    #[inline(always)]
    pub(crate) fn complete<const W: usize>(&mut self, full: u32, by_set: &[u8; W]) {
        self.full = full;
        self.by_set[..W].copy_from_slice(by_set);
    }

    /// Whether it misses an LRU cache of `2^set_bits` sets of `ways`, within the limits of the stack.
    #[must_use]
    pub fn misses(&self, set_bits: u32, ways: u32) -> bool {
        let distance = match set_bits {
            0 => self.full,
            _ => u32::from(self.by_set[set_bits as usize - 1]),
        };
        self.cold || self.lost || distance >= ways
    }
}

/// Entries of [`MissesBySite::near`]: a power of two.
const NEAR: usize = 1 << 12;

/// Takes outcomes, in program order.
pub trait Sink {
    /// The next ones.
    fn take(&mut self, outcomes: &[Outcome]);
}

/// Counts references and misses of some caches by site.
#[derive(Clone, Debug)]
pub struct MissesBySite {
    /// Set bits and ways.
    shapes: Vec<(u32, u32)>,
    /// Ways of the one that has least of them: what is nearer misses none.
    least: u32,
    /// The number of each site.
    rows: HashMap<u32, u32, BuildHasherDefault<Mix>>,
    /// The same of sites seen of late, by their lowest bits; none: number [`u32::MAX`].
    near: Vec<(u32, u32)>,
    /// References of each site, by loads and by stores.
    references: Vec<[u64; 2]>,
    /// Of each site the misses of each shape.
    misses: Vec<[u64; 2]>,
}

/// The counts of one site, by loads and by stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteMisses {
    /// References.
    pub references: [u64; 2],
    /// Misses of each shape, in the order they were given.
    pub misses: Vec<[u64; 2]>,
}

impl MissesBySite {
    /// For caches of these set bits and ways.
    #[must_use]
    pub fn new(shapes: Vec<(u32, u32)>) -> Self {
        let least = shapes.iter().map(|&(_, ways)| ways).min().unwrap_or(0);
        let near = vec![(0, u32::MAX); NEAR];
        Self { shapes, least, rows: HashMap::default(), near, references: Vec::new(), misses: Vec::new() }
    }

    /// The counts of every site that was seen, in no particular order.
    pub fn sites(&self) -> impl Iterator<Item = (u32, SiteMisses)> {
        self.rows.iter().map(|(&site, &row)| {
            let (row, len) = (row as usize, self.shapes.len());
            let misses = self.misses[row * len..(row + 1) * len].to_vec();
            (site, SiteMisses { references: self.references[row], misses })
        })
    }

    #[cold]
    fn row(&mut self, site: u32) -> u32 {
        *self.rows.entry(site).or_insert_with(|| {
            self.references.push([0; 2]);
            self.misses.resize(self.misses.len() + self.shapes.len(), [0; 2]);
            self.references.len() as u32 - 1
        })
    }
}

impl Sink for MissesBySite {
    fn take(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let at = outcome.site as usize % NEAR;
            if self.near[at].0 != outcome.site || self.near[at].1 == u32::MAX {
                self.near[at] = (outcome.site, self.row(outcome.site));
            }
            let (row, kind, times) = (self.near[at].1 as usize, usize::from(outcome.store), u64::from(outcome.times));
            self.references[row][kind] += times;
            if outcome.full < self.least && !outcome.cold && !outcome.lost {
                continue;
            }
            let misses = self.misses[row * self.shapes.len()..].iter_mut();
            for (misses, &(set_bits, ways)) in misses.zip(&self.shapes) {
                misses[kind] += if outcome.misses(set_bits, ways) { times } else { 0 };
            }
        }
    }
}

//! Loads of many lines that come again and find each line as they left it: all that changes are counts, so it is enough to know how
//! often they came.
//!
//! Invariant: between two times of the same loads nothing that is `changed` lies on their lines.

use crate::courses::Course;
use std::ops::Range;

/// Loads that are known, by where they begin.
const KNOWN: usize = 64;
/// Lines of which it is known together when they changed.
const TOGETHER: u64 = 64;
/// So many times them are told from each other.
const REGIONS: usize = 1 << 10;

/// Loads of a slot that came to lines that follow each other, and came again so many times, which are to be counted.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    pub(crate) slot: u32,
    pub(crate) course: Course,
    pub(crate) lines: Range<u64>,
    pub(crate) times: u64,
    /// Changes before them.
    at: u64,
}

/// Of lines of one size.
#[derive(Debug)]
pub(crate) struct Again {
    known: Box<[Option<Loads>]>,
    /// How many of those came again.
    waiting: usize,
    changes: u64,
    /// By region: changes until the last one there.
    changed: Box<[u64]>,
}

impl Again {
    pub(crate) fn new() -> Self {
        Self { known: vec![None; KNOWN].into(), waiting: 0, changes: 0, changed: vec![0; REGIONS].into() }
    }

    /// Something changed on a line.
    #[inline]
    pub(crate) fn change(&mut self, line: u64) {
        self.changes += 1;
        self.changed[region(line)] = self.changes;
    }

    /// Whether the same loads came before and nothing changed since; then they are to be counted once more.
    #[inline]
    pub(crate) fn come(&mut self, slot: u32, course: &Course, lines: &Range<u64>) -> bool {
        let Some(known) = &mut self.known[place(slot, course)] else { return false };
        if known.slot != slot || known.course != *course || known.lines != *lines {
            return false;
        }
        let regions = lines.start / TOGETHER..=(lines.end - 1) / TOGETHER;
        let mut lasts = regions.take(REGIONS).map(|number| self.changed[region(number * TOGETHER)]);
        let is_same = lasts.all(|last| last <= known.at);
        if is_same {
            self.waiting += usize::from(known.times == 0);
            known.times += 1;
        }
        is_same
    }

    /// These were counted. Loads that are to be, in whose place they are.
    pub(crate) fn know(&mut self, slot: u32, course: Course, lines: Range<u64>) -> Option<Loads> {
        let loads = Loads { slot, course, lines, times: 0, at: self.changes };
        let before = self.known[place(slot, &course)].replace(loads).filter(|loads| loads.times > 0);
        self.waiting -= usize::from(before.is_some());
        before
    }

    /// Takes all that are to be counted, or only those that came to this line.
    pub(crate) fn take(&mut self, line: Option<u64>) -> Vec<Loads> {
        let mut all = Vec::new();
        if self.waiting > 0 {
            let is_meant = |loads: &&mut Loads| loads.times > 0 && line.is_none_or(|line| loads.lines.contains(&line));
            for loads in self.known.iter_mut().flatten().filter(is_meant) {
                all.push(loads.clone());
                loads.times = 0;
            }
            self.waiting -= all.len();
        }
        all
    }
}

fn region(line: u64) -> usize {
    (line / TOGETHER) as usize % REGIONS
}

fn place(slot: u32, course: &Course) -> usize {
    let mixed = (course.first.address ^ u64::from(slot) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % KNOWN
}

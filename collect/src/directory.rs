//! Which lines more than one thread uses: only these need a look into the stacks of others.

use bf_stack::Reference;
use std::collections::HashMap;

const REGION_BITS: u32 = 10;
const REGION: usize = 1 << REGION_BITS;
const KNOWN: usize = 1024;

/// Who referenced a line: nobody (0), one slot (its number + 1), or several ([`SEVERAL`]).
type Users = u16;
const SEVERAL: Users = Users::MAX;

/// All lines of one line size. Lines are entered in the order in which batches are analysed, as far as that matters.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Direct-mapped cache of lookups: region + 1 and its index.
    known: Box<[(u64, u32)]>,
    regions: HashMap<u64, u32>,
    users: Vec<Box<[Users]>>,
}

impl Directory {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        Self { known: vec![(0, 0); KNOWN].into_boxed_slice(), regions: HashMap::new(), users: Vec::new() }
    }

    #[inline]
    fn users(&mut self, line: u64) -> &mut Users {
        let region = line >> REGION_BITS;
        let place = (region ^ region >> 10) as usize % KNOWN;
        if self.known[place].0 != region + 1 {
            let next = self.users.len() as u32;
            let index = *self.regions.entry(region).or_insert(next);
            if index == next {
                self.users.push(vec![0; REGION].into_boxed_slice());
            }
            self.known[place] = (region + 1, index);
        }
        &mut self.users[self.known[place].1 as usize][line as usize % REGION]
    }

    /// `slot` references a line; whether another did too.
    #[inline]
    fn enter(&mut self, line: u64, slot: u32) -> bool {
        let mine = Users::try_from(slot + 1).unwrap_or(SEVERAL);
        let users = self.users(line);
        if *users == mine && mine != SEVERAL {
            return false;
        }
        let several = *users != 0;
        *users = if several { SEVERAL } else { mine };
        several
    }

    /// `slot` makes these references, in whatever order; adds the lines that others used before to `common`.
    pub(crate) fn enter_all(&mut self, references: &[Reference], slot: u32, common: &mut Vec<u64>) {
        let mut last = u64::MAX;
        for line in references.iter().map(|reference| reference.line()) {
            if line != last && self.enter(line, slot) {
                common.push(line);
            }
            last = line;
        }
    }

    /// `slot` referenced all lines of `regions`, of `region` lines each, for which `saw` says so.
    pub(crate) fn begin(&mut self, slot: u32, regions: &[u64], region: u64, saw: impl Fn(u64) -> bool) {
        for line in regions.iter().flat_map(|at| at * region..(at + 1) * region).filter(|&line| saw(line)) {
            self.enter(line, slot);
        }
    }
}

//! Which lines more than one thread uses: only these need a look into the stacks of others.

use crate::tracker::{Place, Tracker};
use bf_stack::Chunk;
use std::collections::HashMap;

const REGION_BITS: u32 = 10;
const REGION: usize = 1 << REGION_BITS;
const KNOWN: usize = 1024;

/// Who referenced a line.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    /// Nobody (0), one slot (its number + 1), or several ([`SEVERAL`]).
    slots: u16,
    /// From where it was last stored while it had one user: the place + 1; 0: it was not.
    stored: Place,
}

const SEVERAL: u16 = u16::MAX;

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
                self.users.push(vec![Users::default(); REGION].into_boxed_slice());
            }
            self.known[place] = (region + 1, index);
        }
        &mut self.users[self.known[place].1 as usize][line as usize % REGION]
    }

    /// `slot` references a line, from a place if it stores; whether another did too. Whoever used it alone until now begins to be
    /// tracked.
    #[inline]
    fn enter(&mut self, line: u64, slot: u32, stored: Option<Place>, tracker: &mut Tracker) -> bool {
        let mine = u16::try_from(slot + 1).unwrap_or(SEVERAL);
        let users = self.users(line);
        if users.slots == 0 || users.slots == mine && mine != SEVERAL {
            users.slots = mine;
            users.stored = stored.map_or(users.stored, |place| place.saturating_add(1));
            return false;
        }
        if users.slots != SEVERAL {
            tracker.begin(line, u32::from(users.slots) - 1, users.stored.checked_sub(1));
        }
        users.slots = SEVERAL;
        true
    }

    /// `slot` makes the references of a chunk; adds the lines that others used before to `common`.
    pub(crate) fn enter_all(&mut self, chunk: Chunk<'_>, slot: u32, tracker: &mut Tracker, common: &mut Vec<u64>) {
        let mut last = (u64::MAX, true);
        for (at, reference) in chunk.references.iter().enumerate() {
            let (line, store) = (reference.line(), reference.is_store());
            let stored = || chunk.items.get(at).map_or(0, |item| item.0);
            if (line != last.0 || store && !last.1) && self.enter(line, slot, store.then(stored), tracker) {
                common.push(line);
            }
            last = (line, store);
        }
    }

    /// `slot`, the only one there is, referenced all lines of `regions`, of `region` lines each, for which `saw` says so;
    /// `stored`: whether it stored them.
    pub(crate) fn begin(
        &mut self,
        slot: u32,
        regions: &[u64],
        region: u64,
        saw: impl Fn(u64) -> bool,
        stored: impl Fn(u64) -> bool,
    ) {
        let mut nobody = Tracker::new(0, 0);
        for line in regions.iter().flat_map(|at| at * region..(at + 1) * region).filter(|&line| saw(line)) {
            self.enter(line, slot, stored(line).then_some(0), &mut nobody);
        }
    }
}

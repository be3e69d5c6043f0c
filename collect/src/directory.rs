//! Which lines more than one thread uses: only these need a look into the stacks of others.

use crate::tracker::{Place, Tracker};
use bf_stack::{Chunk, Common};
use std::collections::HashMap;

const REGION_BITS: u32 = 10;
const REGION: usize = 1 << REGION_BITS;
const KNOWN: usize = 1024;
const ENTERED: usize = 512;

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
    /// Of the chunk that is being entered, by the lowest bits of lines: line + 1, and the place + 1 of its last store there.
    entered: Box<[(u64, Place)]>,
}

impl Directory {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        let (known, entered) = (vec![(0, 0); KNOWN], vec![(0, 0); ENTERED]);
        Self { known: known.into(), regions: HashMap::new(), users: Vec::new(), entered: entered.into() }
    }

    /// Regions of which something is known.
    #[cfg(test)]
    pub(crate) fn regions(&self) -> usize {
        self.users.len()
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

    /// `slot` makes the references of a chunk; adds the lines that others used before to `common`, some of them several times.
    pub(crate) fn enter_all(&mut self, chunk: Chunk<'_>, slot: u32, tracker: &mut Tracker, common: &mut Vec<Common>) {
        self.entered.fill((0, 0));
        for (at, reference) in chunk.references.iter().enumerate() {
            let (line, store) = (reference.line(), reference.is_store());
            let stored = store.then(|| chunk.items.get(at).map_or(0, |item| item.0));
            let entered = &mut self.entered[line as usize % ENTERED];
            let place = stored.map_or(0, |place| place.saturating_add(1));
            // To enter it once more would change nothing.
            if entered.0 == line + 1 && (place == 0 || entered.1 == place) {
                continue;
            }
            *entered = (line + 1, place);
            if self.enter(line, slot, stored, tracker) {
                common.push(Common { line, stored: store });
            }
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

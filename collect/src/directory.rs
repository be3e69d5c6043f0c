//! Which lines more than one thread uses: only these need a look into the stacks of others.

use crate::tracker::{Place, Tracker};
use bf_stack::{ByLine, Chunk, Common};

const ENTERED: usize = 512;

/// Who referenced a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    users: ByLine<Users>,
    /// Of the chunk that is being entered, by the lowest bits of lines: line + 1, and the place + 1 of its last store there.
    entered: Box<[(u64, Place)]>,
}

impl Directory {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        Self { users: ByLine::new(), entered: vec![(0, 0); ENTERED].into() }
    }

    /// Lines of which something is known.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> usize {
        self.users.iter().count()
    }

    /// `slot` references a line, from a place if it stores; whether another did too. Whoever used it alone until now begins to be
    /// tracked.
    #[inline]
    fn enter(&mut self, line: u64, slot: u32, stored: Option<Place>, tracker: &mut Tracker) -> bool {
        let mine = user(slot);
        let users = self.users.of(line);
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

    /// `slot`, the only one there is, referenced a line.
    pub(crate) fn begin(&mut self, line: u64, slot: u32, stored: bool) {
        *self.users.of(line) = Users { slots: user(slot), stored: stored.into() };
    }
}

/// A slot as the only user.
fn user(slot: u32) -> u16 {
    u16::try_from(slot + 1).unwrap_or(SEVERAL)
}

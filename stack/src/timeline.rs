//! The order of all lines, answering how many are newer than a given one: the distance with one set.
//!
//! Each reference takes the next place; the line's former place is cleared. Live places are bits. Places close to the
//! newest are counted bit by bit; older ones lie in sealed blocks of 512, which a Fenwick tree counts. When the places
//! run out the live ones are moved together, or, if more than half are live, their number doubles: both cost a constant
//! number of steps per reference.

use crate::lines::Id;

const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;
/// Blocks at the new end that are not in the tree.
const OPEN: usize = 4;
const PLACES: usize = 64 * BLOCK;

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    live: Vec<u64>,
    /// Fenwick tree over sealed blocks; index 0 unused.
    sums: Vec<u32>,
    /// The line at each place.
    ids: Vec<Id>,
    /// The next free place; place 0 is never used.
    next: usize,
    /// Blocks before this one are sealed.
    open: usize,
    len: usize,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        let mut timeline = Self { live: Vec::new(), sums: Vec::new(), ids: Vec::new(), next: 1, open: 0, len: 0 };
        timeline.resize(PLACES);
        timeline
    }

    /// How many lines are newer than the one at `place`.
    #[inline(always)]
    pub(crate) fn newer(&self, place: u32) -> usize {
        let (word, bit) = (place as usize / 64, place % 64);
        let block = place as usize / BLOCK;
        let after = (self.live[word] & (u64::MAX << bit)).count_ones() as usize - 1;
        if block >= self.open {
            return after + self.ones(word + 1..self.next.div_ceil(64));
        }
        let mut rank = self.ones(block * WORDS..word + 1) - after;
        let mut node = block;
        while node > 0 {
            rank += self.sums[node] as usize;
            node &= node - 1;
        }
        self.len - rank
    }

    fn ones(&self, words: std::ops::Range<usize>) -> usize {
        self.live[words].iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Whether [`Timeline::enter`] needs [`Timeline::make_room`] first.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.next == self.ids.len()
    }

    /// A line becomes the newest; returns its place.
    #[inline(always)]
    pub(crate) fn enter(&mut self, id: Id) -> u32 {
        let place = self.next;
        self.next += 1;
        self.len += 1;
        self.ids[place] = id;
        self.live[place / 64] |= 1 << (place % 64);
        if place / BLOCK >= self.open + OPEN {
            self.seal();
        }
        place as u32
    }

    /// The line at `place` leaves it.
    #[inline(always)]
    pub(crate) fn leave(&mut self, place: u32) {
        self.len -= 1;
        self.live[place as usize / 64] &= !(1 << (place % 64));
        let block = place as usize / BLOCK;
        if block < self.open {
            self.add(block, u32::MAX);
        }
    }

    /// Moves the live places together, in order, reporting each line's new place.
    pub(crate) fn make_room(&mut self, mut moved: impl FnMut(Id, u32)) {
        let mut to = 1;
        for word in 0..self.live.len() {
            let mut bits = std::mem::take(&mut self.live[word]);
            while bits != 0 {
                let id = self.ids[word * 64 + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                self.ids[to] = id;
                moved(id, to as u32);
                to += 1;
            }
        }
        self.next = to;
        let places = if 2 * self.len > self.ids.len() { 2 * self.ids.len() } else { self.ids.len() };
        self.resize(places);
        self.live[..to / 64].fill(u64::MAX);
        self.live[to / 64] |= (1 << (to % 64)) - 1;
        self.live[0] &= !1;
        self.sums.fill(0);
        self.open = 0;
        while to / BLOCK >= self.open + OPEN {
            self.seal();
        }
    }

    /// Lines from the oldest to the newest.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Id> + '_ {
        (0..self.next).filter(|place| self.live[place / 64] >> (place % 64) & 1 != 0).map(|place| self.ids[place])
    }

    fn resize(&mut self, places: usize) {
        self.live.resize(places / 64, 0);
        self.ids.resize(places, 0);
        self.sums.resize(places / BLOCK + 1, 0);
    }

    fn seal(&mut self) {
        let live = self.ones(self.open * WORDS..(self.open + 1) * WORDS);
        self.add(self.open, live as u32);
        self.open += 1;
    }

    /// Adds `count`, modulo 2^32, to a block.
    fn add(&mut self, block: usize, count: u32) {
        let mut node = block + 1;
        while node < self.sums.len() {
            self.sums[node] = self.sums[node].wrapping_add(count);
            node += node & node.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn counts_newer_lines_through_growth_and_compaction(
            lines in prop_oneof![1u32..300, 1u32..30_000],
            steps in prop::collection::vec(any::<u32>(), 60_000..120_000),
        ) {
            let mut timeline = Timeline::new();
            let mut places = std::collections::HashMap::new();
            let mut last = std::collections::HashMap::new();
            for (step, id) in steps.into_iter().map(|step| step % lines).enumerate() {
                if let Some(place) = places.remove(&id) {
                    if step % 499 == 0 || timeline.is_full() {
                        let since = last[&id];
                        prop_assert_eq!(timeline.newer(place), last.values().filter(|&&other| other > since).count());
                    }
                    timeline.leave(place);
                }
                if timeline.is_full() {
                    timeline.make_room(|id, place| { places.insert(id, place); });
                }
                places.insert(id, timeline.enter(id));
                last.insert(id, step);
            }
            let mut order: Vec<_> = last.into_iter().map(|(id, step)| (step, id)).collect();
            order.sort_unstable();
            let order: Vec<_> = order.into_iter().map(|(_, id)| id).collect();
            prop_assert_eq!(timeline.oldest_first().collect::<Vec<_>>(), order);
        }
    }
}

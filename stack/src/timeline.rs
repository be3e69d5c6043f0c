//! The order of all lines of the older tier, answering how many are newer than a given one.
//!
//! Each line that enters takes the next place; a line that leaves clears its place. Live places are bits, a Fenwick tree
//! over blocks of 512 of them counts. When the places run out the live ones are moved together, or, if more than half
//! are live, their number doubles: both cost a constant number of steps per line entered.

use crate::lines::Id;

const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    live: Vec<u64>,
    /// Fenwick tree over blocks; index 0 unused.
    sums: Vec<u32>,
    /// The line at each place.
    ids: Vec<Id>,
    next: usize,
    len: usize,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        let mut timeline = Self { live: Vec::new(), sums: Vec::new(), ids: Vec::new(), next: 1, len: 0 };
        timeline.resize(8 * BLOCK);
        timeline
    }

    /// How many lines entered after the one at `place`.
    pub(crate) fn newer(&self, place: u32) -> usize {
        let (word, bit) = (place as usize / 64, place % 64);
        let block = place as usize / BLOCK;
        let mut rank = (self.live[word] & (u64::MAX >> (63 - bit))).count_ones();
        rank += self.live[block * WORDS..word].iter().map(|bits| bits.count_ones()).sum::<u32>();
        let mut node = block;
        while node > 0 {
            rank += self.sums[node];
            node &= node - 1;
        }
        self.len - rank as usize
    }

    /// Whether [`Timeline::enter`] needs [`Timeline::make_room`] first.
    pub(crate) fn is_full(&self) -> bool {
        self.next == self.ids.len()
    }

    /// A line enters as the newest; returns its place.
    pub(crate) fn enter(&mut self, id: Id) -> u32 {
        let place = self.next;
        self.next += 1;
        self.len += 1;
        self.ids[place] = id;
        self.live[place / 64] |= 1 << (place % 64);
        self.add(place / BLOCK, 1);
        place as u32
    }

    /// The line at `place` leaves.
    pub(crate) fn leave(&mut self, place: u32) {
        self.len -= 1;
        self.live[place as usize / 64] &= !(1 << (place % 64));
        self.add(place as usize / BLOCK, u32::MAX);
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
        for block in 0..=to / BLOCK {
            let live = self.live[block * WORDS..(block + 1) * WORDS].iter().map(|bits| bits.count_ones()).sum();
            self.add(block, live);
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
        #[test]
        fn counts_newer_lines_through_growth_and_compaction(steps in prop::collection::vec(0u32..5000, 0..20000)) {
            let mut timeline = Timeline::new();
            let mut places = std::collections::HashMap::new();
            let mut order: Vec<Id> = Vec::new();
            for (step, id) in steps.into_iter().enumerate() {
                if let Some(place) = places.remove(&id) {
                    if step % 100 == 0 {
                        let at = order.iter().position(|&other| other == id).unwrap();
                        prop_assert_eq!(timeline.newer(place), order.len() - 1 - at);
                    }
                    timeline.leave(place);
                    order.retain(|&other| other != id);
                }
                if timeline.is_full() {
                    timeline.make_room(|id, place| { places.insert(id, place); });
                }
                places.insert(id, timeline.enter(id));
                order.push(id);
            }
            prop_assert_eq!(timeline.oldest_first().collect::<Vec<_>>(), order);
        }
    }
}

//! The order of all lines of the older tier, answering how many are newer than a given one: the distance with one set.
//!
//! Each line that comes in takes the next place; when it leaves, its place is cleared. Live places are bits; counts of
//! them over blocks, groups of blocks, and groups of groups make a tree so flat that a question sums a few short rows.
//! When the places run out the live ones are moved together, where there is room for as many more as there are lines, each of which
//! is looked at for that: a constant number of steps for each line that comes in. Which line is at a place is known to the line only.

use crate::simd::Vector;

/// Places of a block.
const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;
/// Blocks of a group.
const GROUP: usize = 32;
/// Groups of a group of groups.
pub(crate) const FAN: usize = 16;
const PLACES: usize = 4 * BLOCK * GROUP;

/// The places of a block, and one of them.
pub(crate) type Live<'a> = (&'a [u64; WORDS], usize);
/// The counts of the blocks of a group, and one of those.
pub(crate) type Blocks<'a> = (&'a [u16; GROUP], usize);
/// The counts of all groups, of groups of these, and so on, and one of the groups.
pub(crate) type Groups<'a> = (&'a [Vec<[u32; FAN]>], usize);

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    live: Vec<[u64; WORDS]>,
    /// Live places of each block.
    blocks: Vec<[u16; GROUP]>,
    /// Live places of each group, then of each group of groups, up to one row.
    groups: Vec<Vec<[u32; FAN]>>,
    /// The next free place; place 0 is never used.
    next: usize,
    len: usize,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        let (live, blocks, groups) = (Vec::new(), Vec::new(), Vec::new());
        let mut timeline = Self { live, blocks, groups, next: 1, len: 0 };
        timeline.resize(PLACES);
        timeline
    }

    /// How many lines are newer than the one at `place`.
    #[inline(always)]
    pub(crate) fn newer<V: Vector>(&self, place: u32) -> usize {
        // It is counted itself.
        self.from::<V>(place) - 1
    }

    /// How many lines are at `place` or newer.
    #[inline(always)]
    pub(crate) fn from<V: Vector>(&self, place: u32) -> usize {
        let place = place as usize;
        if place >= self.next {
            return 0;
        }
        let (block, group) = (place / BLOCK, place / BLOCK / GROUP);
        let live = (&self.live[block], place % BLOCK);
        V::sum_from(live, (&self.blocks[group], block % GROUP), (&self.groups, group)) as usize
    }

    /// The next free place.
    pub(crate) fn next(&self) -> u32 {
        self.next as u32
    }

    /// How many lines there are.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What [`Timeline::newer`] will look at first.
    #[inline(always)]
    pub(crate) fn block(&self, place: u32) -> &[u64; WORDS] {
        &self.live[place as usize / BLOCK]
    }

    /// Whether [`Timeline::enter`] needs [`Timeline::make_room`] first.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.next == self.live.len() * BLOCK
    }

    /// A line becomes the newest; returns its place.
    #[inline(always)]
    pub(crate) fn enter(&mut self) -> u32 {
        let place = self.next;
        self.next += 1;
        self.len += 1;
        self.change(place, 1);
        place as u32
    }

    /// The line at `place` leaves it.
    #[inline(always)]
    pub(crate) fn leave(&mut self, place: u32) {
        self.len -= 1;
        self.change(place as usize, u32::MAX);
    }

    /// Flips a place and adds `one`, modulo 2^32, to the counts it is in.
    #[inline(always)]
    fn change(&mut self, place: usize, one: u32) {
        self.live[place / BLOCK][place / 64 % WORDS] ^= 1 << (place % 64);
        let mut at = place / BLOCK;
        let count = &mut self.blocks[at / GROUP][at % GROUP];
        *count = count.wrapping_add(one as u16);
        at /= GROUP;
        for level in &mut self.groups {
            let count = &mut level[at / FAN][at % FAN];
            *count = count.wrapping_add(one);
            at /= FAN;
        }
    }

    /// How many live places are before each.
    pub(crate) fn ranks(&self) -> Ranks<'_> {
        let (live, mut sum) = (self.live.as_flattened(), 0);
        let before = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        Ranks { live, before: live.iter().map(before).collect(), len: self.len as u32 }
    }

    /// The live places are moved together, in order: to 1 + their ranks. There is room then for so many lines to come in.
    pub(crate) fn make_room(&mut self, lines: usize) {
        self.next = 1 + self.len;
        let places = (self.next + lines).next_multiple_of(BLOCK * GROUP).max(self.live.len() * BLOCK);
        self.live.clear();
        self.resize(places);
        self.fill();
    }

    /// Makes all places before the next free one live, where none is.
    fn fill(&mut self) {
        let live = |at: usize, size: usize| self.next.saturating_sub(at * size).min(size) - usize::from(at == 0);
        for (at, count) in (0..).zip(self.blocks.as_flattened_mut()) {
            *count = live(at, BLOCK) as u16;
        }
        let mut size = BLOCK * GROUP;
        for level in &mut self.groups {
            for (at, count) in (0..).zip(level.as_flattened_mut()) {
                *count = live(at, size) as u32;
            }
            size *= FAN;
        }
        let words = self.live.as_flattened_mut();
        words[..self.next / 64].fill(u64::MAX);
        words[self.next / 64] |= (1 << (self.next % 64)) - 1;
        words[0] &= !1;
    }

    /// `places` is a multiple of those of a group.
    fn resize(&mut self, places: usize) {
        self.live.resize(places / BLOCK, [0; WORDS]);
        let mut counts = places / BLOCK / GROUP;
        self.blocks.resize(counts, [0; GROUP]);
        self.groups.clear();
        loop {
            self.groups.push(vec![[0; FAN]; counts.div_ceil(FAN)]);
            if counts <= FAN {
                return;
            }
            counts = counts.div_ceil(FAN);
        }
    }
}

/// See [`Timeline::ranks`].
#[derive(Debug)]
pub(crate) struct Ranks<'a> {
    live: &'a [u64],
    /// By word of `live`.
    before: Vec<u32>,
    len: u32,
}

impl Ranks<'_> {
    /// How many live places are before that one, which need not be live.
    #[inline]
    pub(crate) fn of(&self, place: u32) -> u32 {
        let (word, bit) = (place as usize / 64, 1 << (place % 64));
        self.before.get(word).map_or(self.len, |before| before + (self.live[word] & (bit - 1)).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{self, Instructions, Task};
    use proptest::prelude::*;

    struct Newer<'a>(&'a Timeline, u32);

    impl Task for Newer<'_> {
        type Answer = usize;

        fn run<V: Vector>(self) -> usize {
            self.0.newer::<V>(self.1)
        }
    }

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
                        let newer = last.values().filter(|&&other| other > since).count();
                        for instructions in Instructions::ALL.into_iter().filter(|one| one.available()) {
                            prop_assert_eq!(simd::run(Newer(&timeline, place), instructions), newer);
                        }
                    }
                    timeline.leave(place);
                }
                if timeline.is_full() {
                    let ranks = timeline.ranks();
                    places.values_mut().for_each(|place| *place = 1 + ranks.of(*place));
                    timeline.make_room(places.len());
                }
                places.insert(id, timeline.enter());
                last.insert(id, step);
            }
            let mut order: Vec<_> = last.into_iter().map(|(id, step)| (step, id)).collect();
            order.sort_unstable();
            let ranks: Vec<_> = order.into_iter().map(|(_, id)| timeline.ranks().of(places[&id]) as usize).collect();
            prop_assert_eq!(&ranks, &(0..timeline.len()).collect::<Vec<_>>());
            prop_assert_eq!(timeline.ranks().of(timeline.next()) as usize, ranks.len());
        }
    }
}

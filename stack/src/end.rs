//! How far down the lines that were stored are when the run ends.
//!
//! Where no loop left sheets all lines are looked at in their order, the newest first, with a count for each set of those that
//! were there before: nothing has to be asked. Otherwise it is asked of each stored line, as if it were referenced.
//!
//! Invariant: the count of a set is that of its lines so far, or the most there can be. So where it is the most, it is for the sets
//! of all smaller set counts that the line is in, which need not be counted.

use crate::Limits;
use crate::behind::State;
use crate::counts::Residents;
use crate::engine::Core;
use crate::held::Entry;
use crate::item::Charge;
use crate::sets::Greatest;
use crate::simd::{self, Vector};
use smallvec::SmallVec;

/// Lines of which it is fetched together how far down they are.
const SOME: usize = 32;
/// Lines whose state is fetched ahead.
const AHEAD: usize = 16;

/// Lines that were looked at, all of them and by set.
struct Above {
    full: u32,
    ways: u8,
    bits: u32,
    /// Of 2^a sets from 2^a on, `ways` at most.
    by_set: Vec<u8>,
}

impl Above {
    fn new(limits: Limits) -> Self {
        let (ways, bits) = (limits.max_ways as u8, limits.max_set_bits);
        Self { full: 0, ways, bits, by_set: vec![0; 2 << bits] }
    }

    /// How many are above the next line, which is one of them from now on.
    #[inline(always)]
    fn next<V: Vector, const W: usize>(&mut self, line: u32) -> (u32, [u8; W]) {
        let (full, mut newer) = (self.full, [0; W]);
        self.full += 1;
        for bits in (1..=self.bits).rev() {
            let sets = 1 << bits;
            let count = &mut self.by_set[sets | line as usize & (sets - 1)];
            if *count == self.ways {
                V::raise(&mut newer, &Greatest::UP_TO[bits as usize]);
                break;
            }
            newer[bits as usize - 1] = *count;
            *count += 1;
        }
        (full, newer)
    }
}

impl<const W: usize> Core<W> {
    /// `max(m, depth now)` of each line that was stored, by where it is charged. Of none where others take lines away: dirty ones
    /// are passed on then, which is counted by itself, and how deep a line is depends on holes too.
    #[inline(always)]
    pub(crate) fn residents<V: Vector>(&self) -> Residents {
        debug_assert!(self.left.works.is_empty() && self.left.load.is_some(), "works that wait");
        let mut residents = Residents::default();
        match () {
            () if self.sharing.is_some() => {}
            () if self.older.sheets.is_empty() => self.add_all::<V>(&mut residents),
            () => self.add_each::<V>(&mut residents),
        }
        residents
    }

    #[inline(always)]
    fn add_all<V: Vector>(&self, residents: &mut Residents) {
        let mut above = Above::new(self.limits);
        let held: SmallVec<[Entry; crate::held::ENTRIES]> = self.tiers.oldest_first().collect();
        for &entry in held.iter().rev() {
            let (line, id) = (self.tiers.held.line(entry), self.ids[usize::from(entry)]);
            let place = above.next::<V, W>(line as u32);
            self.add::<V>(self.state::<V>(Some(entry), id), place, residents);
        }
        let (low, high) = self.low_bits();
        let states = self.left.load.as_ref().map(|load| &load.behind.states);
        let mut ids = Vec::new();
        for places in self.older.newest_places() {
            self.older.ids_of(&self.lines, places, &mut ids);
            for at in (0..ids.len()).rev() {
                if let Some(next) = at.checked_sub(AHEAD).and_then(|next| ids[next].checked_sub(1)) {
                    states.iter().for_each(|states| states.prefetch(next));
                    simd::prefetch(&low[next as usize]);
                }
                if let Some(id) = ids[at].checked_sub(1) {
                    let high = high.get(id as usize).map_or(0, |&high| u32::from(high) << 16);
                    let place = above.next::<V, W>(u32::from(low[id as usize]) | high);
                    self.add::<V>(self.state_behind(id), place, residents);
                }
            }
        }
    }

    /// By id, what tells the sets of a line: 16 bits, and, where there are so many sets, those above.
    fn low_bits(&self) -> (Vec<u16>, Vec<u8>) {
        let len = self.lines.len();
        let (mut low, mut high) = (vec![0; len], vec![0; if self.limits.max_set_bits > u16::BITS { len } else { 0 }]);
        for (line, id) in self.lines.all() {
            low[id as usize] = line as u16;
            high.get_mut(id as usize).into_iter().for_each(|high| *high = (line >> u16::BITS) as u8);
        }
        (low, high)
    }

    #[inline(always)]
    fn add_each<V: Vector>(&self, residents: &mut Residents) {
        let mut follow = self.follow();
        // What is stored in the upper tiers only is noted here too.
        let mut stored = self.lines.all().filter(|&(_, id)| self.state_behind(id).dirty != Charge::NONE);
        let mut some: SmallVec<[_; SOME]> = SmallVec::new();
        loop {
            some.extend(stored.by_ref().take(SOME));
            if some.is_empty() {
                break;
            }
            some.iter().for_each(|&(line, id)| self.prefetch_depth(line, id));
            for (line, id) in some.drain(..) {
                let held = self.tiers.held.find(line);
                let place = self.depth::<V>(line, held, id, &mut follow);
                self.add::<V>(self.state::<V>(held, id), place, residents);
            }
        }
    }

    #[inline(always)]
    fn add<V: Vector>(&self, mut state: State<W>, (full, by_set): (u32, [u8; W]), residents: &mut Residents) {
        state.raise::<V>(full, &by_set);
        if let Some(charged) = state.dirty.get() {
            residents.line(charged, u64::from(state.greatest_full), &state.greatest, self.limits);
        }
    }
}

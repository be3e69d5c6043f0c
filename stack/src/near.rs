//! Counts of what is near: distances below 64 that are 0 from 2^9 sets on, as most are.
//!
//! So small values fit into few bits, so that several set counts share one index: six cells change where one for every
//! set count and one more for its capacity misses would, and two for values below 8. Nothing is looked up and nothing
//! branches on the values.

use crate::boxed;
use crate::repeats::Kind;

/// Values are below this.
const VALUES: usize = 64;
/// Set counts 2^1 ..= 2^8.
pub(crate) const LEVELS: usize = 8;
/// Of a table for two set counts. Those of 0, which are used most, must not lie at the same place of all pages.
const CELLS: usize = VALUES * VALUES + 80;
/// Of both tables for values below 8, and of the first.
const FEW: usize = FEW_LOW + (1 << 12) + 80;
const FEW_LOW: usize = (1 << 15) + 80;
/// Greatest weight of one count.
pub(crate) const HEAVY: u64 = 1 << 16;
/// So much is counted before the cells, of 32 bits, have to be emptied. A batch adds far less than the rest.
pub(crate) const FULL: u64 = 1 << 31;

/// The counters.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    full: [[u32; VALUES]; Kind::ALL.len()],
    /// A table for each kind and, within, for a = 1, 3, 5 and 7: by d_a + 64 d_{a+1}.
    pairs: Box<[u32; CELLS * LEVELS / 2 * Kind::ALL.len()]>,
    /// Two tables for each kind, of values below 8: by d_0, d_1, d_2, d_3 and d_4, one behind the other in 3 bits, and by
    /// d_5 .. d_8.
    few: Box<[u32; FEW * Kind::ALL.len()]>,
    /// Other loads and stores by `min(d_a, d_0 >> a)` for a = 1 ..= 5, one behind the other in 5, 4, 3, 2 and 1 bits: `d_0 >> a`
    /// has no more.
    capacity: Box<[u32; 1 << 15]>,
    /// Sum of all weights.
    counted: u64,
}

/// `d_0 >> a` for a = 1 ..= 8, a byte each, the first one lowest.
const SHIFTED: [u64; VALUES] = {
    let mut all = [0; VALUES];
    let mut value = 0;
    while value < VALUES {
        let mut a = 1;
        while a <= LEVELS {
            all[value] |= (value as u64 >> a) << (8 * (a - 1));
            a += 1;
        }
        value += 1;
    }
    all
};

/// The lesser of two bytes at each place, all below 128.
#[inline(always)]
fn lesser(some: u64, others: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let not_less = ((some | HIGH) - others) & HIGH;
    let bytes = (not_less << 1).wrapping_sub(not_less >> 7);
    others & bytes | some & !bytes
}

/// Whether a distance is other than 0 from 2^9 sets on.
#[inline(always)]
pub(crate) fn is_far<const W: usize>(by_set: &[u8; W]) -> bool {
    by_set.as_chunks::<LEVELS>().0[1..].iter().any(|word| u64::from_le_bytes(*word) != 0)
}

impl Near {
    pub(crate) fn new() -> Self {
        Self {
            full: [[0; VALUES]; Kind::ALL.len()],
            pairs: boxed::array(0),
            few: boxed::array(0),
            capacity: boxed::array(0),
            counted: 0,
        }
    }

    /// Counts distances, or greatest ones, so often; returns whether it could.
    #[inline(always)]
    pub(crate) fn add<const W: usize>(&mut self, kind: Kind, full: u32, by_set: &[u8; W], weight: u64) -> bool {
        let (words, _) = by_set.as_chunks::<LEVELS>();
        if full as usize >= VALUES || is_far(by_set) || weight >= HEAVY {
            return false;
        }
        let (full, count) = (full as usize, weight as u32);
        self.counted += weight;
        if full < 8 {
            let three = u64::from_le_bytes(words[0]) & 0x0707_0707_0707_0707;
            let six = (three | three >> 5) & 0x003f_003f_003f_003f;
            let twelve = six | six >> 10;
            let tables = &mut self.few.as_chunks_mut::<FEW>().0[kind as usize];
            tables[full | (twelve as usize & 0xfff) << 3] += count;
            tables[FEW_LOW + (twelve >> 32) as usize % (1 << 12)] += count;
            return true;
        }
        self.full[kind as usize][full] += count;
        let low = u64::from_le_bytes(words[0]);
        let indices = low & 0x00ff_00ff_00ff_00ff | (low & 0xff00_ff00_ff00_ff00) >> 2;
        let tables = &mut self.pairs.as_chunks_mut::<CELLS>().0[LEVELS / 2 * kind as usize..][..LEVELS / 2];
        for (pair, table) in tables.iter_mut().enumerate() {
            table[(indices >> (16 * pair)) as usize % (VALUES * VALUES)] += count;
        }
        if kind != Kind::Writeback {
            self.capacity[packed(lesser(low, SHIFTED[full]))] += count;
        }
        true
    }

    /// Whether the cells have to be emptied before another batch.
    pub(crate) fn is_full(&self) -> bool {
        self.counted >= FULL
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counted == 0
    }

    /// All counts by `d_0`: kind, value, count.
    pub(crate) fn by_full(&self) -> impl Iterator<Item = (Kind, usize, u64)> + '_ {
        let of = |kind| filled(&self.full[kind as usize]).map(move |(value, count)| (kind, value, count));
        let few = self.few_low().map(|(kind, full, _, count)| (kind, full, count));
        Kind::ALL.into_iter().flat_map(of).chain(few)
    }

    /// All counts by set: kind, index of the set count (0 is two sets), value, count. Without those of value 0.
    pub(crate) fn by_set(&self) -> impl Iterator<Item = (Kind, usize, usize, u64)> + '_ {
        let pairs = filled(&*self.pairs).flat_map(|(at, count)| {
            let (table, values) = (at / CELLS, at % CELLS);
            let (kind, index) = (Kind::ALL[table / (LEVELS / 2)], 2 * (table % (LEVELS / 2)));
            [(index, values % VALUES), (index + 1, values / VALUES)].map(|(index, value)| (kind, index, value, count))
        });
        let low = self.few_low().flat_map(|(kind, _, by_set, count)| {
            by_set.into_iter().enumerate().map(move |(index, value)| (kind, index, value, count))
        });
        let high = Kind::ALL.into_iter().flat_map(|kind| {
            filled(&self.few_of(kind)[FEW_LOW..]).flat_map(move |(at, count)| {
                four(at).into_iter().zip(4..).map(move |(value, index)| (kind, index, value, count))
            })
        });
        pairs.chain(low).chain(high).filter(|&(_, _, value, _)| value > 0)
    }

    /// All loads and stores by `min(d_a, d_0 >> a)`: index of the set count, value, count. Without those of value 0.
    pub(crate) fn by_capacity(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let fields = |at: usize| [at & 31, at >> 5 & 15, at >> 9 & 7, at >> 12 & 3, at >> 14];
        let all = filled(&*self.capacity).flat_map(move |(at, count)| {
            fields(at).into_iter().enumerate().map(move |(index, value)| (index, value, count))
        });
        let few = self.few_low().filter(|&(kind, ..)| kind != Kind::Writeback);
        let few = few.flat_map(|(_, full, by_set, count)| {
            by_set.into_iter().enumerate().map(move |(index, value)| (index, value.min(full >> (index + 1)), count))
        });
        all.chain(few).filter(|&(_, value, _)| value > 0)
    }

    fn few_of(&self, kind: Kind) -> &[u32; FEW] {
        &self.few.as_chunks().0[kind as usize]
    }

    /// Of values below 8: kind, d_0, d_1 ..= d_4, count.
    fn few_low(&self) -> impl Iterator<Item = (Kind, usize, [usize; 4], u64)> + '_ {
        Kind::ALL.into_iter().flat_map(|kind| {
            filled(&self.few_of(kind)[..FEW_LOW]).map(move |(at, count)| (kind, at & 7, four(at >> 3), count))
        })
    }
}

/// Four values in 3 bits each.
fn four(at: usize) -> [usize; 4] {
    std::array::from_fn(|index| at >> (3 * index) & 7)
}

/// The five lowest bytes, which have no more than 5, 4, 3, 2 and 1 bits, without what lies between.
#[inline(always)]
fn packed(bytes: u64) -> usize {
    let part = |from: u32, mask: u64| bytes >> from & mask;
    (part(0, 0x1f) | part(3, 0x1e0) | part(7, 0xe00) | part(12, 0x3000) | part(18, 0x4000)) as usize
}

fn filled(cells: &[u32]) -> impl Iterator<Item = (usize, u64)> + '_ {
    cells.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(at, &count)| (at, u64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::lesser;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_lesser_of_bytes(some in any::<[u8; 8]>(), others in any::<[u8; 8]>()) {
            let [some, others] = [some, others].map(|bytes| bytes.map(|byte| byte & 127));
            let expected: [u8; 8] = std::array::from_fn(|at| some[at].min(others[at]));
            prop_assert_eq!(lesser(u64::from_le_bytes(some), u64::from_le_bytes(others)).to_le_bytes(), expected);
        }
    }
}

//! The older tier by set: for every set count 2^1 ..= 2^K and every set, the stamps of its newest `max_ways` lines.
//!
//! Invariant: a ring's stamps descend from its head. A line that was pushed off the end of a full ring stays behind
//! `max_ways` newer lines of its set until it is referenced again, so it need not be remembered: its distance is
//! "max_ways or more", and, sets being nested, it is off the ring of every smaller set count as well.

/// All rings of one set count.
#[derive(Clone, Debug)]
struct Level {
    stamps: Vec<u32>,
    /// Where the newest stamp of each set is.
    heads: Vec<u8>,
    lens: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Rings {
    /// Index 0 is two sets.
    levels: Vec<Level>,
    ways: usize,
}

impl Rings {
    pub(crate) fn new(set_bits: u32, ways: u32) -> Self {
        let ways = ways as usize;
        let level = |a| Level { stamps: vec![0; ways << a], heads: vec![0; 1usize << a], lens: vec![0; 1usize << a] };
        Self { levels: (1..=set_bits).map(level).collect(), ways }
    }

    /// Number of set counts.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// For the set of `line` with 2^(index + 1) sets: how many stamps are newer than `stamp`, or `None` if it fell off.
    pub(crate) fn newer(&self, index: usize, line: u64, stamp: u32) -> Option<usize> {
        self.levels[index].newer(self.ways, set(index, line), stamp)
    }

    /// Takes a stamp out that is there with `newer` before it.
    pub(crate) fn remove(&mut self, index: usize, line: u64, newer: usize) {
        self.levels[index].remove(self.ways, set(index, line), newer);
    }

    /// Puts the newest stamp of all into the set of `line` at every set count.
    pub(crate) fn insert(&mut self, line: u64, stamp: u32) {
        for (index, level) in self.levels.iter_mut().enumerate() {
            level.insert(self.ways, set(index, line), stamp);
        }
    }

    /// Empties every ring.
    pub(crate) fn clear(&mut self) {
        for level in &mut self.levels {
            level.lens.fill(0);
        }
    }
}

fn set(index: usize, line: u64) -> usize {
    line as usize & ((2 << index) - 1)
}

impl Level {
    fn newer(&self, ways: usize, set: usize, stamp: u32) -> Option<usize> {
        let ring = &self.stamps[set * ways..(set + 1) * ways];
        let (head, len) = (usize::from(self.heads[set]), usize::from(self.lens[set]));
        if len == 0 || ring[wrap(head + len - 1, ways)] > stamp {
            return None;
        }
        if ring[head] == stamp {
            return Some(0);
        }
        if len == ways {
            return Some(ring.iter().map(|&other| usize::from(other > stamp)).sum());
        }
        let (first, rest) = (len.min(ways - head), len.saturating_sub(ways - head));
        let count = |part: &[u32]| part.iter().map(|&other| usize::from(other > stamp)).sum::<usize>();
        Some(count(&ring[head..head + first]) + count(&ring[..rest]))
    }

    fn remove(&mut self, ways: usize, set: usize, newer: usize) {
        let ring = &mut self.stamps[set * ways..(set + 1) * ways];
        let (head, len) = (usize::from(self.heads[set]), usize::from(self.lens[set]));
        if newer < len / 2 {
            // Move the newer ones one place back.
            for i in (0..newer).rev() {
                ring[wrap(head + i + 1, ways)] = ring[wrap(head + i, ways)];
            }
            self.heads[set] = wrap(head + 1, ways) as u8;
        } else {
            for i in newer + 1..len {
                ring[wrap(head + i - 1, ways)] = ring[wrap(head + i, ways)];
            }
        }
        self.lens[set] -= 1;
    }

    fn insert(&mut self, ways: usize, set: usize, stamp: u32) {
        let head = usize::from(self.heads[set]);
        let head = if head == 0 { ways - 1 } else { head - 1 };
        self.stamps[set * ways + head] = stamp;
        self.heads[set] = head as u8;
        self.lens[set] += u8::from(usize::from(self.lens[set]) < ways);
    }
}

fn wrap(place: usize, ways: usize) -> usize {
    if place >= ways { place - ways } else { place }
}

//! What is left where another thread's store took a line away: section 5 of the model.
//!
//! An item of a stack is a line or a hole, and stands where it was last referenced. The order is that of these times at
//! every set count: a line that finds a hole above it moves to the top and leaves a hole at its own old time, for the one
//! above, which is gone. So lines have one order for all set counts, and only holes are kept by set count and set, as
//! times. Where there are none, nothing is to be done.
//!
//! Invariant: of each set the newest holes are here, `max_ways` of them at least; of the only set of 2^0 all are. An item
//! never comes nearer to the top while it stays an item, so a hole with so many others above it is never asked for.

use std::ops::Range;

/// When an item was last referenced; all different.
pub(crate) type Instant = u64;

/// The holes of one stack.
#[derive(Clone, Debug)]
pub(crate) struct Holes<const W: usize> {
    set_bits: u32,
    ways: usize,
    /// Those of the only set of 2^0.
    all: Times,
    /// By [`number`] of another set: 1 + where its holes are; 0: it never had any. Zero pages of the system until they are used.
    places: Vec<u32>,
    /// Ascending, of each set that ever had any.
    sets: Vec<Vec<Instant>>,
    /// One bit for each set: whether it has any.
    any: Vec<u64>,
    /// Of each set the newest. Zero pages, too.
    tops: Vec<Instant>,
    /// For each word of `any`: no hole of its sets is newer.
    words: Vec<Instant>,
    /// How many of these bits are set.
    filled: usize,
    /// No hole is newer.
    newest: Instant,
    /// Of the last look: sets with holes newer than that, unless they were many; and whether something changed since.
    few: Vec<Few>,
    since: Instant,
    many: bool,
    is_past: bool,
}

/// A set with holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few {
    pub(crate) bits: u32,
    set: u64,
    newest: Instant,
}

impl Few {
    /// Of some lines those that are in the set, if they are old enough to have a hole above them.
    pub(crate) fn lines(self, lines: &Range<u64>, oldest: Instant) -> impl Iterator<Item = u64> {
        let sets = 1 << self.bits;
        let first = lines.start + (self.set.wrapping_sub(lines.start) & (sets - 1));
        let end = if oldest < self.newest { lines.end } else { first };
        (first..end).step_by(sets as usize)
    }
}

/// Holes above an item, with one set and with 2^1, 2^2, …, at most 255.
pub(crate) type Above<const W: usize> = (u32, [u8; W]);

/// A set among all those of all set counts.
fn number(bits: u32, line: u64) -> u32 {
    1 << bits | (line as u32 & ((1 << bits) - 1))
}

/// So many sets with holes are few.
const MOST: usize = 64;

impl<const W: usize> Holes<W> {
    pub(crate) fn new(set_bits: u32, ways: u32) -> Self {
        let (all, sets, numbers) = (Times::default(), Vec::new(), 2 << set_bits);
        let (places, any, tops) = (vec![0; numbers], vec![0; numbers.div_ceil(64)], vec![0; numbers]);
        let words = vec![0; any.len()];
        Self {
            set_bits,
            ways: ways as usize,
            all,
            places,
            sets,
            any,
            tops,
            words,
            filled: 0,
            newest: 0,
            few: Vec::new(),
            since: 0,
            many: false,
            is_past: true,
        }
    }

    /// Whether an item of this time may have a hole above it; an item that is not there, of time 0.
    #[inline(always)]
    pub(crate) fn may_be_above(&self, last: Instant) -> bool {
        last < self.newest
    }

    /// The sets with holes that are newer than the last look asked for; `None`: they are many.
    pub(crate) fn few(&self) -> Option<&[Few]> {
        (!self.many).then_some(&self.few)
    }

    /// Finds out in which sets there are holes newer than that, if it is not known.
    pub(crate) fn look(&mut self, than: Instant) {
        // Newer ones may be few where there are many.
        if !self.is_past && than >= self.since && (!self.many || than == self.since) {
            return;
        }
        (self.is_past, self.since) = (false, than);
        self.few.clear();
        self.few.extend(self.all.newest().map(|newest| Few { bits: 0, set: 0, newest }));
        for (at, newest) in self.words.iter_mut().enumerate().filter(|(_, newest)| **newest > than) {
            let bits = (0..64).filter(|bit| self.any[at] >> bit & 1 != 0);
            let tops = bits.map(|bit| (64 * at + bit, self.tops[64 * at + bit]));
            *newest = tops.clone().map(|(_, top)| top).max().unwrap_or(0);
            self.few.extend(tops.map(|(number, newest)| {
                let bits = number.ilog2();
                Few { bits, set: (number - (1 << bits)) as u64, newest }
            }));
            self.few.retain(|few| few.newest > than);
            if self.few.len() > MOST {
                break;
            }
        }
        self.few.retain(|few| few.newest > than);
        self.many = self.few.len() > MOST;
        self.newest = self.words.iter().copied().chain(self.all.newest()).max().unwrap_or(0);
    }

    /// Whether a set has a hole above an item of this time.
    #[inline(always)]
    fn has_above(&self, set: u32, last: Instant) -> bool {
        self.has(set) && self.tops[set as usize] > last
    }

    fn has(&self, set: u32) -> bool {
        self.any[set as usize / 64] >> (set % 64) & 1 != 0
    }

    /// A line is referenced that was last referenced at `found`, or is not there. Each topmost hole above it goes; where there
    /// was one, another is left at its old place.
    pub(crate) fn reference(&mut self, line: u64, found: Option<Instant>) -> Above<W> {
        let last = found.unwrap_or(0);
        let mut above = (0, [0; W]);
        above.0 = self.all.newer(last) as u32;
        if above.0 > 0 {
            self.is_past = true;
            self.all.pop();
            found.into_iter().for_each(|last| self.all.insert(last));
        }
        for bits in 1..=self.set_bits {
            let set = number(bits, line);
            if !self.has_above(set, last) {
                continue;
            }
            let times = &mut self.sets[self.places[set as usize] as usize - 1];
            let newer = newer(times, last);
            above.1[bits as usize - 1] = newer.min(255) as u8;
            self.is_past = true;
            times.pop();
            if found.is_some() {
                times.insert(times.len() + 1 - newer, last);
            }
            self.tops[set as usize] = times.last().copied().unwrap_or(0);
            if times.is_empty() {
                self.filled -= 1;
                self.any[set as usize / 64] &= !(1 << (set % 64));
            }
        }
        if self.filled == 0 && self.all.len == 0 {
            self.newest = 0;
        }
        above
    }

    /// How many do at one set.
    pub(crate) fn above_all(&self, last: Instant) -> u32 {
        self.all.newer(last) as u32
    }

    /// Whether some do.
    pub(crate) fn are_above(&self, line: u64, last: Instant) -> bool {
        let by_set = || (1..=self.set_bits).any(|bits| self.has_above(number(bits, line), last));
        self.may_be_above(last) && (self.all.newest().is_some_and(|newest| newest > last) || by_set())
    }

    /// How many holes stand above an item.
    pub(crate) fn above(&self, line: u64, last: Instant) -> Above<W> {
        let mut above = (self.above_all(last), [0; W]);
        for bits in 1..=self.set_bits {
            let set = number(bits, line);
            if self.has_above(set, last) {
                let newer = newer(&self.sets[self.places[set as usize] as usize - 1], last);
                above.1[bits as usize - 1] = newer.min(255) as u8;
            }
        }
        above
    }

    /// A line is taken away: it becomes a hole at every set count.
    pub(crate) fn insert(&mut self, line: u64, last: Instant) {
        self.newest = self.newest.max(last);
        self.is_past = true;
        self.all.insert(last);
        for bits in 1..=self.set_bits {
            let set = number(bits, line);
            if !self.has(set) {
                self.filled += 1;
                self.any[set as usize / 64] |= 1 << (set % 64);
            }
            let place = &mut self.places[set as usize];
            if *place == 0 {
                self.sets.push(Vec::new());
                *place = self.sets.len() as u32;
            }
            let times = &mut self.sets[*place as usize - 1];
            times.insert(times.len() - newer(times, last), last);
            self.tops[set as usize] = self.tops[set as usize].max(last);
            self.words[set as usize / 64] = self.words[set as usize / 64].max(last);
            if times.len() > self.ways {
                times.remove(0);
            }
        }
    }
}

/// How many of ascending times are newer than `last`: mostly none or all, which takes no search.
fn newer(times: &[Instant], last: Instant) -> usize {
    match times {
        [.., newest] if *newest < last => 0,
        [oldest, ..] if *oldest < last => times.len() - times.partition_point(|&time| time < last),
        _ => times.len(),
    }
}

/// Times in order, in pieces that are short to move.
#[derive(Clone, Debug, Default)]
struct Times {
    /// Ascending; none is empty.
    pieces: Vec<Vec<Instant>>,
    len: usize,
}

impl Times {
    const PIECE: usize = 512;

    /// How many are newer than `last`.
    fn newer(&self, last: Instant) -> usize {
        if self.pieces.first().is_none_or(|oldest| oldest[0] > last) {
            return self.len;
        }
        let mut newer = 0;
        for piece in self.pieces.iter().rev() {
            if piece[0] < last {
                return newer + self::newer(piece, last);
            }
            newer += piece.len();
        }
        newer
    }

    fn newest(&self) -> Option<Instant> {
        self.pieces.last()?.last().copied()
    }

    fn pop(&mut self) {
        let Some(last) = self.pieces.last_mut() else { return };
        self.len -= last.pop().map_or(0, |_| 1);
        if last.is_empty() {
            self.pieces.pop();
        }
    }

    fn insert(&mut self, time: Instant) {
        self.len += 1;
        let at = match self.newest() {
            Some(newest) if newest < time => self.pieces.len() - 1,
            _ => self.pieces.partition_point(|piece| piece[0] < time).saturating_sub(1),
        };
        let Some(piece) = self.pieces.get_mut(at) else { return self.pieces.push(vec![time]) };
        piece.insert(piece.len() - newer(piece, time), time);
        if piece.len() > Self::PIECE {
            let rest = piece.split_off(Self::PIECE / 2);
            self.pieces.insert(at + 1, rest);
        }
    }
}

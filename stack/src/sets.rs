//! The older tier by set: for every set count and every set, when its newest lines came here.
//!
//! A stamp is the time at which a line entered the older tier. No identities are kept, because none are needed: times are
//! all different, so the number of lines above x is the number of stamps greater than x's own.
//!
//! Invariant: the stamps of a set are those of the newest lines of the older tier in that set, newest first, then zeros.
//! A set has room for `max_ways` lines, rounded up to whole cache lines of stamps. A line that falls off the end need not
//! be remembered: so many lines are newer than it as there is room for, and those of them that go back to the more
//! recent tiers are still newer than it and are counted there, until they come back here to where there is room for them
//! again. So its distance stays at "max_ways or more".
//!
//! Only every third set count is kept. A set of a smaller number of sets is a union of kept ones, so that its lines above x
//! are the sum of theirs, and that sum is seldom long: it can end as soon as it exceeds the room of a set, because then
//! every smaller number of sets has as many lines above x. So a line that was referenced long ago pays for the large
//! set counts only, where it is near the top, and one that was referenced lately for a few short sums.

use crate::Limits;
use crate::boxed;
use crate::older::{Move, Time};
use crate::simd::{self, Task, Vector};
use std::ops::Range;

/// Stamps in a cache line.
pub(crate) const PART: usize = 16;

/// Some stamps of a set, newest first; unused ones are 0.
pub(crate) type Part = [Time; PART];

/// One set count in so many is kept.
const EVERY: u32 = 3;
/// The least one that is kept has at most so many bits.
const LEAST: u32 = 7;
/// Set counts with more bits than this are fetched ahead, so many moves.
const CACHED: u32 = 9;
const AHEAD: usize = 6;
/// Of set counts with at most so many bits it costs less to look at all parts of a set than to find out that one would do.
const NEAR: u32 = 13;

/// All sets of all set counts.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Those that are kept, most sets first.
    kept: Vec<Kept>,
}

/// The sets of one set count.
#[derive(Debug)]
struct Kept {
    order: Order,
    /// The newest stamps of each set.
    front: Parts,
    /// The others, `parts` for each set.
    back: Parts,
    parts: usize,
    /// Whether there ever was anything in `back`.
    has_back: bool,
    /// By page of `front` and of `back`, if they have many: whether nothing was ever put there.
    fresh: [Vec<bool>; 2],
}

/// Parts of a page of the system.
const PAGE: usize = boxed::PAGE / size_of::<Part>();

/// In which order sets stand: those that make up one of a smaller number of sets are neighbours.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// 2^bits sets.
    bits: u32,
    /// Set counts with fewer bits, down to these, are sums.
    down_to: u32,
    /// The bits from `down_to` on, the highest last.
    reversed: [u8; 1 << (LEAST - 1)],
}

impl Order {
    fn new(bits: u32, down_to: u32) -> Self {
        let high = bits - down_to;
        let reversed = std::array::from_fn(|i| (i as u64).reverse_bits().checked_shr(64 - high).unwrap_or(0) as u8);
        Self { bits, down_to, reversed }
    }

    /// Where the line's set stands. `HEIGHT`: of its set counts those that are sums, if that is known.
    #[inline(always)]
    fn place<const HEIGHT: usize>(&self, line: u32) -> usize {
        let high = if HEIGHT == ANY { (self.bits - self.down_to) as usize } else { HEIGHT };
        let low = line & ((1 << self.down_to) - 1);
        let high_bits = (line >> self.down_to) as usize & ((1 << high) - 1);
        (low as usize) << high | usize::from(self.reversed[high_bits % self.reversed.len()])
    }
}

/// Parts on cache lines of their own.
#[derive(Debug)]
struct Parts {
    /// Zero pages of the system until they are used: most set counts have far more sets than a program touches.
    stamps: Vec<Time>,
    /// Where in `stamps` the first cache line begins.
    first: usize,
    len: usize,
}

impl Parts {
    fn new(len: usize) -> Self {
        // On pages of their own, too, where they have many.
        let line = if len > PAGE { PAGE * size_of::<Part>() } else { size_of::<Part>() };
        let stamps = vec![0; len * PART + line / size_of::<Time>()];
        let first = (line - stamps.as_ptr().addr() % line) % line / size_of::<Time>();
        Self { stamps, first, len }
    }

    #[inline(always)]
    fn all(&self) -> &[Part] {
        self.stamps[self.first..self.first + self.len * PART].as_chunks().0
    }

    #[inline(always)]
    fn all_mut(&mut self) -> &mut [Part] {
        self.stamps[self.first..self.first + self.len * PART].as_chunks_mut().0
    }
}

impl Parts {
    /// The copy lies elsewhere, so its cache lines may begin elsewhere. Pages that were never used are not looked at, where it is known
    /// which those are, and take no memory there either. The last set of a page may end on the next.
    fn copy(&self, fresh: &[bool]) -> Self {
        let mut copy = Self::new(self.len);
        let is_used = |page: usize| fresh.get(page.saturating_sub(1)..=page).is_none_or(|fresh| fresh.contains(&false));
        let pages = copy.all_mut().chunks_mut(PAGE).zip(self.all().chunks(PAGE)).enumerate();
        for (_, (to, from)) in
            pages.filter(|&(page, (_, from))| is_used(page) && from.iter().any(|part| *part != [0; PART]))
        {
            to.copy_from_slice(from);
        }
        copy
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        let Self { order, parts, has_back, ref fresh, .. } = *self;
        let (front, back) = (self.front.copy(&fresh[0]), self.back.copy(&fresh[1]));
        Self { order, front, back, parts, has_back, fresh: fresh.clone() }
    }
}

impl Sets {
    pub(crate) fn new(set_bits: u32, ways: u32) -> Self {
        let parts = (ways as usize).div_ceil(PART) - 1;
        let mut kept = Vec::new();
        let mut bits = set_bits;
        while bits > 0 {
            let next = if bits <= LEAST { 0 } else { bits - EVERY };
            let (front, back) = (Parts::new(1 << bits), Parts::new(parts << bits));
            let fresh =
                [&front, &back].map(|all| if bits > CACHED { vec![true; all.len.div_ceil(PAGE)] } else { Vec::new() });
            kept.push(Kept { order: Order::new(bits, next + 1), front, back, parts, has_back: false, fresh });
            bits = next;
        }
        Self { kept }
    }

    /// Carries moves out in their order, one set count after the other, and gives each the distances within this tier
    /// that its line had, cut off at 255.
    #[inline(always)]
    pub(crate) fn apply<V: Vector, const W: usize>(&mut self, moves: &mut [Move<W>]) {
        for kept in &mut self.kept {
            let height = (kept.order.bits - kept.order.down_to) as usize;
            match (kept.parts, height) {
                (3, 2) => V::run(Apply::<W, 3, 2> { kept, moves }),
                (3, 6) => V::run(Apply::<W, 3, 6> { kept, moves }),
                _ => V::run(Apply::<W, ANY, ANY> { kept, moves }),
            }
        }
    }

    /// How many lines are above one that came at `last`, for 2^1, 2^2, … sets, cut off at 255.
    #[inline(always)]
    pub(crate) fn depth<V: Vector, const W: usize>(&self, line: u64, last: Time) -> [u8; W] {
        let mut newer = [0; W];
        for kept in &self.kept {
            let height = (kept.order.bits - kept.order.down_to) as usize;
            let has_no_room = match (kept.parts, height) {
                (3, 2) => kept.depth::<V, W, 3, 2>(line, last, &mut newer),
                (3, 6) => kept.depth::<V, W, 3, 6>(line, last, &mut newer),
                _ => kept.depth::<V, W, ANY, ANY>(line, last, &mut newer),
            };
            if has_no_room {
                break;
            }
        }
        newer
    }

    /// Fetches what [`Self::depth`] will look at first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, line: u64) {
        for kept in self.kept.iter().filter(|kept| kept.order.bits > CACHED) {
            let (front, place) = (kept.front.all(), kept.order.place::<ANY>(line as u32));
            for near in 0..4 {
                simd::prefetch(&front[place ^ near]);
            }
        }
    }

    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        for kept in &mut self.kept {
            let parts = [&mut kept.front, &mut kept.back].into_iter().flat_map(Parts::all_mut);
            parts.filter(|part| **part != [0; PART]).for_each(|part| *part = [0; PART]);
        }
    }
}

/// As a number of parts or a height: not known to the compiler.
const ANY: usize = 99;

/// The sets of one set count, to look at.
#[derive(Clone, Copy)]
struct View<'a> {
    front: &'a [Part],
    back: &'a [Part],
    parts: usize,
}

impl View<'_> {
    /// How many stamps of a set are later than `last`, as far as is remembered.
    #[inline(always)]
    fn newer<V: Vector>(self, place: usize, last: Time) -> usize {
        let newer = V::newer(&self.front[place], last);
        if newer < PART {
            return newer;
        }
        let mut sum = newer;
        for part in &self.back[place * self.parts..(place + 1) * self.parts] {
            sum += V::newer(part, last);
        }
        sum
    }

    /// The same of several neighbouring sets together, which have few each as a rule.
    #[inline(always)]
    fn newer_in<V: Vector>(self, places: Range<usize>, last: Time) -> usize {
        if let Some(sum) = V::newer_in(&self.front[places.clone()], last) {
            return sum;
        }
        let mut sum = 0;
        for place in places {
            sum += self.newer::<V>(place, last);
        }
        sum
    }

    /// The same of the sets that make up one of 2^height of them together with those that a set is among.
    #[inline(always)]
    fn newer_beside<V: Vector>(self, place: usize, height: usize, last: Time) -> usize {
        let first = ((place >> (height - 1)) ^ 1) << (height - 1);
        match height {
            1 => self.newer::<V>(first, last),
            2 => self.newer::<V>(first, last) + self.newer::<V>(first + 1, last),
            _ => self.newer_in::<V>(first..first + (1 << (height - 1)), last),
        }
    }

    /// From the number of later stamps in the line's own set the numbers for all set counts that are sums over this one.
    /// Returns whether smaller set counts have no room for the line; then their numbers are here too.
    #[inline(always)]
    fn sums<V: Vector, const W: usize, const HEIGHT: usize>(
        self,
        order: &Order,
        place: usize,
        last: Time,
        own: usize,
        newer: &mut [u8; W],
    ) -> bool {
        let (bits, room, mut sum) = (order.bits as usize, (self.parts + 1) * PART, own);
        if note::<V, W>(newer, bits, sum, room) {
            return true;
        }
        if HEIGHT == 2 {
            // As below, step by step.
            sum += self.newer_beside::<V>(place, 1, last);
            if note::<V, W>(newer, bits - 1, sum, room) {
                return true;
            }
            sum += self.newer_beside::<V>(place, 2, last);
            return note::<V, W>(newer, bits - 2, sum, room);
        }
        let most = if HEIGHT == ANY { bits - order.down_to as usize } else { HEIGHT };
        for height in 1..=most {
            sum += self.newer_beside::<V>(place, height, last);
            if note::<V, W>(newer, bits - height, sum, room) {
                return true;
            }
        }
        false
    }
}

/// Notes how many lines are above one with 2^bits sets; whether that is more than a set has room for, and noted for all smaller
/// set counts too.
#[inline(always)]
fn note<V: Vector, const W: usize>(newer: &mut [u8; W], bits: usize, sum: usize, room: usize) -> bool {
    if sum >= room {
        V::raise(newer, &Greatest::UP_TO[bits]);
        return true;
    }
    newer[bits - 1] = sum.min(255) as u8;
    false
}

/// The greatest distances there are.
pub(crate) struct Greatest<const W: usize>;

impl<const W: usize> Greatest<W> {
    /// For so many set counts, from the least on.
    pub(crate) const UP_TO: &'static [[u8; W]; Limits::MOST_SET_BITS as usize + 1] = &{
        let mut all = [[0; W]; Limits::MOST_SET_BITS as usize + 1];
        let mut bits = 0;
        while bits < all.len() {
            let mut index = 0;
            while index < bits && index < W {
                all[bits][index] = 255;
                index += 1;
            }
            bits += 1;
        }
        all
    };
}

/// Carries moves out in the sets of one set count.
struct Apply<'a, const W: usize, const PARTS: usize, const HEIGHT: usize> {
    kept: &'a mut Kept,
    moves: &'a mut [Move<W>],
}

impl<const W: usize, const PARTS: usize, const HEIGHT: usize> Task for Apply<'_, W, PARTS, HEIGHT> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.kept.apply::<V, W, PARTS, HEIGHT>(self.moves);
    }
}

impl Kept {
    /// The same for the set counts that are kept here; what [`View::sums`] returns.
    #[inline(always)]
    fn depth<V: Vector, const W: usize, const PARTS: usize, const HEIGHT: usize>(
        &self,
        line: u64,
        last: Time,
        newer: &mut [u8; W],
    ) -> bool {
        let parts = if PARTS == ANY { self.parts } else { PARTS };
        let sets = View { front: self.front.all(), back: self.back.all(), parts };
        let place = self.order.place::<HEIGHT>(line as u32);
        sets.sums::<V, W, HEIGHT>(&self.order, place, last, sets.newer::<V>(place, last), newer)
    }

    #[inline(always)]
    fn apply<V: Vector, const W: usize, const PARTS: usize, const HEIGHT: usize>(&mut self, moves: &mut [Move<W>]) {
        let parts = if PARTS == ANY { self.parts } else { PARTS };
        let (order, mut has_back) = (self.order, self.has_back);
        let (front, back) = (self.front.all_mut(), self.back.all_mut());
        for at in 0..moves.len() {
            if order.bits > CACHED
                && let Some(next) = moves.get(at + AHEAD)
            {
                let down = order.place::<HEIGHT>(next.down);
                simd::prefetch(&front[down]);
                if has_back {
                    simd::prefetch(&back[down * parts]);
                }
                if next.last != 0 {
                    let up = order.place::<HEIGHT>(next.up);
                    prefetch(front, up);
                    if has_back {
                        simd::prefetch(&back[up * parts]);
                    }
                }
            }
            let step = &mut moves[at];
            if step.last != 0 {
                let place = order.place::<HEIGHT>(step.up);
                let behind = &mut back[place * parts..(place + 1) * parts];
                let own = match behind.as_mut_array() {
                    _ if !step.is_single => View { front, back, parts }.newer::<V>(place, step.last),
                    Some(behind) if has_back && order.bits <= NEAR => V::take(&mut front[place], behind, step.last),
                    _ => take::<V>(&mut front[place], behind, step.last),
                };
                let sets = View { front, back, parts };
                if sets.sums::<V, W, HEIGHT>(&order, place, step.last, own, &mut step.newer) {
                    step.last = 0;
                }
            }
            if step.now != 0 {
                let place = order.place::<HEIGHT>(step.down);
                if let Some(fresh @ true) = self.fresh[0].get_mut(place / PAGE) {
                    *fresh = false;
                    boxed::begin(&mut front[place], [0; PART]);
                }
                if front[place][PART - 1] != 0
                    && let Some(fresh @ true) = self.fresh[1].get_mut(place * parts / PAGE)
                {
                    *fresh = false;
                    boxed::begin(&mut back[place * parts], [0; PART]);
                }
                has_back |= put::<V>(&mut front[place], &mut back[place * parts..(place + 1) * parts], step.now);
            }
        }
        self.has_back = has_back;
    }
}

/// Neighbouring sets that make up one of the least set count that is a sum, where there are two of those.
const NEIGHBOURS: usize = 4;

/// Fetches a set and those that make up one of a smaller number of sets with it.
#[inline(always)]
fn prefetch(front: &[Part], place: usize) {
    if let Some(neighbours) = front.as_chunks::<NEIGHBOURS>().0.get(place / NEIGHBOURS) {
        neighbours.iter().for_each(simd::prefetch);
    }
}

/// Takes the stamp `last` out of a set if it is there; returns how many are later.
#[inline(always)]
pub(crate) fn take<V: Vector>(front: &mut Part, back: &mut [Part], last: Time) -> usize {
    let newer = V::newer(front, last);
    if newer < PART {
        let next = if front[PART - 1] == 0 { 0 } else { back.first().map_or(0, |next| next[0]) };
        V::remove(front, last, next);
        if next != 0 {
            take_first::<V>(back);
        }
        return newer;
    }
    if back.last().is_none_or(|part| part[PART - 1] > last) {
        return (back.len() + 1) * PART;
    }
    let mut sum = PART;
    for at in 0..back.len() {
        let newer = V::newer(&back[at], last);
        sum += newer;
        if newer < PART {
            let next = if back[at][PART - 1] == 0 { 0 } else { back.get(at + 1).map_or(0, |next| next[0]) };
            V::remove(&mut back[at], last, next);
            if next != 0 {
                take_first::<V>(&mut back[at + 1..]);
            }
            break;
        }
    }
    sum
}

/// Takes the first stamp out.
#[inline(always)]
fn take_first<V: Vector>(parts: &mut [Part]) {
    for at in 0..parts.len() {
        let next = if parts[at][PART - 1] == 0 { 0 } else { parts.get(at + 1).map_or(0, |next| next[0]) };
        V::remove(&mut parts[at], Time::MAX, next);
        if next == 0 {
            return;
        }
    }
}

/// Puts a stamp on top of a set; returns whether another went to the back for it.
#[inline(always)]
fn put<V: Vector>(front: &mut Part, back: &mut [Part], now: Time) -> bool {
    let mut top = front[PART - 1];
    let overflows = top != 0 && !back.is_empty();
    V::insert(front, now);
    for part in back {
        if top == 0 {
            break;
        }
        let overflow = part[PART - 1];
        V::insert(part, top);
        top = overflow;
    }
    overflows
}

//! *Anchors*: places in what a thread records that depend on the few words from there on only. Where several of them were met so
//! many words ago, that may be how long a round is.

use crate::sample::mix;

/// What decides about when rounds are sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// One word in so many is an anchor, about, where each stands for one access: a power of two. More are where words stand
    /// for more.
    pub one_in: u32,
    /// Anchors that have to agree.
    pub anchors: u32,
    /// Accesses of a round that is long. Several shorter ones are taken together until they have a part of that.
    pub long: u64,
    /// Words of the longest.
    pub longest: usize,
    /// Where a word stands for so many accesses, on average, what comes is kept before there is a guess, up to half of the
    /// longest round.
    pub dense: u64,
    /// A round of one thread among several that has so many words takes as long whenever it comes, if it is far longer than batches.
    pub steady: u64,
    /// Lines that the stacks may know, at most, which are kept where a round begins.
    pub kept_lines: usize,
}

impl Default for Seek {
    fn default() -> Self {
        Self {
            one_in: 128,
            anchors: 8,
            long: 1 << 19,
            longest: 1 << 24,
            dense: 2,
            steady: 1 << 16,
            kept_lines: 1 << 21,
        }
    }
}

/// Words that decide what an anchor is where rounds are sought; and where one is looked for, which may begin near the end of a batch.
const CONTEXT: usize = 8;
pub(crate) const SHORT: usize = 2;
/// One word in so many may be an anchor by the first two of these.
pub(crate) const FEW: u64 = 64;
/// After so many times its length, in powers of two, a wrong guess may be made again, doubled each time up to so often.
const WAIT: u32 = 6;
const MOST_WAIT: u32 = 8;
/// Anchors agree for such a part of a round.
const SHARE: u64 = 32;
/// Words that are looked at together.
const PIECE: usize = 16;
/// Of the words of so many batches, or of so many words, it is known how many accesses there were meanwhile: which thread came first
/// does not matter.
const BATCHES: u64 = 6;
const SOME: u64 = 160;
/// Words of which one is an anchor, at least; unless they stand for so much that all of them may be, so that a round of very few
/// words has some wherever the program's data lie.
const FEWEST: u32 = 4;
/// Words of a block; and accesses that a word stands for where all blocks are looked at.
const BLOCK: u64 = 64;
const DENSE: u64 = 8;
/// So often may come in a round what tells how long it is.
const TIMES: usize = 4;
/// Anchors that are remembered, of all and of one in so many: those reach further back.
const MEMORY: usize = 1 << 15;
const FAR: u64 = 64;

/// Looks for what comes again in the records of one slot.
#[derive(Debug, Default)]
pub(crate) struct Seeker {
    pub(crate) seek: Seek,
    /// Words that came, and the last of them.
    pub(crate) at: u64,
    last: Vec<u64>,
    /// Words of the longest batch.
    longest: u64,
    /// All anchors, and some that are far apart.
    near: Anchors,
    far: Anchors,
    /// Guesses that were wrong, the last ones, and from where on they may be made again.
    wrong: [Wrong; 16],
}

/// Where anchors were met, and what they say how long a round is.
#[derive(Debug, Default)]
struct Anchors {
    /// By some bits of what it is; those from so many words on count.
    last: Vec<Anchor>,
    from: u64,
    lengths: [Length; 16],
}

/// Where something was met.
#[derive(Clone, Copy, Debug, Default)]
struct Anchor {
    /// What depends on its context.
    what: u64,
    /// The last times, the last one first; or the first one again.
    met: [Moment; TIMES],
}

/// After so many words, and about so many accesses, both modulo 2^32.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    at: u32,
    accesses: u32,
}

/// What a round may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Length {
    pub(crate) words: u64,
    pub(crate) accesses: u64,
    /// How many more anchors say so than there were for others: not 0 for one that more than one in 17 speak for.
    votes: u32,
    /// From where on, and after how many accesses.
    since: u64,
    since_accesses: u64,
}

/// A guess that was wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Wrong {
    length: u64,
    /// How often.
    times: u32,
    until: u64,
}

impl Seeker {
    pub(crate) fn new(seek: Seek) -> Self {
        Self { seek, ..Self::default() }
    }

    /// In the words of a batch that stands for so many accesses, after so many before it. To be counted in [`Self::at`].
    pub(crate) fn look(&mut self, words: &[u64], accesses: u64, accesses_before: u64) {
        self.longest = self.longest.max(words.len() as u64);
        // What a word stands for.
        let each = (accesses / words.len() as u64).max(1);
        let one_in = |one_in: u32| one_in.checked_shr(each.ilog2()).unwrap_or(0);
        let fewest = one_in(FEWEST * self.seek.one_in).clamp(1, FEWEST);
        let mask = u64::from(one_in(self.seek.one_in).max(fewest) - 1);
        let (begin, far) = (self.at, FAR * u64::from(FEWEST / fewest));
        // Where there are many words for few accesses one block in four is looked at, by chance: one anchor in 16 is met twice,
        // however many words later.
        let looked_at = |at: usize| each >= DENSE || mix((begin + at as u64) / BLOCK) >> 62 == 0;
        // Those that began in the batch before; it may have been short.
        let mut edge = std::mem::take(&mut self.last);
        let before = edge.len();
        edge.extend(words.iter().take(CONTEXT - 1));
        for_each_anchor(
            &edge,
            mask,
            CONTEXT,
            |_| true,
            |at, what| {
                self.meet(what, begin + at as u64 - before as u64, accesses_before, far);
            },
        );
        for_each_anchor(words, mask, CONTEXT, looked_at, |at, what| {
            self.meet(what, begin + at as u64, accesses_before + at as u64 * each, far);
        });
        let all = if words.len() < CONTEXT { &edge } else { words };
        self.last = all[all.len().saturating_sub(CONTEXT - 1)..].to_vec();
    }

    #[cold]
    fn meet(&mut self, what: u64, at: u64, accesses: u64, far: u64) {
        let wrong = |length| self.wrong.iter().any(|wrong| wrong.length == length && at < wrong.until);
        self.near.meet(what, (at, accesses), wrong);
        if what >> 16 & (far - 1) == 0 {
            self.far.meet(what, (at, accesses), wrong);
        }
    }

    /// What seems to be a round: the shortest, with its accesses.
    pub(crate) fn sure(&self) -> Option<Length> {
        let Seek { anchors, long, .. } = self.seek;
        let sure = |one: &&Length| one.votes >= anchors && self.at - one.since >= one.at_least(long) / SHARE;
        let of = |anchors: &Anchors| anchors.lengths.iter().filter(sure).max_by_key(|one| one.votes).copied();
        of(&self.near).or_else(|| of(&self.far))
    }

    /// Accesses of all slots from one such round to the next, of which there were so many by now. In the middle from where it was first
    /// seen, or at once if it is long; `None` if that is not known yet: where it matters where batches begin.
    pub(crate) fn meanwhile(&self, one: &Length, now: u64) -> Option<u64> {
        let (words, accesses) = (self.at.saturating_sub(one.since), now.saturating_sub(one.since_accesses));
        let some = BATCHES * self.longest;
        if words >= one.words.max(some).max(SOME) {
            return Some((u128::from(accesses) * u128::from(one.words) / u128::from(words)) as u64);
        }
        (one.words >= self.seek.steady.max(some)).then_some(one.accesses)
    }

    /// Whether twice as many words came since something was met again so many words later.
    pub(crate) fn came_again(&self, one: &Length) -> bool {
        self.at - one.since >= 2 * one.words
    }

    /// A round of so many words was a wrong guess, or cannot be followed up.
    pub(crate) fn give_up(&mut self, length: u64) {
        let place = self.wrong.iter().position(|wrong| wrong.length == length).unwrap_or(self.wrong.len() - 1);
        // The one that was wrong last comes first.
        self.wrong[..=place].rotate_right(1);
        let times = if self.wrong[0].length == length { self.wrong[0].times + 1 } else { 0 };
        self.wrong[0] = Wrong { length, times, until: self.at + (length << (WAIT + times.min(MOST_WAIT))) };
        let lengths = self.near.lengths.iter_mut().chain(&mut self.far.lengths);
        lengths.filter(|other| other.words == length).for_each(|other| other.votes = 0);
    }

    /// Begins anew: words came that were not looked at.
    pub(crate) fn forget(&mut self) {
        (self.last, self.longest) = Default::default();
        for anchors in [&mut self.near, &mut self.far] {
            (anchors.from, anchors.lengths) = (self.at, Default::default());
        }
    }
}

impl Length {
    /// Words of so many rounds that they have that many accesses.
    pub(crate) fn at_least(&self, accesses: u64) -> u64 {
        self.words.saturating_mul(accesses.div_ceil(self.accesses.max(1)).max(1))
    }
}

impl Anchors {
    /// Where it was met before, that says how long a round may be, unless that is `wrong`. What comes several times in a round, as what
    /// a multigrid cycle does on its way down and up again, says so by where it was met before that.
    fn meet(&mut self, what: u64, (at, accesses): (u64, u64), wrong: impl Fn(u64) -> bool) {
        self.last.resize(MEMORY, Anchor::default());
        let last = &mut self.last[(what >> 32) as usize % MEMORY];
        let now = Moment { at: at as u32, accesses: accesses as u32 };
        let since = |then: Moment| (now.at.wrapping_sub(then.at), now.accesses.wrapping_sub(then.accesses));
        let once = since(last.met[0]).0;
        if last.what != what || u64::from(once) > at - self.from {
            *last = Anchor { what, met: [now; TIMES] };
            return;
        }
        let met = last.met;
        last.met.rotate_right(1);
        last.met[0] = now;
        let mut before = 0;
        for (times, (words, accesses_since)) in (1..).zip(met.map(since)) {
            if words == before {
                return;
            }
            before = words;
            // Where it always comes as many words later nothing else is said.
            if times == 1 || u64::from(words) != times * u64::from(once) {
                self.vote((words.into(), accesses_since.into()), (at, accesses), &wrong);
            }
        }
    }

    /// So many words may be one, with so many accesses; what says so was met now.
    fn vote(&mut self, (words, accesses): (u64, u64), now: (u64, u64), wrong: impl Fn(u64) -> bool) {
        if let Some(known) = self.lengths.iter_mut().find(|known| known.words == words && known.votes > 0) {
            known.votes += 1;
        } else if wrong(words) {
            // Those that were given up have no votes.
        } else if let Some(free) = self.lengths.iter_mut().find(|free| free.votes == 0) {
            *free = Length { words, accesses, votes: 1, since: now.0, since_accesses: now.1 };
        } else {
            self.lengths.iter_mut().for_each(|other| other.votes -= 1);
        }
    }
}

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Gives the anchors in words, about one in `mask + 1`, to `take`: where, and what, which depends on so many words, 2 or more,
/// that are there. Where `looked_at` does not say so of the first word of a piece there are none.
#[inline(always)]
pub(crate) fn for_each_anchor(
    words: &[u64],
    mask: u64,
    context: usize,
    looked_at: impl Fn(usize) -> bool,
    mut take: impl FnMut(usize, u64),
) {
    let few = mask.min(FEW - 1);
    for at in (0..words.len().saturating_sub(1)).step_by(PIECE) {
        let piece = &words[at..];
        if !looked_at(at) || piece.first_chunk().is_some_and(|words| !some_may_be(words, few as u32)) {
            continue;
        }
        let first_two = piece.windows(2).take(PIECE).enumerate();
        for (index, _) in first_two.filter(|(_, two)| may_be(two[0], two[1], few as u32)) {
            let Some(context) = piece.get(index..index + context) else { break };
            let what = context.iter().fold(0, |sum: u64, &word| (sum ^ word).wrapping_mul(MIX).rotate_left(29));
            if what & (mask / (few + 1)) == 0 {
                take(at + index, what);
            }
        }
    }
}

/// Whether there may be an anchor at a word, by that and the next.
#[inline(always)]
fn may_be(word: u64, next: u64, mask: u32) -> bool {
    let (word, next) = ((word ^ word >> 32) as u32, (next ^ next >> 32) as u32);
    let sum = word ^ next.rotate_left(11);
    (sum ^ sum >> 7 ^ sum >> 17) & mask == 0
}

/// Whether there is one where there may be one. Without a branch for each word, so that it is done in vectors.
fn some_may_be(words: &[u64; PIECE + 1], mask: u32) -> bool {
    let mut some = false;
    for index in 0..PIECE {
        some |= may_be(words[index], words[index + 1], mask);
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What seems to be a round after each of so many batches, one after the other again and again, each of so many accesses.
    fn sought(batches: &[Vec<u64>], times: usize, accesses: u64) -> Vec<Option<u64>> {
        let (mut seeker, mut clock) = (Seeker::new(Seek::default()), 0);
        let mut look = |batch: &Vec<u64>| {
            seeker.look(batch, accesses, clock);
            seeker.at += batch.len() as u64;
            clock += accesses;
            seeker.sure().map(|one| one.words)
        };
        (0..times).flat_map(|_| batches).map(&mut look).collect()
    }

    #[test]
    fn a_round_of_few_words_is_found_wherever_its_data_lie() {
        for place in 0..300 {
            let stream = vec![17, 2000, 0x7f12_3456_7000 + place * 0x1010, 72];
            assert_eq!(sought(&[stream], 40, 8000).last(), Some(&Some(4)), "{place}");
        }
    }

    /// A long loop comes in parts, each a batch, which end alike.
    #[test]
    fn parts_of_a_round_are_none() {
        for place in 0..100 {
            let part =
                |part: u64| vec![16, 1999, 0x7f12_0000_0000 + (7 * place + part) * 144 * 1999, 144, 0x7ffc_0000, 0];
            let found = sought(&(0..7).map(part).collect::<Vec<_>>(), 20, 65_000);
            assert!(found.iter().flatten().all(|&words| words == 42), "{found:?}");
            assert_eq!(found.last(), Some(&Some(42)));
        }
    }

    /// Words that depend on a number.
    fn some(number: u64, words: u64) -> Vec<u64> {
        (0..words).map(|word| mix(number << 32 | word)).collect()
    }

    #[test]
    fn what_comes_several_times_in_a_round_tells_its_length() {
        // Down and up again, each level twice; and some sweeps, then something else.
        for order in [&[0, 1, 2, 2, 1, 0][..], &[0, 0, 0, 1]] {
            let parts: Vec<_> = order.iter().map(|&level| some(level, 800 >> level)).collect();
            let words = parts.iter().map(Vec::len).sum::<usize>() as u64;
            assert_eq!(sought(&parts, 6, 2000).last(), Some(&Some(words)), "{order:?}");
        }
    }

    /// Where not all is looked at it does not matter how long a round is.
    #[test]
    fn rounds_of_any_length_are_found() {
        for words in (20_000..40_000).step_by(1111) {
            assert_eq!(sought(&[some(1, words)], 20, words).last(), Some(&Some(words)));
        }
    }
}

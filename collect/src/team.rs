//! Rounds of several threads: what each of them does again and again, a step in time that they do together.
//!
//! Each thread's records repeat; how those of different threads follow each other differs from round to round, by chance. What
//! is free there, as far as the program is concerned, is taken as it was in one round: that is recorded, with the order in which
//! its pieces came. What comes then is only compared, thread by thread. Whenever all threads have done a whole round it is
//! analysed in that order, until it was three times: when it was recorded counts, if nothing else came between. From the second of those
//! on each reference finds the lines that the round uses where it will always find them, and what lies below them has settled after
//! that: so the third counts for all that follow.
//!
//! That is so because the top of a private stack, what was referenced or taken away since the round began, does not depend on
//! what is below: a reference removes the newest hole, and one that finds its line deeper puts the hole there. Lines that only
//! others use in the round sink by the holes that are missing above them, all of them in the second round.
//!
//! A program that does something else at times, prints a line after every tenth round, say, does that again and again, too: where
//! rounds end so many words after each other, that is how long a longer one may be. To analyse that so often may cost more than to
//! begin anew each time, so it is tried once that has cost as much, or where shorter ones are never counted again.
//!
//! Threads are not at the same place of their rounds when one begins to be recorded. So all is recorded and analysed as it comes
//! until each has done a round, and of those that did more the last one is kept: a round ends at one time for all of them, and
//! what came before that is never put behind what came after. Their rounds must be as long as each other, or they drift apart:
//! who did far more than a round by then shows that they may not be, and then a second one is recorded to see. Where a word stands
//! for several accesses what came last is kept, so that the round may have been recorded before it was guessed.
//!
//! No thread gets far ahead: if one has done two rounds more than another, or what it did differs, all that was only compared is
//! analysed after all, in the same order, or as it came if not all have done a round, before what comes then.

use crate::Batch;
use crate::anchors::{Length, Seek, Seeker};
use crate::batch::Place;
use crate::rounds::{Along, Like, Past, Round};
use bf_stack::Bucket;

/// So often a round is analysed in the order that was recorded; the last time counts again.
const ANALYSED: u64 = 3;
/// The shortest round has so many times fewer accesses than a long one: what it takes to find it again counts.
const SHORTER: u64 = 8;
/// Rounds that are recorded, at most, where one does not tell whether those of different threads are of one length.
const MOST_RECORDED: usize = 2;
/// How far ahead of the others a thread may be: rounds, and words where those are shorter than its batches.
const AHEAD: u64 = 2;
const WORDS_AHEAD: u64 = 1 << 14;
/// After so many times its accesses, in powers of two, a guess is made again where one was wrong, doubled each time up to so
/// often.
const WAIT: u32 = 2;
const MOST_WAIT: u32 = 8;
/// So many may be wrong before that.
const PATIENCE: u32 = 4;
/// Places, at most, where a program that repeats itself does something else.
const PLACES: usize = 4;
/// Threads that recorded nothing for so many rounds have no part in them.
const IDLE: u64 = 4;
/// A round of one thread may be so much shorter than one of another; and differs from it by such a part if they do the same.
const MOST_TIMES: u64 = 64;
const ALIKE: u64 = 8;

/// The records of all slots.
#[derive(Debug, Default)]
pub(crate) struct Team {
    seek: Seek,
    members: Vec<Member>,
    /// Accesses of all of them.
    clock: u64,
    /// When the next guess may be made, and how many were wrong, one after the other.
    until: u64,
    wrong: u32,
    /// Accesses of a round.
    accesses: u64,
    /// By slot, words of the round that is sought next.
    next: Vec<usize>,
    /// Where something else came, of late, and whether that is why a round ends; and whether that came before the thread had done
    /// a second one, so that it may be of another length.
    breaks: Vec<Broken>,
    is_broken: bool,
    is_doubtful: bool,
    /// Words that were analysed since the first of those, and whether rounds were counted again before the last.
    spent: u64,
    pays: bool,
    state: State,
    past: Past,
    /// Of the recorded round: so many words of a slot, in order. And of what came since, until all have done a round.
    pieces: Vec<(u32, usize)>,
    came: Vec<(u32, usize)>,
    /// How many of each are recorded, if not one.
    rounds: usize,
    /// How often it was analysed before, in its order: when it was recorded, or not; how often since, and whether it is known what the
    /// last of those counted.
    before: u64,
    analysed: u64,
    counts: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No guess.
    #[default]
    Seeking,
    /// A round is being recorded.
    Recording,
    /// It came whole.
    Comparing,
}

/// One slot.
#[derive(Debug, Default)]
struct Member {
    seeker: Seeker,
    /// When it recorded something last.
    seen: u64,
    /// What it did in the recorded round, and the words that this will have; 0: it has no part in it.
    round: Round,
    length: usize,
    /// Words of its longest batch there.
    longest: usize,
    /// So many seemed to be a round, and were not; and what its seeker took for one.
    failed: usize,
    guessed: u64,
    /// Since then so many words came that are the same, up to this place of it.
    same: u64,
    at: Place,
}

/// Something else came: from a slot, and how many words each had recorded by then.
#[derive(Debug)]
struct Broken {
    slot: usize,
    at: Vec<u64>,
}

/// What is to be done with a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To analyse it.
    Analyse,
    /// Nothing yet.
    Keep,
    /// To analyse what is left ([`Team::end`]), then the batch.
    Break,
}

/// What there was besides what was analysed.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// So many whole rounds like the last that was analysed.
    pub(crate) times: u64,
    /// What of the others came after them: of each slot so many words, round after round.
    members: Vec<(Round, u64)>,
    pieces: Vec<(u32, usize)>,
}

impl Member {
    /// What its seeker took for a round is none.
    fn give_up(&mut self) {
        if self.guessed > 0 {
            self.seeker.give_up(self.guessed);
        }
    }
}

impl Left {
    /// Whether there was nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.times == 0 && self.members.iter().all(|member| member.1 == 0)
    }

    /// Gives what came after them to `take`, in order, by slot.
    pub(crate) fn for_each_batch(&self, take: impl FnMut(u32, &Batch, Bucket)) {
        let members: Vec<_> = self.members.iter().map(|(round, words)| (round, *words)).collect();
        for_each_batch(&self.pieces, members, take);
    }
}

impl Team {
    pub(crate) fn new(seek: Seek) -> Self {
        Self { seek, ..Self::default() }
    }

    /// Takes note of the next batch of a slot. Where `full` there is no room to record anything.
    pub(crate) fn next(&mut self, slot: u32, batch: &Batch, bucket: Bucket, full: bool) -> Next {
        let (slot, words) = (slot as usize, batch.words());
        if words.is_empty() {
            return Next::Analyse;
        }
        while self.members.len() <= slot {
            self.members.push(Member { seeker: Seeker::new(self.seek), ..Member::default() });
        }
        if self.state == State::Seeking {
            if full {
                self.past = Past::default();
                return Next::Analyse;
            }
            self.seek(slot, batch);
            self.past.keep(slot, batch, bucket, self.seek);
            self.guess(slot);
            return Next::Analyse;
        }
        self.clock += batch.accesses();
        if full || batch.is_owed() {
            return Next::Break;
        }
        let done = self.done();
        let member = &mut self.members[slot];
        member.seeker.at += words.len() as u64;
        let same = member.same + words.len() as u64;
        let most = (done.max(self.rounds as u64) + AHEAD) * member.length as u64 + WORDS_AHEAD;
        if member.length == 0 || same > most || member.round.words() as u64 > most {
            return Next::Break;
        }
        if self.state == State::Recording {
            member.round.record(batch, batch.end(), bucket);
            member.longest = member.longest.max(words.len());
            add(&mut self.pieces, slot, words.len());
            let recorded: usize = self.members.iter().map(|member| member.round.words()).sum();
            return if recorded <= self.seek.longest && self.is_recorded() { Next::Analyse } else { Next::Break };
        }
        let Along { same: same_words, like, .. } = member.round.along(member.at, batch, Place::START, bucket, None);
        let Some(Like { at, .. }) = like else {
            self.broken(slot, (words.len() - same_words) as u64);
            return Next::Break;
        };
        (member.at, member.same) = (at, same);
        if done == 0 {
            add(&mut self.came, slot, words.len());
        }
        Next::Keep
    }

    /// Ends recording where all have done a round. Of those that did more by then the last one counts, so that it ends at one time
    /// for all. If that is much more, what was taken for a round of one may be a part of one: that shows in the second one.
    /// `false`: it did.
    fn is_recorded(&mut self) -> bool {
        let rounds = self.rounds.max(1);
        if self.members.iter().any(|member| member.round.words() < rounds * member.length) {
            return true;
        }
        let more = |member: &Member| member.round.words() - rounds * member.length;
        let is_far = |member: &Member| more(member) > member.longest.max(rounds * member.length / 2);
        if self.members.iter().any(is_far) {
            self.rounds = rounds + 1;
            if self.rounds > MOST_RECORDED {
                self.members.iter_mut().filter(|member| is_far(member)).for_each(Member::give_up);
            }
            return self.rounds <= MOST_RECORDED;
        }
        self.state = State::Comparing;
        let more = |member: &Member| member.round.words() - member.length;
        let mut more: Vec<_> = self.members.iter().map(more).collect();
        let (mut began, mut is_whole) = (false, true);
        for (slot, words) in &mut self.pieces {
            let gone = more[*slot as usize].min(*words);
            more[*slot as usize] -= gone;
            *words -= gone;
            is_whole &= gone == 0 || !began;
            began |= *words > 0;
        }
        self.before = is_whole.into();
        self.pieces.retain(|piece| piece.1 > 0);
        let mut all = true;
        for member in &mut self.members {
            member.round.keep_last(member.length);
            // Where it would begin within a record it is none.
            if member.round.words() != member.length {
                member.give_up();
                all = false;
            }
        }
        all
    }

    /// A slot has just done something else, for so many words. Where that comes again and again, what is between is a round, too.
    fn broken(&mut self, slot: usize, words: u64) {
        let mut at: Vec<_> = self.members.iter().map(|member| member.seeker.at).collect();
        at[slot] -= words;
        self.is_broken = true;
        self.is_doubtful = self.members[slot].same < self.members[slot].length as u64;
        if self.is_doubtful {
            self.members[slot].give_up();
        }
        if self.breaks.is_empty() {
            self.spent = 0;
        }
        self.breaks.push(Broken { slot, at });
        if self.breaks.len() > 2 * PLACES + 1 {
            self.breaks.remove(0);
        }
        let last = self.breaks.len() - 1;
        for places in (1..=PLACES).take_while(|places| 2 * places <= last) {
            let [now, once, twice] = [0, places, 2 * places].map(|back| &self.breaks[last - back]);
            let words =
                |from: &Broken, to: &Broken, of: usize| to.at[of] - from.at.get(of).copied().unwrap_or_default();
            let length = words(once, now, slot);
            if [once, twice].iter().any(|other| other.slot != slot) || words(twice, once, slot) != length {
                continue;
            }
            // Of the others as many rounds as they had, unless that is as near to one less or more.
            let of = |(each, member): (usize, &Member)| {
                let (length, words) = (member.length as u64, words(twice, now, each));
                match (words + length).checked_div(2 * length) {
                    _ if each == slot => Some(words as usize / 2),
                    None => Some(0),
                    Some(rounds) if (2 * rounds * length).abs_diff(words) > length / 2 => None,
                    Some(rounds) => Some((rounds * length) as usize),
                }
            };
            let lengths: Option<Vec<_>> = self.members.iter().enumerate().map(of).collect();
            let Some(lengths) = lengths else { return };
            let words = lengths.iter().sum::<usize>();
            if words <= self.seek.longest
                && (!self.pays && self.counted() == 0 || self.spent >= (ANALYSED + 1) * words as u64)
            {
                self.next = lengths;
                self.breaks.clear();
            }
            return;
        }
    }

    /// Rounds that all of them have done since one was recorded.
    fn done(&self) -> u64 {
        let rounds = |member: &Member| member.same.checked_div(member.length as u64);
        let least = self.members.iter().filter_map(rounds).min();
        least.filter(|_| self.state == State::Comparing).unwrap_or_default()
    }

    /// Rounds of all of them that are only counted again.
    fn counted(&self) -> u64 {
        if self.counts { self.done() - self.analysed } else { 0 }
    }

    /// Whether a round is to be analysed now ([`Team::for_each_batch`]); whether that is the last one.
    pub(crate) fn is_due(&self) -> Option<bool> {
        let needed = ANALYSED - self.before;
        (self.analysed < self.done().min(needed)).then_some(self.analysed + 1 == needed)
    }

    /// One was; whether what it counted counts again for all that follow.
    pub(crate) fn analysed(&mut self, counts: bool) {
        self.analysed += 1;
        self.counts = counts;
    }

    /// Gives the recorded round to `take`, in order, by slot.
    pub(crate) fn for_each_batch(&self, take: impl FnMut(u32, &Batch, Bucket)) {
        let whole = |member: &'_ Member| member.length as u64;
        let members = self.members.iter().map(|member| (&member.round, whole(member))).collect();
        for_each_batch(&self.pieces, members, take);
    }

    /// Goes back to seeking; what there was besides what was analysed.
    pub(crate) fn end(&mut self) -> Left {
        if self.state == State::Seeking {
            return Left::default();
        }
        let analysed = self.analysed;
        let times = self.counted();
        self.pays = times > 0;
        // It may have been no round of theirs: then what came did so in no other order than it did.
        let (pieces, came) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.came));
        let pieces = if self.done() == 0 { came } else { pieces };
        self.state = State::Seeking;
        self.wrong = if times > 0 { 0 } else { self.wrong + 1 };
        let is_broken = std::mem::take(&mut self.is_broken);
        if is_broken && self.wrong <= PATIENCE {
            // It may go on in a moment.
            if self.next.is_empty() && !self.is_doubtful {
                self.next = self.members.iter().map(|member| member.length).collect();
            }
            self.until = self.clock + self.accesses / 2;
        } else if self.wrong > 0 {
            let often = self.wrong - if is_broken { PATIENCE } else { 1 };
            self.until = self.clock + (self.accesses << (WAIT + often.min(MOST_WAIT)));
        }
        let left = |member: &mut Member| {
            member.seeker.forget();
            member.failed = if times == 0 { member.length } else { 0 };
            let length = std::mem::take(&mut member.length) as u64;
            self.spent += member.round.words() as u64 + member.same - times * length;
            (std::mem::take(&mut member.round), std::mem::take(&mut member.same) - (analysed + times) * length)
        };
        let members = self.members.iter_mut().map(left).collect();
        (self.before, self.analysed, self.counts, self.rounds) = (0, 0, false, 0);
        Left { times, members, pieces }
    }

    /// Looks for anchors in a batch of a slot.
    fn seek(&mut self, slot: usize, batch: &Batch) {
        let member = &mut self.members[slot];
        member.seeker.look(batch.words(), batch.accesses(), self.clock);
        member.seeker.at += batch.words().len() as u64;
        self.spent += batch.words().len() as u64;
        self.clock += batch.accesses();
        member.seen = self.clock;
    }

    /// What seems to be a round of all becomes one. A slot has just recorded something.
    fn guess(&mut self, slot: usize) {
        // Where a round is far longer than what was taken for one, or came three times, that is another guess.
        let is_other = |member: &Member| {
            let (failed, Some(one)) = (member.failed as u64, member.seeker.sure()) else { return true };
            one.words > failed + failed / 2 || failed % one.words != 0 && member.seeker.came_again(&one)
        };
        let soon = self.clock < self.until;
        if soon && !is_other(&self.members[slot]) {
            return;
        }
        if !soon && !self.next.is_empty() {
            let lengths = std::mem::take(&mut self.next);
            self.begin(lengths);
            return;
        }
        let sure: Vec<_> = self.members.iter().map(|member| member.seeker.sure()).collect();
        if sure[slot].is_none() {
            return;
        }
        // How much others did meanwhile is chance where they wait for each other. Threads that do as much do it as often.
        let most = sure.iter().flatten().map(|one| one.words).max().unwrap_or_default();
        let is_like = |words: u64, usual: u64| self.wrong == 0 && words.abs_diff(usual) <= usual / ALIKE;
        let all_alike = sure.iter().flatten().all(|one| is_like(one.words, most));
        // Words, and accesses of all slots meanwhile.
        let of = |(member, one): (&Member, &Option<Length>)| {
            let one = one.as_ref()?;
            let meanwhile = member.seeker.meanwhile(one, self.clock);
            Some((one.words, meanwhile.or(Some(one.accesses).filter(|_| all_alike))?))
        };
        let all: Vec<_> = self.members.iter().zip(&sure).map(of).collect();
        if all[slot].is_none() {
            return;
        }
        let (usual, accesses) = all.iter().flatten().copied().max_by_key(|one| one.1).unwrap_or_default();
        let accesses = accesses.max(1);
        let times = (self.seek.long / SHORTER).max(1).div_ceil(accesses);
        let mut lengths = Vec::new();
        for (member, one) in self.members.iter().zip(all) {
            let is_idle = member.seen == 0 || self.clock - member.seen > IDLE * times * accesses;
            let Some((words, own)) = one.filter(|_| !is_idle) else {
                if !is_idle {
                    return;
                }
                lengths.push(0);
                continue;
            };
            let own = own.max(1);
            let mut each = (accesses + own / 2) / own;
            if is_like(words, usual) {
                each = 1;
            } else if each > MOST_TIMES || (each * own).abs_diff(accesses) > own / 3 {
                return;
            }
            lengths.push((words * each * times) as usize);
        }
        if soon && !self.members.iter().all(is_other) || lengths.iter().sum::<usize>() > self.seek.longest {
            return;
        }
        self.accesses = accesses * times;
        self.next.clear();
        let past = std::mem::take(&mut self.past);
        self.begin(lengths);
        for member in &mut self.members {
            member.guessed = member.seeker.sure().map_or(0, |one| one.words);
        }
        if self.recall(&past) && !self.is_recorded() {
            // It is none, which has cost nothing: all of it was analysed as it came.
            self.wrong = self.wrong.max(1);
            self.until = self.clock + self.accesses;
            (self.state, self.past, self.rounds) = (State::Seeking, past, 0);
            self.pieces.clear();
            for member in &mut self.members {
                (member.failed, member.length, member.round) = (member.length, 0, Round::default());
            }
        }
    }

    /// Begins to record.
    fn begin(&mut self, lengths: Vec<usize>) {
        self.members.iter_mut().for_each(|member| member.length = 0);
        for (member, length) in self.members.iter_mut().zip(lengths) {
            (member.length, member.round) = (length, Round::of_length(length));
            (member.same, member.at, member.longest, member.guessed) = (0, Place::START, 0, 0);
        }
        self.state = State::Recording;
        self.past = Past::default();
    }

    /// If all have done what is to be recorded, it need not be: it is what came since the first of them began.
    fn recall(&mut self, past: &Past) -> bool {
        let (mut words, mut first) = (vec![0; self.members.len()], past.pieces.len());
        while self.members.iter().zip(&words).any(|(member, &words)| words < member.length) {
            let Some(before) = first.checked_sub(1) else { return false };
            let (slot, more) = past.pieces[before];
            (first, words[slot as usize]) = (before, words[slot as usize] + more);
        }
        self.pieces.extend_from_slice(&past.pieces[first..]);
        for (slot, (round, words)) in past.rounds.iter().zip(words).enumerate() {
            let of = |piece: &&(u32, usize)| piece.0 as usize == slot;
            let member = &mut self.members[slot];
            member.round = round.last(words, Round::default());
            member.longest = self.pieces.iter().filter(of).map(|piece| piece.1).max().unwrap_or_default();
        }
        true
    }
}

/// Adds so many words of a slot.
fn add(pieces: &mut Vec<(u32, usize)>, slot: usize, words: usize) {
    match pieces.last_mut() {
        Some(last) if last.0 as usize == slot => last.1 += words,
        _ => pieces.push((slot as u32, words)),
    }
}

/// Gives so many words of each member, round after round, to `take`, in the order of pieces of a round.
fn for_each_batch(pieces: &[(u32, usize)], mut members: Vec<(&Round, u64)>, mut take: impl FnMut(u32, &Batch, Bucket)) {
    let mut places = vec![Place::START; members.len()];
    loop {
        let mut any = false;
        for &(slot, words) in pieces {
            let (round, left) = &mut members[slot as usize];
            let words = words.min(*left as usize);
            if words > 0 {
                let place = &mut places[slot as usize];
                *place = round.for_each_batch(*place, words, |batch, bucket| take(slot, batch, bucket));
                *left -= words as u64;
                any = true;
            }
        }
        if !any {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::tests::{PATIENCE, SEEK, config, record, shapes};
    use crate::{Config, Session, Snapshot};
    use bf_profile::{LineData, Owner};
    use proptest::collection::vec as some;
    use proptest::prelude::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A batch of a slot, in a bucket.
    type Batches = Vec<(u32, Batch, Bucket)>;

    /// One of some records.
    fn batch(records: &[Vec<u64>]) -> Batch {
        let mut batch = Batch::new();
        batch.append(records.iter().flatten().copied(), &mut shapes(), |_| panic!("more than a batch holds"));
        batch
    }

    /// What a session says of batches in this order. It is not told what they allocate: of that it takes note in the order in which
    /// they come.
    fn says(rounds: Option<Seek>, batches: &Batches, threads: u32, helped: bool) -> Snapshot {
        let session = Session::new(Config { rounds_of_several: true, ..config(rounds) });
        session.ensure_slot(threads - 1);
        if helped {
            session.pipelined();
        }
        for (slot, batch, bucket) in batches {
            let mut batch = batch.clone();
            session.hand_over(*slot, &mut batch, *bucket);
        }
        assert!(session.settle(PATIENCE));
        session.snapshot(PATIENCE)
    }

    /// The order in which a team takes batches, all of them; and how many rounds of them are only counted.
    fn order(seek: Seek, batches: &Batches) -> (Batches, u64) {
        let (mut team, mut all, mut counted) = (Team::new(seek), Vec::new(), 0);
        let mut end = |team: &mut Team, all: &mut Batches| {
            let (mut round, take) = (Vec::new(), |slot, batch: &Batch, bucket| (slot, batch.clone(), bucket));
            if team.counted() > 0 {
                team.for_each_batch(|slot, batch, bucket| round.push(take(slot, batch, bucket)));
            }
            let left = team.end();
            counted += left.times;
            (0..left.times).for_each(|_| all.extend(round.iter().cloned()));
            left.for_each_batch(|slot, batch, bucket| all.push(take(slot, batch, bucket)));
        };
        for (slot, batch, bucket) in batches {
            match team.next(*slot, batch, *bucket, false) {
                Next::Keep => {}
                Next::Analyse => all.push((*slot, batch.clone(), *bucket)),
                Next::Break => {
                    end(&mut team, &mut all);
                    all.push((*slot, batch.clone(), *bucket));
                }
            }
            while let Some(last) = team.is_due() {
                team.for_each_batch(|slot, batch, bucket| all.push((slot, batch.clone(), bucket)));
                team.analysed(last);
            }
        }
        end(&mut team, &mut all);
        (all, counted)
    }

    /// What each slot does, in its order.
    fn words(batches: &Batches) -> Vec<Vec<u64>> {
        let mut words = Vec::new();
        for (slot, batch, _) in batches {
            words.resize(words.len().max(*slot as usize + 1), Vec::new());
            words[*slot as usize].extend(batch.words());
        }
        words
    }

    /// Rounds of three threads that hand lines on to each other, `others` between them.
    fn exchange(rounds: u64, others: impl Fn(u64) -> Option<u32>) -> Batches {
        let mut batches = Batches::new();
        for round in 0..rounds {
            // Who comes first differs.
            for turn in 0..3 {
                let slot = ((turn + round * round) % 3) as u32;
                let mine = 0x10_0000 + u64::from(slot) * 0x1000;
                let next = 0x10_0000 + (u64::from(slot) + 1) % 3 * 0x1000;
                let records: Vec<_> = (0..40).map(|i| vec![1, next + i * 48, mine + i * 64]).collect();
                for part in records.chunks(7 + (round % 5) as usize) {
                    batches.push((slot, batch(part), Bucket::FIRST));
                }
            }
            if let Some(slot) = others(round) {
                batches.push((slot, batch(&[vec![3, 0x90_0000 + round * 64]]), Bucket::FIRST));
            }
        }
        batches
    }

    #[test]
    fn rounds_of_all_count_as_often_as_they_come() {
        for helped in [false, true] {
            let batches = exchange(60, |_| None);
            let (all, counted) = order(SEEK, &batches);
            assert!(counted > 10, "{counted}");
            assert_eq!(words(&all), words(&batches));
            let snapshot = says(Some(SEEK), &batches, 3, helped);
            assert!(snapshot.again > 10 * 240, "{}", snapshot.again);
            assert!(snapshot.coherence[0].slots.len() == 3 && !snapshot.sharing[0].lines.is_empty());
            assert_eq!(Snapshot { again: 0, ..snapshot }, says(None, &all, 3, false));
        }
    }

    /// Threads that do the same beside each other, each with lines of its own: so no figure of theirs depends on who comes first.
    #[test]
    fn rounds_are_analysed_by_whoever_waits() {
        const ROUNDS: u64 = 60;
        let round = |slot: u64| -> Vec<_> {
            let records: Vec<_> =
                (0..80).map(|i| vec![1, ((slot + 1) << 20) + i * 48, ((slot + 1) << 24) + i * 64]).collect();
            records.chunks(9).map(batch).collect()
        };
        let says = |rounds, helped| {
            let session = Session::new(Config { rounds_of_several: true, ..config(rounds) });
            session.ensure_slot(2);
            if helped {
                session.pipelined();
            }
            let barrier = Barrier::new(3);
            std::thread::scope(|scope| {
                for slot in 0..3 {
                    let (session, barrier) = (&session, &barrier);
                    scope.spawn(move || {
                        let batches = round(slot.into());
                        for _ in 0..ROUNDS {
                            barrier.wait();
                            batches.iter().for_each(|batch| session.hand_over(slot, &mut batch.clone(), Bucket::FIRST));
                        }
                    });
                }
            });
            assert!(session.settle(PATIENCE));
            let mut snapshot = session.snapshot(PATIENCE);
            assert_eq!((snapshot.accesses, snapshot.skipped, snapshot.missing), (3 * ROUNDS * 160, 0, 0));
            assert_eq!(snapshot.again > 0, rounds.is_some());
            let private = |lines: &mut LineData| lines.stacks.retain(|stack| matches!(stack.owner, Owner::Slot(_)));
            snapshot.lines.iter_mut().for_each(private);
            (snapshot.lines, snapshot.coherence)
        };
        let expected = says(None, false);
        for helped in [false, true] {
            assert_eq!(says(Some(SEEK), helped), expected);
        }
    }

    /// Rounds of many pieces, in turns: each asks all others.
    fn turns(rounds: usize) -> Batches {
        let piece = |slot: u64, part: u64| {
            let place = |slot: u64| 0x10_0000 + slot % 3 * 0x4000 + part * 0x80;
            batch(&[vec![1, place(slot + 1), place(slot)], vec![1, place(slot + 1) + 0x40, place(slot) + 0x40]])
        };
        let round: Vec<_> = (0..300).map(|at| (at as u32 % 3, piece(at % 3, at / 3), Bucket::FIRST)).collect();
        vec![round; rounds].concat()
    }

    #[test]
    fn what_came_before_the_guess_need_not_be_recorded() {
        let batches = turns(20);
        let counted = [(u64::MAX, u64::MAX), (0, u64::MAX), (0, 0)].map(|(dense, steady)| {
            let seek = Seek { dense, steady, ..SEEK };
            let (all, counted) = order(seek, &batches);
            let snapshot = says(Some(seek), &batches, 3, false);
            assert_eq!(Snapshot { again: 0, ..snapshot }, says(None, &all, 3, false));
            counted
        });
        assert_eq!(counted, [15, 16, 16]);
    }

    #[test]
    fn who_does_nothing_is_not_left_with_what_others_ask() {
        let batches = turns(40);
        for helped in [false, true] {
            let session = Session::new(Config { rounds_of_several: true, ..config(Some(SEEK)) });
            session.ensure_slot(3);
            if helped {
                session.pipelined();
            }
            let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        most.fetch_max(session.asked(3), Ordering::Relaxed);
                    }
                });
                for (slot, batch, bucket) in &batches {
                    session.hand_over(*slot, &mut batch.clone(), *bucket);
                }
                done.store(true, Ordering::Relaxed);
            });
            let most = most.into_inner();
            assert!(most < 40, "{most}, {helped}");
            assert!(session.snapshot(PATIENCE).again > 0);
        }
    }

    #[test]
    fn something_else_ends_them() {
        let batches = exchange(200, |round| (round % 50 == 49).then_some(1));
        let (all, counted) = order(SEEK, &batches);
        assert!(counted > 4 * 10, "{counted}");
        assert_eq!(words(&all), words(&batches));
        let snapshot = says(Some(SEEK), &batches, 3, false);
        assert_eq!(Snapshot { again: 0, ..snapshot }, says(None, &all, 3, false));
    }

    #[test]
    fn nobody_gets_far_ahead() {
        // From some moment on one slot does nothing any more; the others' accesses are not put off for good.
        let batches: Batches = exchange(100, |_| None)
            .into_iter()
            .enumerate()
            .filter(|(at, each)| *at < 700 || each.0 != 2)
            .map(|each| each.1)
            .collect();
        let (all, _) = order(SEEK, &batches);
        assert_eq!(words(&all), words(&batches));
        let place = all.iter().rposition(|each| each.0 == 2).unwrap();
        let behind: usize = all[place..].iter().map(|each| each.1.words().len()).sum();
        assert!(behind > 2 * 60 * 40, "{behind}");
        let snapshot = says(Some(SEEK), &batches, 3, false);
        assert_eq!(Snapshot { again: 0, ..snapshot }, says(None, &all, 3, false));
    }

    fn seek() -> impl Strategy<Value = Seek> {
        let (dense, steady) = (prop_oneof![Just(0), Just(u64::MAX)], prop_oneof![Just(0), Just(u64::MAX)]);
        (dense, steady).prop_map(|(dense, steady)| Seek { dense, steady, ..SEEK })
    }

    /// Pieces of each slot that come several times in a row, in some order, cut somehow.
    fn program() -> impl Strategy<Value = Batches> {
        let piece = || some((0..2_u8, some(record(), 1..40)), 1..3);
        let phase = (some(piece(), 2..4), 1..30_usize, proptest::option::of((0..3_usize, record())));
        (some(phase, 1..4), some((any::<prop::sample::Index>(), 1..30_usize), 4..40)).prop_map(|(phases, mut turns)| {
            let mut batches = Batches::new();
            for (pieces, times, other) in phases {
                let mut lists: Vec<Vec<(u8, Vec<u64>)>> = Vec::new();
                for piece in &pieces {
                    let records = piece.iter().flat_map(|(bucket, all)| all.iter().map(|each| (*bucket, each.clone())));
                    lists.push(vec![records.collect::<Vec<_>>(); times].concat());
                }
                if let Some((slot, record)) = other {
                    let at = slot % lists.len();
                    lists[at].push((1, record));
                }
                // So that none is far ahead: a part of each at a time.
                let lens: Vec<_> = lists.iter().map(|list| list.len().div_ceil(times)).collect();
                while lists.iter().any(|list| !list.is_empty()) {
                    turns.rotate_left(1);
                    let mut slots: Vec<_> = (0..lists.len()).collect();
                    slots.rotate_left(turns[0].0.index(lists.len()));
                    for slot in slots {
                        let mut now: Vec<_> = {
                            let len = lens[slot].min(lists[slot].len());
                            lists[slot].drain(..len).collect()
                        };
                        while !now.is_empty() {
                            let bucket = now[0].0;
                            let same = now.iter().take_while(|each| each.0 == bucket).count();
                            let records: Vec<_> = now.drain(..same.min(turns[1].1)).map(|each| each.1).collect();
                            batches.push((slot as u32, batch(&records), Bucket(bucket)));
                        }
                    }
                }
            }
            batches
        })
    }

    /// Threads that go from block to block, in `kinds` that come by turns, each behind a barrier; who comes first and what it hands
    /// over by itself is chance. Where it `shows` who was last that leaves another record. Also what each of them had recorded before
    /// its blocks.
    fn barriers(
        (threads, kinds, shows): (usize, u64, bool),
        chances: &[(u8, bool)],
        phases: usize,
    ) -> (Batches, Vec<Vec<usize>>) {
        let (mut batches, mut begun) = (Batches::new(), vec![Vec::new(); threads]);
        let (mut words, mut kept) = (vec![0; threads], vec![Vec::new(); threads]);
        for &(who, apart) in chances.iter().cycle().take(threads * phases) {
            // Who is at a barrier waits for the others.
            let least = begun.iter().map(Vec::len).min().unwrap_or_default();
            let may: Vec<_> = (0..threads).filter(|&slot| begun[slot].len() == least).collect();
            let (slot, is_last) = (may[usize::from(who) % may.len()], may.len() == 1);
            let block = 0x10_0000 + (slot as u64 + least as u64) % threads as u64 * 0x1_0000;
            let count = 40 + least as u64 % kinds * 7;
            let sync = if is_last && shows { vec![1, 0x90_0000, 0x90_0040] } else { vec![3, 0x90_0000] };
            let mut records: Vec<Vec<u64>> = std::mem::take(&mut kept[slot]);
            begun[slot].push(words[slot] + records.iter().map(Vec::len).sum::<usize>());
            records.extend([vec![2, count, block, 64, 0x30_0000, 8], sync]);
            words[slot] += records.iter().map(Vec::len).sum::<usize>();
            batches.push((slot as u32, batch(&records), Bucket::FIRST));
            // When it goes on it looks once more, which it hands over by itself or not.
            let after = vec![3, 0x90_0000];
            if apart && is_last {
                words[slot] += after.len();
                batches.push((slot as u32, batch(&[after]), Bucket::FIRST));
            } else {
                kept[slot].push(after);
            }
        }
        (batches, begun)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_comes_after_another_stays_there(
            seek in seek(),
            program in (2..5_usize, 1..5_u64, any::<bool>()),
            chances in prop_oneof![some(any::<(u8, bool)>(), 1..8), some(any::<(u8, bool)>(), 1..200)],
            phases in 2..200_usize,
        ) {
            let (batches, begun) = barriers(program, &chances, phases);
            let (all, _) = order(seek, &batches);
            prop_assert_eq!(words(&all), words(&batches));
            let mut words = vec![0; begun.len()];
            for (slot, batch, _) in &all {
                let slot = *slot as usize;
                let (from, to) = (words[slot], words[slot] + batch.words().len());
                words[slot] = to;
                // Blocks that it comes to: the others have begun with those of the phase before.
                for phase in (1..begun[slot].len()).filter(|&phase| (from..to).contains(&begun[slot][phase])) {
                    for other in (0..begun.len()).filter(|&other| other != slot) {
                        let there = words[other] > begun[other][phase - 1];
                        prop_assert!(there, "{slot} is at {phase} before {other} is at the one before");
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn rounds_of_several_change_no_figure(seek in seek(), batches in program(), helped in any::<bool>()) {
            let (all, _) = order(seek, &batches);
            prop_assert_eq!(words(&all), words(&batches));
            let threads = batches.iter().map(|each| each.0).max().unwrap_or_default() + 1;
            prop_assume!(threads > 1);
            let snapshot = says(Some(seek), &batches, threads, helped);
            prop_assert_eq!(Snapshot { again: 0, ..snapshot }, says(None, &all, threads, false));
        }
    }
}

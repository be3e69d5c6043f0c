//! Rounds of several threads: what each of them does again and again, a step in time that they do together.
//!
//! Each thread's records repeat; how those of different threads follow each other differs from round to round, by chance. What
//! is free there, as far as the program is concerned, is taken as it was in one round: that is recorded, with the order in which
//! its pieces came. What comes then is only compared, thread by thread. Whenever all threads have done a whole round it is
//! analysed in that order, three times. From the second of those on each reference finds the lines that the round uses where it
//! will always find them, and what lies below them has settled after that: so the third counts for all that follow.
//!
//! That is so because the top of a private stack, what was referenced or taken away since the round began, does not depend on
//! what is below: a reference removes the newest hole, and one that finds its line deeper puts the hole there. Lines that only
//! others use in the round sink by the holes that are missing above them, all of them in the second round.
//!
//! No thread gets far ahead: if one has done two rounds more than another, or what it did differs, all that was only compared is
//! analysed after all, in the same order, before what comes then.

use crate::Batch;
use crate::anchors::{Seek, Seeker};
use crate::batch::Place;
use crate::rounds::Round;
use bf_stack::Bucket;

/// Rounds that are analysed once one was recorded; the last of them counts again.
pub(crate) const ANALYSED: u64 = 3;
/// How far ahead of the others a thread may be: rounds, and words where those are shorter than its batches.
const AHEAD: u64 = 2;
const WORDS_AHEAD: u64 = 1 << 14;
/// After so many times its accesses, in powers of two, a guess is made again where one was wrong, doubled each time up to so
/// often.
const WAIT: u32 = 2;
const MOST_WAIT: u32 = 8;
/// Threads that recorded nothing for so many rounds have no part in them.
const IDLE: u64 = 4;
/// A round of one thread may be so much shorter than one of another.
const MOST_TIMES: u64 = 64;

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
    /// By slot, of the round that came until something else did: its words.
    last: Vec<usize>,
    state: State,
    /// Of the recorded round: so many words of a slot, in order.
    pieces: Vec<(u32, usize)>,
    /// How often it was analysed since.
    analysed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No guess.
    #[default]
    Seeking,
    /// A round is being recorded; those that have done theirs go on.
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
    /// Since then so many words came that are the same, up to this place of it.
    same: u64,
    at: Place,
}

/// What is to be done with a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To analyse it.
    Analyse,
    /// Nothing yet.
    Keep,
    /// To analyse what is before this place; nothing yet with the rest.
    Divide(Place),
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
            self.seek(slot, batch);
            if !full {
                self.guess(slot);
            }
            return Next::Analyse;
        }
        self.clock += batch.accesses();
        if full || batch.is_owed() {
            return Next::Break;
        }
        let done = self.done();
        let member = &mut self.members[slot];
        let (length, recorded) = (member.length, member.round.words());
        if recorded < length {
            let more = (length - recorded).min(words.len());
            let end = if more < words.len() { batch.place_behind(Place::START, more) } else { batch.end() };
            if end.word != more {
                return Next::Break;
            }
            member.round.record(batch, end, bucket);
            match self.pieces.last_mut() {
                Some(last) if last.0 as usize == slot => last.1 += more,
                _ => self.pieces.push((slot as u32, more)),
            }
            let rest = words.len() - more;
            if rest > 0 {
                let Some(at) = member.round.follow(Place::START, batch, end, bucket) else { return Next::Break };
                (member.at, member.same) = (at, rest as u64);
            }
            if self.members.iter().all(|member| member.round.words() == member.length) {
                self.state = State::Comparing;
            }
            return if rest > 0 { Next::Divide(end) } else { Next::Analyse };
        }
        let same = member.same + words.len() as u64;
        if length == 0 || same > (done + AHEAD) * length as u64 + WORDS_AHEAD {
            return Next::Break;
        }
        let Some(at) = member.round.follow(member.at, batch, Place::START, bucket) else { return Next::Break };
        (member.at, member.same) = (at, same);
        Next::Keep
    }

    /// Rounds that all of them have done since one was recorded.
    fn done(&self) -> u64 {
        let rounds = |member: &Member| member.same.checked_div(member.length as u64);
        let least = self.members.iter().filter_map(rounds).min();
        least.filter(|_| self.state == State::Comparing).unwrap_or_default()
    }

    /// Whether a round is to be analysed now ([`Team::for_each_batch`]); how many were.
    pub(crate) fn is_due(&self) -> Option<u64> {
        (self.analysed < self.done().min(ANALYSED)).then_some(self.analysed)
    }

    /// One was.
    pub(crate) fn analysed(&mut self) {
        self.analysed += 1;
    }

    /// Gives the recorded round to `take`, in order, by slot.
    pub(crate) fn for_each_batch(&self, take: impl FnMut(u32, &Batch, Bucket)) {
        let whole = |member: &'_ Member| member.length as u64;
        let members = self.members.iter().map(|member| (&member.round, whole(member))).collect();
        for_each_batch(&self.pieces, members, take);
    }

    /// Goes back to seeking; what there was besides what was analysed.
    pub(crate) fn end(&mut self) -> Left {
        let (done, analysed) = (self.done(), self.analysed);
        let times = if analysed == ANALYSED { done - analysed } else { 0 };
        let is_seeking = std::mem::take(&mut self.state) == State::Seeking;
        self.last.clear();
        if times > 0 {
            // It may go on in a moment.
            self.last = self.members.iter().map(|member| member.length).collect();
            (self.wrong, self.until) = (0, self.clock + self.accesses / 2);
        } else if !is_seeking {
            self.until = self.clock + (self.accesses << (WAIT + self.wrong.min(MOST_WAIT)));
            self.wrong += 1;
        }
        let left = |member: &mut Member| {
            member.seeker.forget();
            let taken = (analysed + times) * std::mem::take(&mut member.length) as u64;
            (std::mem::take(&mut member.round), std::mem::take(&mut member.same) - taken)
        };
        let members = self.members.iter_mut().map(left).collect();
        self.analysed = 0;
        Left { times, members, pieces: std::mem::take(&mut self.pieces) }
    }

    /// Looks for anchors in a batch of a slot.
    fn seek(&mut self, slot: usize, batch: &Batch) {
        let member = &mut self.members[slot];
        member.seeker.look(batch.words(), batch.accesses(), self.clock);
        member.seeker.at += batch.words().len() as u64;
        self.clock += batch.accesses();
        member.seen = self.clock;
    }

    /// What seems to be a round of all becomes one. A slot has just recorded something.
    fn guess(&mut self, slot: usize) {
        if self.clock < self.until {
            return;
        }
        if !self.last.is_empty() {
            let lengths = std::mem::take(&mut self.last);
            return self.begin(lengths);
        }
        // Words, and accesses of all slots meanwhile.
        let of = |member: &Member| {
            let one = member.seeker.sure()?;
            Some((one.words, one.on_average(member.seeker.at, self.clock)?))
        };
        if of(&self.members[slot]).is_none() {
            return;
        }
        let all: Vec<_> = self.members.iter().map(of).collect();
        let accesses = all.iter().flatten().map(|one| one.1).max().unwrap_or_default().max(1);
        let times = self.seek.shortest.div_ceil(accesses);
        let mut lengths = Vec::new();
        for (member, one) in self.members.iter().zip(all) {
            let is_idle = member.seen == 0 || self.clock - member.seen > IDLE * accesses;
            let Some((words, own)) = one.filter(|_| !is_idle) else {
                if !is_idle {
                    return;
                }
                lengths.push(0);
                continue;
            };
            let own = own.max(1);
            let each = (accesses + own / 2) / own;
            if each > MOST_TIMES || (each * own).abs_diff(accesses) > accesses / 4 {
                return;
            }
            lengths.push((words * each * times) as usize);
        }
        self.accesses = accesses * times;
        if lengths.iter().sum::<usize>() <= self.seek.longest {
            self.begin(lengths);
        }
    }

    /// Begins to record.
    fn begin(&mut self, lengths: Vec<usize>) {
        self.members.iter_mut().for_each(|member| member.length = 0);
        for (member, length) in self.members.iter_mut().zip(lengths) {
            (member.length, member.round) = (length, Round::of_length(length));
            (member.same, member.at) = (0, Place::START);
        }
        self.state = State::Recording;
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

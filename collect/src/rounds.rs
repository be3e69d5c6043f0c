//! Rounds: what a thread does again and again, word for word, a time step of a simulation or an iteration of a solver.
//!
//! Where the records of two rounds are the same, and those of the round before them too, then the second finds each line where
//! the first found it: all that was referenced since is the same. It leaves the stack as it was, too. So once a round was
//! recorded, and another like it analysed, those that follow need only be compared with it, and its counts count again. What
//! does not end a round is analysed when it is known that it does not.
//!
//! A program that did something else in between, to print a line, may go on with the same round. Once that has come, and been
//! analysed, those that follow count as before: what they find is what came since it began. Only what may still happen to lines
//! that were stored to meanwhile, and that the round loads and does not store to, is not known: the greatest distance since then.
//! If there are such lines one more round is analysed.
//!
//! A round ends where it was guessed, mostly in the middle of what the program does again. Where that begins is its *seam*: there
//! it ended before, or begins to repeat itself, so there it will end. What the stacks are at the seam of the round that is counted is
//! kept, so that nothing of the last round has to be analysed once more to find out.
//!
//! Records may *stray*: what a program keeps of each step goes elsewhere each time. Where they load and store the same lines as before,
//! the round is the same to every cache. Once one goes to another line, it is another round: the lines that it goes on with were
//! referenced where they are now, but not that one. The round from behind it on is the first of those that are all the same, so it is
//! counted. That begins where the one before ended, at the seam, so nothing else is analysed.
//!
//! How long a round may be is guessed from *anchors*, places that depend on the few words from there on only: where several of them
//! were met so many words ago. A wrong guess costs time; what is counted rests on comparisons of whole rounds.

use crate::Batch;
use crate::anchors::{FEW, SHORT, Seek, Seeker, for_each_anchor};
use crate::batch::Place;
use bf_stack::Bucket;
use std::collections::{BTreeSet, VecDeque};

/// Words of a round that are analysed at a time, and a record more; no more accesses than a batch has, and a record's.
const AT_ONCE: usize = 1 << 13;
/// Words, at least, from one place of a round of which it is known that a record begins there to the next.
const APART: usize = 1 << 9;
/// A round is expected to come again for so many times the words that had to repeat themselves; by so many anchors of a batch it is
/// looked for, of which so many may be alike, and it has so many, at least, if it has as many words.
const PATIENCE: usize = 4;
const TRIES: usize = 16;
const ALIKE: usize = 4;
const ANCHORS: u64 = 64;
/// So many times fewer accesses than a long round has have to repeat themselves before one is counted, and before it counts again
/// after something else.
const SHORTER: u64 = 16;
const SOONER: u64 = 32;
/// Records that go to another line than in the round before, at most: some, and one of so many words. And so often they may before any
/// round counts again.
const STRAYS: usize = 16;
const STRAY: usize = 64;
const IN_VAIN: usize = 4;
/// So many times fewer accesses than a long round has one of which records go elsewhere, where a word counts for so many. To count one is
/// about as much work as to analyse a long one; where that saves less it is given up once it has cost so many of those.
const SHORTEST: u64 = 8;
const WORD: u64 = 8;
const SPENT: u64 = 4;
/// What it takes to analyse a round is more than to keep stacks that know so many times fewer lines.
const KEPT: u64 = 4;
/// Lines that were stored to in between, at most, that are looked for in a round.
const STORED: usize = 1 << 10;

/// The records of one slot, in order.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    seeker: Seeker,
    /// Accesses that were looked at.
    accesses: u64,
    /// Of the lines that there are counts of: log2 of the bytes.
    shifts: Vec<u32>,
    /// The least of them, where a round is long enough for it to be counted anew whenever a record goes to another line.
    shift: Option<u32>,
    /// Whether some records of the round go elsewhere each time.
    strays: bool,
    /// In so many rounds one after the other they did before one was only compared, the last of them after so many words; and where they
    /// went the last times.
    in_vain: usize,
    strayed: u64,
    went: VecDeque<Stray>,
    /// Accesses of a round, words included, and how many less were analysed since it is counted again and again.
    work: u64,
    saved: i64,
    /// The guess, how many words are to repeat themselves before one is counted, and before it counts again.
    length: u64,
    whole: usize,
    fewest: usize,
    state: State,
    past: Past,
    /// The memory of a round that was none.
    spare: Round,
    /// The word of the round, if it is known, where the program is expected to begin and end with it.
    seam: Option<usize>,
}

/// What was analysed last: perhaps a round.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// By slot.
    pub(crate) rounds: Vec<Round>,
    /// So many words of a slot, in order.
    pub(crate) pieces: Vec<(u32, usize)>,
    words: usize,
    accesses: u64,
}

#[derive(Debug, Default)]
enum State {
    /// No guess.
    #[default]
    Seeking,
    /// As many rounds as have to repeat themselves are being recorded, one after the other.
    Recording { round: Round },
    /// All that came since is the same, up to this place of it. After so many words more a round is counted, from the next batch on:
    /// so many of its words came.
    Following { round: Round, at: Place, more: usize, counted: Option<usize>, seam: Option<Seam>, of: Origin },
    /// The same, and it was counted: from one place of the round on so many words were only compared.
    Comparing { round: Round, from: Place, at: Place, words: u64, seam: Option<Seam> },
    /// Something else came, and the round may come again, and counts as it did, or, if some of its records went elsewhere meanwhile, is
    /// counted then.
    Expecting { round: Round, expected: Expected, same: Option<Same>, is_counted: bool },
}

/// Where a round comes from that is followed.
#[derive(Debug)]
enum Origin {
    /// It was recorded for the guess.
    Recorded,
    /// It came before.
    Past,
    /// It was counted, and since then some of its records went elsewhere.
    Counted,
}

/// A round's anchors, by what they are, and where, and how few there are; for so many words more it may come again.
#[derive(Debug, Default)]
struct Expected {
    anchors: Vec<(u64, usize)>,
    mask: u64,
    left: usize,
    stored: Stored,
}

/// The last words are the same as those of a round.
#[derive(Clone, Copy, Debug)]
struct Same {
    /// Up to this place of it.
    at: Place,
    words: usize,
    /// So many have to be before it counts again, as soon as a whole round is.
    needed: Option<usize>,
}

/// Lines that were stored to in between, by line size; `None`: many.
#[derive(Debug, Default)]
struct Stored(Vec<Option<BTreeSet<u64>>>);

/// Where a round is expected to begin and end, so many words behind where it was begun to be counted.
#[derive(Clone, Copy, Debug)]
struct Seam {
    at: Place,
    words: usize,
}

/// One round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    content: Batch,
    /// Where records of it begin, so many words apart or more.
    begins: Vec<Place>,
    /// Where those parts of it end that are in one bucket.
    buckets: Vec<(usize, Bucket)>,
    /// What [`Batch::objects`] says of all of it.
    objects: Option<u64>,
}

/// How a batch goes on like a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Along {
    /// So many words are the same, or of records that load and store the same lines.
    pub(crate) same: usize,
    /// If all are, but for few records that go to other lines.
    pub(crate) like: Option<Like>,
    /// Whether any word differs.
    differs: bool,
}

/// Where a batch ends in the round that it is like, and what goes to another line first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Like {
    pub(crate) at: Place,
    stray: Option<Stray>,
}

/// Which word of which record went to another line, and to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    header: u64,
    word: usize,
    line: u64,
}

/// What is to be done with a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To analyse it.
    Analyse,
    /// The same; it belongs to a round whose counts may count again.
    Count(Counted),
    /// Nothing: it belongs to a round like that one.
    Skip,
    /// To analyse what is left over from rounds ([`Rounds::end`]), then the batch from there on: what is before belongs to them.
    Break(Place),
    /// To analyse it up to there: what is behind belongs to a round like that which was counted last.
    Resume(Place),
}

/// A part of the round that is counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Whether it begins with the batch.
    pub(crate) begins: bool,
    /// Where in the batch its seam is: what the stacks are then is to be kept.
    pub(crate) seam: Option<Place>,
    /// Where it ends. What is behind is not to be analysed.
    pub(crate) end: Option<Place>,
}

impl Stored {
    /// Adds those of a batch, up to a place.
    fn add(&mut self, batch: &Batch, to: Place, shifts: &[u32]) {
        self.0.resize_with(shifts.len(), || Some(BTreeSet::new()));
        batch.for_each_course(Place::START..to, |course| {
            for (all, &shift) in self.0.iter_mut().zip(shifts).filter(|_| course.first.store) {
                if let Some(stored) = all {
                    course.for_each_range(shift, |lines| stored.extend(lines.take(STORED)));
                }
                if all.as_ref().is_some_and(|stored| stored.len() >= STORED) {
                    *all = None;
                }
            }
        });
    }

    /// Whether there may be some to which a round does not store, but which it loads.
    fn are_loaded(&self, round: &Batch, shifts: &[u32]) -> bool {
        if self.0.iter().any(Option::is_none) {
            return true;
        }
        if self.0.iter().flatten().all(BTreeSet::is_empty) {
            return false;
        }
        let (mut loaded, mut left) = (vec![BTreeSet::new(); shifts.len()], self.0.clone());
        round.for_each_course(Place::START..round.end(), |course| {
            let of_size = self.0.iter().flatten().zip(loaded.iter_mut().zip(left.iter_mut().flatten()));
            for ((all, (loaded, left)), &shift) in of_size.zip(shifts) {
                course.for_each_range(shift, |lines| {
                    for &line in all.range(lines) {
                        if course.first.store {
                            left.remove(&line);
                        } else {
                            loaded.insert(line);
                        }
                    }
                });
            }
        });
        loaded.iter().zip(left.iter().flatten()).any(|(loaded, left)| !loaded.is_disjoint(left))
    }
}

/// What there was besides what was analysed.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// So many whole rounds.
    pub(crate) times: u64,
    /// Whether what comes after them goes on from the seam, for which the stacks were kept.
    pub(crate) from_seam: bool,
    round: Round,
    from: Place,
    rest: usize,
}

impl Left {
    /// Gives what came after them to `take`, in order.
    pub(crate) fn for_each_batch(&self, take: impl FnMut(&Batch, Bucket)) {
        self.round.for_each_batch(self.from, self.rest, take);
    }
}

impl Rounds {
    /// There are counts of lines of `1 << shift` bytes.
    pub(crate) fn new(seek: Seek, shifts: Vec<u32>) -> Self {
        Self { seeker: Seeker::new(seek), shifts, ..Self::default() }
    }

    /// Takes note of the next batch. Where `full` there is no room to record anything.
    pub(crate) fn next(&mut self, batch: &Batch, bucket: Bucket, full: bool) -> Next {
        let words = batch.words();
        if words.is_empty() {
            return Next::Analyse;
        }
        if batch.is_owed() && self.compared().is_none() {
            // What it would have been compared with is gone.
            self.state = State::Seeking;
            self.past = Past::default();
            return Next::Analyse;
        }
        if !matches!(self.state, State::Comparing { .. }) {
            self.seeker.look(words, batch.accesses(), self.accesses);
            self.accesses += batch.accesses();
            // What [`Batch::objects`] says has to hold for all of it.
            if full || self.past.rounds.first().is_some_and(|round| round.objects != batch.objects()) {
                self.past = Past::default();
            } else {
                self.past.keep(0, batch, bucket, self.seeker.seek);
            }
        }
        self.seeker.at += words.len() as u64;
        match &mut self.state {
            State::Seeking => {
                if !full {
                    self.guess(batch);
                }
                Next::Analyse
            }
            State::Recording { round } => {
                let more = (self.whole - round.content.words().len()).min(words.len());
                let end = if more < words.len() { batch.place_behind(Place::START, more) } else { batch.end() };
                if full || end.word != more {
                    self.give_up();
                    return Next::Analyse;
                }
                let before = round.content.words().len();
                round.record(batch, end, bucket);
                let length = self.length as usize;
                match repeats(&round.content, before, length, self.shift, |words| round.place_up_to(words)) {
                    Some(strays) => self.strays |= strays,
                    None => {
                        self.give_up();
                        return Next::Analyse;
                    }
                }
                if round.content.words().len() == self.whole {
                    let mut round = std::mem::take(round);
                    round.keep_last(length);
                    let along = round.along(Place::START, batch, end, bucket, self.shift);
                    match along.like.filter(|_| round.words() == length) {
                        Some(Like { at, .. }) => {
                            self.strays |= along.differs;
                            round.go_on(Place::START, &batch.words()[end.word..]);
                            self.state = State::following(round, at, Origin::Recorded);
                        }
                        None => {
                            self.give_up();
                            self.spare = round;
                        }
                    }
                }
                Next::Analyse
            }
            State::Following { round, at, more, counted, seam, .. } => {
                let (length, before) = (round.words(), counted.unwrap_or(0));
                let along = round.along(*at, batch, Place::START, bucket, self.shift);
                let Some(Like { at: next, stray }) = along.like.filter(|_| !full) else {
                    self.go_back(batch, bucket, full);
                    return Next::Analyse;
                };
                self.strays |= along.differs;
                if stray.is_some() || *more > 0 {
                    round.go_on(*at, words);
                    (*at, *more, *counted, *seam) = (next, more.saturating_sub(words.len()), None, None);
                    stray.into_iter().for_each(|stray| self.went(stray));
                    return Next::Analyse;
                }
                let mut part = Counted { begins: counted.is_none(), ..Counted::default() };
                let from = at.word + length - before;
                let to_seam = self.seam.map(|word| (word + 2 * length - from) % length).filter(|&words| words > 0);
                if let Some(words) = to_seam
                    && let Some(more) = words.checked_sub(before).filter(|&more| more < batch.words().len())
                {
                    // Records may end alike of which only one belongs to the round.
                    let place = batch.place_behind(Place::START, more);
                    part.seam = Some(place).filter(|place| before + place.word < length);
                    *seam = part.seam.map(|to| Seam { at: round.behind(*at, to), words: before + to.word });
                }
                if before + words.len() < length {
                    (*at, *counted) = (next, Some(before + words.len()));
                    return Next::Count(part);
                }
                let end = batch.place_behind(Place::START, length - before);
                if before + end.word != length {
                    self.give_up();
                    return Next::Analyse;
                }
                part.end = Some(end);
                let (from, seam, round) = (round.behind(*at, end), *seam, std::mem::take(round));
                self.state = State::Comparing { round, from, at: next, words: (words.len() - end.word) as u64, seam };
                self.past = Past::default();
                Next::Count(part)
            }
            State::Comparing { round, at, words: since, seam, .. } => {
                let along = |batch: &Batch| round.along(*at, batch, Place::START, bucket, self.shift);
                let Along { same, like, .. } = along(batch);
                let Some(Like { at: next, .. }) = like.filter(|like| like.stray.is_none()) else {
                    let length = round.words();
                    self.seam = Some((at.word + batch.place_up_to(same).word) % length);
                    // Up to where it is at the seam for the last time.
                    let to_seam = |seam: Seam| (seam.words + length - *since as usize % length) % length;
                    let to = seam.map(to_seam).filter(|&first| first <= same);
                    let to = to.map(|first| batch.place_behind(Place::START, same - (same - first) % length));
                    let follows = |to: &Place| along(&batch.part(Place::START..*to)).like.is_some();
                    let to = to.filter(|to| to.word <= same && follows(to)).unwrap_or(Place::START);
                    *since += to.word as u64;
                    return Next::Break(to);
                };
                (*at, *since) = (next, *since + words.len() as u64);
                Next::Skip
            }
            State::Expecting { .. } if full => {
                self.state = State::Seeking;
                Next::Analyse
            }
            State::Expecting { round, expected, same, is_counted } => {
                let along = |same: Same| round.along(same.at, batch, Place::START, bucket, self.shift);
                let goes_on = same.and_then(|same| Some((same, along(same).like?)));
                let Some((before, like @ Like { at, stray })) = goes_on else {
                    let in_vain = same.take().map_or(0, |same| same.words);
                    self.look_for_round(batch, bucket, in_vain);
                    return Next::Analyse;
                };
                let (mut now, length) = (Same { at, words: before.words + words.len(), ..before }, round.words());
                if stray.is_some() {
                    let round = std::mem::take(round);
                    self.stray(round, before.at, batch, like, length.saturating_sub(now.words));
                    return Next::Analyse;
                }
                if !*is_counted && now.words >= length {
                    self.state = State::following(std::mem::take(round), at, Origin::Counted);
                    return Next::Analyse;
                }
                if now.needed.is_none() && now.words >= length {
                    let stored = expected.stored.are_loaded(&round.content, &self.shifts);
                    now.needed = Some(if stored { self.fewest.max(2 * length) } else { self.fewest });
                }
                *same = Some(now);
                let Some(left) =
                    now.needed.map(|needed| needed.saturating_sub(before.words)).filter(|&left| left <= words.len())
                else {
                    return Next::Analyse;
                };
                let end = batch.place_behind(Place::START, left);
                if end.word != left {
                    return Next::Analyse;
                }
                let (from, round) = (round.behind(before.at, end), std::mem::take(round));
                let seam = Some(Seam { at: from, words: 0 });
                self.state = State::Comparing { round, from, at, words: (words.len() - left) as u64, seam };
                self.past = Past::default();
                Next::Resume(end)
            }
        }
    }

    /// The batch is like a round from a place on, but for some records that go to other lines: what is counted from so many words
    /// later on is another one.
    fn stray(&mut self, mut round: Round, from: Place, batch: &Batch, Like { at, stray }: Like, more: usize) {
        round.go_on(from, batch.words());
        self.strays = true;
        self.state = State::Following { round, at, more, counted: None, seam: None, of: Origin::Counted };
        stray.into_iter().for_each(|stray| self.went(stray));
    }

    /// A record went to another line. Where it often does, or to those where it was before, no round is like the one before it.
    fn went(&mut self, stray: Stray) {
        let was_there = self.went.contains(&stray);
        self.went.truncate(2 * IN_VAIN);
        self.went.push_front(stray);
        // Those of a round come together.
        if self.seeker.at - self.strayed > self.length / 2 {
            (self.strayed, self.in_vain) = (self.seeker.at, self.in_vain + 1);
        }
        if self.in_vain > IN_VAIN || was_there || self.saved < -((SPENT * self.seeker.seek.long) as i64) {
            self.give_up();
        }
    }

    /// What was followed is not what came: the first one may be another, or begin earlier, or come again.
    fn go_back(&mut self, batch: &Batch, bucket: Bucket, full: bool) {
        match &mut self.state {
            State::Following { of: Origin::Past, .. } => {
                self.let_go();
                self.state = self.recording();
            }
            State::Following { round, of: Origin::Counted, .. }
                if self.in_vain < IN_VAIN && !full && !batch.has_events() =>
            {
                let round = std::mem::take(round);
                self.in_vain += 1;
                self.expect_again(round, false, batch, bucket);
            }
            _ => self.give_up(),
        }
    }

    /// While batches are only compared: what [`Batch::objects`] says of the round. Those that come while that is so need not
    /// be attributed: where their words are the same, so are their items.
    pub(crate) fn compared(&self) -> Option<u64> {
        let State::Comparing { round, .. } = &self.state else { return None };
        round.objects.filter(|_| !self.strays)
    }

    /// Lines that the stacks may know, at most, so that it pays to keep them at the seam.
    pub(crate) fn most_kept(&self) -> usize {
        let Seek { kept_lines, .. } = self.seeker.seek;
        if self.strays { kept_lines.min((self.work / KEPT) as usize) } else { kept_lines }
    }

    /// Goes back to seeking; what there was besides what was analysed. Whether the stacks were kept at the seam.
    pub(crate) fn end(&mut self, is_kept: bool) -> Left {
        let state = std::mem::take(&mut self.state);
        let State::Comparing { round, from, words, seam, .. } = state else { return Left::default() };
        let length = round.words() as u64;
        let (times, rest) = (words / length, (words % length) as usize);
        let long = self.seeker.seek.long as i64;
        let saved = self.saved.saturating_add_unsigned(times.saturating_mul(self.work)).saturating_sub(long);
        self.saved = saved.min(SPENT as i64 * long);
        if times > 0 {
            self.in_vain = 0;
            self.went.clear();
            self.seeker.forget();
        }
        match seam.filter(|seam| is_kept && seam.words <= rest) {
            Some(seam) => Left { times, from_seam: true, round, from: seam.at, rest: rest - seam.words },
            None => Left { times, from_seam: false, round, from, rest },
        }
    }

    /// What ended may come again, after this batch or from somewhere in it on. There are no events in it.
    pub(crate) fn expect(&mut self, left: Left, batch: &Batch, bucket: Bucket) {
        let Left { round, from, rest, .. } = left;
        if round.words() == 0 {
            return;
        }
        let at = round.place_behind((from.word + rest) % round.words());
        match round.along(at, batch, Place::START, bucket, self.shift).like {
            Some(like) => self.stray(round, at, batch, like, 0),
            None => self.expect_again(round, true, batch, bucket),
        }
    }

    fn expect_again(&mut self, round: Round, is_counted: bool, batch: &Batch, bucket: Bucket) {
        let (mut anchors, mask) = (Vec::new(), (round.words() as u64 / ANCHORS).clamp(1, FEW).next_power_of_two() - 1);
        for_each_anchor(round.content.words(), mask, SHORT, |_| true, |at, what| anchors.push((what, at)));
        anchors.sort_unstable();
        let expected =
            Expected { anchors, mask, left: PATIENCE * self.whole + batch.words().len(), stored: Stored::default() };
        self.state = State::Expecting { round, expected, same: None, is_counted };
        self.look_for_round(batch, bucket, 0);
    }

    /// Whether a batch is from somewhere on what is somewhere in the round that is expected; if not, goes on without it. It came
    /// after so many words that began like the round.
    fn look_for_round(&mut self, batch: &Batch, bucket: Bucket, in_vain: usize) {
        let State::Expecting { round, expected, same, .. } = &mut self.state else { return };
        let (mut places, words) = (VecDeque::new(), batch.words());
        let Expected { anchors, mask, .. } = &*expected;
        for_each_anchor(
            words,
            *mask,
            SHORT,
            |_| true,
            |at, what| {
                let alike = &anchors[anchors.partition_point(|anchor| anchor.0 < what)..];
                for &(_, place) in alike.iter().take_while(|anchor| anchor.0 == what).take(ALIKE) {
                    places.truncate(TRIES - 1);
                    places.push_front((at, place));
                }
            },
        );
        let found = places.into_iter().find_map(|(at, place)| round.same_from(place, batch, at, bucket));
        let from = found.map_or(batch.end(), |(from, _)| from);
        *same = found.map(|(from, at)| Same { at, words: words.len() - from.word, needed: None });
        expected.stored.add(batch, from, &self.shifts);
        expected.left = expected.left.saturating_sub(in_vain + from.word);
        if expected.left == 0 || from.word > 0 && batch.has_events() {
            self.state = State::Seeking;
        }
    }

    /// The guess was wrong, or cannot be followed up.
    pub(crate) fn give_up(&mut self) {
        self.seeker.give_up(self.length);
        self.let_go();
    }

    /// Seeks again. What was recorded leaves its memory behind.
    fn let_go(&mut self) {
        if let State::Recording { round } | State::Following { round, .. } = std::mem::take(&mut self.state) {
            self.spare = round;
        }
    }

    /// Begins to record.
    fn recording(&mut self) -> State {
        let mut round = std::mem::take(&mut self.spare);
        round.clear();
        round.content.reserve(self.whole);
        State::Recording { round }
    }

    /// What seems to be a round, with these words the last ones, becomes one.
    fn guess(&mut self, batch: &Batch) {
        let words = batch.words();
        let Some(one) = self.seeker.sure() else { return };
        let Seek { long, longest, .. } = self.seeker.seek;
        let (length, whole) = (one.words as usize, one.at_least(long / SHORTER));
        self.length = one.words;
        (self.work, self.saved) = (one.accesses + WORD * one.words, 0);
        self.shift = self.shifts.iter().copied().min().filter(|_| self.work >= long / SHORTEST);
        let again =
            |batch: &Batch| repeats(batch, words.len() / 2, length, self.shift, |words| batch.place_up_to(words));
        let Some(strays) = Some(batch).filter(|_| whole <= longest as u64).and_then(again) else {
            return self.give_up();
        };
        (self.whole, self.fewest) = (whole as usize, one.at_least(long / SOONER) as usize);
        (self.strays, self.in_vain) = (strays, 0);
        self.seam = None;
        self.state = if let Some(all) = self.past.rounds.first()
            && let words = all.content.words()
            && let Some(before) = words.len().checked_sub(self.whole)
            && let Some(strays) =
                repeats(&all.content, before + length, length, self.shift, |words| all.place_up_to(words))
            && let past = all.last(length, std::mem::take(&mut self.spare))
            && past.words() == length
        {
            let alike = words.iter().rev().zip(words.iter().rev().skip(length)).take_while(|(one, other)| one == other);
            self.seam = Some((length - alike.count() % length) % length);
            self.strays |= strays;
            State::following(past, Place::START, Origin::Past)
        } else {
            self.recording()
        };
    }
}

impl State {
    /// The round came up to there.
    fn following(round: Round, at: Place, of: Origin) -> Self {
        Self::Following { round, at, more: 0, counted: None, seam: None, of }
    }
}

impl Past {
    /// Adds a batch of a slot, if what a word stands for is worth it; else begins anew.
    pub(crate) fn keep(&mut self, slot: usize, batch: &Batch, bucket: Bucket, Seek { longest, dense, .. }: Seek) {
        let (words, most) = (batch.words().len(), longest / 2);
        (self.words, self.accesses) = (self.words + words, self.accesses + batch.accesses());
        if self.accesses < dense.saturating_mul(self.words as u64) {
            *self = Self::default();
            return;
        }
        self.rounds.resize_with(self.rounds.len().max(slot + 1), Round::default);
        self.rounds[slot].record(batch, batch.end(), bucket);
        self.pieces.push((slot as u32, words));
        if self.words > most + most / 4 {
            self.forget(self.words - most);
        }
    }

    /// So many words, or a piece more, are forgotten: those that came first.
    fn forget(&mut self, words: usize) {
        let (mut gone, mut left, mut first) = (vec![0; self.rounds.len()], words, 0);
        while left > 0 {
            let (slot, words) = self.pieces[first];
            gone[slot as usize] += words;
            (first, left) = (first + 1, left.saturating_sub(words));
        }
        self.pieces.drain(..first);
        for (round, gone) in self.rounds.iter_mut().zip(gone).filter(|(_, gone)| *gone > 0) {
            round.keep_last(round.words() - gone);
        }
        let before = std::mem::replace(&mut self.words, self.pieces.iter().map(|piece| piece.1).sum());
        self.accesses = (u128::from(self.accesses) * self.words as u128 / before as u128) as u64;
    }
}

/// Records among so many words that may go to other lines.
fn most_strays(words: usize) -> usize {
    STRAYS.min(1 + words / STRAY)
}

/// Whether words from a place on are the same as so many before, but for records like those; if so, whether there are such.
/// `place_up_to` is the last place up to so many words.
fn repeats(
    batch: &Batch,
    from: usize,
    before: usize,
    shift: Option<u32>,
    place_up_to: impl Fn(usize) -> Place,
) -> Option<bool> {
    /// Words that are looked at together, and of which so many may differ.
    const SOME: usize = 512;
    let (words, mut from, mut strays) = (batch.words(), from.max(before), 0);
    let (first, most) = (from, most_strays(words.len().saturating_sub(from)));
    let some = words.get(from..).unwrap_or_default().chunks(SOME).zip(words[from - before..].chunks(SOME));
    let differ = |(some, before): (&[u64], &[u64])| some.iter().zip(before).filter(|(one, other)| one != other).count();
    if some.map(differ).any(|words| words > SOME / STRAY) {
        return None;
    }
    while from < words.len()
        && let Some(same) = first_difference(&words[..words.len() - before], from - before, &words[from..])
    {
        let (at, there) = (place_up_to(from + same), place_up_to(from + same - before));
        let like = Some(there).filter(|there| there.word + before == at.word);
        let like = like.and_then(|there| batch.likeness(at, batch, there, shift?))?;
        strays += usize::from(!like.same_lines);
        if strays > most {
            return None;
        }
        from = like.end.word;
    }
    Some(from > first)
}

impl Round {
    /// Nothing, and room for so many words.
    pub(crate) fn of_length(words: usize) -> Self {
        Self { content: Batch::with_capacity(words), ..Self::default() }
    }

    /// So many words were recorded.
    pub(crate) fn words(&self) -> usize {
        self.content.words().len()
    }

    /// Adds what is before a place of a batch.
    pub(crate) fn record(&mut self, batch: &Batch, to: Place, bucket: Bucket) {
        let (is_first, begin) = (self.content.words().is_empty(), self.content.end());
        if begin.word >= self.begins.last().map_or(0, |last| last.word) + APART {
            self.begins.push(begin);
        }
        self.objects = batch.objects().filter(|&objects| is_first || self.objects == Some(objects));
        self.content.add(batch, Place::START..to);
        let end = self.content.words().len();
        match self.buckets.last_mut() {
            Some(last) if last.1 == bucket => last.0 = end,
            _ => self.buckets.push((end, bucket)),
        }
    }

    /// Its last words, so many or, where no record begins there, fewer, in place of what `last` was.
    pub(crate) fn last(&self, words: usize, mut last: Self) -> Self {
        let place = self.place_behind(self.words().saturating_sub(words));
        last.clear();
        last.objects = self.objects;
        last.content.add(&self.content, place..self.content.end());
        last.begins.extend_from_slice(&self.begins);
        last.buckets.extend_from_slice(&self.buckets);
        last.begin_at(place);
        last
    }

    /// What is before its last words, so many or fewer, goes.
    pub(crate) fn keep_last(&mut self, words: usize) {
        let place = self.place_behind(self.words().saturating_sub(words));
        self.content.forget(place);
        self.begin_at(place);
    }

    /// What was before a place is gone.
    fn begin_at(&mut self, place: Place) {
        self.begins.retain(|begin| begin.word > place.word);
        self.begins
            .iter_mut()
            .for_each(|begin| (begin.word, begin.item) = (begin.word - place.word, begin.item - place.item));
        self.buckets.retain(|(end, _)| *end > place.word);
        self.buckets.iter_mut().for_each(|(end, _)| *end -= place.word);
    }

    /// Nothing is left but its memory.
    fn clear(&mut self) {
        self.content.clear();
        self.begins.clear();
        self.buckets.clear();
        self.objects = None;
    }

    /// The place behind so many words, or, where that is within a record, behind that.
    fn place_behind(&self, words: usize) -> Place {
        let known = self.begins[..self.begins.partition_point(|begin| begin.word <= words)].last();
        let from = known.copied().unwrap_or(Place::START);
        self.content.place_behind(from, words - from.word)
    }

    /// The last place before which there are so many words at most.
    fn place_up_to(&self, words: usize) -> Place {
        let known = self.begins[..self.begins.partition_point(|begin| begin.word <= words)].last();
        self.content.place_up_to_from(known.copied().unwrap_or(Place::START), words)
    }

    /// From a place on it is what came now: these words, which are those of the same records.
    fn go_on(&mut self, at: Place, mut words: &[u64]) {
        let mut word = at.word;
        while let Some(now) = words.split_off(..words.len().min(self.words() - word)).filter(|now| !now.is_empty()) {
            self.content.overwrite(word, now);
            word = 0;
        }
    }

    /// The bucket of a word, and the first word of the next.
    fn bucket(&self, word: usize) -> (usize, Bucket) {
        self.buckets[self.buckets.partition_point(|&(end, _)| end <= word)]
    }

    /// If a batch has, from a place of its own on, what the round has from `at` on, and goes on with from its start, then where
    /// it is then.
    fn follow(&self, at: Place, batch: &Batch, from: Place, bucket: Bucket) -> Option<Place> {
        self.along(at, batch, from, bucket, None).like.map(|like| like.at)
    }

    /// Where it is then, if buckets and items are the same.
    fn place_of_end(&self, at: Place, batch: &Batch, from: Place, bucket: Bucket) -> Option<Place> {
        let (words, items) = (batch.words().len() - from.word, &batch.items()[from.item..]);
        let (mut word, end) = (at.word, at.word + words);
        while word < end {
            let (until, of) = self.bucket(word % self.content.words().len());
            if of != bucket {
                return None;
            }
            word += until - word % self.content.words().len();
        }
        let same_items = batch.is_owed() || at.item != Place::NO_ITEM && goes_on(self.content.items(), at.item, items);
        let item = if batch.is_owed() { Place::NO_ITEM } else { items.len() };
        same_items.then(|| self.behind(at, Place { word: words, item }))
    }

    /// How a batch goes on from a place of its own on as the round does from `at` on; with `shift` some records may be others of the same
    /// shape.
    pub(crate) fn along(&self, at: Place, batch: &Batch, from: Place, bucket: Bucket, shift: Option<u32>) -> Along {
        let shift = shift.filter(|_| !batch.is_owed());
        let (all, words) = (self.content.words(), &batch.words()[from.word..]);
        let (mut word, mut begin, mut strays, mut same, mut like) = (0, from, 0, None, true);
        let most = most_strays(words.len());
        while like && let Some(more) = first_difference(all, (at.word + word) % all.len(), &words[word..]) {
            word += more;
            let differs = word;
            let likeness = shift.and_then(|shift| {
                begin = batch.place_up_to_from(begin, from.word + word);
                word = begin.word - from.word;
                let there = Place { word: (at.word + word) % all.len(), item: self.content.items().len() };
                batch.likeness(begin, &self.content, there, shift)
            });
            if !likeness.as_ref().is_some_and(|likeness| likeness.same_lines) {
                let line = words[differs] >> shift.unwrap_or(0);
                same.get_or_insert((word, Stray { header: words[word], word: differs - word, line }));
                strays += 1;
            }
            match likeness {
                Some(likeness) if strays <= most => (begin, word) = (likeness.end, likeness.end.word - from.word),
                _ => like = false,
            }
        }
        let at = like.then(|| self.place_of_end(at, batch, from, bucket)).flatten();
        Along {
            same: same.map_or(words.len(), |(words, _)| words),
            like: at.map(|at| Like { at, stray: same.map(|(_, stray)| stray) }),
            differs: begin != from,
        }
    }

    /// If a batch goes on from a word as this does from `place`: since which place it has been the same, and up to where here.
    fn same_from(&self, place: usize, batch: &Batch, word: usize, bucket: Bucket) -> Option<(Place, Place)> {
        let (all, words) = (self.content.words(), batch.words());
        if !goes_on(all, place, &words[word..]) {
            return None;
        }
        let before = all[..place].iter().rev().chain(all.iter().rev().cycle());
        let same = words[..word].iter().rev().zip(before).take_while(|(a, b)| a == b).count();
        let from = batch.place_behind(Place::START, word - same);
        // Where that is here.
        let here = (place as isize + from.word as isize - word as isize).rem_euclid(all.len() as isize) as usize;
        let at = Some(self.place_behind(here)).filter(|at| at.word == here)?;
        (from != batch.end()).then_some(())?;
        Some((from, self.follow(at, batch, from, bucket)?))
    }

    /// So much behind a place, round after round.
    fn behind(&self, at: Place, more: Place) -> Place {
        let word = at.word + more.word;
        let rounds = word / self.content.words().len();
        let item = match (at.item, more.item) {
            (Place::NO_ITEM, _) | (_, Place::NO_ITEM) => Place::NO_ITEM,
            (at, more) => (at + more).checked_sub(rounds * self.content.items().len()).unwrap_or(Place::NO_ITEM),
        };
        Place { word: word % self.content.words().len(), item }
    }

    /// Gives so many words from `at` on to `take`, in batches; where it is then.
    pub(crate) fn for_each_batch(
        &self,
        mut at: Place,
        mut words: usize,
        mut take: impl FnMut(&Batch, Bucket),
    ) -> Place {
        let mut batch = Batch::new();
        while words > 0 {
            let (until, bucket) = self.bucket(at.word);
            let end = self.content.place_behind_some(at, AT_ONCE.min(words).min(until - at.word), Batch::MOST);
            batch.become_part(&self.content, at..end);
            take(&batch, bucket);
            words = words.saturating_sub(end.word - at.word);
            at = if end.word == self.content.words().len() { Place::START } else { end };
        }
        at
    }
}

/// Whether `more` is what there is from a place on, beginning again at the end.
fn goes_on<T: PartialEq>(all: &[T], from: usize, more: &[T]) -> bool {
    first_difference(all, from, more).is_none()
}

/// How much of `more` is what there is from a place on, beginning again at the end, if not all.
fn first_difference<T: PartialEq>(all: &[T], mut from: usize, more: &[T]) -> Option<usize> {
    let mut done = 0;
    while done < more.len() && !all.is_empty() {
        let (here, now) = (&all[from..], &more[done..]);
        let len = here.len().min(now.len());
        if here[..len] != now[..len] {
            return here.iter().zip(now).position(|(one, other)| one != other).map(|same| done + same);
        }
        (done, from) = (done + len, 0);
    }
    (done < more.len()).then_some(done)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::batch::TestShapes;
    use crate::{Config, Event, Item, Limits, Session, Shape, Snapshot, Step, What};
    use proptest::collection::vec as some;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::time::Duration;

    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
    pub(crate) const SEEK: Seek =
        Seek { one_in: 4, anchors: 3, long: 500, longest: 4000, dense: 0, steady: u64::MAX, kept_lines: 1 << 21 };
    /// Records, all in one bucket.
    pub(crate) type Records = (u8, Vec<Vec<u64>>);

    /// Something is done, and blocks are allocated and freed.
    pub(crate) fn shapes() -> TestShapes {
        let step = |word, what| Step { word, offset: 0, what, item: Item(word as u16 % 3) };
        let load = |word| step(word, What::Load(8));
        let shapes = [
            Shape::once(3, vec![load(1), step(2, What::Store(8))]),
            Shape::stream(6, vec![load(2), step(4, What::Store(8))]),
            Shape::once(2, vec![load(1), load(1)]),
            Shape::event(3, Event::Allocation { site: 1 }),
            Shape::event(3, Event::Allocation { site: 2 }),
            Shape::event(2, Event::Release),
        ];
        TestShapes(shapes.into_iter().map(|shape| Arc::new(shape.unwrap())).collect())
    }

    #[test]
    fn rounds_are_given_in_batches_of_few_accesses() {
        let mut round = Round::of_length(1000);
        for at in 1..21 {
            let mut batch = Batch::new();
            batch.append([2, 30_000, at << 20, 8, at << 24, 8].into_iter(), &mut shapes(), |_| {
                panic!("more than a batch holds")
            });
            round.record(&batch, batch.end(), Bucket::FIRST);
        }
        let mut accesses = Vec::new();
        round.for_each_batch(Place::START, round.words(), |batch, _| accesses.push(batch.accesses()));
        assert!(accesses.iter().all(|&accesses| accesses < 2 * Batch::MOST), "{accesses:?}");
        assert_eq!(accesses.iter().sum::<u64>(), 20 * 60_000);
    }

    /// What a session says in the end, its records in batches of so many each.
    fn says(config: &Config, records: &[Records], cuts: &[usize], helped: bool, second: Option<usize>) -> Snapshot {
        let session = Session::new(config.clone());
        let slot = session.take_slot();
        let (mut shapes, mut cuts, mut batches) = (shapes(), cuts.iter().cycle(), 0);
        let feed = |slot, batch: &mut Batch, bucket| match helped {
            true => session.hand_over(slot, batch, bucket),
            false => session.feed(slot, batch, bucket),
        };
        /// Helpers end, whatever happens.
        struct Close<'a>(&'a Session);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.close();
            }
        }
        std::thread::scope(|scope| {
            let _closed = Close(&session);
            if helped {
                session.pipelined();
                scope.spawn(|| session.help(Duration::from_millis(1), || true));
            }
            for (bucket, mut records) in records.iter().map(|(bucket, records)| (*bucket, &records[..])) {
                while !records.is_empty() {
                    let (now, rest) = records.split_at(records.len().min(*cuts.next().unwrap_or(&1)));
                    let mut batch = Batch::new();
                    batch.append(now.iter().flatten().copied(), &mut shapes, |_| panic!("more than a batch holds"));
                    session.note(slot, &mut batch);
                    feed(slot, &mut batch, Bucket(bucket));
                    records = rest;
                    batches += 1;
                    if Some(batches) == second {
                        let mut other = Batch::new();
                        other.append([1, 0x9_0000, 0x10_0000].into_iter(), &mut shapes, |_| {});
                        feed(session.take_slot(), &mut other, Bucket::FIRST);
                    }
                }
            }
            assert!(session.settle(PATIENCE));
            session.snapshot(PATIENCE)
        })
    }

    pub(crate) fn config(rounds: Option<Seek>) -> Config {
        let limits = Limits { max_set_bits: 6, max_ways: 8 };
        Config { line_sizes: vec![64, 256], limits, by_item: true, rounds, ..Config::default() }
    }

    /// A loop over an array, then some accesses to the same line.
    fn step(len: u64) -> Vec<Records> {
        let sweep = (0..len).map(|i| vec![1, 0x10_0000 + i * 64, 0x20_0000 + i * 24]);
        vec![(1, sweep.collect()), (2, vec![vec![2, 100, 0x10_0000, 8, 0x30_0000, 8], vec![3, 0x10_0000]])]
    }

    #[test]
    fn rounds_count_as_often_as_they_come() {
        let records: Vec<_> = (0..40).flat_map(|_| step(100)).collect();
        let snapshot = says(&config(Some(SEEK)), &records, &[7], false, None);
        let each = 2 * 100 + 2 * 100 + 2;
        assert_eq!(snapshot.accesses, 40 * each);
        assert!((30 * each..38 * each).contains(&snapshot.again), "{}", snapshot.again);
        assert_eq!(Snapshot { again: 0, ..snapshot }, says(&config(None), &records, &[7], false, None));
    }

    #[test]
    fn what_came_before_the_guess_need_not_be_recorded() {
        let again = |dense: u64, is_alike: bool| {
            let mut records: Vec<_> = (0..20).flat_map(|_| step(150)).collect();
            if !is_alike {
                records[0].1[149][1] += 0x1000;
            }
            let snapshot = says(&config(Some(Seek { dense, ..SEEK })), &records, &[7], false, None);
            let again = snapshot.again;
            assert_eq!(Snapshot { again: 0, ..snapshot }, says(&config(None), &records, &[7], false, None));
            again / (2 * 150 + 2 * 100 + 2)
        };
        assert_eq!([again(0, true), again(9, true)], [17, 16]);
        // One record that goes elsewhere does no harm.
        assert_eq!([again(0, false), again(9, false)], [17, 16]);
    }

    #[test]
    fn nothing_of_the_last_round_is_analysed_again() {
        // Of 20 or 60 rounds one brings the lines to their places, a part of one shows that they come again, and one is counted;
        // after something else one brings them back.
        let last = |by_object: bool, other: Option<Vec<u64>>| {
            // Rounds end within batches.
            let mut records: Vec<_> = (0..20).flat_map(|_| step(150)).flat_map(|(_, records)| records).collect();
            records.extend(other);
            let records = [(1, vec![records; 3].concat())];
            let config = |rounds| Config { by_object, ..config(rounds) };
            let snapshot = says(&config(Some(SEEK)), &records, &[7], false, None);
            let again = snapshot.again;
            assert_eq!(Snapshot { again: 0, ..snapshot }, says(&config(None), &records, &[7], false, None));
            again
        };
        let each = 2 * 150 + 2 * 100 + 2;
        let (other, alike) = (vec![3, 0x60_0000], vec![1, 0x10_0000, 0x60_0000]);
        let all = [(false, None), (false, Some(&other)), (true, Some(&other)), (false, Some(&alike))];
        for (by_object, other) in all {
            let again = last(by_object, other.cloned());
            let most = if other.is_some() { 18 + 2 * 19 } else { 58 };
            assert!((each * (2 * most - 3) / 2..each * most).contains(&again), "{again} of {each} each, {other:?}");
        }
    }

    #[test]
    fn a_round_comes_again_after_something_else() {
        // After every twentieth round one record more.
        let rounds = |other: fn(u64) -> Vec<u64>| {
            let all = (0..10).flat_map(|i| (0..20).flat_map(|_| step(100)).chain([(1, vec![other(i)])]));
            let all: Vec<Records> = all.collect();
            let snapshot = says(&config(Some(SEEK)), &all, &[7], false, None);
            let again = snapshot.again;
            assert_eq!(Snapshot { again: 0, ..snapshot }, says(&config(None), &all, &[7], false, None));
            again / (2 * 100 + 2 * 100 + 2)
        };
        // One is analysed each time.
        let elsewhere = rounds(|i| vec![3, 0x60_0000 + i * 64]);
        assert!((200 - 3 - 10 * 3 / 2..200 - 10).contains(&elsewhere), "{elsewhere}");
        // Two, where a line is stored to that the round loads; not where it stores to it.
        let loaded = rounds(|i| vec![1, 0x60_0000, 0x10_0000 + i * 64]);
        assert!((200 - 3 - 10 * 5 / 2..=200 - 10 * 2).contains(&loaded), "{loaded}");
        let stored = rounds(|i| vec![1, 0x10_0000, 0x20_0000 + i * 64]);
        assert!((200 - 3 - 10 * 4 / 2..200 - 10).contains(&stored), "{stored}");
        // An event makes another round of it.
        let anew = rounds(|i| vec![4, 0x60_0000 + i * 0x1000, 0x300]);
        assert!(anew < 200 - 10 * 2, "{anew}");
    }

    #[test]
    fn a_part_of_a_round_is_another_one() {
        let part = |_| vec![(1, step(150).remove(0).1[..100].to_vec())];
        let records: Vec<_> = (0..20).flat_map(|_| step(150)).chain((0..100).flat_map(part)).collect();
        let snapshot = says(&config(Some(SEEK)), &records, &[7], false, None);
        assert!(snapshot.again > 13 * (2 * 150 + 202) + 60 * 200, "{}", snapshot.again);
        assert_eq!(Snapshot { again: 0, ..snapshot }, says(&config(None), &records, &[7], false, None));
    }

    #[test]
    fn what_is_only_compared_is_attributed_where_objects_change() {
        let run = |rounds: Option<Seek>| {
            let session = Session::new(Config { by_object: true, ..config(rounds) });
            let (slot, mut shapes, mut owed) = (session.take_slot(), shapes(), 0);
            for round in 0..60 {
                if round % 25 == 24 {
                    // As a library that is loaded does, without a record.
                    session.objects(PATIENCE, |objects| objects.add_global(0x10_0000, 0x1000, round));
                }
                for (bucket, records) in step(100) {
                    let mut batch = Batch::new();
                    batch.append(records.into_iter().flatten(), &mut shapes, |_| panic!("more than a batch holds"));
                    session.note(slot, &mut batch);
                    owed += u32::from(batch.is_owed());
                    session.feed(slot, &batch, Bucket(bucket));
                }
            }
            assert!(session.settle(PATIENCE));
            (Snapshot { again: 0, ..session.snapshot(PATIENCE) }, owed)
        };
        let ((snapshot, owed), (all, none)) = (run(Some(SEEK)), run(None));
        assert!(owed > 2 * 30 && none == 0, "{owed}");
        assert_eq!(snapshot, all);
    }

    #[test]
    fn a_round_counts_again_while_what_it_does_elsewhere_stays_in_a_line() {
        // What each of 96 rounds stores where no other did.
        let rounds_of = |seek, by_object: bool, store: fn(u64) -> Vec<u64>| {
            let of = |i| [step(150), vec![(1, vec![store(i)])], step(100)].concat();
            let records: Vec<Records> = (0..96).flat_map(of).collect();
            let config = |rounds| Config { by_object, line_sizes: vec![64], ..config(rounds) };
            let snapshot = says(&config(Some(seek)), &records, &[7, 30], false, None);
            let again = snapshot.again;
            assert_eq!(Snapshot { again: 0, ..snapshot }, says(&config(None), &records, &[7, 30], false, None));
            again / (2 * 150 + 2 * 100 + 4 + 2 * 100 + 200 + 2)
        };
        let rounds = |by_object: bool, store: fn(u64) -> Vec<u64>| rounds_of(SEEK, by_object, store);
        // Of eight whose numbers share a line one is counted; where each has a line of its own none count again.
        for by_object in [false, true] {
            let one = rounds(by_object, |i| vec![3, 0x60_0000 + i * 8]);
            assert!((96 * 6 / 8..=96 * 7 / 8).contains(&one), "{one}");
            let two = rounds(by_object, |i| vec![1, 0x60_0000 + i * 8, 0x50_0008 + i * 8]);
            assert!((96 * 5 / 8..=96 * 6 / 8).contains(&two), "{two}");
        }
        assert!(rounds(false, |i| vec![3, 0x60_0000 + i * 64]) < 5);
        // In turn.
        let ring = rounds(false, |i| vec![3, 0x60_0000 + i % 4 * 32]);
        assert!(ring > 96 * 5 / 8, "{ring}");
        // Not where that saves less than it takes.
        let few = [500, 50_000].map(|long| rounds_of(Seek { long, ..SEEK }, false, |i| vec![3, 0x60_0000 + i * 24]));
        assert!(few[0] > 96 / 2 && few[1] < 96 / 6, "{few:?}");
    }

    #[test]
    fn what_comes_once_is_no_round() {
        let sweep = |_| (0..500_u64).map(|i| vec![1, 0x10_0000 + i * i % 8192 * 8, 0x10_0000 + i * 72]);
        let records: Vec<Records> = (0..3).map(|i| (1, sweep(i).collect())).collect();
        assert_eq!(says(&config(Some(SEEK)), &records[..2], &[50], false, None).again, 0);
        let different: Vec<Records> =
            (0..40).map(|i| (1, sweep(i).chain([vec![3, 0x40_0000 + i * 64]]).collect())).collect();
        assert_eq!(says(&config(Some(SEEK)), &different, &[50], false, None).again, 0);
    }

    #[test]
    fn a_wrong_guess_is_given_up() {
        let mut rounds = Rounds::new(Seek { dense: 10, ..SEEK }, vec![6]);
        let batch = |line: u64| {
            let mut batch = Batch::new();
            batch.append((0..100).flat_map(|i| [3, (line + i * 7) << 6]), &mut shapes(), |_| {});
            batch
        };
        let ([first, second], other) = ([batch(1), batch(1000)], batch(2));
        // Half of one is to be counted.
        let begins = |rounds: &mut Rounds| {
            let mut halves = [&first, &second].into_iter().cycle().take(1000);
            halves.any(|half| matches!(rounds.next(half, Bucket::FIRST, false), Next::Count(part) if part.begins))
        };
        assert!(begins(&mut rounds), "{rounds:?}");
        assert_eq!(rounds.next(&other, Bucket::FIRST, false), Next::Analyse);
        assert!(matches!(rounds.state, State::Seeking));
        // Of another bucket, or where there is no room, it is another round.
        assert!(begins(&mut rounds));
        assert_eq!(rounds.next(&first, Bucket(2), false), Next::Analyse);
        assert!(matches!(rounds.state, State::Seeking));
        assert!((0..1000).all(|_| rounds.next(&first, Bucket::FIRST, true) == Next::Analyse));
    }

    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![3 => 0x1_0000..0x1_4000_u64, 1 => 0x1_0000..0x4_0000_u64, 1 => Just(0)]
    }

    pub(crate) fn record() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            8 => (address(), address()).prop_map(|(a, b)| vec![1, a, b]),
            1 => (4..6_u64, address()).prop_map(|(site, at)| vec![site, at, 0x300]),
            1 => address().prop_map(|at| vec![6, at]),
            3 => address().prop_map(|a| vec![3, a]),
            1 => (0..80_u64, address(), address()).prop_map(|(count, a, b)| vec![2, count, a, 8, b, 8]),
        ]
    }

    /// Of a piece that comes several times, some records that go so much further each time.
    type Moving = Vec<(prop::sample::Index, u64)>;

    /// Pieces that come several times in a row, some of them with other things in between.
    fn program() -> impl Strategy<Value = Vec<Records>> {
        let piece = some((0..3_u8, some(record(), 1..60)), 1..4);
        let moving = some((any::<prop::sample::Index>(), prop::sample::select(vec![4, 8, 24, 64, 1000])), 0..3);
        let moving = prop_oneof![Just(Moving::new()), moving];
        let pieces = some((piece, 1..30_usize, moving, proptest::option::of(record())), 1..4);
        (pieces, 1..5_usize).prop_map(|(pieces, times)| {
            let write = |(piece, times, moving, other): &(Vec<Records>, usize, Moving, Option<Vec<u64>>)| {
                let again = |time: u64| {
                    let mut piece = piece.clone();
                    for (which, apart) in moving {
                        let (_, records) = &mut piece[0];
                        let record = which.get_mut(records);
                        // The last address; strides and lengths stay.
                        let last = if record.len() == 6 { 4 } else { record.len() - 1 - usize::from(record[0] == 4) };
                        record[last] += time * apart;
                    }
                    piece
                };
                let mut all: Vec<_> = (0..*times as u64).flat_map(again).collect();
                all.extend(other.iter().map(|record| (1, vec![record.clone()])));
                all
            };
            vec![pieces.iter().flat_map(write).collect::<Vec<_>>(); times].concat()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(160))]

        #[test]
        fn rounds_change_no_figure(
            records in program(),
            cuts in some(1..40_usize, 1..5),
            helped in any::<bool>(),
            second in proptest::option::of(1..400_usize),
            by_object in any::<bool>(),
        ) {
            let config = |rounds| Config { by_object, ..config(rounds) };
            let all = says(&config(None), &records, &cuts, false, second);
            let snapshot = says(&config(Some(SEEK)), &records, &cuts, helped, second);
            prop_assert_eq!(Snapshot { again: 0, ..snapshot }, all);
        }
    }
}

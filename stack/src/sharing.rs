//! What other threads' stores do to the stack of one: lines are taken away, and what is counted of that.
//!
//! Kept only of stacks whose lines can be taken away ([`crate::Stack::share`]); others have none of this and pay nothing.

use crate::by_line::{Mix, bits};
use crate::counts::{Binned, Bins, Buckets};
use crate::digest::Digesting;
use crate::held::{ENTRIES, Entry};
use crate::holes::{Holes, Instant};
use crate::lines::{Id, Ids, Part, REGION};
use crate::simd;
use crate::visit::Visit;
use crate::{Bucket, Limits, boxed};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Where a line stands: items above it, lines and holes, by set count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// With one set.
    pub full: u32,
    /// With 2^a sets, a = 1, 2, …, at index a - 1: cut off at `max_ways` or beyond; any beyond `max_set_bits`.
    pub by_set: [u8; Limits::MOST_SET_BITS as usize],
}

impl Position {
    pub(crate) fn new<const W: usize>(full: u32, by_set: &[u8; W]) -> Self {
        let mut all = [0; Limits::MOST_SET_BITS as usize];
        all[..W].copy_from_slice(by_set);
        Self { full, by_set: all }
    }

    /// The lesser at each set count.
    #[must_use]
    pub fn min(mut self, other: &Self) -> Self {
        self.full = self.full.min(other.full);
        self.by_set.iter_mut().zip(other.by_set).for_each(|(mine, other)| *mine = other.min(*mine));
        self
    }

    /// Whether it is nowhere deeper.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        self.full <= other.full
            && self.by_set.iter().zip(&other.by_set).fold(true, |all, (mine, other)| all & (mine <= other))
    }

    pub(crate) fn max(mut self, other: &Self) -> Self {
        self.full = self.full.max(other.full);
        self.by_set.iter_mut().zip(other.by_set).for_each(|(mine, other)| *mine = other.max(*mine));
        self
    }
}

/// Counts by a position or distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByPosition {
    /// One set: bins ascending, no empty ones.
    pub full: Vec<Binned>,
    /// 2^a sets, a = 1, 2, …: index p below `max_ways` is the position, index `max_ways` all from there on.
    pub sets: Vec<Vec<u64>>,
}

/// What is counted of sharing, section 5 of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A reference found its line taken away: by the position it had then.
    Lost,
    /// A line of this stack was taken away, by its position.
    Received,
    /// A store took a line of another stack away, by its position there.
    Sent,
    /// A reference that another stack could serve, by the least position of the line in the others.
    Remote,
    /// The same references by their own distance, where there is one.
    Own,
    /// A dirty line of this stack was read or written by another, by the greatest distance since its store.
    Dirty,
}

/// The counts of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// References that found their line taken away, by the position it had then.
    pub lost: ByPosition,
    /// Lines that others' stores took away, by position.
    pub received: ByPosition,
    /// Lines of others that stores took away, by their position there.
    pub sent: ByPosition,
    /// References that another stack could serve, by the least position of the line there, where that is less than the
    /// distance here.
    pub remote: ByPosition,
    /// The same references by the distance here, where there is one.
    pub own: ByPosition,
    /// Dirty lines that another read or wrote, by the greatest distance since the store, the position then included.
    pub dirty: ByPosition,
}

/// Counts by position while running.
#[derive(Clone, Debug)]
struct Positions {
    full: Bins,
    /// By set count and position, `positions` of them.
    sets: Vec<u64>,
    positions: usize,
}

impl Positions {
    fn new(limits: Limits) -> Self {
        let positions = limits.max_ways as usize + 1;
        Self { full: Bins::default(), sets: vec![0; positions * limits.max_set_bits as usize], positions }
    }

    /// One more with 2^(index + 1) sets, so often.
    #[inline(always)]
    fn count(&mut self, index: usize, position: u8, times: u64) {
        self.sets[index * self.positions + usize::from(position).min(self.positions - 1)] += times;
    }

    /// Whether something was counted.
    fn any(&self) -> bool {
        !self.full.binned(None).is_empty() || self.sets.iter().any(|&count| count > 0)
    }

    fn add(&mut self, other: &Self, times: u64) {
        self.full.merge(&other.full, times);
        self.sets.iter_mut().zip(&other.sets).for_each(|(sum, count)| *sum += count * times);
    }
}

const EVENTS: usize = Event::Dirty as usize + 1;

/// All events of one bucket, made when first counted.
#[derive(Clone, Debug, Default)]
struct Events([Option<Box<Positions>>; EVENTS]);

/// What was counted here from one moment to another.
#[derive(Clone, Debug)]
pub(crate) struct Since<const W: usize> {
    counts: Vec<Events>,
    pub(crate) within: Buckets<W>,
}

impl<const W: usize> Since<W> {
    fn new(limits: Limits) -> Self {
        Self { counts: Vec::new(), within: Buckets::new(limits) }
    }

    fn add(&mut self, other: &Self, times: u64) {
        self.within.absorb_times(&other.within, times);
        add_events(&mut self.counts, &other.counts, times);
    }
}

/// Adds counts by bucket, so often.
fn add_events(sum: &mut Vec<Events>, other: &[Events], times: u64) {
    sum.resize_with(sum.len().max(other.len()), Events::default);
    for (sum, other) in sum.iter_mut().zip(other) {
        for (sum, other) in sum.0.iter_mut().zip(&other.0) {
            let Some(other) = other else { continue };
            let none = || Box::new(Positions { full: Bins::default(), sets: vec![0; other.sets.len()], ..**other });
            sum.get_or_insert_with(none).add(other, times);
        }
    }
}

/// Of a stack whose lines can be taken away.
#[derive(Clone, Debug)]
pub(crate) struct Sharing<const W: usize> {
    pub(crate) slot: u32,
    limits: Limits,
    /// The time of the next reference.
    now: Instant,
    /// When each held line was last referenced.
    held: Box<[Instant; ENTRIES]>,
    /// By id, of lines that are not held: when they were last referenced, 0 if never, or [`LOST`].
    lines: Vec<Box<[Instant]>>,
    /// Where lines stood that were taken away and not referenced since.
    lost: HashMap<Id, Position, BuildHasherDefault<Mix>>,
    pub(crate) holes: Holes<W>,
    counts: Vec<Events>,
    /// What the stack of all threads is to know.
    pub(crate) digesting: Digesting<W>,
    /// What is counted here for that one too.
    pub(crate) within: Buckets<W>,
    /// What was counted before the last mark.
    before: Since<W>,
    /// What visits of its batches can use again.
    pub(crate) visits: Vec<Visit>,
}

const LOST: Instant = Instant::MAX;

/// What is known of a line that is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Never referenced.
    Never,
    /// Taken away since.
    Lost,
    /// Here, last referenced then.
    At(Instant),
}

impl<const W: usize> Sharing<W> {
    pub(crate) fn new(slot: u32, limits: Limits) -> Self {
        Self {
            slot,
            limits,
            now: 1,
            held: boxed::array(0),
            lines: Vec::new(),
            lost: HashMap::default(),
            holes: Holes::new(limits.max_set_bits, limits.max_ways),
            counts: Vec::new(),
            digesting: Digesting::new(),
            within: Buckets::new(limits),
            before: Since::new(limits),
            visits: Vec::new(),
        }
    }

    /// What is counted from now on is told apart.
    pub(crate) fn mark(&mut self) {
        let since = self.since_mark();
        self.before.add(&since, 1);
        self.counts.clear();
        self.within = Buckets::new(self.limits);
    }

    /// What was counted since.
    pub(crate) fn since_mark(&self) -> Since<W> {
        Since { counts: self.counts.clone(), within: self.within.settled() }
    }

    /// Counts that again, so often.
    pub(crate) fn count_again(&mut self, since: &Since<W>, times: u64) {
        self.before.add(since, times);
    }

    /// All that was counted here for the stack of all threads.
    pub(crate) fn all_within(&self) -> Buckets<W> {
        let mut all = self.within.clone();
        all.absorb(&self.before.within);
        all
    }

    /// A line in the upper tiers is referenced now; returns when it was before.
    #[inline(always)]
    pub(crate) fn touch(&mut self, entry: Entry) -> Instant {
        self.now += 1;
        std::mem::replace(&mut self.held[usize::from(entry) % ENTRIES], self.now - 1)
    }

    /// Whether there is nothing that was taken away and not referenced since.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.lost.is_empty() && !self.holes.may_be_above(0)
    }

    /// When a line in the upper tiers was last referenced.
    pub(crate) fn held(&self, entry: Entry) -> Instant {
        self.held[usize::from(entry)]
    }

    /// The segment of a digest ends here.
    pub(crate) fn cut(&mut self) {
        self.cut_at(self.now);
    }

    /// It ended before the last reference.
    pub(crate) fn cut_before_last(&mut self) {
        self.cut_at(self.now - 1);
    }

    fn cut_at(&mut self, now: Instant) {
        let held = &self.held;
        self.digesting.cut(now, |entry| held[usize::from(entry)]);
    }

    /// What is known of a line that is in no upper tier.
    #[inline(always)]
    pub(crate) fn known(&self, id: Id) -> Known {
        match self.lines.get(id as usize / REGION).map_or(0, |region| region[id as usize % REGION]) {
            0 => Known::Never,
            LOST => Known::Lost,
            last => Known::At(last),
        }
    }

    /// Fetches what [`Self::known`] will look at.
    #[inline(always)]
    pub(crate) fn prefetch(&self, id: Id) {
        if let Some(region) = self.lines.get(id as usize / REGION) {
            simd::prefetch(&region[id as usize % REGION]);
        }
    }

    /// A line is not held: it was last referenced at `last`, or is [`LOST`].
    #[inline(always)]
    pub(crate) fn note(&mut self, id: Id, last: Instant) {
        let region = id as usize / REGION;
        if region >= self.lines.len() {
            self.lines.resize_with(region + 1, || vec![0; REGION].into_boxed_slice());
        }
        self.lines[region][id as usize % REGION] = last;
    }

    /// When a line was last referenced, as far as is known of one that is held: 0 if it was not, `None` if it was taken away.
    #[inline(always)]
    pub(crate) fn last(&self, id: Option<Id>) -> Option<Instant> {
        match id.map_or(Known::Never, |id| self.known(id)) {
            Known::Never => Some(0),
            Known::At(last) => Some(last),
            Known::Lost => None,
        }
    }

    /// How many of some lines are before the first that was taken away, and when the first of those was last referenced, 0 if one was
    /// not. Of each 1 + the id, 0 if it has none.
    pub(crate) fn oldest(&self, ids: &[Id]) -> (usize, Instant) {
        let (mut region, mut number) = (&[][..], usize::MAX);
        let (mut oldest, mut newest) = (Instant::MAX, 0);
        for &id in ids {
            let at = (id as usize).wrapping_sub(1);
            if at / REGION != number {
                number = at / REGION;
                region = self.lines.get(number).map_or(&[][..], |region| region);
            }
            let last = region.get(at % REGION).copied().unwrap_or(0);
            (oldest, newest) = (oldest.min(last), newest.max(last));
        }
        if newest != LOST {
            return (ids.len(), oldest);
        }
        let is_lost = |&id: &Id| self.last(id.checked_sub(1)).is_none();
        let here = ids.iter().position(is_lost).unwrap_or(ids.len());
        (here, self.oldest(&ids[..here]).1)
    }

    /// A loop walked over lines, of which these are 1 + the ids: when each was last referenced.
    #[inline(always)]
    pub(crate) fn note_all(&mut self, ids: &[Id], at: impl Fn(u32) -> Instant) {
        let mut done = 0;
        while let Some(rest) = ids.get(done as usize..).filter(|rest| !rest.is_empty()) {
            let mut ids = Ids::even(rest, 1);
            while let Some(Part { region, places, step, lines }) = ids.next_part() {
                self.note((region * REGION + places.start) as Id, at(done));
                let noted = self.lines[region][places].iter_mut().step_by(step);
                noted.zip(done..).for_each(|(last, number)| *last = at(number));
                done += lines;
            }
        }
    }

    /// When lines are referenced that come next, and so many of them are.
    pub(crate) fn pass(&mut self, lines: u64) -> Instant {
        self.now += lines;
        self.now - lines
    }

    /// A line of the older tier was referenced before there was any of this; oldest first.
    pub(crate) fn begin_older(&mut self, id: Id) {
        self.now += 1;
        self.note(id, self.now - 1);
    }

    /// A line that stood at `position` was taken away.
    pub(crate) fn lose(&mut self, id: Id, position: Position) {
        self.note(id, LOST);
        self.lost.insert(id, position);
    }

    /// A line that was lost comes back.
    pub(crate) fn come_back(&mut self, id: Id, bucket: Bucket, weight: u64) {
        if let Some(position) = self.lost.remove(&id) {
            self.count(Event::Lost, bucket, &position, weight);
        }
    }

    fn tally(&mut self, event: Event, bucket: Bucket) -> Option<&mut Positions> {
        let index = usize::from(bucket.0).checked_sub(1)?;
        if index >= self.counts.len() {
            self.counts.resize_with(index + 1, Events::default);
        }
        let limits = self.limits;
        Some(self.counts[index].0[event as usize].get_or_insert_with(|| Box::new(Positions::new(limits))))
    }

    pub(crate) fn count(&mut self, event: Event, bucket: Bucket, at: &Position, weight: u64) {
        let set_counts = self.limits.max_set_bits as usize;
        if let Some(tally) = self.tally(event, bucket) {
            tally.full.add(at.full.into(), weight);
            at.by_set.iter().take(set_counts).enumerate().for_each(|(index, &p)| tally.count(index, p, weight));
        }
    }

    /// References to so many lines, each so often, that another stack holds at `there`, each so much `deeper` with one set than the
    /// one before; here they stand at `own`, or nowhere.
    pub(crate) fn count_remote(
        &mut self,
        bucket: Bucket,
        (there, deeper, lines): (&Position, u32, u32),
        own: Option<&Position>,
        times: u64,
    ) {
        let full = |line: u32| there.full.wrapping_add(line.wrapping_mul(deeper));
        let least = Position { full: full(0).min(full(lines - 1)), ..*there };
        if own.is_some_and(|own| own.is_above(&least)) {
            return;
        }
        let Limits { max_set_bits, max_ways } = self.limits;
        // Which set counts it serves, as bits.
        let served =
            own.map_or(u64::MAX, |own| nearer(&there.by_set, &own.by_set, max_ways)) & ((1 << max_set_bits) - 1);
        let all = times * u64::from(lines);
        let mut served_full = 0;
        if let Some(remote) = self.tally(Event::Remote, bucket) {
            for full in (0..lines).map(full).filter(|&full| own.is_none_or(|own| full < own.full)) {
                remote.full.add(full.into(), times);
                served_full += times;
            }
            bits(served).for_each(|index| remote.count(index as usize, there.by_set[index as usize], all));
        }
        let Some(own) = own.filter(|_| served != 0 || served_full > 0) else { return };
        if let Some(tally) = self.tally(Event::Own, bucket) {
            if served_full > 0 {
                tally.full.add(own.full.into(), served_full);
            }
            bits(served).for_each(|index| tally.count(index as usize, own.by_set[index as usize], all));
        }
    }

    /// What was counted, by bucket.
    pub(crate) fn counts(&self) -> Vec<(Bucket, Shared)> {
        let mut all = self.counts.clone();
        add_events(&mut all, &self.before.counts, 1);
        // Where others could have served nothing nothing is counted, though it was looked for.
        let events = all.iter_mut().flat_map(|events| &mut events.0);
        events.for_each(|tally| drop(tally.take_if(|tally| !tally.any())));
        let counted = all.iter().zip(1..).filter(|(events, _)| events.0.iter().any(Option::is_some));
        counted
            .map(|(events, bucket)| {
                let of = |event: Event| {
                    let tally = events.0[event as usize].as_ref();
                    tally.map_or_else(ByPosition::default, |tally| ByPosition {
                        full: tally.full.binned(None),
                        sets: tally.sets.chunks(tally.positions).map(trimmed).collect(),
                    })
                };
                let shared = Shared {
                    lost: of(Event::Lost),
                    received: of(Event::Received),
                    sent: of(Event::Sent),
                    remote: of(Event::Remote),
                    own: of(Event::Own),
                    dirty: of(Event::Dirty),
                };
                (Bucket(bucket), shared)
            })
            .collect()
    }
}

type BySet = [u8; Limits::MOST_SET_BITS as usize];

/// At which set counts, as bits, one position is less than another and than `ways`.
#[inline]
fn nearer(one: &BySet, other: &BySet, ways: u32) -> u64 {
    let (ways, mut nearer) = (ways as u8, [0; Limits::MOST_SET_BITS as usize]);
    for ((nearer, one), other) in nearer.iter_mut().zip(one).zip(other) {
        *nearer = u8::from(one < other) & u8::from(*one < ways);
    }
    // Eight bytes to bits.
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    nearer.as_chunks().0.iter().rfold(0, |all, eight| all << 8 | bits(eight))
}

/// Without the zeros at its end.
fn trimmed(row: &[u64]) -> Vec<u64> {
    row[..row.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)].to_vec()
}

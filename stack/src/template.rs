//! Loops whose references were made before, elsewhere.
//!
//! A loop over arrays makes the same references whenever it is entered, but that all lines have moved on by the same
//! number. Whether two lines share a set depends on the difference of their numbers only, so every distance between the
//! references of such a loop is the same each time. They are found once and kept as a *template*: a segment as digests have
//! them, its lines counted from a base, and what is counted within it. Each *use* of it works off the segment alone. What is
//! counted within waits until the counts are asked for, or another template needs the place.
//!
//! Invariant: the references of a use are those of which its template was made, all moved by the same number of lines.
//! Keys stand for that: who feeds a stack says by them which references are alike.

use crate::counts::{Buckets, Counts};
use crate::digest::{Digest, Segment};
use crate::digester::{Read, Segments};
use crate::repeats::{Combination, Kind};
use crate::runs::{Run, STORE, first};
use crate::simd::{Portable, Task, Vector};
use crate::walk::Walks;
use crate::{Bucket, Chunk, Item};
use std::collections::BTreeMap;
use std::ops::Range;

/// Templates, at most: sets of some.
const SETS: usize = 1 << 11;
const WAYS: usize = 4;
/// So many uses have to come for each template that is made, after the first few.
const EARNED: u64 = 4;
const FREE: u64 = 1 << 10;
/// Keys remembered that were asked for once, at most.
const ASKED: usize = 1 << 12;
/// After so many keys in a row that nothing is known for, so many are not asked for.
const TRIES: u32 = 64;
const PAUSE: u32 = 192;
/// A template pays if it has so many times fewer lines than references that are not on top.
const PAYS: usize = 2;

/// Uses of a template, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// They come before the [`Chunk::parts`] of this number.
    pub part: u32,
    /// Which.
    pub template: u32,
    /// The line that lines are counted from.
    pub base: u64,
    /// How many.
    pub times: u32,
    /// By so many lines each has moved on from the one before.
    pub step: i64,
}

impl Use {
    /// The base of the next one.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let base = self.base;
        self.times = self.times.checked_sub(1)?;
        self.base = base.wrapping_add_signed(self.step);
        Some(base)
    }
}

/// What there is for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A template.
    Template(u32),
    /// Nothing, and the key was asked for before: one should be made.
    Again,
    /// Nothing yet.
    New,
    /// Nothing, and it would not pay.
    Never,
}

/// What became of a loop that was to walk over lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// It did.
    All,
    /// It did not: a line has to be looked at by itself, which comes after so many periods.
    Until(u64),
    /// It did not, and would not now.
    Not,
}

/// Takes references, and templates instead of those that come again elsewhere.
pub trait Learns {
    /// Whether to look for templates of what comes next: where none were found of late it is not always worth while.
    fn seeks(&mut self) -> bool;

    /// Looks for a template of references that are known by a key: those with the same key are the same but that all lines
    /// have moved by the same number. To be asked where [`Learns::seeks`] says so.
    fn find(&mut self, key: &[u64], bucket: Bucket) -> Found;

    /// Makes a template of references, where [`Learns::find`] said [`Found::Again`]; it does not take them. `base`: the line that
    /// [`Use::base`] stands for. Templates that were found before may be gone.
    fn learn(&mut self, key: &[u64], base: u64, chunk: Chunk<'_>, bucket: Bucket);

    /// Whether to look for loops that walk over lines: not everybody takes them.
    fn walks(&mut self) -> bool {
        false
    }

    /// As [`Learns::find`], for such a loop as a whole, however often it goes round: see [`Learns::learn_walk`].
    fn find_walk(&mut self, _key: &[u64], _bucket: Bucket) -> Found {
        Found::Never
    }

    /// Makes a template of a loop that walks over lines along `strands`, by as many lines in each of its periods. The last `pins` of
    /// them are lines that it comes back to in each. It was asked for by a key; those with the same key make the same references in
    /// each period, from the first line of each strand on, and the strands share sets in the same ways, and the pins. Of two such
    /// loops the second one has one period more: `periods`. Takes neither.
    fn learn_walk(
        &mut self,
        _key: &[u64],
        _strands: &[Range<u64>],
        _pins: usize,
        _periods: u64,
        _loops: [Chunk<'_>; 2],
        _bucket: Bucket,
    ) {
    }

    /// Takes such a loop from the first lines of its strands on, of so many periods: not fewer than its template was made of.
    fn walk(&mut self, _template: u32, _strands: &[Range<u64>], _periods: u64, _bucket: Bucket) -> Went {
        Went::Not
    }

    /// Takes a chunk in program order.
    fn take(&mut self, chunk: Chunk<'_>, bucket: Bucket);
}

#[derive(Clone, Debug)]
struct Template<const W: usize> {
    key: Box<[u64]>,
    hash: u64,
    bucket: Bucket,
    /// One segment; `None`: it would not pay.
    digest: Option<Digest>,
    within: Within<W>,
    /// Uses that are not counted yet.
    uses: u64,
}

/// What is counted each time within a segment, first references to lines included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Within<const W: usize> {
    references: BTreeMap<Item, [u64; 2]>,
    counted: Vec<Combination<W>>,
}

/// All of one stack.
#[derive(Clone, Debug)]
pub(crate) struct Templates<const W: usize> {
    /// None before the first. Those of a set, the last one that was made first.
    places: Vec<Option<Box<Template<W>>>>,
    asked: Vec<u64>,
    /// Uses that may still be spent on new ones.
    credit: u64,
    /// Keys in a row that nothing was known for, and how many will not be asked for.
    misses: u32,
    pause: u32,
    segments: Option<Box<Segments<W>>>,
    pub(crate) walks: Walks<W>,
}

impl<const W: usize> Templates<W> {
    pub(crate) const fn new() -> Self {
        let (misses, pause) = (0, 0);
        Self { places: Vec::new(), asked: Vec::new(), credit: FREE, misses, pause, segments: None, walks: Walks::new() }
    }

    /// Whether it is worth while to ask for a key now.
    #[inline]
    pub(crate) fn wanted(&mut self) -> bool {
        if self.misses == TRIES {
            (self.misses, self.pause) = (0, PAUSE);
        }
        self.pause = self.pause.saturating_sub(1);
        self.pause == 0
    }

    /// Looks a key up.
    pub(crate) fn find(&mut self, key: &[u64], bucket: Bucket) -> Found {
        let hash = hash(key, bucket);
        let first = hash as usize % SETS * WAYS;
        let set = self.places.get(first..first + WAYS).unwrap_or_default();
        let same = |found: &Option<Box<Template<W>>>| {
            found.as_ref().is_some_and(|found| found.hash == hash && found.bucket == bucket && *found.key == *key)
        };
        if let Some(way) = set.iter().position(same) {
            self.misses = 0;
            return match set[way].as_ref().is_some_and(|found| found.digest.is_some()) {
                true => Found::Template((first + way) as u32),
                false => Found::Never,
            };
        }
        self.misses += 1;
        self.asked.resize(ASKED, 0);
        let asked = &mut self.asked[(hash >> 32) as usize % ASKED];
        if std::mem::replace(asked, hash) == hash && self.credit >= EARNED { Found::Again } else { Found::New }
    }

    /// Makes a template of references, lines counted from `base`. What had its place is counted.
    pub(crate) fn learn<V: Vector>(
        &mut self,
        (key, bucket): (&[u64], Bucket),
        base: u64,
        chunk: Chunk<'_>,
        buckets: &mut Buckets<W>,
    ) {
        let segments = self.segments.get_or_insert_with(|| Box::new(Segments::new()));
        let mut within = Within::default();
        let mut digest = V::run(Read { segments, chunk, bucket, counts: &mut within });
        let references: u64 = within.counted.iter().map(|found| u64::from(found.kind != Kind::Writeback)).sum();
        let pays = digest.segments().count() == 1 && references as usize >= (PAYS - 1) * digest.firsts();
        digest.count_from(base);
        within.merge();
        self.places.resize_with(SETS * WAYS, || None);
        self.credit -= EARNED;
        let hash = hash(key, bucket);
        let first = hash as usize % SETS * WAYS;
        let set = &mut self.places[first..first + WAYS];
        // The oldest goes.
        set.rotate_right(1);
        if let Some(old) = &set[0] {
            old.count(buckets);
        }
        let digest = pays.then_some(digest);
        set[0] = Some(Box::new(Template { key: key.into(), hash, bucket, digest, within, uses: 0 }));
    }

    /// Its lines.
    #[inline(always)]
    pub(crate) fn lines(&self, template: u32) -> usize {
        self.digest(template).map_or(0, Digest::firsts)
    }

    /// What is left to do at a base.
    #[inline(always)]
    pub(crate) fn segment(&self, template: u32, base: u64) -> Segment<'_> {
        let segment = self.digest(template).and_then(|digest| digest.segments().next());
        Segment { base, ..segment.unwrap_or_default() }
    }

    fn digest(&self, template: u32) -> Option<&Digest> {
        self.places.get(template as usize)?.as_ref()?.digest.as_ref()
    }

    /// It was used so often.
    #[inline(always)]
    pub(crate) fn used(&mut self, template: u32, times: u32) {
        if let Some(Some(template)) = self.places.get_mut(template as usize) {
            template.uses += u64::from(times);
            self.credit += u64::from(times);
        }
    }

    /// Counts all uses that are not counted yet.
    pub(crate) fn count(&mut self, buckets: &mut Buckets<W>) {
        self.count_into(buckets);
        self.places.iter_mut().flatten().for_each(|template| template.uses = 0);
        self.walks.forget();
    }

    /// The same, and they stay uncounted.
    pub(crate) fn count_into(&self, buckets: &mut Buckets<W>) {
        self.places.iter().flatten().for_each(|template| template.count(buckets));
        self.walks.count_into(buckets);
    }

    /// Whether there are uses that are not counted yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.places.iter().flatten().any(|template| template.uses > 0) || self.walks.is_waiting()
    }
}

impl<const W: usize> Template<W> {
    fn count(&self, buckets: &mut Buckets<W>) {
        self.within.count(self.uses, self.bucket, buckets);
    }
}

/// Makes a template.
pub(crate) struct Learn<'a, const W: usize> {
    pub(crate) templates: &'a mut Templates<W>,
    pub(crate) key: (&'a [u64], Bucket),
    pub(crate) base: u64,
    pub(crate) chunk: Chunk<'a>,
    pub(crate) buckets: &'a mut Buckets<W>,
}

impl<const W: usize> Task for Learn<'_, W> {
    type Answer = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        self.templates.learn::<V>(self.key, self.base, self.chunk, self.buckets);
    }
}

/// Who counts what happens within segments.
pub(crate) trait Count<const W: usize> {
    /// So many references of an item.
    fn references(&mut self, item: Item, store: bool, weight: u64);

    /// One of those is the first to its line, and will be counted by who takes the digest.
    fn first(&mut self, run: Run);

    /// As [`Counts::add_near`].
    fn distances(&mut self, what: (Kind, Item), full: u32, by_set: &[u8; W], weight: u64);

    /// A run is of a line that was referenced before: which one of the segment, and its distances.
    #[inline(always)]
    fn again(&mut self, _place: usize, _run: Run, _full: u32, _by_set: &[u8; W]) {}

    /// After each batch.
    fn spread<V: Vector>(&mut self);
}

impl<const W: usize> Count<W> for Counts<W> {
    #[inline(always)]
    fn references(&mut self, item: Item, store: bool, weight: u64) {
        self.add_references(item, store, weight);
    }

    #[inline(always)]
    fn first(&mut self, run: Run) {
        self.take_references(first(run.flags), run.flags & STORE != 0, run.weight.into());
    }

    #[inline(always)]
    fn distances(&mut self, what: (Kind, Item), full: u32, by_set: &[u8; W], weight: u64) {
        self.add_near(what, full, by_set, weight);
    }

    #[inline(always)]
    fn spread<V: Vector>(&mut self) {
        Self::spread::<V>(self);
    }
}

impl<const W: usize> Count<W> for Within<W> {
    fn references(&mut self, item: Item, store: bool, weight: u64) {
        self.references.entry(item).or_default()[usize::from(store)] += weight;
    }

    fn first(&mut self, _run: Run) {}

    fn distances(&mut self, (kind, item): (Kind, Item), full: u32, by_set: &[u8; W], weight: u64) {
        self.counted.push(Combination { by_set: *by_set, full, kind, item, weight });
    }

    fn spread<V: Vector>(&mut self) {}
}

impl<const W: usize> Within<W> {
    /// Counts it so often.
    pub(crate) fn count(&self, times: u64, bucket: Bucket, buckets: &mut Buckets<W>) {
        let Some(counts) = buckets.of(bucket).filter(|_| times > 0) else { return };
        for (&item, &[loads, stores]) in &self.references {
            counts.add_references(item, false, loads * times);
            counts.add_references(item, true, stores * times);
        }
        for found in &self.counted {
            counts.add_near((found.kind, found.item), found.full, &found.by_set, found.weight * times);
        }
        counts.spread::<Portable>();
    }

    /// What is counted of something, so often.
    pub(crate) fn add(&mut self, counted: &[Combination<W>], times: u64) {
        self.counted.extend(counted.iter().map(|found| Combination { weight: found.weight * times, ..*found }));
    }

    /// A reference to an item is counted by others.
    pub(crate) fn leave_out(&mut self, item: Item, store: bool) {
        if let Some(references) = self.references.get_mut(&item) {
            references[usize::from(store)] -= 1;
        }
    }

    /// What is here beyond another that is alike: `None` if that has more of something. Both are merged.
    pub(crate) fn beyond(&self, other: &Self) -> Option<Self> {
        let mut more = self.clone();
        for (item, &[loads, stores]) in &other.references {
            let here = more.references.get_mut(item)?;
            *here = [here[0].checked_sub(loads)?, here[1].checked_sub(stores)?];
        }
        let mut at = 0;
        for found in &other.counted {
            let same = |of: &Combination<W>| key(of) == key(found);
            at += more.counted[at..].iter().position(same)?;
            more.counted[at].weight = more.counted[at].weight.checked_sub(found.weight)?;
        }
        more.counted.retain(|found| found.weight > 0);
        Some(more)
    }

    /// What is alike becomes one.
    pub(crate) fn merge(&mut self) {
        self.counted.sort_unstable_by_key(key);
        self.counted.dedup_by(|next, sum| {
            let same = key(next) == key(sum);
            sum.weight += if same { next.weight } else { 0 };
            same
        });
    }
}

fn key<const W: usize>(of: &Combination<W>) -> (u8, Item, u32, [u8; W]) {
    (of.kind as u8, of.item, of.full, of.by_set)
}

/// Well mixed; not 0.
pub(crate) fn hash(key: &[u64], bucket: Bucket) -> u64 {
    let mix = |sum: u64, &word: &u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = key.iter().fold(u64::from(bucket.0), mix);
    (mixed ^ mixed >> 29) | 1 << 63
}

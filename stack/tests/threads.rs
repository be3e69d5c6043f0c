//! Stacks of several threads against section 5 of the model, word for word: a list of lines and holes for each thread, set
//! count and set.

use bf_stack::{
    Bucket, ByPosition, Chunk, Common, Counted, Digest, Digester, Engine, Holders, Instructions, Item, Limits, Part,
    Position, Reference, Repeat, Shared, Stack, There,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Adds where lines are that a batch of another stack asks for.
fn ask(stack: &mut Stack, lines: &[Common], bucket: Bucket, all: &mut There) {
    let mut here = There::default();
    stack.visited(lines, bucket, &mut here);
    all.add(&mut here, &mut There::default());
}

/// Lines of a batch, each once.
fn common(references: &[Reference]) -> Vec<Common> {
    let mut lines = BTreeMap::new();
    references.iter().for_each(|one| *lines.entry(one.line()).or_default() |= one.is_store());
    lines.into_iter().map(|(line, stored)| Common { lines: line..line + 1, stored, holders: Holders::ALL }).collect()
}

/// From the top.
type Items = Vec<Option<u64>>;

/// By set count exponent, then by value; values from `max_ways` on together, but for one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally(BTreeMap<(u32, u64), u64>);

#[derive(Clone, Debug, Default)]
struct Counts {
    references: [u64; 2],
    cold: [u64; 2],
    distances: [Tally; 2],
    lost: Tally,
    received: Tally,
    sent: Tally,
    remote: Tally,
    own: Tally,
    dirty: Tally,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    sets: HashMap<(u32, u64), Items>,
    seen: HashSet<u64>,
    /// Position when taken away.
    lost: HashMap<u64, Vec<u64>>,
    /// Greatest distances since the last store, and its bucket.
    dirty: HashMap<u64, (Vec<u64>, u8)>,
    counts: BTreeMap<u8, Counts>,
}

struct Model {
    limits: Limits,
    threads: Vec<Thread>,
}

impl Model {
    fn new(limits: Limits, threads: usize) -> Self {
        Self { limits, threads: vec![Thread::default(); threads] }
    }

    fn add(&self, tally: &mut Tally, values: &[u64]) {
        for (a, &value) in (0..).zip(values) {
            *tally.0.entry((a, self.counted_as(a, value))).or_default() += 1;
        }
    }

    /// Large values in one set are counted as the least of their bin.
    fn counted_as(&self, a: u32, value: u64) -> u64 {
        match value {
            _ if a > 0 => value.min(self.limits.max_ways.into()),
            512.. => value >> (value.ilog2() - 8) << (value.ilog2() - 8),
            _ => value,
        }
    }

    fn position(&self, thread: usize, line: u64) -> Option<Vec<u64>> {
        let place = |a: u32| {
            let items = self.threads[thread].sets.get(&(a, line & ((1 << a) - 1)))?;
            items.iter().position(|&item| item == Some(line)).map(|p| p as u64)
        };
        (0..=self.limits.max_set_bits).map(place).collect()
    }

    fn counted(&mut self, thread: usize, bucket: u8, count: impl FnOnce(&Self, &mut Counts)) {
        if bucket != 0 {
            let mut counts = self.threads[thread].counts.remove(&bucket).unwrap_or_default();
            count(self, &mut counts);
            self.threads[thread].counts.insert(bucket, counts);
        }
    }

    fn reference(&mut self, thread: usize, line: u64, store: bool, bucket: u8) {
        let distances = self.position(thread, line);
        let others: Vec<_> = (0..self.threads.len()).filter(|&other| other != thread).collect();
        let elsewhere: Vec<(usize, Vec<u64>)> =
            others.iter().filter_map(|&other| Some((other, self.position(other, line)?))).collect();
        for (other, position) in &elsewhere {
            if let Some((greatest, charged)) = self.threads[*other].dirty.remove(&line) {
                let at: Vec<_> = greatest.iter().zip(position).map(|(&m, &p)| m.max(p)).collect();
                self.counted(*other, charged, |model, counts| model.add(&mut counts.dirty, &at));
            }
        }
        let there =
            elsewhere.iter().map(|(_, p)| p.clone()).reduce(|a, b| a.iter().zip(b).map(|(&a, b)| a.min(b)).collect());
        let lost = self.threads[thread].lost.remove(&line);
        let new = self.threads[thread].seen.insert(line);
        self.counted(thread, bucket, |model, counts| {
            counts.references[usize::from(store)] += 1;
            match (&distances, &lost) {
                (Some(d), _) => model.add(&mut counts.distances[usize::from(store)], d),
                (None, Some(p)) => model.add(&mut counts.lost, p),
                (None, None) => {
                    assert!(new);
                    counts.cold[usize::from(store)] += 1;
                }
            }
            for a in 0..=model.limits.max_set_bits {
                let most = if a == 0 { u64::MAX } else { u64::from(model.limits.max_ways) };
                let Some(p) = there.as_ref().map(|there| there[a as usize].min(most)) else { continue };
                let d = distances.as_ref().map(|d| d[a as usize].min(most));
                if d.is_none_or(|d| p < d) {
                    *counts.remote.0.entry((a, model.counted_as(a, p))).or_default() += 1;
                    d.into_iter().for_each(|d| *counts.own.0.entry((a, model.counted_as(a, d))).or_default() += 1);
                }
            }
        });
        for a in 0..=self.limits.max_set_bits {
            let items = self.threads[thread].sets.entry((a, line & ((1 << a) - 1))).or_default();
            let found = items.iter().position(|&item| item == Some(line));
            let hole = items.iter().position(Option::is_none);
            match (found, hole) {
                (Some(d), Some(h)) if h < d => {
                    items[d] = None;
                    items.remove(h);
                }
                (Some(d), _) => drop(items.remove(d)),
                (None, Some(h)) => drop(items.remove(h)),
                (None, None) => {}
            }
            items.insert(0, Some(line));
        }
        if let (Some((greatest, _)), Some(d)) = (self.threads[thread].dirty.get_mut(&line), &distances) {
            greatest.iter_mut().zip(d).for_each(|(m, &d)| *m = d.max(*m));
        }
        if store {
            let fresh = vec![0; self.limits.max_set_bits as usize + 1];
            self.threads[thread].dirty.insert(line, (fresh, bucket));
            for (other, position) in elsewhere {
                for items in self.threads[other].sets.values_mut() {
                    items.iter_mut().filter(|item| **item == Some(line)).for_each(|item| *item = None);
                }
                self.counted(other, bucket, |model, counts| model.add(&mut counts.received, &position));
                self.counted(thread, bucket, |model, counts| model.add(&mut counts.sent, &position));
                self.threads[other].lost.insert(line, position);
            }
        }
    }
}

fn tally(counts: &ByPosition, limits: Limits) -> Tally {
    let mut tally = Tally::default();
    for bin in &counts.full {
        tally.0.insert((0, bin.lo), bin.count);
    }
    for (index, row) in counts.sets.iter().enumerate() {
        assert!(row.len() <= limits.max_ways as usize + 1);
        let filled = (0..).zip(row).filter(|&(_, &count)| count > 0);
        tally.0.extend(filled.map(|(value, &count)| ((index as u32 + 1, value), count)));
    }
    tally
}

/// One thread's chunk: whose, bucket, pieces and how often each occurs.
type Turn = (usize, u8, Vec<(u32, Vec<(u64, bool)>)>);

fn check(threads: usize, turns: &[Turn], limits: Limits, instructions: Instructions, late: usize) {
    let mut model = Model::new(limits, threads);
    let mut stacks: Vec<_> = (0..threads).map(|_| Stack::new(limits).with_instructions(instructions)).collect();
    let shared = |stacks: &mut Vec<Stack>| stacks.iter_mut().for_each(|stack| stack.share(0));
    // The stack of all threads, from their digests and from their references; and from digests that others made by turns.
    let (mut digested, mut fed) = (stacks[0].clone(), stacks[0].clone());
    let mut others = [(); 2].map(|()| Digester::new(limits).with_instructions(instructions));
    let mut helped = stacks[0].clone();
    for (at, (thread, bucket, pieces)) in turns.iter().enumerate() {
        // Until then there is one thread.
        let thread = if at < late { 0 } else { *thread % threads };
        if at == late {
            digested = stacks[0].clone();
            shared(&mut stacks);
        }
        let references: Vec<_> =
            pieces.iter().flat_map(|(_, piece)| piece).map(|&(line, store)| Reference::new(line, store)).collect();
        let parts: Vec<_> =
            pieces.iter().map(|(times, piece)| Part { len: piece.len() as u32, times: *times }).collect();
        let items: Vec<_> = references.iter().map(|one| Item((one.line() % 5 * 40) as u16)).collect();
        let items = if threads.is_multiple_of(2) { &items[..] } else { &[] };
        // The rest of them repeats together.
        let (alone, times) = (at % 3 * parts.len() / 3, 1 + at as u32 % 5 % 3);
        let repeats = |part: usize, parts: usize| {
            (parts > 0)
                .then_some(Repeat { part: part as u32, parts: parts as u32, times })
                .into_iter()
                .collect::<Vec<_>>()
        };
        let together = repeats(alone, parts.len() - alone);
        let chunk = Chunk { references: &references, parts: &parts, repeats: &together, items, ..Chunk::default() };
        match at % 6 {
            1 | 4 => stacks[thread].change_width(),
            2 => digested.change_width(),
            3 => fed.change_width(),
            _ => helped.change_width(),
        }
        let (before, rest) = stacks.split_at_mut(thread);
        let (mine, after) = rest.split_first_mut().unwrap();
        if at < late {
            mine.feed_chunk(chunk, Bucket(*bucket));
        } else {
            let mut beside: Vec<_> = before.iter_mut().chain(after).collect();
            let lines = common(&references);
            let mut visit = mine.begin_visit(&lines);
            // Before its own stack has the batch, or after.
            let there = |beside: &mut [&mut Stack]| {
                let mut all = There::none(&lines);
                beside.iter_mut().for_each(|other| ask(other, &lines, Bucket(*bucket), &mut all));
                all
            };
            let mut found = (at % 2 == 0).then(|| there(&mut beside));
            // In one chunk, or in two.
            let (first, second) = parts.split_at(alone);
            let len = first.iter().map(|part| part.len as usize).sum();
            let (before, after) = references.split_at(len);
            let (of_before, of_after) = items.split_at(len.min(items.len()));
            let together = repeats(0, second.len());
            for (parts, references, items, repeats) in
                [(first, before, of_before, &[][..]), (second, after, of_after, &together)]
            {
                let chunk = Chunk { references, parts, repeats, items, ..Chunk::default() };
                mine.feed_beside(chunk, Bucket(*bucket), &mut visit);
            }
            let found = found.get_or_insert_with(|| there(&mut beside));
            mine.end_visit(visit, found, Bucket(*bucket));
            digested.feed_digest(&mine.take_digest(Digest::default()), Bucket(*bucket));
        }
        fed.feed_chunk(chunk, Bucket(*bucket));
        let other = &mut others[at % 2];
        other.feed_chunk(chunk, Bucket(*bucket));
        helped.feed_digest(&other.take_digest(Digest::default()), Bucket(*bucket));
        if at % 7 == 0 {
            helped.absorb(&other.take_within());
        }
        let (first, second) = pieces.split_at(alone);
        for (times, piece) in std::iter::once(first).chain((0..times).map(|_| second)).flatten() {
            for _ in 0..*times {
                piece.iter().for_each(|&(line, store)| model.reference(thread, line, store, *bucket));
            }
        }
        if turns.len() < 20 || at % 16 == 0 {
            for (thread, stack) in stacks.iter().enumerate().filter(|_| at >= late) {
                for line in pieces.iter().flat_map(|(_, piece)| piece).map(|&(line, _)| line) {
                    assert_eq!(
                        stack.position(line).map(|p| capped(&p, limits)),
                        model.position(thread, line).map(|p| most(&p, limits))
                    );
                }
            }
        }
    }
    if let Some(within) = stacks.iter().filter_map(Stack::within).reduce(|mut sum, more| {
        sum.add(&more);
        sum
    }) {
        compare(&digested.counted_with(&within), &fed.counted());
    }
    others.iter_mut().map(Digester::take_within).for_each(|within| helped.absorb(&within));
    compare(&helped.counted(), &fed.counted());
    for (index, (stack, thread)) in stacks.iter().zip(&model.threads).enumerate() {
        let shared: HashMap<u8, Shared> = stack.shared().into_iter().map(|(b, shared)| (b.0, shared)).collect();
        let histograms: HashMap<u8, _> = stack.histograms().into_iter().map(|(b, got)| (b.0, got)).collect();
        // What is known of a bucket may be only what others did.
        let buckets: BTreeSet<_> = histograms.keys().chain(shared.keys()).chain(thread.counts.keys()).collect();
        for bucket in buckets {
            let want = thread.counts.get(bucket).cloned().unwrap_or_default();
            let got = histograms.get(bucket).map(|got| (got.references, got.cold)).unwrap_or_default();
            assert_eq!(got, (want.references, want.cold), "thread {index}");
            for kind in 0..2 {
                let Some(got) = histograms.get(bucket) else { continue };
                let full = got.full.distances[kind].clone();
                let sets = got.sets.iter().map(|set| set.distances[kind].clone()).collect();
                assert_eq!(tally(&ByPosition { full, sets }, limits), want.distances[kind], "thread {index}");
            }
            let got = shared.get(bucket).cloned().unwrap_or_default();
            for (name, got, want) in [
                ("lost", &got.lost, &want.lost),
                ("received", &got.received, &want.received),
                ("sent", &got.sent, &want.sent),
                ("remote", &got.remote, &want.remote),
                ("own", &got.own, &want.own),
                ("dirty", &got.dirty, &want.dirty),
            ] {
                assert_eq!(&tally(got, limits), want, "{name} of thread {index}");
            }
        }
    }
}

/// What is unlike, not all that is compared.
fn compare(got: &[Counted], want: &[Counted]) {
    let names = |all: &[Counted]| {
        all.iter().map(|one| (one.bucket, one.all.references, one.all.full.writebacks.len())).collect::<Vec<_>>()
    };
    assert_eq!(names(got), names(want));
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.bucket, want.bucket);
        let items = |counted: &Counted| counted.items.iter().map(|(item, _)| *item).collect::<Vec<_>>();
        assert_eq!(items(got), items(want));
        let all = |counted: &Counted| {
            [(None, counted.all.clone())]
                .into_iter()
                .chain(counted.items.iter().map(|(item, all)| (Some(*item), all.clone())))
                .collect::<Vec<_>>()
        };
        for ((item, got), (_, want)) in all(got).into_iter().zip(all(want)) {
            assert_eq!((got.references, got.cold), (want.references, want.cold), "{item:?}");
            for kind in 0..2 {
                assert!(got.full.distances[kind] == want.full.distances[kind], "distances of {item:?}");
            }
            assert!(got.full.writebacks == want.full.writebacks, "write-backs of {item:?}");
            assert!(got.full.resident == want.full.resident, "dirty lines of {item:?}");
            assert!(got.sets == want.sets, "{item:?} by set");
        }
    }
}

fn most(position: &[u64], limits: Limits) -> Vec<u64> {
    let cut = |(a, &p): (usize, &u64)| if a == 0 { p } else { p.min(limits.max_ways.into()) };
    position.iter().enumerate().map(cut).collect()
}

fn capped(position: &Position, limits: Limits) -> Vec<u64> {
    let sets = position.by_set[..limits.max_set_bits as usize].iter().map(|&p| u64::from(p));
    most(&[u64::from(position.full)].into_iter().chain(sets).collect::<Vec<_>>(), limits)
}

fn line() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..12,
        4 => 0u64..120,
        2 => 0u64..600,
        1 => (0u64..60).prop_map(|i| i << 6),
        1 => (0u64..60).prop_map(|i| i << 20 | 5),
    ]
}

fn piece() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let scattered = |store: f64, most: usize| prop::collection::vec((line(), prop::bool::weighted(store)), 0..most);
    let strided = (line(), 1u64..20, 1u64..130, prop::bool::ANY)
        .prop_map(|(base, stride, count, store)| (0..count).map(|i| (base + i * stride, store)).collect());
    prop_oneof![3 => scattered(0.3, 12), 1 => scattered(0.02, 40), 1 => scattered(0.3, 500), 1 => strided]
}

fn turn() -> impl Strategy<Value = Turn> {
    let times = prop_oneof![4 => Just(1u32), 1 => 2u32..5];
    let pieces = prop_oneof![3 => prop::collection::vec((Just(1u32), piece()), 1..2), 1 => prop::collection::vec((times, piece()), 1..6)];
    (0usize..8, prop_oneof![4 => Just(1u8), 1 => 0u8..4], pieces)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_the_lists_of_the_model(
        threads in 2usize..6,
        turns in prop_oneof![prop::collection::vec(turn(), 1..12), prop::collection::vec(turn(), 20..80)],
        limits in prop_oneof![
            Just(Limits { max_set_bits: 6, max_ways: 4 }),
            Just(Limits { max_set_bits: 3, max_ways: 17 }),
            Just(Limits { max_set_bits: 10, max_ways: 64 }),
            Just(Limits { max_set_bits: 0, max_ways: 1 }),
        ],
        late in 0usize..4,
    ) {
        for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
            check(threads, &turns, limits, instructions, late);
        }
    }
}

#[test]
fn a_table_that_nobody_writes_is_never_taken_away() {
    let limits = Limits::default();
    let mut stacks = vec![Stack::new(limits); 4];
    stacks.iter_mut().for_each(|stack| stack.share(0));
    let table: Vec<_> = (0..1000).map(|line| Reference::new(line, false)).collect();
    let lines = common(&table);
    for round in 0..8 {
        let (mine, others) = stacks.split_first_mut().unwrap();
        let chunk = Chunk { references: &table, ..Chunk::default() };
        let (mut visit, mut found) = (mine.begin_visit(&lines), There::none(&lines));
        mine.feed_beside(chunk, Bucket::FIRST, &mut visit);
        others.iter_mut().for_each(|other| ask(other, &lines, Bucket::FIRST, &mut found));
        mine.end_visit(visit, &found, Bucket::FIRST);
        stacks.rotate_left(1);
        let shared = stacks[3].shared();
        assert!(shared.iter().all(|(_, shared)| shared.received == ByPosition::default()));
        // What another thread has first is not in memory alone.
        assert_eq!(shared.is_empty(), round == 0);
    }
}

//! The fast engine against the plain list walk, on traces that reach every path of it.

use bf_stack::{
    Bucket, Chunk, Deferred, Digest, Digester, Engine, Found, Histograms, Instructions, Item, Learns, Limits,
    MissesBySite, Part, Plain, Reference, Repeat, Stack, Use,
};
use proptest::prelude::*;

/// Batches of references, each with its bucket.
type Trace = Vec<(u8, Vec<(u64, bool)>)>;

/// Every kind of instructions this processor has must count the same.
fn check(trace: &Trace, limits: Limits, fast: Stack) {
    for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
        check_one(trace, limits, fast.clone().with_instructions(instructions));
    }
}

fn check_one(trace: &Trace, limits: Limits, mut fast: Stack) {
    let mut plain = Plain::new(limits);
    for (number, (bucket, references)) in trace.iter().enumerate() {
        let references: Vec<_> = references.iter().map(|&(line, store)| Reference::new(line, store)).collect();
        if number % 5 == 1 || number % 5 == 4 {
            fast.change_width();
        }
        fast.feed(&references, Bucket(*bucket));
        plain.feed(&references, Bucket(*bucket));
    }
    compare(fast.histograms(), plain.histograms(), limits);
}

fn compare(got: Vec<(Bucket, Histograms)>, want: Vec<(Bucket, Histograms)>, limits: Limits) {
    assert_eq!(got.len(), want.len());
    for ((bucket, got), (other, want)) in got.into_iter().zip(want) {
        assert_eq!(bucket, other);
        assert_eq!((got.references, got.cold), (want.references, want.cold));
        assert_eq!(got.full, want.full, "one set, {limits:?}");
        for (index, (got, want)) in got.sets.iter().zip(&want.sets).enumerate() {
            assert_eq!(got, want, "2^{} sets, {limits:?}", index + 1);
        }
    }
}

fn line() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..24,
        4 => 0u64..400,
        2 => (0u64..200).prop_map(|i| i << 6),
        1 => (0u64..200).prop_map(|i| i << 20 | 5),
        1 => (0u64..100).prop_map(|i| (1 << 57) + i * 4096),
    ]
}

fn walk() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let scattered = prop::collection::vec((line(), prop::bool::weighted(0.3)), 0..300);
    let strided = (line(), 1u64..200, 1u64..130, prop::bool::ANY)
        .prop_map(|(base, stride, count, store)| (0..count).map(|i| (base + i * stride, store)).collect());
    prop_oneof![scattered, strided]
}

fn trace() -> impl Strategy<Value = Trace> {
    prop::collection::vec((prop_oneof![3 => Just(1u8), 1 => 0u8..4], walk()), 1..12)
}

/// Pieces that are repeated, written once.
fn pieces() -> impl Strategy<Value = Vec<(u32, Vec<(u64, bool)>)>> {
    let short = prop::collection::vec((line(), prop::bool::weighted(0.3)), 0..12);
    prop::collection::vec((1u32..5, prop_oneof![4 => short, 1 => walk()]), 1..30)
}

/// See [`Chunks::repeating`].
fn together() -> impl Strategy<Value = Vec<(usize, usize, u32)>> {
    prop::collection::vec((0..4_usize, 1..6_usize, 1..5_u32), 0..6)
}

/// A chunk of them for each bucket.
struct Chunks {
    references: Vec<Reference>,
    sites: Vec<u32>,
    items: Vec<Item>,
    parts: Vec<Part>,
    repeats: Vec<Repeat>,
}

impl Chunks {
    fn new(pieces: &[(u32, Vec<(u64, bool)>)]) -> Self {
        let references: Vec<_> =
            pieces.iter().flat_map(|(_, piece)| piece).map(|&(l, s)| Reference::new(l, s)).collect();
        let parts = pieces.iter().map(|(times, piece)| Part { len: piece.len() as u32, times: *times }).collect();
        let sites = references.iter().map(|reference| (reference.line() % 7) as u32).collect();
        let items = references.iter().map(|reference| Item((reference.line() % 5 * 40) as u16)).collect();
        Self { references, sites, items, parts, repeats: Vec::new() }
    }

    /// Some of its parts repeat together, as these numbers have it: how many are by themselves, then how many are not, and how often.
    fn repeating(mut self, some: &[(usize, usize, u32)]) -> Self {
        let mut part = 0;
        for &(alone, parts, times) in some {
            part += alone;
            if part + parts <= self.parts.len() {
                self.repeats.push(Repeat { part: part as u32, parts: parts as u32, times });
            }
            part += parts;
        }
        self
    }

    fn chunk(&self) -> Chunk<'_> {
        let Self { references, sites, parts, repeats, .. } = self;
        Chunk { references, sites, items: &[], parts, repeats, uses: &[] }
    }

    /// The same, attributed to items.
    fn attributed(&self) -> Chunk<'_> {
        Chunk { items: &self.items, ..self.chunk() }
    }
}

/// A loop: pieces of it with lines from its base on, how often they are repeated; and items by line.
type Loop = Vec<(u32, Vec<(u64, bool)>)>;

/// What comes before, which loop, from where, how often, and how far it moves on each time.
type Entered = (Vec<(u64, bool)>, usize, u64, u32, i64);

fn loops() -> impl Strategy<Value = Vec<Loop>> {
    let line = prop_oneof![6 => 0u64..12, 3 => (0u64..8).prop_map(|i| 4096 * i), 1 => 0u64..400, 1 => 1u64 << 40..(1 << 40) + 6];
    let piece = prop::collection::vec((line, prop::bool::weighted(0.3)), 1..16);
    prop::collection::vec(prop::collection::vec((1u32..4, piece), 1..14), 1..4)
}

fn entered() -> impl Strategy<Value = Entered> {
    let before = prop::collection::vec((line(), prop::bool::weighted(0.3)), 0..6);
    (before, 0usize..4, prop_oneof![0u64..64, (0u64..64).prop_map(|i| i * 40), line()], 1u32..6, -9i64..40)
}

/// Feeds all of it, loops as templates where there are any, in chunks of up to three; returns how many uses there were.
fn enter(to: &mut impl Learns, loops: &[Loop], all: &[Entered], attributed: bool, bucket: Bucket) -> usize {
    let mut used = 0;
    for few in all.chunks(3) {
        let (mut references, mut parts, mut uses) = (Vec::new(), Vec::new(), Vec::new());
        let items = |references: &[Reference], base: u64| -> Vec<Item> {
            let item = |line: &Reference| Item((line.line().wrapping_sub(base) % 5) as u16);
            if attributed { references.iter().map(item).collect() } else { Vec::new() }
        };
        let mut all_items = Vec::new();
        for &(ref before, which, base, times, step) in few {
            let which = which % loops.len();
            let before: Vec<_> = before.iter().map(|&(line, store)| Reference::new(line, store)).collect();
            all_items.extend(items(&before, 0));
            if !before.is_empty() {
                parts.push(Part { len: before.len() as u32, times: 1 });
            }
            references.extend(before);
            let at = |base: u64| -> Chunks {
                let moved =
                    |piece: &Vec<(u64, bool)>| piece.iter().map(|&(line, store)| (base + line, store)).collect();
                let mut chunks =
                    Chunks::new(&loops[which].iter().map(|(times, piece)| (*times, moved(piece))).collect::<Vec<_>>());
                chunks.items = items(&chunks.references, base);
                chunks
            };
            let base = base + 1000;
            let key = [which as u64, u64::from(attributed)];
            let mut found = to.find(&key, bucket);
            if found == Found::Again {
                // Those that were found before may be gone.
                to.take(
                    Chunk {
                        references: &references,
                        items: &all_items,
                        parts: &parts,
                        uses: &uses,
                        ..Chunk::default()
                    },
                    bucket,
                );
                (references, all_items, parts, uses) = Default::default();
                let chunks = at(base);
                to.learn(&key, base, chunks.attributed(), bucket);
                found = to.find(&key, bucket);
            }
            if let Found::Template(template) = found {
                uses.push(Use { part: parts.len() as u32, template, base, times, step });
                used += 1;
                continue;
            }
            for number in 0..i64::from(times) {
                let chunks = at(base.wrapping_add_signed(number * step));
                references.extend(chunks.references);
                all_items.extend(chunks.items);
                parts.extend(chunks.parts);
            }
        }
        to.take(
            Chunk { references: &references, items: &all_items, parts: &parts, uses: &uses, ..Chunk::default() },
            bucket,
        );
    }
    used
}

/// Never finds a template.
struct Without(Plain);

impl Learns for Without {
    fn seeks(&mut self) -> bool {
        false
    }
    fn find(&mut self, _key: &[u64], _bucket: Bucket) -> Found {
        Found::Never
    }
    fn learn(&mut self, _key: &[u64], _base: u64, _chunk: Chunk<'_>, _bucket: Bucket) {}
    fn take(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        self.0.feed_chunk(chunk, bucket);
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    (prop_oneof![4 => 0u32..=9, 1 => 10u32..=18], prop_oneof![Just(1u32), Just(2), Just(64), Just(255), 1u32..100])
        .prop_map(|(max_set_bits, max_ways)| Limits { max_set_bits, max_ways })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn equals_the_plain_walk(trace in trace(), limits in limits()) {
        check(&trace, limits, Stack::new(limits));
    }

    /// Whenever what is left behind is taken and comes back.
    #[test]
    fn what_is_worked_off_later_counts_the_same(
        trace in trace(),
        limits in limits(),
        steps in prop::collection::vec(0u8..4, 12),
        bytes in prop::bool::ANY,
    ) {
        let (mut fast, mut plain) = (Stack::new(limits), Plain::new(limits));
        fast.defer();
        let mut taken: Option<Deferred> = None;
        for ((bucket, references), step) in trace.iter().zip(steps) {
            let references: Vec<_> = references.iter().map(|&(line, store)| Reference::new(line, store)).collect();
            let items: Vec<_> = references.iter().map(|reference| Item((reference.line() % 5) as u16)).collect();
            let chunk = Chunk { references: &references, items: if bytes { &items } else { &[] }, ..Chunk::default() };
            fast.feed_chunk(chunk, Bucket(*bucket));
            plain.feed_chunk(chunk, Bucket(*bucket));
            match step {
                0 => {}
                1 => match &mut taken {
                    Some(taken) => taken.add(fast.take_deferred()),
                    None => taken = Some(fast.take_deferred()),
                },
                2 => {
                    taken.iter_mut().for_each(Deferred::work_off);
                    fast.change_width();
                }
                _ => {
                    taken.take().into_iter().for_each(|deferred| fast.put_back(deferred));
                    prop_assert!(fast.settle());
                    prop_assert_eq!(fast.counted(), plain.counted());
                }
            }
        }
        if let Some(mut deferred) = taken.take() {
            prop_assert!(!fast.settle());
            deferred.work_off();
            prop_assert_eq!(deferred.works(), 0);
            fast.put_back(deferred);
        }
        prop_assert!(fast.settle());
        prop_assert_eq!(fast.counted(), plain.counted());
    }

    #[test]
    fn a_clock_that_runs_out_changes_nothing(trace in trace(), left in 0i32..200) {
        let limits = Limits { max_set_bits: 7, max_ways: 8 };
        check(&trace, limits, Stack::with_time_left(limits, left));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Many lines, some phases of few and of many, in tiers that are as wide as pays.
    #[test]
    fn tiers_that_are_wide_where_that_pays_count_the_same(
        phases in prop::collection::vec((prop_oneof![3 => 330..1100_u64, 1 => 1..330_u64, 1 => 1100..4000_u64], 0..13_u32), 2..4),
    ) {
        let limits = Limits { max_set_bits: 8, max_ways: 12 };
        let (mut fast, mut plain, mut at) = (Stack::new(limits), Plain::new(limits), 1_u64);
        for (lines, shift) in phases {
            for _ in 0..20 {
                let mut next = || {
                    at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    Reference::new(((at >> 33) % lines) << shift, at >> 60 == 0)
                };
                let references: Vec<_> = (0..2000).map(|_| next()).collect();
                fast.feed(&references, Bucket::FIRST);
                plain.feed(&references, Bucket::FIRST);
            }
        }
        prop_assert_eq!(fast.counted(), plain.counted());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn repeated_pieces_count_as_often_as_they_occur(
        chunks in prop::collection::vec((0u8..3, pieces(), together()), 1..4),
        limits in limits(),
    ) {
        for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
            let (mut fast, mut plain) = (Stack::new(limits).with_instructions(instructions), Plain::new(limits));
            for (bucket, pieces, together) in &chunks {
                let chunks = Chunks::new(pieces).repeating(together);
                fast.feed_chunk(chunks.chunk(), Bucket(*bucket));
                plain.feed_chunk(chunks.chunk(), Bucket(*bucket));
            }
            compare(fast.histograms(), plain.histograms(), limits);
        }
    }

    /// Templates, in the stack and where digests are made for it, change no figure.
    #[test]
    fn loops_that_were_seen_before_count_as_they_are(
        loops in loops(),
        turns in prop::collection::vec((0u8..3, prop::bool::ANY, prop::collection::vec(entered(), 1..12)), 1..4),
        limits in limits(),
    ) {
        for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
            let mut fast = Stack::new(limits).with_instructions(instructions);
            let mut later = Stack::new(limits).with_instructions(instructions);
            let mut digester = Digester::new(limits).with_instructions(instructions);
            let mut plain = Without(Plain::new(limits));
            for (bucket, attributed, all) in &turns {
                let bucket = Bucket(*bucket);
                enter(&mut plain, &loops, all, *attributed, bucket);
                enter(&mut fast, &loops, all, *attributed, bucket);
                enter(&mut digester, &loops, all, *attributed, bucket);
                later.feed_digest(&digester.take_digest(Digest::default()), bucket);
            }
            prop_assert_eq!(fast.counted(), plain.0.counted());
            later.absorb(&digester.take_within());
            prop_assert_eq!(later.counted(), plain.0.counted());
        }
    }

    /// Each item has the counts that the definition gives it, and the whole is what it is without items.
    #[test]
    fn items_count_what_is_attributed_to_them(
        chunks in prop::collection::vec((0u8..3, pieces(), together(), prop::bool::ANY), 1..4),
        limits in limits(),
    ) {
        for instructions in Instructions::ALL.into_iter().filter(|instructions| instructions.available()) {
            let stack = || Stack::new(limits).with_instructions(instructions);
            let (mut fast, mut without, mut plain) = (stack(), stack(), Plain::new(limits));
            for (bucket, pieces, together, attributed) in &chunks {
                let chunks = Chunks::new(pieces).repeating(together);
                let chunk = if *attributed { chunks.attributed() } else { chunks.chunk() };
                fast.feed_chunk(chunk, Bucket(*bucket));
                plain.feed_chunk(chunk, Bucket(*bucket));
                without.feed_chunk(chunks.chunk(), Bucket(*bucket));
            }
            prop_assert_eq!(fast.histograms(), without.histograms());
            prop_assert_eq!(fast.counted(), plain.counted());
            for counted in fast.counted() {
                let sums = [0, 1].map(|kind| counted.items.iter().map(|(_, item)| item.references[kind]).sum::<u64>());
                prop_assert!(counted.items.is_empty() || sums == counted.all.references);
            }
        }
    }

    /// Whatever the order, what a sink is told adds up to the histograms.
    #[test]
    fn outcomes_by_site_sum_to_the_whole(
        pieces in prop::collection::vec((pieces(), together()), 1..4),
        ways in 1u32..40,
    ) {
        let limits = Limits { max_set_bits: 9, max_ways: 40 };
        let shapes: Vec<_> = (0..=9).map(|set_bits| (set_bits, ways)).collect();
        let (mut told, mut quiet) = (Stack::new(limits), Stack::new(limits));
        let mut sink = MissesBySite::new(shapes.clone());
        for (pieces, together) in &pieces {
            let chunks = Chunks::new(pieces).repeating(together);
            told.feed_to(chunks.chunk(), Bucket::FIRST, &mut sink);
            quiet.feed_chunk(chunks.chunk(), Bucket::FIRST);
        }
        prop_assert_eq!(told.histograms(), quiet.histograms());
        let histograms = told.histograms().into_iter().next().map(|(_, histograms)| histograms).unwrap_or_default();
        for kind in 0..2 {
            let references: u64 = sink.sites().map(|(_, counts)| counts.references[kind]).sum();
            prop_assert_eq!(references, histograms.references[kind]);
            for (at, &(set_bits, ways)) in shapes.iter().enumerate() {
                let hits: u64 = match set_bits.checked_sub(1) {
                    None => {
                        let bins = histograms.full.distances[kind].iter();
                        bins.filter(|bin| bin.lo < u64::from(ways)).map(|bin| bin.count).sum()
                    }
                    Some(index) => match histograms.sets.get(index as usize) {
                        Some(set) => set.distances[kind].iter().take(ways as usize).sum(),
                        None => 0,
                    },
                };
                let misses: u64 = sink.sites().map(|(_, counts)| counts.misses[at][kind]).sum();
                prop_assert_eq!(misses, references - hits, "2^{} sets", set_bits);
            }
        }
    }

    /// Lines that get no id are left out, the others are counted as if those had not been.
    #[test]
    fn lines_without_an_id_are_left_out(pieces in prop::collection::vec(pieces(), 1..4), left in 0usize..100) {
        let limits = Limits { max_set_bits: 6, max_ways: 8 };
        let (mut fast, mut plain) = (Stack::with_lines_left(limits, left as u32), Plain::new(limits));
        let (mut lines, mut dropped) = (std::collections::HashSet::new(), 0);
        for pieces in &pieces {
            let chunks = Chunks::new(pieces);
            fast.feed_chunk(chunks.chunk(), Bucket::FIRST);
            let fits = |line: u64, lines: &mut std::collections::HashSet<u64>| {
                lines.contains(&line) || lines.len() < left && lines.insert(line)
            };
            for (times, piece) in pieces {
                let kept: Vec<_> = piece.iter().copied().filter(|&(line, _)| fits(line, &mut lines)).collect();
                dropped += u64::from(*times) * (piece.len() - kept.len()) as u64;
                let kept = Chunks::new(&[(*times, kept)]);
                plain.feed_chunk(kept.chunk(), Bucket::FIRST);
            }
        }
        prop_assert_eq!(fast.dropped(), dropped);
        compare(fast.histograms(), plain.histograms(), limits);
    }
}

/// More references than 2^32: each further time adds what the second one added, whether that is many at once or many
/// times a few. With items, too, all of one.
#[test]
fn counts_do_not_end_at_32_bits() {
    for attributed in [false, true] {
        let run = |feeds: u32, times: u32| {
            let mut stack = Stack::new(Limits { max_set_bits: 3, max_ways: 4 });
            let piece: Vec<_> = [(1, false), (9, true), (2, false), (1, true), (17, false)].into();
            let mut chunks = Chunks::new(&[(times, piece)]);
            chunks.items.fill(Item(1));
            for _ in 0..feeds {
                let chunk = if attributed { chunks.attributed() } else { chunks.chunk() };
                stack.feed_chunk(chunk, Bucket::FIRST);
            }
            let counted = stack.counted().remove(0);
            let of_item = counted.items.first().map(|(_, histograms)| histograms.clone());
            (counted.all, of_item.filter(|_| attributed))
        };
        let runs = [run(3, 2), run(3, 3), run(3, u32::MAX), run(2, 60_000), run(3, 60_000), run(40_000, 60_000)];
        let [one, two, many, few, more, often] = &runs;
        for (one, two, many, further) in [(one, two, many, u32::MAX - 2), (few, more, often, 40_000 - 2)] {
            grows_evenly(&one.0, &two.0, &many.0, further);
            if let (Some(one), Some(two), Some(many)) = (&one.1, &two.1, &many.1) {
                grows_evenly(one, two, many, further);
            }
        }
    }
}

fn grows_evenly(one: &Histograms, two: &Histograms, many: &Histograms, further: u32) {
    let further = u64::from(further);
    assert_eq!(
        many.references,
        [0, 1].map(|kind| one.references[kind] + further * (two.references[kind] - one.references[kind]))
    );
    assert!(many.references[0] > 1 << 32);
    for (set, (one, two)) in many.sets.iter().zip(one.sets.iter().zip(&two.sets)) {
        let pairs = |of: fn(&bf_stack::SetCounts) -> &Vec<u64>| {
            let expected: Vec<_> = of(one).iter().zip(of(two)).map(|(one, two)| one + further * (two - one)).collect();
            assert_eq!(of(set), &expected);
        };
        pairs(|set| &set.distances[0]);
        pairs(|set| &set.distances[1]);
        pairs(|set| &set.writebacks);
        pairs(|set| &set.capacity);
    }
}

/// A footprint of thousands of lines: the timeline grows and is compacted many times, sets overflow.
#[test]
fn equals_the_plain_walk_on_deep_traces() {
    let limits = Limits { max_set_bits: 10, max_ways: 16 };
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let references = (0..40_000).map(|_| (random(3000), random(4) == 0)).collect();
    let sweep = (0..8000).map(|i| ((i * 7) % 6000, i % 5 == 0)).collect();
    check(&vec![(1, references), (1, sweep)], limits, Stack::new(limits));
}

/// Histograms may be asked for while feeding goes on, and asking changes nothing.
#[test]
fn every_bucket_can_be_counted_elsewhere() {
    let (mut stack, mut plain) = (Stack::new(Limits::default()), Plain::new(Limits::default()));
    stack.defer();
    for bucket in 1..=Bucket::LAST.0 {
        let references: Vec<_> = (0..400).map(|line| Reference::new(line, line % 3 == 0)).collect();
        stack.feed(&references, Bucket(bucket));
        plain.feed(&references, Bucket(bucket));
    }
    assert!(stack.settle());
    assert_eq!(stack.counted(), plain.counted());
}

#[test]
fn templates_are_found_and_used() {
    let rows: Loop =
        (0..20).map(|i| (4, vec![(i, false), (i + 1, false), (i + 4096, false), (i + 8192, true)])).collect();
    let all: Vec<Entered> = (0..9).map(|i| (Vec::new(), 0, i * 20, 1, 0)).collect();
    let mut stack = Stack::new(Limits::default());
    assert_eq!(enter(&mut stack, &[rows], &all, false, Bucket::FIRST), 8);
    // No line is used twice.
    let columns = vec![(1, (0..50).map(|i| (i * 77, false)).collect())];
    assert_eq!(enter(&mut stack, &[columns], &all, true, Bucket::FIRST), 0);
}

#[test]
fn asking_changes_nothing() {
    let limits = Limits { max_set_bits: 4, max_ways: 4 };
    let references: Vec<_> = (0..1000).map(|i| Reference::new(i * i % 211, i % 3 == 0)).collect();
    let (mut asked, mut quiet) = (Stack::new(limits), Stack::new(limits));
    for part in references.chunks(100) {
        asked.feed(part, Bucket::FIRST);
        quiet.feed(part, Bucket::FIRST);
        assert_eq!(asked.histograms(), asked.histograms());
    }
    assert_eq!(asked.histograms(), quiet.histograms());
}

/// Section 8 of the model: A A B A C B A hits 1, 1, 2 at capacities 1, 2, 4.
#[test]
fn golden_example_of_the_model() {
    let mut fast = Stack::new(Limits { max_set_bits: 0, max_ways: 1 });
    fast.feed(&[0, 0, 1, 0, 2, 1, 0].map(|line| Reference::new(line, false)), Bucket::FIRST);
    let (_, histograms) = fast.histograms().remove(0);
    let counts: Vec<_> = histograms.full.distances[0].iter().map(|bin| (bin.lo, bin.count)).collect();
    assert_eq!((counts, histograms.cold), (vec![(0, 1), (1, 1), (2, 2)], [3, 0]));
}

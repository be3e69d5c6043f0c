//! Profiles for the tests of this crate: sound ones, by hand and at random.

use proptest::prelude::*;

use crate::bins::bin_of;
use crate::coherence::{ByPosition, Coherence, LineCoherence};
use crate::counters::{BlockItem, CountItem, CountedFunction, Counters, PlaceItem};
use crate::model::*;
use crate::objects::{Object, Objects};
use crate::paths::{PathCounts, PathNode, Paths};
use crate::patterns::{Patterns, Strides, Touched, TouchedBy};
use crate::places::{Function, Item, Loop, Places, Site};
use crate::sharing::{LinePlace, LineUser, ObjectKind, SharedLine, SharedLines, SharedObject};
use crate::trace::{self, Access, Event};

/// The profile of the format's documentation: one thread stores a line twice, with one other line loaded in between,
/// which is in another of two sets; line size 64, up to 2 sets, 2 ways.
pub(crate) fn tiny() -> Profile {
    let bin = |value, count| Bin { lo: value, hi: value + 1, count };
    let histograms = Histograms {
        references: [1, 2],
        cold: [1, 1],
        full: FullHistograms {
            loads: vec![],
            stores: vec![bin(1, 1)],
            writebacks: vec![bin(1, 1)],
            resident: vec![bin(0, 1)],
        },
        sets: vec![SetHistograms { stores: vec![1], capacity: vec![1], resident: vec![1], ..Default::default() }],
    };
    let stack = StackData { owner: Owner::Slot(0), tag: 0, histograms };
    let meta = Meta {
        version: "0.1.0".into(),
        executable: "a.out".into(),
        command: vec!["./a.out".into()],
        pid: 42,
        parent: 1,
        host: "h".into(),
        start_ns: 1_000_000_000,
        elapsed_ns: 5,
        aslr: Some(false),
        threads: 1,
        accesses: 3,
        ..Meta::default()
    };
    let lines = vec![LineData { line_bytes: 64, max_set_bits: 1, max_ways: 2, stacks: vec![stack] }];
    Profile { processes: vec![Process { meta, tags: vec![String::new()], lines, ..Process::default() }] }
}

/// Two processes that use every field, enum variant and kind of bin there is.
pub(crate) fn rich() -> Profile {
    let caches = vec![
        CacheLevel { level: 1, kind: CacheKind::Data, size: 49152, ways: 12, line: 64, sets: 64, shared_by: 2 },
        CacheLevel { level: 1, kind: CacheKind::Instruction, size: 32768, ways: 8, line: 64, sets: 64, shared_by: 2 },
        CacheLevel {
            level: 3,
            kind: CacheKind::Unified,
            size: 1 << 25,
            ways: 16,
            line: 64,
            sets: 32768,
            shared_by: 16,
        },
    ];
    let mut small = lines(32, 3, 4, 2, 7);
    let coherence = vec![coherence(&mut small, 13)];
    let first = Process {
        meta: Meta {
            version: "0.1.0".into(),
            executable: "größe".into(),
            command: vec!["./größe".into(), "--n".into(), String::new()],
            pid: 4_000_000_000,
            parent: 1,
            host: "node-7".into(),
            rank: Some(3),
            start_ns: 1_700_000_000_123_456_789,
            elapsed_ns: 9_876_543_210,
            aslr: Some(true),
            end: EndReason::Signal(11),
            threads: 2,
            accesses: 123_456_789,
            dropped: 4,
            modules: vec!["a.c".into(), "b.cpp".into()],
        },
        machine: Machine { cpu: "Example CPU @ 3 GHz".into(), cpus: 32, caches },
        counters: counters(),
        uninstrumented: vec![
            Callee { name: "sqrt".into(), calls: 1 << 40 },
            Callee { name: "_ZNSt6vectorIiE3endEv".into(), calls: 1 },
        ],
        log: vec!["unknown variable BF_LINESIZE".into(), "4 accesses dropped: thread killed".into()],
        tags: vec![String::new(), "solve".into()],
        lines: vec![small, lines(64, 2, 12, 1, 11)],
        sampled: vec![],
        coherence,
        sharing: vec![sharing(32), sharing(64)],
        places: places(),
        objects: objects(),
        paths: paths(),
        items: vec![],
        patterns: patterns(),
    };
    let first = Process { items: first.lines.iter().map(|data| by_item(data, 3)).collect(), ..first };
    let mut second = tiny().processes.remove(0);
    second.meta.start_ns = first.meta.start_ns;
    second.meta.host = "node-8".into();
    second.meta.end = EndReason::Replay;
    second.meta.aslr = None;
    Profile { processes: vec![first, second] }
}

/// A function with two loops, into the inner of which another was inlined.
pub(crate) fn places() -> Places {
    let strings = ["", "main", "/src/a.cpp", "_ZN3vec2atEi", "vec::at(int)"];
    Places {
        strings: strings.map(String::from).to_vec(),
        functions: vec![
            Function { name: 1, display: 1, file: 2, line: 3 },
            Function { name: 3, display: 4, file: 2, line: 29 },
        ],
        loops: vec![
            Loop { function: 0, file: 2, line: 5, depth: 1, parent: None },
            Loop { function: 0, file: 2, line: 6, depth: 2, parent: Some(0) },
        ],
        sites: vec![
            Site { function: 0, file: 2, line: 7, column: 12, inlined_at: None, innermost: Some(1) },
            Site { function: 1, file: 2, line: 30, column: 5, inlined_at: Some(0), innermost: Some(1) },
        ],
        items: vec![Item::default(), Item { site: Some(1), merged: false }, Item { site: Some(0), merged: true }],
        blocks: vec![None, Some(4)],
    }
}

/// Twelve bytes, four of them under a tag, what two instructions did, and which bytes are whose.
pub(crate) fn patterns() -> Patterns {
    let strides =
        |site, store, counts: &[(u8, u64)]| Strides { site, tag: 0, store, bytes: 8, counts: counts.to_vec() };
    let by = |function, tag, bytes, touches: &[(u64, u64)]| TouchedBy {
        function,
        touched: Touched { tag, bytes, touches: touches.to_vec(), missing: bytes % 2 },
    };
    Patterns {
        touched: vec![
            Touched { tag: None, bytes: 12, touches: vec![(1, 8), (1 << 40, 4)], missing: 3 },
            Touched { tag: Some(1), bytes: 4, touches: vec![], missing: 0 },
        ],
        strides: vec![strides(None, true, &[(0, 1 << 33)]), strides(Some(1), false, &[(1, 7), (Strides::FIRST, 1)])],
        by_function: vec![
            by(None, None, 4, &[(1 << 39, 4)]),
            by(None, Some(1), 4, &[]),
            by(Some(1), None, 9, &[(1, 8), (1 << 39, 1)]),
        ],
    }
}

/// What the items of [`places`] went to: blocks, a variable, and nothing that is known.
pub(crate) fn objects() -> Objects {
    let heap = Object {
        kind: ObjectKind::Heap,
        name: "graph.c:7".into(),
        site: Some(0),
        count: 3,
        bytes: 1 << 12,
        peak: 1 << 11,
    };
    let global = Object { name: "größe".into(), count: 1, bytes: 64, peak: 64, ..Object::default() };
    Objects { objects: vec![heap, global], items: vec![None, Some(1), Some(0)], crowded: false }
}

/// A function that was called by another and by itself, and callers that are unknown.
pub(crate) fn paths() -> Paths {
    let node = |parent, function| PathNode { parent, function };
    let counts = |tag, node, values: &[(u32, u64)]| PathCounts { tag, node, values: values.to_vec() };
    Paths {
        nodes: vec![node(None, Some(0)), node(None, None), node(Some(0), Some(1))],
        items: vec![None, Some(2), Some(1)],
        counts: vec![counts(0, 0, &[(0, 7), (1, 1 << 40)]), counts(1, 2, &[(1, 3)])],
    }
}

/// The line data, all of each stack attributed to another of so many items.
pub(crate) fn by_item(data: &LineData, items: u32) -> ItemLines {
    let stack = |(item, stack): (u32, &StackData)| {
        let StackData { owner, tag, mut histograms } = stack.clone();
        histograms.sets.iter_mut().for_each(|set| set.capacity.clear());
        ItemStack { owner, tag, item: item % items, histograms }
    };
    let &LineData { line_bytes, max_set_bits, max_ways, ref stacks } = data;
    ItemLines { line_bytes, max_set_bits, max_ways, stacks: (0..).zip(stacks).map(stack).collect() }
}

/// Line data with `slots` slots and the global stack, each with all of 2 tags, filled from `seed`.
pub(crate) fn lines(line_bytes: u32, max_set_bits: u32, max_ways: u32, slots: u32, mut seed: u64) -> LineData {
    let owners = (0..slots).map(Owner::Slot).chain([Owner::Global]);
    let stacks = owners.flat_map(|owner| [0, 1].map(|tag| (owner, tag))).map(|(owner, tag)| {
        // Four blocks of values: F_0 of loads and stores, B_0 closed and open. Values of every magnitude.
        let blocks = [(); 4].map(|()| {
            (0..12)
                .map(|_| (next(&mut seed), next(&mut seed)))
                .map(|(v, c)| (v >> (20 + c % 44), c % 1000 + 1))
                .collect()
        });
        StackData { owner, tag, histograms: histograms(max_set_bits, max_ways, &blocks) }
    });
    LineData { line_bytes, max_set_bits, max_ways, stacks: stacks.collect() }
}

/// Coherence of all slots under both tags, filled from `seed`; what is lost there is added to the references of `data`.
pub(crate) fn coherence(data: &mut LineData, mut seed: u64) -> LineCoherence {
    let &mut LineData { line_bytes, max_set_bits, max_ways, .. } = data;
    let mut slots = Vec::new();
    for StackData { owner, tag, histograms } in &mut data.stacks {
        let Owner::Slot(slot) = *owner else { continue };
        let mut pairs = || (0..6).map(|_| (next(&mut seed) >> 40, next(&mut seed) % 100 + 1)).collect::<Vec<_>>();
        let at = |pairs: &[(u64, u64)]| {
            let sets = (1..=max_set_bits).map(|bits| set_counts(pairs, bits, max_ways)).collect();
            ByPosition { full: bins(pairs), sets }
        };
        let [lost, received, sent, dirty] = [(); 4].map(|()| pairs());
        let remote = pairs();
        let own: Vec<_> = remote.iter().map(|&(position, count)| (position + 9, count / 2 + 1)).collect();
        histograms.references[0] += lost.iter().map(|(_, count)| count).sum::<u64>();
        let [lost, received, sent, remote, own, dirty] = [lost, received, sent, remote, own, dirty].map(|all| at(&all));
        slots.push(Coherence { slot, tag: *tag, lost, received, sent, remote, own, dirty });
    }
    LineCoherence { line_bytes, max_set_bits, max_ways, slots }
}

/// Lines that two threads used, some next to each other, in an array, in what nobody knows, and where one thing took the place of another.
pub(crate) fn sharing(line_bytes: u32) -> SharedLines {
    let user = |slot: u32, places| LineUser {
        slot,
        loads: 4000,
        stores: 1 << 40,
        loaded: 0xff << (8 * slot),
        stored: 0xf << (8 * slot),
        stored_before: slot == 0,
        true_misses: 3,
        false_misses: 900 + u64::from(slot),
        places,
    };
    let places = vec![LinePlace { item: 1, loads: 3000, stores: 1 << 39 }, LinePlace { item: 0, loads: 0, stores: 1 }];
    let address = 0x101 * u64::from(line_bytes);
    let object = |kind, name: &str| Some(SharedObject { kind, name: name.into(), address: address + 8, bytes: 640 });
    let line =
        |number: u64, object, users| SharedLine { address: address + number * u64::from(line_bytes), object, users };
    let lines = vec![
        line(0, object(ObjectKind::Global, "counters"), vec![user(0, places.clone()), user(1, vec![])]),
        line(2, object(ObjectKind::Stack, "größe"), vec![user(1, places)]),
        line(3, object(ObjectKind::Heap, "f.c:11"), vec![user(1, vec![]), user(2, vec![])]),
        line(3, object(ObjectKind::Heap, "f.c:12"), vec![user(0, vec![]), user(2, vec![])]),
        line(1 << 20, None, vec![user(0, vec![])]),
    ];
    SharedLines { line_bytes, most: 1 << 16, dropped_lines: 5, dropped_accesses: 1 << 33, lines }
}

/// A process whose lines were sampled: one in 16 of 32-byte lines, which had too few sets for set sampling, and of
/// 64-byte lines, in two groups.
pub(crate) fn sampled() -> Profile {
    let sampling = Sampling { rate_bits: 4, set_bits: 6, group_bits: 1 };
    let data = |line_bytes, max_set_bits, max_ways, seed| {
        let group = |bits, ways, seed| lines(line_bytes, bits, ways, 1, seed);
        let of_sets = sampling.group_set_bits(max_set_bits);
        let sets: Vec<_> =
            of_sets.into_iter().flat_map(|bits| [1, 2].map(|i: u64| group(bits, max_ways, seed + i))).collect();
        let full = [3, 4].map(|i: u64| group(0, 1, seed + i)).to_vec();
        let owners = [Owner::Slot(0), Owner::Global];
        let keys = owners.into_iter().flat_map(|owner| [0, 1].map(|tag| (owner, tag)));
        let references = keys.map(|(owner, tag)| References { owner, tag, count: [1 << 30, 1 << 29] }).collect();
        SampledLines { line_bytes, max_set_bits, max_ways, sampling, references, sets, full }
    };
    let mut profile = tiny();
    let process = &mut profile.processes[0];
    (process.lines, process.sampled) = (vec![], vec![data(32, 5, 4, 100), data(64, 8, 4, 200)]);
    process.tags.push("solve".into());
    profile
}

/// SplitMix64.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Histograms whose sums hold, out of (value, count) pairs for the distances of loads and stores and for both parts of
/// the write-backs. Distances with 2^a sets are taken as the `d_0 >> a` that random lines would have.
pub(crate) fn histograms(max_set_bits: u32, max_ways: u32, blocks: &[Vec<(u64, u64)>; 4]) -> Histograms {
    let [loads, stores, writebacks, resident] = blocks;
    let without_zero: Vec<_> = writebacks.iter().copied().filter(|&(value, _)| value > 0).collect();
    let total = |pairs: &[(u64, u64)]| pairs.iter().map(|&(_, count)| count).sum::<u64>();
    let sets = (1..=max_set_bits).map(|bits| {
        let counts = |pairs: &[(u64, u64)]| set_counts(pairs, bits, max_ways);
        let mut closed = counts(&without_zero);
        if let Some(zero) = closed.first_mut() {
            *zero = 0;
        }
        SetHistograms {
            loads: counts(loads),
            stores: counts(stores),
            capacity: counts(&[loads.as_slice(), stores].concat()),
            writebacks: closed,
            resident: counts(resident),
        }
    });
    let cold = [3, 2];
    Histograms {
        references: [total(loads) + cold[0], total(stores) + cold[1]],
        cold,
        full: FullHistograms {
            loads: bins(loads),
            stores: bins(stores),
            writebacks: bins(&without_zero),
            resident: bins(resident),
        },
        sets: sets.collect(),
    }
}

/// Counts with 2^`bits` sets of values that are known for one.
fn set_counts(pairs: &[(u64, u64)], bits: u32, max_ways: u32) -> Vec<u64> {
    let mut counts = Vec::new();
    for &(value, count) in pairs {
        let at = (value >> bits).min(max_ways.into()) as usize;
        counts.resize(counts.len().max(at + 1), 0);
        counts[at] += count;
    }
    counts
}

/// Counters of two functions, one of them under a tag too.
pub(crate) fn counters() -> Counters {
    let function = |name: &str, line| CountedFunction { name: name.into(), file: "/src/größe.c".into(), line };
    let item = |tag, function, values| CountItem { tag, function, values };
    let place = |tag, site, values| PlaceItem { tag, site, values };
    let block = |block, line, values| BlockItem { tag: 0, function: 0, block, line, values };
    Counters {
        names: vec!["calls_to/sqrt".into(), "flops".into(), "loads".into()],
        functions: vec![function("f", 3), function("main", 0)],
        items: vec![item(0, 0, vec![(1, 1 << 50), (2, 7)]), item(0, 1, vec![(0, 1 << 40)]), item(1, 0, vec![(2, 0)])],
        blocks: vec![block(0, 0, vec![(1, 1 << 50), (2, 3)]), block(7, 12, vec![(2, 4)])],
        places: vec![
            place(0, None, vec![(2, 3)]),
            place(0, Some(0), vec![(1, 1 << 50), (2, 4)]),
            place(1, Some(1), vec![]),
        ],
    }
}

fn bins(pairs: &[(u64, u64)]) -> Vec<Bin> {
    let mut counts = std::collections::BTreeMap::new();
    for &(value, count) in pairs {
        *counts.entry(bin_of(value)).or_insert(0) += count;
    }
    counts.into_iter().map(|((lo, hi), count)| Bin { lo, hi, count }).collect()
}

/// The trace of [`tiny`]'s accesses, with every kind of record but the latest.
pub(crate) fn tiny_trace() -> Vec<u8> {
    let Process { mut meta, machine, .. } = tiny().processes.remove(0);
    (meta.elapsed_ns, meta.threads, meta.accesses) = (0, 0, 0);
    let header = trace::Header { meta, machine, line_sizes: vec![64], max_set_bits: 1, max_ways: 2 };
    let mut writer = trace::Writer::new(Vec::new(), &header).unwrap();
    let access = |address, size, store| Access { address, size, store };
    writer.event(&Event::SlotTaken { slot: 0 }).unwrap();
    writer.event(&Event::TagName { bucket: 1, name: String::new() }).unwrap();
    writer.chunk(0, 1, &[access(0x1000, 8, true), access(0x1040, 12, false), access(0x1008, 4, true)]).unwrap();
    writer.event(&Event::SlotReleased { slot: 0 }).unwrap();
    writer.finish().unwrap()
}

/// Any sound profile of up to three processes.
pub(crate) fn any_profile() -> impl Strategy<Value = Profile> {
    let data = (0_u32..4, 1_u32..6, 1_u32..3, any::<u64>());
    let process = (0_u64..3, 0_u64..4, "[a-z]{0,3}", prop::collection::vec(data, 0..3), any::<bool>());
    prop::collection::vec(process, 0..4).prop_map(|all| {
        let process = |(start_ns, elapsed_ns, executable, data, checkpoint): (_, _, _, Vec<_>, bool)| {
            let end = if checkpoint { EndReason::Checkpoint } else { EndReason::Exit };
            let mut all = Vec::new();
            let (mut coherent, mut shared) = (Vec::new(), Vec::new());
            for (i, (bits, ways, slots, seed)) in data.into_iter().enumerate() {
                let mut data = lines(32 << i, bits, ways, slots, seed);
                if slots > 1 {
                    coherent.push(coherence(&mut data, seed));
                    shared.push(sharing(32 << i));
                }
                all.push(data);
            }
            Process {
                meta: Meta { start_ns, elapsed_ns, executable, end, ..Meta::default() },
                tags: vec![String::new(), "x".into()],
                lines: all,
                coherence: coherent,
                sharing: shared,
                ..Process::default()
            }
        };
        crate::merge(all.into_iter().map(|one| Profile { processes: vec![process(one)] }))
    })
}

//! Private caches of several threads, through `bf replay` and `bf query --by thread`, against caches simulated one at a time:
//! no difference at all.

use std::collections::BTreeMap;

use bf_collect::Access;
use bf_tests::cases::Case;
use bf_tests::coherent::{Counts, simulate};
use bf_tests::oracle::Shape;
use bf_tests::sandbox::{Sandbox, succeed};
use bf_tests::{coherent, program};
use serde_json::{Value, json};

type Trace = Vec<(u32, Access)>;

/// Replays a trace into `t.bfp`.
fn replay(sandbox: &Sandbox, trace: &[(u32, Access)], options: &[&str]) {
    let accesses: Vec<Value> =
        trace.iter().map(|(t, a)| json!([t, a.address, a.size, if a.store { "w" } else { "r" }])).collect();
    let threads = trace.iter().map(|(thread, _)| thread + 1).max().unwrap_or(0);
    sandbox.write("t.json", json!({ "threads": threads, "trace": accesses }).to_string());
    let replay = ["replay", "t.json", "-o", "t.bfp"];
    let _ = succeed(sandbox.command(program("bf")).args(replay).args(options));
}

/// The level of `t.bfp` that is such a private cache.
fn ask(sandbox: &Sandbox, Shape { line, sets, ways }: Shape) -> Value {
    let cache = format!("L1={}:{ways}:{line}:private", line * sets * ways as u64);
    let mut answer = sandbox.bf(&["query", "t.bfp", "--cache", &cache, "--by", "thread"]);
    answer["levels"][0].take()
}

/// What a level says of its threads.
fn threads(level: &Value) -> BTreeMap<u32, [u64; 4]> {
    let figures = |thread: &Value| {
        ["references", "misses", "invalidations", "remote"].map(|key| thread[key].as_u64().unwrap_or(u64::MAX))
    };
    let number = |thread: &Value| u32::try_from(thread["thread"].as_u64().expect("a number")).expect("a thread");
    level["threads"].as_array().expect("threads").iter().map(|thread| (number(thread), figures(thread))).collect()
}

fn four(counts: &Counts) -> [u64; 4] {
    [counts.references, counts.misses, counts.invalidations, counts.remote]
}

/// Compares every figure of a level with the simulation of its cache.
fn compare(sandbox: &Sandbox, trace: &[(u32, Access)], shape: Shape, what: &str) {
    let simulated = simulate(shape, trace.iter().copied());
    let level = ask(sandbox, shape);
    let each: BTreeMap<u32, [u64; 4]> = simulated.iter().map(|(&thread, counts)| (thread, four(counts))).collect();
    assert_eq!(threads(&level), each, "{what} {shape:?}");
    let sum = |of: fn(&Counts) -> u64| simulated.values().map(of).sum::<u64>();
    let several = simulated.len() > 1;
    let figures = [
        ("references", sum(|counts| counts.references)),
        ("misses", sum(|counts| counts.misses)),
        ("cold", sum(|counts| counts.cold)),
        ("coherence", sum(|counts| counts.coherence)),
        ("invalidations_received", sum(|counts| counts.invalidations)),
        ("invalidations_sent", sum(|counts| counts.sent)),
        ("remote", sum(|counts| counts.remote)),
        ("dirty_transfers", sum(|counts| counts.dirty_transfers)),
        ("memory_accesses", sum(|counts| counts.misses - counts.remote)),
    ];
    for (key, figure) in figures {
        let defined = several || ["references", "misses", "cold", "memory_accesses"].contains(&key);
        assert_eq!(level[key], if defined { json!(figure) } else { Value::Null }, "{key}: {what} {shape:?}");
    }
    let kinds = ["cold", "coherence", "capacity", "conflict"].map(|kind| level[kind].as_u64().unwrap_or(0));
    assert_eq!(kinds.iter().sum::<u64>(), sum(|counts| counts.misses), "{what} {shape:?}");
    assert_eq!((level["writebacks"].is_null(), level["exact"] == true), (several, true), "{what} {shape:?}");
}

#[test]
fn every_known_answer() {
    let mut found = 0;
    for case in Case::all().unwrap() {
        let answers: Vec<_> = case.coherent().collect();
        if answers.is_empty() {
            continue;
        }
        let sandbox = Sandbox::new();
        let trace: Trace = case.accesses().collect();
        replay(&sandbox, &trace, &["--line-size", "32,64,128"]);
        for (shape, answer) in answers {
            let simulated = coherent::simulate(shape, trace.iter().copied());
            let each = simulated.iter().map(|(&thread, counts)| (thread, four(counts))).collect();
            assert_eq!((&answer, &answer), (&each, &threads(&ask(&sandbox, shape))), "{} {shape:?}", case.name);
            found += 1;
        }
    }
    assert_eq!(found, 84);
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

/// How threads share lines.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Not at all.
    Private,
    /// All read a table that nobody writes.
    ReadShared,
    /// A few lines go from one to the next, each reading and then writing them.
    Migratory,
    /// One writes a ring that the others read.
    ProducerConsumer,
    /// Each writes its own words, of lines that all have words in.
    FalseSharing,
    /// Anything, anywhere.
    Anything,
}

const KINDS: [Kind; 6] =
    [Kind::Private, Kind::ReadShared, Kind::Migratory, Kind::ProducerConsumer, Kind::FalseSharing, Kind::Anything];

/// A trace in which threads share lines in this way most of the time, and use lines of their own otherwise.
fn trace(kind: Kind, threads: u32, accesses: usize, random: &mut Random) -> Trace {
    let mut trace = Trace::new();
    let mut turn = 0_u64;
    while trace.len() < accesses {
        let thread = random.below(threads.into()) as u32;
        let mut access = |address, size, store| trace.push((thread, Access { address, size, store }));
        let own = 0x100_0000 * (u64::from(thread) + 1);
        if random.below(3) == 0 {
            access(own + random.below(6000), 8, random.below(3) == 0);
        }
        match kind {
            Kind::Private => access(own + 64 * random.below(90), 4, random.below(2) == 0),
            Kind::ReadShared => access(random.below(8000), 16, false),
            Kind::Migratory => {
                let record = 256 * random.below(12);
                access(record, 8, false);
                access(record + 8 * random.below(16), 8, true);
            }
            Kind::ProducerConsumer if thread == 0 => {
                turn += 1;
                access(turn % 80 * 48, 48, true);
            }
            Kind::ProducerConsumer => access((turn + random.below(4)) % 80 * 48, 48, false),
            Kind::FalseSharing => access(random.below(20) * 128 + u64::from(thread) * 8, 8, random.below(4) != 0),
            Kind::Anything => {
                let span = 1 << (6 + random.below(9));
                access(random.below(span), 1 + random.below(200), random.below(3) == 0);
            }
        }
    }
    trace
}

#[test]
fn random_traces_of_every_kind_of_sharing() {
    let mut random = Random(20);
    for (index, kind) in KINDS.into_iter().cycle().take(2 * KINDS.len()).enumerate() {
        let threads = 2 + random.below(7) as u32;
        let trace = trace(kind, threads, 2500, &mut random);
        let sandbox = Sandbox::new();
        // The shapes below need no more, and large ones would only make the profile larger.
        let (bits, ways) = (1 + random.below(6), 1 + random.below(12));
        let limits = ["--line-size", "32,64,256", "--max-set-bits", &bits.to_string(), "--max-ways", &ways.to_string()];
        replay(&sandbox, &trace, &limits);
        for _ in 0..12 {
            let line = [32, 64, 256][random.below(3) as usize];
            let bits = random.below(bits + 1);
            let ways = if bits == 0 { 1 + random.below(300) } else { 1 + random.below(ways) };
            let shape = Shape { line, sets: 1 << bits, ways: ways as usize };
            compare(&sandbox, &trace, shape, &format!("{index}: {threads} threads, {kind:?}"));
        }
        // More sets than the profile keeps: no exact answer, but bounds.
        let shape = Shape { line: 64, sets: 2 << bits, ways: ways as usize };
        let misses: u64 = simulate(shape, trace.iter().copied()).values().map(|counts| counts.misses).sum();
        let level = ask(&sandbox, shape);
        let [least, most] = match level["bounds"].as_array().map(Vec::as_slice) {
            Some([least, most]) => [least, most].map(|end| end.as_u64().expect("a count")),
            _ => [level["misses"].as_u64().expect("a count"); 2],
        };
        assert!((least..=most).contains(&misses), "{misses} of {level}");
    }
}

#[test]
fn two_levels_and_tables_that_say_it_in_words() {
    let sandbox = Sandbox::new();
    let trace = trace(Kind::FalseSharing, 4, 2000, &mut Random(3));
    replay(&sandbox, &trace, &[]);
    let hierarchy = ["--cache", "L1=1K:4", "--cache", "L2=4K:8", "--cache", "L3=64K:16:shared", "--by", "thread"];
    let answer = sandbox.bf(&[&["query", "t.bfp"][..], &hierarchy].concat());
    let levels = answer["levels"].as_array().expect("levels");
    for (above, below) in levels.iter().zip(&levels[1..]) {
        assert_eq!(above["misses"], below["references"]);
        assert_eq!(above["memory_accesses"], Value::Null);
    }
    assert_eq!(levels[2]["memory_accesses"], levels[2]["misses"]);
    assert!(levels[2].get("threads").is_none() && levels[2]["coherence"].is_null() && levels[2]["writebacks"].is_u64());
    let printed = |args: &[&str]| {
        let out = succeed(sandbox.command(program("bf")).args(args));
        String::from_utf8(out.stdout).expect("text")
    };
    let text = printed(&[&["query", "t.bfp"][..], &hierarchy].concat());
    for word in ["coherence", "invalidations received", "misses another cache held", "thread 3"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let csv = printed(&[&["query", "t.bfp", "--format", "csv"][..], &hierarchy].concat());
    assert_eq!(csv.lines().next(), Some("profiles,level,thread,references,misses,invalidations,remote"));
    assert_eq!(csv.lines().count(), 1 + 2 * 4);
    let report = printed(&["report", "t.bfp", "--machine", "zen3-milan"]);
    assert!(report.contains("coherence") && report.contains("invalidations received"), "{report}");
}

/// A thread whose number is not the first had another one beside it, if only for a moment: what is shared is the stack of both, and the
/// private one keeps no write-backs.
#[test]
fn one_thread_that_is_not_the_first() {
    let sandbox = Sandbox::new();
    let stores = |thread| [0, 64, 128].map(|address| (thread, Access { address, size: 8, store: true })).to_vec();
    let ask = |thread, scope| {
        replay(&sandbox, &stores(thread), &[]);
        let mut answer = sandbox.bf(&["query", "t.bfp", "--cache", &format!("L1=64:1:64:{scope}")]);
        ["misses", "writebacks", "resident_dirty"].map(|key| answer["levels"][0][key].take())
    };
    let [known, unknown] = [[json!(3), json!(2), json!(1)], [json!(3), Value::Null, Value::Null]];
    assert_eq!(ask(0, "private"), known);
    assert_eq!(ask(0, "shared"), known);
    assert_eq!(ask(1, "shared"), known);
    assert_eq!(ask(1, "private"), unknown);
}

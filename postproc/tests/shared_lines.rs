//! Who shares what, from profiles made by hand.

use bf_postproc::shared_lines::{Answer, Base, Kind, Question, Unknown, shared_lines};
use bf_profile::places::{Function, Item, Site};
use bf_profile::{
    LineData, LinePlace, LineUser, ObjectKind, Owner, Places, Process, Profile, SampledLines, Sampling, SharedLine,
    SharedLines, SharedObject, StackData,
};

fn user(slot: u32, [loads, stores]: [u64; 2], [loaded, stored]: [u64; 2], [yes, no]: [u64; 2]) -> LineUser {
    let places = vec![LinePlace { item: 1, loads, stores }];
    LineUser { slot, loads, stores, loaded, stored, true_misses: yes, false_misses: no, places, ..LineUser::default() }
}

fn object(kind: ObjectKind, name: &str, address: u64, bytes: u64) -> Option<SharedObject> {
    Some(SharedObject { kind, name: name.into(), address, bytes })
}

/// Two threads that store the 8 bytes of their own at these offsets in a line.
fn beside(address: u64, object: Option<SharedObject>, misses: u64) -> SharedLine {
    let one = |slot: u32, at: u32| user(slot, [5, 7], [0xff << at; 2], [0, misses]);
    SharedLine { address, object, users: vec![one(1, 0), one(2, 8)] }
}

fn process(lines: Vec<SharedLine>) -> Process {
    let stack = |slot| StackData { owner: Owner::Slot(slot), ..StackData::default() };
    let stacks = [0, 1, 2].map(stack).to_vec();
    let mut process = Process {
        lines: vec![LineData { line_bytes: 64, max_ways: 1, stacks, ..LineData::default() }],
        sharing: vec![SharedLines { line_bytes: 64, most: 100, dropped_lines: 3, dropped_accesses: 9, lines }],
        tags: vec![String::new()],
        ..Process::default()
    };
    process.meta.pid = 7;
    process
}

fn ask(lines: Vec<SharedLine>, question: &Question) -> Answer {
    let profile = Profile { processes: vec![process(lines)] };
    profile.validate().unwrap();
    shared_lines(&profile, question).unwrap()
}

fn all(lines: Vec<SharedLine>) -> Answer {
    ask(lines, &Question::default())
}

#[test]
fn an_array_over_many_lines_is_one_finding() {
    let array = || object(ObjectKind::Global, "counters", 0x1010, 200);
    let answer = all((0..4).map(|line| beside(0x1000 + 64 * line, array(), 1 + line)).collect());
    let [finding] = answer.findings.as_slice() else { panic!("{answer:?}") };
    assert_eq!((finding.kind, finding.lines, finding.address, finding.pid), (Kind::False, 4, 0x1000, 7));
    assert_eq!((finding.misses, finding.true_misses, finding.loads, finding.stores), (20, 0, 40, 56));
    // The array begins 16 bytes into the first line: what lies before it has negative offsets.
    assert_eq!((finding.offset, finding.ranges_in), (Some(-16), Base::Object));
    assert_eq!(finding.threads[0].stored, [[-16, -9], [48, 55], [112, 119], [176, 183]]);
    assert!(finding.advice.as_ref().unwrap().contains("alignas(64)"));
    assert_eq!((answer.lines_tracked, answer.lines_shared, answer.dropped_lines), (4, 4, 3));
}

#[test]
fn worst_first_and_no_more_than_asked_for() {
    let lines = || {
        let named = |name, at| object(ObjectKind::Global, name, at, 64);
        let mut busy = beside(0x3000, named("busy", 0x3000), 5);
        busy.users[0].stores += 1;
        vec![beside(0x1000, named("few", 0x1000), 1), beside(0x2000, named("some", 0x2000), 5), busy]
    };
    let names = |answer: &Answer| {
        let names = answer.findings.iter().map(|finding| finding.object.as_ref().unwrap().name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&all(lines())), ["busy", "some", "few"]);
    let top = ask(lines(), &Question { top: Some(1), ..Question::default() });
    assert_eq!((names(&top), top.findings_total), (vec!["busy".to_owned()], 3));
}

#[test]
fn blocks_of_one_allocation_site_are_one_finding() {
    let block = |at, name| object(ObjectKind::Heap, name, at, 24);
    let lines = vec![
        beside(0x1000, block(0x1000, "f.c:12"), 1),
        beside(0x2000, block(0x2000, "g.c:3"), 1),
        beside(0x9000, block(0x9010, "f.c:12"), 1),
    ];
    let answer = all(lines);
    let [two, one] = answer.findings.as_slice() else { panic!("{answer:?}") };
    let object = two.object.as_ref().unwrap();
    assert_eq!((object.kind, object.count, two.lines, two.offset), ("heap", Some(2), 2, None));
    assert_eq!((two.address, two.last), (0x1000, 0x9000));
    assert_eq!((two.ranges_in, two.threads[1].stored.as_slice()), (Base::Line, &[[8, 15]][..]));
    assert_eq!((one.object.as_ref().unwrap().name.as_str(), one.offset), ("g.c:3", Some(0)));
    assert!(two.advice.as_ref().unwrap().contains("alignas"), "it is not blocks that threads share a line of");
    let object = |answer: &Answer| answer.findings[0].object.clone().unwrap();
    let answer =
        all(vec![beside(0x1000, block(0x1000, "f.c:12, 2 of them").map(|all| SharedObject { bytes: 0, ..all }), 1)]);
    assert_eq!((object(&answer).bytes, object(&answer).count, answer.findings[0].ranges_in), (None, None, Base::Line));
    assert!(answer.findings[0].advice.as_ref().unwrap().contains("aligned_alloc"));
}

#[test]
fn what_lay_on_a_line_one_after_the_other_is_told_apart() {
    let block = |name| object(ObjectKind::Heap, name, 0x1000, 24);
    let answer = all(vec![beside(0x1000, block("f.c:12"), 1), beside(0x1000, block("g.c:3"), 2)]);
    let names = answer.findings.iter().map(|finding| (finding.object.as_ref().unwrap().name.as_str(), finding.lines));
    assert_eq!(names.collect::<Vec<_>>(), [("g.c:3", 1), ("f.c:12", 1)]);
    assert_eq!((answer.lines_tracked, answer.lines_shared), (1, 1));
}

#[test]
fn memory_without_a_name_is_told_apart_by_where_it_lies() {
    let answer = all([0x1000, 0x1040, 0x9000].map(|at| beside(at, None, 1)).to_vec());
    let found: Vec<_> = answer.findings.iter().map(|finding| (finding.address, finding.last, finding.lines)).collect();
    assert_eq!(found, [(0x1000, 0x1040, 2), (0x9000, 0x9000, 1)]);
}

#[test]
fn different_code_makes_different_findings() {
    let array = || object(ObjectKind::Global, "a", 0x1000, 128);
    let mut other = beside(0x1040, array(), 1);
    other.users.iter_mut().for_each(|user| user.places[0].item = 2);
    let answer = all(vec![beside(0x1000, array(), 1), other]);
    assert_eq!((answer.findings.len(), &answer.findings[0].stored_by), (2, &None), "there is no such place");
}

/// The kind of a line that two threads use so.
fn kind(users: [([u64; 2], [u64; 2]); 2]) -> Kind {
    let [one, two] = users.map(|(bytes, misses)| user(0, [9000, 9000], bytes, misses));
    let line = SharedLine { address: 0, object: None, users: vec![one, LineUser { slot: 1, ..two }] };
    all(vec![line]).findings[0].kind
}

#[test]
fn kinds() {
    let (low, high) = ([0xf, 0xf], [0xf0, 0xf0]);
    assert_eq!(kind([(low, [0, 0]), (high, [0, 0])]), Kind::False);
    assert_eq!(kind([(low, [0, 0]), ([0xf, 0xf0], [0, 0])]), Kind::True);
    // One thread looked at the other's counter in the end: that is not what the line suffers from.
    assert_eq!(kind([(low, [0, 900]), ([0xff, 0xf0], [1, 900])]), Kind::False);
    assert_eq!(kind([(low, [90, 0]), (low, [90, 20])]), Kind::True);
    assert_eq!(kind([(low, [90, 0]), (low, [90, 21])]), Kind::Both);
    assert_eq!(kind([(low, [1, 9]), (low, [0, 0])]), Kind::False);
    assert_eq!(kind([(low, [1, 8]), (low, [0, 0])]), Kind::Both);
}

#[test]
fn lines_of_their_own_are_advised_where_false_sharing_is_much_of_it() {
    for (misses, much) in [([3, 1], true), ([310, 100], false), ([0, 9], true), ([9, 0], false)] {
        let users = vec![user(0, [9000, 9000], [0xff, 0xff], misses), user(1, [9000, 9000], [0xff, 0xff], [0, 0])];
        let finding = &all(vec![SharedLine { address: 0, object: None, users }]).findings[0];
        assert_eq!(finding.advice.is_some(), much, "{misses:?}");
    }
}

#[test]
fn only_one_kind_may_be_asked_for() {
    let lines = || {
        let shared = |at, misses| SharedLine {
            address: at,
            object: object(ObjectKind::Global, "x", at, 8),
            users: vec![user(0, [1, 200], [1, 1], misses), user(1, [200, 1], [1, 1], [0, 0])],
        };
        vec![shared(0, [100, 0]), shared(64, [0, 100]), shared(128, [100, 100])]
    };
    let kinds = |kind| {
        let answer = ask(lines(), &Question { kind, ..Question::default() });
        answer.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(None), [Kind::Both, Kind::True, Kind::False]);
    assert_eq!(kinds(Some(Kind::True)), [Kind::Both, Kind::True]);
    assert_eq!(kinds(Some(Kind::False)), [Kind::Both, Kind::False]);
}

#[test]
fn what_is_read_or_handed_over_is_no_finding() {
    let line = |users| SharedLine { address: 64, object: None, users };
    let read = |slot| user(slot, [9, 0], [3, 0], [0, 0]);
    let writes = || user(1, [9, 9], [3, 3], [0, 0]);
    let before = LineUser { slot: 0, stored_before: true, ..LineUser::default() };
    for users in [vec![read(0), read(1)], vec![before.clone(), writes()], vec![before, read(1), read(2)]] {
        let answer = all(vec![line(users)]);
        assert_eq!((answer.lines_tracked, answer.lines_shared, answer.findings.len()), (1, 0, 0));
    }
    let answer = all(vec![line(vec![read(0), writes()])]);
    assert_eq!((answer.findings.len(), answer.findings[0].advice.as_ref()), (1, None));
}

#[test]
fn bits_are_bytes_of_the_line() {
    let ranges = |line_bytes: u32, bits| {
        let mut process = process(vec![SharedLine {
            address: 0,
            object: None,
            users: vec![user(0, [1, 1], [bits; 2], [0, 0]), user(1, [1, 1], [bits; 2], [0, 0])],
        }]);
        (process.lines[0].line_bytes, process.sharing[0].line_bytes) = (line_bytes, line_bytes);
        let profile = Profile { processes: vec![process] };
        profile.validate().unwrap();
        shared_lines(&profile, &Question::default()).unwrap().findings.remove(0).threads.remove(0).stored
    };
    assert_eq!(ranges(64, u64::MAX), [[0, 63]]);
    assert_eq!(ranges(64, 1 << 63 | 0b1101), [[0, 0], [2, 3], [63, 63]]);
    assert_eq!(ranges(32, 0xff00_0000), [[24, 31]]);
    assert_eq!(ranges(256, 0b110 | 1 << 63), [[4, 11], [252, 255]]);
}

/// Why a profile of one process does not tell.
fn unknown(process: Process, line_bytes: Option<u32>) -> Unknown {
    let profile = Profile { processes: vec![process] };
    shared_lines(&profile, &Question { line_bytes, ..Question::default() }).unwrap_err()
}

#[test]
fn profiles_that_do_not_tell_say_why() {
    let older = Process { sharing: vec![], ..process(vec![]) };
    assert_eq!(unknown(older.clone(), None), Unknown::Missing);
    assert_eq!(unknown(Process::default(), None), Unknown::NoLines);
    let mut off = process(vec![]);
    off.sharing[0].most = 0;
    assert_eq!(unknown(off, None), Unknown::Off);
    let there = "64".into();
    assert_eq!(unknown(process(vec![]), Some(128)), Unknown::LineSize { asked: 128, there });
    let sampling = Sampling { rate_bits: 6, set_bits: 8, group_bits: 0 };
    let sampled = SampledLines { line_bytes: 64, sampling, ..SampledLines::default() };
    let sampled = Process { sampled: vec![sampled], ..Process::default() };
    assert_eq!(unknown(sampled, None), Unknown::Sampled(6));

    let mut alone = older.clone();
    alone.lines[0].stacks.truncate(1);
    let profile = Profile { processes: vec![alone] };
    let answer = shared_lines(&profile, &Question::default()).unwrap();
    assert!(answer.findings.is_empty() && answer.notes[0].ends_with("none shares a line"), "{:?}", answer.notes);

    // One that tells is enough; the other is named.
    let profile = Profile { processes: vec![older, process(vec![beside(0, None, 1)])] };
    let answer = shared_lines(&profile, &Question::default()).unwrap();
    assert_eq!((answer.findings.len(), answer.notes.len()), (1, 3), "{:?}", answer.notes);
}

#[test]
fn places_have_the_names_of_their_items() {
    let mut process = process(vec![beside(0, None, 1)]);
    process.places = Places {
        strings: ["", "bump", "/src/a.c"].map(str::to_owned).to_vec(),
        functions: vec![Function { name: 1, display: 1, file: 2, line: 3 }],
        sites: vec![Site { file: 2, line: 5, ..Site::default() }],
        items: vec![Item::default(), Item { site: Some(0), merged: false }],
        ..Places::default()
    };
    let profile = Profile { processes: vec![process] };
    profile.validate().unwrap();
    let answer = shared_lines(&profile, &Question::default()).unwrap();
    let place = &answer.findings[0].threads[0].places[0];
    assert_eq!(
        (place.function.as_deref(), place.file.as_deref(), place.line),
        (Some("bump"), Some("/src/a.c"), Some(5))
    );
    assert!(answer.notes.iter().all(|note| !note.contains("-g")), "{:?}", answer.notes);
}

#[test]
fn what_the_standard_library_does_is_done_where_it_was_inlined() {
    let array = || object(ObjectKind::Global, "a", 0x1000, 128);
    let (mut one, mut other) = (beside(0x1000, array(), 1), beside(0x1040, array(), 1));
    let user = &mut one.users[0];
    (user.loads, user.stores) = (user.loads + 30, user.stores + 1);
    user.places.push(LinePlace { item: 2, loads: 30, stores: 1 });
    other.users.iter_mut().for_each(|user| user.places[0].item = 2);
    let mut process = process(vec![one, other]);
    let within = |line, inlined_at| Site { function: 1, file: 3, line, inlined_at, ..Site::default() };
    process.places = Places {
        strings: ["", "bump", "/src/a.cpp", "/usr/include/c++/12/atomic", "add"].map(str::to_owned).to_vec(),
        functions: [1, 4].map(|name| Function { name, display: name, file: 2, line: 3 }).to_vec(),
        sites: vec![Site { file: 2, line: 5, ..Site::default() }, within(70, Some(0)), within(80, Some(0))],
        items: [None, Some(1), Some(2)].map(|site| Item { site, merged: false }).to_vec(),
        ..Places::default()
    };
    let profile = Profile { processes: vec![process] };
    profile.validate().unwrap();
    let answer = shared_lines(&profile, &Question::default()).unwrap();
    let [finding] = answer.findings.as_slice() else { panic!("one place stores both: {answer:?}") };
    let [place] = finding.threads[0].places.as_slice() else { panic!("{finding:?}") };
    let of = (place.function.as_deref(), place.file.as_deref(), place.line, place.loads, place.stores);
    assert_eq!(of, (Some("bump"), Some("/src/a.cpp"), Some(5), 40, 15));
}

#[test]
fn the_code_of_a_region_has_the_name_of_the_function_that_threads_are_given() {
    let mut process = process(vec![beside(0, None, 1)]);
    let outer = Site { line: 4, ..Site::default() };
    process.places = Places {
        strings: ["", "main.omp_outlined.2", "main.omp_outlined_debug__.1"].map(str::to_owned).to_vec(),
        functions: [1, 2].map(|name| Function { name, display: name, ..Function::default() }).to_vec(),
        sites: vec![outer, Site { function: 1, line: 5, inlined_at: Some(0), ..Site::default() }],
        items: vec![Item::default(), Item { site: Some(1), merged: false }],
        ..Places::default()
    };
    let mut profile = Profile { processes: vec![process] };
    let place = |profile: &Profile| {
        shared_lines(profile, &Question::default()).unwrap().findings[0].threads[0].places[0].clone()
    };
    let found = place(&profile);
    assert_eq!((found.function.as_deref(), found.line), (Some("main.omp_outlined.2"), Some(5)));
    profile.processes[0].places.sites[1].inlined_at = None;
    assert_eq!(place(&profile).function.as_deref(), Some("main.omp_outlined_debug__.1"), "it is a function by itself");
}

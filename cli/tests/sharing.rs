//! `bf sharing` as a user meets it, on profiles made by hand.

use bf_profile::places::{Function, Item, Site};
use bf_profile::{
    LineData, LinePlace, LineUser, ObjectKind, Owner, Places, Process, Profile, SharedLine, SharedLines, SharedObject,
    StackData,
};
use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Output},
};

fn bf(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bf")).current_dir(folder).args(arguments).output().unwrap()
}

/// Three lines of an array that two threads store side by side, one that a third looks at, and a flag.
fn profile() -> Profile {
    let user = |slot: u32, loads, stores, bits: u64, misses: [u64; 2]| LineUser {
        slot,
        loads,
        stores,
        loaded: if loads > 0 { bits } else { 0 },
        stored: if stores > 0 { bits } else { 0 },
        true_misses: misses[0],
        false_misses: misses[1],
        places: vec![LinePlace { item: 0, loads, stores }],
        ..LineUser::default()
    };
    let object = |kind, name: &str, address, bytes| Some(SharedObject { kind, name: name.into(), address, bytes });
    let beside = |line: u64| SharedLine {
        address: 0x4000 + 64 * line,
        object: object(ObjectKind::Global, "counters", 0x4000, 192),
        users: vec![user(1, 1000, 1000, 0xff, [0, 40]), user(2, 1000, 1000, 0xff00, [0, 41])],
    };
    let mut lines: Vec<_> = (0..3).map(beside).collect();
    lines[2].users.push(user(3, 1, 0, 0xff00, [1, 0]));
    let flag = SharedLine {
        address: 0x7000,
        object: object(ObjectKind::Heap, "main.c:3", 0x7008, 4),
        users: vec![user(0, 0, 9, 0xf00, [0, 0]), user(1, 90, 0, 0xf00, [9, 0])],
    };
    lines.push(flag);
    let stack = |slot| StackData { owner: Owner::Slot(slot), ..StackData::default() };
    let stacks = [0, 1, 2, 3].map(stack).to_vec();
    for line in &mut lines[..3] {
        let place = |item, loads| LinePlace { item, loads, stores: loads };
        line.users[0].places = vec![place(1, 300), place(2, 200), place(0, 490)];
    }
    let mut process = Process {
        lines: vec![LineData { line_bytes: 64, max_ways: 1, stacks, ..LineData::default() }],
        sharing: vec![SharedLines { line_bytes: 64, most: 4096, dropped_lines: 2, dropped_accesses: 1, lines }],
        tags: vec![String::new()],
        ..Process::default()
    };
    process.meta.executable = "a.out".into();
    process.places = Places {
        strings: ["", "bump", "/src/a.c"].map(str::to_owned).to_vec(),
        functions: vec![Function { name: 1, display: 1, file: 2, line: 3 }],
        sites: [5, 6].map(|line| Site { file: 2, line, ..Site::default() }).to_vec(),
        items: [None, Some(0), Some(1)].map(|site| Item { site, merged: false }).to_vec(),
        ..Places::default()
    };
    Profile { processes: vec![process] }
}

const EXPECTED: &str = "\
a.bfp
4 lines of 64 bytes used by several threads, 4 of them stored by one while another used them.
No more than 4,096 lines were followed; 2 with 1 access were given up.

1. counters: false sharing
   3 lines of 64 bytes from 0x4000 on; 244 coherence misses: 1 by true, 243 by false sharing
   ─────────────────────────────────────────────────────────────────────────────
               loads   stores   misses   bytes of it             code
   ─────────────────────────────────────────────────────────────────────────────
    thread 1   3,000    3,000      120   0..7 64..71 128..135    bump (a.c:5 6)
                                                                 other code
    thread 2   3,000    3,000      123   8..15 72..79 136..143   unknown
    thread 3       1        0        1   loads 136..143          unknown
   ─────────────────────────────────────────────────────────────────────────────
   Mend: give what each thread uses lines of its own: align it to 64 bytes (alignas(64)) and pad it to a multiple of that.

2. heap block of 4 bytes from main.c:3: true sharing
   1 line of 64 bytes at 0x7000; 9 coherence misses: 9 by true, 0 by false sharing
   ────────────────────────────────────────────────────────────
               loads   stores   misses   bytes of it   code
   ────────────────────────────────────────────────────────────
    thread 0       0        9        0   0..3          unknown
    thread 1      90        0        9   loads 0..3    unknown
   ────────────────────────────────────────────────────────────

Note: misses are estimates: in which order threads used a line is known from buffer to buffer, not from access to access; threads that run side by side can have more, up to one for each load and store.
";

#[test]
fn a_finding_names_object_kind_threads_and_the_mend() {
    let folder = tempfile::tempdir().unwrap();
    bf_profile::write_file(folder.path().join("a.bfp"), &profile()).unwrap();
    let output = bf(folder.path(), &["sharing", "a.bfp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, EXPECTED);
    let one = bf(folder.path(), &["sharing", "a.bfp", "--top", "1"]);
    let one = String::from_utf8(one.stdout).unwrap();
    assert!(one.contains("\n1 finding with fewer misses: --top 2\n") && !one.contains("main.c"), "{one}");
}

#[test]
fn json_has_the_documented_keys() {
    let folder = tempfile::tempdir().unwrap();
    bf_profile::write_file(folder.path().join("a.bfp"), &profile()).unwrap();
    let output = bf(folder.path(), &["sharing", "a.bfp", "--format", "json", "--kind", "true"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["schema"], &answer["findings_total"]), (&"bf.sharing/1".into(), &1.into()));
    let document = include_str!("../../docs/json.md");
    let section = document.split("## bf.sharing/1").nth(1).unwrap().split("\n## ").next().unwrap();
    let finding = &answer["findings"][0];
    for object in [&answer, finding, &finding["object"], &finding["threads"][0], &finding["threads"][0]["places"][0]] {
        for key in object.as_object().unwrap().keys() {
            assert!(section.contains(&format!("`{key}`")), "{key} is not documented");
        }
    }
    let csv = bf(folder.path(), &["sharing", "a.bfp", "--format", "csv"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 + 2, "{csv}");
    assert!(csv.contains("a.bfp,1,0,false,counters,0,16384,3,1,3000,3000,0,120,false,0..7 64..71 128..135,"), "{csv}");
}

#[test]
fn what_cannot_be_told_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let mut profile = profile();
    profile.processes[0].sharing.clear();
    bf_profile::write_file(folder.path().join("old.bfp"), &profile).unwrap();
    let output = bf(folder.path(), &["sharing", "old.bfp"]);
    let message = "bf: old.bfp: the profile does not tell who shares lines: an older bf wrote it, or it was salvaged \
                   without them; run the program again\n";
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(1), message));
    let wrong = bf(folder.path(), &["sharing", "old.bfp", "--kind", "both"]);
    assert_eq!(wrong.status.code(), Some(2));

    profile.processes[0].lines[0].stacks.truncate(1);
    bf_profile::write_file(folder.path().join("alone.bfp"), &profile).unwrap();
    let output = bf(folder.path(), &["sharing", "alone.bfp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("no two threads ran at the same time"), "{text}");
    let csv = String::from_utf8(bf(folder.path(), &["sharing", "alone.bfp", "--format", "csv"]).stdout).unwrap();
    bf_profile::write_file(folder.path().join("a.bfp"), &self::profile()).unwrap();
    let full = String::from_utf8(bf(folder.path(), &["sharing", "a.bfp", "--format", "csv"]).stdout).unwrap();
    assert_eq!(csv.lines().collect::<Vec<_>>(), full.lines().take(1).collect::<Vec<_>>());
}

//! `bf.h`, ranges, and what the environment asks for.

mod common;

use common::{references, run, tagged};

#[test]
fn tags_and_pauses() {
    let process = run(&["calipers"], &[]).only();
    assert_eq!(process.tags, ["", "one", "two"]);
    let loads = |tag| tagged(&process, tag).references[0];
    assert_eq!((loads(""), loads("one"), loads("two")), (1001, 34, 5));
    assert_eq!(process.meta.accesses, 1040);
    // Lines 0..1000 were cold in the first loop; the 200 uncounted loads moved line 0..200 up before the next 30.
    assert_eq!(tagged(&process, "one").cold, [0, 0]);
    let first = &tagged(&process, "one").full.loads;
    assert!(first.iter().any(|bin| bin.lo == 199 && bin.count == 30), "{first:?}");
}

#[test]
fn ignored_pauses_leave_the_stacks_alone() {
    let process = run(&["calipers"], &[("BF_STOP", "ignore")]).only();
    assert_eq!(process.meta.accesses, 1040);
    let first = &tagged(&process, "one").full.loads;
    assert!(first.iter().any(|bin| bin.lo <= 999 && 999 < bin.hi && bin.count == 30), "{first:?}");
}

#[test]
fn more_tags_than_there_is_room_for() {
    let process = run(&["many-tags"], &[]).only();
    assert_eq!((process.tags.len(), process.tags[253].as_str()), (254, "(more tags)"));
    assert_eq!(tagged(&process, "(more tags)").references, [48, 0]);
    assert_eq!(tagged(&process, "tag 251").references, [1, 0]);
    assert_eq!(process.log, ["more than 252 tags: the others count as \"(more tags)\""]);
}

#[test]
fn a_tag_holds_in_every_thread_and_nothing_is_lost() {
    let process = run(&["tag-threads"], &[]).only();
    assert_eq!(references(&process), [820_001, 0]);
    assert_eq!(tagged(&process, "odd").references[0], 10_000);
}

#[test]
fn ranges_copies_and_inactive_lanes() {
    let process = run(&["ranges"], &[]).only();
    // memset of 10 lines; memcpy of 16384 lines, in 256 pieces.
    assert_eq!(references(&process), [16_384, 10 + 16_384]);
    assert_eq!(process.meta.accesses, 1 + 512);
    let cold = process.lines[0].stacks[0].histograms.cold;
    assert_eq!(cold, [16_384, 16_384]);
}

#[test]
fn line_sizes_and_limits() {
    let variables = [("BF_LINE_SIZE", "32,128"), ("BF_MAX_SET_BITS", "3"), ("BF_MAX_WAYS", "7")];
    let process = run(&["return"], &variables).only();
    let lines: Vec<_> = process.lines.iter().map(|line| (line.line_bytes, line.max_set_bits, line.max_ways)).collect();
    assert_eq!(lines, [(32, 3, 7), (128, 3, 7)]);
}

#[test]
fn a_library_that_comes_too_late_is_remarked_on() {
    let library = common::programs().join("library.so");
    let run = run(&["dlopen-late", library.to_str().unwrap()], &[]);
    let process = run.only();
    assert_eq!(process.lines.len(), 1);
    assert!(process.log[0].ends_with("was loaded after recording began, too late for its -bf-line-size=128"));
}

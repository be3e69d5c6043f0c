//! Names, failures, remarks and the trace.

mod common;

use bf_profile::EndReason;
use common::{loads_and_end, references, run, run_in};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

#[test]
fn patterns() {
    let run = run(&["return"], &[("BF_PROFILE", "%e-%p-%r-%%.x"), ("PMI_RANK", "12")]);
    assert_eq!(run.files(), ["lives-PID-12-%.x"]);
}

#[test]
fn names_are_relative_to_where_the_program_began() {
    assert_eq!(loads_and_end(&run(&["chdir"], &[]).only()), (10, EndReason::Exit));
}

#[test]
fn an_older_profile_is_replaced() {
    let first = run(&["return"], &[("BF_PROFILE", "x.bfp")]);
    let second = run_in(first.directory, &["exit"], &[("BF_PROFILE", "x.bfp")]);
    assert_eq!(second.files(), ["x.bfp"]);
    assert_eq!(references(&second.profile("x.bfp")), [100_012, 0]);
}

#[test]
fn a_directory_that_is_not_there() {
    let silent = run(&["return"], &[("BF_PROFILE", "not/there.bfp")]);
    assert_eq!((silent.code(), silent.stderr.as_str(), silent.files().len()), (4, "", 0));
    let verbose = run(&["return"], &[("BF_PROFILE", "not/there.bfp"), ("BF_VERBOSE", "1")]);
    assert_eq!((verbose.code(), verbose.files().len()), (4, 0));
    assert!(verbose.stderr.starts_with("bf: failed to write ") && verbose.stderr.lines().count() == 1);
}

#[test]
fn a_read_only_directory() {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let run = run_in(directory, &["return"], &[]);
    // Root may write there all the same; nobody else.
    assert_eq!((run.code(), run.stderr.as_str()), (4, ""));
}

#[test]
fn a_full_disk() {
    let run = run(&["return"], &[("BF_PROFILE", "/dev/full")]);
    assert_eq!((run.code(), run.stderr.as_str(), run.files().len()), (4, "", 0));
    let device = fs::metadata("/dev/full").unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&device));
}

#[test]
fn unknown_and_bad_variables_go_to_the_log() {
    let run = run(&["return"], &[("BF_PROFIEL", "x"), ("BF_MAX_WAYS", "0"), ("BF_OPTS", "-bf-verbose")]);
    let log = run.only().log;
    assert_eq!(log, ["BF_MAX_WAYS: 0 is not in 1..=255, ignored", "BF_PROFIEL: no variable of bf, ignored"]);
}

#[test]
fn disabled() {
    for mode in ["exit", "fork", "storm"] {
        let run = run(&[mode, "100"], &[("BF_DISABLE", "1")]);
        assert_eq!((run.stderr.as_str(), run.files().len()), ("", 0), "{mode}");
    }
}

#[test]
fn a_trace_holds_every_access() {
    use bf_profile::trace::{Reader, Record};
    let run = run(&["tag-threads"], &[("BF_TRACE", "%e.bft")]);
    assert_eq!(run.files(), ["lives.PID.bfp", "lives.bft"]);
    let file = fs::File::open(run.directory.path().join("lives.bft")).unwrap();
    let reader = Reader::new(std::io::BufReader::new(file)).unwrap();
    assert_eq!(reader.header().line_sizes, [64]);
    let accesses = |record| match record {
        Record::Chunk { accesses, .. } => accesses.len(),
        _ => 0,
    };
    assert_eq!(reader.map(|record| accesses(record.unwrap())).sum::<usize>(), 820_001);
}

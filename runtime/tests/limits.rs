//! Where memory, file sizes or readers run out, the program goes on as it would have.

mod common;

use bf_profile::EndReason;
use common::{Run, loads_and_end, programs, run_program};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Runs `lives` in a shell that first does `before`.
fn limited(before: &str, mode: &str) -> Run {
    let lives = programs().join("lives");
    let script = format!("ulimit -c 0; {before}; exec timeout 100 \"$0\" \"$1\"");
    run_program(Path::new("/bin/sh"), &["-c", &script, lives.to_str().unwrap(), mode])
}

/// At every limit at which the program runs with nothing recorded, it runs the same way with recording.
fn same_at_any_memory_limit(mode: &str) -> Vec<Run> {
    let kib = [8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 96, 128, 200].map(|mib| mib << 10);
    let mut runs = Vec::new();
    for limit in kib {
        let unrecorded = limited(&format!("ulimit -v {limit}; export BF_DISABLE=1"), mode);
        if unrecorded.stdout != "done\n" {
            // Not even the loader has enough.
            continue;
        }
        let run = limited(&format!("ulimit -v {limit}"), mode);
        let of = |run: &Run| (run.code(), run.stdout.clone(), run.stderr.clone());
        assert_eq!(of(&run), of(&unrecorded), "{mode} with {limit} KiB");
        assert!(run.files().iter().all(|name| name.ends_with(".bfp")), "{mode} with {limit} KiB: {:?}", run.files());
        runs.push(run);
    }
    assert!(runs.len() > 5, "{mode}");
    runs
}

#[test]
fn memory_that_grows_bit_by_bit() {
    let runs = same_at_any_memory_limit("wide");
    let processes: Vec<_> = runs.iter().flat_map(Run::others).collect();
    let stopped = |line: &String| line.starts_with("recording stopped after ") && line.ends_with(" for want of memory");
    assert!(processes.iter().any(|process| process.log.iter().any(stopped)));
}

#[test]
fn memory_that_grows_at_one_access() {
    same_at_any_memory_limit("wide-range");
}

#[test]
fn a_profile_that_is_not_written_is_remarked_on_when_asked() {
    let remark = "bf: no memory: recording ends and no profile is written\n";
    // Enough for the loader, and too little for more: how much that is depends on how the runtime was built.
    let mut runs = (8..64).map(|mib| limited(&format!("ulimit -v {}; export BF_VERBOSE=1", mib << 10), "wide-range"));
    let run = runs.find(|run| run.stderr == remark).expect("a limit that leaves no room for a profile");
    assert_eq!((run.code(), run.stdout.as_str(), run.files()), (4, "done\n", Vec::new()));
}

#[test]
fn threads_that_wait_for_one_that_had_no_memory() {
    same_at_any_memory_limit("wide-threads");
}

#[test]
fn handlers_children_and_abort_without_memory() {
    same_at_any_memory_limit("wide-signals");
}

#[test]
fn no_file_may_grow() {
    for mode in ["return", "written-then-broken"] {
        let run = limited("ulimit -f 0", mode);
        assert_eq!((run.code(), run.stderr.as_str(), run.files().len()), (4, "", 0), "{mode}");
        assert_eq!(run.stdout, if mode == "return" { "" } else { "done\n" });
    }
    let run = limited("ulimit -f 0; export BF_TRACE=x.bft", "exit");
    assert_eq!((run.code(), run.stderr.as_str(), run.files()), (3, "", vec!["x.bft".to_owned()]));
}

#[test]
fn no_more_files_may_be_opened() {
    let run = limited("ulimit -n 20", "open-files");
    assert_eq!((run.code(), run.stderr.as_str(), run.files().len()), (4, "", 1));
    assert_eq!(loads_and_end(&run.profile(&run.files()[0])), (10, EndReason::Exit));
}

#[test]
fn a_pipe_whose_reader_has_gone() {
    // The reader opens the pipe for the trace, takes a few bytes and goes.
    let before = "mkfifo pipe; head -c 1 pipe >/dev/null & export BF_TRACE=pipe";
    let run = limited(before, "exit");
    assert_eq!((run.code(), run.stderr.as_str()), (3, ""));
    let profile = run.files().into_iter().find(|name| name.ends_with(".bfp")).unwrap();
    assert_eq!(loads_and_end(&run.profile(&profile)), (100_012, EndReason::Exit));
    // Nobody reads the profile.
    let run = limited("mkfifo pipe; export BF_PROFILE=pipe", "return");
    assert_eq!((run.code(), run.stderr.as_str(), run.files()), (4, "", vec!["pipe".to_owned()]));
}

#[test]
fn an_older_profile_stays_when_the_new_one_has_no_room() {
    let directory = TempDir::new().unwrap();
    let old = directory.path().join("old.bfp");
    fs::write(&old, "old").unwrap();
    let run = limited(&format!("ulimit -f 0; export BF_PROFILE={}", old.display()), "return");
    assert_eq!((run.code(), fs::read_to_string(&old).unwrap().as_str()), (4, "old"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

//! Helper threads change nothing: not what is counted, not how a program runs and ends.

mod common;

use bf_profile::{EndReason, LineData, Owner, Process};
use common::{Run, by_slot, programs, references, run_busy};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Loads, and stores, of a process that did its work once.
const MUCH: u64 = 100_000;
const THREADS: [&str; 3] = ["0", "1", "2"];

/// Runs a mode with no, one and two helpers and two line sizes; all of these end with `code` and say nothing.
fn runs(arguments: &[&str], code: i32) -> Vec<Run> {
    let run = |threads: &&str| run_busy(arguments, &[("BF_THREADS", threads), ("BF_LINE_SIZE", "64,128")]);
    let runs: Vec<_> = THREADS.iter().map(run).collect();
    for run in &runs {
        assert_eq!((run.code(), run.stderr.as_str()), (code, ""), "{arguments:?}");
    }
    runs
}

/// The process itself.
fn own(run: &Run) -> Process {
    run.profile("busy.PID.bfp")
}

/// What all others did, sorted.
fn others(run: &Run) -> Vec<[u64; 2]> {
    let names = run.files().into_iter().filter(|name| name != "busy.PID.bfp");
    let mut counts: Vec<_> = names.map(|name| references(&run.profile(&name))).collect();
    counts.sort_unstable();
    counts
}

/// References of line size 64, at least as many as accesses: some cross lines.
fn accesses(process: &Process) -> u64 {
    process.meta.accesses
}

/// The stacks that do not depend on how threads ran side by side.
fn private(process: &Process) -> Vec<LineData> {
    let mut lines = process.lines.clone();
    lines.iter_mut().for_each(|line| line.stacks.retain(|stack| stack.owner != Owner::Global));
    lines
}

/// Runs of the process itself whose profiles are the same to the last count.
fn same(arguments: &[&str], code: i32, accesses: u64, end: &EndReason) -> Vec<Process> {
    let processes: Vec<_> = runs(arguments, code).iter().map(own).collect();
    for process in &processes {
        assert_eq!((process.meta.accesses, &process.meta.end), (accesses, end), "{arguments:?}");
        assert_eq!((process.meta.dropped, &process.log), (0, &Vec::new()), "{arguments:?}");
        assert!(process.lines == processes[0].lines, "{arguments:?}: other histograms");
    }
    processes
}

#[test]
fn every_end_of_a_process() {
    same(&["return"], 4, 2 * MUCH, &EndReason::Exit);
    same(&["_exit"], 3, 2 * MUCH, &EndReason::QuickExit);
    same(&["abort"], -6, 2 * MUCH, &EndReason::Signal(6));
    same(&["crash"], -11, 2 * MUCH, &EndReason::Signal(11));
    same(&["killed"], -15, 2 * MUCH, &EndReason::Signal(15));
    same(&["failed-exec"], 4, 4 * MUCH, &EndReason::Exit);
    same(&["last-thread"], 0, 4 * MUCH, &EndReason::Exit);
}

#[test]
fn threads_are_cancelled() {
    for run in runs(&["cancel"], 4) {
        assert!(accesses(&own(&run)) > 2 * MUCH);
    }
}

#[test]
fn mappings_are_none_of_the_programs_business() {
    same(&["watched"], 4, 2 * MUCH, &EndReason::Exit);
}

#[test]
fn exec() {
    for run in runs(&["exec"], 4) {
        let before = own(&run);
        let after = run.profile("busy.PID.bfp.1");
        assert_eq!((accesses(&before), before.meta.end), (2 * MUCH, EndReason::Exec));
        assert_eq!((accesses(&after), after.meta.end), (2 * MUCH, EndReason::Exit));
        assert!(before.lines == after.lines);
    }
}

#[test]
fn a_process_that_is_killed_leaves_a_checkpoint_of_one_moment() {
    for threads in THREADS {
        let directory = tempfile::TempDir::new().unwrap();
        let mut busy = Command::new(programs().join("busy"))
            .arg("forever")
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("BF_PREFIX")
            .envs([("BF_THREADS", threads), ("BF_CHECKPOINT", "0.05"), ("BF_PROFILE", "x.bfp")])
            .envs([("BF_LINE_SIZE", "64,4096")])
            .current_dir(directory.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (profile, begin) = (directory.path().join("x.bfp"), Instant::now());
        while !profile.exists() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        busy.kill().unwrap();
        assert_eq!(busy.wait().unwrap().signal(), Some(9));
        let process = bf_profile::read_file(profile).unwrap().processes.remove(0);
        assert_eq!((process.meta.end, process.log), (EndReason::Checkpoint, Vec::new()));
        // Of the work's accesses none crosses a page, and half of them are loads.
        let [stack] = process.lines[1].stacks.as_slice() else { panic!("one stack") };
        let [loads, stores] = stack.histograms.references;
        let crossing = loads + stores - process.meta.accesses;
        assert!(process.meta.accesses > 0 && crossing <= process.meta.accesses / 50);
        assert!(loads.abs_diff(stores) <= crossing + 1);
    }
}

#[test]
fn handlers_that_return_and_that_jump() {
    same(&["crashes"], 4, 2 * MUCH, &EndReason::Exit);
    for run in runs(&["alarms"], 4) {
        let alarms: u64 = run.stdout.trim().parse().unwrap();
        assert_eq!(accesses(&own(&run)), 2 * MUCH + 2 * alarms);
        assert!(alarms > 0);
    }
}

#[test]
fn children_count_only_what_they_did() {
    for run in runs(&["children"], 4) {
        assert_eq!(accesses(&own(&run)), 2 * MUCH);
        let others = others(&run);
        // A child that recorded nothing has a profile too.
        assert_eq!(others.len(), 100);
        for (index, [_, stores]) in others.into_iter().enumerate() {
            assert_eq!(stores, index as u64 / 10 * 1000);
        }
    }
    for run in runs(&["generations"], 4) {
        let all = [others(&run), vec![references(&own(&run))]].concat();
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|[_, stores]| *stores == MUCH / 4), "{all:?}");
    }
}

#[test]
fn forks_while_other_threads_record() {
    for run in runs(&["fork-in-thread"], 4) {
        let process = own(&run);
        assert_eq!(accesses(&process), 8 * MUCH);
        assert_eq!(others(&run).iter().map(|[_, stores]| *stores).collect::<Vec<_>>(), [MUCH]);
    }
}

#[test]
fn children_that_the_c_library_does_not_know() {
    same(&["raw-fork"], 4, 2 * MUCH, &EndReason::Exit);
    // What the child of a `vfork` records, its parent recorded: they are one memory.
    same(&["vfork"], 4, 4 * MUCH, &EndReason::Exit);
}

#[test]
fn threads_that_come_and_go() {
    let processes: Vec<_> = runs(&["threads"], 4).iter().map(own).collect();
    for process in &processes {
        assert_eq!((accesses(process), process.meta.threads), (8 * MUCH, 40));
        let sums = by_slot(process).into_iter().fold([0, 0], |sum, slot| [sum[0] + slot[0], sum[1] + slot[1]]);
        let global: Vec<_> = process.lines[0].stacks.iter().filter(|stack| stack.owner == Owner::Global).collect();
        assert_eq!(global[0].histograms.references, sums);
    }
}

#[test]
fn two_threads_have_the_private_stacks_that_they_have_without_helpers() {
    let processes: Vec<_> = runs(&["in-turn"], 4).iter().map(own).collect();
    assert_eq!(by_slot(&processes[0]).len(), 2);
    assert!(processes.iter().all(|process| private(process) == private(&processes[0])));
}

#[test]
fn a_process_whose_last_thread_ends_by_itself_ends() {
    for run in runs(&["raw-exit"], 7) {
        assert!(run.files().is_empty());
    }
}

#[test]
fn libraries_that_go_while_their_accesses_wait() {
    let library = programs().join("library.so");
    for run in runs(&["library", library.to_str().unwrap()], 4) {
        let process = own(&run);
        // 100 calls and the library's destructor, of 100 loads each; twenty times.
        assert_eq!(accesses(&process), 2 * MUCH + 20 * 101 * 100);
    }
}

#[test]
fn no_thread_can_be_made() {
    for (threads, run) in THREADS.iter().zip(runs(&["no-threads"], 4)) {
        let process = own(&run);
        let why = "helper threads could not be made (Resource temporarily unavailable (os error 11))";
        let remark = format!("{threads} of {threads} {why}: the program's threads analyse what they record");
        let want = if *threads == "0" { Vec::new() } else { vec![remark] };
        assert_eq!((accesses(&process), process.log), (2 * MUCH, want));
    }
}

#[test]
fn a_program_that_changes_its_ids_and_its_files() {
    for run in runs(&["ids"], 4) {
        assert_eq!(accesses(&own(&run)), 2 * MUCH + MUCH / 5);
    }
    same(&["apart"], 4, 4 * MUCH, &EndReason::Exit);
}

#[test]
fn a_trace_is_replayed_to_the_same_profile() {
    // The global stacks' order is that of the trace, with helpers too.
    for threads in ["0", "2"] {
        let run = run_busy(&["threads"], &[("BF_THREADS", threads), ("BF_TRACE", "x.bft")]);
        assert_eq!((run.code(), run.stderr.as_str()), (4, ""));
        assert_eq!(accesses(&own(&run)), 8 * MUCH);
    }
}

#[test]
fn memory_has_a_limit() {
    let all = 20 * MUCH;
    for (threads, mib) in THREADS.into_iter().flat_map(|threads| [24_u64, 32, 4096].map(|mib| (threads, mib))) {
        let run = run_busy(&["grow"], &[("BF_THREADS", threads), ("BF_MAX_MEMORY", &format!("{mib}M"))]);
        assert_eq!((run.code(), run.stderr.as_str()), (4, ""));
        let process = own(&run);
        let (bytes, done) = (mib << 20, process.meta.accesses);
        assert_eq!(done + process.meta.dropped, all, "{mib} MiB");
        if mib == 4096 {
            assert_eq!((done, process.log), (all, Vec::new()));
            continue;
        }
        assert!(done > 0 && done < all, "{done} with {mib} MiB");
        let line = format!("truncated: memory limit of {bytes} bytes (BF_MAX_MEMORY), after {done} of {all} accesses");
        assert_eq!(process.log, [line]);
        // The stacks end within a batch.
        assert!((done..=done + all / 10).contains(&references(&process)[0]));
    }
}

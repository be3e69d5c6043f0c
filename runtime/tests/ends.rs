//! However a process ends, its profile is complete and its exit status is what it would have been.

mod common;

use bf_profile::EndReason;
use common::{loads_and_end, references, run};

#[test]
fn ordinary_ends() {
    let cases = [
        (&["nothing"][..], 0, 0, EndReason::Exit),
        // 100000 in main, 7 in an atexit handler, 5 in a destructor.
        (&["exit"], 3, 100_012, EndReason::Exit),
        (&["return"], 4, 10, EndReason::Exit),
        (&["_exit"], 5, 10, EndReason::QuickExit),
        (&["_Exit"], 6, 10, EndReason::QuickExit),
        (&["quick_exit"], 7, 17, EndReason::QuickExit),
        (&["main-leaves"], 0, 1010, EndReason::Exit),
    ];
    for (arguments, code, loads, end) in cases {
        let run = run(arguments, &[]);
        assert_eq!(run.code(), code, "{arguments:?}");
        assert_eq!(loads_and_end(&run.only()), (loads, end), "{arguments:?}");
    }
}

#[test]
fn a_daemon_and_the_parent_that_it_leaves() {
    let run = run(&["daemon"], &[]);
    assert_eq!(run.code(), 0);
    let mut ends: Vec<_> = run.files().iter().map(|name| loads_and_end(&run.profile(name))).collect();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [(10, EndReason::QuickExit), (20, EndReason::Exit)]);
}

/// Those of sanitizers are called before the C library has the environment.
#[test]
fn what_runs_before_the_c_library_is_ready_knows_the_environment() {
    let run = run(&["return"], &[("BF_LINE_SIZE", "128"), ("EARLY", "1")]);
    assert_eq!(run.only().lines.iter().map(|lines| lines.line_bytes).collect::<Vec<_>>(), [128]);
}

#[test]
fn fatal_signals_take_their_course() {
    let cases = [
        (&["abort"][..], libc::SIGABRT, 10),
        (&["abort-handled"], libc::SIGABRT, 11),
        (&["segv"], libc::SIGSEGV, 10),
        (&["trap"], libc::SIGILL, 10),
        (&["int3"], libc::SIGTRAP, 10),
        (&["ignored"], libc::SIGTERM, 20),
    ];
    for (arguments, signal, loads) in cases {
        let run = run(arguments, &[]);
        assert_eq!(run.code(), -signal, "{arguments:?}");
        assert_eq!(loads_and_end(&run.only()), (loads, EndReason::Signal(signal)), "{arguments:?}");
    }
}

#[test]
fn every_signal_that_ends_a_process() {
    let not_fatal = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    let stopping = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGKILL];
    for signal in (1..=31).chain([34, 64]).filter(|signal| !stopping.contains(signal)) {
        let run = run(&["signal", &signal.to_string()], &[]);
        let (code, end) = match not_fatal.contains(&signal) {
            true => (50, EndReason::Exit),
            false => (-signal, EndReason::Signal(signal)),
        };
        assert_eq!(run.code(), code, "{signal}");
        assert_eq!(loads_and_end(&run.only()), (10, end), "{signal}");
    }
}

#[test]
fn stack_overflow_leaves_a_profile() {
    for mode in ["overflow", "thread-overflow", "signal-overflow"] {
        let run = run(&[mode], &[]);
        assert_eq!(run.code(), -libc::SIGSEGV, "{mode}");
        let process = run.only();
        assert_eq!(process.meta.end, EndReason::Signal(libc::SIGSEGV));
        assert!(references(&process).into_iter().sum::<u64>() > 1000);
    }
}

#[test]
fn a_killed_process_leaves_its_last_checkpoint() {
    let run = run(&["sleep"], &[("BF_CHECKPOINT", "0.1")]);
    assert_eq!(run.code(), -libc::SIGKILL);
    let (loads, end) = loads_and_end(&run.only());
    assert_eq!(end, EndReason::Checkpoint);
    assert!((10_000..=100_000).contains(&loads), "{loads}");
}

#[test]
fn a_program_may_write_a_title_over_its_command() {
    assert_eq!(run(&["title", "a word"], &[]).only().meta.command, ["lives: idle"]);
}

#[test]
fn what_is_known_about_the_run() {
    let run = run(&["exit", "two words"], &[("PMIX_RANK", "5")]);
    let process = run.only();
    let meta = &process.meta;
    assert_eq!(meta.executable, "lives");
    assert_eq!(meta.command[1..], ["exit", "two words"]);
    assert_eq!((meta.pid, meta.parent, meta.rank), (run.pid, std::process::id(), Some(5)));
    assert_eq!((meta.threads, meta.accesses, meta.dropped), (1, 100_012, 0));
    assert!(meta.modules.len() == 1 && meta.modules[0].ends_with("lives.c"));
    assert!(meta.elapsed_ns > 0 && meta.start_ns > 0 && meta.aslr.is_some() && process.machine.cpus > 0);
    let calls: Vec<_> = process.uninstrumented.iter().map(|callee| (callee.name.as_str(), callee.calls)).collect();
    assert_eq!(calls, [("callee", 2)]);
    assert_eq!((process.log.len(), process.tags), (0, vec![String::new()]));
}

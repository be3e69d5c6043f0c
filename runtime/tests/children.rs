//! Children and successors have profiles of their own; nobody's counts go to another.

mod common;

use bf_profile::EndReason;
use common::{Run, loads_and_end, run};

/// Loads and end of the process itself, then of all others, sorted by loads.
fn all(run: &Run) -> Vec<(u64, EndReason)> {
    let mut others: Vec<_> = run.others().iter().map(loads_and_end).collect();
    others.sort_by_key(|&(loads, _)| loads);
    [vec![loads_and_end(&run.profile("lives.PID.bfp"))], others].concat()
}

#[test]
fn fork() {
    for (how, end) in [("exit", EndReason::Exit), ("_exit", EndReason::QuickExit)] {
        let run = run(&["fork", how], &[]);
        assert_eq!((run.code(), run.stderr.as_str()), (0, ""));
        assert_eq!(all(&run), [(101, EndReason::Exit), (30, end)]);
        assert_eq!(run.others()[0].meta.parent, run.pid);
    }
}

#[test]
fn fork_with_threads_alive() {
    let run = run(&["fork-threads"], &[]);
    assert_eq!((run.code(), run.stderr.as_str()), (0, ""));
    let mut want = vec![(4000, EndReason::Exit)];
    want.extend(vec![(42, EndReason::Exit); 20]);
    assert_eq!(all(&run), want);
}

#[test]
fn vfork() {
    let run = run(&["vfork"], &[]);
    assert_eq!(run.code(), 0);
    assert_eq!(loads_and_end(&run.only()), (101, EndReason::Exit));
}

#[test]
fn exec_in_all_its_forms() {
    for form in ["execl", "execle", "execv", "execlp", "execvp"] {
        let run = run(&["exec", form], &[]);
        assert_eq!((run.code(), run.stderr.as_str()), (4, ""), "{form}");
        assert_eq!(run.files(), ["lives.PID.bfp", "lives.PID.bfp.1"], "{form}");
        assert_eq!(all(&run), [(101, EndReason::Exec), (10, EndReason::Exit)], "{form}");
    }
}

/// As an interpreter that was compiled by another compiler does.
#[test]
fn a_program_that_loads_a_library_leaves_its_profile_however_it_ends() {
    let library = common::programs().join("library.so");
    for program in ["host", "host-now"] {
        let run = |how| {
            let run = common::run_program(&common::programs().join(program), &[library.to_str().unwrap(), how]);
            assert_eq!((run.code(), run.stderr.as_str()), (3, ""), "{program} {how}");
            (loads_and_end(&run.profile(&format!("{program}.PID.bfp"))), run)
        };
        for (how, end) in [("_exit", EndReason::QuickExit), ("execl", EndReason::Exec), ("execv", EndReason::Exec)] {
            assert_eq!(run(how).0, (100, end), "{program} {how}");
        }
        // The library's destructor runs, too.
        let (parent, run) = run("fork");
        assert_eq!(parent, (200, EndReason::Exit));
        let all: Vec<_> = run.others().iter().map(loads_and_end).collect();
        assert!(all.len() == 2 && all.contains(&(200, EndReason::QuickExit)), "{program}: {all:?}");
    }
}

#[test]
fn exec_of_something_else() {
    let run = run(&["exec", "true"], &[]);
    assert_eq!(run.code(), 0);
    assert_eq!(loads_and_end(&run.only()), (101, EndReason::Exec));
}

#[test]
fn exec_of_a_script_without_an_interpreter() {
    let script = common::programs().join("script");
    std::fs::write(&script, "exec \"$@\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = run(&["exec", "script"], &[]);
    assert_eq!((run.code(), run.stderr.as_str()), (4, ""));
    assert_eq!(all(&run), [(101, EndReason::Exec), (10, EndReason::Exit)]);
}

#[test]
fn exec_of_exec() {
    let run = run(&["exec-twice"], &[]);
    assert_eq!(run.code(), 4);
    assert_eq!(run.files(), ["lives.PID.bfp", "lives.PID.bfp.1", "lives.PID.bfp.2"]);
    assert_eq!(all(&run), [(2, EndReason::Exec), (10, EndReason::Exit), (101, EndReason::Exec)]);
}

#[test]
fn spawned_programs_know_their_descent_without_the_environment() {
    // The program counts its `BF_` variables, and prints the one that the test gave it.
    let run = run(&["system"], &[("BF_PROFILE", "%%named")]);
    assert_eq!((run.code(), run.stderr.as_str(), run.stdout.as_str()), (0, "", "1\n"));
    let files = run.files();
    // The one that `env -i` started has the default name in the same directory.
    assert_eq!(files.len(), 3, "{files:?}");
    assert_eq!(files[0], "%named");
    assert!(files[1].starts_with("%named.") && files[2].starts_with("lives."));
    assert_eq!(loads_and_end(&run.profile("%named")), (100, EndReason::Exit));
    assert_eq!(loads_and_end(&run.profile(&files[1])), (10, EndReason::Exit));
    assert_eq!(loads_and_end(&run.profile(&files[2])), (10, EndReason::Exit));
}

#[test]
fn descendants_append_their_pid_to_a_name_without_one() {
    let run = run(&["fork"], &[("BF_PROFILE", "out.bfp")]);
    let files = run.files();
    assert_eq!((files.len(), files[0].as_str()), (2, "out.bfp"));
    let child = run.profile(&files[1]);
    assert_eq!(files[1], format!("out.bfp.{}", child.meta.pid));
    assert_eq!(loads_and_end(&run.profile("out.bfp")), (101, EndReason::Exit));
}

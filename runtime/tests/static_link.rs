//! The runtime as one relocatable object: position-independent, static and static-pie programs.

mod common;

use common::{libraries, loads_and_end, run_program, static_programs};

#[test]
fn a_static_program_lives_and_ends_like_any_other() {
    use bf_profile::EndReason;
    let directory = tempfile::tempdir().unwrap();
    for program in static_programs(directory.path()) {
        let cases = [
            (&["exit"][..], 3, 100_012, EndReason::Exit),
            (&["_exit"], 5, 10, EndReason::QuickExit),
            (&["quick_exit"], 7, 17, EndReason::QuickExit),
            (&["abort"], -libc::SIGABRT, 10, EndReason::Signal(libc::SIGABRT)),
            (&["segv"], -libc::SIGSEGV, 10, EndReason::Signal(libc::SIGSEGV)),
            (&["threads"], 0, 160_000, EndReason::Exit),
            (&["dispositions"], -libc::SIGUSR1, 4, EndReason::Signal(libc::SIGUSR1)),
        ];
        for (arguments, code, loads, end) in cases {
            let run = run_program(&program, arguments);
            assert_eq!((run.stderr.as_str(), run.code()), ("", code), "{arguments:?}");
            let name = format!("{}.PID.bfp", program.file_name().unwrap().to_str().unwrap());
            assert_eq!(loads_and_end(&run.profile(&name)), (loads, end), "{arguments:?}");
        }
        let run = run_program(&program, &["fork"]);
        assert_eq!((run.stderr.as_str(), run.code(), run.files().len()), ("", 0, 2));
        let run = run_program(&program, &["exec", "execl"]);
        assert_eq!((run.stderr.as_str(), run.code(), run.files().len()), ("", 4, 2));
    }
}

#[test]
fn the_object_gives_instrumented_code_all_that_the_library_does() {
    use object::{Object as _, ObjectSymbol as _};
    let library = std::fs::read(libraries().join("libbf_rt.so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let given = library.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = given.filter_map(|symbol| symbol.name().ok()).filter(|name| name.starts_with("bf_"));
    // The rest is between parts of the runtime.
    let mut names = names.filter(|name| !name.starts_with("bf_rt_")).peekable();
    assert!(names.peek().is_some());
    let exports: Vec<_> = include_str!("../exports.txt").lines().collect();
    names.for_each(|name| assert!(exports.contains(&name), "{name}"));
}

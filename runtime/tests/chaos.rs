//! Everything at once.

mod common;

use bf_profile::EndReason;
use common::{loads_and_end, programs, references, run_program};

#[test]
fn nothing_is_lost_and_nothing_waits_for_ever() {
    let run = run_program(&programs().join("chaos"), &[]);
    assert_eq!((run.stderr.as_str(), run.code(), run.files().len()), ("", 0, 21));
    assert_eq!(references(&run.profile("chaos.PID.bfp"))[0].to_string(), run.stdout.trim());
    for name in run.files().iter().filter(|name| *name != "chaos.PID.bfp") {
        assert_eq!(loads_and_end(&run.profile(name)), (15, EndReason::QuickExit));
    }
}

#[test]
fn a_signal_ends_it_all() {
    let run = run_program(&programs().join("chaos"), &["kill"]);
    assert_eq!((run.stderr.as_str(), run.code(), run.files().len()), ("", -libc::SIGTERM, 21));
    assert_eq!(run.profile("chaos.PID.bfp").meta.end, EndReason::Signal(libc::SIGTERM));
}

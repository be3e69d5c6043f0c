//! Remarks: lines in the profile's log, and on standard error only when asked for.

use crate::{process, quiet};
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines kept; a program cannot make its profile grow by provoking remarks.
const MOST: usize = 200;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Whether remarks also go to standard error.
pub fn set_verbose(on: bool) {
    VERBOSE.store(on, Ordering::Relaxed);
}

/// A line for the profile's log (and standard error, if verbose). One that is already there is not repeated.
pub fn remark(line: String) {
    say(&line);
    let mut lines = process::lock(&LINES);
    if lines.len() < MOST && !lines.contains(&line) {
        lines.push(line);
    }
}

/// A line for standard error alone, if verbose.
pub fn say(line: &str) {
    if VERBOSE.load(Ordering::Relaxed) {
        // Standard error may be closed: nobody to tell.
        let line = format!("bf: {line}\n");
        let _ = quiet::writing(|| std::io::stderr().write_all(line.as_bytes()));
    }
}

/// The same where nothing may be allocated; the line with its end.
pub fn say_plain(line: &str) {
    if VERBOSE.load(Ordering::Relaxed) {
        // SAFETY:
        // - a string and its length
        quiet::writing(|| unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) });
    }
}

/// The lines so far.
pub fn lines() -> Vec<String> {
    process::lock(&LINES).clone()
}

/// Keeps the log as it is until it is dropped: for `fork`.
pub fn hold() -> impl Sized {
    process::lock(&LINES)
}

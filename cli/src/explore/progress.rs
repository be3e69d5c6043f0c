//! How far a search is, on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal as _};

/// A bar on stderr with the time left; nothing where stderr is no terminal, or where it would lie amid an answer.
pub struct Progress(ProgressBar);

impl Progress {
    /// Of so many hierarchies; `answers` go to stdout while it is shown.
    pub fn new(hierarchies: u64, answers: bool) -> Self {
        if answers && io::stdout().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(hierarchies);
        let form = "{bar:30} {percent}% of {human_len} hierarchies, {per_sec}, {eta} left";
        Self(bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// So many are done.
    pub fn at(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

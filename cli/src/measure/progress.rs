//! A bar on stderr, if that is a terminal: what is measured, and how long it will take.

use bf_machine::progress::{Progress, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};
use std::{fmt::Write, time::Duration};

/// What is measured, where one thing is.
pub const MEASURING: &str = "measuring";

/// Steps of the whole bar.
const STEPS: f64 = 1000.0;
/// Drawings a second at most: each takes a system call, though none while something is timed.
const DRAWINGS: u8 = 4;

/// Part of the whole that tells nothing yet of the rest.
const EARLY: f64 = 0.03;

/// Time left, if the rest goes at the pace of what is done: steadier than the last seconds' pace, as parts differ.
fn left(state: &ProgressState, text: &mut dyn Write) {
    let done = f64::from(state.fraction());
    if done >= EARLY {
        let left = Duration::from_secs_f64(state.elapsed().as_secs_f64() * (1.0 - done) / done);
        let _ = write!(text, ", {:#} left", indicatif::HumanDuration(left));
    }
}

/// A bar, gone when its last copy is.
#[derive(Clone, Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that stands beside `what`.
    pub fn new(what: &'static str) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWINGS);
        let style = ProgressStyle::with_template("{msg:16} [{bar:40}] {percent:>3} %{left}");
        let bar = ProgressBar::with_draw_target(Some(STEPS as u64), target)
            .with_style(style.expect("the template is well-formed").with_key("left", left))
            .with_finish(ProgressFinish::AndClear)
            .with_message(what);
        Self(bar)
    }

    /// Names what is measured now.
    pub fn name(&self, what: &'static str) {
        self.0.set_message(what);
    }

    /// What a session tells how far it is.
    pub fn progress(&self) -> Progress {
        Progress::told_to(Box::new(self.clone()))
    }
}

impl Watch for Bar {
    fn advanced(&self, part: f64) {
        self.0.set_position((part * STEPS) as u64);
    }
}

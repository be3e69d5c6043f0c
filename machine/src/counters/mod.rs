//! Hardware performance counters: which there are, how to read them, and which to believe.
//!
//! A [`Backend`] counts events while an [`exercise`] of known length runs; [`recording`] keeps what it counted, and [`trust`]
//! judges that: live counters, timed loads and files recorded on other machines take the same way.

pub mod event;
pub mod exercise;
pub mod perf;
pub mod probe;
pub mod recording;
pub mod timed;
pub mod trust;

use crate::error::Error;
use event::Event;
use exercise::Exercise;

/// What an event counted during one exercise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// As the counter stood.
    pub count: u64,
    /// Nanoseconds that it was to count.
    pub enabled_ns: u64,
    /// Nanoseconds that it did: less where events took turns on too few counters.
    pub running_ns: u64,
}

impl Reading {
    /// The count, scaled up to the whole time; `None` if it never ran.
    #[must_use]
    pub fn scaled(&self) -> Option<f64> {
        match (self.enabled_ns, self.running_ns) {
            (0, 0) => Some(self.count as f64),
            (_, 0) => None,
            (enabled, running) => Some(self.count as f64 * enabled as f64 / running as f64),
        }
    }

    /// Part of the time that it counted.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.enabled_ns == 0 { 1.0 } else { self.running_ns as f64 / self.enabled_ns as f64 }
    }
}

/// A way to count events.
pub trait Backend {
    /// What it is, in words.
    fn describe(&self) -> String;

    /// Events that it can try.
    fn events(&self) -> Vec<Event>;

    /// Runs the exercise and counts, an answer for each of [`Backend::events`]; `None` where an event cannot be counted.
    ///
    /// # Errors
    /// Nothing can be counted at all.
    fn count(&mut self, exercise: &mut dyn Exercise) -> Result<Vec<Option<Reading>>, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_scaled_to_the_whole_time() {
        let reading = |count, enabled_ns, running_ns| Reading { count, enabled_ns, running_ns };
        assert_eq!(reading(10, 0, 0).scaled(), Some(10.0));
        assert_eq!((reading(10, 100, 50).scaled(), reading(10, 100, 50).share()), (Some(20.0), 0.5));
        assert_eq!(reading(10, 100, 0).scaled(), None);
    }
}

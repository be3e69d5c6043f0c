//! Whether CPUs stay where they are: a hypervisor may move a virtual machine's CPUs while it is measured, and two threads of
//! one core become two cores, or cores of two dies. Nothing tells the guest but the time that a line takes between them.

use crate::{
    c2c,
    error::Error,
    session::{Session, pin},
    stat::quantile,
};
use serde::Serialize;

/// How far two CPUs were from each other at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// The part of the measurement that followed; `end` for none.
    pub before: String,
    /// The CPU that measures alone.
    pub from: u32,
    /// Another.
    pub to: u32,
    /// Nanoseconds of one way, the least seen.
    pub ns: f64,
}

/// Short measurements of a look: others can only make them slower.
const ROUNDS: usize = 3;
/// A distance that changes by this factor is another one: noise changes the least of many by less.
const MOVED: f64 = 1.3;

/// Looks from the first CPU to each other, in some milliseconds each. None with one CPU.
///
/// # Errors
/// A CPU cannot be used.
pub fn look(session: &Session, before: &str) -> Result<Vec<Look>, Error> {
    let from = session.first();
    pin(from)?;
    let to = |to: &u32| {
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            samples.extend(c2c::round(session, *to)?);
        }
        let ns = quantile(&samples, 0.0).expect("rounds have samples");
        Ok(Look { before: before.to_owned(), from, to: *to, ns })
    };
    session.cpus.iter().skip(1).map(to).collect()
}

/// A change between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Move<'a> {
    /// Before it.
    pub was: &'a Look,
    /// After it.
    pub is: &'a Look,
}

/// Changes from each look to the next of the same two CPUs.
pub fn moves(looks: &[Look]) -> impl Iterator<Item = Move<'_>> {
    let pairs = looks.iter().enumerate().filter_map(|(at, was)| {
        let is = looks[at + 1..].iter().find(|is| (is.from, is.to) == (was.from, was.to))?;
        Some(Move { was, is })
    });
    pairs.filter(|pair| pair.was.ns.max(pair.is.ns) > pair.was.ns.min(pair.is.ns) * MOVED)
}

impl Move<'_> {
    /// In a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Look { before, from, to, ns } = self.was;
        format!(
            "while {before} was measured the way between CPUs {from} and {to} changed from {ns:.1} to {:.1} ns: the hypervisor \
             probably moved one, and figures of several CPUs from before and after it are of two machines",
            self.is.ns
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(seen: &[(&str, u32, f64)]) -> Vec<Look> {
        seen.iter().map(|&(before, to, ns)| Look { before: before.to_owned(), from: 0, to, ns }).collect()
    }

    #[test]
    fn a_cpu_that_went_away_is_noticed() {
        let looks = looks(&[
            ("latency", 1, 16.4),
            ("latency", 2, 30.0),
            ("bandwidth", 1, 17.9),
            ("bandwidth", 2, 31.0),
            ("end", 1, 66.3),
            ("end", 2, 30.0),
        ]);
        let found: Vec<_> = moves(&looks).map(|found| found.sentence()).collect();
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .starts_with("while bandwidth was measured the way between CPUs 0 and 1 changed from 17.9 to 66.3 ns"),
            "{found:?}"
        );
    }

    #[test]
    fn one_cpu_has_no_distances() {
        let session = Session::begin(&[crate::session::allowed_cpus()[0]]).unwrap();
        assert_eq!(look(&session, "end"), Ok(Vec::new()));
    }
}

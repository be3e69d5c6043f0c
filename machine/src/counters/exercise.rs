//! Exercises: kernels that make a known number of accesses to data in a known place.

use super::event::Quantity;
use crate::{
    error::Error,
    session::Session,
    sys::{
        chain::{Chain, Touch, UNROLLED},
        pages::Buffer,
        stream::{Kernel, Operation, Range},
    },
};

/// How the data is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One dependent load in every fourth line, in an order no prefetcher guesses; those that fetch a line's neighbour too
    /// fetch nothing that is asked for.
    Load,
    /// All of it loaded in order, eight loads a line.
    Read,
    /// All of it stored in order, eight stores a line.
    Write,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Load, Self::Read, Self::Write];

    /// As recordings name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What an exercise does, by construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How the data is gone through.
    pub way: Way,
    /// Level that holds the data, 1 being the nearest; one more than there are caches for memory.
    pub level: u32,
    /// Data caches of the machine.
    pub caches: u32,
    /// How often all of it is gone through.
    pub passes: u64,
    /// Load instructions.
    pub loads: u64,
    /// Store instructions.
    pub stores: u64,
    /// Lines named, each once a pass.
    pub lines: u64,
}

impl Facts {
    /// The name of the place that holds the data.
    #[must_use]
    pub fn place(&self) -> String {
        if self.level > self.caches { "memory".to_owned() } else { format!("L{}", self.level) }
    }

    /// How often something happens; `None` where it does not follow from the construction: prefetchers decide which level
    /// serves what is read in order, and what is written to memory stays dirty in caches for a while.
    #[must_use]
    pub fn truth(&self, quantity: Quantity) -> Option<u64> {
        let beyond = |level: u32| if self.level > level { self.lines } else { 0 };
        match quantity {
            Quantity::Loads => Some(self.loads),
            Quantity::Stores => Some(self.stores),
            Quantity::Accesses => Some(self.loads + self.stores),
            Quantity::Into(level) if level <= self.caches => Some(beyond(level)),
            Quantity::OutOf(level) if level <= self.caches => match self.way {
                Way::Load | Way::Read => Some(0),
                Way::Write if self.level > self.caches => None,
                Way::Write => Some(beyond(level)),
            },
            Quantity::From(level) if level <= self.caches => match self.way {
                Way::Load => {
                    let served = if level == 0 { self.caches + 1 } else { level };
                    Some(if self.level == served { self.loads } else { 0 })
                }
                Way::Read | Way::Write => None,
            },
            _ => None,
        }
    }
}

/// Something to count events of.
pub trait Exercise {
    /// What it does.
    fn facts(&self) -> Facts;

    /// Brings the data where it belongs.
    fn prepare(&mut self);

    /// Does it.
    fn go(&mut self);

    /// Does it one load at a time and gives the ticks of each; `false` if it is none that can.
    fn go_timed(&mut self, each: &mut dyn FnMut(u64)) -> bool;
}

/// Amounts of work: three, to see whether counts grow with it.
const AMOUNTS: [u64; 3] = [1, 2, 4];
/// Lines that an exercise goes through at least, so that what happens around it does not matter; in memory, those of a pass.
const LEAST_LINES: u64 = 8192;
/// Lines from one that is loaded by itself to the next.
const APART: usize = 4;

/// A real exercise.
struct Real {
    facts: Facts,
    /// The data must be thrown out of all caches first.
    flush: bool,
    chain: Chain,
    /// Bytes that streams go through in one pass.
    bytes: usize,
}

/// Every exercise that this machine has a place for.
///
/// # Errors
/// There is not enough memory.
pub fn all(session: &Session) -> Result<Vec<Box<dyn Exercise>>, Error> {
    let places = session.places();
    let caches = places.len() as u32 - 1;
    let line = session.topology.line();
    let mut exercises: Vec<Box<dyn Exercise>> = Vec::new();
    for (index, (_, bytes)) in places.iter().enumerate() {
        let level = index as u32 + 1;
        let memory = level > caches;
        for way in Way::ALL {
            for amount in AMOUNTS {
                let step = if way == Way::Load { line * APART } else { line };
                // In memory each pass goes through lines of its own, all of them thrown out of the caches before.
                let lines = if memory { LEAST_LINES } else { (*bytes / step) as u64 };
                let passes = LEAST_LINES.div_ceil(lines) * amount;
                let whole = if memory { lines as usize * step * passes as usize } else { *bytes };
                let chain = Chain::lines(session.buffer(whole)?, whole, step, passes);
                let facts = facts(way, level, caches, passes, lines, line);
                exercises.push(Box::new(Real { facts, flush: memory, chain, bytes: whole }));
            }
        }
    }
    Ok(exercises)
}

fn facts(way: Way, level: u32, caches: u32, passes: u64, lines: u64, line: usize) -> Facts {
    let lines = lines * passes;
    let words = lines * line as u64 / 8;
    let (loads, stores) = match way {
        Way::Load => (lines.div_ceil(UNROLLED) * UNROLLED, 0),
        Way::Read => (words, 0),
        Way::Write => (0, words),
    };
    Facts { way, level, caches, passes, loads, stores, lines }
}

impl Real {
    fn stream(&self, operation: Operation) {
        // What lies in memory is gone through once, being as long as all passes together.
        let passes = if self.flush { 1 } else { self.facts.passes };
        let kernel = Kernel { operation, width: 64 };
        kernel.run(Range::new(self.buffer(), 0, self.bytes), None, passes);
    }

    fn buffer(&self) -> &Buffer {
        self.chain.buffer()
    }
}

impl Exercise for Real {
    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn prepare(&mut self) {
        if self.flush {
            self.chain.touch(Touch::Flush);
            return;
        }
        match self.facts.way {
            Way::Load => _ = self.chain.walk(self.chain.count() as u64 * 2),
            Way::Read => self.stream(Operation::Read),
            Way::Write => self.stream(Operation::Write),
        }
    }

    fn go(&mut self) {
        match self.facts.way {
            Way::Load => _ = self.chain.walk(self.facts.loads),
            Way::Read => self.stream(Operation::Read),
            Way::Write => self.stream(Operation::Write),
        }
    }

    fn go_timed(&mut self, each: &mut dyn FnMut(u64)) -> bool {
        if self.facts.way == Way::Load {
            self.chain.walk_timed(self.facts.loads, each);
        }
        self.facts.way == Way::Load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_by_construction() {
        let load = facts(Way::Load, 3, 3, 2, 1000, 64);
        let truths =
            |facts: &Facts, list: &[Quantity]| list.iter().map(|quantity| facts.truth(*quantity)).collect::<Vec<_>>();
        use Quantity::{From, Into, Loads, OutOf, Stores};
        assert_eq!(load.place(), "L3");
        assert_eq!(
            truths(&load, &[Loads, Stores, Into(1), Into(2), Into(3), From(2), From(3), From(0), OutOf(1)]),
            [2000, 0, 2000, 2000, 0, 0, 2000, 0, 0].map(Some)
        );
        let write = facts(Way::Write, 2, 3, 1, 1000, 64);
        assert_eq!(truths(&write, &[Stores, Into(1), OutOf(1), OutOf(2)]), [8000, 1000, 1000, 0].map(Some));
        let far = facts(Way::Write, 4, 3, 1, 1000, 64);
        assert_eq!((far.place().as_str(), far.truth(OutOf(1)), far.truth(From(0))), ("memory", None, None));
        assert_eq!(facts(Way::Load, 4, 3, 1, 1000, 64).truth(From(0)), Some(1008));
        assert_eq!(load.truth(Into(4)), None);
    }
}

//! The stacks of one slot, or the global ones.

use crate::references::Scratch;
use crate::sample::{self, Sampled};
use crate::session::{Config, Snapshot};
use crate::{Batch, Bucket};
use bf_profile::Owner;
use bf_stack::{Engine, Stack};

/// What is kept of one line size.
#[derive(Clone, Debug)]
enum Kept {
    /// Every reference.
    Whole(Box<Stack>),
    /// Some of them.
    Sampled(Box<Sampled>),
}

/// One entry per line size.
#[derive(Clone, Debug)]
pub(crate) struct Stacks {
    kept: Vec<Kept>,
    scratch: Scratch,
    pub(crate) used: bool,
}

impl Stacks {
    pub(crate) fn new(config: &Config) -> Self {
        let kept = config.line_sizes.iter().map(|_| match config.sample {
            None => {
                let stack = Stack::new(config.limits);
                Kept::Whole(Box::new(match config.instructions {
                    Some(instructions) => stack.with_instructions(instructions),
                    None => stack,
                }))
            }
            Some(sample) => Kept::Sampled(Box::new(Sampled::new(sample, config.limits))),
        });
        Self { kept: kept.collect(), scratch: Scratch::default(), used: false }
    }

    /// Takes a batch; what comes when memory is `full` is left out. Whether all of it was taken.
    pub(crate) fn feed(&mut self, batch: &Batch, bucket: Bucket, config: &Config, full: fn() -> bool) -> bool {
        self.used |= batch.accesses() > 0;
        let mut all = true;
        for (kept, line_bytes) in self.kept.iter_mut().zip(&config.line_sizes) {
            batch.references(line_bytes.ilog2(), &mut self.scratch, |chunk| match kept {
                _ if full() => all = false,
                Kept::Whole(engine) => engine.feed_chunk(chunk, bucket),
                Kept::Sampled(sampled) => sampled.feed(chunk, bucket),
            });
        }
        all
    }

    /// Adds what they counted to a snapshot; theirs are the line sizes from the `first` of it on.
    pub(crate) fn add_to(&self, owner: Owner, first: usize, snapshot: &mut Snapshot) {
        let (mut whole, mut parts) = (snapshot.lines.iter_mut().skip(first), snapshot.sampled.iter_mut().skip(first));
        for kept in &self.kept {
            match kept {
                Kept::Whole(engine) => {
                    snapshot.dropped += engine.dropped();
                    whole.next().into_iter().for_each(|data| data.stacks.extend(sample::stacks(owner, engine)));
                }
                Kept::Sampled(sampled) => {
                    snapshot.dropped += sampled.dropped();
                    parts.next().into_iter().for_each(|data| sampled.add_to(owner, data));
                }
            }
        }
    }
}

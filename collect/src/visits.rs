//! What batches of one slot ask the stacks of others, and what they are told.
//!
//! A batch with lines that other slots used too asks the stacks of all others where they are; those it stores they lose. It asks
//! while it has its turn to be sorted, so what others are asked, and their own batches, have numbers in one order, and each
//! part of an owner takes both in that order. Nobody waits for an answer: it is put together with what became of the batch in
//! its own stacks when both are there, by whoever has those stacks next.
//!
//! Invariant: before a part is fed batch n, it has answered all that was asked before n, and nothing that was asked later.

use crate::session::Owner;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, Weak};
use bf_stack::{Bucket, Common, Holders, There};
use std::collections::VecDeque;

/// What was found out about a batch when it had its turn.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// In the order of all batches; 0: there is one slot.
    pub(crate) number: u64,
    /// By part; empty if no line of it is used by others.
    visits: Vec<Option<Arc<Visit>>>,
}

impl Sorted {
    pub(crate) fn new(number: u64, visits: Vec<Option<Arc<Visit>>>) -> Self {
        Self { number, visits }
    }

    /// What it asks others' stacks of a part, if anything.
    pub(crate) fn visit(&self, part: usize) -> Option<&Arc<Visit>> {
        self.visits.get(part)?.as_ref()
    }

    /// Whether it asks anything.
    pub(crate) fn is_visit(&self) -> bool {
        !self.visits.is_empty()
    }
}

/// What a batch asks the stacks of a part of all other slots.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) number: u64,
    /// Whose batch it is.
    pub(crate) asker: Weak<Owner>,
    /// Who is asked, and perhaps others, who need not answer.
    pub(crate) asked: Holders,
    pub(crate) bucket: Bucket,
    /// By line size: lines that others may hold.
    pub(crate) lines: Vec<Vec<Common>>,
    /// By line size: where they are, by those who answered.
    pub(crate) there: Mutex<Vec<There>>,
    /// By line size: what became of the batch in its own stacks, once that is known.
    pub(crate) own: Mutex<Option<Vec<bf_stack::Visit>>>,
    /// Owners that have not answered, its own among them.
    lacking: AtomicUsize,
}

impl Visit {
    /// To so many others.
    pub(crate) fn new(
        (number, asker): (u64, Weak<Owner>),
        bucket: Bucket,
        lines: Vec<Vec<Common>>,
        (asked, others): (Holders, usize),
    ) -> Arc<Self> {
        let there = Mutex::new(lines.iter().map(|lines| There::none(lines)).collect());
        let (own, lacking) = (Mutex::default(), AtomicUsize::new(others + 1));
        Arc::new(Self { number, asker, asked, bucket, lines, there, own, lacking })
    }

    /// One more owner answered; whether that was the last one.
    pub(crate) fn is_told(&self) -> bool {
        self.lacking.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// What waits for whoever has the stacks of a part next.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// What batches of other slots ask, in their order.
    asked: VecDeque<Arc<Visit>>,
    /// What batches of its own were told.
    told: Vec<Arc<Visit>>,
}

impl Inbox {
    /// To be called in the order of numbers.
    pub(crate) fn ask(&mut self, visit: &Arc<Visit>) {
        self.asked.push_back(Arc::clone(visit));
    }

    /// What is to be answered next before batch `number`.
    pub(crate) fn next(&mut self, number: u64) -> Option<Arc<Visit>> {
        self.asked.pop_front_if(|visit| visit.number < number)
    }

    /// A batch was told all.
    pub(crate) fn tell(&mut self, visit: &Arc<Visit>) {
        self.told.push(Arc::clone(visit));
    }

    /// Batches that were.
    pub(crate) fn take_told(&mut self) -> Vec<Arc<Visit>> {
        std::mem::take(&mut self.told)
    }
}

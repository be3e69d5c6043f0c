//! At which line an instruction is shown: its own, or what it is for where it has none.
//!
//! The optimiser drops the location of most that it moves or merges: a load that it took out of a loop runs elsewhere than
//! where it is written. Such an instruction is shown at the first place, in this order:
//!
//! 1. that uses its result, or what is computed from it;
//! 2. that computes what it uses: what a store stores first, then its address;
//! 3. that is nearest to it in its block;
//! 4. where its loop begins.
//!
//! An instruction whose location has line 0 is known to be in a function, perhaps inlined: only places in there count,
//! and what was inlined into it counts as the call there.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::llvm::{Instruction, Location, Loop, Value};

/// Most instructions that are looked at in each direction.
const LOOK: usize = 64;
/// Most uses of a value that are put in order.
const USES: usize = 1024;

/// The lines of one function's instructions, before it is changed.
pub(crate) struct Lines {
    function: Value,
    /// Its instructions and their numbers, once they are needed.
    all: Vec<Value>,
    numbers: HashMap<Value, usize>,
    /// What was found for those without a line of their own.
    found: HashMap<Value, Option<Location>>,
}

impl Lines {
    pub(crate) fn new(function: Value) -> Self {
        Self { function, all: Vec::new(), numbers: HashMap::new(), found: HashMap::new() }
    }

    pub(crate) const fn function(&self) -> Value {
        self.function
    }

    /// Where an instruction, in this innermost loop, is shown. Its line is 0 if nothing tells.
    pub(crate) fn of(&mut self, instruction: Value, innermost: Option<Loop>) -> Option<Location> {
        let own = instruction.location();
        if own.is_some_and(|own| own.line() != 0) {
            return own;
        }
        let beginning = self.function.beginning()?;
        if self.all.is_empty() {
            self.all = self.function.blocks().flat_map(crate::llvm::Block::instructions).collect();
            self.numbers = self.all.iter().copied().zip(0..).collect();
        }
        if let Some(&found) = self.found.get(&instruction) {
            return found;
        }
        let found = if own.is_none() && stores_argument(instruction) {
            Some(beginning)
        } else {
            search(instruction, own, |value| self.users(value))
                .or_else(|| search(instruction, own, operands))
                .or_else(|| self.nearest(instruction, own))
                .or_else(|| within(own, innermost?.start()?))
                .or(own)
        };
        self.found.insert(instruction, found);
        found
    }

    /// The instructions that use a value, in program order.
    fn users(&self, value: Value) -> Vec<Value> {
        let number = |user| Some((*self.numbers.get(&user)?, user));
        let mut users: Vec<_> = value.users().take(USES).filter_map(number).collect();
        users.sort_unstable_by_key(|&(number, _)| number);
        users.into_iter().map(|(_, user)| user).collect()
    }

    /// The nearest place in the block; of two, the one behind.
    fn nearest(&self, instruction: Value, own: Option<Location>) -> Option<Location> {
        let (block, at) = (instruction.block(), *self.numbers.get(&instruction)?);
        let place = |number: usize| {
            let other = self.all.get(number).filter(|other| other.block() == block)?;
            within(own, other.location()?)
        };
        (1..=LOOK).find_map(|steps| place(at + steps).or_else(|| place(at.checked_sub(steps)?)))
    }
}

/// Whether it is what puts an argument where unoptimised code has it.
fn stores_argument(instruction: Value) -> bool {
    let is_store = instruction.instruction() == Instruction::Store && instruction.operand(0).is_argument();
    let to = || instruction.operand(1).as_instruction();
    is_store && to().is_some_and(|to| to.instruction() == Instruction::Alloca)
}

fn operands(of: Value) -> Vec<Value> {
    (0..of.operand_count()).filter_map(|index| of.operand(index).as_instruction()).collect()
}

/// The first place among the instructions that `next` leads to, nearer ones first.
fn search(from: Value, own: Option<Location>, next: impl Fn(Value) -> Vec<Value>) -> Option<Location> {
    let (mut seen, mut open) = (HashSet::from([from]), VecDeque::from([from]));
    while let Some(at) = open.pop_front() {
        for instruction in next(at) {
            if seen.len() > LOOK {
                return None;
            }
            if seen.insert(instruction) {
                if let Some(found) = instruction.location().and_then(|location| within(own, location)) {
                    return Some(found);
                }
                open.push_back(instruction);
            }
        }
    }
    None
}

/// The place that `found` is for an instruction whose own location is `own`: if that is known, in its function. `None` if
/// it has no line there.
fn within(own: Option<Location>, found: Location) -> Option<Location> {
    let function = |location: Location| (location.subprogram(), location.inlined_at());
    let mut frames = std::iter::successors(Some(found), |frame| frame.inlined_at());
    let frame = match own {
        Some(own) => frames.find(|frame| function(*frame) == function(own)),
        None => frames.next(),
    };
    frame.filter(|frame| frame.line() != 0)
}

//! Counts what a function executes: its blocks in, slots with what they stand for out.
//!
//! A block is cut into *stretches* at each call that may not come back. All instructions of a stretch are executed as often
//! as its first one, so one slot counts them all. Slots of other kinds count what a stretch does not tell: bytes of
//! `memcpy`, active lanes, which way a branch went. A loop of one block whose number of iterations is known before it
//! starts is counted there.

mod classify;
mod emit;
mod extra;
mod tables;

use std::collections::{BTreeMap, HashMap};

use crate::access::{Classifier, Length};
use crate::llvm::{Analyses, Block, Builder, Instruction, Module, Value};
use crate::options::Options;
use crate::paths::Paths;
use crate::places::Places;
use crate::vector::Lanes;
use classify::Doing;
pub(crate) use extra::Extra;

/// Amounts by name of the counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally(BTreeMap<String, i64>);

impl Tally {
    fn add(&mut self, counter: &str, amount: i64) {
        match self.0.get_mut(counter) {
            Some(sum) => *sum += amount,
            None => drop(self.0.insert(counter.to_owned(), amount)),
        }
    }

    fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(counter, amount)| self.add(counter, *amount));
    }

    /// Counters and amounts other than 0.
    fn terms(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().filter(|(_, amount)| **amount != 0).map(|(counter, amount)| (counter.as_str(), *amount))
    }
}

impl<const N: usize> From<[(&str, i64); N]> for Tally {
    fn from(terms: [(&str, i64); N]) -> Self {
        Self(terms.map(|(counter, amount)| (counter.to_owned(), amount)).into())
    }
}

/// Tallies by site.
#[derive(Clone, Debug, Default)]
struct Tallies(BTreeMap<u32, Tally>);

impl Tallies {
    fn at(&mut self, site: u32) -> &mut Tally {
        self.0.entry(site).or_default()
    }

    fn is_empty(&self) -> bool {
        self.0.values().all(|tally| tally.terms().next().is_none())
    }
}

/// What a slot counts up by.
#[derive(Clone, Copy)]
enum Quantity {
    One,
    /// A 64-bit integer.
    Value(Value),
    /// 1 if this `i1` is true.
    Flag(Value),
    /// A length.
    Bytes(Length),
    /// 1 unless a length is 0.
    Any(Length),
    /// The pieces that a copy of this length is cut into.
    Pieces(Length),
    /// The active lanes.
    Lanes(Lanes),
}

/// One slot.
pub(crate) struct Slot {
    /// It counts in front of this instruction.
    before: Value,
    quantity: Quantity,
    tallies: Tallies,
    /// Number of its block in the function.
    block: u32,
    /// Line that its block begins on, 0 if unknown.
    line: u32,
}

/// What is to be counted in a function.
#[derive(Default)]
pub(crate) struct Plan {
    slots: Vec<Slot>,
    /// Calls through a pointer.
    indirect: Vec<Value>,
}

impl Plan {
    /// How many slots it takes.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }
}

/// Counts what a module's functions do.
pub(crate) struct Counter<'a> {
    planner: Planner,
    tables: tables::Tables,
    emitter: emit::Emitter<'a>,
}

impl<'a> Counter<'a> {
    /// `mark` is the metadata kind of instructions that are no concern of ours.
    pub(crate) fn new(
        module: Module,
        analyses: Analyses,
        mark: u32,
        emitter: &'a crate::emit::Emitter,
        options: &Options,
    ) -> Self {
        let tables = tables::Tables::new(module);
        let emitter = emit::Emitter::new(module, emitter, tables.global());
        let &Options { extra, every_block, .. } = options;
        let classifier = Classifier::new(module);
        Self { planner: Planner { classifier, analyses, mark, extra, every_block }, tables, emitter }
    }

    /// What to count in a function, for [`Counter::write`]: nothing else may change it in between but other plans.
    pub(crate) fn plan(&self, function: Value, places: &mut Places) -> Plan {
        self.planner.plan(function, places)
    }

    /// The module's [`bf_abi::counting::Counting`].
    pub(crate) const fn global(&self) -> Value {
        self.tables.global()
    }

    /// Gives a function its slots; its number and that of the first one, or `None` if there are too many of them.
    pub(crate) fn add(&mut self, function: Value, plan: &Plan) -> Option<(u32, u32)> {
        self.tables.add(function, &plan.slots)
    }

    /// Writes the counting into a function of that number and first slot.
    pub(crate) fn write(&self, function: Value, plan: &Plan, (number, first): (u32, u32), paths: Option<Paths>) {
        self.emitter.function(function, &plan.slots, first, paths);
        self.emitter.indirect(function, &plan.indirect, number);
    }

    /// Completes the tables. `places` is where the sites are that plans were made with.
    pub(crate) fn finish(self, options: &Options, builder: &Builder, places: Value) {
        self.tables.finish(options, builder, places);
    }
}

/// Plans the slots of functions.
struct Planner {
    classifier: Classifier,
    analyses: Analyses,
    /// Metadata kind of instructions that are no concern of ours.
    mark: u32,
    extra: Extra,
    /// What a block does is counted there and nowhere else.
    every_block: bool,
}

/// What the slots of a block are needed for once more.
struct Ends {
    block: Block,
    /// Its first stretch, and its last.
    first: usize,
    last: usize,
    /// The site of its terminator.
    site: u32,
    /// Whether control that enters it always leaves it at its end.
    goes_through: bool,
}

impl Planner {
    fn plan(&self, function: Value, places: &mut Places) -> Plan {
        self.analyses.share_no_returns(function);
        let mut slots = Vec::new();
        let ends: Vec<_> = function.blocks().map(|block| self.block(function, block, &mut slots, places)).collect();
        if let Some(entry) = ends.first() {
            slots[entry.first].tallies.at(places.beginning(function)).add("entries", 1);
        }
        self.branches(&ends, &mut slots);
        self.loops(&ends, &mut slots);
        slots.retain(|slot| !slot.tallies.is_empty());
        let calls = function.blocks().flat_map(Block::instructions).filter(|each| !each.is_marked(self.mark));
        Plan { slots, indirect: calls.filter(|call| classify::is_indirect_call(*call)).collect() }
    }

    /// The stretches of a block.
    fn block(&self, function: Value, block: Block, slots: &mut Vec<Slot>, places: &mut Places) -> Ends {
        let number = places.block(function, block).unwrap_or(0);
        let instructions: Vec<_> = block.instructions().collect();
        let begin = instructions.iter().position(|each| starts(*each)).unwrap_or(instructions.len() - 1);
        let line = places.own_line(function, instructions[begin]);
        let mut site = |instruction| places.line(function, instruction);
        let slot = |before: Value, quantity, site: u32, tally: Tally| {
            let tallies = Tallies(BTreeMap::from([(site, tally)]));
            Slot { before, quantity, tallies, block: number, line }
        };
        let first = slots.len();
        slots.push(slot(instructions[begin], Quantity::One, site(instructions[begin]), Tally::from([("blocks", 1)])));
        let (mut last, mut goes_through) = (first, true);
        for (index, instruction) in instructions.iter().enumerate() {
            if instruction.is_marked(self.mark) {
                continue;
            }
            let Doing { tally, more, .. } = classify::doing(&self.classifier, self.extra, *instruction);
            let place = site(*instruction);
            slots[last].tallies.at(place).add_all(&tally);
            slots.extend(more.into_iter().map(|(quantity, tally)| slot(*instruction, quantity, place, tally)));
            if may_not_return(&self.classifier, *instruction) {
                goes_through = false;
                let rest = &instructions[index + 1..];
                if let Some(next) = rest.first()
                    && !is_tail(*instruction, rest)
                {
                    last = slots.len();
                    slots.push(slot(*next, Quantity::One, place, Tally::default()));
                }
            }
        }
        Ends { block, first, last, site: site(block.terminator()), goes_through }
    }

    /// Which way conditional branches go. Where a block can only be reached by one branch, the block tells.
    fn branches(&self, ends: &[Ends], slots: &mut Vec<Slot>) {
        let mut ways_in: HashMap<Block, u32> = HashMap::new();
        ends.iter()
            .flat_map(|end| end.block.terminator().successors())
            .for_each(|to| *ways_in.entry(to).or_default() += 1);
        let first: HashMap<_, _> = ends.iter().map(|end| (end.block, end.first)).collect();
        for end in ends {
            let terminator = end.block.terminator();
            let Some(condition) = terminator.condition() else { continue };
            let [yes, no] = [0, 1].map(|index| terminator.successors()[index]);
            let told = |block| Some(first[&block]).filter(|_| ways_in[&block] == 1 && !self.every_block);
            let (way, other, teller) = match (told(yes), told(no)) {
                (Some(teller), _) => ("branches_taken", "branches_not_taken", teller),
                (None, Some(teller)) => ("branches_not_taken", "branches_taken", teller),
                (None, None) => {
                    let Slot { block, line, .. } = slots[end.last];
                    let (quantity, tallies) = (Quantity::Flag(condition), Tallies::default());
                    slots.push(Slot { before: terminator, quantity, tallies, block, line });
                    ("branches_taken", "branches_not_taken", slots.len() - 1)
                }
            };
            // At the branch, wherever the block is that tells.
            slots[teller].tallies.at(end.site).add(way, 1);
            slots[teller].tallies.at(end.site).add(other, -1);
            slots[end.last].tallies.at(end.site).add(other, 1);
        }
    }

    /// Counts loops before they begin where that is possible.
    fn loops(&self, ends: &[Ends], slots: &mut [Slot]) {
        for end in ends.iter().filter(|end| end.goes_through) {
            let chain = self.analyses.chain(end.block).filter(|chain| chain.blocks.len() == 1);
            if let Some(course) = chain.and_then(|chain| self.analyses.course(&chain, &[])) {
                slots[end.first].before = course.before;
                slots[end.first].quantity = Quantity::Value(course.iterations);
            }
        }
    }
}

/// Whether code can be put in front of an instruction, and is run with it.
fn starts(instruction: Value) -> bool {
    !matches!(instruction.instruction(), Instruction::Alloca) && !matches!(instruction.opcode(), "phi" | "landingpad")
}

/// Whether an instruction other than a terminator may be the last one that runs of its block.
fn may_not_return(classifier: &Classifier, instruction: Value) -> bool {
    if instruction.instruction() != Instruction::Call || instruction.goes_on() {
        return false;
    }
    let callee = instruction.callee();
    !callee.is_inline_asm() && callee.as_function().is_none_or(|function| classifier.libc.of(function).is_none())
}

/// Whether a call is the last thing that a function does, so that it may become a jump: nothing can be done after it.
/// A function that returns a constant of its own has that to do, and one that comes to an OpenMP region waits for its end; an
/// intrinsic is no function that could be gone to.
pub(crate) fn is_tail(call: Value, rest: &[Value]) -> bool {
    let next = rest.iter().find(|each| !classify::is_nothing(**each));
    let is_last = |next: &Value| {
        let returned = (next.operand_count() > 0).then(|| next.operand(0));
        next.opcode() == "ret" && returned.is_none_or(|value| !value.is_constant() || value.is_undefined())
    };
    let comes_back = |callee: Value| callee.name().starts_with("__kmpc_fork_") || callee.intrinsic_name().is_some();
    call.is_tail_call() && next.is_some_and(is_last) && !call.callee().as_function().is_some_and(comes_back)
}

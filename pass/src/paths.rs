//! Has a function tell on which call path it is: see [`bf_abi::paths`].

use core::mem::offset_of;
use std::ffi::CString;

use bf_abi::paths::{ENTER_SYMBOL, Path};
use bf_abi::{Segment as Abi, Tls};

use crate::count;
use crate::emit;
use crate::llvm::{Instruction, Module, Type, Value};
use crate::segment::{Content, Cutter, Segment};
use crate::tables::Tables;

/// Where in a function its path matters.
pub(crate) struct Plan {
    /// Before anything else of it.
    start: Value,
    /// Calls that may run instrumented code.
    calls: Vec<Value>,
    /// Those after which nothing can be done.
    tail_calls: Vec<Value>,
    returns: Vec<Value>,
    /// Instructions that control may come to in other ways than from the one before.
    resumes: Vec<Value>,
}

/// The paths that a function knows of.
#[derive(Clone, Copy)]
pub(crate) struct Paths {
    /// On which it was called.
    caller: Value,
    /// On which it is.
    own: Value,
    /// The instruction from which on they are there.
    start: Value,
}

impl Paths {
    /// Where the slots of the function's module lie, in bytes from the thread's first one; computed where the builder stands.
    pub(crate) fn slots(self, module: Module, with: &emit::Emitter) -> Value {
        let bits = module.int(64, Path::BITS.into());
        with.builder.mul(with.builder.shift_right(self.own, bits), module.int(64, 8))
    }

    /// The instruction from which on they are there.
    pub(crate) const fn start(self) -> Value {
        self.start
    }
}

/// What a function is called by the counters: the global of its module, its first slot, and how many there are.
pub(crate) type Counted = (Value, u32, usize);

/// Writes it into the functions of a module; declares the runtime's symbols when it is made.
pub(crate) struct Writer<'a> {
    module: Module,
    with: &'a emit::Emitter,
    enter: (Value, Type),
    returns_twice: u32,
    word: Type,
    /// The description of all segments.
    description: Option<Value>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(module: Module, with: &'a emit::Emitter) -> Self {
        let (word, pointer) = (module.int_type(64), module.pointer_type());
        let name = |symbol| CString::new(symbol).unwrap_or_default();
        let enter_type = module.function_type(Some(word), &[pointer]);
        let enter = module.function(&name(ENTER_SYMBOL), enter_type);
        enter.add_attribute(module, Module::attribute_kind("nounwind"));
        let returns_twice = Module::attribute_kind("returns_twice");
        let enter = (enter, enter_type);
        Self { module, with, enter, returns_twice, word, description: None }
    }

    /// What there is to write into a function, before it is changed.
    pub(crate) fn plan(&self, function: Value, cutter: &Cutter) -> Option<Plan> {
        cutter.analyses.share_no_returns(function);
        let start = function.blocks().next()?.instructions().find(|each| each.instruction() != Instruction::Alloca)?;
        let (mut calls, mut tail_calls) = (Vec::new(), Vec::new());
        let (mut returns, mut resumes) = (Vec::new(), Vec::new());
        for block in function.blocks() {
            let instructions: Vec<_> = block.instructions().collect();
            for (at, &instruction) in instructions.iter().enumerate() {
                let rest = &instructions[at + 1..];
                match instruction.opcode() {
                    "landingpad" => resumes.extend(rest.first()),
                    "ret" => returns.push(instruction),
                    _ if instruction.instruction() == Instruction::Call && cutter.cuts(instruction) => {
                        if count::is_tail(instruction, rest) {
                            tail_calls.push(instruction);
                            break;
                        }
                        calls.push(instruction);
                        resumes.extend(self.comes_back(instruction).then(|| instruction.after()).flatten());
                    }
                    _ => {}
                }
            }
        }
        Some(Plan { start, calls, tail_calls, returns, resumes })
    }

    /// Whether code that runs on may be called from elsewhere than where this call is.
    fn comes_back(&self, call: Value) -> bool {
        let twice = |callee: Value| callee.has_attribute(self.returns_twice) || callee.name() == "swapcontext";
        call.has_call_attribute(self.returns_twice) || call.callee().as_function().is_some_and(twice)
    }

    /// Writes the entry of a function.
    pub(crate) fn enter(&self, function: Value, plan: &Plan, tables: &mut Tables, counted: Option<Counted>) -> Paths {
        let (module, builder) = (self.module, &self.with.builder);
        let number = |value: u32| module.int(32, value.into());
        let (counting, first, n_slots) = counted.unwrap_or((module.null(module.pointer_type()), 0, 0));
        let described = module.struct_of(&[
            number(0),
            number(tables.function_number(function)),
            number(first),
            number(n_slots as u32),
            tables.global(),
            counting,
            function,
        ]);
        debug_assert!(described.ty() == function_type(module));
        let global = module.add_private(c"bf.function", described.ty());
        global.set_initializer(described);
        builder.before(plan.start, function);
        let caller = builder.load(self.word, self.with.field(offset_of!(Tls, path)));
        let own = builder.call(self.enter.0, self.enter.1, &[global]);
        Paths { caller, own, start: plan.start }
    }

    /// Records where the function's own path begins. Before its other segments are written.
    pub(crate) fn begins(&mut self, function: Value, plan: &Plan, paths: Paths, tables: &mut Tables) {
        let all = [plan.start].into_iter().chain(plan.resumes.iter().copied());
        all.for_each(|at| self.record(function, at, paths.own, tables));
    }

    /// Records where it ends. After its other segments were written.
    pub(crate) fn ends(&mut self, function: Value, plan: &Plan, paths: Paths, tables: &mut Tables) {
        plan.returns.iter().for_each(|&at| self.record(function, at, paths.caller, tables));
    }

    fn record(&mut self, function: Value, at: Value, path: Value, tables: &mut Tables) {
        self.with.builder.before(at, function);
        let mut segment = Segment::of_kind(Abi::PATH, at);
        let one = self.module.int(64, 1);
        segment.write(at, 1, Content::Value(self.with.builder.add(path, one)));
        let description = *self.description.get_or_insert_with(|| tables.segment(function, &segment));
        self.with.segment(function, &segment, description);
    }

    /// Writes what is not recorded: which path callees are called on, and where a return goes back to.
    pub(crate) fn calls(&self, function: Value, plan: &Plan, paths: Paths) {
        let builder = &self.with.builder;
        let set = |at: Value, path: Value| {
            builder.before(at, function);
            builder.store(path, self.with.field(offset_of!(Tls, path)));
        };
        plan.calls.iter().chain(&plan.resumes).for_each(|&at| set(at, paths.own));
        plan.returns.iter().for_each(|&at| set(at, paths.caller));
        for &call in &plan.tail_calls {
            set(call, paths.caller);
            builder.store(paths.own, self.with.field(offset_of!(Tls, tail_path)));
            builder.store(call.callee(), self.with.field(offset_of!(Tls, tail_callee)));
        }
    }
}

/// The type of a [`bf_abi::paths::Function`].
fn function_type(module: Module) -> Type {
    let (number, pointer) = (module.int_type(32), module.pointer_type());
    module.struct_type(&[number, number, number, number, pointer, pointer, pointer])
}

#[cfg(test)]
mod tests {
    use core::mem::size_of;

    use super::*;

    #[test]
    fn a_function_is_laid_out_as_the_runtime_reads_it() {
        use bf_abi::paths::Function as Abi;
        Module::with_empty(|module| {
            let expected = [
                offset_of!(Abi, id),
                offset_of!(Abi, function),
                offset_of!(Abi, first),
                offset_of!(Abi, n_slots),
                offset_of!(Abi, module),
                offset_of!(Abi, counting),
                offset_of!(Abi, address),
                size_of::<Abi>(),
            ];
            assert_eq!(module.layout(function_type(module)), expected);
        });
    }
}

//! Writes the counting of a function's slots into it.

use core::mem::offset_of;
use std::ffi::CString;

use bf_abi::Tls;
use bf_abi::counting::{CALLED_SYMBOL, Counting, SLOTS_SYMBOL};

use super::{Quantity, Slot};
use crate::emit;
use crate::llvm::{Instruction, Module, Predicate, Type, Value};
use crate::paths::Paths;

/// What counting needs of a module; declares the runtime's symbols when it is made.
pub(crate) struct Emitter<'a> {
    module: Module,
    /// Builds lengths, and everything else.
    with: &'a emit::Emitter,
    /// The module's [`Counting`].
    counting: Value,
    slots: (Value, Type),
    called: (Value, Type),
    word: Type,
    pointer: Type,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(module: Module, with: &'a emit::Emitter, counting: Value) -> Self {
        let (word, pointer) = (module.int_type(64), module.pointer_type());
        let name = |symbol| CString::new(symbol).unwrap_or_default();
        let slots_type = module.function_type(Some(pointer), &[]);
        let slots = module.function(&name(SLOTS_SYMBOL), slots_type);
        let called_type = module.function_type(None, &[pointer, module.int_type(32), pointer]);
        let called = module.function(&name(CALLED_SYMBOL), called_type);
        called.add_attribute(module, Module::attribute_kind("nounwind"));
        for attribute in ["nounwind", "cold"] {
            slots.add_attribute(module, Module::attribute_kind(attribute));
        }
        let (slots, called) = ((slots, slots_type), (called, called_type));
        Self { module, with, counting, slots, called, word, pointer }
    }

    /// Writes the slots of a function, whose first is number `first` of the module. `paths`: each path has its own.
    pub(crate) fn function(&self, function: Value, slots: &[Slot], first: u32, paths: Option<Paths>) {
        if slots.is_empty() {
            return;
        }
        let Some(run) = self.run(function, paths) else { return };
        for (number, slot) in (first..).zip(slots) {
            self.count(function, run, number, slot);
        }
    }

    /// Tells the runtime the targets of indirect calls of the function of that number.
    pub(crate) fn indirect(&self, function: Value, calls: &[Value], number: u32) {
        let builder = &self.with.builder;
        for call in calls {
            builder.before(*call, function);
            let number = self.module.int(32, number.into());
            builder.call(self.called.0, self.called.1, &[self.counting, number, call.callee()]);
        }
    }

    /// Where the module's run of the thread's slots is, computed when the function is entered.
    fn run(&self, function: Value, paths: Option<Paths>) -> Option<Value> {
        let builder = &self.with.builder;
        let entry = function.blocks().next()?;
        let first = || entry.instructions().find(|each| each.instruction() != Instruction::Alloca);
        let start = paths.map(Paths::start).or_else(first)?;
        builder.before(start, function);
        let slots = builder.load(self.pointer, self.with.field(offset_of!(Tls, slots)));
        let none = builder.compare(Predicate::LLVMIntEQ, slots, self.module.null(self.pointer));
        let rare = builder.split(none, start);
        builder.before(rare, function);
        builder.at_location_of(start, function);
        let fresh = builder.call(self.slots.0, self.slots.1, &[]);
        builder.before(start, function);
        let slots = builder.phi(self.pointer, [(slots, entry), (fresh, rare.block())]);
        let base = match paths {
            Some(paths) => paths.slots(self.module, self.with),
            None => {
                let base = self.module.int(64, offset_of!(Counting, base) as u64);
                builder.load(self.word, builder.offset(self.counting, base))
            }
        };
        Some(builder.offset(slots, base))
    }

    fn count(&self, function: Value, run: Value, number: u32, slot: &Slot) {
        let builder = &self.with.builder;
        builder.before(slot.before, function);
        let by = self.quantity(slot.quantity);
        let place = builder.offset(run, self.module.int(64, 8 * u64::from(number)));
        builder.store(builder.add(builder.load(self.word, place), by), place);
    }

    fn quantity(&self, quantity: Quantity) -> Value {
        let (module, builder) = (self.module, &self.with.builder);
        let constant = |value: u64| module.int(64, value);
        let flag = |flag| builder.zero_extend(flag, self.word);
        match quantity {
            Quantity::One => constant(1),
            Quantity::Value(value) => value,
            Quantity::Flag(value) => flag(value),
            Quantity::Bytes(length) => self.with.length(length),
            Quantity::Any(length) => {
                let length = self.with.length(length);
                flag(builder.compare(Predicate::LLVMIntNE, length, constant(0)))
            }
            Quantity::Pieces(length) => {
                let rounded = builder.add(self.with.length(length), constant(4095));
                builder.shift_right(rounded, constant(12))
            }
            Quantity::Lanes(lanes) => {
                let bits = module.int_type(lanes.count);
                let active = builder.bit_cast(lanes.active(module, builder), bits);
                let wide = module.int_type(lanes.count.max(64));
                let count = builder.intrinsic("llvm.ctpop", &[wide], &[builder.zero_extend(active, wide)]);
                builder.truncate(count, self.word)
            }
        }
    }
}

//! The static tables of a module's slots: slots in, LLVM constants in the layout of [`bf_abi::counting`] out.

use core::mem::size_of;
use std::collections::HashMap;
use std::ffi::CString;

use bf_abi::ABI_VERSION;
use bf_abi::counting::{Counting, Function, MAX_SLOTS, Part, REGISTER_COUNTING_SYMBOL, Slot, Term};

use crate::llvm::{Builder, Module, Type, Value};
use crate::options::Options;
use crate::tables::call_from_constructor;

/// The tables while they grow.
pub(crate) struct Tables {
    module: Module,
    global: Value,
    slots: Vec<Slot>,
    parts: Vec<Part>,
    terms: Vec<Term>,
    /// Where which ones begin.
    known: HashMap<Vec<Term>, u32>,
    functions: Vec<Function>,
    strings: Vec<u8>,
    offsets: HashMap<String, u32>,
}

impl Tables {
    pub(crate) fn new(module: Module) -> Self {
        let global = module.add_private(c"bf.counting", counting_type(module));
        let (slots, parts, terms, known, functions, strings, offsets) = Default::default();
        Self { module, global, slots, parts, terms, known, functions, strings, offsets }
    }

    /// The module's [`Counting`].
    pub(crate) const fn global(&self) -> Value {
        self.global
    }

    fn string(&mut self, text: &str) -> u32 {
        if let Some(offset) = self.offsets.get(text) {
            return *offset;
        }
        let offset = self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        self.offsets.insert(text.to_owned(), offset);
        offset
    }

    /// Where these terms begin.
    fn shared(&mut self, terms: Vec<Term>) -> u32 {
        if let Some(&first) = self.known.get(&terms) {
            return first;
        }
        let first = self.terms.len() as u32;
        self.terms.extend_from_slice(&terms);
        self.known.insert(terms, first);
        first
    }

    /// Adds a function with its slots; its number and that of the first slot, or `None` if that would be more than there can be.
    pub(crate) fn add(&mut self, function: Value, slots: &[super::Slot]) -> Option<(u32, u32)> {
        if (self.slots.len() + slots.len()) as u64 > MAX_SLOTS {
            return None;
        }
        let (file, line) = function.definition().unwrap_or_default();
        let described = Function { name: self.string(&function.name()), file: self.string(&file), line };
        let first = self.slots.len() as u32;
        for slot in slots {
            let parts_before = self.parts.len();
            for (&site, tally) in &slot.tallies.0 {
                let mut terms = Vec::new();
                for (counter, amount) in tally.terms() {
                    let counter = self.string(counter);
                    terms.extend(summands(amount).map(|amount| Term { counter, amount }));
                }
                if !terms.is_empty() {
                    let (n_terms, first_term) = (terms.len() as u32, self.shared(terms));
                    self.parts.push(Part { site, first_term, n_terms });
                }
            }
            let function = self.functions.len() as u32;
            let n_parts = (self.parts.len() - parts_before) as u32;
            self.slots.push(Slot { function, block: slot.block, line: slot.line, n_parts });
        }
        self.functions.push(described);
        Some((self.functions.len() as u32 - 1, first))
    }

    /// Completes the [`Counting`] and adds a constructor that registers it.
    pub(crate) fn finish(self, options: &Options, builder: &Builder, places: Value) {
        let module = self.module;
        let number = |value: u32| module.int(32, value.into());
        let flag = |asked, flag| if asked { flag } else { 0 };
        let rows = |numbers: &mut dyn Iterator<Item = u32>| {
            let numbers: Vec<_> = numbers.map(number).collect();
            constant(module, module.array_of(module.int_type(32), &numbers))
        };
        let slots = self.slots.iter().flat_map(|slot| [slot.function, slot.block, slot.line, slot.n_parts]);
        let parts = self.parts.iter().flat_map(|part| [part.site, part.first_term, part.n_terms]);
        let terms = self.terms.iter().flat_map(|term| [term.counter, term.amount.cast_unsigned()]);
        let functions = self.functions.iter().flat_map(|function| [function.name, function.file, function.line]);
        let fields = [
            number(size_of::<Counting>() as u32),
            number(ABI_VERSION),
            module.int(64, 8 * MAX_SLOTS),
            rows(&mut slots.into_iter()),
            rows(&mut parts.into_iter()),
            rows(&mut terms.into_iter()),
            rows(&mut functions.into_iter()),
            constant(module, module.bytes(&self.strings)),
            places,
            number(self.slots.len() as u32),
            number(self.parts.len() as u32),
            number(self.terms.len() as u32),
            number(self.functions.len() as u32),
            number(self.strings.len() as u32),
            number(flag(options.counters_only, Counting::ONLY) | flag(options.every_block, Counting::EVERY_BLOCK)),
        ];
        let value = module.struct_of(&fields);
        debug_assert!(value.ty() == counting_type(module));
        self.global.set_initializer(value);
        let symbol = CString::new(REGISTER_COUNTING_SYMBOL).unwrap_or_default();
        call_from_constructor(module, builder, c"bf.count", &symbol, self.global);
    }
}

/// An amount as a sum of such as a term can hold.
fn summands(mut amount: i64) -> impl Iterator<Item = i32> {
    core::iter::from_fn(move || {
        let part = amount.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        amount -= i64::from(part);
        (part != 0).then_some(part)
    })
}

fn constant(module: Module, value: Value) -> Value {
    let global = module.add_private(c"bf.counts", value.ty());
    global.set_initializer(value);
    global.set_constant();
    global
}

/// The type of a [`Counting`].
fn counting_type(module: Module) -> Type {
    let (number, word, pointer) = (module.int_type(32), module.int_type(64), module.pointer_type());
    module.struct_type(&[
        number, number, word, pointer, pointer, pointer, pointer, pointer, pointer, number, number, number, number,
        number, number,
    ])
}

#[cfg(test)]
mod tests {
    use core::mem::{align_of, offset_of};

    use super::*;

    #[test]
    fn the_counting_is_laid_out_as_the_runtime_reads_it() {
        Module::with_empty(|module| {
            let expected = [
                offset_of!(Counting, type_size),
                offset_of!(Counting, abi_version),
                offset_of!(Counting, base),
                offset_of!(Counting, slots),
                offset_of!(Counting, parts),
                offset_of!(Counting, terms),
                offset_of!(Counting, functions),
                offset_of!(Counting, strings),
                offset_of!(Counting, places),
                offset_of!(Counting, n_slots),
                offset_of!(Counting, n_parts),
                offset_of!(Counting, n_terms),
                offset_of!(Counting, n_functions),
                offset_of!(Counting, n_strings),
                offset_of!(Counting, flags),
                size_of::<Counting>(),
            ];
            assert_eq!(module.layout(counting_type(module)), expected);
        });
    }

    #[test]
    fn rows_are_numbers_one_after_the_other() {
        assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (16, 4));
        assert_eq!((size_of::<Part>(), align_of::<Part>()), (12, 4));
        assert_eq!((size_of::<Term>(), align_of::<Term>()), (8, 4));
        assert_eq!((size_of::<Function>(), align_of::<Function>()), (12, 4));
    }

    #[test]
    fn large_amounts_are_sums() {
        assert_eq!(summands(7).collect::<Vec<_>>(), [7]);
        assert_eq!(summands(-1).collect::<Vec<_>>(), [-1]);
        assert_eq!(summands(5 << 30).map(i64::from).sum::<i64>(), 5 << 30);
    }
}

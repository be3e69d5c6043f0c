//! The static tables of a module: segments and names in, LLVM constants in the layout of [`bf_abi`] out.

use core::mem::size_of;
use std::collections::HashMap;
use std::ffi::{CStr, CString};

use bf_abi::{ABI_VERSION, Entry, REGISTER_SYMBOL, SEGMENT_ALIGN};

use crate::llvm::{Analyses, Builder, Module, Type, Value};
use crate::options::Options;
use crate::places::Places;
use crate::segment::Segment;

/// Priority of the constructor that registers the module: before those that programs can ask for.
const PRIORITY: i32 = 1;

/// The tables while they grow.
pub(crate) struct Tables {
    module: Module,
    global: Value,
    ty: Type,
    functions: Vec<String>,
    callees: Vec<String>,
    callee_numbers: HashMap<String, u32>,
    places: Places,
}

impl Tables {
    pub(crate) fn new(module: Module, analyses: Analyses, options: &Options) -> Self {
        let ty = module_type(module);
        let global = module.add_private(c"bf.module", ty);
        let (functions, callees) = (Vec::new(), Vec::new());
        let places = Places::new(module, analyses, options);
        Self { module, global, ty, functions, callees, callee_numbers: HashMap::new(), places }
    }

    /// Adds the name of an instrumented function.
    pub(crate) fn add_function(&mut self, name: String) {
        self.functions.push(name);
    }

    /// The module's [`bf_abi::Module`].
    pub(crate) const fn global(&self) -> Value {
        self.global
    }

    /// The index of a function among those of the places.
    pub(crate) fn function_number(&mut self, function: Value) -> u32 {
        self.places.compiled(function)
    }

    /// The static description of a segment of a function: a [`bf_abi::Segment`] with its entries behind it.
    pub(crate) fn segment(&mut self, function: Value, segment: &Segment) -> Value {
        let callee = segment.callee.as_ref().map_or(0, |callee| self.callee_number(callee.clone()));
        let sites: Vec<_> = segment.origins.iter().map(|&origin| self.places.site(function, origin)).collect();
        let site = match segment.kind {
            bf_abi::Segment::ALLOCATION => self.places.allocation(function, segment.first),
            _ => self.places.site(function, segment.first),
        };
        let number = |value: u32| self.module.int(32, value.into());
        let entry = |(entry, &site): (&Entry, &u32)| {
            let offset = self.module.int(32, u64::from(entry.offset.cast_unsigned()));
            self.module.struct_of(&[number(entry.what), number(entry.word), offset, number(site)])
        };
        let entries: Vec<_> = segment.entries.iter().zip(&sites).map(entry).collect();
        let fields = [
            number(0),
            number(entries.len() as u32),
            number(segment.words),
            number(callee),
            self.global,
            number(segment.kind),
            number(site),
            self.module.array_of(entry_type(self.module), &entries),
        ];
        let value = self.module.struct_of(&fields);
        debug_assert!(value.ty() == segment_type(self.module, fields[7].ty()));
        let global = self.module.add_private(c"bf.segment", value.ty());
        global.set_initializer(value);
        global.set_alignment(SEGMENT_ALIGN as u32);
        global
    }

    fn callee_number(&mut self, name: String) -> u32 {
        *self.callee_numbers.entry(name).or_insert_with_key(|name| {
            self.callees.push(name.clone());
            self.callees.len() as u32
        })
    }

    /// Where in the source things come from.
    pub(crate) const fn places(&mut self) -> &mut Places {
        &mut self.places
    }

    /// Completes the [`bf_abi::Module`] and adds a constructor that registers it. Gives its [`bf_abi::Places`].
    pub(crate) fn finish(self, options: &Options, builder: &Builder) -> Value {
        let module = self.module;
        let number = |value: u32| module.int(32, value.into());
        let sizes: Vec<_> = options.line_sizes.iter().map(|size| number(*size)).collect();
        let sizes_address = if sizes.is_empty() {
            module.null(module.pointer_type())
        } else {
            self.constant(module.array_of(module.int_type(32), &sizes))
        };
        let places = self.places.finish(|value| self.constant(value));
        let zeros: Vec<_> = core::iter::repeat_n(number(0), 4).collect();
        let fields = [
            number(size_of::<bf_abi::Module>() as u32),
            number(ABI_VERSION),
            self.names(&[module.source_name()]),
            self.names(&self.functions),
            self.names(&self.callees),
            number(self.functions.len() as u32),
            number(self.callees.len() as u32),
            sizes_address,
            number(sizes.len() as u32),
            number(options.max_set_bits),
            number(options.max_ways),
            number(options.flags()),
            places,
            module.array_of(module.int_type(32), &zeros),
        ];
        let value = module.struct_of(&fields);
        debug_assert!(value.ty() == self.ty);
        self.global.set_initializer(value);
        let symbol = CString::new(REGISTER_SYMBOL).unwrap_or_default();
        call_from_constructor(module, builder, c"bf.register", &symbol, self.global);
        places
    }

    /// Names one after the other, each NUL-terminated.
    fn names(&self, names: &[String]) -> Value {
        let bytes: Vec<u8> = names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        self.constant(self.module.bytes(&bytes))
    }

    fn constant(&self, value: Value) -> Value {
        let global = self.module.add_private(c"bf.names", value.ty());
        global.set_initializer(value);
        global.set_constant();
        global
    }
}

/// Adds a constructor that gives `table` to the runtime's function of the name `symbol`, and keeps the table.
pub(crate) fn call_from_constructor(module: Module, builder: &Builder, name: &CStr, symbol: &CStr, table: Value) {
    let ty = module.function_type(None, &[module.pointer_type()]);
    let register = module.function(symbol, ty);
    let constructor = module.add_internal_function(name, module.function_type(None, &[]));
    constructor.add_attribute(module, Module::attribute_kind("nounwind"));
    builder.in_new_entry(constructor);
    builder.call(register, ty, &[table]);
    builder.return_void();
    module.add_constructor(constructor, PRIORITY);
    module.keep(table);
}

/// The type of a [`bf_abi::Module`].
fn module_type(module: Module) -> Type {
    let (number, pointer) = (module.int_type(32), module.pointer_type());
    module.struct_type(&[
        number,
        number,
        pointer,
        pointer,
        pointer,
        number,
        number,
        pointer,
        number,
        number,
        number,
        number,
        pointer,
        number.array(4),
    ])
}

/// The type of a [`bf_abi::Segment`] followed by its entries.
fn segment_type(module: Module, entries: Type) -> Type {
    let number = module.int_type(32);
    module.struct_type(&[number, number, number, number, module.pointer_type(), number, number, entries])
}

/// The type of a [`bf_abi::Entry`].
fn entry_type(module: Module) -> Type {
    let number = module.int_type(32);
    module.struct_type(&[number, number, number, number])
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn the_module_table_is_laid_out_as_the_runtime_reads_it() {
        use bf_abi::Module as Abi;
        Module::with_empty(|module| {
            let expected = [
                offset_of!(Abi, type_size),
                offset_of!(Abi, abi_version),
                offset_of!(Abi, name),
                offset_of!(Abi, functions),
                offset_of!(Abi, callees),
                offset_of!(Abi, n_functions),
                offset_of!(Abi, n_callees),
                offset_of!(Abi, line_sizes),
                offset_of!(Abi, n_line_sizes),
                offset_of!(Abi, max_set_bits),
                offset_of!(Abi, max_ways),
                offset_of!(Abi, flags),
                offset_of!(Abi, places),
                offset_of!(Abi, reserved),
                size_of::<Abi>(),
            ];
            assert_eq!(module.layout(module_type(module)), expected);
        });
    }

    #[test]
    fn a_segment_is_laid_out_as_the_runtime_reads_it() {
        use bf_abi::Segment as Abi;
        Module::with_empty(|module| {
            let entries = entry_type(module).array(3);
            let layout = module.layout(segment_type(module, entries));
            let fields = [
                offset_of!(Abi, id),
                offset_of!(Abi, n_entries),
                offset_of!(Abi, words),
                offset_of!(Abi, callee),
                offset_of!(Abi, module),
                offset_of!(Abi, kind),
                offset_of!(Abi, site),
            ];
            assert_eq!(layout[..7], fields);
            // The entries follow the struct, wherever that ends.
            assert_eq!(layout[7], size_of::<Abi>());
        });
    }

    #[test]
    fn an_entry_is_laid_out_as_the_runtime_reads_it() {
        Module::with_empty(|module| {
            let fields =
                [offset_of!(Entry, what), offset_of!(Entry, word), offset_of!(Entry, offset), offset_of!(Entry, site)];
            assert_eq!(module.layout(entry_type(module)), [&fields[..], &[size_of::<Entry>()]].concat());
        });
    }

    #[test]
    fn the_thread_local_is_laid_out_as_the_runtime_has_it() {
        use bf_abi::Tls as Abi;
        Module::with_empty(|module| {
            let expected = [
                offset_of!(Abi, cursor),
                offset_of!(Abi, limit),
                offset_of!(Abi, reserved),
                offset_of!(Abi, slots),
                offset_of!(Abi, path),
                offset_of!(Abi, tail_path),
                offset_of!(Abi, tail_callee),
                offset_of!(Abi, allocation),
            ];
            let layout = module.layout(crate::emit::tls_type(module));
            assert_eq!(layout, [&expected[..], &[size_of::<Abi>()]].concat());
        });
    }
}

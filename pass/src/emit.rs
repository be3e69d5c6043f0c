//! Writes the recording of a segment into its function: reservation, header, and words before the accesses.
//!
//! The words are addressed from the end of the reservation, which is the new cursor: then one value is live through a
//! segment, and the slow path has one value to give back.

use core::mem::{offset_of, size_of};
use std::ffi::CString;

use bf_abi::{FLUSH_SYMBOL, FORTRAN_BYTES_SYMBOL, TLS_SYMBOL, Tls};

use crate::access::{Access, Length};
use crate::llvm::{Builder, Instruction, Module, Predicate, Type, Value};
use crate::segment::{Content, Segment};

/// Bytes of a word.
const WORD: u64 = size_of::<u64>() as u64;

/// A stream of more accesses empties the buffer first: other threads' batches come between it and what was before.
const LONG: u64 = 8192;

/// What emission needs of a module; declares the runtime's symbols when it is made.
pub(crate) struct Emitter {
    module: Module,
    pub(crate) builder: Builder,
    tls: Value,
    thread_local_address: (Value, Type),
    flush: (Value, Type),
    word: Type,
    pointer: Type,
}

impl Emitter {
    pub(crate) fn new(module: Module, builder: Builder) -> Self {
        let (word, pointer) = (module.int_type(64), module.pointer_type());
        let name = |symbol| CString::new(symbol).unwrap_or_default();
        let tls = module.thread_local(&name(TLS_SYMBOL), tls_type(module));
        let thread_local_address = module.intrinsic("llvm.threadlocal.address", &[pointer]);
        let flush_type = module.function_type(Some(pointer), &[word]);
        let flush = module.function(&name(FLUSH_SYMBOL), flush_type);
        for attribute in ["nounwind", "cold"] {
            flush.add_attribute(module, Module::attribute_kind(attribute));
        }
        Self { module, builder, tls, thread_local_address, flush: (flush, flush_type), word, pointer }
    }

    /// The address of the thread's state.
    fn tls(&self) -> Value {
        self.builder.call(self.thread_local_address.0, self.thread_local_address.1, &[self.tls])
    }

    /// The address of the field of the thread's state at an offset.
    pub(crate) fn field(&self, offset: usize) -> Value {
        let tls = self.tls();
        self.builder.offset(tls, self.module.int(64, offset as u64))
    }

    /// What [`Tls::allocation`] has.
    pub(crate) fn allocation(&self) -> Value {
        let field = self.field(offset_of!(Tls, allocation));
        self.builder.load(self.pointer, field)
    }

    /// A null pointer.
    pub(crate) fn none(&self) -> Value {
        self.module.null(self.pointer)
    }

    /// The one pointer, or the other one if it is null.
    pub(crate) fn first_of(&self, one: Value, other: Value) -> Value {
        let none = self.builder.compare(Predicate::LLVMIntEQ, one, self.none());
        self.builder.select(none, other, one)
    }

    /// The header of a segment of so many words.
    pub(crate) fn header(&self, description: Value, words: u32) -> Value {
        self.builder.offset(description, self.module.int(64, bf_abi::Segment::mark(words)))
    }

    /// Makes room for splitting the entry block: an alloca of fixed size outside the entry block would count as one of
    /// variable size.
    pub(crate) fn keep_allocas_in_entry(&self, function: Value) {
        let Some(entry) = function.blocks().next() else { return };
        let mut others = entry.instructions().skip_while(|each| each.instruction() == Instruction::Alloca);
        let Some(first) = others.next() else { return };
        let fixed =
            |each: &Value| each.instruction() == Instruction::Alloca && each.operand(0).as_constant_int().is_some();
        let late: Vec<_> = others.filter(fixed).collect();
        for alloca in late {
            self.builder.before(first, function);
            self.builder.move_here(alloca);
        }
    }

    /// Writes one segment, whose static description is `description`.
    pub(crate) fn segment(&self, function: Value, segment: &Segment, description: Value) {
        let end = self.reserve(function, segment);
        let slot = |word: u32| {
            let back = (u64::from(segment.words) - u64::from(word)) * WORD;
            self.builder.offset(end, self.module.int(64, back.wrapping_neg()))
        };
        let own = self.header(description, segment.words);
        let header = if segment.for_caller { self.first_of(self.allocation(), own) } else { own };
        self.builder.store(header, slot(0));
        for write in &segment.writes {
            self.builder.before(write.before, function);
            let values = match &write.content {
                Content::Value(value) => vec![*value],
                Content::Access(access) => self.words(access),
                Content::Loaded(at) => vec![self.builder.load(self.pointer, *at)],
                Content::If { call, of, value } => {
                    let known = self.module.function(of, call.called_type());
                    let is_of = self.builder.compare(Predicate::LLVMIntEQ, call.callee(), known);
                    vec![self.builder.select(is_of, *value, self.none())]
                }
                Content::Described(descriptor) => {
                    let ty = self.module.function_type(Some(self.word), &[self.pointer]);
                    let name = CString::new(FORTRAN_BYTES_SYMBOL).unwrap_or_default();
                    vec![self.builder.call(self.module.function(&name, ty), ty, &[*descriptor])]
                }
                Content::Product(a, b) => {
                    let [a, b] = [a, b].map(|value| self.builder.zero_extend(*value, self.word));
                    vec![self.builder.mul(a, b)]
                }
            };
            for (at, value) in (write.word..).zip(values) {
                self.builder.store(value, slot(at));
            }
        }
    }

    /// Reserves the segment's words; returns the cursor behind them and leaves the builder at the segment's start.
    fn reserve(&self, function: Value, segment: &Segment) -> Value {
        let (module, builder) = (self.module, &self.builder);
        let constant = |value: u64| module.int(64, value);
        let bytes = constant(u64::from(segment.words) * WORD);
        builder.before(segment.start, function);
        let tls = self.tls();
        let limit_address = builder.offset(tls, constant(offset_of!(Tls, limit) as u64));
        let end = builder.offset(builder.load(self.pointer, tls), bytes);
        let limit = builder.load(self.pointer, limit_address);
        let mut full = builder.compare(Predicate::LLVMIntUGT, end, limit);
        if let Some(iterations) = segment.iterations() {
            let most = constant(LONG / segment.entries.len().max(1) as u64);
            let long = builder.compare(Predicate::LLVMIntUGT, builder.zero_extend(iterations, self.word), most);
            full = builder.or(full, long);
        }
        let head = segment.start.block();
        let rare = builder.split(full, segment.start);
        builder.before(rare, function);
        builder.at_location_of(segment.start, function);
        let fresh = builder.call(self.flush.0, self.flush.1, &[constant(segment.words.into())]);
        let fresh_end = builder.offset(fresh, bytes);
        builder.before(segment.start, function);
        let end = builder.phi(self.pointer, [(end, head), (fresh_end, rare.block())]);
        builder.store(end, tls);
        end
    }

    /// The values of an access's words.
    fn words(&self, access: &Access) -> Vec<Value> {
        match access {
            Access::One { address, .. } => vec![*address],
            Access::Range { address, length, .. } => vec![*address, self.length(*length)],
            Access::Copy { to, from, length } => vec![*to, *from, self.length(*length)],
            // One value that fills all the words.
            Access::Lanes(lanes) => vec![lanes.words(self.module, &self.builder)],
        }
    }

    /// A number of bytes, computed here.
    pub(crate) fn length(&self, length: Length) -> Value {
        let (module, builder) = (self.module, &self.builder);
        let constant = |value: u64| module.int(64, value);
        match length {
            Length::Constant(bytes) => constant(bytes),
            Length::Times { count, unit } => builder.mul(builder.zero_extend(count, self.word), constant(unit)),
            Length::Scalable { unit } => {
                builder.mul(builder.intrinsic("llvm.vscale", &[self.word], &[]), constant(unit))
            }
            Length::Active { mask, unit } => {
                let wide = mask.ty().with_element(module.int_type(32));
                let ones = builder.zero_extend(mask, wide);
                let count = builder.intrinsic("llvm.vector.reduce.add", &[wide], &[ones]);
                builder.mul(builder.zero_extend(count, self.word), constant(unit))
            }
        }
    }
}

/// The type of a [`Tls`].
pub(crate) fn tls_type(module: Module) -> Type {
    let word = module.int_type(64);
    module.struct_type(&[word, word, word.array(5), word, word, word, word, word])
}

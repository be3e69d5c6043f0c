//! Vector operations with a mask: which lanes they touch, and how the addresses of the active ones reach the buffer.
//!
//! Fixed-size operations make one access per active lane. An operation takes its words in one vector store: the address
//! of each active lane, zero for the others.

use bf_abi::{MAX_SEGMENT_WORDS, Op};

use crate::access::{Access, Classifier, Length, one, range};
use crate::llvm::{Builder, Kind, Module, Predicate, Type, Value};

/// The lanes of one operation.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub(crate) op: Op,
    /// Bytes of one lane.
    pub(crate) size: u32,
    /// Number of lanes, active or not.
    pub(crate) count: u32,
    addresses: Addresses,
    active: Active,
}

/// Where the lanes are.
#[derive(Clone, Copy)]
enum Addresses {
    /// A vector of pointers.
    Vector(Value),
    /// One after the other from a pointer on.
    Contiguous(Value),
    /// Every so many bytes from a pointer on.
    Strided { base: Value, stride: Value },
    /// `base + scale * index[lane]`, index sign-extended.
    Indexed { base: Value, index: Value, scale: Value },
}

/// Which lanes take part.
#[derive(Clone, Copy)]
enum Active {
    /// Those true in a vector of `i1`.
    Mask(Value),
    /// Those true in the mask and below the length.
    MaskAndLength(Value, Value),
    /// As many as are true in the mask, the first ones: the memory side of `expandload` and `compressstore`.
    Packed(Value),
    /// Those whose mask element has its sign bit set.
    Sign(Value),
}

/// The accesses of an intrinsic that is neither a transfer nor a plain load or store; none if it is not known.
pub(crate) fn accesses(classifier: &Classifier, name: &str, call: Value) -> Vec<Access> {
    let masked = name.strip_prefix("llvm.masked.").and_then(|rest| generic(rest, call));
    let predicated = || {
        let rest = name.strip_prefix("llvm.vp.").or_else(|| name.strip_prefix("llvm.experimental.vp."))?;
        vector_predicated(rest, call)
    };
    let x86 = || name.strip_prefix("llvm.x86.").and_then(|rest| x86(classifier.module, rest, call));
    if let Some(operation) = masked.or_else(predicated).or_else(x86) {
        return operation.accesses(classifier.module);
    }
    if let Some(rest) = name.strip_prefix("llvm.aarch64.neon.") {
        return neon(classifier.module, rest, call);
    }
    match name {
        "llvm.x86.sse3.ldu.dq" | "llvm.x86.avx.ldu.dq.256" => classifier.whole(Op::Load, call.ty(), call.operand(0)),
        _ => Vec::new(),
    }
}

/// An operation before its sizes are known.
struct Operation {
    op: Op,
    /// The vector that is loaded or stored.
    data: Type,
    addresses: Addresses,
    active: Active,
}

impl Operation {
    fn accesses(self, module: Module) -> Vec<Access> {
        let pointer = match self.addresses {
            Addresses::Vector(pointers) => pointers,
            Addresses::Contiguous(base) | Addresses::Strided { base, .. } | Addresses::Indexed { base, .. } => base,
        };
        if pointer.ty().address_space() != 0 {
            return Vec::new();
        }
        let size = module.store_size(self.data.element()).bytes;
        let Some((count, _)) = self.data.as_vector() else { return self.scalable(size) };
        // Gathers of 64-bit indices into 32-bit lanes load only as many lanes as there are indices.
        let count = match self.addresses {
            Addresses::Indexed { index, .. } => index.ty().as_vector().map_or(count, |(lanes, _)| lanes.min(count)),
            _ => count,
        };
        let Ok(size @ 1..=Op::MAX_SIZE) = u32::try_from(size) else { return Vec::new() };
        if count >= MAX_SEGMENT_WORDS {
            return Vec::new();
        }
        let Self { op, addresses, active, .. } = self;
        vec![Access::Lanes(Lanes { op, size, count, addresses, active })]
    }

    /// Of a vector whose length only the machine knows: the lanes from the start, as many as are active. That is exact
    /// for the masks of loops; lanes that lie anywhere have no entry.
    fn scalable(self, unit: u64) -> Vec<Access> {
        let (Addresses::Contiguous(address), Active::Mask(mask) | Active::Packed(mask)) = (self.addresses, self.active)
        else {
            return Vec::new();
        };
        vec![Access::Range { op: range(self.op), address, length: Length::Active { mask, unit } }]
    }
}

/// `llvm.masked.*`. The mask is last of a store's arguments and last but one of a load's; LLVM 19 has an alignment
/// before it that LLVM 22 has not.
fn generic(name: &str, call: Value) -> Option<Operation> {
    let count = call.argument_count();
    let load = |addresses, active: fn(Value) -> Active| {
        Some(Operation { op: Op::Load, data: call.ty(), addresses, active: active(call.operand(count - 2)) })
    };
    let store = |addresses, active: fn(Value) -> Active| {
        let data = call.operand(0).ty();
        Some(Operation { op: Op::Store, data, addresses, active: active(call.operand(count - 1)) })
    };
    match name {
        "load" => load(Addresses::Contiguous(call.operand(0)), Active::Mask),
        "expandload" => load(Addresses::Contiguous(call.operand(0)), Active::Packed),
        "gather" => load(Addresses::Vector(call.operand(0)), Active::Mask),
        "store" => store(Addresses::Contiguous(call.operand(1)), Active::Mask),
        "compressstore" => store(Addresses::Contiguous(call.operand(1)), Active::Packed),
        "scatter" => store(Addresses::Vector(call.operand(1)), Active::Mask),
        _ => None,
    }
}

/// `llvm.vp.*`: the arguments end in a mask and a number of lanes.
fn vector_predicated(name: &str, call: Value) -> Option<Operation> {
    let count = call.argument_count();
    let active = || Active::MaskAndLength(call.operand(count - 2), call.operand(count - 1));
    let strided = |at| Addresses::Strided { base: call.operand(at), stride: call.operand(at + 1) };
    let (op, data, addresses) = match name {
        "load" => (Op::Load, call.ty(), Addresses::Contiguous(call.operand(0))),
        "gather" => (Op::Load, call.ty(), Addresses::Vector(call.operand(0))),
        "strided.load" => (Op::Load, call.ty(), strided(0)),
        "store" => (Op::Store, call.operand(0).ty(), Addresses::Contiguous(call.operand(1))),
        "scatter" => (Op::Store, call.operand(0).ty(), Addresses::Vector(call.operand(1))),
        "strided.store" => (Op::Store, call.operand(0).ty(), strided(1)),
        _ => return None,
    };
    Some(Operation { op, data, addresses, active: active() })
}

/// What C's `_mm*_mask*`, `_mm*_i32gather*` and their like are.
fn x86(module: Module, name: &str, call: Value) -> Option<Operation> {
    let sign = |index| Active::Sign(call.operand(index));
    let contiguous = |index| Addresses::Contiguous(call.operand(index));
    let indexed = |base: u32, index: u32, scale: u32| Addresses::Indexed {
        base: call.operand(base),
        index: call.operand(index),
        scale: call.operand(scale),
    };
    let operation = |op, data, addresses, active| Some(Operation { op, data, addresses, active });
    if name.starts_with("avx.maskload.") || name.starts_with("avx2.maskload.") {
        return operation(Op::Load, call.ty(), contiguous(0), sign(1));
    }
    if name.starts_with("avx.maskstore.") || name.starts_with("avx2.maskstore.") {
        return operation(Op::Store, call.operand(2).ty(), contiguous(0), sign(1));
    }
    if name.starts_with("avx2.gather.") {
        return operation(Op::Load, call.ty(), indexed(1, 2, 4), sign(3));
    }
    if name == "sse2.maskmov.dqu" {
        return operation(Op::Store, call.operand(0).ty(), contiguous(2), sign(1));
    }
    // The forms with a vector of i1; those with an integer mask are what old bitcode has.
    let mask_at = |index: u32| {
        let mask = call.operand(index);
        let is_mask = mask.ty().as_vector().is_some_and(|(_, element)| element == module.int_type(1));
        is_mask.then_some(Active::Mask(mask))
    };
    if name.starts_with("avx512.mask.gather") {
        return operation(Op::Load, call.ty(), indexed(1, 2, 4), mask_at(3)?);
    }
    if name.starts_with("avx512.mask.scatter") {
        return operation(Op::Store, call.operand(3).ty(), indexed(0, 2, 4), mask_at(1)?);
    }
    None
}

/// AArch64's structured loads and stores; the address is the last argument. A whole structure is one access, and so
/// are the elements that a lane form touches, which lie side by side.
fn neon(module: Module, name: &str, call: Value) -> Vec<Access> {
    let count = call.argument_count();
    let structured = name.strip_prefix("ld").map(|rest| (Op::Load, rest));
    let Some((op, form)) = structured.or_else(|| name.strip_prefix("st").map(|rest| (Op::Store, rest))) else {
        return Vec::new();
    };
    let Some(number) = form.chars().next().and_then(|digit| digit.to_digit(10)).map(u64::from) else {
        return Vec::new();
    };
    let address = call.operand(count - 1);
    if !address.ty().is_pointer() || address.ty().address_space() != 0 {
        return Vec::new();
    }
    let element_form = form.ends_with("lane") || form.ends_with('r');
    let vector = if op == Op::Store || form.ends_with("lane") { Some(call.operand(0).ty()) } else { None };
    let bytes = match (vector, element_form) {
        (Some(vector), true) => number * module.store_size(vector.element()).bytes,
        (Some(vector), false) => u64::from(count - 1) * module.store_size(vector).bytes,
        (None, true) => number * module.store_size(call.ty().first_field().element()).bytes,
        (None, false) => module.store_size(call.ty()).bytes,
    };
    one(op, bytes, address)
}

impl Lanes {
    /// Builds the words: a vector of 64-bit integers, the address of each active lane and zero for the others.
    pub(crate) fn words(&self, module: Module, builder: &Builder) -> Value {
        let words = module.int_type(64).vector(self.count);
        let addresses = self.addresses(module, builder, words);
        let active = self.active(module, builder);
        builder.select(active, addresses, module.null(words))
    }

    fn addresses(&self, module: Module, builder: &Builder, words: Type) -> Value {
        let word = module.int_type(64);
        let numbers = |unit: u64| {
            let lanes: Vec<_> = (0..u64::from(self.count)).map(|lane| module.int(64, lane * unit)).collect();
            module.vector_of(&lanes)
        };
        let base = |pointer| builder.splat(builder.pointer_to_int(pointer, word), self.count);
        match self.addresses {
            Addresses::Vector(pointers) => builder.pointer_to_int(pointers, words),
            Addresses::Contiguous(pointer) => builder.add(base(pointer), numbers(self.size.into())),
            Addresses::Strided { base: pointer, stride } => {
                let stride = builder.splat(builder.sign_extend(stride, word), self.count);
                builder.add(base(pointer), builder.mul(stride, numbers(1)))
            }
            Addresses::Indexed { base: pointer, index, scale } => {
                let index = builder.sign_extend(builder.first_lanes(index, self.count), words);
                let scale = builder.splat(builder.zero_extend(scale, word), self.count);
                builder.add(base(pointer), builder.mul(index, scale))
            }
        }
    }

    /// Builds a vector of `i1`: whether a lane is active.
    pub(crate) fn active(&self, module: Module, builder: &Builder) -> Value {
        let below = |limit: Value| {
            let bits = limit.ty().int_bits();
            let lanes: Vec<_> = (0..u64::from(self.count)).map(|lane| module.int(bits, lane)).collect();
            builder.compare(Predicate::LLVMIntULT, module.vector_of(&lanes), builder.splat(limit, self.count))
        };
        match self.active {
            Active::Mask(mask) => builder.first_lanes(mask, self.count),
            Active::MaskAndLength(mask, length) => builder.and(mask, below(length)),
            Active::Packed(mask) => {
                let bits = module.int_type(self.count);
                let bits = builder.bit_cast(mask, bits);
                // Wide enough to count its own bits.
                let wide = module.int_type(self.count.max(32));
                below(builder.intrinsic("llvm.ctpop", &[wide], &[builder.zero_extend(bits, wide)]))
            }
            Active::Sign(mask) => {
                let (lanes, element) = mask.ty().as_vector().unwrap_or((self.count, module.int_type(32)));
                let bits = match element.kind() {
                    Kind::LLVMFloatTypeKind => 32,
                    Kind::LLVMDoubleTypeKind => 64,
                    _ => element.int_bits(),
                };
                let integers = module.int_type(bits).vector(lanes);
                let mask = builder.first_lanes(builder.bit_cast(mask, integers), self.count);
                builder.compare(Predicate::LLVMIntSLT, mask, module.null(mask.ty()))
            }
        }
    }
}

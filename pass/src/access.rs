//! What one instruction does to memory: an instruction in, its accesses out, in the order in which they count.

use bf_abi::{Entry, Op};

use crate::assembly::Assembly;
use crate::libc;
use crate::llvm::{Instruction, Module, Type, Value};
use crate::vector;

/// One access, or the lanes of one vector operation.
#[derive(Clone)]
pub(crate) enum Access {
    /// `size` bytes at `address`.
    One { op: Op, size: u32, address: Value },
    /// A range whose length is known when it runs only.
    Range { op: Op, address: Value, length: Length },
    /// `memcpy` or `memmove` of a length that is not small.
    Copy { to: Value, from: Value, length: Length },
    /// One access per active lane.
    Lanes(vector::Lanes),
}

/// A number of bytes.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// Known now.
    Constant(u64),
    /// `count * unit`, `count` an integer of any width.
    Times { count: Value, unit: u64 },
    /// `unit * vscale`.
    Scalable { unit: u64 },
    /// `unit` for each true lane of a scalable mask, taken to be the first ones.
    Active { mask: Value, unit: u64 },
}

impl Access {
    /// The entries that describe it in the segment if its words begin at `word` and its address is `offset` behind that.
    pub(crate) fn entries(&self, word: u32, offset: i32) -> impl Iterator<Item = Entry> {
        let (what, count) = match self {
            Self::One { op, size, .. } => (op.what(*size), 1),
            Self::Range { op, .. } => (op.what(0), 1),
            Self::Copy { .. } => (Op::Copy.what(0), 1),
            Self::Lanes(lanes) => (lanes.op.what(lanes.size), lanes.count),
        };
        (0..count).map(move |lane| Entry { what, word: word + lane, offset, site: 0 })
    }

    /// Words it takes in the buffer.
    pub(crate) fn words(&self) -> u32 {
        match self {
            Self::One { op, .. } | Self::Range { op, .. } => op.words(),
            Self::Copy { .. } => Op::Copy.words(),
            Self::Lanes(lanes) => lanes.op.words() * lanes.count,
        }
    }
}

/// Copies up to this length are one load and one store; longer ones are left to the runtime, which cuts them up.
const PIECE: u64 = 4096;

/// What is the same for every instruction of a module.
pub(crate) struct Classifier {
    pub(crate) module: Module,
    pub(crate) libc: libc::Functions,
    /// Kind of the `byval` attribute.
    pub(crate) byval: u32,
    /// Kind of the `elementtype` attribute.
    element: u32,
}

impl Classifier {
    pub(crate) fn new(module: Module) -> Self {
        let [byval, element] = ["byval", "elementtype"].map(Module::attribute_kind);
        Self { module, libc: libc::Functions::new(module), byval, element }
    }

    /// The accesses of an instruction, none for most.
    pub(crate) fn accesses(&self, instruction: Value) -> Vec<Access> {
        match instruction.instruction() {
            Instruction::Load => self.whole(Op::Load, instruction.ty(), instruction.operand(0)),
            Instruction::Store => self.whole(Op::Store, instruction.operand(0).ty(), instruction.operand(1)),
            // Operand 1 of both `atomicrmw` and `cmpxchg` has the type that is read and perhaps written.
            Instruction::Atomic => self.whole(Op::Store, instruction.operand(1).ty(), instruction.operand(0)),
            Instruction::Call => self.call(instruction),
            _ => Vec::new(),
        }
    }

    /// One access of a type's whole store size.
    pub(crate) fn whole(&self, op: Op, ty: Type, address: Value) -> Vec<Access> {
        if address.ty().address_space() != 0 || address.is_swift_error() {
            return Vec::new();
        }
        let size = self.module.store_size(ty);
        if size.scalable {
            return vec![Access::Range { op: range(op), address, length: Length::Scalable { unit: size.bytes } }];
        }
        one(op, size.bytes, address)
    }

    fn call(&self, call: Value) -> Vec<Access> {
        let mut accesses = self.by_value_arguments(call);
        if let Some(assembly) = call.assembly() {
            accesses.extend(self.assembly(&assembly, call));
        } else if let Some(known) = self.known(call) {
            accesses.extend(self.transfer(known, call));
        } else if let Some(name) = call.callee().as_function().and_then(Value::intrinsic_name) {
            accesses.extend(vector::accesses(self, &name, call));
        }
        accesses
    }

    /// The operands that inline assembly has in memory: all that are read, then all that are written.
    fn assembly(&self, assembly: &Assembly, call: Value) -> Vec<Access> {
        let named = assembly.named(|one, other| call.operand(one as u32) == call.operand(other as u32));
        let access = |op: Op, index: usize| {
            let ty = call.argument_type_attribute(index as u32, self.element)?;
            Some(self.whole(op, ty, call.operand(index as u32)))
        };
        let reads = named.iter().filter(|(_, using)| using.reads).filter_map(|&(index, _)| access(Op::Load, index));
        let writes = named.iter().filter(|(_, using)| using.writes).filter_map(|&(index, _)| access(Op::Store, index));
        reads.chain(writes).flatten().collect()
    }

    /// How many bytes a call like `memcpy` or `memset` moves, and whether it copies them.
    pub(crate) fn moved(&self, call: Value) -> Option<(Length, bool)> {
        let known = self.known(call)?;
        Some((length(known, call), known.transfer.from.is_some()))
    }

    /// The caller copies `byval` arguments to the stack: it reads them. Where to, only the code generator knows.
    fn by_value_arguments(&self, call: Value) -> Vec<Access> {
        if call.is_musttail() {
            return Vec::new();
        }
        (0..call.argument_count())
            .filter_map(|index| Some((call.operand(index), call.argument_type_attribute(index, self.byval)?)))
            .flat_map(|(address, ty)| self.whole(Op::Load, ty, address))
            .collect()
    }

    /// Which function or intrinsic like `memcpy` or `memset` is called, if it is one.
    fn known(&self, call: Value) -> Option<libc::Known> {
        let callee = call.callee().as_function()?;
        let Some(name) = callee.intrinsic_name() else { return self.libc.of(callee) };
        let (transfer, unit) = match name.as_str() {
            "llvm.memcpy"
            | "llvm.memcpy.inline"
            | "llvm.memmove"
            | "llvm.memcpy.element.unordered.atomic"
            | "llvm.memmove.element.unordered.atomic" => (libc::Transfer::COPY, 1),
            "llvm.memset" | "llvm.memset.inline" | "llvm.memset.element.unordered.atomic" => (libc::Transfer::FILL, 1),
            "llvm.experimental.memset.pattern" => {
                (libc::Transfer::FILL, self.module.store_size(call.operand(1).ty()).bytes)
            }
            _ => return None,
        };
        Some(libc::Known { transfer, unit })
    }

    /// The accesses of such a call.
    fn transfer(&self, known: libc::Known, call: Value) -> Vec<Access> {
        let transfer = known.transfer;
        let to = call.operand(transfer.to);
        let from = transfer.from.map(|from| call.operand(from));
        if [Some(to), from].into_iter().flatten().any(|address| address.ty().address_space() != 0) {
            return Vec::new();
        }
        match (from, length(known, call)) {
            (_, Length::Constant(0)) => Vec::new(),
            (Some(from), Length::Constant(bytes)) if bytes <= PIECE => {
                [one(Op::Load, bytes, from), one(Op::Store, bytes, to)].concat()
            }
            (Some(from), length) => vec![Access::Copy { to, from, length }],
            (None, Length::Constant(bytes)) => one(Op::Store, bytes, to),
            (None, length) => vec![Access::Range { op: Op::StoreRange, address: to, length }],
        }
    }
}

/// The bytes that a call like `memcpy` or `memset` moves.
fn length(known: libc::Known, call: Value) -> Length {
    let (count, unit) = (call.operand(known.transfer.count), known.unit);
    match count.as_constant_int() {
        Some(count) => Length::Constant(count.saturating_mul(unit)),
        None => Length::Times { count, unit },
    }
}

/// An access of a size known now; none if the size is 0.
pub(crate) fn one(op: Op, bytes: u64, address: Value) -> Vec<Access> {
    match u32::try_from(bytes) {
        Ok(0) => Vec::new(),
        Ok(size) if size <= Op::MAX_SIZE => vec![Access::One { op, size, address }],
        _ => vec![Access::Range { op: range(op), address, length: Length::Constant(bytes) }],
    }
}

/// The operation on a range that goes with one on a fixed size.
pub(crate) const fn range(op: Op) -> Op {
    match op {
        Op::Load => Op::LoadRange,
        Op::Store => Op::StoreRange,
        other => other,
    }
}

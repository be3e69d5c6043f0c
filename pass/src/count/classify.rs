//! What one instruction counts as. `docs/counters.md` says the same in words.

use super::extra::{self, Extra};
use super::{Quantity, Tally};
use crate::access::{Access, Classifier, Length};
use crate::llvm::{Instruction, Module, Type, Value};
use crate::segment::{declared_callee, is_runtime};
use bf_abi::Op;

/// What an instruction does each time it runs, and what it does more or less of.
#[derive(Default)]
pub(super) struct Doing {
    pub(super) tally: Tally,
    pub(super) more: Vec<(Quantity, Tally)>,
    extra: Extra,
}

impl Doing {
    fn always(&mut self, counter: &str, amount: u64) {
        self.tally.add(counter, amount.cast_signed());
    }
}

/// Everything about one instruction.
pub(super) fn doing(classifier: &Classifier, extra: Extra, instruction: Value) -> Doing {
    let mut doing = Doing { extra, ..Doing::default() };
    if is_nothing(instruction) || is_of_runtime(instruction) {
        return doing;
    }
    doing.always("instructions", 1);
    extra::add(extra, classifier.module, instruction, &mut doing.tally);
    for access in classifier.accesses(instruction) {
        memory(&mut doing, &access);
    }
    if instruction.instruction() == Instruction::Call {
        call(classifier, &mut doing, instruction);
    } else {
        branch(&mut doing, instruction);
        operation(&mut doing, classifier.module, instruction);
    }
    doing
}

/// Whether no machine ever sees the instruction: `phi`, and intrinsics that only tell the compiler something.
pub(super) fn is_nothing(instruction: Value) -> bool {
    const SILENT: [&str; 12] = [
        "llvm.annotation",
        "llvm.assume",
        "llvm.dbg.",
        "llvm.donothing",
        "llvm.experimental.noalias.scope.decl",
        "llvm.fake.use",
        "llvm.invariant.",
        "llvm.lifetime.",
        "llvm.pseudoprobe",
        "llvm.ptr.annotation",
        "llvm.sideeffect",
        "llvm.var.annotation",
    ];
    match instruction.instruction() {
        Instruction::Call => {
            intrinsic(instruction).is_some_and(|name| SILENT.iter().any(|silent| name.starts_with(silent)))
        }
        _ => instruction.opcode() == "phi",
    }
}

fn intrinsic(call: Value) -> Option<String> {
    call.callee().as_function()?.intrinsic_name()
}

fn is_of_runtime(instruction: Value) -> bool {
    instruction.instruction() == Instruction::Call
        && instruction.callee().as_function().is_some_and(|function| is_runtime(&function.name()))
}

/// Loads and stores, as the model has them.
fn memory(doing: &mut Doing, access: &Access) {
    let names = |op| match op {
        Op::Store | Op::StoreRange => ("stores", "bytes_stored"),
        _ => ("loads", "bytes_loaded"),
    };
    match access {
        Access::One { op, size, .. } => {
            let (accesses, bytes) = names(*op);
            doing.always(accesses, 1);
            doing.always(bytes, (*size).into());
        }
        Access::Range { op, length, .. } => {
            let (accesses, bytes) = names(*op);
            doing.more.push((Quantity::Any(*length), Tally::from([(accesses, 1)])));
            doing.more.push((Quantity::Bytes(*length), Tally::from([(bytes, 1)])));
        }
        Access::Copy { length, .. } => {
            doing.more.push((Quantity::Pieces(*length), Tally::from([("loads", 1), ("stores", 1)])));
            doing.more.push((Quantity::Bytes(*length), Tally::from([("bytes_loaded", 1), ("bytes_stored", 1)])));
        }
        Access::Lanes(lanes) => {
            let (accesses, bytes) = names(lanes.op);
            let tally = Tally::from([(accesses, 1), (bytes, lanes.size.into())]);
            doing.more.push((Quantity::Lanes(*lanes), tally));
        }
    }
}

/// Calls, and the intrinsics that are operations.
fn call(classifier: &Classifier, doing: &mut Doing, call: Value) {
    if let Some((length, is_copy)) = classifier.moved(call) {
        let (calls, bytes) = if is_copy { ("memcpy_calls", "memcpy_bytes") } else { ("memset_calls", "memset_bytes") };
        doing.always(calls, 1);
        match length {
            Length::Constant(length) => doing.always(bytes, length),
            length => doing.more.push((Quantity::Bytes(length), Tally::from([(bytes, 1)]))),
        }
    }
    if let Some(name) = intrinsic(call) {
        return intrinsic_operation(doing, classifier.module, &name, call);
    }
    if call.callee().is_inline_asm() {
        return;
    }
    doing.always("calls", 1);
    if call.opcode() == "invoke" {
        doing.always("invokes", 1);
    }
    if is_indirect_call(call) {
        doing.always("calls_indirect", 1);
    }
    if let Some(callee) = declared_callee(call) {
        doing.always(&format!("calls_to/{}", callee.name()), 1);
    }
}

/// Whether it is a call through a pointer.
pub(super) fn is_indirect_call(instruction: Value) -> bool {
    instruction.instruction() == Instruction::Call
        && !instruction.callee().is_inline_asm()
        && instruction.callee().as_function().is_none()
}

/// Terminators. Which way a conditional branch goes is not known here.
fn branch(doing: &mut Doing, instruction: Value) {
    let kind = match instruction.opcode() {
        "br" if instruction.condition().is_none() => Some("branches_unconditional"),
        "br" => None,
        "switch" => Some("branches_switch"),
        "indirectbr" => Some("branches_indirect"),
        "ret" => Some("returns"),
        _ => return,
    };
    doing.always("branches", 1);
    kind.into_iter().for_each(|kind| doing.always(kind, 1));
}

/// What an operation counts as.
#[derive(Clone, Copy)]
enum Kind {
    Float,
    Integer,
}

/// Arithmetic instructions.
fn operation(doing: &mut Doing, module: Module, instruction: Value) {
    let kind = match instruction.opcode() {
        "fadd" | "fsub" | "fmul" | "fdiv" | "frem" => Kind::Float,
        "add" | "sub" | "mul" | "udiv" | "sdiv" | "urem" | "srem" | "shl" | "lshr" | "ashr" | "and" | "or" | "xor"
        | "icmp" => Kind::Integer,
        _ => return,
    };
    let operands = instruction.operand(0).ty();
    let bits = 2 * operands.bits(module) + instruction.ty().bits(module);
    count(doing, module, kind, operands, operands.lanes().into(), bits);
}

/// Intrinsics that are arithmetic.
fn intrinsic_operation(doing: &mut Doing, module: Module, name: &str, call: Value) {
    let Some(name) = name.strip_prefix("llvm.") else { return };
    let (kind, each) = match name {
        "fma" | "fmuladd" => (Kind::Float, 2),
        "sqrt" | "minnum" | "maxnum" | "minimum" | "maximum" | "minimumnum" | "maximumnum" => (Kind::Float, 1),
        "abs" | "smin" | "smax" | "umin" | "umax" | "ctpop" | "ctlz" | "cttz" | "bswap" | "bitreverse" | "fshl"
        | "fshr" | "sadd.sat" | "uadd.sat" | "ssub.sat" | "usub.sat" | "sshl.sat" | "ushl.sat" | "scmp" | "ucmp" => {
            (Kind::Integer, 1)
        }
        "sadd.with.overflow" | "uadd.with.overflow" | "ssub.with.overflow" | "usub.with.overflow"
        | "smul.with.overflow" | "umul.with.overflow" => (Kind::Integer, 1),
        _ => return reduction(doing, module, name, call),
    };
    // `abs`, `ctlz` and `cttz` have a flag behind the value, which is no operand.
    let ty = call.operand(0).ty();
    let operands = (0..call.argument_count()).filter(|index| call.operand(*index).ty() == ty).count() as u64;
    let bits = (operands + 1) * ty.bits(module);
    count(doing, module, kind, ty, each * u64::from(ty.lanes()), bits);
}

/// Lanes of a vector taken together: n lanes by n - 1 operations, and one more with a start value.
fn reduction(doing: &mut Doing, module: Module, name: &str, call: Value) {
    let Some(name) = name.strip_prefix("vector.reduce.") else { return };
    let (kind, start) = match name {
        "fadd" | "fmul" => (Kind::Float, 1),
        "fmin" | "fmax" | "fminimum" | "fmaximum" => (Kind::Float, 0),
        "add" | "mul" | "and" | "or" | "xor" | "smin" | "smax" | "umin" | "umax" => (Kind::Integer, 0),
        _ => return,
    };
    let vector = call.operand(start).ty();
    let operations = u64::from(vector.lanes()) - 1 + u64::from(start);
    let bits = operations * 3 * vector.element().bits(module);
    count(doing, module, kind, vector, operations, bits);
}

/// Adds operations on `ty`; times `vscale` if it is scalable.
fn count(doing: &mut Doing, module: Module, kind: Kind, ty: Type, operations: u64, bits: u64) {
    let (operations, bits) = (operations.cast_signed(), bits.cast_signed());
    let tally = match kind {
        Kind::Float => Tally::from([("flops", operations), ("flop_bits", bits), ("op_bits", bits)]),
        Kind::Integer => Tally::from([("int_ops", operations), ("op_bits", bits)]),
    };
    extra::vector(doing.extra, module, ty, &mut doing.tally);
    if ty.is_scalable_vector() {
        doing.more.push((Quantity::Bytes(Length::Scalable { unit: 1 }), tally));
    } else {
        doing.tally.add_all(&tally);
    }
}

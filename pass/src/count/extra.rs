//! Counters on request, each a family with as many members as the program makes. `docs/counters.md` says the same in words.

use super::Tally;
use crate::llvm::{Instruction, Kind, Module, Type, Value};

/// Which of them are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// `-bf-types`
    pub(crate) types: bool,
    /// `-bf-inst-mix`
    pub(crate) mix: bool,
    /// `-bf-inst-deps`
    pub(crate) deps: bool,
    /// `-bf-vectors`
    pub(crate) vectors: bool,
}

/// Adds what one instruction counts as.
pub(super) fn add(extra: Extra, module: Module, instruction: Value, tally: &mut Tally) {
    if extra.types {
        types(module, instruction, tally);
    }
    if extra.mix {
        tally.add(&format!("mix/{}", mixed(module, instruction)), 1);
    }
    if extra.deps {
        let consumer = operation(instruction);
        // The callee of a call is no operand of what it does.
        let count = match instruction.instruction() {
            Instruction::Call => instruction.argument_count(),
            _ => instruction.operand_count(),
        };
        for operand in (0..count).map(|index| instruction.operand(index)) {
            if let Some(producer) = producer(operand) {
                tally.add(&format!("deps/{producer}->{consumer}"), 1);
            }
        }
    }
}

/// An operation on a vector: operations, its type and bits.
pub(super) fn vector(extra: Extra, module: Module, ty: Type, tally: &mut Tally) {
    if extra.vectors && ty.lanes() > 1 {
        let (lanes, element) = (u64::from(ty.lanes()), ty.element());
        tally.add("vector_ops", 1);
        tally.add("vector_elements", lanes.cast_signed());
        tally.add("vector_bits", ty.bits(module).cast_signed());
        tally.add(&format!("vectors/{lanes}x{}", name(module, element)), 1);
    }
}

/// Loads and stores by what they move.
fn types(module: Module, instruction: Value, tally: &mut Tally) {
    let (op, ty) = match instruction.instruction() {
        Instruction::Load => ("load", instruction.ty()),
        Instruction::Store => ("store", instruction.operand(0).ty()),
        Instruction::Atomic => ("store", instruction.operand(1).ty()),
        _ => return,
    };
    let is_vector = ty.as_vector().is_some() || ty.is_scalable_vector();
    let element = if is_vector { ty.element() } else { ty };
    let kind = match element.kind() {
        Kind::LLVMPointerTypeKind => "pointer",
        Kind::LLVMIntegerTypeKind => "int",
        _ if is_float(element) => "fp",
        _ => "other",
    };
    let shape = if is_vector { "vector" } else { "scalar" };
    tally.add(&format!("types/{op}.{shape}.{kind}.{}", ty.bits(module)), 1);
}

fn is_float(ty: Type) -> bool {
    use Kind::*;
    matches!(
        ty.kind(),
        LLVMHalfTypeKind
            | LLVMBFloatTypeKind
            | LLVMFloatTypeKind
            | LLVMDoubleTypeKind
            | LLVMX86_FP80TypeKind
            | LLVMFP128TypeKind
            | LLVMPPC_FP128TypeKind
    )
}

/// A short name of a type: `i32`, `f64`, `ptr`, `4xf32`.
fn name(module: Module, ty: Type) -> String {
    match ty.kind() {
        Kind::LLVMPointerTypeKind => "ptr".to_owned(),
        Kind::LLVMIntegerTypeKind => format!("i{}", ty.bits(module)),
        Kind::LLVMVectorTypeKind => format!("{}x{}", ty.lanes(), name(module, ty.element())),
        Kind::LLVMScalableVectorTypeKind => format!("vscale.{}x{}", ty.lanes(), name(module, ty.element())),
        _ if is_float(ty) => format!("f{}", ty.bits(module)),
        _ => "other".to_owned(),
    }
}

/// The operation and the type that it is about: what it stores or compares, else its result.
fn mixed(module: Module, instruction: Value) -> String {
    let operation = operation(instruction);
    let ty = match instruction.opcode() {
        "store" | "icmp" | "fcmp" => instruction.operand(0).ty(),
        "call" | "invoke" | "callbr" if !operation.starts_with("llvm.") => return operation,
        _ => instruction.ty(),
    };
    if ty.kind() == Kind::LLVMVoidTypeKind { operation } else { format!("{operation}.{}", name(module, ty)) }
}

/// The opcode; of an intrinsic, its name.
fn operation(instruction: Value) -> String {
    let intrinsic = match instruction.instruction() {
        Instruction::Call => instruction.callee().as_function().and_then(Value::intrinsic_name),
        _ => None,
    };
    intrinsic.unwrap_or_else(|| instruction.opcode().to_owned())
}

/// What an operand comes from; `None` for blocks and metadata, which are no values.
fn producer(operand: Value) -> Option<String> {
    if matches!(operand.ty().kind(), Kind::LLVMLabelTypeKind | Kind::LLVMMetadataTypeKind | Kind::LLVMTokenTypeKind) {
        return None;
    }
    Some(match operand.as_instruction() {
        Some(instruction) => operation(instruction),
        None if operand.is_constant() => "constant".to_owned(),
        None => "argument".to_owned(),
    })
}

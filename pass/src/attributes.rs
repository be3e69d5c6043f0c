//! Takes back promises that instrumentation breaks.
//!
//! `pure` and `const` functions, and those that LLVM found to be so before we came, may be said not to write memory.
//! Once they are instrumented they move the cursor, and a caller that believed the promise would keep a stale one across
//! the call. What other modules define may be instrumented too, so declarations and calls lose the promise as well.
//! Functions of the C library that LLVM knows keep it: they are not instrumented, and the code generator needs it to
//! turn `sqrt` into an instruction.

use crate::llvm::{Instruction, Module, Value};

/// Takes the broken promises from functions and calls of a module.
pub(crate) fn relax(module: Module) {
    let kinds = ["memory", "speculatable", "nosync"].map(Module::attribute_kind);
    let allocator = Module::attribute_kind("allockind");
    let no_builtin = Module::attribute_kind("nobuiltin");
    let keeps = |function: Value| {
        function.intrinsic_name().is_some()
            || (function.is_declaration() && function.is_library_function() && !function.has_attribute(allocator))
    };
    for function in module.functions().filter(|function| !keeps(*function)) {
        kinds.iter().for_each(|kind| function.remove_attribute(*kind));
    }
    let instructions = module.functions().flat_map(Value::blocks).flat_map(crate::llvm::Block::instructions);
    for call in instructions.filter(|each| each.instruction() == Instruction::Call) {
        let callee = call.callee();
        let kept = callee.as_function().is_some_and(keeps) && !call.has_call_attribute(no_builtin);
        if !kept && !callee.is_inline_asm() {
            kinds.iter().for_each(|kind| call.remove_call_attribute(*kind));
        }
    }
}

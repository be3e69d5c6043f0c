//! Cuts a function into segments: a function in, the runs of accesses that share one reservation out.
//!
//! A segment lies within one block and ends at every call that could run instrumented code, because that code reserves
//! words of its own behind ours. It starts at its first access, or at the call if it has none.

use bf_abi::MAX_SEGMENT_WORDS;

use crate::access::{Access, Classifier};
use crate::llvm::{Instruction, Module, Value};

/// The runtime's functions that programs call by name; what they do is not the program's.
const RUNTIME: [&str; 5] = [bf_abi::FLUSH_SYMBOL, bf_abi::REGISTER_SYMBOL, "bf_start", "bf_stop", "bf_tag"];

/// Whether the function belongs to the runtime.
pub(crate) fn is_runtime(name: &str) -> bool {
    RUNTIME.contains(&name)
}

/// One segment.
pub(crate) struct Segment {
    /// Instructions, each with the accesses it makes.
    pub(crate) accesses: Vec<(Value, Access)>,
    /// Where the reservation goes.
    pub(crate) start: Value,
    /// 1 + the words of the accesses.
    pub(crate) words: u32,
    /// The function it ends in a direct call of, if this module only declares that function.
    pub(crate) callee: Option<Value>,
}

impl Segment {
    const fn new(start: Value) -> Self {
        Self { accesses: Vec::new(), start, words: 1, callee: None }
    }
}

/// Cuts functions of one module.
pub(crate) struct Cutter {
    pub(crate) classifier: Classifier,
    /// Metadata kind of instructions that are no concern of ours.
    pub(crate) mark: u32,
    /// Kind of the `nocallback` attribute.
    no_callback: u32,
}

impl Cutter {
    pub(crate) fn new(module: Module, mark: u32) -> Self {
        Self { classifier: Classifier::new(module), mark, no_callback: Module::attribute_kind("nocallback") }
    }

    /// The segments of a function, in program order.
    pub(crate) fn segments(&self, function: Value) -> Vec<Segment> {
        let mut segments = Vec::new();
        for block in function.blocks() {
            let mut open: Option<Segment> = None;
            for instruction in block.instructions() {
                if !instruction.is_marked(self.mark) {
                    for access in self.classifier.accesses(instruction) {
                        let full = |segment: &Segment| segment.words + access.words() > MAX_SEGMENT_WORDS;
                        segments.extend(open.take_if(|segment| full(segment)));
                        let segment = open.get_or_insert_with(|| Segment::new(instruction));
                        segment.words += access.words();
                        segment.accesses.push((instruction, access));
                    }
                }
                if instruction.instruction() == Instruction::Call && self.cuts(instruction) {
                    let callee = declared_callee(instruction);
                    if callee.is_some() {
                        open.get_or_insert_with(|| Segment::new(instruction)).callee = callee;
                    }
                    segments.extend(open.take());
                }
            }
            segments.extend(open);
        }
        segments
    }

    /// Whether a call could run instrumented code.
    fn cuts(&self, call: Value) -> bool {
        let callee = call.callee();
        if callee.is_inline_asm() {
            return false;
        }
        match callee.as_function() {
            None => true,
            Some(function) if function.intrinsic_name().is_some() => !function.has_attribute(self.no_callback),
            Some(function) => self.classifier.libc.of(function).is_none(),
        }
    }
}

/// The function that a call names, if its code lies outside this module: a copy that is here for inlining only is none.
fn declared_callee(call: Value) -> Option<Value> {
    call.callee().as_function().filter(|function| {
        (function.is_declaration() || function.is_available_externally())
            && function.intrinsic_name().is_none()
            && !is_runtime(&function.name())
    })
}

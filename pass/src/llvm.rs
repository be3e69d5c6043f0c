//! LLVM as the rest of the crate sees it: small copyable handles with the few questions and changes the pass needs.
//!
//! Every `unsafe` block of the walk stands here. The handles are safe to use because of how they come about: the only
//! way to get one is from [`Module::new`], whose caller promises a live module, and nothing here erases what a handle
//! may point to. An operation that only some values support is asked of values that the caller has tested.

mod analyses;
mod builder;
mod module;
mod origin;
mod values;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use std::ffi::CString;

#[cfg(all(feature = "llvm19", not(feature = "llvm22")))]
use llvm_sys_19 as sys;
#[cfg(feature = "llvm22")]
use llvm_sys_22 as sys;

pub(crate) use analyses::{Analyses, Chain};
pub(crate) use builder::Builder;
pub(crate) use origin::{Location, Loop, Subprogram};
use sys::core::*;
pub(crate) use sys::prelude::LLVMModuleRef;
use sys::prelude::{
    LLVMBasicBlockRef, LLVMBuilderRef, LLVMContextRef, LLVMMetadataRef, LLVMTypeRef, LLVMUseRef, LLVMValueRef,
};
pub(crate) use sys::{LLVMIntPredicate as Predicate, LLVMTypeKind as Kind};
use sys::{LLVMLinkage, LLVMModuleFlagBehavior, LLVMTailCallKind, LLVMThreadLocalMode};
pub(crate) use values::Instruction;

unsafe extern "C" {
    fn bf_shim_split(condition: LLVMValueRef, before: LLVMValueRef) -> LLVMValueRef;
    fn bf_shim_add_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: c_int);
    fn bf_shim_keep(module: LLVMModuleRef, global: LLVMValueRef);
    fn bf_shim_error(module: LLVMModuleRef, message: *const c_char);
    fn bf_shim_demangle(name: *const c_char) -> *mut c_char;
    fn bf_shim_is_library_function(function: LLVMValueRef) -> bool;
    fn bf_shim_is_swift_error(address: LLVMValueRef) -> bool;
    fn bf_shim_store_size(module: LLVMModuleRef, ty: LLVMTypeRef, scalable: *mut bool) -> u64;
    fn bf_shim_distance(
        analyses: *mut c_void,
        function: LLVMValueRef,
        from: LLVMValueRef,
        to: LLVMValueRef,
        bytes: *mut i64,
    ) -> bool;
    fn bf_shim_base(module: LLVMModuleRef, address: LLVMValueRef, bytes: *mut i64) -> LLVMValueRef;
    fn bf_shim_is_private(instruction: LLVMValueRef) -> bool;
    fn bf_shim_share_no_returns(analyses: *mut c_void, function: LLVMValueRef);
    fn bf_shim_constrain(call: LLVMValueRef, constraint: *const c_char);
    fn bf_shim_is_volatile(instruction: LLVMValueRef) -> bool;
    fn bf_shim_releases(instruction: LLVMValueRef) -> bool;
    fn bf_shim_goes_on(instruction: LLVMValueRef) -> bool;
    fn bf_shim_opcode(instruction: LLVMValueRef) -> *const c_char;
    fn bf_shim_bits(module: LLVMModuleRef, ty: LLVMTypeRef) -> u64;
    fn bf_shim_chain(
        analyses: *mut c_void,
        block: LLVMBasicBlockRef,
        blocks: *mut LLVMBasicBlockRef,
        room: c_uint,
        more: *mut c_uint,
    ) -> c_uint;
    fn bf_shim_stream(
        analyses: *mut c_void,
        block: LLVMBasicBlockRef,
        n: c_uint,
        addresses: *mut LLVMValueRef,
        strides: *mut LLVMValueRef,
        lasts: *mut LLVMValueRef,
        iterations: *mut LLVMValueRef,
    ) -> LLVMValueRef;
    fn bf_shim_loop(analyses: *mut c_void, block: LLVMBasicBlockRef) -> *mut c_void;
    fn bf_shim_after(call: LLVMValueRef) -> LLVMValueRef;
    fn bf_shim_behind(call: LLVMValueRef) -> LLVMValueRef;
    fn bf_shim_loop_parent(inner: *mut c_void) -> *mut c_void;
    fn bf_shim_loop_start(of: *mut c_void) -> LLVMMetadataRef;
    fn bf_shim_subprogram(location: LLVMMetadataRef) -> LLVMMetadataRef;
    fn bf_shim_subprogram_name(subprogram: LLVMMetadataRef, linkage: bool, length: *mut usize) -> *const c_char;
}

/// Index of a function's own attributes, as opposed to those of its result (0) and parameters (1..).
pub(crate) const FUNCTION: c_uint = c_uint::MAX;

/// A module under instrumentation.
#[derive(Clone, Copy)]
pub(crate) struct Module(LLVMModuleRef);

/// A type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type(LLVMTypeRef);

/// A value: constant, global, function, argument or instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Value(LLVMValueRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Block(LLVMBasicBlockRef);

/// Bytes of a type; times `vscale` if `scalable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) scalable: bool,
}

/// What follows a handle in one of LLVM's intrusive lists.
fn list(first: LLVMValueRef, next: unsafe extern "C" fn(LLVMValueRef) -> LLVMValueRef) -> impl Iterator<Item = Value> {
    // SAFETY:
    // - `first` is null or an element of a live list; `next` is that list's own successor function.
    let step = move |value: &LLVMValueRef| Some(unsafe { next(*value) }).filter(|value| !value.is_null());
    core::iter::successors(Some(first).filter(|value| !value.is_null()), step).map(Value)
}

/// A string that LLVM owns and hands out with its length.
fn text(get: impl FnOnce(*mut usize) -> *const c_char) -> String {
    let mut length = 0;
    let start = get(&raw mut length);
    if start.is_null() {
        return String::new();
    }
    // SAFETY:
    // - LLVM returned `length` readable bytes at `start`, which stay until the value is renamed.
    String::from_utf8_lossy(unsafe { core::slice::from_raw_parts(start.cast::<u8>(), length) }).into_owned()
}

/// The demangled form of a linkage name; the name itself if it is not mangled.
pub(crate) fn demangle(name: &str) -> String {
    if let Some(fortran) = bf_abi::fortran::demangle(name) {
        return fortran;
    }
    let Ok(name) = CString::new(name) else { return name.to_owned() };
    // SAFETY:
    // - `name` is NUL-terminated; the answer is a NUL-terminated string that is ours to dispose of.
    unsafe {
        let demangled = bf_shim_demangle(name.as_ptr());
        let copy = CStr::from_ptr(demangled).to_string_lossy().into_owned();
        LLVMDisposeMessage(demangled);
        copy
    }
}

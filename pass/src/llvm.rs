//! LLVM as the rest of the crate sees it: small copyable handles with the few questions and changes the pass needs.
//!
//! Every `unsafe` block of the walk stands here. The handles are safe to use because of how they come about: the only
//! way to get one is from [`Module::new`], whose caller promises a live module, and nothing here erases what a handle
//! may point to. An operation that only some values support is asked of values that the caller has tested.

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr;
use std::ffi::CString;

#[cfg(all(feature = "llvm19", not(feature = "llvm22")))]
use llvm_sys_19 as sys;
#[cfg(feature = "llvm22")]
use llvm_sys_22 as sys;

use sys::core::*;
pub(crate) use sys::prelude::LLVMModuleRef;
use sys::prelude::{LLVMBasicBlockRef, LLVMBuilderRef, LLVMContextRef, LLVMMetadataRef, LLVMTypeRef, LLVMValueRef};
pub(crate) use sys::{LLVMIntPredicate as Predicate, LLVMTypeKind as Kind};
use sys::{LLVMLinkage, LLVMModuleFlagBehavior, LLVMTailCallKind, LLVMThreadLocalMode};

unsafe extern "C" {
    fn bf_shim_split(condition: LLVMValueRef, before: LLVMValueRef) -> LLVMValueRef;
    fn bf_shim_add_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: c_int);
    fn bf_shim_keep(module: LLVMModuleRef, global: LLVMValueRef);
    fn bf_shim_error(module: LLVMModuleRef, message: *const c_char);
    fn bf_shim_demangle(name: *const c_char) -> *mut c_char;
    fn bf_shim_is_library_function(function: LLVMValueRef) -> bool;
    fn bf_shim_is_swift_error(address: LLVMValueRef) -> bool;
    fn bf_shim_store_size(module: LLVMModuleRef, ty: LLVMTypeRef, scalable: *mut bool) -> u64;
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
#[derive(Clone, Copy, PartialEq, Eq)]
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

// SAFETY (for every block below, unless it says more):
// - the handles come from a live module (see the top of the file) and are used on the thread that compiles it;
// - arrays are passed with their own length and outlive the call;
// - names are NUL-terminated literals or come with their length.
impl Module {
    /// # Safety
    /// The module is live, and nobody else changes it, as long as any handle that came from it is used.
    pub(crate) const unsafe fn new(module: LLVMModuleRef) -> Self {
        Self(module)
    }

    fn context(self) -> LLVMContextRef {
        // SAFETY: as said above the impl.
        unsafe { LLVMGetModuleContext(self.0) }
    }

    pub(crate) fn triple(self) -> String {
        // SAFETY: as said above the impl; the string is NUL-terminated.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.0)) }.to_string_lossy().into_owned()
    }

    pub(crate) fn data_layout(self) -> String {
        // SAFETY: as said above the impl; the string is NUL-terminated.
        unsafe { CStr::from_ptr(LLVMGetDataLayoutStr(self.0)) }.to_string_lossy().into_owned()
    }

    pub(crate) fn source_name(self) -> String {
        // SAFETY: as said above the impl.
        text(|length| unsafe { LLVMGetSourceFileName(self.0, length) })
    }

    /// The integer value of a module flag.
    pub(crate) fn flag(self, name: &str) -> Option<u64> {
        // SAFETY: as said above the impl; the metadata of an integer flag is a constant.
        unsafe {
            let flag = LLVMGetModuleFlag(self.0, name.as_ptr().cast(), name.len());
            if flag.is_null() {
                return None;
            }
            Value(LLVMMetadataAsValue(self.context(), flag)).operand_constant()
        }
    }

    pub(crate) fn set_flag(self, name: &str, value: u64) {
        // SAFETY: as said above the impl.
        unsafe {
            let value = LLVMValueAsMetadata(self.int(32, value).0);
            let behaviour = LLVMModuleFlagBehavior::LLVMModuleFlagBehaviorWarning;
            LLVMAddModuleFlag(self.0, behaviour, name.as_ptr().cast(), name.len(), value);
        }
    }

    pub(crate) fn functions(self) -> impl Iterator<Item = Value> {
        // SAFETY: as said above the impl.
        list(unsafe { LLVMGetFirstFunction(self.0) }, LLVMGetNextFunction)
    }

    /// Aliases, each with what it stands for.
    pub(crate) fn aliases(self) -> impl Iterator<Item = (Value, Value)> {
        // SAFETY: as said above the impl.
        list(unsafe { LLVMGetFirstGlobalAlias(self.0) }, LLVMGetNextGlobalAlias)
            .map(|alias| (alias, Value(unsafe { LLVMAliasGetAliasee(alias.0) })))
    }

    /// Indirect functions, each with its resolver.
    pub(crate) fn ifuncs(self) -> impl Iterator<Item = (Value, Value)> {
        // SAFETY: as said above the impl.
        list(unsafe { LLVMGetFirstGlobalIFunc(self.0) }, LLVMGetNextGlobalIFunc)
            .map(|ifunc| (ifunc, Value(unsafe { LLVMGetGlobalIFuncResolver(ifunc.0) })))
    }

    /// Bytes that a load or store of the type touches.
    pub(crate) fn store_size(self, ty: Type) -> Size {
        let mut scalable = false;
        // SAFETY: as said above the impl.
        let bytes = unsafe { bf_shim_store_size(self.0, ty.0, &raw mut scalable) };
        Size { bytes, scalable }
    }

    pub(crate) fn int_type(self, bits: u32) -> Type {
        // SAFETY: as said above the impl.
        Type(unsafe { LLVMIntTypeInContext(self.context(), bits) })
    }

    pub(crate) fn pointer_type(self) -> Type {
        // SAFETY: as said above the impl.
        Type(unsafe { LLVMPointerTypeInContext(self.context(), 0) })
    }

    pub(crate) fn struct_type(self, fields: &[Type]) -> Type {
        let mut fields: Vec<_> = fields.iter().map(|field| field.0).collect();
        let count = fields.len() as c_uint;
        // SAFETY: as said above the impl.
        Type(unsafe { LLVMStructTypeInContext(self.context(), fields.as_mut_ptr(), count, 0) })
    }

    /// The type of a C function; `result` `None` is void.
    pub(crate) fn function_type(self, result: Option<Type>, parameters: &[Type]) -> Type {
        let mut parameters: Vec<_> = parameters.iter().map(|parameter| parameter.0).collect();
        let count = parameters.len() as c_uint;
        // SAFETY: as said above the impl.
        unsafe {
            let result = result.map_or_else(|| LLVMVoidTypeInContext(self.context()), |result| result.0);
            Type(LLVMFunctionType(result, parameters.as_mut_ptr(), count, 0))
        }
    }

    pub(crate) fn int(self, bits: u32, value: u64) -> Value {
        // SAFETY: as said above the impl.
        Value(unsafe { LLVMConstInt(self.int_type(bits).0, value, 0) })
    }

    pub(crate) fn null(self, ty: Type) -> Value {
        // SAFETY: as said above the impl.
        Value(unsafe { LLVMConstNull(ty.0) })
    }

    pub(crate) fn struct_of(self, fields: &[Value]) -> Value {
        let mut fields: Vec<_> = fields.iter().map(|field| field.0).collect();
        let count = fields.len() as c_uint;
        // SAFETY: as said above the impl.
        Value(unsafe { LLVMConstStructInContext(self.context(), fields.as_mut_ptr(), count, 0) })
    }

    pub(crate) fn array_of(self, element: Type, values: &[Value]) -> Value {
        let mut values: Vec<_> = values.iter().map(|value| value.0).collect();
        // SAFETY: as said above the impl.
        Value(unsafe { LLVMConstArray2(element.0, values.as_mut_ptr(), values.len() as u64) })
    }

    pub(crate) fn vector_of(self, values: &[Value]) -> Value {
        let mut values: Vec<_> = values.iter().map(|value| value.0).collect();
        // SAFETY: as said above the impl.
        Value(unsafe { LLVMConstVector(values.as_mut_ptr(), values.len() as c_uint) })
    }

    /// The bytes as an array constant, with nothing added.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Value {
        // SAFETY: as said above the impl.
        Value(unsafe { LLVMConstStringInContext2(self.context(), bytes.as_ptr().cast(), bytes.len(), 1) })
    }

    /// A new private global of this type, without a value yet.
    pub(crate) fn add_private(self, name: &CStr, ty: Type) -> Value {
        // SAFETY: as said above the impl.
        unsafe {
            let global = LLVMAddGlobal(self.0, ty.0, name.as_ptr());
            LLVMSetLinkage(global, LLVMLinkage::LLVMPrivateLinkage);
            LLVMSetAlignment(global, 8);
            Value(global)
        }
    }

    /// The external initial-exec thread-local of this name.
    pub(crate) fn thread_local(self, name: &CStr, ty: Type) -> Value {
        // SAFETY: as said above the impl.
        unsafe {
            let known = LLVMGetNamedGlobal(self.0, name.as_ptr());
            if !known.is_null() {
                return Value(known);
            }
            let global = LLVMAddGlobal(self.0, ty.0, name.as_ptr());
            LLVMSetThreadLocalMode(global, LLVMThreadLocalMode::LLVMInitialExecTLSModel);
            LLVMSetAlignment(global, 8);
            Value(global)
        }
    }

    /// The function of this name, declared if the module does not know it.
    pub(crate) fn function(self, name: &CStr, ty: Type) -> Value {
        // SAFETY: as said above the impl.
        unsafe {
            let known = LLVMGetNamedFunction(self.0, name.as_ptr());
            Value(if known.is_null() { LLVMAddFunction(self.0, name.as_ptr(), ty.0) } else { known })
        }
    }

    /// A new function of internal linkage.
    pub(crate) fn add_internal_function(self, name: &CStr, ty: Type) -> Value {
        // SAFETY: as said above the impl.
        unsafe {
            let function = LLVMAddFunction(self.0, name.as_ptr(), ty.0);
            LLVMSetLinkage(function, LLVMLinkage::LLVMInternalLinkage);
            Value(function)
        }
    }

    /// An intrinsic for the given overload types.
    pub(crate) fn intrinsic(self, name: &str, overloads: &[Type]) -> (Value, Type) {
        let mut overloads: Vec<_> = overloads.iter().map(|ty| ty.0).collect();
        // SAFETY: as said above the impl.
        unsafe {
            let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            let function = LLVMGetIntrinsicDeclaration(self.0, id, overloads.as_mut_ptr(), overloads.len());
            (Value(function), Type(LLVMGlobalGetValueType(function)))
        }
    }

    /// Registers a constructor, lowest priority first.
    pub(crate) fn add_constructor(self, function: Value, priority: i32) {
        // SAFETY: as said above the impl; `function` is a function of this module.
        unsafe { bf_shim_add_constructor(self.0, function.0, priority) }
    }

    /// Keeps a global whatever the optimiser and the linker think of it.
    pub(crate) fn keep(self, global: Value) {
        // SAFETY: as said above the impl; `global` is a global of this module.
        unsafe { bf_shim_keep(self.0, global.0) }
    }

    /// Reports a compile error; the compiler goes on and fails at its end.
    pub(crate) fn error(self, message: &str) {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: as said above the impl.
        unsafe { bf_shim_error(self.0, message.as_ptr()) }
    }

    /// The number of an attribute kind; 0 if this LLVM does not know it.
    pub(crate) fn attribute_kind(name: &str) -> c_uint {
        // SAFETY:
        // - the name comes with its length; the call reads a static table.
        unsafe { sys::core::LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
    }

    /// A builder that marks what it makes as no concern of sanitizers (or of this pass).
    pub(crate) fn builder(self) -> Builder {
        // SAFETY: as said above the impl.
        unsafe {
            let name = "nosanitize";
            let kind = LLVMGetMDKindIDInContext(self.context(), name.as_ptr().cast(), name.len() as c_uint);
            let empty = LLVMMDNodeInContext2(self.context(), ptr::null_mut(), 0);
            let mark = LLVMMetadataAsValue(self.context(), empty);
            Builder { builder: LLVMCreateBuilderInContext(self.context()), module: self, mark: (kind, mark) }
        }
    }
}

/// The demangled form of a linkage name; the name itself if it is not mangled.
pub(crate) fn demangle(name: &str) -> String {
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

// SAFETY (for every block below): as for `Module`.
impl Type {
    pub(crate) fn kind(self) -> Kind {
        // SAFETY: as said above the impl; `llvm-sys` is of LLVM's version, so it knows every kind.
        unsafe { LLVMGetTypeKind(self.0) }
    }

    pub(crate) fn is_pointer(self) -> bool {
        self.kind() == Kind::LLVMPointerTypeKind
    }

    /// Width of an integer type; 0 for any other.
    pub(crate) fn int_bits(self) -> u32 {
        match self.kind() {
            // SAFETY: as said above the impl.
            Kind::LLVMIntegerTypeKind => unsafe { LLVMGetIntTypeWidth(self.0) },
            _ => 0,
        }
    }

    /// Lanes and element of a fixed vector.
    pub(crate) fn as_vector(self) -> Option<(u32, Self)> {
        // SAFETY: as said above the impl.
        (self.kind() == Kind::LLVMVectorTypeKind).then(|| unsafe { (LLVMGetVectorSize(self.0), self.element()) })
    }

    pub(crate) fn is_scalable_vector(self) -> bool {
        self.kind() == Kind::LLVMScalableVectorTypeKind
    }

    /// Element of a vector, fixed or scalable.
    pub(crate) fn element(self) -> Self {
        // SAFETY: as said above the impl; asked of vectors only.
        Self(unsafe { LLVMGetElementType(self.0) })
    }

    /// Parameters of a function type.
    pub(crate) fn parameters(self) -> Vec<Self> {
        // SAFETY: as said above the impl; asked of function types only, and the array has room for all.
        unsafe {
            let mut types = vec![ptr::null_mut(); LLVMCountParamTypes(self.0) as usize];
            LLVMGetParamTypes(self.0, types.as_mut_ptr());
            types.into_iter().map(Self).collect()
        }
    }

    /// The first field of a structure; any other type itself.
    pub(crate) fn first_field(self) -> Self {
        match self.kind() {
            // SAFETY: as said above the impl; the structures this is asked of have fields.
            Kind::LLVMStructTypeKind => Self(unsafe { LLVMStructGetTypeAtIndex(self.0, 0) }),
            _ => self,
        }
    }

    pub(crate) fn vector(self, lanes: u32) -> Self {
        // SAFETY: as said above the impl.
        Self(unsafe { LLVMVectorType(self.0, lanes) })
    }

    pub(crate) fn array(self, length: u64) -> Self {
        // SAFETY: as said above the impl.
        Self(unsafe { LLVMArrayType2(self.0, length) })
    }

    /// The vector type like this one, fixed or scalable, of another element.
    pub(crate) fn with_element(self, element: Self) -> Self {
        // SAFETY: as said above the impl; asked of vectors only.
        unsafe {
            let lanes = LLVMGetVectorSize(self.0);
            Self(if self.is_scalable_vector() {
                LLVMScalableVectorType(element.0, lanes)
            } else {
                LLVMVectorType(element.0, lanes)
            })
        }
    }

    /// Address space of a pointer or of a vector of pointers.
    pub(crate) fn address_space(self) -> u32 {
        let pointer = if self.is_pointer() { self } else { self.element() };
        // SAFETY: as said above the impl; `pointer` is a pointer type.
        unsafe { LLVMGetPointerAddressSpace(pointer.0) }
    }
}

/// The kinds of instructions that the pass tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    Load,
    Store,
    Atomic,
    Call,
    Alloca,
    EhPad,
    Other,
}

// SAFETY (for every block below): as for `Module`.
impl Value {
    pub(crate) fn ty(self) -> Type {
        // SAFETY: as said above the impl.
        Type(unsafe { LLVMTypeOf(self.0) })
    }

    pub(crate) fn name(self) -> String {
        // SAFETY: as said above the impl.
        text(|length| unsafe { LLVMGetValueName2(self.0, length) })
    }

    /// What kind of instruction it is. `LLVMIsA…` rather than the opcode, because an enumeration of opcodes from a newer
    /// LLVM would be undefined behaviour in Rust.
    pub(crate) fn instruction(self) -> Instruction {
        // SAFETY: as said above the impl; these casts answer null for what they are not.
        unsafe {
            if !LLVMIsALoadInst(self.0).is_null() {
                Instruction::Load
            } else if !LLVMIsAStoreInst(self.0).is_null() {
                Instruction::Store
            } else if !LLVMIsAAtomicRMWInst(self.0).is_null() || !LLVMIsAAtomicCmpXchgInst(self.0).is_null() {
                Instruction::Atomic
            } else if !LLVMIsACallInst(self.0).is_null() || !LLVMIsAInvokeInst(self.0).is_null() {
                Instruction::Call
            } else if !LLVMIsAAllocaInst(self.0).is_null() {
                Instruction::Alloca
            } else if !LLVMIsAFuncletPadInst(self.0).is_null() || !LLVMIsACatchSwitchInst(self.0).is_null() {
                Instruction::EhPad
            } else {
                Instruction::Other
            }
        }
    }

    pub(crate) fn operand(self, index: u32) -> Self {
        // SAFETY: as said above the impl; `index` is below the number of operands.
        Self(unsafe { LLVMGetOperand(self.0, index) })
    }

    /// The integer a piece of metadata wraps.
    fn operand_constant(self) -> Option<u64> {
        // SAFETY: as said above the impl; metadata that wraps a value has it as its only operand.
        unsafe {
            if LLVMGetMDNodeNumOperands(self.0) != 1 {
                return None;
            }
            let mut operand = ptr::null_mut();
            LLVMGetMDNodeOperands(self.0, &raw mut operand);
            Self(operand).as_constant_int()
        }
    }

    /// The value of an integer constant of at most 64 bits.
    pub(crate) fn as_constant_int(self) -> Option<u64> {
        // SAFETY: as said above the impl.
        unsafe {
            let constant = LLVMIsAConstantInt(self.0);
            (!constant.is_null() && self.ty().int_bits() <= 64).then(|| LLVMConstIntGetZExtValue(constant))
        }
    }

    /// The function, if this value is one.
    pub(crate) fn as_function(self) -> Option<Self> {
        // SAFETY: as said above the impl.
        Some(unsafe { LLVMIsAFunction(self.0) }).filter(|function| !function.is_null()).map(Self)
    }

    pub(crate) fn is_inline_asm(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { !LLVMIsAInlineAsm(self.0).is_null() }
    }

    pub(crate) fn is_swift_error(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { bf_shim_is_swift_error(self.0) }
    }

    // Globals and functions.

    /// A function of the module without a body.
    pub(crate) fn is_declaration(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { LLVMIsDeclaration(self.0) != 0 }
    }

    pub(crate) fn is_available_externally(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { LLVMGetLinkage(self.0) == LLVMLinkage::LLVMAvailableExternallyLinkage }
    }

    /// Whether the linker never sees its name.
    pub(crate) fn is_local(self) -> bool {
        // SAFETY: as said above the impl.
        matches!(unsafe { LLVMGetLinkage(self.0) }, LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage)
    }

    /// The name of an intrinsic without its overload types.
    pub(crate) fn intrinsic_name(self) -> Option<String> {
        // SAFETY: as said above the impl; asked of functions only.
        unsafe {
            let id = LLVMGetIntrinsicID(self.0);
            (id != 0).then(|| text(|length| LLVMIntrinsicGetName(id, length)))
        }
    }

    pub(crate) fn is_library_function(self) -> bool {
        // SAFETY: as said above the impl; asked of functions only.
        unsafe { bf_shim_is_library_function(self.0) }
    }

    pub(crate) fn has_attribute(self, kind: c_uint) -> bool {
        // SAFETY: as said above the impl; asked of functions only.
        unsafe { !LLVMGetEnumAttributeAtIndex(self.0, FUNCTION, kind).is_null() }
    }

    pub(crate) fn remove_attribute(self, kind: c_uint) {
        // SAFETY: as said above the impl; asked of functions only.
        unsafe { LLVMRemoveEnumAttributeAtIndex(self.0, FUNCTION, kind) }
    }

    pub(crate) fn add_attribute(self, module: Module, kind: c_uint) {
        // SAFETY: as said above the impl; asked of functions only.
        unsafe {
            let attribute = LLVMCreateEnumAttribute(module.context(), kind, 0);
            LLVMAddAttributeAtIndex(self.0, FUNCTION, attribute);
        }
    }

    pub(crate) fn calling_convention(self) -> u32 {
        // SAFETY: as said above the impl; asked of functions only.
        unsafe { LLVMGetFunctionCallConv(self.0) }
    }

    pub(crate) fn function_type(self) -> Type {
        // SAFETY: as said above the impl; asked of functions only.
        Type(unsafe { LLVMGlobalGetValueType(self.0) })
    }

    pub(crate) fn blocks(self) -> impl Iterator<Item = Block> {
        // SAFETY: as said above the impl; asked of functions only.
        let first = unsafe { LLVMGetFirstBasicBlock(self.0) };
        let step = |block: &LLVMBasicBlockRef| {
            // SAFETY: as said above the impl.
            Some(unsafe { LLVMGetNextBasicBlock(*block) }).filter(|block| !block.is_null())
        };
        core::iter::successors(Some(first).filter(|block| !block.is_null()), step).map(Block)
    }

    pub(crate) fn set_initializer(self, value: Self) {
        // SAFETY: as said above the impl; asked of global variables only.
        unsafe { LLVMSetInitializer(self.0, value.0) }
    }

    pub(crate) fn set_constant(self) {
        // SAFETY: as said above the impl; asked of global variables only.
        unsafe { LLVMSetGlobalConstant(self.0, 1) }
    }

    // Instructions.

    /// Whether instrumentation put it there.
    pub(crate) fn is_marked(self, mark: c_uint) -> bool {
        // SAFETY: as said above the impl; asked of instructions only.
        unsafe { !LLVMGetMetadata(self.0, mark).is_null() }
    }

    pub(crate) fn block(self) -> Block {
        // SAFETY: as said above the impl; asked of instructions only.
        Block(unsafe { LLVMGetInstructionParent(self.0) })
    }

    pub(crate) fn callee(self) -> Self {
        // SAFETY: as said above the impl; asked of calls only.
        Self(unsafe { LLVMGetCalledValue(self.0) })
    }

    pub(crate) fn argument_count(self) -> u32 {
        // SAFETY: as said above the impl; asked of calls only.
        unsafe { LLVMGetNumArgOperands(self.0) }
    }

    pub(crate) fn is_musttail(self) -> bool {
        // SAFETY: as said above the impl; the kind is asked of `call` only.
        unsafe {
            !LLVMIsACallInst(self.0).is_null()
                && LLVMGetTailCallKind(self.0) == LLVMTailCallKind::LLVMTailCallKindMustTail
        }
    }

    /// The type an argument attribute of a call names, as `byval` does.
    pub(crate) fn argument_type_attribute(self, argument: u32, kind: c_uint) -> Option<Type> {
        // SAFETY: as said above the impl; asked of calls only, with a kind that carries a type.
        unsafe {
            let attribute = LLVMGetCallSiteEnumAttribute(self.0, argument + 1, kind);
            (!attribute.is_null()).then(|| Type(LLVMGetTypeAttributeValue(attribute)))
        }
    }

    pub(crate) fn has_call_attribute(self, kind: c_uint) -> bool {
        // SAFETY: as said above the impl; asked of calls only.
        unsafe { !LLVMGetCallSiteEnumAttribute(self.0, FUNCTION, kind).is_null() }
    }

    pub(crate) fn remove_call_attribute(self, kind: c_uint) {
        // SAFETY: as said above the impl; asked of calls only.
        unsafe { LLVMRemoveCallSiteEnumAttribute(self.0, FUNCTION, kind) }
    }
}

// SAFETY (for every block below): as for `Module`.
impl Block {
    pub(crate) fn instructions(self) -> impl Iterator<Item = Value> {
        // SAFETY: as said above the impl.
        list(unsafe { LLVMGetFirstInstruction(self.0) }, LLVMGetNextInstruction)
    }

    pub(crate) fn terminator(self) -> Value {
        // SAFETY: as said above the impl; every block of a verified function has one.
        Value(unsafe { LLVMGetBasicBlockTerminator(self.0) })
    }
}

/// Makes instructions in front of others.
pub(crate) struct Builder {
    builder: LLVMBuilderRef,
    module: Module,
    mark: (c_uint, LLVMValueRef),
}

impl Drop for Builder {
    fn drop(&mut self) {
        // SAFETY:
        // - the builder is ours and is not used after this.
        unsafe { LLVMDisposeBuilder(self.builder) }
    }
}

// SAFETY (for every block below): as for `Module`; besides, the builder stands at an instruction before it makes one,
// and operands have the types that the instruction wants.
impl Builder {
    /// The metadata kind of [`Value::is_marked`].
    pub(crate) const fn mark_kind(&self) -> c_uint {
        self.mark.0
    }

    /// Goes before an instruction of this function, with its debug location; line 0 of the function if it has none,
    /// because a call in a function with debug information must have a location.
    pub(crate) fn before(&self, instruction: Value, function: Value) {
        // SAFETY: as said above the impl.
        unsafe { LLVMPositionBuilderBefore(self.builder, instruction.0) }
        self.at_location_of(instruction, function);
    }

    /// Takes the debug location of an instruction, as [`Builder::before`] does, and stays in place.
    pub(crate) fn at_location_of(&self, instruction: Value, function: Value) {
        // SAFETY: as said above the impl.
        unsafe {
            let scope = sys::debuginfo::LLVMGetSubprogram(function.0);
            let own = sys::debuginfo::LLVMInstructionGetDebugLoc(instruction.0);
            let location: LLVMMetadataRef = if own.is_null() && !scope.is_null() {
                let context = self.module.context();
                sys::debuginfo::LLVMDIBuilderCreateDebugLocation(context, 0, 0, scope, ptr::null_mut())
            } else {
                own
            };
            LLVMSetCurrentDebugLocation2(self.builder, location);
        }
    }

    fn marked(&self, value: LLVMValueRef) -> Value {
        // SAFETY: as said above the impl.
        unsafe {
            if !LLVMIsAInstruction(value).is_null() {
                LLVMSetMetadata(value, self.mark.0, self.mark.1);
            }
        }
        Value(value)
    }

    pub(crate) fn load(&self, ty: Type, address: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildLoad2(self.builder, ty.0, address.0, c"".as_ptr()) })
    }

    /// A store of 8-byte alignment.
    pub(crate) fn store(&self, value: Value, address: Value) {
        // SAFETY: as said above the impl.
        unsafe {
            let store = LLVMBuildStore(self.builder, value.0, address.0);
            LLVMSetAlignment(store, 8);
            self.marked(store);
        }
    }

    /// `base + offset` bytes.
    pub(crate) fn offset(&self, base: Value, offset: Value) -> Value {
        let mut indices = [offset.0];
        let byte = self.module.int_type(8).0;
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildGEP2(self.builder, byte, base.0, indices.as_mut_ptr(), 1, c"".as_ptr()) })
    }

    pub(crate) fn compare(&self, predicate: Predicate, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildICmp(self.builder, predicate, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn add(&self, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildAdd(self.builder, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn mul(&self, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildMul(self.builder, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn and(&self, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildAnd(self.builder, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn select(&self, condition: Value, yes: Value, no: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildSelect(self.builder, condition.0, yes.0, no.0, c"".as_ptr()) })
    }

    pub(crate) fn zero_extend(&self, value: Value, to: Type) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildZExtOrBitCast(self.builder, value.0, to.0, c"".as_ptr()) })
    }

    pub(crate) fn sign_extend(&self, value: Value, to: Type) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildSExtOrBitCast(self.builder, value.0, to.0, c"".as_ptr()) })
    }

    pub(crate) fn bit_cast(&self, value: Value, to: Type) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildBitCast(self.builder, value.0, to.0, c"".as_ptr()) })
    }

    pub(crate) fn pointer_to_int(&self, value: Value, to: Type) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildPtrToInt(self.builder, value.0, to.0, c"".as_ptr()) })
    }

    /// The first `lanes` lanes of a vector.
    pub(crate) fn first_lanes(&self, vector: Value, lanes: u32) -> Value {
        if vector.ty().as_vector().is_some_and(|(all, _)| all == lanes) {
            return vector;
        }
        let picks: Vec<_> = (0..lanes).map(|lane| self.module.int(32, lane.into())).collect();
        let picks = self.module.vector_of(&picks);
        // SAFETY: as said above the impl.
        self.marked(unsafe {
            LLVMBuildShuffleVector(self.builder, vector.0, LLVMGetPoison(vector.ty().0), picks.0, c"".as_ptr())
        })
    }

    /// A vector of `lanes` times the value.
    pub(crate) fn splat(&self, value: Value, lanes: u32) -> Value {
        let vector = value.ty().vector(lanes);
        // SAFETY: as said above the impl.
        unsafe {
            let zero = self.module.int(32, 0);
            let one = LLVMBuildInsertElement(self.builder, LLVMGetPoison(vector.0), value.0, zero.0, c"".as_ptr());
            self.marked(one);
            let picks = self.module.null(self.module.int_type(32).vector(lanes));
            self.marked(LLVMBuildShuffleVector(self.builder, one, LLVMGetPoison(vector.0), picks.0, c"".as_ptr()))
        }
    }

    pub(crate) fn call(&self, function: Value, ty: Type, arguments: &[Value]) -> Value {
        let mut arguments: Vec<_> = arguments.iter().map(|argument| argument.0).collect();
        let count = arguments.len() as c_uint;
        // SAFETY: as said above the impl.
        self.marked(unsafe {
            LLVMBuildCall2(self.builder, ty.0, function.0, arguments.as_mut_ptr(), count, c"".as_ptr())
        })
    }

    /// Calls an intrinsic.
    pub(crate) fn intrinsic(&self, name: &str, overloads: &[Type], arguments: &[Value]) -> Value {
        let (function, ty) = self.module.intrinsic(name, overloads);
        self.call(function, ty, arguments)
    }

    /// A phi of two predecessors.
    pub(crate) fn phi(&self, ty: Type, incoming: [(Value, Block); 2]) -> Value {
        let mut values = incoming.map(|(value, _)| value.0);
        let mut blocks = incoming.map(|(_, block)| block.0);
        // SAFETY: as said above the impl.
        unsafe {
            let phi = LLVMBuildPhi(self.builder, ty.0, c"".as_ptr());
            LLVMAddIncoming(phi, values.as_mut_ptr(), blocks.as_mut_ptr(), 2);
            self.marked(phi)
        }
    }

    pub(crate) fn return_void(&self) {
        // SAFETY: as said above the impl.
        unsafe { LLVMBuildRetVoid(self.builder) };
    }

    /// Goes to the end of a new entry block of the function.
    pub(crate) fn in_new_entry(&self, function: Value) {
        // SAFETY: as said above the impl.
        unsafe {
            let block = LLVMAppendBasicBlockInContext(self.module.context(), function.0, c"entry".as_ptr());
            LLVMPositionBuilderAtEnd(self.builder, block);
        }
    }

    /// Runs a block in between, rarely, if the condition holds. Returns the terminator of that block.
    pub(crate) fn split(&self, condition: Value, before: Value) -> Value {
        let head = before.block();
        // SAFETY: as said above the impl.
        let rare = unsafe { bf_shim_split(condition.0, before.0) };
        self.marked(head.terminator().0);
        self.marked(rare);
        Value(rare)
    }

    /// Moves an instruction to where the builder stands.
    pub(crate) fn move_here(&self, instruction: Value) {
        // SAFETY: as said above the impl; the instruction is put back in the same function at once.
        unsafe {
            LLVMInstructionRemoveFromParent(instruction.0);
            LLVMInsertIntoBuilder(self.builder, instruction.0);
        }
    }
}

/// What unit tests need to make a module and to see how LLVM lays a type out.
#[cfg(test)]
impl Module {
    /// Runs a test on an empty module of x86-64 Linux.
    pub(crate) fn with_empty(test: impl FnOnce(Self)) {
        // SAFETY:
        // - context and module are made here, used on this thread only, and disposed of once no handle is left.
        unsafe {
            let context = LLVMContextCreate();
            let module = LLVMModuleCreateWithNameInContext(c"test".as_ptr(), context);
            LLVMSetDataLayout(module, c"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128".as_ptr());
            test(Self(module));
            LLVMDisposeModule(module);
            LLVMContextDispose(context);
        }
    }

    /// The offsets of a structure's fields, and then its size.
    pub(crate) fn layout(self, ty: Type) -> Vec<usize> {
        // SAFETY: as for the handles above; asked of structures only.
        unsafe {
            let layout = sys::target::LLVMGetModuleDataLayout(self.0);
            let fields = LLVMCountStructElementTypes(ty.0);
            let offsets = (0..fields).map(|field| sys::target::LLVMOffsetOfElement(layout, ty.0, field));
            offsets.chain([sys::target::LLVMABISizeOfType(layout, ty.0)]).map(|bytes| bytes as usize).collect()
        }
    }
}

//! What the pass asks of a module and adds to it.

use super::*;

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

    pub(super) fn context(self) -> LLVMContextRef {
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

    /// Notes strings under a name, for whoever asks for them later in this or a module that this one becomes a part of.
    pub(crate) fn note(self, name: &CStr, strings: &[String]) {
        // SAFETY: as said above the impl.
        unsafe {
            let string = |text: &String| LLVMMDStringInContext2(self.context(), text.as_ptr().cast(), text.len());
            let mut strings: Vec<_> = strings.iter().map(string).collect();
            let node = LLVMMDNodeInContext2(self.context(), strings.as_mut_ptr(), strings.len());
            LLVMAddNamedMetadataOperand(self.0, name.as_ptr(), LLVMMetadataAsValue(self.context(), node));
        }
    }

    /// All strings that were noted under a name.
    pub(crate) fn noted(self, name: &CStr) -> Vec<String> {
        let operands = |count: c_uint, get: &dyn Fn(*mut LLVMValueRef)| {
            let mut operands = vec![core::ptr::null_mut(); count as usize];
            get(operands.as_mut_ptr());
            operands
        };
        // SAFETY: as said above the impl; there is room for as many operands as there are, which [`Self::note`] made.
        unsafe {
            let count = LLVMGetNamedMetadataNumOperands(self.0, name.as_ptr());
            let nodes = operands(count, &|to| LLVMGetNamedMetadataOperands(self.0, name.as_ptr(), to));
            let strings = nodes
                .into_iter()
                .flat_map(|node| operands(LLVMGetMDNodeNumOperands(node), &|to| LLVMGetMDNodeOperands(node, to)));
            let string = |value: LLVMValueRef| {
                let mut length = 0;
                let text = LLVMGetMDString(value, &raw mut length);
                let bytes = core::slice::from_raw_parts(text.cast::<u8>(), length as usize);
                String::from_utf8_lossy(bytes).into_owned()
            };
            strings.map(string).collect()
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

//! What the pass asks of types, values and blocks.

use super::origin::file_in;
use super::*;
use crate::assembly::{self, Assembly};

// SAFETY (for every block below): as for `Module`.
impl Type {
    pub(crate) fn kind(self) -> Kind {
        // SAFETY: as said above the impl; `llvm-sys` is of LLVM's version, so it knows every kind.
        unsafe { LLVMGetTypeKind(self.0) }
    }

    pub(crate) fn is_pointer(self) -> bool {
        self.kind() == Kind::LLVMPointerTypeKind
    }

    pub(crate) fn is_void(self) -> bool {
        self.kind() == Kind::LLVMVoidTypeKind
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

    /// Bits of the type; times `vscale` if it is scalable.
    pub(crate) fn bits(self, module: Module) -> u64 {
        // SAFETY: as said above the impl; asked of sized types only.
        unsafe { bf_shim_bits(module.0, self.0) }
    }

    /// Lanes of a vector, times `vscale` if it is scalable; 1 for any other type.
    pub(crate) fn lanes(self) -> u32 {
        match self.kind() {
            // SAFETY: as said above the impl.
            Kind::LLVMVectorTypeKind | Kind::LLVMScalableVectorTypeKind => unsafe { LLVMGetVectorSize(self.0) },
            _ => 1,
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

    /// The name; of a global, the one the linker sees.
    pub(crate) fn name(self) -> String {
        // SAFETY: as said above the impl.
        let name = text(|length| unsafe { LLVMGetValueName2(self.0, length) });
        // LLVM's mark for a name that no prefix of the target is put before.
        name.strip_prefix('\u{1}').map_or(name.clone(), str::to_owned)
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
            } else if !LLVMIsACallInst(self.0).is_null()
                || !LLVMIsAInvokeInst(self.0).is_null()
                || !LLVMIsACallBrInst(self.0).is_null()
            {
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

    /// The instructions that use it, once for each operand that it is.
    pub(crate) fn users(self) -> impl Iterator<Item = Self> {
        // SAFETY: as said above the impl.
        let first = unsafe { LLVMGetFirstUse(self.0) };
        // SAFETY: as said above the impl; what uses a value of a function is an instruction.
        let step = |at: &LLVMUseRef| Some(unsafe { LLVMGetNextUse(*at) }).filter(|next| !next.is_null());
        core::iter::successors(Some(first).filter(|first| !first.is_null()), step)
            // SAFETY: as said above the impl.
            .map(|at| Self(unsafe { LLVMGetUser(at) }))
    }

    /// Whether something else than calls of it uses this function.
    pub(crate) fn has_its_address_taken(self) -> bool {
        self.users().any(|user| user.instruction() != Instruction::Call || user.callee() != self)
    }

    pub(crate) fn is_argument(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { !LLVMIsAArgument(self.0).is_null() }
    }

    pub(crate) fn operand_count(self) -> u32 {
        // SAFETY: as said above the impl; asked of instructions only, which have no negative number of operands.
        unsafe { LLVMGetNumOperands(self.0) }.cast_unsigned()
    }

    /// The instruction, if this value is one.
    pub(crate) fn as_instruction(self) -> Option<Self> {
        // SAFETY: as said above the impl.
        Some(unsafe { LLVMIsAInstruction(self.0) }).filter(|instruction| !instruction.is_null()).map(Self)
    }

    pub(crate) fn is_constant(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { LLVMIsConstant(self.0) != 0 }
    }

    /// Whether any value may be put in its place.
    pub(crate) fn is_undefined(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { LLVMIsUndef(self.0) != 0 }
    }

    /// The value that this address is a constant number of bytes behind, perhaps itself with 0.
    pub(crate) fn base(self, module: Module) -> (Self, i64) {
        let mut bytes = 0;
        // SAFETY: as said above the impl; asked of pointers only.
        (Self(unsafe { bf_shim_base(module.0, self.0, &raw mut bytes) }), bytes)
    }

    pub(crate) fn is_null(self) -> bool {
        // SAFETY: as said above the impl.
        unsafe { LLVMIsNull(self.0) != 0 }
    }

    /// Whether this instruction always goes on to the next one, and no other thread can tell when it does what it does.
    pub(crate) fn is_private(self) -> bool {
        // SAFETY: as said above the impl; asked of instructions only.
        unsafe { bf_shim_is_private(self.0) }
    }

    /// Whether this instruction is a volatile store that may let other threads go on with all that was done before it.
    pub(crate) fn is_volatile(self) -> bool {
        // SAFETY: as said above the impl; asked of instructions only.
        unsafe { bf_shim_is_volatile(self.0) }
    }

    /// Whether this instruction, by itself, lets other threads go on with all that was done before it.
    pub(crate) fn releases(self) -> bool {
        // SAFETY: as said above the impl; asked of instructions only.
        let releases = unsafe { bf_shim_releases(self.0) };
        releases || self.assembly().is_some_and(|assembly| assembly.releases())
    }

    /// Its template and its constraints, if it is inline assembly.
    fn template(self) -> Option<(String, String)> {
        let callee = Some(self).filter(|each| each.instruction() == Instruction::Call).map(Self::callee)?;
        callee.is_inline_asm().then(|| {
            // SAFETY: as said above the impl; asked of inline assembly.
            let template = text(|length| unsafe { LLVMGetInlineAsmAsmString(callee.0, length) });
            // SAFETY: likewise.
            (template, text(|length| unsafe { LLVMGetInlineAsmConstraintString(callee.0, length) }))
        })
    }

    /// What it says of memory, if it is inline assembly.
    pub(crate) fn assembly(self) -> Option<Assembly> {
        self.template().map(|(template, constraints)| Assembly::of(&template, &constraints))
    }

    /// If it is inline assembly, no value is kept meanwhile where it does not say that none may be.
    pub(crate) fn constrain(self) {
        let lacking = self.template().and_then(|(template, constraints)| assembly::lacks(&template, &constraints));
        // SAFETY: as said above the impl; asked of inline assembly.
        lacking.into_iter().for_each(|constraint| unsafe { bf_shim_constrain(self.0, constraint.as_ptr()) });
    }

    /// Whether this instruction always goes on to the next one.
    pub(crate) fn goes_on(self) -> bool {
        // SAFETY: as said above the impl; asked of instructions only.
        unsafe { bf_shim_goes_on(self.0) }
    }

    /// The name of the opcode, as LLVM's language reference has it.
    pub(crate) fn opcode(self) -> &'static str {
        // SAFETY: as said above the impl; asked of instructions only, whose names are static and ASCII.
        unsafe { CStr::from_ptr(bf_shim_opcode(self.0)) }.to_str().unwrap_or_default()
    }

    /// The integer a piece of metadata wraps.
    pub(super) fn operand_constant(self) -> Option<u64> {
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

    pub(crate) fn set_alignment(self, bytes: u32) {
        // SAFETY: as said above the impl; asked of global variables only, with a power of two.
        unsafe { LLVMSetAlignment(self.0, bytes) }
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

    /// Where something can be done once this call has returned; `None` if there is no such place.
    pub(crate) fn after(self) -> Option<Self> {
        // SAFETY: as said above the impl; asked of calls only.
        Some(unsafe { bf_shim_after(self.0) }).filter(|next| !next.is_null()).map(Self)
    }

    /// The same, with a block made for it if need be; `None` behind calls that must be the last of their function.
    pub(crate) fn behind(self) -> Option<Self> {
        // SAFETY: as said above the impl; asked of calls only.
        Some(unsafe { bf_shim_behind(self.0) }).filter(|next| !next.is_null()).map(Self)
    }

    pub(crate) fn argument_count(self) -> u32 {
        // SAFETY: as said above the impl; asked of calls only.
        unsafe { LLVMGetNumArgOperands(self.0) }
    }

    /// Whether it is a call that may reuse its caller's frame.
    pub(crate) fn is_tail_call(self) -> bool {
        // SAFETY: as said above the impl; asked of `call` only.
        unsafe { !LLVMIsACallInst(self.0).is_null() && LLVMIsTailCall(self.0) != 0 }
    }

    /// The condition of a conditional branch.
    pub(crate) fn condition(self) -> Option<Self> {
        // SAFETY: as said above the impl; only branches have conditions.
        unsafe {
            let branch = LLVMIsABranchInst(self.0);
            (!branch.is_null() && LLVMIsConditional(branch) != 0).then(|| Self(LLVMGetCondition(branch)))
        }
    }

    /// Where a terminator may go.
    pub(crate) fn successors(self) -> Vec<Block> {
        // SAFETY: as said above the impl; asked of terminators only, and the index is below their number.
        unsafe { (0..LLVMGetNumSuccessors(self.0)).map(|index| Block(LLVMGetSuccessor(self.0, index))).collect() }
    }

    /// Source file and line of a function, if it has debug information. Where that has no line, as of the OpenMP regions that flang makes
    /// functions of, it is the least one of the function's own code.
    pub(crate) fn definition(self) -> Option<(String, u32)> {
        use sys::debuginfo::*;
        let part = |get: unsafe extern "C" fn(LLVMMetadataRef, *mut c_uint) -> *const c_char, file| {
            let mut length = 0;
            text(|whole| {
                // SAFETY: as said above the impl; `file` is a file.
                let start = unsafe { get(file, &raw mut length) };
                // SAFETY: as said above the impl; `text` passes where the length goes.
                unsafe { *whole = length as usize };
                start
            })
        };
        // SAFETY: as said above the impl; asked of functions only.
        unsafe {
            let scope = LLVMGetSubprogram(self.0);
            let file = if scope.is_null() { scope } else { LLVMDIScopeGetFile(scope) };
            if file.is_null() {
                return None;
            }
            let (folder, name) = (part(LLVMDIFileGetDirectory, file), part(LLVMDIFileGetFilename, file));
            let line = Some(LLVMDISubprogramGetLine(scope)).filter(|&line| line > 0);
            Some((file_in(&folder, &name), line.or_else(|| self.first_line()).unwrap_or(0)))
        }
    }

    fn first_line(self) -> Option<u32> {
        let locations = self.blocks().flat_map(Block::instructions).filter_map(Self::location);
        let own = locations.filter(|location| location.inlined_at().is_none());
        own.map(Location::line).filter(|&line| line > 0).min()
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

    /// The same of an argument.
    pub(crate) fn has_argument_attribute(self, index: u32, kind: c_uint) -> bool {
        // SAFETY: as said above the impl; asked of calls only. Arguments are counted from 1.
        unsafe { !LLVMGetCallSiteEnumAttribute(self.0, index + 1, kind).is_null() }
    }

    /// The type of the function that is called.
    pub(crate) fn called_type(self) -> Type {
        // SAFETY: as said above the impl; asked of calls only.
        Type(unsafe { LLVMGetCalledFunctionType(self.0) })
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

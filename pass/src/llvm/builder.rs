//! How the pass makes instructions.

use super::*;

/// Makes instructions in front of others.
pub(crate) struct Builder {
    builder: LLVMBuilderRef,
    module: Module,
    mark: (c_uint, LLVMValueRef),
}

impl Module {
    /// A builder that marks what it makes as no concern of sanitizers (or of this pass).
    pub(crate) fn builder(self) -> Builder {
        // SAFETY:
        // - the module is live (see `Module::new`); the name comes with its length.
        unsafe {
            let name = "nosanitize";
            let kind = LLVMGetMDKindIDInContext(self.context(), name.as_ptr().cast(), name.len() as c_uint);
            let empty = LLVMMDNodeInContext2(self.context(), ptr::null_mut(), 0);
            let mark = LLVMMetadataAsValue(self.context(), empty);
            Builder { builder: LLVMCreateBuilderInContext(self.context()), module: self, mark: (kind, mark) }
        }
    }
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

    /// A logical shift to the right.
    pub(crate) fn shift_right(&self, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildLShr(self.builder, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn and(&self, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildAnd(self.builder, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn or(&self, left: Value, right: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildOr(self.builder, left.0, right.0, c"".as_ptr()) })
    }

    pub(crate) fn select(&self, condition: Value, yes: Value, no: Value) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildSelect(self.builder, condition.0, yes.0, no.0, c"".as_ptr()) })
    }

    pub(crate) fn zero_extend(&self, value: Value, to: Type) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildZExtOrBitCast(self.builder, value.0, to.0, c"".as_ptr()) })
    }

    /// The low bits of an integer, perhaps all of them.
    pub(crate) fn truncate(&self, value: Value, to: Type) -> Value {
        // SAFETY: as said above the impl.
        self.marked(unsafe { LLVMBuildTruncOrBitCast(self.builder, value.0, to.0, c"".as_ptr()) })
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

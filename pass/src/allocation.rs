//! Calls that give and take memory: a call in, what to record of it out.

use core::ffi::CStr;

use crate::llvm::{Module, Value};

/// How many bytes an allocation has.
#[derive(Clone, Copy)]
pub(crate) enum Bytes {
    /// One argument says it.
    Argument(Value),
    /// Two arguments, multiplied.
    Product(Value, Value),
    /// A Fortran descriptor says it afterwards.
    Described(Value),
}

/// What a call does to memory, besides what it accesses.
#[derive(Clone, Copy)]
pub(crate) struct Allocation {
    /// The memory it takes back, if it does.
    pub(crate) takes: Option<Place>,
    /// Where the new memory is and how large.
    pub(crate) gives: Option<(Place, Bytes)>,
    /// Of a call by a pointer: it does that only if this function of the C library is called.
    pub(crate) of: Option<&'static CStr>,
}

impl Allocation {
    const NOTHING: Self = Self { takes: None, gives: None, of: None };
}

/// Where memory is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// There.
    Value(Value),
    /// What lies there says it.
    Stored(Value),
}

/// The variable that keeps where the new memory is, from its beginning so many bytes on, if that is seen at once.
pub(crate) fn kept(call: Value, module: Module) -> Option<(Value, i64)> {
    /// A descriptor is put together field by field.
    const FIELDS: usize = 32;
    let mut value = match of(call)?.gives?.0 {
        Place::Stored(at) => return Some(at.base(module)),
        Place::Value(value) => value,
    };
    for _ in 0..FIELDS {
        let stores = |user: &Value| user.opcode() == "store" && user.operand(0) == value;
        if let Some(store) = value.users().find(stores) {
            return Some(store.operand(1).base(module));
        }
        value = value.users().find(|user| user.opcode() == "insertvalue")?;
    }
    None
}

/// What a call does, if its callee is known to allocate. What `realloc` does to the old block is done whether it succeeds
/// or not.
pub(crate) fn of(call: Value) -> Option<Allocation> {
    let Some(callee) = call.callee().as_function() else { return by_pointer(call) };
    if callee.intrinsic_name().is_some() {
        return None;
    }
    let count = call.argument_count();
    let argument = |index: u32| (index < count).then(|| call.operand(index));
    let name = callee.name();
    let gives = |bytes| Some(Allocation { gives: Some((Place::Value(call), bytes)), ..Allocation::NOTHING });
    let takes = |block| Some(Allocation { takes: Some(Place::Value(block)), ..Allocation::NOTHING });
    let renews = |block: Option<Value>, bytes| {
        Some(Allocation { takes: block.map(Place::Value), gives: Some((Place::Value(call), bytes)), of: None })
    };
    let size = |index| argument(index).filter(|size| size.ty().int_bits() == 64).map(Bytes::Argument);
    let block = argument(0).filter(|block| block.ty().is_pointer() && block.ty().address_space() == 0);
    match name.as_str() {
        "malloc" | "valloc" | "pvalloc" => gives(size(0)?),
        "aligned_alloc" | "memalign" | "mmap" | "mmap64" => gives(size(1)?),
        "calloc" => gives(Bytes::Product(argument(0)?, argument(1)?)),
        "realloc" => renews(block, size(1)?),
        "reallocarray" => renews(block, Bytes::Product(argument(1)?, argument(2)?)),
        "posix_memalign" => Some(Allocation { gives: Some((Place::Stored(block?), size(2)?)), ..Allocation::NOTHING }),
        "free" | "cfree" | "munmap" => takes(block?),
        // Fortran's library, told by a descriptor, which begins with where the object is.
        "_FortranAAllocatableAllocate"
        | "_FortranAAllocatableAllocateSource"
        | "_FortranAPointerAllocate"
        | "_FortranAPointerAllocateSource" => {
            let gives = Some((Place::Stored(block?), Bytes::Described(block?)));
            Some(Allocation { gives, ..Allocation::NOTHING })
        }
        "_FortranAAllocatableDeallocate"
        | "_FortranAAllocatableDeallocatePolymorphic"
        | "_FortranAPointerDeallocate"
        | "_FortranAPointerDeallocatePolymorphic"
        | "_FortranAMoveAlloc" => Some(Allocation { takes: Some(Place::Stored(block?)), ..Allocation::NOTHING }),
        _ if name.ends_with("__rust_alloc") || name.ends_with("__rust_alloc_zeroed") => gives(size(0)?),
        _ if name.ends_with("__rust_realloc") => renews(block, size(3)?),
        _ if name.ends_with("__rust_dealloc") => takes(block?),
        // `operator new` and `operator new[]`, with and without alignment, throwing or not; likewise `delete`.
        _ if is_new(&name) => gives(size(0)?),
        _ if name.starts_with("_ZdlPv") || name.starts_with("_ZdaPv") => takes(block?),
        _ => None,
    }
}

/// What a call by a pointer does if it is of the function of the C library that has such arguments. No method of C++ is: those have an
/// object.
fn by_pointer(call: Value) -> Option<Allocation> {
    let arguments: Vec<_> = (0..call.argument_count()).map(|at| call.operand(at)).collect();
    let is_block = |value: Value| value.ty().is_pointer() && value.ty().address_space() == 0;
    let is_size = |value: Value| value.ty().int_bits() == 64;
    let is_object =
        call.argument_count() > 0 && call.has_argument_attribute(0, Module::attribute_kind("dereferenceable"));
    if call.callee().is_inline_asm() || is_object {
        return None;
    }
    let gives = |bytes| call.ty().is_pointer().then_some(Some((Place::Value(call), bytes)));
    match arguments[..] {
        [size] if is_size(size) => {
            Some(Allocation { gives: gives(Bytes::Argument(size))?, of: Some(c"malloc"), ..Allocation::NOTHING })
        }
        [count, unit] if is_size(count) && is_size(unit) => {
            Some(Allocation { gives: gives(Bytes::Product(count, unit))?, of: Some(c"calloc"), ..Allocation::NOTHING })
        }
        [block, size] if is_block(block) && is_size(size) => {
            let gives = gives(Bytes::Argument(size))?;
            Some(Allocation { takes: Some(Place::Value(block)), gives, of: Some(c"realloc") })
        }
        [block] if is_block(block) && call.ty().is_void() => {
            Some(Allocation { takes: Some(Place::Value(block)), of: Some(c"free"), ..Allocation::NOTHING })
        }
        _ => None,
    }
}

/// Whether a function of this name is an `operator new`, which a program may have of its own.
pub(crate) fn is_new(name: &str) -> bool {
    name.starts_with("_Znwm") || name.starts_with("_Znam")
}

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
    let (name, of) = match call.callee().as_function() {
        Some(callee) if callee.intrinsic_name().is_some() => return None,
        Some(callee) => (callee.name(), None),
        None => {
            let of = by_pointer(call)?;
            (of.to_string_lossy().into_owned(), Some(of))
        }
    };
    let count = call.argument_count();
    let argument = |index: u32| (index < count).then(|| call.operand(index));
    let both = |takes: Option<Place>, gives: Option<(Place, Bytes)>| Some(Allocation { takes, gives, of });
    let gives = |bytes| both(None, Some((Place::Value(call), bytes)));
    let takes = |block| both(Some(Place::Value(block)), None);
    let renews = |block: Option<Value>, bytes| both(block.map(Place::Value), Some((Place::Value(call), bytes)));
    let size = |index| argument(index).filter(|size| size.ty().int_bits() == 64).map(Bytes::Argument);
    let block = argument(0).filter(|block| block.ty().is_pointer() && block.ty().address_space() == 0);
    match name.as_str() {
        "malloc" | "valloc" | "pvalloc" => gives(size(0)?),
        "aligned_alloc" | "memalign" | "mmap" | "mmap64" => gives(size(1)?),
        "calloc" => gives(Bytes::Product(argument(0)?, argument(1)?)),
        "realloc" => renews(block, size(1)?),
        "reallocarray" => renews(block, Bytes::Product(argument(1)?, argument(2)?)),
        "posix_memalign" => both(None, Some((Place::Stored(block?), size(2)?))),
        "free" | "cfree" | "munmap" => takes(block?),
        // Fortran's library, told by a descriptor, which begins with where the object is.
        "_FortranAAllocatableAllocate"
        | "_FortranAAllocatableAllocateSource"
        | "_FortranAPointerAllocate"
        | "_FortranAPointerAllocateSource" => both(None, Some((Place::Stored(block?), Bytes::Described(block?)))),
        "_FortranAAllocatableDeallocate"
        | "_FortranAAllocatableDeallocatePolymorphic"
        | "_FortranAPointerDeallocate"
        | "_FortranAPointerDeallocatePolymorphic"
        | "_FortranAMoveAlloc" => both(Some(Place::Stored(block?)), None),
        _ if name.ends_with("__rust_alloc") || name.ends_with("__rust_alloc_zeroed") => gives(size(0)?),
        _ if name.ends_with("__rust_realloc") => renews(block, size(3)?),
        _ if name.ends_with("__rust_dealloc") => takes(block?),
        // `operator new` and `operator new[]`, with and without alignment, throwing or not; likewise `delete`.
        _ if is_new(&name) => gives(size(0)?),
        _ if name.starts_with("_ZdlPv") || name.starts_with("_ZdaPv") => takes(block?),
        _ => None,
    }
}

/// The function of the C library that a call by a pointer may be of, by its arguments. No method of C++ is: those have an object.
fn by_pointer(call: Value) -> Option<&'static CStr> {
    let is_object = || call.has_argument_attribute(0, Module::attribute_kind("dereferenceable"));
    if call.callee().is_inline_asm() || call.argument_count() == 0 || is_object() {
        return None;
    }
    let is_block = |value: Value| value.ty().is_pointer() && value.ty().address_space() == 0;
    let is_size = |value: Value| value.ty().int_bits() == 64;
    let arguments: Vec<_> = (0..call.argument_count()).map(|at| call.operand(at)).collect();
    match arguments[..] {
        [block] if is_block(block) && call.ty().is_void() => Some(c"free"),
        _ if !call.ty().is_pointer() => None,
        [size] if is_size(size) => Some(c"malloc"),
        [count, unit] if is_size(count) && is_size(unit) => Some(c"calloc"),
        [block, size] if is_block(block) && is_size(size) => Some(c"realloc"),
        _ => None,
    }
}

/// Whether a function of this name is an `operator new`, which a program may have of its own.
pub(crate) fn is_new(name: &str) -> bool {
    name.starts_with("_Znwm") || name.starts_with("_Znam")
}

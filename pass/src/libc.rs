//! The functions of the C library whose calls are accesses of known place and length.
//!
//! The library is not instrumented, so its callers record what it does. For the same reason a program's own definition
//! of such a function stays as it is: a call of it would count twice.

use crate::llvm::{Module, Type, Value};

/// Which arguments say where and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) to: u32,
    /// `None`: nothing is read.
    pub(crate) from: Option<u32>,
    pub(crate) count: u32,
}

impl Transfer {
    /// `memcpy(to, from, count)`
    pub(crate) const COPY: Self = Self { to: 0, from: Some(1), count: 2 };
    /// `memset(to, value, count)`
    pub(crate) const FILL: Self = Self { to: 0, from: None, count: 2 };
    /// `bcopy(from, to, count)`
    const BACKWARD_COPY: Self = Self { to: 1, from: Some(0), count: 2 };
    /// `bzero(to, count)`
    const ZERO: Self = Self { to: 0, from: None, count: 1 };
}

/// A function that this module knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) transfer: Transfer,
    /// Bytes that the count counts.
    pub(crate) unit: u64,
}

/// The known functions, as a module's target has them.
pub(crate) struct Functions {
    wide: u64,
    pointer: Type,
    size: Type,
}

impl Functions {
    pub(crate) fn new(module: Module) -> Self {
        Self { wide: module.flag("wchar_size").unwrap_or(4), pointer: module.pointer_type(), size: module.int_type(64) }
    }

    /// The function, if it has the name and the parameters of a known one and the linker sees that name.
    pub(crate) fn of(&self, function: Value) -> Option<Known> {
        if function.is_local() {
            return None;
        }
        let (transfer, wide) = by_name(&function.name())?;
        let parameters = function.function_type().parameters();
        let has = |index: u32, ty| parameters.get(index as usize) == Some(&ty);
        let fits = has(transfer.to, self.pointer)
            && transfer.from.is_none_or(|from| has(from, self.pointer))
            && has(transfer.count, self.size);
        fits.then_some(Known { transfer, unit: if wide { self.wide } else { 1 } })
    }
}

/// Arguments of the function of this name, and whether it counts in wide characters.
fn by_name(name: &str) -> Option<(Transfer, bool)> {
    Some(match name {
        "memcpy" | "memmove" | "mempcpy" | "__mempcpy" => (Transfer::COPY, false),
        "__memcpy_chk" | "__memmove_chk" | "__mempcpy_chk" => (Transfer::COPY, false),
        "wmemcpy" | "wmemmove" | "wmempcpy" => (Transfer::COPY, true),
        "__wmemcpy_chk" | "__wmemmove_chk" | "__wmempcpy_chk" => (Transfer::COPY, true),
        "memset" | "__memset_chk" => (Transfer::FILL, false),
        "wmemset" | "__wmemset_chk" => (Transfer::FILL, true),
        "bcopy" => (Transfer::BACKWARD_COPY, false),
        "bzero" | "__bzero" | "explicit_bzero" | "__explicit_bzero_chk" => (Transfer::ZERO, false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_where_the_arguments_are() {
        assert_eq!(by_name("__memcpy_chk"), Some((Transfer::COPY, false)));
        assert_eq!(by_name("wmemset"), Some((Transfer::FILL, true)));
        assert_eq!(by_name("bcopy"), Some((Transfer { to: 1, from: Some(0), count: 2 }, false)));
        assert_eq!(by_name("strcpy"), None);
    }
}

//! What the pass asks of debug information and loops: where in the source an instruction comes from.

use super::*;
use std::path::{Component, Path, PathBuf};

/// A place in the source, perhaps within a function that was inlined.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Location(LLVMMetadataRef);

/// A function of the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Subprogram(LLVMMetadataRef);

/// A loop, until its function is changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Loop(*mut c_void);

fn metadata(found: LLVMMetadataRef) -> Option<LLVMMetadataRef> {
    Some(found).filter(|found| !found.is_null())
}

/// The path of a scope's file; empty if it has none.
fn path(scope: LLVMMetadataRef) -> String {
    let part = |get: unsafe extern "C" fn(LLVMMetadataRef, *mut c_uint) -> *const c_char, file| {
        text(|length| {
            let mut short = 0;
            // SAFETY:
            // - `file` is a live file of the module's debug information
            let start = unsafe { get(file, &raw mut short) };
            // SAFETY:
            // - `text` gives room for the length
            unsafe { *length = short as usize };
            start
        })
    };
    // SAFETY:
    // - asked of scopes only
    let Some(file) = metadata(unsafe { sys::debuginfo::LLVMDIScopeGetFile(scope) }) else { return String::new() };
    let name = part(sys::debuginfo::LLVMDIFileGetFilename, file);
    let folder = part(sys::debuginfo::LLVMDIFileGetDirectory, file);
    file_in(&folder, &name)
}

/// The path of a file in a folder: the same however often `.` is in it.
pub(super) fn file_in(folder: &str, name: &str) -> String {
    let path = if name.is_empty() { PathBuf::new() } else { Path::new(folder).join(name) };
    let plain: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    plain.to_string_lossy().into_owned()
}

// SAFETY (for every block below): as for `Module`; nodes of debug information live as long as their module.
impl Location {
    pub(crate) fn line(self) -> u32 {
        // SAFETY: as said above the impl.
        unsafe { sys::debuginfo::LLVMDILocationGetLine(self.0) }
    }

    pub(crate) fn column(self) -> u32 {
        // SAFETY: as said above the impl.
        unsafe { sys::debuginfo::LLVMDILocationGetColumn(self.0) }
    }

    /// Path of the source file.
    pub(crate) fn file(self) -> String {
        // SAFETY: as said above the impl; a location has a scope.
        path(unsafe { sys::debuginfo::LLVMDILocationGetScope(self.0) })
    }

    /// The call that was replaced by the body of the function around this place.
    pub(crate) fn inlined_at(self) -> Option<Self> {
        // SAFETY: as said above the impl.
        metadata(unsafe { sys::debuginfo::LLVMDILocationGetInlinedAt(self.0) }).map(Self)
    }

    /// The function it is written in.
    pub(crate) fn subprogram(self) -> Option<Subprogram> {
        // SAFETY: as said above the impl.
        metadata(unsafe { bf_shim_subprogram(self.0) }).map(Subprogram)
    }
}

// SAFETY (for every block below): as above.
impl Subprogram {
    pub(crate) fn line(self) -> u32 {
        // SAFETY: as said above the impl.
        unsafe { sys::debuginfo::LLVMDISubprogramGetLine(self.0) }
    }

    /// Path of the source file.
    pub(crate) fn file(self) -> String {
        path(self.0)
    }

    /// The name that the linker knows; empty if debug information does not tell.
    pub(crate) fn linkage_name(self) -> String {
        // SAFETY: as said above the impl.
        text(|length| unsafe { bf_shim_subprogram_name(self.0, true, length) })
    }

    /// The name in the source, without its scope.
    pub(crate) fn name(self) -> String {
        // SAFETY: as said above the impl.
        text(|length| unsafe { bf_shim_subprogram_name(self.0, false, length) })
    }
}

// SAFETY (for every block below): the loop's function was not changed since it came from `Analyses`.
impl Loop {
    /// The loop around it.
    pub(crate) fn parent(self) -> Option<Self> {
        // SAFETY: as said above the impl.
        Some(unsafe { bf_shim_loop_parent(self.0) }).filter(|parent| !parent.is_null()).map(Self)
    }

    /// Where the source says that it begins.
    pub(crate) fn start(self) -> Option<Location> {
        // SAFETY: as said above the impl.
        metadata(unsafe { bf_shim_loop_start(self.0) }).map(Location)
    }
}

// SAFETY (for every block below): as for `Module`.
impl Value {
    /// Where in the source an instruction comes from.
    pub(crate) fn location(self) -> Option<Location> {
        // SAFETY: as said above the impl; asked of instructions only.
        metadata(unsafe { sys::debuginfo::LLVMInstructionGetDebugLoc(self.0) }).map(Location)
    }

    /// The place where a function begins, if it has debug information.
    pub(crate) fn beginning(self) -> Option<Location> {
        use sys::debuginfo::{LLVMDIBuilderCreateDebugLocation, LLVMDISubprogramGetLine, LLVMGetSubprogram};
        // SAFETY: as said above the impl; asked of functions only, which are in a module.
        unsafe {
            let scope = metadata(LLVMGetSubprogram(self.0))?;
            let (context, line) = (LLVMGetModuleContext(LLVMGetGlobalParent(self.0)), LLVMDISubprogramGetLine(scope));
            metadata(LLVMDIBuilderCreateDebugLocation(context, line, 0, scope, ptr::null_mut())).map(Location)
        }
    }

    /// What debug information says of a function.
    pub(crate) fn subprogram(self) -> Option<Subprogram> {
        // SAFETY: as said above the impl; asked of functions only.
        metadata(unsafe { sys::debuginfo::LLVMGetSubprogram(self.0) }).map(Subprogram)
    }
}

impl Analyses {
    /// The innermost loop that a block is in.
    pub(crate) fn innermost_loop(self, block: Block) -> Option<Loop> {
        // SAFETY: as for the other analyses.
        Some(unsafe { bf_shim_loop(self.manager(), block.0) }).filter(|found| !found.is_null()).map(Loop)
    }
}

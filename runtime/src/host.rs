//! The ways out of a program that loads this library late, with one of its own that is instrumented, as Python does: what the
//! program and its libraries call by the names of [`crate::exec`] are the C library's functions then, which come first. Ours are
//! entered in the tables of what they call.
//!
//! A table that cannot be written is left as it is.

use crate::exec;
use object::elf;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kinds of entries that are a function's address and nothing else.
const ADDRESSES: [u32; 2] = if cfg!(target_arch = "x86_64") {
    [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT]
} else {
    [elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT]
};

/// An entry of a table.
#[repr(C)]
struct Entry {
    place: u64,
    /// The symbol in the upper half, the kind in the lower one.
    info: u64,
    _addend: i64,
}

/// Enters ours where the C library's come first.
pub fn install() {
    let mut first = true;
    // SAFETY:
    // - the callback takes what is passed
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut first).cast()) };
    if !first {
        // SAFETY:
        // - the callback takes nothing
        unsafe { libc::dl_iterate_phdr(Some(enter), std::ptr::null_mut()) };
    }
}

/// Whether this library comes before the C library among the objects, which are in the order in which they are searched.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, first: *mut c_void) -> c_int {
    // SAFETY:
    // - the loader gives a valid description, and the answer's place is passed above
    let (object, first) = unsafe { (Object::new(&*info), &mut *first.cast::<bool>()) };
    let [ours, theirs] =
        [install as *const () as usize, libc::getauxval as *const () as usize].map(|at| object.has(at));
    if ours || theirs {
        *first = ours;
    }
    c_int::from(ours || theirs)
}

unsafe extern "C" fn enter(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
    // SAFETY:
    // - the loader gives a valid description of an object that is mapped
    unsafe { Object::new(&*info).enter() };
    0
}

/// An object that is mapped.
struct Object<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

impl<'a> Object<'a> {
    /// # Safety
    ///
    /// It is a valid description.
    unsafe fn new(info: &'a libc::dl_phdr_info) -> Self {
        // SAFETY:
        // - the caller's obligation
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        Self { base: info.dlpi_addr as usize, headers }
    }

    /// Addresses of its parts of a kind.
    fn parts(&self, kind: u32) -> impl Iterator<Item = Range<usize>> {
        let parts = self.headers.iter().filter(move |header| header.p_type == kind);
        let begin = |header: &libc::Elf64_Phdr| self.base.wrapping_add(header.p_vaddr as usize);
        parts.map(move |header| begin(header)..begin(header).wrapping_add(header.p_memsz as usize))
    }

    fn has(&self, address: usize) -> bool {
        self.parts(libc::PT_LOAD).any(|part| part.contains(&address))
    }

    /// What its dynamic section says under a tag; 0: nothing.
    ///
    /// # Safety
    ///
    /// It is mapped.
    unsafe fn says(&self, tag: u32) -> usize {
        let Some(section) = self.parts(libc::PT_DYNAMIC).next() else { return 0 };
        let len = section.len() / size_of::<[u64; 2]>();
        // SAFETY:
        // - the section is pairs of words
        let pairs = unsafe { std::slice::from_raw_parts(section.start as *const [u64; 2], len) };
        let mut known = pairs.iter().take_while(|pair| pair[0] != 0);
        known.find(|pair| pair[0] == tag.into()).map_or(0, |pair| pair[1] as usize)
    }

    /// An address that its dynamic section has under a tag, which some loaders leave as it is in the file.
    ///
    /// # Safety
    ///
    /// It is mapped.
    unsafe fn place(&self, tag: u32) -> Option<usize> {
        // SAFETY:
        // - the caller's obligation
        let place = unsafe { self.says(tag) };
        [place, self.base.wrapping_add(place)].into_iter().find(|&place| self.has(place))
    }

    /// # Safety
    ///
    /// It is mapped.
    unsafe fn enter(&self) {
        // SAFETY:
        // - the caller's obligation
        let (symbols, strings, tables) = unsafe {
            let (Some(symbols), Some(strings)) = (self.place(elf::DT_SYMTAB), self.place(elf::DT_STRTAB)) else {
                return;
            };
            let calls = (self.place(elf::DT_JMPREL), self.says(elf::DT_PLTRELSZ));
            let others = (self.place(elf::DT_RELA), self.says(elf::DT_RELASZ));
            (symbols, strings, [calls, others])
        };
        for (table, bytes) in tables {
            let Some(table) = table else { continue };
            // SAFETY:
            // - a table of so many bytes lies there
            let entries = unsafe { std::slice::from_raw_parts(table as *const Entry, bytes / size_of::<Entry>()) };
            for entry in entries.iter().filter(|entry| ADDRESSES.contains(&(entry.info as u32))) {
                // SAFETY:
                // - the symbols and names of its entries lie in its tables
                let name = unsafe {
                    let symbol = &*(symbols as *const libc::Elf64_Sym).add((entry.info >> 32) as usize);
                    (symbol.st_shndx == elf::SHN_UNDEF)
                        .then(|| CStr::from_ptr((strings + symbol.st_name as usize) as *const _))
                };
                if let Some(ours) = name.and_then(exec::ours) {
                    self.write(self.base.wrapping_add(entry.place as usize), ours);
                }
            }
        }
    }

    /// Writes an address into a table, which may have been made read-only when all was in it.
    fn write(&self, place: usize, address: usize) {
        // SAFETY:
        // - no preconditions
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let begin = (place & !(page - 1)) as *mut c_void;
        // SAFETY:
        // - the page is the table's; what is there can still be read, and is not run
        if unsafe { libc::mprotect(begin, page, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return;
        }
        // SAFETY:
        // - an aligned word of the table, which others only read
        unsafe { AtomicUsize::from_ptr(place as *mut usize) }.store(address, Ordering::Relaxed);
        if self.parts(libc::PT_GNU_RELRO).any(|part| part.contains(&place)) {
            // SAFETY:
            // - as the loader left it
            unsafe { libc::mprotect(begin, page, libc::PROT_READ) };
        }
    }
}

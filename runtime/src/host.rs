//! The ways out of a program that loads this library late, with one of its own that is instrumented, as Python does: what the
//! program and its libraries call by the names of [`crate::exec`] are the C library's functions then, which come first. Ours are
//! entered in the tables of what they call.
//!
//! A table that cannot be written is left as it is.

use crate::exec;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tags of a dynamic section.
mod tag {
    pub const BYTES_OF_CALLS: u64 = 2;
    pub const STRINGS: u64 = 5;
    pub const SYMBOLS: u64 = 6;
    pub const ENTRIES: u64 = 7;
    pub const BYTES_OF_ENTRIES: u64 = 8;
    pub const CALLS: u64 = 23;
}

/// Kinds of entries that are a function's address and nothing else.
const ADDRESSES: [u64; 2] = if cfg!(target_arch = "x86_64") { [6, 7] } else { [1025, 1026] };

/// An entry of a table.
#[repr(C)]
struct Entry {
    place: u64,
    /// The symbol in the upper half, the kind in the lower one.
    info: u64,
    _addend: i64,
}

/// A symbol of a table.
#[repr(C)]
struct Symbol {
    name: u32,
    _info: u16,
    /// Where it is defined; 0: elsewhere.
    section: u16,
    _place: [u64; 2],
}

/// What is looked for among the objects of the process, in the order in which they are searched for symbols.
struct Search {
    /// Whether this library came before the C library; `None`: neither did yet.
    first: Option<bool>,
}

/// Enters ours where the C library's come first.
pub fn install() {
    let mut search = Search { first: None };
    // SAFETY:
    // - the callback takes what is passed
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    if search.first == Some(false) {
        // SAFETY:
        // - the callback takes nothing
        unsafe { libc::dl_iterate_phdr(Some(enter), std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY:
    // - the loader gives a valid description, and the search that is passed above
    let (object, search) = unsafe { (Object::new(&*info), &mut *search.cast::<Search>()) };
    let [ours, theirs] =
        [install as *const () as usize, libc::getauxval as *const () as usize].map(|at| object.has(at));
    if ours || theirs {
        search.first = Some(ours);
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
    unsafe fn says(&self, tag: u64) -> usize {
        let Some(section) = self.parts(libc::PT_DYNAMIC).next() else { return 0 };
        let len = section.len() / size_of::<[u64; 2]>();
        // SAFETY:
        // - the section is pairs of words
        let pairs = unsafe { std::slice::from_raw_parts(section.start as *const [u64; 2], len) };
        let known = pairs.iter().take_while(|pair| pair[0] != 0);
        known.clone().find(|pair| pair[0] == tag).map_or(0, |pair| pair[1] as usize)
    }

    /// An address that its dynamic section has under a tag, which some loaders leave as it is in the file.
    ///
    /// # Safety
    ///
    /// It is mapped.
    unsafe fn place(&self, tag: u64) -> Option<usize> {
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
        let tables = unsafe {
            let (Some(symbols), Some(strings)) = (self.place(tag::SYMBOLS), self.place(tag::STRINGS)) else { return };
            let calls = (self.place(tag::CALLS), self.says(tag::BYTES_OF_CALLS));
            let entries = (self.place(tag::ENTRIES), self.says(tag::BYTES_OF_ENTRIES));
            (symbols, strings, [calls, entries])
        };
        let (symbols, strings, tables) = tables;
        for (table, bytes) in tables {
            let Some(table) = table else { continue };
            // SAFETY:
            // - a table of so many bytes lies there
            let entries = unsafe { std::slice::from_raw_parts(table as *const Entry, bytes / size_of::<Entry>()) };
            for entry in entries.iter().filter(|entry| ADDRESSES.contains(&(entry.info & 0xffff_ffff))) {
                // SAFETY:
                // - the symbols and names of its entries lie in its tables
                let name = unsafe {
                    let symbol = &*(symbols as *const Symbol).add((entry.info >> 32) as usize);
                    (symbol.section == 0).then(|| CStr::from_ptr((strings + symbol.name as usize) as *const _))
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

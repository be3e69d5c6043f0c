//! The runtime's heap: dlmalloc for small blocks, mappings for large ones, under a lock of its own. Small blocks that are given back
//! wait on [`shelves`] first, where the next one of their size is taken from without the lock.
//!
//! The lock is not the C library's, whose mutexes take no atomic step in a program that has no second thread of its own:
//! it does not know of helper threads ([`crate::bare`]).

use crate::shelves::{self, AtRest};
use crate::system::{self, PAGE};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The heap.
pub struct Heap;

static DLMALLOC: Mutex<dlmalloc::Dlmalloc<System>> = Mutex::new(dlmalloc::Dlmalloc::new_with_allocator(System::new()));
/// Bytes mapped.
static HELD: AtomicUsize = AtomicUsize::new(0);

fn lock() -> MutexGuard<'static, dlmalloc::Dlmalloc<System>> {
    DLMALLOC.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of address space that the heap has from the system. Some of it may be pages that were never touched.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Bytes of it that are in memory. Takes a millisecond a gigabyte.
pub fn resident() -> usize {
    let (regions, more) = lock().allocator().regions();
    regions.iter().map(|&(start, size)| in_memory(start, size)).sum::<usize>() + more
}

/// Bytes of `start .. start + size` that are in memory.
fn in_memory(start: usize, size: usize) -> usize {
    /// Pages asked for at a time.
    const PAGES: usize = 4096;
    let mut states = [0_u8; PAGES];
    let mut pages = 0;
    for part in (0..size).step_by(PAGES * PAGE) {
        let bytes = (size - part).min(PAGES * PAGE);
        let states = &mut states[..bytes / PAGE];
        // SAFETY:
        // - room for one byte a page; if the memory was unmapped meanwhile, this fails
        let failed = unsafe { libc::mincore((start + part) as *mut _, bytes, states.as_mut_ptr()) } != 0;
        pages += if failed { 0 } else { states.iter().filter(|&&state| state & 1 != 0).count() };
    }
    pages * PAGE
}

/// Has every `fork` find the heap at rest. Before any other handlers of the runtime are installed: so it comes after them,
/// and is free again before them.
pub fn install() {
    // SAFETY:
    // - the handlers are functions of this library, which is never unloaded
    unsafe { libc::pthread_atfork(Some(prepare), Some(resume), Some(resume_child)) };
}

struct Held(UnsafeCell<Option<(AtRest, MutexGuard<'static, dlmalloc::Dlmalloc<System>>)>>);

// SAFETY:
// - touched only by the thread that forks, while it holds the lock
unsafe impl Sync for Held {}

static AT_REST: Held = Held(UnsafeCell::new(None));

unsafe extern "C" fn prepare() {
    let at_rest = (AtRest::new(), lock());
    // SAFETY:
    // - see `Held`
    unsafe { *AT_REST.0.get() = Some(at_rest) };
}

unsafe extern "C" fn resume() {
    go_on(false);
}

unsafe extern "C" fn resume_child() {
    go_on(true);
}

fn go_on(is_child: bool) {
    // SAFETY:
    // - see `Held`
    let at_rest = unsafe { (*AT_REST.0.get()).take() };
    at_rest.into_iter().for_each(|(shelves, _heap)| shelves.resume(is_child));
}

/// From this size on blocks are mappings of their own: they begin as zero pages that cost nothing until they are used,
/// grow without being copied, and go back to the system at once. dlmalloc's Rust port does none of that.
const OWN_MAPPING: usize = 256 << 10;

fn has_own_mapping(layout: Layout) -> bool {
    layout.size() >= OWN_MAPPING && layout.align() <= PAGE
}

/// Bytes of a block of dlmalloc's.
fn bytes(layout: Layout) -> usize {
    shelves::size(layout).map_or(layout.size(), |size| size.bytes)
}

/// Whole pages.
fn pages(size: usize) -> usize {
    size.next_multiple_of(PAGE)
}

/// A mapping of zero pages; null if there is none to be had.
fn map(size: usize) -> *mut u8 {
    system::map(size, 0).cast()
}

/// Another size for a mapping, at another place if need be; null, and nothing changed, if that cannot be had.
///
/// # Safety
///
/// The caller's mapping.
unsafe fn remap(start: *mut u8, old: usize, new: usize, flags: libc::c_int) -> *mut u8 {
    // SAFETY:
    // - the caller's obligation
    let mut moved = unsafe { system::remap(start.cast(), old, new, 0, ptr::null_mut()) };
    if !moved.is_null() {
        system::map_behind(start as usize + new);
    } else if flags & libc::MREMAP_MAYMOVE != 0 {
        // To a place of the same kind, which another mapping keeps until then.
        let place = map(new);
        if !place.is_null() {
            // SAFETY:
            // - the caller's obligation, and a mapping that nobody else knows
            moved = unsafe { system::remap(start.cast(), old, new, flags | libc::MREMAP_FIXED, place.cast()) };
            if moved.is_null() {
                // SAFETY:
                // - mapped above, and nobody else knows it
                unsafe { system::unmap(place.cast(), new) };
            }
        }
        if moved.is_null() {
            // Where there is no room for both, anywhere.
            // SAFETY:
            // - the caller's obligation
            moved = unsafe { system::remap(start.cast(), old, new, flags, ptr::null_mut()) };
        }
    }
    moved.cast()
}

// SAFETY:
// - blocks of one size are all mappings or all dlmalloc's, which does one call at a time
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if has_own_mapping(layout) {
            let block = map(pages(layout.size()));
            if !block.is_null() {
                lock().allocator().add(block as usize, pages(layout.size()));
            }
            return block;
        }
        let Some(size) = shelves::size(layout) else {
            // SAFETY:
            // - any size and alignment of a layout will do
            return unsafe { lock().malloc(layout.size(), layout.align()) };
        };
        let block = shelves::pick(size);
        if !block.is_null() {
            return block;
        }
        let mut heap = lock();
        // Others will be wanted, too, without the lock.
        for _ in 1..shelves::AT_ONCE / size.bytes {
            // SAFETY:
            // - as above
            let more = unsafe { heap.malloc(size.bytes, layout.align()) };
            // SAFETY:
            // - allocated just now, with the size of a shelf's blocks, and dlmalloc aligns all as shelves want them
            if more.is_null() || !unsafe { shelves::put(more, size) } {
                return more;
            }
        }
        // SAFETY:
        // - as above
        unsafe { heap.malloc(size.bytes, layout.align()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if has_own_mapping(layout) {
            let size = pages(layout.size());
            lock().allocator().remove(block as usize, size);
            // SAFETY:
            // - mapped by `alloc` with this size, and given back
            unsafe { system::unmap(block.cast(), size) };
            return;
        }
        // SAFETY:
        // - the caller's obligation: allocated here, with this layout, and dlmalloc aligns all blocks as shelves want them
        unsafe {
            if !shelves::size(layout).is_some_and(|size| shelves::put(block, size)) {
                lock().free(block, bytes(layout), layout.align());
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if has_own_mapping(layout) {
            // SAFETY:
            // - the caller's obligation
            return unsafe { self.alloc(layout) };
        }
        let block = shelves::size(layout).map_or(ptr::null_mut(), shelves::pick);
        if !block.is_null() {
            // SAFETY:
            // - it has as many bytes, and more
            unsafe { block.write_bytes(0, layout.size()) };
            return block;
        }
        // SAFETY:
        // - as in `alloc`
        unsafe { lock().calloc(bytes(layout), layout.align()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY:
        // - the caller's obligation: the size rounded up to the alignment does not overflow
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (has_own_mapping(layout), has_own_mapping(new)) {
            (false, false) if bytes(layout) == bytes(new) => block,
            // The small block may serve another.
            (false, false) if shelves::size(layout).is_none() => unsafe {
                // SAFETY:
                // - as in `dealloc`
                lock().realloc(block, bytes(layout), layout.align(), bytes(new))
            },
            (true, true) => {
                let (old, new) = (pages(layout.size()), pages(size));
                // SAFETY:
                // - mapped by `alloc` with this size
                let moved = unsafe { remap(block, old, new, libc::MREMAP_MAYMOVE) };
                if !moved.is_null() {
                    let heap = lock();
                    heap.allocator().remove(block as usize, old);
                    heap.allocator().add(moved as usize, new);
                }
                moved
            }
            // SAFETY:
            // - as in `alloc` and `dealloc`; both blocks have as many bytes as are copied, and they are not the same
            _ => unsafe {
                let moved = self.alloc(new);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

/// dlmalloc maps such a part of what the heap has, but not more than this at a time, which it would give back at once.
const PART: usize = 64;
const MOST_AT_ONCE: usize = 1 << 20;

/// Mappings kept apart. Neighbours are one, and what the heap maps is large: a heap of gigabytes has some tens of them.
const REGIONS: usize = 1024;

/// Mappings, and a record of them.
struct System {
    /// Start and size, in any order; size 0: none.
    regions: UnsafeCell<[(usize, usize); REGIONS]>,
}

// SAFETY:
// - plain data, owned
unsafe impl Send for System {}

impl System {
    const fn new() -> Self {
        Self { regions: UnsafeCell::new([(0, 0); REGIONS]) }
    }

    /// A copy of the record, and how many bytes it lacks.
    fn regions(&self) -> ([(usize, usize); REGIONS], usize) {
        // SAFETY:
        // - whoever has a reference to the allocator holds the lock
        let regions = unsafe { *self.regions.get() };
        (regions, held().saturating_sub(regions.iter().map(|&(_, size)| size).sum()))
    }

    fn add(&self, start: usize, size: usize) {
        HELD.fetch_add(size, Ordering::Relaxed);
        // SAFETY:
        // - as in `regions`
        let regions = unsafe { &mut *self.regions.get() };
        let (mut start, mut size) = (start, size);
        // Neighbours become one.
        for region in regions.iter_mut().filter(|region| region.1 > 0) {
            if region.0 + region.1 == start || start + size == region.0 {
                (start, size) = (start.min(region.0), size + region.1);
                *region = (0, 0);
            }
        }
        // One that finds no place is counted as in memory.
        if let Some(free) = regions.iter_mut().find(|region| region.1 == 0) {
            *free = (start, size);
        }
    }

    fn remove(&self, start: usize, size: usize) {
        HELD.fetch_sub(size, Ordering::Relaxed);
        // SAFETY:
        // - as in `regions`
        let regions = unsafe { &mut *self.regions.get() };
        let end = start + size;
        let mut above = (0, 0);
        for region in regions.iter_mut().filter(|region| region.1 > 0) {
            let (first, last) = (region.0, region.0 + region.1);
            if first < end && start < last {
                *region = (first, start.saturating_sub(first));
                if last > end {
                    above = (end, last - end);
                }
            }
        }
        if above.1 > 0
            && let Some(free) = regions.iter_mut().find(|region| region.1 == 0)
        {
            *free = above;
        }
    }
}

// SAFETY:
// - anonymous mappings, given out and taken back as asked
unsafe impl dlmalloc::Allocator for System {
    /// Maps more than was asked for where it already has much: dlmalloc looks through all its mappings for each new one, and they do not
    /// lie side by side where the program makes threads.
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let more = pages((held() / PART).min(MOST_AT_ONCE)).max(size);
        let mut mapped = [more, size].into_iter().map(|size| (map(size), size));
        let Some((start, size)) = mapped.find(|(start, _)| !start.is_null()) else {
            return (ptr::null_mut(), 0, 0);
        };
        self.add(start as usize, size);
        (start, size, 0)
    }

    fn remap(&self, block: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        // SAFETY:
        // - dlmalloc's own mapping
        let moved = unsafe { remap(block, old, new, if can_move { libc::MREMAP_MAYMOVE } else { 0 }) };
        if !moved.is_null() {
            self.remove(block as usize, old);
            self.add(moved as usize, new);
        }
        moved
    }

    fn free_part(&self, block: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY:
        // - the end of dlmalloc's own mapping, which it no longer uses
        let freed = unsafe { system::unmap(block.add(new).cast(), old - new) };
        if freed {
            self.remove(block as usize + new, old - new);
        }
        freed
    }

    fn free(&self, block: *mut u8, size: usize) -> bool {
        // SAFETY:
        // - dlmalloc's own mapping, which it no longer uses
        let freed = unsafe { system::unmap(block.cast(), size) };
        if freed {
            self.remove(block as usize, size);
        }
        freed
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(system: &System) -> Vec<(usize, usize)> {
        let (regions, _) = system.regions();
        let mut regions: Vec<_> = regions.into_iter().filter(|region| region.1 > 0).collect();
        regions.sort_unstable();
        regions
    }

    #[test]
    fn mappings_are_known_whatever_parts_they_go_in() {
        let system = System::new();
        system.add(0x10_0000, 0x4000);
        system.add(0x20_0000, 0x1000);
        system.add(0x10_4000, 0x2000);
        system.add(0x0f_f000, 0x1000);
        assert_eq!(regions(&system), [(0x0f_f000, 0x7000), (0x20_0000, 0x1000)]);
        system.remove(0x10_1000, 0x1000);
        assert_eq!(regions(&system), [(0x0f_f000, 0x2000), (0x10_2000, 0x4000), (0x20_0000, 0x1000)]);
        system.remove(0x10_5000, 0x1000);
        system.remove(0x20_0000, 0x1000);
        assert_eq!(regions(&system), [(0x0f_f000, 0x2000), (0x10_2000, 0x3000)]);
        system.remove(0x10_2000, 0x3000);
        system.remove(0x0f_f000, 0x2000);
        assert_eq!(regions(&system), []);
    }

    #[test]
    fn blocks_keep_their_contents_across_all_sizes() {
        let mut bytes: Vec<u8> = Vec::new();
        for size in [100, OWN_MAPPING - 1, OWN_MAPPING, 3 * OWN_MAPPING + 1, 40 * OWN_MAPPING, OWN_MAPPING, 50] {
            let filled = bytes.len().min(size);
            bytes.truncate(size);
            bytes.shrink_to_fit();
            bytes.reserve_exact(size - filled);
            bytes.extend((filled..size).map(|at| (at % 251) as u8));
            assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8), "{size}");
        }
        assert_eq!(vec![0_u64; OWN_MAPPING].iter().sum::<u64>(), 0);
    }

    #[test]
    fn pages_count_once_they_were_touched() {
        // Other tests allocate too, but not so much.
        const OTHERS: usize = 64 << 20;
        let (before, all) = (resident(), held());
        let mut zeros = vec![0_u8; 8 * OTHERS];
        let (untouched, more) = (resident(), held());
        (0..zeros.len() / 2).step_by(PAGE).for_each(|at| zeros[at] = 1);
        let half = resident();
        assert!(more > all + 7 * OTHERS && untouched < before + OTHERS);
        assert!((3 * OTHERS..5 * OTHERS).contains(&(half - untouched)));
        drop(std::hint::black_box(zeros));
    }
}

//! Small blocks of the heap that were given back and wait for the next one of their size, so that threads seldom meet at the heap's
//! lock.
//!
//! There are several shelves, and which one a thread takes from or puts on depends on where its stack is: no thread-local variables,
//! which helper threads and threads that end do not have. A shelf that another thread is at is passed by.
//!
//! Invariant: whatever is on a shelf is a block of the heap of that size, aligned to [`ALIGNED`], that nobody uses.

use std::alloc::Layout;
use std::array;
use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes to which all of them are aligned, and between the least sizes.
const ALIGNED: usize = 16;
/// Greatest size.
const MOST: usize = 1 << 15;
/// Sizes: multiples of 16 up to 64, then four up to each power of two.
const SIZES: usize = 4 * (MOST.ilog2() - 5) as usize;
/// Bytes of a size that may wait, if more than one block.
const WAITING: usize = 1 << 17;
/// Bytes that are allocated at once where none of a size waits.
pub(crate) const AT_ONCE: usize = 1 << 11;
const SHELVES: usize = 64;
/// log2 of the bytes between stacks that take from different shelves.
const APART: u32 = 17;
/// A shelf at which a thread is for so long is taken for lost to a child process.
const TRIES: u32 = 1 << 16;

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    number: usize,
    pub(crate) bytes: usize,
}

/// The size of a block on a shelf, for as much as a layout says or more; `None` if there are none of it.
pub(crate) fn size(layout: Layout) -> Option<Size> {
    if layout.size() > MOST || layout.align() > ALIGNED {
        return None;
    }
    let last = layout.size().max(1) - 1;
    if last < 4 * ALIGNED {
        return Some(Size { number: last / ALIGNED, bytes: (last / ALIGNED + 1) * ALIGNED });
    }
    let shift = last.ilog2() - 2;
    let quarter = last >> shift;
    Some(Size { number: 4 * (shift as usize - 3) + quarter - 4, bytes: (quarter + 1) << shift })
}

/// Blocks of one size: the last one first, each of which begins with the address of the next.
#[derive(Clone, Copy)]
struct Pile {
    top: *mut u8,
    blocks: usize,
}

const NOTHING: [Pile; SIZES] = [Pile { top: ptr::null_mut(), blocks: 0 }; SIZES];

#[repr(align(128))]
struct Shelf {
    taken: AtomicBool,
    piles: UnsafeCell<[Pile; SIZES]>,
}

// SAFETY:
// - `piles` is touched only by the thread that found `taken` false and made it true
unsafe impl Sync for Shelf {}

static ALL: [Shelf; SHELVES] = [const { Shelf::new() }; SHELVES];

impl Shelf {
    const fn new() -> Self {
        Self { taken: AtomicBool::new(false), piles: UnsafeCell::new(NOTHING) }
    }

    fn of_this_thread() -> &'static Self {
        let here = 0_u8;
        let stack = black_box(&raw const here).addr() as u64 >> APART;
        &ALL[(stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHELVES.ilog2())) as usize]
    }

    fn take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire)
    }

    fn leave(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Changes a pile, unless another thread is here.
    #[inline]
    fn change<R>(&self, size: Size, change: impl FnOnce(&mut Pile) -> R) -> Option<R> {
        self.take().then(|| {
            // SAFETY:
            // - this thread has taken the shelf, and nothing below comes here again
            let changed = change(unsafe { &mut (*self.piles.get())[size.number] });
            self.leave();
            changed
        })
    }

    #[inline]
    fn pick(&self, size: Size) -> *mut u8 {
        let pick = |pile: &mut Pile| {
            let top = pile.top;
            if !top.is_null() {
                // SAFETY:
                // - a block that nobody uses, aligned, which `put` began with that
                pile.top = unsafe { top.cast::<*mut u8>().read() };
                pile.blocks -= 1;
            }
            top
        };
        self.change(size, pick).unwrap_or(ptr::null_mut())
    }

    /// # Safety
    ///
    /// As for [`put`].
    #[inline]
    unsafe fn put(&self, block: *mut u8, size: Size) -> bool {
        let put = |pile: &mut Pile| {
            let has_room = pile.blocks == 0 || (pile.blocks + 1) * size.bytes <= WAITING;
            if has_room {
                // SAFETY:
                // - the caller's obligation: aligned, and as long as an address at least
                unsafe { block.cast::<*mut u8>().write(pile.top) };
                *pile = Pile { top: block, blocks: pile.blocks + 1 };
            }
            has_room
        };
        self.change(size, put).unwrap_or(false)
    }
}

/// A block that waits; null if there is none.
#[inline]
pub(crate) fn pick(size: Size) -> *mut u8 {
    Shelf::of_this_thread().pick(size)
}

/// Takes a block that nobody uses any more; whether there was room.
///
/// # Safety
///
/// The heap's, of this size, aligned to [`ALIGNED`].
#[inline]
pub(crate) unsafe fn put(block: *mut u8, size: Size) -> bool {
    // SAFETY:
    // - the caller's obligation
    unsafe { Shelf::of_this_thread().put(block, size) }
}

/// All shelves, while a process forks.
pub(crate) struct AtRest([bool; SHELVES]);

impl AtRest {
    /// Waits until no thread is at any of them, but not for ever: one may have been stopped there.
    pub(crate) fn new() -> Self {
        Self(array::from_fn(|number| {
            (0..TRIES).any(|_| {
                spin_loop();
                ALL[number].take()
            })
        }))
    }

    /// Goes on. What lies where a thread was does so only where that still is.
    pub(crate) fn resume(self, is_child: bool) {
        for (shelf, was_free) in ALL.iter().zip(self.0) {
            if is_child && !was_free {
                // SAFETY:
                // - no other thread is in this process, and the one at this shelf is not here
                unsafe { *shelf.piles.get() = NOTHING };
            }
            if is_child || was_free {
                shelf.leave();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_near_and_in_order() {
        let mut last = Size { number: 0, bytes: ALIGNED };
        for bytes in 0..=MOST {
            let size = size(Layout::from_size_align(bytes, 8).unwrap()).unwrap();
            assert!(size.bytes >= bytes && size.bytes < bytes.max(1) + (bytes / 4).max(ALIGNED), "{bytes}: {size:?}");
            assert!(size == last || size.number == last.number + 1 && size.bytes > last.bytes, "{size:?} {last:?}");
            last = size;
        }
        assert_eq!(last, Size { number: SIZES - 1, bytes: MOST });
        assert_eq!(size(Layout::from_size_align(MOST + 1, 8).unwrap()), None);
        assert_eq!(size(Layout::from_size_align(100, 32).unwrap()), None);
    }

    #[test]
    fn blocks_wait_up_to_a_limit() {
        const ROOM: usize = WAITING / MOST;
        let size = size(Layout::from_size_align(MOST - 1, ALIGNED).unwrap()).unwrap();
        let mut blocks = vec![[0_u128; MOST / ALIGNED]; ROOM + 1];
        let all: Vec<*mut u8> = blocks.iter_mut().map(|block| block.as_mut_ptr().cast()).collect();
        let shelf = Shelf::new();
        // SAFETY:
        // - aligned, of that size, and nobody uses them
        let put = |at: usize| unsafe { shelf.put(all[at], size) };
        assert!((0..ROOM).all(put) && !put(ROOM));
        assert!((0..ROOM).rev().all(|at| shelf.pick(size) == all[at]) && shelf.pick(size).is_null());
        // Where another thread is nothing is waited for.
        assert!(shelf.take());
        assert_eq!((put(0), shelf.pick(size)), (false, ptr::null_mut()));
        shelf.leave();
        assert!(put(ROOM) && shelf.pick(size) == all[ROOM]);
    }
}

//! Memory to measure with: anonymous pages of a chosen size, touched by the thread that asks, so that they lie on its node, or
//! on another that it names.

use super::node;
use nix::{
    errno::Errno,
    sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap},
    unistd::{SysconfVar, sysconf},
};
use serde::Serialize;
use std::{ffi::c_void, fs, num::NonZeroUsize, ptr::NonNull};

/// Bytes of a large page on x86-64, and on aarch64 with 4 KiB base pages.
pub const LARGE: usize = 2 << 20;

/// Which pages to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// The system's own small pages, never made larger behind our back.
    Base,
    /// 2 MiB: reserved ones if there are any, else transparent ones, else small ones.
    #[default]
    Large,
    /// 1 GiB, reserved ones only; else as `Large`.
    Giant,
}

/// What a buffer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Got {
    /// Bytes of the pages of most of the buffer.
    pub page_bytes: usize,
    /// Bytes of the buffer on such pages.
    pub bytes: usize,
}

/// Zeroed pages of one's own. Nothing ever makes a reference to what is in them: all accesses are instructions of this
/// module's neighbours, so threads may share a buffer as they share memory in assembly.
#[derive(Debug)]
pub struct Buffer {
    mapping: NonNull<c_void>,
    mapped: usize,
    start: usize,
    bytes: usize,
    got: Got,
}

// SAFETY:
// - the mapping belongs to the buffer alone, and unmapping it is the only thing that needs ownership;
// - its contents are only accessed by assembly and atomics, for which races are defined.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Bytes of a small page.
#[must_use]
pub fn base_page() -> usize {
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| usize::try_from(size).ok()).unwrap_or(4096)
}

impl Buffer {
    /// At least `bytes` bytes, aligned to the page asked for, all touched.
    ///
    /// # Errors
    /// The system has not that much memory.
    pub fn new(bytes: usize, pages: Pages) -> Result<Self, Errno> {
        Self::placed(bytes, pages, None)
    }

    /// As [`Buffer::new`], with memory of `node` as far as that has any; never on reserved pages, which nodes have or have not.
    ///
    /// # Errors
    /// The system has not that much memory, or no such node, or does not let this process choose.
    pub fn on_node(bytes: usize, pages: Pages, node: u32) -> Result<Self, Errno> {
        Self::placed(bytes, pages, Some(node))
    }

    fn placed(bytes: usize, pages: Pages, on: Option<u32>) -> Result<Self, Errno> {
        let round = |unit: usize| bytes.max(1).div_ceil(unit) * unit;
        let reserved = match pages {
            _ if on.is_some() => None,
            Pages::Base => None,
            Pages::Large => Self::reserved(round(LARGE), MapFlags::MAP_HUGE_2MB, LARGE),
            Pages::Giant => Self::reserved(round(1 << 30), MapFlags::MAP_HUGE_1GB, 1 << 30)
                .or_else(|| Self::reserved(round(LARGE), MapFlags::MAP_HUGE_2MB, LARGE)),
        };
        if let Some(buffer) = reserved {
            return Ok(buffer);
        }
        let large = pages != Pages::Base;
        let bytes = round(if large { LARGE } else { base_page() });
        // Room to align within.
        let mapped = bytes + if large { LARGE } else { 0 };
        let mapping = map(mapped, MapFlags::empty())?;
        let start = if large { mapping.addr().get().next_multiple_of(LARGE) } else { mapping.addr().get() };
        let advice = if large { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        // SAFETY: the range is the mapping made above, and the advice changes no contents.
        // A kernel without transparent huge pages refuses; the buffer then has small pages and says so.
        let _ = unsafe { madvise(mapping, mapped, advice) };
        // From here on the mapping goes with the buffer.
        let mut buffer = Self { mapping, mapped, start, bytes, got: Got { page_bytes: base_page(), bytes } };
        if let Some(on) = on {
            node::prefer(mapping.addr().get(), mapped, on)?;
        }
        buffer.touch(base_page());
        if large {
            let large_bytes = transparent(start, bytes).unwrap_or(0);
            if large_bytes * 2 > bytes {
                buffer.got = Got { page_bytes: LARGE, bytes: large_bytes };
            }
        }
        Ok(buffer)
    }

    /// Pages set aside by the administrator, if there are enough.
    fn reserved(bytes: usize, size: MapFlags, page_bytes: usize) -> Option<Self> {
        let mapping = map(bytes, MapFlags::MAP_HUGETLB | size).ok()?;
        let got = Got { page_bytes, bytes };
        let buffer = Self { mapping, mapped: bytes, start: mapping.addr().get(), bytes, got };
        buffer.touch(page_bytes);
        Some(buffer)
    }

    fn touch(&self, step: usize) {
        for at in (0..self.bytes).step_by(step) {
            self.put(at, 0);
        }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start
    }

    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// On which pages it lies.
    #[must_use]
    pub fn got(&self) -> Got {
        self.got
    }

    /// Which part of it lies on a node; `None` if the kernel does not say.
    #[must_use]
    pub fn share_on(&self, node: u32) -> Option<f64> {
        node::share(self.start, self.bytes, base_page(), node).ok()
    }

    /// Stores a word at a multiple of eight.
    ///
    /// # Panics
    /// The word is not within the buffer, or not aligned.
    pub fn put(&self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "word {at} of {} bytes", self.bytes);
        let place = self.mapping.as_ptr().with_addr(self.start + at).cast::<u64>();
        // SAFETY: the word is aligned and within the mapping, which lives as long as `self` and is writable.
        unsafe { place.write_volatile(word) }
    }

    /// Loads a word at a multiple of eight.
    ///
    /// # Panics
    /// The word is not within the buffer, or not aligned.
    #[must_use]
    pub fn get(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "word {at} of {} bytes", self.bytes);
        let place = self.mapping.as_ptr().with_addr(self.start + at).cast::<u64>();
        // SAFETY: the word is aligned and within the mapping, which lives as long as `self`.
        unsafe { place.read_volatile() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is this buffer's own, and nothing refers into it any more.
        let _ = unsafe { munmap(self.mapping, self.mapped) };
    }
}

fn map(bytes: usize, flags: MapFlags) -> Result<NonNull<c_void>, Errno> {
    let bytes = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
    unsafe { mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE | flags) }
}

/// Bytes of `[start, start + bytes)` that are on transparent huge pages, by `/proc/self/smaps`.
fn transparent(start: usize, bytes: usize) -> Option<usize> {
    transparent_in(&fs::read_to_string("/proc/self/smaps").ok()?, start, bytes)
}

/// The kernel may have merged neighbouring mappings, so what it says can be of more than the range: cut to it.
fn transparent_in(smaps: &str, start: usize, bytes: usize) -> Option<usize> {
    let mut inside = false;
    let mut sum = 0;
    for line in smaps.lines() {
        let word = line.split_whitespace().next()?;
        if let Some((first, last)) = word.split_once('-') {
            let range = usize::from_str_radix(first, 16).ok()?..usize::from_str_radix(last, 16).ok()?;
            inside = range.start < start + bytes && start < range.end;
        } else if inside && word == "AnonHugePages:" {
            sum += line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10;
        }
    }
    Some(sum.min(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_as_large_as_asked_for() {
        for (pages, align) in [(Pages::Base, base_page()), (Pages::Large, LARGE), (Pages::Giant, LARGE)] {
            let buffer = Buffer::new(3 << 20, pages).unwrap();
            assert!(buffer.bytes() >= 3 << 20 && buffer.address().is_multiple_of(align), "{pages:?} {buffer:?}");
            assert!(buffer.got().bytes <= buffer.bytes());
            buffer.put(buffer.bytes() - 8, 7);
        }
        assert_eq!(Buffer::new(1, Pages::Base).unwrap().got().page_bytes, base_page());
    }

    #[test]
    #[should_panic(expected = "word")]
    fn nothing_is_written_outside() {
        let buffer = Buffer::new(4096, Pages::Base).unwrap();
        buffer.put(buffer.bytes(), 0);
    }

    #[test]
    fn smaps_of_the_range_count_and_no_others() {
        let smaps = "1000-3000 rw-p 0 00:00 0\nRss: 8 kB\nAnonHugePages:      8 kB\nVmFlags: rd\n\
                     400000-c00000 rw-p 0 00:00 0\nAnonHugePages:   6144 kB\n";
        assert_eq!(transparent_in(smaps, 0x40_0000, 8 << 20), Some(6 << 20));
        assert_eq!(transparent_in(smaps, 0x40_0000, 2 << 20), Some(2 << 20));
        assert_eq!(transparent_in(smaps, 0x1000_0000, 4096), Some(0));
    }
}

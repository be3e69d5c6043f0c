//! Chains of pointers through chosen places of a buffer, and what can be done to the lines they pass.

use super::{clock::ticks, pages::Buffer};
use std::arch::asm;

/// A closed chain: each place holds the address of the next, in an order that no prefetcher guesses. The second word of
/// each place is free for stores, so the chain survives everything done to its lines.
#[derive(Debug)]
pub struct Chain {
    buffer: Buffer,
    places: Vec<usize>,
    /// Where the next walk begins: an address of a place.
    position: usize,
}

/// What is done to each line of a chain, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// One load.
    Read,
    /// One store.
    Write,
    /// Thrown out of all caches of the machine, written back where necessary.
    Flush,
}

/// Loads in one turn of the walking loop.
pub const UNROLLED: u64 = 16;

impl Chain {
    /// A chain through all `places`, offsets into `buffer`, in a random order that `seed` decides: a single cycle
    /// (Sattolo's algorithm).
    ///
    /// # Panics
    /// There is no place, or one is not a multiple of 16, or outside the buffer.
    #[must_use]
    pub fn new(buffer: Buffer, places: Vec<usize>, seed: u64) -> Self {
        assert!(!places.is_empty(), "a chain has places");
        let mut order = places.clone();
        let mut random = Random(seed);
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last));
        }
        for (index, &place) in order.iter().enumerate() {
            assert!(place.is_multiple_of(16) && place + 16 <= buffer.bytes(), "place {place} of a chain");
            let next = order[(index + 1) % order.len()];
            buffer.put(place, (buffer.address() + next) as u64);
        }
        let position = buffer.address() + order[0];
        Self { buffer, places, position }
    }

    /// A chain through every line of the first `bytes` bytes of `buffer`.
    #[must_use]
    pub fn lines(buffer: Buffer, bytes: usize, line: usize, seed: u64) -> Self {
        let places = (0..bytes.min(buffer.bytes())).step_by(line).collect();
        Self::new(buffer, places, seed)
    }

    /// How many places.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The memory it lies in.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Follows the chain for `loads` loads, rounded up to a multiple of [`UNROLLED`], from where the last walk ended.
    /// Returns the ticks it took, those of the clock itself included, and the loads.
    pub fn walk(&mut self, loads: u64) -> (u64, u64) {
        let turns = loads.div_ceil(UNROLLED).max(1);
        let begin = ticks();
        // SAFETY:
        // - `position` is the address of a place, and each place holds the address of a place: only `new` stores into
        //   first words, and no other method of the crate is given the buffer to write to;
        // - registers that change are operands.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                "2:",
                ".rept 16",
                "mov {p}, [{p}]",
                ".endr",
                "dec {turns}",
                "jnz 2b",
                p = inout(reg) self.position, turns = inout(reg) turns => _, options(nostack, readonly)
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                "2:",
                ".rept 16",
                "ldr {p}, [{p}]",
                ".endr",
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
                p = inout(reg) self.position, turns = inout(reg) turns => _, options(nostack, readonly)
            );
        }
        let end = ticks();
        (end.saturating_sub(begin), turns * UNROLLED)
    }

    /// As [`Chain::walk`], and makes an atomic addition to each place on the way, which no later load overtakes: a step
    /// takes as long as the line needs to become the core's own.
    pub fn walk_owning(&mut self, steps: u64) -> u64 {
        let begin = ticks();
        // SAFETY: as in `walk`; the addition is to the second word of a place.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                "2:",
                "lock add qword ptr [{p} + 8], 1",
                "mov {p}, [{p}]",
                "dec {steps}",
                "jnz 2b",
                p = inout(reg) self.position, steps = inout(reg) steps.max(1) => _, options(nostack)
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                "2:",
                "add {q}, {p}, #8",
                "3:",
                "ldaxr {v}, [{q}]",
                "add {v}, {v}, #1",
                "stlxr {f:w}, {v}, [{q}]",
                "cbnz {f:w}, 3b",
                "ldr {p}, [{p}]",
                "subs {steps}, {steps}, #1",
                "b.ne 2b",
                p = inout(reg) self.position, steps = inout(reg) steps.max(1) => _,
                q = out(reg) _, v = out(reg) _, f = out(reg) _, options(nostack)
            );
        }
        ticks().saturating_sub(begin)
    }

    /// Follows the chain one load at a time, each between two readings of the clock, and gives what each took, the clock
    /// included, to `each`.
    pub fn walk_timed(&mut self, loads: u64, mut each: impl FnMut(u64)) {
        for _ in 0..loads {
            let begin = ticks();
            // SAFETY: as in `walk`.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                asm!("mov {p}, [{p}]", p = inout(reg) self.position, options(nostack, readonly));
            }
            // SAFETY: as in `walk`.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                asm!("ldr {p}, [{p}]", p = inout(reg) self.position, options(nostack, readonly));
            }
            each(ticks().saturating_sub(begin));
        }
    }

    /// Does the same to every line, in the order of addresses, and waits until it is done. Returns the ticks it took.
    pub fn touch(&self, touch: Touch) -> u64 {
        let begin = ticks();
        for &place in &self.places {
            touch_line(self.buffer.address() + place, touch);
        }
        fence();
        ticks().saturating_sub(begin)
    }
}

/// Throws the first `bytes` bytes of a buffer out of all caches, `line` bytes at a time.
pub fn flush(buffer: &Buffer, bytes: usize, line: usize) {
    for at in (0..bytes.min(buffer.bytes())).step_by(line) {
        touch_line(buffer.address() + at, Touch::Flush);
    }
    fence();
}

/// # Panics
/// Never; `place` is that of a chain, or a flush within a buffer, by construction.
fn touch_line(place: usize, touch: Touch) {
    // SAFETY:
    // - `place` is a place of a living chain, 16 bytes of its buffer, or for a flush any byte of one;
    // - the store is to the second word, which holds nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        match touch {
            Touch::Read => asm!("mov {v}, [{p}]", p = in(reg) place, v = out(reg) _, options(nostack, readonly)),
            Touch::Write => asm!("mov [{p} + 8], {p}", p = in(reg) place, options(nostack)),
            Touch::Flush => asm!("clflush [{p}]", p = in(reg) place, options(nostack)),
        }
    }
    // SAFETY: as above; Linux lets user programs clean and invalidate lines.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        match touch {
            Touch::Read => asm!("ldr {v}, [{p}]", p = in(reg) place, v = out(reg) _, options(nostack, readonly)),
            Touch::Write => asm!("str {p}, [{p}, #8]", p = in(reg) place, options(nostack)),
            Touch::Flush => asm!("dc civac, {p}", p = in(reg) place, options(nostack)),
        }
    }
}

/// Waits until all earlier loads, stores and flushes are done.
fn fence() {
    // SAFETY: changes nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mfence", options(nostack))
    };
    // SAFETY: changes nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("dsb sy", options(nostack))
    };
}

/// SplitMix64: enough to shuffle with, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; its bias, below one in 2^32 for bounds that fit memory, does not matter here.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pages::Pages;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn followed(chain: &Chain) -> BTreeSet<usize> {
        let start = chain.buffer.address();
        let mut at = chain.position - start;
        let mut seen = BTreeSet::new();
        while seen.insert(at) {
            at = usize::try_from(chain.buffer.get(at)).unwrap() - start;
        }
        assert_eq!(at, chain.position - start, "it closes where it began");
        seen
    }

    proptest! {
        #[test]
        fn a_chain_is_one_cycle_through_all_its_places(lines in proptest::collection::btree_set(0usize..256, 1..100), seed: u64) {
            let places: Vec<usize> = lines.iter().map(|line| line * 64).collect();
            let chain = Chain::new(Buffer::new(256 * 64, Pages::Base).unwrap(), places.clone(), seed);
            prop_assert_eq!(followed(&chain), places.into_iter().collect());
        }
    }

    #[test]
    fn whatever_is_done_to_its_lines_the_chain_stays() {
        let mut chain = Chain::lines(Buffer::new(8192, Pages::Base).unwrap(), 8192, 64, 3);
        let before = followed(&chain);
        for touch in [Touch::Write, Touch::Flush, Touch::Read] {
            chain.touch(touch);
        }
        chain.walk_owning(300);
        let (_, loads) = chain.walk(17);
        let mut times = 0;
        chain.walk_timed(9, |_| times += 1);
        assert_eq!((loads, times), (32, 9));
        assert_eq!(followed(&chain), before);
        assert_eq!(before.len(), 128);
    }

    /// 128 places, 300 steps: 44 places are passed three times, the others twice.
    #[test]
    fn owning_adds_one_at_each_place_it_passes() {
        let mut chain = Chain::lines(Buffer::new(8192, Pages::Base).unwrap(), 8192, 64, 3);
        chain.walk_owning(300);
        let sums: Vec<u64> = (0..8192).step_by(64).map(|at| chain.buffer.get(at + 8)).collect();
        assert_eq!((sums.iter().sum::<u64>(), sums.iter().filter(|sum| **sum == 3).count()), (300, 44));
    }
}

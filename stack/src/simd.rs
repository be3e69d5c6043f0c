//! The inner operations of the tiers for what the processor offers, chosen at run time: AVX-512, AVX2, or plain Rust. The
//! only module of this crate with `unsafe`.
//!
//! What is read as a vector is written as a vector too: a narrow store followed by a wide load of the same place would
//! have to wait for the store to reach the cache.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vector instructions"))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
use crate::Limits;
use crate::newest::Stamps;
use crate::older::Time;
use crate::recent;
use crate::sets::{self, PART, Part};
use crate::timeline::{Blocks, FAN, Groups, Live};
use crate::top::{Order, Top};

/// Which instructions an engine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// AVX-512 F, BW, VL and BITALG, and GFNI.
    Avx512,
    /// AVX2.
    Avx2,
    /// Whatever the compiler's target has.
    Portable,
}

impl Instructions {
    /// All of them, best first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// What they are called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    /// Whether this processor has them.
    #[must_use]
    pub fn available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bitalg")
                    && is_x86_feature_detected!("gfni")
                    && Self::Avx2.available()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }

    /// The best available.
    #[must_use]
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|instructions| instructions.available()).unwrap_or(Self::Portable)
    }
}

/// The low bits of the line numbers in 64 slots, for tallies by set. Which of the two forms is kept depends on the
/// instructions.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Index<const W: usize> {
    /// The lowest byte of each line number, then the next.
    #[cfg(target_arch = "x86_64")]
    digits: [[u8; 64]; Limits::MOST_SET_BITS as usize / 8],
    /// For each bit the slots whose line has it set.
    bits: [u64; W],
}

impl<const W: usize> Index<W> {
    pub(crate) const EMPTY: Self = Self {
        #[cfg(target_arch = "x86_64")]
        digits: [[0; 64]; Limits::MOST_SET_BITS as usize / 8],
        bits: [0; W],
    };
}

/// Operations on what the tiers keep.
pub(crate) trait Vector: Sized {
    /// Stamps where they are fastest to use: in a register.
    type Stamps: Copy;
    /// The top tier in registers.
    type Top: Order;

    /// Into the register.
    fn load(stamps: &Stamps) -> Self::Stamps;

    /// One bit for each stamp greater than `stamp`.
    fn later(stamps: Self::Stamps, stamp: u8) -> u64;

    /// The same stamps but for that of `slot`.
    fn with(stamps: Self::Stamps, slot: usize, stamp: u8) -> Self::Stamps;

    /// One bit for each stamp greater than `stamp`.
    #[inline(always)]
    fn later_wide<const N: usize>(stamps: &[recent::Stamps; N], stamp: u16) -> [u64; N] {
        std::array::from_fn(|word| bits(stamps[word].0.iter().map(|&other| other > stamp)))
    }

    /// Sets a stamp.
    #[inline(always)]
    fn stamp(stamps: &mut recent::Stamps, slot: usize, stamp: u16) {
        stamps.0[slot] = stamp;
    }

    /// Notes the line that is in a slot.
    #[inline(always)]
    fn enter<const W: usize>(index: &mut Index<W>, slot: usize, line: u64) {
        for (at, bits) in index.bits.iter_mut().enumerate() {
            *bits = *bits & !(1 << slot) | (line >> at & 1) << slot;
        }
    }

    /// How many slots of the masks agree with the line in its lowest a bits, a = 1 ..= W, at most 255.
    #[inline(always)]
    fn tally<const W: usize, const N: usize>(index: &[Index<W>; N], masks: &[u64; N], line: u64) -> [u8; W] {
        let (mut masks, mut tally) = (*masks, [0; W]);
        for (at, tally) in tally.iter_mut().enumerate() {
            let same = (line >> at & 1).wrapping_sub(1);
            let mut sum = 0;
            for (mask, index) in masks.iter_mut().zip(index) {
                *mask &= index.bits[at] ^ same;
                sum += mask.count_ones();
            }
            *tally = sum.min(255) as u8;
            if sum == 0 {
                break;
            }
        }
        tally
    }

    /// Adds distances, cut off at 255.
    #[inline(always)]
    fn add<const W: usize>(sum: &mut [u8; W], more: &[u8; W]) {
        sum.iter_mut().zip(more).for_each(|(sum, &more)| *sum = sum.saturating_add(more));
    }

    /// The greater of both at each set count.
    #[inline(always)]
    fn raise<const W: usize>(greatest: &mut [u8; W], by_set: &[u8; W]) {
        greatest.iter_mut().zip(by_set).for_each(|(m, &d)| *m = d.max(*m));
    }

    /// Sums for a = 1 ..= W to which, without their lowest a bits, all of `adds` less `period` are added, and all of `takes` less
    /// that taken away; cut off at 255.
    #[inline(always)]
    fn halve<const W: usize>(sums: &[u32; W], adds: &[u32], takes: &[u32], period: u32) -> [u8; W] {
        let mut sums = *sums;
        for one in adds {
            (1..).zip(&mut sums).for_each(|(bits, sum)| *sum = sum.wrapping_add((one - period) >> bits));
        }
        for one in takes {
            (1..).zip(&mut sums).for_each(|(bits, sum)| *sum = sum.wrapping_sub((one - period) >> bits));
        }
        sums.map(|sum| sum.min(255) as u8)
    }

    /// The lesser of d_a and `d_0 >> a` at each set count.
    #[inline(always)]
    fn least<const W: usize>(full: u32, by_set: &[u8; W]) -> [u8; W] {
        std::array::from_fn(|index| (full >> (index + 1)).min(by_set[index].into()) as u8)
    }

    /// Live places from one on: bits from its own on, counts of blocks after its own, of groups after its own, and of groups of
    /// groups.
    #[inline(always)]
    fn sum_from((live, bit): Live<'_>, (blocks, block): Blocks<'_>, (groups, group): Groups<'_>) -> u32 {
        let (word, bit) = (bit / 64, bit % 64);
        let mut sum = 0;
        for (index, bits) in live.iter().enumerate() {
            let newer = if index < word { 0 } else { u64::MAX << if index == word { bit } else { 0 } };
            sum += (bits & newer).count_ones();
        }
        for (index, &count) in blocks.iter().enumerate() {
            sum += if index > block { u32::from(count) } else { 0 };
        }
        let mut at = group;
        for level in groups {
            for (index, &count) in level[at / FAN].iter().enumerate() {
                sum += if index > at % FAN { count } else { 0 };
            }
            at /= FAN;
        }
        sum
    }

    /// How many stamps of a part are later than `last`.
    #[inline(always)]
    fn newer(part: &Part, last: Time) -> usize {
        part.iter().map(|&stamp| i32::from(stamp > last)).sum::<i32>() as usize
    }

    /// The same of several parts together, newest first each; `None`: all of one of them are later.
    #[inline(always)]
    fn newer_in(parts: &[Part], last: Time) -> Option<usize> {
        let mut sum = 0;
        for part in parts {
            sum += Self::newer(part, last);
        }
        parts.iter().all(|part| part[PART - 1] <= last).then_some(sum)
    }

    /// Moves the stamps that are not later than `last`, of which there is one, one place up, over the first of them; `next` comes
    /// in at the end.
    #[inline(always)]
    fn remove(part: &mut Part, last: Time, next: Time) {
        let newer = Self::newer(part, last);
        let old = *part;
        for place in newer..PART {
            part[place] = if place + 1 < PART { old[place + 1] } else { next };
        }
    }

    /// Moves all stamps one place down and puts `now` on top.
    #[inline(always)]
    fn insert(part: &mut Part, now: Time) {
        part.copy_within(..PART - 1, 1);
        part[0] = now;
    }

    /// Takes the stamp `last` out of a set of four parts, if it is there; returns how many are later.
    #[inline(always)]
    fn take(front: &mut Part, back: &mut [Part; 3], last: Time) -> usize {
        sets::take::<Self>(front, back, last)
    }

    /// A task with these instructions, as a function of its own: long loops get better code apart from each other.
    fn run<T: Task>(task: T) -> T::Answer;
}

#[inline(always)]
fn bits(flags: impl Iterator<Item = bool>) -> u64 {
    flags.enumerate().map(|(slot, flag)| u64::from(flag) << slot).sum()
}

/// What is done with the operations of one kind of instructions. Implementations of `run` are to be `#[inline(always)]`.
pub(crate) trait Task {
    /// What comes out.
    type Answer;

    /// Does it.
    fn run<V: Vector>(self) -> Self::Answer;
}

/// Does a task with the chosen instructions.
pub(crate) fn run<T: Task>(task: T, instructions: Instructions) -> T::Answer {
    match instructions {
        // SAFETY:
        // - `Stack` only holds instructions that `Instructions::available` found.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { run_avx512(task) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { run_avx2(task) },
        _ => task.run::<Portable>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bitalg,gfni,avx2,popcnt,bmi1,bmi2,lzcnt")]
fn run_avx512<T: Task>(task: T) -> T::Answer {
    task.run::<avx512::Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2,lzcnt")]
fn run_avx2<T: Task>(task: T) -> T::Answer {
    task.run::<avx2::Avx2>()
}

/// Everything as the trait says it.
pub(crate) struct Portable;

impl Vector for Portable {
    type Stamps = Stamps;
    type Top = Top;

    #[inline(always)]
    fn load(stamps: &Stamps) -> Stamps {
        *stamps
    }

    #[inline(always)]
    fn later(stamps: Stamps, stamp: u8) -> u64 {
        bits(stamps.0.iter().map(|&other| other > stamp))
    }

    #[inline(always)]
    fn with(mut stamps: Stamps, slot: usize, stamp: u8) -> Stamps {
        stamps.0[slot] = stamp;
        stamps
    }

    #[inline(never)]
    fn run<T: Task>(task: T) -> T::Answer {
        task.run::<Self>()
    }
}

/// Fetches what will soon be used, where the processor is told how.
#[inline(always)]
pub(crate) fn prefetch<T>(what: &T) {
    // SAFETY:
    // - a hint, of a place that is borrowed; every x86-64 processor has it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(what).cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

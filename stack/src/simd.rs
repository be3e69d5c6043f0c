//! The inner operations of [`crate::recent`] and [`crate::sets`] for what the processor offers, chosen at run time: AVX-512, AVX2, or plain
//! Rust. The only module of this crate with `unsafe`.
//!
//! Stamps are always read and written whole, as one vector: a narrow store followed by a wide load of the same
//! place would have to wait for the store to reach the cache.

#![expect(unsafe_code, reason = "vector instructions")]

use crate::engine::Stack;
use crate::recent::{RECENT, Stamps, Times};
use crate::sets::{PART, Part, Time};
use crate::{Bucket, Reference};
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

/// Which instructions an engine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// AVX-512 F, BW, VL.
    Avx512,
    /// AVX2.
    Avx2,
    /// Whatever the compiler's target has.
    Portable,
}

impl Instructions {
    /// All of them, best first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// Whether this processor has them.
    #[must_use]
    pub fn available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
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

/// Operations on stamps.
pub(crate) trait Vector {
    /// How many stamps of a part are later than `last`.
    fn newer(part: &Part, last: Time) -> usize;

    /// Counts the stamps later than `last`, moves them one place down, over the next one, and puts `now` on top.
    fn push(part: &mut Part, last: Time, now: Time) -> usize;

    /// One bit for each stamp greater than `stamp`.
    fn later(stamps: &Stamps, stamp: u8) -> u64;

    /// As `later` for the stamp in `slot`, which then becomes `stamp`.
    fn touch(stamps: &mut Stamps, slot: usize, stamp: u8) -> u64;

    /// One bit for each time later than `time`.
    fn later_times(times: &Times, time: Time) -> u64;
}

/// Feeds a batch with the chosen instructions.
pub(crate) fn feed(stack: &mut Stack, references: &[Reference], bucket: Bucket, instructions: Instructions) {
    match instructions {
        // SAFETY:
        // - `Stack` only holds instructions that `Instructions::available` found.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { feed_avx512(stack, references, bucket) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { feed_avx2(stack, references, bucket) },
        _ => stack.feed_with::<Portable>(references, bucket),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,popcnt,bmi1,bmi2,lzcnt")]
fn feed_avx512(stack: &mut Stack, references: &[Reference], bucket: Bucket) {
    stack.feed_with::<Avx512>(references, bucket);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2,lzcnt")]
fn feed_avx2(stack: &mut Stack, references: &[Reference], bucket: Bucket) {
    stack.feed_with::<Avx2>(references, bucket);
}

pub(crate) struct Portable;

impl Vector for Portable {
    #[inline(always)]
    fn newer(part: &Part, last: Time) -> usize {
        part.iter().map(|&stamp| i32::from(stamp > last)).sum::<i32>() as usize
    }

    #[inline(always)]
    fn push(part: &mut Part, last: Time, now: Time) -> usize {
        let newer = Self::newer(part, last);
        let old = *part;
        for place in 1..PART {
            part[place] = if place <= newer { old[place - 1] } else { old[place] };
        }
        part[0] = now;
        newer
    }

    #[inline(always)]
    fn later(stamps: &Stamps, stamp: u8) -> u64 {
        bits(stamps.0.iter().map(|&other| other > stamp))
    }

    #[inline(always)]
    fn touch(stamps: &mut Stamps, slot: usize, stamp: u8) -> u64 {
        let later = Self::later(stamps, stamps.0[slot]);
        stamps.0[slot] = stamp;
        later
    }

    #[inline(always)]
    fn later_times(times: &Times, time: Time) -> u64 {
        bits(times.0.iter().map(|&other| other > time))
    }
}

#[inline(always)]
fn bits(flags: impl Iterator<Item = bool>) -> u64 {
    flags.enumerate().map(|(slot, flag)| u64::from(flag) << slot).sum()
}

#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Vector for Avx512 {
    #[inline(always)]
    fn newer(part: &Part, last: Time) -> usize {
        // SAFETY:
        // - only reached from `feed_avx512`, so the instructions are there;
        // - a part is 64 bytes.
        unsafe {
            let stamps = _mm512_loadu_si512(part.as_ptr().cast());
            _mm512_cmpgt_epi32_mask(stamps, _mm512_set1_epi32(last)).count_ones() as usize
        }
    }

    #[inline(always)]
    fn push(part: &mut Part, last: Time, now: Time) -> usize {
        // SAFETY: as for `newer`.
        unsafe {
            let stamps = _mm512_loadu_si512(part.as_ptr().cast());
            let later = _mm512_cmpgt_epi32_mask(stamps, _mm512_set1_epi32(last));
            let moved = _mm512_alignr_epi32::<15>(stamps, _mm512_set1_epi32(now));
            let after = _mm512_mask_blend_epi32(later << 1 | 1, stamps, moved);
            _mm512_storeu_si512(part.as_mut_ptr().cast(), after);
            later.count_ones() as usize
        }
    }

    #[inline(always)]
    fn later(stamps: &Stamps, stamp: u8) -> u64 {
        // SAFETY: as for `newer`; stamps are 64 bytes, aligned to 64.
        unsafe {
            let stamps = _mm512_load_si512(stamps.0.as_ptr().cast());
            _mm512_cmpgt_epu8_mask(stamps, _mm512_set1_epi8(stamp as i8))
        }
    }

    #[inline(always)]
    fn touch(stamps: &mut Stamps, slot: usize, stamp: u8) -> u64 {
        let before = stamps.0[slot];
        // SAFETY: as for `later`.
        unsafe {
            let all = _mm512_load_si512(stamps.0.as_ptr().cast());
            let after = _mm512_mask_mov_epi8(all, 1 << slot, _mm512_set1_epi8(stamp as i8));
            _mm512_store_si512(stamps.0.as_mut_ptr().cast(), after);
            _mm512_cmpgt_epu8_mask(all, _mm512_set1_epi8(before as i8))
        }
    }

    #[inline(always)]
    fn later_times(times: &Times, time: Time) -> u64 {
        let mut later = 0;
        for part in (0..RECENT).step_by(16) {
            // SAFETY: as for `newer`; times are 256 bytes, aligned to 64.
            let bits = unsafe {
                let times = _mm512_load_si512(times.0.as_ptr().add(part).cast());
                _mm512_cmpgt_epi32_mask(times, _mm512_set1_epi32(time))
            };
            later |= u64::from(bits) << part;
        }
        later
    }
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Vector for Avx2 {
    #[inline(always)]
    fn newer(part: &Part, last: Time) -> usize {
        // SAFETY:
        // - only reached from `feed_avx2`, so the instructions are there;
        // - a part is 64 bytes.
        unsafe {
            let (low, high) =
                (_mm256_loadu_si256(part.as_ptr().cast()), _mm256_loadu_si256(part.as_ptr().add(8).cast()));
            later(low, high, last).count_ones() as usize
        }
    }

    #[inline(always)]
    fn push(part: &mut Part, last: Time, now: Time) -> usize {
        // SAFETY: as for `newer`.
        unsafe {
            let (low, high) =
                (_mm256_loadu_si256(part.as_ptr().cast()), _mm256_loadu_si256(part.as_ptr().add(8).cast()));
            let newer = later(low, high, last).count_ones() as i32;
            let down = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
            let (low_down, high_down) =
                (_mm256_permutevar8x32_epi32(low, down), _mm256_permutevar8x32_epi32(high, down));
            let first_low = _mm256_blend_epi32::<1>(low_down, _mm256_set1_epi32(now));
            let first_high = _mm256_blend_epi32::<1>(high_down, low_down);
            let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let keep_low = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(newer));
            let keep_high = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(newer - 8));
            _mm256_storeu_si256(part.as_mut_ptr().cast(), _mm256_blendv_epi8(first_low, low, keep_low));
            _mm256_storeu_si256(part.as_mut_ptr().add(8).cast(), _mm256_blendv_epi8(first_high, high, keep_high));
            newer as usize
        }
    }

    #[inline(always)]
    fn later(stamps: &Stamps, stamp: u8) -> u64 {
        // SAFETY: as for `newer`; stamps are 64 bytes, aligned to 64.
        unsafe {
            let (low, high) =
                (_mm256_load_si256(stamps.0.as_ptr().cast()), _mm256_load_si256(stamps.0.as_ptr().add(32).cast()));
            later_bytes(low, stamp) | later_bytes(high, stamp) << 32
        }
    }

    #[inline(always)]
    fn touch(stamps: &mut Stamps, slot: usize, stamp: u8) -> u64 {
        let later = Self::later(stamps, stamps.0[slot]);
        let half = slot & 32;
        // SAFETY: as for `later`; `half` is 0 or 32.
        unsafe {
            let place = stamps.0.as_mut_ptr().add(half).cast();
            let here =
                _mm256_cmpeq_epi8(_mm256_load_si256(NUMBERS.0.as_ptr().cast()), _mm256_set1_epi8(slot as i8 & 31));
            let after = _mm256_blendv_epi8(_mm256_load_si256(place), _mm256_set1_epi8(stamp as i8), here);
            _mm256_store_si256(place, after);
        }
        later
    }

    #[inline(always)]
    fn later_times(times: &Times, time: Time) -> u64 {
        let mut bits = 0;
        for part in (0..RECENT).step_by(16) {
            // SAFETY: as for `newer`; times are 256 bytes, aligned to 64.
            unsafe {
                let low = _mm256_load_si256(times.0.as_ptr().add(part).cast());
                let high = _mm256_load_si256(times.0.as_ptr().add(part + 8).cast());
                bits |= u64::from(later(low, high, time)) << part;
            }
        }
        bits
    }
}

/// 0, 1, 2, …
#[cfg(target_arch = "x86_64")]
static NUMBERS: Stamps = {
    let mut numbers = [0; RECENT];
    let mut slot = 0;
    while slot < RECENT {
        numbers[slot] = slot as u8;
        slot += 1;
    }
    Stamps(numbers)
};

/// One bit for each byte greater than `stamp`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn later_bytes(stamps: __m256i, stamp: u8) -> u64 {
    let not_later =
        _mm256_cmpeq_epi8(_mm256_max_epu8(stamps, _mm256_set1_epi8(stamp as i8)), _mm256_set1_epi8(stamp as i8));
    u64::from(!(_mm256_movemask_epi8(not_later) as u32))
}

/// One bit for each stamp later than `last`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn later(low: __m256i, high: __m256i, last: Time) -> u32 {
    let last = _mm256_set1_epi32(last);
    let bits = |stamps| _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(stamps, last))) as u32;
    bits(low) | bits(high) << 8
}

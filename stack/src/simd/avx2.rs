//! AVX2: half a cache line in a vector.

use super::{Vector, prefetch};
use crate::newest::{NEWEST, Stamps};
use crate::older::Time;
use crate::recent::{self, WORDS};
use crate::sets::Part;
use crate::top::Top;
use core::arch::x86_64::*;

pub(super) struct Avx2;

// SAFETY, for every block here:
// - only reached from `feed_avx2`, so the instructions are there;
// - what is loaded or stored lies within the array that is borrowed, at the alignment its type has.
impl Vector for Avx2 {
    type Stamps = (__m256i, __m256i);
    type Top = Top;

    #[inline(always)]
    fn load(stamps: &Stamps) -> Self::Stamps {
        // SAFETY: see above.
        unsafe { (_mm256_load_si256(stamps.0.as_ptr().cast()), _mm256_load_si256(stamps.0.as_ptr().add(32).cast())) }
    }

    #[inline(always)]
    fn later(stamps: Self::Stamps, stamp: u8) -> u64 {
        // SAFETY: see above.
        unsafe { later_bytes(stamps.0, stamp) | later_bytes(stamps.1, stamp) << 32 }
    }

    #[inline(always)]
    fn with(stamps: Self::Stamps, slot: usize, stamp: u8) -> Self::Stamps {
        let mut both = [stamps.0, stamps.1];
        for (half, first) in both.iter_mut().zip([0, 32]) {
            // SAFETY: see above.
            *half = unsafe {
                let numbers = _mm256_load_si256(NUMBERS.0.as_ptr().cast());
                let here = _mm256_cmpeq_epi8(numbers, _mm256_set1_epi8(slot.wrapping_sub(first) as i8));
                _mm256_blendv_epi8(*half, _mm256_set1_epi8(stamp as i8), here)
            };
        }
        both.into()
    }

    #[inline(always)]
    fn later_wide(stamps: &recent::Stamps, stamp: u16) -> [u64; WORDS] {
        let mut later = [0; WORDS];
        for (part, stamps) in stamps.0.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: see above. Stamps are below 2^16: their order is that of signed numbers once shifted down.
            let bits = unsafe {
                let shift = _mm256_set1_epi16(i16::MIN);
                let stamp = _mm256_xor_si256(_mm256_set1_epi16(stamp as i16), shift);
                let low = _mm256_xor_si256(_mm256_loadu_si256(stamps.as_ptr().cast()), shift);
                let high = _mm256_xor_si256(_mm256_loadu_si256(stamps.as_ptr().add(16).cast()), shift);
                let packed = _mm256_packs_epi16(_mm256_cmpgt_epi16(low, stamp), _mm256_cmpgt_epi16(high, stamp));
                _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed)) as u32
            };
            later[part / 2] |= u64::from(bits) << (part % 2 * 32);
        }
        later
    }

    #[inline(always)]
    fn add<const W: usize>(sum: &mut [u8; W], more: &[u8; W]) {
        both(sum, more, |sum, more| {
            // SAFETY: see above.
            unsafe { _mm_adds_epu8(sum, more) }
        });
    }

    #[inline(always)]
    fn raise<const W: usize>(greatest: &mut [u8; W], by_set: &[u8; W]) {
        both(greatest, by_set, |greatest, by_set| {
            // SAFETY: see above.
            unsafe { _mm_max_epu8(greatest, by_set) }
        });
    }

    #[inline(always)]
    fn newer(part: &Part, last: Time) -> usize {
        // SAFETY: see above.
        unsafe {
            let (low, high) =
                (_mm256_loadu_si256(part.as_ptr().cast()), _mm256_loadu_si256(part.as_ptr().add(8).cast()));
            later(low, high, last).count_ones() as usize
        }
    }

    #[inline(always)]
    fn remove(part: &mut Part, last: Time, next: Time) {
        // SAFETY: see above.
        unsafe {
            let (low, high) =
                (_mm256_loadu_si256(part.as_ptr().cast()), _mm256_loadu_si256(part.as_ptr().add(8).cast()));
            let up = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0);
            let (low_up, high_up) = (_mm256_permutevar8x32_epi32(low, up), _mm256_permutevar8x32_epi32(high, up));
            let low_up = _mm256_blend_epi32::<0x80>(low_up, high_up);
            let high_up = _mm256_blend_epi32::<0x80>(high_up, _mm256_set1_epi32(next));
            let last = _mm256_set1_epi32(last);
            let low_after = _mm256_blendv_epi8(low_up, low, _mm256_cmpgt_epi32(low, last));
            let high_after = _mm256_blendv_epi8(high_up, high, _mm256_cmpgt_epi32(high, last));
            _mm256_storeu_si256(part.as_mut_ptr().cast(), low_after);
            _mm256_storeu_si256(part.as_mut_ptr().add(8).cast(), high_after);
        }
    }

    #[inline(always)]
    fn insert(part: &mut Part, now: Time) {
        // SAFETY: see above.
        unsafe {
            let (low, high) =
                (_mm256_loadu_si256(part.as_ptr().cast()), _mm256_loadu_si256(part.as_ptr().add(8).cast()));
            let down = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
            let (low, high) = (_mm256_permutevar8x32_epi32(low, down), _mm256_permutevar8x32_epi32(high, down));
            let first = _mm256_blend_epi32::<1>(low, _mm256_set1_epi32(now));
            _mm256_storeu_si256(part.as_mut_ptr().cast(), first);
            _mm256_storeu_si256(part.as_mut_ptr().add(8).cast(), _mm256_blend_epi32::<1>(high, low));
        }
    }

    #[inline(always)]
    fn prefetch<T>(what: &T) {
        prefetch(what);
    }
}

/// Applies an operation on bytes to all of them, 16 and then 8 at a time: W is 16 or 24.
#[inline(always)]
fn both<const W: usize>(to: &mut [u8; W], from: &[u8; W], operation: impl Fn(__m128i, __m128i) -> __m128i) {
    // SAFETY:
    // - both have at least 16 bytes, and 24 where more are used.
    unsafe {
        let (to, from) = (to.as_mut_ptr(), from.as_ptr());
        _mm_storeu_si128(to.cast(), operation(_mm_loadu_si128(to.cast()), _mm_loadu_si128(from.cast())));
        if W > 16 {
            let (to, from) = (to.add(16), from.add(16));
            _mm_storel_epi64(to.cast(), operation(_mm_loadl_epi64(to.cast()), _mm_loadl_epi64(from.cast())));
        }
    }
}

/// 0, 1, 2, …
static NUMBERS: Stamps = {
    let mut numbers = [0; NEWEST];
    let mut slot = 0;
    while slot < NEWEST {
        numbers[slot] = slot as u8;
        slot += 1;
    }
    Stamps(numbers)
};

/// One bit for each byte greater than `stamp`.
#[inline]
#[target_feature(enable = "avx2")]
fn later_bytes(stamps: __m256i, stamp: u8) -> u64 {
    let not_later =
        _mm256_cmpeq_epi8(_mm256_max_epu8(stamps, _mm256_set1_epi8(stamp as i8)), _mm256_set1_epi8(stamp as i8));
    u64::from(!(_mm256_movemask_epi8(not_later) as u32))
}

/// One bit for each stamp later than `last`.
#[inline]
#[target_feature(enable = "avx2")]
fn later(low: __m256i, high: __m256i, last: Time) -> u32 {
    let last = _mm256_set1_epi32(last);
    let bits = |stamps| _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(stamps, last))) as u32;
    bits(low) | bits(high) << 8
}

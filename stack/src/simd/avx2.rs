//! AVX2: half a cache line in a vector.

use super::{Task, Vector, run_avx2};
use crate::held::Entry;
use crate::newest::{NEWEST, Stamps};
use crate::older::Time;
use crate::recent;
use crate::sets::Part;
use crate::top::{NONE, Order, TOP, Top};
use core::arch::x86_64::*;

pub(super) struct Avx2;

// SAFETY, for every block here:
// - only reached from `run_avx2`, so the instructions are there;
// - what is loaded or stored lies within the array that is borrowed, at the alignment its type has.
impl Vector for Avx2 {
    type Stamps = (__m256i, __m256i);
    type Top = TopRegisters;

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
    fn later_wide<const N: usize>(stamps: &[recent::Stamps; N], stamp: u16) -> [u64; N] {
        let mut later = [0; N];
        for (later, stamps) in later.iter_mut().zip(stamps) {
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
                *later |= u64::from(bits) << (part * 32);
            }
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
    fn halve<const W: usize>(sums: &[u32; W], adds: &[u32], takes: &[u32], period: u32) -> [u8; W] {
        let mut cut_off = [0_u32; W];
        for first in (0..W).step_by(8) {
            // SAFETY: see above; W is a multiple of 8.
            unsafe {
                let bits = _mm256_add_epi32(_mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8), _mm256_set1_epi32(first as i32));
                let of = |one: &u32| _mm256_srlv_epi32(_mm256_set1_epi32((one - period) as i32), bits);
                let mut sum = _mm256_loadu_si256(sums.as_ptr().add(first).cast());
                for add in adds {
                    sum = _mm256_add_epi32(sum, of(add));
                }
                for take in takes {
                    sum = _mm256_sub_epi32(sum, of(take));
                }
                let sum = _mm256_min_epu32(sum, _mm256_set1_epi32(255));
                _mm256_storeu_si256(cut_off.as_mut_ptr().add(first).cast(), sum);
            }
        }
        cut_off.map(|sum| sum as u8)
    }

    #[inline(always)]
    fn least<const W: usize>(full: u32, by_set: &[u8; W]) -> [u8; W] {
        let mut least = [0_u8; W];
        for first in (0..W).step_by(8) {
            // SAFETY: see above; W is a multiple of 8.
            unsafe {
                let bits = _mm256_add_epi32(_mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8), _mm256_set1_epi32(first as i32));
                let shifted = _mm256_srlv_epi32(_mm256_set1_epi32(full as i32), bits);
                let cut_off = _mm256_min_epu32(shifted, _mm256_set1_epi32(255));
                let words = _mm_packus_epi32(_mm256_castsi256_si128(cut_off), _mm256_extracti128_si256::<1>(cut_off));
                _mm_storel_epi64(least.as_mut_ptr().add(first).cast(), _mm_packus_epi16(words, words));
            }
        }
        both(&mut least, by_set, |least, by_set| {
            // SAFETY: see above.
            unsafe { _mm_min_epu8(least, by_set) }
        });
        least
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
    fn run<T: Task>(task: T) -> T::Answer {
        // SAFETY: see above.
        unsafe { run_avx2(task) }
    }
}

/// The first and the last four lines, and the entries.
#[derive(Clone, Copy)]
pub(super) struct TopRegisters(__m256i, __m256i, __m128i);

// SAFETY, for every block here:
// - as above.
impl Order for TopRegisters {
    #[inline(always)]
    fn load(top: &Top) -> Self {
        // SAFETY: see above.
        unsafe {
            let (first, last) = (top.lines.as_ptr(), top.lines.as_ptr().add(4));
            Self(
                _mm256_loadu_si256(first.cast()),
                _mm256_loadu_si256(last.cast()),
                _mm_loadu_si128(top.entries.as_ptr().cast()),
            )
        }
    }

    #[inline(always)]
    fn store(self, top: &mut Top) {
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_si256(top.lines.as_mut_ptr().cast(), self.0);
            _mm256_storeu_si256(top.lines.as_mut_ptr().add(4).cast(), self.1);
            _mm_storeu_si128(top.entries.as_mut_ptr().cast(), self.2);
        }
    }

    #[inline(always)]
    fn place(self, line: u64) -> usize {
        // SAFETY: see above.
        let here = unsafe {
            let line = _mm256_set1_epi64x(line as i64);
            let bits = |lines| _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(lines, line))) as u32;
            bits(self.0) | bits(self.1) << 4
        };
        (here | 1 << TOP).trailing_zeros() as usize
    }

    #[inline(always)]
    fn tally<const W: usize>(self, first: usize, line: u64) -> [u8; W] {
        let mut tally = [0; W];
        // SAFETY: see above.
        unsafe {
            let line = _mm256_set1_epi64x(line as i64);
            // For each of the first lines ones for the lowest bits that agree.
            let agree = |lines, before: &[u64; 4]| {
                let differ = _mm256_xor_si256(lines, line);
                let agree = _mm256_andnot_si256(differ, _mm256_add_epi64(differ, _mm256_set1_epi64x(-1)));
                _mm256_and_si256(agree, _mm256_loadu_si256(before.as_ptr().cast()))
            };
            let [before_low, before_high] = &BEFORE[first % (TOP + 1)];
            let (low, high) = (agree(self.0, before_low), agree(self.1, before_high));
            _mm_storeu_si128(tally.as_mut_ptr().cast(), by_bit(low, high));
            if W > 16 {
                let more = by_bit(_mm256_srli_epi64::<16>(low), _mm256_srli_epi64::<16>(high));
                _mm_storel_epi64(tally.as_mut_ptr().add(16).cast(), more);
            }
        }
        tally
    }

    #[inline(always)]
    fn lift(self, place: usize, line: u64) -> (Self, Entry) {
        // SAFETY: see above.
        unsafe {
            let pushed = self.push(line, 0);
            let [low, high] = &BEFORE[place % TOP + 1];
            let (low, high) = (_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast()));
            let places = _mm_loadu_si128(LIFTED[place % TOP].as_ptr().cast());
            let entries = _mm_shuffle_epi8(self.2, places);
            let (low, high) = (_mm256_blendv_epi8(self.0, pushed.0, low), _mm256_blendv_epi8(self.1, pushed.1, high));
            (Self(low, high, entries), _mm_extract_epi16::<0>(entries) as Entry)
        }
    }

    #[inline(always)]
    fn push(self, line: u64, entry: Entry) -> Self {
        // SAFETY: see above.
        unsafe {
            let low = _mm256_permute4x64_epi64::<0b10_01_00_00>(self.0);
            let high = _mm256_permute4x64_epi64::<0b10_01_00_00>(self.1);
            Self(
                _mm256_blend_epi32::<0b11>(low, _mm256_set1_epi64x(line as i64)),
                _mm256_blend_epi32::<0b11>(high, _mm256_permute4x64_epi64::<0b11_11_11_11>(self.0)),
                _mm_alignr_epi8::<14>(self.2, _mm_set1_epi16(entry as i16)),
            )
        }
    }

    #[inline(always)]
    fn last(self) -> Option<(u64, Entry)> {
        // SAFETY: see above.
        let (line, entry) =
            unsafe { (_mm256_extract_epi64::<3>(self.1) as u64, _mm_extract_epi16::<7>(self.2) as Entry) };
        (line != NONE).then_some((line, entry))
    }
}

/// For each of the 16 lowest bits, how many of eight words have it.
#[inline]
#[target_feature(enable = "avx2")]
fn by_bit(low: __m256i, high: __m256i) -> __m128i {
    let lowest = _mm256_set1_epi64x(0xffff);
    // The 16 bits of each, with as many zeros between: of four words in either half.
    let words = _mm256_packus_epi32(_mm256_and_si256(low, lowest), _mm256_and_si256(high, lowest));
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let mut sum = _mm256_setzero_si256();
    for word in 0..4 {
        // One of them in each half: its lower byte eight times, then its upper one.
        let bytes = _mm256_set_epi64x(0x0101_0101_0101_0101, 0, 0x0101_0101_0101_0101, 0);
        let bytes = _mm256_add_epi8(bytes, _mm256_set1_epi8(4 * word));
        let has = _mm256_and_si256(_mm256_shuffle_epi8(words, bytes), bits);
        sum = _mm256_sub_epi8(sum, _mm256_cmpeq_epi8(has, bits));
    }
    _mm_add_epi8(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum))
}

/// For each place all ones where a line is before it: for four lines and for four more.
static BEFORE: [[[u64; 4]; 2]; TOP + 1] = {
    let mut all = [[[0; 4]; 2]; TOP + 1];
    let mut place = 0;
    while place <= TOP {
        let mut line = 0;
        while line < place {
            all[place][line / 4][line % 4] = u64::MAX;
            line += 1;
        }
        place += 1;
    }
    all
};

/// For each place where the bytes of each entry are found once the one there is on top.
static LIFTED: [[u8; 2 * TOP]; TOP] = {
    let mut all = [[0; 2 * TOP]; TOP];
    let mut lifted = 0;
    while lifted < TOP {
        let mut place = 0;
        while place < TOP {
            let from = if place == 0 { lifted } else { place - (place <= lifted) as usize };
            all[lifted][2 * place] = 2 * from as u8;
            all[lifted][2 * place + 1] = 2 * from as u8 + 1;
            place += 1;
        }
        lifted += 1;
    }
    all
};

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

//! AVX-512: a vector holds all stamps of the newest tier, or a cache line of those of a set.

use super::avx2::Avx2;
use super::{Index, Task, Vector, run_avx512};
use crate::Limits;
use crate::held::Entry;
use crate::newest::Stamps;
use crate::older::Time;
use crate::recent;
use crate::sets::{PART, Part};
use crate::timeline::{Blocks, FAN, Groups, Live};
use crate::top::{NONE, Order, TOP, Top};
use core::arch::x86_64::*;

pub(super) struct Avx512;

// SAFETY, for every block here:
// - only reached from `run_avx512`, so the instructions are there;
// - what is loaded or stored lies within the array that is borrowed, at the alignment its type has.
impl Vector for Avx512 {
    type Stamps = __m512i;
    type Top = TopRegisters;

    #[inline(always)]
    fn load(stamps: &Stamps) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_load_si512(stamps.0.as_ptr().cast()) }
    }

    #[inline(always)]
    fn later(stamps: __m512i, stamp: u8) -> u64 {
        // SAFETY: see above.
        unsafe { _mm512_cmpgt_epu8_mask(stamps, splat(stamp)) }
    }

    #[inline(always)]
    fn with(stamps: __m512i, slot: usize, stamp: u8) -> __m512i {
        // SAFETY: see above.
        unsafe { select(&ONLY_BYTE[slot % 64], splat(stamp), stamps) }
    }

    #[inline(always)]
    fn later_wide<const N: usize>(stamps: &[recent::Stamps; N], stamp: u16) -> [u64; N] {
        let mut later = [0; N];
        for (later, stamps) in later.iter_mut().zip(stamps) {
            for (part, stamps) in stamps.0.as_chunks::<32>().0.iter().enumerate() {
                // SAFETY: see above.
                let bits = unsafe {
                    let stamps = _mm512_loadu_si512(stamps.as_ptr().cast());
                    _mm512_cmpgt_epu16_mask(stamps, _mm512_set1_epi16(stamp as i16))
                };
                *later |= u64::from(bits) << (part * 32);
            }
        }
        later
    }

    #[inline(always)]
    fn stamp(stamps: &mut recent::Stamps, slot: usize, stamp: u16) {
        let part = slot % 64 / 32 * 32;
        // SAFETY: see above.
        unsafe {
            let place = stamps.0.as_mut_ptr().add(part).cast();
            let stamp = _mm512_set1_epi16(stamp as i16);
            _mm512_store_si512(place, select(&ONLY_WORD[slot % 32], stamp, _mm512_load_si512(place)));
        }
    }

    #[inline(always)]
    fn enter<const W: usize>(index: &mut Index<W>, slot: usize, line: u64) {
        for (at, digits) in index.digits[..W / 8].iter_mut().enumerate() {
            // SAFETY: see above.
            unsafe {
                let place = digits.as_mut_ptr().cast();
                let digit = splat((line >> (8 * at)) as u8);
                _mm512_store_si512(place, select(&ONLY_BYTE[slot % 64], digit, _mm512_load_si512(place)));
            }
        }
    }

    #[inline(always)]
    fn tally<const W: usize, const N: usize>(index: &[Index<W>; N], masks: &[u64; N], line: u64) -> [u8; W] {
        let mut masks = *masks;
        // SAFETY: see above.
        unsafe {
            let mut sums = [_mm_setzero_si128(); Limits::MOST_SET_BITS as usize / 8];
            for (digit, sums) in sums[..W / 8].iter_mut().enumerate() {
                let line = splat((line >> (8 * digit)) as u8);
                let mut sum = _mm512_setzero_si512();
                for (mask, index) in masks.iter_mut().zip(index) {
                    let differ = _mm512_xor_si512(_mm512_load_si512(index.digits[digit].as_ptr().cast()), line);
                    let less = _mm512_maskz_add_epi8(*mask, differ, _mm512_set1_epi8(-1));
                    // For each slot one bit for each a: its line agrees in the lowest a bits.
                    let agree = _mm512_andnot_si512(differ, less);
                    // The same for each a: one bit for each slot of eight.
                    let turned = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(ONE_BIT_EACH), agree);
                    sum = _mm512_add_epi8(sum, _mm512_popcnt_epi8(turned));
                    *mask = _mm512_mask_testn_epi8_mask(*mask, differ, differ);
                }
                let sum = _mm256_adds_epu8(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
                let sum = _mm_adds_epu8(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
                *sums = _mm_adds_epu8(sum, _mm_unpackhi_epi64(sum, sum));
            }
            let mut tally = [0; W];
            _mm_storeu_si128(tally.as_mut_ptr().cast(), _mm_unpacklo_epi64(sums[0], sums[1]));
            if W > 16 {
                _mm_storel_epi64(tally.as_mut_ptr().add(16).cast(), sums[2]);
            }
            tally
        }
    }

    #[inline(always)]
    fn add<const W: usize>(sum: &mut [u8; W], more: &[u8; W]) {
        Avx2::add(sum, more);
    }

    #[inline(always)]
    fn raise<const W: usize>(greatest: &mut [u8; W], by_set: &[u8; W]) {
        Avx2::raise(greatest, by_set);
    }

    #[inline(always)]
    fn halve<const W: usize>(sums: &[u32; W], adds: &[u32], takes: &[u32], period: u32) -> [u8; W] {
        let mut by_set = [0; W];
        for first in (0..W).step_by(16) {
            let mask = (u16::MAX) >> (16 - (W - first).min(16));
            // SAFETY: see above; the masks leave out what is not in the arrays.
            unsafe {
                let bits = _mm512_add_epi32(
                    _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
                    _mm512_set1_epi32(first as i32),
                );
                let of = |one: &u32| _mm512_srlv_epi32(_mm512_set1_epi32((one - period) as i32), bits);
                let mut sum = _mm512_maskz_loadu_epi32(mask, sums.as_ptr().add(first).cast());
                for add in adds {
                    sum = _mm512_add_epi32(sum, of(add));
                }
                for take in takes {
                    sum = _mm512_sub_epi32(sum, of(take));
                }
                _mm512_mask_cvtusepi32_storeu_epi8(by_set.as_mut_ptr().add(first).cast(), mask, sum);
            }
        }
        by_set
    }

    #[inline(always)]
    fn least<const W: usize>(full: u32, by_set: &[u8; W]) -> [u8; W] {
        let mut least = [0; W];
        for first in (0..W).step_by(16) {
            // SAFETY: see above; W is a multiple of 8.
            unsafe {
                let bits = _mm512_add_epi32(
                    _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
                    _mm512_set1_epi32(first as i32),
                );
                let shifted = _mm512_cvtusepi32_epi8(_mm512_srlv_epi32(_mm512_set1_epi32(full as i32), bits));
                let (from, to) = (by_set.as_ptr().add(first).cast(), least.as_mut_ptr().add(first).cast());
                if W - first >= 16 {
                    _mm_storeu_si128(to, _mm_min_epu8(shifted, _mm_loadu_si128(from)));
                } else {
                    _mm_storel_epi64(to, _mm_min_epu8(shifted, _mm_loadl_epi64(from)));
                }
            }
        }
        least
    }

    #[inline(always)]
    fn sum_from((live, bit): Live<'_>, (blocks, block): Blocks<'_>, (groups, group): Groups<'_>) -> u32 {
        // SAFETY: see above; masks leave out the first ones of a row.
        unsafe {
            // So many bits of each word are left out: of some none, of some all.
            let before = _mm512_sub_epi64(
                _mm512_set1_epi64(bit as i64),
                _mm512_setr_epi64(0, 64, 2 * 64, 3 * 64, 4 * 64, 5 * 64, 6 * 64, 7 * 64),
            );
            let before = _mm512_max_epi64(before, _mm512_setzero_si512());
            let live = _mm512_and_si512(
                _mm512_loadu_si512(live.as_ptr().cast()),
                _mm512_sllv_epi64(_mm512_set1_epi64(-1), before),
            );
            let mut sum = _mm512_sad_epu8(_mm512_popcnt_epi8(live), _mm512_setzero_si512());
            let counts = _mm512_maskz_loadu_epi16((!1_u64 << block) as __mmask32, blocks.as_ptr().cast());
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(counts, _mm512_set1_epi16(1)));
            let mut at = group;
            for level in groups {
                let row = level[at / FAN].as_ptr().cast();
                sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32((!1_u32 << (at % FAN)) as __mmask16, row));
                at /= FAN;
            }
            _mm512_reduce_add_epi32(sum) as u32
        }
    }

    #[inline(always)]
    fn newer(part: &Part, last: Time) -> usize {
        // SAFETY: see above.
        unsafe {
            let stamps = _mm512_loadu_si512(part.as_ptr().cast());
            _mm512_cmpgt_epi32_mask(stamps, _mm512_set1_epi32(last)).count_ones() as usize
        }
    }

    #[inline(always)]
    fn newer_in(parts: &[Part], last: Time) -> Option<usize> {
        // SAFETY: see above.
        unsafe {
            let (last, one) = (_mm512_set1_epi32(last), _mm512_set1_epi32(1));
            let mut sums = _mm512_setzero_si512();
            for part in parts {
                let newer = _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(part.as_ptr().cast()), last);
                sums = _mm512_mask_add_epi32(sums, newer, sums, one);
            }
            let oldest = _mm_extract_epi32::<3>(_mm512_extracti32x4_epi32::<3>(sums));
            // No closure: that would be a function without these instructions.
            if oldest == 0 { Some(_mm512_reduce_add_epi32(sums) as usize) } else { None }
        }
    }

    #[inline(always)]
    fn remove(part: &mut Part, last: Time, next: Time) {
        // SAFETY: see above.
        unsafe {
            let stamps = _mm512_loadu_si512(part.as_ptr().cast());
            let newer = _mm512_cmpgt_epi32_mask(stamps, _mm512_set1_epi32(last));
            let others = !_blsi_u32(!u32::from(newer)) as __mmask16;
            let next = _mm512_maskz_set1_epi32(1 << (PART - 1), next);
            let after = _mm512_or_si512(_mm512_maskz_compress_epi32(others, stamps), next);
            _mm512_storeu_si512(part.as_mut_ptr().cast(), after);
        }
    }

    #[inline(always)]
    fn insert(part: &mut Part, now: Time) {
        // SAFETY: see above.
        unsafe {
            let stamps = _mm512_loadu_si512(part.as_ptr().cast());
            let down = _mm512_alignr_epi32::<15>(stamps, _mm512_set1_epi32(now));
            _mm512_storeu_si512(part.as_mut_ptr().cast(), down);
        }
    }

    // In which part it is cannot be foretold: none of this is a branch.
    #[inline(always)]
    fn take(front: &mut Part, back: &mut [Part; 3], last: Time) -> usize {
        // SAFETY: see above.
        unsafe {
            let last = _mm512_set1_epi32(last);
            let mut stamps = _mm512_loadu_si512(front.as_ptr().cast());
            let mut newer = _mm512_cmpgt_epi32_mask(stamps, last);
            let (mut place, mut sum) = (front.as_mut_ptr(), newer.count_ones());
            for part in back {
                let behind = _mm512_loadu_si512(part.as_ptr().cast());
                let up = _mm512_alignr_epi32::<1>(behind, stamps);
                _mm512_storeu_si512(place.cast(), _mm512_mask_mov_epi32(up, newer, stamps));
                (stamps, newer) = (behind, _mm512_cmpgt_epi32_mask(behind, last));
                (place, sum) = (part.as_mut_ptr(), sum + newer.count_ones());
            }
            let up = _mm512_alignr_epi32::<1>(_mm512_setzero_si512(), stamps);
            _mm512_storeu_si512(place.cast(), _mm512_mask_mov_epi32(up, newer, stamps));
            sum as usize
        }
    }

    #[inline(always)]
    fn run<T: Task>(task: T) -> T::Answer {
        // SAFETY: see above.
        unsafe { run_avx512(task) }
    }
}

/// Lines in one register, entries in another.
#[derive(Clone, Copy)]
pub(super) struct TopRegisters(__m512i, __m128i);

// SAFETY, for every block here:
// - as above.
impl Order for TopRegisters {
    #[inline(always)]
    fn load(top: &Top) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_loadu_si512(top.lines.as_ptr().cast()), _mm_loadu_si128(top.entries.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store(self, top: &mut Top) {
        // SAFETY: see above.
        unsafe {
            _mm512_storeu_si512(top.lines.as_mut_ptr().cast(), self.0);
            _mm_storeu_si128(top.entries.as_mut_ptr().cast(), self.1);
        }
    }

    #[inline(always)]
    fn place(self, line: u64) -> usize {
        // SAFETY: see above.
        let here = unsafe { _mm512_cmpeq_epi64_mask(self.0, _mm512_set1_epi64(line as i64)) };
        (u32::from(here) | 1 << TOP).trailing_zeros() as usize
    }

    #[inline(always)]
    fn tally<const W: usize>(self, first: usize, line: u64) -> [u8; W] {
        let mut tally = [0; W];
        // SAFETY: see above.
        unsafe {
            let first = (1_u32 << first).wrapping_sub(1) as __mmask8;
            let differ = _mm512_xor_si512(self.0, _mm512_set1_epi64(line as i64));
            let less = _mm512_add_epi64(differ, _mm512_set1_epi64(-1));
            // For each line ones for the lowest bits that agree; the rest as for the newest tier, with slots of 16 bits.
            let agree = _mm512_maskz_andnot_epi64(first, differ, less);
            let turn = |words| _mm_popcnt_epi8(_mm_gf2p8affine_epi64_epi8::<0>(_mm_set1_epi64x(ONE_BIT_EACH), words));
            let digits = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            let low = turn(_mm_shuffle_epi8(_mm512_cvtepi64_epi16(agree), digits));
            _mm_storeu_si128(tally.as_mut_ptr().cast(), low);
            if W > 16 {
                let high = _mm512_cvtepi64_epi16(_mm512_srli_epi64::<16>(agree));
                _mm_storel_epi64(tally.as_mut_ptr().add(16).cast(), turn(_mm_shuffle_epi8(high, digits)));
            }
        }
        tally
    }

    #[inline(always)]
    fn lift(self, place: usize, line: u64) -> (Self, Entry) {
        // SAFETY: see above.
        unsafe {
            let entries = _mm_permutexvar_epi16(_mm_set1_epi16(place as i16), self.1);
            // Those up to the place are as if it were pushed.
            let line = _mm512_set1_epi64(line as i64);
            let lifted = up_to(self.0, line);
            let lines = _mm512_alignr_epi64::<7>(self.0, line);
            let lines = _mm512_mask_mov_epi64(self.0, lifted, lines);
            let moved = _mm_mask_mov_epi16(self.1, lifted, _mm_alignr_epi8::<14>(self.1, entries));
            (Self(lines, moved), _mm_extract_epi16::<0>(entries) as Entry)
        }
    }

    #[inline(always)]
    fn push(self, line: u64, entry: Entry) -> Self {
        // SAFETY: see above.
        unsafe {
            let lines = _mm512_alignr_epi64::<7>(self.0, _mm512_set1_epi64(line as i64));
            Self(lines, _mm_alignr_epi8::<14>(self.1, _mm_set1_epi16(entry as i16)))
        }
    }

    #[inline(always)]
    fn last(self) -> Option<(u64, Entry)> {
        // SAFETY: see above.
        let (line, entry) = unsafe {
            let lines = _mm512_extracti32x4_epi32::<3>(self.0);
            (_mm_extract_epi64::<1>(lines) as u64, _mm_extract_epi16::<7>(self.1) as Entry)
        };
        (line != NONE).then_some((line, entry))
    }
}

/// Vectors, all ones where something is to go. Masks in registers would do as well, but the compiler makes stores under
/// such a mask of them, and loads have to wait for those.
#[repr(align(64))]
struct Aligned<T>(T);

static ONLY_BYTE: [Aligned<[u8; 64]>; 64] = only::<1, 64>();
static ONLY_WORD: [Aligned<[u8; 64]>; 32] = only::<2, 32>();

const fn only<const SIZE: usize, const N: usize>() -> [Aligned<[u8; 64]>; N] {
    let mut all = [const { Aligned([0; 64]) }; N];
    let mut byte = 0;
    while byte < 64 {
        all[byte / SIZE].0[byte] = u8::MAX;
        byte += 1;
    }
    all
}

/// One bit for each of these lines up to the first that is this one. In registers of masks all the way: it takes long to bring
/// one elsewhere and back, and the next line waits for it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn up_to(lines: __m512i, line: __m512i) -> __mmask8 {
    let up_to: u32;
    // SAFETY:
    // - registers only.
    unsafe {
        core::arch::asm!(
            "vpcmpeqq {here}, {lines}, {line}",
            "kaddd {up_to}, {here}, {less}",
            "kxord {up_to}, {up_to}, {here}",
            lines = in(zmm_reg) lines, line = in(zmm_reg) line, less = in(kreg) u32::MAX,
            here = out(kreg) _, up_to = out(kreg) up_to,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    up_to as __mmask8
}

/// `new` where the mask is all ones, else `old`.
#[inline]
#[target_feature(enable = "avx512f")]
fn select(mask: &Aligned<[u8; 64]>, new: __m512i, old: __m512i) -> __m512i {
    // SAFETY:
    // - the mask is 64 bytes, aligned to 64.
    let mask = unsafe { _mm512_load_si512(mask.0.as_ptr().cast()) };
    _mm512_ternarylogic_epi64::<0xca>(mask, new, old)
}

/// 1 << i in byte i.
const ONE_BIT_EACH: i64 = 0x8040_2010_0804_0201_u64 as i64;

/// A byte in all places: from memory, because the one unit that could take it from a register has enough to do.
#[inline]
#[target_feature(enable = "avx512f")]
fn splat(byte: u8) -> __m512i {
    static FOUR_TIMES: [i32; 256] = {
        let mut all = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            all[byte] = i32::from_ne_bytes([byte as u8; 4]);
            byte += 1;
        }
        all
    };
    _mm512_set1_epi32(FOUR_TIMES[usize::from(byte)])
}

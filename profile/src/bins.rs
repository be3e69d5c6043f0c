//! Where the edges of a [`Bin`](crate::Bin) lie. Readers use it to check a file; the engine that fills the bins has its
//! own, and the two meet in the check.

/// The bin that holds `value`, as `(lo, hi)` with `lo <= value < hi`.
///
/// Below 512 every value has its own. Above, a value in `[2^k, 2^(k+1))` falls between two neighbouring multiples of
/// `2^(k-8)`: 256 bins per power of two. The last bin would end at 2^64 and ends at `u64::MAX` instead, so that value,
/// which no distance can reach, lies in none.
#[must_use]
pub const fn bin_of(value: u64) -> (u64, u64) {
    if value < 512 {
        return (value, value + 1);
    }
    let step = 1 << (value.ilog2() - 8);
    let lo = value & !(step - 1);
    (lo, lo.saturating_add(step))
}

/// Number of the bin that holds `value`, counted from 0 at value 0: 512 single values, then 256 a power of two.
#[must_use]
pub const fn index_of(value: u64) -> u64 {
    if value < 512 {
        return value;
    }
    let power = value.ilog2();
    // The nine leading bits count from 256 on; 512 is where power 9 begins.
    (power as u64 - 8) * 256 + (value >> (power - 8))
}

/// The `index`-th bin, as `(lo, hi)`; `None` beyond the last, which holds 2^64 - 2.
#[must_use]
pub const fn bin_at(index: u64) -> Option<(u64, u64)> {
    if index < 512 {
        return Some((index, index + 1));
    }
    let shift = index / 256 - 1;
    if shift > 55 {
        return None;
    }
    Some(bin_of((index % 256 + 256) << shift))
}

#[cfg(test)]
mod tests {
    use super::{bin_at, bin_of, index_of};
    use proptest::prelude::*;

    #[test]
    fn edges_by_hand() {
        assert_eq!(bin_of(0), (0, 1));
        assert_eq!(bin_of(511), (511, 512));
        assert_eq!(bin_of(512), (512, 514));
        assert_eq!(bin_of(513), (512, 514));
        assert_eq!(bin_of(1023), (1022, 1024));
        assert_eq!(bin_of(1024), (1024, 1028));
        assert_eq!(bin_of(u64::MAX).1, u64::MAX);
    }

    #[test]
    fn bins_are_numbered_without_gaps() {
        let mut lo = 0;
        for index in 0.. {
            let Some(bin) = bin_at(index) else { break };
            assert_eq!(bin, bin_of(lo));
            assert_eq!(index_of(lo), index);
            assert_eq!(index_of(bin.1 - 1), index);
            lo = bin.1;
        }
        assert_eq!(lo, u64::MAX);
        assert_eq!(bin_at(u64::MAX), None);
    }

    proptest! {
        /// Bins tile the numbers: each value is in its bin, every value of a bin names the same bin, and the next bin
        /// begins where this one ends, at a multiple of the width that the model gives.
        #[test]
        fn bins_tile(bits in 1_u32..63, random: u64) {
            let value = random >> (64 - bits);
            let (lo, hi) = bin_of(value);
            prop_assert!(lo <= value && value < hi);
            prop_assert_eq!(bin_of(lo), (lo, hi));
            prop_assert_eq!(bin_of(hi - 1), (lo, hi));
            prop_assert_eq!(bin_of(hi).0, hi);
            let width = if value < 512 { 1 } else { 2_u64.pow(value.ilog2() - 8) };
            prop_assert_eq!(hi - lo, width);
            prop_assert_eq!(lo % width, 0);
        }
    }
}

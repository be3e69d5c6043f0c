//! Numbers in as few bytes as they need: unsigned LEB128, seven bits a byte, least significant first, the top bit set on
//! all but the last.

use crate::error::Damage;

/// Appends a number.
#[inline]
pub(crate) fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Takes a number off the front of `from`; `cut` is the error if it ends too early.
#[inline]
pub(crate) fn take(from: &mut &[u8], cut: &Damage) -> Result<u64, Damage> {
    if let [byte @ 0..0x80, rest @ ..] = *from {
        *from = rest;
        return Ok((*byte).into());
    }
    take_long(from, cut)
}

fn take_long(from: &mut &[u8], cut: &Damage) -> Result<u64, Damage> {
    let mut value = 0;
    for (index, &byte) in from.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            break;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *from = &from[index + 1..];
            return Ok(value);
        }
    }
    Err(if from.len() < 10 { cut.clone() } else { Damage::Structure("a number does not fit 64 bits") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CUT: Damage = Damage::Structure("cut");

    #[test]
    fn by_hand() {
        let put = |value| {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes
        };
        assert_eq!(put(0), [0]);
        assert_eq!(put(127), [127]);
        assert_eq!(put(128), [0x80, 1]);
        assert_eq!(put(300), [0xac, 2]);
        assert_eq!(put(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(take(&mut &too_large[..], &CUT), Err(Damage::Structure("a number does not fit 64 bits")));
        assert_eq!(take(&mut &[][..], &CUT), Err(CUT));
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.push(9);
            let mut rest = &*bytes;
            prop_assert_eq!(take(&mut rest, &CUT), Ok(value));
            prop_assert_eq!(rest, &[9]);
            for len in 0..bytes.len() - 1 {
                prop_assert_eq!(take(&mut &bytes[..len], &CUT), Err(CUT));
            }
        }
    }
}

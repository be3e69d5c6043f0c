//! What packs and unpacks the contents of sections: libzstd, and a reader in Rust where C cannot be compiled.

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::{Packer, Unpacker};
#[cfg(target_family = "wasm")]
pub(crate) use portable::{Packer, Unpacker};

/// The most bytes that zstd makes of so many, `ZSTD_COMPRESSBOUND` of its `zstd.h`.
pub(crate) const fn most_packed(raw: usize) -> usize {
    const SMALL: usize = 128 << 10;
    raw + (raw >> 8) + (SMALL.saturating_sub(raw) >> 11)
}

/// libzstd.
#[cfg(not(target_family = "wasm"))]
mod native {
    use super::most_packed;
    use std::io;

    /// Compresses one buffer after the other.
    pub(crate) struct Packer(zstd::bulk::Compressor<'static>);

    impl Packer {
        pub(crate) fn new(level: i32) -> io::Result<Self> {
            Ok(Self(zstd::bulk::Compressor::new(level)?))
        }

        /// Replaces what is in `packed`.
        pub(crate) fn pack(&mut self, raw: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
            packed.clear();
            packed.reserve(most_packed(raw.len()));
            self.0.compress_to_buffer(raw, packed)?;
            Ok(())
        }
    }

    /// Decompresses one buffer after the other.
    pub(crate) struct Unpacker(zstd::bulk::Decompressor<'static>);

    impl Unpacker {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(zstd::bulk::Decompressor::new()?))
        }

        /// At most `most` bytes.
        pub(crate) fn unpack(&mut self, packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
            self.0.decompress(packed, most)
        }
    }
}

/// The same in Rust: slower, and packing hardly saves anything.
#[cfg(any(test, target_family = "wasm"))]
mod portable {
    use ruzstd::{
        decoding::FrameDecoder,
        encoding::{CompressionLevel, compress_to_vec},
    };
    use std::io;

    /// As [`super::native::Packer`].
    pub(crate) struct Packer;

    impl Packer {
        pub(crate) fn new(_level: i32) -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn pack(&mut self, raw: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
            *packed = compress_to_vec(raw, CompressionLevel::Uncompressed);
            Ok(())
        }
    }

    /// As [`super::native::Unpacker`].
    pub(crate) struct Unpacker(FrameDecoder);

    impl Unpacker {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(FrameDecoder::new()))
        }

        pub(crate) fn unpack(&mut self, packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
            let mut raw = vec![0; most];
            let length = self.0.decode_all(packed, &mut raw).map_err(io::Error::other)?;
            raw.truncate(length);
            Ok(raw)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{most_packed, native, portable};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn each_reads_what_the_other_wrote(raw in prop::collection::vec(0..4_u8, 0..300_000)) {
            let mut packed = Vec::new();
            native::Packer::new(3).unwrap().pack(&raw, &mut packed).unwrap();
            prop_assert_eq!(&portable::Unpacker::new().unwrap().unpack(&packed, raw.len()).unwrap(), &raw);
            portable::Packer::new(3).unwrap().pack(&raw, &mut packed).unwrap();
            prop_assert_eq!(&native::Unpacker::new().unwrap().unpack(&packed, raw.len()).unwrap(), &raw);
        }

    }

    proptest! {
        #[test]
        fn the_bound_is_that_of_zstd(raw in 0..1_usize << 30) {
            prop_assert_eq!(most_packed(raw), zstd::zstd_safe::compress_bound(raw));
        }
    }

    #[test]
    fn both_refuse_more_than_was_promised() {
        let mut packed = Vec::new();
        native::Packer::new(3).unwrap().pack(&[7; 1000], &mut packed).unwrap();
        assert!(native::Unpacker::new().unwrap().unpack(&packed, 999).is_err());
        assert!(portable::Unpacker::new().unwrap().unpack(&packed, 999).is_err());
        assert!(portable::Unpacker::new().unwrap().unpack(&packed[..20.min(packed.len() - 1)], 1000).is_err());
    }
}

//! Accesses in program order, and their cutting into references.

use bf_stack::Reference;

/// Length of the pieces in which `memcpy` is modelled, bytes.
const PIECE: u64 = 4096;
/// Line references handed to an engine at a time: bounds the scratch space whatever the length of a range.
const CHUNK: usize = 4096;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes, more than 0, below 2^63.
    pub size: u64,
    /// Store or load.
    pub store: bool,
}

/// Accesses of one thread in program order. Reusable: [`Batch::clear`] keeps the memory.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Address, and `size << 1 | store`.
    accesses: Vec<(u64, u64)>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One access of `size` bytes; size 0 is no access. What would lie past the end of the address space is cut off.
    #[inline]
    pub fn access(&mut self, address: u64, size: u64, store: bool) {
        if size == 0 {
            return;
        }
        let room = (u64::MAX - address).saturating_add(1);
        let size = size.min(room).min(u64::MAX >> 1);
        self.accesses.push((address, size << 1 | u64::from(store)));
    }

    /// A `memcpy` or `memmove`: pieces of 4096 bytes from the start, each a load range then a store range.
    pub fn copy(&mut self, to: u64, from: u64, size: u64) {
        let mut done = 0;
        while done < size {
            let piece = PIECE.min(size - done);
            self.access(from.wrapping_add(done), piece, false);
            self.access(to.wrapping_add(done), piece, true);
            done += piece;
        }
    }

    /// The accesses.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Access> + '_ {
        self.accesses.iter().map(|&(address, word)| Access { address, size: word >> 1, store: word & 1 != 0 })
    }

    /// Accesses since the last `clear`.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses.len() as u64
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.accesses.clear();
    }

    /// The references to lines of `1 << shift` bytes, in order, in chunks.
    pub(crate) fn references(&self, shift: u32, scratch: &mut Vec<Reference>, mut feed: impl FnMut(&[Reference])) {
        scratch.clear();
        for access in self.iter() {
            let last = (access.address + (access.size - 1)) >> shift;
            for line in access.address >> shift..=last {
                if scratch.len() == CHUNK {
                    feed(scratch);
                    scratch.clear();
                }
                scratch.push(Reference::new(line, access.store));
            }
        }
        feed(scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(batch: &Batch, shift: u32) -> Vec<(u64, bool)> {
        let mut lines = Vec::new();
        batch.references(shift, &mut Vec::new(), |part| lines.extend(part.iter().map(|r| (r.line(), r.is_store()))));
        lines
    }

    #[test]
    fn an_access_references_every_line_it_overlaps() {
        let mut batch = Batch::new();
        batch.access(60, 8, false);
        batch.access(128, 64, true);
        batch.access(5, 0, true);
        assert_eq!(lines(&batch, 6), [(0, false), (1, false), (2, true)]);
        assert_eq!(lines(&batch, 5), [(1, false), (2, false), (4, true), (5, true)]);
    }

    #[test]
    fn a_copy_is_cut_into_pieces_from_its_start() {
        let mut batch = Batch::new();
        batch.copy(0x20000, 0x10020, 5000);
        let cut: Vec<_> = batch.iter().map(|a| (a.address, a.size, a.store)).collect();
        let want = [(0x10020, 4096, false), (0x20000, 4096, true), (0x11020, 904, false), (0x21000, 904, true)];
        assert_eq!(cut, want);
    }

    #[test]
    fn the_end_of_the_address_space_is_the_end() {
        let mut batch = Batch::new();
        batch.access(u64::MAX, 100, false);
        batch.access(u64::MAX - 63, 64, true);
        assert_eq!(lines(&batch, 6), [(u64::MAX >> 6, false), (u64::MAX >> 6, true)]);
    }

    #[test]
    fn long_ranges_come_in_chunks() {
        let mut batch = Batch::new();
        batch.access(0, 64 * 10_000, false);
        assert_eq!(lines(&batch, 6).len(), 10_000);
    }
}

//! The counts of one stack as bytes: variable-length numbers instead of 8 or 24 bytes each, and of a bin only how many
//! empty ones lie before it, because its edges follow. It makes files several times smaller and faster to read.

use crate::bins::{bin_at, index_of};
use crate::coherence::{ByPosition, Coherence};
use crate::error::Damage;
use crate::model::{Bin, FullHistograms, Histograms, SetHistograms};
use crate::varint::{put, take};

/// Appends all counts: the four lists of one set, how many set counts follow, five lists for each. The bins must be
/// sound.
pub(crate) fn pack(histograms: &Histograms, to: &mut Vec<u8>) {
    let FullHistograms { loads, stores, writebacks, resident } = &histograms.full;
    for bins in [loads, stores, writebacks, resident] {
        pack_bins(bins, to);
    }
    put(to, histograms.sets.len() as u64);
    for SetHistograms { loads, stores, capacity, writebacks, resident } in &histograms.sets {
        for counts in [loads, stores, capacity, writebacks, resident] {
            put(to, counts.len() as u64);
            counts.iter().for_each(|&count| put(to, count));
        }
    }
}

/// Appends the counts of a slot: the six lists of one set, how many set counts follow, six lists for each. The bins must
/// be sound.
pub(crate) fn pack_coherence(coherence: &Coherence, max_set_bits: u32, to: &mut Vec<u8>) {
    let all = coherence.all().map(|(_, counts)| counts);
    all.iter().for_each(|counts| pack_bins(&counts.full, to));
    put(to, max_set_bits.into());
    for bits in 0..max_set_bits as usize {
        for counts in all {
            let counts = counts.sets.get(bits).map_or(&[][..], Vec::as_slice);
            put(to, counts.len() as u64);
            counts.iter().for_each(|&count| put(to, count));
        }
    }
}

/// What [`pack_coherence`] wrote, in the order of [`Coherence::all`]; all of `from` must be used up.
pub(crate) fn unpack_coherence(mut from: &[u8]) -> Result<[ByPosition; 6], Damage> {
    let from = &mut from;
    let mut all: [ByPosition; 6] = Default::default();
    for counts in &mut all {
        counts.full = take_bins(from)?;
    }
    for _ in 0..take_len(from, 6)? {
        for counts in &mut all {
            counts.sets.push(take_counts(from)?);
        }
    }
    if from.is_empty() { Ok(all) } else { Err(Damage::Trailing(from.len() as u64)) }
}

fn pack_bins(bins: &[Bin], to: &mut Vec<u8>) {
    put(to, bins.len() as u64);
    let mut next = 0;
    for bin in bins {
        let index = index_of(bin.lo);
        put(to, index - next);
        next = index + 1;
    }
    bins.iter().for_each(|bin| put(to, bin.count));
}

/// What [`pack`] wrote; all of `from` must be used up.
pub(crate) fn unpack(mut from: &[u8]) -> Result<(FullHistograms, Vec<SetHistograms>), Damage> {
    let from = &mut from;
    let full = FullHistograms {
        loads: take_bins(from)?,
        stores: take_bins(from)?,
        writebacks: take_bins(from)?,
        resident: take_bins(from)?,
    };
    let kept = take_len(from, 5)?;
    let mut sets = Vec::with_capacity(kept);
    for _ in 0..kept {
        sets.push(SetHistograms {
            loads: take_counts(from)?,
            stores: take_counts(from)?,
            capacity: take_counts(from)?,
            writebacks: take_counts(from)?,
            resident: take_counts(from)?,
        });
    }
    if from.is_empty() { Ok((full, sets)) } else { Err(Damage::Trailing(from.len() as u64)) }
}

const CUT: Damage = Damage::Structure("counts go beyond their stack");

/// A number of items that take at least `least` bytes each: one that does not fit costs no memory.
fn take_len(from: &mut &[u8], least: usize) -> Result<usize, Damage> {
    let len = take(from, &CUT)?;
    if len > (from.len() / least) as u64 { Err(CUT) } else { Ok(len as usize) }
}

fn take_counts(from: &mut &[u8]) -> Result<Vec<u64>, Damage> {
    let len = take_len(from, 1)?;
    let mut counts = Vec::with_capacity(len);
    for _ in 0..len {
        counts.push(take(from, &CUT)?);
    }
    Ok(counts)
}

fn take_bins(from: &mut &[u8]) -> Result<Vec<Bin>, Damage> {
    let len = take_len(from, 2)?;
    let mut bins = Vec::with_capacity(len);
    let mut next = 0_u64;
    for _ in 0..len {
        let index = next.saturating_add(take(from, &CUT)?);
        let (lo, hi) = bin_at(index).ok_or(Damage::Structure("a bin lies beyond the last"))?;
        bins.push(Bin { lo, hi, count: 0 });
        next = index + 1;
    }
    for bin in &mut bins {
        bin.count = take(from, &CUT)?;
    }
    Ok(bins)
}

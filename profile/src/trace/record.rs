//! Records and their bytes. A record is a tag byte, the length of what follows as a `u32`, and that; a reader skips tags
//! that a later version added.

use crate::error::Damage;
use crate::varint::{put, take};

/// One access: section 1 of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Byte address.
    pub address: u64,
    /// Bytes. 0 is no access, but is kept.
    pub size: u64,
    /// Store, or load.
    pub store: bool,
}

/// Something other than accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A thread takes this slot over, with its contents.
    SlotTaken {
        /// The slot.
        slot: u32,
    },
    /// The thread that took this slot was made when that number says: those that were made later have greater ones.
    SlotMade {
        /// The slot.
        slot: u32,
        /// The number.
        thread: u64,
    },
    /// The thread on this slot ended.
    SlotReleased {
        /// The slot.
        slot: u32,
    },
    /// From here on `bucket` stands for the tag of this name.
    TagName {
        /// The bucket.
        bucket: u8,
        /// The name; "" before any tag.
        name: String,
    },
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// Accesses of one thread, in program order.
    Chunk {
        /// The slot whose stacks take them.
        slot: u32,
        /// The histograms they count into; 0: they move the stacks and are not counted.
        bucket: u8,
        /// The accesses. A long chunk of the run may come as several.
        accesses: Vec<Access>,
    },
    /// Anything else.
    Event(Event),
}

const CHUNK: u8 = 1;
const SLOT_TAKEN: u8 = 2;
const SLOT_RELEASED: u8 = 3;
const TAG_NAME: u8 = 4;
const SLOT_MADE: u8 = 5;

/// Code in bits 1 ..= 3 of an access for a size that has none of its own and is written out.
const OTHER_SIZE: u8 = 7;

/// Appends a chunk: its slot and bucket, then the kinds and sizes of all accesses, then those sizes that are no small
/// power of two, then all addresses. Like stands beside like, which suits the compressor.
pub(super) fn put_chunk(to: &mut Vec<u8>, slot: u32, bucket: u8, accesses: &[Access]) {
    put_record(to, CHUNK, |to| {
        put(to, slot.into());
        to.push(bucket);
        put(to, accesses.len() as u64);
        to.extend(accesses.iter().map(|access| size_code(access.size) << 1 | u8::from(access.store)));
        for access in accesses.iter().filter(|access| size_code(access.size) == OTHER_SIZE) {
            put(to, access.size);
        }
        let mut last = 0;
        for access in accesses {
            put(to, zigzag(access.address.wrapping_sub(last)));
            last = access.address;
        }
    });
}

/// Appends an event.
pub(super) fn put_event(to: &mut Vec<u8>, event: &Event) {
    match event {
        Event::SlotTaken { slot } => put_record(to, SLOT_TAKEN, |to| put(to, (*slot).into())),
        Event::SlotReleased { slot } => put_record(to, SLOT_RELEASED, |to| put(to, (*slot).into())),
        Event::SlotMade { slot, thread } => put_record(to, SLOT_MADE, |to| {
            put(to, (*slot).into());
            put(to, *thread);
        }),
        Event::TagName { bucket, name } => put_record(to, TAG_NAME, |to| {
            to.push(*bucket);
            to.extend(name.as_bytes());
        }),
    }
}

/// Appends a tag, room for the length, the contents, and fills the length in.
fn put_record(to: &mut Vec<u8>, tag: u8, contents: impl FnOnce(&mut Vec<u8>)) {
    to.extend([tag, 0, 0, 0, 0]);
    let begin = to.len();
    contents(to);
    let len = (to.len() - begin) as u32;
    to[begin - 4..begin].copy_from_slice(&len.to_le_bytes());
}

/// Takes one record off the front of `from`; `None` for one of a later version.
pub(super) fn take_record(from: &mut &[u8]) -> Result<Option<Record>, Damage> {
    let (&[tag, ref len @ ..], rest) = from.split_first_chunk::<5>().ok_or(CUT)?;
    let (contents, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or(CUT)?;
    *from = rest;
    let mut contents = contents;
    let record = match tag {
        CHUNK => take_chunk(&mut contents)?,
        SLOT_TAKEN => Record::Event(Event::SlotTaken { slot: take_slot(&mut contents)? }),
        SLOT_RELEASED => Record::Event(Event::SlotReleased { slot: take_slot(&mut contents)? }),
        SLOT_MADE => {
            Record::Event(Event::SlotMade { slot: take_slot(&mut contents)?, thread: take(&mut contents, &CUT)? })
        }
        TAG_NAME => {
            let bucket = take_byte(&mut contents)?;
            let name = String::from_utf8_lossy(std::mem::take(&mut contents)).into_owned();
            Record::Event(Event::TagName { bucket, name })
        }
        _ => return Ok(None),
    };
    if contents.is_empty() { Ok(Some(record)) } else { Err(Damage::Trailing(contents.len() as u64)) }
}

fn take_chunk(from: &mut &[u8]) -> Result<Record, Damage> {
    let slot = take_slot(from)?;
    let bucket = take_byte(from)?;
    // One byte of kind and at least one of address each: a count that does not fit costs no memory.
    let count = take(from, &CUT)?;
    let (codes, rest) = usize::try_from(count).ok().and_then(|count| from.split_at_checked(count)).ok_or(CUT)?;
    *from = rest;
    let mut accesses = Vec::with_capacity(codes.len());
    for &code in codes {
        if code > OTHER_SIZE << 1 | 1 {
            return Err(Damage::Structure("an access has an unknown kind"));
        }
        let size = if code >> 1 == OTHER_SIZE { take(from, &CUT)? } else { 1 << (code >> 1) };
        accesses.push(Access { address: 0, size, store: code & 1 != 0 });
    }
    let mut last = 0_u64;
    for access in &mut accesses {
        last = last.wrapping_add(unzigzag(take(from, &CUT)?));
        access.address = last;
    }
    Ok(Record::Chunk { slot, bucket, accesses })
}

const CUT: Damage = Damage::Structure("a record goes beyond its frame");

fn take_slot(from: &mut &[u8]) -> Result<u32, Damage> {
    u32::try_from(take(from, &CUT)?).map_err(|_| Damage::Structure("a slot number is too large"))
}

fn take_byte(from: &mut &[u8]) -> Result<u8, Damage> {
    let (&byte, rest) = from.split_first().ok_or(CUT)?;
    *from = rest;
    Ok(byte)
}

/// Sizes 1, 2, 4 ..= 64 have a code of their own: their exponent.
const fn size_code(size: u64) -> u8 {
    if size.is_power_of_two() && size <= 64 { size.trailing_zeros() as u8 } else { OTHER_SIZE }
}

/// Small steps up and down, as two's complement, become small numbers.
const fn zigzag(step: u64) -> u64 {
    step << 1 ^ (step.cast_signed() >> 63).cast_unsigned()
}

const fn unzigzag(code: u64) -> u64 {
    code >> 1 ^ (code & 1).wrapping_neg()
}

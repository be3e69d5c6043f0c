//! What the sections of each kind hold, and how they grow.
//!
//! Every kind has its own version. A field is added by appending it at the end of the section's contents and raising
//! the version: an older reader decodes the beginning it knows and leaves the rest, a newer reader fills what an older
//! file lacks with defaults. A field that belongs to a nested struct is appended in the same way, as a list that runs
//! parallel to the structs. Wire types that differ from the model stand here.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::{Decode, Encode};

use crate::coherence::{Coherence, LineCoherence};
use crate::counters::Counters;
use crate::counts::{pack, pack_coherence, unpack, unpack_coherence};
use crate::error::Damage;
use crate::model::{
    Callee, Histograms, ItemLines, ItemStack, LineData, Machine, Meta, Owner, References, Sampling, StackData,
};
use crate::objects::Objects;
use crate::paths::Paths;
use crate::patterns::{Patterns, Strides, Touched, TouchedBy};
use crate::places::Places;
use crate::section::{Kind, MAX_RAW};
use crate::sharing::{SharedLine, SharedLines};

/// Decoded data may take more room than its encoding: an empty vector is 8 bytes in a file and 24 in memory.
const MAX_DECODED: usize = 4 * MAX_RAW as usize;

const CONFIG: Configuration<LittleEndian, Fixint, Limit<MAX_DECODED>> =
    bincode::config::legacy().with_limit::<MAX_DECODED>();

/// The contents of one kind of section, as this version of bf reads them.
pub(crate) trait Part: Sized {
    /// The newest version it knows.
    const VERSION: u16;

    /// Decodes contents of `version`, 1 ..= [`Self::VERSION`]; returns how many bytes that took.
    fn decode(version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage>;

    /// Decodes contents of any version, an unknown newer one as the newest known.
    fn decode_any(version: u16, bytes: &[u8]) -> Result<Self, Damage> {
        if version == 0 {
            return Err(Damage::Structure("its version is 0"));
        }
        let (part, used) = Self::decode(version.min(Self::VERSION), bytes)?;
        if version <= Self::VERSION && used < bytes.len() {
            return Err(Damage::Trailing((bytes.len() - used) as u64));
        }
        Ok(part)
    }
}

/// Decodes a value from the beginning of `bytes`.
pub(crate) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<(T, usize), Damage> {
    bincode::decode_from_slice(bytes, CONFIG).map_err(|error| Damage::Encoding(error.to_string()))
}

/// Appends a value. The model's types hold nothing that bincode refuses and a `Vec` takes every byte.
pub(crate) fn encode(value: &impl Encode, to: &mut Vec<u8>) {
    bincode::encode_into_std_write(value, to, CONFIG).expect("plain data always encodes");
}

/// Everything of a process but its histograms, owned.
#[derive(Debug, Default, Decode)]
pub(crate) struct Head {
    pub(crate) meta: Meta,
    pub(crate) machine: Machine,
    pub(crate) uninstrumented: Vec<Callee>,
    pub(crate) log: Vec<String>,
    pub(crate) tags: Vec<String>,
}

impl Part for Head {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        decode(bytes)
    }
}

/// The same, borrowed: what a writer encodes.
#[derive(Debug, Encode)]
pub(crate) struct HeadRef<'a> {
    pub(crate) meta: &'a Meta,
    pub(crate) machine: &'a Machine,
    pub(crate) uninstrumented: &'a [Callee],
    pub(crate) log: &'a [String],
    pub(crate) tags: &'a [String],
}

/// Some stacks of one line size. Many stacks are spread over several sections.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Lines {
    pub(crate) line_bytes: u32,
    pub(crate) max_set_bits: u32,
    pub(crate) max_ways: u32,
    pub(crate) stacks: Vec<Stack>,
}

/// One stack, its counts packed.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Stack {
    owner: Owner,
    tag: u32,
    references: [u64; 2],
    cold: [u64; 2],
    counts: Vec<u8>,
}

impl Stack {
    /// The stack as it goes into a file. Its bins must be sound.
    pub(crate) fn new(StackData { owner, tag, histograms }: &StackData) -> Self {
        let (owner, tag) = (*owner, *tag);
        let mut counts = Vec::new();
        pack(histograms, &mut counts);
        Self { owner, tag, references: histograms.references, cold: histograms.cold, counts }
    }

    /// Bytes it takes in a section, rounded up.
    pub(crate) fn encoded_len(&self) -> usize {
        self.counts.len() + 64
    }

    /// The same of one item.
    pub(crate) fn of_item(ItemStack { owner, tag, item: _, histograms }: &ItemStack) -> Self {
        let mut counts = Vec::new();
        pack(histograms, &mut counts);
        let Histograms { references, cold, .. } = *histograms;
        Self { owner: *owner, tag: *tag, references, cold, counts }
    }

    fn into_model(self) -> Result<StackData, Damage> {
        let Self { owner, tag, references, cold, counts } = self;
        let (full, sets) = unpack(&counts)?;
        Ok(StackData { owner, tag, histograms: Histograms { references, cold, full, sets } })
    }
}

impl Part for LineData {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let (Lines { line_bytes, max_set_bits, max_ways, stacks }, used) = decode(bytes)?;
        let stacks = stacks.into_iter().map(Stack::into_model).collect::<Result<_, _>>()?;
        Ok((Self { line_bytes, max_set_bits, max_ways, stacks }, used))
    }
}

/// Some stacks of one line size, broken down.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Items {
    pub(crate) line_bytes: u32,
    pub(crate) max_set_bits: u32,
    pub(crate) max_ways: u32,
    /// Each with its item.
    pub(crate) stacks: Vec<(u32, Stack)>,
}

impl Part for ItemLines {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let (Items { line_bytes, max_set_bits, max_ways, stacks }, used) = decode(bytes)?;
        let stack = |(item, stack): (u32, Stack)| {
            let StackData { owner, tag, histograms } = stack.into_model()?;
            Ok(ItemStack { owner, tag, item, histograms })
        };
        let stacks = stacks.into_iter().map(stack).collect::<Result<_, _>>()?;
        Ok((Self { line_bytes, max_set_bits, max_ways, stacks }, used))
    }
}

/// What every section of sampled line data of one line size begins with.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SampledHead {
    pub(crate) line_bytes: u32,
    pub(crate) max_set_bits: u32,
    pub(crate) max_ways: u32,
    pub(crate) sampling: Sampling,
    pub(crate) references: Vec<References>,
}

/// One group by one of the two ways of sampling, or some of its stacks.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) head: SampledHead,
    /// Number of the group.
    pub(crate) group: u32,
    /// Whether lines were chosen at random, not by sets.
    pub(crate) full: bool,
    pub(crate) lines: LineData,
}

impl Part for Sampled {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let ((head, group, full), used) = decode(bytes)?;
        let (lines, more) = <LineData as Part>::decode(1, &bytes[used..])?;
        Ok((Self { head, group, full, lines }, used + more))
    }
}

/// The coherence of some slots of one line size. Many slots are spread over several sections.
#[derive(Debug, Encode, Decode)]
pub(crate) struct CoherentLines {
    pub(crate) line_bytes: u32,
    pub(crate) max_set_bits: u32,
    pub(crate) max_ways: u32,
    pub(crate) slots: Vec<CoherentSlot>,
}

/// One slot under one tag, its counts packed.
#[derive(Debug, Encode, Decode)]
pub(crate) struct CoherentSlot {
    slot: u32,
    tag: u32,
    counts: Vec<u8>,
}

impl CoherentSlot {
    /// The slot as it goes into a file. Its bins must be sound.
    pub(crate) fn new(coherence: &Coherence, max_set_bits: u32) -> Self {
        let mut counts = Vec::new();
        pack_coherence(coherence, max_set_bits, &mut counts);
        Self { slot: coherence.slot, tag: coherence.tag, counts }
    }

    /// Bytes it takes in a section.
    pub(crate) fn encoded_len(&self) -> usize {
        self.counts.len() + 16
    }

    fn into_model(self) -> Result<Coherence, Damage> {
        let Self { slot, tag, counts } = self;
        let [lost, received, sent, remote, own, dirty] = unpack_coherence(&counts)?;
        Ok(Coherence { slot, tag, lost, received, sent, remote, own, dirty })
    }
}

impl Part for LineCoherence {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let (CoherentLines { line_bytes, max_set_bits, max_ways, slots }, used) = decode(bytes)?;
        let slots = slots.into_iter().map(CoherentSlot::into_model).collect::<Result<_, _>>()?;
        Ok((Self { line_bytes, max_set_bits, max_ways, slots }, used))
    }
}

/// Some shared lines of one size. Many lines are spread over several sections.
#[derive(Debug, Encode)]
pub(crate) struct SharedLinesRef<'a> {
    pub(crate) line_bytes: u32,
    pub(crate) most: u64,
    pub(crate) dropped_lines: u64,
    pub(crate) dropped_accesses: u64,
    pub(crate) lines: Vec<&'a SharedLine>,
}

impl<'a> SharedLinesRef<'a> {
    /// Some of the lines, each as it was last, and what was counted of them while other objects lay there.
    pub(crate) fn new(data: &SharedLines, part: &'a [SharedLine]) -> (Self, Vec<&'a SharedLine>) {
        let next = part.iter().skip(1).map(Some).chain([None]);
        let is_last =
            |(line, next): &(&SharedLine, Option<&SharedLine>)| next.is_none_or(|next| next.address != line.address);
        let (lines, before): (Vec<_>, Vec<_>) = part.iter().zip(next).partition(is_last);
        let [lines, before] = [lines, before].map(|all| all.into_iter().map(|(line, _)| line).collect());
        let &SharedLines { line_bytes, most, dropped_lines, dropped_accesses, .. } = data;
        (Self { line_bytes, most, dropped_lines, dropped_accesses, lines }, before)
    }
}

impl Part for SharedLines {
    const VERSION: u16 = 2;

    fn decode(version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let (data, used): (Self, _) = decode(bytes)?;
        // In version 1 each line is there once.
        let (mut lines, more): (Vec<SharedLine>, _) =
            if version >= 2 { decode(&bytes[used..])? } else { Default::default() };
        let sorted = data.lines.is_sorted_by(|a, b| a.address < b.address);
        if !sorted || !lines.is_sorted_by_key(|line| line.address) {
            return Err(Damage::Structure("its lines are not sorted by address, or one is there twice"));
        }
        lines.extend(data.lines);
        lines.sort_by_key(|line| line.address);
        Ok((Self { lines, ..data }, used + more))
    }
}

impl Part for Places {
    const VERSION: u16 = 2;

    fn decode(version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let ((strings, functions, loops, sites, items), used) = decode(bytes)?;
        // Version 1 had no blocks.
        let (blocks, more) = if version >= 2 { decode(&bytes[used..])? } else { Default::default() };
        Ok((Self { strings, functions, loops, sites, items, blocks }, used + more))
    }
}

/// Access patterns, but for those by function, which have sections of their own.
#[derive(Debug, Encode)]
pub(crate) struct PatternsRef<'a> {
    pub(crate) touched: &'a [Touched],
    pub(crate) strides: &'a [Strides],
}

impl Part for Patterns {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let ((touched, strides), used) = decode(bytes)?;
        Ok((Self { touched, strides, by_function: Vec::new() }, used))
    }
}

/// What some functions touched. Many functions are spread over several sections.
impl Part for Vec<TouchedBy> {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        decode(bytes)
    }
}

impl Part for Objects {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        decode(bytes)
    }
}

impl Part for Paths {
    const VERSION: u16 = 1;

    fn decode(_version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        decode(bytes)
    }
}

impl Part for Counters {
    const VERSION: u16 = 3;

    fn decode(version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let ((names, functions, items), used) = decode(bytes)?;
        // Version 1 had no blocks.
        let (blocks, more) = if version >= 2 { decode(&bytes[used..])? } else { Default::default() };
        // Version 2 had no places.
        let rest = &bytes[used + more..];
        let (places, yet_more) = if version >= 3 { decode(rest)? } else { Default::default() };
        Ok((Self { names, functions, items, blocks, places }, used + more + yet_more))
    }
}

/// The version that a writer gives to sections of a kind.
pub(crate) const fn version_of(kind: Kind) -> u16 {
    match kind {
        Kind::Head => Head::VERSION,
        Kind::Lines => LineData::VERSION,
        Kind::Sampled => Sampled::VERSION,
        Kind::Coherence => LineCoherence::VERSION,
        Kind::Sharing => SharedLines::VERSION,
        Kind::Counters => Counters::VERSION,
        Kind::Items => <ItemLines as Part>::VERSION,
        Kind::Places => <Places as Part>::VERSION,
        Kind::Patterns => <Patterns as Part>::VERSION,
        Kind::TouchedBy => <Vec<TouchedBy> as Part>::VERSION,
        Kind::Objects => <Objects as Part>::VERSION,
        Kind::Paths => <Paths as Part>::VERSION,
        Kind::TraceHead => <crate::trace::Header as Part>::VERSION,
        Kind::End | Kind::Records => 1,
    }
}

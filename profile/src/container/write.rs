//! A profile in, the bytes of a file out.

use std::io::Write;

use crate::coherence::LineCoherence;
use crate::counters::Counters;
use crate::error::Error;
use crate::model::{ItemLines, LineData, Process, Profile, SampledLines};
use crate::objects::Objects;
use crate::paths::Paths;
use crate::patterns::{Patterns, TouchedBy};
use crate::places::Places;
use crate::section::{Format, Header, Kind, SectionWriter};
use crate::sharing::{SharedLine, SharedLines};
use crate::wire::{
    CoherentLines, CoherentSlot, HeadRef, Items, Lines, PatternsRef, SampledHead, SharedLinesRef, Stack, encode,
    version_of,
};

/// Line data beyond this many bytes is spread over several sections: it bounds what a writer buffers, which may be a
/// runtime inside somebody's process, and keeps every section far below what a reader accepts.
const SPLIT: usize = 8 << 20;

/// Histograms are mostly small numbers and zeros; higher levels save a few percent and cost several times as much.
const LEVEL: i32 = 3;

/// Writes a profile.
///
/// # Errors
/// [`Error::Io`] and [`Error::DiskFull`] from the writer; [`Error::TooLarge`] if names, log and callees of one process
/// exceed 64 MiB; [`Error::Inconsistent`] if bins do not lie where the model puts them.
pub fn write(profile: &Profile, to: impl Write) -> Result<(), Error> {
    write_split(profile, to, SPLIT)
}

/// The same with another limit in place of [`SPLIT`].
pub(super) fn write_split(profile: &Profile, to: impl Write, split: usize) -> Result<(), Error> {
    let mut processes = ProcessWriter { sections: SectionWriter::new(to, &Format::PROFILE, LEVEL)?, written: 0, split };
    profile.processes.iter().try_for_each(|process| processes.process(process))?;
    processes.finish()
}

/// Writes a profile process by process, so that only one of them is ever in memory.
pub(crate) struct ProcessWriter<W> {
    sections: SectionWriter<W>,
    written: u32,
    split: usize,
}

impl<W: Write> ProcessWriter<W> {
    /// Begins a profile.
    pub(crate) fn new(to: W) -> Result<Self, Error> {
        Ok(Self { sections: SectionWriter::new(to, &Format::PROFILE, LEVEL)?, written: 0, split: SPLIT })
    }

    /// Writes the next process; keys must ascend.
    pub(crate) fn process(&mut self, process: &Process) -> Result<(), Error> {
        let Self { sections, written, split } = self;
        let (index, split) = (*written, *split);
        let Process { meta, machine, uninstrumented, log, tags, lines, sampled, .. } = process;
        let Process { coherence, sharing, counters, places, objects, paths, items, patterns, .. } = process;
        let mut raw = Vec::new();
        encode(&HeadRef { meta, machine, uninstrumented, log, tags }, &mut raw);
        sections.section(header(Kind::Head, index, 0), &raw)?;
        for data in lines {
            write_lines(sections, header(Kind::Lines, index, data.line_bytes), &[], data, split)?;
        }
        for data in sampled {
            write_sampled(sections, header(Kind::Sampled, index, data.line_bytes), data, split)?;
        }
        for data in coherence {
            write_coherence(sections, header(Kind::Coherence, index, data.line_bytes), data, split)?;
        }
        for data in sharing {
            write_sharing(sections, header(Kind::Sharing, index, data.line_bytes), data, split)?;
        }
        if *counters != Counters::default() {
            raw.clear();
            encode(counters, &mut raw);
            sections.section(header(Kind::Counters, index, 0), &raw)?;
        }
        if *places != Places::default() {
            raw.clear();
            encode(places, &mut raw);
            sections.section(header(Kind::Places, index, 0), &raw)?;
        }
        if *objects != Objects::default() {
            raw.clear();
            encode(objects, &mut raw);
            sections.section(header(Kind::Objects, index, 0), &raw)?;
        }
        if *paths != Paths::default() {
            raw.clear();
            encode(paths, &mut raw);
            sections.section(header(Kind::Paths, index, 0), &raw)?;
        }
        for data in items {
            write_items(sections, header(Kind::Items, index, data.line_bytes), data, split)?;
        }
        let Patterns { touched, strides, by_function } = patterns;
        if !touched.is_empty() || !strides.is_empty() {
            raw.clear();
            encode(&PatternsRef { touched, strides }, &mut raw);
            sections.section(header(Kind::Patterns, index, 0), &raw)?;
        }
        write_touched_by(sections, header(Kind::TouchedBy, index, 0), by_function, split)?;
        *written += 1;
        Ok(())
    }

    /// Marks the file as complete.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.sections.finish(self.written)?;
        Ok(())
    }
}

pub(super) fn header(kind: Kind, process: u32, part: u32) -> Header {
    Header { kind: kind as u16, version: version_of(kind), process, part, ..Header::default() }
}

/// Writes line data, each section beginning with `front`, in parts that exceed `split` by less than one stack; at least
/// one part, even without stacks.
fn write_lines<W: Write>(
    sections: &mut SectionWriter<W>,
    header: Header,
    front: &[u8],
    data: &LineData,
    split: usize,
) -> Result<(), Error> {
    let &LineData { line_bytes, max_set_bits, max_ways, ref stacks } = data;
    let (mut part, mut bytes, mut raw) = (Vec::new(), 0, front.to_vec());
    for (stack, left) in stacks.iter().zip((0..stacks.len()).rev()) {
        let sound = stack.histograms.validate_bins();
        sound.map_err(|problem| Error::Inconsistent { place: header.place(sections.count()), problem })?;
        part.push(Stack::new(stack));
        bytes += part.last().map_or(0, Stack::encoded_len);
        if bytes >= split && left > 0 {
            raw.truncate(front.len());
            encode(&Lines { line_bytes, max_set_bits, max_ways, stacks: std::mem::take(&mut part) }, &mut raw);
            sections.section(header, &raw)?;
            bytes = 0;
        }
    }
    raw.truncate(front.len());
    encode(&Lines { line_bytes, max_set_bits, max_ways, stacks: part }, &mut raw);
    sections.section(header, &raw)
}

/// The same for line data that is broken down.
fn write_items<W: Write>(
    sections: &mut SectionWriter<W>,
    header: Header,
    data: &ItemLines,
    split: usize,
) -> Result<(), Error> {
    let &ItemLines { line_bytes, max_set_bits, max_ways, ref stacks } = data;
    let (mut part, mut bytes, mut raw) = (Vec::new(), 0, Vec::new());
    for (stack, left) in stacks.iter().zip((0..stacks.len()).rev()) {
        let sound = stack.histograms.validate_bins();
        sound.map_err(|problem| Error::Inconsistent { place: header.place(sections.count()), problem })?;
        let packed = Stack::of_item(stack);
        bytes += packed.encoded_len();
        part.push((stack.item, packed));
        if bytes >= split || left == 0 {
            raw.clear();
            encode(&Items { line_bytes, max_set_bits, max_ways, stacks: std::mem::take(&mut part) }, &mut raw);
            sections.section(header, &raw)?;
            bytes = 0;
        }
    }
    Ok(())
}

/// Writes the groups of sampled line data, first those of whole sets, then those of lines at random.
fn write_sampled<W: Write>(
    sections: &mut SectionWriter<W>,
    header: Header,
    data: &SampledLines,
    split: usize,
) -> Result<(), Error> {
    let &SampledLines { line_bytes, max_set_bits, max_ways, sampling, .. } = data;
    let head = SampledHead { line_bytes, max_set_bits, max_ways, sampling, references: data.references.clone() };
    for (full, groups) in [(false, &data.sets), (true, &data.full)] {
        for (group, lines) in (0_u32..).zip(groups) {
            let mut front = Vec::new();
            encode(&(&head, group, full), &mut front);
            write_lines(sections, header, &front, lines, split)?;
        }
    }
    Ok(())
}

/// Writes the coherence of one line size in parts that exceed `split` by less than one slot; at least one part.
fn write_coherence<W: Write>(
    sections: &mut SectionWriter<W>,
    header: Header,
    data: &LineCoherence,
    split: usize,
) -> Result<(), Error> {
    let &LineCoherence { line_bytes, max_set_bits, max_ways, ref slots } = data;
    let (mut part, mut bytes, mut raw) = (Vec::new(), 0, Vec::new());
    for (slot, left) in slots.iter().zip((0..slots.len()).rev()) {
        let sound = slot.validate_bins();
        sound.map_err(|problem| Error::Inconsistent { place: header.place(sections.count()), problem })?;
        part.push(CoherentSlot::new(slot, max_set_bits));
        bytes += part.last().map_or(0, CoherentSlot::encoded_len);
        if bytes >= split && left > 0 {
            raw.clear();
            encode(&CoherentLines { line_bytes, max_set_bits, max_ways, slots: std::mem::take(&mut part) }, &mut raw);
            sections.section(header, &raw)?;
            bytes = 0;
        }
    }
    raw.clear();
    encode(&CoherentLines { line_bytes, max_set_bits, max_ways, slots: part }, &mut raw);
    sections.section(header, &raw)
}

/// Writes the shared lines of one size in parts that exceed `split` by less than one line; at least one part.
fn write_sharing<W: Write>(
    sections: &mut SectionWriter<W>,
    header: Header,
    data: &SharedLines,
    split: usize,
) -> Result<(), Error> {
    let (mut rest, mut raw) = (&data.lines[..], Vec::new());
    loop {
        let mut bytes = 0;
        let full = rest.iter().position(|line| {
            bytes += encoded_len(line);
            bytes >= split
        });
        let end = full.map_or(rest.len(), |last| {
            // What is known of one line is not split.
            last + rest[last..].iter().take_while(|line| line.address == rest[last].address).count()
        });
        let part;
        (part, rest) = rest.split_at(end);
        raw.clear();
        encode(&SharedLinesRef::new(data, part), &mut raw);
        sections.section(header, &raw)?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Writes what functions touched in parts that exceed `split` by less than one function; none if there is nothing.
fn write_touched_by<W: Write>(
    sections: &mut SectionWriter<W>,
    header: Header,
    mut rest: &[TouchedBy],
    split: usize,
) -> Result<(), Error> {
    let mut raw = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let full = rest.iter().position(|by| {
            bytes += 64 + 16 * by.touched.touches.len();
            bytes >= split
        });
        let part;
        (part, rest) = rest.split_at(full.map_or(rest.len(), |last| last + 1));
        raw.clear();
        encode(&part, &mut raw);
        sections.section(header, &raw)?;
    }
    Ok(())
}

/// Bytes that a line takes in a section, rounded up.
fn encoded_len(line: &SharedLine) -> usize {
    let name = line.object.as_ref().map_or(0, |object| object.name.len());
    let users = line.users.iter().map(|user| 64 + 20 * user.places.len());
    48 + name + users.sum::<usize>()
}

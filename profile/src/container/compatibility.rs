//! The rules by which the format grows, tried with a version that does not exist yet: what it adds, today's reader
//! leaves out; what it lacks in today's files, it fills with defaults.

use super::tests::bytes;
use super::write::header;
use super::{read, salvage::salvage};
use crate::coherence::LineCoherence;
use crate::counters::Counters;
use crate::error::{Damage, Error};
use crate::model::{ItemLines, Process, Profile};
use crate::objects::Objects;
use crate::paths::Paths;
use crate::patterns::Patterns;
use crate::samples::{rich, sampled};
use crate::section::{Format, Header, Kind, SectionReader, SectionWriter};
use crate::wire::{
    CoherentLines, CoherentSlot, Head, HeadRef, Items, Lines, Part, PatternsRef, SharedLinesRef, Stack, decode, encode,
};

/// A head of version 2, which adds two fields: one of the process, one of each callee.
#[derive(Debug)]
struct NextHead {
    head: Head,
    container: String,
    callee_sizes: Vec<u32>,
}

impl Part for NextHead {
    const VERSION: u16 = 2;

    fn decode(version: u16, bytes: &[u8]) -> Result<(Self, usize), Damage> {
        let (head, used) = Head::decode(1, bytes)?;
        let ((container, callee_sizes), more) = if version >= 2 { decode(&bytes[used..])? } else { Default::default() };
        Ok((Self { head, container, callee_sizes }, used + more))
    }
}

/// What a bf of format 1.3 would write: heads of version 2, line data of version 3 and places of version 2 with a list that
/// runs parallel to the stacks and to the sites, and a section of a kind that does not exist yet after each process.
fn next_minor(profile: &Profile) -> Vec<u8> {
    let format = Format { minor: 3, ..Format::PROFILE };
    let mut sections = SectionWriter::new(Vec::new(), &format, 1).unwrap();
    for (process, index) in profile.processes.iter().zip(0..) {
        let Process { meta, machine, uninstrumented, log, tags, lines, places, .. } = process;
        let mut raw = Vec::new();
        encode(&HeadRef { meta, machine, uninstrumented, log, tags }, &mut raw);
        encode(&("podman", vec![7_u32; uninstrumented.len()]), &mut raw);
        sections.section(Header { version: 2, ..header(Kind::Head, index, 0) }, &raw).unwrap();
        for data in lines {
            let mut raw = Vec::new();
            let (line_bytes, max_set_bits, max_ways) = (data.line_bytes, data.max_set_bits, data.max_ways);
            let stacks = data.stacks.iter().map(Stack::new).collect();
            encode(&Lines { line_bytes, max_set_bits, max_ways, stacks }, &mut raw);
            encode(&vec![[1_u64, 2]; data.stacks.len()], &mut raw);
            sections.section(Header { version: 3, ..header(Kind::Lines, index, line_bytes) }, &raw).unwrap();
        }
        for data in &process.coherence {
            let LineCoherence { line_bytes, max_set_bits, max_ways, slots } = data.clone();
            let mut raw = Vec::new();
            let slots = slots.iter().map(|slot| CoherentSlot::new(slot, max_set_bits)).collect();
            encode(&CoherentLines { line_bytes, max_set_bits, max_ways, slots }, &mut raw);
            encode(&"how sure", &mut raw);
            sections.section(Header { version: 2, ..header(Kind::Coherence, index, line_bytes) }, &raw).unwrap();
        }
        if process.patterns != Patterns::default() {
            let Patterns { touched, strides, by_function } = &process.patterns;
            let mut raw = Vec::new();
            encode(&PatternsRef { touched, strides }, &mut raw);
            encode(&"where to", &mut raw);
            sections.section(Header { version: 2, ..header(Kind::Patterns, index, 0) }, &raw).unwrap();
            let mut raw = Vec::new();
            encode(by_function, &mut raw);
            encode(&"how fast", &mut raw);
            sections.section(Header { version: 2, ..header(Kind::TouchedBy, index, 0) }, &raw).unwrap();
        }
        for data in &process.sharing {
            let mut raw = Vec::new();
            encode(&SharedLinesRef::new(data, &data.lines), &mut raw);
            encode(&vec!["who else"; data.lines.len()], &mut raw);
            sections.section(Header { version: 3, ..header(Kind::Sharing, index, data.line_bytes) }, &raw).unwrap();
        }
        if process.counters != Counters::default() {
            raw.clear();
            encode(&process.counters, &mut raw);
            encode(&"how often", &mut raw);
            sections.section(Header { version: 4, ..header(Kind::Counters, index, 0) }, &raw).unwrap();
        }
        let mut raw = Vec::new();
        encode(places, &mut raw);
        encode(&vec![9_u8; places.sites.len()], &mut raw);
        sections.section(Header { version: 3, ..header(Kind::Places, index, 0) }, &raw).unwrap();
        let mut raw = Vec::new();
        encode(&process.objects, &mut raw);
        encode(&"what for", &mut raw);
        sections.section(Header { version: 2, ..header(Kind::Objects, index, 0) }, &raw).unwrap();
        let mut raw = Vec::new();
        encode(&process.paths, &mut raw);
        encode(&"whence", &mut raw);
        sections.section(Header { version: 2, ..header(Kind::Paths, index, 0) }, &raw).unwrap();
        for data in &process.items {
            let &ItemLines { line_bytes, max_set_bits, max_ways, ref stacks } = data;
            let stacks = stacks.iter().map(|stack| (stack.item, Stack::of_item(stack))).collect();
            let mut raw = Vec::new();
            encode(&Items { line_bytes, max_set_bits, max_ways, stacks }, &mut raw);
            encode(&"more", &mut raw);
            sections.section(Header { version: 2, ..header(Kind::Items, index, line_bytes) }, &raw).unwrap();
        }
        sections.section(Header { kind: 900, ..header(Kind::Head, index, 5) }, b"something new").unwrap();
    }
    sections.finish(profile.processes.len() as u32).unwrap()
}

fn first_head(bytes: &[u8]) -> NextHead {
    let mut sections = SectionReader::new(bytes, &Format::PROFILE).unwrap();
    let section = sections.next().unwrap();
    let raw = sections.unpack(&section).unwrap();
    NextHead::decode_any(section.header.version, &raw).unwrap()
}

#[test]
fn old_reader_new_data() {
    let bytes = next_minor(&rich());
    assert_eq!(read(&*bytes).unwrap(), rich());
    assert_eq!(salvage(&bytes).unwrap(), (rich(), vec![]));
}

/// The file as a bf takes it to which one kind of section is unknown, and how many of those there are.
fn without_kind(profile: &Profile, unknown: Kind) -> (Vec<u8>, usize) {
    let bytes = bytes(profile);
    let mut sections = SectionReader::new(&*bytes, &Format::PROFILE).unwrap();
    let mut renamed = SectionWriter::new(Vec::new(), &Format::PROFILE, 1).unwrap();
    let mut count = 0;
    loop {
        let section = sections.next().unwrap();
        let kind = match Kind::of(section.header.kind) {
            Some(Kind::End) => break,
            Some(kind) if kind == unknown => 900,
            _ => section.header.kind,
        };
        count += usize::from(kind == 900);
        let raw = sections.unpack(&section).unwrap();
        renamed.section(Header { kind, ..section.header }, &raw).unwrap();
    }
    (renamed.finish(profile.processes.len() as u32).unwrap(), count)
}

/// A bf of format 1.0 knows no sampled line data: it must find no counts at all, and not take a part for the whole.
#[test]
fn old_reader_sampled_data() {
    let (bytes, renamed) = without_kind(&sampled(), Kind::Sampled);
    let mut without = sampled();
    without.processes[0].sampled.clear();
    assert_eq!((read(&*bytes).unwrap(), renamed), (without, 6));
}

/// Without the coherence, which a salvaged file may lack, misses are as they were and only their kinds are unknown.
#[test]
fn old_reader_coherence() {
    let (bytes, renamed) = without_kind(&rich(), Kind::Coherence);
    let mut without = rich();
    without.processes[0].coherence.clear();
    assert_eq!((read(&*bytes).unwrap(), renamed), (without, 1));
}

#[test]
fn old_reader_objects() {
    let (bytes, renamed) = without_kind(&rich(), Kind::Objects);
    let mut without = rich();
    without.processes[0].objects = Objects::default();
    assert_eq!((read(&*bytes).unwrap(), renamed), (without, 1));
}

#[test]
fn old_reader_bytes_by_function() {
    let (bytes, renamed) = without_kind(&rich(), Kind::TouchedBy);
    let mut without = rich();
    without.processes[0].patterns.by_function.clear();
    assert_eq!((read(&*bytes).unwrap(), renamed), (without, 1));
}

#[test]
fn old_reader_paths() {
    let (bytes, renamed) = without_kind(&rich(), Kind::Paths);
    let mut without = rich();
    without.processes[0].paths = Paths::default();
    assert_eq!((read(&*bytes).unwrap(), renamed), (without, 1));
}

#[test]
fn old_reader_sharing() {
    let (bytes, renamed) = without_kind(&rich(), Kind::Sharing);
    let mut without = rich();
    without.processes[0].sharing.clear();
    assert_eq!((read(&*bytes).unwrap(), renamed), (without, 2));
}

#[test]
fn new_reader_old_data() {
    let next = first_head(&bytes(&rich()));
    assert_eq!(next.head.meta, rich().processes[0].meta);
    assert_eq!((next.container.as_str(), next.callee_sizes), ("", vec![]));
}

#[test]
fn new_reader_new_data() {
    let next = first_head(&next_minor(&rich()));
    assert_eq!(next.head.tags, rich().processes[0].tags);
    assert_eq!((next.container.as_str(), next.callee_sizes), ("podman", vec![7, 7]));
}

#[test]
fn a_newer_major_version_is_refused() {
    let format = Format { major: 2, minor: 3, ..Format::PROFILE };
    let bytes = SectionWriter::new(Vec::new(), &format, 1).unwrap().finish(0).unwrap();
    let error = read(&*bytes).unwrap_err();
    assert_eq!(error.to_string(), "written by a newer bf (format 2.3, this one reads 1.x): update bf");
}

#[test]
fn bytes_beyond_a_known_version_are_damage() {
    let Process { meta, machine, uninstrumented, log, tags, .. } = &rich().processes[0];
    let mut raw = Vec::new();
    encode(&HeadRef { meta, machine, uninstrumented, log, tags }, &mut raw);
    raw.extend([1, 2, 3]);
    let mut sections = SectionWriter::new(Vec::new(), &Format::PROFILE, 1).unwrap();
    sections.section(header(Kind::Head, 0, 0), &raw).unwrap();
    let error = read(&*sections.finish(1).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Corrupt { damage: Damage::Trailing(3), .. }), "{error}");
}

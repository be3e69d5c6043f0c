//! A profile in, the bytes of a file out.

use std::io::Write;

use crate::error::Error;
use crate::model::{Histograms, LineData, Process, Profile, StackData};
use crate::section::{Format, Header, Kind, SectionWriter};
use crate::wire::{HeadRef, LinesRef, encode, version_of};

/// Line data beyond this many bytes is spread over several sections: it bounds what a writer buffers, which may be a
/// runtime inside somebody's process, and keeps every section far below what a reader accepts.
const SPLIT: usize = 8 << 20;

/// Histograms are mostly small numbers and zeros; higher levels save a few percent and cost several times as much.
const LEVEL: i32 = 3;

/// Writes a profile.
///
/// # Errors
/// [`Error::Io`] and [`Error::DiskFull`] from the writer; [`Error::TooLarge`] if names, log and callees of one process
/// exceed 64 MiB.
pub fn write(profile: &Profile, to: impl Write) -> Result<(), Error> {
    let mut sections = SectionWriter::new(to, &Format::PROFILE, LEVEL)?;
    let mut raw = Vec::new();
    for (process, index) in profile.processes.iter().zip(0..) {
        let Process { meta, machine, uninstrumented, log, tags, lines } = process;
        raw.clear();
        encode(&HeadRef { meta, machine, uninstrumented, log, tags }, &mut raw);
        sections.section(header(Kind::Head, index, 0), &raw)?;
        for data in lines {
            for part in split(data) {
                raw.clear();
                encode(&part, &mut raw);
                sections.section(header(Kind::Lines, index, data.line_bytes), &raw)?;
            }
        }
    }
    sections.finish(profile.processes.len() as u32)?;
    Ok(())
}

pub(super) fn header(kind: Kind, process: u32, part: u32) -> Header {
    Header { kind: kind as u16, version: version_of(kind), process, part, ..Header::default() }
}

/// Cuts line data into parts that exceed [`SPLIT`] by less than one stack; at least one part, even without stacks.
fn split(data: &LineData) -> Vec<LinesRef<'_>> {
    let part = |stacks| LinesRef {
        line_bytes: data.line_bytes,
        max_set_bits: data.max_set_bits,
        max_ways: data.max_ways,
        stacks,
    };
    let mut parts = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (index, stack) in data.stacks.iter().enumerate() {
        bytes += encoded_len(stack);
        if bytes >= SPLIT {
            parts.push(part(&data.stacks[begin..=index]));
            (begin, bytes) = (index + 1, 0);
        }
    }
    if begin < data.stacks.len() || parts.is_empty() {
        parts.push(part(&data.stacks[begin..]));
    }
    parts
}

/// About the length of one encoded stack.
fn encoded_len(stack: &StackData) -> usize {
    let Histograms { full, sets, .. } = &stack.histograms;
    let bins = full.loads.len() + full.stores.len() + full.writebacks.len() + full.resident.len();
    let counts = |s: &crate::model::SetHistograms| {
        5 + s.loads.len() + s.stores.len() + s.capacity.len() + s.writebacks.len() + s.resident.len()
    };
    128 + bins * 24 + sets.iter().map(counts).sum::<usize>() * 8
}

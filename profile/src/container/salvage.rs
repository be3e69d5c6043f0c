//! What is left of a damaged profile.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::assemble::{Assembly, Parts};
use crate::counters::Counters;
use crate::error::{Damage, Error, Place};
use crate::merge::merge;
use crate::model::{Process, Profile};
use crate::packing::Unpacker;
use crate::paths::Paths;
use crate::patterns::Patterns;
use crate::section::{FILE_HEADER, Format, Header, Kind, SECTION_HEADER, Section, find_header};
use crate::wire::Head;

/// Reads every intact section of a damaged profile. Returns what they make, and one line for each thing that was lost;
/// no line if the file is sound. A process whose head is lost is called `process-N` and its tags are numbered.
///
/// # Errors
/// [`Error::Io`]; [`Error::Foreign`] if it is no profile and [`Error::Newer`] if its version is unknown, because then
/// nothing in it can be told to be intact.
pub fn salvage_file(path: impl AsRef<Path>) -> Result<(Profile, Vec<String>), Error> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(FILE_HEADER as u64).read_to_end(&mut bytes)?;
    // What is no profile may be of any length.
    begin(&bytes)?;
    file.read_to_end(&mut bytes)?;
    salvage(&bytes)
}

/// What is lost of the file header; fails where nothing behind it can be read.
fn begin(bytes: &[u8]) -> Result<Option<Error>, Error> {
    match Format::PROFILE.check(bytes) {
        Ok(()) => Ok(None),
        Err(lost @ (Error::Truncated { .. } | Error::Corrupt { .. })) => Ok(Some(lost)),
        Err(error) => Err(error),
    }
}

/// More tags than a run can give names to.
const MOST_TAGS: u32 = 1 << 16;

pub(super) fn salvage(bytes: &[u8]) -> Result<(Profile, Vec<String>), Error> {
    let mut lost: Vec<String> = begin(bytes)?.iter().map(ToString::to_string).collect();
    let mut scan =
        Scan { bytes, offset: FILE_HEADER.min(bytes.len()), number: 0, tail_lost: bytes.len() < FILE_HEADER };
    let mut assembly = Assembly::default();
    let mut unpacker = Unpacker::new()?;
    let mut ended = false;
    while let Some(found) = scan.next(&mut lost) {
        ended = found.header.kind == Kind::End as u16;
        if ended {
            end(&found, &scan, &assembly, &mut lost);
            break;
        }
        let taken = found.check().and_then(|()| found.unpack(&mut unpacker));
        if let Err(error) = taken.and_then(|raw| assembly.add(&found, &raw)) {
            lost.push(error.to_string());
        }
    }
    if !ended && !scan.tail_lost {
        lost.push(Error::Truncated { place: Place::Section(scan.number), missing: 0 }.to_string());
    }
    let processes = assembly.parts.into_iter().map(|(index, parts)| whole(index, parts, &mut lost));
    let profiles: Vec<_> = processes.map(|process| Profile { processes: vec![process] }).collect();
    Ok((merge(profiles), lost))
}

/// Walks the sections of a file, over damaged ones too.
struct Scan<'a> {
    bytes: &'a [u8],
    offset: usize,
    number: u32,
    /// Whether the file ends in the middle of something, which was noted.
    tail_lost: bool,
}

impl Scan<'_> {
    /// The next section whose header is sound and whose contents are all there; notes what is skipped.
    fn next(&mut self, lost: &mut Vec<String>) -> Option<Section> {
        while self.offset < self.bytes.len() {
            let rest = &self.bytes[self.offset..];
            let Some((skipped, header)) = find_header(rest) else {
                lost.push(self.tail(rest.len()).to_string());
                self.tail_lost = true;
                self.offset = self.bytes.len();
                break;
            };
            if skipped > 0 {
                let damage = Error::Corrupt { place: Place::Section(self.number), damage: Damage::Header };
                lost.push(format!("{damage}; {skipped} bytes from offset {} on are lost", self.offset));
                self.number += 1;
            }
            let number = self.number;
            self.number += 1;
            self.offset += skipped + SECTION_HEADER;
            match contents(header, number, &self.bytes[self.offset..]) {
                Ok(stored) => {
                    self.offset += stored.len();
                    return Some(Section { number, header, stored });
                }
                // The search goes on right behind this header: what it claims may hold further sections.
                Err(error) => {
                    self.tail_lost |= error.is_truncation();
                    lost.push(error.to_string());
                }
            }
        }
        None
    }

    /// What a rest without any sound header is.
    fn tail(&self, len: usize) -> Error {
        let place = Place::Section(self.number);
        match SECTION_HEADER.checked_sub(len) {
            Some(missing) if missing > 0 => Error::Truncated { place, missing: missing as u64 },
            _ => Error::Corrupt { place, damage: Damage::Header },
        }
    }
}

/// What follows a header, as long as the header says.
fn contents(header: Header, number: u32, rest: &[u8]) -> Result<Vec<u8>, Error> {
    let place = header.place(number);
    header.check_lengths().map_err(|damage| Error::Corrupt { place, damage })?;
    let there = rest.len() as u64;
    if header.stored > there {
        return Err(Error::Truncated { place, missing: header.stored - there });
    }
    Ok(rest[..header.stored as usize].to_vec())
}

/// Notes what the end mark counts and what did not come, and anything behind it.
fn end(mark: &Section, scan: &Scan<'_>, assembly: &Assembly, lost: &mut Vec<String>) {
    let counted = mark.header.process;
    let left = assembly.parts.range(..counted).count() as u32;
    if left < counted {
        lost.push(format!("nothing is left of {} of {counted} processes", counted - left));
    }
    let surplus = scan.bytes.len() - scan.offset;
    if surplus > 0 {
        lost.push(mark.corrupt(Damage::Trailing(surplus as u64)).to_string());
    }
}

/// The process that the parts make; what its head would have said is made up.
fn whole(index: u32, mut parts: Parts, lost: &mut Vec<String>) -> Process {
    let groups = parts.sampled.iter_mut().flat_map(|data| data.sets.iter_mut().chain(&mut data.full));
    for data in parts.lines.iter_mut().chain(groups) {
        let before = data.stacks.len();
        data.stacks.retain(|stack| stack.tag < MOST_TAGS);
        let wild = before - data.stacks.len();
        if wild > 0 {
            lost.push(format!("{wild} stacks of process {index} have tags that no run can have"));
        }
    }
    for data in &mut parts.coherence {
        data.slots.retain(|slot| slot.tag < MOST_TAGS);
    }
    unmatched(index, &mut parts, lost);
    let groups = parts.sampled.iter().flat_map(|data| data.sets.iter().chain(&data.full));
    let stacks = parts.lines.iter().chain(groups).flat_map(|data| &data.stacks);
    let slots = parts.coherence.iter().flat_map(|data| &data.slots).map(|slot| slot.tag);
    if let Some(counters) = &mut parts.counters {
        counters.items.retain(|item| item.tag < MOST_TAGS);
        counters.blocks.retain(|block| block.tag < MOST_TAGS);
        counters.places.retain(|place| place.tag < MOST_TAGS);
    }
    if let Some(paths) = &mut parts.paths {
        paths.counts.retain(|counts| counts.tag < MOST_TAGS);
    }
    let counted = parts.counters.iter().flat_map(Counters::tags).chain(parts.paths.iter().flat_map(Paths::tags));
    let tags = stacks.map(|stack| stack.tag).chain(slots).chain(counted).map(|tag| tag + 1).max().unwrap_or(0);
    if parts.head.is_none() {
        lost.push(format!("the head of process {index} is lost: its name, machine, log and tag names are unknown"));
        let mut head = Head::default();
        head.meta.executable = format!("process-{index}");
        parts.head = Some(head);
    }
    let mut process = parts.into_process();
    for tag in process.tags.len() as u32..tags {
        process.tags.push(if tag == 0 { String::new() } else { format!("tag-{tag}") });
    }
    if process
        .counters
        .places
        .iter()
        .filter_map(|place| place.site)
        .any(|site| site as usize >= process.places.sites.len())
    {
        lost.push(format!("the counters by place of process {index} name places that are lost and are left out"));
        process.counters.places.clear();
    }
    if process.patterns.validate(process.tags.len(), process.places.sites.len()).is_err() {
        lost.push(format!("the access patterns of process {index} name what is lost and are left out"));
        process.patterns = Patterns::default();
    }
    if process.patterns.validate_by_function(process.tags.len(), process.places.functions.len()).is_err() {
        lost.push(format!("the bytes by function of process {index} do not fit what is left and are left out"));
        process.patterns.by_function.clear();
    }
    if process.paths.validate(&process.places, &process.counters).is_err() {
        lost.push(format!("the call paths of process {index} name what is lost and are left out"));
        process.paths = Paths::default();
    }
    if process.validate_by_place().is_err() {
        lost.push(format!("the figures by place of process {index} do not add up to what is left and are left out"));
        process.items.clear();
    }
    process
}

/// Leaves out what no longer matches where sections were lost: coherence without all of its stacks, or stacks that lost
/// references to invalidations nobody counts.
fn unmatched(index: u32, parts: &mut Parts, lost: &mut Vec<String>) {
    let Parts { lines, coherence, .. } = parts;
    coherence.retain(|data| {
        let matching = lines.iter().find(|lines| lines.line_bytes == data.line_bytes);
        let sound = matching.is_some_and(|lines| lines.validate_lost(Some(data)).is_ok());
        if !sound {
            lost.push(format!(
                "the coherence of {}-byte lines of process {index} has lost its stacks",
                data.line_bytes
            ));
        }
        sound
    });
    for data in lines {
        let coherence = coherence.iter().find(|coherence| coherence.line_bytes == data.line_bytes);
        if data.validate_lost(coherence).is_err() {
            data.stacks.retain(|stack| stack.histograms.lost() == [0, 0]);
            lost.push(format!("stacks of {}-byte lines of process {index} have lost their coherence", data.line_bytes));
        }
    }
    for stacks in parts.sampled.iter_mut().flat_map(|data| data.sets.iter_mut().chain(&mut data.full)) {
        stacks.stacks.retain(|stack| stack.histograms.lost() == [0, 0]);
    }
}

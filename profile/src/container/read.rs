//! The bytes of a file in, a profile or the first thing that is wrong with it out.

use std::io::Read;

use super::assemble::Assembly;
use crate::error::{Damage, Error, Place};
use crate::model::Profile;
use crate::section::{Format, Kind, Section, SectionReader};

/// Reads a profile and checks it: every checksum, every length, and the sums that [`Profile::validate`] lists.
///
/// # Errors
/// [`Error::Foreign`], [`Error::Newer`], [`Error::Truncated`], [`Error::Corrupt`] and [`Error::Inconsistent`] by what
/// the bytes are; [`Error::Io`] from the reader.
pub fn read(from: impl Read) -> Result<Profile, Error> {
    let mut sections = SectionReader::new(from, &Format::PROFILE)?;
    let mut assembly = Assembly::default();
    loop {
        let section = sections.next()?;
        match Kind::of(section.header.kind) {
            Some(Kind::End) => return finish(assembly, &section),
            Some(
                Kind::Head
                | Kind::Lines
                | Kind::Sampled
                | Kind::Coherence
                | Kind::Sharing
                | Kind::Counters
                | Kind::Places
                | Kind::Objects
                | Kind::Paths
                | Kind::Items
                | Kind::Patterns
                | Kind::TouchedBy,
            ) => {
                let raw = sections.unpack(&section)?;
                assembly.add(&section, &raw)?;
            }
            _ => {}
        }
    }
}

fn finish(assembly: Assembly, end: &Section) -> Result<Profile, Error> {
    let complete = assembly.parts.values().all(|parts| parts.head.is_some());
    let numbered = assembly.parts.keys().copied().eq(0..end.header.process);
    if !complete || !numbered {
        return Err(end.corrupt(Damage::Structure("the processes before it are not those that it counts")));
    }
    let processes = assembly.parts.into_values().map(super::assemble::Parts::into_process).collect();
    let profile = Profile { processes };
    let place = Place::Section(end.number);
    profile.validate_structure().map_err(|problem| Error::Inconsistent { place, problem })?;
    Ok(profile)
}

//! Many files in, one out, with a single process in memory at a time.
//!
//! What [`merge`](crate::merge()) does with profiles in memory, this does with files: first the sections of every file are
//! checked and what identifies its processes is kept, some hundred bytes each; then the processes are read once more one
//! by one, in order, and written.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::assemble::Assembly;
use super::file::replace;
use super::salvage::salvage_file;
use super::write::ProcessWriter;
use crate::error::{Damage, Error, Place};
use crate::merge::{later, unlike, written};
use crate::model::{Process, Profile, Sampling};
use crate::packing::Unpacker;
use crate::section::{FILE_HEADER, Format, Header, Kind, SECTION_HEADER, Section, SectionReader};
use crate::validate::Invalid;
use crate::wire::{Head, Part as _, Sampled};

/// The union of the processes of many files, as [`merge`](crate::merge()) defines it.
#[derive(Debug, Default)]
pub struct Union {
    files: Vec<PathBuf>,
    salvage: bool,
    found: BTreeMap<Key, Found>,
    first: Option<(String, Option<Sampling>)>,
    duplicates: usize,
}

/// [`Process::key`] that stands by itself.
type Key = (u64, String, u32, String);

/// Where a process is.
#[derive(Debug)]
struct Found {
    file: usize,
    /// Its number in the file.
    number: u32,
    /// Offset and number of each of its sections; none in a salvaged file.
    sections: Vec<(u64, u32)>,
    written: (u64, bool),
}

/// What the sections of a file say of one of its processes.
#[derive(Default)]
struct Outline {
    head: Option<Head>,
    sections: Vec<(u64, u32)>,
    /// How its lines were recorded, if there are any.
    how: Option<Option<Sampling>>,
}

impl Union {
    /// Of no file yet; `salvage` takes the intact parts of damaged ones.
    #[must_use]
    pub fn new(salvage: bool) -> Self {
        Self { salvage, ..Self::default() }
    }

    /// Adds the processes of a file. Returns a line for each thing that a salvage lost. A file that is refused leaves
    /// nothing behind.
    ///
    /// # Errors
    /// As [`read_file`](crate::read_file), but for sums within histograms, which [`Union::write`] checks.
    /// [`Error::Unfit`] if its processes cannot be answered together with those before.
    pub fn add(&mut self, path: &Path) -> Result<Vec<String>, Error> {
        let (outlines, lost) = if self.salvage {
            let (profile, lost) = salvage_file(path)?;
            (profile.processes.iter().map(Outline::of).collect(), lost)
        } else {
            (outlines(path)?, Vec::new())
        };
        self.check_alike(&outlines)?;
        let file = self.files.len();
        self.files.push(path.to_owned());
        for (number, outline) in (0..).zip(outlines) {
            self.take(file, number, outline)?;
        }
        Ok(lost)
    }

    /// Processes in the union.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Processes that were there more than once, and count once.
    #[must_use]
    pub const fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// Writes the union to a file as [`write_file`](crate::write_file) does; `seen` gets every process on the way.
    ///
    /// # Errors
    /// What is wrong, and with which file: one of those added, or the one written.
    pub fn write(&self, to: &Path, mut seen: impl FnMut(&Process)) -> Result<(), (PathBuf, Error)> {
        let mut at = None;
        let done = replace(to, |file| {
            let mut processes = ProcessWriter::new(file)?;
            for found in self.found.values() {
                at = Some(found.file);
                let process = self.load(found)?;
                at = None;
                seen(&process);
                processes.process(&process)?;
            }
            processes.finish()
        });
        done.map_err(|error| (at.map_or_else(|| to.to_owned(), |file: usize| self.files[file].clone()), error))
    }

    fn check_alike(&mut self, outlines: &[Outline]) -> Result<(), Error> {
        let before = self.first.clone();
        for outline in outlines {
            let (Some(how), Some(head)) = (outline.how, &outline.head) else { continue };
            let named = (format!("{} {}", head.meta.executable, head.meta.pid), how);
            match &self.first {
                None => self.first = Some(named),
                Some(first) if first.1 == how => {}
                Some(first) => {
                    let problem = unlike(first.clone(), named);
                    self.first = before;
                    return Err(Error::Unfit(problem));
                }
            }
        }
        Ok(())
    }

    /// Takes a process, or the later one of two that are the same.
    fn take(&mut self, file: usize, number: u32, outline: Outline) -> Result<(), Error> {
        let Outline { head, sections, .. } = outline;
        let meta = head.unwrap_or_default().meta;
        let new = Found { file, number, sections, written: written(&meta) };
        let key = (meta.start_ns, meta.host, meta.pid, meta.executable);
        let there = match self.found.entry(key.clone()) {
            Entry::Vacant(place) => {
                place.insert(new);
                return Ok(());
            }
            Entry::Occupied(place) => place.into_mut(),
        };
        self.duplicates += 1;
        let order = there.written.cmp(&new.written);
        let order = match order {
            Ordering::Equal => {
                let there = &self.found[&key];
                later(&self.load(there)?, &self.load(&new)?)
            }
            order => order,
        };
        if order == Ordering::Less {
            self.found.insert(key, new);
        }
        Ok(())
    }

    /// Reads one process.
    fn load(&self, found: &Found) -> Result<Process, Error> {
        let (path, number) = (&self.files[found.file], found.number);
        let gone = || Error::Unfit(Invalid::new("it has changed since it was first read".to_owned()));
        if self.salvage {
            let (profile, _) = salvage_file(path)?;
            return profile.processes.into_iter().nth(number as usize).ok_or_else(gone);
        }
        let mut file = BufReader::new(File::open(path)?);
        let mut assembly = Assembly::default();
        let mut unpacker = Unpacker::new()?;
        for &(offset, section) in &found.sections {
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = [0; SECTION_HEADER];
            file.read_exact(&mut bytes)?;
            let damaged = Error::Corrupt { place: Place::Section(section), damage: Damage::Header };
            let header = Header::from_bytes(&bytes).ok_or(damaged)?;
            let place = header.place(section);
            header.check_lengths().map_err(|damage| Error::Corrupt { place, damage })?;
            let mut stored = Vec::new();
            file.by_ref().take(header.stored).read_to_end(&mut stored)?;
            let section = Section { number: section, header, stored };
            section.check()?;
            assembly.add(&section, &section.unpack(&mut unpacker)?)?;
        }
        let process = assembly.parts.remove(&number).map(super::assemble::Parts::into_process).ok_or_else(gone)?;
        let profile = Profile { processes: vec![process] };
        let place = found.sections.first().map_or(Place::FileHeader, |&(_, number)| Place::Section(number));
        profile.validate_structure().map_err(|problem| Error::Inconsistent { place, problem })?;
        profile.processes.into_iter().next().ok_or_else(gone)
    }
}

impl Outline {
    fn of(process: &Process) -> Self {
        let Process { meta, machine, uninstrumented, log, tags, .. } = process.clone();
        let how = process.line_sizes().next().map(|_| process.sampled.first().map(|data| data.sampling));
        Self { head: Some(Head { meta, machine, uninstrumented, log, tags }), sections: Vec::new(), how }
    }
}

/// The processes of a file, every section of it checked but for its contents.
fn outlines(path: &Path) -> Result<Vec<Outline>, Error> {
    let mut sections = SectionReader::new(BufReader::new(File::open(path)?), &Format::PROFILE)?;
    let mut outlines: BTreeMap<u32, Outline> = BTreeMap::new();
    let mut offset = FILE_HEADER as u64;
    loop {
        let section = sections.next()?;
        let here = offset;
        offset += SECTION_HEADER as u64 + section.header.stored;
        let corrupt = |damage| section.corrupt(damage);
        let Header { kind, version, process, .. } = section.header;
        let kind = Kind::of(kind);
        if kind == Some(Kind::End) {
            let complete = outlines.values().all(|outline| outline.head.is_some());
            if !complete || !outlines.keys().copied().eq(0..process) {
                return Err(corrupt(Damage::Structure("the processes before it are not those that it counts")));
            }
            return Ok(outlines.into_values().collect());
        }
        let outline = outlines.entry(process).or_default();
        outline.sections.push((here, section.number));
        match kind {
            Some(Kind::Head) => {
                let head = Head::decode_any(version, &sections.unpack(&section)?).map_err(corrupt)?;
                if outline.head.replace(head).is_some() {
                    return Err(corrupt(Damage::Structure("the process has two heads")));
                }
            }
            Some(Kind::Lines) => outline.how = Some(None),
            Some(Kind::Sampled) if outline.how.is_none() => {
                let sampled = Sampled::decode_any(version, &sections.unpack(&section)?).map_err(corrupt)?;
                outline.how = Some(Some(sampled.head.sampling));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{any_profile, rich, sampled, tiny};
    use crate::{merge, read_file, write_file};
    use proptest::prelude::*;

    fn union(files: &[PathBuf], salvage: bool) -> Union {
        let mut union = Union::new(salvage);
        files.iter().for_each(|file| assert!(union.add(file).unwrap().is_empty()));
        union
    }

    /// The bytes that the union of these is, by files and in memory.
    fn both(profiles: &[Profile]) -> [Vec<u8>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: String| folder.path().join(name);
        let files: Vec<PathBuf> = (0..profiles.len()).map(|at| file(format!("{at}.bfp"))).collect();
        files.iter().zip(profiles).for_each(|(file, profile)| write_file(file, profile).unwrap());
        let (out, expected) = (file("out.bfp".into()), file("expected.bfp".into()));
        let merged = merge(profiles.to_vec());
        write_file(&expected, &merged).unwrap();
        let union = union(&files, false);
        let mut seen = Vec::new();
        union.write(&out, |process| seen.push(process.clone())).unwrap();
        assert_eq!((union.len(), seen), (merged.processes.len(), merged.processes));
        [out, expected].map(|path| std::fs::read(path).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn files_are_merged_as_profiles_are(a in any_profile(), b in any_profile(), c in any_profile()) {
            let whole = |profile: &Profile| profile.processes.iter().all(|process| process.sampled.is_empty());
            prop_assume!([&a, &b, &c].into_iter().all(whole));
            let [found, expected] = both(&[a.clone(), b, merge([a, c])]);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn one_process_of_many_in_a_file_is_found() {
        let [found, expected] = both(&[merge([tiny(), rich()]), tiny(), rich()]);
        assert_eq!(found, expected);
        let [found, expected] = both(&[sampled(), sampled()]);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bad_file_is_named_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let [good, bad, other, out] =
            ["good.bfp", "bad.bfp", "other.bfp", "out.bfp"].map(|name| folder.path().join(name));
        write_file(&good, &tiny()).unwrap();
        write_file(&other, &sampled()).unwrap();
        let mut bytes = std::fs::read(&good).unwrap();
        let last = bytes.len() - SECTION_HEADER - 1;
        bytes[last] ^= 1;
        std::fs::write(&bad, &bytes).unwrap();
        let mut union = union(std::slice::from_ref(&good), false);
        assert!(matches!(union.add(&bad), Err(Error::Corrupt { .. })));
        let error = union.add(&other).unwrap_err().to_string();
        assert!(error.contains("a.out 42 was recorded whole, a.out 42 sampled at 1/16"), "{error}");
        assert_eq!((union.len(), union.duplicates()), (1, 0));
        union.write(&out, |_| {}).unwrap();
        assert_eq!(read_file(&out).unwrap(), tiny());
        // Damaged between the two readings.
        std::fs::write(&good, &bytes).unwrap();
        let (path, error) = union.write(&out, |_| {}).unwrap_err();
        assert!(path == good && matches!(error, Error::Corrupt { .. }));
        assert_eq!(read_file(&out).unwrap(), tiny());
        // What is intact of it.
        let mut salvaged = Union::new(true);
        assert_eq!(salvaged.add(&bad).unwrap().len(), 1);
        salvaged.write(&out, |_| {}).unwrap();
        assert_eq!(read_file(&out).unwrap().processes.len(), 1);
    }
}

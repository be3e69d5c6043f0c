//! Framing that both formats share: a file header, then sections that are compressed and checked one by one, then an
//! end mark. Nothing here knows what a section holds. `docs/profile-format.md` gives the bytes.

use std::io::{self, Read, Write};

use crate::error::{Damage, Error, Place, foreign};
use crate::packing::{Packer, Unpacker, most_packed};

/// Longest contents of a section, uncompressed. A reader allocates no more than this on a file's word.
pub(crate) const MAX_RAW: u64 = 64 << 20;

/// What every profile begins with.
pub const MAGIC: [u8; 8] = *b"BFPROFIL";

const MARK: [u8; 4] = *b"\xbfSEC";
pub(crate) const FILE_HEADER: usize = 16;
pub(crate) const SECTION_HEADER: usize = 40;

/// One of our two file formats.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) magic: [u8; 8],
    pub(crate) name: &'static str,
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

impl Format {
    pub(crate) const PROFILE: Self = Self { magic: MAGIC, name: "profile", major: 1, minor: 2 };
    pub(crate) const TRACE: Self = Self { magic: *b"BFTRACE\0", name: "trace", major: 1, minor: 0 };
    pub(crate) const ALL: [Self; 2] = [Self::PROFILE, Self::TRACE];

    /// The 16 bytes every file of this format begins with.
    pub(crate) fn header(&self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[..8].copy_from_slice(&self.magic);
        bytes[8..10].copy_from_slice(&self.major.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.minor.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Checks what a file begins with. The layout of these 16 bytes is the same in every version there will be, so the
    /// checksum can be judged before the version.
    pub(crate) fn check(&self, begin: &[u8]) -> Result<(), Error> {
        let magic = &begin[..begin.len().min(8)];
        if begin.is_empty() || !self.magic.starts_with(magic) {
            return Err(foreign(self, begin));
        }
        let Some(header) = begin.first_chunk::<FILE_HEADER>() else {
            let missing = (FILE_HEADER - begin.len()) as u64;
            return Err(Error::Truncated { place: Place::FileHeader, missing });
        };
        if crc32fast::hash(&header[..12]) != u32_at(header, 12) {
            return Err(Error::Corrupt { place: Place::FileHeader, damage: Damage::Header });
        }
        let (major, minor) = (u16_at(header, 8), u16_at(header, 10));
        if major > self.major {
            return Err(Error::Newer { major, minor, known: self.major });
        }
        Ok(())
    }
}

/// The kinds of section there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    End = 0,
    Head = 1,
    Lines = 2,
    Sampled = 3,
    Coherence = 4,
    Counters = 5,
    Sharing = 8,
    Places = 6,
    Items = 7,
    Patterns = 10,
    Objects = 9,
    TouchedBy = 11,
    Paths = 12,
    TraceHead = 16,
    Records = 17,
}

impl Kind {
    /// `None` for one that a later minor version added.
    pub(crate) const fn of(kind: u16) -> Option<Self> {
        Some(match kind {
            0 => Self::End,
            1 => Self::Head,
            2 => Self::Lines,
            3 => Self::Sampled,
            4 => Self::Coherence,
            5 => Self::Counters,
            8 => Self::Sharing,
            6 => Self::Places,
            7 => Self::Items,
            10 => Self::Patterns,
            9 => Self::Objects,
            11 => Self::TouchedBy,
            12 => Self::Paths,
            16 => Self::TraceHead,
            17 => Self::Records,
            _ => return None,
        })
    }
}

/// What stands before the contents of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// A [`Kind`], or one of a later version.
    pub(crate) kind: u16,
    /// Version of the contents' layout, from 1; counts by itself for each kind.
    pub(crate) version: u16,
    /// Number of the process, from 0.
    pub(crate) process: u32,
    /// Which part of the process: the line size for line data.
    pub(crate) part: u32,
    /// Length of the contents, uncompressed.
    pub(crate) raw: u64,
    /// Length of the contents in the file.
    pub(crate) stored: u64,
    /// CRC-32 of the contents in the file.
    pub(crate) crc: u32,
}

impl Header {
    /// The mark that a file is complete: how many processes and how many sections came before it.
    pub(crate) fn end(processes: u32, sections: u32) -> Self {
        Self { kind: Kind::End as u16, version: 1, process: processes, part: sections, ..Self::default() }
    }

    pub(crate) fn to_bytes(self) -> [u8; SECTION_HEADER] {
        let mut bytes = [0; SECTION_HEADER];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..6].copy_from_slice(&self.kind.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.process.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.part.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.raw.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.stored.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if mark or checksum are wrong.
    pub(crate) fn from_bytes(bytes: &[u8; SECTION_HEADER]) -> Option<Self> {
        if bytes[..4] != MARK || crc32fast::hash(&bytes[..36]) != u32_at(bytes, 36) {
            return None;
        }
        Some(Self {
            kind: u16_at(bytes, 4),
            version: u16_at(bytes, 6),
            process: u32_at(bytes, 8),
            part: u32_at(bytes, 12),
            raw: u64_at(bytes, 16),
            stored: u64_at(bytes, 24),
            crc: u32_at(bytes, 32),
        })
    }

    /// As the `number`-th section of a file.
    pub(crate) const fn place(&self, number: u32) -> Place {
        Place::Known { number, kind: self.kind, process: self.process, part: self.part }
    }

    /// Refuses lengths that no writer produces, before anything is allocated for them.
    pub(crate) fn check_lengths(&self) -> Result<(), Damage> {
        let worst = most_packed(self.raw.min(MAX_RAW) as usize) as u64;
        if self.raw > MAX_RAW || self.stored > worst || (self.raw == 0) != (self.stored == 0) {
            return Err(Damage::Length { raw: self.raw, stored: self.stored });
        }
        Ok(())
    }
}

/// Offset of the first sound section header in `bytes`, with what it says.
pub(crate) fn find_header(bytes: &[u8]) -> Option<(usize, Header)> {
    let at = |offset| bytes.get(offset..)?.first_chunk().and_then(Header::from_bytes);
    (0..bytes.len().saturating_sub(SECTION_HEADER - 1)).find_map(|offset| Some((offset, at(offset)?)))
}

/// Writes sections one after the other. Keeps one compressor and one buffer for all of them.
pub(crate) struct SectionWriter<W> {
    to: W,
    packer: Packer,
    packed: Vec<u8>,
    sections: u32,
}

impl<W: Write> SectionWriter<W> {
    /// Writes the file header.
    pub(crate) fn new(mut to: W, format: &Format, level: i32) -> Result<Self, Error> {
        to.write_all(&format.header())?;
        Ok(Self { to, packer: Packer::new(level)?, packed: Vec::new(), sections: 0 })
    }

    /// Writes one section; kind, version, process and part are taken from `header`.
    pub(crate) fn section(&mut self, header: Header, raw: &[u8]) -> Result<(), Error> {
        let bytes = raw.len() as u64;
        if bytes > MAX_RAW {
            return Err(Error::TooLarge { place: header.place(self.sections), bytes, most: MAX_RAW });
        }
        self.packed.clear();
        if !raw.is_empty() {
            self.packer.pack(raw, &mut self.packed)?;
        }
        let stored = self.packed.len() as u64;
        let header = Header { raw: bytes, stored, crc: crc32fast::hash(&self.packed), ..header };
        self.to.write_all(&header.to_bytes())?;
        self.to.write_all(&self.packed)?;
        self.sections += 1;
        Ok(())
    }

    /// Sections written so far.
    pub(crate) const fn count(&self) -> u32 {
        self.sections
    }

    /// Hands everything written so far on.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        Ok(self.to.flush()?)
    }

    /// Writes the end mark.
    pub(crate) fn finish(mut self, processes: u32) -> Result<W, Error> {
        self.to.write_all(&Header::end(processes, self.sections).to_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Reads sections one after the other, checking lengths and checksums.
pub(crate) struct SectionReader<R> {
    from: R,
    unpacker: Unpacker,
    sections: u32,
}

impl<R: Read> SectionReader<R> {
    /// Reads and checks the file header.
    pub(crate) fn new(mut from: R, format: &Format) -> Result<Self, Error> {
        let mut begin = [0; FILE_HEADER];
        let read = read_most(&mut from, &mut begin)?;
        format.check(&begin[..read])?;
        Ok(Self { from, unpacker: Unpacker::new()?, sections: 0 })
    }

    /// The next section, with its contents as they are in the file. At the end mark its counts are checked and nothing
    /// may follow.
    pub(crate) fn next(&mut self) -> Result<Section, Error> {
        let number = self.sections;
        let mut bytes = [0; SECTION_HEADER];
        let read = read_most(&mut self.from, &mut bytes)?;
        if read < SECTION_HEADER {
            let missing = if read == 0 { 0 } else { (SECTION_HEADER - read) as u64 };
            return Err(Error::Truncated { place: Place::Section(number), missing });
        }
        let damaged = Error::Corrupt { place: Place::Section(number), damage: Damage::Header };
        let header = Header::from_bytes(&bytes).ok_or(damaged)?;
        let place = header.place(number);
        header.check_lengths().map_err(|damage| Error::Corrupt { place, damage })?;

        // `read_to_end` grows with what is really there, so a wrong length costs no memory.
        let mut stored = Vec::new();
        let read = self.from.by_ref().take(header.stored).read_to_end(&mut stored)? as u64;
        if read < header.stored {
            return Err(Error::Truncated { place, missing: header.stored - read });
        }
        let section = Section { number, header, stored };
        section.check()?;
        if header.kind == Kind::End as u16 {
            self.check_end(&section)?;
        }
        self.sections += 1;
        Ok(section)
    }

    fn check_end(&mut self, end: &Section) -> Result<(), Error> {
        if end.header.part != self.sections {
            return Err(end.corrupt(Damage::Structure("it counts another number of sections")));
        }
        let surplus = io::copy(&mut self.from, &mut io::sink())?;
        if surplus > 0 { Err(end.corrupt(Damage::Trailing(surplus))) } else { Ok(()) }
    }

    /// Contents of a section.
    pub(crate) fn unpack(&mut self, section: &Section) -> Result<Vec<u8>, Error> {
        section.unpack(&mut self.unpacker)
    }
}

/// A section as it stands in the file.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) number: u32,
    pub(crate) header: Header,
    pub(crate) stored: Vec<u8>,
}

impl Section {
    /// The error for damage in this section.
    pub(crate) const fn corrupt(&self, damage: Damage) -> Error {
        Error::Corrupt { place: self.header.place(self.number), damage }
    }

    /// Compares contents and checksum.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (expected, found) = (self.header.crc, crc32fast::hash(&self.stored));
        if expected == found { Ok(()) } else { Err(self.corrupt(Damage::Checksum { expected, found })) }
    }

    /// Decompresses the contents; lengths must have been checked.
    pub(crate) fn unpack(&self, unpacker: &mut Unpacker) -> Result<Vec<u8>, Error> {
        if self.stored.is_empty() {
            return Ok(Vec::new());
        }
        let raw = unpacker
            .unpack(&self.stored, self.header.raw as usize)
            .map_err(|error| self.corrupt(Damage::Compression(error.to_string())))?;
        if raw.len() as u64 != self.header.raw {
            return Err(self.corrupt(Damage::Length { raw: raw.len() as u64, stored: self.header.stored }));
        }
        Ok(raw)
    }
}

/// Fills `buffer` as far as the input goes.
fn read_most(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

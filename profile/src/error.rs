//! Everything that can be wrong with a file. Messages are fragments that go on from "failed to read prog.bfp: ".

use std::fmt;
use std::io;

use crate::section::{Format, Kind};
use crate::validate::Invalid;

/// Why a profile or a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The magic number is another one: not our file, or the other one of our two formats.
    #[error("not a bf {expected}: {found}")]
    Foreign {
        /// What was asked for: "profile" or "trace".
        expected: &'static str,
        /// What the file looks like instead.
        found: String,
    },
    /// The major version is greater than the one this reader knows.
    #[error("written by a newer bf (format {major}.{minor}, this one reads {known}.x): update bf")]
    Newer {
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
        /// Major version that this reader reads.
        known: u16,
    },
    /// The file ends too early; everything before `place` is intact.
    #[error("truncated in {place}: {}", missing_text(*.missing))]
    Truncated {
        /// Where it ends.
        place: Place,
        /// Bytes that `place` still lacks; 0 if unknown, which is so between two sections.
        missing: u64,
    },
    /// Bytes that cannot be what was written.
    #[error("corrupt in {place}: {damage}")]
    Corrupt {
        /// Where.
        place: Place,
        /// What gave it away.
        damage: Damage,
    },
    /// Intact bytes, but numbers that contradict each other.
    #[error("inconsistent in {place}: {problem}")]
    Inconsistent {
        /// Where.
        place: Place,
        /// Which numbers.
        problem: Invalid,
    },
    /// A part is larger than a section may be.
    #[error("{place} is too large: {bytes} bytes, at most {most} fit in a section")]
    TooLarge {
        /// Which section.
        place: Place,
        /// Its length.
        bytes: u64,
        /// What the format allows.
        most: u64,
    },
    /// Sound by itself, but not of use together with others.
    #[error("{0}")]
    Unfit(Invalid),
    /// No room on the disk, or in the user's quota.
    #[error("disk full: {0}")]
    DiskFull(#[source] io::Error),
    /// The operating system said no.
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl Error {
    /// Whether the file just ends too early, as that of a killed program does: what came before is good.
    #[must_use]
    pub const fn is_truncation(&self) -> bool {
        matches!(self, Self::Truncated { .. })
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(error),
            _ => Self::Io(error),
        }
    }
}

fn missing_text(missing: u64) -> String {
    match missing {
        0 => "the end mark is missing".into(),
        1 => "1 byte is missing".into(),
        _ => format!("{missing} bytes are missing"),
    }
}

/// What gave a damaged section away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The header of the file or section does not match its checksum, or does not begin with the mark of a section.
    #[error("its header is damaged")]
    Header,
    /// The contents do not match their checksum.
    #[error("its checksum is {found:08x} where {expected:08x} was written")]
    Checksum {
        /// As the header says.
        expected: u32,
        /// Of the bytes that are there.
        found: u32,
    },
    /// A length that no writer produces.
    #[error("it claims {raw} bytes in {stored}")]
    Length {
        /// Claimed length before compression.
        raw: u64,
        /// Claimed length in the file.
        stored: u64,
    },
    /// zstd refuses the contents.
    #[error("its contents do not decompress: {0}")]
    Compression(String),
    /// bincode refuses the contents.
    #[error("its contents do not decode: {0}")]
    Encoding(String),
    /// Bytes after what the section's version defines, or after the end of the file.
    #[error("bytes too many: {0}")]
    Trailing(u64),
    /// Sections that do not belong together.
    #[error("{0}")]
    Structure(&'static str),
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first 16 bytes.
    FileHeader,
    /// A section by its number in the file, from 0.
    Section(u32),
    /// A section whose header was read.
    Known {
        /// Number of the section in the file, from 0.
        number: u32,
        /// Its kind.
        kind: u16,
        /// The process it belongs to.
        process: u32,
        /// Which part of it.
        part: u32,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FileHeader => write!(f, "the file header"),
            Self::Section(number) => write!(f, "section {number}"),
            Self::Known { number, kind, process, part } => match Kind::of(kind) {
                Some(Kind::End) => write!(f, "section {number} (end mark)"),
                Some(Kind::Head) => write!(f, "section {number} (head of process {process})"),
                Some(Kind::Lines) => write!(f, "section {number} ({part}-byte lines of process {process})"),
                Some(Kind::Sampled) => {
                    write!(f, "section {number} (sampled {part}-byte lines of process {process})")
                }
                Some(Kind::Coherence) => {
                    write!(f, "section {number} (coherence of {part}-byte lines of process {process})")
                }
                Some(Kind::Sharing) => {
                    write!(f, "section {number} (sharing of {part}-byte lines of process {process})")
                }
                Some(Kind::Counters) => write!(f, "section {number} (counters of process {process})"),
                Some(Kind::Places) => write!(f, "section {number} (places of process {process})"),
                Some(Kind::Objects) => write!(f, "section {number} (objects of process {process})"),
                Some(Kind::Paths) => write!(f, "section {number} (call paths of process {process})"),
                Some(Kind::Items) => write!(f, "section {number} ({part}-byte lines of process {process} by place)"),
                Some(Kind::Patterns) => write!(f, "section {number} (access patterns of process {process})"),
                Some(Kind::TouchedBy) => write!(f, "section {number} (bytes by function of process {process})"),
                Some(Kind::TraceHead) => write!(f, "section {number} (head of the trace)"),
                Some(Kind::Records) => write!(f, "section {number} (records of the trace)"),
                None => write!(f, "section {number} (of unknown kind {kind})"),
            },
        }
    }
}

/// The error for a file that does not begin with the magic number of `expected`.
pub(crate) fn foreign(expected: &Format, begin: &[u8]) -> Error {
    let found = if begin.is_empty() {
        "it is empty".into()
    } else if let Some(other) = Format::ALL.iter().find(|f| begin.starts_with(&f.magic)) {
        format!("it is a bf {}", other.name)
    } else {
        format!("it begins with \"{}\"", begin[..begin.len().min(8)].escape_ascii())
    };
    Error::Foreign { expected: expected.name, found }
}

//! Frames in, records out.

use std::io::Read;

use super::Header;
use super::record::{Record, take_record};
use crate::error::{Damage, Error};
use crate::section::{Format, Kind, Section, SectionReader};
use crate::wire::Part;

/// Reads a trace: an iterator over its records, in order, which holds one frame at a time. After an error it ends. If
/// that is [`Error::Truncated`], the records before it are all there was time to write, and good for a replay.
pub struct Reader<R> {
    sections: SectionReader<R>,
    header: Header,
    frame: Option<Frame>,
    ended: bool,
}

/// A frame, and how far it was read.
struct Frame {
    section: Section,
    raw: Vec<u8>,
    offset: usize,
}

impl<R: Read> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("header", &self.header).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Newer`], [`Error::Truncated`] and [`Error::Corrupt`] by what the bytes are;
    /// [`Error::Io`] from the reader.
    pub fn new(from: R) -> Result<Self, Error> {
        let mut sections = SectionReader::new(from, &Format::TRACE)?;
        let section = sections.next()?;
        if Kind::of(section.header.kind) != Some(Kind::TraceHead) {
            return Err(section.corrupt(Damage::Structure("the head of the trace should stand here")));
        }
        let raw = sections.unpack(&section)?;
        let header = Header::decode_any(section.header.version, &raw).map_err(|damage| section.corrupt(damage))?;
        Ok(Self { sections, header, frame: None, ended: false })
    }

    /// What stands at the beginning.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    fn step(&mut self) -> Result<Option<Record>, Error> {
        loop {
            let Some(frame) = &mut self.frame else {
                match self.next_frame()? {
                    Some(frame) => self.frame = Some(frame),
                    None => return Ok(None),
                }
                continue;
            };
            let mut rest = &frame.raw[frame.offset..];
            if rest.is_empty() {
                self.frame = None;
                continue;
            }
            let record = take_record(&mut rest).map_err(|damage| frame.section.corrupt(damage))?;
            frame.offset = frame.raw.len() - rest.len();
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// The next frame of records; `None` at the end mark.
    fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            let section = self.sections.next()?;
            match Kind::of(section.header.kind) {
                Some(Kind::Records) => {
                    let raw = self.sections.unpack(&section)?;
                    return Ok(Some(Frame { section, raw, offset: 0 }));
                }
                Some(Kind::End) => return Ok(None),
                _ => {}
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.step();
        self.ended = !matches!(record, Ok(Some(_)));
        record.transpose()
    }
}

impl<R: Read> std::iter::FusedIterator for Reader<R> {}

//! Records in, frames out.

use std::io::Write;

use super::Header;
use super::record::{Access, Event, put_chunk, put_event};
use crate::error::Error;
use crate::section::{self, Format, Kind, SectionWriter};
use crate::wire::{encode, version_of};

/// A frame is written once it holds this much.
const FRAME: usize = 1 << 20;

/// Accesses in one record: at 21 bytes each at most, a frame never exceeds 2 MiB.
const CHUNK: usize = 1 << 15;

/// The fastest: whoever traces is waiting.
const LEVEL: i32 = 1;

/// Writes a trace. It starts no thread and holds one frame and one compressor, some 5 MiB in all; nothing reaches the
/// file until a frame is full, or [`Writer::flush`] is called. Dropping it loses what was not flushed.
pub struct Writer<W: Write> {
    sections: SectionWriter<W>,
    frame: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("pending", &self.frame.len()).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Writes the header, all of it, at once.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::DiskFull`] from the writer.
    pub fn new(to: W, header: &Header) -> Result<Self, Error> {
        let mut sections = SectionWriter::new(to, &Format::TRACE, LEVEL)?;
        let mut raw = Vec::new();
        encode(header, &mut raw);
        sections.section(head(Kind::TraceHead), &raw)?;
        sections.flush()?;
        Ok(Self { sections, frame: Vec::with_capacity(2 * FRAME) })
    }

    /// Records accesses of one slot, in program order. More than 32768 become several records.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::DiskFull`] from the writer; the frame in hand is lost then.
    pub fn chunk(&mut self, slot: u32, bucket: u8, accesses: &[Access]) -> Result<(), Error> {
        for part in accesses.chunks(CHUNK) {
            put_chunk(&mut self.frame, slot, bucket, part);
            self.write_full_frame()?;
        }
        Ok(())
    }

    /// Records an event.
    ///
    /// # Errors
    /// As [`Writer::chunk`].
    pub fn event(&mut self, event: &Event) -> Result<(), Error> {
        put_event(&mut self.frame, event);
        self.write_full_frame()
    }

    /// Hands everything recorded so far on, as a frame of its own.
    ///
    /// # Errors
    /// As [`Writer::chunk`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write_frame()?;
        self.sections.flush()
    }

    /// Writes what is left and the end mark; returns the writer below.
    ///
    /// # Errors
    /// As [`Writer::chunk`].
    pub fn finish(mut self) -> Result<W, Error> {
        self.write_frame()?;
        self.sections.finish(0)
    }

    fn write_full_frame(&mut self) -> Result<(), Error> {
        if self.frame.len() >= FRAME { self.write_frame() } else { Ok(()) }
    }

    fn write_frame(&mut self) -> Result<(), Error> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let written = self.sections.section(head(Kind::Records), &self.frame);
        self.frame.clear();
        written
    }
}

fn head(kind: Kind) -> section::Header {
    section::Header { kind: kind as u16, version: version_of(kind), ..section::Header::default() }
}

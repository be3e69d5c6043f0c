//! Puts sections together to processes. Reading and salvaging share it: reading stops at the first error, salvaging
//! notes it and goes on.

use std::collections::BTreeMap;

use crate::error::{Damage, Error};
use crate::model::{LineData, Process};
use crate::section::{Kind, Section};
use crate::wire::{Head, Part};

/// Processes as far as their sections have come.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    pub(super) parts: BTreeMap<u32, Parts>,
}

/// What has come of one process.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) head: Option<Head>,
    pub(super) lines: Vec<LineData>,
}

impl Assembly {
    /// Takes the contents of one section. Kinds that this version does not know are left out.
    pub(super) fn add(&mut self, section: &Section, raw: &[u8]) -> Result<(), Error> {
        let header = &section.header;
        let corrupt = |damage| section.corrupt(damage);
        match Kind::of(header.kind) {
            Some(Kind::Head) => {
                let head = Head::decode_any(header.version, raw).map_err(corrupt)?;
                let parts = self.parts.entry(header.process).or_default();
                if parts.head.is_some() {
                    return Err(corrupt(Damage::Structure("the process has two heads")));
                }
                parts.head = Some(head);
            }
            Some(Kind::Lines) => {
                let data = LineData::decode_any(header.version, raw).map_err(corrupt)?;
                if data.line_bytes != header.part {
                    return Err(corrupt(Damage::Structure("header and contents name two line sizes")));
                }
                let place = header.place(section.number);
                data.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                self.parts.entry(header.process).or_default().add_lines(data).map_err(corrupt)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Parts {
    /// Appends a line size, or more stacks of the last one.
    fn add_lines(&mut self, data: LineData) -> Result<(), Damage> {
        match self.lines.last_mut() {
            Some(last) if last.line_bytes == data.line_bytes => {
                if (last.max_set_bits, last.max_ways) != (data.max_set_bits, data.max_ways) {
                    return Err(Damage::Structure("its limits differ from those of the same line size before"));
                }
                let key = |stacks: &[crate::model::StackData]| stacks.last().map(|s| (s.owner, s.tag));
                let next = data.stacks.first().map(|s| (s.owner, s.tag));
                if next.is_some() && next <= key(&last.stacks) {
                    return Err(Damage::Structure("its stacks do not follow those before"));
                }
                last.stacks.extend(data.stacks);
            }
            Some(last) if last.line_bytes > data.line_bytes => {
                return Err(Damage::Structure("line sizes are not ascending"));
            }
            _ => self.lines.push(data),
        }
        Ok(())
    }

    /// The process that head and lines make.
    pub(super) fn into_process(self) -> Process {
        let Head { meta, machine, uninstrumented, log, tags } = self.head.unwrap_or_default();
        Process { meta, machine, uninstrumented, log, tags, lines: self.lines }
    }
}

//! Puts sections together to processes. Reading and salvaging share it: reading stops at the first error, salvaging
//! notes it and goes on.

use std::collections::BTreeMap;

use crate::coherence::{Coherence, LineCoherence};
use crate::counters::Counters;
use crate::error::{Damage, Error};
use crate::model::{ItemLines, ItemStack, LineData, Process, SampledLines, StackData};
use crate::objects::Objects;
use crate::paths::Paths;
use crate::patterns::{Patterns, TouchedBy};
use crate::places::Places;
use crate::section::{Kind, Section};
use crate::sharing::{SharedLine, SharedLines};
use crate::wire::{Head, Part, Sampled, SampledHead};

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
    pub(super) sampled: Vec<SampledLines>,
    pub(super) coherence: Vec<LineCoherence>,
    pub(super) sharing: Vec<SharedLines>,
    pub(super) counters: Option<Counters>,
    pub(super) places: Option<Places>,
    pub(super) objects: Option<Objects>,
    pub(super) paths: Option<Paths>,
    pub(super) items: Vec<ItemLines>,
    pub(super) patterns: Option<Patterns>,
    pub(super) touched_by: Vec<TouchedBy>,
    /// Group and way of sampling of the last section of sampled line data.
    last: Option<(bool, u32)>,
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
            Some(Kind::Sampled) => {
                let data = Sampled::decode_any(header.version, raw).map_err(corrupt)?;
                if data.head.line_bytes != header.part {
                    return Err(corrupt(Damage::Structure("header and contents name two line sizes")));
                }
                let place = header.place(section.number);
                data.lines.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                let parts = self.parts.entry(header.process).or_default();
                parts.add_sampled(data).map_err(corrupt)?;
                let groups = parts.sampled.last().map_or(Ok(()), SampledLines::validate_groups);
                groups.map_err(|problem| Error::Inconsistent { place, problem })?;
            }
            Some(Kind::Coherence) => {
                let data = LineCoherence::decode_any(header.version, raw).map_err(corrupt)?;
                if data.line_bytes != header.part {
                    return Err(corrupt(Damage::Structure("header and contents name two line sizes")));
                }
                let place = header.place(section.number);
                data.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                self.parts.entry(header.process).or_default().add_coherence(data).map_err(corrupt)?;
            }
            Some(Kind::Places) => {
                let places = Places::decode_any(header.version, raw).map_err(corrupt)?;
                let place = header.place(section.number);
                places.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                let parts = self.parts.entry(header.process).or_default();
                if parts.places.replace(places).is_some() {
                    return Err(corrupt(Damage::Structure("the process has two tables of places")));
                }
            }
            Some(Kind::Patterns) => {
                let patterns = Patterns::decode_any(header.version, raw).map_err(corrupt)?;
                if self.parts.entry(header.process).or_default().patterns.replace(patterns).is_some() {
                    return Err(corrupt(Damage::Structure("the process has two sections of access patterns")));
                }
            }
            Some(Kind::TouchedBy) => {
                let more = Vec::<TouchedBy>::decode_any(header.version, raw).map_err(corrupt)?;
                self.parts.entry(header.process).or_default().touched_by.extend(more);
            }
            Some(Kind::Objects) => {
                let objects = Objects::decode_any(header.version, raw).map_err(corrupt)?;
                let parts = self.parts.entry(header.process).or_default();
                let place = header.place(section.number);
                let places = parts.places.as_ref().ok_or_else(|| corrupt(Damage::Structure("it has no places")))?;
                objects.validate(places).map_err(|problem| Error::Inconsistent { place, problem })?;
                if parts.objects.replace(objects).is_some() {
                    return Err(corrupt(Damage::Structure("the process has two tables of objects")));
                }
            }
            Some(Kind::Paths) => {
                let paths = Paths::decode_any(header.version, raw).map_err(corrupt)?;
                let parts = self.parts.entry(header.process).or_default();
                let place = header.place(section.number);
                let places = parts.places.as_ref().ok_or_else(|| corrupt(Damage::Structure("it has no places")))?;
                let counters = parts.counters.clone().unwrap_or_default();
                paths.validate(places, &counters).map_err(|problem| Error::Inconsistent { place, problem })?;
                if parts.paths.replace(paths).is_some() {
                    return Err(corrupt(Damage::Structure("the process has two tables of call paths")));
                }
            }
            Some(Kind::Items) => {
                let data = ItemLines::decode_any(header.version, raw).map_err(corrupt)?;
                if data.line_bytes != header.part {
                    return Err(corrupt(Damage::Structure("header and contents name two line sizes")));
                }
                let place = header.place(section.number);
                data.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                self.parts.entry(header.process).or_default().add_items(data).map_err(corrupt)?;
            }
            Some(Kind::Sharing) => {
                let data = SharedLines::decode_any(header.version, raw).map_err(corrupt)?;
                if data.line_bytes != header.part {
                    return Err(corrupt(Damage::Structure("header and contents name two line sizes")));
                }
                let place = header.place(section.number);
                data.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                self.parts.entry(header.process).or_default().add_sharing(data).map_err(corrupt)?;
            }
            Some(Kind::Counters) => {
                let counters = Counters::decode_any(header.version, raw).map_err(corrupt)?;
                let place = header.place(section.number);
                counters.validate().map_err(|problem| Error::Inconsistent { place, problem })?;
                let parts = self.parts.entry(header.process).or_default();
                if parts.counters.replace(counters).is_some() {
                    return Err(corrupt(Damage::Structure("the process has two sections of counters")));
                }
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
                add_stacks(last, data.stacks)?;
            }
            Some(last) if last.line_bytes > data.line_bytes => {
                return Err(Damage::Structure("line sizes are not ascending"));
            }
            _ => self.lines.push(data),
        }
        Ok(())
    }

    /// Appends a line size broken down, or more stacks of the last one.
    fn add_items(&mut self, data: ItemLines) -> Result<(), Damage> {
        let key = |stack: &ItemStack| (stack.owner, stack.tag, stack.item);
        match self.items.last_mut() {
            Some(last) if last.line_bytes == data.line_bytes => {
                if (last.max_set_bits, last.max_ways) != (data.max_set_bits, data.max_ways) {
                    return Err(Damage::Structure("its limits differ from those of the same line size before"));
                }
                if data.stacks.first().map(key) <= last.stacks.last().map(key) {
                    return Err(Damage::Structure("its stacks do not follow those before"));
                }
                last.stacks.extend(data.stacks);
            }
            Some(last) if last.line_bytes > data.line_bytes => {
                return Err(Damage::Structure("line sizes are not ascending"));
            }
            _ => self.items.push(data),
        }
        Ok(())
    }

    /// Appends a group of sampled line data, or more stacks of the last one. Where a group before it is lost, it takes
    /// that one's place: groups are all alike.
    fn add_sampled(&mut self, Sampled { head, group, full, lines }: Sampled) -> Result<(), Damage> {
        let SampledHead { line_bytes, max_set_bits, max_ways, sampling, references } = head;
        let sizes = self.sampled.last().map(|last| last.line_bytes);
        if sizes.is_none_or(|last| last < line_bytes) {
            let (sets, full) = (Vec::new(), Vec::new());
            self.sampled.push(SampledLines { line_bytes, max_set_bits, max_ways, sampling, references, sets, full });
            self.last = None;
        } else if sizes.is_some_and(|last| last > line_bytes) {
            return Err(Damage::Structure("line sizes are not ascending"));
        }
        let Some(data) = self.sampled.last_mut() else { return Ok(()) };
        if (data.max_set_bits, data.max_ways, data.sampling) != (max_set_bits, max_ways, sampling) {
            return Err(Damage::Structure("its limits differ from those of the same line size before"));
        }
        let groups = if full { &mut data.full } else { &mut data.sets };
        match groups.last_mut() {
            Some(last) if self.last == Some((full, group)) => add_stacks(last, lines.stacks)?,
            _ if self.last >= Some((full, group)) => {
                return Err(Damage::Structure("its group does not follow those before"));
            }
            _ => groups.push(lines),
        }
        self.last = Some((full, group));
        Ok(())
    }

    /// Appends the coherence of a line size, or of more slots of the last one.
    fn add_coherence(&mut self, data: LineCoherence) -> Result<(), Damage> {
        match self.coherence.last_mut() {
            Some(last) if last.line_bytes == data.line_bytes => {
                if (last.max_set_bits, last.max_ways) != (data.max_set_bits, data.max_ways) {
                    return Err(Damage::Structure("its limits differ from those of the same line size before"));
                }
                let key = |slot: &Coherence| (slot.slot, slot.tag);
                let next = data.slots.first().map(key);
                if next.is_some() && next <= last.slots.last().map(key) {
                    return Err(Damage::Structure("its slots do not follow those before"));
                }
                last.slots.extend(data.slots);
            }
            Some(last) if last.line_bytes > data.line_bytes => {
                return Err(Damage::Structure("line sizes are not ascending"));
            }
            _ => self.coherence.push(data),
        }
        Ok(())
    }

    /// Appends the shared lines of a line size, or more of the last one.
    fn add_sharing(&mut self, data: SharedLines) -> Result<(), Damage> {
        match self.sharing.last_mut() {
            Some(last) if last.line_bytes == data.line_bytes => {
                let dropped = |data: &SharedLines| (data.most, data.dropped_lines, data.dropped_accesses);
                if dropped(last) != dropped(&data) {
                    return Err(Damage::Structure("it dropped other lines than those before"));
                }
                let address = |line: &SharedLine| line.address;
                let next = data.lines.first().map(address);
                if next.is_some() && next < last.lines.last().map(address) {
                    return Err(Damage::Structure("its lines do not follow those before"));
                }
                last.lines.extend(data.lines);
            }
            Some(last) if last.line_bytes > data.line_bytes => {
                return Err(Damage::Structure("line sizes are not ascending"));
            }
            _ => self.sharing.push(data),
        }
        Ok(())
    }

    /// The process that head and lines make.
    pub(super) fn into_process(mut self) -> Process {
        let Head { meta, machine, uninstrumented, log, tags } = self.head.take().unwrap_or_default();
        let Self { lines, sampled, coherence, sharing, counters, places, objects, paths, items, .. } = self;
        let (counters, places) = (counters.unwrap_or_default(), places.unwrap_or_default());
        let patterns = Patterns { by_function: self.touched_by, ..self.patterns.unwrap_or_default() };
        Process {
            meta,
            machine,
            uninstrumented,
            log,
            tags,
            lines,
            sampled,
            coherence,
            sharing,
            counters,
            places,
            objects: objects.unwrap_or_default(),
            paths: paths.unwrap_or_default(),
            items,
            patterns,
        }
    }
}

/// More stacks of the same line data.
fn add_stacks(last: &mut LineData, stacks: Vec<StackData>) -> Result<(), Damage> {
    let key = |stack: &StackData| (stack.owner, stack.tag);
    let next = stacks.first().map(key);
    if next.is_some() && next <= last.stacks.last().map(key) {
        return Err(Damage::Structure("its stacks do not follow those before"));
    }
    last.stacks.extend(stacks);
    Ok(())
}

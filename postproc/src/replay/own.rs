//! bf's own traces: slots, tags and order are those of the run, so every histogram comes out as the run's.

use super::{Feeder, Format, MAX_THREAD, Options, ReplayError, Replayed};
use bf_collect::{Bucket, Limits};
use bf_profile::trace::{Event, Reader, Record};
use std::io::BufRead;

/// Replays a binary trace. One that ends early, as that of a killed program does, counts as far as it goes.
pub(super) fn replay(input: impl BufRead, options: &Options) -> Result<Replayed, ReplayError> {
    let mut reader = Reader::new(input)?;
    let header = reader.header().clone();
    let limits = Limits { max_set_bits: header.max_set_bits, max_ways: header.max_ways };
    let mut feeder = Feeder::new(options.config(&header.line_sizes, limits)?);
    let (mut tags, mut remarks) = (vec![String::new()], Vec::new());
    for record in &mut reader {
        match record {
            Ok(Record::Chunk { slot, bucket, accesses }) => {
                feeder.slot(slot)?;
                feeder.thread = slot;
                accesses.iter().for_each(|access| feeder.batch.access(access.address, access.size, access.store));
                feeder.flush(Bucket(bucket));
            }
            Ok(Record::Event(Event::SlotTaken { slot })) => feeder.slot(slot.min(MAX_THREAD))?,
            Ok(Record::Event(Event::SlotMade { slot, thread })) => feeder.session.made(slot, thread),
            Ok(Record::Event(Event::TagName { bucket, name })) if bucket > 0 => {
                let tag = usize::from(bucket) - 1;
                tags.resize(tags.len().max(tag + 1), String::new());
                tags[tag] = name;
            }
            // A slot whose thread ended keeps its contents; whatever a later version adds changes no stack.
            Ok(_) => {}
            Err(error) if error.is_truncation() => {
                remarks.push(format!("the trace ends early ({error}); what it holds was replayed"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut profile = feeder.finish(header.meta, header.machine, tags);
    profile.processes.iter_mut().for_each(|process| process.log.clone_from(&remarks));
    Ok(Replayed { profile, format: Format::Bf, remarks })
}

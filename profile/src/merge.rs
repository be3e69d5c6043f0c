//! Many profiles in, one out.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::{EndReason, Meta, Process, Profile};
use crate::wire::{HeadRef, encode};

/// The union of the processes of several profiles, sorted by [`Process::key`]. Of two with the same key the one written
/// later stays, so that a final profile takes the place of its checkpoints. Associative, commutative and idempotent.
#[must_use]
pub fn merge(profiles: impl IntoIterator<Item = Profile>) -> Profile {
    let mut union: BTreeMap<(u64, String, u32, String), Process> = BTreeMap::new();
    for process in profiles.into_iter().flat_map(|profile| profile.processes) {
        let (start, host, pid, executable) = process.key();
        let key = (start, host.to_owned(), pid, executable.to_owned());
        match union.get(&key) {
            Some(there) if later(there, &process).is_ge() => {}
            _ => {
                union.insert(key, process);
            }
        }
    }
    Profile { processes: union.into_values().collect() }
}

/// Orders two states of one process by when they were written. Where that does not tell, any total order over the
/// contents will do, as long as it is the same one whoever comes first.
fn later(a: &Process, b: &Process) -> Ordering {
    let written = |Meta { elapsed_ns, end, .. }: &Meta| (*elapsed_ns, *end != EndReason::Checkpoint);
    written(&a.meta).cmp(&written(&b.meta)).then_with(|| if a == b { Ordering::Equal } else { bytes(a).cmp(&bytes(b)) })
}

fn bytes(process: &Process) -> Vec<u8> {
    let Process { meta, machine, uninstrumented, log, tags, lines } = process;
    let mut bytes = Vec::new();
    encode(&HeadRef { meta, machine, uninstrumented, log, tags }, &mut bytes);
    encode(lines, &mut bytes);
    bytes
}

//! Many profiles in, one out.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::{EndReason, Meta, Process, Profile, Sampling};
use crate::validate::Invalid;
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

/// Whether the processes of these can be answered as one: all recorded whole, or all sampled in the same way.
/// [`merge`] itself takes anything.
///
/// # Errors
/// Two processes that were not recorded alike, in words.
pub fn check_mergeable<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Result<(), Invalid> {
    let processes = profiles.into_iter().flat_map(|profile| &profile.processes);
    let mut recorded = processes.filter(|process| process.line_sizes().next().is_some());
    let Some(first) = recorded.next() else { return Ok(()) };
    let how = |process: &Process| process.sampled.first().map(|data| data.sampling);
    let named = |process: &Process| (format!("{} {}", process.meta.executable, process.meta.pid), how(process));
    match recorded.find(|other| how(other) != how(first)) {
        None => Ok(()),
        Some(other) => Err(unlike(named(first), named(other))),
    }
}

/// Two processes, by name and how they were recorded, that cannot be answered as one.
pub(crate) fn unlike(first: (String, Option<Sampling>), other: (String, Option<Sampling>)) -> Invalid {
    Invalid::new(format!(
        "{} was {}, {} {}: their counts cannot be added up",
        first.0,
        in_words(first.1),
        other.0,
        in_words(other.1)
    ))
}

fn in_words(sampling: Option<Sampling>) -> String {
    sampling
        .map_or_else(|| "recorded whole".to_owned(), |sampling| format!("sampled at 1/{}", 1_u64 << sampling.rate_bits))
}

/// Orders two states of one process by when they were written. Where that does not tell, any total order over the
/// contents will do, as long as it is the same one whoever comes first.
pub(crate) fn later(a: &Process, b: &Process) -> Ordering {
    written(&a.meta).cmp(&written(&b.meta)).then_with(|| if a == b { Ordering::Equal } else { bytes(a).cmp(&bytes(b)) })
}

/// When a state of a process was written, and whether it is its last.
pub(crate) fn written(meta: &Meta) -> (u64, bool) {
    (meta.elapsed_ns, meta.end != EndReason::Checkpoint)
}

fn bytes(process: &Process) -> Vec<u8> {
    let Process { meta, machine, uninstrumented, log, tags, lines, sampled, .. } = process;
    let Process { coherence, sharing, counters, places, objects, paths, items, patterns, .. } = process;
    let mut bytes = Vec::new();
    encode(&HeadRef { meta, machine, uninstrumented, log, tags }, &mut bytes);
    encode(&(lines, sampled, coherence, sharing, counters, places, items, patterns), &mut bytes);
    encode(&(objects, paths), &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{any_profile, rich, sampled, tiny};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn order_and_grouping_do_not_matter(a in any_profile(), b in any_profile(), c in any_profile()) {
            let pair = |x: &Profile, y: &Profile| merge([x.clone(), y.clone()]);
            let all = merge([a.clone(), b.clone(), c.clone()]);
            all.validate().unwrap();
            prop_assert_eq!(&all, &pair(&pair(&a, &b), &c));
            prop_assert_eq!(&all, &pair(&a, &pair(&b, &c)));
            prop_assert_eq!(&all, &merge([c, b, a]));
            prop_assert_eq!(&all, &pair(&all, &all));
        }
    }

    #[test]
    fn different_processes_are_all_kept() {
        let merged = merge([tiny(), rich()]);
        assert_eq!(merged.processes.len(), 3);
        assert_eq!(merged.processes[0], tiny().processes[0]);
    }

    #[test]
    fn sampled_and_whole_are_told_apart() {
        assert_eq!(check_mergeable(&[tiny(), rich(), Profile::default()]), Ok(()));
        assert_eq!(check_mergeable(&[sampled(), sampled()]), Ok(()));
        let error = check_mergeable(&[tiny(), sampled()]).unwrap_err().to_string();
        let want = "a.out 42 was recorded whole, a.out 42 sampled at 1/16: their counts cannot be added up";
        assert_eq!(error, want);
        let mut other = sampled();
        other.processes[0].sampled[0].sampling.rate_bits = 5;
        assert!(check_mergeable(&[sampled(), other]).unwrap_err().to_string().contains("sampled at 1/32"));
    }

    #[test]
    fn a_final_profile_supersedes_its_checkpoints() {
        let [early, late, last] =
            [(1, EndReason::Checkpoint), (9, EndReason::Checkpoint), (9, EndReason::Exit)].map(|(elapsed_ns, end)| {
                let mut profile = tiny();
                (profile.processes[0].meta.elapsed_ns, profile.processes[0].meta.end) = (elapsed_ns, end);
                profile
            });
        assert_eq!(merge([late.clone(), early.clone()]), late);
        assert_eq!(merge([last.clone(), late, early]), last);
    }
}

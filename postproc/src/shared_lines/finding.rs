//! From lines to findings: which belong together, and what each thread did to all of them.

use super::{Base, Finding, Kind, Object, Place, Thread, distinct};
use bf_profile::{LineUser, ObjectKind, Places, Process, SharedLine, SharedObject};
use std::{cmp::Reverse, collections::BTreeMap};

/// Lines of their own spare the threads false misses alone: one in so many misses must be false for that to be a mend.
const PADDING_HELPS: u64 = 4;

/// Whether one thread stores the line while another one uses it: not what all only read, nor what moved from one thread to
/// another for good.
pub(super) fn is_shared(line: &SharedLine) -> bool {
    let uses = |user: &&LineUser| user.loads + user.stores > 0;
    line.users.iter().filter(uses).count() > 1 && line.users.iter().any(|user| user.stores > 0)
}

/// What lines of one finding have in common of their objects: an object, or all of an allocation site.
pub(super) fn identity(object: Option<&SharedObject>) -> Option<(u8, &str, u64)> {
    object.map(|object| {
        let several = object.kind == ObjectKind::Heap && !object.name.is_empty();
        (object.kind as u8, object.name.as_str(), if several { 0 } else { object.address })
    })
}

/// The code that stores a line most; or its item, if that is not known.
pub(super) fn storing_code(line: &SharedLine, known: &Places) -> Result<Code, u32> {
    let mut stores = BTreeMap::new();
    for place in line.users.iter().flat_map(|user| &user.places).filter(|place| place.stores > 0) {
        *stores.entry(code(known, place.item).ok_or(place.item)).or_insert(0) += place.stores;
    }
    stores.into_iter().max_by_key(|&(code, stores)| (stores, Reverse(code))).map_or(Err(0), |(code, _)| code)
}

/// Puts lines together that belong together, which this code stores most; there is one at least.
pub(super) fn finding(
    process: &Process,
    lines: &[&SharedLine],
    stored_by: Result<Code, u32>,
    line_bytes: u32,
) -> Finding {
    let object = object(lines);
    let single = object.as_ref().filter(|object| object.count == Some(1)).map(|object| object.address);
    let mut threads: BTreeMap<u32, Sum> = BTreeMap::new();
    let mut overlap = false;
    for line in lines {
        let base = single.map_or(0, |object| line.address.wrapping_sub(object) as i64);
        for user in &line.users {
            threads.entry(user.slot).or_default().add(user, base, line_bytes);
            let others = line.users.iter().filter(|other| other.slot != user.slot);
            overlap |= others.into_iter().any(|other| user.stored & (other.loaded | other.stored) != 0);
        }
    }
    let threads: Vec<_> = threads.into_iter().map(|(slot, sum)| sum.thread(slot, &process.places)).collect();
    let total = |of: fn(&Thread) -> u64| threads.iter().map(of).sum::<u64>();
    let (true_misses, false_misses) = (total(|thread| thread.true_misses), total(|thread| thread.false_misses));
    let kind = Kind::of(true_misses, false_misses, overlap);
    let padding_helps = kind != Kind::True && PADDING_HELPS * false_misses >= true_misses + false_misses;
    let begins = threads.iter().flat_map(|thread| thread.loaded.iter().chain(&thread.stored)).map(|range| range[0]);
    Finding {
        pid: process.meta.pid,
        offset: single.and_then(|_| begins.min()),
        address: lines.first().map_or(0, |line| line.address),
        last: lines.last().map_or(0, |line| line.address),
        lines: distinct(lines.iter().copied()),
        stored_by: stored_by.ok().map(|code| all_of(place(&process.places, Some(code), [0; 2]), &threads)),
        kind,
        misses: true_misses + false_misses,
        true_misses,
        false_misses,
        loads: total(|thread| thread.loads),
        stores: total(|thread| thread.stores),
        ranges_in: if single.is_some() { Base::Object } else { Base::Line },
        advice: padding_helps.then(|| advice(object.as_ref(), line_bytes)),
        object,
        threads,
    }
}

/// With what all threads did from there.
fn all_of(place: Place, threads: &[Thread]) -> Place {
    let is_there =
        |other: &&Place| (&other.function, &other.file, other.line) == (&place.function, &place.file, place.line);
    let (loads, stores) = threads
        .iter()
        .filter_map(|thread| thread.places.iter().find(is_there))
        .fold((0, 0), |(loads, stores), there| (loads + there.loads, stores + there.stores));
    Place { loads, stores, ..place }
}

/// The object of lines that have the same [`identity`], or the first of several.
fn object(lines: &[&SharedLine]) -> Option<Object> {
    let mut all: Vec<&SharedObject> = lines.iter().filter_map(|line| line.object.as_ref()).collect();
    all.sort_by_key(|object| object.address);
    all.dedup_by_key(|object| object.address);
    let known = all.iter().all(|object| object.bytes > 0);
    all.first().map(|first| Object {
        kind: match first.kind {
            ObjectKind::Global => "global",
            ObjectKind::Heap => "heap",
            ObjectKind::Stack => "stack",
        },
        name: first.name.clone(),
        address: first.address,
        bytes: known.then_some(first.bytes),
        count: known.then_some(all.len() as u64),
    })
}

fn advice(object: Option<&Object>, line: u32) -> String {
    match object {
        Some(Object { kind: "stack", .. }) => format!(
            "move what the other threads use out of this stack, or align it to {line} bytes and pad it to a multiple of that"
        ),
        Some(object) if object.kind == "heap" && object.count.is_none() => {
            format!("allocate each block in lines of its own: aligned_alloc({line}, a multiple of {line})")
        }
        _ => format!(
            "give what each thread uses lines of its own: align it to {line} bytes (alignas({line})) and pad it to a multiple \
             of that"
        ),
    }
}

/// The sum of what a thread did to several lines.
#[derive(Default)]
struct Sum {
    counts: [u64; 4],
    stored_before: bool,
    loaded: Vec<[i64; 2]>,
    stored: Vec<[i64; 2]>,
    /// By item: loads and stores.
    places: BTreeMap<u32, [u64; 2]>,
}

impl Sum {
    /// `base`: where the line lies in what ranges count from.
    fn add(&mut self, user: &LineUser, base: i64, line_bytes: u32) {
        let counts = [user.loads, user.stores, user.true_misses, user.false_misses];
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        self.stored_before |= user.stored_before;
        for (all, bits) in [(&mut self.loaded, user.loaded), (&mut self.stored, user.stored)] {
            all.extend(ranges(bits, (line_bytes / 64).max(1)).map(|range| range.map(|at| base.saturating_add(at))));
        }
        for place in &user.places {
            let [loads, stores] = self.places.entry(place.item).or_default();
            *loads += place.loads;
            *stores += place.stores;
        }
    }

    fn thread(self, thread: u32, known: &Places) -> Thread {
        let [loads, stores, true_misses, false_misses] = self.counts;
        let mut all: BTreeMap<Option<Code>, [u64; 2]> = BTreeMap::new();
        // What was before a second thread used a line is not counted.
        for (item, [loads, stores]) in self.places.into_iter().filter(|&(_, counts)| counts != [0, 0]) {
            let sum = all.entry(code(known, item)).or_default();
            *sum = [sum[0] + loads, sum[1] + stores];
        }
        let mut places: Vec<_> = all.into_iter().map(|(code, counts)| place(known, code, counts)).collect();
        // What has no name may be many places: of a line and thread only so many are told apart.
        places.sort_by_key(|place| (place.function.is_none(), Reverse(place.loads + place.stores)));
        Thread {
            thread,
            loads,
            stores,
            true_misses,
            false_misses,
            stored_before: self.stored_before,
            loaded: joined(self.loaded),
            stored: joined(self.stored),
            places,
        }
    }
}

/// First and last byte of each run of set bits, each of which stands for `unit` bytes.
fn ranges(bits: u64, unit: u32) -> impl Iterator<Item = [i64; 2]> {
    let unit = i64::from(unit);
    let mut rest = bits;
    std::iter::from_fn(move || {
        let first = (rest != 0).then(|| rest.trailing_zeros())?;
        let run = (rest >> first).trailing_ones();
        rest &= u64::MAX.checked_shl(first + run).unwrap_or(0);
        Some([i64::from(first) * unit, i64::from(first + run) * unit - 1])
    })
}

/// Ranges in order, those that overlap or touch as one.
fn joined(mut ranges: Vec<[i64; 2]>) -> Vec<[i64; 2]> {
    ranges.sort_unstable();
    let mut all: Vec<[i64; 2]> = Vec::new();
    for [first, last] in ranges {
        match all.last_mut() {
            Some(before) if first <= before[1].saturating_add(1) => before[1] = before[1].max(last),
            _ => all.push([first, last]),
        }
    }
    all
}

/// Strings that name a function and its file, and the line, which is 0 where it is not one.
pub(super) type Code = [u32; 3];

/// Clang makes two functions of an OpenMP region if there is debug information. This one has its code, and is inlined into the other,
/// which is the one that threads are given.
const INNER_REGION: &str = ".omp_outlined_debug__";

/// Where an item is in the program, also where that uses the standard library.
fn code(places: &Places, item: u32) -> Option<Code> {
    let item = places.items.get(item as usize)?;
    let at = places.in_program(item.site?)?;
    let site = places.sites.get(at as usize)?;
    let names = places.inlined_through(at).filter_map(|site| places.functions.get(site.function as usize));
    let mut names = names.map(|function| function.display).peekable();
    let function = *names.peek()?;
    let function = names.find(|&name| !places.string(name).contains(INNER_REGION)).unwrap_or(function);
    Some([function, site.file, if item.merged { 0 } else { site.line }])
}

fn place(places: &Places, code: Option<Code>, [loads, stores]: [u64; 2]) -> Place {
    let known = |string: usize| {
        let text = code.map(|code| places.string(code[string]).to_owned());
        text.filter(|text| !text.is_empty())
    };
    let line = code.map(|[.., line]| line).filter(|&line| line > 0);
    Place { function: known(0), file: known(1), line, loads, stores }
}

//! Live counters, by `perf_event_open`.

use super::{
    Backend, Reading,
    event::{Code, Event},
    exercise::Exercise,
    probe,
};
use crate::{error::Error, topology::Topology};
use perf_event::{
    Builder, Counter, Group,
    events::{Cache, CacheId, CacheOp, CacheResult, Dynamic, Hardware},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where Linux describes its counter units.
const UNITS: &str = "/sys/bus/event_source/devices";
/// Events counted at once: what all processors in the tables have room for beside the kernel's watchdog.
const TOGETHER: usize = 3;

/// Counts this thread's own events, in user mode only; units outside the cores count for everybody.
#[derive(Debug)]
pub struct Perf {
    events: Vec<Event>,
}

impl Perf {
    /// With the events given, of which those that this kernel refuses will have no readings.
    ///
    /// # Errors
    /// There are no counters that this process may use: why, and the mend.
    pub fn new(topology: &Topology, events: Vec<Event>) -> Result<Self, Error> {
        probe::core().map_err(|obstacle| {
            let why = obstacle.why(topology.hypervisor.as_deref());
            Error::NoCounters(format!("no performance counters here: {why}; {}", obstacle.mend()))
        })?;
        Ok(Self { events })
    }
}

impl Backend for Perf {
    fn describe(&self) -> String {
        "perf_event_open, user mode".to_owned()
    }

    fn events(&self) -> Vec<Event> {
        self.events.clone()
    }

    fn count(&mut self, exercise: &mut dyn Exercise) -> Result<Vec<Option<Reading>>, Error> {
        let mut readings = vec![None; self.events.len()];
        let (core, beyond): (Vec<usize>, Vec<usize>) =
            (0..self.events.len()).partition(|index| is_core(&self.events[*index].code));
        for indices in core.chunks(TOGETHER) {
            let codes: Vec<&Code> = indices.iter().map(|index| &self.events[*index].code).collect();
            for (index, reading) in indices.iter().zip(group(&codes, exercise)) {
                readings[*index] = reading;
            }
        }
        for index in beyond {
            readings[index] = system_wide(&self.events[index].code, exercise);
        }
        Ok(readings)
    }
}

fn is_core(code: &Code) -> bool {
    !matches!(code, Code::Unit { unit, .. } if unit != "cpu")
}

/// Counts events together: all or none of them at any time. A group that the hardware has no room for is counted one by one.
fn group(codes: &[&Code], exercise: &mut dyn Exercise) -> Vec<Option<Reading>> {
    let together = try_group(codes, exercise).unwrap_or_else(|_| vec![None; codes.len()]);
    let idle =
        |reading: &Option<Reading>| reading.is_none_or(|reading| reading.enabled_ns > 0 && reading.running_ns == 0);
    if codes.len() > 1 && together.iter().all(idle) {
        return codes.iter().flat_map(|code| group(&[code], exercise)).collect();
    }
    together
}

fn try_group(codes: &[&Code], exercise: &mut dyn Exercise) -> io::Result<Vec<Option<Reading>>> {
    let mut group = Group::new()?;
    let counters: Vec<Option<Counter>> =
        codes.iter().map(|code| builder(code).ok().and_then(|builder| group.add(&builder).ok())).collect();
    exercise.prepare();
    group.enable()?;
    exercise.go();
    group.disable()?;
    let data = group.read()?;
    let ns = |time: Option<std::time::Duration>| time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(0);
    let reading = |counter: &Counter| Reading {
        count: data[counter],
        enabled_ns: ns(data.time_enabled()),
        running_ns: ns(data.time_running()),
    };
    Ok(counters.iter().map(|counter| counter.as_ref().map(reading)).collect())
}

/// Counts this thread, and with `inherit` the threads and children that it starts later: what a group cannot.
///
/// # Errors
/// The event cannot be counted.
pub fn count_one(builder: &mut Builder<'_>, inherit: bool, work: impl FnOnce()) -> io::Result<Reading> {
    let mut counter = builder.inherit(inherit).build()?;
    counter.enable()?;
    work();
    counter.disable()?;
    read(&mut counter)
}

fn read(counter: &mut Counter) -> io::Result<Reading> {
    let data = counter.read_full()?;
    let ns = |time: Option<std::time::Duration>| time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(0);
    Ok(Reading { count: data.count(), enabled_ns: ns(data.time_enabled()), running_ns: ns(data.time_running()) })
}

/// Counts on all instances of a unit, for all programs, and adds them up.
fn system_wide(code: &Code, exercise: &mut dyn Exercise) -> Option<Reading> {
    let Code::Unit { unit, fields } = code else { return None };
    let mut counters = Vec::new();
    for path in instances(Path::new(UNITS), unit) {
        let mut event = Dynamic::builder(&path).ok()?;
        for (field, value) in fields {
            event.field(field, *value).ok()?;
        }
        let cpus = fs::read_to_string(path.join("cpumask")).ok().and_then(|text| crate::topology::list(&text));
        for cpu in cpus.unwrap_or_else(|| vec![0]) {
            let mut builder = Builder::new(event.build().ok()?);
            builder.include_kernel().include_hv().any_pid().one_cpu(cpu as usize);
            counters.push(builder.build().ok()?);
        }
    }
    exercise.prepare();
    counters.iter_mut().try_for_each(Counter::enable).ok()?;
    exercise.go();
    counters.iter_mut().try_for_each(Counter::disable).ok()?;
    let readings = counters.iter_mut().map(read).collect::<io::Result<Vec<_>>>().ok()?;
    readings.into_iter().reduce(|sum, reading| Reading {
        count: sum.count + reading.count,
        enabled_ns: sum.enabled_ns.max(reading.enabled_ns),
        running_ns: sum.running_ns.min(reading.running_ns),
    })
}

/// Folders of a unit: its own, or those with a number behind its name.
fn instances(units: &Path, unit: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(units) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let fits = |name: &String| {
        name.strip_prefix(unit)
            .is_some_and(|rest| rest.is_empty() || rest.trim_start_matches('_').parse::<u32>().is_ok())
    };
    let mut names: Vec<String> = names.filter(fits).collect();
    names.sort();
    names.iter().map(|name| units.join(name)).collect()
}

fn builder(code: &Code) -> io::Result<Builder<'static>> {
    let refused = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    match code {
        Code::Unit { fields, .. } => {
            // The cores' own unit: `cpu`, one of the units of a hybrid processor, or Arm's.
            let cores = ["cpu", "cpu_core", "armv8_pmuv3"];
            let folder = cores.iter().find_map(|name| instances(Path::new(UNITS), name).into_iter().next());
            let folder = folder.ok_or_else(|| refused(&"no counter unit"))?;
            let mut event = Dynamic::builder(folder)?;
            for (field, value) in fields {
                event.field(field, *value).map_err(|error| refused(&error))?;
            }
            Ok(Builder::new(event.build().map_err(|error| refused(&error))?))
        }
        Code::Generic(name) => {
            let cache = |which, result| Builder::new(Cache { which, operation: CacheOp::READ, result });
            Ok(match *name {
                "L1-dcache-loads" => cache(CacheId::L1D, CacheResult::ACCESS),
                "L1-dcache-load-misses" => cache(CacheId::L1D, CacheResult::MISS),
                "LLC-load-misses" => cache(CacheId::LL, CacheResult::MISS),
                "cache-references" => Builder::new(Hardware::CACHE_REFERENCES),
                "cache-misses" => Builder::new(Hardware::CACHE_MISSES),
                other => return Err(refused(&format!("the kernel has no event {other}"))),
            })
        }
        Code::Own => Err(refused(&"not an event of the kernel")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pages::{Buffer, Pages, base_page};
    use perf_event::events::Software;

    /// Page faults are counted by the kernel itself, so that the way through `perf_event_open` can be tried on machines
    /// without counters, unless even that is forbidden.
    #[test]
    fn counting_follows_threads_if_asked_to() {
        const PAGES: usize = 64;
        let touch = || drop(Buffer::new(PAGES * base_page(), Pages::Base).unwrap());
        let in_a_thread = || std::thread::spawn(touch).join().unwrap();
        let count = |inherit, work: &dyn Fn()| count_one(&mut Builder::new(Software::PAGE_FAULTS), inherit, work);
        let Ok(own) = count(false, &touch) else { return };
        assert!(own.count >= PAGES as u64 && own.share() == 1.0, "{own:?}");
        let with = count(true, &in_a_thread).unwrap();
        let without = count(false, &in_a_thread).unwrap();
        assert!(with.count >= PAGES as u64 && without.count < PAGES as u64, "{with:?} {without:?}");
    }

    #[test]
    fn units_with_numbers_are_one_unit() {
        let root = tempfile::tempdir().unwrap();
        for name in ["uncore_imc_0", "uncore_imc_11", "uncore_imc_free_running", "amd_l3", "cpu"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let names = |unit| instances(root.path(), unit).len();
        assert_eq!((names("uncore_imc"), names("amd_l3"), names("cpu"), names("amd_umc")), (2, 1, 1, 0));
    }

    #[test]
    fn without_counters_there_is_a_sentence_and_the_mend() {
        match Perf::new(&Topology::here(), Vec::new()) {
            Ok(perf) => assert!(perf.events().is_empty()),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    error.is_absence() && text.starts_with("no performance counters here: ") && !text.contains('\n')
                );
            }
        }
    }
}

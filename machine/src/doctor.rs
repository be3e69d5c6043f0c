//! What can be measured here; for each thing that cannot, why and the mend.

use crate::{
    counters::probe,
    memory,
    session::{Clock, allowed_cpus},
    sys::{
        pages::{Buffer, LARGE, Pages},
        stream::widest,
    },
    topology::Topology,
};
use serde::Serialize;
use std::{fs, path::Path};

/// How well something can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// With a restriction that the finding names.
    Limited,
    /// Not at all.
    Absent,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found, in a sentence without its end.
    pub finding: String,
    /// What to do about it; `None` where nothing can or need be done.
    pub mend: Option<String>,
    /// Commands that it matters to.
    pub matters_to: &'static str,
}

/// Looks at everything, in a second or less.
#[must_use]
pub fn examine() -> Vec<Finding> {
    let topology = Topology::here();
    let root = Path::new("/");
    vec![
        caches(&topology),
        processors(&topology, allowed_cpus().len()),
        clock(),
        frequency(root),
        noise(root),
        vectors(),
        large_pages(&topology),
        nodes(&topology),
        memory(&topology),
        core_counters(&topology),
        traffic_counters(root),
    ]
}

fn finding(
    subject: &'static str,
    state: State,
    matters_to: &'static str,
    finding: String,
    mend: Option<&str>,
) -> Finding {
    Finding { subject, state, finding, mend: mend.map(str::to_owned), matters_to }
}

fn caches(topology: &Topology) -> Finding {
    let names: Vec<_> =
        topology.data_caches().map(|cache| format!("{} {}", cache.name, human(cache.size_bytes))).collect();
    let (state, text, mend) = match (&topology.differences[..], names.is_empty()) {
        (_, true) => (
            State::Absent,
            "neither the kernel (/sys/devices/system/cpu/cpu0/cache) nor the processor describes caches".to_owned(),
            Some(
                "name the hierarchy yourself: `bf query --cache L1=32K:8 …`; sizes show as steps of `bf machine latency --plot`",
            ),
        ),
        ([], _) => (State::Good, format!("{}, the same by sysfs and CPUID", names.join(", ")), None),
        (differences, _) => (
            State::Limited,
            format!("{}, but sysfs and CPUID differ: {}", names.join(", "), differences.join("; ")),
            Some("believe the steps of `bf machine latency --plot`"),
        ),
    };
    finding("caches", state, "topology, query", text, mend)
}

fn processors(topology: &Topology, allowed: usize) -> Finding {
    let text = match topology.cores() {
        0 => format!("{allowed} logical CPUs may be used"),
        cores => format!("{allowed} of {} logical CPUs on {cores} cores may be used", topology.cpus.len().max(allowed)),
    };
    let what = "coherence, c2c, loaded-latency";
    match allowed {
        0 | 1 => finding(
            "processors",
            State::Absent,
            what,
            text,
            Some("give the process or the virtual machine a second CPU (taskset, cpuset)"),
        ),
        2 => {
            let text = format!("{text}; the third party that shared lines need is played by evicting one's own copy");
            finding("processors", State::Limited, what, text, None)
        }
        _ => finding("processors", State::Good, what, text, None),
    }
}

fn clock() -> Finding {
    let clock = Clock::calibrate();
    let text = format!(
        "{:.3} ticks a nanosecond, {:.0} ticks to read it; the core runs at {:.2} GHz by a chain of additions",
        clock.ticks_per_ns, clock.overhead_ticks, clock.core_ghz
    );
    let steady = constant_rate();
    let mend = (!steady).then_some("choose another clock source or machine: times would follow the core's frequency");
    finding("clock", if steady { State::Good } else { State::Limited }, "all", text, mend)
}

/// Whether the counter's rate is constant (Intel SDM 18.17, APM 3 E.4: CPUID Fn8000_0007 EDX bit 8).
fn constant_rate() -> bool {
    #[cfg(target_arch = "x86_64")]
    let constant = raw_cpuid::CpuId::new().get_advanced_power_mgmt_info().is_some_and(|info| info.has_invariant_tsc());
    #[cfg(not(target_arch = "x86_64"))]
    let constant = true;
    constant
}

fn frequency(root: &Path) -> Finding {
    let folder = root.join("sys/devices/system/cpu/cpu0/cpufreq");
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let (state, said, mend) = match text("scaling_governor") {
        Some(governor) if governor == "performance" => (State::Good, "the governor is performance".to_owned(), None),
        Some(governor) => (
            State::Limited,
            format!("the governor is {governor}: the core may change its pace while it is measured"),
            Some("as root: cpupower frequency-set -g performance"),
        ),
        None => (
            State::Limited,
            "the kernel does not say how the frequency is governed, as in a virtual machine; every command measures the pace itself"
                .to_owned(),
            None,
        ),
    };
    finding("frequency", state, "all", said, mend)
}

fn noise(root: &Path) -> Finding {
    let load = fs::read_to_string(root.join("proc/loadavg")).ok();
    let load: Option<f64> = load.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let stolen = stolen(&fs::read_to_string(root.join("proc/stat")).unwrap_or_default());
    let text = format!(
        "load {}, {} of all time since boot taken by the host for others",
        load.map_or("unknown".to_owned(), |load| format!("{load:.2}")),
        stolen.map_or("an unknown part".to_owned(), |part| format!("{:.1} %", part * 100.0))
    );
    let busy = load.is_some_and(|load| load > 0.5) || stolen.is_some_and(|part| part > 0.01);
    let mend = busy.then_some("end other work; figures that do not settle are marked unstable");
    finding("quiet", if busy { State::Limited } else { State::Good }, "all", text, mend)
}

/// Part of all time that was stolen, by the first line of `/proc/stat` (proc(5): user, nice, system, idle, iowait, irq,
/// softirq, steal).
pub(crate) fn stolen(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<f64> = line.split_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
    let sum: f64 = times.iter().sum();
    (times.len() == 8 && sum > 0.0).then(|| times[7] / sum)
}

fn vectors() -> Finding {
    let text = format!("kernels of up to {} bits", widest());
    finding("instructions", State::Good, "bandwidth, throughput", text, None)
}

fn large_pages(topology: &Topology) -> Finding {
    let got = Buffer::new(4 * LARGE, Pages::Large).map(|buffer| buffer.got());
    let reserved: u64 = topology.pages.reserved.iter().map(|pages| pages.free * pages.page_bytes).sum();
    let text = format!(
        "transparent huge pages: {}; reserved and free: {}",
        topology.pages.transparent.as_deref().unwrap_or("none described"),
        human(reserved)
    );
    let what = "latency, tlb";
    match got {
        Ok(got) if got.page_bytes >= LARGE => finding("large pages", State::Good, what, text, None),
        _ => finding(
            "large pages",
            State::Limited,
            what,
            format!("{text}; a test got none, so latencies beyond the nearest caches include address translation"),
            Some("as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or sysctl vm.nr_hugepages=512"),
        ),
    }
}

fn nodes(topology: &Topology) -> Finding {
    let count = topology.nodes.len().max(1);
    let text = match count {
        1 => "one node: there is no remote memory to measure".to_owned(),
        _ => format!("{count} nodes; memory is placed by the thread that touches it first"),
    };
    finding("memory nodes", State::Good, "latency, bandwidth", text, None)
}

/// Whether there is enough memory to measure it.
#[must_use]
pub fn memory(topology: &Topology) -> Finding {
    let (available, limit) = memory::available().map_or((0, None), |memory| (memory.bytes as u64, memory.limit));
    let needed = topology.last_size() * 32;
    let within = limit.map_or_else(String::new, |limit| format!(" within {limit}"));
    let text = format!("{} available{within}", human(available));
    if available >= needed {
        return finding("memory", State::Good, "all", text, None);
    }
    let text = format!("{text}, a quarter of which is not eight times the last cache");
    finding(
        "memory",
        State::Limited,
        "all",
        text,
        Some("free memory, or raise the limit; latencies of memory will include hits in the last cache"),
    )
}

fn core_counters(topology: &Topology) -> Finding {
    match probe::core() {
        Ok(()) => finding(
            "core counters",
            State::Good,
            "counters",
            "cycles of one's own code can be counted".to_owned(),
            None,
        ),
        Err(obstacle) => {
            let why = obstacle.why(topology.hypervisor.as_deref());
            finding("core counters", State::Absent, "counters", why, Some(obstacle.mend()))
        }
    }
}

fn traffic_counters(root: &Path) -> Finding {
    let units = probe::uncore(root);
    let what = "counters";
    if units.is_empty() {
        let text = "the kernel drives no counters of memory controllers or shared caches".to_owned();
        let mend = "run on bare metal; modules intel_uncore, amd_uncore or arm_cmn drive them";
        return finding("traffic counters", State::Absent, what, text, Some(mend));
    }
    let text = units.join(", ");
    match probe::paranoid(root) {
        Some(level) if level > 0 && !nix::unistd::geteuid().is_root() => finding(
            "traffic counters",
            State::Limited,
            what,
            format!(
                "{text}; they count for all programs, which kernel.perf_event_paranoid {level} keeps to CAP_PERFMON"
            ),
            Some("as root: sysctl kernel.perf_event_paranoid=0"),
        ),
        _ => finding("traffic counters", State::Good, what, text, None),
    }
}

/// A size by powers of 1024.
fn human(bytes: u64) -> String {
    let unit = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut index = 0;
    while value >= 1024.0 && index + 1 < unit.len() {
        value /= 1024.0;
        index += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), unit[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_good_is_explained() {
        let findings = examine();
        assert!(findings.len() >= 10);
        for finding in &findings {
            assert!(!finding.finding.is_empty() && !finding.finding.ends_with('.'), "{finding:?}");
            assert!(finding.state != State::Absent || finding.mend.is_some(), "{finding:?}");
        }
    }

    #[test]
    fn one_processor_two_and_more() {
        let topology = Topology::below(Path::new("/nowhere"));
        let states = [1, 2, 8].map(|allowed| processors(&topology, allowed).state);
        assert_eq!(states, [State::Absent, State::Limited, State::Good]);
        assert_eq!(caches(&topology).state, State::Absent);
    }

    #[test]
    fn governors_and_stolen_time() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/devices/system/cpu/cpu0/cpufreq");
        assert_eq!(frequency(root.path()).state, State::Limited);
        fs::create_dir_all(&folder).unwrap();
        for (governor, state) in [("powersave", State::Limited), ("performance", State::Good)] {
            fs::write(folder.join("scaling_governor"), format!("{governor}\n")).unwrap();
            assert_eq!(frequency(root.path()).state, state);
        }
        assert_eq!(stolen("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1"), Some(0.1));
        assert_eq!(stolen("nonsense"), None);
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/loadavg"), "0.01 0 0 1/2 3\n").unwrap();
        fs::write(root.path().join("proc/stat"), "cpu  10 0 10 70 0 0 0 0 0 0\n").unwrap();
        assert_eq!(noise(root.path()).state, State::Good);
        fs::write(root.path().join("proc/stat"), "cpu  10 0 10 70 0 0 0 10 0 0\n").unwrap();
        assert_eq!(noise(root.path()).state, State::Limited);
    }

    #[test]
    fn sizes() {
        assert_eq!([0, 1000, 1536, 32 << 20].map(human), ["0 B", "1000 B", "1.5 KiB", "32 MiB"]);
    }
}

//! Whether the performance counters of the cores, and those beyond the cores, can be used here; if not, why and the mend.

use perf_event::{Builder, events::Hardware};
use std::{fs, io, path::Path};

/// What stands in the way of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The kernel drives no counters: none are there, or the hypervisor does not pass them on.
    NoDriver,
    /// `kernel.perf_event_paranoid` forbids it at this level.
    Paranoid(i32),
    /// Something else forbids it, such as the system-call filter of a container.
    Forbidden,
    /// The kernel was built without performance events.
    NoPerf,
    /// Other users hold all counters.
    Busy,
}

impl Obstacle {
    /// What it is, as a sentence without its end.
    #[must_use]
    pub fn why(&self, hypervisor: Option<&str>) -> String {
        match self {
            Self::NoDriver => match hypervisor {
                Some(name) => {
                    format!("this is a virtual machine ({name}) and its host passes no performance counters on")
                }
                None => "the kernel found no performance counters on this processor".to_owned(),
            },
            Self::Paranoid(level) => {
                format!("kernel.perf_event_paranoid is {level} and forbids it to users without CAP_PERFMON")
            }
            Self::Forbidden => {
                "the system refuses perf_event_open, as the system-call filter of a container does".to_owned()
            }
            Self::NoPerf => "this kernel was built without performance events".to_owned(),
            Self::Busy => "other programs hold all counters".to_owned(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn mend(&self) -> &'static str {
        match self {
            Self::NoDriver => {
                "run on bare metal, or let the host pass them on (QEMU/KVM: -cpu host,pmu=on; clouds: a whole-machine size); \
                 meanwhile `--backend timed` tells levels apart by timed loads"
            }
            Self::Paranoid(_) => {
                "as root: sysctl kernel.perf_event_paranoid=2 for one's own programs, 0 for memory traffic"
            }
            Self::Forbidden => "allow perf_event_open (docker: --cap-add PERFMON, or a seccomp profile that has it)",
            Self::NoPerf => "boot a kernel with CONFIG_PERF_EVENTS",
            Self::Busy => "end other profilers, or switch the NMI watchdog off: sysctl kernel.nmi_watchdog=0",
        }
    }
}

/// The level of `kernel.perf_event_paranoid`: -1 all, 0 system-wide counting, 1 and 2 one's own programs (2: not in the
/// kernel), 3 and more, on some distributions, nothing.
#[must_use]
pub fn paranoid(root: &Path) -> Option<i32> {
    fs::read_to_string(root.join("proc/sys/kernel/perf_event_paranoid")).ok()?.trim().parse().ok()
}

/// Tries to count cycles of this thread in user mode.
///
/// # Errors
/// It cannot.
pub fn core() -> Result<(), Obstacle> {
    let tried = Builder::new(Hardware::CPU_CYCLES).build().and_then(|mut counter| {
        counter.enable()?;
        counter.disable()
    });
    tried.map_err(|error| obstacle(&error, paranoid(Path::new("/"))))
}

/// What an error of `perf_event_open` means (its manual page, ERRORS).
#[must_use]
pub fn obstacle(error: &io::Error, paranoid: Option<i32>) -> Obstacle {
    use nix::errno::Errno;
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM) => match paranoid {
            Some(level) if level > 2 => Obstacle::Paranoid(level),
            _ => Obstacle::Forbidden,
        },
        Some(Errno::ENOSYS) => Obstacle::NoPerf,
        Some(Errno::EBUSY | Errno::EMFILE) => Obstacle::Busy,
        _ => Obstacle::NoDriver,
    }
}

/// Names of the kernel's counter units outside the cores that see memory traffic or a shared cache.
#[must_use]
pub fn uncore(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join("sys/bus/event_source/devices")) else { return Vec::new() };
    let known =
        ["uncore_imc", "uncore_cbox", "uncore_cha", "amd_umc", "amd_df", "amd_l3", "arm_cmn", "arm_dsu", "nvidia_scf"];
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| known.iter().any(|known| name.starts_with(known))).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_and_each_has_a_mend() {
        use nix::errno::Errno;
        let error = |errno: Errno| io::Error::from_raw_os_error(errno as i32);
        for (errno, level, want) in [
            (Errno::ENOENT, Some(2), Obstacle::NoDriver),
            (Errno::EOPNOTSUPP, Some(2), Obstacle::NoDriver),
            (Errno::EACCES, Some(3), Obstacle::Paranoid(3)),
            (Errno::EPERM, Some(2), Obstacle::Forbidden),
            (Errno::ENOSYS, None, Obstacle::NoPerf),
            (Errno::EBUSY, Some(1), Obstacle::Busy),
        ] {
            let found = obstacle(&error(errno), level);
            assert_eq!(found, want);
            assert!(!found.why(None).ends_with('.') && !found.mend().is_empty());
        }
        assert!(Obstacle::NoDriver.why(Some("KVM")).contains("KVM"));
    }

    #[test]
    fn units_beyond_the_cores_are_found() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cpu", "uncore_imc_1", "uncore_imc_0", "amd_l3", "software"] {
            fs::create_dir_all(root.path().join("sys/bus/event_source/devices").join(name)).unwrap();
        }
        assert_eq!(uncore(root.path()), ["amd_l3", "uncore_imc_0", "uncore_imc_1"]);
        assert!(uncore(Path::new("/nowhere")).is_empty());
    }
}

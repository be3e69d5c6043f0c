//! How much memory a measurement can have: what the system has, and what the limits of this process leave it.

use crate::sys::pages::base_page;
use nix::{
    libc::RLIM_INFINITY,
    sys::resource::{Resource, getrlimit},
};
use std::{fs, path::Path};

/// Memory that can be had without pushing anything out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: usize,
    /// Which limit leaves no more; `None`: the system has no more.
    pub limit: Option<&'static str>,
}

/// What this process can have; `None` if the system does not say.
#[must_use]
pub fn available() -> Option<Memory> {
    below(Path::new("/"), getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(soft, _)| soft))
}

/// By the files below a root, and the limit of the address space.
fn below(root: &Path, address_space: u64) -> Option<Memory> {
    let found = [
        (by_system(root), None),
        (by_groups(root), Some("the memory limit of its control group")),
        (by_address_space(root, address_space), Some("`ulimit -v`")),
    ];
    let found = found.into_iter().filter_map(|(bytes, limit)| Some(Memory { bytes: bytes?, limit }));
    found.min_by_key(|memory| memory.bytes)
}

fn by_system(root: &Path) -> Option<usize> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib << 10)
}

/// What the control groups around the process leave it (kernel: admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst).
fn by_groups(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().filter_map(|line| by_group(root, line)).min()
}

/// The same for a line such as `0::/group` (version 2) or `4:memory:/group` (version 1).
fn by_group(root: &Path, line: &str) -> Option<usize> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (top, [limit, usage, cached]) = match controllers {
        "" => ("sys/fs/cgroup", ["memory.max", "memory.current", "inactive_file"]),
        "memory" => ("sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"]),
        _ => return None,
    };
    let left = |folder: &Path| {
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<usize>().ok();
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        // What is only kept of files makes room.
        let kept = stat.lines().find_map(|line| line.strip_prefix(cached)?.trim().parse().ok()).unwrap_or(0);
        Some(number(limit)?.saturating_sub(number(usage)?.saturating_sub(kept)))
    };
    let top = root.join(top);
    let group = top.join(group.trim_start_matches('/'));
    group.ancestors().take_while(|folder| folder.starts_with(&top)).filter_map(left).min()
}

fn by_address_space(root: &Path, limit: u64) -> Option<usize> {
    let text = fs::read_to_string(root.join("proc/self/statm")).ok()?;
    let taken = text.split_whitespace().next()?.parse::<usize>().ok()? * base_page();
    (limit != RLIM_INFINITY).then(|| usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in
            [("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n"), ("proc/self/statm", "7 5 1\n")]
                .iter()
                .chain(files)
        {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let seen = |groups: &[(&str, &str)], limit| {
            let memory = below(files(groups).path(), limit).unwrap();
            (memory.bytes, memory.limit)
        };
        assert_eq!(seen(&[], RLIM_INFINITY), (8000 << 10, None));
        assert_eq!(seen(&[], 1 << 20), ((1 << 20) - 7 * base_page(), Some("`ulimit -v`")));
        let second = [
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/memory.max", "5000000\n"),
            ("sys/fs/cgroup/job/memory.current", "3000000\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 2000000\ninactive_file 1000000\n"),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/job/step/memory.current", "3000000\n"),
        ];
        let group = Some("the memory limit of its control group");
        assert_eq!(seen(&second, RLIM_INFINITY), (3_000_000, group));
        let first = [
            ("proc/self/cgroup", "9:pids:/job\n4:memory:/elsewhere\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "104000000\n"),
        ];
        assert_eq!(seen(&first, RLIM_INFINITY), (857_600, group));
    }
}

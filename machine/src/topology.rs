//! Which caches, cores, memory nodes and page sizes this machine has, by sysfs and, as a second witness, by CPUID.

use crate::witness;
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// Who uses a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One core, all its hardware threads.
    Private,
    /// Several cores.
    Shared,
}

/// A cache of the first CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// `L1d`, `L2`, …
    pub name: String,
    /// 1 for the nearest.
    pub level: u32,
    /// What it holds.
    pub holds: Holds,
    /// Bytes.
    pub size_bytes: u64,
    /// Ways; 0 if not known.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Sets; 0 if not known.
    pub sets: u32,
    /// Logical CPUs that use this one.
    pub sharing: Vec<u32>,
    /// Whether other cores do.
    pub scope: Scope,
}

/// A logical CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Linux's number.
    pub cpu: u32,
    /// Number of the core within its package.
    pub core: u32,
    /// Number of the package (socket).
    pub package: u32,
    /// Memory node it belongs to.
    pub node: u32,
    /// Logical CPUs on the same core, itself included.
    pub threads: Vec<u32>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Linux's number.
    pub node: u32,
    /// Its CPUs; none for memory without processors.
    pub cpus: Vec<u32>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Distance to each node in the order of their numbers, 10 being local (ACPI SLIT).
    pub distances: Vec<u32>,
}

/// Large pages set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reserved {
    /// Bytes of one.
    pub page_bytes: u64,
    /// How many.
    pub total: u64,
    /// How many are unused.
    pub free: u64,
}

/// Sizes of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageSizes {
    /// Bytes of a small page.
    pub base_bytes: u64,
    /// `always`, `madvise` or `never`; `None` if the kernel describes no transparent huge pages.
    pub transparent: Option<String>,
    /// Sizes of reserved pages.
    pub reserved: Vec<Reserved>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The processor's own name.
    pub cpu: String,
    /// Vendor, family and model; `None` where CPUID or its like is missing.
    pub identity: Option<witness::Identity>,
    /// The hypervisor's name, if there is one.
    pub hypervisor: Option<String>,
    /// Logical CPUs that are online.
    pub cpus: Vec<Cpu>,
    /// Caches of the first CPU, nearest first.
    pub caches: Vec<Cache>,
    /// Memory nodes.
    pub nodes: Vec<Node>,
    /// Page sizes.
    pub pages: PageSizes,
    /// Where sysfs and CPUID do not say the same, in words.
    pub differences: Vec<String>,
}

impl Topology {
    /// This machine's.
    #[must_use]
    pub fn here() -> Self {
        let mut topology = Self::below(Path::new("/"));
        witness::add(&mut topology);
        topology
    }

    /// By the files below a root: `sys/devices/system`, `sys/kernel/mm` and `proc/cpuinfo`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        let files = Files(root);
        let system = root.join("sys/devices/system");
        let nodes = nodes(&files, &system.join("node"));
        let cpus = cpus(&files, &system.join("cpu"), &nodes);
        let first = cpus.first().map_or(0, |cpu| cpu.cpu);
        let threads = cpus.first().map_or(1, |cpu| cpu.threads.len());
        Self {
            cpu: name(&files).unwrap_or_else(|| "unnamed processor".to_owned()),
            identity: None,
            hypervisor: None,
            caches: caches(&files, &system.join(format!("cpu/cpu{first}/cache")), threads),
            cpus,
            nodes,
            pages: pages(&files, &root.join("sys/kernel/mm")),
            differences: Vec::new(),
        }
    }

    /// Data caches, nearest first.
    pub fn data_caches(&self) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(|cache| cache.holds != Holds::Instruction)
    }

    /// Bytes of a line of the nearest data cache; 64 if not known.
    #[must_use]
    pub fn line(&self) -> usize {
        self.data_caches().map(|cache| cache.line_bytes as usize).find(|line| *line >= 16).unwrap_or(64)
    }

    /// Bytes of the data cache of this level.
    #[must_use]
    pub fn size_of(&self, level: u32) -> Option<u64> {
        self.data_caches().find(|cache| cache.level == level).map(|cache| cache.size_bytes)
    }

    /// Bytes of the farthest data cache; 0 if there is none.
    #[must_use]
    pub fn last_size(&self) -> u64 {
        self.data_caches().last().map_or(0, |cache| cache.size_bytes)
    }

    /// Number of physical cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        let mut firsts: Vec<_> = self.cpus.iter().map(|cpu| cpu.threads.first().copied().unwrap_or(cpu.cpu)).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts.len()
    }
}

/// Reads small files, of which any may be missing.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    fn number(&self, path: &Path) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    fn list(&self, path: &Path) -> Option<Vec<u32>> {
        list(&self.text(path)?)
    }

    /// Numbers in the names of a folder's entries that begin with `prefix`, ascending, with their paths.
    fn numbered(&self, folder: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut found: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let digits = name.strip_prefix(prefix)?.trim_end_matches("kB");
                Some((digits.parse().ok()?, entry.path()))
            })
            .collect();
        found.sort();
        found
    }
}

/// Numbers of a list such as `0-3,8`.
#[must_use]
pub fn list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Bytes of a size such as `48K`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

fn name(files: &Files<'_>) -> Option<String> {
    let text = files.text(&files.0.join("proc/cpuinfo"))?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn cpus(files: &Files<'_>, folder: &Path, nodes: &[Node]) -> Vec<Cpu> {
    let online = files.list(&folder.join("online"));
    let known =
        files.numbered(folder, "cpu").into_iter().filter_map(|(cpu, path)| Some((u32::try_from(cpu).ok()?, path)));
    known
        .filter(|(cpu, _)| online.as_ref().is_none_or(|online| online.contains(cpu)))
        .map(|(cpu, path)| {
            let topology = path.join("topology");
            let id = |name: &str| files.number(&topology.join(name)).and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
            let threads = ["core_cpus_list", "thread_siblings_list"];
            Cpu {
                cpu,
                core: id("core_id"),
                package: id("physical_package_id"),
                node: nodes.iter().find(|node| node.cpus.contains(&cpu)).map_or(0, |node| node.node),
                threads: threads
                    .iter()
                    .find_map(|name| files.list(&topology.join(name)))
                    .filter(|threads| !threads.is_empty())
                    .unwrap_or_else(|| vec![cpu]),
            }
        })
        .collect()
}

fn caches(files: &Files<'_>, folder: &Path, threads: usize) -> Vec<Cache> {
    let mut caches: Vec<Cache> =
        files.numbered(folder, "index").iter().filter_map(|(_, path)| cache(files, path, threads)).collect();
    caches.sort_by_key(|cache| (cache.level, cache.holds));
    // What stands below a shared cache, or at the third level, is no core's own, however few cores a virtual machine has.
    let mut shared = false;
    for cache in &mut caches {
        shared |= cache.scope == Scope::Shared || cache.level >= 3;
        if shared {
            cache.scope = Scope::Shared;
        }
    }
    caches
}

fn cache(files: &Files<'_>, folder: &Path, threads: usize) -> Option<Cache> {
    let number =
        |name: &str| files.number(&folder.join(name)).and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let level = u32::try_from(files.number(&folder.join("level"))?).ok()?;
    let holds = match files.text(&folder.join("type"))?.as_str() {
        "Data" => Holds::Data,
        "Instruction" => Holds::Instruction,
        _ => Holds::Unified,
    };
    let sharing = files.list(&folder.join("shared_cpu_list")).unwrap_or_default();
    Some(Cache {
        name: cache_name(level, holds),
        level,
        holds,
        size_bytes: bytes(&files.text(&folder.join("size"))?)?,
        ways: number("ways_of_associativity"),
        line_bytes: number("coherency_line_size"),
        sets: number("number_of_sets"),
        scope: if sharing.len() > threads { Scope::Shared } else { Scope::Private },
        sharing,
    })
}

/// `L1d`, `L1i`, `L2`.
pub(crate) fn cache_name(level: u32, holds: Holds) -> String {
    let kind = match holds {
        Holds::Data => "d",
        Holds::Instruction => "i",
        Holds::Unified => "",
    };
    format!("L{level}{kind}")
}

fn nodes(files: &Files<'_>, folder: &Path) -> Vec<Node> {
    let nodes = files.numbered(folder, "node").into_iter();
    nodes
        .filter_map(|(node, path)| {
            let total = files.text(&path.join("meminfo")).and_then(|text| {
                let line = text.lines().find(|line| line.contains("MemTotal"))?.to_owned();
                line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()
            });
            let distances = files.text(&path.join("distance")).unwrap_or_default();
            Some(Node {
                node: u32::try_from(node).ok()?,
                cpus: files.list(&path.join("cpulist")).unwrap_or_default(),
                memory_bytes: total.unwrap_or(0) << 10,
                distances: distances.split_whitespace().filter_map(|distance| distance.parse().ok()).collect(),
            })
        })
        .collect()
}

fn pages(files: &Files<'_>, folder: &Path) -> PageSizes {
    let transparent = files.text(&folder.join("transparent_hugepage/enabled"));
    let chosen = transparent.as_deref().and_then(|text| text.split_once('[')?.1.split_once(']')).map(|(word, _)| word);
    let reserved = files.numbered(&folder.join("hugepages"), "hugepages-").into_iter().map(|(kib, path)| Reserved {
        page_bytes: kib << 10,
        total: files.number(&path.join("nr_hugepages")).unwrap_or(0),
        free: files.number(&path.join("free_hugepages")).unwrap_or(0),
    });
    PageSizes {
        base_bytes: crate::sys::pages::base_page() as u64,
        transparent: chosen.map(str::to_owned),
        reserved: reserved.collect(),
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;

//! Topologies from folders written for the test.

use super::*;

/// A folder tree: lines of `path = content`.
fn tree(lines: &[String]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for line in lines {
        let (path, content) = line.split_once(" = ").unwrap();
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
    root
}

/// Two packages of two cores with two hardware threads each, as a Xeon numbers them; CPU 7 is offline.
fn two_sockets() -> Vec<String> {
    let mut lines = vec![
        "proc/cpuinfo = processor : 0\nmodel name\t: A Processor @ 2 GHz".to_owned(),
        "sys/devices/system/cpu/online = 0-6".to_owned(),
        "sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never".to_owned(),
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 16".to_owned(),
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages = 9".to_owned(),
    ];
    for cpu in 0..8 {
        let (package, core) = (cpu % 4 / 2, cpu % 2);
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        lines.push(format!("{folder}/core_id = {core}"));
        lines.push(format!("{folder}/physical_package_id = {package}"));
        lines.push(format!("{folder}/core_cpus_list = {},{}", cpu % 4, cpu % 4 + 4));
    }
    for (index, level, kind, size, ways, sets, shared) in [
        (0, 1, "Data", "48K", 12, 64, "0,4"),
        (1, 1, "Instruction", "32K", 8, 64, "0,4"),
        (2, 2, "Unified", "2048K", 16, 2048, "0,4"),
        (3, 3, "Unified", "36608K", 11, 53248, "0-1,4-5"),
    ] {
        let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
        lines.push(format!("{folder}/level = {level}"));
        lines.push(format!("{folder}/type = {kind}"));
        lines.push(format!("{folder}/size = {size}"));
        lines.push(format!("{folder}/ways_of_associativity = {ways}"));
        lines.push(format!("{folder}/coherency_line_size = 64"));
        lines.push(format!("{folder}/number_of_sets = {sets}"));
        lines.push(format!("{folder}/shared_cpu_list = {shared}"));
    }
    for (node, cpus, distance) in [(0, "0-1,4-5", "10 21"), (1, "2-3,6-7", "21 10"), (2, "", "17 28")] {
        let folder = format!("sys/devices/system/node/node{node}");
        lines.push(format!("{folder}/cpulist = {cpus}"));
        lines.push(format!("{folder}/distance = {distance}"));
        lines.push(format!("{folder}/meminfo = Node {node} MemTotal:       1024 kB"));
    }
    lines
}

#[test]
fn a_machine_of_two_sockets() {
    let root = tree(&two_sockets());
    let topology = Topology::below(root.path());
    assert_eq!(topology.cpu, "A Processor @ 2 GHz");
    assert_eq!((topology.cpus.len(), topology.cores()), (7, 4));
    let last = &topology.cpus[6];
    assert_eq!((last.cpu, last.package, last.core, last.node, &last.threads[..]), (6, 1, 0, 1, &[2, 6][..]));
    let shapes: Vec<_> =
        topology.caches.iter().map(|cache| (cache.name.as_str(), cache.size_bytes, cache.scope)).collect();
    assert_eq!(
        shapes,
        [
            ("L1d", 48 << 10, Scope::Private),
            ("L1i", 32 << 10, Scope::Private),
            ("L2", 2 << 20, Scope::Private),
            ("L3", 36608 << 10, Scope::Shared),
        ]
    );
    assert_eq!((topology.line(), topology.last_size(), topology.size_of(2)), (64, 36608 << 10, Some(2 << 20)));
    let memory_only = &topology.nodes[2];
    assert_eq!(
        (memory_only.cpus.len(), memory_only.memory_bytes, &memory_only.distances[..]),
        (0, 1 << 20, &[17, 28][..])
    );
    assert_eq!(topology.pages.transparent.as_deref(), Some("madvise"));
    assert_eq!(topology.pages.reserved, [Reserved { page_bytes: 2 << 20, total: 16, free: 9 }]);
}

/// A virtual machine of one CPU: its third level has no second user, and is still no core's own.
#[test]
fn a_third_level_is_shared_however_few_share_it() {
    let lines: Vec<String> = [(1, "Data", "32K"), (2, "Unified", "1M"), (3, "Unified", "32M")]
        .iter()
        .flat_map(|(level, kind, size)| {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{level}");
            let fields = [("level", level.to_string()), ("type", (*kind).into()), ("size", (*size).into())];
            fields.map(|(name, value)| format!("{folder}/{name} = {value}"))
        })
        .collect();
    let root = tree(&lines);
    let scopes: Vec<_> = Topology::below(root.path()).caches.iter().map(|cache| cache.scope).collect();
    assert_eq!(scopes, [Scope::Private, Scope::Private, Scope::Shared]);
}

#[test]
fn a_machine_that_says_nothing() {
    let topology = Topology::below(Path::new("/nowhere"));
    assert!(topology.caches.is_empty() && topology.cpus.is_empty() && topology.nodes.is_empty());
    assert_eq!((topology.line(), topology.last_size()), (64, 0));
}

#[test]
fn lists_and_sizes() {
    assert_eq!(list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
    assert_eq!((list(""), list("3-1"), list("x")), (Some(vec![]), None, None));
    assert_eq!((bytes("48K"), bytes("1M"), bytes("7"), bytes("1Q")), (Some(48 << 10), Some(1 << 20), Some(7), None));
}

/// This machine, if Linux describes it: sysfs and the processor agree, or the difference is said.
#[test]
fn this_machine() {
    let topology = Topology::here();
    for cache in &topology.caches {
        assert!(cache.size_bytes > 0, "{cache:?}");
        if cache.sets > 0 && cache.ways > 0 {
            let product = u64::from(cache.sets) * u64::from(cache.ways) * u64::from(cache.line_bytes);
            assert!(product == cache.size_bytes || !topology.differences.is_empty() || cache.level >= 3, "{cache:?}");
        }
    }
}

//! A third opinion of the topology: what hwloc's `lstopo --of xml` wrote, here or on the machine that it was written on.
//!
//! hwloc reads sysfs as well, and mends what it knows to be wrong there, so where it differs it is worth a look. It is never
//! needed: nothing of it is linked.

use crate::topology::{Cache, Holds, Topology};
use roxmltree::{Document, Node, ParsingOptions};

/// Where a topology and hwloc's XML (version 2) do not say the same, in words.
///
/// # Errors
/// The text is no such XML; what is wrong.
pub fn differences(topology: &Topology, xml: &str) -> Result<Vec<String>, String> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" || !root.attribute("version").is_some_and(|it| it.starts_with("2.")) {
        return Err("it is no topology of hwloc 2; `lstopo --of xml FILE` writes one".to_owned());
    }
    let mut said = Vec::new();
    let mut differ = |what: String, sysfs: String, hwloc: String| {
        if sysfs != hwloc {
            said.push(format!("{what}: {sysfs} by sysfs, {hwloc} by hwloc"));
        }
    };

    let mut cpus: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.cpu).collect();
    cpus.sort_unstable();
    differ("CPUs".to_owned(), list(&cpus), list(&units(root)));

    let first = root
        .descendants()
        .find(|node| is(*node, "PU") && number(*node, "os_index") == cpus.first().map(|it| u64::from(*it)));
    let described: Vec<_> = first.iter().flat_map(|unit| unit.ancestors()).filter_map(cache).collect();
    let same = |a: &Cache, b: &Cache| (a.level, a.holds) == (b.level, b.holds);
    for known in &topology.caches {
        let name = &known.name;
        let Some(other) = described.iter().find(|other| same(known, other)) else {
            differ(name.clone(), "described".to_owned(), "not described".to_owned());
            continue;
        };
        differ(format!("{name}, bytes"), known.size_bytes.to_string(), other.size_bytes.to_string());
        differ(format!("{name}, bytes of a line"), known.line_bytes.to_string(), other.line_bytes.to_string());
        differ(format!("{name}, used by CPUs"), list(&known.sharing), list(&other.sharing));
        // 0 is not known.
        if known.ways != 0 && other.ways != 0 {
            differ(format!("{name}, ways"), known.ways.to_string(), other.ways.to_string());
        }
    }
    for other in described.iter().filter(|other| !topology.caches.iter().any(|known| same(known, other))) {
        differ(other.name.clone(), "not described".to_owned(), "described".to_owned());
    }

    let nodes: Vec<u32> = topology.nodes.iter().map(|node| node.node).collect();
    let described: Vec<_> = root.descendants().filter(|node| is(*node, "NUMANode")).collect();
    let numbers = |nodes: &[Node<'_, '_>]| nodes.iter().filter_map(|node| small(*node, "os_index")).collect::<Vec<_>>();
    let mut others = numbers(&described);
    others.sort_unstable();
    differ("memory nodes".to_owned(), list(&nodes), list(&others));
    for node in &topology.nodes {
        let other = described.iter().find(|other| small(**other, "os_index") == Some(node.node));
        if let Some(bytes) = other.and_then(|other| number(*other, "local_memory")) {
            differ(format!("bytes of node {}", node.node), node.memory_bytes.to_string(), bytes.to_string());
        }
    }
    Ok(said)
}

fn is(node: Node<'_, '_>, kind: &str) -> bool {
    node.tag_name().name() == "object" && node.attribute("type") == Some(kind)
}

fn number(node: Node<'_, '_>, name: &str) -> Option<u64> {
    node.attribute(name)?.parse().ok()
}

fn small(node: Node<'_, '_>, name: &str) -> Option<u32> {
    node.attribute(name)?.parse().ok()
}

/// Processing units at or below an object, ascending.
fn units(node: Node<'_, '_>) -> Vec<u32> {
    let units = node.descendants().filter(|node| is(*node, "PU"));
    let mut units: Vec<u32> = units.filter_map(|node| small(node, "os_index")).collect();
    units.sort_unstable();
    units
}

/// An object that is a cache.
fn cache(node: Node<'_, '_>) -> Option<Cache> {
    let kind = node.attribute("type")?;
    if !(kind.starts_with('L') && kind.ends_with("Cache")) {
        return None;
    }
    let holds = match node.attribute("cache_type")? {
        "1" => Holds::Data,
        "2" => Holds::Instruction,
        _ => Holds::Unified,
    };
    let level = small(node, "depth")?;
    let sharing = units(node);
    Some(Cache {
        name: crate::topology::cache_name(level, holds),
        level,
        holds,
        size_bytes: number(node, "cache_size")?,
        // -1, fully associative, is no number that sysfs has.
        ways: small(node, "cache_associativity").unwrap_or(0),
        line_bytes: small(node, "cache_linesize").unwrap_or(0),
        sets: 0,
        scope: crate::topology::Scope::Private,
        sharing,
    })
}

fn list(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Cpu, Scope};
    use std::path::Path;

    /// As lstopo 2.9 writes it on a virtual machine with two cores, what does not matter left out.
    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003">
    <info name="Backend" value="Linux"/>
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0" local_memory="25276510208"><page_type size="4096" count="6171023"/></object>
      <object type="L3Cache" os_index="0" cache_size="33554432" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
        <object type="L2Cache" os_index="0" cache_size="1048576" depth="2" cache_linesize="64" cache_associativity="8" cache_type="0">
          <object type="L1Cache" os_index="0" cache_size="32768" depth="1" cache_linesize="64" cache_associativity="8" cache_type="1">
            <object type="Core" os_index="0"><object type="PU" os_index="0"/></object>
          </object>
        </object>
        <object type="L2Cache" os_index="1" cache_size="1048576" depth="2" cache_linesize="64" cache_associativity="8" cache_type="0">
          <object type="Core" os_index="1"><object type="PU" os_index="1"/></object>
        </object>
      </object>
    </object>
  </object>
</topology>"#;

    fn topology() -> Topology {
        let mut topology = Topology::below(Path::new("/nowhere"));
        let cache = |level, holds, kib: u64, ways, sharing: &[u32]| Cache {
            name: crate::topology::cache_name(level, holds),
            level,
            holds,
            size_bytes: kib << 10,
            ways,
            line_bytes: 64,
            sets: 0,
            sharing: sharing.to_vec(),
            scope: Scope::Private,
        };
        topology.cpus = [0, 1].map(|cpu| Cpu { cpu, core: cpu, package: 0, node: 0, threads: vec![cpu] }).to_vec();
        topology.caches = vec![
            cache(1, Holds::Data, 32, 8, &[0]),
            cache(2, Holds::Unified, 1024, 8, &[0]),
            cache(3, Holds::Unified, 32 << 10, 16, &[0, 1]),
        ];
        let node =
            crate::topology::Node { node: 0, cpus: vec![0, 1], memory_bytes: 25_276_510_208, distances: vec![10] };
        topology.nodes = vec![node];
        topology
    }

    #[test]
    fn agreement_is_silent() {
        assert_eq!(differences(&topology(), XML), Ok(Vec::new()));
    }

    #[test]
    fn each_difference_is_said() {
        let mut topology = topology();
        topology.cpus.pop();
        topology.caches[0].ways = 12;
        topology.caches[2].sharing = vec![0];
        topology.caches[1].level = 4;
        topology.caches[1].name = "L4".to_owned();
        topology.nodes[0].memory_bytes = 1;
        assert_eq!(
            differences(&topology, XML).unwrap(),
            [
                "CPUs: 0 by sysfs, 0 1 by hwloc",
                "L1d, ways: 12 by sysfs, 8 by hwloc",
                "L4: described by sysfs, not described by hwloc",
                "L3, used by CPUs: 0 by sysfs, 0 1 by hwloc",
                "L2: not described by sysfs, described by hwloc",
                "bytes of node 0: 1 by sysfs, 25276510208 by hwloc",
            ]
        );
    }

    #[test]
    fn other_xml_is_refused() {
        for (text, word) in [("<a/>", "lstopo"), ("<topology version=\"1.0\"/>", "hwloc 2"), ("what", "")] {
            assert!(differences(&topology(), text).unwrap_err().contains(word), "{text}");
        }
    }
}

//! What `bf machine` prints for people.

use super::counters;
use crate::output::{counted, percent, table};
use bf_machine::{
    bandwidth::Point as Bandwidth,
    coherence::{self, Place},
    document::Document,
    latency::Point as Latency,
    stat::Cluster,
    topology::{Cache, Scope},
};
use bf_postproc::size;

/// A table with these headings.
fn titled<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    table(header.map(str::to_owned).to_vec(), rows.map(|row| row.to_vec()).collect())
}

/// What the last column says of a figure that did not settle: between which values its rounds changed, if between few.
fn unstable(stable: bool, clusters: &[Cluster]) -> String {
    let states = clusters.iter().map(|cluster| {
        let value = cluster.value;
        let value = if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") };
        format!("{value} in {} rounds", cluster.rounds)
    });
    match (stable, clusters) {
        (true, _) => String::new(),
        (false, []) => "unstable".to_owned(),
        (false, _) => format!("unstable: {}", states.collect::<Vec<_>>().join(", ")),
    }
}

fn bytes(bytes: usize) -> String {
    size::format(bytes as u64)
}

/// What was measured on.
fn front(document: &Document) -> String {
    let machine = &document.machine;
    let Some(clock) = machine.clock else { return String::new() };
    format!("  {}, CPUs {}, core at {:.2} GHz\n", machine.cpu, ranges(&machine.measured_on), clock.core_ghz)
}

/// `bf machine latency`
pub fn latency(document: &Document) -> String {
    let row = |point: &Latency| {
        [
            bytes(point.size_bytes),
            point.level.clone(),
            format!("{:.2}", point.ns),
            format!("{:.2}", point.spread_ns),
            format!("{:.1}", point.cycles),
            format!("{:.2}", point.median_ns),
            point.rounds.to_string(),
            bytes(point.page_bytes),
            unstable(point.stable, &point.clusters),
        ]
    };
    let header = ["size", "fits in", "ns", "± ns", "cycles", "median ns", "rounds", "pages", ""];
    front(document) + &titled(header, document.latency.iter().map(row)) + &steps(document)
}

/// Where the curve says that caches end.
fn steps(document: &Document) -> String {
    let mut text = String::new();
    for step in &document.steps {
        let (from, to) = (bytes(step.from_bytes), bytes(step.to_bytes));
        text += &format!("  step from {:.1} to {:.1} ns between {from} and {to}: ", step.before_ns, step.after_ns);
        text += &match (&step.cache, step.topology_bytes, step.agrees) {
            (Some(cache), Some(size), true) => format!("the end of {cache}, {} by the topology\n", size::format(size)),
            (Some(cache), Some(size), false) => format!(
                "the end of {cache}, though the topology says {}: the rest is others' or set apart\n",
                size::format(size)
            ),
            _ => "no cache of the topology ends there\n".to_owned(),
        };
    }
    text
}

/// `bf machine bandwidth`
pub fn bandwidth(document: &Document) -> String {
    let row = |point: &Bandwidth| {
        [
            point.operation.name().to_owned(),
            point.width_bits.to_string(),
            bytes(point.size_bytes),
            point.level.clone(),
            point.cpus.len().to_string(),
            format!("{:.1}", point.gb_per_s),
            format!("{:.1}", point.spread_gb_per_s),
            format!("{:.1}", point.bytes_per_cycle),
            point.rounds.to_string(),
            unstable(point.stable, &point.clusters),
        ]
    };
    let header = ["operation", "bits", "size", "fits in", "CPUs", "GB/s", "± GB/s", "bytes/cycle", "rounds", ""];
    front(document) + &titled(header, document.bandwidth.iter().map(row))
}

/// `bf machine coherence`
pub fn coherence(document: &Document) -> String {
    let figure = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{ns:.1}"));
    let rows = document.coherence.iter().map(|point| {
        [
            format!("{:?}", point.state),
            held_in(point),
            point
                .sharer
                .map_or(String::new(), |cpu| if cpu == point.reader { "evicted".into() } else { cpu.to_string() }),
            bytes(point.size_bytes),
            figure(point.ns),
            figure(point.spread_ns),
            format!("{:.1}", point.signature.load_ns),
            format!("{:.1}", point.signature.own_ns),
            format!("{:.1}", point.signature.flush_ns),
            if point.verified { "verified" } else { "not verified" }.to_owned(),
            unstable(point.stable, &point.clusters),
        ]
    });
    let header =
        ["state", "held in", "sharer", "size", "ns", "± ns", "owner: load", "atomic", "flush", "state seen", ""];
    front(document) + &titled(header, rows) + &doubts(&document.coherence)
}

/// What was wrong with the states that did not show themselves.
fn doubts(points: &[coherence::Point]) -> String {
    let doubt = |point: &coherence::Point| {
        format!("  {:?} in {}, {}: {}\n", point.state, held_in(point), bytes(point.size_bytes), point.verdict)
    };
    points.iter().filter(|point| !point.verified).map(doubt).collect()
}

fn held_in(point: &coherence::Point) -> String {
    match point.place {
        Place::Own => format!("own {}", point.level),
        Place::Other => format!("{} of CPU {}", point.level, point.owner),
        Place::Last => "shared cache".to_owned(),
        Place::Memory => "memory".to_owned(),
    }
}

/// `bf machine c2c`
pub fn c2c(document: &Document) -> String {
    let cpus = &document.machine.measured_on;
    let header = std::iter::once("ns one way".to_owned()).chain(cpus.iter().map(|cpu| format!("CPU {cpu}"))).collect();
    let row = |from: &u32| {
        let cell = |to: &u32| {
            let point = document.c2c.iter().find(|point| (point.from, point.to) == (*from, *to));
            point.map_or(String::new(), |point| {
                let state = unstable(point.stable, &point.clusters);
                format!("{:.1} ± {:.1} {state}", point.ns, point.spread_ns).trim_end().to_owned()
            })
        };
        std::iter::once(format!("CPU {from}")).chain(cpus.iter().map(cell)).collect()
    };
    front(document) + &table(header, cpus.iter().map(row).collect())
}

/// `bf machine numa`
pub fn numa(document: &Document) -> String {
    let rows = document.numa.iter().map(|point| {
        [
            format!("node {}, CPU {}", point.node, point.cpu),
            format!("node {}", point.memory_node),
            point.distance.map_or("-".to_owned(), |distance| distance.to_string()),
            format!("{:.1}", point.ns),
            format!("{:.1}", point.spread_ns),
            format!("{:.1}", point.gb_per_s),
            format!("{:.1}", point.spread_gb_per_s),
            point.placed.map_or("not known".to_owned(), |placed| percent(Some(placed))),
            unstable(point.stable, &[]),
        ]
    });
    let header = ["from", "memory of", "distance", "ns", "± ns", "GB/s", "± GB/s", "placed there", ""];
    front(document) + &titled(header, rows)
}

/// `bf machine loaded-latency`
pub fn loaded(document: &Document) -> String {
    let rows = document.loaded_latency.iter().map(|point| {
        [
            point.rest_cycles.map_or("idle".to_owned(), |cycles| cycles.to_string()),
            format!("{:.1}", point.gb_per_s),
            format!("{:.1}", point.ns),
            format!("{:.1}", point.spread_ns),
            point.samples.to_string(),
            unstable(point.stable, &[]),
        ]
    });
    let header = ["others' rest in cycles", "their GB/s", "ns", "± ns", "samples", ""];
    front(document) + &titled(header, rows)
}

/// `bf machine tlb`
pub fn tlb(document: &Document) -> String {
    let rows = document.tlb.iter().map(|point| {
        [
            bytes(point.page_bytes),
            point.pages.to_string(),
            bytes(point.pages * point.page_bytes),
            format!("{:.2}", point.ns),
            format!("{:.2}", point.dense_ns),
            format!("{:.2}", point.extra_ns()),
            format!("{:.2}", point.spread_ns),
            unstable(point.stable, &[]),
        ]
    });
    let header = ["page", "pages", "reach", "ns", "lines alone", "translation", "± ns", ""];
    front(document) + &titled(header, rows)
}

/// `bf machine throughput`
pub fn throughput(document: &Document) -> String {
    let rows = document.throughput.iter().map(|point| {
        [
            point.instruction.name().to_owned(),
            point.width_bits.to_string(),
            point.operand.to_owned(),
            format!("{:.2}", point.per_cycle),
            format!("{:.2}", point.giga_per_s),
            format!("{:.2}", point.spread_giga_per_s),
            format!("{:.1}", point.gflop_per_s),
            unstable(point.stable, &[]),
        ]
    });
    let header = ["instruction", "bits", "operand", "per cycle", "G/s", "± G/s", "GFLOP/s", ""];
    front(document) + &titled(header, rows)
}

/// `bf machine all`
pub fn all(document: &Document) -> String {
    let mut text = topology(document);
    let parts = [
        ("Latency", latency(document), document.latency.is_empty()),
        ("Bandwidth", bandwidth(document), document.bandwidth.is_empty()),
        ("Coherence states", coherence(document), document.coherence.is_empty()),
        ("Core to core", c2c(document), document.c2c.is_empty()),
        ("Memory nodes", numa(document), document.numa.is_empty()),
        ("Loaded latency", loaded(document), document.loaded_latency.is_empty()),
        ("Translation buffers", tlb(document), document.tlb.is_empty()),
        ("Throughput", throughput(document), document.throughput.is_empty()),
    ];
    for (title, part, empty) in parts {
        if !empty {
            text += &format!("\n{title}\n{part}");
        }
    }
    if let Some(report) = &document.counters {
        text += &format!("\nCounters\n{}", counters::text(report));
    }
    if !document.placement.is_empty() {
        text += &format!("\nPlacement\n{}", placement(document));
    }
    text
}

/// How far apart the CPUs were from part to part.
fn placement(document: &Document) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let others: Vec<u32> = document.machine.measured_on.iter().skip(1).copied().collect();
    for look in &document.placement {
        if rows.last().is_none_or(|row| row[0] != look.before) {
            rows.push(vec![look.before.clone()]);
        }
        rows.last_mut().expect("one was just pushed").push(format!("{:.1}", look.ns));
    }
    let to = others.iter().map(|cpu| format!("to CPU {cpu}"));
    let first = document.placement.first().map_or(0, |look| look.from);
    table(std::iter::once(format!("ns from CPU {first}, before")).chain(to).collect(), rows)
}

/// `bf machine topology`
pub fn topology(document: &Document) -> String {
    let machine = &document.machine;
    let mut text = format!("  processor   {}", machine.cpu);
    if let Some(identity) = &machine.identity {
        text += &format!(" ({}, family {}, model {:#x})", identity.vendor, identity.family, identity.model);
    }
    text += "\n";
    if let Some(hypervisor) = &machine.hypervisor {
        text += &format!("  hypervisor  {hypervisor}: what follows is what it shows its guest\n");
    }
    let mut packages: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.package).collect();
    packages.dedup();
    packages.sort_unstable();
    packages.dedup();
    let mut cores: Vec<_> = machine.cpus.iter().map(|cpu| (cpu.package, &cpu.threads)).collect();
    cores.sort();
    cores.dedup();
    text += &match machine.cpus.len() {
        0 => "  CPUs        none described\n".to_owned(),
        logical => format!(
            "  CPUs        {logical} logical, {}, {}\n",
            counted(cores.len() as u64, "core"),
            counted(packages.len() as u64, "package")
        ),
    };
    for node in &machine.nodes {
        let cpus = node.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let distances = node.distances.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let cpus = if cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {cpus}") };
        text += &format!(
            "  node {}      {}, {cpus}, distances {distances}\n",
            node.node,
            size::format(node.memory_bytes >> 20 << 20)
        );
    }
    text += &format!(
        "  pages       {}, transparent huge pages {}",
        size::format(machine.pages.base_bytes),
        machine.pages.transparent.as_deref().unwrap_or("none described")
    );
    for pages in &machine.pages.reserved {
        text += &format!(", {} of {} reserved and {} free", pages.total, size::format(pages.page_bytes), pages.free);
    }
    text += "\n";
    if document.caches.is_empty() {
        text += "  caches      none described\n";
        return text;
    }
    let header = ["cache", "size", "ways", "sets", "line", "scope", "used by CPUs"].map(str::to_owned).to_vec();
    text += &table(header, document.caches.iter().map(row).collect());
    for difference in &machine.differences {
        text += &format!("  sysfs and CPUID differ: {difference}\n");
    }
    if machine.differences.is_empty() {
        text += "  sysfs and CPUID agree\n";
    }
    let hwloc = machine.hwloc_differences.as_deref();
    for difference in hwloc.unwrap_or_default() {
        text += &format!("  sysfs and hwloc differ: {difference}\n");
    }
    if hwloc.is_some_and(<[String]>::is_empty) {
        text += "  sysfs and hwloc agree\n";
    }
    text
}

fn row(cache: &Cache) -> Vec<String> {
    vec![
        cache.name.clone(),
        size::format(cache.size_bytes),
        cache.ways.to_string(),
        cache.sets.to_string(),
        cache.line_bytes.to_string(),
        match cache.scope {
            Scope::Private => "private".to_owned(),
            Scope::Shared => "shared".to_owned(),
        },
        ranges(&cache.sharing),
    ]
}

/// Ascending numbers as Linux writes them: `0-3,8`.
fn ranges(numbers: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(number, next)| **number == *next).count();
        let part = match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", rest[run - 1]),
        };
        text += if text.is_empty() { "" } else { "," };
        text += &part;
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_machine::coherence::{Point, Signature, State};

    #[test]
    fn what_was_not_seen_is_called_as_in_the_table() {
        let point = |place, level: &str, verified| Point {
            state: State::S,
            place,
            level: level.to_owned(),
            reader: 0,
            owner: 1,
            sharer: None,
            size_bytes: 24 << 10,
            ns: None,
            spread_ns: None,
            stable: true,
            clusters: Vec::new(),
            signature: Signature { load_ns: 0.0, own_ns: 0.0, flush_ns: 0.0 },
            verified,
            verdict: "no".to_owned(),
        };
        let points =
            [point(Place::Own, "L1d", false), point(Place::Other, "L2", false), point(Place::Last, "L3", true)];
        assert_eq!(doubts(&points), "  S in own L1d, 24K: no\n  S in L2 of CPU 1, 24K: no\n");
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
    }
}

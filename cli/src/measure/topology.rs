//! The text of `bf machine topology`.

use crate::output::table;
use bf_machine::{
    document::Document,
    topology::{Cache, Scope},
};
use bf_postproc::size;

pub fn text(document: &Document) -> String {
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
    text +=
        &format!("  CPUs        {} logical, {} cores, {} packages\n", machine.cpus.len(), cores.len(), packages.len());
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
        machine.pages.transparent.as_deref().unwrap_or("not in this kernel")
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
pub fn ranges(numbers: &[u32]) -> String {
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

    #[test]
    fn lists_of_cpus() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
    }
}

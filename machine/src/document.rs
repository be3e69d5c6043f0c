//! What a machine was found to be: one document, of which a measurement fills its part. `docs/machine.md` has the schema.

use crate::{
    bandwidth, c2c, coherence,
    counters::trust::TrustReport,
    latency, loaded, numa, placement,
    session::{Clock, Session},
    steps::Step,
    throughput, tlb,
    topology::{Cache, Cpu, Node, PageSizes, Topology},
    witness::Identity,
};
use serde::Serialize;

/// The schema's name and version.
pub const SCHEMA: &str = "bf.machine/1";

/// Everything known of a machine. Parts that were not measured are left out.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The machine, its caches apart.
    pub machine: Machine,
    /// Caches of the first CPU, nearest first: what `bf query --machine` reads.
    pub caches: Vec<Cache>,
    /// Latency against size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<latency::Point>,
    /// Steps of the latency curve, beside the caches that should end there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Bandwidth against size, operation, width and number of threads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bandwidth: Vec<bandwidth::Point>,
    /// Latency by coherence state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coherence: Vec<coherence::Point>,
    /// From core to core.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub c2c: Vec<c2c::Point>,
    /// Memory of one node from the cores of another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<numa::Point>,
    /// Latency of memory while others read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loaded_latency: Vec<loaded::Point>,
    /// Latency against the number of pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tlb: Vec<tlb::Point>,
    /// Throughput of arithmetic instructions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throughput: Vec<throughput::Point>,
    /// Which counters may be believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<TrustReport>,
    /// How far apart the CPUs were before and after each part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<placement::Look>,
    /// What a reader should know, in sentences: what could not be measured, and what figures say against the topology.
    pub notes: Vec<String>,
}

/// A machine, its caches apart.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's own name.
    pub cpu: String,
    /// Vendor, family and model.
    pub identity: Option<Identity>,
    /// The hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// Logical CPUs.
    pub cpus: Vec<Cpu>,
    /// Memory nodes.
    pub nodes: Vec<Node>,
    /// Page sizes.
    pub pages: PageSizes,
    /// Where sysfs and CPUID differ.
    pub differences: Vec<String>,
    /// Where sysfs and an XML file of hwloc differ; `None` without such a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hwloc_differences: Option<Vec<String>>,
    /// The clock, when something was measured.
    pub clock: Option<Clock>,
    /// CPUs that were measured, in the order of their use.
    pub measured_on: Vec<u32>,
}

impl Document {
    /// Of a machine of which nothing is measured yet.
    #[must_use]
    pub fn new(topology: &Topology, session: Option<&Session>) -> Self {
        Self {
            schema: SCHEMA,
            machine: Machine {
                cpu: topology.cpu.clone(),
                identity: topology.identity.clone(),
                hypervisor: topology.hypervisor.clone(),
                cpus: topology.cpus.clone(),
                nodes: topology.nodes.clone(),
                pages: topology.pages.clone(),
                differences: topology.differences.clone(),
                hwloc_differences: None,
                clock: session.map(|session| session.clock),
                measured_on: session.map(|session| session.cpus.clone()).unwrap_or_default(),
            },
            caches: topology.caches.clone(),
            latency: Vec::new(),
            steps: Vec::new(),
            bandwidth: Vec::new(),
            coherence: Vec::new(),
            c2c: Vec::new(),
            numa: Vec::new(),
            loaded_latency: Vec::new(),
            tlb: Vec::new(),
            throughput: Vec::new(),
            counters: None,
            placement: Vec::new(),
            notes: Vec::new(),
        }
    }
}

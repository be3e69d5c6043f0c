//! Memory of one node from the cores of another: latency and bandwidth, node by node.
//!
//! One core of each node measures, alone. Its memory is asked of a node before it is touched, and looked up afterwards:
//! where the kernel had to take it from another node, the figure says how much of it.

use crate::{
    bandwidth::Work,
    error::Error,
    latency,
    session::{Session, pin},
    stat::Take,
    sys::{
        chain::Chain,
        clock::ticks,
        pages::Buffer,
        stream::{Kernel, Operation, widest},
    },
    topology::Topology,
};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// Cores of one node and memory of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The node whose core measures.
    pub node: u32,
    /// That core's CPU.
    pub cpu: u32,
    /// The node whose memory it is.
    pub memory_node: u32,
    /// Distance by the firmware, 10 being local (ACPI SLIT); `None` if it does not say.
    pub distance: Option<u32>,
    /// Bytes gone through.
    pub size_bytes: usize,
    /// Part of them that lies on that node, least of all rounds; `None` if the kernel does not say.
    pub placed: Option<f64>,
    /// Nanoseconds of a dependent load.
    pub ns: f64,
    /// Distance between the three rounds that agree best.
    pub spread_ns: f64,
    /// Billions of bytes a second that the core reads in order.
    pub gb_per_s: f64,
    /// Distance between the three rounds that agree best.
    pub spread_gb_per_s: f64,
    /// Whether three rounds of both agreed.
    pub stable: bool,
}

/// A pair to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    node: u32,
    cpu: u32,
    memory_node: u32,
    distance: Option<u32>,
    /// Bytes of that node's memory.
    memory_bytes: u64,
}

/// A node may be asked for this part of its memory.
const PART: u64 = 8;
/// Nanoseconds that a sample of bandwidth lasts at least, and samples of a round.
const SAMPLE_NS: f64 = 200e3;
const SAMPLES: usize = 12;

/// Each node with one of the CPUs that may be used, beside each node with memory.
fn pairs(topology: &Topology, cpus: &[u32]) -> Vec<Pair> {
    let with_cpu = topology.nodes.iter().filter_map(|node| {
        let cpu = cpus.iter().find(|cpu| node.cpus.contains(cpu))?;
        Some((node, *cpu))
    });
    let with_memory = || topology.nodes.iter().enumerate().filter(|(_, node)| node.memory_bytes > 0);
    let pair = |(node, cpu): (&crate::topology::Node, u32)| {
        let (number, distances) = (node.node, node.distances.clone());
        with_memory()
            .map(|(index, memory)| Pair {
                node: number,
                cpu,
                memory_node: memory.node,
                distance: distances.get(index).copied(),
                memory_bytes: memory.memory_bytes,
            })
            .collect::<Vec<_>>()
    };
    with_cpu.flat_map(pair).collect()
}

/// Measures every pair of nodes.
///
/// # Errors
/// There is only one node, or memory cannot be placed, or a CPU cannot be used.
pub fn matrix(session: &Session) -> Result<Vec<Point>, Error> {
    let pairs = pairs(&session.topology, &session.cpus);
    match &pairs[..] {
        [] | [_] => Err(Error::OneNode),
        pairs => measure(session, pairs),
    }
}

fn measure(session: &Session, pairs: &[Pair]) -> Result<Vec<Point>, Error> {
    let far = session.places().last().map_or(64 << 20, |(_, bytes)| *bytes);
    let bytes = |pair: &Pair| far.min(usize::try_from(pair.memory_bytes / PART).unwrap_or(far)).max(1 << 20);
    // Of each pair the least part of any buffer that lay where it should.
    let placed = Mutex::new(vec![None; pairs.len()]);
    let place = |pair: &Pair| -> Result<Buffer, Error> {
        pin(pair.cpu)?;
        let node = pair.memory_node;
        let buffer = Buffer::on_node(bytes(pair), session.pages, node).map_err(|errno| Error::Place { node, errno })?;
        let at = pairs.iter().position(|other| other == pair).unwrap_or(0);
        let least = &mut placed.lock().unwrap_or_else(PoisonError::into_inner)[at];
        let now = buffer.share_on(node);
        *least = match (*least, now) {
            (Some(least), Some(now)) => Some(f64::min(least, now)),
            (least, now) => least.or(now),
        };
        Ok(buffer)
    };
    let line = session.topology.line();
    let latencies = session.progress.within(0.0..0.7, || {
        session.settle_all(Take::Least, pairs, |pair| {
            Ok::<_, Error>(latency::round(session, &mut Chain::lines(place(pair)?, bytes(pair), line, 3)))
        })
    })?;
    let kernel = Kernel { operation: Operation::Read, width: widest() };
    let rates = session.progress.within(0.7..1.0, || {
        session.settle_all(Take::Least, pairs, |pair| {
            let work = Work::on(kernel, place(pair)?, bytes(pair));
            let passes = work.passes(session, SAMPLE_NS);
            let sample = || {
                let begin = ticks();
                work.run(passes);
                session.clock.ns(ticks().saturating_sub(begin)) / (passes as f64 * work.bytes())
            };
            Ok::<_, Error>((0..SAMPLES).map(|_| sample()).collect())
        })
    })?;
    pin(session.first())?;
    let placed = placed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let point = |(((pair, latency), rate), placed): (((&Pair, _), Option<crate::stat::Figure>), Option<f64>)| {
        let latency: Option<crate::stat::Figure> = latency;
        let (latency, rate) = (latency.expect("rounds have samples"), rate.expect("rounds have samples").rate(1.0));
        Point {
            node: pair.node,
            cpu: pair.cpu,
            memory_node: pair.memory_node,
            distance: pair.distance,
            size_bytes: bytes(pair),
            placed,
            ns: latency.value,
            spread_ns: latency.spread,
            gb_per_s: rate.value,
            spread_gb_per_s: rate.spread,
            stable: latency.stable && rate.stable,
        }
    };
    Ok(pairs.iter().zip(latencies).zip(rates).zip(placed).map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{session::allowed_cpus, stat::Effort};
    use nix::errno::Errno;
    use std::{fs, path::Path};

    /// Two sockets, and memory without processors beside the second (as CXL or HBM shows).
    fn tree(root: &Path) {
        let write = |path: &str, text: &str| {
            let path = root.join("sys/devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for cpu in 0..4 {
            write(&format!("cpu/cpu{cpu}/topology/core_id"), &cpu.to_string());
        }
        write("cpu/online", "0-3\n");
        for (node, cpus, kib, distances) in
            [(0, "0-1", 8 << 20, "10 21 31"), (1, "2-3", 8 << 20, "21 10 17"), (3, "", 16 << 20, "31 17 10")]
        {
            write(&format!("node/node{node}/cpulist"), cpus);
            write(&format!("node/node{node}/meminfo"), &format!("Node {node} MemTotal: {kib} kB\n"));
            write(&format!("node/node{node}/distance"), distances);
        }
    }

    #[test]
    fn every_node_with_cores_meets_every_node_with_memory() {
        let root = tempfile::tempdir().unwrap();
        tree(root.path());
        let topology = Topology::below(root.path());
        let seen = |cpus: &[u32]| -> Vec<_> {
            let pairs = pairs(&topology, cpus);
            pairs.iter().map(|pair| (pair.cpu, pair.node, pair.memory_node, pair.distance.unwrap())).collect()
        };
        let first = [(1, 0, 0, 10), (1, 0, 1, 21), (1, 0, 3, 31)];
        let second = [(2, 1, 0, 21), (2, 1, 1, 10), (2, 1, 3, 17)];
        assert_eq!(seen(&[1, 0, 2, 3]), [first, second].concat());
        assert_eq!(seen(&[1]), first, "a process that may use one node reaches the memory of all");
        assert_eq!(seen(&[9]), []);
    }

    #[test]
    fn one_node_has_nothing_remote() {
        let mut session = Session::begin(&[]).unwrap();
        session.topology.nodes.truncate(1);
        assert_eq!(matrix(&session), Err(Error::OneNode));
    }

    /// The one node of this machine, as if it were one of several.
    #[test]
    fn memory_lies_where_it_was_asked_for() {
        let cpu = allowed_cpus()[0];
        let mut session = Session::begin(&[cpu]).unwrap();
        session.effort = Effort { rounds: 3, tolerance: 0.04 };
        let Some(mut pair) = pairs(&session.topology, &[cpu]).into_iter().find(|pair| pair.distance == Some(10)) else {
            return;
        };
        pair.memory_bytes = 32 << 20;
        match measure(&session, &[pair]) {
            Ok(points) => {
                let [point] = &points[..] else { panic!("one pair: {points:?}") };
                assert!(point.ns > 0.0 && point.gb_per_s > 0.0 && point.size_bytes == 4 << 20, "{point:?}");
                assert!(point.placed.is_none_or(|placed| placed > 0.9), "{point:?}");
            }
            // Containers may forbid it.
            Err(error) => assert!(matches!(error, Error::Place { errno: Errno::EPERM | Errno::ENOSYS, .. }), "{error}"),
        }
        pair.memory_node = 1000;
        assert!(matches!(measure(&session, &[pair]), Err(Error::Place { node: 1000, .. })));
    }
}

//! Steps of a latency curve: where it says a cache ends, found without knowing what caches there should be.

use crate::{latency::Point, topology::Topology};
use serde::Serialize;

/// A step of the staircase beside the cache that should end there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The cache that ends here by the topology; `None` if none is near.
    pub cache: Option<String>,
    /// Its size by the topology.
    pub topology_bytes: Option<u64>,
    /// Greatest size before the step.
    pub from_bytes: usize,
    /// Least size after it.
    pub to_bytes: usize,
    /// Nanoseconds before.
    pub before_ns: f64,
    /// Nanoseconds after.
    pub after_ns: f64,
    /// Whether the cache's size lies within the step, half a doubling allowed on either side.
    pub agrees: bool,
}

/// Latency of neighbouring sizes that differ by this factor belong to a step.
const RISE: f64 = 1.25;
/// A step's whole rise.
const STEP: f64 = 1.5;
/// Half a doubling.
const NEAR: f64 = std::f64::consts::SQRT_2;

/// Steps of a curve whose points ascend in size.
#[must_use]
pub fn steps(topology: &Topology, points: &[Point]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut from = 0;
    for at in 1..points.len() {
        let rises = |at: usize| points.get(at).is_some_and(|point| point.ns > points[at - 1].ns * RISE);
        if !rises(at) {
            from = at;
        } else if !rises(at + 1) {
            if points[at].ns > points[from].ns * STEP {
                steps.push(step(points, from, at));
            }
            from = at;
        }
    }
    name(topology, &mut steps);
    steps
}

fn step(points: &[Point], from: usize, to: usize) -> Step {
    Step {
        cache: None,
        topology_bytes: None,
        from_bytes: points[from].size_bytes,
        to_bytes: points[to].size_bytes,
        before_ns: points[from].ns,
        after_ns: points[to].ns,
        agrees: false,
    }
}

/// Gives each step its cache: all in order if there are as many, else each the nearest within a factor of two.
fn name(topology: &Topology, steps: &mut [Step]) {
    let caches: Vec<_> = topology.data_caches().map(|cache| (cache.name.clone(), cache.size_bytes)).collect();
    let one_to_one = caches.len() == steps.len();
    for (index, step) in steps.iter_mut().enumerate() {
        let ratio = |size: u64| (size as f64 / step.from_bytes as f64).log2().abs();
        let nearest =
            caches.iter().min_by(|a, b| ratio(a.1).total_cmp(&ratio(b.1))).filter(|cache| ratio(cache.1) <= 1.0);
        let cache = if one_to_one { caches.get(index) } else { nearest };
        if let Some((name, size)) = cache {
            let within = step.from_bytes as f64 / NEAR..=step.to_bytes as f64 * NEAR;
            step.agrees = within.contains(&(*size as f64));
            step.cache = Some(name.clone());
            step.topology_bytes = Some(*size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Cache, Holds, Scope};

    fn points(curve: &[(usize, f64)]) -> Vec<Point> {
        let point = |&(kib, ns): &(usize, f64)| Point {
            size_bytes: kib << 10,
            level: String::new(),
            ns,
            spread_ns: 0.0,
            min_ns: ns,
            median_ns: ns,
            cycles: 0.0,
            rounds: 3,
            stable: true,
            clusters: Vec::new(),
            page_bytes: 4096,
            source: "",
        };
        curve.iter().map(point).collect()
    }

    fn topology(sizes: &[u64]) -> Topology {
        let mut topology = Topology::below(std::path::Path::new("/nowhere"));
        let cache = |(index, kib): (usize, &u64)| Cache {
            name: format!("L{}", index + 1),
            level: index as u32 + 1,
            holds: Holds::Unified,
            size_bytes: kib << 10,
            ways: 8,
            line_bytes: 64,
            sets: 0,
            sharing: vec![0],
            scope: Scope::Private,
        };
        topology.caches = sizes.iter().enumerate().map(cache).collect();
        topology
    }

    /// Measured on a virtual machine whose third cache is said to have 32 MiB, most of which others use.
    const MEASURED: [(usize, f64); 13] = [
        (16, 1.08),
        (24, 1.08),
        (32, 1.16),
        (48, 3.80),
        (256, 3.80),
        (512, 4.73),
        (1024, 5.50),
        (1536, 11.49),
        (2048, 12.73),
        (3072, 13.90),
        (4096, 19.31),
        (6144, 141.23),
        (65536, 165.0),
    ];

    #[test]
    fn a_cache_that_is_smaller_than_it_says_is_found_out() {
        let steps = steps(&topology(&[32, 1024, 32 << 10]), &points(&MEASURED));
        let seen: Vec<_> = steps.iter().map(|step| (step.from_bytes >> 10, step.to_bytes >> 10, step.agrees)).collect();
        assert_eq!(seen, [(32, 48, true), (1024, 1536, true), (3072, 6144, false)]);
        assert_eq!(steps[2].topology_bytes, Some(32 << 20));
    }

    #[test]
    fn a_step_that_no_cache_explains_has_no_name() {
        let steps = steps(&topology(&[32]), &points(&MEASURED));
        let names: Vec<_> = steps.iter().map(|step| step.cache.as_deref()).collect();
        assert_eq!(names, [Some("L1"), None, None]);
    }

    #[test]
    fn a_flat_curve_has_no_steps() {
        assert!(steps(&topology(&[32]), &points(&[(4, 1.0), (64, 1.1), (1024, 1.2)])).is_empty());
        assert!(steps(&topology(&[]), &[]).is_empty());
    }
}

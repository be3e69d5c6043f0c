//! The working sets of a run: its miss ratio in fully associative caches of growing size, and where it falls.

use crate::{
    error::QueryError,
    query::line_sizes,
    size,
    spec::Scope,
    spec::Ways,
    sweep::{Sweep, sweep},
};
use bf_profile::Profile;
use serde::Serialize;

/// A drop of the miss ratio counts as a knee if it is at least this part of all references...
const LEAST_DROP: f64 = 0.005;
/// ... and at least this part of the misses there were.
const LEAST_PART: f64 = 0.2;

/// Miss ratio of a fully associative cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Bytes.
    pub size_bytes: u64,
    /// Misses by references.
    pub miss_ratio: f64,
}

/// A working set: once a cache holds it, the misses fall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// The greatest power of two at which nothing of it is held yet, bytes.
    pub from_bytes: u64,
    /// The least power of two at which the fall is complete, bytes.
    pub size_bytes: u64,
    /// Miss ratio of a cache too small for it.
    pub above: f64,
    /// Miss ratio of a cache that holds it.
    pub below: f64,
}

/// Miss ratios of fully associative caches at powers of two, from one line up to the size where only cold misses are
/// left; empty without references. With tags only of references under these.
///
/// # Errors
/// The profile holds no counts, or no such tag.
pub fn curve(profile: &Profile, tags: &[String]) -> Result<(u32, Vec<CurvePoint>), QueryError> {
    let available = line_sizes(profile);
    let line = if available.contains(&64) { 64 } else { available.first().copied().unwrap_or(64) };
    let sizes = (0..40).map(|bits| u64::from(line) << bits).take_while(|&size| size <= size::MOST).collect();
    let question = Sweep {
        sizes,
        ways: vec![Ways::Full],
        lines: vec![Some(line)],
        scope: Scope::Private,
        hashed: false,
        tags: tags.to_vec(),
    };
    let mut points = Vec::new();
    for point in sweep(profile, &question)?.points {
        let Some(miss_ratio) = point.miss_ratio else { break };
        points.push(CurvePoint { size_bytes: point.size_bytes, miss_ratio });
        if point.misses == point.cold {
            break;
        }
    }
    Ok((line, points))
}

/// The steepest falls of a curve, by size: neighbouring steps down count as one knee.
#[must_use]
pub fn knees(curve: &[CurvePoint]) -> Vec<Knee> {
    let falls = |pair: &[CurvePoint]| {
        let drop = pair[0].miss_ratio - pair[1].miss_ratio;
        drop >= LEAST_DROP && drop >= LEAST_PART * pair[0].miss_ratio
    };
    let mut knees: Vec<Knee> = Vec::new();
    let mut previous = false;
    for pair in curve.windows(2) {
        let now = falls(pair);
        if now {
            let (from_bytes, size_bytes, below) = (pair[0].size_bytes, pair[1].size_bytes, pair[1].miss_ratio);
            match knees.last_mut() {
                Some(knee) if previous => *knee = Knee { size_bytes, below, ..*knee },
                _ => knees.push(Knee { from_bytes, size_bytes, above: pair[0].miss_ratio, below }),
            }
        }
        previous = now;
    }
    knees
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Options, replay};

    #[test]
    fn a_loop_s_working_set_is_a_knee() {
        // Ten passes over 16 lines.
        let text: String = (0..160).map(|i| format!("r {:x} 8\n", i % 16 * 64)).collect();
        let profile = replay(text.as_bytes(), "t", 0, &Options::default()).unwrap().profile;
        let (line, points) = curve(&profile, &[]).unwrap();
        assert_eq!((line, points.len(), points[0].miss_ratio), (64, 5, 1.0));
        assert_eq!(knees(&points), [Knee { from_bytes: 512, size_bytes: 1024, above: 1.0, below: 0.1 }]);
    }

    #[test]
    fn neighbouring_falls_are_one_knee() {
        let points = [1.0, 0.6, 0.3, 0.3, 0.299, 0.1].iter().enumerate();
        let points: Vec<_> = points.map(|(i, &miss_ratio)| CurvePoint { size_bytes: 64 << i, miss_ratio }).collect();
        let sizes: Vec<_> = knees(&points).iter().map(|knee| knee.size_bytes).collect();
        assert_eq!(sizes, [256, 2048]);
    }
}

//! What the processor itself says of its caches, beside what sysfs says. A virtual machine's two accounts may differ: the
//! hypervisor makes up CPUID, and the kernel what CPUID does not say.

use crate::topology::{Cache, Holds, Scope, Topology};
use serde::Serialize;

/// Which processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// As the processor spells it: `GenuineIntel`, `AuthenticAMD`; on aarch64 the implementer's number.
    pub vendor: String,
    /// Family; on aarch64 0.
    pub family: u32,
    /// Model; on aarch64 the part number.
    pub model: u32,
    /// Stepping; on aarch64 the revision.
    pub stepping: u32,
}

/// A cache by the processor's own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// 1 for the nearest.
    pub level: u32,
    /// What it holds.
    pub holds: Holds,
    /// Bytes.
    pub size_bytes: u64,
    /// Ways.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// At most how many logical CPUs share it.
    pub sharing: u32,
}

/// Adds the processor's account to that of sysfs: identity, hypervisor, caches that sysfs lacks, differences.
pub(crate) fn add(topology: &mut Topology) {
    #[cfg(target_arch = "x86_64")]
    {
        let cpuid = raw_cpuid::CpuId::new();
        topology.identity = x86::identity(&cpuid);
        topology.hypervisor = x86::hypervisor(&cpuid);
        let claims = x86::claims(&cpuid);
        topology.differences = compare(&topology.caches, &claims);
        if topology.caches.is_empty() {
            topology.caches = stand_in(&claims);
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        topology.identity = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| arm_identity(&text));
    }
}

/// The caches by CPUID alone, which does not say who shares them: more CPUs than use the nearest one are several cores.
fn stand_in(claims: &[Claim]) -> Vec<Cache> {
    let threads = claims.iter().map(|claim| claim.sharing).min().unwrap_or(1);
    let cache = |claim: &Claim| Cache {
        name: crate::topology::cache_name(claim.level, claim.holds),
        level: claim.level,
        holds: claim.holds,
        size_bytes: claim.size_bytes,
        ways: claim.ways,
        line_bytes: claim.line_bytes,
        sets: u32::try_from(claim.size_bytes / u64::from((claim.ways * claim.line_bytes).max(1))).unwrap_or(0),
        sharing: Vec::new(),
        scope: if claim.sharing > threads || claim.level >= 3 { Scope::Shared } else { Scope::Private },
    };
    let mut caches: Vec<_> = claims.iter().map(cache).collect();
    caches.sort_by_key(|cache| (cache.level, cache.holds));
    caches
}

/// Where two accounts of the same caches differ, in words.
#[must_use]
pub fn compare(caches: &[Cache], claims: &[Claim]) -> Vec<String> {
    let mut said = Vec::new();
    for claim in claims {
        let name = crate::topology::cache_name(claim.level, claim.holds);
        let Some(cache) = caches.iter().find(|cache| (cache.level, cache.holds) == (claim.level, claim.holds)) else {
            said.push(format!("{name}: CPUID describes it, sysfs does not"));
            continue;
        };
        let mut differ = |what: &str, sysfs: u64, cpuid: u64| {
            if sysfs != cpuid {
                said.push(format!("{name}: {what} {sysfs} by sysfs, {cpuid} by CPUID"));
            }
        };
        differ("size in bytes", cache.size_bytes, claim.size_bytes);
        differ("ways", cache.ways.into(), claim.ways.into());
        differ("line size", cache.line_bytes.into(), claim.line_bytes.into());
        if cache.sharing.len() > claim.sharing as usize {
            differ("logical CPUs", cache.sharing.len() as u64, claim.sharing.into());
        }
    }
    for cache in caches {
        let there = claims.iter().any(|claim| (claim.level, claim.holds) == (cache.level, cache.holds));
        if !there && !claims.is_empty() {
            said.push(format!("{}: sysfs describes it, CPUID does not", cache.name));
        }
    }
    said
}

/// The first processor of `/proc/cpuinfo` in Arm's terms.
#[cfg(any(test, target_arch = "aarch64"))]
fn arm_identity(cpuinfo: &str) -> Option<Identity> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let number = |name: &str| {
        let text = field(name)?;
        text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())
    };
    Some(Identity {
        vendor: field("CPU implementer")?,
        family: 0,
        model: number("CPU part")?,
        stepping: number("CPU revision").unwrap_or(0),
    })
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Claim, Identity};
    use crate::topology::Holds;
    use raw_cpuid::{CacheType, CpuId, CpuIdReader, Hypervisor};

    pub fn identity<R: CpuIdReader>(cpuid: &CpuId<R>) -> Option<Identity> {
        let vendor = cpuid.get_vendor_info()?.as_str().to_owned();
        let features = cpuid.get_feature_info()?;
        Some(Identity {
            vendor,
            family: features.family_id().into(),
            model: features.model_id().into(),
            stepping: features.stepping_id().into(),
        })
    }

    pub fn hypervisor<R: CpuIdReader>(cpuid: &CpuId<R>) -> Option<String> {
        Some(match cpuid.get_hypervisor_info()?.identify() {
            Hypervisor::Unknown(..) => "unknown hypervisor".to_owned(),
            known => format!("{known:?}"),
        })
    }

    pub fn claims<R: CpuIdReader>(cpuid: &CpuId<R>) -> Vec<Claim> {
        let Some(caches) = cpuid.get_cache_parameters() else { return Vec::new() };
        let claim = |cache: raw_cpuid::CacheParameter| {
            let holds = match cache.cache_type() {
                CacheType::Data => Holds::Data,
                CacheType::Instruction => Holds::Instruction,
                CacheType::Unified => Holds::Unified,
                _ => return None,
            };
            let partitions = cache.physical_line_partitions();
            let bytes = cache.associativity() * partitions * cache.coherency_line_size() * cache.sets();
            Some(Claim {
                level: cache.level().into(),
                holds,
                size_bytes: bytes as u64,
                ways: u32::try_from(cache.associativity()).ok()?,
                line_bytes: u32::try_from(cache.coherency_line_size()).ok()?,
                sharing: u32::try_from(cache.max_cores_for_cache()).ok()?,
            })
        };
        caches.filter_map(claim).collect()
    }
}

#[cfg(test)]
#[path = "witness_tests.rs"]
mod tests;

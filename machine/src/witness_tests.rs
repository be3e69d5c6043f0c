//! What two witnesses say of the same machine.

use super::*;

fn cache(level: u32, holds: Holds, size_bytes: u64, ways: u32, sharing: &[u32]) -> Cache {
    let name = crate::topology::cache_name(level, holds);
    let scope = Scope::Private;
    Cache { name, level, holds, size_bytes, ways, line_bytes: 64, sets: 0, sharing: sharing.to_vec(), scope }
}

fn claim(level: u32, holds: Holds, size_bytes: u64, ways: u32, sharing: u32) -> Claim {
    Claim { level, holds, size_bytes, ways, line_bytes: 64, sharing }
}

#[test]
fn agreement_is_silent_and_room_for_more_cpus_is_no_difference() {
    let caches = [cache(1, Holds::Data, 32 << 10, 8, &[0]), cache(3, Holds::Unified, 32 << 20, 16, &[0, 1])];
    let claims = [claim(1, Holds::Data, 32 << 10, 8, 2), claim(3, Holds::Unified, 32 << 20, 16, 16)];
    assert!(compare(&caches, &claims).is_empty());
    assert!(compare(&caches, &[]).is_empty());
}

#[test]
fn each_difference_is_said() {
    let caches = [cache(1, Holds::Data, 32 << 10, 8, &[0]), cache(2, Holds::Unified, 1 << 20, 8, &[0, 1])];
    let claims = [claim(1, Holds::Data, 48 << 10, 12, 2), claim(3, Holds::Unified, 16 << 20, 16, 16)];
    let said = compare(&caches, &claims);
    assert_eq!(
        said,
        [
            "L1d: size in bytes 32768 by sysfs, 49152 by CPUID",
            "L1d: ways 8 by sysfs, 12 by CPUID",
            "L3: CPUID describes it, sysfs does not",
            "L2: sysfs describes it, CPUID does not",
        ]
    );
    let few = compare(&caches[1..], &[claim(2, Holds::Unified, 1 << 20, 8, 1)]);
    assert_eq!(few, ["L2: logical CPUs 2 by sysfs, 1 by CPUID"]);
}

#[test]
fn cpuid_stands_in_for_sysfs() {
    let claims = [
        claim(2, Holds::Unified, 1 << 20, 8, 2),
        claim(1, Holds::Data, 48 << 10, 12, 2),
        claim(3, Holds::Unified, 32 << 20, 16, 16),
    ];
    let caches = stand_in(&claims);
    let seen: Vec<_> = caches.iter().map(|cache| (cache.name.as_str(), cache.sets, cache.scope)).collect();
    assert_eq!(seen, [("L1d", 64, Scope::Private), ("L2", 2048, Scope::Private), ("L3", 32768, Scope::Shared)]);
    assert!(stand_in(&[]).is_empty());
}

#[test]
fn an_arm_core_by_its_part_number() {
    let text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\nCPU revision\t: 1\n";
    let identity = arm_identity(text).unwrap();
    assert_eq!((identity.vendor.as_str(), identity.model, identity.stepping), ("0x41", 0xd40, 1));
    assert_eq!(arm_identity("model name : x"), None);
}

#[cfg(target_arch = "x86_64")]
mod cpuid {
    use super::super::x86::{claims, hypervisor, identity};
    use super::*;
    use raw_cpuid::{CpuId, CpuIdReader, CpuIdResult};

    /// Leaves as a processor answered them: `leaf.subleaf eax ebx ecx edx`, hexadecimal.
    #[derive(Clone)]
    struct Recorded(&'static str);

    impl CpuIdReader for Recorded {
        fn cpuid2(&self, leaf: u32, subleaf: u32) -> CpuIdResult {
            let key = format!("{leaf:x}.{subleaf:x}");
            let words = self.0.lines().map(str::split_whitespace).find(|words| words.clone().next() == Some(&key));
            let mut words = words.into_iter().flatten().skip(1).map(|word| u32::from_str_radix(word, 16).unwrap());
            let mut next = || words.next().unwrap_or(0);
            CpuIdResult { eax: next(), ebx: next(), ecx: next(), edx: next() }
        }
    }

    /// A Genoa (family 25, model 17) virtual machine with two CPUs, trimmed to the leaves in question.
    const ZEN_4: &str = include_str!("../fixtures/cpuid-zen4-vm.txt");

    #[test]
    fn a_recorded_processor() {
        let cpuid = CpuId::with_cpuid_reader(Recorded(ZEN_4));
        let identity = identity(&cpuid).unwrap();
        assert_eq!((identity.vendor.as_str(), identity.family, identity.model), ("AuthenticAMD", 25, 17));
        assert_eq!(hypervisor(&cpuid).as_deref(), Some("KVM"));
        let shapes: Vec<_> =
            claims(&cpuid).iter().map(|claim| (claim.level, claim.holds, claim.size_bytes, claim.ways)).collect();
        assert_eq!(
            shapes,
            [
                (1, Holds::Data, 32 << 10, 8),
                (1, Holds::Instruction, 32 << 10, 8),
                (2, Holds::Unified, 1 << 20, 8),
                (3, Holds::Unified, 32 << 20, 16),
            ]
        );
    }
}

//! Time in ticks of the processor's constant-rate counter, and work whose length in cycles is known.

use std::arch::asm;

/// Ticks of the time-stamp counter, read after everything before it is done and before anything after it begins
/// (Intel SDM, RDTSCP: it waits for earlier instructions; LFENCE keeps later ones back).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter into registers that are named here; needs RDTSCP, which every x86-64 of interest has and
    // `doctor` checks.
    unsafe { asm!("rdtscp", "lfence", out("rax") low, out("rdx") high, out("rcx") _, options(nostack)) };
    high << 32 | low
}

/// Ticks of the virtual counter (Arm ARM, CNTVCT_EL0), between barriers.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that Linux lets user programs read.
    unsafe { asm!("dsb sy", "isb", "mrs {0}, cntvct_el0", "isb", out(reg) ticks, options(nostack)) };
    ticks
}

/// Additions per turn of [`spin_cycles`].
const CHAINED: u64 = 32;

/// Runs a chain of about `cycles` dependent additions, each of which takes one cycle on every processor in question, and
/// returns how many it ran.
pub fn spin_cycles(cycles: u64) -> u64 {
    let turns = cycles.div_ceil(CHAINED).max(1);
    // SAFETY: only registers named here change.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "add {sum}, {one}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _, one = in(reg) 1u64, turns = inout(reg) turns => _, options(nostack, nomem)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "add {sum}, {sum}, {one}",
            ".endr",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            sum = inout(reg) 0u64 => _, one = in(reg) 1u64, turns = inout(reg) turns => _, options(nostack, nomem)
        );
    }
    turns * CHAINED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_spinning_does_what_it_says() {
        let before = ticks();
        assert_eq!(spin_cycles(1), 32);
        assert_eq!(spin_cycles(65), 96);
        assert!(ticks() > before);
    }
}

//! Time as it goes by in the process.

/// Nanoseconds since some moment. Without a state of its own: a signal handler may ask, too.
pub fn now() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY:
    // - room for the answer; the clock is one that every Linux has
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

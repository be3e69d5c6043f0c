//! CPU time of the calling thread: other programs on the machine make a run longer, but hardly make it compute more.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CPU time, user and system, that this thread has used while `work` ran.
pub fn nanoseconds(work: impl FnOnce()) -> f64 {
    let begin = now(ClockId::ThreadCPUTime);
    work();
    now(ClockId::ThreadCPUTime) - begin
}

/// What a clock shows, ns.
pub fn now(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

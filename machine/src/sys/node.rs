//! Memory on a certain node: asked of the kernel before pages are touched, and looked up afterwards.

use nix::{errno::Errno, libc};
use std::{ffi::c_void, ptr};

/// From a node if it has free memory, else from others (`set_mempolicy(2)`, `MPOL_PREFERRED`): never a killed process.
const PREFERRED: libc::c_ulong = 1;
/// Words of a set of nodes: as many as Linux can have.
const WORDS: usize = 1024 / libc::c_ulong::BITS as usize;
/// Pages looked up at once.
const LOOKED_UP: usize = 512;

/// Lets the pages of a range that were not touched yet come from `node`.
///
/// # Errors
/// There is no such node, the kernel knows no nodes, or a container forbids it (`EPERM`).
pub(super) fn prefer(start: usize, bytes: usize, node: u32) -> Result<(), Errno> {
    let mut nodes = [0 as libc::c_ulong; WORDS];
    let word = nodes.get_mut((node / libc::c_ulong::BITS) as usize).ok_or(Errno::EINVAL)?;
    *word = 1 << (node % libc::c_ulong::BITS);
    let most = (WORDS * libc::c_ulong::BITS as usize) as libc::c_ulong;
    let flags: libc::c_ulong = 0;
    // SAFETY:
    // - the kernel reads `most` bits behind `nodes`, which live through the call;
    // - a policy changes where pages come from, never what is in them.
    let done = unsafe { libc::syscall(libc::SYS_mbind, start, bytes, PREFERRED, nodes.as_ptr(), most, flags) };
    Errno::result(done).map(drop)
}

/// Which part of a touched range lies on `node`, by some of its pages.
///
/// # Errors
/// The kernel does not say.
pub(super) fn share(start: usize, bytes: usize, page: usize, node: u32) -> Result<f64, Errno> {
    let count = (bytes / page).clamp(1, LOOKED_UP);
    let step = (bytes / page / count).max(1) * page;
    let pages: Vec<*mut c_void> = (0..count).map(|at| ptr::without_provenance_mut(start + at * step)).collect();
    let mut status = vec![-1 as libc::c_int; count];
    let (process, move_to): (libc::pid_t, *const libc::c_int) = (0, ptr::null());
    let flags: libc::c_int = 0;
    // SAFETY:
    // - the kernel reads `count` addresses behind `pages` and writes as many answers behind `status`; both live through it;
    // - without nodes to move to, nothing is moved, and the addresses themselves are only looked up.
    let done = unsafe {
        libc::syscall(libc::SYS_move_pages, process, count, pages.as_ptr(), move_to, status.as_mut_ptr(), flags)
    };
    Errno::result(done)?;
    let there = status.iter().filter(|status| u32::try_from(**status) == Ok(node)).count();
    Ok(there as f64 / count as f64)
}

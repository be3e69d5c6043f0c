//! Ways out of a program that pass by `exit`: `_exit`, `daemon`, and the `exec` family. Each writes the profile first.
//!
//! `posix_spawn`, `system` and `popen` need nothing: the child has no profile of its own to write before it becomes
//! another program, and that one knows its descent by itself.
//!
//! The variadic ones stand in `shim.c`. rustc exports only Rust symbols from a shared library, hence the jumps.

use crate::quiet::Quiet;
use crate::{memory, process};
use bf_profile::EndReason;
use std::ffi::{CStr, c_char, c_int};

type Vector = *const *const c_char;

unsafe extern "C" {
    static environ: Vector;
}

/// Writes the profile, if this process has one.
fn write(reason: &EndReason) {
    let _quiet = Quiet::enter();
    memory::run(|| process::end(reason));
}

fn exit_now(status: c_int) -> ! {
    write(&EndReason::QuickExit);
    loop {
        // SAFETY:
        // - takes no pointers
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// `execve` with the profile written.
///
/// # Safety
///
/// As for `execve`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bf_rt_execve(path: *const c_char, argv: Vector, envp: Vector) -> c_int {
    write(&EndReason::Exec);
    // SAFETY:
    // - the caller's obligation
    unsafe { libc::syscall(libc::SYS_execve, path, argv, envp) as c_int }
}

/// `execvpe` with the profile written: the directories of `PATH` in turn, a file that is no program goes to the shell.
///
/// # Safety
///
/// As for `execvpe`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bf_rt_execvpe(file: *const c_char, argv: Vector, envp: Vector) -> c_int {
    write(&EndReason::Exec);
    // SAFETY:
    // - the caller's obligation
    unsafe { search::execvpe(file, argv, envp) }
}

/// The search of `execvpe`. It may run in a `vfork` child, so it keeps off the heap.
mod search {
    use super::{CStr, Vector, c_char, c_int};

    const SHELL: &CStr = c"/bin/sh";
    const USUAL_PATH: &CStr = c"/bin:/usr/bin";
    /// Arguments of a script that the shell is given; glibc has its limit elsewhere, Linux at some 100,000 short ones.
    const MOST_ARGUMENTS: usize = 1 << 10;

    fn errno() -> c_int {
        // SAFETY:
        // - this thread's errno
        unsafe { *libc::__errno_location() }
    }

    fn fail(error: c_int) -> c_int {
        // SAFETY:
        // - this thread's errno
        unsafe { *libc::__errno_location() = error };
        -1
    }

    pub unsafe fn execvpe(file: *const c_char, argv: Vector, envp: Vector) -> c_int {
        // SAFETY:
        // - the caller's strings are NUL-terminated; `getenv` gives null or such a string
        let (name, path) = unsafe {
            let path = libc::getenv(c"PATH".as_ptr());
            let path = if path.is_null() { USUAL_PATH } else { CStr::from_ptr(path) };
            (CStr::from_ptr(file).to_bytes_with_nul(), path.to_bytes())
        };
        if name.len() == 1 {
            return fail(libc::ENOENT);
        }
        if name.contains(&b'/') {
            // SAFETY:
            // - the caller's obligation
            return unsafe { attempt(name, argv, envp) };
        }
        let mut denied = false;
        for directory in path.split(|&byte| byte == b':') {
            let mut buffer = [0_u8; libc::PATH_MAX as usize];
            let Some(candidate) = join(&mut buffer, directory, name) else { continue };
            // SAFETY:
            // - `candidate` ends in NUL; the rest is the caller's obligation
            unsafe { attempt(candidate, argv, envp) };
            match errno() {
                libc::EACCES => denied = true,
                libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return -1,
            }
        }
        fail(if denied { libc::EACCES } else { libc::ENOENT })
    }

    /// `directory/name` with its NUL; `None` if too long.
    fn join<'a>(buffer: &'a mut [u8], directory: &[u8], name: &[u8]) -> Option<&'a [u8]> {
        let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        let mut end = 0;
        for part in [directory, slash, name] {
            buffer.get_mut(end..end + part.len())?.copy_from_slice(part);
            end += part.len();
        }
        Some(&buffer[..end])
    }

    unsafe fn attempt(path: &[u8], argv: Vector, envp: Vector) -> c_int {
        // SAFETY:
        // - the caller's obligation; `script` stays within its array
        unsafe {
            let result = libc::syscall(libc::SYS_execve, path.as_ptr(), argv, envp) as c_int;
            if errno() != libc::ENOEXEC {
                return result;
            }
            let mut script = [std::ptr::null(); MOST_ARGUMENTS + 2];
            script[0] = SHELL.as_ptr();
            script[1] = path.as_ptr().cast();
            let mut n = 1;
            while !(*argv).is_null() && !(*argv.add(n)).is_null() {
                if n == MOST_ARGUMENTS {
                    return fail(libc::E2BIG);
                }
                script[n + 1] = *argv.add(n);
                n += 1;
            }
            libc::syscall(libc::SYS_execve, SHELL.as_ptr(), script.as_ptr(), envp) as c_int
        }
    }
}

/// The functions, by names that nobody else has.
mod own {
    use super::{EndReason, Vector, bf_rt_execve, bf_rt_execvpe, c_char, c_int, environ, exit_now, write};

    pub extern "C" fn exit(status: c_int) -> ! {
        exit_now(status)
    }

    /// That of the C library ends the parent by a function of its own.
    pub extern "C" fn daemon(stays: c_int, keeps_files: c_int) -> c_int {
        // SAFETY:
        // - the strings end with NUL; files 0 to 2 are those that the caller gives up
        unsafe {
            match libc::fork() {
                0 => {}
                -1 => return -1,
                _ => exit_now(0),
            }
            if libc::setsid() == -1 {
                return -1;
            }
            if stays == 0 {
                libc::chdir(c"/".as_ptr());
            }
            if keeps_files == 0 {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                if null == -1 {
                    return -1;
                }
                for file in 0..=2 {
                    libc::dup2(null, file);
                }
                if null > 2 {
                    libc::close(null);
                }
            }
        }
        0
    }

    pub unsafe extern "C" fn execv(path: *const c_char, argv: Vector) -> c_int {
        // SAFETY:
        // - the caller's obligation
        unsafe { bf_rt_execve(path, argv, environ) }
    }

    pub unsafe extern "C" fn execvp(file: *const c_char, argv: Vector) -> c_int {
        // SAFETY:
        // - the caller's obligation
        unsafe { bf_rt_execvpe(file, argv, environ) }
    }

    pub unsafe extern "C" fn execveat(
        directory: c_int,
        path: *const c_char,
        argv: Vector,
        envp: Vector,
        flags: c_int,
    ) -> c_int {
        write(&EndReason::Exec);
        // SAFETY:
        // - the caller's obligation
        unsafe { libc::syscall(libc::SYS_execveat, directory, path, argv, envp, flags) as c_int }
    }

    pub unsafe extern "C" fn fexecve(file: c_int, argv: Vector, envp: Vector) -> c_int {
        // SAFETY:
        // - the caller's obligation
        unsafe { execveat(file, c"".as_ptr(), argv, envp, libc::AT_EMPTY_PATH) }
    }
}

unsafe extern "C" {
    fn bf_rt_execl();
    fn bf_rt_execlp();
    fn bf_rt_execle();
}

/// Functions of the C library's names that go on in ours with all arguments where they are.
macro_rules! instead {
    ($($name:ident $of_c:literal $ours:expr;)*) => {
        #[cfg_attr(test, expect(non_snake_case, dead_code, reason = "the C library's names"))]
        mod instead {
            use super::*;

            $(
                #[cfg_attr(not(test), unsafe(no_mangle))]
                #[unsafe(naked)]
                unsafe extern "C" fn $name() {
                    #[cfg(target_arch = "x86_64")]
                    std::arch::naked_asm!("jmp {}", sym $ours);
                    #[cfg(target_arch = "aarch64")]
                    std::arch::naked_asm!("b {}", sym $ours);
                }
            )*
        }

        /// The address of ours, by the C library's name.
        pub fn ours(name: &CStr) -> Option<usize> {
            let all = [$(($of_c, $ours as *const () as usize)),*];
            all.into_iter().find(|(known, _)| *known == name).map(|(_, address)| address)
        }
    };
}

instead! {
    _exit c"_exit" own::exit;
    _Exit c"_Exit" own::exit;
    daemon c"daemon" own::daemon;
    execve c"execve" bf_rt_execve;
    execv c"execv" own::execv;
    execvpe c"execvpe" bf_rt_execvpe;
    execvp c"execvp" own::execvp;
    execveat c"execveat" own::execveat;
    fexecve c"fexecve" own::fexecve;
    execl c"execl" bf_rt_execl;
    execlp c"execlp" bf_rt_execlp;
    execle c"execle" bf_rt_execle;
}

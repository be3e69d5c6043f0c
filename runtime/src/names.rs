//! Where profiles and traces go.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The pattern where `BF_PROFILE` does not give one.
pub const DEFAULT: &[u8] = b"%e.%p.bfp";

/// Bytes that `%e` stands for at most: the name of a file has 255, and needs some for the rest of it.
const MOST_OF_EXECUTABLE: usize = 200;

/// What the letters of a pattern stand for.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `%e`: base name of the executable.
    pub executable: Vec<u8>,
    /// `%p`.
    pub pid: u32,
    /// `%h`.
    pub host: String,
    /// `%r`.
    pub rank: Option<u32>,
    /// `%t`: start of the process, seconds since the epoch.
    pub start: u64,
    /// What relative patterns are relative to.
    pub directory: PathBuf,
    /// Whether the process descends from another that wrote a profile: forked, spawned or exec'd.
    pub descendant: bool,
}

/// The file for a pattern. Without `%p` the name is the first process's; descendants append `.PID`. A descendant may
/// have the pid of the program that it replaced, so it passes over names that are taken: `.1`, `.2` and so on.
pub fn path(pattern: &[u8], facts: &Facts, taken: impl Fn(&Path) -> bool) -> PathBuf {
    let (mut name, has_pid) = expand(pattern, facts);
    if !facts.descendant {
        return facts.directory.join(OsStr::from_bytes(&name));
    }
    if !has_pid {
        name.extend(format!(".{}", facts.pid).bytes());
    }
    let candidate = |n: u32| {
        let suffix = if n == 0 { String::new() } else { format!(".{n}") };
        facts.directory.join(OsStr::from_bytes(&[&name, suffix.as_bytes()].concat()))
    };
    (0..=u32::MAX).map(candidate).find(|path| !taken(path)).unwrap_or_else(|| candidate(0))
}

/// The pattern with its letters replaced, and whether `%p` was among them. Other letters stay as they are.
fn expand(pattern: &[u8], facts: &Facts) -> (Vec<u8>, bool) {
    let (mut name, mut has_pid) = (Vec::new(), false);
    let mut rest = pattern.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'e') => name.extend(cut(&facts.executable)),
            Some(b'p') => {
                has_pid = true;
                name.extend(facts.pid.to_string().bytes());
            }
            Some(b'h') => name.extend(facts.host.bytes()),
            Some(b'r') => name.extend(facts.rank.unwrap_or(0).to_string().bytes()),
            Some(b't') => name.extend(facts.start.to_string().bytes()),
            Some(b'%') | None => name.push(b'%'),
            Some(other) => name.extend([b'%', other]),
        }
    }
    (name, has_pid)
}

/// The beginning of a long name, characters of UTF-8 whole.
fn cut(name: &[u8]) -> &[u8] {
    let whole = |&at: &usize| name.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let end = name.len().min(MOST_OF_EXECUTABLE);
    &name[..(0..=end).rev().find(whole).unwrap_or(end)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(descendant: bool) -> Facts {
        Facts {
            executable: b"prog".to_vec(),
            pid: 7,
            host: "node".to_owned(),
            rank: Some(3),
            start: 1000,
            directory: "/run".into(),
            descendant,
        }
    }

    fn name(pattern: &str, descendant: bool, taken: &[&str]) -> PathBuf {
        path(pattern.as_bytes(), &facts(descendant), |path| taken.iter().any(|taken| path == Path::new(taken)))
    }

    #[test]
    fn letters_are_replaced() {
        assert_eq!(name("%e.%p.bfp", false, &[]), Path::new("/run/prog.7.bfp"));
        assert_eq!(name("/x/%h-%r-%t-%%-%q-%", false, &[]), Path::new("/x/node-3-1000-%-%q-%"));
    }

    #[test]
    fn a_long_name_is_cut_to_what_a_file_can_be_called() {
        for (executable, kept) in [("b".repeat(248), 200), ("b".repeat(199) + "ü", 199), ("b".repeat(200), 200)] {
            let facts = Facts { executable: executable.clone().into_bytes(), pid: 4_194_304, ..facts(true) };
            let name = path(DEFAULT, &facts, |_| false);
            let name = name.file_name().unwrap().to_str().unwrap();
            assert_eq!(name, format!("{}.4194304.bfp", &executable[..kept]));
            assert!(name.len() + ".99.4194304.tmp".len() <= 255);
        }
    }

    #[test]
    fn the_first_process_has_the_plain_name_and_overwrites() {
        assert_eq!(name("out.bfp", false, &["/run/out.bfp"]), Path::new("/run/out.bfp"));
    }

    #[test]
    fn descendants_append_their_pid_and_overwrite_nothing() {
        assert_eq!(name("out.bfp", true, &["/run/out.bfp"]), Path::new("/run/out.bfp.7"));
        assert_eq!(name("%e.%p.bfp", true, &[]), Path::new("/run/prog.7.bfp"));
        let taken = ["/run/prog.7.bfp", "/run/prog.7.bfp.1"];
        assert_eq!(name("%e.%p.bfp", true, &taken), Path::new("/run/prog.7.bfp.2"));
    }
}

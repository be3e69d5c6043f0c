//! Profiles from files.

use crate::{
    args::Input,
    failure::Failure,
    names,
    output::{plural, remark},
};
use bf_postproc::{QueryError, phases::MORE_TAGS};
use bf_profile::{Process, Profile};
use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Profiles that are asked as one.
#[derive(Debug)]
pub struct Loaded {
    /// The files.
    pub paths: Vec<PathBuf>,
    /// What they hold.
    pub profile: Profile,
}

impl Loaded {
    /// The files' names.
    pub fn names(&self) -> Vec<String> {
        self.paths.iter().map(|path| path.display().to_string()).collect()
    }

    /// How a heading names them.
    pub fn title(&self) -> String {
        match self.paths.as_slice() {
            [] => String::new(),
            [only] => only.display().to_string(),
            [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
        }
    }

    /// An answer of this profile, or why there is none; with its files, unless the question itself is wrong.
    pub fn answer<T>(&self, answer: Result<T, QueryError>) -> Result<T, Failure> {
        answer.map_err(|error| match error.into() {
            Failure::Failed(why) => self.failed(&why),
            failure => failure,
        })
    }

    /// What is the matter with this profile.
    pub fn failed(&self, why: &str) -> Failure {
        Failure::Failed(format!("{}: {why}", self.title()))
    }
}

/// Loads what the command line asks for: all files as one profile, or each by itself.
pub fn load(input: &Input) -> Result<Vec<Loaded>, Failure> {
    let paths = if input.profiles.is_empty() { vec![newest()?] } else { expand(&input.profiles)? };
    if input.each {
        return paths
            .into_iter()
            .map(|path| Ok(Loaded { profile: read(&path, input.salvage)?, paths: vec![path] }))
            .collect();
    }
    Ok(vec![Loaded { profile: merged(&paths, input.salvage)?, paths }])
}

/// Files, with all profiles of a folder in its place, by name.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let failed = |error| Failure::file("list", path, error);
        let names = fs::read_dir(path).map_err(failed)?.map(|entry| Ok(path.join(entry?.file_name())));
        let mut found = names.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        found.retain(|path| is_profile_name(path) && path.is_file());
        if found.is_empty() {
            return Err(Failure::Failed(format!("there is no *.bfp in {}", path.display())));
        }
        found.sort_unstable();
        all.extend(found);
    }
    Ok(all)
}

/// Several files as one profile.
pub fn merged(paths: &[PathBuf], salvage: bool) -> Result<Profile, Failure> {
    let mut profiles = paths.iter().map(|path| read(path, salvage)).collect::<Result<Vec<_>, _>>()?;
    if profiles.len() == 1 {
        return Ok(profiles.remove(0));
    }
    if let Err(problem) = bf_profile::check_mergeable(&profiles) {
        let fit = |count: &usize| bf_profile::check_mergeable(&profiles[..*count]).is_ok();
        let from = (1..paths.len()).rfind(fit).unwrap_or(0);
        return Err(failed_to_read(&paths[from], bf_profile::Error::Unfit(problem), salvage));
    }
    let before: usize = profiles.iter().map(|profile| profile.processes.len()).sum();
    let profile = bf_profile::merge(profiles);
    if profile.processes.len() < before {
        remark_on_duplicates((before - profile.processes.len()) as u64);
    }
    Ok(profile)
}

/// Says how many processes are in more than one file.
pub fn remark_on_duplicates(count: u64) {
    let again = plural(count, "process was", "processes were");
    remark(&format!("{again} given more than once and counted once"));
}

/// One file. Where its stacks end before the program did, whoever reads an answer must know.
pub fn read(path: &Path, salvage: bool) -> Result<Profile, Failure> {
    let mut profile = read_silently(path, salvage)?;
    names::as_in_source(&mut profile);
    profile.processes.iter().for_each(remark_on_end);
    Ok(profile)
}

/// How the runtime's remark begins that it stopped recording.
pub const STOPPED: &str = "recording stopped after ";

/// Says so if the stacks of a process end before it did, or if it had more tags than are told apart.
pub fn remark_on_end(process: &Process) {
    if process.tags.iter().any(|tag| tag == MORE_TAGS) {
        remark(&format!(
            "{} ({}): there were more tags, or phases of tags, than are told apart; what came then counts as {MORE_TAGS}",
            process.meta.executable, process.meta.pid
        ));
    }
    let ends_early = |line: &&String| ["truncated: ", STOPPED].iter().any(|start| line.starts_with(start));
    for line in process.log.iter().filter(ends_early) {
        remark(&format!("{} ({}): {line}", process.meta.executable, process.meta.pid));
    }
}

/// Why a file could not be read, with the mend.
pub fn failed_to_read(path: &Path, error: bf_profile::Error, salvage: bool) -> Failure {
    match error {
        bf_profile::Error::Truncated { .. } | bf_profile::Error::Corrupt { .. } if !salvage => {
            Failure::Failed(format!("failed to read {}: {error}; --salvage uses its intact parts", path.display()))
        }
        bf_profile::Error::Unfit(problem) => {
            let what = format!("failed to take several profiles as one, from {} on: {problem}", path.display());
            Failure::Failed(format!("{what}; --each asks them one by one"))
        }
        error => Failure::file(if salvage { "salvage" } else { "read" }, path, error),
    }
}

fn read_silently(path: &Path, salvage: bool) -> Result<Profile, Failure> {
    if !salvage {
        return bf_profile::read_file(path).map_err(|error| failed_to_read(path, error, salvage));
    }
    let (profile, lost) = bf_profile::salvage_file(path).map_err(|error| Failure::file("salvage", path, error))?;
    for line in lost {
        remark(&format!("{}: {line}", path.display()));
    }
    Ok(profile)
}

/// More than any table or description of a machine has.
const MOST_TEXT: u64 = 16 << 20;

/// A text that people write, or `bf machine`.
pub fn text(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::file("read", path, error);
    let mut text = String::new();
    let bytes = File::open(path).and_then(|file| file.take(MOST_TEXT + 1).read_to_string(&mut text)).map_err(failed)?;
    match bytes as u64 > MOST_TEXT {
        true => Err(Failure::file("read", path, "it has more than 16 MiB, which no such file has")),
        false => Ok(text),
    }
}

/// The profile written last in the working directory.
pub fn newest() -> Result<PathBuf, Failure> {
    let failed = |error| Failure::file("list", Path::new("."), error);
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(".").map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = PathBuf::from(entry.file_name());
        let written = match entry.metadata().and_then(|data| data.modified()) {
            Ok(written) if is_profile_name(&path) && path.is_file() => written,
            _ => continue,
        };
        // Of two written in the same instant the greater name, so that the choice does not depend on the directory.
        let candidate = (written, path);
        if newest.as_ref().is_none_or(|newest| candidate > *newest) {
            newest = Some(candidate);
        }
    }
    let (_, path) = newest.ok_or_else(|| {
        Failure::Failed(
            "no *.bfp in this directory; name a profile, or run a program built with bf-clang here".to_owned(),
        )
    })?;
    remark(&format!("newest profile here: {}", path.display()));
    Ok(path)
}

/// Whether a source file may not be the one that was compiled: it was written after the first process began.
pub fn written_since(profile: &Profile, source: &Path) -> bool {
    // A replayed trace began at no time.
    let began = profile.processes.iter().map(|process| process.meta.start_ns).filter(|&began| began > 0).min();
    let began = began.map(|began| SystemTime::UNIX_EPOCH + Duration::from_nanos(began));
    let written = fs::metadata(source).and_then(|data| data.modified());
    began.zip(written.ok()).is_some_and(|(began, written)| written > began)
}

/// Whether a file is a profile: by its name, or by how it begins.
pub fn is_profile(path: &Path) -> bool {
    let mut begin = [0; bf_profile::MAGIC.len()];
    is_profile_name(path)
        || path.is_dir()
        || path.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
            && begin == bf_profile::MAGIC
}

/// `*.bfp`, or, as descendants of a process may have it, `*.bfp.<number>`.
pub fn is_profile_name(path: &Path) -> bool {
    let is_bfp = |path: &Path| path.extension().is_some_and(|extension| extension == "bfp");
    let numbered =
        path.extension().is_some_and(|extension| extension.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    is_bfp(path) || numbered && path.file_stem().is_some_and(|stem| is_bfp(Path::new(stem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_descendants_are_found_too() {
        for (name, is) in [
            ("a.7.bfp", true),
            ("a.7.bfp.1", true),
            ("out.bfp.4711", true),
            ("a.bfp.tmp", false),
            ("bfp", false),
            ("a.7", false),
        ] {
            assert_eq!(is_profile_name(Path::new(name)), is, "{name}");
        }
    }

    #[test]
    fn source_is_older_than_the_run() {
        let source = tempfile::NamedTempFile::new().unwrap();
        let written = source.as_file().metadata().unwrap().modified().unwrap();
        let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let is_newer = |starts: &[u64]| {
            let mut profile = Profile { processes: vec![Process::default(); starts.len()] };
            profile.processes.iter_mut().zip(starts).for_each(|(process, &start)| process.meta.start_ns = start);
            written_since(&profile, source.path())
        };
        assert!(!is_newer(&[written]) && !is_newer(&[written + 9, written + 1]) && !is_newer(&[0]));
        assert!(is_newer(&[written + 9, written - 1]));
    }
}

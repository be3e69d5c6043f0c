//! Which threads share which cache: `L3=0-3,4-7`, as a user writes it, and whether a profile has such threads.

use crate::spec::{Cache, Scope};
use std::{fmt, str::FromStr};

/// Threads of one level divided into groups, each with a cache of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Name of the level.
    pub level: String,
    /// Numbers of each group's threads, ascending.
    pub groups: Vec<Vec<u32>>,
}

/// A division that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The overall form is wrong.
    #[error(
        "`{0}` is no division; write LEVEL=GROUP,GROUP,... with groups of threads such as 0-3 or 0+2, as in L3=0-3,4-7"
    )]
    Syntax(String),
    /// A range or number that means nothing.
    #[error("`{0}` names no threads; write a number, or a range such as 0-3")]
    NoThreads(String),
    /// A thread that is in a division more than once.
    #[error("{level}: thread {thread} is named twice; each thread uses one cache of a level")]
    Twice {
        /// Name of the level.
        level: String,
        /// The thread.
        thread: u32,
    },
    /// A level that is not asked about.
    #[error("no cache is called `{0}`, whose threads are to be divided")]
    Level(String),
    /// A level that is divided twice.
    #[error("the threads of {0} are divided twice; name all groups of a level at once")]
    Again(String),
    /// A private level.
    #[error("{0} is private: each thread has its own anyway; add :shared to the cache, or leave --share out")]
    Private(String),
    /// A thread that the profile does not have.
    #[error("{level}: there is no thread {thread}; the profile has {available}")]
    Absent {
        /// Name of the level.
        level: String,
        /// The thread.
        thread: u32,
        /// Those there are.
        available: String,
    },
    /// Threads in no group.
    #[error("{level}: {threads} in no group; every thread needs a cache")]
    Uncovered {
        /// Name of the level.
        level: String,
        /// The threads, with their verb.
        threads: String,
    },
    /// A group that has only some of the threads that share a cache above.
    #[error(
        "{level}: a group takes some threads of a cache of the level above and leaves others; groups must hold them whole"
    )]
    Torn {
        /// Name of the level.
        level: String,
    },
    /// Only some references were asked for.
    #[error("{0}: groups are composed of whole runs, not of the references under a tag; leave --tag or --share out")]
    Tagged(String),
    /// A sampled profile.
    #[error("{0}: the profile is a sample, which groups cannot be composed of; record without BF_SAMPLE")]
    Sampled(String),
}

/// A range may have this many threads.
const MOST_THREADS: u32 = 1 << 20;

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (level, groups) = text.split_once('=').ok_or_else(|| ShareError::Syntax(text.to_owned()))?;
        if level.is_empty() || groups.is_empty() {
            return Err(ShareError::Syntax(text.to_owned()));
        }
        let mut share = Self { level: level.to_owned(), groups: Vec::new() };
        for group in groups.split(',') {
            let mut threads = Vec::new();
            for part in group.split('+') {
                threads.extend(range(part).ok_or_else(|| ShareError::NoThreads(part.to_owned()))?);
            }
            threads.sort_unstable();
            share.groups.push(threads);
        }
        let mut all: Vec<u32> = share.groups.concat();
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(ShareError::Twice { level: share.level, thread: pair[0] }),
            None => Ok(share),
        }
    }
}

/// `3` or `0-3`.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last - first < MOST_THREADS).then_some(first..=last)
}

impl Share {
    /// Whether the division fits a process with these threads (ascending).
    pub(crate) fn fits(&self, threads: &[u32]) -> Result<(), ShareError> {
        let level = || self.level.clone();
        let named: Vec<u32> = self.groups.concat();
        if let Some(&thread) = named.iter().find(|thread| threads.binary_search(thread).is_err()) {
            return Err(ShareError::Absent { level: level(), thread, available: Threads(threads).to_string() });
        }
        let left: Vec<u32> = threads.iter().copied().filter(|thread| !named.contains(thread)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let verb = if left.len() == 1 { "is" } else { "are" };
        Err(ShareError::Uncovered { level: level(), threads: format!("{} {verb}", Threads(&left)) })
    }
}

/// Checks divisions against the hierarchy they belong to.
///
/// # Errors
/// The first that names no shared level of it, or one that another names too.
pub fn check(shares: &[Share], caches: &[Cache]) -> Result<(), ShareError> {
    for (index, share) in shares.iter().enumerate() {
        let Some(cache) = caches.iter().find(|cache| cache.name == share.level) else {
            return Err(ShareError::Level(share.level.clone()));
        };
        if cache.scope == Scope::Private {
            return Err(ShareError::Private(share.level.clone()));
        }
        if shares[..index].iter().any(|other| other.level == share.level) {
            return Err(ShareError::Again(share.level.clone()));
        }
    }
    Ok(())
}

/// Threads by number, ascending: `thread 3` or `threads 0-3, 5`.
#[derive(Clone, Copy, Debug)]
pub struct Threads<'a>(pub &'a [u32]);

impl fmt::Display for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "thread " } else { "threads " })?;
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (index, run) in runs.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match *run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Result<Share, String> {
        text.parse().map_err(|error: ShareError| error.to_string())
    }

    #[test]
    fn divisions_as_they_are_written() {
        assert_eq!(share("L3=0-3,4-7").unwrap().groups, [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(share("L2=4+0-1,3").unwrap(), Share { level: "L2".into(), groups: vec![vec![0, 1, 4], vec![3]] });
        for (text, word) in [
            ("0-3", "`0-3` is no division"),
            ("L3=", "`L3=` is no division"),
            ("L3=0-3,", "`` names no threads"),
            ("L3=3-0", "`3-0` names no threads"),
            ("L3=0-4294967295", "names no threads"),
            ("L3=a", "`a` names no threads"),
            ("L3=0-3,3", "thread 3 is named twice"),
        ] {
            let error = share(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn divisions_that_do_not_fit() {
        let error = |text: &str| share(text).unwrap().fits(&[0, 1, 2, 5]).unwrap_err().to_string();
        assert_eq!(error("L3=0-2,3"), "L3: there is no thread 3; the profile has threads 0-2, 5");
        assert_eq!(error("L3=0-1"), "L3: threads 2, 5 are in no group; every thread needs a cache");
        assert_eq!(error("L3=0-2"), "L3: thread 5 is in no group; every thread needs a cache");
        let levels: Vec<Cache> = ["L1=64:full", "L3=128:full:shared"].map(|cache| cache.parse().unwrap()).into();
        let check = |texts: &[&str]| {
            let shares: Vec<Share> = texts.iter().map(|text| share(text).unwrap()).collect();
            check(&shares, &levels).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["L3=0"]), Ok(()));
        assert!(check(&["L2=0"]).unwrap_err().contains("`L2`"));
        assert!(check(&["L1=0"]).unwrap_err().contains("L1 is private"));
        assert!(check(&["L3=0", "L3=1"]).unwrap_err().contains("twice"));
    }
}

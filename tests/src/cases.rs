//! Traces with known answers: `cases/*.json`, and traces without that `bf trace` prints in the same form.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use bf_collect::Access;
use serde::Deserialize;

use crate::oracle::{Counts, Shape};

/// One file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name, if it has one.
    #[serde(default)]
    pub name: String,
    /// Number of threads, at most.
    pub threads: u32,
    /// (thread, address, size, kind) in issue order.
    trace: Vec<(u32, u64, u64, Kind)>,
    /// Answers of one cache fed with the references of all threads.
    #[serde(default)]
    single: Vec<Single>,
    /// Answers of private caches, one for each thread.
    #[serde(default)]
    coherent: Vec<Coherent>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Kind {
    #[serde(rename = "r")]
    Read,
    #[serde(rename = "w")]
    Write,
}

#[derive(Clone, Debug, Deserialize)]
struct Single {
    line: u64,
    sets: u64,
    ways: usize,
    references: Pair,
    misses: Pair,
    cold: u64,
    writebacks: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Coherent {
    line: u64,
    sets: u64,
    ways: usize,
    threads: BTreeMap<String, OfThread>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct OfThread {
    references: u64,
    misses: u64,
    invalidations: u64,
    remote: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Pair {
    load: u64,
    store: u64,
}

impl Case {
    /// All files, by name.
    ///
    /// # Errors
    /// A file cannot be read, or is not as said here; or there is none.
    pub fn all() -> Result<Vec<Self>> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
        let mut files: Vec<_> = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        anyhow::ensure!(!files.is_empty(), "no cases in {}", folder.display());
        files.iter().map(|file| Self::read(file)).collect()
    }

    /// One file.
    ///
    /// # Errors
    /// It cannot be read, or is not as said here.
    pub fn read(file: &Path) -> Result<Self> {
        serde_json::from_slice(&std::fs::read(file)?).with_context(|| file.display().to_string())
    }

    /// Thread and access, in issue order.
    pub fn accesses(&self) -> impl Iterator<Item = (u32, Access)> {
        self.trace
            .iter()
            .map(|&(thread, address, size, kind)| (thread, Access { address, size, store: kind == Kind::Write }))
    }

    /// Shapes of a cache fed with the references of all threads, and what it counts. The files do not tell the dirty
    /// lines left at the end; they are given as 0.
    pub fn answers(&self) -> impl Iterator<Item = (Shape, Counts)> {
        self.single.iter().map(|single| {
            let &Single { line, sets, ways, references, misses, cold, writebacks } = single;
            let [references, misses] = [references, misses].map(|pair| [pair.load, pair.store]);
            (Shape { line, sets, ways }, Counts { references, misses, cold, writebacks, resident_dirty: 0 })
        })
    }

    /// Shapes of private caches, and of each thread its references, misses, invalidations received and misses that another
    /// thread's cache held.
    ///
    /// # Panics
    /// A thread of the file is no number.
    pub fn coherent(&self) -> impl Iterator<Item = (Shape, BTreeMap<u32, [u64; 4]>)> {
        self.coherent.iter().map(|&Coherent { line, sets, ways, ref threads }| {
            let figures = |of: &OfThread| [of.references, of.misses, of.invalidations, of.remote];
            let number = |thread: &String| thread.parse().expect("the number of a thread");
            let threads = threads.iter().map(|(thread, of)| (number(thread), figures(of)));
            (Shape { line, sets, ways }, threads.collect())
        })
    }
}

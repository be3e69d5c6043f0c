//! The source text that a page carries: what surrounds the lines with most misses, as much as there is room for.

use crate::input;
use bf_postproc::{
    Cache, Query,
    attribution::{Attribution, Figures, attribute},
};
use bf_profile::Profile;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Lines around one with figures.
const CONTEXT: u32 = 6;
/// Bytes of source in a page.
const MOST_TEXT: usize = 768 << 10;
/// A file beyond this is no source that somebody wrote.
const MOST_FILE: u64 = 64 << 20;
/// What names of source files end in. A profile names files that whoever passes a page on may not want to pass on; what
/// is no source is not read.
const SOURCES: [&str; 26] = [
    "c", "cc", "cp", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "inc", "inl", "ipp", "tcc", "def", "f",
    "for", "f90", "f95", "f03", "f08", "rs", "cu", "cuh", "m",
];

/// A source file in the page.
#[derive(Debug, Serialize)]
pub struct Source {
    path: String,
    excerpts: Vec<Excerpt>,
}

/// Lines that follow each other.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Excerpt {
    /// Number of the first.
    first: u32,
    lines: Vec<String>,
}

/// The excerpts, files with most misses first; what could not be had goes to `remarks`.
pub fn sources(profile: &Profile, caches: &[Cache], remarks: &mut Vec<String>) -> Vec<Source> {
    let question = Query { levels: caches.to_vec(), ..Query::default() };
    // A profile that is not by place has no source to show; the page says so.
    let Ok(attribution) = attribute(profile, &question) else { return Vec::new() };
    let ranked = ranked(&attribution);
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut unread, mut unlike) = (BTreeSet::new(), BTreeSet::new());
    let mut order: Vec<&str> = Vec::new();
    for (_, file, _) in &ranked {
        if !is_source(Path::new(file)) {
            unlike.insert(file.as_str());
        } else if !texts.contains_key(file.as_str()) && !unread.contains(file.as_str()) {
            match text(Path::new(file)) {
                Some(text) => {
                    texts.insert(file, text);
                    order.push(file);
                }
                None => {
                    unread.insert(file.as_str());
                }
            }
        }
    }
    let (wanted, all) = choose(&ranked, &texts);
    if !all {
        remarks
            .push("only the source around the lines with most misses is in the page: the rest has no room".to_owned());
    }
    let mut name = |what: &str, files: &BTreeSet<&str>| {
        let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
        remarks.extend(files.first().map(|first| format!("source that {what}: {first}{more}")));
    };
    name("is not in the page, because it could not be read", &unread);
    name("is not in the page, because only files with the name of a source file are read", &unlike);
    let newer = order.iter().copied().filter(|file| input::written_since(profile, Path::new(file))).collect();
    name("was changed after the run began, so that figures may stand beside the wrong lines", &newer);
    let source = |path: &&str| {
        let excerpts = excerpts(wanted.get(*path)?, &texts[*path]);
        (!excerpts.is_empty()).then(|| Source { path: (*path).to_owned(), excerpts })
    };
    order.iter().filter_map(source).collect()
}

/// Lines with figures, the most misses of the last level first.
fn ranked(attribution: &Attribution<'_>) -> Vec<([u64; 2], String, u32)> {
    let rank = |figures: &Figures| {
        let misses = figures.levels.last().map_or(0, |level| level.misses.iter().sum());
        [misses, figures.references.iter().sum()]
    };
    let mut ranked = Vec::new();
    for file in attribution.files().into_keys() {
        // Line 0 has what is only known to be in the file.
        let lines = attribution.lines(&file).into_iter().filter(|&(line, _)| line > 0);
        ranked.extend(lines.map(|(line, found)| (rank(&found.figures), file.clone(), line)));
    }
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, a.2).cmp(&(&b.1, b.2))));
    ranked
}

/// Whether it has the name of a source file.
fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| SOURCES.contains(&extension.to_ascii_lowercase().as_str()))
}

/// The lines of a source file; `None` if it cannot be read.
fn text(path: &Path) -> Option<Vec<String>> {
    let data = fs::metadata(path).ok()?;
    if !data.is_file() || data.len() > MOST_FILE {
        return None;
    }
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).lines().map(str::to_owned).collect())
}

/// Numbers of the lines to show of each file, and whether those are all.
fn choose<'a>(
    ranked: &'a [([u64; 2], String, u32)],
    texts: &BTreeMap<&str, Vec<String>>,
) -> (BTreeMap<&'a str, BTreeSet<u32>>, bool) {
    let (mut wanted, mut room): (BTreeMap<&str, BTreeSet<u32>>, _) = (BTreeMap::new(), MOST_TEXT);
    for (_, file, line) in ranked {
        let Some(text) = texts.get(file.as_str()) else { continue };
        let last = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let lines = wanted.entry(file).or_default();
        for near in line.saturating_sub(CONTEXT).max(1)..=line.saturating_add(CONTEXT).min(last) {
            let Some(rest) = room.checked_sub(text[near as usize - 1].len() + 4) else { return (wanted, false) };
            if lines.insert(near) {
                room = rest;
            }
        }
    }
    (wanted, true)
}

/// Runs of lines that follow each other.
fn excerpts(wanted: &BTreeSet<u32>, text: &[String]) -> Vec<Excerpt> {
    let mut excerpts: Vec<Excerpt> = Vec::new();
    for &number in wanted {
        let Some(line) = text.get(number as usize - 1).cloned() else { continue };
        match excerpts.last_mut() {
            Some(last) if last.first + last.lines.len() as u32 == number => last.lines.push(line),
            _ => excerpts.push(Excerpt { first: number, lines: vec![line] }),
        }
    }
    excerpts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> Vec<String> {
        (1..=lines).map(|line| format!("line {line}")).collect()
    }

    #[test]
    fn what_is_near_lines_with_figures_is_shown_once() {
        let texts = BTreeMap::from([("a.c", file(100))]);
        let ranked = [([9, 9], "a.c".to_owned(), 2), ([8, 9], "a.c".to_owned(), 10), ([1, 1], "a.c".to_owned(), 90)];
        let (wanted, all) = choose(&ranked, &texts);
        let excerpts = excerpts(&wanted["a.c"], &texts["a.c"]);
        let runs: Vec<_> = excerpts.iter().map(|run| (run.first, run.lines.len())).collect();
        assert_eq!((runs, all), (vec![(1, 16), (84, 13)], true));
        assert_eq!(excerpts[1].lines[0], "line 84");
    }

    #[test]
    fn the_lines_with_most_misses_have_the_room() {
        let long = vec!["x".repeat(MOST_TEXT / 20); 100];
        let texts = BTreeMap::from([("a.c", long.clone()), ("b.c", long)]);
        let ranked = [([9, 9], "b.c".to_owned(), 50), ([8, 9], "a.c".to_owned(), 50)];
        let (wanted, all) = choose(&ranked, &texts);
        assert!(!all && wanted["b.c"].len() == 13 && wanted["a.c"].len() < 13, "{wanted:?}");
    }

    #[test]
    fn what_is_no_source_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.c"), "text\n").unwrap();
        assert_eq!(text(&folder.path().join("a.c")), Some(vec!["text".to_owned()]));
        for name in ["absent.c", "."] {
            assert_eq!(text(&folder.path().join(name)), None, "{name}");
        }
        for (name, source) in [("a.c", true), ("A.C", true), ("key.pem", false), ("c++/12/tuple", false), (".c", false)]
        {
            assert_eq!(is_source(Path::new(name)), source, "{name}");
        }
    }
}

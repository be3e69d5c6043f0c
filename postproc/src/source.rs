//! What of an answer belongs to each line of a source file, and through which inlined calls.

use crate::attribution::{Attribution, Figures, Key, Part};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Frame {
    /// The function's name.
    pub function: String,
    /// Path of the source file.
    pub file: String,
    /// Line; 0 if unknown.
    pub line: u32,
}

/// The figures of a line: all of them, and those of each way it was inlined. A way begins with the function that the line
/// is written in and ends with the one that was compiled.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// All.
    pub figures: Figures,
    /// By way.
    pub ways: BTreeMap<Vec<Frame>, Figures>,
    /// By the object that it accessed, if that was recorded.
    pub objects: BTreeMap<Key, Figures>,
}

/// The frames of a part: the place itself, the call that its function was inlined at, and so on.
#[must_use]
pub fn frames(part: &Part<'_>) -> Vec<Frame> {
    let places = part.places;
    let sites = part.site.into_iter().flat_map(|site| places.inlined_through(site));
    let frame = |site: &bf_profile::places::Site| {
        let function = places.functions.get(site.function as usize).map_or(0, |function| function.display);
        let (function, file) = (places.string(function).to_owned(), places.string(site.file).to_owned());
        Frame { function, file, line: site.line }
    };
    sites.map(frame).collect()
}

impl Attribution<'_> {
    /// Source files that something is attributed to, with what is.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Figures> {
        let mut files: BTreeMap<String, Figures> = BTreeMap::new();
        for part in &self.parts {
            if let Some(frame) = frames(part).into_iter().next().filter(|frame| !frame.file.is_empty()) {
                files.entry(frame.file).or_insert_with(|| Figures::none(self.answer.levels.len())).add(&part.figures);
            }
        }
        files
    }

    /// The lines of a file that something is attributed to; line 0 has what is only known to be in the file.
    #[must_use]
    pub fn lines(&self, file: &str) -> BTreeMap<u32, Line> {
        let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
        let none = || Figures::none(self.answer.levels.len());
        for part in &self.parts {
            let frames = frames(part);
            let Some(first) = frames.first().filter(|frame| frame.file == file) else { continue };
            let line = lines.entry(first.line).or_insert_with(|| Line { figures: none(), ..Line::default() });
            line.figures.add(&part.figures);
            line.ways.entry(frames).or_insert_with(none).add(&part.figures);
            if let Some(object) = part.object {
                line.objects.entry(Key::of_object(object, part.places)).or_insert_with(none).add(&part.figures);
            }
        }
        lines
    }
}

/// A path without `.` and `..`, as far as its text tells.
fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            (".", _) => {}
            ("..", Some(last)) if !matches!(*last, "" | "..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Which of `files` a user means by `name`: the one of that path, or the only one whose path ends in it.
///
/// # Errors
/// The paths that come into question, if that is not one.
pub fn find<'a>(files: impl Iterator<Item = &'a str>, name: &str) -> Result<&'a str, Vec<&'a str>> {
    let name = resolved(name);
    let ends =
        |file: &&str| resolved(file).strip_suffix(&name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let found: BTreeSet<&str> = files.filter(ends).collect();
    let exact = found.iter().copied().find(|file| resolved(file) == name);
    match (exact, found.len()) {
        (Some(file), _) => Ok(file),
        (None, 1) => found.into_iter().next().ok_or_else(Vec::new),
        _ => Err(found.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_meant_by_the_end_of_its_path() {
        let files = ["/a/src/force.c", "/a/src/main.c", "/b/src/main.c", "force.c"];
        let find = |name| find(files.into_iter(), name);
        assert_eq!(find("src/force.c"), Ok("/a/src/force.c"));
        assert_eq!(find("./force.c"), Ok("force.c"));
        assert_eq!(find("main.c"), Err(vec!["/a/src/main.c", "/b/src/main.c"]));
        assert_eq!(find("orce.c"), Err(vec![]));
        let beside = ["/a/bld/../src/force.c", "../../lib/x.c"];
        for (name, file) in
            [("/a/src/force.c", beside[0]), ("bld/../src/force.c", beside[0]), ("../lib/x.c", beside[1])]
        {
            assert_eq!(super::find(beside.into_iter(), name), Ok(file));
        }
    }
}

//! The bytes that a run touched and the strides of its instructions, in words.

use crate::{
    by,
    output::{number, percent, printable, remark, shortened, table},
};
use bf_postproc::patterns::{self, ByFunction, Footprint, StrideCounts, StrideSite};
use bf_profile::Profile;
use serde::Serialize;
use std::fmt::Write;

/// Places with strides that the text names; the JSON names them all.
const MOST_SITES: usize = 10;

/// What was asked for when compiling or running; absent if it was not.
#[derive(Debug, Serialize)]
pub struct Patterns {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unique_bytes: Vec<Footprint>,
    /// Whether functions are told apart.
    #[serde(skip)]
    by_function: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    strides: Option<Strides>,
}

/// Strides of the whole run, and of each place with its own.
#[derive(Debug, Serialize)]
struct Strides {
    totals: StrideCounts,
    /// Most accesses first.
    sites: Vec<Site>,
}

#[derive(Debug, Serialize)]
struct Site {
    #[serde(flatten)]
    site: StrideSite,
    #[serde(flatten)]
    counts: StrideCounts,
}

impl Patterns {
    /// Of references with these tags, or of all.
    pub fn new(profile: &Profile, tags: &[String]) -> Self {
        let all = patterns::strides(profile, tags);
        let strides = (!all.is_empty()).then(|| {
            let totals = patterns::total(all.values());
            let mut sites: Vec<_> = all.into_iter().map(|(site, counts)| Site { site, counts }).collect();
            sites.sort_by_key(|site| std::cmp::Reverse(site.counts.accesses));
            Strides { totals, sites }
        });
        let by_function = profile.processes.iter().any(|process| !process.patterns.by_function.is_empty());
        Self { unique_bytes: patterns::footprints(profile, tags), by_function, strides }
    }

    /// The sections of a report.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.unique_bytes.is_empty() {
            text += "\nBytes touched (a touch is one byte of one access)\n";
            self.unique_bytes.iter().for_each(|footprint| text += &footprint_text(footprint));
        }
        if self.by_function {
            text += "  of each function: `bf report --by function --sort unique_bytes`\n";
        }
        self.strides.iter().for_each(|strides| text += &strides.text());
        text
    }
}

fn footprint_text(footprint: &Footprint) -> String {
    let Footprint { tag, bytes, touches, covering, missing } = footprint;
    let tag = match tag.as_deref() {
        None => String::new(),
        Some("") => "without a tag: ".to_owned(),
        Some(tag) => format!("tag {}: ", printable(tag)),
    };
    let mut text = format!("  {tag}{} different bytes", number(*bytes));
    if let Some(touches) = touches {
        let parts: Vec<_> =
            covering.iter().map(|cover| format!("{} % in {}", cover.percent, number(cover.bytes))).collect();
        let _ = write!(text, ", {} touches: {}", number(*touches), parts.join(", "));
    }
    if *missing > 0 {
        let _ = write!(text, "; too low: {} accesses are missing for want of memory", number(*missing));
    }
    text + "\n"
}

/// The figure of a function that says how many different bytes it touched.
pub const UNIQUE: &str = "unique_bytes";
/// How many of those accesses are missing for want of memory.
pub const MISSING: &str = "unique_bytes_missing";
/// The fewest of the bytes that have so many percent of the touches.
pub const COVERING: &str = "covering_90";

/// What functions touched under one of these tags, or in the whole run; says why there is nothing if that is so.
pub fn by_function(profile: &Profile, tags: &[String]) -> Option<ByFunction> {
    let found = patterns::by_function(&profile.processes, tags).unwrap_or_else(|why| {
        remark(&why.to_string());
        None
    });
    let without = |process: &&bf_profile::Process| process.meta.accesses > 0 && process.patterns.by_function.is_empty();
    if let Some(process) = profile.processes.iter().find(without).filter(|_| found.is_some()) {
        remark(&format!(
            "the unique bytes are without those of {} {}, which did not record them by function",
            process.meta.executable, process.meta.pid
        ));
    }
    found
}

/// The figures of a function, or of all, by name; `counts`: whether it was recorded how often bytes were touched.
pub fn figures(footprint: &Footprint, counts: bool) -> Vec<(String, u64)> {
    let Footprint { tag: _, bytes, touches, covering, missing } = footprint;
    let mut all = vec![(UNIQUE.to_owned(), *bytes)];
    if counts {
        all.push(("touches".to_owned(), touches.unwrap_or_default()));
        all.extend(patterns::PERCENT.map(|percent| {
            let cover = covering.iter().find(|cover| cover.percent == percent);
            (format!("covering_{percent}"), cover.map_or(0, |cover| cover.bytes))
        }));
    }
    all.push((MISSING.to_owned(), *missing));
    all
}

/// Whether a figure of functions adds up to that of all: a byte may be touched by several.
pub fn adds_up(figure: &str) -> bool {
    figure != UNIQUE && !figure.starts_with("covering_")
}

impl Strides {
    fn text(&self) -> String {
        let title =
            "\nStrides, from each access of an instruction to its next in the same thread, in words of its size\n";
        let header = ["loads and stores", "where", "bytes", "accesses", "0", "1", "2..64", "other", "back", "first"];
        let mut rows: Vec<_> = self.sites.iter().take(MOST_SITES).map(Site::row).collect();
        rows.push([["all", "", ""].map(str::to_owned).to_vec(), cells(&self.totals)].concat());
        let more = self.sites.len().saturating_sub(MOST_SITES);
        let rest = if more > 0 { format!("and {more} more places\n") } else { String::new() };
        title.to_owned() + &table(header.map(str::to_owned).to_vec(), rows) + &rest
    }
}

impl Site {
    fn row(&self) -> Vec<String> {
        let StrideSite { function, file, line, column, kind, bytes } = &self.site;
        let place = by::place(file, *line);
        let place = if *column > 0 { format!("{place}:{column}") } else { place };
        [vec![format!("{kind} in {}", shortened(function)), place, bytes.to_string()], cells(&self.counts)].concat()
    }
}

/// How many accesses, and what part of them has which stride.
fn cells(counts: &StrideCounts) -> Vec<String> {
    let StrideCounts { accesses, zero, forward, other, backward, first } = counts;
    let one = forward.get(&1).copied().unwrap_or_default();
    let more = forward.values().sum::<u64>() - one;
    let share = |count: u64| percent((*accesses > 0).then(|| count as f64 / *accesses as f64));
    let shares = [*zero, one, more, *other, *backward, *first].map(share);
    [vec![number(*accesses)], shares.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_stay_on_their_line() {
        let function = format!("app::Table<{}int>::fill(int)", "int, ".repeat(100));
        let site = StrideSite { function, file: String::new(), line: 0, column: 0, kind: "load", bytes: 8 };
        let site = Site { site, counts: StrideCounts::default() };
        assert_eq!(site.row()[0], "load in app::Table<…>::fill(…)");
        let footprint = Footprint { tag: Some("a\nb".to_owned()), bytes: 7, ..Footprint::default() };
        assert_eq!(footprint_text(&footprint), "  tag a\\nb: 7 different bytes\n");
    }
}

//! `bf machine compare`: whether runs of `bf machine` found the same, figure by figure.

use super::args::CompareArguments;
use crate::{
    failure::Failure,
    input,
    output::{counted, print, table},
};
use bf_machine::{document::SCHEMA, stat::Effort};
use bf_postproc::size;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// How a figure did over all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// Runs differ by no more than the greatest spread that one of them reports.
    Agree,
    /// By no more than rounds within one run may.
    Near,
    /// By more, and a run said itself that its figure had not settled.
    Unstable,
    /// By more.
    Differ,
    /// Not all runs have it.
    Missing,
}

/// A figure of all runs.
#[derive(Debug, Serialize)]
struct Figure {
    part: &'static str,
    figure: String,
    verdict: Verdict,
    /// Greatest by least.
    ratio: Option<f64>,
    /// Whether it tells of several CPUs, and so depends on where they are.
    several_cpus: bool,
    /// One for each run.
    values: Vec<Option<f64>>,
    spreads: Vec<Option<f64>>,
    stable: Vec<Option<bool>>,
}

/// All figures of some runs.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    files: Vec<String>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// An array of the document: how its points are named, and where their figure stands.
struct Part {
    name: &'static str,
    label: fn(&Value) -> String,
    value: &'static str,
    spread: &'static str,
    several_cpus: fn(&Value) -> bool,
}

const PARTS: [Part; 8] = [
    Part {
        name: "latency",
        label: |point| bytes(&point["size_bytes"]),
        value: "ns",
        spread: "spread_ns",
        several_cpus: |_| false,
    },
    Part {
        name: "bandwidth",
        label: |point| {
            let cpus = point["cpus"].as_array().map_or(0, Vec::len);
            let cpus = if cpus > 1 { format!(", {cpus} CPUs") } else { String::new() };
            format!("{} {} {}{cpus}", word(&point["operation"]), word(&point["width_bits"]), word(&point["level"]))
        },
        value: "gb_per_s",
        spread: "spread_gb_per_s",
        several_cpus: |point| point["cpus"].as_array().is_some_and(|cpus| cpus.len() > 1),
    },
    Part {
        name: "coherence",
        label: |point| format!("{} {} {}", word(&point["state"]), word(&point["where"]), word(&point["level"])),
        value: "ns",
        spread: "spread_ns",
        several_cpus: |point| point["where"] == "other" || !point["sharer"].is_null(),
    },
    Part {
        name: "c2c",
        label: |point| format!("{} to {}", word(&point["from"]), word(&point["to"])),
        value: "ns",
        spread: "spread_ns",
        several_cpus: |_| true,
    },
    Part {
        name: "numa",
        label: |point| format!("node {} to memory of {}", word(&point["node"]), word(&point["memory_node"])),
        value: "ns",
        spread: "spread_ns",
        several_cpus: |_| false,
    },
    Part {
        name: "loaded_latency",
        label: |point| match point["rest_cycles"].as_u64() {
            Some(cycles) => format!("rest {cycles}"),
            None => "idle".to_owned(),
        },
        value: "ns",
        spread: "spread_ns",
        several_cpus: |_| true,
    },
    Part {
        name: "tlb",
        label: |point| format!("{} pages of {}", word(&point["pages"]), bytes(&point["page_bytes"])),
        value: "ns",
        spread: "spread_ns",
        several_cpus: |_| false,
    },
    Part {
        name: "throughput",
        label: |point| {
            format!("{} {} {}", word(&point["instruction"]), word(&point["width_bits"]), word(&point["operand"]))
        },
        value: "giga_per_s",
        spread: "spread_giga_per_s",
        several_cpus: |_| false,
    },
];

/// Figures apart that text shows.
const SHOWN: usize = 20;
/// CPUs that are farther apart by this factor are in other places.
const MOVED: f64 = 1.3;

/// Reads the runs, and says how far they agree.
pub fn command(arguments: &CompareArguments) -> Result<(), Failure> {
    let documents = arguments.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let files = arguments.files.iter().map(|file| file.display().to_string()).collect();
    let answer = compare(files, &documents);
    print(arguments.output.format, &[answer], false, text, |answer| {
        answer.figures.iter().filter_map(|figure| serde_json::to_value(figure).ok()).collect()
    })
}

fn read(path: &Path) -> Result<Value, Failure> {
    let text = input::text(path)?;
    let document: Value = serde_json::from_str(&text).map_err(|error| Failure::file("read", path, error))?;
    if document["schema"] != SCHEMA {
        let what = format!("it is no {SCHEMA} document; `bf machine all -o FILE` writes one");
        return Err(Failure::file("read", path, what));
    }
    Ok(document)
}

fn compare(files: Vec<String>, documents: &[Value]) -> Answer {
    let figures: Vec<Figure> = PARTS.iter().flat_map(|part| figures(part, documents)).collect();
    let mut notes = Vec::new();
    let cpus: Vec<&Value> = documents.iter().map(|document| &document["machine"]["cpu"]).collect();
    if cpus.windows(2).any(|pair| pair[0] != pair[1]) {
        notes.push("the files are of different processors".to_owned());
    }
    notes.extend(ends(documents));
    notes.extend(distances(documents));
    Answer { schema: "bf.machine-compare/1", files, figures, notes }
}

/// The figures of a part, in the order of the first run that has them. Of several points of one name the first counts.
fn figures(part: &Part, documents: &[Value]) -> Vec<Figure> {
    let points = |document: &Value| document[part.name].as_array().cloned().unwrap_or_default();
    let mut labels: Vec<String> = Vec::new();
    for label in documents.iter().flat_map(points).map(|point| (part.label)(&point)) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let figure = |label: String| {
        let found: Vec<Option<Value>> = documents
            .iter()
            .map(|document| points(document).into_iter().find(|point| (part.label)(point) == label))
            .collect();
        let number = |key: &str| -> Vec<Option<f64>> {
            found.iter().map(|point| point.as_ref().and_then(|point| point[key].as_f64())).collect()
        };
        let (values, spreads) = (number(part.value), number(part.spread));
        let stable: Vec<_> = found.iter().map(|point| point.as_ref().and_then(|it| it["stable"].as_bool())).collect();
        let (verdict, ratio) = judge(&values, &spreads, &stable);
        let several_cpus = found.iter().flatten().any(part.several_cpus);
        Figure { part: part.name, figure: label, verdict, ratio, several_cpus, values, spreads, stable }
    };
    labels.into_iter().map(figure).collect()
}

fn judge(values: &[Option<f64>], spreads: &[Option<f64>], stable: &[Option<bool>]) -> (Verdict, Option<f64>) {
    let Some(known) = values.iter().copied().collect::<Option<Vec<f64>>>() else { return (Verdict::Missing, None) };
    let (least, greatest) = extent(&known);
    let spread = spreads.iter().flatten().copied().fold(0.0, f64::max);
    let verdict = match greatest - least {
        apart if apart <= spread => Verdict::Agree,
        apart if apart <= least * Effort::default().tolerance => Verdict::Near,
        _ if stable.contains(&Some(false)) => Verdict::Unstable,
        _ => Verdict::Differ,
    };
    (verdict, Some(greatest / least))
}

fn extent(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(*value), most.max(*value)))
}

/// Where each cache ends by the latency curves, if not in the same place in all runs.
fn ends(documents: &[Value]) -> Vec<String> {
    let caches =
        documents[0]["caches"].as_array().into_iter().flatten().filter(|cache| cache["holds"] != "instruction");
    let end = |document: &Value, name: &Value| {
        let steps = document["steps"].as_array().into_iter().flatten();
        let step = steps.clone().find(|step| step["cache"] == *name);
        step.map_or("nowhere".to_owned(), |step| {
            format!("between {} and {}", bytes(&step["from_bytes"]), bytes(&step["to_bytes"]))
        })
    };
    let measured: Vec<&Value> = documents.iter().filter(|document| document["steps"].is_array()).collect();
    let differing = |cache: &Value| {
        let ends: Vec<String> = measured.iter().map(|document| end(document, &cache["name"])).collect();
        let name = word(&cache["name"]);
        let differ = ends.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then(|| {
            format!(
                "by the latency {name} ended {}: how much of a cache is left depends on who else uses it, and sizes near its end \
                 differ for that",
                ends.join("; ")
            )
        })
    };
    caches.filter_map(differing).collect()
}

/// Whether the first two CPUs were as far from each other in all runs.
fn distances(documents: &[Value]) -> Option<String> {
    let seen = |document: &Value| {
        let looks = ["c2c", "placement"].iter().filter_map(|part| document[part].as_array()).flatten();
        let first = looks.clone().next().map(|look| (look["from"].clone(), look["to"].clone()));
        let same = looks.filter(|look| Some((look["from"].clone(), look["to"].clone())) == first);
        same.filter_map(|look| look["ns"].as_f64()).collect::<Vec<f64>>()
    };
    let each: Vec<(f64, f64)> =
        documents.iter().map(seen).filter(|seen| !seen.is_empty()).map(|it| extent(&it)).collect();
    let (least, most) = extent(&each.iter().flat_map(|(least, most)| [*least, *most]).collect::<Vec<f64>>());
    let one = |(least, most): &(f64, f64)| {
        if *most > least * MOVED { format!("{least:.0} to {most:.0}") } else { format!("{least:.0}") }
    };
    (most > least * MOVED).then(|| {
        format!(
            "the first two CPUs were {} ns from each other: the hypervisor probably moved them between threads of a core, cores \
             and dies, and figures of several CPUs differ for that",
            each.iter().map(one).collect::<Vec<_>>().join("; ")
        )
    })
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn bytes(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), size::format)
}

fn text(answer: &Answer) -> String {
    let verdicts = [Verdict::Agree, Verdict::Near, Verdict::Unstable, Verdict::Differ, Verdict::Missing];
    let near = format!("within {:.0} %", Effort::default().tolerance * 100.0);
    let header = ["part", "figures", "within spread", &near, "apart, unstable", "apart", "not in all"];
    let count = |name: &str, figures: &[&Figure]| {
        let counts = verdicts.map(|verdict| figures.iter().filter(|figure| figure.verdict == verdict).count());
        let numbers = [figures.len()].into_iter().chain(counts).map(|count| count.to_string());
        std::iter::once(name.to_owned()).chain(numbers).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for part in &PARTS {
        let figures: Vec<_> = answer.figures.iter().filter(|figure| figure.part == part.name).collect();
        if !figures.is_empty() {
            rows.push(count(part.name, &figures));
        }
    }
    rows.push(count("all", &answer.figures.iter().collect::<Vec<_>>()));
    let mut text = format!("{} runs: {}\n", answer.files.len(), answer.files.join(", "));
    text += &table(header.map(str::to_owned).to_vec(), rows);
    for note in &answer.notes {
        text += &format!("  {note}\n");
    }

    let is_apart = |figure: &&Figure| matches!(figure.verdict, Verdict::Unstable | Verdict::Differ);
    let mut apart: Vec<&Figure> = answer.figures.iter().filter(is_apart).collect();
    if apart.is_empty() {
        return text;
    }
    apart.sort_by(|a, b| b.ratio.unwrap_or(0.0).total_cmp(&a.ratio.unwrap_or(0.0)));
    let several = apart.iter().filter(|figure| figure.several_cpus).count();
    text += &format!(
        "\n{} apart, {several} of them of several CPUs; the worst first\n",
        counted(apart.len() as u64, "figure")
    );
    let front = ["part", "figure"].map(str::to_owned);
    let runs = (1..=answer.files.len()).map(|run| format!("run {run}"));
    let header = front.into_iter().chain(runs).chain(["greatest/least", ""].map(str::to_owned)).collect();
    let row = |figure: &&Figure| {
        let value = |(value, spread): (&Option<f64>, &Option<f64>)| match (value, spread) {
            (Some(value), Some(spread)) => format!("{value:.1} ± {spread:.1}"),
            _ => "-".to_owned(),
        };
        let end = [
            figure.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            if figure.verdict == Verdict::Unstable { "unstable".to_owned() } else { String::new() },
        ];
        let values = figure.values.iter().zip(&figure.spreads).map(value);
        [figure.part.to_owned(), figure.figure.clone()].into_iter().chain(values).chain(end).collect::<Vec<_>>()
    };
    text += &table(header, apart.iter().take(SHOWN).map(row).collect());
    if apart.len() > SHOWN {
        text += &format!("  and {} more, by --format json\n", apart.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(first: f64, spread: f64, stable: bool, far: f64, l3: u64) -> Value {
        json!({
            "schema": SCHEMA,
            "machine": {"cpu": "x"},
            "caches": [{"name": "L3", "holds": "unified"}],
            "steps": [{"cache": "L3", "from_bytes": l3, "to_bytes": 2 * l3}],
            "latency": [{"size_bytes": 4096, "ns": first, "spread_ns": spread, "stable": stable}],
            "c2c": [{"from": 0, "to": 1, "ns": far, "spread_ns": 0.1, "stable": true}],
        })
    }

    fn verdicts(runs: &[Value]) -> Vec<Verdict> {
        compare(Vec::new(), runs).figures.iter().map(|figure| figure.verdict).collect()
    }

    #[test]
    fn figures_are_held_against_their_own_spread() {
        let base = || run(10.0, 0.1, true, 30.0, 1 << 20);
        let with = |first, spread, stable| verdicts(&[base(), run(first, spread, stable, 30.0, 1 << 20)])[0];
        assert_eq!(with(10.1, 0.2, true), Verdict::Agree);
        assert_eq!(with(10.3, 0.2, true), Verdict::Near);
        assert_eq!(with(12.0, 0.2, true), Verdict::Differ);
        assert_eq!(with(12.0, 0.2, false), Verdict::Unstable);
        assert_eq!(with(12.0, 2.1, false), Verdict::Agree);
        let mut without = base();
        without["c2c"] = json!([]);
        assert_eq!(verdicts(&[base(), without]), [Verdict::Agree, Verdict::Missing]);
    }

    #[test]
    fn what_moved_is_the_reason() {
        let still = compare(Vec::new(), &[run(1.0, 0.1, true, 30.0, 4 << 20), run(1.0, 0.1, true, 32.0, 4 << 20)]);
        assert!(still.notes.is_empty(), "{:?}", still.notes);
        let moved = compare(
            vec!["a".to_owned(), "b".to_owned()],
            &[run(1.0, 0.1, true, 30.0, 4 << 20), run(1.0, 0.1, true, 148.0, 8 << 20)],
        );
        assert!(
            moved.notes[0].starts_with("by the latency L3 ended between 4M and 8M; between 8M and 16M"),
            "{moved:?}"
        );
        assert!(moved.notes[1].starts_with("the first two CPUs were 30; 148 ns from each other"), "{moved:?}");
        let said = text(&moved);
        assert!(said.contains("1 figure apart, 1 of them of several CPUs") && said.contains("30.0 ± 0.1"), "{said}");
    }
}

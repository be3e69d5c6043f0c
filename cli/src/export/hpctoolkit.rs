//! A database of HPCToolkit's format 2.0 (`experiment.xml` and a `metric-db` beside it), as `hpcprof` wrote them before 2022:
//! for `hatchet.GraphFrame.from_hpctoolkit`.
//!
//! Where a call stands is not known, so all call sites are on line 0.

use super::{
    Facts,
    forest::{Forest, Kind, Node},
};
use crate::{failure::Failure, output::write_file};
use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

/// The `metric-db`: of rank 0, thread 0, host 0, process 0.
const METRICS: &str = "experiment-000000-000-0-0-0.metric-db";

/// Numbers for strings, from 1 up.
#[derive(Debug, Default)]
struct Table(BTreeMap<String, usize>);

impl Table {
    fn number(&mut self, text: &str) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(text.to_owned()).or_insert(next)
    }

    fn xml(&self, element: &str) -> String {
        let mut all: Vec<_> = self.0.iter().map(|(text, number)| (number, text)).collect();
        all.sort_unstable();
        let rows =
            all.into_iter().map(|(number, text)| format!("<{element} i=\"{number}\" n=\"{}\"/>\n", escaped(text)));
        format!("<{element}Table>\n{}</{element}Table>\n", rows.collect::<String>())
    }
}

/// The database while it grows.
#[derive(Debug, Default)]
struct Database {
    files: Table,
    procedures: Table,
    xml: String,
    /// By number of a node, from 1 up: each figure by itself, and with what is below.
    metrics: Vec<f64>,
    nodes: usize,
}

/// Writes the database into a folder, which is made if it is not there.
pub fn write(facts: &Facts, forest: &Forest, folder: &Path) -> Result<(), Failure> {
    let mut database = Database::default();
    for (kind, node) in &forest.root.below {
        database.add(kind, node, "");
    }
    fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, error))?;
    write_file(&folder.join("experiment.xml"), database.document(facts, forest))?;
    write_file(&folder.join(METRICS), database.metric_db(2 * forest.figures.len()))
}

impl Database {
    /// Adds a node, and what is below it. `file`: that of the function it is in.
    fn add(&mut self, kind: &Kind, node: &Node, file: &str) {
        let mut own = node.own.clone();
        // A function has the figures of its lines.
        for (_, line) in node.below.iter().filter(|(kind, _)| matches!(kind, Kind::Line(_))) {
            own.iter_mut().zip(&line.own).for_each(|(sum, count)| *sum += count);
        }
        let number = self.row(&own, &node.all);
        let (element, file, line) = match kind {
            Kind::Function { name, file, line } => {
                (format!("PF lm=\"1\" n=\"{}\"", self.procedures.number(name)), file.as_str(), *line)
            }
            Kind::Inlined(name) => (format!("Pr a=\"1\" lm=\"1\" n=\"{}\"", self.procedures.number(name)), file, 0),
            Kind::Line(frame) => ("S".to_owned(), frame.file.as_str(), frame.line),
        };
        let in_file = self.files.number(file);
        let _ = write!(self.xml, "<{element} i=\"{number}\" s=\"{number}\" f=\"{in_file}\" l=\"{line}\">");
        self.measured(&own, &node.all);
        for (kind, below) in &node.below {
            if matches!(kind, Kind::Line(_)) {
                self.add(kind, below, file);
                continue;
            }
            let none = vec![0; below.all.len()];
            let site = self.row(&none, &below.all);
            let _ = write!(self.xml, "<C i=\"{site}\" s=\"{site}\" l=\"0\">");
            self.measured(&none, &below.all);
            self.add(kind, below, file);
            self.xml += "</C>\n";
        }
        let name = element.split(' ').next().unwrap_or_default();
        let _ = writeln!(self.xml, "</{name}>");
    }

    /// The number of a new node.
    fn row(&mut self, own: &[u64], all: &[u64]) -> usize {
        self.metrics.extend(own.iter().zip(all).flat_map(|(own, all)| [*own as f64, *all as f64]));
        self.nodes += 1;
        self.nodes
    }

    fn measured(&mut self, own: &[u64], all: &[u64]) {
        let both = own.iter().zip(all).flat_map(|(own, all)| [own, all]);
        for (metric, value) in both.enumerate().filter(|(_, value)| **value > 0) {
            let _ = write!(self.xml, "<M n=\"{metric}\" v=\"{value}\"/>");
        }
    }

    fn document(&self, facts: &Facts, forest: &Forest) -> String {
        let name = escaped(&facts.command);
        let metrics =
            || forest.figures.iter().flat_map(|figure| [(figure, "E", "exclusive"), (figure, "I", "inclusive")]);
        let count = 2 * forest.figures.len();
        let (mut table, mut stored) = (String::new(), String::new());
        for (number, (figure, short, kind)) in metrics().enumerate() {
            let figure = escaped(figure);
            let partner = number ^ 1;
            let _ = writeln!(
                table,
                "<Metric i=\"{number}\" n=\"{figure} ({short})\" v=\"final\" t=\"{kind}\" partner=\"{partner}\" show=\"1\" show-percent=\"1\"/>"
            );
            let _ = writeln!(
                stored,
                "<MetricDB i=\"{number}\" n=\"{figure} ({short})\" t=\"{kind}\" partner=\"{partner}\" db-glob=\"*.metric-db\" \
                 db-id=\"{number}\" db-num-metrics=\"{count}\" db-header-sz=\"32\"/>"
            );
        }
        format!(
            "<?xml version=\"1.0\"?>\n<HPCToolkitExperiment version=\"2.0\">\n<Header n=\"{name}\"><Info/></Header>\n\
             <SecCallPathProfile i=\"0\" n=\"{name}\">\n<SecHeader>\n<MetricTable>\n{table}</MetricTable>\n\
             <MetricDBTable>\n{stored}</MetricDBTable>\n<LoadModuleTable>\n<LoadModule i=\"1\" n=\"{name}\"/>\n</LoadModuleTable>\n\
             {}{}</SecHeader>\n<SecCallPathProfileData>\n{}</SecCallPathProfileData>\n</SecCallPathProfile>\n</HPCToolkitExperiment>\n",
            self.files.xml("File"),
            self.procedures.xml("Procedure"),
            self.xml
        )
    }

    /// A header of 32 bytes and all metrics, node by node, big-endian.
    fn metric_db(&self, metrics: usize) -> Vec<u8> {
        let mut bytes = b"HPCPROF-metricdb__00.10b".to_vec();
        for count in [self.nodes, metrics] {
            bytes.extend((count as u32).to_be_bytes());
        }
        bytes.extend(self.metrics.iter().flat_map(|metric| metric.to_be_bytes()));
        bytes
    }
}

/// Text as XML has it in attributes.
fn escaped(text: &str) -> String {
    let escaped = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        // Not allowed in XML, however it is written.
        c if c < ' ' => " ".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

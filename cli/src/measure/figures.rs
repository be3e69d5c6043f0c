//! `bf machine`: measures, and lets the answer be printed and drawn.

use super::{
    all,
    args::{BandwidthArguments, LatencyArguments, MachineArguments, Measuring, PlottedArguments, What},
    compare, counters,
    plot::{Curve, Horizontal, Plot},
    progress::{Bar, MEASURING},
    tables,
};
use crate::{args::Format, failure::Failure, input, output::print};
use bf_machine::{
    Session, Topology, bandwidth, c2c, coherence,
    doctor::{self, State},
    document::Document,
    hwloc, latency, loaded, numa,
    placement::{self, moves},
    session::SURVEY,
    stat::Effort,
    steps::steps,
    sys::stream::{Kernel, widest},
    throughput, tlb,
    topology::Holds,
};
use bf_postproc::size;
use plotters::chart::SeriesLabelPosition;
use serde_json::Value;
use std::path::Path;

/// Measures what was asked for.
pub fn command(arguments: &MachineArguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Topology(arguments) => {
            let document = topology_of(arguments.hwloc.as_deref())?;
            show(arguments.output.format, document, tables::topology, |document| rows(&document.caches))
        }
        What::Latency(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, latency_of(arguments)?, tables::latency, |document| rows(&document.latency))
        }
        What::Bandwidth(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, bandwidth_of(arguments)?, tables::bandwidth, |document| rows(&document.bandwidth))
        }
        What::Coherence(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, coherence_of(&arguments.measuring)?, tables::coherence, |document| rows(&document.coherence))
        }
        What::C2c(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, c2c_of(&arguments.measuring)?, tables::c2c, |document| rows(&document.c2c))
        }
        What::Numa(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, numa_of(&arguments.measuring)?, tables::numa, |document| rows(&document.numa))
        }
        What::LoadedLatency(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, loaded_latency_of(arguments)?, tables::loaded, |document| rows(&document.loaded_latency))
        }
        What::Tlb(arguments) => {
            show(arguments.measuring.output.format, tlb_of(arguments)?, tables::tlb, |document| rows(&document.tlb))
        }
        What::Throughput(arguments) => {
            let format = arguments.measuring.output.format;
            show(format, throughput_of(&arguments.measuring)?, tables::throughput, |document| {
                rows(&document.throughput)
            })
        }
        What::Counters(arguments) => counters::command(arguments),
        What::Compare(arguments) => compare::command(arguments),
        What::All(arguments) => {
            let document = all::measure(arguments)?;
            show(arguments.measuring.output.format, document, tables::all, |document| rows(&document.latency))
        }
    }
}

fn show(
    format: Format,
    document: Document,
    text: impl Fn(&Document) -> String,
    rows: impl Fn(&Document) -> Vec<Value>,
) -> Result<(), Failure> {
    let with_notes = |document: &Document| {
        let notes = document.notes.iter().map(|note| format!("  {note}\n"));
        text(document) + &notes.collect::<String>()
    };
    print(format, &[document], false, with_notes, rows)
}

fn rows<T: serde::Serialize>(items: &[T]) -> Vec<Value> {
    items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
}

/// A session as asked for, and the document of what it will find.
pub fn begin(measuring: &Measuring) -> Result<(Session, Document), Failure> {
    let cpus = measuring.cpus.as_ref().map_or(&[][..], |cpus| &cpus.0);
    let mut session = Session::begin(cpus)?;
    session.pages = measuring.pages.into();
    session.effort = Effort { rounds: measuring.rounds.into(), ..Effort::default() };
    session.progress = Bar::new(MEASURING).progress();
    let mut document = Document::new(&session.topology, Some(&session));
    let memory = doctor::memory(&session.topology);
    if memory.state != State::Good {
        document.notes.push(format!("memory: {}", memory.finding));
    }
    Ok((session, document))
}

/// Sizes of a curve, with a note where not all that were asked for can be had.
pub fn sizes(session: &Session, asked: Option<usize>, document: &mut Document) -> Vec<usize> {
    if asked.is_some_and(|most| most > session.memory) {
        let most = size::human(session.memory as u64);
        document.notes.push(format!("sizes end at {most}, a quarter of the memory that can be had"));
    }
    session.sizes(asked)
}

/// The plot's path, checked before minutes of measuring.
fn check(plot: Option<&Path>) -> Result<(), Failure> {
    plot.map_or(Ok(()), crate::plot::check)
}

fn draw(
    document: &Document,
    path: &Path,
    (what, x, y): (&str, Horizontal<'_>, &str),
    curves: &[Curve],
) -> Result<(), Failure> {
    let data = document.caches.iter().filter(|cache| cache.holds != Holds::Instruction);
    let mark = |name: &str, bytes: u64| (format!("{name} {}", size::format(bytes)), bytes as f64);
    let marks: Vec<_> = match x {
        Horizontal::Bytes(_) => data.map(|cache| mark(&cache.name, cache.size_bytes)).collect(),
        _ => Vec::new(),
    };
    let title = format!("{what}: {}", document.machine.cpu);
    // Falling curves leave room at the left, rising ones at the right.
    let legend = if y == "ns" { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::LowerLeft };
    Plot { title: &title, x, y, marks: &marks, legend }.write(path, curves)
}

fn latency_of(arguments: &LatencyArguments) -> Result<Document, Failure> {
    check(arguments.span.plot.as_deref())?;
    let (session, mut document) = begin(&arguments.measuring)?;
    let sizes = sizes(&session, arguments.span.max_size, &mut document);
    document.latency = latency::curve(&session, &sizes, session.pages)?;
    document.steps = steps(&session.topology, &document.latency);
    if let Some(path) = &arguments.span.plot {
        let points = document.latency.iter().map(|point| (point.size_bytes as f64, point.ns, point.stable)).collect();
        let page = document.latency.last().map_or(0, |point| point.page_bytes);
        let curves = [(format!("{} pages", size::format(page as u64)), points)];
        draw(&document, path, ("Latency of a dependent load", Horizontal::Bytes("size"), "ns"), &curves)?;
    }
    Ok(document)
}

fn topology_of(hwloc: Option<&Path>) -> Result<Document, Failure> {
    let topology = Topology::here();
    let mut document = Document::new(&topology, None);
    if let Some(path) = hwloc {
        let xml = input::text(path)?;
        let differences = hwloc::differences(&topology, &xml).map_err(|error| Failure::file("read", path, error))?;
        document.machine.hwloc_differences = Some(differences);
    }
    Ok(document)
}

fn coherence_of(measuring: &Measuring) -> Result<Document, Failure> {
    let (mut session, mut document) = begin(measuring)?;
    session.two("coherence")?;
    session.survey(None)?;
    let before = placement::look(&session, "coherence")?;
    document.coherence = session.progress.within(SURVEY..1.0, || coherence::all(&session))?;
    document.placement = [before, placement::look(&session, "end")?].concat();
    document.notes.extend(coherence::doubt(&session, &document.coherence));
    document.notes.extend(moves(&document.placement).map(|found| found.sentence()));
    Ok(document)
}

fn c2c_of(measuring: &Measuring) -> Result<Document, Failure> {
    let (session, mut document) = begin(measuring)?;
    document.c2c = c2c::matrix(&session)?;
    Ok(document)
}

fn numa_of(measuring: &Measuring) -> Result<Document, Failure> {
    let (session, mut document) = begin(measuring)?;
    document.numa = numa::matrix(&session)?;
    Ok(document)
}

fn throughput_of(measuring: &Measuring) -> Result<Document, Failure> {
    let (session, mut document) = begin(measuring)?;
    document.throughput = throughput::all(&session)?;
    Ok(document)
}

fn bandwidth_of(arguments: &BandwidthArguments) -> Result<Document, Failure> {
    check(arguments.span.plot.as_deref())?;
    let asked = |kernel: &Kernel| {
        (arguments.operation.is_empty() || arguments.operation.contains(&kernel.operation))
            && (arguments.width.is_empty() || arguments.width.contains(&kernel.width))
    };
    let kernels: Vec<Kernel> = Kernel::all().into_iter().filter(asked).collect();
    if kernels.is_empty() {
        return Err(Failure::Absent(format!("this processor has instructions of up to {} bits", widest())));
    }
    let (mut session, mut document) = begin(&arguments.measuring)?;
    let most = arguments.span.max_size;
    session.survey(most)?;
    let curves_from = if arguments.span.plot.is_some() { 0.5 } else { 1.0 };
    let least = session.places().into_iter().map(|(_, bytes)| bytes).min().unwrap_or(0);
    if let Some(most) = most.filter(|&most| most < least && arguments.span.plot.is_none()) {
        let [most, least] = [most, least].map(|bytes| size::format(bytes as u64));
        return Err(Failure::Usage(format!(
            "--max-size {most} leaves nothing: the nearest cache is measured with {least}"
        )));
    }
    document.bandwidth = session.progress.within(SURVEY..curves_from, || bandwidth::all(&session, &kernels, most))?;
    if let Some(path) = &arguments.span.plot {
        let width = kernels.iter().map(|kernel| kernel.width).max().unwrap_or(64);
        let mut curves: Vec<Curve> = Vec::new();
        let widest: Vec<_> = kernels.iter().filter(|kernel| kernel.width == width).collect();
        let sizes = sizes(&session, most, &mut document);
        let part = |index: usize| curves_from + (1.0 - curves_from) * index as f64 / widest.len() as f64;
        for (index, kernel) in widest.iter().enumerate() {
            let cases: Vec<_> = sizes.iter().map(|&bytes| (**kernel, bytes)).collect();
            let points =
                session.progress.within(part(index)..part(index + 1), || bandwidth::alone(&session, &cases))?;
            let curve = points.iter().map(|point| (point.size_bytes as f64, point.gb_per_s, point.stable)).collect();
            curves.push((format!("{} {width} bits", kernel.operation.name()), curve));
            document.bandwidth.extend(points);
        }
        draw(&document, path, ("Bandwidth of one core", Horizontal::Bytes("size"), "GB/s"), &curves)?;
    }
    Ok(document)
}

fn loaded_latency_of(arguments: &PlottedArguments) -> Result<Document, Failure> {
    check(arguments.plot.as_deref())?;
    let (session, mut document) = begin(&arguments.measuring)?;
    document.loaded_latency = loaded::curve(&session)?;
    if let Some(path) = &arguments.plot {
        let mut points: Vec<_> =
            document.loaded_latency.iter().map(|point| (point.gb_per_s, point.ns, point.stable)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let what = ("Latency of memory while others read", Horizontal::Linear("GB/s read by others"), "ns");
        draw(&document, path, what, &[("dependent load".to_owned(), points)])?;
    }
    Ok(document)
}

fn tlb_of(arguments: &PlottedArguments) -> Result<Document, Failure> {
    check(arguments.plot.as_deref())?;
    let (session, mut document) = begin(&arguments.measuring)?;
    document.tlb = tlb::curve(&session)?;
    if let Some(path) = &arguments.plot {
        let mut curves: Vec<Curve> = Vec::new();
        for point in &document.tlb {
            let name = format!("one line on each {} page", size::format(point.page_bytes as u64));
            match curves.iter_mut().find(|(other, _)| *other == name) {
                Some((_, curve)) => curve.push((point.pages as f64, point.ns, point.stable)),
                None => curves.push((name, vec![(point.pages as f64, point.ns, point.stable)])),
            }
        }
        let first = document.tlb.first().map_or(0, |point| point.page_bytes);
        let dense = document.tlb.iter().filter(|point| point.page_bytes == first);
        curves.push((
            "as many lines close together".to_owned(),
            dense.map(|point| (point.pages as f64, point.dense_ns, point.stable)).collect(),
        ));
        draw(&document, path, ("Latency against pages", Horizontal::Count("pages"), "ns"), &curves)?;
    }
    Ok(document)
}

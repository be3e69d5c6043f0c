//! `bf machine`: measures, then prints the document or its tables.

use super::{
    args::{BandwidthArguments, LatencyArguments, MachineArguments, Measuring, Span, What},
    plot::{Curve, Horizontal, Plot},
    topology,
};
use crate::{
    failure::Failure,
    output::{print, table},
};
use bf_machine::{
    Session, Topology, bandwidth,
    document::Document,
    latency,
    stat::Effort,
    sys::stream::{Kernel, widest},
};
use bf_postproc::size;
use serde_json::Value;

/// Measures what was asked for.
pub fn command(arguments: &MachineArguments) -> Result<(), Failure> {
    let format = arguments.what.format();
    match &arguments.what {
        What::Topology(_) => {
            let document = Document::new(&Topology::here(), None);
            print(format, &[document], false, topology::text, |document| rows(&document.caches))
        }
        What::Latency(arguments) => {
            let document = measure_latency(arguments)?;
            print(format, &[document], false, latency_text, |document| rows(&document.latency))
        }
        What::Bandwidth(arguments) => {
            let document = measure_bandwidth(arguments)?;
            print(format, &[document], false, bandwidth_text, |document| rows(&document.bandwidth))
        }
    }
}

fn rows<T: serde::Serialize>(items: &[T]) -> Vec<Value> {
    items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
}

fn session(measuring: &Measuring) -> Result<Session, Failure> {
    let cpus = measuring.cpus.as_ref().map_or(&[][..], |cpus| &cpus.0);
    let mut session = Session::begin(cpus)?;
    session.pages = measuring.pages.into();
    session.effort = Effort { rounds: measuring.rounds.into(), ..Effort::default() };
    Ok(session)
}

/// The plot's path, checked before hours of measuring.
fn check_plot(span: &Span) -> Result<(), Failure> {
    span.plot.as_deref().map_or(Ok(()), crate::plot::check)
}

fn marks(document: &Document) -> Vec<(String, f64)> {
    let data = document.caches.iter().filter(|cache| cache.holds != bf_machine::topology::Holds::Instruction);
    data.map(|cache| (format!("{} {}", cache.name, size::format(cache.size_bytes)), cache.size_bytes as f64)).collect()
}

fn measure_latency(arguments: &LatencyArguments) -> Result<Document, Failure> {
    check_plot(&arguments.span)?;
    let session = session(&arguments.measuring)?;
    let mut document = Document::new(&session.topology, Some(&session));
    document.latency = latency::curve(&session, &session.sizes(arguments.span.max_size), session.pages, |_| {})?;
    if let Some(path) = &arguments.span.plot {
        let points = document.latency.iter().map(|point| (point.size_bytes as f64, point.ns)).collect();
        let page = document.latency.last().map_or(0, |point| point.page_bytes);
        let curves = [(format!("{} pages", size::format(page as u64)), points)];
        let title = format!("Latency of a dependent load: {}", document.machine.cpu);
        let plot = Plot { title: &title, x: Horizontal::Bytes("size"), y: "ns", marks: &marks(&document) };
        plot.write(path, &curves)?;
    }
    Ok(document)
}

fn latency_text(document: &Document) -> String {
    let header =
        ["size", "fits in", "ns", "± ns", "cycles", "median ns", "rounds", "pages", ""].map(str::to_owned).to_vec();
    let row = |point: &latency::Point| {
        vec![
            size::format(point.size_bytes as u64),
            point.level.clone(),
            format!("{:.2}", point.ns),
            format!("{:.2}", point.spread_ns),
            format!("{:.1}", point.cycles),
            format!("{:.2}", point.median_ns),
            point.rounds.to_string(),
            size::format(point.page_bytes as u64),
            unstable(point.stable),
        ]
    };
    front(document) + &table(header, document.latency.iter().map(row).collect())
}

fn unstable(stable: bool) -> String {
    if stable { String::new() } else { "unstable".to_owned() }
}

/// What was measured on.
fn front(document: &Document) -> String {
    let machine = &document.machine;
    let Some(clock) = machine.clock else { return String::new() };
    let cpus = machine.measured_on.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    format!("  {}, CPU {cpus}, core at {:.2} GHz\n", machine.cpu, clock.core_ghz)
}

fn measure_bandwidth(arguments: &BandwidthArguments) -> Result<Document, Failure> {
    check_plot(&arguments.span)?;
    let session = session(&arguments.measuring)?;
    let asked = |kernel: &Kernel| {
        (arguments.operation.is_empty() || arguments.operation.contains(&kernel.operation))
            && (arguments.width.is_empty() || arguments.width.contains(&kernel.width))
    };
    let kernels: Vec<Kernel> = Kernel::all().into_iter().filter(asked).collect();
    if kernels.is_empty() {
        return Err(Failure::Absent(format!("this processor has instructions of up to {} bits", widest())));
    }
    let mut document = Document::new(&session.topology, Some(&session));
    let places = session.places();
    for kernel in &kernels {
        for (_, bytes) in &places {
            document.bandwidth.push(bandwidth::point(&session, *kernel, *bytes)?);
        }
    }
    if session.cpus.len() > 1 {
        let most = kernels.iter().map(|kernel| kernel.width).max().unwrap_or(64);
        for kernel in kernels.iter().filter(|kernel| kernel.width == most) {
            for (_, bytes) in &places {
                document.bandwidth.push(bandwidth::together(&session, *kernel, *bytes, &session.cpus)?);
            }
        }
    }
    if let Some(path) = &arguments.span.plot {
        let curves = bandwidth_curves(&session, &kernels, arguments.span.max_size)?;
        let title = format!("Bandwidth of one core: {}", document.machine.cpu);
        let plot = Plot { title: &title, x: Horizontal::Bytes("size"), y: "GB/s", marks: &marks(&document) };
        plot.write(path, &curves)?;
    }
    Ok(document)
}

/// Each operation against size, at the greatest width asked for.
fn bandwidth_curves(session: &Session, kernels: &[Kernel], most: Option<usize>) -> Result<Vec<Curve>, Failure> {
    let width = kernels.iter().map(|kernel| kernel.width).max().unwrap_or(64);
    let mut curves = Vec::new();
    for kernel in kernels.iter().filter(|kernel| kernel.width == width) {
        let mut points = Vec::new();
        for bytes in session.sizes(most) {
            points.push((bytes as f64, bandwidth::point(session, *kernel, bytes)?.gb_per_s));
        }
        curves.push((format!("{} {width} bits", kernel.operation.name()), points));
    }
    Ok(curves)
}

fn bandwidth_text(document: &Document) -> String {
    let header = ["operation", "bits", "size", "fits in", "CPUs", "GB/s", "± GB/s", "bytes/cycle", "rounds", ""];
    let row = |point: &bandwidth::Point| {
        vec![
            point.operation.name().to_owned(),
            point.width_bits.to_string(),
            size::format(point.size_bytes as u64),
            point.level.clone(),
            point.cpus.len().to_string(),
            format!("{:.1}", point.gb_per_s),
            format!("{:.1}", point.spread_gb_per_s),
            format!("{:.1}", point.bytes_per_cycle),
            point.rounds.to_string(),
            unstable(point.stable),
        ]
    };
    front(document) + &table(header.map(str::to_owned).to_vec(), document.bandwidth.iter().map(row).collect())
}

//! `bf machine all`: every measurement, into one document.

use super::{
    args::{AllArguments, BackendArgument},
    counters::Counting,
    figures::{begin, sizes},
    progress::Bar,
};
use crate::{
    failure::Failure,
    output::{check_writable, write_file},
};
use bf_machine::{
    Error, Session, bandwidth, c2c, coherence,
    document::Document,
    latency, loaded, numa,
    placement::{self, moves},
    steps::steps,
    sys::stream::Kernel,
    throughput, tlb,
};

/// A part of it all.
struct Part {
    name: &'static str,
    /// A guess at its part of the time: where the bar stands.
    weight: f64,
    measure: fn(&Session, &mut Document, &AllArguments) -> Result<(), Failure>,
}

const PARTS: [Part; 9] = [
    Part { name: "latency", weight: 15.0, measure: latency },
    Part { name: "bandwidth", weight: 25.0, measure: bandwidth },
    Part { name: "coherence", weight: 8.0, measure: coherence },
    Part { name: "core to core", weight: 1.0, measure: core_to_core },
    Part { name: "numa", weight: 1.0, measure: numa },
    Part { name: "loaded latency", weight: 8.0, measure: loaded_latency },
    Part { name: "tlb", weight: 20.0, measure: tlb },
    Part { name: "throughput", weight: 2.0, measure: throughput },
    Part { name: "counters", weight: 5.0, measure: counters },
];

/// Measures everything; what this machine lacks becomes a sentence of the document.
pub fn measure(arguments: &AllArguments) -> Result<Document, Failure> {
    arguments.output.iter().try_for_each(|path| check_writable(path))?;
    let (mut session, mut document) = begin(&arguments.measuring)?;
    let bar = Bar::new(PARTS[0].name);
    session.progress = bar.progress();
    let all: f64 = PARTS.iter().map(|part| part.weight).sum();
    let mut done = 0.0;
    for Part { name, weight, measure } in PARTS {
        bar.name(name);
        document.placement.extend(placement::look(&session, name)?);
        let span = done / all..(done + weight) / all;
        session.progress.within(span, || measure(&session, &mut document, arguments))?;
        session.learn(&document.steps);
        done += weight;
    }
    document.placement.extend(placement::look(&session, "end")?);
    distrust(&mut document);
    if let Some(path) = &arguments.output {
        write_file(path, serde_json::to_string_pretty(&document)? + "\n")?;
    }
    Ok(document)
}

fn latency(session: &Session, document: &mut Document, arguments: &AllArguments) -> Result<(), Failure> {
    let sizes = sizes(session, arguments.max_size, document);
    document.latency = latency::curve(session, &sizes, session.pages)?;
    document.steps = steps(&session.topology, &document.latency);
    Ok(())
}

fn bandwidth(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.bandwidth = or_say(bandwidth::all(session, &Kernel::all(), None), &mut document.notes)?;
    Ok(())
}

fn coherence(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.coherence = or_say(coherence::all(session), &mut document.notes)?;
    document.notes.extend(coherence::doubt(session, &document.coherence));
    Ok(())
}

fn core_to_core(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.c2c = or_say(c2c::matrix(session), &mut document.notes)?;
    Ok(())
}

fn numa(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.numa = or_say(numa::matrix(session), &mut document.notes)?;
    Ok(())
}

fn loaded_latency(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.loaded_latency = or_say(loaded::curve(session), &mut document.notes)?;
    Ok(())
}

fn tlb(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.tlb = tlb::curve(session)?;
    Ok(())
}

fn throughput(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    document.throughput = throughput::all(session)?;
    Ok(())
}

fn counters(session: &Session, document: &mut Document, _: &AllArguments) -> Result<(), Failure> {
    let mut counting = Counting::choose(BackendArgument::Auto)?;
    document.counters = Some(counting.report(session)?.0);
    document.notes.extend(counting.absent.map(|error| error.to_string()));
    Ok(())
}

/// Figures that depend on where two CPUs are, of a part in which that changed, are not stable, whatever their rounds say.
fn distrust(document: &mut Document) {
    let moved: Vec<&str> = moves(&document.placement).map(|found| found.was.before.as_str()).collect();
    if moved.contains(&"coherence") {
        document.coherence.iter_mut().for_each(|point| point.stable = false);
    }
    if moved.contains(&"core to core") {
        document.c2c.iter_mut().for_each(|point| point.stable = false);
    }
    if moved.contains(&"bandwidth") {
        document.bandwidth.iter_mut().filter(|point| point.cpus.len() > 1).for_each(|point| point.stable = false);
    }
    document.notes.extend(moves(&document.placement).map(|found| found.sentence()));
}

/// Nothing, and a sentence about it, where the machine lacks something.
fn or_say<T>(measured: Result<Vec<T>, Error>, notes: &mut Vec<String>) -> Result<Vec<T>, Failure> {
    match measured {
        Err(error) if error.is_absence() => {
            notes.push(error.to_string());
            Ok(Vec::new())
        }
        other => Ok(other?),
    }
}

//! `bf replay`

use crate::{
    args::ReplayArguments,
    failure::Failure,
    merge,
    output::{counted, print, remark, spare},
};
use bf_postproc::{
    replay::{Options, replay},
    size,
};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// What was replayed.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    input: String,
    format: String,
    output: String,
    accesses: u64,
    threads: u32,
    line_sizes: Vec<u32>,
    max_set_bits: u32,
    max_ways: u32,
    /// Part of the lines that were followed; absent if all.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<f64>,
    profile_bytes: u64,
    remarks: Vec<String>,
}

/// Replays a trace into a profile.
pub fn command(arguments: &ReplayArguments) -> Result<(), Failure> {
    let path = &arguments.trace;
    let failed = |error: &dyn std::fmt::Display| Failure::file("replay", path, error);
    let options = Options {
        line_sizes: Some(arguments.line_size.clone()).filter(|sizes| !sizes.is_empty()),
        max_set_bits: arguments.max_set_bits,
        max_ways: arguments.max_ways,
        sample: arguments.sample.as_ref().and_then(|rate| rate.sample),
        format: arguments.from,
        din_size: arguments.din_size.into(),
    };
    spare(&arguments.output, path, "the trace that is read")?;
    let source = open(path)?;
    let replayed = replay(source.reader, &source.name, source.written, &options).map_err(|error| failed(&error))?;
    for text in &replayed.remarks {
        remark(&format!("{}: {text}", path.display()));
    }
    let profile_bytes = merge::write(&arguments.output, &replayed.profile)?;
    let process = &replayed.profile.processes[0];
    let whole = process.lines.iter().map(|data| (data.max_set_bits, data.max_ways));
    let sampled = process.sampled.iter().map(|data| (data.max_set_bits, data.max_ways));
    let (max_set_bits, max_ways) = whole.chain(sampled).next().unwrap_or_default();
    let answer = Answer {
        schema: "bf.replay/1",
        input: source.name,
        format: replayed.format.to_string(),
        output: arguments.output.display().to_string(),
        accesses: process.meta.accesses,
        threads: process.meta.threads,
        line_sizes: process.line_sizes().collect(),
        max_set_bits,
        max_ways,
        sampled: process.sampled.first().map(|data| 0.5_f64.powi(data.sampling.rate_bits as i32)),
        profile_bytes,
        remarks: replayed.remarks,
    };
    let text = |answer: &Answer| {
        format!(
            "{}: {} of {} from {} ({}){}, {}\n",
            answer.output,
            counted(answer.accesses, "access").replace("accesss", "accesses"),
            counted(answer.threads.into(), "thread"),
            answer.input,
            answer.format,
            answer.sampled.map_or_else(String::new, |rate| format!(", 1 line in {} followed", 1.0 / rate)),
            size::human(answer.profile_bytes)
        )
    };
    print(arguments.format.format, &[answer], false, text, |answer| serde_json::to_value(answer).into_iter().collect())
}

/// A trace to read.
pub struct Source {
    /// Its bytes, decompressed.
    pub reader: Box<dyn BufRead>,
    /// What to call it.
    pub name: String,
    /// When it was written, nanoseconds since the epoch: tells apart traces of one name.
    pub written: u64,
}

/// Opens a trace: `-` is stdin; gzip and zstd are unpacked.
pub fn open(path: &Path) -> Result<Source, Failure> {
    let failed = |error: io::Error| Failure::file("read", path, error);
    let (name, written, mut reader): (_, _, Box<dyn BufRead>) = if path == Path::new("-") {
        ("stdin".to_owned(), SystemTime::now(), Box::new(io::stdin().lock()))
    } else {
        let file = File::open(path).map_err(failed)?;
        let written = file.metadata().and_then(|data| data.modified()).map_err(failed)?;
        (path.display().to_string(), written, Box::new(BufReader::with_capacity(1 << 16, file)))
    };
    let reader: Box<dyn BufRead> = match reader.fill_buf().map_err(failed)? {
        [0x1f, 0x8b, ..] => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(reader))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(reader).map_err(failed)?))
        }
        _ => reader,
    };
    let written = written.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
    Ok(Source { reader, name, written })
}

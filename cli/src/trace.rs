//! `bf trace`

use crate::{
    args::TraceArguments,
    failure::Failure,
    output::{number, remark},
    replay::open,
};
use bf_postproc::replay::{Format, ReplayError, print};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

/// Prints a binary trace for other simulators.
pub fn command(arguments: &TraceArguments) -> Result<(), Failure> {
    if arguments.to == Format::Bf {
        return Err(Failure::Usage(
            "a trace of BF_TRACE is in bf's format already; choose din, lackey or json".to_owned(),
        ));
    }
    let source = open(&arguments.trace)?;
    let output: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(File::create(path).map_err(|error| Failure::file("write", path, error))?),
        None => Box::new(io::stdout().lock()),
    };
    let output = BufWriter::with_capacity(1 << 16, output);
    let printed =
        print(source.reader, arguments.to, arguments.din_size.into(), output).map_err(|error| match error {
            ReplayError::Io(error) => Failure::from(error),
            error => Failure::file("read", &arguments.trace, error),
        })?;
    if printed.truncated {
        remark("the trace ends early; what it holds was printed");
    }
    if printed.uncounted > 0 {
        remark(&format!(
            "{} accesses were made while counting was off; they are printed too",
            number(printed.uncounted)
        ));
    }
    if printed.threads > 1 && arguments.to != Format::Json {
        remark(&format!("{} threads appear as one: {} knows no threads, json does", printed.threads, arguments.to));
    }
    Ok(())
}

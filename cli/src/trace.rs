//! `bf trace`

use crate::{
    args::TraceArguments,
    failure::Failure,
    output::{number, remark, spare, write_to},
    replay::open,
};
use bf_postproc::replay::{Format, Printed, ReplayError, print};
use std::{io::BufWriter, path::Path};

/// Prints a binary trace for other simulators.
pub fn command(arguments: &TraceArguments) -> Result<(), Failure> {
    if arguments.to == Format::Bf {
        return Err(Failure::Usage(
            "a trace of BF_TRACE is in bf's format already; choose din, lackey or json".to_owned(),
        ));
    }
    let to = arguments.output.as_deref().unwrap_or(Path::new("-"));
    spare(to, &arguments.trace, "the trace that is read")?;
    let source = open(&arguments.trace)?;
    let mut printed = Printed::default();
    write_to(to, |output| {
        let output = BufWriter::with_capacity(1 << 16, output);
        printed =
            print(source.reader, arguments.to, arguments.din_size.into(), output).map_err(|error| match error {
                ReplayError::Io(error) => Failure::from(error),
                error => Failure::file("read", &arguments.trace, error),
            })?;
        Ok(())
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

//! `bf`: asks profiles what caches would have done, and makes profiles from traces.
//!
//! Comes in: a command line, profiles, traces, machine descriptions. Goes out: answers on stdout, one-line errors and
//! remarks on stderr. What is computed is computed in `postproc`, what is measured in `machine`; here are only words, tables
//! and files.
#![forbid(unsafe_code)]

mod annotate;
mod args;
mod by;
mod change;
mod columns;
mod compare;
mod counters;
mod explore;
mod export;
mod failure;
mod generate;
mod input;
mod machine;
mod measure;
mod merge;
mod names;
mod output;
mod page;
mod patterns;
mod phases;
mod plot;
mod query;
mod replay;
mod report;
mod run;
mod serve;
mod sharing;
mod sweep;
mod topology;
mod trace;

use args::{Arguments, Command};
use clap::Parser;
use failure::Failure;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

fn main() -> ExitCode {
    let done = match Arguments::try_parse() {
        Ok(arguments) => command(arguments.command),
        Err(error) if error.use_stderr() => error.exit(),
        // Help, and the version.
        Err(answer) => answer.print().and_then(|()| io::stdout().flush()).map_err(Failure::from),
    };
    match done {
        // Whoever closed the pipe has read enough.
        Ok(()) | Err(Failure::Pipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output::remark(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

fn command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Report(arguments) => report::command(&arguments),
        Command::Annotate(arguments) => annotate::command(&arguments),
        Command::Export(arguments) => export::command(&arguments),
        Command::Query(arguments) => query::command(&arguments),
        Command::Sharing(arguments) => sharing::command(&arguments),
        Command::Sweep(arguments) => sweep::command(&arguments),
        Command::Compare(arguments) => compare::command(&arguments),
        Command::Serve(arguments) => serve::command(&arguments),
        Command::Merge(arguments) => merge::command(&arguments),
        Command::Replay(arguments) => replay::command(&arguments),
        Command::Trace(arguments) => trace::command(&arguments),
        Command::Run(arguments) => run::command(&arguments),
        Command::Machines(arguments) => machine::command(&arguments),
        Command::Doctor(arguments) => measure::doctor(&arguments),
        Command::Machine(arguments) => measure::machine(&arguments),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { out } => generate::man(&out),
    }
}

//! `bf machine counters`: which events may be believed.

use super::args::{BackendArgument, CountersArguments};
use crate::{
    failure::Failure,
    input,
    output::{check_writable, print, row, table, write_file},
};
use bf_machine::{
    Error, Session, Topology,
    counters::{
        event::{TABLES, events},
        exercise,
        perf::Perf,
        recording::{Recorded, Recording, record},
        timed::{Cluster, TimedLoads},
        trust::{Report, TrustReport, Verdict},
    },
};
use serde_json::Value;

/// Counts, judges and prints. Without counters timed loads stand in, and the exit code says so.
pub fn command(arguments: &CountersArguments) -> Result<(), Failure> {
    arguments.record.iter().try_for_each(|path| check_writable(path))?;
    let (answer, recording, absent) = match &arguments.replay {
        Some(path) => {
            let text = input::text(path)?;
            let recording = Recording::parse(&text).map_err(|error| Failure::file("read", path, error))?;
            let mut recorded = Recorded(recording);
            let mut exercises = recorded.exercises();
            let machine = recorded.0.machine.clone();
            let mut recording = record(&machine, &mut recorded, &mut exercises)?;
            recording.notes = recorded.0.notes;
            (TrustReport::of(&recording, Vec::new(), Vec::new()), recording, None)
        }
        None => live(arguments)?,
    };
    if let Some(path) = &arguments.record {
        write_file(path, recording.to_text())?;
    }
    print(arguments.measuring.output.format, &[answer], false, text, |answer| {
        answer.events.iter().flat_map(rows).collect()
    })?;
    absent.map_or(Ok(()), |error| Err(error.into()))
}

/// Counts on this machine; the error is that there are no counters and timed loads stand in.
fn live(arguments: &CountersArguments) -> Result<(TrustReport, Recording, Option<Error>), Failure> {
    let mut counting = Counting::choose(arguments.backend)?;
    let (mut session, _) = super::figures::begin(&arguments.measuring)?;
    session.survey(None)?;
    let (answer, recording) = counting.report(&session)?;
    Ok((answer, recording, counting.absent))
}

/// What counts here.
#[derive(Debug, Default)]
pub struct Counting {
    /// Performance counters; `None` for timed loads.
    perf: Option<Perf>,
    /// Tables that events come from.
    tables: Vec<String>,
    /// Why timed loads stand in, where counters were wanted.
    pub absent: Option<Error>,
}

impl Counting {
    /// Chooses what counts on this machine.
    ///
    /// # Errors
    /// Only performance counters are wanted, and there are none.
    pub fn choose(wanted: BackendArgument) -> Result<Self, Failure> {
        if wanted == BackendArgument::Timed {
            return Ok(Self::default());
        }
        let topology = Topology::here();
        let (tables, events) = events(TABLES, topology.identity.as_ref()).map_err(Failure::Failed)?;
        match Perf::new(&topology, events) {
            Ok(perf) => Ok(Self { perf: Some(perf), tables, absent: None }),
            Err(error) if wanted == BackendArgument::Perf => Err(error.into()),
            Err(error) => Ok(Self { absent: Some(error), ..Self::default() }),
        }
    }

    /// Counts all exercises, and judges.
    ///
    /// # Errors
    /// There is not enough memory, or nothing can be counted.
    pub fn report(&mut self, session: &Session) -> Result<(TrustReport, Recording), Failure> {
        let mut exercises = exercise::all(session)?;
        let machine = &session.topology.cpu;
        let (recording, levels) = match &mut self.perf {
            Some(perf) => (record(machine, perf, &mut exercises)?, Vec::new()),
            None => {
                let mut timed = TimedLoads::calibrate(&mut exercises);
                (record(machine, &mut timed, &mut exercises)?, timed.clusters().to_vec())
            }
        };
        Ok((TrustReport::of(&recording, self.tables.clone(), levels), recording))
    }
}

fn rows(report: &Report) -> Vec<Value> {
    let front =
        [("event", report.event.clone().into()), ("verdict", serde_json::to_value(report.verdict).unwrap_or_default())];
    report.trials.iter().filter_map(|trial| row(&front, trial).ok()).collect()
}

pub fn text(answer: &TrustReport) -> String {
    let mut text = format!("  {}, {}\n", answer.machine, answer.backend);
    for note in &answer.notes {
        text += &format!("  note: {note}\n");
    }
    if !answer.tables.is_empty() {
        text += &format!("  events of {} and the kernel's own\n", answer.tables.join(", "));
    }
    if !answer.levels.is_empty() {
        let header = ["level", "median ticks", "up to", "told apart"].map(str::to_owned).to_vec();
        let row = |level: &Cluster| {
            let limit = level.limit_ticks.map_or("any".to_owned(), |limit| limit.to_string());
            vec![
                level.levels.join(" or "),
                level.median_ticks.to_string(),
                limit,
                format!("{:.1} %", level.confidence * 100.0),
            ]
        };
        text += &table(header, answer.levels.iter().map(row).collect());
    }
    let header = ["event", "claims", "counted/true", "bounds", "leak", "linear", "time", "verdict", "measures"];
    let row = |report: &Report| {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        vec![
            report.event.clone(),
            report.claims.clone(),
            figure(report.ratio),
            report.ratio_bounds.map_or("-".to_owned(), |(least, greatest)| format!("{least:.3}..{greatest:.3}")),
            figure(report.leak),
            report.linear.map_or("-", |linear| if linear { "yes" } else { "no" }).to_owned(),
            format!("{:.0} %", report.share * 100.0),
            match report.verdict {
                Verdict::Trust => "trust",
                Verdict::Corrected => "corrected",
                Verdict::DoNotUse => "do not use",
                Verdict::Untested => "untested",
            }
            .to_owned(),
            report.measures.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    if answer.events.is_empty() {
        return text + "  no level can be told from all others here, so nothing is counted\n";
    }
    text + &table(header.map(str::to_owned).to_vec(), answer.events.iter().map(row).collect())
}

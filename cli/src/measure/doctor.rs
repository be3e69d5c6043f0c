//! `bf doctor`

use super::args::DoctorArguments;
use crate::{failure::Failure, output::print};
use bf_machine::doctor::{Finding, State, examine};
use serde::Serialize;

/// All findings.
#[derive(Debug, Serialize)]
struct Examination {
    schema: &'static str,
    findings: Vec<Finding>,
}

/// Columns that a finding's text begins at and ends before.
const INDENT: usize = 19;
const WIDTH: usize = 120;

/// Says what can be measured here. Fails with the code of absent hardware if something cannot be.
pub fn command(arguments: &DoctorArguments) -> Result<(), Failure> {
    let examination = Examination { schema: "bf.doctor/1", findings: examine() };
    let rows = |examination: &Examination| {
        examination.findings.iter().filter_map(|finding| serde_json::to_value(finding).ok()).collect()
    };
    print(arguments.output.format, std::slice::from_ref(&examination), false, text, rows)?;
    let absent: Vec<_> = examination.findings.iter().filter(|finding| finding.state == State::Absent).collect();
    match &absent[..] {
        [] => Ok(()),
        absent => {
            let subjects: Vec<_> = absent.iter().map(|finding| finding.subject).collect();
            Err(Failure::Absent(format!("not to be had here: {}", subjects.join(", "))))
        }
    }
}

fn text(examination: &Examination) -> String {
    let mut text = String::new();
    for finding in &examination.findings {
        let state = match finding.state {
            State::Good => "good",
            State::Limited => "limited",
            State::Absent => "absent",
        };
        text += &wrapped(&format!("{:17} ", finding.subject), &format!("{state}: {}", finding.finding));
        if let Some(mend) = &finding.mend {
            text += &wrapped("", &format!("mend: {mend}"));
        }
    }
    text
}

/// Text from a column on, its first line beside `front`.
fn wrapped(front: &str, text: &str) -> String {
    let mut lines = vec![format!("{front:INDENT$}")];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.len() > INDENT && line.chars().count() + word.chars().count() >= WIDTH {
            lines.push(format!("{:INDENT$}{word} ", ""));
        } else {
            *line += word;
            *line += " ";
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_findings_stay_in_their_column() {
        let text = wrapped("subject", &"word ".repeat(60));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() < WIDTH));
        assert!(lines[0].starts_with("subject            word") && lines[1].starts_with("                   word"));
        assert_eq!(text.split_whitespace().count(), 61);
    }
}

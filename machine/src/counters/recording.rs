//! What a backend counted, as a text file: a machine's counters can be judged anywhere.
//!
//! ```text
//! bf-counters 1
//! machine Intel(R) Xeon(R) …
//! backend perf_event_open
//! note where it comes from
//! event l1d.replacement claims into:1
//! exercise load level 2 of 3 passes 1 loads 4096 stores 0 lines 4096
//! l1d.replacement 4101 1200000 1200000
//! ```
//!
//! Below an exercise stands a line for each event that was counted: its count, and the nanoseconds it was to count and did.

use super::{
    Backend, Reading,
    event::{Code, Event, Quantity},
    exercise::{Exercise, Facts, Way},
};
use crate::error::Error;
use std::fmt::Write as _;

/// What was counted during one exercise, event by event.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What was done.
    pub facts: Facts,
    /// A reading for each of the recording's events.
    pub readings: Vec<Option<Reading>>,
}

/// All that a backend counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The processor's name.
    pub machine: String,
    /// The backend, in words.
    pub backend: String,
    /// Remarks, such as where it comes from.
    pub notes: Vec<String>,
    /// Names and claims.
    pub events: Vec<(String, Quantity)>,
    /// Exercise by exercise.
    pub runs: Vec<Run>,
}

/// Runs all exercises under a backend.
///
/// # Errors
/// Nothing can be counted at all.
pub fn record(
    machine: &str,
    backend: &mut dyn Backend,
    exercises: &mut [Box<dyn Exercise>],
) -> Result<Recording, Error> {
    let events = backend.events().into_iter().map(|event| (event.name, event.claims)).collect();
    let mut runs = Vec::new();
    for exercise in exercises {
        let readings = backend.count(exercise.as_mut())?;
        runs.push(Run { facts: exercise.facts(), readings });
    }
    Ok(Recording { machine: machine.to_owned(), backend: backend.describe(), notes: Vec::new(), events, runs })
}

fn quantity_text(quantity: Quantity) -> String {
    match quantity {
        Quantity::Loads => "loads".to_owned(),
        Quantity::Stores => "stores".to_owned(),
        Quantity::Accesses => "accesses".to_owned(),
        Quantity::Into(level) => format!("into:{level}"),
        Quantity::OutOf(level) => format!("out:{level}"),
        Quantity::From(0) => "from:memory".to_owned(),
        Quantity::From(level) => format!("from:{level}"),
    }
}

impl Recording {
    /// As a text file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("bf-counters 1\nmachine {}\nbackend {}\n", self.machine, self.backend);
        for note in &self.notes {
            text += &format!("note {note}\n");
        }
        for (name, claims) in &self.events {
            text += &format!("event {name} claims {}\n", quantity_text(*claims));
        }
        for Run { facts, readings } in &self.runs {
            let Facts { way, level, caches, passes, loads, stores, lines } = facts;
            let way = way.name();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "exercise {way} level {level} of {caches} passes {passes} loads {loads} stores {stores} lines {lines}"
            );
            for ((name, _), reading) in self.events.iter().zip(readings) {
                if let Some(Reading { count, enabled_ns, running_ns }) = reading {
                    let _ = writeln!(text, "{name} {count} {enabled_ns} {running_ns}");
                }
            }
        }
        text
    }

    /// From a text file.
    ///
    /// # Errors
    /// It is none, or has a mistake: which line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        if lines.next().is_none_or(|(_, line)| line.trim() != "bf-counters 1") {
            return Err(Error::Recording("it does not begin with `bf-counters 1`".to_owned()));
        }
        let empty = String::new;
        let mut recording =
            Self { machine: empty(), backend: empty(), notes: Vec::new(), events: Vec::new(), runs: Vec::new() };
        for (index, line) in lines {
            let read = recording.line(line);
            read.ok_or_else(|| Error::Recording(format!("line {} is not understood: {line}", index + 1)))?;
        }
        Ok(recording)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.trim().split_once(' ')?;
        match word {
            "machine" => self.machine = rest.to_owned(),
            "backend" => self.backend = rest.to_owned(),
            "note" => self.notes.push(rest.to_owned()),
            "event" => {
                let (name, claims) = rest.split_once(" claims ")?;
                self.events.push((name.to_owned(), claims.parse().ok()?));
            }
            "exercise" => {
                let facts = parse_facts(rest)?;
                self.runs.push(Run { facts, readings: vec![None; self.events.len()] });
            }
            name => {
                let index = self.events.iter().position(|(event, _)| event == name)?;
                let mut numbers = rest.split_whitespace().map(str::parse);
                let mut next = || numbers.next()?.ok();
                let reading = Reading { count: next()?, enabled_ns: next()?, running_ns: next()? };
                *self.runs.last_mut()?.readings.get_mut(index)? = Some(reading);
            }
        }
        Some(())
    }
}

fn parse_facts(text: &str) -> Option<Facts> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let way = Way::ALL.into_iter().find(|way| Some(&way.name()) == words.first())?;
    let after =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)?.parse::<u64>().ok());
    Some(Facts {
        way,
        level: u32::try_from(after("level")?).ok()?,
        caches: u32::try_from(after("of")?).ok()?,
        passes: after("passes")?,
        loads: after("loads")?,
        stores: after("stores")?,
        lines: after("lines")?,
    })
}

/// A recording as a backend: counts what was counted then, for the exercises done then.
#[derive(Clone, Debug)]
pub struct Recorded(pub Recording);

/// An exercise that was done on the recorded machine.
struct Done(Facts);

impl Exercise for Done {
    fn facts(&self) -> Facts {
        self.0.clone()
    }

    fn prepare(&mut self) {}

    fn go(&mut self) {}

    fn go_timed(&mut self, _: &mut dyn FnMut(u64)) -> bool {
        false
    }
}

impl Recorded {
    /// The exercises done then.
    #[must_use]
    pub fn exercises(&self) -> Vec<Box<dyn Exercise>> {
        self.0.runs.iter().map(|run| Box::new(Done(run.facts.clone())) as Box<dyn Exercise>).collect()
    }
}

impl Backend for Recorded {
    fn describe(&self) -> String {
        format!("recorded: {}", self.0.backend)
    }

    fn events(&self) -> Vec<Event> {
        let event =
            |(name, claims): &(String, Quantity)| Event { name: name.clone(), code: Code::Own, claims: *claims };
        self.0.events.iter().map(event).collect()
    }

    fn count(&mut self, exercise: &mut dyn Exercise) -> Result<Vec<Option<Reading>>, Error> {
        let facts = exercise.facts();
        let run = self.0.runs.iter().find(|run| run.facts == facts);
        run.map(|run| run.readings.clone())
            .ok_or_else(|| Error::Recording(format!("it has no exercise {} {}", facts.way.name(), facts.place())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_comes_back_from_its_text() {
        let text = "bf-counters 1\nmachine A B\nbackend perf\nnote made up\nevent x.y claims into:1\nevent z claims loads\n\
                    exercise load level 2 of 3 passes 1 loads 16 stores 0 lines 16\nx.y 17 100 50\n";
        let recording = Recording::parse(text).unwrap();
        assert_eq!(recording.to_text(), text);
        assert_eq!(recording.runs[0].readings, [Some(Reading { count: 17, enabled_ns: 100, running_ns: 50 }), None]);
        let mut recorded = Recorded(recording.clone());
        let mut exercises = recorded.exercises();
        let again = record("A B", &mut recorded, &mut exercises).unwrap();
        assert_eq!((again.runs, again.events), (recording.runs, recording.events));
    }

    #[test]
    fn mistakes_are_named_by_line() {
        for (text, word) in [
            ("nonsense", "bf-counters"),
            ("bf-counters 1\nevent x claims nothing", "line 2"),
            ("bf-counters 1\n# a remark\nexercise fly level 1", "line 3"),
            ("bf-counters 1\nx 1 2 3", "line 2"),
        ] {
            assert!(Recording::parse(text).unwrap_err().to_string().contains(word), "{text}");
        }
    }
}

//! The search itself: what is asked, and in which form it goes out.

use super::{
    args::{SpaceArguments, SweepFormat},
    lines::{Line, Rows},
    text,
};
use crate::{
    args::SweepArguments,
    columns::{Cell, Table as Parquet},
    failure::Failure,
    input::{self, Loaded},
    measure::progress::Bar,
    output::{counted, remark, write_to},
};
use bf_machine::progress::Watch as _;
use bf_postproc::explore::{
    Budget, CostError, Goal, Hierarchy, Objective, Space, Table, Wanted,
    search::{Counts, Found, Search},
    study::{Doubled, sensitivity},
};
use std::{
    io::{IsTerminal as _, Write},
    path::Path,
};

/// Hierarchies that are shown if the user does not say how many.
const TOP: usize = 10;
/// Beside the bar.
const SEARCHING: &str = "searching";

/// Answers the hierarchies that the command line allows.
pub fn command(arguments: &SweepArguments) -> Result<(), Failure> {
    let asked = &arguments.space;
    let levels = asked.levels();
    let names: Vec<String> = levels.iter().map(|level| level.name.clone()).collect();
    let mut goal = goal(asked)?;
    let limits = goal.limits.iter().map(|(objective, _)| objective);
    let objectives: Vec<_> = [&asked.objective].into_iter().chain(&asked.pareto).chain(limits).cloned().collect();
    for objective in &objectives {
        goal.check(objective, &names).map_err(Failure::Usage)?;
    }
    goal.keep_needed(&objectives);
    let to = asked.output.as_deref().unwrap_or(Path::new("-"));
    if asked.format == SweepFormat::Parquet && to == Path::new("-") {
        return Err(Failure::Usage("--format parquet makes a file; name it with --output FILE.parquet".to_owned()));
    }
    if !arguments.ways.is_empty() || !arguments.line.is_empty() {
        let message = "--ways and --line are for single caches; of a level write --l1 SIZES:WAYS:LINES";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut all = input::load(&arguments.input)?;
    if all.len() > 1 {
        return Err(Failure::Usage("--each would put several searches into one: ask one profile at a time".to_owned()));
    }
    let Some(loaded) = all.pop() else { return Ok(()) };
    let space = loaded.answer(Space::new(&loaded.profile, &levels, &arguments.tags))?;
    let because = space.skipped_because.as_deref().unwrap_or_default();
    if space.is_empty() {
        return Err(Failure::Usage(format!("no cache is left for some level; the first that cannot be: {because}")));
    }
    if space.skipped > 0 {
        remark(&format!("{} left out; the first: {because}", counted(space.skipped as u64, "cache")));
    }
    let Some(hierarchies) = space.len() else {
        return Err(Failure::Usage("that is more than 2^40 hierarchies; narrow the ranges".to_owned()));
    };
    let search = Search::new(&space, &goal).map_err(|error| table_failure(&error))?;
    let question = Question {
        loaded: &loaded,
        asked,
        tags: &arguments.tags,
        space: &space,
        search: &search,
        goal: &goal,
        hierarchies,
    };
    match asked.format {
        SweepFormat::Parquet => question.parquet(to),
        _ => write_to(to, |out| question.write(arguments, out)),
    }
}

/// The tables that the command line names.
pub fn goal(asked: &SpaceArguments) -> Result<Goal, Failure> {
    let table = |path: &Path| {
        let (text, origin) = (input::text(path)?, path.display().to_string());
        let json = path.extension().is_some_and(|extension| extension == "json");
        let table = if json { Table::measured(&text, &origin) } else { Table::accesses(&text, &origin) };
        table.map_err(|error| table_failure(&error))
    };
    let mut budgets: Vec<Budget> = Vec::new();
    for path in &asked.budget {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if !matches!(name.parse(), Ok(Objective::Cost(_))) {
            return Err(Failure::Usage(format!(
                "a budget cannot be called {name}, as objectives are; rename {}",
                path.display()
            )));
        }
        let budget = Budget::parse(&input::text(path)?, &name, &path.display().to_string());
        budgets.push(budget.map_err(|error| table_failure(&error))?);
        if budgets.iter().filter(|budget| budget.name == name).count() > 1 {
            return Err(Failure::Usage(format!("two budgets are called {name}; rename one of the files")));
        }
    }
    Ok(Goal {
        latency: asked.latency.as_deref().map(table).transpose()?,
        energy: asked.energy.as_deref().map(table).transpose()?,
        budgets,
        limits: asked.limit.clone(),
    })
}

fn table_failure(error: &CostError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Everything that is known once the candidates are counted.
pub struct Question<'a> {
    pub loaded: &'a Loaded,
    pub asked: &'a SpaceArguments,
    pub tags: &'a [String],
    pub space: &'a Space<'a>,
    pub search: &'a Search<'a>,
    pub goal: &'a Goal,
    pub hierarchies: u64,
}

impl Question<'_> {
    fn write(&self, arguments: &SweepArguments, out: &mut dyn Write) -> Result<(), Failure> {
        match self.asked.format {
            SweepFormat::Text => {
                let outcome = self.best(self.asked.top.unwrap_or(TOP));
                let doubled = match outcome.best.first() {
                    Some(best) => self.doubled(best, arguments)?,
                    None => Vec::new(),
                };
                out.write_all(text::tables(self, &outcome, &doubled).as_bytes())?;
            }
            SweepFormat::Json => self.json(arguments, out)?,
            SweepFormat::Csv | SweepFormat::Parquet => {
                let mut writer = csv::Writer::from_writer(out);
                let rows = Rows::new(self);
                writer.write_record(rows.columns().iter().map(|(name, _)| name))?;
                let take = |row: Vec<Cell>| Ok(writer.write_record(row.iter().map(ToString::to_string))?);
                self.rows(&rows, take)?;
                writer.flush()?;
                return Ok(());
            }
        }
        Ok(out.flush()?)
    }

    fn parquet(&self, path: &Path) -> Result<(), Failure> {
        let rows = Rows::new(self);
        let mut table = Parquet::new(path, "bf.explore/1", self.tags, rows.columns())?;
        self.rows(&rows, |row| table.row(row))?;
        table.complete()?.finish()
    }

    /// Whether every hierarchy is wanted, in order.
    fn all(&self) -> bool {
        self.asked.top.is_none() && self.asked.pareto.is_empty()
    }

    fn best(&self, top: usize) -> bf_postproc::explore::Outcome {
        let bar = Bar::new(SEARCHING);
        let wanted = Wanted { objective: self.asked.objective.clone(), top, front: self.asked.pareto.clone() };
        self.search.best(&wanted, &|done| bar.advanced(done as f64 / self.hierarchies as f64))
    }

    /// The best ones, or the front if one was asked for and no number of best ones.
    fn few(&self) -> Vec<Found> {
        let outcome = self.best(self.asked.top.unwrap_or(0));
        self.remark(&outcome.counts);
        if self.asked.pareto.is_empty() { outcome.best } else { outcome.front }
    }

    fn doubled(&self, found: &Found, arguments: &SweepArguments) -> Result<Vec<Doubled>, Failure> {
        let caches = self.space.caches(&self.space.picks(found.index));
        let SpaceArguments { objective, .. } = self.asked;
        Ok(sensitivity(&self.loaded.profile, &caches, &arguments.tags, self.goal, objective)?)
    }

    fn json(&self, arguments: &SweepArguments, out: &mut dyn Write) -> Result<(), Failure> {
        if !self.all() {
            for found in self.few() {
                let answer = self.space.answer(&self.space.picks(found.index))?;
                let doubled = if self.asked.sensitivity { Some(self.doubled(&found, arguments)?) } else { None };
                serde_json::to_writer(&mut *out, &Line::new(self, &found, &answer.levels, doubled))?;
                writeln!(out)?;
            }
            return Ok(());
        }
        let make = |made: &mut Job, found: &Found, hierarchy: Hierarchy<'_>| {
            let Ok(bytes) = &mut made.0 else { return };
            let line = self.space.answer(hierarchy.picks).map_err(Failure::from).and_then(|answer| {
                Ok(serde_json::to_writer(&mut *bytes, &Line::new(self, found, &answer.levels, None))?)
            });
            match line {
                Ok(()) => bytes.push(b'\n'),
                Err(failure) => made.0 = Err(failure),
            }
        };
        self.stream(make, |made| Ok(out.write_all(&made.0?)?))
    }

    fn rows(&self, rows: &Rows<'_>, mut take: impl FnMut(Vec<Cell>) -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.all() {
            for found in self.few() {
                let picks = self.space.picks(found.index);
                let answer = self.space.answer(&picks)?;
                let figures: Vec<_> = answer.levels.iter().map(Into::into).collect();
                take(rows.row(&found, &picks, &figures))?;
            }
            return Ok(());
        }
        self.stream(
            |made: &mut Vec<_>, found, hierarchy| made.push(rows.row(found, hierarchy.picks, hierarchy.figures)),
            |made| made.into_iter().try_for_each(&mut take),
        )
    }

    fn stream<B: Default + Send>(
        &self,
        make: impl Fn(&mut B, &Found, Hierarchy<'_>) + Sync,
        take: impl FnMut(B) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // No bar amid the lines of an answer.
        let bar = (self.asked.output.is_some() || !std::io::stdout().is_terminal()).then(|| Bar::new(SEARCHING));
        let progress = |done| {
            bar.iter().for_each(|bar| bar.advanced(done as f64 / self.hierarchies as f64));
        };
        let counts = self.search.all(&self.asked.objective, &progress, make, take)?;
        drop(bar);
        self.remark(&counts);
        Ok(())
    }

    fn remark(&self, counts: &Counts) {
        if counts.allowed < self.hierarchies {
            remark(&text::counts(self.hierarchies, counts));
        }
    }
}

/// Lines that a job made, or why it could not.
struct Job(Result<Vec<u8>, Failure>);

impl Default for Job {
    fn default() -> Self {
        Self(Ok(Vec::new()))
    }
}

//! Design spaces: hierarchies a second, beside questions one by one, and whether both answer alike.

use crate::{median, sampling, table, traces::Random};
use anyhow::{Context as _, Result, ensure};
use bf_collect::{Bucket, Config, Session};
use bf_postproc::{
    Query,
    explore::{Goal, LevelRange, Objective, Space, Wanted, search::Search},
    query,
};
use bf_profile::{Process, Profile};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Accesses of the profile.
    #[arg(long, default_value_t = ACCESSES)]
    accesses: usize,
    /// Hierarchies that are asked about one by one too, chosen at random.
    #[arg(long, default_value_t = SAMPLE)]
    sample: usize,
    /// Traces to make profiles of; all that touch much memory if none is named.
    names: Vec<String>,
}

const ACCESSES: usize = 10_000_000;
const SAMPLE: usize = 1000;

impl Default for Args {
    fn default() -> Self {
        Self { accesses: ACCESSES, sample: SAMPLE, names: Vec::new() }
    }
}

/// Profiles with distances of every length.
const NAMES: [&str; 3] = ["molecular", "random-1G", "hash-btree"];
/// 80 x 64 x 256 hierarchies, most of whose caches have set counts that are no powers of two.
const LEVELS: [&str; 3] = ["8K..128K+8K:1..16", "256K..4M+256K:4..32", "4M..256M+4M:8..64:shared"];

const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the table.
///
/// # Errors
/// There is no trace of a given name, or the space answers otherwise than a query.
pub fn run(args: &Args, rounds: usize) -> Result<()> {
    let names: Vec<&str> = match args.names.is_empty() {
        true => NAMES.to_vec(),
        false => args.names.iter().map(String::as_str).collect(),
    };
    let header = [
        "trace",
        "hierarchies",
        "counting s",
        "searching s",
        "M hierarchies/s",
        "one query us",
        "query / hierarchy",
        "compared, equal",
    ];
    let mut rows = table(&header);
    for name in names {
        eprintln!("measuring {name}");
        rows.add_row(one(name, args, rounds)?);
    }
    println!("{rows}");
    Ok(())
}

fn one(name: &str, args: &Args, rounds: usize) -> Result<Vec<String>> {
    let profile = profile(name, args.accesses)?;
    let ranges = (1..).zip(LEVELS).map(|(number, text)| LevelRange::parse(number, text));
    let ranges = ranges.collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::msg)?;
    let goal = Goal::default();
    let wanted = Wanted { objective: Objective::Traffic(None), top: 20, front: Vec::new() };
    let (mut counting, mut searching) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        let space = Space::new(&profile, &ranges, &[])?;
        counting.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let found = Search::new(&space, &goal)?.best(&wanted, &|_| {});
        searching.push(start.elapsed().as_secs_f64());
        ensure!(found.best.len() == 20, "too few are found");
    }
    let space = Space::new(&profile, &ranges, &[])?;
    let all = space.len().context("too many hierarchies")?;
    let (mut random, mut queries) = (Random(5), Duration::ZERO);
    for _ in 0..args.sample {
        let picks = space.picks(random.next() % all);
        let question = Query { levels: space.caches(&picks), ..Query::default() };
        let start = Instant::now();
        let answer = query(&profile, &question)?;
        queries += start.elapsed();
        // Every figure, as it stands in the answer's text.
        let same = format!("{:?}", answer.levels) == format!("{:?}", space.answer(&picks)?.levels);
        ensure!(same, "{:?} is answered otherwise", question.levels);
    }
    let (counting, searching) = (median(counting), median(searching));
    let query = queries.as_secs_f64() / args.sample.max(1) as f64;
    Ok(vec![
        name.to_owned(),
        all.to_string(),
        format!("{counting:.2}"),
        format!("{searching:.2}"),
        format!("{:.1}", all as f64 / (counting + searching) / 1e6),
        format!("{:.0}", query * 1e6),
        format!("{:.0}", query * all as f64 / (counting + searching)),
        format!("{0} of {0}", args.sample),
    ])
}

fn profile(name: &str, accesses: usize) -> Result<Profile> {
    let session = Session::new(Config::default());
    let slot = session.take_slot();
    let batches = sampling::batches(name, accesses).with_context(|| format!("no trace {name}"))?;
    batches.iter().for_each(|batch| session.feed(slot, batch, Bucket::FIRST));
    let snapshot = session.snapshot(PATIENCE);
    let (lines, tags) = (snapshot.lines, vec![String::new()]);
    Ok(Profile { processes: vec![Process { lines, tags, ..Process::default() }] })
}

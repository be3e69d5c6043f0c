//! Thousands of ranks: tables that two SQL engines read alike, and a merge whose memory does not grow with them.

use anyhow::{Context as _, Result};
use bf_collect::{Batch, Bucket, Config, Session};
use bf_profile::places::{Function, Item, Site};
use bf_profile::{ItemLines, ItemStack, LineData, Places, Process, Profile, read_file, write_file};
use bf_tests::sandbox::{succeed, text};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use xtask::{python, workspace::Workspace};

/// One rank: walks over 2 KB per unit of `work` again and again, every fourth access a store.
fn rank(number: u32, work: u64) -> Process {
    let session = Session::new(Config::default());
    let slot = session.take_slot();
    let mut batch = Batch::new();
    for pass in 0..4 {
        (0..work * 32).for_each(|line| batch.access(0x10_0000 + line * 64, 8, (line + pass) % 4 == 0));
    }
    session.feed(slot, &batch, Bucket::FIRST);
    let snapshot = session.snapshot(Duration::from_secs(60));
    let mut process = Process { tags: vec![String::new()], ..Process::default() };
    process.meta.pid = 1000 + number;
    process.meta.rank = Some(number);
    process.meta.host = format!("node{}", number / 4);
    process.meta.executable = "solver".to_owned();
    process.meta.start_ns = u64::from(number);
    (process.meta.accesses, process.meta.threads) = (snapshot.accesses, 1);
    // All of it is attributed to one function.
    process.places = Places {
        strings: ["", "solve", "solve.c"].map(str::to_owned).to_vec(),
        functions: vec![Function { name: 1, display: 1, file: 2, line: 7 }],
        sites: vec![Site { file: 2, line: 9, ..Site::default() }],
        items: [None, Some(0)].map(|site| Item { site, merged: false }).to_vec(),
        ..Places::default()
    };
    process.items = snapshot.lines.iter().map(of_one_item).collect();
    process.lines = snapshot.lines;
    process
}

fn of_one_item(lines: &LineData) -> ItemLines {
    let stacks = lines.stacks.iter().map(|stack| {
        let mut histograms = stack.histograms.clone();
        histograms.sets.iter_mut().for_each(|sets| sets.capacity.clear());
        ItemStack { owner: stack.owner, tag: stack.tag, item: 1, histograms }
    });
    let &LineData { line_bytes, max_set_bits, max_ways, .. } = lines;
    ItemLines { line_bytes, max_set_bits, max_ways, stacks: stacks.collect() }
}

fn write(folder: &Path, process: Process) -> Result<()> {
    let path = folder.join(format!("{}.bfp", process.meta.pid));
    Ok(write_file(path, &Profile { processes: vec![process] })?)
}

fn bf(folder: &Path, arguments: &[&str]) -> String {
    text(&succeed(Command::new(bf_tests::program("bf")).current_dir(folder).args(arguments)).stdout)
}

/// The statements of a page.
fn statements(page: &str) -> Vec<String> {
    let blocks = page.split("```sql\n").skip(1);
    blocks.filter_map(|block| block.split_once("```")).map(|(statement, _)| statement.to_owned()).collect()
}

/// What both engines answer.
fn ask(tables: &Path, statements: &[String]) -> Result<[Vec<Value>; 2]> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/ask_parquet.py");
    let mut python = Command::new(python::interpreter(&Workspace::load()?)?);
    let mut child = python.arg(script).arg(tables).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("no stdin")?.write_all(&serde_json::to_vec(statements)?)?;
    let output = child.wait_with_output()?;
    assert!(output.status.success(), "{output:?}");
    let answers: Value = serde_json::from_slice(&output.stdout)?;
    let of = |engine: &str| answers[engine].as_array().cloned().context("no answer");
    Ok([of("duckdb")?, of("datafusion")?])
}

#[test]
fn two_engines_answer_the_statements_of_the_page_alike() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let ranks = folder.path().join("ranks");
    fs::create_dir(&ranks)?;
    // Rank 5 has three times the work.
    (0..8).try_for_each(|number| write(&ranks, rank(number, if number == 5 { 30 } else { 10 })))?;
    let levels = ["--cache", "L1=4K:8", "--cache", "L2=32K:8"];
    let export = ["export", "ranks", "--to", "parquet", "-o", "tables"];
    bf(folder.path(), &[&export[..], &levels].concat());

    let statements = statements(include_str!("../../docs/scale-out.md"));
    assert!(statements.len() >= 5);
    let [duckdb, datafusion] = ask(&folder.path().join("tables"), &statements)?;
    assert_eq!(duckdb, datafusion);

    // What bf itself says of each rank.
    let mut query = vec!["query", "--each", "--format", "json"];
    query.extend(levels);
    let answers: Value = serde_json::from_str(&bf(folder.path(), &[&query[..], &["ranks"]].concat()))?;
    let figure = |rank: usize, level: usize, key: &str| answers[rank]["levels"][level][key].as_u64().unwrap();
    for (index, level) in duckdb[0].as_array().unwrap().iter().enumerate() {
        let misses: Vec<u64> = (0..8).map(|rank| figure(rank, index, "misses")).collect();
        let mean = misses.iter().sum::<u64>() as f64 / 8.0;
        assert_eq!((&level["processes"], level["most"].as_u64()), (&8.into(), misses.iter().max().copied()));
        assert_eq!(level["mean"].as_f64(), Some(mean));
        assert_eq!(level["imbalance"].as_f64(), Some(misses[5] as f64 / mean));
    }
    let worst = &duckdb[1][0];
    assert_eq!((&worst["rank"], &worst["host"]), (&5.into(), &"node1".into()));
    assert_eq!(worst["misses"].as_u64(), Some(figure(5, 1, "misses")));
    let first: u64 = (4..8).map(|rank| figure(rank, 1, "traffic_bytes")).sum();
    assert_eq!((&duckdb[2][0]["host"], duckdb[2][0]["bytes"].as_u64()), (&"node1".into(), Some(first)));
    let other = ["query", "--each", "--format", "json", "--cache", "L1=16K:full", "ranks"];
    let other: Value = serde_json::from_str(&bf(folder.path(), &other))?;
    for row in duckdb[3].as_array().unwrap() {
        let rank = row["rank"].as_u64().unwrap() as usize;
        assert_eq!(row["misses"], other[rank]["levels"][0]["misses"]);
        assert_eq!(row["all_references"], other[rank]["references"]);
    }
    let function = &duckdb[4][0];
    let range = [0, 5].map(|rank| figure(rank, 1, "misses"));
    assert_eq!(
        (&function["function_name"], &function["least"], &function["most"]),
        (&"solve".into(), &range[0].into(), &range[1].into())
    );

    // Two exports in one folder are one set of tables.
    bf(folder.path(), &[&export[..], &["--part", "again"], &levels].concat());
    let count = ["SELECT COUNT(*) AS n FROM processes".to_owned()];
    let [duckdb, datafusion] = ask(&folder.path().join("tables"), &count)?;
    assert_eq!((&duckdb[0][0]["n"], &datafusion[0][0]["n"]), (&16.into(), &16.into()));
    Ok(())
}

#[test]
fn a_working_set_is_named_with_its_function() -> Result<()> {
    let folder = tempfile::tempdir()?;
    write(folder.path(), rank(0, 10))?;
    let sets = ["sweep", "1000.bfp", "--knees", "--format", "json"];
    let sets: Value = serde_json::from_str(&bf(folder.path(), &sets))?;
    // Four passes over 320 lines: 20 KB, which 32 KB hold.
    let set = &sets["working_sets"][0];
    let ends = ["from_bytes", "size_bytes", "misses"].map(|key| set[key].as_u64());
    assert_eq!(ends, [Some(16 << 10), Some(32 << 10), Some(3 * 320)]);
    let cause = &set["causes"][0];
    assert_eq!((&cause["name"], &cause["misses"], &cause["share"]), (&"solve".into(), &960.into(), &1.0.into()));
    let text = bf(folder.path(), &["sweep", "1000.bfp", "--knees"]);
    assert!(text.contains("Working set of 32K") && text.contains("solve.c:7"), "{text}");
    Ok(())
}

#[test]
fn ten_thousand_profiles_are_merged_in_little_memory() -> Result<()> {
    const RANKS: u32 = 10_000;
    // Address space that the command may take: in memory these profiles need several times as much.
    const KILOBYTES: u32 = 200_000;
    let folder = tempfile::tempdir()?;
    let ranks = folder.path().join("ranks");
    fs::create_dir(&ranks)?;
    let one = rank(0, 60);
    for number in 0..RANKS {
        let mut process = one.clone();
        process.items.clear();
        process.places = Places::default();
        (process.meta.pid, process.meta.start_ns) = (number, u64::from(RANKS - number));
        write(&ranks, process)?;
    }
    let mut merge = Command::new("sh");
    let script = format!("ulimit -v {KILOBYTES} && exec \"$0\" merge ranks -o all.bfp --format json");
    merge.arg("-c").arg(script).arg(bf_tests::program("bf")).current_dir(folder.path());
    let merged: Value = serde_json::from_slice(&succeed(&mut merge).stdout)?;
    assert_eq!(merged["processes"], RANKS);
    let accesses = &merged["figures"][0];
    assert_eq!(accesses["sum"].as_u64(), Some(one.meta.accesses * u64::from(RANKS)));

    // One bad file of them all is named.
    fs::write(ranks.join("77.bfp"), "no profile")?;
    let output = Command::new(bf_tests::program("bf"))
        .current_dir(folder.path())
        .args(["merge", "ranks", "-o", "x.bfp"])
        .output()?;
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("ranks/77.bfp"), "{output:?}");
    assert!(!folder.path().join("x.bfp").exists());
    // The merged file holds what the files held.
    let whole = read_file(folder.path().join("all.bfp"))?;
    assert!(whole.processes.is_sorted_by_key(|process| process.meta.start_ns));
    assert_eq!(whole.processes[4].lines, one.lines);
    Ok(())
}

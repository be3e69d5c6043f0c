//! `bf sweep` of hierarchies as a user meets it: the same figures as `bf query`, in every format.

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

fn bf(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bf"));
    command.current_dir(folder).args(arguments).env("XDG_CONFIG_HOME", folder).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The exit code, and stderr, which must be a single line.
fn failure(output: &Output) -> (i32, String) {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    (output.status.code().unwrap(), message)
}

/// Passes over 4 KB and 64 KB in turn, every eighth access a store, in lines of 64 and 128 bytes.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for pass in 0..40_u64 {
        let bytes = if pass % 8 == 7 { 64 << 10 } else { 4 << 10 };
        for at in (0..bytes).step_by(64) {
            let kind = if at % 512 == 0 { 'w' } else { 'r' };
            text += &format!("{kind} {at:x} 8\n");
        }
    }
    fs::write(folder.path().join("t.din"), text).unwrap();
    stdout(&bf(folder.path(), &["replay", "t.din", "-o", "t.bfp", "--line-size", "64,128"]));
    fs::write(folder.path().join("area.toml"), "unit='mm2'\nlimit=40\n[level.L1]\nper_kib=1\n[level.L2]\nper_kib=0.25")
        .unwrap();
    fs::write(
        folder.path().join("latency.toml"),
        "unit='ns'\nmemory=80\n[level.L1]\nconstant=1\n[level.L2]\nconstant=5",
    )
    .unwrap();
    folder
}

const SPACE: [&str; 6] = ["sweep", "t.bfp", "--l1", "1K..16K:1..4:64,128", "--l2", "16K..128K:4,8:64"];

fn lines(folder: &Path, more: &[&str]) -> Vec<Value> {
    let text = stdout(&bf(folder, &[&SPACE[..], &["--format", "json"], more].concat()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_line_is_what_a_query_answers() {
    let folder = folder();
    let all = lines(folder.path(), &["--objective", "traffic"]);
    assert_eq!(all.len(), 5 * 3 * 2 * 4 * 2);
    for line in all.iter().step_by(17) {
        let mut arguments = vec!["query".to_owned(), "t.bfp".to_owned(), "--format".to_owned(), "json".to_owned()];
        for level in line["levels"].as_array().unwrap() {
            let cache = ["size_bytes", "ways", "line_bytes"].map(|key| level[key].to_string()).join(":");
            let (name, scope) = (level["name"].as_str().unwrap(), level["scope"].as_str().unwrap());
            arguments.extend(["--cache".to_owned(), format!("{name}={cache}:{scope}")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let answer: Value = serde_json::from_str(&stdout(&bf(folder.path(), &arguments))).unwrap();
        assert_eq!(line["levels"], answer["levels"]);
        assert_eq!(line["objective"], answer["levels"][1]["traffic_bytes"]);
        assert_eq!((&line["schema"], &line["objective_name"]), (&"bf.explore/1".into(), &"traffic".into()));
    }
    let index: Vec<u64> = all.iter().map(|line| line["index"].as_u64().unwrap()).collect();
    assert_eq!(index, (0..all.len() as u64).collect::<Vec<_>>());
}

#[test]
fn the_best_are_the_least_of_all_within_budget() {
    let folder = folder();
    let budget = ["--objective", "amat", "--latency", "latency.toml", "--budget", "area.toml"];
    let mut all = lines(folder.path(), &budget);
    let value = |line: &Value| line["objective"].as_f64().unwrap();
    assert!(!all.is_empty() && all.iter().all(|line| line["costs"]["area"].as_f64().unwrap() <= 40.0));
    all.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let best = lines(folder.path(), &[&budget[..], &["--top", "3", "--sensitivity"]].concat());
    assert_eq!(best.iter().map(value).collect::<Vec<_>>(), all[..3].iter().map(value).collect::<Vec<_>>());
    assert_eq!(best[0]["doubled"].as_array().unwrap().len(), 4);
    let limited = lines(folder.path(), &[&budget[..], &["--limit", "traffic=30K"]].concat());
    assert!(
        limited.len() < all.len()
            && limited.iter().all(|line| line["levels"][1]["traffic_bytes"].as_u64() <= Some(30 << 10))
    );
    let front = lines(folder.path(), &[&budget[..], &["--pareto", "amat,area"]].concat());
    let points: Vec<[f64; 2]> =
        front.iter().map(|line| ["amat", "area"].map(|key| line["costs"][key].as_f64().unwrap())).collect();
    assert!(
        points.len() > 1 && points.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] > pair[1][1]),
        "{points:?}"
    );

    let text = stdout(&bf(folder.path(), &[&SPACE[..], &budget].concat()));
    for words in
        ["240 hierarchies", "left out over a budget or limit", "amat, ns", "area, mm2", "bf query t.bfp --cache L1="]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_table_that_no_objective_needs_refuses_nothing() {
    let folder = folder();
    fs::write(folder.path().join("short.toml"), "memory=80\n[level.L1]\nby_size={8K=1}").unwrap();
    let sweep = ["sweep", "t.bfp", "--l1", "4K..8K:1", "--latency", "short.toml"];
    let text = stdout(&bf(folder.path(), &sweep));
    assert_eq!(text, stdout(&bf(folder.path(), &sweep[..4])));
    for needs in [["--objective", "amat"], ["--pareto", "size,amat"], ["--limit", "amat=9"]] {
        let (code, message) = failure(&bf(folder.path(), &[&sweep[..], &needs].concat()));
        assert!(code == 1 && message.contains("and 4K is asked for; add a row"), "{message}");
    }
}

#[test]
fn rows_say_what_lines_say() {
    let folder = folder();
    let all = lines(folder.path(), &[]);
    let text = stdout(&bf(folder.path(), &[&SPACE[..], &["--format", "csv"]].concat()));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), all.len());
    for (row, line) in rows.iter().zip(&all) {
        for (name, cell) in header.iter().zip(row) {
            let value = match name.split_once('_') {
                Some((level, figure)) => &line["levels"][usize::from(level == "L2")][figure],
                None if name == "hierarchy" => &line["index"],
                None => &line["objective"],
            };
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(cell, value, "{name}");
        }
    }
    stdout(&bf(folder.path(), &[&SPACE[..], &["--format", "parquet", "-o", "t.parquet"]].concat()));
    let file = fs::read(folder.path().join("t.parquet")).unwrap();
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
}

#[test]
fn a_table_goes_where_other_outputs_go() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let write = |to| bf(folder.path(), &[&SPACE[..], &["--format", "parquet", "-o", to]].concat());
    fs::write(at("target"), "old").unwrap();
    symlink("target", at("link")).unwrap();
    stdout(&write("link"));
    assert!(at("link").is_symlink() && fs::read(at("target")).unwrap().starts_with(b"PAR1"));
    symlink("/dev/full", at("full")).unwrap();
    let (code, message) = failure(&write("full"));
    assert!(code == 1 && message.contains("failed to write full: ") && message.contains("No space"), "{message}");
    assert!(at("full").is_symlink());
    let before = fs::read(at("t.bfp")).unwrap();
    let (code, message) = failure(&write("t.bfp"));
    assert!(
        code == 2 && message.contains("t.bfp is a profile") && fs::read(at("t.bfp")).unwrap() == before,
        "{message}"
    );
}

/// Threads whose stacks would be larger than any address space cannot be made.
#[test]
fn without_threads_a_search_finds_the_same() {
    let folder = folder();
    let arguments = ["sweep", "t.bfp", "--l1", "1K..2K:1..2", "--l2", "2K..8K:2", "--top", "3"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bf"));
    let command = command.current_dir(folder.path()).args(arguments).env("RUST_MIN_STACK", (1u64 << 60).to_string());
    assert_eq!(stdout(&command.output().unwrap()), stdout(&bf(folder.path(), &arguments)));
}

#[test]
fn a_dash_is_stdout() {
    let folder = folder();
    let csv = ["--format", "csv"];
    let [here, there] = [&[][..], &["-o", "-"]].map(|to| stdout(&bf(folder.path(), &[&SPACE[..], &csv, to].concat())));
    assert!(here == there && !folder.path().join("-").exists(), "{there}");
}

#[test]
fn of_no_hierarchy_no_more_than_how_many_there_are_is_said() {
    let folder = folder();
    let text = stdout(&bf(folder.path(), &["sweep", "t.bfp", "--l1", "1K:2", "--top", "0"]));
    assert!(text.contains("\n1 hierarchy, 1 allowed\n") && !text.contains("None is left"), "{text}");
}

#[test]
fn studies_and_working_sets() {
    let folder = folder();
    let study = |property: &str| {
        let output = bf(
            folder.path(),
            &["sweep", "t.bfp", "--study", property, "--l1", "8K:2", "--l2", "128K:8", "--format", "json"],
        );
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    let lines = study("line");
    let sizes: Vec<u64> =
        lines["lines"].as_array().unwrap().iter().map(|line| line["line_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 128]);
    // A line twice as long halves the misses of a walk.
    let misses: Vec<u64> =
        lines["lines"].as_array().unwrap().iter().map(|line| line["levels"][1]["misses"].as_u64().unwrap()).collect();
    assert_eq!(misses, [1024, 512]);
    let ways = study("ways");
    let full = ways["ways"].as_array().unwrap().iter().filter(|point| point["full"] == true);
    assert!(
        full.clone().count() == 2 && full.clone().all(|point| point["penalty"] == 0.0 || point["penalty"].is_null())
    );
    let output = bf(folder.path(), &["sweep", "t.bfp", "--knees", "--format", "json"]);
    let sets: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let sizes: Vec<u64> =
        sets["working_sets"].as_array().unwrap().iter().map(|set| set["size_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [4096, 65536]);
    assert!(sets["without_causes"].as_str().unwrap().contains("-bf-by-func"));
}

#[test]
fn what_cannot_be_asked_is_refused_in_one_line() {
    let folder = folder();
    for (arguments, code, word) in [
        (&["--objective", "amat"][..], 2, "--latency"),
        (&["--objective", "speed"], 2, "`speed`"),
        (&["--objective", "misses:L3"], 2, "no level L3"),
        (&["--format", "parquet"], 2, "--output"),
        (&["--ways", "4"], 2, "--l1 SIZES:WAYS:LINES"),
        (&["--budget", "nowhere.toml"], 1, "nowhere.toml"),
        (&["--budget", "latency.toml"], 1, "latency.toml"),
        (&["--budget", "size.toml"], 2, "rename size.toml"),
        (&["--objective", "energy", "--energy", "area.toml"], 1, "area.toml"),
    ] {
        let (found, message) = failure(&bf(folder.path(), &[&SPACE[..], arguments].concat()));
        assert!(found == code && message.contains(word), "{arguments:?}: {found} {message}");
    }
    let (code, message) = failure(&bf(folder.path(), &["sweep", "t.bfp", "--l1", "1K:128"]));
    assert!(code == 2 && message.contains("nearest possible size is 8K"), "{message}");
    for option in
        ["--top=3", "--objective=amat", "--pareto=size", "--limit=misses=3", "--sensitivity", "--budget=area.toml"]
    {
        let output = bf(folder.path(), &["sweep", "t.bfp", option]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains("--l1 <RANGE>"), "{option}: {message}");
    }
    stdout(&bf(folder.path(), &["sweep", "t.bfp", "--l2", "1K:2", "--top", "3"]));
    stdout(&bf(folder.path(), &["sweep", "t.bfp", "--knees", "--top", "3"]));
    let (code, message) = failure(&bf(folder.path(), &["sweep", "t.bfp", "--study", "ways", "--l1", "1K..2K:2"]));
    assert!(code == 2 && message.contains("L1 is 2 caches"), "{message}");
}

#[test]
fn folders_stand_for_their_profiles_and_bad_ones_are_named() {
    let folder = folder();
    let ranks = folder.path().join("ranks");
    fs::create_dir(&ranks).unwrap();
    let bytes = fs::read(folder.path().join("t.bfp")).unwrap();
    fs::write(ranks.join("0.bfp"), &bytes).unwrap();
    fs::write(ranks.join("1.bfp"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(ranks.join("notes.txt"), "no profile").unwrap();
    let (code, message) = failure(&bf(folder.path(), &["merge", "ranks", "-o", "all.bfp"]));
    assert!(code == 1 && message.contains("ranks/1.bfp") && message.contains("truncated"), "{message}");
    assert!(!folder.path().join("all.bfp").exists());
    let kept = bf(folder.path(), &["merge", "ranks", "-o", "all.bfp", "--keep-going", "--format", "json"]);
    let merged: Value = serde_json::from_str(&stdout(&kept)).unwrap();
    assert_eq!((&merged["processes"], &merged["left_out"]), (&1.into(), &serde_json::json!(["ranks/1.bfp"])));
    assert!(String::from_utf8_lossy(&kept.stderr).contains("ranks/1.bfp"));
    assert_eq!(fs::read(folder.path().join("all.bfp")).unwrap(), bytes);
    let (code, message) =
        failure(&bf(folder.path(), &["export", "ranks", "--to", "parquet", "-o", "out", "--cache", "L1=1K:2"]));
    assert!(code == 1 && message.contains("ranks/1.bfp"), "{message}");
    fs::remove_file(ranks.join("0.bfp")).unwrap();
    let none = bf(folder.path(), &["export", "ranks", "--to", "parquet", "-o", "out", "--keep-going"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).ends_with("bf: none of the profiles could be read\n"), "{none:?}");
    assert!(!folder.path().join("out").exists(), "what is not complete stays away");
}

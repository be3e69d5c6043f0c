//! Whether a mini-app stands in for its parent: a set of kernels, the same at other sizes, a mini-app written anew, and one
//! that does the same arithmetic on data that lies anywhere.

use bf_tests::sandbox::{Sandbox, output, succeed, text};
use serde_json::Value;

const KERNELS: &str = include_str!("../programs/kernels.c");
const MINI: &str = include_str!("../programs/kernels_mini.c");
const OPTIONS: [&str; 4] = ["-O2", "-g", "-bf-by-func", "-lm"];

/// Runs a program with fixed addresses and leaves a profile of that name.
fn run(sandbox: &Sandbox, profile: &str, program: &[&str]) {
    let mut command = sandbox.command(bf_tests::program("bf"));
    let _ = succeed(command.args(["run", "--no-aslr", "-o", profile, "--"]).args(program));
}

fn compiled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("kernels.c", KERNELS);
    sandbox.write("mini.c", MINI);
    let compile = |arguments: &[&str]| sandbox.bf_clang(arguments.iter().chain(&OPTIONS).copied());
    compile(&["kernels.c", "-o", "parent"]);
    compile(&["kernels.c", "-DSCATTERED", "-o", "scattered"]);
    compile(&["mini.c", "-o", "mini"]);
    sandbox
}

fn aspect<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let aspects = comparison["aspects"].as_array().unwrap();
    aspects.iter().find(|aspect| aspect["name"] == name).unwrap_or_else(|| panic!("{name} in {comparison}"))
}

fn score(comparison: &Value) -> f64 {
    comparison["score"].as_f64().unwrap()
}

/// Misses and references of a fully associative cache.
fn misses(sandbox: &Sandbox, profile: &str, bytes: &Value) -> (f64, f64) {
    let answer = sandbox.bf(&["query", profile, "--cache", &format!("C={bytes}:full")]);
    (answer["levels"][0]["misses"].as_f64().unwrap(), answer["references"].as_f64().unwrap())
}

fn close(one: f64, other: &Value) {
    assert!((one - other.as_f64().unwrap()).abs() < 1e-9, "{one} {other}");
}

#[test]
fn verdicts_and_their_order_are_right_and_the_reasons_true() {
    let sandbox = compiled();
    run(&sandbox, "parent.bfp", &["./parent", "7", "22", "12", "2"]);
    run(&sandbox, "small.bfp", &["./parent", "5", "14", "8", "2"]);
    run(&sandbox, "mini.bfp", &["./mini", "5", "14", "8", "2"]);
    run(&sandbox, "scattered.bfp", &["./scattered", "5", "14", "8", "2"]);
    let with_parent = |profile| sandbox.bf(&["compare", profile, "parent.bfp"]);
    let [itself, small, mini, scattered] = ["parent.bfp", "small.bfp", "mini.bfp", "scattered.bfp"].map(with_parent);
    assert_eq!((itself["schema"].as_str(), score(&itself)), (Some("bf.compare/1"), 1.0));
    assert!(score(&small) < 1.0 && score(&mini) < score(&small) && score(&scattered) < score(&mini));
    let verdicts = [&itself, &small, &mini, &scattered].map(|comparison| comparison["verdict"].as_str().unwrap());
    assert_eq!(verdicts, ["faithful", "faithful", "faithful", "unfaithful"]);
    for comparison in [&itself, &small, &mini, &scattered] {
        for aspect in comparison["aspects"].as_array().unwrap() {
            assert!((0.0..=1.0).contains(&aspect["score"].as_f64().unwrap()), "{aspect}");
            assert!(aspect["name"].is_string() && !aspect["why"].as_str().unwrap().is_empty(), "{aspect}");
        }
    }
    // It is the locality, not the arithmetic, that tells the unfaithful one.
    let of = |name| aspect(&scattered, name)["score"].as_f64().unwrap();
    assert!(of("instruction_mix") > 0.95 && of("branches") > 0.95, "{scattered}");
    assert!(of("miss_ratio") < 0.67 && score(&scattered) <= of("miss_ratio"), "{scattered}");
    // As it is for the other way round.
    let swapped = sandbox.bf(&["compare", "parent.bfp", "scattered.bfp"]);
    close(score(&swapped), &scattered["score"]);

    // Of the mini-app what it left out has no counterpart.
    let functions = mini["functions"]["parts"].as_array().unwrap();
    let part = |name: &str| functions.iter().find(|part| part["name"] == name).unwrap();
    assert!(part("move")["a_share"].is_null() && part("move")["b_share"].as_f64().unwrap() > 0.0);
    assert!(part("multiply")["alike"].as_f64().unwrap() > 0.9);

    // Figures are those that bf query gives.
    let boundless = Value::from(1_u64 << 40);
    for point in scattered["matched"].as_array().unwrap() {
        for (side, profile) in [("a", "scattered.bfp"), ("b", "parent.bfp")] {
            let (misses_here, references) = misses(&sandbox, profile, &point[format!("{side}_bytes")]);
            let (unavoidable, _) = misses(&sandbox, profile, &boundless);
            let ratio = (misses_here - unavoidable) / (references - unavoidable);
            close(ratio, &point[format!("{side}_miss_ratio")]);
        }
    }
    let worst = &scattered["differ_most"]["matched"];
    let size = |side: &str| bytes(worst[format!("{side}_bytes")].as_u64().unwrap());
    let why = aspect(&scattered, "miss_ratio")["why"].as_str().unwrap();
    assert!(why.contains(&format!("least alike with {} for A and {} for B", size("a"), size("b"))), "{why}");
    let points = scattered["matched"].as_array().unwrap();
    assert!(points.iter().all(|point| point["alike"].as_f64() >= worst["alike"].as_f64()), "{worst}");

    // The cache that tells most says the same to bf query.
    let cache = &scattered["differ_most"]["same_cache"];
    if cache["machine"].is_null() {
        let ways = if cache["full"] == true { "full".to_owned() } else { cache["ways"].to_string() };
        let spec = format!("C={}:{ways}", cache["size_bytes"]);
        for (side, profile) in [("a", "scattered.bfp"), ("b", "parent.bfp")] {
            let answer = sandbox.bf(&["query", profile, "--cache", &spec]);
            close(answer["levels"][0]["global_miss_ratio"].as_f64().unwrap(), &cache[format!("{side}_miss_ratio")]);
        }
    }
    let functions = scattered["functions"]["parts"].as_array().unwrap().iter();
    let much =
        functions.filter(|part| [&part["a_share"], &part["b_share"]].iter().all(|share| share.as_f64() >= Some(0.01)));
    let worst = much.min_by(|a, b| a["alike"].as_f64().unwrap().total_cmp(&b["alike"].as_f64().unwrap())).unwrap();
    let why = aspect(&scattered, "functions")["why"].as_str().unwrap();
    assert!(why.contains(&format!("least in {} ", worst["name"].as_str().unwrap())), "{why}");

    let mut failing = sandbox.command(bf_tests::program("bf"));
    let failed = output(failing.args(["compare", "scattered.bfp", "parent.bfp", "--fail-under", "0.8"]));
    assert_eq!(failed.status.code(), Some(4));
    assert!(text(&failed.stdout).contains("unfaithful: score 0."), "{}", text(&failed.stdout));
    let mut passing = sandbox.command(bf_tests::program("bf"));
    let _ = succeed(passing.args(["compare", "mini.bfp", "parent.bfp", "--fail-under", "0.8"]));
}

/// A size as the sentences have it.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        _ if bytes.is_multiple_of(1024) => format!("{}K", bytes / 1024),
        _ => format!("{}.5K", bytes / 1024),
    }
}

#[test]
fn a_change_over_repeated_runs() {
    let sandbox = compiled();
    for (profile, program) in
        [("b1.bfp", "./scattered"), ("b2.bfp", "./scattered"), ("a1.bfp", "./parent"), ("a2.bfp", "./parent")]
    {
        run(&sandbox, profile, &[program, "3", "8", "5", "1"]);
    }
    let options = ["--cache", "L1=1K:full", "--before", "b1.bfp", "b2.bfp", "--after", "a1.bfp", "a2.bfp"];
    let answer = sandbox.bf(&[&["compare"], &options[..]].concat());
    assert_eq!(answer["schema"], "bf.change/1");
    let figures = answer["figures"].as_array().unwrap();
    let figure = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("{name}"));
    let misses = figure("L1.misses");
    assert_eq!(misses["finding"], "exact", "{misses}");
    let of = |side: &str| misses[side]["mean"].as_f64().unwrap();
    assert!(of("after") < of("before"));
    close(of("after") / of("before") - 1.0, &misses["change"]);
    let answer = sandbox.bf(&["query", "a1.bfp", "--cache", "L1=1K:full"]);
    close(of("after"), &answer["levels"][0]["misses"]);
    // Two runs of each side can tell nothing about what varies.
    assert_eq!(figure("seconds")["finding"], "too_few_runs");
}

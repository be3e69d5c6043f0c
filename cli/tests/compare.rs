//! `bf compare` as a user meets it: text, JSON, CSV, and what it refuses.

use bf_profile::{
    ItemLines, ItemStack, Places,
    places::{Function, Item, Site},
};
use serde_json::Value;
use std::{
    fs,
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

/// The exit code and stderr.
fn failure(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// `once.bfp` touches each of 100 lines once a pass, `often.bfp` eight times; `wide.bfp` is in lines of 128 bytes.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, touches, line) in [("once", 1, "64"), ("often", 8, "64"), ("wide", 1, "128")] {
        let touch = |at: u64| format!("r {:x} 8\n", at * 64).repeat(touches);
        let trace: String = (0..500).map(|at| touch(at % 100)).collect();
        let [input, out] = ["din", "bfp"].map(|end| format!("{name}.{end}"));
        fs::write(folder.path().join(&input), trace).unwrap();
        let _ = stdout(&bf(folder.path(), &["replay", &input, "-o", &out, "--line-size", line]));
    }
    folder
}

#[test]
fn the_text_has_the_verdict_the_scores_and_the_reasons() {
    let folder = folder();
    let text = stdout(&bf(folder.path(), &["compare", "once.bfp", "often.bfp", "--cache", "L1=1K:4"]));
    assert!(text.contains("\nunfaithful: score 0.1"), "{text}");
    assert!(text.contains("* miss ratio "), "{text}");
    assert!(text.contains("100 % in A, 10.3 % in B"), "{text}");
    assert!(text.contains("the same cache  4K:2: 100 % of all references miss in A, 12.5 % in B"), "{text}");
    assert!(
        text.contains("instruction mix, bytes per flop, branches, vectorisation: A and B hold no counters"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    for words in ["footprint, mean of the caches", "working set, at most"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = stdout(&bf(folder.path(), &["compare", "once.bfp", "once.bfp"]));
    assert!(text.contains("\nfaithful: score 1.00") && text.contains("They differ with no cache"), "{text}");
}

#[test]
fn json_and_csv_have_the_documented_keys() {
    let folder = folder();
    let output = bf(folder.path(), &["compare", "once.bfp", "often.bfp", "--format", "json"]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&answer["schema"], &answer["verdict"]), (&"bf.compare/1".into(), &"unfaithful".into()));
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    let documented = [
        "schema",
        "verdict",
        "score",
        "a",
        "b",
        "tags",
        "line_bytes",
        "aspects",
        "not_compared",
        "differ_most",
        "curves",
        "matched",
        "machine",
        "levels",
        "levels_error",
        "functions",
        "by_tag",
    ];
    assert_eq!(keys, documented);
    let keys: Vec<&String> = answer["aspects"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "score", "why", "weight", "essential"]);
    assert_eq!(answer["a"]["working_set_bytes"], 8192);
    let output = bf(folder.path(), &["compare", "once.bfp", "often.bfp", "--format", "csv"]);
    assert!(stdout(&output).starts_with("a,b,name,score,why,weight,essential\nonce.bfp,often.bfp,miss_ratio,0."));
}

#[test]
fn several_profiles_of_a_side_are_taken_as_one() {
    let folder = folder();
    let _ = stdout(&bf(folder.path(), &["merge", "once.bfp", "often.bfp", "-o", "both.bfp"]));
    let score = |arguments: &[&str]| {
        let output = bf(folder.path(), &[&["compare", "--format", "json"], arguments].concat());
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()["score"].clone()
    };
    assert_eq!(score(&["once.bfp", "often.bfp", "--with", "both.bfp"]), 1.0);
    assert_eq!(score(&["both.bfp", "--with", "once.bfp", "often.bfp"]), 1.0);
    assert_eq!(score(&["once.bfp", "--with", "often.bfp"]), score(&["once.bfp", "often.bfp"]));
    let side = folder.path().join("side");
    fs::create_dir(&side).unwrap();
    for name in ["once.bfp", "often.bfp"] {
        fs::copy(folder.path().join(name), side.join(name)).unwrap();
    }
    assert_eq!(score(&["side", "both.bfp"]), 1.0);
    let runs = stdout(&bf(folder.path(), &["compare", "--before", "side", "--after", "side", "--cache", "L1=4K:full"]));
    assert!(runs.contains("before  side/often.bfp and 1 more"), "{runs}");
}

#[test]
fn a_score_that_is_too_low_has_a_code_of_its_own() {
    let folder = folder();
    let ask = |least| bf(folder.path(), &["compare", "once.bfp", "often.bfp", "--fail-under", least]);
    let (code, message) = failure(&ask("0.8"));
    assert!(code == 4 && message.contains("is below 0.8, as --fail-under asks"), "{message}");
    assert!(!ask("0.8").stdout.is_empty(), "the comparison is printed all the same");
    assert!(ask("0").status.success());
    for wrong in ["1.1", "-1", "x", "NaN"] {
        assert_eq!(failure(&ask(wrong)).0, 2, "{wrong}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_sentence() {
    let folder = folder();
    fs::write(folder.path().join("broken.bfp"), "no profile").unwrap();
    for (arguments, code, word) in [
        (&["once.bfp"][..], 2, "compares two profiles, not 1"),
        (&[], 2, "compares two profiles, not 0"),
        (&["once.bfp", "once.bfp", "once.bfp"], 2, "not 3"),
        (&["--with", "once.bfp"], 2, "not 0"),
        (&["--before", "once.bfp"], 2, "--after"),
        (&["once.bfp", "--before", "once.bfp", "--after", "once.bfp"], 2, "cannot be used with"),
        (&["--before", "once.bfp", "--after", "once.bfp", "--fail-under", "0.5"], 2, "cannot be used with"),
        (&["once.bfp", "absent.bfp"], 1, "absent.bfp"),
        (&["broken.bfp", "once.bfp"], 1, "broken.bfp"),
        (&["once.bfp", "wide.bfp"], 1, "A holds line sizes 64, B holds 128"),
        (&["once.bfp", "often.bfp", "--tag", "solve"], 1, "no tag `solve`"),
        (&["once.bfp", "often.bfp", "--line", "32"], 1, "A holds line sizes 64, B holds 64"),
        (&["--before", "once.bfp", "--after", "wide.bfp", "--cache", "L1=4K:4:64"], 1, "wide.bfp: L1: line size 64"),
    ] {
        let output = bf(folder.path(), &[&["compare"], arguments].concat());
        let (found, message) = failure(&output);
        assert!(found == code && message.contains(word), "{arguments:?}: {found} {message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn before_and_after() {
    let folder = folder();
    let arguments = ["compare", "--cache", "L1=4K:full", "--before", "once.bfp", "--after", "often.bfp"];
    let text = stdout(&bf(folder.path(), &arguments));
    let line = text.lines().find(|line| line.starts_with(" references")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["references", "500", "4,000", "+700.00", "%", "?"]);
    assert!(text.contains("the same in every run: L1.misses") && text.contains("? too few runs"), "{text}");
    let twice = ["--before", "once.bfp", "once.bfp", "--after", "often.bfp", "often.bfp", "--format", "json"];
    let output = bf(folder.path(), &[&["compare"], &twice[..]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&answer["schema"], &answer["figures"][0]["finding"]), (&"bf.change/1".into(), &"exact".into()));
    assert_eq!(answer["figures"][0]["change"], 7.0);
}

#[test]
fn the_least_alike_parts_have_the_names_of_the_source_and_stay_on_one_line() {
    let folder = folder();
    for name in ["once.bfp", "often.bfp"] {
        let path = folder.path().join(name);
        let mut profile = bf_profile::read_file(&path).unwrap();
        let process = &mut profile.processes[0];
        process.tags = vec!["a\nb".to_owned()];
        process.places = Places {
            strings: ["", "_ZN3app5TableIdE4fillEi", "app::Table<double>::fill(int)"].map(str::to_owned).to_vec(),
            functions: vec![Function { name: 1, display: 2, ..Function::default() }],
            sites: vec![Site::default()],
            items: vec![Item { site: Some(0), merged: false }],
            ..Places::default()
        };
        let items = process.lines.iter().map(|data| ItemLines {
            line_bytes: data.line_bytes,
            max_set_bits: data.max_set_bits,
            max_ways: data.max_ways,
            stacks: data
                .stacks
                .iter()
                .map(|stack| {
                    let mut histograms = stack.histograms.clone();
                    histograms.sets.iter_mut().for_each(|sets| sets.capacity.clear());
                    ItemStack { owner: stack.owner, tag: stack.tag, item: 0, histograms }
                })
                .collect(),
        });
        process.items = items.collect();
        bf_profile::write_file(&path, &profile).unwrap();
    }
    let text = stdout(&bf(folder.path(), &["compare", "once.bfp", "often.bfp"]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words_of in ["least in app::Table<double>::fill(int) (", "least in a\\nb ("] {
        assert!(words.contains(words_of), "{words_of}: {text}");
    }
    let output = bf(folder.path(), &["compare", "once.bfp", "often.bfp", "--format", "json"]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["functions"]["parts"][0]["name"], "_ZN3app5TableIdE4fillEi");
}

//! The `bf` command as a user meets it: answers, errors and exit codes.

use bf_profile::{BlockItem, CountItem, CountedFunction, Counters, EndReason, Process, Profile, StackData};
use serde_json::Value;
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// Distances inf, 0, inf, 1, inf, 2, 2 in lines of 64 bytes: A A B A C B A.
const GOLDEN: &str = "r 0 8\nr 0 8\nw 40 8\nr 0 8\nr 80 8\nr 40 8\nr 0 8\n";

/// Runs `bf` in a folder, with the user's own presets out of the way.
fn bf(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bf"));
    command.current_dir(folder).args(arguments).env("XDG_CONFIG_HOME", folder).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

/// The exit code, and stderr, which must be a single line.
fn failure(output: &Output) -> (i32, String) {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), message)
}

/// A folder with `golden.bfp`.
fn golden() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("golden.din"), GOLDEN).unwrap();
    let output = bf(folder.path(), &["replay", "golden.din", "-o", "golden.bfp", "--line-size", "64,128"]);
    assert!(stdout(&output).contains("7 accesses of 1 thread"));
    folder
}

#[test]
fn a_query_in_json_has_the_documented_keys_in_order() {
    let folder = golden();
    let caches = ["--cache", "L1=64:full", "--cache", "L2=128:2:64:private", "--cache", "L3=256:full:shared"];
    let output = bf(folder.path(), &[&["query", "golden.bfp", "--format", "json"], &caches[..]].concat());
    let answer = json(&output);
    assert_eq!((&answer["schema"], &answer["references"]), (&"bf.query/1".into(), &7.into()));
    let figures =
        |key: &str| answer["levels"].as_array().unwrap().iter().map(|level| level[key].clone()).collect::<Vec<_>>();
    assert_eq!(figures("references"), [7, 6, 5]);
    assert_eq!(figures("hits"), [1, 1, 2]);
    assert_eq!(figures("misses"), [6, 5, 3]);
    assert_eq!(figures("exact"), [true, false, false]);
    assert_eq!(figures("approximation"), [Value::Null, "unfiltered".into(), "unfiltered".into()]);
    let keys: Vec<&String> = answer["levels"][0].as_object().unwrap().keys().collect();
    let documented = [
        "name",
        "size_bytes",
        "line_bytes",
        "sets",
        "ways",
        "scope",
        "hashed",
        "exclusive",
        "model",
        "references",
        "hits",
        "misses",
        "load_misses",
        "store_misses",
        "cold",
        "capacity",
        "conflict",
        "coherence",
        "invalidations_received",
        "invalidations_sent",
        "remote",
        "dirty_transfers",
        "memory_accesses",
        "writebacks",
        "resident_dirty",
        "clamped",
        "exact",
        "bounds",
        "writeback_bounds",
        "approximation",
        "hits_beyond_full",
        "traffic_bytes",
        "local_miss_ratio",
        "global_miss_ratio",
        "caches",
        "note",
        "spread",
    ];
    assert_eq!(keys, documented);
}

#[test]
fn a_query_in_text_and_csv() {
    let folder = golden();
    let text = stdout(&bf(folder.path(), &["query", "golden.bfp", "--cache", "L1=64:full"]));
    assert!(text.contains("7 references: 6 by loads, 1 by stores"), "{text}");
    for words in [["misses", "6"], ["write-backs", "1"], ["cold", "3"]] {
        assert!(
            text.lines().any(|line| line.split_whitespace().eq(words)),
            "{words:?}
{text}"
        );
    }
    let csv = stdout(&bf(folder.path(), &["query", "golden.bfp", "--cache", "L1=64:full", "--format", "csv"]));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("profiles,name,size_bytes,line_bytes,sets,ways,"));
    assert!(lines[1].starts_with("golden.bfp,L1,64,64,1,1,private,false,false,lru,7,1,6,"), "{csv}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn threads_are_told_apart_in_private_caches_only() {
    let folder = golden();
    let ask = |cache| bf(folder.path(), &["query", "golden.bfp", "--cache", cache, "--by", "thread"]);
    assert!(ask("A=64:1").stderr.is_empty());
    assert!(String::from_utf8_lossy(&ask("A=64:1:shared").stderr).contains("--by thread"));
}

#[test]
fn a_report_takes_the_newest_profile_and_says_so() {
    let folder = golden();
    let output = bf(folder.path(), &["report"]);
    let text = stdout(&output);
    for words in
        ["golden.din", "replayed from a trace", "7 accesses by 1 thread", "Caches of skylake-sp", "bf sweep golden.bfp"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(
        remarks.contains("newest profile here: golden.bfp") && remarks.contains("does not say what caches"),
        "{remarks}"
    );
    let report =
        json(&bf(folder.path(), &["report", "golden.bfp", "--format", "json", "--machine", "haswell-i7-4770k"]));
    assert_eq!((&report["schema"], &report["processes"][0]["end"]), (&"bf.report/1".into(), &"replay".into()));
    assert_eq!(report["query"]["levels"].as_array().unwrap().len(), 3);
    // A machine whose lines the profile lacks costs only the table.
    let text = stdout(&bf(folder.path(), &["report", "golden.bfp", "--machine", "a64fx"]));
    assert!(text.contains("line size 256 is not in the profile") && text.contains("Next"), "{text}");
}

#[test]
fn commands_to_type_next_can_be_typed() {
    let folder = tagged();
    fs::rename(folder.path().join("tagged.bfp"), folder.path().join("my prog.bfp")).unwrap();
    let said = |command: &[&str]| stdout(&bf(folder.path(), command));
    assert!(said(&["report"]).contains("\n  bf query 'my prog.bfp' --cache L1=32K:8 "));
    let best = said(&["sweep", "my prog.bfp", "--l1", "1K..8K:2", "--tag", "big"]);
    assert!(best.contains(": bf query 'my prog.bfp' --tag big --cache L1="), "{best}");
}

#[test]
fn the_newest_profile_is_a_file() {
    let folder = golden();
    fs::create_dir(folder.path().join("a.bfp")).unwrap();
    symlink("nowhere", folder.path().join("b.bfp")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("c.bfp")).status().unwrap().success());
    let output = bf(folder.path(), &["report"]);
    stdout(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("newest profile here: golden.bfp"), "{output:?}");
}

#[test]
fn several_profiles_are_merged_or_answered_each() {
    let folder = golden();
    fs::write(folder.path().join("other.din"), "r 0 8\n").unwrap();
    stdout(&bf(folder.path(), &["replay", "other.din", "-o", "other.bfp"]));
    let ask = |more: &[&str]| {
        json(&bf(folder.path(), &[&["query", "--cache", "L1=64:full", "--format", "json"], more].concat()))
    };
    let together = ask(&["golden.bfp", "other.bfp"]);
    assert_eq!((&together["processes"], &together["references"]), (&2.into(), &8.into()));
    assert_eq!(together["levels"][0]["spread"]["misses"], serde_json::json!({"min": 1, "median": 3, "max": 6}));
    let each = ask(&["golden.bfp", "other.bfp", "--each"]);
    let references: Vec<_> = each.as_array().unwrap().iter().map(|answer| answer["references"].clone()).collect();
    assert_eq!(references, [7, 1]);
    let command = ["query", "--each", "golden.bfp", "other.bfp", "--cache", "L1=128:full:128"];
    let (code, message) = failure(&bf(folder.path(), &command));
    assert!(code == 1 && message.starts_with("bf: other.bfp: L1: line size 128 is not in the profile"), "{message}");
    let (code, message) = failure(&bf(folder.path(), &[&command[..1], &command[2..]].concat()));
    assert!(code == 1 && message.contains("process other.din 0 of the profile lacks line size 128"), "{message}");

    let merged = json(&bf(folder.path(), &["merge", "golden.bfp", "other.bfp", "-o", "all.bfp", "--format", "json"]));
    assert_eq!((&merged["schema"], &merged["processes"]), (&"bf.merge/1".into(), &2.into()));
    assert_eq!(
        merged["figures"][0],
        serde_json::json!({"name": "accesses", "sum": 8, "min": 1, "median": 4, "max": 7})
    );
    stdout(&bf(folder.path(), &["merge", "other.bfp", "golden.bfp", "-o", "swapped.bfp"]));
    assert_eq!(fs::read(folder.path().join("all.bfp")).unwrap(), fs::read(folder.path().join("swapped.bfp")).unwrap());
    let text = stdout(&bf(folder.path(), &["report", "all.bfp"]));
    assert!(text.contains("\n  golden.din: 7 accesses, replayed from a trace\n"), "{text}");
    // A process counts once, however often it is given.
    let again = bf(folder.path(), &["merge", "all.bfp", "golden.bfp", "-o", "again.bfp"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("1 process was given more than once"));
    assert_eq!(fs::read(folder.path().join("all.bfp")).unwrap(), fs::read(folder.path().join("again.bfp")).unwrap());
}

#[test]
fn a_merge_loses_no_process_that_it_writes_over() {
    let folder = golden();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("other.din"), "r 0 8\n").unwrap();
    stdout(&bf(folder.path(), &["replay", "other.din", "-o", "other.bfp"]));
    let before = fs::read(at("other.bfp")).unwrap();
    let (code, message) = failure(&bf(folder.path(), &["merge", "-o", "other.bfp", "golden.bfp"]));
    assert!(code == 2 && message.contains("other.bfp is a profile of more than is merged"), "{message}");
    assert_eq!(fs::read(at("other.bfp")).unwrap(), before);
    // Over an empty file, over what it wrote before, and over one of its own.
    fs::write(at("all.bfp"), "").unwrap();
    for output in ["all.bfp", "all.bfp", "golden.bfp"] {
        stdout(&bf(folder.path(), &["merge", "-o", output, "golden.bfp", "other.bfp"]));
    }
    assert_eq!(fs::read(at("all.bfp")).unwrap(), fs::read(at("golden.bfp")).unwrap());
}

#[test]
fn a_sweep_prints_a_table_and_draws_curves() {
    let folder = golden();
    let sweep = |more: &[&str]| bf(folder.path(), &[&["sweep", "golden.bfp", "--size", "64..256"], more].concat());
    let output = sweep(&["--ways", "1,4,full", "--plot", "mrc.svg"]);
    let text = stdout(&output);
    assert!(text.contains("2 combinations skipped"), "{text}");
    assert!(
        text.lines().any(|line| line.split_whitespace().eq(["256", "42.9", "%", "42.9", "%", "42.9", "%"])),
        "{text}"
    );
    let plot = fs::read_to_string(folder.path().join("mrc.svg")).unwrap();
    for words in ["<svg", "golden.bfp", "cache size", "miss ratio", "1 way", "4 ways", "full", "128"] {
        assert!(plot.contains(words), "{words}");
    }
    let output = sweep(&["--ways", "full", "--line", "64,128", "--format", "json"]);
    let answer = json(&output);
    assert_eq!((&answer["schema"], &answer["skipped"]), (&"bf.sweep/1".into(), &1.into()));
    assert_eq!(answer["points"].as_array().unwrap().len(), 5);
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("bf: 1 combination skipped; "), "{output:?}");
    let (code, message) = failure(&sweep(&["--plot", "mrc.png"]));
    assert!(code == 2 && message.contains(".svg"), "{message}");
}

#[test]
fn a_plot_is_of_one_profile() {
    let folder = golden();
    fs::create_dir(folder.path().join("ranks")).unwrap();
    for name in ["a", "b"] {
        let tags = ["", "@1"].map(str::to_owned).to_vec();
        let mut profile = bf_profile::read_file(folder.path().join("golden.bfp")).unwrap();
        profile.processes[0].tags = tags;
        bf_profile::write_file(folder.path().join(format!("ranks/{name}.bfp")), &profile).unwrap();
    }
    for command in [&["sweep", "--size", "64..256"][..], &["report", "--by", "phase", "--cache", "L1=64:full"]] {
        let ask = |of| bf(folder.path(), &[command, &["--plot", "p.svg", "--each", of]].concat());
        let (code, message) = failure(&ask("ranks"));
        assert!(code == 2 && message.contains("--plot draws one profile"), "{message}");
        assert!(!folder.path().join("p.svg").exists());
        stdout(&ask("ranks/a.bfp"));
        fs::remove_file(folder.path().join("p.svg")).unwrap();
    }
    assert!(!stdout(&bf(folder.path(), &["export", "--help"])).contains("--each"));
}

#[test]
fn what_found_no_name_is_in_no_phase() {
    let folder = golden();
    let mut profile = bf_profile::read_file(folder.path().join("golden.bfp")).unwrap();
    let process = &mut profile.processes[0];
    process.tags = ["", "@1", "(more tags)"].map(str::to_owned).to_vec();
    for data in &mut process.lines {
        data.stacks = (0..3).map(|tag| StackData { tag, ..data.stacks[0].clone() }).collect();
    }
    bf_profile::write_file(folder.path().join("full.bfp"), &profile).unwrap();
    let ask = |format| bf(folder.path(), &["report", "full.bfp", "--by", "phase", "--format", format]);
    let (course, text) = (json(&ask("json")), stdout(&ask("text")));
    let items = course["items"].as_array().unwrap().iter().map(|item| [item["phase"].as_u64(), item["first"].as_u64()]);
    assert_eq!(items.collect::<Vec<_>>(), [[Some(0), Some(0)], [Some(1), Some(7)], [None, None]]);
    assert!(text.contains("not told apart") && !text.contains("only references tagged"), "{text}");
    let text = stdout(&bf(folder.path(), &["report", "full.bfp", "--by", "phase", "--tag", "@1"]));
    assert!(text.contains("\nonly references tagged @1\n"), "{text}");
    let said = String::from_utf8(bf(folder.path(), &["query", "full.bfp", "--tag", "@1"]).stderr).unwrap();
    assert!(said.contains("than are told apart; what came then counts as (more tags)"), "{said}");
}

/// A folder with `big.bfp`, passes over 4 KB, and `tagged.bfp`, the same under tag `big` beside golden references without a tag.
fn tagged() -> TempDir {
    let folder = golden();
    let passes: String = (0..256).map(|at| format!("r {:x} 8\n", at % 64 * 64)).collect();
    fs::write(folder.path().join("big.din"), passes).unwrap();
    stdout(&bf(folder.path(), &["replay", "big.din", "-o", "big.bfp"]));
    let read = |name: &str| bf_profile::read_file(folder.path().join(name)).unwrap();
    let (mut profile, mut big) = (read("golden.bfp"), read("big.bfp"));
    let process = &mut profile.processes[0];
    process.tags.push("big".to_owned());
    process.lines.retain(|data| data.line_bytes == 64);
    let stack = big.processes[0].lines[0].stacks.remove(0);
    process.lines[0].stacks.push(StackData { tag: 1, ..stack });
    bf_profile::write_file(folder.path().join("tagged.bfp"), &profile).unwrap();
    folder
}

#[test]
fn figures_of_a_tag_are_of_its_references_alone_and_say_so() {
    let folder = tagged();
    let ask = |command: &[&str]| stdout(&bf(folder.path(), command));
    for command in [
        &["report", "tagged.bfp"][..],
        &["sweep", "tagged.bfp", "--size", "1K..8K"],
        &["sweep", "tagged.bfp", "--l1", "1K..8K:2"],
        &["sweep", "tagged.bfp", "--study", "ways", "--l1", "4K:2"],
        &["sweep", "tagged.bfp", "--knees"],
    ] {
        let says = |text: String| text.contains("\nonly references tagged big\n");
        assert!(!says(ask(command)) && says(ask(&[command, &["--tag", "big"]].concat())), "{command:?}");
    }
    let answer = |command: &[&str]| serde_json::from_str::<Value>(&ask(command)).unwrap();
    let of = |command: &[&str]| {
        let [big, tagged] = [&["big.bfp"][..], &["tagged.bfp", "--tag", "big"]]
            .map(|profile| answer(&[command, profile, &["--format", "json"]].concat()));
        (big, tagged)
    };
    let (big, tagged) = of(&["report", "--cache", "L1=4K:full"]);
    for key in ["curve", "knees", "reuse_distance"] {
        assert_eq!(big[key], tagged[key], "{key}");
    }
    assert_eq!(tagged["knees"][0]["size_bytes"], 4096);
    let (big, tagged) = of(&["sweep", "--knees"]);
    assert_eq!(big["working_sets"], tagged["working_sets"]);
    assert_eq!((&big["tags"], &tagged["tags"]), (&Value::Array(vec![]), &vec![Value::from("big")].into()));
}

#[test]
fn what_a_report_cannot_answer_is_a_failure_where_it_has_nothing_else() {
    let folder = tagged();
    for command in [
        &["report", "tagged.bfp", "--tag", "bog"][..],
        &["report", "tagged.bfp", "--tag", "bog", "--format", "json"],
        &["export", "tagged.bfp", "--tag", "bog", "--to", "parquet", "-o", "pq"],
    ] {
        let (code, message) = failure(&bf(folder.path(), &[command, &["--cache", "L1=1K:2"]].concat()));
        assert!(code == 1 && message.starts_with("bf: tagged.bfp: no tag `bog` in the profile; "), "{message}");
    }
    assert!(!folder.path().join("pq").exists());
    let csv = bf(folder.path(), &["report", "tagged.bfp", "--machine", "a64fx", "--format", "csv"]);
    let (code, message) = failure(&csv);
    assert!(code == 1 && message.starts_with("bf: tagged.bfp: L1: line size 256 is not in the profile"), "{message}");
}

#[test]
fn csv_without_rows_has_a_header() {
    let folder = golden();
    for (command, begins) in [
        (&["sweep", "golden.bfp", "--size", "7"][..], "profiles,size_bytes,line_bytes,sets,ways,full,model,"),
        (&["sweep", "one.bfp", "--knees"], "profiles,from_bytes,size_bytes,above,below\n"),
        (&["sweep", "one.bfp", "--study", "line", "--line", "32", "--l1", "1K:2"], "profiles,name,size_bytes,"),
    ] {
        fs::write(folder.path().join("one.din"), "r 0 8\n").unwrap();
        stdout(&bf(folder.path(), &["replay", "one.din", "-o", "one.bfp"]));
        let csv = stdout(&bf(folder.path(), &[command, &["--format", "csv"]].concat()));
        assert!(csv.starts_with(begins) && csv.lines().count() == 1, "{csv}");
    }
}

#[test]
fn a_page_takes_no_options_of_a_breakdown() {
    let folder = golden();
    for option in ["--plot=t.svg", "--top=5", "--sort=L1.misses"] {
        let (code, message) = failure_text(&bf(folder.path(), &["report", "golden.bfp", "--html", "r.html", option]));
        assert!(code == 2 && message.contains("cannot be used with"), "{message}");
    }
}

#[test]
fn a_tag_that_counted_nothing_has_no_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let block = |count| BlockItem { tag: 1, values: vec![(0, count)], ..BlockItem::default() };
    let counters = Counters {
        names: vec!["blocks".to_owned()],
        functions: vec![CountedFunction::default()],
        items: vec![CountItem { tag: 1, function: 0, values: vec![(0, 7)] }],
        blocks: vec![block(7)],
        ..Counters::default()
    };
    let tags = ["", "full", "empty"].map(str::to_owned).to_vec();
    let profile = Profile { processes: vec![Process { tags, counters, ..Process::default() }] };
    bf_profile::write_file(folder.path().join("p.bfp"), &profile).unwrap();
    let rows = |tag: &str| {
        let command = ["report", "p.bfp", "--by", "block", "--tag", tag, "--sort", "blocks", "--format", "json"];
        json(&bf(folder.path(), &command))["items"].as_array().unwrap().len()
    };
    assert_eq!((rows("full"), rows("empty")), (1, 0));
}

#[test]
fn machines_come_from_presets_and_files() {
    let folder = golden();
    let ask = |machine: &str| bf(folder.path(), &["query", "golden.bfp", "--machine", machine, "--format", "json"]);
    let names = |machine: &str| -> Vec<String> {
        let answer = json(&ask(machine));
        answer["levels"].as_array().unwrap().iter().map(|level| level["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("haswell-i7-4770k"), ["L1", "L2", "L3"]);
    let tool = r#"{"caches":[{"name":"L1d","size_bytes":32768,"ways":8,"line_bytes":64,"sharing":1}]}"#;
    fs::write(folder.path().join("mine.json"), tool).unwrap();
    assert_eq!(names("mine.json"), ["L1d"]);
    fs::create_dir(folder.path().join("bf")).unwrap();
    let preset =
        "[mine]\ncpu = 'x'\nsource = 'y'\nlevels = [{ name = 'near', size = '1K', ways = 'full', line = 64 }]\n";
    fs::write(folder.path().join("bf/presets.toml"), preset).unwrap();
    assert_eq!(names("mine"), ["near"]);
    let list = stdout(&bf(folder.path(), &["machines"]));
    assert!(list.contains("mine") && list.contains("near=1K:full:64:private") && list.contains("zen3-milan"));
    // An answer can be given back.
    let caches = ["A=128:2", "B=512:2:exclusive", "C=2K:2:shared:hashed:exclusive"];
    let caches: Vec<_> = caches.iter().flat_map(|cache| ["--cache", cache]).collect();
    let answer = bf(folder.path(), &[&["query", "golden.bfp", "--format", "json"], &caches[..]].concat());
    fs::write(folder.path().join("answer.json"), &answer.stdout).unwrap();
    assert_eq!(json(&ask("answer.json"))["levels"], json(&answer)["levels"]);
    let (code, message) = failure(&ask("pentium"));
    assert!(code == 2 && message.contains("`pentium`") && message.contains("haswell-i7-4770k"), "{message}");
    fs::write(folder.path().join("bf/presets.toml"), "[mine]\nlevels = 3\n").unwrap();
    let (code, message) = failure(&ask("mine"));
    assert!(code == 1 && message.contains("bf/presets.toml"), "{message}");
    let (code, message) = failure(&ask("nowhere.json"));
    assert!(code == 1 && message.contains("nowhere.json"), "{message}");
}

/// As [`failure`], where the argument parser may add lines on the usage.
fn failure_text(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

#[test]
fn wrong_questions_name_the_thing_and_the_mend() {
    let folder = golden();
    for (cache, code, words) in [
        ("L1=1000:8:64", 2, ["512", "1K"]),
        ("L1=1000:8", 2, ["512", "1K"]),
        ("L1=32K", 2, ["L1=32K", "NAME=SIZE"]),
        ("L1=32K:8:32", 1, ["line size 32", "64, 128"]),
        ("L1=32K:128", 1, ["BF_MAX_WAYS=128", "-bf-max-ways"]),
    ] {
        let output = bf(folder.path(), &["query", "golden.bfp", "--cache", cache]);
        let (found, message) = failure_text(&output);
        assert!(found == code && words.iter().all(|word| message.contains(word)), "{cache}: {found} {message}");
    }
    for (arguments, code, word) in [
        (&["query", "golden.bfp", "--cache", "A=64:1", "--cache", "A=64:1"][..], 2, "`A`"),
        (&["query", "golden.bfp", "--cache", "A=64:1:shared", "--cache", "B=64:1"], 2, "B is private"),
        (&["query", "golden.bfp", "--cache", "A=64:1", "--tag", "solve"], 1, "`solve`"),
        (&["query", "golden.bfp", "--cache", "A=64:1:shared", "--share", "B=0"], 2, "`B`"),
        (&["query", "golden.bfp", "--cache", "A=64:1", "--share", "A=0"], 2, "A is private"),
        (&["query", "golden.bfp", "--cache", "A=64:1:shared", "--share", "A=0-1"], 1, "there is no thread 1"),
        (&["query", "missing.bfp", "--cache", "A=64:1"], 1, "missing.bfp"),
        (&["query", "golden.din", "--cache", "A=64:1"], 1, "not a bf profile"),
        (&["serve", "missing.bfp"], 1, "bf: failed to read missing.bfp: "),
        (&["serve", "missing.bfp", "golden.din"], 1, "none of the profiles could be read; the first: failed to read m"),
        (&["merge", "golden.bfp", "-o", "/nowhere/x.bfp"], 1, "/nowhere/x.bfp"),
        (&["replay", "golden.din", "-o", "/nowhere/x.bfp"], 1, "/nowhere/x.bfp"),
        (&["replay", "golden.bfp", "-o", "x.bfp"], 1, "--from"),
        (&["trace", "golden.din", "--to", "din"], 1, "not a bf trace"),
        (&["trace", "golden.din", "--to", "bf"], 2, "already"),
        (&["sweep", "golden.bfp", "--plot", "/nowhere/x.svg"], 1, "/nowhere/x.svg"),
        (&["query", "golden.bfp", "--machine", "/dev/zero"], 1, "/dev/zero: it has more than 16 MiB"),
    ] {
        let (found, message) = failure(&bf(folder.path(), arguments));
        assert!(found == code && message.contains(word), "{arguments:?}: {found} {message}");
    }
    for arguments in [
        &["query", "--nonsense"][..],
        &["query", "--share", "L3=0,0"],
        &["query", "--cache", "L1"],
        &["sweep", "--size", "8K..4K"],
        &[],
    ] {
        assert_eq!(bf(folder.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
    for command in ["sweep", "sharing"] {
        let (code, message) = failure_text(&bf(folder.path(), &[command, "golden.bfp", "--line", "7"]));
        assert!(code == 2 && message.contains("line size 7 is no power of two from 8 up"), "{command}: {message}");
    }
    for (option, value, word) in [
        ("--max-ways", "256", "'--max-ways <N>'"),
        ("--max-ways", "0", "'--max-ways <N>'"),
        ("--max-set-bits", "25", "'--max-set-bits <N>'"),
        ("--line-size", "2147483648", "line size 2147483648 is no power of two from 8 to 2^30"),
    ] {
        let output = bf(folder.path(), &["replay", "golden.din", "-o", "x.bfp", option, value]);
        let (code, message) = failure_text(&output);
        assert!(code == 2 && message.contains(word), "{option} {value}: {code} {message}");
    }
    let empty = tempfile::tempdir().unwrap();
    let (code, message) = failure(&bf(empty.path(), &["report"]));
    assert!(code == 1 && message.contains("*.bfp"), "{message}");
}

#[test]
fn the_longest_lines_and_the_greatest_caches_are_answered() {
    let folder = golden();
    let command = ["replay", "golden.din", "-o", "long.bfp", "--line-size", "16384,1073741824"];
    stdout(&bf(folder.path(), &command));
    stdout(&bf(folder.path(), &["replay", "golden.din", "-o", "longest.bfp", "--line-size", "1073741824"]));
    for command in [
        &["report", "longest.bfp"][..],
        &["sweep", "longest.bfp", "--knees"],
        &["compare", "long.bfp", "long.bfp"],
        &["compare", "longest.bfp", "longest.bfp"],
        &["query", "golden.bfp", "--cache", "L1=1024T:full", "--cache", "L2=1024T:full:exclusive"],
        &["sweep", "golden.bfp", "--l1", "1024T:full", "--l2", "1024T:full:exclusive", "--objective", "size"],
    ] {
        stdout(&bf(folder.path(), command));
    }
    let (code, message) = failure_text(&bf(folder.path(), &["query", "golden.bfp", "--cache", "L1=1025T:full"]));
    assert!(code == 2 && message.contains("up to 1024T"), "{message}");
}

#[test]
fn a_profile_without_references_is_named() {
    let folder = golden();
    let process = Process { tags: vec![String::new()], ..Process::default() };
    bf_profile::write_file(folder.path().join("none.bfp"), &Profile { processes: vec![process] }).unwrap();
    let asked = [
        &["query", "--cache", "L1=1K:1"][..],
        &["sweep"],
        &["sweep", "--l1", "1K:1"],
        &["sweep", "--knees"],
        &["report", "--by", "object", "--cache", "L1=1K:1"],
    ];
    for command in asked {
        let (code, message) = failure(&bf(folder.path(), &[command, &["none.bfp"]].concat()));
        assert!(code == 1 && message == "bf: none.bfp: the profile holds no counts\n", "{command:?} {message}");
    }
    counted(folder.path(), "none.bfp", &[("loads", 7)]);
    for command in asked.into_iter().chain([&["sharing"][..]]) {
        let (code, message) = failure(&bf(folder.path(), &[command, &["counted.bfp"]].concat()));
        let starts = message.starts_with("bf: counted.bfp: the profile has counters but no references; ");
        assert!(code == 1 && starts && message.contains("-bf-counters-only"), "{command:?} {message}");
    }
}

#[test]
fn a_run_that_recorded_nothing_is_told_why() {
    let folder = golden();
    let mut profile = bf_profile::read_file(folder.path().join("golden.bfp")).unwrap();
    profile.processes[0].meta.end = EndReason::Exit;
    for (accesses, dropped, told) in [(7, 0, false), (0, 0, true), (0, 7, false)] {
        (profile.processes[0].meta.accesses, profile.processes[0].meta.dropped) = (accesses, dropped);
        bf_profile::write_file(folder.path().join("p.bfp"), &profile).unwrap();
        let text = stdout(&bf(folder.path(), &["report", "p.bfp"]));
        assert_eq!(
            text.contains("-bf-include and -bf-exclude go by functions as they are after inlining"),
            told,
            "{text}"
        );
    }
}

#[test]
fn a_bad_line_of_a_trace_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.din"), "r 0 8\nq 0 8\n").unwrap();
    let (code, message) = failure(&bf(folder.path(), &["replay", "bad.din", "-o", "x.bfp"]));
    assert!(code == 1 && message.contains("bad.din: line 2: `q`"), "{message}");
    assert!(!folder.path().join("x.bfp").exists());
}

#[test]
fn damaged_profiles_are_refused_and_salvaged_on_request() {
    let folder = golden();
    let bytes = fs::read(folder.path().join("golden.bfp")).unwrap();
    fs::write(folder.path().join("cut.bfp"), &bytes[..bytes.len() - 20]).unwrap();
    let ask = |more: &[&str]| {
        bf(folder.path(), &[&["query", "cut.bfp", "--cache", "L1=64:full:64", "--format", "json"], more].concat())
    };
    let (code, message) = failure(&ask(&[]));
    assert!(code == 1 && message.contains("cut.bfp") && message.contains("--salvage"), "{message}");
    let salvaged = ask(&["--salvage"]);
    assert!(!salvaged.stderr.is_empty(), "what was lost is said");
    assert_eq!(json(&salvaged)["levels"][0]["misses"], 6);
}

#[test]
fn traces_are_read_from_stdin_and_compressed_files() {
    let folder = golden();
    let expected = json(&bf(folder.path(), &["query", "golden.bfp", "--cache", "L1=128:full", "--format", "json"]));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, GOLDEN.as_bytes()).unwrap();
    fs::write(folder.path().join("t.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(folder.path().join("t.zst"), zstd::encode_all(GOLDEN.as_bytes(), 1).unwrap()).unwrap();
    let from_stdin = Command::new(env!("CARGO_BIN_EXE_bf"))
        .current_dir(folder.path())
        .args(["replay", "-", "-o", "stdin.bfp"])
        .stdin(fs::File::open(folder.path().join("golden.din")).unwrap())
        .output()
        .unwrap();
    stdout(&from_stdin);
    stdout(&bf(folder.path(), &["replay", "t.gz", "-o", "gz.bfp"]));
    stdout(&bf(folder.path(), &["replay", "t.zst", "-o", "zst.bfp", "--format", "json"]));
    for profile in ["stdin.bfp", "gz.bfp", "zst.bfp"] {
        let answer = json(&bf(folder.path(), &["query", profile, "--cache", "L1=128:full", "--format", "json"]));
        assert_eq!(answer["levels"], expected["levels"], "{profile}");
    }
}

/// A folder with `whole.bfp` and `sampled.bfp` of the same trace: 4 MB stored line by line, twice.
fn sampled() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let trace: String = (0..1 << 17).map(|i| format!("w {:x} 8\n", i % (1 << 16) * 64)).collect();
    fs::write(folder.path().join("t.din"), trace).unwrap();
    stdout(&bf(folder.path(), &["replay", "t.din", "-o", "whole.bfp"]));
    let said = stdout(&bf(folder.path(), &["replay", "t.din", "-o", "sampled.bfp", "--sample", "0.05"]));
    assert!(said.contains("131,072 accesses of 1 thread from t.din (din), 1 line in 16 followed"), "{said}");
    folder
}

#[test]
fn sampled_answers_have_intervals_and_exact_ones_do_not() {
    let folder = sampled();
    let ask = |profile, format| {
        bf(folder.path(), &["query", profile, "--cache", "L2=1M:16", "--cache", "L3=8M:full", "--format", format])
    };
    let (whole, sampled) = (json(&ask("whole.bfp", "json")), json(&ask("sampled.bfp", "json")));
    for (whole, sampled) in whole["levels"].as_array().unwrap().iter().zip(sampled["levels"].as_array().unwrap()) {
        assert!(whole.get("sampled").is_none());
        assert_eq!((&sampled["exact"], &sampled["sampled"]["rate"]), (&false.into(), &0.0625.into()));
        for figure in ["misses", "cold", "writebacks", "resident_dirty"] {
            let interval = &sampled["sampled"][figure];
            let ends = interval["low"].as_u64().unwrap()..=interval["high"].as_u64().unwrap();
            assert!(ends.contains(&whole[figure].as_u64().unwrap()), "{figure}: {} {ends:?}", whole[figure]);
        }
    }
    let text = stdout(&ask("sampled.bfp", "text"));
    assert!(text.contains("lru, sampled") && text.contains("95 % interval"), "{text}");
    assert!(text.contains("L2: estimated from 1 set in 16"), "{text}");
    let csv = stdout(&ask("sampled.bfp", "csv"));
    assert!(csv.lines().next().unwrap().contains("sampled_misses_low,sampled_misses_high"), "{csv}");
    let sweep = stdout(&bf(folder.path(), &["sweep", "sampled.bfp", "--size", "64K..4M", "--ways", "1,full"]));
    assert!(sweep.contains('±') && sweep.contains("combinations skipped"), "{sweep}");
}

#[test]
fn tables_without_intervals_say_that_they_are_estimates() {
    let folder = sampled();
    let mut profile = bf_profile::read_file(folder.path().join("sampled.bfp")).unwrap();
    profile.processes[0].tags.push("@1".to_owned());
    bf_profile::write_file(folder.path().join("cut.bfp"), &profile).unwrap();
    for command in [
        &["report", "cut.bfp", "--by", "phase", "--cache", "L2=1M:16"][..],
        &["sweep", "cut.bfp", "--study", "ways", "--l2", "1M:16"],
        &["sweep", "cut.bfp", "--study", "line", "--l2", "1M:16"],
        &["sweep", "cut.bfp", "--l2", "1M:16"],
    ] {
        assert!(stdout(&bf(folder.path(), command)).contains("\nEstimates from a sample of the lines"), "{command:?}");
        let answer = stdout(&bf(folder.path(), &[command, &["--format", "json"]].concat()));
        assert!(answer.contains("\"confidence\""), "{answer}");
    }
}

#[test]
fn what_a_sample_does_not_tell_is_refused() {
    let folder = sampled();
    let (code, message) = failure(&bf(folder.path(), &["query", "sampled.bfp", "--cache", "L1=32K:8"]));
    assert!(code == 1 && message.contains("sample of 1 line in 16") && message.contains("BF_SAMPLE"), "{message}");
    for command in [&["query", "whole.bfp", "sampled.bfp"][..], &["merge", "whole.bfp", "sampled.bfp", "-o", "m.bfp"]] {
        let (code, message) = failure(&bf(folder.path(), command));
        assert!(code == 1 && message.contains("recorded whole") && message.contains("--each"), "{message}");
        assert!(message.contains("from sampled.bfp on"), "{message}");
    }
    let report = stdout(&bf(folder.path(), &["report", "sampled.bfp", "--machine", "skylake-sp"]));
    assert!(report.contains("of which 1 in 16 followed") && report.contains("Left out"), "{report}");
    let report = json(&bf(folder.path(), &["report", "sampled.bfp", "--machine", "skylake-sp", "--format", "json"]));
    assert_eq!(report["refused"].as_array().unwrap().len(), 1);
    let names: Vec<_> = report["query"]["levels"].as_array().unwrap().iter().map(|level| &level["name"]).collect();
    assert_eq!(names, ["L2", "L3"]);
}

#[test]
fn sampling_rates_that_cannot_be_are_refused() {
    let folder = golden();
    for rate in ["0", "2", "abc", "-1"] {
        for command in [&["replay", "golden.din", "-o", "x.bfp"][..], &["run"]] {
            let rate = format!("--sample={rate}");
            let output = bf(folder.path(), &[command, &[&rate, "true"]].concat());
            assert_eq!(output.status.code(), Some(2));
            assert!(String::from_utf8_lossy(&output.stderr).contains("sampling rate"), "{output:?}");
        }
    }
    // All lines are no sample.
    stdout(&bf(folder.path(), &["replay", "golden.din", "-o", "x.bfp", "--sample", "1"]));
    assert_eq!(
        json(&bf(folder.path(), &["query", "x.bfp", "--cache", "L1=64:full", "--format", "json"]))["levels"][0]["exact"],
        true
    );
}

#[test]
fn a_closed_pipe_is_success() {
    let folder = golden();
    for format in ["text", "json", "csv"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bf"))
            .current_dir(folder.path())
            .args(["sweep", "golden.bfp", "--size", "64..1M+64", "--ways", "full", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

/// Runs `bf` where no file may have more than a few KiB.
fn on_a_full_disk(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_bf")]);
    command.current_dir(folder).args(arguments).output().unwrap()
}

#[test]
fn what_cannot_be_written_whole_leaves_what_was_there() {
    let folder = golden();
    for (file, arguments) in [
        ("plot.svg", &["sweep", "golden.bfp", "--size", "64..1K", "--plot", "plot.svg"][..]),
        (
            "s.csv",
            &["sweep", "golden.bfp", "--l1", "64..32K:1..8", "--l2", "64..32K:1..8", "--format", "csv", "-o", "s.csv"],
        ),
    ] {
        fs::write(folder.path().join(file), "good\n").unwrap();
        let before = fs::read_dir(folder.path()).unwrap().count();
        let (code, message) = failure_text(&on_a_full_disk(folder.path(), arguments));
        assert!(code == 1 && message.contains(&format!("failed to write {file}: ")), "{message}");
        assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), "good\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
        let output = bf(folder.path(), arguments);
        assert!(output.status.success() && fs::read(folder.path().join(file)).unwrap().len() > 4096, "{output:?}");
    }
}

#[test]
fn a_profile_is_no_place_for_an_output() {
    let folder = golden();
    let before = fs::read(folder.path().join("golden.bfp")).unwrap();
    for (arguments, word) in [
        (&["sweep", "golden.bfp", "--l1", "64..1K:1", "--format", "csv", "-o", "golden.bfp"][..], "is a profile"),
        (&["report", "golden.bfp", "--html", "golden.bfp"], "is a profile"),
    ] {
        let (code, message) = failure_text(&bf(folder.path(), arguments));
        assert!(code == 2 && message.contains(word), "{message}");
    }
    assert_eq!(fs::read(folder.path().join("golden.bfp")).unwrap(), before);
}

#[test]
fn a_trace_is_no_place_for_what_is_made_of_it() {
    let folder = golden();
    symlink("golden.din", folder.path().join("link")).unwrap();
    for (arguments, word) in [
        (&["replay", "golden.din", "-o", "./golden.din"][..], "./golden.din is the trace that is read"),
        (&["replay", "golden.din", "-o", "link"], "link is the trace"),
        (&["trace", "link", "--to", "lackey", "-o", "golden.din"], "golden.din is the trace"),
        (&["trace", "golden.din", "--to", "lackey", "-o", "golden.bfp"], "golden.bfp is a profile"),
    ] {
        let (code, message) = failure(&bf(folder.path(), arguments));
        assert!(code == 2 && message.contains(word), "{message}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("golden.din")).unwrap(), GOLDEN);
    assert!(fs::read(folder.path().join("golden.bfp")).unwrap().starts_with(&bf_profile::MAGIC));
}

#[test]
fn a_run_does_not_lose_its_program() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p"), "#!/bin/sh\n").unwrap();
    for (option, pattern) in [("-o", "p"), ("-o", "%e"), ("--trace", "./p")] {
        let (code, message) = failure(&bf(folder.path(), &["run", option, pattern, "--", "./p"]));
        assert!(code == 2 && message.contains("p is the program itself, which would be lost"), "{message}");
    }
}

#[test]
fn a_run_does_not_lose_a_profile_to_a_trace() {
    let folder = golden();
    let before = fs::read(folder.path().join("golden.bfp")).unwrap();
    for (options, word) in [
        (&["--trace", "golden.bfp"][..], "golden.bfp is a profile, which would be lost"),
        (&["--trace", "both", "-o", "./both"], "the profile and the trace would both be both; name two files"),
    ] {
        let (code, message) = failure(&bf(folder.path(), &[&["run"], options, &["--", "true"]].concat()));
        assert!(code == 2 && message.contains(word), "{message}");
    }
    assert_eq!(fs::read(folder.path().join("golden.bfp")).unwrap(), before);
}

#[test]
fn a_slip_in_the_options_of_a_run_is_no_program() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| bf(folder.path(), &[&["run"], arguments].concat());
    for arguments in [&["--no-alsr", "--", "true"][..], &["-o", "", "--", "true"], &["--trace", "", "--", "true"]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(stdout(&run(&["echo", "--no-alsr", "--", "-o"])), "--no-alsr -- -o\n");
    assert_eq!(failure(&run(&["--", "--no-alsr"])).0, 127);
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for arguments in [&["--version"][..], &["help"], &["query", "--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_bf")).args(arguments).stdout(full).output().unwrap();
        let (code, message) = failure(&output);
        assert!(code == 1 && message.contains("failed to write: No space left"), "{arguments:?}: {message}");
    }
}

#[test]
fn what_a_profile_says_stays_on_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let tags = ["", "a\nb\x1b]0;title\x07"].map(str::to_owned).to_vec();
    let mut process = Process { tags, ..Process::default() };
    process.meta.command = ["./p", "\x1b[31mred", "one\n  ended       exit"].map(str::to_owned).to_vec();
    bf_profile::write_file(folder.path().join("p.bfp"), &Profile { processes: vec![process] }).unwrap();
    let text = stdout(&bf(folder.path(), &["report", "p.bfp"]));
    assert!(text.contains("  command     ./p \\x1b[31mred one\\n  ended       exit\n"), "{text}");
    assert!(text.contains("  tags        a\\nb\\x1b]0;title\\x07\n"), "{text}");
    let report = json(&bf(folder.path(), &["report", "p.bfp", "--format", "json"]));
    assert_eq!(report["processes"][0]["command"][1], "\x1b[31mred");
    let (code, message) = failure(&bf(folder.path(), &["query", "p.bfp", "--cache", "A=64:1", "--tag", "\x1bx"]));
    assert!(code == 1 && !message.contains('\x1b'), "{message}");
}

/// Writes `counted.bfp`: a profile with counters of one function.
fn counted(folder: &Path, profile: &str, counts: &[(&str, u64)]) {
    let mut profile = bf_profile::read_file(folder.join(profile)).unwrap();
    let values = (0..).zip(counts.iter().map(|count| count.1)).collect();
    profile.processes[0].counters = Counters {
        names: counts.iter().map(|count| count.0.to_owned()).collect(),
        functions: vec![CountedFunction { name: "_ZN3app5TableIdE4fillEi".to_owned(), ..CountedFunction::default() }],
        items: vec![CountItem { tag: 0, function: 0, values }],
        ..Counters::default()
    };
    bf_profile::write_file(folder.join("counted.bfp"), &profile).unwrap();
}

#[test]
fn functions_have_the_names_of_the_source_in_text() {
    let folder = golden();
    counted(folder.path(), "golden.bfp", &[("instructions", 7)]);
    for command in [&["report", "counted.bfp"][..], &["compare", "counted.bfp", "counted.bfp"]] {
        let text = stdout(&bf(folder.path(), command));
        assert!(text.contains("\n app::Table<double>::fill(int) "), "{text}");
        let answer = json(&bf(folder.path(), &[command, &["--format", "json"]].concat())).to_string();
        assert!(answer.contains("\"_ZN3app5TableIdE4fillEi\""), "{answer}");
    }
}

#[test]
fn what_a_cache_above_would_tell_is_not_told_without_it() {
    let folder = sampled();
    counted(folder.path(), "sampled.bfp", &[("bytes_loaded", 800), ("bytes_stored", 200), ("flops", 500)]);
    let served = |caches: &[&str]| {
        let report = json(&bf(folder.path(), &[&["report", "counted.bfp", "--format", "json"], caches].concat()));
        let all = report["ratios"]["flops_per_byte"].as_array().unwrap().clone();
        all.into_iter()
            .map(|each| (each["level"].as_str().unwrap().to_owned(), each["bytes"].clone()))
            .collect::<Vec<_>>()
    };
    let below = served(&["--cache", "L1=32K:8", "--cache", "L2=1M:16"]);
    assert_eq!(below[0], ("L2".to_owned(), Value::Null), "the first level is left out");
    assert!(below[1].0 == "memory" && below[1].1.as_u64() > Some(0), "{below:?}");
    assert_eq!(served(&["--cache", "L1=32K:8"]), [("memory".to_owned(), Value::Null)]);
    assert_eq!(served(&["--cache", "L2=1M:16"])[0], ("L2".to_owned(), 1000.into()));
}

#[test]
fn run_becomes_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| bf(folder.path(), &[&["run"], arguments].concat());
    let output = run(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(7), &b"out\n"[..], &b"err\n"[..]));
    let killed = run(&["sh", "-c", "kill -SEGV $$"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(11));
    let output = run(&["-o", "p.%p.bfp", "--trace", "t.bft", "--", "sh", "-c", "echo $BF_PROFILE $BF_TRACE"]);
    assert_eq!(stdout(&output), "p.%p.bfp t.bft\n");
    let output = run(&["--sample", "1/64", "--", "sh", "-c", "echo $BF_SAMPLE"]);
    assert_eq!(stdout(&output), "1/64\n");
    let flags = |arguments: &[&str]| stdout(&run(&[arguments, &["cat", "/proc/self/personality"]].concat()));
    assert_eq!(u32::from_str_radix(flags(&["--no-aslr", "--"]).trim(), 16).unwrap() & 0x4_0000, 0x4_0000);
    let (code, message) = failure(&run(&["--", "./missing"]));
    assert!(code == 127 && message.contains("./missing"), "{message}");
    assert_eq!(failure(&run(&["--", "/"])).0, 126);
    // The runtime is silent about what it cannot write.
    fs::create_dir(folder.path().join("results")).unwrap();
    for (option, what) in [("-o", "profile"), ("--trace", "trace")] {
        for place in ["missing/%p", "results", "results/", "new/"] {
            let output = run(&[option, place, "--", "sh", "-c", "exit 7"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.starts_with(&format!("bf: no {what} can be written to {place}: ")), "{said}");
            assert_eq!((output.status.code(), said.lines().count()), (Some(7), 1));
        }
    }
    for (pattern, says) in [
        ("missing/%p", "bf: no profile can be written to missing/%p: "),
        ("results", "bf: no profile can be written to results: "),
        ("/dev/null", ""),
        ("", ""),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bf"));
        command.args(["run", "true"]).current_dir(folder.path()).env("BF_PROFILE", pattern);
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(said.starts_with(says) && said.is_empty() == says.is_empty(), "{pattern}: {said}");
    }
    // Only what is named by its path and cannot leave a profile is talked about.
    let output = run(&["--", "/bin/true"]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("/bin/true was not built"));
    assert!(run(&["--", "true"]).stderr.is_empty());
}

/// Root can write everywhere, so the program is run by nobody.
#[test]
fn run_says_that_it_leaves_no_profile_where_it_may_not_write() {
    let folder = tempfile::tempdir().unwrap();
    // Not copied here: a child of another test might have it open for writing.
    assert!(Command::new("cp").args([env!("CARGO_BIN_EXE_bf"), "bf"]).current_dir(&folder).status().unwrap().success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = Command::new(folder.path().join("bf"));
    command.args(["run", "sh", "-c", "exit 7"]).current_dir(folder.path()).env_remove("BF_PROFILE");
    if fs::metadata(&folder).unwrap().uid() == 0 {
        command.uid(65534);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("bf: no profile can be written to the working directory: "), "{said}");
    assert_eq!((output.status.code(), said.lines().count()), (Some(7), 1));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn completions_and_manual_pages() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&bf(folder.path(), &["completions", shell])).contains("sweep"), "{shell}");
    }
    stdout(&bf(folder.path(), &["man", "--out", "man1"]));
    for page in ["bf.1", "bf-query.1", "bf-run.1"] {
        assert!(fs::read_to_string(folder.path().join("man1").join(page)).unwrap().contains(".TH"), "{page}");
    }
}

//! `bf doctor` and `bf machine` as a user meets them, on whatever machine the tests run: no figure is asserted, only that
//! there are figures, and that what is absent is said.

use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const INTEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/fixtures/counters-sandy-bridge.txt");

fn bf(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bf")).current_dir(folder).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// The exit code and the one line on stderr.
fn failure(output: &Output) -> (i32, String) {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    (code(output), message)
}

#[test]
fn the_doctor_says_what_is_absent_and_exits_with_3_then() {
    let folder = tempfile::tempdir().unwrap();
    let output = bf(folder.path(), &["doctor", "--format", "json"]);
    let answer = json(&output);
    assert_eq!(answer["schema"], "bf.doctor/1");
    let findings = answer["findings"].as_array().unwrap();
    let absent: Vec<_> = findings.iter().filter(|finding| finding["state"] == "absent").collect();
    assert!(absent.iter().all(|finding| finding["mend"].is_string()));
    if absent.is_empty() {
        assert_eq!(code(&output), 0);
    } else {
        let (code, message) = failure(&output);
        assert_eq!(code, 3);
        assert!(absent.iter().all(|finding| message.contains(finding["subject"].as_str().unwrap())), "{message}");
    }
}

/// A hierarchy that `bf query` takes, with the same shapes as its own reading of this computer.
#[test]
fn a_topology_is_a_machine_to_ask_about() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.din"), "r 0 8\nw 40 8\nr 1000 8\nr 0 8\n").unwrap();
    assert_eq!(code(&bf(folder.path(), &["replay", "trace.din", "-o", "x.bfp"])), 0);
    let topology = bf(folder.path(), &["machine", "topology", "--format", "json"]);
    let document = json(&topology);
    assert_eq!(document["schema"], "bf.machine/1");
    let text = String::from_utf8(bf(folder.path(), &["machine", "topology"]).stdout).unwrap();
    assert!(!text.contains(" 1 cores") && !text.contains(" 1 packages"), "{text}");
    fs::write(folder.path().join("machine.json"), &topology.stdout).unwrap();
    let asked = |machine| bf(folder.path(), &["query", "x.bfp", "--machine", machine, "--format", "json"]);
    if document["caches"].as_array().unwrap().is_empty() {
        assert_eq!(failure(&asked("machine.json")).0, 1);
        return;
    }
    let levels = |machine| {
        let answer = json(&asked(machine));
        let level = |level: &Value| ["size_bytes", "ways", "scope", "misses"].map(|key| level[key].clone());
        answer["levels"].as_array().unwrap().iter().map(level).collect::<Vec<_>>()
    };
    assert_eq!(levels("machine.json"), levels("this"));
    assert_eq!(code(&bf(folder.path(), &["report", "x.bfp", "--machine", "machine.json"])), 0);
}

#[test]
fn latency_is_measured_drawn_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let common = ["machine", "latency", "--max-size", "48K", "--rounds", "3"];
    let output = bf(folder.path(), &[&common[..], &["--plot", "l.svg", "--format", "json"]].concat());
    let document = json(&output);
    let points = document["latency"].as_array().unwrap();
    assert_eq!(points.first().unwrap()["size_bytes"], 4096);
    assert_eq!(points.last().unwrap()["size_bytes"], 49152);
    assert!(points.iter().all(|point| point["ns"].as_f64().unwrap() > 0.0 && point["stable"].is_boolean()));
    assert!(fs::read_to_string(folder.path().join("l.svg")).unwrap().contains("dependent load"));
    let csv = bf(folder.path(), &[&common[..], &["--format", "csv", "--pages", "base"]].concat());
    let text = String::from_utf8(csv.stdout).unwrap();
    assert!(text.starts_with("size_bytes,level,ns,spread_ns,") && text.lines().count() == points.len() + 1, "{text}");
}

#[test]
fn bandwidth_is_measured_up_to_the_size_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let common = ["machine", "bandwidth", "--operation", "read", "--width", "64", "--rounds", "3", "--cpus", "0"];
    let output = bf(folder.path(), &[&common[..], &["--max-size", "64K", "--format", "json"]].concat());
    if code(&output) == 2 {
        // Of caches that it does not know, and of great ones, there is none to measure.
        assert!(failure(&output).1.contains("--max-size 64K leaves nothing"));
        return;
    }
    let document = json(&output);
    let points = document["bandwidth"].as_array().unwrap();
    assert!(!points.is_empty() && points.iter().all(|point| point["size_bytes"].as_u64() <= Some(65536)), "{points:?}");
}

/// Where two runs differ, the command says by how much, and why if it can.
#[test]
fn runs_are_compared_figure_by_figure() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, far: f64| {
        let document = serde_json::json!({
            "schema": "bf.machine/1",
            "machine": {"cpu": "x"},
            "caches": [],
            "latency": [{"size_bytes": 4096, "ns": 1.0, "spread_ns": 0.0, "stable": true}],
            "c2c": [{"from": 0, "to": 1, "ns": far, "spread_ns": 0.1, "stable": true}],
        });
        fs::write(folder.path().join(name), document.to_string()).unwrap();
    };
    run("a.json", 30.0);
    run("b.json", 148.0);
    fs::write(folder.path().join("other.json"), "{\"schema\": \"bf.query/1\"}").unwrap();
    let answer = json(&bf(folder.path(), &["machine", "compare", "a.json", "b.json", "--format", "json"]));
    assert_eq!(answer["schema"], "bf.machine-compare/1");
    let verdicts: Vec<_> = answer["figures"].as_array().unwrap().iter().map(|figure| &figure["verdict"]).collect();
    assert_eq!(verdicts, ["agree", "differ"]);
    let text = String::from_utf8(bf(folder.path(), &["machine", "compare", "a.json", "b.json"]).stdout).unwrap();
    assert!(text.contains("the first two CPUs were 30; 148 ns from each other"), "{text}");
    let (code_of, message) = failure(&bf(folder.path(), &["machine", "compare", "a.json", "other.json"]));
    assert!(code_of == 1 && message.contains("other.json: it is no bf.machine/1 document"), "{message}");
    assert_eq!(code(&bf(folder.path(), &["machine", "compare", "a.json"])), 2);
}

/// A hypervisor may move CPUs: how far apart they are is looked at before and after.
#[test]
fn coherence_is_measured_between_two_looks_at_where_the_cpus_are() {
    let folder = tempfile::tempdir().unwrap();
    let output = bf(folder.path(), &["machine", "coherence", "--rounds", "3", "--format", "json"]);
    if code(&output) == 3 {
        assert!(failure(&output).1.contains("CPUs"));
        return;
    }
    let document = json(&output);
    let looks: Vec<_> = document["placement"].as_array().unwrap().iter().map(|look| look["before"].clone()).collect();
    assert_eq!((looks.first().unwrap(), looks.last().unwrap()), (&"coherence".into(), &"end".into()));
    assert!(document["coherence"].as_array().unwrap().iter().any(|point| point["where"] == "other"));
    // Who is no terminal hears nothing of progress.
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_recording_of_another_machine_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let output = bf(folder.path(), &["machine", "counters", "--replay", INTEL, "--format", "json"]);
    let answer = json(&output);
    assert_eq!((code(&output), &answer["schema"]), (0, &"bf.counters/1".into()));
    assert!(answer["notes"][0].as_str().unwrap().starts_with("composed, not recorded"));
    let verdict = |name: &str| {
        let events = answer["events"].as_array().unwrap();
        events.iter().find(|event| event["event"] == name).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("l1d.replacement"), "trust");
    assert_eq!(verdict("mem_load_uops_retired.llc_hit"), "do-not-use");
    let text = String::from_utf8(bf(folder.path(), &["machine", "counters", "--replay", INTEL]).stdout).unwrap();
    assert!(text.contains("do not use") && text.contains("lines into L1"), "{text}");
}

/// Threads whose stacks would be larger than any address space cannot be made.
#[test]
fn threads_that_cannot_be_made_are_said_to_be_absent() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bf"));
    let output = command.args(["machine", "c2c"]).env("RUST_MIN_STACK", (1u64 << 60).to_string()).output().unwrap();
    let (code, message) = failure(&output);
    assert!(
        code == 3 && (message.contains("can have no more threads") || message.contains("2 CPUs")),
        "{code} {message}"
    );
}

/// Without counters the sentence and the code of absent hardware; with them a report.
#[test]
fn counters_are_there_or_said_not_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let output = bf(folder.path(), &["machine", "counters", "--backend", "perf", "--rounds", "3"]);
    if code(&output) != 0 {
        let (code, message) = failure(&output);
        assert_eq!(code, 3);
        assert!(message.starts_with("bf: no performance counters here: "), "{message}");
        assert!(output.stdout.is_empty());
    }
}

/// Node by node, or the sentence and the code of absent hardware where there is one node.
#[test]
fn memory_nodes_are_measured_or_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = bf(folder.path(), &["machine", "numa", "--rounds", "3", "--format", "json"]);
    let nodes = json(&bf(folder.path(), &["machine", "topology", "--format", "json"]))["machine"]["nodes"].clone();
    if nodes.as_array().unwrap().len() < 2 {
        let (code, message) = failure(&output);
        assert_eq!((code, message.as_str()), (3, "bf: all memory is of one node here: none is remote\n"));
    } else if code(&output) == 0 {
        assert!(json(&output)["numa"].as_array().unwrap().iter().all(|point| point["ns"].as_f64().unwrap() > 0.0));
    } else {
        assert!(failure(&output).1.contains("CAP_SYS_NICE"));
    }
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.txt"), "bf-counters 1\nwhat is this\n").unwrap();
    for (arguments, want, word) in [
        (&["machine", "latency", "--cpus", "60000"][..], 3, "CPU 60000"),
        (&["machine", "latency", "--plot", "l.png"][..], 2, "l.png"),
        (&["machine", "tlb", "--plot", "none/l.svg"][..], 1, "failed to write none/l.svg: No such file"),
        (&["machine", "counters", "--record", "none/counts"][..], 1, "failed to write none/counts: No such file"),
        (&["machine", "all", "--output", "."][..], 1, "failed to write .: Is a directory"),
        (&["machine", "coherence", "--cpus", "0"][..], 3, "2 CPUs"),
        (&["machine", "topology", "--hwloc", "bad.txt"][..], 1, "bad.txt"),
        (&["machine", "compare", "none.json", "none.json"][..], 1, "none.json"),
        (&["machine", "counters", "--replay", "bad.txt"][..], 1, "line 2"),
        (&["machine", "counters", "--replay", "none.txt"][..], 1, "none.txt"),
    ] {
        let (code, message) = failure(&bf(folder.path(), arguments));
        assert!(code == want && message.contains(word), "{arguments:?}: {code} {message}");
    }
    for arguments in [
        &["machine", "bandwidth", "--operation", "fly"][..],
        &["machine", "bandwidth", "--width", "63"][..],
        &["machine", "latency", "--max-size", "1"][..],
        &["machine", "latency", "--cpus", "3-1"][..],
        &["machine", "c2c", "--cpus", "0,0"][..],
        &["machine"][..],
    ] {
        assert_eq!(code(&bf(folder.path(), arguments)), 2, "{arguments:?}");
    }
}

//! Call paths: counts and misses of programs that call in every way, against what follows from their sources; and that
//! other programs read the same costs from exports.

use bf_tests::sandbox::{Build, Sandbox, succeed, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use xtask::{python, workspace::Workspace};

const PATHS: &str = include_str!("../programs/paths.c");
/// 64 lines of 64 bytes.
const SMALL: [&str; 2] = ["--cache", "L1=4K:full"];

fn compiled(options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("paths.c", PATHS);
    sandbox.bf_clang(["paths.c", "-o", "paths", "-g", "-bf-call-stack", "-pthread"].iter().chain(options).copied());
    sandbox
}

fn by_path(sandbox: &Sandbox, more: &[&str]) -> Value {
    sandbox.bf(&[&["report", "--by", "callpath"], more].concat())
}

/// Of each path: how often its function was entered, stores counted, and store references.
type Rows = BTreeMap<String, [u64; 3]>;

fn rows(report: &Value) -> Rows {
    let figure = |item: &Value, name: &str| item[name].as_u64().unwrap_or_default();
    let row = |item: &Value| {
        let figures = ["entries", "stores", "store_references"].map(|name| figure(item, name));
        (item["name"].as_str().unwrap().to_owned(), figures)
    };
    report["items"].as_array().unwrap().iter().map(row).collect()
}

/// What one run of the program has below `main`, without `main > `.
fn below_main(sandbox: &Sandbox, mode: &str) -> Rows {
    let _ = succeed(sandbox.program("paths").arg(mode));
    let report = by_path(sandbox, &SMALL);
    adds_up(&report);
    sandbox.profile_files().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    rows(&report).into_iter().filter_map(|(name, row)| Some((name.strip_prefix("main > ")?.to_owned(), row))).collect()
}

/// Entries and stores by path.
fn expected(rows: &[(&str, u64, u64)]) -> Rows {
    rows.iter().map(|&(name, entries, stores)| (name.to_owned(), [entries, stores, stores])).collect()
}

/// Every figure is the sum of those of all paths, and with callees that of those that go on from there.
fn adds_up(report: &Value) {
    let items = report["items"].as_array().unwrap();
    for (name, total) in report["totals"].as_object().unwrap() {
        let sum: u64 = items.iter().map(|item| item[name].as_u64().unwrap()).sum();
        assert_eq!(sum, total.as_u64().unwrap(), "{name}");
    }
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    for item in items.iter().take(30) {
        let further = format!("{} > ", name(item));
        let below: Vec<_> = items.iter().filter(|other| *other == item || name(other).starts_with(&further)).collect();
        for (figure, all) in item["inclusive"].as_object().unwrap() {
            let sum: u64 = below.iter().map(|item| item[figure].as_u64().unwrap()).sum();
            assert_eq!(sum, all.as_u64().unwrap(), "{figure} of {}", name(item));
        }
    }
}

/// Every figure of several threads is the sum of those of all paths; their write-backs are not broken down.
fn threads_add_up(report: &Value) {
    for (name, total) in report["totals"].as_object().unwrap().iter().filter(|(name, _)| !name.contains("writebacks")) {
        let sum: u64 = report["items"].as_array().unwrap().iter().map(|item| item[name].as_u64().unwrap()).sum();
        assert_eq!(sum, total.as_u64().unwrap(), "{name}");
    }
}

#[test]
fn every_call_is_on_its_path() {
    let sandbox = compiled(&["-O2"]);
    let plain = [("plain", 1, 3), ("plain > middle", 2, 6), ("plain > middle > leaf", 4, 4), ("plain > leaf", 1, 1)];
    assert_eq!(below_main(&sandbox, "plain"), expected(&plain));
    let handled = [("signals > handler", 2, 4), ("signals > handler > leaf", 2, 2), ("signals > leaf", 1, 1)];
    let signals = below_main(&sandbox, "signals");
    let handled = expected(&handled);
    assert!(handled.iter().all(|(name, row)| signals.get(name) == Some(row)), "{signals:?}");
    assert_eq!(signals.len(), 4);
}

#[test]
fn jumps_lose_nothing() {
    let jump = [("jump", 1, 2), ("jump > before", 2, 2), ("jump > before > deep", 2, 2), ("jump > leaf", 2, 2)];
    for options in [&["-O0"][..], &["-O2"]] {
        assert_eq!(below_main(&compiled(options), "jump")["jump > before > deep"][0], 2);
    }
    assert_eq!(below_main(&compiled(&["-O2"]), "jump"), expected(&jump));
}

#[test]
fn recursion_is_one_path() {
    let [even, odd] = [6 + 5 + 50_001 + 50_000, 5 + 5 + 50_000 + 50_000];
    let recursion = [
        ("recursion", 1, 1),
        ("recursion > tree", 63, 63 + 31),
        ("recursion > tree > leaf", 31, 31),
        ("recursion > even", 6 + 50_001, even),
        ("recursion > even > odd", 5 + 50_000, odd),
    ];
    assert_eq!(below_main(&compiled(&["-O2"]), "recursion"), expected(&recursion));
}

#[test]
fn a_function_that_jumps_to_another_is_its_caller() {
    let tail = [
        ("tail", 1, 3),
        ("tail > wrapper", 1, 1),
        ("tail > wrapper > last", 1, 2),
        ("tail > wrapper > last > leaf", 1, 1),
        ("tail > sorts", 1, 1),
        ("tail > leaf", 1, 1),
    ];
    // Who calls back from a function that is not instrumented is not on the stack any more, or is.
    for (options, compare) in
        [(&["-O2"][..], "tail > compare"), (&["-O2", "-fno-optimize-sibling-calls"], "tail > sorts > compare")]
    {
        let mut all = expected(&tail);
        all.insert(compare.to_owned(), [1, 1, 1]);
        assert_eq!(below_main(&compiled(options), "tail"), all, "{options:?}");
    }
}

#[test]
fn an_exit_from_within_loses_nothing() {
    let exits = [("exits", 1, 1), ("exits > leaves", 1, 1), ("exits > leaves > bye", 1, 1)];
    assert_eq!(below_main(&compiled(&["-O2"]), "exits"), expected(&exits));
}

#[test]
fn a_thread_begins_with_its_first_function() {
    let sandbox = compiled(&["-O2"]);
    let _ = succeed(sandbox.program("paths").arg("team"));
    let report = by_path(&sandbox, &SMALL);
    let rows = rows(&report);
    for (name, entries, stores) in [("worker", 4, 4), ("worker > middle", 4, 12), ("worker > middle > leaf", 8, 8)] {
        assert_eq!(rows[name], [entries, stores, stores], "{name}");
    }
    threads_add_up(&report);
}

/// What OpenMP regions have: each entered function's name, and how often it was entered.
fn regions(tool: &str) -> BTreeMap<String, u64> {
    let sandbox = Sandbox::new();
    sandbox.write("regions.c", include_str!("../programs/regions.c"));
    sandbox.bf_clang(["regions.c", "-o", "regions", "-O2", "-g", "-fopenmp", "-bf-call-stack"]);
    let mut program = sandbox.program("regions");
    program.env("OMP_NUM_THREADS", "4").env("OMP_DYNAMIC", "false").env("OMP_MAX_ACTIVE_LEVELS", "2");
    let _ = succeed(program.env("OMP_TOOL", tool));
    let report = by_path(&sandbox, &SMALL);
    threads_add_up(&report);
    rows(&report).into_iter().map(|(name, [entries, ..])| (name, entries)).filter(|row| row.1 > 0).collect()
}

#[test]
fn what_a_team_does_is_below_who_came_to_its_region() {
    let whole = [
        ("main", 1),
        ("main > once", 1),
        ("main > once > region", 1),
        ("main > once > region > region.omp_outlined", 4),
        ("main > once > region > region.omp_outlined > leaf", 4),
        ("main > twice", 1),
        ("main > twice > region", 2),
        ("main > twice > region > region.omp_outlined", 8),
        ("main > twice > region > region.omp_outlined > leaf", 16),
        ("main > last", 1),
        ("main > last > last.omp_outlined", 4),
        ("main > last > last.omp_outlined > leaf", 4),
        ("main > outer", 1),
        ("main > outer > outer.omp_outlined", 2),
        ("main > outer > outer.omp_outlined > inner", 2),
        ("main > outer > outer.omp_outlined > inner > inner.omp_outlined", 4),
        ("main > outer > outer.omp_outlined > inner > inner.omp_outlined > leaf", 4),
    ];
    assert_eq!(regions("enabled"), whole.map(|(name, entries)| (name.to_owned(), entries)).into());
}

#[test]
fn without_the_tools_interface_a_worker_begins_with_its_region() {
    let found = regions("disabled");
    assert_eq!((found["main > twice > region > region.omp_outlined"], found["region.omp_outlined"]), (2, 9));
}

#[test]
fn a_child_goes_on_where_its_parent_was() {
    let sandbox = compiled(&["-O2"]);
    let _ = succeed(sandbox.program("paths").arg("forks"));
    let of = |file: &PathBuf| rows(&by_path(&sandbox, &[&[file.to_str().unwrap()], &SMALL[..]].concat()));
    let mut both: Vec<_> = sandbox.profile_files().iter().map(|file| of(file)["main > forks"]).collect();
    both.sort_unstable();
    assert_eq!(both, [[0, 1, 1], [1, 3, 3]]);
}

#[test]
fn too_many_paths_are_below_one_that_says_so() {
    let sandbox = compiled(&["-O2"]);
    let _ = succeed(sandbox.program("paths").args(["orders", "plain"]));
    let report = by_path(&sandbox, &SMALL);
    adds_up(&report);
    let rows = rows(&report);
    // 7 + 7 * 6 + 7 * 6 * 5 + … + 7!
    let calls = 13_699;
    let visited = |beginning: &str| -> u64 {
        let visitor = |name: &str| name.rsplit(" > ").next().unwrap().starts_with('v');
        rows.iter().filter(|(name, _)| name.starts_with(beginning) && visitor(name)).map(|(_, row)| row[0]).sum()
    };
    let others = visited("(other call paths) > v");
    assert_eq!(visited("main > orders > v") + others, calls);
    assert!(others > 0 && others < calls, "{others}");
    // What is not deep still has its path.
    assert_eq!(rows["main > plain > middle > leaf"], [4, 4, 4]);
}

#[test]
fn exceptions_lose_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("paths.cpp", include_str!("../programs/paths.cpp"));
    let library = "extern \"C\" void guarded(void (*run)()) { try { run(); } catch (...) { } }\n";
    sandbox.write("library.cpp", library);
    let mut native = sandbox.command(Build::Native.cxx());
    sandbox.compile(&mut native, ["-O2", "-c", "library.cpp"]);
    let mut compiler = sandbox.command(Build::Bf.cxx());
    sandbox.compile(&mut compiler, ["paths.cpp", "library.o", "-o", "paths", "-O2", "-g", "-bf-call-stack"]);
    let catcher = [
        ("catcher()", 1, 3),
        ("catcher() > between(int)", 4, 4 + 2),
        // An exception holds what is thrown.
        ("catcher() > between(int) > thrower(int)", 4, 4 + 2),
        ("catcher() > between(int) > leaf()", 4, 4),
        ("catcher() > leaf()", 2, 2),
        ("run()", 1, 1),
        ("run() > thrower(int)", 1, 1 + 1),
        ("leaf()", 1, 1),
    ];
    let _ = succeed(&mut sandbox.program("paths"));
    let report = by_path(&sandbox, &SMALL);
    adds_up(&report);
    let all: Rows = rows(&report);
    assert_eq!(all["main"], [1, 2, 2]);
    let below = all.into_iter().filter_map(|(name, row)| Some((name.strip_prefix("main > ")?.to_owned(), row)));
    assert_eq!(below.collect::<Rows>(), expected(&catcher));
}

#[test]
fn counters_and_misses_can_be_had_alone() {
    let plain = |options: &[&str], more: &[&str]| {
        let sandbox = compiled(options);
        let _ = succeed(sandbox.program("paths").arg("plain"));
        let report = by_path(&sandbox, more);
        adds_up(&report);
        rows(&report)["main > plain > middle > leaf"]
    };
    assert_eq!(plain(&["-O2", "-bf-counters-only"], &[]), [4, 4, 0]);
    assert_eq!(plain(&["-O2", "-bf-no-counters"], &SMALL), [0, 0, 4]);
}

/// A multiplication whose misses are those of one function, called on two paths.
fn multiplied() -> Sandbox {
    let program = "#include <stdlib.h>\n#define N (1 << 15)\n\
                   static volatile double x[N] __attribute__((aligned(64)));\nstatic volatile int sink;\n\
                   __attribute__((noinline)) static void pass(int step) {\nfor (int i = 0; i < N; i += step) x[i] = x[i] * 2;\n}\n\
                   __attribute__((noinline)) static void coarse(void) {\npass(8);\npass(8);\nsink = 1;\n}\n\
                   __attribute__((noinline)) static void fine(void) {\npass(1);\nsink = 1;\n}\n\
                   int main(void) {\ncoarse();\nfine();\nreturn sink > 5;\n}\n";
    let sandbox = Sandbox::new();
    sandbox.write("a.c", program);
    sandbox.bf_clang(["a.c", "-o", "a", "-g", "-O1", "-bf-call-stack"]);
    let _ = succeed(&mut sandbox.program("a"));
    sandbox
}

const LINES: u64 = (1 << 15) / 8;

#[test]
fn misses_are_those_of_the_path() {
    let sandbox = multiplied();
    for caches in [&SMALL[..], &["--cache", "L1=32K:8", "--cache", "L2=1M:16", "--cache", "L3=7M:14"]] {
        let report = by_path(&sandbox, caches);
        adds_up(&report);
        let of = |name: &str, figure: &str| -> u64 {
            let item = report["items"].as_array().unwrap().iter().find(|item| item["name"] == name);
            let item = item.unwrap_or_else(|| panic!("{name}: {report}"));
            item[figure].as_u64().or_else(|| item["inclusive"][&figure[1..]].as_u64()).unwrap()
        };
        assert_eq!(of("main > coarse > pass", "L1.misses"), 2 * LINES);
        assert_eq!(of("main > fine > pass", "L1.misses"), LINES);
        assert_eq!(of("main > coarse > pass", "flops"), 2 * LINES);
        assert_eq!(of("main > fine > pass", "flops"), 8 * LINES);
        assert!(of("main", "*L1.misses") >= 3 * LINES && of("main", "L1.misses") <= 2);
        assert_eq!(of("main > coarse", "*flops"), 2 * LINES);
    }
    // All ways to ask agree: functions and lines have what their paths have.
    let functions = sandbox.bf(&[&["report", "--by", "function"], &SMALL[..]].concat());
    let pass = functions["items"].as_array().unwrap().iter().find(|item| item["name"] == "pass").unwrap();
    assert_eq!((&pass["L1.misses"], &pass["flops"]), (&(3 * LINES).into(), &(10 * LINES).into()));
    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    command.args(["report", "--by", "callpath", "--sort", "flops.inclusive"]).arg(profile).args(SMALL);
    let shown = text(&succeed(&mut command).stdout);
    let first = shown.lines().find(|line| line.trim_start().starts_with("main ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(first.trim_end().ends_with("40,960"), "{shown}");
}

fn exported(sandbox: &Sandbox, format: &str) {
    let mut command = sandbox.command(bf_tests::program("bf"));
    let _ = succeed(command.args(["export", "--to", format, "-o", format]).args(SMALL));
}

/// The cost of a function in what `callgrind_annotate` prints.
fn cost(shown: &str, function: &str) -> u64 {
    let row = shown
        .lines()
        .find(|line| line.ends_with(&format!("a.c:{function}")))
        .unwrap_or_else(|| panic!("{function}: {shown}"));
    row.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn callgrind_annotate_has_the_same_costs_with_and_without_callees() {
    let sandbox = multiplied();
    exported(&sandbox, "callgrind");
    let report = by_path(&sandbox, &SMALL);
    let sum = |function: &str, inclusive: bool, figure: &str| -> u64 {
        let items = report["items"].as_array().unwrap().iter();
        let of = items.filter(|item| item["path"].as_array().unwrap().last().unwrap() == function);
        of.map(|item| if inclusive { &item["inclusive"][figure] } else { &item[figure] })
            .map(|n| n.as_u64().unwrap())
            .sum()
    };
    for (figure, event) in [("L1.misses", "L1_misses"), ("flops", "flops"), ("instructions", "instructions")] {
        for inclusive in [false, true] {
            let mut annotate = sandbox.command("callgrind_annotate");
            let option = if inclusive { "--inclusive=yes" } else { "--inclusive=no" };
            annotate.args([
                "--threshold=100",
                "--auto=no",
                option,
                &format!("--show={event}"),
                &format!("--sort={event}"),
            ]);
            let shown = text(&succeed(annotate.arg("callgrind")).stdout);
            for function in ["pass", "coarse", "fine", "main"] {
                let ours = sum(function, inclusive, figure);
                if ours > 0 {
                    assert_eq!(cost(&shown, function), ours, "{figure} of {function}, {option}: {shown}");
                }
            }
        }
    }
    let file = std::fs::read_to_string(sandbox.file("callgrind")).unwrap();
    assert!(file.contains("cfn=pass\ncalls=2 5\n"), "{file}");
}

#[test]
fn hatchet_reads_both_trees() {
    let sandbox = multiplied();
    exported(&sandbox, "hatchet");
    exported(&sandbox, "hpctoolkit");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/read_hatchet.py");
    let mut python = sandbox.command(python::interpreter(&Workspace::load().unwrap()).unwrap());
    let read: Value = serde_json::from_slice(&succeed(python.arg(script)).stdout).unwrap();
    let report = by_path(&sandbox, &SMALL);
    for item in report["items"].as_array().unwrap() {
        let name = item["name"].as_str().unwrap();
        for (database, own, all) in [("literal", "", " (inc)"), ("hpctoolkit", " (E)", " (I)")] {
            for figure in ["L1.misses", "flops", "entries"] {
                let row = &read[database][name];
                let of = |suffix: &str| {
                    row[format!("{figure}{suffix}")].as_f64().unwrap_or_else(|| panic!("{name}: {read}"))
                };
                assert_eq!(of(own), item[figure].as_f64().unwrap(), "{figure} of {name} in {database}");
                assert_eq!(of(all), item["inclusive"][figure].as_f64().unwrap(), "{figure} of {name} in {database}");
            }
        }
    }
}

#[test]
fn without_paths_it_says_how_to_get_them() {
    let sandbox = Sandbox::new();
    sandbox.c("int main(void) { return 0; }", &["-bf-by-func"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    let output = command.args(["report", "--by", "callpath"]).arg(profile).args(SMALL).output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("compile with -bf-call-stack"), "{said}");
}

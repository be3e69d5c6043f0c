//! Bytes touched, footprints and strides, exact: they follow from the source of a program.

use bf_profile::{Patterns, Process, Strides, Touched};
use bf_tests::sandbox::{Sandbox, output, succeed, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const OPTIONS: [&str; 6] = ["-O1", "-g", "-fno-unroll-loops", "-bf-mem-footprint", "-bf-strides", "-pthread"];

/// Compiles and runs a C program that touches nothing but what its functions say.
fn run(source: &str, options: &[&str], arguments: &[&str]) -> Process {
    let sandbox = Sandbox::new();
    sandbox.c(source, options);
    let _ = succeed(sandbox.program("a.out").args(arguments));
    sandbox.take_profile().processes.remove(0)
}

/// Strides of the loads or stores of a line, over all tags.
fn of_line(process: &Process, line: u32, store: bool) -> Vec<(u8, u64)> {
    let here = |strides: &&Strides| {
        strides.store == store && strides.site.is_some_and(|site| process.places.sites[site as usize].line == line)
    };
    let mut counts = std::collections::BTreeMap::new();
    for &(stride, count) in process.patterns.strides.iter().filter(here).flat_map(|strides| &strides.counts) {
        *counts.entry(stride).or_default() += count;
    }
    counts.into_iter().collect()
}

fn whole(touches: &[(u64, u64)]) -> Touched {
    let bytes = touches.iter().map(|pair| pair.1).sum();
    Touched { tag: None, bytes, touches: touches.to_vec(), missing: 0 }
}

/// Loops whose every access is known; at -O1 the optimiser leaves them as they are written, and what is local is no memory.
const LOOPS: &str = r"
static volatile double a[1024];
static volatile char c[3000];
static volatile struct { int x, y, z; } r[100];
__attribute__((noinline)) static void work(void) {
    for (int i = 0; i < 1024; i++) a[i] = 1;
    for (int i = 1023; i >= 0; i--) (void)a[i];
    for (int i = 0; i < 100; i++) r[i].y = i;
    for (int i = 0; i < 3000; i += 100) (void)c[i];
    for (int i = 0; i < 50; i++) a[7] = i;
    for (int i = 0; i < 40; i++) (void)c[i * i % 64];
}
int main(void) { work(); return 0; }
";

#[test]
fn strides_of_loops() {
    const FIRST: (u8, u64) = (Strides::FIRST, 1);
    for streams in [&[][..], &["-bf-no-streams"]] {
        let process = run(LOOPS, &[&OPTIONS, streams].concat(), &[]);
        assert_eq!(of_line(&process, 6, true), [(1, 1023), FIRST]);
        assert_eq!(of_line(&process, 7, false), [(Strides::BACKWARD, 1023), FIRST]);
        assert_eq!(of_line(&process, 8, true), [(3, 99), FIRST]);
        assert_eq!(of_line(&process, 9, false), [(Strides::OTHER, 29), FIRST]);
        assert_eq!(of_line(&process, 10, true), [(0, 49), FIRST]);
        // The same by hand.
        let (mut expected, at) = (std::collections::BTreeMap::new(), |i: i32| i * i % 64);
        for i in 1..40 {
            let way = at(i) - at(i - 1);
            *expected.entry(if way < 0 { Strides::BACKWARD } else { way as u8 }).or_insert(0) += 1;
        }
        assert_eq!(of_line(&process, 11, false), expected.into_iter().chain([FIRST]).collect::<Vec<_>>());
        let all: u64 = process.patterns.strides.iter().flat_map(|one| &one.counts).map(|pair| pair.1).sum();
        assert_eq!(all, process.meta.accesses);
    }
}

#[test]
fn touches_of_loops() {
    let process = run(LOOPS, &OPTIONS, &[]);
    // The bytes of `c` by hand: every hundredth, and the squares modulo 64.
    let mut c = [0_u64; 3000];
    (0..3000).step_by(100).for_each(|i| c[i] += 1);
    (0..40).for_each(|i: usize| c[i * i % 64] += 1);
    let mut touches = std::collections::BTreeMap::from([(2, 1023 * 8), (52, 8), (1, 400)]);
    c.into_iter().filter(|&times| times > 0).for_each(|times| *touches.entry(times).or_insert(0) += 1);
    let expected = whole(&touches.into_iter().collect::<Vec<_>>());
    assert_eq!(process.patterns.touched[0], expected);
    assert_eq!(process.patterns.touched[1], Touched { tag: Some(0), ..expected.clone() });
    // A bit for each byte knows as much of their number.
    let process = run(LOOPS, &["-O1", "-bf-unique-bytes"], &[]);
    assert_eq!(process.patterns.touched[0], Touched { touches: Vec::new(), ..expected });
    assert_eq!(process.patterns.strides, []);
}

#[test]
fn threads_add_up() {
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        static volatile double data[4096];
        static long n;
        static void *work(void *mine) {
            long from = (long)mine * (4096 / n), to = from + 4096 / n;
            for (long i = from; i < to; i++) data[i] = 1;
            return NULL;
        }
        int main(int argc, char **argv) {
            pthread_t threads[8];
            n = atoi(argv[argc - 1]);
            for (long k = 0; k < n; k++) pthread_create(&threads[k], NULL, work, (void *)k);
            for (long k = 0; k < n; k++) pthread_join(threads[k], NULL);
            return 0;
        }"#;
    for threads in [1, 2, 8] {
        let process = run(source, &OPTIONS, &[&threads.to_string()]);
        // Each thread steps through its own part.
        assert_eq!(of_line(&process, 8, true), [(1, 4096 - threads), (Strides::FIRST, threads)]);
        // Besides the array: arguments, `n`, and a handle for each thread.
        let bytes = process.patterns.touched[0].bytes;
        assert_eq!(bytes, 4096 * 8 + 8 + 8 + 8 * threads);
    }
}

#[test]
fn by_tag_and_while_counting_is_off() {
    let source = r#"
        #include <bf.h>
        static volatile char a[100];
        __attribute__((noinline)) static void touch(long from, long to) { for (long i = from; i < to; i++) a[i] = 1; }
        int main(void) {
            touch(0, 10); bf_tag("t"); touch(5, 20); bf_stop(); touch(40, 100); bf_start(); touch(0, 1);
            return 0;
        }"#;
    let sandbox = Sandbox::new();
    sandbox.c(source, &OPTIONS);
    let _ = succeed(&mut sandbox.program("a.out"));
    let report = |more: &[&str]| -> Value {
        let files = sandbox.profile_files();
        let file = files[0].to_str().unwrap();
        sandbox.bf(&[&["report", file], more].concat())["unique_bytes"].take()
    };
    let part = |tag: Value, bytes: u64, touches: u64, covering: [u64; 6]| {
        let covering: Vec<_> = [50, 75, 90, 95, 99, 100]
            .iter()
            .zip(covering)
            .map(|(percent, bytes)| json!({ "percent": percent, "bytes": bytes }))
            .collect();
        json!({ "tag": tag, "bytes": bytes, "touches": touches, "covering": covering, "missing": 0 })
    };
    // 26 touches of 20 bytes: 6 of them twice.
    let tagged = part(json!("t"), 16, 16, [8, 12, 15, 16, 16, 16]);
    let all = [
        part(Value::Null, 20, 26, [7, 14, 18, 19, 20, 20]),
        part(json!(""), 10, 10, [5, 8, 9, 10, 10, 10]),
        tagged.clone(),
    ];
    assert_eq!(report(&[]), json!(all));
    assert_eq!(report(&["--tag", "t"]), json!([tagged]));
}

#[test]
fn asked_for_when_it_runs() {
    let sandbox = Sandbox::new();
    sandbox.c(LOOPS, &["-O1", "-g"]);
    let run = |patterns: &str| -> Patterns {
        let _ = succeed(sandbox.program("a.out").env("BF_PATTERNS", patterns));
        sandbox.take_profile().processes.remove(0).patterns
    };
    let found = run("unique-bytes,strides");
    assert!(found.touched[0].bytes > 8192 && found.touched[0].touches.is_empty() && !found.strides.is_empty());
    assert_eq!(run("none"), Patterns::default());
}

/// Two functions with 4000 bytes of an array in common, which each thread has a part of.
const OVERLAPPING: &str = r"
#include <pthread.h>
static volatile char a[12000];
LOW static void low(long from, long to) { for (long i = from; i < to; i++) a[i] = 1; }
__attribute__((noinline)) static void high(long from, long to) { for (long i = from; i < to; i++) (void)a[i]; }
static void *work(void *mine) {
    long from = (long)mine * (8000 / N), to = from + 8000 / N;
    low(from, to);
    high(4000 + from, 4000 + to);
    return NULL;
}
int main(void) {
    pthread_t threads[N];
    for (long k = 0; k < N; k++) pthread_create(&threads[k], NULL, work, (void *)k);
    for (long k = 0; k < N; k++) pthread_join(threads[k], NULL);
    return 0;
}";

/// The rows of `bf report --by function` that have unique bytes, with all such figures; under "" those of all functions.
fn by_function(report: &Value) -> BTreeMap<String, Value> {
    let figures = |row: &Value| -> Value {
        let all = row.as_object().unwrap().iter();
        let of_bytes = |name: &str| name.starts_with("unique") || name.starts_with("covering") || name == "touches";
        all.filter(|(name, _)| of_bytes(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let rows = report["items"].as_array().unwrap().iter();
    let rows = rows.map(|row| (row["name"].as_str().unwrap().to_owned(), figures(row)));
    rows.filter(|(_, row)| row["unique_bytes"] != 0).chain([(String::new(), figures(&report["totals"]))]).collect()
}

/// What [`by_function`] has of functions of which only the number of bytes is known.
fn bytes(rows: &[(&str, u64)]) -> BTreeMap<String, Value> {
    let row =
        |&(name, bytes): &(&str, u64)| (name.to_owned(), json!({ "unique_bytes": bytes, "unique_bytes_missing": 0 }));
    rows.iter().map(row).collect()
}

#[test]
fn bytes_of_functions() {
    const SMALL: [&str; 4] = ["--by", "function", "--cache", "L1=4K:4"];
    let (apart, within) = ("-DLOW=__attribute__((noinline))", "-DLOW=__attribute__((always_inline))");
    for (inlining, debug, low) in [(apart, "-g", "low"), (within, "-g", "work"), (apart, "-g0", "low")] {
        for threads in [1, 2, 8] {
            let sandbox = Sandbox::new();
            let number = format!("-DN={threads}");
            let options = ["-O1", debug, "-fno-unroll-loops", "-bf-unique-bytes", "-bf-by-func", "-pthread"];
            sandbox.c(OVERLAPPING, &[&options[..], &[inlining, &number]].concat());
            let _ = succeed(&mut sandbox.program("a.out"));
            let report = sandbox.bf(&[&["report"], &SMALL[..]].concat());
            // `main` reads the handles of the threads.
            let handles = 8 * threads;
            let expected = bytes(&[(low, 8000), ("high", 8000), ("main", handles), ("", 12_000 + handles)]);
            assert_eq!(by_function(&report), expected, "{inlining} {debug} {threads}");
            let rows = report["items"].as_array().unwrap();
            assert_eq!(rows.iter().filter(|row| row["name"] == low && row["L1.misses"] != 0).count(), 1, "{rows:?}");
        }
    }
}

#[test]
fn bytes_of_functions_by_tag() {
    let source = r#"
        #include <bf.h>
        static volatile char a[100];
        __attribute__((noinline)) static void touch(long from, long to) { for (long i = from; i < to; i++) a[i] = 1; }
        __attribute__((noinline)) static void other(long from, long to) { for (long i = from; i < to; i++) a[i] = 2; }
        int main(void) {
            touch(0, 10); bf_tag("t"); touch(5, 20); other(4, 8); bf_stop(); touch(40, 100); bf_start(); touch(0, 1);
            return 0;
        }"#;
    let sandbox = Sandbox::new();
    sandbox.c(source, &["-O1", "-fno-unroll-loops", "-bf-mem-footprint", "-bf-by-func"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let report = |tag: &[&str]| by_function(&sandbox.bf(&[&["report", "--by", "function"], tag].concat()));
    let row = |name: &str, bytes: u64, touches: u64, covering: [u64; 6]| {
        let mut row = json!({ "unique_bytes": bytes, "touches": touches, "unique_bytes_missing": 0 });
        for (percent, bytes) in [50, 75, 90, 95, 99, 100].into_iter().zip(covering) {
            row[format!("covering_{percent}")] = bytes.into();
        }
        (name.to_owned(), row)
    };
    let whole = [
        // 26 touches: of bytes 0 and 5 to 9 two each.
        row("touch", 20, 26, [7, 14, 18, 19, 20, 20]),
        row("other", 4, 4, [2, 3, 4, 4, 4, 4]),
        // Bytes 5, 6 and 7 have three; 4, 0, 8 and 9 two.
        row("", 20, 30, [6, 13, 17, 19, 20, 20]),
    ];
    assert_eq!(report(&[]), whole.into());
    let tagged = [
        row("touch", 16, 16, [8, 12, 15, 16, 16, 16]),
        row("other", 4, 4, [2, 3, 4, 4, 4, 4]),
        // Bytes 5, 6 and 7 have two.
        row("", 17, 20, [7, 12, 15, 16, 17, 17]),
    ];
    assert_eq!(report(&["--tag", "t"]), tagged.into());
    let text_of = |arguments: &[&str]| {
        let found =
            succeed(sandbox.command(bf_tests::program("bf")).args(["report", "--by", "function"]).args(arguments));
        (text(&found.stdout), text(&found.stderr))
    };
    let (table, _) = text_of(&["--top", "1", "--sort", "unique_bytes"]);
    let cells = |name: &str| -> Vec<String> {
        let line =
            table.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{name}: {table}"));
        line.split_whitespace().rev().take(2).map(str::to_owned).collect()
    };
    assert_eq!(
        (cells("touch"), cells("(2 more)"), cells("all")),
        (vec!["18".to_owned(), "20".to_owned()], vec!["-".to_owned(); 2], vec!["17".to_owned(), "20".to_owned()]),
        "{table}"
    );
    assert!(table.ends_with("Bytes do not add up: one that several functions touched is counted for each of them.\n"));
    let (table, said) = text_of(&["--tag", "t", "--tag", ""]);
    let reason =
        "bf: the bytes that functions touched under several tags together are not known; ask for one of ``, `t`\n";
    assert!(said.ends_with(reason) && !table.contains("unique"), "{said}{table}");
}

#[test]
fn bytes_of_functions_of_two_processes() {
    let source = r"
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile char a[100];
        __attribute__((noinline)) static void touch(long from, long to) { for (long i = from; i < to; i++) a[i] = 1; }
        __attribute__((noinline)) static void other(void) { for (long i = 10; i < 70; i++) a[i] = 2; }
        int main(void) {
            touch(0, 50);
            if (fork() == 0) { touch(20, 60); other(); return 0; }
            wait(NULL);
            return 0;
        }";
    let sandbox = Sandbox::new();
    sandbox.c(source, &["-O1", "-bf-unique-bytes", "-bf-by-func"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let files = sandbox.profile_files();
    let files: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let mut each: Vec<_> =
        files.iter().map(|file| by_function(&sandbox.bf(&["report", "--by", "function", file]))).collect();
    each.sort_by_key(BTreeMap::len);
    let (parent, child) = (bytes(&[("touch", 50), ("", 50)]), bytes(&[("touch", 40), ("other", 60), ("", 60)]));
    assert_eq!(each, [parent, child]);
    let merge = [&["merge", "-o", "both"], &files[..]].concat();
    let _ = succeed(sandbox.command(bf_tests::program("bf")).args(merge));
    // Their memories are different.
    let both = bytes(&[("touch", 90), ("other", 60), ("", 110)]);
    assert_eq!(by_function(&sandbox.bf(&["report", "--by", "function", "both"])), both);
    let export = |to: &str| {
        let arguments = ["export", "--to", to, "-o", "-", "both"];
        text(&succeed(sandbox.command(bf_tests::program("bf")).args(arguments)).stdout)
    };
    let json: Value = serde_json::from_str(&export("json")).unwrap();
    let rows = json["functions"].as_array().unwrap().iter();
    let mut rows: Vec<_> = rows.map(|row| (row["function"].as_str().unwrap(), row["unique_bytes"].as_u64())).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("other", Some(60)), ("touch", Some(40)), ("touch", Some(50))]);
    sandbox.write("both.sql", export("sql"));
    let query = "SELECT function, sum(unique_bytes) FROM functions GROUP BY function ORDER BY function";
    let statements = std::fs::File::open(sandbox.file("both.sql")).unwrap();
    let _ = succeed(sandbox.command("sqlite3").arg("both.db").stdin(statements));
    let answer = text(&succeed(sandbox.command("sqlite3").args(["both.db", query])).stdout);
    assert_eq!(answer, "other|60\ntouch|90\n");
}

#[test]
fn bytes_of_functions_need_both_options() {
    let sandbox = Sandbox::new();
    sandbox.c(LOOPS, &["-O1", "-bf-unique-bytes"]);
    let by_function = |by_place: &str| -> Vec<bool> {
        let _ = succeed(sandbox.program("a.out").env("BF_BY_PLACE", by_place));
        let process = sandbox.take_profile().processes.remove(0);
        let whole = process.patterns.touched[0].bytes;
        process.patterns.by_function.iter().map(|by| by.touched.bytes == whole).collect()
    };
    assert!(by_function("0").is_empty());
    // Only `work` touches memory: in the whole run and without a tag.
    assert_eq!(by_function("1"), [true, true]);
}

#[test]
fn reuse_distances_of_words() {
    // 512 words twice: 511 others in between. A line holds 8 of them.
    let source = r"
        static volatile double a[512] __attribute__((aligned(64)));
        int main(void) {
            for (int k = 0; k < 2; k++) for (int i = 0; i < 512; i++) (void)a[i];
            return 0;
        }";
    let sandbox = Sandbox::new();
    sandbox.c(source, &["-O1", "-fno-unroll-loops", "-bf-reuse-dist=loads"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let files = sandbox.profile_files();
    let report = sandbox.bf(&["report", files[0].to_str().unwrap()]);
    let distances = report["reuse_distance"].as_array().unwrap();
    let loads = |index: usize| (&distances[index]["line_bytes"], &distances[index]["loads"]);
    assert_eq!(loads(0), (&json!(8), &json!({ "references": 1024, "median": 511, "mad": 0 })));
    assert_eq!(loads(1), (&json!(64), &json!({ "references": 1024, "median": 0, "mad": 0 })));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.c", "int main(void) { return 0; }");
    let refused =
        output(sandbox.command(bf_tests::program("bf-clang")).args(["-bf-counters-only", "-bf-strides", "a.c"]));
    assert!(!refused.status.success());
    let said = "`-bf-strides` needs the accesses, which `-bf-counters-only` leaves out";
    assert!(text(&refused.stderr).contains(said), "{}", text(&refused.stderr));
}

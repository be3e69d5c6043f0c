//! Counters by source line and by loop: what each line executes follows from the source, and all of them add up.

use bf_tests::sandbox::{Build, Sandbox, succeed, text};
use serde_json::Value;

/// The line that a comment ends.
fn line(source: &str, comment: &str) -> u64 {
    let ends = |line: &str| line.ends_with(&format!("/* {comment} */"));
    1 + source.lines().position(ends).unwrap() as u64
}

fn items(report: &Value) -> &Vec<Value> {
    report["items"].as_array().unwrap()
}

/// A counter of all rows of a line.
fn of_line(report: &Value, at: u64, counter: &str) -> u64 {
    items(report).iter().filter(|row| row["line"] == at).map(|row| row[counter].as_u64().unwrap()).sum()
}

/// Every figure of the rows adds up to its total.
#[track_caller]
fn adds_up(report: &Value) {
    let totals = report["totals"].as_object().unwrap();
    assert!(totals.len() > 12, "{totals:?}");
    for (name, total) in totals {
        let sum: u64 = items(report).iter().map(|item| item[name].as_u64().unwrap()).sum();
        assert_eq!(sum, total.as_u64().unwrap(), "{name}");
    }
}

/// With and without the recording of accesses.
const BOTH: [&[&str]; 2] = [&["-bf-counters-only"], &["-bf-by-func"]];

const WORK: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#define KEPT __attribute__((noinline))
static inline double twice(double x) {
    return x + x; /* twice */
}
static long odd;
KEPT void work(int n, volatile double *d, volatile int *x) { /* work */
    for (int k = 0; k < n; k++) { /* loop */
        if (k % 3 == 0) /* third */
            *d = twice(*d); /* call */
        else
            *x = k * 5; /* store */
    }
}
static void *thread(void *n) {
    double d = 1;
    int x;
    work(*(int *)n, &d, &x);
    return 0;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[1]), n = argc > 2 ? atoi(argv[2]) : 30;
    pthread_t all[8];
    for (int k = 0; k < threads; k++)
        pthread_create(all + k, 0, thread, &n);
    for (int k = 0; k < threads; k++)
        pthread_join(all[k], 0);
    return (int)odd;
}
"#;

#[test]
fn lines_have_what_they_execute_whatever_the_number_of_threads() {
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.c(WORK, &[flags, &["-O1", "-g", "-pthread", "-fno-unroll-loops"]].concat());
        for threads in [1, 2, 8] {
            let _ = succeed(sandbox.program("a.out").arg(threads.to_string()));
            let profile = sandbox.profile_files().remove(0);
            let path = profile.to_str().unwrap();
            let report = sandbox.bf(&["report", path, "--by", "line"]);
            adds_up(&report);
            let of = |comment, counter| of_line(&report, line(WORK, comment), counter) / threads;
            assert_eq!([of("work", "entries"), of("twice", "flops")], [1, 10]);
            // Which way is called taken is the compiler's choice.
            let ways = ["branches_taken", "branches_not_taken"].map(|way| of("third", way));
            assert!(ways == [10, 20] || ways == [20, 10], "{ways:?}");
            assert_eq!([of("call", "loads"), of("call", "stores"), of("call", "bytes_stored")], [10, 10, 80]);
            assert_eq!([of("store", "stores"), of("store", "bytes_stored"), of("store", "loads")], [20, 80, 0]);
            let loops = sandbox.bf(&["report", path, "--by", "loop", "--sort", "flops"]);
            adds_up(&loops);
            let most = &items(&loops)[0];
            assert_eq!((&most["line"], &most["depth"]), (&line(WORK, "loop").into(), &1.into()));
            assert_eq!([&most["flops"], &most["stores"]], [10 * threads, 30 * threads]);
            // By function the figures come another way.
            let functions = sandbox.bf(&["report", path, "--by", "function"]);
            adds_up(&functions);
            assert_eq!(report["totals"], functions["totals"]);
            std::fs::remove_file(profile).unwrap();
        }
    }
}

#[test]
fn leaving_by_a_jump_an_exception_or_exit_loses_nothing() {
    let source = r#"
#include <csetjmp>
#include <cstdlib>
static jmp_buf back;
static volatile double d;
__attribute__((noinline)) static void leave(int how) {
    d = d + 1; /* before */
    if (how == 0) longjmp(back, 1);
    if (how == 1) throw how;
    if (how == 2) exit(0);
}
int main() {
    for (volatile int k = 0; k < 10; k = k + 1) {
        if (setjmp(back) == 0)
            leave(0);
        else
            d = d * 2; /* landed */
        try { leave(1); } catch (int) {
            d = d - 1; /* caught */
        }
    }
    leave(2);
    d = d / 2; /* never */
}
"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.write("a.cpp", source);
        sandbox
            .compile(&mut sandbox.command(Build::Bf.cxx()), [flags, &["-O1", "-g", "a.cpp", "-o", "a.out"]].concat());
        let _ = succeed(&mut sandbox.program("a.out"));
        let report = sandbox.bf(&["report", "--by", "line"]);
        adds_up(&report);
        let flops = |comment| of_line(&report, line(source, comment), "flops");
        assert_eq!(["before", "landed", "caught", "never"].map(flops), [21, 10, 10, 0]);
    }
}

#[test]
fn a_line_has_its_counters_beside_its_misses_in_every_form() {
    let sandbox = Sandbox::new();
    sandbox.c(WORK, &["-O1", "-g", "-pthread", "-bf-by-func"]);
    let _ = succeed(sandbox.program("a.out").args(["1", "300"]));
    let cache = ["--cache", "L1=4K:full"];
    let report = sandbox.bf(&[&["report", "--by", "line"], &cache[..]].concat());
    let annotated = sandbox.bf(&[&["annotate"], &cache[..]].concat());
    let twice = line(WORK, "twice");
    let found = annotated["lines"].as_array().unwrap().iter().find(|row| row["line"] == twice).unwrap();
    assert_eq!(found["flops"], 100);
    assert_eq!(annotated["totals"], report["totals"]);
    let ways = found["ways"].as_array().unwrap();
    assert_eq!(
        (ways.len(), &ways[0]["frames"][1]["line"], &ways[0]["flops"]),
        (1, &line(WORK, "call").into(), &100.into())
    );
    let run = |arguments: &[&str]| {
        let mut command = sandbox.command(bf_tests::program("bf"));
        text(&succeed(command.args(arguments).args(cache)).stdout)
    };
    let shown = run(&["annotate", "--show", "flops,calls"]);
    let row = shown.lines().find(|row| row.contains("/* twice */")).unwrap();
    assert!(row.trim_start().starts_with("0          0    100"), "{shown}");
    let json: Value = serde_json::from_str(&run(&["export", "--to", "json", "-o", "-"])).unwrap();
    assert_eq!(json["totals"], report["totals"]);
    adds_up(&json);
    // One row for each place, with figures of both kinds.
    let both = |row: &&Value| row["line"] == line(WORK, "store") && row["store_references"] == row["stores"];
    assert_eq!(items(&json).iter().filter(both).map(|row| row["stores"].as_u64().unwrap()).collect::<Vec<_>>(), [200]);
}

#[test]
fn lines_without_caches_and_without_counters() {
    let sandbox = Sandbox::new();
    sandbox.c(WORK, &["-O1", "-g", "-pthread"]);
    let _ = succeed(sandbox.program("a.out").arg("1"));
    // Recorded, but not by place: counters there are all the same.
    let report = sandbox.bf(&["report", "--by", "line", "--sort", "flops"]);
    adds_up(&report);
    assert_eq!(items(&report)[0]["line"], line(WORK, "twice"));
    assert!(report["totals"]["load_references"].is_null());
    std::fs::remove_file(sandbox.profile_files().remove(0)).unwrap();
    sandbox.c(WORK, &["-O1", "-g", "-pthread", "-bf-no-counters"]);
    let _ = succeed(sandbox.program("a.out").arg("1"));
    let output = sandbox.command(bf_tests::program("bf")).args(["report", "--by", "line"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("-bf-by-func"), "{said}");
}

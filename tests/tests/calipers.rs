//! The user's calipers: names within names, and slices of time. Whatever a run is cut into adds up to the whole.

use bf_tests::sandbox::{Sandbox, succeed, text};
use serde_json::Value;

const CACHE: [&str; 4] = ["--cache", "L1=4K:4", "--cache", "L2=64K:full"];

fn flops(sandbox: &Sandbox, tag: &[&str]) -> Option<u64> {
    sandbox.bf(&[&["report"], tag].concat())["totals"]["flops"].as_u64()
}

#[test]
fn names_nest() {
    let sandbox = Sandbox::new();
    let source = r#"
        #include <bf.h>
        static volatile double d;
        __attribute__((noinline)) static void work(int n) { for (int k = 0; k < n; k++) d = d + 1; }
        int main(void) {
            work(1);
            bf_push("solve"); work(10);
            bf_push("smooth"); work(100); bf_tag("restrict"); work(1000); bf_pop();
            work(10000); bf_pop();
            work(100000); bf_pop(); work(1000000);
            bf_tag("end"); bf_push(0); work(2); bf_pop();
            return 0;
        }"#;
    sandbox.c(source, &["-O1"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    for (tag, expected) in
        [("solve", 11110), ("solve/smooth", 100), ("solve/restrict", 1000), ("", 1_100_001), ("end", 2)]
    {
        assert_eq!(flops(&sandbox, &["--tag", tag]), Some(expected), "{tag}");
    }
    assert_eq!(flops(&sandbox, &[]), Some(1_111_113));
    let log = sandbox.take_profile().processes.remove(0).log;
    assert!(log.iter().any(|line| line.contains("bf_pop")), "{log:?}");
}

/// First all of one array many times over, then a larger one once, with as many references.
const TWO_PHASES: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    #include <bf.h>
    enum { SMALL = 1 << 6, LARGE = 1 << 15 };
    static volatile double small[SMALL], large[8 * LARGE];
    static void *work(void *none) {
        for (int k = 0; k < LARGE; k++) small[k % SMALL] = k + small[k % SMALL];
        bf_tag("large");
        for (int k = 0; k < LARGE; k++) large[8 * k] = k + large[8 * k];
        return none;
    }
    int main(int argc, char **argv) {
        int threads = argc > 1 ? atoi(argv[1]) : 0;
        pthread_t all[8];
        for (int k = 0; k < threads; k++) pthread_create(all + k, 0, work, 0);
        for (int k = 0; k < threads; k++) pthread_join(all[k], 0);
        if (!threads) work(0);
        return 0;
    }"#;

fn phases(sandbox: &Sandbox, more: &[&str]) -> Value {
    sandbox.bf(&[&["report", "--by", "phase"], &CACHE[..], more].concat())
}

fn items(report: &Value) -> &Vec<Value> {
    report["items"].as_array().unwrap()
}

#[track_caller]
fn adds_up(report: &Value) {
    for (name, total) in report["totals"].as_object().unwrap() {
        let sum: u64 = items(report).iter().map(|item| item[name].as_u64().unwrap()).sum();
        assert_eq!(sum, total.as_u64().unwrap(), "{name}");
    }
}

#[test]
fn slices_of_time_add_up_to_the_run() {
    let sandbox = Sandbox::new();
    // Without streams a buffer holds a few thousand accesses, so that slices can be short.
    sandbox.c(TWO_PHASES, &["-O1", "-pthread", "-bf-no-streams"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let whole = sandbox.bf(&[&["query"], &CACHE[..]].concat());
    let none = sandbox.command(bf_tests::program("bf")).args(["report", "--by", "phase"]).output().unwrap();
    assert!(!none.status.success() && text(&none.stderr).contains("BF_PHASES=N"), "{}", text(&none.stderr));
    drop(sandbox.take_profile());

    let _ = succeed(sandbox.program("a.out").env("BF_PHASES", "10K"));
    let report = phases(&sandbox, &[]);
    adds_up(&report);
    for (level, answer) in ["L1", "L2"].iter().zip(whole["levels"].as_array().unwrap()) {
        for figure in ["misses", "writebacks"] {
            assert_eq!(report["totals"][format!("{level}.{figure}")], answer[figure], "{level} {figure}");
        }
    }
    let slices = items(&report);
    assert!((6..=14).contains(&slices.len()), "{} slices of 2^17 references", slices.len());
    let ratio = |item: &Value| {
        let get = |name| item[name].as_u64().unwrap() as f64;
        get("L2.misses") / (get("load_references") + get("store_references"))
    };
    // Each line of the large array misses once in two references.
    assert!(ratio(&slices[1]) < 0.01 && ratio(&slices[slices.len() - 2]) > 0.49, "{slices:?}");
    let large = phases(&sandbox, &["--tag", "large"]);
    adds_up(&large);
    assert_eq!(large["totals"]["flops"], 1 << 15);
    assert!(items(&large)[0]["phase"].as_u64().unwrap() > 2);
    let mut draw = sandbox.command(bf_tests::program("bf"));
    let _ = succeed(draw.args(["report", "--by", "phase", "--plot", "time.svg"]).args(CACHE));
    let drawing = std::fs::read_to_string(sandbox.file("time.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("misses per reference"));
    // Every other figure is what it is without slices.
    let sliced = sandbox.bf(&[&["query"], &CACHE[..]].concat());
    assert_eq!(sliced["levels"][0]["misses"], whole["levels"][0]["misses"]);
}

#[test]
fn many_slices_are_bounded_and_threads_lose_nothing() {
    let sandbox = Sandbox::new();
    sandbox.c(TWO_PHASES, &["-O1", "-pthread", "-bf-no-streams"]);
    for threads in ["1", "2", "8"] {
        let _ = succeed(sandbox.program("a.out").arg(threads).env("BF_PHASES", "1"));
        let report = phases(&sandbox, &[]);
        adds_up(&report);
        let number: u64 = threads.parse().unwrap();
        assert_eq!(report["totals"]["flops"], number << 16);
        assert!(items(&report).len() <= 240);
        drop(sandbox.take_profile());
    }
}

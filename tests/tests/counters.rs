//! Counters, exact: what a program executed follows from its source.

use std::collections::BTreeMap;

use bf_profile::{Owner, Process};
use bf_tests::sandbox::{Build, Sandbox, succeed};

/// Counters of one function, over all tags.
fn of(process: &Process, function: &str) -> BTreeMap<String, u64> {
    let counters = &process.counters;
    let mut sums = BTreeMap::new();
    for item in counters.items.iter().filter(|item| counters.functions[item.function as usize].name == function) {
        for (name, value) in counters.values(item) {
            *sums.entry(name.to_owned()).or_default() += value;
        }
    }
    sums
}

/// Compiles a C program, runs it, and checks counters of its functions: `function counter=value …`, one a line.
#[track_caller]
fn check(source: &str, flags: &[&str], arguments: &[&str], expected: &str) {
    let sandbox = Sandbox::new();
    sandbox.c(source, flags);
    let _ = succeed(sandbox.program("a.out").args(arguments));
    let process = sandbox.take_profile().processes.remove(0);
    for line in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (function, counters) = line.split_once(' ').expect("a function and its counters");
        let found = of(&process, function);
        let shown = counters.split_whitespace().map(|counter| {
            let name = counter.split_once('=').expect("name=value").0;
            format!("{name}={}", found.get(name).copied().unwrap_or_default())
        });
        let shown = shown.collect::<Vec<_>>().join(" ");
        let wanted = counters.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(shown, wanted, "{function} with {flags:?}: {found:#?}");
    }
}

/// With and without the recording of accesses.
const BOTH: [&[&str]; 2] =
    [&["-O2", "-fno-unroll-loops", "-lm", "-bf-counters-only"], &["-O2", "-fno-unroll-loops", "-lm"]];

#[test]
fn loads_stores_and_their_bytes() {
    let source = r#"
        #define KEPT __attribute__((noinline))
        static volatile char c; static volatile short s; static volatile int i; static volatile long l;
        static volatile double d; static volatile long double x;
        KEPT void narrow(long n) { for (long k = 0; k < n; k++) { c = 1; c; s = 1; s; s; } }
        KEPT void wide(long n) { for (long k = 0; k < n; k++) { i = l; d; x = 1; } }
        KEPT void atomic(long n) { for (long k = 0; k < n; k++) __atomic_fetch_add(&l, 1, __ATOMIC_RELAXED); }
        int main(void) { narrow(1000); wide(10); atomic(7); return 0; }"#;
    for flags in BOTH {
        check(
            source,
            flags,
            &[],
            "
            narrow loads=3000 bytes_loaded=5000 stores=2000 bytes_stored=3000 blocks=1002 entries=1
            wide loads=20 bytes_loaded=160 stores=20 bytes_stored=140
            atomic loads=0 stores=7 bytes_stored=56
            main calls=3 loads=0 stores=0 returns=1 blocks=1",
        );
    }
}

#[test]
fn memory_functions() {
    let source = r#"
        #include <string.h>
        #define KEPT __attribute__((noinline))
        static char a[100000], b[100000];
        static volatile char sink;
        KEPT void copy(size_t n) { memcpy(a, b, n); sink = a[1]; }
        KEPT void move(size_t n) { memmove(a + 1, a, n); sink = a[1]; }
        KEPT void set(size_t n) { memset(a, 1, n); sink = a[1]; }
        KEPT void fixed(void) { memcpy(a, b, 5000); memset(b, 1, 6000); sink = a[1]; }
        int main(int argc, char **argv) {
            (void)argv;
            copy(10000 * argc); copy(0 * (size_t)argc); copy(4096 * argc); move(10 * argc); set(9000 * argc); set(argc - 1);
            fixed();
            return 0;
        }"#;
    for flags in BOTH {
        // Copies are cut into pieces of 4096 bytes; each function loads and stores one byte more a call.
        check(
            source,
            flags,
            &[],
            "
            copy memcpy_calls=3 memcpy_bytes=14096 loads=7 bytes_loaded=14099 stores=7 bytes_stored=14099 calls=0
            move memcpy_calls=1 memcpy_bytes=10 loads=2 bytes_loaded=11 stores=2 bytes_stored=11
            set memset_calls=2 memset_bytes=9000 loads=2 bytes_loaded=2 stores=3 bytes_stored=9002
            fixed memcpy_calls=1 memcpy_bytes=5000 memset_calls=1 memset_bytes=6000 loads=3 stores=4",
        );
    }
}

#[test]
fn arithmetic() {
    let source = r#"
        #define KEPT __attribute__((noinline))
        typedef float vector __attribute__((vector_size(32)));
        typedef int ints __attribute__((vector_size(16)));
        static volatile double d = 1; static volatile float f = 1; static volatile int i = 7; static volatile long l = 9;
        static vector v; static ints w;
        KEPT double sums(long n) { double s = d; for (long k = 0; k < n; k++) { s = s + d; s = s * d; d = s / d; } return s; }
        KEPT float fused(long n) { float s = f; for (long k = 0; k < n; k++) s = __builtin_fmaf(s, f, f); return s; }
        KEPT void vectors(long n) { for (long k = 0; k < n; k++) { *(volatile vector *)&v = *(volatile vector *)&v * v; } }
        KEPT void integers(void) { i = i + i; l = l / l; i = i & i; l = l << i; }
        KEPT void lanes(void) { *(volatile ints *)&w = *(volatile ints *)&w ^ *(volatile ints *)&w; }
        int main(void) { sums(100); fused(10); vectors(3); integers(); lanes(); return 0; }"#;
    for flags in BOTH {
        check(
            source,
            flags,
            &[],
            "
            sums flops=300 flop_bits=57600
            fused flops=20 flop_bits=1280
            vectors flops=24 flop_bits=2304
            integers int_ops=4 op_bits=576 flops=0
            lanes int_ops=4 op_bits=384",
        );
    }
}

#[test]
fn branches_by_kind_and_way() {
    let source = r#"
        #include <stdlib.h>
        #define KEPT __attribute__((noinline))
        static volatile int x;
        KEPT void third(int n) { for (int k = 0; k < n; k++) if (k % 3 == 0) x = k; else x = -k * x; }
        KEPT void loop(int n) { do { x = x; } while (--n); }
        KEPT int pick(int k) {
            switch (k) { case 1: x = 4; return 5; case 3: x = 1; return 2; case 4: return x * 2; case 7: x++; return 1; }
            return 0;
        }
        KEPT void jump(void) {
            static void *const where[] = {&&a, &&b, &&c};
            a: x = 1; goto *where[x]; b: x = 2; goto *where[x]; c: x = 0;
        }
        int main(void) {
            third(30); loop(50);
            for (volatile int k = 0; k < 8; k++) pick(k);
            jump();
            return 0;
        }"#;
    for flags in BOTH {
        check(
            source,
            flags,
            &[],
            "
            third branches=82 branches_taken=12 branches_not_taken=49 branches_unconditional=20 returns=1 blocks=82
            loop branches_taken=1 branches_not_taken=49 branches_unconditional=1
            pick branches_switch=8 branches_unconditional=4 returns=8 entries=8 branches=20
            jump branches_indirect=2 returns=1",
        );
    }
}

/// Sums over all functions, and the accesses that were recorded.
#[track_caller]
fn assert_as_recorded(process: &Process) {
    let totals: BTreeMap<_, _> = process.counters.totals().collect();
    assert_eq!(totals["loads"] + totals["stores"], process.meta.accesses);
    let references = process.lines[0].stacks.iter().filter(|stack| stack.owner == Owner::Slot(0));
    let [loads, stores] = references.fold([0, 0], |sum, stack| {
        let [loads, stores] = stack.histograms.references;
        [sum[0] + loads, sum[1] + stores]
    });
    // An access is a reference to one line or several.
    assert!(totals["loads"] <= loads && totals["stores"] <= stores);
}

/// Two ways to the same figure: every access is recorded with its address, or blocks are counted.
#[test]
fn as_many_accesses_are_counted_as_recorded() {
    let sandbox = Sandbox::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
    for level in ["-O0", "-O1", "-O3 -march=native"] {
        let level: Vec<_> = level.split(' ').collect();
        let loops = format!("{folder}/loops.c");
        sandbox.bf_clang([loops.as_str(), "-o", "a.out", "-lm"].into_iter().chain(level.iter().copied()));
        let _ = succeed(&mut sandbox.program("a.out"));
        assert_as_recorded(&sandbox.take_profile().processes[0]);
    }
}

#[test]
fn threads_lose_no_count() {
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        static double data[64][8];
        static long share;
        __attribute__((noinline)) void work(double *mine) {
            for (long k = 0; k < share; k++) if (k % 3) *(volatile double *)mine *= 1.5;
        }
        static void *thread(void *mine) { work(mine); return NULL; }
        int main(int argc, char **argv) {
            (void)argc;
            pthread_t threads[8];
            int n = atoi(argv[1]);
            share = 24000 / n;
            for (int k = 0; k < n; k++) pthread_create(&threads[k], NULL, thread, data[k]);
            for (int k = 0; k < n; k++) pthread_join(threads[k], NULL);
            return 0;
        }"#;
    for flags in BOTH {
        for threads in ["1", "2", "8"] {
            check(
                source,
                &[flags, &["-pthread"]].concat(),
                &[threads],
                &format!(
                    "
                work flops=16000 stores=16000 entries={threads} returns={threads}"
                ),
            );
        }
    }
}

#[test]
fn exit_in_the_middle() {
    let source = r#"
        #include <stdlib.h>
        #define KEPT __attribute__((noinline))
        static volatile double d;
        KEPT void leave(int n) { d = d + 1; if (n == 0) exit(0); d = d * 2; }
        KEPT void down(int n) { d = d + 1; leave(n); d = d * 2; down(n - 1); d = d / 2; }
        int main(void) { down(5); d = d - 1; return 0; }"#;
    for flags in BOTH {
        // `exit` is the last thing that happens: nothing behind a call that did not come back.
        check(
            source,
            flags,
            &[],
            "leave entries=6 flops=11 returns=5 calls=1 loads=11 stores=11
             down entries=6 flops=11 returns=0 calls=11
             main entries=1 flops=0 returns=0 calls=1",
        );
    }
}

#[test]
fn long_jumps() {
    let source = r#"
        #include <setjmp.h>
        #define KEPT __attribute__((noinline))
        static jmp_buf back;
        static volatile double d;
        KEPT void jump(int n) { d = d + 1; if (n % 3 == 0) longjmp(back, 1); d = d * 2; }
        KEPT void call(int n) { d = d - 1; jump(n); d = d / 2; }
        int main(void) {
            volatile int n = 0;
            setjmp(back);
            while (n < 30) call(n++);
            return 0;
        }"#;
    for flags in BOTH {
        check(
            source,
            flags,
            &[],
            "jump entries=30 flops=50 returns=20 calls=10
             call entries=30 flops=50 returns=20 calls=30
             main entries=1 returns=1 calls_to/_setjmp=1 calls=31",
        );
    }
}

#[test]
fn exceptions() {
    let source = r#"
        #define KEPT extern "C" __attribute__((noinline))
        static volatile double d;
        struct Cleanup { ~Cleanup() { d = d * 2; } };
        KEPT void raise(int n) { d = d + 1; if (n % 3 == 0) throw n; d = d + 1; }
        KEPT void through(int n) { raise(n); d = d - 1; }
        KEPT void around(int n) { Cleanup cleanup; through(n); d = d / 2; }
        int main() {
            for (volatile int n = 0; n < 30; n = n + 1) try { around(n); } catch (int) { d = d / 4; }
            return 0;
        }"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.write("a.cpp", source);
        sandbox.compile(sandbox.command(Build::Bf.cxx()).args(["a.cpp", "-o", "a.out"]), flags.iter().copied());
        let _ = succeed(&mut sandbox.program("a.out"));
        let process = sandbox.take_profile().processes.remove(0);
        let counts = |function, name| of(&process, function).get(name).copied().unwrap_or_default();
        assert_eq!((counts("raise", "flops"), counts("raise", "returns"), counts("raise", "entries")), (50, 20, 30));
        assert_eq!(
            (counts("through", "flops"), counts("through", "returns"), counts("through", "calls")),
            (20, 20, 30)
        );
        // The destructor runs for all, the division for those that come back.
        assert_eq!((counts("around", "flops"), counts("around", "returns"), counts("around", "invokes")), (50, 20, 30));
        assert_eq!((counts("main", "flops"), counts("main", "invokes")), (10, 30));
    }
}

#[test]
fn tail_calls_stay_tail_calls() {
    // So deep that the stack would not do if each call kept a frame.
    let source = r#"
        #define KEPT __attribute__((noinline))
        static volatile double d;
        long (*volatile next)(long);
        KEPT long even(long n) { d = d + 1; if (n == 0) return 1; return next(n - 1); }
        KEPT long odd(long n) { d = d * 2; if (n == 0) return 0; __attribute__((musttail)) return even(n - 1); }
        int main(void) { next = odd; return even(3000000) == 1 ? 0 : 1; }"#;
    for flags in BOTH {
        check(
            source,
            flags,
            &[],
            "even entries=1500001 flops=1500001 returns=1500001 calls=1500000 calls_indirect=1500000
             odd entries=1500000 flops=1500000 returns=1500000 calls=1500000 calls_indirect=0",
        );
    }
}

#[test]
fn recursion() {
    let source = r#"
        __attribute__((noinline)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        int main(void) { return fib(20) == 6765 ? 0 : 1; }"#;
    for flags in BOTH {
        // The optimiser turns some of the calls into loops.
        let sandbox = Sandbox::new();
        sandbox.c(source, flags);
        let _ = succeed(&mut sandbox.program("a.out"));
        let process = sandbox.take_profile().processes.remove(0);
        let fib = of(&process, "fib");
        assert_eq!(fib["entries"], fib["returns"]);
        assert_eq!(fib["entries"], fib["calls"] + 1);
    }
    check(source, &["-O0", "-bf-counters-only"], &[], "fib entries=21891 returns=21891 calls=21890");
}

#[test]
fn tags_and_pauses() {
    let source = r#"
        #include <bf.h>
        static volatile double d;
        __attribute__((noinline)) void work(long n) { for (long k = 0; k < n; k++) d = d + 1; }
        int main(void) {
            work(1); bf_tag("a"); work(10); bf_tag("b"); work(100); bf_stop(); work(1000); bf_start(); bf_tag("a"); work(10000);
            return 0;
        }"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.c(source, flags);
        let _ = succeed(&mut sandbox.program("a.out"));
        let process = sandbox.take_profile().processes.remove(0);
        let counters = &process.counters;
        let flops = |tag: &str| -> u64 {
            let items = counters.items.iter().filter(|item| process.tags[item.tag as usize] == tag);
            items.flat_map(|item| counters.values(item)).filter(|value| value.0 == "flops").map(|value| value.1).sum()
        };
        assert_eq!([flops(""), flops("a"), flops("b")], [1, 10010, 100]);
    }
}

#[test]
fn a_child_begins_at_zero() {
    let source = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile double d;
        __attribute__((noinline)) void work(long n) { for (long k = 0; k < n; k++) d = d + 1; }
        int main(void) {
            work(100);
            if (fork() == 0) { work(7); _exit(0); }
            wait(NULL);
            work(1000);
            return 0;
        }"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.c(source, flags);
        let _ = succeed(&mut sandbox.program("a.out"));
        let profiles = sandbox.take_profiles();
        let mut flops: Vec<_> = profiles.iter().map(|profile| of(&profile.processes[0], "work")["flops"]).collect();
        flops.sort_unstable();
        assert_eq!(flops, [7, 1100]);
    }
}

#[test]
fn on_request() {
    let source = r#"
        #define KEPT __attribute__((noinline))
        typedef float vector __attribute__((vector_size(16)));
        static volatile int i; static volatile double d; static int *volatile p; static vector v;
        KEPT void scalars(long n) { for (long k = 0; k < n; k++) { i = i + 1; d = d * 2; p = p; } }
        KEPT void vectors(long n) { for (long k = 0; k < n; k++) *(volatile vector *)&v = *(volatile vector *)&v + 1; }
        int main(void) { scalars(100); vectors(10); return 0; }"#;
    for flags in BOTH {
        let extra = ["-bf-types", "-bf-inst-mix", "-bf-inst-deps", "-bf-vectors"];
        check(
            source,
            &[flags, &extra].concat(),
            &[],
            "scalars types/load.scalar.int.32=100 types/store.scalar.int.32=100 types/load.scalar.fp.64=100
             scalars types/load.scalar.pointer.64=100 types/store.scalar.pointer.64=100 types/store.scalar.fp.64=100
             scalars mix/fmul.f64=100 mix/add.i32=100 mix/load.ptr=100 mix/ret=1 vector_ops=0
             scalars deps/load->fmul=100 deps/constant->fmul=100 deps/fmul->store=100 deps/load->add=100
             vectors types/load.vector.fp.128=10 types/store.vector.fp.128=10 mix/fadd.4xf32=10 deps/load->fadd=10
             vectors vector_ops=10 vector_elements=40 vector_bits=1280 vectors/4xf32=10 flops=40",
        );
        check(source, flags, &[], "scalars types/load.scalar.int.32=0 mix/fmul.f64=0 deps/load->fmul=0 vector_ops=0");
    }
}

#[test]
fn by_function_in_a_report() {
    let source = r#"
        #define KEPT __attribute__((noinline))
        static volatile double d;
        KEPT double compute(double x, long n) { for (long k = 0; k < n; k++) x = x * 1.5 + n; return x; }
        KEPT void touch(long n) { for (long k = 0; k < n; k++) d = d + 1; }
        int main(void) { touch(10); d = compute(2, 100); touch(3); return 0; }"#;
    for flags in [["-O1", "-g", "-bf-by-func"], ["-O1", "-g", "-bf-counters-only"]] {
        let sandbox = Sandbox::new();
        sandbox.c(source, &flags);
        let _ = succeed(&mut sandbox.program("a.out"));
        let files = sandbox.profile_files();
        let report = |sort: &str| {
            let caches = ["--cache", "L1=32K:8", "--cache", "L2=1M:16"];
            sandbox
                .bf(&[&["report", files[0].to_str().unwrap(), "--by", "function", "--sort", sort], &caches[..]]
                    .concat())
        };
        let answer = report("flops");
        let items = answer["items"].as_array().unwrap();
        let names: Vec<_> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["compute", "touch", "main"]);
        let column = |name: &str| items.iter().map(|item| item[name].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(column("flops"), [200, 13, 0]);
        assert_eq!(column("loads"), [0, 13, 0]);
        assert_eq!(column("entries"), [1, 2, 1]);
        assert_eq!(column("calls"), [0, 0, 3]);
        let recorded = flags[2] == "-bf-by-func";
        assert_eq!(answer["totals"].get("L2.misses").is_some(), recorded);
        if recorded {
            assert_eq!(column("load_references"), [0, 13, 0]);
        }
        for (name, total) in answer["totals"].as_object().unwrap() {
            assert_eq!(column(name).iter().sum::<u64>(), total.as_u64().unwrap(), "{name}");
        }
        assert_eq!(report("loads")["items"][0]["name"], "touch");
    }
}

#[test]
fn a_report_counts_the_tags_asked_for() {
    let source = r#"
        #include <bf.h>
        static volatile double d;
        __attribute__((noinline)) void work(long n) { for (long k = 0; k < n; k++) d = d + 1; }
        int main(void) { work(1); bf_tag("a"); work(10); bf_tag("b"); work(100); return 0; }"#;
    let sandbox = Sandbox::new();
    sandbox.c(source, &["-O1"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let files = sandbox.profile_files();
    for (tags, flops) in [(&[][..], 111), (&["--tag", "a"], 10), (&["--tag", "a", "--tag", "b"], 110)] {
        let report = sandbox.bf(&[&["report", files[0].to_str().unwrap()], tags].concat());
        assert_eq!(report["totals"]["flops"], flops);
    }
}

#[test]
fn by_basic_block() {
    let source = r#"
        #define KEPT __attribute__((noinline))
        static volatile double d;
        static volatile int x;
        KEPT void work(int n) {
            for (int k = 0; k < n; k++)
                if (k % 3 == 0)
                    d = d + 1;
                else
                    x = k;
        }
        int main(void) {
            work(30);
            return 0;
        }"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.c(source, &[flags, &["-g", "-fno-unroll-loops", "-bf-every-bb"]].concat());
        let _ = succeed(&mut sandbox.program("a.out"));
        let files = sandbox.profile_files();
        let report = sandbox.bf(&["report", files[0].to_str().unwrap(), "--by", "block", "--sort", "flops"]);
        let items = report["items"].as_array().unwrap();
        // One block of the loop adds, another stores the number.
        let expected = serde_json::json!(["work", 8, 10, 10, 10, 10]);
        let found = ["name", "line", "flops", "blocks", "loads", "stores"].map(|name| items[0][name].clone());
        assert_eq!(serde_json::Value::from(found.to_vec()), expected);
        let stores: Vec<_> = items.iter().filter(|item| item["line"] == 10).map(|item| &item["stores"]).collect();
        assert_eq!(stores, [20]);
        for (name, total) in report["totals"].as_object().unwrap() {
            let sum: u64 = items.iter().map(|item| item[name].as_u64().unwrap()).sum();
            assert_eq!(sum, total.as_u64().unwrap(), "{name}");
        }
        // The branch that tells the two apart is in one block.
        let ways =
            |item: &serde_json::Value| [&item["branches_taken"], &item["branches_not_taken"]].map(|n| n.as_u64());
        let apart = items.iter().map(ways).filter(|ways| matches!(ways, [Some(10), Some(20)] | [Some(20), Some(10)]));
        assert_eq!(apart.count(), 1);
    }
}

#[test]
fn basic_blocks_merged() {
    let source = r#"
        __attribute__((noinline)) static int work(int n) {
            int sum = 0;
            for (volatile int k = 0; k < n; k = k + 1) sum += k % 3 ? k : 2;
            return sum;
        }
        int main(int argc, char **argv) { (void)argv; return work(100 * argc) < 0; }"#;
    let blocks = |options: &[&str]| {
        let sandbox = Sandbox::new();
        sandbox.c(source, &[&["-O1", "-bf-every-bb"], options].concat());
        let _ = succeed(&mut sandbox.program("a.out"));
        sandbox.bf(&["report", "--by", "block"])
    };
    let (each, merged) = (blocks(&[]), blocks(&["-bf-merge-bb=2"]));
    assert_eq!(each["totals"], merged["totals"]);
    let of = |report: &serde_json::Value, number: u64, by: u64| -> u64 {
        let items = report["items"].as_array().unwrap().iter();
        let mine = items.filter(|item| item["name"] == "work" && item["block"].as_u64().unwrap() / by == number);
        mine.map(|item| item["instructions"].as_u64().unwrap()).sum()
    };
    for number in 0..3 {
        assert_eq!(of(&merged, number, 1), of(&each, number, 2), "{number}");
    }
    let sandbox = Sandbox::new();
    sandbox.write("a.c", source);
    let output = sandbox.command(Build::Bf.cc()).args(["a.c", "-bf-merge-bb=2"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("-bf-every-bb"), "{said}");
}

#[test]
fn ratios_and_what_the_text_names() {
    let source = r#"
        #include <string.h>
        #define KEPT __attribute__((noinline))
        typedef float vector __attribute__((vector_size(16)));
        static vector v; static volatile int kind; static char from[4096], to[4096];
        static char *volatile source = from, *volatile target = to;
        KEPT void vectors(long n) { for (long k = 0; k < n; k++) *(volatile vector *)&v = *(volatile vector *)&v + 1; }
        KEPT void bytes(volatile long *n) { memcpy(target, source, *n); memset(source, kind, *n); }
        KEPT int chosen(int which) {
            switch (which) { case 0: return kind; case 1: kind = 7; return 1; case 2: kind = 9; return 5; case 3: kind++; }
            return kind + which;
        }
        int main(void) { volatile long n = 1000; vectors(10); bytes(&n); for (int k = 0; k < 6; k++) chosen(k); return 0; }"#;
    let sandbox = Sandbox::new();
    sandbox.c(source, &["-O1", "-fno-jump-tables", "-bf-vectors", "-bf-counters-only"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let report = sandbox.bf(&["report"]);
    let total = |name: &str| report["totals"][name].as_u64().unwrap() as f64;
    let ops = total("flops") + total("int_ops");
    let ratios = [
        ("bytes_per_flop", (total("bytes_loaded") + total("bytes_stored")) / total("flops")),
        ("ops_per_load", ops / total("loads")),
        ("ops_per_branch", ops / total("branches")),
        ("instructions_per_block", total("instructions") / total("blocks")),
        ("vector_share", total("vector_elements") / ops),
    ];
    for (name, ratio) in ratios {
        assert_eq!(report["ratios"][name].as_f64(), Some(ratio), "{name}");
    }
    assert_eq!((total("vector_elements"), total("memcpy_bytes"), total("memset_bytes")), (40.0, 1000.0, 1000.0));
    let text = succeed(sandbox.command(bf_tests::program("bf")).arg("report"));
    let text = bf_tests::sandbox::text(&text.stdout);
    for line in ["  copies", "  fills", " by switch, ", "  vector share of ops"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

//! Calls through pointers, by the names of what they reach.

use std::collections::BTreeMap;

use bf_profile::Process;
use bf_tests::sandbox::{Build, Sandbox, succeed};

/// What one function called through pointers, by name, under one tag.
fn called(process: &Process, caller: &str, tag: &str) -> BTreeMap<String, u64> {
    let counters = &process.counters;
    let here = |function: u32, of: u32| {
        counters.functions[function as usize].name == caller && process.tags[of as usize] == tag
    };
    let items = counters.items.iter().filter(|item| here(item.function, item.tag));
    let values = items.flat_map(|item| counters.values(item));
    let name = |(name, calls): (&str, u64)| Some((name.strip_prefix("calls_indirect_to/")?.to_owned(), calls));
    values.filter_map(name).collect()
}

fn total(process: &Process, prefix: &str) -> u64 {
    process.counters.totals().filter(|(name, _)| name.starts_with(prefix)).map(|(_, calls)| calls).sum()
}

fn expect(calls: &[(&str, u64)]) -> BTreeMap<String, u64> {
    calls.iter().map(|&(name, calls)| (name.to_owned(), calls)).collect()
}

/// With and without accesses recorded.
const BOTH: [&[&str]; 2] = [&["-O1", "-pthread"], &["-O1", "-pthread", "-bf-counters-only"]];

#[test]
fn by_caller_tag_and_thread() {
    let source = r#"
        #include <bf.h>
        #include <pthread.h>
        #include <stdlib.h>
        #define KEPT __attribute__((noinline))
        static int hidden(int n) { return n + 1; }
        int shown(int n) { return n + 2; }
        static int (*volatile table[])(int) = {hidden, shown, abs};
        KEPT void in_turn(int n) { for (int k = 0; k < n; k++) table[k % 3](k); }
        KEPT void first(int n) { for (int k = 0; k < n; k++) table[0](k); }
        KEPT void *work(void *nothing) { first(1000); return nothing; }
        int main(void) {
            pthread_t threads[4];
            in_turn(10); bf_tag("t"); in_turn(2); first(5); bf_stop(); first(77); bf_start(); bf_tag("threads");
            for (int k = 0; k < 4; k++) pthread_create(&threads[k], NULL, work, NULL);
            for (int k = 0; k < 4; k++) pthread_join(threads[k], NULL);
            return 0;
        }"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        sandbox.c(source, flags);
        let _ = succeed(&mut sandbox.program("a.out"));
        let process = sandbox.take_profile().processes.remove(0);
        assert_eq!(called(&process, "in_turn", ""), expect(&[("abs", 3), ("hidden", 4), ("shown", 3)]));
        assert_eq!(called(&process, "in_turn", "t"), expect(&[("hidden", 1), ("shown", 1)]));
        assert_eq!(called(&process, "first", "t"), expect(&[("hidden", 5)]));
        assert_eq!(called(&process, "first", "threads"), expect(&[("hidden", 4000)]));
        assert_eq!(total(&process, "calls_indirect_to/"), total(&process, "calls_indirect") / 2);
        // What was not compiled with bf.
        let abs = process.uninstrumented.iter().find(|callee| callee.name == "abs");
        assert_eq!(abs.map(|callee| callee.calls), Some(3));
        assert!(!process.uninstrumented.iter().any(|callee| callee.name == "hidden"));
    }
}

#[test]
fn virtual_functions() {
    let source = r#"
        struct Shape { virtual int sides() const = 0; virtual ~Shape() {} };
        struct Line : Shape { int sides() const override { return 1; } };
        struct Square : Shape { int sides() const override { return 4; } };
        extern "C" __attribute__((noinline)) int count(const Shape *const *shapes, int n) {
            int sides = 0;
            for (int k = 0; k < n; k++) sides += shapes[k % 3]->sides();
            return sides;
        }
        int main(int argc, char **) {
            Line line; Square square;
            const Shape *shapes[] = {&line, &square, &square};
            return count(shapes, 300 * argc) == 900 ? 0 : 1;
        }"#;
    let sandbox = Sandbox::new();
    sandbox.write("a.cpp", source);
    sandbox.compile(sandbox.command(Build::Bf.cxx()).args(["a.cpp", "-o", "a.out"]), ["-O1"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let process = sandbox.take_profile().processes.remove(0);
    let expected = expect(&[("_ZNK4Line5sidesEv", 100), ("_ZNK6Square5sidesEv", 200)]);
    assert_eq!(called(&process, "count", ""), expected);
}

/// Two libraries, one after the other, likely at the same place: names are those of the time of the call.
#[test]
fn of_libraries_that_are_gone() {
    let library = |name: &str| {
        format!(
            "int (*volatile inner)(int); static int in_{name}(int n) {{ return n; }}\n\
        int run(int n) {{ inner = in_{name}; for (int k = 0; k < n; k++) inner(k); return n; }}"
        )
    };
    let program = r#"
        #include <dlfcn.h>
        __attribute__((noinline)) void run(const char *path, int n) {
            void *library = dlopen(path, RTLD_NOW);
            int (*call)(int) = (int (*)(int))dlsym(library, "run");
            call(n);
            dlclose(library);
        }
        int main(void) { run("./one.so", 10); run("./two.so", 100); run("./one.so", 1000); return 0; }"#;
    for flags in BOTH {
        let sandbox = Sandbox::new();
        for name in ["one", "two"] {
            sandbox.write(&format!("{name}.c"), library(name));
            let (source, output) = (format!("{name}.c"), format!("{name}.so"));
            let arguments = [source.as_str(), "-o", &output, "-shared", "-fPIC"];
            sandbox.bf_clang(arguments.into_iter().chain(flags.iter().copied()));
        }
        sandbox.c(program, &[flags, &["-ldl"]].concat());
        let _ = succeed(&mut sandbox.program("a.out"));
        let process = sandbox.take_profile().processes.remove(0);
        let names: BTreeMap<_, _> =
            process.counters.totals().filter(|(name, _)| name.starts_with("calls_indirect_to/in_")).collect();
        let expected = [("calls_indirect_to/in_one", 1010), ("calls_indirect_to/in_two", 100)];
        assert_eq!(names, BTreeMap::from(expected));
        assert_eq!(total(&process, "calls_indirect_to/run"), 3);
    }
}

//! Loops recorded before they start count exactly as they do iteration by iteration.

use bf_profile::Profile;
use bf_tests::sandbox::{Build, Sandbox, succeed, timeless};
use std::process::Command;

const SOURCE: &str = include_str!("../programs/loops.c");
/// Shares of a loop, of lengths that are odd or even, which are unrolled.
const SHARES: &str = r#"
#include <stdio.h>
static double a[4000][9];
int main(void) {
    double all = 0;
    for (long n = 0; n < 4000; n += n < 20 ? 1 : 661) {
        double sum = 0;
        #pragma omp parallel for reduction(+ : sum) schedule(static) num_threads(1)
        for (long i = 0; i < n; i++) { a[i][0] += a[i][2] + n; sum += a[i][1]; }
        #pragma omp parallel for schedule(static, 7) num_threads(1)
        for (long i = 3; i < n; i += 3) a[i][3] += a[i][0];
        all += sum;
    }
    for (int time = 0; time < 100; time++)
        #pragma omp parallel for num_threads(1)
        for (int i = 0; i < 3999; i++) a[i][4] += a[i + 1][5];
    printf("%g\n", all + a[1][4]);
    return 0;
}
"#;

/// The profile of a program, its address space laid out the same way each time.
fn profile(source: &str, clang: &str, options: &[&str]) -> Profile {
    let sandbox = Sandbox::new();
    sandbox.write("loops.c", source);
    let mut cc = sandbox.command(Build::Bf.cc());
    cc.env("BF_CLANG", clang);
    let own = ["loops.c", "-o", "loops", "-bf-line-size=32,64,4096"];
    sandbox.compile(&mut cc, own.iter().chain(options).copied());
    let mut setarch = Command::new("setarch");
    let _ = succeed(setarch.args(["-R", "./loops"]).current_dir(sandbox.path()).env_clear());
    let mut profile = timeless(sandbox.take_profile());
    // Each run has a folder of its own.
    let functions = profile.processes.iter_mut().flat_map(|process| &mut process.counters.functions);
    functions.for_each(|function| function.file.clear());
    let strings = profile.processes.iter_mut().flat_map(|process| &mut process.places.strings);
    strings.filter(|string| string.ends_with("loops.c")).for_each(String::clear);
    profile
}

fn check(options: &[&str]) {
    for clang in ["clang-22", "clang-19"] {
        let streams = profile(SOURCE, clang, options);
        let segments = profile(SOURCE, clang, &[options, &["-bf-no-streams"]].concat());
        assert!(streams.processes[0].meta.accesses > 1_000_000);
        assert_eq!(streams, segments, "{clang} {options:?}");
    }
}

#[test]
fn unoptimised() {
    check(&["-O0"]);
}

#[test]
fn simple_loops() {
    check(&["-O1"]);
}

#[test]
fn vectorised_loops() {
    check(&["-O2"]);
}

#[test]
fn loops_in_wide_vectors() {
    check(&["-O3", "-march=native", "-g"]);
}

#[test]
fn unrolled_loops() {
    check(&["-O2", "-fno-vectorize", "-funroll-loops"]);
}

#[test]
fn loops_for_size() {
    check(&["-Os", "-fno-strict-overflow"]);
}

/// What is private of a thread lies elsewhere on its stack, so only how many accesses there are is the same.
#[test]
fn shares_of_loops() {
    for (clang, optimised) in [("clang-22", "-O2"), ("clang-22", "-O3"), ("clang-19", "-O2")] {
        let accesses = |more: &[&str]| {
            let options = [&[optimised, "-fopenmp"], more].concat();
            profile(SHARES, clang, &options).processes[0].meta.accesses
        };
        assert_eq!(accesses(&[]), accesses(&["-bf-no-streams"]), "{clang} {optimised}");
    }
}

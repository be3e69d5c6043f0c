//! Loops recorded before they start count exactly as they do iteration by iteration.

use bf_profile::Profile;
use bf_tests::sandbox::{Build, Sandbox, succeed, timeless};
use std::process::Command;

const SOURCE: &str = include_str!("../programs/loops.c");

/// The profile of the program of all loops, its address space laid out the same way each time.
fn profile(clang: &str, options: &[&str]) -> Profile {
    let sandbox = Sandbox::new();
    sandbox.write("loops.c", SOURCE);
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
        let streams = profile(clang, options);
        let segments = profile(clang, &[options, &["-bf-no-streams"]].concat());
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

//! Against Cachegrind on the same binary: lackey's trace of it, replayed, has the misses that Cachegrind counts.

use std::fs;

use bf_tests::histograms::{all, counts};
use bf_tests::oracle::Counts;
use bf_tests::sandbox::{Build, Sandbox, read, succeed, text};

/// A table of 256 KiB read at random, an array of 64 KiB written in strides, and a sum.
const PROGRAM: &str = "
    unsigned table[1 << 16];
    char bytes[1 << 16];
    int main(void) {
        unsigned x = 1, sum = 0;
        for (int i = 0; i < 40000; i++) {
            x = x * 1664525 + 1013904223;
            sum += table[x >> 16];
            bytes[i * 67 & 0xffff] = (char)sum;
        }
        return sum & 1;
    }";

/// D1 as Cachegrind's option gives it, and as set bits and ways; LL so large that it does not matter here.
const CACHES: [(&str, u32, usize); 3] = [("32768,8,64", 6, 8), ("8192,2,64", 6, 2), ("131072,16,64", 7, 16)];

/// Both run the same instructions on the same addresses, so the counts agree to the last one, but for one thing that is
/// known: Cachegrind asks its cache once for an access that straddles two lines, counts a miss if either line is missing,
/// and for a read-modify-write counts the read alone.
#[test]
fn replayed_lackey_counts_what_cachegrind_counts() {
    let sandbox = Sandbox::new();
    sandbox.write("a.c", PROGRAM);
    // Without the C library's start there are no vector instructions that straddle lines, and the two tools see the same.
    sandbox
        .compile(&mut sandbox.command(Build::Native.cc()), ["-O1", "-g", "-gdwarf-4", "-static", "a.c", "-o", "a.out"]);
    let valgrind = |args: &[&str]| {
        // The tool is part of the environment of the program, and shifts its stack: give each the same length of names.
        let mut command = sandbox.command("valgrind");
        let output = command.env_clear().args(args).arg("./a.out").output().expect("valgrind is installed");
        text(&output.stderr)
    };
    fs::write(sandbox.file("trace"), valgrind(&["--tool=lackey", "--trace-mem=yes", "--log-fd=2"])).expect("written");
    let _ = succeed(sandbox.command(bf_tests::program("bf")).args(["replay", "trace", "-o", "replayed.bfp"]));
    let profile = read(&sandbox.file("replayed.bfp"));
    for (cache, set_bits, ways) in CACHES {
        let d1 = format!("--D1={cache}");
        let said =
            valgrind(&["--tool=cachegrind", "--cache-sim=yes", &d1, "--LL=8388608,16,64", "--cachegrind-out-file=out"]);
        let figures = |name: &str| -> [u64; 2] {
            let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"));
            let mut numbers =
                line.split(['(', '+']).map(|part| part.chars().filter(char::is_ascii_digit).collect::<String>());
            let mut next = || numbers.next().expect("a number").parse().expect("a number");
            let _sum: u64 = next();
            [next(), next()]
        };
        let Counts { references, misses, .. } = counts(all(&profile, 64), set_bits, ways);
        println!(
            "{cache}: replay {references:?} {misses:?}, cachegrind {:?} {:?}",
            figures("D   refs"),
            figures("D1  misses")
        );
    }
}

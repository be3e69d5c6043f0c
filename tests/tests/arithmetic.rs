//! Small programs whose counts follow from arithmetic, compiled as a user would, at every level of optimisation and with
//! both versions of LLVM.

use bf_profile::{Bin, Histograms, Profile};
use bf_tests::histograms::{all, counts};
use bf_tests::oracle::Counts;
use bf_tests::sandbox::{Build, Sandbox, succeed};

const LEVELS: [&[&str]; 3] = [&["-O0"], &["-O2"], &["-O3", "-march=native"]];

/// Compiles and runs a program at every level with every clang, and hands its profile on.
fn each(source: &str, check: impl Fn(&str, &Profile)) {
    let sandbox = Sandbox::new();
    sandbox.write("a.c", source);
    for clang in ["clang-22", "clang-19"] {
        for level in LEVELS {
            let mut cc = sandbox.command(Build::Bf.cc());
            cc.env("BF_CLANG", clang);
            sandbox.compile(&mut cc, ["a.c", "-o", "a.out"].iter().chain(level).copied());
            let output = succeed(&mut sandbox.program("a.out"));
            assert!(output.stdout.is_empty() && output.stderr.is_empty());
            check(&format!("{clang} {level:?}"), &sandbox.take_profile());
        }
    }
}

fn bin(value: u64, count: u64) -> Bin {
    Bin { lo: value, hi: value + 1, count }
}

#[test]
fn a_store_after_a_call_sees_what_the_call_touched() {
    let source = "
        __attribute__((aligned(64))) char a[64], b[64];
        __attribute__((noinline)) void f(void) { b[0]++; __asm__ volatile(\"\" ::: \"memory\"); }
        int main(void) {
            a[0] = 1;
            f();
            a[0] = 2;
            return 0;
        }";
    each(source, |how, profile| {
        let Histograms { references, cold, full, .. } = all(profile, 64);
        // Unoptimised code stores the value that main will return, on the stack.
        let own = u64::from(how.contains("-O0"));
        assert_eq!((references, cold), (&[1, 3 + own], &[1, 1 + own]), "{how}");
        assert_eq!(full.stores, [bin(0, 1), bin(1, 1)], "{how}");
        assert_eq!(full.writebacks, [bin(1, 1)], "{how}");
    });
}

#[test]
fn copies_and_fills_count_every_line() {
    let source = "
        #include <string.h>
        __attribute__((aligned(64))) char from[10000], to[10000], filled[10000];
        __attribute__((noinline)) void copy(size_t size, int with) {
            memcpy(to, from, size);
            memset(filled, with, size);
        }
        int main(int argc, char **argv) { copy(10000 * (size_t)argc, (int)(size_t)argv & 1); return 0; }";
    each(source, |how, profile| {
        let Histograms { references, cold, .. } = all(profile, 64);
        if how.contains("-O0") {
            // Unoptimised code keeps its variables on the stack: a few more references to a line or three.
            assert!(
                (157..=167).contains(&references[0]) && (314..=324).contains(&references[1]),
                "{how}: {references:?}"
            );
            assert!((471..=474).contains(&(cold[0] + cold[1])), "{how}: {cold:?}");
        } else {
            assert_eq!((references, cold), (&[157, 314], &[157, 314]), "{how}");
            // memcpy in three pieces of a load and a store each, memset in one.
            assert_eq!(profile.processes[0].meta.accesses, 7, "{how}");
        }
    });
}

/// 512 KiB, filled once and then read four times.
#[test]
fn a_loop_over_an_array_misses_what_does_not_fit() {
    let source = "
        __attribute__((aligned(64))) double a[1 << 16];
        volatile double sum;
        int main(void) {
            for (int i = 0; i < 1 << 16; i++) a[i] = i;
            for (int pass = 0; pass < 4; pass++) {
                double s = 0;
                for (int i = 0; i < 1 << 16; i++) s += a[i];
                sum = s;
                __asm__ volatile(\"\" ::: \"memory\");
            }
            return 0;
        }";
    each(source, |how, profile| {
        const LINES: u64 = 8192;
        let histograms = all(profile, 64);
        let cold = histograms.cold[0] + histograms.cold[1];
        // The sum, and at -O0 a line or two of stack: always among the nearest, so they never miss twice.
        let others = cold - LINES;
        assert!(others <= 4, "{how}: {others} other lines");
        let small = counts(histograms, 9, 8); // 256 KiB
        assert!((5 * LINES..=5 * LINES + 8 * others).contains(&small.all_misses()), "{how}: {small:?}");
        assert!((LINES..=LINES + 8 * others).contains(&small.writebacks), "{how}: {small:?}");
        let large = counts(histograms, 10, 16); // 1 MiB
        let want = Counts { misses: histograms.cold, writebacks: 0, ..large };
        assert_eq!(large, want, "{how}");
        assert!((LINES..=LINES + others).contains(&large.resident_dirty), "{how}: {large:?}");
    });
}

#[test]
fn bf_query_answers_as_the_histograms_do() {
    let sandbox = Sandbox::new();
    let source = "
        __attribute__((aligned(64))) static unsigned a[1 << 16];
        int main(void) {
            unsigned x = 1;
            for (int i = 0; i < 300000; i++) { x = x * 1664525 + 1013904223; a[x >> 16] += x; }
            return 0;
        }";
    sandbox.c(source, &["-O2"]);
    let _ = succeed(sandbox.program("a.out").env("BF_PROFILE", "p.bfp"));
    let answer = sandbox.bf(&["query", "p.bfp", "--cache", "L1=32K:8", "--cache", "L2=128K:4"]);
    assert_eq!(answer["schema"], "bf.query/1");
    let profile = sandbox.take_profile();
    let mut above = 600_000;
    for (level, (set_bits, ways)) in answer["levels"].as_array().expect("levels").iter().zip([(6, 8), (9, 4)]) {
        let want = counts(all(&profile, 64), set_bits, ways);
        let figures = ["references", "misses", "load_misses", "store_misses", "cold", "writebacks", "resident_dirty"];
        let answered = figures.map(|name| level[name].as_u64().expect(name));
        let Counts { misses: [loads, stores], cold, writebacks, resident_dirty, .. } = want;
        assert_eq!(answered, [above, loads + stores, loads, stores, cold, writebacks, resident_dirty], "{level}");
        above = loads + stores;
    }
}

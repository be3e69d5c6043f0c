//! What programs record. Each fixture is compiled with every set of flags in its first lines, and each time must record
//! what the file beside it says.

use std::fs;

use crate::toolchain::{Workshop, fixtures};

/// Checks one fixture.
fn check(name: &str) {
    let source = fixtures().join(name);
    let text = fs::read_to_string(&source).unwrap();
    let header = |key: &str| text.lines().find_map(|line| line.trim_start_matches(['/', ';', ' ']).strip_prefix(key));
    if !header("needs: ").is_none_or(runs_here) {
        eprintln!("{name}: this machine cannot run it");
        return;
    }
    let expected = fs::read_to_string(source.with_extension("expected")).unwrap();
    let workshop = Workshop::new();
    for flags in header("flags: ").unwrap().split('|') {
        let flags: Vec<_> = flags.split_whitespace().collect();
        let record = workshop.record(&source, &flags);
        let made: String =
            record.lines().filter(|line| !line.starts_with("module ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(made, expected, "{name} with {flags:?}");
    }
}

/// Whether this machine has an extension of the instruction set.
#[cfg(target_arch = "x86_64")]
fn runs_here(extension: &str) -> bool {
    match extension {
        "avx2" => is_x86_feature_detected!("avx2"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "sse2" => is_x86_feature_detected!("sse2"),
        _ => panic!("an extension that no fixture needed before: {extension}"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn runs_here(_extension: &str) -> bool {
    false
}

/// One test per fixture, so that they run side by side.
macro_rules! fixtures {
    ($($test:ident: $file:literal)*) => { $(
        #[test]
        fn $test() {
            check($file);
        }
    )* };
}

fixtures! {
    program_order: "order.c"
    sizes: "sizes.c"
    assembly: "assembly.c"
    atomics: "atomics.c"
    locks: "locks.c"
    releases: "releases.c"
    transfers: "transfers.c"
    own_memcpy: "own_memcpy.c"
    jumps: "jumps.c"
    exceptions: "exceptions.cpp"
    allocations: "allocations.cpp"
    coroutines: "coroutines.cpp"
    resolver: "resolver.c"
    masked: "masked.ll"
    avx2: "avx2.c"
    avx512: "avx512.c"
    threads: "threads.c"
    callees: "callees.c"
    streams: "streams.c"
    loops_left_in_their_middle: "halves.ll"
    loops_that_end_where_numbers_are_equal: "equal.ll"
    shared_words: "shared.c"
    call_paths: "paths.c"
}

#[test]
fn a_block_longer_than_a_segment_loses_nothing() {
    let workshop = Workshop::new();
    let stores: String = (0..3000).map(|i| format!("a[{i}] = {i};\n")).collect();
    let source = workshop.source(
        "long.c",
        &format!(
            "#include \"recorder.h\"\nstatic volatile int a[3000];\n\
             int main(void) {{ watch(\"a\", a, sizeof a);\n{stores} return 0; }}\n"
        ),
    );
    let expected: String = (0..3000).map(|i| format!("S 4 a+{}\n", 4 * i)).collect();
    for flags in ["-O0", "-O2"] {
        let record = workshop.record(&source, &[flags]);
        assert_eq!(record.split_once('\n').unwrap().1, expected, "{flags}");
    }
}

#[test]
fn a_loop_makes_the_accesses_that_arithmetic_says() {
    let workshop = Workshop::new();
    let source = workshop.source(
        "loop.c",
        "#include \"recorder.h\"\nstatic int a[1003];\n\
         int main(void) { watch(\"a\", a, sizeof a); opaque();\n\
         for (int i = 0; i < 1003; i++) a[i] += i; opaque(); return 0; }\n",
    );
    for flags in [&["-O0"][..], &["-O2"], &["-O3", "-march=native"]] {
        let record = workshop.record(&source, flags);
        let bytes = |kind: &str| -> u64 {
            let sizes = record.lines().filter_map(|line| line.strip_prefix(kind)?.split(' ').next());
            sizes.map(|size| size.parse::<u64>().unwrap()).sum()
        };
        assert_eq!((bytes("L "), bytes("S ")), (4012, 4012), "{flags:?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn assembly_that_puts_back_half_of_a_register_does_no_harm() {
    // As `configure` scripts ask which instructions there are.
    let text = r#"#include <stdio.h>
int main(void) {
  int a, b, c, d;
  __asm__ __volatile__("xchg %%ebx, %1\n cpuid\n xchg %%ebx, %1\n" : "=a"(a), "=r"(b), "=c"(c), "=d"(d) : "a"(0), "2"(0));
  FILE *file = fopen("/dev/null", "w");
  if (!file) return 1;
  fprintf(file, "%x:%x:%x:%x\n", a, b, c, d);
  return fclose(file);
}
"#;
    let workshop = Workshop::new();
    let source = workshop.source("cpuid.c", text);
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        assert!(workshop.record(&source, &[level]).contains("module "), "{level}");
    }
}

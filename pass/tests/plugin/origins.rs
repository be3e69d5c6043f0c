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

/// Accesses to `a` that have no line, each of another element. `work` is on line 10, `inlined` on line 20.
const MOVED: &str = r#"
@a = internal global [16 x i32] zeroinitializer, align 64
@name.a = private constant [2 x i8] c"a\00"
@name.spilled = private constant [8 x i8] c"spilled\00"
declare void @watch(ptr, ptr, i64)
declare i32 @llvm.smax.i32(i32, i32)
define internal void @work(i32 %argument) !dbg !10 {
  %spilled = alloca i32
  call void @watch(ptr @name.spilled, ptr %spilled, i64 4), !dbg !11
  call void @watch(ptr @name.a, ptr @a, i64 64), !dbg !11
  store i32 %argument, ptr %spilled
  %hoisted = load i32, ptr @a
  %later = getelementptr i32, ptr @a, i64 1
  %unused = load volatile i32, ptr %later
  %merged.at = getelementptr i32, ptr @a, i64 2
  %merged = load i32, ptr %merged.at, !dbg !12
  %elsewhere.at = getelementptr i32, ptr @a, i64 3
  %elsewhere = load i32, ptr %elsewhere.at, !dbg !22
  %wide = sext i32 %hoisted to i64
  %narrow = trunc i64 %wide to i32
  br label %loop, !dbg !13
loop:
  %n = phi i32 [ 0, %0 ], [ %next, %latch ]
  %sum = phi i32 [ %narrow, %0 ], [ %more, %latch ]
  %again.at = getelementptr i32, ptr @a, i64 4
  %again = load volatile i32, ptr %again.at
  %one = call i32 @llvm.smax.i32(i32 %sum, i32 %merged), !dbg !21
  %more = add i32 %one, %elsewhere, !dbg !15
  br label %middle, !dbg !15
middle:
  %bare.at = getelementptr i32, ptr @a, i64 7
  %bare = load volatile i32, ptr %bare.at
  br label %latch
latch:
  %next = add i32 %n, 1, !dbg !14
  %done = icmp eq i32 %next, 2, !dbg !14
  br i1 %done, label %end, label %loop, !dbg !14
end:
  %sunk.at = getelementptr i32, ptr @a, i64 5
  store i32 %more, ptr %sunk.at
  %constant.at = getelementptr i32, ptr @a, i64 6, !dbg !16
  store i32 7, ptr %constant.at
  br label %last, !dbg !15
last:
  %last.at = getelementptr i32, ptr @a, i64 8
  %last.value = load volatile i32, ptr %last.at
  ret void
}
define i32 @main() {
  call void @work(i32 3)
  ret i32 0
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "moved.c", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !{null})
!10 = distinct !DISubprogram(name: "work", file: !1, line: 10, type: !3, unit: !0, spFlags: DISPFlagDefinition)
!11 = !DILocation(line: 11, scope: !10)
!12 = !DILocation(line: 0, scope: !10)
!13 = !DILocation(line: 13, scope: !10)
!14 = !DILocation(line: 14, scope: !10)
!15 = !DILocation(line: 15, scope: !10)
!16 = !DILocation(line: 16, scope: !10)
!20 = distinct !DISubprogram(name: "inlined", file: !1, line: 20, type: !3, unit: !0, spFlags: DISPFlagDefinition)
!21 = !DILocation(line: 21, scope: !20, inlinedAt: !30)
!22 = !DILocation(line: 0, scope: !20, inlinedAt: !31)
!30 = distinct !DILocation(line: 30, scope: !10)
!31 = distinct !DILocation(line: 31, scope: !10)
"#;

#[test]
fn what_has_no_line_is_shown_where_it_is_used() {
    let workshop = Workshop::new();
    let record = workshop.record_origins(&workshop.source("moved.ll", MOVED), &["-O0"]);
    let mut accesses: Vec<_> = record.lines().filter(|line| line.contains('+')).collect();
    accesses.dedup();
    let expected = [
        // What unoptimised code does with arguments.
        "S 4 spilled+0 moved.c:work:10",
        // Through casts and a phi, to a place in a function that was inlined.
        "L 4 a+0 moved.c:inlined:21 moved.c:work:30",
        // Nobody uses it: the nearest place, which is the one before.
        "L 4 a+4 moved.c:work:11",
        // Known to be in `work`: what was inlined is the call there.
        "L 4 a+8 moved.c:work:30",
        // Known to be in a call that nothing with a line is in.
        "L 4 a+12 moved.c:inlined:0 moved.c:work:31",
        // Nobody uses it: the nearest place, which is the one behind.
        "L 4 a+16 moved.c:inlined:21 moved.c:work:30 loop:13:1",
        // Nothing in its block has a line: where the loop begins.
        "L 4 a+28 moved.c:work:13 loop:13:1",
    ];
    let (first, rest) = accesses.split_at(expected.len());
    assert_eq!(first, expected, "{record}");
    let expected = [
        // Once more around the loop.
        expected[5],
        expected[6],
        // Where the value comes from, and where only the address does.
        "S 4 a+20 moved.c:work:15",
        "S 4 a+24 moved.c:work:16",
        // There is no loop.
        "L 4 a+32 moved.c:work:0",
    ];
    assert_eq!(rest, expected, "{record}");
}

//! Whose misses they are: figures by function, line and loop of real programs, against what can be counted by hand and
//! against the whole.

use bf_tests::sandbox::{Build, Sandbox, succeed, text, timeless};
use serde_json::Value;
use std::process::Command;

const MULTIPLY: &str = include_str!("../programs/multiply.c");
const N: u64 = 128;
/// 64 lines of 64 bytes.
const SMALL: [&str; 2] = ["--cache", "L1=4K:full"];

/// The number of the line of the program that ends in this comment.
fn line(comment: &str) -> u64 {
    let ends = |line: &str| line.ends_with(&format!("/* {comment} */"));
    1 + MULTIPLY.lines().position(ends).unwrap() as u64
}

/// The multiplication, compiled and run.
fn multiplied(options: &[&str], arguments: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("multiply.c", MULTIPLY);
    sandbox.bf_clang(["multiply.c", "-o", "multiply"].iter().chain(options).copied());
    let _ = succeed(sandbox.program("multiply").args(arguments));
    sandbox
}

const OPTIONS: [&str; 5] = ["-O1", "-g", "-bf-by-func", "-finline-functions", "-fno-slp-vectorize"];

fn items(report: &Value) -> &Vec<Value> {
    report["items"].as_array().unwrap()
}

/// A figure of the row of a line.
fn of_line(report: &Value, at: u64, figure: &str) -> u64 {
    let rows = items(report).iter().filter(|row| row["line"] == at && row["file"].as_str().unwrap().ends_with(".c"));
    rows.map(|row| row[figure].as_u64().unwrap()).sum()
}

#[test]
fn the_lines_of_a_multiplication_miss_as_counted_by_hand() {
    let naive = multiplied(&OPTIONS, &[]);
    let report = naive.bf(&[&["report", "--by", "line"], &SMALL[..]].concat());
    // Between two uses of a line of b lie the 127 other rows of b, and between two uses of one of a or c a column of b.
    let misses = ["of a", "naive b", "naive c"].map(|comment| of_line(&report, line(comment), "L1.misses"));
    assert_eq!(misses, [N * N * N / 8, N * N * N, N * N]);
    assert_eq!(of_line(&report, line("of a"), "load_references"), N * N * N);
    assert_eq!(of_line(&report, line("naive c"), "store_references"), N * N);
    // Each line of c is written back as often as it was brought in, but for the last one, which is still there.
    assert_eq!(of_line(&report, line("naive c"), "L1.writebacks"), N * N - 1);
    assert_eq!(items(&report)[0]["line"], line("naive b"));

    let tiles = N / 8;
    let blocked = multiplied(&OPTIONS, &["blocked"]);
    let report = blocked.bf(&[&["report", "--by", "line"], &SMALL[..]].concat());
    // Three tiles of 8 lines fit; that of c stays while those of a and b pass by.
    let misses = ["blocked a", "blocked b", "blocked c"].map(|comment| of_line(&report, line(comment), "L1.misses"));
    assert_eq!(misses, [tiles.pow(3) * 8, tiles.pow(3) * 8, tiles.pow(2) * 8]);
    assert_eq!(of_line(&report, line("blocked store"), "L1.misses"), 0);
}

#[test]
fn what_the_optimiser_moved_is_shown_where_it_is_used() {
    let sandbox = multiplied(&["-O2", "-g", "-bf-by-func"], &["blocked"]);
    let report = sandbox.bf(&[&["report", "--by", "line"], &SMALL[..]].concat());
    // A tile of b is loaded before the two loops that use it, and each line of a once for all that is multiplied by it.
    let figure = |at, figure| of_line(&report, at, figure);
    let misses = |comment| figure(line(comment), "L1.misses");
    let tiles = N / 8;
    assert_eq!(misses("blocked a") + misses("blocked b"), 2 * tiles.pow(3) * 8, "{report}");
    assert_eq!(misses("blocked c"), tiles.pow(2) * 8);
    assert!(figure(0, "load_references") * 50 <= report["totals"]["load_references"].as_u64().unwrap(), "{report}");
    // No vector crosses lines, so what loads and what is counted as a load is the same.
    for row in items(&report) {
        assert_eq!([&row["load_references"], &row["store_references"]], [&row["loads"], &row["stores"]], "{row}");
    }
}

#[test]
fn functions_and_loops_have_what_their_lines_have() {
    let sandbox = multiplied(&OPTIONS, &[]);
    let report = |by| sandbox.bf(&[&["report", "--by", by], &SMALL[..]].concat());
    let functions = report("function");
    let worst = &items(&functions)[0];
    // What was inlined is part of the function.
    assert_eq!((&worst["name"], &worst["L1.misses"]), (&"naive".into(), &(N.pow(3) / 8 + N.pow(3) + N * N).into()));
    let loops = report("loop");
    let worst = &items(&loops)[0];
    assert_eq!((&worst["name"], &worst["depth"]), (&"naive".into(), &3.into()));
    assert_eq!(worst["L1.misses"], N.pow(3) / 8 + N.pow(3));
}

#[test]
fn annotated_source_shows_lines_and_what_was_inlined() {
    let sandbox = multiplied(&OPTIONS, &[]);
    let annotate = |more: &[&str]| {
        let mut command = sandbox.command(bf_tests::program("bf"));
        let profile = sandbox.profile_files().remove(0);
        text(&succeed(command.arg("annotate").arg(profile).args(SMALL).args(more)).stdout)
    };
    let shown = annotate(&["multiply.c"]);
    let row = |what: &str| shown.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {shown}"));
    assert!(row("/* naive b */").contains(" 2,097,152 "), "{shown}");
    assert!(row("/* of a */").contains(" 262,144 "), "{shown}");
    let call = 1 + MULTIPLY.lines().position(|line| line.contains("element(a[i], k)")).unwrap();
    assert!(row("| element, inlined at").contains(&format!("multiply.c:{call} in naive")), "{shown}");
    assert_eq!(shown, annotate(&[]), "it is the file with most misses");
    assert!(!shown.contains("#include <string.h>") && annotate(&["--whole"]).contains("#include <string.h>"));
    let json = sandbox.bf(&[&["annotate"], &SMALL[..]].concat());
    assert_eq!(json["schema"], "bf.annotate/1");
}

#[test]
fn source_that_is_newer_than_the_run_is_told_about() {
    let sandbox = multiplied(&OPTIONS, &[]);
    let said = |arguments: &[&str]| {
        let mut command = sandbox.command(bf_tests::program("bf"));
        let profile = sandbox.profile_files().remove(0);
        text(&succeed(command.args(arguments).arg(profile).args(SMALL)).stderr)
    };
    let asked = [&["annotate"][..], &["report", "--html", "report.html"]];
    assert!(asked.iter().all(|arguments| !said(arguments).contains("changed after the run began")));
    sandbox.write("multiply.c", format!("// a line more\n{MULTIPLY}"));
    for arguments in asked {
        let said = said(arguments);
        assert!(said.contains("changed after the run began") && said.contains("multiply.c"), "{said}");
    }
    let page = std::fs::read_to_string(sandbox.file("report.html")).unwrap();
    assert!(page.contains("source that was changed after the run began"));
}

/// A file that is included by one path and compiled by another is one file.
#[test]
fn a_file_has_one_name_however_its_path_is_written() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "sum.c",
        "int sum(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i * 16 & 1023]; return s; }\n",
    );
    sandbox.write(
        "both.c",
        "#define sum twice\n#include \"sum.c\"\n#undef sum\nint sum(int *, int);\nstatic int a[1024];
        int main() { return (sum(a, 1000) + twice(a, 2000)) & 1; }\n",
    );
    sandbox.bf_clang(["-O1", "-g", "-bf-by-func", "-c", sandbox.file("sum.c").to_str().unwrap()]);
    sandbox.bf_clang(["-O1", "-g", "-bf-by-func", "-c", "./both.c"]);
    sandbox.bf_clang(["sum.o", "both.o", "-o", "both"]);
    let _ = succeed(&mut sandbox.program("both"));
    let report = sandbox.bf(&[&["report", "--by", "line"], &SMALL[..]].concat());
    let loads: Vec<_> = items(&report).iter().filter(|row| row["loads"].as_u64() > Some(500)).collect();
    let files: std::collections::BTreeSet<_> = loads.iter().map(|row| row["file"].to_string()).collect();
    assert_eq!(
        (loads.iter().map(|row| row["loads"].as_u64().unwrap()).sum::<u64>(), files.len()),
        (3000, 1),
        "{report}"
    );
}

/// An export of the naive multiplication.
fn exported(sandbox: &Sandbox, format: &str) -> std::path::PathBuf {
    let file = sandbox.file(format);
    let mut command = sandbox.command(bf_tests::program("bf"));
    let _ = succeed(command.args(["export", "--to", format, "-o", format]).args(SMALL));
    file
}

#[test]
fn callgrind_annotate_shows_the_same_costs() {
    let sandbox = multiplied(&OPTIONS, &[]);
    let file = exported(&sandbox, "callgrind");
    let mut annotate = sandbox.command("callgrind_annotate");
    annotate.args(["--threshold=100", "--show=L1_misses", "--sort=L1_misses", "--auto=yes"]).arg(file);
    let shown = text(&succeed(&mut annotate).stdout);
    let row = |what: &str| shown.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {shown}"));
    assert!(row("multiply.c:naive").trim_start().starts_with("2,375,680 "), "{shown}");
    assert!(row("/* naive b */").trim_start().starts_with("2,097,152 "), "{shown}");
    let report = sandbox.bf(&[&["report", "--by", "function"], &SMALL[..]].concat());
    let total = report["totals"]["L1.misses"].as_u64().unwrap();
    let digits: String =
        row("PROGRAM TOTALS").split(" (").next().unwrap().chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits, total.to_string());
}

#[test]
fn sqlite_answers_the_documented_query() {
    let sandbox = multiplied(&OPTIONS, &[]);
    let file = exported(&sandbox, "sql");
    let statements = std::fs::File::open(file).unwrap();
    let _ = succeed(sandbox.command("sqlite3").arg("parts.db").stdin(statements));
    let query = "SELECT file, line, sum(\"L1.misses\") FROM parts GROUP BY file, line ORDER BY 3 DESC LIMIT 1";
    let answer = text(&succeed(sandbox.command("sqlite3").args(["parts.db", query])).stdout);
    assert!(answer.trim_end().ends_with(&format!("multiply.c|{}|{}", line("naive b"), N.pow(3))), "{answer}");
}

#[test]
fn exports_hold_the_same_figures() {
    let sandbox = multiplied(&OPTIONS, &[]);
    let report = sandbox.bf(&[&["report", "--by", "line"], &SMALL[..]].concat());
    let read = |format| std::fs::read_to_string(exported(&sandbox, format)).unwrap();
    let json: Value = serde_json::from_str(&read("json")).unwrap();
    assert_eq!((&json["schema"], &json["totals"]), (&"bf.export/1".into(), &report["totals"]));
    let csv = read("csv");
    let header: Vec<_> = csv.lines().next().unwrap().split(',').collect();
    let misses = header.iter().position(|name| *name == "L1.misses").unwrap();
    // No name in this program holds a comma.
    let sum: u64 = csv.lines().skip(1).map(|row| row.split(',').nth(misses).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(json["totals"]["L1.misses"], sum);
    let hatchet: Value = serde_json::from_str(&read("hatchet")).unwrap();
    let roots = hatchet.as_array().unwrap().iter();
    let inclusive: u64 = roots.map(|root| root["metrics"]["L1.misses (inc)"].as_u64().unwrap()).sum();
    assert_eq!(inclusive, sum);
}

/// Every figure of every breakdown adds up to the answer without one.
fn check_sums(sandbox: &Sandbox, hierarchy: &[&str], by: &[&str]) {
    let query = sandbox.bf(&[&["query"], hierarchy].concat());
    for by in by {
        let report = sandbox.bf(&[&["report", "--by", by], hierarchy].concat());
        let totals = report["totals"].as_object().unwrap();
        for (name, total) in totals {
            let sum: u64 = items(&report).iter().map(|row| row[name].as_u64().unwrap()).sum();
            assert_eq!(sum, total.as_u64().unwrap(), "{by}: {name} of {hierarchy:?}");
        }
        assert_eq!(totals["load_references"], query["load_references"]);
        for level in query["levels"].as_array().unwrap() {
            for figure in ["misses", "writebacks"] {
                let total = totals.get(&format!("{}.{figure}", level["name"].as_str().unwrap()));
                assert_eq!(total.unwrap_or(&Value::Null), &level[figure]);
            }
        }
    }
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <bf.h>
static long shared[4096], sums[4];
static void *work(void *argument)
{
    long number = (long)argument, *own = malloc(100000 * sizeof *own);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 100000; i++)
            own[i] = i + round;
    unsigned long seed = number;
    for (int i = 0; i < 50000; i++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        sums[number] += shared[seed >> 52] + own[(seed >> 20) % 100000];
    }
    memcpy(own, shared, sizeof shared);
    free(own);
    return NULL;
}
int main(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    bf_tag("main");
    work((void *)3);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"#;

#[test]
fn parts_add_up_to_the_whole_whatever_the_caches() {
    let recorded = |options: &[&str]| {
        let sandbox = Sandbox::new();
        sandbox.c(THREADS, &[&["-O2", "-g", "-pthread"], options].concat());
        let _ = succeed(&mut sandbox.program("a.out"));
        sandbox
    };
    let (by_place, by_object) = (recorded(&["-bf-by-func"]), recorded(&["-bf-data-structs"]));
    let by_block = recorded(&["-bf-by-func", "-bf-every-bb"]);
    for hierarchy in [
        &["--cache", "L1=32K:8", "--cache", "L2=1M:16", "--cache", "L3=4M:16:shared"][..],
        &["--cache", "A=96K:3", "--cache", "B=1280K:20:hashed", "--cache", "C=3M:12:shared:exclusive"],
        &["--cache", "A=72000:full", "--cache", "B=16K:1"],
        &["--cache", "A=8K:2:private", "--tag", "main"],
    ] {
        check_sums(&by_place, hierarchy, &["function", "line", "own-line", "loop"]);
        check_sums(&by_object, hierarchy, &["function", "line", "own-line", "loop", "object"]);
        check_sums(&by_block, hierarchy, &["function", "line", "loop", "block"]);
    }
}

#[test]
fn what_the_standard_library_does_counts_where_it_was_inlined() {
    let program = "#include <vector>\n__attribute__((noinline)) static long sum(const std::vector<long> &all) {\nlong sum = 0;\n\
                   for (std::size_t i = 0; i < all.size(); i += 8)\nsum += all[i];\nreturn sum;\n}\n\
                   int main() {\nstd::vector<long> all(80000, 3);\nreturn sum(all) != 30000;\n}\n";
    let sandbox = Sandbox::new();
    sandbox.write("vector.cpp", program);
    let mut compiler = sandbox.command(bf_tests::program("bf-clang++"));
    let _ = succeed(compiler.args(["vector.cpp", "-O2", "-fno-vectorize", "-g", "-bf-by-func", "-o", "vector"]));
    let _ = succeed(&mut sandbox.program("vector"));
    let report = sandbox.bf(&[&["report", "--by", "own-line"], &SMALL[..]].concat());
    assert_eq!(report["by"], "own-line");
    let own = |line: u64| {
        let rows = items(&report).iter().filter(|row| row["line"] == line);
        rows.map(|row| row["L1.misses"].as_u64().unwrap()).sum::<u64>()
    };
    // What fills it is written in the library, and so is what looks at an element.
    assert!(own(5) >= 10_000 && own(9) >= 10_000, "{report}");
    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    let plain = succeed(command.args(["report", "--by", "line"]).arg(profile).args(SMALL));
    assert!(text(&plain.stderr).contains("--by own-line"), "{plain:?}");
}

#[test]
fn blocks_miss_as_counted_by_hand() {
    let elsewhere = "void touch(volatile char *at) { *at = 1; }";
    let source = r#"
#include <stdlib.h>
static volatile char a[128 * 64] __attribute__((aligned(64))), b[128 * 64] __attribute__((aligned(64)));
void touch(volatile char *at);
__attribute__((noinline)) static void work(int big, int small)
{
    for (int round = 0; round < 2; round++)
        for (int n = 0; n < big; n++)
            a[64 * n]++; /* too many */
    for (int round = 0; round < 10; round++)
        for (int n = 0; n < small; n++)
            (void)b[64 * n]; /* few */
}
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        work(128, 16);
    touch(b + 64 * 127);
    return 0;
}
"#;
    let report = |options: &[&str]| {
        let sandbox = Sandbox::new();
        sandbox.write("a.c", source);
        sandbox.write("b.c", elsewhere);
        sandbox.bf_clang(["-O1", "-g", "-bf-by-func", "-c", "b.c", "-o", "b.o"]);
        let flags = ["-O1", "-g", "-fno-unroll-loops", "-bf-by-func", "-bf-every-bb", "a.c", "b.o", "-o", "a.out"];
        sandbox.bf_clang(flags.iter().chain(options).copied());
        let _ = succeed(sandbox.program("a.out").arg("work"));
        check_sums(&sandbox, &SMALL, &["block"]);
        sandbox.bf(&[&["report", "--by", "block", "--sort", "L1.misses"], &SMALL[..]].concat())
    };
    let figures = |row: &Value| {
        let names = ["blocks", "load_references", "store_references", "L1.misses", "L1.store_misses", "L1.writebacks"];
        names.map(|name| row[name].as_u64().unwrap())
    };
    let of = |report: &Value, block: Option<u64>| -> Vec<_> {
        let mine = items(report).iter().filter(|row| row["block"].as_u64() == block && row["name"] != "main");
        mine.filter(|row| figures(row)[1..] != [0; 5]).map(|row| (row["name"].clone(), figures(row))).collect()
    };
    let line = |comment: &str| 1 + source.lines().position(|line| line.contains(comment)).unwrap() as u64;
    let each = report(&[]);
    let rows = items(&each);
    // 128 lines go through a cache of 64 twice: none is there when it is needed again, and each was stored.
    // At the end 16 lines of b, and another one, have taken the place of 17 of the last 64.
    assert_eq!(figures(&rows[0]), [256, 256, 256, 256, 0, 256 - 64 + 17]);
    assert_eq!((&rows[0]["name"], &rows[0]["line"]), (&"work".into(), &line("too many").into()));
    assert_eq!(figures(&rows[1]), [160, 160, 0, 16, 0, 0]);
    assert_eq!((&rows[1]["name"], &rows[1]["line"]), (&"work".into(), &line("few").into()));
    assert!(rows[0]["block"].as_u64() < rows[1]["block"].as_u64());
    // What was compiled without blocks is in a row of its function.
    assert_eq!(of(&each, None), [("touch".into(), [1, 0, 1, 1, 1, 0])]);
    // All blocks together, which are run once for each line, round and way in between.
    let merged = report(&["-bf-merge-bb=1000"]);
    let [(name, work)] = &of(&merged, Some(0))[..] else { panic!("{merged}") };
    assert_eq!((name, &work[1..]), (&"work".into(), &[416, 256, 272, 0, 209][..]));
    assert_eq!(each["totals"], merged["totals"]);
}

/// What flang makes functions of has neither a line nor the name of a main program.
#[test]
fn parallel_regions_of_fortran_are_told_apart() {
    let program = "program heat
  real(8) :: a(20000), b(20000)
  integer :: i
  a = 1
  !$omp parallel do
  do i = 2, 19999
    b(i) = (a(i - 1) + a(i + 1)) / 2 ! line 7
  end do
  !$omp parallel do
  do i = 2, 19999
    a(i) = b(i) ! line 11
  end do
  if (a(77) > 1) stop 1
end program
";
    let sandbox = Sandbox::new();
    sandbox.write("heat.f90", program);
    let mut flang = sandbox.command(bf_tests::program("bf-flang"));
    let _ = succeed(flang.args(["-fopenmp", "-O1", "-g", "heat.f90", "-o", "heat"]));
    let _ = succeed(sandbox.program("heat").envs([("BF_BY_PLACE", "1"), ("OMP_NUM_THREADS", "2")]));
    let report = sandbox.bf(&[&["report", "--by", "function"], &SMALL[..]].concat());
    let is_region = |row: &&Value| row["name"].as_str().unwrap().starts_with("HEAT..omp_par");
    let regions: Vec<_> = items(&report).iter().filter(is_region).collect();
    assert_eq!(regions.len(), 2, "{report}");
    for row in &regions {
        // Of what each thread has of its own, too.
        assert!((19_998..21_000).contains(&row["store_references"].as_u64().unwrap()), "{row}");
        assert_eq!(row["stores"], row["store_references"], "{row}");
    }
    let mut lines: Vec<_> = regions.iter().map(|row| row["line"].as_u64().unwrap()).collect();
    lines.sort_unstable();
    assert!((5..=7).contains(&lines[0]) && (9..=11).contains(&lines[1]), "{lines:?}");
}

/// A program with more lines than there are figures for, of which the last to run is all that counts.
#[test]
fn hot_code_has_its_line_however_much_ran_before() {
    const COLD: u64 = 6000;
    let sandbox = Sandbox::new();
    let mut source = "static volatile char data[1 << 20];\nint main(void) {\n  volatile char *p = data;\n".to_owned();
    (0..COLD).for_each(|_| source.push_str("  *p;\n"));
    source.push_str("  for (int i = 0; i < 640000; i++)\n    if (data[i * 64 % (1 << 20)])\n      return 1;\n}\n");
    sandbox.write("late.c", &source);
    sandbox.bf_clang(["late.c", "-o", "late", "-O1", "-g", "-bf-by-func"]);
    let _ = succeed(&mut sandbox.program("late"));
    let report = sandbox.bf(&[&["report", "--by", "line"], &SMALL[..]].concat());
    // The lines that run first have figures of their own, and what runs 256 times after that. All but the first iteration miss.
    let (hot, first, before) = (COLD + 5, 2048, 256);
    assert_eq!(of_line(&report, hot, "L1.misses"), 640_000 - before);
    let shared = &items(&report)[1];
    assert_eq!((&shared["merged"], &shared["L1.misses"]), (&true.into(), &(before - 1).into()));
    assert_eq!(shared["load_references"], COLD - first + before);
    assert_eq!(of_line(&report, 4, "load_references"), 1);
    assert_eq!(report["totals"]["load_references"], COLD + 640_000);
}

#[test]
fn loops_recorded_at_once_have_the_same_parts() {
    let profile = |options: &[&str]| {
        let sandbox = Sandbox::new();
        sandbox.write("loops.c", include_str!("../programs/loops.c"));
        let mut cc = sandbox.command(Build::Bf.cc());
        sandbox.compile(&mut cc, ["loops.c", "-o", "loops", "-bf-by-func"].iter().chain(options).copied());
        let _ = succeed(Command::new("setarch").args(["-R", "./loops"]).current_dir(sandbox.path()).env_clear());
        let mut profile = timeless(sandbox.take_profile());
        // Places are numbered in the order in which they are met.
        let process = &mut profile.processes[0];
        let lines: Vec<_> =
            process.places.items.iter().map(|item| item.site.map(|site| process.places.sites[site as usize])).collect();
        let mut figures: Vec<_> = process.items[0]
            .stacks
            .iter()
            .map(|stack| {
                let site = lines[stack.item as usize]
                    .map(|site| (site.line, site.column, process.places.string(site.file).ends_with("loops.c")));
                (site, stack.histograms.references, stack.histograms.cold, format!("{:?}", stack.histograms.sets))
            })
            .collect();
        figures.sort();
        figures
    };
    for options in [&["-O1", "-g"][..], &["-O3", "-g", "-march=native"]] {
        let at_once = profile(options);
        assert!(at_once.len() > 20);
        assert_eq!(at_once, profile(&[options, &["-bf-no-streams"]].concat()), "{options:?}");
    }
}

#[test]
fn without_debug_information_there_are_functions() {
    let sandbox = multiplied(&["-O1", "-bf-by-func"], &[]);
    let report = sandbox.bf(&[&["report", "--by", "function"], &SMALL[..]].concat());
    assert_eq!(items(&report)[0]["name"], "naive");
    assert_eq!(items(&report)[0]["L1.misses"], N.pow(3) / 8 + N.pow(3) + N * N);
}

#[test]
fn it_must_be_asked_for_and_can_be_at_run_time() {
    let sandbox = Sandbox::new();
    sandbox.write("multiply.c", MULTIPLY);
    sandbox.bf_clang(["multiply.c", "-o", "multiply", "-O1", "-g"]);
    let _ = succeed(&mut sandbox.program("multiply"));
    // What was counted is there.
    let output = succeed(sandbox.command(bf_tests::program("bf")).args(["report", "--by", "line"]));
    let message = text(&output.stderr);
    assert!(message.contains("-bf-by-func") && message.contains("BF_BY_PLACE=1"), "{message}");
    assert!(sandbox.take_profile().processes[0].items.is_empty());
    let _ = succeed(sandbox.program("multiply").env("BF_BY_PLACE", "1"));
    let report =
        sandbox.bf(&[&["report", "--by", "line", "--top", "2", "--sort", "L1.writebacks"], &SMALL[..]].concat());
    assert_eq!((items(&report).len(), &items(&report)[0]["line"]), (2, &line("naive c").into()));
}

/// Libraries call it as they begin, before any module of the program could say what is to be recorded.
#[test]
fn an_allocator_of_the_programs_own_keeps_the_options() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "pool.c",
        "#include <stddef.h>
        #include <string.h>
        static _Alignas(16) char pool[1 << 24];
        static size_t used;
        void *malloc(size_t size) {
            size_t at = used, all = (size + 31) & ~(size_t)15;
            if (all > sizeof pool - at)
                return NULL;
            used += all;
            *(size_t *)(pool + at) = size;
            return pool + at + 16;
        }
        void free(void *block) { (void)block; }
        void *calloc(size_t count, size_t size) { return malloc(count * size); }
        void *realloc(void *block, size_t size) {
            void *other = malloc(size);
            if (block && other)
                memcpy(other, block, size);
            return other;
        }",
    );
    sandbox.write(
        "sum.cpp",
        "#include <cstdio>
        #include <vector>
        int main() {
            std::vector<long> numbers(1000, 1);
            volatile long sum = 0;
            for (long number : numbers)
                sum = sum + number;
            std::printf(\"%ld\\n\", sum);
        }",
    );
    sandbox.bf_clang(["-O2", "-g", "-bf-by-func", "-c", "pool.c"]);
    let mut compiler = sandbox.command(Build::Bf.cxx());
    sandbox.compile(&mut compiler, ["-O2", "-g", "-bf-by-func", "sum.cpp", "pool.o", "-o", "sum"]);
    let output = succeed(&mut sandbox.program("sum"));
    assert_eq!(text(&output.stdout), "1000\n");
    let report = sandbox.bf(&["report", "--by", "function", "--cache", "L1=32K:8"]);
    let main = items(&report).iter().find(|item| item["name"] == "main").unwrap();
    assert!(main["load_references"].as_u64().unwrap() >= 1000 && main["loads"].as_u64().unwrap() >= 500, "{main}");
    assert!(!report.to_string().contains("too late"), "{report}");
}

//! Whose misses they are by object in memory: variables, blocks by where they were allocated, and stacks, against what can be
//! counted by hand.

use bf_tests::sandbox::{Build, Sandbox, succeed, text};
use serde_json::Value;

const OBJECTS: &str = include_str!("../programs/objects.c");
const LINES: u64 = 1024;
/// 64 lines of 64 bytes.
const SMALL: [&str; 2] = ["--cache", "L1=4K:full"];

fn line(program: &str, comment: &str) -> u64 {
    1 + program.lines().position(|line| line.contains(&format!("/* {comment} */"))).unwrap() as u64
}

/// A program, compiled to keep figures by object and run.
fn recorded(name: &str, program: &str, options: &[&str]) -> Sandbox {
    recorded_of(&[(name, program)], options)
}

/// The same of several files.
fn recorded_of(files: &[(&str, &str)], options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    files.iter().for_each(|(name, text)| sandbox.write(name, text));
    let names = || files.iter().map(|&(name, _)| name);
    let is_cxx = names().any(|name| name.ends_with(".cpp"));
    let mut compiler = sandbox.command(if is_cxx { Build::Bf.cxx() } else { Build::Bf.cc() });
    let options = ["-g", "-bf-data-structs", "-o", "program"].iter().chain(options).copied();
    sandbox.compile(&mut compiler, names().chain(options));
    let _ = succeed(&mut sandbox.program("program"));
    sandbox
}

fn by_object(sandbox: &Sandbox) -> Vec<Value> {
    let report = sandbox.bf(&[&["report", "--by", "object"], &SMALL[..]].concat());
    report["items"].as_array().unwrap().clone()
}

fn figures(row: &Value, names: [&str; 4]) -> [u64; 4] {
    names.map(|name| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}")))
}

#[test]
fn passes_miss_in_the_blocks_that_they_pass_over() {
    let sandbox = recorded("objects.c", OBJECTS, &["-O1"]);
    let rows = by_object(&sandbox);
    let allocated = |function: &str, comment: &str| {
        let name = format!("{function} (objects.c:{})", line(OBJECTS, comment));
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    let names = ["L1.misses", "blocks", "bytes", "peak_bytes"];
    let whole = 64 * LINES;
    assert_eq!(figures(allocated("main", "first"), names), [2 * LINES, 1, whole, whole]);
    assert_eq!(figures(allocated("made", "second"), names), [2 * LINES, 1, whole, whole]);
    assert_eq!(figures(allocated("main", "grown"), names)[1..], [1, whole, whole]);
    assert_eq!(figures(allocated("main", "thrice"), names)[1..], [3, 3000, 1000]);
    let [misses, loads, stores, _] =
        figures(allocated("main", "grown"), ["L1.misses", "load_references", "store_references", "blocks"]);
    // The block may begin on any byte, and its first line may be that of the block before it.
    assert!((LINES - 1..=LINES + 1).contains(&misses), "{misses}");
    assert_eq!((loads, stores), (LINES, LINES));
    let table = rows.iter().find(|row| row["name"] == "table").unwrap();
    assert_eq!(
        (&table["kind"], &table["L1.misses"], &table["bytes"]),
        (&"global".into(), &LINES.into(), &whole.into())
    );
    let stack = rows.iter().find(|row| row["name"] == "stack of thread 0").unwrap();
    assert!(stack["store_references"].as_u64().unwrap() >= 100, "{stack}");

    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    let shown = text(&succeed(command.args(["report", "--by", "object"]).arg(profile).args(SMALL)).stdout);
    let site = format!("blocks from main (objects.c:{})", line(OBJECTS, "thrice"));
    assert!(shown.contains(&format!("3 {site}")), "{shown}");
    let mut command = sandbox.command(bf_tests::program("bf"));
    let shown = text(&succeed(command.arg("annotate").arg(sandbox.profile_files().remove(0)).args(SMALL)).stdout);
    assert!(shown.lines().any(|line| line.ends_with(&format!("| memory: {site}"))), "{shown}");
    assert!(shown.lines().any(|line| line.ends_with("| memory: table")), "{shown}");

    // What was executed is known by line and not by object.
    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    let shown = command.arg("annotate").arg(profile).args(SMALL).args(["--show", "loads"]);
    let shown = text(&succeed(shown).stdout);
    assert!(shown.lines().any(|line| line.contains(" -         | memory: table")), "{shown}");
    let annotated = sandbox.bf(&[&["annotate"], &SMALL[..]].concat());
    let lines = annotated["lines"].as_array().unwrap();
    let objects = || lines.iter().flat_map(|line| line["objects"].as_array().into_iter().flatten());
    assert!(lines.iter().any(|line| line["loads"].as_u64() > Some(0)), "{annotated}");
    assert!(objects().count() > 0 && objects().all(|object| object.get("loads").is_none()), "{annotated}");
    assert!(objects().all(|object| object["L1.misses"].is_u64()), "{annotated}");
}

#[test]
fn the_guilty_array_is_named() {
    let multiply = include_str!("../programs/multiply.c");
    let sandbox = recorded("multiply.c", multiply, &["-O1", "-finline-functions", "-fno-slp-vectorize"]);
    let rows = by_object(&sandbox);
    let misses: Vec<_> =
        rows.iter().take(3).map(|row| (row["name"].as_str().unwrap(), row["L1.misses"].as_u64().unwrap())).collect();
    let n = 128;
    assert_eq!(misses, [("b", n * n * n), ("a", n * n * n / 8), ("c", n * n + 1)], "main looks at one element of c");
    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    let shown = text(&succeed(command.arg("annotate").arg(profile).args(SMALL)).stdout);
    let mut lines = shown.lines().skip_while(|line| !line.contains("/* naive b */"));
    assert!(lines.next().unwrap().contains(" 2,097,152 "), "{shown}");
    let below = lines.next().unwrap();
    assert!(below.contains(" 2,097,152 ") && below.ends_with("| memory: b"), "{shown}");
}

#[test]
fn what_a_library_allocates_belongs_to_who_asked_for_it() {
    let program = "#include <vector>\n#include <memory>\nstatic long *volatile kept;\n\
                   __attribute__((noinline)) static long sum(const std::vector<long> &all) {\n\
                   long sum = 0;\nfor (long one : all) sum += one;\nreturn sum;\n}\n\
                   int main() {\nstd::vector<long> all(100000, 3); /* vector */\n\
                   auto other = std::make_unique<long[]>(50000); /* array */\nother[7] = 1;\nkept = other.get();\n\
                   return sum(all) == other[7];\n}\n";
    let rows = by_object(&recorded("library.cpp", program, &["-O2"]));
    for (comment, bytes) in [("vector", 800_000), ("array", 400_000)] {
        let name = format!("main (library.cpp:{})", line(program, comment));
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
        assert_eq!((&row["kind"], &row["bytes"]), (&"heap".into(), &bytes.into()));
        assert_eq!(row["line"], line(program, comment));
    }
}

/// As a profile has them: where blocks were allocated, and how many.
fn allocated(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let blocks = by_object(sandbox).into_iter().filter(|row| row["kind"] == "heap");
    let mut blocks: Vec<_> =
        blocks.map(|row| (row["name"].as_str().unwrap().to_owned(), row["blocks"].as_u64().unwrap())).collect();
    blocks.sort_unstable();
    blocks
}

/// Those of these lines, each of a function.
fn at_lines(file: &str, program: &str, expected: &[(&str, &str, u64)]) -> Vec<(String, u64)> {
    let at = |&(function, comment, blocks): &(&str, &str, u64)| {
        (format!("{function} ({file}:{})", line(program, comment)), blocks)
    };
    let mut all: Vec<_> = expected.iter().map(at).collect();
    all.sort_unstable();
    all
}

#[test]
fn what_a_function_allocates_as_it_is_told_belongs_to_its_caller() {
    let program = "#include <stdlib.h>\n\
                   void *pool_alloc(long, size_t), *fetch(size_t);\n\
                   static volatile size_t three = 3;\nstatic void *volatile kept;\n\
                   typedef struct node { struct node *next; } node;\n\
                   static void *get(size_t n) {\nvoid *p = malloc(n);\nif (!p) abort();\nreturn p;\n}\n\
                   static void *get_more(size_t n, size_t m) { return get(n * m + 16); }\n\
                   static node *push(node *last) {\nnode *new = get(sizeof *new); /* node */\nnew->next = last;\nreturn kept = new;\n}\n\
                   static void *(*volatile hook)(size_t) = get;\n\
                   static void *hook_alloc(size_t n) { return hook(n); }\n\
                   static char *line(void) { return malloc(80); /* line */ }\n\
                   int main(void) {\nnode *last = NULL;\nfor (int i = 0; i < 5; i++) last = push(last);\n\
                   char *a = get(100), *b = get(200); /* two */\n\
                   char *c = get_more(three, 4); /* more */\n\
                   char *d = pool_alloc(1, 500); /* pool */\n\
                   char *e = line(), *f = fetch(70);\n\
                   char *g = hook_alloc(30 * three); /* hook */\n\
                   char *all[] = {a, b, c, d, e, f, g};\nfor (int i = 0; i < 7; i++) kept = all[i], *all[i] = 1;\n\
                   return last->next == NULL;\n}\n";
    let pool = "#include <stdlib.h>\nvoid *pool_alloc(long pool, size_t size) {\nreturn pool ? malloc(size) : NULL;\n}\n\
                static void *take(size_t size) { return malloc(size); }\n\
                void *fetch(size_t size) { return take(size); }\n";
    let expected = [
        ("push", "node", 5),
        ("main", "two", 2),
        ("main", "more", 1),
        ("main", "pool", 1),
        ("main", "hook", 1),
        ("line", "line", 1),
    ];
    for options in [["-O0", "-fno-inline"], ["-O1", "-fno-inline"], ["-O2", "-flto=auto"], ["-O3", "-finline"]] {
        let sandbox = recorded_of(&[("get.c", program), ("pool.c", pool)], &options);
        let mut expected = at_lines("get.c", program, &expected);
        expected.insert(0, ("fetch (pool.c:6)".to_owned(), 1));
        assert_eq!(allocated(&sandbox), expected, "{options:?}");
    }
}

#[test]
fn what_a_library_allocates_out_of_line_belongs_to_who_asked_for_it() {
    let program = "#include <cstdio>\n#include <map>\n#include <stdexcept>\n#include <vector>\n\
                   #define OWN __attribute__((noinline))\n\
                   OWN static std::vector<long> grown() {\nstd::vector<long> all;\n\
                   for (long i = 0; i < 8; i++) all.push_back(i); /* grown */\nreturn all;\n}\n\
                   static std::map<long, long> all;\n\
                   OWN static void fill() {\n\
                   for (long i = 0; i < 30; i++) all[i % 10] += i; /* filled */\n}\n\
                   int main() {\nlong sum = 0;\n\
                   try {\nfill();\nauto some = grown();\nsome.reserve(100); /* reserved */\n\
                   sum = some[7] + all.at(3) + all.at(11);\n} catch (const std::out_of_range &) {\nsum = 1;\n}\n\
                   std::vector<long> copy(all.size(), sum); /* copy */\nreturn copy[9] != 1;\n}\n";
    let expected = [("grown()", "grown", 4), ("fill()", "filled", 10), ("main", "reserved", 1), ("main", "copy", 1)];
    for optimised in ["-O0", "-O2"] {
        let found = allocated(&recorded("grown.cpp", program, &[optimised]));
        assert_eq!(found, at_lines("grown.cpp", program, &expected), "{optimised}");
    }
}

#[test]
fn what_is_called_back_allocates_for_itself() {
    let library = "#include <stdlib.h>\n\
                   void *alloc_with(size_t n, void (*then)(void)) {\nvoid *p = malloc(n);\nthen();\nreturn p;\n}\n\
                   long *table(long n) {\nreturn calloc(n, sizeof(long)); /* table */\n}\n\
                   static void *get(void *pool, unsigned n) { return pool ? NULL : malloc(n); }\n\
                   void *(*getter)(void *, unsigned) = get;\n";
    let program = "#include <stdlib.h>\nvoid *alloc_with(size_t, void (*)(void));\nlong *table(long);\n\
                   extern void *(*getter)(void *, unsigned);\n\
                   static void inner(void) { table(30)[7] = 1; }\n\
                   int main(void) {\nlong *volatile own = alloc_with(100, inner); /* own */\n\
                   long *volatile a = getter(NULL, 200); /* a */\nlong *volatile b = getter(NULL, 300); /* b */\n\
                   return (int)(*own = *a = *b = 0);\n}\n";
    let mut expected = at_lines("main.c", program, &[("main", "own", 1), ("main", "a", 1), ("main", "b", 1)]);
    expected.extend(at_lines("library.c", library, &[("table", "table", 1)]));
    for optimised in ["-O0", "-O2"] {
        let sandbox = recorded_of(&[("main.c", program), ("library.c", library)], &[optimised]);
        assert_eq!(allocated(&sandbox), expected, "{optimised}");
    }
}

#[test]
fn a_block_of_the_programs_own_operator_new_is_one() {
    let program = "#include <cstdlib>\n#include <map>\n#include <new>\n\
                   void *operator new(std::size_t n) {\nif (void *p = std::malloc(n)) return p;\nthrow std::bad_alloc();\n}\n\
                   void operator delete(void *p) noexcept { std::free(p); }\n\
                   void operator delete(void *p, std::size_t) noexcept { std::free(p); }\n\
                   int main() {\nstd::map<int, int> all;\nfor (int i = 0; i < 50; i++) all[i] = i; /* map */\n\
                   int *volatile one = new int(3); /* new */\nint sum = *one + all[7];\ndelete one;\nreturn sum != 10;\n}\n";
    for optimised in ["-O0", "-O2"] {
        let found = allocated(&recorded("new.cpp", program, &[optimised]));
        assert_eq!(found, at_lines("new.cpp", program, &[("main", "map", 50), ("main", "new", 1)]), "{optimised}");
    }
}

#[test]
fn the_librarys_allocator_may_be_called_by_a_pointer() {
    let program = "#include <stdlib.h>\n\
                   static struct {\nvoid *(*get)(size_t);\nvoid *(*zeroed)(size_t, size_t);\nvoid *(*grow)(void *, size_t);\n\
                   void (*give)(void *);\n} volatile memory = {malloc, calloc, realloc, free}, other = {malloc};\n\
                   static void *none(size_t n) { return n ? (void *)&memory : NULL; }\n\
                   __attribute__((noinline)) static void *my_alloc(size_t n) { return memory.get(n); }\n\
                   int main(void) {\nfor (int i = 0; i < 3; i++) {\nvolatile char *p = memory.get(1000); /* get */\n\
                   *p = 1;\nmemory.give((void *)p);\n}\n\
                   volatile char *q = memory.zeroed(20, 30); /* zeroed */\n*q = 1;\n\
                   q = memory.grow((void *)q, 5000); /* grown */\n*q = 1;\nother.get = none;\n\
                   volatile char *r = my_alloc(70), *s = other.get(8); /* own */\nreturn *r = *s = 0;\n}\n";
    for optimised in ["-O0", "-O2"] {
        let sandbox = recorded("memory.c", program, &[optimised]);
        let expected = [("main", "get", 3), ("main", "zeroed", 1), ("main", "grown", 1), ("main", "own", 1)];
        assert_eq!(allocated(&sandbox), at_lines("memory.c", program, &expected), "{optimised}");
        let rows = by_object(&sandbox);
        let name = format!("main (memory.c:{})", line(program, "get"));
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        assert_eq!(figures(row, ["blocks", "bytes", "peak_bytes", "store_references"]), [3, 3000, 1000, 3]);
    }
}

#[test]
fn what_a_library_keeps_where_a_block_was_is_not_the_block_s() {
    let program = "#include <string>\n#include <cstdlib>\nstatic long sum;\n\
                   __attribute__((noinline)) static void table() {\n\
                   volatile long *p = (long *)malloc(64000); /* table */\nfor (int i = 0; i < 8000; i++) p[i] = i;\nfree((void *)p);\n}\n\
                   __attribute__((noinline)) static void text() {\nstd::string text;\ntext.reserve(63000);\n\
                   for (int i = 0; i < 7000; i++) text += 'x';\n\
                   for (int r = 0; r < 20; r++) for (volatile char &c : text) sum += c;\n}\n\
                   int main() {\ntable();\ntext();\nreturn sum == 1;\n}\n";
    let sandbox = recorded("text.cpp", program, &["-O1"]);
    let rows = by_object(&sandbox);
    let name = format!("table() (text.cpp:{})", line(program, "table"));
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
    let references = |name| ["load_references", "store_references"].map(|kind| of(name)[kind].as_u64().unwrap());
    assert_eq!(references(&name), [0, 8000]);
    assert!(references("(unknown)")[0] >= 20 * 7000);
}

#[test]
fn copies_of_an_inlined_function_have_one_peak() {
    let program = "#include <stdlib.h>\nstatic void *volatile kept;\n\
                   static inline __attribute__((always_inline)) long once(size_t n) {\n\
                   volatile long *p = kept = malloc(800); /* block */\n*p = n;\nn = *p;\nfree((void *)p);\nreturn n;\n}\n\
                   int main(void) { return once(1) + once(2) + once(3) != 6; }\n";
    let sandbox = recorded("peak.c", program, &["-O2"]);
    let rows = by_object(&sandbox);
    let row = rows.iter().find(|row| row["name"].as_str().is_some_and(|name| name.contains("once"))).unwrap();
    assert_eq!(["blocks", "bytes", "peak_bytes"].map(|name| row[name].as_u64().unwrap()), [3, 2400, 800], "{row}");
}

#[test]
fn a_vector_of_rust_is_a_block_of_the_function_that_fills_it() {
    let program = "use std::collections::HashMap;\n\
                   #[inline(never)]\nfn squares(n: u64) -> Vec<u64> {\nlet mut all = Vec::new();\n\
                   for i in 0..n {\nall.push(i * i); /* squares */\n}\nall\n}\n\
                   #[inline(never)]\nfn index(n: u64) -> HashMap<u64, u64> {\nlet mut all = HashMap::new();\n\
                   for i in 0..n {\nall.insert(i, n); /* index */\n}\nall\n}\n\
                   fn main() {\nlet (squares, index) = (squares(1000), index(500));\n\
                   let some: Vec<u64> = squares.iter().filter(|n| index.contains_key(n)).copied().collect(); /* some */\n\
                   assert_eq!(some.len(), 23);\nlet mut sorted: Vec<u64> = (0..3000).map(|i| i * 7919 % 5003).collect(); /* unsorted */\n\
                   sorted.sort(); /* sorted */\nassert!(sorted[1] > 0);\n\
                   let more = std::thread::spawn(|| {\nlet mut all = Vec::new();\nfor i in 0..200_u64 {\nall.push(i); /* more */\n}\nall\n});\n\
                   assert_eq!(more.join().unwrap().len(), 200);\n}\n";
    let sandbox = Sandbox::new();
    sandbox.write("vectors.rs", program);
    let mut compiler = sandbox.command(bf_tests::program("bf-rustc"));
    sandbox.compile(
        &mut compiler,
        ["-O", "-g", "-C", "codegen-units=16", "-bf-data-structs", "vectors.rs", "-o", "program"],
    );
    let _ = succeed(&mut sandbox.program("program"));
    let found = allocated(&sandbox);
    for (function, comment, blocks) in [
        ("vectors::squares", "squares", 9),
        ("vectors::index", "index", 9),
        ("vectors::main", "some", 4),
        ("vectors::main", "unsorted", 1),
        ("vectors::main", "sorted", 1),
        ("vectors::main::{closure#2}", "more", 7),
    ] {
        let name = format!("{function} (vectors.rs:{})", line(program, comment));
        assert!(found.contains(&(name.clone(), blocks)), "{name}: {found:?}");
    }
    let others = |(name, _): &&(String, u64)| !name.contains("(vectors.rs:");
    assert_eq!(found.iter().find(others), None, "all are of the program");
}

#[test]
fn a_fortran_array_is_a_block() {
    // What the compiler allocates itself, and what it leaves to its library: each with a size of its own.
    let program = "program p
  real(8), allocatable :: x(:), y(:), z(:, :)
  real(8), allocatable :: v(:), w(:)
  real(8), pointer :: q(:)
  integer :: i, status
  allocate(x(10000)) ! line 6
  allocate(y(20000), stat=status)
  allocate(z(150, 200), source=0d0)
  allocate(q(40000)); allocate(v(60000), w(70000)) ! line 9
  do i = 1, 10000
    x(i) = i; y(2 * i) = i; q(4 * i) = i; z(1 + mod(i, 150), 1) = i
  end do
  if (x(77) + y(4) + q(8) > 78 + z(3, 1)) stop 1
  deallocate(y, q)
  allocate(q(50000))
  q(1:5000) = 1
  v(1:6000) = 1; w(1:7000) = 2
  if (q(7) + v(7) + w(7) > 4) stop 1
end program
";
    let sandbox = Sandbox::new();
    sandbox.write("array.f90", program);
    let mut flang = sandbox.command(bf_tests::program("bf-flang"));
    let _ = succeed(flang.args(["-O1", "-g", "array.f90", "-o", "array"]));
    let _ = succeed(sandbox.program("array").env("BF_BY_OBJECT", "1"));
    let rows = by_object(&sandbox);
    for (name, line, bytes, stores) in [
        ("x", 6, 80_000, 10_000),
        ("y", 7, 160_000, 10_000),
        ("z", 8, 240_000, 10_000),
        ("q", 9, 320_000, 10_000),
        ("q", 15, 400_000, 5_000),
        // Of one statement.
        ("v", 9, 480_000, 6_000),
        ("w", 9, 560_000, 7_000),
    ] {
        let row = rows.iter().find(|row| row["bytes"] == bytes).unwrap_or_else(|| panic!("{bytes}: {rows:#?}"));
        assert_eq!((&row["kind"], &row["store_references"]), (&"heap".into(), &stores.into()), "{row}");
        assert_eq!(row["name"], format!("{name} (array.f90:{line})"), "{row}");
    }
}

/// More blocks than are told apart, of two places by turns.
#[test]
fn a_program_of_very_many_blocks_ends() {
    let program = "#include <stdlib.h>\nvolatile char *volatile last;\nint main() {\nfor (int i = 0; i < 700000; i++) {\n\
                   last = malloc(16); *last = 1;\nlast = malloc(16); *last = 2;\n}\nreturn 0;\n}\n";
    let sandbox = recorded("many.c", program, &["-O1"]);
    let output = succeed(sandbox.command(bf_tests::program("bf")).args(["report", "--by", "object"]).args(SMALL));
    assert!(text(&output.stderr).contains("more blocks than are told apart"), "{}", text(&output.stderr));
    let rows = by_object(&sandbox);
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
    assert_eq!([5, 6].map(|line| of(&format!("main (many.c:{line})"))["blocks"].clone()), [700_000; 2]);
    let stores = |name| of(name)["store_references"].as_u64().unwrap();
    let known = stores("main (many.c:5)") + stores("main (many.c:6)");
    assert!((1_000_000..1_100_000).contains(&known) && stores("(unknown)") >= 1_400_000 - known, "{rows:?}");
}

#[test]
fn a_child_knows_the_memory_of_its_parent() {
    let program = "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
                   int main(void) {\nvolatile long *all = malloc(80000); /* parent */\n\
                   if (fork() == 0) {\nfor (int i = 0; i < 10000; i++) all[i] = i;\nexit(0);\n}\n\
                   wait(NULL);\nreturn 0;\n}\n";
    let sandbox = Sandbox::new();
    sandbox.write("child.c", program);
    sandbox.bf_clang(["child.c", "-O1", "-g", "-bf-data-structs", "-o", "child"]);
    let _ = succeed(&mut sandbox.program("child"));
    let of = |file: &std::path::PathBuf| {
        let report = sandbox.bf(&[&["report", "--by", "object", file.to_str().unwrap()], &SMALL[..]].concat());
        report["items"].as_array().unwrap().clone()
    };
    let rows: Vec<_> = sandbox.profile_files().iter().flat_map(of).collect();
    let name = format!("main (child.c:{})", line(program, "parent"));
    let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
    assert_eq!((&row["store_references"], &row["kind"]), (&10_000.into(), &"heap".into()));
}

#[test]
fn variables_have_names_whatever_their_folder_is_called() {
    let sandbox = Sandbox::new();
    sandbox.c("int other[1024]; int main(int k, char **v) { while (k < 1024) other[k++]++; }", &["-bf-data-structs"]);
    std::fs::create_dir(sandbox.file("new\nline")).unwrap();
    std::fs::rename(sandbox.file("a.out"), sandbox.file("new\nline/a.out")).unwrap();
    let _ = succeed(&mut sandbox.program("new\nline/a.out"));
    assert!(by_object(&sandbox).iter().any(|row| row["name"] == "other"));
}

#[test]
fn without_objects_it_says_how_to_get_them() {
    let sandbox = Sandbox::new();
    sandbox.c("int main(void) { return 0; }", &["-bf-by-func"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let mut command = sandbox.command(bf_tests::program("bf"));
    let profile = sandbox.profile_files().remove(0);
    let output = command.args(["report", "--by", "object"]).arg(profile).args(SMALL).output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("compile with -bf-data-structs"), "{said}");
}

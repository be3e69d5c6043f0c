//! What compilers see of the plugin: options, errors, promises it takes back, and that it works once.

use std::fs;
use std::process::Command;

use crate::toolchain::{Workshop, fixtures, plugin, succeed};

const TWO_FUNCTIONS: &str = "int x, y;\nvoid set_x(int v) { x = v; }\nvoid set_y(int v) { y = v; }\n";

/// Names of the functions of a module's text that reserve room in the buffer.
fn instrumented(module: &str) -> Vec<&str> {
    let bodies = module.split("\ndefine ").skip(1);
    bodies
        .filter(|body| body.split("\n}").next().unwrap().contains("@bf_flush("))
        .map(|body| body.split(['@', '(']).nth(1).unwrap())
        .collect()
}

#[test]
fn include_and_exclude_choose_functions() {
    let workshop = Workshop::new();
    let source = workshop.source("two.c", TWO_FUNCTIONS);
    let list = workshop.source("list", "set_y\n");
    for (options, expected) in [
        (String::new(), &["set_x", "set_y"][..]),
        ("-bf-include=set_x".to_owned(), &["set_x"]),
        ("-bf-include=set_*\n-bf-exclude=set_x".to_owned(), &["set_y"]),
        (format!("-bf-include=@{}", list.display()), &["set_y"]),
    ] {
        let module = workshop.path("module.ll");
        let mut clang = workshop.clang(&source);
        clang.args(["-O1", "-S", "-emit-llvm", "-o"]).arg(&module).env("BF_PASS_OPTS", &options);
        succeed(&mut clang);
        assert_eq!(instrumented(&fs::read_to_string(&module).unwrap()), expected, "{options:?}");
    }
}

#[test]
fn modules_carry_the_settings_for_the_runtime() {
    let workshop = Workshop::new();
    let source = workshop.source("main.c", "int x;\nint main(void) { x = 1; return 0; }\n");
    let (program, record) = (workshop.path("program"), workshop.path("record"));
    let mut clang = workshop.clang(&source);
    clang.arg(workshop.recorder()).arg("-o").arg(&program);
    clang.env("BF_OPTS", "'-bf-line-size=128,64'  -bf-max-ways=32").env("BF_PASS_OPTS", "-bf-max-set-bits=20\n");
    succeed(&mut clang);
    succeed(Command::new(program).env("RECORD", &record));
    assert_eq!(fs::read_to_string(record).unwrap(), "module main.c: main line=64 line=128 bits=20 ways=32\n");
}

#[test]
fn an_option_it_does_not_know_is_a_compile_error() {
    let workshop = Workshop::new();
    let source = workshop.source("two.c", TWO_FUNCTIONS);
    let output = workshop.clang(&source).arg("-c").env("BF_OPTS", "-bf-verbos").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("error: bf: unknown option `-bf-verbos`"), "{message}");
    assert!(!message.contains("Stack dump"), "{message}");
}

#[test]
fn verbose_prints_one_line_and_silence_is_the_default() {
    let workshop = Workshop::new();
    let source = workshop.source("two.c", TWO_FUNCTIONS);
    let compile = |options| {
        let output = succeed(workshop.clang(&source).args(["-O1", "-c"]).env("BF_PASS_OPTS", options));
        String::from_utf8(output.stderr).unwrap()
    };
    let name = source.display();
    assert_eq!(compile("-bf-verbose"), format!("bf: {name}: 2 functions, 2 segments, 2 accesses, 2 counts\n"));
    assert_eq!(compile(""), "");
}

#[test]
fn disabled_it_leaves_no_trace() {
    let workshop = Workshop::new();
    let source = workshop.source("two.c", TWO_FUNCTIONS);
    let object = |name: &str, command: &mut Command| {
        let path = workshop.path(name);
        succeed(command.args(["-O2", "-c", "-o"]).arg(&path));
        fs::read(path).unwrap()
    };
    let disabled = object("disabled.o", workshop.clang(&source).env("BF_PASS_OPTS", "-bf-disable"));
    assert_eq!(disabled, object("plain.o", workshop.tool("clang").arg(&source)));
}

#[test]
fn the_output_is_the_same_every_time() {
    let workshop = Workshop::new();
    let object = |name: &str| {
        let path = workshop.path(name);
        let source = fixtures().join("exceptions.cpp");
        succeed(workshop.clang(&source).args(["-O2", "-g", "-c", "-o"]).arg(&path));
        fs::read(path).unwrap()
    };
    assert_eq!(object("one.o"), object("two.o"));
}

#[test]
fn a_module_is_instrumented_once() {
    let workshop = Workshop::new();
    let source = workshop.source("two.c", TWO_FUNCTIONS);
    let bitcode = workshop.path("once.bc");
    let plugin = format!("-fpass-plugin={}", plugin().display());
    succeed(workshop.clang(&source).arg(&plugin).args(["-O1", "-c", "-emit-llvm", "-o"]).arg(&bitcode));
    let again = workshop.module(&bitcode, &["-O1"]);
    assert_eq!(again.matches("call ptr @bf_flush(").count(), 2, "{again}");
}

#[test]
fn promises_not_to_write_are_taken_back() {
    let workshop = Workshop::new();
    let source = workshop.source(
        "pure.c",
        "double sqrt(double);\n\
         __attribute__((pure)) int elsewhere(const int *);\n\
         __attribute__((noinline, pure)) int here(const int *p) { return *p; }\n\
         int both(const int *p) { return here(p) + elsewhere(p); }\n\
         double root(double x) { return sqrt(x); }\n",
    );
    let module = workshop.module(&source, &["-O2", "-fno-math-errno"]);
    let attributes = |line: &str| {
        let group = line.split('#').nth(1).unwrap().split([' ', '\n']).next().unwrap().to_owned();
        module.lines().find(|line| line.starts_with(&format!("attributes #{group} "))).unwrap().to_owned()
    };
    let promising = |pattern: &str| {
        let lines: Vec<_> = module.lines().filter(|line| line.contains(pattern) && line.contains('#')).collect();
        assert!(!lines.is_empty(), "{pattern}");
        lines.into_iter().any(|line| attributes(line).contains("memory(") || attributes(line).contains("nosync"))
    };
    assert!(!promising("@here("), "{module}");
    assert!(!promising("@elsewhere("), "{module}");
    assert!(!promising("@both("), "{module}");
    assert!(module.contains("@llvm.sqrt.f64") || promising("@sqrt("), "{module}");
}

#[test]
fn allocas_stay_in_the_entry_block() {
    let workshop = Workshop::new();
    let source = workshop.source("call.c", "int f(int *);\nint g(int a, int b) { int c[4] = {a, b}; return f(c); }\n");
    let module = workshop.module(&source, &["-O0"]);
    let body = module.split("@g(").nth(1).unwrap();
    let entry = body.split(", label ").next().unwrap();
    assert_eq!(entry.matches(" alloca ").count(), 3, "{module}");
    assert_eq!(body.matches(" alloca ").count(), 3, "{module}");
}

/// Where one comes behind a call what is counted there is put behind it.
#[test]
fn allocas_come_before_what_is_counted() {
    let workshop = Workshop::new();
    let text = "struct s { long a[3]; };
        void before(void);
        int use(void *);
        int one(int n) { before(); int *p = __builtin_alloca(16); p[0] = n; return use(p); }
        int two(int n, int *q) {
            q[0] = n, before();
            struct s *p = __builtin_alloca(sizeof *p);
            p->a[1] = q[1], before();
            char *r = __builtin_alloca(8);
            return n ? use(p) + use(r) : use(q);
        }";
    let source = workshop.source("behind.c", text);
    for options in ["", "-bf-counters-only", "-bf-no-counters", "-bf-call-stack", "-bf-by-func\n-bf-data-structs"] {
        for flags in [&["-O0"][..], &["-O1"], &["-O2", "-g"], &["-O1", "-finstrument-functions"]] {
            let mut clang = workshop.clang(&source);
            succeed(clang.args(flags).args(["-c", "-o", "behind.o"]).env("BF_PASS_OPTS", options));
        }
    }
}

#[test]
fn code_for_other_targets_is_left_alone() {
    let workshop = Workshop::new();
    let source = workshop.source("two.c", TWO_FUNCTIONS);
    for target in ["i386-pc-linux-gnu", "x86_64-pc-windows-msvc", "nvptx64-nvidia-cuda"] {
        let module = workshop.module(&source, &["-O1", "-target", target]);
        assert!(!module.contains("bf_"), "{target}: {module}");
    }
    let module = workshop.module(&source, &["-O1", "-target", "aarch64-linux-gnu"]);
    assert_eq!(instrumented(&module), ["set_x", "set_y"]);
}

/// Words and kinds of the segments of a module's text, in the order of the functions.
fn segments(module: &str) -> Vec<(u32, bool)> {
    let tables = module.lines().filter(|line| line.starts_with("@bf.segment"));
    let read = |line: &str| {
        let fields: Vec<_> = line.split_once("] } { ").unwrap().1.split(", ").collect();
        (fields[2].strip_prefix("i32 ").unwrap().parse().unwrap(), fields[5] == "i32 1")
    };
    tables.map(read).collect()
}

#[test]
fn loops_are_streams_if_their_course_is_known() {
    let workshop = Workshop::new();
    let body =
        |text: &str| format!("void out(void);\nlong f(long *a, long *b, long n, long k) {{ {text} return 0; }}\n");
    for (text, streams) in [
        ("for (long i = 0; i < n; i++) a[i] += b[i * k];", 1),
        ("for (long i = n; i > 0; i--) a[i] = b[k];", 1),
        ("for (unsigned char i = 0; i < 200; i++) a[i] += 3;", 1),
        ("while (a != b) *a++ += 2;", 1),
        ("long s = 0; for (long i = 0; i < n; i++) for (long j = i; j < n; j++) s += a[j]; return s;", 1),
        ("long s = 0; while (n--) s += a[b[n]]; return s;", 0),
        ("for (long i = 0; a[i] != k; i++) b[i] = a[i] * 3;", 0),
        ("for (long i = 0; i < n; i++) { a[i] += 1; out(); }", 0),
        ("for (long i = 0; i < n; i++) __atomic_store_n(&a[i], i, __ATOMIC_RELEASE);", 0),
        ("for (long i = 0; i < n; i++) *(volatile long *)&a[i] += 1;", 0),
        ("for (long i = 0; i < n; i++) { a[i] += 1; __asm__ volatile(\"nop\"); }", 0),
        ("while (a) { b[0] = n++; a = (long *)*a; }", 0),
    ] {
        let source = workshop.source("loop.c", &body(text));
        let flags = ["-O2", "-fno-vectorize", "-fno-unroll-loops"];
        let module = workshop.module(&source, &flags);
        assert_eq!(segments(&module).iter().filter(|(_, stream)| *stream).count(), streams, "{text}\n{module}");
        let mut clang = workshop.clang(&source);
        let path = workshop.path("segments.ll");
        succeed(clang.args(flags).args(["-S", "-emit-llvm", "-o"]).arg(&path).env("BF_PASS_OPTS", "-bf-no-streams"));
        let all = segments(&fs::read_to_string(path).unwrap());
        assert!(!all.is_empty() && all.iter().all(|(_, stream)| !stream), "{text}");
    }
}

#[test]
fn loops_left_in_their_middle_are_streams_if_they_are_of_a_known_length() {
    let module = Workshop::new().module(&fixtures().join("halves.ll"), &["-O0"]);
    assert_eq!(segments(&module).iter().filter(|(_, stream)| *stream).count(), 3, "{module}");
}

#[test]
fn loops_that_end_where_numbers_are_equal_are_streams() {
    let module = Workshop::new().module(&fixtures().join("equal.ll"), &["-O0"]);
    assert_eq!(segments(&module).iter().filter(|(_, stream)| *stream).count(), 2, "{module}");
}

#[test]
fn addresses_a_constant_apart_take_one_word() {
    let workshop = Workshop::new();
    let source = workshop.source(
        "apart.c",
        "void f(int *p, int *q, long i) { p[3] = 0; q[0] = 1; p[1] = 2; p[i + 1] = 3; p[i] = 4; }\n",
    );
    // The header, p, q and p + i.
    assert_eq!(segments(&workshop.module(&source, &["-O1"])), [(4, false)]);
}

#[test]
fn link_time_optimisation_keeps_what_was_recorded() {
    let workshop = Workshop::new();
    let linker = Command::new(format!("ld.lld-{}", crate::toolchain::VERSION)).arg("--version").output();
    if linker.is_err() {
        eprintln!("no ld.lld-{}", crate::toolchain::VERSION);
        return;
    }
    for (source, standard) in [("order.c", "-std=c17"), ("coroutines.cpp", "-std=c++20")] {
        let source = fixtures().join(source);
        for flavour in ["-flto", "-flto=thin"] {
            let record = workshop.record(&source, &["-O2", standard, flavour, "-fuse-ld=lld"]);
            let expected = fs::read_to_string(source.with_extension("expected")).unwrap();
            assert_eq!(record.split_once('\n').unwrap().1, expected, "{source:?} {flavour}");
        }
    }
}

#[test]
fn fortran_is_instrumented_too() {
    let workshop = Workshop::new();
    let source = workshop.source("sum.f90", "subroutine double_it(a)\n real :: a(:)\n a = a * 2\nend subroutine\n");
    let module = workshop.path("module.ll");
    let mut flang = workshop.tool("flang");
    flang.arg(format!("-fpass-plugin={}", plugin().display())).args(["-O1", "-S", "-emit-llvm", "-o"]);
    flang.arg(&module).arg(&source);
    match flang.output() {
        Err(error) => eprintln!("{flang:?}: {error}"),
        Ok(_) => {
            succeed(&mut flang);
            assert_eq!(instrumented(&fs::read_to_string(&module).unwrap()), ["double_it_"]);
        }
    }
}

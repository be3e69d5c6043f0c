//! `bf-clang` as a compiler: every way a build may call it.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use crate::sandbox::{HELLO, Sandbox, mentions, silent, text};

#[test]
fn compile_link_run() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    silent(&dir.bf_clang("-O2 -g -c a.c"));
    assert!(dir.is_instrumented("a.o"));
    silent(&dir.bf_clang("a.o -o a"));
    dir.runs("a");
    assert_eq!(dir.profiles().len(), 1);
    silent(&dir.bf_clang("-O0 a.c -o b"));
    dir.runs("b");
}

#[test]
fn no_warning_clang_would_not_give() {
    let files = [("a.c", HELLO), ("a.s", ".globl f\nf: ret\n"), ("b.S", "#define G g\n.globl G\nG: ret\n")];
    let (dir, native) = (Sandbox::new(&files), Sandbox::new(&files));
    for line in [
        "-Werror -Weverything -Wno-missing-variable-declarations -Wno-unsafe-buffer-usage -c a.c",
        "-Werror -Wunused-command-line-argument -c a.s -o as.o",
        "-Werror -Wunused-command-line-argument -c b.S -o bs.o",
        "-Werror -E a.c -o a.i",
        "-Werror -S a.c",
        "-Werror -S -emit-llvm a.c",
        "-Werror -fsyntax-only a.c",
        "-Werror a.o -o linked",
        "-Werror -Wl,--fatal-warnings,--no-undefined,--as-needed a.c -o b",
        "-Werror -shared -fPIC -Wl,--fatal-warnings,-z,defs a.c -o liba.so",
        "-Werror -fuse-ld=lld --ld-path=/usr/bin/ld.lld-22 -Wl,--fatal-warnings a.c -o c",
    ] {
        silent(&native.command("clang-22").args(line.split_whitespace()).output().unwrap());
        silent(&dir.bf_clang(line));
    }
}

#[test]
fn output_and_exit_code_are_clangs() {
    let dir = Sandbox::new(&[
        ("a.c", HELLO),
        ("bad.c", "int f(void) { return x; }\n"),
        ("warn.c", "int f(int x) { int y; return x; }\n"),
    ]);
    for line in [
        "--version",
        "-dumpmachine",
        "-dumpversion",
        "-print-search-dirs",
        "-print-prog-name=ld",
        "-print-file-name=libc.so",
        "-M a.c",
        "-MM a.c",
        "-E -dD -U__BF__ a.c -D__BF__=1",
        "-c bad.c",
        "-Wall -c warn.c",
        "-Wall -Werror -c warn.c",
        "-c missing.c",
        "--no-such-option a.c",
        "-v",
        "-Xclang",
        "",
    ] {
        let run = |program: &std::ffi::OsStr| {
            let output = dir.command(program).args(line.split_whitespace()).output().unwrap();
            (output.status.code(), output.stdout, output.stderr)
        };
        let (code, out, err) = run("clang-22".as_ref());
        let (bf_code, bf_out, bf_err) = run(bf_tests::program("bf-clang").as_ref());
        assert_eq!(bf_code, code, "{line}");
        assert_eq!(String::from_utf8_lossy(&bf_err), String::from_utf8_lossy(&err), "{line}");
        if !line.contains("-dD") {
            assert_eq!(String::from_utf8_lossy(&bf_out), String::from_utf8_lossy(&out), "{line}");
        }
    }
}

#[test]
fn the_macro_and_the_header_are_there_with_or_without_standard_includes() {
    let dir = Sandbox::new(&[("a.c", "#include <bf.h>\n#if __BF__ != 1\n#error no\n#endif\nint x;\n")]);
    silent(&dir.bf_clang("-Werror -Wall -c a.c"));
    silent(&dir.bf_clang("-Werror -nostdinc -isystem /usr/include -isystem /usr/include/x86_64-linux-gnu -c a.c"));
}

#[test]
fn the_header_does_nothing_where_nothing_is_recorded() {
    let source = "#include <bf.h>\n#ifdef __BF__\n#error yes\n#endif\nint main(void) { bf_tag(\"x\"); return 0; }\n";
    let dir = Sandbox::new(&[("a.c", source)]);
    silent(&dir.bf_clang("-bf-disable -Werror a.c -o a"));
    silent(&dir.bf_clang("-bf-disable -Werror -c a.c -o a.o"));
    silent(&dir.bf_clang("-bf-disable -Werror a.o -o a"));
    assert!(!mentions(&dir.path("a"), "libbf_rt"));
    for mode in ["-fsanitize=memory", "-ffreestanding", "-m32"] {
        silent(&dir.bf_clang(&format!("{mode} -Werror -c a.c")));
    }
}

#[test]
fn source_from_stdin() {
    let dir = Sandbox::new(&[]);
    let mut child = dir
        .command(bf_tests::program("bf-clang"))
        .args(["-x", "c", "-O2", "-", "-o", "a"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(HELLO.as_bytes()).unwrap();
    silent(&child.wait_with_output().unwrap());
    dir.runs("a");
}

#[test]
fn files_after_a_double_dash() {
    let dir = Sandbox::new(&[("a.txt", HELLO)]);
    silent(&dir.bf_clang("-o a -x c -- a.txt"));
    dir.runs("a");
}

#[test]
fn assembler_beside_c() {
    let dir = Sandbox::new(&[
        ("a.c", "#include <stdio.h>\nint f(void);\nint main(void) { printf(\"%d\\n\", f()); return 0; }\n"),
        ("f.S", "#define VALUE 42\n.globl f\nf: mov $VALUE, %eax\n ret\n.section .note.GNU-stack,\"\",@progbits\n"),
    ]);
    silent(&dir.bf_clang("-Werror a.c f.S -o a"));
    dir.runs("a");
}

#[test]
fn precompiled_headers() {
    let dir = Sandbox::new(&[
        ("all.h", "#include <stdio.h>\nstatic int value = 42;\n"),
        ("a.c", "int main(void) { printf(\"%d\\n\", value); }\n"),
    ]);
    silent(&dir.bf_clang("-Werror -O1 -x c-header all.h -o all.h.gch"));
    silent(&dir.bf_clang("-Werror -O1 -include all.h a.c -o a"));
    dir.runs("a");
    silent(&dir.bf_clang("all.h -o all.pch"));
    silent(&dir.bf_clang("-include-pch all.pch a.c -o b"));
    dir.runs("b");
}

#[test]
fn modules_of_cxx20() {
    let dir = Sandbox::new(&[
        ("m.cppm", "export module m;\nint cells[64];\nexport int f(int i) { cells[i] = i; return cells[42]; }\n"),
        ("a.cpp", "import m;\nextern \"C\" int printf(const char *, ...);\nint main() { printf(\"%d\\n\", f(42)); }\n"),
    ]);
    silent(&dir.tool("bf-clang++", "-std=c++20 --precompile m.cppm -o m.pcm"));
    silent(&dir.tool("bf-clang++", "-std=c++20 -c m.pcm -o m.o"));
    silent(&dir.tool("bf-clang++", "-std=c++20 -fmodule-file=m=m.pcm a.cpp m.o -o a"));
    assert!(dir.is_instrumented("m.o"));
    dir.runs("a");
}

#[test]
fn exceptions_cross_instrumented_frames() {
    let dir = Sandbox::new(&[(
        "a.cpp",
        "#include <cstdio>\n#include <stdexcept>\n#include <vector>\n\
         struct Guard { int &n; ~Guard() { n++; } };\n\
         static void f(std::vector<int> &v, int d, int &n) { Guard g{n}; v[d] = d; if (!d) throw std::runtime_error(\"x\"); f(v, d - 1, n); }\n\
         int main() { std::vector<int> v(50); int n = 0; try { f(v, 41, n); } catch (const std::exception &) { std::printf(\"%d\\n\", n); } }\n",
    )]);
    for options in ["-O0", "-O2", "-O2 -static"] {
        silent(&dir.tool("bf-clang++", &format!("{options} a.cpp -o a")));
        dir.runs("a");
    }
}

#[test]
fn response_files_are_read_for_what_the_command_does() {
    let dir = Sandbox::new(&[
        ("a.c", HELLO),
        ("compile", "-O2\n-c 'a.c'\n"),
        ("link", "@inner -o \"a\"\n"),
        ("inner", "a.o"),
    ]);
    silent(&dir.bf_clang("@compile"));
    silent(&dir.bf_clang("@link"));
    dir.runs("a");

    dir.write("ours", "-bf-disable -c a.c -o plain.o");
    silent(&dir.bf_clang("@ours"));
    assert!(!dir.is_instrumented("plain.o"));
}

#[test]
fn static_programs() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    for (n, options) in ["-static", "-static-pie", "-static -flto"].into_iter().enumerate() {
        silent(&dir.bf_clang(&format!("-O2 {options} a.c -o a{n}")));
        dir.runs(&format!("a{n}"));
    }
    assert_eq!(dir.profiles().len(), 3);
}

#[test]
fn shared_libraries_and_partial_links() {
    let dir = Sandbox::new(&[
        ("lib.c", "int cells[64];\nint f(int i) { cells[i] = i; return cells[i]; }\n"),
        ("main.c", "#include <stdio.h>\nint f(int);\nint main(void) { printf(\"%d\\n\", f(42)); return 0; }\n"),
        (
            "open.c",
            "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) { void *h = dlopen(\"./libl.so\", RTLD_NOW);\n\
             int (*f)(int) = (int (*)(int))dlsym(h, \"f\"); printf(\"%d\\n\", f(42)); return dlclose(h); }\n",
        ),
    ]);
    silent(&dir.bf_clang("-O2 -fPIC -shared lib.c -o libl.so"));
    silent(&dir.bf_clang("-O2 main.c -o a -L. -ll -Wl,-rpath,$ORIGIN"));
    dir.runs("a");
    assert_eq!(dir.profiles().len(), 1, "one runtime, one profile");

    silent(&dir.bf_clang("-O2 open.c -o o"));
    dir.runs("o");
    let plain = dir.command("clang-22").args(["open.c", "-o", "p"]).output().unwrap();
    silent(&plain);
    dir.runs("p");
    assert_eq!(dir.profiles().len(), 3, "a library loaded by a plain program is recorded too");

    silent(&dir.bf_clang("-O2 -c main.c"));
    silent(&dir.bf_clang("-O2 -c lib.c"));
    silent(&dir.bf_clang("-r main.o lib.o -o both.o"));
    silent(&dir.bf_clang("-nostdlib -r main.o lib.o -o both2.o"));
    silent(&dir.bf_clang("both.o -o b"));
    dir.runs("b");
}

#[test]
fn a_link_that_brings_its_own_c_library() {
    let dir =
        Sandbox::new(&[("lib.c", "int cells[64];\nint f(int i) { cells[i] = i; return cells[i]; }\n"), ("a.c", HELLO)]);
    silent(&dir.bf_clang("-fPIC -shared -nostdlib lib.c -lc -o libl.so"));
    assert!(dir.is_instrumented("libl.so"));
    silent(&dir.bf_clang("a.c -lc -o a"));
    dir.runs("a");
    let needed = dir.shell("readelf -d a | grep NEEDED");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.find("libbf_rt.so").unwrap() < needed.find("libc.so.6").unwrap(), "{needed}");
}

#[test]
fn code_that_cannot_be_instrumented_is_compiled_as_by_clang() {
    let dir = Sandbox::new(&[("a.c", "int cells[64];\nint f(int i) { return cells[i]; }\n")]);
    for options in ["-ffreestanding", "-m32", "--target=aarch64-linux-gnu", "-mcmodel=kernel -fno-pic"] {
        silent(&dir.bf_clang(&format!("-O2 {options} -c a.c -o bf.o")));
        let native =
            dir.command("clang-22").args(format!("-O2 {options} -c a.c -o native.o").split_whitespace()).output();
        silent(&native.unwrap());
        assert_eq!(std::fs::read(dir.path("bf.o")).unwrap(), std::fs::read(dir.path("native.o")).unwrap(), "{options}");
    }
}

#[test]
fn sanitizers() {
    let threads = "#include <pthread.h>\n#include <stdio.h>\nstatic int cells[64];\n\
                   static void *f(void *p) { for (int i = 0; i < 43; i++) cells[i] = i; return p; }\n\
                   int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); printf(\"%d\\n\", cells[42]); return 0; }\n";
    let dir = Sandbox::new(&[("a.c", threads)]);
    for sanitizer in ["address", "undefined", "thread", "address,undefined", "leak"] {
        silent(&dir.bf_clang(&format!("-O1 -g -fsanitize={sanitizer} a.c -o a -pthread")));
        dir.runs("a");
    }
    dir.write("bad.c", "#include <stdlib.h>\nint main(void) { char *p = malloc(8); free(p); return p[3]; }\n");
    silent(&dir.bf_clang("-g -fsanitize=address bad.c -o bad"));
    let output = dir.command(dir.path("bad")).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("heap-use-after-free"), "{}", text(&output));
}

#[test]
fn steps_kept_apart_instrument_once() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    let flushes = |name: &str| {
        let code = dir.shell(&format!("objdump -dr {name} | grep -c bf_flush"));
        String::from_utf8_lossy(&code.stdout).trim().parse::<u32>().unwrap()
    };
    silent(&dir.bf_clang("-O1 -c a.c -o once.o"));
    silent(&dir.bf_clang("-O1 -S -emit-llvm a.c -o a.ll"));
    silent(&dir.bf_clang("-O1 -c a.ll -o twice.o"));
    assert_eq!(flushes("twice.o"), flushes("once.o"));
    silent(&dir.bf_clang("-O1 -save-temps -c a.c -o kept.o"));
    assert_eq!(flushes("kept.o"), flushes("once.o"));
    let pass = bf_tests::prefix().join("lib/bf/libbf_pass-22.so");
    silent(&dir.bf_clang(&format!("-O1 -fpass-plugin={} -c a.c -o doubled.o", pass.display())));
    assert_eq!(flushes("doubled.o"), flushes("once.o"));
}

#[test]
fn disabled_means_clang_alone() {
    let dir = Sandbox::new(&[("a.c", HELLO), ("opts", "-bf-disable")]);
    silent(&dir.bf_clang("-bf-disable -O2 a.c -o a"));
    let environment = |value: &str| {
        let mut command = dir.command(bf_tests::program("bf-clang"));
        command.args(["-O2", "a.c", "-o", "b"]).env("BF_OPTS", value);
        silent(&command.output().unwrap());
    };
    for value in ["-bf-disable", "-bf-verbose  -bf-disable", "@opts"] {
        environment(value);
        assert!(!mentions(&dir.path("b"), "bf_register_module"), "{value}");
    }
    dir.runs("a");
    dir.runs("b");
    assert!(dir.profiles().is_empty());
}

#[test]
fn a_wrong_option_is_one_clear_error() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    let output = dir.bf_clang("-bf-linesize=64 -c a.c");
    assert_eq!(output.status.code(), Some(2));
    let expected = "bf-clang: error: unknown option '-bf-linesize=64'; see bf-clang --bf-help\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert!(!dir.path("a.o").exists());
}

#[test]
fn shown_commands_run_as_they_stand() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    let shown = dir.bf_clang("--bf-show -O2 -DX=\"'q'\" -bf-line-size=64,128 -bf-exclude=g a.c -o a");
    assert!(shown.status.success() && !dir.path("a").exists(), "{}", text(&shown));
    let line = String::from_utf8(shown.stdout).unwrap();
    assert!(line.starts_with("BF_PASS_OPTS='-bf-line-size=64,128\n-bf-exclude=g' "), "{line}");
    silent(&dir.shell(&line));
    dir.runs("a");
}

#[test]
fn the_tree_may_be_reached_by_a_link_and_moved() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    std::os::unix::fs::symlink(bf_tests::program("bf-clang"), dir.path("cc")).unwrap();
    let output = dir.command(dir.path("cc")).args(["a.c", "-o", "a"]).output().unwrap();
    silent(&output);
    dir.runs("a");

    dir.shell(&format!("cp -r {} moved", bf_tests::prefix().display()));
    silent(&dir.command(dir.path("moved/bin/bf-clang")).args(["a.c", "-o", "b"]).output().unwrap());
    dir.runs("b");
    let libraries = dir.shell("ldd b");
    assert!(String::from_utf8_lossy(&libraries.stdout).contains("moved/lib/bf/libbf_rt.so"), "{}", text(&libraries));
}

#[test]
fn other_compilers_by_environment() {
    let dir = Sandbox::new(&[("a.c", HELLO), ("a.cpp", "#include <cstdio>\nint main() { std::puts(\"42\"); }\n")]);
    let with = |tool: &str, compiler: &str, source: &str| {
        let mut command = dir.command(bf_tests::program(tool));
        command.args(["-O2", source, "-o", "a"]).env("BF_CLANG", compiler).output().unwrap()
    };
    silent(&with("bf-clang", "clang-19", "a.c"));
    assert!(dir.is_instrumented("a"));
    dir.runs("a");
    silent(&with("bf-clang++", "/usr/bin/clang-22", "a.cpp"));
    dir.runs("a");
    let output = with("bf-clang", "/no/such/clang", "a.c");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "bf-clang: error: BF_CLANG=/no/such/clang: no such program\n");
}

#[test]
fn llvms_own_directories_are_searched_after_path() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    let output =
        dir.command(bf_tests::program("bf-clang")).arg("-c").arg("a.c").env("PATH", "/nowhere").output().unwrap();
    silent(&output);
    assert!(dir.is_instrumented("a.o"));
}

#[test]
fn a_signal_that_ends_the_compiler_is_seen() {
    let dir = Sandbox::new(&[("die", "#!/bin/sh\ncase $1 in -dumpversion) echo 22.1.0 ;; *) kill -TERM $$ ;; esac\n")]);
    dir.shell("chmod +x die");
    let mut command = dir.command(bf_tests::program("bf-clang"));
    let status = command.args(["-c", "a.c"]).env("BF_CLANG", dir.path("die")).status().unwrap();
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn a_run_path_from_the_environment_still_counts() {
    let dir = Sandbox::new(&[
        ("lib.c", "int f(void) { return 42; }\n"),
        ("a.c", "#include <stdio.h>\nint f(void);\nint main(void) { printf(\"%d\\n\", f()); }\n"),
    ]);
    dir.shell(
        "mkdir libs; bf-clang -shared -fPIC lib.c -o libs/libl.so; LD_RUN_PATH=$PWD/libs bf-clang a.c -Llibs -ll -o a",
    );
    dir.runs("a");
}

#[test]
fn the_compiler_is_one_there_is_a_pass_for() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    dir.shell(&format!("cp -r {} tree", bf_tests::prefix().display()));
    let compile = || dir.command(dir.path("tree/bin/bf-clang")).args(["a.c", "-o", "a"]).output().unwrap();

    std::fs::remove_file(dir.path("tree/lib/bf/libbf_pass-22.so")).unwrap();
    silent(&compile());
    assert!(dir.is_instrumented("a"));
    dir.runs("a");
    let shown = dir.command(dir.path("tree/bin/bf-clang")).args(["--bf-show", "a.c"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("libbf_pass-19.so"), "{}", text(&shown));

    std::fs::remove_file(dir.path("tree/lib/bf/libbf_pass-19.so")).unwrap();
    let output = compile();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.starts_with("bf-clang: error: no pass for clang 22: "), "{message}");
    assert!(message.ends_with("/lib/bf/libbf_pass-22.so is missing; use one of: none\n"), "{message}");
}

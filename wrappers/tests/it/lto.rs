//! Link-time optimisation: objects of bitcode, archives of them, both linkers.

use crate::sandbox::{Sandbox, silent};

fn project() -> Sandbox {
    Sandbox::new(&[
        ("f.c", "int cells[64];\nint f(int i) { cells[i] = i; return cells[i]; }\n"),
        ("a.c", "#include <stdio.h>\nint f(int);\nint main(void) { printf(\"%d\\n\", f(42)); return 0; }\n"),
    ])
}

#[test]
fn full_and_thin_with_both_linkers() {
    for kind in ["full", "thin"] {
        for linker in ["", "--ld-path=/usr/bin/ld.lld-22"] {
            let dir = project();
            silent(&dir.bf_clang(&format!("-Werror -O2 -flto={kind} -c f.c")));
            silent(&dir.bf_clang(&format!("-Werror -O2 -flto={kind} -c a.c")));
            silent(&dir.bf_clang(&format!("-Werror -O2 -flto={kind} {linker} a.o f.o -o a")));
            assert!(dir.is_instrumented("a"), "{kind} {linker}");
            dir.runs("a");
            assert_eq!(dir.profiles().len(), 1, "{kind} {linker}");
        }
    }
}

#[test]
fn archives_of_bitcode_get_an_index() {
    let dir = project();
    silent(&dir.bf_clang("-O2 -flto -c f.c"));
    silent(&dir.bf_clang("-O2 -flto -c a.c"));
    silent(&dir.tool("bf-ar", "cqS libf.a f.o"));
    silent(&dir.tool("bf-ranlib", "libf.a"));
    silent(&dir.bf_clang("-O2 -flto a.o -L. -lf -o a"));
    dir.runs("a");
}

#[test]
fn archiver_tools_say_what_they_run() {
    let dir = project();
    let shown = dir.tool("bf-ar", "--bf-show rc x.a y.o");
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "/usr/lib/llvm-22/bin/llvm-ar rc x.a y.o\n");
}

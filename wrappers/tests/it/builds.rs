//! Other people's build systems with nothing changed but the compiler.

use std::fs;

use crate::sandbox::{HELLO, Sandbox, text};

const LIB_C: &str = "#include \"lib.h\"\nstatic int cells[64];\nint f(int i) { cells[i] = i; return cells[i]; }\n";
const LIB_H: &str = "int f(int i);\n";
const MAIN_C: &str = "#include <stdio.h>\n#include \"lib.h\"\nint main(void) { printf(\"%d\\n\", f(42)); return 0; }\n";

fn sources() -> Sandbox {
    Sandbox::new(&[("lib.c", LIB_C), ("lib.h", LIB_H), ("main.c", MAIN_C)])
}

#[test]
fn make_with_implicit_rules() {
    let dir = sources();
    dir.write(
        "Makefile",
        "a: main.o lib.o\n\t$(CC) $(LDFLAGS) $^ -o $@\n-include main.d lib.d\nCFLAGS = -O2 -MMD -Werror\n",
    );
    let output = dir.shell("make -s CC=bf-clang a");
    assert!(output.stderr.is_empty(), "{}", text(&output));
    dir.runs("a");
    assert!(fs::read_to_string(dir.path("main.d")).unwrap().contains("lib.h"));
}

#[test]
fn autotools_and_libtool() {
    let dir = sources();
    dir.write(
        "configure.ac",
        "AC_INIT([demo], [1.0])\nAM_INIT_AUTOMAKE([foreign])\nAC_CONFIG_HEADERS([config.h])\nAM_PROG_AR\nAC_PROG_CC\nLT_INIT\n\
         AC_C_BIGENDIAN\nAC_CHECK_SIZEOF([long])\nAC_CHECK_HEADERS([sys/mman.h no-such.h])\n\
         AC_CHECK_FUNCS([mmap strlcpy no_such_function])\nAC_SEARCH_LIBS([sqrt], [m])\nAC_FUNC_MALLOC\n\
         AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    );
    dir.write(
        "Makefile.am",
        "lib_LTLIBRARIES = libf.la\nlibf_la_SOURCES = lib.c lib.h\nbin_PROGRAMS = a\na_SOURCES = main.c\na_LDADD = libf.la\n",
    );
    dir.shell("autoreconf -fi >log 2>&1");
    let configure = |build: &str, compiler: &str| {
        format!(
            "mkdir {build}; cd {build}; \
             ../configure -q CC={compiler} CFLAGS='-O2 -Werror' --prefix=$PWD/out >out.log 2>err.log"
        )
    };
    std::thread::scope(|scope| {
        scope.spawn(|| dir.shell(&configure("native", "clang-22")));
        dir.shell(&configure("bf", "bf-clang"));
    });
    let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap();
    assert_eq!(read("bf/err.log"), read("native/err.log"));
    assert_eq!(read("bf/config.h"), read("native/config.h"), "what configure found out");
    let left = dir.shell("find bf -name '*.bfp'");
    assert!(left.stdout.is_empty(), "configure cleans up after the programs it runs: {}", text(&left));

    let output = dir.shell("cd bf; make -s V=0 >make.log; make -s install >install.log");
    assert!(output.stderr.is_empty(), "{}", text(&output));
    dir.runs("bf/out/bin/a");
    assert!(dir.is_instrumented("bf/out/lib/libf.so"));
    dir.runs("bf/a");
}

#[test]
fn cmake_and_ninja_with_the_toolchain_file() {
    let dir = sources();
    dir.write("more.cpp", "extern \"C\" int g(int i) { static int cells[64]; cells[i] = i; return cells[i]; }\n");
    dir.write(
        "CMakeLists.txt",
        r#"cmake_minimum_required(VERSION 3.20)
project(demo C CXX)
include(CheckIPOSupported)
check_ipo_supported(RESULT ipo OUTPUT why LANGUAGES C CXX)
if(NOT ipo)
    message(FATAL_ERROR "no IPO: ${why}")
endif()
file(WRITE ${CMAKE_BINARY_DIR}/try.c "int main(void) { return 7; }\n")
try_run(ran compiled ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/try.c)
if(NOT ran EQUAL 7)
    message(FATAL_ERROR "try_run: ${ran} ${compiled}")
endif()
if(NOT CMAKE_C_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "compiler: ${CMAKE_C_COMPILER_ID}")
endif()
add_library(f SHARED lib.c)
add_library(g STATIC more.cpp)
set_target_properties(g PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
add_executable(a main.c)
target_link_libraries(a f g)
set_target_properties(a PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS a f)
"#,
    );
    for generator in ["Ninja", "Unix Makefiles"] {
        let build = format!("build-{}", &generator[..4]);
        let toolchain = bf_tests::prefix().join("share/cmake/bf-toolchain.cmake");
        let output = dir.shell(&format!(
            "cmake -G '{generator}' -S . -B {build} -DCMAKE_TOOLCHAIN_FILE={} -DCMAKE_C_FLAGS=-Werror \
             -DCMAKE_INSTALL_PREFIX=$PWD/{build}/out >cmake.log; cmake --build {build} >build.log; cmake --install {build} >install.log",
            toolchain.display()
        ));
        assert!(output.stderr.is_empty(), "{generator}: {}", text(&output));
        dir.runs(&format!("{build}/a"));
        dir.runs(&format!("{build}/out/bin/a"));
        assert!(dir.is_instrumented(&format!("{build}/out/lib/libf.so")));
        let cache = fs::read_to_string(dir.path(&format!("{build}/CMakeCache.txt"))).unwrap();
        for tool in ["CMAKE_AR", "CMAKE_C_COMPILER_AR", "CMAKE_CXX_COMPILER_AR"] {
            assert!(
                cache.lines().any(|line| line.starts_with(&format!("{tool}:")) && line.ends_with("/bin/bf-ar")),
                "{tool}"
            );
        }
    }
}

#[test]
fn compiler_caches_see_our_options() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    let compile = |options: &str, object: &str| {
        dir.shell(&format!("CCACHE_DIR=$PWD/cache ccache bf-clang -O2 {options} -c a.c -o {object}"));
        fs::read(dir.path(object)).unwrap()
    };
    let hits = || {
        let statistics = dir.shell("CCACHE_DIR=$PWD/cache ccache --print-stats");
        let statistics = String::from_utf8(statistics.stdout).unwrap();
        let count = |name: &str| {
            let line = statistics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse::<u32>().unwrap()
        };
        count("direct_cache_hit") + count("preprocessed_cache_hit")
    };
    let first = compile("", "1.o");
    assert_eq!((compile("", "2.o") == first, hits()), (true, 1));
    assert_ne!(compile("-bf-line-size=128", "3.o"), first);
    assert_ne!(compile("-bf-disable", "4.o"), first);
    assert_eq!(hits(), 1);
    dir.shell("bf-clang 2.o -o a");
    dir.runs("a");
}

#[test]
fn a_launcher_behind_the_wrapper_is_passed_by() {
    let dir = Sandbox::new(&[("a.c", HELLO)]);
    dir.shell("mkdir masked; ln -s $(command -v ccache) masked/clang-22");
    let shown = dir.shell("PATH=$PWD/masked:$PATH bf-clang --bf-show -c a.c");
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("masked"), "{}", text(&shown));
}

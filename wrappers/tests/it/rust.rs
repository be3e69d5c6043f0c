//! Rust: one file, and a project with a build script and a macro of its own.

use crate::sandbox::{Sandbox, text};

const MAIN: &str = r#"use std::sync::{Barrier, Mutex};

fn main() {
    let (sum, barrier) = (Mutex::new(0), Barrier::new(2));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let cells: Vec<u64> = std::hint::black_box((1..=6).collect());
                barrier.wait();
                *sum.lock().unwrap() += cells.iter().sum::<u64>();
            });
        }
    });
    println!("{}", sum.into_inner().unwrap());
}
"#;

#[test]
fn one_file() {
    let dir = Sandbox::new(&[("a.rs", MAIN)]);
    let output = dir.tool("bf-rustc", "-bf-line-size=32,64 -O a.rs -o a");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output));
    assert!(dir.is_instrumented("a"));
    dir.runs("a");
    assert_eq!(dir.profiles().len(), 1);
}

/// GNU's leaves a library out that nothing in front of it needs, and Debian's compiler tells it so.
#[test]
fn another_linker() {
    let dir = Sandbox::new(&[("a.rs", MAIN)]);
    let output = dir.tool("bf-rustc", "-O a.rs -o a -Clinker-features=-lld -Clink-arg=-fuse-ld=bfd");
    assert!(output.status.success(), "{}", text(&output));
    dir.runs("a");
}

/// Where the runtime is asked before the C library, as in a program of C, nobody sees the handlers that it has.
#[test]
fn handlers_of_the_runtime_are_not_the_programs() {
    let main = r#"unsafe extern "C" {
    safe fn signal(signal: i32, handler: usize) -> usize;
}

fn main() {
    println!("{}", 42 + signal(10, 1));
}
"#;
    let dir = Sandbox::new(&[("a.rs", main)]);
    let output = dir.tool("bf-rustc", "-O a.rs -o a");
    assert!(output.status.success(), "{}", text(&output));
    dir.runs("a");
}

/// Rust declares what waits for a moment as a function that may do anything.
#[test]
fn call_paths_of_one_that_ends_with_an_intrinsic() {
    let relax = "#[inline(never)]\nfn relax() { std::hint::spin_loop() }\nfn main() { relax(); println!(\"42\"); }\n";
    let dir = Sandbox::new(&[("a.rs", relax)]);
    let output = dir.tool("bf-rustc", "-O a.rs -bf-call-stack -o a");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    dir.runs("a");
}

/// What runs while it is built is left alone: only the program leaves a profile.
#[test]
fn a_project() {
    let dir = Sandbox::new(&[
        (
            "Cargo.toml",
            "[package]\nname = \"app\"\nedition = \"2024\"\n[dependencies]\nanswer = { path = \"answer\" }\n[workspace]\n",
        ),
        ("build.rs", "fn main() { println!(\"cargo::rustc-env=TWO={}\", [1, 1].iter().sum::<i32>()) }\n"),
        (
            "src/main.rs",
            "#[cfg(not(all(named, here, given)))]\ncompile_error!(\"\");\n#[cfg(any(elsewhere, otherwise))]\ncompile_error!(\"\");\n\
             fn main() {\n    let two: i32 = env!(\"TWO\").parse().unwrap();\n    println!(\"{}\", two * answer::half!());\n}\n",
        ),
        // As Cargo does, it takes those of all targets that this is, and none of the build then.
        (
            ".cargo/config.toml",
            "[target.x86_64-unknown-linux-gnu]\nrustflags = \"--cfg named -Aunexpected_cfgs\"\n\
             [target.aarch64-unknown-linux-gnu]\nrustflags = \"--cfg named -Aunexpected_cfgs\"\n\
             [target.'cfg(unix)']\nrustflags = [\"--cfg=here\"]\n\
             [target.'cfg(windows)']\nrustflags = [\"--cfg=elsewhere\"]\n[build]\nrustflags = [\"--cfg=otherwise\"]\n",
        ),
        (
            "src/lib.rs",
            "//! ```\n//! assert_eq!(app::two(), 2);\n//! ```\npub fn two() -> i32 { env!(\"TWO\").parse().unwrap() }\n",
        ),
        ("answer/Cargo.toml", "[package]\nname = \"answer\"\nedition = \"2024\"\n[lib]\nproc-macro = true\n"),
        (
            "answer/src/lib.rs",
            "#[proc_macro]\npub fn half(_: proc_macro::TokenStream) -> proc_macro::TokenStream {\n    \
             format!(\"{}\", 42 / 2).parse().unwrap()\n}\n",
        ),
    ]);
    let cargo = |line: &str| {
        let mut command = dir.command(bf_tests::program("bf-cargo"));
        let flags = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_ENCODED_RUSTDOCFLAGS"];
        for name in flags.into_iter().chain(["CARGO_BUILD_TARGET"]) {
            command.env_remove(name);
        }
        command.args(["--config", "target.'cfg(unix)'.rustflags = ['--cfg=given']"]).args(line.split(' '));
        command.env("CARGO_TARGET_DIR", dir.path("target")).output().unwrap()
    };
    let output = cargo("run --quiet --release --offline");
    assert_eq!((text(&output).contains("warning"), &*output.stdout), (false, &b"42\n"[..]), "{}", text(&output));
    assert_eq!(dir.profiles().len(), 1, "{:?}", dir.profiles());
    let output = cargo("test --quiet --release --offline --doc");
    assert!(text(&output).contains("1 passed"), "{}", text(&output));

    // Another option is another build.
    let before = dir.profiles().len();
    let output = cargo("-bf-disable run --quiet --release --offline -- --bf-help");
    assert_eq!((&*output.stdout, dir.profiles().len()), (&b"42\n"[..], before), "{}", text(&output));
    let output = cargo("-bf-verbose build --release --offline");
    assert!(text(&output).contains("bf: app"), "{}", text(&output));
}

#[test]
fn what_cannot_be_built_is_named() {
    let dir = Sandbox::new(&[("a.rs", MAIN)]);
    for (tool, line, code, message) in [
        ("bf-cargo", "build --target wasm32-unknown-unknown", 1, "no runtime for target wasm32-unknown-unknown"),
        ("bf-cargo", "build --config build.target='wasm32'", 1, "no runtime for target wasm32"),
        ("bf-rustc", "--target=wasm32-unknown-unknown a.rs", 1, "no runtime for target wasm32-unknown-unknown"),
        ("bf-cargo", "-bf-nonsense build", 2, "unknown option '-bf-nonsense'"),
    ] {
        let output = dir.tool(tool, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains(message), "{}", text(&output));
    }
}

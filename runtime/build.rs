//! Compiles the C part (thread-local state, variadic `exec`, stack switch) and says which of its symbols the shared
//! library exports.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The allocator that C code linked into the runtime (zstd) would call: all of it goes to the runtime's own.
const WRAPPED: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=exports.txt");
    cc::Build::new().file("src/shim.c").flag("-ftls-model=initial-exec").warnings(true).compile("bf_rt_shim");

    // rustc exports only what Rust defines; a second version script adds the thread-local that C defines.
    let script = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("exports.map");
    fs::write(&script, "{ global: bf_tls; };\n").expect("OUT_DIR is writable");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "aarch64") {
        take_lld();
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbf_rt.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // What the runtime calls under a name that it exports is its own, whatever the program defines.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    for name in WRAPPED {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
}

/// GNU ld does not take two version scripts. rustc's own linker does, but rustc takes that by itself for x86-64 only.
fn take_lld() {
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let answer = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc runs").stdout;
    let (sysroot, host) = (String::from_utf8_lossy(&answer), env::var("HOST").expect("cargo sets HOST"));
    println!("cargo:rustc-cdylib-link-arg=-B{}/lib/rustlib/{host}/bin/gcc-ld", sysroot.trim());
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
}

//! The plugin as compilers use it: programs compiled with it, run against a small recorder in place of the runtime.

mod compilation;
mod origins;
mod recording;
mod toolchain;

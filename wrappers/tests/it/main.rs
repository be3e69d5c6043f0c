//! The wrappers of a staged install tree, as compilers, archivers and in other people's build systems.

mod builds;
mod driver;
mod fortran;
mod lto;
mod rust;
mod sandbox;

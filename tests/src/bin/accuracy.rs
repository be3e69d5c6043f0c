//! Writes the tables of `docs/accuracy.md`: `cargo run --release -p bf-tests --bin accuracy`.
//!
//! Given the word `synthetic`, it leaves the table of real programs as it is: that one takes minutes.
#![forbid(unsafe_code)]

use anyhow::Result;
use bf_tests::accuracy;

fn main() -> Result<()> {
    let mut page = accuracy::page()?;
    page = accuracy::replace(&page, accuracy::SYNTHETIC, &accuracy::synthetic())?;
    if std::env::args().nth(1).as_deref() != Some("synthetic") {
        page = accuracy::replace(&page, accuracy::PROGRAMS, &accuracy::programs()?)?;
    }
    accuracy::write_page(&page)
}

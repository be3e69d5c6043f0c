//! `docs/accuracy.md` says what the code does.

use bf_tests::accuracy;

#[test]
fn the_table_of_synthetic_traces_is_up_to_date() {
    let page = accuracy::page().unwrap();
    let table = accuracy::table(&page, accuracy::SYNTHETIC).unwrap();
    assert!(
        table == accuracy::synthetic(),
        "docs/accuracy.md is out of date; run: cargo run --release -p bf-tests --bin accuracy"
    );
}

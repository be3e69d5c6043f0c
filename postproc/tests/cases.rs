//! The traces of `tests/cases` with the answers of a brute-force simulation: every number must come out, and as exact.

use bf_postproc::{Query, query, replay};
use serde_json::Value;
use std::{fs, io::BufReader, path::PathBuf};

fn case(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/cases").join(name)
}

fn every_number_of(name: &str) {
    let path = case(name);
    let case: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let options = replay::Options { line_sizes: Some(vec![32, 64, 128]), ..replay::Options::default() };
    let file = BufReader::new(fs::File::open(&path).unwrap());
    let profile = replay::replay(file, name, 0, &options).unwrap().profile;
    assert_eq!(u64::from(profile.processes[0].meta.threads), case["threads"].as_u64().unwrap());
    let single = case["single"].as_array().unwrap();
    assert_eq!(single.len(), 57);
    for expected in single {
        let number = |key: &str| expected[key].as_u64().unwrap();
        let (line, sets, ways) = (number("line"), number("sets"), number("ways"));
        let cache = format!("L={}:{ways}:{line}:shared", sets * ways * line);
        let answer = query(&profile, &Query { levels: vec![cache.parse().unwrap()], ..Query::default() }).unwrap();
        let level = &answer.levels[0];
        let got = serde_json::json!({
            "line": level.line_bytes, "sets": level.sets, "ways": level.ways,
            "references": { "load": answer.load_references, "store": answer.store_references },
            "misses": { "load": level.load_misses, "store": level.store_misses },
            "cold": level.cold, "writebacks": level.writebacks,
        });
        assert_eq!(&got, expected, "{name} {cache}");
        assert!(level.exact && !level.clamped && level.bounds.is_none(), "{name} {cache}");
        assert_eq!(level.misses, level.cold + level.capacity.unwrap() + level.conflict.unwrap());
    }
}

#[test]
fn mixed_accesses_of_one_thread() {
    every_number_of("mixed-1t.json");
}

#[test]
fn a_stencil_of_one_thread() {
    every_number_of("stencil-1t.json");
}

#[test]
fn mixed_accesses_of_three_threads_in_a_shared_cache() {
    every_number_of("mixed-3t.json");
}

#[test]
fn a_table_read_by_four_threads_in_a_shared_cache() {
    every_number_of("readshare-4t.json");
}

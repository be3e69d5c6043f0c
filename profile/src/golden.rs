//! Files that earlier versions wrote, in `golden/`, must keep reading to the same values. When a field is added they
//! stay as they are, and only their texts gain its default; when the format changes, files of the new version are added.

use std::fs;
use std::path::PathBuf;

use crate::model::Profile;
use crate::samples::{rich, sampled, tiny_trace};
use crate::{read_file, trace, write_file};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "golden", name].iter().collect()
}

/// One line a process.
fn text(profile: &Profile) -> String {
    profile.processes.iter().map(|process| format!("{process:?}\n")).collect()
}

/// One line for the header, one a record.
fn trace_text(bytes: &[u8]) -> String {
    let trace = trace::Reader::new(bytes).unwrap();
    let header = format!("{:?}\n", trace.header());
    trace.fold(header, |text, record| text + &format!("{:?}\n", record.unwrap()))
}

#[test]
fn profile_of_version_1() {
    assert_eq!(text(&read_file(path("v1.bfp")).unwrap()), fs::read_to_string(path("v1.bfp.txt")).unwrap());
}

#[test]
fn profile_of_version_1_1() {
    let profile = read_file(path("v1.1.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.1.bfp.txt")).unwrap());
}

#[test]
fn coherence_of_version_1_2() {
    let profile = read_file(path("v1.2-coherence.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-coherence.bfp.txt")).unwrap());
}

#[test]
fn sharing_of_version_1_2() {
    let profile = read_file(path("v1.2-sharing.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-sharing.bfp.txt")).unwrap());
}

#[test]
fn blocks_of_version_1_2() {
    let profile = read_file(path("v1.2-blocks.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-blocks.bfp.txt")).unwrap());
}

#[test]
fn counters_by_place_of_version_1_2() {
    let profile = read_file(path("v1.2-places.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-places.bfp.txt")).unwrap());
}

#[test]
fn call_paths_of_version_1_2() {
    let profile = read_file(path("v1.2-paths.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-paths.bfp.txt")).unwrap());
}

#[test]
fn bytes_by_function_of_version_1_2() {
    let profile = read_file(path("v1.2-touched.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-touched.bfp.txt")).unwrap());
}

#[test]
fn blocks_of_sites_of_version_1_2() {
    let profile = read_file(path("v1.2-sites.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2-sites.bfp.txt")).unwrap());
}

/// Every kind of section that a process can have.
#[test]
fn profile_of_version_1_2() {
    let profile = read_file(path("v1.2.bfp")).unwrap();
    assert_eq!(text(&profile), fs::read_to_string(path("v1.2.bfp.txt")).unwrap());
}

#[test]
fn trace_of_version_1() {
    let bytes = fs::read(path("v1.bft")).unwrap();
    assert_eq!(trace_text(&bytes), fs::read_to_string(path("v1.bft.txt")).unwrap());
}

#[test]
#[ignore = "writes files of a new version, to be renamed"]
fn write_golden_files() {
    let both = crate::merge([rich(), sampled()]);
    write_file(path("new.bfp"), &both).unwrap();
    fs::write(path("new.bfp.txt"), text(&both)).unwrap();
    fs::write(path("new.bft"), tiny_trace()).unwrap();
    fs::write(path("new.bft.txt"), trace_text(&tiny_trace())).unwrap();
}

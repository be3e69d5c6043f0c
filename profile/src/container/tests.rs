//! Round trips, paths, and what the writer does with a great many stacks.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::model::Profile;
use crate::samples::{any_profile, rich, sampled, tiny};
use crate::section::{Format, Kind, SectionReader};

/// The bytes of a profile.
pub(crate) fn bytes(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(profile, &mut bytes).unwrap();
    bytes
}

/// Names of the files in a directory, sorted.
fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn samples_are_sound() {
    tiny().validate().unwrap();
    rich().validate().unwrap();
    sampled().validate().unwrap();
}

#[test]
fn reads_what_it_wrote() {
    for profile in [Profile::default(), tiny(), rich(), sampled()] {
        assert_eq!(read(&*bytes(&profile)).unwrap(), profile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_what_it_wrote_whatever_it_is(profile in any_profile()) {
        profile.validate().unwrap();
        let bytes = bytes(&profile);
        prop_assert_eq!(&read(&*bytes).unwrap(), &profile);
        prop_assert_eq!(salvage::salvage(&bytes).unwrap(), (profile, vec![]));
    }
}

#[test]
fn many_stacks_are_spread_over_sections() {
    let mut bytes = Vec::new();
    write::write_split(&rich(), &mut bytes, 100).unwrap();
    let mut sections = SectionReader::new(&*bytes, &Format::PROFILE).unwrap();
    let (mut parts, mut touched) = (0, 0);
    loop {
        match Kind::of(sections.next().unwrap().header.kind) {
            Some(Kind::End) => break,
            Some(Kind::Lines) => parts += 1,
            Some(Kind::TouchedBy) => touched += 1,
            _ => {}
        }
    }
    assert!(parts > 6, "{parts} sections for 3 line sizes");
    assert_eq!(touched, 2, "sections for 3 functions and tags");
    assert_eq!(read(&*bytes).unwrap(), rich());
}

#[test]
fn many_sampled_stacks_are_spread_over_sections() {
    let mut bytes = Vec::new();
    write::write_split(&sampled(), &mut bytes, 300).unwrap();
    assert_eq!(read(&*bytes).unwrap(), sampled());
    assert_eq!(salvage::salvage(&bytes).unwrap(), (sampled(), vec![]));
}

#[test]
fn a_file_is_replaced_and_nothing_left_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.bfp");
    write_file(&path, &rich()).unwrap();
    write_file(&path, &tiny()).unwrap();
    assert_eq!(read_file(&path).unwrap(), tiny());
    assert_eq!(names(directory.path()), ["a.bfp"]);
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.bfp");
    write_file(&path, &tiny()).unwrap();
    let mut huge = tiny();
    huge.processes[0].log = vec!["x".repeat(1 << 20); 65];
    let error = write_file(&path, &huge).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(error.to_string().split(':').next(), Some("section 0 (head of process 0) is too large"));
    assert_eq!(read_file(&path).unwrap(), tiny());
    assert_eq!(names(directory.path()), ["a.bfp"]);
}

#[test]
fn a_full_disk_is_named() {
    let error = write_file("/dev/full", &tiny()).unwrap_err();
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    assert!(error.to_string().starts_with("disk full: "), "{error}");
}

#[test]
fn links_stay_links_and_devices_devices() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target) = (directory.path().join("link"), directory.path().join("target"));
    fs::write(&target, "").unwrap();
    symlink("target", &link).unwrap();
    write_file(&link, &tiny()).unwrap();
    assert!(link.is_symlink());
    assert_eq!(read_file(&target).unwrap(), tiny());

    let null = directory.path().join("null");
    symlink("/dev/null", &null).unwrap();
    write_file(&null, &tiny()).unwrap();
    assert!(null.is_symlink());
    assert_eq!(names(directory.path()), ["link", "null", "target"]);
}

#[test]
fn a_missing_file_is_an_io_error() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none").join("a.bfp");
    assert!(matches!(read_file(&missing).unwrap_err(), Error::Io(_)));
    assert!(matches!(write_file(&missing, &tiny()).unwrap_err(), Error::Io(_)));
    assert!(matches!(salvage_file(&missing).unwrap_err(), Error::Io(_)));
}

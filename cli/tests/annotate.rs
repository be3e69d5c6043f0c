//! `bf annotate` as a user meets it: which file is a profile, and how sure it is of the source.

use bf_profile::{
    CountItem, CountedFunction, Counters, PlaceItem, Places, Process, Profile,
    places::{Function, Site},
};
use std::{fs, path::Path, process::Command, time::SystemTime};
use tempfile::TempDir;

/// What `bf annotate` says on stdout and stderr.
fn annotate(folder: &Path, arguments: &[&str]) -> [String; 2] {
    let output = Command::new(env!("CARGO_BIN_EXE_bf")).current_dir(folder).arg("annotate").args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
}

/// A source whose line 2 stores 7 times in a profile of a run that began so many seconds later.
fn counted(source: &str, profile: &str, later: i64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(source);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "first\nsecond\n").unwrap();
    let places = Places {
        strings: vec![String::new(), "f".to_owned(), path.to_str().unwrap().to_owned()],
        functions: vec![Function { name: 1, display: 1, file: 2, line: 1 }],
        sites: vec![Site { file: 2, line: 2, ..Site::default() }],
        ..Places::default()
    };
    let counters = Counters {
        names: vec!["stores".to_owned()],
        functions: vec![CountedFunction { name: "f".to_owned(), ..CountedFunction::default() }],
        items: vec![CountItem { tag: 0, function: 0, values: vec![(0, 7)] }],
        places: vec![PlaceItem { tag: 0, site: Some(0), values: vec![(0, 7)] }],
        ..Counters::default()
    };
    let mut process = Process { tags: vec![String::new()], places, counters, ..Process::default() };
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    process.meta.start_ns = written.checked_add_signed(later * 1_000_000_000).unwrap();
    fs::create_dir_all(folder.path().join(profile).parent().unwrap()).unwrap();
    bf_profile::write_file(folder.path().join(profile), &Profile { processes: vec![process] }).unwrap();
    folder
}

#[test]
fn source_changed_since_the_run_is_told_once() {
    for (later, remarks) in [(1, 0), (-1, 1)] {
        let folder = counted("a.c", "p.bfp", later);
        let [shown, said] = annotate(folder.path(), &["p.bfp", "a.c"]);
        assert!(shown.lines().any(|line| line.contains(" 7 ") && line.ends_with("second")), "{shown}");
        assert_eq!(said.matches("a.c was changed after the run began").count(), remarks, "{said}");
        assert_eq!(said.lines().count(), remarks, "{said}");
    }
}

#[test]
fn a_profile_may_have_any_name() {
    let folder = counted("a.c", "out.prof", 1);
    let [shown, said] = annotate(folder.path(), &["a.c", "out.prof"]);
    assert!(shown.starts_with("out.prof\n") && said.is_empty(), "{shown}{said}");
}

#[test]
fn a_folder_stands_for_its_profiles() {
    let folder = counted("a.c", "runs/p.bfp", 1);
    let [shown, said] = annotate(folder.path(), &["a.c", "runs"]);
    assert!(shown.starts_with("runs/p.bfp\n") && said.is_empty(), "{shown}{said}");
}

#[test]
fn a_source_is_known_by_its_own_path_where_it_was_compiled_beside() {
    let folder = counted("bld/../src/a.c", "p.bfp", 1);
    let at = |name: &str| folder.path().join(name);
    let whole = at("src/a.c");
    for (here, path) in [("", "src/a.c"), ("", whole.to_str().unwrap()), ("bld", "../src/a.c")] {
        let [shown, said] = annotate(&at(here), &[at("p.bfp").to_str().unwrap(), path]);
        assert!(shown.lines().any(|line| line.contains(" 7 ") && line.ends_with("second")), "{shown}{said}");
    }
}

#[test]
fn a_folder_of_two_lines_stays_on_one() {
    let folder = counted("one\ntwo/a.c", "p.bfp", 1);
    let [shown, _] = annotate(folder.path(), &["p.bfp"]);
    assert!(shown.lines().any(|line| line.ends_with("one\\ntwo/a.c")), "{shown}");
}

#[test]
fn figures_of_a_tag_say_so() {
    let folder = counted("a.c", "p.bfp", 1);
    let path = folder.path().join("p.bfp");
    let mut profile = bf_profile::read_file(&path).unwrap();
    let process = &mut profile.processes[0];
    process.tags.push("solve".to_owned());
    process.counters.items[0].tag = 1;
    process.counters.places[0].tag = 1;
    bf_profile::write_file(&path, &profile).unwrap();
    let [shown, _] = annotate(folder.path(), &["p.bfp", "a.c", "--tag", "solve"]);
    assert!(shown.starts_with("p.bfp\nonly references tagged solve\n") && shown.contains(" 7 "), "{shown}");
    for (format, says) in [
        ("json", "\"tags\": [\n    \"solve\"\n  ]"),
        ("callgrind", "\ndesc: Tags: solve\n"),
        ("sql", "INSERT INTO facts VALUES ('tags', 'solve');"),
    ] {
        let arguments = ["export", "p.bfp", "--tag", "solve", "--to", format, "-o", "-"];
        let output = Command::new(env!("CARGO_BIN_EXE_bf")).current_dir(&folder).args(arguments).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(says), "{output:?}");
    }
}

use super::*;
use crate::{Query, query};
use bf_profile::trace::{Access, Event, Header, Writer};

fn run(text: &str, options: &Options) -> Result<Replayed, ReplayError> {
    replay(text.as_bytes(), "test", 0, options)
}

/// References and misses, by loads and stores, in a fully associative cache of 4 lines.
fn figures(text: &str) -> [u64; 4] {
    let profile = run(text, &Options::default()).unwrap().profile;
    figures_of(&profile)
}

fn figures_of(profile: &Profile) -> [u64; 4] {
    let levels = vec!["L1=256:full:shared".parse().unwrap()];
    let answer = query(profile, &Query { levels, ..Query::default() }).unwrap();
    let level = &answer.levels[0];
    [answer.load_references, answer.store_references, level.load_misses, level.store_misses]
}

#[test]
fn the_formats_say_the_same() {
    let expected = [2, 2, 2, 1];
    assert_eq!(figures("r 1000 8\nw 103c 8 crosses a line\ni 400 4\nr 0x2000 4\n"), [2, 2, 2, 1]);
    assert_eq!(figures("==7== Lackey\nI  400,3\n L 1000,8\n S 103c,8\n L 2000,4\n==7== end\n"), expected);
    assert_eq!(figures(" L 1000,4\n M 2000,8\n"), [2, 1, 2, 0]);
    assert_eq!(figures("0 1000\n1 1040\n2 400\n0 2000\n"), [2, 1, 2, 1]);
    let json = r#"{"name":"x","trace":[[0,4096,8,"r"],[1,4156,8,"w"],[0,8192,4,"r"]],"threads":5,"more":[1]}"#;
    assert_eq!(figures(json), expected);
}

#[test]
fn formats_are_recognised() {
    for (head, format) in [
        ("BFTRACE\0rest", Some(Format::Bf)),
        ("{\"threads\":1", Some(Format::Json)),
        ("\n  { ", Some(Format::Json)),
        ("r 10 4\n", Some(Format::Din)),
        ("2 400000\n", Some(Format::Din)),
        ("==12== Lackey, an example", Some(Format::Lackey)),
        ("I  04001f30,3\n", Some(Format::Lackey)),
        (" S 1ffe,8\n", Some(Format::Lackey)),
        ("hello world", None),
        ("\x7fELF", None),
    ] {
        assert_eq!(Format::detect(head.as_bytes()), format, "{head}");
    }
}

#[test]
fn bad_lines_are_named() {
    for (text, words) in [
        ("r 10 4\nx 10 4\n", ["line 2", "`x`"]),
        ("r 10 4\n\nr zz 4\n", ["line 3", "`zz`"]),
        ("r 10\n", ["line 1", "size"]),
        ("r 10 4294967296\n", ["line 1", "`4294967296`"]),
        (" L 10,4294967296\n", ["line 1", "`4294967296`"]),
        (r#"{"trace":[[0,64,4294967296,"r"]]}"#, ["JSON", "column"]),
        ("r 10 1f\n", ["line 1", "--din-size hex"]),
        ("r -10 4\n", ["line 1", "`-10`"]),
        (" L 10,4\nfrom the program\n", ["line 2", "from the program"]),
        (" L 10,x\n", ["line 1", "`x`"]),
        (r#"{"trace":[[0,1,2,"q"]]}"#, ["JSON", "column"]),
        (r#"{"trace":[[0,1,2]]}"#, ["JSON", "column"]),
        (r#"{"threads":1}"#, ["JSON", "trace"]),
        (r#"{"threads":1,"trace":[[1,64,8,"r"]]}"#, ["thread 1", "1 threads"]),
        (r#"{"trace":[[70000,64,8,"r"]]}"#, ["thread 70000", "4096"]),
        ("", ["trace", "empty"]),
        ("hello world\n", ["known format", "--from"]),
    ] {
        let error = run(text, &Options::default()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
    }
}

#[test]
fn an_access_of_no_bytes_is_none_and_a_trace_may_hold_none() {
    assert_eq!(figures("r 40 0\nr 0 4\n"), [1, 0, 1, 0]);
    assert_eq!(figures(r#"{"threads":1,"trace":[]}"#), [0; 4]);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let with = |line: u32, bits, ways| {
        let options = Options {
            line_sizes: Some(vec![line]),
            max_set_bits: Some(bits),
            max_ways: Some(ways),
            ..Options::default()
        };
        run("r 10 4\n", &options).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(with(64, 24, 255).is_ok());
    assert!(with(48, 16, 64).unwrap_err().contains("48"));
    assert!(with(64, 25, 64).unwrap_err().contains("24"));
    assert!(with(64, 16, 0).unwrap_err().contains("255"));
}

#[test]
fn hexadecimal_sizes_on_request() {
    let options = Options { din_size: DinSize::Hexadecimal, ..Options::default() };
    let profile = run("r 1000 40\nr 2000 4\n", &options).unwrap().profile;
    assert_eq!(figures_of(&profile)[0], 2);
    assert_eq!(figures("r 1000 64\nr 2000 0x41\n")[0], 3);
}

/// Two slots, two tags, some accesses not counted, a range, and a thread that takes a slot over.
fn own_trace() -> Vec<u8> {
    let header = Header {
        meta: Meta { executable: "prog".into(), pid: 7, aslr: Some(false), ..Meta::default() },
        line_sizes: vec![32, 64],
        max_set_bits: 3,
        max_ways: 4,
        ..Header::default()
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header).unwrap();
    let access = |address, size, store| Access { address, size, store };
    writer.event(&Event::SlotTaken { slot: 0 }).unwrap();
    writer.chunk(0, 1, &[access(0x1000, 8, false), access(0x1ff0, 4200, true)]).unwrap();
    writer.event(&Event::SlotTaken { slot: 1 }).unwrap();
    writer.event(&Event::TagName { bucket: 2, name: "solve".into() }).unwrap();
    writer.chunk(1, 2, &[access(0x1000, 8, true)]).unwrap();
    writer.event(&Event::SlotReleased { slot: 1 }).unwrap();
    writer.chunk(0, 0, &[access(0x9000, 8, false)]).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn own_traces_keep_slots_tags_and_limits() {
    let replayed = replay(&own_trace()[..], "ignored", 9, &Options::default()).unwrap();
    let process = &replayed.profile.processes[0];
    assert_eq!(
        (process.meta.executable.as_str(), process.meta.pid, &process.meta.end),
        ("prog", 7, &EndReason::Replay)
    );
    assert_eq!(process.tags, ["", "solve"]);
    assert_eq!((process.meta.accesses, process.meta.threads), (3, 2));
    let sizes: Vec<_> = process.lines.iter().map(|data| (data.line_bytes, data.max_set_bits, data.max_ways)).collect();
    assert_eq!(sizes, [(32, 3, 4), (64, 3, 4)]);
    let levels = vec!["L1=256:full".parse().unwrap()];
    let answer = query(&replayed.profile, &Query { levels, tags: vec!["solve".into()], ..Query::default() }).unwrap();
    assert_eq!((answer.references, answer.levels[0].store_misses), (1, 1));
}

#[test]
fn a_trace_that_ends_early_counts_as_far_as_it_goes() {
    let bytes = own_trace();
    let replayed = replay(&bytes[..bytes.len() - 8], "x", 0, &Options::default()).unwrap();
    assert_eq!(replayed.remarks.len(), 1);
    assert_eq!(replayed.profile.processes[0].log, replayed.remarks);
}

#[test]
fn own_traces_print_in_the_other_formats() {
    let text = |format, sizes| {
        let mut text = Vec::new();
        let printed = print(&own_trace()[..], format, sizes, &mut text).unwrap();
        assert_eq!(printed, Printed { accesses: 4, uncounted: 1, threads: 2, truncated: false });
        String::from_utf8(text).unwrap()
    };
    let din = "r 1000 8\nw 1ff0 16\nw 2000 4096\nw 3000 88\nw 1000 8\nr 9000 8\n";
    assert_eq!(text(Format::Din, DinSize::Decimal), din);
    assert!(text(Format::Din, DinSize::Hexadecimal).contains("w 2000 1000\n"));
    assert_eq!(
        text(Format::Lackey, DinSize::Decimal),
        " L 00001000,8\n S 00001ff0,4200\n S 00001000,8\n L 00009000,8\n"
    );
    let json: serde_json::Value = serde_json::from_str(&text(Format::Json, DinSize::Decimal)).unwrap();
    assert_eq!((&json["threads"], &json["trace"][2]), (&2.into(), &serde_json::json!([1, 4096, 8, "w"])));
    // What was printed replays to the same references.
    assert_eq!(figures(din)[..2], figures(&text(Format::Lackey, DinSize::Decimal))[..2]);
}

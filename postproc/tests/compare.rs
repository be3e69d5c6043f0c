//! Comparisons of small traces whose answer is plain.

use bf_postproc::{
    compare::{CompareError, Comparison, Question, Side, Verdict, compare},
    replay::{Options, Sample, replay},
};
use bf_profile::{CountItem, CountedFunction, Counters, Profile, Strides};

/// Passes over so many lines, each touched so many times in a row.
fn passes(passes: u64, lines: u64, touches: u64) -> Profile {
    let touch = |at: u64| format!("r {:x} 8\n", at * 64).repeat(touches as usize);
    let text: String = (0..passes * lines).map(|i| touch(i % lines)).collect();
    replay(text.as_bytes(), "t", 0, &Options::default()).unwrap().profile
}

fn counting(mut profile: Profile, counts: &[(&str, u64)]) -> Profile {
    profile.processes[0].counters = Counters {
        names: counts.iter().map(|count| count.0.to_owned()).collect(),
        functions: vec![CountedFunction { name: "work".to_owned(), ..CountedFunction::default() }],
        items: vec![CountItem { tag: 0, function: 0, values: (0..).zip(counts.iter().map(|count| count.1)).collect() }],
        blocks: Vec::new(),
        places: Vec::new(),
    };
    profile
}

fn compared(a: &Profile, b: &Profile) -> Comparison {
    let side = |profile| Side { profiles: Vec::new(), profile };
    compare(&side(a), &side(b), &Question::default()).unwrap()
}

fn score(comparison: &Comparison, name: &str) -> f64 {
    comparison.aspects.iter().find(|aspect| aspect.name == name).unwrap_or_else(|| panic!("{name}")).score
}

fn not_compared<'a>(comparison: &'a Comparison, name: &str) -> &'a str {
    &comparison.not_compared.iter().find(|aspect| aspect.name == name).unwrap_or_else(|| panic!("{name}")).why
}

#[test]
fn the_same_on_more_data_for_longer_is_faithful() {
    let (small, large) = (passes(5, 100, 3), passes(20, 1600, 3));
    let found = compared(&small, &large);
    assert_eq!(
        (found.verdict, found.a.working_set_bytes, found.b.working_set_bytes),
        (Verdict::Faithful, 8192, 131_072)
    );
    assert_eq!((found.a.footprint_bytes, found.b.footprint_bytes), (6400, 102_400));
    // First references are 1 in 15 and 1 in 60; of the others 4 in 14 and 19 in 59 miss.
    let (one, other) = (4.0 / 14.0, 19.0 / 59.0);
    let point = found.matched[0];
    assert_eq!((point.a_bytes, point.b_bytes), (256, 256));
    assert!((point.a_miss_ratio - one).abs() < 1e-12 && (point.b_miss_ratio - other).abs() < 1e-12);
    assert!((point.alike - (one + 0.001) / (other + 0.001)).abs() < 1e-12);
    assert!(score(&found, "miss_ratio") > 0.85, "{}", score(&found, "miss_ratio"));
    let gap = found.matched.iter().map(|point| (point.a_miss_ratio - point.b_miss_ratio).abs()).fold(0.0, f64::max);
    assert!(score(&found, "reuse_distance") >= 1.0 - gap - 1e-12);
}

#[test]
fn other_use_of_as_much_data_is_not() {
    let found = compared(&passes(5, 100, 1), &passes(5, 100, 8));
    assert_eq!(found.verdict, Verdict::Unfaithful);
    let cache = found.differ_most.same_cache.unwrap();
    // Every cache that is too small: all references miss, or one in eight.
    assert_eq!((cache.size_bytes, cache.a_miss_ratio, cache.b_miss_ratio), (4096, 1.0, 0.125));
}

#[test]
fn a_side_with_itself_differs_nowhere() {
    let counts = [("branches", 5), ("branches_taken", 5), ("bytes_loaded", 80), ("flops", 40), ("instructions", 100)];
    let one = counting(passes(3, 40, 2), &counts);
    let found = compared(&one, &one);
    assert_eq!((found.score, found.verdict), (1.0, Verdict::Faithful));
    assert!(found.aspects.iter().all(|aspect| aspect.score == 1.0), "{:?}", found.aspects);
}

#[test]
fn the_weakest_essential_aspect_decides() {
    let trace = passes(3, 40, 2);
    let one = counting(trace.clone(), &[("flops", 90), ("instructions", 100)]);
    let other = counting(trace, &[("int_ops", 90), ("instructions", 100)]);
    let found = compared(&one, &other);
    assert_eq!((score(&found, "miss_ratio"), score(&found, "bytes_per_flop")), (1.0, 0.0));
    assert!((score(&found, "instruction_mix") - 0.1).abs() < 1e-12);
    assert_eq!((found.score, found.verdict), (0.0, Verdict::Unfaithful));
    let mix = found.aspects.iter().find(|aspect| aspect.name == "instruction_mix").unwrap();
    assert!(mix.why.contains("flops 90.0 % in A, 0 % in B"), "{}", mix.why);
}

#[test]
fn what_a_profile_lacks_is_not_compared() {
    let plain = passes(3, 40, 2);
    let found = compared(&plain, &counting(plain.clone(), &[("instructions", 100)]));
    assert!(not_compared(&found, "instruction_mix").contains("A holds no counters: compile without -bf-no-counters"));
    assert!(not_compared(&found, "sharing").contains("one thread"));
    assert!(not_compared(&found, "vectorisation").contains("A holds no counters"));
    assert!(not_compared(&found, "functions").contains("-bf-by-func"));
    for name in ["reuse_time", "strides", "tags"] {
        assert!(!not_compared(&found, name).is_empty());
    }
    assert!(found.aspects.iter().all(|aspect| found.not_compared.iter().all(|other| other.name != aspect.name)));
}

#[test]
fn sides_without_a_line_size_in_common() {
    let text = b"r 0 8\n";
    let options = Options { line_sizes: Some(vec![32, 128]), ..Options::default() };
    let other = replay(&text[..], "t", 0, &options).unwrap().profile;
    let side = |profile| Side { profiles: Vec::new(), profile };
    let plain = passes(1, 1, 1);
    let error = compare(&side(&plain), &side(&other), &Question::default()).unwrap_err();
    assert_eq!(error, CompareError::Line { a: "64".to_owned(), b: "32, 128".to_owned() });
    let question = Question { line_bytes: Some(128), ..Question::default() };
    assert_eq!(compare(&side(&other), &side(&other), &question).unwrap().line_bytes, 128);
    let empty = Profile::default();
    let error = compare(&side(&empty), &side(&plain), &Question::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "A holds no references: nothing of its memory was recorded, as with -bf-counters-only"
    );
}

#[test]
fn tags_are_sides_of_their_own() {
    let mut one = passes(5, 100, 3);
    one.processes[0].tags = vec![String::new(), "solve".to_owned()];
    one.processes[0].lines[0].stacks[0].tag = 1;
    let side = |profile| Side { profiles: Vec::new(), profile };
    let ask = |tag: &str| {
        let question = Question { tags: vec![tag.to_owned()], ..Question::default() };
        compare(&side(&one), &side(&one), &question)
    };
    assert_eq!(ask("solve").unwrap().score, 1.0);
    assert!(ask("absent").unwrap_err().to_string().starts_with("A: no tag `absent`"));
    assert_eq!(ask("").unwrap_err(), CompareError::Nothing("A", " under the tags asked for"));
    let found = compared(&one, &one);
    assert_eq!(found.by_tag.unwrap().parts[0].name, "solve");
}

/// Two threads that store in turns: in one line, or each in its own.
fn in_turns(lines: u64) -> Profile {
    let store = |at: u64| format!("[{},{},8,\"w\"]", at % 2, at % lines * 64);
    let trace: Vec<String> = (0..200).map(store).collect();
    let text = format!("{{\"threads\":2,\"trace\":[{}]}}", trace.join(","));
    replay(text.as_bytes(), "t", 0, &Options::default()).unwrap().profile
}

#[test]
fn threads_that_take_lines_from_each_other_are_told_from_those_that_do_not() {
    let (one, own) = (in_turns(1), in_turns(2));
    assert_eq!(score(&compared(&one, &one), "sharing"), 1.0);
    assert_eq!(score(&compared(&own, &own), "sharing"), 1.0);
    let found = compared(&one, &own);
    assert!(score(&found, "sharing") < 0.01);
    let why = &found.aspects.iter().find(|aspect| aspect.name == "sharing").unwrap().why;
    // All but the first of each thread.
    assert!(why.contains("99.0 % in A, 0 % in B"), "{why}");
    let alone = compared(&one, &passes(3, 40, 2));
    assert_eq!(not_compared(&alone, "sharing"), "B ran with one thread");
}

#[test]
fn a_sample_is_compared_as_far_as_it_tells() {
    let text: String = (0..32_768).map(|at| format!("r {:x} 8\n", at % 8192 * 64)).collect();
    let replayed = |sample| {
        let options = Options { sample, ..Options::default() };
        replay(text.as_bytes(), "t", 0, &options).unwrap().profile
    };
    let (all, part) = (replayed(None), replayed(Sample::parse("1/4").unwrap()));
    let found = compared(&part, &all);
    assert!(found.a.sampled && !found.b.sampled);
    assert!(score(&found, "miss_ratio") > 0.95 && score(&found, "reuse_distance") > 0.9, "{:?}", found.aspects);
    assert!(not_compared(&found, "associativity").starts_with("A is a sample"));
    assert!(found.curves[0].a_miss_ratio.is_none() && found.curves[0].b_miss_ratio == Some(1.0));
    assert!(found.matched[0].a_bytes >= 64 * 1024, "{:?}", found.matched[0]);
}

#[test]
fn strides_that_both_tell() {
    let striding = |counts: &[(u8, u64)]| {
        let mut profile = passes(3, 40, 2);
        let counts = counts.to_vec();
        profile.processes[0].patterns.strides = vec![Strides { bytes: 8, counts, ..Strides::default() }];
        profile
    };
    let (steady, jumping) =
        (striding(&[(1, 75), (8, 25), (Strides::FIRST, 9)]), striding(&[(1, 25), (8, 25), (Strides::OTHER, 50)]));
    assert_eq!(score(&compared(&steady, &steady), "strides"), 1.0);
    let found = compared(&steady, &jumping);
    assert!((score(&found, "strides") - 0.5).abs() < 1e-12);
    let why = &found.aspects.iter().find(|aspect| aspect.name == "strides").unwrap().why;
    assert!(why.contains("furthest apart: other ways forward, 0 % in A, 50.0 % in B"), "{why}");
    let silent = compared(&steady, &passes(3, 40, 2));
    assert_eq!(
        not_compared(&silent, "strides"),
        "no strides in B: compile with -bf-strides, or run with BF_PATTERNS=strides"
    );
}

#[test]
fn functions_without_a_counterpart_are_none_of_it_and_not_less() {
    let side = |name: &str| {
        let mut profile = counting(passes(5, 100, 3), &[("instructions", 900)]);
        profile.processes[0].counters.functions[0].name = name.to_owned();
        profile
    };
    let functions = compared(&side("one"), &side("other")).functions.unwrap();
    let matched = [functions.a_matched, functions.b_matched];
    assert!(matched.iter().all(|share| *share == 0.0 && share.is_sign_positive()), "{matched:?}");
}

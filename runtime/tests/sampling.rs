//! `BF_SAMPLE`: some lines are followed, all references counted.

mod common;

use bf_profile::{Owner, Process};
use common::run;

/// All loads of an owner under a tag, followed or not.
fn loads(process: &Process, owner: Owner, tag: &str) -> u64 {
    let wanted = process.tags.iter().position(|name| name == tag).unwrap();
    let mut references = process.sampled[0].references.iter();
    references.find(|all| (all.owner, all.tag as usize) == (owner, wanted)).map_or(0, |all| all.count[0])
}

#[test]
fn calipers_hold_for_a_sample() {
    for variables in [&[("BF_SAMPLE", "1/2")][..], &[("BF_SAMPLE", "1/2"), ("BF_STOP", "ignore")]] {
        let process = run(&["calipers"], variables).only();
        process.validate().unwrap();
        let of = |tag| loads(&process, Owner::Slot(0), tag);
        assert_eq!((of(""), of("one"), of("two")), (1001, 34, 5));
        assert_eq!((process.meta.accesses, process.lines.len()), (1040, 0));
        // The first loop touched a thousand lines that lie together, and more than that was not counted.
        let stacks = process.sampled[0].full.iter().flat_map(|group| &group.stacks);
        let cold: u64 = stacks.map(|stack| stack.histograms.cold[0]).sum();
        assert!((480..=520).contains(&cold), "{cold}");
    }
}

#[test]
fn the_stack_of_all_threads_is_sampled_too() {
    for helpers in ["0", "2"] {
        let variables = [("BF_SAMPLE", "0.1"), ("BF_LINE_SIZE", "64,128"), ("BF_THREADS", helpers)];
        let process = run(&["tag-threads"], &variables).only();
        process.validate().unwrap();
        assert_eq!(process.sampled.len(), 2);
        for data in &process.sampled {
            let all = |owner: fn(&Owner) -> bool| -> u64 {
                data.references.iter().filter(|one| owner(&one.owner)).map(|one| one.count[0]).sum()
            };
            assert_eq!(all(|owner| *owner == Owner::Global), 820_001);
            assert_eq!(all(|owner| *owner != Owner::Global), 820_001);
        }
        assert_eq!(loads(&process, Owner::Slot(0), "odd"), 10_000);
    }
}

#[test]
fn a_rate_that_cannot_be_is_remarked_on() {
    for (rate, remark) in [
        ("0", "BF_SAMPLE: a sampling rate of 0 is not in 1/1048576..=1, ignored"),
        ("abc", "BF_SAMPLE: \"abc\" is no sampling rate; write 0.01 or 1/64, or 1 for all, ignored"),
    ] {
        let process = run(&["return"], &[("BF_SAMPLE", rate)]).only();
        assert_eq!((process.log, process.sampled), (vec![remark.to_owned()], vec![]));
        assert_eq!(process.lines.len(), 1);
    }
}

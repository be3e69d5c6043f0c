//! Who shares what: real threads that count side by side, each in a line of its own, all together, or only read.

use bf_tests::sandbox::{Sandbox, succeed, text};
use serde_json::Value;

const COUNTERS: &str = include_str!("../programs/counters.c");
const THREADS: u64 = 4;
/// Each of the threads, in all its turns.
const STEPS: u64 = 8 * 8192;

/// The number of the line of the program that ends in this comment.
fn line(comment: &str) -> u64 {
    let ends = |line: &str| line.ends_with(&format!("/* {comment} */"));
    1 + COUNTERS.lines().position(ends).unwrap() as u64
}

/// The program, compiled and run.
fn counted(options: &[&str], arguments: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("counters.c", COUNTERS);
    sandbox.bf_clang(["counters.c", "-O1", "-g", "-pthread", "-o", "counters"].iter().chain(options).copied());
    let _ = succeed(sandbox.program("counters").args(arguments));
    sandbox
}

fn findings(sandbox: &Sandbox) -> Vec<Value> {
    let answer = sandbox.bf(&["sharing"]);
    assert_eq!((&answer["schema"], &answer["dropped_lines"]), (&"bf.sharing/1".into(), &0.into()));
    answer["findings"].as_array().unwrap().clone()
}

/// The finding about a variable, if there is one.
fn about<'a>(findings: &'a [Value], name: &str) -> Option<&'a Value> {
    findings.iter().find(|finding| finding["object"]["name"] == name)
}

/// Threads that stored, and what they did there: all from the one line of the source.
fn storing<'a>(finding: &'a Value, function: &str, comment: &str) -> Vec<&'a Value> {
    let threads = finding["threads"].as_array().unwrap().iter();
    let threads: Vec<_> = threads.filter(|thread| thread["stores"].as_u64().unwrap() > 0).collect();
    for thread in &threads {
        let place = &thread["places"][0];
        assert_eq!((&place["function"], &place["line"]), (&function.into(), &line(comment).into()));
        assert!(place["file"].as_str().unwrap().ends_with("counters.c"), "{place}");
    }
    threads
}

#[test]
fn counters_side_by_side_are_falsely_shared() {
    let sandbox = counted(&[], &[]);
    let findings = findings(&sandbox);
    let finding = about(&findings, "counters").unwrap();
    assert_eq!((&finding["kind"], &finding["lines"], &finding["offset"]), (&"false".into(), &1.into(), &0.into()));
    assert_eq!(findings[0], *finding, "it is the worst");
    assert!(finding["false_misses"].as_u64().unwrap() >= THREADS, "{finding}");
    assert_eq!(finding["true_misses"], finding["threads"][0]["true_misses"], "only the main thread reads all");
    let threads = storing(finding, "count", "own");
    assert_eq!(threads.len() as u64, THREADS);
    let mut bytes: Vec<_> = threads.iter().map(|thread| thread["stored"].clone()).collect();
    bytes.sort_by_key(|ranges| ranges[0][0].as_u64());
    assert_eq!(Value::from(bytes), serde_json::json!([[[0, 7]], [[8, 15]], [[16, 23]], [[24, 31]]]));
    for thread in threads {
        // What the first one did before there was a second is not counted.
        let stores = thread["stores"].as_u64().unwrap();
        assert!(stores == STEPS || stores < STEPS && thread["stored_before"] == true, "{thread}");
        assert_eq!(thread["loads"], thread["stores"]);
    }

    let mut command = sandbox.command(bf_tests::program("bf"));
    let shown = text(&succeed(command.arg("sharing").arg(&sandbox.profile_files()[0])).stdout);
    assert!(shown.contains("1. counters: false sharing\n"), "{shown}");
    assert!(shown.contains(&format!("count (counters.c:{})", line("own"))), "{shown}");
    assert!(shown.contains("Mend: "), "{shown}");
}

#[test]
fn blocks_and_stacks_have_names_too() {
    let findings = findings(&counted(&[], &["heap"]));
    let name = format!("main (counters.c:{})", line("block"));
    let finding = about(&findings, &name).unwrap_or_else(|| panic!("{name}: {findings:?}"));
    assert_eq!((&finding["object"]["kind"], &finding["kind"]), (&"heap".into(), &"false".into()));
    assert_eq!((&finding["object"]["bytes"], &finding["offset"]), (&(32 + 64).into(), &0.into()));
    let findings = self::findings(&counted(&[], &["stack"]));
    let finding = about(&findings, "stack of thread 0").unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!((&finding["object"]["kind"], &finding["kind"]), (&"stack".into(), &"false".into()));
}

/// Each used by one thread, and on one line.
#[test]
fn all_that_is_used_on_a_line_has_a_name() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "pairs.c",
        "#include <pthread.h>
        #include <stdlib.h>
        volatile long alpha __attribute__((aligned(64))) = 1, beta = 1;
        static volatile long *blocks[9];
        static pthread_barrier_t turn;
        static void *work(void *which) {
          volatile long *own = which ? &beta : &alpha, *block = blocks[7 + (which != 0)];
          for (int i = 0; i < 20 * 4096; i++) {
            if (i % 4096 == 0) pthread_barrier_wait(&turn);
            ++*own, ++*block;
          }
          return 0;
        }
        int main() {
          pthread_t other;
          for (int i = 0; i < 7; i++) blocks[i] = malloc(24);
          for (int i = 0; i < 6; i++)
            if ((long)blocks[i] / 64 == (long)blocks[i + 1] / 64) blocks[7] = blocks[i], blocks[8] = blocks[i + 1];
          pthread_barrier_init(&turn, 0, 2);
          pthread_create(&other, 0, work, &other);
          work(0);
          pthread_join(other, 0);
          return 0;
        }
        ",
    );
    sandbox.bf_clang(["pairs.c", "-O1", "-g", "-bf-data-structs", "-pthread", "-o", "pairs"]);
    let _ = succeed(&mut sandbox.program("pairs"));
    let findings = findings(&sandbox);
    let finding = about(&findings, "alpha, beta").unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!((&finding["kind"], &finding["object"]["bytes"]), (&"false".into(), &Value::Null));
    let stored: Vec<_> = finding["threads"].as_array().unwrap().iter().map(|thread| &thread["stored"]).collect();
    assert_eq!(stored, [&serde_json::json!([[0, 7]]), &serde_json::json!([[8, 15]])]);
    let finding = about(&findings, "main (pairs.c:16), 2 of them").unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!((&finding["kind"], &finding["object"]["count"]), (&"false".into(), &Value::Null));
    assert!(finding["advice"].as_str().unwrap().contains("aligned_alloc"), "{finding}");
}

/// Threads share a block; when they have ended the main thread alone uses another one in its place.
#[test]
fn what_gets_the_memory_of_a_shared_block_is_not_blamed() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "stale.c",
        "#include <pthread.h>
        #include <stdlib.h>
        static volatile long *counters;
        static pthread_barrier_t turn;
        static void *work(void *which) {
          for (int i = 0; i < 20 * 4096; i++) {
            if (i % 4096 == 0) pthread_barrier_wait(&turn);
            counters[which != 0]++;
          }
          return 0;
        }
        int main() {
          pthread_t all[2];
          char *block = malloc(512); /* shared */
          counters = (long *)(((long)block + 63) / 64 * 64);
          pthread_barrier_init(&turn, 0, 2);
          for (long i = 0; i < 2; i++) pthread_create(&all[i], 0, work, (void *)i);
          for (long i = 0; i < 2; i++) pthread_join(all[i], 0);
          long sum = counters[0] + counters[1];
          free(block);
          volatile char *name = malloc(512); /* alone */
          for (int i = 0; i < 512; i++) name[i] = (char)sum;
          return name != block;
        }
        ",
    );
    sandbox.bf_clang(["stale.c", "-O1", "-g", "-pthread", "-o", "stale"]);
    let _ = succeed(&mut sandbox.program("stale"));
    let findings = findings(&sandbox);
    let finding = about(&findings, "main (stale.c:14)").unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!((&finding["kind"], &finding["object"]["bytes"]), (&"false".into(), &512.into()));
    assert!(finding["advice"].as_str().unwrap().contains("alignas"), "one block is not to be moved: {finding}");
    let lines = finding["threads"].as_array().unwrap().iter().flat_map(|thread| thread["places"].as_array().unwrap());
    assert!(lines.map(|place| place["line"].as_u64().unwrap()).all(|line| line < 21), "{finding}");
    assert_eq!((&finding["stored_by"]["function"], &finding["stored_by"]["line"]), (&"work".into(), &8.into()));
    assert_eq!(about(&findings, "main (stale.c:21)"), None);
}

/// A linker puts what is aligned to more than a page into a segment of its own, which the file has nothing of.
#[test]
fn an_array_that_is_aligned_to_many_pages_has_a_name() {
    let findings = findings(&counted(&["-DALIGNED=0x100000"], &[]));
    assert_eq!(about(&findings, "counters").unwrap()["kind"], "false");
}

#[test]
fn counters_in_lines_of_their_own_are_not() {
    let findings = findings(&counted(&["-DPADDED"], &[]));
    assert_eq!(about(&findings, "counters"), None);
}

#[test]
fn one_counter_for_all_is_truly_shared() {
    let findings = findings(&counted(&[], &["one"]));
    let finding = about(&findings, "total").unwrap();
    assert_eq!((&finding["kind"], &finding["false_misses"]), (&"true".into(), &0.into()));
    assert_eq!(
        (&finding["advice"], storing(finding, "count_together", "together").len() as u64),
        (&Value::Null, THREADS)
    );
    assert!(finding["true_misses"].as_u64().unwrap() >= THREADS, "{finding}");
}

#[test]
fn a_table_that_all_read_is_not_shared() {
    let sandbox = counted(&[], &["read"]);
    assert_eq!(about(&findings(&sandbox), "table"), None);
    let tracked = &sandbox.bf(&["sharing"])["lines_tracked"];
    assert!(tracked.as_u64().unwrap() >= 8, "its lines were looked at: {tracked}");
}

#[test]
fn what_the_standard_library_does_is_named_by_the_program_s_line() {
    let program = "#include <atomic>\n#include <thread>\n#include <vector>\nstd::atomic<long> hits[4];\nint main() {\n\
                   std::vector<std::thread> all;\nfor (int at = 0; at < 4; at++)\nall.emplace_back([at] { for (int i = 0; i < 40000; i++)\n\
                   hits[at].fetch_add(i);\n});\nfor (auto &one : all) one.join();\nreturn hits[0] == 1;\n}\n";
    let sandbox = Sandbox::new();
    sandbox.write("hits.cpp", program);
    let _ = succeed(
        sandbox.command(bf_tests::program("bf-clang++")).args(["hits.cpp", "-O2", "-g", "-pthread", "-o", "hits"]),
    );
    let _ = succeed(&mut sandbox.program("hits"));
    let findings = findings(&sandbox);
    let finding = about(&findings, "hits").unwrap_or_else(|| panic!("{findings:?}"));
    let threads = finding["threads"].as_array().unwrap().iter();
    for thread in threads.filter(|thread| thread["stores"].as_u64().unwrap() > 0) {
        let place = &thread["places"][0];
        assert!(place["file"].as_str().unwrap().ends_with("hits.cpp") && place["line"] == 9, "{place}");
    }
}

/// Two threads that take turns, and store to volatile memory of their own again and again: that releases something, too, for nobody.
#[test]
fn who_takes_turns_comes_after_what_was_done_before() {
    let source = "#include <pthread.h>
        #include <sched.h>
        #include <semaphore.h>
        #include <stdatomic.h>
        static long shared[64 * 8] __attribute__((aligned(64)));
        static volatile long own[2][64] __attribute__((aligned(64)));
        #ifdef WORD
        static struct { _Alignas(64) atomic_long value; } turn;
        static void wait_for(long now) {
            while (atomic_load_explicit(&turn.value, memory_order_relaxed) != now) sched_yield();
            atomic_thread_fence(memory_order_acquire);
        }
        static void give(long next) { atomic_store_explicit(&turn.value, next, memory_order_release); }
        #else
        static sem_t turns[2];
        static void wait_for(long now) { sem_wait(&turns[now & 1]); }
        static void give(long next) { sem_post(&turns[next & 1]); }
        #endif
        static void *work(void *number) {
            for (long turn = (long)number; turn < 400; turn += 2) {
                wait_for(turn);
                for (int i = 0; i < 600; i++) own[turn & 1][i & 63] = i;
                for (int i = 0; i < 64; i++) shared[8 * i]++;
                give(turn + 1);
            }
            return 0;
        }
        int main(void) {
            pthread_t other;
        #ifndef WORD
            sem_init(&turns[0], 0, 1);
            sem_init(&turns[1], 0, 0);
        #endif
            pthread_create(&other, 0, work, (void *)1);
            work(0);
            return pthread_join(other, 0);
        }";
    // The word that says whose turn it is goes around, too.
    for (flag, most) in [("-DSEMAPHORE", 0), ("-DWORD", 800)] {
        let sandbox = Sandbox::new();
        sandbox.c(source, &["-O1", "-pthread", flag]);
        let _ = succeed(sandbox.command("./a.out").env("BF_PROFILE", "a.bfp"));
        let answer = sandbox.bf(&["query", "a.bfp", "--cache", "L1=64K:full"]);
        let received = answer["levels"][0]["invalidations_received"].as_u64().unwrap();
        assert!((0..=most).contains(&(received.wrapping_sub(64 * 399))), "{received} {flag}");
    }
}

/// The one that was made last makes its first access first.
#[test]
fn threads_are_numbered_as_they_were_made() {
    let sandbox = Sandbox::new();
    let source = "#include <pthread.h>
        #include <semaphore.h>
        static sem_t turns[5];
        static pthread_barrier_t all;
        long lines[4096 * 8];
        static void *work(void *number) {
            long mine = (long)number;
            sem_wait(&turns[mine]);
            for (long i = 0; i < 1000 * mine; i++) lines[8 * i] = mine;
            sem_post(&turns[mine - 1]);
            pthread_barrier_wait(&all);
            return 0;
        }
        int main(void) {
            pthread_t others[5];
            for (long i = 0; i < 5; i++) sem_init(&turns[i], 0, i == 4);
            pthread_barrier_init(&all, 0, 5);
            for (long i = 1; i < 5; i++) pthread_create(&others[i], 0, work, (void *)i);
            pthread_barrier_wait(&all);
            for (long i = 1; i < 5; i++) pthread_join(others[i], 0);
            return 0;
        }";
    sandbox.c(source, &["-O1", "-pthread"]);
    for order in ["time", "slots"] {
        let mut program = sandbox.command("./a.out");
        let _ = succeed(program.env("BF_PROFILE", "a.bfp").env("BF_TRACE", "a.bft").env("BF_ORDER", order));
        let _ = sandbox.bf(&["replay", "a.bft", "-o", "b.bfp"]);
        for profile in ["a.bfp", "b.bfp"] {
            let level = &sandbox.bf(&["query", profile, "--cache", "L1=1M:full", "--by", "thread"])["levels"][0];
            let of = |thread: usize, figure: &str| level["threads"][thread][figure].as_u64().unwrap();
            for (thread, stores) in [(1, 1000), (2, 2000), (3, 3000), (4, 4000)] {
                assert_eq!(of(thread, "references"), stores, "{order} {profile}: {level}");
            }
            // Who comes later takes the lines of who came before: it has more or fewer of them.
            assert_eq!(level["invalidations_received"], 6000);
        }
    }
}

//! Real programs of several threads, by OpenMP, a pool of POSIX threads and C++: figures of private and shared caches beside
//! what is known by hand.

use bf_tests::sandbox::{Build, Sandbox, succeed, text};
use serde_json::Value;

const TEAM: &str = include_str!("../programs/team.c");
const EXCHANGE: &str = include_str!("../programs/exchange.c");
const ONCE: &str = include_str!("../programs/once.cpp");
const POOL: &str = include_str!("../programs/pool.c");
const ROUNDS: &str = include_str!("../programs/rounds.cpp");

/// A number that the program defines: `#define NAME 1`, or `NAME = 1`.
fn constant(program: &str, name: &str) -> u64 {
    let words: Vec<&str> = program.split([' ', '\n', ',', ';', '=']).filter(|word| !word.is_empty()).collect();
    let value = |pair: &[&str]| if pair[0] == name { pair[1].parse().ok() } else { None };
    words.windows(2).find_map(value).unwrap()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// A figure of each thread of a level.
fn each(level: &Value, key: &str) -> Vec<u64> {
    level["threads"].as_array().unwrap().iter().map(|thread| number(thread, key)).collect()
}

/// The levels of a query whose private levels' threads add up to what the level itself says.
fn levels(sandbox: &Sandbox, query: &[&str]) -> Vec<Value> {
    let answer = sandbox.bf(&[&["query", "--by", "thread"], query].concat());
    let levels = answer["levels"].as_array().unwrap().clone();
    for level in &levels {
        if level["scope"] == "shared" {
            assert_eq!(level.get("threads"), None, "{level}");
            continue;
        }
        for key in ["references", "misses", "remote"] {
            assert_eq!(each(level, key).iter().sum::<u64>(), number(level, key), "{key} of {level}");
        }
        assert_eq!(
            each(level, "invalidations").iter().sum::<u64>(),
            number(level, "invalidations_received"),
            "{level}"
        );
        assert_eq!(number(level, "invalidations_sent"), number(level, "invalidations_received"), "{level}");
    }
    levels
}

/// A function's figures.
fn function(report: &Value, name: &str) -> Value {
    let items = report["items"].as_array().unwrap();
    items.iter().find(|item| item["name"].as_str().unwrap().starts_with(name)).unwrap().clone()
}

/// The team's program, run with some threads.
fn team(threads: u64, order: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("team.c", TEAM);
    sandbox.bf_clang(["-fopenmp", "-O2", "team.c", "-o", "team"]);
    let mut program = sandbox.program("team");
    let output = succeed(program.env("OMP_NUM_THREADS", threads.to_string()).env("BF_ORDER", order));
    assert_eq!(text(&output.stdout), format!("{threads} {}\n", threads * constant(TEAM, "ADDS")));
    sandbox
}

/// What a phase did, in an L1 that a block does not fit in, in an L2 that it does, and in a shared L3 for all.
fn phase(sandbox: &Sandbox, name: &str) -> Vec<Value> {
    let caches = ["--cache", "L1=16K:full", "--cache", "L2=64K:full", "--cache", "L3=1M:full:shared"];
    levels(sandbox, &[&caches[..], &["--tag", name]].concat())
}

/// Reads of one's own: round and round, all miss in a cache that is too small, and each line once in one that is not. What the
/// others do has no part in it.
fn blocks_are_everybodys_own(sandbox: &Sandbox, threads: u64) {
    let (lines, passes) = (constant(TEAM, "BLOCK_LINES"), constant(TEAM, "PASSES"));
    let [l1, l2, l3] = &phase(sandbox, "blocks")[..] else { panic!("three levels") };
    for (level, misses) in [(l1, lines * passes), (l2, lines)] {
        assert_eq!(each(level, "misses"), vec![misses; threads as usize], "{level}");
        assert_eq!((number(level, "remote"), number(level, "invalidations_received")), (0, 0), "{level}");
    }
    assert_eq!(number(l1, "references"), threads * lines * passes);
    assert_eq!((number(l3, "misses"), number(l3, "cold")), (threads * lines, threads * lines));
}

/// A table that nobody stores to: each thread fetches each line once, all but one of them from another's cache.
fn a_table_is_everybodys(sandbox: &Sandbox, threads: u64) -> Vec<u64> {
    let lines = constant(TEAM, "TABLE_LINES");
    let [l1, _, l3] = &phase(sandbox, "table")[..] else { panic!("three levels") };
    assert_eq!(each(l1, "misses"), vec![lines; threads as usize]);
    assert_eq!((number(l1, "remote"), number(l1, "invalidations_received")), ((threads - 1) * lines, 0));
    assert_eq!(number(l3, "misses"), lines);
    each(l1, "remote")
}

/// With `BF_ORDER=slots` each thread does all its adding before the next does any: the line goes from each to the next, once.
#[test]
fn an_openmp_team_one_after_the_other() {
    for threads in [2, 4] {
        let sandbox = team(threads, "slots");
        blocks_are_everybodys_own(&sandbox, threads);
        let lines = constant(TEAM, "TABLE_LINES");
        let first_then_rest =
            |first: u64, rest: u64| (0..threads).map(|at| if at == 0 { first } else { rest }).collect();
        let remote: Vec<u64> = first_then_rest(0, lines);
        assert_eq!(a_table_is_everybodys(&sandbox, threads), remote);

        let [l1, _, l3] = &phase(&sandbox, "sum")[..] else { panic!("three levels") };
        assert_eq!(number(l1, "references"), threads * constant(TEAM, "ADDS"));
        assert_eq!(each(l1, "misses"), vec![1; threads as usize]);
        assert_eq!(each(l1, "remote"), first_then_rest(0, 1));
        let mut taken = each(l1, "invalidations");
        assert_eq!(taken.pop(), Some(0), "nobody came after the last");
        assert!(taken.iter().all(|taken| *taken == 1), "{taken:?}");
        assert_eq!((number(l1, "dirty_transfers"), number(l1, "coherence")), (threads - 1, 0));
        assert_eq!(number(l3, "misses"), 1);
    }
}

/// In the order of time as well, where threads' references do not depend on each other's.
#[test]
fn an_openmp_team_in_the_order_of_time() {
    let sandbox = team(3, "time");
    blocks_are_everybodys_own(&sandbox, 3);
    let _ = a_table_is_everybodys(&sandbox, 3);
    let [l1, _, l3] = &phase(&sandbox, "sum")[..] else { panic!("three levels") };
    // Every miss but the first takes the line from who had it.
    assert_eq!(number(l1, "misses") - 1, number(l1, "remote"));
    assert!(each(l1, "misses").iter().all(|misses| *misses >= 1) && number(l3, "misses") == 1, "{l1} {l3}");
}

/// A program of one file, compiled with some numbers defined.
fn compiled(name: &str, program: &str, numbers: &[(&str, u64)], options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    let source = format!("{name}.c");
    sandbox.write(&source, program);
    let defined: Vec<_> = numbers.iter().map(|(number, value)| format!("-D{number}={value}")).collect();
    let defined = defined.iter().map(String::as_str);
    sandbox.bf_clang(options.iter().copied().chain(defined).chain([&*source, "-o", name]));
    sandbox
}

/// What one thread writes takes away what the other has read, every round: blocks that they exchange, of so many lines each, so
/// often. Accesses that came in rounds like one before, in each run.
fn exchange(lines: u64, rounds: u64, options: &[&str]) -> Vec<u64> {
    let numbers = [("LINES", lines), ("ROUNDS", rounds)];
    let sandbox = compiled("exchange", EXCHANGE, &numbers, &[&["-O2"], options].concat());
    let run = |helpers| {
        let mut program = sandbox.program("exchange");
        program.env("BF_THREADS", helpers).env("BF_PROFILE", "exchange.bfp").env("BF_VERBOSE", "1");
        let output = succeed(&mut program);
        assert_eq!(text(&output.stdout), format!("{}\n", lines * 8 * rounds * (rounds + 1)));
        let answer = levels(&sandbox, &["--cache", "L1=4M:full", "exchange.bfp"]);
        let taken = lines * (rounds - 1);
        // And what they wait with, which goes around as well.
        let others = match options.last() {
            // At least at every second barrier: who comes last to one may come first to the next.
            Some(&"-DCONDITION") => rounds..=8 * rounds,
            Some(&"-DATOMIC" | &"-DMUTEX" | &"-DSHARED") => rounds..=4 * rounds,
            _ => 0..=2,
        };
        let found = each(&answer[0], "invalidations");
        assert!(found.iter().all(|lines| others.contains(&(lines - taken))), "{found:?} with {helpers} helpers");
        let coherence = number(&answer[0], "coherence");
        assert!((0..=2 * others.end()).contains(&(coherence - 2 * taken)), "{coherence} with {helpers} helpers");
        let (said, word) = (text(&output.stderr), " of ");
        let again = said.lines().find(|line| line.contains("came in rounds")).map(|line| {
            let (number, _) = line.trim_start_matches("bf: ").split_once(word).unwrap();
            number.parse().unwrap()
        });
        again.unwrap_or_default()
    };
    ["0", "1"].map(run).to_vec()
}

#[test]
fn blocks_that_are_exchanged_every_round() {
    // Long loops come between each other though they take little room in a buffer.
    let _ = exchange(4096, 10, &["-fopenmp"]);
}

/// A buffer has room for many rounds. What waits for what is known all the same, and most of it is the same again.
#[test]
fn blocks_that_are_exchanged_in_a_moment() {
    let (lines, rounds) = (8, 20_000);
    for options in [&["-fopenmp"], &["-pthread"]] {
        for again in exchange(lines, rounds, options) {
            let all = 2 * 3 * 8 * lines * rounds;
            assert!(again > all / 4, "{again} of {all}");
        }
    }
}

#[test]
fn blocks_that_are_exchanged_by_semaphores() {
    for (lines, rounds) in [(8, 500), (4096, 10)] {
        let _ = exchange(lines, rounds, &["-pthread", "-DSEMAPHORE"]);
    }
}

#[test]
fn blocks_that_are_exchanged_by_pipes() {
    for (lines, rounds) in [(8, 500), (4096, 10)] {
        let _ = exchange(lines, rounds, &["-pthread", "-DPIPE"]);
    }
}

#[test]
fn blocks_that_are_exchanged_by_a_condition() {
    for (lines, rounds) in [(8, 500), (4096, 10)] {
        let _ = exchange(lines, rounds, &["-pthread", "-DCONDITION"]);
    }
}

/// A thread that waits looks at one word again and again meanwhile.
#[test]
fn blocks_that_are_exchanged_by_atomics() {
    for (lines, rounds) in [(8, 500), (4096, 10)] {
        let _ = exchange(lines, rounds, &["-pthread", "-DATOMIC"]);
    }
}

/// Who comes later waits until what is to be done once is done, and stores where that was stored.
#[test]
fn lines_that_are_stored_once_and_then_again() {
    let (lines, rounds) = (constant(ONCE, "LINES"), constant(ONCE, "ROUNDS"));
    let taken = 2 * lines * (rounds - 1);
    for way in ["-DGUARD", "-DPOSIX", "-DSTANDARD"] {
        let sandbox = Sandbox::new();
        sandbox.write("once.cpp", ONCE);
        let mut compiler = sandbox.command(Build::Bf.cxx());
        sandbox.compile(&mut compiler, ["-O2", "-pthread", way, "once.cpp", "-o", "once"]);
        let _ = succeed(sandbox.program("once").env("BF_PROFILE", "once.bfp"));
        let coherence = number(&levels(&sandbox, &["--cache", "L1=4M:full", "once.bfp"])[0], "coherence");
        // Flags are lines, too.
        assert!((taken..=taken + 4 * rounds).contains(&coherence), "{coherence} of {taken} {way}");
    }
}

/// Nobody is told that the other one is there but by a lock that it holds again and again.
#[test]
fn blocks_that_are_exchanged_by_a_mutex() {
    for (lines, rounds) in [(8, 500), (4096, 10)] {
        let _ = exchange(lines, rounds, &["-pthread", "-DMUTEX"]);
    }
}

/// Who looks alone has to know of who was there with others, and the other way round.
#[test]
fn blocks_that_are_exchanged_by_a_shared_lock() {
    for (lines, rounds) in [(8, 500), (4096, 10)] {
        let _ = exchange(lines, rounds, &["-pthread", "-DSHARED"]);
    }
}

/// Who does which job is chance; what the jobs did, all together, is not.
#[test]
fn a_pool_does_what_its_jobs_do() {
    let sandbox = Sandbox::new();
    sandbox.write("pool.c", POOL);
    sandbox.bf_clang(["-pthread", "-bf-by-func", "-O2", "-g", "pool.c", "-o", "pool"]);
    let jobs = constant(POOL, "JOBS");
    let lines = jobs * constant(POOL, "BLOCK_LINES");
    let caches = ["--cache", "L1=8K:full", "--cache", "L2=32K:full", "--cache", "L3=1M:full:shared"];
    for threads in [1, 3] {
        let output = succeed(sandbox.program("pool").arg(threads.to_string()));
        assert_eq!(text(&output.stdout), format!("{jobs} jobs\n"));
        let profile = sandbox.profile_files().remove(0);
        let profile = profile.file_name().unwrap().to_str().unwrap();

        let levels = levels(&sandbox, &[&caches[..], &[profile]].concat());
        let seen = each(&levels[0], "references").len();
        assert!((2..=1 + threads).contains(&seen), "{seen} threads");

        let report = sandbox.bf(&[&["report", "--by", "function", profile], &caches[..]].concat());
        let jobs = function(&report, "read_block");
        assert_eq!(number(&jobs, "load_references"), lines * constant(POOL, "PASSES"));
        assert_eq!(number(&jobs, "L1.misses"), lines * constant(POOL, "PASSES"));
        assert_eq!([number(&jobs, "L2.misses"), number(&jobs, "L3.misses")], [lines, lines]);
        for level in &levels {
            let name = level["name"].as_str().unwrap();
            assert_eq!(report["totals"][format!("{name}.misses")], level["misses"], "{name}");
        }
        std::fs::remove_file(sandbox.file(profile)).unwrap();
    }
}

/// A thread of C++ comes after all that was done before it was made, and before all that is done after it was joined. So the
/// main thread finds every line that it adds up in another's cache, dirty, in each round.
#[test]
fn threads_that_come_and_go_pass_on_what_they_wrote() {
    let sandbox = Sandbox::new();
    sandbox.write("rounds.cpp", ROUNDS);
    let options = ["-bf-by-func", "-O2", "-g", "-pthread", "rounds.cpp", "-o", "rounds"];
    sandbox.compile(&mut sandbox.command(Build::Bf.cxx()), options);
    let _ = succeed(&mut sandbox.program("rounds"));
    let (threads, rounds) = (constant(ROUNDS, "THREADS"), constant(ROUNDS, "ROUNDS"));
    let written = threads * constant(ROUNDS, "PART_LINES");
    let caches = ["--cache", "L1=64K:full", "--cache", "L2=1M:full:shared"];

    let report = sandbox.bf(&[&["report", "--by", "function"], &caches[..]].concat());
    let (copy, add_up) = (function(&report, "copy("), function(&report, "add_up("));
    assert_eq!([number(&copy, "load_references"), number(&copy, "store_references")], [rounds * written; 2]);
    assert_eq!(number(&copy, "L2.misses"), 2 * written, "each line of both arrays once");
    assert_eq!([number(&add_up, "load_references"), number(&add_up, "L1.misses")], [rounds * written; 2]);
    assert_eq!(number(&add_up, "L2.misses"), 0);

    let [l1, _] = &levels(&sandbox, &caches)[..] else { panic!("two levels") };
    assert!(each(l1, "references").len() as u64 <= 1 + threads, "later threads take over slots: {l1}");
    assert!(number(l1, "dirty_transfers") >= rounds * written, "{l1}");
    assert!(number(&l1["threads"][0], "invalidations") >= (rounds - 1) * written, "{l1}");
}

/// Made faster than they can be known, they do not pile up: who ended leaves its place to the next.
#[test]
fn very_many_short_threads_are_few_at_a_time() {
    let (threads, numbers) = (2_000, 64);
    let program = "
        #include <pthread.h>
        static long numbers[THREADS][NUMBERS] __attribute__((aligned(64)));
        static void *fill(void *row) {
            for (int i = 0; i < NUMBERS; i++)
                ((volatile long *)row)[i] = i;
            return row;
        }
        int main(void) {
            static pthread_t threads[THREADS];
            for (int i = 0; i < THREADS; i++)
                if (pthread_create(&threads[i], 0, fill, numbers[i]))
                    return 1;
            for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], 0);
        }";
    let defined = [("THREADS", threads), ("NUMBERS", numbers)];
    let sandbox = compiled("swarm", program, &defined, &["-O2", "-bf-by-func", "-pthread"]);
    let _ = succeed(&mut sandbox.program("swarm"));
    let caches = ["--cache", "L1=32K:8", "--cache", "L2=64M:16:shared"];
    let fill = function(&sandbox.bf(&[&["report", "--by", "function"], &caches[..]].concat()), "fill");
    assert_eq!(number(&fill, "store_references"), threads * numbers);
    assert_eq!([number(&fill, "L1.misses"), number(&fill, "L2.misses")], [threads * numbers / 8; 2]);
    let slots = each(&levels(&sandbox, &caches)[0], "references").len() as u64;
    assert!(slots < threads / 10, "{slots} of {threads} threads at a time");
}

/// A thread that wants to share a lock in vain does not hide what its holder does after that.
#[test]
fn who_shares_a_lock_in_vain_takes_nothing_from_its_holder() {
    let (rounds, lines) = (100, 8);
    let program = "
        #include <pthread.h>
        #include <unistd.h>
        static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
        static struct { _Alignas(64) volatile long value; } blocks[ROUNDS][LINES];
        static int pipes[3][2];
        static void tell(int way) { if (write(pipes[way][1], \"\", 1) != 1) _exit(1); }
        static void hear(int way) { char byte; if (read(pipes[way][0], &byte, 1) != 1) _exit(1); }
        static void *fill(void *none) {
            for (int round = 0; round < ROUNDS; round++) {
                pthread_rwlock_wrlock(&lock);
                tell(0);
                hear(1);
                for (int i = 0; i < LINES; i++)
                    blocks[round][i].value = round;
                pthread_rwlock_unlock(&lock);
                tell(2);
                hear(1);
            }
            return none;
        }
        int main(void) {
            pthread_t other;
            for (int i = 0; i < 3; i++)
                if (pipe(pipes[i]))
                    return 1;
            pthread_create(&other, 0, fill, 0);
            for (int round = 0; round < ROUNDS; round++) {
                hear(0);
                if (!pthread_rwlock_tryrdlock(&lock))
                    return 1;
                tell(1);
                hear(2);
                if (pthread_rwlock_tryrdlock(&lock))
                    return 1;
                for (int i = 0; i < LINES; i++)
                    (void)blocks[round][i].value;
                pthread_rwlock_unlock(&lock);
                tell(1);
            }
            return pthread_join(other, 0);
        }";
    let sandbox = compiled("vain", program, &[("ROUNDS", rounds), ("LINES", lines)], &["-O1", "-pthread"]);
    let _ = succeed(&mut sandbox.program("vain"));
    let level = &levels(&sandbox, &["--cache", "L1=4M:full"])[0];
    assert_eq!(number(level, "invalidations_received"), 0, "blocks are stored before they are loaded: {level}");
    assert!(number(level, "dirty_transfers") >= rounds * lines, "{level}");
}

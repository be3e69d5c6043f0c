//! A program that does the same round after round: analysed once or each time, the profile is the same.

use bf_profile::Profile;
use bf_tests::sandbox::{Sandbox, output, text, timeless};
use std::process::Command;

/// Sweeps over a graph, as iterative solvers do them, with something else after half of them, and a number kept of each if the argument
/// says so. After 120, and part of one more, what it says else.
const SOURCE: &str = r#"
    #include <pthread.h>
    #include <semaphore.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    enum { N = 12000 };
    static double value[N], next[N], kept, history[120];
    static int neighbour[2][N];
    static void step(int from, int to) {
        for (int i = from; i < to; i++) next[i] = 0.5 * value[i] + 0.2 * (value[neighbour[0][i]] + value[neighbour[1][i]]);
        for (int i = from; i < to; i++) value[i] = next[i];
    }
    static sem_t begun;
    static void *work(void *unused) {
        sem_post(&begun);
        step(0, N);
        return unused;
    }
    int main(int argc, char **argv) {
        for (unsigned i = 0; i < N; i++) neighbour[0][i] = i * 7919u % N, neighbour[1][i] = (i + 1) % N, value[i] = i;
        int keeps = argc > 1 && !strcmp(argv[1], "history");
        for (int s = 0; s < 120; s++) {
            step(0, N);
            if (s == 60) kept += value[s];
            if (keeps) history[s] = value[s];
        }
        step(0, N / 3);
        puts(value[17] > 0 ? "positive" : "not positive");
        fflush(stdout);
        if (argc > 1 && !strcmp(argv[1], "abort")) abort();
        if (argc > 1 && !strcmp(argv[1], "_exit")) _exit(3);
        if (argc > 1 && !strcmp(argv[1], "thread")) {
            pthread_t thread;
            if (sem_init(&begun, 0, 0) || pthread_create(&thread, NULL, work, NULL)) return 1;
            // Whether `thread` is read before or after the other thread begins would show.
            sem_wait(&begun);
            if (pthread_join(thread, NULL)) return 1;
            for (int s = 0; s < 5; s++) step(0, N);
        }
        if (argc > 1 && !strcmp(argv[1], "fork") && !fork()) return 0;
        return 0;
    }
"#;

/// The profile that the program leaves, its address space laid out the same way each time, and what bf said.
fn run(sandbox: &Sandbox, end: &str, variables: &[(&str, &str)]) -> (Profile, String) {
    let mut setarch = Command::new("setarch");
    setarch.args(["-R", "./program", end]).current_dir(sandbox.path()).env_clear().envs(variables.iter().copied());
    setarch.envs([("BF_VERBOSE", "1"), ("BF_PROFILE", "it.bfp"), ("BF_LINE_SIZE", "64,256"), ("BF_SHARING", "0")]);
    let said = output(&mut setarch);
    assert_eq!(text(&said.stdout), "positive\n");
    (timeless(bf_tests::sandbox::read(&sandbox.file("it.bfp"))), text(&said.stderr).to_owned())
}

#[test]
fn rounds_do_not_show_in_a_profile() {
    let sandbox = Sandbox::new();
    sandbox.write("program.c", SOURCE);
    sandbox.bf_clang(["-O1", "-g", "-pthread", "program.c", "-o", "program"]);
    for end in ["return", "abort", "_exit", "fork", "thread", "history"] {
        for by in ["BF_BY_PLACE", "BF_BY_OBJECT"] {
            let (each, said) = run(&sandbox, end, &[(by, "1"), ("BF_THREADS", "0"), ("BF_ROUNDS", "0")]);
            assert!(!said.contains("rounds"), "{said}");
            for threads in ["0", "1"] {
                let (profile, said) = run(&sandbox, end, &[(by, "1"), ("BF_THREADS", threads)]);
                assert!(profile == each, "{end}, {threads} helpers");
                let counted = said.split_once(" accesses came in rounds like one before").map(|(before, _)| {
                    let numbers = before.rsplit(' ').filter_map(|word| word.parse().ok());
                    <[u64; 2]>::try_from(numbers.take(2).collect::<Vec<_>>()).unwrap()
                });
                // All but a few of them; of eight that store to one line in turn one more.
                let [all, again] = counted.expect(&said);
                let few = if end == "history" { all * 2 / 5 } else { all / 8 };
                assert!(again > all - few, "{end}: {said}");
            }
        }
    }
}

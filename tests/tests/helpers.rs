//! Helper threads and the memory limit, as a user meets them: the same answers, the same addresses, and a word where they end early.

use bf_profile::{Meta, Owner};
use bf_tests::program;
use bf_tests::sandbox::{Sandbox, output, read, succeed, text, timeless};
use std::process::Command;

/// A program of loops over 6 MB; its threads work one after the other.
const SOURCE: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    enum { N = 1 << 18 };
    static double a[N], b[N], c[N];
    static unsigned index_of(unsigned i) { return i * 2654435761u % N; }
    static void *work(void *unused) {
        (void)unused;
        for (unsigned i = 0; i < N; i++) a[i] = i, b[i] = N - i;
        for (unsigned i = 0; i < N; i++) c[index_of(i)] += a[i] * b[index_of(i + 1)];
        return NULL;
    }
    /* Not instrumented: its load of `thread` would come before or after the other's first batch, by chance. */
    __attribute__((noinline)) static int work_elsewhere(void) {
        pthread_t thread;
        return pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL);
    }
    int main(void) {
        work(NULL);
        if (work_elsewhere()) return 1;
        work(NULL);
        printf("%g\n", c[17]);
    }
"#;

/// Runs the program, its address space laid out the same way each time.
fn run(sandbox: &Sandbox, variables: &[(&str, &str)]) {
    let mut setarch = Command::new("setarch");
    setarch.args(["-R", "./program"]).current_dir(sandbox.path()).env_clear().envs(variables.iter().copied());
    assert_eq!(text(&succeed(&mut setarch).stderr), "");
}

fn compiled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("program.c", SOURCE);
    sandbox.bf_clang(["-O2", "-g", "-pthread", "-bf-exclude=work_elsewhere", "program.c", "-o", "program"]);
    sandbox
}

#[test]
fn helpers_do_not_show_in_a_profile() {
    let sandbox = compiled();
    let profile = |threads| {
        // Which of too many shared lines are given up depends on when they are seen.
        run(&sandbox, &[("BF_THREADS", threads), ("BF_LINE_SIZE", "64,128"), ("BF_SHARING", "0")]);
        timeless(sandbox.take_profile())
    };
    let alone = profile("0");
    let [process] = alone.processes.as_slice() else { panic!("one process") };
    let owners = [Owner::Slot(0), Owner::Slot(1), Owner::Global];
    assert_eq!(process.lines[1].stacks.iter().map(|stack| stack.owner).collect::<Vec<_>>(), owners);
    for threads in ["1", "2", "3"] {
        assert!(profile(threads) == alone, "{threads} helpers");
    }
}

/// Blocks that the C library maps lie where they do without helpers.
#[test]
fn helpers_do_not_move_blocks() {
    let sandbox = Sandbox::new();
    let source = "
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            for (int step = 0; step < 8; step++) {
                double *blocks[6];
                for (int k = 0; k < 6; k++) {
                    size_t n = 40000 + 20000 * k + 1000 * step;
                    blocks[k] = calloc(n, 8);
                    for (size_t i = 0; i < n; i++) blocks[k][i * 7919 % n] += i;
                    printf(\"%p \", (void *)blocks[k]);
                }
                for (int k = 0; k < 6; k++) free(blocks[k]);
            }
        }";
    sandbox.c(source, &["-O2"]);
    let run = |helpers, rounds| {
        let mut setarch = Command::new("setarch");
        setarch.args(["-R", "./a.out"]).current_dir(sandbox.path()).env_clear();
        // Of one length: what the environment takes moves the stack.
        text(&succeed(setarch.env("BF_THREADS", helpers).env("BF_ROUNDS", rounds)).stdout)
    };
    let alone = run("0", "1");
    assert!(alone.contains("0x7"), "the library maps no blocks: {alone}");
    for (helpers, rounds) in [("1", "1"), ("3", "1"), ("0", "0")] {
        assert_eq!(run(helpers, rounds), alone, "{helpers} helpers, rounds {rounds}");
    }
}

#[test]
fn bf_says_where_stacks_ended_for_want_of_memory() {
    let sandbox = compiled();
    run(&sandbox, &[("BF_MAX_MEMORY", "24M"), ("BF_PROFILE", "short.bfp")]);
    let profile = read(&sandbox.file("short.bfp"));
    let Meta { accesses, dropped, pid, .. } = profile.processes[0].meta;
    assert!(accesses > 0 && dropped > 0, "{accesses} and {dropped}");
    let line = format!(
        "program ({pid}): truncated: memory limit of 25165824 bytes (BF_MAX_MEMORY), after {accesses} of {} accesses",
        accesses + dropped
    );
    for command in [&["report", "short.bfp"][..], &["query", "short.bfp", "--cache", "L1=32K:8"]] {
        let said = output(sandbox.command(program("bf")).args(command));
        assert!(said.status.success() && text(&said.stderr).contains(&line), "{}", text(&said.stderr));
    }
}

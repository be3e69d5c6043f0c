//! What a program can do to the recording of itself, as a user meets it: wrapper, program, `bf`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use bf_profile::{EndReason, LineData, Owner, Profile};
use bf_tests::cases::Case;
use bf_tests::histograms::{all, counts};
use bf_tests::oracle::{Shape, simulate};
use bf_tests::sandbox::{Build, Sandbox, output, read, succeed, text, timeless};

/// Writes to each of 1000 lines of `array` once.
const TOUCH: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    #include <signal.h>
    static char array[64000];
    __attribute__((noinline)) static void touch(char *lines) {
        for (int i = 0; i < 1000; i++) ((volatile char *)lines)[64 * i] = 1;
    }
";

fn cold_stores(profile: &Profile) -> u64 {
    all(profile, 64).cold[1]
}

/// A thousand lines, and a little of the program's own.
#[track_caller]
fn assert_touched(times: u64, profile: &Profile) {
    let cold = cold_stores(profile);
    assert!((1000 * times..1000 * times + 50).contains(&cold), "{cold} lines");
}

#[test]
fn exceptions_and_long_jumps_lose_nothing() {
    let sandbox = Sandbox::new();
    let source = r#"
        #include <csetjmp>
        #include <cstdio>
        #include <stdexcept>
        static char array[64000];
        static std::jmp_buf back;
        struct Touch { char *at; ~Touch() { *static_cast<volatile char *>(at) = 1; } };
        __attribute__((noinline)) static void thrower(int i) {
            Touch touch{array + 64 * i};
            if (i % 3 == 0) throw std::runtime_error("third");
            if (i % 3 == 1) std::longjmp(back, 1);
        }
        int main() {
            volatile int caught = 0, jumped = 0;
            for (volatile int i = 0; i < 1000; i = i + 1) {
                if (setjmp(back)) { jumped = jumped + 1; static_cast<volatile char *>(array)[64 * i] = 1; continue; }
                try { thrower(i); } catch (const std::exception &) { caught = caught + 1; }
            }
            std::printf("%d %d\n", caught, jumped);
        }"#;
    sandbox.write("a.cpp", source);
    for level in ["-O0", "-O2"] {
        sandbox.compile(&mut sandbox.command(Build::Bf.cxx()), ["a.cpp", level, "-o", "a.out"]);
        let ran = succeed(&mut sandbox.program("a.out"));
        assert_eq!(text(&ran.stdout), "334 333\n");
        assert_touched(1, &sandbox.take_profile());
    }
}

#[test]
fn every_thread_has_a_stack_of_its_own() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        #include <pthread.h>
        static char own[4][64000];
        static void *work(void *lines) {{ touch(lines); touch(array); touch(lines); return lines; }}
        int main(void) {{
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, own[i]);
            for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
            return 0;
        }}"
    );
    sandbox.c(&source, &["-O2", "-pthread"]);
    assert!(succeed(&mut sandbox.program("a.out")).stdout.is_empty());
    let profile = sandbox.take_profile();
    // Each thread's own lines, and once those that all share.
    assert_touched(5, &profile);
    let stacks = &profile.processes[0].lines[0].stacks;
    let (global, slots): (Vec<_>, Vec<_>) = stacks.iter().partition(|stack| stack.owner == Owner::Global);
    let sum = |kind: usize| slots.iter().map(|stack| stack.histograms.references[kind]).sum::<u64>();
    assert_eq!(global[0].histograms.references, [sum(0), sum(1)]);
    assert!(sum(1) >= 12_000);
}

#[test]
fn openmp_workers_that_never_end_are_counted() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        static char own[3][64000];
        int main(void) {{
            #pragma omp parallel for num_threads(3) schedule(static, 1)
            for (int i = 0; i < 3; i++) touch(own[i]);
            return 0;
        }}"
    );
    sandbox.c(&source, &["-O2", "-fopenmp"]);
    assert!(succeed(&mut sandbox.program("a.out")).stdout.is_empty());
    let profile = sandbox.take_profile();
    assert_eq!(profile.processes[0].meta.threads, 3);
    assert_touched(3, &profile);
}

#[test]
fn a_static_program() {
    let sandbox = Sandbox::new();
    sandbox.c(&format!("{TOUCH} int main(void) {{ touch(array); puts(\"done\"); return 5; }}"), &["-O2", "-static"]);
    let ran = output(&mut sandbox.program("a.out"));
    assert_eq!((text(&ran.stdout).as_str(), text(&ran.stderr).as_str(), ran.status.code()), ("done\n", "", Some(5)));
    assert_touched(1, &sandbox.take_profile());
}

#[test]
fn a_plugin_shares_the_recording() {
    let sandbox = Sandbox::new();
    sandbox.write("plugin.c", format!("{TOUCH} void run(void) {{ touch(array); }}"));
    sandbox.bf_clang(["-O2", "-shared", "-fPIC", "plugin.c", "-o", "plugin.so"]);
    let source = format!(
        "{TOUCH}
        #include <dlfcn.h>
        int main(void) {{
            touch(array);
            void *plugin = dlopen(\"./plugin.so\", RTLD_NOW);
            if (!plugin) return 1;
            ((void (*)(void))dlsym(plugin, \"run\"))();
            return dlclose(plugin);
        }}"
    );
    sandbox.c(&source, &["-O2"]);
    assert!(succeed(&mut sandbox.program("a.out")).stdout.is_empty());
    let profile = sandbox.take_profile();
    assert_eq!(profile.processes[0].meta.modules, ["a.c", "plugin.c"]);
    assert_touched(2, &profile);
}

#[test]
fn options_of_a_plugin_that_come_too_late_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("plugin.c", format!("{TOUCH} void run(void) {{ touch(array); }}"));
    sandbox.bf_clang(["-O2", "-shared", "-fPIC", "-bf-by-func", "-bf-data-structs", "plugin.c", "-o", "plugin.so"]);
    let source = format!(
        "{TOUCH}
        #include <dlfcn.h>
        int main(void) {{ touch(array); return !dlopen(\"./plugin.so\", RTLD_NOW); }}"
    );
    sandbox.c(&source, &["-O2"]);
    let run = |variable: &str, value| {
        let _ = succeed(sandbox.program("a.out").env(variable, value).env("BF_PROFILE", "p.bfp"));
        read(&sandbox.file("p.bfp")).processes.remove(0).log
    };
    let late = "plugin.c was loaded after recording began, too late for its";
    assert_eq!(run("BF_BY_PLACE", "0"), [format!("{late} -bf-data-structs")]);
    assert_eq!(run("BF_BY_OBJECT", "1"), Vec::<String>::new(), "with objects there are places");
}

#[test]
fn a_profile_does_not_take_the_place_of_its_program() {
    let sandbox = Sandbox::new();
    sandbox.c(&format!("{TOUCH} int main(void) {{ touch(array); return 0; }}"), &["-O2"]);
    for pattern in ["%e", "./a.out"] {
        let _ = succeed(sandbox.program("a.out").env("BF_PROFILE", pattern));
        assert_touched(1, &read(&sandbox.file("a.out.bfp")));
        std::fs::remove_file(sandbox.file("a.out.bfp")).unwrap();
    }
}

#[test]
fn a_child_leaves_a_profile_of_its_own() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        #include <sys/wait.h>
        static char more[64000];
        int main(void) {{
            touch(array);
            if (fork() == 0) {{ touch(more); _exit(0); }}
            wait(NULL);
            return 0;
        }}"
    );
    sandbox.c(&source, &["-O2"]);
    let _ = succeed(sandbox.program("a.out").env("BF_PROFILE", "p.bfp"));
    let parent = read(&sandbox.file("p.bfp"));
    let mut entries = sandbox.path().read_dir().expect("the folder can be read").map(|entry| entry.expect("an entry"));
    let child = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("p.bfp.")).expect("a child's");
    let child = read(&child.path());
    let meta = |profile: &Profile| profile.processes[0].meta.clone();
    assert_eq!(meta(&child).parent, meta(&parent).pid);
    assert_eq!((meta(&parent).end, meta(&child).end), (EndReason::Exit, EndReason::QuickExit));
    assert_touched(1, &parent);
    assert!(cold_stores(&child) >= 1000);
}

#[test]
fn a_killed_program_keeps_its_checkpoint() {
    let sandbox = Sandbox::new();
    let source = format!("{TOUCH} int main(void) {{ puts(\"on\"); fflush(stdout); for (;;) touch(array); }}");
    sandbox.c(&source, &["-O2"]);
    let mut program = sandbox.program("a.out");
    let mut child = program.env("BF_CHECKPOINT", "1").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let _ = stdout.read_line(&mut line).expect("it says something");
    while sandbox.profile_files().is_empty() {
        assert!(child.try_wait().expect("a child").is_none(), "it runs for ever");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().expect("it can be killed");
    assert_eq!(child.wait().expect("a child").signal(), Some(9));
    let profile = sandbox.take_profile();
    assert_eq!(profile.processes[0].meta.end, EndReason::Checkpoint);
    assert_touched(1, &profile);
}

#[test]
fn a_replayed_trace_counts_what_the_run_counted() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        #include <bf.h>
        #include <pthread.h>
        #include <string.h>
        static char own[2][64000];
        static void *work(void *lines) {{ touch(lines); memcpy(lines, array, 9999); touch(lines); return lines; }}
        int main(void) {{
            touch(array);
            for (int round = 0; round < 2; round++) {{
                pthread_t threads[2];
                bf_tag(round ? \"second\" : \"first\");
                for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, own[i]);
                for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
            }}
            bf_stop();
            touch(array);
            bf_start();
            touch(array);
            return 0;
        }}"
    );
    sandbox.c(&source, &["-O2", "-pthread", "-bf-line-size=32,64"]);
    let _ = succeed(sandbox.program("a.out").env("BF_PROFILE", "run.bfp").env("BF_TRACE", "trace"));
    let _ = sandbox.bf(&["replay", "trace", "-o", "replayed.bfp"]);
    let [run, replayed] = ["run.bfp", "replayed.bfp"].map(|name| read(&sandbox.file(name)).processes.remove(0));
    assert_eq!(run.lines, replayed.lines);
    assert_eq!((run.tags, run.meta.accesses), (replayed.tags, replayed.meta.accesses));
}

#[test]
fn a_printed_trace_is_what_simulators_and_replay_count() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        #include <string.h>
        static unsigned table[1 << 14];
        int main(void) {{
            unsigned x = 1;
            for (int i = 0; i < 20000; i++) {{ x = x * 1664525 + 1013904223; table[x >> 18] += x; }}
            memcpy(array, (char *)table + 3, 30000);
            memset(array + 5, 1, 20000);
            return 0;
        }}"
    );
    sandbox.c(&source, &["-O2"]);
    let _ = succeed(sandbox.program("a.out").env("BF_PROFILE", "run.bfp").env("BF_TRACE", "trace"));
    let run = read(&sandbox.file("run.bfp"));
    let bf = bf_tests::program("bf");
    for format in ["json", "lackey", "din"] {
        let _ = succeed(sandbox.command(&bf).args(["trace", "trace", "--to", format, "-o", "printed"]));
        let _ = sandbox.bf(&["replay", "printed", "-o", "replayed.bfp"]);
        if format == "din" {
            // Its ranges are cut at 4 KiB: the pieces of a copy, cut again, stay in order.
            assert_eq!(all(&read(&sandbox.file("replayed.bfp")), 64).cold, all(&run, 64).cold);
        } else {
            assert_eq!(all(&read(&sandbox.file("replayed.bfp")), 64), all(&run, 64), "{format}");
        }
        if format == "json" {
            let printed = Case::read(&sandbox.file("printed")).expect("the form of cases");
            for (set_bits, ways) in [(0, 40), (5, 4), (7, 2)] {
                let shape = Shape { line: 64, sets: 1 << set_bits, ways };
                let simulated = simulate(shape, printed.accesses().map(|(_, access)| access));
                assert_eq!(counts(all(&run, 64), set_bits, ways), simulated, "{shape:?}");
            }
        }
    }
}

#[test]
fn objects_may_ask_for_different_line_sizes() {
    let sandbox = Sandbox::new();
    sandbox.write("b.c", format!("{TOUCH} void other(void) {{ touch(array); }}"));
    sandbox.bf_clang(["-O2", "-c", "b.c", "-bf-line-size=128", "-bf-max-set-bits=12"]);
    let source = format!("{TOUCH} void other(void); int main(void) {{ touch(array); other(); return 0; }}");
    sandbox.c(&source, &["-O2", "b.o", "-bf-line-size=32,64", "-bf-max-set-bits=10"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    let profile = sandbox.take_profile();
    let kept = |line: &LineData| (line.line_bytes, line.max_set_bits);
    assert_eq!(profile.processes[0].lines.iter().map(kept).collect::<Vec<_>>(), [(32, 12), (64, 12), (128, 12)]);
    // Two arrays of 64000 bytes, which need not begin with a line.
    assert_touched(2, &profile);
    let cold = all(&profile, 128).cold[1];
    assert!((1000..1050).contains(&cold), "{cold} lines of 128 bytes");

    let _ = succeed(sandbox.program("a.out").env("BF_LINE_SIZE", "64"));
    assert_eq!(sandbox.take_profile().processes[0].lines.iter().map(kept).collect::<Vec<_>>(), [(64, 12)]);
}

#[test]
fn calipers() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        #include <bf.h>
        int main(void) {{
            bf_stop();
            touch(array);
            bf_start();
            bf_tag(\"counted\");
            touch(array);
            bf_tag(\"again\");
            touch(array);
            return 0;
        }}"
    );
    sandbox.c(&source, &["-O2"]);
    let counted = || {
        let process = sandbox.take_profile().processes.remove(0);
        let stack = |tag: &str| {
            let tag = process.tags.iter().position(|name| name == tag).expect("a tag") as u32;
            let stack = process.lines[0].stacks.iter().find(|stack| stack.tag == tag).expect("a stack");
            (stack.histograms.references[1], stack.histograms.cold[1])
        };
        [stack("counted"), stack("again")]
    };
    // References made while counting is off move the stacks, unless they are to be none.
    let _ = succeed(&mut sandbox.program("a.out"));
    assert_eq!(counted(), [(1000, 0), (1000, 0)]);
    let _ = succeed(sandbox.program("a.out").env("BF_STOP", "ignore"));
    assert_eq!(counted(), [(1000, 1000), (1000, 0)]);
    // Without bf the same source is an ordinary program.
    let include = format!("-I{}", bf_tests::prefix().join("include").display());
    sandbox.compile(&mut sandbox.command(Build::Native.cc()), ["-O2", &include, "a.c", "-o", "a.out"]);
    let _ = succeed(&mut sandbox.program("a.out"));
    assert!(sandbox.profile_files().is_empty());
}

#[test]
fn every_end_takes_its_course() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        int main(int argc, char **argv) {{
            (void)argc;
            touch(array);
            switch (argv[1][0]) {{
            case 's': *(volatile int *)0 = 1; break;
            case 'a': abort();
            case 't': raise(SIGTERM); break;
            case '_': _exit(3);
            case 'q': quick_exit(4);
            case 'x': execl(\"/bin/echo\", \"echo\", \"replaced\", NULL); return 1;
            }}
            return 6;
        }}"
    );
    sandbox.c(&source, &["-O2"]);
    // Argument, exit code, signal, what the profile says.
    let ends = [
        ("s", None, Some(11), EndReason::Signal(11)),
        ("a", None, Some(6), EndReason::Signal(6)),
        ("t", None, Some(15), EndReason::Signal(15)),
        ("_", Some(3), None, EndReason::QuickExit),
        ("q", Some(4), None, EndReason::QuickExit),
        ("x", Some(0), None, EndReason::Exec),
        ("r", Some(6), None, EndReason::Exit),
    ];
    for (argument, code, signal, end) in ends {
        let ran = output(sandbox.program("a.out").arg(argument));
        assert_eq!((ran.status.code(), ran.status.signal()), (code, signal), "{argument}");
        assert_eq!(text(&ran.stderr), "", "{argument}");
        let profile = sandbox.take_profile();
        assert_eq!(profile.processes[0].meta.end, end, "{argument}");
        assert_touched(1, &profile);
    }
}

#[test]
fn bf_run_is_the_program() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{TOUCH}
        int main(int argc, char **argv) {{
            touch(array + argc);
            if (argc > 2) raise(atoi(argv[2]));
            return atoi(argv[1]);
        }}"
    );
    sandbox.c(&source, &["-O2"]);
    let bf = bf_tests::program("bf");
    let run = |args: &[&str]| output(sandbox.command(&bf).arg("run").args(args)).status;
    let said = output(sandbox.command(&bf).args(["run", "--", "./a.out", "0"]));
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
    assert_eq!(run(&["--", "./a.out", "7"]).code(), Some(7));
    assert_eq!(run(&["--", "./a.out", "0", "15"]).signal(), Some(15));
    assert_eq!(run(&["--", "./no-such-program"]).code(), Some(127));
    assert_eq!(sandbox.take_profiles().len(), 3);

    let profiles = [(); 2].map(|()| {
        assert!(run(&["--no-aslr", "--", "./a.out", "0"]).success());
        timeless(sandbox.take_profile())
    });
    assert_eq!(profiles[0].processes[0].meta.aslr, Some(false));
    assert_eq!(profiles[0], profiles[1]);
}

/// Where there is no address space for what each of many threads counts in they share what nobody reads.
#[test]
fn threads_go_on_without_address_space() {
    let sandbox = Sandbox::new();
    let source = "
        #include <pthread.h>
        #include <stdio.h>
        #define THREADS 60
        static pthread_barrier_t all;
        static void *work(void *number) {
            long sum = 0, some[64];
            pthread_barrier_wait(&all);
            for (long i = 0; i < 640; i++) some[i & 63] = i, sum += some[i * 7 & 63];
            return number;
        }
        int main() {
            pthread_t threads[THREADS];
            pthread_attr_t small;
            pthread_attr_init(&small);
            pthread_attr_setstacksize(&small, 65536);
            pthread_barrier_init(&all, 0, THREADS);
            for (long i = 0; i < THREADS; i++)
                if (pthread_create(threads + i, &small, work, (void *)i)) return 1;
            long sum = 0;
            for (int i = 0; i < THREADS; i++) {
                void *number;
                pthread_join(threads[i], &number);
                sum += (long)number;
            }
            printf(\"%ld\\n\", sum);
        }";
    sandbox.c(source, &["-O1", "-pthread"]);
    for mib in [300, 400, 500, 600] {
        let said = output(sandbox.command("bash").args(["-c", &format!("ulimit -v {}; ./a.out", mib << 10)]));
        assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(0), "1770\n"), "{mib}: {said:?}");
    }
}

/// The runtime calls some of them, and what they do then is not what the program does.
#[test]
fn functions_of_the_program_in_the_place_of_the_librarys() {
    let sandbox = Sandbox::new();
    let source = "#define _GNU_SOURCE
        #include <signal.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        static long calls[8];
        static char heap[1 << 24], table[1 << 16];
        static size_t top;
        extern char **environ;
        char *getenv(const char *name) {
            for (char **each = environ; *each; each++) {
                const char *a = *each, *b = name;
                while (*b && *a == *b) a++, b++;
                if (!*b && *a == '=') return (char *)a + 1;
            }
            return 0;
        }
        int clock_gettime(clockid_t clock, struct timespec *time) {
            calls[1]++;
            return syscall(SYS_clock_gettime, clock, time);
        }
        pid_t getpid(void) { return calls[2]++, syscall(SYS_getpid); }
        ssize_t readlink(const char *path, char *to, size_t size) {
            return calls[3]++, syscall(SYS_readlinkat, -100, path, to, size);
        }
        size_t strlen(const char *text) {
            size_t length = 0;
            while (text[length]) length++;
            return length;
        }
        int memcmp(const void *one, const void *other, size_t size) {
            const unsigned char *a = one, *b = other;
            for (size_t i = 0; i < size; i++)
                if (a[i] != b[i]) return a[i] - b[i];
            return 0;
        }
        int sigaction(int signal, const struct sigaction *new, struct sigaction *old) { return calls[5]++, 0; }
        void *malloc(size_t size) {
            char *block = heap + top;
            top += (size + 31) & ~15ul;
            *(size_t *)block = size;
            return block + 16;
        }
        void free(void *block) { calls[4]++; }
        void *calloc(size_t number, size_t size) { return malloc(number * size); }
        void *realloc(void *from, size_t size) {
            void *to = malloc(size);
            return from ? memcpy(to, from, size) : to;
        }
        int main(void) {
            long sum = 0;
            for (int round = 0; round < 40; round++)
                for (int i = 0; i < 65536; i++) sum += table[i * 7919 & 65535] += i;
            printf(\"%s %ld\\n\", getenv(\"ANSWER\"), sum);
            return 3;
        }";
    let references = 2 * 40 * 65536;
    for flags in [&[][..], &["-static"]] {
        sandbox.c(source, &[&["-O1", "-fno-builtin", "-w"], flags].concat());
        for threads in ["0", "1"] {
            let mut program = sandbox.command("timeout");
            program.args(["-s", "KILL", "60", "./a.out"]).env("ANSWER", "42").env("BF_THREADS", threads);
            let said = output(program.env("BF_PROFILE", "own.bfp"));
            assert_eq!(said.status.code(), Some(3), "{flags:?} {said:?}");
            assert!(text(&said.stdout).starts_with("42 "), "{said:?}");
            let [loads, stores] = all(&read(&sandbox.file("own.bfp")), 64).references;
            assert!(
                (references..references + 20_000).contains(&(loads + stores)),
                "{flags:?} {threads}: {loads} {stores}"
            );
        }
    }
}

/// The runtime looks at the clock where a thread releases something.
#[test]
fn a_clock_of_the_program_that_releases_something() {
    let sandbox = Sandbox::new();
    let source = "#include <pthread.h>
        #include <stdatomic.h>
        #include <stdio.h>
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        static atomic_long looks, sum;
        static volatile long last;
        int clock_gettime(clockid_t clock, struct timespec *time) {
            looks++;
            last = clock;
            return syscall(SYS_clock_gettime, clock, time);
        }
        static void *work(void *none) {
            for (long i = 0; i < 1000; i++) sum += i;
            return none;
        }
        int main(void) {
            pthread_t other;
            pthread_create(&other, 0, work, 0);
            work(0);
            pthread_join(other, 0);
            printf(\"%ld\\n\", (long)sum);
            return 0;
        }";
    sandbox.c(source, &["-O1", "-pthread"]);
    let said = output(&mut sandbox.command("./a.out"));
    assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(0), "999000\n"), "{said:?}");
}

/// The C library takes its allocator's lock when it forks, and a handler may have interrupted who holds that.
#[test]
fn a_fork_does_not_wait_for_a_handler_in_the_allocator() {
    let sandbox = Sandbox::new();
    let source = "#include <pthread.h>
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int stop;
        static long many[4096];
        static void handler(int signal) {
            for (int i = 0; i < 4096; i += 8) many[i] += signal;
        }
        static void *allocate(void *_) {
            void *blocks[64];
            while (!stop) {
                for (int i = 0; i < 64; i++) blocks[i] = malloc(2000 + i * 16);
                for (int i = 0; i < 64; i++) free(blocks[i]);
            }
            return _;
        }
        static void *interrupt(void *other) {
            while (!stop) {
                pthread_kill(*(pthread_t *)other, SIGUSR1);
                usleep(50);
            }
            return NULL;
        }
        int main(void) {
            pthread_t one, two;
            signal(SIGUSR1, handler);
            pthread_create(&one, NULL, allocate, NULL);
            pthread_create(&two, NULL, interrupt, &one);
            for (int i = 0; i < 20; i++) {
                pid_t child = fork();
                if (child == 0) _exit(7);
                int status;
                while (waitpid(child, &status, 0) < 0) {}
                if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
            }
            stop = 1;
            return pthread_join(two, NULL) || pthread_join(one, NULL);
        }";
    sandbox.c(source, &["-O2", "-pthread"]);
    let _ = succeed(sandbox.program("a.out").env("BF_PROFILE", "/dev/null"));
}

//! Against Cachegrind on the same binary: lackey's trace of it, replayed, has the misses that Cachegrind counts.

use bf_tests::histograms::{all, counts};
use bf_tests::oracle::Counts;
use bf_tests::sandbox::{Build, Sandbox, output, read, text};

/// A table of 256 KiB read at random, an array of 64 KiB written in strides, and a sum.
const PROGRAM: &str = "
    unsigned table[1 << 16];
    char bytes[1 << 16];
    int main(void) {
        unsigned x = 1, sum = 0;
        for (int i = 0; i < 40000; i++) {
            x = x * 1664525 + 1013904223;
            sum += table[x >> 16];
            bytes[i * 67 & 0xffff] = (char)sum;
        }
        return sum & 1;
    }";

/// D1 as Cachegrind's option gives it, and as set bits and ways; LL so large that it does not matter here.
const CACHES: [(&str, u32, usize); 3] = [("32768,8,64", 6, 8), ("8192,2,64", 6, 2), ("131072,16,64", 7, 16)];

/// What the two count differently, by loads and stores: see the test.
#[derive(Debug, Default)]
struct Known {
    /// Accesses that straddle two lines.
    straddling: [u64; 2],
    /// Read-modify-writes.
    modifies: u64,
}

impl Known {
    fn of(trace: &str) -> Self {
        let mut known = Self::default();
        for line in trace.lines() {
            let Some((kind, place)) = line.trim_start().split_once(' ') else { continue };
            let Some((address, size)) = place.trim().split_once(',').filter(|_| "LSM".contains(kind)) else { continue };
            let address = u64::from_str_radix(address, 16).expect("an address");
            let straddles = u64::from(address % 64 + size.parse::<u64>().expect("a size") > 64);
            known.modifies += u64::from(kind == "M");
            known.straddling[0] += straddles * u64::from(kind != "S");
            known.straddling[1] += straddles * u64::from(kind != "L");
        }
        known
    }
}

/// Cachegrind's figures of this name: reads, writes.
fn figures(said: &str, name: &str) -> [u64; 2] {
    let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"));
    let (_, parts) = line.split_once('(').expect("the sum's parts");
    let mut numbers = parts.split('+').map(|part| part.chars().filter(char::is_ascii_digit).collect::<String>());
    [(); 2].map(|()| numbers.next().expect("two parts").parse().expect("a number"))
}

/// Both see the same instructions on the same addresses, and two things make them differ. Cachegrind takes a
/// read-modify-write for a read alone; bf for a load and a store, which then hits. And Cachegrind counts one reference, and
/// at most one miss, for an access that straddles two lines, though it moves both; bf counts each line.
#[test]
fn replayed_lackey_counts_what_cachegrind_counts() {
    let sandbox = Sandbox::new();
    sandbox.write("a.c", PROGRAM);
    let args = ["-O1", "-g", "-gdwarf-4", "-static", "a.c", "-o", "a.out"];
    sandbox.compile(&mut sandbox.command(Build::Native.cc()), args);
    let valgrind = |args: &[&str]| {
        // The environment lies on the program's stack; without it both tools find the stack at one place.
        let output = output(sandbox.command("valgrind").env_clear().args(args).arg("./a.out"));
        text(&output.stderr)
    };
    let trace = valgrind(&["--tool=lackey", "--trace-mem=yes"]);
    let Known { straddling, modifies } = Known::of(&trace);
    sandbox.write("trace", trace);
    let _ = sandbox.bf(&["replay", "trace", "-o", "replayed.bfp"]);
    let profile = read(&sandbox.file("replayed.bfp"));
    for (cache, set_bits, ways) in CACHES {
        let options = ["--tool=cachegrind", "--cache-sim=yes", "--LL=8388608,16,64", "--cachegrind-out-file=out"];
        let said = valgrind(&[&options[..], &[&format!("--D1={cache}")]].concat());
        let Counts { references: [loads, stores], misses, .. } = counts(all(&profile, 64), set_bits, ways);
        let expected = [loads - straddling[0], stores - straddling[1] - modifies];
        assert_eq!(figures(&said, "D   refs"), expected, "{cache}");
        assert!(loads > 40_000 && stores > 40_000 && misses.iter().all(|&misses| misses > 5000), "{misses:?}");
        for ((ours, theirs), straddling) in misses.into_iter().zip(figures(&said, "D1  misses")).zip(straddling) {
            assert!((theirs..=theirs + straddling).contains(&ours), "{cache}: {ours} {theirs} {straddling}");
        }
    }
}

/// It ends programs that make threads without the C library, as helpers are.
#[test]
fn a_recorded_program_runs_under_valgrind() {
    let sandbox = Sandbox::new();
    sandbox.c(PROGRAM, &["-O1"]);
    let mut valgrind = sandbox.command("valgrind");
    let output =
        output(valgrind.args(["-q", "--tool=none", "./a.out"]).env("BF_PROFILE", "a.bfp").env("BF_THREADS", "1"));
    assert!(output.status.code() < Some(2) && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!(counts(all(&read(&sandbox.file("a.bfp")), 64), 6, 8).references, [40_000; 2]);
}

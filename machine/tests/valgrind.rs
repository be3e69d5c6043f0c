//! Kernels do what they claim: valgrind sees every load and store that they make, and counts what the crate says.
//!
//! The test starts itself under lackey. The inner run gives each kernel memory of its own and prints where it is and how
//! many accesses the kernel claims; the outer one counts the trace's accesses to that memory. Valgrind knows no 512 bit
//! instructions, so those kernels, made by the same macro from the same lines, are not seen here.

use bf_machine::sys::{
    chain::{Chain, Touch, UNROLLED},
    pages::{Buffer, Pages},
    stream::{Kernel, Operation, Range},
};
use std::{collections::BTreeMap, env, process::Command};

/// Tells the inner run what it is.
const INNER: &str = "BF_MACHINE_UNDER_VALGRIND";
/// Bytes that a stream goes through: from the second 512 on, so that touching new pages at their start is none of it.
const BYTES: usize = 2048;
const PASSES: u64 = 3;
const LINES: usize = 40;

/// Accesses to a range: by what they are and their size in bytes.
type Counts = BTreeMap<(char, u64), u64>;

#[test]
fn kernels_make_the_accesses_they_claim() {
    if env::var_os(INNER).is_some() {
        inner();
        return;
    }
    let trace = tempfile::NamedTempFile::new().unwrap();
    let mut valgrind = Command::new("valgrind");
    // Without its optimiser, which drops loads whose value nobody uses.
    valgrind.args([
        "--tool=lackey",
        "--trace-mem=yes",
        "--vex-iropt-level=0",
        &format!("--log-file={}", trace.path().display()),
    ]);
    valgrind.arg(env::current_exe().unwrap()).args(["--exact", "kernels_make_the_accesses_they_claim", "--nocapture"]);
    let output = valgrind.env(INNER, "1").output().expect("valgrind, as `cargo xtask test` installs it");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(trace.path()).unwrap();

    let claims: Vec<Claim> = said.lines().filter_map(Claim::parse).collect();
    assert!(claims.len() >= 5 * 2 + 3, "{said}");
    let mut counts = vec![Counts::new(); claims.len()];
    for line in trace.lines() {
        let Some((kind, place)) = line.trim_start().split_once(' ') else { continue };
        let Some((address, size)) = place.trim().split_once(',') else { continue };
        let (Ok(address), Ok(size)) = (u64::from_str_radix(address, 16), size.parse::<u64>()) else { continue };
        let kind = kind.chars().next().unwrap_or(' ');
        for (claim, counts) in claims.iter().zip(&mut counts) {
            // The page is touched first when it is mapped; what was at this address before is another story.
            if kind == 'S' && address == claim.start / 4096 * 4096 {
                counts.clear();
            }
            if kind != 'I' && (claim.start..claim.end).contains(&address) {
                *counts.entry((kind, size)).or_default() += 1;
            }
        }
    }
    for (claim, counts) in claims.iter().zip(counts) {
        assert_eq!(counts, claim.counts(), "{claim:?}");
    }
}

/// What a kernel says of itself.
#[derive(Debug)]
struct Claim {
    start: u64,
    end: u64,
    size: u64,
    loads: u64,
    stores: u64,
}

impl Claim {
    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.strip_prefix("claim ")?.split(' ').map(|word| word.parse().unwrap()).collect();
        let [start, end, size, loads, stores] = numbers[..] else { return None };
        Some(Self { start, end, size, loads, stores })
    }

    fn counts(&self) -> Counts {
        let both = [(('L', self.size), self.loads), (('S', self.size), self.stores)];
        both.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

fn claim(start: usize, bytes: usize, size: u32, loads: u64, stores: u64) {
    println!("\nclaim {start} {} {size} {loads} {stores}", start + bytes);
}

fn inner() {
    // All stay alive, so that no two share addresses.
    let mut buffers = Vec::new();
    for kernel in Kernel::all() {
        let buffer = Buffer::new(8192, Pages::Base).unwrap();
        let side = |at| Range::new(&buffer, at, BYTES);
        kernel.run(side(512), kernel.operation.copies().then(|| side(4096 + 512)), PASSES);
        let (loads, stores) = kernel.accesses(BYTES, PASSES);
        let size = kernel.width / 8;
        if kernel.operation.copies() {
            claim(buffer.address() + 512, BYTES, size, loads, 0);
            claim(buffer.address() + 4096 + 512, BYTES, size, 0, stores);
        } else {
            claim(buffer.address() + 512, BYTES, size, loads, stores);
        }
        buffers.push(buffer);
    }
    assert!(Kernel::all().iter().any(|kernel| kernel.operation == Operation::CopyNt));

    // Building a chain stores each place once; a walk loads as often as it says.
    let places = || (1..=LINES).map(|index| index * 64).collect();
    let chain = || Chain::new(Buffer::new(4096, Pages::Base).unwrap(), places(), 9);
    let range = |chain: &Chain| (chain.buffer().address() + 64, LINES * 64);
    let mut walked = chain();
    let (_, loads) = walked.walk(100);
    assert_eq!(loads, 100u64.next_multiple_of(UNROLLED));
    claim(range(&walked).0, range(&walked).1, 8, loads, LINES as u64);
    let mut timed = chain();
    timed.walk_timed(33, |_| {});
    claim(range(&timed).0, range(&timed).1, 8, 33, LINES as u64);
    let touched = chain();
    touched.touch(Touch::Read);
    touched.touch(Touch::Write);
    claim(range(&touched).0, range(&touched).1, 8, LINES as u64, 2 * LINES as u64);
}

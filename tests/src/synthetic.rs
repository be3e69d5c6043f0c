//! Traces made by arithmetic: the same on every machine.

use bf_collect::Access;

/// A trace and its name.
pub type Named = (&'static str, Vec<Access>);

/// Every trace that `docs/accuracy.md` shows.
#[must_use]
pub fn all() -> Vec<Named> {
    vec![
        ("sweep", sweep()),
        ("matmul", matmul()),
        ("transpose", transpose()),
        ("stencil", stencil()),
        ("uniform", uniform()),
        ("skewed", skewed()),
        ("chase", chase()),
        ("join", join()),
        ("bursts", bursts()),
    ]
}

const KIB: u64 = 1024;
/// Arrays start here, 64 MiB apart and one page off, so that equal indices of two arrays do not share a set.
const fn array(number: u64) -> u64 {
    0x1000_0000 + number * (0x400_1000)
}

const fn load(address: u64) -> Access {
    Access { address, size: 8, store: false }
}

const fn store(address: u64) -> Access {
    Access { address, size: 8, store: true }
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Five times over 192 KiB, reading and every fourth time writing.
fn sweep() -> Vec<Access> {
    let element = |i| array(0) + 8 * i;
    (0..5 * 24 * KIB)
        .map(|i| if i % 4 == 3 { store(element(i % (24 * KIB))) } else { load(element(i % (24 * KIB))) })
        .collect()
}

/// C += A B, 96 by 96, in the textbook's order of loops.
fn matmul() -> Vec<Access> {
    let n = 96;
    let mut trace = Vec::new();
    for (i, j) in (0..n * n).map(|ij| (ij / n, ij % n)) {
        for k in 0..n {
            trace.extend([load(array(0) + 8 * (i * n + k)), load(array(1) + 8 * (k * n + j))]);
        }
        trace.push(store(array(2) + 8 * (i * n + j)));
    }
    trace
}

/// 512 by 512 doubles, rows 4 KiB apart: every column falls into few sets.
fn transpose() -> Vec<Access> {
    let n = 512;
    (0..n * n)
        .flat_map(|ij| {
            let (i, j) = (ij / n, ij % n);
            [load(array(0) + 8 * (i * n + j)), store(array(1) + 8 * (j * n + i))]
        })
        .collect()
}

/// Four sweeps of a five-point stencil over 256 by 256 doubles, from one array into another and back.
fn stencil() -> Vec<Access> {
    let n = 256_u64;
    let mut trace = Vec::new();
    for sweep in 0..4 {
        let (from, to) = (array(sweep % 2), array((sweep + 1) % 2));
        for (i, j) in (1..n - 1).flat_map(|i| (1..n - 1).map(move |j| (i, j))) {
            let at = |i, j| 8 * (i * n + j);
            let read = [at(i - 1, j), at(i, j - 1), at(i, j), at(i, j + 1), at(i + 1, j)];
            trace.extend(read.map(|offset| load(from + offset)));
            trace.push(store(to + at(i, j)));
        }
    }
    trace
}

/// Anywhere in 2 MiB, three in ten a store.
fn uniform() -> Vec<Access> {
    let mut random = SplitMix(1);
    (0..400_000)
        .map(|_| {
            let address = array(0) + 8 * random.below(256 * KIB);
            Access { store: random.below(10) < 3, ..load(address) }
        })
        .collect()
}

/// Powers of two by chance: half the accesses in the first 4 KiB, a quarter in the next 4 KiB, an eighth in the 8 KiB
/// after those, and so on up to 4 MiB.
fn skewed() -> Vec<Access> {
    let mut random = SplitMix(2);
    (0..400_000)
        .map(|_| {
            let span = (4 * KIB) << random.next().trailing_zeros().min(10);
            let address = array(0) + span + random.below(span / 8) * 8;
            Access { store: random.below(4) == 0, ..load(address) }
        })
        .collect()
}

/// Along a random cycle through 512 KiB, one line a step, with a few accesses to the same two lines of the call stack
/// in between: those stay in the first level, so the levels below forget how recent they are.
fn chase() -> Vec<Access> {
    let lines = 8 * KIB;
    let mut next: Vec<u64> = (0..lines).collect();
    let mut random = SplitMix(3);
    // Sattolo's shuffle makes one cycle.
    for i in (1..lines as usize).rev() {
        next.swap(i, random.below(i as u64) as usize);
    }
    let mut trace = Vec::new();
    let mut line = 0;
    for step in 0..100_000 {
        trace.extend([
            load(array(0) + 64 * line),
            store(array(1)),
            load(array(1) + 64),
            load(array(1) + 8 * (step % 8)),
        ]);
        line = next[line as usize];
    }
    trace
}

/// Builds a hash table of 16 Ki rows in 512 KiB, then probes it with a stream of 64 Ki keys and appends the matches.
fn join() -> Vec<Access> {
    let mut random = SplitMix(4);
    let mut trace = Vec::new();
    let (build, table, probe, output) = (array(0), array(1), array(2), array(3));
    for row in 0..16 * KIB {
        let slot = table + 32 * random.below(16 * KIB);
        trace.extend([load(build + 16 * row), load(slot), store(slot), store(slot + 8)]);
    }
    for (row, matches) in (0..64 * KIB).zip(0..) {
        let slot = table + 32 * random.below(16 * KIB);
        trace.extend([load(probe + 16 * row), load(slot), load(slot + 8)]);
        if matches % 3 == 0 {
            trace.push(store(output + 8 * (matches / 3)));
        }
    }
    trace
}

/// A stream beside 2 KiB that are in use all the time, and after every 70 KiB of it a burst through 16 KiB that drives those
/// out of a small first level. By then the second level has forgotten them: it had not heard of them since.
fn bursts() -> Vec<Access> {
    let mut trace = Vec::new();
    for round in 0..100 {
        for i in 0..1120 {
            trace.push(load(array(0) + 64 * (round * 1120 + i)));
            trace.extend((0..4).map(|k| store(array(1) + 64 * ((4 * i + k) % 32))));
        }
        trace.extend((0..256).map(|i| load(array(2) + 64 * i)));
    }
    trace
}

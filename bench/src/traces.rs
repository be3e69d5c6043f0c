//! Synthetic traces of 64-byte lines: the loops of programs people run, without the programs.

use bf_stack::Reference;

struct Recorder {
    references: Vec<Reference>,
    limit: usize,
}

impl Recorder {
    fn load(&mut self, address: u64) {
        self.references.push(Reference::new(address >> 6, false));
    }
    fn store(&mut self, address: u64) {
        self.references.push(Reference::new(address >> 6, true));
    }
    fn full(&self) -> bool {
        self.references.len() >= self.limit
    }
}

/// xorshift64*: enough for addresses.
pub struct Random(pub u64);

impl Random {
    /// The next 48 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

const BASE: u64 = 0x7f00_0000_0000;

/// Names of all traces.
pub const NAMES: [&str; 8] =
    ["matmul-blocked", "molecular", "stencil", "stream", "column-walk", "random-64M", "random-1G", "hash-btree"];

/// The trace of that name, `limit` references long, or random ones of another footprint, as in `random-64K`. `None`: no such trace.
#[must_use]
pub fn make(name: &str, limit: usize) -> Option<Vec<Reference>> {
    let mut recorder = Recorder { references: Vec::with_capacity(limit + 4096), limit };
    match name {
        "matmul-blocked" => matmul(&mut recorder),
        "molecular" => molecular(&mut recorder),
        "stencil" => stencil(&mut recorder),
        "stream" => stream(&mut recorder),
        "column-walk" => columns(&mut recorder),
        "hash-btree" => lookups(&mut recorder),
        _ => random(&mut recorder, footprint(name.strip_prefix("random-")?)?),
    }
    recorder.references.truncate(limit);
    Some(recorder.references)
}

/// Bytes, as in 64K, 64M or 1G, of a gibibyte at most.
fn footprint(name: &str) -> Option<u64> {
    let unit = name.len().checked_sub(1)?;
    let shift = 10 * (1 + "KMG".find(name.get(unit..)?)?);
    name[..unit].parse().ok().filter(|&count: &u64| count > 0 && count <= 1 << 30 >> shift).map(|count| count << shift)
}

/// C += A B of doubles, 1000 x 1000, blocks of 40, four doubles a load.
fn matmul(r: &mut Recorder) {
    let (n, block) = (1000, 40);
    let at = |m: u64, i: u64, j: u64| BASE + (m * n * n + i * n + j) * 8;
    loop {
        for (ib, kb, jb) in blocks(n / block) {
            for i in ib * block..(ib + 1) * block {
                for k in kb * block..(kb + 1) * block {
                    r.load(at(0, i, k));
                    for j in (jb * block..(jb + 1) * block).step_by(4) {
                        r.load(at(1, k, j));
                        r.load(at(2, i, j));
                        r.store(at(2, i, j));
                    }
                }
            }
            if r.full() {
                return;
            }
        }
    }
}

fn blocks(n: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..n * n * n).map(move |i| (i / n / n, i / n % n, i % n))
}

/// Cell lists in 3-D: for each atom its neighbours' positions, then its force.
fn molecular(r: &mut Recorder) {
    let (side, per_cell) = (24u64, 14u64);
    let mut random = Random(7);
    let position = |cell: u64, atom: u64| BASE + (cell * per_cell + atom) * 24;
    let force = |cell: u64, atom: u64| BASE + (1 << 30) + (cell * per_cell + atom) * 24;
    loop {
        for cell in 0..side * side * side {
            let (x, y, z) = (cell % side, cell / side % side, cell / side / side);
            for atom in 0..per_cell {
                r.load(position(cell, atom));
                for near in 0..27 {
                    let wrap = |v: u64, d: u64| (v + side + d - 1) % side;
                    let other = wrap(x, near % 3) + side * (wrap(y, near / 3 % 3) + side * wrap(z, near / 9));
                    for neighbour in 0..per_cell {
                        r.load(position(other, neighbour));
                        if random.next().is_multiple_of(6) {
                            r.load(force(other, neighbour));
                            r.store(force(other, neighbour));
                        }
                    }
                }
                r.store(force(cell, atom));
            }
            if r.full() {
                return;
            }
        }
    }
}

/// Seven-point stencil, 128^3 doubles, two grids.
fn stencil(r: &mut Recorder) {
    let n = 128u64;
    let at = |grid: u64, i: u64| BASE + (grid * n * n * n + i) * 8;
    for sweep in 0.. {
        for i in n * n + n + 1..n * n * n - n * n - n - 1 {
            for offset in [0, 1, n, n * n] {
                r.load(at(sweep % 2, i + offset));
                if offset > 0 {
                    r.load(at(sweep % 2, i - offset));
                }
            }
            r.store(at(1 - sweep % 2, i));
            if i % 4096 == 0 && r.full() {
                return;
            }
        }
    }
}

/// a[i] = b[i] + s c[i], 8 MB each, one vector of 32 bytes a step.
fn stream(r: &mut Recorder) {
    loop {
        for i in (0..8 << 20).step_by(32) {
            r.load(BASE + (16 << 20) + i);
            r.load(BASE + (32 << 20) + i);
            r.store(BASE + i);
        }
        if r.full() {
            return;
        }
    }
}

/// Down the columns of a row-major matrix of doubles, 2048 x 2048, updating.
fn columns(r: &mut Recorder) {
    loop {
        for column in 0..2048 {
            for row in 0..2048 {
                r.load(BASE + (row * 2048 + column) * 8);
                r.store(BASE + (row * 2048 + column) * 8);
            }
            if r.full() {
                return;
            }
        }
    }
}

/// Independent uniform lookups, every fourth an update.
fn random(r: &mut Recorder, bytes: u64) {
    let mut random = Random(3);
    while !r.full() {
        let address = BASE + random.next() % bytes;
        r.load(address);
        if address.is_multiple_of(4) {
            r.store(address);
        }
    }
}

/// A tree of 64 K nodes descended with a skewed key, a small stack frame touched between: a database's inner loop.
fn lookups(r: &mut Recorder) {
    let mut random = Random(11);
    while !r.full() {
        let key = random.next() & random.next() & 0xffff;
        let mut node = 1u64;
        for level in 0..16 {
            let frame = BASE + (3 << 30) + level % 4 * 64;
            r.store(frame);
            r.load(BASE + node * 96);
            r.load(BASE + node * 96 + 40);
            r.load(frame + 16);
            node = node * 2 + (key >> (15 - level) & 1);
        }
        r.store(BASE + (1 << 30) + key * 40);
    }
}

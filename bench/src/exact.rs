//! The engine against brute force, on a trace that mixes all there is.

use crate::brute::{Brute, WAYS};
use crate::traces::{self, Random};
use anyhow::{Result, bail};
use bf_stack::{Bucket, Chunk, Engine as _, Instructions, Limits, Part, Reference, Repeat, Stack};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// References in all.
    #[arg(long, default_value_t = REFERENCES)]
    references: u64,
    /// Another mixture.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
}

const REFERENCES: u64 = 100_000_000;
const SEED: u64 = 1;
/// References of each phase are made ahead; they come in pieces, again and again.
const AHEAD: usize = 2_000_000;
/// Line numbers that are drawn at random lie below 2^this.
const MOST_LINE_BITS: u64 = 24;
/// Differences that are printed.
const FIRST: usize = 20;

impl Default for Args {
    fn default() -> Self {
        Self { references: REFERENCES, seed: SEED }
    }
}

/// Compares after 1 %, 10 % and all of the references, with all instructions that this processor has.
///
/// # Errors
/// There is a difference.
pub fn run(args: &Args) -> Result<()> {
    let limits = Limits { max_set_bits: 16, max_ways: WAYS as u32 };
    let instructions: Vec<_> = Instructions::ALL.into_iter().filter(|one| one.available()).collect();
    let mut engines: Vec<_> = instructions.iter().map(|&one| Stack::new(limits).with_instructions(one)).collect();
    let (mut brute, mut mixture) = (Brute::new(), Mixture::new(args.seed));
    let mut fed = 0;
    for goal in [args.references / 100, args.references / 10, args.references] {
        while fed < goal {
            mixture.next();
            let chunk = mixture.chunk();
            engines.iter_mut().for_each(|engine| engine.feed_chunk(chunk, Bucket::FIRST));
            fed += expand(chunk, |references| brute.feed(references));
        }
        for (engine, instructions) in engines.iter().zip(&instructions) {
            let histograms = engine.histograms().into_iter().next().map(|(_, histograms)| histograms);
            let differences = brute.differences(&histograms.unwrap_or_default());
            if !differences.is_empty() {
                differences.iter().take(FIRST).for_each(|difference| println!("{difference}"));
                bail!("{} differences after {fed} references with {instructions:?}", differences.len());
            }
        }
        println!("no difference after {fed} references with {instructions:?}");
    }
    Ok(())
}

/// Hands on every reference of a chunk as often as it occurs; returns how many.
fn expand(chunk: Chunk<'_>, mut take: impl FnMut(&[Reference])) -> u64 {
    let mut count = 0;
    chunk.for_each_occurrence(|piece| {
        count += piece.len() as u64;
        take(&chunk.references[piece]);
    });
    count
}

/// Pieces of all traces in turn, of any length, some of them cut into parts that occur several times; and references
/// that no trace makes.
struct Mixture {
    random: Random,
    traces: Vec<(Vec<Reference>, usize)>,
    references: Vec<Reference>,
    parts: Vec<Part>,
    repeats: Vec<Repeat>,
}

impl Mixture {
    fn new(seed: u64) -> Self {
        let traces = traces::NAMES.into_iter().filter_map(|name| traces::make(name, AHEAD));
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let traces = traces.map(|trace| (trace, 0)).collect();
        Self { random, traces, references: Vec::new(), parts: Vec::new(), repeats: Vec::new() }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next() % limit
    }

    /// Makes the next chunk.
    fn next(&mut self) {
        self.references.clear();
        self.parts.clear();
        self.repeats.clear();
        let longest = 1 << self.below(18);
        let length = (longest + self.below(longest)) as usize;
        match self.below(self.traces.len() as u64 + 2) as usize {
            index if index < self.traces.len() => {
                let (trace, at) = &mut self.traces[index];
                let end = (*at + length).min(trace.len());
                self.references.extend_from_slice(&trace[*at..end]);
                *at = if end == trace.len() { 0 } else { end };
            }
            // Few lines or many, close together or with the same low bits: deep in few sets.
            _ => {
                let bits = self.below(17);
                let (stride, spread) = (1 << bits, 1 << self.below(MOST_LINE_BITS - bits));
                let stores = 1 + self.below(8);
                for _ in 0..length {
                    let (line, store) = (self.below(spread) * stride, self.below(stores) == 0);
                    self.references.push(Reference::new(line, store));
                }
            }
        }
        if self.below(2) == 0 {
            self.cut();
        }
    }

    /// Cuts the chunk into parts that occur once to sixteen times, some of them together with others.
    fn cut(&mut self) {
        let longest = 1 << self.below(14);
        let mut left = self.references.len() as u64;
        while left > 0 {
            let len = (1 + self.below(longest)).min(left);
            let times = 1 + self.below(16) * self.below(2);
            self.parts.push(Part { len: len as u32, times: times as u32 });
            left -= len;
        }
        let mut part = self.below(4) as u32;
        while (part as usize) < self.parts.len() && self.below(4) > 0 {
            let (parts, times) =
                ((1 + self.below(4) as u32).min(self.parts.len() as u32 - part), 1 + self.below(4) as u32);
            self.repeats.push(Repeat { part, parts, times });
            part += parts + self.below(3) as u32;
        }
    }

    fn chunk(&self) -> Chunk<'_> {
        let Self { references, parts, repeats, .. } = self;
        Chunk { references, parts, repeats, ..Chunk::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bf_stack::{Engine, Histograms, Plain};

    const LIMITS: Limits = Limits { max_set_bits: 16, max_ways: WAYS as u32 };

    fn histograms(engine: &impl Engine) -> Histograms {
        engine.histograms().remove(0).1
    }

    #[test]
    fn brute_force_counts_as_the_model_says() {
        let (mut brute, mut plain) = (Brute::new(), Plain::new(LIMITS));
        let mut random = Random(9);
        let references: Vec<_> = (0..6000)
            .map(|at| {
                // All lines of a phase in few sets, then close together.
                let stride = if at % 2000 < 1000 { 1 << 12 } else { 1 };
                Reference::new(random.next() % 300 * stride, random.next().is_multiple_of(3))
            })
            .collect();
        brute.feed(&references);
        plain.feed(&references, Bucket::FIRST);
        assert_eq!(brute.differences(&histograms(&plain)), Vec::<String>::new());
    }

    #[test]
    fn one_reference_of_another_kind_is_noticed() {
        let mut mixture = Mixture::new(SEED);
        mixture.next();
        let chunk = mixture.chunk();
        let mut brute = Brute::new();
        expand(chunk, |references| brute.feed(references));
        let last = chunk.references[chunk.references.len() - 1];
        brute.feed(&[Reference::new(last.line(), false)]);
        let mut engine = Stack::new(LIMITS);
        engine.feed_chunk(chunk, Bucket::FIRST);
        engine.feed(&[Reference::new(last.line(), true)], Bucket::FIRST);
        assert!(!brute.differences(&histograms(&engine)).is_empty());
    }
}

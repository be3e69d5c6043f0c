//! The model as its text says it: one list, walked from the top. Slow; what everything else is compared with.

use crate::counts::{Buckets, Residents};
use crate::repeats::Kind;
use crate::{Bucket, Chunk, Counted, Engine, Item, Limits, Reference};
use std::collections::HashMap;

/// Distances by set are kept for so many set counts.
const WIDTH: usize = Limits::MOST_SET_BITS as usize;

/// The plain list walk of section 2 with the write-back rule of section 3.
#[derive(Clone, Debug)]
pub struct Plain {
    limits: Limits,
    /// Least recent first.
    stack: Vec<u64>,
    dirty: HashMap<u64, Dirty>,
    buckets: Buckets<WIDTH>,
}

#[derive(Clone, Debug)]
struct Dirty {
    charged: (Bucket, Item),
    /// m per set-count exponent, a = 0 first.
    greatest: Vec<u64>,
}

impl Plain {
    /// An empty stack.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, stack: Vec::new(), dirty: HashMap::new(), buckets: Buckets::new(limits) }
    }

    /// `d_a` for a = 0 ..= max_set_bits; `None` if the line was never referenced.
    fn distances(&self, line: u64) -> Option<Vec<u64>> {
        let top = self.limits.max_set_bits;
        let mut tally = vec![0; top as usize + 1];
        for &other in self.stack.iter().rev() {
            if other == line {
                for a in (0..top as usize).rev() {
                    tally[a] += tally[a + 1];
                }
                return Some(tally);
            }
            tally[(other ^ line).trailing_zeros().min(top) as usize] += 1;
        }
        None
    }

    fn capped(&self, values: &[u64]) -> [u8; WIDTH] {
        let capped = |index| values.get(1 + index).map_or(0, |&v: &u64| v.min(u64::from(self.limits.max_ways)) as u8);
        std::array::from_fn(capped)
    }

    fn reference(&mut self, reference: Reference, bucket: Bucket, item: Item) {
        let (line, store) = (reference.line(), reference.is_store());
        let distances = self.distances(line);
        let by_set = distances.as_ref().map(|d| self.capped(d));
        if let Some(counts) = self.buckets.of(bucket) {
            counts.add_references(item, store, 1);
            match (&distances, &by_set) {
                (Some(d), _) if d[0] == 0 => {}
                (Some(d), Some(by_set)) => {
                    counts.add_near((if store { Kind::Store } else { Kind::Load }, item), d[0] as u32, by_set, 1)
                }
                _ => counts.add_without_distance(item, false, store, 1),
            }
        }
        if let Some(d) = &distances {
            self.stack.retain(|&other| other != line);
            if let Some(dirty) = self.dirty.get_mut(&line) {
                dirty.greatest.iter_mut().zip(d).for_each(|(m, &d)| *m = d.max(*m));
            }
        }
        self.stack.push(line);
        if store {
            let fresh = Dirty { charged: (bucket, item), greatest: vec![0; self.limits.max_set_bits as usize + 1] };
            if let Some(last) = self.dirty.insert(line, fresh) {
                let by_set = self.capped(&last.greatest);
                let (charged, item) = last.charged;
                if let Some(counts) = self.buckets.of(charged).filter(|_| last.greatest[0] > 0) {
                    counts.add_near((Kind::Writeback, item), last.greatest[0] as u32, &by_set, 1);
                }
            }
        }
    }
}

impl Engine for Plain {
    fn feed_chunk(&mut self, chunk: Chunk<'_>, bucket: Bucket) {
        chunk.for_each_occurrence(|piece| {
            for index in piece {
                let item = chunk.items.get(index).copied().unwrap_or_default();
                self.reference(chunk.references[index], bucket, item);
            }
        });
    }

    fn counted(&self) -> Vec<Counted> {
        let mut residents = Residents::default();
        for (&line, dirty) in &self.dirty {
            let mut now = self.distances(line).unwrap_or_default();
            now.iter_mut().zip(&dirty.greatest).for_each(|(d, &m)| *d = m.max(*d));
            residents.line(dirty.charged, now[0], &self.capped(&now), self.limits);
        }
        self.buckets.counted(&residents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_match_example_of_the_model() {
        let mut plain = Plain::new(Limits { max_set_bits: 3, max_ways: 8 });
        let order = [0b0001, 0b0101, 0b0011, 0b1001];
        plain.feed(&order.map(|line| Reference::new(line, false)), Bucket::FIRST);
        assert_eq!(plain.distances(0b0001), Some(vec![3, 3, 2, 1]));
    }
}

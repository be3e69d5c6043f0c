//! Something of lines that have few neighbours: a table of lines, each by itself.
//!
//! Invariant: between where a line's search begins and where it stands nothing is free. All lines of a region begin within a
//! window, so that they are found together: there, and behind it up to what is free.

use crate::by_line::{REGION_BITS, mix};

/// So many lines of a region stand here at most: more take less where their region has a list of its own.
const MOST: usize = 12;
/// Parts, each with room of its own: when one is full only what it has is copied.
const PARTS_BITS: u32 = 6;
/// Places where lines of a region may begin.
const WINDOW: usize = 64;
/// Instead of 2 + a line's number.
const FREE: u64 = 0;
const GONE: u64 = 1;

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Lone<T> {
    parts: Vec<Part<T>>,
    len: usize,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    part: usize,
    slot: usize,
}

#[derive(Clone, Debug)]
struct Part<T> {
    /// 2 + numbers of lines, [`FREE`] or [`GONE`].
    lines: Vec<u64>,
    kept: Vec<T>,
    /// Those that are not free.
    used: usize,
}

impl<T: Copy + Default> Lone<T> {
    pub(crate) const fn new() -> Self {
        Self { parts: Vec::new(), len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a line stands, if it is here.
    pub(crate) fn find(&self, line: u64) -> Option<Place> {
        let hash = mix(line >> REGION_BITS);
        let part = part(hash);
        let slot = self.parts.get(part)?.find(line, hash)?;
        Some(Place { part, slot })
    }

    pub(crate) fn get(&self, place: Place) -> &T {
        &self.parts[place.part].kept[place.slot]
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> &mut T {
        &mut self.parts[place.part].kept[place.slot]
    }

    /// A line comes that is not here; `None`: its region has too many.
    pub(crate) fn add(&mut self, line: u64) -> Option<Place> {
        let region = line >> REGION_BITS;
        let hash = mix(region);
        self.parts.resize_with(1 << PARTS_BITS, || Part::new(0));
        let part = part(hash);
        let of = &mut self.parts[part];
        if of.of_region(region, hash).count() >= MOST {
            return None;
        }
        self.len += 1;
        let slot = of.add(line, hash, T::default());
        Some(Place { part, slot })
    }

    /// All lines of a region go.
    pub(crate) fn take(&mut self, region: u64) -> Vec<(u64, T)> {
        let hash = mix(region);
        let Some(part) = self.parts.get_mut(part(hash)) else { return Vec::new() };
        let slots: Vec<_> = part.of_region(region, hash).collect();
        self.len -= slots.len();
        let gone = |slot: usize| (std::mem::replace(&mut part.lines[slot], GONE) - 2, part.kept[slot]);
        slots.into_iter().map(gone).collect()
    }

    /// All lines.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, T)> + '_ {
        self.parts.iter().flat_map(Part::iter)
    }
}

impl<T: Copy + Default> Part<T> {
    fn new(len: usize) -> Self {
        Self { lines: vec![FREE; len], kept: vec![T::default(); len], used: 0 }
    }

    /// Where the window of a region begins.
    fn window(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.lines.len() as u64) >> 32) as usize
    }

    /// Slots from where a line begins.
    fn from(&self, line: u64, hash: u64) -> impl Iterator<Item = usize> + use<T> {
        let (len, within) = (self.lines.len(), ((line % (1 << REGION_BITS) * 2533) >> 4) as usize % WINDOW);
        let first = self.window(hash) + within;
        let first = if first < len { first } else { first - len };
        (first..len).chain(0..first)
    }

    fn find(&self, line: u64, hash: u64) -> Option<usize> {
        if self.lines.is_empty() {
            return None;
        }
        let slot = self.from(line, hash).find(|&slot| [line + 2, FREE].contains(&self.lines[slot]))?;
        (self.lines[slot] != FREE).then_some(slot)
    }

    /// Where the lines of a region stand.
    fn of_region(&self, region: u64, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let (first, len) = (self.window(hash), self.lines.len());
        let slots = (0..).zip((first..len).chain(0..first));
        let slots = slots.take_while(|&(number, slot): &(usize, usize)| number < WINDOW || self.lines[slot] != FREE);
        let is_of = move |line: u64| line > GONE && (line - 2) >> REGION_BITS == region;
        slots.map(|(_, slot)| slot).filter(move |&slot| is_of(self.lines[slot]))
    }

    fn add(&mut self, line: u64, hash: u64, kept: T) -> usize {
        if 4 * (self.used + 1) > 3 * self.lines.len() {
            self.grow();
        }
        let slot = self.from(line, hash).find(|&slot| self.lines[slot] <= GONE).unwrap_or_default();
        self.used += usize::from(self.lines[slot] == FREE);
        (self.lines[slot], self.kept[slot]) = (line + 2, kept);
        slot
    }

    /// Makes room: three of five are used then.
    fn grow(&mut self) {
        let all: Vec<_> = self.iter().collect();
        let len = WINDOW.max(all.len() * 5 / 3);
        *self = Self::new(len);
        all.into_iter().for_each(|(line, kept)| {
            self.add(line, mix(line >> REGION_BITS), kept);
        });
    }

    fn iter(&self) -> impl Iterator<Item = (u64, T)> + '_ {
        let all = self.lines.iter().zip(&self.kept).filter(|(line, _)| **line > GONE);
        all.map(|(line, kept)| (line - 2, *kept))
    }
}

/// The part that lines of a region are in.
fn part(hash: u64) -> usize {
    (hash >> (64 - PARTS_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet, HashMap};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn gives_back_all_lines_of_a_region(
            told in prop::collection::vec((0..4000_u64, 0..1_u64 << REGION_BITS, any::<u16>()), 10_000..30_000),
        ) {
            let (mut lone, mut plain) = (Lone::new(), HashMap::<u64, BTreeMap<u64, u16>>::new());
            let take = |lone: &mut Lone<u16>, region: u64, of: BTreeMap<u64, u16>| {
                let taken = lone.take(region);
                prop_assert_eq!(taken.len(), of.len());
                prop_assert_eq!(taken.into_iter().collect::<BTreeMap<_, _>>(), of);
                Ok(())
            };
            for (region, within, kept) in told {
                let (line, of) = (region << REGION_BITS | within, plain.entry(region).or_default());
                let place = lone.find(line);
                prop_assert_eq!(place.map(|place| *lone.get(place)), of.get(&line).copied());
                match place.or_else(|| lone.add(line)) {
                    Some(place) => {
                        *lone.get_mut(place) = kept;
                        of.insert(line, kept);
                    }
                    None => {
                        prop_assert_eq!(of.len(), MOST);
                        take(&mut lone, region, std::mem::take(of))?;
                    }
                }
            }
            let all: BTreeSet<_> = lone.iter().collect();
            prop_assert_eq!(all, plain.values().flatten().map(|(&line, &kept)| (line, kept)).collect::<BTreeSet<_>>());
            for (region, of) in plain {
                take(&mut lone, region, of)?;
            }
            prop_assert!(lone.is_empty());
        }
    }
}

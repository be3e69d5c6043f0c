//! What must hold between the numbers of a profile, whoever wrote it. A reader checks every file, so that a question to
//! a profile never meets a sum that does not add up.

use std::cmp::Ordering;

use crate::bins::bin_of;
use crate::coherence::{Coherence, LineCoherence};
use crate::model::{
    Bin, FullHistograms, Histograms, ItemLines, ItemStack, LineData, Owner, Process, Profile, References, SampledLines,
    SetHistograms, StackData,
};

/// A rule that does not hold. The text says which, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl Invalid {
    pub(crate) const fn new(text: String) -> Self {
        Self(text)
    }
}

pub(crate) type Check = Result<(), Invalid>;

pub(crate) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Invalid(text())) }
}

/// `inner`, with the place put before its text.
pub(crate) fn within(place: impl FnOnce() -> String, inner: Check) -> Check {
    inner.map_err(|Invalid(text)| Invalid(format!("{}: {text}", place())))
}

/// A sum that no wrapped counter can fake. Adding both halves by themselves is what the compiler turns into vector
/// code; neither overflows with fewer than 2^32 counts.
pub(crate) fn sum(counts: impl IntoIterator<Item = u64>) -> u128 {
    let halves = |(low, high), count| (low + (count & 0xffff_ffff), high + (count >> 32));
    let (low, high) = counts.into_iter().fold((0_u64, 0_u64), halves);
    u128::from(low) + (u128::from(high) << 32)
}

pub(crate) fn bin_sum(bins: &[Bin]) -> u128 {
    sum(bins.iter().map(|bin| bin.count))
}

pub(crate) fn at_most_all(name: &str, found: u128, most: u128) -> Check {
    ensure(found <= most, || format!("{name} add up to {found} instead of at most {most}"))
}

pub(crate) fn equal(name: &str, found: u128, expected: u128) -> Check {
    ensure(found == expected, || format!("{name} add up to {found} instead of {expected}"))
}

impl Profile {
    /// Checks every process, and that they are sorted by [`Process::key`] without duplicates.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_order()?;
        let mut all = self.processes.iter().enumerate();
        all.try_for_each(|(index, process)| within(|| format!("process {index}"), process.validate()))
    }

    /// The part that concerns no histogram by itself: a reader checks those section by section.
    pub(crate) fn validate_structure(&self) -> Check {
        self.validate_order()?;
        let mut all = self.processes.iter().enumerate();
        all.try_for_each(|(index, process)| {
            let sound = process.validate_structure().and_then(|()| process.validate_coherence());
            let sound = sound.and_then(|()| process.validate_by_place());
            within(|| format!("process {index}"), sound)
        })
    }

    fn validate_order(&self) -> Check {
        let sorted = self.processes.is_sorted_by(|a, b| a.key() < b.key());
        ensure(sorted, || "processes are not sorted, or one is there twice".into())
    }
}

impl Process {
    /// Checks the counters, and the histograms, the coherence and the sharing of every line size, that line sizes ascend
    /// and that every tag has a name.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_structure()?;
        self.counters.validate()?;
        let mut all = self.lines.iter();
        all.try_for_each(|lines| within(|| format!("{}-byte lines", lines.line_bytes), lines.validate()))?;
        let mut all = self.sampled.iter();
        all.try_for_each(|lines| within(|| format!("sampled {}-byte lines", lines.line_bytes), lines.validate()))?;
        let mut all = self.coherence.iter();
        all.try_for_each(|data| within(|| format!("coherence of {}-byte lines", data.line_bytes), data.validate()))?;
        let mut all = self.sharing.iter();
        all.try_for_each(|data| within(|| format!("sharing of {}-byte lines", data.line_bytes), data.validate()))?;
        self.validate_coherence()?;
        within(|| "places".into(), self.places.validate())?;
        within(|| "objects".into(), self.objects.validate(&self.places))?;
        within(|| "call paths".into(), self.paths.validate(&self.places, &self.counters))?;
        let mut all = self.items.iter();
        all.try_for_each(|lines| within(|| format!("{}-byte lines by place", lines.line_bytes), lines.validate()))?;
        self.validate_by_place()
    }

    fn validate_structure(&self) -> Check {
        let ascending = self.lines.is_sorted_by(|a, b| a.line_bytes < b.line_bytes)
            && self.sampled.is_sorted_by(|a, b| a.line_bytes < b.line_bytes);
        ensure(ascending, || "line sizes are not ascending".into())?;
        let ascending = self.sharing.is_sorted_by(|a, b| a.line_bytes < b.line_bytes);
        ensure(ascending, || "line sizes of the sharing are not ascending".into())?;
        let either = self.lines.is_empty() || self.sampled.is_empty();
        ensure(either, || "some line sizes are sampled and others are not".into())?;
        let groups = self.sampled.iter().flat_map(|data| data.sets.iter().chain(&data.full));
        for lines in self.lines.iter().chain(groups) {
            for StackData { owner, tag, .. } in &lines.stacks {
                let named = (*tag as usize) < self.tags.len();
                ensure(named, || format!("{}-byte lines: {owner:?}: tag {tag} has no name", lines.line_bytes))?;
            }
        }
        let groups = self.sampled.iter().flat_map(|data| data.sets.iter().chain(&data.full));
        for stack in groups.flat_map(|group| &group.stacks) {
            let [loads, stores] = stack.histograms.lost();
            ensure(loads + stores == 0, || "a sampled reference is neither cold nor at a distance".into())?;
        }
        let named = |tag: u32| (tag as usize) < self.tags.len();
        ensure(self.counters.tags().all(named), || "a counter's tag has no name".into())?;
        ensure(self.paths.tags().all(named), || "the tag of a path has no name".into())?;
        let placed = |site: u32| (site as usize) < self.places.sites.len();
        let sites = self.counters.places.iter().filter_map(|place| place.site);
        ensure(sites.into_iter().all(placed), || "a counter's place is not known".into())?;
        let (tags, patterns) = (self.tags.len(), &self.patterns);
        within(|| "access patterns".into(), patterns.validate(tags, self.places.sites.len()))?;
        within(|| "access patterns".into(), patterns.validate_by_function(tags, self.places.functions.len()))
    }

    /// Checks that what is broken down by place adds up to the whole.
    pub(crate) fn validate_by_place(&self) -> Check {
        let ascending = self.items.is_sorted_by(|a, b| a.line_bytes < b.line_bytes);
        ensure(ascending, || "line sizes by place are not ascending".into())?;
        self.items.iter().try_for_each(|lines| self.validate_items(lines))
    }

    /// Checks that each line size with coherence is one with line data, and that what was lost to invalidations there is
    /// what is missing here.
    fn validate_coherence(&self) -> Check {
        let ascending = self.coherence.is_sorted_by(|a, b| a.line_bytes < b.line_bytes);
        ensure(ascending, || "line sizes of the coherence are not ascending".into())?;
        for data in &self.coherence {
            let size = data.line_bytes;
            let there = self.lines.iter().any(|lines| lines.line_bytes == size);
            ensure(there, || format!("there is coherence of {size}-byte lines, but no line data"))?;
            let wild = data.slots.iter().find(|slot| slot.tag as usize >= self.tags.len());
            let tagged = wild.map_or(Ok(()), |slot| Err(Invalid(format!("tag {} has no name", slot.tag))));
            within(|| format!("coherence of {size}-byte lines"), tagged)?;
        }
        for lines in &self.lines {
            let size = lines.line_bytes;
            let coherence = self.coherence.iter().find(|data| data.line_bytes == size);
            within(|| format!("{size}-byte lines"), lines.validate_lost(coherence))?;
        }
        Ok(())
    }

    /// Checks that items have names and that those of a stack add up to it, as far as the stack is there.
    fn validate_items(&self, lines: &ItemLines) -> Check {
        let place = |owner, tag| format!("{}-byte lines by place: {owner:?}, tag {tag}", lines.line_bytes);
        for ItemStack { owner, tag, item, .. } in &lines.stacks {
            let named = (*item as usize) < self.places.items.len() && (*tag as usize) < self.tags.len();
            ensure(named, || format!("{}: item {item} has no name", place(*owner, *tag)))?;
        }
        let whole = self.lines.iter().filter(|data| data.line_bytes == lines.line_bytes).flat_map(|data| &data.stacks);
        for StackData { owner, tag, histograms } in whole {
            let key = |stack: &ItemStack| (stack.owner, stack.tag).cmp(&(*owner, *tag));
            let [from, to] =
                [Ordering::Less, Ordering::Equal].map(|last| lines.stacks.partition_point(|stack| key(stack) <= last));
            let items = || lines.stacks[from..to].iter().map(|stack| &stack.histograms);
            for kind in (0..2).filter(|_| items().next().is_some()) {
                let sums = (sum(items().map(|item| item.references[kind])), sum(items().map(|item| item.cold[kind])));
                let equal = sums == (histograms.references[kind].into(), histograms.cold[kind].into());
                ensure(equal, || format!("{}: the items do not add up to the stack", place(*owner, *tag)))?;
            }
        }
        Ok(())
    }
}

impl ItemLines {
    /// Checks every stack and their order.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Self { line_bytes, max_set_bits, max_ways, ref stacks } = *self;
        validate_limits(line_bytes, max_set_bits, max_ways)?;
        let sorted = stacks.is_sorted_by(|a, b| (a.owner, a.tag, a.item) < (b.owner, b.tag, b.item));
        ensure(sorted, || "stacks are not sorted by owner, tag and item, or one is there twice".into())?;
        let mut all = stacks.iter();
        all.try_for_each(|ItemStack { owner, tag, item, histograms }| {
            within(
                || format!("{owner:?}, tag {tag}, item {item}"),
                histograms.validate_parts(max_set_bits, max_ways, false),
            )
        })
    }
}

impl LineData {
    /// Checks every stack, their order, and that the line size is a power of two.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Self { line_bytes, max_set_bits, max_ways, ref stacks } = *self;
        validate_limits(line_bytes, max_set_bits, max_ways)?;
        let sorted = stacks.is_sorted_by(|a, b| (a.owner, a.tag) < (b.owner, b.tag));
        ensure(sorted, || "stacks are not sorted by owner and tag, or one is there twice".into())?;
        let mut all = stacks.iter();
        all.try_for_each(|StackData { owner, tag, histograms }| {
            within(|| format!("{owner:?}, tag {tag}"), histograms.validate(max_set_bits, max_ways))
        })
    }
}

impl LineData {
    /// Checks that every reference is cold, at a distance, or lost to an invalidation that the coherence of this line size
    /// counts. A salvaged profile may have lost that; then the slots of several threads are taken at their word.
    pub(crate) fn validate_lost(&self, coherence: Option<&LineCoherence>) -> Check {
        let alone = self.stacks.iter().all(|stack| stack.owner == Owner::Slot(0));
        if let Some(data) = coherence {
            let same = (data.max_set_bits, data.max_ways) == (self.max_set_bits, self.max_ways);
            ensure(same, || "the limits are not those of the coherence".into())?;
            for &Coherence { slot, tag, ref lost, .. } in &data.slots {
                let stack = (Owner::Slot(slot), tag);
                let there = self.stacks.binary_search_by_key(&stack, |stack| (stack.owner, stack.tag)).is_ok();
                ensure(there || lost.total() == 0, || format!("slot {slot}, tag {tag}: lost references of no stack"))?;
            }
        }
        self.stacks.iter().try_for_each(|StackData { owner, tag, histograms }| {
            let found = sum(histograms.lost());
            let lost = match (owner, coherence) {
                (Owner::Slot(slot), Some(data)) => data.find(*slot, *tag).map_or(0, |slot| slot.lost.total()),
                (Owner::Slot(_), None) if !alone => found,
                _ => 0,
            };
            ensure(found == lost, || {
                format!("{owner:?}, tag {tag}: {lost} references are lost and {found} neither cold nor at a distance")
            })
        })
    }
}

pub(crate) fn validate_limits(line_bytes: u32, max_set_bits: u32, max_ways: u32) -> Check {
    ensure(line_bytes.is_power_of_two(), || format!("line size {line_bytes} is no power of two"))?;
    ensure(max_set_bits < 64, || format!("2^{max_set_bits} sets are more than there are lines"))?;
    ensure(max_ways > 0, || "no ways are kept".into())
}

impl SampledLines {
    /// Checks every group by itself and against the others.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_groups()?;
        self.sets.iter().chain(&self.full).try_for_each(LineData::validate)
    }

    /// Checks that the groups are what the sampling makes of the limits, and that no more references were followed than
    /// there were.
    pub(crate) fn validate_groups(&self) -> Check {
        let Self { line_bytes, max_set_bits, max_ways, sampling, references, sets, full } = self;
        let possible = sampling.rate_bits < 32 && sampling.group_bits <= 8 && sampling.scale_bits() < sampling.set_bits;
        ensure(possible, || format!("{sampling:?} is no way to sample"))?;
        let most = 1 << sampling.group_bits;
        let fits = sets.len() <= most && full.len() <= most;
        ensure(fits, || format!("{} and {} groups instead of at most {most}", sets.len(), full.len()))?;
        let shaped = |groups: &[LineData], bits: Option<u32>| {
            let mut limits = groups.iter().map(|group| (group.line_bytes, group.max_set_bits));
            groups.is_empty() || bits.is_some_and(|bits| limits.all(|limits| limits == (*line_bytes, bits)))
        };
        let shapes = shaped(sets, sampling.group_set_bits(*max_set_bits)) && shaped(full, Some(0));
        let ways = sets.iter().all(|group| group.max_ways == *max_ways);
        ensure(shapes && ways, || "the limits of a group are not those of its part".into())?;
        let sorted = references.is_sorted_by(|a, b| (a.owner, a.tag) < (b.owner, b.tag));
        ensure(sorted, || "references are not sorted by owner and tag, or some are there twice".into())?;
        [sets, full].into_iter().try_for_each(|groups| self.validate_followed(groups))
    }

    fn validate_followed(&self, groups: &[LineData]) -> Check {
        for References { owner, tag, count } in &self.references {
            for (kind, &all) in count.iter().enumerate() {
                let stacks = groups.iter().flat_map(|group| &group.stacks);
                let same = stacks.filter(|stack| (stack.owner, stack.tag) == (*owner, *tag));
                let followed = sum(same.map(|stack| stack.histograms.references[kind]));
                ensure(followed <= all.into(), || format!("{owner:?}, tag {tag}: {followed} of {all} were followed"))?;
            }
        }
        Ok(())
    }
}

impl Histograms {
    /// Checks the counts of one stack that keeps 2^0 ..= 2^`max_set_bits` sets and distances below `max_ways`: for every
    /// set count, distances add up to the same, loads and stores apart, and with cold references to no more than all
    /// references; the end part of the write-backs counts the same lines; bins lie where [`bin_of`] puts them, ascending, none empty; no vector is longer
    /// than the model allows.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self, max_set_bits: u32, max_ways: u32) -> Result<(), Invalid> {
        self.validate_parts(max_set_bits, max_ways, true)
    }

    /// The same; `capacity` says whether that is kept.
    fn validate_parts(&self, max_set_bits: u32, max_ways: u32, capacity: bool) -> Check {
        let kept = self.sets.len();
        ensure(kept == max_set_bits as usize, || format!("{kept} set counts beyond one instead of {max_set_bits}"))?;
        let cold_fits = (0..2).all(|kind| self.cold[kind] <= self.references[kind]);
        ensure(cold_fits, || "more cold references than references".into())?;
        within(|| "1 set".into(), self.validate_full())?;
        let mut all = self.sets.iter().zip(1_u32..);
        all.try_for_each(|(sets, bits)| {
            within(|| format!("2^{bits} sets"), self.validate_sets(sets, max_ways, capacity))
        })
    }

    /// Loads and stores that have a finite distance; meaningful once cold references are known not to exceed all.
    fn warm(&self) -> [u128; 2] {
        [0, 1].map(|kind| u128::from(self.references[kind].saturating_sub(self.cold[kind])))
    }

    /// Checks only that bins lie where the model puts them: what a writer relies on.
    pub(crate) fn validate_bins(&self) -> Check {
        let FullHistograms { loads, stores, writebacks, resident } = &self.full;
        let all = [("loads", loads), ("stores", stores), ("writebacks", writebacks), ("resident", resident)];
        all.into_iter().try_for_each(|(name, bins)| within(|| name.into(), validate_bins(bins)))
    }

    fn validate_full(&self) -> Check {
        self.validate_bins()?;
        let FullHistograms { loads, stores, writebacks, .. } = &self.full;
        let [warm_loads, warm_stores] = self.warm();
        at_most_all("loads", bin_sum(loads), warm_loads)?;
        at_most_all("stores", bin_sum(stores), warm_stores)?;
        ensure(writebacks.first().is_none_or(|bin| bin.lo > 0), || "write-backs at value 0".into())
    }

    fn validate_sets(&self, sets: &SetHistograms, max_ways: u32, with_capacity: bool) -> Check {
        let SetHistograms { loads, stores, capacity, writebacks, resident } = sets;
        let vectors = [loads, stores, capacity, writebacks, resident];
        let longest = vectors.map(Vec::len).into_iter().max().unwrap_or(0);
        ensure(longest <= max_ways as usize + 1, || format!("{longest} counts for {max_ways} ways"))?;
        let total = |counts: &[u64]| sum(counts.iter().copied());
        let [near_loads, near_stores] = [&self.full.loads, &self.full.stores].map(|bins| bin_sum(bins));
        equal("loads", total(loads), near_loads)?;
        equal("stores", total(stores), near_stores)?;
        equal("capacity", total(capacity), if with_capacity { near_loads + near_stores } else { 0 })?;
        equal("resident", total(resident), bin_sum(&self.full.resident))?;
        ensure(writebacks.first().is_none_or(|&count| count == 0), || "write-backs at value 0".into())
    }
}

/// Bins are most of a profile, so the usual case takes one pass without branches; only an unsound list is looked at again
/// to say why.
pub(crate) fn validate_bins(bins: &[Bin]) -> Check {
    let sound = |(sound, end), bin: &Bin| {
        let placed = (bin.lo, bin.hi) == bin_of(bin.lo);
        (sound & (end <= bin.lo) & placed & (bin.count > 0), bin.hi)
    };
    if bins.iter().fold((true, 0), sound).0 {
        return Ok(());
    }
    for &Bin { lo, hi, count } in bins {
        ensure((lo, hi) == bin_of(lo), || format!("[{lo}, {hi}) is no bin"))?;
        ensure(count > 0, || format!("bin [{lo}, {hi}) is empty"))?;
    }
    Err(Invalid("bins are not ascending".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::rich;

    /// The message after one change to a sound profile.
    fn after(change: impl FnOnce(&mut Profile)) -> String {
        let mut profile = rich();
        change(&mut profile);
        profile.validate().unwrap_err().to_string()
    }

    /// The message after one change to its first stack: 32-byte lines, 3 set bits, 4 ways.
    fn in_stack(change: impl FnOnce(&mut Histograms)) -> String {
        let text = after(|p| change(&mut p.processes[0].lines[0].stacks[0].histograms));
        text.strip_prefix("process 0: 32-byte lines: Slot(0), tag 0: ").expect(&text).to_owned()
    }

    #[test]
    fn order_and_shape() {
        assert_eq!(after(|p| p.processes.reverse()), "processes are not sorted, or one is there twice");
        assert_eq!(after(|p| p.processes[0].lines.reverse()), "process 0: line sizes are not ascending");
        let untagged = after(|p| drop(p.processes[0].tags.pop()));
        assert_eq!(untagged, "process 0: 32-byte lines: Slot(0): tag 1 has no name");
        let lines = |change: fn(&mut LineData)| after(|p| change(&mut p.processes[0].lines[0]));
        assert_eq!(lines(|l| l.line_bytes = 48), "process 0: 48-byte lines: line size 48 is no power of two");
        assert_eq!(lines(|l| l.max_ways = 0), "process 0: 32-byte lines: no ways are kept");
        let sets = lines(|l| l.max_set_bits = 64);
        assert_eq!(sets, "process 0: 32-byte lines: 2^64 sets are more than there are lines");
        let order = "process 0: 32-byte lines: stacks are not sorted by owner and tag, or one is there twice";
        assert_eq!(lines(|l| l.stacks.swap(0, 1)), order);
        assert_eq!(lines(|l| l.stacks[1] = l.stacks[0].clone()), order);
    }

    #[test]
    fn sums() {
        let stores = in_stack(|h| h.sets[2].stores[0] += 1);
        assert!(stores.starts_with("2^3 sets: stores add up to "), "{stores}");
        let missing = in_stack(|h| h.references[0] += 1);
        assert!(missing.ends_with(" neither cold nor at a distance"), "{missing}");
        let more = in_stack(|h| h.references[0] = h.cold[0]);
        assert!(more.starts_with("1 set: loads add up to ") && more.ends_with(" instead of at most 0"), "{more}");
        assert!(in_stack(|h| h.sets[0].loads[4] -= 1).starts_with("2^1 sets: loads add up to "));
        assert!(in_stack(|h| h.sets[0].capacity[1] += 1).starts_with("2^1 sets: capacity add up to "));
        assert!(in_stack(|h| h.sets[1].resident[4] += 1).starts_with("2^2 sets: resident add up to "));
        assert_eq!(in_stack(|h| h.cold[1] = u64::MAX), "more cold references than references");
        // Two changes that cancel out in 64 bits are still seen.
        let wrapped = in_stack(|h| (h.sets[0].loads[0], h.sets[0].loads[1]) = (u64::MAX, u64::MAX));
        assert!(wrapped.starts_with("2^1 sets: loads add up to 3689348814741910"), "{wrapped}");
    }

    #[test]
    fn vectors_and_bins() {
        assert_eq!(in_stack(|h| drop(h.sets.pop())), "2 set counts beyond one instead of 3");
        assert_eq!(in_stack(|h| h.sets[0].writebacks.push(1)), "2^1 sets: 6 counts for 4 ways");
        assert_eq!(in_stack(|h| h.sets[0].writebacks[0] = 1), "2^1 sets: write-backs at value 0");
        let zero = Bin { lo: 0, hi: 1, count: 1 };
        assert_eq!(in_stack(|h| h.full.writebacks = vec![zero]), "1 set: write-backs at value 0");
        assert_eq!(in_stack(|h| h.full.loads.swap(0, 1)), "1 set: loads: bins are not ascending");
        let at = |lo, hi, count| in_stack(|h| h.full.resident = vec![Bin { lo, hi, count }]);
        assert_eq!(at(512, 513, 1), "1 set: resident: [512, 513) is no bin");
        assert_eq!(at(513, 515, 1), "1 set: resident: [513, 515) is no bin");
        assert_eq!(at(512, 514, 0), "1 set: resident: bin [512, 514) is empty");
    }

    #[test]
    fn sampled_groups() {
        let after = |change: fn(&mut SampledLines)| {
            let mut profile = crate::samples::sampled();
            change(&mut profile.processes[0].sampled[1]);
            let text = profile.validate().unwrap_err().to_string();
            text.strip_prefix("process 0: sampled 64-byte lines: ").expect(&text).to_owned()
        };
        assert!(after(|data| data.sampling.rate_bits = 40).ends_with("is no way to sample"));
        assert_eq!(after(|data| data.sets.push(data.sets[0].clone())), "3 and 2 groups instead of at most 2");
        assert_eq!(after(|data| data.max_set_bits = 9), "the limits of a group are not those of its part");
        assert!(after(|data| data.references[0].count[1] = 3).starts_with("Slot(0), tag 0: "));
        assert!(after(|data| data.references.swap(0, 1)).starts_with("references are not sorted"));
        let mut lost = crate::samples::sampled();
        lost.processes[0].sampled[1].full[1].stacks[0].histograms.cold[0] -= 1;
        let lost = lost.validate().unwrap_err().to_string();
        assert_eq!(lost, "process 0: a sampled reference is neither cold nor at a distance");
        let mut mixed = rich();
        mixed.processes[0].sampled = crate::samples::sampled().processes.remove(0).sampled;
        assert!(mixed.validate().unwrap_err().to_string().contains("some line sizes are sampled and others are not"));
    }

    #[test]
    fn coherence() {
        let after = |change: fn(&mut LineCoherence)| after(|p| change(&mut p.processes[0].coherence[0]));
        let lines = "process 0: 32-byte lines: ";
        assert!(
            after(|data| drop(data.slots.pop())).starts_with(&format!("{lines}Slot(1), tag 1: 0 references are lost"))
        );
        assert_eq!(after(|data| data.max_ways += 1), format!("{lines}the limits are not those of the coherence"));
        let of_none = format!("{lines}slot 9, tag 1: lost references of no stack");
        assert_eq!(after(|data| data.slots[3].slot = 9), of_none);
        let untagged = "process 0: coherence of 32-byte lines: tag 2 has no name";
        assert_eq!(after(|data| data.slots[3].tag = 2), untagged);
        assert_eq!(
            after(|data| data.line_bytes = 16),
            "process 0: there is coherence of 16-byte lines, but no line data"
        );
        let inside = |change: fn(&mut Coherence)| {
            let mut profile = rich();
            change(&mut profile.processes[0].coherence[0].slots[0]);
            let text = profile.validate().unwrap_err().to_string();
            text.strip_prefix("process 0: coherence of 32-byte lines: slot 0, tag 0: ").expect(&text).to_owned()
        };
        assert!(inside(|slot| slot.sent.sets[1][4] += 1).starts_with("2^2 sets: sent add up to "));
        assert!(inside(|slot| slot.dirty.full[0].count += 1).starts_with("2^1 sets: dirty add up to "));
        assert_eq!(inside(|slot| drop(slot.remote.sets.pop())), "remote: 2 set counts instead of 3");
        assert_eq!(inside(|slot| slot.own.sets[0].push(1)), "own: 6 counts for 4 ways");
        assert_eq!(inside(|slot| slot.received.full[0].hi += 1).split(": ").next(), Some("received"));
        let more = "own: more hits than there were remote ones";
        assert_eq!(inside(|slot| slot.own.full[0].count += 1 << 20), more);
        assert_eq!(inside(|slot| slot.own.sets[2][4] += 1 << 20), more);
    }

    /// Vectors may be shorter than the model allows.
    #[test]
    fn missing_counts_are_zero() {
        let mut profile = rich();
        profile.processes[0].lines[0].stacks[0].histograms.sets[0].writebacks.clear();
        profile.validate().unwrap();
    }
}

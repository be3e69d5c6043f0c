//! What the private caches of several threads did to each other: sections 4 and 5 of the model, as far as the distances
//! of [`Histograms`](crate::Histograms) do not say it.

use bincode::{Decode, Encode};

use crate::model::Bin;
use crate::validate::{Check, Invalid, bin_sum, ensure, equal, sum, validate_bins, validate_limits, within};

/// What the private caches of a process did to each other, for one line size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LineCoherence {
    /// Line size, bytes; there is a [`LineData`](crate::LineData) of it with the same limits.
    pub line_bytes: u32,
    /// Counts are kept for 2^0 ..= 2^max_set_bits sets.
    pub max_set_bits: u32,
    /// With more than one set, positions below this are kept exactly.
    pub max_ways: u32,
    /// Sorted by slot, then tag. A slot to which nothing happened under a tag has no entry.
    pub slots: Vec<Coherence>,
}

/// The same of one slot under one tag. A position is that of a line in the stack of a slot: how many lines and holes
/// stood above it, per set count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Coherence {
    /// Whose private caches.
    pub slot: u32,
    /// Index into [`Process::tags`](crate::Process::tags).
    pub tag: u32,
    /// References that found their line invalidated, by the position it had when that happened: coherence misses in a
    /// cache of w ways if it was below w, capacity misses if not. They are in `references` of the slot's histograms, but
    /// neither cold nor at any distance.
    pub lost: ByPosition,
    /// Lines of this slot that stores of others invalidated, by position: `I_a` of the model.
    pub received: ByPosition,
    /// Lines of other slots that stores of this one invalidated, by their position there.
    pub sent: ByPosition,
    /// References of this slot to lines that another one had, by the least position p there; only where p is below the
    /// own distance d, which is infinite if the line is not in the own stack.
    pub remote: ByPosition,
    /// Those of the same references with a finite d, by d. Another cache of w ways could have served
    /// `sum_{p < w} remote - sum_{d < w} own` of this slot's misses.
    pub own: ByPosition,
    /// Dirty lines of this slot that another one read or wrote, after which they are clean here, by the greater of the
    /// position and `m` of section 3: a cache of w ways passed on `sum_{v < w} dirty` of them.
    pub dirty: ByPosition,
}

impl Coherence {
    /// The six kinds of counts by name, in the order they are stored.
    pub(crate) const fn all(&self) -> [(&'static str, &ByPosition); 6] {
        let Self { slot: _, tag: _, lost, received, sent, remote, own, dirty } = self;
        [("lost", lost), ("received", received), ("sent", sent), ("remote", remote), ("own", own), ("dirty", dirty)]
    }
}

/// Counts by position, for every set count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ByPosition {
    /// One set, unbounded: bins with the edges of [`Bin`], ascending, without empty ones.
    pub full: Vec<Bin>,
    /// 2^1 ..= 2^max_set_bits sets: index 0 is two sets. There, index p < max_ways is the position and index max_ways takes
    /// everything from there on. A vector may be shorter: what is missing is zero.
    pub sets: Vec<Vec<u64>>,
}

impl LineCoherence {
    /// What happened to a slot under a tag; `None`: nothing.
    #[must_use]
    pub fn find(&self, slot: u32, tag: u32) -> Option<&Coherence> {
        let at = self.slots.binary_search_by_key(&(slot, tag), |slot| (slot.slot, slot.tag));
        at.ok().map(|at| &self.slots[at])
    }

    /// Checks every slot, their order, and that the line size is a power of two.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Self { line_bytes, max_set_bits, max_ways, ref slots } = *self;
        validate_limits(line_bytes, max_set_bits, max_ways)?;
        let sorted = slots.is_sorted_by(|a, b| (a.slot, a.tag) < (b.slot, b.tag));
        ensure(sorted, || "slots are not sorted by number and tag, or one is there twice".into())?;
        let mut all = slots.iter();
        all.try_for_each(|slot| {
            within(|| format!("slot {}, tag {}", slot.slot, slot.tag), slot.validate(max_set_bits, max_ways))
        })
    }
}

impl Coherence {
    /// Checks that bins are sound, no vector is too long, events that every set count sees are as many with each, and no
    /// cache has more own hits than remote ones among the references of `remote`.
    fn validate(&self, max_set_bits: u32, max_ways: u32) -> Check {
        self.validate_bins()?;
        for (name, counts) in self.all() {
            let kept = counts.sets.len();
            ensure(kept == max_set_bits as usize, || format!("{name}: {kept} set counts instead of {max_set_bits}"))?;
            let longest = counts.sets.iter().map(Vec::len).max().unwrap_or(0);
            ensure(longest <= max_ways as usize + 1, || format!("{name}: {longest} counts for {max_ways} ways"))?;
            // Whether another slot stands nearer depends on the set count; that a line is lost does not.
            if name != "remote" && name != "own" {
                let each = counts.sets.iter().zip(1..);
                each.clone().try_for_each(|(sets, bits)| {
                    let total = sum(sets.iter().copied());
                    within(|| format!("2^{bits} sets"), equal(name, total, counts.total()))
                })?;
            }
        }
        let more = || "own: more hits than there were remote ones".into();
        ensure(at_most_bins(&self.own.full, &self.remote.full), more)?;
        let sets = self.own.sets.iter().zip(&self.remote.sets);
        sets.into_iter().try_for_each(|(own, remote)| ensure(at_most(own, remote), more))
    }

    /// Checks only that bins lie where the model puts them: what a writer relies on.
    pub(crate) fn validate_bins(&self) -> Check {
        self.all().into_iter().try_for_each(|(name, counts)| within(|| name.into(), validate_bins(&counts.full)))
    }
}

impl ByPosition {
    /// All that were counted, whatever the position.
    pub(crate) fn total(&self) -> u128 {
        bin_sum(&self.full)
    }
}

/// Whether below each position `few` counts no more than `many`.
fn at_most(few: &[u64], many: &[u64]) -> bool {
    let mut left = 0_i128;
    (0..few.len()).all(|at| {
        left += i128::from(many.get(at).copied().unwrap_or(0)) - i128::from(few[at]);
        left >= 0
    })
}

/// The same of bins, at their edges.
fn at_most_bins(few: &[Bin], many: &[Bin]) -> bool {
    few.iter().all(|edge| {
        let below = |bins: &[Bin]| sum(bins.iter().take_while(|bin| bin.hi <= edge.hi).map(|bin| bin.count));
        below(few) <= below(many)
    })
}

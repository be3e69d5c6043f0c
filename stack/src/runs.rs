//! References on their way through the tiers.

use crate::behind::State;
use crate::held::Entry;
use crate::holes::Instant;
use crate::item::Charge;
use crate::lines::Id;
use crate::repeats::Kind;
use crate::{Bucket, Chunk, Item, Reference};

/// References to the same line in a row: the first one counts a distance, the others are on top.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) line: u64,
    /// How often it occurs.
    pub(crate) weight: u32,
    /// Lower half: item of the first reference, and [`STORE`]. Upper half: item of the last store, and [`DIRTY`].
    pub(crate) flags: u32,
}

/// The first reference is a store.
pub(crate) const STORE: u32 = 1 << 15;
/// Some reference is a store.
pub(crate) const DIRTY: u32 = 1 << 31;
/// There was no reference before.
pub(crate) const COLD: u32 = 1 << 16;
/// Another thread's store took it away since the last reference.
pub(crate) const LOST: u32 = 1 << 17;

/// The item of the first reference of a run.
#[inline(always)]
pub(crate) const fn first(flags: u32) -> Item {
    Item(flags as u16 & Item::LAST.0)
}

/// What the first reference of a run counts as.
#[inline(always)]
pub(crate) const fn kind(flags: u32) -> (Kind, Item) {
    (if flags & STORE != 0 { Kind::Store } else { Kind::Load }, first(flags))
}

/// Where the last store of a run, if there is one, has a write-back counted.
#[inline(always)]
pub(crate) const fn charge(flags: u32, bucket: Bucket) -> Charge {
    if flags & DIRTY != 0 { Charge::new(bucket, Item((flags >> 16) as u16 & Item::LAST.0)) } else { Charge::NONE }
}

/// A line that came into the upper tiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch<const W: usize> {
    pub(crate) line: u64,
    /// Its distances, as far as they are known.
    pub(crate) by_set: [u8; W],
    pub(crate) full: u32,
    pub(crate) weight: u32,
    /// Lower half as in a run; and [`COLD`] and [`LOST`].
    pub(crate) flags: u32,
    /// Which run it is.
    pub(crate) run: u32,
    /// Where it is held.
    pub(crate) entry: Entry,
    /// The line that had to go, and was held there; none: [`NONE`].
    pub(crate) gone: u64,
    /// What happened to that.
    pub(crate) since: State<W>,
    /// When that was last referenced, if lines can be taken away.
    pub(crate) last: Instant,
}

/// The first store of a line since it came into the upper tiers. Closes the dirty interval that began before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Close<const W: usize> {
    /// So many fetches came before.
    pub(crate) after: usize,
    pub(crate) line: u64,
    /// Known when the batch is through the upper tiers.
    pub(crate) id: Id,
    pub(crate) weight: u32,
    /// The last store of the run.
    pub(crate) stored: Charge,
    pub(crate) since: State<W>,
}

/// Cuts references into runs. What is referenced again while it is on top has distance 0 at every set count, which
/// follows from the totals: loads and stores are added to `references`, or those of items are given to `count`. What there is
/// of `runs` before `divided` does not go on.
#[inline(always)]
pub(crate) fn strip(
    runs: &mut Vec<Run>,
    divided: usize,
    part: Chunk<'_>,
    weight: u32,
    references: &mut [u64; 2],
    count: impl FnMut(Item, bool),
) {
    let start = runs.len();
    let begun = begun(runs, divided, weight).map_or((start, u64::MAX, 0), |run| (start, run.line, run.flags));
    runs.resize(start + part.references.len(), Run { line: 0, weight, flags: 0 });
    let len = match part.items {
        [] => strip_plain(runs, begun, part.references, weight, references),
        _ => strip_items(runs, begun, part, count),
    };
    runs.truncate(len);
}

/// The run that references of this weight may go on with. Repeated ones begin a run of their own: it counts as often as
/// they do.
#[inline(always)]
pub(crate) fn begun(runs: &[Run], divided: usize, weight: u32) -> Option<Run> {
    runs[divided..].last().copied().filter(|run| run.weight == 1 && weight == 1)
}

#[inline(always)]
fn strip_plain(
    runs: &mut [Run],
    (mut next, mut last, mut flags): (usize, u64, u32),
    references: &[Reference],
    weight: u32,
    sum: &mut [u64; 2],
) -> usize {
    let mut stores = 0;
    for reference in references {
        let (line, store) = (reference.line(), u32::from(reference.is_store()));
        let same = line == last;
        next += usize::from(!same);
        flags = (if same { flags } else { store * STORE }) | (store * DIRTY);
        stores += u64::from(store);
        let run = &mut runs[next - 1];
        (run.line, run.flags) = (line, flags);
        last = line;
    }
    sum[0] += (references.len() as u64 - stores) * u64::from(weight);
    sum[1] += stores * u64::from(weight);
    next
}

#[inline(always)]
fn strip_items(
    runs: &mut [Run],
    (mut next, mut last, mut flags): (usize, u64, u32),
    part: Chunk<'_>,
    mut count: impl FnMut(Item, bool),
) -> usize {
    for (reference, &item) in part.references.iter().zip(part.items) {
        debug_assert!(item <= Item::LAST, "no such item");
        let (line, store) = (reference.line(), u32::from(reference.is_store()));
        let same = line == last;
        next += usize::from(!same);
        let first = if same { flags } else { (store * STORE) | u32::from(item.0) };
        let stored = DIRTY | u32::from(item.0) << 16;
        flags = if store == 0 { first } else { (first & 0xffff) | stored };
        let run = &mut runs[next - 1];
        (run.line, run.flags) = (line, flags);
        last = line;
        count(item, store != 0);
    }
    next
}

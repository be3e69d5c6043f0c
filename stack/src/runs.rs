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
    mut count: impl FnMut(Item, bool),
) {
    let begun = begun(runs, divided, weight);
    runs.truncate(runs.len() - usize::from(begun.is_some()));
    if part.items.is_empty() {
        let mut stores = 0;
        let none = part.references.iter().map(|&reference| (reference, Item::NONE));
        cut(runs, begun, none, weight, |_, store| stores += u64::from(store));
        references[0] += (part.references.len() as u64 - stores) * u64::from(weight);
        references[1] += stores * u64::from(weight);
    } else {
        let all = part.references.iter().zip(part.items).map(|(&reference, &item)| (reference, item));
        cut(runs, begun, all, weight, &mut count);
    }
}

/// The run that references of this weight may go on with. Repeated ones begin a run of their own: it counts as often as
/// they do.
#[inline(always)]
pub(crate) fn begun(runs: &[Run], divided: usize, weight: u32) -> Option<Run> {
    runs[divided..].last().copied().filter(|run| run.weight == 1 && weight == 1)
}

/// Runs are put down so many at a time.
const TOGETHER: usize = 64;

#[inline(always)]
fn cut(
    runs: &mut Vec<Run>,
    begun: Option<Run>,
    mut references: impl ExactSizeIterator<Item = (Reference, Item)> + Clone,
    weight: u32,
    mut count: impl FnMut(Item, bool),
) {
    let begins = |(reference, item): (Reference, Item)| {
        let flags = if reference.is_store() { STORE } else { 0 } | u32::from(item.0);
        Run { line: reference.line(), weight, flags }
    };
    let Some(mut run) = begun.or_else(|| references.clone().next().map(begins)) else { return };
    // Twice as much room as there can be, so that no place needs a look whether it is within.
    let mut together = [run; 2 * TOGETHER];
    while references.len() > 0 {
        let mut ended = 0;
        for (reference, item) in references.by_ref().take(TOGETHER) {
            debug_assert!(item <= Item::LAST, "no such item");
            let new = begins((reference, item));
            let same = new.line == run.line;
            ended += usize::from(!same);
            let first = if same { run.flags } else { new.flags };
            let stored = first & 0xffff | DIRTY | u32::from(item.0) << 16;
            run = Run { flags: if reference.is_store() { stored } else { first }, ..new };
            together[ended % (2 * TOGETHER)] = run;
            count(item, reference.is_store());
        }
        runs.extend_from_slice(&together[..ended]);
        together[0] = run;
    }
    runs.push(run);
}

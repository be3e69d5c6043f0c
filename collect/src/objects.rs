//! What lies where in memory: the blocks that the program allocated, its variables, and the stacks of its threads.
//!
//! Allocations come in the stream of what a thread does, so that what a thread did before one is told from what it did after.
//! A block that another thread freed than the one that allocated it stays known until something else is allocated there: what others
//! did before that may be read late. What its own thread does where it freed one is done to memory of which nobody told.
//!
//! Invariant: no two blocks overlap.

use crate::items::{Attributed, Items};
use crate::shadow::Shadow;
use crate::shape::Event;
use bf_stack::Item;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Blocks kept apart; one takes some 50 bytes.
const MOST: usize = 1 << 20;
/// Blocks of one allocation site that lie no further apart are put together for want of room: an allocator's headers.
const GAP: u64 = 64;

/// What accesses go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// Memory of which nobody told.
    #[default]
    Unknown,
    /// The blocks that were allocated at a place in the source, in the numbers of who told so.
    Heap(u32),
    /// A variable, in the numbers of who told so.
    Global(u32),
    /// The stack of the thread on a slot.
    Stack(u32),
}

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the first byte.
    pub address: u64,
    /// Length, bytes; not 0. Of several blocks that were put together the length of all.
    pub bytes: u64,
    /// What it is, or is one of.
    pub object: Object,
    /// Whether it was not freed.
    pub live: bool,
    /// The slot of the thread that allocated it.
    pub slot: u32,
    /// Whether that one has freed it, so that nobody uses it any more.
    pub gone: bool,
}

impl Block {
    /// One past the address of the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// A block of which another one got memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) old: Block,
    pub(crate) new: Block,
}

impl Replaced {
    /// The memory that both had.
    pub(crate) fn range(&self) -> Range<u64> {
        self.old.address.max(self.new.address)..self.old.end().min(self.new.end())
    }
}

/// What was allocated at one place in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// How many blocks.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of those that were not freed.
    pub live: u64,
    /// The largest that `live` ever was.
    pub peak: u64,
}

/// Blocks by address.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    blocks: BTreeMap<u64, Block>,
    /// By site.
    allocations: HashMap<u32, Allocations>,
    /// By slot: the stack of the last thread there, from its least address to one past its last.
    stacks: HashMap<u32, (u64, u64)>,
    /// Room for so many blocks.
    most: Option<usize>,
    /// Whether blocks were put together or left out: then what is freed is not known exactly any more.
    crowded: bool,
    /// Blocks that are left out before room is made again, which takes a look at all.
    patience: usize,
    /// Whether threads may be read so late that blocks are still used when they are gone.
    keeps: bool,
    /// Whether somebody wants to know of blocks that others replace, and those.
    watched: bool,
    replaced: Vec<Replaced>,
    /// What was found.
    shadow: Shadow,
    /// Rises whenever some address may get another object, or a thread comes to another call path.
    changes: u64,
    items: Items,
    /// Those asked for last, in 16 bits each: number in the shadow, path, place and item.
    asked: Vec<u64>,
    /// By slot: the call path that its thread is on.
    paths: Vec<u16>,
}

/// Places in [`Objects::asked`], a power of two.
const ASKED: usize = 4096;

impl Objects {
    /// Room for so many blocks.
    #[cfg(test)]
    fn with_room(most: usize) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// The block that an address lies in, or the last that did.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<Block> {
        let (_, &block) = self.blocks.range(..=address).next_back()?;
        (address < block.end()).then_some(block)
    }

    /// The first block that has a byte in `from..to`.
    #[must_use]
    pub fn within(&self, from: u64, to: u64) -> Option<Block> {
        self.at(from).or_else(|| self.blocks.range(from..to).next().map(|(_, &block)| block))
    }

    /// What was allocated, by site.
    pub fn allocations(&self) -> impl Iterator<Item = (u32, Allocations)> {
        self.allocations.iter().map(|(&site, &allocations)| (site, allocations))
    }

    /// What is in the memory of a process that this one becomes the parent of: nobody allocated anything there yet.
    #[must_use]
    pub fn inherited(&self) -> Self {
        let Self { most, crowded, keeps, .. } = *self;
        Self { blocks: self.blocks.clone(), most, crowded, keeps, ..Self::default() }
    }

    /// There is a variable.
    pub fn add_global(&mut self, address: u64, bytes: u64, number: u32) {
        if bytes > 0 {
            self.insert(Block { address, bytes, object: Object::Global(number), live: true, slot: 0, gone: false });
        }
    }

    /// There is a new thread on `slot`, whose stack lies in `from..to`, and perhaps does not fill it.
    pub fn add_stack(&mut self, slot: u32, from: u64, to: u64) {
        let before = self.stacks.insert(slot, (from, to));
        self.set_path(slot, 0);
        self.changes += 1;
        for (from, to) in before.into_iter().chain([(from, to)]).filter(|(from, to)| from < to) {
            self.shadow.change(&(from..to), None);
        }
    }

    /// The slot in whose stack an address lies, if no block does.
    #[must_use]
    pub fn stack_at(&self, address: u64) -> Option<u32> {
        let around = self.stacks.iter().filter(|(_, (from, to))| (*from..*to).contains(&address));
        // Where one seems to reach into another, that whose end is next.
        around.min_by_key(|(_, (_, to))| *to).map(|(&slot, _)| slot)
    }

    /// What items stand for, by number.
    #[must_use]
    pub fn items(&self) -> &[Attributed] {
        self.items.all()
    }

    /// The call path that the thread on `slot` is on.
    #[must_use]
    pub fn path(&self, slot: u32) -> u16 {
        self.paths.get(slot as usize).copied().unwrap_or_default()
    }

    /// The thread on `slot` is on that call path from now on.
    pub fn set_path(&mut self, slot: u32, path: u16) {
        let slot = slot as usize;
        self.paths.resize(self.paths.len().max(slot + 1), 0);
        self.changes += u64::from(self.paths[slot] != path);
        self.paths[slot] = path;
    }

    /// As long as this stays the same, so do the items of all accesses.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The item of a place's accesses on a path.
    #[inline]
    pub(crate) fn item_of_path(&mut self, place: Item, path: u16) -> Item {
        self.items.of_path(place, path)
    }

    /// The item of a place's access on a path.
    #[inline]
    pub(crate) fn item(&mut self, place: Item, path: u16, address: u64) -> Item {
        if address == 0 {
            return Item::NONE;
        }
        let number = self.shadow.number_at(address);
        let key = u64::from(number) << 32 | u64::from(path) << 16 | u64::from(place.0);
        // Those of places that follow one another lie side by side.
        let at = (usize::from(place.0) + 61 * usize::from(path) + 509 * usize::from(number)) % ASKED;
        match self.asked.get(at) {
            Some(&asked) if asked >> 16 == key && number > 0 => Item(asked as u16),
            _ => self.find((place, path), (number, address), (at, key)),
        }
    }

    #[inline(never)]
    fn find(&mut self, (place, path): (Item, u16), (number, address): (u16, u64), (at, key): (usize, u64)) -> Item {
        let object = match number {
            0 => {
                let (object, around) = self.around(address);
                self.shadow.learn(address, &around, object);
                object
            }
            number => self.shadow.object(number),
        };
        let item = self.items.number(Attributed { place, object, path });
        self.asked.resize(ASKED, 0);
        self.asked[at] = key << 16 | u64::from(item.0);
        item
    }

    /// The object at an address, and addresses around it that have the same.
    fn around(&self, address: u64) -> (Object, Range<u64>) {
        let (before, after) = match self.at(address) {
            Some(block) if !block.gone => return (block.object, block.address..block.end()),
            Some(block) => (block.address, block.end()),
            None => {
                let before = self.blocks.range(..=address).next_back().map_or(0, |(_, block)| block.end());
                (before, self.blocks.range(address..).next().map_or(u64::MAX, |(&next, _)| next))
            }
        };
        // Where a stack begins or ends another may go on.
        let stacks = self.stacks.values().flat_map(|&(from, to)| [from, to]);
        let (before, after) = stacks.fold((before, after), |(before, after), end| match end <= address {
            true => (before.max(end), after),
            false => (before, after.min(end)),
        });
        (self.stack_at(address).map_or(Object::Unknown, Object::Stack), before..after)
    }

    /// Whether there were so many blocks that not all are kept apart: peaks are too high then.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Takes note of what a thread did.
    pub(crate) fn note(&mut self, slot: u32, event: Event, words: &[u64]) {
        match (event, words) {
            // It failed, or has no bytes.
            (_, &[_, 0, ..] | &[_, _, 0, ..]) => {}
            (Event::Allocation { site }, &[_, address, bytes, ..]) => self.allocate(slot, address, bytes, site),
            (Event::Release, &[_, address, ..]) => self.free(slot, address),
            (Event::Path, &[_, path, ..]) => self.set_path(slot, (path - 1) as u16),
            _ => {}
        }
    }

    fn allocate(&mut self, slot: u32, address: u64, bytes: u64, site: u32) {
        // What `mmap` gives for a failure.
        if address == u64::MAX {
            return;
        }
        let block = Block { address, bytes, object: Object::Heap(site), live: true, slot, gone: false };
        if self.watched {
            self.watch(block);
        }
        self.insert(block);
        let known = self.allocations.entry(site).or_default();
        known.count += 1;
        known.bytes = known.bytes.saturating_add(bytes);
        known.live = known.live.saturating_add(bytes);
        known.peak = known.peak.max(known.live);
    }

    fn insert(&mut self, block: Block) {
        self.cut(block.address, block.end());
        let most = self.most.unwrap_or(MOST);
        if self.blocks.len() >= most && self.patience == 0 {
            self.make_room();
            // What was put together may reach over it.
            self.cut(block.address, block.end());
            let few = self.blocks.len() > most - most / 8;
            self.patience = if few { most / 8 } else { 0 };
        }
        let room = self.blocks.len() < most;
        if room {
            self.blocks.insert(block.address, block);
        } else {
            self.patience = self.patience.saturating_sub(1);
        }
        self.changes += 1;
        self.shadow.change(&(block.address..block.end()), room.then_some(block.object));
    }

    fn free(&mut self, slot: u32, address: u64) {
        self.release(address);
        if let Some(block) =
            self.blocks.get_mut(&address).filter(|block| block.slot == slot && !block.gone && !self.keeps)
        {
            block.gone = true;
            self.changes += 1;
            self.shadow.change(&(block.address..block.end()), None);
        }
    }

    fn release(&mut self, address: u64) {
        if let Some(block) = self.blocks.get_mut(&address)
            && std::mem::take(&mut block.live)
            && let Object::Heap(site) = block.object
            && let Some(known) = self.allocations.get_mut(&site)
        {
            known.live = known.live.saturating_sub(block.bytes);
        }
    }

    /// Takes note of the blocks of other objects that this one takes memory of.
    fn watch(&mut self, new: Block) {
        let overlapping = self.blocks.range(..new.end()).rev().map(|(_, &old)| old);
        let overlapping = overlapping.take_while(|old| old.end() > new.address);
        let others = overlapping.filter(|old| old.object != new.object);
        self.replaced.extend(others.map(|old| Replaced { old, new }));
    }

    /// Threads may be read so late that blocks are still used when they are gone.
    pub fn keep_freed(&mut self) {
        self.keeps = true;
    }

    /// From now on blocks that others replace are kept for [`Objects::take_replaced`].
    pub(crate) fn watch_replaced(&mut self) {
        self.watched = true;
    }

    /// The blocks that others replaced since this was last asked, in their order.
    pub(crate) fn take_replaced(&mut self) -> Vec<Replaced> {
        std::mem::take(&mut self.replaced)
    }

    /// Takes `from..to` out of the blocks that lie there. They were freed, seen or not.
    fn cut(&mut self, from: u64, to: u64) {
        while let Some((_, &old)) = self.blocks.range(..to).next_back()
            && old.end() > from
        {
            self.release(old.address);
            self.blocks.remove(&old.address);
            let old = Block { live: false, ..old };
            if old.address < from {
                self.blocks.insert(old.address, Block { bytes: from - old.address, ..old });
            }
            if old.end() > to {
                self.blocks.insert(to, Block { address: to, bytes: old.end() - to, ..old });
            }
            if old.address <= from {
                break;
            }
        }
    }

    /// Forgets what was freed; if that does not help, puts neighbours of one site together.
    fn make_room(&mut self) {
        self.crowded = true;
        self.shadow.forget();
        let before = self.blocks.len();
        self.blocks.retain(|_, block| block.live);
        if self.blocks.len() <= before / 2 {
            return;
        }
        let mut all: Vec<Block> = Vec::with_capacity(self.blocks.len());
        for &block in self.blocks.values() {
            match all.last_mut() {
                Some(last) if last.object == block.object && block.address - last.end() <= GAP => {
                    last.bytes = block.end() - last.address;
                    last.gone &= block.gone;
                }
                _ => all.push(block),
            }
        }
        self.blocks = all.into_iter().map(|block| (block.address, block)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::PAGE_BITS;
    use proptest::prelude::*;

    const SITE: Event = Event::Allocation { site: 7 };

    #[test]
    fn a_block_that_its_own_thread_freed_is_nobody_s() {
        let mut objects = Objects::default();
        let mut late = Objects::default();
        late.keep_freed();
        for (objects, expected) in [(&mut objects, Object::Unknown), (&mut late, Object::Heap(7))] {
            objects.note(1, SITE, &[0, 100, 50]);
            objects.note(1, SITE, &[0, 200, 50]);
            let at = |objects: &mut Objects, address| {
                let item = objects.item(Item(1), 0, address);
                objects.items()[usize::from(item.0)].object
            };
            assert_eq!([120, 220].map(|address| at(objects, address)), [Object::Heap(7); 2]);
            objects.note(1, Event::Release, &[0, 100]);
            objects.note(0, Event::Release, &[0, 200]);
            assert_eq!([120, 220].map(|address| at(objects, address)), [expected, Object::Heap(7)]);
            objects.note(1, Event::Allocation { site: 8 }, &[0, 96, 8]);
            assert_eq!([100, 104, 149].map(|address| at(objects, address)), [Object::Heap(8), expected, expected]);
        }
    }

    #[test]
    fn a_freed_block_is_known_until_its_memory_is_another_s() {
        let mut objects = Objects::default();
        objects.note(0, SITE, &[0, 100, 50]);
        assert_eq!(objects.at(149).map(|block| (block.object, block.live)), Some((Object::Heap(7), true)));
        assert_eq!((objects.at(99), objects.at(150)), (None, None));
        objects.note(0, Event::Release, &[0, 100]);
        assert_eq!(objects.within(0, 101).map(|block| block.live), Some(false));
        objects.note(0, Event::Allocation { site: 8 }, &[0, 120, 10]);
        let sites: Vec<_> = [119, 120, 129, 130].map(|at| objects.at(at).unwrap().object).into();
        assert_eq!(sites, [7, 8, 8, 7].map(Object::Heap));
        let mut all: Vec<_> = objects.allocations().collect();
        all.sort_by_key(|&(site, _)| site);
        assert_eq!(all[0], (7, Allocations { count: 1, bytes: 50, live: 0, peak: 50 }));
        assert_eq!(all[1], (8, Allocations { count: 1, bytes: 10, live: 10, peak: 10 }));
    }

    #[test]
    fn what_failed_is_no_block() {
        let mut objects = Objects::default();
        for words in [[0, 0, 8], [0, 8, 0], [0, u64::MAX, 8]] {
            objects.note(0, SITE, &words);
        }
        assert_eq!((objects.within(0, u64::MAX), objects.allocations().count()), (None, 0));
    }

    #[test]
    fn a_crowd_of_many_sites_is_left_out_without_a_look_at_all_each_time() {
        let mut objects = Objects::default();
        for i in 0..2 * MOST as u64 {
            objects.note(0, Event::Allocation { site: i as u32 % 7 }, &[0, 1000 + 48 * i, 40]);
        }
        assert!(objects.is_crowded());
        assert_eq!(objects.at(1000).map(|block| block.object), Some(Object::Heap(0)));
        assert_eq!(objects.at(1000 + 48 * (2 * MOST as u64 - 1)), None);
        assert_eq!(objects.allocations().map(|(_, known)| known.count).sum::<u64>(), 2 * MOST as u64);
        // What is freed makes room again, if not at once.
        for i in 0..MOST as u64 {
            objects.note(0, Event::Release, &[0, 1000 + 48 * i]);
        }
        let begin = 1 << 40;
        for i in 0..MOST as u64 / 4 {
            objects.note(0, SITE, &[0, begin + 4096 * i, 40]);
        }
        assert!(objects.at(begin + 4096 * (MOST as u64 / 4 - 1)).is_some());
    }

    #[test]
    fn a_crowd_of_one_site_becomes_one_block() {
        let mut objects = Objects::with_room(8);
        for i in 0..100 {
            objects.note(0, SITE, &[0, 1000 + 48 * i, 40]);
        }
        assert!(objects.is_crowded());
        assert!((0..100).all(|i| objects.at(1000 + 48 * i).is_some_and(|block| block.object == Object::Heap(7))));
        assert_eq!(objects.allocations().next().unwrap().1.count, 100);
    }

    proptest! {
        #[test]
        fn every_byte_is_the_last_one_s_that_got_it(
            all in proptest::collection::vec((1..200_u64, 1..40_u64, 1..5_u32, any::<bool>()), 0..40),
            stacks in proptest::collection::vec((0..300_u64, 1..200_u64), 0..6),
            large in proptest::option::of((0..20_usize, 0..0x3000_u64, 1..0x3000_u64)),
            room in proptest::option::of(2..10_usize),
        ) {
            // Across the end of a page.
            let begin = (1 << PAGE_BITS) - 120;
            let mut objects = room.map_or_else(Objects::default, Objects::with_room);
            let mut stacks = [0, 1, 0, 1, 0].into_iter().zip(stacks);
            let mut bytes = [0; 300];
            for (number, (address, length, site, free)) in all.into_iter().enumerate() {
                if number % 4 == 3 && let Some((slot, (from, length))) = stacks.next() {
                    objects.add_stack(slot, begin + from, begin + from + length);
                }
                if let Some((_, address, length)) = large.filter(|large| large.0 == number) {
                    objects.add_global(address, length, 9);
                    (begin..).zip(&mut bytes).filter(|(at, _)| (address..address + length).contains(at)).for_each(|(_, byte)| *byte = 9);
                }
                objects.note(0, Event::Allocation { site }, &[0, begin + address, length]);
                bytes[address as usize..][..length as usize].fill(site);
                // By another thread: it stays known.
                if free {
                    objects.note(1, Event::Release, &[0, begin + address]);
                }
                for (at, &site) in (begin..).zip(&bytes) {
                    let expected = (site > 0).then_some(if site == 9 { Object::Global(9) } else { Object::Heap(site) });
                    let block = objects.at(at).map(|block| block.object);
                    // What there is no room for is forgotten, and its neighbours take its place.
                    let expected = if objects.is_crowded() { block } else { expected };
                    prop_assert_eq!(block, expected);
                    let expected = expected.or(objects.stack_at(at).map(Object::Stack));
                    let item = objects.item(Item(1), 0, at);
                    let found = objects.items()[usize::from(item.0)].object;
                    prop_assert_eq!(found, expected.unwrap_or(Object::Unknown));
                }
            }
        }
    }
}

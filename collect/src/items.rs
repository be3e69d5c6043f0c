//! What references are attributed to: numbers for places, objects and call paths together.

use crate::objects::Object;
use bf_stack::Item;
use std::collections::HashMap;

/// What an item stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributed {
    /// A place, in the numbers of the shapes.
    pub place: Item,
    /// What is accessed.
    pub object: Object,
    /// The call path, in the numbers of who told so; 0: unknown.
    pub path: u16,
}

/// Items of all three; from then on places are left out.
const MOST_WHOLE: usize = 8192;
/// Items of objects and paths; from then on objects are left out, too.
const MOST_OBJECTS: usize = 12_288;
/// All items.
const MOST: usize = 20_480;
/// Places in [`Items::near`]: a power of two.
const NEAR: usize = 4096;

/// The numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Items {
    all: Vec<Attributed>,
    numbers: HashMap<Attributed, Item>,
    /// What was asked for of late.
    near: Vec<(Attributed, Item)>,
}

impl Items {
    /// What items stand for, by number.
    pub(crate) fn all(&self) -> &[Attributed] {
        &self.all
    }

    /// The item of a place on a path.
    #[inline]
    pub(crate) fn of_path(&mut self, place: Item, path: u16) -> Item {
        self.number(Attributed { place, path, ..Attributed::default() })
    }

    /// The item of all that: of less, once there are many.
    #[inline]
    pub(crate) fn number(&mut self, whole: Attributed) -> Item {
        let (kind, number) = match whole.object {
            Object::Unknown => (0, 0),
            Object::Heap(site) => (1, site),
            Object::Global(number) => (2, number),
            Object::Stack(slot) => (3, slot),
        };
        let at = usize::from(whole.place.0) + 61 * usize::from(whole.path) + 509 * number as usize + 1021 * kind;
        match self.near.get(at % NEAR) {
            // Where nothing was asked for yet there is what is nothing, and has that item.
            Some(&(near, item)) if near == whole => item,
            _ => {
                let item = self.find(whole);
                self.near.resize(NEAR, (Attributed::default(), Item::NONE));
                self.near[at % NEAR] = (whole, item);
                item
            }
        }
    }

    fn find(&mut self, whole: Attributed) -> Item {
        if self.all.is_empty() {
            self.all.push(Attributed::default());
            self.numbers.insert(Attributed::default(), Item::NONE);
        }
        let object = Attributed { place: Item::NONE, ..whole };
        let path = Attributed { object: Object::Unknown, ..object };
        for (attributed, most) in [(whole, MOST_WHOLE), (object, MOST_OBJECTS), (path, MOST)] {
            if let Some(&known) = self.numbers.get(&attributed) {
                return known;
            }
            if self.all.len() < most {
                let item = Item(self.all.len() as u16);
                self.all.push(attributed);
                self.numbers.insert(attributed, item);
                return item;
            }
        }
        Item::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_apart_gets_less_as_items_run_out() {
        let mut items = Items::default();
        let whole = |n: u32| Attributed { place: Item(7), object: Object::Heap(n), path: (n % 5000) as u16 };
        let first = items.number(whole(1));
        assert_eq!(items.number(Attributed::default()), Item::NONE);
        let numbers: Vec<_> = (1..30_000).map(|n| items.number(whole(n))).collect();
        assert_eq!((numbers[0], items.all().len()), (first, MOST_OBJECTS + 4999));
        let of = |n: usize| items.all()[usize::from(numbers[n - 1].0)];
        assert_eq!(of(8000), whole(8000));
        assert_eq!(of(9000), Attributed { place: Item::NONE, ..whole(9000) });
        assert_eq!(of(29_000), Attributed { path: 4000, ..Attributed::default() });
        assert_eq!(items.number(whole(8000)), numbers[7999], "what has an item keeps it");
    }

    #[test]
    fn paths_and_places_have_the_same_items_by_either_way() {
        let mut items = Items::default();
        for (place, path) in (0..200).flat_map(|place| (0..50).map(move |path| (Item(place * 41), path))) {
            let item = items.of_path(place, path);
            assert_eq!(item, items.number(Attributed { place, path, ..Attributed::default() }));
            assert_eq!(items.of_path(place, path), item);
        }
    }
}

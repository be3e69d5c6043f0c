//! What lies in each word of memory, so that an address is looked up without a search among all blocks.
//!
//! Invariant: a word with a number lies from its first byte to its last in what has that number. What is not known of a word,
//! or where two things share one, has to be searched for.

use crate::objects::Object;
use std::collections::HashMap;
use std::ops::Range;

/// Bits of an address within a word, and within a page.
const WORD_BITS: u32 = 2;
pub(crate) const PAGE_BITS: u32 = 12;
const WORDS: usize = 1 << (PAGE_BITS - WORD_BITS);
/// Pages there is room for, and those of them that hold more than one thing, which take 2 KiB each. Then it begins anew.
const MOST: usize = 1 << 20;
const MOST_MIXED: usize = if cfg!(test) { 2 } else { 1 << 16 };
/// Pages that are found at once: a power of two.
const NEAR: usize = 4096;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Page {
    #[default]
    Nothing,
    /// All of it is the same.
    Whole(u16),
    /// Where its words are.
    Mixed(u16),
}

/// Bits of what is known of a page, and the one of them that tells where words are from a number.
const KNOWN_BITS: u32 = 17;
const MIXED: u64 = 1 << (KNOWN_BITS - 1);
/// Numbers of pages have so many bits, or are not remembered: nothing lies up there.
const PAGE_NUMBER_BITS: u32 = 64 - KNOWN_BITS;

/// A page's number and what is known of it, in one word.
#[inline]
fn near(number: u64, page: Page) -> u64 {
    let known = match page {
        Page::Nothing => 0,
        Page::Whole(number) => u64::from(number),
        Page::Mixed(at) => MIXED | u64::from(at),
    };
    number << KNOWN_BITS | known
}

/// See the module's page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    /// By number, counted from 1.
    objects: Vec<Object>,
    numbers: HashMap<Object, u16>,
    /// By page number.
    pages: HashMap<u64, Page>,
    /// By page number modulo [`NEAR`]: the last one that was looked for, and what is known of it, as [`near`] has it.
    near: Vec<u64>,
    /// The numbers of words, 0 for those of which nothing is known.
    mixed: Vec<[u16; WORDS]>,
}

impl Shadow {
    /// The number of what lies at an address; 0: not known.
    #[inline]
    pub(crate) fn number_at(&mut self, address: u64) -> u16 {
        let number = address >> PAGE_BITS;
        let known = match self.near.get(number as usize % NEAR) {
            Some(&near) if near >> KNOWN_BITS == number => near,
            _ => near(number, self.look_for(number)),
        };
        match known & MIXED {
            0 => known as u16,
            _ => self.mixed[usize::from(known as u16)][word(address)],
        }
    }

    /// What has a number that is not 0.
    pub(crate) fn object(&self, number: u16) -> Object {
        self.objects[usize::from(number) - 1]
    }

    /// What lies at an address turned out to lie in all bytes of `around`.
    pub(crate) fn learn(&mut self, address: u64, around: &Range<u64>, object: Object) {
        let (page, number) = (address >> PAGE_BITS, self.number(object));
        if number == 0 {
            return;
        }
        if self.look_for(page) == Page::Nothing {
            if self.pages.len() >= MOST || self.mixed.len() >= MOST_MIXED {
                self.forget();
            }
            if covers(around, page) {
                self.set(page, Page::Whole(number));
            } else {
                self.set(page, Page::Mixed(self.mixed.len() as u16));
                self.mixed.push([0; WORDS]);
            }
        }
        self.write(page, around, number);
    }

    /// There is something else in `range` now; `None`: that has to be searched for.
    pub(crate) fn change(&mut self, range: &Range<u64>, object: Option<Object>) {
        let number = object.map_or(0, |object| self.number(object));
        let pages = range.start >> PAGE_BITS..=(range.end - 1) >> PAGE_BITS;
        if pages.end() - pages.start() <= self.pages.len() as u64 {
            pages.for_each(|page| self.write(page, range, number));
        } else {
            let known: Vec<_> = self.pages.keys().copied().filter(|page| pages.contains(page)).collect();
            known.into_iter().for_each(|page| self.write(page, range, number));
        }
    }

    /// Nothing is known any more, but for the numbers.
    pub(crate) fn forget(&mut self) {
        self.pages.clear();
        self.near.clear();
        self.mixed.clear();
    }

    /// Of a page of which something is known, the words that lie in `range` get a number, and those that only reach into it none.
    fn write(&mut self, page: u64, range: &Range<u64>, number: u16) {
        match self.look_for(page) {
            Page::Nothing => {}
            Page::Whole(_) if number > 0 && covers(range, page) => self.set(page, Page::Whole(number)),
            Page::Whole(known) if known == number => {}
            Page::Whole(_) => self.set(page, Page::Nothing),
            Page::Mixed(at) => {
                let (begin, bytes) = (page << PAGE_BITS, 1 << WORD_BITS);
                let from = range.start.saturating_sub(begin) as usize;
                let to = (range.end - begin).min(1 << PAGE_BITS) as usize;
                let words = &mut self.mixed[usize::from(at)];
                let (first, last) = (from.div_ceil(bytes), to / bytes);
                words[from / bytes..to.div_ceil(bytes)].fill(0);
                if first < last {
                    words[first..last].fill(number);
                }
            }
        }
    }

    fn look_for(&mut self, number: u64) -> Page {
        let page = self.pages.get(&number).copied().unwrap_or_default();
        // Of the first page nothing is known then.
        self.near.resize(NEAR, 0);
        if number < 1 << PAGE_NUMBER_BITS {
            self.near[number as usize % NEAR] = near(number, page);
        }
        page
    }

    fn set(&mut self, number: u64, page: Page) {
        match page {
            Page::Nothing => self.pages.remove(&number),
            _ => self.pages.insert(number, page),
        };
        self.look_for(number);
    }

    /// 0 if there are no more.
    fn number(&mut self, object: Object) -> u16 {
        if let Some(&number) = self.numbers.get(&object) {
            return number;
        }
        let Ok(number) = u16::try_from(self.objects.len() + 1) else { return 0 };
        self.objects.push(object);
        self.numbers.insert(object, number);
        number
    }
}

#[inline]
fn word(address: u64) -> usize {
    (address >> WORD_BITS) as usize % WORDS
}

/// Whether a page lies in `range`.
fn covers(range: &Range<u64>, page: u64) -> bool {
    let begin = page << PAGE_BITS;
    range.start <= begin && range.end >= begin.saturating_add(1 << PAGE_BITS)
}

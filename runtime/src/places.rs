//! Where in the source segments come from: the tables of modules in, one table for the process out.
//!
//! What references are attributed to are the sites without their columns, as long as there are numbers for them: first those
//! that run first, then those that run often, of the others whole functions, then everything else together.
//!
//! A module may be unloaded before its segments are first met, so the tables of a library are copied when it registers.

use crate::system;
use bf_abi::Places as Tables;
use bf_collect::Item as Number;
use bf_profile::Places;
use bf_profile::places::{Function, Item, Loop, Site};
use foldhash::fast::FixedState;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A table of a module that does not go with it: where it is in the program itself, and a copy of that of a library.
pub type Table<T> = Cow<'static, [T]>;

/// A module's tables, and what became of its sites and strings here.
#[derive(Default)]
pub struct Kept {
    strings: Table<u8>,
    functions: Table<bf_abi::Function>,
    sites: Table<bf_abi::Site>,
    loops: Table<bf_abi::Loop>,
    /// By index of a site: 1 + its index here; 0: it was not asked for yet.
    numbers: Vec<u32>,
    /// By offset of a string: its number here.
    known: Numbers<u32>,
}

impl Kept {
    /// # Safety
    ///
    /// `tables` is null, or they and what they point to follow the layout of `bf-abi`.
    pub unsafe fn new(tables: *const Tables) -> Self {
        // SAFETY:
        // - the caller's obligation
        let Some(tables) = (unsafe { tables.as_ref() }) else { return Self::default() };
        // SAFETY:
        // - each table has as many rows as its count says
        unsafe {
            Self {
                strings: table(tables.strings.cast(), tables.n_strings),
                functions: table(tables.functions, tables.n_functions),
                sites: table(tables.sites, tables.n_sites),
                loops: table(tables.loops, tables.n_loops),
                numbers: vec![0; tables.n_sites as usize],
                known: none(),
            }
        }
    }

    /// Whether the tables are the same.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.strings, &self.functions, &self.sites, &self.loops)
            == (&other.strings, &other.functions, &other.sites, &other.loops)
    }
}

/// # Safety
///
/// `n` values lie at `at` as long as the module does, or it is null. Nobody changes them.
pub unsafe fn table<T: Copy>(at: *const T, n: u32) -> Table<T> {
    if at.is_null() {
        return Cow::default();
    }
    // SAFETY:
    // - the caller's obligation; a copy is made of what may go
    let table = unsafe { std::slice::from_raw_parts(at, n as usize) };
    if system::is_of_program(at.addr()) { Cow::Borrowed(table) } else { Cow::Owned(table.to_vec()) }
}

/// By what is in a table: where.
type Numbers<K> = HashMap<K, u32, FixedState>;

const fn none<K>() -> Numbers<K> {
    HashMap::with_hasher(FixedState::with_seed(0))
}

/// The table of the process: every place once, whatever modules it is in.
pub struct Interned {
    places: Places,
    strings: Numbers<String>,
    functions: Numbers<[u32; 4]>,
    loops: Numbers<([u32; 4], Option<u32>)>,
    sites: Numbers<([u32; 4], [Option<u32>; 3])>,
    /// By place: function, file and line, call, loop and block.
    lines: BTreeMap<([u32; 3], [Option<u32>; 3]), Number>,
    /// By function, and perhaps block: the item of places that have none of their own.
    merged: BTreeMap<(u32, Option<u32>), Number>,
}

/// Items for places: what more of them there are share those of their functions. An item takes 9 to 50 KB in each stack.
const MOST_LINES: usize = 4096;
/// Of those, the ones that places get when they first run; for the others they have to be hot.
const MOST_AT_ONCE: usize = 2048;
/// Accesses, powers of two: of the code that gets the first and the last of those others.
const HEAT: Range<usize> = 8..24;
/// Items that the others share, and those of them that are of a block, where blocks are told.
const MOST_SHARED: usize = 4095;
const MOST_OF_BLOCKS: usize = 3072;
/// Once there are so many sites, what is counted stands under whole functions.
const MOST_COUNTED: usize = 1 << 15;

impl Interned {
    pub const fn new() -> Self {
        Self {
            places: Places {
                strings: Vec::new(),
                functions: Vec::new(),
                loops: Vec::new(),
                sites: Vec::new(),
                items: Vec::new(),
                blocks: Vec::new(),
            },
            strings: none(),
            functions: none(),
            loops: none(),
            sites: none(),
            lines: BTreeMap::new(),
            merged: BTreeMap::new(),
        }
    }

    /// The table so far.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// After how many accesses of its segment a place gets an item of its own; `None`: there are no more.
    pub fn heat(&self) -> Option<u64> {
        let lines = self.lines.len();
        let Some(more) = lines.checked_sub(MOST_AT_ONCE) else { return Some(0) };
        (lines < MOST_LINES).then(|| 1 << (HEAT.start + HEAT.len() * more / (MOST_LINES - MOST_AT_ONCE)))
    }

    /// What the references of a module's site are attributed to, whose segment made so many accesses before, and whether other
    /// sites share it for want of items. `by_block`: blocks are told apart, if the module tells them.
    pub fn item(&mut self, module: &mut Kept, number: u32, by_block: bool, accesses: u64) -> (Number, bool) {
        let Some(index) = self.site(module, number).checked_sub(1) else { return (Number::NONE, false) };
        let site = self.places.sites[index as usize];
        let block = module.sites.get(number as usize - 1).filter(|_| by_block);
        let block = block.and_then(|site| site.block.checked_sub(1));
        let line = ([site.function, site.file, site.line], [site.inlined_at, site.innermost, block]);
        if let Some(&known) = self.lines.get(&line) {
            return (known, false);
        }
        if self.heat().is_some_and(|heat| accesses >= heat) {
            let index = self.add_site(site, block);
            let item = self.add_item(Item { site: Some(index), merged: false });
            self.lines.insert(line, item);
            return (item, false);
        }
        let function = self.places.compiled_into(index);
        let by_block = block.and_then(|block| self.merged(function, Some(block), MOST_OF_BLOCKS));
        (by_block.or_else(|| self.merged(function, None, MOST_SHARED)).unwrap_or(Number::NONE), true)
    }

    /// The item of what has none of its own in a function, perhaps of one block of it; none once there are `most` such items.
    fn merged(&mut self, function: u32, block: Option<u32>, most: usize) -> Option<Number> {
        if let Some(&known) = self.merged.get(&(function, block)) {
            return Some(known);
        }
        if self.merged.len() >= most {
            return None;
        }
        let Function { file, .. } = self.places.functions[function as usize];
        let site = self.add_site(Site { function, file, ..Site::default() }, block);
        let item = self.add_item(Item { site: Some(site), merged: true });
        self.merged.insert((function, block), item);
        Some(item)
    }

    /// The number of the site that blocks stand under which are allocated at a module's site, from 1 up; 0 for one that is not in its
    /// tables: the line, wherever that is inlined. Where the standard library allocates for the program, the place that called it, as
    /// far as calls were inlined.
    pub fn allocation(&mut self, module: &mut Kept, number: u32) -> u32 {
        let found = self.site(module, number).checked_sub(1).and_then(|index| self.places.in_program(index));
        let Some(&Site { function, file, line, .. }) = found.and_then(|index| self.places.sites.get(index as usize))
        else {
            return 0;
        };
        self.add_site(Site { function, file, line, ..Site::default() }, None) + 1
    }

    /// The number of the site that counters of a module's site stand under, from 1 up; 0 for one that is not in its tables.
    pub fn line(&mut self, module: &mut Kept, number: u32) -> u32 {
        if self.places.sites.len() < MOST_COUNTED {
            return self.site(module, number);
        }
        let Some(function) = self.compiled_into(module, number) else { return 0 };
        let Function { file, .. } = self.places.functions[function as usize];
        self.add_site(Site { function, file, ..Site::default() }, None) + 1
    }

    /// The index of the function that a module's site was compiled into; `None` for one that is not in its tables.
    pub fn compiled_into(&mut self, module: &mut Kept, number: u32) -> Option<u32> {
        let mut outermost = (number as usize).checked_sub(1)?;
        // A call that it was inlined at stands before it.
        while let Some(call) = module.sites.get(outermost).and_then(|site| (site.inlined_at as usize).checked_sub(1))
            && call < outermost
        {
            outermost = call;
        }
        let function = module.sites.get(outermost)?.function;
        Some(self.function(module, function))
    }

    fn add_item(&mut self, item: Item) -> Number {
        if self.places.items.is_empty() {
            self.places.items.push(Item::default());
        }
        self.places.items.push(item);
        Number(self.places.items.len() as u16 - 1)
    }

    /// The number of a module's site, whatever its block, from 1 up; 0 for one that is not in its tables. `number` is as in
    /// the tables.
    pub fn site(&mut self, module: &mut Kept, number: u32) -> u32 {
        let Some(index) = (number as usize).checked_sub(1) else { return 0 };
        let (Some(&known), Some(&site)) = (module.numbers.get(index), module.sites.get(index)) else { return 0 };
        if known != 0 {
            return known;
        }
        // A call that it was inlined at stands before it.
        let inlined_at =
            if site.inlined_at < number { self.site(module, site.inlined_at).checked_sub(1) } else { None };
        let interned = Site {
            function: self.function(module, site.function),
            file: self.string_of(module, site.file),
            line: site.line,
            column: site.column,
            inlined_at,
            innermost: self.innermost(module, site.innermost),
        };
        module.numbers[index] = self.add_site(interned, None) + 1;
        module.numbers[index]
    }

    /// The index of a site in a block, or wherever it is.
    fn add_site(&mut self, site: Site, block: Option<u32>) -> u32 {
        let key = ([site.function, site.file, site.line, site.column], [site.inlined_at, site.innermost, block]);
        let next = self.places.sites.len() as u32;
        let index = *self.sites.entry(key).or_insert(next);
        if index == next {
            self.places.sites.push(site);
            if block.is_some() {
                self.places.blocks.resize(index as usize, None);
                self.places.blocks.push(block);
            }
        }
        index
    }

    /// The index of a function of a module's tables.
    pub fn function(&mut self, module: &mut Kept, index: u32) -> u32 {
        let found = module.functions.get(index as usize).copied();
        let (names, line) = found.map_or(([0; 3], 0), |found| ([found.name, found.display, found.file], found.line));
        let [name, display, file] = names.map(|name| self.string_of(module, name));
        let next = self.places.functions.len() as u32;
        let number = *self.functions.entry([name, display, file, line]).or_insert(next);
        if number == next {
            self.places.functions.push(Function { name, display, file, line });
        }
        number
    }

    fn innermost(&mut self, module: &mut Kept, number: u32) -> Option<u32> {
        let found = *module.loops.get((number as usize).checked_sub(1)?)?;
        // A loop stands after the one around it.
        let parent = if found.parent < number { self.innermost(module, found.parent) } else { None };
        let function = self.function(module, found.function);
        let file = self.string_of(module, found.file);
        let next = self.places.loops.len() as u32;
        let index = *self.loops.entry(([function, file, found.line, found.depth], parent)).or_insert(next);
        if index == next {
            self.places.loops.push(Loop { function, file, line: found.line, depth: found.depth, parent });
        }
        Some(index)
    }

    /// The number of a string of a module's tables.
    fn string_of(&mut self, module: &mut Kept, offset: u32) -> u32 {
        *module.known.entry(offset).or_insert_with(|| {
            let rest = module.strings.get(offset as usize..).unwrap_or_default();
            let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            self.string(String::from_utf8_lossy(&rest[..end]).into_owned())
        })
    }

    /// The number of a string; "" is the first.
    pub fn string(&mut self, text: String) -> u32 {
        if self.places.strings.is_empty() {
            self.places.strings.push(String::new());
            self.strings.insert(String::new(), 0);
        }
        let next = self.places.strings.len() as u32;
        *self.strings.entry(text).or_insert_with_key(|text| {
            self.places.strings.push(text.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with one function, two loops, a site in the inner one and one that is inlined there.
    fn module(first: &str) -> Kept {
        let strings = format!("\0{first}\0main\0a.c\0inlined\0");
        let at = |text: &str| strings.find(&format!("\0{text}\0")).unwrap() as u32 + 1;
        let function = |name, line| bf_abi::Function { name: at(name), display: at(name), file: at("a.c"), line };
        let around = |line, depth, parent| bf_abi::Loop { function: 0, file: at("a.c"), line, depth, parent };
        let site = |function, line, inlined_at| bf_abi::Site {
            function,
            file: at("a.c"),
            line,
            column: 3,
            inlined_at,
            innermost: 2,
            block: 0,
        };
        Kept {
            functions: vec![function("main", 1), function("inlined", 9)].into(),
            sites: vec![site(0, 4, 0), site(1, 10, 1)].into(),
            loops: vec![around(2, 1, 0), around(3, 2, 1)].into(),
            numbers: vec![0; 2],
            known: none(),
            strings: strings.into_bytes().into(),
        }
    }

    #[test]
    fn the_same_place_in_two_modules_is_one() {
        let mut interned = Interned::new();
        let (mut a, mut b) = (module("x"), module("longer"));
        assert_eq!((interned.site(&mut a, 2), interned.site(&mut b, 1), interned.site(&mut b, 2)), (2, 1, 2));
        assert_eq!((interned.site(&mut a, 0), interned.site(&mut a, 3)), (0, 0));
        let places = interned.places();
        places.validate().unwrap();
        assert_eq!((places.sites.len(), places.loops.len(), places.functions.len()), (2, 2, 2));
        assert_eq!(places.string(places.functions[places.compiled_into(1) as usize].name), "main");
        assert_eq!(places.sites[1].inlined_at, Some(0));
    }

    #[test]
    fn a_site_is_compiled_into_the_outermost_function() {
        let mut interned = Interned::new();
        let mut module = module("x");
        let into = [1, 2, 0, 3].map(|number| interned.compiled_into(&mut module, number));
        assert_eq!(into, [Some(0), Some(0), None, None]);
        let places = interned.places();
        assert_eq!((places.string(places.functions[0].name), places.sites.len()), ("main", 0));
    }

    #[test]
    fn items_are_of_blocks_and_all_else_is_not() {
        let mut interned = Interned::new();
        let mut module = module("x");
        let first = module.sites[0];
        module.sites = [0, 5, 6, 5].map(|block| bf_abi::Site { block, ..first }).to_vec().into();
        module.numbers = vec![0; 4];
        let all = [1, 2, 3, 4].map(|number| interned.item(&mut module, number, true, 0).0);
        assert!(all[0] != all[1] && all[1] != all[2] && all[1] == all[3]);
        assert_eq!([1, 2, 3].map(|number| interned.item(&mut module, number, false, 0)), [(all[0], false); 3]);
        assert_eq!([1, 2, 3].map(|number| interned.site(&mut module, number)), [1; 3]);
        let places = interned.places();
        let blocks: Vec<_> = places.items.iter().map(|item| places.block(item.site?)).collect();
        assert_eq!(blocks, [None, None, Some(4), Some(5)]);
        places.validate().unwrap();
    }

    #[test]
    fn places_share_the_item_of_their_function_once_there_are_many() {
        let mut interned = Interned::new();
        let mut module = module("x");
        let first = module.sites[0];
        let many = 3 * MOST_LINES as u32;
        module.sites = (0..many).map(|at| bf_abi::Site { line: at / 2, column: at % 2, ..first }).collect();
        module.numbers = vec![0; many as usize];
        let all: Vec<_> = (1..=many).map(|number| interned.item(&mut module, number, true, 0)).collect();
        assert!(all.chunks(2).all(|pair| pair[0] == pair[1]), "columns are not told apart");
        let [_, before @ .., last] = interned.places().items.as_slice() else { panic!("no items") };
        assert_eq!((before.len(), all.last().unwrap().0.0 as usize), (MOST_AT_ONCE, MOST_AT_ONCE + 1));
        assert_eq!(all.iter().filter(|(_, shared)| *shared).count(), many as usize - 2 * MOST_AT_ONCE);
        assert!(before.iter().all(|item| !item.merged) && last.merged);
        assert_eq!(interned.places().sites[last.site.unwrap() as usize].line, 0);
        interned.places().validate().unwrap();
    }

    #[test]
    fn then_places_get_their_own_once_they_are_hot() {
        let mut interned = Interned::new();
        let mut module = module("x");
        let first = module.sites[0];
        let many = 2 * MOST_LINES as u32;
        module.sites = (0..many).map(|line| bf_abi::Site { line, ..first }).collect();
        module.numbers = vec![0; many as usize];
        let mut item = |at: u32, accesses| interned.item(&mut module, at, false, accesses);
        let all: Vec<_> = (1..=many).map(|number| item(number, 0)).collect();
        assert_eq!(item(many, (1 << HEAT.start) - 1), *all.last().unwrap());
        let (hot, shared) = item(many, 1 << HEAT.start);
        assert!(hot.0 > all.last().unwrap().0.0 && !shared);
        assert_eq!(item(many, 0), (hot, false), "what has an item keeps it");
        let hotter: Vec<_> = (1..=many).map(|number| item(number, u64::MAX).1).collect();
        assert_eq!(hotter.iter().filter(|&&shared| !shared).count(), MOST_LINES);
        assert_eq!(interned.heat(), None);
        interned.places().validate().unwrap();
    }

    #[test]
    fn the_more_places_have_their_own_items_the_hotter_others_must_be() {
        let mut interned = Interned::new();
        let heats = (0..=MOST_LINES as u32).map(|line| {
            interned.lines.insert(([line, 0, 0], [None; 3]), Number::NONE);
            interned.heat()
        });
        let heats: Vec<_> = heats.collect();
        assert!(heats[..MOST_LINES - 1].is_sorted() && heats[MOST_AT_ONCE - 2] == Some(0));
        assert_eq!([MOST_AT_ONCE, MOST_LINES - 1].map(|lines| heats[lines - 1]), [8, 23].map(|heat| Some(1 << heat)));
        assert_eq!(heats[MOST_LINES - 1..], [None; 2]);
    }

    #[test]
    fn places_share_the_item_of_their_block_if_it_is_told() {
        let mut interned = Interned::new();
        let mut module = module("x");
        let first = module.sites[0];
        let many = 4 * MOST_LINES as u32;
        module.sites = (0..many).map(|at| bf_abi::Site { line: at, block: 1 + at / 2, ..first }).collect();
        module.numbers = vec![0; many as usize];
        let all: Vec<_> = (1..=many).map(|number| interned.item(&mut module, number, true, 0).0.0 as usize).collect();
        let shared = MOST_AT_ONCE + 2 * MOST_OF_BLOCKS;
        assert!(all[..MOST_AT_ONCE].is_sorted_by(|a, b| a < b));
        assert!(all[MOST_AT_ONCE..shared].chunks(2).all(|pair| pair[0] == pair[1]));
        let of_function = 1 + MOST_AT_ONCE + MOST_OF_BLOCKS;
        assert!(all[shared..].iter().all(|&item| item == of_function), "the rest is of the function");
        let places = interned.places();
        assert_eq!(places.items.len(), of_function + 1);
        assert!(places.items[MOST_AT_ONCE + 1..].iter().all(|item| item.merged));
        assert_eq!(places.block(places.items[of_function].site.unwrap()), None);
        assert_eq!(places.block(places.items[of_function - 1].site.unwrap()), Some((shared as u32 - 1) / 2));
        places.validate().unwrap();
    }
}

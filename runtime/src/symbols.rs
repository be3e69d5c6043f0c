//! Variables of the program and its libraries, by their symbol tables.

use bf_profile::{ObjectKind, SharedLine, SharedLines, SharedObject};
use object::{
    Endianness, Object as _, ObjectKind as ObjectFileKind, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

/// A file that is mapped.
pub struct Mapped {
    /// Where it is.
    pub path: PathBuf,
    /// What was added to the addresses in it.
    pub base: u64,
    /// Addresses of its segments in memory: begin and end.
    segments: Vec<(u64, u64)>,
}

/// Names what lies at the lines, where a symbol says so.
pub fn name(sharing: &mut [SharedLines]) {
    if sharing.iter().all(|lines| lines.lines.is_empty()) {
        return;
    }
    let mut mapped = mapped();
    mapped.iter_mut().for_each(add_zeroed);
    let mut tables: Vec<Option<BTreeMap<u64, SharedObject>>> = mapped.iter().map(|_| None).collect();
    for lines in sharing {
        let line_bytes = u64::from(lines.line_bytes);
        for line in &mut lines.lines {
            let within = |&(begin, end): &(u64, u64)| begin < line.address + line_bytes && line.address < end;
            let Some(at) = mapped.iter().position(|file| file.segments.iter().any(within)) else { continue };
            let table = tables[at].get_or_insert_with(|| variables(&mapped[at]));
            let end = line.address + line_bytes;
            let before = table.range(..line.address).next_back();
            let here = table.range(line.address..end).chain(before).map(|(_, object)| object);
            line.object =
                together(here.filter(|object| is_used(line, line_bytes, object.address, object.bytes)).cloned());
        }
    }
}

/// The bytes of a line that some thread used, a part at a time.
pub fn used(line: &SharedLine, line_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let (unit, address) = ((line_bytes / 64).max(1), line.address);
    let used = line.users.iter().fold(0, |used, user| used | user.loaded | user.stored);
    let bits = (0..64).filter(move |bit| used >> bit & 1 != 0);
    bits.map(move |bit| address + bit * unit..address + (bit + 1) * unit)
}

/// Whether some of them lie in an object.
pub fn is_used(line: &SharedLine, line_bytes: u64, address: u64, bytes: u64) -> bool {
    used(line, line_bytes).any(|part| part.start < address.saturating_add(bytes) && part.end > address)
}

/// Names of objects on one line, at most: of long lines there may be very many.
const NAMES: usize = 8;

/// What a list has for a block that code which was not compiled with bf allocated.
const NAMELESS: &str = "an unknown place";

/// Several objects as one that has the names of all, or of the first of them and how many more there are.
pub fn together(objects: impl Iterator<Item = SharedObject>) -> Option<SharedObject> {
    let mut all: Vec<_> = objects.collect();
    all.sort_unstable_by_key(|object| object.address);
    if all.len() > 1 {
        all.iter_mut().filter(|object| object.name.is_empty()).for_each(|object| NAMELESS.clone_into(&mut object.name));
    }
    let mut all = all.into_iter();
    let mut sum = all.next()?;
    let mut names = vec![(std::mem::take(&mut sum.name), 1)];
    for object in all {
        sum.bytes = 0;
        match names.iter_mut().find(|(name, _)| *name == object.name) {
            Some((_, count)) => *count += 1,
            None => names.push((object.name, 1)),
        }
    }
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    let each = names.into_iter().map(|(name, count)| if count > 1 { format!("{name}, {count} of them") } else { name });
    sum.name = each.collect::<Vec<_>>().join(", ");
    if more > 0 {
        sum.name += &format!(", and {more} more");
    }
    Some(sum)
}

/// Names of the functions that some addresses lie in; none for one that is in no function with a name.
pub fn functions(addresses: &[u64]) -> BTreeMap<u64, String> {
    let mapped = mapped();
    let mut tables: Vec<Option<BTreeMap<u64, (u64, String)>>> = mapped.iter().map(|_| None).collect();
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    let mut names = BTreeMap::new();
    for &address in addresses {
        let within = |&(begin, end): &(u64, u64)| (begin..end).contains(&address);
        let Some(at) = mapped.iter().position(|file| file.segments.iter().any(within)) else { continue };
        let table = tables[at].get_or_insert_with(|| texts(&mapped[at], &sorted));
        let found = table.range(..=address).next_back().filter(|(begin, (bytes, _))| address - **begin < *bytes);
        names.extend(found.map(|(_, (_, name))| (address, name.clone())));
    }
    names
}

/// Functions that one of some ascending addresses lies in, by their own: bytes and name. Of several names it has the first, those
/// that begin with `_` last.
fn texts(mapped: &Mapped, addresses: &[u64]) -> BTreeMap<u64, (u64, String)> {
    let mut functions: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let rank = |name: &str| (name.starts_with('_'), name.to_owned());
    let is_asked_for = |range: Range<u64>| {
        let next = addresses.partition_point(|&address| address < range.start);
        addresses.get(next).is_some_and(|&address| address < range.end)
    };
    each_symbol(mapped, SymbolKind::Text, is_asked_for, |address, bytes, name| {
        let (known_bytes, known) = functions.entry(address).or_insert_with(|| (bytes, name.to_owned()));
        *known_bytes = bytes.max(*known_bytes);
        if rank(name) < rank(known) {
            name.clone_into(known);
        }
    });
    functions
}

/// Its variables, by address.
pub fn variables(mapped: &Mapped) -> BTreeMap<u64, SharedObject> {
    let mut variables = BTreeMap::new();
    let all = |_: Range<u64>| true;
    each_symbol(mapped, SymbolKind::Data, all, |address, bytes, name| {
        variables.insert(address, SharedObject { kind: ObjectKind::Global, name: name.to_owned(), address, bytes });
    });
    variables
}

/// Gives `take` the symbols of one kind that have a length, if what they are of is wanted: address, bytes and name.
fn each_symbol(
    mapped: &Mapped,
    kind: SymbolKind,
    wanted: impl Fn(Range<u64>) -> bool,
    mut take: impl FnMut(u64, u64, &str),
) {
    parse(mapped, |file, base| {
        let versions = match file {
            object::File::Elf64(elf) => elf.elf_section_table().versions(elf.endian(), elf.data()).ok().flatten(),
            _ => None,
        };
        // Of a version that nothing is linked with any more: another name of the same address is the one in use.
        let is_old = |index| {
            versions.as_ref().is_some_and(|versions| versions.version_index(Endianness::Little, index).is_hidden())
        };
        let all = file.symbols().chain(file.dynamic_symbols().filter(|symbol| !is_old(symbol.index())));
        for symbol in all.filter(|symbol| symbol.kind() == kind && symbol.size() > 0) {
            let (address, bytes) = (symbol.address().wrapping_add(base), symbol.size());
            if wanted(address..address.saturating_add(bytes))
                && let Ok(name) = symbol.name()
            {
                take(address, bytes, name);
            }
        }
    });
}

/// Adds the segments that the file has no byte of, as linkers make them for large alignments: they are mapped as if from no file, and
/// perhaps apart from the others.
fn add_zeroed(mapped: &mut Mapped) {
    let mut zeroed = Vec::new();
    parse(mapped, |file, base| {
        for segment in file.segments().filter(|segment| segment.file_range().1 == 0) {
            let begin = segment.address().wrapping_add(base);
            zeroed.push((begin, begin.saturating_add(segment.size())));
        }
    });
    mapped.segments.extend(zeroed);
}

/// Gives `take` the file, if it can be read, and what is to be added to the addresses in it.
fn parse(mapped: &Mapped, take: impl FnOnce(&object::File<'_, &ReadCache<File>>, u64)) {
    // To open a device may do something.
    let Some(file) = mapped.path.is_file().then(|| File::open(&mapped.path).ok()).flatten() else { return };
    // Only the tables: with debug information the rest may be large.
    let parts = ReadCache::new(file);
    let Ok(file) = object::File::parse(&parts) else { return };
    // A program that is not position-independent lies where it says.
    take(&file, if file.kind() == ObjectFileKind::Executable { 0 } else { mapped.base });
}

/// The files that are mapped. Read from the system: the loader's own list is behind a lock, which a thread that was interrupted may hold.
pub fn mapped() -> Vec<Mapped> {
    let Ok(text) = std::fs::read_to_string("/proc/self/maps") else { return Vec::new() };
    let mut all: Vec<Mapped> = Vec::new();
    let mut end_before = 0;
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let Some((begin, end)) = range.and_then(|(begin, end)| Some((hexadecimal(begin)?, hexadecimal(end)?))) else {
            continue;
        };
        let offset = fields.nth(1).and_then(hexadecimal).unwrap_or(0);
        // The one character that the system escapes there.
        let path = line.find('/').map(|at| PathBuf::from(line[at..].replace(r"\012", "\n")));
        match (path, all.last_mut()) {
            (Some(path), Some(last)) if last.path == path => last.segments.push((begin, end)),
            (Some(path), _) => {
                all.push(Mapped { path, base: begin.wrapping_sub(offset), segments: vec![(begin, end)] });
            }
            // What a file says is all zero follows it.
            (None, Some(last)) if begin == end_before && last.segments.iter().any(|&(_, end)| end == begin) => {
                last.segments.push((begin, end));
            }
            _ => {}
        }
        end_before = end;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_very_many_objects_does_not_name_all() {
        let objects = |count: u64| {
            let object =
                |at| SharedObject { name: format!("o{at}"), address: 8 * at, bytes: 8, ..SharedObject::default() };
            together((0..count).map(object)).unwrap()
        };
        assert_eq!(objects(8).name, "o0, o1, o2, o3, o4, o5, o6, o7");
        let object = objects(20);
        assert_eq!((&object.name[..], object.bytes), ("o0, o1, o2, o3, o4, o5, o6, o7, and 12 more", 0));
    }

    #[test]
    fn a_list_has_words_for_what_has_no_name() {
        let together = |names: &[&str]| {
            let object = |(at, name): (u64, &&str)| SharedObject {
                name: (*name).to_owned(),
                address: 8 * at,
                bytes: 8,
                ..SharedObject::default()
            };
            together((0..).zip(names).map(object)).unwrap().name
        };
        assert_eq!(together(&["a", "", "b", ""]), "a, an unknown place, 2 of them, b");
        assert_eq!(together(&["", ""]), "an unknown place, 2 of them");
        assert_eq!(together(&[""]), "");
    }
}

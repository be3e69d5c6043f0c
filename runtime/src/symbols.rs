//! What lies at an address: variables of the program and its libraries, by their symbol tables.

use bf_profile::{ObjectKind, SharedLines, SharedObject};
use object::{Object as _, ObjectKind as ObjectFileKind, ObjectSymbol as _, ReadCache, SymbolKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

/// A file that is mapped.
struct Mapped {
    path: PathBuf,
    /// What was added to the addresses in it.
    base: u64,
    /// Addresses of its segments in memory: begin and end.
    segments: Vec<(u64, u64)>,
}

/// Names what lies at the lines, where a symbol says so.
pub fn name(sharing: &mut [SharedLines]) {
    if sharing.iter().all(|lines| lines.lines.is_empty()) {
        return;
    }
    let mapped = mapped();
    let mut tables: Vec<Option<BTreeMap<u64, SharedObject>>> = mapped.iter().map(|_| None).collect();
    for lines in sharing {
        let line_bytes = u64::from(lines.line_bytes);
        for line in &mut lines.lines {
            let within = |&(begin, end): &(u64, u64)| begin < line.address + line_bytes && line.address < end;
            let Some(at) = mapped.iter().position(|file| file.segments.iter().any(within)) else { continue };
            let table = tables[at].get_or_insert_with(|| symbols(&mapped[at]));
            // The last that begins before the line's end.
            let found = table.range(..line.address + line_bytes).next_back().map(|(_, object)| object);
            line.object = found.filter(|object| object.address + object.bytes > line.address).cloned();
        }
    }
}

/// Variables by address.
fn symbols(mapped: &Mapped) -> BTreeMap<u64, SharedObject> {
    let Ok(file) = File::open(&mapped.path) else { return BTreeMap::new() };
    // Only the tables: with debug information the rest may be large.
    let parts = ReadCache::new(file);
    let Ok(file) = object::File::parse(&parts) else { return BTreeMap::new() };
    // A program that is not position-independent lies where it says.
    let base = if file.kind() == ObjectFileKind::Executable { 0 } else { mapped.base };
    let all = file.symbols().chain(file.dynamic_symbols());
    let variables = all.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0);
    variables
        .filter_map(|symbol| {
            let address = symbol.address().wrapping_add(base);
            let name = symbol.name().ok()?.to_owned();
            Some((address, SharedObject { kind: ObjectKind::Global, name, address, bytes: symbol.size() }))
        })
        .collect()
}

/// Read from the system: the loader's own list is behind a lock, which a thread that was interrupted may hold.
fn mapped() -> Vec<Mapped> {
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
        let path = line.find('/').map(|at| &line[at..]);
        match (path, all.last_mut()) {
            (Some(path), Some(last)) if last.path.as_os_str() == path => last.segments.push((begin, end)),
            (Some(path), _) => {
                let path = PathBuf::from(path);
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

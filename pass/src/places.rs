//! Where in the source accesses come from: instructions in, the constant tables of [`bf_abi::Places`] out.
//!
//! With debug information a place is a line within a chain of inlined functions, without it is the function alone. Every
//! place, function, loop and string stands in the tables once, in the order in which it was first met.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use bf_abi::{Function, Loop, Site, fortran};

use crate::lines::Lines;
use crate::llvm::{self, Analyses, Block, Location, Module, Subprogram, Type, Value, demangle};
use crate::options::Options;
use crate::{allocation, callers};

/// Different values, numbered as they came.
#[derive(Debug)]
struct Table<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Copy + Eq + Hash> Table<T> {
    fn new() -> Self {
        Self { all: Vec::new(), numbers: HashMap::new() }
    }

    /// The value's index.
    fn add(&mut self, value: T) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.all.push(value);
            self.all.len() as u32 - 1
        })
    }
}

/// Whether places on one line are told apart: by column and, if that is wanted, by block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum OnOneLine {
    Apart,
    Together,
}

/// What of an instruction decides on its site.
type Where = (Option<Location>, Option<llvm::Loop>, u32, OnOneLine);

/// The tables while they grow.
pub(crate) struct Places {
    module: Module,
    analyses: Analyses,
    strings: Vec<u8>,
    offsets: HashMap<String, u32>,
    functions: Table<Function>,
    /// By name of a function of the module.
    compiled: HashMap<String, u32>,
    sites: Table<Site>,
    loops: Table<Loop>,
    /// Whether sites tell the block.
    every_block: bool,
    /// So many blocks have one number; 0: each has its own.
    merged_blocks: u32,
    /// Of the function at hand: what was found already.
    known: HashMap<Where, u32>,
    known_loops: HashMap<llvm::Loop, u32>,
    /// Its blocks, by number, as they were when it was first asked about.
    blocks: HashMap<Block, u32>,
    lines: Option<Lines>,
    /// Names of functions that allocate for their callers, and may be inlined.
    callers: HashSet<String>,
}

impl Places {
    pub(crate) fn new(module: Module, analyses: Analyses, options: &Options) -> Self {
        Self {
            module,
            analyses,
            strings: vec![0],
            offsets: HashMap::from([(String::new(), 0)]),
            functions: Table::new(),
            compiled: HashMap::new(),
            sites: Table::new(),
            loops: Table::new(),
            every_block: options.every_block,
            merged_blocks: options.merged_blocks,
            known: HashMap::new(),
            known_loops: HashMap::new(),
            blocks: HashMap::new(),
            lines: None,
            callers: callers::noted(module),
        }
    }

    /// The site of an instruction, from 1 up. Asked before its function is changed.
    pub(crate) fn site(&mut self, function: Value, instruction: Value) -> u32 {
        self.find(function, instruction, OnOneLine::Apart)
    }

    /// The site of a call that allocates; of its caller, where it is inlined in a function that allocates for that. Where it is known
    /// which variable of Fortran has the new memory, it has that one's name in place of the function's, because one statement allocates
    /// many.
    pub(crate) fn allocation(&mut self, function: Value, call: Value) -> u32 {
        let mut site = self.site(function, call);
        while let Site { function, inlined_at: 1.., .. } = self.sites.all[site as usize - 1]
            && self.is_callers(function)
        {
            site = self.sites.all[site as usize - 1].inlined_at;
        }
        let kept = allocation::kept(call, self.module).filter(|(variable, _)| variable.is_constant());
        let Some((variable, offset)) = kept else { return site };
        let name = variable.name();
        // LLVM may have cut it into parts.
        let whole = name.split_once('.').map_or(name.as_str(), |(whole, _)| whole);
        let Some(mut display) = fortran::demangle(whole) else { return site };
        if offset != 0 {
            display += &format!("{offset:+}");
        }
        let mut site = self.sites.all[site as usize - 1];
        let Function { file, line, .. } = self.functions.all[site.function as usize];
        let (name, display) = (self.string(whole.to_owned()), self.string(display));
        site.function = self.functions.add(Function { name, display, file, line });
        self.sites.add(site) + 1
    }

    /// Whether a function allocates for its callers.
    fn is_callers(&self, function: u32) -> bool {
        let name = self.functions.all[function as usize].name as usize;
        let name = self.strings[name..].split(|&byte| byte == 0).next().unwrap_or_default();
        !self.callers.is_empty() && str::from_utf8(name).is_ok_and(|name| self.callers.contains(name))
    }

    /// The site of an instruction without column and block: all instructions of a line, of one inlined call and one loop, are at one site.
    pub(crate) fn line(&mut self, function: Value, instruction: Value) -> u32 {
        self.find(function, instruction, OnOneLine::Together)
    }

    /// The line of the function itself, of the call for what was inlined, that an instruction is at; 0 if unknown.
    pub(crate) fn own_line(&mut self, function: Value, instruction: Value) -> u32 {
        let innermost = self.line(function, instruction);
        let at = |site: u32| Some(self.sites.all[(site as usize).checked_sub(1)?]);
        let outermost = std::iter::successors(at(innermost), |site| at(site.inlined_at)).last();
        outermost.map_or(0, |site| site.line)
    }

    /// The number of a block in its function, as it was when it was first asked about: from 0 in the order of the code.
    pub(crate) fn block(&mut self, function: Value, block: Block) -> Option<u32> {
        self.enter(function);
        self.blocks.get(&block).copied()
    }

    /// The site of the line that a function begins on, from 1 up.
    pub(crate) fn beginning(&mut self, function: Value) -> u32 {
        let number = self.compiled(function);
        let Function { file, line, .. } = self.functions.all[number as usize];
        let site = Site { function: number, file, line, column: 0, inlined_at: 0, innermost: 0, block: 0 };
        self.sites.add(site) + 1
    }

    /// Turns to a function.
    fn enter(&mut self, function: Value) {
        if self.lines.as_ref().is_none_or(|lines| lines.function() != function) {
            self.known.clear();
            self.known_loops.clear();
            let blocks = function.blocks().zip(0..);
            self.blocks = blocks.map(|(block, number)| (block, number / self.merged_blocks.max(1))).collect();
            self.lines = Some(Lines::new(function));
        }
    }

    fn find(&mut self, function: Value, instruction: Value, on_one_line: OnOneLine) -> u32 {
        self.enter(function);
        let wanted = self.every_block && on_one_line == OnOneLine::Apart;
        let block = self.blocks.get(&instruction.block()).filter(|_| wanted).map_or(0, |number| 1 + number);
        let innermost = self.analyses.innermost_loop(instruction.block());
        let location = self.lines.as_mut().and_then(|lines| lines.of(instruction, innermost));
        let key = (location, innermost, block, on_one_line);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let number = innermost.map_or(0, |innermost| self.loop_number(function, innermost));
        let site = self.place(function, location, (number, block), on_one_line);
        self.known.insert(key, site);
        site
    }

    /// The site of a place within a loop and a block of these numbers, from 1 up.
    fn place(
        &mut self,
        function: Value,
        location: Option<Location>,
        (innermost, block): (u32, u32),
        on_one_line: OnOneLine,
    ) -> u32 {
        let Some(location) = location else {
            let number = self.compiled(function);
            let file = self.functions.all[number as usize].file;
            let site = Site { function: number, file, line: 0, column: 0, inlined_at: 0, innermost, block };
            return self.sites.add(site) + 1;
        };
        let call = location.inlined_at();
        let inlined_at = call.map_or(0, |call| self.place(function, Some(call), (innermost, 0), on_one_line));
        let site = Site {
            function: self.written_in(function, location),
            file: self.string(location.file()),
            line: location.line(),
            column: if on_one_line == OnOneLine::Apart { location.column() } else { 0 },
            inlined_at,
            innermost,
            block,
        };
        self.sites.add(site) + 1
    }

    fn loop_number(&mut self, function: Value, innermost: llvm::Loop) -> u32 {
        if let Some(&known) = self.known_loops.get(&innermost) {
            return known;
        }
        let parent = innermost.parent().map_or(0, |parent| self.loop_number(function, parent));
        let depth = 1 + (parent as usize).checked_sub(1).map_or(0, |parent| self.loops.all[parent].depth);
        let found = match innermost.start() {
            Some(start) => Loop {
                function: self.written_in(function, start),
                file: self.string(start.file()),
                line: start.line(),
                depth,
                parent,
            },
            None => Loop { function: self.compiled(function), file: 0, line: 0, depth, parent },
        };
        let number = self.loops.add(found) + 1;
        self.known_loops.insert(innermost, number);
        number
    }

    /// The function that a place is written in.
    fn written_in(&mut self, function: Value, location: Location) -> u32 {
        match location.subprogram() {
            Some(inlined) if location.inlined_at().is_some() => {
                let name = Some(inlined.linkage_name()).filter(|name| !name.is_empty());
                self.function(name.unwrap_or_else(|| inlined.name()), Some(inlined), inlined.line())
            }
            _ => self.compiled(function),
        }
    }

    /// The function that is being compiled: its index.
    pub(crate) fn compiled(&mut self, function: Value) -> u32 {
        let name = function.name();
        if let Some(&known) = self.compiled.get(&name).filter(|_| !name.is_empty()) {
            return known;
        }
        let line = function.definition().map_or(0, |(_, line)| line);
        let number = self.function(name.clone(), function.subprogram(), line);
        self.compiled.insert(name, number);
        number
    }

    fn function(&mut self, name: String, source: Option<Subprogram>, line: u32) -> u32 {
        let mut display = self.region_of_main(&name).unwrap_or_else(|| demangle(&name));
        if display == name
            && let Some(source) = source.map(Subprogram::name).filter(|source| !source.is_empty())
        {
            display = source;
        }
        let file = source.map(Subprogram::file).unwrap_or_default();
        let function =
            Function { name: self.string(name), display: self.string(display), file: self.string(file), line };
        self.functions.add(function)
    }

    /// What flang makes of an OpenMP region of a main program has the program's name.
    fn region_of_main(&self, name: &str) -> Option<String> {
        const MAIN: &str = "_QQmain";
        let region = name.strip_prefix(MAIN).filter(|region| region.starts_with(".."))?;
        let main = self.module.functions().find(|function| function.name() == MAIN)?;
        Some(main.subprogram()?.name() + region)
    }

    /// The offset of a string.
    fn string(&mut self, text: String) -> u32 {
        let next = self.strings.len() as u32;
        *self.offsets.entry(text).or_insert_with_key(|text| {
            // A NUL would end it.
            self.strings.extend(text.bytes().filter(|&byte| byte != 0).chain([0]));
            next
        })
    }

    /// The tables as a constant; `constant` puts one behind a pointer.
    pub(crate) fn finish(&self, constant: impl Fn(Value) -> Value) -> Value {
        let module = self.module;
        let numbers = |numbers: Vec<u32>| {
            let numbers: Vec<_> = numbers.into_iter().map(|number| module.int(32, number.into())).collect();
            constant(module.array_of(module.int_type(32), &numbers))
        };
        let functions = self.functions.all.iter().flat_map(|f| [f.name, f.display, f.file, f.line]);
        let sites = self.sites.all.iter();
        let sites = sites.flat_map(|s| [s.function, s.file, s.line, s.column, s.inlined_at, s.innermost, s.block]);
        let loops = self.loops.all.iter().flat_map(|l| [l.function, l.file, l.line, l.depth, l.parent]);
        let count = |count: usize| module.int(32, count as u64);
        let value = module.struct_of(&[
            constant(module.bytes(&self.strings)),
            numbers(functions.collect()),
            numbers(sites.collect()),
            numbers(loops.collect()),
            count(self.strings.len()),
            count(self.functions.all.len()),
            count(self.sites.all.len()),
            count(self.loops.all.len()),
        ]);
        debug_assert!(value.ty() == places_type(module));
        constant(value)
    }
}

/// The type of a [`bf_abi::Places`].
fn places_type(module: Module) -> Type {
    let (number, pointer) = (module.int_type(32), module.pointer_type());
    module.struct_type(&[pointer, pointer, pointer, pointer, number, number, number, number])
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn the_tables_are_laid_out_as_the_runtime_reads_them() {
        use bf_abi::Places as Abi;
        Module::with_empty(|module| {
            let expected = [
                offset_of!(Abi, strings),
                offset_of!(Abi, functions),
                offset_of!(Abi, sites),
                offset_of!(Abi, loops),
                offset_of!(Abi, n_strings),
                offset_of!(Abi, n_functions),
                offset_of!(Abi, n_sites),
                offset_of!(Abi, n_loops),
                size_of::<Abi>(),
            ];
            assert_eq!(module.layout(places_type(module)), expected);
        });
        // Written as plain numbers, in the order of the fields.
        let sizes = [size_of::<Function>(), size_of::<Site>(), size_of::<Loop>()];
        assert_eq!(sizes, [4 * 4, 7 * 4, 5 * 4]);
        assert_eq!((offset_of!(Function, line), offset_of!(Site, block), offset_of!(Loop, parent)), (12, 24, 16));
    }
}

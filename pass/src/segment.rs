//! Cuts a function into segments: a function in, the runs of accesses that share one reservation out.
//!
//! A segment lies within one block and ends at every call that could run instrumented code, because that code reserves
//! words of its own behind ours, and with every access that lets other threads go on, because what was recorded is handed
//! over there. It starts at its first access, or at the call if it has none. A loop whose course is
//! known before it starts is one segment there.

use core::ffi::CStr;
use std::collections::HashSet;

use bf_abi::{Entry, MAX_SEGMENT_WORDS};

use crate::access::{Access, Classifier};
use crate::allocation::{self, Bytes, Place};
use crate::llvm::{Analyses, Block, Chain, Instruction, Module, Value};

/// The runtime's functions that programs call by name; what they do is not the program's.
const RUNTIME: [&str; 18] = [
    bf_abi::FLUSH_SYMBOL,
    bf_abi::SYNC_SYMBOL,
    bf_abi::RELEASE_SYMBOL,
    bf_abi::VOLATILE_SYMBOL,
    bf_abi::LOCK_SYMBOL,
    bf_abi::SHARE_SYMBOL,
    bf_abi::UNSHARE_SYMBOL,
    bf_abi::FORTRAN_BYTES_SYMBOL,
    bf_abi::REGISTER_SYMBOL,
    bf_abi::counting::SLOTS_SYMBOL,
    bf_abi::counting::CALLED_SYMBOL,
    bf_abi::counting::REGISTER_COUNTING_SYMBOL,
    bf_abi::paths::ENTER_SYMBOL,
    "bf_start",
    "bf_stop",
    "bf_tag",
    "bf_push",
    "bf_pop",
];

/// Whether the function belongs to the runtime.
pub(crate) fn is_runtime(name: &str) -> bool {
    RUNTIME.contains(&name)
}

/// One segment.
pub(crate) struct Segment {
    /// One of those of [`bf_abi::Segment`].
    pub(crate) kind: u32,
    pub(crate) entries: Vec<Entry>,
    /// For each entry the instruction that it describes.
    pub(crate) origins: Vec<Value>,
    /// In program order.
    pub(crate) writes: Vec<Write>,
    /// Where the reservation goes.
    pub(crate) start: Value,
    /// The instruction that it begins with.
    pub(crate) first: Value,
    /// The words it has.
    pub(crate) words: u32,
    /// What it ends in that is not seen: a function that this module only declares, called directly, or inline assembly.
    pub(crate) callee: Option<String>,
    /// Whether the function's caller may have one for it.
    pub(crate) for_caller: bool,
}

/// Words to be stored one after the other.
pub(crate) struct Write {
    /// In front of this instruction.
    pub(crate) before: Value,
    pub(crate) word: u32,
    pub(crate) content: Content,
}

/// What words hold.
pub(crate) enum Content {
    /// One value.
    Value(Value),
    /// The words of an access.
    Access(Access),
    /// The address that lies there.
    Loaded(Value),
    /// A value if a call is of a function of this name, else 0.
    If { call: Value, of: &'static CStr, value: Value },
    /// Two unsigned numbers, multiplied.
    Product(Value, Value),
    /// How many bytes the object has that a Fortran descriptor describes.
    Described(Value),
}

impl Segment {
    fn new(start: Value) -> Self {
        let kind = bf_abi::Segment::ONCE;
        let (entries, origins, writes) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, entries, origins, writes, start, first: start, words: 1, callee: None, for_caller: false }
    }

    /// One of another kind, without entries.
    pub(crate) fn of_kind(kind: u32, start: Value) -> Self {
        Self { kind, ..Self::new(start) }
    }

    /// Adds what an instruction does.
    fn describe(&mut self, instruction: Value, entries: impl Iterator<Item = Entry>) {
        self.entries.extend(entries);
        self.origins.resize(self.entries.len(), instruction);
    }

    /// Of a stream: how often its entries happen.
    pub(crate) fn iterations(&self) -> Option<Value> {
        let count = self.writes.iter().find(|write| write.word == bf_abi::Segment::COUNT_WORD)?;
        match count.content {
            Content::Value(value) if self.kind == bf_abi::Segment::STREAM => Some(value),
            _ => None,
        }
    }

    pub(crate) fn write(&mut self, before: Value, words: u32, content: Content) {
        self.writes.push(Write { before, word: self.words, content });
        self.words += words;
    }
}

/// Addresses that share a word: those that lie a constant number of bytes apart.
struct Shared {
    word: u32,
    /// One of the addresses, and how far behind the word's value it lies.
    address: Value,
    offset: i64,
}

impl Shared {
    /// How many are looked at to find a new address its place.
    const LOOK: usize = 16;

    /// Word and offset of an address in one of `all`.
    fn find(all: &[Self], distance: impl Fn(Value, Value) -> Option<i64>, address: Value) -> Option<(u32, i32)> {
        all.iter().rev().take(Self::LOOK).find_map(|shared| {
            let offset = distance(shared.address, address)?.checked_add(shared.offset)?;
            Some((shared.word, i32::try_from(offset).ok()?))
        })
    }
}

/// Cuts functions of one module.
pub(crate) struct Cutter {
    pub(crate) classifier: Classifier,
    pub(crate) analyses: Analyses,
    /// Metadata kind of instructions that are no concern of ours.
    pub(crate) mark: u32,
    /// Kind of the `nocallback` attribute.
    no_callback: u32,
    /// Whether loops can be streams.
    streams: bool,
}

impl Cutter {
    pub(crate) fn new(module: Module, analyses: Analyses, mark: u32, streams: bool) -> Self {
        let no_callback = Module::attribute_kind("nocallback");
        Self { classifier: Classifier::new(module), analyses, mark, no_callback, streams }
    }

    /// The segments of a function, those of one block in program order.
    pub(crate) fn segments(&self, function: Value) -> Vec<Segment> {
        let blocks: Vec<_> = function.blocks().collect();
        let mut streams = Vec::new();
        let mut done = HashSet::new();
        for block in blocks.into_iter().filter(|_| self.streams) {
            let Some(chain) = self.analyses.chain(block) else { continue };
            if let Some(stream) = self.stream(function, &chain) {
                streams.extend(stream);
                done.extend(chain.blocks);
            }
        }
        let others = function.blocks().filter(|block| !done.contains(block));
        let mut segments: Vec<_> = others.flat_map(|block| self.block(function, block)).collect();
        // Each goes to the end of its block.
        segments.append(&mut streams);
        segments
    }

    fn block(&self, function: Value, block: Block) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut open: Option<Segment> = None;
        let mut shared = Vec::new();
        for instruction in block.instructions() {
            if !instruction.is_marked(self.mark) {
                for access in self.classifier.accesses(instruction) {
                    let full = |segment: &Segment| segment.words + access.words() > MAX_SEGMENT_WORDS;
                    segments.extend(open.take_if(|segment| full(segment)));
                    if open.is_none() {
                        shared.clear();
                    }
                    let segment = open.get_or_insert_with(|| Segment::new(instruction));
                    self.add(function, segment, &mut shared, instruction, access);
                }
            }
            let is_call = instruction.instruction() == Instruction::Call;
            let cuts = is_call && self.cuts(instruction);
            let is_unseen = is_call && instruction.assembly().is_some_and(|assembly| assembly.is_unseen());
            let declared = cuts.then(|| declared_callee(instruction)).flatten();
            let assembly = is_unseen.then(|| format!("assembly in {}", function.name()));
            let callee = assembly.or_else(|| declared.map(Value::name));
            if callee.is_some() {
                open.get_or_insert_with(|| Segment::new(instruction)).callee = callee;
            }
            if cuts || is_unseen || instruction.releases() || instruction.is_volatile() {
                segments.extend(open.take());
            }
            if cuts {
                segments.extend(allocation(instruction));
            }
        }
        segments.extend(open);
        segments
    }

    /// Adds an access to a segment.
    fn add(&self, function: Value, to: &mut Segment, shared: &mut Vec<Shared>, before: Value, access: Access) {
        let Access::One { address, .. } = access else {
            to.describe(before, access.entries(to.words, 0));
            return to.write(before, access.words(), Content::Access(access));
        };
        let distance = |from, to| self.analyses.distance(function, from, to);
        if let Some((word, offset)) = Shared::find(shared, distance, address) {
            return to.describe(before, access.entries(word, offset));
        }
        let (value, offset) = self.value(address);
        to.describe(before, access.entries(to.words, offset));
        shared.push(Shared { word: to.words, address, offset: offset.into() });
        to.write(before, 1, Content::Value(value));
    }

    /// What to store for an address: the value that it was computed from, which is at hand already.
    fn value(&self, address: Value) -> (Value, i32) {
        let (base, bytes) = address.base(self.classifier.module);
        match i32::try_from(bytes) {
            // Zero would stand for an access that did not happen.
            Ok(bytes) if base.ty() == address.ty() && !base.is_null() => (base, bytes),
            _ => (address, 0),
        }
    }

    /// A loop as one segment before it; or as two, of which the other one has what comes once more. They are written at the same place,
    /// the last one first.
    fn stream(&self, function: Value, chain: &Chain) -> Option<Vec<Segment>> {
        const FIRST_WORD: u32 = bf_abi::Segment::COUNT_WORD + 1;
        let (mut entries, mut origins, mut once_more) = (Vec::new(), Vec::new(), 0);
        let mut shared: Vec<Shared> = Vec::new();
        for (number, block) in (1..).zip(&chain.blocks) {
            for instruction in block.instructions() {
                let is_call = instruction.instruction() == Instruction::Call;
                if !instruction.is_private()
                    || is_call && (self.cuts(instruction) || instruction.callee().is_inline_asm())
                {
                    return None;
                }
                for access in self.classifier.accesses(instruction) {
                    let Access::One { address, .. } = access else { return None };
                    if instruction.is_marked(self.mark) {
                        continue;
                    }
                    let distance = |from, to| self.analyses.distance(function, from, to);
                    let (word, offset) = Shared::find(&shared, distance, address).unwrap_or_else(|| {
                        let word = FIRST_WORD + 2 * shared.len() as u32;
                        shared.push(Shared { word, address, offset: 0 });
                        (word, 0)
                    });
                    entries.extend(access.entries(word, offset));
                    origins.resize(entries.len(), instruction);
                }
            }
            if number == chain.more {
                once_more = entries.len();
            }
        }
        if entries.is_empty() || FIRST_WORD + 2 * shared.len() as u32 > MAX_SEGMENT_WORDS {
            return None;
        }
        let addresses: Vec<_> = shared.iter().map(|shared| shared.address).collect();
        let course = self.analyses.course(chain, &addresses)?;
        let mut last = Segment::new(course.before);
        let mut used = Vec::new();
        for (entry, origin) in entries[..once_more].iter().zip(&origins) {
            let place = used.iter().position(|&word| word == entry.word).unwrap_or_else(|| {
                used.push(entry.word);
                used.len() - 1
            });
            last.describe(*origin, [Entry { word: 1 + place as u32, ..*entry }].into_iter());
        }
        for word in used {
            let address = course.lasts[(word - FIRST_WORD) as usize / 2];
            last.write(course.before, 1, Content::Value(address));
        }
        let mut all = Segment { entries, ..Segment::of_kind(bf_abi::Segment::STREAM, course.before) };
        let places = course.places.into_iter().flat_map(|(first, stride)| [first, stride]);
        for value in [course.iterations].into_iter().chain(places) {
            all.write(course.before, 1, Content::Value(value));
        }
        (all.first, last.first) = (origins[0], origins[0]);
        all.origins = origins;
        let last = Some(last).filter(|last| !last.entries.is_empty());
        Some(last.into_iter().chain([all]).collect())
    }

    /// Whether a call could run instrumented code.
    pub(crate) fn cuts(&self, call: Value) -> bool {
        let callee = call.callee();
        if callee.is_inline_asm() {
            return false;
        }
        match callee.as_function() {
            None => true,
            Some(function) if function.intrinsic_name().is_some() => !function.has_attribute(self.no_callback),
            Some(function) => self.classifier.libc.of(function).is_none(),
        }
    }
}

/// What is recorded of a call that gives or takes memory.
fn allocation(call: Value) -> Vec<Segment> {
    let Some(found) = allocation::of(call) else { return Vec::new() };
    let mut segments = Vec::new();
    let content = |place| match place {
        Place::Value(value) => found.of.map_or(Content::Value(value), |of| Content::If { call, of, value }),
        Place::Stored(at) => Content::Loaded(at),
    };
    if let Some(block) = found.takes {
        let mut segment = Segment::of_kind(bf_abi::Segment::RELEASE, call);
        segment.write(call, 1, content(block));
        segments.push(segment);
    }
    if let Some(((place, bytes), after)) = found.gives.zip(call.after()) {
        let mut segment = Segment { kind: bf_abi::Segment::ALLOCATION, first: call, ..Segment::new(after) };
        let bytes = match bytes {
            Bytes::Argument(bytes) => Content::Value(bytes),
            Bytes::Product(count, unit) => Content::Product(count, unit),
            Bytes::Described(descriptor) => Content::Described(descriptor),
        };
        segment.write(after, 1, content(place));
        segment.write(after, 1, bytes);
        segments.push(segment);
    }
    segments
}

/// The function that a call names, if its code lies outside this module: a copy that is here for inlining only is none.
pub(crate) fn declared_callee(call: Value) -> Option<Value> {
    call.callee().as_function().filter(|function| {
        (function.is_declaration() || function.is_available_externally())
            && function.intrinsic_name().is_none()
            && !is_runtime(&function.name())
    })
}

//! Functions that allocate for whoever calls them: those of a standard library, and those like `xmalloc` that give back memory of
//! a size that they are told. Their blocks are those of a place in the program, where it calls them: while such a call lasts,
//! [`Tls::allocation`] has the header of a segment there, and what they allocate is recorded by that one. What they call besides, and
//! functions that others call by their address, is not to see it.

use core::mem::offset_of;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use bf_abi::Tls;

use crate::allocation::{self, Bytes, Place};
use crate::emit::Emitter;
use crate::llvm::{Block, Instruction, Location, Module, Subprogram, Value, demangle};
use crate::segment::{Cutter, Segment};
use crate::tables::Tables;

/// What comes from where is looked for among so many values.
const VALUES: usize = 64;

/// Where [`note`] notes functions of the program.
const NOTED: &CStr = c"bf.callers";

/// Those of one module.
pub(crate) struct Callers {
    /// Functions of standard libraries.
    library: HashSet<Value>,
    /// Functions that other modules seem to have, which allocate for their callers: those of C and C++ if they give back a pointer.
    elsewhere: HashMap<Value, Language>,
    /// Functions that allocate for their callers.
    functions: HashSet<Value>,
    /// Names of those of the program, before they were inlined or changed.
    noted: HashSet<String>,
}

/// Notes the functions of the program that allocate for their callers, before they are inlined.
pub(crate) fn note(module: Module) {
    let found = Callers::new(module);
    let of_program = |each: &Value| found.functions.contains(each) && !found.library.contains(each);
    let names: Vec<_> = module.functions().filter(of_program).map(Value::name).collect();
    if !names.is_empty() {
        module.note(NOTED, &names);
    }
}

/// The functions that were noted.
pub(crate) fn noted(module: Module) -> HashSet<String> {
    module.noted(NOTED).into_iter().collect()
}

/// What a function is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    Other,
}

/// What is to be done about that in a function.
#[derive(Default)]
pub(crate) struct Plan {
    calls: Vec<Call>,
    /// Where nothing is lent any more: its first instruction, if others may call it by its address, and those behind its landing pads.
    ends: Vec<Value>,
}

/// A call, and the segment that it has, if it has one.
struct Call {
    call: Value,
    description: Option<Value>,
    /// Whether the function that calls may have one of its own caller, which comes first.
    passes_on: bool,
}

/// What is lent for as long as a call lasts.
#[derive(PartialEq, Eq)]
enum Lent {
    /// The place of the call.
    Place,
    /// One that records nothing: the call is recorded as a block itself.
    Void,
    /// None.
    Nothing,
}

impl Callers {
    /// Finds them.
    pub(crate) fn new(module: Module) -> Self {
        let (declared, defined): (Vec<_>, Vec<_>) = module.functions().partition(|each| each.is_declaration());
        let library = defined.iter().copied().filter(|each| is_of_a_library(&each.name())).collect();
        let elsewhere =
            declared.into_iter().filter_map(|each| Some((each, allocates_elsewhere(&each.name())?))).collect();
        let mut found = Self { library, elsewhere, functions: HashSet::new(), noted: noted(module) };
        let mut rest: Vec<_> = defined.into_iter().map(|each| (each, calls(each))).collect();
        loop {
            let before = rest.len();
            rest.retain(|(function, calls)| {
                let allocates = |call: &Value| allocation::of(*call).is_some_and(|found| found.gives.is_some());
                let is_one = match found.library.contains(function) {
                    true => calls.iter().any(|call| allocates(call) || found.is_one(*call)),
                    // What is always told the same may be told nothing any more.
                    false => found.noted.contains(&function.name()) || found.gives_what_it_is_told(*function),
                };
                if is_one {
                    found.functions.insert(*function);
                }
                !is_one
            });
            if rest.len() == before {
                return found;
            }
        }
    }

    /// Whether what a function allocates with this call is its caller's.
    pub(crate) fn have(&self, function: Value, call: Value) -> bool {
        self.functions.contains(&function) && !self.is_inlined(function, call)
    }

    /// Whether a call within a function of a library is the program's all the same.
    fn is_inlined(&self, function: Value, call: Value) -> bool {
        let places = || core::iter::successors(call.location(), |place| place.inlined_at());
        let mut names = places().filter_map(Location::subprogram).map(Subprogram::linkage_name);
        let is_own = |name: &String| !name.is_empty() && !is_of_a_library(name) && !self.noted.contains(name);
        self.library.contains(&function) && names.any(|name| is_own(&name))
    }

    /// What is to be written into a function, before it is changed.
    pub(crate) fn plan(&self, function: Value, cutter: &Cutter, tables: &mut Tables) -> Plan {
        let is_one = self.functions.contains(&function);
        let returns = |call: &Value| call.after().is_none_or(|after| after.opcode() != "unreachable");
        let lends = |call| Some((call, self.lends(function, call)?));
        let cuts = |each: &Value| each.instruction() == Instruction::Call && cutter.cuts(*each);
        let instructions = || function.blocks().flat_map(Block::instructions);
        let calls = instructions().filter(cuts).filter(returns).filter_map(lends);
        let described = |(call, lent)| {
            let kind = match lent {
                Lent::Place => Some(bf_abi::Segment::ALLOCATION),
                Lent::Void => Some(bf_abi::Segment::ONCE),
                Lent::Nothing => None,
            };
            let description = kind.map(|kind| {
                let segment = Segment::of_kind(kind, call);
                tables.segment(function, &Segment { words: bf_abi::Segment::ALLOCATION_WORDS, ..segment })
            });
            Call { call, description, passes_on: lent == Lent::Place && self.have(function, call) }
        };
        let calls = calls.map(described).collect();
        let behind_pad = |block: Block| block.instructions().skip_while(|each| each.opcode() != "landingpad").nth(1);
        let mut ends: Vec<_> = function.blocks().filter_map(behind_pad).collect();
        if !is_one
            && !self.library.contains(&function)
            && function.has_its_address_taken()
            && instructions().any(|each| cuts(&each))
        {
            ends.extend(instructions().find(|each| each.instruction() != Instruction::Alloca));
        }
        Plan { calls, ends }
    }

    /// What a call in a function lends; `None`: nothing is changed.
    fn lends(&self, function: Value, call: Value) -> Option<Lent> {
        let is_own = !self.library.contains(&function) || self.is_inlined(function, call);
        let nothing = self.functions.contains(&function).then_some(Lent::Nothing);
        let Some(callee) = call.callee().as_function() else {
            let mut arguments = (0..call.argument_count()).map(|at| call.operand(at));
            let may_allocate = call.ty().is_pointer() && arguments.any(|each| each.ty().int_bits() >= 32);
            return if is_own && may_allocate { Some(Lent::Place) } else { nothing };
        };
        match allocation::of(call) {
            Some(found) if found.gives.is_some() && allocation::is_new(&callee.name()) => Some(Lent::Void),
            Some(_) => None,
            None if self.is_one(call) => is_own.then_some(Lent::Place),
            None => nothing,
        }
    }

    /// Whether a call is of a function that allocates for its callers: one of these, or one that another module seems to have.
    fn is_one(&self, call: Value) -> bool {
        let callee = call.callee().as_function();
        callee.is_some_and(|callee| self.functions.contains(&callee) || self.is_elsewhere(call, callee))
    }

    fn is_elsewhere(&self, call: Value, callee: Value) -> bool {
        self.elsewhere.get(&callee).is_some_and(|&language| language == Language::Rust || call.ty().is_pointer())
    }

    /// Whether a function gives back memory that it allocated, as much as it was told.
    fn gives_what_it_is_told(&self, function: Value) -> bool {
        let says_so = says_so(&function.name());
        let is_one = |call: Value| match call.callee().as_function() {
            Some(callee) => self.functions.contains(&callee) || says_so && self.is_elsewhere(call, callee),
            None => says_so && !call.callee().is_inline_asm(),
        };
        let told = |value: Value| sources(value).into_iter().any(Value::is_argument);
        let allocates = |call: Value| match allocation::of(call).map(|found| found.gives) {
            Some(Some((Place::Value(_), Bytes::Argument(bytes)))) => told(bytes),
            Some(Some((Place::Value(_), Bytes::Product(count, unit)))) => told(count) || told(unit),
            Some(_) => false,
            None => {
                let mut arguments = (0..call.argument_count()).map(|at| call.operand(at));
                is_one(call) && arguments.any(|each| each.ty().int_bits() > 1 && told(each))
            }
        };
        let instructions = function.blocks().flat_map(Block::instructions);
        let returns = instructions.filter(|each| each.opcode() == "ret" && each.operand_count() == 1);
        let given = returns.map(|ret| ret.operand(0)).filter(|value| value.ty().is_pointer());
        let mut from = given.flat_map(sources).filter_map(Value::as_instruction);
        from.any(|source| source.instruction() == Instruction::Call && allocates(source))
    }
}

/// Writes it.
pub(crate) fn write(function: Value, plan: &Plan, emitter: &Emitter) {
    let field = || emitter.field(offset_of!(Tls, allocation));
    for each in &plan.calls {
        let Some(after) = each.call.behind() else { continue };
        emitter.builder.before(each.call, function);
        let before = emitter.allocation();
        let header = |description| emitter.header(description, bf_abi::Segment::ALLOCATION_WORDS);
        let own = each.description.map_or_else(|| emitter.none(), header);
        let lent = if each.passes_on { emitter.first_of(before, own) } else { own };
        emitter.builder.store(lent, field());
        emitter.builder.before(after, function);
        emitter.builder.store(before, field());
    }
    for &at in &plan.ends {
        emitter.builder.before(at, function);
        emitter.builder.store(emitter.none(), field());
    }
}

/// What a function calls by name.
fn calls(function: Value) -> Vec<Value> {
    let all = function.blocks().flat_map(Block::instructions).filter(|each| each.instruction() == Instruction::Call);
    all.filter(|call| call.callee().as_function().is_some_and(|callee| callee.intrinsic_name().is_none())).collect()
}

/// The language of a function that another module seems to have, if by its name it allocates for its callers.
fn allocates_elsewhere(name: &str) -> Option<Language> {
    // Of `core` little allocates, and `drop_in_place` and its like are called all the time.
    const OF_CORE: [&str; 6] = ["array", "iter", "option", "result", "slice", "str"];
    match rusts(name) {
        Some(path) => match path.strip_prefix("core::") {
            Some(rest) => OF_CORE.iter().any(|part| rest.strip_prefix(part).is_some_and(|rest| rest.starts_with("::"))),
            None => is_of_rusts_libraries(&path),
        }
        .then_some(Language::Rust),
        None => says_so(name).then_some(Language::Other),
    }
}

/// Whether a function has the name of one that allocates.
fn says_so(name: &str) -> bool {
    name.to_ascii_lowercase().contains("alloc")
}

/// Whether a function of this name belongs to a standard library.
fn is_of_a_library(name: &str) -> bool {
    if let Some(path) = rusts(name) {
        return is_of_rusts_libraries(&path);
    }
    let Some(rest) = name.strip_prefix("_Z") else { return false };
    let rest = rest.strip_prefix('N').map_or(rest, |nested| nested.trim_start_matches(['K', 'V', 'r']));
    ["St", "Sa", "Ss", "9__gnu_cxx"].iter().any(|root| rest.starts_with(root))
}

/// Whether what has this path does, but for what the program itself runs in.
fn is_of_rusts_libraries(path: &str) -> bool {
    ["alloc::", "core::", "std::", "hashbrown::"].iter().any(|root| path.starts_with(root))
        && !path.starts_with("std::rt::")
}

/// The path that says whose a function of Rust is, from the crate's name on: its own, for a method that of the type, or of the
/// trait where the type is none of any crate's.
fn rusts(name: &str) -> Option<String> {
    let path = if name.starts_with("_R") { demangle(name) } else { legacy(name)? };
    let Some(of_type) = path.strip_prefix('<') else { return Some(path) };
    let of_type = of_type.trim_start_matches("dyn ");
    let crate_name = of_type.split("::").next().unwrap_or_default();
    if crate_name.len() < of_type.len() && crate_name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Some(of_type.to_owned());
    }
    let mut depth = 0;
    let of_trait = of_type.char_indices().find_map(|(at, each)| {
        depth += i32::from(matches!(each, '<' | '(' | '[')) - i32::from(matches!(each, '>' | ')' | ']'));
        of_type[at..].strip_prefix(" as ").filter(|_| depth == 0)
    });
    Some(of_trait.unwrap_or("core::").to_owned())
}

/// The path within a name as rustc made them up to 2025: the parts of one of C++, the last of which is a hash.
fn legacy(name: &str) -> Option<String> {
    const HASH: usize = 17;
    let mut rest = name.strip_prefix("_ZN")?.strip_suffix('E')?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (length, after) = rest.split_at(digits);
        let (part, after) = after.split_at_checked(length.parse().ok()?)?;
        parts.push(part);
        rest = after;
    }
    let hash = parts.pop().filter(|hash| hash.len() == HASH)?.strip_prefix('h')?;
    let mut path = parts.join("::").replace("..", "::");
    for (code, text) in [("$LT$", "<"), ("$GT$", ">"), ("$u20$", " "), ("$RF$", "&"), ("$u5b$", "["), ("$u5d$", "]")] {
        path = path.replace(code, text);
    }
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| path.trim_start_matches('_').to_owned())
}

/// The arguments, calls and loads that a value may come from, as far as that is seen at once.
fn sources(value: Value) -> Vec<Value> {
    let (mut seen, mut found) = (vec![value], Vec::new());
    let mut at = 0;
    while let Some(&value) = seen.get(at).filter(|_| at < VALUES) {
        at += 1;
        let Some(instruction) = value.as_instruction() else {
            found.push(value);
            continue;
        };
        let operands = || (0..instruction.operand_count()).map(|index| instruction.operand(index));
        let stored = |variable: Value| {
            variable.users().filter(move |user| user.opcode() == "store" && user.operand(1) == variable)
        };
        let from: Vec<_> = match instruction.instruction() {
            Instruction::Call
                if instruction.callee().as_function().is_none_or(|callee| callee.intrinsic_name().is_none()) =>
            {
                found.push(value);
                Vec::new()
            }
            Instruction::Load
                if operands().all(|from| {
                    from.as_instruction().is_some_and(|from| from.instruction() == Instruction::Alloca)
                }) =>
            {
                operands().flat_map(stored).map(|store| store.operand(0)).collect()
            }
            Instruction::Call | Instruction::Other => operands().collect(),
            _ => Vec::new(),
        };
        for value in from {
            if !value.is_constant() && !seen.contains(&value) {
                seen.push(value);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_standard_libraries_are_told_by_their_names() {
        let library = [
            "_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJRKiEEEvN9__gnu_cxx17__normal_iteratorIPiS1_EEDpOT_",
            "_ZNKSt3mapIiiE4findERKi",
            "_ZSt4sortIPiEvT_S1_",
            "_ZN9__gnu_cxx13new_allocatorIiE8allocateEmPKv",
            "_ZN5alloc7raw_vec20RawVecInner$LT$A$GT$11finish_grow17h0123456789abcdefE",
            "_RNvMs4_NtCshFcgTpEKiAq_5alloc7raw_vecNtB5_11RawVecInner11finish_grow",
            "_ZN52_$LT$$u5b$T$u5d$$u20$as$u20$alloc..slice..Concat$GT$6concat17h0123456789abcdefE",
            "_ZN4core3num21_$LT$impl$u20$u64$GT$3pow17h0123456789abcdefE",
            "_ZN63_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE",
        ];
        library.iter().for_each(|name| assert!(is_of_a_library(name), "{name}"));
        let others = [
            "main",
            "xmalloc",
            "_ZN4core4Grid6resizeEm",
            "_ZN5alloc4poolEm",
            "_Z5applyISt6vectorIiSaIiEEEvT_",
            "_ZN3app4main17h0123456789abcdefE",
            "_ZN34_$LT$u64$u20$as$u20$app..Shape$GT$4area17h0123456789abcdefE",
            "_ZN52_$LT$app..Particle$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE",
        ];
        others.iter().for_each(|name| assert!(!is_of_a_library(name), "{name}"));
    }
}

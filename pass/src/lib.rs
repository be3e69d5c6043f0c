//! The LLVM plugin: a module in, an instrumented module out.
//!
//! It runs last in the optimiser, when the loads and stores left are those the machine will make, and adds to each the
//! recording that [`bf_abi`] describes. What inlining would hide is noted before ([`callers::note`]). It must never change
//! what the program computes, and never look at anything but the module and its own options: the same input gives the same
//! output, bit for bit.

mod access;
mod allocation;
mod assembly;
mod attributes;
mod callers;
mod count;
mod emit;
mod libc;
mod lines;
mod llvm;
mod names;
mod options;
mod paths;
mod places;
mod segment;
mod sync;
mod tables;
mod vector;

use core::ffi::{c_char, c_void};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bf_abi::MODULE_FLAG;

use crate::llvm::{Analyses, Instruction, LLVMModuleRef, Module, Value};
use crate::options::Options;

#[cfg(not(any(feature = "llvm22", feature = "llvm19")))]
compile_error!("bf-pass needs one of the features `llvm22` (default) and `llvm19`");

/// What LLVM's plugin loader asks for: `llvm::PassPluginLibraryInfo`.
#[repr(C)]
#[derive(Debug)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Added by version 2 of the interface.
    #[cfg(feature = "llvm22")]
    before_code_generation: Option<unsafe extern "C" fn()>,
}

unsafe extern "C" {
    fn bf_shim_register(pass_builder: *mut c_void);
}

/// The plugin's entry point.
#[unsafe(no_mangle)]
pub const extern "C" fn llvmGetPassPluginInfo() -> PassPluginLibraryInfo {
    PassPluginLibraryInfo {
        api_version: if cfg!(feature = "llvm22") { 2 } else { 1 },
        name: c"bf".as_ptr(),
        version: c"0.1.0".as_ptr(),
        register: Some(bf_shim_register),
        #[cfg(feature = "llvm22")]
        before_code_generation: None,
    }
}

/// Instruments a module; called by the C++ shim. Returns whether the module changed.
///
/// # Safety
/// The module is live and nobody else uses it during the call; `analyses` is its function analysis manager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bf_pass_run(module: LLVMModuleRef, analyses: *mut c_void) -> bool {
    // SAFETY:
    // - the caller's promise is the one both ask for; no handle outlives this call.
    let (module, analyses) = unsafe { (Module::new(module), Analyses::new(analyses)) };
    match catch_unwind(AssertUnwindSafe(|| run(module, analyses))) {
        Ok(Ok(changed)) => changed,
        Ok(Err(message)) => {
            module.error(&format!("bf: {message}"));
            false
        }
        Err(_) => {
            module.error("bf: the pass failed; please report the message above");
            true
        }
    }
}

/// Notes what cannot be seen any more once functions are inlined; called by the C++ shim before anything is.
///
/// # Safety
/// As for [`bf_pass_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bf_pass_note(module: LLVMModuleRef) {
    // SAFETY:
    // - the caller's promise is the one asked for; no handle outlives this call.
    let module = unsafe { Module::new(module) };
    if Options::from_environment().is_ok_and(|options| !options.disable && !options.counters_only)
        && catch_unwind(AssertUnwindSafe(|| callers::note(module))).is_err()
    {
        module.error("bf: the pass failed; please report the message above");
    }
}

/// What was done to a module.
#[derive(Default)]
struct Counts {
    functions: usize,
    segments: usize,
    accesses: usize,
    slots: usize,
}

fn run(module: Module, analyses: Analyses) -> Result<bool, String> {
    let options = Options::from_environment()?;
    if options.disable || !is_supported(&module.triple(), &module.data_layout()) || module.flag(MODULE_FLAG).is_some() {
        return Ok(false);
    }
    module.set_flag(MODULE_FLAG, 1);
    let counts = instrument(module, analyses, &options);
    attributes::relax(module);
    if options.verbose {
        let Counts { functions, segments, accesses, slots } = counts;
        let name = module.source_name();
        eprintln!("bf: {name}: {functions} functions, {segments} segments, {accesses} accesses, {slots} counts");
    }
    Ok(true)
}

/// Whether the target has the thread-local storage and the word size that the recording needs: 64-bit ELF on x86-64 or
/// little-endian AArch64. Everything else, code for accelerators among it, is left as it is.
fn is_supported(triple: &str, data_layout: &str) -> bool {
    let architecture = triple.split('-').next().unwrap_or_default();
    let other = ["windows", "apple", "darwin", "macos", "uefi", "cygwin", "x32", "ilp32"];
    matches!(architecture, "x86_64" | "amd64" | "aarch64" | "arm64")
        && !other.iter().any(|part| triple.contains(part))
        && data_layout.contains("m:e")
        && !data_layout.contains("p:32")
}

fn instrument(module: Module, analyses: Analyses, options: &Options) -> Counts {
    let builder = module.builder();
    let cutter = segment::Cutter::new(module, analyses, builder.mark_kind(), !options.no_streams);
    let skipped = resolvers(module);
    let functions: Vec<_> = module
        .functions()
        .filter(|function| !skipped.contains(function) && is_eligible(*function, &cutter))
        .filter(|function| is_wanted(&function.name(), options))
        .collect();
    let mut counts = Counts { functions: functions.len(), ..Counts::default() };
    if functions.is_empty() {
        return counts;
    }
    let mut tables = tables::Tables::new(module, analyses, options);
    let emitter = emit::Emitter::new(module, module.builder());
    let new_counter = || count::Counter::new(module, analyses, builder.mark_kind(), &emitter, options);
    let mut counter = (!options.no_counters).then(new_counter);
    let sync = (!options.counters_only).then(|| sync::Writer::new(module)).flatten();
    let callers = (!options.counters_only).then(|| callers::Callers::new(module));
    let mut writer = options.call_paths.then(|| paths::Writer::new(module, &emitter));
    for function in &functions {
        // What is written is put in front of instructions that stay where they are. All plans are made before anything else is changed.
        emitter.keep_allocas_in_entry(*function);
        function.blocks().flat_map(llvm::Block::instructions).for_each(Value::constrain);
        let plan =
            counter.as_ref().map_or_else(count::Plan::default, |counter| counter.plan(*function, tables.places()));
        let course = writer.as_ref().and_then(|writer| writer.plan(*function, &cutter));
        let mut segments = if options.counters_only { Vec::new() } else { cutter.segments(*function) };
        let is_allocation = |segment: &segment::Segment| segment.kind == bf_abi::Segment::ALLOCATION;
        for each in segments.iter_mut().filter(|each| is_allocation(each)) {
            each.for_caller = callers.as_ref().is_some_and(|callers| callers.have(*function, each.first));
        }
        let lent = callers.as_ref().map(|callers| callers.plan(*function, &cutter, &mut tables)).unwrap_or_default();
        let headers: Vec<_> = segments.iter().map(|segment| tables.segment(*function, segment)).collect();
        let added = counter.as_mut().and_then(|counter| counter.add(*function, &plan));
        let counted = counter.as_ref().zip(added).map(|(counter, (_, first))| (counter.global(), first, plan.len()));
        let mut path = writer.as_mut().zip(course).map(|(writer, course)| {
            let paths = writer.enter(*function, &course, &mut tables, counted);
            (writer, course, paths)
        });
        if let Some((counter, added)) = counter.as_ref().zip(added) {
            counter.write(*function, &plan, added, path.as_ref().map(|(.., paths)| *paths));
            counts.slots += plan.len();
        }
        if let Some((writer, course, paths)) = &mut path {
            writer.calls(*function, course, *paths);
            if !options.counters_only {
                writer.begins(*function, course, *paths, &mut tables);
            }
        }
        // Allocations first, because what is recorded in front of the same instruction comes behind them. Then last first:
        // a split moves what follows in its block, which then is only the segment itself.
        let all = || segments.iter().zip(&headers).rev();
        let (first, then) = (all().filter(|each| is_allocation(each.0)), all().filter(|each| !is_allocation(each.0)));
        for (segment, &header) in first.chain(then) {
            emitter.segment(*function, segment, header);
            counts.accesses += segment.entries.len();
        }
        counts.segments += segments.len();
        if let Some((writer, course, paths)) = path.filter(|_| !options.counters_only) {
            writer.ends(*function, &course, paths, &mut tables);
        }
        callers::write(*function, &lent, &emitter);
        if let Some(sync) = &sync {
            sync.write(*function, &emitter);
        }
    }
    visible_names(module, &functions).into_iter().for_each(|name| tables.add_function(name));
    let places = tables.finish(options, &builder);
    if let Some(counter) = counter {
        counter.finish(options, &builder, places);
    }
    counts
}

/// The names under which other modules can call the instrumented functions.
fn visible_names(module: Module, functions: &[Value]) -> Vec<String> {
    let instrumented: HashSet<_> = functions.iter().copied().collect();
    let other_names = module.aliases().filter(|(_, aliasee)| instrumented.contains(aliasee)).map(|(alias, _)| alias);
    let chosen_at_start = module.ifuncs().map(|(ifunc, _)| ifunc);
    let all = functions.iter().copied().chain(other_names).chain(chosen_at_start);
    all.filter(|each| !each.is_local()).map(Value::name).collect()
}

fn is_wanted(name: &str, options: &Options) -> bool {
    (options.include.is_empty() || options.include.matches(name)) && !options.exclude.matches(name)
}

/// Whether a function can be instrumented at all.
fn is_eligible(function: Value, cutter: &segment::Cutter) -> bool {
    /// Interrupt handlers have no business in thread-local storage.
    const X86_INTERRUPT: u32 = 83;
    let has = |attribute| function.has_attribute(Module::attribute_kind(attribute));
    let has_funclets =
        || function.blocks().flat_map(llvm::Block::instructions).any(|each| each.instruction() == Instruction::EhPad);
    !function.is_declaration()
        && !function.is_available_externally()
        && !has("naked")
        && !has("presplitcoroutine")
        && function.calling_convention() != X86_INTERRUPT
        && !segment::is_runtime(&function.name())
        && cutter.classifier.libc.of(function).is_none()
        && !has_funclets()
}

/// Resolvers of indirect functions and what they call: they run while the program is being relocated, before there is
/// thread-local storage.
fn resolvers(module: Module) -> HashSet<Value> {
    let mut found = HashSet::new();
    let mut open: Vec<_> = module.ifuncs().filter_map(|(_, resolver)| resolver.as_function()).collect();
    while let Some(function) = open.pop() {
        if !found.insert(function) {
            continue;
        }
        let instructions = function.blocks().flat_map(llvm::Block::instructions);
        let calls = instructions.filter(|each| each.instruction() == Instruction::Call);
        open.extend(calls.filter_map(|call| call.callee().as_function()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_bit_elf_is_supported() {
        let elf = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128";
        assert!(is_supported("x86_64-pc-linux-gnu", elf));
        assert!(is_supported("aarch64-unknown-linux-gnu", "e-m:e-p270:32:32-i8:8:32-i16:16:32-n32:64-S128-Fn32"));
        for (triple, layout) in [
            ("i386-pc-linux-gnu", "e-m:e-p:32:32-p270:32:32"),
            ("x86_64-pc-linux-gnux32", "e-m:e-p:32:32-p270:32:32"),
            ("x86_64-pc-windows-msvc", "e-m:w-p270:32:32-i64:64"),
            ("arm64-apple-macosx14.0.0", "e-m:o-i64:64"),
            ("nvptx64-nvidia-cuda", "e-i64:64-i128:128-v16:16-n16:32:64"),
            ("aarch64_be-unknown-linux-gnu", "E-m:e-i8:8:32"),
        ] {
            assert!(!is_supported(triple, layout), "{triple}");
        }
    }
}

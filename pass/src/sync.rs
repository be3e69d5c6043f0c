//! Where what a thread did becomes visible to others: in front of calls and atomic operations that let them go on, and where
//! a part of an OpenMP region or task ends. There the runtime is told, so that it puts what others do after that behind it.

use std::collections::HashMap;
use std::ffi::CString;

use bf_abi::{RELEASE_SYMBOL, SYNC_SYMBOL};

use crate::emit::Emitter;
use crate::llvm::{Block, Instruction, Module, Type, Value};

/// Calls of OpenMP's runtime library that start a function of the program on other threads, and which argument that is.
const STARTS: [(&str, u32); 5] = [
    ("__kmpc_fork_call", 2),
    ("__kmpc_fork_call_if", 2),
    ("__kmpc_fork_teams", 2),
    ("__kmpc_omp_task_alloc", 5),
    ("__kmpc_omp_target_task_alloc", 5),
];

/// How an instruction lets other threads go on with what this one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lets {
    /// In a step that threads do together, or with a message to one that sleeps.
    Sync,
    /// It releases a lock, or a word: perhaps often, and for nobody.
    Release,
}

/// How a call of a function of this name does.
fn of_function(name: &str) -> Option<Lets> {
    if is_unlock(name) {
        return Some(Lets::Release);
    }
    let syncs = match name.strip_prefix("__kmpc_") {
        Some(name) => matches!(
            name,
            "barrier"
                | "barrier_master"
                | "barrier_master_nowait"
                | "cancel_barrier"
                | "copyprivate"
                | "doacross_post"
                | "end_ordered"
                | "end_reduce"
                | "end_reduce_nowait"
                | "end_single"
                | "end_taskgroup"
                | "flush"
                | "fork_call"
                | "fork_call_if"
                | "fork_teams"
                | "omp_task"
                | "omp_task_parts"
                | "omp_task_with_deps"
                | "reduce"
                | "reduce_nowait"
                | "taskloop"
                | "taskloop_5"
        ),
        None => {
            matches!(
                name,
                "pthread_barrier_wait"
                    | "pthread_cond_broadcast"
                    | "pthread_cond_clockwait"
                    | "pthread_cond_signal"
                    | "pthread_cond_timedwait"
                    | "pthread_cond_wait"
                    | "sem_post"
                    | "cnd_broadcast"
                    | "cnd_signal"
                    | "cnd_timedwait"
                    | "cnd_wait"
            ) || is_of_rusts_library(name)
                || name.starts_with("_ZNSt18condition_variable")
                || name.starts_with("_ZNSt3__118condition_variable")
        }
    };
    syncs.then_some(Lets::Sync)
}

/// Whether a function of this name releases a lock or a word, and nothing else.
fn is_unlock(name: &str) -> bool {
    const ATOMIC: [&str; 4] = ["store", "exchange", "compare_exchange", "fetch_"];
    matches!(
        name,
        "__kmpc_end_critical"
            | "pthread_mutex_unlock"
            | "pthread_rwlock_unlock"
            | "pthread_spin_unlock"
            | "mtx_unlock"
            | "omp_unset_lock"
            | "omp_unset_nest_lock"
    ) || name.starts_with("_ZNSt3__15mutex6unlockE")
        || name.strip_prefix("__atomic_").is_some_and(|rest| ATOMIC.iter().any(|start| rest.starts_with(start)))
}

/// Whether it is one of those functions of Rust's standard library that no crate has a copy of, in either mangling.
fn is_of_rusts_library(name: &str) -> bool {
    const RELEASES: [&str; 5] =
        ["7Barrier4wait", "7Condvar4wait", "7Condvar12wait_timeout", "7Condvar10notify_", "6Thread6unpark"];
    (name.starts_with("_RN") || name.starts_with("_ZN3std"))
        && name.contains("3std")
        && RELEASES.iter().any(|part| name.contains(part))
}

/// Writes the calls of one module.
pub(crate) struct Writer {
    sync: Value,
    release: Value,
    ty: Type,
    /// Functions that run as a part of an OpenMP region, or as a task.
    parts: Vec<Value>,
    /// Functions whose calls let others go on.
    callees: HashMap<Value, Lets>,
}

impl Writer {
    /// Declares the runtime's functions if there is anything to tell.
    pub(crate) fn new(module: Module) -> Option<Self> {
        let parts = module.functions().flat_map(started).collect::<Vec<_>>();
        let callees = module.functions().filter_map(|each| Some((each, of_function(&each.name())?)));
        let callees = callees.collect::<HashMap<_, _>>();
        let mut instructions = module.functions().flat_map(Value::blocks).flat_map(Block::instructions);
        let tells = !parts.is_empty() || !callees.is_empty() || instructions.any(Value::releases);
        tells.then(|| {
            let ty = module.function_type(None, &[]);
            let [sync, release] = [SYNC_SYMBOL, RELEASE_SYMBOL].map(|name| {
                let function = module.function(&CString::new(name).unwrap_or_default(), ty);
                function.add_attribute(module, Module::attribute_kind("nounwind"));
                function
            });
            Self { sync, release, ty, parts, callees }
        })
    }

    /// How an instruction lets other threads go on, if it does.
    fn lets(&self, instruction: Value) -> Option<Lets> {
        let of_callee = match instruction.instruction() {
            Instruction::Call => self.callees.get(&instruction.callee()).copied(),
            _ => None,
        };
        of_callee.or_else(|| instruction.releases().then_some(Lets::Release))
    }

    /// Writes those of one function, whose segments are written.
    pub(crate) fn write(&self, function: Value, emitter: &Emitter) {
        let is_part = self.parts.contains(&function);
        let ends = |each: Value| (is_part && each.opcode() == "ret").then_some(Lets::Sync);
        let place = |each: Value| Some((each, self.lets(each).or_else(|| ends(each))?));
        let places: Vec<_> = function.blocks().flat_map(Block::instructions).filter_map(place).collect();
        for (place, how) in places {
            emitter.builder.before(place, function);
            let told = if how == Lets::Sync { self.sync } else { self.release };
            emitter.builder.call(told, self.ty, &[]);
        }
    }
}

/// What the calls of a function start, if it is one of those that start something.
fn started(function: Value) -> Vec<Value> {
    let name = function.name();
    let Some(&(_, argument)) = STARTS.iter().find(|&&(start, _)| start == name) else { return Vec::new() };
    let calls = function.users().filter(|user| user.instruction() == Instruction::Call);
    let calls = calls.filter(|call| call.callee() == function && call.argument_count() > argument);
    calls.filter_map(|call| call.operand(argument).as_function()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lets_others_go_on_is_told() {
        for (how, names) in [
            (
                Some(Lets::Sync),
                &[
                    "__kmpc_barrier",
                    "pthread_cond_signal",
                    "sem_post",
                    "_ZNSt18condition_variable10notify_oneEv",
                    "_ZN3std4sync7barrier7Barrier4wait17h0123456789abcdefE",
                    "_RNvMs0_NtNtCsjrHSEGnQ3l9_3std4sync7barrierNtB5_7Barrier4wait",
                ][..],
            ),
            (
                Some(Lets::Release),
                &[
                    "__kmpc_end_critical",
                    "pthread_mutex_unlock",
                    "mtx_unlock",
                    "__atomic_store_16",
                    "__atomic_fetch_add_8",
                ],
            ),
            (
                None,
                &[
                    "__kmpc_critical",
                    "__kmpc_for_static_init_4",
                    "pthread_mutex_lock",
                    "sem_wait",
                    "barrier",
                    "flush",
                    "__atomic_load_16",
                    "_ZN3app7Barrier4waitE",
                ],
            ),
        ] {
            names.iter().for_each(|name| assert_eq!(of_function(name), how, "{name}"));
        }
    }
}

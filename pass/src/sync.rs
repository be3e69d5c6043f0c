//! Where what a thread did becomes visible to others: in front of calls and atomic operations that let them go on, and where
//! a part of an OpenMP region or task ends. There the runtime is told, so that it puts what others do after that behind it.
//! Of a lock it is told both ends, and which one it is: what its holder did has to be known only once another thread holds it.

use std::collections::HashMap;
use std::ffi::CString;

use bf_abi::{LOCK_SYMBOL, RELEASE_SYMBOL, SHARE_SYMBOL, SYNC_SYMBOL, UNSHARE_SYMBOL, VOLATILE_SYMBOL};

use crate::emit::Emitter;
use crate::llvm::{Block, Instruction, Module, Type, Value};

/// Calls of libraries that start a function of the program on other threads, or for whichever thread comes first, and which argument
/// that is.
const STARTS: [(&str, u32); 7] = [
    ("pthread_once", 1),
    ("call_once", 1),
    ("__kmpc_fork_call", 2),
    ("__kmpc_fork_call_if", 2),
    ("__kmpc_fork_teams", 2),
    ("__kmpc_omp_task_alloc", 5),
    ("__kmpc_omp_target_task_alloc", 5),
];

/// How an instruction lets other threads go on with what this one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lets {
    /// In a step that threads do together.
    Sync,
    /// It releases a word, or sends a message: perhaps often, and for nobody.
    Release,
    /// It is a volatile store, which may be no more than that.
    Volatile,
    /// It releases a lock.
    Unlock(Lock),
}

/// A lock that a call is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// This argument points to it.
    At(u32),
    /// This argument points to a pointer to it.
    Behind(u32),
    /// This argument points to it, and several threads may hold it.
    Shared(u32),
}

/// How an instruction does by itself.
fn of_instruction(instruction: Value) -> Option<Lets> {
    let volatile = || instruction.is_volatile().then_some(Lets::Volatile);
    instruction.releases().then_some(Lets::Release).or_else(volatile)
}

/// How a call of a function of this name does.
fn of_function(name: &str) -> Option<Lets> {
    if let Some(lock) = unlocked(name) {
        return Some(Lets::Unlock(lock));
    }
    if is_atomic(name)
        || SENDS.contains(&name)
        || is_of_rusts_library(name, &["7Condvar4wait", "7Condvar12wait_timeout", "7Condvar10notify_"])
    {
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
            matches!(name, "__cxa_guard_release" | "pthread_barrier_wait")
                || is_of_rusts_library(name, &["7Barrier4wait", "6Thread6unpark"])
                || is_of_libcxx(
                    name,
                    &["7promiseIvE", "17__assoc_sub_state"],
                    &["9set_value", "13set_exception", "12__make_ready"],
                )
        }
    };
    syncs.then_some(Lets::Sync)
}

/// System calls that may wake who waits for a message or a signal.
const SENDS: [&str; 17] = [
    "eventfd_write",
    "kill",
    "mq_send",
    "mq_timedsend",
    "msgsnd",
    "pthread_kill",
    "pthread_sigqueue",
    "semop",
    "semtimedop",
    "send",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "shutdown",
    "sigqueue",
    "write",
    "writev",
];

/// Functions that take a lock, where it is, and functions that let it go. A semaphore is let go by who posts it. Who signals a condition
/// need not be told of: what others wait for is changed under the lock.
const LOCKS: [(Lock, &[&str], &[&str]); 4] = [
    (
        Lock::At(0),
        &[
            "pthread_mutex_lock",
            "pthread_mutex_trylock",
            "pthread_mutex_timedlock",
            "pthread_mutex_clocklock",
            "pthread_rwlock_wrlock",
            "pthread_rwlock_trywrlock",
            "pthread_rwlock_timedwrlock",
            "pthread_rwlock_clockwrlock",
            "pthread_spin_lock",
            "pthread_spin_trylock",
            "sem_wait",
            "sem_trywait",
            "sem_timedwait",
            "sem_clockwait",
            "flockfile",
            "ftrylockfile",
            "mtx_lock",
            "mtx_trylock",
            "mtx_timedlock",
            "omp_set_lock",
            "omp_test_lock",
            "omp_set_nest_lock",
            "omp_test_nest_lock",
        ],
        &[
            "pthread_mutex_unlock",
            "pthread_spin_unlock",
            "sem_post",
            "funlockfile",
            "mtx_unlock",
            "omp_unset_lock",
            "omp_unset_nest_lock",
        ],
    ),
    (
        Lock::Shared(0),
        &[
            "pthread_rwlock_rdlock",
            "pthread_rwlock_tryrdlock",
            "pthread_rwlock_timedrdlock",
            "pthread_rwlock_clockrdlock",
        ],
        // It does not say which way the thread held it.
        &["pthread_rwlock_unlock"],
    ),
    (Lock::At(1), &WAITS, &WAITS),
    (Lock::At(2), &["__kmpc_critical", "__kmpc_critical_with_hint"], &["__kmpc_end_critical"]),
];

/// Functions that let a lock go and take it again.
const WAITS: [&str; 5] =
    ["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait", "cnd_timedwait"];

/// The locks of LLVM's C++ library that are not written in its headers.
const OF_LIBCXX: [&str; 6] = [
    "5mutex",
    "15recursive_mutex",
    "11timed_mutex",
    "21recursive_timed_mutex",
    "19__shared_mutex_base",
    "18shared_timed_mutex",
];

/// Whether a lock's function of this name is the one named; Fortran's have one more character.
fn is_named(name: &str, one: &&str) -> bool {
    name == *one || one.starts_with("omp_") && name.strip_suffix('_') == Some(one)
}

/// The lock that a call of a function of this name lets go.
fn unlocked(name: &str) -> Option<Lock> {
    let of_name = LOCKS.iter().find(|(.., free)| free.iter().any(|one| is_named(name, one))).map(|&(lock, ..)| lock);
    of_name.or_else(|| of_libcxx(name, &["6unlock"], &["13unlock_shared"])).or_else(|| waited_for(name))
}

/// The lock that the thread may hold once a call of a function of this name is back.
fn locked(name: &str) -> Option<Lock> {
    let of_name = LOCKS.iter().find(|(_, take, _)| take.iter().any(|one| is_named(name, one))).map(|&(lock, ..)| lock);
    let of_libcxx = || of_libcxx(name, &["4lock", "8try_lock"], &["11lock_shared", "15try_lock_shared"]);
    of_name.or_else(of_libcxx).or_else(|| waited_for(name))
}

/// The lock of a method of LLVM's C++ library that begins like one of these: ways to hold it alone, and with others.
fn of_libcxx(name: &str, alone: &[&str], shared: &[&str]) -> Option<Lock> {
    let begins = |methods| is_of_libcxx(name, &OF_LIBCXX, methods);
    // `try_lock` and `try_lock_for` are taken alone, `try_lock_shared` is not.
    match (begins(shared), begins(alone)) {
        (true, _) => Some(Lock::Shared(0)),
        (false, alone) => alone.then_some(Lock::At(0)),
    }
}

/// The lock of a condition of C++ that a call waits for. Either library's `unique_lock` begins with a pointer to its mutex.
fn waited_for(name: &str) -> Option<Lock> {
    let of_libstdcxx = name.strip_prefix("_ZNSt18condition_variable").is_some_and(|method| method.contains("wait"));
    let of_libcxx = is_of_libcxx(name, &["18condition_variable"], &["4wait", "15__do_timed_wait"])
        || is_of_libcxx(name, &["17__assoc_sub_state"], &["10__sub_wait"]);
    (of_libstdcxx || of_libcxx).then_some(Lock::Behind(1))
}

/// Whether it is a function of LLVM's C++ library: a method of one of some classes whose name begins like one of these.
fn is_of_libcxx(name: &str, classes: &[&str], methods: &[&str]) -> bool {
    let of_class = |rest: &str| {
        let method = classes.iter().find_map(|class| rest.strip_prefix(class));
        method.is_some_and(|method| methods.iter().any(|one| method.starts_with(one)))
    };
    name.strip_prefix("_ZNSt3__1").is_some_and(of_class)
}

/// Whether a function of this name releases a word, and nothing else.
fn is_atomic(name: &str) -> bool {
    const ATOMIC: [&str; 4] = ["store", "exchange", "compare_exchange", "fetch_"];
    name.strip_prefix("__atomic_").is_some_and(|rest| ATOMIC.iter().any(|start| rest.starts_with(start)))
}

/// Whether it is one of some functions of Rust's standard library that no crate has a copy of, in either mangling.
fn is_of_rusts_library(name: &str, parts: &[&str]) -> bool {
    (name.starts_with("_RN") || name.starts_with("_ZN3std"))
        && name.contains("3std")
        && parts.iter().any(|part| name.contains(part))
}

/// Whether it is what the C++ libraries make of a function that is to be called once.
fn is_called_once(name: &str) -> bool {
    name.contains("St9once_flag18_Prepare_execution") || is_of_libcxx(name, &["17__call_once_proxy"], &[""])
}

/// Writes the calls of one module.
pub(crate) struct Writer {
    sync: Value,
    release: Value,
    volatile: Value,
    ty: Type,
    lock: Value,
    share: Value,
    unshare: Value,
    lock_ty: Type,
    pointer: Type,
    /// Functions that run as a part of an OpenMP region, as a task, or once for all threads.
    parts: Vec<Value>,
    /// Functions whose calls let others go on.
    callees: HashMap<Value, Lets>,
    /// Functions that take locks.
    takers: HashMap<Value, Lock>,
}

impl Writer {
    /// Declares the runtime's functions if there is anything to tell.
    pub(crate) fn new(module: Module) -> Option<Self> {
        let once = module.functions().filter(|each| is_called_once(&each.name()));
        let parts = module.functions().flat_map(started).chain(once).collect::<Vec<_>>();
        let callees = module.functions().filter_map(|each| Some((each, of_function(&each.name())?)));
        let callees = callees.collect::<HashMap<_, _>>();
        let takers = module.functions().filter_map(|each| Some((each, locked(&each.name())?)));
        let takers = takers.collect::<HashMap<_, _>>();
        let mut instructions = module.functions().flat_map(Value::blocks).flat_map(Block::instructions);
        let calls = !parts.is_empty() || !callees.is_empty() || !takers.is_empty();
        (calls || instructions.any(|each| of_instruction(each).is_some())).then(|| {
            let pointer = module.pointer_type();
            let (ty, lock_ty) = (module.function_type(None, &[]), module.function_type(None, &[pointer]));
            let symbols = [
                (SYNC_SYMBOL, ty),
                (RELEASE_SYMBOL, ty),
                (VOLATILE_SYMBOL, ty),
                (LOCK_SYMBOL, lock_ty),
                (SHARE_SYMBOL, lock_ty),
                (UNSHARE_SYMBOL, lock_ty),
            ];
            let [sync, release, volatile, lock, share, unshare] = symbols.map(|(name, ty)| {
                let function = module.function(&CString::new(name).unwrap_or_default(), ty);
                function.add_attribute(module, Module::attribute_kind("nounwind"));
                function
            });
            Self { sync, release, volatile, ty, lock, share, unshare, lock_ty, pointer, parts, callees, takers }
        })
    }

    /// How an instruction lets other threads go on, if it does.
    fn lets(&self, instruction: Value) -> Option<Lets> {
        let of_callee = match instruction.instruction() {
            Instruction::Call => self.callees.get(&instruction.callee()).copied(),
            _ => None,
        };
        of_callee.or_else(|| of_instruction(instruction))
    }

    /// The lock that an instruction takes, if it does.
    fn takes(&self, instruction: Value) -> Option<Lock> {
        let is_call = instruction.instruction() == Instruction::Call;
        is_call.then(|| self.takers.get(&instruction.callee()).copied()).flatten()
    }

    /// Writes those of one function, whose segments are written.
    pub(crate) fn write(&self, function: Value, emitter: &Emitter) {
        let is_part = self.parts.contains(&function);
        let ends = |each: Value| (is_part && each.opcode() == "ret").then_some(Lets::Sync);
        let place = |each: Value| Some((each, self.lets(each).or_else(|| ends(each))?));
        let instructions = || function.blocks().flat_map(Block::instructions);
        let places: Vec<_> = instructions().filter_map(place).collect();
        let taken: Vec<_> = instructions().filter_map(|each| Some((each, self.takes(each)?))).collect();
        for (place, how) in places {
            emitter.builder.before(place, function);
            match how {
                Lets::Sync => drop(emitter.builder.call(self.sync, self.ty, &[])),
                Lets::Release => drop(emitter.builder.call(self.release, self.ty, &[])),
                Lets::Volatile => drop(emitter.builder.call(self.volatile, self.ty, &[])),
                Lets::Unlock(lock) => self.tell(place, lock, self.unshare, emitter),
            }
        }
        for (call, lock) in taken {
            if let Some(after) = call.behind() {
                emitter.builder.before(after, function);
                self.tell(call, lock, self.share, emitter);
            }
        }
    }

    /// Tells of the lock of a call, and of one that several threads may hold with this function.
    fn tell(&self, call: Value, lock: Lock, shared: Value, emitter: &Emitter) {
        let (Lock::At(argument) | Lock::Behind(argument) | Lock::Shared(argument)) = lock;
        if call.argument_count() <= argument || call.operand(argument).ty() != self.pointer {
            return;
        }
        let at = call.operand(argument);
        let at = if matches!(lock, Lock::Behind(_)) { emitter.builder.load(self.pointer, at) } else { at };
        let told = if matches!(lock, Lock::Shared(_)) { shared } else { self.lock };
        emitter.builder.call(told, self.lock_ty, &[at]);
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
                    "__cxa_guard_release",
                    "_ZNSt3__117__assoc_sub_state9set_valueEv",
                    "_ZN3std4sync7barrier7Barrier4wait17h0123456789abcdefE",
                    "_RNvMs0_NtNtCsjrHSEGnQ3l9_3std4sync7barrierNtB5_7Barrier4wait",
                ][..],
            ),
            (
                Some(Lets::Release),
                &[
                    "__atomic_store_16",
                    "__atomic_fetch_add_8",
                    "write",
                    "pthread_sigqueue",
                    "_ZN3std4sync7condvar7Condvar10notify_one17hE",
                ],
            ),
            (
                Some(Lets::Unlock(Lock::At(0))),
                &[
                    "pthread_mutex_unlock",
                    "sem_post",
                    "mtx_unlock",
                    "omp_unset_lock",
                    "omp_unset_lock_",
                    "_ZNSt3__119__shared_mutex_base6unlockEv",
                ],
            ),
            (
                Some(Lets::Unlock(Lock::Shared(0))),
                &["pthread_rwlock_unlock", "_ZNSt3__119__shared_mutex_base13unlock_sharedEv"],
            ),
            (Some(Lets::Unlock(Lock::At(1))), &["pthread_cond_wait"]),
            (Some(Lets::Unlock(Lock::At(2))), &["__kmpc_end_critical"]),
            (Some(Lets::Unlock(Lock::Behind(1))), &["_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"]),
            (
                None,
                &[
                    "__kmpc_critical",
                    "__kmpc_for_static_init_4",
                    "pthread_mutex_lock",
                    "pthread_cond_signal",
                    "_ZNSt18condition_variable10notify_oneEv",
                    "_ZNSt3__118condition_variable10notify_oneEv",
                    "_ZNSt3__15mutex4lockEv",
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

    #[test]
    fn what_takes_a_lock_is_told_which_one() {
        for (lock, names) in [
            (
                Some(Lock::At(0)),
                &[
                    "pthread_mutex_lock",
                    "pthread_spin_trylock",
                    "sem_timedwait",
                    "omp_set_lock",
                    "omp_test_nest_lock_",
                    "pthread_rwlock_wrlock",
                    "_ZNSt3__15mutex8try_lockEv",
                    "_ZNSt3__119__shared_mutex_base4lockEv",
                    "_ZNSt3__115recursive_mutex4lockEv",
                ][..],
            ),
            (Some(Lock::Shared(0)), &["pthread_rwlock_tryrdlock", "_ZNSt3__119__shared_mutex_base15try_lock_sharedEv"]),
            (Some(Lock::At(1)), &["pthread_cond_wait", "cnd_timedwait"]),
            (Some(Lock::At(2)), &["__kmpc_critical", "__kmpc_critical_with_hint"]),
            (
                Some(Lock::Behind(1)),
                &[
                    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
                    "_ZNSt3__118condition_variable15__do_timed_waitERNS_11unique_lockINS_5mutexEEE",
                ],
            ),
            (
                None,
                &["pthread_mutex_unlock", "pthread_mutex_lock_", "sem_post", "_ZNSt18condition_variable10notify_oneEv"],
            ),
        ] {
            names.iter().for_each(|name| assert_eq!(locked(name), lock, "{name}"));
        }
    }
}

//! Slots: what instrumented code counts in (`bf_abi::counting`), and what their counts have come to.
//!
//! A thread adds to its own slots with plain instructions. Whoever wants to know reads them, and remembers what it read:
//! the difference to the last reading belongs to the tag that was set in between.

use crate::called::Call;
use crate::places::{Kept, Table, table};
use crate::process::lock;
use crate::sink::Mode;
use crate::system;
use crate::{log, memory};
use bf_abi::ABI_VERSION;
use bf_abi::counting::{Counting, Function, MAX_SLOTS, Part, Slot, Term};
use bf_collect::Bucket;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Slots of a thread, with those that nobody reads.
const SLOTS: usize = 2 * MAX_SLOTS as usize;

/// Fewer of them, for where there is hardly any address space: what the runtime's reserve has room for.
const FEW_SLOTS: usize = 3 << 17;

/// Slots that nobody reads, for when nothing is counted. All threads write to the same.
pub fn scratch() -> *mut u64 {
    static WHERE: OnceLock<usize> = OnceLock::new();
    let fewer = || {
        memory::give_back();
        counts().room = FEW_SLOTS;
        map(FEW_SLOTS)
    };
    // Instrumented code cannot go on without.
    let start = WHERE.get_or_init(|| map(SLOTS).or_else(fewer).unwrap_or_else(|| std::process::abort()) as usize);
    *start as *mut u64
}

/// Slots that are all zero. What is never touched takes no memory.
fn map(slots: usize) -> Option<*mut u64> {
    let start = system::map(8 * slots, libc::MAP_NORESERVE);
    (!start.is_null()).then_some(start.cast())
}

/// The counters of a module, which may be unloaded.
pub struct Counted {
    /// Where its tables are; 0 if they are gone.
    address: usize,
    /// Whether what each block did is wanted.
    pub every_block: bool,
    /// Number of its first slot.
    pub first: usize,
    /// Its slots.
    pub slots: Table<Slot>,
    /// Of all its slots, one after the other.
    pub parts: Table<Part>,
    /// Of all its parts, one after the other.
    pub terms: Table<Term>,
    /// What slots name.
    pub functions: Table<Function>,
    /// What terms and functions name.
    pub strings: Table<u8>,
    /// What parts name.
    pub places: Kept,
}

/// A function that another called through a pointer.
pub struct Target {
    /// The number of the calls' slot.
    pub slot: usize,
    /// Index of the calling module.
    pub module: usize,
    /// Index of the calling function there.
    pub function: u32,
    /// Of the called function.
    pub address: u64,
    /// Its name, once it was looked up.
    pub name: Option<String>,
}

/// Every counted module, and the counts.
pub struct Counts {
    /// The modules; none has the same content as another.
    pub modules: Vec<Counted>,
    /// The targets of indirect calls.
    pub targets: Vec<Target>,
    /// Slots given to modules and targets, and how many there can be.
    used: usize,
    room: usize,
    /// Whether all modules do nothing but count.
    only: Option<bool>,
    /// By bucket, then by slot: what threads counted.
    pub totals: Vec<Vec<u64>>,
}

/// A leaf of the lock order.
static COUNTS: Mutex<Counts> = Mutex::new(Counts {
    modules: Vec::new(),
    targets: Vec::new(),
    used: 0,
    room: MAX_SLOTS as usize,
    only: None,
    totals: Vec::new(),
});

impl Counts {
    /// A slot for an indirect call; `None` if its module is not counted, or there is no more room.
    pub fn target(&mut self, call: Call) -> Option<usize> {
        let module = self.modules.iter().position(|module| module.address as u64 == call.counting)?;
        if self.used >= self.room {
            return None;
        }
        let (slot, function) = (self.used, call.function as u32);
        self.used += 1;
        self.targets.push(Target { slot, module, function, address: call.target, name: None });
        Some(slot)
    }
}

/// Slots of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Index of the module among [`Counts::modules`].
    pub module: usize,
    /// Index of the first one there.
    pub first: usize,
    /// How many there are.
    pub len: usize,
}

/// The slots of a function in a module's tables; `None` if they are not counted.
pub fn run(counting: *const Counting, first: usize, len: usize) -> Option<Run> {
    let module = counts().modules.iter().position(|module| module.address == counting as usize)?;
    Some(Run { module, first, len })
}

/// So many slots one after the other: the first of them, if there is room.
pub fn allot(len: usize) -> Option<usize> {
    let mut counts = counts();
    let first = counts.used;
    (first + len <= counts.room).then(|| {
        counts.used += len;
        first
    })
}

/// Notes that tables are `gone`.
pub fn forget(gone: impl Fn(usize) -> bool) {
    for module in counts().modules.iter_mut().filter(|module| gone(module.address)) {
        module.address = 0;
    }
}

/// What was counted so far, as far as threads have settled it.
pub fn counts() -> MutexGuard<'static, Counts> {
    lock(&COUNTS)
}

/// Whether no module records accesses.
pub fn only() -> bool {
    counts().only == Some(true)
}

/// In a fresh child process: what was counted is the parent's.
pub fn begin_child() {
    counts().totals.clear();
}

/// Gives a module its slots.
///
/// # Safety
///
/// `counting` follows the layout of `bf-abi`, as far as its `type_size` says, and nobody else reads or writes it.
pub unsafe fn register(counting: *mut Counting) {
    // SAFETY:
    // - the first two fields have the same place in every version
    let (size, version) = unsafe { ((*counting).type_size, (*counting).abi_version) };
    if version != ABI_VERSION || (size as usize) < size_of::<Counting>() {
        log::remark(format!(
            "a module was compiled for layout {version} of the counters, this runtime reads {ABI_VERSION}: it is not counted"
        ));
        return;
    }
    // SAFETY:
    // - this version's layout, all of it present
    let counting = unsafe { &mut *counting };
    // SAFETY:
    // - tables of as many elements as the counts say, of plain numbers; places as `Kept` wants them
    let mut counted = unsafe {
        Counted {
            address: (&raw const *counting) as usize,
            every_block: counting.flags & Counting::EVERY_BLOCK != 0,
            first: 0,
            slots: table(counting.slots, counting.n_slots),
            parts: table(counting.parts, counting.n_parts),
            terms: table(counting.terms, counting.n_terms),
            functions: table(counting.functions, counting.n_functions),
            strings: table(counting.strings.cast(), counting.n_strings),
            places: Kept::new(counting.places),
        }
    };
    let mut counts = counts();
    counts.only = Some(counting.flags & Counting::ONLY != 0 && counts.only != Some(false));
    // A library that is loaded over and over goes on where it was.
    let address = counted.address;
    let known = counts.modules.iter_mut().find(|known| {
        (&known.slots, &known.parts, &known.terms, &known.functions, &known.strings)
            == (&counted.slots, &counted.parts, &counted.terms, &counted.functions, &counted.strings)
            && known.places.is_like(&counted.places)
    });
    if let Some(known) = known {
        counting.base = 8 * known.first as u64;
        known.address = address;
    } else if counts.used + counted.slots.len() > counts.room {
        if counts.room < MAX_SLOTS as usize {
            // Where the others are, which nobody reads either.
            counting.base = 0;
        }
        drop(counts);
        log::remark("more counts in all modules than there is room for: the last ones are not counted".to_owned());
    } else {
        counted.first = counts.used;
        counting.base = 8 * counted.first as u64;
        counts.used += counted.slots.len();
        counts.modules.push(counted);
    }
}

/// One thread's slots.
pub struct Own {
    /// Null: it has none.
    start: *mut u64,
    /// What they held when they were last read; what is missing was zero.
    read: Vec<u64>,
    /// What is counted from now on belongs there.
    pub mode: Mode,
    /// Whether anything was counted since the thread began.
    pub used: bool,
}

impl Own {
    /// Without slots.
    pub const fn new() -> Self {
        Self { start: ptr::null_mut(), read: Vec::new(), mode: Mode::Ignore, used: false }
    }

    /// Where they are, mapped if need be. Kept for good.
    pub fn start(&mut self) -> *mut u64 {
        if self.start.is_null() {
            let Some(start) = map(SLOTS) else {
                log::remark("no address space for the counters of a thread: they are too low".to_owned());
                return scratch();
            };
            self.start = start;
        }
        self.start
    }

    /// Adds what was counted since the last time to the totals; from now on it belongs to `mode`.
    pub fn settle(&mut self, mode: Mode) {
        let bucket = match std::mem::replace(&mut self.mode, mode) {
            Mode::Feed(bucket) => bucket,
            Mode::Ignore => Bucket::UNCOUNTED,
        };
        if self.start.is_null() {
            return;
        }
        let counts = &mut *counts();
        let (used, bucket) = (counts.used, usize::from(bucket.0));
        counts.totals.resize(counts.totals.len().max(bucket + 1), Vec::new());
        let totals = &mut counts.totals[bucket];
        totals.resize(used, 0);
        self.read.resize(used, 0);
        for (slot, (total, read)) in totals.iter_mut().zip(&mut self.read).enumerate() {
            // SAFETY:
            // - within the mapping; its thread adds to it at any time
            let now = unsafe { self.start.add(slot).read_volatile() };
            self.used |= now != *read;
            *total += now.wrapping_sub(*read);
            *read = now;
        }
    }

    /// What was counted so far is not this process's.
    pub fn forget(&mut self) {
        if self.start.is_null() {
            return;
        }
        self.read.resize(counts().used, 0);
        for (slot, read) in self.read.iter_mut().enumerate() {
            // SAFETY:
            // - as in `settle`
            *read = unsafe { self.start.add(slot).read_volatile() };
        }
        self.used = false;
    }

    /// Makes them fit for another thread.
    pub fn rest(&mut self) {
        self.read.clear();
        self.used = false;
        if !self.start.is_null() {
            // SAFETY:
            // - the mapping, which nobody uses; its pages are zero from here on
            unsafe { system::advise(self.start.cast(), 8 * SLOTS, libc::MADV_DONTNEED) };
        }
    }
}

// SAFETY:
// - the mapping is kept for good; its thread writes to it, others only read
unsafe impl Send for Own {}

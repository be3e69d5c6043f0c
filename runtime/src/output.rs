//! The profile and the trace as files.

use crate::process::{self, Identity, PATIENCE, lock, lock_for};
use crate::recording::Extent;
use crate::stack::{self, Stack};
use crate::thread::{self, add_calls};
use crate::{bare, calipers, counters, log, memory, modules, objects, paths, quiet, slots, topology};
use bf_collect::{Batch, Bucket, Config, Snapshot};
use bf_profile::trace::{Access, Event, Header, Writer};
use bf_profile::{Callee, Counters, EndReason, Meta, Patterns, Places, Process, Profile};
use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// One profile is written at a time.
static OUTPUT: Mutex<()> = Mutex::new(());

/// Keeps profiles from being written until it is dropped: for `fork`.
pub fn hold() -> MutexGuard<'static, ()> {
    lock(&OUTPUT)
}

/// Reads every thread's buffer and writes the profile. Failures are told to those who asked for remarks, nobody else.
pub fn write(reason: &EndReason) {
    let stack = Stack::new();
    // SAFETY:
    // - the stack was made for this
    quiet::writing(|| unsafe { stack::call(stack.top(), || write_here(reason)) });
}

fn write_here(reason: &EndReason) {
    let Some(_output) = lock_for(&OUTPUT) else { return };
    if process::finished() {
        return;
    }
    let Some(identity) = process::identity() else { return };
    let process = collect(&identity, reason);
    if let Some(mut trace) = process::recorder().and_then(process::Recorder::trace) {
        match reason {
            EndReason::Checkpoint => trace.flush(),
            _ => trace.end(),
        }
    }
    match save(&identity.profile, &Profile { processes: vec![process] }) {
        Ok(()) => log::say(&format!("wrote {}", identity.profile.display())),
        Err(error) => log::say(&format!("failed to write {}: {error}", identity.profile.display())),
    }
}

fn collect(identity: &Identity, reason: &EndReason) -> Process {
    let (mut calls, mut threads) = (Vec::new(), 0);
    let (mut snapshot, patterns);
    let extent = match reason {
        EndReason::Checkpoint | EndReason::Exec => Extent::Complete,
        _ => Extent::Everything,
    };
    if let Some(recorder) = process::recorder()
        && let Some(registry) = thread::registry_for_a_while()
    {
        calls.clone_from(&registry.calls);
        threads = registry.used;
        // Held until the stacks were read, so that they all stand at the same moment.
        let mut held = Vec::with_capacity(registry.live.len());
        for thread in &registry.live {
            let Some(mut inner) = thread.inner_for_a_while() else { continue };
            inner.drain(recorder, extent);
            add_calls(&mut calls, inner.accumulator().calls());
            threads += u32::from(inner.settle());
            held.push(inner);
        }
        recorder.settle();
        snapshot = recorder.session().snapshot(PATIENCE);
        patterns = recorder.patterns().map_or_else(Patterns::default, |patterns| patterns.found(modules::site));
    } else {
        snapshot = Snapshot::empty(&process::config());
        patterns = Patterns::default();
    }
    if snapshot.missing > 0 {
        log::remark(format!("{} stacks were busy at the end and are left out", snapshot.missing));
    }
    if snapshot.again > 0 {
        let (again, all) = (snapshot.again, snapshot.accesses);
        log::say(&format!(
            "{again} of {all} accesses came in rounds like one before: counted again, not analysed again"
        ));
    }
    // Before the counts, in the order of locks.
    let paths = paths::found();
    let counters = counters::collect(&paths);
    // Nobody else names places, but for counters.
    let named = process::config().by_item
        || snapshot.sharing.iter().any(|lines| !lines.lines.is_empty())
        || !patterns.strides.is_empty()
        || !patterns.by_function.is_empty()
        || !paths.is_empty();
    let mut places = if named || !counters.places.is_empty() { modules::places() } else { Places::default() };
    let (mut objects, mut paths_of_items) = (bf_profile::Objects::default(), Vec::new());
    if let Some(recorder) = process::recorder().filter(|_| named) {
        objects::name(&mut snapshot.sharing, &snapshot.replaced, recorder.session());
        let Config { by_object, by_path, .. } = *recorder.session().config();
        if by_object || by_path {
            (objects, paths_of_items) = objects::tables(recorder, &mut places, &paths);
        }
    }
    let paths = paths::table(&paths, paths_of_items, counters::by_path(&counters, &paths));
    Process {
        meta: Meta {
            elapsed_ns: identity.start.elapsed().as_nanos() as u64,
            end: reason.clone(),
            threads,
            accesses: snapshot.accesses - snapshot.skipped,
            dropped: snapshot.dropped + snapshot.skipped,
            modules: modules::with(|known| known.names.iter().cloned().collect()),
            ..meta(identity)
        },
        machine: topology::machine(),
        uninstrumented: uninstrumented(&calls, &counters),
        log: remarks(identity, &snapshot),
        tags: calipers::tags(),
        lines: snapshot.lines,
        sampled: snapshot.sampled,
        coherence: snapshot.coherence,
        sharing: snapshot.sharing,
        counters,
        places,
        objects,
        paths,
        items: snapshot.items.into_iter().filter(|lines| !lines.stacks.is_empty()).collect(),
        patterns,
    }
}

/// The log, with what could not be put there at the time.
fn remarks(identity: &Identity, snapshot: &Snapshot) -> Vec<String> {
    let mut lines = log::lines();
    if memory::limit_reached() {
        let bytes = process::options().max_memory.unwrap_or_default();
        let (done, all) = (snapshot.accesses - snapshot.skipped, snapshot.accesses);
        lines.push(format!("truncated: memory limit of {bytes} bytes (BF_MAX_MEMORY), after {done} of {all} accesses"));
    }
    if let Some(at) = memory::stopped() {
        let seconds = at.duration_since(identity.start).as_secs_f64();
        lines.push(format!("recording stopped after {seconds:.1} s for want of memory"));
    }
    lines
}

/// What is known from the beginning.
fn meta(identity: &Identity) -> Meta {
    Meta {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        executable: String::from_utf8_lossy(&identity.facts.executable).into_owned(),
        command: command(),
        pid: identity.facts.pid,
        parent: std::os::unix::process::parent_id(),
        host: identity.facts.host.clone(),
        rank: identity.facts.rank,
        start_ns: identity.start_ns,
        aslr: randomised(),
        ..Meta::default()
    }
}

/// Callees that no module defines, most calls first. Where no accesses are recorded, the counters tell.
fn uninstrumented(calls: &[u64], counters: &Counters) -> Vec<Callee> {
    let counted = if slots::only() { counters::calls(counters).collect() } else { Vec::new() };
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    modules::with(|known| {
        let recorded = known.callees.iter().map(String::as_str).zip(calls.iter().copied());
        let all = recorded.chain(counted).chain(counters::indirect(counters));
        for (name, calls) in all.filter(|&(name, calls)| calls > 0 && !known.functions.contains(name)) {
            *sums.entry(name.to_owned()).or_default() += calls;
        }
    });
    let mut callees: Vec<_> = sums.into_iter().map(|(name, calls)| Callee { name, calls }).collect();
    callees.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    callees
}

/// Under a temporary name in the same directory, then renamed: an older profile stays whole if this fails. What is no
/// plain file (a pipe, a device) is written to as it is.
fn save(path: &Path, profile: &Profile) -> Result<(), bf_profile::Error> {
    if path.symlink_metadata().is_ok_and(|data| !data.is_file() && !data.is_symlink())
        || path.metadata().is_ok_and(|data| !data.is_file())
    {
        let file = OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK).open(path);
        return Ok(file?.write_all(&bytes(profile)?)?);
    }
    let bytes = bytes(profile)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let write = || {
        File::create(&temporary)?.write_all(&bytes)?;
        fs::rename(&temporary, path)
    };
    let mut written = write();
    if written.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EMFILE)) {
        bare::with_a_file_fewer(|| written = write());
    }
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}

/// The file's contents, made before there is a file: no half of one stays behind when memory runs out.
fn bytes(profile: &Profile) -> Result<Vec<u8>, bf_profile::Error> {
    let mut bytes = Vec::new();
    bf_profile::write(profile, &mut bytes)?;
    Ok(bytes)
}

/// Base name of the executable.
pub fn executable() -> Vec<u8> {
    let link = fs::read_link("/proc/self/exe").unwrap_or_default().into_os_string().into_vec();
    let path = link.strip_suffix(b" (deleted)").unwrap_or(&link);
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec()
}

/// Name of the machine.
pub fn host() -> String {
    // SAFETY:
    // - plain data, all zero is valid; `uname` fills it with NUL-terminated strings
    let name = unsafe {
        let mut name = std::mem::zeroed::<libc::utsname>();
        libc::uname(&raw mut name);
        name
    };
    // SAFETY:
    // - as above
    unsafe { CStr::from_ptr(name.nodename.as_ptr()) }.to_string_lossy().into_owned()
}

/// Number within a parallel job, as its launcher tells it.
pub fn rank() -> Option<u32> {
    let names = ["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
    names.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

fn command() -> Vec<String> {
    let line = fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words = line.iter().rposition(|byte| !b" \0".contains(byte)).map_or(0, |last| last + 1);
    // A program that writes a title there fills it up.
    let line = if matches!(line, [.., b' '] | [.., 0, 0]) { &line[..words] } else { line };
    line.split(|&byte| byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

/// Whether address-space randomisation is on for this process.
fn randomised() -> Option<bool> {
    // SAFETY:
    // - takes no pointers; this argument only asks
    let personality = unsafe { libc::personality(0xffff_ffff) };
    if personality >= 0 && personality & libc::ADDR_NO_RANDOMIZE != 0 {
        return Some(false);
    }
    let system = fs::read_to_string("/proc/sys/kernel/randomize_va_space").ok()?;
    Some(system.trim() != "0")
}

/// File descriptors below this are the program's.
const FIRST_DESCRIPTOR: i32 = 600;

/// The trace of this process, until it ends or something goes wrong.
pub struct Trace {
    writer: Option<Writer<io::BufWriter<File>>>,
    name: OsString,
    /// By bucket: whether its name stands in the trace.
    named: Vec<bool>,
    scratch: Vec<Access>,
}

impl Trace {
    /// Begins it, if one is asked for.
    pub fn create(identity: &Identity, config: &Config) -> Option<Self> {
        let path = identity.trace.as_ref()?;
        let header = Header {
            meta: meta(identity),
            machine: topology::machine(),
            line_sizes: config.line_sizes.clone(),
            max_set_bits: config.limits.max_set_bits,
            max_ways: config.limits.max_ways,
        };
        let opened = File::create(path).and_then(out_of_the_way).map_err(bf_profile::Error::from);
        let begin = |file| Writer::new(io::BufWriter::new(file), &header);
        match quiet::writing(|| opened.and_then(begin)) {
            Ok(writer) => Some(Self {
                writer: Some(writer),
                name: path.clone().into_os_string(),
                named: vec![false; 256],
                scratch: Vec::new(),
            }),
            Err(error) => {
                log::remark(format!("failed to write the trace {}: {error}", path.display()));
                None
            }
        }
    }

    fn write(&mut self, what: impl FnOnce(&mut Writer<io::BufWriter<File>>) -> Result<(), bf_profile::Error>) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = quiet::writing(|| what(writer))
        {
            let name = String::from_utf8_lossy(self.name.as_bytes());
            log::remark(format!("the trace {name} stops early: {error}"));
            // What it still holds back is dropped with it.
            quiet::writing(|| self.writer = None);
        }
    }

    /// A thread took this slot, which was made when that number says.
    pub fn taken(&mut self, slot: u32, thread: u64) {
        self.write(|writer| writer.event(&Event::SlotTaken { slot }));
        self.write(|writer| writer.event(&Event::SlotMade { slot, thread }));
    }

    /// The thread on this slot ended.
    pub fn released(&mut self, slot: u32) {
        self.write(|writer| writer.event(&Event::SlotReleased { slot }));
    }

    /// Accesses of one thread.
    pub fn batch(&mut self, slot: u32, batch: &Batch, bucket: Bucket) {
        /// Accesses written at a time: a batch of loops may stand for very many.
        const MOST: usize = 1 << 16;
        if bucket != Bucket::UNCOUNTED && !std::mem::replace(&mut self.named[usize::from(bucket.0)], true) {
            let name = calipers::tag_name(bucket);
            self.write(|writer| writer.event(&Event::TagName { bucket: bucket.0, name }));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        batch.for_each(|a| {
            scratch.push(Access { address: a.address, size: a.size, store: a.store });
            if scratch.len() == MOST {
                self.write(|writer| writer.chunk(slot, bucket.0, &scratch));
                scratch.clear();
            }
        });
        if !scratch.is_empty() {
            self.write(|writer| writer.chunk(slot, bucket.0, &scratch));
        }
        self.scratch = scratch;
    }

    /// Lets the file have what was held back.
    pub fn flush(&mut self) {
        self.write(Writer::flush);
    }

    /// Nothing more will come.
    pub fn end(&mut self) {
        if let Some(writer) = self.writer.take() {
            let ended = writer.finish().and_then(|mut file| Ok(file.flush()?));
            if let Err(error) = ended {
                log::say(&format!("the trace stops early: {error}"));
            }
        }
    }

    /// Forgets the trace without a byte more: it is another process's.
    pub fn abandon(&mut self) {
        std::mem::forget(self.writer.take());
    }
}

/// Moves an open file to a number that the program does not expect to get.
fn out_of_the_way(file: File) -> io::Result<File> {
    // SAFETY:
    // - takes no pointers; the new number belongs to nobody else
    unsafe {
        let number = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
        if number < 0 { Ok(file) } else { Ok(File::from_raw_fd(number)) }
    }
}

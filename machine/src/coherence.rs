//! Latency of lines by their coherence state and by who holds them.
//!
//! States are prepared by the documented recipes (Molka, section 3.2): M: write; E: write, flush, read; S: make E, then
//! another core reads; F (MESIF): as S, and the owner is the last to read; O (MOESI): make M, then another core reads. A
//! recipe is a hope, so each prepared state is examined: the owner's own loads say whether it still holds the lines, and
//! its atomic additions whether it holds them alone.

use crate::{
    error::Error,
    partner::{self, Partner},
    session::{Session, switches},
    stat::{Cluster, Figure, Take, median},
    sys::{
        chain::{Chain, Touch},
        pages::Buffer,
        stream::{Kernel, Operation, Range, STEP},
    },
};
use serde::Serialize;
use std::sync::Mutex;

/// The lines, and how long the last look at them took.
struct Lines {
    chain: Chain,
    ticks: u64,
}

/// A look at all lines.
#[derive(Clone, Copy)]
enum Look {
    /// A load of each.
    Load,
    /// An atomic addition to each.
    Own,
    /// A flush of each.
    Flush,
}

/// A coherence state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// Modified.
    M,
    /// Exclusive.
    E,
    /// Shared.
    S,
    /// Owned: modified and shared (MOESI).
    O,
    /// Forward: shared, and the one to answer (MESIF).
    F,
    /// Invalid: nobody holds it.
    I,
}

/// Where the lines are when the reader comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the reader's own caches.
    Own,
    /// In another core's caches.
    Other,
    /// Pushed out of the reader's own caches into the shared one.
    Last,
    /// In no cache.
    Memory,
}

/// What a prepared state shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Signature {
    /// Nanoseconds of the owner's own load.
    pub load_ns: f64,
    /// Nanoseconds of the owner's atomic addition and the load of the next address.
    pub own_ns: f64,
    /// Nanoseconds of throwing a line out, one after the other.
    pub flush_ns: f64,
}

/// A state in a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The state prepared.
    pub state: State,
    /// Where.
    #[serde(rename = "where")]
    pub place: Place,
    /// The cache that the lines fit in.
    pub level: String,
    /// CPU that reads.
    pub reader: u32,
    /// CPU that prepared and holds the lines.
    pub owner: u32,
    /// CPU that has copies; the reader itself where there is no third, its own copies then pushed out.
    pub sharer: Option<u32>,
    /// Bytes of all lines.
    pub size_bytes: usize,
    /// Nanoseconds of the reader's load: the median; `None` if every sample was interrupted.
    pub ns: Option<f64>,
    /// Distance between the three rounds that agree best.
    pub spread_ns: Option<f64>,
    /// Whether three rounds agreed, and no others agreed on something else.
    pub stable: bool,
    /// Nanoseconds that rounds kept coming back to, if more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Cluster>,
    /// What the state showed of itself.
    pub signature: Signature,
    /// Whether that is how the state must look.
    pub verified: bool,
    /// What was expected and seen, in words.
    pub verdict: String,
}

/// A state to prepare.
#[derive(Clone, Copy, Debug)]
struct Case {
    state: State,
    place: Place,
}

/// Samples of a round.
const SAMPLES: usize = 15;
/// Looks at a state before it is said not to be what it should be: others disturb it, too.
const LOOKS: usize = 3;
/// Passes over the evicting memory: caches that only approximate LRU keep some lines over one.
const EVICTIONS: u64 = 2;
/// An atomic addition to lines that others share takes at least this much longer than to one's own.
const SHARED: f64 = 1.5;
/// Loads of lines in one's own caches take at most this much longer than those of lines just written.
const HELD: f64 = 1.6;

/// Measures all states that this machine's protocol has, in lines of the nearest and of the second cache.
///
/// # Errors
/// There is only one CPU, or one cannot be used, or no cache is known, or there is not enough memory.
pub fn all(session: &Session) -> Result<Vec<Point>, Error> {
    let (reader, owner) = session.two("coherence")?;
    let third = session.cpus.get(2).copied();
    let places = session.places();
    let levels = 2.min(places.len() - 1);
    if levels == 0 {
        return Err(Error::NoCaches);
    }
    let evict = session.buffer(evicting_bytes(session))?;
    let mut points = Vec::new();
    for (index, (level, bytes)) in places.iter().take(levels).enumerate() {
        let chain = Chain::lines(session.buffer(*bytes)?, *bytes, session.topology.line(), 5);
        let lines = Mutex::new(Lines { chain, ticks: 0 });
        let others: Vec<u32> = [Some(owner), third].into_iter().flatten().collect();
        let found = partner::with(&others, |partners| {
            let bench = Bench { session, lines: &lines, partners, evict: &evict, reader };
            let part = |index| index as f64 / levels as f64;
            session.progress.within(part(index)..part(index + 1), || bench.cases(level, *bytes))
        })?;
        points.extend(found);
    }
    Ok(points)
}

/// Enough to push all lines out of one's private caches, and little enough to leave them in a shared one.
fn evicting_bytes(session: &Session) -> usize {
    let private = session.topology.data_caches().filter(|cache| cache.scope == crate::topology::Scope::Private);
    let bytes = private.map(|cache| cache.size_bytes as usize).max().unwrap_or(1 << 20) * 2;
    bytes.div_ceil(STEP) * STEP
}

/// States of the protocol of a vendor's processors: AMD and Arm keep dirty lines shared (O), Intel names one of the sharers
/// to answer (F).
fn protocol(vendor: &str) -> &'static [State] {
    match vendor {
        "GenuineIntel" => &[State::M, State::E, State::S, State::F],
        _ => &[State::M, State::E, State::S, State::O],
    }
}

/// What the figures say of a cache that the topology calls shared: `None`, or in a sentence that it hardly is.
#[must_use]
pub fn doubt(session: &Session, points: &[Point]) -> Option<String> {
    let find = |state, place| {
        points.iter().find(|point| (point.state, point.place) == (state, place)).and_then(|point| point.ns)
    };
    let (other, last, memory) =
        (find(State::E, Place::Other)?, find(State::E, Place::Last)?, find(State::I, Place::Memory)?);
    let owner = points.iter().find(|point| point.place == Place::Other)?.owner;
    let cache =
        session.topology.data_caches().find(|cache| cache.sharing.contains(&owner) && cache.sharing.len() > 1)?;
    (other > memory / 2.0 && other > last * 3.0).then(|| {
        format!(
            "CPUs {} and {owner} share {} by the topology, and yet lines pass between them in {other:.0} ns, hardly faster \
             than from memory ({memory:.0} ns) and slower than from {} ({last:.0} ns): they are probably on different dies",
            session.first(),
            cache.name,
            cache.name
        )
    })
}

struct Bench<'a, 'job> {
    session: &'a Session,
    lines: &'job Mutex<Lines>,
    partners: &'a [Partner<'job>],
    evict: &'a Buffer,
    reader: u32,
}

impl<'job> Bench<'_, 'job> {
    fn cases(&self, level: &str, bytes: usize) -> Vec<Point> {
        let vendor = self.session.topology.identity.as_ref().map_or("", |identity| identity.vendor.as_str());
        let mut cases = Vec::new();
        for place in [Place::Own, Place::Other] {
            cases.extend(protocol(vendor).iter().map(|state| Case { state: *state, place }));
        }
        cases.extend([State::M, State::E].map(|state| Case { state, place: Place::Last }));
        cases.push(Case { state: State::I, place: Place::Memory });
        // Lines just written, and lines pushed out, as their owner sees them: the measure for the other signatures.
        let own = self.signature(Case { state: State::M, place: Place::Own });
        let last = self.signature(Case { state: State::E, place: Place::Last });
        let samples = |case: &Case| Ok::<_, Error>((0..SAMPLES).filter_map(|_| self.sample(*case)).collect());
        let figures = self.session.settle_all(Take::Median, &cases, samples).unwrap_or_default();
        let point = |(case, figure)| self.point(case, figure, level, bytes, (own, last));
        cases.into_iter().zip(figures).map(point).collect()
    }

    fn point(
        &self,
        case: Case,
        figure: Option<Figure>,
        level: &str,
        bytes: usize,
        (own, last): (Signature, Signature),
    ) -> Point {
        let mut signature = self.signature(case);
        let (mut verified, mut verdict) = judge(case, signature, own, last);
        for _ in 1..LOOKS {
            if verified {
                break;
            }
            signature = self.signature(case);
            (verified, verdict) = judge(case, signature, own, last);
        }
        Point {
            state: case.state,
            place: case.place,
            level: level.to_owned(),
            reader: self.reader,
            owner: self.owner(case),
            sharer: matches!(case.state, State::S | State::O | State::F).then(|| self.sharer(case)),
            size_bytes: bytes,
            ns: figure.as_ref().map(|figure| figure.value),
            spread_ns: figure.as_ref().map(|figure| figure.spread),
            stable: figure.as_ref().is_some_and(|figure| figure.stable),
            clusters: figure.map(|figure| figure.clusters).unwrap_or_default(),
            signature,
            verified,
            verdict,
        }
    }

    fn owner(&self, case: Case) -> u32 {
        if case.place == Place::Other { self.partners[0].cpu } else { self.reader }
    }

    /// The reader's lines are shared with the partner; the partner's with a third, or with the reader if there is none.
    fn sharer(&self, case: Case) -> u32 {
        match (case.place, self.partners) {
            (Place::Other, [_, third, ..]) => third.cpu,
            (Place::Other, _) => self.reader,
            (_, partners) => partners[0].cpu,
        }
    }

    /// Nanoseconds of the reader's load of lines freshly prepared; `None` if anybody was interrupted.
    fn sample(&self, case: Case) -> Option<f64> {
        self.quietly(|| {
            self.prepare(case);
            self.look(self.reader, Look::Load)
        })
    }

    /// Looks at lines freshly prepared with the owner's eyes.
    fn signature(&self, case: Case) -> Signature {
        let median_of = |look| {
            let sample = || {
                self.prepare(case);
                self.look(self.owner(case), look)
            };
            let samples: Vec<f64> = (0..SAMPLES).filter_map(|_| self.quietly(sample)).collect();
            median(&samples).unwrap_or(f64::NAN)
        };
        Signature { load_ns: median_of(Look::Load), own_ns: median_of(Look::Own), flush_ns: median_of(Look::Flush) }
    }

    /// Nanoseconds that a look at a line takes on a CPU.
    fn look(&self, cpu: u32, look: Look) -> f64 {
        let lines = self.lines;
        self.on(cpu, move || {
            let mut lines = lines.lock().expect("jobs do not panic");
            let count = lines.chain.count() as u64;
            lines.ticks = match look {
                Look::Load => lines.chain.walk(count).0,
                Look::Own => lines.chain.walk_owning(count),
                Look::Flush => lines.chain.touch(Touch::Flush),
            };
        });
        let lines = self.lines.lock().expect("jobs do not panic");
        self.session.clock.ns(lines.ticks) / lines.chain.count() as f64
    }

    /// What `work` gives, unless anybody was interrupted meanwhile.
    fn quietly<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let count = || switches() + self.partners.iter().map(Partner::switches).sum::<i64>();
        let before = count();
        let done = work();
        (count() == before).then_some(done)
    }

    /// Brings the lines into the state.
    fn prepare(&self, case: Case) {
        let (owner, sharer) = (self.owner(case), self.sharer(case));
        match case.state {
            State::M => self.touch(owner, &[Touch::Write]),
            State::E => self.touch(owner, &[Touch::Write, Touch::Flush, Touch::Read]),
            State::S => {
                self.touch(owner, &[Touch::Write, Touch::Flush, Touch::Read]);
                self.touch(sharer, &[Touch::Read]);
            }
            State::F => {
                self.touch(sharer, &[Touch::Write, Touch::Flush, Touch::Read]);
                self.touch(owner, &[Touch::Read]);
            }
            State::O => {
                self.touch(owner, &[Touch::Write]);
                self.touch(sharer, &[Touch::Read]);
            }
            State::I => self.touch(owner, &[Touch::Write, Touch::Flush]),
        }
        // The reader's own copies must go where they would answer in the owner's place.
        let reader_shares = case.place == Place::Other && sharer == self.reader;
        if case.place == Place::Last || (reader_shares && !matches!(case.state, State::M | State::E | State::I)) {
            let kernel = Kernel { operation: Operation::Read, width: 64 };
            kernel.run(Range::new(self.evict, 0, evicting_bytes(self.session)), None, EVICTIONS);
        }
    }

    /// Lets a CPU do something to all lines.
    fn touch(&self, cpu: u32, touches: &'static [Touch]) {
        let lines = self.lines;
        self.on(cpu, move || {
            let lines = lines.lock().expect("jobs do not panic");
            for touch in touches {
                lines.chain.touch(*touch);
            }
        });
    }

    /// Lets a CPU do `work`: the reader's is this thread's.
    fn on(&self, cpu: u32, work: impl FnOnce() + Send + 'job) {
        match self.partners.iter().find(|partner| partner.cpu == cpu) {
            Some(partner) => partner.run(work),
            None => work(),
        }
    }
}

/// Whether a state looks as it must: held or not, alone or not, and for what is in no cache slower than what is in the last
/// one. `own` is the signature of lines just written, `last` that of lines pushed out.
fn judge(case: Case, seen: Signature, own: Signature, last: Signature) -> (bool, String) {
    let held = seen.load_ns <= own.load_ns * HELD;
    let alone = seen.own_ns <= own.own_ns * SHARED;
    let (good, want) = match (case.place, case.state) {
        (Place::Own | Place::Other, State::M | State::E) => (held && alone, "held by its owner alone"),
        (Place::Own | Place::Other, _) => (held && !alone, "held by its owner and by others"),
        (Place::Last, _) => (!held, "held, but not near the core"),
        (Place::Memory, _) => (!held && seen.load_ns > last.load_ns * SHARED, "held by nobody"),
    };
    // Processors that expect data to wander do so.
    let taken_over = if case.state == State::O && !held { ": who read the dirty lines took them over" } else { "" };
    let verdict = if good {
        want.to_owned()
    } else {
        format!(
            "should be {want}; its owner's loads take {:.1} ns ({:.1} when just written), atomic additions {:.1} ns \
             ({:.1}){taken_over}",
            seen.load_ns, own.load_ns, seen.own_ns, own.own_ns
        )
    };
    (good, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(load_ns: f64, own_ns: f64) -> Signature {
        Signature { load_ns, own_ns, flush_ns: 50.0 }
    }

    #[test]
    fn states_are_known_by_what_their_owner_sees() {
        let (own, last) = (signature(1.0, 6.0), signature(12.0, 18.0));
        let good = |state, place, seen| judge(Case { state, place }, seen, own, last).0;
        assert!(good(State::M, Place::Other, signature(1.2, 6.1)));
        assert!(good(State::E, Place::Own, signature(1.0, 6.0)));
        assert!(good(State::S, Place::Other, signature(1.0, 40.0)));
        assert!(good(State::O, Place::Own, signature(1.0, 60.0)));
        let wandered = judge(Case { state: State::O, place: Place::Own }, signature(29.0, 30.0), own, last);
        assert!(!wandered.0 && wandered.1.ends_with("took them over"), "{wandered:?}");
        assert!(good(State::E, Place::Last, signature(12.0, 18.0)));
        assert!(good(State::I, Place::Memory, signature(120.0, 130.0)));
        assert!(!good(State::E, Place::Other, signature(1.0, 40.0)), "somebody has a copy");
        assert!(!good(State::S, Place::Other, signature(1.0, 6.0)), "nobody has a copy");
        assert!(!good(State::M, Place::Other, signature(12.0, 20.0)), "it was pushed out");
        assert!(!good(State::I, Place::Memory, signature(12.0, 18.0)), "it is still in the last cache");
        assert!(!good(State::M, Place::Other, signature(f64::NAN, f64::NAN)), "nothing was seen");
    }

    #[test]
    fn protocols() {
        assert!(protocol("GenuineIntel").contains(&State::F) && !protocol("GenuineIntel").contains(&State::O));
        assert!(protocol("AuthenticAMD").contains(&State::O) && !protocol("AuthenticAMD").contains(&State::F));
    }
}
